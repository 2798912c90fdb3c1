"""A charge is drawn once: nothing that a draw runs into can be seen to fail, and what is cut off is charged anew.

A draw that fails where it can be seen, and is made again under its charge, releases how often it failed. Five failures
that the records make likely then cost five times what was charged.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sottovoce.errors import BudgetExhaustedError, LedgerMismatchError, ModelError
from sottovoce.experts.token_scores import candidates_of, log_prior_of
from sottovoce.files.checkpoint import Checkpoint, Output
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.decoding.decoder import make_decoder, registered_decoders
from sottovoce.methods.poe import PoE
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.models.stepper import Group, Prompt
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Account
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import Partition, PrivateICL
from sottovoce.synthesis.config import SynthesisConfig
from sottovoce.synthesis.synthesizer import Synthesizer
from sottovoce.synthesis.text import Text
from sottovoce.tasks import Task

ONE = SynthesisConfig(per_label=1, tokens=2, experts=1)
X, Y = 0, 1
INF = math.inf


def public_breaks_off(prompt, text):
    """After the token x the public prompt has no finite score; x is what a secret makes likely."""
    if text[-1:] == (X,) and not prompt.private_text:
        return [math.nan] * 4
    return says(prompt)


def says(prompt):
    if not prompt.private_text:
        return [0.0, 0.0, -INF, -INF]
    return [8.0, 0.0, 0.0, -INF] if "secret" in prompt.private_text else [0.0, 8.0, 0.0, -INF]


def far_apart(prompt, text):
    """Public scores as far apart as floats are, once there is a token."""
    return says(prompt) if prompt.private_text or not text else [3e38, -3e38, -INF, -INF]


def stepper(function):
    return FakeStepper(function, pieces=["x", "y"])


def run_of(function, *, secret=True, ledger=":memory:", budget=None, **options):
    rows = [Row(1, {"text": "secret" if secret else "plain"})]
    given = {"epsilon": 1.0, "delta": 0.0, "method": "poe-decoding", **options}
    return Synthesizer(
        PrivateRecords(rows, source="notes", synthetic=True),  # one budget after another
        given.pop("writing", GenerationTemplate(("text",))),
        given.pop("order", ONE),
        model=given.pop("model", None) or stepper(function),
        budget=budget or Budget(given["epsilon"], given["delta"]),
        ledger=str(ledger),
        **given,
    )


def kinds(icl) -> list[str]:
    return [entry["kind"] for entry in icl.ledger.history()][1:]


# What a draw runs into is the end of the text


@pytest.mark.slow
@pytest.mark.parametrize("secret", [True, False])
def test_a_public_prompt_that_breaks_off_ends_the_text_and_is_no_failure(secret, tmp_path):
    seen = set()
    for number in range(12):
        icl = run_of(public_breaks_off, secret=secret, ledger=tmp_path / f"{number}.db")
        (only,) = icl.rounds()
        seen |= {row["text"] for row in only.rows}
        assert kinds(icl) == ["reserve", "draw", "release"]
        assert icl.balance.spent == pytest.approx(1.0, abs=1e-4)
    assert seen <= {"x", "yx", "yy"}, "after an x nothing could be written"


def law_of_a_run(secret: bool) -> dict[str, float]:
    """Probability of everything that can be seen of a run of two tokens, exactly."""
    icl = run_of(public_breaks_off, secret=secret)
    inside = Prompt("a", "secret" if secret else "plain", ":")
    seen: dict[str, float] = {}

    def go_on(text, tokens, probability):
        read = icl.model.read([Group(Prompt("a", "", ":"), [inside])], max_private_tokens=9, tokens=2)
        decoding = read.write([0], 2)
        for token in (None, *tokens):
            [step] = decoding.step({0: token})
        chooser = icl.plan.decoder.start(
            icl.plan, icl._randomness, eos_tokens=icl.model.eos_tokens, forbidden_tokens=icl.model.forbidden_tokens
        )
        law = chooser.law(step)
        if not law.any():  # no candidate: the end of the text, not a failure beside the texts
            seen[text] = seen.get(text, 0.0) + probability
        for token in np.flatnonzero(law):
            more = text + icl.model.decode([int(token)])
            if len(tokens) == 1:
                seen[more] = seen.get(more, 0.0) + probability * law[token]
            else:
                go_on(more, [*tokens, int(token)], probability * law[token])

    go_on("", [], 1.0)
    assert sum(seen.values()) == pytest.approx(1.0)
    return seen


def test_everything_that_can_be_seen_of_a_run_is_within_its_charge_and_a_free_redraw_would_not_be():
    charged = run_of(public_breaks_off).plan.report.epsilon
    p, q = law_of_a_run(True), law_of_a_run(False)
    assert p.keys() == q.keys()
    assert max(abs(math.log(p[text] / q[text])) for text in p) <= charged + 1e-9
    # As it was: the text x was a failure that could be seen, and was drawn again for nothing.
    failed = math.log(p["x"] / q["x"])
    assert failed > 0.2 * charged
    assert 5 * failed > charged, "five failures under one charge"


@pytest.mark.cases(5)
@pytest.mark.parametrize("method", sorted(registered_decoders()))
@pytest.mark.parametrize("function", [public_breaks_off, far_apart], ids=["breaks off", "far apart"])
def test_no_decoder_fails_over_what_it_drew(method, function):
    delta = 1e-6 if method in ("amin", "tang") else 0.0
    options = {
        "epsilon": 60.0,
        "delta": delta,
        "method": method,
        "order": SynthesisConfig(per_label=4, tokens=3, experts=1),
    }
    icl = run_of(function, **options, budget=Budget(100, 1e-5 if delta else 0.0))
    found = list(icl.rounds())
    assert [one.number for one in found] == [1, 2, 3, 4]
    assert kinds(icl) == [*["reserve"] * 4, *["draw", "release"] * 4]


@pytest.mark.parametrize("temperature", [1e-300, 1e-3, 1.0])
def test_a_public_prior_has_a_candidate_in_play_at_every_temperature(temperature):
    import torch

    for scores in ([3e38, -3e38, 1.0], [-3e38, -3e38, -3e38], [3e38, 3e38, 1e-30]):
        prior = log_prior_of(candidates_of(torch.tensor(scores)), temperature)
        assert prior.max() == 0
        assert not np.isnan(prior).any()


class Breaks:
    """A grammar's state, of which one part fails."""

    def __init__(self, part):
        self.part, self.over = part, False

    def allowed(self):
        import torch

        if self.part == "allowed":
            raise RuntimeError("a limit of the library")
        return torch.tensor([X, Y])

    def accept(self, token):
        if self.part == "accept":
            raise RuntimeError("a token that is refused")


@pytest.mark.parametrize("part", ["allowed", "accept", "ended"])
def test_whatever_tokens_lead_to_ends_the_text(part):
    icl = run_of(public_breaks_off)

    def ended(tokens):
        if part == "ended":
            raise ValueError("a tokenizer that cannot decode them")
        return False

    read = icl.model.read([Group(Prompt("a", "", ":"), [])], max_private_tokens=9, tokens=2)
    [step] = read.write([0], 2).step({0: None})
    chooser = icl.plan.decoder.start(icl.plan, icl._randomness, eos_tokens=icl.model.eos_tokens)
    text = Text(chooser, ended, Breaks(part))
    assert text.next(step) is None
    assert len(text.tokens) == (part != "allowed")


@pytest.mark.parametrize("decoded", ["\ud800", None])
def test_a_tokenizer_that_cannot_say_a_text_leaves_it_unreadable(tmp_path, decoded):
    class Odd(FakeStepper):
        def decode(self, tokens):
            if not tokens:
                return ""
            if decoded is None:
                raise ValueError(f"no text: {tokens}")
            return decoded

    icl = run_of(None, model=Odd(public_breaks_off, pieces=["x", "y"]))
    checkpoint = Checkpoint(tmp_path / "rows.jsonl", icl.terms, icl.new_run_state(), resume=False)
    (only,) = icl.rounds(checkpoint)
    assert len(only.rows) + only.unreadable == 1
    checkpoint.carry_out(lambda: (None, Output.of_rows(only.rows, checkpoint.out)))


def test_what_can_be_seen_from_public_prompts_alone_is_refused_before_the_charge():
    icl = run_of(lambda prompt, text: [math.nan] * 4)
    with pytest.raises(ModelError, match="no token"):
        list(icl.rounds())
    assert kinds(icl) == []


# What is cut off is charged anew


def fails_after_x(prompt, text):
    """As a device out of memory would: the failure follows from what was drawn."""
    if text[-1:] == (X,) and prompt.private_text:
        raise MemoryError
    return says(prompt)


def test_every_failure_that_follows_from_a_draw_costs_a_charge(tmp_path):
    charges = 5
    failures, resume, refused = 0, False, None
    for _ in range(60):
        icl = run_of(fails_after_x, ledger=tmp_path / "a.db", budget=Budget(charges))
        checkpoint = Checkpoint(tmp_path / "rows.jsonl", icl.terms, icl.new_run_state(), resume=resume)
        resume = True
        try:
            list(icl.rounds(checkpoint))
            break
        except ModelError:
            failures += 1
        except BudgetExhaustedError as error:
            refused = str(error)
            break
        finally:
            checkpoint.close()
        assert icl.balance.spent == pytest.approx(failures, abs=1e-4)
        assert kinds(icl) == ["reserve", "draw"] * failures
    else:
        pytest.fail("the draw failed sixty times")
    assert icl.balance.spent == pytest.approx(min(failures + 1, charges), abs=1e-4)
    assert refused is None or (failures == charges and "began to be drawn" in refused)
    assert icl.ledger.verify() == []


def test_the_certificate_is_for_every_charge_of_its_run(tmp_path):
    options = {
        "ledger": tmp_path / "a.db",
        "budget": Budget(9),
        "order": SynthesisConfig(per_label=2, tokens=2, experts=1),
    }
    icl = run_of(fails_after_x, **options)
    run_state = icl.new_run_state()
    calls = iter([True, True])

    def fails_twice(prompt, text):
        if prompt.private_text and text and next(calls, False):
            raise MemoryError
        return says(prompt)

    icl.model = stepper(fails_twice)
    for _ in range(2):
        with pytest.raises(ModelError):
            list(icl.rounds(run_state=run_state))
    rows = [dict(row) for one in icl.rounds(run_state=run_state) for row in one.rows]
    assert [entry["release_id"].partition("-")[2] for entry in icl.ledger.history() if entry["kind"] == "reserve"] == [
        "1", "2", "1.2", "1.3",
    ]  # fmt: skip
    certificate = icl.certificate(run_state, rows)
    assert [one.partition("-")[2] for one in certificate.ledger] == ["1", "1.2", "1.3", "2"]
    assert certificate.epsilon == pytest.approx(2 * icl.plan.report.epsilon)
    checks = certificate.checks(rows, icl.ledger, icl._records)
    assert all(check.holds for check in checks), checks


def test_a_plan_that_is_charged_as_a_whole_is_charged_as_a_whole_again(tmp_path):
    decoder = make_decoder("tang", noise="em", fresh="token", sampling_rate=0.5)
    failing = iter([True])

    def fails_once(prompt, text):
        if prompt.private_text and text and next(failing, False):
            raise MemoryError
        return [0.0, 0.0, -INF, -INF]

    icl = run_of(
        fails_once,
        method=decoder,
        order=SynthesisConfig(per_label=3, tokens=3, experts=4),
        delta=1e-6,
        adjacency="add-remove",
        budget=Budget(9, 1e-5, failure_delta=5e-6),
    )
    run_state = icl.new_run_state()
    with pytest.raises(ModelError):
        list(icl.rounds(run_state=run_state))
    rows = [dict(row) for one in icl.rounds(run_state=run_state) for row in one.rows]
    certificate = icl.certificate(run_state, rows)
    assert (len(certificate.ledger), certificate.delta) == (2, 2e-6)
    assert certificate.epsilon == pytest.approx(2 * icl.plan.report.epsilon)
    assert all(check.holds for check in certificate.checks(rows, icl.ledger, icl._records))


@pytest.mark.parametrize(("batches", "charges"), [(1, 1), (2, 2)])
def test_to_read_again_is_free_unless_coins_decide_what_is_read(batches, charges):
    # Records are dealt out to several batches by coins: whether they fit into the memory follows from these.
    failing = iter([True])

    class Small(FakeStepper):
        def read(self, groups, **options):
            if any(group.experts for group in groups) and next(failing, False):
                raise MemoryError
            return super().read(groups, **options)

    order = SynthesisConfig(per_label=batches, texts_per_batch=1, tokens=2, experts=1)
    icl = run_of(None, model=Small(public_breaks_off, pieces=["x", "y"]), order=order, budget=Budget(9))
    run_state = icl.new_run_state()
    with pytest.raises(ModelError):
        list(icl.rounds(run_state=run_state))
    assert kinds(icl) == ["reserve", *["draw"] * (batches > 1)]
    assert len(list(icl.rounds(run_state=run_state))) == 1
    assert kinds(icl).count("reserve") == charges


def test_two_processes_never_draw_under_one_charge(tmp_path):
    mine, other = (run_of(public_breaks_off, ledger=tmp_path / "a.db", budget=Budget(2)) for _ in range(2))
    run_state, begin = mine.new_run_state(), Account.begin

    def late(ids):
        other._account.begin(ids)
        begin(mine._account, ids)

    mine._account.begin = late
    steps = mine.model.steps
    with pytest.raises(LedgerMismatchError, match="began to be drawn"):
        list(mine.rounds(run_state=run_state))
    assert mine.model.steps == steps + 1, "the rehearsal, and no draw"


def test_a_charge_that_was_never_made_cannot_begin(tmp_path):
    icl = run_of(public_breaks_off)
    with pytest.raises(LedgerMismatchError, match="never charged"):
        icl._account.begin(["abc-1"])


# Answers of a session


TASK = Task(labels=["billing", "fraud"])


def session(**options):
    rows = [Row(i, {"id": f"r{i}", "text": f"note {i}", "label": "billing"}) for i in range(1, 7)]
    given = {"records": PrivateRecords(rows, source="notes"), "model": FakeScorer(), "ledger": ":memory:", **options}
    return PrivateICL(task=TASK, budget=Budget(1.0), **given)


def test_an_answer_whose_draw_fails_is_not_drawn_again_under_its_charge(monkeypatch):
    # Whether it fails may follow from what was drawn.
    draws, choose = [], PoE.choose
    monkeypatch.setattr(PoE, "choose", lambda *a: (draws.append(choose(*a)), 1 / 0)[0])
    icl = session(method="poe")
    with pytest.raises(ZeroDivisionError):
        icl.ask("q", epsilon=0.25, release_id="ticket-17")
    monkeypatch.undo()
    with pytest.raises(LedgerMismatchError, match="used before"):
        icl.ask("q", epsilon=0.25, release_id="ticket-17")
    assert len(draws) == icl.balance.answers == 1


@pytest.mark.parametrize(
    ("partition", "adjacency", "free"),
    [
        (Partition(), "replace-one", True),
        (Partition(), "add-remove", True),
        (Partition(units_per_expert=2), "replace-one", False),
        (Partition(units_per_expert=2), "zero-out", False),
        (Partition(capacity=64), "add-remove", False),
        (Partition(units_per_expert=2, capacity=3), "add-remove", False),
    ],
    ids=str,
)
def test_an_answer_that_could_not_be_read_is_asked_again_for_nothing_where_no_coin_decides_what_is_read(
    partition, adjacency, free
):
    failing = iter([True])

    def crashing(task, context, query):
        if context and next(failing, False):
            raise MemoryError
        return FakeScorer().function(task, context, query)

    icl = session(partition=partition, adjacency=adjacency, model=FakeScorer(crashing))
    assert icl._draws_to_read is not free
    with pytest.raises(ModelError):
        icl.ask("q", epsilon=0.25, release_id="ticket-17")
    if free:
        icl.ask("q", epsilon=0.25, release_id="ticket-17")
    else:
        with pytest.raises(LedgerMismatchError, match="used before"):
            icl.ask("q", epsilon=0.25, release_id="ticket-17")
    assert icl.balance.answers == 1


def test_what_is_charged_covers_every_draw_by_an_accountant(tmp_path):
    icl = run_of(fails_after_x, ledger=tmp_path / "a.db", budget=Budget(50))
    run_state, draws = icl.new_run_state(), 0
    for _ in range(40):
        try:
            list(icl.rounds(run_state=run_state))
        except ModelError:
            draws += 1
            continue
        draws += 1
        break
    total = RdpAccountant(icl.adjacency).compose(icl.plan.event, draws).report(0.0).epsilon
    charged = [json.loads(e["detail"])["event"] for e in icl.ledger.history() if e["kind"] == "reserve"]
    assert len(charged) == draws
    assert icl.balance.spent == pytest.approx(total)
