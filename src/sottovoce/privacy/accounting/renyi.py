"""Renyi divergences on a fixed grid of orders: pure releases, and the conversion to epsilon and delta.

Guarantee   Divergences and converted epsilons are upper bounds; converted budgets are lower bounds.
Sources     specification T7 (pure DP: Bun and Steinke 2016) and T9 (conversion: Canonne, Kamath and Steinke 2020).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

ALPHAS: Final[FloatArray] = np.concatenate([1 + np.geomspace(1e-3, 1e6, 3001)])
"""The Renyi orders; fixed, so that totals of different releases can be added."""

FLOAT_MARGIN: Final = 1e-9
"""Added to epsilons that come from floating-point formulas; more than those can be off."""


_ROUNDING: Final = 2.0**-50
"""Of terms that may cancel."""
LEAST_RHO: Final = 1e-300
"""What a release that is not free counts as at least: smaller squares lose their digits."""

_LOGS: Final = (np.log1p(-1 / ALPHAS), np.log(ALPHAS))


def rho_of_pure(epsilon: float) -> float:
    """The zCDP parameter of a pure-DP release (specification T7).

    Example:
        >>> round(rho_of_pure(1.0), 4)
        0.4621
    """
    return rho_at_least(epsilon * math.tanh(epsilon / 2), epsilon) if epsilon >= 0 else math.nan


def rho_at_least(rho: float, parameter: float) -> float:
    """``rho``, or ``LEAST_RHO`` where it is smaller than that though the parameter it comes from is not 0."""
    return max(rho, LEAST_RHO) if parameter else rho


def rdp_of_pure(epsilon: float, alphas: FloatArray = ALPHAS) -> FloatArray:
    """Renyi divergences of the worst pure-DP release, randomised response, shape (alphas,)."""
    a = np.asarray(alphas, dtype=np.float64)
    log_p, log_q = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    with np.errstate(over="ignore", invalid="ignore"):
        quadratic = a * rho_of_pure(epsilon)
        exact = np.logaddexp(a * log_p + (1 - a) * log_q, a * log_q + (1 - a) * log_p) / (a - 1)
        exact += 1e-15 * (1 + epsilon) * a / (a - 1)  # the rounding of the exponents
        # Where epsilon is small the logarithms cancel, and the quadratic bound is all but exact.
        cancels = (a * epsilon * epsilon < 1e-6) | (a - 1 < 1e-2)
    return np.minimum(np.where(cancels, quadratic, np.maximum(exact, 0.0)), np.minimum(quadratic, epsilon))


def epsilon_of_rdp(rdp: FloatArray, delta: float, alphas: FloatArray = ALPHAS) -> float:
    """Converts Renyi divergences to epsilon at ``delta`` (specification T9). Infinite where delta is 0."""
    if delta <= 0:
        return math.inf
    less, logs = _LOGS if alphas is ALPHAS else (np.log1p(-1 / alphas), np.log(alphas))
    more = (math.log(delta) + logs) / (alphas - 1)
    candidates = rdp + less - more + _ROUNDING * (np.abs(less) + np.abs(more))
    best = np.nanmin(candidates) if not np.isnan(candidates).all() else math.inf
    return max(0.0, float(best) * (1 + FLOAT_MARGIN))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Converts a zCDP parameter to epsilon at ``delta`` (specification T9).

    Example:
        >>> round(epsilon_of_rho(0.5, 1e-6), 3)
        5.222
    """
    if not rho >= 0:
        return math.inf
    with np.errstate(over="ignore"):
        return 0.0 if rho == 0 else epsilon_of_rdp(rho * ALPHAS, delta)


@lru_cache(maxsize=256)
def rho_of_budget(epsilon: float, delta: float) -> float:
    """The largest zCDP budget that (epsilon, delta) admits, rounded to the safe side.

    Example:
        >>> rho = rho_of_budget(5.222, 1e-6)
        >>> bool(0.49 < rho < 0.5001 and epsilon_of_rho(rho, 1e-6) <= 5.222)
        True
    """
    low, high = 0.0, epsilon + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break  # nothing is between them
        if epsilon_of_rho(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def rho_that_fits(epsilon: float, delta: float) -> float:
    """The largest zCDP parameter of a release that a ledger with the budget (epsilon, delta) has room for.

    A ledger counts whole units of 1e-15, rounds its cap down and what it charges up.

    Example:
        >>> units = rho_of_budget(1.0, 1e-6) * 1e15
        >>> math.ceil(rho_that_fits(1.0, 1e-6) * 1e15) <= units < math.ceil(rho_that_fits(1.0, 1e-6) * 1e15) + 1
        True
    """
    rho = rho_of_budget(epsilon, delta)
    units = math.floor(Fraction(rho) * 10**15)
    return min(rho, math.nextafter(units / 10**15, 0)) if units else rho
