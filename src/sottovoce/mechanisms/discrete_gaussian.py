"""The discrete Gaussian on the integers, sampled exactly.

Guarantee   Adding it to an integer vector with squared L2 sensitivity S2 is (S2 / (2 sigma2))-zCDP.
Sources     Canonne, Kamath and Steinke (2020, arXiv:2004.00010), algorithms 1 to 3; every coin is rational.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sottovoce.randomness import Randomness


def sample_discrete_gaussian(sigma2: Fraction, randomness: Randomness) -> int:
    """Draws x with probability proportional to exp(-x**2 / (2 sigma2)).

    Args:
        sigma2: Squared scale, above 0.
        randomness: Source of uniform integers.

    Example:
        >>> from sottovoce.randomness import SeededRandomness
        >>> sample_discrete_gaussian(Fraction(4), SeededRandomness(1)) in range(-20, 21)
        True
    """
    scale = math.isqrt(math.floor(sigma2)) + 1
    while True:
        candidate = _discrete_laplace(scale, randomness)
        distance = abs(candidate) - sigma2 / scale
        if bernoulli_exp(distance * distance / (2 * sigma2), randomness):
            return candidate


def bernoulli_exp(x: Fraction, randomness: Randomness) -> bool:
    """Is true with probability exp(-x), exactly, for a fraction x >= 0."""
    whole = math.floor(x)
    return all(_bernoulli_exp_below_one(Fraction(1), randomness) for _ in range(whole)) and _bernoulli_exp_below_one(
        x - whole, randomness
    )


def _bernoulli_exp_below_one(x: Fraction, randomness: Randomness) -> bool:
    """For 0 <= x <= 1: the series of exp(-x) as a run of coins x/1, x/2, x/3, ... that ends on an odd count."""
    k = 1
    while randomness.below(x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1


def _discrete_laplace(scale: int, randomness: Randomness) -> int:
    """Draws x with probability proportional to exp(-abs(x) / scale), for a whole scale."""
    while True:
        remainder = randomness.below(scale)
        if not bernoulli_exp(Fraction(remainder, scale), randomness):
            continue
        quotient = 0
        while _bernoulli_exp_below_one(Fraction(1), randomness):
            quotient += 1
        magnitude = remainder + scale * quotient
        negative = randomness.below(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude
