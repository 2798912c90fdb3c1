"""Cells as the second format of fingerprints wrote them. It is not to be changed: ledgers know data sets by it.

It composed letters before it read JSON and left the names of objects as they were, took pairs for a map where Python
has them as tuples alone, told an empty object from an empty list, and kept numbers beyond every float.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, final

from sottovoce.records.cells import CellTexts, composed, decimal_text, is_missing, outlined

_SAME: Final = frozenset({bool, int, float, date, datetime, time, timedelta})
"""Types whose values have the texts that they had."""
_DIGITS: Final = frozenset("+-.0123456789")


def second_text(value: object) -> str:
    """The text of a cell in the second format.

    Example:
        >>> [second_text(v) for v in ([("a", 1)], [["a", 1]], {}, "1e400")]
        ['{"a":"1"}', '[["a","1"]]', '{}', '1E+400']
    """
    return _TEXTS.of(value)


def may_differ(value: object) -> bool:
    """Whether a cell may have another text now: a list, an object, a number with an exponent, or something unusual."""
    if type(value) is str:
        text = value.lstrip()[:42]
        return text[:1] in ("[", "{") or (text[:1] in _DIGITS and "e" in text.lower())
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

    def text(self, text: str, depth: int) -> Any:
        text = composed(outlined(text))
        if text[:1] in ("[", "{"):
            found = self.json(text, depth)
            return text if found is None else found
        return self.plain_text(text)

    def decimal(self, number: Decimal) -> str:
        return decimal_text(number, self)


_TEXTS: Final = _SecondFormat()
