"""The settings at which an entry is driven: its defaults, every word and switch that an option accepts, other numbers,
and a number for what is absent by default.

They are read off the declaration (``declared.py``). A new choice is driven because it is declared, by itself and with
each choice of every other option; a text that declares none cannot be driven, and fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from sottovoce.errors import InputError, SottoError
from sottovoce.testing.another_process import NoAnswerError, of_a_copy
from sottovoce.testing.constructions import Construction, construction_of, hidden
from sottovoce.testing.declared import NUMBERS, Declared, declared_by, ends_of, inner_choices
from sottovoce.testing.fingerprints import alike, are_equal
from sottovoce.testing.report import ContractError, Effort, Report

COMPANIONS: Final[tuple[float, ...]] = (0.25, 2)
"""Numbers that are tried for an optional one: beside a choice that needs it, and alone."""
OTHER_COMPANIONS: Final[tuple[float, ...]] = (0.25, 1, 4)
"""Numbers for one that is absent by default, other than the one that a quick run tries."""
_SETTLED: Final = ("dials", "priced_too", "calibrated_parameters")
"""Attributes of an entry that name parameters which a price settles."""


def settings_of(cls: type, effort: Effort, report: Report | None = None) -> Iterator[Any]:
    """Instances of an entry: the default one, one for every choice that an option accepts, and for every two.

    A choice that is refused alone is tried with the other choices and with one optional number beside it.

    Args:
        cls: A class.
        effort: How many numbers are tried.
        report: Where settings that are refused are listed, and options of which no number is taken.

    Raises:
        ContractError: The class cannot be made without arguments, an option declares no choices, or a declared choice
            is refused however it is combined.
    """
    options = {option.name: option for option in declared_by(cls)}
    choices = choices_of(cls)
    report = report or Report("", cls.__name__)
    try:
        default = cls()
    except (TypeError, InputError) as error:
        raise ContractError(
            "drive",
            cls.__name__,
            f"it cannot be made without arguments ({error}); give every option a default, or pass an instance",
        ) from error
    known: list[Any] = []

    def new(instance: Any) -> Iterator[Any]:
        if not any(alike(instance, each) for each in known):
            known.append(instance)
            yield instance

    def numbered(option: Declared, tried: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """With another number: of each row the first that is taken."""
        taken = [_first(cls, option.name, row) for row in tried]
        for instance in taken:
            if instance is not None:
                yield from new(instance)
        name = option.name
        if (
            tried
            and not any(each is not None for each in taken)
            and all(are_equal(getattr(each, name, None), option.default) for each in known)
        ):
            report.not_compared(f"{name_of(cls)}: another {name} than {option.default!r}: no number was taken")

    yield from new(default)
    others: dict[str, list[Any]] = {}
    for name, values in choices.items():
        others[name] = [value for value in values if not are_equal(value, options[name].default)]
        for value in others[name]:
            instance = _with(cls, {name: value}, choices)
            if instance is None:
                raise ContractError(
                    "drive", cls.__name__, f"the option {name}={value!r} is declared and always refused"
                )
            yield from new(instance)
    for name, option in options.items():
        if name not in choices and (inner := inner_choices(option)):
            others[name] = [value for value in inner if not alike(value, option.default)]
            for value in others[name]:
                if (instance := _made(cls, {name: value}, refused=Exception)) is not None:
                    yield from new(instance)
    for option in options.values():
        if _is_number(option.default) and not _is_among(option.default, choices.get(option.name, ())):
            yield from numbered(option, _other_numbers(option, effort))
    for option in _unset(default, options.values()):
        tried = [[COMPANIONS[1], COMPANIONS[0], *option.numbers], [COMPANIONS[0]]]
        yield from numbered(option, tried[: 2 if effort is Effort.FULL else 1])
    for (one, first), (other, second) in itertools.combinations(others.items(), 2):
        for values in itertools.product(first, second):
            given = dict(zip((one, other), values, strict=True))
            if (instance := _with(cls, given, {}, refused=Exception)) is None:
                report.refused.append(f"{name_of(cls)} with {', '.join(f'{at}={it!r}' for at, it in given.items())}")
            else:
                yield from new(instance)


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
    for option in _unset_of(entry):
        tried = (*OTHER_COMPANIONS, *option.numbers)
        found[option.name] = [Construction(entry, {option.name: number}) for number in tried]
    return found, lost


def _is_among(value: Any, choices: Sequence[Any]) -> bool:
    """Whether a value is one of some choices, of their type: a number may stand beside words or a switch."""
    return any(type(value) is type(choice) and are_equal(value, choice) for choice in choices)


def choices_of(cls: type) -> dict[str, tuple[Any, ...]]:
    """Every option with a finite set of values, with these values.

    Raises:
        ContractError: An option is a word of unknown choice.
    """
    choices = {}
    for option in declared_by(cls):
        if option.is_open_text:
            raise ContractError(
                "drive",
                cls.__name__,
                f"the option {option.name!r} is a text of unknown choice; declare its words, as Literal['a', 'b'], "
                "Annotated[str, OneOf(('a', 'b'))] or field(metadata={'choices': ('a', 'b')})",
            )
        if option.choices:
            choices[option.name] = option.choices
    return choices


def edges_of(cls: type) -> dict[str, tuple[float, ...]]:
    """Every option that is a number between limits, with the least and the most that it may be.

    Whole numbers above a million are left out: as many steps of anything take too long.

    Example:
        >>> from sottovoce.methods.answering.ksa import KSA
        >>> edges_of(KSA)["k"]
        (1, 64)
    """
    return {option.name: ends_of(option.limit) for option in declared_by(cls) if option.limit is not None}


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


def _is_number(value: Any) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def _other_numbers(option: Declared, effort: Effort) -> Sequence[Sequence[Any]]:
    """Of each row one is tried. Zero becomes one, which turns on what it turns off, or another number inside its limit;
    other numbers are tried smaller and larger in a full run."""
    value, kind = option.default, type(option.default)
    if value == 0:
        inside = [kind(number) for number in option.numbers]
        return [[number for number in (kind(1), *inside, *_halves(kind)) if number != 0]]
    if effort is Effort.QUICK:
        return ()
    return [[value + 1]] if isinstance(value, int) else [[value / 4], [value * 4]]


def _halves(kind: type[Any]) -> Sequence[Any]:
    """Numbers below one, where a number need not be whole."""
    return () if kind is int else (kind(1) / 2, kind(1) / 8, kind(1) / 64)


def _with(
    cls: type,
    given: Mapping[str, Any],
    choices: Mapping[str, Sequence[Any]],
    refused: type[Exception] = InputError,
) -> Any:
    """An instance with these options; where it is refused, with one number, then also with other choices, beside."""
    optional = [option.name for option in declared_by(cls) if option.default is None and option.is_number]
    beside: list[dict[str, Any]] = [
        {},
        *({name: number} for name in optional if name not in given for number in COMPANIONS),
    ]
    combinations = [[(other, it) for it in values] for other, values in choices.items() if other not in given]
    for combined in ((), *(itertools.product(*combinations) if choices else ())):
        for companion in beside:
            if (instance := _made(cls, {**companion, **dict(combined), **given}, refused)) is not None:
                return instance
    return None


def _unset(entry: Any, options: Collection[Declared]) -> list[Declared]:
    """Options for numbers that are absent by default, but for those that a price settles."""
    settled = {name for kind in _SETTLED for name in getattr(entry, kind, ())}
    return [each for each in options if each.default is None and each.is_number and each.name not in settled]


def _unset_of(cls: type) -> list[Declared]:
    """The same of a class, of which an instance is made in a copy alone."""
    options = declared_by(cls)

    def which() -> list[str]:
        try:
            return [option.name for option in _unset(cls(), options)]
        except (Exception, SottoError):
            return []

    try:
        names = [str(name) for name in of_a_copy(which)]
    except NoAnswerError:
        names = []
    return [option for option in options if option.name in names]


def _first(cls: type, name: str, numbers: Sequence[Any]) -> Any:
    """An instance with the first of these numbers that is taken; ``None`` where none is."""
    made = (_made(cls, {name: number}, refused=Exception) for number in numbers)
    return next((instance for instance in made if instance is not None), None)


def _made(cls: type, options: Mapping[str, Any], refused: type[Exception] = InputError) -> Any:
    """An instance; ``None`` where it is refused. What nobody chose may be refused by any error."""
    try:
        return cls(**options)
    except refused:
        return None
