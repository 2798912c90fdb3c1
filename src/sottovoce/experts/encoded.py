"""Private records as an embedder has read them, in blocks of whole units, and their sums by public rules.

Guarantee   A record's vector is a function of that record alone (``Embedder.isolation``). What fails on one record is
            that record's own: its vector is NaN and adds nothing. What records share fails the whole, and what the
            model says of it is withheld.
Sources     specification 1.2, 5.13 to 5.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

import numpy as np

from sottovoce.errors import ModelError
from sottovoce.experts.ensemble import examples_of
from sottovoce.experts.reading import of_shape, same_bits, withheld
from sottovoce.experts.unit_sums import Block, SumRule
from sottovoce.models.base import Embedder, FloatArray
from sottovoce.models.failures import OwnFailure
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import Opaque, PrivateRecords
from sottovoce.tasks import Example, Query, Task

UNITS_TOGETHER: Final = 256
"""Units that are embedded together: what an interruption can cost at most, since embeddings are kept as they come."""


@final
class EncodedRecords(Opaque):
    """Private records that an embedder reads when they are first needed. Nothing is read before ``read``.

    Args:
        records: Sealed records; every row is checked against the task here.
        task: Labels and fields.
        embedder: The model.
        adjacency: The relation to be protected under.

    Raises:
        RecordError: A row does not suit the task.
    """

    __slots__ = ("_blocks", "_embedder", "_examples", "_public", "_rehearsed", "_task")

    def __init__(self, records: PrivateRecords, task: Task, embedder: Embedder, adjacency: Adjacency) -> None:
        self._examples = examples_of(records, task, blank_allowed=adjacency is Adjacency.ZERO_OUT)
        self._task, self._embedder = task, embedder
        self._blocks: list[Block] | None = None
        self._public: Sequence[Query] = ()
        self._rehearsed: FloatArray = np.empty((0, 0))

    @property
    def units(self) -> int:
        """Number of units. Public where the adjacency says so."""
        return len(self._examples)

    def read(self, public: Sequence[Query], on_units: Callable[[int], None] | None = None) -> None:
        """Embeds every record. This is the private read.

        Args:
            public: Questions that the embedder must answer alike before and behind it.
            on_units: Told how many units were read, each time that some were.

        Raises:
            ModelError: The model failed for a reason that is no record's own. What it said of it stays here.
        """
        if self._blocks is not None:
            return
        self._public, self._rehearsed = public, self._embedder.embed_questions(self._task, public)
        self._blocks = withheld(self._embedder, lambda: self._read(on_units))

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all contributions by a rule, shape (rule.size,), int64. Private.

        Raises:
            ModelError: The records were not read.
        """
        if self._blocks is None:
            raise ModelError("These records were not read yet, or were let go.")
        total = np.zeros(rule.size, dtype=np.int64)
        for block in self._blocks:
            total += rule.add_up(block)
        return total

    def close(self) -> None:
        """Forgets the vectors."""
        self._blocks = None

    def _read(self, on_units: Callable[[int], None] | None) -> list[Block]:
        blocks = []
        for units in self._batches():
            blocks.append(self._block(units))
            if on_units is not None:
                on_units(len(units))
        self._require_sound()
        return blocks

    def _batches(self) -> Iterator[list[list[Example]]]:
        for start in range(0, len(self._examples), UNITS_TOGETHER):
            yield self._examples[start : start + UNITS_TOGETHER]

    def _block(self, units: Sequence[Sequence[Example]]) -> Block:
        examples = [example for unit in units for example in unit]
        owners = [number for number, unit in enumerate(units) for _ in unit]
        vectors = self._embedded([example.fields for example in examples])
        return Block(vectors, [example.label for example in examples], owners)

    def _embedded(self, records: Sequence[Query]) -> FloatArray:
        """Vectors of records; where they cannot be read together each is read by itself."""
        with OwnFailure():
            return self._vectors(records)
        rows = np.full((len(records), self._embedder.dimension), np.nan)
        for row, record in zip(rows, records, strict=True):
            with OwnFailure() as own:
                row[...] = self._vectors([record])[0]
            if own.failed:
                self._require_sound()
        return rows

    def _vectors(self, records: Sequence[Query]) -> FloatArray:
        return of_shape(self._embedder.embed_records(self._task, records), (len(records), self._embedder.dimension))

    def _require_sound(self) -> None:
        if not same_bits(self._embedder.embed_questions(self._task, self._public), self._rehearsed):
            raise ModelError("The model does not embed public texts any more as it did before.")
