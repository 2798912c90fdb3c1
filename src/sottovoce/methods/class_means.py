"""Class means: for each label the noisy sum of its records' embeddings, released once.

Guarantee   mu-GDP with mu = norm / sigma, norm the largest change of the stacked sums (``ClassMeansStep``). Correctly
            rounded Gaussian noise on whole numbers; nothing is divided by a private number.
Assumes     Isolation of the embedder: a record's vector is a function of that record. The label set is public; every
            label has a block, occupied or not.
Sources     Wahdany et al. (2024, arXiv:2406.08039), who call the family DP prototypes; specification 5.13, T8, 9.3. The
            classifier is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Self, final

import numpy as np

from sottovoce.experts.unit_sums import LIMIT, ClassSums
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PrivateSums, PublicInputs, register_fitter
from sottovoce.methods.fitting.support import LinearSupport
from sottovoce.models.base import FloatArray
from sottovoce.parameters import Number, Positive
from sottovoce.privacy.accounting.renyi import rho_of_budget
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import GaussianDpEvent
from sottovoce.privacy.step_costs import GaussianStep, step_cost
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop
from sottovoce.randomness import Randomness

COUNT_WEIGHT: Final = 0.25
"""What a unit adds to the count where the number of units is private, in units of its vector's norm."""
LEAST_UNITS: Final = 10.0
"""A noisy count is taken to be no less."""


@final
@step_cost(
    "class-means", law="sums of unit vectors by label, with N(0, sigma^2) on every number", source="specification 5.13"
)
@dataclass(frozen=True)
class ClassMeansStep(GaussianStep):
    """The stacked sums of all labels, and a count where it is private.

    Attributes:
        sigma: Deviation of the noise, in units of a unit vector's norm.
        counted: What a unit adds to the count; 0 where there is none.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> [ClassMeansStep(sigma=2.0).event(change).noise_multiplier for change in (DROP, SWAP)]
        [2.0, 1.0]
    """

    sigma: Positive
    counted: Annotated[float, Number(0, 1)] = 0.0
    sampler: ClassVar[str] = "continuous"  # type: ignore[misc]

    def norm(self, change: ChangeType) -> float:
        # A swap exchanges one vector for another and leaves the count; a drop takes both away.
        return math.hypot(change.widths, change.rows * self.counted) if is_drop(change) else float(change.widths)


@final
@register_fitter(
    "class-means", summary="noisy sums of embeddings by label; a linear classifier", source="Wahdany et al. 2024"
)
@dataclass(frozen=True)
class ClassMeans(Fitter):
    """Noisy class means.

    Attributes:
        sigma: Deviation of the noise in units of a unit vector's norm; ``None``: set by the price.

    Raises:
        ParameterError: A parameter is out of range.
    """

    needs_delta: ClassVar[bool] = True
    step: ClassVar[type[ClassMeansStep]] = ClassMeansStep
    sigma: Positive | None = None

    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        if self.sigma is not None:
            return self
        if setting.adds_epsilons:
            multiplier = RoundedGaussian.for_budget(price.epsilon, price.delta).noise_multiplier
        else:
            multiplier = 1 / math.sqrt(2 * rho_of_budget(price.epsilon, price.delta)) * (1 + 1e-12)
        norm = ClassMeansStep(sigma=1.0, counted=_counted(setting.adjacency)).norm(setting.change)
        return replace(self, sigma=math.nextafter(multiplier * norm * (1 + 1e-12), math.inf))

    def event(self, setting: FitSetting) -> GaussianDpEvent:
        return GaussianDpEvent(self._multiplier(setting))

    def fit(self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness) -> LinearSupport:
        setting = plan.setting
        counted = int(_counted(setting.adjacency) * LIMIT)
        rule = ClassSums(setting.labels, setting.dimension, counted)
        drop = is_drop(setting.change)
        squared = (LIMIT * setting.change.widths) ** 2 + (counted * setting.change.rows) ** 2 * drop
        summed = VectorSum(
            private.sum_of(rule), squared_l2=squared, adjacency=setting.adjacency, grid_step=Fraction(1, LIMIT)
        )
        noisy = RoundedGaussian(self._multiplier(setting)).release(summed, randomness).values
        sums = noisy[: setting.labels * setting.dimension].reshape(setting.labels, setting.dimension)
        units = float(setting.units) if setting.units is not None else noisy[-1] / _counted(setting.adjacency)
        return classifier(sums, max(units, LEAST_UNITS), float(self.sigma or 0))

    def _multiplier(self, setting: FitSetting) -> float:
        step = ClassMeansStep(sigma=self.sigma, counted=_counted(setting.adjacency))  # type: ignore[arg-type]
        return step.event(setting.change).noise_multiplier


def _counted(adjacency: Adjacency) -> float:
    return 0.0 if adjacency.size_is_public else COUNT_WEIGHT


def classifier(sums: FloatArray, units: float, sigma: float) -> LinearSupport:
    """The classifier that follows from noisy sums. Post-processing.

    Args:
        sums: Shape (labels, dimension).
        units: Number of units, or an estimate of it.
        sigma: Deviation of the noise in every number.
    """
    labels = len(sums)
    spread = sigma * labels / units
    weight = 0.25 / (0.01 + spread**2) * labels / units
    return LinearSupport(np.asarray(weight * sums), np.zeros(labels), 1.0)
