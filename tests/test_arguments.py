"""Whatever is handed to the public entry points: a clear error that quotes nothing private, and nothing charged."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from inspect import signature

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.errors import InputError, ParameterError, SottoError
from sottovoce.experts.ray_engine import RayEngine
from sottovoce.fitting.fit import Fitting
from sottovoce.methods.answering.answerer import make_answerer
from sottovoce.methods.base import make_method
from sottovoce.metrics.evaluate import evaluate
from sottovoce.metrics.rouge import Rouge
from sottovoce.models.base import Isolation
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.planner.guide import Asked, make_guide
from sottovoce.planner.long_answers import bought
from sottovoce.privacy.ledger.ledger import Identity
from sottovoce.randomness import SystemRandomness
from sottovoce.records.sealed import PrivateRecords, PublicRecords, Row

ROWS = [Row(i, {"text": f"zq{i}xv", "label": "a"}) for i in range(5)]
TASK = sv.Task(labels=["a", "b"])
ANSWERS = sv.AnswerTask()
WHO = Identity("ab", sv.Adjacency.REPLACE_ONE, "record")


class Bytes:
    """A path of bytes, as those of folders that are listed by bytes are."""

    def __fspath__(self):
        return b"rows.jsonl"


def records():
    """Made-up ones, which may have any number of ledgers in memory: what is wrong is found behind the budget too."""
    return PrivateRecords(ROWS, source="notes", synthetic=True)


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
        lambda file: sv.read_private(Bytes()),
        lambda file: sv.read_private(Bytes(), stream=True),
        lambda file: sv.read_public(Bytes()),
        lambda file: sv.fit(records(), TASK, epsilon=4, out=Bytes()),
        lambda file: sv.fit(records(), TASK, epsilon=4, model=FakeScorer(), out="", resume=True),
        lambda file: sv.fit(records(), TASK, epsilon=4, model=FakeScorer(), out="a" * 300 + ".sotto", resume=True),
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
        lambda file: sv.make_plan(records=10**400, questions=1, budget=sv.Budget(1)),
        lambda file: sv.make_plan(records=10, questions=10**400, budget=sv.Budget(1)),
        lambda file: make_guide(Asked(10**400, 4, 10, 1)),
        lambda file: bought(10**400, 10, sv.Budget(1, 1e-6), sv.Adjacency.REPLACE_ONE),
        lambda file: sv.Partition(units_per_expert=None),
        lambda file: sv.Partition(max_records=None),
        lambda file: next(writer().rounds(on_token=5)),
        lambda file: sv.fit(records(), TASK, epsilon=4, out=file.with_name("x.sotto"), on_units=5),
        lambda file: sv.fit(records(), TASK, epsilon=4, out="a\0b.sotto"),
        lambda file: sv.fit(records(), TASK, epsilon=4, out="\ud800.sotto"),
        lambda file: sv.fit(records(), TASK, epsilon=4, out=file.with_name("x.sotto"), resume="no"),
        lambda file: sv.Fitted.load("a\0b.sotto"),
        lambda file: sv.Fitted.load("\ud800.sotto"),
        lambda file: sv.Fitted.from_bytes("x", "n"),
        lambda file: sv.Budget(10**5000),
        lambda file: sv.Partition(units_per_expert=10**5000),
        lambda file: PrivateRecords([Row(1, {"text": "x", "group": 10**5000})], source="notes", unit="group"),
        lambda file: PrivateRecords(np.array("zq1xv"), source="notes"),
        lambda file: PrivateRecords(ROWS, source="notes", synthetic="no"),
        lambda file: PrivateRecords(ROWS, source="notes", size_is_public="no"),
        lambda file: sv.read_private(file, truncate="no"),
        lambda file: sv.read_private(file, stream=np.array([1, 2])),
        lambda file: sv.read_private(file, synthetic="no"),
        lambda file: sv.read_private(file, stream=True, synthetic="no"),
        lambda file: sv.read_public(file, truncate="no"),
        lambda file: sv.make_plan(records=10, questions=1, budget=sv.Budget(1), task=np.array([1, 2])),
        lambda file: icl().affords(10**13, epsilon=1),
        lambda file: list(icl().classify(np.array("zq1xv"), epsilon=1)),
        lambda file: list(icl().classify(pd.DataFrame({"text": ["zq1xv"], "day": ["monday"]}), epsilon=1)),
        lambda file: evaluate((text for text in "ab"), ["x"]),
        lambda file: evaluate([], []),
        lambda file: evaluate(["a", "b"], ["x", "y"], seed=-1),
        lambda file: make_answerer(3),
        lambda file: make_method(["poe"]),
        lambda file: icl(records=PrivateRecords([Row(1, {"text": "x", "label": 10**5000})], source="notes")),
        lambda file: sv.Ledger(":memory:").grant(WHO, sv.Budget(1), name=np.array([1])),
        lambda file: sv.Ledger(":memory:").grant(WHO, sv.Budget(1), continues=10**30),
        lambda file: sv.Ledger(":memory:").open(WHO, sv.Budget(1), caller=10**5000),
        lambda file: evaluate(["a", "b"], ["x", "y"], groups=[[1], [2]]),
        lambda file: evaluate(["a", "b"], ["x", "y"], metrics=[Rouge]),
        lambda file: evaluate(["a", "b"], ["x", "y"], seed="a"),
        lambda file: sv.Ledger(np.array([1, 2])),
        lambda file: sv.Ledger(":memory:").open(records(), sv.Budget(1)),
        lambda file: sv.Ledger(":memory:").open(WHO, 8),
        lambda file: sv.Ledger(":memory:").grant(WHO, "8,1e-6"),
        lambda file: sv.Ledger(":memory:").join("x", None),
        lambda file: sv.Ledger(":memory:").admits("x", None),
        lambda file: sv.Ledger(":memory:").allot(WHO, budget=1, caller="a"),
        lambda file: sv.Ledger(":memory:").budget_of("x"),
        lambda file: sv.Ledger(":memory:").require_caller("x"),
        lambda file: evaluate(None, ["x"]),
        lambda file: evaluate([1, 2], ["x", "y"]),
        lambda file: evaluate([float("nan"), "b"], ["x", "y"]),
        lambda file: evaluate(["a", "b"], None),
        lambda file: evaluate(["a", "b"], ["a", 3]),
        lambda file: evaluate(["a", "b"], ["x", "y"], questions=3),
        lambda file: evaluate(["a", "b"], ["x", "y"], groups=3),
        lambda file: evaluate(["a", "b"], ["x", "y"], metrics=None),
        lambda file: evaluate(["a", "b"], ["x", "y"], metrics=[1]),
        lambda file: make_answerer("coreset", k=Fraction(10**400)),
        lambda file: sv.fit(records(), TASK, epsilon=4, out=3),
        lambda file: sv.fit(records(), TASK, epsilon=4, engine=4),
        lambda file: sv.fit(records(), TASK, epsilon=4, engine=object()),
        lambda file: sv.fit(records(), TASK, epsilon=4, engine=RayEngine),
        lambda file: PrivateRecords([Row(1, {0: "zq1xv", 1: "a"})], source="notes"),
        lambda file: sv.fit(records(), TASK, epsilon=4, options={3: "x"}),
    ],
)
def test_every_public_entry_point_names_what_it_cannot_use(tmp_path, wrong):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "zq1xv", "label": "a"}\n')
    with pytest.raises(InputError) as refused:
        wrong(file)
    assert "zq1xv" not in str(refused.value)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.jsonl"]


class Writing:
    """A model that writes one text."""

    name = "writing"
    isolation, longest = Isolation.BY_CONSTRUCTION, None

    def write(self, requests, *, tokens):
        return ["yes" for _ in requests]


PUBLIC = PublicRecords([Row(at, {"text": f"t{at}", "answer": f"a{at}"}) for at in range(9)], "public")
ANSWERED = [Row(at, {"text": f"zq{at}xv", "answer": f"yq{at}xv"}) for at in range(5)]
FITTED = {"records": records(), "task": TASK, "epsilon": 4, "ledger": ":memory:"}
ENTRANCES = {
    "read_private": (sv.read_private, {"source": "rows.jsonl"}),
    "read_public": (sv.read_public, {"source": "rows.jsonl"}),
    "make_plan": (sv.make_plan, {"records": 100, "questions": 10, "budget": sv.Budget(8, 1e-6)}),
    "load_task": (sv.load_task, {}),
    "load_answer_task": (sv.load_answer_task, {}),
    "load_scorer": (sv.load_scorer, {}),
    "Fitted.load": (sv.Fitted.load, {"file": "none.sotto"}),
    "fit": (sv.fit, FITTED),
    "Fitting": (Fitting, FITTED),
    "PrivateICL": (icl, {}),
    "PrivateAnswers": (
        sv.PrivateAnswers,
        {
            "records": PrivateRecords(ANSWERED, source="mails", synthetic=True),
            "task": ANSWERS,
            "writer": Writing(),
            "ledger": ":memory:",
        },
    ),
    "Synthesizer": (writer, {}),
    "PrivateRecords": (sv.PrivateRecords, {"rows": ROWS, "source": "notes"}),
    "PublicRecords": (sv.PublicRecords, {"rows": ROWS, "source": "notes"}),
    "AnswerTask": (sv.AnswerTask, {}),
    "RdpAccountant": (sv.RdpAccountant, {"adjacency": sv.Adjacency.ADD_REMOVE}),
    "PrivateICL.ask": (lambda **given: icl().ask(**given), {"question": "late?", "epsilon": 1}),
    "PrivateICL.classify": (lambda **given: list(icl().classify(**given)), {"questions": ["late?"], "epsilon": 1}),
    "PrivateAnswers.ask": (
        lambda **given: sv.PrivateAnswers(
            records=PrivateRecords(ANSWERED, source="mails", synthetic=True),
            task=ANSWERS,
            writer=Writing(),
            method="public-consensus",
            public=PUBLIC,
            ledger=":memory:",
        ).ask(**given),
        {"question": "late?", "epsilon": 1},
    ),
    "Ledger": (sv.Ledger, {"path": ":memory:"}),
    "Budget": (sv.Budget, {"epsilon": 8}),
    "Budget.parse": (sv.Budget.parse, {"text": "8,1e-6"}),
    "Partition": (sv.Partition, {}),
    "Partition.rule": (sv.Partition().rule, {"adjacency": "replace-one"}),
    "Partition.assign": (sv.Partition().assign, {"unit_ids": ["a", "b"], "adjacency": "replace-one"}),
    "Task": (sv.Task, {"labels": ["a", "b"]}),
    "SynthesisConfig": (sv.SynthesisConfig, {"per_label": 1, "tokens": 8}),
}
"""Public functions and classes, each with arguments that it can be called with, or lacks one that has no default."""
TAKING = {
    "PrivateICL": sv.PrivateICL,
    "PrivateICL.ask": partial(sv.PrivateICL.ask, None),
    "PrivateICL.classify": partial(sv.PrivateICL.classify, None),
    "PrivateAnswers.ask": partial(sv.PrivateAnswers.ask, None),
    "Synthesizer": sv.Synthesizer,
}
ANYTHING = (3, -1, 2.5, True, None, "x", b"x", ["x"], [3], {"x": "y"}, {"x": 3}, {3: "x"}, object(), float("nan"))


@pytest.mark.parametrize(
    "entrance",
    [pytest.param(name, marks=[pytest.mark.slow] if name in ("Fitting", "fit") else []) for name in ENTRANCES],
)
def test_no_public_entrance_ends_in_an_error_of_pythons_own(entrance, tmp_path, monkeypatch):
    """Every argument that there is by the signature, one at a time, is something else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"text": "zq1xv", "label": "a"}\n')
    call, usual = ENTRANCES[entrance]
    names = [
        name
        for name, one in signature(TAKING.get(entrance, call)).parameters.items()
        if one.kind is not one.VAR_KEYWORD
    ]
    if entrance not in ("load_task", "load_answer_task", "load_scorer", "Fitted.load"):
        call(**usual)
    raw = []
    for name, value in itertools.product(names, ANYTHING):
        try:
            call(**{**usual, name: value})
        except Exception as error:
            if not isinstance(error, SottoError) or "zq1xv" in str(error):
                raw.append(f"{name}={value!r}: {type(error).__name__}: {error}")
    assert raw == []


def test_a_support_is_asked_several_questions_and_kept_in_a_file():
    fitted = sv.fit(
        PrivateRecords([Row(at, {"text": f"zq{at}xv", "label": "ab"[at % 2]}) for at in range(20)], source="notes"),
        TASK, epsilon=4, model="embedded", ledger=":memory:",
    )  # fmt: skip
    for queries in (3, None, "late?", {"text": "late?"}, 2.5, [3], [None]):
        with pytest.raises(ParameterError, match=r"^(queries|question) is "):
            fitted.predict(queries)
        with pytest.raises(ParameterError, match=r"^(queries|question) is "):
            next(fitted.batches(queries))
    assert len(next(fitted.batches(text for text in ("late?", "early?")))) == 2
    for model in (3, None, b"x", ["x"]):
        with pytest.raises(ParameterError, match=r"^model is "):
            fitted.use(model)
    for file in (3, None, b"x", ["x"]):
        with pytest.raises(ParameterError, match=r"^file is "):
            fitted.save(file)


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
