"""The one door by which benchmarks read rows: published or invented ones, never those that a ledger was opened for.

A benchmark has references without noise and a budget that nobody remembers. Rows of a data set that has a ledger would
be answered from for nothing, so they are refused here, whatever part they are to play: the file, and the part of it
that is used. The owner of such rows can allow it by name, as for every method without a guarantee.

What is drawn from rows is drawn from ``PublicExamples``, which keep the rows: a part of them is refused as a file is.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final, overload

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
    used = rows[:most]
    for part in (rows, used) if len(used) < len(rows) else (rows,):
        require_public(part, str(file))
    return used


def published(rows: Sequence[dict[str, Any]], source: str) -> Sequence[dict[str, Any]]:
    """A part of the benchmark rows that is used, as it is.

    Raises:
        InputError: Most of its rows are somebody's private records.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.
    """
    require_public(rows, source)
    return rows


@final
class PublicExamples(Sequence[Example]):
    """Examples of public rows, with the rows they were read from: label, other columns and whole texts tell a record.

    Whatever part is taken, the first of them or those that a seed draws, is compared with private records by itself.

    Args:
        examples: What stands in prompts and questions.
        rows: The row of each, as it was read.
        source: Name of the data, for error messages.
        shipped: Whether they ship with this package, and so are nobody's.

    Raises:
        InputError: Most of the rows are somebody's private records.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.

    Example:
        >>> examples = PublicExamples([Example({"text": "x"}, 0)] * 3, [{"text": "x", "label": 0}] * 3, "made up")
        >>> len(examples.taken([2, 0]))
        2
    """

    def __init__(
        self, examples: Sequence[Example], rows: Sequence[Mapping[str, Any]], source: str, *, shipped: bool = False
    ) -> None:
        if len(examples) != len(rows):
            raise ValueError("examples and rows must be the same ones")
        if not shipped:
            require_public(rows, source)
        self._examples, self._rows, self._source, self._shipped = tuple(examples), tuple(rows), source, shipped

    def taken(self, places: Iterable[int]) -> PublicExamples:
        """Those in some places, in that order."""
        chosen = list(places)
        return self._with([self._examples[place] for place in chosen], [self._rows[place] for place in chosen])

    def relabelled(self, labels: Mapping[int, int]) -> PublicExamples:
        """Those whose labels are kept, under new ones."""
        kept = [(x, row) for x, row in zip(self._examples, self._rows, strict=True) if x.label in labels]
        return self._with([Example(x.fields, labels[x.label]) for x, _ in kept], [row for _, row in kept])

    def joined(self, others: PublicExamples) -> PublicExamples:
        """These, then others."""
        return self._with([*self._examples, *others._examples], [*self._rows, *others._rows])

    def _with(self, examples: Sequence[Example], rows: Sequence[Mapping[str, Any]]) -> PublicExamples:
        return PublicExamples(examples, rows, self._source, shipped=self._shipped)

    def __len__(self) -> int:
        return len(self._examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self._examples)

    @overload
    def __getitem__(self, place: int) -> Example: ...

    @overload
    def __getitem__(self, place: slice) -> PublicExamples: ...

    def __getitem__(self, place: int | slice) -> Example | PublicExamples:
        if isinstance(place, slice):
            return self.taken(range(len(self))[place])
        return self._examples[place]


def _object(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise RecordError("the line is no JSON object", file=str(file), line=number, hint="Give one row a line.")
    return row
