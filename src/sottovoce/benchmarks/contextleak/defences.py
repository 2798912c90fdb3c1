"""Defences without a proof against injection, beside methods with one: what each gives away, and what it is worth.

    sotto bench run contextleak-defences --data FOLDER --results FOLDER

L0 shows the model every record. L1 and L2 ask it not to tell. L3 has it judge each question first. The attacks are the
injection question, and the plain question that is the canary's own text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sottovoce.audits.bounds import ALPHA
from sottovoce.audits.game.defences import DEFENCES
from sottovoce.audits.game.games import Game
from sottovoce.audits.game.play import Claim, Runs
from sottovoce.audits.game.questions import KINDS
from sottovoce.audits.kinds.canary import utility_of
from sottovoce.benchmarks.contextleak.games import (
    attack,
    canaries_of,
    class_means_right,
    game_of,
    price_at,
    references,
    rows_of,
)
from sottovoce.benchmarks.contextleak.grid import REPLACE, said_of, smaller, systems
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import Episode
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.methods.base import Selecting
from sottovoce.methods.class_means import ClassMeans

LEVELS: Final = ("L0", "L1", "L2", "L3")
OURS: Final[Mapping[str, str]] = {e.VOTES: "rnm", e.POE: "poe", e.PRIOR_POE: "prior-poe"}
ATTACKS: Final = ("injection", "input-output")
CLASS_MEANS: Final = ClassMeans.name
ACCURACY, BOUND, EXACT, RIGHT = "accuracy", "bound", "exact", "right"
_NOISY, _REPEATING = Runs(20, 60, 1000), Runs(2, 4, 150)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every defence and method on one draw of records and questions."""
    settings = bench.settings
    episode = bench.world(piece.task).episode(piece.seed, settings.queries, piece.names)
    played, told = settings.records
    base = Key(piece.task, piece.names, "", records=told)
    for level in LEVELS:
        game = DEFENCES[level].build(bench.scorer, episode.task)
        claim = Claim.of(1.0, 0.0, bench.adjacencies[0])
        yield from _attacked(
            bench, piece, episode, game, claim, _REPEATING, replace(base, method=level, records=played)
        )
        rows = rows_of(episode.task, episode.records[:told])
        asked = [(query, int(label)) for query, label in zip(episode.questions, episode.truth, strict=True)]
        yield replace(base, method=level), 100 * utility_of(game, rows, asked).value
    for name, right in references(bench, episode, told):
        yield replace(base, method=name), right
    said, public = e.ask(bench.scorer, episode, [[i] for i in range(told)]), e.ask_public(bench.scorer, episode)
    for name, method, epsilon, adjacency in systems(bench, OURS):
        assert isinstance(method, Selecting)
        assert epsilon is not None
        price = price_at(method, epsilon, adjacency)
        claim = Claim.of(price.epsilon, price.delta, adjacency, method.noise_event(price, adjacency))
        own = game_of(method, bench.scorer, episode.task, price, adjacency, piece.seed)
        key = replace(base, method=name, adjacency=adjacency.value, epsilon=epsilon)
        yield from _attacked(bench, piece, episode, own, claim, _NOISY, replace(key, records=played))
        outputs = e.Answers(said, public, e.change_of(1, adjacency), adjacency).outputs()
        yield key, e.right(e.laws(method, outputs, price), episode.truth)
    for adjacency in bench.adjacencies:
        for epsilon in settings.epsilons:
            fitted = class_means_right(bench, episode, told, epsilon, adjacency, piece.seed)
            if fitted is not None:
                yield replace(base, method=CLASS_MEANS, adjacency=adjacency.value, epsilon=epsilon), fitted


def _attacked(
    bench: Bench, piece: Piece, episode: Episode, game: Game, claim: Claim, runs: Runs, key: Key
) -> Measurements:
    rows = rows_of(episode.task, episode.records[: bench.settings.records[0]])
    canaries, other = canaries_of(rows, episode.task, piece.seed)
    for name in ATTACKS:
        found = [
            attack(
                game, rows, episode.task, canary, [KINDS[name]], other, claim, runs, piece.seed,
                ALPHA / len(canaries) / len(ATTACKS),
            )
            for canary in canaries
        ]  # fmt: skip
        best = max(found, key=lambda one: (one.certified.bound, one.certified.accuracy))
        yield replace(key, option=name, quantity=ACCURACY), 100 * best.certified.accuracy
        yield replace(key, option=name, quantity=BOUND), best.certified.bound
        exact = [one.exact for one in found if one.exact is not None]
        if exact:
            yield replace(key, option=name, quantity=EXACT), max(exact)


def section(result: Result) -> ReportSection:
    """One table of leakage beside utility, and a plot of both."""
    rows = [*_systems(result)]
    lines = []
    for name, epsilon in rows:
        cells = []
        for attack_name in ATTACKS:
            cells += [_text(result, name, epsilon, quantity, attack_name) for quantity in (ACCURACY, BOUND, EXACT)]
        cells.append(_text(result, name, epsilon, RIGHT, ""))
        lines.append((name, "none" if epsilon is None else f"{epsilon:g}", *cells))
    columns = ("defence", "epsilon", *(f"{a}: {q}" for a in ATTACKS for q in (ACCURACY, BOUND, EXACT)), "right answers")
    played, told = result.settings.records
    note = (
        f"Accuracy: percent of right guesses whether the canary was among {played} records, mean over draws of records "
        "and tasks, the best canary of each kind. Bound: the largest 95 % lower bound over draws; for a defence "
        "without a claim it is what its releases refute. Exact: from the laws. Right answers: percent of questions "
        f"with {told} records. A method that pays for every answer pays epsilon for each; class means pay it once for "
        "any number of answers. Zero-shot reads no record; full context has no privacy."
    )
    table = Table("Leakage and utility", columns, lines, note)
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result), [table], [_figure(result, rows)],
        about(result),
    )  # fmt: skip


def _systems(result: Result) -> Iterator[tuple[str, float | None]]:
    yield from dict.fromkeys((cell.key.method, cell.key.epsilon) for cell in result.cells)


def _values(result: Result, name: str, epsilon: float | None, quantity: str, option: str) -> list[float]:
    wanted = (name, epsilon, quantity, option)
    return [
        value
        for cell in result.cells
        if (cell.key.method, cell.key.epsilon, cell.key.quantity, cell.key.option) == wanted
        for value in cell.values
    ]


def _text(result: Result, name: str, epsilon: float | None, quantity: str, option: str) -> str:
    values = _values(result, name, epsilon, quantity, option)
    if not values:
        return ""
    if quantity in (BOUND, EXACT):
        return f"{max(values):.2f}"
    return f"{sum(values) / len(values):.1f}"


def _mean(result: Result, name: str, epsilon: float | None, quantity: str, option: str) -> float:
    values: Sequence[float] = _values(result, name, epsilon, quantity, option)
    return sum(values) / len(values)


def _reading(result: Result) -> list[str]:
    ours = [(name, epsilon) for name, epsilon in _systems(result) if name in OURS]
    plain = {name: max(_mean(result, name, None, ACCURACY, a) for a in ATTACKS) for name in LEVELS}
    private = max(
        _mean(result, name, epsilon, ACCURACY, a)
        for name, epsilon in ours
        if epsilon == min(result.settings.epsilons)
        for a in ATTACKS
    )
    return [
        "The better of the two attacks guesses right in "
        + ", ".join(f"{value:.0f} % ({name})" for name, value in plain.items())
        + f"; against private methods at epsilon {min(result.settings.epsilons):g} in {private:.0f} % at most.",
        "Utility, in percent right: "
        + ", ".join(f"{name} {_mean(result, name, None, RIGHT, ''):.1f}" for name in (*LEVELS, e.ZERO_SHOT, e.FULL))
        + ".",
        *said_of(result.settings.model),
    ]


def _figure(result: Result, rows: Sequence[tuple[str, float | None]]) -> Figure:
    series = []
    for name, epsilon in rows:
        if not _values(result, name, epsilon, ACCURACY, ATTACKS[0]):
            continue
        x = max(_mean(result, name, epsilon, ACCURACY, a) for a in ATTACKS)
        label = name if epsilon is None else f"{name}, epsilon {epsilon:g}"
        series.append(Series(label, [x], [_mean(result, name, epsilon, RIGHT, "")], reference=epsilon is None))
    return Figure(
        "trade", "Utility against detection", "right guesses of the better attack (%)", "right answers (%)", series,
        kind="points", note="Up and to the left is better. 50 is chance.",
    )  # fmt: skip


SETTINGS: Final = Settings(
    seeds=3, queries=100, names=("own",), records=(4, 25), epsilons=(1.0, 4.0, 8.0), adjacencies=REPLACE
)
EXPERIMENT: Final = Experiment(
    name="contextleak-defences",
    title="What are defences without a proof worth?",
    source="ContextLeak, defences L0 to L3 against injection",
    settings=SETTINGS,
    measure=measure,
    section=section,
    quick=smaller(SETTINGS),
)
