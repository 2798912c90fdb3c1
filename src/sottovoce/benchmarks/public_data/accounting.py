"""The paper's own accounting beside the right figure: what answers are stated to cost, and what they cost.

No model is asked and no record read: both figures follow from public numbers. The paper prices a sample of fixed size
by a Poisson accountant, for a record that comes or goes, and the splits, counts and averages of one clustering as if
each had a sample of its own. Right is one sample of fixed size, amplified once, for a record that is replaced, which
moves a point and so changes twice as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.public_data.scoring import measured_with
from sottovoce.privacy.accounting.profiles import epsilon_of_plan
from sottovoce.privacy.events import (
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency

SAMPLED, RECORDS, DELTA = 400, 2600, 1e-5
"""The paper's sample and number of private records; its delta."""
RATE: Final = SAMPLED / RECORDS
ANSWERS: Final = (1, 10, 100)
PARTS: Final = 16
"""Releases of one clustering, of equal cost."""
STATED, RIGHT = "stated", "right"
SAMPLE, CLUSTERING = "sample", "clustering"
PRICES: Final = "prices"
"""The one world of this experiment, which has no rows."""
_EXACT: Final = 1e-3


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Stated and right epsilons, at the noise for which one answer is stated to cost each price."""
    for epsilon in bench.settings.epsilons:
        key = Key(piece.task, piece.names, SAMPLE, epsilon=epsilon)
        mu = solved(lambda mu: added([poisson(mu)]), epsilon)
        for answers in ANSWERS:
            its = replace(key, option=f"{answers}")
            yield replace(its, quantity=STATED), _up(added([SelfComposedDpEvent(poisson(mu), answers)]))
            fixed = SampledWithoutReplacementDpEvent(RECORDS, SAMPLED, GaussianDpEvent(1 / (2 * mu)))
            right = epsilon_of_plan([SelfComposedDpEvent(fixed, answers)], DELTA, Adjacency.REPLACE_ONE)
            yield replace(its, quantity=RIGHT), _up(right)
        part = solved(lambda mu: added([SelfComposedDpEvent(poisson(mu), PARTS)]), epsilon)
        its = replace(key, method=CLUSTERING, option="1")
        yield replace(its, quantity=STATED), _up(added([SelfComposedDpEvent(poisson(part), PARTS)]))
        yield replace(its, quantity=RIGHT), _up(added([poisson(part * math.sqrt(PARTS))]))


def _up(epsilon: float) -> float:
    """As results keep it, never less."""
    return math.ceil(epsilon * 1000) / 1000


def poisson(mu: float) -> Any:
    """A Gaussian release of a Poisson sample, mu of a record that is in it."""
    return PoissonSampledDpEvent(RATE, GaussianDpEvent(1 / mu))


def added(events: Sequence[Any]) -> float:
    """Epsilon for a record that comes or goes."""
    return epsilon_of_plan(events, DELTA, Adjacency.ADD_REMOVE)


def solved(cost: Callable[[float], float], epsilon: float) -> float:
    """The mu at which a release costs so much, a thousandth below at most."""
    low, high = 1e-3, 1.0
    while cost(high) < epsilon:
        low, high = high, 2 * high
    while high - low > _EXACT * low:
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle)
    return low


def section(result: Result) -> ReportSection:
    """One table for each mistake."""
    tables = [
        _table(
            result, SAMPLE, "Epsilon of answers from samples of fixed size", "a Poisson accountant, add-remove", ANSWERS
        ),
        _table(
            result, CLUSTERING, f"Epsilon of one clustering in {PARTS} releases", "each with a sample of its own", (1,)
        ),
    ]
    reading = [
        f"One answer stated to cost {epsilon:g} costs {rounded_up(_right(result, SAMPLE, epsilon), 3)} by its sample "
        f"alone, and {rounded_up(_right(result, CLUSTERING, epsilon), 3)} where its {PARTS} releases share one sample."
        for epsilon in result.settings.epsilons
    ]
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, reading, tables, [], measured_with(result)
    )


def _right(result: Result, method: str, epsilon: float) -> float:
    return _value(result, method, RIGHT, epsilon, 1)


def _value(result: Result, method: str, quantity: str, epsilon: float, answers: int) -> float:
    names = result.settings.names[0]
    cell = result.cell(task=PRICES, names=names, method=method, quantity=quantity, epsilon=epsilon, option=f"{answers}")
    return math.nan if cell is None else cell.mean


def _table(result: Result, method: str, title: str, stated: str, answers: Sequence[int]) -> Table:
    rows = [
        [
            f"{epsilon:g}",
            f"{count}",
            *(rounded_up(_value(result, method, q, epsilon, count), 5) for q in (STATED, RIGHT)),
        ]
        for epsilon in result.settings.epsilons
        for count in answers
    ]
    note = f"{SAMPLED} of {RECORDS} records for every answer, delta {DELTA:g}, Gaussian noise. Stated: {stated}."
    return Table(title, ("asked", "answers", STATED, RIGHT), rows, note)


EXPERIMENT = Experiment(
    name="answers-accounting",
    title="What do answers cost that are priced as published?",
    source="Public-data-assisted ICL, its accounting; specification 11, items 9 to 11",
    settings=Settings(seeds=1, queries=1, tasks=(PRICES,), names=("own",), epsilons=(1.0, 3.0, 8.0)),
    measure=measure,
    section=section,
)
