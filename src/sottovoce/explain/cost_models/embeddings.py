"""Embedding-space aggregation (ESA): the nearest public response to a noisy mean embedding.

Guarantee   Gaussian noise on a mean over a fixed public number of clipped embeddings.
Sources     Wu et al. (2024); specification 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.explain.subject import Change, Setting, composed
from sottovoce.methods.answering.esa import EmbeddingMean, noise_for, published
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Positive, Whole
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.step_costs import NoiseLaw
from sottovoce.privacy.unit import Adjacency


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

    def priced(self, setting: Setting, change: Change) -> Self | None:
        if setting.epsilon is None or self.sampler != "discrete":
            return None
        price = Price(setting.epsilon, setting.delta)
        return self.with_noise(noise_for(price, change.kind, change.adjacency, self.clip, self.experts))

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        return composed(self.parts(change), change.kind) if self.sampler == "discrete" else None

    def claim(self) -> Claim:
        return published(self.clip, self.experts, self.sigma or 1)
