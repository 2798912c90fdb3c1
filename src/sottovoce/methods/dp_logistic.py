"""Differentially private logistic regression: noisy full-batch gradient descent on the records' embeddings.

What somebody would use who wants a private classifier and no language model: the baseline beside the other fitters. T
iterations, each of which releases the noisy sum of the units' clipped gradients at public weights. A public pool, where
there is one, concentrates the embeddings first, as for class means.

Guarantee   T adaptive Gaussian releases, mu-GDP each with mu = norm / sigma, norm 1 for a drop and 2 for a swap of one
            unit (``DpLogisticStep``): sqrt(T) mu together. Correctly rounded Gaussian noise on whole numbers; nothing
            is divided by a private number. Where the number of units is private a noisy count of them is released
            first, at 4 % of mu squared. How many iterations there are, and how long each is, follows from public
            numbers and from that count.
Assumes     Isolation of the embedder: a record's vector is a function of that record. The label set is public.
Sources     Song, Chaudhuri and Sarwate (2013) and Abadi et al. (2016) for noisy gradients; specification 5.18, T8, 9.3.
            Proof beside the code: docs/proofs/dp_logistic.md. Why no library: decision 0022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Self, final

import numpy as np

from sottovoce.experts.gradient_sums import GradientSums
from sottovoce.experts.public_map import PublicMap
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PrivateSums, PublicInputs, register_fitter
from sottovoce.methods.fitting.noisy_sums import count_noise, noisy_sum, number_of_units
from sottovoce.methods.fitting.support import LinearSupport
from sottovoce.methods.poe import PriorWeight
from sottovoce.models.base import FloatArray
from sottovoce.parameters import Number, Positive
from sottovoce.privacy.events import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from sottovoce.privacy.step_costs import GaussianStep, step_cost
from sottovoce.privacy.unit import ChangeType, is_drop
from sottovoce.randomness import Randomness

COORDINATES: Final = 128
"""Mapped coordinates that are kept, those in which public texts vary most: fewer numbers need noise."""
CONSTANT: Final = 0.3
"""Last coordinate of every vector, from which intercepts are learned."""
REACH: Final = 1.5
"""Lengths of all iterations together, in numbers of labels, times the noise of a class mean: with more noise, less."""
MOST_REACH: Final = 120.0
"""At most so much, or eight iterations overshoot where there is little noise."""
AVERAGED: Final = 2
"""How many of the last iterations the weights are averaged over."""
DISCOUNT: Final = 1.6
"""How much the known noise of a score takes off its weight beside the label's name."""
EVEN_NOISE: Final = 0.15
"""Noise of a class mean at which the label's name counts one and a half times; with much more it counts twice."""
LEAST_SIGNAL: Final = 0.6
"""Class mean in deviations of its noise, below which evidence says nothing beside the label's name."""
FULL_SIGNAL: Final = 10.0
"""The same from which on it counts in full."""
FULL_UNITS: Final = 120.0
"""Units of all labels together from which on it counts in full."""
COUNT_SHARE: Final = 0.04
"""Share of mu squared for the number of units, where that is private."""
LEAST_UNITS: Final = 10.0
"""A noisy count is taken to be no less."""
_SLACK: Final = 1 + 1e-12
"""What rounding a root can take off."""

Iterations = Annotated[int, Number(1, 10_000, whole=True)]


@final
@step_cost(
    "dp-logistic",
    law="sum of the units' clipped gradients, with N(0, sigma^2) on every number",
    source="specification 5.18",
)
@dataclass(frozen=True)
class DpLogisticStep(GaussianStep):
    """One iteration. A release has as many adaptive ones as it has iterations.

    Attributes:
        sigma: Deviation of the noise, in units of the norm that gradients are clipped to.
        iterations: T.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> step = DpLogisticStep(sigma=6.0, iterations=8)
        >>> [step.event(change).noise_multiplier for change in (DROP, SWAP)], step.steps
        ([6.0, 3.0], 8)
    """

    sigma: Positive
    iterations: Iterations = 1
    sampler: ClassVar[str] = "continuous"  # type: ignore[misc]

    @property
    def steps(self) -> int:
        return self.iterations

    def norm(self, change: ChangeType) -> float:
        is_drop(change)
        return float(change.widths)


@final
@register_fitter(
    "dp-logistic",
    summary="logistic regression on embeddings by noisy gradient descent; a linear classifier",
    source="Abadi et al. 2016",
)
@dataclass(frozen=True)
class DpLogistic(Fitter):
    """Logistic regression by noisy full-batch gradient descent, from zero weights.

    Attributes:
        iterations: T. The noise of all of them together does not depend on it.
        clip: Norm that a unit's gradient is clipped to.
        sigma: Deviation of the noise of one iteration, in units of ``clip``; ``None``: set by the price.
        count_sigma: Deviation of the noise in the number of units, where that is private; ``None``: set by the price.
        prior_weight: Power of the model's own answer, and more where there is noise; 0 where label names mean nothing.

    Raises:
        ParameterError: A parameter is out of range.
    """

    needs_delta: ClassVar[bool] = True
    calibrated_parameters: ClassVar[tuple[str, ...]] = ("sigma", "count_sigma")
    pool: ClassVar[str] = "optional"
    step: ClassVar[type[DpLogisticStep]] = DpLogisticStep
    iterations: Iterations = 8
    clip: Positive = 0.5
    sigma: Positive | None = None
    count_sigma: Positive | None = None
    prior_weight: PriorWeight = 1.0

    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        if setting.adds_epsilons:
            multiplier = RoundedGaussian.for_budget(price.epsilon, price.delta).noise_multiplier
        else:
            multiplier = RoundedGaussian.for_rho(price.epsilon, price.delta).noise_multiplier
        share = 1.0 if setting.units is not None else 1 - COUNT_SHARE
        each = multiplier * _SLACK * math.sqrt(self.iterations / share) * _SLACK
        count = multiplier * _SLACK / math.sqrt(COUNT_SHARE) * _SLACK
        norm = DpLogisticStep(sigma=1.0).norm(setting.change)
        return replace(
            self,
            sigma=self.sigma or each * norm * _SLACK,
            count_sigma=self.count_sigma or count * setting.change.rows * _SLACK,
        )

    def event(self, setting: FitSetting) -> DpEvent:
        descent = SelfComposedDpEvent(self._noise(setting).event, self.iterations)
        if setting.units is not None:
            return descent
        return ComposedDpEvent([count_noise(self.count_sigma, setting.change).event, descent])

    def fit(self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness) -> LinearSupport:
        setting = plan.setting
        units = number_of_units(self.count_sigma, LEAST_UNITS, setting, private, randomness)
        noise = float(self.sigma or 0) / math.sqrt(self.iterations) * setting.labels / units
        mapped = _map(public.vectors, noise) if len(public.vectors) else None
        reach = min(MOST_REACH, REACH / noise)
        length = reach * setting.labels / self.iterations * self.clip / units
        dimension = setting.dimension if mapped is None else len(mapped.matrix)
        path = [np.zeros((setting.labels, dimension + 1))]
        for _ in range(self.iterations):
            rule = GradientSums(path[-1], self.clip, CONSTANT, mapped)
            squared_l2 = rule.squared_l2(setting.change)
            summed = noisy_sum(rule, squared_l2, self._noise(setting), setting, private, randomness)
            path.append(path[-1] + length * summed.reshape(path[-1].shape))
        weights = np.mean(path[1:][-AVERAGED:], axis=0)
        trust = _trust(noise, units) if self.prior_weight else 1.0
        return classifier(weights, reach * self.clip, noise, mapped, self.prior_weight, trust)

    def _noise(self, setting: FitSetting) -> RoundedGaussian:
        """Of one iteration."""
        step = DpLogisticStep(sigma=self.sigma, iterations=self.iterations)  # type: ignore[arg-type]
        return RoundedGaussian(float(step.event(setting.change).noise_multiplier))


def classifier(
    weights: FloatArray,
    reach: float,
    noise: float,
    mapped: PublicMap | None,
    prior_weight: float = 1.0,
    trust: float = 1.0,
) -> LinearSupport:
    """The classifier of noisy weights, which counts beside a label's name as its known noise allows.

    Args:
        weights: Shape (labels, mapped dimension + 1), the last column for the constant.
        reach: Deviation of the noise in one weight, over that of a class mean.
        noise: Deviation of the noise in a class mean.
        mapped: The map that the vectors went through.
        prior_weight: Power of the model's own answer where there is no noise.
        trust: How much the weights count beside it.
    """
    dimension = weights.shape[1] - 1
    return LinearSupport(
        weights=trust * weights[:, :-1],
        offset=trust * CONSTANT * weights[:, -1],
        spread=np.full(dimension, DISCOUNT * (reach * noise) ** 2),
        bias=np.zeros(len(weights)),
        prior_weight=prior_weight * (1.0 + noise / (noise + EVEN_NOISE)),
        mapped=mapped,
    )


def _trust(noise: float, units: float) -> float:
    """How much evidence counts beside the label's name: less where there is little of it, as an insurance.

    Squared, so that little evidence counts for next to nothing: what a few noisy records say is worse than a label's
    name as often as it is better.

    Args:
        noise: Deviation of the noise in a class mean.
        units: Their number, public or noisy.
    """
    if noise * LEAST_SIGNAL > 1:
        return 0.0
    return (min(1.0, 1 / (FULL_SIGNAL * noise)) * min(1.0, units / FULL_UNITS)) ** 2


def _map(pool: FloatArray, noise: float) -> PublicMap:
    """The concentrating map, without the coordinates in which public texts vary least, where they vary at all."""
    mapped, variances = PublicMap.concentrating(pool, noise**2)
    if variances.max() == variances.min():
        return mapped
    return PublicMap(mapped.centre, mapped.matrix[-COORDINATES:])
