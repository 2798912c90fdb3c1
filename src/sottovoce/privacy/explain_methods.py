"""Methods that answer: votes, products, embeddings, keywords and groups, and what their papers say they cost.

Assumes     What the rows assume, and that subsamples are not reused between answers.
Sources     specification 5.1 to 5.6 and 11, named at each recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from sottovoce.privacy import explain_claims as claims
from sottovoce.privacy.checked import Number, OneOf, Positive, Several, Share, Switch, Tiny, Whole
from sottovoce.privacy.events import GaussianDpEvent, PoissonSampledDpEvent
from sottovoce.privacy.explain_claims import Claim
from sottovoce.privacy.explain_recipe import DIALS, Part, Recipe, recipe
from sottovoce.privacy.master_table import NoiseLaw
from sottovoce.privacy.master_table_decoding import (
    Half,
    SplitLevel,
)
from sottovoce.privacy.master_table_selection import (
    KeywordsJoint,
    KeywordsTopK,
    ProductOfExperts,
    VotesExponential,
    VotesLaplace,
    VotesPermuteAndFlip,
)
from sottovoce.privacy.master_table_vectors import (
    EmbeddingMean,
    KeywordHistogram,
    KeywordsTestRelease,
    LeafSums,
    LevelCounts,
    PredictionBySubsampling,
    VotesGaussian,
)
from sottovoce.privacy.unit import Adjacency


@final
@recipe("poe", title="Product of experts", source="Private PoEtry; specification 5.1")
@dataclass(frozen=True)
class PoE(Recipe):
    """Labels or tokens by a product of clipped experts."""

    clip: Positive = 2.3
    rate: Positive | None = None
    tokens: Whole = 1
    dial = "rate"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        return (Part(ProductOfExperts(self.clip, self.rate or 0), self.tokens),)

    def claim(self) -> Claim:
        one = self.clip * (self.rate or 0)
        return Claim(
            "PoEtry: rate times clip a token, tokens by basic or advanced composition",
            lambda delta, answers: claims.basic_or_advanced(one, self.tokens * answers, delta),
        )


@final
@recipe("rnm", title="Report noisy max over votes", source="Wu et al. (2024); specification 5.2")
@dataclass(frozen=True)
class RNM(Recipe):
    """Labels by noisy votes."""

    noise: Annotated[str, OneOf(("exponential", "permute_and_flip", "laplace", "gaussian"))] = "exponential"
    rate: Positive | None = None
    scale: Positive | None = None
    sigma: Positive | None = None
    candidates: Several | None = None
    sampler: NoiseLaw | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        gaussian = ("candidates", "sampler") if self.noise == "gaussian" else ()
        if self.noise == "gaussian":
            object.__setattr__(self, "sampler", self.sampler or "discrete")
        self.needs(self.dial, *(name for name in gaussian if getattr(self, name) is not None))

    @property
    def dial(self) -> str:
        return DIALS[self.noise]

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        match self.noise:
            case "exponential":
                return (Part(VotesExponential(self.rate or 0)),)
            case "permute_and_flip":
                return (Part(VotesPermuteAndFlip(self.rate or 0)),)
            case "laplace":
                return (Part(VotesLaplace(self.scale or 0)),)
        return (Part(VotesGaussian(self.sigma or 0, self.candidates, self.sampler or "discrete")),)

    def claim(self) -> Claim | None:
        if self.noise != "gaussian":
            return None
        mu = 1 / (self.sigma or 1)
        return Claim(
            "Wu et al.: Gaussian noise for a sensitivity of 1",
            lambda delta, answers: claims.of_gaussian(mu, answers, delta),
        )


@final
@recipe("pbs", title="Prediction by subsampling", source="Private PoEtry's baseline; specification 5.3")
@dataclass(frozen=True)
class PbS(Recipe):
    """Noisy predictions from Poisson subsamples, averaged."""

    sampling_probability: Share
    sigma: Positive | None = None
    subsamples: Annotated[int, Number(1, 10**6, whole=True)] = 1
    placed = False
    most_steps = 10**6
    dial = "sigma"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        return (Part(PredictionBySubsampling(self.sampling_probability, self.sigma or 0, self.subsamples)),)

    def claim(self) -> Claim:
        event = PoissonSampledDpEvent(self.sampling_probability, GaussianDpEvent(self.sigma or 1))
        return Claim(
            "PoEtry: a sensitivity of 1 for a probability vector, Poisson accounting under add-remove",
            lambda delta, answers: claims.of_event(event, self.subsamples * answers, delta),
        )


@final
@recipe("esa", title="Embedding-space aggregation", source="Wu et al. (2024); specification 5.4")
@dataclass(frozen=True)
class ESA(Recipe):
    """The nearest public response to a noisy mean embedding."""

    experts: Whole
    clip: Positive = 1.0
    sigma: Positive | None = None
    sampler: NoiseLaw = "discrete"
    dial = "sigma"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        return (Part(EmbeddingMean(self.clip, self.experts, self.sigma or 0, self.sampler)),)

    def claim(self) -> Claim:
        mu = self.clip / (self.experts * (self.sigma or 1))
        return Claim(
            "Wu et al.: noise for an embedding that vanishes",
            lambda delta, answers: claims.of_gaussian(mu, answers, delta),
        )


@final
@recipe("ksa", title="Keyword-space aggregation", source="Wu et al. (2024); specification 5.5")
@dataclass(frozen=True)
class KSA(Recipe):
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
        if self.dial == "sigma":
            object.__setattr__(self, "sampler", self.sampler or "discrete")
            own = (*own, "sampler")
        self.needs(self.dial, *own)

    @property
    def dial(self) -> str:
        return "rate" if self.release in ("joint", "top-k") else "sigma"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
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
            one = 2 * (self.rate or 0)
            return Claim(
                "Wu et al.: utilities move by at most 1, answers by basic or advanced composition",
                lambda delta, answers: claims.basic_or_advanced(one, answers, delta),
            )
        if self.release == "ptr":
            mu, lost = 1 / (self.sigma or 1), self.failure_delta or 0
            return Claim(
                "Wu et al.: the deltas of loss and failure added",
                lambda delta, answers: claims.of_gaussian(mu, answers, delta - answers * lost),
            )
        return None


@final
@recipe("dpm", title="Semantic groups by private clustering (DPM)", source="Public-data-assisted ICL; spec. 5.6")
@dataclass(frozen=True)
class DPM(Recipe):
    """Splits and counts level by level, then one release of all leaves' sums. Without amplification."""

    kappa: Positive
    count_sigma: Positive
    sigma: Positive
    levels: Whole
    radius: Positive = 1.0
    emptiness: Positive = 5.0
    centreness: Positive = 1.0
    rise: Share = 0.3
    knee: Half = 1 / 12
    one_coordinate: Switch = False
    sampler: NoiseLaw = "discrete"

    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        # The root's size is public where replacing keeps it; under add-remove it is released like the others.
        counts = self.levels if adjacency.size_is_public else self.levels + 1
        split = SplitLevel(self.kappa, self.emptiness, self.centreness, self.rise, self.knee, self.one_coordinate)
        return (
            Part(split, self.levels),
            Part(LevelCounts(self.count_sigma, self.sampler), counts),
            Part(LeafSums(self.radius, self.sigma, self.sampler)),
        )
