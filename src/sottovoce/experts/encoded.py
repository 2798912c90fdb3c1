"""Private records as an embedder reads them, in blocks of whole units, and their sums by public rules.

Where every rule is known before the first record is read, each block is added up as it comes and let go. Else the
vectors are kept.

Guarantee   What is summed is a function of each unit's own records (``blocks``); sums are of whole numbers, the same
            whatever the blocks. What the model says of a failure is withheld.
Sources     specification 1.2, 5.13 to 5.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol, final

import numpy as np

from sottovoce.errors import ModelError
from sottovoce.experts.blocks import UNITS_TOGETHER, BlockReader, KeptBlock
from sottovoce.experts.ensemble import examples_in_turn
from sottovoce.experts.reading import withheld
from sottovoce.experts.unit_sums import SumRule
from sottovoce.models.base import Embedder
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import Opaque, PrivateRecords
from sottovoce.tasks import Example, Query, Task

Shard = list[list[Example]]
"""The examples of whole units."""


class Engine(Protocol):
    """Who reads and adds up the shards of a data set, where it is not this process."""

    def start(self, reader: BlockReader, rules: Sequence[SumRule]) -> None:
        """Makes ready. Nothing private is read.

        Args:
            reader: With the model, the task and the public questions.
            rules: What is to be summed.

        Raises:
            InputError: It cannot be used so.
            ModelError: It cannot be used now.
        """

    def sums(self, shards: Iterator[Shard], on_units: Callable[[int], None] | None) -> list[IntArray]:
        """The sum over all shards by each rule. Private.

        Raises:
            ModelError: A shard could not be read; there is no sum then.
        """

    def close(self) -> None:
        """Lets go of what it holds."""


@final
class EncodedRecords(Opaque):
    """Private records that an embedder reads when they are first needed. Nothing is embedded before ``read``.

    Args:
        records: Sealed records; every row is checked against the task here.
        task: Labels and fields.
        embedder: The model.
        adjacency: The relation to be protected under.

    Raises:
        RecordError: A row does not suit the task.
    """

    __slots__ = ("_blank_allowed", "_blocks", "_embedder", "_records", "_sums", "_task", "_units")

    def __init__(self, records: PrivateRecords, task: Task, embedder: Embedder, adjacency: Adjacency) -> None:
        self._records, self._task, self._embedder = records, task, embedder
        self._blank_allowed = adjacency is Adjacency.ZERO_OUT
        self._units = sum(1 for _ in self._in_turn())
        self._blocks: list[KeptBlock] | None = None
        self._sums: dict[str, IntArray] | None = None

    @property
    def units(self) -> int:
        """Number of units. Public where the adjacency says so."""
        return self._units

    def read(
        self,
        public: Sequence[Query],
        on_units: Callable[[int], None] | None = None,
        rules: Sequence[SumRule] | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Embeds every record. This is the private read.

        Args:
            public: Questions that the embedder must answer alike before and behind it.
            on_units: Told how many units were read, each time that some were.
            rules: All that will be asked for, where that is known: then no vector is kept.
            engine: Who reads the records, started with these rules; by default this process.

        Raises:
            ModelError: The model failed for a reason that is no record's own. What it said of it stays here.
            RecordError: The file of the records is not the one any more that they were sealed from.
        """
        if self._blocks is not None or self._sums is not None:
            return
        if engine is not None:
            if rules is None:
                raise ValueError("an engine needs the rules")
            self._sums = _by_digest(rules, engine.sums(self._shards(), on_units))
            return
        reader = BlockReader(self._embedder, self._task, public)
        blocks, totals = [], [np.zeros(rule.size, dtype=np.int64) for rule in rules or ()]
        for shard in self._shards():
            block = withheld(self._embedder, lambda shard=shard: reader.block(shard))  # type: ignore[misc]
            if rules is None:
                blocks.append(block)
            for total, rule in zip(totals, rules or (), strict=True):
                np.add(total, self._added(block, rule), out=total)
            if on_units is not None:
                on_units(len(shard))
        withheld(self._embedder, reader.require_sound)
        if rules is None:
            self._blocks = blocks
        else:
            self._sums = _by_digest(rules, totals)

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all contributions by a rule, shape (rule.size,), int64. Private.

        Raises:
            ModelError: The records were not read, or only for other rules.
        """
        if self._sums is not None and (digest := rule.digest) in self._sums:
            return self._sums[digest]
        if self._blocks is None:
            raise ModelError("These records were not read yet, or for other sums, or were let go.")
        total = np.zeros(rule.size, dtype=np.int64)
        for block in self._blocks:
            total += self._added(block, rule)
        return total

    def close(self) -> None:
        """Forgets vectors and sums."""
        self._blocks = self._sums = None

    def _added(self, block: KeptBlock, rule: SumRule) -> IntArray:
        return withheld(self._embedder, lambda: rule.add_up(block.opened()))

    def _in_turn(self) -> Iterator[list[Example]]:
        return examples_in_turn(self._records, self._task, blank_allowed=self._blank_allowed)

    def _shards(self) -> Iterator[Shard]:
        units = self._in_turn()
        while shard := list(islice(units, UNITS_TOGETHER)):
            yield shard


def _by_digest(rules: Sequence[SumRule], sums: Sequence[IntArray]) -> dict[str, IntArray]:
    return {rule.digest: total for rule, total in zip(rules, sums, strict=True)}
