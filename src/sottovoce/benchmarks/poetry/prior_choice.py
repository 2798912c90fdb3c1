"""Prior x PoE: the clip and the weight of the public prediction, chosen on public tasks alone.

The tasks are data sets of which other rows fitted the embedded model's numbers (DBpedia, Subj). The choice is the pair
whose mean accuracy over all cells is best. DBpedia also stands in tables that compare methods: there, prior x PoE is
shown on the very episodes that its numbers were chosen on, and only its other rows say anything new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import kinds, measure_accuracy, series
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Table
from sottovoce.methods.base import Selecting
from sottovoce.methods.prior_poe import PriorPoE

WEIGHTS: Sequence[float] = (0.0, 1.0, 2.0, 5.0, 10.0)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Prior x PoE on the grid, and PoE beside it."""
    methods: dict[str, Selecting] = {
        f"{e.PRIOR_POE}|{_option(clip, weight)}": PriorPoE(clip, weight)
        for clip in bench.settings.clips
        for weight in WEIGHTS
    }
    for key, value in measure_accuracy(bench, piece, methods={e.POE: e.SELECTING[e.POE], **methods}):
        name, _, option = key.method.partition("|")
        yield replace(key, method=name, option=option), value


def _option(clip: float, weight: float) -> str:
    return f"clip {clip:g}, weight {weight:g}"


def scores(result: Result) -> dict[tuple[float, float], float]:
    """Mean percentage over tasks, names, numbers of records, adjacencies and epsilons, by clip and weight."""
    by_option: dict[str, list[float]] = {}
    for cell in result.cells:
        if cell.key.method == e.PRIOR_POE:
            by_option.setdefault(cell.key.option, []).append(cell.mean)
    grid = [(clip, weight) for clip in result.settings.clips for weight in WEIGHTS]
    return {at: float(np.mean(by_option[_option(*at)])) for at in grid}


def section(result: Result) -> ReportSection:
    """The grid of means, by kind of names too, and the choice."""
    means = scores(result)
    clip, weight = max(means, key=means.__getitem__)
    used = PriorPoE()
    poe = float(np.mean([cell.mean for cell in result.cells if cell.key.method == e.POE]))
    lines = [
        f"Best on public tasks: clip {clip:g}, weight {weight:g} with {means[clip, weight]:.1f} % on average; PoE "
        f"at its default clip {poe:.1f} %.",
        f"The library's default is clip {used.clip:g}, weight {used.prior_weight:g}, with "
        f"{means.get((used.clip, used.prior_weight), float('nan')):.1f} % here.",
        f"Where {' or '.join(result.settings.tasks)} stands in another table, prior x PoE is shown there on rows that "
        "it was chosen on; the other tasks are its test.",
    ]
    rows = [(f"{c:g}", *(f"{means[c, w]:.1f}" for w in WEIGHTS)) for c in result.settings.clips]
    tables = [
        Table("Percent right on average", ("clip", *(f"weight {w:g}" for w in WEIGHTS)), rows, "Over all cells."),
        *(_part(result, task, names) for task, names in kinds(result)),
    ]
    title, source = EXPERIMENT.title, EXPERIMENT.source
    return ReportSection(result.experiment, title, source, lines, tables, _figures(result), about(result))


def _part(result: Result, task: str, names: str) -> Table:
    rows = []
    for clip in result.settings.clips:
        averages = []
        for weight in WEIGHTS:
            means = [
                cell.mean
                for cell in result.cells
                if cell.key.option == _option(clip, weight) and (cell.key.task, cell.key.names) == (task, names)
            ]
            averages.append(f"{np.mean(means):.1f}")
        rows.append((f"{clip:g}", *averages))
    return Table(f"{task}, {names} names", ("clip", *(f"weight {w:g}" for w in WEIGHTS)), rows)


def _figures(result: Result) -> list[Figure]:
    figures = []
    clip = PriorPoE().clip
    records, epsilon = result.settings.records[-1], result.settings.epsilons[0]
    lines = []
    for task, names in kinds(result):
        at = Key(task, names, e.PRIOR_POE, "right", records, 1, result.settings.adjacencies[0], epsilon)
        cells = [result.cell(**_fields(replace(at, option=_option(clip, w)))) for w in WEIGHTS]
        lines.append(series(f"{task}, {names} names", WEIGHTS, cells))
    figures.append(
        Figure(
            "weight",
            f"{records} records, epsilon {epsilon:g}, {result.settings.adjacencies[0]}, clip {clip:g}",
            "weight of the public prediction",
            "right answers, percent",
            lines,
        )
    )
    return figures


def _fields(key: Key) -> dict[str, object]:
    return {name: getattr(key, name) for name in key.__dataclass_fields__}


EXPERIMENT = Experiment(
    name="prior-choice",
    title="Prior x PoE: which clip and which weight of the public prediction?",
    source="Specification 5.1.8; no counterpart in the paper",
    settings=Settings(tasks=("dbpedia", "subj"), records=(8, 25, 100), epsilons=(1.0, 4.0), clips=(1.0, 1.5, 2.3, 3.0)),
    measure=measure,
    section=section,
)
