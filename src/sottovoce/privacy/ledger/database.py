"""How a ledger's database is used: one code path for a SQLite file, memory and PostgreSQL.

Guarantee   A writing transaction is alone from its first look to its commit, sees everything that was committed before,
            and is on disk when it ends. A reading transaction sees one moment. A ledger is verified before it is used.
            One that has lost the newest entry that this program saw in it is neither read nor charged any more.
Assumes     The disk, or the PostgreSQL server, keeps what it says it has synchronised.

``file`` and ``server`` say how the two are opened and locked.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from threading import Lock, RLock
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.ledger.file import LedgerFile, faults, file_engine, memory_engine
from sottovoce.privacy.ledger.history import newest, read_entries, read_history
from sottovoce.privacy.ledger.location import Address
from sottovoce.privacy.ledger.schema import ENTRY, META, NO_HEAD, SCHEMA_VERSION, TABLES
from sottovoce.privacy.ledger.server import LedgerServer, server_engine
from sottovoce.privacy.ledger.verify import find_problems


class Database:
    """One ledger's database. A forked child opens its own connections; processes share nothing but the database."""

    def __init__(self, address: Address) -> None:
        self.address, self.name = address, address.name
        self._file = None if address.file is None else LedgerFile(address.file, self.name)
        self._server = LedgerServer(self.name) if address.is_server else None
        self._engine = _engine(address, self._file, self._server)
        self._bind_to_process()
        # Threads share the one connection of an in-memory ledger, so they take turns.
        self._turn: AbstractContextManager[object] = RLock() if address.in_memory else nullcontext()
        self._verified = address.in_memory
        self._newest: tuple[int, str] | None = None
        self._prepare()

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that holds the write lock from its start and is on disk when it ends.

        Raises:
            LedgerUnavailableError: The ledger cannot be written, is torn or changed, was replaced or linked, or has
                gone back in time.
        """
        if not self._verified:
            with self.reading():
                pass
        with self._alone() as connection:
            self._newest_of(connection, self._newest)
            yield connection
            seen = newest(connection)
        self._note(seen)

    @contextmanager
    def reading(self, *, verified: bool = True) -> Iterator[sa.Connection]:
        """A transaction that only reads, and sees one moment.

        Args:
            verified: Whether the rows are taken on trust, so that the ledger must be whole and hold what this program
                saw in it. Not where somebody reads them to find out what is wrong.

        Raises:
            LedgerUnavailableError: The ledger cannot be read, is torn or changed, or has gone back in time.
        """
        options: dict[str, Any] = {"sotto_read_only": True}
        if self.address.is_server:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        seen = self._newest  # before the moment that is seen: what another thread saw later need not be in it
        with (
            self._turn,
            self._translated(),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            if verified:
                if not self._verified:
                    self._verify(connection)
                self._note(self._newest_of(connection, seen))
            yield connection

    @cached_property
    def place(self) -> str | None:
        """What tells a server's database from any other; ``None`` where that is not known, and of a file."""
        if self._server is None:
            return None
        try:
            with self.reading(verified=False) as connection:
                return self._server.place(connection)
        except LedgerUnavailableError:
            return None

    def faults(self, connection: sa.Connection) -> list[str]:
        """What is wrong below the rows, or would change them by itself; nothing if all is well."""
        if self._server is not None:
            return self._server.faults(connection)
        return [] if self._file is None else faults(connection)

    def close(self) -> None:
        """Closes every connection; the next use opens new ones."""
        if not self.address.in_memory:
            self._engine.dispose()

    def _bind_to_process(self) -> None:
        """Connections belong to this process; they close with the last reference to them, here and not in a child."""
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _dispose, self._engine, self._owner)
        self._end.atexit = False
        self._noting = Lock()  # a child must not wait for a thread that it does not have

    @contextmanager
    def _alone(self) -> Iterator[sa.Connection]:
        """A writing transaction; a file must be the same one before it and after it."""
        with self._turn, self._translated():
            with self._engine.begin() as connection:
                if self._file is not None:
                    self._file.require_one()
                    self._file.require_journal(connection.connection.dbapi_connection)
                yield connection
            if self._file is not None:
                self._file.require_one()

    def _verify(self, connection: sa.Connection) -> None:
        """A copy that was made while somebody wrote, one whose journal was lost, or an edit must not be believed."""
        problems = self.faults(connection) or find_problems(read_history(connection, read_entries(connection)))
        if problems:
            raise LedgerUnavailableError(
                f"The ledger {self.name} is not whole: {problems[0]}. {self._why_not_whole()} Nothing is charged to it "
                "or read from it. See 'sotto ledger verify'."
            )
        self._verified = True

    def _why_not_whole(self) -> str:
        if self._file is None:
            return "It was changed, or restored in part. Restore the whole database, or undo the change."
        return (
            f"It is a copy that was made while a program wrote, or lost its journal ({self.name}-journal), or was "
            "changed. Use the original with its journal beside it, or a whole copy."
        )

    def _note(self, seen: tuple[int, str]) -> None:
        """Keeps the newest entry that was seen; threads may come with older ones later."""
        with self._noting:
            if self._newest is None or seen[0] > self._newest[0]:
                self._newest = seen

    def _newest_of(self, connection: sa.Connection, seen: tuple[int, str] | None) -> tuple[int, str]:
        """The newest entry; the one that this program saw must still be there."""
        current = newest(connection)
        if seen is None or seen == current or seen[0] == 0:
            return current
        seq, digest = seen
        if connection.scalar(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == seq)) != digest:
            raise LedgerUnavailableError(
                f"The ledger {self.name} no longer has entry {seq}, which this program saw in it: an older copy was "
                "put in its place. Nothing more is charged. Put the newer one back, and start the program again."
            )
        return current

    def _prepare(self) -> None:
        with self.reading(verified=False) as connection:
            version = self._version(connection)
        if version is None:
            with self._alone() as connection:
                version = self._version(connection) or self._create(connection)
        if version.isascii() and version.isdigit() and int(version) < int(SCHEMA_VERSION):
            from sottovoce.privacy.ledger.migrations import migrate

            with self._alone() as connection:
                version = migrate(connection, self._version(connection) or version)
        if version != SCHEMA_VERSION:
            raise LedgerUnavailableError(
                f"{self.name} has ledger format {version}; this version of sottovoce reads {SCHEMA_VERSION}. Install "
                "a newer sottovoce to use it."
            )

    def _version(self, connection: sa.Connection) -> str | None:
        """The schema's version; ``None`` where there is no ledger yet."""
        if self._server is not None:
            if not self._server.find(connection):
                return None
        else:
            present = set(sa.inspect(connection).get_table_names())
            if not present:
                return None
            if META.name not in present:
                raise LedgerUnavailableError(f"{self.name} is a database but not a ledger. Name another file.")
        return str(connection.scalar(sa.select(META.c.value).where(META.c.key == "schema_version")))

    def _create(self, connection: sa.Connection) -> str:
        if self._server is not None:
            self._server.make_schema(connection)
        TABLES.create_all(connection, checkfirst=self._server is not None)  # a file without tables has none
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
            self._bind_to_process()
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, UnicodeError) as error:
            hint = (
                "Check the server, your rights there, and the password, which a stored address is without."
                if self.address.is_server
                else "Check that the file is a ledger, that the disk has room and that you may write there."
            )
            if getattr(getattr(error, "orig", error), "sqlite_errorname", "") == "SQLITE_NOTADB":
                raise LedgerUnavailableError(
                    f"{self.name} is not a ledger: it is no SQLite database, or it is encrypted or damaged. Check the "
                    "path; a new ledger is made under a name that no file has."
                ) from None
            raise LedgerUnavailableError(
                f"The ledger {self.name} could not be read or written ({self.address.without_password(_reason(error))})"
                f". Without a durable charge there is no answer. {hint}"
            ) from None


def _engine(address: Address, file: LedgerFile | None, server: LedgerServer | None) -> sa.Engine:
    if server is not None:
        return server_engine(address, server)
    return memory_engine() if file is None else file_engine(file)


def _dispose(engine: sa.Engine, owner: int) -> None:
    if os.getpid() == owner:
        engine.dispose()


def _reason(error: Exception) -> str:
    """The driver's own words, one line of them; never its details, which hold values."""
    if isinstance(error, UnicodeDecodeError):
        return "it holds text that is no text"
    if isinstance(error, UnicodeError):
        return "a name or a note holds half a character"
    original = getattr(error, "orig", None) or error
    if isinstance(original, SQLAlchemyError):
        return type(original).__name__
    primary = getattr(getattr(original, "diag", None), "message_primary", None)
    return str(primary or (str(original).splitlines() or [type(original).__name__])[0])
