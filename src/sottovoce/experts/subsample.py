"""Fresh Poisson samples: for every question and prompt each unit is sampled independently.

Guarantee   The coins are independent of each other, of all content and of all former coins; no sampled index is kept,
            and a model that keeps something of what it read (``read_once``) reads every unit before the first sample.
            A unit's presence changes the prompts that it is in and no other.
Sources     specification 5.3 and 7 (row 1: true Poisson, from a secure source, fresh for every prompt and question).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

import numpy as np

from sottovoce.experts.ensemble import examples_of
from sottovoce.experts.label_scores import ExpertOutputs, calibrated
from sottovoce.experts.reading import Reading, require_sound, withheld
from sottovoce.models.base import FloatArray, LabelScorer
from sottovoce.models.failures import OwnFailure
from sottovoce.parameters import Number
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import Opaque, PrivateRecords
from sottovoce.tasks import Example, Query, Task

PROBABILITY: Final = Number(1e-6, 0.999_999, strict=True, words="from 1e-6 to 0.999999")
SUBSAMPLES: Final = Number(1, 1_000, whole=True, strict=True)
"""Both are checked by a method before anything is charged."""


@final
class SampledEnsemble(Opaque):
    """Prompts that each hold a fresh Poisson sample of the units. Nothing is given to a model before ``ask``.

    Args:
        records: Sealed records; every row is checked against the task here.
        task: Labels and templates.
        scorer: The model.
        adjacency: The relation to be protected under.
        sampling_probability: Chance of each unit to be in a prompt, above 0 and below 1.
        subsamples: Prompts for each question.
        randomness: Source of the coins.
        max_records: Most records of one unit in a prompt; the first ones of that unit.
        content_free: Questions by whose answers each prompt is calibrated by itself; none leaves scores as they are.

    Raises:
        RecordError: A row does not suit the task.
    """

    __slots__ = ("_adjacency", "_empty", "_randomness", "_rate", "_read", "_subsamples", "_units", "scorer", "task")

    def __init__(
        self,
        records: PrivateRecords,
        task: Task,
        scorer: LabelScorer,
        adjacency: Adjacency,
        *,
        sampling_probability: float,
        subsamples: int,
        randomness: Randomness,
        max_records: int,
        content_free: Sequence[Query] = (),
    ) -> None:
        examples = examples_of(records, task, blank_allowed=adjacency is Adjacency.ZERO_OUT)
        self._units = [unit[:max_records] for unit in examples]
        self._rate, self._subsamples = exact(sampling_probability), subsamples
        self._adjacency, self._randomness = adjacency, randomness
        self.task, self.scorer = task, scorer
        self._empty = list(content_free)
        self._read = False

    def ask(self, queries: Sequence[Query], public: FloatArray | None = None) -> list[ExpertOutputs]:
        """Scores every label by every prompt, one sealed result a question. This is the private read.

        Args:
            queries: The questions.
            public: The model's answers without any record, as for ``Ensemble``.

        Raises:
            ModelError: The model failed for a reason that is no prompt's own; see ``reading``.
        """
        self._read_all_once()
        rows = [self._score(query) for query in queries]
        if public is not None:
            asked = [*queries, *self._empty]
            withheld(self.scorer, lambda: require_sound(self.scorer, self.task, asked, public))
        prior = None if public is None else calibrated(public[:, None], len(self._empty))[:, 0]
        return [
            ExpertOutputs(scores, SWAP, self._adjacency, None if prior is None else prior[index])
            for index, scores in enumerate(rows)
        ]

    def close(self) -> None:
        """Nothing is kept between questions."""

    def _score(self, query: Query) -> FloatArray:
        reading = Reading(self.scorer, self.task, [self._sample() for _ in range(self._subsamples)], self._empty)
        try:
            return np.asarray(reading.score([query])[0])
        finally:
            reading.close()

    def _read_all_once(self) -> None:
        """Lets a model that keeps something of what it reads read every unit, in a sample or not.

        A unit on which it fails is left out here; each prompt that holds it will be null.
        """
        keep = getattr(self.scorer, "read_once", None)
        if keep is None or self._read:
            return
        if not self._kept(keep, [example for unit in self._units for example in unit]):
            for unit in self._units:
                self._kept(keep, unit)
        self._read = True

    def _kept(self, keep: Callable[[Task, Sequence[Example]], None], examples: Sequence[Example]) -> bool:
        def read() -> bool:
            with OwnFailure() as own:
                keep(self.task, examples)
            return not own.failed

        return withheld(self.scorer, read)

    def _sample(self) -> list[Example]:
        drawn = [unit for unit in self._units if self._toss()]
        return [example for unit in drawn for example in unit]

    def _toss(self) -> bool:
        return self._randomness.below(self._rate.denominator) < self._rate.numerator
