"""Small files of made-up rows in the places where the benchmark rows lie, and models that can be told apart."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from sottovoce.benchmarks.harness.datasets import SOURCES
from sottovoce.models.fake import FakeScorer

UNSEEN = [f"Korean/character0{n}" for n in range(1, 8)]


def write_rows(data: Path, folder: str, split: str, rows: Iterable[Mapping[str, object]]) -> None:
    (data / folder).mkdir(parents=True, exist_ok=True)
    with gzip.open(data / folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


def write_news(data: Path, train: int = 240, test: int = 60, folder: str = "agnews") -> Path:
    """Rows of four classes in turn."""
    for split, count in (("train", train), ("test", test)):
        rows = [{"text": f"{split} story {n} of kind {n % 4}", "label": n % 4} for n in range(count)]
        write_rows(data, folder, split, rows)
    return data


def write_sources(data: Path, *, shared: int = 0) -> Path:
    """Six kinds of text; the first ``shared`` test rows of each kind begin with 400 letters of a training row."""
    for folder, field in SOURCES.values():
        opening = f"{folder} {'x' * 400}"
        write_rows(data, folder, "train", [{field: f"{opening} {n}" if n < 1 else f"{folder} {n}"} for n in range(30)])
        rows = [{field: f"{opening} and more {n}"} if n < shared else {field: f"{folder} t{n}"} for n in range(12)]
        write_rows(data, folder, "test", [*rows, {field: None}, {field: "  "}])
    return data


def write_drawings(data: Path) -> Path:
    """Seven characters that the image model never saw and one that it did; the picture's text tells its class."""
    for split, drawers in (("train", 14), ("test", 6)):
        rows = [
            {"class": name, "image_b64": f"{split} {name} {drawer}"}
            for name in [*UNSEEN, "Seen/character01"]
            for drawer in range(drawers)
        ]
        write_rows(data, "omniglot", split, rows)
    return data


def reader(name: str = "fake") -> FakeScorer:
    """A model whose scores depend on every letter of labels, demonstrations (in their order) and question."""

    def score(task, context, query):
        said = [task.render_example(example) for example in context]
        told = [json.dumps([task.instruction, said, task.render_query(query), label]) for label in task.labels]
        return [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**30 for text in told]

    return FakeScorer(score, name=name)
