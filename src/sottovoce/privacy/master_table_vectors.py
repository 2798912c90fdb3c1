"""Rows of the master table that add Gaussian noise to counts, probabilities or embeddings, and those built on them.

Guarantee   mu-Gaussian DP with the continuous law, correctly rounded; rho = mu^2/2 zCDP with the integer sampler.
Assumes     Vectors are clipped to the norm the row names; universes of labels and keywords are public.
Sources     specification T8, 5.2 to 5.6; Wu et al. (2024) for propose-test-release, with its proof corrected in 5.5.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from sottovoce.errors import ParameterError
from sottovoce.privacy.checked import Positive, Several, Share, Tiny, Whole
from sottovoce.privacy.events import GaussianDpEvent, PoissonSampledDpEvent, WithFailure
from sottovoce.privacy.master_table import GaussianRow, NoiseLaw, Row, Sensitivity, gaussian_event, is_drop, row
from sottovoce.privacy.numbers import rounded_down
from sottovoce.privacy.unit import ChangeType


def shifted_norm(candidates: int | None, noise: str, grid: int) -> float:
    """Norm of one vanished distribution under a noisy argmax, which ignores a constant added to every candidate.

    With integer noise the constant must be a multiple of the noise's grid (specification 5.2).

    Example:
        >>> round(shifted_norm(2, "continuous", 1), 4), shifted_norm(2, "discrete", 1)
        (0.7071, 1.0)
    """
    if candidates is None:
        return 1.0
    if noise == "continuous":
        return math.sqrt(1 - 1 / candidates)
    best = grid // candidates
    return math.sqrt(min((1 - c) ** 2 + (candidates - 1) * c * c for c in (best / grid, (best + 1) / grid)))


@final
@row("votes-gaussian", law="Gaussian noise of deviation sigma on every count, then the largest", source="spec. 5.2")
@dataclass(frozen=True)
class VotesGaussian(GaussianRow):
    """Votes with Gaussian noise. A vote that moves changes two counts.

    Attributes:
        sigma: Deviation per count.
        candidates: Number of labels; absent, as many as there may be.
        noise: ``discrete`` or ``continuous``.
        grid: Integer noise steps per vote.
    """

    sigma: Positive
    candidates: Several | None = None
    noise: NoiseLaw = "discrete"
    grid: Whole = 1

    def norm(self, change: ChangeType) -> float:
        drop = is_drop(change)
        return change.rows * (shifted_norm(self.candidates, self.noise, self.grid) if drop else math.sqrt(2))


@final
@row("tang-gaussian", law="Gaussian noise on the mean of the experts' probability vectors, argmax", source="5.8 (a)")
@dataclass(frozen=True)
class TangGaussian(GaussianRow):
    """A token of few-shot generation.

    Attributes:
        experts: M, the fixed public denominator.
        sigma: Deviation per candidate, on the mean.
        candidates: K, the public candidate list's length; absent, as many as there may be.
        noise: ``discrete`` or ``continuous``.
        grid: Integer noise steps per unit of probability.
    """

    experts: Whole
    sigma: Positive
    candidates: Several | None = None
    noise: NoiseLaw = "discrete"
    grid: Whole = 1024

    def norm(self, change: ChangeType) -> float:
        drop = is_drop(change)
        one = shifted_norm(self.candidates, self.noise, self.grid) if drop else math.sqrt(2)
        return change.rows * one / self.experts


@final
@row("esa", law="mean over a fixed number of clipped embeddings + Gaussian noise", source="specification 5.4")
@dataclass(frozen=True)
class EmbeddingMean(GaussianRow):
    """Embedding-space aggregation.

    Attributes:
        clip: B, the embeddings' largest norm.
        experts: m, the fixed public denominator.
        sigma: Deviation per coordinate, on the mean.
        noise: ``discrete`` or ``continuous``.
    """

    clip: Positive
    experts: Whole
    sigma: Positive
    noise: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        is_drop(change)
        return change.widths * self.clip / self.experts


@final
@row("leaf-sums", law="all leaves' vector sums in one Gaussian release", source="specification 5.6.4")
@dataclass(frozen=True)
class LeafSums(GaussianRow):
    """Sums of disjoint clusters: a moved point changes one leaf by 2R, or two leaves by R each, which is less.

    Attributes:
        radius: R, the vectors' largest norm.
        sigma: Deviation per coordinate.
        noise: ``discrete`` or ``continuous``.
    """

    radius: Positive
    sigma: Positive
    noise: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        is_drop(change)
        return change.widths * self.radius


@final
@row("level-counts", law="the sizes of all nodes of one level + discrete Gaussian noise", source="spec. 5.6.3")
@dataclass(frozen=True)
class LevelCounts(GaussianRow):
    """Counts of disjoint nodes: a point that moves changes two of them.

    Attributes:
        sigma: Deviation per count.
        noise: ``discrete`` or ``continuous``.
    """

    sigma: Positive
    noise: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        return change.rows * (1.0 if is_drop(change) else math.sqrt(2))


@final
@row("keywords-histogram", law="Gaussian noise on the keyword counts", source="specification 5.5.4")
@dataclass(frozen=True)
class KeywordHistogram(GaussianRow):
    """A histogram of keywords. Clipping entries is not enough: the number of keywords per response is the bound.

    Attributes:
        words: w, the most keywords one response may contribute.
        sigma: Deviation per count.
        noise: ``discrete`` or ``continuous``.
    """

    words: Whole
    sigma: Positive
    noise: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        return change.rows * math.sqrt(self.words if is_drop(change) else 2 * self.words)


@final
@row("keywords-ptr", law="propose-test-release of the exact top-k set when its gap passes a noisy test", source="5.5.3")
@dataclass(frozen=True)
class KeywordsTestRelease(Row):
    """Releases a set, never its order. Clamp, noise and threshold are in units of the change's widths.

    The noise grows with the change, so mu is 1/sigma for every change. The failure excludes the loss: a single release
    has the maximum of the two deltas.

    Attributes:
        sigma: Deviation of the test's noise, in widths of the change.
        failure_delta: Probability that the test passes where it should not.
        noise: ``discrete`` or ``continuous``.

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> KeywordsTestRelease(sigma=2, failure_delta=1e-6).event(SWAP)
        WithFailure(event=ZCDpEvent(rho=0.125, xi=0.0), delta=1e-06, exclusive=True)
    """

    family = "Gaussian noise, with a failure probability"

    sigma: Positive
    failure_delta: Tiny
    noise: NoiseLaw = "discrete"

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
        return WithFailure(gaussian_event(1 / self.sigma, self.noise), self.failure_delta, exclusive=True)


@final
@row(
    "pbs",
    law="prediction on a fresh Poisson subsample, a label-normalised vector + Gaussian noise, repeated",
    source="specification 5.3",
)
@dataclass(frozen=True)
class PredictionBySubsampling(Row):
    """Prediction by subsampling. A record in the sample re-evaluates the prompt, so its presence is a swap.

    Attributes:
        sampling_probability: q; independent coins, fresh for every subsample.
        sigma: Deviation per label. Only the correctly rounded continuous law has the profile that is amplified.
        subsamples: k, predictions averaged for one answer.
    """

    family = "Poisson-subsampled Gaussian noise"

    sampling_probability: Share
    sigma: Positive
    subsamples: Whole = 1

    @property
    def steps(self) -> int:
        return self.subsamples

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        if is_drop(change) or change.rows > 1:
            raise ParameterError(
                "change", change.name, "swap: one prompt holds the sample, and a present record re-evaluates it"
            )
        return Sensitivity(math.sqrt(2), "Euclidean norm of the change of one probability vector")

    def event(self, change: ChangeType) -> PoissonSampledDpEvent:
        base = GaussianDpEvent(self.sigma / self.sensitivity(change).value)
        return PoissonSampledDpEvent(self.sampling_probability, base)
