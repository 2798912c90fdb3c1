"""The experts together: private units become prompts, prompts are scored, scores stay sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import final

import numpy as np

from sottovoce.experts.label_scores import ExpertOutputs, calibrated
from sottovoce.experts.partition import Partition
from sottovoce.experts.reading import Reading, require_sound, withheld
from sottovoce.models.base import FloatArray, LabelScorer
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import (
    RECORD_UNIT,
    Opaque,
    PrivateRecords,
    Row,
    identity_text,
    is_missing,
    unseal,
    unseal_units,
)
from sottovoce.tasks import Example, Query, Task


@final
class Ensemble(Opaque):
    """Experts over private records. Nothing is given to a model before the first ``ask``.

    Args:
        records: Sealed records; every row is checked against the task here.
        task: Labels and templates.
        scorer: The model.
        partition: How units are shared out.
        adjacency: The relation to be protected under.
        together: Put every record into one context, for the non-private full-context reference.
        order: As for ``Partition.assign``.
        content_free: Questions by whose answers each expert is calibrated by itself; none leaves scores as they are.

    Raises:
        RecordError: A row does not suit the task.
        AssignmentError: The partition has no guarantee under this adjacency.
    """

    __slots__ = ("_contexts", "_empty", "_reading", "_slots", "scorer", "task")

    def __init__(
        self,
        records: PrivateRecords,
        task: Task,
        scorer: LabelScorer,
        partition: Partition,
        adjacency: Adjacency,
        *,
        together: bool = False,
        order: Callable[[int], Sequence[int]] | None = None,
        content_free: Sequence[Query] = (),
    ) -> None:
        examples = examples_of(records, task, blank_allowed=adjacency is Adjacency.ZERO_OUT)
        ids = [stable_id(unit, records.unit) for unit in unseal(records)]
        self._slots = partition.assign(ids, adjacency, order)
        kept = [unit[: partition.max_records] for unit in examples]
        contexts = [[example for unit in slot for example in kept[unit]] for slot in self._slots.members]
        self._contexts: list[list[Example]] = [[e for c in contexts for e in c]] if together else contexts
        self._reading: Reading | None = None
        self._empty = list(content_free)
        self.task, self.scorer = task, scorer

    def ask(self, queries: Sequence[Query], public: FloatArray | None = None) -> list[ExpertOutputs]:
        """Scores every label by every expert, one sealed result a question. This is the private read.

        Args:
            queries: The questions.
            public: The model's answers without any record to the queries and then to the content-free questions,
                shape (queries, labels), from before it read one: for methods that compare with them, and to see that
                it still gives them.

        Raises:
            ModelError: The model failed for a reason that is no expert's own; see ``reading``.
        """
        occupied = [index for index, context in enumerate(self._contexts) if context]
        scores = np.full((len(queries), len(self._contexts), len(self.task.labels)), np.nan)
        if occupied:
            if self._reading is None:
                self._reading = Reading(
                    self.scorer, self.task, [self._contexts[index] for index in occupied], self._empty
                )
            scores[:, occupied] = self._reading.score(queries, public)
        elif public is not None:  # else whether an answer comes would tell whether anybody is there
            asked = [*queries, *self._empty]
            withheld(self.scorer, lambda: require_sound(self.scorer, self.task, asked, public))
        prior = None if public is None else calibrated(public[:, None], len(self._empty))[:, 0]
        return [
            ExpertOutputs(rows, self._slots.change, self._slots.adjacency, None if prior is None else prior[index])
            for index, rows in enumerate(scores)
        ]

    def close(self) -> None:
        """Frees the model's caches of private prompts."""
        if self._reading is not None:
            self._reading.close()


def examples_of(records: PrivateRecords, task: Task, *, blank_allowed: bool) -> list[list[Example]]:
    """The examples of every unit, in file order.

    Raises:
        RecordError: A row does not suit the task; the line is named, the content is not.
    """
    return list(examples_in_turn(records, task, blank_allowed=blank_allowed))


def examples_in_turn(records: PrivateRecords, task: Task, *, blank_allowed: bool) -> Iterator[list[Example]]:
    """The same unit by unit, none of which is held; errors also where a file of records was changed."""
    for unit in unseal_units(records):
        yield [task.example_of(row, records.source) for row in unit if not (blank_allowed and _is_blank(row, task))]


def stable_id(unit: Sequence[Row], column: str) -> str | None:
    """The id of a unit that stays for life: its value of the unit's column, or its record's ``id``."""
    value = unit[0].identity("id" if column == RECORD_UNIT else column)
    return None if is_missing(value) else identity_text(value)


def _is_blank(row: Row, task: Task) -> bool:
    """Whether nothing but ids is left of a row: the blank of zero-out adjacency, whose expert is null."""
    return all(is_missing(row.values.get(name)) for name in (*task.fields, task.label_field))
