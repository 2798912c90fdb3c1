"""A model made of a Python function, for tests and for trying a method without any weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from sottovoce.models.base import Context, FloatArray, Isolation
from sottovoce.tasks import Query, Task

ScoreFunction = Callable[[Task, Context, Query], Sequence[float]]


def one_shot(task: Task, context: Context, query: Query) -> list[float]:
    """Likes the labels of its demonstrations: three nats for each, one less for the others."""
    scores = [0.0] * len(task.labels)
    for example in context:
        scores[example.label] += 3.0
    return scores


@final
class FakeScorer:
    """Scores labels with a function and counts what it was asked.

    Attributes:
        calls: (context, query) pairs scored so far, private or not.
        contexts_read: Non-empty contexts that were prepared: private reads.
    """

    def __init__(
        self,
        function: ScoreFunction = one_shot,
        *,
        name: str = "fake",
        isolation: Isolation = Isolation.BY_CONSTRUCTION,
    ) -> None:
        self.function, self.name, self.isolation = function, name, isolation
        self.calls = self.contexts_read = 0

    def prepare(self, task: Task, contexts: Sequence[Context]) -> _FakeContexts:
        self.contexts_read += sum(bool(context) for context in contexts)
        return _FakeContexts(self, task, contexts)


@final
class _FakeContexts:
    def __init__(self, scorer: FakeScorer, task: Task, contexts: Sequence[Context]) -> None:
        self._scorer, self._task, self._contexts = scorer, task, contexts

    def score(self, queries: Sequence[Query]) -> FloatArray:
        self._scorer.calls += len(queries) * len(self._contexts)
        raw = [[self._scorer.function(self._task, c, q) for c in self._contexts] for q in queries]
        scores = np.asarray(raw, dtype=np.float64).reshape(len(queries), len(self._contexts), len(self._task.labels))
        with np.errstate(invalid="ignore"):
            return np.asarray(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))

    def close(self) -> None:
        self._contexts = ()
