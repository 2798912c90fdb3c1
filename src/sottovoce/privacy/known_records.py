"""Single records that a ledger was opened for: keyed marks in the trusted store.

They answer two questions that a fingerprint of a whole file cannot. Are these new records, or mostly those of a data
set whose budget was already opened? Are these rows public, or somebody's private ones?

A file holds a header, then the marks of at most ``MOST`` records; of a larger data set those with the smallest marks,
which is a sample that any other file's records can be compared with.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InputError, LedgerUnavailableError
from sottovoce.fingerprints import MarkArray, marks_of
from sottovoce.privacy.identity import Identity
from sottovoce.records import PublicRecords
from sottovoce.store import LEDGERS, UnsafeStoreError, home, mark_key, private_folder, private_name

MOST: Final = 500_000
"""Records of a data set that are remembered, 16 bytes each."""
SHARE: Final = 0.5
"""From this share of known records on, a file is no new data set."""
FEW: Final = 10
"""Fewer rows than this that happen to be known do not make a public file private."""

_MAGIC: Final = b"sotto marks 1\n"
_ALL: Final = 2**64 - 1
_SAID: Final = ("ledger", "data_set", "adjacency", "unit")


@final
@dataclass(frozen=True)
class Known:
    """A data set whose records are remembered.

    Attributes:
        ledger: Where its ledger was when it was last opened.
        data_set: Its name there.
        adjacency: The relation of its budget.
        unit: Who is protected.
        share: How many of the other file's records are its own, from 0 to 1.
        found: How many of its own records are in the other file, from 0 to 1.
    """

    ledger: str
    data_set: str
    adjacency: str
    unit: str
    share: float = 0.0
    found: float = 0.0


def keep(identity: Identity, ledger: str, data_set: str) -> None:
    """Remembers the records of a data set that has an account. Nothing is kept of synthetic ones.

    Raises:
        OSError: The store cannot be used.
    """
    if identity.records is None or identity.records.synthetic:
        return
    file = _file(identity.fingerprint)
    known = Known(ledger, data_set, identity.adjacency.value, identity.unit)
    if file.exists() and _read(file)[0] == known:
        return
    marks = identity.records.marks(mark_key())
    main = _main(marks)
    limit = _ALL
    if len(marks) > MOST:
        order = np.argsort(main, kind="stable")[:MOST]
        marks, limit = marks[order], int(main[order[-1]])
    header = json.dumps({**{name: getattr(known, name) for name in _SAID}, "limit": limit}).encode() + b"\n"
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as stream:
        stream.write(_MAGIC + header + np.ascontiguousarray(marks, "<u8").tobytes())
    fresh.replace(file)


def closest(identity: Identity) -> Known | None:
    """The remembered data set that these records mostly come from, or that is mostly in them.

    Raises:
        OSError: The store cannot be used.
    """
    if identity.records is None or not any(True for _ in _files()):
        return None
    return _closest(identity.records.marks(mark_key()))


def require_public(rows: PublicRecords | Sequence[Mapping[str, object]], source: str) -> None:
    """Refuses rows that are to be shown or asked in clear and that a ledger was opened for as private ones.

    Every reader of public rows goes through this one. What it says depends on the private records: it is meant for
    their owner, who has both files.

    Raises:
        InputError: Most of the rows are a data set's private records, or most of its records are among them.
        LedgerUnavailableError: The trusted store cannot be used.
    """
    try:
        if not any(True for _ in _files()):
            return
        values = [row.values for row in (rows.whole or rows.rows)] if isinstance(rows, PublicRecords) else rows
        found = _closest(marks_of(values, mark_key()), fewest=FEW) if values else None
    except OSError as error:
        raise unusable(error) from None
    if found is not None:
        raise InputError(
            f"{source}: most of these rows are private records, such as those of the data set '{found.data_set}' in "
            f"the ledger {found.ledger}, or most of its records are among them. Rows that are shown or asked in clear "
            "must be public. Answer from private records with --private, or show rows written by 'sotto synthesize'. "
            "If anybody may see these after all, run this with SOTTOVOCE_HOME set to another folder."
        )


def unusable(error: OSError) -> LedgerUnavailableError:
    """What is said where the trusted store cannot be used, and with it whether records are known."""
    return LedgerUnavailableError(
        f"The trusted store cannot be used ({error.strerror or error}). Without it nobody can tell whether these "
        "records have a budget already. Nothing was charged. Mend that, or set SOTTOVOCE_HOME to a folder of your own."
    )


def _closest(marks: MarkArray, fewest: int = 1) -> Known | None:
    """Compares a file's marks with those of every remembered data set, one by one and all together."""
    main, anywhere = _main(marks), np.zeros(len(marks), bool)
    best: Known | None = None
    for file in _files():
        one, limit, theirs = _read(file)
        hits = _hits(marks, theirs)
        if not hits.any():
            continue
        anywhere |= hits
        compared = main <= limit
        enough = np.count_nonzero(hits) >= fewest and compared.any()
        share, found = float(hits[compared].mean()) if enough else 0.0, float(_hits(theirs, marks).mean())
        if best is None or max(share, found) > max(best.share, best.found):
            best = replace(one, share=share, found=found)
    if best is None:
        return None
    together = float(anywhere.mean()) if np.count_nonzero(anywhere) >= fewest else 0.0
    return best if max(best.share, best.found, together) >= SHARE else None


def _main(marks: MarkArray) -> NDArray[np.uint64]:
    """The mark that a sample is drawn by: of the longest text where there is one."""
    return np.where(marks[:, 1] != 0, marks[:, 1], marks[:, 0])


def _hits(marks: MarkArray, others: MarkArray) -> NDArray[np.bool_]:
    """Which records are among the others, as a whole or by their longest text."""
    texts = others[:, 1][others[:, 1] != 0]
    return np.isin(marks[:, 0], others[:, 0]) | np.isin(marks[:, 1], texts)


def _files() -> Iterator[Path]:
    folder = home() / LEDGERS
    if folder.is_dir():
        yield from sorted(private_folder(LEDGERS).glob("*.marks"))


def _file(fingerprint: str) -> Path:
    return private_folder(LEDGERS) / f"{private_name(fingerprint)}.marks"


def _read(file: Path) -> tuple[Known, int, MarkArray]:
    """Whose records they are, the largest mark that was kept, and the marks."""
    content = file.read_bytes()
    try:
        if not content.startswith(_MAGIC):
            raise ValueError("another format")
        end = content.index(b"\n", len(_MAGIC))
        header = json.loads(content[len(_MAGIC) : end])
        known, limit = Known(*(header[name] for name in _SAID)), int(header["limit"])
        marks = np.frombuffer(content, "<u8", offset=end + 1).astype(np.uint64).reshape(-1, 2)
    except (ValueError, TypeError, KeyError):
        raise UnsafeStoreError(f"{file} is damaged or of another version; restore it from a backup") from None
    return known, limit, marks
