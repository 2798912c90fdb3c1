"""Class means: for each label the noisy sum of its records' embeddings and a noisy count, released once.

A public pool concentrates the embeddings first: noise in a score is sigma K / n whatever the map, so that coordinates
in which public texts hardly vary are better left out where there is much of it (``PublicMap.concentrating``). Means
that are not well known are then drawn towards public texts like them.

Guarantee   mu-GDP with mu = norm / sigma, norm the largest change of the stacked sums and counts (``ClassMeansStep``).
            Correctly rounded Gaussian noise on whole numbers; nothing is divided by a private number. Where the number
            of units is private a noisy count of them is released first, at 4 % of mu squared.
Assumes     Isolation of the embedder: a record's vector is a function of that record. The label set is public; every
            label has a block, occupied or not.
Sources     Wahdany et al. (2024, arXiv:2406.08039), who call the family DP prototypes; specification 5.13, T8, 9.3.
            Proof beside the code: docs/proofs/class_means.md. The classifier is post-processing: empirical Bayes with
            the known noise (``classifier``), with constants chosen on public sets (docs/results/pay-once.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final, Self, final

import numpy as np

from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import ClassSums, SumRule, UnitCount
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PrivateSums, PublicInputs, register_fitter
from sottovoce.methods.fitting.noisy_sums import count_noise, noisy_sum, number_of_units
from sottovoce.methods.fitting.support import LinearSupport
from sottovoce.methods.poe import PriorWeight
from sottovoce.models.base import FloatArray
from sottovoce.parameters import Positive, Whole
from sottovoce.privacy.events import ComposedDpEvent, DpEvent
from sottovoce.privacy.step_costs import GaussianStep, step_cost
from sottovoce.privacy.unit import ChangeType, is_drop
from sottovoce.randomness import Randomness

DIVISOR: Final = 4
"""Counts are added in quarters where one change takes a unit away, which keeps its norm near 1."""
COUNT_SHARE: Final = 0.04
"""Share of mu squared for the number of units, where that is private."""
LEAST_UNITS: Final = 10.0
"""A noisy count is taken to be no less."""
SHAPE: Final = 0.3
"""Share of an even spread in the variances of coordinates, which a pool of another kind estimates badly."""
BETWEEN: Final = 0.2
"""Share of the variance of embeddings that lies between classes, as far as nothing else is known."""
BETWEEN_SPREAD: Final = 0.2
"""How far that differs from task to task."""
BETWEEN_RANGE: Final = (0.15, 0.6)
"""Within which it is estimated."""
TOWARDS: Final = 0.3
"""Share of what is not known of a class mean by which it is drawn towards public texts like it."""
LEAST_SIGNAL: Final = 0.6
"""Units a label, in deviations of the noise, below which evidence says nothing beside the model's own answer."""
HALF_SIGNAL: Final = 12.0
"""The same at which it counts half."""
FULL_UNITS: Final = 50.0
"""Units, over the root of the number of labels, from which on their number takes nothing off it."""
_TINY: Final = 1e-12
_RHO_SLACK: Final = 1 + 1e-12


@final
@step_cost(
    "class-means",
    law="sums of unit vectors and counts by label, with N(0, sigma^2) on every number",
    source="specification 5.13",
)
@dataclass(frozen=True)
class ClassMeansStep(GaussianStep):
    """The stacked sums and counts of all labels.

    Attributes:
        sigma: Deviation of the noise, in units of a unit vector's norm.
        divisor: Counts are added in units of 1 / divisor.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> [round(ClassMeansStep(sigma=2.0, divisor=4).event(change).noise_multiplier, 6) for change in (DROP, SWAP)]
        [1.940285, 1.0]
    """

    sigma: Positive
    divisor: Whole = 1
    sampler: ClassVar[str] = "continuous"  # type: ignore[misc]

    def norm(self, change: ChangeType) -> float:
        if is_drop(change):
            return change.rows * math.hypot(1.0, 1.0 / self.divisor)
        return float(change.widths)


@final
@register_fitter(
    "class-means", summary="noisy sums of embeddings by label; a linear classifier", source="Wahdany et al. 2024"
)
@dataclass(frozen=True)
class ClassMeans(Fitter):
    """Noisy class means.

    Attributes:
        sigma: Deviation of the noise in units of a unit vector's norm; ``None``: set by the price.
        count_sigma: Deviation of the noise in the number of units, where that is private; ``None``: set by the price.
        prior_weight: Power of the model's own answer; 0 where label names mean nothing to it.

    Raises:
        ParameterError: A parameter is out of range.
    """

    needs_delta: ClassVar[bool] = True
    calibrated_parameters: ClassVar[tuple[str, ...]] = ("sigma", "count_sigma")
    pool: ClassVar[str] = "optional"
    step: ClassVar[type[ClassMeansStep]] = ClassMeansStep
    sigma: Positive | None = None
    count_sigma: Positive | None = None
    prior_weight: PriorWeight = 1.0

    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        if setting.adds_epsilons:
            multiplier = RoundedGaussian.for_budget(price.epsilon, price.delta).noise_multiplier
        else:
            multiplier = RoundedGaussian.for_rho(price.epsilon, price.delta).noise_multiplier
        multiplier *= _RHO_SLACK
        share = 1.0 if setting.units is not None else 1 - COUNT_SHARE
        norm = ClassMeansStep(sigma=1.0, divisor=_divisor(setting)).norm(setting.change)
        count = multiplier / math.sqrt(COUNT_SHARE) * setting.change.rows * _RHO_SLACK
        return replace(
            self,
            sigma=self.sigma or multiplier / math.sqrt(share) * norm * _RHO_SLACK,
            count_sigma=self.count_sigma or count,
        )

    def event(self, setting: FitSetting) -> DpEvent:
        sums = self._noise(setting).event
        if setting.units is not None:
            return sums
        return ComposedDpEvent([count_noise(self.count_sigma, setting.change).event, sums])

    def released(self, setting: FitSetting) -> ClassMeansStep:
        return ClassMeansStep(sigma=self.sigma, divisor=_divisor(setting))  # type: ignore[arg-type]

    def rules(self, plan: FitPlan, public: PublicInputs) -> list[SumRule] | None:
        if plan.setting.units is not None:
            return [self._rule(plan.setting, public, _least(plan.setting.units))[0]]
        if len(public.vectors):
            return None  # the map follows from the noisy count
        return [UnitCount(), self._rule(plan.setting, public, LEAST_UNITS)[0]]

    def fit(self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness) -> LinearSupport:
        setting, sigma = plan.setting, float(self.sigma or 0)
        least = LEAST_UNITS if setting.units is not None else max(LEAST_UNITS, float(setting.labels))
        units = number_of_units(self.count_sigma, least, setting, private, randomness)
        rule, variances = self._rule(setting, public, units)
        squared_l2 = rule.squared_l2(setting.change)
        noisy = noisy_sum(rule, squared_l2, self._noise(setting), setting, private, randomness)
        split = setting.labels * setting.dimension
        sums = noisy[:split].reshape(setting.labels, setting.dimension)
        counts = noisy[split:] * rule.divisor
        mapped, texts = rule.mapped, None if rule.mapped is None else rule.mapped(public.vectors)
        return classifier(sums, counts, units, sigma, sigma * rule.divisor, variances, mapped, self.prior_weight, texts)

    def _rule(self, setting: FitSetting, public: PublicInputs, units: float) -> tuple[ClassSums, FloatArray]:
        """What is summed where there are so many units, and how public texts vary in the coordinates of it."""
        mapped, variances = None, np.full(setting.dimension, 1 / setting.dimension)
        if len(public.vectors):
            noise = (float(self.sigma or 0) * setting.labels / units) ** 2
            mapped, variances = _concentrating(public.vectors.tobytes(), public.vectors.shape, noise)
        return ClassSums(setting.labels, setting.dimension, _divisor(setting), mapped), variances

    def _noise(self, setting: FitSetting) -> RoundedGaussian:
        return RoundedGaussian(float(self.released(setting).event(setting.change).noise_multiplier))


@lru_cache(maxsize=1)
def _concentrating(pool: bytes, shape: tuple[int, ...], noise: float) -> tuple[PublicMap, FloatArray]:
    """The map of these public vectors, kept: what is asked for must be what was said to be, bit for bit."""
    return PublicMap.concentrating(np.frombuffer(pool, np.float64).reshape(shape), noise)


def _least(units: int) -> float:
    return max(float(units), LEAST_UNITS)


def _divisor(setting: FitSetting) -> int:
    return DIVISOR if is_drop(setting.change) else 1


def classifier(
    sums: FloatArray,
    counts: FloatArray,
    units: float,
    sigma: float,
    count_sigma: float,
    variances: FloatArray,
    mapped: PublicMap | None,
    prior_weight: float = 1.0,
    texts: FloatArray | None = None,
) -> LinearSupport:
    """The classifier that follows from noisy sums: class means by empirical Bayes with the known noise.

    A class mean is a common mean plus a deviation, both normal around zero with variances in proportion to those of
    the pool's coordinates, and is observed with the noise and the spread of its records. Where it is not well known it
    is drawn towards public texts like it (``_near``). What the posterior does not know discounts a score,
    and where there is little to learn from the model's own answer stands.

    Args:
        sums: Noisy sums, shape (labels, dimension).
        counts: Noisy counts, shape (labels,).
        units: Number of units, or an estimate of it.
        sigma: Deviation of the noise in every number of ``sums``.
        count_sigma: The same of ``counts``.
        variances: Of each coordinate over public texts, shape (dimension,), adding to 1.
        mapped: The map that the vectors went through.
        prior_weight: Power of the model's own answer; 0 where label names mean nothing to it.
        texts: Mapped vectors of public texts, shape (texts, dimension); ``None`` for none.
    """
    labels, dimension = sums.shape
    n = _shrunken(counts, units, count_sigma)[:, None]
    spread = (1 - SHAPE) * variances + SHAPE / dimension
    noise = labels * sigma**2 / units**2 + spread / units
    seen = spread + noise
    common = spread / seen * sums.sum(axis=0) / units
    residual = sums - n * common
    between = _between(residual, n, sigma, spread)
    prior = between * spread
    noise = sigma**2 / n**2 + (1 - between) * spread / n
    deviation = prior / (prior + noise) * residual / n
    unknown = prior * noise / (prior + noise)
    deviation -= _along(common, deviation, prior + noise, n)
    if texts is not None:
        share = TOWARDS * float(np.mean(unknown.sum(axis=1) / prior.sum()))
        near = _near(residual / n, noise, math.sqrt(between) * (texts - common))
        deviation = (1 - share) * deviation + share * near
    means = common + deviation
    apart = (deviation - deviation.mean(axis=0)) ** 2
    apart = apart if apart.sum() > 0 else np.ones_like(apart)
    within = np.average((1 - between) * spread + unknown, weights=apart)
    trust = _trust(units, labels, sigma) if prior_weight else 1.0
    return LinearSupport(
        weights=trust * means / within,
        offset=-trust * (means * means).sum(axis=1) / (2 * within),
        spread=np.pi / 4 * unknown.mean(axis=0) / within**2,
        bias=trust * 0.5 * np.log(n[:, 0] / n.sum()),
        prior_weight=prior_weight,
        mapped=mapped,
    )


def _shrunken(counts: FloatArray, units: float, sigma: float) -> FloatArray:
    """Counts of the labels, drawn to their mean as far as noise and chance explain how they differ, and two standard
    errors more; they add to ``units``."""
    labels = len(counts)
    even = units / labels
    squares = float(((counts - even) ** 2).mean())
    chance = (1 + 2 * math.sqrt(2 / labels)) * (sigma**2 + even)
    kept = even + max(0.0, 1 - chance / max(squares, _TINY)) * (counts - even)
    kept = np.maximum(kept, even / 5)
    return np.asarray(kept * units / kept.sum())


def _between(residual: FloatArray, n: FloatArray, sigma: float, spread: FloatArray) -> float:
    """The share of the variance of embeddings that lies between classes: what the sums say of it, drawn to 0.2."""
    labels = len(residual)
    chance = sigma**2 + n * spread
    weight = spread / chance.mean(axis=0) ** 2
    slope = float((weight * (n**2 * spread * (1 - 1 / labels) - n * spread)).sum())
    if slope <= 0:
        return BETWEEN
    error = 2 * float((weight**2 * chance**2).sum()) / slope**2
    estimate = float((weight * (residual**2 - chance)).sum()) / slope
    precision = 1 / BETWEEN_SPREAD**2
    pooled = (BETWEEN * precision + estimate / error) / (precision + 1 / error)
    return float(np.clip(pooled, *BETWEEN_RANGE))


def _along(common: FloatArray, deviation: FloatArray, variance: FloatArray, n: FloatArray) -> FloatArray:
    """What an error in a label's count alone would move its mean by, along the common mean: most of what is there."""
    square = float((common * common).sum())
    if square < _TINY:
        return np.zeros_like(deviation)
    direction = common / math.sqrt(square)
    along = (variance * direction**2).sum(axis=1, keepdims=True)
    share = 1 - along / (along + square / n)
    return np.asarray(share * (deviation @ direction)[:, None] * direction)


def _near(observed: FloatArray, noise: FloatArray, texts: FloatArray) -> FloatArray:
    """For each label the mean of the public texts that what was observed of it may be a noisy sight of, each as likely
    as the noise says."""
    likelihood = (observed / noise) @ texts.T - 0.5 * (1 / noise) @ (texts * texts).T
    likelihood -= likelihood.max(axis=1, keepdims=True)
    weights = np.exp(likelihood)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True) @ texts)


def _trust(units: float, labels: int, sigma: float) -> float:
    """How much evidence counts beside the model's own answer: less where there is little of it, as an insurance."""
    signal = units / (labels * sigma)
    if signal < LEAST_SIGNAL:
        return 0.0
    return min(1.0, units / (FULL_UNITS * math.sqrt(labels))) / (1 + (HALF_SIGNAL / signal) ** 2)
