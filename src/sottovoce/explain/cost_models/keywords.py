"""Keyword-space aggregation (KSA): keywords that many responses share, from a public universe.

Guarantee   See each step. The universe of keywords is public, and so is the number of them that a response may add.
Sources     Wu et al. (2024), its proof of propose-test-release corrected in specification 5.5.3; Gillenwater et al.
            (2022) for joint top-k; specification 5.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.methods.answering.ksa import KeywordsJoint, KeywordsTestRelease, KeywordsTopK, published
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import OneOf, Positive, Tiny, Whole
from sottovoce.privacy.claims import Claim
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

    names: ClassVar[Mapping[str, str]] = {"release": "selection", "keywords": "k"}
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

    @classmethod
    def drawn(cls, values: Mapping[str, Any]) -> dict[str, Any] | None:
        words = dict(values)
        release = words.pop("release", None)
        if "words" in words or words.pop("sampler", "discrete") != "discrete":
            return None
        if release is not None:
            if release not in _SELECTIONS or "selection" in words:
                return None
            words["selection"] = _SELECTIONS[release]
        if "keywords" in words:
            if "k" in words:
                return None
            words["k"] = words.pop("keywords")
        return words if release != "top-k" or "k" in words else None

    def claim(self) -> Claim | None:
        return published(self.release, self.rate, self.sigma, self.failure_delta)
