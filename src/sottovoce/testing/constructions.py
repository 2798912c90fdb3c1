"""How a mechanism is made, and the same with one value changed: what is kept of one shows in another made alone.

Guarantee   Of a class nothing is made here: whoever asks makes it, in a copy of the process where none was made before.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import SottoError
from sottovoce.mechanisms.base import Mechanism
from sottovoce.testing.declared import NAMED, parameters_of

DEEPEST: Final = 3
"""How far inside an argument values are changed."""
MOST_ITEMS: Final = 4
"""Items of a list that are changed: the first ones and the last."""
LEFT_OUT: Final = "_HAS_DEFAULT_FACTORY_CLASS"
"""The type of what a dataclass's constructor is given for a field with a factory; each instance has its own then."""
MOST_CHOICES: Final = 5
"""Members of an enumeration that are tried."""
Other = tuple[str, Any]
"""Where a value is that is another one, and the argument with it."""
UNMADE: Final = object()
"""In place of an argument: what the value is inside does not take another one."""


@final
@dataclass(repr=False, eq=False)
class Construction:
    """A class with its arguments.

    Attributes:
        kind: The class.
        arguments: By name.
        instance: The one that was given or made; ``None`` before.
    """

    kind: type[Any]
    arguments: Mapping[str, Any]
    instance: Any = None

    def make(self) -> Any:
        """The instance that was given, or one that is made the first time, of arguments of its own."""
        if self.instance is None:
            arguments = {name: _copied(value) for name, value in self.arguments.items()}
            self.instance = self.kind(**arguments)
        return self.instance

    def __repr__(self) -> str:
        shown = []
        for name, value in self.arguments.items():
            try:
                shown.append(f"{name}={value!r}")
            except Exception:  # of an object of somebody's own
                shown.append(f"{name}=...")
        return f"{self.kind.__name__}({', '.join(shown)})"

    def others(self) -> dict[str, list[Construction]]:
        """With another value each: by its place, those that are to be tried in turn; none where no whole takes any."""
        found: dict[str, list[Construction]] = {}
        factories = _factories_of(self.kind)
        for name, value in self.arguments.items():
            left_out = type(value).__name__ == LEFT_OUT and name in factories
            for place, other in _others(factories[name]() if left_out else value, name):
                tried = found.setdefault(place, [])
                tried += [] if other is UNMADE else [Construction(self.kind, {**self.arguments, name: other})]
        return found

    def is_made(self) -> bool:
        """Whether the class takes these arguments, and has an event then: it may refuse them by any error."""
        try:
            self.make().event  # noqa: B018
        except (Exception, SottoError):
            return False
        return True


def construction_of(entry: Any, example: Mapping[str, Any] | None = None) -> tuple[Construction, list[str]]:
    """The class with its arguments, and those that an instance does not keep, or that cannot be given, by their names.

    Args:
        entry: A class, or an instance.
        example: Arguments of a class.
    """
    if isinstance(entry, type):
        defaults = {
            parameter.name: parameter.default
            for parameter in parameters_of(entry)
            if parameter.default is not parameter.empty and parameter.kind in NAMED
        }
        lost = [each.name for each in parameters_of(entry) if each.kind is each.POSITIONAL_ONLY]
        return Construction(entry, {**defaults, **(example or {})}), lost
    every = parameters_of(type(entry))
    if is_dataclass(entry) and not all(parameter.kind in NAMED for parameter in every):
        names = [each.name for each in fields(entry) if each.init]  # its own ``__new__`` says less
    else:
        names = [("", "", "*", "", "**")[parameter.kind] + parameter.name for parameter in every]
    arguments: dict[str, Any] = {}
    for name in names:
        with suppress(Exception):
            if _keeps(entry, name):
                arguments[name] = getattr(entry, name)
    return Construction(type(entry), arguments, entry), [name for name in names if name not in arguments]


def _factories_of(kind: type[Any]) -> Mapping[str, Callable[[], Any]]:
    """What makes the default of a field, for each instance anew."""
    found: dict[str, Callable[[], Any]] = {}
    for each in fields(kind) if is_dataclass(kind) else ():
        if each.default_factory is not MISSING:
            found[each.name] = each.default_factory
    return found


def _keeps(entry: Any, name: str) -> bool:
    """Whether a name is the instance's own, or worked out from what it has; a default of its class is neither."""
    if is_dataclass(entry):
        return name in {each.name for each in fields(entry)}
    kept = inspect.getattr_static(entry, name)
    return name in getattr(entry, "__dict__", {}) or hasattr(kept, "__get__")


def _others(value: Any, place: str, depth: int = 0) -> Iterator[Other]:
    """With another truth, number or choice: a smaller one and a larger one, also of what is inside."""
    if isinstance(value, bool | np.bool_):
        yield place, not value
    elif isinstance(value, Enum):
        yield from ((place, other) for other in [*type(value)][:MOST_CHOICES] if other is not value)
    elif isinstance(value, int | np.integer):
        yield from ((place, other) for other in (max(1, int(value) // 2), int(value) + 1) if other != value)
    elif isinstance(value, float | Fraction | Decimal | np.floating):
        usual = (value / 2, value * 2) if value and math.isfinite(value) else (type(value)(0.125), type(value)(1))
        yield from ((place, other) for other in usual if other != value and math.isfinite(other))
    elif depth < DEEPEST:
        for inner, part, whole in _parts_of(value):
            for where, other in _others(part, f"{place}{inner}", depth + 1):
                try:
                    yield where, other if other is UNMADE else whole(other)
                except (Exception, SottoError):
                    yield where, UNMADE


def _parts_of(value: Any) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """What is inside: its place, itself, and what makes the whole of another one."""
    if type(value) in (tuple, list):
        for at in _first_and_last(len(value)):
            part = value[at]
            yield f"[{at}]", part, partial(_with_item, value, at)
    elif type(value) is np.ndarray and value.dtype.kind in "iuf":
        for at in _first_and_last(value.size):
            yield f"[{at}]", value.flat[at], partial(_with_number, value, at)
    elif isinstance(value, dict):
        for key in [[*value][at] for at in _first_and_last(len(value))]:
            yield f"[{key!r}]", value[key], partial(_with_value, value, key)
    elif is_dataclass(value) and not isinstance(value, type):
        for name in (each.name for each in fields(value) if each.init):
            yield f".{name}", getattr(value, name), partial(_with_field, value, name)
    elif isinstance(value, Mechanism):
        made, lost = construction_of(value)
        for name, part in made.arguments.items() if not lost else ():
            yield f".{name}", part, partial(_with_argument, made, name)


def _first_and_last(length: int) -> Sequence[int]:
    return sorted({*range(MOST_ITEMS - 1), length - 1} & {*range(length)})


def _with_number(whole: Any, at: int, other: Any) -> Any:
    made = whole.copy()
    made.flat[at] = other
    return made


def _with_value(whole: Any, key: Any, other: Any) -> Any:
    made = copy.copy(whole)
    made[key] = other
    return made


def _with_item(whole: Any, at: int, other: Any) -> Any:
    return type(whole)([*whole[:at], other, *whole[at + 1 :]])


def _with_field(whole: Any, name: str, other: Any) -> Any:
    return replace(whole, **{name: other})


def _with_argument(whole: Construction, name: str, other: Any) -> Any:
    return whole.kind(**{**whole.arguments, name: other})


def hidden(value: Any, place: str, depth: int = 0) -> Iterator[str]:
    """What mechanisms inside an argument do not keep by its name."""
    if isinstance(value, Mechanism) and not is_dataclass(value):
        yield from (f"{place}.{name}" for name in construction_of(value)[1])
    if depth < DEEPEST:
        for inner, part, _ in _parts_of(value):
            yield from hidden(part, f"{place}{inner}", depth + 1)


def _copied(value: Any) -> Any:
    """An argument that nothing else is made of, where it can be used up."""
    if not isinstance(value, MutableMapping | MutableSequence | MutableSet | np.ndarray):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # of an object of somebody's own
        return value
