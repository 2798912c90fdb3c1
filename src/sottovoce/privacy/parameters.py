"""Limits on the parameters of a privacy guarantee."""

from __future__ import annotations

import sys
from typing import Annotated, Final

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
"""A delta given by a person: 0 is pure differential privacy."""
NOISE_DELTA: Final = Number(1e-15, 1, below_most=True, words="above 0 for Gaussian noise, such as 1e-6, and below 1")
"""A delta given by a person where the noise has no pure guarantee."""
ORDER: Final = Number(1.001, 1e6, words="a Renyi order from 1.001 to 1e+06, such as 16")
"""An order of a Renyi divergence given by a person."""

Epsilon = Annotated[float, EPSILON]
"""The same as an annotation."""
Delta = Annotated[float, DELTA]
"""The same as an annotation."""
RHO: Final = Number(0, 1e6, above_least=True, below_most=True, strict=True)
"""zCDP parameter of one release."""
Rho = Annotated[float, RHO]
"""The same as an annotation."""

FINITE: Final = Number(0, sys.float_info.max, strict=True, words="a number, 0 or more, and finite")
"""What a release may cost."""
SHARE: Final = Number(0, 1, strict=True)
"""A probability."""
RATE: Final = Number(0, 1, above_least=True, strict=True)
"""The chance of being sampled."""
MOST_COUNT: Final = 10**18
"""Releases of one kind above this are refused: floating-point totals would overflow."""
RELEASES: Final = Number(
    0, MOST_COUNT, whole=True, strict=True, words=f"a whole number, 0 or more, and at most {MOST_COUNT:.0e}"
)
"""A number of releases: whole, since a part of a release costs all of it."""
FAILURE: Final = Number(0, 1, below_most=True, strict=True)
"""A delta that is worked with; 0 is pure differential privacy."""
PROPER_DELTA: Final = Number(0, 1, above_least=True, below_most=True, strict=True)
"""A delta that is worked with, above 0."""
