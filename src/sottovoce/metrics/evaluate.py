"""Scores of written answers with bootstrap intervals, by one call; and differences of two sets of answers, paired."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.intervals import CONFIDENCE, REPLICATES, Estimate, bootstrap
from sottovoce.metrics.base import Metric, Statistics
from sottovoce.metrics.bleu import Bleu
from sottovoce.metrics.meteor import Meteor
from sottovoce.metrics.rouge import Rouge
from sottovoce.parameters import SIZE, Able, Kind, is_several

METRICS: Final[Mapping[str, Callable[[], Metric]]] = {
    "bleu": Bleu,
    "rouge-1": lambda: Rouge("rouge-1"),
    "rouge-2": lambda: Rouge("rouge-2"),
    "rouge-l": lambda: Rouge("rouge-l"),
    "meteor": Meteor,
    "meteor-exact-stem": lambda: Meteor(synonyms=False),
}
"""Metrics that have a name and need no model."""

USUAL: Final = ("rouge-1", "rouge-2", "rouge-l", "bleu")


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of one set of answers.

    Attributes:
        scores: By name, each with its interval over questions.
        notes: By name, remarks that a reader of the score needs.
        answers: How many answers.
        missing: How many of them were ``None``; they count as empty texts.
    """

    scores: Mapping[str, Estimate]
    notes: Mapping[str, Sequence[str]]
    answers: int
    missing: int
    _statistics: Mapping[str, Statistics] = field(repr=False)
    _draws: Mapping[str, Any] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers and notes, no text of an answer."""
        return {
            "answers": self.answers,
            "missing": self.missing,
            "scores": {
                name: {**estimate.as_dict(), "notes": list(self.notes[name])} for name, estimate in self.scores.items()
            },
        }

    def difference(self, other: Evaluation, name: str) -> Estimate:
        """This set's score minus the other's on the same questions, with the interval of paired bootstrap samples.

        Args:
            other: Answers to the same questions in the same order, evaluated with the same draws and groups.
            name: Of the score.

        Raises:
            ParameterError: A score is missing, or the other set has other questions or other draws.

        Example:
            >>> references = ["the cat sat", "a dog ran off", "it rained all day"]
            >>> good = evaluate(references, references, metrics=["rouge-1"])
            >>> poor = evaluate(["a cat", "no", "it rained"], references, metrics=["rouge-1"])
            >>> good.difference(poor, "rouge-1").sign
            1
        """
        for which in (self, other):
            if name not in which._statistics:
                raise ParameterError("name", name, f"one of {', '.join(which._statistics)}")
        if self.answers != other.answers or self._draws != other._draws:
            raise ParameterError("other", other.answers, f"as many answers ({self.answers}), with the same draws")
        mine, its = self._statistics[name], other._statistics[name]
        return bootstrap(lambda weights: mine.score(weights) - its.score(weights), self.answers, **self._draws)


def evaluate(
    answers: Sequence[str | None],
    references: Sequence[str | Sequence[str]],
    metrics: Sequence[str | Metric] = USUAL,
    *,
    questions: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    seed: int = 0,
    replicates: int = REPLICATES,
    confidence: float = CONFIDENCE,
) -> Evaluation:
    """Scores answers against references.

    Intervals are over questions: they show how scores would vary with other questions of the same kind. They include
    the randomness of a method as far as every question has independent draws. They do not include what all answers
    share, such as the private records; for that, pass several runs as ``groups``.

    Args:
        answers: What was written; ``None`` counts as an empty text.
        references: For each answer one text, or several, of which the best match counts.
        metrics: Names of ``METRICS``, or metrics with a model, such as ``EmbeddingCosine(embedder)`` and
            ``WrittenJudge(writer)``.
        questions: For a judge that reads them.
        groups: Which answers belong together, such as the number of the question where it was asked several times.
        seed: Of the resamples.
        replicates: Resamples.
        confidence: Of the two-sided intervals.

    Raises:
        ParameterError: Numbers differ, a name is unknown, a reference is missing, or there are fewer than 2 answers.
        MissingExtraError: A library is not installed.

    Example:
        >>> found = evaluate(["the cat sat", None], ["the cat sat down", "a dog ran"], metrics=["rouge-1"])
        >>> print(round(found.scores["rouge-1"].value, 3), found.missing)
        0.429 1
    """
    given: dict[str, object] = {"answers": answers, "references": references, "metrics": metrics}
    given |= {name: more for name, more in (("questions", questions), ("groups", groups)) if more is not None}
    for name, value in given.items():
        if not is_several(value):
            raise ParameterError(name, type(value), "a list, with one entry for each answer or metric")
    answers, references = [*answers], [*references]
    questions, groups = (None if more is None else [*more] for more in (questions, groups))
    for group in groups or ():
        Kind((str, numbers.Real), "a list of texts or numbers").read("groups", group)
    SIZE.read("seed", seed)
    if len(answers) < 2:
        raise ParameterError("rows", len(answers), "2 or more")
    _require_texts("answers", answers, (str, NoneType))
    several = [(text,) if isinstance(text, str) else _references(text) for text in references]
    if len(several) != len(answers):
        raise ParameterError("references", len(several), f"one for each of {len(answers)} answers")
    if questions is not None and len(questions) != len(answers):
        raise ParameterError("questions", len(questions), f"one for each of {len(answers)} answers")
    if not all(several):
        raise ParameterError("references", f"none for answer {several.index(()) + 1}", "1 or more texts each")
    texts = ["" if answer is None else answer for answer in answers]
    draws = {
        "groups": None if groups is None else tuple(groups),
        "seed": seed,
        "replicates": replicates,
        "confidence": confidence,
    }
    statistics: dict[str, Statistics] = {}
    for metric in metrics:
        statistics |= _made(metric).measure(texts, several, questions)
    return Evaluation(
        {name: bootstrap(each.score, len(texts), **draws) for name, each in statistics.items()},  # type: ignore[arg-type]
        {name: each.notes for name, each in statistics.items()},
        len(texts),
        sum(answer is None for answer in answers),
        statistics,
        draws,
    )


def _references(texts: Any) -> tuple[str, ...]:
    if not is_several(texts):
        raise ParameterError("references", type(texts), "a text, or several, for each answer")
    several = tuple(texts)
    _require_texts("references", several, str)
    return several


def _require_texts(name: str, texts: Sequence[object], kinds: type | tuple[type, ...]) -> None:
    for number, text in enumerate(texts, 1):
        if not isinstance(text, kinds):
            raise ParameterError(name, type(text), f"texts (number {number} is none); a missing answer is None")


def _made(metric: str | Metric) -> Metric:
    if not isinstance(metric, str):
        limit = "the name of a metric, or a metric with its model"
        if isinstance(metric, type):
            raise ParameterError("metrics", metric, limit)
        return Able("measure", limit).read("metrics", metric)
    if metric not in METRICS:
        raise ParameterError("metrics", metric, f"one of {', '.join(METRICS)}, or a metric with its model")
    return METRICS[metric]()
