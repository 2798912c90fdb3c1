"""The ledger: never overspent, never refunded, never silent about what happened."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import time
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import BudgetExhaustedError, LedgerMismatchError, LedgerUnavailableError, ParameterError
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    PureDP,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.ledger.budget import SCALE, Budget, amount_of
from sottovoce.privacy.ledger.history import GENESIS, charged, hash_of
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.verify import find_problems
from sottovoce.privacy.unit import Adjacency

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")
FRESH = multiprocessing.get_context("forkserver")
"""Processes that share nothing with this one, and start quickly."""
FRESH.set_forkserver_preload(["sottovoce.privacy.ledger.ledger", "hypothesis", "pytest"])


def charge(name: str, epsilon: float = 0.1) -> Reservation:
    return Reservation(name, BoundedRange(epsilon), "test")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "tickets.db")


def test_ten_answers_at_a_tenth_fit_into_one_and_the_eleventh_does_not(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    for i in range(10):
        account.reserve([charge(f"r{i}")])
    with pytest.raises(BudgetExhaustedError, match=r"epsilon 0\.1 asked, 0 left of 1 in ") as refusal:
        account.reserve([charge("r10")])
    assert (refusal.value.asked, refusal.value.left, refusal.value.limit) == (0.1, 0.0, 1.0)
    assert "replace-one" in str(refusal.value)
    assert account.balance().answers == 10


def test_opening_it_again_finds_what_was_spent(address):
    Ledger(address).open(WHO, Budget(8, 1e-6)).reserve([charge("one", 1.0)])
    again = Ledger(address).open(WHO, None).balance()
    assert again.answers == 1
    assert again.spent == pytest.approx(0.12330156, abs=1e-7)


def test_a_delta_beside_a_budget_without_one_is_what_the_refusal_names(path):
    account = Ledger(path).open(WHO, Budget(8.0))
    with pytest.raises(ParameterError, match=r"^delta of this charge is 1e-06; it must be 0: .* --budget 8,1e-6"):
        account.reserve([Reservation("a", ApproximateDP(1.0, 1e-6), "")])
    assert account.balance().spent == 0


def test_a_batch_is_charged_whole_or_not_at_all(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    with pytest.raises(BudgetExhaustedError, match="10 more would fit"):
        account.reserve([charge(f"r{i}") for i in range(11)])
    assert account.balance().spent == 0
    assert [e["kind"] for e in Ledger.of(account).history()] == ["open"]


def test_a_refusal_offers_an_epsilon_that_fits(address):
    account = Ledger(address).open(WHO, Budget(1, 1e-6))
    with pytest.raises(BudgetExhaustedError, match="Ask at epsilon") as refusal:
        account.reserve([charge("big", 5.0)])
    offered = float(str(refusal.value).split("Ask at epsilon ")[1].split(" ")[0])
    account.reserve([charge("small", offered)])


@pytest.mark.parametrize(("kind", "number"), [(BoundedRange, 1), (PureDP, 1), (PureDP, 3)])
@pytest.mark.parametrize("budget", [Budget(1, 1e-6), Budget(1), Budget(1, 1e-6, alpha=16)], ids=str)
def test_an_offered_epsilon_is_the_largest_of_the_kind_that_was_asked(tmp_path, budget, kind, number):
    account = Ledger(str(tmp_path / "t.db")).open(WHO, budget)

    def ask(epsilon: float) -> None:
        account.reserve([Reservation(f"at-{epsilon}-{i}", kind(epsilon), "test") for i in range(number)])

    with pytest.raises(BudgetExhaustedError, match="Ask at epsilon") as refusal:
        ask(7.0)
    offered = float(str(refusal.value).split("Ask at epsilon ")[1].split(" ")[0])
    with pytest.raises(BudgetExhaustedError):
        ask(1.002 * offered)
    ask(offered)


def test_no_epsilon_is_offered_for_events_that_a_price_does_not_set_alone(tmp_path):
    account = Ledger(str(tmp_path / "t.db")).open(WHO, Budget(1, 1e-6))
    several = ComposedDpEvent([BoundedRange(5.0), BoundedRange(6.0)])
    for asked in ([several], [BoundedRange(5.0), BoundedRange(6.0)]):
        with pytest.raises(BudgetExhaustedError, match="Ask at a smaller epsilon, which"):
            account.reserve([Reservation(f"{i}", event, "test") for i, event in enumerate(asked)])


def test_where_nothing_is_left_no_smaller_epsilon_is_offered(tmp_path):
    account = Ledger(str(tmp_path / "t.db")).open(WHO, Budget(1))
    account.reserve([Reservation("all", PureDP(1.0), "test")])
    for event in (BoundedRange(5.0), ComposedDpEvent([BoundedRange(5.0), BoundedRange(6.0)])):
        with pytest.raises(BudgetExhaustedError, match=r"Nothing was charged\. Let the data owner grant more"):
            account.reserve([Reservation("more", event, "test")])


def test_repeating_a_reservation_charges_once_and_a_released_id_is_dead(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    account.reserve([charge("same")])
    account.reserve([charge("same")])
    assert account.balance().spent == pytest.approx(0.1)
    account.mark_released(["same"])
    with pytest.raises(LedgerMismatchError, match="used before"):
        account.reserve([charge("same")])
    account.reserve([charge("other")])
    with pytest.raises(LedgerMismatchError, match="used before"):
        account.reserve([charge("other", 0.05)])


def test_other_records_another_adjacency_or_another_budget_are_refused(address):
    ledger = Ledger(address)
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


def test_the_owner_may_raise_a_budget_and_let_a_new_version_share_it(address):
    ledger = Ledger(address)
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


def test_a_pure_ledger_refuses_what_has_no_pure_price(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    for event in (ZCDpEvent(0.01), ApproximateDP(0.5, 1e-9), WithFailure(BoundedRange(0.5), 1e-9)):
        with pytest.raises(ParameterError, match="delta is 0"):
            account.reserve([Reservation("g", event, "gaussian")])
    assert account.balance().spent == 0


def test_a_ledger_for_one_release_has_exactly_that_one(address):
    ledger = Ledger(address)
    account = ledger.open(WHO, Budget.once(4.0, 1e-6))
    for event in (ApproximateDP(4.0, 1.001e-6), ApproximateDP(4.001, 1e-7)):
        with pytest.raises(BudgetExhaustedError):
            account.reserve([Reservation("more", event, "fit")])
    account.reserve([Reservation("fit", ApproximateDP(4.0, 1e-6), "fit")])
    for event in (BoundedRange(0.001), ApproximateDP(0.001, 1e-9)):
        with pytest.raises(BudgetExhaustedError):
            account.reserve([Reservation("again", event, "fit")])
    balance = account.balance()
    assert (balance.spent, balance.left, balance.failure_spent) == (4.0, 0.0, 1e-6)
    assert ledger.verify() == []


def test_each_family_is_charged_its_own_rho():
    assert amount_of(BoundedRange(1.0), "rho") / SCALE == pytest.approx(0.12330156, abs=1e-8)
    assert amount_of(PureDP(1.0), "rho") / SCALE == pytest.approx(0.46211716, abs=1e-8)
    assert amount_of(ZCDpEvent(0.05), "rho") == SCALE // 20
    assert amount_of(BoundedRange(0.001), "rho") == 125_000_000
    assert amount_of(PureDP(0.1), "epsilon") == SCALE // 10


@pytest.mark.slow
@given(st.lists(st.floats(1e-6, 3.0), min_size=1, max_size=25), st.sampled_from([(2.0, 0.0), (3.0, 1e-6)]))
@settings(max_examples=40, deadline=None)
def test_against_a_rational_oracle_the_sum_of_true_charges_stays_under_the_cap(epsilons, budget):
    limit = Budget(*budget)
    account = Ledger(":memory:").grant(WHO, limit)
    true = Fraction(0)
    for i, epsilon in enumerate(epsilons):
        try:
            account.reserve([charge(f"r{i}", epsilon)])
        except BudgetExhaustedError:
            continue
        true += Fraction(epsilon) if limit.delta == 0 else Fraction(min(_rho(epsilon), epsilon * epsilon / 8))
    assert true <= Fraction(limit.cap, SCALE) * (1 + Fraction(1, 10**12))
    assert Ledger.of(account).verify() == []


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


def test_four_processes_cannot_overspend_together(address):
    Ledger(address).open(WHO, Budget(5.0))
    done = FRESH.Queue()
    workers = [FRESH.Process(target=_spend, args=(address, w, 30, done)) for w in range(4)]
    for worker in workers:
        worker.start()
    admitted = sum(done.get(timeout=300) for _ in workers)
    for worker in workers:
        worker.join()
    assert admitted == 50
    assert Ledger(address).open(WHO, None).balance().left == 0
    assert Ledger(address).verify() == []


def test_a_forked_child_charges_the_same_file(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    account.reserve([charge("parent")])
    context = multiprocessing.get_context("fork")
    done = context.Queue()
    child = context.Process(target=lambda: (account.reserve([charge("child")]), done.put(True)))
    child.start()
    assert done.get(timeout=300)
    child.join()
    assert account.balance().spent == pytest.approx(0.2)


def test_two_processes_creating_one_ledger_agree(address):
    done = FRESH.Queue()
    workers = [FRESH.Process(target=_create, args=(address, os.environ["SOTTOVOCE_HOME"], done)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert [done.get(timeout=300) for _ in workers] == ["ok"] * 4
    for worker in workers:
        worker.join()
    assert len(Ledger(address).balances()) == 1


def _create(path, home, done):
    os.environ["SOTTOVOCE_HOME"] = home  # the process that forks this one began in another test
    Ledger(path).open(WHO, Budget(1.0))
    done.put("ok")


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE sotto_data_set SET spent = 0",
        "UPDATE sotto_data_set SET cap = cap * 2",
        "UPDATE sotto_data_set SET adjacency = 'add-remove'",
        "UPDATE sotto_data_set SET answers = 2",
        "UPDATE sotto_data_set SET unverified = 1",
        "UPDATE sotto_data_set SET failure_cap = 5",
        "UPDATE sotto_data_set SET alpha = '16.0'",
        "UPDATE sotto_entry SET amount = 0 WHERE seq = 2",
        "UPDATE sotto_entry SET at = '2020-01-01' WHERE seq = 3",
        "UPDATE sotto_entry SET release_id = 'x' WHERE seq = 3",
        "DELETE FROM sotto_entry WHERE seq = 2",
        "DELETE FROM sotto_entry WHERE seq = 4",
        "DELETE FROM sotto_fingerprint",
        "UPDATE sotto_fingerprint SET fingerprint = 'cd'",
        "DELETE FROM sotto_secret",
        "UPDATE sotto_secret SET value = 'cd'",
        "UPDATE sotto_entry SET seq = seq + 10 WHERE seq = 4",
        "DELETE FROM sotto_meta WHERE key = 'head'",
        "UPDATE sotto_meta SET value = '3 ' || substr(value, 3) WHERE key = 'head'",
    ],
)
def test_tampering_is_found(address, tampering):
    ledger = Ledger(address)
    account = ledger.open(WHO, Budget(1.0))
    for i in range(3):
        account.reserve([charge(f"r{i}")])
    assert ledger.verify() == []
    with ledger._database._alone() as connection:  # a transaction of the ledger's own would not end so
        connection.exec_driver_sql(tampering)
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


def test_an_entry_holds_no_more_than_event_and_note(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    account.reserve([charge("r")])
    assert (
        Ledger.of(account).history()[1]["detail"] == '{"event": {"eta": 0.1, "event": "BoundedRange"}, "note": "test"}'
    )


@pytest.mark.parametrize(
    "text", ["", "x", "0", "-1", "nan", "inf", "1e999", "1,2", "1,-1e-6", "1,nan", "1,1e-6,3", "8,1e-300"]
)
def test_a_budget_that_is_no_budget_is_refused(text):
    with pytest.raises(ParameterError, match="budget"):
        Budget.parse(text)


# Ids of answers


def test_the_history_holds_events_that_can_be_read_again(address):
    account = Ledger(address).open(WHO, Budget(8, 1e-6, 1e-7))
    asked = [
        BoundedRange(0.1),
        PureDP(0.25),
        ZCDpEvent(0.001),
        GaussianDpEvent(40.0),
        WithFailure(ApproximateDP(0.01, 1e-9), 2e-9, exclusive=True),
        ComposedDpEvent([PureDP(0.01), SelfComposedDpEvent(BoundedRange(0.02), 3)]),
    ]
    account.reserve([Reservation(f"r{i}", event, "note") for i, event in enumerate(asked)])
    entries = [entry for entry in Ledger.of(account).history() if entry["kind"] == "reserve"]
    assert [charged(entry["detail"]).event for entry in entries] == asked
    assert sum(entry["amount"] for entry in entries) == sum(amount_of(event, "rho") for event in asked)
    assert [json.loads(entry["detail"]).get("failure") for entry in entries] == [None] * 4 + [3 * 10**9, None]
    assert account.balance().failure_spent == pytest.approx(3e-9)
    assert Ledger.of(account).verify() == []


def test_failures_are_kept_within_their_own_share(address):
    account = Ledger(address).open(WHO, Budget(8, 1e-6, 5e-9))
    for i in range(5):
        account.reserve([Reservation(f"r{i}", WithFailure(PureDP(0.001), 1e-9), "")])
    with pytest.raises(BudgetExhaustedError, match=r"failure probability 1e-09 asked, 0 left of 5e-09") as refusal:
        account.reserve([Reservation("r5", WithFailure(PureDP(0.001), 1e-9), "")])
    assert refusal.value.left == 0
    account.reserve([Reservation("r6", PureDP(0.001), "")])


def test_without_a_share_for_failures_the_next_step_is_named(address):
    account = Ledger(address).open(WHO, Budget(8, 1e-6))
    with pytest.raises(BudgetExhaustedError, match="--budget 8,1e-06,failure=5e-07"):
        account.reserve([Reservation("r", ApproximateDP(0.1, 1e-9), "")])
    assert account.balance().spent == 0


def test_a_ledger_at_one_order_charges_divergences_and_can_never_change(address):
    ledger = Ledger(address)
    account = ledger.open(WHO, Budget(8, 1e-6, alpha=16))
    account.reserve([charge("r", 1.0)])
    balance = account.balance()
    assert (balance.budget.currency, balance.spent) == ("rdp at alpha 16", pytest.approx(0.781200759, abs=1e-8))
    for other in (Budget(8, 1e-6), Budget(8, 1e-6, alpha=17)):
        with pytest.raises(LedgerMismatchError, match="Renyi order 16"):
            ledger.open(WHO, other)
        with pytest.raises(LedgerMismatchError, match="the order"):
            ledger.grant(WHO, other)
    with pytest.raises(LedgerMismatchError, match="share of it for failures"):
        ledger.grant(WHO, Budget(9, 1e-6, 1e-7, alpha=16))
    assert ledger.grant(WHO, Budget(9, 1e-6, alpha=16)).balance().cap > balance.cap
    with pytest.raises(BudgetExhaustedError, match="rdp at alpha 16") as refusal:
        account.reserve([charge("big", 20.0)])
    account.reserve([charge("fits", float(str(refusal.value).split("Ask at epsilon ")[1].split(" ")[0]))])
    assert ledger.verify() == []


@pytest.mark.parametrize("bad", ["", "a" * 65, "a b", "ä", "a\n", "\x00", None, 7])
def test_an_id_that_is_none_is_refused(bad):
    account = Ledger(":memory:").open(WHO, Budget(1.0))
    with pytest.raises(ParameterError, match="release_id"):
        account.reserve([Reservation(bad, PureDP(0.1), "")])
    assert account.balance().answers == 0


def test_an_id_twice_in_one_batch_is_refused_and_nothing_is_charged(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    for act in (
        lambda: account.reserve([charge("r"), charge("r")]),
        lambda: account.mark_released(["r", "r"]),
        lambda: account.record_non_private(["r", "r"], ""),
    ):
        with pytest.raises(LedgerMismatchError, match="twice"):
            act()
    assert len(Ledger.of(account).history()) == 1


def test_an_answer_leaves_once_and_a_batch_with_one_that_left_does_not_leave(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    account.reserve([charge("a"), charge("b")])
    account.mark_released(["a"])
    with pytest.raises(LedgerMismatchError, match="already released"):
        account.mark_released(["b", "a"])
    account.mark_released(["b"])
    with pytest.raises(LedgerMismatchError, match="never charged"):
        account.mark_released(["c"])
    account.record_non_private(["n"], "soft")
    account.record_non_private(["n"], "soft")
    account.mark_released(["n"])
    with pytest.raises(LedgerMismatchError, match="used before"):
        account.record_non_private(["n"], "soft")
    with pytest.raises(LedgerMismatchError, match="used before"):
        account.record_non_private(["a"], "soft")
    assert account.balance().non_private == 1
    assert Ledger.of(account).verify() == []


def _release(address, done):
    account = Ledger(address).open(WHO, None)
    told = []
    for i in range(15):
        try:
            account.reserve([charge(f"same-{i}", 0.01)])
            account.mark_released([f"same-{i}"])
            told.append(i)
        except LedgerMismatchError:
            pass
    done.put(told)


def test_of_processes_with_the_same_ids_exactly_one_releases_each(address):
    Ledger(address).open(WHO, Budget(5.0)).database.close()
    done = FRESH.Queue()
    workers = [FRESH.Process(target=_release, args=(address, done)) for _ in range(3)]
    for worker in workers:
        worker.start()
    told = [i for _ in workers for i in done.get(timeout=300)]
    for worker in workers:
        worker.join()
    assert sorted(told) == list(range(15))
    ledger = Ledger(address)
    assert ledger.open(WHO, None).balance().answers == 15
    assert ledger.verify() == []


# Cost of looking


def test_who_is_refused_does_not_wait_for_the_write_lock(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    account.reserve([charge("all", 1.0)])
    # This very thread holds the lock: who waited for it would end with LedgerUnavailableError.
    with Ledger(address)._database.writing(), pytest.raises(BudgetExhaustedError):
        account.reserve([charge("more")])


def test_a_balance_costs_one_look_however_long_the_history(address):
    account = Ledger(address).open(WHO, Budget(100.0))
    seen = []
    sa.event.listen(account.database._engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    account.reserve([charge(f"r{i}", 0.001) for i in range(200)])
    del seen[:]
    assert account.balance().answers == 200
    assert [statement for statement in seen if "sotto_entry" in statement] == []
    assert len(seen) <= 4


@pytest.mark.slow
def test_verifying_a_few_dozen_rows_takes_well_under_a_millisecond():
    ledger = Ledger(":memory:")
    account = ledger.open(WHO, Budget(100.0))
    for i in range(20):
        account.reserve([charge(f"r{i}")])
        account.mark_released([f"r{i}"])
    history = plain(ledger)
    assert find_problems(history) == []
    started = time.process_time()
    for _ in range(200):
        find_problems(history)
    assert (time.process_time() - started) / 200 < 2e-3  # 0.2 ms here; the rest is for slow machines


# Prices and caps in the history: a forged chain, made by somebody who knows how the hashes are made


def plain(ledger):
    with ledger.rows() as history:
        return replace(history, entries=list(history.entries))


def forged(history, change):
    """The history with entries changed and every hash made anew, the head's too."""
    entries, previous = [], GENESIS
    for seq, entry in enumerate(change([dict(entry) for entry in history.entries]), 1):
        linked = {**entry, "seq": seq, "previous": previous}
        previous = linked["hash"] = hash_of(linked)
        entries.append(linked)
    data_sets = [dict(row, spent=sum(e["amount"] for e in entries)) for row in history.data_sets]
    data_sets[0]["answers"] = sum(e["kind"] == "reserve" for e in entries)
    head = {**history.meta, "head": f"{len(entries)} {previous}"}
    return replace(history, entries=entries, data_sets=data_sets, meta=head)


def _set(place, **values):
    return lambda entries: [{**entry, **values} if i == place else entry for i, entry in enumerate(entries)]


@pytest.mark.cases(8)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_set(1, amount=SCALE // 10 - 1), "less than its event's price"),
        (_set(1, amount=SCALE // 10), None),
        (_set(1, amount=SCALE), "more than was left"),
        (_set(1, detail='{"event": {"event": "BoundedRange", "eta": 0.2}, "note": ""}'), "less than its event's price"),
        (_set(1, detail='{"event": {"event": "BoundedRange", "eta": NaN}, "note": ""}'), "cannot be read"),
        (_set(1, detail="[]"), "cannot be read"),
        (_set(1, detail='{"event": "x"}'), "cannot be read"),
        (_set(1, kind="gift"), "unknown kind"),
        (_set(2, release_id="r1"), "not paid for"),
        (_set(2, kind="grant", detail='{"epsilon": "0.5", "cap": 1}'), "does not raise"),
        (_set(2, kind="grant", detail='{"epsilon": "2.0", "cap": 3000000000000000}'), "more than its budget admits"),
        (_set(2, amount=1), "is no charge"),
        (lambda entries: entries[:2] + entries[1:], "an id that is not its own"),
        (lambda entries: [*entries, entries[2]], "released before"),
        (lambda entries: [entries[0], *entries], "opens a data set again"),
        (lambda entries: entries[1:], "cannot be read"),
    ],
)
def test_a_chain_that_was_forged_whole_must_still_tell_a_story_that_can_be(change, problem):
    ledger = Ledger(":memory:")
    account = ledger.open(WHO, Budget(1.0))
    account.reserve([charge("r0")])
    account.mark_released(["r0"])
    account.reserve([charge("r1")])
    history = plain(ledger)
    found = find_problems(forged(history, change))
    assert (found == []) if problem is None else any(problem in line for line in found), found
    assert find_problems(forged(history, lambda entries: entries)) == []


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_single_cell_can_be_changed_unseen(data):
    history = HISTORY
    tables = ("entries", "data_sets", "fingerprints", "caps", "secrets")
    rows = [*(row for table in tables for row in getattr(history, table)), history.meta]
    place = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.sampled_from(sorted(rows[place])))
    old = rows[place][column]
    new = data.draw(st.one_of(st.integers(-3, 10**16), st.text(max_size=8), st.none(), st.booleans(), st.floats()))
    if new == old and type(new) is type(old):
        return
    copies = [dict(row) for row in rows]
    copies[place][column] = new
    sizes = [len(getattr(history, table)) for table in tables]
    cut = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    parts = {table: copies[a:b] for table, (a, b) in zip(tables, pairwise(cut), strict=True)}
    assert find_problems(replace(history, **parts, meta=copies[-1])) != []


@pytest.mark.parametrize("table", ["entries", "data_sets", "fingerprints", "caps", "secrets"])
def test_another_text_or_number_in_any_cell_is_found(table):
    rows = list(getattr(HISTORY, table))
    for place, row in enumerate(rows):
        for column, old in row.items():
            for new in (f"{old}x", "x", 77):
                changed = [*rows[:place], {**row, column: new}, *rows[place + 1 :]]
                assert find_problems(replace(HISTORY, **{table: changed})) != [], (place, column, new)


def _eventful():
    ledger = Ledger(":memory:")
    account = ledger.grant(WHO, Budget(8, 1e-6, 1e-7))  # whatever ledger the importing process knows of
    ledger.allot(WHO, budget=Budget(4, 1e-6, 1e-8), group="support")
    ledger.allot(WHO, budget=Budget(2, 1e-6, 1e-8), caller="alice", group="support")
    alice = ledger.open(WHO, None, caller="alice")
    alice.reserve([Reservation("a", WithFailure(PureDP(0.1), 1e-9), "note")])
    alice.mark_released(["a"])
    account.reserve([charge("b")])
    account.record_non_private(["c"], "soft")
    ledger.grant(WHO, Budget(9, 1e-6, 1e-7))
    ledger.grant(Identity("cd" * 32, WHO.adjacency, WHO.unit), None, continues="data")
    return plain(ledger)


HISTORY = _eventful()


def test_an_untouched_eventful_history_is_well():
    assert find_problems(HISTORY) == []


@pytest.mark.parametrize("rows", ["entries", "data_sets", "fingerprints", "caps", "secrets"])
def test_no_row_can_be_lost_or_told_twice(rows):
    kept = list(getattr(HISTORY, rows))
    for i in range(len(kept)):
        for changed in (kept[:i] + kept[i + 1 :], kept[: i + 1] + kept[i:]):
            assert find_problems(replace(HISTORY, **{rows: changed})) != []
