"""Public texts labelled privately: experts answer some public texts once, and these are demonstrations from then on.

The texts are chosen beforehand from public text alone, far apart from each other; each is one answer of Prior x PoE.
Where the answering model has the embedding that chose, and label names mean something to it, a classifier answers in
place of the demonstrations: the model's own answer, moved by what the labels say beyond it (``classifier``). It costs
nothing more.

Guarantee   An answer is a bounded-range selection of eta = rate * clip * widths of a change. m answers, one for each
            text that was chosen, are m adaptive ones. Whoever sees the labelled texts sees these answers and no more.
Assumes     Isolation of the model, as for Prior x PoE. The texts and their order were fixed before a record was read.
Sources     Papernot et al. (2017) for teachers that label public data; specification 5.16, 5.1.8, T6. Proof beside the
            code: docs/proofs/label_public.md. The classifier is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated, ClassVar, Final, Self, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.public_map import PublicMap
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PrivateSums, PublicInputs, register_fitter
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport, Support
from sottovoce.methods.poe import Clip, PriorWeight
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.models.base import FloatArray
from sottovoce.parameters import Number, Positive
from sottovoce.privacy.accounting.calibration import calibrate
from sottovoce.privacy.events import BoundedRange, DpEvent, SelfComposedDpEvent
from sottovoce.privacy.parameters import EPSILON
from sottovoce.privacy.step_costs import RatedStep, SelectionStep, Sensitivity, step_cost
from sottovoce.privacy.unit import ChangeType
from sottovoce.randomness import Randomness
from sottovoce.tasks import Example, Query

MANY_TEXTS: Final = 64
"""Texts that are labelled where the caller says nothing: more of them add little, and each answer is noisier."""
MOST_TEXTS: Final = 128
"""Most texts."""
NOISE: Final = 0.1
"""What concentrates embeddings before labels are learned from: few texts tell few coordinates."""
REACH: Final = 0.1
"""Deviation of a learned log-odds, in the most nats that all records together can put a label ahead, over sqrt(K)."""
MOST_REACH: Final = 1.0
"""Nats of the same at most: with more, labels of a few texts far off overrule the model's own answer."""
SUPPOSED: Final = 20
"""Units a label that are supposed where their number is private."""
STEPS: Final = 80
"""Most iterations of the search for the weights."""

_SURE: Final = 50.0
"""Nats by which a label is behind at most, so that the loss stays finite."""

Texts = Annotated[int, Number(1, MOST_TEXTS, whole=True)]


@final
@step_cost(
    "label-public",
    law="weights exp(rate * sum of differences to the public prediction clamped to [-clip, 0]), one answer a text",
    source="specification 5.16",
)
@dataclass(frozen=True)
class PublicLabelStep(RatedStep, SelectionStep):
    """The label of one public text. A release has as many adaptive ones as it has texts.

    Attributes:
        rate: lambda, the weight of one nat.
        clip: C, in nats: an expert's width.
        texts: m.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> step = PublicLabelStep(rate=0.5, clip=1.5, texts=64)
        >>> step.event(DROP), step.event(SWAP), step.steps
        (BoundedRange(eta=0.75), BoundedRange(eta=1.5), 64)
    """

    clip: Positive
    texts: Texts = 1

    @property
    def steps(self) -> int:
        return self.texts

    @property
    def width(self) -> float:
        return self.clip

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(self.clip * change.widths, "range of the change of the summed differences")


@final
@register_fitter(
    "label-public",
    summary="public texts with private answers as their labels; demonstrations for any model",
    source="specification 5.16",
)
@dataclass(frozen=True)
class LabelPublic(Fitter):
    """Private labels of public texts.

    Attributes:
        texts: m, how many are labelled; ``None``: 64, or all where there are fewer.
        rate: lambda, the weight of one nat; ``None``: set by the price.
        clip: C, in nats, of an expert's difference to the public prediction, as for Prior x PoE.
        prior_weight: a, the power of the public prediction, as for Prior x PoE.

    Raises:
        ParameterError: A parameter is out of range.
    """

    calibrated_parameters: ClassVar[tuple[str, ...]] = ("texts", "rate")
    pool: ClassVar[str] = "required"
    gives: ClassVar[type[Support]] = DemonstrationSupport
    asks_experts: ClassVar[bool] = True
    step: ClassVar[type[PublicLabelStep]] = PublicLabelStep
    texts: Texts | None = None
    rate: Positive | None = None
    clip: Clip = PriorPoE.clip
    prior_weight: PriorWeight = PriorPoE.prior_weight

    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        texts = self.texts or min(MANY_TEXTS, setting.candidates)
        if texts > setting.candidates:
            raise ParameterError("texts", texts, f"at most {setting.candidates}, the number of public texts")
        settled = replace(self, texts=texts, rate=self.rate or self._rate(texts, price, setting))
        EPSILON.read("range of one answer", settled._answer(setting.change).eta)
        return settled

    def event(self, setting: FitSetting) -> DpEvent:
        return SelfComposedDpEvent(self._answer(setting.change), int(self.texts or 0))

    def questions(self, plan: FitPlan, public: PublicInputs) -> list[Query]:
        return [public.pool[index] for index in spread_out(public.pool, public.vectors, int(self.texts or 0))]

    def fit(
        self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness
    ) -> DemonstrationSupport:
        places = spread_out(public.pool, public.vectors, int(self.texts or 0))
        chosen = [public.pool[place] for place in places]
        answers = PriorPoE(clip=self.clip, prior_weight=self.prior_weight)
        mechanism = Exponential(self._answer(plan.setting.change).eta)
        labels, priors = [], []
        for outputs in private.ask(chosen):
            priors.append(answers.log_prior(outputs))
            labels.append(mechanism.select(answers.scores(outputs), randomness, priors[-1]))
        examples = tuple(Example(query, label) for query, label in zip(chosen, labels, strict=True))
        if not self.prior_weight:  # the model's own answer says nothing, so that there is none to move
            return DemonstrationSupport(examples)
        mapped, _ = PublicMap.concentrating(public.vectors, NOISE)
        texts, reach = mapped(public.vectors[places]), self.reach(plan.setting)
        return DemonstrationSupport(
            examples, classifier(texts, labels, np.array(priors), reach, mapped, self.prior_weight)
        )

    def reach(self, setting: FitSetting) -> float:
        """How far labels are believed to move a question's log-odds, in nats: by public numbers alone."""
        units = SUPPOSED * setting.labels if setting.units is None else setting.units
        return min(MOST_REACH, REACH * float(self.rate or 0) * self.clip * units / sqrt(setting.labels))

    def most_texts(self, setting: FitSetting) -> int:
        return int(self.texts or 0)

    def with_texts(self, per_label: int, labels: int) -> Self:
        return replace(self, texts=per_label * labels)

    def _answer(self, change: ChangeType) -> BoundedRange:
        return self.step(rate=self.rate, clip=self.clip, texts=self.texts).event(change)  # type: ignore[arg-type]

    def _rate(self, texts: int, price: Price, setting: FitSetting) -> float:
        """The largest rate that the price allows, by the best bound that the ledger's sum keeps."""

        def event(rate: float) -> SelfComposedDpEvent:
            answer = PublicLabelStep(rate=rate, clip=self.clip, texts=texts).event(setting.change)
            return SelfComposedDpEvent(answer, texts)

        bounds = setting.bounds if price.delta else ()
        return calibrate(event, price.epsilon, price.delta, setting.adjacency, bounds=bounds).parameter


def classifier(
    texts: FloatArray,
    labels: Sequence[int],
    log_prior: FloatArray,
    reach: float,
    mapped: PublicMap,
    prior_weight: float = PriorPoE.prior_weight,
) -> LinearSupport:
    """The classifier that follows from labelled texts: the model's own answer, and what the labels say beyond it.

    A label was drawn with weight exp(log_prior + private sum). The private sum is taken to be linear in a text's
    vector, with normal weights around zero: logistic regression whose offset is ``log_prior``, so that labels which
    repeat the model's own answers change nothing. ``reach`` is small where the records can hardly move a label, and
    the model's own answer stands.

    Args:
        texts: Mapped unit vectors, shape (texts, mapped dimension).
        labels: Of the texts, as drawn.
        log_prior: What they were drawn around, in nats, shape (texts, labels).
        reach: Deviation of a weight, in nats for a unit vector.
        mapped: The map that the vectors went through.
        prior_weight: Power of the model's own answer in ``log_prior``.
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp, softmax

    count, kinds = log_prior.shape
    said, alike = np.eye(kinds)[np.asarray(labels)], texts @ texts.T * reach**2
    offset = np.maximum(log_prior - log_prior.max(axis=1, keepdims=True), -_SURE)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log of the posterior, and its slope, for weights ``texts.T @ dual``."""
        dual = flat.reshape(count, kinds)
        moved = alike @ dual
        scores = offset + moved
        value = (logsumexp(scores, axis=1) - (scores * said).sum(axis=1)).sum() + 0.5 * (dual * moved).sum()
        return float(value), (alike @ (softmax(scores, axis=1) - said + dual)).ravel()

    found = minimize(loss, np.zeros(count * kinds), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    scale = max(1.0, prior_weight)
    return LinearSupport(
        weights=(texts.T @ found.x.reshape(count, kinds)).T * reach**2 / scale,
        offset=np.zeros(kinds),
        spread=np.zeros(texts.shape[1]),
        bias=np.zeros(kinds),
        prior_weight=prior_weight / scale,
        mapped=mapped,
    )


def spread_out(pool: Sequence[Query], vectors: FloatArray, texts: int) -> list[int]:
    """Places of public texts far apart: each next one is the one least like all before. A text counts once.

    Args:
        pool: Public texts.
        vectors: Their unit vectors, shape (texts, dimension).
        texts: How many; fewer come back where there are fewer different ones.

    Example:
        >>> pool = [{"text": text} for text in ("a", "b", "a", "c")]
        >>> spread_out(pool, np.array([[1.0, 0.0], [0.8, 0.6], [1.0, 0.0], [-1.0, 0.0]]), 4)
        [1, 3, 0]
    """
    places = {tuple(query.items()): place for place, query in reversed(list(enumerate(pool)))}
    kept = np.array(sorted(places.values()))
    rows = vectors[kept]
    chosen = [int(np.argmax(rows @ rows.mean(axis=0)))]
    near = rows @ rows[chosen[0]]
    near[chosen[0]] = np.inf
    while len(chosen) < min(texts, len(kept)):
        furthest = int(np.argmin(near))
        chosen.append(furthest)
        near = np.maximum(near, rows @ rows[furthest])
        near[furthest] = np.inf
    return [int(place) for place in kept[chosen]]
