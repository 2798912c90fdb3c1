"""Who writes what: units become experts of disjoint batches, a batch writes texts of one label.

A unit goes into a batch of its own label by a coin of its own, so it is in one batch, alone in its slot. A change of
the data touches the slots that table 2.2 says for own slots: one drop under add-remove; under replace-one a swap in one
batch or, where the label changes, a drop in each of two, which costs no more than the swap that is charged
(``methods.decoding``). How many units a batch has is private; what it writes is divided by a public number.

Guarantee   A unit's batch is a function of that unit and of a coin that looks at nothing (specification 2.2, 5.10).
Sources     specification 2.2.1 (no m anywhere, a public divisor), 2.2.5, 2.6 (all records of a unit in one slot), T13.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from sottovoce.generation import GenerationTemplate
from sottovoce.models.stepper import Group, Prompt
from sottovoce.privacy.unit import Adjacency, Assignment, ChangeType, change_type
from sottovoce.randomness import Randomness, SystemRandomness
from sottovoce.records.sealed import Opaque, PrivateRecords, Row, unseal


@final
class Batches(Opaque):
    """Private units, dealt out to ``labels x per_label`` batches.

    Args:
        records: Sealed records; every row is checked here.
        writing: The public labels, and how a text is shown and asked for.
        per_label: Batches for every label, a public number.
        adjacency: The relation to be protected under.
        max_records: Most records of one unit that its expert sees; those of the label of its first record.
        randomness: Of the coins.

    Attributes:
        labels: For each batch the index of its label. Public.
        change: How one change of the data can change one batch.

    Raises:
        RecordError: A row has no text or no label of the task; its line is named, its content is not.
    """

    __slots__ = ("_members", "_writing", "change", "labels")

    def __init__(
        self,
        records: PrivateRecords,
        writing: GenerationTemplate,
        *,
        per_label: int,
        adjacency: Adjacency,
        max_records: int = 4,
        randomness: Randomness | None = None,
    ) -> None:
        coin = randomness or SystemRandomness()
        self._writing = writing
        self.change: ChangeType = change_type(Assignment.OWN_SLOT, adjacency)
        self.labels = [label for label in range(len(writing.labels)) for _ in range(per_label)]
        self._members: list[list[Sequence[Row]]] = [[] for _ in self.labels]
        for unit in unseal(records):
            batch = coin.below(per_label)
            rows = [row for row in unit if not (adjacency is Adjacency.ZERO_OUT and writing.is_blank(row))]
            read = [(row, writing.label_of(row, records.source)) for row in rows]
            if not read:
                continue
            label = read[0][1]
            kept = [row for row, its in read if its == label][:max_records]
            self._members[label * per_label + batch].append(kept)

    def groups(self) -> list[Group]:
        """The prompts, to be given to a model. This is the private read."""
        return [
            Group(self._prompt(label, ()), [self._prompt(label, unit) for unit in units])
            for label, units in zip(self.labels, self._members, strict=True)
        ]

    def _prompt(self, label: int, unit: Sequence[Row]) -> Prompt:
        before = self._writing.opening(self._writing.labels[label])
        return Prompt(before, "".join(self._writing.show(row.values) for row in unit), self._writing.ending)

    def _public_face(self) -> str:
        return f"{len(self.labels)} batches, {self.change.name}"
