"""Report noisy max with Laplace noise: add discrete Laplace noise to every score and take the largest.

Guarantee   epsilon-DP per selection. It is not bounded range; it is accounted as pure DP. The smaller zCDP price of the
            *continuous* Laplace law (epsilon + exp(-epsilon) - 1) would be wrong here: see the proof.
Assumes     ``scores.sensitivity`` bounds range(S - S'); the candidates are public. Visits them one by one.
Sources     Dwork and Roth (2014) for the mechanism; Canonne, Kamath and Steinke (2020) for the noise; specification
            5.2: when a vote can move there is no saving by "every count moves by 1". Proof: docs/proofs/noisy_max.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.mechanisms.base import SelectionMechanism, register
from sottovoce.mechanisms.discrete_laplace import sample_discrete_laplace
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import require_epsilon
from sottovoce.randomness import Randomness

FloatArray = NDArray[np.float64]

_REACH: Final = 45
"""Scales of noise that the law sums over; exp(-45) is left out."""


@final
@register("laplace_noisy_max", epsilon=0.7)
@dataclass(frozen=True, slots=True)
class LaplaceNoisyMax(SelectionMechanism):
    """Selects the largest score after discrete Laplace noise; equal ones are chosen among uniformly.

    Kept as a baseline: at one price permute-and-flip is never worse.

    Attributes:
        epsilon: Privacy loss of one selection, in nats.

    Raises:
        ParameterError: ``epsilon`` is not a number in range.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> votes = Scores([5, 3, 2], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
        >>> [round(p, 3) for p in LaplaceNoisyMax(epsilon=1.0).law(votes)]
        [0.642, 0.228, 0.13]
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))

    @property
    def event(self) -> PureDP:
        return PureDP(self.epsilon)

    def scale(self, scores: Scores) -> Fraction:
        """The noise's scale, in grid steps."""
        return scores.sensitivity / exact(self.epsilon)

    def law(self, scores: Scores) -> Sequence[float]:
        """By summation over the winner's noisy score; each entry is right to about 1e-12 of itself."""
        scale = float(self.scale(scores))
        values = scores.values - scores.values.max()
        reach = math.ceil(_REACH * scale)
        distance = np.arange(int(values.min()) - reach, reach + 1)[None, :] - values[:, None]
        tail = np.exp(-np.abs(distance) / scale) / (1 + math.exp(-1 / scale))
        mass = tail * -math.expm1(-1 / scale)
        under = np.where(distance > 0, 1 - tail, tail * math.exp(-1 / scale))
        # A tie with t others is won with probability 1 / (t + 1) = the integral of z**t: exact by Gauss-Legendre.
        nodes, node_weights = np.polynomial.legendre.leggauss(len(values) // 2 + 1)
        law = sum(
            weight * (mass * _product_of_others(under + node * mass)).sum(axis=1)
            for node, weight in zip((nodes + 1) / 2, node_weights / 2, strict=True)
        )
        return [float(p) for p in np.asarray(law)]

    def select(self, scores: Scores, randomness: Randomness) -> int:
        scale = self.scale(scores)
        noisy = [value + sample_discrete_laplace(scale, randomness) for value in scores.values.tolist()]
        largest = max(noisy)
        best = [index for index, value in enumerate(noisy) if value == largest]
        return best[randomness.below(len(best))]


def _product_of_others(factors: FloatArray) -> FloatArray:
    """In each column, the product of all rows but one's own; no division, so that small factors lose nothing."""
    one = np.ones(factors.shape[1])
    before = list(accumulate(factors[:-1], np.multiply, initial=one))
    behind = list(accumulate(factors[:0:-1], np.multiply, initial=one))[::-1]
    return np.stack(before) * np.stack(behind)
