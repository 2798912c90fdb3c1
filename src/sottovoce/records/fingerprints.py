"""Fingerprints: what a data set, and each of its records, is known by, whatever the order of rows and the file format.

A fingerprint covers the rows and how they are shared out among the protected units: the same rows in other units are
another account, since its figures would speak of other persons. Marks tell one record from another under a key, so that
a file that grew by a few rows, lost a column or was edited here and there is recognised for what it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.records.cells import canonical_text, is_missing

Values = Mapping[str, object]
MarkArray = NDArray[np.uint64]
"""Shape (records, 1 + texts): the mark of the whole record, then of its single texts: odd ones of long texts, even ones
of short texts, 0 where there are fewer."""

LONG_TEXT: Final = 20
"""Characters from which on a text is taken to be a record's own."""
SHORT_TEXT: Final = 8
"""Characters from which on a text with a letter in it tells records apart that have no longer one."""
TEXTS: Final = 8
"""Texts of a record that are marked at most."""
COMMON: Final = 0.01
"""A text in more than this share of the rows, and in more than two, says nothing of a row."""
COMMONEST: Final = 0.1
"""The same for the rarest text of a row, so that rows which are there several times are known as well."""

_LETTER: Final = re.compile(r"[^\W\d_]")


def fingerprint_of(units: Iterable[Iterable[Values]]) -> str:
    """Names a data set by its content and its units: 64 hexadecimal digits.

    Empty values, the order of columns, rows and units do not count; equal rows count as often as they occur.
    """
    digests = sorted(
        hashlib.sha256(b"".join(sorted(hashlib.sha256(_joined(_cells(row))).digest() for row in unit))).digest()
        for unit in units
    )
    return hashlib.sha256(b"sottovoce data set 2\0" + b"".join(digests)).hexdigest()


def marks_of(rows: Sequence[Values], key: bytes) -> MarkArray:
    """A keyed mark for every record and for its texts, which say nothing to who has not the key.

    Those of texts find a record again whose other columns were added, dropped, renamed or filled in otherwise. Labels
    and boilerplate, which many rows share, get none.
    """
    whole = np.zeros(len(rows), np.uint64)
    places, found = array("q"), array("Q")
    for place, row in enumerate(rows):
        cells = _cells(row)
        whole[place] = _mark(key, b"record\0" + _joined(cells))
        for text in {text for _, text in cells if _tells(text)}:
            mark = _mark(key, b"text\0" + _encoded(text))
            places.append(place)
            found.append(mark | 1 if len(text) >= LONG_TEXT else (mark & ~1) or 2)
    texts = _own_texts(np.frombuffer(places, np.int64), np.frombuffer(found, np.uint64), len(rows))
    return np.concatenate((whole[:, None], texts), axis=1)


def _tells(text: str) -> bool:
    """Whether a text may tell one record from another: a long one, or a short one that is more than a number."""
    return len(text) >= LONG_TEXT or (len(text) >= SHORT_TEXT and _LETTER.search(text) is not None)


def _own_texts(places: NDArray[np.int64], marks: NDArray[np.uint64], rows: int) -> MarkArray:
    """The marks of texts that few rows share, by row, shape (rows, texts): long ones first.

    Args:
        places: The row of each mark, ascending.
        marks: Marks of texts; one stands once in a row at most.
        rows: How many rows there are.
    """
    _, same, counts = np.unique(marks, return_inverse=True, return_counts=True)
    shared = counts[same]
    rarest = np.full(rows, rows + 1)
    np.minimum.at(rarest, places, shared)
    own = shared <= max(2, COMMON * rows)
    own |= (shared == rarest[places]) & (shared <= COMMONEST * rows)
    places, marks = places[own], marks[own]
    # Which ones are left where there are too many follows from the texts alone, not from what other columns hold.
    order = np.lexsort((marks, marks % 2 == 0, places))
    places, marks = places[order], marks[order]
    rank = np.arange(len(places)) - np.searchsorted(places, places)
    few = rank < TEXTS
    texts = np.zeros((rows, int(rank[few].max(initial=-1)) + 1), np.uint64)
    texts[places[few], rank[few]] = marks[few]
    return texts


def _mark(key: bytes, content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, key=key, digest_size=8, person=b"sotto marks").digest()) or 1


def _cells(row: Values) -> list[tuple[str, str]]:
    """Names and texts of what a row holds, by name."""
    texts = ((name, canonical_text(value)) for name, value in row.items() if not is_missing(value))
    return sorted((name, text) for name, text in texts if text)


def _joined(cells: Iterable[tuple[str, str]]) -> bytes:
    return _encoded("".join(f"{len(name)}:{name}{len(text)}:{text}" for name, text in cells))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# The first format: what ledgers of earlier versions know a data set by. It is not to be changed.


def first_fingerprint(rows: Sequence[Values]) -> str:
    """The fingerprint that versions before this one took, in which times, line ends, 32-bit floats and arrays of the
    same records differed between file formats, and units did not count.
    """
    digests = sorted(hashlib.sha256(_first_joined(row)).digest() for row in rows)
    return hashlib.sha256(b"sottovoce data set 1\0" + b"".join(digests)).hexdigest()


def _first_joined(row: Values) -> bytes:
    parts = []
    for name in sorted(row):
        value = row[name]
        if not is_missing(value):
            text = _first_text(value)
            parts.append(f"{len(name)}:{name}{len(text)}:{text}")
    return _encoded("".join(parts))


def _first_text(value: object) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    written: Callable[[], object] | None = getattr(value, "isoformat", None)
    text = unicodedata.normalize("NFC", str(written() if written else value)).strip()
    if text in {"True", "TRUE", "False", "FALSE"}:
        return text.lower()
    text = _FIRST_MIDNIGHT.sub("", text)
    if _FIRST_NUMBER.fullmatch(text) and len(text) < 40:
        number = Decimal(text).normalize(Context(prec=60))
        return f"{number:f}" if -40 < number.adjusted() < 40 else str(number)
    return text


_FIRST_MIDNIGHT: Final = re.compile(r"(?<=^....-..-..)[T ]00:00:00(\.0+)?$")
_FIRST_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?")
