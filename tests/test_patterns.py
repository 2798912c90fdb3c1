"""Patterns on texts of strangers: no two repetitions that can share out the same characters in many ways.

A text of n such characters is tried in n ways or more for each of n places where a match may begin, and a server or a
model that writes many of them stops whoever reads them. The patterns are looked at, not timed.
"""

from __future__ import annotations

import importlib
import re
from itertools import combinations
from pathlib import Path
from re import _compiler, _parser
from re import _constants as c
from typing import Any

import pytest

import sottovoce

ROOMS = ("audits", "experts", "files", "fitting", "metrics", "synthesis")
"""Where texts are read that records' owners did not write: of servers, models, and files of strangers."""
ALPHABET = [chr(code) for code in (*range(0x80), 0xE4, 0x2019)]
GIVING_BACK = (c.MAX_REPEAT, c.MIN_REPEAT)
REPEATS = (*GIVING_BACK, c.POSSESSIVE_REPEAT)
MANY = 100
"""A repetition of so many at most takes as many ways at most."""


def characters(items: Any, flags: int) -> set[str]:
    """Every character that some part of a sequence can take."""
    found: set[str] = set()
    for kind, value in items:
        if kind in REPEATS:
            found |= characters(value[2], flags)
        elif kind is c.SUBPATTERN:
            found |= characters(value[3], flags)
        elif kind is c.BRANCH:
            found |= set().union(*(characters(branch, flags) for branch in value[1]))
        elif kind in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            alone = _parser.SubPattern(_parser.State(), [(kind, value)])
            alone.state.str = ""
            one = _compiler.compile(alone, flags & (re.IGNORECASE | re.DOTALL))
            found |= {each for each in ALPHABET if one.fullmatch(each)}
    return found


def overlaps(items: Any, flags: int) -> bool:
    """Whether two endless repetitions of a sequence, or one within another, can take the same run of characters."""
    items = list(items)
    endless = [place for place, item in enumerate(items) if is_endless(item)]
    for first, second in combinations(endless, 2):
        bodies = [items[place][1][2] for place in (first, second)]
        both = set.intersection(*(characters(body, flags) for body in bodies))
        if all(shares(part, both, flags) for part in (*bodies, items[first + 1 : second])) and both:
            return True
    for place in endless:
        body = list(items[place][1][2])
        body = list(body[0][1][3]) if len(body) == 1 and body[0][0] is c.SUBPATTERN else body
        if any(shares(body, characters(one[1][2], flags), flags) for one in body if is_endless(one)):
            return True
    within = [value[2] for kind, value in items if kind in REPEATS] + [v[3] for k, v in items if k is c.SUBPATTERN]
    within += [branch for kind, value in items if kind is c.BRANCH for branch in value[1]]
    return any(overlaps(each, flags) for each in within)


def shares(items: Any, own: set[str], flags: int) -> bool:
    """Whether characters of these alone may be all that a sequence takes."""
    passed = (c.AT, c.ASSERT, c.ASSERT_NOT)
    needed = [item for item in items if item[0] not in passed and not (item[0] in REPEATS and item[1][0] == 0)]
    return all(characters([item], flags) & own for item in needed)


def is_endless(item: Any) -> bool:
    """Whether an item is a repetition of many that gives characters back."""
    return bool(item[0] in GIVING_BACK and item[1][1] > MANY)


def patterns(room: str) -> dict[str, re.Pattern[str]]:
    """Every pattern that a module of a room keeps, by its name; those in tuples and tables, too."""
    found, top = {}, Path(sottovoce.__file__).parent
    for file in (top / room).rglob("*.py"):
        if "re.compile(" not in file.read_text("utf-8"):
            continue
        name = ".".join(("sottovoce", *file.relative_to(top).with_suffix("").parts))
        for key, value in vars(importlib.import_module(name)).items():
            several = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            for one in several:
                if isinstance(one, re.Pattern) and isinstance(one.pattern, str):
                    found[f"{name}.{key}: {one.pattern}"] = one
    return found


@pytest.mark.parametrize(
    ("pattern", "slow"),
    [
        (r"\s*\n\s*", True), (r"(?:a+)+b", True), (r"\w+\d*x", True), (r"(?:a*b?)*", True), (r"(\s*,?\s*)", True),
        (r"[ \t]*\n[ \t]*", False), (r"(?:a+b)*", False), (r"\s{0,9}\n\s*", False), (r"a*+a*", False),
    ],
)  # fmt: skip
def test_repetitions_that_share_characters_are_told_from_others(pattern, slow):
    assert overlaps(_parser.parse(pattern), 0) == slow


@pytest.mark.parametrize("room", [*ROOMS, pytest.param("models", marks=pytest.mark.slow)])
def test_no_pattern_on_texts_of_strangers_repeats_over_the_same_characters_twice(room):
    found = patterns(room)
    assert found
    assert [name for name, one in found.items() if overlaps(_parser.parse(one.pattern), one.flags)] == []
