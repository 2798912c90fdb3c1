"""Prediction by subsampling (PbS): noisy label probabilities of prompts with random samples of records, averaged.

Guarantee   (epsilon, delta)-DP an answer: k releases of a probability vector, each from a fresh Poisson sample, priced
            by the dominating pair of the declared adjacency (specification T10). delta is a probability of failure and
            is charged as such.
Assumes     True Poisson sampling with coins from a secure source. A record's presence re-evaluates a prompt, which can
            move a probability vector by the square root of 2, not by 1 as the paper has it (specification 11, item 5).
Sources     Private PoEtry, appendix; specification 5.3, 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Self, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.subsample import PROBABILITY, SUBSAMPLES
from sottovoce.mechanisms.noisy_max import argmax_law
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.base import Price, Subsampling, register_method
from sottovoce.parameters import Number, Positive, Root, Share, Whole, read_fields
from sottovoce.privacy.accounting.amplification import Sampling, SharedSample
from sottovoce.privacy.accounting.calibration import calibrate
from sottovoce.privacy.claims import Claim, of_event
from sottovoce.privacy.events import (
    ApproximateDP,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.step_costs import Sensitivity, StepCost, step_cost
from sottovoce.privacy.unit import SWAP, Adjacency, ChangeType, is_drop
from sottovoce.randomness import Randomness


@final
@step_cost(
    "pbs",
    law="prediction on a fresh Poisson subsample, a label-normalised vector + Gaussian noise, repeated",
    source="specification 5.3",
)
@dataclass(frozen=True)
class PredictionBySubsampling(StepCost):
    """Prediction by subsampling. A record in the sample re-evaluates the prompt, so its presence is a swap.

    Attributes:
        sampling_probability: q; independent coins, fresh for every subsample.
        sigma: Deviation per label. Only the correctly rounded continuous law has the profile that is amplified.
        subsamples: k, predictions averaged for one answer.
    """

    family = "Poisson-subsampled Gaussian noise"

    sampling_probability: Share
    sigma: Positive
    subsamples: Whole = 1

    @property
    def steps(self) -> int:
        return self.subsamples

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        if is_drop(change) or change.rows > 1:
            raise ParameterError(
                "change", change.name, "swap: one prompt holds the sample, and a present record re-evaluates it"
            )
        return Sensitivity(math.sqrt(2), "Euclidean norm of the change of one probability vector")

    def event(self, change: ChangeType) -> PoissonSampledDpEvent:
        norm = self.sensitivity(change).value
        multiplier = math.sqrt(self.sigma.square / 2) if isinstance(self.sigma, Root) else self.sigma / norm
        return PoissonSampledDpEvent(self.sampling_probability, GaussianDpEvent(multiplier))

    @classmethod
    def with_multiplier(cls, sampling_probability: float, noise_multiplier: float, subsamples: int) -> Self:
        """The step whose noise is so many times its sensitivity, exactly."""
        sigma = Root(2 * Fraction(noise_multiplier) ** 2)
        return cls(sampling_probability, sigma, subsamples)  # type: ignore[arg-type]


@final
@register_method(
    "pbs", summary="prediction by subsampling: noisy predictions of random samples, averaged", source="Private PoEtry"
)
@dataclass(frozen=True)
class PbS(Subsampling):
    """Prediction by subsampling.

    Attributes:
        sampling_probability: q, the chance of each unit to be in a prompt.
        subsamples: k, the number of prompts for each question. Every one of them is a new prompt: an answer costs k
            forward passes over about q n examples, and nothing can be cached for the next question. Many small samples
            work best: their noise averages out. The defaults were chosen on public tasks (docs/log.md).

    Raises:
        ParameterError: A parameter is out of range.
    """

    can_fail: ClassVar[bool] = True
    step: ClassVar[type[PredictionBySubsampling]] = PredictionBySubsampling

    sampling_probability: Annotated[float, Number(1e-6, 0.999_999)] = 0.04
    subsamples: Annotated[int, Number(1, 1_000, whole=True)] = 100

    def __post_init__(self) -> None:
        read_fields(self, sampling_probability=PROBABILITY, subsamples=SUBSAMPLES)

    def noise_multiplier(self, price: Price, adjacency: Adjacency) -> float:
        """Deviation of the noise over the sensitivity, the least within the price.

        Raises:
            ParameterError: The price has no delta.
            AssignmentError: There is no amplification by Poisson sampling under this adjacency.
        """
        return _noise_multiplier(self.sampling_probability, self.subsamples, price.epsilon, price.delta, adjacency)

    def step_at(self, price: Price, change: ChangeType, adjacency: Adjacency) -> PredictionBySubsampling:
        multiplier = self.noise_multiplier(price, adjacency)
        return PredictionBySubsampling.with_multiplier(self.sampling_probability, multiplier, self.subsamples)

    def claim(self, cost: PredictionBySubsampling, steps: int) -> Claim:
        event = PoissonSampledDpEvent(cost.sampling_probability, GaussianDpEvent(float(cost.sigma)))
        return Claim(
            "PoEtry: a sensitivity of 1 for a probability vector, Poisson accounting under add-remove",
            lambda delta, answers: of_event(event, cost.subsamples * steps * answers, delta),
        )

    def event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        RoundedGaussian(self.noise_multiplier(price, adjacency))  # refuses noise out of range before anything is read
        return self.listed_event(price, adjacency)

    def listed_event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        return ApproximateDP(price.epsilon, price.delta)

    def noise_event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        multiplier = self.noise_multiplier(price, adjacency)
        return sampled_event(self.sampling_probability, self.subsamples, multiplier, adjacency)

    def choose(self, experts: ExpertOutputs, price: Price, randomness: Randomness) -> int:
        vectors = experts.probability_vectors()
        if len(vectors) != self.subsamples:
            raise AssertionError("the noise was worked out for another number of prompts")
        noise = RoundedGaussian(self.noise_multiplier(price, vectors[0].adjacency))
        noisy = [noise.release(vector, randomness).steps for vector in vectors]
        return int(np.argmax([sum(column) for column in zip(*noisy, strict=True)]))

    def law(self, experts: ExpertOutputs, price: Price) -> Sequence[float]:
        """Probability of each label under ``choose``, given the samples. Never released; for tests and audits only.

        By quadrature over the noise of one label, to about 1e-6: as if it were not rounded, a grid step in 1e6.
        """
        vectors = experts.probability_vectors()
        noise = RoundedGaussian(self.noise_multiplier(price, vectors[0].adjacency))
        deviation = math.sqrt(float(sum(noise.noise_variance(vector) for vector in vectors)))
        return argmax_law(np.sum([vector.values for vector in vectors], axis=0) / deviation)


def sampled_event(
    sampling_probability: float, subsamples: int, noise_multiplier: float, adjacency: Adjacency
) -> DpEvent:
    """What k noisy predictions from k fresh Poisson samples cost together.

    Raises:
        AssignmentError: There is no amplification by Poisson sampling under this adjacency.
    """
    SharedSample(Sampling.POISSON, adjacency, change=SWAP, grouped=True, rate=sampling_probability)  # refuses it
    cost = PredictionBySubsampling.with_multiplier(sampling_probability, noise_multiplier, subsamples)
    return SelfComposedDpEvent(cost.event(SWAP), cost.steps)


@lru_cache(maxsize=256)
def _noise_multiplier(
    sampling_probability: float, subsamples: int, epsilon: float, delta: float, adjacency: Adjacency
) -> float:
    if delta == 0:
        raise ParameterError("delta", delta, "above 0 for Gaussian noise on samples, such as 1e-9")

    def event(noise_multiplier: float) -> DpEvent:
        return sampled_event(sampling_probability, subsamples, noise_multiplier, adjacency)

    sampled_event(sampling_probability, subsamples, 1.0, adjacency)
    try:
        return calibrate(event, epsilon, delta, adjacency, increasing=False, digits=4).parameter
    except ParameterError:
        raise ParameterError(
            "delta",
            delta,
            f"within what noise can be worked out for at epsilon {rounded_up(epsilon, 6)}: well below q k = "
            f"{rounded_down(sampling_probability * subsamples)}, and above about {rounded_up(1e-13 * subsamples)}",
        ) from None
