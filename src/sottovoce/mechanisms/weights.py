"""Exact integer weights for exponentials: floor(2**128 * exp(-x)) for a fraction x, correctly rounded.

Floating point would make unlikely candidates impossible, which is an unbounded privacy loss (specification 9.4). Here a
weight is a whole number, computed at rising precision until its floor is certain. Every precision is passed by hand: a
process-wide one could be changed by another thread in the middle of a computation.

Guarantee   A weight w is within a factor (1 - 2**-60) of its ideal value, down to the floor at exp(-68 ln 2).
Sources     specification 9.2, T16(c) for the floor; the standard library's decimal (libmpdec) for the exponential.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from sottovoce.privacy.scores import IntArray, Scores

BITS: Final = 128
FLOOR_BITS: Final = 60
"""The least weight has at least this many bits; lower utilities are raised to it, which costs no privacy."""

ROUNDING: Final = Fraction(1, 2**58)
"""Taken off epsilon before weights are computed: more than rounding can add to the loss, -2 ln(1 - 2**-60)."""

_LN2_BELOW: Final = Fraction(693147180559945309417232121458, 10**30)
DEEPEST: Final = (BITS - FLOOR_BITS) * _LN2_BELOW
"""The largest exponent in use, about 47.1 nats."""

_DIGITS: Final = 80
_GUARD_DIGITS: Final = 8


def _context(digits: int) -> Context:
    """Nothing is inherited from a default that somebody may have changed."""
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=-(10**6), Emax=10**6, flags=[], traps=[])


@lru_cache(maxsize=1 << 16)
def integer_weight(x: Fraction) -> int:
    """Returns floor(2**128 * exp(-x)) for 0 <= x <= 100.

    Example:
        >>> integer_weight(Fraction(0)) == 2**128
        True
    """
    if x == 0:
        return 1 << BITS
    digits = _DIGITS
    while True:
        # Quotient and exponential are each correctly rounded, so the relative error is below (x + 2) 10**(1 - digits).
        with localcontext(_context(digits)) as context:
            value = context.exp(-(Decimal(x.numerator) / Decimal(x.denominator))) * Decimal(1 << BITS)
            slack = value.scaleb(_GUARD_DIGITS - digits)
            low, high = int(value - slack), int(value + slack)
        if low == high:
            return low
        digits *= 2


def rate_per_step(epsilon: Fraction, scores: Scores) -> Fraction:
    """Nats of log-weight for one grid step, so that one change of the data moves log-odds by at most epsilon."""
    return (epsilon - ROUNDING) / scores.sensitivity


def level_weight(rate: Fraction, level: int) -> int:
    """The weight of a candidate ``level`` grid steps below the best, floored."""
    return integer_weight(min(rate * level, DEEPEST))


def levels_below_best(scores: Scores) -> IntArray:
    """Grid steps below the best candidate, shape (candidates,)."""
    below: IntArray = scores.values.max() - scores.values
    return np.asarray(below, dtype=np.int64)
