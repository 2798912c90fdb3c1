"""Report noisy max (RNM): every expert votes for one label, and a noisy count decides.

Guarantee   ``exponential`` epsilon-bounded-range, ``permute_and_flip`` epsilon-DP, ``gaussian`` (epsilon, delta)-DP by
            zCDP, an answer each; the change type from the specification's table 2.2. A vote that moves changes two
            counts: squared L2 sensitivity 2, not 1.
Assumes     Isolation, as for PoE.
Sources     Wu et al. (2024) for Gaussian noise on votes; McKenna and Sheldon (2020) for permute-and-flip;
            specification 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Self, final

from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.methods.base import Price, Selecting, register_method
from sottovoce.parameters import OneOf, Positive, Several, Whole, WorkedOut, read_fields
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.claims import Claim, of_gaussian
from sottovoce.privacy.events import DpEvent, ZCDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.step_costs import (
    GaussianStep,
    NoiseLaw,
    PureStep,
    RatedStep,
    SelectionStep,
    Sensitivity,
    StepCost,
    shifted_norm,
    step_cost,
)
from sottovoce.privacy.unit import ChangeType, is_drop


class _Votes(RatedStep):
    """Votes are one-hot: an expert's width is one vote."""

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths, "range of the change of the vote counts")


@final
@step_cost("votes-exponential", law="weights exp(rate * votes)", source="specification 5.2")
@dataclass(frozen=True)
class VotesExponential(_Votes, SelectionStep):
    """Votes chosen by the exponential mechanism, which is Gumbel noise.

    Attributes:
        rate: lambda, the weight of one vote.
    """


@final
@step_cost(
    "votes-permute-and-flip",
    law="permute-and-flip, which is exponential noise of scale 1/rate on every count",
    source="McKenna and Sheldon (2020); specification 5.2",
)
@dataclass(frozen=True)
class VotesPermuteAndFlip(_Votes, PureStep):
    """Votes chosen by permute-and-flip: pure DP, but its loss may be wider than epsilon, so it composes worse.

    Attributes:
        rate: lambda, the weight of one vote.
    """


@final
@step_cost(
    "votes-laplace", law="Laplace noise of the given scale on every count, then the largest", source="spec. 5.2, T7"
)
@dataclass(frozen=True)
class VotesLaplace(PureStep):
    """Votes with continuous Laplace noise, priced and never drawn. Its zCDP parameter composes better than its epsilon.

    Attributes:
        scale: b, in votes.

    Example:
        >>> from sottovoce.privacy.unit import DROP
        >>> round(VotesLaplace(scale=1).other_event(DROP).rho, 4)
        0.3679
    """

    scale: Positive

    @property
    def epsilon_per_width(self) -> float:
        return 1 / self.scale

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths, "range of the change of the vote counts")

    @classmethod
    def at(cls, epsilon: float, delta: float, change: ChangeType, **public: Any) -> Self:
        is_drop(change)
        return cls(scale=WorkedOut(change.widths / exact(epsilon)), **public)  # type: ignore[arg-type]

    def other_event(self, change: ChangeType) -> DpEvent:
        epsilon = float(1 / self.scale)
        rho = _laplace_rho(epsilon) * (1 if is_drop(change) else 2)
        return ZCDpEvent(rho * change.rows**2)


def _laplace_rho(epsilon: float) -> float:
    # Below 1e-4 the closed form cancels; half of epsilon squared is an upper bound.
    return epsilon + math.expm1(-epsilon) if epsilon > 1e-4 else epsilon * epsilon / 2


@final
@step_cost(
    "votes-gaussian", law="Gaussian noise of deviation sigma on every count, then the largest", source="spec. 5.2"
)
@dataclass(frozen=True)
class VotesGaussian(GaussianStep):
    """Votes with Gaussian noise. A vote that moves changes two counts.

    Attributes:
        sigma: Deviation per count.
        candidates: Number of labels; absent, as many as there may be.
        sampler: ``discrete`` or ``continuous``.
        grid: Integer noise steps per vote.
    """

    sigma: Positive
    candidates: Several | None = None
    sampler: NoiseLaw = "discrete"
    grid: Whole = 1

    def norm(self, change: ChangeType) -> float:
        drop = is_drop(change)
        return change.rows * (shifted_norm(self.candidates, self.sampler, self.grid) if drop else math.sqrt(2))


_STEPS: Final[Mapping[str, type[StepCost]]] = {
    "exponential": VotesExponential,
    "permute_and_flip": VotesPermuteAndFlip,
    "gaussian": VotesGaussian,
}
NOISES = tuple(_STEPS)


@final
@register_method("rnm", summary="report noisy max: one vote an expert, noisy counts", source="Wu et al. (2024)")
@dataclass(frozen=True)
class RNM(Selecting):
    """Report noisy max over votes.

    Attributes:
        noise: ``exponential`` (composes best), ``permute_and_flip`` (best for a single answer), or ``gaussian`` (as
            published; needs a delta).
    """

    also_priced: ClassVar[Mapping[tuple[str, str], type[StepCost]]] = {("noise", "laplace"): VotesLaplace}
    noise: Annotated[str, OneOf(NOISES)] = "exponential"

    def __post_init__(self) -> None:
        read_fields(self, noise=OneOf(NOISES))

    @property
    def step(self) -> type[StepCost]:  # type: ignore[override]
        return _STEPS[self.noise]

    @classmethod
    def kinds_of_step(cls) -> Sequence[type[StepCost]]:
        return (*_STEPS.values(), *cls.also_priced.values())

    def claim(self, cost: StepCost, steps: int) -> Claim | None:
        if not isinstance(cost, VotesGaussian):
            return None
        mu = 1 / float(cost.sigma)
        return Claim(
            "Wu et al.: Gaussian noise for a sensitivity of 1",
            lambda delta, answers: of_gaussian(mu, steps * answers, delta),
        )

    def mechanism(self, price: Price) -> SelectionMechanism:
        if self.noise == "gaussian":
            return GaussianNoisyMax.for_budget(price.epsilon, price.delta)
        return Exponential(price.epsilon) if self.noise == "exponential" else PermuteAndFlip(price.epsilon)

    def scores(self, experts: ExpertOutputs) -> Scores:
        return experts.votes()
