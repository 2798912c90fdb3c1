"""The natural texts that the embedded language model may learn from, and which rows of them.

Of every training file the first 2,000 rows are left alone, since benchmarks call them private, and no test file is read
for training. A row whose text also stands in one of those (a common answer, an extract that several films share) is
left out too. The last 200 rows of a training file are held out: they decide when training stops. Only sources whose
licence allows what is derived from them to be handed on are used:

    dbpedia     CC BY-SA and GFDL (Wikipedia abstracts)
    wikimovies  MIT; its extracts are Wikipedia text, CC BY-SA
    medquad     CC BY 4.0
    gsm8k       MIT

Subj is left out, since its original page states no licence; so are all sets with non-commercial terms or none.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import language_model_made_up as made_up
import numpy as np
from scipy.sparse import csr_matrix

RESERVED = 2_000
HELD_OUT = 200
SOURCES = {"dbpedia": "text", "wikimovies": "extract", "medquad": "answer", "gsm8k": "question"}
"""Sources, and the field by which a repeated row is known."""
GENRES = (
    "Western", "Crime", "Horror", "War", "Musical", "Science Fiction", "Documentary", "Animated", "Sports", "Biography",
    "Drama", "Comedy", "Silent", "Romance", "Action", "Thriller", "Adventure", "Mystery", "Noir", "Fantasy",
)  # fmt: skip
QUESTIONS = {
    "symptoms": "What are the symptoms", "treatment": "What are the treatments", "frequency": "How many people are",
    "genetic cause": "What are the genetic", "research": "what research (or clinical", "risk": "Who is at risk",
    "outlook": "What is the outlook", "definition": "What is (are)", "diagnosis": "How to diagnose",
    "prevention": "How to prevent", "causes": "What causes",
}  # fmt: skip
LONGEST = 320
FOREIGN = ("agnews", "trec")
"""Sets that are not learnt from, whose kinds of text are generated: they are read to keep their rows out."""


def rows(data: Path, name: str, split: str) -> list[dict[str, Any]]:
    """Rows of a source: ``train`` and ``held out`` from what is permitted of its training file, or its test file.

    Raises:
        ValueError: The source is not one of ``SOURCES``.
    """
    if name not in SOURCES:
        raise ValueError(f"{name!r} may not be learnt from; one of {', '.join(SOURCES)}.")
    test = _file(data, name, "test")
    if split == "test":
        return test
    train, key = _file(data, name, "train"), SOURCES[name]
    reserved = {_letters(row[key]) for row in (*train[:RESERVED], *test) if row.get(key)}
    found = [row for row in train[RESERVED:] if not row.get(key) or _letters(row[key]) not in reserved]
    return {"train": found[:-HELD_OUT], "held out": found[-HELD_OUT:]}[split]


def _file(data: Path, name: str, file: str) -> list[dict[str, Any]]:
    with gzip.open(data / name / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _letters(text: str) -> str:
    """What of a text is compared: letters and digits of the part that is read."""
    return "".join(character for character in cut(text).lower() if character.isalnum())


def cut(text: str, limit: int = LONGEST) -> str:
    """The text on one line, cut after a sentence or a word."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    stop = max(text.rfind(mark, 0, limit) for mark in (". ", "? ", "! "))
    return text[: stop + 1] if stop > 80 else text[: text.rfind(" ", 0, limit)]


@dataclass
class Pool:
    """Texts by source and label.

    Attributes:
        texts: Source to label to texts; the sources are labelled rows and the generated kinds.
        pairs: Questions with answers, medical and arithmetic.
        films: Records of films.
        words: Ordinary words, for made-up labels and strings.
        likes: Text to the texts that are most like it.
        forbidden_tokens: Letters of the rows that no generated text may repeat.
    """

    texts: dict[str, dict[str, list[str]]]
    pairs: list[tuple[str, str]]
    films: list[dict[str, Any]]
    words: list[str]
    likes: dict[str, list[str]] = field(default_factory=dict)
    forbidden_tokens: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """All labels, sorted."""
        return sorted({label for labels in self.texts.values() for label in labels})

    def generated(self, kind: str, topic: str, place: made_up.World, rng: random.Random) -> str:
        """A generated text that is no row of a set that is not learnt from."""
        return generated(kind, topic, place, rng, self.forbidden_tokens)


def load(data: Path, split: str, *, made: int = 150, seed: int = 0) -> Pool:
    """Reads the permitted rows and generates texts beside them.

    Args:
        data: The folder of data sets.
        split: ``train``, ``held out`` or ``test``.
        made: Generated texts a topic, for classification; texts to be written are drawn afresh.
        seed: Of the generated texts.
    """
    texts: dict[str, dict[str, list[str]]] = {}
    names = json.loads((data / "dbpedia" / "card.json").read_text("utf-8"))["label_names"]
    _add(texts, "dbpedia", [(row["text"], names[row["label"]]) for row in rows(data, "dbpedia", split)])
    films = rows(data, "wikimovies", split)
    _add(texts, "films", [(r["extract"], g) for r in films if r.get("extract") for g in r["genres"] if g in GENRES])
    medical = rows(data, "medquad", split)
    asked = [
        (r["answer"], kind) for r in medical for kind, start in QUESTIONS.items() if r["question"].startswith(start)
    ]
    _add(texts, "medical", asked)
    rng, forbidden_tokens = random.Random(f"{split}{seed}"), foreign(data)
    for kind in made_up.KINDS:
        of = [t for t in made_up.topics(kind) for _ in range(made)]
        _add(texts, kind, [(generated(kind, t, made_up.world(rng), rng, forbidden_tokens), t) for t in of])
    pairs = [(cut(row["question"]), cut(row["answer"])) for row in medical]
    pairs += [(cut(row["question"]), row["answer"]) for row in rows(data, "gsm8k", split)]
    records = [{key: r[key] for key in ("title", "year", "genres", "cast")} for r in films if r["genres"]]
    common = " ".join(texts["dbpedia"]["Company"] + texts["dbpedia"]["Village"]).lower().split()
    words = sorted({w for w in common if w.isascii() and w.isalpha() and 3 < len(w) < 9})
    return Pool(texts, pairs, records, words, forbidden_tokens=forbidden_tokens)


def foreign(data: Path) -> frozenset[str]:
    """Letters of every row of the sets that are not learnt from and that generated texts resemble."""
    found = (row["text"] for name in FOREIGN for split in ("train", "test") for row in _file(data, name, split))
    return frozenset(map(_letters, found))


def generated(kind: str, topic: str, place: made_up.World, rng: random.Random, forbidden_tokens: frozenset[str]) -> str:
    """A generated text whose letters are not barred."""
    while _letters(drawn := made_up.text(kind, topic, place, rng)) in forbidden_tokens:
        place = made_up.world(rng)
    return drawn


def _add(texts: dict[str, dict[str, list[str]]], name: str, found: Sequence[tuple[str, str]]) -> None:
    for text, label in found:
        texts.setdefault(name, {}).setdefault(label, []).append(cut(text))


def neighbours(pool: Pool, count: int = 8) -> dict[str, list[str]]:
    """For each natural text the texts of its label that share most of its rarer words (cosine of tf-idf weights)."""
    found: dict[str, list[str]] = {}
    for source in ("dbpedia", "films", "medical"):
        for texts in pool.texts[source].values():
            distinct = list(dict.fromkeys(texts))
            words = [sorted(set(re.findall(r"[a-z]+", text.lower()))) for text in distinct]
            number = {word: place for place, word in enumerate(sorted({word for some in words for word in some}))}
            columns = np.array([number[word] for some in words for word in some])
            lines = np.repeat(np.arange(len(words)), [len(some) for some in words])
            rarity = np.log(len(words) / np.bincount(columns, minlength=len(number)))
            table = csr_matrix((rarity[columns], (lines, columns)), shape=(len(words), len(number)))
            size = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel()) + 1e-9
            for first in range(0, len(distinct), 500):
                alike = np.asarray((table[first : first + 500] @ table.T).todense()) / size
                alike[np.arange(len(alike)), first + np.arange(len(alike))] = -1
                best = np.argsort(-alike, axis=1)[:, :count]
                found |= {distinct[first + row]: [distinct[i] for i in others] for row, others in enumerate(best)}
    return found
