"""Methods that write token by token, and the generic step, and what their papers say they cost.

Assumes     What the rows assume; amplification by subsampling is not counted.
Sources     specification 5.8 to 5.11 and 11, named at each recipe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, final

from sottovoce.privacy import explain_claims as claims
from sottovoce.privacy.checked import OneOf, Positive, Several, Whole
from sottovoce.privacy.explain_claims import Claim
from sottovoce.privacy.explain_recipe import DIALS, Part, Recipe, recipe
from sottovoce.privacy.master_table import NoiseLaw
from sottovoce.privacy.master_table_decoding import (
    ClippedLogits,
    InvisibleInk,
    Prism,
    SparseVector,
    TangExponential,
    TangSelection,
)
from sottovoce.privacy.master_table_selection import Step
from sottovoce.privacy.master_table_vectors import TangGaussian
from sottovoce.privacy.unit import Adjacency

SQRT2 = math.sqrt(2)


@final
@recipe("tang", title="Few-shot generation", source="Tang et al. (2024); specification 5.8")
@dataclass(frozen=True)
class Tang(Recipe):
    """Tokens from the mean of the experts' next-token distributions over a public list."""

    experts: Whole
    noise: Annotated[str, OneOf(("gaussian", "exponential", "em"))] = "gaussian"
    sigma: Positive | None = None
    scale: Positive | None = None
    rate: Positive | None = None
    candidates: Several | None = None
    tokens: Whole = 1
    sampler: NoiseLaw | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        gaussian = ("candidates", "sampler") if self.noise == "gaussian" else ()
        if self.noise == "gaussian":
            object.__setattr__(self, "sampler", self.sampler or "discrete")
        self.needs(self.dial, *(name for name in gaussian if getattr(self, name) is not None))

    @property
    def dial(self) -> str:
        return "scale" if self.noise == "exponential" else DIALS[self.noise]

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        match self.noise:
            case "exponential":
                return (Part(TangExponential(self.experts, self.scale or 0), self.tokens),)
            case "em":
                return (Part(TangSelection(self.experts, self.rate or 0), self.tokens),)
        row = TangGaussian(self.experts, self.sigma or 0, self.candidates, self.sampler or "discrete")
        return (Part(row, self.tokens),)

    def claim(self) -> Claim | None:
        if self.noise == "em":
            return None
        if self.noise == "exponential":
            one = 2 / (self.experts * (self.scale or 1))
            return Claim(
                "Tang et al.: 2/(experts scale) a token, tokens by basic or advanced composition",
                lambda delta, answers: claims.basic_or_advanced(one, self.tokens * answers, delta),
            )
        mu = SQRT2 / (self.experts * (self.sigma or 1))
        return Claim(
            "Tang et al.: Gaussian noise for a sensitivity of sqrt(2)/experts, without their amplification",
            lambda delta, answers: claims.of_gaussian(mu, self.tokens * answers, delta),
        )


@final
@recipe("amin", title="Clipped-logit decoding with public tokens", source="Amin et al. (2024); specification 5.9")
@dataclass(frozen=True)
class Amin(Recipe):
    """Private tokens where a sparse-vector test asks for them. ``tokens`` is the most private ones, r."""

    batch: Whole
    threshold_scale: Positive
    clip: Positive = 10.0
    temperature: Positive | None = None
    tokens: Whole = 1
    dial = "temperature"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        token = ClippedLogits(self.clip, self.batch, self.temperature or 0)
        return (Part(token, self.tokens), Part(SparseVector(self.batch, self.threshold_scale), self.tokens))

    @property
    def steps(self) -> int:
        return self.tokens

    def claim(self) -> Claim:
        logits, test = self.clip / (self.temperature or 1), 2 / self.threshold_scale
        one = (logits**2 / 2 + test**2 / 2) / self.batch**2
        return Claim(
            "Amin et al.: rho = r ((c/(s tau))^2/2 + 2/(s sigma)^2)",
            lambda delta, answers: claims.of_zcdp(one * self.tokens * answers, delta),
        )


@final
@recipe("prism", title="PRISM", source="Privacy-aware ICL; specification 5.10")
@dataclass(frozen=True)
class PRISM(Recipe):
    """Tokens from clipped private logits blended with public ones."""

    batch: Whole
    clip: Positive = 10.0
    temperature: Positive | None = None
    tokens: Whole = 1
    dial = "temperature"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        return (Part(Prism(self.clip, self.batch, self.temperature or 0), self.tokens),)

    def claim(self) -> Claim:
        eta = self.clip / (self.batch * (self.temperature or 1))
        return Claim(
            "PRISM, Theorem 1: eta sqrt(2 T ln(1/delta)), which drops the term T eta (e^eta - 1)",
            lambda delta, answers: claims.without_second_term(eta, self.tokens * answers, delta),
        )


@final
@recipe("invisible-ink", title="InvisibleInk (DClip)", source="Vinod et al. (2025); specification 5.11")
@dataclass(frozen=True)
class Ink(Recipe):
    """Tokens from public logits plus clipped differences."""

    batch: Whole
    clip: Positive
    temperature: Positive | None = None
    tokens: Whole = 1
    dial = "temperature"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        return (Part(InvisibleInk(self.clip, self.batch, self.temperature or 0), self.tokens),)

    def claim(self) -> Claim:
        one = (self.clip / (self.batch * (self.temperature or 1))) ** 2 / 2
        return Claim(
            "InvisibleInk: rho = T C^2/(2 B^2 tau^2)",
            lambda delta, answers: claims.of_zcdp(one * self.tokens * answers, delta),
        )


@final
@recipe("exponential", title="Generic bounded-range steps", source="Durfee and Rogers (2019); specification T1")
@dataclass(frozen=True)
class Generic(Recipe):
    """Steps whose eta is already that of the change, under either adjacency."""

    eta: Positive | None = None
    steps: Whole = 1
    placed = False
    dial = "eta"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        return (Part(Step(self.eta or 0), self.steps),)
