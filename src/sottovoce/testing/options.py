"""The settings at which an entry is driven: its defaults, every word and switch that an option accepts, other numbers,
and a number for what is absent by default.

They are read off the dataclass: ``Annotated[str, OneOf(...)]``, ``Literal[...]``, ``bool``, an ``Enum``, or
``field(metadata={"choices": (...)})``. A new choice is driven because it is declared; an option of type ``str`` that
declares none cannot be driven, and fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from sottovoce.errors import InputError, SottoError
from sottovoce.parameters import Number, OneOf
from sottovoce.testing.another_process import NoAnswerError, of_a_copy
from sottovoce.testing.constructions import Construction, construction_of, hidden
from sottovoce.testing.fingerprints import are_equal
from sottovoce.testing.report import ContractError, Effort

COMPANIONS: Final[tuple[float, ...]] = (0.25, 2)
"""Numbers that are tried for an optional one: beside a choice that needs it, and alone."""
OTHER_COMPANIONS: Final[tuple[float, ...]] = (0.25, 1, 4)
"""Numbers for one that is absent by default, other than the one that a quick run tries."""
_MOST_STEPS: Final = 1_000_000
_SETTLED: Final = ("dials", "priced_too", "calibrated_parameters")
"""Attributes of an entry that name parameters which a price settles."""


def settings_of(cls: type, effort: Effort) -> Iterator[Any]:
    """Instances of an entry: the default one, then one for every choice that an option accepts.

    A choice that is refused alone is tried with the other choices and with one optional number beside it.

    Raises:
        ContractError: The class cannot be made without arguments, an option declares no choices, or a declared choice
            is refused however it is combined.
    """
    choices, numbers = choices_of(cls), numbers_of(cls)
    try:
        default = cls()
    except (TypeError, InputError) as error:
        raise ContractError(
            "drive",
            cls.__name__,
            f"it cannot be made without arguments ({error}); give every option a default, or pass an instance",
        ) from error
    yield default
    known = [default]
    for name, values in choices.items():
        for value in values:
            if are_equal(value, getattr(default, name)):
                continue
            instance = _with(cls, name, value, choices)
            if instance is None:
                raise ContractError(
                    "drive", cls.__name__, f"the option {name}={value!r} is declared and always refused"
                )
            if not any(are_equal(instance, each) for each in known):
                known.append(instance)
                yield instance
    for name, value in numbers.items():
        for other in () if _is_among(value, choices.get(name, ())) else _other_numbers(value, effort):
            instance = _made(cls, {name: other}, refused=Exception)
            if instance is not None:
                yield instance
    for name in _unset(default, choices):
        made = [
            instance for number in COMPANIONS if (instance := _made(cls, {name: number}, refused=Exception)) is not None
        ]
        for instance in made if effort is Effort.FULL else made[-1:]:
            if not any(are_equal(instance, each) for each in known):
                yield instance


def with_other_numbers(entry: Any) -> tuple[dict[str, list[Construction]], list[str]]:
    """A class with another number in one place of one option, by place; and what cannot be another one.

    Half is first, then one more or twice as much. All other options have their defaults. A choice is left out, since
    every choice is driven; of an option without a number by default there are several numbers. Of an instance there
    are none.
    """
    if not isinstance(entry, type):
        return {}, []
    construction, lost = construction_of(entry)
    choices, found = choices_of(entry), dict[str, list[Construction]]()
    for name, value in construction.arguments.items():
        if not _is_among(value, choices.get(name, ())):
            found |= Construction(entry, {name: value}).others()
            lost += hidden(value, name)
    for name in _unset_of(entry, choices):
        found[name] = [Construction(entry, {name: number}) for number in OTHER_COMPANIONS]
    return found, lost


def _is_among(value: Any, choices: Sequence[Any]) -> bool:
    """Whether a value is one of some choices, of their type: a number may stand beside words or a switch."""
    return any(type(value) is type(choice) and are_equal(value, choice) for choice in choices)


def choices_of(cls: type) -> dict[str, tuple[Any, ...]]:
    """Every option with a finite set of values, with these values.

    Raises:
        ContractError: An option is a word of unknown choice.
    """
    if not is_dataclass(cls):
        return {}
    hints, choices = get_type_hints(cls, include_extras=True), {}
    for field in fields(cls):
        if not field.init or field.name.startswith("_"):
            continue
        values = _values(field, hints[field.name])
        if values is None and _takes_words(hints[field.name]):
            raise ContractError(
                "drive",
                cls.__name__,
                f"the option {field.name!r} is a text of unknown choice; declare its words, as Literal['a', 'b'], "
                "Annotated[str, OneOf(('a', 'b'))] or field(metadata={'choices': ('a', 'b')})",
            )
        if values:
            choices[field.name] = tuple(values)
    return choices


def numbers_of(cls: type) -> dict[str, float]:
    """Every option whose default is a number, with it."""
    if not is_dataclass(cls):
        return {}
    return {
        field.name: field.default
        for field in fields(cls)
        if field.init and isinstance(field.default, int | float) and not isinstance(field.default, bool)
    }


def edges_of(cls: type) -> dict[str, tuple[float, ...]]:
    """Every option that is a number between limits, with the least and the most that it may be.

    Whole numbers above a million are left out: as many steps of anything take too long.

    Example:
        >>> from sottovoce.methods.answering.ksa import KSA
        >>> edges_of(KSA)["k"]
        (1, 64)
    """
    if not is_dataclass(cls):
        return {}
    hints = get_type_hints(cls, include_extras=True)
    return {
        field.name: _ends(limit)
        for field in fields(cls)
        if field.init and not field.name.startswith("_")
        for part in _parts(hints[field.name])
        for limit in getattr(part, "__metadata__", ())
        if isinstance(limit, Number)
    }


def _ends(limit: Number) -> tuple[float, ...]:
    least = math.nextafter(limit.least, math.inf) if limit.above_least else limit.least
    most = math.nextafter(limit.most, -math.inf) if limit.below_most else limit.most
    tried = [end for end in (least, most) if math.isfinite(end) and not (limit.whole and end > _MOST_STEPS)]
    return tuple(int(end) if limit.whole else end for end in tried)


def name_of(entry: Any) -> str:
    """The registered name of an entry, else that of its class."""
    return str(getattr(entry, "name", None) or getattr(entry, "__name__", type(entry).__name__))


def subject_of(entry: Any) -> str:
    """An entry with its options, for reports."""
    name = getattr(entry, "name", type(entry).__name__)
    if not is_dataclass(entry):
        return str(name)
    shown = [
        f"{field.name}={value!r}"
        for field in fields(entry)
        if field.repr and (value := getattr(entry, field.name)) is not None and not are_equal(value, field.default)
    ]
    return f"{name}({', '.join(shown)})"


def _other_numbers(value: float, effort: Effort) -> Sequence[float]:
    """Zero becomes one, which turns on what it turns off; other numbers are tried smaller and larger in a full run."""
    if value == 0:
        return (type(value)(1),)
    if effort is Effort.QUICK:
        return ()
    return (value + 1,) if isinstance(value, int) else (value / 4, value * 4)


def _with(cls: type, name: str, value: Any, choices: Mapping[str, Sequence[Any]]) -> Any:
    optional = _optional(cls, choices)
    beside: list[dict[str, Any]] = [{}, *({option: number} for option in optional for number in COMPANIONS)]
    combinations = [[(other, it) for it in values] for other, values in choices.items() if other != name]
    for companion in beside:
        if (instance := _made(cls, {name: value, **companion})) is not None:
            return instance
    for combined in itertools.product(*combinations):
        for companion in beside:
            if (instance := _made(cls, {**dict(combined), name: value, **companion})) is not None:
                return instance
    return None


def _optional(cls: type, choices: Collection[str], calibrated: Collection[str] = ()) -> list[str]:
    """Options for numbers that are absent by default, but for those that a price calibrates then."""
    if not is_dataclass(cls):
        return []
    hints = get_type_hints(cls)
    return [
        field.name
        for field in fields(cls)
        if field.init
        and field.default is None
        and not field.name.startswith("_")
        and field.name not in (*choices, *calibrated)
        and {int, float} & {*_parts(hints[field.name])}
    ]


def _unset(entry: Any, choices: Collection[str]) -> list[str]:
    """Options for numbers that are absent by default, but for those that a price settles."""
    settled = [name for kind in _SETTLED for name in getattr(entry, kind, ())]
    return _optional(type(entry), choices, settled)


def _unset_of(cls: type, choices: Collection[str]) -> list[str]:
    """The same of a class, of which an instance is made in a copy alone."""

    def which() -> list[str]:
        try:
            return _unset(cls(), choices)
        except (Exception, SottoError):
            return []

    try:
        return [str(name) for name in of_a_copy(which)]
    except NoAnswerError:
        return []


def _made(cls: type, options: Mapping[str, Any], refused: type[Exception] = InputError) -> Any:
    """An instance; ``None`` where it is refused. A number that nobody chose may be refused by any error."""
    try:
        return cls(**options)
    except refused:
        return None


def _values(field: Field[Any], hint: Any) -> Sequence[Any] | None:
    if "choices" in field.metadata:
        return tuple(field.metadata["choices"])
    for part in _parts(hint):
        if get_origin(part) is Literal:
            return get_args(part)
        for mark in getattr(part, "__metadata__", ()):
            if isinstance(mark, OneOf):
                return mark.words
        if part is bool or bool in get_args(part):
            return (False, True)
        if isinstance(part, type) and issubclass(part, Enum):
            return tuple(part)
    return None


def _takes_words(hint: Any) -> bool:
    return any(part is str or str in _held(part) for part in _parts(hint))


def _held(part: Any) -> tuple[Any, ...]:
    """What a type holds; of a mapping its values, since its keys are names."""
    origin = get_origin(part)
    return get_args(part)[1 if isinstance(origin, type) and issubclass(origin, Mapping) else 0 :]


def _parts(hint: Any) -> Iterator[Any]:
    """A type, or the members of a union other than ``None``."""
    if get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            if part is not NoneType:
                yield from _parts(part)
    else:
        yield hint
