"""No budget is opened twice for the same records without its owner's word: each try is refused and says what to do."""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import shlex
import string
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from sottovoce.cli import run
from sottovoce.errors import BudgetError, InputError, LedgerMismatchError, LedgerUnavailableError
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger import known_records
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.identity import Identity
from sottovoce.privacy.ledger.known_records import require_public
from sottovoce.privacy.ledger.ledger import Ledger, Reservation
from sottovoce.privacy.ledger.opening import open_account, require_known
from sottovoce.privacy.ledger.registry import default_path, refuse_second
from sottovoce.privacy.unit import Adjacency
from sottovoce.records import fingerprints
from sottovoce.records.earlier_cells import EARLIER as EARLIER_CELLS
from sottovoce.records.fingerprints import PHRASE, SENTENCE
from sottovoce.records.sealed import PrivateRecords, PublicRecords, Row
from sottovoce.store import home, mark_key

ONE = Adjacency.REPLACE_ONE
WORDS = ("billing", "fraud")


def note(i):
    letters = "".join("abcdefghij"[int(digit)] for digit in str(i))  # else it would differ from others in digits alone
    return {"text": f"note number {i} about the money of {letters}", "label": WORDS[i % 2]}


def sealed(values, **options):
    return PrivateRecords([Row(line, row) for line, row in enumerate(values, 1)], source="t.jsonl", **options)


NOTES = [note(i) for i in range(40)]


WHOLE = Budget(1.0)


def opened(records, ledger=None, budget=WHOLE):
    return open_account(records, ONE, budget, ledger, None)


def spend(account, name="r", epsilon=0.5):
    account.reserve([Reservation(name, BoundedRange(epsilon), "test")])


# The same records


@pytest.mark.parametrize("given", ["postgresql://ann:hunter2@/b", "postgresql://ann@/b?password=hunter2"])
def test_a_refusal_names_an_address_without_its_password(tmp_path, given):
    records = sealed([note(i) for i in range(20)])
    opened(records, str(tmp_path / "kept.db"))
    with pytest.raises(LedgerMismatchError, match="postgresql://ann@/b knows nothing") as caught:
        refuse_second(Identity.of(records, ONE), given)
    assert "hunter2" not in str(caught.value)


def test_a_ledger_is_where_it_was_named_wherever_the_program_goes(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    monkeypatch.chdir(here)
    ledger = Ledger("kept.db")
    monkeypatch.chdir(there)
    records = sealed([note(i) for i in range(20)])
    spend(opened(records, ledger))
    assert pickle.loads(pickle.dumps(ledger)) == str(here / "kept.db") == default_path(records)
    assert opened(records, None, None).balance().left == 0.5


def test_memory_is_refused_to_records_that_have_a_ledger(tmp_path):
    path = str(tmp_path / "t.db")
    spend(opened(sealed(NOTES), path))
    for _ in range(2):
        with pytest.raises(LedgerMismatchError, match="ledger in memory forgets"):
            opened(sealed(NOTES), ":memory:")
    with pytest.raises(LedgerMismatchError, match="ledger in memory forgets"):
        Ledger(":memory:").open(Identity.of(sealed(NOTES), ONE), Budget(1.0))
    assert opened(sealed([note(i) for i in range(500, 540)]), ":memory:").balance().left == 1
    assert opened(sealed(NOTES, synthetic=True), ":memory:").balance().left == 1


def test_a_budget_in_memory_is_opened_once_and_then_only_by_the_owner(tmp_path):
    first = opened(sealed(NOTES), ":memory:")
    spend(first)
    assert opened(sealed(NOTES), Ledger.of(first), None).balance().left == 0.5, "one ledger is one budget"
    file = str(tmp_path / "t.db")
    for again in (":memory:", file, None, Ledger(":memory:")):
        with pytest.raises(LedgerUnavailableError, match="had a budget in a ledger in memory") as refusal:
            opened(sealed(NOTES), again)
        assert "sotto ledger grant LEDGER" in str(refusal.value)
        with pytest.raises(BudgetError, match="in memory"):
            opened(sealed([*NOTES, note(77)]), again)
    assert not Path(file).exists()
    spend(opened(sealed(NOTES), Ledger.of(first), None))  # what was refused did not touch the first
    assert Ledger(":memory:").grant(Identity.of(sealed(NOTES), ONE), Budget(1.0)).balance().left == 1
    Ledger(file).grant(Identity.of(sealed(NOTES), ONE), Budget(2.0))
    assert opened(sealed(NOTES), None, None).balance().left == 2
    assert opened(sealed(NOTES), Ledger.of(first), None).conflicting_ledger == file


def test_a_budget_in_memory_needs_a_store_that_remembers_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)  # open to others
    with pytest.raises(LedgerUnavailableError, match="trusted store cannot be used"):
        opened(sealed(NOTES), ":memory:")
    assert opened(sealed(NOTES, synthetic=True), ":memory:").balance().left == 1


def test_made_up_records_in_memory_are_not_remembered(tmp_path):
    for _ in range(2):
        assert opened(sealed(NOTES, synthetic=True), ":memory:").balance().left == 1
    assert not home().exists() or not list(home().rglob("*"))
    assert opened(sealed(NOTES), str(tmp_path / "t.db")).balance().left == 1


@pytest.mark.parametrize("how", ["deleted", "emptied", "replaced"])
@pytest.mark.parametrize("named", [True, False])
def test_a_ledger_that_was_deleted_emptied_or_replaced_is_missed(tmp_path, how, named):
    path = tmp_path / "t.db"
    account = opened(sealed(NOTES), str(path))
    spend(account)
    account.database.close()
    for file in tmp_path.glob("t.db*"):
        file.unlink()
    if how == "emptied":
        path.write_bytes(b"")
    elif how == "replaced":
        Ledger(str(path)).close()
    with pytest.raises(LedgerUnavailableError, match="would start their budget again"):  # and not "nothing to resume"
        require_known(sealed(NOTES), ONE, str(path) if named else None, None)
    with pytest.raises(LedgerUnavailableError, match="would start their budget again") as refusal:
        opened(sealed(NOTES), str(path) if named else None)
    assert "backup" in str(refusal.value)
    assert "sotto ledger grant" in str(refusal.value)
    assert path.exists() == (how != "deleted")
    assert how == "replaced" or not path.exists() or path.stat().st_size == 0


def test_a_second_ledger_is_the_owners_decision(tmp_path):
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    spend(opened(sealed(NOTES), first))
    with pytest.raises(LedgerMismatchError, match=f"have the ledger {first} already") as refusal:
        opened(sealed(NOTES), second)
    assert f"sotto ledger grant {second}" in str(refusal.value)
    assert not Path(second).exists()
    Ledger(second).grant(Identity.of(sealed(NOTES), ONE), Budget(1.0))
    account = opened(sealed(NOTES), second, None)
    assert (account.balance().left, account.conflicting_ledger) == (1, first)
    assert default_path(sealed(NOTES)) == first


def test_the_same_rows_in_other_units_get_no_second_budget(tmp_path):
    rows = [{**note(i), "group": f"g{i // 2}"} for i in range(20)]
    spend(opened(sealed(rows), str(tmp_path / "t.db")))
    blank = [{**row, "group": row["group"] + " " * (i % 2)} for i, row in enumerate(rows)]
    for other in (sealed(rows, unit="record"), sealed(blank)):
        for ledger in (None, str(tmp_path / "new.db"), ":memory:"):
            with pytest.raises(LedgerMismatchError, match="those of the data set 'data'"):
                opened(other, ledger)
        with pytest.raises(LedgerMismatchError):
            opened(other, str(tmp_path / "t.db"))
    account = Ledger(str(tmp_path / "new.db")).grant(Identity.of(sealed(blank), ONE), Budget(1.0))
    assert account.balance().left == 1


# Records that are mostly known

EDITS = {
    "grown": [*NOTES, note(900), note(901)],
    "grown a lot": [*NOTES, *(note(i) for i in range(1000, 1400))],
    "a part": NOTES[:5],
    "a column more": [{**row, "year": 2024} for row in NOTES],
    "a column less": [{"text": row["text"]} for row in NOTES],
    "other labels": [{**row, "label": "other"} for row in NOTES],
    "a longer column that is the same in every row": [{**row, "prompt": "You are careful. " * 9} for row in NOTES],
    "a longer column": [{**row, "url": f"https://host.example/notes/{i:060d}"} for i, row in enumerate(NOTES)],
    "every row three times": [{**row, "label": label} for row in NOTES for label in ("complaint", "praise", "other")],
    "half of it new": [*NOTES[:20], *(note(i) for i in range(2000, 2020))],
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", EDITS)
def test_a_file_whose_records_are_mostly_known_opens_no_fresh_budget(tmp_path, kind):
    path = str(tmp_path / "t.db")
    spend(opened(sealed(NOTES), path))
    for ledger in (None, str(tmp_path / "new.db"), ":memory:"):
        with pytest.raises(LedgerMismatchError, match="no new records") as refusal:
            opened(sealed(EDITS[kind]), ledger)
        assert f"sotto ledger grant {path} --private t.jsonl --unit record" in str(refusal.value)
        assert "--continues data" in str(refusal.value)
        assert "%" not in str(refusal.value)  # under add-remove nobody is told how many records there are
        assert "note number" not in str(refusal.value)
    assert not (tmp_path / "new.db").exists()
    Ledger(path).grant(Identity.of(sealed(EDITS[kind]), ONE), None, continues="data")
    assert opened(sealed(EDITS[kind]), None, None).balance().left == 0.5


def each_with(times, **columns):
    """Every note so many times, with further columns."""
    return [
        {**row, **{name: text.format(i * times + k) for name, text in columns.items()}}
        for i, row in enumerate(NOTES)
        for k in range(times)
    ]


ID, REASON = "{:032x}", "a reason that annotator number {} has given"
ANNOTATED = {
    "three times with an id": each_with(3, id=ID),
    "five times with an id": each_with(5, id=ID),
    "twelve times with an id": each_with(12, id=ID),
    "three times with a sentence": each_with(3, reason=REASON),
    "once with five sentences": each_with(1, **{name: f"{name} says: {REASON}" for name in "abcde"}),
    "once with both": each_with(1, id=ID, reason=REASON, prompt="You are a careful assistant, friend."),
}


@pytest.mark.cases(6)
@pytest.mark.parametrize("kind", ANNOTATED)
@pytest.mark.parametrize("first", ["plain", "annotated"])
def test_repeated_rows_with_a_new_column_are_known(tmp_path, kind, first):
    one, other = (NOTES, ANNOTATED[kind]) if first == "plain" else (ANNOTATED[kind], NOTES)
    opened(sealed(one), str(tmp_path / "t.db"))
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(other), str(tmp_path / "new.db"))
    with pytest.raises(InputError, match="private"):
        require_public(other, "q.jsonl")


def test_two_annotated_files_of_the_same_records_are_known(tmp_path):
    opened(sealed([{**row, "annotator": f"person {i % 5}"} for i, row in enumerate(each_with(5))]), str(tmp_path / "t"))
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(each_with(5, label="z", id=ID)), None)


@pytest.mark.parametrize("first", [0, 1])
def test_two_annotated_files_of_the_same_numbered_records_are_known(tmp_path, first):
    files = [
        [{"note": f"note number {1000 + i} about money", by: f"mark {i * 7 + k}"} for i in range(40)]
        for k, by in enumerate("ab")
    ]
    opened(sealed(files[first]), str(tmp_path / "t.db"))
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(files[1 - first]), None)
    with pytest.raises(InputError, match="private"):
        require_public(files[1 - first], "q.jsonl")


WORD = {
    "pictures": lambda i: base64.b64encode(random.Random(i).randbytes(90)).decode(),
    "mixed ids": lambda i: "".join(random.Random(i).choices(string.ascii_letters + string.digits, k=22)),
    "files": lambda i: f"scans/ward-b/{NAMES[i % 10]}-{NAMES[i // 10]}.png",
    "folders of a region": lambda i: f"Europe/{NAMES[i % 10]}-{NAMES[i // 10]}/portrait.jpg",
    "profiles": lambda i: f"linkedin.com/in/{NAMES[i % 10]}{NAMES[i // 10]}",
    "running ids": lambda i: f"conversation-2024-{i:06d}",
    "short pictures": lambda i: f"iVBORw0KGgoAAAANSUhEUg{i:032x}",
    "ids": lambda i: f"{random.Random(i).getrandbits(128):032x}",
    "pages": lambda i: f"https://example.org/pictures/{i}.png",
    "addresses": lambda i: f"{NAMES[i % 10]}.{NAMES[i // 10]}@example.org",
    "names": lambda i: NAMES[i % 10] + NAMES[i // 10],
    "long names": lambda i: "customer-called-" + NAMES[i % 10] + NAMES[i // 10],
}
NAMES = ("anna", "berta", "carla", "doris", "emilia", "franz", "gustav", "hugo", "ingrid", "johann")
FURTHER = {
    "some of them twice": lambda row, i: [{**row, "label": label} for label in "xy"[: 1 + (i % 8 == 0)]],
    "each twice, by annotators": lambda row, i: [{**row, "label": by, "by": by} for by in ("ann", "bob")],
    "each four times": lambda row, i: [{**row, "label": f"l{k}"} for k in range(4)],
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("first", ["plain", "longer"])
@pytest.mark.parametrize(
    ("kind", "more"),
    # Names that all stand twice are told from labels by nothing.
    [(kind, more) for kind in WORD for more in FURTHER if "names" not in kind or more == "some of them twice"],
)
def test_single_words_that_stand_several_times_are_known(tmp_path, kind, more, first):
    plain = [{"it": WORD[kind](i), "label": "ab"[i % 2]} for i in range(100)]
    longer = [new for i, row in enumerate(plain) for new in FURTHER[more](row, i)]
    one, other = (plain, longer) if first == "plain" else (longer, plain)
    opened(sealed(one), str(tmp_path / "t.db"))
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(other), str(tmp_path / "new.db"))
    with pytest.raises(InputError, match="private"):
        require_public(other, "q.jsonl")


@pytest.mark.parametrize(("records", "times"), [(9, 5), (9, 9), (7, 5), (5, 4)])
def test_a_few_records_that_stand_several_times_are_known(tmp_path, records, times):
    opened(sealed(NOTES[:records]), str(tmp_path / "t.db"))
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(each_with(times, id=ID)[: records * times]), str(tmp_path / "new.db"))


JOBS = ("Adm-clerical", "Exec-managerial", "Craft-repair", "Prof-specialty", "Machine-op-inspct", "Transport-moving")


def persons(seed, number):
    return [{"age": i * 7 % 83 + seed, "gain": 1000 * seed + i, "job": JOBS[i % 6]} for i in range(number)]


def intents(seed, number):
    return [
        {
            "text": f"how do I do thing {seed}-{i}?",
            "label": f"request_about_{i % 50}",
            "group_name": f"Group of {i % 50}",
        }
        for i in range(number)
    ]


def measured(seed, number):
    return [{"text": f"a wholly different text {seed}-{i}", "x": round(0.0001 * (i % 97), 4)} for i in range(number)]


def described(seed, number):
    return [
        {"text": f"a wholly different text {seed}-{i}", "label": f"A request about the intent {i % 50}"}
        for i in range(number)
    ]


def dated(seed, number):
    draw = random.Random(seed)
    return [
        {"when": f"{draw.randint(1, 28)} November 20{draw.randint(10, 24)}", "v": draw.random()} for _ in range(number)
    ]


def at_hours(seed, number):
    draw, days = random.Random(seed), ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    return [{"slot": f"{draw.choice(days)} {draw.randint(0, 23)}:30", "v": draw.random()} for _ in range(number)]


def handled(seed, number):
    draw = random.Random(seed)
    return [{"airline": f"@{draw.choice(AIRLINES)}", "fare": draw.random()} for _ in range(number)]


AIRLINES = [
    f"{name.title()}{more}" for name in ("united", "delta", "ryan", "qantas") for more in ("Air", "Help", "Care")
]
DAYS = ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")
MONTHS = ("janvier", "mars", "juillet", "novembre")
NUMBERED_TEXTS = {
    "days": lambda i, draw: f"{DAYS[i % 7]} {i % 28 + 1} {draw.choice(MONTHS)} 2024",
    "ids": lambda i, draw: f"conversation-2024-{i:06d}",
    "files": lambda i, draw: f"invoice_{i:06d}_customer.pdf",
    "cells": lambda i, draw: {"lang": "en", "page": i, "source": "webform"},
}


def numbered(kind):
    def shape(seed, number):
        draw = random.Random(seed)
        tell = [" ".join(draw.choice(NAMES) for _ in range(12)) for _ in range(number)]
        return [{"note": note, "n": NUMBERED_TEXTS[kind](i, draw)} for i, note in enumerate(tell)]

    return shape


def clocked(write):
    return lambda seed, number: [{"v": seed + i / 7, "at": write(i % 28 + 1, i % 60)} for i in range(number)]


CLOCKS = {
    "a browser's": lambda day, minute: (
        f"Fri Jan {day:02} 2024 10:{minute:02}:00 GMT+0100 (Central European Standard Time)"
    ),
    "a shell's": lambda day, minute: f"Fri Jan {day:02} 12:{minute:02}:00 AM CEST 2024",
    "a letter's": lambda day, minute: f"Friday, the {day}th of January 2024",
    "a zone's": lambda day, minute: f"2024-01-{day:02}T00:{minute:02}:00+01:00[Europe/Berlin]",
    "a clock's": lambda day, minute: f"3:{minute:02} AM EST",
}


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "shape",
    [
        *(persons, intents, measured, described, dated, at_hours, handled),
        *(pytest.param(numbered(kind), id=kind) for kind in NUMBERED_TEXTS),
        *(pytest.param(clocked(write), id=name) for name, write in CLOCKS.items()),
    ],
)
@pytest.mark.parametrize("number", [100, 1000])
def test_labels_numbers_and_categories_do_not_make_other_records_known(tmp_path, shape, number):
    opened(sealed(shape(1, number)), str(tmp_path / "t.db"))
    require_public(shape(2, number), "q.jsonl")
    assert opened(sealed(shape(2, number)), None).balance().left == 1


CARDS = [{"text": f"card lost {i}", "label": WORDS[i % 2]} for i in range(40)]
SHORT = {
    "other labels": [{**row, "label": "some complaint"} for row in CARDS],
    "line numbers": [{**row, "n": i} for i, row in enumerate(CARDS)],
    "a longer column": [{**row, "url": f"https://host.example/{i:060d}"} for i, row in enumerate(CARDS)],
}


@pytest.mark.parametrize("kind", SHORT)
def test_records_of_short_texts_are_known_without_their_labels_and_numbers(tmp_path, kind):
    opened(sealed(CARDS), str(tmp_path / "t.db"))
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(SHORT[kind]), None)


@pytest.mark.parametrize("kind", ["long", "short"])
def test_records_that_lost_their_longest_column_are_known(tmp_path, kind):
    rows = CARDS if kind == "short" else NOTES
    opened(sealed([{**row, "summary": "s" * 60 + str(i)} for i, row in enumerate(rows)]), str(tmp_path / "t.db"))
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(rows), None)


def test_boilerplate_and_names_do_not_make_other_records_known(tmp_path):
    prompt = "You are a helpful assistant. Classify the following message:"
    people = [f"Customer {chr(65 + i)}" for i in range(20)]
    mine = [{"text": f"a first note, number {i}", "prompt": prompt, "name": people[i]} for i in range(20)]
    others = [{"text": f"something else, number {i}", "prompt": prompt, "name": people[i]} for i in range(20)]
    opened(sealed(mine), str(tmp_path / "t.db"))
    require_public(others, "q.jsonl")
    assert opened(sealed(others), None).balance().left == 1


def test_marks_of_the_first_format_are_read_and_written_anew(tmp_path):
    path, records = str(tmp_path / "t.db"), sealed(NOTES)
    opened(records, path)
    (file,) = (home() / "ledgers").glob("*.marks")
    header = {"ledger": path, "data_set": "data", "adjacency": "replace-one", "unit": "record", "limit": 2**64 - 1}
    marks = records.marks(mark_key())  # the first format had the same marks, but for the last bits of a text's
    marks[:, 1] ^= np.arange(len(NOTES), dtype=np.uint64) % 4
    first = b"sotto marks 1\n" + json.dumps(header).encode() + b"\n" + marks.astype("<u8").tobytes()
    file.write_bytes(first)
    for kind in ("grown", "other labels", "a longer column"):
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(sealed(EDITS[kind]), None)
    opened(sealed(NOTES), path)
    assert file.read_bytes().startswith(b"sotto marks 8\n")


@pytest.mark.parametrize("rows", ["long", "short"])
def test_marks_of_the_second_format_are_read_and_written_anew(tmp_path, rows):
    path, records = str(tmp_path / "t.db"), sealed(NOTES if rows == "long" else CARDS)
    opened(records, path)
    (file,) = (home() / "ledgers").glob("*.marks")
    magic, header, _ = file.read_bytes().split(b"\n", 2)
    marks = records.marks(mark_key()).copy()  # the second format had long texts odd and short ones even
    marks[:, 1] ^= np.arange(len(marks), dtype=np.uint64) % 2 * 2
    marks[:, 1] = marks[:, 1] | 1 if rows == "long" else marks[:, 1] & ~np.uint64(1)
    assert magic == b"sotto marks 8"
    file.write_bytes(b"sotto marks 2\n" + header + b"\n" + marks.astype("<u8").tobytes())
    read = known_records._read(file).marks[:, 1]
    assert (read % 4 == (SENTENCE if rows == "long" else PHRASE)).all()
    for kind, edit in (EDITS if rows == "long" else SHORT).items():
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(sealed(edit), str(tmp_path / f"{kind}.db"))
    opened(records, path)
    assert file.read_bytes().startswith(b"sotto marks 8\n")
    assert np.array_equal(known_records._read(file).marks, records.marks(mark_key()))


def test_marks_of_the_third_format_are_read_and_written_anew(tmp_path):
    path, records = str(tmp_path / "t.db"), sealed(NOTES)
    opened(records, path)
    (file,) = (home() / "ledgers").glob("*.marks")
    _, header, _ = file.read_bytes().split(b"\n", 2)
    marks = records.marks(mark_key()).copy()  # the third format knew no numbered texts
    marks[:, 1] |= SENTENCE
    file.write_bytes(b"sotto marks 3\n" + header + b"\n" + marks.astype("<u8").tobytes())
    assert (known_records._read(file).marks == marks).all()
    for kind, edit in EDITS.items():
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(sealed(edit), str(tmp_path / f"{kind}.db"))
    opened(records, path)
    assert file.read_bytes().startswith(b"sotto marks 8\n")


def rows_of_numbers(count, first=0, digits=17, **columns):
    values = np.random.default_rng(first).normal(size=(count, 4))
    kept = values if digits == 17 else values.astype(np.float32).astype(float)
    return [{"numbers": " ".join(map(repr, row)), **columns} for row in kept.tolist()]


def test_rows_of_numbers_are_known_however_many_digits_they_are_written_with(tmp_path):
    opened(sealed(rows_of_numbers(40, label="a")), str(tmp_path / "t.db"))
    for edit in (
        rows_of_numbers(40, digits=7, label="a"),
        rows_of_numbers(40, digits=7, label="b"),
        rows_of_numbers(40, digits=7)[:25],
        rows_of_numbers(40) + rows_of_numbers(9, first=1, label="b"),
        [{"numbers": row["numbers"].replace(" ", "  \t").replace("e", "E")} for row in rows_of_numbers(40)],
    ):
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(sealed(edit), str(tmp_path / "other.db"))
    with pytest.raises(InputError, match="most of these rows are private records"):
        require_public(rows_of_numbers(40, digits=7), "pool")
    opened(sealed(rows_of_numbers(40, first=2, label="a")), str(tmp_path / "new.db"))
    require_public(rows_of_numbers(40, first=3), "pool")


@pytest.mark.parametrize("few", [lambda n: f"{n % 7}.5 {n % 3}.25", lambda n: f"{n % 9} {n % 11} {n % 2}"])
def test_rows_of_a_few_numbers_make_no_other_records_known(tmp_path, few):
    opened(sealed([{"numbers": few(n), "label": "a"} for n in range(40)]), str(tmp_path / "t.db"))
    opened(sealed([{"numbers": few(n), "label": "b"} for n in range(200, 240)]), str(tmp_path / "other.db"))


@pytest.mark.parametrize("beside", [lambda start: start + 5.5, lambda start: 20.5])
def test_times_that_32_bits_do_not_keep_make_no_other_records_known(beside, tmp_path):
    def visits(first):
        starts = [1.7e9 + 600 * n + 0.25 + first for n in range(40)]
        return [{"numbers": f"{start!r} {beside(start)!r}", "label": "a"} for start in starts]

    opened(sealed(visits(0)), str(tmp_path / "t.db"))
    opened(sealed(visits(1)), str(tmp_path / "other.db"))


def test_marks_of_the_fifth_format_are_read_and_written_anew(tmp_path):
    path, records = str(tmp_path / "t.db"), sealed(rows_of_numbers(40, label="a"))
    opened(records, path)
    (file,) = (home() / "ledgers").glob("*.marks")
    fields = json.loads(file.read_bytes().split(b"\n", 2)[1])
    whole = records.marks(mark_key())[:, :1]  # the fifth format had no other mark of rows of numbers
    header = json.dumps({**fields, "width": 1}).encode()
    file.write_bytes(b"sotto marks 5\n" + header + b"\n" + whole.astype("<u8").tobytes())
    for edit in (rows_of_numbers(40, label="a") + rows_of_numbers(1, first=1), rows_of_numbers(40, label="a")[:30]):
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(sealed(edit), str(tmp_path / "other.db"))
    opened(records, path)
    assert file.read_bytes().startswith(b"sotto marks 8\n")
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(rows_of_numbers(40, digits=7, label="a")), str(tmp_path / "other.db"))


def pictures(level: int, first: int = 0) -> PrivateRecords:
    return sealed(picture_rows(level, first))


def picture_rows(level: int, first: int = 0) -> list[dict[str, str]]:
    image = pytest.importorskip("PIL.Image")
    drawn = [np.random.default_rng(first + seed).integers(0, 255, (12, 12), np.uint8) for seed in range(12)]
    files = [BytesIO() for _ in drawn]
    for pixels, file in zip(drawn, files, strict=True):
        image.fromarray(pixels).save(file, "PNG", compress_level=level)
    return [{"image": base64.b64encode(file.getvalue()).decode("ascii")} for file in files]


def test_marks_made_before_pictures_could_be_read_are_written_anew(tmp_path, monkeypatch):
    path = str(tmp_path / "t.db")
    with monkeypatch.context() as without_pillow:
        without_pillow.setattr(fingerprints, "find_spec", lambda name: None)
        opened(pictures(1), path)
    (file,) = (home() / "ledgers").glob("*.marks")
    without = file.read_bytes()
    for older in (without, *(without.replace(b"marks 6", b"marks %d" % number) for number in (5, 4))):
        file.write_bytes(older)
        opened(pictures(1), path)
        assert file.read_bytes().startswith(b"sotto marks 8\n")
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(pictures(9), str(tmp_path / "again.db"))
    whole = file.read_bytes()
    with monkeypatch.context() as without_pillow:
        without_pillow.setattr(fingerprints, "find_spec", lambda name: None)
        opened(pictures(1), path)
    assert file.read_bytes() == whole, "and no mark is lost where they cannot be decoded any more"
    with monkeypatch.context() as told_once:
        told_once.setattr(fingerprints, "_shown", lambda picture: pytest.fail("decoded again"))
        opened(pictures(1), path)


def test_marks_that_lack_a_picture_for_want_of_memory_are_completed(tmp_path, monkeypatch):
    path, shown = str(tmp_path / "t.db"), fingerprints._shown
    with monkeypatch.context() as without_memory:
        without_memory.setattr(fingerprints, "_shown", lambda picture: None)
        opened(pictures(1), path)
    (file,) = (home() / "ledgers").glob("*.marks")
    assert not known_records._read(file).is_whole
    lacking = [True, *[False] * 11]
    with monkeypatch.context() as less_of_it:
        less_of_it.setattr(fingerprints, "_shown", lambda picture: None if lacking.pop() else shown(picture))
        opened(pictures(1), path)
    assert not known_records._read(file).is_whole
    opened(pictures(1), path)
    assert known_records._read(file).is_whole
    whole = known_records._read(file).marks.tobytes()
    with monkeypatch.context() as moved:
        moved.setattr(fingerprints, "_shown", lambda picture: pytest.fail("decoded again"))
        known_records.keep(Identity.of(pictures(1), Adjacency.REPLACE_ONE), "elsewhere.db", "notes")
    assert known_records._read(file).marks.tobytes() == whole
    assert known_records._read(file).known.ledger == "elsewhere.db"


def test_rows_beside_records_that_are_remembered_are_compared_with_what_is_kept(tmp_path, monkeypatch):
    opened(pictures(1), str(tmp_path / "t.db"))
    again, others = (picture_rows(9), picture_rows(9, first=100))
    monkeypatch.setattr(PrivateRecords, "marks_and_sight", lambda *given: pytest.fail("made again"))
    with pytest.raises(InputError, match=r"private records, such as those of the data set.*t\.db"):
        known_records.require_public(again, "--queries", beside=pictures(1))
    known_records.require_public(others, "--queries", beside=pictures(1))


def test_pieces_of_several_data_sets_are_known_too_and_new_records_are_not(tmp_path):
    for i in range(3):
        opened(sealed([note(100 * i + j) for j in range(40)]), str(tmp_path / f"{i}.db"))
    pieces = [note(100 * i + j) for i in range(3) for j in range(10)]
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(pieces), None)
    mixed = [*NOTES[:15], *(note(i) for i in range(3000, 3020))]
    assert opened(sealed(mixed), None).balance().left == 1  # 15 of 35, 15 of 40


@pytest.mark.slow
def test_records_of_a_large_data_set_are_found_in_a_sample_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(known_records, "MOST", 500)
    many = [note(i) for i in range(2000)]
    opened(sealed(many), str(tmp_path / "t.db"))
    (file,) = (home() / "ledgers").glob("*.marks")
    assert 500 * 16 < file.stat().st_size < 500 * 16 + 500
    # 40 of 2000 records expect 10 in the sample; none in it has a chance of 0.75^40, 1e-5.
    for part in (
        many[:40],
        [{"text": row["text"]} for row in many[100:900]],
        [{**row, "url": f"https://host.example/{i:060d}"} for i, row in enumerate(many)],
        [*many, note(9000)],
    ):
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(sealed(part), None)
    assert opened(sealed([note(i) for i in range(5000, 5400)]), None).balance().left == 1


def test_marks_hold_no_fingerprint_and_no_text(tmp_path):
    records = sealed(NOTES)
    opened(records, str(tmp_path / "t.db"))
    kept = b"".join(path.read_bytes() for path in (home() / "ledgers").iterdir())
    assert records.fingerprint.encode() not in kept
    assert b"note number" not in kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in home().rglob("*"))


def test_synthetic_records_may_have_any_number_of_budgets_and_are_not_remembered(tmp_path):
    for name in ("a.db", "b.db"):
        assert opened(sealed(NOTES, synthetic=True), str(tmp_path / name)).balance().left == 1
    assert not list((home() / "ledgers").glob("*.marks"))
    require_public(NOTES, "rows")


# Ledgers of earlier versions


def test_a_ledger_of_an_earlier_version_goes_on_under_the_new_fingerprint(tmp_path, monkeypatch):
    path, records = str(tmp_path / "t.db"), sealed(NOTES)
    before = Identity(records.first_fingerprint(), ONE, "record")
    spend(Ledger(path).open(before, Budget(1.0)))
    for ledger in (None, path):
        account = opened(records, ledger, None)
        assert (account.balance().left, Ledger.of(account).path) == (0.5, path)
    ledger = Ledger(path)
    assert [entry["kind"] for entry in ledger.history()] == ["open", "reserve", "version"]
    assert ledger.verify() == []
    assert opened(records, path, None).balance().spent == 0.5
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed([*NOTES, note(77)]), None)
    with pytest.raises(LedgerMismatchError, match="under replace-one adjacency"):
        open_account(records, Adjacency.ADD_REMOVE, None, path, None)


def test_a_budget_of_records_with_pairs_goes_on_under_their_new_fingerprint(tmp_path):
    rows = [{"text": f"t{i}", "label": "a", "spans": [[i, 9], [12, 20]]} for i in range(12)]
    path, records = str(tmp_path / "t.db"), sealed(rows)
    assert records.earlier_fingerprints()[-1] != records.fingerprint
    spend(Ledger(path).open(Identity(records.earlier_fingerprints()[-1], ONE, "record"), Budget(1.0)))
    with pytest.raises(LedgerMismatchError, match="have the ledger"):
        opened(records, str(tmp_path / "other.db"))
    in_python = sealed([{**row, "spans": [*map(tuple, row["spans"])]} for row in rows])
    for again in (records, in_python):
        assert opened(again, None, None).balance().left == 0.5
    assert [entry["kind"] for entry in Ledger(path).history()] == ["open", "reserve", "version"]


def test_marks_of_the_sixth_format_are_read_and_written_anew(tmp_path):
    rows = [{"text": f"t{i}", "label": "a", "spans": [[i, 9], [12, 20]]} for i in range(20)]
    path, records = str(tmp_path / "t.db"), sealed(rows)
    opened(records, path)
    (file,) = (home() / "ledgers").glob("*.marks")
    magic, header, _ = file.read_bytes().split(b"\n", 2)
    assert magic == b"sotto marks 8"
    file.write_bytes(b"sotto marks 6\n" + header + b"\n" + (records.marks(mark_key()) ^ 4).astype("<u8").tobytes())
    opened(records, path)
    assert file.read_bytes().startswith(b"sotto marks 8\n")
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed([*rows, {"text": "t99", "label": "a", "spans": [[9, 9]]}]), str(tmp_path / "other.db"))


@pytest.mark.parametrize("which", range(len(EARLIER_CELLS)))
def test_whole_records_are_known_by_marks_of_every_earlier_format(tmp_path, which):
    """Until they are opened again, the marks that an earlier version kept are all that is known of them."""
    rows = [{"n": i, "when": f"2024-03-01 12:00:00.{i:06}", "pool": "NA", "at": [["x", 10**40 + i]]} for i in range(20)]
    path, records = str(tmp_path / "t.db"), sealed(rows)
    opened(records, path)
    (file,) = (home() / "ledgers").glob("*.marks")
    header = file.read_bytes().split(b"\n", 2)[1]
    (earlier,), now = records.earlier_marks(mark_key(), [which]), records.marks(mark_key())
    assert now.shape == earlier.shape == (20, 1)
    assert not np.isin(earlier, now).any()
    header = json.dumps({**json.loads(header), "width": 1}).encode()
    file.write_bytes(
        (b"sotto marks 6\n" if which == 2 else b"sotto marks 7\n") + header + b"\n" + earlier.astype("<u8").tobytes()
    )
    one_more = {"n": 99, "when": "2024-03-02 12:00:00.000001", "pool": "Good", "at": []}
    for number, changed in enumerate(
        ([*rows, one_more], [*rows[:12], *[{**one_more, "n": i} for i in range(100, 200)]])
    ):
        with pytest.raises(LedgerMismatchError, match="no new records"):
            opened(sealed(changed), str(tmp_path / f"{number}.db"))
    with pytest.raises(InputError, match="most of these rows are private"):
        require_public(rows, "q.csv")
    opened(sealed([{**one_more, "n": i} for i in range(20)]), str(tmp_path / "new.db"))


@pytest.mark.parametrize("cell", [{"created": "2024-03-01T10:00:12.123456"}, {"country": "NA"}, {"name": "None"}])
def test_records_of_objects_are_known_by_texts_of_every_earlier_format(tmp_path, cell):
    """Though anything else in the row has changed."""
    rows = [
        {"messages": [{"content": f"my {i} printer is {note(i)['text']}", **cell}], "label": i % 2} for i in range(20)
    ]
    records = sealed(rows)
    opened(records, str(tmp_path / "t.db"))
    (file,) = (home() / "ledgers").glob("*.marks")
    header = file.read_bytes().split(b"\n", 2)[1]
    (earlier,) = records.earlier_marks(mark_key(), [0])
    assert not np.isin(earlier, records.marks(mark_key())).any()
    file.write_bytes(b"sotto marks 7\n" + header + b"\n" + earlier.astype("<u8").tobytes())
    edited = [{"messages": row["messages"], "label": "other"} for row in rows]
    with pytest.raises(LedgerMismatchError, match="no new records"):
        opened(sealed(edited), str(tmp_path / "other.db"))
    with pytest.raises(InputError, match="most of these rows are private"):
        require_public(edited, "q.csv")


def test_the_first_fingerprint_is_what_it_was():
    # Written down from version 0.1 of the code; it names accounts in ledgers that exist.
    rows = [
        {"id": "a1", "text": "My card\r\nwas charged", "n": 3.0, "when": "2024-01-01T00:00:00", "ok": True},
        {"id": "a2", "text": " e\u0301 ", "n": "1e3", "tags": ["p", 1], "none": None},
    ]
    assert sealed(rows).first_fingerprint() == FIRST


FIRST = "92d12c621fb776de5a124bbaac255360cfccf7d87ce9fd1ef1ed2b2fc0c46665"


# Private rows used as public ones


@pytest.mark.parametrize("columns", [("text", "label"), ("text",)])
def test_private_rows_are_not_shown_as_public_ones(tmp_path, columns):
    opened(sealed(NOTES), str(tmp_path / "t.db"))
    shown = [{name: row[name] for name in columns} for row in NOTES]
    longer = [{**row, "context": f"a much longer column than the text {i:060d}"} for i, row in enumerate(shown)]
    for part in (shown, shown[:12], longer, [*shown[:12], *({"text": f"a public question {i}"} for i in range(12))]):
        with pytest.raises(InputError, match=r"demos\.jsonl: most of these rows are private") as refusal:
            require_public(part, "demos.jsonl")
        assert "note number" not in str(refusal.value)
        assert "SOTTOVOCE_HOME" not in str(refusal.value)  # another store would start the budget again
    cut = [Row(i, {"text": row["text"][:5]}) for i, row in enumerate(shown, 1)]
    whole = [Row(i, row) for i, row in enumerate(shown, 1)]
    with pytest.raises(InputError):
        require_public(PublicRecords(cut, "q", whole), "q")
    # One row that happens to be known refuses nothing: who asks would learn that it is there.
    require_public([shown[0]], "q")
    require_public([{"text": f"a public question number {i}"} for i in range(40)], "q")


# The store


def test_a_lost_key_beside_kept_ledgers_is_refused(tmp_path):
    path = default_path(sealed(NOTES))
    spend(opened(sealed(NOTES), path))
    key = home() / "names.key"
    kept = key.read_bytes()
    key.unlink()
    for act in (lambda: default_path(sealed(NOTES)), lambda: opened(sealed(NOTES), str(tmp_path / "new.db"))):
        with pytest.raises(LedgerUnavailableError, match=r"names\.key is gone.*restore it from a backup"):
            act()
    key.write_bytes(b"x" * 32)
    key.chmod(0o600)
    with pytest.raises(LedgerUnavailableError, match="is not the key"):
        default_path(sealed(NOTES))
    key.write_bytes(kept)
    assert opened(sealed(NOTES), None, None).balance().left == 0.5
    assert len(list(Path(path).parent.glob("*.db"))) == 1


@pytest.mark.parametrize(("where", "mode"), [("", 0o755), ("", 0o770), ("ledgers", 0o711), ("names.key", 0o640)])
def test_a_store_that_others_may_read_is_refused_with_the_command_that_closes_it(tmp_path, where, mode):
    default_path(sealed(NOTES))
    os.chmod(home() / where, mode)
    for ledger in (None, str(tmp_path / "new.db")):
        with pytest.raises(LedgerUnavailableError, match=f"mode {mode:o}.*chmod [67]00 {home() / where}"):
            opened(sealed(NOTES), ledger)
    assert not (tmp_path / "new.db").exists()


def test_a_store_of_another_user_is_refused(monkeypatch):
    default_path(sealed(NOTES))
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(home()).st_uid + 1)
    with pytest.raises(LedgerUnavailableError, match="belongs to another user"):
        default_path(sealed(NOTES))


def test_damaged_marks_are_not_taken_for_no_marks(tmp_path):
    opened(sealed(NOTES), str(tmp_path / "t.db"))
    (file,) = (home() / "ledgers").glob("*.marks")
    whole = file.read_bytes()
    for content in (b"", whole[:-5], whole[:20], b"x" + whole):
        file.write_bytes(content)
        with pytest.raises(LedgerUnavailableError, match="damaged"):
            opened(sealed(EDITS["grown"]), None)


# As it is typed


class Desk:
    def __init__(self, folder, capsys):
        self.folder, self._capsys = folder, capsys

    def write(self, name, rows):
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(self.folder / name)

    def run(self, *words):
        self._capsys.readouterr()
        code = run([str(word) for word in words])
        told = self._capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, " ".join(told.err.split())

    def ask(self, private, *more):
        base = ["ask", "A question.", "--private", private, "--labels", ",".join(WORDS), "--model", "fake"]
        return self.run(*base, "--epsilon", "0.5", *more)


@pytest.fixture
def desk(tmp_path, capsys):
    return Desk(tmp_path, capsys)


def test_a_grown_file_is_refused_and_the_command_that_is_named_goes_on(desk):
    private, ledger = desk.write("t.jsonl", NOTES), desk.folder / "t.db"
    assert desk.ask(private, "--ledger", ledger, "--budget", "1")[0] == 0
    grown = desk.write("grown.jsonl", [*NOTES, note(77)])
    for more in ([], ["--ledger", desk.folder / "new.db"], ["--ledger", ":memory:"], ["--ledger", ledger]):
        code, out, err = desk.ask(grown, *more)
        assert (code, out) == (3, "")
    code, _, err = desk.ask(grown)
    command = shlex.split(err[err.index("sotto ledger grant") : err.index(". If they are")])
    command[command.index("--private") + 1] = grown
    assert desk.run(*command[1:])[0] == 0
    code, _, err = desk.ask(grown)
    assert code == 0
    assert desk.ask(private)[0] == 3  # one budget of 1 for both, two answers at 0.5


def test_a_command_warns_of_every_ledger_in_memory_and_opens_one_once(desk):
    private = desk.write("t.jsonl", NOTES)
    code, out, err = desk.ask(private, "--ledger", ":memory:")
    assert (code, out.strip() in WORDS) == (0, True)
    assert "WARNING: a ledger in memory forgets this budget" in err
    for more in (["--ledger", ":memory:"], []):
        code, out, err = desk.ask(private, *more)
        assert (code, out) == (3, "")
        assert "had a budget in a ledger in memory" in err
    file = desk.folder / "t.db"
    assert desk.run("ledger", "grant", file, "--private", private, "--budget", "2")[0] == 0
    code, _, err = desk.ask(private)
    assert (code, "WARNING" in err) == (0, False)
    assert Ledger(str(file)).balances()[0].answers == 1


def test_a_command_says_that_opening_a_ledger_in_memory_counts_though_nothing_is_charged(desk):
    private = desk.write("t.jsonl", NOTES)
    code, _, err = desk.ask(private, "--ledger", ":memory:", "--budget", "0.1")  # two answers at 0.5 do not fit
    assert code == 3
    assert "from now on, even where nothing is charged, these records get no other budget" in " ".join(err.split())
    assert desk.ask(private, "--ledger", desk.folder / "new.db")[0] == 3


def test_private_files_are_refused_as_queries_and_demonstrations(desk):
    private = desk.write("t.jsonl", NOTES)
    assert desk.ask(private, "--ledger", desk.folder / "t.db")[0] == 0
    words = ["classify", "--labels", ",".join(WORDS), "--model", "fake", "--out", desk.folder / "out.jsonl"]
    public = desk.write("q.jsonl", [{"text": "where is my parcel, please?"}])
    for flags in (
        ["--private", private, "--queries", private, "--ledger", desk.folder / "t.db"],
        ["--demonstrations", private, "--queries", public],
        ["--demonstrations", private, "--queries", public, "--truncate", "--max-characters", "9", "--shots", "2"],
    ):
        code, out, err = desk.run(*words, *flags)
        assert (code, out, "private records, such as those of the data set 'data'" in err) == (2, "", True), err
    assert not (desk.folder / "out.jsonl").exists()


def test_an_owner_can_require_a_caller(desk):
    private, ledger = desk.write("t.jsonl", NOTES), desk.folder / "t.db"
    grant = ["ledger", "grant", ledger, "--private", private]
    assert desk.run(*grant, "--budget", "4")[0] == 0
    assert desk.run(*grant, "--caller", "alice", "--budget", "1")[0] == 0
    assert desk.ask(private)[0] == 0
    assert desk.run(*grant, "--require-caller")[0] == 0
    code, out, err = desk.ask(private)
    assert (code, out, "--caller NAME" in err) == (3, "", True)
    assert desk.ask(private, "--method", "full-context", "--allow-non-private")[0] == 3
    assert desk.ask(private, "--caller", "alice")[0] == 0
    code, out, err = desk.run("ledger", "show", ledger, "--json")
    (told,) = json.loads(out)["data_sets"]
    assert (told["caller_required"], [one["caller"] for one in told["callers"]], told["answers"]) == (
        True,
        ["alice"],
        2,
    )
    assert desk.run("ledger", "verify", ledger)[0] == desk.run("ledger", "recompute", ledger)[0] == 0
    assert desk.run("ledger", "export", ledger, "--out", desk.folder / "e.jsonl")[0] == 0
    assert desk.run("ledger", "recompute", desk.folder / "e.jsonl")[0] == 0
    assert desk.run(*grant, "--require-caller", "--budget", "5")[0] == 2
    assert desk.run(*grant, "--no-require-caller")[0] == desk.ask(private)[0] == 0
    assert json.loads(desk.run("ledger", "show", ledger, "--json")[1])["data_sets"][0]["caller_required"] is False


def test_marks_of_many_records_are_compared_in_one_go():
    # No loop over records where two files are compared: 200,000 against 200,000 in well under a second.
    marks = np.arange(1, 400_001, dtype=np.uint64).reshape(-1, 2) * 4
    marks[:, 1] += SENTENCE
    assert known_records._hits(marks, marks[::2]).mean() == 0.5
