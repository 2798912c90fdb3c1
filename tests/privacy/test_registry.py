"""Which ledger a data set has: found again, never silently replaced."""

from __future__ import annotations

import pytest

from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.budget import Budget
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger_registry import default_path
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
    assert Ledger(str(moved)).open(WHO, None).other_ledger is None
    assert default_path(WHO.fingerprint) == str(moved)


def test_a_second_ledger_is_told_of_the_first(tmp_path):
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    Ledger(first).open(WHO, Budget(1.0))
    assert Ledger(second).grant(WHO, Budget(1.0)).other_ledger == first  # the owner's decision: open() refuses it
    assert default_path(WHO.fingerprint) == first


def test_a_link_to_the_ledger_is_the_same_ledger(tmp_path):
    first, link = tmp_path / "one.db", tmp_path / "link.db"
    Ledger(str(first)).open(WHO, Budget(1.0))
    link.symlink_to(first)
    assert Ledger(str(link)).open(WHO, None).other_ledger is None


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
