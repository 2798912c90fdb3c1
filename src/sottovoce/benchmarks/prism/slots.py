"""Slot filling: what whole synthetic rows, question and answer, are worth as demonstrations.

A row is a question about a film and the phrase in it that names the genre (MIT-G) or the director (MIT-D). The answer
is free text, so rows are written whole, as JSON objects with the question first, under a grammar made from the schema.
A demonstration is used only if its slot occurs in its question, which anybody can check. Beside that, rows are written
by phrase: a batch for each genre of a public list, of the records that have it, writes a question. Answers are given
twice: the likeliest text, token by token, and the likeliest span of the question, which is what a model can do that
copies poorly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference, flat, said_of, series
from sottovoce.benchmarks.harness.datasets import OWN, Episode
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
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Table
from sottovoce.benchmarks.prism import writing as w
from sottovoce.benchmarks.prism.demonstrations import (
    DELTA,
    METHODS,
    PUBLIC,
    REAL,
    Size,
    public_texts,
    rows_of,
    shown,
    stepper_of,
    with_,
    written,
)
from sottovoce.benchmarks.prism.spans import Asked, answers, spans_of
from sottovoce.methods.decoding.decoder import Decoder
from sottovoce.models.stepper import Stepper
from sottovoce.privacy.unit import Adjacency
from sottovoce.tasks import Example, Task

PHRASES: Final[Mapping[str, tuple[str, ...]]] = {
    "mit_g by phrase": ("animated", "comedy", "documentary", "drama", "horror", "musical", "thriller", "western")
}
"""Public slots for which rows are written, each by the records that have it: genres of the film list."""
SETS: Final[Mapping[str, str]] = {"mit_g": "Genre", "mit_g by phrase": "Genre", "mit_d": "Director"}
"""Rows and how they are written, and what their slot is called in a prompt; the folder comes first."""

SCHEMA: Final[Mapping[str, Any]] = {
    "title": "question",
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 140},
        "slot": {"type": "string", "minLength": 1, "maxLength": 32},
    },
    "required": ["text", "slot"],
    "additionalProperties": False,
}
"""Written for this experiment; public."""

OPTION: Final = w.GRAMMAR
"""How rows are written; ``w.FREE`` to do without the grammar."""

TEXTS, TOKENS, INSIDE = 8, 56, 64
ROOM: Final = 360
"""Most tokens that demonstrations fill in a prompt."""

GREEDY, SPAN = "right", "best span"
COLUMNS: Final = {GREEDY: "exact match", SPAN: "best span"}


def exact(answer: str, slot: str) -> bool:
    """Whether an answer is the slot, but for case and blanks around it."""
    return answer.strip().lower() == slot.strip().lower()


def usable(row: w.Values) -> bool:
    """The public check of a demonstration: two texts, and the slot's words stand in the question."""
    text, slot = row.get("text"), row.get("slot")
    return isinstance(text, str) and isinstance(slot, str) and w.occurs(slot, text)


def demonstrations(stepper: Stepper, rows: Sequence[w.Values], asked_for: str) -> str:
    """Their part of the prompt: as many as there is room for, a line break in none."""
    shown, room = "", ROOM
    for row in rows:
        demonstration = f"Question: {_line(row['text'])}\n{asked_for}: {_line(row['slot'])}\n"
        room -= len(stepper.encode(demonstration))
        if room >= 0:
            shown += demonstration
    return shown


def _line(text: str) -> str:
    return " ".join(text.split())


def measure(bench: Bench, piece: Piece) -> Measurements:
    """One set of rows and one seed: the controls, then a file for every method, price and adjacency."""
    s, at = bench.settings, Key(piece.task, piece.names, e.ZERO_SHOT)
    count = w.one_number(s.records)
    phrases = PHRASES.get(piece.task, ())
    drawn = w.draw(bench.data, piece.task.partition(" ")[0], piece.seed, count, s.queries, _keep(phrases))
    writer, answering = stepper_of(s.writer or s.model), _Answering(stepper_of(s.model), piece.task, drawn.questions)
    write = (_ByPhrase if phrases else _Whole)(writer, piece, drawn.records)
    yield with_(at, quantity="reachable"), _percent([_is_span(row) for row in drawn.questions])
    yield from answering.accuracies((), at)

    def in_context(rows: Sequence[w.Values], key: Key) -> Iterator[tuple[Key, float]]:
        kept = [row for row in rows if usable(row)]
        order = np.random.default_rng(40_000 + piece.seed).permutation(len(kept))
        for k in s.shots:
            yield from answering.accuracies([kept[i] for i in order[:k]], with_(key, option=f"k {k}"))

    def of_file(file: w.File, key: Key) -> Iterator[tuple[Key, float]]:
        yield with_(key, quantity="readable"), 100 * len(file.rows) / TEXTS
        yield with_(key, quantity="usable"), 100 * sum(map(usable, file.rows)) / TEXTS
        yield from in_context(file.rows, key)

    yield from in_context(drawn.records, with_(at, method=REAL, records=count))
    yield from of_file(write.public(), with_(at, method=PUBLIC))
    for adjacency in bench.adjacencies:
        for epsilon in s.epsilons:
            for name, decoder in METHODS.items():
                file = write.private(decoder, epsilon, adjacency)
                price = {"records": count, "adjacency": adjacency.value, "epsilon": epsilon}
                yield from of_file(file, with_(at, method=name, **price))


def _is_span(row: w.Values) -> bool:
    """Whether a question can be answered by a span at all."""
    return any(exact(span, row["slot"]) for span in spans_of(row["text"]))


def _percent(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits)


class _Whole:
    """Writes rows whole, as JSON objects."""

    def __init__(self, stepper: Stepper, piece: Piece, records: Sequence[w.Values]) -> None:
        self._stepper, self._piece, self._records = stepper, piece, records
        self._writing, self._length = w.writing_of(SCHEMA, OPTION), w.Length(TEXTS, TOKENS, INSIDE)

    def public(self) -> w.File:
        """By the model as it is, without a record."""
        return w.without_guarantee(self._stepper, self._writing, [None] * TEXTS, self._length, self._piece.seed)

    def private(self, decoder: Decoder, epsilon: float, adjacency: Adjacency) -> w.File:
        """By a method at a price."""
        arguments = self._stepper, self._writing, self._records, decoder, epsilon, adjacency, self._length
        return w.written(*arguments, self._piece.name)


class _ByPhrase:
    """Writes one question for each public phrase, from the records that have it."""

    def __init__(self, stepper: Stepper, piece: Piece, records: Sequence[w.Values]) -> None:
        self._stepper, self._piece, self._phrases = stepper, piece, PHRASES[piece.task]
        labels = [self._phrases.index(row["slot"].lower()) for row in records]
        held = [Example({"text": row["text"]}, label) for row, label in zip(records, labels, strict=True)]
        task = Task(labels=list(self._phrases), name=piece.task.replace(" ", "-"))
        self._episode, self._size = Episode(task, held, [], np.zeros(0, dtype=np.intp)), Size(1, TOKENS, INSIDE)

    def public(self) -> w.File:
        """By the model as it is, without a record."""
        return self._file(public_texts(self._stepper, self._episode, self._piece, self._size))

    def private(self, decoder: Decoder, epsilon: float, adjacency: Adjacency) -> w.File:
        """By a method at a price."""
        rows = rows_of(self._episode, self._episode.records)
        arguments = self._stepper, self._episode, rows, decoder, epsilon, adjacency, self._piece, self._size
        return self._file(written(*arguments))

    def _file(self, made: Sequence[Example]) -> w.File:
        rows = [{"text": example.fields["text"], "slot": self._phrases[example.label]} for example in made]
        return w.File(rows, 0)


def _keep(phrases: Sequence[str]) -> Callable[[w.Values], bool]:
    """Which rows can be drawn: all, or those with a public slot."""
    return lambda row: not phrases or row["slot"].lower() in phrases


class _Answering:
    """The questions of one piece; the same demonstrations are asked with once."""

    def __init__(self, stepper: Stepper, folder: str, questions: Sequence[w.Values]) -> None:
        self._stepper, self._name, self._questions = stepper, SETS[folder], questions
        self._known: dict[str, tuple[float, float]] = {}

    def accuracies(self, shown: Sequence[w.Values], key: Key) -> Iterator[tuple[Key, float]]:
        """Percent right of either kind of answer."""
        before = f"Each question names a {self._name.lower()}.\n"
        before += demonstrations(self._stepper, shown, self._name)
        if before not in self._known:
            self._known[before] = self._right(before)
        for quantity, right in zip((GREEDY, SPAN), self._known[before], strict=True):
            yield with_(key, quantity=quantity), right

    def _right(self, before: str) -> tuple[float, float]:
        prompts = [Asked(before, f"Question: {_line(row['text'])}", f"\n{self._name}:") for row in self._questions]
        replies = answers(self._stepper, prompts, [row["text"] for row in self._questions])
        slots = [row["slot"] for row in self._questions]
        greedy = _percent([exact(reply.likeliest, slot) for reply, slot in zip(replies, slots, strict=True)])
        return greedy, _percent([exact(reply.span, slot) for reply, slot in zip(replies, slots, strict=True)])


# What a run shows


def section(result: Result) -> ReportSection:
    """Tables for each number of demonstrations, adjacency and kind of answer; what could be used; what helps."""
    s = result.settings
    most = s.shots[-1]
    tables = [
        _table(result, k, adjacency, quantity) for k in s.shots for adjacency in s.adjacencies for quantity in COLUMNS
    ]
    tables.append(_quality(result))
    figures = [_figure(result, task, most, adjacency) for task in s.tasks for adjacency in s.adjacencies]
    lines = [line for task in s.tasks for line in _reading(result, task, most)]
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _cell(
    result: Result, task: str, method: str, quantity: str, k: int | None = None, adjacency: str = "", epsilon: float = 0
) -> Cell | None:
    s = result.settings
    key: dict[str, Any] = {"task": task, "names": s.names[0], "method": method, "quantity": quantity}
    key |= {"records": s.records[0]} if method in (REAL, *METHODS) else {}
    key |= {"adjacency": adjacency, "epsilon": epsilon} if method in METHODS else {}
    return result.cell(**key, **({} if k is None or method == e.ZERO_SHOT else {"option": f"k {k}"}))


def _table(result: Result, k: int, adjacency: str, quantity: str) -> Table:
    s = result.settings
    rows = []
    for task in s.tasks:
        for epsilon in s.epsilons:
            arms = (e.ZERO_SHOT, PUBLIC, REAL, *METHODS)
            cells = [_cell(result, task, name, quantity, k, adjacency, epsilon) for name in arms]
            rows.append((task, f"{epsilon:g}", *(shown(cell) for cell in cells)))
    note = (
        f"Percent of answers that are the slot, {s.queries} questions a seed, mean and standard error over seeds. At "
        f"most {k} demonstrations: as many as can be used where a file has fewer, so none is zero-shot. A file is "
        f"{TEXTS} rows of at most {TOKENS} tokens, each by a batch of {s.records[0] // TEXTS} of the {s.records[0]} "
        f"records; delta {DELTA:g}."
    )
    columns = ("rows", "epsilon", e.ZERO_SHOT, PUBLIC, f"{REAL} (no guarantee)", *METHODS)
    return Table(f"k = {k}, {COLUMNS[quantity]}, {adjacency}", columns, rows, note)


def _quality(result: Result) -> Table:
    s = result.settings
    rows = []
    for task in s.tasks:
        for adjacency in s.adjacencies:
            for epsilon in s.epsilons:
                shares = []
                for name in (PUBLIC, *METHODS):
                    cells = [_cell(result, task, name, q, None, adjacency, epsilon) for q in ("readable", "usable")]
                    shares.append(" / ".join(f"{cell.mean:.0f}" if cell else "-" for cell in cells))
                rows.append((task, adjacency, f"{epsilon:g}", *shares))
    note = (
        "A row is readable if it is an object of the schema (by phrase: a text), usable if its slot is in its text. "
        f"Whole rows are written so: {OPTION}."
    )
    columns = ("rows", "adjacency", "epsilon", PUBLIC, *METHODS)
    return Table("Rows that are readable / usable, percent of those paid for", columns, rows, note)


def _figure(result: Result, task: str, k: int, adjacency: str) -> Figure:
    x = result.settings.epsilons
    free = [flat(name, x, _cell(result, task, name, SPAN, k)) for name in (e.ZERO_SHOT, PUBLIC, REAL)]
    lines = [replace(line, reference=True) for line in free]
    for name in METHODS:
        lines.append(series(name, x, [_cell(result, task, name, SPAN, k, adjacency, epsilon) for epsilon in x]))
    return Figure(
        f"{k}-shot-{task.replace(' ', '-')}-{adjacency}",
        f"{task}, best span, at most {k} demonstrations, {adjacency}",
        "epsilon of the file",
        "right answers, percent",
        lines,
        log_x=True,
        note="Two standard errors over seeds. Grey: no guarantee, or nothing read.",
    )


def _reading(result: Result, task: str, k: int) -> list[str]:
    """The controls, what could be used, and what synthetic rows add to public texts, seed by seed."""
    s, lines = result.settings, []
    reach = _cell(result, task, e.ZERO_SHOT, "reachable")
    for quantity, heading in COLUMNS.items():
        free = {name: _cell(result, task, name, quantity, k) for name in (e.ZERO_SHOT, PUBLIC, REAL)}
        if not all(free.values()):
            continue
        means = ", ".join(f"{name} {cell}" for name, cell in free.items())
        gain = difference(free[REAL], free[e.ZERO_SHOT])
        shows = (
            "so this model takes something from demonstrations"
            if _clear(gain)
            else (
                "which two standard errors do not tell from nothing: what synthetic rows are worth cannot be seen here"
            )
        )
        lines.append(f"{task}, {heading}, k = {k}: {means}. Real rows add {said_of(gain)} points, {shows}.")
        for adjacency in s.adjacencies:
            for epsilon in s.epsilons:
                cells = {name: _cell(result, task, name, quantity, k, adjacency, epsilon) for name in METHODS}
                gaps = [f"{name} {said_of(difference(cell, free[PUBLIC]))}" for name, cell in cells.items()]
                lines.append(
                    f"{task}, {heading}, {adjacency}, epsilon {epsilon:g}, points over public texts: {', '.join(gaps)}."
                )
    used = [
        cell.mean
        for name in METHODS for adjacency in s.adjacencies for epsilon in s.epsilons
        if (cell := _cell(result, task, name, "usable", None, adjacency, epsilon))
    ]  # fmt: skip
    if used and reach:
        lines.append(
            f"{task}: {np.mean(used):.0f} % of the rows that were paid for could be used; {reach.mean:.0f} % of the "
            "questions can be answered by a span."
        )
    return lines


def _clear(gap: tuple[float, float]) -> bool:
    return not math.isnan(gap[1]) and gap[0] > 2 * gap[1]


EXPERIMENT = Experiment(
    name="prism-slots",
    title="What are synthetic rows with free answers worth?",
    source="Privacy-Aware ICL (PRISM), Table I, slot filling",
    settings=Settings(
        seeds=3, queries=40, tasks=tuple(SETS), names=(OWN,), records=(32,), epsilons=(1.0, 4.0, 8.0), shots=(1, 4, 8),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
