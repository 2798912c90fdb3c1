"""Made-up label names and made-up strings, from a seed, for fitting a head. No word of the benchmarks is among them."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Final

MOST_WORDS: Final = 160
"""Ordinary words among the names."""
SYLLABLES: Final = [
    "fa", "gle", "ku", "mor", "pim", "ro", "ska", "thu", "ven", "wis", "yo", "zan", "bru", "che", "dol",
    "elk", "fri", "gaz", "hob", "jin", "lum", "nok", "pra", "qua", "ril", "sto", "tem", "ulf", "vor", "yim",
]  # fmt: skip


def names(rng: random.Random, words: Sequence[str]) -> list[str]:
    """Names that mean nothing where they stand: pseudo-words, ordinary words out of place, single letters."""
    made = {"".join(rng.sample(SYLLABLES, rng.choice([1, 2, 2, 3]))) for _ in range(220)}
    return [*sorted(made), *rng.sample(list(words), min(MOST_WORDS, len(words))), *string.ascii_uppercase]


def hexes(rng: random.Random, count: int) -> list[str]:
    """Strings of hexadecimal digits, as canaries use them."""
    return ["".join(rng.choices("0123456789abcdef", k=rng.choice([6, 8, 12, 16]))) for _ in range(count)]


def word_salads(rng: random.Random, words: Sequence[str], count: int) -> list[str]:
    """One to six words in no order."""
    return [" ".join(rng.sample(list(words), rng.choice([1, 2, 3, 4, 6]))) for _ in range(count)]


def vocabulary(texts: Sequence[str]) -> list[str]:
    """The words of four to eight letters in some texts, sorted."""
    words = {word for text in texts for word in text.lower().split()}
    return sorted(word for word in words if word.isascii() and word.isalpha() and 3 < len(word) < 9)
