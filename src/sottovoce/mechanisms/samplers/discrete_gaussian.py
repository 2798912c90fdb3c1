"""The discrete Gaussian on the integers, sampled exactly.

Guarantee   Adding it to an integer vector with squared L2 sensitivity S2 is (S2 / (2 sigma2))-zCDP.
Sources     Canonne, Kamath and Steinke (2020, arXiv:2004.00010), algorithm 3; every coin is rational.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.samplers.discrete_laplace import bernoulli_exp, sample_discrete_laplace
from sottovoce.randomness import Randomness

__all__ = ["bernoulli_exp", "sample_discrete_gaussian"]


def sample_discrete_gaussian(sigma2: Fraction, randomness: Randomness) -> int:
    """Draws x with probability proportional to exp(-x**2 / (2 sigma2)).

    Args:
        sigma2: Squared scale, above 0.
        randomness: Source of uniform integers.

    Raises:
        ParameterError: ``sigma2`` is not above 0.

    Example:
        >>> from sottovoce.randomness import SeededRandomness
        >>> sample_discrete_gaussian(Fraction(4), SeededRandomness(1)) in range(-20, 21)
        True
    """
    if sigma2 <= 0:
        raise ParameterError("sigma2", str(sigma2), "above 0")
    scale = math.isqrt(math.floor(sigma2)) + 1
    while True:
        candidate = sample_discrete_laplace(Fraction(scale), randomness)
        distance = abs(candidate) - sigma2 / scale
        if bernoulli_exp(distance * distance / (2 * sigma2), randomness):
            return candidate
