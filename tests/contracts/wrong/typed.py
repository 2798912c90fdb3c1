"""Mechanisms whose module imports what they are annotated with for a type checker alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanisms.base import Mechanism
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.numbers import exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from sottovoce.privacy.aggregates import Counts, Scores
    from sottovoce.privacy.aggregates import Counts as Numbers
    from sottovoce.randomness import Randomness


@dataclass(frozen=True)
class Typed(Mechanism):
    """Right: Laplace noise."""

    epsilon: float

    @property
    def event(self):
        return PureDP(self.epsilon)

    def scale(self, counts: Counts) -> Fraction:
        return counts.l1 / exact(self.epsilon)

    def release(self, counts: Counts, randomness: Randomness) -> Sequence[int]:
        return tuple(v + sample_discrete_laplace(self.scale(counts), randomness) for v in counts.values.tolist())

    def noise_law(self, counts: Counts, reach: int) -> Sequence[float]:
        rate = float(1 / self.scale(counts))
        return np.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))


class QuietTyped(Typed):
    """Half of the noise."""

    def scale(self, counts: Counts) -> Fraction:
        return super().scale(counts) / 2


class ByAnotherName(Typed):
    """Right: draws anew, of a type that has another name here; the class above says what it is."""

    def release(self, counts: Numbers, randomness: Randomness) -> Sequence[int]:
        return super().release(counts, randomness)


class Weighted(Exponential):
    """Right: draws anew, beside a prior of a type that nobody else knows."""

    def select(self, scores: Scores, randomness: Randomness, log_prior: ArrayLike | None = None) -> int:
        return super().select(scores, randomness, log_prior)
