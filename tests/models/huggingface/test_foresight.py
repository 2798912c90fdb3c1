"""What a run will take is said before it, from public numbers alone."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.cli import run  # noqa: E402
from sottovoce.models.huggingface.label_scorer import TransformersScorer  # noqa: E402
from sottovoce.models.lockstep.stepper import TransformersStepper  # noqa: E402
from sottovoce.tasks import Task  # noqa: E402

TOLD = "The model's weights take 1 MB; "


@pytest.fixture
def desk(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"Ticket {at}", "label": "ab"[at % 2]} for at in range(10)]
    (tmp_path / "tickets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "new.jsonl").write_text('{"text": "Which?"}\n' * 3)
    model = f"hf:{tiny.save(tiny.llama(), tmp_path / 'model')}"

    def typed(*words):
        capfd.readouterr()
        assert run([*words, "--private", "tickets.jsonl", "--labels", "a,b", "--model", model]) == 0
        return " ".join(capfd.readouterr().err.split())

    return typed


def test_weights_and_positions_are_counted_and_a_pass_is_timed():
    loaded = tiny.tokenizer(), tiny.qwen3()  # its head is its table of tokens
    for seen in (
        TransformersScorer("tiny", loaded=loaded).foresight(),
        TransformersStepper("tiny", loaded=loaded).foresight(),
    ):
        assert seen.weights == 4 * sum(weight.numel() for weight in loaded[1].parameters())
        assert seen.bytes_a_token == 4 * 2 * 2 * 2 * 16  # layers, keys and values, heads, width
        assert 0 < seen.seconds_a_token < 1


def test_passes_are_counted_as_they_are_run(monkeypatch):
    # Labels of several tokens: a question has a row for each path behind which a label goes on.
    task, seen = Task(labels=["a", "b", "a long label", "a long name"]), []
    scorer = TransformersScorer("tiny", loaded=(tiny.tokenizer(), tiny.llama()))
    queries = [{"text": "Which?" * (1 + number % 3)} for number in range(9)]
    counted = scorer.pass_tokens(task, queries, 4)
    bare = scorer.prepare(task, [()])
    forward = scorer.model.features
    monkeypatch.setattr(scorer.model, "features", lambda ids, **more: seen.append(ids.numel()) or forward(ids, **more))
    for start in range(0, 9, 4):
        bare.score(queries[start : start + 4])
    assert counted == sum(seen)


@pytest.mark.slow
def test_classify_says_what_it_will_take(desk):
    words = ("classify", "--queries", "new.jsonl", "--method", "poe", "--budget", "20,1e-5")
    told = desk(*words)
    assert TOLD + "100 tokens of each of 10 experts take 1 MB of keys and values" in told
    assert "for 3 questions of 12 tokens." in told
    assert "for 3 questions of 12 tokens and 3 without content." in desk(*words, "--calibrate")


def test_a_private_number_of_experts_is_not_told(desk):
    words = ("classify", "--queries", "new.jsonl", "--method", "poe", "--budget", "20,1e-5")
    told = desk(*words, "--adjacency", "add-remove")
    assert TOLD + "100 tokens of an expert take" in told
    assert "for 3 questions of 12 tokens, for each expert" in told
    assert "10 experts" not in told


@pytest.mark.slow
def test_synthesize_says_what_it_will_take(desk):
    words = (
        "synthesize",
        "--per-label",
        "1",
        "--tokens",
        "3",
        "--inside-tokens",
        "8",
        "--epsilon",
        "8",
        "--out",
        "rows.jsonl",
    )
    told = desk(*words, "--experts", "5", "--budget", "20,1e-3")
    assert TOLD + "keys and values of 10 prompts and their texts up to 1 MB; time: up to" in told
