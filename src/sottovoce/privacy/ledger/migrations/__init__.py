"""Moves an older ledger to this version's tables: alembic scripts, one a format, run under the write lock.

Guarantee   All of it happens in the caller's transaction, or none: after a crash the ledger has its old format.
Assumes     Programs of the older version are not writing at the same time; theirs would not move the head, which
            ``verify`` reports.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.ledger.schema import META, SCHEMA_VERSION


def migrate(connection: sa.Connection, version: str, target: str = SCHEMA_VERSION) -> str:
    """Brings the tables from ``version`` to ``target`` and returns the version that they then have.

    Raises:
        LedgerUnavailableError: No script leads there.
    """
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.script.revision import RevisionError
    from alembic.util import CommandError

    if version == target:
        return target
    try:
        path = list(ScriptDirectory(str(Path(__file__).parent)).iterate_revisions(target, version))
    except (CommandError, RevisionError):
        raise LedgerUnavailableError(
            f"The ledger has format {version}, and nothing leads from there to {target}. Install the sottovoce that "
            "wrote it."
        ) from None
    with Operations.context(MigrationContext.configure(connection)):
        for script in reversed(path):
            script.module.upgrade()
            connection.execute(sa.update(META).where(META.c.key == "schema_version").values(value=script.revision))
    return target
