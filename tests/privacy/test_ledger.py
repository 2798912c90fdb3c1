"""The ledger: never overspent, never refunded, never silent about what happened."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import BudgetExhaustedError, LedgerMismatchError, LedgerUnavailableError, ParameterError
from sottovoce.privacy.budget import SCALE, Budget, amount_of
from sottovoce.privacy.events import BoundedRange, PureDP, ZCDpEvent
from sottovoce.privacy.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.unit import Adjacency

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")


def charge(name: str, epsilon: float = 0.1) -> Reservation:
    return Reservation(name, BoundedRange(epsilon), "test")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "tickets.db")


def test_ten_answers_at_a_tenth_fit_into_one_and_the_eleventh_does_not(path):
    account = Ledger(path).open(WHO, Budget(1.0))
    for i in range(10):
        account.reserve([charge(f"r{i}")])
    with pytest.raises(BudgetExhaustedError, match=r"epsilon 0\.1 asked, 0 left of 1 in tickets\.db") as refusal:
        account.reserve([charge("r10")])
    assert (refusal.value.asked, refusal.value.left, refusal.value.limit) == (0.1, 0.0, 1.0)
    assert "replace-one" in str(refusal.value)
    assert account.balance().answers == 10


def test_opening_it_again_finds_what_was_spent(path):
    Ledger(path).open(WHO, Budget(8, 1e-6)).reserve([charge("one", 1.0)])
    again = Ledger(path).open(WHO, None).balance()
    assert again.answers == 1
    assert again.spent == pytest.approx(0.12330156, abs=1e-7)


def test_a_batch_is_charged_whole_or_not_at_all(path):
    account = Ledger(path).open(WHO, Budget(1.0))
    with pytest.raises(BudgetExhaustedError, match="10 more would fit"):
        account.reserve([charge(f"r{i}") for i in range(11)])
    assert account.balance().spent == 0
    assert [e["kind"] for e in account.ledger.history()] == ["open"]


def test_a_refusal_offers_an_epsilon_that_fits(path):
    account = Ledger(path).open(WHO, Budget(1, 1e-6))
    with pytest.raises(BudgetExhaustedError, match="Ask at epsilon") as refusal:
        account.reserve([charge("big", 5.0)])
    offered = float(str(refusal.value).split("Ask at epsilon ")[1].split(" ")[0])
    account.reserve([charge("small", offered)])


def test_repeating_a_reservation_charges_once_and_a_released_id_is_dead(path):
    account = Ledger(path).open(WHO, Budget(1.0))
    account.reserve([charge("same")])
    account.reserve([charge("same")])
    assert account.balance().spent == pytest.approx(0.1)
    account.mark_released(["same"])
    with pytest.raises(LedgerMismatchError, match="used before"):
        account.reserve([charge("same")])
    account.reserve([charge("other")])
    with pytest.raises(LedgerMismatchError, match="used before"):
        account.reserve([charge("other", 0.05)])


def test_other_records_another_adjacency_or_another_budget_are_refused(path):
    ledger = Ledger(path)
    with pytest.raises(LedgerMismatchError, match="--budget"):
        ledger.open(WHO, None)
    ledger.open(WHO, Budget(8, 1e-6))
    with pytest.raises(LedgerMismatchError, match="other records"):
        ledger.open(Identity("cd" * 32, WHO.adjacency, WHO.unit), Budget(8, 1e-6))
    with pytest.raises(LedgerMismatchError, match="add-remove"):
        ledger.open(Identity(WHO.fingerprint, Adjacency.ADD_REMOVE, WHO.unit), None)
    with pytest.raises(LedgerMismatchError, match="unit"):
        ledger.open(Identity(WHO.fingerprint, WHO.adjacency, "patient"), None)
    with pytest.raises(LedgerMismatchError, match="raise it"):
        ledger.open(WHO, Budget(9, 1e-6))


def test_the_owner_may_raise_a_budget_and_let_a_new_version_share_it(path):
    ledger = Ledger(path)
    ledger.open(WHO, Budget(8, 1e-6)).reserve([charge("one", 1.0)])
    ledger.grant(WHO, Budget(10, 1e-6))
    with pytest.raises(LedgerMismatchError, match="only grow"):
        ledger.grant(WHO, Budget(9, 1e-6))
    with pytest.raises(LedgerMismatchError, match="delta stays"):
        ledger.grant(WHO, Budget(12, 1e-5))
    newer = Identity("ef" * 32, WHO.adjacency, WHO.unit)
    shared = ledger.grant(newer, None, continues="data")
    assert shared.balance().answers == 1
    ledger.open(newer, None).reserve([charge("two", 1.0)])
    assert ledger.open(WHO, None).balance().answers == 2
    assert ledger.verify() == []
    assert [e["kind"] for e in ledger.history()] == ["open", "reserve", "grant", "version", "reserve"]


def test_a_pure_ledger_refuses_what_has_no_pure_price(path):
    account = Ledger(path).open(WHO, Budget(1.0))
    with pytest.raises(ParameterError, match="delta is 0"):
        account.reserve([Reservation("g", ZCDpEvent(0.01), "gaussian")])


def test_each_family_is_charged_its_own_rho():
    assert amount_of(BoundedRange(1.0), "rho") / SCALE == pytest.approx(0.12330156, abs=1e-8)
    assert amount_of(PureDP(1.0), "rho") / SCALE == pytest.approx(0.46211716, abs=1e-8)
    assert amount_of(ZCDpEvent(0.05), "rho") == SCALE // 20
    assert amount_of(BoundedRange(0.001), "rho") == 125_000_000
    assert amount_of(PureDP(0.1), "epsilon") == SCALE // 10


@given(st.lists(st.floats(1e-6, 3.0), min_size=1, max_size=25), st.sampled_from([(2.0, 0.0), (3.0, 1e-6)]))
@settings(max_examples=40, deadline=None)
def test_against_a_rational_oracle_the_sum_of_true_charges_stays_under_the_cap(epsilons, budget):
    limit = Budget(*budget)
    account = Ledger(":memory:").open(WHO, limit)
    true = Fraction(0)
    for i, epsilon in enumerate(epsilons):
        try:
            account.reserve([charge(f"r{i}", epsilon)])
        except BudgetExhaustedError:
            continue
        true += Fraction(epsilon) if limit.delta == 0 else Fraction(min(_rho(epsilon), epsilon * epsilon / 8))
    assert true <= Fraction(limit.cap, SCALE) * (1 + Fraction(1, 10**12))
    assert account.ledger.verify() == []


def _rho(eta: float) -> float:
    import mpmath

    with mpmath.workprec(200):
        x = mpmath.mpf(eta) / mpmath.expm1(eta)
        return float(x - 1 - mpmath.log(x))


def _spend(path: str, worker: int, tries: int, done) -> None:
    account = Ledger(path).open(WHO, None)
    admitted = 0
    for i in range(tries):
        try:
            account.reserve([charge(f"w{worker}-{i}")])
            admitted += 1
        except BudgetExhaustedError:
            pass
    done.put(admitted)


def test_four_processes_cannot_overspend_together(path):
    Ledger(path).open(WHO, Budget(5.0))
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    workers = [context.Process(target=_spend, args=(path, w, 30, done)) for w in range(4)]
    for worker in workers:
        worker.start()
    admitted = sum(done.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    assert admitted == 50
    assert Ledger(path).open(WHO, None).balance().left == 0
    assert Ledger(path).verify() == []


def test_a_forked_child_charges_the_same_file(path):
    account = Ledger(path).open(WHO, Budget(1.0))
    account.reserve([charge("parent")])
    context = multiprocessing.get_context("fork")
    done = context.Queue()
    child = context.Process(target=lambda: (account.reserve([charge("child")]), done.put(True)))
    child.start()
    assert done.get(timeout=60)
    child.join()
    assert account.balance().spent == pytest.approx(0.2)


def test_two_processes_creating_one_ledger_agree(path):
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    workers = [context.Process(target=_create, args=(path, done)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert [done.get(timeout=60) for _ in workers] == ["ok"] * 4
    for worker in workers:
        worker.join()
    assert len(Ledger(path).balances()) == 1


def _create(path, done):
    Ledger(path).open(WHO, Budget(1.0))
    done.put("ok")


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE sotto_data_set SET spent = 0",
        "UPDATE sotto_data_set SET cap = cap * 2",
        "UPDATE sotto_data_set SET adjacency = 'add-remove'",
        "UPDATE sotto_entry SET amount = 0 WHERE seq = 2",
        "UPDATE sotto_entry SET at = '2020-01-01' WHERE seq = 3",
        "UPDATE sotto_entry SET release_id = 'x' WHERE seq = 3",
        "DELETE FROM sotto_entry WHERE seq = 2",
        "DELETE FROM sotto_entry WHERE seq = 4",
        "DELETE FROM sotto_fingerprint",
        "UPDATE sotto_fingerprint SET fingerprint = 'cd'",
        "UPDATE sotto_entry SET seq = seq + 10 WHERE seq = 4",
    ],
)
def test_tampering_is_found(path, tampering):
    ledger = Ledger(path)
    account = ledger.open(WHO, Budget(1.0))
    for i in range(3):
        account.reserve([charge(f"r{i}")])
    assert ledger.verify() == []
    with sqlite3.connect(path) as raw:
        raw.execute(tampering)
    assert ledger.verify() != []


def test_files_that_are_no_ledger_are_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("my notes, more than one page of them " * 200)
    with pytest.raises(LedgerUnavailableError, match=r"notes\.txt"):
        Ledger(str(text)).open(WHO, Budget(1.0))
    assert text.read_text().startswith("my notes")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as raw:
        raw.execute("CREATE TABLE theirs (x)")
    with pytest.raises(LedgerUnavailableError, match="not a ledger"):
        Ledger(str(other))
    with pytest.raises(LedgerUnavailableError, match="cannot be opened"):
        Ledger(str(tmp_path))


def test_a_full_disk_charges_nothing_and_answers_nothing(path):
    ledger = Ledger(path)
    account = ledger.open(WHO, Budget(1.0))
    account.reserve([charge("before")])
    with ledger._database.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerUnavailableError, match="full"):
        account.reserve([charge(f"{i:040}", 1e-4) for i in range(300)])
    fresh = Ledger(path)
    assert fresh.verify() == []
    assert fresh.open(WHO, None).balance().spent == pytest.approx(0.1)


def test_a_ledger_opened_read_only_is_refused(path):
    ledger = Ledger(path)
    account = ledger.open(WHO, Budget(1.0))
    with ledger._database.reading() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(LedgerUnavailableError, match="readonly"):
        account.reserve([charge("r")])


def test_a_new_ledger_is_readable_by_its_owner_alone(path):
    Ledger(path)
    assert os.stat(path).st_mode & 0o077 == 0


def test_an_entry_holds_no_more_than_event_and_note(path):
    account = Ledger(path).open(WHO, Budget(1.0))
    account.reserve([charge("r")])
    assert account.ledger.history()[1]["detail"] == '{"event": "BoundedRange(eta=0.1)", "note": "test"}'


@pytest.mark.parametrize(
    "text", ["", "x", "0", "-1", "nan", "inf", "1e999", "1,2", "1,-1e-6", "1,nan", "1,1e-6,3", "8,1e-300"]
)
def test_a_budget_that_is_no_budget_is_refused(text):
    with pytest.raises(ParameterError, match="budget"):
        Budget.parse(text)
