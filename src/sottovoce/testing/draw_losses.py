"""How far two neighbouring worlds are apart in what a mechanism is given, and what that costs.

Guarantee   A move beyond the bound that a mechanism was told is found exactly, in whole numbers. The loss of a draw is
            that of this pair: less than the mechanism's event where the pair moves by less than the bound.
            A sum loses no less than the variance of its noise shows, whatever its mechanism charges.
            A pair of worlds is within an event if each of its draws is within a part of the event that is its own, or
            if an accountant's upper bound of all of them is within its figure for the event.
Sources     specification 1.5 (ranges and norms), T1 (bounded range), T8 (Gaussian noise);
            Chapman and Robbins (1951) for what a variance shows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import SelectionMechanism, log_law
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.accounting.composition import Plan, merge, plan_of, rebuilt
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.privacy.events import (
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PureDP,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.claims import FloatArray
from sottovoce.testing.draw_tape import Draw
from sottovoce.testing.report import ContractError

SLACK: Final = 1 + 1e-9
"""Figures are worked out in floating point."""
DIGITS: Final = 12
"""Losses that are equal up to these significant digits are the same loss."""
MOST_REACH: Final = 1 << 20
"""Noise that reaches further is not written out: it loses what its event says."""
TINY: Final = 1e-200
"""A smaller variance of noise counts as this one."""
ORDERED: Final = (BoundedRange, PureDP, ZCDpEvent, GaussianDpEvent)
"""Events of which one with a larger parameter costs more at every delta; compositions of other sizes may cost less."""
RECENT: Final = 1024
"""Laws that are kept: a draw is compared with those of several worlds."""


@lru_cache(maxsize=RECENT)
def law_of(draw: Draw) -> FloatArray:
    """Natural-log probability of every candidate of a selection."""
    if type(draw.mechanism) is not Exponential or draw.public:
        return log_law(draw.mechanism.law(draw.aggregate, *draw.public))
    its = draw.aggregate
    return _law_of_scores(draw.mechanism, its.values.tobytes(), its.sensitivity, its.adjacency, its.squared_l2)


@lru_cache(maxsize=RECENT)
def _law_of_scores(
    mechanism: Exponential, values: bytes, sensitivity: int, adjacency: Adjacency, squared_l2: int | None
) -> FloatArray:
    """The same by what it follows from: draws of neighbouring worlds are given equal scores over and over."""
    scores = np.frombuffer(values, dtype=np.int64)
    law = log_law(mechanism.law(Scores(scores, sensitivity=sensitivity, adjacency=adjacency, squared_l2=squared_l2)))
    law.flags.writeable = False
    return law


def too_far(one: Draw, other: Draw, adjacency: Adjacency) -> str:
    """What shows that two worlds are further apart than a mechanism was told; empty where nothing does."""
    told = one.aggregate
    if told.adjacency is not adjacency:
        return f"is told that one change is {told.adjacency.value}"
    if isinstance(told, ItemCounts):
        return _items_too_far(told, other.aggregate)
    moved = [a - b for a, b in zip(told.values.tolist(), other.aggregate.values.tolist(), strict=True)]
    if isinstance(told, Scores):
        reach, square = max(moved) - min(moved), _least_square(moved)
        if reach > told.sensitivity:
            return f"is told a sensitivity of {told.sensitivity}, and scores move by {reach}"
        if told.squared_l2 is not None and square > told.squared_l2:
            return f"is told a squared norm of {told.squared_l2}, and scores move by {square}"
    if isinstance(told, VectorSum) and (square := sum(step * step for step in moved)) > told.squared_l2:
        ratio = math.sqrt(square / told.squared_l2)
        return f"is told a squared norm of {told.squared_l2}, and its sum moves by {square}, {ratio:.4g} times the norm"
    if isinstance(told, Counts) and (reach := sum(map(abs, moved))) > told.l1:
        return f"is told that counts change by {told.l1} in all, and they change by {reach}"
    return ""


def _items_too_far(one: ItemCounts, other: ItemCounts) -> str:
    """What shows that counts of items move by more than their cap and change say, or that too many items are new."""
    moved = {item: one.counts[item] - other.counts[item] for item in one.counts.keys() | other.counts.keys()}
    if (reach := sum(map(abs, moved.values()))) > one.l1:
        return f"is told that counts of items change by {one.l1} in all, and they change by {reach}"
    for here, there in ((one, other), (other, one)):
        new = [count for item, count in here.counts.items() if item not in there.counts]
        rows, most = one.change.rows, one.change.rows * one.items_per_unit
        if len(new) > most or max(new, default=0) > rows:
            return f"is told that a change adds {most} items of count {rows} at most, and it adds {len(new)}"
    return ""


def _least_square(moved: Sequence[int]) -> int:
    """Squared norm of a move of scores, of which a selection ignores what all candidates have in common."""
    middle = sum(moved) // len(moved)
    return min(sum((step - common) ** 2 for step in moved) for common in (0, middle, middle + 1))


def losses_of(ones: Sequence[Draw], others: Sequence[Draw]) -> list[DpEvent]:
    """What each of these pairs of draws costs, and last what runs of threshold tests cost that go on after a yes.

    A run of threshold tests costs its event once if any of its counts moves, and once more for every yes after the
    first: one noise on the threshold hides no second one.
    """
    losses, yeses, moved = list[DpEvent](), Counter[int](), dict[int, DpEvent]()
    for one, other in zip(ones, others, strict=True):
        loss = loss_of(one, other)
        if one.test is not None:
            run = one.test.run
            yeses[run] += bool(one.outcome)
            loss = NoOpDpEvent() if run in moved else loss
            moved |= {} if isinstance(loss, NoOpDpEvent) else {run: loss}
        losses.append(loss)
    return losses + [loss for run, loss in moved.items() for _ in range(yeses[run] - 1)]


def loss_of(one: Draw, other: Draw) -> DpEvent:
    """What this pair of draws costs; of a threshold test, what its run does."""
    event = one.mechanism.event
    if isinstance(one.aggregate, ItemCounts):
        return event if one.aggregate.counts != other.aggregate.counts else NoOpDpEvent()
    moved = one.aggregate.values - other.aggregate.values
    if not moved.any():
        return NoOpDpEvent()
    if isinstance(one.aggregate, VectorSum):
        return _moved_by(one, sum(step * step for step in moved.tolist()))
    if isinstance(one.aggregate, Counts) and one.test is None and isinstance(event, PureDP):
        return _positive(PureDP, min(event.epsilon, _noise_loss(one, moved.tolist())))
    if isinstance(one.mechanism, SelectionMechanism) and isinstance(event, BoundedRange | PureDP):
        ratio = law_of(one) - law_of(other)
        ratio = ratio[~np.isnan(ratio)]
        if isinstance(event, BoundedRange):
            return _positive(BoundedRange, float(ratio.max() - ratio.min()))
        return _positive(PureDP, float(np.abs(ratio).max()))
    return event


def event_of(draw: Draw) -> DpEvent:
    """What a mechanism charges for a draw, or more where the variance of its noise shows that the draw loses more."""
    return _moved_by(draw, draw.aggregate.squared_l2) if isinstance(draw.aggregate, VectorSum) else draw.mechanism.event


def _moved_by(draw: Draw, square: int) -> DpEvent:
    """What a noisy sum loses that moves by this squared norm, in steps.

    That is the share of the event by what the mechanism was told; or more by the variance of its noise, which is in
    steps too: of two laws this far apart, the Renyi divergence of order 2 is log(1 + square / variance) at least.
    """
    event, share = draw.mechanism.event, square / draw.aggregate.squared_l2
    variance = variance_of(draw)
    least = math.log1p(square / max(variance, TINY)) if variance is not None else 0.0
    match event:
        case GaussianDpEvent():
            return GaussianDpEvent(_rounded(max(share / event.noise_multiplier**2, least) ** -0.5))
        case ZCDpEvent():
            return ZCDpEvent(_rounded(max(event.rho * share, least / 2)))
        case PureDP():
            return PureDP(_rounded(max(event.epsilon, least)))
    return event


def variance_of(draw: Draw) -> float | None:
    """The variance of the noise on each number of a vector, in squared grid steps; ``None`` where it is not stated.

    Raises:
        ContractError: It is no number.
    """
    variance = getattr(draw.mechanism, "noise_variance", None)
    if not callable(variance):
        return None
    stated = variance(draw.aggregate)
    try:
        return float(stated)
    except (TypeError, ValueError):
        problem = "its noise_variance(vector) is no number; state the variance on one number, in squared grid steps"
        raise ContractError("drive", repr(draw.mechanism), problem) from None


def _noise_loss(draw: Draw, moved: Sequence[int]) -> float:
    """Largest log-ratio of noisy counts of which each moves by so much, by the law that the mechanism states."""
    steps = Counter(abs(step) for step in moved if step)
    if type(draw.mechanism) is Laplace:  # its log-ratio is the move over the scale, however far the noise reaches
        return float(sum(map(abs, moved)) / draw.mechanism.scale(draw.aggregate))
    if sum(map(abs, moved)) >= draw.aggregate.l1 or not callable(getattr(draw.mechanism, "noise_law", None)):
        return math.inf
    law, reach = np.zeros(1), 60 * (max(steps) + 1)
    while law.sum() < 1 - 1e-12:
        if reach > MOST_REACH:
            return math.inf
        law = np.asarray(draw.mechanism.noise_law(draw.aggregate, reach), dtype=np.float64)
        reach *= 2
    logs = log_law(law)
    return math.fsum(times * float(np.abs(logs[step:] - logs[:-step]).max()) for step, times in steps.items())


def _positive(kind: type[Any], value: float) -> DpEvent:
    return kind(_rounded(value)) if value > 1e-12 else NoOpDpEvent()


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


@final
@dataclass
class Losses:
    """Losses of pairs, with a pair that shows each.

    Attributes:
        adjacency: Of all pairs.
        pairs: How many were added.
    """

    adjacency: Adjacency
    pairs: int = 0
    _kinds: dict[tuple[DpEvent, ...], str] = field(default_factory=dict)

    def add(self, losses: Sequence[DpEvent], world: str) -> None:
        """The losses of every draw of one pair, in order."""
        self.pairs += 1
        self._kinds.setdefault(_merged(losses), world)

    def exceed(self, event: Any, delta: float) -> tuple[str, str] | None:
        """What shows that some pair loses more than the event says, and the pair; ``None`` where none does."""
        charged = plan_of(merge([event]))
        beyond = [kind for kind in self._kinds if not _covered(kind, charged)]
        kinds = [kind for kind in beyond if not any(_less(kind, other) for other in beyond)]
        for point in (0.0, delta, 0.1):  # the first tells a pure event from one that needs a delta
            priced = self._priced(event, point)
            allowed = float(priced.epsilon)
            for parts in kinds:
                lost = min(self._epsilon(ComposedDpEvent(list(parts)), point), self._even(parts, point))
                if lost > allowed * (SLACK + priced.rounding) + 1e-9:
                    problem = (
                        f"what it draws costs epsilon {lost:.6g} at delta {point:g} in one pair of worlds, and its "
                        f"event {event} says {allowed:.6g}"
                    )
                    return problem, self._kinds[parts]
        return None

    def _even(self, parts: Sequence[DpEvent], delta: float) -> float:
        """As if every selection lost as much as the worst: the tightest composition is known for equal ones alone."""
        ranges = [part.eta for part in parts if isinstance(part, BoundedRange)]
        if len(ranges) < len(parts):
            return math.inf
        return self._epsilon(SelfComposedDpEvent(BoundedRange(max(ranges)), len(ranges)), delta)

    def _epsilon(self, event: Any, delta: float) -> float:
        return float(self._priced(event, delta).epsilon)

    def _priced(self, event: Any, delta: float) -> Report:
        return RdpAccountant(self.adjacency).compose(event).report(delta)


def _merged(losses: Sequence[DpEvent]) -> tuple[DpEvent, ...]:
    """Losses in an order, Gaussian noise as one: squares of mu add up."""
    counts = _noise_as_one(Counter(part for loss in losses for part in _parts(loss)))
    del counts[NoOpDpEvent()]
    return tuple(sorted(counts.elements(), key=lambda loss: (type(loss).__name__, _size(loss))))


def _parts(loss: DpEvent) -> list[DpEvent]:
    """A loss, or those that a composition lists, in a form that equal ones share and that can be hashed."""
    if isinstance(loss, ComposedDpEvent):
        return [part for one in loss.events for part in _parts(one)]
    if isinstance(loss, (*ORDERED, NoOpDpEvent)):
        return [loss]
    same = rebuilt(loss)
    return _parts(same) if isinstance(same, ComposedDpEvent) else [same]


def _noise_as_one(releases: Counter[DpEvent]) -> Counter[DpEvent]:
    """The same releases, with one of Gaussian noise at most: squares of mu add up."""
    noisy = {part: count for part, count in releases.items() if isinstance(part, GaussianDpEvent)}
    mus = [(1 / part.noise_multiplier if part.noise_multiplier else math.inf, count) for part, count in noisy.items()]
    square = math.fsum(mu * mu * count for mu, count in mus)
    one = {GaussianDpEvent(_rounded(square**-0.5)): 1} if square else {}
    return Counter(one | {part: count for part, count in releases.items() if part not in noisy})


def _covered(parts: Sequence[DpEvent], charged: Plan) -> bool:
    """Whether each draw loses no more than a part of what is charged that no other draw needs, failures set apart.

    An accountant's figure for many unequal losses can be higher than its figure for as many equal ones that are each
    at least as large, since it knows the tightest composition of equal ones, or of few kinds, alone.
    """
    lost = plan_of(merge(parts))
    if lost.failure > charged.failure * SLACK or (lost.failure and charged.exclusive and not lost.exclusive):
        return False
    left, draws = _noise_as_one(charged.releases), _noise_as_one(lost.releases)
    for part in sorted(draws, key=_size, reverse=True):
        for own in left:
            taken = min(draws[part], left[own]) if _no_more(part, own, SLACK) else 0
            draws[part] -= taken
            left[own] -= taken
        if draws[part]:
            return False
    return True


def _less(parts: Sequence[DpEvent], other: Sequence[DpEvent]) -> bool:
    """Whether a pair loses less than another: no more in any draw."""
    return parts != other and len(parts) == len(other) and all(map(_no_more, parts, other))


def _no_more(part: DpEvent, other: DpEvent, slack: float = 1.0) -> bool:
    """Whether a draw loses no more than another of its kind, or than so many times as much."""
    if isinstance(part, WithFailure) and isinstance(other, WithFailure):
        return part.exclusive == other.exclusive and part.delta <= other.delta and _no_more(part.event, other.event)
    if type(part) is not type(other) or not isinstance(part, ORDERED) or math.isinf(_size(other)[0]):
        return bool(part == other)
    return all(one <= most * slack for one, most in zip(_size(part), _size(other), strict=True))


@lru_cache(maxsize=RECENT)
def _size(part: DpEvent) -> tuple[float, float, float]:
    """How much a draw loses: rho, a pure epsilon, and the probability that it keeps no promise."""
    try:
        cost = cost_of(part)
    except ParameterError:
        return math.inf, math.inf, 0.0
    return cost.rho, cost.epsilon, cost.delta
