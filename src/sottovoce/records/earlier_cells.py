"""Cells as the second format of fingerprints wrote them. It is not to be changed: ledgers know data sets by it.

It composed letters before it read JSON and left the names of objects as they were, took pairs for a map where Python
has them as tuples alone, told an empty object from an empty list, and kept numbers beyond every float.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, final

from sottovoce.records.cells import LONGEST_PLAIN, CellTexts, composed, decimal_text, is_missing, outlined

_SAME: Final = frozenset({bool, int, float, date, datetime, time, timedelta})
"""Types whose values have the texts that they had, but for very large numbers and times at the edge."""
_WORDS: Final = frozenset({"nan", "NaN", "<NA>", "+Infinity", "-Infinity"})
"""Words for values that were texts."""
_EDGE: Final = re.compile(r"-[0-9]{4}|-Infinity|\+Infinity|[0-9]{5,6}-|(?:0000|0001|9999)-")
_YEARS: Final = re.compile(r"(?!0000)[0-9]{4}-|[0-9]{1,2}:")
"""A date within Python's years, or a time of day."""
_DIGITS: Final = frozenset("+-.0123456789")


def second_text(value: object) -> str:
    """The text of a cell in the second format.

    Example:
        >>> [second_text(v) for v in ([("a", 1)], [["a", 1]], {}, "1e400")]
        ['{"a":"1"}', '[["a","1"]]', '{}', '1E+400']
    """
    return _TEXTS.of(value)


def may_differ(value: object) -> bool:
    """Whether a cell may have another text now: a list, an object, a number with an exponent or of many digits, a time
    at the edge of Python's years, or something unusual."""
    if type(value) is str:
        text = value.lstrip()[:42]
        if text[:1] in _DIGITS:
            return len(text) > LONGEST_PLAIN or "e" in text.lower() or _EDGE.match(text) is not None
        return text[:1] in ("[", "{") or text.rstrip() in _WORDS
    if type(value) is int:
        return value.bit_length() >= 130
    if type(value) is datetime:
        return value.year in (MINYEAR, MAXYEAR)
    return type(value) not in _SAME and not is_missing(value)


@final
class _SecondFormat(CellTexts):
    def sequence(self, value: Any, depth: int) -> Any:
        parts = list(value)
        if parts and all(isinstance(part, tuple) and len(part) == 2 for part in parts):
            return self.mapping(parts, depth)
        plain = ["" if is_missing(part) else self.plain(part, depth + 1) for part in parts]
        return sorted(plain, key=str) if isinstance(value, set | frozenset) else plain

    def mapping(self, items: Iterable[tuple[Any, Any]], depth: int) -> Any:
        return {str(name): self.plain(value, depth + 1) for name, value in items if not is_missing(value)}

    def whole(self, value: int) -> str:
        return str(value) if value.bit_length() < 12_000 else hex(value)  # Python writes no more than 4,300 digits

    def array(self, value: Any, depth: int) -> Any:
        return self.plain(value.tolist(), depth)

    def text(self, text: str, depth: int) -> Any:
        text = composed(outlined(text))
        if text[:1] in ("[", "{"):
            found = self.json(text, depth)
            return text if found is None else found
        return self.plain_text(text)

    def plain_text(self, text: str) -> str:
        if len(text) > LONGEST_PLAIN or text in _WORDS:
            return text
        return super().plain_text(text)

    def moment(self, text: str) -> str | None:
        found = super().moment(text)
        return found if found is not None and _YEARS.match(text) and _YEARS.match(found) else None

    def decimal(self, number: Decimal) -> str:
        return decimal_text(number, self)


_TEXTS: Final = _SecondFormat()
