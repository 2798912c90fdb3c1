"""The worst pair of a small world for every method with an exact law, and releases of it by the method's own code.

Two to four made-up experts, units or texts that are as far apart as clipping allows. Of every single change that one is
taken on which an attack with a fixed number of releases shows most, by the exact laws. Releases are drawn as the method
draws them; an attacker who knows both laws scores each with its log likelihood ratio, and the threshold follows from
the laws, so that no release is spent on choosing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, final

import numpy as np

from sottovoce.audits.bounds import ALPHA, Rates, epsilon_of_rates
from sottovoce.audits.exact.answers import AnswerWorld, answer_pair
from sottovoce.audits.exact.fits import Units, choice_pair, class_means_pair, label_public_pair
from sottovoce.audits.exact.labels import LabelWorld, label_pair
from sottovoce.audits.exact.pair import GaussianPair, Leak, Pair, exact_epsilon
from sottovoce.audits.roc import FloatArray
from sottovoce.benchmarks.contextleak.games import price_at
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.studies.audit_power import LABEL_ROWS
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.unit_sums import LIMIT, ClassSums, Likeness, SumRule
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.mechanisms.top_k import JointTopK
from sottovoce.methods.answering.answerer import AnswerSetting
from sottovoce.methods.answering.esa import ESA
from sottovoce.methods.answering.ksa import KSA
from sottovoce.methods.base import Price, Selecting
from sottovoce.methods.choice import Choice
from sottovoce.methods.class_means import DIVISOR, ClassMeans
from sottovoce.methods.fitting.fitter import FitSetting
from sottovoce.methods.fitting.noisy_sums import noisy_sum
from sottovoce.methods.label_public import LabelPublic
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import Adjacency, Assignment, change_type, is_drop
from sottovoce.randomness import Randomness
from sottovoce.tasks import Query

UNITS: Final = Units(
    np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0, 0, 1, 1])
)
CANDIDATES: Final = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]])
UNIVERSE: Final = ("refund", "card", "fee", "parcel")
WRITTEN: Final = AnswerWorld(
    ("refund card", "refund card", "parcel", "fee parcel"),
    np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]]),
)
FLAT: Final = np.zeros(LABEL_ROWS.shape[1])
"""What the model says without any record: nothing."""
RUNS: Final = 4000
"""Releases of each world."""
_TEXTS: Final = 2
_THRESHOLDS: Final = 100
_LAST_BITS: Final = 1e-9
W = TypeVar("W")
L = TypeVar("L", bound=Leak)


@final
@dataclass(frozen=True, eq=False)
class WorstPair:
    """The worst of all single changes.

    Attributes:
        change: In words.
        leak: Its laws.
        delta: Of the claim.
        draws: For each of the two worlds one release, as its log likelihood ratio or a number that grows with it.
    """

    change: str
    leak: Leak = field(repr=False)
    delta: float
    draws: tuple[Callable[[], float], Callable[[], float]] = field(repr=False)

    @property
    def exact(self) -> float:
        """Epsilon of the pair at the claim's delta."""
        return exact_epsilon(self.leak, self.delta)

    def bound(self, runs: int, alpha: float = ALPHA) -> float:
        """The lower bound that so many releases of each world show."""
        threshold = self._threshold(runs)
        present, absent = (np.array([draw() for _ in range(runs)]) for draw in self.draws)
        rates = Rates(int((absent >= threshold).sum()), runs, int((present < threshold).sum()), runs)
        return epsilon_of_rates(rates, self.delta, alpha)

    def _threshold(self, runs: int) -> float:
        """Where the bound would be largest if every count were its mean."""
        tried = _rates_of(self.leak)
        return max(tried, key=lambda threshold: expected(tried[threshold], runs, self.delta))


def label_pairs(method: Selecting, epsilon: float, adjacency: Adjacency, randomness: Randomness) -> WorstPair:
    """Of one label.

    Raises:
        InputError: The method has no guarantee under the adjacency.
    """
    price = price_at(method, epsilon, adjacency)
    (world, other), leak, change = _worst_label(
        adjacency, lambda one, two: label_pair(method, one, two, price, adjacency), price.delta
    )
    losses = leak.losses

    def drawn(own: LabelWorld) -> Callable[[], float]:
        outputs = own.outputs(adjacency)
        return lambda: float(losses[method.choose(outputs, price, randomness)])

    return WorstPair(change, leak, price.delta, (drawn(world), drawn(other)))


def choice_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness, world: Units = UNITS) -> WorstPair:
    """Of one public text for each of two labels."""
    setting, price = fit_setting(adjacency, labels=2, candidates=len(CANDIDATES)), Price(epsilon, e.DELTA)
    plan = Choice(k=1).plan(price, setting)
    fitter: Any = plan.fitter
    change, other, leak = worst(
        world.neighbours(adjacency), lambda other: choice_pair(plan, CANDIDATES, world, other), price.delta
    )
    rule = Likeness(setting.labels, CANDIDATES, fitter.floor, fitter.ceiling, None)
    sums = [rule.add_up(units.block()) for units in (world, other)]
    tables = [fitter.law(each, rule, setting) for each in sums]
    # Of lists for every label, those that the change leaves alone too; sums of the same losses differ in last bits.
    shown = Pair.of_tables(*tables).losses + _LAST_BITS
    losses = dict(zip(dict.fromkeys([*tables[0], *tables[1]]), shown.tolist(), strict=True))
    first, second = (lambda own=own: float(losses[fitter.select(own, rule, setting, randomness)]) for own in sums)
    return WorstPair(change, leak, price.delta, (first, second))


def pairs_of_answers_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> WorstPair:
    """Of one public pair of input and answer: all records have the first label, as in ``methods.answering.pairs``."""
    return choice_pairs(epsilon, adjacency, randomness, Units(UNITS.vectors, np.zeros_like(UNITS.labels)))


def label_public_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> WorstPair:
    """Of private labels of two public texts to which the experts say the same."""
    labels = LABEL_ROWS.shape[1]
    setting, price = fit_setting(adjacency, labels=labels, candidates=_TEXTS), Price(epsilon, e.DELTA)
    plan = LabelPublic(texts=_TEXTS).plan(price, setting)
    fitter, event = plan.fitter, plan.event
    assert isinstance(fitter, LabelPublic)
    (world, other), leak, change = _worst_label(
        adjacency, lambda one, two: label_public_pair(plan, [one] * _TEXTS, [two] * _TEXTS), price.delta
    )
    one: Any = event
    mechanism, answers = Exponential(one.event.eta), PriorPoE(clip=fitter.clip, prior_weight=fitter.prior_weight)
    losses = leak.losses

    def drawn(own: LabelWorld) -> Callable[[], float]:
        outputs = own.outputs(adjacency)
        scores, prior = answers.scores(outputs), answers.log_prior(outputs)

        def draw() -> float:
            place = 0
            for _ in range(_TEXTS):
                place = place * labels + mechanism.select(scores, randomness, prior)
            return float(losses[place])

        return draw

    return WorstPair(change, leak, price.delta, (drawn(world), drawn(other)))


def class_means_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> WorstPair:
    """Of noisy sums and counts of four unit vectors; the noisy number of units is left out, which leaks beside them."""
    setting, price = fit_setting(adjacency, labels=2), Price(epsilon, e.DELTA)
    plan = ClassMeans().plan(price, setting)
    fitter = plan.fitter
    assert isinstance(fitter, ClassMeans)
    shown = replace(plan, setting=replace(setting, units=len(UNITS.labels)))
    change, other, leak = worst(
        UNITS.neighbours(adjacency), lambda other: class_means_pair(shown, UNITS, other), price.delta
    )
    divisor = DIVISOR if is_drop(setting.change) else 1
    rule = ClassSums(setting.labels, setting.dimension, divisor)
    step = fitter.step(sigma=float(fitter.sigma or 0), divisor=divisor)
    noise: Any = step.event(setting.change)
    mechanism = RoundedGaussian(float(noise.noise_multiplier))
    means = [rule.add_up(units.block()) / LIMIT for units in (UNITS, other)]

    def drawn(own: Units) -> Callable[[], float]:
        side = UnitSums(own)
        return lambda: _projected(
            noisy_sum(rule, rule.squared_l2(setting.change), mechanism, setting, side, randomness), means, leak
        )

    return WorstPair(change, leak, price.delta, (drawn(UNITS), drawn(other)))


def esa_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> WorstPair:
    """Of the noisy mean of four embeddings."""
    plan = ESA().plan(Price(epsilon, e.DELTA), _answer_setting(adjacency))
    change, other, leak = worst(WRITTEN.neighbours(adjacency), lambda other: answer_pair(plan, WRITTEN, other), e.DELTA)
    assert isinstance(leak, GaussianPair)
    gaussian = leak
    base: Any = plan.base
    answerer: Any = plan.answerer
    mechanism, divisor = GaussianVector(base.rho), plan.setting.experts or 1
    sums = [world.outputs(plan).embedding_sum(answerer.clip, divisor) for world in (WRITTEN, other)]
    scale = float(sums[0].grid_step / sums[0].denominator)
    means = [np.asarray(one.values, dtype=np.float64) * scale for one in sums]
    first, second = (
        lambda own=own: _projected(mechanism.release(own, randomness).values, means, gaussian) for own in sums
    )
    return WorstPair(change, leak, e.DELTA, (first, second))


def ksa_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> WorstPair:
    """Of two public keywords."""
    price = Price(epsilon)
    plan = KSA(selection="joint", k=2).plan(price, _answer_setting(adjacency))
    answerer = plan.answerer
    assert isinstance(answerer, KSA)
    change, other, leak = worst(
        WRITTEN.neighbours(adjacency), lambda other: answer_pair(plan, WRITTEN, other, UNIVERSE), 0.0
    )
    assert isinstance(leak, Pair)
    counts = [world.outputs(plan).keyword_counts(UNIVERSE) for world in (WRITTEN, other)]
    base: Any = plan.base
    tables = [JointTopK(base.eta, answerer.k).law(each) for each in counts]
    losses: dict[Any, float] = dict(zip(dict.fromkeys([*tables[0], *tables[1]]), leak.losses.tolist(), strict=True))
    first, second = (lambda own=own: float(losses[answerer.select(own, plan.setting, randomness)]) for own in counts)
    return WorstPair(change, leak, 0.0, (first, second))


OTHERS: Final[Mapping[str, tuple[str, Callable[[float, Adjacency, Randomness], WorstPair]]]] = {
    "choice": ("fit", choice_pairs),
    "choice, pairs": ("answer", pairs_of_answers_pairs),
    "class-means": ("fit", class_means_pairs),
    "label-public": ("fit", label_public_pairs),
    "esa": ("answer", esa_pairs),
    "ksa": ("answer", ksa_pairs),
}
"""Methods that pay once, and that write long answers: what they release, and its pair."""


@final
class UnitSums:
    """Units as the private side of a fit."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all units by a rule."""
        return rule.add_up(self._units.block())

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        """Nobody is asked for class means."""
        raise AssertionError("class means ask no experts")


def _worst_label(
    adjacency: Adjacency, leak_of: Callable[[LabelWorld, LabelWorld], Pair], delta: float
) -> tuple[tuple[LabelWorld, LabelWorld], Pair, str]:
    """Of worlds of two, three and four experts."""
    worlds = [LabelWorld(LABEL_ROWS[:experts], FLAT) for experts in range(2, len(LABEL_ROWS) + 1)]
    pairs = (
        (f"{change} of {len(world.rows)}", (world, other))
        for world in worlds
        for change, other in world.neighbours(adjacency)
    )
    change, both, leak = worst(pairs, lambda one: leak_of(*one), delta)
    return both, leak, change


def worst(neighbours: Iterable[tuple[str, W]], leak_of: Callable[[W], L], delta: float) -> tuple[str, W, L]:
    """The change whose pair shows the largest bound, of equal ones the one with the largest total variation."""
    pairs = ((change, other, leak_of(other)) for change, other in neighbours)
    return max(pairs, key=lambda one: (_shown(one[2], delta), one[2].total_variation))


def _shown(leak: Leak, delta: float) -> float:
    """The bound of the best threshold, if every count were its mean."""
    return max(expected(rates, RUNS, delta) for rates in _rates_of(leak).values())


def expected(rates: tuple[float, float], runs: int, delta: float) -> float:
    counts = [round(runs * min(1.0, max(0.0, rate))) for rate in rates]
    return epsilon_of_rates(Rates(counts[0], runs, counts[1], runs), delta)


def _rates_of(leak: Leak) -> dict[float, tuple[float, float]]:
    """Exact rates of false positives and false negatives by threshold; "present" is the first law."""
    if isinstance(leak, GaussianPair):
        return {float(t): (_above(t), 1 - _above(t - leak.mu)) for t in np.linspace(-4, leak.mu + 4, _THRESHOLDS)}
    assert isinstance(leak, Pair)
    losses, p, q = leak.losses, np.exp(leak.log_p), np.exp(leak.log_q)
    return {t: (float(q[losses >= t].sum()), float(p[losses < t].sum())) for t in np.unique(losses).tolist()}


def _above(deviations: float) -> float:
    return 0.5 * math.erfc(deviations / math.sqrt(2))


def _projected(released: FloatArray, means: Sequence[FloatArray], leak: GaussianPair) -> float:
    """A release along the line between two means, in deviations from the second one."""
    between = means[0] - means[1]
    return float((released - means[1]) @ between / (between @ between) * leak.mu)


def fit_setting(adjacency: Adjacency, labels: int, candidates: int = 0) -> FitSetting:
    change = change_type(Assignment.OWN_SLOT, adjacency)
    units = len(UNITS.labels) if adjacency.size_is_public else None
    return FitSetting(labels, UNITS.vectors.shape[1], units, adjacency, change, candidates)


def _answer_setting(adjacency: Adjacency) -> AnswerSetting:
    units = len(WRITTEN.texts) if adjacency.size_is_public else None
    return AnswerSetting(adjacency, units=units, dimension=2, candidates=3, keywords=len(UNIVERSE))
