"""Membership by repeated questions: was this unit among the private ones, judged by one or several answers?

Every trial is a system of its own: a few units are drawn, one of them is the candidate or, by a fair coin, another unit
in its place; the text of the candidate's first record is asked as often as is paid for; the score is how many of the
answers are that record's label. A unit is a record unless the records name one. Which number of them means "present" is
chosen on one half of the trials and certified on the other. The likelihood-ratio attack knows both data sets instead,
and scores the answers by the log ratio of their probabilities: no attack on these answers is better.

Guarantee   As for ``play``: trials are independent, and the curve that is tested is that of all answers together.
            The coin exchanges one whole unit for another, under the unit that the game itself reads the records by:
            the two data sets are neighbours under replace-one, whose claim is tested.
Sources     specification 10.3, 10.8; Carlini et al. (2022) for the question that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, final

import numpy as np

from sottovoce.audits.bounds import ALPHA, Rates, epsilon_of_rates, p_value_of_rates
from sottovoce.audits.exact.labels import why_no_law
from sottovoce.audits.game.games import LabelGame, LabelWorld
from sottovoce.audits.game.play import MOST, Claim, accuracy_of, log_odds
from sottovoce.audits.power import ceiling_of_rates, power_of_rates
from sottovoce.audits.report import Measured, Report, Verdict, curve_points, reason_of
from sottovoce.audits.roc import Draws, FloatArray, roc_of
from sottovoce.audits.split import Split, Trials, best_threshold, joined
from sottovoce.errors import ParameterError
from sottovoce.parameters import Number, OneOf
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.numbers import exact, float_above
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import RECORD_UNIT, PrivateRecords, Row, identity_text

LABEL_COUNT, LIKELIHOOD_RATIO = "label-count", "likelihood-ratio"
ATTACKS: Final = (LABEL_COUNT, LIKELIHOOD_RATIO)
REDRAWN: Final = 400
"""Answers of each data set from which a law is estimated."""
_HALF: Final = 0.5
"""Counts that every label has before any answer."""
_LEAST_PROBABILITY: Final = 1e-300


@final
class MembershipAudit:
    """Trials of one game.

    Args:
        game: A game of labels, under replace-one.
        rows: Made-up records to draw from.
        units: How many stand in a trial's data set, each with all of its records.
        trials: How many systems are made.
        answers: How often each is asked.
        draws: A seeded generator: of records, coins and halves.
        attack: ``label-count``, or ``likelihood-ratio``: the attacker knows the candidate, the unit in its place and
            all the others, and scores the answers by the log ratio of their probabilities in both data sets. These are
            the method's own law; of a method that states none, shares of answers that are redrawn for the attacker.

    Raises:
        ParameterError: The game is of another adjacency, or there are too few units or trials.
        RecordError: Some rows lack the column of the unit.
    """

    def __init__(
        self,
        game: LabelGame,
        rows: Sequence[Row],
        units: int,
        trials: int,
        answers: int,
        draws: Draws,
        attack: str = LABEL_COUNT,
    ) -> None:
        if game.adjacency is not Adjacency.REPLACE_ONE:
            raise ParameterError("adjacency", game.adjacency.value, "replace-one: the coin exchanges two units")
        self.unit = PrivateRecords(rows, source="records", unit=game.unit, synthetic=True).unit
        self._units = units_of(rows, self.unit)
        self._size = Number(1, len(self._units) - 1, whole=True).read("records", units)
        self._trials = Number(20, MOST, whole=True).read("runs", trials)
        self._answers = Number(1, MOST, whole=True, strict=True).read("answers", answers)
        self._game, self._draws = replace(game, unit=self.unit), draws
        self._attack = OneOf(ATTACKS).read("attack", attack)

    def trials(self, shown: Callable[[int], None] = lambda done: None) -> Trials:
        """Plays all of them; a score is larger where the answers look as if the candidate was there."""
        scores: dict[str, float] = {}
        present: dict[str, bool] = {}
        task = self._game.task
        for trial in range(self._trials):
            order = self._draws.random(len(self._units)).argsort(kind="stable")[: self._size + 1]
            candidate, other, *rest = (self._units[place] for place in order.tolist())
            included = bool(self._draws.random(1)[0] < 0.5)
            worlds = [
                [row for unit in [*rest, last] for row in unit]
                for last in ((candidate, other) if included else (other, candidate))
            ]
            question = task.text_of(task.query_of(candidate[0], "records"))
            world = self._game.world(worlds[0])
            try:
                answers = world.releases(question, self._answers)
                if self._attack == LIKELIHOOD_RATIO:
                    ratio = self._log_law(world, question) - self._log_law_of(worlds[1], question)
                    found = sum(float(ratio[task.labels.index(answer)]) for answer in answers)
                    scores[str(trial)] = found if included else -found
                else:
                    own = task.labels[task.label_of(candidate[0], "records")]
                    scores[str(trial)] = float(sum(answer == own for answer in answers))
            finally:
                world.close()
            present[str(trial)] = included
            shown(trial + 1)
        return joined(scores, present)

    def _log_law_of(self, rows: Sequence[Row], question: str) -> FloatArray:
        world = self._game.world(rows)
        try:
            return self._log_law(world, question)
        finally:
            world.close()

    def _log_law(self, world: LabelWorld, question: str) -> FloatArray:
        """Natural logs of the labels' probabilities, shape (labels,)."""
        game, labels = self._game, list(self._game.task.labels)
        method: Any = game.method
        if self.knows_the_law:
            law = np.array([float(p) for p in method.law(world.outputs(question), game.price)])
        else:
            counts = np.zeros(len(labels))
            for answer in world.releases(question, REDRAWN):
                counts[labels.index(answer)] += 1
            law = (counts + _HALF) / (REDRAWN + _HALF * len(labels))
        return np.asarray(np.log(np.maximum(law, _LEAST_PROBABILITY)))

    @property
    def _detector(self) -> str:
        answers = "1 answer" if self._answers == 1 else f"{self._answers} answers"
        if self._attack == LABEL_COUNT:
            return f"its label, in {answers}"
        law = "exact laws" if self.knows_the_law else f"{REDRAWN} redrawn answers of each data set"
        return f"log likelihood ratio of {answers}, by {law}"

    @property
    def knows_the_law(self) -> bool:
        """Whether the method states the law of a label."""
        return why_no_law(type(self._game.method)) is None

    def run(self, claim: Claim, alpha: float = ALPHA, shown: Callable[[int], None] = lambda done: None) -> Report:
        """Plays, chooses on one half, certifies on the other.

        Args:
            claim: Of all answers together: see ``claim_of_answers``.
            alpha: Chance of a false alarm.
            shown: Told how many trials are done.
        """
        trials = self.trials(shown)
        choice = Split(trials, self._draws).choose(lambda half: best_threshold(half, claim.delta, alpha))
        threshold = choice.chosen
        rates = choice.rates()
        bound, p_value = epsilon_of_rates(rates, claim.delta, alpha), p_value_of_rates(rates, claim.curve)
        accuracy = accuracy_of(rates)
        measured = Measured(
            bound, 1 - alpha, log_odds(accuracy), None, *_ceilings(rates, claim, alpha), _powers(rates, claim, alpha)
        )
        verdict = Verdict.VIOLATION if p_value <= alpha else Verdict.NONE_FOUND
        attack = {
            "id": "label count" if self._attack == LABEL_COUNT else "likelihood ratio",
            "canary": "a record" if self.unit == RECORD_UNIT else f"all records of one '{self.unit}'",
            "insertion": "replace",
            "adjacency": claim.adjacency.value,
            "question": "its own text",
            "detector": self._detector,
            "threshold": threshold,
            "false_positives": rates.false_positives,
            "absent": rates.absent,
            "false_negatives": rates.false_negatives,
            "present": rates.present,
            "accuracy": accuracy,
            "estimate": log_odds(accuracy),
            "bound": bound,
            "p_value": p_value,
            "adjusted_p_value": p_value,
            "exact": None,
            "violation": bool(p_value <= alpha),
            "roc": roc_of(trials.scores, trials.present).as_dict(),
        }
        told = {
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "adjacency": claim.adjacency.value,
            "own_curve": claim.own_curve,
            "curve": curve_points(claim.curve),
        }
        reason = reason_of(verdict, measured, claim.epsilon)
        setting = {"unit": self.unit, "units drawn from": len(self._units), "units in each system": self._size}
        return Report("membership", self._game.name, verdict, reason, told, measured, setting, attacks=[attack])


def units_of(rows: Sequence[Row], unit: str) -> list[list[Row]]:
    """Rows by their unit, in the order in which units come first.

    Example:
        >>> rows = [Row(i, {"group": name}) for i, name in enumerate("xyx")]
        >>> [[row.line for row in own] for own in units_of(rows, "group")]
        [[0, 2], [1]]
    """
    if unit == RECORD_UNIT:
        return [[row] for row in rows]
    units: dict[str, list[Row]] = {}
    for row in rows:
        units.setdefault(identity_text(row.identity(unit)), []).append(row)
    return list(units.values())


def claim_of_answers(game: LabelGame, answers: int) -> Claim:
    """What is claimed of so many answers together.

    Raises:
        ParameterError: The method has no guarantee: name an epsilon of your own.
    """
    from sottovoce.privacy.events import SelfComposedDpEvent

    delta = float_above(exact(game.price.delta) * answers)  # the plain product may be below what the answers spend
    if game.event is None or game.noise_event is None:
        return Claim.of(game.price.epsilon * answers, delta, game.adjacency)
    if answers == 1:
        return Claim.of(game.price.epsilon, game.price.delta, game.adjacency, game.noise_event)
    event = SelfComposedDpEvent(game.noise_event, answers)
    epsilon = RdpAccountant(game.adjacency).compose(game.event, answers).report(delta).epsilon
    return Claim.of(epsilon, delta, game.adjacency, event)


def _ceilings(rates: Rates, claim: Claim, alpha: float) -> tuple[float, float]:
    found = ceiling_of_rates(rates.absent, rates.present, claim.attained, claim.delta, alpha)
    return found.perfect, found.on_curve


def _powers(rates: Rates, claim: Claim, alpha: float) -> dict[str, float]:
    return {
        leak: power_of_rates(rates.absent, rates.present, claim.curve, truth, alpha).power
        for leak, truth in claim.leaks().items()
    }


def seeded(seed: int) -> Draws:
    """A generator of records, coins and halves; it draws no noise."""
    return _Seeded(seed)


@final
class _Seeded:
    """Uniform numbers from the seeded source of ``randomness``."""

    def __init__(self, seed: int) -> None:
        from sottovoce.randomness import SeededRandomness

        self._source = SeededRandomness(seed)

    def random(self, size: int | tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Uniform in [0, 1), in steps of 2**-53."""
        count = int(np.prod(size))
        return np.array([self._source.below(1 << 53) / (1 << 53) for _ in range(count)]).reshape(size)
