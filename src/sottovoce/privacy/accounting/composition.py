"""What a list of events consists of: equal releases counted once, failures set apart, parameters checked.

Guarantee   A merged plan costs what the events cost in any order; an event that no accountant was taught, or whose
            parameters are out of range, is refused by name.
Sources     specification 6.1; Kairouz, Oh and Viswanath (2015): an (epsilon, delta) release is a pure one that fails
            with probability delta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, final

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.parameters import COUNT, Number, YesNo
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
    describe,
)
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import FINITE, SHARE
from sottovoce.privacy.unit import Adjacency

MOST_COUNT: Final = 10**18
"""Releases of one kind above this are refused: floating-point totals would overflow."""
RELEASES: Final = Number(
    0, MOST_COUNT, whole=True, strict=True, words=f"a whole number, 0 or more, and at most {MOST_COUNT:.0e}"
)
"""A number of releases: whole, since a part of a release costs all of it."""

SAMPLED = (PoissonSampledDpEvent, SampledWithoutReplacementDpEvent)
_SAMPLED_WITH = {
    PoissonSampledDpEvent: (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    SampledWithoutReplacementDpEvent: (Adjacency.REPLACE_ONE,),
}


@final
@dataclass(frozen=True)
class Plan:
    """Releases without their failures.

    Attributes:
        releases: How often each different release occurs; none of them fails or is composed.
        failure: Total probability of the failures, exact.
        exclusive: Whether the plan is one release whose loss and failure exclude each other.
    """

    releases: Counter[Any]
    failure: Fraction
    exclusive: bool = False

    @property
    def steps(self) -> int:
        """The number of releases."""
        return sum(self.releases.values())

    def share(self, delta: float) -> float:
        """What failures leave of ``delta`` for the releases; negative where they leave nothing, not even 0."""
        left = exact(delta) - self.failure
        if left < 0 or self.exclusive or self.failure == 0:
            return -1.0 if left < 0 else delta
        return float(left) * (1 - 1e-15)


def plan_of(merged: Counter[Any]) -> Plan:
    """Sets the failures of merged events apart."""
    if sum(merged.values()) == 1:
        (only,) = merged.elements()
        if isinstance(only, WithFailure) and only.exclusive:
            inner = plan_of(merge([only.event]))
            if inner.failure == 0:
                return Plan(inner.releases, exact(only.delta), exclusive=True)
    releases: Counter[Any] = Counter()
    failure = Fraction(0)
    for event, count in merged.items():
        if isinstance(event, ApproximateDP):
            releases[PureDP(event.epsilon)] += count
            failure += count * exact(event.delta)
        elif isinstance(event, WithFailure):
            inner = plan_of(merge([event.event]))
            failure += count * (exact(event.delta) + inner.failure)
            releases.update({release: count * times for release, times in inner.releases.items()})
        else:
            releases[event] += count
    return Plan(releases, failure)


def merge(events: Iterable[Any]) -> Counter[Any]:
    """Counts equal events, with compositions taken apart.

    Raises:
        ParameterError: An event is not known, or a parameter is out of range.

    Example:
        >>> merge([BoundedRange(0.1), SelfComposedDpEvent(BoundedRange(0.1), 3), NoOpDpEvent()])
        Counter({BoundedRange(eta=0.1): 4})
    """
    counts: Counter[Any] = Counter()
    composed: Counter[Any] = Counter()
    for event in events:
        try:
            composed[event] += 1
        except TypeError:  # a list inside: not hashable
            counts.update(dict(_parts(event, 1)))
    for event, count in composed.items():
        for part, times in _parts(event, count):
            counts[part] += times
    return counts


def require_adjacency(event: Any, adjacency: Adjacency) -> None:
    """Refuses a sampled event under an adjacency that its amplification does not hold for (specification 7).

    Raises:
        AssignmentError: It is sampled, and not for this adjacency.
    """
    allowed = _SAMPLED_WITH.get(type(event))
    if allowed and adjacency not in allowed:
        raise AssignmentError(
            f"{type(event).__name__} has no guarantee under {adjacency.value} adjacency; it holds under "
            f"{' and '.join(option.value for option in allowed)}."
        )


def _parts(event: Any, count: int) -> Iterator[tuple[Any, int]]:
    """The releases in an event, each with how often it occurs."""
    if isinstance(event, NoOpDpEvent) or RELEASES.read("count", count) == 0:
        return
    if isinstance(event, SelfComposedDpEvent):
        RELEASES.read("count", event.count)
        yield from _parts(event.event, count * event.count)
    elif isinstance(event, ComposedDpEvent):
        for part, times in merge(event.events).items():
            yield part, count * times
    else:
        yield checked(event), RELEASES.read("count", count)


def checked(event: Any) -> Any:
    """One release itself, hashable, its parameters in range.

    Raises:
        ParameterError: It is not known, or a parameter is not a number in its range.
    """
    match event:
        case BoundedRange():
            _read(event, "eta", FINITE)
        case PureDP():
            _read(event, "epsilon", FINITE)
        case ApproximateDP():
            _read(event, "epsilon", FINITE)
            _read(event, "delta", SHARE)
        case ZCDpEvent() if event.xi == 0:
            _read(event, "rho", FINITE)
        case GaussianDpEvent():
            _read(event, "noise_multiplier", Number(0, strict=True))
        case WithFailure():
            _read(event, "delta", SHARE)
            YesNo().read("WithFailure.exclusive", event.exclusive)
            return WithFailure(_base(event.event), event.delta, event.exclusive)
        case PoissonSampledDpEvent():
            _read(event, "sampling_probability", SHARE)
            return PoissonSampledDpEvent(event.sampling_probability, _unsampled(event.event))
        case SampledWithoutReplacementDpEvent():
            most = COUNT.read("source_dataset_size", event.source_dataset_size)
            words = f"a whole number from 0 to source_dataset_size, {most}"
            Number(0, most, whole=True, strict=True, words=words).read("sample_size", event.sample_size)
            base = _unsampled(event.event)
            return SampledWithoutReplacementDpEvent(event.source_dataset_size, event.sample_size, base)
        case NonPrivateDpEvent():
            pass
        case _:
            shown = describe(event) if isinstance(event, DpEvent) else type(event).__name__
            raise ParameterError("event", shown, "an event this accountant knows")
    return event


def _base(event: DpEvent) -> DpEvent:
    """An event inside another one, in a form that equal events share and that can be hashed."""
    parts = [part if count == 1 else SelfComposedDpEvent(part, count) for part, count in merge([event]).items()]
    return parts[0] if len(parts) == 1 else ComposedDpEvent(tuple(parts))


def _unsampled(event: DpEvent) -> DpEvent:
    for part in merge([event]):
        if isinstance(part, SAMPLED) or (isinstance(part, WithFailure) and holds_sample(part.event)):
            raise ParameterError("event", describe(event), "sampled once: a sample of a sample has no price here")
    return _base(event)


def rate_of_sample(event: Any) -> float:
    """The chance of one unit to be in the sample of a sampled event."""
    if isinstance(event, PoissonSampledDpEvent):
        return float(event.sampling_probability)
    return float(event.sample_size / event.source_dataset_size)


def holds_sample(event: DpEvent) -> bool:
    """Whether any part of an event is sampled."""
    parts = merge([event])
    return any(isinstance(p, SAMPLED) or (isinstance(p, WithFailure) and holds_sample(p.event)) for p in parts)


def _read(event: Any, name: str, limit: Number) -> Any:
    return limit.read(f"{type(event).__name__}.{name}", getattr(event, name))
