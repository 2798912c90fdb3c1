"""Whatever is handed to the public entry points: a clear error that quotes nothing private, and nothing charged."""

from __future__ import annotations

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import InputError, ParameterError
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.randomness import SystemRandomness
from sottovoce.records.sealed import PrivateRecords, Row

ROWS = [Row(i, {"text": f"zq{i}xv", "label": "a"}) for i in range(5)]
TASK = sv.Task(labels=["a", "b"])


def records():
    return PrivateRecords(ROWS, source="notes")


def icl(**changed):
    given = {
        "records": records(), "task": TASK, "model": FakeScorer(), "budget": sv.Budget(8, 1e-6), "ledger": ":memory:",
    }  # fmt: skip
    return sv.PrivateICL(**{**given, **changed})


def writer(**changed):
    given = {
        "records": records(), "writing": TASK, "order": sv.SynthesisConfig(per_label=1, tokens=8),
        "epsilon": 4, "delta": 1e-6,
        "model": FakeStepper(), "budget": sv.Budget(8, 1e-6), "ledger": ":memory:",
    }  # fmt: skip
    merged = {**given, **changed}
    return sv.Synthesizer(merged.pop("records"), merged.pop("writing"), merged.pop("order"), **merged)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("records", "path"), ("records", ROWS), ("records", [{"text": "zq1xv"}]), ("task", "agnews"), ("method", 3),
        ("model", 3), ("adjacency", 3), ("adjacency", None), ("budget", "8,1e-6"), ("budget", (8, 1e-6)), ("ledger", 3),
        ("caller", 3), ("partition", 4), ("demonstrations", 3), ("demonstrations", ["x"]), ("randomness", 3),
        ("randomness", "x"), ("randomness", 0), ("randomness", np.array([1, 2])), ("randomness", SystemRandomness),
    ],
)  # fmt: skip
def test_a_session_of_anything_else_is_refused_by_name_and_kind(name, value):
    with pytest.raises(ParameterError, match=f"^{name} is ") as refused:
        icl(**{name: value})
    assert "zq" not in str(refused.value)


@pytest.mark.parametrize("question", [3, None, b"late?", ["late?"], 2.5])
def test_a_question_that_is_no_text_is_refused_and_free(question):
    session = icl()
    with pytest.raises(ParameterError, match=r"^question is "):
        session.ask(question, epsilon=1)
    with pytest.raises(ParameterError, match=r"^question is "):
        list(session.classify([question], epsilon=1))
    assert session.balance.spent == 0


@pytest.mark.parametrize("questions", ["abc", 3, None, {"text": "late?"}])
def test_what_is_not_several_questions_is_not_asked_letter_by_letter(questions):
    session = icl()
    with pytest.raises(ParameterError, match=r"^questions is "):
        list(session.classify(questions, epsilon=1))
    assert session.balance.spent == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("records", "path"), ("records", ROWS), ("writing", "agnews"), ("order", 3), ("method", 3), ("model", 3),
        ("budget", "8,1e-6"), ("ledger", 3),
    ],
)  # fmt: skip
def test_a_synthesizer_of_anything_else_is_refused(name, value):
    with pytest.raises(ParameterError, match=f"^{'task' if name == 'writing' else name} is ") as refused:
        writer(**{name: value})
    assert "zq" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda file: sv.read_private(3),
        lambda file: sv.read_private(None),
        lambda file: sv.read_private(f"{file}\0.jsonl"),
        lambda file: sv.read_private(file, max_characters="x"),
        lambda file: sv.read_private(file, max_characters=2.5),
        lambda file: sv.read_public(file, max_characters=True),
        lambda file: sv.read_private(file, unit=3),
        lambda file: sv.load_task(3),
        lambda file: sv.load_task("\0.toml"),
        lambda file: sv.Task(labels=3),
        lambda file: sv.Task(labels=["a", "b"], query=3),
        lambda file: sv.Ledger(3),
        lambda file: sv.Budget([1]),
        lambda file: sv.load_scorer(3),
        lambda file: sv.SynthesisConfig(per_label="x", tokens=8),
        lambda file: sv.Partition(units_per_expert="x"),
        lambda file: sv.make_plan(records="x", questions=1, budget=sv.Budget(1)),
        lambda file: icl().affords("x", epsilon=1),
    ],
)
def test_every_public_entry_point_names_what_it_cannot_use(tmp_path, wrong):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "zq1xv", "label": "a"}\n')
    with pytest.raises(InputError) as refused:
        wrong(file)
    assert "zq1xv" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", 3), ("method", 3), ("ledger", 3), ("classes", 3), ("max_characters", "x"), ("epsilon", "x")],
)
def test_an_estimator_of_anything_else_is_refused_where_it_is_fitted(name, value):
    pytest.importorskip("sklearn")
    from sottovoce.sklearn.classifier import PrivateICLClassifier

    given = {"classes": ["a", "b"], "model": FakeScorer(), "ledger": ":memory:", "budget_epsilon": 8, "epsilon": 1}
    with pytest.raises(ParameterError, match=f"^{name} is "):
        PrivateICLClassifier(**{**given, name: value}).fit(["zq1xv", "zq2xv"], ["a", "b"])
