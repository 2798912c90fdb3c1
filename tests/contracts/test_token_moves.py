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
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.pools import Pool
from sottovoce.testing.report import Effort, Report
from sottovoce.testing.token_moves import Moves

REPLACED, ADDED = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def plan_for(decoder, tokens=1, adjacency=REPLACED, price=Price(2.0, 1e-3)):  # noqa: B008 (a frozen price)
    order = SynthesisConfig(per_label=1, tokens=tokens, experts=2)
    return plan_of(decoder, order, price, adjacency, "record", 2)


def compared(decoder, tokens=1, adjacency=REPLACED, *, every=False):
    plan = plan_for(decoder, tokens, adjacency)
    report = Report("decoder", "it")
    Moves(plan, "it", "a plan", report).check(every=every)
    return {check.contract: check.cases for check in report.checks}, report.uncompared


RIGHT = [decoders.NoisyVotes(), decoders.NoisyRowThenToken(), decoders.LaplaceMax(), Tang(), Amin()]


def name(value):
    return type(value).__name__ if isinstance(value, decoders.Decoder) else ""


@pytest.mark.cases(2)
@pytest.mark.parametrize("right", RIGHT, ids=name)
@pytest.mark.parametrize("adjacency", [REPLACED, ADDED])
def test_what_a_right_decoder_gives_its_mechanisms_is_what_it_tells_them(right, adjacency):
    pairs = 75 + 20 + 36 if adjacency is REPLACED else 50 + 16 + 36
    kept = compared(right, 2, adjacency)[0]
    # Amin's tests are told both ways as well, the second token's behind either answer to the first.
    assert kept == {"sensitivity": kept["sensitivity"] if isinstance(right, Amin) else pairs}
    assert kept["sensitivity"] >= pairs * (3 if isinstance(right, Amin) else 1)


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
    (decoders.NoisyRowOfTheFirstBlock(), 1, ADDED, "order", "the order of the records changes its law"),
    (decoders.NoisyRowOfKeptBlocks(), 1, ADDED, "sensitivity", "2 times the norm"),
    (decoders.NoisyRowOfThreeTokens(), 1, REPLACED, "sensitivity", r"(?s)2\.901 times the norm.*row of 101 tokens"),
    (decoders.NoisyRowEndsWhereSure(), 2, REPLACED, "post-processing", "a text ends after 1 and after 2 tokens"),
    (decoders.NoisyRowEndsWhereSure(), 2, ADDED, "post-processing", "a text ends after 1 and after 2 tokens"),
    (decoders.LeadingTokenOfHundreds(), 1, REPLACED, "post-processing", "of the same releases it writes two texts"),
    (decoders.BetterTokenOfASet(), 2, ADDED, "post-processing", "of the same releases it writes two texts"),
    (decoders.NoiseOfItsOwn(), 1, REPLACED, "drive", "writes two texts|draw from no registered mechanism"),
    (decoders.WithoutLawOfItsMechanism(), 1, REPLACED, "drive", "Unregistered is no registered mechanism"),
]


@pytest.mark.cases(5)
@pytest.mark.parametrize(("wrong", "tokens", "adjacency", "contract", "problem"), WRONG, ids=name)
def test_a_mechanism_that_is_told_too_little_is_found(wrong, tokens, adjacency, contract, problem):
    with pytest.raises(ContractError, match=problem) as failed:
        compared(wrong, tokens, adjacency, every=contract == "order")
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


@pytest.mark.slow
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


def contract_of(decoder):
    return contract_of_decoders._Decoder(decoder, Effort.QUICK, Report("decoder", "it"), must_run=True)


@pytest.mark.slow
def test_a_mechanism_that_is_told_too_little_at_a_low_price_is_found():
    with pytest.raises(ContractError, match=r"3\.999 times the norm") as failed:
        contract_of(decoders.FinerGridAtLowPrices())._other_settings()
    assert failed.value.contract == "sensitivity"


@pytest.mark.parametrize("wrong", [decoders.DoublesByAdjacency(), decoders.NormOfOneToken()], ids=name)
def test_scores_are_compared_under_every_change_and_of_many_tokens(wrong):
    with pytest.raises(ContractError, match="its scores move by more than is stated") as failed:
        contract_of(wrong)._exchanged()
    assert failed.value.contract == "public rows"
    assert "add-remove, swap" in failed.value.world
    assert ("101 tokens" in failed.value.world) == isinstance(wrong, decoders.NormOfOneToken)


def test_where_a_text_ends_follows_its_experts_by_no_law():
    plan = plan_for(decoders.EndsWhereSure(), 3)
    with pytest.raises(ContractError, match="a text ends after 1 and after 3 tokens") as failed:
        Moves(plan, "it", "a plan", Report("decoder", "it")).check_ends()
    assert failed.value.contract == "post-processing"


@pytest.mark.parametrize(
    ("right", "short"), [(decoders.EndsAtARepetition(), {(0, 0), (1, 1)}), (decoders.EndsAtALine(), {(1,), (0, 1)})]
)
def test_the_law_of_a_text_follows_its_own_end(right, short):
    plan, data = plan_for(right, 3), (("X", "one"), ("U", "one"))
    law = worlds.law_of_text(plan, worlds.Scene(data, REPLACED, 3), 0)
    assert sum(law.values()) == pytest.approx(1)
    assert law.keys() <= {*worlds.every_text(3)}
    assert {text for text in law if len(text) < 3 and text[-1] != worlds.TOKENS - 1} == short


def test_a_selection_among_some_candidates_has_a_law_of_texts():
    # A token that such a selection drew by chance was taken for one that was told, and the draw for a further one.
    plan = plan_for(decoders.AmongTwo(), 3)
    for other in ("X", "Y", "U", "I"):
        law = worlds.law_of_text(plan, worlds.Scene((("X", "one"), (other, "one")), REPLACED, 3), 0)
        assert sum(law.values()) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "right",
    [
        decoders.EndsAtARepetition(),
        decoders.EndsAtALine(),
        decoders.EndsByACoin(),
        decoders.EndsByATest(),
        decoders.EndsByATestAndItsOwnCoins(),
    ],
    ids=name,
)
def test_a_text_may_end_by_what_was_released_and_by_a_coin(right):
    assert check_decoder(right).passed


def test_texts_whose_end_is_drawn_are_compared_by_what_the_draw_is_given():
    for decoder, problem in (
        (decoders.EndsByATest(), ""),
        (decoders.EndsByALoudTest(), "sensitivity"),
        (decoders.EndsByATestAndItsOwnCoins(), ""),
        (decoders.EndsWhereOneIsSureBesideATest(), "drive"),
    ):
        price = Price(12.0, 1e-6)
        contract, plan, found = contract_of(decoder), plan_for(decoder, 2, price=price), ""
        try:
            contract._texts(plan, contract._claim(plan, price), 1, 0)
        except ContractError as error:
            found = error.contract
        assert found == problem
        assert "whose end is drawn" in contract.report.uncompared[0]
        assert not any(check.contract == "neighbours" for check in contract.report.checks)


@pytest.mark.slow
@pytest.mark.parametrize("right", [decoders.EndsAtARepetition(), decoders.EndsByACoin()], ids=name)
def test_the_draws_of_a_right_decoder_that_ends_early_follow_its_law(right):
    contract, plan, pool = contract_of(right), plan_for(right, 6), Pool()
    dice, source = seeded(1), seeded(2)
    for number in range(40):
        contract._draw_tokens(plan, Price(2.0, 1e-3), number, dice, source, pool)
    assert pool.draws > 10
    assert not pool.departs()[0]


def test_experts_come_in_blocks_of_several_sizes_that_share_their_memory():
    names = ("X", "Y", "E", "U", "X", "X", "Y", "E", "X")
    blocks = worlds.step_beside(worlds.PUBLIC, names).blocks
    kept, rows = [], []
    for block in blocks:
        kept.append(block)
        rows += block.tolist()
    assert [len(block) for block in kept] == [1, 2, 4, 2]
    assert rows == [[*worlds.SAYINGS[name], 9.0] for name in names]
    assert kept[0].tolist() == kept[-1][:1].tolist()
    assert not list(worlds.step_beside(worlds.PUBLIC, ()).blocks)


def test_a_law_that_loads_libraries_at_first_is_compared(monkeypatch):
    times = iter((0.0, 3.0, 3.0, 3.01))
    monkeypatch.setattr(contract_of_decoders, "process_time", lambda: next(times))
    contract = contract_of(decoders.Clipped())
    assert contract._has_law(plan_for(decoders.Clipped()))
    assert not contract.report.uncompared


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
