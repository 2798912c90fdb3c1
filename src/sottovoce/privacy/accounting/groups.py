"""What an event costs when several units change: group privacy, and replacing as removing and adding.

Guarantee   Scaled events and figures are upper bounds for any change of up to k units.
Sources     specification T18, 2.6 (a user who occupies k slots), 2.3 (replace-one lies in two add-remove steps).
"""

from __future__ import annotations

import math

from sottovoce.errors import ParameterError
from sottovoce.parameters import COUNT
from sottovoce.privacy.accounting.composition import SAMPLED
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PureDP,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
    describe,
)
from sottovoce.privacy.numbers import exact, float_above, float_below
from sottovoce.privacy.parameters import FINITE, SHARE
from sottovoce.privacy.plain_events import plain


def scaled_to_group(event: DpEvent, units: int) -> DpEvent:
    """The event as it holds for a change of up to ``units`` units.

    Raises:
        ParameterError: The event is sampled, or may fail without being pure otherwise: neither scales by a rule, so it
            must be worked out for the group from the start; or ``units`` is below 1.

    Example:
        >>> scaled_to_group(BoundedRange(0.1), 4)
        BoundedRange(eta=0.4)
    """
    units = COUNT.read("units", units)
    if units == 1:
        return event
    event = plain(event)
    match event:
        case BoundedRange():
            return BoundedRange(_times(units, event.eta))
        case PureDP():
            return PureDP(_times(units, event.epsilon))
        case ZCDpEvent() if event.xi == 0:
            return ZCDpEvent(_times(units**2, event.rho))
        case GaussianDpEvent():
            return GaussianDpEvent(_shared(event.noise_multiplier, units))
        case ApproximateDP():
            return _approximate(event.epsilon, event.delta, units)
        case WithFailure() if isinstance(event.event, PureDP):
            return _approximate(event.event.epsilon, event.delta, units)
        case WithFailure() if isinstance(event.event, BoundedRange):
            return _approximate(event.event.eta, event.delta, units)
        case SelfComposedDpEvent():
            return SelfComposedDpEvent(scaled_to_group(event.event, units), event.count)
        case ComposedDpEvent():
            return ComposedDpEvent([scaled_to_group(part, units) for part in event.events])
        case NoOpDpEvent() | NonPrivateDpEvent():
            return event
        case WithFailure():
            raise ParameterError("event", describe(event), "worked out for the group: its threshold and noise depend")
    if isinstance(event, SAMPLED):
        raise ParameterError("event", describe(event), "not sampled: a group's members are sampled apart")
    raise ParameterError("event", type(event).__name__, "an event this accountant knows")


def epsilon_delta_of_group(epsilon: float, delta: float, units: int) -> tuple[float, float]:
    """The (epsilon, delta) that a group of ``units`` has where one unit has this one; delta may reach 1.

    Example:
        >>> round(epsilon_delta_of_group(1.0, 1e-6, 2)[1] * 1e6, 5)  # 1 + e
        3.71828
    """
    units = COUNT.read("units", units)
    epsilon, delta = FINITE.read("epsilon", epsilon), SHARE.read("delta", delta)
    if units * epsilon > 700:
        return _times(units, epsilon), float(delta > 0)
    factor = units if epsilon == 0 else math.expm1(units * epsilon) / math.expm1(epsilon)
    return _times(units, epsilon), min(1.0, delta * factor * (1 + FLOAT_MARGIN if units > 1 else 1))


def _approximate(epsilon: float, delta: float, units: int) -> DpEvent:
    of_group = epsilon_delta_of_group(epsilon, delta, units)
    return ApproximateDP(*of_group) if of_group[1] < 1 else NonPrivateDpEvent()


def _times(count: int, value: float) -> float:
    """Never below the product of the numbers as they are written; 3 times 0.7 in floating point is below 2.1."""
    return float_above(count * exact(value)) if math.isfinite(value) else count * value


def _shared(value: float, count: int) -> float:
    """Never above the quotient."""
    return float_below(exact(value) / count) if math.isfinite(value) else value / count
