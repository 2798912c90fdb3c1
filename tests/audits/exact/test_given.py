"""The worst single change of given records: every kind of method on fake models, and what cannot be asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce.audits.exact.fits import Units, choice_pair
from sottovoce.audits.exact.given import of_answers, of_fits, of_labels, of_texts
from sottovoce.audits.exact.pair import Pair, exact_epsilon
from sottovoce.audits.exact.texts import TextTree, text_law, token_plan
from sottovoce.audits.kinds.exactly import report_of
from sottovoce.audits.page import html_of
from sottovoce.audits.report import Verdict, schema
from sottovoce.audits.schema import is_valid
from sottovoce.errors import ParameterError
from sottovoce.experts.unit_sums import Likeness
from sottovoce.methods.answering.answerer import make_answerer
from sottovoce.methods.base import Price, make_method
from sottovoce.methods.choice import Choice
from sottovoce.methods.decoding.decoder import make_decoder
from sottovoce.methods.fitting.fitter import FitSetting, make_fitter
from sottovoce.models.fake import FakeScorer, FakeStepper, FakeWriter
from sottovoce.privacy.unit import DROP, Adjacency
from sottovoce.records.sealed import Row
from sottovoce.tasks import Task

TASK = Task(labels=["a", "b"])
ROWS = [Row(i, {"text": text, "label": "ab"[i % 2]}) for i, text in enumerate(["late fee", "lost card", "late card"])]
PRICE = Price(2.0, 1e-6)


def logits(prompt, text):
    """An expert that saw a card likes the first piece, others the second; the end is unlikely."""
    first = 4.0 if "card" in prompt.private_text else -4.0 if prompt.private_text else 0.0
    return [first - len(text), 0.0, -1.0, 0.0]


def stepper():
    return FakeStepper(logits, pieces=("x ", "y "))


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "adjacency"), [*zip(["choice", "class-means", "label-public"], Adjacency, strict=True)]
)
def test_no_change_of_given_records_exceeds_the_proof_of_a_fit(name, adjacency):
    found = of_fits(make_fitter(name), FakeScorer(), TASK, ROWS, PRICE, adjacency)
    (worst,) = found.worst.values()
    assert worst.excess is None
    assert 0 < exact_epsilon(worst.pair, PRICE.delta) <= PRICE.epsilon * (1 + 1e-9)
    assert worst.tried == (6 if adjacency is Adjacency.REPLACE_ONE else 3)


@pytest.mark.parametrize(("name", "adjacency"), [("esa", Adjacency.ADD_REMOVE), ("ksa", Adjacency.REPLACE_ONE)])
def test_no_change_of_given_records_exceeds_the_proof_of_a_long_answer(name, adjacency):
    found = of_answers(make_answerer(name), FakeScorer(), TASK, ROWS, PRICE, adjacency)
    (worst,) = found.worst.values()
    assert worst.excess is None
    assert 0 < exact_epsilon(worst.pair, PRICE.delta) <= PRICE.epsilon * (1 + 1e-9)


def test_experts_that_write_are_asked_every_question():
    writer = FakeWriter(lambda request: request.shots[0][0])
    found = of_answers(
        make_answerer("ksa"),
        FakeScorer(),
        TASK,
        ROWS,
        PRICE,
        Adjacency.ADD_REMOVE,
        ["late", "card"],
        writer,
        keywords=1,
    )
    assert (list(found.worst), writer.calls) == (["question 1", "question 2"], 6)
    with pytest.raises(ParameterError, match="--question-text"):
        of_answers(make_answerer("ksa"), FakeScorer(), TASK, ROWS, PRICE, Adjacency.ADD_REMOVE, (), writer)


def test_an_expert_whose_writer_failed_is_a_null_expert(monkeypatch):
    embed, asked = FakeScorer.embed_records, []
    monkeypatch.setattr(
        FakeScorer, "embed_records", lambda self, task, rows: asked.extend(rows) or embed(self, task, rows)
    )
    writer = FakeWriter(lambda request: None if request.shots[0][0] == "lost card" else request.shots[0][0])
    given = (make_answerer("esa"), FakeScorer(), TASK, ROWS, PRICE, Adjacency.ADD_REMOVE)
    (worst,) = of_answers(*given, ["late"], writer).worst.values()
    assert [row["text"] for row in asked] == ["late fee", "late card"]
    assert worst.excess is None
    silent = FakeWriter(lambda request: None)
    (nothing,) = of_answers(*given, ["late"], silent).worst.values()
    assert nothing.pair.max_loss == 0.0
    assert len(asked) == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("name", "tokens", "adjacency"),
    [("invisible-ink", 2, Adjacency.ADD_REMOVE), ("prism", 1, Adjacency.REPLACE_ONE), ("amin", 1, Adjacency.ZERO_OUT)],
)
def test_no_change_of_given_records_exceeds_the_proof_of_a_text(name, tokens, adjacency):
    own = [Row(row.line, {**row.values, "label": "a"}) for row in ROWS]
    found = of_texts(make_decoder(name), stepper(), TASK, own, PRICE, adjacency, tokens)
    (worst,) = found.worst.values()
    assert worst.excess is None
    assert worst.pair.max_loss > 0
    assert exact_epsilon(worst.pair, PRICE.delta) <= PRICE.epsilon


def test_the_law_of_a_text_is_the_product_of_its_tokens():
    # Two tokens of two pieces and an end: x, y, e, then xx, xy, xe, yx, yy, ye; the end closes a text.
    own = stepper()
    tree = TextTree(own, "", ["card", "fee"], "", 2, 20)
    plan = token_plan(make_decoder("invisible-ink"), PRICE, 2, Adjacency.REPLACE_ONE, 2)
    whole = text_law(plan, tree, [0, 1])
    one = token_plan(make_decoder("invisible-ink", clip=plan.decoder.clip), None, 2, Adjacency.REPLACE_ONE, 1)
    first = text_law(one, TextTree(own, "", ["card", "fee"], "", 1, 20), [0, 1])
    assert whole.size == 1 + 2 * 3, "the end is over at once, the pieces go on"
    assert whole[0] == pytest.approx(first[2])
    assert whole[1:4].sum() == pytest.approx(first[0])
    assert whole[4:].sum() == pytest.approx(first[1])


def test_later_tokens_of_a_method_that_keeps_draws_to_itself_are_refused():
    with pytest.raises(ParameterError, match="1 for the method 'amin'"):
        of_texts(make_decoder("amin"), stepper(), TASK, ROWS, PRICE, Adjacency.REPLACE_ONE, 2)


def test_a_method_without_a_law_says_why():
    given = FakeScorer(), TASK, ROWS, PRICE, Adjacency.REPLACE_ONE
    with pytest.raises(ParameterError, match=r"one with an exact law: .*without noise"):
        of_labels(make_method("full-context"), *given)
    with pytest.raises(ParameterError, match=r"one with an exact law: .*many sums"):
        of_fits(make_fitter("dp-logistic"), *given)
    with pytest.raises(ParameterError, match=r"one with an exact law: .*splits adaptively"):
        of_answers(make_answerer("sga"), *given)


def test_labels_that_a_change_leaves_alone_add_nothing():
    """The pair over the labels that move is the pair over all lists: the same losses, and the same deltas."""
    candidates = np.eye(3)
    first = Units(np.eye(3)[[0, 1, 2]], np.array([0, 1, 0]))
    second = Units(np.eye(3)[[0, 1, 1]], np.array([0, 1, 0]))
    setting = FitSetting(2, 3, None, Adjacency.REPLACE_ONE, DROP, 3)
    plan = Choice(k=2).plan(Price(1.0), setting)
    rule = Likeness(2, candidates, plan.fitter.floor, plan.fitter.ceiling, None)
    whole = Pair.of_tables(*(plan.fitter.law(rule.add_up(units.block()), rule, setting) for units in (first, second)))
    part = choice_pair(plan, candidates, first, second)
    assert (part.log_p.size, whole.log_p.size) == (6, 36)
    assert part.max_loss == pytest.approx(whole.max_loss)
    grid = np.array([0.0, 0.05, 0.2])
    assert part.delta(grid) == pytest.approx(whole.delta(grid))


def test_the_report_of_exact_laws_keeps_to_the_schema_and_shows_the_worst_change():
    found = of_fits(make_fitter("class-means"), FakeScorer(), TASK, ROWS, PRICE, Adjacency.ADD_REMOVE)
    report = report_of("class-means", found, PRICE, Adjacency.ADD_REMOVE)
    assert report.verdict is Verdict.NONE_FOUND
    assert math.isfinite(report.measured.exact)
    assert is_valid(report.as_dict(), schema())
    assert next(iter(found.worst.values())).change in html_of(report)
