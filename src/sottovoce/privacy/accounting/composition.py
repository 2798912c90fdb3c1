"""What a list of events consists of: equal releases counted once, failures set apart, parameters checked.

Guarantee   A merged plan costs what the events cost in any order; an event that no accountant was taught, or whose
            parameters are out of range, is refused by name. Every release is rebuilt from its numbers as read.
Sources     specification 6.1; Kairouz, Oh and Viswanath (2015): an (epsilon, delta) release is a pure one that fails
            with probability delta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sottovoce.errors import AssignmentError, ParameterError
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
from sottovoce.privacy.parameters import RELEASES
from sottovoce.privacy.plain_events import plain
from sottovoce.privacy.unit import Adjacency

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
    count = RELEASES.read("count", count)
    if isinstance(event, NoOpDpEvent) or count == 0:
        return
    if isinstance(event, SelfComposedDpEvent):
        composed = plain(event)
        yield from _parts(composed.event, count * composed.count)
    elif isinstance(event, ComposedDpEvent):
        for part, times in merge(plain(event).events).items():
            yield part, count * times
    else:
        yield checked(event), count


def checked(event: Any) -> Any:
    """One release itself, hashable, rebuilt from its numbers as they were read.

    Raises:
        ParameterError: It is not known, or a parameter is not a number in its range.
    """
    read = plain(event)
    match read:
        case BoundedRange() | PureDP() | ApproximateDP() | GaussianDpEvent() | NonPrivateDpEvent():
            return read
        case ZCDpEvent() if read.xi == 0:
            return read
        case WithFailure():
            return WithFailure(rebuilt(read.event), read.delta, read.exclusive)
        case PoissonSampledDpEvent():
            return PoissonSampledDpEvent(read.sampling_probability, _unsampled(read.event))
        case SampledWithoutReplacementDpEvent():
            base = _unsampled(read.event)
            return SampledWithoutReplacementDpEvent(read.source_dataset_size, read.sample_size, base)
    shown = describe(event) if isinstance(event, DpEvent) else type(event).__name__
    raise ParameterError("event", shown, "an event this accountant knows")


def rebuilt(event: DpEvent) -> DpEvent:
    """An event from its releases as read, in a form that equal events share, that can be hashed and stays as it is.

    Raises:
        ParameterError: An event is not known, or a parameter is out of range.
    """
    parts = [part if count == 1 else SelfComposedDpEvent(part, count) for part, count in merge([event]).items()]
    return parts[0] if len(parts) == 1 else ComposedDpEvent(tuple(parts))


def _unsampled(event: DpEvent) -> DpEvent:
    for part in merge([event]):
        if isinstance(part, SAMPLED) or (isinstance(part, WithFailure) and holds_sample(part.event)):
            raise ParameterError("event", describe(event), "sampled once: a sample of a sample has no price here")
    return rebuilt(event)


def rate_of_sample(event: Any) -> float:
    """The chance of one unit to be in the sample of a sampled event."""
    if isinstance(event, PoissonSampledDpEvent):
        return float(event.sampling_probability)
    return float(event.sample_size / event.source_dataset_size)


def holds_sample(event: DpEvent) -> bool:
    """Whether any part of an event is sampled."""
    parts = merge([event])
    return any(isinstance(p, SAMPLED) or (isinstance(p, WithFailure) and holds_sample(p.event)) for p in parts)
