"""The price of what is explained, and the noise that makes one answer cost a given epsilon.

Guarantee   A calibrated parameter is rounded to the safe side: what it is then priced at does not exceed the target.
Sources     specification 6.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from sottovoce.errors import ParameterError
from sottovoce.explain.subject import Change, Counted, Setting, Subject
from sottovoce.parameters import LEAST, MOST
from sottovoce.privacy import claims
from sottovoce.privacy.accounting.accountant import Report
from sottovoce.privacy.events import BoundedRange, DpEvent, PureDP
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency

COST_MORE: Final = ("rate", "eta", "clip")
"""Parameters of which more costs more; of the others, which are noise, less does."""

S = TypeVar("S", bound=Subject)


def least(
    plans: Sequence[Sequence[Counted]],
    delta: float,
    adjacency: Adjacency,
    unit: str = "record",
    times: int = 1,
    names: tuple[str, ...] = (),
) -> Report:
    """Of all that one change can be the largest price, each by the least of its valid bounds.

    Args:
        plans: For each thing that one change can be, the ways in which it can be priced.
        delta: Of the whole plan.
        adjacency: What one change is.
        unit: For the report.
        times: How often the whole happens.
        names: Bounds to rely on; all by default.
    """
    reports = [_tightest(ways, delta, adjacency, unit, times, names) for ways in plans]
    return max(reports, key=lambda report: report.epsilon)


def _tightest(
    ways: Sequence[Counted], delta: float, adjacency: Adjacency, unit: str, times: int, names: tuple[str, ...]
) -> Report:
    plans = [[(event, count * times) for event, count in way] for way in ways]
    reports = [claims.priced(plan, delta, adjacency, unit, names) for plan in plans]
    bounds = {
        name: min(report.bounds.get(name, math.inf) for report in reports)
        for name in dict.fromkeys(name for report in reports for name in report.bounds)
    }
    best = min(bounds, key=lambda name: bounds[name])
    return replace(reports[0], epsilon=bounds[best], bound=best, bounds=bounds)


def with_noise(subject: S, setting: Setting) -> S:
    """The subject with its noise set, by its own parameter or by the price of one answer.

    Raises:
        ParameterError: Neither is given, or both, or no noise reaches the price.
    """
    if (settled := subject.settled(setting)) is not None:
        return settled
    name = subject.open_parameter
    if setting.epsilon is None:
        if name is not None:
            raise ParameterError(name, None, "given, or epsilon, the price of one answer, which sets it")
        return subject
    if subject.calibrated is None:
        raise ParameterError("epsilon", setting.epsilon, f"absent: {subject.name} has no single noise to set by it")
    if name is None:
        limit = f"absent beside {subject.calibrated}, which it would set"
        raise ParameterError("epsilon", setting.epsilon, limit)
    adjacency = Adjacency.parse(setting.adjacency)
    change = subject.change_at(setting, adjacency)
    return subject.priced(setting, change) or subject.with_noise(_calibrated(subject, name, setting, change))


def _calibrated(subject: Subject, name: str, setting: Setting, change: Change) -> float:
    """The noise at which one answer costs ``setting.epsilon`` under the stated adjacency, rounded to the safe side."""
    target = float(setting.epsilon or 0)

    def cost(value: float, names: tuple[str, ...] = ()) -> float:
        plans = subject.with_noise(value).plans(change)
        events = [counted for ways in plans for counted in ways[0]]
        if len(events) == 1 and events[0][1] == 1 and (pure := _pure_epsilon(events[0][0])):
            return pure
        return least(plans, setting.delta, change.adjacency, setting.unit, names=names).epsilon

    rising = name in COST_MORE
    value = 1.0
    if math.isfinite(cost(value, claims.CLOSED)):  # closer bounds take longer: start them where the quick ones end
        value = _solved(lambda v: cost(v, claims.CLOSED), target, value, 4.0 if rising else 0.25)
    value = _solved(cost, target, value, 1.3 if rising else 1 / 1.3)
    while value and cost(value) > target:
        value *= 1 - 1e-8 if rising else 1 + 1e-8
    if not value:
        raise ParameterError("epsilon", target, f"within reach of {name} at delta {rounded_up(setting.delta)}")
    return value


def _solved(cost: Callable[[float], float], target: float, start: float, step: float) -> float:
    """Where ``cost`` meets ``target``, from ``start`` by factors of ``step`` towards more cost; 0 if nowhere."""
    dear = start
    while cost(dear) < target:
        dear *= step
        if not LEAST <= dear <= MOST:
            return 0.0
    cheap = dear / step
    while cost(cheap) > target:
        cheap, dear = cheap / step, cheap
        if not LEAST <= cheap <= MOST:
            return 0.0
    from scipy.optimize import brentq

    def off(log_value: float) -> float:
        return math.log(min(max(cost(math.exp(log_value)) / target, 1e-6), 1e6))

    return math.exp(brentq(off, math.log(cheap), math.log(dear), xtol=1e-8))


def _pure_epsilon(event: DpEvent) -> float:
    """A single selection is calibrated by its pure epsilon; what a delta adds is negligible (specification 6.3)."""
    return event.eta if isinstance(event, BoundedRange) else event.epsilon if isinstance(event, PureDP) else 0.0
