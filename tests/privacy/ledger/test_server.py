"""What only a server can get wrong: snapshots, settings, passwords, and a loss of power."""

from __future__ import annotations

import json
import pickle
import re
import threading
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from privacy.ledger.postgres import PASSWORD, Server
from sottovoce.cli import run
from sottovoce.errors import (
    BudgetExhaustedError,
    LedgerUnavailableError,
    MissingExtraError,
    ParameterError,
    SottoError,
)
from sottovoce.privacy.events import BoundedRange, PureDP
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.history import newest
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.location import Address, Secret
from sottovoce.privacy.ledger.registry import default_path
from sottovoce.privacy.unit import Adjacency
from sottovoce.store import home

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")


def charge(name: str, epsilon: float = 0.1) -> Reservation:
    return Reservation(name, BoundedRange(epsilon), "test")


def with_password(server: Server, database: str, password: str) -> str:
    return server.address(database, "clerk").replace("clerk@", f"clerk:{password.replace(' ', '%20')}@")


def database_of(address: str) -> str:
    return address.split("/")[3].partition("?")[0]


# Passwords


def test_a_password_is_used_and_never_shown_noted_or_kept(postgres_server, postgres_url):
    database = database_of(postgres_url)
    postgres_server.sql(f"GRANT CREATE ON DATABASE {database} TO clerk")
    ledger = Ledger(with_password(postgres_server, database, PASSWORD))
    account = ledger.open(WHO, Budget(1.0))
    account.reserve([charge("r")])
    shown = [repr(ledger), ledger.name, ledger.path, repr(ledger._database.address), repr(ledger._database._engine)]
    shown += [json.dumps(entry) for entry in ledger.history()] + [default_path(WHO.fingerprint)]
    shown += [path.read_text(errors="replace") for path in home().rglob("*") if path.is_file()]
    assert not any(word in text for text in shown for word in (PASSWORD, "correct%20horse", "battery"))
    address, _, folder = postgres_server.address(database, "clerk").partition("?host=")
    assert default_path(WHO.fingerprint) == ledger.path == f"{address}?host={quote(folder, safe='')}"
    stored = pickle.loads(pickle.dumps(ledger))
    assert stored == ledger.path
    with pytest.raises(LedgerUnavailableError, match=r"no password supplied.*a stored address is without"):
        Ledger(stored)


@pytest.mark.parametrize("word", ["hunter2", "p%40ss w0rd".replace(" ", "%20")])
def test_no_error_holds_the_password(postgres_server, monkeypatch, word):
    plain = word.replace("%40", "@").replace("%20", " ")
    good = with_password(postgres_server, "postgres", "x").replace(":x@", f":{word}@")
    wrong = [
        good,
        good.replace("/postgres?", "/absent?"),
        f"postgresql://clerk:{word}@127.0.0.1:1/x",
        f"postgresql://clerk:{word}@127.0.0.1:port/x",
        f"postgresql://clerk@127.0.0.1:1/x?password={word}",
        f"postgresql+psycopg2://clerk:{word}@127.0.0.1/x",
        f"mysql://clerk:{word}@127.0.0.1/x",
        f"postgresql://clerk:{word}@127.0.0.1:1/x?no_such_option=1",
    ]
    for address in wrong:
        with pytest.raises(SottoError) as error:
            Ledger(address)
        for text in (str(error.value), repr(error.value)):
            assert word not in text
            assert plain not in text
        assert "[SQL" not in str(error.value)
        assert "sqlalche" not in str(error.value)


def test_the_command_line_shows_no_password_either(postgres_server, tmp_path, capsys):
    address = with_password(postgres_server, "postgres", "hunter2")
    (tmp_path / "p.jsonl").write_text('{"text": "note", "label": "a"}\n')
    for words in (
        ["ledger", "show", address],
        ["ledger", "recompute", address],
        ["ask", "q", "--private", str(tmp_path / "p.jsonl"), "--labels", "a,b", "--model", "fake", "--ledger", address],
    ):
        assert run(words) == 3
        told = capsys.readouterr()
        assert "hunter2" not in told.out + told.err
        assert "LedgerUnavailableError" in told.err


def test_without_the_driver_the_install_line_is_named(monkeypatch):
    def absent(*args, **options):
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(sa, "create_engine", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'sottovoce\[postgres\]'"):
        Ledger("postgresql://ann@db/tickets")


def test_other_databases_are_refused_by_name():
    for text in (
        "mysql://a:b@c/d",
        "sqlite:///x.db",
        "postgresql+asyncpg://a@b/c",
        "https://x",
        " postgresql://a:b@c/d",
        "jdbc:postgresql://c/d",
    ):
        with pytest.raises(ParameterError, match="postgresql://USER@HOST/DATABASE"):
            Ledger(text)
    assert Address.parse("postgresql:///x").name == "x on this host"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:hunter2@db/x", "postgresql://ann@db/x"),
        (
            "postgresql+psycopg://ann@db:5433/x?password=hunter2&sslmode=require",
            "postgresql://ann@db:5433/x?sslmode=require",
        ),
        ("postgresql://db/x?sslpassword=hunter2", "postgresql://db/x"),
    ],
)
def test_what_is_shown_of_an_address_leads_there_without_the_password(text, shown):
    address = Address.parse(text)
    assert address.shown == shown
    assert "hunter2" not in repr(address) + address.name
    assert address.without_password("said hunter2") == "said ***"
    assert Address.parse(shown).shown == shown


def test_an_unquoted_at_in_a_password_is_refused_and_not_shown_as_the_host():
    for password in ("p@hunter2", "p@ss/hunter2", "p@hunter2?more"):
        with pytest.raises(ParameterError, match="%40 in place of each @") as caught:
            Address.parse(f"postgresql://ann:{password}@db/x")
        assert "hunter2" not in str(caught.value)
    for address in (
        "postgresql://db:5432/x?user=me@azure&password=hunter2",
        "postgresql://db:5432/x?user=me&password=p@hunter2",
        "postgresql://db/x?user=me@azure&password=hunter2",
    ):
        with pytest.raises(ParameterError, match="%40 in place of each @") as caught:
            Address.parse(address)
        secret = Secret.of(address)
        assert "hunter2" not in f"{caught.value} {secret!r} {pickle.loads(pickle.dumps(secret))}"
    for address in (
        "postgresql://an/n:hunter2@db/x",
        "postgresql://ann@db/x;password=hunter2",
        "postgresql://ann@db/x&Password=hunter2",
        "postgresql://ann@db/x?sslmode=require;password=hunter2",
    ):
        with pytest.raises(ParameterError, match="behind USER: or ") as caught:
            Address.parse(address)
        assert "hunter2" not in f"{caught.value} {Secret.of(address)!r}"
    assert Address.parse("postgresql://ann:p/hunter2@db/x").shown == "postgresql://ann@db/x"
    told = Address.parse("postgresql://db:5432/x?user=me%40azure&password=p%40hunter2")
    assert (told.url.query["user"], told.options) == ("me@azure", {"password": "p@hunter2"})
    assert "hunter2" not in told.shown
    assert Address.parse("postgresql://ann:p%40hunter2@db/x").shown == "postgresql://ann@db/x"
    assert Address.parse("postgresql://ann@db/x?PASSWORD=hunter2").shown == "postgresql://ann@db/x"


# Settings of the server


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_a_stricter_default_of_the_server_does_not_give_a_writer_an_old_snapshot(postgres_server, postgres_url, level):
    # Under repeatable read the snapshot would be older than the lock: the second writer would not see the first's
    # charge, and would fail or overspend.
    database = database_of(postgres_url)
    postgres_server.sql(f"ALTER DATABASE {database} SET default_transaction_isolation = '{level}'")
    account = Ledger(postgres_url).open(WHO, Budget(1.0))
    held, results = threading.Barrier(2), []

    def second():
        other = Ledger(postgres_url).open(WHO, None)
        held.wait()
        results.append(_outcome(other, "second", 0.7))

    worker = threading.Thread(target=second)
    worker.start()
    with account.database.writing() as connection:
        held.wait()
        waits_for_the_lock(connection, worker)  # the second writer, whose look is over
        connection.exec_driver_sql("UPDATE sotto_data_set SET answers = answers")
    results.append(_outcome(account, "first", 0.7))
    worker.join()
    assert sorted(results) == ["charged", "refused"]
    assert Ledger.of(account).verify() == []


def waits_for_the_lock(connection, worker):
    """Returns once another session stands at the ledger's lock."""
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    while not connection.scalar(waiting):
        worker.join(0.02)
        assert worker.is_alive(), "the second session does not wait"


def _outcome(account, name, epsilon):
    try:
        account.reserve([charge(name, epsilon)])
    except BudgetExhaustedError:
        return "refused"
    return "charged"


def test_a_charge_waits_for_the_disk_whatever_the_database_is_set_to(postgres_server, postgres_url):
    database = database_of(postgres_url)
    postgres_server.sql(f"ALTER DATABASE {database} SET synchronous_commit = off")
    ledger = Ledger(postgres_url)
    with ledger._database.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"
    with ledger._database.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted"
        assert connection.exec_driver_sql(held).scalar() == 1


def test_the_lock_is_the_first_thing_that_a_writer_asks_for(postgres_url):
    account = Ledger(postgres_url).open(WHO, Budget(1.0))
    seen = []
    sa.event.listen(account.database._engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    account.record_non_private(["n"], "")
    asked = [statement for statement in seen if not statement.startswith("SET LOCAL")]
    assert asked[0].startswith("SELECT pg_advisory_xact_lock(")


def test_a_ledger_lives_beside_other_tables_in_its_own_schema(postgres_server, postgres_url):
    database = database_of(postgres_url)
    postgres_server.sql("CREATE TABLE sotto_entry (theirs int)", database)
    Ledger(postgres_url).open(WHO, Budget(1.0)).reserve([charge("r")])
    assert postgres_server.sql("SELECT count(*) FROM public.sotto_entry", database) == "0"
    assert postgres_server.sql("SELECT count(*) FROM sottovoce.sotto_entry", database) == "2"


# One database, one ledger, whoever comes


def with_roles(server: Server, database: str) -> list[str]:
    """The addresses of two roles, each with a schema of its own that comes first in its search path."""
    for role in ("ann", "bob"):
        server.sql(f"DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$", database)
        server.sql(f"CREATE SCHEMA AUTHORIZATION {role}", database)
    server.sql(f"GRANT CREATE ON DATABASE {database} TO ann, bob")
    return [server.address(database, role) for role in ("ann", "bob")]


SHARED = (
    "GRANT USAGE ON SCHEMA sottovoce TO bob; GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA sottovoce TO bob; "
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA sottovoce TO bob"
)


def test_two_roles_with_schemas_of_their_own_spend_one_budget(postgres_server, emptied_url):
    ann, bob = with_roles(postgres_server, database_of(emptied_url))
    first = Ledger(ann).open(WHO, Budget(1.0))
    first.reserve([charge("a", 0.6)])
    with pytest.raises(LedgerUnavailableError, match="GRANT USAGE ON SCHEMA sottovoce TO bob"):
        Ledger(bob)
    postgres_server.sql(SHARED, database_of(emptied_url))
    second = Ledger(bob).open(WHO, None)
    with pytest.raises(BudgetExhaustedError):
        second.reserve([charge("b", 0.6)])
    second.reserve([charge("b", 0.4)])
    assert first.balance().left == 0
    assert Ledger.of(first).verify() == Ledger.of(second).verify() == []
    assert second.conflicting_ledger is None
    assert Ledger(f"{ann}&application_name=x").open(WHO, None).conflicting_ledger is None


def test_a_copy_of_a_database_is_another_ledger(postgres_server, postgres_url):
    Ledger(postgres_url).open(WHO, Budget(1.0))
    database = database_of(postgres_url)
    postgres_server.sql(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{database}'")
    postgres_server.sql(f"CREATE DATABASE {database}_copy TEMPLATE {database}")
    copied = postgres_url.replace(database, f"{database}_copy")
    assert Ledger(copied).open(WHO, None).conflicting_ledger == Ledger(postgres_url).path


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_a_database_of_any_encoding_keeps_a_ledger(postgres_server, encoding):
    name = f"encoded_{encoding.lower()}"
    postgres_server.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'")
    ledger = Ledger(postgres_server.address(name))
    account = ledger.open(WHO, Budget(1.0))
    account.reserve([Reservation("r", BoundedRange(0.25), "an answer")])
    ledger.allot(WHO, budget=Budget(0.5), caller="Ann")
    assert (ledger.verify(), ledger.balances()[0].left) == ([], 0.75)
    if encoding == "LATIN1":
        with pytest.raises(LedgerUnavailableError, match="no equivalent"):
            ledger.allot(WHO, budget=Budget(0.5), caller="\u0141ukasz")
    else:
        ledger.allot(WHO, budget=Budget(0.5), caller="\u9867\u5ba2")
        ledger.open(WHO, None, caller="\u9867\u5ba2").reserve([charge("q")])
        assert [cap.name for cap in ledger.balances()[0].caps] == ["Ann", "\u9867\u5ba2"]
    assert ledger.verify() == []
    ledger.close()


def test_two_roles_wait_for_the_same_lock(postgres_server, emptied_url):
    ann, bob = with_roles(postgres_server, database_of(emptied_url))
    first = Ledger(ann).open(WHO, Budget(1.0))
    postgres_server.sql(SHARED, database_of(emptied_url))
    second = Ledger(bob).open(WHO, None)
    results = []
    worker = threading.Thread(target=lambda: results.append(_outcome(second, "b", 0.7)))
    with first.database.writing() as connection:
        worker.start()
        waits_for_the_lock(connection, worker)
        connection.exec_driver_sql("UPDATE sotto_data_set SET spent = cap")
    worker.join()
    assert results == ["refused"]


def test_a_ledger_that_was_changed_is_not_used(postgres_server, emptied_url, capsys):
    Ledger(emptied_url).open(WHO, Budget(1.0)).reserve([charge("a", 0.6)])
    postgres_server.sql("UPDATE sottovoce.sotto_data_set SET spent = 0", database_of(emptied_url))
    for use in (lambda: Ledger(emptied_url).open(WHO, None), lambda: Ledger(emptied_url).balances()):
        with pytest.raises(LedgerUnavailableError, match="not whole: data set 'data': spent does not agree"):
            use()
    assert run(["ledger", "verify", emptied_url]) == 3
    assert "spent does not agree" in "".join(capsys.readouterr())


def test_an_older_state_is_not_charged_by_who_saw_a_newer_one(postgres_server, emptied_url):
    program = Ledger(emptied_url).open(WHO, Budget(1.0))
    database = database_of(emptied_url)
    head = postgres_server.sql("SELECT value FROM sottovoce.sotto_meta WHERE key = 'head'", database)
    Ledger(emptied_url).open(WHO, None).reserve([charge("another", 0.6)])
    assert program.balance().answers == 1
    postgres_server.sql("DELETE FROM sottovoce.sotto_entry WHERE seq > 1", database)
    postgres_server.sql("UPDATE sottovoce.sotto_data_set SET spent = 0, answers = 0", database)
    postgres_server.sql(f"UPDATE sottovoce.sotto_meta SET value = '{head}' WHERE key = 'head'", database)
    assert Ledger(emptied_url).verify() == [], "by itself the older state is whole"
    for use in (program.balance, lambda: program.reserve([charge("more")])):
        with pytest.raises(LedgerUnavailableError, match="no longer has entry 2"):
            use()


def test_a_thread_with_an_older_view_does_not_bring_an_older_entry_back(emptied_url):
    account = Ledger(emptied_url).open(WHO, Budget(1.0))
    database = account.database
    with database.reading() as view:
        account.reserve([charge("meanwhile")])
        database._note(newest(view))
        assert newest(view)[0] == 1
    assert database._newest[0] == 2
    account.reserve([charge("after")])


_FORGET = "CREATE FUNCTION sottovoce.forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            _FORGET + "CREATE TRIGGER forget BEFORE UPDATE ON sottovoce.sotto_data_set "
            "FOR EACH ROW EXECUTE FUNCTION sottovoce.forget()",
            r"a trigger \(forget\) on sottovoce.sotto_data_set, which no ledger has",
        ),
        (
            "CREATE RULE forget AS ON UPDATE TO sottovoce.sotto_data_set DO INSTEAD NOTHING",
            r"a rule \(forget\) on sottovoce.sotto_data_set",
        ),
        ("ALTER TABLE sottovoce.sotto_entry ENABLE ROW LEVEL SECURITY", "row security on sottovoce.sotto_entry"),
        (
            "CREATE TABLE public.more () INHERITS (sottovoce.sotto_cap)",
            "a table that is part of sottovoce.sotto_cap",
        ),
        (
            "ALTER TABLE sottovoce.sotto_cap RENAME TO kept; "
            "CREATE VIEW sottovoce.sotto_cap AS SELECT * FROM sottovoce.kept",
            "something else in place of the table sottovoce.sotto_cap",
        ),
        ("ALTER TABLE sottovoce.sotto_cap SET UNLOGGED", "a table that a crash empties, sottovoce.sotto_cap"),
    ],
)
def test_a_ledger_that_would_change_hide_or_forget_rows_by_itself_is_refused(
    postgres_server, emptied_url, change, problem
):
    Ledger(emptied_url).open(WHO, Budget(1.0))
    postgres_server.sql(change, database_of(emptied_url))
    with pytest.raises(LedgerUnavailableError, match=problem):
        Ledger(emptied_url).open(WHO, None)
    assert re.search(problem, Ledger(emptied_url).verify()[0])


@pytest.mark.cases(3)
@pytest.mark.parametrize("path", ["public", "other", "pg_temp", "absent", ""])
def test_a_search_path_leads_to_no_other_ledger(postgres_server, emptied_url, path):
    Ledger(emptied_url).open(WHO, Budget(1.0)).reserve([charge("r")])
    postgres_server.sql("CREATE SCHEMA other", database_of(emptied_url))
    assert Ledger(f"{emptied_url}&options=-csearch_path%3D{path}").open(WHO, None).balance().answers == 1


def test_a_temporary_table_does_not_stand_before_the_ledger(emptied_url):
    account = Ledger(emptied_url).open(WHO, Budget(1.0))
    with account.database._engine.connect() as connection:  # the one pooled connection
        connection.exec_driver_sql("CREATE TEMP TABLE sotto_data_set AS SELECT * FROM sotto_data_set")
        connection.exec_driver_sql("UPDATE pg_temp.sotto_data_set SET cap = 10 * cap")
        connection.commit()
    with pytest.raises(BudgetExhaustedError):
        account.reserve([charge("r", 1.5)])


@pytest.mark.cases(1)
@pytest.mark.parametrize("schema", ["public", "ann", 'Odd "name" %s'])
def test_a_ledger_of_an_earlier_version_is_found_and_used_where_it_is(postgres_server, emptied_url, schema):
    database = database_of(emptied_url)
    Ledger(emptied_url).open(WHO, Budget(1.0)).reserve([charge("r", 0.7)])
    quoted = '"' + schema.replace('"', '""') + '"'
    if schema == "public":
        postgres_server.sql("DROP SCHEMA public", database)
    postgres_server.sql(f"ALTER SCHEMA sottovoce RENAME TO {quoted}", database)
    account = Ledger(emptied_url).open(WHO, None)
    with pytest.raises(BudgetExhaustedError):
        account.reserve([charge("more", 0.4)])
    account.reserve([charge("fits", 0.3)])
    assert Ledger.of(account).verify() == []
    assert postgres_server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'sottovoce'", database) == "0"


def test_a_database_with_two_ledgers_is_refused_until_one_is_retired(postgres_server, emptied_url):
    database = database_of(emptied_url)
    for epsilon, schema in ((0.7, "ann"), (0.2, "bob")):
        Ledger(emptied_url).grant(WHO, Budget(1.0)).reserve([charge("r", epsilon)])
        postgres_server.sql(f"ALTER SCHEMA sottovoce RENAME TO {schema}", database)
        postgres_server.sql(f"ALTER TABLE {schema}.sotto_meta RENAME TO sotto_meta_retired", database)
    for schema in ("ann", "bob"):
        postgres_server.sql(f"ALTER TABLE {schema}.sotto_meta_retired RENAME TO sotto_meta", database)
    with pytest.raises(LedgerUnavailableError, match="2 ledgers, in the schemas ann, bob") as refusal:
        Ledger(emptied_url)
    assert "ALTER TABLE SCHEMA.sotto_meta RENAME TO sotto_meta_retired" in str(refusal.value)
    postgres_server.sql("ALTER TABLE bob.sotto_meta RENAME TO sotto_meta_retired", database)
    assert Ledger(emptied_url).open(WHO, None).balance().spent == pytest.approx(0.7)


def test_roles_that_make_the_ledger_at_once_make_one(postgres_server, emptied_url):
    ann, bob = with_roles(postgres_server, database_of(emptied_url))
    told, gate = [], threading.Barrier(2)

    def make(address):
        gate.wait()
        try:
            Ledger(address)
            told.append("made")
        except LedgerUnavailableError as error:
            told.append("denied" if "GRANT USAGE" in str(error) else str(error))

    workers = [threading.Thread(target=make, args=(address,)) for address in (ann, bob)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(told) == ["denied", "made"]
    found = "SELECT count(*) FROM pg_class WHERE relname = 'sotto_meta'"
    assert postgres_server.sql(found, database_of(emptied_url)) == "1"


# Loss of power


def test_charges_stand_after_the_server_lost_its_power_and_a_waiting_one_gives_no_answer(postgres_server, postgres_url):
    account = Ledger(postgres_url).open(WHO, Budget(1.0))
    account.reserve([charge("before")])
    transaction = account.database.writing()
    connection = transaction.__enter__()
    connection.exec_driver_sql("UPDATE sotto_data_set SET answers = answers + 7")
    postgres_server.stop("immediate")
    try:
        with pytest.raises(LedgerUnavailableError):
            transaction.__exit__(None, None, None)
        with pytest.raises(LedgerUnavailableError, match="Without a durable charge there is no answer"):
            account.reserve([charge("lost")])
    finally:
        postgres_server.start()
    assert account.balance().answers == 1
    account.reserve([charge("after")])
    assert account.balance().spent == pytest.approx(0.2)
    assert Ledger.of(account).verify() == []


def test_a_server_without_fsync_is_refused(postgres_server, postgres_url):
    postgres_server.set("fsync", "off")
    try:
        with pytest.raises(LedgerUnavailableError, match="fsync off"):
            Ledger(postgres_url)
    finally:
        postgres_server.set("fsync", "on")
    Ledger(postgres_url)


# Threads and the command line


def test_threads_of_one_ledger_cannot_overspend_together(postgres_url):
    account = Ledger(postgres_url).open(WHO, Budget(2.0))
    admitted = []

    def spend(worker):
        for i in range(10):
            if _outcome(account, f"{worker}-{i}", 0.1) == "charged":
                admitted.append(worker)

    workers = [threading.Thread(target=spend, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(admitted) == 20
    assert Ledger.of(account).verify() == []


def test_the_commands_take_an_address_where_they_take_a_file(postgres_url, tmp_path, capsys):
    (tmp_path / "p.jsonl").write_text("".join(f'{{"text": "note {i}", "label": "a"}}\n' for i in range(5)))
    private = ["--private", str(tmp_path / "p.jsonl")]
    ask = ["ask", "q", *private, "--labels", "a,b", "--model", "fake", "--epsilon", "0.5"]
    assert run([*ask, "--ledger", postgres_url]) == 0
    assert run(["ledger", "grant", *private, "--ledger", postgres_url, "--caller", "alice", "--budget", "2,1e-6"]) == 0
    assert run([*ask, "--caller", "alice"]) == 0  # the address is remembered for the records
    capsys.readouterr()
    assert run(["ledger", "show", "--json", *private]) == 0
    (data,) = json.loads(capsys.readouterr().out)["data_sets"]
    assert (data["answers"], data["callers"][0]["answers"]) == (2, 1)
    out = str(tmp_path / "h.jsonl")
    assert run(["ledger", "export", postgres_url, "--out", out]) == 0
    assert run(["ledger", "verify", postgres_url]) == run(["ledger", "recompute", out]) == 0
    assert run(["ledger", "recompute", postgres_url, "--accountant", "rdp"]) == 0


def test_a_forgotten_reservation_frees_nothing(postgres_url):
    account = Ledger(postgres_url).open(WHO, Budget(1.0))
    account.reserve([Reservation("crashed", PureDP(0.6), "")])
    assert Ledger(postgres_url).open(WHO, None).balance().left == pytest.approx(0.4)
