"""The one door by which benchmarks read rows: published or invented ones, never those that a ledger was opened for.

A benchmark has references without noise and a budget that nobody remembers. Rows of a data set that has a ledger would
be answered from for nothing, so they are refused here, whatever part they are to play: the file, and the part of it
that is used. The owner of such rows can allow it by name, as for every method without a guarantee.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sottovoce.errors import InputError, RecordError
from sottovoce.privacy.ledger.identity import Identity
from sottovoce.privacy.ledger.known_records import closest, require_public, unusable
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.readers import read_public
from sottovoce.records.sealed import PrivateRecords, PublicRecords
from sottovoce.tasks import Example

CONSENT = "--allow-non-private"
"""The option by which the owner allows rows that have a ledger."""


def public_records(file: Path, most: int | None = None) -> PublicRecords:
    """The first rows of a file that somebody named, in any format that commands read.

    Args:
        file: The file.
        most: How many of its rows are used; all by default.

    Raises:
        InputError: The file cannot be read, or most of its rows, or of those that are used, are somebody's private
            records.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.
    """
    rows = read_public(file)
    used = rows.first(most)
    for part in (rows, used):
        require_public(part, str(file))
    return used


def answered_from(records: PrivateRecords, source: str) -> None:
    """Refuses rows that references without noise answer from, however few of them a ledger was opened for.

    Raises:
        InputError: Most of them are a data set's private records, or most of its records are among them.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.
    """
    try:
        known = closest(Identity.of(records, Adjacency.REPLACE_ONE))
    except OSError as error:
        raise unusable(error) from None
    if known is not None:
        raise InputError(
            f"{source}: most of the rows that references would answer from without noise are private records, such as "
            f"those of the data set '{known.data_set}' in the ledger {known.ledger}, or most of its records are among "
            f"them. Where they are published or invented, or their owner wants that, say so with {CONSENT}."
        )


def benchmark_rows(file: Path, most: int | None = None) -> list[dict[str, Any]]:
    """The first rows of one compressed JSON Lines file of the benchmark data, as they are.

    Args:
        file: The file.
        most: How many of its rows are used; all by default.

    Raises:
        FileNotFoundError: It is not there.
        InputError: It is damaged, a line is no object, or most of its rows, or of those that are used, are somebody's
            private records.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.
    """
    rows: list[dict[str, Any]] = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, 1):
                rows.append(_object(line, file, number))
        except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError):
            raise RecordError(
                "it is no whole gzip file of UTF-8 text", file=str(file), line=len(rows) + 1, hint="Fetch it again."
            ) from None
    for part in (rows, rows[:most]):
        require_public(part, str(file))
    return rows[:most]


def published(examples: Sequence[Example], source: str) -> Sequence[Example]:
    """A part of the benchmark rows that is used, as it is.

    Raises:
        InputError: Most of its rows are somebody's private records.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.
    """
    require_public([example.fields for example in examples], source)
    return examples


def _object(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise RecordError("the line is no JSON object", file=str(file), line=number, hint="Give one row a line.")
    return row
