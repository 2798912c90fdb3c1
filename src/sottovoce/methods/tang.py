"""Few-shot generation (Tang et al.): tokens from the mean of the experts' distributions over a public list.

Guarantee   A token's loss, for a swap: ``gaussian``, discrete noise of deviation sigma on the mean of M distributions
            and the largest taken, rho = (sqrt(2) / (M sigma))^2 / 2; ``exponential``, noise of scale b on the mean of
            distributions divided by their largest entry, which is permute-and-flip, pure 2 / (M b); ``em``, weights
            exp(rate * mean), bounded range 2 rate / M.
Assumes     Isolation, and M a public constant. Amplification holds for the samplings and adjacencies of specification 7
            alone, and once for whatever one sample is used for: ``fresh`` says what that is. A fresh sample for every
            token is drawn here, by a coin for every expert, where each unit is an expert of its own and its presence
            changes no other (a drop); elsewhere whoever prepares the experts has to draw accordingly.
Sources     Tang et al. (2024); specification 5.8, 7, T10 to T12. Their sqrt(2) / M is right; their accountant for
            Poisson samples of what is drawn without replacement is not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, final

from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import BestIsOne, Candidates, Probabilities
from sottovoce.experts.token_scores import scores_of, summed, thinned
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.methods.decoding.decoder import PLAN_BOUNDS, DecodingPlan, Part, Setting, TokenSampler, register_decoder
from sottovoce.methods.decoding.selecting import SelectingDecoder
from sottovoce.models.stepper import Step
from sottovoce.parameters import OneOf, Positive, Several, Share, Whole
from sottovoce.privacy.accounting.amplification import Sampling, SharedSample
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.claims import Claim, basic_or_advanced, of_gaussian
from sottovoce.privacy.events import DpEvent, PureDP, SelfComposedDpEvent, ZCDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.step_costs import (
    GaussianStep,
    NoiseLaw,
    PureStep,
    SelectionStep,
    Sensitivity,
    StepCost,
    shifted_norm,
    step_cost,
)
from sottovoce.privacy.unit import ChangeType, is_drop
from sottovoce.randomness import Randomness

if TYPE_CHECKING:
    from torch import Tensor

NOISES: Final = ("gaussian", "exponential", "em")
FRESH: Final = ("never", "batch", "token")
BITS: Final = 20
"""Probabilities are on a grid of 2**-20."""

_DIALS: Final = {"gaussian": "sigma", "exponential": "scale", "em": "rate"}


@final
@step_cost(
    "tang-gaussian", law="Gaussian noise on the mean of the experts' probability vectors, argmax", source="5.8 (a)"
)
@dataclass(frozen=True)
class TangGaussian(GaussianStep):
    """A token of few-shot generation.

    Attributes:
        experts: M, the fixed public denominator.
        sigma: Deviation per candidate, on the mean.
        candidates: K, the public candidate list's length; absent, as many as there may be.
        sampler: ``discrete`` or ``continuous``.
        grid: Integer noise steps per unit of probability.
    """

    experts: Whole
    sigma: Positive
    candidates: Several | None = None
    sampler: NoiseLaw = "discrete"
    grid: Whole = 1024

    def norm(self, change: ChangeType) -> float:
        drop = is_drop(change)
        row_norm = shifted_norm(self.candidates, self.sampler, self.grid) if drop else math.sqrt(2)
        return change.rows * row_norm / self.experts


@final
@step_cost(
    "tang-exponential", law="exponential noise on the mean of max-normalised vectors, argmax", source="spec. 5.8 (b)"
)
@dataclass(frozen=True)
class TangExponential(PureStep):
    """Exponential noise is permute-and-flip: pure DP, not of bounded range.

    Attributes:
        experts: M, the fixed public denominator.
        scale: b of the exponential noise, on the mean.
    """

    experts: Whole
    scale: Positive

    @property
    def epsilon_per_width(self) -> float:
        return 1 / (self.experts * self.scale)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths / self.experts, "range of the change of the mean")


@final
@step_cost(
    "tang-em", law="weights exp(rate * mean of the experts' probability vectors)", source="specification 5.8 (c)"
)
@dataclass(frozen=True)
class TangSelection(SelectionStep):
    """The exponential mechanism on the same mean, which composes as bounded range.

    Attributes:
        experts: M, the fixed public denominator.
        rate: lambda, the weight of one unit of probability.
    """

    experts: Whole
    rate: Positive

    @property
    def eta_per_width(self) -> float:
        return self.rate / self.experts

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths / self.experts, "range of the change of the mean")


@final
@register_decoder(
    "tang", summary="noise on the experts' mean distribution over a public list", source="Tang et al. (2024); spec. 5.8"
)
@dataclass(frozen=True)
class Tang(SelectingDecoder):
    """Few-shot generation.

    Attributes:
        noise: ``gaussian`` (as published, needs a delta), ``exponential`` (as published), or ``em`` (composes best).
        sigma: Deviation on the mean, for ``gaussian``; calibrated to the price by default, like those that follow.
        scale: b, on the mean, for ``exponential``.
        rate: lambda, the weight of one unit of probability, for ``em``.
        top_k: K, the tokens that the public prompt finds likeliest.
        fresh: What a sample of the records serves: ``never`` (a fixed batch, no sample), a whole ``batch`` with all its
            texts, or one ``token``, as published. Where units have experts of their own, all of which read every token,
            that is a coin for each of them at every token; the sums are divided by ``sampling_rate`` of the experts.
        sampling_rate: Chance of a record to be in a sample, its slot drawn with it (``Sampling.CATEGORICAL``) unless it
            is an expert of its own (``Sampling.POISSON``).
        sample: Records in a sample without replacement; replace-one alone.
        population: Records in all, public, for a sample without replacement.
    """

    further: ClassVar[tuple[type[StepCost], ...]] = (TangGaussian,)
    noise: Annotated[str, OneOf(NOISES)] = "gaussian"
    sigma: Positive | None = None
    scale: Positive | None = None
    rate: Positive | None = None
    top_k: Several = 100
    fresh: Annotated[str, OneOf(FRESH)] = "never"
    sampling_rate: Share | None = None
    sample: Whole | None = None
    population: Whole | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for noise, calibrated_parameter in _DIALS.items():
            if noise != self.noise and getattr(self, calibrated_parameter) is not None:
                raise ParameterError(
                    calibrated_parameter, getattr(self, calibrated_parameter), f"absent: it belongs to noise '{noise}'"
                )
        given = [name for name in ("sampling_rate", "sample", "population") if getattr(self, name) is not None]
        expected = {"sampling_rate"} if "sampling_rate" in given else {"sample", "population"}
        if set(given) != (set() if self.fresh == "never" else expected):
            needs = "none of its numbers" if self.fresh == "never" else "sampling_rate, or sample and population"
            raise ParameterError("sampling", ", ".join(given) or None, f"{needs}, where fresh is '{self.fresh}'")
        if self.fresh == "token" and self.noise == "gaussian":
            raise ParameterError("fresh", "token", "'batch' or 'never' with integer Gaussian noise: no bound is known")

    @property
    def calibrated_parameters(self) -> Mapping[str, bool]:  # type: ignore[override]
        return {_DIALS[self.noise]: self.noise == "em"}

    @property
    def rule(self) -> Probabilities | BestIsOne:
        return BestIsOne(BITS) if self.noise == "exponential" else Probabilities(BITS)

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(self._row(self._divisor(setting)), setting.tokens)]

    def claim(self, setting: Setting) -> Claim | None:
        steps, experts = setting.tokens * setting.texts, setting.experts
        if self.noise == "exponential":
            token_epsilon = 2 / (experts * (self.scale or 1))
            return Claim(
                "Tang et al.: 2/(experts scale) a token, tokens by basic or advanced composition",
                lambda delta, answers: basic_or_advanced(token_epsilon, steps * answers, delta),
            )
        if self.noise == "em":
            return None
        mu = math.sqrt(2) / (experts * (self.sigma or 1))
        return Claim(
            "Tang et al.: Gaussian noise for a sensitivity of sqrt(2)/experts, without their amplification",
            lambda delta, answers: of_gaussian(mu, steps * answers, delta),
        )

    def alternatives(self, setting: Setting) -> Sequence[DpEvent]:
        if self.fresh == "never":
            return super().alternatives(setting)
        if setting.two_batches:
            raise ParameterError("labels_public", False, "true with samples: their rate would follow private labels")
        event, steps = self._row(self._divisor(setting)).event(setting.change), setting.tokens * setting.texts
        sample = self._sample(setting)
        sample.release(event, steps if self.fresh == "batch" else 1)
        return [sample.amplified() if self.fresh == "batch" else SelfComposedDpEvent(sample.amplified(), steps)]

    @property
    def refundable(self) -> bool:
        return self.fresh == "never"

    @property
    def bounds(self) -> Collection[str]:
        return PLAN_BOUNDS if self.fresh == "never" else ("pure", "amplified", "PLD")

    def start(
        self,
        plan: DecodingPlan,
        randomness: Randomness,
        *,
        eos_tokens: Sequence[int],
        forbidden_tokens: Sequence[int] = (),
    ) -> TokenSampler:
        if self.fresh == "token" and not self._coins(plan.setting):
            raise ParameterError("fresh", self.fresh, "priced alone, unless a unit's presence adds an expert: no coin")
        return super().start(plan, randomness, eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens)

    def mechanism(self, plan: DecodingPlan) -> SelectionMechanism:
        match plan.token_event:
            case ZCDpEvent() as event:
                return GaussianNoisyMax(event.rho)
            case PureDP() as event:
                return PermuteAndFlip(event.epsilon)
        return super().mechanism(plan)

    def subsample(self, plan: DecodingPlan, step: Step, randomness: Randomness) -> Step:
        """A coin for every expert; one that is not drawn is a null expert for this token."""
        if not self._coins(plan.setting):
            return step
        rate = exact(self.sampling_rate or 0)
        return Step(step.text, step.public, (_thinned(block, rate, randomness) for block in step.blocks))

    def scores(self, plan: DecodingPlan, step: Step, public: Candidates) -> Scores:
        (sums,) = summed(step.blocks, public, [self.rule])
        row, setting = self._row(self._divisor(plan.setting)), plan.setting
        squared = None
        if isinstance(row, TangGaussian):
            squared = math.ceil((Fraction(row.norm(setting.change)) * row.experts * row.grid) ** 2)
        return scores_of(sums, self.rule, setting.change, setting.adjacency, squared)

    def _row(self, experts: int) -> StepCost:
        match self.noise:
            case "exponential":
                return TangExponential(experts, self.scale or 0)
            case "em":
                return TangSelection(experts, self.rate or 0)
        return TangGaussian(experts, self.sigma or 0, self.top_k, grid=1 << BITS)

    def _coins(self, setting: Setting) -> bool:
        """Whether a sample is a coin for every expert."""
        return self.fresh == "token" and self.sampling_rate is not None and is_drop(setting.change)

    def _divisor(self, setting: Setting) -> int:
        """M: the experts, or those of them that a sample is expected to hold."""
        if not self._coins(setting):
            return setting.experts
        return max(1, int(exact(self.sampling_rate or 0) * setting.experts))

    def _sample(self, setting: Setting) -> SharedSample:
        sampling = Sampling.CATEGORICAL if self.sampling_rate else Sampling.WITHOUT_REPLACEMENT
        coins = self._coins(setting)
        return SharedSample(
            Sampling.POISSON if coins else sampling,
            setting.adjacency,
            change=setting.change,
            grouped=not coins,
            rate=self.sampling_rate,
            size=self.sample,
            population=self.population,
        )


def _thinned(block: Tensor, rate: Fraction, randomness: Randomness) -> Tensor:
    drawn = [randomness.below(rate.denominator) < rate.numerator for _ in range(block.shape[0])]
    return thinned(block, drawn)
