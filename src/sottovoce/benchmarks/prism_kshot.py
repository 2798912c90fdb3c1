"""Synthetic demonstrations: accuracy in context with k of them, against real ones, public ones and none.

For every method, price and adjacency one file of synthetic rows is written from the same private records, by the model
that writes; the model that scores then answers from k of them, drawn at random, over several draws. The controls: no
demonstration; k of the private records themselves, without any guarantee; k texts that the same model writes from the
public prompt alone, at the same length, which is what synthesis has to beat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import numpy as np

from sottovoce.benchmarks import evaluation as e
from sottovoce.benchmarks.accuracy import kinds
from sottovoce.benchmarks.exhibits import Exhibit, Table
from sottovoce.benchmarks.experiment import Bench, Cell, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.sweeps import sweep_figures
from sottovoce.benchmarks.worlds import OWN, Episode
from sottovoce.errors import ParameterError
from sottovoce.methods.decoding import Decoder, make_decoder
from sottovoce.models.catalog import load_stepper
from sottovoce.models.stepping import Stepper
from sottovoce.privacy.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records import PrivateRecords, Row
from sottovoce.synthesis import Synthesizer
from sottovoce.synthesis_order import Order
from sottovoce.tasks import Example

REAL, PUBLIC = "real demonstrations", "public texts"
METHODS: Final[Mapping[str, Decoder]] = {
    name: make_decoder(name) for name in ("invisible-ink", "prism", "amin", "tang", "poe-decoding")
}
DELTA: Final = 1e-5
DRAWS: Final = 8
"""Contexts of k demonstrations for every file."""
NOTHING: Final = 1e-3
"""An epsilon at which a text follows its public prompt: what "public texts" are written with. They read no record."""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Accuracies of one task and seed."""
    settings = bench.settings
    (records,) = settings.records if len(settings.records) == 1 else (0,)
    episode = bench.world(piece.task).episode(piece.seed, settings.queries, piece.names)
    if not 0 < records <= len(episode.records):
        raise ParameterError("records", settings.records, f"one number up to {len(episode.records)}")
    held = episode.records[:records]
    zero = e.best_laws(e.ask_public(bench.scorer, episode))
    yield Key(piece.task, piece.names, e.ZERO_SHOT), e.right(zero, episode.truth)
    yield from _in_context(bench, piece, episode, held, Key(piece.task, piece.names, REAL, records=records))
    stepper = _stepper(settings.model)
    rows = [Row(n + 1, {**x.fields, "label": episode.task.labels[x.label]}) for n, x in enumerate(held)]
    public = _written(
        stepper, episode, [_blank(episode)], METHODS["invisible-ink"], NOTHING, Adjacency.ADD_REMOVE, piece
    )
    yield from _told(bench, piece, episode, public, Key(piece.task, piece.names, PUBLIC))
    for adjacency in bench.adjacencies:
        for epsilon in settings.epsilons:
            for name, decoder in METHODS.items():
                made = _written(stepper, episode, rows, decoder, epsilon, adjacency, piece)
                key = Key(piece.task, piece.names, name, records=records, adjacency=adjacency.value, epsilon=epsilon)
                yield from _told(bench, piece, episode, made, key)


@lru_cache(maxsize=1)
def _stepper(model: str) -> Stepper:
    return load_stepper(model)


def _blank(episode: Episode) -> Row:
    """A record that says nothing, for texts from the public prompt."""
    return Row(1, dict.fromkeys(episode.task.fields, "-") | {"label": episode.task.labels[0]})


def _written(
    stepper: Stepper,
    episode: Episode,
    rows: Sequence[Row],
    decoder: Decoder,
    epsilon: float,
    adjacency: Adjacency,
    piece: Piece,
) -> list[Example]:
    """The examples of one file. The rows are published benchmark rows, so its noise may be seeded."""
    labels = len(episode.task.labels)
    writer = Synthesizer(
        PrivateRecords(rows, source=piece.name, unit="record", synthetic=True),
        episode.task,
        Order(per_label=PER_LABEL, tokens=TOKENS, experts=max(1, len(rows) // labels), inside_tokens=INSIDE),
        epsilon=epsilon,
        delta=DELTA,
        method=decoder,
        model=stepper,
        adjacency=adjacency,
        budget=Budget(1_000, 1e-4, failure_delta=5e-5),
        ledger=":memory:",
        randomness=SeededRandomness(crc32(f"{piece.name} {epsilon:g} {adjacency.value} {decoder.name}".encode())),
    )
    return [
        Example({name: row[name] for name in episode.task.fields}, episode.task.labels.index(row["label"]))
        for one in writer.rounds()
        for row in one.rows
        if all(isinstance(row.get(name), str) and row[name].strip() for name in episode.task.fields)
    ]


PER_LABEL, TOKENS, INSIDE = 4, 24, 48


def _told(
    bench: Bench, piece: Piece, episode: Episode, made: Sequence[Example], key: Key
) -> Iterator[tuple[Key, float]]:
    asked = PER_LABEL * len(episode.task.labels)
    yield _with(key, quantity="readable"), 100 * len(made) / asked
    different = len({text for example in made for text in example.fields.values()})
    yield _with(key, quantity="different"), 100 * different / max(1, len(made))
    yield from _in_context(bench, piece, episode, made, key)


def _in_context(
    bench: Bench, piece: Piece, episode: Episode, shown: Sequence[Example], key: Key
) -> Iterator[tuple[Key, float]]:
    """Percent right with k of the examples, over draws."""
    rng = np.random.default_rng(40_000 + piece.seed)
    for k in bench.settings.shots:
        if k > len(shown):
            continue
        contexts = [[shown[i] for i in rng.permutation(len(shown))[:k]] for _ in range(DRAWS)]
        prepared = bench.scorer.prepare(episode.task, contexts)
        said = prepared.score(episode.questions)
        prepared.close()
        rights = [e.right(e.best_laws(said[:, draw]), episode.truth) for draw in range(DRAWS)]
        yield _with(key, option=f"k {k}"), float(np.mean(rights))


def _with(key: Key, **changed: Any) -> Key:
    return Key(**{**vars(key), **changed})


# What a run shows


def exhibit(result: Result) -> Exhibit:
    """A table for each number of demonstrations and adjacency, and what the synthetic ones are worth."""
    tables, lines, figures = [], [], []
    s = result.settings
    for k in s.shots:
        for adjacency in s.adjacencies:
            tables.append(_table(result, k, adjacency))
            lines += [line for epsilon in s.epsilons if (line := _line(result, k, adjacency, epsilon))]
    tables.append(_quality(result))
    for k in s.shots[-1:]:
        figures += sweep_figures(
            result, f"{k}-shot", s.epsilons, "epsilon of the file", tuple(METHODS), lambda v: {"epsilon": v},
            {"records": s.records[0], "option": f"k {k}"}, log_x=True,
        )  # fmt: skip
    return Exhibit(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _table(result: Result, k: int, adjacency: str) -> Table:
    s, option = result.settings, f"k {k}"
    rows = []
    for task, names in kinds(result):
        at = {"task": task, "names": names}
        free = [
            result.cell(**at, method=e.ZERO_SHOT),
            result.cell(**at, method=PUBLIC, option=option),
            result.cell(**at, method=REAL, records=s.records[0], option=option),
        ]
        for epsilon in s.epsilons:
            price = {"records": s.records[0], "adjacency": adjacency, "epsilon": epsilon, "option": option}
            made = [result.cell(**at, method=name, **price) for name in METHODS]
            rows.append((task, f"{epsilon:g}", *(_shown(cell) for cell in (*free, *made))))
    columns = ("task", "epsilon", e.ZERO_SHOT, PUBLIC, f"{REAL} (no guarantee)", *METHODS)
    note = (
        f"Percent right with {k} demonstrations, mean and standard error over seeds ({DRAWS} draws of demonstrations "
        f"each). {PER_LABEL} texts a label, {TOKENS} tokens at most, {s.records[0]} private records, delta {DELTA:g}."
    )
    return Table(f"{k}-shot, {adjacency}", columns, rows, note)


def _quality(result: Result) -> Table:
    s = result.settings
    rows = []
    for task, names in kinds(result):
        for adjacency in s.adjacencies:
            for epsilon in s.epsilons:
                price = {"records": s.records[0], "adjacency": adjacency, "epsilon": epsilon}
                at = {"task": task, "names": names, **price}
                told = [
                    " / ".join(_shown(result.cell(**at, method=name, quantity=q)) for q in ("readable", "different"))
                    for name in METHODS
                ]
                rows.append((task, adjacency, f"{epsilon:g}", *told))
    return Table(
        "Texts that can be read as rows / that differ, percent", ("task", "adjacency", "epsilon", *METHODS), rows
    )


def _line(result: Result, k: int, adjacency: str, epsilon: float) -> str:
    """How the recommended method does on the mean over tasks."""
    price = {"records": result.settings.records[0], "adjacency": adjacency, "epsilon": epsilon, "option": f"k {k}"}
    means: dict[str, list[float]] = {}
    for task, names in kinds(result):
        at = {"task": task, "names": names}
        found = {
            e.ZERO_SHOT: result.cell(**at, method=e.ZERO_SHOT),
            PUBLIC: result.cell(**at, method=PUBLIC, option=f"k {k}"),
            REAL: result.cell(**at, method=REAL, records=price["records"], option=f"k {k}"),
            **{name: result.cell(**at, method=name, **price) for name in METHODS},
        }
        if all(found.values()):
            for name, cell in found.items():
                means.setdefault(name, []).append(cell.mean if cell else 0.0)
    if not means:
        return ""
    count = len(means[REAL])
    told = ", ".join(f"{name} {np.mean(values):.1f}" for name, values in means.items())
    return f"{k}-shot, {adjacency}, epsilon {epsilon:g}, mean over {count} tasks: {told}."


def _shown(cell: Cell | None) -> str:
    return str(cell) if cell else "-"


EXPERIMENT = Experiment(
    name="prism-kshot",
    title="What are synthetic demonstrations worth?",
    source="Privacy-Aware ICL (PRISM), Table I, and its rivals",
    settings=Settings(
        seeds=3, tasks=("agnews", "dbpedia", "trec"), names=(OWN,), records=(60,), epsilons=(1.0, 4.0, 8.0),
        shots=(1, 4, 12),
    ),
    measure=measure,
    exhibit=exhibit,
)  # fmt: skip
