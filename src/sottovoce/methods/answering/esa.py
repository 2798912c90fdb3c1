"""Embedding-space aggregation (ESA): the public answer nearest to a noisy mean of the experts' embeddings.

Guarantee   rho-zCDP per answer, rho = norm^2 / (2 sigma^2): the mean of m vectors of norm at most B moves by B / m if
            an expert comes or goes, and by 2 B / m if its answer can become any other one. Integer noise.
Assumes     Isolation of the writer and the embedder. m is public and fixed, whoever answered; candidates were written
            without a private record.
Sources     Wu et al. (2024) for the method; specification 5.4, T8, 9.3; 11, item 24: their noise is that of an
            embedding that vanishes, which is half of what a changed answer needs. It shows with a single partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.embeddings import Clip
from sottovoce.experts.written import WrittenOutputs
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.methods.answering.answerer import Answerer, AnswerSetting, Outcome, PublicSide, register_answerer
from sottovoce.methods.base import Price
from sottovoce.parameters import Positive, Whole
from sottovoce.privacy.accounting.calibration import calibrate
from sottovoce.privacy.claims import Claim, of_gaussian
from sottovoce.privacy.events import DpEvent, ZCDpEvent
from sottovoce.privacy.step_costs import GaussianStep, NoiseLaw, StepCost, step_cost
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop
from sottovoce.randomness import Randomness

KEPT: Final = 8
"""Candidates that an outcome names, nearest first."""


@final
@step_cost("esa", law="mean over a fixed number of clipped embeddings + Gaussian noise", source="specification 5.4")
@dataclass(frozen=True)
class EmbeddingMean(GaussianStep):
    """Embedding-space aggregation.

    Attributes:
        clip: B, the embeddings' largest norm.
        experts: m, the fixed public denominator.
        sigma: Deviation per coordinate, on the mean.
        sampler: ``discrete`` or ``continuous``.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> step = EmbeddingMean(clip=1.0, experts=100, sigma=0.02)
        >>> step.norm(DROP), step.norm(SWAP)
        (0.01, 0.02)
    """

    clip: Positive
    experts: Whole
    sigma: Positive
    sampler: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        is_drop(change)
        return change.widths * self.clip / self.experts


@final
@register_answerer(
    "esa", summary="the public answer nearest to a noisy mean of the experts' embeddings", source="Wu et al. (2024)"
)
@dataclass(frozen=True)
class ESA(Answerer):
    """The nearest of public answers to a noisy mean embedding.

    Attributes:
        clip: B, the embeddings' largest norm.
        sigma: Deviation per coordinate of the mean; ``None``: set by the price. Where the number of experts is private
            nothing is divided, and it is that of the sum: which candidate is nearest in direction does not follow from
            the length.
    """

    calibrated_parameters: ClassVar[tuple[str, ...]] = ("sigma",)
    needs: ClassVar[frozenset[str]] = frozenset({"Embedder", "pool"})
    needs_delta: ClassVar[bool] = True
    steps: ClassVar[Sequence[type[StepCost]]] = (EmbeddingMean,)
    clip: Clip = 1.0
    sigma: Positive | None = None

    def calibrated(self, price: Price, setting: AnswerSetting) -> Self:
        if setting.candidates < 2:
            limit = "2 or more: with one public answer there is nothing to choose, and it costs nothing to give it"
            raise ParameterError("number of different public answers", setting.candidates, limit)
        if self.sigma is not None:
            return self
        bounds = setting.bounds(price.delta)
        sigma = noise_for(price, setting.change, setting.adjacency, self.clip, _divisor(setting), bounds)
        return replace(self, sigma=sigma)

    def event(self, setting: AnswerSetting) -> DpEvent:
        return self._mechanism(setting).event

    def cost(self, setting: AnswerSetting) -> Sequence[tuple[StepCost, int]]:
        return [(self._step(setting, float(self.sigma or 0)), 1)]

    def claim(self, setting: AnswerSetting) -> Claim | None:
        return published(self.clip, _divisor(setting), float(self.sigma or 1))

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        assert experts is not None
        summed = experts.embedding_sum(self.clip, _divisor(setting))
        mean = self._mechanism(setting).release(summed, randomness).values
        lengths = np.linalg.norm(public.vectors, axis=1)
        likeness = public.vectors @ mean / np.where(lengths > 0, lengths, 1.0)
        nearest = np.argsort(-likeness, kind="stable")[:KEPT]
        return Outcome(self.name, {"answers": [public.candidates[index] for index in nearest.tolist()]})

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        return str(outcome.values["answers"][0])

    def _mechanism(self, setting: AnswerSetting) -> GaussianVector:
        """The noise of the step that is charged: its rho, for the norm of the same change."""
        event = self._step(setting, float(self.sigma or 0)).event(setting.change)
        assert isinstance(event, ZCDpEvent)
        return GaussianVector(event.rho)

    def _step(self, setting: AnswerSetting, sigma: float) -> EmbeddingMean:
        return EmbeddingMean(self.clip, _divisor(setting), sigma)


def noise_for(
    price: Price,
    change: ChangeType,
    adjacency: Adjacency,
    clip: float,
    experts: int,
    bounds: Sequence[str] = (),
) -> float:
    """The least deviation of the mean's noise at which one answer costs no more than a price.

    Args:
        price: Of the answer.
        change: How one change of the data can change the embeddings.
        adjacency: The relation that ``change`` is for.
        clip: B.
        experts: m.
        bounds: Accounting bounds to rely on; by default the least of all quick ones.

    Raises:
        ParameterError: No noise meets the price.
    """
    return calibrate(
        lambda sigma: EmbeddingMean(clip, experts, sigma).event(change),
        price.epsilon,
        price.delta,
        adjacency,
        increasing=False,
        bounds=bounds,
    ).parameter


def published(clip: float, experts: int, sigma: float) -> Claim:
    """What the paper states: the noise of an embedding that vanishes, as continuous."""
    mu = clip / (experts * sigma)
    return Claim(
        "Wu et al.: noise for an embedding that vanishes", lambda delta, answers: of_gaussian(mu, answers, delta)
    )


def _divisor(setting: AnswerSetting) -> int:
    """The public number that the sum is divided by; 1 where the number of experts is private."""
    return setting.experts or 1
