"""Private PoEtry, Table 2: the first digit of the answer to a grade-school problem, ten labels of very uneven size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sottovoce.benchmarks import evaluation as e
from sottovoce.benchmarks.accuracy import accuracy_tables
from sottovoce.benchmarks.exhibits import Exhibit, Figure, Series, Table
from sottovoce.benchmarks.experiment import Bench, Experiment, Piece, Result, Settings, about
from sottovoce.benchmarks.poetry_table1 import METHODS, gains, measure, reading


def imbalance(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """How often each digit comes first, in training and test rows."""
    world = bench.world("gsm8k")
    counts = {name: Counter(x.label for x in rows) for name, rows in (("train", world.train), ("test", world.test))}
    return {name: [count[digit] for digit in range(10)] for name, count in counts.items()}


def exhibit(result: Result) -> Exhibit:
    """The table, and what always answering the commonest digit would give."""
    tables = [*accuracy_tables(result, METHODS), *gains(result, e.POE)]
    figures = []
    lines = reading(result)
    if result.extra:
        shares = {name: [100 * n / sum(counts) for n in counts] for name, counts in result.extra.items()}
        digits = [str(digit) for digit in range(10)]
        rows = [(digit, *(f"{shares[name][i]:.1f}" for name in shares)) for i, digit in enumerate(digits)]
        tables.append(Table("How often each digit comes first, percent", ("digit", *shares), rows))
        figures.append(
            Figure(
                "imbalance",
                "The labels are uneven",
                "first digit of the answer",
                "percent of problems",
                [Series(name, digits, values) for name, values in shares.items()],
                kind="bars",
            )
        )
        best = max(shares["train"])
        digit = shares["train"].index(best)
        lines = [
            f"Always answering {digit}, the commonest digit of the training rows, is right "
            f"{shares['test'][digit]:.1f} % of the time: any method has to be read against that.",
            "The embedded model compares sentences and cannot calculate; what it gains from records is the label "
            "frequencies.",
            *lines,
        ]
    return Exhibit(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


EXPERIMENT = Experiment(
    name="poetry-table2",
    title="Mathematics: the first digit of the answer (gsm8k)",
    source="Private PoEtry, Table 2 and section 4.1",
    settings=Settings(tasks=("gsm8k",), names=("own",), records=(4, 8, 25), epsilons=(1.0, 4.0, 8.0)),
    measure=measure,
    exhibit=exhibit,
    whole=imbalance,
)
