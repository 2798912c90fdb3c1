"""Private PoEtry, Table 2: the first digit of the answer to a grade-school problem, ten labels of very uneven size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import accuracy_tables
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.poetry.table1 import METHODS, gains, measure, reading


def imbalance(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """For every task its labels, and how often each is right in training and test rows."""
    imbalances = {}
    for task in dict.fromkeys(piece.task for piece in pieces):
        world = bench.world(task)
        labels = range(len(world.task.labels))
        counts = {name: Counter(x.label for x in rows) for name, rows in (("train", world.train), ("test", world.test))}
        label_counts = {name: [count[label] for label in labels] for name, count in counts.items()}
        imbalances[task] = {"labels": list(world.task.labels), **label_counts}
    return imbalances


def section(result: Result) -> ReportSection:
    """The table, and what always answering the commonest label would give."""
    tables = [*accuracy_tables(result, METHODS), *gains(result, e.POE)]
    figures = []
    lines = []
    for task, counts in result.extra.items():
        labels, shares = counts["labels"], {name: _percent(counts[name]) for name in ("train", "test")}
        rows = [(label, *(f"{shares[name][i]:.1f}" for name in shares)) for i, label in enumerate(labels)]
        tables.append(Table(f"How often each label is right, {task}, percent", ("label", *shares), rows))
        figures.append(
            Figure(
                f"imbalance-{task}",
                f"How even the labels are, {task}",
                "first digit of the answer" if task == "gsm8k" else "label",
                "percent of rows",
                [Series(name, labels, values) for name, values in shares.items()],
                kind="bars",
            )
        )
        commonest = int(np.argmax(shares["train"]))
        lines.append(
            f"{task}: always answering {labels[commonest]}, the commonest label of the training rows, is right "
            f"{shares['test'][commonest]:.1f} % of the time: any method has to be read against that."
        )
    if result.settings.model == "embedded":
        lines.append(
            "The embedded model compares sentences and cannot calculate: on gsm8k, records can tell it how frequent a "
            "label is and which problems look alike, and nothing else."
        )
    lines += reading(result)
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _percent(counts: Sequence[int]) -> list[float]:
    return [100 * count / max(1, sum(counts)) for count in counts]


EXPERIMENT = Experiment(
    name="poetry-table2",
    title="Mathematics: the first digit of the answer (gsm8k)",
    source="Private PoEtry, Table 2 and section 4.1",
    settings=Settings(tasks=("gsm8k",), names=("own",), records=(4, 8, 25), epsilons=(1.0, 4.0, 8.0)),
    measure=measure,
    section=section,
    whole=imbalance,
)
