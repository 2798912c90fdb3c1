"""Fitters with one mistake each. None is registered."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from contracts.wrong import mechanisms
from sottovoce.errors import ParameterError
from sottovoce.experts.unit_sums import LIMIT, ClassSums, Likeness, SumRule, UnitCount
from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.class_means import ClassMeansStep
from sottovoce.methods.fitting.fitter import Fitter
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport
from sottovoce.methods.label_public import LabelPublic
from sottovoce.parameters import Positive
from sottovoce.privacy.aggregates import Counts, Scores, VectorSum
from sottovoce.privacy.events import (
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    PureDP,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from sottovoce.privacy.unit import DROP, Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Example


@dataclass(frozen=True)
class Means(Fitter):
    """Sums of unit vectors by label, and their number where it is private. Nothing is wrong with it."""

    name = "means"
    needs_delta = True
    calibrated_parameters = ("multiplier",)
    step = ClassMeansStep
    multiplier: Positive | None = None

    def calibrated(self, price, setting):
        if self.multiplier is not None:
            return self
        return replace(self, multiplier=1.001 * RoundedGaussian.for_rho(price.epsilon, price.delta).noise_multiplier)

    def event(self, setting):
        if setting.units is not None:
            return RoundedGaussian(self.multiplier).event
        return ComposedDpEvent([RoundedGaussian(self.multiplier * 1.5).event] * 2)

    def fit(self, plan, private, public, randomness):
        setting, units = plan.setting, plan.setting.units
        multiplier = self.multiplier * (1.5 if units is None else 1.0)
        if units is None:
            units = self.counted(private, setting, multiplier, randomness)
        rule = self.rule(setting, private)
        sums = self.drawn(private.sum_of(rule), self.bound(rule, setting), setting, multiplier, randomness)
        return self.support(sums[: setting.labels * setting.dimension] / max(units, 1.0), setting)

    def counted(self, private, setting, multiplier, randomness):
        squared = (LIMIT * setting.change.rows) ** 2
        (units,) = self.drawn(private.sum_of(UnitCount()), squared, setting, multiplier, randomness)
        return units

    def rule(self, setting, private) -> SumRule:
        return ClassSums(setting.labels, setting.dimension)

    def bound(self, rule, setting) -> int:
        return rule.squared_l2(setting.change)

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        vector = VectorSum(sums, squared_l2=squared_l2, adjacency=setting.adjacency, grid_step=Fraction(1, LIMIT))
        return RoundedGaussian(multiplier).release(vector, randomness).values

    def support(self, means, setting):
        weights = means.reshape(setting.labels, setting.dimension)
        flat = np.zeros(setting.labels)
        return LinearSupport(weights, flat, np.zeros(setting.dimension), flat, prior_weight=1.0)


@dataclass(frozen=True)
class ForgottenDelta(Means):
    """Charges Gaussian noise, which needs a delta, as if it needed none where a ledger adds epsilons."""

    calibrated_parameters = ("multiplier", "epsilon")
    epsilon: Positive | None = None

    def calibrated(self, price, setting):
        noise = 1.1 * RoundedGaussian.for_rho(price.epsilon, price.delta).noise_multiplier
        return replace(self, multiplier=self.multiplier or noise, epsilon=self.epsilon or price.epsilon)

    def event(self, setting):
        return PureDP(self.epsilon) if setting.adds_epsilons else super().event(setting)


@dataclass(frozen=True)
class WholeBudget(Means):
    """Right: as much noise as its whole budget asks for, and no more."""

    calibrated_parameters = ("rho",)
    multiplier: ClassVar[None] = None
    rho: Positive | None = None

    def calibrated(self, price, setting):
        rho = GaussianVector.for_budget(price.epsilon, price.delta).rho
        return self if self.rho is not None else replace(self, rho=rho)

    def event(self, setting):
        return GaussianVector(self.rho).event

    def fit(self, plan, private, public, randomness):
        setting = plan.setting
        rule = self.rule(setting, private)
        sums = private.sum_of(rule)
        vector = VectorSum(
            sums, squared_l2=self.bound(rule, setting), adjacency=setting.adjacency, grid_step=Fraction(1, LIMIT)
        )
        means = GaussianVector(self.rho).release(vector, randomness).values[: setting.labels * setting.dimension]
        return self.support(means / 10, setting)


@dataclass(frozen=True)
class HalvedSensitivity(Means):
    """Tells half of the sensitivity."""

    def bound(self, rule, setting):
        return super().bound(rule, setting) // 4


@dataclass(frozen=True)
class KeepsItsDimension(Means):
    """More noise than vectors need, by their length; kept of the first one, however long the next ones are."""

    kept: ClassVar[dict[object, int]] = {}

    def bound(self, rule, setting):
        key = setting.change, setting.adjacency
        return self.kept.setdefault(key, setting.dimension * super().bound(rule, setting))


@dataclass(frozen=True)
class KeepsItsWeight(Means):
    """Sums weigh what an option says; their bound is kept by all that is public of a setting, without it."""

    weight: int = 2
    kept: ClassVar[dict[object, int]] = {}

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        bound = self.kept.setdefault((setting, squared_l2), squared_l2 * self.weight**2)
        return super().drawn(sums * self.weight, bound, setting, multiplier, randomness) / self.weight


@dataclass(frozen=True)
class KeepsTheFirstMade(Means):
    """The weight is kept of the first that is made, before any question."""

    weight: int = 2
    kept: ClassVar[dict[str, int]] = {}

    def __post_init__(self):
        self.kept.setdefault("weight", self.weight)

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        bound = squared_l2 * self.kept["weight"] ** 2
        return super().drawn(sums * self.weight, bound, setting, multiplier, randomness) / self.weight


@dataclass(frozen=True)
class KeepsNoiseOfTwo(Means):
    """The noise of two releases, where the number of units is private, is kept by the epsilon, whatever the delta is.

    What one release needs is worked out each time.
    """

    calibrated_parameters = ("epsilon", "delta")
    multiplier: ClassVar[None] = None
    epsilon: Positive | None = None
    delta: Positive | None = None
    kept: ClassVar[dict[float, float]] = {}

    def calibrated(self, price, setting):
        return replace(self, epsilon=self.epsilon or price.epsilon, delta=self.delta or price.delta)

    def needed(self):
        return 1.001 * RoundedGaussian.for_rho(self.epsilon, self.delta).noise_multiplier

    def event(self, setting):
        if setting.units is not None:
            return RoundedGaussian(self.needed()).event
        return ComposedDpEvent([RoundedGaussian(self.needed() * 1.5).event] * 2)

    def fit(self, plan, private, public, randomness):
        setting, units, multiplier = plan.setting, plan.setting.units, self.needed()
        if units is None:
            multiplier = self.kept.setdefault(self.epsilon, 1.5 * multiplier)
            units = self.counted(private, setting, multiplier, randomness)
        rule = self.rule(setting, private)
        sums = self.drawn(private.sum_of(rule), self.bound(rule, setting), setting, multiplier, randomness)
        return self.support(sums[: setting.labels * setting.dimension] / max(units, 1.0), setting)


@dataclass(frozen=True)
class Likest(Fitter):
    """Right: noisy likenesses of records to every public text; of each label the likest text."""

    name = "likest"
    needs_delta = True
    calibrated_parameters = ("multiplier",)
    pool = "required"
    gives = DemonstrationSupport
    step = ClassMeansStep
    multiplier: Positive | None = None

    def calibrated(self, price, setting):
        if self.multiplier is not None:
            return self
        least = RoundedGaussian.for_rho(price.epsilon, price.delta).noise_multiplier
        return replace(self, multiplier=1.001 * least)

    def event(self, setting):
        return RoundedGaussian(self.multiplier).event

    def most_texts(self, setting):
        return setting.labels

    def bound(self, setting, vectors):
        """Each likeness to so many texts moves by a step's worth at most, of one label or of two."""
        return setting.candidates * (LIMIT * setting.change.widths) ** 2

    def fit(self, plan, private, public, randomness):
        setting = plan.setting
        vector = VectorSum(
            private.sum_of(Likeness(setting.labels, public.vectors, floor=0.0, ceiling=1.0)),
            squared_l2=self.bound(setting, public.vectors),
            adjacency=setting.adjacency,
            grid_step=Fraction(1, LIMIT),
        )
        noisy = np.array(RoundedGaussian(self.multiplier).release(vector, randomness).values)
        best = np.argmax(noisy.reshape(setting.labels, -1), axis=1)
        return DemonstrationSupport(tuple(Example(public.pool[int(at)], label) for label, at in enumerate(best)))


@dataclass(frozen=True)
class KeepsItsTexts(Likest):
    """The bound is kept by everything but the number of public texts."""

    kept: ClassVar[dict[object, int]] = {}

    def bound(self, setting, vectors):
        key = replace(setting, candidates=0)
        return self.kept.setdefault(key, super().bound(setting, vectors))


@dataclass(frozen=True)
class KeepsItsLengths(Likest):
    """More noise than likenesses need, by the longest coordinate of public vectors; kept by all that is public of a
    setting, whichever texts they are."""

    kept: ClassVar[dict[object, int]] = {}

    def bound(self, setting, vectors):
        weight = int(100 * np.abs(vectors[0]).max())
        return self.kept.setdefault(setting, weight * super().bound(setting, vectors))


@dataclass(frozen=True)
class KeepsItsNorm(Means):
    """The norm of a change of one row is settled with the first plan, whatever the adjacency of the next one is."""

    calibrated_parameters = ("multiplier", "norm")
    norm: int | None = None
    kept: ClassVar[dict[str, int]] = {}

    def calibrated(self, price, setting):
        norm = ClassSums(setting.labels, setting.dimension).squared_l2(setting.change) // setting.change.rows**2
        return replace(super().calibrated(price, setting), norm=self.norm or self.kept.setdefault("norm", norm))

    def bound(self, rule, setting):
        return self.norm * setting.change.rows**2


@dataclass(frozen=True)
class NoiseOutOfRange(Means):
    """Charges for noise that its mechanism refuses to draw."""

    def calibrated(self, price, setting):
        return replace(self, multiplier=10 * super().calibrated(price, setting).multiplier)

    def event(self, setting):
        multiplier = self.multiplier * (1.0 if setting.units is not None else 1.5)
        return ComposedDpEvent([GaussianDpEvent(multiplier)] * (1 if setting.units is not None else 2))


@dataclass(frozen=True)
class FactorOneForASwap(Means):
    """Tells under replace-one what holds where a unit only leaves."""

    def bound(self, rule, setting):
        return 2 * LIMIT**2 * setting.change.rows**2


@dataclass(frozen=True)
class OneUnitForTwo(Means):
    """Tells what one unit moves, whatever the change."""

    def bound(self, rule, setting):
        return (2 if setting.change.widths == setting.change.rows else 4) * LIMIT**2


@dataclass(frozen=True)
class WithoutNoise(Means):
    """Releases the sums as they are."""

    def fit(self, plan, private, public, randomness):
        super().fit(plan, private, public, randomness)
        sums = private.sum_of(self.rule(plan.setting, private))
        return self.support(sums[: plan.setting.labels * plan.setting.dimension] / LIMIT, plan.setting)


@dataclass(frozen=True)
class BareCount(Means):
    """Divides by the true number of units where it is private."""

    def counted(self, private, setting, multiplier, randomness):
        super().counted(private, setting, multiplier, randomness)
        return float(private.sum_of(UnitCount())[0]) / LIMIT


@dataclass(frozen=True)
class BareClassCounts(Means):
    """Divides by the true class counts."""

    def fit(self, plan, private, public, randomness):
        made = super().fit(plan, private, public, randomness)
        counts = private.sum_of(self.rule(plan.setting, private))[-plan.setting.labels :] / LIMIT
        return replace(made, weights=made.weights / np.maximum(counts, 1.0)[:, None])


@dataclass(frozen=True)
class _Unclipped(SumRule):
    labels: int
    dimension: int

    @property
    def size(self):
        return self.labels * self.dimension

    def squared_l2(self, change):
        return (LIMIT * change.widths) ** 2

    def add_up(self, block):
        sums = np.zeros((self.labels, self.dimension), dtype=np.int64)
        said = np.isfinite(block.vectors).all(axis=1)
        np.add.at(sums, block.labels[said], np.trunc(block.vectors[said] * LIMIT).astype(np.int64))
        return sums.ravel()


@dataclass(frozen=True)
class Unclipped(Means):
    """Trusts the embedder to give unit vectors, and units to have one record."""

    def rule(self, setting, private):
        return _Unclipped(setting.labels, setting.dimension)


@dataclass(frozen=True)
class _FirstRecord(_Unclipped):
    """Each unit's first record, made as long as a rule says."""

    def add_up(self, block):
        first = np.unique(block.units, return_index=True)[1]
        vectors = block.vectors[first]
        with np.errstate(all="ignore"):
            vectors = self.resized(vectors, np.linalg.norm(vectors, axis=1, keepdims=True)) * 0.9999
        labels = [block.labels[at] for at in first]
        return super().add_up(type(block)(vectors, labels, [block.units[at] for at in first]))

    def resized(self, vectors, norms):
        return vectors / np.maximum(norms, 1.0)


@dataclass(frozen=True)
class FirstRecords(Means):
    """Right: every unit's first record, clipped."""

    def rule(self, setting, private):
        return _FirstRecord(setting.labels, setting.dimension)


@dataclass(frozen=True)
class _BySquaredNorm(_FirstRecord):
    def resized(self, vectors, norms):
        return np.where(norms > 0, vectors / norms**2, 0.0)


@dataclass(frozen=True)
class BySquaredNorm(Means):
    """Divides a vector by its squared norm."""

    def rule(self, setting, private):
        return _BySquaredNorm(setting.labels, setting.dimension)


@dataclass(frozen=True)
class _AtTheMedian(_FirstRecord):
    def resized(self, vectors, norms):
        heard = norms[np.isfinite(norms)]
        least = min(1.0, float(np.median(heard))) if len(heard) else 1.0
        return np.where(norms > 0, vectors * np.minimum(1.0, least / norms), 0.0)


@dataclass(frozen=True)
class AtTheMedian(Means):
    """Clips vectors at their median length."""

    def rule(self, setting, private):
        return _AtTheMedian(setting.labels, setting.dimension)


@dataclass(frozen=True)
class _ByNorm(_FirstRecord):
    def resized(self, vectors, norms):
        unit = vectors / norms
        return np.where(np.isfinite(vectors), np.nan_to_num(unit, nan=9.0), np.nan)


@dataclass(frozen=True)
class ByNorm(Means):
    """Divides a vector by its norm, and makes nine of what is no number then."""

    def rule(self, setting, private):
        return _ByNorm(setting.labels, setting.dimension)


@dataclass(frozen=True)
class NoiseInTheVectorsUnit(Means):
    """Draws by a mechanism that works its noise out in the vectors' own unit."""

    mechanism: ClassVar[type[Any]] = mechanisms.NoiseInTheVectorsUnit

    def event(self, setting):
        multiplier = self.multiplier * (1.0 if setting.units is not None else 1.5)
        return ComposedDpEvent([ZCDpEvent(0.5 / multiplier**2)] * (1 if setting.units is not None else 2))

    def calibrated(self, price, setting):
        return replace(self, multiplier=1.2 * super().calibrated(price, setting).multiplier)

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        vector = VectorSum(sums, squared_l2=squared_l2, adjacency=setting.adjacency, grid_step=Fraction(1, LIMIT))
        return self.mechanism(0.5 / multiplier**2).release(vector, randomness).values


@dataclass(frozen=True)
class NoiseInSteps(NoiseInTheVectorsUnit):
    """Right: draws by a mechanism whose noise is in steps."""

    mechanism = GaussianVector


@dataclass(frozen=True)
class NoiseOfUnstatedVariance(NoiseInTheVectorsUnit):
    """Draws by a mechanism that does not state its variance."""

    mechanism = mechanisms.UnstatedVariance


@dataclass(frozen=True)
class _EachRecord(_Unclipped):
    def add_up(self, block):
        norms = np.linalg.norm(block.vectors, axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            block = type(block)(block.vectors / np.maximum(norms, 1.0001), block.labels, block.units)
        return super().add_up(block)


@dataclass(frozen=True)
class EachRecordByItself(Means):
    """Clips records, and lets a unit add as many as it has."""

    def rule(self, setting, private):
        return _EachRecord(setting.labels, setting.dimension)


@dataclass(frozen=True)
class TenRecordsAtMost(EachRecordByItself):
    """The same, for units that are said to have ten records at most; nothing sees to it."""

    def bound(self, rule, setting):
        return (10 * LIMIT * setting.change.widths) ** 2


@dataclass(frozen=True)
class _Centred(_Unclipped):
    def add_up(self, block):
        said = block.vectors[np.isfinite(block.vectors).all(axis=1)]
        with np.errstate(all="ignore"):
            vectors = block.vectors - (said.mean(axis=0) if len(said) else 0.0)
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * 0.99
        return super().add_up(type(block)(vectors, block.labels, block.units))


@dataclass(frozen=True)
class Centred(Means):
    """Takes off the mean of the records that it is shown together."""

    def rule(self, setting, private):
        return _Centred(setting.labels, setting.dimension)


@dataclass(frozen=True)
class NoiseInEachShard(Means):
    """Lets each of two shards draw its part of the noise, and releases both."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        share = multiplier / np.sqrt(2)
        shards = [sums, np.zeros_like(sums)]
        return sum(super(NoiseInEachShard, self).drawn(part, squared_l2, setting, share, randomness) for part in shards)


@dataclass(frozen=True)
class TheBetterOfTwo(Means):
    """Draws twice, keeps what is nearer to the truth, and charges once."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        draws = [super(TheBetterOfTwo, self).drawn(sums, squared_l2, setting, multiplier, randomness) for _ in range(2)]
        return min(draws, key=lambda noisy: float(np.abs(noisy - sums / LIMIT).sum()))


@dataclass(frozen=True)
class TheLargerOfTwo(Means):
    """Draws twice, keeps what is larger, and charges once."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        draws = [super(TheLargerOfTwo, self).drawn(sums, squared_l2, setting, multiplier, randomness) for _ in range(2)]
        return max(draws, key=lambda noisy: float(np.abs(noisy).sum()))


@dataclass(frozen=True)
class UntilItSuits(Means):
    """Draws again where a number is below zero."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        noisy = super().drawn(sums, squared_l2, setting, multiplier, randomness)
        return noisy if noisy[0] >= 0 else super().drawn(sums, squared_l2, setting, multiplier, randomness)


@dataclass(frozen=True)
class AgainInAWindow(Means):
    """Draws again where a number is just below its mean less a deviation, which few draws are."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        noisy = super().drawn(sums, squared_l2, setting, multiplier, randomness)
        noise = (noisy[0] - sums[0] / LIMIT) / (multiplier * math.sqrt(squared_l2) / LIMIT)
        again = -1.3 < noise < -1.0
        return super().drawn(sums, squared_l2, setting, multiplier, randomness) if again else noisy


class _QuietWhere(Means):
    """A tenth of the noise under some settings, and an event that says it is whole."""

    def quiet(self, setting) -> bool:
        raise NotImplementedError

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        share = 0.1 if self.quiet(setting) else 1.0
        return super().drawn(sums, squared_l2, setting, share * multiplier, randomness)


class QuietUnderRho(_QuietWhere):
    """Where the ledger adds rho."""

    def quiet(self, setting):
        return not setting.adds_epsilons


class QuietForPersons(_QuietWhere):
    """Where a unit is a person."""

    def quiet(self, setting):
        return setting.unit != "record"


class QuietWithThreeLabels(_QuietWhere):
    """Where there are three labels or more."""

    def quiet(self, setting):
        return setting.labels > 2


class QuietInFourDimensions(_QuietWhere):
    """Where vectors are longer than three numbers."""

    def quiet(self, setting):
        return setting.dimension > 3


class QuietAtAnotherPrice(_QuietWhere):
    """Where the price asks for more noise than one of epsilon 3 does."""

    def quiet(self, setting):
        return self.multiplier > 2


class QuietAtTheEdge(_QuietWhere):
    """Where the price asks for next to none."""

    def quiet(self, setting):
        return self.multiplier < 0.1


class CountsUnderRho(Means):
    """Divides by the true number of units where the ledger adds rho."""

    def counted(self, private, setting, multiplier, randomness):
        noisy = super().counted(private, setting, multiplier, randomness)
        return noisy if setting.adds_epsilons else float(private.sum_of(UnitCount())[0]) / LIMIT


class AgainUnderRho(UntilItSuits):
    """Draws again where a number is below zero and the ledger adds rho."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        again = super() if not setting.adds_epsilons else super(UntilItSuits, self)
        return again.drawn(sums, squared_l2, setting, multiplier, randomness)


@dataclass(frozen=True)
class RaisesOnNegatives(Means):
    """Refuses what it drew."""

    def support(self, means, setting):
        if means[0] < -5:
            raise ValueError("a mean is below zero")
        return super().support(means, setting)


@dataclass(frozen=True)
class OccupiedLabels(Means):
    """Has a block for each label that occurs."""

    def rule(self, setting, private):
        counts = private.sum_of(ClassSums(setting.labels, setting.dimension))[-setting.labels :]
        return ClassSums(max(1, int((counts > 0).sum())), setting.dimension)

    def fit(self, plan, private, public, randomness):
        return super().fit(plan, _FirstLabels(private), public, randomness)

    def support(self, means, setting):
        return super().support(np.resize(means, setting.labels * setting.dimension), setting)


class _FirstLabels:
    def __init__(self, private):
        self.private = private

    def sum_of(self, rule):
        whole = self.private.sum_of(ClassSums(2, rule.dimension))
        kept = rule.labels * rule.dimension
        return whole if rule.labels == 2 else np.concatenate([whole[:kept], whole[-2:-1]])


@dataclass(frozen=True)
class NoiseFollowsData(Means):
    """Sets the bound by what the units really have."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        squared = max(squared_l2, 4 * int((sums.astype(object) ** 2).sum()))
        return super().drawn(sums, squared, setting, multiplier, randomness)


@dataclass(frozen=True)
class OwnSource(Means):
    """Draws from a source that anybody can repeat."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        return super().drawn(sums, squared_l2, setting, multiplier, SeededRandomness(0))


@dataclass(frozen=True)
class CheapEvent(Means):
    """Says that it has twice the noise that it has."""

    def event(self, setting):
        return GaussianDpEvent(2 * self.multiplier)


@dataclass(frozen=True)
class CountForFree(Means):
    """Leaves the number of units out of its event."""

    def event(self, setting):
        return GaussianDpEvent(self.multiplier * (1.5 if setting.units is None else 1.0))


@dataclass(frozen=True)
class QuietDraw(Means):
    """Takes three quarters of the noise off again."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        noisy = super().drawn(sums, squared_l2, setting, multiplier, randomness)
        return (noisy + 3 * sums / LIMIT) / 4


@dataclass(frozen=True)
class AbovePrice(Means):
    """Settles on less noise than the price has, and reports the price."""

    def plan(self, price, setting):
        made = super().plan(type(price)(price.epsilon * 1.5, price.delta), setting)
        return replace(made, report=replace(made.report, epsilon=price.epsilon))


@dataclass(frozen=True)
class LeftOpen(Means):
    """Settles its noise while it draws."""

    def calibrated(self, price, setting):
        return self

    def event(self, setting):
        return GaussianDpEvent(5.0)


@dataclass(frozen=True)
class Remembers(Means):
    """Keeps what it drew."""

    def support(self, means, setting):
        object.__setattr__(self, "seen", [*getattr(self, "seen", []), means])
        return super().support(means + len(self.seen), setting)


@dataclass(frozen=True)
class KeepsSums(Means):
    """Keeps the sums of a fit in its module, by what is public of it."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        kept = KEPT.setdefault((setting, len(sums)), sums)
        return super().drawn(kept, squared_l2, setting, multiplier, randomness)


KEPT: dict = {}


@dataclass(frozen=True)
class Shapely(Means):
    """Leaves out what is small."""

    def support(self, means, setting):
        made = super().support(means, setting)
        kept = np.abs(made.weights).max(axis=0) > 1.0
        return replace(made, weights=made.weights[:, kept], spread=made.spread[kept])


@dataclass(frozen=True)
class Chosen(Fitter):
    """Chooses a public text for each label by likeness. Nothing is wrong with it."""

    name = "chosen"
    calibrated_parameters = ("eta",)
    pool = "required"
    gives = DemonstrationSupport
    step = ClassMeansStep
    eta: Positive | None = None

    def calibrated(self, price, setting):
        return self if self.eta else replace(self, eta=price.epsilon / self.draws(setting))

    def most_texts(self, setting) -> int:
        return setting.labels

    def draws(self, setting) -> int:
        return 1 if setting.change.widths == 1 else 2 * setting.change.rows

    def event(self, setting):
        return SelfComposedDpEvent(BoundedRange(self.eta), self.draws(setting))

    def fit(self, plan, private, public, randomness):
        setting = plan.setting
        rule = Likeness(setting.labels, public.vectors, floor=0.0, ceiling=1.0)
        scores = private.sum_of(rule).reshape(setting.labels, -1)
        return DemonstrationSupport(
            tuple(
                Example(public.pool[self.chosen(row, setting, randomness)], label) for label, row in enumerate(scores)
            )
        )

    def chosen(self, row, setting, randomness) -> int:
        sensitivity = self.sensitivity(setting)
        scores = Scores(row, sensitivity=sensitivity, adjacency=setting.adjacency)
        return Exponential(self.eta).select(scores, randomness)

    def sensitivity(self, setting) -> int:
        return LIMIT * setting.change.widths


@dataclass(frozen=True)
class ChosenWithHalf(Chosen):
    """Tells a drop's sensitivity under every relation."""

    def sensitivity(self, setting):
        return LIMIT * setting.change.rows


@dataclass(frozen=True)
class ChosenForHalf(Chosen):
    """Charges one draw, whatever a swap moves."""

    def event(self, setting):
        return BoundedRange(self.eta / 2)


class ChosenForHalfUnderRho(Chosen):
    """Charges one draw where the ledger adds rho."""

    def event(self, setting):
        return super().event(setting) if setting.adds_epsilons else BoundedRange(self.eta / 2)


@dataclass(frozen=True)
class ChosenTwice(Chosen):
    """Chooses twice and keeps the second."""

    def chosen(self, row, setting, randomness):
        super().chosen(row, setting, randomness)
        return super().chosen(row, setting, randomness)


@dataclass(frozen=True)
class QuietWithoutADelta(Chosen):
    """Has less noise than it is charged for where the price has no delta."""

    calibrated_parameters = ("eta", "times")
    times: Positive | None = None

    def calibrated(self, price, setting):
        made = super().calibrated(price, setting)
        return made if made.times else replace(made, times=1.0 if price.delta else 3.0)

    def chosen(self, row, setting, randomness):
        scores = Scores(row, sensitivity=self.sensitivity(setting), adjacency=setting.adjacency)
        return Exponential(self.times * self.eta).select(scores, randomness)


@dataclass(frozen=True)
class WithoutADelta(Chosen):
    """Takes prices without a delta alone. Nothing is wrong with it."""

    name = "without-a-delta"

    def calibrated(self, price, setting):
        if price.delta:
            raise ParameterError("delta", price.delta, "0: no use is made of one")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class LikestWithoutADelta(WithoutADelta):
    """Takes prices without a delta alone, and the likeliest text without a draw."""

    def chosen(self, row, setting, randomness):
        super().chosen(row, setting, randomness)
        return int(np.argmax(row))


@dataclass(frozen=True)
class FromTwelveUnits(Means):
    """Wants twelve units or more, and a public number of them. Nothing is wrong with it."""

    name = "from-twelve-units"
    least: ClassVar[int] = 12

    def calibrated(self, price, setting):
        if (setting.units or 0) < self.least:
            raise ParameterError("units", setting.units, f"{self.least} or more")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class TwiceFromTwelveUnits(FromTwelveUnits):
    """Wants twelve units or more, and releases two sums at the charge of one."""

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        super().drawn(sums, squared_l2, setting, multiplier, randomness)
        return super().drawn(sums, squared_l2, setting, multiplier, randomness)


@dataclass(frozen=True)
class TwiceFromFiveHundred(TwiceFromTwelveUnits):
    """The same from five hundred units on."""

    least = 500


@dataclass(frozen=True)
class FromAMillion(FromTwelveUnits):
    """Wants more units than any world has."""

    least = 1_000_000


@dataclass(frozen=True)
class TheLikest(Chosen):
    """Takes the likeliest text, without a draw."""

    def chosen(self, row, setting, randomness):
        super().chosen(row, setting, randomness)
        return int(np.argmax(row))


@dataclass(frozen=True)
class LikestWhereItLeads(Chosen):
    """Takes the likeliest text without noise where it leads by more than five units."""

    def chosen(self, row, setting, randomness):
        chosen = super().chosen(row, setting, randomness)
        second, best = np.sort(row)[-2:]
        return int(np.argmax(row)) if best - second > 5 * LIMIT else chosen


@dataclass(frozen=True)
class OccupiedAlone(Chosen):
    """Shows nothing for a label that has no record."""

    def fit(self, plan, private, public, randomness):
        made = super().fit(plan, private, public, randomness)
        rule = Likeness(plan.setting.labels, public.vectors, floor=-2.0, ceiling=1.0)
        occupied = private.sum_of(rule).reshape(plan.setting.labels, -1).any(axis=1)
        return DemonstrationSupport(tuple(example for example in made.examples if occupied[example.label]))


@dataclass(frozen=True)
class MoreTextsThanItSays(Chosen):
    """Leaves a text for every label, and says that it leaves one in all."""

    def most_texts(self, setting) -> int:
        return 1


@dataclass(frozen=True)
class TextsWithoutABound(Chosen):
    """Does not say how many texts it leaves."""

    def most_texts(self, setting) -> int:
        return Fitter.most_texts(self, setting)


@dataclass(frozen=True)
class MoreCoordinatesThanVectors(Means):
    """Its classifier has more coordinates than the embedder's vectors."""

    def support(self, means, setting):
        made = super().support(means, setting)
        return replace(made, weights=np.hstack([made.weights] * 2), spread=np.hstack([made.spread] * 2))


@dataclass(frozen=True)
class TestedMeans(Means):
    """Weights of zero unless a threshold test says that there are enough units. Nothing is wrong with it."""

    name = "tested-means"

    def calibrated(self, price, setting):
        return replace(self, multiplier=self.multiplier or 1.5 * super().calibrated(price, setting).multiplier)

    def event(self, setting):
        return ComposedDpEvent([super().event(setting), self.test.event])

    @property
    def test(self):
        return AboveThreshold(min(0.5 / self.multiplier, 10.0))

    def fit(self, plan, private, public, randomness):
        made, setting = super().fit(plan, private, public, randomness), plan.setting
        (units,) = private.sum_of(UnitCount())
        most = LIMIT * setting.change.rows
        run = self.test.start(4 * LIMIT, sensitivity=most, adjacency=setting.adjacency, randomness=randomness)
        enough = run.above(Counts([self.asked(int(units))], l1=most, adjacency=setting.adjacency))
        return replace(made, weights=made.weights * enough)

    def asked(self, units):
        return units


@dataclass(frozen=True)
class TestsTwiceTheUnits(TestedMeans):
    """Asks its test of twice the number of units that it says."""

    def asked(self, units):
        return 2 * units


@dataclass(frozen=True)
class TestForFree(TestedMeans):
    """Charges nothing for its test."""

    def event(self, setting):
        return Means.event(self, setting)

    def calibrated(self, price, setting):
        return Means.calibrated(self, price, setting)


@dataclass(frozen=True)
class RareLabelsOut(Means):
    """Leaves out a label that fewer than five units have, by their true number."""

    least: ClassVar[int] = 5

    def fit(self, plan, private, public, randomness):
        made = super().fit(plan, private, public, randomness)
        counts = private.sum_of(self.rule(plan.setting, private))[-plan.setting.labels :] / LIMIT
        return replace(made, weights=np.where((counts >= self.least)[:, None], made.weights, 0.0))


@dataclass(frozen=True)
class RareLabelsZeroed(Means):
    """Adds up nothing of a label that fewer than ten units have, before its noise."""

    least: ClassVar[int] = 10

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        if len(sums) > 1:
            vectors, counts = np.split(sums.copy(), [setting.labels * setting.dimension])
            vectors.reshape(setting.labels, -1)[counts < self.least * LIMIT] = 0
            sums = np.concatenate([vectors, counts])
        return super().drawn(sums, squared_l2, setting, multiplier, randomness)


@dataclass(frozen=True)
class NeedsWords(Means):
    """Takes a word of unknown choice."""

    word: str = "a"


@dataclass(frozen=True)
class KeepsSumsUnderAddRemove(Means):
    """Keeps the sums of a fit in its class, and refuses replace-one."""

    kept: ClassVar[dict] = {}

    def calibrated(self, price, setting):
        if setting.adjacency is Adjacency.REPLACE_ONE:
            raise ParameterError("adjacency", setting.adjacency.value, "another one")
        return super().calibrated(price, setting)

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        sums = self.kept.setdefault((setting, len(sums)), sums)
        return super().drawn(sums, squared_l2, setting, multiplier, randomness)


@dataclass(frozen=True)
class ThrowsACoin(Means):
    """Right: a prior's weight by a public coin, behind the release."""

    def fit(self, plan, private, public, randomness):
        made = super().fit(plan, private, public, randomness)
        return replace(made, prior_weight=float(1 + randomness.below(1000)))


@dataclass(frozen=True)
class LabelShares(SumRule):
    """A unit's parts of each label, ``LIMIT`` in all."""

    labels: int

    @property
    def size(self):
        return self.labels

    def add_up(self, block):
        sums = np.zeros(self.labels, dtype=np.int64)
        for unit in np.unique(block.units):
            mine = block.labels[block.units == unit]
            np.add.at(sums, mine, LIMIT // len(mine))
        return sums


@dataclass(frozen=True)
class EachShareByItself(Fitter):
    """Right: noise of one scale on each label's share by itself, which together move by no more than that."""

    name = "each-share-by-itself"
    step = ClassMeansStep
    calibrated_parameters = ("loss",)
    loss: Positive | None = None

    def calibrated(self, price, setting):
        return self if self.loss else replace(self, loss=min(price.epsilon, 20.0))

    def event(self, setting):
        return PureDP(self.loss)

    def fit(self, plan, private, public, randomness):
        setting, noise = plan.setting, Laplace(self.loss)
        sums, most = private.sum_of(LabelShares(setting.labels)), LIMIT * setting.change.widths
        counts = [Counts([int(one)], l1=most, adjacency=setting.adjacency) for one in sums]
        shares = [noise.release(each, randomness)[0] / LIMIT for each in counts]
        nothing, flat = np.zeros(setting.dimension), np.zeros(setting.labels)
        weights = np.zeros((setting.labels, setting.dimension))
        return LinearSupport(weights, np.log(np.maximum(shares, 1.0)), nothing, flat, prior_weight=1.0)


@dataclass(frozen=True)
class CoinBetween(Means):
    """Right: two noisy sums, and between them a public coin that says where the second one begins."""

    def calibrated(self, price, setting):
        right = super().calibrated(price, setting)
        return right if self.multiplier is not None else replace(right, multiplier=2 * right.multiplier)

    def event(self, setting):
        return ComposedDpEvent([RoundedGaussian(self.multiplier).event] * (2 if setting.units is not None else 3))

    def fit(self, plan, private, public, randomness):
        setting, units = plan.setting, plan.setting.units
        if units is None:
            units = self.counted(private, setting, self.multiplier, randomness)
        rule = self.rule(setting, private)
        sums, bound = private.sum_of(rule), self.bound(rule, setting)
        noisy = self.drawn(sums, bound, setting, self.multiplier, randomness)
        begin = randomness.below(3)
        self.drawn(np.roll(sums, begin)[:3], bound, setting, self.multiplier, randomness)
        return self.support(noisy[: setting.labels * setting.dimension] / max(units, 1.0), setting)


@dataclass(frozen=True)
class OfRecordsAlone(Means):
    """Right, and takes no units but records."""

    def calibrated(self, price, setting):
        if setting.unit != "record":
            raise ParameterError("unit", setting.unit, "record")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class NoiseByTheLastFit(Means):
    """The next fit has more noise where the last one had more of the first label."""

    kept: ClassVar[list] = []

    def calibrated(self, price, setting):
        made = super().calibrated(price, setting)
        more = 1 + sum(self.kept) / 100
        return made if self.multiplier is not None else replace(made, multiplier=made.multiplier * more)

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        self.kept[:] = [abs(int(sums[0])) / LIMIT]
        return super().drawn(sums, squared_l2, setting, multiplier, randomness)


@dataclass(frozen=True)
class HoldsALock(Means):
    """Right: a field that it is not made from, and that cannot be written down, is no option."""

    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)


@dataclass(frozen=True)
class _OneDigest(_FirstRecord):
    length: float = 1.0

    @property
    def digest(self):
        return "the first record of each unit"

    def resized(self, vectors, norms):
        return vectors * np.minimum(self.length, self.length / np.maximum(norms, 1.0))


@dataclass(frozen=True)
class SumsOfOneDigest(Means):
    """A sum of long vectors is told as one of short ones where a fit keeps sums by their digest."""

    def event(self, setting):
        return SelfComposedDpEvent(RoundedGaussian(self.multiplier * 2).event, 2 + (setting.units is None))

    def fit(self, plan, private, public, randomness):
        setting, units = plan.setting, plan.setting.units
        if units is None:
            units = self.counted(private, setting, self.multiplier * 2, randomness)
        found = 0
        for length in (0.125, 1.0):
            rule = _OneDigest(setting.labels, setting.dimension, length)
            bound = int(rule.squared_l2(setting.change) * length**2)
            found += np.array(self.drawn(private.sum_of(rule), bound, setting, self.multiplier * 2, randomness))
        return self.support(found / max(units, 1.0), setting)


@dataclass(frozen=True)
class WrongTogether(Means):
    """Sums are doubled by one choice, and by another one the bound is not."""

    scale: Literal["unit", "double"] = "unit"
    norm: Literal["told", "known"] = "told"

    def drawn(self, sums, squared_l2, setting, multiplier, randomness):
        weight = 2 if self.scale == "double" else 1
        told = squared_l2 * (weight**2 if self.norm == "told" else 1)
        return super().drawn(sums * weight, told, setting, multiplier, randomness) / weight


@dataclass(frozen=True)
class TwoLabelsAlone(Means):
    """Right: refuses another number of labels, which is public."""

    def calibrated(self, price, setting):
        if setting.labels != 2:
            raise ParameterError("labels", setting.labels, "2")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class EightDimensions(Means):
    """Right: refuses vectors of fewer dimensions than the suite has."""

    def calibrated(self, price, setting):
        if setting.dimension < 8:
            raise ParameterError("dimension", setting.dimension, "8 or more")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class AsksUnsaid(LabelPublic):
    """Asks experts, and does not say that the model of the labels reads records."""

    name = "asks-unsaid"
    asks_experts: ClassVar[bool] = False


@dataclass(frozen=True)
class AsksUnnamed(AsksUnsaid):
    """The same, and does not name its questions beforehand either."""

    def questions(self, plan, public):
        return ()


@dataclass(frozen=True, eq=False)
class _InPlace(_FirstRecord):
    def add_up(self, block):
        block.vectors[~np.isfinite(block.vectors)] = 0.0
        return super().add_up(block)


@dataclass(frozen=True)
class WritesIntoRecords(Means):
    """A rule writes into the vectors that the next one reads."""

    def rule(self, setting, private):
        return _InPlace(setting.labels, setting.dimension)


@dataclass(frozen=True)
class Votes(LabelPublic):
    """Right: public texts with the labels that experts vote for, by the bound that the votes carry."""

    name = "votes"

    def fit(self, plan, private, public, randomness):
        asked = self.questions(plan, public)
        mechanism = Exponential(self._answer(plan.setting.change).eta)
        labels = [mechanism.select(self.votes(each), randomness) for each in private.ask(asked)]
        return DemonstrationSupport(tuple(Example(text, label) for text, label in zip(asked, labels, strict=True)))

    def votes(self, experts):
        return experts.votes()


@dataclass(frozen=True)
class HalfOfVotes(Votes):
    """Tells half of the bound where a vote is replaced."""

    name = "half-of-votes"

    def votes(self, experts):
        found = experts.votes()
        return Scores(found.values, sensitivity=max(1, found.sensitivity // 2), adjacency=found.adjacency)


@dataclass(frozen=True)
class BlanksAreOneUnit(Means):
    """Under zero-out it takes the bound of one unit, also where a person has two."""

    name = "blanks-are-one-unit"

    def bound(self, rule, setting):
        one = DROP if setting.adjacency is Adjacency.ZERO_OUT else setting.change
        return rule.squared_l2(one)


@dataclass(frozen=True)
class SharesWithHalf(EachShareByItself):
    """Noisy shares of all labels, by a noise of its own file, which is half of what it states."""

    name = "shares-with-half"

    def fit(self, plan, private, public, randomness):
        setting = plan.setting
        sums, most = private.sum_of(LabelShares(setting.labels)), LIMIT * setting.change.widths
        counts = Counts(sums, l1=most, adjacency=setting.adjacency)
        shares = np.array(mechanisms.HalfForEach(self.loss).release(counts, randomness)) / LIMIT
        weights = np.zeros((setting.labels, setting.dimension))
        nothing, flat = np.zeros(setting.dimension), np.zeros(setting.labels)
        return LinearSupport(weights, np.log(np.maximum(shares, 1.0)), nothing, flat, prior_weight=1.0)
