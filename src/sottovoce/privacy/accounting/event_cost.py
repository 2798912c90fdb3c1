"""What one event costs in a ledger's currencies: zCDP, pure epsilon, and the probability of a failure.

Guarantee   Every figure is an upper bound for the adjacency that the event's parameters were worked out for.
Sources     specification 6.5; T3 (bounded range), T7 (pure), T8 (Gaussian), T10 (sampling, for plans only).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.accounting.bounded_range import rho_of_bounded_range
from sottovoce.privacy.accounting.composition import SAMPLED, checked, merge, plan_of, rate_of_sample
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN, rho_at_least, rho_of_pure
from sottovoce.privacy.accounting.subsampled_profiles import epsilon_of_sampled
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
from sottovoce.privacy.plain_events import plain

ROUNDING: Final = 1e-12
"""Sums of one figure in two orders are within this share of each other."""


@final
@dataclass(frozen=True)
class EventCost:
    """What one event costs in each currency. ``inf`` where the currency does not apply.

    Attributes:
        rho: zero-concentrated DP parameter.
        epsilon: Pure epsilon.
        delta: Probability of a failure that neither of them covers.
    """

    rho: float
    epsilon: float
    delta: float = 0.0


def cost_of(event: Any) -> EventCost:
    """Prices an event for a ledger (specification 6.5).

    Raises:
        ParameterError: No accountant was taught this event, or it is sampled: then a ledger is charged one point of its
            profile, fixed with ``amplification.point_of``.
    """
    if not isinstance(event, (*SAMPLED, NoOpDpEvent, ComposedDpEvent, SelfComposedDpEvent)):
        event = checked(event)
    match event:
        case NoOpDpEvent():
            return EventCost(0.0, 0.0)
        case BoundedRange():
            return EventCost(rho_of_bounded_range(event.eta), event.eta)
        case PureDP():
            return EventCost(rho_of_pure(event.epsilon), event.epsilon)
        case ZCDpEvent() if event.xi == 0:
            return EventCost(event.rho, math.inf)
        case GaussianDpEvent():
            return EventCost(rho_of_noise(event.noise_multiplier), math.inf)
        case ApproximateDP():
            return EventCost(rho_of_pure(event.epsilon), event.epsilon, event.delta)
        case WithFailure():
            inner = cost_of(event.event)
            return EventCost(inner.rho, inner.epsilon, inner.delta + event.delta)
        case NonPrivateDpEvent():
            return EventCost(math.inf, math.inf)
        case SelfComposedDpEvent():
            single, count = cost_of(event.event), plain(event).count
            return EventCost(times(count, single.rho), times(count, single.epsilon), times(count, single.delta))
        case ComposedDpEvent():
            parts = [cost_of(part) for part in plain(event).events]
            return EventCost(
                math.fsum(part.rho for part in parts),
                math.fsum(part.epsilon for part in parts),
                math.fsum(part.delta for part in parts),
            )
    if isinstance(event, SAMPLED):
        raise ParameterError("event", describe(event), "fixed to one point of its profile first (point_of)")
    raise ParameterError("event", type(event).__name__, "an event this accountant knows")


def covers(cost: EventCost, other: EventCost) -> bool:
    """Whether one cost is no less than another in every currency, but for rounding in floating point.

    Example:
        >>> covers(EventCost(1.0, 2.0), EventCost(0.5, 2.0)), covers(EventCost(1.0, 2.0), EventCost(0.5, 3.0))
        (True, False)
    """
    pairs = ((cost.rho, other.rho), (cost.epsilon, other.epsilon), (cost.delta, other.delta))
    return all(one >= another * (1 - ROUNDING) for one, another in pairs)


def rho_of_noise(multiplier: float) -> float:
    """The zCDP parameter of Gaussian noise; infinite where there is none."""
    mu = 1 / multiplier if multiplier else math.inf
    return rho_at_least(mu * mu / 2, mu)


def pure_of(event: Any) -> float:
    """The pure epsilon of one release; infinite where it has none."""
    if isinstance(event, SAMPLED):
        base = plan_of(merge([event.event]))
        if base.failure > 0:
            return math.inf
        epsilon = math.fsum(times(count, pure_of(release)) for release, count in base.releases.items())
        return epsilon_of_sampled(epsilon, rate_of_sample(event)) * (1 + FLOAT_MARGIN)
    return cost_of(event).epsilon


def rho_of(event: Any) -> float:
    """The zCDP parameter of one release; infinite where it has none."""
    return rho_of_pure(pure_of(event)) if isinstance(event, SAMPLED) else cost_of(event).rho


def times(count: int, value: float) -> float:
    """``count`` times a price that may be infinite; nothing costs nothing."""
    return 0.0 if count == 0 else count * value
