"""Exact integer weights for exponentials: floor(2**128 * exp(-x)) for a fraction x, correctly rounded.

Floating point would make unlikely candidates impossible, which is an unbounded privacy loss (specification 9.4). Here a
weight is a whole number, computed at rising precision until its floor is certain.

Guarantee   A weight w is within a factor (1 - 2**-60) of its ideal value, for every level down to the floor J.
Sources     specification 9.2, T16(c) for the floor; mpmath for the exponential.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

import mpmath
import numpy as np

from sottovoce.privacy.scores import IntArray, Scores

BITS: Final = 128
FLOOR_BITS: Final = 60
"""The least weight has at least this many bits; lower utilities are raised to it, which costs no privacy."""

ROUNDING: Final = Fraction(1, 2**58)
"""Taken off epsilon before weights are computed: more than rounding can add to the loss, -2 ln(1 - 2**-60)."""

_LN2_BELOW: Final = Fraction(693147180559945309417232121458, 10**30)


@lru_cache(maxsize=1 << 18)
def integer_weight(x: Fraction) -> int:
    """Returns floor(2**128 * exp(-x)) for x >= 0.

    Example:
        >>> integer_weight(Fraction(0)) == 2**128
        True
    """
    if x == 0:
        return 1 << BITS
    precision = BITS + 64
    while True:
        with mpmath.workprec(precision):
            value = mpmath.ldexp(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator), BITS)
            slack = mpmath.ldexp(value, 16 - precision)
            low, high = int(mpmath.floor(value - slack)), int(mpmath.floor(value + slack))
        if low == high:
            return low
        precision *= 2


def rate_per_step(epsilon: Fraction, scores: Scores) -> Fraction:
    """Nats of log-weight for one grid step, so that one change of the data moves log-odds by at most epsilon."""
    return (epsilon - ROUNDING) / scores.sensitivity


def levels_below_best(scores: Scores, rate: Fraction) -> IntArray:
    """Grid steps below the best candidate, floored so that the least weight keeps 60 bits, shape (candidates,)."""
    lowest = (BITS - FLOOR_BITS) * _LN2_BELOW // rate
    below: IntArray = scores.values.max() - scores.values
    return np.minimum(below, np.int64(min(lowest, 2**62)))
