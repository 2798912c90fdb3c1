"""The command that is running, and its options as they are typed: errors name ``--model``, not ``model``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sottovoce.errors import ParameterError

OTHER_NAMES: Final = {"units_per_expert": "per_expert", "pool": "public"}
"""Arguments of the library that options have other names for."""

running: Final[list[Any]] = []
"""The contexts of the command that is running, the innermost last."""


def watch(command: Any, prepare: Callable[[Any, list[str]], None]) -> None:
    """Makes every command below a group say when it begins to read what was typed.

    Args:
        command: The group.
        prepare: Called then with the command's context and with what was typed.
    """
    for inner in getattr(command, "commands", {}).values():
        watch(inner, prepare)
    parse = command.parse_args

    def parsed(context: Any, words: list[str]) -> Any:
        running.append(context)
        prepare(context, words)
        return parse(context, words)

    command.parse_args = parsed


def flag_of(parameter: Any) -> str:
    """An option as it is typed, in its long form."""
    return str(next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0]))


def flag_of_name(name: str) -> str:
    """A parameter of the command that is running as it is typed."""
    return next(flag_of(parameter) for parameter in running[-1].command.params if parameter.name == name)


def as_typed(error: ParameterError) -> ParameterError:
    """The error with its parameter named as the option of the command that is running, if it has such an option."""
    first, _, part = error.name.partition(" ")  # such as "budget epsilon"
    for name in (first, OTHER_NAMES.get(first)):
        for parameter in running[-1].command.params if running else ():
            if parameter.name == name and parameter.param_type_name == "option":
                return ParameterError(f"{flag_of(parameter)} {part}".strip(), error.value, error.limit)
    return error


def is_typed(name: str) -> bool:
    """Whether a parameter of the command that is running was typed, and is no default and no setting."""
    source = running[-1].get_parameter_source(name) if running else None
    return source is not None and source.name == "COMMANDLINE"
