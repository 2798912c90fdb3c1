"""Generated training text: tickets, reviews, mails, notes, news, questions, JSON records of invented firms and people.

A text belongs to a *world*: one firm, its goods, a customer, a place. Texts of one world share names and goods, so an
example in a prompt says something about what follows. The sentences are in ``language_model_patterns.toml``; none is
taken from the bundled tickets, which stay evaluation data (four of their label names are everyday words used here).
News and questions have patterns of their own (``language_model_press``).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import language_model_press as press

PATTERNS, WORDS = press.read("patterns"), press.read("words")
KINDS = (*PATTERNS, *press.KINDS)

ORDINALS = ("second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True)
class World:
    """What the texts of one firm and one customer have in common.

    Attributes:
        blanks: Slot to the few values that it takes here.
        greets: Chance that a text opens and closes politely.
        desk: What its news and its questions have in common.
    """

    blanks: dict[str, list[str]]
    greets: float
    desk: press.Desk


def world(rng: random.Random) -> World:
    """Draws a firm, its goods, a customer and their places."""
    goods = WORDS["goods"][rng.choice(list(WORDS["goods"]))]
    shop = (
        f"{rng.choice(WORDS['firm_first'])} {rng.choice(WORDS['firm_last'])}"
        if rng.random() < 0.7
        else f"{rng.choice(WORDS['surnames'])} & {rng.choice(WORDS['surnames'])}"
    )
    cities, people = rng.sample(WORDS["cities"], 3), rng.sample(WORDS["names"], 4)
    me = people[0] if rng.random() < 0.5 else f"{people[0]} {rng.choice(WORDS['surnames'])}"
    sign = rng.choice(["${}", "${}", "£{}", "€{}", "{} euros", "{} dollars", "{} francs"])
    items = rng.sample(goods, 2)
    blanks = {
        "shop": [shop], "item": items[:1], "item2": items[1:], "city": cities[:1], "city2": cities[1:], "me": [me],
        "staff": [people[1]], "staff2": people[2:], "plan": rng.sample(WORDS["plans"], 1),
        "courier": rng.sample(WORDS["couriers"], 1), "order": [_order(rng) for _ in range(2)],
        "money": [sign.format(_amount(rng)) for _ in range(2)], "money2": [sign.format(_amount(rng)) for _ in range(2)],
    }  # fmt: skip
    return World(blanks, rng.choice([0.0, 0.5, 1.0]), press.desk(rng))


def _amount(rng: random.Random) -> str:
    return (
        f"{rng.randrange(3, 400)}"
        if rng.random() < 0.5
        else f"{rng.randrange(3, 300)}.{rng.choice([50, 90, 95, 99, 20, 75])}"
    )


def _order(rng: random.Random) -> str:
    number = str(rng.randrange(10 ** rng.choice([3, 4, 5]), 10**6))
    return number if rng.random() < 0.6 else rng.choice("ABFHKRTX") + rng.choice(["", "-", rng.choice("CDEW")]) + number


def _value(slot: str, place: World, rng: random.Random) -> str:
    if slot in place.blanks:
        return rng.choice(place.blanks[slot])
    drawn: dict[str, Callable[[], str]] = {
        "month": lambda: rng.choice(WORDS["months"]), "time": lambda: rng.choice(WORDS["times"]),
        "day": lambda: rng.choice(WORDS["days"]), "day2": lambda: rng.choice(WORDS["days"]),
        "n": lambda: str(rng.randrange(2, 13)), "digit": lambda: str(rng.randrange(10)),
        "nth": lambda: rng.choice(ORDINALS), "code": lambda: str(rng.randrange(100, 600)),
        "hour": lambda: f"{rng.randrange(7, 21)}:{rng.choice(['00', '15', '30', '45'])}",
    }  # fmt: skip
    return drawn[slot]()


def fill(pattern: str, place: World, rng: random.Random) -> str:
    """Settles the choices of a pattern and fills its blanks."""
    return press.fill(pattern, lambda slot: _value(slot, place, rng), rng)


def text(kind: str, topic: str, place: World, rng: random.Random) -> str:
    """A text of a kind and topic.

    Args:
        kind: One of ``KINDS``.
        topic: One of the kind's topics.
        place: Whose text it is.
        rng: Source of chance.
    """
    if kind in press.KINDS:
        return press.KINDS[kind](topic, place.desk, rng)
    bank = PATTERNS[kind]
    about = bank["topics"][topic]
    lines = rng.sample(about["lines"], rng.choice([1, 1, 2] if kind != "notes" else [1, 2, 2]))
    polite = rng.random() < place.greets
    parts = [rng.choice(bank["openings"]) if polite else "", lines[0]]
    parts += [rng.choice(bank["details"])] if rng.random() < 0.6 else []
    parts += lines[1:]
    parts += [rng.choice(about["asks"])] if rng.random() < 0.6 else []
    parts += [rng.choice(bank["closings"])] if polite else []
    return fill(" ".join(part for part in parts if part), place, rng)


def topics(kind: str) -> list[str]:
    """The topics of a kind, which serve as labels."""
    return press.topics(kind) if kind in press.KINDS else list(PATTERNS[kind]["topics"])


def record(rng: random.Random) -> tuple[str, str]:
    """What a JSON record is of, and the record: an order, a person, a ticket and so on, all invented."""
    place = world(rng)
    value = {slot: rng.choice(values) for slot, values in place.blanks.items()}
    topic = rng.choice(topics("tickets"))
    date = f"20{rng.randrange(10, 30)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
    goods = [*place.blanks["item"], *place.blanks["item2"]]
    amount, stock, guests = float(_amount(rng)), rng.randrange(0, 80), rng.randrange(1, 9)
    made: dict[str, dict[str, Any]] = {
        "order": {"order": value["order"], "shop": value["shop"], "items": goods, "total": amount},
        "person": {
            "name": value["me"], "city": value["city"], "age": stock + 18, "friends": place.blanks["staff2"],
        },
        "product": {"name": value["item"], "price": amount, "stock": stock, "sold in": place.blanks["city2"]},
        "booking": {"date": date, "time": _value("hour", place, rng), "guests": guests, "name": value["me"]},
        "ticket": {"text": text("tickets", topic, place, rng), "label": topic},
    }  # fmt: skip
    kind = rng.choice(list(made))
    return kind, json.dumps(made[kind], ensure_ascii=False)
