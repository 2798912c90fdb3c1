"""Keyword-space aggregation (KSA): keywords that many responses share, from a public universe.

Guarantee   See each step. The universe of keywords is public, and so is the number of them that a response may add.
Sources     Wu et al. (2024), its proof of propose-test-release corrected in specification 5.5.3; Gillenwater et al.
            (2022) for joint top-k; specification 5.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import OneOf, Positive, Tiny, Whole
from sottovoce.privacy.claims import Claim, basic_or_advanced, of_gaussian
from sottovoce.privacy.events import WithFailure
from sottovoce.privacy.numbers import rounded_down
from sottovoce.privacy.step_costs import (
    GaussianStep,
    NoiseLaw,
    SelectionStep,
    Sensitivity,
    StepCost,
    gaussian_event,
    step_cost,
)
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop


@final
@step_cost(
    "keywords-joint", law="one ordered top-k list with weight exp(rate * u), u = -max of count gaps", source="5.5.1"
)
@dataclass(frozen=True)
class KeywordsJoint(SelectionStep):
    """The joint exponential mechanism over whole lists. Its utility is not monotone: a drop moves it both ways.

    Attributes:
        rate: lambda, the weight of one count.
    """

    rate: Positive

    @property
    def eta_per_width(self) -> float:
        return 2 * self.rate

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(2 * change.widths, "range of the change of the lists' utilities")


@final
@step_cost(
    "keywords-top-k", law="Gumbel noise of scale 1/rate on the counts, the k largest in order", source="spec. 5.5.2"
)
@dataclass(frozen=True)
class KeywordsTopK(SelectionStep):
    """One-shot top-k: k steps, each of bounded range. Never one step of k times the range.

    Attributes:
        rate: lambda, the weight of one count.
        keywords: k, how many are released.
    """

    rate: Positive
    keywords: Whole

    @property
    def eta_per_width(self) -> float:
        return self.rate

    @property
    def steps(self) -> int:
        return self.keywords

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths, "range of the change of the keyword counts")


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
@step_cost(
    "keywords-ptr", law="propose-test-release of the exact top-k set when its gap passes a noisy test", source="5.5.3"
)
@dataclass(frozen=True)
class KeywordsTestRelease(StepCost):
    """Releases a set, never its order. Clamp, noise and threshold are in units of the change's widths.

    The noise grows with the change, so mu is 1/sigma for every change. The failure excludes the loss: a single release
    has the maximum of the two deltas.

    Attributes:
        sigma: Deviation of the test's noise, in widths of the change.
        failure_delta: Probability that the test passes where it should not.
        sampler: ``discrete`` or ``continuous``.

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> KeywordsTestRelease(sigma=2, failure_delta=1e-6).event(SWAP)
        WithFailure(event=ZCDpEvent(rho=0.125, xi=0.0), delta=1e-06, exclusive=True)
    """

    family = "Gaussian noise, with a failure probability"

    sigma: Positive
    failure_delta: Tiny
    sampler: NoiseLaw = "discrete"

    def scale(self, change: ChangeType) -> int:
        """What the gap is clamped at, the noise multiplied by, and the threshold: 1, 2 or 2k."""
        is_drop(change)
        return change.widths

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        k = self.scale(change)
        return Sensitivity(
            k, f"change of the gap (clamped at {k}, noise of deviation {rounded_down(k * self.sigma)}, threshold {k})"
        )

    def event(self, change: ChangeType) -> WithFailure:
        self.scale(change)
        return WithFailure(gaussian_event(1 / self.sigma, self.sampler), self.failure_delta, exclusive=True)


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

    def claim(self) -> Claim | None:
        if self.release == "joint":
            epsilon = 2 * (self.rate or 0)
            return Claim(
                "Wu et al.: utilities move by at most 1, answers by basic or advanced composition",
                lambda delta, answers: basic_or_advanced(epsilon, answers, delta),
            )
        if self.release == "ptr":
            mu, lost = 1 / (self.sigma or 1), self.failure_delta or 0
            return Claim(
                "Wu et al.: the deltas of loss and failure added",
                lambda delta, answers: of_gaussian(mu, answers, delta - answers * lost),
            )
        return None
