"""Flipped bits, deleted and reordered rows: whatever changes what a ledger says is found."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace

import pytest

from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.events import BoundedRange, PureDP, WithFailure, ZCDpEvent
from sottovoce.privacy.ledger import verify as ledger_verify
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.history import History
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.verify import find_problems
from sottovoce.privacy.unit import Adjacency

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")
NEWER = Identity("cd" * 32, Adjacency.REPLACE_ONE, "record")
OTHER = Identity("ef" * 32, Adjacency.ADD_REMOVE, "patient")
TABLES = ("entries", "data_sets", "caps", "fingerprints", "secrets", "meta")


def eventful(path: str) -> Ledger:
    """A ledger with every kind of entry in it."""
    ledger = Ledger(path)
    account = ledger.open(WHO, Budget(8, 1e-6, failure_delta=5e-7))
    ledger.grant(OTHER, Budget(3.0), name="wards").reserve([Reservation("w1", PureDP(0.5), "wards")])
    ledger.allot(WHO, group="support", budget=Budget(4, 1e-6))
    ledger.allot(WHO, group="support", caller="alice", budget=Budget(2, 1e-6, failure_delta=1e-7))
    account.reserve([Reservation(f"r{i}", BoundedRange(0.1 * (i + 1)), "owner") for i in range(4)])
    ledger.open(WHO, None, caller="alice").reserve(
        [Reservation("a1", BoundedRange(0.2), "alice"), Reservation("a2", ZCDpEvent(0.001), "alice")]
    )
    account.reserve([Reservation("f1", WithFailure(PureDP(0.3), 1e-8), "histogram")])
    account.record_non_private(["n1"], "full context")
    account.begin(["r1", "r2"])
    account.mark_released(["r0", "r2", "n1", "a1"])
    ledger.grant(NEWER, None, continues="data")
    ledger.grant(WHO, Budget(9, 1e-6, failure_delta=5e-7))
    assert ledger.verify() == []
    return ledger


def rows_of(ledger: Ledger) -> History:
    with ledger.rows() as history:
        return replace(history, entries=[dict(row) for row in history.entries])


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return rows_of(eventful(str(tmp_path_factory.mktemp("tampering") / "tickets.db")))


def flipped(value, chance: random.Random):
    """The same value with one bit of it turned, in the type it had."""
    if isinstance(value, int):
        return value ^ (1 << chance.randrange(62))
    if value is None:
        return chr(1 << chance.randrange(5))
    if not value:
        return None
    place = chance.randrange(len(value))
    return value[:place] + chr(ord(value[place]) ^ (1 << chance.randrange(7))) + value[place + 1 :]


def tampered(history: History, chance: random.Random) -> tuple[History, str]:
    """One act of tampering: a flipped bit, a deleted, doubled or moved row, two rows or two values exchanged."""
    table = chance.choice(TABLES)
    if table == "meta":
        key = chance.choice(sorted(history.meta))
        return replace(history, meta={**history.meta, key: flipped(history.meta[key], chance)}), f"flip meta.{key}"
    rows = [dict(row) for row in getattr(history, table)]
    act = chance.choice(("flip", "flip", "delete", "double", "move", "exchange"))
    place, other = chance.randrange(len(rows)), chance.randrange(len(rows))
    if act == "flip":
        column = chance.choice(sorted(rows[place]))
        rows[place][column] = flipped(rows[place][column], chance)
        act = f"flip {column}"
    elif act == "delete":
        del rows[place]
    elif act == "double":
        rows.insert(place, dict(rows[place]))
    elif act == "move":
        rows.insert(other, rows.pop(place))
    else:
        column = chance.choice(sorted(rows[place]))
        rows[place][column], rows[other][column] = rows[other][column], rows[place][column]
    return replace(history, **{table: rows}), f"{act} in {table}"


def says(history: History) -> tuple:
    """What a ledger says: entries in order; the other tables are sets of rows."""

    def plain(rows):
        return [tuple((key, type(value).__name__, value) for key, value in sorted(row.items())) for row in rows]

    tables = ("data_sets", "caps", "fingerprints", "secrets")
    others = (sorted(plain(getattr(history, table)), key=repr) for table in tables)
    return plain(history.entries), *others, sorted(history.meta.items(), key=repr)


def undetected(history: History, times: int, seed: int) -> tuple[int, list[str]]:
    """How often something was changed, and the changes that nobody found."""
    chance, truth = random.Random(seed), says(history)
    changed, missed = 0, []
    for _ in range(times):
        after, act = tampered(history, chance)
        if says(after) == truth:
            continue
        changed += 1
        if not find_problems(after):
            missed.append(act)
    return changed, missed


def test_the_untouched_ledger_has_no_problems(history):
    assert find_problems(history) == []


@pytest.mark.slow
def test_thousands_of_changed_rows_are_all_found(history):
    changed, missed = undetected(history, 4_000, seed=1)
    assert missed == []
    assert changed > 3_000


@pytest.mark.slow
def test_a_hundred_thousand_changed_rows_are_all_found(history):
    changed, missed = undetected(history, 130_000, seed=2)
    assert missed == []
    assert changed >= 100_000


@pytest.mark.parametrize("column", ["at", "previous", "hash"])
def test_a_verifier_without_the_hash_would_miss_a_flip(history, column, monkeypatch):
    # The planted mistake: entries are believed. A flip in a column that no balance follows from then goes unseen.
    entries = [dict(row) for row in history.entries]
    entries[3][column] = flipped(entries[3][column], random.Random(3))
    changed = replace(history, entries=entries)
    assert find_problems(changed) != []
    monkeypatch.setattr(ledger_verify, "hash_of", lambda row: row["hash"])
    assert (find_problems(changed) == []) == (column == "at"), "the links between hashes still show the other two"


def test_a_forged_tail_is_found_by_its_head(history):
    # The newest entry, a larger budget, is cut off together with its effect on the balance: only the head knows.
    entries, opened = list(history.entries), json.loads(history.entries[0]["detail"])
    assert entries[-1]["kind"] == "grant"
    data_sets = [dict(row) for row in history.data_sets]
    data_sets[0].update(epsilon=opened["epsilon"], cap=opened["cap"])
    cut = replace(history, entries=entries[:-1], data_sets=data_sets)
    assert find_problems(cut) == [p for p in find_problems(cut) if "the head is entry" in p] != []


def damaged_files(folder, times: int, seed: int) -> dict[str, int]:
    """Flips single bits of the database file itself and says what became of it."""
    source = folder / "whole.db"
    ledger = eventful(str(source))
    ledger.close()
    truth, chance = says(rows_of(Ledger(str(source)))), random.Random(seed)
    Ledger(str(source)).close()
    seen = {"refused": 0, "found": 0, "without effect": 0}
    size = source.stat().st_size
    for time in range(times):
        copy = folder / f"copy{time}.db"
        shutil.copy(source, copy)
        with copy.open("r+b") as file:
            place = chance.randrange(size)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ (1 << chance.randrange(8))]))
        try:
            book = Ledger(str(copy))
            problems = book.verify()
            after = says(rows_of(book)) if not problems else ()
            book.close()
        except LedgerUnavailableError:
            seen["refused"] += 1
        else:
            assert problems or after == truth, f"bit {place} of the file changed the ledger and nobody noticed"
            seen["found" if problems else "without effect"] += 1
        for file in folder.glob(f"copy{time}.db*"):
            file.unlink()
    return seen


@pytest.mark.slow
def test_flipped_bits_of_the_file_are_refused_found_or_without_effect(tmp_path):
    seen = damaged_files(tmp_path, 60, seed=4)
    assert seen["refused"] + seen["found"] > 0


def test_a_file_with_text_that_is_no_text_is_refused_in_words(tmp_path):
    where = tmp_path / "tickets.db"
    eventful(str(where)).close()
    data = where.read_bytes()
    assert b"sotto_entry" in data
    where.write_bytes(data.replace(b"sotto_entry", b"sotto_\xdfntry"))
    with pytest.raises(LedgerUnavailableError, match="could not be read"):
        Ledger(str(where)).verify()


@pytest.mark.slow
def test_thousands_of_flipped_bits_of_the_file(tmp_path):
    seen = damaged_files(tmp_path, 3_000, seed=5)
    print(seen)
    assert seen["refused"] > 100
    assert seen["found"] > 100
