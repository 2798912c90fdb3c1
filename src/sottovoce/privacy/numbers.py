"""Numbers of privacy, exact as written and rounded to the safe side.

Guarantee   A bound that is printed is no better than the bound: upper bounds (epsilon, delta, rho, factors, what is
            spent) go through ``rounded_up`` or ``factor_up``, lower bounds and what is left through ``rounded_down``.
            A float stands for the shortest decimal that reads as it, as everywhere in the accounting (``exact``).
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from sottovoce.parameters import Number

_DIGITS: Final = Number(1, 15, whole=True, strict=True)
"""Every decimal of so many digits reads as a float that is written with the same digits."""


def exact(value: float) -> Fraction:
    """The number as it is written: ``0.1`` is one tenth, not the binary fraction beside it.

    Example:
        >>> exact(0.1)
        Fraction(1, 10)
    """
    return _written(float(value))


@lru_cache(maxsize=1024)
def _written(value: float) -> Fraction:
    """Kept, since the same few parameters are read for every draw."""
    return Fraction(repr(value))


def rounded_up(value: float | Fraction, digits: int = 4) -> str:
    """An upper bound as it is printed: the least decimal of so many digits that is not below it.

    Args:
        value: The bound. A float stands for the number as it is written.
        digits: Significant digits, 1 to 15.

    Example:
        >>> rounded_up(1.23401), rounded_up(0.1), rounded_up(20.0), rounded_up(1e-6), rounded_up(0.0)
        ('1.235', '0.1', '20', '1e-06', '0')
        >>> rounded_up(Fraction(1, 3)), rounded_up(math.inf)
        ('0.3334', 'inf')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float | Fraction, digits: int = 4) -> str:
    """A lower bound, or what is left, as it is printed: the largest decimal of so many digits that is not above it.

    Args:
        value: The bound. A float stands for the number as it is written.
        digits: Significant digits, 1 to 15.

    Example:
        >>> rounded_down(1.23499), rounded_down(0.1), rounded_down(Fraction(2, 3))
        ('1.234', '0.1', '0.6666')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def factor_up(epsilon: float, digits: int = 4) -> str:
    """exp(epsilon), the factor of a promise, rounded up; from epsilon 100 in the form exp(100).

    Example:
        >>> factor_up(1.0), factor_up(0.1), factor_up(123.456789), factor_up(0.0)
        ('2.719', '1.106', 'exp(123.457)', '1')
    """
    if epsilon >= _LARGEST_EXPONENT:
        return f"exp({rounded_up(epsilon, 6)})"
    above = _PRECISE.next_plus(_PRECISE.exp(Decimal(repr(float(epsilon))))) if epsilon else Decimal(1)
    return rounded_up(Fraction(above), digits)


def float_above(value: Fraction) -> float:
    """A float that is not below ``value`` as it is written; the nearest one wherever that will do, or infinity.

    Example:
        >>> float_above(Fraction(1, 10)), float_above(Fraction(10**17 + 1, 10**17))
        (0.1, 1.0000000000000002)
    """
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return near if exact(near) >= value else math.nextafter(near, math.inf)


def float_below(value: Fraction) -> float:
    """A float that is not above ``value`` as it is written; the nearest one wherever that will do, or minus infinity.

    Example:
        >>> float_below(Fraction(1, 10)), float_below(Fraction(10**17 - 1, 10**17))
        (0.1, 0.9999999999999999)
    """
    try:
        near = float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -math.inf
    return near if exact(near) <= value else math.nextafter(near, -math.inf)


_LARGEST_EXPONENT: Final = 100
_PRECISE: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)
"""Its exponential is correctly rounded, so that the next number above is an upper bound."""


def _rounded(value: float | Fraction, digits: int, rounding: str) -> str:
    _DIGITS.read("digits", digits)
    if not isinstance(value, Fraction):
        if not math.isfinite(value):
            return str(value)
        value = exact(value)
    context = Context(prec=digits, rounding=rounding)
    shown = Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
    read = float_above(shown) if rounding == ROUND_CEILING else float_below(shown)  # differs where floats end
    return repr(read or 0.0).removesuffix(".0")
