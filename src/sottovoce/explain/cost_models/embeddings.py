"""Embedding-space aggregation (ESA): the nearest public response to a noisy mean embedding.

Guarantee   Gaussian noise on a mean over a fixed public number of clipped embeddings.
Sources     Wu et al. (2024); specification 5.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.methods.answering.esa import EmbeddingMean, published
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Positive, Whole
from sottovoce.privacy.claims import Claim
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

    @classmethod
    def drawn(cls, values: Mapping[str, Any]) -> dict[str, Any] | None:
        if values.get("sampler", "discrete") != "discrete":
            return None
        return {name: value for name, value in values.items() if name != "sampler"}

    def claim(self) -> Claim:
        return published(self.clip, self.experts, self.sigma or 1)
