"""Does synthesis learn from more records? Accuracy with synthetic demonstrations by the number of private records.

A record's weight in a token falls with the size of its batch, so that more records leave less noise at the same price.
Names are made up: what a demonstration is worth, it has from the records. Beside public texts stand texts that the
writer draws by itself after one real record each: what it could carry without any protection.
"""

from __future__ import annotations

from typing import Any, Final

from sottovoce.benchmarks import evaluation as e
from sottovoce.benchmarks import prism_demonstrations as d
from sottovoce.benchmarks.accuracy import difference, kinds, said_of
from sottovoce.benchmarks.exhibits import Exhibit, Table
from sottovoce.benchmarks.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.prism_demonstrations import METHODS, PUBLIC, REAL
from sottovoce.benchmarks.prism_knobs import COPIED, after_real_ones
from sottovoce.benchmarks.sweeps import sweep_figures
from sottovoce.benchmarks.worlds import UNKNOWN

SIZE = d.Size(per_label=2)
WRITERS: Final = ("invisible-ink", "prism")


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Accuracies of one task and seed."""
    settings = bench.settings
    episode, held = d.held_of(bench, piece, max(settings.records))
    zero = e.best_laws(e.ask_public(bench.scorer, episode))
    yield Key(piece.task, piece.names, e.ZERO_SHOT), e.right(zero, episode.truth)
    yield from d.in_context(bench, piece, episode, held, Key(piece.task, piece.names, REAL), SIZE)
    stepper = d.stepper_of(settings.writer or settings.model)
    public = d.public_texts(stepper, episode, piece, SIZE)
    yield from d.told(bench, piece, episode, public, Key(piece.task, piece.names, PUBLIC), SIZE)
    copied = after_real_ones(stepper, episode, held, piece)
    yield from d.told(bench, piece, episode, copied, Key(piece.task, piece.names, COPIED), SIZE)
    for records in settings.records:
        rows = d.rows_of(episode, held[:records])
        for adjacency in bench.adjacencies:
            for epsilon in settings.epsilons:
                for name in WRITERS:
                    made = d.written(stepper, episode, rows, METHODS[name], epsilon, adjacency, piece, SIZE)
                    price: dict[str, Any] = {"adjacency": adjacency.value, "epsilon": epsilon}
                    key = Key(piece.task, piece.names, name, records=records, **price)
                    yield from d.told(bench, piece, episode, made, key, SIZE)


def exhibit(result: Result) -> Exhibit:
    """A table and a figure for each adjacency and price, and what is above public texts."""
    s, k = result.settings, result.settings.shots[-1]
    tables, lines, figures = [], [], []
    for adjacency in s.adjacencies:
        for epsilon in s.epsilons:
            rows = []
            for task, names in kinds(result):
                at: dict[str, Any] = {"task": task, "names": names, "option": f"k {k}"}
                free = [result.cell(**at, method=name) for name in (PUBLIC, COPIED, REAL)]
                for name in WRITERS:
                    price = {"method": name, "adjacency": adjacency, "epsilon": epsilon}
                    cells = [result.cell(**at, **price, records=count) for count in s.records]
                    rows.append((task, name, *(d.shown(cell) for cell in (*free, *cells))))
                    gaps = [
                        f"{count} records {said_of(difference(cell, free[0]))}"
                        for count, cell in zip(s.records, cells, strict=True)
                    ]
                    lines.append(
                        f"{task}, {adjacency}, epsilon {epsilon:g}, {name}, over public texts: {', '.join(gaps)}."
                    )
            columns = ("task", "method", PUBLIC, f"{COPIED} (no guarantee)", f"{REAL} (no guarantee)")
            counts = tuple(f"{count} records" for count in s.records)
            note = (
                f"Percent right with {k} demonstrations, mean and standard error over seeds. {SIZE.per_label} texts a "
                f"label of {SIZE.tokens} tokens at most, delta {d.DELTA:g}."
            )
            tables.append(Table(f"{adjacency}, epsilon {epsilon:g}", (*columns, *counts), rows, note))
            figures += sweep_figures(
                result, f"records-{epsilon:g}-{adjacency}", s.records, "private records", WRITERS,
                lambda v: {"records": int(v)}, {"epsilon": epsilon, "option": f"k {k}"}, log_x=True,
            ) if adjacency == s.adjacencies[-1] else []  # fmt: skip
    return Exhibit(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


EXPERIMENT = Experiment(
    name="prism-records",
    title="Does synthesis learn more from more records?",
    source="Privacy-Aware ICL (PRISM), batch size; our own question",
    settings=Settings(
        seeds=3, tasks=("dbpedia",), names=(UNKNOWN,), records=(60, 240, 960), epsilons=(4.0, 8.0), shots=(4, 8)
    ),
    measure=measure,
    exhibit=exhibit,
)
