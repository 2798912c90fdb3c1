"""A checkpoint as embedder and writer: its vectors are the product's, and the choice looks at two sets."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np  # noqa: E402

from models import tiny  # noqa: E402
from sottovoce.benchmarks.harness.experiment import Bench, Cell, Key, Result, Settings  # noqa: E402
from sottovoce.benchmarks.harness.score_cache import ScoreCache, StoredScorer  # noqa: E402
from sottovoce.benchmarks.studies import checkpoint_fits as study  # noqa: E402
from sottovoce.models.huggingface.label_scorer import TransformersScorer  # noqa: E402
from sottovoce.tasks import Task  # noqa: E402

MACHINE = {"processor": "p", "cores": 1, "system": "s", "python": "3", "packages": {}, "commit": "c"}
TEXTS = ["My card was charged twice.", "x", "Who logged in?"]


@pytest.fixture
def bench(tmp_path):
    scorer = TransformersScorer("llama", device="cpu", loaded=(tiny.tokenizer(), tiny.llama()))
    store = ScoreCache(tmp_path / "scores.db")
    yield Bench(Settings(model="fake"), StoredScorer(scorer, store), tmp_path)
    store.close()


@pytest.mark.slow
def test_states_are_the_vectors_of_the_product_at_every_layer_and_pooling(bench):
    states = study._States(bench)
    found = states.of(TEXTS)
    assert states.of(TEXTS).tobytes() == found.tobytes(), "kept"
    for place in states.places:
        layer, pooling = place.removeprefix("layer ").split(", ")
        embedder = bench.scorer.scorer.embedder(layer=int(layer), pooling=pooling)
        expected = embedder.embed_questions(Task(labels=["a", "b"]), [{"text": text} for text in TEXTS])
        np.testing.assert_allclose(states.placed(found, place), expected, atol=1e-5)


def cells(option, method=study.STATES, **by_task):
    return [Cell(Key(task, "own", method, option=option), (value,)) for task, value in by_task.items()]


def test_layer_and_pooling_are_chosen_on_the_development_sets_alone():
    found = [
        *cells("layer 3, mean, alone", subj=70.0, sarcasm=60.0, agnews=10.0),
        *cells("layer 5, last, alone", subj=80.0, sarcasm=40.0, agnews=99.0),
        *cells("layer 5, last, with the model's own answer", agnews=99.0),
    ]
    result = Result(
        "x", Settings(tasks=("subj", "sarcasm", "agnews")), found, MACHINE, 1.0, {"asked": 0, "found": 0}, {}
    )
    assert study.chosen_place(result) == "layer 3, mean"
    shown = study.section(result)
    assert "layer 3, mean" in shown.reading[0]
    assert [row[0] for row in shown.tables[1].rows] == [f"{study.STATES}: layer 3, mean, alone"]
    assert [row[-1] for row in shown.tables[0].rows] == ["65.0", "60.0"]
