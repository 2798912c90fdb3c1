"""A task and a model class of one's own, without weights. Run: python examples/own_task_and_model.py"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import sottovoce as sv
from sottovoce.data.bundled import tickets_file
from sottovoce.models.base import Isolation
from sottovoce.records.readers import read_private

TASK = sv.Task(
    labels=["billing", "fraud", "shipping", "returns", "account", "technical", "cancellation", "feedback"],
    instruction="Which team handles this?",
    query="Customer: {text}\nTeam:",
    example="Customer: {text}\nTeam: {label}",
)


class Overlap:
    """Likes the label whose examples share words with the question."""

    name = "overlap"
    isolation = Isolation.BY_CONSTRUCTION  # each context is scored by itself, in a loop

    def prepare(self, task: sv.Task, contexts: Sequence[Any]) -> OverlapContexts:
        """Keeps the contexts; there is nothing to compute before a question comes."""
        return OverlapContexts(task, contexts)


class OverlapContexts:
    """Contexts that were read. They are private: nothing here prints them."""

    def __init__(self, task: sv.Task, contexts: Sequence[Any]) -> None:
        self._task, self._contexts = task, contexts

    def score(self, queries: Sequence[Any]) -> np.ndarray:
        """Natural-log probabilities, shape (questions, contexts, labels)."""
        rows = [[self._one(context, query) for context in self._contexts] for query in queries]
        return np.array(rows, dtype=np.float64).reshape(len(queries), len(self._contexts), len(self._task.labels))

    def close(self) -> None:
        """Forgets the contexts."""
        self._contexts = ()

    def _one(self, context: Any, query: Any) -> np.ndarray:
        words = content(self._task.text_of(query))
        scores = np.zeros(len(self._task.labels))
        for example in context:
            scores[example.label] += len(words & content(self._task.text_of(example.fields)))
        return scores - np.logaddexp.reduce(scores)


def content(text: str) -> set[str]:
    """Words of more than three letters."""
    return {word for word in text.lower().split() if len(word) > 3}


def main() -> None:
    """Answers one question; what one customer's tickets can change is bounded."""
    icl = sv.PrivateICL(
        records=read_private(tickets_file("private.jsonl"), synthetic=True),
        task=TASK,
        method=sv.methods.PoE(clip=2.3),
        model=Overlap(),
        budget=sv.Budget(epsilon=8, delta=1e-6),
        ledger=":memory:",
    )
    release = icl.ask("The parcel still says arriving today.", epsilon=1)
    print(release.value)
    print(release.statement)


if __name__ == "__main__":
    main()
