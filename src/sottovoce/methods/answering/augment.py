"""Public answers augmented around private groups: the writer writes more like those that stand for each group.

The experts' answers are clustered as in SGA, and the public answer nearest to each noisy middle stands for its group.
From these, and from public examples, the writer writes further answers, which the last prompt shows beside them.

Guarantee   That of the clustering, which is charged: what is written around a noisy middle is post-processing of it and
            of public texts. No prompt of a generator holds a private text, and no group's true size decides anything.
Assumes     As ``methods.answering.sga``.
Sources     Public-data-assisted ICL (public augmentation); specification 5.7.1: sequential composition with whatever
            else is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Self, final

from sottovoce.experts.written import WrittenOutputs
from sottovoce.methods.answering.answerer import Answerer, AnswerSetting, Outcome, PublicSide, register_answerer
from sottovoce.methods.answering.sga import SGA, LeafSums, LevelCounts, SplitLevel
from sottovoce.methods.base import Price
from sottovoce.parameters import Number, Positive
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.step_costs import StepCost
from sottovoce.randomness import Randomness

LIKE: Final = "Give another answer that is like this one, in other words.\n{answer}"
HINT: Final = "Several answers were suggested. Give the best answer.\n{answers}"


@final
@register_answerer(
    "augment", summary="public answers written around private groups, in a public prompt", source="5.7.1"
)
@dataclass(frozen=True)
class Augment(Answerer):
    """A public prompt with public answers, and new ones written around private groups.

    Attributes:
        k: Groups that are written for, by their noisy counts.
        each: New answers a group, each after fewer public examples: the same request gives the same answer.
        depth: Levels of cuts; all are paid for.
        axes: Coordinates of the projection.
        rho: The whole price of the clustering, as zCDP; ``None``: set by the price.
    """

    calibrated_parameters: ClassVar[tuple[str, ...]] = ("rho",)
    needs: ClassVar[frozenset[str]] = frozenset({"Embedder", "pool"})
    needs_delta: ClassVar[bool] = True
    steps: ClassVar[Sequence[type[StepCost]]] = (SplitLevel, LevelCounts, LeafSums)
    refused = SGA.refused
    k: Annotated[int, Number(1, 16, whole=True)] = 3
    each: Annotated[int, Number(1, 16, whole=True)] = 1
    depth: Annotated[int, Number(1, 16, whole=True)] = 2
    axes: Annotated[int, Number(1, 64, whole=True)] = 4
    rho: Positive | None = None

    @property
    def groups(self) -> SGA:
        """The clustering."""
        return SGA(k=self.k, depth=self.depth, axes=self.axes, rho=self.rho)

    def calibrated(self, price: Price, setting: AnswerSetting) -> Self:
        return replace(self, rho=self.groups.calibrated(price, setting).rho)

    def event(self, setting: AnswerSetting) -> DpEvent:
        return self.groups.event(setting)

    def cost(self, setting: AnswerSetting) -> Sequence[tuple[StepCost, int]]:
        return self.groups.cost(setting)

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        return Outcome(self.name, self.groups.draw(setting, experts, public, randomness).values)

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        answers = [str(answer) for answer in outcome.values["answers"]][: self.k]
        asked = [
            public.request(public.shots[turn:], LIKE.format(answer=answer))
            for answer in answers
            for turn in range(self.each)
        ]
        written = [text for text in public.write(asked) if text]
        shown = "\n".join(f"- {text}" for text in dict.fromkeys([*answers, *written]))
        (text,) = public.write([public.request(public.shots, HINT.format(answers=shown))])
        return text or answers[0]
