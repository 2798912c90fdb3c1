"""Private PoEtry, several records an expert: what the larger prompt is worth against the costlier change."""

from __future__ import annotations

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference, kinds, measure_accuracy, said_of
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection
from sottovoce.benchmarks.harness.sweeps import sweep_figures, sweep_tables

METHODS = tuple(name for name in e.SELECTING if name != e.VOTES_GAUSSIAN)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """PoE, prior x PoE and votes."""
    return measure_accuracy(bench, piece, methods={name: e.SELECTING[name] for name in METHODS})


def section(result: Result) -> ReportSection:
    """Lines over the group size, and the best size against single records."""
    x = result.settings.groups
    tables, figures, lines = [], [], []
    for records in result.settings.records:
        for epsilon in result.settings.epsilons:
            fixed = {"epsilon": epsilon, "records": records}
            figures += sweep_figures(
                result, f"epsilon-{epsilon:g}-records-{records}", x, "records an expert", METHODS, _place, fixed,
                log_x=True,
            )  # fmt: skip
            tables += sweep_tables(
                result, "g =", x, METHODS, _place, fixed, f"{records} records, epsilon {epsilon:g} an answer"
            )
            for adjacency in result.settings.adjacencies:
                for task, names in kinds(result):
                    optima = []
                    for method in (e.POE, e.PRIOR_POE):
                        at = {"task": task, "names": names, "method": method, "adjacency": adjacency, **fixed}
                        cells = {g: result.cell(**at, group=g) for g in x}
                        measured = {g: cell for g, cell in cells.items() if cell}
                        best = max(measured, key=lambda g: measured[g].mean)
                        gap = "" if best == 1 else f" ({said_of(difference(measured[best], measured[1]))} over g = 1)"
                        optima.append(f"{method} g = {best}{gap}")
                    lines.append(
                        f"{adjacency}, {task} ({names} names), {records} records, epsilon {epsilon:g}: best "
                        f"{', '.join(optima)}."
                    )
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _place(group: float) -> dict[str, int]:
    return {"group": int(group)}


EXPERIMENT = Experiment(
    name="poetry-groups",
    title="Groups of records: does a larger prompt pay for the costlier change?",
    source="Private PoEtry, group size",
    settings=Settings(tasks=("agnews", "trec"), records=(64,), groups=(1, 2, 4, 8), epsilons=(1.0, 4.0)),
    measure=measure,
    section=section,
)
