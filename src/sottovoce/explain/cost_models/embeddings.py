"""Embedding-space aggregation (ESA): the nearest public response to a noisy mean embedding.

Guarantee   Gaussian noise on a mean over a fixed public number of clipped embeddings.
Sources     Wu et al. (2024); specification 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Positive, Whole
from sottovoce.privacy.claims import Claim, of_gaussian
from sottovoce.privacy.step_costs import GaussianStep, NoiseLaw, step_cost
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop


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
    """

    clip: Positive
    experts: Whole
    sigma: Positive
    sampler: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        is_drop(change)
        return change.widths * self.clip / self.experts


@final
@register_cost_model("esa", summary="Embedding-space aggregation", source="Wu et al. (2024); specification 5.4")
@dataclass(frozen=True)
class ESA(CostModel):
    """The nearest public response to a noisy mean embedding."""

    calibrated_parameter: ClassVar[str] = "sigma"
    experts: Whole
    clip: Positive = 1.0
    sigma: Positive | None = None
    sampler: NoiseLaw = "discrete"

    def released(self, adjacency: Adjacency) -> tuple[Part, ...]:
        return (Part(EmbeddingMean(self.clip, self.experts, self.sigma or 0, self.sampler)),)

    def claim(self) -> Claim:
        mu = self.clip / (self.experts * (self.sigma or 1))
        return Claim(
            "Wu et al.: noise for an embedding that vanishes",
            lambda delta, answers: of_gaussian(mu, answers, delta),
        )
