"""Gaussian differential privacy: the profile of N(0, 1) against N(mu, 1), and its inverses.

Guarantee   Epsilons are rounded up and mus down, by more than the formulas' floating-point error.
Assumes     Continuous noise, or its correctly rounded form; the discrete Gaussian is priced as zCDP (specification T8).
Sources     Balle and Wang (2018); Dong, Roth and Su (2022).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sottovoce.parameters import Number
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN, FloatArray

_STEPS: Final = 200
_ROUNDING: Final = 2.0**-48
"""Of a tail, by its value: 16 units in the last place."""
_SMALLEST: Final = 8 * 2.0**-1074
"""Of a tail so small that it has lost digits."""


def delta_of_mu(epsilon: float, mu: float) -> float:
    """The exact delta of a mu-GDP release at ``epsilon``, which may be negative.

    Example:
        >>> round(delta_of_mu(1.0, 1.0), 6)
        0.126937
    """
    return float(deltas_of_mu(np.array([epsilon]), mu)[0])


def deltas_of_mu(epsilons: FloatArray, mu: float, *, rounded_up: bool = True) -> FloatArray:
    """The same at many epsilons, shape (epsilons,).

    Phi(-a) - e^epsilon Phi(-b) with a, b = epsilon/mu -+ mu/2. Both terms have the density of a as a factor, and what
    is left are Mills ratios, so that neither overflows nor do tiny deltas cancel. Where mu is small the two are close:
    what rounding can take from their difference is added to it.

    Args:
        epsilons: Of either sign.
        mu: 0 or more.
        rounded_up: ``False`` adds nothing; deltas are then below the true ones by 1e-15 at most.
    """
    from scipy import special

    e = np.asarray(epsilons, dtype=np.float64)
    if mu == 0:
        return np.maximum(0.0, -np.expm1(e))
    mu = Number(0, below_most=True, strict=True).read("mu", mu)
    size = np.abs(e)
    a, b = size / mu - mu / 2, size / mu + mu / 2
    density = np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    tail = np.where(a > 0, density * _mills(np.maximum(a, 0.0)), special.ndtr(-a))
    at_size = np.maximum(0.0, tail - density * _mills(b))
    if rounded_up:
        at_size += _ROUNDING * tail + _SMALLEST
    return np.minimum(1.0, np.where(e >= 0, at_size, -np.expm1(-size) + np.exp(-size) * at_size))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The least epsilon of a mu-GDP release at ``delta``; infinite at delta 0.

    Example:
        >>> round(epsilon_of_mu(0.5, 1e-5), 3)
        1.993
    """
    if not delta > 0 or mu == math.inf:
        return 0.0 if mu == 0 else math.inf
    if _fits(0.0, mu, delta):
        return 0.0
    low, high = 0.0, 1.0
    while not _fits(high, mu, delta):
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break  # nothing is between them
        low, high = (low, middle) if _fits(middle, mu, delta) else (middle, high)
    return high * (1 + FLOAT_MARGIN)


def mu_of_budget(epsilon: float, delta: float) -> float:
    """The largest mu that (epsilon, delta) admits, rounded to the safe side; 0 at delta 0.

    Example:
        >>> [round(mu_of_budget(epsilon, 1e-5), 4) for epsilon in (1, 3, 8)]
        [0.2681, 0.7191, 1.666]
    """
    if delta <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while _fits(epsilon, high, delta) and high < 1e6:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break  # nothing is between them
        low, high = (middle, high) if _fits(epsilon, middle, delta) else (low, middle)
    return low


def _fits(epsilon: float, mu: float, delta: float) -> bool:
    return delta_of_mu(epsilon, mu) * (1 + FLOAT_MARGIN) <= delta


def _mills(x: FloatArray) -> FloatArray:
    """Tail over density of a standard normal, at x >= 0."""
    from scipy import special

    return np.asarray(special.erfcx(x / math.sqrt(2)) * math.sqrt(math.pi / 2))
