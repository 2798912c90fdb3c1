"""A model for rows of numbers: embeddings, or any features whose scale is public.

An example speaks for its own label, the louder the closer it is to the question:

    closeness    cosine of question and example, or 1 - d^2 / (2 s^2) for the root mean square difference d of their
                 features and a stated length scale s
    evidence     8 (ramp(closeness) - 0.1) nats, for the example's own label        ramp(z) = ln(1 + exp(20 z)) / 20
    several examples of one label: the closest one counts
    log-probabilities   log-softmax of the evidence; a label without an example has 0

It embeds rows too, for what is fitted once: x becomes the unit vector of x, its direction; or that of (x / (s sqrt(d)),
1) for a length scale s and d features, so that a distance from the origin counts too.

Nothing is fitted, centred or scaled from rows: every number above is a public parameter, so no row moves another.

Isolation   By construction. A closeness is one dot product per row (never a matrix product, whose blocks depend on the
            other rows); the rest is elementwise, or a maximum over the context's own examples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ModelError, ParameterError, TaskError
from sottovoce.models.base import Context, FloatArray, Isolation
from sottovoce.parameters import COUNT, Number
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

NATS: Final = 8.0
_SCALE: Final = Number(0, above_least=True, below_most=True, strict=True, words="None, or a finite number above 0")
CHARGE: Final = 0.1
STEEPNESS: Final = 20.0
KIND: Final = "vectors"
_FORM: Final = "vectors:COLUMNS or vectors:COLUMNS,LENGTH_SCALE, such as vectors:384"


@final
@dataclass(frozen=True)
class VectorScorer:
    """Scores labels by how close a row of numbers is to the examples. Label names mean nothing to it.

    A row travels as text, its numbers separated by blanks (see ``vector_text``), in the only field of the task.

    Attributes:
        length_scale: ``None`` compares directions, as suits embeddings centred on a public mean. A number compares
            positions: the difference, root mean square over the features and in their own unit, beyond which an
            example says little. It is public; chosen by looking at private rows, it would leak them.
        columns: Numbers of a row, which an embedding needs; ``None`` for a model that only answers from examples.

    Raises:
        ParameterError: The length scale is not a number above 0, or there is no column.

    Example:
        >>> from sottovoce.tasks import Example, Task
        >>> task = Task(labels=["cat", "dog"])
        >>> context = [Example({"text": "1.0 0.1"}, 0), Example({"text": "-0.2 1.0"}, 1)]
        >>> scores = VectorScorer().prepare(task, [context]).score([{"text": "0.9 0.0"}])
        >>> scores.shape, int(scores[0, 0].argmax())
        ((1, 1, 2), 0)
        >>> VectorScorer(columns=2).embed_questions(task, [{"text": "3.0 4.0"}]).tolist()
        [[0.6, 0.8]]
    """

    length_scale: float | None = None
    columns: int | None = None

    isolation = Isolation.BY_CONSTRUCTION
    reads = "numbers"

    def __post_init__(self) -> None:
        if self.length_scale is not None:
            object.__setattr__(self, "length_scale", _SCALE.read("length_scale", self.length_scale))
        if self.columns is not None:
            object.__setattr__(self, "columns", COUNT.read("columns", self.columns))

    @classmethod
    def named(cls, numbers: str) -> VectorScorer:
        """The model of a name, which is what follows ``vectors:``.

        Raises:
            ParameterError: It does not say how many columns there are.
        """
        columns, comma, scale = numbers.partition(",")
        try:
            return cls(float(scale) if comma else None, int(columns))
        except (ValueError, ParameterError):
            raise ParameterError("model", f"{KIND}:{numbers}", _FORM) from None

    @property
    def name(self) -> str:
        """``vectors``, with the columns and the length scale where an embedding is made of them."""
        if self.columns is None:
            return KIND
        return f"{KIND}:{self.columns}" + ("" if self.length_scale is None else f",{self.length_scale!r}")

    @property
    def embedding(self) -> str:
        """SHA-256 of the rule and its public numbers."""
        return hashlib.sha256(f"{KIND} 1: {self.dimension} {self.length_scale!r}".encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """Length of an embedding.

        Raises:
            ParameterError: The number of columns was not given.
        """
        if self.columns is None:
            raise ParameterError("columns", None, "given: the number of columns is the length of an embedding")
        return self.columns + (self.length_scale is not None)

    @property
    def rehearsal(self) -> tuple[str, ...]:
        """Rows that anybody may see, to be read before and behind the private ones."""
        steps = np.arange(1.0, (self.columns or 1) + 1)
        return vector_text(steps), vector_text(-steps[::-1] / 3)

    def embed_records(self, task: Task, records: Sequence[Query]) -> FloatArray:
        """Private rows as unit vectors, shape (records, dimension), float64; NaN where one is no row of so many finite
        numbers, and zeros for a row of zeros, which has no direction.
        """
        vectors = np.full((len(records), self.dimension), np.nan)
        for vector, record in zip(vectors, records, strict=True):
            numbers = _numbers(task.text_of(record))
            if len(numbers) == self.columns:
                with np.errstate(all="ignore"):
                    vector[...] = self._embedded(numbers)
        return vectors

    def embed_questions(self, task: Task, queries: Sequence[Query]) -> FloatArray:
        """Public rows likewise.

        Raises:
            ParameterError: One is no row of so many finite numbers.
        """
        vectors = self.embed_records(task, queries)
        for query, vector in zip(queries, vectors, strict=True):
            if not np.isfinite(vector).all():
                limit = f"{self.columns} finite numbers separated by blanks"
                raise ParameterError("question", task.text_of(query), limit)
        return vectors

    def _embedded(self, numbers: FloatArray) -> FloatArray:
        if self.length_scale is None:
            return _unit(numbers)
        return _unit(np.append(numbers / (self.length_scale * math.sqrt(len(numbers))), 1.0))

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
