"""The discrete Laplace law on the integers, and coins with odds exp(-x), sampled exactly.

Guarantee   Adding it, with scale b, to an integer that one change moves by at most d is (d / b)-DP.
Sources     Canonne, Kamath and Steinke (2020, arXiv:2004.00010), algorithms 1 and 2; every coin is rational.
"""

from __future__ import annotations

from fractions import Fraction

from sottovoce.errors import ParameterError
from sottovoce.randomness import Randomness


def sample_discrete_laplace(scale: Fraction, randomness: Randomness) -> int:
    """Draws x with probability proportional to exp(-abs(x) / scale).

    Args:
        scale: Any fraction above 0, in the integers' own unit.
        randomness: Source of uniform integers.

    Raises:
        ParameterError: ``scale`` is not above 0.

    Example:
        >>> from sottovoce.randomness import SeededRandomness
        >>> sample_discrete_laplace(Fraction(7, 2), SeededRandomness(1)) in range(-60, 61)
        True
    """
    if scale <= 0:
        raise ParameterError("scale", str(scale), "above 0")
    steps, per_unit = scale.numerator, scale.denominator
    while True:
        magnitude = _exponential_steps(steps, randomness) // per_unit
        negative = randomness.below(2) == 1
        if not (negative and magnitude == 0):  # zero would else count twice
            return -magnitude if negative else magnitude


def bernoulli_exp(x: Fraction, randomness: Randomness) -> bool:
    """Is true with probability exp(-x), exactly, for a fraction x >= 0."""
    whole, rest = divmod(x.numerator, x.denominator)
    return all(_coin(1, 1, randomness) for _ in range(whole)) and _coin(rest, x.denominator, randomness)


def _exponential_steps(scale: int, randomness: Randomness) -> int:
    """Draws x >= 0 with probability proportional to exp(-x / scale): a remainder by rejection, a quotient by coins."""
    while True:
        remainder = randomness.below(scale)
        if _coin(remainder, scale, randomness):
            break
    quotient = 0
    while _coin(1, 1, randomness):
        quotient += 1
    return remainder + scale * quotient


def _coin(numerator: int, denominator: int, randomness: Randomness) -> bool:
    """Odds exp(-x), 0 <= x <= 1: the series as a run of coins x/1, x/2, x/3, ... that ends on an odd count."""
    k = 1
    while randomness.below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
