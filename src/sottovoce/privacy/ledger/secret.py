"""Keys of a ledger: what is said of the records to the outside is said under a key that stays in the database.

A plain hash of the records confirms a guess of all of them, wherever it stands: in an entry's own hash, in a
certificate, in the folder of a run. Under a key that only the ledger's owner has it says nothing to anybody else.

Guarantee   Without the key, a commitment tells nothing of what was committed to, guessed or not (HMAC-SHA-256 as a
            pseudorandom function). With it, another text cannot be put in its place.
Assumes     Whoever can read the database may check guesses: it holds the fingerprints themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sottovoce.randomness import SystemRandomness

RECORDS: Final = "records"
"""Name of a data set's own key. Everything else that is kept under a name was moved here from an older format."""
HEAD: Final = "head"
"""Name of the head that a ledger had before its entries were written anew."""


def new_key() -> str:
    """A key of 256 bits, in hexadecimal digits."""
    return f"{SystemRandomness().below(2**256):064x}"


def keyed(key: str, purpose: str, text: str) -> str:
    """A keyed hash. Hashes for different purposes have nothing to do with each other.

    Example:
        >>> keyed("00" * 32, "records", "ab")[:8], keyed("00" * 32, "staging", "ab")[:8]
        ('6575b86f', 'af816365')
    """
    return hmac.new(key.encode(), f"sottovoce {purpose}\n{text}".encode(), hashlib.sha256).hexdigest()


def data_hash(kept: Mapping[str, str], run: str, fingerprint: str) -> str:
    """The hash of the records that the certificate of a run names.

    Args:
        kept: The data set's secrets by name. Runs of older formats have a key of their own there.
        run: The run's id.
        fingerprint: Of the records.
    """
    key = kept.get(run) or keyed(kept[RECORDS], "run", run)
    return hmac.new(bytes.fromhex(key), fingerprint.encode("ascii"), hashlib.sha256).hexdigest()


def secrets_of(rows: Iterable[Mapping[str, Any]], data_set: int) -> dict[str, str]:
    """The secrets of one data set by name."""
    return {row["name"]: row["value"] for row in rows if row["data_set"] == data_set}


def moved_hash(key: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Commitment to everything that was moved here from an older format."""
    moved = sorted([row["data_set"], row["name"], row["value"]] for row in rows if row["name"] != RECORDS)
    return keyed(key, "moved", json.dumps(moved))
