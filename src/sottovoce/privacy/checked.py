"""Parameters that check themselves: a dataclass whose annotations carry the limits.

A field annotated ``Positive``, ``Whole``, ``Several`` or ``Share`` accepts a number or its text, and refuses everything
else by name, value and limit. ``OneOf`` makes an annotation that accepts a few words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Final, get_args, get_type_hints

from sottovoce.errors import ParameterError

LEAST: Final = 1e-9
MOST: Final = 1e9


@dataclass(frozen=True)
class Number:
    """A limit on a number.

    Attributes:
        least: Smallest accepted value.
        most: Largest accepted value.
        whole: Whether only whole numbers are.
    """

    least: float
    most: float
    whole: bool = False

    @property
    def limit(self) -> str:
        """The limit in words."""
        most = f"{self.most:,.0f}" if self.whole else f"{self.most:g}"
        return f"a {'whole ' if self.whole else ''}number from {self.least:g} to {most}"

    def read(self, name: str, value: object) -> float:
        """The value as a number.

        Raises:
            ParameterError: It is not one, or not within the limit.
        """
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(name, value, self.limit) from None
        if isinstance(value, bool) or not self.least <= number <= self.most or (self.whole and number % 1):
            raise ParameterError(name, value, self.limit)
        return int(number) if self.whole else number


@dataclass(frozen=True)
class OneOf:
    """A limit on a word."""

    words: tuple[str, ...]

    @property
    def limit(self) -> str:
        """The limit in words."""
        return f"one of {', '.join(self.words)}"

    def read(self, name: str, value: object) -> str:
        """The word.

        Raises:
            ParameterError: It is none of them.
        """
        if value not in self.words:
            raise ParameterError(name, value, self.limit)
        return str(value)


@dataclass(frozen=True)
class YesNo:
    """A limit on a switch."""

    limit: str = "true or false"

    def read(self, name: str, value: object) -> bool:
        """The switch.

        Raises:
            ParameterError: It is something else, such as a word, which would count as true.
        """
        if not isinstance(value, bool):
            raise ParameterError(name, value, self.limit)
        return value


Positive = Annotated[float, Number(LEAST, MOST)]
"""A number above 0."""
Whole = Annotated[int, Number(1, 10**9, whole=True)]
"""A whole number, 1 or more."""
Several = Annotated[int, Number(2, 10**9, whole=True)]
"""A whole number, 2 or more."""
Share = Annotated[float, Number(LEAST, 1 - LEAST)]
"""A number between 0 and 1."""
Tiny = Annotated[float, Number(1e-15, 0.5)]
"""A small probability above 0."""
Switch = Annotated[bool, YesNo()]
"""True or false."""


@cache
def limits_of(cls: type) -> dict[str, tuple[Number | OneOf | YesNo, bool]]:
    """Each checked field's limit, and whether the field may be absent.

    Example:
        >>> limits_of(int)
        {}
    """
    hints, found = get_type_hints(cls, include_extras=True), {}
    for name in getattr(cls, "__dataclass_fields__", {}):
        options = [hints[name], *get_args(hints[name])]
        metadata = [mark for option in options for mark in getattr(option, "__metadata__", ())]
        if metadata:
            found[name] = (metadata[0], type(None) in options)
    return found


@dataclass(frozen=True)
class Checked:
    """A frozen dataclass that reads and checks its fields when it is made.

    Raises:
        ParameterError: A field is out of its limit.

    Example:
        >>> @dataclass(frozen=True)
        ... class Clipped(Checked):
        ...     clip: Positive
        >>> Clipped("2.5").clip
        2.5
    """

    def __post_init__(self) -> None:
        kind: Any = type(self)
        limits = limits_of(kind)
        for field in fields(self):
            if field.name in limits:
                limit, optional = limits[field.name]
                value: Any = getattr(self, field.name)
                if not (optional and value is None):
                    object.__setattr__(self, field.name, limit.read(field.name, value))
