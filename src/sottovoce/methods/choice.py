"""Private choice of demonstrations: for every label the exponential mechanism draws public texts like its records.

Each label's k texts are drawn one after another, without replacement, from all public candidates. The result is
ordinary demonstrations, for any model; where the answering model has the embedding that chose, a classifier by the
means of the chosen texts answers better, and costs nothing more.

Guarantee   The draws of one turn, of all labels together, are one bounded-range selection of eta = rate times the
            widths of a change: 1 for a drop, 2 for a swap. k turns are k adaptive ones, whatever the number of labels.
            A label without a record draws uniformly, and nothing is said of it.
Assumes     Isolation of the embedder: a record's vector is a function of that record. Labels, candidates and their map
            are public and were fixed before a record was read.
Sources     specification 5.14, T1, T6. Proof beside the code: docs/proofs/choice.md. The classifier is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import log, prod
from typing import Annotated, ClassVar, Final, Self, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import Likeness
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.top_k import law_in_turn, select_in_turn
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PrivateSums, PublicInputs, register_fitter
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport, Support
from sottovoce.methods.poe import PriorWeight
from sottovoce.models.base import FloatArray
from sottovoce.parameters import MOST, Number, Positive
from sottovoce.privacy.accounting.calibration import calibrate
from sottovoce.privacy.aggregates import IntArray, Scores
from sottovoce.privacy.events import BoundedRange, DpEvent, SelfComposedDpEvent
from sottovoce.privacy.numbers import exact, float_below
from sottovoce.privacy.parameters import EPSILON
from sottovoce.privacy.step_costs import RatedStep, SelectionStep, Sensitivity, step_cost
from sottovoce.privacy.unit import ChangeType
from sottovoce.randomness import Randomness
from sottovoce.tasks import Example, Query

MOST_SUMS: Final = 50_000_000
"""Most likenesses that are summed, labels times candidates: 8 bytes each."""
MOST_TEXTS: Final = 32
"""Most texts a label."""
SUPPOSED: Final = 20
"""Units a label where the number of units is private, for the map."""
CAUTIOUS: Final = 8
"""The same for what the evidence is worth: with few units and little epsilon it must not drown the model's answer."""
SPREAD: Final = 4.8
"""Deviation of the noise of class means at the same price, times k and the rate."""
SHAPE: Final = 0.3
"""Share of an even spread in the variances of coordinates, which a pool of another kind estimates badly."""
WEIGHT: Final = 0.25
"""Weight of what chosen texts say beside the model's own answer, where they all are the same."""
ALONE: Final = 0.1
"""How far a single text a label is trusted, as the mean cosine of several would say."""
ROUNDING: Final = Fraction(1, 1 << 57)
"""What the rounding of weights can add to the range of one label's choice (docs/proofs/exponential.md)."""

Texts = Annotated[int, Number(1, MOST_TEXTS, whole=True)]
Cosine = Annotated[float, Number(-1, 1)]
Chosen = tuple[tuple[int, ...], ...]
"""For every label the candidates that were drawn, in order."""


@final
@step_cost(
    "choice",
    law="for every label a public candidate with weight exp(rate * likeness), k times without replacement",
    source="specification 5.14",
)
@dataclass(frozen=True)
class ChoiceStep(RatedStep, SelectionStep):
    """One turn: a draw for every label. A release has k turns.

    Attributes:
        rate: lambda, the weight of one unit's likeness.
        k: Texts a label.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> step = ChoiceStep(rate=0.5, k=2)
        >>> step.event(DROP), step.event(SWAP), step.steps
        (BoundedRange(eta=0.5), BoundedRange(eta=1.0), 2)
    """

    k: Texts

    @property
    def steps(self) -> int:
        return self.k

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths, "ranges of the change of the labels' summed likenesses, added up")


@final
@register_fitter(
    "choice",
    summary="public texts drawn for every label by their likeness to its records; demonstrations for any model",
    source="specification 5.14",
)
@dataclass(frozen=True)
class Choice(Fitter):
    """A private choice of public texts.

    Attributes:
        k: Texts a label.
        rate: lambda, the weight of one unit's likeness; ``None``: set by the price.
        noise: What concentrates embeddings first (``PublicMap.concentrating``); ``None``: set by public numbers.
        floor: Cosine at which likeness begins.
        ceiling: Cosine from which on it is 1.
        prior_weight: Power of the model's own answer beside the chosen texts; 0 where label names mean nothing to it.

    Raises:
        ParameterError: A parameter is out of range, or ``floor`` is not below ``ceiling``.
    """

    calibrated_parameters: ClassVar[tuple[str, ...]] = ("rate", "noise")
    pool: ClassVar[str] = "required"
    gives: ClassVar[type[Support]] = DemonstrationSupport
    step: ClassVar[type[ChoiceStep]] = ChoiceStep
    k: Texts = 2
    rate: Positive | None = None
    noise: Annotated[float, Number(0, MOST)] | None = None
    floor: Cosine = 0.0
    ceiling: Cosine = 0.5
    prior_weight: PriorWeight = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor >= self.ceiling:
            raise ParameterError("floor", self.floor, f"below the ceiling, which is {self.ceiling:g}")

    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        return self.settled(self.k, price, setting)

    def settled(self, turns: int, price: Price, setting: FitSetting) -> Self:
        """Itself with every open parameter settled, where so many turns are paid for together.

        Raises:
            ParameterError: No parameter meets the price, or the public texts do not suit.
        """
        if setting.labels * setting.candidates > MOST_SUMS:
            limit = f"at most {MOST_SUMS // setting.labels:,} for {setting.labels:,} labels"
            raise ParameterError("number of public texts", f"{setting.candidates:,}", limit)
        if self.k > setting.candidates:
            raise ParameterError("k", self.k, f"at most {setting.candidates}, the number of different public texts")
        rate, noise = self.rate or _rate(turns, price, setting), self.noise
        if noise is None:
            noise = min(
                MOST, float(f"{(SPREAD / (turns * rate) * setting.labels / _units(setting, SUPPOSED)) ** 2:.6g}")
            )
        settled = replace(self, rate=rate, noise=noise)
        EPSILON.read("range of one draw", settled._weight(setting))
        return settled

    def event(self, setting: FitSetting) -> DpEvent:
        return SelfComposedDpEvent(self.turn(setting.change), self.k)

    def fit(
        self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness
    ) -> DemonstrationSupport:
        mapped, variances = PublicMap.concentrating(public.vectors, float(self.noise or 0))
        candidates = mapped(public.vectors)
        chosen = self.choose(candidates, mapped, plan.setting, private, randomness)
        worth = self.worth(plan.setting)
        texts = candidates[np.array(chosen)]
        return DemonstrationSupport(
            examples_of(chosen, public.pool), classifier(texts, variances, mapped, worth, self.prior_weight)
        )

    def choose(
        self,
        candidates: FloatArray,
        mapped: PublicMap,
        setting: FitSetting,
        private: PrivateSums,
        randomness: Randomness,
    ) -> Chosen:
        """Sums the likeness of records to candidates, and draws k of them for every label.

        Args:
            candidates: Mapped vectors of public texts, shape (texts, mapped dimension).
            mapped: The map that records go through.
            setting: The public side.
            private: The private side.
            randomness: Of the draws.
        """
        rule = Likeness(setting.labels, candidates, self.floor, self.ceiling, mapped)
        return self.select(private.sum_of(rule), rule, setting, randomness)

    def most_texts(self, setting: FitSetting) -> int:
        return setting.labels * self.k

    def with_texts(self, per_label: int, labels: int) -> Self:
        return replace(self, k=per_label)

    def select(self, sums: IntArray, rule: Likeness, setting: FitSetting, randomness: Randomness) -> Chosen:
        """Draws k candidates for every label from the sum of a rule."""
        one = Exponential(self._weight(setting))
        return tuple(select_in_turn(one, self.k, scores, randomness) for scores in _scores(sums, rule, setting))

    def law(self, sums: IntArray, rule: Likeness, setting: FitSetting) -> dict[Chosen, Fraction]:
        """Probability of everything that ``select`` can draw, exactly; for tests and audits of small worlds only."""
        return {
            tuple(texts for texts, _ in lists): prod((odds for _, odds in lists), start=Fraction(1))
            for lists in product(*(law.items() for law in self.laws(sums, rule, setting)))
        }

    def laws(self, sums: IntArray, rule: Likeness, setting: FitSetting) -> list[dict[tuple[int, ...], Fraction]]:
        """For each label the probability of every list; labels are drawn for independently. For audits only."""
        one = Exponential(self._weight(setting))
        return [law_in_turn(one, self.k, scores) for scores in _scores(sums, rule, setting)]

    def worth(self, setting: FitSetting) -> float:
        """How far a label's records can put a text ahead, over how far chance puts the best of the pool."""
        nats = float(self.rate or 0) * _units(setting, CAUTIOUS) / setting.labels
        return nats / log(setting.candidates + 1)

    def turn(self, change: ChangeType) -> BoundedRange:
        """What one draw for every label is."""
        return self.step(rate=self.rate, k=self.k).event(change)  # type: ignore[arg-type]

    def _weight(self, setting: FitSetting) -> float:
        """What one label's draw is given: eta, less what rounding adds for every label that a change touches."""
        return float_below(exact(self.turn(setting.change).eta) - setting.labels * ROUNDING)


def examples_of(chosen: Chosen, texts: Sequence[Query]) -> tuple[Example, ...]:
    """The texts that were drawn, each with the label that it was drawn for."""
    return tuple(Example(texts[index], label) for label, row in enumerate(chosen) for index in row)


def _scores(sums: IntArray, rule: Likeness, setting: FitSetting) -> Iterator[Scores]:
    """Each label's utilities. The sensitivity bounds what one change does to all labels together."""
    sensitivity = rule.sensitivity(setting.change)
    for row in sums.reshape(setting.labels, -1):
        yield Scores(row, sensitivity=sensitivity, adjacency=setting.adjacency)


def _units(setting: FitSetting, supposed: int) -> int:
    """The number of units where it is public, else so many for each label."""
    return supposed * setting.labels if setting.units is None else max(setting.units, 1)


def _rate(turns: int, price: Price, setting: FitSetting) -> float:
    """The largest rate that the price allows, by the best bound that the ledger's sum keeps."""

    def event(rate: float) -> SelfComposedDpEvent:
        return SelfComposedDpEvent(ChoiceStep(rate=rate, k=1).event(setting.change), turns)

    bounds = setting.bounds if price.delta else ()
    return calibrate(event, price.epsilon, price.delta, setting.adjacency, bounds=bounds).parameter


def classifier(
    chosen: FloatArray, variances: FloatArray, mapped: PublicMap, worth: float, prior_weight: float = 1.0
) -> LinearSupport:
    """The classifier that follows from chosen texts: a question is like the mean of a label's texts.

    Texts that were chosen for what records say are like each other, and texts drawn at random are not: the mean cosine
    of a label's texts weighs the evidence, so that it vanishes beside the model's own answer where it says nothing.
    Every constant was chosen on public sets (``docs/results/pay-once.md``).

    Args:
        chosen: Mapped unit vectors of every label's texts, shape (labels, texts, dimension).
        variances: Of each coordinate over public texts, shape (dimension,), adding to 1.
        mapped: The map that the vectors went through.
        worth: How far a label's records can put a text ahead, over how far chance puts the best of the pool.
        prior_weight: Power of the model's own answer; 0 where label names mean nothing to it.
    """
    labels, texts, dimension = chosen.shape
    means = chosen.mean(axis=1)
    agreement = ALONE
    if texts > 1:
        agreement = max(0.0, float(((means * means).sum() * texts / labels - 1) / (texts - 1)))
    apart = (means - means.mean(axis=0)) ** 2
    within = (apart * ((1 - SHAPE) * variances + SHAPE / dimension)).sum() / max(float(apart.sum()), 1e-12)
    return LinearSupport(
        weights=WEIGHT * min(1.0, worth) * agreement * means / max(float(within), 1e-3),
        offset=np.zeros(labels),
        spread=np.zeros(dimension),
        bias=np.zeros(labels),
        prior_weight=prior_weight,
        mapped=mapped,
    )
