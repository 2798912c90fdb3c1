"""The labelled corpora that the head is fitted on, all in one shape. The tasks it is measured on are not among them."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILM_GENRES = (
    "Western",
    "Crime",
    "Horror",
    "War",
    "Musical",
    "Science Fiction",
    "Documentary",
    "Animated",
    "Sports",
    "Biography",
)
QUESTION_TYPES = {
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


@dataclass(frozen=True)
class Corpus:
    """Texts with labels.

    Attributes:
        name: As in the report.
        licence: As the source states it.
        label_names: What the labels are called.
        texts: The rows.
        labels: For each row an index into ``label_names``.
    """

    name: str
    licence: str
    label_names: tuple[str, ...]
    texts: list[str]
    labels: list[int]


ROWS = {
    "dbpedia": 2500,
    "film genres": 1200,
    "medical questions": 1000,
    "medical answers": 1000,
    "subjectivity": 1500,
}
"""Corpora and how many rows of each are fitted on."""


def load(data: Path, name: str, split: str, most: int) -> Corpus:
    """Reads up to ``most`` rows from the end of a split; experiments leave these rows out (``worlds.FITTED``).

    Raises:
        FileNotFoundError: The data folder lacks the corpus.
    """
    folder, reader = {
        "dbpedia": ("dbpedia", _as_it_is),
        "film genres": ("wikimovies", _film),
        "medical questions": ("medquad", _medical_question),
        "medical answers": ("medquad", _medical_answer),
        "subjectivity": ("subj", _as_it_is),
    }[name]
    card = json.loads((data / folder / "card.json").read_text("utf-8"))
    with gzip.open(data / folder / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in (reader(json.loads(line)) for line in lines) if row is not None][-most:]
    names = tuple(card.get("label_names") or (FILM_GENRES if folder == "wikimovies" else QUESTION_TYPES))
    return Corpus(name, card["licence"], names, [text for text, _ in rows], [label for _, label in rows])


Labelled = tuple[str, int] | None


def _as_it_is(row: dict[str, Any]) -> Labelled:
    return row["text"], row["label"]


def _film(row: dict[str, Any]) -> Labelled:
    genres = [genre for genre in row["genres"] if genre in FILM_GENRES]
    return (row["extract"], FILM_GENRES.index(genres[0])) if len(genres) == 1 and row.get("extract") else None


def _medical_question(row: dict[str, Any]) -> Labelled:
    kinds = [i for i, start in enumerate(QUESTION_TYPES.values()) if row["question"].startswith(start)]
    return (row["question"], kinds[0]) if kinds else None


def _medical_answer(row: dict[str, Any]) -> Labelled:
    found = _medical_question(row)
    return (row["answer"], found[1]) if found else None
