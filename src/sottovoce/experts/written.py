"""Experts that write: private units become prompts, a model writes a text after each, and the texts stay sealed.

Guarantee   What an expert says is a function of its own units, the question and public inputs. What leaves is a sum or
            a set of points with the bound that one change of the data keeps; a null expert (an empty slot, or a prompt
            on which the writer failed by itself) adds nothing to any of them, so that a change that makes an expert
            null, or ends it, is within the same bound.
Assumes     Isolation of the writer and of the embedder: a text follows from its own request, a vector from its text.
Sources     specification 1.1, 1.2, 1.5 (null), 5.4 to 5.6, 8.4 (failures that private content causes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, final

import numpy as np

from sottovoce.errors import ModelError, ParameterError
from sottovoce.experts.blocks import BlockReader
from sottovoce.experts.cells import Cells, nearest_of_each_cell
from sottovoce.experts.embeddings import keyword_counts, sum_of_clipped
from sottovoce.experts.ensemble import stable_id
from sottovoce.experts.keywords import keywords_of
from sottovoce.experts.reading import of_shape, withheld
from sottovoce.experts.sampling import ALL, CELLS, ExpertSampling
from sottovoce.models.base import Embedder, FloatArray, Isolation, Writer, WritingRequest
from sottovoce.models.failures import OwnFailure
from sottovoce.parameters import COUNT
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.points import PrivatePoints
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import Opaque, PrivateRecords, Row, is_missing, unseal
from sottovoce.tasks import Query, Task

TEXTS: Final = Task(labels=["yes", "no"], name="texts", query="{text}", example="{text} {label}")
"""What an embedder is told of a text that stands by itself."""
_SAME: Final = (Isolation.BY_CONSTRUCTION, Isolation.TESTED)
"""Models that say the same to the same request."""


class AnswerTask(Protocol):
    """What experts need to know of a task whose answers are texts."""

    @property
    def instruction(self) -> str:
        """Opens every prompt."""

    @property
    def names(self) -> tuple[str, str]:
        """What inputs and answers are called."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns of an input."""

    @property
    def output_field(self) -> str:
        """The column of an answer."""

    def render_query(self, query: Query) -> str:
        """An input as it is shown."""

    def example_of(self, row: Row, file: str) -> Any:
        """Reads an example from a row."""

    def shot(self, example: Any) -> tuple[str, str]:
        """An example as (input, answer). As private as it is."""


@final
class WrittenOutputs(Opaque):
    """What experts wrote to one question. Sealed.

    Args:
        texts: One an expert; ``None`` for a null expert.
        change: How one change of the data can change the experts' texts.
        adjacency: The relation that ``change`` is for.
        slots: Number of experts where it is public, else ``None``.
        vectors: Of the texts, shape (experts, dimension), where a method needs them. A row that is not finite, and
            that of a null expert, says nothing.

    Attributes:
        change: As given.
        adjacency: As given.
        slots: As given.
        dimension: Length of a vector; 0 without vectors.

    Raises:
        ParameterError: There is not one row of vectors for every text, or not one text for every slot.
    """

    __slots__ = ("_texts", "_vectors", "adjacency", "change", "dimension", "slots")

    def __init__(
        self,
        texts: Sequence[str | None],
        change: ChangeType,
        adjacency: Adjacency,
        *,
        slots: int | None,
        vectors: FloatArray | None = None,
    ) -> None:
        if slots is not None and slots != len(texts):
            raise ParameterError("texts", "of another number", f"one for each of {slots} experts")
        self._texts = list(texts)
        self.change, self.adjacency, self.slots = change, adjacency, slots
        self.dimension = 0
        self._vectors: FloatArray | None = None
        if vectors is not None:
            self.dimension = int(vectors.shape[1])
            rows = np.array(of_shape(vectors, (len(texts), self.dimension)))
            rows[[text is None for text in texts]] = np.nan
            self._vectors = rows

    def _public_face(self) -> str:
        experts = "" if self.slots is None else f"{self.slots} experts, "
        return f"{experts}{self.adjacency.value}, {self.change.name}"

    def embedding_sum(self, bound: float = 1.0, denominator: int = 1) -> VectorSum:
        """The sum of the texts' vectors, each clipped to norm ``bound`` (specification 5.4).

        Args:
            bound: Largest norm of one vector.
            denominator: Fixed and public, never the number of experts that wrote.
        """
        return sum_of_clipped(self._embedded, bound, self.change, self.adjacency, denominator)

    def keyword_counts(self, universe: Sequence[str]) -> Scores:
        """For each keyword of a public universe the number of experts whose text has it (specification 5.5).

        One expert that comes or goes moves every count by 0 or 1 in one direction, one that changes its text by one
        either way: the range is 1 for a drop, 2 for a swap.

        Args:
            universe: Keywords, different ones. Public; one read off private texts would have an infinite loss.
        """
        place = {word: index for index, word in enumerate(universe)}
        if len(place) < len(universe):
            raise ParameterError("universe", "with repetitions", "of different keywords")
        rows = np.zeros((len(self._texts), COUNT.read("size of the universe", len(universe))), dtype=np.int64)
        for row, text in zip(rows, self._texts, strict=True):
            row[[place[word] for word in keywords_of(text or "") if word in place]] = 1
        counts = keyword_counts(rows, len(universe), self.change, self.adjacency)
        return Scores(counts.values, sensitivity=self.change.widths, adjacency=self.adjacency)

    def points(self) -> PrivatePoints:
        """The texts' vectors as points for private clustering, clipped to norm 1 (specification 5.6).

        A null expert is no point: it is in no cell and adds nothing. The relation of the points is that of the change:
        where an expert comes or goes (a drop) it is the data's; where a text can become any other one it is
        replace-one among so many public slots, whatever the data's relation is, and a text that becomes null, or null
        that becomes a text, moves counts and sums by less than a replaced point.

        Raises:
            ParameterError: Two experts can change at once, or a text can be replaced among slots of private number.
        """
        relation = points_relation(self.change, self.adjacency)
        if relation.size_is_public and self.slots is None:
            raise ParameterError("experts", None, "of public number, where a text can be replaced")
        return PrivatePoints(self._embedded, adjacency=relation, dimension=self.dimension)

    def texts_without_noise(self) -> list[str | None]:
        """The texts themselves, for the non-private references alone."""
        return list(self._texts)

    def vectors_without_noise(self) -> FloatArray:
        """Vectors of the texts, rows of null experts not finite, for the non-private references alone."""
        return np.array(self._embedded)

    @property
    def _embedded(self) -> FloatArray:
        if self._vectors is None:
            raise ParameterError("embedder", None, "given: the method adds up vectors of texts")
        return self._vectors


def points_relation(change: ChangeType, adjacency: Adjacency) -> Adjacency:
    """The relation between two sets of points one change of the experts apart.

    Raises:
        ParameterError: More than one expert changes.

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> points_relation(SWAP, Adjacency.ADD_REMOVE).value
        'replace-one'
    """
    if change.rows != 1:
        raise ParameterError("change", change.name, "one expert's: clustering has no price for several points at once")
    return adjacency if is_drop(change) and adjacency is not Adjacency.REPLACE_ONE else Adjacency.REPLACE_ONE


@final
class WrittenEnsemble(Opaque):
    """Experts over private records that write an answer each. Nothing is given to a model before the first ``ask``.

    Args:
        records: Sealed records; every row is checked against the task here.
        task: How inputs, answers and prompts read.
        writer: The model.
        sampling: Which units an expert sees.
        adjacency: The relation to be protected under.
        tokens: Most tokens of a text.
        randomness: Source of the coins that deal units out.
        embedder: What embeds the texts, for methods that need vectors.
        together: Put every record into one prompt, for the non-private full-context reference.

    Raises:
        RecordError: A row does not suit the task.
        AssignmentError: The sampling has no guarantee under this adjacency.
        ParameterError: There are fewer units than are needed, and their number is public.
    """

    __slots__ = (
        "_adjacency",
        "_change",
        "_embedder",
        "_fixed",
        "_randomness",
        "_reader",
        "_sampling",
        "_slots",
        "_task",
        "_together",
        "_tokens",
        "_units",
        "_writer",
    )

    def __init__(
        self,
        records: PrivateRecords,
        task: AnswerTask,
        writer: Writer,
        sampling: ExpertSampling,
        adjacency: Adjacency,
        *,
        tokens: int,
        randomness: Randomness,
        embedder: Embedder | None = None,
        together: bool = False,
    ) -> None:
        blank_allowed = adjacency is Adjacency.ZERO_OUT
        opened = unseal(records)
        self._units = [
            [
                task.shot(task.example_of(row, records.source))
                for row in unit[: sampling.max_records]
                if not (blank_allowed and _is_blank(row, task))
            ]
            for unit in opened
        ]
        self._change = sampling.change(adjacency)
        public_size = len(opened) if adjacency.size_is_public else None
        self._slots = 1 if together else sampling.count(adjacency, public_size)
        self._fixed: list[list[int]] | None = None
        if together:
            self._fixed = [list(range(len(opened)))]
        elif sampling.sampling == ALL:
            ids = [stable_id(unit, records.unit) for unit in opened]
            self._fixed = sampling.fixed(ids, adjacency, randomness)
        self._task, self._writer, self._sampling, self._adjacency = task, writer, sampling, adjacency
        self._tokens, self._randomness, self._embedder = tokens, randomness, embedder
        self._together = together
        self._reader: BlockReader | None = None

    def ask(self, query: Query, rehearsed: str | None = None) -> WrittenOutputs:
        """Lets every expert answer one question. This is the private read; nothing is drawn but who is in a sample.

        Args:
            query: The question.
            rehearsed: What the writer said to the bare question before it read a record: it must still say the same
                where it says the same to the same request, and something where it does not.

        Raises:
            ModelError: The writer or the embedder failed for a reason that is no expert's own. What it said of it stays
                here, for it could quote a record.
        """
        self.require_placed()
        slots = self._fixed if self._fixed is not None else self._sampling.drawn(len(self._units), self._randomness)
        requests: list[WritingRequest | None] = []
        for slot in slots:
            shots = [shot for unit in slot for shot in self._units[unit]]
            requests.append(request_of(self._task, query, shots) if shots else None)
        texts = self._written(requests, request_of(self._task, query, ()), rehearsed)
        vectors = None if self._embedder is None else self._vectors_of(texts, self._embedder)
        return WrittenOutputs(texts, self._change, self._adjacency, slots=self._slots, vectors=vectors)

    def rehearse(self, texts: Sequence[str]) -> None:
        """Lets the embedder say the public texts that it must embed alike behind every text of an expert.

        The first that it is told stay, and an embedder that says other bits of the same text promises nothing.
        """
        if self._embedder is not None and self._embedder.isolation in _SAME and self._reader is None and texts:
            self._reader = BlockReader(self._embedder, TEXTS, [{"text": text} for text in texts])

    def require_placed(self) -> None:
        """Refuses experts that no released cell was given to. It follows from public settings alone.

        Raises:
            ParameterError: The sampling is of cells, and ``place`` was not called.
        """
        if self._fixed is None and self._sampling.sampling == CELLS:
            raise ParameterError("cells", None, "given before experts are asked: released ones, by 'place'")

    def silent(self) -> WrittenOutputs:
        """What experts would leave that all wrote nothing: as it is shaped, without a record and without a model.

        A release of it refuses for public reasons what a release of their answers would, before anything is charged
        (``answering.session``).
        """
        self.require_placed()
        slots = self._slots or 0
        vectors = None if self._embedder is None else np.full((slots, self._embedder.dimension), np.nan)
        return WrittenOutputs([None] * slots, self._change, self._adjacency, slots=self._slots, vectors=vectors)

    def record_points(self) -> PrivatePoints:
        """One point a unit, for a clustering of the records themselves, which is charged by itself.

        Raises:
            ModelError: The embedder failed for a reason that is no unit's own.
        """
        return PrivatePoints(
            self._record_vectors, adjacency=self._adjacency, dimension=self._require_embedder().dimension
        )

    def place(self, cells: Cells) -> None:
        """Gives every released cell an expert, with the units of that cell nearest to its middle (5.7.2 (b)).

        Raises:
            ParameterError: The sampling is another one, or there is another number of cells.
            ModelError: The embedder failed for a reason that is no unit's own.
        """
        if self._sampling.sampling != CELLS or len(cells.centres) != self._slots:
            raise ParameterError("cells", len(cells.centres), f"as many as experts, for the sampling {CELLS!r}")
        self._fixed = nearest_of_each_cell(self._record_vectors, cells, self._sampling.shots)

    @property
    def _record_vectors(self) -> FloatArray:
        texts = ["\n".join(part for shot in unit for part in shot) or None for unit in self._units]
        return self._vectors_of(texts, self._require_embedder())

    def _require_embedder(self) -> Embedder:
        if self._embedder is None:
            raise ParameterError("embedder", None, "given: records are placed by their vectors")
        return self._embedder

    def _written(
        self, requests: Sequence[WritingRequest | None], bare: WritingRequest, rehearsed: str | None
    ) -> list[str | None]:
        asked = [request for request in requests if request is not None]

        def write() -> list[str | None]:
            said = self._said(asked, bare, rehearsed) if asked else []
            self._require_sound(bare, rehearsed)
            return said

        said = iter(withheld(self._writer, write))
        return [None if request is None else next(said) for request in requests]

    def _said(self, asked: Sequence[WritingRequest], bare: WritingRequest, rehearsed: str | None) -> list[str | None]:
        """A text for every request; where they cannot be answered together each is answered by itself."""
        with OwnFailure():
            return _one_each(self._writer.write(asked, tokens=self._tokens), len(asked))
        said: list[str | None] = []
        for request in asked:
            text: str | None = None
            with OwnFailure() as own:
                (text,) = _one_each(self._writer.write([request], tokens=self._tokens), 1)
            if own.failed:
                self._require_sound(bare, rehearsed)
            said.append(text)
        return said

    def _require_sound(self, bare: WritingRequest, rehearsed: str | None) -> None:
        """A record that breaks the writer would silence everybody, or change what they say."""
        if rehearsed is None:
            return
        (again,) = _one_each(self._writer.write([bare], tokens=self._tokens), 1)
        if again is None or (self._writer.isolation in _SAME and again != rehearsed):
            raise ModelError("The model does not answer the bare question any more as it did before.")

    def _vectors_of(self, texts: Sequence[str | None], embedder: Embedder) -> FloatArray:
        """One row a text; rows of null experts, and of texts that cannot be embedded, are not finite."""
        vectors = np.full((len(texts), embedder.dimension), np.nan)
        said = [index for index, text in enumerate(texts) if text is not None]
        if said:
            asked: list[Query] = [{"text": str(texts[index])} for index in said]
            vectors[said] = withheld(
                embedder, lambda: (self._reader or BlockReader(embedder, TEXTS, ())).vectors(asked)
            )
        return vectors


def request_of(task: AnswerTask, query: Query, shots: Sequence[tuple[str, str]], hint: str = "") -> WritingRequest:
    """What a writer is asked for: the task's instruction, examples, the question.

    Args:
        task: Of the question.
        query: The question.
        shots: Examples, private or public.
        hint: Public words behind the instruction.
    """
    instruction = f"{task.instruction}\n{hint}" if hint else task.instruction
    return WritingRequest(instruction, shots, task.render_query(query), task.names)


def _one_each(texts: Sequence[str | None], requests: int) -> list[str | None]:
    """The texts, if there is one for every request: another number could move one expert's text to another."""
    if len(texts) != requests or not all(text is None or isinstance(text, str) for text in texts):
        raise ValueError("not one text for every request")
    return list(texts)


def _is_blank(row: Row, task: AnswerTask) -> bool:
    """Whether nothing but ids is left of a row: the blank of zero-out adjacency."""
    return all(is_missing(row.values.get(name)) for name in (*task.fields, task.output_field))
