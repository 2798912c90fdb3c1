"""Product of experts (PoE): multiply the experts' clipped predictions and sample one label.

Guarantee   epsilon-bounded-range an answer: weights exp(epsilon * sum / (width * change)), the change type from the
            specification's table 2.2. Under replace-one that is twice the noise of the paper's exponent.
Assumes     Isolation: an expert's prediction depends on its own records, the question and public inputs.
Sources     Private PoEtry; specification 5.1. Clipping clamps; it never sets a bad label to zero, the best score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from sottovoce.experts.outputs import ExpertOutputs, require_clipping
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.base import Price, Selecting, register_method
from sottovoce.privacy.scores import Scores


@final
@register_method("poe", summary="product of experts: clipped log-probabilities, summed", source="Private PoEtry")
@dataclass(frozen=True)
class PoE(Selecting):
    """Product of experts.

    Attributes:
        clip: C, in nats: an expert's log-probabilities are clamped to [-C, 0]. Chosen on public tasks.
        normalization: ``labels``, ``vocabulary`` or ``max`` (specification 5.1.1); privacy is the same.

    Raises:
        ParameterError: ``clip`` or ``normalization`` is out of range.
    """

    clip: float = 2.3
    normalization: str = "labels"

    def __post_init__(self) -> None:
        require_clipping(self.clip, self.normalization)

    def mechanism(self, price: Price) -> Exponential:
        return Exponential(price.epsilon)

    def scores(self, experts: ExpertOutputs) -> Scores:
        return experts.clipped_sum(self.clip, self.normalization)
