"""Which ledger a data set has: a note in the trusted store, so that leaving --ledger out finds the one in use.

The note holds a path, or an address without its password, under a keyed name. It helps one user on one machine; the
ledger itself is the record.
"""

from __future__ import annotations

import os
from pathlib import Path

from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.ledger_address import is_address
from sottovoce.store import private_folder, private_name


def default_path(fingerprint: str) -> str:
    """The ledger that these records have, or where one is to be kept when none is named.

    Raises:
        LedgerUnavailableError: The trusted store cannot be used, or the ledger noted for these records is gone.
    """
    try:
        noted = _noted(fingerprint)
        fresh = str(private_folder("ledgers") / f"{private_name(fingerprint)}.db")
    except (OSError, ValueError) as error:
        raise LedgerUnavailableError(
            f"The trusted store cannot be used ({getattr(error, 'strerror', None) or error}). Set SOTTOVOCE_HOME to a "
            "folder of your own."
        ) from None
    if noted is not None and not _exists(noted):
        raise LedgerUnavailableError(
            f"The ledger of these records was {noted}, and it is gone. Name where it is now with --ledger; a new "
            "one would start their budget again."
        )
    return noted or fresh


def remember(fingerprint: str, path: str) -> str | None:
    """Notes a ledger for these records unless another one that still exists is noted; returns that other one.

    The note is a convenience: where the store cannot be written there is none.
    """
    here = path if is_address(path) else os.path.abspath(path)
    try:
        other = _noted(fingerprint)
        if other is not None and _exists(other) and not _same(other, here):
            return other
        note = _note(fingerprint)
        fresh = note.with_name(f"{note.name}.{os.getpid()}")
        fresh.write_bytes(os.fsencode(here))
        fresh.chmod(0o600)
        fresh.replace(note)
    except (OSError, ValueError):
        return None
    return None


def _exists(noted: str) -> bool:
    """Whether it may still be there; a server is not asked."""
    return is_address(noted) or os.path.isfile(noted)


def _same(noted: str, here: str) -> bool:
    if is_address(noted) or is_address(here):
        return noted == here
    return os.path.samefile(noted, here)


def _noted(fingerprint: str) -> str | None:
    try:
        return os.fsdecode(_note(fingerprint).read_bytes())
    except FileNotFoundError:
        return None


def _note(fingerprint: str) -> Path:
    return private_folder("ledgers") / f"{private_name(fingerprint)}.path"
