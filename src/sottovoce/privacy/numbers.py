"""Reading privacy parameters: finite, in range, and exact as written."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from sottovoce.errors import ParameterError

MAX_EPSILON: Final = 1_000.0
MIN_EPSILON: Final = 1e-6
MAX_ORDER: Final = 1e6
MIN_ORDER: Final = 1.001


def require_epsilon(value: object, name: str = "epsilon") -> float:
    """Checks an epsilon given by a person, as a number or as text.

    Raises:
        ParameterError: It is not a number, not finite, below 1e-6 or above 1000.

    Example:
        >>> require_epsilon("0.5")
        0.5
    """
    number = _number(value, name, f"a number from {MIN_EPSILON:g} to {MAX_EPSILON:g}")
    if not MIN_EPSILON <= number <= MAX_EPSILON:
        raise ParameterError(name, value, f"from {MIN_EPSILON:g} to {MAX_EPSILON:g}")
    return number


def require_delta(value: object, name: str = "delta") -> float:
    """Checks a delta: 0 for pure differential privacy, else from 1e-15 to below 1.

    Raises:
        ParameterError: It is not such a number.
    """
    limit = "0, or from 1e-15 to below 1 (1e-6 is usual, and well below one over the number of records)"
    number = _number(value, name, limit)
    if number != 0 and not 1e-15 <= number < 1:
        raise ParameterError(name, value, limit)
    return number


def require_order(value: object, name: str = "alpha") -> float:
    """Checks an order of a Renyi divergence.

    Raises:
        ParameterError: It is not a number from 1.001 to 1,000,000.
    """
    limit = f"a Renyi order from {MIN_ORDER:g} to {MAX_ORDER:g}, such as 16"
    number = _number(value, name, limit)
    if not MIN_ORDER <= number <= MAX_ORDER:
        raise ParameterError(name, value, limit)
    return number


def exact(value: float) -> Fraction:
    """The number as it is written: ``0.1`` is one tenth, not the binary fraction beside it.

    Example:
        >>> exact(0.1)
        Fraction(1, 10)
    """
    return Fraction(repr(float(value)))


def _number(value: object, name: str, limit: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, value, limit) from None
    if isinstance(value, bool) or not math.isfinite(number):
        raise ParameterError(name, value, limit)
    return number
