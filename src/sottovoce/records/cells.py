"""Cells: one text for one value, whatever the file format that it was read from.

Two meanings of "the same" live here. ``canonical_text`` is coarse: it decides whether two files hold the same records,
and a fingerprint that is too fine would open a second budget. ``identity_text`` is fine: it decides who is one person,
and two persons must never become one.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np

from sottovoce.errors import InputError

DEEPEST: Final = 32
"""Lists and objects within each other; what lies deeper does not count."""
LONGEST_PLAIN: Final = 40
"""Characters of a text that may be a time, a duration or a word for a value."""
LONGEST_NUMBER: Final = 5_000
"""Characters of a text that may be a number; Python reads whole numbers of up to 4,300 digits."""
LONGEST_RUN: Final = 100
"""From so many marks on one letter, such as accents, on they are put in order before they are composed."""
MILLISECONDS: Final = 3
"""Digits of a second's fraction that count: pandas writes no more into JSON."""
NO_VALUE: Final = frozenset(
    {
        "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "NaT", "None", "n/a", "nan", "null",
    }
)  # fmt: skip
"""Words that tools write for no value: those that pandas reads as none from CSV, and ``NaT``."""
LONGEST_JSON: Final = 1_000_000
"""Characters of a text that is tried as a list or an object in JSON, as a CSV file would have it."""


def kind_of(value: object) -> str:
    """What a value is, for errors that must not quote it.

    Example:
        >>> kind_of(3), kind_of(["a"]), kind_of(True), kind_of(b"a")
        ('a number', 'a list', 'true or false', 'of the type bytes')
    """
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value), f"of the type {type(value).__name__}")


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing: absent, empty, or one of the ways a data frame says "no value"."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, Decimal):
        return value.is_nan()
    if type(value).__name__ in {"NAType", "NaTType"}:
        return True
    if getattr(value, "shape", None) == ():  # a number, a time or a duration of NumPy
        return bool(value != value)  # noqa: PLR0124
    return False


def identity_text(value: object) -> str:
    """An id or unit as text: texts exactly as written, numbers by value.

    Two persons must never become one: an expert that holds both is re-evaluated when one of them leaves, which is a
    swap where a drop was promised.

    Example:
        >>> [identity_text(v) for v in (3, 3.0, "3", "03", "3 ")]
        ['3', '3', '3', '03', '3 ']

    Raises:
        InputError: It is a number of more digits than Python writes.
    """
    try:
        return str(_by_value(value))
    except ValueError:
        raise InputError("An id or a unit is a number of more than 4,300 digits. Give it as a text.") from None


def names_nobody(value: object) -> bool:
    """Whether a cell that should name a unit names none: it is missing, or holds a word for that.

    Example:
        >>> [names_nobody(v) for v in (None, float("nan"), "nan", b"", "Nan")]
        [True, True, True, True, False]
    """
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value).decode("utf-8", "backslashreplace")
    return value.strip() in NO_VALUE if isinstance(value, str) else is_missing(value)


def _by_value(value: Any) -> Any:
    """A value with all numbers in it by value and names in order; an array as a list, since its own text is cut short,
    and two persons might be one."""
    shape = getattr(value, "shape", None)
    if shape == () and isinstance(value, np.generic) and value.dtype.kind in "iufb":
        value = value.item()
    elif shape not in (None, ()) and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float | Decimal):
        return _number_by_value(value)
    if isinstance(value, list | tuple):
        parts = [_by_value(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        named = {_by_value(name): _by_value(part) for name, part in value.items()}
        return {name: named[name] for name in sorted(named, key=repr)}
    return value


def _number_by_value(value: float | Decimal) -> Any:
    """A whole number as one, if it has no more digits than a text may have; another decimal as the float that is
    written so, or without closing zeros."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # infinity
        return value
    kept = len(digits)
    while kept > 1 and digits[kept - 1] == 0:
        kept -= 1
    if digits == (0,) * len(digits):
        return 0
    value = Decimal((sign, digits[:kept], exponent + len(digits) - kept))
    if exponent + len(digits) - kept >= 0 and value.adjusted() < LONGEST_NUMBER // 2:
        return int(value)
    nearest = float(value)
    return nearest if math.isfinite(nearest) and Decimal(repr(nearest)) == value else value


PICTURES: Final = (".png", ".jpg", ".jpeg")
"""Endings of the pictures that are read."""
ENCODED_PICTURES: Final = ("iVBORw0KGgo", "/9j/")
"""How PNG and JPEG files begin in base64."""


def canonical_text(value: object) -> str:
    """A cell as text that is the same in CSV, JSON Lines, Parquet and a data frame.

    Numbers count by value, fractions to the precision of 32-bit floats; infinity, and what is beyond every float, as no
    value or 0; words for no value as none; times by the moment, to the millisecond, a time without an offset as if it
    were in UTC; durations by their length, also as pandas writes them into JSON; line ends as one character; letters
    composed, outer blanks dropped; bytes as their text, or in base64; lists and objects as JSON, also where a CSV file
    holds them as JSON text, with names that are texts of cells themselves. A map is an object or a list of pairs, by
    the file format, so a list of pairs is the object of the same names, and an empty object an empty list. Two cells
    that differ in no more than that count as equal.

    Example:
        >>> [canonical_text(v) for v in (3, 3.0, "3.0", " 3 ", 1e16)]
        ['3', '3', '3', '3', '10000000000000000']
        >>> [canonical_text(v) for v in ("2024-01-01T10:00:00.500Z", "2024-01-01 11:00:00.5+01:00")]
        ['2024-01-01 10:00:00.5', '2024-01-01 10:00:00.5']
        >>> [canonical_text(v) for v in ("2024-01-01 00:00:00", date(2024, 1, 1), ["a", 1.0], '["a", 1]')]
        ['2024-01-01', '2024-01-01', '["a","1"]', '["a","1"]']
        >>> [canonical_text(v) for v in ({"a": 1, "b": None}, [("a", 1.0)], '[["a", 1]]', {}, [])]
        ['{"a":"1"}', '{"a":"1"}', '{"a":"1"}', '[]', '[]']
    """
    return TEXTS.of(value)


class CellTexts:
    """How cells are written: as a text, or as lists and mappings of texts.

    Earlier formats override what they did otherwise (``records/earlier_cells.py``), so every method calls the others by
    ``self``.
    """

    words: ClassVar[Mapping[str, str]] = {
        "True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
        **dict.fromkeys(("inf", "+inf", "-inf", "Infinity", "+Infinity", "-Infinity"), ""),
        **dict.fromkeys(NO_VALUE, ""),
    }  # fmt: skip
    """Words for values."""

    def __init__(self) -> None:
        self.column = lru_cache(1 << 17)(self._column)
        """The name of a column, as texts of cells are."""

    def _column(self, name: str) -> str:
        return self.plain_text(composed(outlined(name)))

    def of(self, value: object) -> str:
        """The text of a cell."""
        plain = self.plain(value, 0)
        return plain if isinstance(plain, str) else as_json(plain)

    def plain(self, value: Any, depth: int) -> Any:
        """A cell as a text, or as lists and mappings of texts; so deep within others."""
        if isinstance(value, str):
            return self.text(value, depth)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return self.whole(value)
        if isinstance(value, float):
            return self.fraction(float(value))
        if isinstance(value, Decimal):
            return self.decimal(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self.bytes_text(bytes(value), depth)
        if isinstance(value, Mapping):
            return self.mapping(value.items(), depth) if depth < DEEPEST else ""
        if isinstance(value, timedelta):  # pandas' own ones too, but for their nanoseconds
            return f"{value.days} days {_clock(value)}"
        if isinstance(value, date | time):
            return self.text(self.written(value), depth)
        return self._plain_of_other(value, depth)

    def _plain_of_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, list | tuple | set | frozenset):
            return self.sequence(value, depth) if depth < DEEPEST else ""
        if hasattr(value, "dtype") and getattr(value, "shape", None) == ():
            kind = getattr(value.dtype, "kind", "")
            if kind == "M":
                return self.text(str(value), depth)
            if kind == "m":
                return self.plain(value.astype("timedelta64[us]").item(), depth)
            item = value.item()  # of a wide float that Python has not, the same once more
            return self.text(str(item), depth) if type(item) is type(value) else self.plain(item, depth)
        if hasattr(value, "tolist") and hasattr(value, "shape"):
            return self.array(value, depth)
        return self.text(str(value), depth)

    def array(self, value: Any, depth: int) -> Any:
        """An array as the list of its values."""
        return self.plain(self.values(value), depth)

    def values(self, array: Any) -> Any:
        """The values of an array; times and durations as NumPy has them, where Python's would be plain numbers."""
        values = array.tolist()
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "mM":
            return values
        if np.datetime_data(array.dtype)[0] in "YM":
            return values
        return list(array) if any(isinstance(value, int) for value in array.ravel().tolist()) else values

    def sequence(self, value: Any, depth: int) -> Any:
        """A list or a set; as a mapping where it may be one."""
        if (pairs := self.pairs(value)) is not None:
            return self.mapping(pairs, depth)
        plain = ["" if is_missing(part) else self.plain(part, depth + 1) for part in value]
        return sorted(plain, key=str) if isinstance(value, set | frozenset) else plain

    def written(self, value: date | time) -> str:
        """A date or a time as text."""
        return value.isoformat()

    def pairs(self, value: Any) -> list[tuple[Any, Any]] | None:
        """The pairs of a list that may be a map: of two parts each, the first of which is no list or object."""
        if not value or isinstance(value, set | frozenset):
            return None
        parts = [self.values(part) if self.may_be_pair(part) else part for part in value]
        if all(isinstance(part, list | tuple) and len(part) == 2 and _may_be_a_name(part[0]) for part in parts):
            return [(name, part) for name, part in parts]
        return None

    def may_be_pair(self, part: Any) -> bool:
        """Whether a part is an array of two values."""
        return getattr(part, "shape", ()) == (2,) and hasattr(part, "dtype")

    def mapping(self, items: Iterable[tuple[Any, Any]], depth: int) -> Any:
        """A mapping of what is not missing. Where two names are one text, all pairs, in an order of their own."""
        pairs = [(self.name(name), self.plain(value, depth + 1)) for name, value in items if not is_missing(value)]
        pairs = [(name, plain) for name, plain in pairs if plain != ""]
        named = dict(pairs)
        if len(named) < len(pairs):
            return sorted(([name, plain] for name, plain in pairs), key=as_json)
        return named or []  # as Parquet's empty maps are

    def name(self, name: Any) -> str:
        """The name of a part: a text as other cells are, but for lists and objects, which are left as they stand."""
        if is_missing(name):
            return ""
        if isinstance(name, bytes | bytearray | memoryview):
            name = bytes(name).decode("utf-8", "backslashreplace")
        if isinstance(name, str):
            return self.plain_text(composed(outlined(name)))
        return str(self.plain(name, DEEPEST) if _may_be_a_name(name) else name)

    def text(self, text: str, depth: int) -> Any:
        """What a text says: a list or an object, a number, a moment, a duration, or itself."""
        text = outlined(text)
        if text[:1] in ("[", "{") and (found := self.json(text, depth)) is not None:
            return found
        return self.plain_text(composed(text))

    def plain_text(self, text: str) -> str:
        """The same of a text that is no list or object."""
        if text[:1] and text[0] in "+-.0123456789":
            if len(text) <= LONGEST_NUMBER and (number := self.number(text)) is not None:
                return number
            if len(text) > LONGEST_PLAIN:
                return text
            return self.moment(text) or _duration(_DURATION, text) or self.words.get(text, text)
        if not text or len(text) > LONGEST_PLAIN:
            return text
        if text[0] == "P":
            return _duration(_ISO_DURATION, text) or text
        return self.words.get(text, text)

    def moment(self, text: str) -> str | None:
        """A date, a time of day or both, if a text says one."""
        return moment_text(text, MILLISECONDS)

    def json(self, text: str, depth: int) -> Any:
        """What a text says in JSON if it is a list or an object, else ``None``."""
        if text[-1] not in "]}" or len(text) > LONGEST_JSON or depth >= DEEPEST:
            return None
        try:
            value = json.loads(text, parse_float=Decimal)
        except (ValueError, RecursionError, ArithmeticError):  # of an exponent that no decimal can have
            return None
        return self.plain(value, depth)

    def bytes_text(self, content: bytes, depth: int) -> Any:
        """Bytes as the text that they are, or in base64."""
        try:
            return self.text(content.decode("utf-8"), depth)
        except UnicodeDecodeError:
            return base64.b64encode(content).decode("ascii")

    def number(self, text: str) -> str | None:
        """A number that is written out, by its value."""
        if not _NUMBER.fullmatch(text):
            return None
        try:
            return self.decimal(Decimal(text))
        except InvalidOperation:
            return None

    def whole(self, value: int) -> str:
        """A whole number; one of more than 40 digits as decimals are written."""
        if value.bit_length() < 130:
            return str(value)
        if value.bit_length() > 1030:
            return self.fraction(math.inf if value > 0 else -math.inf)
        return self.decimal(Decimal(value))

    def decimal(self, number: Decimal) -> str:
        """A decimal by its value, as the float that a file of floats would hold of it."""
        if number.is_finite() and abs(number.adjusted()) >= _EDGE:
            as_float = float(number)
            if not as_float or math.isinf(as_float):
                return self.fraction(as_float)
        return self.within_floats(number)

    def within_floats(self, number: Decimal) -> str:
        """A decimal within the range of floats, or infinity."""
        if not number.is_finite():
            return self.infinity(positive=number > 0)
        if number == number.to_integral_value():
            if number.adjusted() < 40:
                return str(int(number))
            return _shortened(number, 60)
        value = float(number)
        return self.fraction(value) if value and math.isfinite(value) else _shortened(number, 7)

    def infinity(self, *, positive: bool) -> str:  # earlier formats ask
        """Infinity of either sign: no value, as pandas writes it into JSON."""
        return ""

    def fraction(self, value: float) -> str:
        """A float; one that is no whole number as the nearest 32-bit float, since many files hold no more of it."""
        if math.isinf(value):
            return self.infinity(positive=value > 0)
        if value.is_integer():
            return self.decimal(Decimal(repr(value)))
        try:
            rounded = float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return repr(value)
        if not rounded:
            return repr(value)
        return self.decimal(Decimal(repr(rounded))) if rounded.is_integer() else repr(rounded)


def as_json(plain: Any) -> str:
    """Lists and mappings of texts as one text."""
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _may_be_a_name(value: Any) -> bool:
    """Whatever is no list, object or array."""
    return not isinstance(value, Mapping | list | tuple | set | frozenset) and getattr(value, "shape", ()) == ()


def outlined(text: str) -> str:
    """A text with one kind of line end and no outer blanks."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.strip()


def composed(text: str) -> str:
    """A text with its letters composed.

    Many marks on one letter are put in their order first: the time that composing them takes otherwise grows with the
    square of their number.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _runs().sub(_in_order, text) if len(text) > LONGEST_RUN else text)


def _in_order(run: re.Match[str]) -> str:
    marks = (part for mark in run[0] for part in unicodedata.normalize("NFD", mark))
    return "".join(sorted(marks, key=unicodedata.combining))


@lru_cache(maxsize=1)
def _runs() -> re.Pattern[str]:
    """Many characters one after another that are marks on the letter before them."""
    decomposed = ((chr(code), unicodedata.normalize("NFD", chr(code))) for code in range(0x300, 0x1F000))
    marks = [mark for mark, parts in decomposed if unicodedata.combining(parts[0])]
    return re.compile(f"[{''.join(marks)}]{{{LONGEST_RUN},}}")


_EDGE: Final = 308
"""Powers of ten from which on a number may be beyond every float."""
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_DURATION: Final = re.compile(r"(-?[0-9]{1,9}) days?,?(?: \+?([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_ISO_DURATION: Final = re.compile(r"P(-?[0-9]{1,9})DT([0-9]{1,2})H([0-9]{1,2})M([0-9]{1,2})(?:\.([0-9]{1,9}))?S")
"""As pandas writes a duration into JSON."""
_MOMENT: Final = re.compile(
    r"(?:(-[0-9]{1,6}|[0-9]{4,6})-([0-9]{2})-([0-9]{2}))?[T ]?"
    r"(?:([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?)? ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2}){0,2})?"
)


def context(digits: int) -> Context:
    """So many digits, of any exponent that a decimal can have."""
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _shortened(number: Decimal, digits: int) -> str:
    """A number to so many digits; one whose exponent rounding would carry beyond the largest as it is."""
    try:
        return str(number.normalize(context(digits)))
    except ArithmeticError:
        return str(number)


def moment_text(text: str, digits: int) -> str | None:
    """A date, a time of day or both, moved to UTC where an offset is given. Midnight is the date alone.

    Of a second's fraction so many digits are kept. Offsets lead out of Python's years, and so do files' own dates: the
    calendar is the same 400 years later.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    if (year is None and hour is None) or (offset and (year is None or hour is None)):
        return None
    named = int(year or 2000)
    alike = 2000 + named % 400
    try:
        when = datetime(
            alike, int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
            tzinfo=UTC,
        ) - _offset(offset)  # fmt: skip
    except ValueError:
        return None
    part = (fraction or "")[:digits].rstrip("0")
    clock = f"{when:%H:%M:%S}" + (f".{part}" if part else "")
    if year is None:
        return clock
    reached = when.year + named - alike
    day_text = f"{'-' if reached < 0 else ''}{abs(reached):04d}-{when.month:02d}-{when.day:02d}"
    return day_text if clock == "00:00:00" else f"{day_text} {clock}"


def _offset(text: str | None) -> timedelta:
    if text in (None, "Z", "UTC"):
        return timedelta()
    digits = str(text)[1:].replace(":", "")
    span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4] or 0), seconds=int(digits[4:] or 0))
    return -span if str(text)[0] == "-" else span


def _duration(form: re.Pattern[str], text: str) -> str | None:
    match = form.fullmatch(text)
    if match is None:
        return None
    days, hour, minute, second, fraction = match.groups()
    part = (fraction or "")[:6].rstrip("0")
    clock = f"{int(hour or 0):02d}:{int(minute or 0):02d}:{int(second or 0):02d}"
    return f"{int(days)} days {clock}" + (f".{part}" if part else "")


def _clock(span: timedelta) -> str:
    minutes, seconds = divmod(span.seconds, 60)
    part = f"{span.microseconds:06d}".rstrip("0")
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}" + (f".{part}" if part else "")


def column_text(name: str) -> str:
    """The name of a column as texts of cells are, since a column's name may be a date or a number.

    Example:
        >>> [column_text(name) for name in ("2024-01-01 00:00:00", "2024-01-01T00:00:00.000", "text ")]
        ['2024-01-01', '2024-01-01', 'text']
    """
    return TEXTS.column(name)


TEXTS: Final = CellTexts()
