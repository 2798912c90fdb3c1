"""Keyword-space aggregation (KSA): keywords that many experts' answers share, then a public prompt with them.

For each keyword of a public universe the experts are counted whose answer has it. k keywords leave: as one list by the
joint exponential mechanism, one after another, or as the exact set if a noisy test of its lead passes. The writer then
answers a public prompt with these keywords.

Guarantee   See each step; one expert moves a count by at most 1, and all counts in one direction only where it comes or
            goes. A test that fails is an outcome, and costs the same. The order of a set is that of the universe: the
            exact set's own order is not covered.
Assumes     Isolation of the writer. The universe is public and was fixed before a record was read; k is public.
Sources     Wu et al. (2024), its proof of propose-test-release corrected in specification 5.5.3; Gillenwater et al.
            (2022) for joint top-k; Durfee and Rogers (2019) for one shot; specification 5.5, 9.2; 11, item 15. Proofs:
            docs/proofs/top_k.md, docs/proofs/sets_and_histograms.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self, final

from sottovoce.errors import ParameterError
from sottovoce.experts.written import WrittenOutputs
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.propose_test_release import LEAST_SIGMA, ProposeTestRelease
from sottovoce.mechanisms.top_k import JointTopK, select_in_turn
from sottovoce.methods.answering.answerer import Answerer, AnswerSetting, Outcome, PublicSide, register_answerer
from sottovoce.methods.base import Price
from sottovoce.parameters import Number, OneOf, Positive, Tiny, Whole
from sottovoce.privacy.accounting.calibration import calibrate
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.claims import Claim, basic_or_advanced, of_gaussian
from sottovoce.privacy.events import BoundedRange, DpEvent, SelfComposedDpEvent, WithFailure, ZCDpEvent
from sottovoce.privacy.numbers import rounded_down
from sottovoce.privacy.parameters import EPSILON
from sottovoce.privacy.step_costs import (
    NoiseLaw,
    SelectionStep,
    Sensitivity,
    StepCost,
    gaussian_event,
    step_cost,
)
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop
from sottovoce.randomness import Randomness

JOINT, TEST, ONE_SHOT = "joint", "ptr", "one-shot"
HINT = "Use these words where they fit: {words}."
"""Follows the instruction of the final prompt."""


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
        if self.sampler == "discrete":
            return WithFailure(ZCDpEvent(0.5 / self.sigma**2), self.failure_delta, exclusive=True)
        return WithFailure(gaussian_event(1 / self.sigma, self.sampler), self.failure_delta, exclusive=True)


@final
@dataclass(frozen=True)
class OneAfterAnother:
    """k keywords, each by an exponential mechanism of its own over those not yet chosen.

    Attributes:
        eta: Bounded range of one choice.
        k: How many.
    """

    eta: float
    k: int

    @property
    def event(self) -> SelfComposedDpEvent:
        """k adaptive choices, and not one of k times the range."""
        return SelfComposedDpEvent(Exponential(self.eta).event, self.k)

    def select(self, scores: Scores, randomness: Randomness) -> tuple[int, ...]:
        """Draws k different keywords in order."""
        return select_in_turn(Exponential(self.eta), self.k, scores, randomness)


@final
@register_answerer("ksa", summary="keywords that many experts' answers share, in a public prompt", source="spec. 5.5")
@dataclass(frozen=True)
class KSA(Answerer):
    """A public prompt with privately selected keywords.

    Attributes:
        selection: ``joint``: one ordered list. ``one-shot``: one keyword after another. ``ptr``: the exact set, if no
            one change could alter it.
        k: Keywords.
        rate: Weight of one count, for ``joint`` and ``one-shot``; ``None``: set by the price.
        sigma: Deviation of the test's noise over the sensitivity, for ``ptr``; ``None``: set by the price.
        failure_delta: Probability that the test passes where it should not, for ``ptr``; ``None``: the price's delta,
            since its failure and its loss exclude each other.

    Raises:
        ParameterError: A number is out of range, or given for another selection.
    """

    calibrated_parameters: ClassVar[tuple[str, ...]] = ("rate", "sigma", "failure_delta")
    steps: ClassVar[Sequence[type[StepCost]]] = (KeywordsJoint, KeywordsTopK, KeywordsTestRelease)
    refused: ClassVar[Mapping[tuple[str, str], str]] = {
        ("universe", "private"): (
            "public: a keyword read off one expert's private answer has probability 0 without it, an infinite loss "
            "(specification 5.5). Allowed are the words of public answers, and a fixed vocabulary"
        ),
        ("order", "frequency"): (
            "absent: the order of an exact set is not covered (specification 5.5.3). 'joint' and 'one-shot' order "
            "theirs"
        ),
    }
    selection: Annotated[str, OneOf((JOINT, TEST, ONE_SHOT))] = JOINT
    k: Annotated[int, Number(1, 64, whole=True)] = 10
    rate: Positive | None = None
    sigma: Positive | None = None
    failure_delta: Tiny | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        other = ("rate",) if self.selection == TEST else ("sigma", "failure_delta")
        for name in other:
            if (value := getattr(self, name)) is not None:
                raise ParameterError(name, value, f"absent: the selection {self.selection!r} has no such noise")

    @property
    def needs_delta(self) -> bool:  # type: ignore[override]
        """Whether the selection has no pure guarantee."""
        return self.selection == TEST

    @property
    def uses_delta(self) -> bool:
        """All but one joint selection at its price: several selections cost less at a delta than without one."""
        return self.selection != JOINT or self.rate is not None

    @property
    def open_parameters(self) -> tuple[str, ...]:
        """Those that a price settles for this selection."""
        return ("sigma", "failure_delta") if self.selection == TEST else ("rate",)

    def calibrated(self, price: Price, setting: AnswerSetting) -> Self:
        most = setting.keywords - (self.selection == TEST)
        if self.k > most:
            limit = f"at most {most}: there are {setting.keywords} public keywords"
            if setting.keywords < 2:
                limit = "below the number of public keywords: give public examples (--public), or a vocabulary"
            raise ParameterError("k", self.k, limit)
        answerer = self.at(price, setting.change, setting.adjacency, setting.bounds(price.delta))
        answerer._mechanism(setting)  # what it cannot draw is refused before it is charged
        return answerer

    def at(self, price: Price, change: ChangeType, adjacency: Adjacency, bounds: Sequence[str] = ()) -> Self:
        """Itself with its noise set so that one answer costs no more than a price.

        One list is set by its pure epsilon, whatever the ledger adds: what a delta adds to a single selection is
        negligible (specification 6.3), and a ledger that adds rho is charged the exact rho of its bounded range (T3).

        Args:
            price: Of the answer.
            change: How one change of the data can change the experts' texts.
            adjacency: The relation that ``change`` is for.
            bounds: Accounting bounds to rely on; by default the least of all quick ones.

        Raises:
            ParameterError: No noise meets the price.
        """
        lost = price.delta if self.selection == TEST and self.failure_delta is None else self.failure_delta
        answerer = replace(self, failure_delta=lost)
        if (self.sigma if self.selection == TEST else self.rate) is not None:
            return answerer
        if self.selection == JOINT:
            return answerer._with_noise(price.epsilon / (2 * change.widths))
        found = calibrate(
            lambda value: answerer._with_noise(value)._released(change),
            price.epsilon,
            price.delta,
            adjacency,
            increasing=self.selection != TEST,
            bounds=bounds,
        )
        return answerer._with_noise(self._within(found.parameter, change))

    def _with_noise(self, value: float) -> Self:
        return replace(self, sigma=value) if self.selection == TEST else replace(self, rate=value)

    def _within(self, value: float, change: ChangeType) -> float:
        """The parameter, or the one of least noise that the mechanism has: a price above it leaves some unused."""
        if self.selection == TEST:
            return max(value, LEAST_SIGMA)
        return min(value, EPSILON.most / (2 if self.selection == JOINT else 1) / change.widths)

    def _released(self, change: ChangeType) -> DpEvent:
        """The event of the step, as often as it happens."""
        one = self.step.event(change)
        return SelfComposedDpEvent(one, self.k) if self.selection == ONE_SHOT else one

    def event(self, setting: AnswerSetting) -> DpEvent:
        return self._mechanism(setting).event

    def _mechanism(self, setting: AnswerSetting) -> JointTopK | OneAfterAnother | ProposeTestRelease:
        """What draws, at the price of the step."""
        event = self.step.event(setting.change)
        if self.selection == TEST:
            return ProposeTestRelease(float(self.sigma or 0), float(self.failure_delta or 0), self.k)
        assert isinstance(event, BoundedRange)
        return JointTopK(event.eta, self.k) if self.selection == JOINT else OneAfterAnother(event.eta, self.k)

    @property
    def step(self) -> StepCost:
        """The step that is released; the noise must be set."""
        if self.selection == JOINT:
            return KeywordsJoint(self.rate or 0)
        if self.selection == ONE_SHOT:
            return KeywordsTopK(self.rate or 0, self.k)
        return KeywordsTestRelease(self.sigma or 0, self.failure_delta or 0)

    def cost(self, setting: AnswerSetting) -> Sequence[tuple[StepCost, int]]:
        return [(self.step, 1)]

    def claim(self, setting: AnswerSetting) -> Claim | None:
        return published(self.selection, self.rate, self.sigma, self.failure_delta)

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        assert experts is not None
        chosen = self.select(experts.keyword_counts(public.universe), setting, randomness)
        return Outcome(self.name, {"keywords": None if chosen is None else [public.universe[i] for i in chosen]})

    def select(self, counts: Scores, setting: AnswerSetting, randomness: Randomness) -> tuple[int, ...] | None:
        """Draws k keywords from their counts, or ``None`` where a test fails."""
        mechanism = self._mechanism(setting)
        if isinstance(mechanism, ProposeTestRelease):
            return mechanism.release(counts, randomness)
        return mechanism.select(counts, randomness)

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        words = outcome.values["keywords"]
        return public.written(HINT.format(words=", ".join(words)) if words else "")


def published(selection: str, rate: float | None, sigma: float | None, failure_delta: float | None) -> Claim | None:
    """What the paper states of a selection; ``None`` where it states nothing."""
    if selection == JOINT:
        epsilon = 2 * (rate or 0)
        return Claim(
            "Wu et al.: utilities move by at most 1, answers by basic or advanced composition",
            lambda delta, answers: basic_or_advanced(epsilon, answers, delta),
        )
    if selection == TEST:
        mu, lost = 1 / (sigma or 1), failure_delta or 0
        return Claim(
            "Wu et al.: the deltas of loss and failure added",
            lambda delta, answers: of_gaussian(mu, answers, delta - answers * lost),
        )
    return None
