"""Synthesis: the order of charge, read and release, what a run costs, what it may be resumed with."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from sottovoce.errors import BudgetExhaustedError, InputError, LedgerMismatchError, ModelError, ParameterError
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.methods.decoding.decoder import make_decoder, registered_decoders
from sottovoce.models.base import Isolation
from sottovoce.models.fake import FakeStepper
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.event_json import event_from_json
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Identity
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords
from sottovoce.synthesis.config import SynthesisConfig
from sottovoce.tasks import Task
from synthesis.worlds_of_texts import ORDER, PIECES, TASK, likes_its_own, rows, writer


def kinds(ledger) -> list[str]:
    return [entry["kind"] for entry in ledger.history()]


def test_a_run_writes_every_text_and_charges_every_round_before_it_reads():
    seen = []

    def watched(prompt, text):
        if prompt.private_text:
            seen.append(kinds(icl.ledger).count("reserve"))
        return likes_its_own(prompt, text)

    icl = writer(model=FakeStepper(watched, pieces=PIECES))
    found = list(icl.rounds())
    assert [one.number for one in found] == [1, 2, 3]
    assert sum(len(one.rows) + one.unreadable for one in found) == 6
    assert set(seen) == {3}
    assert kinds(icl.ledger) == ["open", "reserve", "reserve", "reserve", *["draw", "release"] * 3]
    assert icl.ledger.verify() == []


def test_what_is_handed_over_was_noted_before():
    icl = writer()
    for number, _ in enumerate(icl.rounds(), 1):
        assert kinds(icl.ledger).count("release") == number


@pytest.mark.slow
def test_texts_follow_the_records_of_their_label():
    # Seeded: a text is right in its label's word with a high chance, not a certain one.
    records = PrivateRecords(rows(400), source="notes", synthetic=True)
    icl = writer(records=records, order=replace(ORDER, experts=100), epsilon=50.0, randomness=SeededRandomness(5))
    texts = {label: [] for label in TASK.labels}
    for one in icl.rounds():
        for row in one.rows:
            texts[row["label"]].append(row["text"])
    assert all("fee" in text for text in texts["billing"])
    assert len(texts["billing"]) == 3
    assert all("theft" in text for text in texts["fraud"])
    assert len(texts["fraud"]) == 3


@pytest.mark.cases(4)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one", "zero-out"])
@pytest.mark.parametrize("method", sorted(registered_decoders()))
def test_what_is_charged_is_within_the_price_under_every_method_and_adjacency(method, adjacency):
    icl = writer(method=method, adjacency=adjacency, epsilon=3.0)
    run_state = icl.new_run_state()
    list(icl.rounds(run_state=run_state))
    accountant = RdpAccountant(Adjacency.parse(adjacency))
    for entry in icl.ledger.history():
        if entry["kind"] == "reserve":
            accountant.compose(event_from_json(json.loads(entry["detail"])["event"]))
    report = accountant.report(1e-6)
    assert 0 < report.epsilon <= 3.0 + 1e-9
    assert icl.certificate(run_state, []).epsilon <= 3.0


def test_a_replaced_record_costs_at_most_what_a_swap_in_one_batch_costs():
    # Labels are private: a replaced record may leave one batch and join another, a drop in each.
    plan = writer(adjacency="replace-one").plan
    assert plan.setting.two_batches
    within, across = plan.decoder.alternatives(plan.setting)
    reports = [RdpAccountant(Adjacency.REPLACE_ONE).compose(event).report(1e-6).epsilon for event in (within, across)]
    assert reports[1] < reports[0] <= plan.report.epsilon + 1e-9


def test_the_divisor_is_public_and_must_be_named_where_the_number_is_private():
    assert writer(order=replace(ORDER, experts=None)).plan.setting.experts == 12
    assert writer(order=SynthesisConfig(per_label=4, tokens=5, texts_per_batch=1)).plan.setting.experts == 3
    with pytest.raises(ParameterError, match="--experts"):
        writer(adjacency="add-remove", order=replace(ORDER, experts=None))


@pytest.mark.cases(2)
@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_budget_of_the_price_of_a_run_admits_it(delta, adjacency):
    icl = writer(adjacency=adjacency, epsilon=2.0, delta=delta, budget=Budget(2.0, delta))
    assert len(list(icl.rounds())) == 3
    with pytest.raises(BudgetExhaustedError):
        list(icl.rounds())


def test_one_sample_for_a_whole_run_is_refused():
    with pytest.raises(ParameterError, match="fixed here"):
        writer(method=make_decoder("tang", fresh="batch", sampling_rate=0.1))


def test_a_budget_that_does_not_suffice_is_refused_before_the_model_reads_anything():
    model = FakeStepper(likes_its_own, pieces=PIECES)
    icl = writer(model=model, budget=Budget(1, 1e-9))
    with pytest.raises(BudgetExhaustedError):
        icl.affords()
    with pytest.raises(BudgetExhaustedError):
        list(icl.rounds())
    assert model.prompts_read == 0
    assert kinds(icl.ledger) == ["open"]


def test_a_model_that_fails_on_public_prompts_fails_before_the_charge():
    icl = writer(model=FakeStepper(lambda prompt, text: None, pieces=PIECES))
    with pytest.raises(ModelError, match="public prompt"):
        list(icl.rounds())
    assert kinds(icl.ledger) == ["open"]


def test_what_a_model_says_of_public_prompts_is_told_with_what_was_charged():
    class Stops(FakeStepper):
        def read(self, groups, **sizes):
            raise ModelError("The model does not read public text as it did before.")

    icl = writer(model=Stops(likes_its_own, pieces=PIECES))
    with pytest.raises(ModelError, match=r"as it did before\. Nothing was charged\."):
        list(icl.rounds())


def test_a_model_that_runs_out_of_memory_says_nothing_of_a_record_and_the_charge_stands():
    def fails(prompt, text):
        if prompt.private_text:
            raise MemoryError(f"cannot read {prompt.private_text}")
        return likes_its_own(prompt, text)

    icl = writer(model=FakeStepper(fails, pieces=PIECES))
    with pytest.raises(ModelError, match="withheld") as caught:
        list(icl.rounds())
    assert "fee" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert kinds(icl.ledger).count("reserve") == 3


@pytest.mark.parametrize("failure", [None, RuntimeError("cannot read theft")])
def test_a_record_that_cannot_be_read_or_fails_the_model_is_a_null_expert(failure):
    def unreadable(prompt, text):
        if "theft" not in prompt.private_text:
            return likes_its_own(prompt, text)
        if failure:
            raise failure
        return None

    icl = writer(model=FakeStepper(unreadable, pieces=PIECES))
    assert len(list(icl.rounds())) == 3


def test_control_tokens_are_never_written():
    # The control token has the best logit everywhere; it has no text, so that rows would not show it.
    seen = set()

    class Watched(FakeStepper):
        def decode(self, tokens):
            seen.update(tokens)
            return super().decode(tokens)

    icl = writer(model=Watched(likes_its_own, pieces=PIECES))
    assert all(set(row["text"].split()) <= {"fee", "theft", "late"} for one in icl.rounds() for row in one.rows)
    assert seen
    assert not seen & set(icl.model.forbidden_tokens)


def test_texts_end_with_a_line_and_the_progress_adds_up():
    seen = []
    icl = writer(model=FakeStepper(lambda p, t: [0.0, 0.0, 0.0, 60.0, 0.0, 0.0], pieces=PIECES))
    found = list(icl.rounds(on_token=seen.append))
    assert sum(seen) == 3 * 2 * ORDER.tokens
    assert all(one.unreadable == 2 for one in found)


# Resuming


def test_a_finished_round_is_handed_over_again_without_a_charge(tmp_path):
    icl = writer(tmp_path / "a.db")
    checkpoint = Checkpoint(tmp_path / "demos.jsonl", icl.terms, icl.new_run_state(), resume=False)
    first = next(icl.rounds(checkpoint))
    checkpoint.close()
    again = writer(tmp_path / "a.db")
    resumed = Checkpoint(tmp_path / "demos.jsonl", again.terms, again.new_run_state(), resume=True)
    found = list(again.rounds(resumed))
    assert found[0].rows == first.rows
    assert found[0].again
    assert [one.again for one in found] == [True, False, False]
    assert kinds(again.ledger).count("reserve") == 3
    assert again.balance.spent == icl.balance.spent


def test_a_round_that_left_and_is_gone_is_not_drawn_again(tmp_path):
    icl = writer(tmp_path / "a.db")
    checkpoint = Checkpoint(tmp_path / "demos.jsonl", icl.terms, icl.new_run_state(), resume=False)
    next(icl.rounds(checkpoint))
    (checkpoint.folder / "round-1").unlink()
    checkpoint.close()
    again = writer(tmp_path / "a.db")
    resumed = Checkpoint(tmp_path / "demos.jsonl", again.terms, again.new_run_state(), resume=True)
    with pytest.raises(InputError, match=r"Round 1 was released, and is missing .* Nothing more was charged"):
        list(again.rounds(resumed))
    assert [one.number for one in again.rounds(resumed, redraw=False)] == [2, 3]
    assert again.left_out == [1]
    assert kinds(again.ledger).count("release") == 3


def test_two_processes_cannot_release_the_same_round(tmp_path):
    icl, other = writer(tmp_path / "a.db"), writer(tmp_path / "a.db")
    run_state = icl.new_run_state()
    mine, theirs = icl.rounds(run_state=run_state), other.rounds(run_state=run_state)
    next(mine)
    list(theirs)
    with pytest.raises(LedgerMismatchError):
        next(mine)


def test_other_records_terms_or_ledgers_are_not_resumed(tmp_path):
    icl = writer(tmp_path / "a.db")
    Checkpoint(tmp_path / "demos.jsonl", icl.terms, icl.new_run_state(), resume=False).close()
    labels = Task(labels=["billing", "fraud", "shipping"])
    other_model = FakeStepper(likes_its_own, pieces=PIECES, name="other")
    owner = writer(tmp_path / "a.db")
    others = PrivateRecords(rows(26), source="notes")
    identity = Identity(others.fingerprint, owner.adjacency, owner.unit)
    owner.ledger.grant(identity, Budget(100, 1e-5), name="others")
    for name, other in {
        "other records": writer(tmp_path / "a.db", records=others),
        "other records, or another ledger": writer(tmp_path / "b.db"),
        "method's clip": writer(tmp_path / "a.db", epsilon=19.0),
        "method": writer(tmp_path / "a.db", method="prism"),
        "model": writer(tmp_path / "a.db", model=other_model),
        "labels": writer(tmp_path / "a.db", task=labels),
    }.items():
        with pytest.raises(InputError, match=f"has {name}\\b"):
            Checkpoint(tmp_path / "demos.jsonl", other.terms, other.new_run_state(), resume=True)


# What is refused and stated


def test_a_seeded_source_is_refused_for_real_records_and_marked_for_synthetic_ones():
    with pytest.raises(ParameterError, match="whoever knows the seed"):
        writer(records=PrivateRecords(rows(), source="notes"), randomness=SeededRandomness(1))
    icl = writer(records=PrivateRecords(rows(), source="notes", synthetic=True), randomness=SeededRandomness(1))
    run_state = icl.new_run_state()
    list(icl.rounds(run_state=run_state))
    assert "NO privacy guarantee" in icl.certificate(run_state, []).statement


def test_isolation_that_was_not_verified_stands_in_the_ledger_and_in_the_certificate():
    model = FakeStepper(likes_its_own, pieces=PIECES, isolation=Isolation.NOT_VERIFIED)
    icl = writer(model=model)
    run_state = icl.new_run_state()
    list(icl.rounds(run_state=run_state))
    assert icl.balance.unverified == 3
    assert "not verified" in icl.certificate(run_state, []).statement


def test_prompts_that_are_seen_to_mix_while_they_are_read_are_counted_in_the_ledger():
    def mixing(prompt, text):
        model.isolation = Isolation.NOT_VERIFIED if "theft" in prompt.private_text else model.isolation
        return likes_its_own(prompt, text)

    model = FakeStepper(mixing, pieces=PIECES)
    icl = writer(model=model)
    run_state = icl.new_run_state()
    list(icl.rounds(run_state=run_state))
    assert (icl.balance.unverified, icl.ledger.verify()) == (3, [])


def test_a_rehearsal_that_fails_says_what_was_charged(tmp_path):
    def broken(prompt, text):
        raise RuntimeError("gone")

    place, model = tmp_path / "a.db", FakeStepper(broken)
    paid = writer(place)
    run_state = paid.new_run_state()
    list(paid.rounds(run_state=run_state))
    for run, said in ((paid.new_run_state(), r"Nothing was charged\."), (run_state, r"Nothing more was charged\.")):
        with pytest.raises(ModelError, match=said):
            list(writer(place, model=model).rounds(run_state=run))


@pytest.mark.parametrize(
    "wrong", [{"per_label": 0}, {"tokens": 0}, {"per_label": 4, "texts_per_batch": 3}, {"experts": 0}, {"tokens": 1.5}]
)
def test_an_order_that_cannot_be_met_is_refused(wrong):
    with pytest.raises(ParameterError):
        SynthesisConfig(**wrong)


def test_nothing_private_is_in_its_repr():
    icl = writer()
    assert repr(icl) == "Synthesizer(method='invisible-ink', model='fake', replace-one)"
    assert not {"fee", "theft"} & set(re.findall(r"[0-9a-z]+", str(icl.terms)))  # "fee" by itself, not within a hash
