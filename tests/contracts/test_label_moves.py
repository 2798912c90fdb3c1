"""What a method without a law draws is compared with its event, and with what its mechanisms are told."""

from __future__ import annotations

import pytest

from contracts.wrong import methods
from sottovoce.experts.partition import Partition
from sottovoce.methods.base import Price
from sottovoce.methods.poe import PoE
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import ContractError
from sottovoce.testing.label_moves import compare_moves
from sottovoce.testing.label_worlds import CHANGES, Road
from sottovoce.testing.methods import _Method
from sottovoce.testing.report import Effort, Report


def compared(method, change):
    report = Report("method", "it")
    compare_moves(method, "it", change, Price(2.0, 1e-3), report)
    return {check.contract for check in report.checks}


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "right",
    [PoE(clip=2.0), methods.NoisyVotes(), methods.EachLabelByItself(), methods.FirstOfASet()],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_right_method_draws_what_it_charges(right, change):
    assert compared(right, change) == {"composition"}


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("wrong", "contract", "problem"),
    [
        (methods.UntilTwice(), "composition", "what it draws costs epsilon"),
        (methods.CheapEvent(), "composition", "what it draws costs epsilon"),
        (methods.EachLabelForItself(), "composition", r"what it draws costs epsilon 4 at"),
        (methods.RangeForNormWithoutLaw(), "sensitivity", "(?s)is told a squared norm of .*6 times 0"),
        (methods.VotesForADrop(), "sensitivity", "counts change by 1 in all, and they change by 2"),
        (methods.VotesLessTheMean(), "sensitivity", "they change by"),
        (methods.PointsForAVote(), "sensitivity", "counts change by 2 in all, and they change by 4"),
        (methods.NoisyVotesUnlessAllAgree(), "post-processing", "of the same releases it gives two answers"),
        (methods.BetterOfASet(), "post-processing", "of the same releases it gives two answers"),
        (methods.SecondDrawOfASet(), "composition", "what it draws costs epsilon"),
        (methods.NoisyVotesByHand(), "drive", "two answers|no registered mechanism"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, methods.Method) else "",
)
def test_draws_that_are_not_paid_for_are_found(wrong, contract, problem):
    with pytest.raises(ContractError, match=problem) as failed:
        compared(wrong, next(change for change in CHANGES if change.change.widths > 1))
    assert failed.value.contract == contract
    assert failed.value.world


def alike(method, adjacency):
    _Method(method, Effort.QUICK, Report("method", "it"), first=True)._alike(
        Road(adjacency, Partition()), Price(2.0, 1e-3)
    )


@pytest.mark.parametrize("adjacency", Adjacency)
def test_coins_that_fall_for_experts_in_another_order_are_no_fault(adjacency):
    report = Report("method", "it")
    contract = _Method(methods.VotesByCoins(), Effort.QUICK, report, first=True)
    contract._alike(Road(adjacency, Partition()), Price(2.0, 1e-3))
    assert {check.contract for check in report.checks} == {"failures"}
    assert "experts in another order or number, where it throws coins" in report.uncompared[0]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_order_of_experts_is_compared_by_what_mechanisms_are_given(adjacency):
    alike(methods.NoisyVotes(), adjacency)
    with pytest.raises(ContractError, match="order") as failed:
        alike(methods.FirstVotesTwice(), adjacency)
    assert failed.value.contract == "order"
