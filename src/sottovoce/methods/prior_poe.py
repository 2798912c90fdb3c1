"""Prior x PoE: the public prediction times a product of experts over what the records add to it.

Guarantee   epsilon-bounded-range an answer: weights exp(a l0 + epsilon * sum / (width * change)), the change type from
            the specification's table 2.2. The prior and the comparison are public, so only the clamped differences are
            charged for, and they lie in an interval as wide as those of PoE at the same clip.
Assumes     Isolation, as for PoE. The model's answer without any example (l0) comes from public input alone.
Sources     specification 5.1.8 and 5.11; Vinod et al. (2025) for clipping differences in decoding. Where labels are
            very uneven it can do worse than PoE: docs/results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from sottovoce.experts.label_scores import LABEL_CLIP, ExpertOutputs, FloatArray
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.base import Price, Selecting, register_method
from sottovoce.methods.poe import PRIOR_WEIGHT, Clip, PriorWeight, ProductOfExperts
from sottovoce.parameters import read_fields
from sottovoce.privacy.aggregates import Scores


@final
@register_method(
    "prior-poe",
    summary="product of experts over clipped differences to the public prediction, times that prediction",
    source="specification 5.1.8",
)
@dataclass(frozen=True)
class PriorPoE(Selecting):
    """Product of experts around the public prediction.

    Attributes:
        clip: C, in nats: an expert's difference to the public log-probabilities, its best label at 0, is clamped to
            [-C, 0]. Chosen on public tasks.
        prior_weight: a, the power of the public prediction. Chosen on public tasks.

    Raises:
        ParameterError: A parameter is out of range.
    """

    step: ClassVar[type[ProductOfExperts]] = ProductOfExperts
    clip: Clip = 1.5
    prior_weight: PriorWeight = 5.0

    def __post_init__(self) -> None:
        read_fields(self, clip=LABEL_CLIP, prior_weight=PRIOR_WEIGHT)

    def mechanism(self, price: Price) -> Exponential:
        return Exponential(price.epsilon)

    def scores(self, experts: ExpertOutputs) -> Scores:
        return experts.clipped_difference_sum(self.clip)

    def log_prior(self, experts: ExpertOutputs) -> FloatArray:
        return self.prior_weight * experts.log_prior()
