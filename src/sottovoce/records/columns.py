"""Columns: which one holds a field, and what may be said of their names.

Guarantee   Column names are public, cells are not. Where a CSV file has no header, or JSON is keyed by texts, a name
            may be a cell: names are shown only where every one is a single word and none is a label.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sottovoce.errors import RecordError
from sottovoce.records.sealed import Row

_WORD: Final = re.compile(r"[^\W\d]\w{0,39}")
_SHOWN: Final = 12
_DELIMITERS: Final = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def renamed(
    row: Row, columns: Mapping[str, str], file: str, *, required: bool, labels: Collection[str] | None = None
) -> Row:
    """The row with each field read from its column; the column stays.

    Args:
        row: As it was read.
        columns: Fields to columns.
        file: Its name, for the error.
        required: Whether the columns must be there; else a row without one keeps its own fields.
        labels: The public label set, by which an error tells a header from a row.

    Raises:
        RecordError: A column is missing.
    """
    found = {field: row.values[column] for field, column in columns.items() if column in row.values}
    if required and len(found) < len(columns):
        column = next(column for field, column in columns.items() if field not in found)
        hint = there_are(row.values, file, labels)
        raise RecordError(f"there is no column {column!r}", file=file, line=row.line, hint=hint)
    read_from = {field: column for field, column in columns.items() if field in found or field not in row.values}
    return Row(row.line, {**row.values, **found}, read_from) if read_from else row


def there_are(names: Iterable[str], file: str, labels: Collection[str] | None) -> str:
    """Which columns a row has, in a sentence, and the delimiter that a CSV file seems to have.

    Args:
        names: Of its columns.
        file: The name of the file.
        labels: The public label set: a header that holds one is a row. ``None`` or none where it is not known, or the
            answers are texts: then no name is shown.

    Example:
        >>> there_are(["body", "team"], "mails.csv", ["fraud"])
        'Its columns are body, team.'
        >>> there_are(["I was charged twice", "fraud"], "mails.csv", ["fraud"])
        'It has 2 columns, whose names are not single words. If the first line is no header, add one.'
    """
    known = list(names)
    if not known:
        return "It has no column."
    if is_csv(file) and (words := likely_delimiter(known)):
        return words
    count, header = f"It has {len(known)} column{'s' * (len(known) > 1)}", " If the first line is no header, add one."
    header = header if is_csv(file) else ""
    if not are_words(known):
        return f"{count}, whose names are not single words.{header}"
    if not labels or not set(known).isdisjoint(labels):
        return f"{count}.{header}"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"Its columns are {', '.join(known[:_SHOWN])}{more}."


def is_csv(file: str) -> bool:
    """Whether a file of this name is read as CSV."""
    return file.lower().endswith((".csv", ".csv.gz"))


def are_words(names: Iterable[str]) -> bool:
    """Whether every name is a single word, so that it may be shown."""
    return all(isinstance(name, str) and _WORD.fullmatch(name) for name in names)


def likely_delimiter(header: Collection[str]) -> str:
    """What separates the cells of a file whose header was read as one column, in a sentence; empty if nothing does.

    Example:
        >>> likely_delimiter(["text;label"])
        'The cells seem to be separated by semicolons: save it with commas, or as .jsonl.'
    """
    if len(header) != 1:
        return ""
    (only,) = header
    for delimiter, words in _DELIMITERS.items():
        if delimiter in only:
            return f"The cells seem to be separated by {words}: save it with commas, or as .jsonl."
    return ""
