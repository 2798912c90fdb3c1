"""Private records as an embedder reads them, in blocks of whole units, and their sums by public rules.

Where every rule is known before the first record is read, each block is added up as it comes and let go. Else the
vectors are kept.

Guarantee   What is summed is a function of each unit's own records (``blocks``); sums are of whole numbers, the same
            whatever the blocks. What the model says of a failure is withheld.
Sources     specification 1.2, 5.13 to 5.17.
"""

from __future__ import annotations

import hashlib
import json
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
Summed = tuple[int, list[IntArray]]
"""A number of units, and their sums by each rule."""


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

    def sums(self, shards: Iterator[Shard]) -> Iterator[Summed]:
        """The sums of each shard by each rule, in the order of the shards. Private.

        Raises:
            ModelError: A shard could not be read; there is no sum then.
        """

    def close(self) -> None:
        """Lets go of what it holds."""


class Progress(Protocol):
    """Where the sums of the first units are kept, so that a run that was stopped continues after them."""

    def found(self, order: str) -> Summed | None:
        """How many units were added up, and their sums.

        Args:
            order: SHA-256 of all examples in their order. Of another order nothing is found.
        """

    def keep(self, order: str, done: Summed) -> None:
        """Keeps them in place of what was kept."""


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

    __slots__ = ("_blank_allowed", "_blocks", "_embedder", "_order", "_records", "_sums", "_task", "_units")

    def __init__(self, records: PrivateRecords, task: Task, embedder: Embedder, adjacency: Adjacency) -> None:
        self._records, self._task, self._embedder = records, task, embedder
        self._blank_allowed = adjacency is Adjacency.ZERO_OUT
        self._units, order = 0, hashlib.sha256()
        for unit in self._in_turn():
            self._units += 1
            order.update(_written(unit))
        self._order = order.hexdigest()
        self._blocks: list[KeptBlock] | None = None
        self._sums: list[tuple[SumRule, str, IntArray]] | None = None

    @property
    def units(self) -> int:
        """Number of units. Public where the adjacency says so."""
        return self._units

    def reader(self, public: Sequence[Query]) -> BlockReader:
        """What reads them. It asks the embedder these questions now, which it must answer alike while it reads.

        Raises:
            ValueError: Its vectors have another shape.
            BaseException: Whatever the embedder raises.
        """
        return BlockReader(self._embedder, self._task, public)

    def read(
        self,
        reader: BlockReader,
        on_units: Callable[[int], None] | None = None,
        rules: Sequence[SumRule] | None = None,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Embeds every record. This is the private read.

        Args:
            reader: From ``reader``; made before anything is charged, so that its public questions fail there.
            on_units: Called with the number of units that were read, each time that some were.
            rules: All that will be asked for, where that is known: then no vector is kept.
            engine: Who reads the records, started with these rules; by default this process.
            progress: Where sums by these rules are kept meanwhile.

        Raises:
            ModelError: The model failed for a reason that is no record's own. What it said of it stays here.
            RecordError: The file of the records is not the one any more that they were sealed from.
        """
        if self._blocks is not None or self._sums is not None:
            return
        told = on_units or (lambda units: None)
        if rules is None:
            self._blocks = list(self._kept(reader, told))
            return
        digests = [rule.digest for rule in rules]  # before it is used: a rule may keep what it works out
        done, totals = (progress.found(self._order) if progress else None) or (0, _zeros(rules))
        if done:
            told(done)
        shards = self._shards(done)
        for units, sums in engine.sums(shards) if engine else self._summed(reader, rules, shards):
            done, totals = done + units, [total + own for total, own in zip(totals, sums, strict=True)]
            told(units)
            if progress is not None:
                progress.keep(self._order, (done, totals))
        if done != self._units:
            raise ModelError("Not every unit was read. There is no sum.")
        self._sums = [(rule, digest, total) for rule, digest, total in zip(rules, digests, totals, strict=True)]

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all contributions by a rule, shape (rule.size,), int64. Private.

        Raises:
            ModelError: The records were not read, or only for other rules.
        """
        if self._sums is not None:
            found = [total for known, _, total in self._sums if known is rule]
            found = found or [total for _, digest, total in self._sums if digest == rule.digest]
            if found:
                return found[0].copy()  # whoever asks may write into it
        if self._blocks is None:
            raise ModelError("These records were not read yet, or for other sums, or were let go.")
        summed = np.zeros(rule.size, dtype=np.int64)
        for block in self._blocks:
            summed += withheld(self._embedder, lambda block=block: rule.add_up(block.opened()))  # type: ignore[misc]
        return summed

    def close(self) -> None:
        """Forgets vectors and sums."""
        self._blocks = self._sums = None

    def _kept(self, reader: BlockReader, told: Callable[[int], None]) -> Iterator[KeptBlock]:
        for shard in self._shards():
            yield withheld(self._embedder, lambda shard=shard: reader.block(shard))  # type: ignore[misc]
            told(len(shard))
        withheld(self._embedder, reader.require_sound)

    def _summed(
        self, reader: BlockReader, rules: Sequence[SumRule], shards: Iterator[Shard]
    ) -> Iterator[tuple[int, list[IntArray]]]:
        """The sums of each shard, of which no vector is kept."""
        for shard in shards:
            yield len(shard), withheld(self._embedder, lambda shard=shard: reader.sums(shard, rules))  # type: ignore[misc]
        withheld(self._embedder, reader.require_sound)

    def _in_turn(self) -> Iterator[list[Example]]:
        return examples_in_turn(self._records, self._task, blank_allowed=self._blank_allowed)

    def _shards(self, done: int = 0) -> Iterator[Shard]:
        """Behind so many units."""
        units = islice(self._in_turn(), done, None)
        while shard := list(islice(units, UNITS_TOGETHER)):
            yield shard


def _zeros(rules: Sequence[SumRule]) -> list[IntArray]:
    return [np.zeros(rule.size, dtype=np.int64) for rule in rules]


def _written(unit: Sequence[Example]) -> bytes:
    """A unit's examples, no two units alike."""
    return json.dumps([[sorted(example.fields.items()), example.label] for example in unit]).encode() + b"\n"
