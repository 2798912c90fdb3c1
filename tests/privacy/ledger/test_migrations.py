"""Older ledgers: moved to this format whole or not at all; old entries lose their secrets and keep every other word.

``format_1.sql`` is a ledger as format 1 wrote it: two data sets, a grant, a new version, an open charge, and events of
every kind that it could charge. ``format_2`` is what format 2 wrote: a ledger with a run of synthesis, its rows and its
certificate, a new version and a further data set, and its export.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from sottovoce.errors import LedgerMismatchError, LedgerUnavailableError
from sottovoce.privacy.events import BoundedRange, PureDP, ZCDpEvent
from sottovoce.privacy.ledger import database as ledger_database
from sottovoce.privacy.ledger import migrations as ledger_migrations
from sottovoce.privacy.ledger.budget import SCALE, Budget, amount_of
from sottovoce.privacy.ledger.export import open_history, write_export
from sottovoce.privacy.ledger.history import COLUMNS, hash_of
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.location import Address
from sottovoce.privacy.ledger.recompute import recompute
from sottovoce.privacy.ledger.schema import SCHEMA_VERSION
from sottovoce.privacy.ledger.server import SCHEMA
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.synthesis.certificate import Certificate

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")
NEWER = Identity("ef" * 32, Adjacency.REPLACE_ONE, "record")
APRIL = Identity("cd" * 32, Adjacency.ADD_REMOVE, "patient")
OLD = (Path(__file__).parent / "format_1.sql").read_text("utf-8")
FOLDER = str(Path(ledger_migrations.__file__).parent)
ENTRIES = "SELECT seq, data_set, kind, release_id, amount, detail, at, previous, hash FROM sotto_entry ORDER BY seq"


def engine_of(address):
    url = Address.parse(address).url
    if address.startswith("postgresql"):  # where a new ledger is, or else an old one
        url = url.update_query_dict({"options": f"-csearch_path={SCHEMA},public"})
    return sa.create_engine(url)


@pytest.fixture
def old(address):
    """A ledger of format 1 on either kind of database."""
    if address.startswith("postgresql"):
        engine = engine_of(address)
        with engine.begin() as connection:
            with Operations.context(MigrationContext.configure(connection)):
                ScriptDirectory(FOLDER).get_revision("1").module.upgrade()
            for line in OLD.splitlines():
                if line.startswith("INSERT") and "sotto_meta" not in line:
                    connection.exec_driver_sql(line.replace("%", "%%"))
            connection.exec_driver_sql("SELECT setval(pg_get_serial_sequence('sotto_data_set', 'id'), 2)")
        engine.dispose()
    else:
        load(address)
    return address


def load(path):
    connection = sqlite3.connect(path)
    connection.executescript(OLD)
    connection.close()


def rows(address, query):
    engine = engine_of(address)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.exec_driver_sql(query)]
    engine.dispose()
    return found


def test_an_old_ledger_is_moved_verified_and_spent_from(old):
    before = rows(old, ENTRIES)
    ledger = Ledger(old)
    after = rows(old, ENTRIES)
    assert [row[:5] + row[6:7] for row in after[:-1]] == [row[:5] + row[6:7] for row in before]
    for (*_, one, _, _, _), (*_, two, _, _, _) in zip(before, after[:-1], strict=True):
        assert told(one) == told(two)
    assert (len(after), after[-1][2]) == (len(before) + 1, "migrate")
    assert rows(old, "SELECT value FROM sotto_meta WHERE key = 'schema_version'") == [(SCHEMA_VERSION,)]
    assert ledger.verify() == []
    data, april = ledger.balances()
    assert (data.name, data.answers, data.non_private, data.unverified) == ("data", 4, 1, 1)
    assert (data.budget, data.cap, data.spent) == (Budget(10, 1e-6), 1.539269059934006, 0.179374996603898)
    assert (april.name, april.answers, april.left, april.budget) == ("april", 1, 1.5, Budget(2))
    for who in (WHO, NEWER):
        account = ledger.open(who, None)
        account.reserve([Reservation(who.fingerprint[:2], BoundedRange(0.5), "")])
        account.mark_released([who.fingerprint[:2]])
    ledger.grant(WHO, Budget(11, 1e-6))
    ledger.allot(WHO, budget=Budget(1, 1e-6), caller="alice")
    assert ledger.open(APRIL, None).balance().left == 1.5
    assert data.spent + 2 * amount_of(BoundedRange(0.5), "rho") / SCALE == pytest.approx(account.balance().spent)
    assert ledger.verify() == []


def told(detail):
    """An entry's words but for those about the records."""
    return {key: value for key, value in json.loads(detail).items() if key not in ("fingerprint", "records")}


def test_a_charge_that_was_open_in_the_old_format_is_not_charged_again(old):
    account = Ledger(old).open(WHO, None)
    spent = account.balance().spent
    note = "rnm, fake, change swap, isolation not verified"
    account.reserve([Reservation("four", ZCDpEvent(0.01), note)])
    assert account.balance().spent == spent
    account.mark_released(["four"])
    for name, event in (("four", ZCDpEvent(0.01)), ("one", BoundedRange(1.0)), ("five", PureDP(0.1))):
        with pytest.raises(LedgerMismatchError, match="used before"):
            account.reserve([Reservation(name, event, note)])


def test_old_entries_are_verified_after_the_move(tmp_path):
    for tampering in (
        "UPDATE sotto_entry SET amount = amount - 1 WHERE seq = 2",
        "DELETE FROM sotto_entry WHERE seq = 13",
        "UPDATE sotto_data_set SET spent = spent - 1",
    ):
        path = str(tmp_path / f"{abs(hash(tampering))}.db")
        load(path)
        Ledger(path).close()
        with sqlite3.connect(path) as raw:
            raw.execute(tampering)
        assert Ledger(path).verify() != []


def test_a_chain_that_was_broken_before_the_move_is_broken_after_it(tmp_path):
    path = str(tmp_path / "old.db")
    load(path)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE sotto_entry SET amount = 1 WHERE seq = 3")
    assert Ledger(path).verify() == ["entry 3 was changed, or one before it is missing"]


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE sotto_entry SET amount = 1 WHERE seq = 2",
        "UPDATE sotto_entry SET at = 'x' WHERE seq = 5",
        "UPDATE sotto_entry SET detail = '[' WHERE seq = 3",
        "UPDATE sotto_entry SET detail = '{}' WHERE seq = 1",
        "UPDATE sotto_entry SET previous = hash WHERE seq = 4",
        "UPDATE sotto_entry SET hash = previous WHERE seq = 4",
        "DELETE FROM sotto_entry WHERE seq = 4",
        "DELETE FROM sotto_entry WHERE seq = 10",
        "UPDATE sotto_meta SET value = '9 ' || (SELECT hash FROM sotto_entry WHERE seq = 9) WHERE key = 'head'",
        "UPDATE sotto_meta SET value = 'x' WHERE key = 'head'",
        "UPDATE sotto_meta SET value = '10 ' || hex(zeroblob(32)) WHERE key = 'head'",
        "UPDATE sotto_fingerprint SET fingerprint = 'ab'",
    ],
)
def test_a_ledger_of_format_2_that_was_not_whole_is_not_made_whole_by_the_move(tmp_path, tampering):
    path = second(tmp_path)
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT max(seq) FROM sotto_entry").fetchone() == (10,)
        if "fingerprint SET" in tampering:
            raw.execute("DELETE FROM sotto_fingerprint WHERE data_set = 2 OR rowid = 2")
        raw.execute(tampering)
    assert Ledger(path).verify() != []


FORMAT_2 = Path(__file__).parent / "format_2"


def second(tmp_path) -> str:
    tmp_path.mkdir(exist_ok=True)
    path = str(tmp_path / "second.db")
    connection = sqlite3.connect(path)
    connection.executescript((FORMAT_2 / "ledger.sql").read_text("utf-8"))
    connection.close()
    return path


def test_the_secrets_of_format_2_leave_its_entries_and_nothing_else_changes(tmp_path):
    path = second(tmp_path)
    before, head = rows(path, ENTRIES), rows(path, "SELECT value FROM sotto_meta WHERE key = 'head'")[0][0]
    balances = rows(path, "SELECT * FROM sotto_data_set")
    fingerprints = [row[0] for row in rows(path, "SELECT fingerprint FROM sotto_fingerprint")]
    ledger = Ledger(path)
    assert ledger.verify() == []
    assert rows(path, "SELECT * FROM sotto_data_set") == balances
    key = json.loads(before[1][5])["note"].rpartition("data key ")[2]
    kept = {(one, name): value for one, name, value in rows(path, "SELECT * FROM sotto_secret")}
    assert kept[1, "head"] == head, "a copy of the old head can still be held against the ledger"
    assert (kept[1, before[1][3].rpartition("-")[0]], len(kept)) == (key, 4)
    stream = io.StringIO()
    with ledger.rows() as history:
        write_export(history, stream)
    for secret in (*fingerprints, *kept.values(), head.split()[1], key):
        assert secret not in stream.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM sotto_secret WHERE name = 'head'",
        "UPDATE sotto_secret SET value = value || '0' WHERE name NOT IN ('records', 'head')",
        "INSERT INTO sotto_secret VALUES (1, 'another', '00')",
    ],
)
def test_what_was_moved_out_of_the_chain_is_still_committed_to(tmp_path, change):
    path = second(tmp_path)
    Ledger(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute(change)
    assert "moved here" in Ledger(path).verify()[0]


def test_a_guess_of_the_records_is_not_confirmed_by_what_a_moved_ledger_exports(tmp_path):
    # Who has the export guesses the fingerprint, puts it back where format 2 had it, and makes every hash anew.
    path = second(tmp_path)
    head = rows(path, "SELECT value FROM sotto_meta WHERE key = 'head'")[0][0].split()[1]
    (fingerprint,) = rows(path, "SELECT fingerprint FROM sotto_fingerprint WHERE data_set = 2")[0]
    before = [dict(zip(COLUMNS, row, strict=False)) for row in rows(path, ENTRIES)]
    opened = next(entry for entry in before if entry["kind"] == "open" and entry["data_set"] == 2)
    assert hash_of(opened) == rows(path, ENTRIES)[opened["seq"] - 1][8], "in format 2 the hash covered it"
    stream = io.StringIO()
    with Ledger(path).rows() as history:
        write_export(history, stream)
    hashes = {row[8] for row in rows(second(tmp_path / "again"), ENTRIES)}
    assert not hashes & set(stream.getvalue().split('"')), "a chain that is made anew with the guess meets no old hash"
    assert head not in stream.getvalue()
    guesses = (fingerprint, hashlib.sha256(fingerprint.encode()).hexdigest())
    said = {value for line in stream.getvalue().splitlines() for value in words_of(json.loads(line))}
    for guess in guesses:
        assert guess not in said
        for known in ("", "00" * 32, *said):  # any key that is in the export
            assert hmac.new(known.encode(), f"sottovoce records\n{guess}".encode(), "sha256").hexdigest() not in said


def words_of(value):
    """Every text in a value, and in the JSON that texts hold."""
    if isinstance(value, dict):
        for part in value.values():
            yield from words_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from words_of(part)
    elif isinstance(value, str):
        yield value
        yield from value.split()
        if value.startswith("{"):
            yield from words_of(json.loads(value))


def test_an_export_of_format_2_is_still_read_and_its_redaction_is_believed_there_alone(tmp_path):
    text = (FORMAT_2 / "export.jsonl").read_text("utf-8")
    (tmp_path / "old.jsonl").write_text(text, "utf-8")
    with open_history(str(tmp_path / "old.jsonl")) as history:
        data_sets, problems, entries = recompute(history, "zcdp")
    assert (problems, entries, [one.agrees for one in data_sets]) == ([], 10, [True, True])
    assert [(one.unheld, one.as_dict()["agrees"]) for one in data_sets] == [((1, 8, 9), None)] * 2
    changed = text.replace('"amount": 0, "detail": "{\\"content', '"amount": 1, "detail": "{\\"content', 1)
    assert changed != text
    for said in (changed, text.replace('"sottovoce_ledger": 1', '"sottovoce_ledger": 2')):
        (tmp_path / "other.jsonl").write_text(said, "utf-8")
        with open_history(str(tmp_path / "other.jsonl")) as history:
            assert recompute(history, "zcdp")[1] != []


def told_by(lines, tmp_path):
    """What ``recompute`` finds in an export with these lines: problems, entries that nothing holds, and its verdict."""
    (tmp_path / "told.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    with open_history(str(tmp_path / "told.jsonl")) as history:
        data_sets, problems, _ = recompute(history, "pure")
    return problems, data_sets[0].unheld, {one.as_dict()["agrees"] for one in data_sets}


def hide_charges(lines):
    """Puts redacted versions in the place of the charges and releases of the first data set, and forges its balance."""
    hidden = {"kind": "version", "redacted": True, "detail": "{}", "release_id": None, "amount": 0}
    gone = [line for line in lines[1:] if line["data_set"] == 1 and line["kind"] in ("reserve", "release")]
    spent = sum(line["amount"] for line in gone)
    one, *others = lines[0]["data_sets"]
    one = {**one, "spent": one["spent"] - spent, "answers": 0}
    return [
        {**lines[0], "data_sets": [one, *others]},
        *({**line, **hidden} if line in gone else line for line in lines[1:]),
    ]


def with_detail(line, **values):
    return {**line, "detail": json.dumps({**json.loads(line["detail"]), **values}, sort_keys=True)}


def test_an_export_of_format_2_never_agrees_and_names_every_entry_that_rests_on_it_alone(tmp_path):
    lines = [json.loads(line) for line in (FORMAT_2 / "export.jsonl").read_text("utf-8").splitlines()]
    assert told_by(lines, tmp_path) == ([], (1, 8, 9), {None})
    assert told_by(hide_charges(lines), tmp_path) == ([], (1, 2, 3, 4, 5, 6, 7, 8, 9), {None}), "each may be a charge"
    cap = Budget(200.0, 1e-5).cap
    dearer = [{**lines[0], "data_sets": [{**lines[0]["data_sets"][0], "epsilon": "200.0", "cap": cap}]}, *lines[1:]]
    dearer[0]["data_sets"].append(lines[0]["data_sets"][1])
    dearer[1] = with_detail(lines[1], epsilon="200.0", cap=cap)
    assert told_by(dearer, tmp_path) == ([], (1, 8, 9), {None}), "the budget is one of those that the file states"


@pytest.mark.parametrize(
    ("entry", "changes"),
    [
        (1, {"redacted": False}),
        (1, {"release_id": "x"}),
        (8, {"detail": '{"records": "00"}'}),
        (8, {"detail": '{"fingerprint": "00"}'}),
        (8, {"detail": '{"event": {"event": "BoundedRange", "eta": 1.0}}'}),
        (8, {"amount": 5}),
        (8, {"detail": "[]"}),
        (2, {"redacted": True}),
        (8, {"kind": "draw"}),
        (8, {"kind": "migrate"}),
    ],
)
def test_what_no_export_of_format_2_holds_is_refused_under_its_number(tmp_path, entry, changes):
    lines = [json.loads(line) for line in (FORMAT_2 / "export.jsonl").read_text("utf-8").splitlines()]
    lines[entry] = {**lines[entry], **changes}
    problems, _, _ = told_by(lines, tmp_path)
    assert len(problems) == 1
    assert f"entry {entry} " in problems[0] or problems == ["a row cannot be read"]


def test_an_export_that_is_said_to_be_of_another_format_does_not_agree(tmp_path):
    account = Ledger(str(tmp_path / "new.db")).open(WHO, Budget(8.0, 1e-6))
    account.reserve([Reservation(name, BoundedRange(0.5), "x") for name in ("a", "b")])
    account.begin(["a"])
    stream = io.StringIO()
    with Ledger.of(account).rows() as history:
        write_export(history, stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert told_by(lines, tmp_path) == ([], (), {True})
    header = {**lines[0], "sottovoce_ledger": 1, "meta": {**lines[0]["meta"], "schema_version": "2"}}
    assert "entry 1 is not what exports of the format" in told_by([header, *lines[1:]], tmp_path)[0][0]
    detail = {name: value for name, value in json.loads(lines[1]["detail"]).items() if name != "records"}
    opening = {**lines[1], "redacted": True, "detail": json.dumps(detail, sort_keys=True)}
    problems, _, _ = told_by([header, opening, *lines[2:]], tmp_path)
    assert problems == ["entry 4 is of kind 'draw', which ledgers of the format that the export names do not have"]
    marked = told_by([lines[0], {**lines[1], "redacted": True}, *lines[2:]], tmp_path)[0]
    assert marked == ["entry 1 is marked as redacted, and exports of the format that this one names do not redact it"]
    moved = second(tmp_path)
    stream = io.StringIO()
    with Ledger(moved).rows() as history:
        write_export(history, stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert told_by(lines, tmp_path) == ([], (), {True})
    assert told_by([{**lines[0], "sottovoce_ledger": 1}, *lines[1:]], tmp_path)[0]
    old = [json.loads(line) for line in (FORMAT_2 / "export.jsonl").read_text("utf-8").splitlines()]
    old[0] = {**old[0], "sottovoce_ledger": 2, "meta": {**old[0]["meta"], "schema_version": "3"}}
    assert told_by(old, tmp_path)[0]


def test_a_certificate_of_format_1_holds_after_the_move_and_says_what_it_cannot_show(tmp_path):
    path = second(tmp_path)
    (fingerprint,) = rows(path, "SELECT fingerprint FROM sotto_fingerprint WHERE data_set = 1")[0]
    found = rows(path, "SELECT fingerprint FROM sotto_fingerprint WHERE data_set = 1 ORDER BY rowid")
    certificate = Certificate.read(FORMAT_2 / "certificate.json")
    written = [json.loads(line) for line in (FORMAT_2 / "rows.jsonl").read_text("utf-8").splitlines()]
    ledger, same = Ledger(path), []
    for (fingerprint,) in found:
        records = PrivateRecords([Row(1, {"text": "x"})], source="notes")
        records.fingerprint = fingerprint
        checks = certificate.checks(written, ledger, records)
        same.append(checks[-1].holds)
        assert [check.what for check in checks if check.holds is None] == [
            "it is for all that was asked for, in the same words"
        ]
    assert sorted(same) == [False, True], "of two versions one was charged"
    part = replace(certificate, ledger=certificate.ledger[:1])
    assert "every text was charged before it left" in [
        one.what for one in part.checks(ledger=ledger) if one.holds is False
    ]


@pytest.mark.parametrize("step", ["ALTER TABLE", "CREATE TABLE", "UPDATE sotto_data_set", "INSERT INTO sotto_meta"])
def test_a_crash_in_the_middle_leaves_the_old_format(old, monkeypatch, step):
    def crash(connection, cursor, statement, *rest):
        if statement.lstrip().startswith(step):
            raise KeyboardInterrupt

    before = rows(old, ENTRIES)
    made = ledger_database._engine

    def watched(*place):
        engine = made(*place)
        sa.event.listen(engine, "after_cursor_execute", crash)
        return engine

    monkeypatch.setattr(ledger_database, "_engine", watched)
    with pytest.raises(KeyboardInterrupt):
        Ledger(old)
    monkeypatch.setattr(ledger_database, "_engine", made)
    assert rows(old, "SELECT * FROM sotto_meta") == [("schema_version", "1")]
    assert rows(old, ENTRIES) == before
    assert Ledger(old).verify() == []


_KILLED = """
import os, sys
import sqlalchemy as sa
from sottovoce.privacy.ledger.ledger import Ledger
def crash(connection, cursor, statement, *rest):
    if statement.lstrip().startswith("UPDATE sotto_meta"):
        os._exit(9)
sa.event.listen(sa.engine.Engine, "after_cursor_execute", crash)
Ledger(sys.argv[1])
"""


def test_a_process_killed_before_its_commit_leaves_the_old_format(old):
    done = subprocess.run([sys.executable, "-c", _KILLED, old])
    assert done.returncode == 9
    assert rows(old, "SELECT * FROM sotto_meta") == [("schema_version", "1")]
    assert Ledger(old).verify() == []


def _open(address, done):
    Ledger(address).close()
    done.put("ok")


def test_processes_that_move_one_ledger_at_once_agree(old):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sottovoce.privacy.ledger.ledger", "hypothesis", "pytest"])
    done = context.Queue()
    workers = [context.Process(target=_open, args=(old, done)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert [done.get(timeout=300) for _ in workers] == ["ok"] * 4
    for worker in workers:
        worker.join()
    assert Ledger(old).verify() == []


@pytest.mark.parametrize("version", ["4", "0", "x", "", "-1", "1.5", "99999999999999999999"])
def test_a_format_that_is_not_known_is_refused_and_left_alone(address, version):
    Ledger(address).close()
    engine = engine_of(address)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE sotto_meta SET value = '{version}' WHERE key = 'schema_version'")
    engine.dispose()
    with pytest.raises(LedgerUnavailableError, match="format"):
        Ledger(address)
    assert rows(address, "SELECT value FROM sotto_meta WHERE key = 'schema_version'") == [(version,)]


def test_a_program_stops_when_its_ledger_was_moved_on_meanwhile(address):
    account = Ledger(address).open(WHO, Budget(1.0))
    engine = engine_of(address)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sotto_meta SET value = '4' WHERE key = 'schema_version'")
    engine.dispose()
    for use in (account.balance, lambda: account.reserve([Reservation("r", PureDP(0.1), "")])):
        with pytest.raises(LedgerUnavailableError, match="newer format"):
            use()
    assert Ledger.of(account).count() == 1, "nothing was charged"


def test_a_moved_ledger_has_the_columns_of_a_new_one(old, tmp_path, request):
    def shape(address):
        engine = engine_of(address)
        found = sa.inspect(engine)
        kept = {
            table: {
                "columns": [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)],
                "key": found.get_pk_constraint(table)["constrained_columns"],
                "unique": [c["column_names"] for c in found.get_unique_constraints(table)],
                "foreign": [(c["constrained_columns"], c["referred_table"]) for c in found.get_foreign_keys(table)],
                "checks": len(found.get_check_constraints(table)),
            }
            for table in sorted(found.get_table_names())
        }
        engine.dispose()
        return kept

    Ledger(old).close()
    new = str(tmp_path / "new.db")
    if old.startswith("postgresql"):
        new = request.getfixturevalue("postgres_server").new_database()
    Ledger(new).close()
    moved, fresh = shape(old), shape(new)
    if not old.startswith("postgresql"):  # SQLite does not list a check that stands at a column
        moved["sotto_data_set"]["checks"] = fresh["sotto_data_set"]["checks"]
    assert moved == fresh


def test_the_database_itself_refuses_more_failures_than_the_cap(old):
    Ledger(old).close()
    engine = engine_of(old)
    with engine.connect() as connection, pytest.raises(sa.exc.IntegrityError):
        connection.exec_driver_sql("UPDATE sotto_data_set SET failure_spent = 1")
    engine.dispose()


@pytest.mark.slow
def test_alembic_is_imported_only_to_move_something(tmp_path):
    program = (
        "import sys; from sottovoce.privacy.ledger.ledger import Ledger; Ledger(sys.argv[1]); Ledger(sys.argv[1]);"
        "sys.exit('alembic' in sys.modules)"
    )
    environment = {**os.environ, "SOTTOVOCE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "new.db")], env=environment)
    assert done.returncode == 0
