"""What the mechanisms of a text are given is compared with what they are told, whatever law there is."""

from __future__ import annotations

import pytest

from contracts.wrong import decoders
from sottovoce.methods.amin import Amin
from sottovoce.methods.base import Price
from sottovoce.methods.tang import Tang
from sottovoce.privacy.unit import Adjacency
from sottovoce.synthesis.config import SynthesisConfig, plan_of
from sottovoce.testing import ContractError, check_decoder
from sottovoce.testing import decoders as contract_of_decoders
from sottovoce.testing.report import Effort, Report
from sottovoce.testing.token_moves import Moves

REPLACED, ADDED = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def compared(decoder, tokens=1, adjacency=REPLACED, *, every=False):
    order = SynthesisConfig(per_label=1, tokens=tokens, experts=2)
    plan = plan_of(decoder, order, Price(2.0, 1e-3), adjacency, "record", 2)
    report = Report("decoder", "it")
    Moves(plan, "it", "a plan", report).check(every=every)
    return {check.contract: check.cases for check in report.checks}, report.uncompared


RIGHT = [decoders.NoisyVotes(), decoders.NoisyRowThenToken(), decoders.LaplaceMax(), Tang(), Amin()]


def name(value):
    return type(value).__name__ if isinstance(value, decoders.Decoder) else ""


@pytest.mark.parametrize("right", RIGHT, ids=name)
@pytest.mark.parametrize("adjacency", [REPLACED, ADDED])
def test_what_a_right_decoder_gives_its_mechanisms_is_what_it_tells_them(right, adjacency):
    assert compared(right, 2, adjacency)[0] == {"sensitivity": 75 if adjacency is REPLACED else 50}


def test_a_right_decoder_draws_from_records_in_any_order_alike():
    kept, _ = compared(decoders.NoisyVotes(), adjacency=ADDED, every=True)
    assert (kept["order"], kept["failures"], kept["null expert"]) == (1, 2, 1)


def test_what_coins_of_its_own_leave_out_is_said():
    kept, uncompared = compared(decoders.NoisyRowBehindATest(), adjacency=ADDED, every=True)
    assert kept.keys() == {"sensitivity", "failures"}
    assert uncompared == ["it: experts in another order or number, where it throws coins of its own, under add-remove"]


WRONG = [
    (decoders.NoisyRowForADrop(), 1, REPLACED, "sensitivity", r"1\.414 times the norm"),
    (decoders.NoisyRowOfAMean(), 1, ADDED, "sensitivity", "2 times the norm"),
    (decoders.VotesForADrop(), 1, REPLACED, "sensitivity", "counts change by 1 in all, and they change by 2"),
    (decoders.VotesCountTwice(), 1, ADDED, "sensitivity", "counts change by 1 in all, and they change by 2"),
    (decoders.LaplaceHalved(), 1, REPLACED, "sensitivity", "scores move by"),
    (decoders.DoubleTests(), 3, REPLACED, "sensitivity", "counts change by"),
    (decoders.NoisyRowUnlessAllAgree(), 1, REPLACED, "post-processing", "of the same releases it writes two texts"),
    (decoders.NoiseOfItsOwn(), 1, REPLACED, "drive", "writes two texts|draw from no registered mechanism"),
    (decoders.WithoutLawOfItsMechanism(), 1, REPLACED, "drive", "Unregistered is no registered mechanism"),
]


@pytest.mark.parametrize(("wrong", "tokens", "adjacency", "contract", "problem"), WRONG, ids=name)
def test_a_mechanism_that_is_told_too_little_is_found(wrong, tokens, adjacency, contract, problem):
    with pytest.raises(ContractError, match=problem) as failed:
        compared(wrong, tokens, adjacency)
    assert failed.value.contract == contract
    assert "a plan" in failed.value.world


@pytest.mark.parametrize(
    ("wrong", "contract"),
    [(decoders.NoisyRowOfTheFirst(), "order"), (decoders.NoisyRowOfNulls(), "failures")],
    ids=name,
)
def test_records_that_are_drawn_from_otherwise_in_another_order_are_found(wrong, contract):
    with pytest.raises(ContractError) as failed:
        compared(wrong, every=True)
    assert failed.value.contract == contract


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("wrong", "contract"),
    [
        (decoders.LaplaceHalved(), "public rows"),
        (decoders.LaplaceReadsTheFirst(), "isolation"),
        (decoders.LaplaceHearsThree(), "order"),
    ],
    ids=name,
)
def test_scores_are_compared_where_a_law_takes_too_long(wrong, contract, monkeypatch):
    monkeypatch.setattr(contract_of_decoders, "SLOW_LAW", -1.0)
    report = Report("decoder", "it")
    with pytest.raises(ContractError) as failed:
        check_decoder(wrong, report=report)
    assert failed.value.contract == contract
    assert "LaplaceNoisyMax works out too slowly" in str(report)


def test_draws_of_one_batch_are_compared_with_what_one_batch_costs(monkeypatch):
    claims = []
    monkeypatch.setattr(contract_of_decoders, "exceeds", lambda claim, *drawn: claims.append(claim) or "")
    order = SynthesisConfig(per_label=1, tokens=1, experts=2)
    plan = plan_of(decoders.NoisyVotes(), order, Price(2.0, 1e-3), REPLACED, "record", 2)
    contract = contract_of_decoders._Decoder(plan.decoder, Effort.QUICK, Report("decoder", "it"), must_run=True)
    contract.draws = 2
    contract._texts_by_draws(plan)
    assert plan.setting.two_batches
    assert claims[0].pure == plan.token_event.epsilon
