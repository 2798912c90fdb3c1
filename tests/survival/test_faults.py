"""Full and read-only disks, clocks that jump: no answer without a charge, and what stands verifies."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from sottovoce.cli import run
from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger import history as ledger_history
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger, Reservation
from survival.crashes import Notes, in_a_child, release
from survival.races import WHO


def fill(where: str, admitted_to, tries: int = 100_000) -> None:
    """Reserves until the disk refuses; notes each admission outside."""
    account = Ledger(where).open(WHO, None)
    for i in range(tries):
        account.reserve([Reservation(f"full-{i}", BoundedRange(1e-6), "x" * 1_000)])
        os.write(admitted_to, f"full-{i}\n".encode())


def assert_it_stops_cleanly(where: str, limit, tmp_path) -> int:
    notes = tmp_path / "admitted"
    with notes.open("wb") as file:

        def work() -> None:
            limit()
            try:
                fill(where, file.fileno())
            except LedgerUnavailableError as error:
                os.write(file.fileno(), b"refused " + str(error).encode())

        assert in_a_child(work) == 0
    lines = notes.read_text().splitlines()
    assert lines[-1].startswith("refused The ledger"), lines[-1:]
    return len(lines) - 1


def assert_every_admission_is_charged(where: str, admitted: int) -> None:
    book = Ledger(where)
    assert book.verify() == []
    charged = [entry["release_id"] for entry in book.history() if entry["kind"] == "reserve"]
    assert {f"full-{i}" for i in range(admitted)} <= set(charged)
    assert len(charged) - admitted in (0, 1), "a charge may stand whose answer was refused; none is missing"
    book.close()


@pytest.mark.slow
def test_a_file_that_cannot_grow_refuses_and_what_was_admitted_is_charged(tmp_path):
    where = str(tmp_path / "tickets.db")
    Ledger(where).open(WHO, Budget(500.0))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    admitted = assert_it_stops_cleanly(where, limit, tmp_path)
    assert admitted > 10
    assert_every_admission_is_charged(where, admitted)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one mebibyte, where this machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("mount") else None
    if done is None or done.returncode:
        pytest.skip("a small file system cannot be mounted here" + (f": {done.stderr.strip()}" if done else ""))
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_refuses_and_what_was_admitted_is_charged(small_disk, tmp_path):
    where = str(small_disk / "tickets.db")
    book = Ledger(where)
    book.open(WHO, Budget(500.0))
    book.close()
    admitted = assert_it_stops_cleanly(where, lambda: None, tmp_path)
    assert_every_admission_is_charged(where, admitted)


@pytest.mark.slow
def test_a_disk_that_turns_read_only_means_no_answer(small_disk, tmp_path):
    where, notes = str(small_disk / "tickets.db"), Notes(tmp_path / "notes")
    assert in_a_child(lambda: release(where, notes, "before")) == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert in_a_child(lambda: release(where, notes, "after")) == 1
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert {name for _, name in notes.read()} == {"before"}, "nothing private was read for the second"
    assert Ledger(where).verify() == []
    assert in_a_child(lambda: release(where, notes, "after")) == 0, "with the disk back the same id is answered"


def test_a_ledger_on_a_read_only_disk_can_be_shown_verified_and_exported(small_disk, tmp_path):
    where = str(small_disk / "tickets.db")
    book = Ledger(where)
    book.open(WHO, Budget(1.0)).reserve([Reservation("r", BoundedRange(0.25), "read")])
    book.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for words in (["show"], ["verify"], ["export", "--out", str(tmp_path / "out.jsonl")]):
        assert run(["ledger", words[0], where, *words[1:]]) == 0
    with pytest.raises(LedgerUnavailableError, match="readonly"):
        Ledger(where).open(WHO, None).reserve([Reservation("s", BoundedRange(0.25), "write")])


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1)], ids=["forward", "back"])
def test_a_clock_that_jumps_a_day_changes_nothing(tmp_path, monkeypatch, jump):
    account = Ledger(str(tmp_path / "tickets.db")).open(WHO, Budget(1.0))
    account.reserve([Reservation("now", BoundedRange(0.25), "clock")])

    class Jumped:
        @staticmethod
        def now(zone):
            return datetime.now(zone) + jump

    monkeypatch.setattr(ledger_history, "datetime", Jumped)
    account.reserve([Reservation("then", BoundedRange(0.25), "clock")])
    account.mark_released(["now"])
    account.reserve([Reservation("then", BoundedRange(0.25), "clock")])
    assert account.balance().left == 0.5
    assert Ledger.of(account).verify() == []
    times = [datetime.fromisoformat(row["at"]) for row in Ledger.of(account).history()]
    assert abs(times[-1] - datetime.now(UTC)) > timedelta(hours=23), "the clock did jump"
