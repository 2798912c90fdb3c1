"""Detectors: a number for every answer that is larger where it looks as if the canary was there.

What a detector learns, it learns from training runs alone; the runs that choose a threshold and those that certify are
others (``play``).

Sources     ContextLeak (arXiv 2512.16059) for rare class and reference vector; specification 10.8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

import numpy as np

from sottovoce.audits.game.canaries import Canary
from sottovoce.audits.roc import FloatArray

_WORDS: Final = re.compile(r"\w+")
Embed = Callable[[Sequence[str]], FloatArray]
"""Texts to unit vectors, shape (texts, dimension)."""


class Detector(Protocol):
    """Scores answers."""

    @property
    def name(self) -> str:
        """For reports."""

    def fit(self, absent: Sequence[str], present: Sequence[str]) -> None:
        """Learns from training answers without and with the canary."""

    def scores(self, answers: Sequence[str]) -> FloatArray:
        """One number an answer, shape (answers,); larger for "the canary was there"."""


@final
class RareClass:
    """1 where the answer is the canary's label, or holds it as words.

    Args:
        canary: What is looked for.
    """

    name = "rare class"

    def __init__(self, canary: Canary) -> None:
        self._label = canary.label.casefold()
        self._within = re.compile(rf"(?<!\w){re.escape(self._label)}(?!\w)")

    def fit(self, absent: Sequence[str], present: Sequence[str]) -> None:
        """Nothing is learned."""

    def scores(self, answers: Sequence[str]) -> FloatArray:
        hits = {answer: self._within.search(answer.casefold()) is not None for answer in set(answers)}
        return np.array([float(hits[answer]) for answer in answers])


@final
class LabelRatio:
    """The log likelihood ratio of the answer, from shares that were counted in training: best where answers are labels.

    Shares are mixed with half a count for each answer that occurred, and for one that did not.
    """

    name = "likelihood ratio"

    def __init__(self) -> None:
        self._ratio: dict[str, float] = {}

    def fit(self, absent: Sequence[str], present: Sequence[str]) -> None:
        counts = Counter(absent), Counter(present)
        kinds = {*counts[0], *counts[1]}
        total = [sum(count.values()) + (len(kinds) + 1) / 2 for count in counts]
        self._ratio = {
            kind: float(np.log((counts[1][kind] + 0.5) / total[1]) - np.log((counts[0][kind] + 0.5) / total[0]))
            for kind in kinds
        }

    def scores(self, answers: Sequence[str]) -> FloatArray:
        return np.array([self._ratio.get(answer, 0.0) for answer in answers])


@final
class ExactString:
    """1 where the answer holds the canary's secret, in whatever case.

    Args:
        canary: What is looked for.
    """

    name = "exact string"

    def __init__(self, canary: Canary) -> None:
        self._secret = canary.secret.casefold()

    def fit(self, absent: Sequence[str], present: Sequence[str]) -> None:
        """Nothing is learned."""

    def scores(self, answers: Sequence[str]) -> FloatArray:
        return np.array([float(self._secret in answer.casefold()) for answer in answers])


@final
class Keyword:
    """The share of the canary's words that the answer holds.

    Args:
        canary: What is looked for.
    """

    name = "keyword"

    def __init__(self, canary: Canary) -> None:
        self._words = set(_WORDS.findall(canary.text.casefold()))

    def fit(self, absent: Sequence[str], present: Sequence[str]) -> None:
        """Nothing is learned."""

    def scores(self, answers: Sequence[str]) -> FloatArray:
        found = [len(self._words & set(_WORDS.findall(answer.casefold()))) for answer in answers]
        return np.array(found, dtype=np.float64) / max(1, len(self._words))


@final
class ReferenceVector:
    """The answer's vector, projected on the difference of mean vectors that was learned in training.

    Args:
        embed: Texts to vectors.
    """

    name = "reference vector"

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._direction: FloatArray | None = None

    def fit(self, absent: Sequence[str], present: Sequence[str]) -> None:
        means = [np.nan_to_num(self._embed(answers)).mean(axis=0) for answers in (present, absent)]
        self._direction = means[0] - means[1]

    def scores(self, answers: Sequence[str]) -> FloatArray:
        if self._direction is None:
            raise AssertionError("a reference vector is learned before it scores")
        return np.nan_to_num(self._embed(answers) @ self._direction)


def of_labels(canary: Canary) -> list[Detector]:
    """Detectors of answers that are labels."""
    return [RareClass(canary), LabelRatio()]


def of_texts(canary: Canary, embed: Embed | None = None) -> list[Detector]:
    """Detectors of answers that are texts; the reference vector where there is an embedder."""
    plain: list[Detector] = [ExactString(canary), Keyword(canary), RareClass(canary)]
    return [*plain, ReferenceVector(embed)] if embed else plain
