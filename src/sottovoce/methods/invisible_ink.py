"""InvisibleInk: tokens from the public logits plus the mean of clipped differences. The recommended decoder.

Guarantee   eta-bounded-range a token, eta = 2C / (B temperature) for a drop and twice that for a swap. The public
            logits are a free prior; only what the records add to them is clipped, so that C is a nat or less where
            PRISM needs ten.
Assumes     Isolation, and B a public constant. A null expert adds zero *difference*: leaving out its whole row, public
            part and all, would have no bounded width.
Sources     Vinod, Pillutla and Thakurta (2025); specification 5.11. Candidates are Top-k+: all tokens whose public
            logit is at least l_k - 2C. They hold the top k of the sum, which itself must not be looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Self, final

from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import CENTRES, CLIP, Candidates, ClippedDifferences
from sottovoce.experts.label_scores import FloatArray
from sottovoce.experts.token_scores import log_prior_of
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Part, Setting, register_decoder
from sottovoce.methods.decoding.selecting import SelectingDecoder
from sottovoce.parameters import OneOf, Positive, Whole, read_fields
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.claims import Claim, of_zcdp
from sottovoce.privacy.step_costs import ClippedMeanStep, step_cost

MOST_CALIBRATED: Final = 10.0
"""Nats. The largest clip that a price calibrates: beyond, hardly anything is clipped, and no token is left out."""


@final
@step_cost(
    "invisible-ink", law="softmax((public logits + mean of clipped differences) / temperature)", source="spec. 5.11"
)
@dataclass(frozen=True)
class InvisibleInkToken(ClippedMeanStep):
    """A token of InvisibleInk (DClip).

    Attributes:
        clip: C; an expert's difference to the public logits is clipped to [-C, C].
        experts: B, the fixed public denominator.
        temperature: tau.
    """

    clip: Positive
    experts: Whole
    temperature: Positive

    @property
    def eta_per_width(self) -> float:
        return 2 * self.clip / (self.experts * self.temperature)


@final
@register_decoder(
    "invisible-ink",
    summary="public logits plus clipped differences to them (recommended)",
    source="Vinod et al. (2025); spec. 5.11",
)
@dataclass(frozen=True)
class InvisibleInk(SelectingDecoder):
    """InvisibleInk (DClip with Top-k+).

    The price calibrates the clip, at a temperature chosen for its texts, as published; or the temperature, where a clip
    is given and no temperature.

    Attributes:
        clip: C, in nats: an expert's differences are clamped to [-C, C]; calibrated to the price by default, at 10 or
            less.
        temperature: tau.
        top_k: k of Top-k+; ``None`` for the whole vocabulary.
        centre: What is taken off an expert's differences before they are clipped: ``median``, ``midrange`` or, as
            published, ``none``. A function of one expert, hence free.

    Example:
        >>> from sottovoce.methods.base import Price
        >>> from sottovoce.privacy.unit import DROP, Adjacency
        >>> plan = InvisibleInk().plan(
        ...     Price(9.185, 1e-5), tokens=200, experts=8, adjacency=Adjacency.ADD_REMOVE, change=DROP
        ... )
        >>> round(plan.decoder.clip, 3)
        1.0
    """

    clip: Positive | None = None
    temperature: Positive | None = 1.0
    top_k: Whole | None = 100
    centre: Annotated[str, OneOf(CENTRES)] = "median"
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"clip": True, "temperature": False}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip is not None:
            read_fields(self, clip=CLIP)

    @property
    def rule(self) -> ClippedDifferences:
        return ClippedDifferences(self.clip or 0, self.centre)

    @property
    def margin(self) -> float:
        return 2 * (self.clip or 0)

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(InvisibleInkToken(self.clip or 0, setting.experts, self.temperature or 0), setting.tokens)]

    def claim(self, setting: Setting) -> Claim:
        token_rho = ((self.clip or 0) / (setting.experts * (self.temperature or 1))) ** 2 / 2
        return Claim(
            "InvisibleInk: rho = T C^2/(2 B^2 tau^2)",
            lambda delta, answers: of_zcdp(token_rho * setting.tokens * setting.texts * answers, delta),
        )

    def calibrated(self, price: Price | None, setting: Setting, bounds: Collection[str]) -> Self:
        if price is not None and self.clip is None and self.temperature is not None:
            widest = replace(self, clip=MOST_CALIBRATED)
            accountant = RdpAccountant(setting.adjacency).compose(widest.event(setting))
            if accountant.report(price.delta, bounds).epsilon <= price.epsilon:
                return widest
        try:
            return super().calibrated(price, setting, bounds)
        except ParameterError as error:
            if error.name != "clip" or price is None:
                raise
            limit = "more, or of fewer or shorter texts: it buys a clip of less than 1e-6 nats"
            raise ParameterError("epsilon", price.epsilon, limit) from None

    def log_prior(self, public: Candidates) -> FloatArray:
        return log_prior_of(public, self.temperature or 0)
