"""A model for rows of numbers: embeddings, or any features whose scale is public.

An example speaks for its own label, the louder the closer it is to the question:

    closeness    cosine of question and example, or 1 - d^2 / (2 s^2) for the root mean square difference d of their
                 features and a stated length scale s
    evidence     8 (ramp(closeness) - 0.1) nats, for the example's own label        ramp(z) = ln(1 + exp(20 z)) / 20
    several examples of one label: the closest one counts
    log-probabilities   log-softmax of the evidence; a label without an example has 0

Nothing is fitted, centred or scaled from rows: every number above is a public parameter, so no row moves another.

Isolation   By construction. A closeness is one dot product per row (never a matrix product, whose blocks depend on the
            other rows); the rest is elementwise, or a maximum over the context's own examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ModelError, ParameterError, TaskError
from sottovoce.models.base import Context, FloatArray, Isolation
from sottovoce.parameters import Number
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

NATS: Final = 8.0
_SCALE: Final = Number(0, above_least=True, below_most=True, strict=True, words="None, or a finite number above 0")
CHARGE: Final = 0.1
STEEPNESS: Final = 20.0


@final
@dataclass(frozen=True)
class VectorScorer:
    """Scores labels by how close a row of numbers is to the examples. Label names mean nothing to it.

    A row travels as text, its numbers separated by blanks (see ``vector_text``), in the only field of the task.

    Attributes:
        length_scale: ``None`` compares directions, as suits embeddings centred on a public mean. A number compares
            positions: the difference, root mean square over the features and in their own unit, beyond which an
            example says little. It is public; chosen by looking at private rows, it would leak them.

    Raises:
        ParameterError: The length scale is not a number above 0.

    Example:
        >>> from sottovoce.tasks import Example, Task
        >>> task = Task(labels=["cat", "dog"])
        >>> context = [Example({"text": "1.0 0.1"}, 0), Example({"text": "-0.2 1.0"}, 1)]
        >>> scores = VectorScorer().prepare(task, [context]).score([{"text": "0.9 0.0"}])
        >>> scores.shape, int(scores[0, 0].argmax())
        ((1, 1, 2), 0)
    """

    length_scale: float | None = None

    name = "vectors"
    isolation = Isolation.BY_CONSTRUCTION

    def __post_init__(self) -> None:
        if self.length_scale is not None:
            object.__setattr__(self, "length_scale", _SCALE.read("length_scale", self.length_scale))

    def prepare(self, task: Task, contexts: Sequence[Context]) -> VectorContexts:
        """Reads the examples of every expert.

        Args:
            task: Its labels, and the one field that holds the numbers.
            contexts: One sequence of examples for each expert, of any length; an empty one is zero-shot.

        Raises:
            TaskError: An example's label is not in the task.
        """
        examples = [example for context in contexts for example in context]
        owners = np.array([example.label for example in examples], dtype=np.intp)
        if ((owners < 0) | (owners >= len(task.labels))).any():
            raise TaskError(f"An example's label is outside the {len(task.labels)} labels of the task {task.name!r}.")
        vectors = [_numbers(task.text_of(example.fields)) for example in examples]
        return VectorContexts(self, task, vectors, owners, [len(context) for context in contexts])

    def closeness(self, question: FloatArray, examples: FloatArray) -> FloatArray:
        """At most 1, by row of ``examples``, shape (examples,); ``question`` has shape (features,)."""
        if self.length_scale is None:
            return np.asarray(np.vecdot(_unit(examples), _unit(question)), dtype=np.float64)
        apart = (examples - question) / self.length_scale
        return np.asarray(1 - np.vecdot(apart, apart) / (2 * len(question)), dtype=np.float64)


@final
class VectorContexts(Opaque):
    """Rows of numbers that were read. Sealed: it does not print or pickle."""

    __slots__ = ("_cells", "_contexts", "_scorer", "_task", "_vectors")

    def __init__(
        self,
        scorer: VectorScorer,
        task: Task,
        vectors: Sequence[FloatArray],
        owners: NDArray[np.intp],
        sizes: Sequence[int],
    ) -> None:
        self._scorer, self._task, self._contexts = scorer, task, len(sizes)
        self._vectors: tuple[FloatArray, ...] | None = tuple(vectors)
        self._cells = np.repeat(np.arange(len(sizes)), sizes) * len(task.labels) + owners

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Natural-log probabilities of the labels, shape (queries, contexts, labels), float64.

        A context with an example that is not finite, or that has another number of features than the question, has
        NaN in its row, and no other row is touched.

        Raises:
            ParameterError: A question is not a row of finite numbers.
            ModelError: The contexts were closed.
        """
        if self._vectors is None:
            raise ModelError("These contexts were closed. Prepare them again.")
        tables: dict[int, FloatArray] = {}
        scores = np.empty((len(queries), self._contexts, len(self._task.labels)))
        for row, query in zip(scores, queries, strict=True):
            question = _numbers(self._task.text_of(query))
            if not np.isfinite(question).all():
                raise ParameterError("question", self._task.text_of(query), "finite numbers separated by blanks")
            if len(question) not in tables:
                tables[len(question)] = _table(self._vectors, len(question))
            with np.errstate(all="ignore"):
                row[...] = self._score_query(question, tables[len(question)])
        return scores

    def close(self) -> None:
        """Forgets the examples."""
        self._vectors = None

    def _score_query(self, question: FloatArray, examples: FloatArray) -> FloatArray:
        near = self._scorer.closeness(question, examples)
        evidence = NATS * (np.logaddexp(0.0, STEEPNESS * near) / STEEPNESS - CHARGE)
        best = np.full(self._contexts * len(self._task.labels), -np.inf)
        np.maximum.at(best, self._cells, evidence)
        scores = np.where(np.isneginf(best), 0.0, best).reshape(self._contexts, -1)
        return np.asarray(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True), dtype=np.float64)


def vector_text(vector: FloatArray) -> str:
    """A row of numbers as text that gives back the same bits.

    Example:
        >>> vector_text(np.array([0.1, -2.0]))
        '0.1 -2.0'
    """
    return " ".join(map(repr, vector.tolist()))


def _table(vectors: Sequence[FloatArray], features: int) -> FloatArray:
    """The examples as rows, shape (examples, features); those of another length, or not finite, are NaN."""
    table = np.full((len(vectors), features), np.nan)
    for row, vector in zip(table, vectors, strict=True):
        if len(vector) == features and np.isfinite(vector).all():
            row[...] = vector
    return table


def _numbers(text: str) -> FloatArray:
    """The numbers of a text, shape (features,); one NaN where it is something else."""
    try:
        return np.array(text.split() or ["nan"], dtype=np.float64)
    except ValueError:
        return np.array([np.nan])


def _unit(vectors: FloatArray) -> FloatArray:
    """Rows of length one; a row of zeros has no direction and stays."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0)
    scaled = vectors / np.where(largest == 0, 1.0, largest)
    length = np.sqrt(np.vecdot(scaled, scaled))[..., None]
    return np.asarray(scaled / np.where(length == 0, 1.0, length), dtype=np.float64)
