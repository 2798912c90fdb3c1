"""Few-shot generation as published: a fresh sample of the records for every token, amplified where that holds."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction

import pytest

from sottovoce.errors import InputError, ParameterError
from sottovoce.methods.base import Price
from sottovoce.methods.tang import Tang
from sottovoce.models.fake import FakeStepper
from sottovoce.privacy.accounting import accountant
from sottovoce.privacy.events import ApproximateDP
from sottovoce.privacy.ledger.account import Account
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SystemRandomness
from sottovoce.records.sealed import PrivateRecords
from sottovoce.synthesis.config import SynthesisConfig, plan_of, plan_of_charges, restated
from sottovoce.synthesis.synthesizer import Synthesizer
from sottovoce.tasks import Task
from synthesis.test_command import desk
from synthesis.worlds_of_texts import rows

__all__ = ["desk"]

COMMAND = (
    "synthesize", "--private", "notes.jsonl", "--labels", "billing,fraud", "--model", "fake", "--per-label", "2",
    "--tokens", "8", "--method", "tang", "--noise", "em", "--sampling-probability", "0.25", "--experts", "10",
    "--epsilon", "3", "--delta", "1e-6", "--out", "demos.jsonl", "--adjacency", "add-remove",
)  # fmt: skip
LEDGER = ("--ledger", "notes.db", "--budget", "30,1e-5,failure=5e-6")


def test_a_run_is_one_point_of_the_ledger_and_its_certificate_holds(desk):
    code, _, err = desk(*COMMAND, *LEDGER)
    assert (code, "Adding or removing any one record" in err) == (0, True)
    assert desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0
    certificate = json.loads((desk.folder / "demos.jsonl.certificate.json").read_text("utf-8"))
    assert 2.99 < certificate["epsilon"] <= 3
    assert len(certificate["ledger"]) == 1


@pytest.mark.cases(1)
@pytest.mark.parametrize(("epsilon", "texts", "tokens"), [("1", "1", "3"), ("3", "2", "8"), ("0.5", "1", "3")])
def test_a_certificate_is_priced_by_the_bounds_of_its_plan(desk, epsilon, texts, tokens):
    """By another bound, which plans of samples do not look at, a few of these cost a little less."""
    others = ("--noise", "exponential", "--epsilon", epsilon, "--per-label", texts, "--tokens", tokens)
    assert desk(*COMMAND, *LEDGER, *others)[0] == 0
    code, out, _ = desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")
    assert code == 0, out
    code, _, err = desk(*COMMAND, *LEDGER, *others, "--resume")
    assert (code, "Nothing to do" in err) == (0, True), err


@pytest.mark.parametrize("figure", ["epsilon", "delta"])
def test_with_the_ledger_the_event_of_a_certificate_is_the_one_that_was_charged(desk, figure):
    """To another processor's rounding it could be another one: with the ledger there is no need to work it out."""
    desk(*COMMAND, *LEDGER)
    file = desk.folder / "demos.jsonl.certificate.json"
    held = json.loads(file.read_text("utf-8"))
    held["event"][figure] *= 1 - 5e-10
    file.write_text(json.dumps(held), "utf-8")
    assert desk("verify", "certificate", file.name)[0] == 0
    code, out, _ = desk("verify", "certificate", file.name, "--ledger", "notes.db")
    assert (code, "another event was charged" in out) == (2, True), out


@pytest.fixture
def other_processor(monkeypatch):
    """Rounds loss distributions in another way, by a factor."""
    by_losses = accountant._by_losses

    def begin(factor: float) -> None:
        monkeypatch.setattr(accountant, "_by_losses", lambda *given: by_losses(*given) * factor)
        accountant._bound.cache_clear()

    yield begin
    accountant._bound.cache_clear()


@pytest.mark.slow
def test_a_paid_run_goes_on_and_is_known_where_another_processor_rounds_its_price(desk, other_processor, monkeypatch):
    def interrupted(*given, **more):
        raise KeyboardInterrupt

    read = FakeStepper.read
    monkeypatch.setattr(
        FakeStepper, "read", lambda model, groups, **o: (interrupted if groups[0].experts else read)(model, groups, **o)
    )
    assert desk(*COMMAND, *LEDGER)[0] == 130
    monkeypatch.setattr(FakeStepper, "read", read)
    other_processor(1 - 1e-9)
    code, _, err = desk(*COMMAND, *LEDGER, "--resume")
    assert (code, "Rows: demos.jsonl" in err) == (0, True), err
    assert desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0
    other_processor(1 + 1e-9)
    code, _, err = desk(*COMMAND, *LEDGER, "--resume")
    assert (code, "Nothing to do" in err) == (0, True), err
    other_processor(1 - 1e-4)  # as far apart as no rounding is at this delta
    code, _, err = desk(*COMMAND, *LEDGER, "--resume")
    assert (code, "differs from what this command writes in" in err) == (2, True), err


@pytest.mark.slow
def test_a_certificate_of_a_run_with_a_lost_draw_holds_on_another_processor(desk, other_processor, monkeypatch):
    def stopped(account, *given, **more):
        begin(account, *given, **more)
        os._exit(9)

    begin = Account.begin
    if (pid := os.fork()) == 0:
        monkeypatch.setattr(Account, "begin", stopped)
        desk(*COMMAND, *LEDGER)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert desk(*COMMAND, *LEDGER, "--resume")[0] == 0
    file = desk.folder / "demos.jsonl.certificate.json"
    assert len(json.loads(file.read_text("utf-8"))["ledger"]) == 2
    for factor in (1, 1 - 2e-8, 1 + 2e-8):
        other_processor(factor)
        for ledger in ((), ("--ledger", "notes.db")):
            code, out, _ = desk("verify", "certificate", file.name, *ledger)
            assert (code, factor) == (0, factor), out


@pytest.mark.cases(1)
@pytest.mark.parametrize("charged", [False, True])
def test_a_folder_that_was_edited_lowers_no_price(desk, monkeypatch, charged):
    """Before it is charged a run costs what it costs here, and afterwards what the ledger holds."""
    if (pid := os.fork()) == 0:
        place = (FakeStepper, "read") if charged else (Synthesizer, "_rehearse")
        whole = getattr(*place)

        def killed(model, groups, **options):
            if not charged or groups[0].experts:
                os._exit(9)
            return whole(model, groups, **options)

        monkeypatch.setattr(*place, killed if charged else lambda *given: os._exit(9))
        desk(*COMMAND, *LEDGER)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    header = desk.folder / "demos.jsonl.partial" / "run.json"
    held = json.loads(header.read_text("utf-8"))
    held["terms"]["epsilon"] *= 1 - 1e-9  # within what is taken for rounding at this delta
    header.write_text(json.dumps(held), "utf-8")
    code, _, err = desk(*COMMAND, *LEDGER, "--resume")
    assert (code, "has epsilon 2.99" in err) == (2, True), err


def test_a_writer_that_looks_at_certificates_keeps_its_price(tmp_path):
    budget = Budget(30, 1e-5, failure_delta=5e-6)
    icl = Synthesizer(
        PrivateRecords(list(rows()), source="notes"), Task(labels=["billing", "fraud"]),
        SynthesisConfig(per_label=1, tokens=2, experts=10), epsilon=3, delta=1e-8, model=FakeStepper(),
        method=Tang(noise="em", fresh="token", sampling_rate=0.25), adjacency="add-remove", budget=budget,
        ledger=str(tmp_path / "n.db"),
    )  # fmt: skip
    run_state = icl.new_run_state()
    made = [row for one in icl.rounds(run_state=run_state) for row in one.rows]
    honest, price = icl.certificate(run_state, made), icl.plan.report.epsilon
    for look in range(3):
        lower = replace(honest, asked={**honest.asked, "epsilon": price * (1 - 1e-6)})
        with pytest.raises(InputError, match="differs from what this command writes"):
            icl.require_own(lower, made, "demos.jsonl")
        assert icl.plan.report.epsilon == price, look


def test_a_price_is_restated_where_it_differs_by_rounding_alone():
    order = SynthesisConfig(per_label=2, tokens=2, experts=40)
    method = Tang(noise="em", fresh="token", sampling_rate=0.25)
    plan = plan_of(method, order, Price(1, 1e-6), Adjacency.ADD_REMOVE, "record", 40)
    near = plan.report.epsilon * (1 + 1e-9)
    assert restated(plan, near).report.epsilon == restated(plan, near).event.epsilon == near
    for other in (plan.report.epsilon * (1 - 1e-6), 0.5, float("nan"), "1", None):
        assert restated(plan, other) is plan


@pytest.mark.slow
def test_the_price_with_draws_that_were_lost_is_finite_at_every_delta():
    # 5 * 1e-6 is 4.9999999999999996e-06: less than what five points fail with together.
    order, method = (
        SynthesisConfig(per_label=2, tokens=2, experts=40),
        Tang(noise="em", fresh="token", sampling_rate=0.25),
    )
    for delta in (1e-6, 3e-8, 7e-5, 1e-5):
        plan = plan_of(method, order, Price(1, delta), Adjacency.ADD_REMOVE, "record", 40)
        for more in range(1, 12):
            lost = plan_of_charges(plan, more).report
            assert lost.epsilon == pytest.approx((1 + more) * plan.report.epsilon)
            assert lost.delta == pytest.approx((1 + more) * delta, rel=1e-15)


@pytest.mark.slow
def test_fresh_samples_buy_more_weight_than_a_fixed_batch():
    price, order = Price(3, 1e-6), SynthesisConfig(per_label=2, tokens=8, experts=40)
    fixed, fresh = (
        plan_of(decoder, order, price, Adjacency.ADD_REMOVE, "record", 40)
        for decoder in (Tang(noise="em"), Tang(noise="em", fresh="token", sampling_rate=0.25))
    )
    assert isinstance(fresh.event, ApproximateDP)
    assert fresh.report.epsilon <= 3
    # One record's weight in a token of which it is a part, and hence what its sample can say.
    assert fresh.eta > 1.5 * fixed.eta


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--adjacency", "replace-one"), "add-remove"),
        (("--noise", "gaussian"), "Gaussian"),
        (("--method", "prism", "--noise", "em"), "--method tang"),
        (("--sampling-probability", "1.5"), "sampling"),
    ],
)
def test_where_amplification_does_not_hold_nothing_is_charged(desk, more, told):
    code, _, err = desk(*COMMAND, *LEDGER, *more)
    assert (code, told in err) == (2, True)
    assert not (desk.folder / "notes.db").exists()


def test_a_sample_of_a_whole_batch_is_priced_but_not_written():
    with pytest.raises(ParameterError, match="fixed here"):
        plan_of(
            Tang(noise="em", fresh="batch", sampling_rate=0.1), SynthesisConfig(tokens=4), Price(1, 1e-6),
            Adjacency.ADD_REMOVE, "record", 10,
        )  # fmt: skip


def test_a_dry_run_tells_the_price_where_there_is_one(desk):
    words = [word for word in COMMAND if word not in ("--private", "notes.jsonl", "add-remove", "--adjacency")]
    code, out, _ = desk(*words, "--dry-run", "--json")
    assert (code, [plan["adjacency"] for plan in json.loads(out)["plans"]]) == (0, ["add-remove"])


def test_coins_come_from_the_source_of_noise(desk, monkeypatch):
    # Every expert of both labels tosses at every token: the source is asked for numbers below 4 as often.
    asked = []
    below = SystemRandomness.below
    monkeypatch.setattr(SystemRandomness, "below", lambda self, bound: asked.append(bound) or below(self, bound))
    assert desk(*COMMAND, *LEDGER, "--per-label", "1", "--tokens", "1")[0] == 0
    assert asked.count(Fraction("0.25").denominator) == len(rows())
