"""What a total budget is worth, as measured on public sets: ``data/plan/frontier.json``.

``benchmarks.studies.plan_tables`` makes the file from results of the frontier. A data set of n records and K labels is
read off a measured one with K' labels at n sqrt(K' / K) records: between as many, and as many a label. Between measured
numbers of records, and between measured prices, accuracy lies on a straight line over their logarithms. Below the least
of either the lead over zero-shot shrinks in proportion, beyond the largest it stays. A fit's price is its epsilon at
delta 1e-6; at another delta, the epsilon whose Gaussian noise is the same.

Sets that are kept back take no part in any advice, unless one of them is asked for by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.planner.measurements import MODEL, Accuracy
from sottovoce.privacy.parameters import MIN_EPSILON

TABLE, KEPT_BACK = "table", "kept back"
"""What a set is for: advice on any data, or checks of that advice alone."""
SAME_KIND, ANOTHER_KIND, BUNDLED, NO_POOL = "same kind", "another kind", "bundled", "no pool"
POOLS: Final = (BUNDLED, SAME_KIND, ANOTHER_KIND)
"""Public texts: those of the package, or others, like the records or unlike them."""
DELTA: Final = 1e-6
"""That everything was measured at."""
ZERO_SHOT: Final = "zero-shot"
NO_PRIVACY: Final = ("full context", "logistic regression, no privacy")
PER_ANSWER: Final[Mapping[str, str]] = {"PoE": "poe", "prior x PoE": "prior-poe", "votes, exponential": "rnm"}
"""Methods that pay for every answer, as the measurements call them and as ``--method`` does."""
_BEYOND: Final = 1.5
"""A set with fewer records than would be wanted is left out, where others have more, from this ratio on."""


@final
@dataclass(frozen=True)
class Setting:
    """Public numbers that advice depends on.

    Attributes:
        labels: Number of labels, K.
        adjacency: What was measured under: ``add-remove`` or ``replace-one``.
        names: ``own`` or ``made up``: whether the label names mean something to the model.
        pool: One of ``POOLS``, or ``no pool``.
        model: That answers.
    """

    labels: int
    adjacency: str
    names: str
    pool: str = BUNDLED
    model: str = MODEL


@final
@dataclass(frozen=True)
class Reading:
    """Percent right on one set, with its standard error over seeds, both in points."""

    mean: float
    error: float


@final
@dataclass(frozen=True)
class Series:
    """A method on one set.

    Attributes:
        records: Measured numbers, rising.
        prices: Epsilons, rising; empty without privacy.
        cells: A row a number of records, a reading a price; ``None`` where the method refuses the setting.
    """

    records: Sequence[int]
    prices: Sequence[float]
    cells: Sequence[Sequence[Reading | None]]

    def at(self, records: float, price: float | None, floor: Reading) -> Reading | None:
        """Between the nearest numbers and prices; ``None`` where one of these was not measured."""
        rows, share_of_row = _between(self.records, records)
        columns, share_of_column = _between(self.prices, price) if price is not None else ((0, 0), 0.0)
        mean = error = 0.0
        for row, row_share in zip(rows, (1 - share_of_row, share_of_row), strict=True):
            for column, column_share in zip(columns, (1 - share_of_column, share_of_column), strict=True):
                weight = row_share * column_share
                if weight:
                    found = self.cells[row][column]
                    if found is None:
                        return None
                    mean, error = mean + weight * found.mean, error + weight * found.error
        least = min(1.0, records / self.records[0])
        least *= min(1.0, price / self.prices[0]) if price is not None else 1.0
        return Reading(floor.mean + least * (mean - floor.mean), error)


def _between(measured: Sequence[float], wanted: float) -> tuple[tuple[int, int], float]:
    """Places of the nearest below and above, and how far from the first to the second."""
    inside = min(max(wanted, measured[0]), measured[-1])
    above = next(index for index, value in enumerate(measured) if value >= inside)
    below = above if measured[above] == inside else above - 1
    if below == above:
        return (below, above), 0.0
    return (below, above), math.log(inside / measured[below]) / math.log(measured[above] / measured[below])


@final
@dataclass(frozen=True)
class MeasuredSet:
    """A public set: ``use`` is ``table`` or ``kept back``."""

    name: str
    labels: int
    model: str
    use: str
    seeds: int


Place = tuple[str, str, str, str, str]
"""Set, kind of names, method, pool (nothing for methods that take none), adjacency (nothing without privacy)."""


@final
@dataclass(frozen=True, eq=False)
class Tables:
    """All measurements."""

    sets: Mapping[str, MeasuredSet]
    floors: Mapping[tuple[str, str], Reading]
    series: Mapping[Place, Series]

    @cached_property
    def fitters(self) -> Sequence[str]:
        """Methods that pay once, in the order of the file."""
        others = {*PER_ANSWER, *NO_PRIVACY}
        return list(dict.fromkeys(method for _, _, method, _, _ in self.series if method not in others))

    def of(self, setting: Setting, records: float, named: Sequence[str] = ()) -> list[Measured]:
        """Sets that stand for this setting, each with the number of its records that is as many a label.

        Args:
            setting: The caller's.
            records: The caller's number.
            named: Sets to read whatever they are for, however few records they have; by default those for advice.
        """
        if named:
            return self._measured([self.sets[name] for name in named], setting, records, scaled=len(named) > 1)
        chosen = [one for one in self.sets.values() if one.use == TABLE and one.model == setting.model]
        chosen = [one for one in chosen if self._has(one.name, setting.pool)] or chosen
        found = self._measured(chosen, setting, records, scaled=True)
        reach = [_BEYOND * max(one.most) >= one.records for one in found]
        return [one for one, enough in zip(found, reach, strict=True) if enough or not any(reach)]

    def _measured(
        self, chosen: Iterable[MeasuredSet], setting: Setting, records: float, *, scaled: bool
    ) -> list[Measured]:
        return [
            Measured(self, one, names, records * math.sqrt(one.labels / setting.labels) if scaled else records)
            for one in chosen
            for names in self._names(one.name, setting.names)
        ]

    def _has(self, name: str, pool: str) -> bool:
        return any(place[0] == name and place[3] in (pool, NO_POOL) for place in self.series)

    def _names(self, name: str, wanted: str) -> list[str]:
        kinds = [kind for measured, kind in self.floors if measured == name]
        return [wanted] if wanted in kinds else kinds[:1]


@final
@dataclass(frozen=True, eq=False)
class Measured:
    """One set under one kind of names, read at one number of records."""

    tables: Tables
    of: MeasuredSet
    names: str
    records: float

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def floor(self) -> Reading:
        """Zero-shot."""
        return self.tables.floors[self.name, self.names]

    @property
    def most(self) -> Sequence[int]:
        """Numbers of records that were measured."""
        return next(s.records for place, s in self.tables.series.items() if place[:2] == (self.name, self.names))

    def once(self, method: str, pool: str, adjacency: str, epsilon: float) -> Reading | None:
        """A fit at this epsilon; ``None`` where it was not measured."""
        return self._at((method, pool, adjacency), epsilon) or self._at((method, NO_POOL, adjacency), epsilon)

    def each(self, method: str, adjacency: str, epsilon: float) -> Reading | None:
        """Answers at this epsilon each."""
        return self._at((method, "", adjacency), epsilon)

    def open(self, method: str) -> Reading | None:
        """Without privacy."""
        return self._at((method, "", ""), None)

    def _at(self, place: tuple[str, str, str], price: float | None) -> Reading | None:
        series = self.tables.series.get((self.name, self.names, *place))
        return series.at(self.records, price, self.floor) if series else None


def mean_of(readings: Sequence[Reading], seeds: int) -> Accuracy:
    """The mean of sets with the spread between them; of one set, with the error over its seeds."""
    count = len(readings)
    mean = math.fsum(reading.mean for reading in readings) / count
    if count == 1:
        return Accuracy(mean, readings[0].error, max(1, seeds - 1))
    variance = math.fsum((reading.mean - mean) ** 2 for reading in readings) / (count - 1)
    return Accuracy(mean, math.sqrt(variance / count), count - 1)


def lead_of(reading: Reading, floor: Reading) -> Reading:
    """A lead in points; its error is at most this where both were measured on the same questions."""
    return Reading(reading.mean - floor.mean, math.hypot(reading.error, floor.error))


@lru_cache(maxsize=256)
def as_measured(epsilon: float, delta: float) -> float:
    """The epsilon at the measured delta whose Gaussian noise is that of this price; of a pure price, its own.

    A price whose noise is more than a mechanism draws is worth the least epsilon that there is.
    """
    if delta in (0, DELTA):
        return epsilon
    try:
        here, there = (RoundedGaussian.for_budget(epsilon, at).noise_multiplier for at in (delta, DELTA))
    except ParameterError:
        return MIN_EPSILON
    return max(MIN_EPSILON, epsilon * float(there) / float(here))


def read_tables(content: Mapping[str, Any]) -> Tables:
    """From the packaged file's JSON."""
    sets = {
        name: MeasuredSet(name, about["labels"], about["model"], about["use"], about["seeds"])
        for name, about in content["sets"].items()
    }
    floors = {(line["t"], line["n"]): _cells(line["v"])[0] for line in content["floors"]}
    series = {
        (line["t"], line["n"], line["m"], line.get("o", ""), line.get("a", "")): Series(
            line["r"], content["prices"][line["p"]], [_cells(row) for row in line["v"]]
        )
        for line in content["series"]
    }
    return Tables(sets, {place: floor for place, floor in floors.items() if floor}, series)


def _cells(row: Sequence[int | None]) -> list[Reading | None]:
    """Means and errors in turn, in tenths of a point."""
    pairs = zip(row[::2], row[1::2], strict=True)
    return [None if mean is None or error is None else Reading(mean / 10, error / 10) for mean, error in pairs]


@lru_cache(maxsize=1)
def packaged_tables() -> Tables:
    """The measurements that come with the package."""
    file = resources.files("sottovoce") / "data" / "plan" / "frontier.json"
    return read_tables(json.loads(file.read_text("utf-8")))
