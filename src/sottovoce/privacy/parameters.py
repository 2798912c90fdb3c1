"""Parameters that check themselves: a dataclass whose annotations carry the limits.

A field annotated ``Positive``, ``Whole``, ``Several`` or ``Share`` accepts a number or its text, and refuses everything
else by name, value and limit. ``OneOf`` makes an annotation that accepts a few words.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Final, final, get_args, get_origin, get_type_hints

from sottovoce.errors import ParameterError

LEAST: Final = 1e-9
MOST: Final = 1e9
MAX_EPSILON: Final = 1_000.0
MIN_EPSILON: Final = 1e-6
MAX_ORDER: Final = 1e6
MIN_ORDER: Final = 1.001


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
        """The value as a number; an exact one stays exact.

        Raises:
            ParameterError: It is not one, or not within the limit.
        """
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(name, value, self.limit) from None
        if isinstance(value, Fraction | Root) and number > 0:  # worked out from parameters that were in range
            return value  # type: ignore[return-value]
        if isinstance(value, bool) or not self.least <= number <= self.most or (self.whole and number % 1):
            raise ParameterError(name, value, self.limit)
        return int(number) if self.whole else number


@final
@dataclass(frozen=True)
class Root:
    """The square root of an exact number: a deviation of noise whose variance loses nothing to rounding.

    Example:
        >>> float(Root(Fraction(2)))
        1.4142135623730951
    """

    square: Fraction

    def __float__(self) -> float:
        return math.sqrt(self.square)


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


NOTHING: Final = "none"
"""How an option that may be absent is said to be."""
SWITCH: Final = {"true": True, "yes": True, "false": False, "no": False}


@final
@dataclass(frozen=True)
class Option:
    """A field of a dataclass as an option that is typed.

    Attributes:
        name: The field's.
        default: Its default; ``MISSING`` where it has none.
        limit: What it accepts, in words; empty where only its type is known.
        optional: Whether it may be absent.
        kind: Its type: ``float``, ``int``, ``bool`` or ``str``.
        reads_text: Whether the dataclass reads a text itself.
    """

    name: str
    default: Any
    limit: str
    optional: bool
    kind: type
    reads_text: bool = False

    @property
    def words(self) -> str:
        """The option with its default and its limit, in one line."""
        default = "" if self.default is MISSING else f"={shown(self.default)}"
        return f"{self.name}{default}" + (f" ({self.limit})" if self.limit else "")

    def read(self, text: object) -> Any:
        """The value that was typed. Its range is the dataclass's own business.

        Raises:
            ParameterError: It is not of the option's type.
        """
        if not isinstance(text, str):
            return text
        if self.optional and text.strip().lower() == NOTHING:
            return None
        if self.kind is bool:
            if text.strip().lower() not in SWITCH:
                raise ParameterError(self.name, text, YesNo().limit)
            return SWITCH[text.strip().lower()]
        if self.kind not in (int, float) or self.reads_text:
            return text
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isnan(number) or (self.kind is int and (math.isinf(number) or number % 1)):
            whole = "a whole number" if self.kind is int else "a number"
            raise ParameterError(self.name, text, self.limit or whole)
        return int(text) if self.kind is int and text.strip().lstrip("+-").isdigit() else self.kind(number)


def options_of(cls: type) -> dict[str, Option]:
    """Every field of a dataclass as an option, in the order of the class; of another class, nothing.

    Example:
        >>> @dataclass(frozen=True)
        ... class Clipped:
        ...     clip: float = 2.5
        ...     top_k: int | None = None
        >>> [option.words for option in options_of(Clipped).values()]
        ['clip=2.5', 'top_k=none']
    """
    return dict(_options_of(cls))


@cache
def _options_of(cls: Any) -> dict[str, Option]:
    limits, hints = limits_of(cls), get_type_hints(cls)
    found = {}
    for field in fields(cls) if is_dataclass(cls) else ():
        kinds = [kind for kind in (get_args(hints[field.name]) or (hints[field.name],)) if kind is not type(None)]
        kind = kinds[0] if kinds and isinstance(kinds[0], type) else str
        optional = type(None) in get_args(hints[field.name])
        limit = limits[field.name][0].limit if field.name in limits else ""
        checked = field.name in limits and issubclass(cls, Checked)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        found[field.name] = Option(field.name, default, limit, optional, get_origin(kind) or kind, checked)
    return found


def shown(value: Any) -> str:
    """A value as it is typed."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float | Fraction) else str(value)


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


def require_epsilon(value: object, name: str = "epsilon") -> float:
    """Checks an epsilon given by a person, as a number or as text.

    Raises:
        ParameterError: It is not a number, not finite, below 1e-6 or above 1000.

    Example:
        >>> require_epsilon("0.5")
        0.5
    """
    number = _number(value, name, f"a number from {MIN_EPSILON:g} to {MAX_EPSILON:g}")
    if not MIN_EPSILON <= number <= MAX_EPSILON:
        raise ParameterError(name, value, f"from {MIN_EPSILON:g} to {MAX_EPSILON:g}")
    return number


def require_delta(value: object, name: str = "delta") -> float:
    """Checks a delta: 0 for pure differential privacy, else from 1e-15 to below 1.

    Raises:
        ParameterError: It is not such a number.
    """
    limit = "0, or from 1e-15 to below 1 (1e-6 is usual, and well below one over the number of records)"
    number = _number(value, name, limit)
    if number != 0 and not 1e-15 <= number < 1:
        raise ParameterError(name, value, limit)
    return number


def require_order(value: object, name: str = "alpha") -> float:
    """Checks an order of a Renyi divergence.

    Raises:
        ParameterError: It is not a number from 1.001 to 1,000,000.
    """
    limit = f"a Renyi order from {MIN_ORDER:g} to {MAX_ORDER:g}, such as 16"
    number = _number(value, name, limit)
    if not MIN_ORDER <= number <= MAX_ORDER:
        raise ParameterError(name, value, limit)
    return number


def _number(value: object, name: str, limit: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, value, limit) from None
    if isinstance(value, bool) or not math.isfinite(number):
        raise ParameterError(name, value, limit)
    return number
