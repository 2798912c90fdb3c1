"""Generated news items and quiz questions: sentences of our own, in the forms that public sets of such texts have.

News is a headline and a first sentence, with or without a dateline; firms, people, teams, parties and agencies are
invented. Questions ask for well-known things in six kinds of answer. Nothing is taken from AG News or TREC, whose
licences do not allow it; a question that happens to be one of TREC's is drawn again (``language_model_rows``).
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def read(name: str) -> dict[str, Any]:
    """The words and patterns of one of the generator's files."""
    return tomllib.loads(Path(__file__).with_name(f"language_model_{name}.toml").read_text("utf-8"))


NEWS, QUIZ = read("news"), read("questions")
SLOT, CHOICE = re.compile(r"\{(\w+)\}"), re.compile(r"\[([^\[\]]*)\]")
ALIASES = {
    "World": ("International", "Politics", "Foreign news"), "Sports": ("Sport", "Games"),
    "Business": ("Economy", "Finance", "Markets"), "Sci/Tech": ("Technology", "Science", "Science and technology"),
    "Number": ("Numeric", "Quantity"), "Location": ("Place", "Where"), "Person": ("Human", "Who"),
    "Description": ("Definition", "Explanation"), "Entity": ("Thing",), "Abbreviation": ("Acronym", "Short form"),
}  # fmt: skip
"""Other names of the topics, so that a text is not tied to one word."""
SAME_STORY = 0.4


@dataclass(frozen=True)
class Desk:
    """What the news and the questions of one world share.

    Attributes:
        news: Slot to its value.
        quiz: Slot to the two values that it takes here.
        story: Which story of a topic its texts prefer to tell, as a share of the list.
    """

    news: Mapping[str, str]
    quiz: Mapping[str, tuple[str, ...]]
    story: float


def desk(rng: random.Random) -> Desk:
    """Draws people, places, firms and teams, and the subjects that are asked about."""
    words = NEWS["words"]
    (country, nation), (country2, nation2) = rng.sample(words["countries"], 2)
    city, city2 = rng.sample(words["cities"], 2)
    last, last2 = rng.sample(words["surnames"], 2)
    news = {
        "country": country, "nation": nation, "country2": country2, "nation2": nation2, "city": city, "city2": city2,
        "last": last, "last2": last2, "who": f"{rng.choice(words['names'])} {last}",
        "who2": f"{rng.choice(words['names'])} {last2}", "firm": _firm(rng), "firm2": _firm(rng),
        "team": f"{city} {rng.choice(words['nicknames'])}", "team2": f"{city2} {rng.choice(words['nicknames'])}",
        "party": f"the {rng.choice(words['party_first'])} {rng.choice(words['party_last'])}",
        "rebels": f"the {rng.choice(words['rebel_first'])} {rng.choice(words['rebel_last'])}",
        "cup": f"the {rng.choice(words['cup_first'])} {rng.choice(words['cup_last'])}",
        "university": f"the University of {city}" if rng.random() < 0.6 else f"{city2} University",
        "software": rng.choice(words["software_first"]) + rng.choice(words["software_last"]),
    }  # fmt: skip
    for slot in ("office", "region", "industry", "ware", "gadget", "probe", "planet", "animal", "worm", "agency"):
        news[slot] = rng.choice(words[slot])
    quiz = {slot: tuple(rng.sample(values, 2)) for slot, values in QUIZ["words"].items()}
    return Desk(news, quiz, rng.random())


def _firm(rng: random.Random) -> str:
    words = NEWS["words"]
    name = rng.choice(words["firm_first"] if rng.random() < 0.6 else words["surnames"])
    return f"{name} {rng.choice(words['firm_last'])}"


def _passing(rng: random.Random) -> dict[str, str]:
    """What differs from one news item to the next."""
    words = NEWS["words"]
    large = rng.choice([rng.randrange(20, 990), rng.randrange(10, 99) * 100, rng.randrange(10, 900) * 1000])
    share = rng.choice([str(rng.randrange(2, 60)), f"{rng.randrange(1, 12)}.{rng.randrange(1, 10)}"])
    small, most = sorted((rng.randrange(0, 5), rng.randrange(1, 6)))
    low = rng.randrange(70, 105)
    million = rng.random() < 0.6
    money = (
        f"${rng.randrange(2, 95) * rng.choice([1, 10])} million"
        if million
        else f"${rng.randrange(11, 190) / 10} billion"
    )
    return {
        "day": rng.choice(words["days"]), "month": rng.choice(words["months"]), "n": str(rng.randrange(2, 13)),
        "count": f"{large:,}", "percent": f"{share} percent", "year": str(rng.randrange(1985, 2011)),
        "score": f"{max(most, small + 1)}-{small}", "points": f"{low + rng.randrange(1, 25)}-{low}", "money": money,
        "price": f"${rng.randrange(8, 99)}.{rng.randrange(10, 100)}",
    }  # fmt: skip


def fill(pattern: str, value: Callable[[str], str], rng: random.Random) -> str:
    """Settles the choices of a pattern and fills its slots."""
    chosen = CHOICE.sub(lambda found: rng.choice(found[1].split("|")), pattern)
    filled = SLOT.sub(lambda found: value(found[1]), chosen)
    filled = re.sub(r"\b([Aa])(?= [aeioAEIO])", r"\1n", " ".join(filled.split()))
    return filled.replace(" ,", ",").replace(" .", ".")


def news(topic: str, place: Desk, rng: random.Random) -> str:
    """A headline and what it is about.

    Args:
        topic: One of ``NEWS["news"]["topics"]``.
        place: What it shares with other items.
        rng: Source of chance.
    """
    about = NEWS["news"]["topics"][topic]
    stories = about["stories"]
    story = stories[int(place.story * len(stories))] if rng.random() < SAME_STORY else rng.choice(stories)
    values = {**place.news, **_passing(rng)}
    headline, lead = (fill(part, values.__getitem__, rng) for part in story.split(" // "))
    headline = headline.title().replace("'S ", "'s ") if rng.random() < 0.3 else headline
    detail = fill(rng.choice(about["details"]), values.__getitem__, rng) if rng.random() < 0.3 else ""
    line, agency = f"{values['city']}", values["agency"]
    line = line.upper() if rng.random() < 0.6 else line
    begun = rng.choices(
        [f"{headline} {line} ({agency}) - ", f"{headline} ({agency}) {agency} - ", f"{headline} {line} - ",
         f"{headline} ", f"{headline}: ", f"{line}, {values['month']} {rng.randrange(1, 29)} - ", ""],
        [26, 10, 10, 38, 4, 4, 8],
    )[0]  # fmt: skip
    return f"{begun}{lead} {detail}".strip()


def question(topic: str, place: Desk, rng: random.Random) -> str:
    """A question of a kind of answer; half of the subjects are those of its world.

    Args:
        topic: One of ``QUIZ["questions"]["topics"]``.
        place: What it shares with other questions.
        rng: Source of chance.
    """
    lines, words = QUIZ["questions"]["topics"][topic]["lines"], QUIZ["words"]
    line = lines[int(place.story * len(lines))] if rng.random() < SAME_STORY else rng.choice(lines)
    drawn: dict[str, str] = {}

    def value(slot: str) -> str:
        choices = place.quiz[slot] if rng.random() < 0.5 else words[slot]
        return drawn.setdefault(slot, rng.choice(choices))

    asked = fill(line, value, rng)
    return asked + ("." if asked.startswith(("Name ", "Give ", "Tell ")) else rng.choice([" ?", " ?", "?"]))


KINDS: dict[str, Callable[[str, Desk, random.Random], str]] = {"news": news, "questions": question}


def topics(kind: str) -> list[str]:
    """The topics of a kind."""
    return list((NEWS if kind == "news" else QUIZ)[kind]["topics"])
