"""Small files of made-up questions and answers in the places where the benchmark rows lie."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tiny_rows import write_rows

PLACES = {
    "samsum": ("dialogue", "summary"),
    "dialogsum": ("dialogue", "summary"),
    "medquad": ("question", "answer"),
    "chatdoctor_genmed5k": ("question", "answer"),
}
TOPICS = ("card", "parcel", "refund", "visit", "letter", "garden", "river", "engine")


def write_worlds(data: Path, train: int = 130, test: int = 24) -> Path:
    """Questions on eight topics in turn; an answer names its topic, its source and its number."""
    for folder, (asked, given) in PLACES.items():
        for split, count in (("train", train), ("test", test)):
            rows = [
                {
                    asked: f"what about the {TOPICS[n % 8]} of {split} case {n} in {folder}",
                    given: f"the {TOPICS[n % 8]} is handled by desk {n % 8} and closed under number {n}",
                }
                for n in range(count)
            ]
            rows.append({asked: "word " * 100, given: "too long a question"})
            write_rows(data, folder, split, rows)
    return data


def write_receipts(data: Path, train: int = 44, test: int = 6) -> Path:
    """Receipts of some shops, two questions about each, and one that is too long."""
    for split, count in (("train", train), ("test", test)):
        rows = [
            {
                "document": f"{TOPICS[n % 8].upper()} SHOP {split} {n}\nTOTAL {n}.50",
                "question": "Who issued it?" if kind == "company" else "What is the total?",
                "answer": f"{TOPICS[n % 8].upper()} SHOP" if kind == "company" else f"{n}.50",
                "key": kind,
                "receipt": f"{n}",
            }
            for n in range(count)
            for kind in ("company", "total")
        ]
        rows.append({**rows[0], "document": "word " * 200, "receipt": "long"})
        write_rows(data, "sroie_receipts", split, rows)
    return data
