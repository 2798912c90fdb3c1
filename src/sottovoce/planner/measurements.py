"""What was measured on public tasks, for the planner: ``data/plan/embedded.json``, made by ``benchmarks.plan_grid``.

Assumes     Between two measured prices accuracy is read off a straight line over the logarithm of the price.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Final, final

from sottovoce.errors import ParameterError

MODEL: Final = "embedded"
"""The model whose tasks are averaged; other models' tasks are read by name alone."""


@final
@dataclass(frozen=True)
class Accuracy:
    """A percentage of right answers with its standard error, both in percentage points.

    Attributes:
        mean: Expected.
        standard_error: Of the mean: over seeds for one task, between tasks for an average.
        degrees_of_freedom: Of Student's t for the interval; infinite for a normal one.

    Example:
        >>> print(Accuracy(61.0, 2.5))
        61 % (56 to 66)
    """

    mean: float
    standard_error: float
    degrees_of_freedom: float = math.inf

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval."""
        return _quantile(self.degrees_of_freedom) * self.standard_error

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 %, within 0 and 100."""
        return max(0.0, self.mean - self.half_width), min(100.0, self.mean + self.half_width)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "mean": round(self.mean, 3),
            "standard_error": round(self.standard_error, 3),
            "interval_95": [round(end, 3) for end in self.interval],
        }

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.mean:.0f} % ({low:.0f} to {high:.0f})"


@lru_cache
def _quantile(degrees_of_freedom: float) -> float:
    """The 97.5 % quantile of Student's t; of the normal distribution where the degrees of freedom are infinite.

    For whole degrees of freedom the distribution has a closed form (Abramowitz and Stegun 26.7.3 and 26.7.4), which
    spares what only reads measurements the import of scipy.
    """
    if math.isinf(degrees_of_freedom):
        return 1.959964
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _within(middle, int(degrees_of_freedom)) > 0.95 else (middle, high)
    return math.sqrt(degrees_of_freedom) * math.tan(low)


def _within(angle: float, degrees_of_freedom: int) -> float:
    """The mass of Student's t between -t and t, for t = sqrt(degrees of freedom) tan(angle)."""
    odd = degrees_of_freedom % 2
    term = math.sin(angle) * (math.cos(angle) if odd else 1.0)
    total = term if degrees_of_freedom > 1 else 0.0
    for k in range(2 + odd, degrees_of_freedom - 1, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        total += term
    return 2 / math.pi * (angle + total) if odd else total


@final
@dataclass(frozen=True)
class Setting:
    """A method with everything about it that was varied.

    Attributes:
        method: As the grid calls it, such as ``PoE``.
        units_per_expert: g.
        clip: In nats; ``None`` for votes.
    """

    method: str
    units_per_expert: int
    clip: float | None


@final
@dataclass(frozen=True)
class Reading:
    """What one half of the seeds says of a setting at a price.

    Attributes:
        mean: Percent right.
        standard_error: Of the mean, over these seeds.
        gap_error: Standard error of the difference to zero-shot on the same seeds.
    """

    mean: float
    standard_error: float
    gap_error: float


@final
@dataclass(frozen=True)
class Line:
    """A setting on one task at every price.

    Attributes:
        prices: Epsilons of one answer, rising.
        halves: For either half of the seeds a reading a price.
    """

    prices: Sequence[float]
    halves: tuple[Sequence[Reading], Sequence[Reading]]

    def at(self, epsilon: float, half: int) -> Reading | None:
        """Between the two nearest prices; that of the highest price beyond it, ``None`` below the lowest.

        A standard error is the weighted sum of the neighbours' errors, which that of their weighted mean never exceeds.
        """
        if epsilon < self.prices[0]:
            return None
        upper = next((i for i, price in enumerate(self.prices) if price >= epsilon), len(self.prices) - 1)
        lower = max(i for i, price in enumerate(self.prices) if price <= epsilon)
        below, above = self.prices[lower], self.prices[upper]
        share = 0.0 if lower == upper else math.log(epsilon / below) / math.log(above / below)
        start, end = self.halves[half][lower], self.halves[half][upper]
        return Reading(
            *(
                a + share * (b - a)
                for a, b in (
                    (start.mean, end.mean),
                    (start.standard_error, end.standard_error),
                    (start.gap_error, end.gap_error),
                )
            )
        )


Place = tuple[str, str, int, str]
"""Task, kind of names, number of records, adjacency."""


@final
@dataclass(frozen=True)
class Grid:
    """All measurements.

    Attributes:
        lines: By place, then by setting.
        floors: Zero-shot of either half of the seeds, by task and kind of names.
        models: Which model was asked, by task.
        seeds: How many, by task.
        prior_weight: Of prior x PoE.
    """

    lines: Mapping[Place, Mapping[Setting, Line]]
    floors: Mapping[tuple[str, str], tuple[Reading, Reading]]
    models: Mapping[str, str]
    seeds: Mapping[str, int]
    prior_weight: float

    def tasks(self, names: str, task: str | None) -> tuple[list[str], str]:
        """The tasks to read, and the kind of names to read them under.

        Args:
            names: The kind that is wanted. A task that was measured under one kind alone is read under that one.
            task: One of them, or ``None`` for all of the model ``MODEL``.

        Raises:
            ParameterError: It was not measured.
        """
        if task is None:
            return [t for t, kind in self.floors if kind == names and self.models[t] == MODEL], names
        kinds = [kind for t, kind in self.floors if t == task]
        if not kinds:
            raise ParameterError("task", task, f"one that was measured: {', '.join(dict.fromkeys(self.models))}")
        return [task], names if names in kinds else kinds[0]

    def counts(self, task: str, names: str) -> list[int]:
        """Numbers of records that this task was measured with, rising."""
        return sorted({records for t, kind, records, _ in self.lines if (t, kind) == (task, names)})

    def settings(self, task: str, names: str, records: int) -> list[Setting]:
        """What was measured with so many records, under either adjacency."""
        matching = [lines for (*place, _), lines in self.lines.items() if place == [task, names, records]]
        return list(dict.fromkeys(setting for lines in matching for setting in lines))

    def share_of_first(self, task: str) -> float:
        """How many of the seeds are in the first half, which has the odd one."""
        return math.ceil(self.seeds[task] / 2) / self.seeds[task]

    def degrees_of_freedom(self, task: str) -> int:
        """Of a standard error over the second half of the seeds."""
        return max(1, self.seeds[task] // 2 - 1)


def read_grid(values: Mapping[str, Any]) -> Grid:
    """From the packaged file's JSON."""
    prices = [float(price) for price in values["epsilons"]]
    lines: dict[Place, dict[Setting, Line]] = {}
    for row in values["series"]:
        first, second = ([Reading(*reading) for reading in zip(*half, strict=True)] for half in row["h"])
        setting = Setting(row["m"], row["g"], row.get("c"))
        lines.setdefault((row["t"], row["n"], row["r"], row["a"]), {})[setting] = Line(prices, (first, second))
    floors = {}
    for row in values["floors"]:
        first_half, second_half = (Reading(mean, error, 0.0) for mean, error in row["h"])
        floors[row["t"], row["n"]] = first_half, second_half
    seeds = {task: int(run["seeds"]) for run in values["runs"] for task in run["tasks"]}
    models = {task: str(run["model"]) for run in values["runs"] for task in run["tasks"]}
    return Grid(lines, floors, models, seeds, float(values["runs"][0]["prior_weight"]))


@lru_cache(maxsize=1)
def packaged_grid() -> Grid:
    """The measurements that come with the package."""
    return read_grid(json.loads((resources.files("sottovoce") / "data" / "plan" / "embedded.json").read_text("utf-8")))


def measured_tasks() -> list[str]:
    """Tasks that a plan can be made for by name."""
    return list(dict.fromkeys(packaged_grid().models))
