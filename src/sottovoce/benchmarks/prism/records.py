"""Does synthesis learn from more records? Accuracy with synthetic demonstrations by the number of private records.

A record's weight in a token falls with the size of its batch, so that more records leave less noise at the same price.
Names are made up: what a demonstration is worth, it has from the records. Beside public texts stand texts that the
writer draws by itself after one real record each: what it could carry without any protection.
"""

from __future__ import annotations

from typing import Any, Final

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference, kinds, said_of
from sottovoce.benchmarks.harness.datasets import UNKNOWN
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.harness.sweeps import sweep_figures
from sottovoce.benchmarks.prism import demonstrations as d
from sottovoce.benchmarks.prism import judging as j
from sottovoce.benchmarks.prism.ablations import COPIED, after_real_ones
from sottovoce.benchmarks.prism.demonstrations import METHODS, PUBLIC, REAL

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
    copied = after_real_ones(stepper, episode, held, piece)
    yield from j.judged_real(bench, piece, SIZE.tokens)
    for name, made in ((PUBLIC, public), (COPIED, copied)):
        yield from d.measurements(bench, piece, episode, made, Key(piece.task, piece.names, name), SIZE)
        yield from j.judged(bench, piece, made, Key(piece.task, piece.names, name), SIZE.tokens)
    for records in settings.records:
        rows = d.rows_of(episode, held[:records])
        for adjacency in bench.adjacencies:
            for epsilon in settings.epsilons:
                for name in WRITERS:
                    made = d.written(stepper, episode, rows, METHODS[name], epsilon, adjacency, piece, SIZE)
                    price: dict[str, Any] = {"adjacency": adjacency.value, "epsilon": epsilon}
                    key = Key(piece.task, piece.names, name, records=records, **price)
                    yield from d.measurements(bench, piece, episode, made, key, SIZE)
                    yield from j.judged(bench, piece, made, key, SIZE.tokens)


def section(result: Result) -> ReportSection:
    """For each adjacency and price: accuracies, what is above public texts, whose label the texts are told to have."""
    s, k = result.settings, result.settings.shots[-1]
    tables, lines, figures = [], [], []
    for adjacency in s.adjacencies:
        for epsilon in s.epsilons:
            price: dict[str, Any] = {"adjacency": adjacency, "epsilon": epsilon}
            title = f"{adjacency}, epsilon {epsilon:g}"
            tables.append(_table(result, title, {"option": f"k {k}"}, price, f"Percent right with {k} demonstrations"))
            lines += _gaps(result, k, price)
            figures += sweep_figures(
                result, f"records-{epsilon:g}-{adjacency}", s.records, "private records", WRITERS,
                lambda v: {"records": int(v)}, {"epsilon": epsilon, "option": f"k {k}"}, log_x=True,
            ) if adjacency == s.adjacencies[-1] else []  # fmt: skip
    for adjacency in s.adjacencies:
        for epsilon in s.epsilons:
            title, price = (
                f"Of their label, {adjacency}, epsilon {epsilon:g}",
                {"adjacency": adjacency, "epsilon": epsilon},
            )
            meaning = (
                "Percent of texts told to be of their label among those of their set (the judge of `prism-kshot`); "
                "real ones: test rows that it was not fitted on"
            )
            tables.append(_table(result, title, {"quantity": j.OF_LABEL}, price, meaning))
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _table(result: Result, title: str, what: dict[str, Any], price: dict[str, Any], meaning: str) -> Table:
    rows = []
    for task, names in kinds(result):
        at: dict[str, Any] = {"task": task, "names": names, **what}
        free = [result.cell(**at, method=name) for name in (PUBLIC, COPIED, REAL)]
        for name in WRITERS:
            cells = [result.cell(**at, **price, method=name, records=count) for count in result.settings.records]
            rows.append((task, name, *(d.shown(cell) for cell in (*free, *cells))))
    columns = ("task", "method", PUBLIC, f"{COPIED} (no guarantee)", f"{REAL} (no guarantee)")
    counts = tuple(f"{count} records" for count in result.settings.records)
    note = (
        f"{meaning}, mean and standard error over seeds. {SIZE.per_label} texts a label of {SIZE.tokens} tokens at "
        f"most, delta {d.DELTA:g}."
    )
    return Table(title, (*columns, *counts), rows, note)


def _gaps(result: Result, k: int, price: dict[str, Any]) -> list[str]:
    """What each number of records is worth over public texts, seed by seed."""
    lines = []
    for task, names in kinds(result):
        at: dict[str, Any] = {"task": task, "names": names, "option": f"k {k}"}
        public = result.cell(**at, method=PUBLIC)
        for name in WRITERS:
            gaps = [
                f"{count} records {said_of(difference(result.cell(**at, **price, method=name, records=count), public))}"
                for count in result.settings.records
            ]
            lines.append(
                f"{task}, {price['adjacency']}, epsilon {price['epsilon']:g}, {name}, over public texts: "
                f"{', '.join(gaps)}."
            )
    return lines


EXPERIMENT = Experiment(
    name="prism-records",
    title="Does synthesis learn more from more records?",
    source="Privacy-Aware ICL (PRISM), batch size; our own question",
    settings=Settings(
        seeds=3, tasks=("agnews", "dbpedia", "trec"), names=(UNKNOWN,), records=(60, 240, 960),
        epsilons=(1.0, 4.0), shots=(4, 8),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
