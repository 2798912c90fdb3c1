"""A ledger in a PostgreSQL database: one database, one ledger, for whatever role comes.

Guarantee   A writing transaction holds the database's one advisory lock from its first statement to its commit, under
            READ COMMITTED, so that no statement after the lock has a snapshot older than it. Every name is looked up in
            the ledger's schema alone, whatever search path the role, the database or the address sets.
Assumes     The server keeps what it says it has synchronised.

A new ledger is made in the schema ``sottovoce``. Earlier versions took whatever schema came first in the role's search
path; such a ledger is found there and used where it is, since a program of an earlier version would otherwise make a
second one in its place.
"""

from __future__ import annotations

from typing import Final, final

import sqlalchemy as sa

from sottovoce.errors import LedgerUnavailableError, MissingExtraError
from sottovoce.privacy.ledger.location import Address
from sottovoce.privacy.ledger.schema import META, TABLES

SCHEMA: Final = "sottovoce"
LOCK_TIMEOUT_S: Final = 60
_LOCK_KEY: Final = 0x736F74746F  # "sotto"
_LEDGERS: Final = sa.text(
    "SELECT n.nspname, pg_catalog.has_schema_privilege(n.oid, 'USAGE'), current_user "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname = :table AND c.relkind IN ('r', 'p') AND NOT starts_with(n.nspname, 'pg_') ORDER BY n.nspname"
).bindparams(table=META.name)
_PLACE: Final = sa.text(
    "SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()) || ' ' || "
    "(SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()) || ' ' || oid "
    "FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
)
_FAULTS: Final = sa.text(
    "WITH kept AS (SELECT c.* FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname IN :tables) "
    "SELECT 'a trigger (' || t.tgname || ') on', relname FROM pg_catalog.pg_trigger t "
    "JOIN kept ON kept.oid = t.tgrelid WHERE NOT t.tgisinternal "
    "UNION ALL SELECT 'a rule (' || r.rulename || ') on', relname FROM pg_catalog.pg_rewrite r "
    "JOIN kept ON kept.oid = r.ev_class WHERE r.rulename <> '_RETURN' "
    "UNION ALL SELECT 'row security on', relname FROM kept WHERE relrowsecurity "
    "UNION ALL SELECT 'a table that is part of', relname FROM pg_catalog.pg_inherits i "
    "JOIN kept ON kept.oid = i.inhparent "
    "UNION ALL SELECT 'something else in place of the table', relname FROM kept WHERE relkind <> 'r' "
    "UNION ALL SELECT 'a table that a crash empties,', relname FROM kept WHERE relkind = 'r' AND relpersistence <> 'p' "
    "ORDER BY 2, 1"
).bindparams(sa.bindparam("tables", [table.name for table in TABLES.sorted_tables], expanding=True))
"""What would change, hide or forget rows of the ledger by itself."""


@final
class LedgerServer:
    """The one ledger of a database.

    Args:
        name: What messages call it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._schema = SCHEMA

    def find(self, connection: sa.Connection) -> bool:
        """Looks for the ledger in every schema; says whether there is one.

        Raises:
            LedgerUnavailableError: There are several, or the server forgets charges when it crashes.
        """
        if connection.exec_driver_sql("SHOW fsync").scalar() != "on":
            raise LedgerUnavailableError(
                f"The server of {self.name} runs with fsync off: it would forget charges when it crashes. Switch "
                "fsync on, or name another ledger."
            )
        rows = connection.execute(_LEDGERS).all()
        schemas = [str(schema) for schema, _, _ in rows]
        if len(schemas) > 1:
            raise LedgerUnavailableError(
                f"The database {self.name} keeps {len(schemas)} ledgers, in the schemas {', '.join(schemas)}: earlier "
                "versions made one for each role with a schema of its own, and their budgets add up. Decide which one "
                f"counts, and retire each other: ALTER TABLE SCHEMA.{META.name} RENAME TO {META.name}_retired."
            )
        for schema, may_use, role in rows:
            if not may_use:
                raise LedgerUnavailableError(
                    f"The ledger of {self.name} is in the schema {schema}, which the role {role} may not use. Let its "
                    f"owner GRANT USAGE ON SCHEMA {schema} TO {role}, and SELECT, INSERT, UPDATE on its tables."
                )
            self._schema = str(schema)
            self._pin(connection)
        return bool(rows)

    def faults(self, connection: sa.Connection) -> list[str]:
        """What would change, hide or forget rows by itself; nothing if all is well."""
        rows = connection.execute(_FAULTS, {"schema": self._schema})
        return [f"the database has {what} {self._schema}.{table}, which no ledger has" for what, table in rows]

    def place(self, connection: sa.Connection) -> str:
        """What tells the database from any other, and from a copy of it, whatever its address and the role."""
        return str(connection.scalar(_PLACE))

    def make_schema(self, connection: sa.Connection) -> None:
        """Makes the schema of a new ledger, unless the database's owner did."""
        query = sa.text("SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = :name")
        if not connection.scalar(query.bindparams(name=SCHEMA)):
            connection.exec_driver_sql(f'CREATE SCHEMA "{SCHEMA}"')

    def begin(self, connection: sa.Connection) -> None:
        """What every transaction starts with."""
        self._pin(connection)
        if not connection.get_execution_options().get("sotto_read_only", False):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'")
            connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK_KEY})")

    def _pin(self, connection: sa.Connection) -> None:
        # pg_temp is looked through first unless it is named.
        schema = self._schema.replace('"', '""').replace("%", "%%")
        connection.exec_driver_sql(f'SET LOCAL search_path = "{schema}", pg_temp')


def server_engine(address: Address, server: LedgerServer) -> sa.Engine:
    """An engine for the database.

    Raises:
        MissingExtraError: The driver is not installed.
    """
    try:
        engine = sa.create_engine(
            address.url,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            hide_parameters=True,
            # Whatever the database's own encoding: a text that it has no letters for is refused by the server.
            connect_args={
                "connect_timeout": 10,
                "application_name": "sottovoce",
                "client_encoding": "utf8",
                **address.options,
            },
        )
    except ImportError:
        raise MissingExtraError("psycopg", "postgres") from None
    sa.event.listen(engine, "begin", server.begin)
    return engine
