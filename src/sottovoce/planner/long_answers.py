"""``auto`` for answers that are texts: the method, from public numbers alone.

The rule is a table, ``data/plan/long_answers.json``, which experiments may replace: up to how many questions each
answer is paid for by itself, by which method, and what is used beyond. The table follows from prices and from what
each method needs. ``measured_on`` names the public sets on which methods were compared; that comparison did not choose
the rule, and the rule says so. What a budget buys is arithmetic too: how good answers of a method are is not said where
it was not measured.

Sources     specification 6 (composition): N answers at a price cost N times that, and one choice costs the price once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.methods.answering.answerer import AnswerSetting, make_answerer, registered_answerers
from sottovoce.methods.answering.public import ANSWERS, SHOTS
from sottovoce.methods.base import Price, Reads
from sottovoce.parameters import PLANNED
from sottovoce.planner.advise import affordable_epsilon
from sottovoce.planner.answering import AUTO, Answering
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency

__all__ = ["AUTO", "CHOICE", "Bought", "LongAnswerRule", "bought", "packaged_rule", "resolve_long_answer"]

CHOICE: Final = "choice"
"""What pays once for public examples that records chose, and answers any number of questions after them."""
_DIMENSION: Final = 384
_KEYWORDS: Final = 200
"""Supposed of the embedder and of the public keywords, where nothing is read yet."""


@final
@dataclass(frozen=True)
class LongAnswerRule:
    """Which method is used for how many questions.

    Attributes:
        few_questions: Up to so many are paid for one by one.
        few: The method for them, with public examples and without.
        many: What is used beyond, where there are public examples.
        free: The free method to be compared with first, which needs public examples; empty where there is none.
        measured_on: Public sets on which methods were compared, and no private one was shown better than the free
            one; empty where nothing was measured. They did not choose the rule.
    """

    few_questions: int
    few: Mapping[str, str]
    many: str
    free: str = ""
    measured_on: Sequence[str] = ()

    @property
    def source(self) -> str:
        """What the rule rests on, in words."""
        compared = f"compared on {' and '.join(self.measured_on)}, did not choose it" if self.measured_on else ""
        return f"by price and needs; quality{', ' + compared if compared else ' was not compared'}"


@cache
def packaged_rule() -> LongAnswerRule:
    """The rule that ships with the package."""
    table = resources.files("sottovoce") / "data" / "plan" / "long_answers.json"
    values: dict[str, Any] = json.loads(table.read_text("utf-8"))
    return LongAnswerRule(**values)


def resolve_long_answer(
    *, questions: int, public: int, has_records: bool = True, rule: LongAnswerRule | None = None
) -> Answering:
    """The method for answers that are texts. Every argument is public.

    Args:
        questions: How many are to be answered.
        public: Number of public examples.
        has_records: Whether there are private records.
        rule: Which method for how many; by default the packaged one.

    Example:
        >>> resolve_long_answer(questions=1, public=0, has_records=False).method
        'zero-shot'
    """
    chosen = rule or packaged_rule()
    if not has_records:
        return Answering("public-shots" if public else "zero-shot", "no private records were given, so that it is free")
    several = f"{questions} question{'s' * (questions != 1)}"
    if questions > chosen.few_questions and public:
        return Answering(chosen.many, f"paid once for {several}, and for any number of others ({chosen.source})")
    few = chosen.few["with_public" if public else "without_public"]
    why = f"each of {several} is paid for by itself"
    if questions > chosen.few_questions:
        why += f", since {chosen.many!r} needs public examples (--public)"
    return Answering(few, f"{why} ({chosen.source})")


@final
@dataclass(frozen=True)
class Bought:
    """What a budget buys with one method.

    Attributes:
        method: As typed behind ``--method``.
        paid: ``each answer`` or ``once``.
        epsilon: Of each of the answers, or of the one choice; ``None`` where not even the least price fits.
    """

    method: str
    paid: str
    epsilon: float | None


def bought(records: int, questions: int, budget: Budget, adjacency: Adjacency) -> list[Bought]:
    """What a budget buys: every method whose answers are paid one by one, and one choice.

    Args:
        records: Number of units, roughly.
        questions: Answers to be paid for.
        budget: The data set's whole budget.
        adjacency: What one change of the data is.

    Raises:
        ParameterError: A number is below 1 or too large.
    """
    records, questions = PLANNED.read("records", records), PLANNED.read("questions", questions)
    sampling = ExpertSampling(SHOTS if adjacency.size_is_public else 1)
    setting = AnswerSetting(
        adjacency,
        sampling,
        records if adjacency.size_is_public else None,
        dimension=_DIMENSION,
        candidates=ANSWERS + 1,
        keywords=_KEYWORDS,
        adds_epsilons=budget.currency == "epsilon",
    )
    rows = []
    for name, kind in registered_answerers().items():
        if kind.private and kind.reads is not Reads.NOTHING:
            rows.append(Bought(name, "each answer", _affordable(name, setting, budget, questions)))
    return [*rows, Bought(CHOICE, "once", budget.epsilon)]


def _affordable(name: str, setting: AnswerSetting, budget: Budget, questions: int) -> float | None:
    """The largest epsilon that each of so many answers can have."""

    def event(epsilon: float) -> DpEvent:
        return make_answerer(name).plan(Price(epsilon, budget.delta), setting).charge

    try:
        return affordable_epsilon(budget, questions, event)
    except ParameterError:  # no price within the budget lets the method find anything
        return None
