"""Keyword-space aggregation (KSA): keywords that many responses share, from a public universe.

Guarantee   See each step. The universe of keywords is public, and so is the number of them that a response may add.
Sources     Wu et al. (2024), its proof of propose-test-release corrected in specification 5.5.3; Gillenwater et al.
            (2022) for joint top-k; specification 5.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final, Self, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.explain.subject import Change, Setting, composed
from sottovoce.methods.answering.ksa import KSA as Answerer
from sottovoce.methods.answering.ksa import KeywordsJoint, KeywordsTestRelease, KeywordsTopK, published
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import OneOf, Positive, Tiny, Whole
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.step_costs import GaussianStep, NoiseLaw, step_cost
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop

_SELECTIONS: Final = {"joint": "joint", "top-k": "one-shot", "ptr": "ptr"}
"""What an answerer calls a release."""


@final
@step_cost("keywords-histogram", law="Gaussian noise on the keyword counts", source="specification 5.5.4")
@dataclass(frozen=True)
class KeywordHistogram(GaussianStep):
    """A histogram of keywords. Clipping entries is not enough: the number of keywords per response is the bound.

    Attributes:
        words: w, the most keywords one response may contribute.
        sigma: Deviation per count.
        sampler: ``discrete`` or ``continuous``.
    """

    words: Whole
    sigma: Positive
    sampler: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        return change.rows * math.sqrt(self.words if is_drop(change) else 2 * self.words)


@final
@register_cost_model("ksa", summary="Keyword-space aggregation", source="Wu et al. (2024); specification 5.5")
@dataclass(frozen=True)
class KSA(CostModel):
    """Keywords that many responses share, from a public universe."""

    release: Annotated[str, OneOf(("joint", "top-k", "ptr", "histogram"))] = "joint"
    rate: Positive | None = None
    keywords: Whole | None = None
    sigma: Positive | None = None
    failure_delta: Tiny | None = None
    words: Whole | None = None
    sampler: NoiseLaw | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        own = {"joint": (), "top-k": ("keywords",), "ptr": ("failure_delta",), "histogram": ("words",)}[self.release]
        if self.calibrated_parameter == "sigma":
            object.__setattr__(self, "sampler", self.sampler or "discrete")
            own = (*own, "sampler")
        self.needs(self.calibrated_parameter, *own)

    @property
    def calibrated_parameter(self) -> str:  # type: ignore[override]
        return "rate" if self.release in ("joint", "top-k") else "sigma"

    def released(self, adjacency: Adjacency) -> tuple[Part, ...]:
        match self.release:
            case "joint":
                return (Part(KeywordsJoint(self.rate or 0)),)
            case "top-k":
                return (Part(KeywordsTopK(self.rate or 0, self.keywords or 0)),)
            case "ptr":
                return (Part(KeywordsTestRelease(self.sigma or 0, self.failure_delta or 0, self.sampler or "")),)
        return (Part(KeywordHistogram(self.words or 0, self.sigma or 0, self.sampler or "")),)

    def priced(self, setting: Setting, change: Change) -> Self | None:
        if setting.epsilon is None or self.release == "histogram" or self.sampler == "continuous":
            return None
        if self.release == "ptr" and setting.delta < (self.failure_delta or 0):
            return None
        price, selection = Price(setting.epsilon, setting.delta), _SELECTIONS[self.release]
        answerer = Answerer(selection, k=self.keywords or 1, failure_delta=self.failure_delta)
        calibrated = answerer.at(price, change.kind, change.adjacency)
        return self.with_noise(float((calibrated.sigma if self.release == "ptr" else calibrated.rate) or 0))

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        if self.release == "histogram" or self.sampler == "continuous":
            return None
        return composed(self.parts(change), change.kind)

    def claim(self) -> Claim | None:
        return published(self.release, self.rate, self.sigma, self.failure_delta)
