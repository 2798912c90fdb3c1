"""Small private worlds for synthesis, and a writer over a model made of a function."""

from __future__ import annotations

from pathlib import Path

from sottovoce.models.fake import FakeStepper
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.synthesis.config import SynthesisConfig
from sottovoce.synthesis.synthesizer import Synthesizer
from sottovoce.tasks import Task

TASK = Task(labels=["billing", "fraud"])
PIECES = ("fee ", "theft ", "late ", "\n")
ORDER = SynthesisConfig(per_label=3, tokens=5, experts=6)


def rows(count: int = 24) -> list[Row]:
    words = ("fee ", "theft ")
    return [Row(i + 1, {"text": words[i % 2], "label": TASK.labels[i % 2], "id": f"r{i}"}) for i in range(count)]


def likes_its_own(prompt, text):
    """Logits of PIECES, end and control: what the private part says, then the end after three tokens."""
    liked = [4.0 * (piece.strip() in prompt.private_text) for piece in PIECES]
    return [*liked, 6.0 if len(text) >= 3 else -6.0, 9.0]


def writer(ledger: str | Path = ":memory:", **options) -> Synthesizer:
    """Over made-up rows, which may have any number of ledgers."""
    given = {
        "records": PrivateRecords(options.pop("rows", None) or rows(), source="notes", synthetic=True),
        "task": TASK,
        "order": ORDER,
        "epsilon": 20.0,
        "delta": 1e-6,
        "model": FakeStepper(likes_its_own, pieces=PIECES),
        "budget": Budget(100, 1e-5),
        "ledger": str(ledger),
    }
    merged = {**given, **options}
    return Synthesizer(merged.pop("records"), merged.pop("task"), merged.pop("order"), **merged)
