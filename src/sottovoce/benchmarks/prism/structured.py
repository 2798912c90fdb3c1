"""Structured generation: how many of the written texts are records that a program could take.

Private records are films as JSON objects: title, year, genres, two of the cast. Every method writes more of them at
every price, free and under a grammar made from the schema. Two controls have no noise: the model by itself after the
public prompt, and after one real record, which is no release. A text is counted among all that were paid for, so one
that is cut off at its longest counts against its method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, final

from sottovoce.benchmarks.harness.datasets import OWN
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
from sottovoce.benchmarks.harness.public_rows import published
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.prism import writing as w
from sottovoce.benchmarks.prism.demonstrations import DELTA, METHODS, PUBLIC, RESERVED, stepper_of, with_
from sottovoce.intervals import Proportion, proportion

REAL: Final = "a real record shown"
FOLDER: Final = "wikimovies"
SCHEMA: Final[Mapping[str, Any]] = {
    "title": "film",
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "year": {"type": "integer"},
        "genres": {"type": "array", "items": {"type": "string"}},
        "cast": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "year", "genres", "cast"],
    "additionalProperties": False,
}
"""Written for this experiment; public."""

CAST: Final = 2
"""Names that a private record keeps."""

TOKENS, INSIDE = 64, 72
OPTIONS: Final = (w.FREE, w.GRAMMAR)
"""What is compared: the one place where the grammar is switched on and off."""

SHARES: Final = {
    "json": "a JSON object",
    "schema": "valid under the schema",
    "genres": "and its genres are of the film list",
    "year": "and its year lies in the film list",
}
"""Quantities in percent of all texts; the last two are of records that are valid, and have a genre."""


@final
@dataclass(frozen=True)
class Films:
    """What is public about films: what stands in rows that are neither private nor learnt from in secret.

    Attributes:
        genres: In lower case.
        years: The first and the last.
    """

    genres: frozenset[str]
    years: tuple[int, int]

    @staticmethod
    def of(rows: Sequence[w.Values]) -> Films:
        """The vocabulary of some rows."""
        years = [row["year"] for row in rows]
        return Films(frozenset(genre.lower() for row in rows for genre in row["genres"]), (min(years), max(years)))


@lru_cache(maxsize=4)
def public_films(data: Path) -> Films:
    """Of all rows but the reserved ones, which play private records."""
    others = published(w.rows_in(data, FOLDER, "train")[RESERVED:], FOLDER)
    return Films.of([*others, *w.rows_in(data, FOLDER, "test")])


def record_of(row: w.Values) -> dict[str, Any]:
    """The fields of the schema, the cast cut short."""
    return {**{name: row[name] for name in SCHEMA["properties"]}, "cast": row["cast"][:CAST]}


def shares(rows: Sequence[w.Values], films: Films, texts: int) -> dict[str, float]:
    """Percent of all texts that pass each check, by the names of ``SHARES``.

    Args:
        rows: Texts that are JSON objects.
        films: What is public.
        texts: How many were paid for.
    """
    valid = w.valid_rows(SCHEMA, rows)
    first, last = films.years
    known = [
        row for row in valid if row["genres"] and {genre.strip().lower() for genre in row["genres"]} <= films.genres
    ]
    dated = [row for row in valid if first <= row["year"] <= last]
    counts = zip(SHARES, (rows, valid, known, dated), strict=True)
    return {name: 100 * len(kept) / texts for name, kept in counts}


def measure(bench: Bench, piece: Piece) -> Measurements:
    """One seed: a file for every method, price and adjacency, and the controls, of ``queries`` texts each."""
    s, films = bench.settings, public_films(bench.data)
    count = w.one_number(s.records)
    drawn = w.draw(bench.data, FOLDER, piece.seed, count, 0)
    records = [record_of(row) for row in drawn.records]
    stepper, length = stepper_of(s.writer or s.model), w.Length(s.queries, TOKENS, INSIDE)

    def counted(file: w.File, key: Key) -> Iterator[tuple[Key, float]]:
        for name, share in shares(file.rows, films, length.texts).items():
            yield with_(key, quantity=name), share
        yield with_(key, quantity="tokens"), file.tokens / length.texts

    for option in OPTIONS:
        writing = w.writing_of(SCHEMA, option)
        key = Key(piece.task, piece.names, PUBLIC, option=option)
        nothing = [None] * length.texts
        yield from counted(w.without_guarantee(stepper, writing, nothing, length, piece.seed), key)
        shown = [records[number % count] for number in range(length.texts)]
        file = w.without_guarantee(stepper, writing, shown, length, piece.seed)
        yield from counted(file, with_(key, method=REAL, records=count))
        for adjacency in bench.adjacencies:
            for epsilon in s.epsilons:
                for name, decoder in METHODS.items():
                    label = f"{piece.name} {option}"
                    file = w.written(stepper, writing, records, decoder, epsilon, adjacency, length, label)
                    price = {"records": count, "adjacency": adjacency.value, "epsilon": epsilon}
                    yield from counted(file, with_(key, method=name, **price))


# What a run shows


def section(result: Result) -> ReportSection:
    """A table for each adjacency, free and under the grammar; what is valid along epsilon; who beats the controls."""
    s = result.settings
    options = [option for option in OPTIONS if _cell(result, PUBLIC, option)]
    tables = [_table(result, option, adjacency) for option in options for adjacency in s.adjacencies]
    figures = [_figure(result, option, adjacency) for option in options for adjacency in s.adjacencies]
    lines = [line for option in options for line in _reading(result, option)]
    if len(options) > 1:
        lines.append(_of_grammar(result))
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _cell(
    result: Result, method: str, option: str, quantity: str = "schema", adjacency: str = "", epsilon: float = 0.0
) -> Cell | None:
    s = result.settings
    key: dict[str, Any] = {"task": s.tasks[0], "names": s.names[0], "method": method, "option": option}
    key |= {} if method == PUBLIC else {"records": s.records[0]}
    key |= {"adjacency": adjacency, "epsilon": epsilon} if method in METHODS else {}
    return result.cell(**key, quantity=quantity)


def _interval(result: Result, cell: Cell) -> Proportion:
    """Over all texts of all seeds."""
    texts = len(cell.values) * result.settings.queries
    return proportion(round(cell.mean / 100 * texts), texts)


def _shown(result: Result, cell: Cell | None) -> str:
    if cell is None:
        return "-"
    if cell.key.quantity == "tokens":
        return str(cell)
    interval = _interval(result, cell)
    return f"{cell} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def _table(result: Result, option: str, adjacency: str) -> Table:
    s = result.settings
    arms = [(PUBLIC, 0.0), (REAL, 0.0), *((name, epsilon) for epsilon in s.epsilons for name in METHODS)]
    rows = []
    for method, epsilon in arms:
        cells = [_cell(result, method, option, quantity, adjacency, epsilon) for quantity in (*SHARES, "tokens")]
        label = f"{method} (no guarantee)" if method == REAL else method
        rows.append((label, f"{epsilon:g}" if epsilon else "-", *(_shown(result, cell) for cell in cells)))
    batches = s.queries
    note = (
        f"Percent of {s.seeds * s.queries} texts a row, mean and standard error over {s.seeds} seeds, and in brackets "
        f"Clopper-Pearson 95 % over texts, as if texts of one seed were independent. A file is {s.queries} texts of at "
        f"most {TOKENS} tokens, each by a batch of {s.records[0] // batches} of the {s.records[0]} records; delta "
        f"{DELTA:g}. Genres count where there is at least one and all are known."
    )
    columns = ("method", "epsilon", *SHARES.values(), "tokens a text")
    return Table(f"Records of films, {_manner(option)}, {adjacency}", columns, rows, note)


def _manner(option: str) -> str:
    return {w.FREE: "written freely", w.GRAMMAR: "with grammar"}[option]


def _figure(result: Result, option: str, adjacency: str) -> Figure:
    s = result.settings
    lines = []
    for method in (PUBLIC, REAL, *METHODS):
        measured = [(e, cell) for e in s.epsilons if (cell := _cell(result, method, option, "schema", adjacency, e))]
        intervals = [_interval(result, cell) for _, cell in measured]
        y, low, high = ([100 * getattr(interval, end) for interval in intervals] for end in ("value", "low", "high"))
        lines.append(Series(method, [at for at, _ in measured], y, low, high, reference=method in (PUBLIC, REAL)))
    return Figure(
        f"valid-{option}-{adjacency}",
        f"Records valid under the schema, {_manner(option)}, {adjacency}",
        "epsilon of the file",
        "valid records, percent of texts",
        lines,
        log_x=True,
        note="Clopper-Pearson 95 % over texts. Grey: no guarantee, or nothing read.",
    )


def _reading(result: Result, option: str) -> list[str]:
    """Means, and which methods' intervals lie wholly beside that of the public prompt alone."""
    s, lines = result.settings, []
    public, real = (_cell(result, name, option) for name in (PUBLIC, REAL))
    if not (public and real):
        return []
    lines.append(
        f"{_manner(option)}: {public.mean:.0f} % of texts are valid after the public prompt alone, {real.mean:.0f} % "
        "after one real record (no guarantee)."
    )
    level = _interval(result, public)
    for adjacency in s.adjacencies:
        better, worse = [], []
        for epsilon in s.epsilons:
            cells = {name: _cell(result, name, option, "schema", adjacency, epsilon) for name in METHODS}
            percentages = ", ".join(f"{name} {cell.mean:.0f}" for name, cell in cells.items() if cell)
            lines.append(f"{_manner(option)}, {adjacency}, epsilon {epsilon:g}, percent valid: {percentages}.")
            for name, cell in cells.items():
                if cell and _interval(result, cell).low > level.high:
                    better.append(f"{name} at {epsilon:g}")
                if cell and _interval(result, cell).high < level.low:
                    worse.append(f"{name} at {epsilon:g}")
        lines.append(
            f"{_manner(option)}, {adjacency}: above the public prompt alone, intervals apart: "
            f"{', '.join(better) or 'none, so nothing shows that the records helped'}; "
            f"below it: {', '.join(worse) or 'none'}."
        )
    return lines


def _of_grammar(result: Result) -> str:
    """What the grammar adds, over all methods and prices."""
    s = result.settings
    means = []
    for option in (w.FREE, w.GRAMMAR):
        cells = [
            _cell(result, name, option, "schema", adjacency, epsilon)
            for name in METHODS for adjacency in s.adjacencies for epsilon in s.epsilons
        ]  # fmt: skip
        percentages = [cell.mean for cell in cells if cell]
        means.append(sum(percentages) / len(percentages))
    return (
        f"Over all methods, prices and adjacencies {means[0]:.0f} % of texts are valid when written freely and "
        f"{means[1]:.0f} % with the grammar, at the same charge; the rest of the latter did not end within {TOKENS} "
        "tokens."
    )


EXPERIMENT = Experiment(
    name="prism-structured",
    title="How many synthetic records are valid?",
    source="Privacy-Aware ICL (PRISM), Table IV",
    settings=Settings(
        seeds=2, queries=8, tasks=(FOLDER,), names=(OWN,), records=(48,), epsilons=(1.0, 4.0, 8.0),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
"""``queries`` is the number of texts in a file: six records a text, which keeps the built-in model to minutes."""
