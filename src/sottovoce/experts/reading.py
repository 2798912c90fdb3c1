"""The experts' prompts as a model has read them. Where the model fails on an expert's own prompt, that expert is null.

Guarantee   What an expert says, and whether it says anything, is a function of its own records, the question and public
            inputs. Models read all prompts together; where that fails, each is read by itself, and what fails by itself
            has only itself to blame: its row is NaN, which adds the zero vector. Calibrated, it is its own content-free
            answers that are taken from an expert's.
Assumes     Isolation: a prompt by itself gets the row that it gets beside others (``LabelScorer.isolation``). Time, and
            with it the number of calls, follows from failures; it is not hidden.
Failures    Those that experts share are nobody's own, and fail the whole answer (``models.failures``). So does a model
            that afterwards does not answer the bare question as it did in the rehearsal: it is looked at behind every
            failure (whether it answers in finite numbers), and once more behind the last expert, bit by bit and whether
            or not anybody is null: else whether an answer comes would tell that.
Sources     specification 1.2, 1.4 (a null expert adds zero), 8.4 (failures that private content causes).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar, final

import numpy as np

from sottovoce.errors import ModelError
from sottovoce.experts.label_scores import calibrated
from sottovoce.models.base import Context, Embedder, FloatArray, LabelScorer, PreparedContexts, Writer
from sottovoce.models.failures import OwnFailure, bare_order, free, is_shared
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

T = TypeVar("T")


@final
class Reading(Opaque):
    """Prompts that are given to a model when they are first needed.

    Args:
        scorer: The model.
        task: Labels and templates.
        contexts: One an expert.
        content_free: Questions by whose answers each expert is calibrated, asked once; none leaves scores as they are.
    """

    __slots__ = ("_alone", "_contexts", "_empty", "_empty_scores", "_scorer", "_task", "_together")

    def __init__(
        self, scorer: LabelScorer, task: Task, contexts: Sequence[Context], content_free: Sequence[Query] = ()
    ) -> None:
        self._scorer, self._task, self._contexts = scorer, task, list(contexts)
        self._empty = list(content_free)
        self._empty_scores: FloatArray | None = None
        self._together: PreparedContexts | None = None
        self._alone: dict[int, PreparedContexts] | None = None

    def score(self, queries: Sequence[Query], rehearsed: FloatArray | None = None) -> FloatArray:
        """Log-probabilities of the labels, shape (queries, contexts, labels), float64; a null expert's row is NaN.

        Args:
            queries: The questions.
            rehearsed: What the model said to these questions and then to the content-free ones, asked together without
                any record, before it read one: shape (queries, labels). The model must still say the same, bit by bit.

        Raises:
            ModelError: The model failed for a reason that is no expert's own. What it said of it stays here, for it
                could quote a record.
        """
        return withheld(self._scorer, lambda: self._checked(queries, rehearsed))

    def close(self) -> None:
        """Frees what the model keeps of the prompts; see ``free``."""
        together = [] if self._together is None else [self._together]
        kept = [*together, *(self._alone or {}).values()]
        self._together, self._alone, self._empty_scores = None, None, None
        free(*kept)

    def _checked(self, queries: Sequence[Query], rehearsed: FloatArray | None) -> FloatArray:
        empty = self._empty_scores
        if self._empty and empty is None:
            empty = self._score(self._empty)
        scores = self._score(queries)
        require_sound(self._scorer, self._task, [*queries, *self._empty], rehearsed)
        self._empty_scores = empty
        return scores if empty is None else calibrated(np.concatenate([scores, empty]), len(empty))

    def _score(self, queries: Sequence[Query]) -> FloatArray:
        if self._alone is None:
            with OwnFailure():
                if self._together is None:
                    self._together = self._scorer.prepare(self._task, self._contexts)
                return self._of_shape(self._together.score(queries), queries, len(self._contexts))
            self.close()
            self._alone = {}
        rows = [self._scored_alone(number, queries) for number in range(len(self._contexts))]
        return np.stack(rows, axis=1)

    def _scored_alone(self, number: int, queries: Sequence[Query]) -> FloatArray:
        """Rows of one expert, shape (queries, labels): on which question it is null is a matter of that question."""
        scores = self._tried(number, queries)
        if scores is None and len(queries) > 1:
            each = [self._tried(number, [query]) for query in queries]
            scores = np.concatenate([self._null(1) if row is None else row for row in each])
        return self._null(len(queries)) if scores is None else scores

    def _tried(self, number: int, queries: Sequence[Query]) -> FloatArray | None:
        """Scores of one expert by itself; ``None`` where the model fails on it and on nothing else."""
        assert self._alone is not None
        with OwnFailure():
            if number not in self._alone:
                self._alone[number] = self._scorer.prepare(self._task, [self._contexts[number]])
            return self._of_shape(self._alone[number].score(queries), queries, 1)[:, 0]
        failed = self._alone.pop(number, None)
        if failed is not None:
            free(failed)
        require_sound(self._scorer, self._task, queries)
        return None

    def _null(self, queries: int) -> FloatArray:
        return np.full((queries, len(self._task.labels)), np.nan)

    def _of_shape(self, scores: FloatArray, queries: Sequence[Query], contexts: int) -> FloatArray:
        return of_shape(scores, (len(queries), contexts, len(self._task.labels)))


def require_sound(
    scorer: LabelScorer, task: Task, queries: Sequence[Query], rehearsed: FloatArray | None = None
) -> None:
    """Checks that a model still answers bare questions; a record that breaks it would else silence everybody.

    Args:
        scorer: The model.
        task: Labels and templates.
        queries: The questions.
        rehearsed: What it said to them before it read a record, shape (queries, labels), if that is known.

    Raises:
        ModelError: What it says is not finite any more, or differs in a bit from what it said before.
        Exception: What the model raises.
    """
    scores = bare_scores(scorer, task, queries)
    if not np.isfinite(scores).all() or (rehearsed is not None and not same_bits(scores, rehearsed)):
        raise ModelError("The model does not answer bare questions any more as it did before.")


def same_bits(scores: FloatArray, others: FloatArray) -> bool:
    """Whether scores are the same in every bit; minus zero is not zero.

    Example:
        >>> same_bits(np.array([0.0]), np.array([0.0])), same_bits(np.array([0.0]), np.array([-0.0]))
        (True, False)
    """
    a, b = np.asarray(scores, dtype=np.float64), np.asarray(others, dtype=np.float64)
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def bare_scores(scorer: LabelScorer, task: Task, queries: Sequence[Query]) -> FloatArray:
    """What a model says to questions without any record, shape (queries, labels)."""
    prepared = scorer.prepare(task, [()])
    try:
        return of_shape(prepared.score(queries), (len(queries), 1, len(task.labels)))[:, 0]
    finally:
        free(prepared)


def withheld(scorer: LabelScorer | Embedder | Writer, read: Callable[[], T]) -> T:
    """Lets a model read private examples; what it says of a failure stays here, for it could quote one.

    Raises:
        ModelError: It failed. What was charged stands. It is ``retryable`` where the model's own error was.
    """
    handled, shared, retryable = sys.exception(), False, False
    try:
        return read()
    except BaseException as raised:
        error = raised
    # Out of the block, since what is raised in it has the model's error attached: its own words may be asked for here.
    try:
        if bare_order(error) is None:
            shared, retryable = is_shared(error, handled), isinstance(error, ModelError) and error.retryable
    except BaseException as raised:
        error = raised
    failure, order = type(error).__name__, bare_order(error)
    del error
    if order is not None:
        raise order
    advice = " The machine may be short of memory, or the model busy: try smaller settings, or later." if shared else ""
    # Raised here and not above, so that the other error is not attached to it.
    raise ModelError(
        f"The model {scorer.name} failed while it read private examples ({failure}). Its message is withheld, since "
        f"it could quote one. What was charged stands.{advice}",
        retryable=retryable,
    )


def of_shape(scores: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """A copy of the scores, if they have this shape: another one could spread one expert's over the others.

    A copy, since a model may write its next answer where this one stands.
    """
    if np.shape(scores) != shape:
        raise ValueError("scores of another shape")
    return np.array(scores, dtype=np.float64)
