"""Blocks of whole units as an embedder has read them: what a record's vector is, wherever and with whomever it is read.

Guarantee   A record's vector is a function of that record alone (``Embedder.isolation``), whatever block it stands in.
            What fails on one record is that record's own: its vector is NaN and adds nothing. What records share fails
            the whole.
Sources     specification 1.2, 5.17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ModelError
from sottovoce.experts.reading import of_shape, same_bits
from sottovoce.experts.unit_sums import Block, SumRule
from sottovoce.models.base import CompactEmbedder, Embedder, FloatArray
from sottovoce.models.failures import OwnFailure
from sottovoce.privacy.aggregates import IntArray
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Example, Query, Task

UNITS_TOGETHER: Final = 256
"""Units that are embedded together: what an interruption can cost at most, since embeddings are kept as they come."""
Vectors = NDArray[Any]


@final
class KeptBlock(Opaque):
    """A block whose vectors take half the room where that loses no bit. Sealed."""

    __slots__ = ("_labels", "_unfolded", "_units", "_vectors")

    def __init__(
        self,
        vectors: Vectors,
        labels: Sequence[int],
        units: Sequence[int],
        unfolded: Callable[[Vectors], FloatArray],
    ) -> None:
        self._vectors, self._unfolded = vectors, unfolded
        self._labels, self._units = np.asarray(labels, dtype=np.int32), np.asarray(units, dtype=np.int32)

    def opened(self) -> Block:
        """The block in full."""
        return Block(self._unfolded(self._vectors), self._labels.tolist(), self._units.tolist())


@final
class BlockReader:
    """Reads blocks with one embedder, and sees that it stays as it was.

    Args:
        embedder: The model.
        task: Labels and fields.
        public: Questions that the embedder must answer alike before and behind every record.

    Attributes:
        embedder: The model.
        rehearsed: Its vectors of the public questions, shape (questions, dimension).

    Raises:
        ValueError: Those have another shape.
        BaseException: Whatever the embedder raises: it is asked here.
    """

    def __init__(self, embedder: Embedder, task: Task, public: Sequence[Query]) -> None:
        self.embedder, self.task, self.public = embedder, task, public
        self.rehearsed: FloatArray = np.empty((0, embedder.dimension))
        if public:
            self.rehearsed = of_shape(embedder.embed_questions(task, public), (len(public), embedder.dimension))
        self._compact = embedder if isinstance(embedder, CompactEmbedder) else None

    def block(self, units: Sequence[Sequence[Example]]) -> KeptBlock:
        """Embeds whole units. A private read: call it in ``withheld``.

        Raises:
            ModelError: The model does not answer as before.
            BaseException: What records share failed.
        """
        examples = [example for unit in units for example in unit]
        owners = [number for number, unit in enumerate(units) for _ in unit]
        vectors = self._embedded([example.fields for example in examples])
        labels = [example.label for example in examples]
        if self._compact is not None:
            return KeptBlock(vectors, labels, owners, self._compact.unfolded)
        return KeptBlock(_narrowed(vectors), labels, owners, _widened)

    def sums(self, units: Sequence[Sequence[Example]], rules: Sequence[SumRule]) -> list[IntArray]:
        """Embeds whole units and adds them up by each rule, then looks at the embedder. A private read, like ``block``.

        Raises:
            ModelError: The model does not answer as before.
            BaseException: What records share failed.
        """
        block = self.block(units).opened()
        sums = [rule.add_up(block) for rule in rules]
        self.require_sound()
        return sums

    def vectors(self, records: Sequence[Query]) -> FloatArray:
        """Embeds records, shape (records, dimension), then looks at the embedder. A private read, like ``block``.

        Raises:
            ModelError: The model does not answer as before.
            BaseException: What records share failed.
        """
        found = self._embedded(records)
        self.require_sound()
        return found if self._compact is None else self._compact.unfolded(found)

    def require_sound(self) -> None:
        """Looks whether the embedder answers public questions as it did.

        Raises:
            ModelError: It does not.
        """
        if self.public and not same_bits(self.embedder.embed_questions(self.task, self.public), self.rehearsed):
            raise ModelError("The model does not embed public texts any more as it did before.")

    def _embedded(self, records: Sequence[Query]) -> Vectors:
        """Vectors of records; where they cannot be read together each is read by itself."""
        with OwnFailure():
            return self._vectors(records)
        kind = np.float64 if self._compact is None else np.float32
        rows = np.full((len(records), self.embedder.dimension), np.nan, dtype=kind)
        for row, record in zip(rows, records, strict=True):
            with OwnFailure() as own:
                row[...] = self._vectors([record])[0]
            if own.failed:
                self.require_sound()
        return rows

    def _vectors(self, records: Sequence[Query]) -> Vectors:
        shape = (len(records), self.embedder.dimension)
        if self._compact is None:
            return of_shape(self.embedder.embed_records(self.task, records), shape)
        vectors = self._compact.embed_compactly(self.task, records)
        if vectors.shape != shape or vectors.dtype != np.float32:
            raise ValueError("vectors of another shape or kind")
        return vectors.copy()  # the model may write its next answer where this one stands


def _narrowed(vectors: FloatArray) -> Vectors:
    """In 32 bits where every number comes back whole."""
    with np.errstate(all="ignore"):
        narrow = vectors.astype(np.float32)
        return narrow if same_bits(narrow.astype(np.float64), vectors) else vectors


def _widened(vectors: Vectors) -> FloatArray:
    return np.asarray(vectors, dtype=np.float64)
