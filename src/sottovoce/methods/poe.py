"""Product of experts (PoE): multiply the experts' clipped predictions and sample one label.

Guarantee   epsilon-bounded-range an answer: weights exp(epsilon * sum / (width * change)), the change type from the
            specification's table 2.2. Under replace-one that is twice the noise of the paper's exponent.
Assumes     Isolation: an expert's prediction depends on its own records, the question and public inputs.
Sources     Private PoEtry; specification 5.1, 5.1.3 for the public prior. Clipping clamps; it never sets a bad label to
            zero, the best score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, final

from sottovoce.experts.label_scores import LABEL_CLIP, NORMALIZATIONS, ExpertOutputs, FloatArray
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.base import Price, Selecting, register_method
from sottovoce.parameters import Number, OneOf, Positive, read_fields
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.claims import Claim, basic_or_advanced
from sottovoce.privacy.step_costs import RatedStep, SelectionStep, Sensitivity, step_cost
from sottovoce.privacy.unit import ChangeType

Clip = Annotated[float, Number(0.001, 1_000)]
"""Where log-probabilities are clamped, in nats."""
PriorWeight = Annotated[float, Number(0, 100)]
"""The power of a public prediction."""
PRIOR_WEIGHT: Final = Number(0, 100, strict=True, words="from 0 to 100")
"""The same, which a method checks before anything is charged."""


@final
@step_cost("poe", law="weights exp(rate * sum of log-probabilities clamped to [-clip, 0])", source="specification 5.1")
@dataclass(frozen=True)
class ProductOfExperts(RatedStep, SelectionStep):
    """A label or token of a product of experts.

    Attributes:
        clip: C, in nats: an expert's width.
        rate: lambda, the weight of one nat.

    Example:
        >>> from sottovoce.privacy.unit import DROP
        >>> ProductOfExperts(clip=3, rate=0.5).event(DROP)
        BoundedRange(eta=1.5)
    """

    clip: Positive

    @property
    def width(self) -> float:
        return self.clip

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(self.clip * change.widths, "range of the change of the summed log-probabilities")


@final
@register_method("poe", summary="product of experts: clipped log-probabilities, summed", source="Private PoEtry")
@dataclass(frozen=True)
class PoE(Selecting):
    """Product of experts.

    Attributes:
        clip: C, in nats: an expert's log-probabilities are clamped to [-C, 0]. Chosen on public tasks.
        normalization: ``labels``, ``vocabulary`` or ``max`` (specification 5.1.1); privacy is the same.
        prior_weight: a: the model's answer without any example multiplies each label's weight by its probability to
            this power. Public, hence free. 0 for none.

    Raises:
        ParameterError: A parameter is out of range.
    """

    step: ClassVar[type[ProductOfExperts]] = ProductOfExperts
    clip: Clip = 2.3
    normalization: Annotated[str, OneOf(NORMALIZATIONS)] = "labels"
    prior_weight: PriorWeight = 0.0

    def __post_init__(self) -> None:
        read_fields(self, clip=LABEL_CLIP, normalization=OneOf(NORMALIZATIONS), prior_weight=PRIOR_WEIGHT)

    def claim(self, cost: ProductOfExperts, steps: int) -> Claim:
        return Claim(
            "PoEtry: rate times clip a token, tokens by basic or advanced composition",
            lambda delta, answers: basic_or_advanced(cost.clip * float(cost.rate), steps * answers, delta),
        )

    def mechanism(self, price: Price) -> Exponential:
        return Exponential(price.epsilon)

    def scores(self, experts: ExpertOutputs) -> Scores:
        return experts.clipped_sum(self.clip, self.normalization)

    def log_prior(self, experts: ExpertOutputs) -> FloatArray | None:
        return self.prior_weight * experts.log_prior() if self.prior_weight else None
