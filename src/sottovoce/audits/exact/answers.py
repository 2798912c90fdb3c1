"""The exact laws of what an answerer releases, for concrete texts of experts.

Guarantee   ``ksa`` by the law of its selection. ``esa`` as two normal laws: its noise is on whole numbers of 2**-16,
            far finer than its deviation, and is taken for continuous.
Assumes     Texts and vectors come from public or synthetic records; the sample is fixed, so that the event to compare
            with is the plan's ``base``.
Sources     specification 10.7, 5.4, 5.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np

from sottovoce.audits.exact.labels import Worst, worst_of
from sottovoce.audits.exact.mechanisms import mechanism_pair
from sottovoce.audits.exact.pair import GaussianPair, Leak, Pair
from sottovoce.audits.roc import FloatArray
from sottovoce.errors import ParameterError
from sottovoce.experts.written import WrittenOutputs
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.top_k import JointTopK, law_in_turn
from sottovoce.methods.answering.answerer import Answerer, AnswerPlan
from sottovoce.methods.answering.esa import ESA
from sottovoce.methods.answering.ksa import KSA
from sottovoce.methods.base import Reads
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import BoundedRange, SelfComposedDpEvent, ZCDpEvent
from sottovoce.privacy.unit import Adjacency

_CLUSTERED: Final = "private clustering splits adaptively; its splits and sums have laws, their sequence has none"
NO_LAW: Final[Mapping[str, str]] = {"sga": _CLUSTERED, "augment": _CLUSTERED}
"""Answerers without an exact law here, and why."""


@final
@dataclass(frozen=True, eq=False)
class AnswerWorld:
    """What experts wrote to one question, one unit an expert.

    Attributes:
        texts: One an expert; ``None`` for a null expert.
        vectors: Of the texts, shape (experts, dimension); ``None`` where a method needs none.
    """

    texts: tuple[str | None, ...] = field(repr=False)
    vectors: FloatArray | None = field(default=None, repr=False)

    def outputs(self, plan: AnswerPlan) -> WrittenOutputs:
        """As a method reads them."""
        setting = plan.setting
        slots = len(self.texts) if setting.experts is not None else None
        return WrittenOutputs(self.texts, setting.change, setting.adjacency, slots=slots, vectors=self.vectors)

    def neighbours(self, adjacency: Adjacency) -> Iterator[tuple[str, AnswerWorld]]:
        """Every single removal; every expert blanked; or every one saying what another says, as the relation has it."""
        for own in range(len(self.texts)):
            rest = [*range(own), *range(own + 1, len(self.texts))]
            if adjacency is Adjacency.ADD_REMOVE:
                yield f"expert {own + 1} removed", self._of(rest)
            elif adjacency is Adjacency.ZERO_OUT:
                yield f"expert {own + 1} blanked", self._of(rest, blank=True)
            else:
                for other in rest:
                    yield f"expert {own + 1} says what expert {other + 1} says", self._of([*rest, other])

    def _of(self, experts: Sequence[int], *, blank: bool = False) -> AnswerWorld:
        texts = tuple(self.texts[expert] for expert in experts) + ((None,) if blank else ())
        if self.vectors is None:
            return AnswerWorld(texts)
        rows = self.vectors[list(experts)]
        empty = np.full((int(blank), self.vectors.shape[1]), np.nan)
        return AnswerWorld(texts, np.concatenate([rows, empty]))


def answer_pair(plan: AnswerPlan, first: AnswerWorld, second: AnswerWorld, universe: Sequence[str] = ()) -> Leak:
    """What two worlds give away of the private step of an answer.

    Args:
        plan: Of the answer.
        first: What experts wrote.
        second: The same in a neighbouring world.
        universe: Public keywords, for ``ksa``.

    Raises:
        ParameterError: The method has no exact law (``why_no_law``).
    """
    answerer, base = plan.answerer, plan.base
    if isinstance(answerer, ESA) and isinstance(base, ZCDpEvent):
        divisor = plan.setting.experts or 1
        one, other = (world.outputs(plan).embedding_sum(answerer.clip, divisor) for world in (first, second))
        square = float(((one.values - other.values).astype(np.float64) ** 2).sum())
        return GaussianPair(math.sqrt(square / float(GaussianVector(base.rho).noise_variance(one))))
    if isinstance(answerer, KSA):
        counts = [world.outputs(plan).keyword_counts(universe) for world in (first, second)]
        return _selection(answerer, base, counts[0], counts[1])
    raise ParameterError("method", answerer.name, f"one with an exact law: {why_no_law(type(answerer))}")


def worst_answer_pair(plan: AnswerPlan, world: AnswerWorld, universe: Sequence[str] = (), delta: float = 0.0) -> Worst:
    """Searches every single change for the largest loss, and holds every pair against the event before sampling.

    Raises:
        ParameterError: The method has no exact law, or the world has no neighbour.
    """
    changed = world.neighbours(plan.setting.adjacency)
    pairs = ((words, answer_pair(plan, world, other, universe)) for words, other in changed)
    return worst_of(pairs, plan.base, plan.setting.adjacency, delta)


def why_no_law(answerer: type[Answerer]) -> str | None:
    """Why an answerer has no exact law here; ``None`` where it has one."""
    if answerer in (ESA, KSA):
        return None
    if not answerer.private:
        return "it has no guarantee to compare with: its answer follows from the records without noise"
    if answerer.reads is Reads.NOTHING:
        return "it reads no private record"
    return NO_LAW.get(answerer.name, "none was worked out for this method yet")


def _selection(answerer: KSA, base: Any, first: Scores, second: Scores) -> Pair:
    if isinstance(base, BoundedRange):
        return mechanism_pair(JointTopK(base.eta, answerer.k), first, second)
    if isinstance(base, SelfComposedDpEvent):
        one = Exponential(base.event.eta)
        return Pair.of_tables(*(law_in_turn(one, answerer.k, scores) for scores in (first, second)))
    test = ProposeTestRelease(float(answerer.sigma or 0), float(answerer.failure_delta or 0), answerer.k)
    return mechanism_pair(test, first, second)
