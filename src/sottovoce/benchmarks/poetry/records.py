"""Private PoEtry, accuracy by number of private records, 1 to 64."""

from __future__ import annotations

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import kinds, measure_accuracy
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection
from sottovoce.benchmarks.harness.sweeps import sweep_figures, sweep_tables

METHODS = tuple(e.SELECTING)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every method that keeps its experts, and every reference."""
    return measure_accuracy(bench, piece)


def section(result: Result) -> ReportSection:
    """Lines over the number of records for each epsilon, and where PoE overtakes votes and zero-shot."""
    x = result.settings.records
    tables, figures, lines = [], [], []
    for epsilon in result.settings.epsilons:
        fixed = {"epsilon": epsilon}
        figures += sweep_figures(
            result, f"epsilon-{epsilon:g}", x, "private records", METHODS, _place, fixed, log_x=True, references=_place
        )
        tables += sweep_tables(result, "n =", x, METHODS, _place, fixed, f"Epsilon {epsilon:g} an answer")
        for adjacency in result.settings.adjacencies:
            for task, names in kinds(result):
                verdict = _overtakes(result, task, names, epsilon, adjacency)
                lines.append(f"{adjacency}, epsilon {epsilon:g}, {task} ({names} names): {verdict}")
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _place(records: float) -> dict[str, int]:
    return {"records": int(records)}


def _overtakes(result: Result, task: str, names: str, epsilon: float, adjacency: str) -> str:
    """From how many records on PoE stays ahead."""
    at = {"task": task, "names": names}

    def ahead_from(rivals: tuple[str, ...]) -> str:
        last = None
        for records in reversed(result.settings.records):
            price = {"records": records, "adjacency": adjacency, "epsilon": epsilon}
            mine = result.cell(**at, method=e.POE, **price)
            cells = [result.cell(**at, method=r, **({} if r == e.ZERO_SHOT else price)) for r in rivals]
            if mine is None or any(cell is None or cell.mean > mine.mean for cell in cells):
                break
            last = records
        return "at no number of records" if last is None else f"from {last} records on"

    votes = ahead_from((e.VOTES, e.VOTES_PF, e.VOTES_GAUSSIAN))
    return f"PoE's mean is above the best votes {votes}, above zero-shot {ahead_from((e.ZERO_SHOT,))}."


EXPERIMENT = Experiment(
    name="poetry-records",
    title="How many private records does it take?",
    source="Private PoEtry, accuracy against the number of records",
    settings=Settings(tasks=("agnews", "trec"), records=(1, 2, 4, 8, 16, 32, 64), epsilons=(1.0, 4.0)),
    measure=measure,
    section=section,
)
