"""Every private method under every adjacency that it claims: measured lower bound, exact leakage of the pair, proof.

    sotto bench run contextleak-methods --data FOLDER --results FOLDER

``canary``: the game of ContextLeak on four public records, for methods that answer with labels: a canary of every kind,
the question chosen on releases of its own. ``worst pair``: two neighbouring worlds that are made to differ, for every
method with an exact law (``pairs``, ``token_pairs``), and for those without one (``drawn_pairs``). The proof is the
epsilon that one release is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from sottovoce.audits.bounds import ALPHA, Rates, epsilon_of_rates
from sottovoce.audits.exact.coverage import coverage
from sottovoce.audits.game.games import Repetition
from sottovoce.audits.game.play import Claim, Runs
from sottovoce.audits.game.questions import KINDS
from sottovoce.benchmarks.contextleak.drawn_pairs import clustered_pairs, dp_logistic_pairs, evolve_pairs
from sottovoce.benchmarks.contextleak.games import attack, canaries_of, game_of, price_at, rows_of
from sottovoce.benchmarks.contextleak.pairs import OTHERS, RUNS, label_pairs
from sottovoce.benchmarks.contextleak.token_pairs import token_pairs
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.errors import AssignmentError
from sottovoce.methods.base import Method, Reads, Selecting, make_method, registered_methods
from sottovoce.methods.decoding.decoder import registered_decoders
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

VARIANTS: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "rnm": ({}, {"noise": "permute_and_flip"}, {"noise": "gaussian"})
}
"""Options under which a method draws by another law."""
CALIBRATED: Final[Mapping[str, str]] = {"poe, calibrated": "poe"}
"""Methods that are played with calibrated experts too: their law is that of the method."""
CANARY, PAIR = "canary", "worst pair"
FEWER: Final = "worst pair, fewer releases"
_NO_PAIR: Final = "it has an exact law, and no pair of its own here yet"
BOUND, EXACT, PROOF = "bound", "exact", "proof"
FEWER_RUNS: Final = 600
"""Releases of each world of a pair of tokens, or without a law."""
SIZES: Final = {Repetition.NOISE: Runs(40, 100, 1500), Repetition.SAMPLES: Runs(10, 20, 100)}
"""Releases of each world in a game."""


class Shown(Protocol):
    """A pair of worlds, and what releases of it show."""

    @property
    def exact(self) -> float | None:
        """Epsilon of the pair at the claim's delta; ``None`` without a law."""

    def bound(self, runs: int) -> float:
        """The lower bound that so many releases of each world show."""


PairOf = Callable[[float, Adjacency, SeededRandomness], Shown]
DRAWN: Final[Mapping[str, PairOf]] = {
    "dp-logistic": dp_logistic_pairs,
    "evolve": evolve_pairs,
    "sga": clustered_pairs("sga"),
    "augment": clustered_pairs("augment"),
}
"""Methods without a law."""


def worst_pairs() -> dict[str, PairOf]:
    """Every method that releases no single label: fits, tokens of a text, long answers."""
    return {
        **{name: pair_of for name, (_, pair_of) in OTHERS.items()},
        **{name: token_pairs(name) for name in registered_decoders()},
        **DRAWN,
    }


def measure(bench: Bench, piece: Piece) -> Measurements:
    """All methods, adjacencies and prices on one draw of records."""
    for name, method in private_methods():
        for adjacency in Adjacency:
            for epsilon in bench.settings.epsilons:
                try:
                    yield from _label(bench, piece, name, method, adjacency, epsilon)
                except AssignmentError:  # no guarantee is claimed under this adjacency
                    continue
    for name, pair_of in worst_pairs().items():
        for adjacency in Adjacency:
            for epsilon in bench.settings.epsilons:
                key = Key(piece.task, piece.names, name, adjacency=adjacency.value, epsilon=epsilon, option=PAIR)
                worst = pair_of(epsilon, adjacency, SeededRandomness(piece.seed))
                runs = RUNS if name in OTHERS else FEWER_RUNS
                yield from _numbers(key, worst.bound(runs), worst.exact, epsilon)


def private_methods() -> Iterator[tuple[str, Method]]:
    """Every registered method of labels that has a guarantee and reads records, once for each of its laws."""
    for name, kind in registered_methods().items():
        if kind.private and kind.reads is not Reads.NOTHING:
            for options in VARIANTS.get(name, ({},)):
                yield ", ".join([name, *(str(value) for value in options.values())]), make_method(name, **options)
    for name, method in CALIBRATED.items():
        yield name, make_method(method)


def _label(bench: Bench, piece: Piece, name: str, method: Method, adjacency: Adjacency, epsilon: float) -> Measurements:
    price = price_at(method, epsilon, adjacency)
    event = method.event(price, adjacency)
    charged = RdpAccountant(adjacency).compose(event).report(price.delta).epsilon
    episode = bench.world(piece.task).episode(piece.seed, 1, piece.names)
    rows = rows_of(episode.task, episode.records[: bench.settings.records[0]])
    canaries, other = canaries_of(rows, episode.task, piece.seed)
    claim = Claim.of(price.epsilon, price.delta, adjacency, method.noise_event(price, adjacency))
    game = game_of(method, bench.scorer, episode.task, price, adjacency, piece.seed, calibrate=name in CALIBRATED)
    questions = list(KINDS.values())
    if game.repetition is Repetition.SAMPLES:  # every release asks the model again
        canaries = canaries[:1]
    found = [
        attack(
            game, rows, episode.task, canary, questions, other, claim,
            SIZES[game.repetition], piece.seed, ALPHA / len(canaries),
        )
        for canary in canaries
    ]  # fmt: skip
    best = max(found, key=lambda one: (one.certified.bound, one.certified.accuracy))
    key = Key(
        piece.task, piece.names, name, records=len(rows), adjacency=adjacency.value, epsilon=epsilon, option=CANARY
    )
    yield from _numbers(key, best.certified.bound, best.exact, charged)
    if isinstance(method, Selecting) and name not in CALIBRATED:
        worst = label_pairs(method, epsilon, adjacency, SeededRandomness(piece.seed))
        key = Key(piece.task, piece.names, name, adjacency=adjacency.value, epsilon=epsilon, option=PAIR)
        yield from _numbers(key, worst.bound(RUNS), worst.exact, charged)


def _numbers(key: Key, bound: float, exact: float | None, proof: float) -> Measurements:
    yield replace(key, quantity=BOUND), bound
    if exact is not None:
        yield replace(key, quantity=EXACT), exact
    yield replace(key, quantity=PROOF), proof


def whole(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Which registered methods are not audited here, and why."""
    audited = {name.partition(",")[0] for name in (*dict(private_methods()), *worst_pairs())}
    left = [row for row in coverage() if row.name not in audited]
    return {
        "without": [{"name": row.name, "kind": row.kind, "reason": row.reason or _NO_PAIR} for row in left],
        "ceiling": {kind.name: epsilon_of_rates(Rates(0, n.certifying, 0, n.certifying)) for kind, n in SIZES.items()}
        | {what: epsilon_of_rates(Rates(0, runs, 0, runs)) for what, runs in ((PAIR, RUNS), (FEWER, FEWER_RUNS))},
    }


def section(result: Result) -> ReportSection:
    """One table for each kind of pair, and one plot of all of them."""
    rows = _rows(result)
    tables = [_table(result, rows, option) for option in (CANARY, PAIR)]
    without = Table(
        "Not audited here",
        ("method", "answers with", "why"),
        [(row["name"], row["kind"], row["reason"]) for row in result.extra["without"]],
        "What fits release is audited by many canaries in one run too: What fits release, audited.",
    )
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result, rows), [*tables, without],
        [_figure(result, rows)], about(result),
    )  # fmt: skip


Row = dict[str, Any]


def _rows(result: Result) -> list[Row]:
    """A line for each pair and price: the largest bound over tasks and seeds, the largest exact leakage, the proof."""
    rows: dict[tuple[str, str, str, float], Row] = {}
    for cell in result.cells:
        key = cell.key
        place = (key.option, key.method, str(key.adjacency), float(key.epsilon or 0))
        row = rows.setdefault(place, dict(zip(("option", "method", "adjacency", "epsilon"), place, strict=True)))
        most = max(cell.values)
        row[key.quantity] = max(row.get(key.quantity, most), most)
    return list(rows.values())


def above(rows: Sequence[Row]) -> list[Row]:
    """Lines whose bound or exact leakage lies above the proof, rounding aside."""
    slack = 1 + 1e-3  # numbers are kept to three decimals
    return [row for row in rows if max(row[BOUND], row.get(EXACT, 0.0)) > row[PROOF] * slack]


def _reading(result: Result, rows: Sequence[Row]) -> list[str]:
    beyond = above(rows)
    nearest = max(rows, key=lambda row: row[BOUND] / row[PROOF])
    exact = max((row for row in rows if EXACT in row), key=lambda row: row[EXACT] / row[PROOF])
    past = [row for row in rows if EXACT in row and row[BOUND] > row[EXACT] * (1 + 1e-3)]
    limits = result.extra["ceiling"]
    silent = [row for row in rows if EXACT not in row and row[BOUND] == 0 and row["option"] == CANARY]
    names = dict.fromkeys(row["method"] for row in silent)
    return [
        f"Of {len(rows)} audits, each of a method, adjacency, price and kind of pair, {len(beyond)} show more than the "
        "proof allows"
        + (f": {'; '.join(_named(row) for row in beyond)}." if beyond else ", in releases or in exact laws."),
        f"The measured bound that comes nearest to its proof: {_named(nearest)}, {rounded_down(nearest[BOUND], 3)}. "
        f"The exact leakage that does: {_named(exact)}, {rounded_up(exact[EXACT], 3)}.",
        f"Bounds above the exact leakage of their own pair: {len(past)} of "
        f"{sum(EXACT in row for row in rows)}; each bound may exceed it with a chance of 5 %.",
        f"Methods that sample records show nothing here: {', '.join(names) or 'none'}. A canary is seldom in a "
        "sample, their releases are few, since each of them asks the model again, and a label tells little of them: "
        "'sotto audit plan' states how little.",
        f"So many releases cannot show more than epsilon {rounded_down(limits[Repetition.NOISE.name], 2)} in a game, "
        f"{rounded_down(limits[Repetition.SAMPLES.name], 2)} where records are sampled, and "
        f"{rounded_down(limits[PAIR], 2)} on a worst pair, {rounded_down(limits[FEWER], 2)} on one of tokens or "
        "without a law: at epsilon 8 the exact leakage says more than any of them.",
    ]


def _named(row: Row) -> str:
    return f"{row['method']} under {row['adjacency']} at epsilon {row['epsilon']:g} ({row['option']})"


def _table(result: Result, rows: Sequence[Row], option: str) -> Table:
    epsilons = result.settings.epsilons
    columns = ("method", "adjacency", *(f"epsilon {x:g}: {what}" for x in epsilons for what in ("measured", "exact")))
    lines = []
    for method, adjacency in dict.fromkeys((r["method"], r["adjacency"]) for r in rows if r["option"] == option):
        own = {
            r["epsilon"]: r for r in rows if (r["option"], r["method"], r["adjacency"]) == (option, method, adjacency)
        }
        cells = [_cell(own.get(x, {}).get(what)) for x in epsilons for what in (BOUND, EXACT)]
        lines.append((method, adjacency, *cells))
    if option == CANARY:
        note = (
            f"Lower bounds at 95 %, over all canaries together; {result.settings.records[0]} public records, one an "
            "expert; the embedded model unless another is named. The exact leakage is that of the question and pair "
            "behind the bound. A method that samples records has no exact law, and far fewer releases."
        )
    else:
        note = (
            f"{RUNS:,} releases of each world by the method's own code, scored by an attacker who knows both laws. The "
            "pair is the one on which that attack shows most, not the one with the largest loss, which may be that of "
            "an answer that hardly ever comes. Of Gaussian noise an (epsilon, delta) bound from rates shows little: "
            "its exact leakage says more. Of methods that write token by token it is the first token, and "
            f"{FEWER_RUNS} releases. Without a law ({', '.join(DRAWN)}) there is no exact figure: as many "
            "releases, and the attacker learns on a quarter as many before."
        )
    return Table(f"Leakage of one release, {option}", columns, lines, note)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _figure(result: Result, rows: Sequence[Row]) -> Figure:
    """Bars of measured bounds by method, lines up to the exact leakage: the worst of adjacencies and pairs."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    series = [Series("proof", methods, [100.0] * len(methods), reference=True)]
    for x in result.settings.epsilons:
        shares = []
        for method in methods:
            own = [row for row in rows if (row["method"], row["epsilon"]) == (method, x)]
            bound = max((100 * row[BOUND] / row[PROOF] for row in own), default=math.nan)
            exact = max((100 * row.get(EXACT, 0.0) / row[PROOF] for row in own), default=math.nan)
            shares.append((bound, max(bound, exact)))
        bounds = [bound for bound, _ in shares]
        series.append(Series(f"epsilon {x:g}", methods, bounds, bounds, [top for _, top in shares]))
    return Figure(
        "proof",
        "Measured lower bound and exact leakage of one release, in percent of the proof",
        "method",
        "percent of the epsilon that is proved",
        series,
        kind="bars",
        note="Bars: the largest 95 % lower bound over adjacencies and pairs. Line above a bar: up to the largest exact "
        "leakage of a pair, where there is a law. Grey: what is proved. Nothing stands above it.",
    )


EXPERIMENT: Final = Experiment(
    name="contextleak-methods",
    title="How much does one release give away, measured, exactly, and at most?",
    source="ContextLeak, figures of leakage against epsilon; our own, for exact laws",
    settings=Settings(seeds=1, queries=1, names=("own",), records=(4,), epsilons=(1.0, 2.0, 4.0, 8.0), adjacencies=()),
    measure=measure,
    section=section,
    whole=whole,
    quick=Settings(
        seeds=1, queries=1, tasks=("tickets",), names=("own",), records=(4,), epsilons=(4.0,), adjacencies=()
    ),
)
