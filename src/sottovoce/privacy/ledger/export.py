"""A ledger as JSON Lines, for somebody who is to check it without the database.

The first line holds balances, caps and the head; each other line is an entry, whole. Nothing of it comes from private
records: fingerprints and keys, with which a guess of all the records could be checked, stand in tables of their own,
which are left out, and the chain holds a keyed commitment to them.

Exports of older versions can still be read. Their entries lack the fingerprint that their hashes cover.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

import sqlalchemy as sa

from sottovoce.errors import InputError
from sottovoce.files.outputs import new_file, refuse_protected
from sottovoce.privacy.ledger.history import COLUMNS, History
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.ledger.location import is_address
from sottovoce.privacy.ledger.schema import CAP, DATA_SET, MAX_UNITS

_SQLITE: Final = b"SQLite format 3\0"
_HEADER: Final = "sottovoce_ledger"
_FORMAT: Final = 2
_REDACTED: Final = 1
"""Format of exports that left fingerprints out of entries."""
_KEYS: Final = {*COLUMNS, "hash"}
LONGEST_LINE: Final = 2**26
"""Characters. The first line grows with the callers that have caps, by some 300 for each."""


def export(ledger: Ledger, out: str) -> int:
    """Writes a ledger of one moment to a file that appears whole or not at all; returns the number of entries.

    Raises:
        InputError: The file cannot be written, is there already, or is the ledger itself.
    """
    file = ledger._database.address.file
    refuse_protected(out, ledgers=[] if file is None else [file])
    with new_file(Path(out)) as raw, ledger.rows() as history:
        stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
        try:
            return write_export(history, stream)
        finally:
            stream.detach()  # the guard closes the file


def write_export(history: History, stream: IO[str]) -> int:
    """Writes a history as lines of JSON; returns the number of entries."""
    header = {
        _HEADER: _FORMAT,
        "meta": dict(history.meta),
        "data_sets": [dict(row) for row in history.data_sets],
        "caps": [dict(row) for row in history.caps],
    }
    stream.write(json.dumps(header) + "\n")
    entries = 0
    for entry in history.entries:
        stream.write(json.dumps(dict(entry)) + "\n")
        entries += 1
    return entries


def read_export(stream: IO[str], name: str) -> History:
    """Reads what ``write_export`` wrote; entries are read as they are used.

    Raises:
        InputError: It is not an export; the file and the line are named.
    """
    header = _object(_line(stream, name, 1), name, 1)
    if header.get(_HEADER) not in (_REDACTED, _FORMAT) or type(header[_HEADER]) is not int:
        raise InputError(f"{name}, line 1: this is no ledger's export. 'sotto ledger export' writes one.")
    data_sets, caps = (_rows(header.get(key), table) for key, table in (("data_sets", DATA_SET), ("caps", CAP)))
    meta = header.get("meta")
    if data_sets is None or caps is None or not isinstance(meta, dict):
        raise InputError(f"{name}, line 1: meta, data_sets and caps are not as an export has them.")
    redacted = header[_HEADER] == _REDACTED
    return History(_entries(stream, name), data_sets, caps, None, meta, redacted=redacted)


@contextmanager
def open_history(where: str) -> Iterator[History]:
    """The history in an export or in a ledger, whichever it is.

    Raises:
        InputError: There is no such file, or it is neither.
    """
    if not is_address(where):
        try:
            with Path(where).open("rb") as raw:
                start = raw.read(len(_SQLITE))
        except OSError as error:
            raise InputError(f"{where} cannot be read ({error.strerror}).") from None
        if start != _SQLITE:
            with Path(where).open(encoding="utf-8", errors="replace") as stream:
                yield read_export(stream, Path(where).name)
            return
    with Ledger(where).rows() as history:
        yield history


def _entries(stream: IO[str], name: str) -> Iterator[Mapping[str, Any]]:
    for line in count(2):
        text = _line(stream, name, line)
        if not text:
            return
        entry = _object(text, name, line)
        if not entry.keys() >= _KEYS:
            raise InputError(f"{name}, line {line}: the entry lacks {', '.join(sorted(_KEYS - set(entry)))}.")
        if not type(entry["kind"]) is type(entry["detail"]) is str or type(entry["data_set"]) is not int:
            raise InputError(f"{name}, line {line}: kind and detail must be texts, data_set a number.")
        yield entry


def _rows(value: Any, table: sa.Table) -> list[Mapping[str, Any]] | None:
    """Rows of a table as JSON has them; ``None`` where they are not."""
    kinds = {
        column.name: (column.type.python_type, *([type(None)] if column.nullable else [])) for column in table.columns
    }
    if not isinstance(value, list):
        return None
    for row in value:
        if not isinstance(row, dict) or not row.keys() >= kinds.keys():
            return None
        if any(type(row[name]) not in allowed for name, allowed in kinds.items()):
            return None
        if any(isinstance(row[name], int) and abs(row[name]) > MAX_UNITS for name in kinds):
            return None
    return value


def _line(stream: IO[str], name: str, line: int) -> str:
    """The next line; empty at the end. A file without line ends is not read whole to find out that it is no export."""
    text = stream.readline(LONGEST_LINE + 1)
    if len(text) > LONGEST_LINE:
        raise InputError(f"{name}, line {line}: the line has more than {LONGEST_LINE} characters.")
    return text


def _object(text: str, name: str, line: int) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{name}, line {line}: this is not valid JSON.") from None
    if not isinstance(value, dict):
        raise InputError(f"{name}, line {line}: a JSON object is needed.")
    return value
