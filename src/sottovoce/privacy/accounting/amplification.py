"""Amplification by sampling: which samplings have a guarantee, for which adjacency, and what they make of a release.

Guarantee   An event made here holds for the stated adjacency. Combinations that are not in the table are refused by
            name, and so is amplifying a release twice.
Assumes     The coins of the sample are secret, fresh, and independent of the records' content. The base event is
            stated for the change of experts that a record's presence (and, under replace-one, replacement) causes.
Sources     specification 7 (the table), T10 and T11 (Balle, Barthe and Gaboardi 2018), T12 (one sample, one
            amplification), 6.5 (a ledger is charged one point of the profile).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, final

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.parameters import COUNT, Number
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.composition import holds_sample, rebuilt
from sottovoce.privacy.events import (
    ApproximateDP,
    ComposedDpEvent,
    DpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    describe,
    is_private,
)
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.parameters import PROPER_DELTA, RATE, RELEASES
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop


class Sampling(Enum):
    """How the records of one release are chosen; the rows of the specification's table in section 7."""

    POISSON = "Poisson: an independent coin for every unit"
    WITHOUT_REPLACEMENT = "m of n units without replacement, then cut into groups at random"
    CATEGORICAL = "an independent draw of a slot, or of no slot, for every unit"
    RESIDUAL = "disjoint samples one after another from what is left"
    CONTENT = "chosen by content or by a known seed: shuffles, retrieval, coresets, strata of private labels"


@final
@dataclass(frozen=True)
class Rule:
    """What one row of the table asks of the base release.

    Attributes:
        drop: Whether the base may be stated for a drop where every unit has an expert to itself.
        remark: For reports.
    """

    drop: bool
    remark: str


_AR, _RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE

RULES: Final[Mapping[tuple[Sampling, Adjacency], Rule]] = MappingProxyType(
    {
        (Sampling.POISSON, _AR): Rule(drop=True, remark="the size of the sample is random and private"),
        (Sampling.POISSON, _RO): Rule(drop=False, remark="the number of units is public"),
        (Sampling.WITHOUT_REPLACEMENT, _RO): Rule(drop=False, remark="the number of units is public"),
        (Sampling.CATEGORICAL, _AR): Rule(drop=False, remark="slots hold several units: presence re-evaluates one"),
        (Sampling.CATEGORICAL, _RO): Rule(drop=False, remark="slots hold several units: presence re-evaluates one"),
    }
)
"""The table of section 7. What is absent has no amplification: its rate is 1."""


@final
class SharedSample:
    """One sample of the records, and everything that is released from it.

    The releases are composed first and amplified once, when the sample is done with; there is no way to amplify a part.

    Args:
        sampling: How it is drawn.
        adjacency: What one change is.
        change: The change of experts that the base events are stated for: that which a sampled unit's presence (and
            replacement) causes. A swap, unless presence adds an expert and changes no other.
        grouped: Whether a prompt may hold several sampled units, so that presence re-evaluates it.
        rate: Chance of one unit to be in the sample (Poisson, categorical).
        size: Units in the sample (without replacement).
        population: Units in all, public (without replacement).

    Raises:
        AssignmentError: Section 7 has no such combination.
        ParameterError: A number is missing or out of range.

    Example:
        >>> from sottovoce.privacy.events import BoundedRange
        >>> from sottovoce.privacy.unit import SWAP
        >>> sample = SharedSample(Sampling.POISSON, Adjacency.ADD_REMOVE, change=SWAP, grouped=True, rate=0.1)
        >>> sample.release(BoundedRange(0.2), count=50)
        >>> describe(sample.amplified())
        'PoissonSampledDpEvent(sampling_probability=0.1, event=50 x BoundedRange(eta=0.2))'
    """

    def __init__(
        self,
        sampling: Sampling,
        adjacency: Adjacency,
        *,
        change: ChangeType,
        grouped: bool,
        rate: float | None = None,
        size: int | None = None,
        population: int | None = None,
    ) -> None:
        _require_rule(sampling, adjacency, change, grouped)
        if sampling is Sampling.WITHOUT_REPLACEMENT:
            size, population = _sizes(size, population)
        else:
            rate = RATE.read("rate", rate)
        self.sampling, self.adjacency = sampling, adjacency
        self._rate, self._size, self._population = rate, size, population
        self._parts: list[DpEvent] = []
        self._event: DpEvent | None = None

    def release(self, event: DpEvent, count: int = 1) -> None:
        """Notes ``count`` releases from this sample.

        Raises:
            ParameterError: The sample was amplified already, the event is not known, itself sampled or not private, or
                the count is not a whole number.
        """
        count, event = RELEASES.read("count", count), rebuilt(event)
        if self._event is not None:
            raise ParameterError("event", describe(event), "released before its sample is amplified: draw another one")
        if holds_sample(event):
            raise ParameterError("event", describe(event), "amplified once: this one is a sample already")
        if not is_private(event):
            raise ParameterError("event", describe(event), "a private one")
        self._parts.append(event if count == 1 else SelfComposedDpEvent(event, count))

    def amplified(self) -> DpEvent:
        """The one event that all releases from this sample cost; nothing can be released from it afterwards."""
        if self._event is None:
            base = self._parts[0] if len(self._parts) == 1 else ComposedDpEvent(tuple(self._parts))
            if self.sampling is Sampling.WITHOUT_REPLACEMENT:
                self._event = SampledWithoutReplacementDpEvent(self._population, self._size, base)
            else:
                self._event = PoissonSampledDpEvent(self._rate, base)
        return self._event


def point_of(event: DpEvent, delta: float, adjacency: Adjacency) -> ApproximateDP:
    """One point of an event's profile, fixed before the release: what a ledger is charged (specification 6.5).

    Args:
        event: Any event that a report can price; a sampled one, usually.
        delta: Failure probability of the point, above 0.
        adjacency: The ledger's.

    Raises:
        ParameterError: No epsilon is finite at ``delta``.
        AssignmentError: The event is sampled, and not for this adjacency.

    Example:
        >>> from sottovoce.privacy.events import PureDP
        >>> round(point_of(PoissonSampledDpEvent(0.1, PureDP(2.0)), 1e-6, Adjacency.ADD_REMOVE).epsilon, 4)
        0.494
    """
    delta = PROPER_DELTA.read("delta", delta)
    epsilon = RdpAccountant(adjacency).compose(event).report(delta).epsilon
    if math.isinf(epsilon):
        raise ParameterError("event", describe(event), f"one with a finite epsilon at delta {rounded_up(delta)}")
    return ApproximateDP(epsilon, delta)


def _require_rule(sampling: Sampling, adjacency: Adjacency, change: ChangeType, grouped: bool) -> None:
    rule = RULES.get((sampling, adjacency))
    if rule is None:
        allowed = [a.value for (row, a) in RULES if row is sampling]
        raise AssignmentError(
            f"No amplification is known for '{sampling.value}' under {adjacency.value} adjacency. "
            f"Allowed adjacencies: {', '.join(allowed) or 'none'}; unamplified releases need no sampling rule."
        )
    if is_drop(change) and (grouped or not rule.drop):
        why = "a prompt is re-evaluated" if grouped or sampling is Sampling.CATEGORICAL else "a record is exchanged"
        raise AssignmentError(
            f"A base release stated for a drop cannot be amplified by '{sampling.value}' under {adjacency.value} "
            f"adjacency here: {why}. State it for a swap."
        )


def _sizes(size: int | None, population: int | None) -> tuple[int, int]:
    most = COUNT.read("population", population)
    words = f"a whole number from 1 to the population ({population})"
    return Number(1, most, whole=True, strict=True, words=words).read("size", size), most
