"""The tasks of the experiments: public rows that play private records and questions, under real or made-up names.

A *world* has training rows, from which records are drawn at random (not balanced), and test rows, from which questions
are drawn. An *episode* is one draw of both by a seed, and of made-up label names where they are wanted.
"""

from __future__ import annotations

import json
from collections import Counter
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

FITTED: Final = {"dbpedia": 2500, "subj": 1500, "film-genres": 1200, "medical-questions": 1000}
"""Rows at the end of the training file that the embedded model's six numbers and two means were fitted on. They play no
part in any world. (Where they did, it could not be told from the figures: DBpedia, 25 seeds, 25 records, PoE at epsilon
4, 67.6 +- 1.1 with them alone against 68.0 +- 0.9 without any of them.)"""

MOST_RECORDS: Final = 128
"""Records drawn for every episode, so that fewer records are the first of more."""


Labelled = tuple[str, str] | None
"""A row's text and label; ``None`` where it is left out."""


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
    """Where the benchmark rows lie unless ``--data`` says otherwise: in ``shared/data`` beside the checkout."""
    return Path(__file__).resolve().parents[5] / "shared" / "data"


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


FILM_GENRES: Final = (
    "Western", "Crime", "Horror", "War", "Musical", "Science Fiction", "Documentary", "Animated", "Sports", "Biography",
)  # fmt: skip
"""Of ``wikimovies``: films that have one of these genres and no other one of them."""
QUESTION_TYPES: Final = {
    "symptoms": "What are the symptoms",
    "treatment": "What are the treatments",
    "frequency": "How many people are",
    "genetic cause": "What are the genetic",
    "research": "what research (or clinical",
    "risk": "Who is at risk",
    "outlook": "What is the outlook",
    "definition": "What is (are)",
    "diagnosis": "How to diagnose",
    "prevention": "How to prevent",
    "causes": "What causes",
}
"""Of ``medquad``: how questions of each type begin."""
COMMON_GENRES: Final = 12
"""Of ``mit_g``: the most frequent names of genres; the others are left out."""


def _labelled(
    data: Path, name: str, folder: str, instruction: str, labels: Sequence[str], read: Callable[[Row], Labelled]
) -> Dataset:
    """A world of rows that have no label of their own. Rows that the embedded model was fitted on are left out."""
    task = Task(labels=list(labels), name=name, instruction=instruction)

    def half(split: str, known: Collection[str] = ()) -> PublicExamples:
        rows = benchmark_rows(data / folder / f"{split}.jsonl.gz")
        found = ((read(Row(line, row)), row) for line, row in enumerate(rows, 1))
        pairs = ((Example({"text": told[0]}, labels.index(told[1])), row) for told, row in found if told)
        return _paired((pair for pair in pairs if pair[0].fields["text"] not in known), name)

    train = half("train")
    train = train[: len(train) - FITTED.get(name, 0)]
    # Some questions stand in both halves.
    return Dataset(name, task, train, half("test", {example.fields["text"] for example in train}))


def _film_genres(data: Path, name: str) -> Dataset:
    def read(row: Row) -> Labelled:
        values: Any = row.values
        genres = [genre for genre in values["genres"] if genre in FILM_GENRES]
        return (values["extract"], genres[0]) if len(genres) == 1 and values.get("extract") else None

    return _labelled(data, name, "wikimovies", "Name the film's genre.", FILM_GENRES, read)


def _medical_questions(data: Path, name: str) -> Dataset:
    def read(row: Row) -> Labelled:
        text = str(row.values["question"])
        kinds = [kind for kind, start in QUESTION_TYPES.items() if text.startswith(start)]
        return (text, kinds[0]) if kinds else None

    return _labelled(data, name, "medquad", "Say what the question is about.", list(QUESTION_TYPES), read)


def _wanted_genres(data: Path, name: str) -> Dataset:
    rows = benchmark_rows(data / "mit_g" / "train.jsonl.gz")
    common = [genre for genre, _ in Counter(row["slot"] for row in rows).most_common(COMMON_GENRES)]

    def read(row: Row) -> Labelled:
        genre = str(row.values["slot"])
        return (str(row.values["text"]), genre) if genre in common else None

    return _labelled(data, name, "mit_g", "Name the genre that is asked for.", common, read)


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
    "film-genres": _film_genres,
    "medical-questions": _medical_questions,
    "wanted-genres": _wanted_genres,
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
