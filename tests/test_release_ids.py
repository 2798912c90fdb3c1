"""An answer's own name: asked again after a crash it is not charged again, and it never leaves twice."""

from __future__ import annotations

import pytest

from sottovoce.errors import BudgetExhaustedError, LedgerMismatchError, ModelError, ParameterError
from sottovoce.models.fake import FakeScorer, one_shot
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Task

TASK = Task(labels=["billing", "fraud"])


def session(model=None, **options):
    rows = [Row(i, {"id": f"r{i}", "text": f"note {i}", "label": "billing"}) for i in range(1, 6)]
    defaults = {"records": PrivateRecords(rows, source="notes"), "task": TASK, "budget": Budget(1.0)}
    return PrivateICL(model=model or FakeScorer(), **{"ledger": ":memory:", **defaults, **options})


def crashing(task, context, query):
    if context:
        raise MemoryError
    return one_shot(task, context, query)


def test_an_answer_that_crashed_is_asked_again_for_nothing(tmp_path):
    path = str(tmp_path / "notes.db")
    with pytest.raises(ModelError):
        session(FakeScorer(crashing), ledger=path).ask("q", epsilon=1.0, release_id="ticket-17")
    again = session(ledger=path)
    assert again.balance.left == 0
    release = again.ask("q", epsilon=1.0, release_id="ticket-17")
    assert (release.release_id, release.remaining.answers, release.remaining.spent) == ("ticket-17", 1, 1.0)
    with pytest.raises(BudgetExhaustedError):
        again.ask("q", epsilon=1.0)
    with pytest.raises(BudgetExhaustedError):
        again.ask("q", epsilon=0.5, release_id="ticket-18")


def test_an_answer_that_left_asks_no_model_again():
    model = FakeScorer()
    icl = session(model)
    icl.ask("q", epsilon=0.25, release_id="ticket-17")
    calls = model.calls
    for epsilon in (0.25, 0.5):
        with pytest.raises(LedgerMismatchError, match="used before"):
            icl.ask("q", epsilon=epsilon, release_id="ticket-17")
    assert model.calls == calls
    assert icl.balance.answers == 1


def test_who_loses_a_race_for_an_answer_does_not_hand_his_out(tmp_path, monkeypatch):
    path = str(tmp_path / "notes.db")
    mine, other = session(ledger=path), session(ledger=path)
    marked = Account.mark_released

    def late(account, ids, **isolated):
        monkeypatch.setattr(Account, "mark_released", marked)
        assert other.ask("q", epsilon=0.5, release_id="ticket-17").value in TASK.labels
        marked(account, ids, **isolated)

    monkeypatch.setattr(Account, "mark_released", late)
    with pytest.raises(LedgerMismatchError, match="already released"):
        mine.ask("q", epsilon=0.5, release_id="ticket-17")
    ledger = Ledger(path)
    assert [entry["kind"] for entry in ledger.history()] == ["open", "reserve", "release"]
    assert ledger.verify() == []


def test_another_price_or_method_is_another_answer():
    icl = session(FakeScorer(crashing))
    with pytest.raises(ModelError):
        icl.ask("q", epsilon=0.25, release_id="ticket-17")
    with pytest.raises(LedgerMismatchError, match="used before"):
        icl.ask("q", epsilon=0.2, release_id="ticket-17")
    other = session(method="rnm", ledger=icl.ledger)
    with pytest.raises(LedgerMismatchError, match="used before"):
        other.ask("q", epsilon=0.25, release_id="ticket-17")


def test_methods_without_a_guarantee_keep_to_it_too():
    icl = session(method="soft", allow_non_private=True)
    icl.ask("q", epsilon=1, release_id="n")
    with pytest.raises(LedgerMismatchError, match="used before"):
        icl.ask("q", epsilon=1, release_id="n")
    assert icl.balance.non_private == 1
    assert session(method="zero-shot", records=None).ask("q", epsilon=1, release_id="z").release_id == "z"


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, 7, "\n"])
def test_a_name_that_is_none_is_refused_before_anything(name):
    model = FakeScorer()
    icl = session(model)
    with pytest.raises(ParameterError, match="release_id"):
        icl.ask("q", epsilon=0.5, release_id=name)
    assert (model.calls, icl.balance.answers) == (0, 0)


def test_a_caller_spends_its_own_part(tmp_path):
    path = str(tmp_path / "notes.db")
    owner = session(ledger=path)
    with pytest.raises(LedgerMismatchError, match="no caller 'alice'"):
        session(ledger=path, caller="alice")
    account = owner._account
    from sottovoce.privacy.ledger.ledger import Identity

    identity = Identity(owner._records.fingerprint, owner.adjacency, owner._records.unit)
    Ledger.of(account).allot(identity, budget=Budget(0.5), caller="alice")
    alice = session(ledger=path, caller="alice", budget=None)
    assert alice.ask("q", epsilon=0.5).remaining.answers_left(alice.terms(0.1).event) == 0
    with pytest.raises(BudgetExhaustedError, match="caller 'alice'"):
        alice.ask("q", epsilon=0.1)
    assert owner.ask("q", epsilon=0.5).remaining.left == 0
