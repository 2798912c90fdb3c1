"""The grid behind ``sotto plan``: every method, group and clip at every price, and the file that the planner reads.

    sotto bench run plan-grid --results FOLDER/texts
    sotto bench run plan-grid --results FOLDER/pictures --model embedded-image --tasks pseudonames
    python -m sottovoce.benchmarks.studies.plan_grid --results FOLDER --out src/sottovoce/data/plan/embedded.json

The packaged file keeps mean and standard error of each half of the seeds by itself (0, 2, 4, ... and 1, 3, 5, ...) and
the standard error of the difference to zero-shot, seed by seed: the planner chooses on one half and reports the other.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import SHORT, kinds, measure_accuracy
from sottovoce.benchmarks.harness.datasets import UNKNOWN
from sottovoce.benchmarks.harness.experiment import (
    ALREADY_NAMED,
    Bench,
    Cell,
    Experiment,
    Key,
    Measurements,
    Piece,
    Result,
    Settings,
    about,
)
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.errors import InputError
from sottovoce.files.outputs import unused, write_new
from sottovoce.methods.base import Selecting
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.base import FloatArray

PRIOR_CLIP, PRIOR_WEIGHT = 1.5, 5.0
FAMILIES: Final = (e.POE, e.PRIOR_POE, e.VOTES, e.VOTES_PF)
FEWEST_SEEDS: Final = 4
"""Two in each half, so that either has a standard error."""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """PoE at every clip, prior x PoE, and votes; references once."""
    methods: dict[str, Selecting] = {f"{e.POE}|{clip:g}": PoE(clip=clip) for clip in bench.settings.clips}
    methods[f"{e.PRIOR_POE}|{PRIOR_CLIP:g}"] = PriorPoE(clip=PRIOR_CLIP, prior_weight=PRIOR_WEIGHT)
    methods |= {e.VOTES: RNM(), e.VOTES_PF: RNM("permute_and_flip")}
    for key, value in measure_accuracy(bench, piece, methods=methods):
        name, _, clip = key.method.partition("|")
        yield (replace(key, method=name, option=f"clip {clip}") if clip else key), value


# What a run shows


def section(result: Result) -> ReportSection:
    """The best setting of every cell, and how often each method has it."""
    tables, lines = [], []
    for adjacency in result.settings.adjacencies:
        rows = []
        for records in result.settings.records:
            wins: Counter[str] = Counter()
            beaten = 0
            for task, names in kinds(result):
                best = [_best(result, Key(task, names, "", "right", records, 1, adjacency, p))
                        for p in result.settings.epsilons]  # fmt: skip
                floor = result.cell(task=task, names=names, method=e.ZERO_SHOT)
                if floor is None or None in best:
                    continue
                cells = [cell for cell in best if cell]
                rows.append((task, names, str(records), f"{floor.mean:.1f}", *(_shown(cell) for cell in cells)))
                wins.update(cell.key.method for cell in cells)
                beaten += sum(floor.mean >= cell.mean for cell in cells)
            winners = ", ".join(f"{name} {count}" for name, count in wins.most_common())
            lines.append(
                f"{adjacency}, {records} records: best of {wins.total()} tasks and prices: {winners}. Zero-shot is as "
                f"good as the best in {beaten}."
            )
        columns = ("task", "label names", "records", e.ZERO_SHOT, *(f"eps {p:g}" for p in result.settings.epsilons))
        note = "Percent right of the best setting, which makes it optimistic; the setting behind it (g, C)."
        tables.append(Table(f"Best setting, {adjacency}", columns, rows, note))
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, [], about(result))


def _best(result: Result, place: Key) -> Cell | None:
    clips = [f"clip {clip:g}" for clip in result.settings.clips]
    options = {e.POE: clips, e.PRIOR_POE: [f"clip {PRIOR_CLIP:g}"]}
    cells = [
        cell
        for method in FAMILIES
        for group in result.settings.groups
        for option in options.get(method, [""])
        if (cell := result.cell(**{**vars(place), "method": method, "group": group, "option": option}))
    ]
    return max(cells, key=lambda cell: cell.mean, default=None)


def _shown(cell: Cell) -> str:
    clip = cell.key.option.replace("clip ", ", C ")
    return f"{cell.mean:.0f} {SHORT.get(cell.key.method, cell.key.method)} (g {cell.key.group}{clip})"


# The packaged file


def compact(results: Sequence[Result]) -> dict[str, Any]:
    """What the planner reads, from the results of one or more runs.

    Raises:
        InputError: There is none, or one has other prices than the first or too few seeds.
    """
    if not results:
        raise InputError("There is no result of the experiment plan-grid in that folder.")
    prices = results[0].settings.epsilons
    for result in results:
        if result.settings.epsilons != prices or result.settings.seeds < FEWEST_SEEDS:
            raise InputError(f"Every run must have the same prices, and {FEWEST_SEEDS} seeds or more.")
    return {
        "benchmark": "plan-grid",
        "runs": [_described(result) for result in results],
        "epsilons": prices,
        "keys": "t task, n names, r records, g records an expert, a adjacency, m method, c clip; for each half of the "
        "seeds mean, standard error, and (not for floors) standard error of the difference to zero-shot; percent",
        "floors": [floor for result in results for floor in _floors(result)],
        "series": [line for result in results for line in _series(result)],
    }


def _described(result: Result) -> dict[str, Any]:
    s = result.settings
    return {
        "model": s.model, "seeds": s.seeds, "queries": s.queries, "tasks": s.tasks, "seconds": result.seconds,
        "prior_weight": PRIOR_WEIGHT, "machine": result.machine,
    }  # fmt: skip


def _floors(result: Result) -> Iterator[dict[str, Any]]:
    for cell in result.cells:
        if cell.key.method == e.ZERO_SHOT:
            halves = [_rounded(half) for half in ([*_moments(cell.values[start::2])] for start in (0, 1))]
            yield {"t": cell.key.task, "n": _names(cell.key), "model": result.settings.model, "h": halves}


def _series(result: Result) -> Iterator[dict[str, Any]]:
    for key in dict.fromkeys(replace(cell.key, epsilon=None) for cell in result.cells if cell.key.method in FAMILIES):
        cells = [result.cell(**{**vars(key), "epsilon": price}) for price in result.settings.epsilons]
        floor = result.cell(task=key.task, names=key.names, method=e.ZERO_SHOT)
        halves = []
        for start in (0, 1):
            moments = [
                (*_moments(cell.values[start::2]), _moments(np.subtract(cell.values, floor.values)[start::2])[1])
                for cell in cells
                if cell and floor
            ]
            halves.append([_rounded(column) for column in zip(*moments, strict=True)])
        clip = {"c": float(key.option.removeprefix("clip "))} if key.option else {}
        yield {
            "t": key.task, "n": _names(key), "r": key.records, "g": key.group, "a": key.adjacency, "m": key.method,
            **clip, "h": halves,
        }  # fmt: skip


def _names(key: Key) -> str:
    """Names that are made up to begin with are called so."""
    return UNKNOWN if key.task in ALREADY_NAMED else key.names


def _moments(values: Sequence[float] | FloatArray) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 2) for value in values]


def write(grid: dict[str, Any], file: Path) -> None:
    """Writes the packaged file, a line a series."""
    text = json.dumps({**grid, "floors": [], "series": []}, indent=1)
    for name in ("floors", "series"):
        lines = ",\n".join(json.dumps(line, separators=(",", ":"), allow_nan=False) for line in grid[name])
        text = text.replace(f'"{name}": []', f'"{name}": [\n{lines}\n]', 1)
    write_new(file, text + "\n")


def main(argv: Sequence[str]) -> None:
    """Compacts the results below a folder into the file that the planner reads."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.benchmarks.studies.plan_grid")
    parser.add_argument("--results", type=Path, required=True, help="folder with plan-grid*.json, in subfolders too")
    parser.add_argument("--out", type=unused, required=True, help="the file to write")
    args = parser.parse_args(list(argv))
    results = [Result.read(file) for file in sorted(args.results.rglob(f"{EXPERIMENT.name}*.json"))]
    grid = compact(sorted(results, key=lambda result: result.settings.model))
    write(grid, args.out)
    print(f"Written: {args.out}, {len(grid['series'])} series, {args.out.stat().st_size / 1000:.0f} kB")


EXPERIMENT = Experiment(
    name="plan-grid",
    title="Which method, group and clip at which price?",
    source="our own, behind sotto plan",
    settings=Settings(
        tasks=("agnews", "dbpedia", "trec", "tickets"),
        records=(4, 8, 25, 100),
        groups=(1, 4),
        clips=(1.0, 2.3, 4.0),
        epsilons=(0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    ),
    measure=measure,
    section=section,
)


if __name__ == "__main__":
    main(sys.argv[1:])
