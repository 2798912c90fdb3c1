"""Private PoEtry, accuracy by epsilon of one answer, 0.25 to 8."""

from __future__ import annotations

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import kinds, measure_accuracy
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection
from sottovoce.benchmarks.harness.sweeps import sweep_figures, sweep_tables
from sottovoce.methods.pbs import PbS

METHODS = (*e.SELECTING, e.PBS)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every method and reference."""
    return measure_accuracy(bench, piece, pbs=PbS())


def section(result: Result) -> ReportSection:
    """Lines over epsilon for each number of records, and the epsilon from which each method beats zero-shot."""
    x = result.settings.epsilons
    tables, figures, lines = [], [], []
    for records in result.settings.records:
        fixed = {"records": records}
        figures += sweep_figures(
            result, f"records-{records}", x, "epsilon of one answer", METHODS, _place, fixed, log_x=True,
            references=lambda _, records=records: {"records": records},  # type: ignore[misc]
        )  # fmt: skip
        tables += sweep_tables(result, "eps", x, METHODS, _place, fixed, f"{records} records")
        for adjacency in result.settings.adjacencies:
            for task, names in kinds(result):
                thresholds = [f"{m} {_from(result, task, names, m, records, adjacency)}" for m in METHODS]
                lines.append(
                    f"{adjacency}, {task} ({names} names), {records} records: epsilon from which the mean stays above "
                    f"zero-shot: {'; '.join(thresholds)}."
                )
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _place(epsilon: float) -> dict[str, float]:
    return {"epsilon": epsilon}


def _from(result: Result, task: str, names: str, method: str, records: int, adjacency: str) -> str:
    floor = result.cell(task=task, names=names, method=e.ZERO_SHOT)
    last = None
    for epsilon in reversed(result.settings.epsilons):
        cell = result.cell(task=task, names=names, method=method, records=records, adjacency=adjacency, epsilon=epsilon)
        if cell is None or floor is None or cell.mean <= floor.mean:
            break
        last = epsilon
    return "never" if last is None else f"{last:g}"


EXPERIMENT = Experiment(
    name="poetry-epsilon",
    title="How much epsilon does an answer need?",
    source="Private PoEtry, accuracy against epsilon",
    settings=Settings(tasks=("agnews", "trec"), records=(8, 25), epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0)),
    measure=measure,
    section=section,
)
