"""How a mechanism is made, and the same with one argument changed: a value is known where it was made alone.

Guarantee   Of a class nothing is made here: whoever asks makes it, in a copy of the process where none was made before.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, final

from sottovoce.errors import SottoError


@final
@dataclass(frozen=True, repr=False, eq=False)
class Construction:
    """A class with its arguments.

    Attributes:
        kind: The class.
        arguments: By name.
        instance: The one that was given; ``None`` where a class was.
    """

    kind: type[Any]
    arguments: Mapping[str, Any]
    instance: Any = None

    def make(self) -> Any:
        """The instance that was given, or a new one."""
        return self.kind(**self.arguments) if self.instance is None else self.instance

    def __repr__(self) -> str:
        return f"{self.kind.__name__}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"

    def others(self) -> dict[str, list[Construction]]:
        """With another value of one argument each: by its name, those that are to be tried in turn."""
        return {
            name: [Construction(self.kind, {**self.arguments, name: other}) for other in _others(value)]
            for name, value in self.arguments.items()
            if [*_others(value)]
        }

    def is_made(self) -> bool:
        """Whether the class takes these arguments: it may refuse them by any error."""
        try:
            self.make()
        except (Exception, SottoError):
            return False
        return True


def construction_of(entry: Any, example: Mapping[str, Any] | None = None) -> tuple[Construction, list[str]]:
    """The class with its arguments, and those arguments that an instance does not keep by their names.

    Args:
        entry: A class, or an instance.
        example: Arguments of a class.
    """
    if isinstance(entry, type):
        defaults = {
            parameter.name: parameter.default
            for parameter in _parameters_of(entry)
            if parameter.default is not parameter.empty
        }
        return Construction(entry, {**defaults, **(example or {})}), []
    named = [parameter.name for parameter in _parameters_of(type(entry))]
    arguments = {name: getattr(entry, name) for name in named if hasattr(entry, name)}
    return Construction(type(entry), arguments, entry), [name for name in named if name not in arguments]


def _parameters_of(kind: type[Any]) -> list[inspect.Parameter]:
    """What is told by name; nothing of a class that does not say."""
    try:
        every = inspect.signature(kind).parameters.values()
    except ValueError:
        return []
    return [each for each in every if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def _others(value: Any) -> Iterator[Any]:
    """Other values than this one: the other truth, a smaller or a larger number, or what is made of such."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (other for other in (max(1, value // 2), value + 1) if other != value)
    elif isinstance(value, float | Fraction):
        yield from (value / 2, value * 2)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            for other in _others(getattr(value, each.name)) if each.init else ():
                with suppress(Exception, SottoError):
                    yield replace(value, **{each.name: other})
