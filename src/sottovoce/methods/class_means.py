"""Class means: for each label the noisy sum of its records' embeddings and a noisy count, released once.

A public pool concentrates the embeddings first: noise in a score is sigma K / n whatever the map, so that coordinates
in which public texts hardly vary are better left out where there is much of it (``PublicMap.concentrating``).

Guarantee   mu-GDP with mu = norm / sigma, norm the largest change of the stacked sums and counts (``ClassMeansStep``).
            Correctly rounded Gaussian noise on whole numbers; nothing is divided by a private number. Where the number
            of units is private a noisy count of them is released first, at 4 % of mu squared.
Assumes     Isolation of the embedder: a record's vector is a function of that record. The label set is public; every
            label has a block, occupied or not.
Sources     Wahdany et al. (2024, arXiv:2406.08039), who call the family DP prototypes; specification 5.13, T8, 9.3.
            Proof beside the code: docs/proofs/class_means.md. The classifier is post-processing: empirical Bayes with
            the known noise (``classifier``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final, Self, final

import numpy as np

from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, ClassSums, UnitCount
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PrivateSums, PublicInputs, register_fitter
from sottovoce.methods.fitting.support import LinearSupport
from sottovoce.models.base import FloatArray
from sottovoce.parameters import Positive, Whole
from sottovoce.privacy.accounting.renyi import rho_of_budget
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import ComposedDpEvent, DpEvent, GaussianDpEvent
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
"""Share of the variance of embeddings that lies between classes."""
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

    Raises:
        ParameterError: A parameter is out of range.
    """

    needs_delta: ClassVar[bool] = True
    calibrated_parameters: ClassVar[tuple[str, ...]] = ("sigma", "count_sigma")
    pool: ClassVar[str] = "optional"
    step: ClassVar[type[ClassMeansStep]] = ClassMeansStep
    sigma: Positive | None = None
    count_sigma: Positive | None = None

    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        if setting.adds_epsilons:
            multiplier = RoundedGaussian.for_budget(price.epsilon, price.delta).noise_multiplier
        else:
            multiplier = 1 / math.sqrt(2 * rho_of_budget(price.epsilon, price.delta))
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
        sums = GaussianDpEvent(self._multiplier(setting))
        if setting.units is not None:
            return sums
        return ComposedDpEvent([GaussianDpEvent(self._count_multiplier(setting)), sums])

    def fit(self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness) -> LinearSupport:
        setting, sigma = plan.setting, float(self.sigma or 0)
        units = self._units(setting, private, randomness)
        mapped, variances = None, np.full(setting.dimension, 1 / setting.dimension)
        if len(public.vectors):
            noise = (sigma * setting.labels / units) ** 2
            mapped, variances = PublicMap.concentrating(public.vectors, noise)
        rule = ClassSums(setting.labels, setting.dimension, _divisor(setting), mapped)
        summed = VectorSum(
            private.sum_of(rule),
            squared_l2=rule.squared_l2(setting.change),
            adjacency=setting.adjacency,
            grid_step=Fraction(1, LIMIT),
        )
        noisy = RoundedGaussian(self._multiplier(setting)).release(summed, randomness).values
        split = setting.labels * setting.dimension
        sums = noisy[:split].reshape(setting.labels, setting.dimension)
        counts = noisy[split:] * rule.divisor
        return classifier(sums, counts, units, sigma, sigma * rule.divisor, variances, mapped)

    def _units(self, setting: FitSetting, private: PrivateSums, randomness: Randomness) -> float:
        """The number of units, or a noisy one where it is private."""
        if setting.units is not None:
            return max(float(setting.units), LEAST_UNITS)
        counted = VectorSum(
            private.sum_of(UnitCount()),
            squared_l2=(LIMIT * setting.change.rows) ** 2,
            adjacency=setting.adjacency,
            grid_step=Fraction(1, LIMIT),
        )
        (noisy,) = RoundedGaussian(self._count_multiplier(setting)).release(counted, randomness).values
        return max(float(noisy), LEAST_UNITS)

    def _multiplier(self, setting: FitSetting) -> float:
        step = ClassMeansStep(sigma=self.sigma, divisor=_divisor(setting))  # type: ignore[arg-type]
        return float(step.event(setting.change).noise_multiplier)

    def _count_multiplier(self, setting: FitSetting) -> float:
        return float(self.count_sigma or 0) / setting.change.rows


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
) -> LinearSupport:
    """The classifier that follows from noisy sums: class means by empirical Bayes with the known noise.

    A class mean is a common mean plus a deviation, both normal around zero with variances in proportion to those of
    the pool's coordinates, and is observed with the noise and the spread of its records. What the posterior does not
    know discounts a score. Every constant was chosen on public sets (``docs/results/pay-once.md``).

    Args:
        sums: Noisy sums, shape (labels, dimension).
        counts: Noisy counts, shape (labels,).
        units: Number of units, or an estimate of it.
        sigma: Deviation of the noise in every number of ``sums``.
        count_sigma: The same of ``counts``.
        variances: Of each coordinate over public texts, shape (dimension,), adding to 1.
        mapped: The map that the vectors went through.
    """
    labels, dimension = sums.shape
    n = _shrunken(counts, units, count_sigma)[:, None]
    spread = (1 - SHAPE) * variances + SHAPE / dimension
    noise = labels * sigma**2 / units**2 + spread / units
    common = spread / (spread + noise) * sums.sum(axis=0) / units
    prior = BETWEEN * spread
    noise = sigma**2 / n**2 + (1 - BETWEEN) * spread / n
    deviation = prior / (prior + noise) * (sums - n * common) / n
    unknown = prior * noise / (prior + noise)
    means = common + deviation
    apart = (deviation - deviation.mean(axis=0)) ** 2
    apart = apart if apart.sum() > 0 else np.ones_like(apart)
    within = np.average((1 - BETWEEN) * spread + unknown, weights=apart)
    return LinearSupport(
        weights=means / within,
        offset=-(means * means).sum(axis=1) / (2 * within),
        spread=np.pi / 4 * unknown.mean(axis=0) / within**2,
        bias=0.5 * np.log(n[:, 0] / n.sum()),
        prior_weight=1.0,
        mapped=mapped,
    )


def _shrunken(counts: FloatArray, units: float, sigma: float) -> FloatArray:
    """Counts of the labels, drawn to their mean as far as the noise explains how they differ; they add to ``units``."""
    even = units / len(counts)
    beyond = float(np.clip(((counts - even) ** 2).mean() - sigma**2, 0.0, even**2))
    kept = even + beyond / (beyond + sigma**2) * (counts - even)
    kept = np.maximum(kept, even / 5)
    return np.asarray(kept * units / kept.sum())
