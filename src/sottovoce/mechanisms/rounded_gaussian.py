"""The continuous Gaussian mechanism, correctly rounded: what may be claimed as Gaussian differential privacy.

Guarantee   mu-GDP with mu = 1 / noise_multiplier, exactly: the release has the law of round((u + sigma Z) / g) for a
            real normal Z, hence it is post-processing of the continuous Gaussian mechanism.
Assumes     ``vector.squared_l2`` bounds the squared L2 norm of S - S' in grid steps.
Sources     Karney (2016), "Sampling exactly from the normal distribution", algorithm N; Dong, Roth and Su (2022) and
            Balle and Wang (2018) for the guarantee; specification T8. Proof beside the code: docs/proofs/vectors.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Annotated, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.gaussian import NoisyVector, with_noise
from sottovoce.mechanisms.samplers.discrete_laplace import bernoulli_exp
from sottovoce.parameters import Checked, Number
from sottovoce.privacy.accounting.gaussian_dp import mu_of_budget
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN, rho_that_fits
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import GaussianDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import EPSILON, NOISE_DELTA
from sottovoce.randomness import Randomness

FloatArray = NDArray[np.float64]
_CHUNK: Final = 64
"""Bits drawn at a time. One chunk nearly always decides; the law does not depend on it."""


@final
@register("rounded_gaussian", noise_multiplier=4.0)
@dataclass(frozen=True, slots=True)
class RoundedGaussian(Checked, Mechanism):
    """Releases a vector sum with normal noise of deviation noise_multiplier * sqrt(squared_l2), rounded to the grid.

    Attributes:
        noise_multiplier: Deviation of the noise over the L2 sensitivity.

    Raises:
        ParameterError: ``noise_multiplier`` is not from 0.001 to 1e6.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> from sottovoce.randomness import SeededRandomness
        >>> summed = VectorSum([300, -40], squared_l2=200, adjacency=Adjacency.REPLACE_ONE)
        >>> RoundedGaussian(noise_multiplier=2.0).noise_variance(summed)
        Fraction(800, 1)
        >>> len(RoundedGaussian(noise_multiplier=2.0).release(summed, SeededRandomness(1)).steps)
        2
    """

    noise_multiplier: Annotated[float, Number(1e-3, 1e6, strict=True)]

    @classmethod
    def for_mu(cls, mu: float) -> RoundedGaussian:
        """The mechanism that is mu-GDP.

        Raises:
            ParameterError: ``mu`` is not from 1e-6 to 1000.
        """
        mu = Number(1e-6, 1e3, strict=True).read("mu", mu)
        multiplier = min(1 / mu, 1e6)
        while exact(multiplier) * exact(mu) < 1:
            multiplier = math.nextafter(multiplier, math.inf)
        return cls(multiplier)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float) -> RoundedGaussian:
        """The least noise whose single release is (epsilon, delta)-DP.

        Raises:
            ParameterError: ``delta`` is 0, or both are so small that the noise would be out of range.
        """
        delta = NOISE_DELTA.read("delta", delta)
        # Below epsilon by more than the accountant adds to what it works out from mu, so that it reports no more.
        return cls.for_mu(mu_of_budget(EPSILON.read("epsilon", epsilon) * (1 - 2 * FLOAT_MARGIN), delta))

    @classmethod
    def for_rho(cls, epsilon: float, delta: float) -> RoundedGaussian:
        """The least noise whose rho fits in the zCDP budget that (epsilon, delta) admits.

        Raises:
            ParameterError: They admit so little that the noise would be out of range.
        """
        rho = rho_that_fits(epsilon, delta)
        if rho < 5e-13:  # noise of 1e6, the most that there is
            raise ParameterError("epsilon", epsilon, "larger: with this delta it admits less than any noise costs")
        multiplier = 1 / math.sqrt(2 * rho)
        while 2 * exact(multiplier) ** 2 * exact(rho) < 1:
            multiplier = math.nextafter(multiplier, math.inf)
        return cls(multiplier)

    @property
    def event(self) -> GaussianDpEvent:
        return GaussianDpEvent(self.noise_multiplier)

    def noise_variance(self, vector: VectorSum) -> Fraction:
        """Variance of the noise before rounding, in squared grid steps."""
        return exact(self.noise_multiplier) ** 2 * vector.squared_l2

    def release(self, vector: VectorSum, randomness: Randomness) -> NoisyVector:
        """Draws one noisy vector. The sum is whole, so rounding the sum of both is rounding the noise."""
        variance = self.noise_variance(vector)
        return with_noise(vector, (sample_rounded_normal(variance, randomness) for _ in range(vector.values.size)))

    def noise_law(self, vector: VectorSum, reach: int) -> FloatArray:
        """Probability of each noise from -reach to reach on one coordinate. For tests and audits only."""
        from scipy.special import ndtr

        deviation = math.sqrt(self.noise_variance(vector))
        edges = (np.arange(reach + 1) - 0.5) / deviation
        half = ndtr(-edges) - ndtr(-(edges + 1 / deviation))
        return np.concatenate([half[:0:-1], half])


def sample_rounded_normal(variance: Fraction, randomness: Randomness) -> int:
    """Draws a normal number of this variance, rounded to the nearest whole number; exactly.

    Args:
        variance: Above 0.
        randomness: Source of uniform integers.

    Example:
        >>> from sottovoce.randomness import SeededRandomness
        >>> sample_rounded_normal(Fraction(4), SeededRandomness(1)) in range(-20, 21)
        True
    """
    negative = randomness.below(2) == 1
    whole, part = _half_normal(randomness)
    while True:
        low, high = (_nearest(variance, (whole << part.known) + part.bits + end, part.known) for end in (0, 1))
        if low == high:
            return -low if negative else low
        part.refine()


class _Uniform:
    """A uniform real in [0, 1], known to lie in [bits, bits + 1] / 2**known; refined when a question needs it."""

    __slots__ = ("_randomness", "bits", "known")

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self.bits = self.known = 0
        self.refine()

    def refine(self) -> None:
        self.bits = (self.bits << _CHUNK) + self._randomness.below(1 << _CHUNK)
        self.known += _CHUNK


def _half_normal(randomness: Randomness) -> tuple[int, _Uniform]:
    """Draws k + x with density proportional to exp(-(k + x)**2 / 2), in whole and fractional part."""
    while True:
        k = 0
        while bernoulli_exp(Fraction(1, 2), randomness):
            k += 1
        if not bernoulli_exp(Fraction(k * (k - 1), 2), randomness):
            continue
        x = _Uniform(randomness)
        if all(_coin(k, x, randomness) for _ in range(k + 1)):
            return k, x


def _coin(k: int, x: _Uniform, randomness: Randomness) -> bool:
    """Odds exp(-y) for y = x (2k + x) / (2k + 2) below 1: a run of coins y/1, y/2, ... that ends on an odd count."""
    run = 1
    while _is_below(_Uniform(randomness), k, x, run):
        run += 1
    return run % 2 == 1


def _is_below(u: _Uniform, k: int, x: _Uniform, run: int) -> bool:
    """Whether u < x (2k + x) / ((2k + 2) run), drawing more bits of both until the intervals part."""
    while True:
        left = (2 * k + 2) * run << 2 * x.known
        right_low = x.bits * ((2 * k << x.known) + x.bits) << u.known
        right_high = (x.bits + 1) * ((2 * k << x.known) + x.bits + 1) << u.known
        if (u.bits + 1) * left <= right_low:
            return True
        if u.bits * left >= right_high:
            return False
        u.refine()
        x.refine()


def _nearest(variance: Fraction, numerator: int, known: int) -> int:
    """Rounds sqrt(variance) * numerator / 2**known to the nearest whole number, from the floor of its double."""
    square = 4 * variance.numerator * numerator * numerator // (variance.denominator << 2 * known)
    return (isqrt(square) + 1) // 2
