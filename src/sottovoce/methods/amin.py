"""Amin et al.: private tokens only where a noisy test says that the experts disagree with the public model.

Guarantee   A run of the test ends with one private token, and both are charged when the run's threshold is drawn: the
            run as pure DP, 2 / (s threshold_scale), the token as bounded range, 2c / (s temperature), each doubled
            for a swap. At most ``private_tokens`` runs start in a text; a last run that is never crossed costs as much.
            Which tokens are private is part of what the test releases.
Assumes     Isolation, and s a public constant. Public tokens come from public logits alone.
Sources     Amin et al. (2024); specification 5.9, corrected there for a swap. Above-threshold with discrete Laplace
            noise: mechanisms.above_threshold.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final, Self, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import CLIP, Candidates, ClippedLogits, Probabilities
from sottovoce.experts.label_scores import FloatArray
from sottovoce.experts.token_scores import log_prior_of, scores_of, summed
from sottovoce.mechanisms.above_threshold import AboveThreshold, ThresholdRun
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan, Part, Setting, TokenSampler, register_decoder
from sottovoce.models.stepper import Step
from sottovoce.parameters import Positive, Share, Whole, read_fields
from sottovoce.privacy.accounting.renyi import rho_of_budget, rho_of_pure
from sottovoce.privacy.aggregates import Counts, IntArray, Scores
from sottovoce.privacy.claims import Claim, of_zcdp
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.step_costs import ClippedMeanStep, PureStep, Sensitivity, step_cost
from sottovoce.privacy.unit import ChangeType
from sottovoce.randomness import Randomness

DISTANCE_BITS: Final = 22
"""Probabilities under the test are on a grid of 2**-22."""

_PUBLIC_STEPS: Final = 1 << 20
"""Grid steps in a nat, for tokens drawn from public weights."""


@final
@step_cost(
    "clipped-logits", law="softmax(mean of clipped private logits / temperature)", source="Amin et al.; spec. 5.9"
)
@dataclass(frozen=True)
class AminToken(ClippedMeanStep):
    """A private token of Amin et al.

    Attributes:
        clip: c; an expert's width is 2c.
        experts: s, the fixed public denominator.
        temperature: tau.
    """

    clip: Positive
    experts: Whole
    temperature: Positive

    @property
    def eta_per_width(self) -> float:
        return 2 * self.clip / (self.experts * self.temperature)


@final
@step_cost(
    "sparse-vector", law="above-threshold test of an L1 distance, Laplace noise, until it is crossed", source="5.9"
)
@dataclass(frozen=True)
class AminTest(PureStep):
    """One run of the test that decides whether a token needs private data; charged when its threshold is drawn.

    Attributes:
        experts: s, the fixed public denominator.
        threshold_scale: Laplace scale of the threshold; a test's own noise has twice that.
    """

    experts: Whole
    threshold_scale: Positive

    @property
    def epsilon_per_width(self) -> float:
        return 2 / (self.experts * self.threshold_scale)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths / self.experts, "change of the L1 distance")


@final
@register_decoder(
    "amin", summary="clipped private logits, public tokens where they agree", source="Amin et al. (2024); spec. 5.9"
)
@dataclass(frozen=True)
class Amin(Decoder):
    """Clipped-logit decoding with public tokens.

    Attributes:
        clip: c, in nats: logits are lifted to at least the best less 2c.
        temperature: tau of private tokens; calibrated to the price by default.
        private_tokens: r, the most private tokens of a text; ``None`` for as many as it has tokens. After them the text
            goes on in public tokens.
        threshold: Distance, from 0 to 2, between the experts' mean distribution and the public one above which a token
            should be private.
        threshold_scale: Laplace scale of the threshold's noise, as a distance; a test's own noise has twice that. By
            default such that the tests take ``test_share`` of the price.
        test_share: Share of the price, in zCDP, for the tests. Without a ``threshold_scale`` only.
        public_temperature: Of public tokens.
        top_k: Only the k tokens that the public prompt finds likeliest; ``None``, as published, for all.
    """

    clip: Positive = 10.0
    temperature: Positive | None = None
    private_tokens: Whole | None = None
    threshold: Positive = 0.5
    threshold_scale: Positive | None = None
    test_share: Share = 0.3
    public_temperature: Positive = 1.5
    top_k: Whole | None = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"temperature": False}
    priced_too: ClassVar[tuple[str, ...]] = ("threshold_scale",)

    def __post_init__(self) -> None:
        super().__post_init__()
        read_fields(self, clip=CLIP)

    def runs(self, setting: Setting) -> int:
        """r: the most tests that may start in one text."""
        return min(self.private_tokens or setting.tokens, setting.tokens)

    def parts(self, setting: Setting) -> Sequence[Part]:
        token = AminToken(self.clip, setting.experts, self.temperature or 0)
        test = AminTest(setting.experts, self.threshold_scale or 0)
        return [Part(token, self.runs(setting)), Part(test, self.runs(setting))]

    def adaptive_steps(self, setting: Setting) -> int:
        return self.runs(setting) * setting.texts  # a run of the test ends with its token

    def claim(self, setting: Setting) -> Claim:
        logits, test = self.clip / (self.temperature or 1), 2 / (self.threshold_scale or 1)
        step_rho = (logits**2 / 2 + test**2 / 2) / setting.experts**2
        steps = self.runs(setting) * setting.texts
        return Claim(
            "Amin et al.: rho = r ((c/(s tau))^2/2 + 2/(s sigma)^2)",
            lambda delta, answers: of_zcdp(step_rho * steps * answers, delta),
        )

    def calibrated(self, price: Price | None, setting: Setting, bounds: Collection[str]) -> Self:
        if self.threshold_scale is not None:
            return super().calibrated(price, setting, bounds)
        if price is None or price.delta == 0:
            raise ParameterError("threshold_scale", None, "given where no price with a delta above 0 would settle it")
        rho = self.test_share * rho_of_budget(price.epsilon, price.delta)
        rho /= setting.texts * self.runs(setting) * (2 if setting.two_batches else 1)
        scale = setting.change.widths * 2 / (setting.experts * _pure_of(rho))
        return replace(self, threshold_scale=_up(scale)).calibrated(price, setting, bounds)

    def mechanisms(self, plan: DecodingPlan) -> tuple[Exponential, AboveThreshold]:
        token, test = (part.row.event(plan.setting.change) for part in self.parts(plan.setting))
        return Exponential(token.eta), AboveThreshold(test.epsilon)

    def start(
        self,
        plan: DecodingPlan,
        randomness: Randomness,
        *,
        eos_tokens: Sequence[int],
        forbidden_tokens: Sequence[int] = (),
    ) -> AminSampler:
        return AminSampler(plan, randomness, eos_tokens, forbidden_tokens)


@final
class AminSampler(TokenSampler):
    """Chooses private tokens where a test is crossed, and public ones elsewhere.

    Attributes:
        tests: Runs of the test that were started. Public: it follows from the tests' answers.
        private_tokens: Private tokens so far. Public, as above.
    """

    def __init__(
        self, plan: DecodingPlan, randomness: Randomness, eos_tokens: Sequence[int], forbidden_tokens: Sequence[int]
    ) -> None:
        super().__init__(plan, randomness, eos_tokens, forbidden_tokens)
        if not isinstance(plan.decoder, Amin):
            raise ParameterError("plan", plan.decoder.name, "one of the method 'amin'")
        self._decoder = plan.decoder
        self._select, self._above = plan.decoder.mechanisms(plan)
        self._clipped, self._shares = ClippedLogits(plan.decoder.clip), Probabilities(DISTANCE_BITS)
        self._most = plan.decoder.runs(plan.setting)
        self._run: ThresholdRun | None = None
        self.tests = self.private_tokens = 0

    @property
    def needs_experts(self) -> bool:
        """Whether any further token can depend on the experts. Public: it follows from the tests' answers."""
        return self._run is not None or self.tests < self._most

    def _executed(self) -> Sequence[int]:
        return [self.private_tokens, self.tests]

    def _public_rule(self) -> tuple[int | None, float | None]:
        return self._decoder.top_k, None

    def _draw(self, step: Step, public: Candidates) -> int:
        if not self.needs_experts:
            for _ in step.blocks:  # let the model keep in step; nothing is read
                pass
            return self._public_token(public)
        if self._run is None:
            self.tests += 1
            self._run = self._above.start(
                math.floor(self._decoder.threshold * (self._plan.setting.experts << DISTANCE_BITS)),
                sensitivity=self._sensitivity,
                adjacency=self._plan.setting.adjacency,
                randomness=self._randomness,
            )
        logits, shares = summed(step.blocks, public, [self._clipped, self._shares])
        if not self._run.above(self._query(shares, public)):
            return self._public_token(public)
        self._run = None
        self.private_tokens += 1
        return public.token(self._select.select(self._scores(logits), self._randomness))

    def law_of_first(self, step: Step) -> FloatArray:
        """A private token where the test is crossed, else a public one; the test's noise as if it were continuous."""
        public, law = self._candidates(step, None), np.zeros(step.public.shape[0])
        if public is None:
            return law
        logits, shares = summed(step.blocks, public, [self._clipped, self._shares])
        least = math.floor(self._decoder.threshold * (self._plan.setting.experts << DISTANCE_BITS))
        gap = (least - int(self._query(shares, public).values[0])) / float(self._above.scale(self._sensitivity))
        # The query's noise has twice the scale of the threshold's: the tail of the difference of both.
        tail = (4 * math.exp(-abs(gap) / 2) - math.exp(-abs(gap))) / 6
        private = tail if gap >= 0 else 1 - tail
        ids = range(len(public)) if public.ids is None else public.ids.tolist()
        public_law, private_law = self._public_law(public), self._select.law(self._scores(logits))
        law[list(ids)] = [
            private * float(p) + (1 - private) * float(q) for p, q in zip(private_law, public_law, strict=True)
        ]
        return law

    def _law(self, step: Step, public: Candidates) -> FloatArray:
        """Of a private token: that of a run's last one."""
        (logits,) = summed(step.blocks, public, [self._clipped])
        return np.array([float(p) for p in self._select.law(self._scores(logits))])

    def _scores(self, logits: IntArray) -> Scores:
        return scores_of(logits, self._clipped, self._plan.setting.change, self._plan.setting.adjacency)

    @property
    def _sensitivity(self) -> int:
        """A distribution sums to one at most, so a vanished one moves the distance by one, an exchanged one by two."""
        return self._shares.high * self._plan.setting.change.widths

    def _query(self, shares: IntArray, public: Candidates) -> Counts:
        """s times the L1 distance between the experts' mean and the public distribution, in grid steps."""
        expected = self._shares.on_grid(public.logits[None], Candidates(None, public.logits))[0].double().cpu().numpy()
        distance = np.abs(shares - self._plan.setting.experts * expected.astype(np.int64)).sum()
        return Counts([int(distance)], l1=self._sensitivity, adjacency=self._plan.setting.adjacency)

    def _public_token(self, public: Candidates) -> int:
        """A token from the public model at its own temperature. Scores of zero: nothing private is in it."""
        prior = log_prior_of(public, self._decoder.public_temperature)
        return public.token(Exponential(1.0).select(self._nothing(public), self._randomness, prior))

    def _public_law(self, public: Candidates) -> Sequence[Fraction]:
        return Exponential(1.0).law(self._nothing(public), log_prior_of(public, self._decoder.public_temperature))

    def _nothing(self, public: Candidates) -> Scores:
        return Scores([0] * len(public), sensitivity=_PUBLIC_STEPS, adjacency=self._plan.setting.adjacency)


def _pure_of(rho: float) -> float:
    """The epsilon of a pure release whose zCDP parameter is at most rho (specification T7)."""
    low, high = 0.0, 2 * math.sqrt(rho) + 2 * rho + 1e-9
    for _ in range(100):
        middle = (low + high) / 2
        if middle in (low, high):
            break  # nothing is between them
        low, high = (middle, high) if rho_of_pure(middle) <= rho else (low, middle)
    return low


def _up(scale: float) -> float:
    """To six digits, upwards."""
    return float(rounded_up(scale, 6))
