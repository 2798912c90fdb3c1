"""Cells as earlier formats of fingerprints wrote them. None is to be changed: ledgers know data sets by them.

Each format says what it did otherwise than the one after it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final, final

from sottovoce.records.cells import LONGEST_PLAIN, CellTexts, composed, is_missing, moment_text, outlined

_BOOLEANS: Final = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
_YEARS: Final = re.compile(r"(?!0000)[0-9]{4}-|[0-9]{1,2}:")
"""A date within Python's years, or a time of day."""
_SHORT_YEAR: Final = re.compile(r"-[0-9]{1,3}-")
_EDGE: Final = re.compile(r"-[0-9]{1,6}-|[0-9]{5,6}-|(?:0000|0001|9999)-|[0-9T: -]*:[0-9]{2}[.,]")
"""A time beyond or at the edge of Python's years, or one with a fraction of a second."""
_DIGITS: Final = frozenset("+-.0123456789")
_SAME: Final = frozenset({bool, date, timedelta})
"""Types whose values have the texts that they had."""


class _FourthFormat(CellTexts):
    """Counted times to the nanosecond, infinity, fewer words for no value, names of columns as they were, and years
    between -999 and -1 as texts, in a data frame as NumPy writes them."""

    words: ClassVar[Mapping[str, str]] = {
        **_BOOLEANS, "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf",
        **dict.fromkeys(("NaT", "nan", "NaN", "<NA>"), ""),
    }  # fmt: skip

    def _column(self, name: str) -> str:
        return name

    def written(self, value: date | time) -> str:
        moment: Callable[[], object] | None = getattr(value, "to_numpy", None)
        if moment is None or not isinstance(value, datetime) or MINYEAR <= value.year <= MAXYEAR:
            return value.isoformat()
        return f"{moment()}Z" if value.tzinfo else str(moment())

    def moment(self, text: str) -> str | None:
        return None if _SHORT_YEAR.match(text) else moment_text(text, 9)

    def infinity(self, *, positive: bool) -> str:
        return "inf" if positive else "-inf"


class _ThirdFormat(_FourthFormat):
    """Took long numbers, times beyond Python's years, and some words for texts, times in nanoseconds that NumPy has in
    arrays for numbers, and two bytes for a pair."""

    words: ClassVar[Mapping[str, str]] = {**_BOOLEANS, "Infinity": "inf", "NaT": ""}

    def whole(self, value: int) -> str:
        return str(value) if value.bit_length() < 12_000 else hex(value)  # Python writes no more than 4,300 digits

    def values(self, array: Any) -> Any:
        return array.tolist()

    def written(self, value: date | time) -> str:
        return value.isoformat()

    def may_be_pair(self, part: Any) -> bool:
        return getattr(part, "shape", ()) == (2,)

    def plain_text(self, text: str) -> str:
        return text if len(text) > LONGEST_PLAIN else super().plain_text(text)

    def moment(self, text: str) -> str | None:
        found = super().moment(text)
        return found if found is not None and _YEARS.match(text) and _YEARS.match(found) else None


@final
class _SecondFormat(_ThirdFormat):
    """Composed letters before it read JSON and left the names of objects as they were, took pairs for a map where
    Python has them as tuples alone, told an empty object from an empty list, and kept numbers beyond every float."""

    def sequence(self, value: Any, depth: int) -> Any:
        parts = list(value)
        if parts and all(isinstance(part, tuple) and len(part) == 2 for part in parts):
            return self.mapping(parts, depth)
        plain = ["" if is_missing(part) else self.plain(part, depth + 1) for part in parts]
        return sorted(plain, key=str) if isinstance(value, set | frozenset) else plain

    def mapping(self, items: Iterable[tuple[Any, Any]], depth: int) -> Any:
        return {str(name): self.plain(value, depth + 1) for name, value in items if not is_missing(value)}

    def text(self, text: str, depth: int) -> Any:
        text = composed(outlined(text))
        if text[:1] in ("[", "{"):
            found = self.json(text, depth)
            return text if found is None else found
        return self.plain_text(text)

    def decimal(self, number: Decimal) -> str:
        return self.within_floats(number)


EARLIER: Final[tuple[CellTexts, ...]] = (_FourthFormat(), _ThirdFormat(), _SecondFormat())
"""The newest first."""
_WORDS: Final = frozenset({*CellTexts.words, *_FourthFormat.words})


def may_differ(value: object) -> bool:
    """Whether a cell may have another text now than in one of these formats: a list, an object, a number with an
    exponent or of many digits, infinity, a word for no value, a time with a fraction of a second or at the edge of
    Python's years, or something unusual."""
    if type(value) is str:
        text = value.strip()
        if text[:1] in _DIGITS:
            return len(text) > LONGEST_PLAIN or "e" in text.lower() or _EDGE.match(text) is not None or text in _WORDS
        return text[:1] in ("[", "{") or text in _WORDS
    if type(value) is int:
        return value.bit_length() >= 130
    if type(value) is float:
        return math.isinf(value)
    if type(value) is datetime:
        return value.year in (MINYEAR, MAXYEAR) or value.microsecond > 0
    if type(value) is time:
        return value.microsecond > 0
    return type(value) not in _SAME and not is_missing(value)
