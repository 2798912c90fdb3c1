"""Product of experts, token by token: multiply the experts' clipped predictions of the next token and sample one.

Guarantee   eta-bounded-range a token: weights exp(rate * sum of log-probabilities clamped to [-C, 0]), eta = rate C for
            a drop and twice that for a swap.
Assumes     Isolation. The sum is not divided; ``rate`` is public.
Sources     Private PoEtry; specification 5.1, 5.1.6 (many tokens), 5.1.3 (public prior). Clipping clamps; it never sets
            an unlikely token to zero, the best score. With a prior, InvisibleInk spends the same budget on what the
            records add to it (5.1.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from sottovoce.experts.clipping import CLIP, NORMALIZATIONS, Candidates, ClampedLogProbabilities
from sottovoce.experts.label_scores import FloatArray
from sottovoce.experts.token_scores import log_prior_of
from sottovoce.methods.decoding.decoder import Part, Setting, register_decoder
from sottovoce.methods.decoding.selecting import SelectingDecoder
from sottovoce.methods.poe import PRIOR_WEIGHT, PriorWeight, ProductOfExperts
from sottovoce.parameters import OneOf, Positive, Whole, read_fields
from sottovoce.privacy.claims import Claim, basic_or_advanced


@final
@register_decoder(
    "poe-decoding", summary="product of experts over clamped log-probabilities", source="Private PoEtry; spec. 5.1.6"
)
@dataclass(frozen=True)
class PoEDecoding(SelectingDecoder):
    """Product of experts for an answer of several tokens.

    Attributes:
        clip: C, in nats: log-probabilities are clamped to [-C, 0].
        rate: lambda, the weight of one nat of one expert; calibrated to the price by default.
        top_k: Only the k tokens that the public prompt finds likeliest; ``None`` for the whole vocabulary.
        normalization: Log-probabilities among the ``candidates``, of the whole ``vocabulary``, or relative to the best
            candidate (``max``). Privacy is the same.
        prior_weight: a: the public distribution to this power multiplies the weights, free of charge. 0 for none.

    Example:
        >>> from sottovoce.methods.base import Price
        >>> from sottovoce.privacy.unit import DROP, Adjacency
        >>> asked = {"tokens": 32, "experts": 8, "adjacency": Adjacency.ADD_REMOVE, "change": DROP}
        >>> round(PoEDecoding().plan(Price(4.0, 1e-6), **asked).eta, 4)
        0.2861
    """

    clip: Positive = 5.0
    rate: Positive | None = None
    top_k: Whole | None = 100
    normalization: Annotated[str, OneOf(NORMALIZATIONS)] = "candidates"
    prior_weight: PriorWeight = 0.0
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"rate": True}
    divides: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        read_fields(self, clip=CLIP, prior_weight=PRIOR_WEIGHT)

    @property
    def rule(self) -> ClampedLogProbabilities:
        return ClampedLogProbabilities(self.clip, self.normalization)

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(ProductOfExperts(clip=self.clip, rate=self.rate or 0), setting.tokens)]

    def claim(self, setting: Setting) -> Claim:
        token_epsilon, steps = self.clip * (self.rate or 0), setting.tokens * setting.texts
        return Claim(
            "PoEtry: rate times clip a token, tokens by basic or advanced composition",
            lambda delta, answers: basic_or_advanced(token_epsilon, steps * answers, delta),
        )

    def log_prior(self, public: Candidates) -> FloatArray | None:
        return log_prior_of(public, 1 / self.prior_weight) if self.prior_weight else None
