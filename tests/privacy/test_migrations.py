"""Older ledgers: moved to this format whole or not at all, with every old entry byte for byte.

``format_1.sql`` is a ledger as format 1 wrote it: two data sets, a grant, a new version, an open charge, and events of
every kind that it could charge.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from sottovoce.errors import LedgerMismatchError, LedgerUnavailableError
from sottovoce.privacy import ledger_database, ledger_migrations
from sottovoce.privacy.budget import SCALE, Budget, amount_of
from sottovoce.privacy.events import BoundedRange, PureDP, ZCDpEvent
from sottovoce.privacy.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger_address import Address
from sottovoce.privacy.ledger_schema import SCHEMA_VERSION
from sottovoce.privacy.ledger_server import SCHEMA
from sottovoce.privacy.unit import Adjacency

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
    assert rows(old, ENTRIES) == before
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
from sottovoce.privacy.ledger import Ledger
def crash(connection, cursor, statement, *rest):
    if statement.lstrip().startswith("UPDATE sotto_meta"):
        os._exit(9)
sa.event.listen(sa.engine.Engine, "after_cursor_execute", crash)
Ledger(sys.argv[1])
"""


def test_a_process_killed_before_its_commit_leaves_the_old_format(old):
    done = subprocess.run([sys.executable, "-c", _KILLED, old], timeout=120)
    assert done.returncode == 9
    assert rows(old, "SELECT * FROM sotto_meta") == [("schema_version", "1")]
    assert Ledger(old).verify() == []


def _open(address, done):
    Ledger(address).close()
    done.put("ok")


def test_processes_that_move_one_ledger_at_once_agree(old):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sottovoce.privacy.ledger", "hypothesis", "pytest"])
    done = context.Queue()
    workers = [context.Process(target=_open, args=(old, done)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert [done.get(timeout=60) for _ in workers] == ["ok"] * 4
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
    with pytest.raises(LedgerUnavailableError, match="newer format"):
        account.reserve([Reservation("r", PureDP(0.1), "")])
    assert account.balance().spent == 0


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


def test_alembic_is_imported_only_to_move_something(tmp_path):
    program = (
        "import sys; from sottovoce.privacy.ledger import Ledger; Ledger(sys.argv[1]); Ledger(sys.argv[1]);"
        "sys.exit('alembic' in sys.modules)"
    )
    environment = {**os.environ, "SOTTOVOCE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "new.db")], env=environment, timeout=120)
    assert done.returncode == 0
