"""PRISM: tokens from the mean of clipped private logits, blended with the public ones.

Guarantee   eta-bounded-range a token, eta = c / (s temperature) for a drop and twice that for a swap. The blend buys no
            privacy: softmax((mean + u) / (2 temperature)) is the exponential mechanism on the mean at the doubled
            temperature, times the public factor exp(u / (2 temperature)).
Assumes     Isolation, and s a public constant. The published total, eta sqrt(2 T ln(1/delta)), is not used: it is not a
            bound (specification 11, 17).
Sources     Privacy-Aware ICL (PRISM); specification 5.9, 5.10. Clipping lifts every token to at most 2c / temperature
            nats below the best, so that long vocabularies want ``top_k``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from sottovoce.experts.clipping import CLIP, Candidates, ClippedLogits
from sottovoce.experts.label_scores import FloatArray
from sottovoce.experts.token_scores import log_prior_of
from sottovoce.methods.decoding.decoder import Part, Setting, register_decoder
from sottovoce.methods.decoding.selecting import SelectingDecoder
from sottovoce.parameters import Positive, Whole, read_fields
from sottovoce.privacy.claims import Claim, without_second_term
from sottovoce.privacy.step_costs import ClippedMeanStep, step_cost


@final
@step_cost(
    "prism", law="softmax((mean of clipped private logits + clipped public logits) / (2 temperature))", source="5.10"
)
@dataclass(frozen=True)
class PrismToken(ClippedMeanStep):
    """A token of PRISM. The public half is a free prior; what it buys is the doubled temperature.

    Attributes:
        clip: c; an expert's width is 2c.
        experts: s, the fixed public denominator.
        temperature: tau.

    Example:
        >>> from sottovoce.privacy.unit import DROP
        >>> round(PrismToken(clip=10, experts=255, temperature=1.02).event(DROP).eta, 6)
        0.038447
    """

    clip: Positive
    experts: Whole
    temperature: Positive

    @property
    def eta_per_width(self) -> float:
        return self.clip / (self.experts * self.temperature)


@final
@register_decoder("prism", summary="clipped private logits blended with public ones", source="PRISM; spec. 5.10")
@dataclass(frozen=True)
class PRISM(SelectingDecoder):
    """PRISM.

    Attributes:
        clip: c, in nats: logits are lifted to at least the best less 2c.
        temperature: tau; calibrated to the price by default.
        top_k: Only the k tokens that the public prompt finds likeliest; ``None``, as published, for all.

    Example:
        >>> from sottovoce.methods.base import Price
        >>> from sottovoce.privacy.unit import DROP, Adjacency
        >>> plan = PRISM().plan(
        ...     Price(1.0, 1e-5), tokens=100, experts=255, adjacency=Adjacency.ADD_REMOVE, change=DROP
        ... )
        >>> round(plan.decoder.temperature, 4), round(plan.eta, 6)
        (0.7891, 0.049697)
    """

    clip: Positive = 10.0
    temperature: Positive | None = None
    top_k: Whole | None = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"temperature": False}

    def __post_init__(self) -> None:
        super().__post_init__()
        read_fields(self, clip=CLIP)

    @property
    def rule(self) -> ClippedLogits:
        return ClippedLogits(self.clip)

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(PrismToken(self.clip, setting.experts, self.temperature or 0), setting.tokens)]

    def claim(self, setting: Setting) -> Claim:
        eta = self.clip / (setting.experts * (self.temperature or 1))
        return Claim(
            "PRISM, Theorem 1: eta sqrt(2 T ln(1/delta)), which drops the term T eta (e^eta - 1)",
            lambda delta, answers: without_second_term(eta, setting.tokens * setting.texts * answers, delta),
        )

    def log_prior(self, public: Candidates) -> FloatArray:
        logits = log_prior_of(public, 1.0)
        clipped = np.maximum(-self.clip, logits - logits.max() + self.clip)
        return np.asarray(clipped / (2 * (self.temperature or 0)))
