"""Records: sealed private ones, and public ones anybody may print.

``PrivateRecords`` is opaque. Its text, its labels and, unless declared public, its size cannot be printed, formatted,
logged, iterated, pickled or serialised by accident; only ``unseal``, which the experts call, opens it. Sealing is a
guard against accidents, not against code that sets out to look inside its own process.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import NoReturn, final

from sottovoce.errors import OpaqueError, RecordError

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
        fingerprint: Of the whole rows, where these are cut ones; else it is taken from the rows.

    Raises:
        RecordError: There are no rows, a row lacks the unit column, or an ``id`` repeats.

    Example:
        >>> PrivateRecords([Row(1, {"text": "I owe 40 euros"})], source="memory")
        PrivateRecords(unit 'record', size not declared)
    """

    __slots__ = ("_open", "fingerprint", "size_is_public", "source", "synthetic", "unit")

    def __init__(
        self,
        rows: Iterable[Row],
        *,
        source: str,
        unit: str | None = None,
        size_is_public: bool = False,
        synthetic: bool = False,
        fingerprint: str | None = None,
    ) -> None:
        held = tuple(rows)
        if not held:
            raise RecordError("there is no record", file=source, hint="Give at least one row.")
        _refuse_repeated_ids(held, source)
        self.unit = _choose_unit(held, unit, source)
        self.source, self.size_is_public, self.synthetic = source, size_is_public, synthetic
        self.fingerprint = fingerprint or fingerprint_of(held)
        units = _group(held, self.unit)
        self._open: Callable[[], tuple[tuple[Row, ...], ...]] = lambda: units

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
        return PrivateRecords(
            (row for unit in self._open() for row in unit),
            source=self.source,
            unit=self.unit,
            size_is_public=True,
            synthetic=self.synthetic,
            fingerprint=self.fingerprint,
        )

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
    """Rows that anybody may see: queries, public demonstrations."""

    rows: Sequence[Row] = field(repr=False)
    source: str

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


def fingerprint_of(rows: Sequence[Row]) -> str:
    """Names a data set by its content: 64 hexadecimal digits, the same whatever the row order or the file format.

    Every value counts as the text it would have in a CSV file, empty values and column order do not count, and equal
    rows count as often as they occur.
    """
    digests = sorted(hashlib.sha256(_canonical(row)).digest() for row in rows)
    return hashlib.sha256(b"sottovoce data set 1\0" + b"".join(digests)).hexdigest()


def _canonical(row: Row) -> bytes:
    parts = []
    for name in sorted(row.values):
        value = row.values[name]
        if not is_missing(value):
            text = canonical_text(value)
            parts.append(f"{len(name)}:{name}{len(text)}:{text}")
    return "".join(parts).encode("utf-8", "surrogatepass")


def canonical_text(value: object) -> str:
    """A cell as text that is the same in every file format: numbers by value, composed letters, no outer blanks.

    Two cells that differ in no more than that count as equal: a fingerprint that is too coarse shares a budget, one
    that is too fine would open a second one.

    Example:
        >>> [canonical_text(v) for v in (3, 3.0, "3.0", " 3 ", 1e16)]
        ['3', '3', '3', '3', '10000000000000000']
    """
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    if hasattr(value, "isoformat"):
        value = value.isoformat()
    text = unicodedata.normalize("NFC", str(value)).strip()
    if text in {"True", "TRUE", "False", "FALSE"}:
        return text.lower()
    text = _MIDNIGHT.sub("", text)
    if _NUMBER.fullmatch(text) and len(text) < 40:
        number = Decimal(text).normalize(Context(prec=60))
        return f"{number:f}" if -40 < number.adjusted() < 40 else str(number)
    return text


def identity_text(value: object) -> str:
    """An id or unit as text: texts exactly as written, numbers by value.

    Two persons must never become one: an expert that holds both is re-evaluated when one of them leaves, which is a
    swap where a drop was promised.

    Example:
        >>> [identity_text(v) for v in (3, 3.0, "3", "03", "3 ")]
        ['3', '3', '3', '03', '3 ']
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


_MIDNIGHT = re.compile(r"(?<=^....-..-..)[T ]00:00:00(\.0+)?$")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?")


def _choose_unit(rows: Sequence[Row], unit: str | None, source: str) -> str:
    if unit == RECORD_UNIT:
        return RECORD_UNIT
    wanted = unit or UNIT_COLUMN
    without = [row.line for row in rows if is_missing(row.values.get(wanted))]
    if unit is None and len(without) == len(rows):
        return RECORD_UNIT
    if without:
        raise RecordError(
            "the privacy unit is missing",
            file=source,
            line=without[0],
            field=wanted,
            hint="Fill the column in every row, or pass --unit record to protect single records.",
        )
    return wanted


def _group(rows: Sequence[Row], unit: str) -> tuple[tuple[Row, ...], ...]:
    if unit == RECORD_UNIT:
        return tuple((row,) for row in rows)
    units: dict[str, list[Row]] = {}
    for row in rows:
        units.setdefault(identity_text(row.values[unit]), []).append(row)
    return tuple(tuple(members) for members in units.values())


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


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing: absent, empty, or one of the ways a data frame says "no value"."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value) or type(value).__name__ in {"NAType", "NaTType"}
