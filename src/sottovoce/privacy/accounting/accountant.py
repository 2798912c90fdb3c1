"""Pricing of plans: the least of several valid bounds, with the name of the one that it is.

Guarantee   Every figure is an upper bound; a report is the least of the valid ones and says which.
Assumes     The plan is fixed before the first release. When later charges depend on earlier answers the ledger's filter
            applies instead (specification T14), and what may be reported is its cap. Every event's parameters were
            worked out for the accountant's adjacency; inside a sampled event, for the change described in ``profiles``.
Sources     specification T2 to T4 and T6 (bounded range), T7 (pure), T8 (Gaussian), T9 (conversion), T10 and T11
            (sampling), 6.1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.privacy.accounting.adaptive_composition import LEAST_ETA, finest_grid, optimal_bound
from sottovoce.privacy.accounting.bounded_range import (
    SMALL_ETA,
    delta_of_bounded_range,
    epsilon_of_bounded_range,
    rdp_of_bounded_range,
    rho_of_bounded_range,
)
from sottovoce.privacy.accounting.composition import (
    SAMPLED,
    Plan,
    merge,
    plan_of,
    rate_of_sample,
    require_adjacency,
)
from sottovoce.privacy.accounting.event_cost import cost_of, pure_of, rho_of, times
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu
from sottovoce.privacy.accounting.profiles import MOST_KINDS, MOST_STEPS, epsilon_of_plan, gaussians_merged, has_profile
from sottovoce.privacy.accounting.renyi import (
    ALPHAS,
    FLOAT_MARGIN,
    FloatArray,
    epsilon_of_rdp,
    epsilon_of_rho,
    rdp_of_pure,
    rho_of_budget,
    rho_of_pure,
)
from sottovoce.privacy.accounting.subsampled_profiles import epsilon_of_sampled
from sottovoce.privacy.events import (
    BoundedRange,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PureDP,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from sottovoce.privacy.numbers import exact, float_above, rounded_up
from sottovoce.privacy.parameters import FAILURE, RELEASES
from sottovoce.privacy.unit import Adjacency

__all__ = [
    "ALPHAS",
    "BOUNDS",
    "FLOAT_MARGIN",
    "SMALL_ETA",
    "FloatArray",
    "RdpAccountant",
    "Report",
    "accumulate",
    "cost_of",
    "delta_of_bounded_range",
    "epsilon_of_rdp",
    "epsilon_of_rho",
    "rdp_of_bounded_range",
    "rdp_of_pure",
    "rho_of_bounded_range",
    "rho_of_budget",
    "rho_of_pure",
]

BOUNDS: Final = ("pure", "RDP", "zCDP", "optimal", "GDP", "amplified", "PLD")
"""Names of bounds: the sum of pure epsilons, T4 and T7 on the grid of orders, T9 of the summed rho, T6, T8,
T10 or T11 for a single sampled release, and composed loss distributions."""

_OPTIMAL_WORK: Final = 4e7
"""T6 is part of a report where its recursion takes a few tenths of a second at most."""

_PLD_KINDS, _PLD_STEPS = 8, 20_000
"""Loss distributions are composed unasked for plans of at most so many different releases and releases."""


_ROUNDING_OF_DELTA: Final = 3e-14
_ROUNDING_OF_STEP: Final = 5e-16
"""Prices of 72 sampled plans of up to 1,024 releases at deltas of 1e-6 to 1e-10, with AVX-512 and without it, were
apart by up to 8e-15 over delta, as a share of epsilon; those of 507 others, of up to 38,400 releases, by up to 1.2e-16
a release over delta (``docs/log.md``)."""
_MOST_ROUNDING: Final = 1e-3
_BY_LOSSES: Final = ("PLD", "amplified")
"""Bounds that are worked out with loss distributions."""


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
        bounds: Every valid bound by name; those that are infinite are left out.
        releases: How many releases it is for.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str
    bound: str
    bounds: dict[str, float]
    releases: int = 1

    @property
    def rounding(self) -> float:
        """How far apart two processors may be, as a share of epsilon.

        Loss distributions are sums of differences of numbers near 1. What rounding makes of them is a part of delta,
        so the more of epsilon the smaller delta is; and it grows with how many are composed. Where such a bound is
        not the least, but so close, it may be the least on another processor.
        """
        losses = [value for name, value in {**self.bounds, self.bound: self.epsilon}.items() if name in _BY_LOSSES]
        if not losses or self.delta <= 0:
            return FLOAT_MARGIN
        of_delta = max(_ROUNDING_OF_DELTA, _ROUNDING_OF_STEP * self.releases)
        rounding = min(_MOST_ROUNDING, max(FLOAT_MARGIN, of_delta / self.delta))
        return rounding if min(losses) <= self.epsilon * (1 + rounding) else FLOAT_MARGIN

    def beside(self, stated: float) -> str:
        """This price in words, and how far a stated epsilon is from it where that is taken for another's rounding.

        Args:
            stated: By a certificate. Where a higher one is as good, the lesser of it and this price.

        Example:
            >>> report = Report(4.0, 1e-8, Adjacency.ADD_REMOVE, "record", "PLD", {"PLD": 4.0})
            >>> report.beside(4.0)
            'epsilon 4 by PLD'
            >>> report.beside(3.999999)
            'epsilon 4 by PLD; the stated one differs by 2.6e-07 of it, and processors may round apart by 3e-06 of it'
        """
        told = f"epsilon {rounded_up(self.epsilon, 6)} by {self.bound}"
        apart = abs(self.epsilon - stated)
        if not math.isfinite(apart) or not 0 < apart <= self.rounding * max(self.epsilon, stated):
            return told
        share, most = rounded_up(apart / self.epsilon, 2), rounded_up(self.rounding, 2)
        return f"{told}; the stated one differs by {share} of it, and processors may round apart by {most} of it"

    def __str__(self) -> str:
        return (
            f"epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}, {self.adjacency.value} adjacency, "
            f"unit {self.unit} (bound: {self.bound})"
        )


@final
class RdpAccountant:
    """Adds events and reports the least of the bounds that are valid for them.

    Args:
        adjacency: The adjacency for which every event's parameters were computed.
        unit: The privacy unit, for reports.

    Example:
        >>> accountant = RdpAccountant(Adjacency.REPLACE_ONE)
        >>> report = accountant.compose(BoundedRange(0.1), 100).report(1e-5)
        >>> print(report)
        epsilon 2.018 at delta 1e-05, replace-one adjacency, unit record (bound: optimal)
        >>> round(report.bounds["RDP"], 3)
        2.152
    """

    def __init__(self, adjacency: Adjacency, unit: str = "record") -> None:
        self.adjacency, self.unit = adjacency, unit
        self._merged: Counter[Any] = Counter()

    def compose(self, event: Any, count: int = 1) -> RdpAccountant:
        """Adds ``count`` copies of an event; returns itself.

        Raises:
            ParameterError: The event is not known, a parameter is out of range, or the count is not a whole number.
            AssignmentError: The event is sampled, and not for this adjacency.
        """
        count = RELEASES.read("count", count)
        for part, often in merge([event]).items():
            self._add(part, often * count)
        return self

    def compose_all(self, events: Iterable[Any]) -> RdpAccountant:
        """Adds many events, of which few differ; returns itself."""
        for part, often in merge(events).items():
            self._add(part, often)
        return self

    def report(self, delta: float, bounds: Collection[str] = ()) -> Report:
        """The least valid bound at ``delta``; with delta 0 only the pure total is valid.

        Args:
            delta: Failure probability, shared between the events' own failures and the conversion.
            bounds: Names from ``BOUNDS``, to restrict the report to them or to include one that takes long. Without
                names, T6 and loss distributions are left out where they would take more than a fraction of a second.

        Raises:
            ParameterError: ``delta`` is not a probability, a bound has no such name, or so many releases are sampled
                that only loss distributions bound them, which would take too long.
        """
        delta = FAILURE.read("delta", delta)
        if unknown := sorted(set(bounds) - set(BOUNDS)):
            raise ParameterError("bounds", unknown[0], f"of {', '.join(BOUNDS)}")
        plan = plan_of(self._merged)
        share = plan.share(delta)
        releases = tuple(plan.releases.items())
        epsilons = {name: _bound(name, releases, share, self.adjacency, name in bounds) for name in bounds or BOUNDS}
        valid = {name: value for name, value in epsilons.items() if value is not None and value < math.inf} or {
            "none": math.inf
        }
        if "none" in valid and delta > 0 and _too_many(plan):
            limit = f"at most {MOST_STEPS:,} of at most {MOST_KINDS} kinds, where some are sampled and not pure"
            raise ParameterError("number of releases", f"{plan.steps:,} of {len(plan.releases):,} kinds", limit)
        best = min(valid, key=lambda name: valid[name])
        return Report(valid[best], delta, self.adjacency, self.unit, best, valid, plan.steps)

    def _add(self, part: Any, count: int) -> None:
        for release in plan_of(Counter([part])).releases:
            require_adjacency(release, self.adjacency)
        if count:
            self._merged[part] = RELEASES.read("count", self._merged[part] + count)


def accumulate(events: Iterable[Any], adjacency: Adjacency, unit: str = "record") -> RdpAccountant:
    """An accountant that has composed all ``events``."""
    return RdpAccountant(adjacency, unit).compose_all(events)


@lru_cache(maxsize=4096)
def _bound(
    name: str, counts: tuple[tuple[Any, int], ...], delta: float, adjacency: Adjacency, requested: bool
) -> float | None:
    """One bound on the releases' epsilon; ``None`` where it is not valid for them, or takes too long unasked.

    Kept, since one price is worked out again at every door: planned, charged, stated and verified.
    """
    releases = Counter(dict(counts))
    if name == "pure":
        return _by_sum(releases) if delta >= 0 else math.inf
    if delta <= 0:
        return None
    if not releases:
        return 0.0 if name == "PLD" else None
    match name:
        case "RDP":
            return _by_rdp(releases, delta)
        case "zCDP":
            return _by_rho(releases, delta)
        case "optimal":
            return _by_recursion(releases, delta, requested)
        case "GDP":
            return _by_mu(releases, delta)
        case "amplified":
            return _by_point(releases, delta, adjacency)
    return _by_losses(releases, delta, adjacency, requested)


def _by_sum(releases: Counter[Any]) -> float:
    prices = {event: pure_of(event) for event in releases}
    if math.inf in prices.values():
        return math.inf
    total = sum((count * exact(prices[event]) for event, count in releases.items()), Fraction(0))
    return float_above(total)


def _by_rdp(releases: Counter[Any], delta: float) -> float | None:
    if any(isinstance(event, SAMPLED) and math.isinf(pure_of(event)) for event in releases):
        return None
    total = np.zeros_like(ALPHAS)
    with np.errstate(over="ignore"):  # an infinite divergence is an upper bound
        for event, count in releases.items():
            total += count * _rdp_of(event)
    return epsilon_of_rdp(total, delta)


def _by_rho(releases: Counter[Any], delta: float) -> float | None:
    if any(isinstance(event, SAMPLED) and math.isinf(pure_of(event)) for event in releases):
        return None
    rho = math.fsum(times(count, rho_of(event)) for event, count in releases.items())
    return epsilon_of_rho(rho, delta) if math.isfinite(rho) else math.inf


def _by_recursion(releases: Counter[Any], delta: float, requested: bool) -> float | None:
    (event, steps), *rest = releases.items()
    if rest or not isinstance(event, BoundedRange) or 0 < event.eta < LEAST_ETA:
        return None
    if steps == 1:
        return epsilon_of_bounded_range(event.eta, delta)
    grid = finest_grid(event.eta, steps, delta, _OPTIMAL_WORK) or (40 if requested else None)
    return optimal_bound(event.eta, steps, delta, grid) if grid else None


def _by_mu(releases: Counter[Any], delta: float) -> float | None:
    merged = gaussians_merged(releases)
    only = next(iter(merged))
    if len(merged) > 1 or not isinstance(only, GaussianDpEvent):
        return None
    return epsilon_of_mu(1 / only.noise_multiplier, delta) if only.noise_multiplier else math.inf


def _by_point(releases: Counter[Any], delta: float, adjacency: Adjacency) -> float | None:
    """T10 and T11 as they are stated: one point of the base's profile becomes one of the sampled release's."""
    only = next(iter(releases))
    if releases.total() > 1 or not isinstance(only, SAMPLED):
        return None
    rate = rate_of_sample(only)
    if rate <= delta:
        return 0.0  # the unit is in the sample with probability delta at most
    base = RdpAccountant(adjacency).compose(only.event).report(delta / rate * (1 - FLOAT_MARGIN))
    return epsilon_of_sampled(base.epsilon, rate) * (1 + FLOAT_MARGIN)


def _by_losses(releases: Counter[Any], delta: float, adjacency: Adjacency, requested: bool) -> float | None:
    if not all(has_profile(event) for event in releases) or (_too_many_of(releases) and not requested):
        return None
    sampled = any(isinstance(event, SAMPLED) for event in releases)
    calibrated = len(releases) == 1 and isinstance(next(iter(releases)), BoundedRange)  # T4 and T6 are closer
    small = len(releases) <= _PLD_KINDS and releases.total() <= _PLD_STEPS and not calibrated
    if not (requested or sampled or small):
        return None
    events = [SelfComposedDpEvent(event, count) for event, count in releases.items()]
    return epsilon_of_plan(events, delta, adjacency)


def _too_many(plan: Plan) -> bool:
    return any(isinstance(event, SAMPLED) for event in plan.releases) and _too_many_of(plan.releases)


def _too_many_of(releases: Counter[Any]) -> bool:
    return len(releases) > MOST_KINDS or releases.total() > MOST_STEPS


@lru_cache(maxsize=256)
def _rdp_of(event: Any) -> FloatArray:
    match event:
        case BoundedRange():
            return rdp_of_bounded_range(event.eta)
        case PureDP():
            return rdp_of_pure(event.epsilon)
        case ZCDpEvent() | GaussianDpEvent():
            return np.asarray(cost_of(event).rho * ALPHAS)
        case NonPrivateDpEvent():
            return np.full_like(ALPHAS, np.inf)
    return rdp_of_pure(pure_of(event))
