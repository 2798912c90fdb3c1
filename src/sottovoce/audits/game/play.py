"""Playing: pairs of worlds, releases of both, a choice that cannot see what certifies it, counts and bounds.

For every canary and insertion, questions are tried with releases of their own. One part of these trains the detectors,
another chooses question, detector and threshold. Only then are the certifying releases drawn, of the chosen question.
So an attack is fixed before anything that certifies it exists (specification 10.8).

Guarantee   If a release is private as ``Claim`` says, ``Played.violated`` is true with probability ``alpha`` at most,
            over all attacks together (Holm), and the largest ``bound`` exceeds epsilon with that probability at most.
Assumes     Releases of a world are independent of each other.
Sources     ContextLeak (arXiv 2512.16059), algorithm 1; specification 10.1, 10.3, 10.8, 10.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, final

import numpy as np

from sottovoce.audits.bounds import ALPHA, Rates, epsilon_of_rates, p_value_of_rates
from sottovoce.audits.exact.pair import Pair
from sottovoce.audits.game.canaries import Canary, Insertion, Worlds, worlds_of
from sottovoce.audits.game.detectors import Detector
from sottovoce.audits.game.games import Game, LabelWorld, World
from sottovoce.audits.game.questions import Question
from sottovoce.audits.power import (
    Ceiling,
    attained,
    ceiling_of_rates,
    leaks_of,
    power_of_rates,
)
from sottovoce.audits.roc import Roc, roc_of
from sottovoce.audits.several import holm, level_of_each
from sottovoce.audits.split import Trials, joined
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError
from sottovoce.methods.base import Selecting
from sottovoce.parameters import Number, read_fields
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import RECORD_UNIT, Row
from sottovoce.tasks import Task

MOST: Final = 10_000_000
"""Most releases of a kind, and most runs."""
RELEASES: Final = Number(2, MOST, whole=True)
_MOST_TRIED: Final = 100
"""Thresholds of a detector."""


@final
@dataclass(frozen=True)
class Claim:
    """What a release is said to keep.

    Attributes:
        epsilon: Of one release.
        delta: Of one release.
        adjacency: The relation.
        curve: The trade-off curve that follows: the release's own where its event is known.
        event: What one release is charged, where that is known.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    curve: TradeOff = field(repr=False)
    event: DpEvent | None = field(default=None, repr=False)

    @property
    def own_curve(self) -> bool:
        """Whether the curve is the release's own, or that of epsilon and delta alone."""
        return self.event is not None

    @property
    def attained(self) -> TradeOff:
        """The curve of a release that costs what is claimed; see ``power.attained``."""
        return self.curve if self.event is None else attained(self.event, self.adjacency)

    def leaks(self) -> dict[str, TradeOff]:
        """Curves of releases that leak more than is claimed, by how much; see ``power.leaks_of``."""
        return leaks_of(self.event, self.adjacency, self.delta)

    @classmethod
    def of(cls, epsilon: float, delta: float, adjacency: Adjacency, event: DpEvent | None = None) -> Self:
        """From what is charged, where that is known."""
        pair = TradeOff.of_points([(epsilon, delta)])
        curve = pair if event is None else TradeOff.of_event(event, adjacency)
        return cls(epsilon, delta, adjacency, curve, event)


@final
@dataclass(frozen=True)
class Runs:
    """How many releases of each world.

    Attributes:
        training: For detectors, of every question.
        choosing: For question, detector and threshold, of every question.
        certifying: Of the chosen question of every canary.

    Raises:
        ParameterError: One is below 2, or above 10,000,000.
    """

    training: int = 250
    choosing: int = 500
    certifying: int = 5_000

    def __post_init__(self) -> None:
        read_fields(self, training=RELEASES, choosing=RELEASES, certifying=RELEASES)


@final
@dataclass(frozen=True)
class Cell:
    """One canary and question, as the choosing releases show it: an estimate, and no certificate.

    Attributes:
        canary: The canary's id.
        insertion: How it came in.
        question: Name of the question.
        detector: The best of the detectors.
        threshold: Above which, or at which, it says "present".
        accuracy: Share of right guesses, half of them about each world.
    """

    canary: str
    insertion: Insertion
    question: str
    detector: str
    threshold: float
    accuracy: float

    @property
    def estimate(self) -> float:
        """The papers' point estimate, ln(accuracy / (1 - accuracy)); infinite where every guess was right."""
        return log_odds(self.accuracy)


@final
@dataclass(frozen=True, eq=False)
class Certified:
    """One attack on releases that it had not seen.

    Attributes:
        cell: The attack as it was chosen.
        rates: What its releases counted.
        bound: Every smaller epsilon is refuted at the claim's delta; all attacks' bounds hold together.
        p_value: Of the claim's curve, by this attack alone.
        adjusted: The same, corrected for all attacks.
        curve: Its operating characteristic.
        exact: Largest loss of this pair of data sets and question, from closed forms, where there is one.
    """

    cell: Cell
    rates: Rates
    bound: float
    p_value: float
    adjusted: float
    curve: Roc = field(repr=False)
    exact: float | None = None

    @property
    def accuracy(self) -> float:
        """Share of right guesses, half of them about each world."""
        return accuracy_of(self.rates)

    @property
    def estimate(self) -> float:
        """The papers' point estimate."""
        return log_odds(self.accuracy)


@final
@dataclass(frozen=True, eq=False)
class Played:
    """What a game showed.

    Attributes:
        claim: What was tested.
        runs: How many releases.
        alpha: Chance of a false alarm over all attacks.
        cells: Every canary and question.
        certified: One attack a canary and insertion.
    """

    claim: Claim
    runs: Runs
    alpha: float
    cells: Sequence[Cell]
    certified: Sequence[Certified]

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return any(attack.adjusted <= self.alpha for attack in self.certified)

    @property
    def best(self) -> Certified:
        """The attack with the largest bound."""
        return max(self.certified, key=lambda attack: (attack.bound, attack.accuracy))

    @property
    def level(self) -> float:
        """Level of each attack's bound."""
        return level_of_each(self.alpha, len(self.certified))

    @property
    def ceiling(self) -> Ceiling:
        """The largest bounds that so many releases can show."""
        runs = self.runs.certifying
        return ceiling_of_rates(runs, runs, self.claim.attained, self.claim.delta, self.level)

    def powers(self) -> dict[str, float]:
        """The chance that one of the attacks refutes the claim, were it ideal, by how much the release leaks."""
        runs, claim = self.runs.certifying, self.claim
        return {
            leak: power_of_rates(runs, runs, claim.curve, truth, self.level).power
            for leak, truth in claim.leaks().items()
        }


def accuracy_of(rates: Rates) -> float:
    """The accuracy of guesses about two equally likely worlds.

    Example:
        >>> accuracy_of(Rates(10, 100, 30, 100))
        0.8
    """
    return 1 - (rates.false_positives / rates.absent + rates.false_negatives / rates.present) / 2


def log_odds(accuracy: float) -> float:
    """ln(a / (1 - a)): the papers' estimate of epsilon, without any confidence (specification 10.2)."""
    if accuracy >= 1:
        return math.inf
    return math.log(accuracy / (1 - accuracy)) if accuracy > 0 else -math.inf


def play(
    game: Game,
    rows: Sequence[Row],
    task: Task,
    canaries: Sequence[Canary],
    insertions: Sequence[Insertion],
    questions: Sequence[Question],
    detectors: Callable[[Canary], Sequence[Detector]],
    claim: Claim,
    randomness: Randomness,
    *,
    other: str,
    unit: str = RECORD_UNIT,
    runs: Runs | None = None,
    alpha: float = ALPHA,
    shown: Callable[[str], None] = lambda what: None,
) -> Played:
    """Plays every canary, insertion and question against a game.

    Args:
        game: What is audited.
        rows: Made-up records.
        task: Names the fields and labels.
        canaries: What is inserted.
        insertions: How; each must test the claim's adjacency.
        questions: What may be asked.
        detectors: New ones for a canary and a question.
        claim: What is tested.
        randomness: Says which record is changed.
        other: The label that an answer has where the canary is not there.
        unit: The privacy unit.
        runs: How many releases.
        alpha: Chance of a false alarm over all attacks.
        shown: Told what is done next.

    Raises:
        ParameterError: There is nothing to play, or an insertion tests another adjacency than the claim's.
    """
    runs = runs or Runs()
    if not (canaries and insertions and questions):
        raise ParameterError("attacks", 0, "one canary, insertion and question at least")
    require_adjacency(insertions, claim)
    attacks = len(canaries) * len(insertions)
    cells: list[Cell] = []
    counted: list[tuple[Cell, Trials, float | None]] = []
    clean: World | None = None
    try:
        for canary in canaries:
            for insertion in insertions:
                worlds = worlds_of(rows, canary, insertion, task, randomness, unit)
                if clean is None or insertion is Insertion.BLANK:
                    shown("reading the records without a canary")
                    clean = _reopened(game, clean, worlds.absent)
                shown(f"canary {canary.id}, {insertion.value}: reading the records with it")
                found = _attack(game, clean, worlds, canary, questions, detectors, claim, other, runs, shown)
                cells += found[0]
                counted.append(found[1])
    finally:
        if clean is not None:
            clean.close()
    rates = [trials.rates(cell.threshold) for cell, trials, _ in counted]
    p_values = {str(place): p_value_of_rates(one, claim.curve) for place, one in enumerate(rates)}
    adjusted, level = holm(p_values), level_of_each(alpha, attacks)
    certified = [
        Certified(
            cell,
            rates[place],
            epsilon_of_rates(rates[place], claim.delta, level),
            p_values[str(place)],
            adjusted[str(place)],
            roc_of(trials.scores, trials.present),
            exact,
        )
        for place, (cell, trials, exact) in enumerate(counted)
    ]
    return Played(claim, runs, alpha, cells, certified)


def require_adjacency(insertions: Sequence[Insertion], claim: Claim) -> None:
    """Refuses insertions that test another adjacency than the claim's.

    Raises:
        ParameterError: One does.
    """
    for insertion in insertions:
        if insertion.adjacency is not claim.adjacency:
            fitting = ", ".join(one.value for one in Insertion.of(claim.adjacency))
            limit = f"one that tests {claim.adjacency.value}: {fitting}. It tests {insertion.adjacency.value}"
            raise ParameterError("insertion", insertion.value, limit)


def _reopened(game: Game, clean: World | None, rows: Sequence[Row]) -> World:
    if clean is not None:
        clean.close()
    return game.world(rows)


def _attack(
    game: Game,
    clean: World,
    worlds: Worlds,
    canary: Canary,
    questions: Sequence[Question],
    detectors: Callable[[Canary], Sequence[Detector]],
    claim: Claim,
    other: str,
    runs: Runs,
    shown: Callable[[str], None],
) -> tuple[list[Cell], tuple[Cell, Trials, float | None]]:
    """The cells of one pair of worlds, and the certifying trials of the best of them."""
    cells: list[tuple[float, Cell, Detector]] = []
    planted = game.world(worlds.present)
    try:
        for question in questions:
            asked = question.about(canary, other)
            shown(f"canary {canary.id}, {worlds.insertion.value}: choosing on the question {question.name}")
            sides = [world.releases(asked, runs.training + runs.choosing) for world in (clean, planted)]
            fitted = detectors(canary)
            for detector in fitted:
                detector.fit(*(answers[: runs.training] for answers in sides))
            choosing = [answers[runs.training :] for answers in sides]
            tried = [_chosen(detector, choosing, canary, worlds, question, claim) for detector in fitted]
            cells.append(max(tried, key=lambda one: (one[0], one[1].accuracy)))
        _, best, detector = max(cells, key=lambda one: (one[0], one[1].accuracy))
        asked = next(question for question in questions if question.name == best.question).about(canary, other)
        shown(f"canary {canary.id}, {worlds.insertion.value}: certifying on {best.question}")
        certifying = [world.releases(asked, runs.certifying) for world in (clean, planted)]
        exact = _largest_loss(game, clean, planted, asked)
    finally:
        planted.close()
    return [cell for _, cell, _ in cells], (best, _trials(detector, certifying, canary.id), exact)


def _trials(detector: Detector, sides: Sequence[Sequence[str]], canary: str) -> Trials:
    """Scores with the truth of each release, joined by the release's own id."""
    scores: dict[str, float] = {}
    present: dict[str, bool] = {}
    for is_present, answers in enumerate(sides):
        for number, score in enumerate(detector.scores(answers).tolist()):
            name = f"{canary}/{is_present}/{number}"
            scores[name], present[name] = score, bool(is_present)
    return joined(scores, present)


def _chosen(
    detector: Detector,
    sides: Sequence[Sequence[str]],
    canary: Canary,
    worlds: Worlds,
    question: Question,
    claim: Claim,
) -> tuple[float, Cell, Detector]:
    """The best threshold of a detector, with the bound that it would show."""
    trials = _trials(detector, sides, canary.id)
    threshold = max(_thresholds(trials), key=lambda tried: _worth(trials.rates(tried), claim))
    rates = trials.rates(threshold)
    cell = Cell(canary.id, worlds.insertion, question.name, detector.name, threshold, accuracy_of(rates))
    return epsilon_of_rates(rates, claim.delta), cell, detector


def _thresholds(trials: Trials) -> list[float]:
    """Between two scores that occur, evenly spread where there are many."""
    distinct = np.unique(trials.scores)
    tried = [float(distinct[0]), *((distinct[1:] + distinct[:-1]) / 2).tolist()]
    return (
        [tried[place * len(tried) // _MOST_TRIED] for place in range(_MOST_TRIED)]
        if len(tried) > _MOST_TRIED
        else tried
    )


def _worth(rates: Rates, claim: Claim) -> tuple[float, float]:
    """The bound, and where so few releases show none, the accuracy."""
    return epsilon_of_rates(rates, claim.delta), accuracy_of(rates)


def _largest_loss(game: Game, clean: World, planted: World, question: str) -> float | None:
    """The largest log ratio of the two laws of an answer, where the method has a law in closed form."""
    method = getattr(game, "method", None)
    if not (isinstance(method, Selecting) and isinstance(clean, LabelWorld) and isinstance(planted, LabelWorld)):
        return None
    price = game.price  # type: ignore[attr-defined]
    return Pair(*(method.log_law(world.outputs(question), price) for world in (clean, planted))).max_loss
