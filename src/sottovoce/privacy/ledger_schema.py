"""The ledger's tables, and how its database is opened: WAL, full synchronisation, writers one at a time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import RLock
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from sottovoce.errors import LedgerUnavailableError

SCHEMA_VERSION: Final = "1"
LOCK_TIMEOUT_S: Final = 60

_tables = sa.MetaData()

META = sa.Table(
    "sotto_meta",
    _tables,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(256), nullable=False),
)
DATA_SET = sa.Table(
    "sotto_data_set",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(128), nullable=False, unique=True),
    sa.Column("adjacency", sa.String(32), nullable=False),
    sa.Column("unit", sa.String(128), nullable=False),
    sa.Column("epsilon", sa.String(64), nullable=False),
    sa.Column("delta", sa.String(64), nullable=False),
    sa.Column("cap", sa.BigInteger, nullable=False),
    sa.Column("spent", sa.BigInteger, nullable=False),
    sa.CheckConstraint("cap >= 0 AND spent >= 0 AND spent <= cap"),
)
FINGERPRINT = sa.Table(
    "sotto_fingerprint",
    _tables,
    sa.Column("fingerprint", sa.String(64), primary_key=True),
    sa.Column("data_set", sa.ForeignKey("sotto_data_set.id"), nullable=False),
)
ENTRY = sa.Table(
    "sotto_entry",
    _tables,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("data_set", sa.ForeignKey("sotto_data_set.id"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("release_id", sa.String(64), nullable=True),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.UniqueConstraint("release_id", "kind"),
    sa.CheckConstraint("amount >= 0"),
)


class Database:
    """One SQLite file. A forked child opens its own connection; processes share nothing but the file."""

    def __init__(self, path: str) -> None:
        self.path = path
        in_memory = path == ":memory:"
        self.name = "the in-memory ledger" if in_memory else Path(path).name
        self._engine = sa.create_engine(
            sa.URL.create("sqlite", database=None if in_memory else path),
            poolclass=StaticPool if in_memory else QueuePool,
            connect_args={"timeout": LOCK_TIMEOUT_S, "check_same_thread": False},
        )
        sa.event.listen(self._engine, "connect", _on_connect)
        sa.event.listen(self._engine, "begin", _on_begin)
        self._owner = os.getpid()
        # Threads share the one connection of an in-memory ledger, so they take turns.
        self._turn: AbstractContextManager[object] = RLock() if in_memory else nullcontext()
        self._prepare(in_memory)

    def _prepare(self, in_memory: bool) -> None:
        if not in_memory:
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDONLY, 0o600))
            except OSError as error:
                raise LedgerUnavailableError(
                    f"The ledger {self.name} cannot be opened ({error.strerror}). Nothing was charged or released. "
                    "Name a file in a folder you can write to."
                ) from None
        with self.reading() as connection:
            present = set(sa.inspect(connection).get_table_names())
        if present and META.name not in present:
            raise LedgerUnavailableError(f"{self.name} is a database but not a ledger. Name another file.")
        if META.name not in present:
            with self.writing() as connection:
                _tables.create_all(connection)
                connection.execute(
                    sa.insert(META).prefix_with("OR IGNORE"), {"key": "schema_version", "value": SCHEMA_VERSION}
                )
        with self.reading() as connection:
            version = connection.scalar(sa.select(META.c.value).where(META.c.key == "schema_version"))
        if version != SCHEMA_VERSION:
            raise LedgerUnavailableError(
                f"{self.name} has ledger format {version}; this version of sottovoce reads {SCHEMA_VERSION}."
            )

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that holds the write lock from its start and is on disk when it ends."""
        with self._turn, self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads."""
        with (
            self._turn,
            self._translated(),
            self._engine.connect().execution_options(sotto_read_only=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Database failures become one error of ours, without SQL and without parameters."""
        if os.getpid() != self._owner:
            self._engine.dispose(close=False)
            self._owner = os.getpid()
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            reason = str(getattr(error, "orig", None) or type(error).__name__)
            raise LedgerUnavailableError(
                f"The ledger {self.name} could not be read or written ({reason}). Without a durable charge there is no "
                "answer. Check that the file is a ledger, that the disk has room and that you may write there."
            ) from None


def _on_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT_S * 1000}")
    tables = {name for (name,) in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables or META.name in tables:  # another program's database is left as it is
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _on_begin(connection: sa.Connection) -> None:
    read_only = connection.get_execution_options().get("sotto_read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
