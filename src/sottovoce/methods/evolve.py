"""Private evolution: choose public texts privately, let a model vary those that were chosen, and choose again.

Round 1 chooses among public candidates, every later round among what was chosen last and what a model made of it. The
rounds are those of ``choice``, by the same mechanism and rule; the last one's texts are the result.

Guarantee   T rounds of k turns are T k adaptive bounded-range selections of eta = rate times the widths of a change,
            as for ``choice``: candidates of a round are a function of public facts and of rounds before.
Assumes     As for ``choice``. The number of rounds, of turns and of variations was fixed before a record was read. The
            model that writes is given public texts and texts that were chosen, and no record.
            What it fails to write is missing; then a round chooses again among what there is. A fit has begun to be
            drawn by then: an error would lose its charge, and another draw would be one too many.
Sources     Xie et al. (2024, arXiv:2403.01749), with a choice in place of their noisy histogram of nearest candidates;
            specification 5.15, 5.14, T6. Proof beside the code: docs/proofs/evolve.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Final, Self, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.reading import of_shape
from sottovoce.methods.base import Price
from sottovoce.methods.choice import MOST_SUMS, Choice, ChoiceStep, Chosen, Cosine, Texts, classifier, examples_of
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PrivateSums, PublicInputs, register_fitter
from sottovoce.methods.fitting.support import DemonstrationSupport, Support
from sottovoce.methods.poe import PriorWeight
from sottovoce.models.base import FloatArray
from sottovoce.models.failures import is_models
from sottovoce.parameters import MOST, Number, Positive
from sottovoce.privacy.events import DpEvent, SelfComposedDpEvent
from sottovoce.privacy.step_costs import RatedStep, SelectionStep, Sensitivity, step_cost
from sottovoce.privacy.unit import ChangeType
from sottovoce.randomness import Randomness
from sottovoce.tasks import Query

MOST_ROUNDS: Final = 16
"""Most rounds."""
MOST_VARIATIONS: Final = 64
"""Most variations of a text in a round."""
MOST_TOKENS: Final = 256
"""Most tokens of a variation."""

Rounds = Annotated[int, Number(1, MOST_ROUNDS, whole=True)]
Variations = Annotated[int, Number(0, MOST_VARIATIONS, whole=True)]
Tokens = Annotated[int, Number(1, MOST_TOKENS, whole=True)]


@final
@step_cost(
    "evolve",
    law="for every label a candidate with weight exp(rate * likeness), k times without replacement, in every round",
    source="specification 5.15",
)
@dataclass(frozen=True)
class EvolveStep(RatedStep, SelectionStep):
    """One turn of one round: a draw for every label. A release has k turns in each round.

    Attributes:
        rate: lambda, the weight of one unit's likeness.
        k: Texts a label.
        rounds: T.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> step = EvolveStep(rate=0.5, k=2, rounds=3)
        >>> step.event(DROP), step.event(SWAP), step.steps
        (BoundedRange(eta=0.5), BoundedRange(eta=1.0), 6)
    """

    k: Texts
    rounds: Rounds

    @property
    def steps(self) -> int:
        return self.rounds * self.k

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return ChoiceStep(rate=self.rate, k=self.k).sensitivity(change)


@final
@register_fitter(
    "evolve",
    summary="public texts drawn by their likeness to records, varied by a model, drawn again; for any model",
    source="specification 5.15",
)
@dataclass(frozen=True)
class Evolve(Fitter):
    """Private evolution of demonstrations.

    Attributes:
        rounds: T, how often is chosen.
        variations: Variations of a chosen text that the model is asked for between two rounds.
        tokens: Most tokens of a variation.
        k: Texts a label, as for ``choice``.
        rate: lambda, the weight of one unit's likeness; ``None``: set by the price.
        noise: What concentrates embeddings first, as for ``choice``; ``None``: set by public numbers.
        floor: Cosine at which likeness begins.
        ceiling: Cosine from which on it is 1.
        prior_weight: Power of the model's own answer beside the chosen texts.

    Raises:
        ParameterError: A parameter is out of range, or ``floor`` is not below ``ceiling``.
    """

    calibrated_parameters: ClassVar[tuple[str, ...]] = ("rate", "noise")
    pool: ClassVar[str] = "required"
    gives: ClassVar[type[Support]] = DemonstrationSupport
    writes: ClassVar[bool] = True
    step: ClassVar[type[EvolveStep]] = EvolveStep
    rounds: Rounds = 2
    variations: Variations = 4
    tokens: Tokens = 48
    k: Texts = Choice.k
    rate: Positive | None = None
    noise: Annotated[float, Number(0, MOST)] | None = None
    floor: Cosine = Choice.floor
    ceiling: Cosine = Choice.ceiling
    prior_weight: PriorWeight = Choice.prior_weight

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._choice  # its own checks

    @cached_property
    def _choice(self) -> Choice:
        """What is done in every round."""
        return Choice(
            k=self.k,
            rate=self.rate,
            noise=self.noise,
            floor=self.floor,
            ceiling=self.ceiling,
            prior_weight=self.prior_weight,
        )

    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        later = setting.labels * self.k * (1 + self.variations)
        if self.rounds > 1 and setting.labels * later > MOST_SUMS:
            raise ParameterError(
                "variations",
                self.variations,
                f"so few that labels times the candidates of a later round are at most {MOST_SUMS:,}; they would be "
                f"{setting.labels:,} times {later:,}",
            )
        settled = self._choice.settled(self.rounds * self.k, price, setting)
        return replace(self, rate=settled.rate, noise=settled.noise)

    def event(self, setting: FitSetting) -> DpEvent:
        return SelfComposedDpEvent(self._choice.turn(setting.change), self.rounds * self.k)

    def fit(
        self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness
    ) -> DemonstrationSupport:
        mapped, variances = PublicMap.concentrating(public.vectors, float(self.noise or 0))
        texts, vectors = public.pool, mapped(public.vectors)
        chosen = self._choice.choose(vectors, mapped, plan.setting, private, randomness)
        for turn in range(self.rounds - 1):
            texts, vectors = self._varied(turn, chosen, texts, vectors, mapped, public)
            chosen = self._choice.choose(vectors, mapped, plan.setting, private, randomness)
        worth = self._choice.worth(plan.setting)
        return DemonstrationSupport(
            examples_of(chosen, texts),
            classifier(vectors[np.array(chosen)], variances, mapped, worth, self.prior_weight),
        )

    def most_texts(self, setting: FitSetting) -> int:
        return setting.labels * self.k

    def with_texts(self, per_label: int, labels: int) -> Self:
        return replace(self, k=per_label)

    def _varied(
        self,
        turn: int,
        chosen: Chosen,
        texts: Sequence[Query],
        vectors: FloatArray,
        mapped: PublicMap,
        public: PublicInputs,
    ) -> tuple[Sequence[Query], FloatArray]:
        """What the next round chooses among: what was chosen, and variations of it that can be embedded.

        Nothing in here may fail: a fit that stopped behind its first draw has lost its charge.
        """
        kept = list(dict.fromkeys(index for row in chosen for index in row))
        winners = [texts[index] for index in kept]
        new, found = self._new(turn, chosen, texts, winners, public)
        return [*winners, *new], np.concatenate([vectors[kept], mapped(found)])

    def _new(
        self, turn: int, chosen: Chosen, texts: Sequence[Query], winners: Sequence[Query], public: PublicInputs
    ) -> tuple[list[Query], FloatArray]:
        """Variations with their vectors; none where the writer or the embedder fails on them."""
        none = np.empty((0, public.vectors.shape[1]))
        if public.writer is None or not self.variations:
            return [], none
        shown = {(*example.fields.items(),): example for example in examples_of(chosen, texts)}
        try:
            written = public.writer.variations([*shown.values()], self.variations, self.tokens, turn)
            new = [text for text in written if text not in winners]
            found = none
            if new:
                found = of_shape(public.embedder.embed_questions(public.task, new), (len(new), none.shape[1]))
            whole = np.flatnonzero(np.isfinite(found).all(axis=1))
            return [new[place] for place in whole.tolist()], found[whole]
        except BaseException as error:
            if not is_models(error):
                raise
            return [], none
