"""Which ledger a data set has: found again, never silently replaced."""

from __future__ import annotations

import errno
import os

import pytest

from sottovoce.errors import LedgerMismatchError, LedgerUnavailableError
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger import ledger as ledgers
from sottovoce.privacy.ledger import registry as ledger_registry
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.registry import default_path
from sottovoce.privacy.unit import Adjacency
from sottovoce.store import home, private_folder, private_name

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")


def test_a_named_ledger_is_found_again_without_its_name(tmp_path):
    path = str(tmp_path / "tickets.db")
    Ledger(path).open(WHO, Budget(1.0)).reserve([Reservation("r", BoundedRange(0.5), "")])
    assert default_path(WHO.fingerprint) == path
    assert Ledger(default_path(WHO.fingerprint)).open(WHO, None).balance().spent == 0.5


def test_a_ledger_that_is_gone_is_missed_and_not_replaced(tmp_path):
    path = tmp_path / "tickets.db"
    ledger = Ledger(str(path))
    ledger.open(WHO, Budget(1.0))
    ledger._database._engine.dispose()  # as if the process had ended
    moved = tmp_path / "moved.db"
    path.rename(moved)
    with pytest.raises(LedgerUnavailableError, match="gone"):
        default_path(WHO.fingerprint)
    assert Ledger(str(moved)).open(WHO, None).conflicting_ledger is None
    assert default_path(WHO.fingerprint) == str(moved)


def test_a_second_ledger_is_told_of_the_first(tmp_path):
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    Ledger(first).open(WHO, Budget(1.0))
    assert Ledger(second).grant(WHO, Budget(1.0)).conflicting_ledger == first  # the owner's decision: open() refuses it
    assert default_path(WHO.fingerprint) == first


def test_a_link_to_the_ledger_is_the_same_ledger(tmp_path):
    first, link = tmp_path / "one.db", tmp_path / "link.db"
    Ledger(str(first)).open(WHO, Budget(1.0))
    link.symlink_to(first)
    assert Ledger(str(link)).open(WHO, None).conflicting_ledger is None


def test_names_in_the_store_are_keyed_and_folders_closed(monkeypatch, tmp_path):
    here = private_name(WHO.fingerprint)
    assert here not in WHO.fingerprint
    assert private_folder("ledgers").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "another"))
    assert private_name(WHO.fingerprint) != here
    assert (home() / "names.key").stat().st_mode & 0o077 == 0


def test_a_damaged_key_is_refused_and_a_ledger_that_knows_the_records_still_works(tmp_path):
    path = str(tmp_path / "t.db")
    Ledger(path).open(WHO, Budget(1.0))
    (home() / "names.key").write_bytes(b"")
    with pytest.raises(LedgerUnavailableError, match=r"names\.key"):
        default_path(WHO.fingerprint)
    with pytest.raises(LedgerUnavailableError, match=r"names\.key"):  # a first budget that nobody would remember
        Ledger(str(tmp_path / "new.db")).open(WHO, Budget(1.0))


def _full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("part", ["_write", "write_once", "keep"])
@pytest.mark.parametrize("door", ["open", "grant"])
def test_a_first_budget_that_cannot_be_remembered_is_not_opened(tmp_path, monkeypatch, part, door):
    path = str(tmp_path / "t.db")
    private_name(WHO.fingerprint)  # the store is in use
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, part, _full)
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError, match="No space left"):
                getattr(Ledger(path), door)(WHO, Budget(1.0))
            assert Ledger(path).balances() == []
    assert Ledger(path).open(WHO, Budget(1.0)).balance().left == 1


def test_a_store_that_is_closed_to_writing_is_refused_before_a_file_is_made(monkeypatch):
    private_name(WHO.fingerprint)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(LedgerUnavailableError, match="cannot be written"):
        ledger_registry.refuse_second(WHO, "t.db")


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("left", ["file", "nothing"])
def test_a_crash_while_a_first_budget_is_opened_forgets_nothing_and_blocks_nobody(
    tmp_path, monkeypatch, committed, left
):
    path, other = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    with monkeypatch.context() as patched:
        if committed:
            patched.setattr(ledgers, "remember", _full)
        else:
            patched.setattr(ledger_registry, "keep", _full)  # after the note
        with pytest.raises((OSError, LedgerUnavailableError)):
            Ledger(path).open(WHO, Budget(1.0))
    if left == "nothing" and not committed:
        os.unlink(path)
    for elsewhere in (other, ":memory:"):
        with pytest.raises(LedgerMismatchError, match=f"began to be opened in {path}.*Leave --ledger out"):
            Ledger(elsewhere).open(WHO, Budget(1.0))
    assert default_path(WHO.fingerprint) == path
    account = Ledger(path).open(WHO, Budget(1.0))
    account.reserve([Reservation("r", BoundedRange(0.5), "")])
    assert Ledger(path).open(WHO, None).balance().left == 0.5
    assert not list((home() / "ledgers").glob("*.opening"))
    # From now on an emptied ledger is missed again.
    account.ledger.close()
    os.unlink(path)
    with pytest.raises(LedgerUnavailableError, match="gone or empty"):
        default_path(WHO.fingerprint)


def test_the_owner_may_open_the_budget_elsewhere_after_a_crash(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, "keep", _full)
        with pytest.raises(LedgerUnavailableError):
            Ledger(str(tmp_path / "one.db")).open(WHO, Budget(1.0))
    other = str(tmp_path / "two.db")
    assert Ledger(other).grant(WHO, Budget(1.0)).conflicting_ledger is None
    assert default_path(WHO.fingerprint) == other
    with pytest.raises(LedgerMismatchError, match="already"):
        Ledger(str(tmp_path / "one.db")).open(WHO, Budget(1.0))


def test_of_two_programs_that_open_a_first_budget_at_once_one_is_refused(tmp_path):
    # Both were told that there is none yet.
    ledger_registry.note_first(WHO, str(tmp_path / "one.db"), "data")
    with pytest.raises(LedgerMismatchError, match="began to be opened"):
        ledger_registry.note_first(WHO, str(tmp_path / "two.db"), "data")
    ledger_registry.note_first(WHO, str(tmp_path / "one.db"), "data")


def test_an_owner_may_open_a_second_budget_and_the_first_ledger_stays_noted(tmp_path):
    one, two = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    Ledger(one).open(WHO, Budget(1.0))
    assert Ledger(two).grant(WHO, Budget(1.0)).conflicting_ledger == one
    assert ledger_registry.default_path(WHO.fingerprint) == one


def test_an_account_is_not_used_while_the_store_cannot_note_that_it_stands(tmp_path, monkeypatch):
    path = str(tmp_path / "t.db")
    with monkeypatch.context() as patched:
        patched.setattr(ledgers, "remember", _full)
        with pytest.raises(OSError, match="No space"):
            Ledger(path).open(WHO, Budget(1.0))
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, "_write", _full)
        with pytest.raises(LedgerUnavailableError, match="No space left"):
            Ledger(path).open(WHO, None)
    account = Ledger(path).open(WHO, None)
    monkeypatch.setattr(ledger_registry, "_write", _full)
    assert Ledger(path).open(WHO, None).balance() == account.balance()  # once it stands, the note is a convenience
