"""Limits on the parameters of a privacy guarantee."""

from __future__ import annotations

from typing import Final

from sottovoce.parameters import Number

MAX_EPSILON: Final = 1_000.0
MIN_EPSILON: Final = 1e-6

EPSILON: Final = Number(MIN_EPSILON, MAX_EPSILON)
"""An epsilon given by a person, as a number or as text.

Example:
    >>> EPSILON.read("epsilon", "0.5")
    0.5
"""
DELTA: Final = Number(
    1e-15,
    1,
    below_most=True,
    or_zero=True,
    words="0, or from 1e-15 to below 1 (1e-6 is usual, and well below one over the number of records)",
)
"""A delta: 0 is pure differential privacy."""
ORDER: Final = Number(1.001, 1e6, words="a Renyi order from 1.001 to 1e+06, such as 16")
"""An order of a Renyi divergence."""
