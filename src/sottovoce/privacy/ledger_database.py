"""How a ledger's database is opened: one code path for a SQLite file, memory and PostgreSQL.

Guarantee   A writing transaction is alone from its first look to its commit, sees everything that was committed before,
            and is on disk when it ends. A reading transaction sees one moment.
Assumes     The disk, or the PostgreSQL server, keeps what it says it has synchronised.

SQLite: WAL, full synchronisation, BEGIN IMMEDIATE. PostgreSQL: an advisory lock is the first statement of a writing
transaction under READ COMMITTED, so that no statement after it has a snapshot older than the lock.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import RLock
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from sottovoce.errors import LedgerUnavailableError, MissingExtraError
from sottovoce.privacy.ledger_address import Address
from sottovoce.privacy.ledger_schema import META, NO_HEAD, SCHEMA_VERSION, TABLES

LOCK_TIMEOUT_S: Final = 60
_SHORTEST_PAUSE_S: Final = 0.0005
_LOCK_KEY: Final = 0x736F74746F  # "sotto"


class Database:
    """One ledger's database. A forked child opens its own connections; processes share nothing but the database."""

    def __init__(self, address: Address) -> None:
        self.address, self.name = address, address.name
        self._engine = _engine(address)
        self._own()
        # Threads share the one connection of an in-memory ledger, so they take turns.
        self._turn: AbstractContextManager[object] = RLock() if address.in_memory else nullcontext()
        if address.file is not None:
            _create_file(address.file, self.name)
        self._prepare()

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that holds the write lock from its start and is on disk when it ends."""
        with self._turn, self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads, and sees one moment."""
        options: dict[str, Any] = {"sotto_read_only": True}
        if self.address.is_server:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with (
            self._turn,
            self._translated(),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    def close(self) -> None:
        """Closes every connection; the next use opens new ones."""
        if not self.address.in_memory:
            self._engine.dispose()

    def _own(self) -> None:
        """Connections belong to this process; they close with the last reference to them, here and not in a child."""
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _dispose, self._engine, self._owner)
        self._end.atexit = False

    def _prepare(self) -> None:
        with self.reading() as connection:
            version = self._version(connection)
            if self.address.is_server and connection.exec_driver_sql("SHOW fsync").scalar() != "on":
                raise LedgerUnavailableError(
                    f"The server of {self.name} runs with fsync off: it would forget charges when it crashes. Switch "
                    "fsync on, or name another ledger."
                )
        if version is None:
            with self.writing() as connection:
                version = self._version(connection) or self._create(connection)
        if version.isdigit() and int(version) < int(SCHEMA_VERSION):
            from sottovoce.privacy.ledger_migrations import migrate

            with self.writing() as connection:
                version = migrate(connection, self._version(connection) or version)
        if version != SCHEMA_VERSION:
            raise LedgerUnavailableError(
                f"{self.name} has ledger format {version}; this version of sottovoce reads {SCHEMA_VERSION}. Install "
                "a newer sottovoce to use it."
            )

    def _version(self, connection: sa.Connection) -> str | None:
        """The schema's version; ``None`` where there is no ledger yet."""
        present = set(sa.inspect(connection).get_table_names())
        if META.name not in present:
            if present and not self.address.is_server:
                raise LedgerUnavailableError(f"{self.name} is a database but not a ledger. Name another file.")
            return None
        return str(connection.scalar(sa.select(META.c.value).where(META.c.key == "schema_version")))

    def _create(self, connection: sa.Connection) -> str:
        TABLES.create_all(connection)
        values = {"schema_version": SCHEMA_VERSION, "head": NO_HEAD}
        connection.execute(sa.insert(META), [{"key": key, "value": value} for key, value in values.items()])
        return SCHEMA_VERSION

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Database failures become one error of ours, without SQL, parameters or passwords."""
        if os.getpid() != self._owner:
            if self.address.in_memory:
                raise LedgerUnavailableError(
                    f"{self.name} stays in the process that made it: a copy would spend the same budget again. Name a "
                    "file where processes are to share one."
                )
            self._end.detach()
            self._engine.dispose(close=False)
            self._own()
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:
            hint = (
                "Check the server and your rights there."
                if self.address.is_server
                else "Check that the file is a ledger, that the disk has room and that you may write there."
            )
            raise LedgerUnavailableError(
                f"The ledger {self.name} could not be read or written ({self.address.without_password(_reason(error))})"
                f". Without a durable charge there is no answer. {hint}"
            ) from None


def _dispose(engine: sa.Engine, owner: int) -> None:
    if os.getpid() == owner:
        engine.dispose()


def _reason(error: Exception) -> str:
    """The driver's own words, one line of them; never its details, which hold values."""
    if isinstance(error, UnicodeDecodeError):
        return "it holds text that is no text"
    original = getattr(error, "orig", None) or error
    if isinstance(original, SQLAlchemyError):
        return type(original).__name__
    primary = getattr(getattr(original, "diag", None), "message_primary", None)
    return str(primary or (str(original).splitlines() or [type(original).__name__])[0])


def _engine(address: Address) -> sa.Engine:
    if address.is_server:
        try:
            engine = sa.create_engine(
                address.url,
                isolation_level="READ COMMITTED",
                pool_pre_ping=True,
                hide_parameters=True,
                connect_args={"connect_timeout": 10, "application_name": "sottovoce", **address.options},
            )
        except ImportError:
            raise MissingExtraError("psycopg", "postgres") from None
        sa.event.listen(engine, "begin", _on_server_begin)
        return engine
    engine = sa.create_engine(
        address.url,
        poolclass=StaticPool if address.in_memory else QueuePool,
        hide_parameters=True,
        connect_args={"timeout": LOCK_TIMEOUT_S, "check_same_thread": False},
    )
    sa.event.listen(engine, "connect", _on_file_connect)
    sa.event.listen(engine, "begin", _on_file_begin)
    return engine


def _create_file(path: str, name: str) -> None:
    """Makes the file, for its owner alone. An existing one is not opened: to close it would drop SQLite's locks."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if os.path.isdir(path):
            raise IsADirectoryError(0, "it is a folder")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK):
            raise _unusable(name, "permission denied") from None
    except (OSError, ValueError) as error:
        raise _unusable(name, str(getattr(error, "strerror", None) or error)) from None


def _unusable(name: str, reason: str) -> LedgerUnavailableError:
    return LedgerUnavailableError(
        f"The ledger {name} cannot be opened ({reason}). Nothing was charged or released. Name a file in a folder you "
        "can write to."
    )


def _on_file_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT_S * 1000}")
    found = _patiently(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in found}
    if not tables or META.name in tables:  # another program's database is left as it is
        _patiently(connection, "PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _on_file_begin(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("sotto_read_only", False):
        connection.exec_driver_sql("BEGIN")
    else:
        _begin_alone(connection.connection.dbapi_connection)


def _begin_alone(connection: Any) -> None:
    """Takes SQLite's write lock, asking again after short pauses.

    SQLite's own handler waits longer and longer: of 64 processes that wrote all the time some stood behind for as long
    as the others had anything to write, and together they wrote half as much.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        _patiently(connection, "BEGIN IMMEDIATE")
    finally:
        connection.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT_S * 1000}")


def _patiently(connection: Any, statement: str) -> Any:
    """Runs a statement again while another process is in the way, after pauses of varying length."""
    end = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            return connection.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # absent where text is no text
            if code & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(_SHORTEST_PAUSE_S * (1 + time.perf_counter_ns() % 1_000_003 / 62_500))


def _on_server_begin(connection: sa.Connection) -> None:
    if not connection.get_execution_options().get("sotto_read_only", False):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'")
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK_KEY})")
