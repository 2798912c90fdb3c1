"""Pricing of events: Renyi differential privacy on a fixed grid, zero-concentrated DP, and pure totals.

Guarantee   Every figure is an upper bound; a report is the least of the valid ones and says which.
Assumes     The plan is fixed before the first release. When later charges depend on earlier answers the ledger's filter
            applies instead (specification T14), and what may be reported is its cap.
Sources     specification T2 to T4 (bounded range), T7 (pure), T9 (conversion: Canonne, Kamath and Steinke 2020).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PureDP,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
    describe,
)
from sottovoce.privacy.unit import Adjacency

FloatArray = NDArray[np.float64]

ALPHAS: Final[FloatArray] = np.concatenate([1 + np.geomspace(1e-3, 1e6, 3001)])
"""The Renyi orders; fixed, so that totals of different releases can be added."""

SMALL_ETA: Final = 1e-2
"""Below this the closed form of rho cancels; eta squared over eight is charged, which is also an upper bound."""


FLOAT_MARGIN: Final = 1e-9
"""Added to epsilons that come from floating-point formulas; more than those can be off."""


def delta_of_bounded_range(epsilon: float, eta: float) -> float:
    """Largest delta of one eta-bounded-range release at ``epsilon`` (specification T2).

    Example:
        >>> round(delta_of_bounded_range(0.5, 1.0), 6)
        0.077405
    """
    if epsilon >= eta:
        return 0.0
    if epsilon <= -eta:
        return -math.expm1(epsilon)
    return math.expm1((epsilon - eta) / 2) ** 2 / -math.expm1(-eta)


def rho_of_bounded_range(eta: float) -> float:
    """The zCDP parameter of an eta-bounded-range release (specification T3).

    Example:
        >>> round(rho_of_bounded_range(1.0), 8)
        0.12330156
    """
    if not eta >= 0:
        return math.nan
    if eta < SMALL_ETA:
        return eta * eta / 8
    x = eta / math.expm1(eta) if eta < 700 else 0.0
    return x - 1 - (math.log(eta) - eta - math.log1p(-math.exp(-eta)))


def rho_of_pure(epsilon: float) -> float:
    """The zCDP parameter of a pure-DP release (specification T7).

    Example:
        >>> round(rho_of_pure(1.0), 4)
        0.4621
    """
    return epsilon * math.tanh(epsilon / 2) if epsilon >= 0 else math.nan


def rdp_of_bounded_range(eta: float, alphas: FloatArray = ALPHAS) -> FloatArray:
    """Renyi divergences of an eta-bounded-range release, shape (alphas,), the exact supremum (specification T4)."""
    a = np.asarray(alphas, dtype=np.float64)
    order = a - 1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        m = np.exp(-order * eta)
        k = np.expm1(-order * eta) / math.expm1(-eta)
        s = np.clip(order / a * (k + m) / k * math.exp(min(eta, 700)), 1.0, math.exp(min(eta, 700)))
        exact = np.log(s) + np.log((k + m) - k * math.exp(-eta) * s) / order
    quadratic = a * eta * eta / 8
    use_quadratic = (order * eta * eta < 1e-6) | ~np.isfinite(exact)
    return np.minimum(np.where(use_quadratic, quadratic, exact), np.minimum(quadratic, eta))


def rdp_of_pure(epsilon: float, alphas: FloatArray = ALPHAS) -> FloatArray:
    """Renyi divergences of the worst pure-DP release, randomised response, shape (alphas,)."""
    a = np.asarray(alphas, dtype=np.float64)
    log_p, log_q = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    renyi = np.logaddexp(a * log_p + (1 - a) * log_q, a * log_q + (1 - a) * log_p) / (a - 1)
    return np.minimum(np.maximum(renyi, 0.0), np.minimum(a * rho_of_pure(epsilon), epsilon))


def epsilon_of_rdp(rdp: FloatArray, delta: float, alphas: FloatArray = ALPHAS) -> float:
    """Converts Renyi divergences to epsilon at ``delta`` (specification T9). Infinite where delta is 0."""
    if delta <= 0:
        return math.inf
    candidates = rdp + np.log1p(-1 / alphas) - (math.log(delta) + np.log(alphas)) / (alphas - 1)
    return max(0.0, float(np.nanmin(candidates)) * (1 + FLOAT_MARGIN))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Converts a zCDP parameter to epsilon at ``delta`` (specification T9).

    Example:
        >>> round(epsilon_of_rho(0.5, 1e-6), 3)
        5.222
    """
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
        if epsilon_of_rho(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


@final
@dataclass(frozen=True)
class Charge:
    """What one event costs in each currency. ``inf`` where the currency does not apply.

    Attributes:
        rho: zero-concentrated DP parameter.
        epsilon: Pure epsilon.
        delta: Probability of a failure that neither of them covers.
    """

    rho: float
    epsilon: float
    delta: float = 0.0


def charge_of(event: Any) -> Charge:
    """Prices an event for a ledger (specification 6.5).

    Raises:
        ParameterError: No accountant was taught this event.
    """
    match event:
        case NoOpDpEvent():
            return Charge(0.0, 0.0)
        case BoundedRange():
            return Charge(rho_of_bounded_range(event.eta), event.eta)
        case PureDP():
            return Charge(rho_of_pure(event.epsilon), event.epsilon)
        case ZCDpEvent() if event.xi == 0:
            return Charge(event.rho, math.inf)
        case GaussianDpEvent():
            return Charge(0.5 / event.noise_multiplier**2 if event.noise_multiplier else math.inf, math.inf)
        case ApproximateDP():
            return Charge(rho_of_pure(event.epsilon), event.epsilon, event.delta)
        case WithFailure():
            inner = charge_of(event.event)
            return Charge(inner.rho, inner.epsilon, inner.delta + event.delta)
        case NonPrivateDpEvent():
            return Charge(math.inf, math.inf)
        case SelfComposedDpEvent():
            one = charge_of(event.event)
            return Charge(
                _times(event.count, one.rho), _times(event.count, one.epsilon), _times(event.count, one.delta)
            )
        case ComposedDpEvent():
            parts = [charge_of(part) for part in event.events]
            return Charge(
                math.fsum(part.rho for part in parts),
                math.fsum(part.epsilon for part in parts),
                math.fsum(part.delta for part in parts),
            )
    raise ParameterError("event", type(event).__name__, "an event this accountant knows")


@final
@dataclass(frozen=True)
class Report:
    """A total for a plan fixed in advance. It never prints a number without its adjacency.

    Attributes:
        epsilon: The least valid bound at ``delta``.
        delta: Failure probability.
        adjacency: What one change is.
        unit: Who is protected.
        bound: Which bound was the least.
        bounds: Every valid bound by name.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str
    bound: str
    bounds: dict[str, float]

    def __str__(self) -> str:
        return (
            f"epsilon {self.epsilon:.4g} at delta {self.delta:.3g}, {self.adjacency.value} adjacency, "
            f"unit {self.unit} (bound: {self.bound})"
        )


@final
class RdpAccountant:
    """Adds events by their Renyi divergences on a fixed grid of orders, beside zCDP and pure totals.

    Args:
        adjacency: The relation for which every event's parameters were worked out.
        unit: The privacy unit, for reports.

    Example:
        >>> accountant = RdpAccountant(Adjacency.REPLACE_ONE)
        >>> print(accountant.compose(BoundedRange(0.1), 100).report(1e-5))
        epsilon 2.152 at delta 1e-05, replace-one adjacency, unit record (bound: RDP)
    """

    def __init__(self, adjacency: Adjacency, unit: str = "record") -> None:
        self.adjacency, self.unit = adjacency, unit
        self._rdp = np.zeros_like(ALPHAS)
        self._rho = self._pure = 0.0

    def compose(self, event: Any, count: int = 1) -> RdpAccountant:
        """Adds ``count`` copies of an event; returns itself.

        Raises:
            ParameterError: The event is not known, or the count is negative.
        """
        if count < 0:
            raise ParameterError("count", count, "0 or more")
        charge = charge_of(event)
        self._rdp = self._rdp + (count * _rdp_of(event) if count else 0.0)
        self._rho += _times(count, charge.rho)
        self._pure += _times(count, charge.epsilon)
        return self

    def report(self, delta: float) -> Report:
        """The least valid bound at ``delta``; with delta 0 only the pure total is valid."""
        bounds = {"pure": self._pure}
        if delta > 0:
            bounds["RDP"] = epsilon_of_rdp(self._rdp, delta)
            bounds["zCDP"] = epsilon_of_rho(self._rho, delta) if math.isfinite(self._rho) else math.inf
        best = min(bounds, key=lambda name: bounds[name])
        return Report(bounds[best], delta, self.adjacency, self.unit, best, bounds)


def _rdp_of(event: Any) -> FloatArray:
    match event:
        case NoOpDpEvent():
            return np.zeros_like(ALPHAS)
        case BoundedRange():
            return rdp_of_bounded_range(event.eta)
        case PureDP():
            return rdp_of_pure(event.epsilon)
        case ZCDpEvent() if event.xi == 0:
            return np.asarray(event.rho * ALPHAS)
        case NonPrivateDpEvent():
            return np.full_like(ALPHAS, np.inf)
        case SelfComposedDpEvent():
            return np.asarray(event.count * _rdp_of(event.event)) if event.count else np.zeros_like(ALPHAS)
        case ComposedDpEvent():
            return np.asarray(sum((_rdp_of(part) for part in event.events), np.zeros_like(ALPHAS)))
    raise ParameterError("event", describe(event), "an event this accountant knows")


def _times(count: int, value: float) -> float:
    return 0.0 if count == 0 else count * value


def accumulate(events: Iterable[Any], adjacency: Adjacency, unit: str = "record") -> RdpAccountant:
    """An accountant that has composed all ``events``."""
    accountant = RdpAccountant(adjacency, unit)
    for event in events:
        accountant.compose(event)
    return accountant
