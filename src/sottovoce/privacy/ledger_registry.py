"""Which ledger a data set has: a note in the trusted store, so that leaving --ledger out finds the one in use.

The note holds a path under a keyed name. It helps one user on one machine; the ledger itself is the record.
"""

from __future__ import annotations

import os
from pathlib import Path

from sottovoce.errors import LedgerUnavailableError
from sottovoce.store import private_folder, private_name


def default_path(fingerprint: str) -> str:
    """The ledger that these records have, or where one is to be kept when none is named.

    Raises:
        LedgerUnavailableError: The trusted store cannot be used.
    """
    return known_path(fingerprint) or str(_folder() / f"{_name(fingerprint)}.db")


def known_path(fingerprint: str) -> str | None:
    """The ledger noted for these records, if it still exists."""
    try:
        path = _note(fingerprint).read_text("utf-8")
    except OSError:
        return None
    return path if Path(path).is_file() else None


def remember(fingerprint: str, path: str) -> str | None:
    """Notes a ledger for these records unless another one that still exists is noted; returns that other one."""
    here = os.path.abspath(path)
    other = known_path(fingerprint)
    if other is not None and not os.path.samefile(other, here):
        return other
    note = _note(fingerprint)
    fresh = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        fresh.write_text(here, "utf-8")
        fresh.chmod(0o600)
        fresh.replace(note)
    except OSError:
        return None
    return None


def _note(fingerprint: str) -> Path:
    return _folder() / f"{_name(fingerprint)}.path"


def _folder() -> Path:
    try:
        return private_folder("ledgers")
    except OSError as error:
        raise _unusable(error) from None


def _name(fingerprint: str) -> str:
    try:
        return private_name(fingerprint)
    except OSError as error:
        raise _unusable(error) from None


def _unusable(error: OSError) -> LedgerUnavailableError:
    return LedgerUnavailableError(
        f"The trusted store cannot be used ({error.strerror}). Set SOTTOVOCE_HOME to a folder of your own."
    )
