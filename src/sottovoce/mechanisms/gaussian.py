"""The Gaussian mechanism on integer vectors: discrete Gaussian noise on every coordinate of a clipped sum.

Guarantee   rho-zCDP per release. Integer noise is not exactly Gaussian-DP and is never charged as that; the rounded
            continuous normal of ``rounded_gaussian`` is.
Assumes     ``vector.squared_l2`` bounds the squared L2 norm of S - S' in grid steps.
Sources     Canonne, Kamath and Steinke (2020, arXiv:2004.00010); specification T8, 5.4, 9.3.
            Proof beside the code: docs/proofs/vectors.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.parameters import Checked
from sottovoce.privacy.accounting.renyi import rho_that_fits
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import ZCDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import EPSILON, NOISE_DELTA, Rho
from sottovoce.randomness import Randomness

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class NoisyVector:
    """A released vector. Public: whatever is computed from it is free.

    Attributes:
        steps: The noisy sum, in whole grid steps.
        grid_step: Size of one step in the vectors' own unit.
        denominator: The fixed public number that the sum is divided by.

    Example:
        >>> NoisyVector((3, -8), Fraction(1, 4), 2).values.tolist()
        [0.375, -1.0]
    """

    steps: tuple[int, ...]
    grid_step: Fraction
    denominator: int

    @property
    def values(self) -> FloatArray:
        """The vector in its own unit, divided by the denominator; shape (dimensions,)."""
        return np.array(self.steps, dtype=np.float64) * float(self.grid_step / self.denominator)


def with_noise(vector: VectorSum, noise: Iterable[int]) -> NoisyVector:
    """Adds whole-step noise to every coordinate."""
    steps = tuple(value + z for value, z in zip(vector.values.tolist(), noise, strict=True))
    return NoisyVector(steps, vector.grid_step, vector.denominator)


@final
@register("gaussian_vector", rho=0.05)
@dataclass(frozen=True, slots=True)
class GaussianVector(Checked, Mechanism):
    """Releases a vector sum with independent discrete Gaussian noise of squared scale squared_l2 / (2 rho).

    Attributes:
        rho: zCDP parameter of one release.

    Raises:
        ParameterError: ``rho`` is not above 0 and finite.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> from sottovoce.randomness import SeededRandomness
        >>> summed = VectorSum([300, -40], squared_l2=200, adjacency=Adjacency.REPLACE_ONE, denominator=10)
        >>> GaussianVector(rho=0.5).noise_variance(summed)
        Fraction(200, 1)
        >>> len(GaussianVector(rho=0.5).release(summed, SeededRandomness(1)).steps)
        2
    """

    rho: Rho

    @classmethod
    def for_budget(cls, epsilon: float, delta: float) -> GaussianVector:
        """The least noise whose single release is (epsilon, delta)-DP by its zCDP bound, and fits in a ledger of both.

        Raises:
            ParameterError: ``delta`` is 0: Gaussian noise has no pure guarantee.
        """
        return cls(rho_that_fits(EPSILON.read("epsilon", epsilon), NOISE_DELTA.read("delta", delta)))

    @property
    def event(self) -> ZCDpEvent:
        return ZCDpEvent(self.rho)

    def noise_variance(self, vector: VectorSum) -> Fraction:
        """The noise's squared scale, in squared grid steps."""
        return Fraction(vector.squared_l2) / (2 * exact(self.rho))

    def release(self, vector: VectorSum, randomness: Randomness) -> NoisyVector:
        """Draws one noisy vector."""
        variance = self.noise_variance(vector)
        return with_noise(vector, (sample_discrete_gaussian(variance, randomness) for _ in range(vector.values.size)))

    def noise_law(self, vector: VectorSum, reach: int) -> FloatArray:
        """Probability of each noise from -reach to reach on one coordinate. For tests and audits only."""
        variance = float(self.noise_variance(vector))
        half = np.exp(-(np.arange(reach + 1, dtype=np.float64) ** 2) / (2 * variance)) / _sum_of(variance)
        return np.concatenate([half[:0:-1], half])


def _sum_of(variance: float) -> float:
    """The sum of exp(-k^2 / (2 variance)) over all whole k.

    By Poisson's summation it is sqrt(2 pi variance) times 1 + 2 exp(-2 pi^2 variance) + ..., which from a variance of 4
    on is 1 in floating point.
    """
    if variance >= 4:
        return math.sqrt(2 * math.pi * variance)
    return float(1 + 2 * np.exp(-(np.arange(1, 81, dtype=np.float64) ** 2) / (2 * variance)).sum())
