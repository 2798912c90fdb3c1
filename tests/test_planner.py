"""The planner: prices that really fit, advice that follows the measurements."""

from __future__ import annotations

import pytest

from sottovoce.errors import BudgetExhaustedError, ParameterError
from sottovoce.planner import Accuracy, affordable_epsilon, make_plan
from sottovoce.privacy.budget import Budget
from sottovoce.privacy.events import BoundedRange, PureDP
from sottovoce.privacy.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.unit import Adjacency


@pytest.mark.parametrize("budget", [Budget(8, 1e-6), Budget(1, 1e-9), Budget(5), Budget(0.3)])
@pytest.mark.parametrize("questions", [1, 7, 250])
@pytest.mark.parametrize("event", [BoundedRange, PureDP])
def test_the_price_fits_for_every_question_and_a_percent_more_does_not(budget, questions, event):
    epsilon = affordable_epsilon(budget, questions, event)
    account = Ledger(":memory:").open(Identity("ab" * 32, Adjacency.REPLACE_ONE, "record"), budget)
    account.reserve([Reservation(f"r{i}", event(epsilon), "") for i in range(questions)])
    other = Ledger(":memory:").open(Identity("ab" * 32, Adjacency.REPLACE_ONE, "record"), budget)
    with pytest.raises(BudgetExhaustedError):
        other.reserve([Reservation(f"r{i}", event(1.01 * epsilon), "") for i in range(questions)])


def test_a_whole_number_stays_whole():
    assert affordable_epsilon(Budget(5), 5, PureDP) == 1.0
    assert affordable_epsilon(Budget(1), 10, BoundedRange) == 0.1


def test_a_budget_that_pays_for_nothing_says_so():
    plan = make_plan(records=10, questions=10**9, budget=Budget(0.001))
    assert plan.options[0].epsilon is None
    assert "does not pay" in plan.advice


def test_permute_and_flip_is_dearer_for_many_and_not_for_one():
    many = {o.method: o.epsilon for o in make_plan(records=100, questions=500, budget=Budget(8, 1e-6)).options}
    assert many["rnm --noise permute_and_flip"] < many["poe"]
    one = {o.method: o.epsilon for o in make_plan(records=100, questions=1, budget=Budget(1)).options}
    assert len(set(one.values())) == 1


def test_it_says_when_zero_shot_would_do_as_well_and_when_it_would_not():
    few = make_plan(records=8, questions=100, budget=Budget(8, 1e-6))
    assert "Zero-shot would do as well" in few.advice
    taught = make_plan(records=1600, questions=50, budget=Budget(8, 1e-6), labels="made up")
    assert taught.options[0].method == "poe"
    assert "--method poe" in taught.advice
    assert taught.options[0].accuracy.mean > taught.zero_shot.mean + 20


def test_replace_one_promises_no_more_than_add_remove():
    for records in (25, 400):
        ar, ro = (
            {o.method: o.accuracy.mean for o in make_plan(
                records=records, questions=20, budget=Budget(8, 1e-6), adjacency=adjacency).options}
            for adjacency in ("add-remove", "replace-one")
        )  # fmt: skip
        assert ro["poe"] <= ar["poe"] + 1


def test_the_callers_own_floor_is_used():
    plan = make_plan(records=100, questions=10, budget=Budget(8, 1e-6), zero_shot=Accuracy(99.0, 0.1))
    assert "99" in plan.advice


@pytest.mark.parametrize(
    "wrong", [{"records": 0}, {"questions": -1}, {"labels": "odd"}, {"task": "poems"}, {"adjacency": "next-door"}]
)
def test_what_cannot_be_planned_is_refused(wrong):
    with pytest.raises(ParameterError):
        make_plan(**{"records": 10, "questions": 10, "budget": Budget(1), **wrong})
