"""Records: sealed private ones, and public ones anybody may print.

``PrivateRecords`` is opaque. Its text, its labels and, unless declared public, its size cannot be printed, formatted,
logged, iterated, pickled or serialised by accident; only ``unseal``, which the experts call, opens it. Sealing is a
guard against accidents, not against code that sets out to look inside its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, final

from sottovoce.errors import OpaqueError, RecordError
from sottovoce.records.cells import identity_text, is_missing
from sottovoce.records.fingerprints import MarkArray, fingerprint_of, first_fingerprint, marks_of

__all__ = [
    "RECORD_UNIT",
    "UNIT_COLUMN",
    "Opaque",
    "PrivateRecords",
    "PublicRecords",
    "Row",
    "identity_text",
    "is_missing",
    "unseal",
]

UNIT_COLUMN = "group"
"""A column of this name is the privacy unit unless the caller says otherwise."""

RECORD_UNIT = "record"
"""The unit name for "every row by itself"."""


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
    """

    line: int
    values: Mapping[str, object]

    def __repr__(self) -> str:
        return f"Row(line={self.line})"


@final
class PrivateRecords(Opaque):
    """Private rows, sealed, with their privacy unit.

    Args:
        rows: What was read.
        source: Name of the file or of the in-memory source, for error messages.
        unit: The privacy unit: a column name, or ``"record"``. ``None`` takes the column ``group`` where every row
            has one, else the record.
        size_is_public: Whether ``repr`` and ``len`` may tell the number of units.
        synthetic: Whether nobody's privacy hangs on these rows (made-up or published rows). Only synthetic records
            may be answered with a seeded source of noise.
        whole: The same rows as they were before their texts were cut, if they were: a data set is known by these.

    Attributes:
        fingerprint: Names the data set by content and units, whatever its order or file format.

    Raises:
        RecordError: There are no rows, a row lacks the unit column, or an ``id`` repeats.

    Example:
        >>> PrivateRecords([Row(1, {"text": "I owe 40 euros"})], source="memory")
        PrivateRecords(unit 'record', size not declared)
    """

    __slots__ = (
        "_first_fingerprint",
        "_marks",
        "_open",
        "_whole",
        "fingerprint",
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
    ) -> None:
        held = tuple(rows)
        if not held:
            raise RecordError("there is no record", file=source, hint="Give at least one row.")
        _refuse_repeated_ids(held, source)
        self.unit = _choose_unit(held, unit, source)
        self.source, self.size_is_public, self.synthetic = source, size_is_public, synthetic
        values = tuple(row.values for row in (held if whole is None else whole))
        if len(values) != len(held):
            raise ValueError("cut rows and whole rows must be the same ones")
        places = _group(held, self.unit)
        units = tuple(tuple(held[place] for place in unit) for unit in places)
        self._open: Callable[[], tuple[tuple[Row, ...], ...]] = lambda: units
        self._whole: Callable[[], tuple[Mapping[str, object], ...]] = lambda: values
        self._first_fingerprint: list[str] = []  # worked out once, where it is asked for
        self._marks: dict[bytes, MarkArray] = {}
        self.fingerprint = fingerprint_of([[values[place] for place in unit] for unit in places])

    def _public_face(self) -> str:
        size = f"{len(self._open())} units" if self.size_is_public else "size not declared"
        return f"unit '{self.unit}', {size}"

    def __len__(self) -> int:
        """The number of units, if it was declared public."""
        if not self.size_is_public:
            raise OpaqueError("The number of private records was not declared public (size_is_public=True).")
        return len(self._open())

    def __bool__(self) -> bool:
        """Always true: there is at least one record, and how many there are is not told."""
        return True

    def with_public_size(self) -> PrivateRecords:
        """The same records with their number declared public, as replace-one adjacency does by definition."""
        twin = object.__new__(PrivateRecords)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.size_is_public = True
        return twin

    def first_fingerprint(self) -> str:
        """What versions of this package before the second format knew the same records by."""
        if not self._first_fingerprint:
            self._first_fingerprint.append(first_fingerprint(self._whole()))
        return self._first_fingerprint[0]

    def marks(self, key: bytes) -> MarkArray:
        """Keyed marks of the single records, shape (records, 1 + texts); see ``fingerprints.marks_of``."""
        if key not in self._marks:
            self._marks[key] = marks_of(self._whole(), key)
        return self._marks[key]

    def __iter__(self) -> NoReturn:
        raise OpaqueError("PrivateRecords cannot be iterated: it holds private data.")


def unseal(records: PrivateRecords) -> tuple[tuple[Row, ...], ...]:
    """Opens the records, one tuple of rows for each unit, in the order of first appearance.

    For ``experts`` and ``session`` alone; a test reads who imports this.
    """
    return records._open()


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


def _choose_unit(rows: Sequence[Row], unit: str | None, source: str) -> str:
    if unit == RECORD_UNIT:
        return RECORD_UNIT
    column = unit or UNIT_COLUMN
    without = [row.line for row in rows if is_missing(row.values.get(column))]
    if unit is None and len(without) == len(rows):
        return RECORD_UNIT
    if without:
        raise RecordError(
            "the privacy unit is missing",
            file=source,
            line=without[0],
            field=column,
            hint="Fill the column in every row, or pass --unit record to protect single records.",
        )
    return column


def _group(rows: Sequence[Row], unit: str) -> list[list[int]]:
    """The places of each unit's rows."""
    if unit == RECORD_UNIT:
        return [[place] for place in range(len(rows))]
    units: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        units.setdefault(identity_text(row.values[unit]), []).append(place)
    return list(units.values())


def _refuse_repeated_ids(rows: Sequence[Row], source: str) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        value = row.values.get("id")
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
