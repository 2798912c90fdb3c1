"""Synthetic demonstrations: accuracy in context with k of them, against real ones, public ones and none.

For every method, price and adjacency one file of synthetic rows is written from the same private records, by the model
that writes; the model that scores then answers from k of them, drawn at random, over several draws. The controls: no
demonstration; k of the private records themselves, without any guarantee; k texts that the same model writes from the
public prompt alone, at the same length, which is what synthesis has to beat. Under made-up names a text written from
the public prompt cannot know what its label means; the records do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference, kinds, said_of
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN
from sottovoce.benchmarks.harness.experiment import (
    Bench,
    Cell,
    Experiment,
    Key,
    Measurements,
    Piece,
    Result,
    Settings,
    about,
)
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.harness.sweeps import sweep_figures
from sottovoce.benchmarks.prism import demonstrations as d
from sottovoce.benchmarks.prism import judging as j
from sottovoce.benchmarks.prism.demonstrations import METHODS, PUBLIC, REAL
from sottovoce.errors import ParameterError

SIZE = d.Size()
RECOMMENDED, SAMPLES = "invisible-ink", 4
USUAL: Final = 4
"""Demonstrations of the main tables, as in the paper."""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Accuracies of one task, kind of names and seed."""
    settings = bench.settings
    if len(settings.records) != 1:
        raise ParameterError("records", settings.records, "one number")
    (records,) = settings.records
    episode, held = d.held_of(bench, piece, records)
    zero = e.best_laws(e.ask_public(bench.scorer, episode))
    yield Key(piece.task, piece.names, e.ZERO_SHOT), e.right(zero, episode.truth)
    real = Key(piece.task, piece.names, REAL, records=records)
    yield from d.in_context(bench, piece, episode, held, real, SIZE)
    yield from j.judged_real(bench, piece, SIZE.tokens)
    stepper = d.stepper_of(settings.writer or settings.model)
    rows = d.rows_of(episode, held)
    public = d.public_texts(stepper, episode, piece, SIZE)
    free = Key(piece.task, piece.names, PUBLIC)
    yield from d.measurements(bench, piece, episode, public, free, SIZE)
    yield from j.judged(bench, piece, public, free, SIZE.tokens)
    for adjacency in bench.adjacencies:
        for epsilon in settings.epsilons:
            for name, decoder in METHODS.items():
                made = d.written(stepper, episode, rows, decoder, epsilon, adjacency, piece, SIZE)
                key = Key(piece.task, piece.names, name, records=records, adjacency=adjacency.value, epsilon=epsilon)
                yield from d.measurements(bench, piece, episode, made, key, SIZE)
                yield from j.judged(bench, piece, made, key, SIZE.tokens)


def samples(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The first texts that the recommended method writes for the first seed, none left out."""
    settings, texts = bench.settings, []
    stepper = d.stepper_of(settings.writer or settings.model)
    for piece in (piece for piece in pieces if piece.seed == 0 and piece.names == settings.names[0]):
        episode, held = d.held_of(bench, piece, settings.records[0])
        rows, adjacency = d.rows_of(episode, held), bench.adjacencies[-1]
        for epsilon in settings.epsilons:
            made = d.written(stepper, episode, rows, METHODS[RECOMMENDED], epsilon, adjacency, piece, SIZE)
            for label, name in list(enumerate(episode.task.labels))[:SAMPLES]:
                text = next((" / ".join(x.fields.values()) for x in made if x.label == label), "")
                texts.append({"task": piece.task, "epsilon": epsilon, "label": name, "text": text})
    return {"texts": texts}


# What a run shows


def section(result: Result) -> ReportSection:
    """Tables at the usual number of demonstrations, by that number, calibrated; what synthetic ones are worth."""
    s = result.settings
    usual = USUAL if USUAL in s.shots else s.shots[-1]
    tables = [_table(result, f"k {k}", adjacency) for k in (usual,) for adjacency in s.adjacencies]
    tables += [_by_shots(result, adjacency) for adjacency in s.adjacencies]
    tables += [_table(result, f"k {usual}, calibrated", s.adjacencies[-1]), _quality(result), *_judged(result)]
    tables += _samples(result)
    lines = [line for adjacency in s.adjacencies for line in _reading(result, usual, adjacency)]
    figures = sweep_figures(
        result, f"{usual}-shot", s.epsilons, "epsilon of the file", tuple(METHODS), lambda v: {"epsilon": v},
        {"records": s.records[0], "option": f"k {usual}"}, log_x=True,
    )  # fmt: skip
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _price(result: Result, adjacency: str, epsilon: float) -> dict[str, Any]:
    return {"records": result.settings.records[0], "adjacency": adjacency, "epsilon": epsilon}


def _controls(result: Result, at: dict[str, Any], option: str) -> list[Cell | None]:
    """Zero-shot, public texts, real demonstrations."""
    return [
        result.cell(**at, method=e.ZERO_SHOT),
        result.cell(**at, method=PUBLIC, option=option),
        result.cell(**at, method=REAL, records=result.settings.records[0], option=option),
    ]


CONTROLS: Final = (e.ZERO_SHOT, PUBLIC, f"{REAL} (no guarantee)")


def _table(result: Result, option: str, adjacency: str) -> Table:
    s = result.settings
    rows = []
    for task, names in kinds(result):
        at = {"task": task, "names": names}
        for epsilon in s.epsilons:
            made = [
                result.cell(**at, method=name, option=option, **_price(result, adjacency, epsilon)) for name in METHODS
            ]
            shown = [d.shown(cell) for cell in (*_controls(result, at, option), *made)]
            rows.append((task, names, f"{epsilon:g}", *shown))
    title = f"Percent right, {option.replace('k ', 'k = ')}, {adjacency}"
    return Table(title, ("task", "names", "epsilon", *CONTROLS, *METHODS), rows, _note(result))


def _by_shots(result: Result, adjacency: str) -> Table:
    s = result.settings
    epsilon = s.epsilons[len(s.epsilons) // 2]
    rows = []
    for task, names in kinds(result):
        at = {"task": task, "names": names}
        for name in (PUBLIC, REAL, *METHODS):
            price = _price(result, adjacency, epsilon) if name in METHODS else {}
            price |= {"records": s.records[0]} if name == REAL else {}
            cells = [result.cell(**at, method=name, option=f"k {k}", **price) for k in s.shots]
            rows.append((task, names, name, *(d.shown(cell) for cell in cells)))
    columns = ("task", "names", "demonstrations", *(f"k = {k}" for k in s.shots))
    return Table(f"By the number of demonstrations, epsilon {epsilon:g}, {adjacency}", columns, rows, _note(result))


def _note(result: Result) -> str:
    return (
        f"Mean and standard error over seeds ({SIZE.draws} draws of demonstrations each). {SIZE.per_label} texts a "
        f"label, {SIZE.tokens} tokens at most, {result.settings.records[0]} private records, delta {d.DELTA:g}."
    )


def _quality(result: Result) -> Table:
    rows = []
    for task, names in kinds(result):
        for adjacency in result.settings.adjacencies:
            for epsilon in result.settings.epsilons:
                at = {"task": task, "names": names, **_price(result, adjacency, epsilon)}
                shares = [
                    " / ".join(d.shown(result.cell(**at, method=name, quantity=q)) for q in ("readable", "different"))
                    for name in METHODS
                ]
                rows.append((task, names, adjacency, f"{epsilon:g}", *shares))
    columns = ("task", "names", "adjacency", "epsilon", *METHODS)
    return Table("Texts that can be read as rows / that differ, percent", columns, rows)


def _judged(result: Result) -> list[Table]:
    """Texts that are told to be of their set, where there are several sets, and of their label."""
    tables = []
    for quantity, title in (
        (j.IN_DOMAIN, "Texts that are told to be of their data set, percent"),
        (j.OF_LABEL, "Texts that are told to be of their label, among the labels of their set, percent"),
    ):
        rows = []
        for task, names in kinds(result):
            at = {"task": task, "names": names, "quantity": quantity}
            free = [result.cell(**at, method=name) for name in (REAL, PUBLIC)]
            for adjacency in result.settings.adjacencies:
                for epsilon in result.settings.epsilons:
                    price = _price(result, adjacency, epsilon)
                    cells = [*free, *(result.cell(**at, **price, method=name) for name in METHODS)]
                    if any(cells):
                        rows.append((task, names, adjacency, f"{epsilon:g}", *(d.shown(cell) for cell in cells)))
        columns = ("task", "names", "adjacency", "epsilon", "real rows", PUBLIC, *METHODS)
        tables += [Table(title, columns, rows, _judged_note(result))] if rows else []
    return tables


def _judged_note(result: Result) -> str:
    sets = ", ".join(dict.fromkeys((*result.settings.tasks, j.FOREIGN)))
    return (
        f"By a linear discriminant of sentence embeddings over the labels of {sets}, fitted on test rows; mean over "
        f"labels, then mean and standard error over seeds. Real rows: others than it was fitted on, cut to "
        f"{j.words_of(SIZE.tokens)} words."
    )


def _samples(result: Result) -> list[Table]:
    texts = result.extra.get("texts", [])
    rows = [
        (sample["task"], f"{sample['epsilon']:g}", sample["label"], sample["text"] or "(unreadable)")
        for sample in texts
    ]
    title = f"Texts written by {RECOMMENDED}, {result.settings.adjacencies[-1]}"
    note = f"The first text of each of the first {SAMPLES} labels, none left out; the first seed."
    return [Table(title, ("task", "epsilon", "label", "text"), rows, note)] if rows else []


def _reading(result: Result, k: int, adjacency: str) -> list[str]:
    """What synthetic demonstrations add to public ones, seed by seed, on the mean over tasks."""
    lines = []
    for names in result.settings.names:
        tasks = [task for task, kind in kinds(result) if kind == names]
        public = _mean(result, tasks, names, PUBLIC, {}, k)
        zero = _mean(result, tasks, names, e.ZERO_SHOT, {}, None)
        real = _mean(result, tasks, names, REAL, {"records": result.settings.records[0]}, k)
        if not (public and zero and real):
            continue
        lines.append(
            f"{names} names, k = {k}, mean of {len(tasks)} tasks: zero-shot {zero}, public texts {public}, "
            f"real demonstrations {real} (no guarantee)."
        )
        for epsilon in result.settings.epsilons:
            gaps = []
            for name in METHODS:
                cell = _mean(result, tasks, names, name, _price(result, adjacency, epsilon), k)
                gaps.append(f"{name} {said_of(difference(cell, public))}")
            lines.append(
                f"{names} names, {adjacency}, epsilon {epsilon:g}, points over public texts: {', '.join(gaps)}."
            )
    return lines


def _mean(
    result: Result, tasks: Sequence[str], names: str, method: str, price: dict[str, Any], k: int | None
) -> Cell | None:
    """The mean over tasks, seed by seed."""
    option = {} if k is None else {"option": f"k {k}"}
    cells = [result.cell(task=task, names=names, method=method, **price, **option) for task in tasks]
    if not cells or not all(cells) or len({len(cell.values) for cell in cells if cell}) != 1:
        return None
    values = np.mean([cell.values for cell in cells if cell], axis=0)
    return Cell(Key("mean", names, method), tuple(float(value) for value in values))


EXPERIMENT = Experiment(
    name="prism-kshot",
    title="What are synthetic demonstrations worth?",
    source="Privacy-Aware ICL (PRISM), Table I, its shots, and its rivals",
    settings=Settings(
        seeds=3, tasks=("agnews", "dbpedia", "trec"), names=(OWN, UNKNOWN), records=(60,), epsilons=(1.0, 4.0, 8.0),
        shots=(1, 2, 4, 8, 12),
    ),
    measure=measure,
    section=section,
    whole=samples,
)  # fmt: skip
