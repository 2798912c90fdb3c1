"""kill -9 at named points of a release: the ledger covers the true loss, its chain verifies, a retry costs nothing."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger.budget import SCALE, amount_of
from sottovoce.privacy.ledger.ledger import Account, Ledger
from survival import crashes
from survival.crashes import EPSILON, POINTS, Notes, crash, in_a_child, release

PRICE = amount_of(BoundedRange(EPSILON), "epsilon")
every_point = pytest.mark.parametrize("point", POINTS)


@pytest.fixture
def where(tmp_path):
    path = str(tmp_path / "tickets.db")
    release(path, Notes(tmp_path / "first"), "first")  # the ledger exists, with one answer
    return path


def charged(path: str) -> Counter[str]:
    return Counter(entry["release_id"] for entry in Ledger(path).history() if entry["kind"] == "reserve")


def released(path: str) -> Counter[str]:
    return Counter(entry["release_id"] for entry in Ledger(path).history() if entry["kind"] == "release")


def assert_the_truth_is_covered(path: str, notes: Notes) -> None:
    """Every private read is charged, every answer handed out is noted, and the balance is the sum of the charges."""
    book = Ledger(path)
    assert book.verify() == []
    truth = notes.read()
    assert {name for _, name in truth} <= set(charged(path))
    assert {name for kind, name in truth if kind == "out"} <= set(released(path))
    assert set(charged(path).values()) | set(released(path).values()) == {1}
    (balance,) = book.balances()
    assert round(balance.spent * SCALE) == PRICE * len(charged(path))


def survive(point: str, path: str, notes: Notes, times: int) -> None:
    for time in range(times):
        name = f"{point} {time}".replace(" ", "-").replace(",", "")
        assert crash(point, path, notes, name) == -signal.SIGKILL, "the point was never reached"
        assert_the_truth_is_covered(path, notes)
        noted = released(path)[name] == 1
        again = in_a_child(lambda name=name: release(path, notes, name))
        assert again == (1 if noted else 0), "a noted answer never leaves twice; any other is drawn on the retry"
        assert charged(path)[name] == 1
        assert_the_truth_is_covered(path, notes)


@pytest.mark.cases(1)
@every_point
def test_a_release_that_is_killed_and_tried_again(point, where, tmp_path):
    survive(point, where, Notes(tmp_path / "notes"), times=1)


@pytest.mark.slow
@every_point
def test_a_release_that_is_killed_fifty_times(point, where, tmp_path):
    survive(point, where, Notes(tmp_path / "notes"), times=50)


def test_the_points_are_many_and_lie_on_both_sides_of_the_charge():
    assert len(POINTS) >= 12


# Planted mistakes: each leaves private reads that no charge covers, or charges twice.


def test_a_charge_that_comes_after_the_answer_is_caught(where, tmp_path, monkeypatch):
    notes, original = Notes(tmp_path / "notes"), Account.reserve
    late = []
    monkeypatch.setattr(Account, "reserve", lambda account, asked, allow_retry=True: late.append((account, asked)))
    marked = Account.mark_released

    def charge_late(account, ids, **isolated):
        original(*late.pop())
        marked(account, ids, **isolated)

    monkeypatch.setattr(Account, "mark_released", charge_late)
    assert crash("first private example read", where, notes, "late") == -signal.SIGKILL
    with pytest.raises(AssertionError):
        assert_the_truth_is_covered(where, notes)


def test_a_charge_under_a_new_name_at_every_try_is_caught(where, tmp_path, monkeypatch):
    notes, original = Notes(tmp_path / "notes"), Account.reserve
    tries = iter(range(10))

    def renamed(account, asked, allow_retry=True):
        number = next(tries)
        original(account, [type(r)(f"{r.release_id} {number}", r.event, r.note) for r in asked])

    monkeypatch.setattr(Account, "reserve", renamed)
    with pytest.raises(AssertionError):
        survive("charged, nothing read", where, notes, times=1)


def test_a_ledger_that_is_not_synced_before_the_read_is_caught(where, tmp_path, monkeypatch):
    # Nothing is written until the process ends by itself, as with a cache that is flushed at exit.
    notes = Notes(tmp_path / "notes")
    monkeypatch.setattr(Account, "reserve", lambda account, asked, allow_retry=True: None)
    monkeypatch.setattr(Account, "mark_released", lambda account, ids, isolated=True: None)
    assert crash("handed out", where, notes, "unsynced") == -signal.SIGKILL
    with pytest.raises(AssertionError):
        assert_the_truth_is_covered(where, notes)


def test_the_child_that_is_not_killed_hands_out(where, tmp_path):
    notes = Notes(tmp_path / "notes")
    assert in_a_child(lambda: release(where, notes, "whole")) == 0
    assert ("out", "whole") in notes.read()
    assert crashes.Notes.fatal == "", "fuses burn in children only"
