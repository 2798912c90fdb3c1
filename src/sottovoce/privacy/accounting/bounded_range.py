"""One bounded-range release: its profile, its zCDP parameter and its Renyi divergences.

Guarantee   Each formula is the supremum over all releases whose privacy loss lies in an interval of length eta.
Sources     specification T2 (profile: Dong, Durfee and Rogers 2020), T3 (zCDP), T4 (Renyi, closed form).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sottovoce.privacy.accounting.renyi import ALPHAS, FLOAT_MARGIN, FloatArray, rho_at_least

_ROUNDING: Final = 1e-15
"""Of two logarithms of about 1, of which one is divided by the order less one."""

SMALL_ETA: Final = 1e-2
"""Below this the closed form of rho cancels; eta squared over eight is charged, which is also an upper bound."""


def delta_of_bounded_range(epsilon: float, eta: float) -> float:
    """Largest delta of one eta-bounded-range release at ``epsilon`` (specification T2).

    Example:
        >>> round(delta_of_bounded_range(0.5, 1.0), 6)
        0.077405
    """
    return float(deltas_of_bounded_range(np.array([epsilon]), eta)[0])


def deltas_of_bounded_range(epsilons: FloatArray, eta: float) -> FloatArray:
    """The same at many epsilons of any sign, shape (epsilons,)."""
    e = np.asarray(epsilons, dtype=np.float64)
    if eta == 0:
        return np.maximum(0.0, -np.expm1(e))
    inside = np.expm1((np.clip(e, -eta, eta) - eta) / 2) ** 2 / -math.expm1(-eta)
    return np.where(e >= eta, 0.0, np.where(e <= -eta, -np.expm1(np.minimum(e, 0.0)), inside))


def epsilon_of_bounded_range(eta: float, delta: float) -> float:
    """Least epsilon of one eta-bounded-range release at ``delta``: T2 solved for epsilon.

    Example:
        >>> round(epsilon_of_bounded_range(1.005042, 1e-5), 5)
        1.0
    """
    root = math.sqrt(delta * (1 - FLOAT_MARGIN) * -math.expm1(-eta))
    return max(0.0, eta + 2 * math.log1p(-root)) * (1 + FLOAT_MARGIN) if root < 1 else 0.0


def rho_of_bounded_range(eta: float) -> float:
    """The zCDP parameter of an eta-bounded-range release (specification T3).

    Example:
        >>> round(rho_of_bounded_range(1.0), 8)
        0.12330156
    """
    if not eta >= 0:
        return math.nan
    if eta < SMALL_ETA:
        return rho_at_least(eta * eta / 8, eta)
    if eta < 1:  # the logarithm of x itself would cancel
        below = (eta - math.expm1(eta)) / math.expm1(eta)
        return below - math.log1p(below)
    x = eta / math.expm1(eta) if eta < 700 else 0.0
    return x - 1 - (math.log(eta) - eta - math.log1p(-math.exp(-eta)))


def rdp_of_bounded_range(eta: float, alphas: FloatArray = ALPHAS) -> FloatArray:
    """Renyi divergences of an eta-bounded-range release, shape (alphas,), the exact supremum (specification T4)."""
    a = np.asarray(alphas, dtype=np.float64)
    order = a - 1
    if eta == 0:
        return np.zeros_like(a)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        quadratic = a * eta * eta / 8
        m = np.exp(-order * eta)
        k = np.expm1(-order * eta) / math.expm1(-eta)
        s = np.clip(order / a * (k + m) / k * math.exp(min(eta, 700)), 1.0, math.exp(min(eta, 700)))
        exact = np.log(s) + np.log((k + m) - k * math.exp(-eta) * s) / order
        exact += _ROUNDING * (1 + 1 / order)
        use_quadratic = (order * eta * eta < 1e-6) | ~np.isfinite(exact) | (eta > 700)  # exp(eta) overflows: eta itself
    return np.minimum(np.where(use_quadratic, quadratic, exact), np.minimum(quadratic, eta))
