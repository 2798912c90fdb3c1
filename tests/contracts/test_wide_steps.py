"""Steps of many tokens, of which many move at once: a norm that is taken from the range shows there alone."""

from __future__ import annotations

import pytest

from contracts.wrong import decoders
from sottovoce.methods.amin import Amin
from sottovoce.methods.base import Price
from sottovoce.methods.prism import PRISM
from sottovoce.methods.tang import Tang
from sottovoce.privacy.unit import Adjacency
from sottovoce.synthesis.config import SynthesisConfig, plan_of
from sottovoce.testing import ContractError, check_decoder
from sottovoce.testing.claims import claim_of
from sottovoce.testing.decoders import exact_law
from sottovoce.testing.report import Report
from sottovoce.testing.wide_steps import WideSteps


def compared(decoder, adjacency):
    order = SynthesisConfig(per_label=1, tokens=1, experts=2)
    plan = plan_of(decoder, order, Price(2.0, 1e-3), adjacency, "record", 2)
    report = Report("decoder", "it")
    WideSteps(plan, "it", "a plan", report).check(claim_of(plan.event, adjacency) if exact_law(plan) else None)
    return {check.contract: check.cases for check in report.checks}


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("right", "contract"),
    [
        (PRISM(), "public rows"),
        (Tang(), "public rows"),
        (Amin(), "public rows"),
        (decoders.Own(), "public rows"),
        (decoders.NoisyRowThenToken(), "sensitivity"),
        (decoders.NoisyVotes(), "sensitivity"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_right_decoder_keeps_its_bounds_among_many_tokens(right, contract, adjacency):
    assert compared(right, adjacency) == {contract: 30 if adjacency is Adjacency.REPLACE_ONE else 10}


@pytest.mark.parametrize(
    ("wrong", "contract", "problem"),
    [
        (decoders.RangeForNorm(), "public rows", "its scores move by more than is stated"),
        (decoders.NoisyRowForTheRange(), "sensitivity", "times the norm"),
        (decoders.SharpAmongMany(), "public rows", "does not hold"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_a_norm_taken_from_the_range_is_found(wrong, contract, problem):
    with pytest.raises(ContractError, match=problem) as failed:
        compared(wrong, Adjacency.REPLACE_ONE)
    assert failed.value.contract == contract
    assert "a flat row of 100 tokens" in failed.value.world


@pytest.mark.slow
def test_every_decoder_is_asked_of_many_tokens():
    with pytest.raises(ContractError, match="a flat row of 100 tokens"):
        check_decoder(decoders.RangeForNorm)
