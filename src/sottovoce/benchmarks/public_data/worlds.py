"""Worlds of long answers: private pairs of a question and an answer, public ones of two sources, tests.

The rows are published (``shared/data``): dialogues with summaries from two sources, medical questions from two
sources, and receipts with a question about each. Long inputs are left out and long answers cut, so that several
examples fit into a small model's prompt; the numbers are in every result and are no one else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, final

from sottovoce.benchmarks.harness.public_rows import benchmark_rows
from sottovoce.errors import InputError
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import AnswerTask, Query, load_answer_task

Pair = tuple[str, str]
"""An input and an answer."""

IN, OUT = "same source", "other source"
"""Pools of public pairs: other rows of the private ones' source, and rows of another source."""
SOURCES: Final[Mapping[str, tuple[str, str, str]]] = {
    "samsum": ("summarize", "samsum", "dialogsum"),
    "medquad": ("question", "medquad", "chatdoctor_genmed5k"),
    "chatdoctor": ("question", "chatdoctor_genmed5k", "medquad"),
}
"""World to its task, where its private rows lie, and where the other source lies."""
RECEIPTS: Final = "receipts"
"""The world of documents: receipts as text, one question about each. It has no other source."""
INPUT_WORDS, ANSWER_WORDS, DOCUMENT_WORDS = 60, 40, 130
"""Longer inputs, and documents with their question, are left out; longer answers are cut."""


@final
@dataclass(frozen=True, eq=False)
class World:
    """Rows of one world, in the order of their files, which is a random one.

    Attributes:
        name: Of the world.
        task: What is asked.
        train: Pairs of its own source.
        other: Pairs of the other source.
        tests: Questions with the answer to compare with.
    """

    name: str
    task: AnswerTask
    train: Sequence[Pair]
    other: Sequence[Pair]
    tests: Sequence[Pair]

    def private(self, count: int) -> Sequence[Pair]:
        """The first pairs.

        Raises:
            InputError: There are too few.
        """
        return self._taken(self.train[:count], count, "private")

    def pool(self, kind: str, count: int) -> Sequence[Pair]:
        """Public pairs, none of them private: the last ones of the source, or the first ones of the other source.

        Raises:
            InputError: There are too few.
        """
        return self._taken(self.train[-count:] if kind == IN else self.other[:count], count, "public")

    def asked(self, seed: int, count: int) -> Sequence[Pair]:
        """Test pairs of a seed; those of different seeds are different as long as there are enough."""
        places = [(seed * count + number) % len(self.tests) for number in range(count)]
        return [self.tests[place] for place in places]

    def query(self, text: str) -> Query:
        """An input as the task has it."""
        return {self.task.fields[0]: text}

    def _taken(self, pairs: Sequence[Pair], count: int, part: str) -> Sequence[Pair]:
        if len(pairs) < count:
            raise InputError(
                f"The world {self.name} has {len(pairs)} pairs for the {part} part, and {count} were asked for."
            )
        return pairs


@lru_cache(maxsize=4)
def world_of(data: Path, name: str) -> World:
    """Reads a world.

    Raises:
        InputError: Its rows are not there, or are somebody's private records.
    """
    if name == RECEIPTS:
        # One field holds the document and its question as the task shows them: a pair is an input and an answer.
        task = load_answer_task("document-question")
        train, test = (_receipts(data / "sroie_receipts" / f"{split}.jsonl.gz", task) for split in ("train", "test"))
        return World(name, replace(task, query="{document}"), train, (), test)
    task_name, own, other = SOURCES[name]
    task = load_answer_task(task_name)
    return World(
        name,
        task,
        _pairs(data / own / "train.jsonl.gz", task),
        _pairs(data / other / "train.jsonl.gz", task),
        _pairs(data / own / "test.jsonl.gz", task),
    )


def records_of(task: AnswerTask, pairs: Sequence[Pair]) -> PrivateRecords:
    """Published pairs that play private records."""
    rows = [
        Row(place, {task.fields[0]: shown, task.output_field: given}) for place, (shown, given) in enumerate(pairs, 1)
    ]
    return PrivateRecords(rows, source="benchmark rows", synthetic=True)


def _rows(file: Path) -> Sequence[Mapping[str, Any]]:
    try:
        return benchmark_rows(file)
    except FileNotFoundError:
        raise InputError(f"{file} is not there. Name the folder of the benchmark rows with --data.") from None


def _receipts(file: Path, task: AnswerTask) -> list[Pair]:
    """One question about each receipt, the kinds of questions in turn, so that a record is a receipt."""
    by_receipt: dict[str, list[Mapping[str, Any]]] = {}
    for row in _rows(file):
        by_receipt.setdefault(str(row["receipt"]), []).append(row)
    chosen = [rows[place % len(rows)] for place, rows in enumerate(by_receipt.values())]
    pairs = [
        (task.render_query({name: " ".join(str(row[name]).split()) for name in task.fields}), str(row["answer"]))
        for row in chosen
    ]
    return [(shown, _cut(given)) for shown, given in pairs if len(shown.split()) <= DOCUMENT_WORDS and given.strip()]


def _pairs(file: Path, task: AnswerTask) -> list[Pair]:
    rows = _rows(file)
    pairs = [(" ".join(str(row[task.fields[0]]).split()), str(row[task.output_field])) for row in rows]
    return [(shown, _cut(given)) for shown, given in pairs if len(shown.split()) <= INPUT_WORDS and given.strip()]


def _cut(text: str) -> str:
    return " ".join(text.split()[:ANSWER_WORDS])
