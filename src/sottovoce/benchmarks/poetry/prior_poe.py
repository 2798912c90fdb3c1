"""Prior x PoE on tasks that took no part in its design, and on uneven labels, where it should fail."""

from __future__ import annotations

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import accuracy_tables, difference, kinds, measure_accuracy, said_of
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection
from sottovoce.benchmarks.harness.sweeps import sweep_figures
from sottovoce.benchmarks.poetry.table1 import gains

METHODS = tuple(name for name in e.SELECTING if name != e.VOTES_GAUSSIAN)
FRESH = ("tickets", "sources", "gsm8k")
"""Questions that nobody looked at while the method or the model's numbers were designed. (Other rows of two data sets
behind ``sources`` are among the texts that the model's numbers were fitted on.)"""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """PoE, prior x PoE and votes."""
    return measure_accuracy(bench, piece, methods={name: e.SELECTING[name] for name in METHODS})


def section(result: Result) -> ReportSection:
    """Accuracies, the gain over PoE, and the reading by task."""
    tables = [*accuracy_tables(result, METHODS), *gains(result, e.PRIOR_POE)]
    figures = []
    for epsilon in result.settings.epsilons:
        figures += sweep_figures(
            result, f"epsilon-{epsilon:g}", result.settings.records, "private records", METHODS,
            lambda records: {"records": int(records)}, {"epsilon": epsilon}, log_x=True,
        )  # fmt: skip
    lines = []
    for task, names in kinds(result):
        by_price = []
        for adjacency in result.settings.adjacencies:
            for epsilon in result.settings.epsilons:
                gaps = []
                for records in result.settings.records:
                    at = {"task": task, "names": names, "records": records, "adjacency": adjacency, "epsilon": epsilon}
                    gap = difference(result.cell(**at, method=e.PRIOR_POE), result.cell(**at, method=e.POE))
                    gaps.append(f"{said_of(gap)} at {records}")
                by_price.append(f"{adjacency}, epsilon {epsilon:g}: {', '.join(gaps)}")
        kind = "fresh task" if task in FRESH else "uneven labels" if "uneven" in task else "seen by the prototype"
        lines.append(
            f"{task} ({names} names; {kind}): prior x PoE over PoE, points at so many records: {'; '.join(by_price)}."
        )
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


EXPERIMENT = Experiment(
    name="prior-poe",
    title="Prior x PoE: does it hold on tasks that it never met?",
    source="Specification 5.1.8; no counterpart in the paper",
    settings=Settings(
        tasks=("tickets", "sources", "gsm8k", "sarcasm", "agnews", "trec", "agnews-uneven"),
        records=(8, 25, 100),
        epsilons=(1.0, 4.0),
    ),
    measure=measure,
    section=section,
)
