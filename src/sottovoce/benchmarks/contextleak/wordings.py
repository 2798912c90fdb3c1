"""A search over wordings of an attack, with splits of its own: what it finds is reported on the test split alone.

    sotto bench run contextleak-wordings --data FOLDER --results FOLDER

With ``--writer`` and the extra ``gepa`` that model rewrites the wordings (``audits.game.rewriting``); else they are put
together of fixed parts.

A case is four records that no other case has, and a canary. The worth of a wording is the accuracy of the best guess
about the canary, from the exact laws of the answer, so that no release is spent on the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, final

from sottovoce.audits.bounds import ALPHA
from sottovoce.audits.game.canaries import Canary, Insertion
from sottovoce.audits.game.games import LabelGame
from sottovoce.audits.game.play import Claim, Runs
from sottovoce.audits.game.questions import KINDS, Question
from sottovoce.audits.game.rewriting import is_installed, rewritten
from sottovoce.audits.game.wordings import PARTS, Tried, Wordings
from sottovoce.benchmarks.contextleak.games import attack, canaries_of, game_of, law_pair, price_at, rows_of
from sottovoce.benchmarks.contextleak.grid import REPLACE, said_of, smaller
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import MOST_RECORDS
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.public_data.writers import KeptWriter, writer_of
from sottovoce.models.base import Writer
from sottovoce.records.sealed import Row
from sottovoce.tasks import Task

METHODS: Final = (e.VOTES, e.POE)
SEARCHED: Final = "searched"
TRAINING, VALIDATION, TEST, BOUND, TRIED = "training accuracy", "validation accuracy", "test accuracy", "bound", "tried"
CASES: Final = 24
REWRITTEN: Final = 120
"""Cases that a rewriting search tries wordings on, about."""
_RUNS: Final = Runs(20, 40, 400)


@final
@dataclass(frozen=True, eq=False)
class Case:
    """One data set and a canary.

    Attributes:
        rows: Public rows.
        canary: What comes in.
        other: The label that an answer has where it is not there.
        seed: Says which record is changed.
    """

    rows: Sequence[Row]
    canary: Canary
    other: str
    seed: int


def cases_of(bench: Bench, piece: Piece) -> tuple[Task, list[Case]]:
    """Cases without a common record; kinds of canaries take turns."""
    size = bench.settings.records[0]
    episode = bench.world(piece.task).episode(piece.seed, 1, piece.names)
    cases = []
    for number in range(min(CASES, min(len(episode.records), MOST_RECORDS) // size)):
        rows = rows_of(episode.task, episode.records[number * size : (number + 1) * size])
        seed = 1000 * piece.seed + number
        canaries, other = canaries_of(rows, episode.task, seed)
        cases.append(Case(rows, canaries[number % len(canaries)], other, seed))
    return episode.task, cases


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Searches at every price; then the found wording and the fixed ones on the test cases."""
    task, cases = cases_of(bench, piece)
    splits = Wordings.split(cases)
    for name in METHODS:
        for adjacency in bench.adjacencies:
            for epsilon in bench.settings.epsilons:
                method = e.SELECTING[name]
                price = price_at(method, epsilon, adjacency)
                game = game_of(method, bench.scorer, task, price, adjacency, piece.seed)
                claim = Claim.of(price.epsilon, price.delta, adjacency, game.noise_event)
                worth = _Worth(game, task)
                tried = search(bench, splits, worth)
                key = Key(piece.task, piece.names, name, adjacency=adjacency.value, epsilon=epsilon, option=SEARCHED)
                yield replace(key, quantity=TRIED), len(tried)
                yield replace(key, quantity=TRAINING), 100 * tried[0].training
                yield replace(key, quantity=VALIDATION), 100 * (tried[0].validation or 0.0)
                for option, question in {SEARCHED: tried[0].question, **KINDS}.items():
                    own = replace(key, option=option)
                    accuracy = sum(worth(question, case) for case in splits.test) / len(splits.test)
                    yield replace(own, quantity=TEST), 100 * accuracy
                    bounds = [
                        attack(
                            game, case.rows, task, case.canary, [question], case.other, claim, _RUNS, case.seed,
                            ALPHA / len(splits.test),
                        ).certified.bound
                        for case in splits.test
                    ]  # fmt: skip
                    yield replace(own, quantity=BOUND), max(bounds)


def search(bench: Bench, splits: Wordings[Case], worth: Callable[[Question, Case], float]) -> list[Tried]:
    """Rewrites by the writer, where there is one and its search is installed; else the fixed parts."""
    if not rewrites(bench.settings):
        return splits.search(worth)
    return rewritten(splits, worth, _kept(bench.settings.writer), calls=REWRITTEN)


@lru_cache(maxsize=1)
def _kept(spec: str) -> Writer:
    """A writer that is asked each request once: the search is done again for what it found."""
    return KeptWriter(writer_of(spec))


def rewrites(settings: Settings) -> bool:
    """Whether a model rewrites."""
    return bool(settings.writer) and is_installed()


@final
class _Worth:
    """The accuracy of the best guess about one case, from exact laws; each is worked out once."""

    def __init__(self, game: LabelGame, task: Task) -> None:
        self._game, self._task = game, task
        self._known: dict[tuple[str, int], float] = {}

    def __call__(self, question: Question, case: Case) -> float:
        asked = question.about(case.canary, case.other)
        place = (asked, case.seed)
        if place not in self._known:
            insertion = Insertion.of(self._game.adjacency)[-1]
            pair = law_pair(self._game, case.rows, self._task, case.canary, insertion, asked, case.seed)
            assert pair is not None
            self._known[place] = pair.accuracy
        return self._known[place]


def whole(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The wordings that were found, by task, method, price and seed."""
    found = []
    for piece in pieces:
        task, cases = cases_of(bench, piece)
        splits = Wordings.split(cases)
        for name in METHODS:
            for adjacency in bench.adjacencies:
                for epsilon in bench.settings.epsilons:
                    price = price_at(e.SELECTING[name], epsilon, adjacency)
                    game = game_of(e.SELECTING[name], bench.scorer, task, price, adjacency, piece.seed)
                    chosen = search(bench, splits, _Worth(game, task))[0].question.wording
                    found.append(
                        {"task": piece.task, "seed": piece.seed, "method": name, "epsilon": epsilon, "wording": chosen}
                    )
    return {"wordings": found, "parts": [len(part) for part in PARTS], "rewritten": rewrites(bench.settings)}


def section(result: Result) -> ReportSection:
    """The test split, and the wordings."""
    options = list(dict.fromkeys(cell.key.option for cell in result.cells))
    rows = []
    for name, epsilon in dict.fromkeys((cell.key.method, cell.key.epsilon) for cell in result.cells):
        for option in options:
            cells = {
                c.key.quantity: c
                for c in result.cells
                if (c.key.method, c.key.epsilon, c.key.option) == (name, epsilon, option)
            }
            texts = [str(cells[q]) if q in cells else "" for q in (TRAINING, VALIDATION, TEST)]
            rows.append((name, f"{epsilon:g}", option, *texts, f"{max(cells[BOUND].values):.2f}"))
    note = (
        "Percent of right guesses by the best attacker, from exact laws; 50 is chance. Cases of the three splits share "
        "no record. What was searched is fitted to training and validation cases: only the test column compares it "
        "with the fixed questions. Bound: the largest 95 % lower bound of the test cases, all of a row together."
    )
    columns = ("method", "epsilon", "question", TRAINING, VALIDATION, TEST, BOUND)
    tables = [Table("Wordings", columns, rows, note)]
    found = [
        (f["task"], str(f["seed"]), f["method"], f"{f['epsilon']:g}", f["wording"]) for f in result.extra["wordings"]
    ]
    tables.append(Table("What was found", ("task", "draw", "method", "epsilon", "wording"), found))
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result), tables, [], about(result)
    )


def _reading(result: Result) -> list[str]:
    test = [cell for cell in result.cells if cell.key.quantity == TEST]
    gains = []
    for cell in test:
        if cell.key.option == SEARCHED:
            fixed = [o for o in test if replace(o.key, option=SEARCHED) == cell.key and o.key.option != SEARCHED]
            best = max(fixed, key=lambda one: one.mean)
            gains.append((cell.mean - best.mean, cell, best))
    better = sum(gain > 0 for gain, *_ in gains)
    most, cell, best = max(gains, key=lambda one: one[0])
    tried = [cell for cell in result.cells if cell.key.quantity == TRIED]
    beyond = [c for c in result.cells if c.key.quantity == BOUND and max(c.values) > (c.key.epsilon or 0)]
    how = ", GEPA with a model that rewrites," if result.extra.get("rewritten") else ""
    return [
        f"The search{how} tries {min(min(c.values) for c in tried):.0f} to {max(max(c.values) for c in tried):.0f} "
        f"wordings. On the test split it is better than the best fixed question in {better} of {len(gains)} settings; "
        f"at most by {most:.1f} points ({cell.key.method}, epsilon {cell.key.epsilon:g}: {cell.mean:.1f} against "
        f"{best.mean:.1f} of {best.key.option}).",
        f"Bounds above epsilon: {len(beyond)}. No wording gets round a proof: it holds for every question.",
        *said_of(result.settings.model),
    ]


SETTINGS: Final = Settings(
    seeds=2, queries=1, names=("own",), records=(4,), epsilons=(1.0, 4.0, 8.0), adjacencies=REPLACE
)
EXPERIMENT: Final = Experiment(
    name="contextleak-wordings",
    title="Does a search over wordings find a better attack?",
    source="ContextLeak, query optimisation; without a model that rewrites",
    settings=SETTINGS,
    measure=measure,
    section=section,
    whole=whole,
    quick=smaller(SETTINGS),
)
