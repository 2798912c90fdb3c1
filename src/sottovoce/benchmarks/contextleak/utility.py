"""Leakage and utility of votes and a product of experts, by epsilon, by examples an expert, by number of experts.

    sotto bench run contextleak-utility --data FOLDER --results FOLDER

``records`` over ``group`` is the number of experts, ``group`` the number of examples that each of them sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from sottovoce.audits.game.play import Claim, Runs
from sottovoce.audits.game.questions import KINDS
from sottovoce.benchmarks.contextleak.defences import CLASS_MEANS
from sottovoce.benchmarks.contextleak.games import (
    GroupedGame,
    attack,
    canaries_of,
    class_means_right,
    price_at,
    references,
    rows_of,
)
from sottovoce.benchmarks.contextleak.grid import REPLACE, said_of, smaller
from sottovoce.benchmarks.frontier.measure import price_of_one
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.methods.base import Price
from sottovoce.randomness import SeededRandomness

METHODS: Final = (e.VOTES, e.POE)
BOUND, EXACT, RIGHT = "bound", "exact", "right"
SHARED: Final = "100 questions"
"""Right answers where so many share the epsilon, as a ledger of it allows at most."""
_QUESTIONS: Final = 100
_RUNS: Final = Runs(20, 60, 600)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every size on one draw of records and questions."""
    settings = bench.settings
    episode = bench.world(piece.task).episode(piece.seed, settings.queries, piece.names)
    public = e.ask_public(bench.scorer, episode)
    base = Key(piece.task, piece.names, "")
    for records in settings.records:
        for name, right in references(bench, episode, records):
            yield replace(base, method=name, records=records), right
        for adjacency in bench.adjacencies:
            for epsilon in settings.epsilons:
                fitted = class_means_right(bench, episode, records, epsilon, adjacency, piece.seed)
                key = replace(base, method=CLASS_MEANS, records=records, adjacency=adjacency.value, epsilon=epsilon)
                if fitted is not None:
                    yield key, fitted
    for records, group in sizes(settings):
        rows = rows_of(episode.task, episode.records[:records])
        canaries, other = canaries_of(rows, episode.task, piece.seed)
        for adjacency in bench.adjacencies:
            said = e.ask(bench.scorer, episode, e.grouped(records, group, adjacency, piece.seed))
            outputs = e.Answers(said, public, e.change_of(group, adjacency), adjacency).outputs()
            for name in METHODS:
                method = e.SELECTING[name]
                for epsilon in settings.epsilons:
                    price = price_at(method, epsilon, adjacency)
                    claim = Claim.of(price.epsilon, price.delta, adjacency, method.noise_event(price, adjacency))
                    game = GroupedGame(
                        method, bench.scorer, episode.task, price, adjacency, group, SeededRandomness(piece.seed)
                    )
                    found = attack(
                        game, rows, episode.task, canaries[-1], list(KINDS.values()), other, claim, _RUNS, piece.seed,
                        0.05,
                    )  # fmt: skip
                    key = replace(
                        base, method=name, records=records, group=group, adjacency=adjacency.value, epsilon=epsilon
                    )
                    yield replace(key, quantity=BOUND), found.certified.bound
                    if found.exact is not None:
                        yield replace(key, quantity=EXACT), found.exact
                    quick = e.QuickLaws(method, outputs)
                    yield key, e.right(quick.at(price), episode.truth)
                    each = price_of_one(method, adjacency, epsilon, _QUESTIONS)
                    if each is not None:
                        yield replace(key, option=SHARED), e.right(quick.at(Price(each)), episode.truth)


def sizes(settings: Settings) -> Iterator[tuple[int, int]]:
    """Records and examples an expert, with two experts or more."""
    for records in settings.records:
        for group in settings.groups:
            if records >= 2 * group:
                yield records, group


def section(result: Result) -> ReportSection:
    """A table for each price, and lines over the number of experts."""
    tables = [_table(result, epsilon) for epsilon in result.settings.epsilons]
    figures = [_figure(result, BOUND), _figure(result, EXACT), _figure(result, RIGHT)]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result), tables, figures, about(result)
    )


def _table(result: Result, epsilon: float) -> Table:
    rows = []
    for records, group in sizes(result.settings):
        for name in METHODS:
            cells = [_largest(result, name, records, group, epsilon, quantity) for quantity in (BOUND, EXACT)]
            rows.append(
                (
                    name, str(records // group), str(group), *(f"{value:.2f}" for value in cells),
                    _right(result, name, records, group, epsilon),
                    _right(result, name, records, group, epsilon, SHARED),
                    _right(result, CLASS_MEANS, records, 1, epsilon), _right(result, e.ZERO_SHOT, records),
                    _right(result, e.FULL, records),
                )
            )  # fmt: skip
    columns = (
        "method", "experts", "examples each", "bound", "exact", "one answer", SHARED, f"{CLASS_MEANS}, any number",
        e.ZERO_SHOT, "full context, no privacy",
    )  # fmt: skip
    note = (
        f"Total epsilon {epsilon:g}, {' and '.join(result.settings.adjacencies)}. The attacker knows which records "
        "share an expert; a session keeps that secret. Bound: largest 95 % lower bound of a game with one false "
        "fact over draws of records; exact: largest leakage of the pairs behind them. The other columns are percent "
        "right, mean and standard error over draws: one answer that costs the total; one of 100 "
        f"answers that share it, as a ledger allows at most; class means, which pay it once (delta {e.DELTA:g})."
    )
    return Table(f"Leakage and utility at epsilon {epsilon:g}", columns, rows, note)


def _values(result: Result, method: str, records: int, group: int, epsilon: float | None, **more: str) -> list[float]:
    wanted = (method, records, group, epsilon, more.get("quantity", RIGHT), more.get("option", ""))
    return [
        value
        for cell in result.cells
        for value in cell.values
        if (k := cell.key) and (k.method, k.records, k.group, k.epsilon, k.quantity, k.option) == wanted
    ]


def _largest(result: Result, method: str, records: int, group: int, epsilon: float, quantity: str) -> float:
    return max(_values(result, method, records, group, epsilon, quantity=quantity))


def _right(
    result: Result, method: str, records: int, group: int = 1, epsilon: float | None = None, option: str = ""
) -> str:
    wanted = (method, records, group, epsilon, RIGHT, option)
    found = [
        c
        for c in result.cells
        if (c.key.method, c.key.records, c.key.group, c.key.epsilon, c.key.quantity, c.key.option) == wanted
    ]
    return str(found[0]) if found else ""


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _reading(result: Result) -> list[str]:
    epsilons, all_sizes = result.settings.epsilons, list(sizes(result.settings))
    beyond = sum(
        _largest(result, name, *size, epsilon, quantity) > epsilon * 1.001
        for name in METHODS for size in all_sizes for epsilon in epsilons for quantity in (BOUND, EXACT)
    )  # fmt: skip
    few, many = min(all_sizes), max(all_sizes)
    lines = [f"Bounds and exact leakages above epsilon: {beyond} of {4 * len(all_sizes) * len(epsilons)}."]
    for name in METHODS:
        small, large = (
            " and ".join(f"{_largest(result, name, *size, epsilons[-1], quantity):.2f}" for quantity in (BOUND, EXACT))
            for size in (few, (many[0], few[1]))
        )
        right = [f"{_mean(_values(result, name, many[0], 1, x)):.1f}" for x in epsilons]
        lines.append(
            f"{name} at epsilon {epsilons[-1]:g}: bound and exact leakage are {small} with {few[0]} experts, {large} "
            f"with {many[0]}. Right answers with {many[0]} experts: {', '.join(right)} % at epsilon "
            f"{', '.join(f'{x:g}' for x in epsilons)}."
        )
    lines.append(
        "The exact leakage need not fall with the number of experts: it is a ratio of chances, and counts a label that "
        "hardly ever comes as much as any other. Releases show such a label too seldom for a bound."
    )
    return [*lines, *said_of(result.settings.model)]


def _figure(result: Result, quantity: str) -> Figure:
    """Over epsilon, a line for each method and number of experts of one example, and of more examples each."""
    epsilons = result.settings.epsilons
    most = max(result.settings.records)
    shown = [(records, 1) for records in result.settings.records]
    shown += [size for size in sizes(result.settings) if size[0] == most and size[1] > 1]
    series = []
    for name in METHODS:
        for records, group in shown:
            label = f"{name}, {records // group} x {group}"
            values = [_values(result, name, records, group, x, quantity=quantity) for x in epsilons]
            series.append(Series(label, epsilons, [_mean(v) if quantity == RIGHT else max(v) for v in values]))
    if quantity == RIGHT:
        for name in (e.ZERO_SHOT, e.FULL):
            series.append(Series(name, [epsilons[0]], [_mean(_values(result, name, most, 1, None))], reference=True))
        fitted = [_values(result, CLASS_MEANS, most, 1, x) for x in epsilons]
        if all(fitted):
            series.append(Series(f"{CLASS_MEANS}, {most} records", epsilons, [_mean(v) for v in fitted]))
    else:
        series.append(Series("proof", epsilons, epsilons, reference=True))
    title = {BOUND: "Measured lower bound", EXACT: "Exact leakage", RIGHT: "Right answers, one answer at the price"}
    axis = "right answers (%)" if quantity == RIGHT else "epsilon shown"
    return Figure(
        quantity, f"{title[quantity]}: experts x examples each", "claimed epsilon", axis, series, log_x=True,
        log_y=False,
    )  # fmt: skip


SETTINGS: Final = Settings(
    seeds=3, queries=100, names=("own",), records=(4, 16, 32, 128), groups=(1, 2, 4), epsilons=(1.0, 2.0, 4.0, 8.0),
    adjacencies=REPLACE,
)  # fmt: skip
EXPERIMENT: Final = Experiment(
    name="contextleak-utility",
    title="Leakage and utility: epsilon, examples an expert, number of experts",
    source="ContextLeak, leakage and utility against epsilon, exemplars and ensemble size",
    settings=SETTINGS,
    measure=measure,
    section=section,
    quick=replace(smaller(SETTINGS), records=(4, 8), groups=(1, 2)),
)
