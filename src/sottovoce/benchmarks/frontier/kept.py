"""The frontier's file: what is kept of its runs, a line for each world, kind of names, method, option and adjacency:

t task, n names, m method, o option (a pool, or a number of questions), a adjacency, r numbers of records,
v percent right: for every number of records, then (where there is a price) every total epsilon, a value a seed;
null where nothing was measured
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN
from sottovoce.benchmarks.harness.experiment import ALREADY_NAMED, Cell, Key, Result
from sottovoce.errors import InputError
from sottovoce.methods.fitting.fitter import registered_fitters

NAME: Final = "frontier"
TITLE: Final = "What is a total budget worth, by the number of questions?"
SOURCE: Final = "our own, behind sotto plan and --method auto"
DELTA: Final = 1e-6
"""Of a total budget."""
QUESTIONS: Final = (1, 10, 100, 1000)
"""Numbers of questions that per-answer methods are measured for."""
SAME_KIND, ANOTHER_KIND, BUNDLED, NO_POOL = "same kind", "another kind", "bundled", "no pool"
POOLS: Final = (SAME_KIND, ANOTHER_KIND, BUNDLED, NO_POOL)
REGRESSION: Final = "logistic regression, no privacy"
REFERENCES: Final = (e.ZERO_SHOT, e.FULL, REGRESSION)
PER_ANSWER_NAMES: Final = (e.POE, e.PRIOR_POE, e.VOTES)
REPORTED: Final = ("agnews", "dbpedia", "trec")
"""Sets that no setting of a method was chosen on."""
INK: Final = "invisible-ink"
QUOTED: Final = ("prism-kshot", "prism-records")
PRISM: Final = Path(__file__).resolve().parents[4] / "docs" / "results" / "prism"
"""Results of synthesis, beside the source in a checkout."""


def compact(results: Sequence[Result]) -> dict[str, Any]:
    """What is kept of one or more runs: a line a series.

    Raises:
        InputError: There is none, or two of them differ in more than their tasks.
    """
    if not results:
        raise InputError("There is no result of the experiment frontier in that folder.")
    first = results[0].settings
    for result in results:
        if replace(result.settings, tasks=first.tasks) != first:
            raise InputError("Every run must have the same settings but for its tasks.")
    lines: dict[Key, dict[int, Any]] = {}
    for cell in (cell for result in results for cell in result.cells):
        by_records = lines.setdefault(_line_of(cell.key), {})
        values = [round(value, 1) for value in cell.values]
        if cell.key.epsilon is None:
            by_records[cell.key.records] = values
        else:
            row = by_records.setdefault(cell.key.records, [None] * len(first.epsilons))
            row[first.epsilons.index(cell.key.epsilon)] = values
    tasks = tuple(dict.fromkeys(task for result in results for task in result.settings.tasks))
    return {
        "benchmark": NAME,
        "format": 1,
        "keys": " ".join((__doc__ or "").partition("adjacency:")[2].split()),
        "settings": asdict(replace(first, tasks=tasks)),
        "runs": [
            {"tasks": result.settings.tasks, "seconds": result.seconds, "machine": result.machine} for result in results
        ],
        "questions": QUESTIONS,
        "delta": DELTA,
        "shortcuts": results[0].extra.get("shortcuts", ""),
        **{name: _joined(result.extra.get(name, {}) for result in results) for name in ("labels", "pools")},
        "quoted": results[0].extra.get("quoted", []),
        "lines": [_line(key, by_records) for key, by_records in lines.items()],
    }


def renewed(grid: Mapping[str, Any], results: Iterable[Result]) -> dict[str, Any]:
    """A compact file in which some methods were measured again, or for the first time, on the same draws.

    Cells that were measured take the place of those before, and others stay. Of a result with more seeds as many count
    as the file has. Each run keeps how the replaced figures stood beside zero-shot.

    Raises:
        InputError: A result has other draws, which shows in what zero-shot answers, or sets or prices that the file
            lacks.
    """
    lines, runs, old = {_place(line): line for line in grid["lines"]}, list(grid["runs"]), Frontier(grid)
    for result in results:
        cells = [replace(cell, values=cell.values[: grid["settings"]["seeds"]]) for cell in result.cells]
        again = compact([replace(result, cells=cells)])
        for line in again["lines"]:
            if line["m"] == e.ZERO_SHOT:
                before, after = lines.get(_place(line), {"v": [[]]})["v"][0], line["v"][0]
                if before[: len(after)] != after:
                    raise InputError(f"Zero-shot on {line['t']!r} is not what it was: the result has other draws.")
            elif line["m"] not in REFERENCES:
                lines[_place(line)] = _merged(lines.get(_place(line)), line, grid, again)
        methods = result.settings.methods
        before = {task: {name: old.beside(task, name) for name in methods} for task in result.settings.tasks}
        settings = {"methods": methods, "names": result.settings.names, "seeds": result.settings.seeds}
        settings |= {"writer": result.settings.writer} if result.settings.writer else {}
        kept = {**settings, "before": before}
        runs += [{**run, **kept} for run in again["runs"]]
    return {**grid, "runs": runs, "lines": list(lines.values())}


def _merged(
    old: Mapping[str, Any] | None, new: Mapping[str, Any], grid: Mapping[str, Any], again: Mapping[str, Any]
) -> dict[str, Any]:
    """A line in which the cells of a run with fewer numbers of records or prices take the place of those before."""
    prices, asked = list(grid["settings"]["epsilons"]), again["settings"]["epsilons"]
    if missing := [price for price in asked if price not in prices]:
        raise InputError(f"The file has no epsilon {missing[0]:g}. It has {', '.join(f'{p:g}' for p in prices)}.")
    rows = dict(zip(old["r"], old["v"], strict=True)) if old else {}
    for records, values in zip(new["r"], new["v"], strict=True):
        row = list(rows.get(records, [None] * len(prices)))
        for price, found in zip(asked, values, strict=True):
            row[prices.index(price)] = found
        rows[records] = row
    return {**new, "r": sorted(rows), "v": [rows[records] for records in sorted(rows)]}


def _place(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return line["t"], line["n"], line["m"], line.get("o", ""), line.get("a")


def _joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def _line_of(key: Key) -> Key:
    """A key without numbers of records and prices."""
    return Key(key.task, key.names, key.method, key.quantity, 0, key.group, key.adjacency, None, key.option)


def _line(key: Key, by_records: Mapping[int, Any]) -> dict[str, Any]:
    names = UNKNOWN if key.task in ALREADY_NAMED else key.names
    line: dict[str, Any] = {"t": key.task, "n": names, "m": key.method}
    line |= {"o": key.option.removesuffix(" questions")} if key.option else {}
    line |= {"a": key.adjacency} if key.adjacency else {}
    return {**line, "r": sorted(by_records), "v": [by_records[count] for count in sorted(by_records)]}


def as_text(grid: Mapping[str, Any]) -> str:
    """The file, a line a series."""
    text = json.dumps({**grid, "quoted": [], "lines": []}, indent=1)
    for name in ("quoted", "lines"):
        lines = ",\n".join(json.dumps(line, separators=(",", ":"), allow_nan=False) for line in grid[name])
        text = text.replace(f'"{name}": []', f'"{name}": [\n{lines}\n]', 1)
    return text + "\n"


def quoted(folder: Path = PRISM) -> list[dict[str, Any]]:
    """Demonstrations by InvisibleInk as they were measured for other tables: the best number of them in each cell."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in QUOTED:
        file = folder / f"{name}.json"
        if not file.is_file():
            continue
        result = Result.read(file)
        for cell in result.cells:
            key = cell.key
            if key.method == INK and key.quantity == "right" and key.adjacency:
                place = key.task, key.names, key.records, key.adjacency, key.epsilon
                entry = {
                    "t": key.task, "n": key.names, "m": INK, "o": key.option, "a": key.adjacency, "r": key.records,
                    "e": key.epsilon, "v": [round(value, 1) for value in cell.values],
                    "questions": result.settings.queries, "from": f"docs/results/prism/{file.name}",
                }  # fmt: skip
                if place not in best or cell.mean > float(np.mean(best[place]["v"])):
                    best[place] = entry
    return list(best.values())


def lead_of(cell: Cell, floor: Cell) -> float:
    """Points over zero-shot on the same seeds, of which zero-shot may have more."""
    return cell.mean - float(np.mean(floor.values[: len(cell.values)]))


@final
@dataclass(frozen=True, eq=False)
class Frontier:
    """A compact file, to be looked up in."""

    content: Mapping[str, Any]

    @staticmethod
    def read(file: Path) -> Frontier:
        """Reads a compact file.

        Raises:
            InputError: It is none.
        """
        try:
            content = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            content = None
        if not isinstance(content, dict) or content.get("benchmark") != NAME or content.get("format") != 1:
            raise InputError(f"{file.name} is not the frontier as 'benchmarks.frontier.page' writes it.")
        return Frontier(content)

    @property
    def epsilons(self) -> list[float]:
        return list(self.content["settings"]["epsilons"])

    @property
    def records(self) -> list[int]:
        return list(self.content["settings"]["records"])

    @property
    def adjacencies(self) -> list[str]:
        return list(self.content["settings"]["adjacencies"])

    @cached_property
    def kinds(self) -> list[tuple[str, str]]:
        """Worlds and kinds of names, in order."""
        return list(dict.fromkeys((line["t"], line["n"]) for line in self.content["lines"]))

    @cached_property
    def fitters(self) -> list[str]:
        """Methods that pay once and were measured in the whole grid, in order."""
        others = {*REFERENCES, *PER_ANSWER_NAMES, *self.writing}
        return [name for name in dict.fromkeys(line["m"] for line in self.content["lines"]) if name not in others]

    @cached_property
    def writing(self) -> list[str]:
        """Methods that pay once and have a model write, of which a few cells were measured, in order."""
        kinds = registered_fitters()
        names = dict.fromkeys(line["m"] for line in self.content["lines"])
        return [name for name in names if name in kinds and kinds[name].writes]

    @cached_property
    def _cells(self) -> dict[tuple[Any, ...], Cell]:
        return {place: Cell(Key(place[0], place[1], place[2]), tuple(values)) for place, values in self._values()}

    def _values(self) -> Iterator[tuple[tuple[Any, ...], Sequence[float]]]:
        for line in self.content["lines"]:
            place = _place(line)
            for count, found in zip(line["r"], line["v"], strict=True):
                if "a" not in line:
                    yield (*place, count, None), found
                    continue
                for epsilon, values in zip(self.epsilons, found, strict=True):
                    if values is not None:
                        yield (*place, count, epsilon), values
        for line in self.content["quoted"]:
            yield (line["t"], line["n"], line["m"], "", line["a"], line["r"], line["e"]), line["v"]

    def cell(
        self, kind: tuple[str, str], method: str, records: int = 0, option: str = "", adjacency: str | None = None,
        epsilon: float | None = None,
    ) -> Cell | None:  # fmt: skip
        """One number, over seeds."""
        return self._cells.get((*kind, method, option, adjacency, records, epsilon))

    def best(
        self, kind: tuple[str, str], methods: Iterable[str], options: Sequence[str], records: int, adjacency: str,
        epsilon: float,
    ) -> Cell | None:  # fmt: skip
        """The best of some methods by its mean, each with the first of the options that it was measured with."""
        found = []
        for method in methods:
            cells = (self.cell(kind, method, records, option, adjacency, epsilon) for option in options)
            found += [cell for cell in cells if cell][:1]
        return max(found, key=lambda cell: cell.mean, default=None)

    def beside(self, task: str, method: str) -> dict[str, float] | None:
        """A method beside zero-shot on one set under own label names, over every pool, price, adjacency and number of
        records: seeds, how many cells, their mean lead in points, how many more than a point below, and the worst lead.
        """
        floor = self.cell((task, OWN), e.ZERO_SHOT)
        cells = [cell for place, cell in self._cells.items() if place[:3] == (task, OWN, method)]
        if floor is None or not cells:
            return None
        leads = [lead_of(cell, floor) for cell in cells]
        return {
            "seeds": min(len(cell.values) for cell in cells), "cells": len(leads),
            "lead": round(float(np.mean(leads)), 2),
            "below": sum(lead < -1 for lead in leads), "worst": round(min(leads), 2),
        }  # fmt: skip
