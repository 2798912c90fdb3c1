"""Canaries by questions: what each pair of them finds, with no privacy, with votes and with a product of experts.

    sotto bench run contextleak-grid --data FOLDER --results FOLDER

Every cell is a game of its own: one canary and question, a detector chosen on releases of its own, a bound from others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from sottovoce.audits.bounds import ALPHA
from sottovoce.audits.game.canaries import KINDS as CANARIES
from sottovoce.audits.game.play import Claim, Runs
from sottovoce.audits.game.questions import KINDS as QUESTIONS
from sottovoce.benchmarks.contextleak.games import attack, canaries_of, game_of, price_at, rows_of
from sottovoce.benchmarks.harness import evaluation as e
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
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.methods.base import Method, make_method
from sottovoce.privacy.unit import Adjacency

ACCURACY, BOUND, EXACT, BEST = "accuracy", "bound", "exact", "best accuracy"
METHODS: Final[Mapping[str, str]] = {e.FULL: "full-context", e.VOTES: "rnm", e.POE: "poe"}
"""Names in tables, and in the registry."""
SMALL_MODEL: Final = (
    "The embedded model compares texts and follows no instruction: to it an order in a question is a text like any "
    "other. It cannot show what instructions, prompt defences or copying do in a model that follows them. What it "
    "does show is that a canary moves an answer through likeness alone, and that the proofs hold."
)


def said_of(model: str) -> list[str]:
    """What a reader has to know of the model that was attacked."""
    return [SMALL_MODEL] if model == "embedded" else []


_NOISY, _REPEATING = Runs(20, 40, 600), Runs(2, 4, 150)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every canary and question on one draw of records."""
    task = bench.world(piece.task).episode(piece.seed, 1, piece.names).task
    episode = bench.world(piece.task).episode(piece.seed, 1, piece.names)
    rows = rows_of(task, episode.records[: bench.settings.records[0]])
    canaries, other = canaries_of(rows, task, piece.seed)
    cells = len(canaries) * len(QUESTIONS)
    for name, method, epsilon, adjacency in systems(bench, METHODS):
        price = price_at(method, epsilon or 1.0, adjacency)
        event = method.event(price, adjacency) if method.private else None
        claim = Claim.of(price.epsilon, price.delta, adjacency, event)
        game = game_of(method, bench.scorer, task, price, adjacency, piece.seed)
        runs = _NOISY if method.private else _REPEATING
        for canary in canaries:
            for question in QUESTIONS.values():
                found = attack(game, rows, task, canary, [question], other, claim, runs, piece.seed, ALPHA / cells)
                key = Key(
                    piece.task, piece.names, name, records=len(rows), adjacency=adjacency.value, epsilon=epsilon,
                    option=f"{canary.kind}, {question.name}",
                )  # fmt: skip
                yield replace(key, quantity=ACCURACY), 100 * found.certified.accuracy
                yield replace(key, quantity=BOUND), found.certified.bound
                if found.exact is not None and found.most_accurate is not None:
                    yield replace(key, quantity=EXACT), found.exact
                    yield replace(key, quantity=BEST), 100 * found.most_accurate


def systems(bench: Bench, methods: Mapping[str, str]) -> Iterator[tuple[str, Method, float | None, Adjacency]]:
    """Every method once without a price, or at each price under each adjacency."""
    for name, registered in methods.items():
        method = make_method(registered)
        if not method.private:
            yield name, method, None, bench.adjacencies[0]
            continue
        for adjacency in bench.adjacencies:
            for epsilon in bench.settings.epsilons:
                yield name, method, epsilon, adjacency


def section(result: Result) -> ReportSection:
    """A table of accuracies, one of bounds and exact losses, and a plot of the best accuracies."""
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result),
        [_accuracies(result), _bounds(result)], [_figure(result)], about(result),
    )  # fmt: skip


Place = tuple[str, str, float | None, str | None, str]


def _places(result: Result) -> list[Place]:
    """Task, method, price, adjacency, canary, in order."""
    return list(
        dict.fromkeys(
            (c.key.task, c.key.method, c.key.epsilon, c.key.adjacency, c.key.option.partition(", ")[0])
            for c in result.cells
        )
    )


def _cells(result: Result, place: Place, quantity: str) -> list[Cell | None]:
    task, method, epsilon, adjacency, canary = place
    by_key = {
        (c.key.task, c.key.method, c.key.epsilon, c.key.adjacency, c.key.option, c.key.quantity): c
        for c in result.cells
    }
    return [by_key.get((task, method, epsilon, adjacency, f"{canary}, {name}", quantity)) for name in QUESTIONS]


def _named(place: Place) -> tuple[str, str, str, str]:
    task, method, epsilon, _, canary = place
    price = "no privacy" if epsilon is None else f"{epsilon:g}"
    return task, method, price, canary


def _accuracies(result: Result) -> Table:
    rows = [
        (*_named(place), *(str(cell or "") for cell in _cells(result, place, ACCURACY))) for place in _places(result)
    ]
    note = (
        "Percent of right guesses whether the canary was among the records, 50 by chance, on releases that chose "
        "neither detector nor threshold; mean and standard error over draws of records. "
        f"{result.settings.records[0]} records, {' and '.join(result.settings.adjacencies)}. Without privacy an answer "
        "repeats itself, and a guess is always right or always chance."
    )
    return Table("Accuracy by canary and question", ("task", "method", "epsilon", "canary", *QUESTIONS), rows, note)


def _bounds(result: Result) -> Table:
    rows = []
    for place in _places(result):
        if place[2] is None:
            continue
        pairs = zip(_cells(result, place, BOUND), _cells(result, place, EXACT), strict=True)
        texts = [f"{max(b.values):.2f} ({max(x.values):.2f})" if b and x else "" for b, x in pairs]
        rows.append((*_named(place), *texts))
    note = (
        "The largest 95 % lower bound over draws of records, all cells of a method and price together; behind it, in "
        "brackets, the largest exact leakage of the cell's own pair."
    )
    return Table(
        "Bound (exact) by canary and question", ("task", "method", "epsilon", "canary", *QUESTIONS), rows, note
    )


def _reading(result: Result) -> list[str]:
    private = [c for c in result.cells if c.key.epsilon is not None]
    beyond = [c for c in private if c.key.quantity in (BOUND, EXACT) and max(c.values) > (c.key.epsilon or 0) * 1.001]
    bare = [c for c in result.cells if c.key.epsilon is None and c.key.quantity == ACCURACY]
    best = max(bare, key=lambda cell: cell.mean)
    found = sum(c.mean > 75 for c in bare)
    tightest = [c for c in private if c.key.epsilon == min(result.settings.epsilons) and c.key.quantity == ACCURACY]
    return [
        f"Without privacy the best cell guesses right in {best.mean:.0f} % ({best.key.option}), and {found} of "
        f"{len(bare)} cells in more than 75 %; at epsilon {min(result.settings.epsilons):g} no cell of a private "
        f"method exceeds {max(c.mean for c in tightest):.0f} %.",
        f"Cells of private methods whose bound or exact leakage exceeds their epsilon: {len(beyond)}.",
        *said_of(result.settings.model),
    ]


def _figure(result: Result) -> Figure:
    series = []
    places = _places(result)
    for name, epsilon in dict.fromkeys((place[1], place[2]) for place in places):
        values = []
        for index in range(len(QUESTIONS)):
            own = [_cells(result, place, ACCURACY)[index] for place in places if place[1:3] == (name, epsilon)]
            values.append(max(cell.mean for cell in own if cell))
        label = name if epsilon is None else f"{name}, epsilon {epsilon:g}"
        series.append(Series(label, list(QUESTIONS), values, reference=epsilon is None))
    return Figure(
        "questions", "How well the best canary is detected, by question", "question", "right guesses (%)", series,
        kind="bars", note=f"The best of {', '.join(CANARIES)}; 50 is chance.",
    )  # fmt: skip


def smaller(settings: Settings) -> Settings:
    """A grid for a first look: made-up tickets that ship with the package, one draw, one price."""
    return replace(
        settings, seeds=1, tasks=("tickets",), epsilons=settings.epsilons[1:2], queries=min(20, settings.queries)
    )


REPLACE: Final = (Adjacency.REPLACE_ONE.value,)
SETTINGS: Final = Settings(
    seeds=3, queries=1, names=("own",), records=(4,), epsilons=(1.0, 4.0, 8.0), adjacencies=REPLACE
)
EXPERIMENT: Final = Experiment(
    name="contextleak-grid",
    title="Which canary and which question find a record?",
    source="ContextLeak, canary by query grid",
    settings=SETTINGS,
    measure=measure,
    section=section,
    quick=smaller(SETTINGS),
)
