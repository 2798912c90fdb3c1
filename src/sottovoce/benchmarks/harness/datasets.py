"""The tasks of the experiments: public rows that play private records and questions, under real or made-up names.

A *world* has training rows, from which records are drawn at random (not balanced), and test rows, from which questions
are drawn. An *episode* is one draw of both by a seed, and of made-up label names where they are wanted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness.public_rows import PublicExamples, benchmark_rows
from sottovoce.data.bundled import tickets_file
from sottovoce.errors import InputError
from sottovoce.parameters import OneOf
from sottovoce.records.sealed import Row
from sottovoce.tasks import Example, Query, Task, load_task

MADE_UP: Final = (
    "dax", "blicket", "perpo", "slation", "shously", "wug", "fep", "toma", "zorp", "gazzer", "modi", "lug", "tulver",
    "pimwit", "cheem", "nalp",
)  # fmt: skip
"""Words that say nothing of any class. A seed draws as many as there are classes, in random order."""

OWN, UNKNOWN = "own", "made up"
"""Whether the labels have their own names."""

FITTED: Final = {"dbpedia": 2500, "subj": 1500}
"""Rows at the end of the training file that the embedded model's six numbers and two means were fitted on. They play no
part in any world. (Where they did, it could not be told from the figures: DBpedia, 25 seeds, 25 records, PoE at epsilon
4, 67.6 +- 1.1 with them alone against 68.0 +- 0.9 without any of them.)"""

MOST_RECORDS: Final = 128
"""Records drawn for every episode, so that fewer records are the first of more."""


@final
@dataclass(frozen=True)
class Dataset:
    """The rows of one task.

    Attributes:
        name: As in ``--tasks``.
        task: With its own label names.
        train: Rows that play private records.
        test: Rows that are asked.
        classes: For image worlds: an episode has this many of the rows' classes, 0 for all of them.
    """

    name: str
    task: Task
    train: PublicExamples
    test: PublicExamples
    classes: int = 0

    def episode(self, seed: int, questions: int, names: str, most: int = MOST_RECORDS) -> Episode:
        """One draw of records, questions and names. The same seed gives the same rows under either kind of name.

        Args:
            seed: Of all draws.
            questions: How many test rows are asked.
            names: ``OWN`` or ``UNKNOWN``.
            most: Records drawn; fewer are the first of more.

        Raises:
            InputError: Most of the records, or of the questions, are somebody's private records.
        """
        rng = np.random.default_rng(1000 + seed)
        train, test, task = self.train, self.test, self.task
        if self.classes:
            chosen = rng.permutation(1 + max(example.label for example in train))[: self.classes]
            labels = {int(old): new for new, old in enumerate(chosen)}
            train, test = train.relabelled(labels), test.relabelled(labels)
        queries = test.taken(rng.permutation(len(test))[:questions])
        records = train.taken(rng.permutation(len(train))[:most])
        if names == UNKNOWN:
            words = np.random.default_rng(seed).permutation(MADE_UP)[: len(task.labels)]
            task = replace(task, labels=[str(word) for word in words])
        return Episode(task, records, [example.fields for example in queries], np.array([e.label for e in queries]))


@final
@dataclass(frozen=True)
class Episode:
    """What one seed drew.

    Attributes:
        task: With the names of this episode.
        records: In random order; take the first n.
        questions: What is asked.
        truth: True labels, shape (questions,).
    """

    task: Task
    records: Sequence[Example]
    questions: Sequence[Query]
    truth: NDArray[np.intp]


def default_data() -> Path:
    """Where the benchmark rows lie unless ``--data`` says otherwise: beside the checkout."""
    return Path(__file__).resolve().parents[4] / "shared" / "data"


@lru_cache(maxsize=16)
def read_world(data: Path, name: str) -> Dataset:
    """Reads a world.

    Raises:
        ParameterError: There is no such world.
        InputError: Its rows are not in the folder.
    """
    OneOf(tuple(DATASETS)).read("tasks", name)
    try:
        return DATASETS[name](data, name)
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = Path(str(error.filename)).relative_to(data) if error.filename else name
        raise InputError(f"The benchmark rows {str(missing)!r} are not there. Name their folder with --data.") from None


def _of_task(data: Path, name: str) -> Dataset:
    task = load_task(name)
    folder = data / {"sarcasm": "sarcasm_headlines"}.get(name, name)
    files = [folder / f"{split}.jsonl.gz" for split in ("train", "test")]
    train, test = (_examples(task, benchmark_rows(file), file.name) for file in files)
    kept = len(train) - FITTED.get(name, 0)
    if kept < 1:
        raise InputError(f"{name} has no training row but the last {len(train)}, which a model was fitted on.")
    return Dataset(name, task, train[:kept], test)


def _tickets(data: Path, name: str) -> Dataset:
    task = load_task("tickets")

    def half(file: str) -> PublicExamples:
        rows = [json.loads(line) for line in tickets_file(file).read_text("utf-8").splitlines()]
        return _examples(task, rows, file, shipped=True)

    return Dataset(name, task, half("private.jsonl"), half("queries.jsonl"))


def _uneven(data: Path, name: str) -> Dataset:
    """AG News with the classes at 85, 5, 5 and 5 in a hundred, in training and test rows alike."""
    whole = _of_task(data, "agnews")

    def thinned(examples: PublicExamples) -> PublicExamples:
        by_label = [[place for place, e in enumerate(examples) if e.label == label] for label in range(4)]
        most = len(by_label[0])
        few = [its[: round(most * 5 / 85)] for its in by_label[1:]]
        return examples.taken(place for its in (by_label[0], *few) for place in its)

    return Dataset(name, replace(whole.task, name=name), thinned(whole.train), thinned(whole.test))


SOURCES: Final = {
    "maths problem": ("gsm8k", "question"),
    "patient's question": ("chatdoctor_genmed5k", "question"),
    "chat between friends": ("samsum", "dialogue"),
    "film trivia": ("mit_d", "text"),
    "medical answer": ("medquad", "answer"),
    "movie article": ("wikimovies", "extract"),
}
"""What kind of text is it? Name of the kind, data set, field. No part of the embedded model was fitted on this
question; other rows of two of the data sets (medquad, wikimovies) were among the texts that it was fitted on."""


def _sources(data: Path, name: str) -> Dataset:
    task = Task(labels=list(SOURCES), name=name, instruction="Say what kind of text this is.")

    def mixed(split: str, known: Collection[str] = ()) -> PublicExamples:
        read = []
        for label, (folder, field) in enumerate(SOURCES.values()):
            for row in benchmark_rows(data / folder / f"{split}.jsonl.gz", 300):
                text = str(row.get(field) or "").strip()[:400]
                read += [(Example({"text": text}, label), row)] if text and text not in known else []
        return _paired(read, name)

    train = mixed("train")
    # Some medical answers open alike and are equal once they are cut.
    return Dataset(name, task, train, mixed("test", {example.fields["text"] for example in train}))


def _mails(data: Path, name: str) -> Dataset:
    """Does the mail hold an e-mail address? Published mails of real people: nothing of them is ever shown."""
    labels = ["address", "no address"]
    task = Task(labels=labels, name=name, instruction="Say whether the mail holds an e-mail address.")

    def half(split: str) -> PublicExamples:
        rows = benchmark_rows(data / "enron" / f"{split}.jsonl.gz")
        return _paired(((Example({"text": row["text"]}, 0 if row["emails"] else 1), row) for row in rows), name)

    return Dataset(name, task, half("train"), half("test"))


def _pseudonames(data: Path, name: str) -> Dataset:
    """Characters that the embedded image model never saw, five an episode; a record is one drawing with its name."""
    card = json.loads((resources.files("sottovoce") / "data" / "embedded_image" / "encoder.json").read_text("utf-8"))
    return _pictures(data / "omniglot", name, sorted(card["characters"]["unseen"]))


def _photographs(data: Path, name: str) -> Dataset:
    """Photographs of things, five kinds an episode under made-up names; for vision-language models."""
    rows = benchmark_rows(data / "caltech101_small" / "train.jsonl.gz")
    return _pictures(data / "caltech101_small", name, sorted({row["class"] for row in rows}))


def _pictures(folder: Path, name: str, classes: Sequence[str]) -> Dataset:
    task = load_task("pseudonames")

    def half(split: str) -> PublicExamples:
        rows = [row for row in benchmark_rows(folder / f"{split}.jsonl.gz") if row["class"] in classes]
        return _paired(((Example({"image": r["image_b64"]}, classes.index(r["class"])), r) for r in rows), name)

    return Dataset(name, task, half("train"), half("test"), classes=len(task.labels))


DATASETS: Final[Mapping[str, Callable[[Path, str], Dataset]]] = {
    "agnews": _of_task,
    "dbpedia": _of_task,
    "trec": _of_task,
    "gsm8k": _of_task,
    "subj": _of_task,
    "sarcasm": _of_task,
    "tickets": _tickets,
    "agnews-uneven": _uneven,
    "sources": _sources,
    "enron": _mails,
    "pseudonames": _pseudonames,
    "photographs": _photographs,
}


def _examples(task: Task, rows: Sequence[dict[str, Any]], file: str, *, shipped: bool = False) -> PublicExamples:
    examples = [task.example_of(Row(line, row), file) for line, row in enumerate(rows, 1)]
    return PublicExamples(examples, rows, task.name, shipped=shipped)


def _paired(read: Iterable[tuple[Example, dict[str, Any]]], name: str) -> PublicExamples:
    pairs = list(read)
    return PublicExamples([example for example, _ in pairs], [row for _, row in pairs], name)
