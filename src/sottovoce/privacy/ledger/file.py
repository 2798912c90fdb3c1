"""A ledger's file: what makes it the whole ledger at every moment, and what would make two ledgers of it.

Guarantee   When a charge is promised the file alone holds it, synchronised, whatever lies beside it. The file has one
            name, hence one journal, and the name still leads to it when the charge is made and when it is promised.
Assumes     The disk keeps what it says it has synchronised, and programs that can open the file see each other's locks.
Sources     SQLite's "Atomic Commit" and "How To Corrupt" pages.

SQLite keeps a rollback journal beside the file. It holds the *old* pages while a transaction is written, so a file
without it can be torn but never lacks a promised charge; ``Database`` verifies a file before it is used. Versions
before this one kept the newest charges in a write-ahead log beside the file; such a ledger is moved when it is opened.

The file is never opened here except through SQLite: to close any descriptor of it drops all locks of the process.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, final

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool, StaticPool
from sqlalchemy.schema import CreateTable

from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.ledger.mounts import NETWORK, mount_of
from sottovoce.privacy.ledger.schema import ENTRY, FINGERPRINT, META, TABLES

LOCK_TIMEOUT_S: Final = 60
MOVE_TIMEOUT_S: Final = 10
"""How long a ledger of an older version is waited for that another program has open."""
JOURNAL: Final = "persist"
LOG: Final = "-wal"
UNDO: Final = "-journal"
"""Behind the name of what SQLite keeps old pages in, which it writes over without asking what is there."""
SYNCHRONOUS_FULL: Final = 2

_IN_USE: Final = bytes.fromhex("d9d505f920a163d7")
"""How a journal begins that has pages to put back. Until it is synchronised, and once it has none, those are zeros."""
_SECTORS, _OF_A_PAGE = (512, 4096), 4096 + 8
"""Bytes that a journal's head is filled up to, as the disk is, and of each page behind it."""
_PAGE_SIZES: Final = tuple(512 << power for power in range(8))
_LOOKS: Final = 20
_SHORTEST_PAUSE_S: Final = 0.0005
_TABLES: Final = "SELECT lower(name) FROM sqlite_master WHERE lower(type) = 'table'"
"""SQLite knows no case in this column, nor in names: it makes of a row whatever its statement says."""
_NEWEST: Final = f"SELECT seq, hash FROM {ENTRY.name} ORDER BY seq DESC LIMIT 1"
_OBJECTS: Final = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_STATISTICS: Final = (
    ("table", "sqlite_stat1", "sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
    ("table", "sqlite_stat4", "sqlite_stat4", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
)
"""What ``ANALYZE`` leaves: how rows are looked for follows from it, not which ones there are."""
_WORD: Final = re.compile(r"""'[^']*'|"[^"]*"|[(),]|[^ \t\n\f\r'"(),]+|['"]""")
"""A word of a statement: whatever SQLite's own blanks, which are these five, divide, quoted text as it is."""
_ADDED: Final = "failure_spent BIGINT DEFAULT '0' NOT NULL"
_ITS_CHECK: Final = "CHECK ( failure_spent >= 0 AND failure_spent <= failure_cap )"
"""In a ledger that was moved from format 1 the check stands in the column that was added, else at the table's end."""
_KEPT: Final[list[sqlite3.Connection]] = []
"""Connections without locks, which stay open: to close one would drop the locks that others have."""


@final
class LedgerFile:
    """The one file that a ledger is.

    Args:
        path: Its name. Symbolic links are followed; a missing file is made, for its owner alone.
        name: What messages call it.

    Raises:
        LedgerUnavailableError: There cannot be one ledger at this place.
    """

    def __init__(self, path: str, name: str) -> None:
        self.name, self._typed = name, path
        try:
            self._named, self._path = os.path.abspath(path), os.path.realpath(path)
            self._require_own_journal()
            _make(self._path)
        except (OSError, ValueError) as error:
            raise self._unusable(str(getattr(error, "strerror", None) or error)) from None
        self._require_a_place()
        self._identity = self._file_identity()
        self.require_one()
        self._empty_log()

    def require_one(self) -> None:
        """Checks that the name still leads to the file that was opened, and that the file has no other name.

        Raises:
            LedgerUnavailableError: It was moved, replaced or linked.
        """
        if self._file_identity() != self._identity:
            raise LedgerUnavailableError(
                f"The ledger {self.name} was replaced by another file, or moved, while this program had it open. No "
                "answer is given: a charge might stand in one file and be missing in the other. Start the program "
                "again."
            )

    def connect(self) -> sqlite3.Connection:
        """A new connection to the file; it never makes one.

        Raises:
            LedgerUnavailableError: It does not keep its journal as it must.
        """
        self.require_one()
        connection = self._open()
        try:
            connection.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT_S * 1000}")
            tables = {name for (name,) in patiently(connection, _TABLES)}
            if not tables or META.name in tables:  # another program's database is left as it is
                self._set_journal(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            self.require_one()
        except BaseException:
            connection.close()
            raise
        return connection

    def require_journal(self, connection: Any) -> None:
        """Checks, inside a transaction, that what is written goes into the file itself.

        Raises:
            LedgerUnavailableError: Another program has changed the file to a write-ahead log meanwhile.
        """
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != JOURNAL:
            raise LedgerUnavailableError(
                f"Another program changed how the ledger {self.name} is written (journal mode {mode}): charges would "
                "not be in the file itself. End programs of older versions that use it, and start this one again."
            )

    def adopt(self) -> None:
        """Takes a file into use that an older version wrote and whose log is missing, on its owner's word."""
        self._move_from_log()

    def _file_identity(self) -> tuple[int, int]:
        """Which file the name leads to; it must have one name alone."""
        try:
            status = os.stat(self._named)
        except OSError as error:
            raise self._unusable(str(error.strerror)) from None
        if not stat.S_ISREG(status.st_mode):
            raise self._unusable("it is no regular file")
        if status.st_nlink != 1:
            raise LedgerUnavailableError(
                f"The ledger {self.name} has {status.st_nlink} names (hard links). After a crash a program that knows "
                "it by another name would not find its journal. Keep one name: remove the others, or copy the file."
            )
        return status.st_dev, status.st_ino

    def _require_a_place(self) -> None:
        mount = mount_of(self._path)
        if mount is None:
            return
        if mount.point == self._path:
            raise LedgerUnavailableError(
                f"The ledger {self.name} is a mount of its own, as when a container is given a single file. Its "
                "journal would be kept elsewhere than that of the same file outside. Mount the folder that holds it."
            )
        if mount.kind in NETWORK:
            raise LedgerUnavailableError(
                f"The ledger {self.name} is on a network file system ({mount.kind}, mounted at {mount.point}): other "
                "hosts may not see its locks, and budgets would be spent twice. Keep it on a local disk, or name a "
                "PostgreSQL database where several hosts share it."
            )

    def _open(self, how: str = "mode=rw") -> sqlite3.Connection:
        where = f"{Path(self._path).as_uri()}?{how}"
        return sqlite3.connect(where, uri=True, timeout=0, isolation_level=None, check_same_thread=False)

    def _set_journal(self, connection: sqlite3.Connection) -> None:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode == "wal":
            raise LedgerUnavailableError(
                f"The ledger {self.name} was written by an older version, which kept the newest charges beside it, in "
                f"{self.name}{LOG}, and that file is not there. Either it was closed in good order, or this is a copy "
                "that lacks charges; the file cannot tell. If an older version has it open, end that first. If it is "
                "the ledger that you used, and nothing was copied, moved or restored since, take it into use with "
                f"'sotto ledger adopt {self._typed}'. If not, find the original."
            )
        ((mode,),) = patiently(connection, f"PRAGMA journal_mode = {JOURNAL}")
        connection.execute("PRAGMA synchronous = FULL")
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
        if mode != JOURNAL or level != SYNCHRONOUS_FULL:
            raise LedgerUnavailableError(
                f"The ledger {self.name} cannot be kept here: journal mode {JOURNAL} was asked for and {mode} given, "
                f"synchronous {SYNCHRONOUS_FULL} and {level}. Keep it on a local disk."
            )

    def _require_own_journal(self) -> None:
        """Refuses a place where something else bears the journal's name, or the journal of a ledger that is gone.

        Another program may be writing it at this moment: what is not its own is so each time that it is looked at.
        """
        for _ in range(_LOOKS):
            try:
                with open(self._path + UNDO, "rb") as file:
                    head, size = file.read(_SECTORS[0]), os.fstat(file.fileno()).st_size
            except FileNotFoundError:
                return
            if _is_journal(head, size, of_nothing=not _size(self._path)):
                return
            _pause()
        raise LedgerUnavailableError(
            f"Beside the ledger {self.name} is {self.name}{UNDO}, which is not its own and would be overwritten. If it "
            "is of a ledger that was moved, move it there; else give it, or this ledger, another name."
        )

    def _empty_log(self) -> None:
        """Moves charges that an older version left in a log beside the file into the file."""
        while _size(self._path + LOG) > 0:
            if _is_logged(self._path) and self._is_own_log():
                self._move_from_log()
            elif _size(self._path + LOG) > 0:
                raise LedgerUnavailableError(
                    f"Beside the ledger {self.name} is {self.name}{LOG}, which is not its own: it is left from another "
                    "file of this name, and would overwrite this one. If this file is the one that counts, move the "
                    "other away; if it replaced the one that counts, put that back."
                )

    def _is_own_log(self) -> bool:
        """Whether the log leads on from the newest entry that the file holds without it.

        Both are read before anything is written. A file that cannot be read without its log, as after a crash while
        the log was taken into it, says nothing.
        """
        _KEPT.append(self._open("immutable=1"))
        try:
            newest = _KEPT[-1].execute(_NEWEST).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            newest = None
        if newest is None:
            return True
        query = f"SELECT count(*) FROM {ENTRY.name} WHERE seq = ? AND hash = ?"
        try:
            with closing(self._open("mode=ro")) as connection:  # which does not take the log in when it is closed
                ((count,),) = patiently(connection, query, newest)
        except sqlite3.OperationalError as error:
            raise self._unusable(str(error).splitlines()[0]) from None
        except sqlite3.DatabaseError:  # pages of two ledgers make none
            return False
        return bool(count)

    def _move_from_log(self) -> None:
        end = time.monotonic() + MOVE_TIMEOUT_S
        while not self._moved_if_unused():
            if time.monotonic() > end:
                raise LedgerUnavailableError(
                    f"The ledger {self.name} was written by an older version, and another program still has it open. "
                    "It moves to this version when nobody else uses it: end the other program, then try again."
                )
            _pause()

    def _moved_if_unused(self) -> bool:
        """Moves the ledger unless somebody else has it open.

        The connection asks for the file alone from its first look on, and is closed when it does not get it: of two
        that had joined the log, or that kept a lock while they waited, neither could go on.
        """
        with closing(self._open()) as connection:
            try:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("PRAGMA synchronous = FULL")
                tables = {name for (name,) in connection.execute(_TABLES)}
                if META.name not in tables:
                    raise LedgerUnavailableError(f"{self.name} is a database but not a ledger. Name another file.")
                connection.execute(f"PRAGMA journal_mode = {JOURNAL}").fetchall()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if isinstance(error, sqlite3.OperationalError) and _is_busy(error):
                    return False
                raise self._unusable(str(error).splitlines()[0]) from None
        return True

    def _unusable(self, reason: str) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            f"The ledger {self.name} cannot be opened ({reason}). Name a file in a folder you can write to."
        )


@final
class _Compiled(dict[tuple[Any, ...], Any]):
    """Statements, without parameters, as one engine compiled them for all: SQLite's dialects do not differ.

    There are as many as this package has; by default each engine compiles its own.
    """

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        _, *statement = key  # the dialect, of which every engine has one
        return super().get(tuple(statement), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        _, *statement = key
        super().__setitem__(tuple(statement), compiled)


_COMPILED: Final = _Compiled()


def file_engine(file: LedgerFile) -> sa.Engine:
    """An engine whose transactions are alone when they write, and see one moment when they read."""
    engine = sa.create_engine(
        "sqlite://",
        creator=file.connect,
        poolclass=QueuePool,
        hide_parameters=True,
        execution_options={"compiled_cache": _COMPILED},
    )

    def begin(connection: sa.Connection) -> None:
        raw = connection.connection.dbapi_connection
        if connection.get_execution_options().get("sotto_read_only", False):
            _begin_reading(raw)
        else:
            _begin_alone(raw)

    sa.event.listen(engine, "begin", begin)
    return engine


def memory_engine() -> sa.Engine:
    """An engine of one connection, to a database that ends with it."""
    engine = sa.create_engine(
        "sqlite://",
        poolclass=StaticPool,
        hide_parameters=True,
        connect_args={"check_same_thread": False, "isolation_level": None},
        execution_options={"compiled_cache": _COMPILED},
    )
    sa.event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA foreign_keys = ON"))
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def faults(connection: sa.Connection) -> list[str]:
    """What is wrong with the file's pages and indexes, or would change rows by itself; nothing if all is well."""
    report = [str(line) for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(1)")]
    if report != ["ok"]:
        return [f"the file is damaged: {line.splitlines()[-1]}" for line in report]
    objects = [tuple(row) for row in connection.exec_driver_sql(_OBJECTS)]
    tables = {table.name: table for table in TABLES.sorted_tables}
    changed = [
        f"the table {name} is not made as a ledger's is"
        for name, table in tables.items()
        if not _is_made(table, [row for row in objects if str(row[1]).lower() == name], connection.dialect)
    ]
    return changed + [
        f"the file has the {kind} {name!r}, which no ledger has"
        for kind, name, table, made in objects
        if str(name).lower() not in tables and not _is_harmless(kind, name, table, made)
    ]


def may_hold(path: str, fingerprints: Sequence[str]) -> bool:
    """Whether a ledger's file has an account of these records, or cannot be asked."""
    marks = ", ".join("?" * len(fingerprints))
    known = f"SELECT count(*) FROM {FINGERPRINT.name} WHERE fingerprint IN ({marks})"
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if FINGERPRINT.name not in {name for (name,) in patiently(connection, _TABLES)}:
                return False
            ((count,),) = patiently(connection, known, fingerprints)
    except (sqlite3.Error, UnicodeDecodeError):
        return True
    return bool(count)


def _is_harmless(kind: object, name: object, table: object, made: object) -> bool:
    """Whether a row of SQLite's own table is an index that came with one of ours, or holds what ``ANALYZE`` found."""
    if (kind, name, table, made) in _STATISTICS:
        return True
    own = re.fullmatch("sqlite_autoindex_(.+)_[0-9]+", str(name))
    return kind == "index" and made is None and own is not None and own[1] == table and table in TABLES.tables


def _is_made(table: sa.Table, objects: Sequence[tuple[object, ...]], dialect: sa.Dialect) -> bool:
    """Whether there is one object of a table's name, made as this version, or a move from an earlier one, makes it.

    Any other clause might drop, change or confuse rows without an error. SQLite knows no case in names: a table that is
    spelt otherwise would be used all the same, and so would a trigger whose row says ``TRIGGER``.
    """
    fresh = _in_words(str(CreateTable(table).compile(dialect=dialect)), table)
    moved = fresh.replace(f" , {_ITS_CHECK}", "").replace(_ADDED, f"{_ADDED} {_ITS_CHECK}")
    found = [(kind, name, of, _in_words(str(made), table)) for kind, name, of, made in objects]
    return any(found == [("table", table.name, table.name, text)] for text in (fresh, moved))


def _in_words(statement: str, table: sa.Table) -> str:
    """A statement with one blank between words, and no quotes around names of tables and of the table's columns.

    Quotes around anything else are kept: a type of a column may hold whole clauses between them.
    """
    names = {f'"{name}"' for name in (*table.columns.keys(), *TABLES.tables)}
    return " ".join(word[1:-1] if word in names else word for word in _WORD.findall(statement))


def patiently(connection: Any, statement: str, values: Sequence[Any] = ()) -> Any:
    """Runs a statement again while another process is in the way."""
    end = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            return connection.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > end:
                raise
        _pause()


def _pause() -> None:
    """Waits a moment, of varying length, so that those who wait do not ask together."""
    time.sleep(_SHORTEST_PAUSE_S * (1 + time.perf_counter_ns() % 1_000_003 / 62_500))


def _begin_reading(connection: Any) -> None:
    """Takes SQLite's read lock at once, so that the moment that is seen is the transaction's first."""
    connection.execute("BEGIN")
    _without_handler(connection, "SELECT count(*) FROM sqlite_master")


def _begin_alone(connection: Any) -> None:
    """Takes SQLite's write lock."""
    _without_handler(connection, "BEGIN IMMEDIATE")


def _without_handler(connection: Any, statement: str) -> None:
    """Asks again after short pauses of our own.

    SQLite's own handler waits longer and longer: of 64 processes that wrote all the time some stood behind for as long
    as the others had anything to write, and together they wrote half as much.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        patiently(connection, statement)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT_S * 1000}")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # absent where text is no text
    return code & 0xFF == sqlite3.SQLITE_BUSY


def _make(path: str) -> None:
    """Makes the file, for its owner alone, unless it exists."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.isdir(path):
        raise IsADirectoryError(0, "it is a folder")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600))
    except FileExistsError:
        os.stat(path)  # says where links lead in a circle
        if not os.access(path, os.R_OK):
            raise PermissionError(0, "permission denied") from None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_journal(head: bytes, size: int, *, of_nothing: bool) -> bool:
    """Whether a file that begins like this is what SQLite keeps beside a ledger.

    Args:
        head: Its first 512 bytes.
        size: Its length in bytes.
        of_nothing: Whether the ledger is empty, or not there: it has no pages to be put back.
    """
    if not head or not any(head[:28]):  # made, or out of use
        as_large = any((size - sector) % _OF_A_PAGE == 0 for sector in _SECTORS)
        return not head or not of_nothing or (as_large and not any(head))
    pages, sector, page = (int.from_bytes(head[place : place + 4]) for place in (16, 20, 24))
    begun = head[:8] == _IN_USE or not any(head[:12])
    return begun and sector in _SECTORS and page in _PAGE_SIZES and not (of_nothing and pages)


def _is_logged(path: str) -> bool:
    """Whether the file's header says that newer pages are in a log beside it.

    The descriptor stays open: to close it would drop the locks of this process. This happens once to a ledger of an
    older version, and where a program is refused.
    """
    return os.pread(os.open(path, os.O_RDONLY), 2, 18) == b"\x02\x02"
