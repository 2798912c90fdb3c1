"""Slow checks of private long answers on the benchmark data beside the checkout; each says so where it is absent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sottovoce.records.sealed import Row
from sottovoce.tasks import load_answer_task

pytestmark = pytest.mark.slow
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TASKS = {"samsum": "summarize", "dialogsum": "summarize", "medquad": "question", "sroie_receipts": "document-question"}


@pytest.fixture(autouse=True)
def _data():
    if not (DATA / "dialogsum").is_dir():
        pytest.skip("the benchmark data (shared/data beside the checkout) is absent")


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("part", ["train", "test"])
def test_rows_fit_a_built_in_task_without_conversion(name, part):
    task = load_answer_task(TASKS[name])
    with gzip.open(DATA / name / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
        examples = [task.example_of(Row(number, json.loads(line)), name) for number, line in enumerate(lines, 1)]
    assert len(examples) > 400
