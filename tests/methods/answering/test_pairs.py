"""Pairs that are drawn once: the price of the choice, what is drawn, and what a fitted file keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest

from sottovoce.errors import TaskError
from sottovoce.fitting.fit import Fitting
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.answering.pairs import pair_of, pairs_of, pairs_task
from sottovoce.methods.choice import Choice
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.events import BoundedRange, SelfComposedDpEvent
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.testing.answer_road import TASK

PUBLIC = [
    ("why a fee", "the fee is refunded"),
    ("the weather", "it rains"),
    ("a lost card", "block the card"),
    ("a late fee", "a fee is charged once"),
]


def fitting(k: int = 2, epsilon: float = 4.0, seed: int | None = None) -> Fitting:
    rows = [Row(i + 1, {"text": f"question {i} about a fee", "answer": "the fee is refunded"}) for i in range(60)]
    return Fitting(
        PrivateRecords(rows, source="memory", synthetic=True),
        pairs_task(TASK, "faq"),
        epsilon=epsilon,
        method=Choice(k=k),
        model=FakeScorer(),
        pool=[pair_of(TASK, {"text": given}, answer) for given, answer in PUBLIC],
        ledger=":memory:",
        randomness=None if seed is None else SeededRandomness(seed),
    )


def test_pairs_cost_what_a_choice_for_one_label_costs():
    plan = fitting().plan
    assert isinstance(plan.event, SelfComposedDpEvent)
    assert plan.event.count == 2
    assert plan.event.event == BoundedRange(2 * plan.fitter.rate)  # replace-one: lambda twice, whatever the labels
    one = plan.fitter.plan(plan_price(plan), replace(plan.setting, labels=1))
    assert one.event == plan.event


def plan_price(plan):
    from sottovoce.methods.base import Price

    return Price(4.0, plan.report.delta)


@pytest.mark.slow
def test_pairs_like_the_records_are_drawn_and_a_file_keeps_them():
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(8):
        fitted = fitting(k=1, seed=seed).run()
        back = Fitted.from_bytes(fitted.to_bytes(), "a file")
        (pair,) = pairs_of(TASK, back.support.examples)
        assert pair in PUBLIC
        seen[pair] += 1
    assert seen[PUBLIC[0]] + seen[PUBLIC[3]] >= 6
    assert back.task == pairs_task(TASK, "faq")


def test_the_label_that_no_record_has_is_not_among_the_pairs():
    fitted = fitting(k=3, seed=1).run()
    assert Counter(example.label for example in fitted.support.examples) == {0: 3, 1: 3}
    assert len(pairs_of(TASK, fitted.support.examples)) == 3


def test_a_record_without_an_answer_is_refused_by_its_line():
    rows = [Row(1, {"text": "a question", "answer": ""})]
    with pytest.raises(Exception, match="line 1, field 'answer'"):
        Fitting(
            PrivateRecords(rows, source="memory", synthetic=True),
            pairs_task(TASK),
            epsilon=4.0,
            method=Choice(k=1),
            model=FakeScorer(),
            pool=[pair_of(TASK, {"text": "a"}, "b")],
            ledger=":memory:",
        ).run()


def test_a_column_that_templates_need_is_refused():
    @dataclass(frozen=True)
    class Labelled:
        instruction: str = "Answer."
        names: tuple[str, str] = ("Input", "Output")
        fields: tuple[str, ...] = ("label",)
        output_field: str = "answer"

    with pytest.raises(TaskError, match="rename the column"):
        pairs_task(Labelled())
