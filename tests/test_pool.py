"""The bundled pool of public texts: made by its script, of many kinds, and free of the example's private records."""

from __future__ import annotations

import gzip
import importlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from sottovoce.data.bundled import POOL_VECTORS, pool_file, pool_vectors, public_pool, tickets_file, unpacked
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.records.readers import read_public
from sottovoce.tasks import Task, load_task, task_names

SCRIPTS = Path(__file__).parent.parent / "scripts"
LARGEST = 700_000


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [row.values["text"] for row in public_pool()]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("make_pool")


@pytest.mark.slow
def test_the_file_is_what_its_script_makes(script):
    # The lines, since another zlib may pack them otherwise.
    assert gzip.decompress(pool_file().read_bytes()) == script.lines()


def test_packing_the_same_lines_twice_gives_the_same_file(script):
    assert script.packed(b"a text\n") == script.packed(b"a text\n")
    assert gzip.decompress(script.packed(b"a text\n")) == b"a text\n"


def test_every_blank_of_every_pattern_is_filled(texts):
    assert not [text for text in texts if set(text) & set("[]|")]
    assert not [text for text in texts if "{" in text.replace("{city", "")]


def test_no_text_is_there_twice(texts):
    assert len({" ".join(text.lower().split()) for text in texts}) == len(texts)


def test_no_text_is_one_of_the_bundled_tickets(texts):
    tickets = {
        json.loads(line)["text"]
        for name in ("private.jsonl", "queries.jsonl")
        for line in tickets_file(name).read_text("utf-8").splitlines()
    }
    assert len(tickets) == 600
    assert not tickets & set(texts)


def test_texts_are_short_and_not_empty(texts):
    words = [len(text.split()) for text in texts]
    assert min(words) >= 3
    assert max(words) <= 90
    assert 4_000 <= len(texts) <= 8_000


def test_there_are_many_kinds_and_none_is_most_of_the_pool():
    kinds = Counter(row.values["kind"] for row in public_pool())
    assert len(kinds) >= 25
    assert min(kinds.values()) >= 15
    assert max(kinds.values()) < 0.3 * kinds.total()


def test_no_kind_is_a_label_of_a_bundled_task():
    kinds = {row.values["kind"].lower() for row in public_pool()}
    labels = {label.lower() for name in task_names() for label in load_task(name).labels}
    assert labels
    assert not kinds & labels


def test_rows_have_a_text_and_a_kind_and_nothing_that_reads_as_a_label():
    assert {tuple(row.values) for row in public_pool()} == {("text", "kind")}


def test_the_file_stays_small():
    assert pool_file().stat().st_size < LARGEST


def steps_differ(texts: list[str], chosen: range) -> tuple[int, float]:
    """How many of the shipped steps of some texts the encoder rounds otherwise, and how far from a half it is there."""
    scorer = EmbeddedScorer(store=False)
    with safe_open(str(POOL_VECTORS), framework="np") as content:
        steps, basis, scale = (content.get_tensor(name) for name in ("steps", "basis", "scale"))
    vectors = scorer.embed_questions(Task(labels=["a", "b"]), [{"text": texts[index]} for index in chosen])
    exact = np.clip(vectors @ basis.T.astype(np.float64) / scale, -7, 7)
    differ = np.rint(exact) != unpacked(steps)[list(chosen)]
    return int(differ.sum()), float(np.abs(np.abs(exact - np.floor(exact)) - 0.5)[differ].max(initial=0))


@pytest.mark.slow
def test_the_shipped_vectors_are_those_of_the_encoder(texts):
    # Four bits a coordinate: what another runtime changes in the seventh digit moves a step only where it is at a half.
    scorer = EmbeddedScorer(store=False)
    assert pool_vectors(scorer.embedding, texts) is not None
    count, farthest = steps_differ(texts, range(0, len(texts), 200))
    assert count <= 2
    assert farthest < 1e-4


@pytest.mark.slow
def test_every_shipped_vector_is_the_encoders(texts):
    count, farthest = steps_differ(texts, range(len(texts)))
    assert count <= 200  # of 1.4 million
    assert farthest < 1e-4


def test_the_pool_is_read_in_a_second():
    begun = time.process_time()
    read_public(pool_file())
    assert time.process_time() - begun < 1.0
