"""Records: sealed private ones, and public ones anybody may print.

``PrivateRecords`` is opaque. Its text, its labels and, unless declared public, its size cannot be printed, formatted,
logged, iterated, pickled or serialised by accident; only ``unseal`` and ``unseal_units``, which the experts call, open
it. Sealing is a guard against accidents, not against code that sets out to look inside its own process.

Records are held in memory, or read from their file again for each use (``PrivateRecords.streamed``): then nothing is
held of them but digests.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from types import NoneType
from typing import Any, Final, NoReturn, Self, final

import numpy as np

from sottovoce.errors import OpaqueError, ParameterError, RecordError
from sottovoce.parameters import FLAG, Kind, is_several
from sottovoce.records.cells import identity_text, is_missing, names_nobody
from sottovoce.records.fingerprints import (
    MarkArray,
    any_may_differ,
    earlier_fingerprints,
    earlier_marks_of,
    fingerprint_of,
    fingerprint_of_digests,
    first_fingerprint,
    marks_and_sight,
    row_digest,
)

__all__ = [
    "RECORD_UNIT",
    "UNIT_COLUMN",
    "Opaque",
    "PrivateRecords",
    "PublicRecords",
    "Reading",
    "Row",
    "beside",
    "identity_text",
    "is_missing",
    "unseal",
    "unseal_units",
]

UNIT_COLUMN = "group"
"""A column of this name is the privacy unit unless the caller says otherwise."""

RECORD_UNIT = "record"
"""The unit name for "every row by itself"."""

_DIGEST: Final = 32


class Opaque:
    """Base of everything sealed: shows what kind it is, never what it holds."""

    __slots__ = ()

    def _public_face(self) -> str:
        """What may be said of the content; subclasses add public sizes only."""
        return "sealed"

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._public_face()})"

    __str__ = __repr__

    @final
    def __format__(self, spec: str) -> str:
        return repr(self)

    @final
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise OpaqueError(f"{type(self).__name__} cannot be pickled or stored: it holds private data.")

    @final
    def __copy__(self) -> Opaque:
        return self

    @final
    def __deepcopy__(self, memo: object) -> Opaque:
        return self


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """One row as read.

    Attributes:
        line: 1-based line of the file, or 1-based row where lines mean nothing.
        values: Column names to values.
        columns: Fields to the columns that they were read from, where those have other names.
        uncut: The columns before long texts were cut, where some were.
    """

    line: int
    values: Mapping[str, object]
    columns: Mapping[str, str] | None = None
    uncut: Mapping[str, object] | None = None

    def column(self, name: str) -> str:
        """What the column of a field is called in the file, or was said to be called."""
        return (self.columns or {}).get(name, name)

    def identity(self, name: str) -> object:
        """A cell by which rows or units are told apart: whole, however texts are cut.

        Example:
            >>> Row(1, {"group": "customer-"}, uncut={"group": "customer-7"}).identity("group")
            'customer-7'
        """
        return self.whole.get(self.column(name), self.values.get(name))

    @property
    def whole(self) -> Mapping[str, object]:
        """The columns as they are in the file, however texts are cut."""
        return self.values if self.uncut is None else self.uncut

    def __repr__(self) -> str:
        return f"Row(line={self.line})"

    def __setstate__(self, state: Sequence[Any]) -> None:
        """Rows that an earlier build stored have fewer attributes."""
        for each in fields(self):
            object.__setattr__(self, each.name, None)
        for each, value in zip(fields(self), state, strict=False):
            object.__setattr__(self, each.name, value)


@final
@dataclass(frozen=True)
class Reading:
    """How rows were read from their file, by public parameters alone.

    Attributes:
        columns: Fields to the columns that they were read from, where those have other names.
        truncate_at: Characters at which longer texts were cut; ``None`` where they were refused.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    truncate_at: int | None = None

    @property
    def words(self) -> dict[str, Any]:
        """In words, by which one reading of a file is told from another.

        Example:
            >>> Reading({"text": "text", "label": "urgent"}).words
            {'columns': {'label': 'urgent'}, 'truncate_at': None}
        """
        named = {of: _spelled(column) for of, column in sorted(self.columns.items()) if column != of}
        return {"columns": named, "truncate_at": self.truncate_at}


@final
class PrivateRecords(Opaque):
    """Private rows, sealed, with their privacy unit.

    Args:
        rows: What was read.
        source: Name of the file or of the in-memory source, for error messages.
        unit: The privacy unit: a column name, or ``"record"``. ``None`` takes the column ``group`` where every row
            has one, else the record.
        size_is_public: Whether ``repr`` and ``len`` may show the number of units.
        synthetic: Whether the rows are made up or published, so that nobody's privacy depends on them. Only
            synthetic records may be answered with a seeded source of noise.
        whole: The same rows before their texts were cut, if they were cut: these identify the data set and its units.
        reading: How they were read from their file.

    Attributes:
        fingerprint: Identifies the data set by content and units, whatever its order or file format.
        reading: How the rows were read; public. It tells runs apart, and no data sets.
        held: Whether the rows are in memory; otherwise they are read from their file each time.

    Raises:
        RecordError: There are no rows, a row lacks the unit column, or an ``id`` repeats.

    Example:
        >>> PrivateRecords([Row(1, {"text": "I owe 40 euros"})], source="memory")
        PrivateRecords(unit 'record', size not declared)
    """

    __slots__ = (
        "_check",
        "_count",
        "_earlier_fingerprints",
        "_first_fingerprint",
        "_marks",
        "_open",
        "_whole",
        "fingerprint",
        "held",
        "reading",
        "size_is_public",
        "source",
        "synthetic",
        "unit",
    )

    def __init__(
        self,
        rows: Iterable[Row],
        *,
        source: str,
        unit: str | None = None,
        size_is_public: bool = False,
        synthetic: bool = False,
        whole: Sequence[Row] | None = None,
        reading: Reading | None = None,
    ) -> None:
        held, wholes = _rows("rows", rows), None if whole is None else _rows("whole", whole)
        Kind(str, "the name of a source").read("source", source)
        Kind((str, NoneType), "the name of a column, or 'record'").read("unit", unit)
        Kind((Reading, NoneType), "a Reading").read("reading", reading)
        if not held:
            raise RecordError("there is no record", file=source, hint="Give at least one row.")
        if wholes is not None:
            if len(wholes) != len(held):
                raise ParameterError("whole", f"{len(wholes)} rows", f"the same {len(held)} rows as were cut")
            held = tuple(map(beside, held, wholes))
        _refuse_repeated_ids(held, source)
        self.unit = _choose_unit(held, unit, source)
        self.size_is_public = FLAG.read("size_is_public", size_is_public)
        self.source, self.synthetic = source, FLAG.read("synthetic", synthetic)
        self.reading = reading or Reading()
        values = tuple(row.values for row in (wholes or held))
        places = _group(held, self.unit)
        units = tuple(tuple(held[place] for place in unit) for unit in places)
        self._open: Callable[[], Iterable[tuple[Row, ...]]] = lambda: units
        self._whole: Callable[[], Iterable[Mapping[str, object]]] = lambda: values
        self._check: Callable[[], None] = lambda: None
        self._count, self.held = len(units), True
        self._first_fingerprint: list[str] = []  # worked out once, where it is asked for
        self._earlier_fingerprints: list[tuple[str, ...]] = []
        self._marks: dict[bytes, tuple[MarkArray, int]] = {}
        self.fingerprint = fingerprint_of([[values[place] for place in unit] for unit in places])

    @classmethod
    def streamed(
        cls,
        passes: Callable[[], Iterable[tuple[Row, Row]]],
        *,
        source: str,
        unit: str | None = None,
        synthetic: bool = False,
        check: Callable[[], None] = lambda: None,
        reading: Reading | None = None,
    ) -> Self:
        """Seals rows that are read again for each use, and reads them once to identify them.

        The rows of a unit must stand one after another. Where they do not, all rows are held in memory, as if they had
        been given to the constructor; ``held`` says so.

        Args:
            passes: Reads all rows, each as a pair: with its texts cut, and as it was before. Every call gives the same
                rows.
            source: As for the constructor, like ``unit`` and ``synthetic``.
            unit: The privacy unit.
            synthetic: Whether the rows are made up or published.
            check: Raises what ``passes`` would raise if the rows had changed.
            reading: As for the constructor.

        Raises:
            RecordError: As for the constructor.
        """
        FLAG.read("synthetic", synthetic)
        look = _FirstLook(unit, source)
        for row, whole in passes():
            look.at(beside(row, whole), whole)
        if not look.rows:
            raise RecordError("there is no record", file=source, hint="Give at least one row.")
        if suspects := look.repeated_ids():
            again = (beside(row, whole) for row, whole in passes())
            _refuse_repeated_ids((row for row in again if _id_mark(row) in suspects), source)
        chosen = look.chosen(source)
        if chosen != RECORD_UNIT and not look.stand_together:
            pairs = list(passes())
            rows, wholes = [row for row, _ in pairs], [whole for _, whole in pairs]
            return cls(rows, source=source, unit=chosen, synthetic=synthetic, whole=wholes, reading=reading)
        self = cls.__new__(cls)
        self.unit, self.source, self.size_is_public, self.synthetic = chosen, source, False, synthetic
        self.reading = reading or Reading()
        self._open = lambda: _in_units((beside(row, whole) for row, whole in passes()), chosen)
        self._whole = lambda: (whole.values for _, whole in passes())
        self._check, self.held = check, False
        self._first_fingerprint, self._earlier_fingerprints, self._marks = [], [], {}
        self._count, self.fingerprint = look.units(chosen), fingerprint_of_digests(look.digests(chosen))
        return self

    def _public_face(self) -> str:
        size = f"{self._count} units" if self.size_is_public else "size not declared"
        return f"unit '{self.unit}', {size}"

    def __len__(self) -> int:
        """The number of units, if it was declared public."""
        if not self.size_is_public:
            raise OpaqueError("The number of private records was not declared public (size_is_public=True).")
        return self._count

    def __bool__(self) -> bool:
        """Always true: there is at least one record, and the number of records is not revealed."""
        return True

    def with_public_size(self) -> PrivateRecords:
        """The same records with their number declared public, as replace-one adjacency does by definition."""
        twin = object.__new__(PrivateRecords)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.size_is_public = True
        return twin

    def require_unchanged(self) -> None:
        """Checks that the file is unchanged since the records were sealed, if they are not held in memory.

        Raises:
            RecordError: It is not.
        """
        self._check()

    def first_fingerprint(self) -> str:
        """The fingerprint of the same records in the first format, which knew nothing of units."""
        if not self._first_fingerprint:
            self._first_fingerprint.append(first_fingerprint(self._whole()))
        return self._first_fingerprint[0]

    def earlier_fingerprints(self) -> tuple[str, ...]:
        """The other fingerprints of the same records where cells were written as in earlier formats, newest first."""
        if not self._earlier_fingerprints:
            found: list[str] = []
            if any(map(any_may_differ, self._whole())):
                found = earlier_fingerprints((row.whole for row in unit) for unit in self._open())
            self._earlier_fingerprints.append(tuple(name for name in dict.fromkeys(found) if name != self.fingerprint))
        return self._earlier_fingerprints[0]

    def fingerprints(self) -> Iterator[str]:
        """The fingerprint, then those that earlier versions of this package knew the same records by."""
        yield self.fingerprint
        yield from self.earlier_fingerprints()
        yield self.first_fingerprint()

    def marks(self, key: bytes) -> MarkArray:
        """Keyed marks of the single records, shape (records, 1 + texts); see ``fingerprints.marks_and_sight``."""
        return self.marks_and_sight(key)[0]

    def marks_and_sight(self, key: bytes) -> tuple[MarkArray, int]:
        """The same, and the sight that they were made with."""
        if key not in self._marks:
            self._marks[key] = marks_and_sight(self._whole(), key)
        return self._marks[key]

    def earlier_marks(self, key: bytes, formats: Iterable[int]) -> list[MarkArray]:
        """Marks of the records in earlier formats, see ``fingerprints.earlier_marks_of``."""
        return earlier_marks_of(self._whole, key, formats)

    def __iter__(self) -> NoReturn:
        raise OpaqueError("PrivateRecords cannot be iterated: it holds private data.")


def unseal(records: PrivateRecords) -> tuple[tuple[Row, ...], ...]:
    """Opens the records, one tuple of rows for each unit, in the order of first appearance.

    For ``experts`` alone; a test reads who imports this.
    """
    return tuple(records._open())


def unseal_units(records: PrivateRecords) -> Iterator[tuple[Row, ...]]:
    """The same one by one: of records that are not held, one unit is in memory at a time. For ``experts`` alone.

    Raises:
        RecordError: The file is not the one any more that the records were sealed from.
    """
    return iter(records._open())


@final
@dataclass(frozen=True)
class PublicRecords:
    """Rows that anybody may see: queries, public demonstrations.

    Attributes:
        rows: The rows.
        source: Name of the file or of the in-memory source.
        whole: The same rows as they were before their texts were cut, if they were.
    """

    rows: Sequence[Row] = field(repr=False)
    source: str
    whole: Sequence[Row] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def first(self, count: int | None) -> PublicRecords:
        """The first rows, or all of them."""
        return PublicRecords(self.rows[:count], self.source, None if self.whole is None else self.whole[:count])


@final
class _FirstLook:
    """What one pass over rows keeps of them: a digest and a few marks each.

    Args:
        unit: The privacy unit as it was asked for.
        source: Where the rows are from, for errors.
    """

    def __init__(self, unit: str | None, source: str) -> None:
        self._unit, self._column, self._source = unit, unit or UNIT_COLUMN, source
        self._digests, self._begins = bytearray(), bytearray()
        self._ids, self._runs = array("Q"), array("Q")
        self._before: str | None = None
        self._absent, self._without = 0, 0
        self._first_without: int | None = None
        self.rows = 0

    def at(self, row: Row, whole: Row) -> None:
        """Looks at the next row."""
        self.rows += 1
        self._digests += row_digest(whole.values)
        if mark := _id_mark(row):
            self._ids.append(mark)
        if self._unit:
            _refuse_two_columns(row, self._unit, self._source)
        if self._unit == RECORD_UNIT:
            return
        value = row.identity(self._column)
        if names_nobody(value):
            self._absent += is_missing(value)
            self._without += 1
            self._first_without = row.line if self._first_without is None else self._first_without
            return
        text = identity_text(value)
        self._begins.append(text != self._before)
        if text != self._before:
            self._runs.append(_marked(text))
            self._before = text

    def chosen(self, source: str) -> str:
        """The unit; errors as for ``_choose_unit``."""
        return _chosen(self._unit, self._absent == self.rows, self._first_without, source)

    @property
    def stand_together(self) -> bool:
        """Whether no unit comes back behind another one, as far as marks tell; where they err they say no."""
        return len(np.unique(np.frombuffer(self._runs, np.uint64))) == len(self._runs)

    def repeated_ids(self) -> set[int]:
        """Marks of ids that more than one row may have."""
        marks, counts = np.unique(np.frombuffer(self._ids, np.uint64), return_counts=True)
        return {int(mark) for mark in marks[counts > 1]}

    def units(self, unit: str) -> int:
        """How many units there are."""
        return self.rows if unit == RECORD_UNIT else len(self._runs)

    def digests(self, unit: str) -> Iterator[list[bytes]]:
        """The digests of the rows of each unit."""
        first = np.arange(self.rows) if unit == RECORD_UNIT else np.flatnonzero(np.frombuffer(self._begins, np.uint8))
        for start, end in zip(first.tolist(), [*first[1:].tolist(), self.rows], strict=True):
            yield [bytes(self._digests[_DIGEST * row : _DIGEST * (row + 1)]) for row in range(start, end)]


def _spelled(name: str) -> str:
    """A column's name as a text that any file can hold: JSON can name half a character."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _marked(text: str) -> int:
    """A number for a text, above 0. Another text may have the same."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) or 1


def beside(row: Row, whole: Row) -> Row:
    """A row that keeps what it was before its texts were cut."""
    return row if row.values is whole.values else replace(row, uncut=whole.values)


def _id_mark(row: Row) -> int:
    """A number for a row's id; 0 where it has none."""
    value = row.identity("id")
    return 0 if is_missing(value) else _marked(identity_text(value))


def _in_units(rows: Iterable[Row], unit: str) -> Iterator[tuple[Row, ...]]:
    """Units of rows that stand together, one by one."""
    if unit == RECORD_UNIT:
        return ((row,) for row in rows)
    return (tuple(own) for _, own in groupby(rows, lambda row: identity_text(row.identity(unit))))


def _choose_unit(rows: Sequence[Row], unit: str | None, source: str) -> str:
    column = unit or UNIT_COLUMN
    for row in rows if unit else ():
        _refuse_two_columns(row, unit or column, source)
    if unit == RECORD_UNIT:
        return unit
    without = [row.line for row in rows if names_nobody(row.identity(column))]
    absent = len(without) == len(rows) and all(is_missing(row.identity(column)) for row in rows)
    return _chosen(unit, absent, without[0] if without else None, source)


def _refuse_two_columns(row: Row, unit: str, source: str) -> None:
    """Refuses a unit that may be meant in two ways, which may tell other persons: a field that is read from one column
    and the name of another, or each record and the column that is called so."""
    if unit == RECORD_UNIT:
        if unit in row.whole:
            raise RecordError(
                f"the privacy unit may be each row, or what has one value of the column {unit!r}",
                file=source,
                line=row.line,
                field=unit,
                hint="Rename the column: then 'record' is each row, and its new name is what has one value there.",
            )
        return
    read_from = row.column(unit)
    if read_from != unit and unit in row.whole:
        raise RecordError(
            f"the privacy unit may be the column {unit!r}, or {read_from!r}, which {unit!r} is read from",
            file=source,
            line=row.line,
            field=unit,
            hint=f"Pass --unit {read_from} for the latter, or rename the column {unit!r}.",
        )


def _chosen(unit: str | None, absent: bool, first: int | None, source: str) -> str:
    """The unit, where no row may have its column, and the first row that names nobody there stands in this line."""
    if unit == RECORD_UNIT or (unit is None and absent):
        return RECORD_UNIT
    if first is not None:
        raise RecordError(
            "the privacy unit is missing",
            file=source,
            line=first,
            field=unit or UNIT_COLUMN,
            hint="Fill the column in every row, or pass --unit record to protect single records. A word for no value, "
            "such as nan, null or NA, names nobody: spell out who is called that.",
        )
    return unit or UNIT_COLUMN


def _group(rows: Sequence[Row], unit: str) -> list[list[int]]:
    """The places of each unit's rows."""
    if unit == RECORD_UNIT:
        return [[place] for place in range(len(rows))]
    units: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        units.setdefault(identity_text(row.identity(unit)), []).append(place)
    return list(units.values())


def _rows(name: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    limit = "rows, such as Row(1, {'text': ...}); files and data frames are read by read_private"
    if not is_several(rows):
        raise ParameterError(name, type(rows), limit)
    held = tuple(rows)
    for row in held:
        Kind(Row, limit).read(name, row)
        for column in row.whole:
            Kind(str, f"in each row, names of columns that are texts (line {row.line})").read(name, column)
    return held


def _refuse_repeated_ids(rows: Iterable[Row], source: str) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        value = row.identity("id")
        if is_missing(value):
            continue
        first = seen.setdefault(identity_text(value), row.line)
        if first != row.line:
            raise RecordError(
                f"the id is the same as in line {first}",
                file=source,
                line=row.line,
                field="id",
                hint="Make ids unique, or name the column of the person or account with --unit.",
            )
