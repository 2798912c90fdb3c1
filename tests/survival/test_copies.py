"""A copy of the file alone, whenever it is made: it holds everything that was promised, or it is refused."""

from __future__ import annotations

import os
import random
import shutil
import signal
from typing import BinaryIO

import pytest

from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.database import Database
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from survival.copies import Write, put, stopped_half_way, told, write_of
from survival.races import WHO


def charge(name: str) -> Reservation:
    return Reservation(name, BoundedRange(0.01), "copy " + "x" * 150)


def name_of(i: int) -> str:
    """Ids in no order, as real ones are, so that they land all over the index."""
    return f"{i * 2_654_435_761 % 2**32:08x}"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tickets.db"


@pytest.fixture
def account(path):
    return Ledger(str(path)).open(WHO, Budget(500.0))


def charged(path) -> set[str]:
    return {row["release_id"] for row in Ledger(str(path)).history() if row["kind"] == "reserve"}


def test_a_copy_after_every_promise_holds_it(account, path, tmp_path):
    for i in range(25):
        account.reserve([charge(name_of(i))])
        shutil.copy(path, tmp_path / f"copy{i}.db")
    for i in range(25):
        copy = Ledger(str(tmp_path / f"copy{i}.db"))
        assert copy.open(WHO, None).balance().answers == i + 1
        assert {name_of(k) for k in range(i + 1)} == charged(tmp_path / f"copy{i}.db")
        assert copy.verify() == []


def writes(account, path) -> dict[str, Write]:
    """Transactions of every kind, and of the charges that which moves most pages about."""
    ledger = Ledger.of(account)
    of = {}
    of["first charge"] = write_of(path, lambda: account.reserve([charge("first")]))
    of["cap of a caller"] = write_of(path, lambda: ledger.allot(WHO, budget=Budget(20.0), caller="alice"))
    alice = ledger.open(WHO, None, caller="alice")
    of["charge of a caller"] = write_of(path, lambda: alice.reserve([charge("alice")]))
    of["larger budget"] = write_of(path, lambda: ledger.grant(WHO, Budget(600.0)))
    other = Identity("cd" * 32, WHO.adjacency, WHO.unit)
    of["second data set"] = write_of(path, lambda: ledger.grant(other, Budget(1.0), name="other"))
    account.reserve([charge(name_of(i)) for i in range(90)])
    single = [write_of(path, lambda i=i: account.reserve([charge(name_of(i))])) for i in range(90, 140)]
    of["charge that splits"] = max(single, key=lambda write: len(write.pages))
    assert len(of["charge that splits"].pages) > len(single[0].pages)
    of["release"] = write_of(path, lambda: account.mark_released([name_of(7)]))
    of["batch"] = write_of(path, lambda: account.reserve([charge(name_of(i)) for i in range(140, 200)]))
    return of


@pytest.mark.slow
def test_a_file_with_some_pages_of_a_write_is_refused_or_one_of_the_two(account, path, tmp_path):
    for what, write in writes(account, path).items():
        before, after = (told(put(tmp_path, data)) for data in (write.before, write.after))
        assert before is not None
        assert after is not None
        found = [told(put(tmp_path, mixed)) for mixed in write.mixtures(most=12, seed=1)]
        assert all(one in (None, before, after) for one in found), what
        assert found.count(None) > 1, f"{what}: no mixture of its pages is torn"


@pytest.mark.slow
def test_without_verifying_it_a_torn_file_would_be_believed(account, path, tmp_path, monkeypatch):
    # The planted mistake: balances and history of two moments are taken for one ledger.
    write = write_of(path, lambda: account.reserve([charge("first")]))
    monkeypatch.setattr(Database, "_verify", lambda database, connection: None)
    known = [told(put(tmp_path, data)) for data in (write.before, write.after)]
    found = [told(put(tmp_path, mixed)) for mixed in write.mixtures(most=40, seed=1)]
    assert any(one not in (None, *known) for one in found)


def torn(folder, monkeypatch, times: int, seed: int) -> dict[str, int]:
    """Leaves some pages of a write in the file, as a power cut does; with the journal it must be what it was."""
    path = folder / "torn.db"
    account = Ledger(str(path)).open(WHO, Budget(500.0))
    account.reserve([charge(name_of(i)) for i in range(40)])
    before, start = told(path), path.read_bytes()
    batch = [charge(name_of(i)) for i in range(40, 340)]
    half, journal = stopped_half_way(account, path, lambda: account.reserve(batch), monkeypatch)
    write = Write(start, half)
    assert len(write.pages) > 5, "the transaction went into the file before it ended"
    refused = 0
    for mixed in write.mixtures(times, seed):
        found = told(put(folder, mixed))
        assert found in (None, before)
        refused += found is None
        copy = put(folder, mixed)
        (folder / "copy.db-journal").write_bytes(journal)
        assert told(copy) == before
    return {"torn writes": times, "refused without their journal": refused}


@pytest.mark.slow
def test_with_its_journal_a_file_with_some_pages_of_a_write_is_what_it_was(tmp_path, monkeypatch):
    assert torn(tmp_path, monkeypatch, times=20, seed=2)["refused without their journal"] > 10


@pytest.mark.slow
def test_a_thousand_torn_writes(tmp_path, monkeypatch):
    assert torn(tmp_path, monkeypatch, times=1_000, seed=5)["refused without their journal"] > 500


def test_a_journal_beside_another_file_than_its_own_is_noticed(account, path, tmp_path, monkeypatch):
    # A backup was put back, and the journal of the crashed file still lies beside it.
    for i in range(20):
        account.reserve([charge(name_of(i))])
    backup = path.read_bytes()
    for i in range(20, 120):
        account.reserve([charge(name_of(i))])
    batch = [charge(name_of(i)) for i in range(120, 420)]
    _, journal = stopped_half_way(account, path, lambda: account.reserve(batch), monkeypatch)
    copy = put(tmp_path, backup)
    (tmp_path / "copy.db-journal").write_bytes(journal)
    assert told(copy) is None


def _spend(where: str, promised: int, tries: int) -> None:
    """Charges and promises ``tries`` times, and then waits to be killed."""
    account = Ledger(where).open(WHO, None)
    for i in range(tries):
        account.reserve([charge(f"{os.getpid()}-{i}")])
        os.write(promised, f"{os.getpid()}-{i}\n".encode())
    signal.pause()


def start(path, tries: int) -> tuple[int, BinaryIO]:
    """A process that charges, and what it promises."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _spend(str(path), writer, tries)
        finally:
            os._exit(1)
    os.close(writer)
    return child, os.fdopen(reader, "rb")


def kills(path, folder, times: int, seed: int) -> tuple[int, int]:
    """Kills a process that charges, at any moment; how many copies made then were refused, and how many whole.

    The first process has made its last promise when it is killed, so that one copy at least is whole.
    """
    chance, refused, whole, notes = random.Random(seed), 0, 0, set()
    for time in range(times):
        some = chance.randint(1, 8)
        child, promises = start(path, some if time == 0 else 1_000_000)
        notes |= {promises.readline().decode().strip() for _ in range(some)}
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        notes |= set(promises.read().decode().split())
        promises.close()
        copy = put(folder, path.read_bytes())  # alone, without its journal
        if told(copy) is None:
            refused += 1
        else:
            whole += 1
            assert notes <= charged(copy)
        assert notes <= charged(path)
        assert Ledger(str(path)).verify() == []
    assert notes
    return refused, whole


@pytest.mark.slow
def test_a_copy_made_after_a_kill_at_any_moment_covers_every_promise(account, path, tmp_path):
    account.database.close()
    _, whole = kills(path, tmp_path, times=8, seed=3)
    assert whole > 0


@pytest.mark.slow
def test_copies_made_after_hundreds_of_kills_cover_every_promise(account, path, tmp_path):
    account.database.close()
    refused, whole = kills(path, tmp_path, times=400, seed=4)
    print({"refused": refused, "whole": whole})
    assert whole > 0


@pytest.mark.slow
def test_copies_of_a_file_that_is_being_written_cover_every_promise_or_are_refused(account, path, tmp_path):
    account.database.close()
    child, promises = start(path, 45)
    try:
        notes, whole = set(), []
        for i in range(45):
            notes.add(promises.readline().decode().strip())
            if i % 3 == 2:
                whole.append(told(put(tmp_path, path.read_bytes())) is not None)
                assert not whole[-1] or notes <= charged(tmp_path / "copy.db")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        promises.close()
    assert whole[-1], "nothing was being written any more"
