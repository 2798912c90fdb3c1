"""Makes the bundled pool of invented public texts: ``python scripts/make_pool.py [--out FILE]``.

The sentences and words are in ``pool_*.toml``; news, quiz questions and some requests come from the generator of the
language model's training texts (``language_model_press``, ``language_model_made_up``). Everything is drawn from one
seed, so that the file is the same wherever it is made.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import language_model_made_up as made_up
import language_model_press as press

FOLDER = Path(__file__).parent
OUT = FOLDER.parent / "src" / "sottovoce" / "data" / "pool" / "texts.jsonl.gz"
SEED = 20261122
FILES = ("encyclopaedia", "opinion", "daily", "records", "assorted")
TRIES = 8
"""Drawn for each text; the one least like the others of its pattern stays."""
NEWS_PER_STORY, QUESTIONS_PER_LINE = 2, 1
EVERYDAY = {"tickets": ("request", 12), "reviews": ("review", 12), "mails": ("mail", 8), "notes": ("note", 10)}
"""What of the training texts' kinds is taken: its kind here, and texts a topic."""

CHOICE, SLOT = re.compile(r"\[([^\[\]]*)\]"), re.compile(r"\{(\w+)((?::\w+)*)\}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeioAEIO](?!ne\b|ne-|nce\b|u[rc])|8\d*\b|11\b|18\b)")


def _words() -> dict[str, list[str]]:
    own = tomllib.loads((FOLDER / "pool_words.toml").read_text("utf-8"))
    quiz = {slot: [str(value) for value in values] for slot, values in press.QUIZ["words"].items()}
    news = {slot: press.NEWS["words"][source] for slot, source in (("day", "days"), ("month", "months"))}
    cities = {"city": press.NEWS["words"]["cities"], "sea": quiz["body_of_water"]}
    return {**quiz, **news, **cities, **{slot: words.split(", ") for slot, words in own.items()}}


WORDS = _words()


def plural(words: str) -> str:
    """More than one of a noun, of its head where there is an ``of``."""
    head, of, rest = words.partition(" of ")
    if head.endswith(("s", "ch", "sh", "x")) and not head.endswith("fish"):
        head += "es"
    elif head.endswith("y") and head[-2] not in "aeiou":
        head = head[:-1] + "ies"
    elif not head.endswith("fish"):
        head += "s"
    return head + of + rest


CHANGES: dict[str, Callable[[str], str]] = {
    "a": lambda words: f"a {words}",
    "c": lambda words: words[:1].upper() + words[1:],
    "t": str.title,
    "l": str.lower,
    "s": plural,
    "bare": lambda words: re.sub(r"^(an?|the|my|our) ", "", words),
    "last": lambda words: words.split()[-1],
}


class Blanks:
    """The values of one text's blanks: a blank keeps its value, the same word with another digit has another one."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._known = rng, {}
        self._women = rng.random() < 0.5

    def __getitem__(self, slot: str) -> str:
        if slot not in self._known:
            self._draw(slot)
        return self._known[slot]

    def _draw(self, slot: str) -> None:
        name, digit = slot.rstrip("0123456789"), slot[len(slot.rstrip("0123456789")) :]
        if name in ("who", "first", "last"):
            self._person(digit)
        elif name in ("country", "nation"):
            self._known[f"country{digit}"], self._known[f"nation{digit}"] = self._other(
                press.NEWS["words"]["countries"], [[self._known.get(f"country{d}")] for d in ("", "2")]
            )
        elif name in PLAIN:
            self._known[slot] = PLAIN[name](self._rng, self)
        else:
            taken = [value for known, value in self._known.items() if known.rstrip("0123456789") == name]
            self._known[slot] = self._other(WORDS[name], taken)

    def _person(self, digit: str) -> None:
        names = WORDS["women"] if self._women == (digit == "") else WORDS["men"]
        taken = [value for known, value in self._known.items() if known.startswith("last")]
        first, last = self._rng.choice(names), self._other(WORDS["surnames"], taken)
        self._known |= {f"first{digit}": first, f"last{digit}": last, f"who{digit}": f"{first} {last}"}

    def _other(self, values: Any, taken: list[Any]) -> Any:
        heads = [value[0] if isinstance(value, list) else value for value in taken]
        return self._rng.choice([v for v in values if (v[0] if isinstance(v, list) else v) not in heads])

    def pronoun(self, woman: str, man: str) -> str:
        """The word for the first person of the text."""
        return woman if self._women else man


Drawn = Callable[[random.Random, Blanks], str]
PLAIN: dict[str, Drawn] = {
    "n": lambda rng, _: str(rng.randrange(2, 10)),
    "dozens": lambda rng, _: str(rng.randrange(12, 98)),
    "hundreds": lambda rng, _: str(rng.randrange(100, 990)),
    "thousands": lambda rng, _: f"{rng.randrange(1000, 5000):,}",
    "bignum": lambda rng, _: f"{rng.randrange(10, 400) * 100:,}",
    "year": lambda rng, _: str(rng.randrange(1895, 2016)),
    "later": lambda rng, blanks: str(min(int(blanks["year"]) + rng.randrange(2, 40), 2024)),
    "birth": lambda rng, _: str(rng.randrange(1790, 1920)),
    "death": lambda rng, blanks: str(int(blanks["birth"]) + rng.randrange(30, 85)),
    "olden": lambda rng, _: str(rng.randrange(1210, 1895)),
    "date": lambda rng, blanks: f"{rng.randrange(1, 29)} {blanks['month']} {rng.randrange(1935, 2005)}",
    "percent": lambda rng, _: f"{rng.randrange(2, 80)}{rng.choice(['%', ' percent'])}",
    "price": lambda rng, _: rng.choice(["${}", "£{}", "{} euros", "{} dollars"]).format(rng.randrange(4, 90) * 5),
    "money": lambda rng, _: f"{rng.choice(['$', '€', '£'])}{rng.randrange(2, 90)} {rng.choice(['million', 'billion'])}",
    "code": lambda rng, _: rng.choice("ABFGKLMRTX") + rng.choice(["-", ""]) + str(rng.randrange(2, 900)),
    "firm": lambda rng, blanks: f"{blanks[f'firm_name{rng.randrange(3, 9)}']} {rng.choice(WORDS['firm_kind'])}",
    "party": lambda rng, _: " ".join(rng.choice(press.NEWS["words"][part]) for part in ("party_first", "party_last")),
    "title": lambda rng, blanks: fill(rng.choice(WORDS["title_pattern"]), blanks, rng),
    "ship_name": lambda rng, _: rng.choice(WORDS["title_thing"]),
    "woman": lambda rng, _: f"{rng.choice(WORDS['women'])} {rng.choice(WORDS['surnames'])}",
    "he": lambda _, blanks: blanks.pronoun("she", "he"),
    "his": lambda _, blanks: blanks.pronoun("her", "his"),
}


def fill(pattern: str, blanks: Blanks, rng: random.Random) -> str:
    """Settles the choices of a pattern, inner ones first, and fills its blanks."""
    while (chosen := CHOICE.sub(lambda found: rng.choice(found[1].split("|")), pattern)) != pattern:
        pattern = chosen

    def value(found: re.Match[str]) -> str:
        words = blanks[found[1]]
        for change in reversed(found[2].split(":")[1:]):
            words = CHANGES[change](words)
        return words

    return ARTICLE.sub(r"\1n ", " ".join(SLOT.sub(value, pattern).split()))


def styled(text: str, pattern: str, style: str, rng: random.Random) -> str:
    """How a text is written: as a sentence, without capitals, or as headlines are."""
    if style == "lower" and rng.random() < 0.5:
        return text.lower()
    if style == "headline":
        form = rng.random()
        if form < 0.4:
            return text.lower()
        if form < 0.7:
            return re.sub(r"(^|(?<=\s))[a-z](?=\w{2})", lambda found: found[0].upper(), CHANGES["c"](text))
    return CHANGES["c"](text) if style or pattern.startswith("{") else text


def patterned(count: int, draw: Callable[[], str]) -> list[str]:
    """Texts that share few words: of some that are drawn, the one whose nearest of those before is farthest stays."""
    kept: list[tuple[str, set[str]]] = []
    for _ in range(count):
        drawn = [(text, set(text.lower().split())) for text in (draw() for _ in range(TRIES))]

        def likeness(one: tuple[str, set[str]]) -> float:
            return max((len(one[1] & other) / len(one[1] | other) for _, other in kept), default=0.0)

        kept.append(min(drawn, key=likeness))
    return [text for text, _ in kept]


def _source(*names: str) -> random.Random:
    """Chance of a section's own, so that a change in one section leaves the others as they are."""
    return random.Random(" ".join([str(SEED), *names]))


def _text(pattern: str, section: dict[str, Any], rng: random.Random) -> str:
    opening, detail, closing = (rng.choice(section.get(part, [""])) for part in ("openings", "details", "closings"))
    second = rng.choice(section["lines"].strip().splitlines()) if rng.random() < section.get("second", 0) else pattern
    body = pattern if second == pattern else f"{pattern} {second}"
    whole = fill(f"{opening} {body} {detail} {closing}", Blanks(rng), rng)
    return styled(whole, pattern, section.get("style", ""), rng)


def _press_text(kind: str, topic: str, rng: random.Random) -> str:
    return press.KINDS[kind](topic, press.desk(rng), rng)


def _everyday_text(kind: str, topic: str, rng: random.Random) -> str:
    return made_up.text(kind, topic, made_up.world(rng), rng)


def _own(name: str) -> Iterator[tuple[str, str]]:
    book = tomllib.loads((FOLDER / f"pool_{name}.toml").read_text("utf-8"))
    for title, section in ((key, value) for key, value in book.items() if isinstance(value, dict)):
        rng, kind = _source(name, title), section.get("kind", book.get("kind"))
        for pattern in section["lines"].strip().splitlines():
            yield from ((kind, text) for text in patterned(section["each"], partial(_text, pattern, section, rng)))


def _press() -> Iterator[tuple[str, str]]:
    for kind, own, topics, part, each in (
        ("news", "news", press.NEWS["news"]["topics"], "stories", NEWS_PER_STORY),
        ("questions", "question", press.QUIZ["questions"]["topics"], "lines", QUESTIONS_PER_LINE),
    ):
        for topic, about in topics.items():
            draw = partial(_press_text, kind, topic, _source(kind, topic))
            yield from ((own, text) for text in patterned(each * len(about[part]), draw))


def _everyday() -> Iterator[tuple[str, str]]:
    for kind, (own, each) in EVERYDAY.items():
        for topic in made_up.topics(kind):
            draw = partial(_everyday_text, kind, topic, _source(kind, topic))
            yield from ((own, text) for text in patterned(each, draw))


def pool() -> list[dict[str, str]]:
    """The rows: field ``text`` and field ``kind``. A text that was drawn twice, but for its capitals, is there once."""
    drawn = [row for name in FILES for row in _own(name)] + [*_press(), *_everyday()]
    once = {" ".join(text.lower().split()): (text, kind) for kind, text in drawn}
    rows = [{"text": text, "kind": kind} for text, kind in once.values()]
    _source("order").shuffle(rows)
    return rows


def lines() -> bytes:
    """The file's lines before they are packed."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in pool()).encode()


def packed(data: bytes) -> bytes:
    """Packed without a time, so that equal lines give an equal file."""
    into = io.BytesIO()
    with gzip.GzipFile(fileobj=into, mode="wb", filename="", mtime=0, compresslevel=9) as file:
        file.write(data)
    return into.getvalue()


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    data = lines()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(packed(data))
    print(f"{len(data.splitlines()):,} texts, {out.stat().st_size:,} bytes: {out}")


if __name__ == "__main__":
    main()
