"""What each setting of private writing is worth: clip, temperature, candidates, length, records.

One setting at a time is moved away from the usual ones, at the same price of the whole file, which settles the open
parameter. Accuracy with the texts as demonstrations, and how many of them can be read and differ. What is lost to noise
is told from what the writer cannot carry by two more: a price that protects nothing, and texts that the writer draws
by itself after one real record each, which is no release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import kinds
from sottovoce.benchmarks.harness.datasets import UNKNOWN, Episode
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.prism import demonstrations as d
from sottovoce.benchmarks.prism.demonstrations import METHODS, PUBLIC, REAL
from sottovoce.benchmarks.prism.writing import drawn_texts
from sottovoce.errors import ParameterError
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.decoding.decoder import Decoder, make_decoder
from sottovoce.models.stepper import Prompt, Stepper
from sottovoce.tasks import Example

SIZE = d.Size(per_label=2)
USUAL: Final = "usual"
LOOSE: Final = 500.0
"""An epsilon that protects nothing."""
COPIED: Final = "texts after one real record each"


@final
@dataclass(frozen=True)
class Variant:
    """One setting that is moved.

    Attributes:
        name: For tables.
        method: The decoder's name.
        decoder: With the setting.
        epsilon: Of the file, where it is another one.
        tokens: Most tokens of a text; 0 for the usual number.
        share: Of the private records, how many are used.
    """

    name: str
    method: str
    decoder: Decoder
    tokens: int = 0
    share: float = 1.0
    epsilon: float | None = None


def _variants() -> list[Variant]:
    variants = [Variant(USUAL, name, decoder) for name, decoder in METHODS.items()]
    for method, settings in SETTINGS.items():
        for setting, values in settings.items():
            for value in values:
                name = f"{setting.replace('_', ' ')} {value if value is not None else 'all'}"
                variants.append(Variant(name, method, make_decoder(method, **{setting: value})))
    for method in ("invisible-ink", "prism"):
        variants += [Variant(f"tokens {tokens}", method, METHODS[method], tokens=tokens) for tokens in (12, 48)]
        variants += [Variant(f"records x {share:g}", method, METHODS[method], share=share) for share in (0.25, 0.5)]
        variants += [Variant(f"epsilon {LOOSE:g}", method, METHODS[method], epsilon=LOOSE)]
    return variants


SETTINGS: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = {
    "prism": {"clip": (1.0, 3.0, 20.0), "top_k": (100,)},
    "invisible-ink": {"temperature": (0.7, 1.4), "top_k": (20, None)},
    "amin": {"threshold": (0.1, 1.0)},
}
"""Settings that are moved, by method."""
VARIANTS: Final = tuple(_variants())


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every variant of one task and seed."""
    settings = bench.settings
    if len(settings.records) != 1:
        raise ParameterError("records", settings.records, "one number")
    (records,) = settings.records
    episode, held = d.held_of(bench, piece, records)
    yield (
        Key(piece.task, piece.names, e.ZERO_SHOT),
        e.right(e.best_laws(e.ask_public(bench.scorer, episode)), episode.truth),
    )
    yield from d.in_context(bench, piece, episode, held, Key(piece.task, piece.names, REAL, records=records), SIZE)
    stepper = d.stepper_of(settings.writer or settings.model)
    rows = d.rows_of(episode, held)
    public = d.public_texts(stepper, episode, piece, SIZE)
    yield from d.measurements(bench, piece, episode, public, Key(piece.task, piece.names, PUBLIC), SIZE)
    after = after_real_ones(stepper, episode, held, piece)
    yield from d.measurements(bench, piece, episode, after, Key(piece.task, piece.names, COPIED, records=records), SIZE)
    for adjacency in bench.adjacencies:
        for epsilon in settings.epsilons:
            for v in VARIANTS:
                size = replace(SIZE, tokens=v.tokens or SIZE.tokens)
                subset = rows[: max(1, round(len(rows) * v.share))]
                made = d.written(stepper, episode, subset, v.decoder, v.epsilon or epsilon, adjacency, piece, size)
                key = Key(
                    piece.task, piece.names, v.method, records=records, adjacency=adjacency.value, epsilon=epsilon
                )
                for measured_key, value in d.measurements(bench, piece, episode, made, key, size):
                    yield d.with_(measured_key, option=", ".join(filter(None, [measured_key.option, v.name]))), value


def after_real_ones(stepper: Stepper, episode: Episode, held: Sequence[Example], piece: Piece) -> list[Example]:
    """A control without protection: as many texts as a file has, each drawn behind one record of its label."""
    rng, writing = np.random.default_rng(50_000 + piece.seed), GenerationTemplate.of(episode.task)
    shown = []
    for label in range(len(episode.task.labels)):
        own = [x for x in held if x.label == label]
        shown += [own[i] for i in rng.permutation(len(own))[: SIZE.per_label]]
    prompts = [
        Prompt(writing.opening(episode.task.labels[x.label]), writing.show(x.fields), writing.lead) for x in shown
    ]
    texts = drawn_texts(stepper, prompts, SIZE.tokens, SIZE.inside, writing.ended, rng)
    read = [(writing.read(text), x.label) for (text, _), x in zip(texts, shown, strict=True)]
    return [Example(values, label) for values, label in read if values is not None]


def section(result: Result) -> ReportSection:
    """A table for each task, adjacency and price."""
    s, k = result.settings, result.settings.shots[-1]
    tables, lines = [], []
    for task, names in kinds(result):
        at = {"task": task, "names": names}
        controls = [
            f"{name} {result.cell(**at, **cell) or 'not measured'}"
            for name, cell in (
                (e.ZERO_SHOT, {"method": e.ZERO_SHOT}),
                (PUBLIC, {"method": PUBLIC, "option": f"k {k}"}),
                (REAL, {"method": REAL, "records": s.records[0], "option": f"k {k}"}),
                (COPIED, {"method": COPIED, "records": s.records[0], "option": f"k {k}"}),
            )
        ]
        lines.append(f"{task}, {names} names, k = {k}: {', '.join(controls)} (the last two without any guarantee).")
        for adjacency in s.adjacencies:
            for epsilon in s.epsilons:
                price = {**at, "records": s.records[0], "adjacency": adjacency, "epsilon": epsilon}
                tables.append(_table(result, price, f"{task}, {names} names, {adjacency}, epsilon {epsilon:g}"))
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, [], about(result))


def _table(result: Result, price: dict[str, Any], title: str) -> Table:
    shots = result.settings.shots
    rows = []
    for v in VARIANTS:
        cells = [result.cell(**price, method=v.method, option=f"k {k}, {v.name}") for k in shots]
        cells += [result.cell(**price, method=v.method, quantity=q, option=v.name) for q in ("readable", "different")]
        rows.append((v.method, v.name, *(d.shown(cell) for cell in cells)))
    note = (
        f"Percent right, mean and standard error over seeds. {SIZE.per_label} texts a label, {SIZE.tokens} tokens at "
        f"most unless said otherwise, {result.settings.records[0]} private records, delta {d.DELTA:g}."
    )
    columns = ("method", "setting", *(f"k = {k}" for k in shots), "readable", "different")
    return Table(title, columns, rows, note)


EXPERIMENT = Experiment(
    name="prism-knobs",
    title="What is each setting of private writing worth?",
    source="Privacy-Aware ICL (PRISM), Tables II, III, VI and VII: one setting at a time",
    settings=Settings(
        seeds=3, tasks=("dbpedia", "trec"), names=(UNKNOWN,), records=(60,), epsilons=(4.0,),
        adjacencies=("add-remove",), shots=(4, 8),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
