"""One file, one name, one ledger: links, mounts, replaced files, and versions that kept charges beside the file."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.cli import run
from sottovoce.errors import LedgerUnavailableError, ParameterError
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger import account as ledger_account
from sottovoce.privacy.ledger import file as ledger_file
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.file import LedgerFile, _is_journal
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.mounts import Mount, mount_of
from sottovoce.privacy.unit import Adjacency

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")
FORK = multiprocessing.get_context("fork")


def charge(name: str, epsilon: float = 0.1) -> Reservation:
    return Reservation(name, BoundedRange(epsilon), "test")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tickets.db"


@pytest.fixture
def account(path):
    account = Ledger(str(path)).open(WHO, Budget(1.0))
    account.reserve([charge("before")])
    return account


def answers(path) -> int:
    return Ledger(str(path)).open(WHO, None).balance().answers


# Other names


def test_a_file_with_a_second_name_is_no_ledger(account, path, tmp_path):
    os.link(path, tmp_path / "second.db")
    for name in ("tickets.db", "second.db"):
        with pytest.raises(LedgerUnavailableError, match="2 names"):
            Ledger(str(tmp_path / name))
    with pytest.raises(LedgerUnavailableError, match="2 names"):
        account.reserve([charge("more")])
    (tmp_path / "second.db").unlink()
    account.reserve([charge("more")])
    assert answers(path) == 2


def test_a_name_that_is_given_while_a_charge_is_written_stops_its_answer(account, path, tmp_path, monkeypatch):
    _in_the_middle(monkeypatch, lambda: os.link(path, tmp_path / "second.db"))
    with pytest.raises(LedgerUnavailableError, match="2 names"):
        account.reserve([charge("more")])


def _in_the_middle(monkeypatch, act: Callable[[], object]) -> None:
    append = ledger_account.append

    def acting(connection, entries):
        append(connection, entries)
        act()

    monkeypatch.setattr(ledger_account, "append", acting)


def test_a_symbolic_link_has_the_journal_of_what_it_leads_to(account, path, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "link.db").symlink_to(path)
    linked = Ledger(str(folder / "link.db")).open(WHO, None)
    linked.reserve([charge("linked", 0.5)])
    assert sorted(file.name for file in folder.iterdir()) == ["link.db"]
    assert account.balance().left == pytest.approx(0.4)
    (folder / "link.db").unlink()
    (folder / "link.db").symlink_to(folder / "another.db")
    with pytest.raises(LedgerUnavailableError, match="No such file"):
        linked.reserve([charge("nowhere")])


def test_a_symbolic_link_to_nothing_makes_the_ledger_where_it_leads(path, tmp_path):
    (tmp_path / "link.db").symlink_to(path)
    Ledger(str(tmp_path / "link.db")).open(WHO, Budget(1.0)).reserve([charge("r")])
    assert answers(path) == 1


def test_another_folder_to_work_in_does_not_lead_to_another_file(tmp_path, monkeypatch):
    (tmp_path / "later").mkdir()
    monkeypatch.chdir(tmp_path)
    account = Ledger("tickets.db").open(WHO, Budget(1.0))
    monkeypatch.chdir(tmp_path / "later")
    account.database.close()
    account.reserve([charge("r")])
    assert list((tmp_path / "later").iterdir()) == []
    assert answers(tmp_path / "tickets.db") == 1


# Replaced files


def replaced(path: Path, older: Path) -> None:
    """A backup is moved to the ledger's name."""
    older.rename(path)


def moved(path: Path, older: Path) -> None:
    path.rename(older)


def gone(path: Path, older: Path) -> None:
    path.unlink()


def written_over(path: Path, older: Path) -> None:
    """A backup is copied into the file, which is still the same one."""
    subprocess.run(["cp", str(older), str(path)], check=True)


def emptied(path: Path, older: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("act", [replaced, moved, gone, written_over, emptied])
def test_a_program_does_not_charge_what_was_put_in_its_ledgers_place(account, path, tmp_path, act):
    older = tmp_path / "older.db"
    shutil.copy(path, older)
    account.reserve([charge("later", 0.5)])
    act(path, older)
    with pytest.raises(LedgerUnavailableError):
        account.reserve([charge("more")])
    account.database.close()
    with pytest.raises(LedgerUnavailableError):
        account.reserve([charge("later-still")])
    for file in (path, older):
        if file.exists() and file.stat().st_size:
            assert answers(file) in (1, 2), "nothing was charged"


@pytest.mark.cases(4)
@pytest.mark.parametrize("act", [replaced, moved, gone, written_over, emptied])
@pytest.mark.parametrize("late", ["begin", "mark_released"])
def test_a_ledger_that_goes_behind_a_charge_is_said_to_keep_it(account, path, tmp_path, act, late):
    older = tmp_path / "older.db"
    shutil.copy(path, older)
    account.reserve([charge("paid")])
    act(path, older)
    with pytest.raises(LedgerUnavailableError, match="What was charged before stands") as late_error:
        getattr(account, late)(["paid"])
    assert "othing was charged" not in str(late_error.value)


@pytest.mark.parametrize("saw", ["when it opened", "later"])
def test_a_program_does_not_use_an_older_copy_of_what_it_read_alone(path, tmp_path, saw):
    charging = Ledger(str(path)).open(WHO, Budget(1.0))
    older = tmp_path / "older.db"
    shutil.copy(path, older)
    program = Ledger(str(path)).open(WHO, None) if saw == "later" else None
    charging.reserve([charge("another", 0.5)])
    program = program or Ledger(str(path)).open(WHO, None)
    assert program.balance().answers == 1
    written_over(path, older)
    for use in (program.balance, lambda: program.reserve([charge("more")]), Ledger.of(program).balances):
        with pytest.raises(LedgerUnavailableError, match="no longer has entry 2, which this program saw"):
            use()
    assert answers(path) == 0, "nothing was charged"


@pytest.mark.parametrize("act", [replaced, moved, gone])
def test_a_file_that_goes_while_a_charge_is_written_stops_its_answer(account, path, tmp_path, act, monkeypatch):
    older = tmp_path / "older.db"
    shutil.copy(path, older)
    _in_the_middle(monkeypatch, lambda: act(path, older))
    with pytest.raises(LedgerUnavailableError):
        account.reserve([charge("more")])


def test_a_whole_copy_can_be_shown_verified_exported_and_spent_from(account, path, tmp_path, capsys):
    copy = tmp_path / "folder" / "copy.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    for words in (["show"], ["verify"], ["export", "--out", str(tmp_path / "out.jsonl")]):
        assert run(["ledger", words[0], str(copy), *words[1:]]) == 0
    Ledger(str(copy)).open(WHO, None).reserve([charge("more")])
    assert (answers(path), answers(copy)) == (1, 2)


# Mounts


TABLE = rb"""22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:21 / /data rw,relatime shared:5 master:2 - nfs4 host:/x rw
24 23 8:2 / /data/my\040disk rw - xfs /dev/sdb rw
25 22 8:1 /srv/t.db /srv/t.db rw - ext4 /dev/sda1 rw
26 22 8:1 / /again rw - ext4 /dev/sda1 rw
27 22 0:22 / /again rw - 9p share rw
"""


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/tmp/t.db", "/", "ext4"),
        ("/data/t.db", "/data", "nfs4"),
        ("/data/my disk/t.db", "/data/my disk", "xfs"),
        ("/database/t.db", "/", "ext4"),
        ("/srv/t.db", "/srv/t.db", "ext4"),
        ("/srv/t.db2", "/", "ext4"),
        ("/again/t.db", "/again", "9p"),
    ],
)
def test_the_mount_of_a_file_is_the_last_of_the_longest(path, point, kind):
    assert mount_of(path, TABLE) == Mount(point, kind)


def test_a_line_that_cannot_be_read_says_nothing():
    assert mount_of("/t.db", b"\nx\n22 1 8:1 / / rw") is None


def test_a_network_file_system_is_refused(path, monkeypatch):
    monkeypatch.setattr(ledger_file, "mount_of", lambda path: Mount("/data", "nfs4"))
    with pytest.raises(LedgerUnavailableError, match=r"network file system \(nfs4, mounted at /data\).*PostgreSQL"):
        Ledger(str(path))


_TWO_NAMES = """
mount --bind "$1/tickets.db" "$1/box.db" && exec "$0" -c '
import sys
from sottovoce.cli import run
sys.exit([run(["ledger", "verify", f"{sys.argv[1]}/{name}"]) for name in ("tickets.db", "box.db")] != [0, 3])
' "$1"
"""


@pytest.mark.slow
def test_a_file_that_a_container_was_given_alone_is_refused(account, path, tmp_path):
    (tmp_path / "box.db").touch()
    alone = ["unshare", "-m", "--propagation", "private", "sh"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "-c", _mounts(tmp_path)]).returncode:
        pytest.skip("a file cannot be mounted on another here")
    words = [*alone, "-c", _TWO_NAMES, sys.executable, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "box.db is a mount of its own" in done.stderr


def _mounts(folder: Path) -> str:
    return f"mount --bind '{folder}/tickets.db' '{folder}/box.db' 2> /dev/null"


# The journal


class Other:
    """A connection that gives other answers to some pragmas."""

    def __init__(self, connection, answers):
        self._connection, self._answers = connection, answers

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement, *rest):
        for start, answer in self._answers.items():
            if statement.startswith(start):
                return self._connection.execute(f"SELECT '{answer}'")
        return self._connection.execute(statement, *rest)


@pytest.mark.parametrize("answer", ["memory", "off", "delete", "wal", "truncate"])
def test_a_place_that_gives_another_journal_than_asked_for_is_refused(path, monkeypatch, answer):
    opened = LedgerFile._open
    monkeypatch.setattr(LedgerFile, "_open", lambda file: Other(opened(file), {"PRAGMA journal_mode =": answer}))
    with pytest.raises(LedgerUnavailableError, match=f"journal mode persist was asked for and {answer} given"):
        Ledger(str(path))


def test_a_place_that_does_not_synchronise_is_refused(path, monkeypatch):
    opened = LedgerFile._open
    monkeypatch.setattr(LedgerFile, "_open", lambda file: Other(opened(file), {"PRAGMA synchronous": "1"}))
    with pytest.raises(LedgerUnavailableError, match="synchronous 2 and 1"):
        Ledger(str(path))


def test_a_program_that_changes_the_journal_stops_the_others(account, path):
    # As versions did that kept charges beside the file.
    other = sqlite3.connect(path, isolation_level=None)
    assert other.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    with pytest.raises(LedgerUnavailableError, match="journal mode wal"):
        account.reserve([charge("more")])
    other.close()


# Ledgers of versions that kept charges beside the file


def older_version(path: Path, names: list[str], *, end: str) -> int:
    """Charges as such a version did, in another process; it ends as by a power cut, in good order, or stays.

    Returns:
        Its number, where it stays.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ledger_file.JOURNAL = "wal"
            os.environ["SOTTOVOCE_HOME"] = str(path.parent / f"home of {path.name}")
            LedgerFile._empty_log = lambda file: None
            LedgerFile._set_journal = lambda file, connection: connection.execute("PRAGMA journal_mode = WAL")
            account = Ledger(str(path)).open(WHO, Budget(1.0))
            for name in names:
                account.reserve([charge(name)])
            if end == "in good order":
                account.database.close()
            os.write(writer, b"done")
            if end == "stays":
                signal.pause()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.close(writer)
    assert os.read(reader, 4) == b"done"
    os.close(reader)
    if end != "stays":
        os.waitpid(child, 0)
    return child


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def header(path: Path) -> bytes:
    return path.read_bytes()[18:20]


LOGGED, PLAIN = b"\x02\x02", b"\x01\x01"


def test_a_ledger_of_an_older_version_moves_with_every_charge(path):
    older_version(path, ["a", "b", "c"], end="by a power cut")
    assert header(path) == LOGGED
    assert log_of(path).stat().st_size > 0
    assert answers(path) == 3
    assert Ledger(str(path)).verify() == []
    assert header(path) == PLAIN
    assert not log_of(path).exists()


def _move(path: str, gate, done) -> None:
    gate.wait(60)
    done.put(answers(path))


@pytest.mark.slow
def test_programs_that_move_one_ledger_at_once_agree(path):
    older_version(path, ["a", "b", "c"], end="by a power cut")
    gate, done = FORK.Barrier(4), FORK.Queue()
    workers = [FORK.Process(target=_move, args=(str(path), gate, done)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert [done.get(timeout=300) for _ in workers] == [3] * 4
    for worker in workers:
        worker.join()
    assert header(path) == PLAIN


def test_a_ledger_that_an_older_version_has_open_is_waited_for_and_refused(path, monkeypatch):
    monkeypatch.setattr(ledger_file, "MOVE_TIMEOUT_S", 0.1)
    child = older_version(path, ["a", "b"], end="stays")
    try:
        with pytest.raises(LedgerUnavailableError, match="another program still has it open"):
            Ledger(str(path))
        assert header(path) == LOGGED
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert answers(path) == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize("end", ["by a power cut", "in good order"])
def test_a_file_of_an_older_version_without_its_log_is_taken_on_its_owners_word_alone(path, tmp_path, end, capsys):
    older_version(path, ["a"], end="in good order")
    older_version(path, ["b"], end=end)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    for _ in range(2):  # nothing is left of the first try that would pass for a log
        with pytest.raises(
            LedgerUnavailableError, match=r"copy\.db-wal, and that file is not there.*sotto ledger adopt"
        ):
            Ledger(str(copy))
    assert copy.read_bytes() == path.read_bytes()
    assert run(["ledger", "adopt", str(copy)]) == 0
    kept = 1 if end == "by a power cut" else 2
    assert f"{1 + kept} entries, the newest of 2" in capsys.readouterr().err
    assert answers(copy) == kept
    assert header(copy) == PLAIN


def test_a_torn_file_is_not_taken_on_anybodys_word(path, capsys):
    older_version(path, ["a"], end="in good order")
    data = bytearray(path.read_bytes())
    data[-2000:] = bytes(2000)
    path.write_bytes(data)
    assert run(["ledger", "adopt", str(path)]) == 3
    assert answers_or_none(path) is None


def answers_or_none(path) -> int | None:
    try:
        return answers(path)
    except LedgerUnavailableError:
        return None


def test_only_a_file_that_is_there_is_adopted(path, capsys):
    assert run(["ledger", "adopt", str(path)]) == 3
    assert "There is no ledger" in capsys.readouterr().err
    assert not path.exists()
    with pytest.raises(ParameterError, match="a file"):
        Ledger.adopt(":memory:")


def test_a_log_that_is_left_from_another_file_does_not_overwrite_this_one(account, path, tmp_path):
    # SQLite would take it for this file's own: three charges would become one.
    older = tmp_path / "older.db"
    older_version(older, ["a"], end="by a power cut")
    account.reserve([charge("b"), charge("c")])
    account.database.close()
    shutil.copy(log_of(older), log_of(path))
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailableError, match="not its own"):
        Ledger(str(path))
    assert path.read_bytes() == before
    log_of(path).unlink()
    assert answers(path) == 3


def test_without_that_refusal_the_log_would_overwrite_it(account, path, tmp_path, monkeypatch):
    older = tmp_path / "older.db"
    older_version(older, ["a"], end="by a power cut")
    account.reserve([charge("b"), charge("c")])
    account.database.close()
    shutil.copy(log_of(older), log_of(path))
    monkeypatch.setattr(ledger_file, "_is_logged", lambda path: True)
    monkeypatch.setattr(LedgerFile, "_is_own_log", lambda file: True)
    assert answers_or_none(path) != 3


def test_a_log_that_is_left_from_another_ledger_does_not_replace_an_older_versions(path, tmp_path):
    # Both are in the mode with a log, and SQLite would take the one for the other's: three charges would become one.
    better = tmp_path / "better.db"
    older_version(path, ["a"], end="by a power cut")
    older_version(better, ["b", "c", "d"], end="in good order")
    shutil.copy(better, path)
    before = [file.read_bytes() for file in (path, log_of(path))]
    with pytest.raises(LedgerUnavailableError, match="not its own"):
        Ledger(str(path))
    assert [file.read_bytes() for file in (path, log_of(path))] == before
    log_of(path).unlink()
    assert run(["ledger", "adopt", str(path)]) == 0
    assert answers(path) == 3


def test_a_log_that_leads_on_from_what_its_file_holds_is_taken_in(path):
    older_version(path, ["a"], end="in good order")
    older_version(path, ["b", "c"], end="by a power cut")
    assert answers(path) == 3


# Files that change by themselves


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "CREATE TRIGGER forget AFTER INSERT ON sotto_entry BEGIN UPDATE sotto_data_set SET spent = 0; END",
            "the trigger 'forget', which no ledger has",
        ),
        ("CREATE VIEW shown AS SELECT * FROM sotto_entry", "the view 'shown', which no ledger has"),
        ("CREATE INDEX quick ON sotto_entry (kind)", "the index 'quick', which no ledger has"),
        ("CREATE TABLE other (x)", "the table 'other', which no ledger has"),
    ],
)
def test_a_file_that_would_change_or_hide_rows_by_itself_is_refused(account, path, change, problem, capsys):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(change)
    with pytest.raises(LedgerUnavailableError, match=problem):
        answers(path)
    assert run(["ledger", "verify", str(path)]) == 3
    told = capsys.readouterr()
    assert problem in told.out + told.err


IGNORES = "CREATE TRIGGER {0} BEFORE {1} BEGIN SELECT RAISE(IGNORE); END"


def spelt(path, change, kind):
    """Makes something in the file and writes what it is in other letters, which SQLite does not mind."""
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(change)
        other.execute("PRAGMA writable_schema = ON")
        name = change.split()[2]
        assert other.execute("UPDATE sqlite_master SET type = ? WHERE name = ?", (kind, name)).rowcount == 1
        other.execute("PRAGMA schema_version = 9999")


@pytest.mark.parametrize("kind", ["TRIGGER", "Trigger"])
@pytest.mark.parametrize("name", ["forget", "sqlite_autoindex_sotto_entry_3", "SOTTO_ENTRY"])
def test_a_trigger_whose_kind_is_spelt_in_other_letters_is_refused(account, path, name, kind):
    if name.startswith("sqlite"):  # a name that nobody may give but by writing it
        spelt(path, IGNORES.format("x", "INSERT ON sotto_entry"), kind)
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("PRAGMA writable_schema = ON")
            other.execute(
                "UPDATE sqlite_master SET name = ?, sql = replace(sql, ' x ', ?) WHERE name = 'x'", (name, f" {name} ")
            )
    else:
        spelt(path, IGNORES.format(name, "INSERT ON sotto_entry"), kind)
    problems = Ledger(str(path)).verify()
    assert problems
    assert name in problems[0] or problems[0] == "the table sotto_entry is not made as a ledger's is"
    with pytest.raises(LedgerUnavailableError, match="is not whole"):
        answers(path)


def test_a_ledger_whose_tables_are_spelt_as_other_kinds_still_holds_its_records(account, path):
    spelt(path, "CREATE TABLE other (x)", "TABLE")  # what is made last is read last
    for named in ("other", "sotto_fingerprint"):
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("PRAGMA writable_schema = ON")
            other.execute("UPDATE sqlite_master SET type = 'TABLE' WHERE name = ?", (named,))
        assert ledger_file.may_hold(str(path), [WHO.fingerprint])
    assert not ledger_file.may_hold(str(path), ["0" * 64])
    with pytest.raises(LedgerUnavailableError, match="is not whole"):
        answers(path)


@pytest.mark.parametrize("table", ["sotto_entry", "sotto_meta", "sotto_data_set"])
def test_a_charge_that_something_drops_under_a_running_program_is_not_promised(account, path, table):
    act = "INSERT" if table == "sotto_entry" else "UPDATE"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(IGNORES.format("forget", f"{act} ON {table}"))
    with pytest.raises(LedgerUnavailableError, match=f"did not take what was written to its table {table}"):
        account.reserve([charge("after")])
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DROP TRIGGER forget")
    assert Ledger(str(path)).verify() == []
    assert answers(path) == 1


@pytest.mark.parametrize(
    "act",
    [
        "DELETE FROM sotto_entry WHERE seq = NEW.seq",
        "UPDATE sotto_entry SET release_id = 'another' WHERE seq = NEW.seq",
        "UPDATE sotto_entry SET amount = 0 WHERE seq = NEW.seq",
    ],
)
def test_a_trigger_that_changes_what_was_just_written_stops_the_charge(account, path, act):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"CREATE TRIGGER x AFTER INSERT ON sotto_entry BEGIN {act}; END")
    with pytest.raises(LedgerUnavailableError, match="drops or changes rows"):
        account.reserve([charge("after")])
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DROP TRIGGER x")
    assert Ledger(str(path)).verify() == []
    assert answers(path) == 1


def test_what_a_look_at_the_statistics_leaves_is_no_fault(account, path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("ANALYZE")
    assert Ledger(str(path)).verify() == []
    assert answers(path) == 1


FORGETS = "g INTEGER GENERATED ALWAYS AS (CASE WHEN {} THEN 1 END) VIRTUAL UNIQUE ON CONFLICT IGNORE"


def rebuilt(path, table, change):
    """Puts a table in the place of one of the ledger's, with the same rows."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA legacy_alter_table = ON")
        ((made,),) = other.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
        names = ", ".join(name for _, name, *_ in other.execute(f"PRAGMA table_info({table})"))
        other.execute(f"ALTER TABLE {table} RENAME TO before")
        other.execute(change(made))
        other.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM before")
        other.execute("DROP TABLE before")
        other.commit()


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("sotto_entry", "PRIMARY KEY", FORGETS.format("seq > 1") + ", PRIMARY KEY"),
        ("sotto_meta", "PRIMARY KEY", FORGETS.format("key = 'head'") + ", PRIMARY KEY"),
        ("sotto_data_set", "PRIMARY KEY", FORGETS.format("answers > 1") + ", PRIMARY KEY"),
        ("sotto_entry", "UNIQUE (release_id, kind)", "UNIQUE (release_id, kind) ON CONFLICT IGNORE"),
        ("sotto_entry", "UNIQUE (release_id, kind)", "UNIQUE (release_id, kind) ON/**/CONFLICT REPLACE"),
        ("sotto_entry", "hash VARCHAR(64) NOT NULL", "hash VARCHAR(64) NOT NULL, note TEXT"),
        ("sotto_entry", "amount BIGINT", "amount REAL"),
        ("sotto_fingerprint", "fingerprint VARCHAR(64)", "fingerprint VARCHAR(64) COLLATE NOCASE"),
        ("sotto_cap", "CHECK (cap >= 0 AND spent >= 0 AND spent <= cap)", "CHECK (cap >= 0)"),
        ("sotto_cap", "spent <= cap)", 'spent <= "cap ")'),
        ("sotto_data_set", "id INTEGER NOT NULL", "id INTEGER\u00a0NOT NULL"),
        ("sotto_data_set", "id INTEGER NOT NULL", "id INTEGERNOT NULL"),
    ],
)
def test_a_file_whose_tables_drop_or_change_rows_by_themselves_is_refused(account, path, table, old, new):
    def change(made):
        assert made.count(old) == 1
        return made.replace(old, new)

    rebuilt(path, table, lambda made: made)
    assert Ledger(str(path)).verify() == []
    rebuilt(path, table, change)
    assert Ledger(str(path)).verify()[0] == f"the table {table} is not made as a ledger's is"
    with pytest.raises(LedgerUnavailableError, match="is not whole"):
        answers(path)


@pytest.mark.parametrize("table", ["sotto_entry", "sotto_fingerprint", "sotto_meta", "sotto_cap", "sotto_data_set"])
def test_a_table_whose_clauses_are_inside_quotes_is_refused(account, path, table):
    def change(made):
        start = (
            made.index(" ", made.rindex("\n\t", 0, made.index("\n\tPRIMARY KEY"))) + 1
        )  # behind the last column's name
        end = made.rindex(")")
        return made[:start] + '"' + made[start:end].replace('"', "") + '")'

    rebuilt(path, table, change)
    with closing(sqlite3.connect(path)) as other:
        assert not other.execute("SELECT 1 FROM pragma_table_info(?) WHERE pk", (table,)).fetchall()
    assert Ledger(str(path)).verify()[0] == f"the table {table} is not made as a ledger's is"
    with pytest.raises(LedgerUnavailableError, match="is not whole"):
        answers(path)


def test_names_in_quotes_and_other_blanks_are_the_same_table(account, path):
    def change(made):
        return made.replace("CREATE TABLE sotto_entry", 'CREATE  TABLE "sotto_entry"').replace("\tseq ", '\n  "seq" ')

    rebuilt(path, "sotto_entry", change)
    assert Ledger(str(path)).verify() == []
    assert answers(path) == 1


@pytest.mark.parametrize("clause", ["UNIQUE (name)", "UNIQUE (name), UNIQUE (answers) ON CONFLICT IGNORE"])
def test_a_table_whose_name_is_spelt_in_other_letters_is_refused(account, path, clause):
    def change(made):
        return made.replace("TABLE sotto_data_set", "TABLE SOTTO_DATA_SET").replace("UNIQUE (name)", clause)

    rebuilt(path, "sotto_data_set", change)
    assert Ledger(str(path)).verify()[0] == "the table sotto_data_set is not made as a ledger's is"
    with pytest.raises(LedgerUnavailableError, match="is not whole"):
        answers(path)


def test_a_format_in_digits_that_are_no_number_is_refused_in_words(account, path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE sotto_meta SET value = '\u00b2' WHERE key = 'schema_version'")
    with pytest.raises(LedgerUnavailableError, match="ledger format \u00b2"):
        Ledger(str(path))


def test_a_link_that_leads_to_itself_is_told_as_one(path):
    path.symlink_to(path.name)
    with pytest.raises(LedgerUnavailableError, match="symbolic links"):
        Ledger(str(path))


def test_a_pipe_is_no_ledger(path):
    os.mkfifo(path)
    with pytest.raises(LedgerUnavailableError, match="no regular file"):
        Ledger(str(path))


@pytest.mark.parametrize(
    ("size", "content"),
    [
        *((size, content) for size in (0, 9000) for content in (b"dear diary, " * 100, bytes(8) + b"silence first")),
        (0, bytes(600)),
        (0, bytes(5) + b"x"),
    ],
)
def test_nothing_else_that_bears_the_name_of_a_journal_is_overwritten(tmp_path, size, content):
    place, beside = tmp_path / "notes", tmp_path / "notes-journal"
    if size:
        Ledger(str(place)).open(WHO, Budget(8, 1e-6))
    beside.write_bytes(content)
    with pytest.raises(LedgerUnavailableError, match="notes-journal, which is not its own"):
        Ledger(str(place)).open(WHO, Budget(8, 1e-6))
    assert (beside.read_bytes(), place.exists()) == (content, bool(size))


def test_a_journal_that_a_moved_ledger_left_with_pages_to_put_back_is_kept(tmp_path):
    place, beside = tmp_path / "notes.db", tmp_path / "notes.db-journal"
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE kept (number)")
        connection.execute("BEGIN")
        connection.execute("PRAGMA cache_size = 1")
        connection.executemany("INSERT INTO kept VALUES (?)", [(str(n) * 5000,) for n in range(100)])
        hot = beside.read_bytes()
        connection.execute("ROLLBACK")
    place.unlink()
    beside.write_bytes(hot)
    with pytest.raises(LedgerUnavailableError, match=r"notes\.db-journal, which is not its own"):
        Ledger(str(place))
    assert beside.read_bytes() == hot
    assert not any(hot[28:512])
    beside.write_bytes(bytes(512) + hot[512 : 512 + (len(hot) - 512) // 4104 * 4104])  # which has none to put back
    assert Ledger(str(place)).open(WHO, Budget(8, 1e-6)).balance().answers == 0


BEGUN = bytes.fromhex("d9d505f920a163d7") + bytes(4)
FIRST, LATER = (bytes.fromhex(f"0badcafe{pages:08x}0000020000001000") for pages in (0, 7))


@pytest.mark.parametrize(
    ("head", "size", "of_nothing", "of_a_ledger"),
    [
        (b"", 0, True, True),
        (BEGUN + FIRST, 512, True, True),
        (bytes(12) + FIRST, 512, True, True),  # until it is synchronised its mark is missing
        (BEGUN + LATER, 512, False, True),
        (bytes(12) + LATER, 512, False, True),
        (bytes(28) + b"x", 9000, False, True),
        (bytes(512), 512 + 3 * 4104, True, True),
        (bytes(512), 4096 + 3 * 4104, True, True),
        (bytes(512), 600, False, True),
        (b"dear diary, " * 9, 108, False, False),
        (bytes(8) + b"silence, then music " * 9, 188, False, False),
        (BEGUN[:8] + b"precious" * 9, 80, False, False),
    ],
)
def test_a_journal_is_known_by_its_head_whoever_writes_it_at_this_moment(head, size, of_nothing, of_a_ledger):
    assert [_is_journal(head, size, of_nothing=nothing) for nothing in (True, False)] == [of_nothing, of_a_ledger]
