"""Mechanisms with one mistake each. None is registered."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, ClassVar, Literal
from zlib import crc32

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.above_threshold import AboveThreshold, ThresholdRun
from sottovoce.mechanisms.base import Mechanism, SelectionMechanism
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector, NoisyVector, with_noise
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax, LaplaceNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.mechanisms.stability_histogram import StabilityHistogram, least_lead
from sottovoce.mechanisms.top_k import OneShotTopK
from sottovoce.parameters import Checked
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.privacy.events import BoundedRange, ComposedDpEvent, PureDP, WithFailure, ZCDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import Epsilon
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness, SeededRandomness

if TYPE_CHECKING:
    from no_such_module import Table


@dataclass(frozen=True)
class HalvedSensitivity(Exponential):
    """Uses one width where a vote can move, as the paper's replace-one theorem does."""

    def law(self, scores, log_prior=None):
        return super().law(Scores(scores.values, sensitivity=1, adjacency=scores.adjacency))


@dataclass(frozen=True)
class TooLittleNoise(Exponential):
    """A tenth less noise."""

    def law(self, scores, log_prior=None):
        return Exponential(self.epsilon * 1.1).law(scores)


@dataclass(frozen=True)
class QuietSampler(Exponential):
    """States its law and draws with half of its noise."""

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        return Exponential(2 * self.epsilon).select(scores, randomness)


class KeepsItsLaw(Exponential):
    """Laws are kept by the scores and all that they are told, but not by the epsilon of the mechanism."""

    kept: ClassVar[dict[object, object]] = {}

    def of(self, scores, log_prior):
        prior = None if log_prior is None else np.asarray(log_prior).tobytes()
        key = scores.values.tobytes(), scores.sensitivity, scores.adjacency, scores.squared_l2, prior
        return self.kept.setdefault(key, Exponential(self.epsilon))

    def law(self, scores, log_prior=None):
        return Exponential.law(self.of(scores, log_prior), scores, log_prior)

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        return Exponential.select(self.of(scores, log_prior), scores, randomness, log_prior)


class KeepsItsTable(Exponential):
    """States its law, and draws by a table that it keeps for the same scores, whatever their sensitivity is."""

    kept: ClassVar[dict[object, object]] = {}

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        told = self.kept.setdefault((self.epsilon, scores.values.tobytes(), scores.adjacency), scores)
        return super().select(told, randomness, log_prior)


class _Noise(Mechanism):
    """Laplace noise, whose scale is the subclass's own."""

    def release(self, counts: Counts, randomness: Randomness):
        scale = self.scale(counts)
        return tuple(value + sample_discrete_laplace(scale, randomness) for value in counts.values.tolist())

    def noise_law(self, counts: Counts, reach: int):
        rate = float(1 / self.scale(counts))
        return np.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))


class PlainLaplace(_Noise):
    """Right, and no dataclass."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    @property
    def event(self):
        return PureDP(self.epsilon)

    def scale(self, counts):
        return counts.l1 / exact(self.epsilon)


@dataclass(frozen=True)
class HoldsAnArray(_Noise):
    """Right: its epsilon is the sum of an array, which is not equal to another one by one word."""

    shares: np.ndarray = field(default_factory=lambda: np.array([0.3, 0.4]))

    @property
    def event(self):
        return PureDP(float(self.shares.sum()))

    def scale(self, counts):
        return counts.l1 / exact(float(self.shares.sum()))


class KeepsAPlainTable(PlainLaplace):
    """No dataclass; its scale is kept for the same bound, whatever its epsilon is."""

    kept: ClassVar[dict[object, Fraction]] = {}

    def scale(self, counts):
        return self.kept.setdefault((counts.l1, counts.adjacency), super().scale(counts))


@dataclass(frozen=True)
class KeepsAShare(_Noise):
    """One of so many releases of a budget; its scale is kept by epsilon and bound, whatever their number is."""

    epsilon: float
    releases: int = 1
    kept: ClassVar[dict[object, Fraction]] = {}

    @property
    def event(self):
        return PureDP(self.epsilon / self.releases)

    def scale(self, counts):
        key = self.epsilon, counts.l1, counts.adjacency
        return self.kept.setdefault(key, counts.l1 * self.releases / exact(self.epsilon))


@dataclass(frozen=True)
class KeepsASum(_Noise):
    """Epsilons that are added up; the scale is kept by how many there are."""

    shares: tuple[float, ...]
    kept: ClassVar[dict[object, Fraction]] = {}

    @property
    def event(self):
        return PureDP(sum(self.shares))

    def scale(self, counts):
        key = len(self.shares), counts.l1, counts.adjacency
        return self.kept.setdefault(key, counts.l1 / exact(sum(self.shares)))


@dataclass(frozen=True)
class KeepsWhatIsSetAside(_Noise):
    """A share of its epsilon is set aside for something else; the scale is kept by the epsilon."""

    epsilon: float
    aside: float = 0.0
    kept: ClassVar[dict[object, Fraction]] = {}

    @property
    def event(self):
        return PureDP(self.epsilon * (1 - self.aside))

    def scale(self, counts):
        key = self.epsilon, counts.l1, counts.adjacency
        return self.kept.setdefault(key, counts.l1 / exact(self.epsilon * (1 - self.aside)))


@dataclass(frozen=True)
class KeepsALongList(SelectionMechanism):
    """A list of the best by the exponential mechanism over all lists; its rate is kept, whatever epsilon is."""

    epsilon: float
    size: int = 5
    kept: ClassVar[dict[object, float]] = {}

    @property
    def k(self):
        return self.size

    @property
    def event(self):
        return BoundedRange(self.epsilon)

    def law(self, scores):
        rate = self.kept.setdefault((self.size, scores.sensitivity, scores.adjacency), self.epsilon)
        every = [*itertools.permutations(range(len(scores.values)), self.size)]
        least = [min(scores.values[at] for at in each) for each in every]
        weights = np.exp(rate * (np.array(least) - max(least)) / scores.sensitivity)
        return dict(zip(every, (weights / weights.sum()).tolist(), strict=True))

    def select(self, scores: Scores, randomness: Randomness):
        law = self.law(scores)
        cut = randomness.below(1 << 53) / (1 << 53)
        return [*law][int(min(np.searchsorted(np.cumsum([*law.values()]), cut, side="right"), len(law) - 1))]


@dataclass(frozen=True)
class KeepsAnInnerScale(_Noise):
    """Noise of another mechanism, whose scale is kept by the bound, whichever that is."""

    noise: Laplace
    kept: ClassVar[dict[object, Fraction]] = {}

    @property
    def event(self):
        return self.noise.event

    def scale(self, counts):
        return self.kept.setdefault((counts.l1, counts.adjacency), self.noise.scale(counts))


class KeepsAPlainInnerScale(KeepsAnInnerScale):
    """The same, of one that is no dataclass."""

    kept: ClassVar[dict[object, Fraction]] = {}


@dataclass(frozen=True)
class KeepsTheFirstMade(_Noise):
    """A step's noise is worked out when the first one is made, and kept for all."""

    epsilon: float
    unit: ClassVar[Fraction | None] = None

    def __post_init__(self):
        if type(self).unit is None:
            type(self).unit = 1 / exact(self.epsilon)

    @property
    def event(self):
        return PureDP(self.epsilon)

    def scale(self, counts):
        return counts.l1 * self.unit


@dataclass(frozen=True)
class FloatSampler(Exponential):
    """Softmax in float32, rounded to the grid of a 24-bit uniform: far candidates become impossible."""

    def law(self, scores, log_prior=None):
        logits = np.float32(self.epsilon) * (scores.values - scores.values.max()) / np.float32(scores.sensitivity)
        p = np.exp(logits.astype(np.float32))
        edges = np.round(np.cumsum(p / p.sum(dtype=np.float32), dtype=np.float32) * 2**24)
        return [Fraction(int(w), 2**24) for w in np.diff(np.concatenate([[0], edges]))]


@dataclass(frozen=True)
class HalvedLaplace(LaplaceNoisyMax):
    """Noise for one count that moves by one, where a vote moves two."""

    def scale(self, scores):
        return super().scale(scores) / 2


@dataclass(frozen=True)
class FirstOfEqualBest(PermuteAndFlip):
    """Takes the best score without noise when it is alone: a shortcut that is one change away from a tie."""

    def law(self, scores):
        best = scores.values == scores.values.max()
        if best.sum() > 1:
            return super().law(scores)
        return [Fraction(10**12, 10**12 + 1) if b else Fraction(1, 10**13) for b in best]


@dataclass(frozen=True)
class AsBoundedRange(PermuteAndFlip):
    """A pure mechanism that is charged as bounded range, which composes better."""

    @property
    def event(self):
        return BoundedRange(self.epsilon)


@dataclass(frozen=True)
class HalvedVariance(GaussianNoisyMax):
    """Gaussian noise for one vote where two counts move."""

    def sigma2(self, scores):
        return super().sigma2(scores) / 2


@dataclass(frozen=True)
class NarrowLaplace(Laplace):
    """Noise on counts of half the scale."""

    def scale(self, counts):
        return super().scale(counts) / 2


@dataclass(frozen=True)
class NarrowVector(GaussianVector):
    """A vector sum with half of the variance."""

    def noise_variance(self, vector: VectorSum):
        return super().noise_variance(vector) / 2


@dataclass(frozen=True)
class SkewedSampler(Laplace):
    """States symmetric noise and never draws below zero."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        return tuple(
            max(int(value), noisy)
            for value, noisy in zip(counts.values, super().release(counts, randomness), strict=True)
        )


class SharedNoise(Laplace):
    """One noise for all counts: their differences are released as they are."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        noise = sample_discrete_laplace(self.scale(counts), randomness)
        return tuple(value + noise for value in counts.values.tolist())


class SharedVectorNoise(GaussianVector):
    """One noise for all coordinates."""

    def release(self, vector: VectorSum, randomness: Randomness):
        noise = sample_discrete_gaussian(self.noise_variance(vector), randomness)
        return with_noise(vector, (noise for _ in range(vector.values.size)))


class SilentOnNonzero(Laplace):
    """No noise on counts other than zero."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        noisy = super().release(counts, randomness)
        return tuple(n if v == 0 else v for v, n in zip(counts.values.tolist(), noisy, strict=True))


class SharedItemNoise(StabilityHistogram):
    """All items above the threshold or none, by one noise."""

    def release(self, items: ItemCounts, randomness: Randomness):
        noisy = dict(super().release(items, randomness))
        return dict.fromkeys(["a", "b"], noisy["a"]) if "a" in noisy else {}


class ShortcutSelect(Exponential):
    """A candidate that leads by ten is taken without noise; the law does not say so."""

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        second, best = np.sort(scores.values)[-2:]
        if best - second >= 10:
            return int(scores.values.argmax())
        return super().select(scores, randomness, log_prior)


class QuietWhenAdded(Exponential):
    """Draws with a tenth of the noise under add-remove."""

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        factor = 10 if scores.adjacency is Adjacency.ADD_REMOVE else 1
        return Exponential(factor * self.epsilon).select(scores, randomness, log_prior)


class QuietWhenZeroed(Exponential):
    """Law and draws have half of the noise under zero-out."""

    def _at(self, scores: Scores) -> Exponential:
        return Exponential(self.epsilon * (2 if scores.adjacency is Adjacency.ZERO_OUT else 1))

    def law(self, scores, log_prior=None):
        return self._at(scores).law(scores, log_prior)

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        return self._at(scores).select(scores, randomness, log_prior)


class QuietWithPrior(Exponential):
    """Law and draws have a fifth of the noise where there is a prior."""

    def law(self, scores, log_prior=None):
        return Exponential(self.epsilon * (1 if log_prior is None else 5)).law(scores, log_prior)


class QuietDrawsWithPrior(Exponential):
    """The same, of the draws alone."""

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        return Exponential(self.epsilon * (1 if log_prior is None else 5)).select(scores, randomness, log_prior)


class _QuietWhere(Exponential):
    """The best score without noise in some worlds; the law does not say so."""

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        second, best = np.sort(scores.values)[-2:]
        if self.quiet(scores, best - second):
            return int(scores.values.argmax())
        return super().select(scores, randomness, log_prior)


class LongLead(_QuietWhere):
    """At a lead of three sensitivities."""

    def quiet(self, scores, lead):
        return lead >= 3 * scores.sensitivity


class LongSteps(_QuietWhere):
    """At a lead of 31 steps."""

    def quiet(self, scores, lead):
        return lead >= 31


class TwoCandidates(_QuietWhere):
    """Unless there are four candidates."""

    def quiet(self, scores, lead):
        return len(scores.values) != 4


class Ties(_QuietWhere):
    """Unless all scores differ."""

    def quiet(self, scores, lead):
        return len(set(scores.values.tolist())) < len(scores.values)


class WideBounds(_QuietWhere):
    """At a sensitivity above 15."""

    def quiet(self, scores, lead):
        return scores.sensitivity > 15


class BoundsBetween(_QuietWhere):
    """At sensitivities from 3 to 14, such as of several votes a unit."""

    def quiet(self, scores, lead):
        return 3 <= scores.sensitivity <= 14


class SixCandidates(_QuietWhere):
    """With six candidates."""

    def quiet(self, scores, lead):
        return len(scores.values) == 6


class AllEqual(_QuietWhere):
    """Where all scores are equal."""

    def quiet(self, scores, lead):
        return np.ptp(scores.values) == 0


class FourthNoise(Laplace):
    """Three noises, used again from the fourth count on."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        values = counts.values.tolist()
        noise = [n - v for n, v in zip(super().release(counts, randomness), values, strict=True)]
        return tuple(value + noise[place % 3] for place, value in enumerate(values))


class NoneFromFour(Laplace):
    """No noise from the fourth count on, nor on counts above seven."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        both = zip(counts.values.tolist(), super().release(counts, randomness), strict=True)
        return tuple(n if place < 3 and v <= 7 else v for place, (v, n) in enumerate(both))


class EvenNoise(Laplace):
    """Noise that is even: whether a count is odd is released as it is. The law does not say so."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        noisy = super().release(counts, randomness)
        return tuple(n - (n - v) % 2 for v, n in zip(counts.values.tolist(), noisy, strict=True))


class OtherBounds(Laplace):
    """No noise on counts other than zero, unless a unit moves two."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        both = zip(counts.values.tolist(), super().release(counts, randomness), strict=True)
        return tuple(n if v == 0 or counts.l1 == 2 else v for v, n in both)


class RangeForNorm(GaussianNoisyMax):
    """Takes the range of a move of scores for its norm: many candidates that move at once move further."""

    def sigma2(self, scores):
        bound = scores.sensitivity
        least = min(scores.squared_l2, bound**2)
        return super().sigma2(Scores(scores.values, sensitivity=bound, adjacency=scores.adjacency, squared_l2=least))


class LaplaceOnNorm(GaussianVector):
    """Laplace noise on a vector, of the scale that one number's move asks: many that move at once, more than four, lose
    more.
    """

    @property
    def event(self):
        return PureDP(self.rho)

    def scale(self, vector: VectorSum) -> Fraction:
        return (vector.squared_l2 if vector.squared_l2 < 5 else isqrt(vector.squared_l2)) / exact(self.rho)

    def release(self, vector: VectorSum, randomness: Randomness):
        return with_noise(vector, (sample_discrete_laplace(self.scale(vector), randomness) for _ in vector.values))

    def noise_law(self, vector: VectorSum, reach: int):
        rate = float(1 / self.scale(vector))
        return np.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))


class NoCapInScale(StabilityHistogram):
    """Noise for one item of a unit, whatever the cap."""

    def scale(self, items: ItemCounts) -> Fraction:
        return items.change.widths / exact(self.epsilon)


class NoCapInThreshold(StabilityHistogram):
    """Every new item of a unit may show with the whole failure probability."""

    def threshold(self, items: ItemCounts) -> int:
        rows = items.change.rows
        return rows + least_lead(self.scale(items), exact(self.failure_delta) / rows)


class OneNewUnit(StabilityHistogram):
    """Every changed unit may show new items with the whole failure probability."""

    def threshold(self, items: ItemCounts) -> int:
        return items.change.rows + least_lead(self.scale(items), exact(self.failure_delta) / items.items_per_unit)


class OneNewUnitMoreOften(OneNewUnit):
    """The same, for a failure probability that no other event has."""


class DrawsWithoutCap(StabilityHistogram):
    """Draws with noise for one item of a unit. The law does not say so."""

    def release(self, items: ItemCounts, randomness: Randomness):
        scale, threshold = super().scale(items) / items.items_per_unit, self.threshold(items)
        noisy = {item: count + sample_discrete_laplace(scale, randomness) for item, count in items.counts.items()}
        return tuple((item, count) for item, count in noisy.items() if count > threshold)


class OwnNoise(Laplace):
    """Draws from a generator of its own: whoever knows its seed can take the noise off."""

    own: ClassVar[Randomness] = SeededRandomness(0)

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        return super().release(counts, self.own)


class OwnNoiseOfEachSource(Laplace):
    """The same, with a generator for every source."""

    own: ClassVar[dict[int, tuple[Randomness, Randomness]]] = {}

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        own = self.own.setdefault(id(randomness), (SeededRandomness(0), randomness))
        return super().release(counts, own[0])


class NoiseOfTheNumbers(Laplace):
    """Draws several counts from a generator whose seed is these counts: the same counts have the same noise."""

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        own = SeededRandomness(crc32(counts.values.tobytes()))
        return super().release(counts, own if len(counts.values) > 1 else randomness)


class OwnItems(StabilityHistogram):
    """Draws from a generator of its own."""

    own: ClassVar[Randomness] = SeededRandomness(0)

    def release(self, items: ItemCounts, randomness: Randomness):
        return super().release(items, self.own)


class NoiseInTheVectorsUnit(GaussianVector):
    """Works its noise out in the vector's own unit, and draws it in steps."""

    def noise_variance(self, vector: VectorSum):
        return super().noise_variance(vector) * vector.grid_step**2


class NarrowRounded(RoundedGaussian):
    """A vector sum with a thousandth of the deviation."""

    def noise_variance(self, vector: VectorSum):
        return super().noise_variance(vector) / 10**6


class NoiseOfTheMean(GaussianVector):
    """A mean of m moves by an m-th of a sum, and the noise goes on the sum."""

    def noise_variance(self, vector: VectorSum):
        return super().noise_variance(vector) / vector.denominator**2


class DrawsInTheVectorsUnit(GaussianVector):
    """The same of the draws alone: the law is right."""

    def release(self, vector: VectorSum, randomness: Randomness):
        variance = self.noise_variance(vector) * vector.grid_step**2
        return with_noise(vector, (sample_discrete_gaussian(variance, randomness) for _ in vector.values))


@dataclass(frozen=True)
class UnstatedVariance(Mechanism):
    """Right: a vector sum with Gaussian noise, of which it states the law and no variance."""

    rho: float

    @property
    def event(self):
        return ZCDpEvent(self.rho)

    def release(self, vector: VectorSum, randomness: Randomness) -> NoisyVector:
        scale = Fraction(vector.squared_l2) / (2 * exact(self.rho))
        return with_noise(vector, (sample_discrete_gaussian(scale, randomness) for _ in vector.values))

    def noise_law(self, vector: VectorSum, reach: int):
        return GaussianVector(self.rho).noise_law(vector, reach)


class NormUnstated(GaussianNoisyMax):
    """Takes the range of a move of scores for its norm where that is not stated."""

    def sigma2(self, scores):
        bound = scores.sensitivity
        known = scores.squared_l2 or bound**2
        return super().sigma2(Scores(scores.values, sensitivity=bound, adjacency=scores.adjacency, squared_l2=known))


class BoundOfTwo(AboveThreshold):
    """The noise of queries that move by two, however far they move."""

    def scale(self, sensitivity: int):
        return super().scale(2)


class HalfWhenAdded(AboveThreshold):
    """Half of the noise under add-remove, where counts all move one way, it says."""

    def start(self, threshold: int, *, sensitivity: int, adjacency: Adjacency, randomness: Randomness) -> ThresholdRun:
        scale = self.scale(sensitivity) / (2 if adjacency is Adjacency.ADD_REMOVE else 1)
        return ThresholdRun(threshold, scale, sensitivity, adjacency, randomness)


class ItemsByAdjacency(StabilityHistogram):
    """Draws for a unit that comes or goes, unless the adjacency is replace-one, also where it has other items then."""

    def release(self, items: ItemCounts, randomness: Randomness):
        widths = 2 if items.adjacency is Adjacency.REPLACE_ONE else 1
        scale, threshold = widths * items.items_per_unit / exact(self.epsilon), self.threshold(items)
        noisy = ((item, n + sample_discrete_laplace(scale, randomness)) for item, n in sorted(items.counts.items()))
        return tuple((item, count) for item, count in noisy if count > threshold)


class Bare(Exponential):
    """Right: draws anew, without annotations."""

    def select(self, scores, randomness):
        return super().select(scores, randomness)


class FewCandidates(Exponential):
    """Right: draws of few candidates, and takes no prior."""

    def select(self, scores: Scores, randomness: Randomness) -> int:
        if len(scores.values) > 50:
            raise ParameterError("scores", len(scores.values), "50 candidates at most")
        return super().select(scores, randomness)


class PriorByAnotherName(Exponential):
    """Draws with a fifth of the noise where there is a prior, which has another name."""

    def select(self, scores: Scores, randomness: Randomness, weights=None) -> int:
        return Exponential(self.epsilon * (1 if weights is None else 5)).select(scores, randomness, weights)


class PriorWithoutAnnotations(PriorByAnotherName):
    """The same without annotations."""

    def select(self, scores, randomness, prior=None):
        return super().select(scores, randomness, prior)


class PriorByItsNameAlone(PriorByAnotherName):
    """The same, of a prior that is given by its name alone."""

    def select(self, scores: Scores, randomness: Randomness, *, log_prior=None) -> int:
        return super().select(scores, randomness, log_prior)


class PriorOfItsLawToo(PriorByAnotherName):
    """The same, and its law states it, by a third name."""

    def law(self, scores, prior=None):
        return Exponential(self.epsilon * (1 if prior is None else 5)).law(scores, prior)


class WhateverComes(Exponential):
    """Hands on whatever comes: what it takes cannot be told."""

    def select(self, *given):
        return super().select(*given)


class PriorBesideAnother(Exponential):
    """Its law takes a prior behind something else, by its usual name."""

    def law(self, scores, exactly=True, first_prior=None, log_prior=None):
        return super().law(scores, log_prior)

    def select(self, scores: Scores, randomness: Randomness, *, prior=None) -> int:
        return super().select(scores, randomness, prior)


class MaskBesideAPrior(Exponential):
    """Half of the noise behind a public mask, which law and draws take besides."""

    def law(self, scores, log_prior=None, allowed=None):
        return Exponential(self.epsilon * (1 if allowed is None else 2)).law(scores, log_prior)

    def select(self, scores: Scores, randomness: Randomness, log_prior=None, allowed=None) -> int:
        return Exponential(self.epsilon * (1 if allowed is None else 2)).select(scores, randomness, log_prior)


class PriorWithoutLaw(PermuteAndFlip):
    """Takes a prior where it draws, and states no law beside one."""

    def select(self, scores: Scores, randomness: Randomness, prior=None) -> int:
        return int(np.argmax(prior)) if prior is not None else super().select(scores, randomness)


class LightWhereAsked(Laplace):
    """Half of the noise where light noise is asked for."""

    def release(self, counts: Counts, randomness: Randomness, light: bool = False) -> tuple[int, ...]:
        return Laplace(self.epsilon * (2 if light else 1)).release(counts, randomness)


class LightVectorWhereAsked(GaussianVector):
    """The same of a vector."""

    def release(self, vector: VectorSum, randomness: Randomness, *, light: bool = False) -> NoisyVector:
        return GaussianVector(self.rho * (2 if light else 1)).release(vector, randomness)


class LightItemsWhereAsked(StabilityHistogram):
    """The same of items."""

    def release(self, items: ItemCounts, randomness: Randomness, light: bool = False):
        epsilon = self.epsilon * (2 if light else 1)
        return StabilityHistogram(epsilon, self.failure_delta).release(items, randomness)


class LightTestsWhereAsked(AboveThreshold):
    """The same of tests."""

    def start(self, threshold: int, *, sensitivity: int, adjacency: Adjacency, randomness: Randomness, light=False):
        noise = AboveThreshold(self.epsilon * (2 if light else 1))
        return noise.start(threshold, sensitivity=sensitivity, adjacency=adjacency, randomness=randomness)


class DrawsInTwoWays(Laplace):
    """Half of the noise in a second method that draws."""

    def release_lightly(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        return Laplace(2 * self.epsilon).release(counts, randomness)


class DrawsInTwoWaysByName(Laplace):
    """The same without annotations."""

    def release_lightly(self, counts, randomness):
        return Laplace(2 * self.epsilon).release(counts, randomness)


class DrawsInTwoWaysByDefault(Laplace):
    """The same by a source of its own, where none is given."""

    def release_lightly(self, counts: Counts, source: Randomness | None = None) -> tuple[int, ...]:
        return Laplace(2 * self.epsilon).release(counts, source or SeededRandomness(1))


class DrawsInTwoWaysOfItsClass(Laplace):
    """The same by a method of its class."""

    @classmethod
    def release_lightly(cls, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        return Laplace(1.4).release(counts, randomness)


class CheapTest(ProposeTestRelease):
    """Charges a thousandth of its failures."""

    @property
    def event(self):
        return WithFailure(ZCDpEvent(0.5 / self.sigma**2), self.failure_delta / 1000, exclusive=True)


class FloorNorm(GaussianVector):
    """Noise for the norm in whole steps, rounded down."""

    def noise_variance(self, vector):
        return Fraction(isqrt(vector.squared_l2) ** 2) / (2 * exact(self.rho))


class BoundOfOneBesideAPrior(Exponential):
    """Takes a move for one step of a vote beside a prior, whatever its scores are told."""

    def law(self, scores, log_prior=None):
        return super().law(scores if log_prior is None else _of_one_vote(scores), log_prior)

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        return super().select(scores if log_prior is None else _of_one_vote(scores), randomness, log_prior)


def _of_one_vote(scores):
    width = 2 if scores.adjacency is Adjacency.REPLACE_ONE else 1
    return Scores(scores.values, sensitivity=width, adjacency=scores.adjacency)


class SmallCounts(Laplace):
    """Right: refuses counts that move by more than 255."""

    def scale(self, counts):
        if counts.l1 > 255:
            raise ParameterError("l1", counts.l1, "255 at most")
        return super().scale(counts)


class CappedNoise(Laplace):
    """No more noise than a bound of 40 needs."""

    def scale(self, counts):
        return min(counts.l1, 40) / exact(self.epsilon)


class CappedSelection(Exponential):
    """The same of scores."""

    def law(self, scores, log_prior=None):
        return super().law(_capped(scores), log_prior)

    def select(self, scores: Scores, randomness: Randomness, log_prior=None) -> int:
        return super().select(_capped(scores), randomness, log_prior)


def _capped(scores):
    return Scores(scores.values, sensitivity=min(scores.sensitivity, 40), adjacency=scores.adjacency)


class HalfTest(ProposeTestRelease):
    """Tests a lead with half of the noise."""

    def told(self, scores):
        return scores

    def share(self, scores):
        return Fraction(1, 2)

    def release(self, scores: Scores, randomness: Randomness):
        told = self.told(scores)
        best, gap = self._best_and_gap(told)
        variance = self.noise_variance(told.sensitivity) * self.share(scores) ** 2
        noisy_gap = gap + sample_discrete_gaussian(variance, randomness)
        return best if noisy_gap > self.threshold(told.sensitivity) else None


class HalfTestAtSomeBounds(HalfTest):
    """The same at sensitivities from 3 to 14 alone."""

    def share(self, scores):
        return Fraction(1, 2) if 3 <= scores.sensitivity <= 14 else Fraction(1)


class DropTest(HalfTest):
    """Tests a lead as if a unit moved half as much."""

    def told(self, scores):
        return Scores(scores.values, sensitivity=max(1, scores.sensitivity // 2), adjacency=scores.adjacency)

    def share(self, scores):
        return Fraction(1)


class TwiceTest(DropTest):
    """Tests a lead of scores that count twice."""

    def told(self, scores):
        return Scores(2 * scores.values, sensitivity=scores.sensitivity, adjacency=scores.adjacency)


class TwiceTestWhenZeroed(TwiceTest):
    """The same under zero-out alone."""

    def told(self, scores):
        return super().told(scores) if scores.adjacency is Adjacency.ZERO_OUT else scores


class QuietTest(ProposeTestRelease):
    """Law and draws have half of the noise that is charged, and the threshold of that noise."""

    def noise_variance(self, sensitivity):
        return super().noise_variance(sensitivity) / 4


class QuietTestOfThree(ProposeTestRelease):
    """The same where a unit moves three or more."""

    def noise_variance(self, sensitivity):
        return super().noise_variance(sensitivity) / (4 if sensitivity > 2 else 1)


@dataclass(frozen=True)
class SetOfASize(Checked, Mechanism):
    """Right: tests the lead of several candidates, whose number is not called k, and releases them without order."""

    sigma: float
    size: int

    @property
    def test(self):
        return ProposeTestRelease(self.sigma, 1e-6, self.size)

    @property
    def event(self):
        return self.test.event

    def law(self, scores: Scores):
        return {released and frozenset(released): p for released, p in self.test.law(scores).items()}

    def release(self, scores: Scores, randomness: Randomness):
        released = self.test.release(scores, randomness)
        return released and frozenset(released)


class SetOfTwice(SetOfASize):
    """The same of scores that count twice; the law does not say so."""

    def release(self, scores: Scores, randomness: Randomness):
        twice = Scores(2 * scores.values, sensitivity=scores.sensitivity, adjacency=scores.adjacency)
        return super().release(twice, randomness)


class HalfForEach(Laplace):
    """Half of the noise: each of two counts moves by half of what both move by, it says."""

    def scale(self, counts: Counts) -> Fraction:
        return super().scale(counts) / 2


@dataclass(frozen=True)
class ByUnit(Laplace):
    """So little noise on per cents that floats know of no number that two neighbours can both have."""

    unit: Literal["count", "percent"] = "count"

    def scale(self, counts: Counts) -> Fraction:
        return super().scale(counts) / (1_000 if self.unit == "percent" else 1)


@dataclass(frozen=True)
class EachCountItsShare(Checked, Mechanism):
    """Right: every count at an equal share of epsilon, each as if it moved by all that they move by."""

    epsilon: Epsilon = 1.0

    @property
    def event(self):
        return PureDP(self.epsilon)

    def scale(self, counts: Counts) -> Fraction:
        return Fraction(counts.l1 * len(counts.values)) / exact(self.epsilon)

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        scale = self.scale(counts)
        return tuple(value + sample_discrete_laplace(scale, randomness) for value in counts.values.tolist())

    def noise_law(self, counts: Counts, reach: int):
        rate = float(1 / self.scale(counts))
        return np.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))


class OwnTests(AboveThreshold):
    """Starts runs that draw from a generator of its own."""

    own: ClassVar[Randomness] = SeededRandomness(0)

    def start(self, threshold: int, *, sensitivity: int, adjacency: Adjacency, randomness: Randomness) -> ThresholdRun:
        return super().start(threshold, sensitivity=sensitivity, adjacency=adjacency, randomness=self.own)


class EndlessRun(ThresholdRun):
    """Can be asked again after a yes, under the same noise on the threshold."""

    def above(self, query: Counts) -> bool:
        answer, self.over = super().above(query), False
        return answer


class Endless(AboveThreshold):
    """A run of threshold tests that goes on after its first yes, for one charge."""

    def start(self, threshold: int, *, sensitivity: int, adjacency: Adjacency, randomness: Randomness) -> ThresholdRun:
        return EndlessRun(threshold, self.scale(sensitivity), sensitivity, adjacency, randomness)


@dataclass(frozen=True)
class WithoutLaw(SelectionMechanism):
    """States no law."""

    epsilon: float = 1.0
    law = None  # type: ignore[assignment]

    @property
    def event(self):
        return PureDP(self.epsilon)

    def select(self, scores: Scores, randomness: Randomness) -> int:
        return 0


@dataclass(frozen=True)
class TakesWords(Mechanism):
    """Takes something that the suite has no worlds of."""

    epsilon: float = 1.0

    @property
    def event(self):
        return PureDP(self.epsilon)

    def release(self, words: str, randomness: Randomness) -> str:
        return words


class UndividedSums(GaussianVector):
    """Right: takes no sum that is divided afterwards, and no fractions of steps."""

    def release(self, vector: VectorSum, randomness: Randomness) -> NoisyVector:
        if vector.denominator != 1 or vector.grid_step.denominator != 1:
            given = f"in steps of {vector.grid_step}, divided by {vector.denominator}"
            raise ParameterError("vector", given, "a sum of whole numbers")
        return super().release(vector, randomness)


class NarrowBelowZero(AboveThreshold):
    """Draws a quarter of its noise at thresholds below 0, for which it states no law."""

    def law(self, queries, threshold: int, sensitivity: int):
        if threshold < 0:
            raise ParameterError("threshold", threshold, "0 or more")
        return super().law(queries, threshold, sensitivity)


class SmallThresholds(AboveThreshold):
    """Right: takes thresholds from 1 to 20, and counts that one unit moves by 2 at most."""

    def start(self, threshold: int, *, sensitivity: int, adjacency, randomness: Randomness):
        self.check(threshold, sensitivity)
        return super().start(threshold, sensitivity=sensitivity, adjacency=adjacency, randomness=randomness)

    def law(self, queries, threshold: int, sensitivity: int):
        self.check(threshold, sensitivity)
        return super().law(queries, threshold, sensitivity)

    def check(self, threshold, sensitivity):
        if not 1 <= threshold <= 20 or sensitivity > 2:
            raise ParameterError("threshold", threshold, "1 to 20")


@dataclass(frozen=True)
class InOrder(Checked, Mechanism):
    """Right: several different candidates in order, whose number is not called k."""

    epsilon: Epsilon
    length: int

    @property
    def event(self):
        return OneShotTopK(self.epsilon, self.length).event

    def law(self, scores: Scores):
        return OneShotTopK(self.epsilon, self.length).law(scores)

    def select(self, scores: Scores, randomness: Randomness):
        return OneShotTopK(self.epsilon, self.length).select(scores, randomness)


@dataclass(frozen=True)
class HalfWhereFine(Laplace):
    """Half of the noise at a choice that its example does not make."""

    fine: bool = False

    def scale(self, counts):
        return super().scale(counts) / (2 if self.fine else 1)


@dataclass(frozen=True)
class HalfOfAnAdjacency(Laplace):
    """Half of the noise at another adjacency than that of its example."""

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def scale(self, counts):
        return super().scale(counts) / (2 if self.adjacency is Adjacency.ADD_REMOVE else 1)


@dataclass(frozen=True)
class Form:
    """How noise is formed."""

    kind: Literal["plain", "sharp"] = "plain"


@dataclass(frozen=True)
class HalfInAForm(Laplace):
    """Half of the noise at a choice inside an option."""

    form: Form = Form()

    def scale(self, counts):
        return super().scale(counts) / (2 if self.form.kind == "sharp" else 1)


@dataclass(frozen=True)
class OfEitherNoise(Checked, Mechanism):
    """Right: Laplace noise, or Gaussian noise where a rho is given in place of an epsilon."""

    epsilon: float | None = None
    rho: float | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"

    @property
    def event(self):
        return PureDP(self.epsilon) if self.noise == "laplace" else ZCDpEvent(self.rho)

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        return Laplace(self.epsilon).release(counts, randomness)

    def noise_law(self, counts: Counts, reach: int):
        return Laplace(self.epsilon).noise_law(counts, reach)


@dataclass(frozen=True)
class NamedForCheckers(Mechanism):
    """Right: a field is annotated by what is imported for type checkers alone."""

    epsilon: float
    table: Table | None = None

    @property
    def event(self):
        return PureDP(self.epsilon)

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        return Laplace(self.epsilon).release(counts, randomness)

    def noise_law(self, counts: Counts, reach: int):
        return Laplace(self.epsilon).noise_law(counts, reach)


@dataclass(frozen=True)
class OneByChance(ProposeTestRelease):
    """Right: where the test fails, candidates that are drawn by chance."""

    share: ClassVar[int] = 1
    drawn_share: ClassVar[int] = 1

    def release(self, scores: Scores, randomness: Randomness) -> tuple[int, ...]:
        best, gap = self._best_and_gap(scores)
        noise = sample_discrete_gaussian(self._noise(scores) / self.drawn_share, randomness)
        if gap + noise > self.threshold(scores.sensitivity):
            return best
        left = [*range(len(scores.values))]
        return tuple(sorted(left.pop(randomness.below(len(left))) for _ in range(self.k)))

    def law(self, scores: Scores):
        best, passed = self._passed(scores)
        every = [*itertools.combinations(range(len(scores.values)), self.k)]
        return {each: (1 - passed) / len(every) + passed * (each == best) for each in every}

    def _passed(self, scores):
        """The candidates that lead, and how likely the test of their lead passes."""
        best, gap = self._best_and_gap(scores)
        variance = float(self._noise(scores))
        reach = int(40 * variance**0.5) + 2
        grid = np.arange(-reach, reach + 1)
        mass = np.exp(-(grid.astype(float) ** 2) / (2 * variance))
        return best, float((mass / mass.sum())[grid > self.threshold(scores.sensitivity) - gap].sum())

    def _noise(self, scores):
        return self.noise_variance(scores.sensitivity) / self.share


class OneByChanceWithHalf(OneByChance):
    """The same by half of the deviation, in draws and law."""

    share: ClassVar[int] = 4


class OneByChanceDrawnWithHalf(OneByChance):
    """The same by half of the deviation, in draws alone."""

    drawn_share: ClassVar[int] = 4


class LeaderOrDrawn(OneByChance):
    """Right: where the test fails, one that is drawn by its score."""

    @property
    def event(self):
        return ComposedDpEvent([super().event, Exponential(0.5).event])

    def noise_variance(self, sensitivity: int) -> Fraction:
        return Fraction(sensitivity**2) * Fraction(self.sigma) ** 2

    def release(self, scores: Scores, randomness: Randomness) -> tuple[int, ...]:
        best, gap = self._best_and_gap(scores)
        if gap + sample_discrete_gaussian(self._noise(scores), randomness) > self.threshold(scores.sensitivity):
            return best
        return (Exponential(0.5).select(scores, randomness),)

    def law(self, scores: Scores):
        best, passed = self._passed(scores)
        drawn = enumerate(Exponential(0.5).law(scores))
        return {(place,): (1 - passed) * float(p) + passed * ((place,) == best) for place, p in drawn}


class LeaderOrDrawnWithHalf(LeaderOrDrawn):
    """The same by half of the deviation: a test of a lead shows at few leads, whatever it falls back to."""

    share: ClassVar[int] = 4


class LawWithDigits(Exponential):
    """Its law takes something else in the place of the prior that its draw takes."""

    def law(self, scores, digits=12):
        return [round(float(p), digits) for p in super().law(scores)]
