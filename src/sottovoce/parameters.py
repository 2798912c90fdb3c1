"""How values are checked: limits, which refuse everything else by name, value and limit.

A function says ``LIMIT.read("name", value)``. A frozen dataclass that is ``Checked`` carries the limits in its
annotations: a field annotated ``Positive``, ``Whole``, ``Several`` or ``Share`` accepts a number or its text. What
relates two values to each other is checked where both are known.
"""

from __future__ import annotations

import difflib
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, TypeVar, final, get_args, get_origin, get_type_hints

from sottovoce.errors import GIVEN, ParameterError

LEAST: Final = 1e-9
MOST: Final = 1e9

T = TypeVar("T")


@dataclass(frozen=True)
class Number:
    """A limit on a number.

    Attributes:
        least: Smallest accepted value.
        most: Largest accepted value.
        whole: Whether only whole numbers are.
        above_least: Whether ``least`` itself is refused.
        below_most: Whether ``most`` itself is refused.
        or_zero: Whether 0 is accepted too.
        strict: Whether a text, a fraction, and a float for a whole number, are refused.
        exact: Whether a ``Fraction`` comes back as it is; a ``WorkedOut`` or ``Root`` does past the limit too.
        words: The limit in words, where the usual ones say too little.

    Example:
        >>> Number(1, 8, whole=True).read("k", "3")
        3
        >>> Number(0, 1, above_least=True).limit
        'a number above 0 and at most 1'
    """

    least: float
    most: float = math.inf
    _: KW_ONLY
    whole: bool = False
    above_least: bool = False
    below_most: bool = False
    or_zero: bool = False
    strict: bool = False
    exact: bool = False
    words: str = ""

    @property
    def limit(self) -> str:
        """The limit in words."""
        if self.words:
            return self.words
        noun = f"{'0, or ' if self.or_zero else ''}a {'whole ' if self.whole else ''}number"
        least, most = f"{self.least:g}", f"{self.most:,.0f}" if self.whole else f"{self.most:g}"
        if math.isinf(self.most):
            finite = ", and finite" if self.below_most else ""
            return f"{noun} above {least}{finite}" if self.above_least else f"{noun}, {least} or more{finite}"
        if not self.above_least and not self.below_most:
            return f"{noun} from {least} to {most}"
        low = f"{noun} above {least}" if self.above_least else f"{noun}, {least} or more"
        return f"{low} and {'below' if self.below_most else 'at most'} {most}"

    def read(self, name: str, value: object) -> Any:
        """The value as a number, if it is within the limit.

        Raises:
            ParameterError: It is not one, or not within the limit.
        """
        number = _plain(value) if self.strict else _typed(value)
        if self.exact and number and number > 0 and isinstance(value, WorkedOut | Root):
            return value
        if number is None or (self.whole and not _is_whole(number, self.strict)) or not self._holds(number):
            raise ParameterError(name, value, self.limit)
        if self.exact and isinstance(value, Fraction):
            return value
        return int(number) if self.whole else number

    def _holds(self, number: float) -> bool:
        if self.or_zero and number == 0:
            return True
        low = number > self.least if self.above_least else number >= self.least
        return low and (number < self.most if self.below_most else number <= self.most)


def _plain(value: object) -> int | float | None:
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational) else None


def _typed(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | numbers.Number | Root):
        return None  # a switch of NumPy's reads as a float, and is no number
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _is_whole(number: float, strict: bool) -> bool:
    return isinstance(number, int) if strict else number % 1 == 0


@final
class WorkedOut(Fraction):
    """An exact number that was worked out from parameters in range, and may itself lie outside of its own.

    Example:
        >>> float(WorkedOut(1, 4))
        0.25
    """

    __slots__ = ()


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


@final
@dataclass(frozen=True)
class ExactNumber:
    """A limit on a number that must be exact: a whole number or a ``Fraction``.

    Attributes:
        least: Smallest accepted value.
        most: Largest accepted value; ``None`` for any.
        above_least: Whether ``least`` itself is refused.
    """

    least: int
    most: int | None = None
    above_least: bool = False

    @property
    def limit(self) -> str:
        """The limit in words."""
        least = f"above {self.least}" if self.above_least else f"of {self.least} or more"
        return f"a whole number or a Fraction {least}" + ("" if self.most is None else f", and at most {self.most:,}")

    def read(self, name: str, value: object) -> Fraction:
        """The value as a fraction.

        Raises:
            ParameterError: It is not exact, or not within the limit.
        """
        if isinstance(value, bool) or not isinstance(value, Fraction | int):
            raise ParameterError(name, value, self.limit)
        low = value > self.least if self.above_least else value >= self.least
        if not low or (self.most is not None and value > self.most):
            raise ParameterError(name, value, self.limit)
        return Fraction(value)


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
        if not isinstance(value, str) or value not in self.words:
            raise ParameterError(name, value, self.limit + nearest(value, self.words))
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


@final
@dataclass(frozen=True)
class Kind:
    """A limit on what an argument is. The argument may be private: its value is not shown.

    Attributes:
        kinds: The accepted types.
        limit: The limit in words.
    """

    kinds: type | tuple[type, ...]
    limit: str

    def read(self, name: str, value: T) -> T:
        """The argument.

        Raises:
            ParameterError: It is of another kind.
        """
        if not isinstance(value, self.kinds):
            raise ParameterError(name, type(value), self.limit)
        return value


FLAG: Final = Kind(bool, "True or False")
CALLED: Final = Kind((Callable, NoneType), "a function, or left out")  # type: ignore[arg-type]


def is_several(value: object) -> bool:
    """Whether something holds several things, one after another: no text, no mapping, no array or frame of other
    dimensions than one (a data frame holds the names of its columns).
    """
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping) and getattr(value, "ndim", 1) == 1


@final
@dataclass(frozen=True)
class Able:
    """A limit on an argument that is a name to be looked up, or has a method.

    Attributes:
        method: The name of the method.
        limit: The limit in words.
    """

    method: str
    limit: str

    def read(self, name: str, value: T) -> T:
        """The argument.

        Raises:
            ParameterError: It is neither a text nor has the method.
        """
        if not isinstance(value, str) and not callable(getattr(value, self.method, None)):
            raise ParameterError(name, type(value), self.limit)
        return value


Positive = Annotated[float, Number(LEAST, MOST, exact=True)]
"""A number above 0."""
Whole = Annotated[int, Number(1, 10**9, whole=True)]
"""A whole number, 1 or more."""
Several = Annotated[int, Number(2, 10**9, whole=True)]
"""A whole number, 2 or more."""
Share = Annotated[float, Number(LEAST, 1 - LEAST, exact=True)]
"""A number between 0 and 1."""
Tiny = Annotated[float, Number(1e-15, 0.5, exact=True)]
"""A small probability above 0."""
Switch = Annotated[bool, YesNo()]
"""True or false."""


@final
class FileName:
    """A limit on the name of a file: what no file can be called is refused in words."""

    def read(self, name: str, value: str | os.PathLike[str]) -> Path:
        """The path.

        Raises:
            ParameterError: It is no name, or has a character that no name can have.
        """
        text = os.fspath(Kind((str, os.PathLike), "a file name").read(name, value))
        Kind(str, "a file name as a text, not as bytes").read(name, text)
        try:
            known = b"\0" not in os.fsencode(text)
        except ValueError:
            known = False
        if not known:
            raise ParameterError(name, GIVEN, "a file name without null characters and lone surrogates")
        return Path(text)


FILE_NAME: Final = FileName()

COUNT: Final = Number(1, whole=True, strict=True)
"""A number of things, at least one."""
PLANNED: Final = Number(1, 10**12, whole=True, strict=True)
"""A number of things that somebody plans with, small enough to be worked with as a float."""
AT_ONCE: Final = Number(0, 10**12, whole=True, strict=True)
"""A number of answers that are compared with a budget."""
SIZE: Final = Number(0, whole=True, strict=True)
"""A number of things, which may be none."""


@cache
def limits_of(cls: type) -> dict[str, tuple[Number | OneOf | YesNo, bool]]:
    """Each checked field's limit, and whether the field may be absent.

    Example:
        >>> limits_of(int)
        {}
    """
    hints, limits = get_type_hints(cls, include_extras=True), {}
    for name in getattr(cls, "__dataclass_fields__", {}):
        options = [hints[name], *get_args(hints[name])]
        metadata = [mark for option in options for mark in getattr(option, "__metadata__", ())]
        if metadata:
            limits[name] = (metadata[0], type(None) in options)
    return limits


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
    """Every field that a dataclass is made from as an option, in the order of the class; of another class, nothing.

    A field with ``init=False``, such as a lock, is no option: nobody can give it, and no certificate could hold it.

    Example:
        >>> @dataclass(frozen=True)
        ... class Clipped:
        ...     clip: float = 2.5
        ...     top_k: int | None = None
        >>> [option.words for option in options_of(Clipped).values()]
        ['clip=2.5', 'top_k=none']
    """
    return dict(_options_of(cls))


def fields_of(made: object) -> dict[str, Any]:
    """What every field of an object of a dataclass holds, also one that it works out by itself; else nothing.

    Example:
        >>> @dataclass(frozen=True)
        ... class Clipped:
        ...     clip: float = 2.5
        >>> fields_of(Clipped(3.0)), fields_of(3.0)
        ({'clip': 3.0}, {})
    """
    return {each.name: getattr(made, each.name) for each in fields(made)} if is_dataclass(made) else {}


@cache
def _options_of(cls: Any) -> dict[str, Option]:
    limits, hints = limits_of(cls), get_type_hints(cls)
    result = {}
    for field in fields(cls) if is_dataclass(cls) else ():
        if not field.init:
            continue
        kinds = [kind for kind in (get_args(hints[field.name]) or (hints[field.name],)) if kind is not type(None)]
        kind = kinds[0] if kinds and isinstance(kinds[0], type) else str
        optional = type(None) in get_args(hints[field.name])
        limit = limits[field.name][0].limit if field.name in limits else ""
        checked = field.name in limits and issubclass(cls, Checked)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        result[field.name] = Option(field.name, default, limit, optional, get_origin(kind) or kind, checked)
    return result


def nearest(name: object, known: Sequence[str]) -> str:
    """The known name that was probably meant, in words; empty where none is near.

    Example:
        >>> nearest("clp", ["clip", "noise"])
        "; did you mean 'clip'?"
    """
    near = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""


def shown(value: Any) -> str:
    """A value as it is typed."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float | Fraction) else str(value)


def read_fields(made: object, **limits: Number | OneOf | YesNo) -> None:
    """Reads fields of a frozen dataclass that is being made: each holds afterwards what its limit gave.

    Raises:
        ParameterError: A field is out of its limit.

    Example:
        >>> @dataclass(frozen=True)
        ... class Sized:
        ...     size: int
        ...     def __post_init__(self):
        ...         read_fields(self, size=Number(1, 8, whole=True))
        >>> Sized("3").size
        3
    """
    for name, limit in limits.items():
        object.__setattr__(made, name, limit.read(name, getattr(made, name)))


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
                if not (optional and getattr(self, field.name) is None):
                    read_fields(self, **{field.name: limit})


@dataclass(frozen=True)
class CheckedFloats(Checked):
    """A ``Checked`` whose numbers are plain ones, as a certificate writes them down.

    A ``Fraction`` or ``Root`` is the nearest float: it is priced, used and certified as that.

    Raises:
        ParameterError: A field is out of its limit.

    Example:
        >>> @dataclass(frozen=True)
        ... class Clipped(CheckedFloats):
        ...     clip: Positive
        >>> Clipped(Fraction(5, 2)), Clipped(Root(Fraction(4)))
        (Clipped(clip=2.5), Clipped(clip=2.0))
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Fraction | Root):
                object.__setattr__(self, field.name, _as_float(value))
        super().__post_init__()  # what comes back exact may be past the limit


def _as_float(value: Fraction | Root) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
