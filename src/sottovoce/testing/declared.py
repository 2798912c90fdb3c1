"""What the declaration of a class says of its options: their choices, the limits of their numbers, their defaults.

A choice is declared by ``Annotated[str, OneOf(...)]``, ``Literal[...]``, ``bool``, an ``Enum``, a union of these, or
``field(metadata={"choices": (...)})``. The annotations of a class that is no dataclass are those of its constructor.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, InitVar, dataclass, fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, Literal, Union, final, get_args, get_origin, get_type_hints

from sottovoce.parameters import Number, OneOf
from sottovoce.testing.report import ContractError

MOST_STEPS: Final = 1_000_000
"""Whole numbers above it are left out: as many steps of anything take too long."""
NUMBERS: Final = (int, float, Fraction, Decimal)


@final
@dataclass(frozen=True)
class Declared:
    """One option of a class.

    Attributes:
        name: What it is given by.
        hint: Its annotation; ``None`` where there is none.
        default: Its default; ``MISSING`` where there is none.
        words: The choices that the field's metadata says.
    """

    name: str
    hint: Any
    default: Any
    words: tuple[Any, ...] | None = None

    @property
    def choices(self) -> tuple[Any, ...]:
        """Every value that it may have, of those that are declared one by one."""
        if self.words is not None:
            return self.words
        every = [value for part in parts_of(self.hint) for value in _values(part)]
        return tuple(value for _, value in dict.fromkeys((type(value), value) for value in every))

    @property
    def is_open_text(self) -> bool:
        """Whether it may be a text that is no declared choice."""
        if self.words is not None:
            return False
        said = isinstance(self.default, str) and not any(self.default == choice for choice in self.choices)
        return said or any(_is_text(part) for part in parts_of(self.hint))

    @property
    def is_number(self) -> bool:
        """Whether it may be a number."""
        return any(part in NUMBERS for part in parts_of(self.hint))

    @property
    def limit(self) -> Number | None:
        """The limit on its numbers, if one is declared."""
        return next((mark for mark in _marks(self.hint) if isinstance(mark, Number)), None)

    @property
    def numbers(self) -> Sequence[float]:
        """Numbers inside its limit: in the middle, the least and the most, as far as these are finite."""
        if self.limit is None:
            return ()
        ends = ends_of(self.limit)
        middle = [math.fsum(ends) / 2] if len(ends) == 2 else []
        return [int(number) if self.limit.whole else number for number in (*middle, *ends)]


def declared_by(cls: type) -> list[Declared]:
    """Every option that a class can be made with by its name; private names are none.

    Raises:
        ContractError: An annotation cannot be read.
    """
    own = {each.name: each for each in fields(cls) if each.init} if is_dataclass(cls) else {}
    parameters = {each.name: each for each in parameters_of(cls)}
    if own and not all(each.kind in NAMED for each in parameters.values()):
        parameters = {}  # its own ``__new__`` says less
    names = [name for name, each in parameters.items() if each.kind in NAMED] or [*own]
    hints = _hints(cls, names)
    found = []
    for name in names:
        if name.startswith("_"):
            continue
        default: Any = MISSING
        words = None
        if name in own:
            default, words = own[name].default, own[name].metadata.get("choices")
            factory: Any = own[name].default_factory
            if factory is not MISSING:
                default = factory()
        elif parameters[name].default is not inspect.Parameter.empty:
            default = parameters[name].default
        hint = hints.get(name)
        found.append(
            Declared(
                name, hint.type if isinstance(hint, InitVar) else hint, default, None if words is None else (*words,)
            )
        )
    return found


NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def parameters_of(kind: type[Any]) -> Sequence[inspect.Parameter]:
    """Those of a class's constructor; none of a class that does not say."""
    try:
        return [*inspect.signature(kind).parameters.values()]
    except ValueError:
        return []


def inner_choices(option: Declared) -> list[Any]:
    """The default of an option that is a dataclass, with each other choice of an option of its own, and so on inside.

    Where the default is none, of an instance with the defaults of its class, and that one.
    """
    absent = option.default is None
    kinds = [part for part in parts_of(option.hint) if isinstance(part, type) and is_dataclass(part)] if absent else []
    found = list[Any]()
    with suppress(Exception, ContractError):  # of a class of somebody's own
        found += [kind() for kind in kinds]
    for held in [option.default, *found]:
        if is_dataclass(held) and not isinstance(held, type):
            found += _inside(held)
    return found


def _inside(held: Any) -> Iterator[Any]:
    """A dataclass's instance with one choice inside it each."""
    try:
        inside = declared_by(type(held))
    except ContractError:
        return
    for inner in inside:
        now = replace(inner, default=getattr(held, inner.name, inner.default))
        for value in (*inner.choices, *inner_choices(now)):
            with suppress(Exception):  # of a class of somebody's own
                yield replace(held, **{inner.name: value})


def ends_of(limit: Number) -> tuple[float, ...]:
    """The least and the most that a number may be, as far as they are finite."""
    least = math.nextafter(limit.least, math.inf) if limit.above_least else limit.least
    most = math.nextafter(limit.most, -math.inf) if limit.below_most else limit.most
    tried = [end for end in (least, most) if math.isfinite(end) and not (limit.whole and end > MOST_STEPS)]
    return tuple(int(end) if limit.whole else end for end in tried)


def parts_of(hint: Any) -> Iterator[Any]:
    """A type, or the members of a union other than ``None``; what a name or a note of a type stands for."""
    if get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            if part is not NoneType:
                yield from parts_of(part)
    elif get_origin(hint) is Final and get_args(hint):
        yield from parts_of(get_args(hint)[0])
    elif hasattr(hint, "__supertype__"):
        yield from parts_of(hint.__supertype__)
    elif hasattr(hint, "__metadata__"):
        words = [mark.words for mark in hint.__metadata__ if isinstance(mark, OneOf)]
        yield from [Literal[tuple(words[0])]] if words else parts_of(hint.__origin__)
    else:
        yield hint


def _marks(hint: Any) -> Iterator[Any]:
    """Notes of a type, or of the members of a union."""
    yield from getattr(hint, "__metadata__", ())
    inside = get_args(hint) if get_origin(hint) in (Union, UnionType) else [getattr(hint, "__origin__", None)]
    for part in inside:
        if part is not None and part is not hint:
            yield from _marks(part)


def _hints(cls: type, names: Sequence[str]) -> Mapping[str, Any]:
    """Annotations of a class; of its constructor those that the class itself lacks, as far as they can be read."""
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception as error:
        problem = f"its annotations cannot be read ({error}); import what they name when the check runs, too"
        raise ContractError("drive", cls.__name__, problem) from error
    made: Any = cls.__init__  # type: ignore[misc]
    for name in set(names) - hints.keys():
        one = SimpleNamespace(__annotations__={name: getattr(made, "__annotations__", {}).get(name, Any)})
        with suppress(Exception):  # what is imported for type checkers alone is not known here
            hints |= get_type_hints(one, getattr(made, "__globals__", {}), include_extras=True)
    return hints


def _values(part: Any) -> Sequence[Any]:
    if get_origin(part) is Literal:
        return get_args(part)
    if part is bool:
        return (False, True)
    return tuple(part) if isinstance(part, type) and issubclass(part, Enum) else ()


def _is_text(part: Any) -> bool:
    """Whether a type is a text, or holds texts; of a mapping values count, since its keys are names."""
    origin = get_origin(part)
    if not (isinstance(origin, type) and issubclass(origin, Collection)):
        return part is str
    held = get_args(part)[1 if issubclass(origin, Mapping) else 0 :]
    return any(_is_text(inner) for each in held for inner in parts_of(each))
