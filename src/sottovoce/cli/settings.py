"""Options from the environment and from a file. What is typed wins, then the environment, the file, the default.

``SOTTO_LEDGER=t.db`` sets ``--ledger`` of every command that has it, ``SOTTO_CLASSIFY_LEDGER`` that of one. In
``sotto.toml``, or the file that ``--config`` names, ``ledger = "t.db"`` does the former, and the same below
``[classify]`` the latter; the table of ``sotto ledger show`` is ``[ledger-show]``. A name that no command has is
refused.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, final

from sottovoce.cli.flags import flag_of
from sottovoce.errors import InputError
from sottovoce.parameters import nearest
from sottovoce.terminal import printable

PREFIX: Final = "SOTTO_"
OF_SERVERS: Final = {"SOTTO_API", "SOTTO_API_KEY"}
"""Variables that models behind servers read by themselves."""
FILE: Final = "sotto.toml"
ORIGINS: Final = "sottovoce.settings"
"""Where a context keeps which parameter was set where."""
_NOT_SET: Final = ("help", "version", "config", "install-completion", "show-completion")
_ONE_OF: Final = (("task", "labels"), ("private", "demonstrations", "fitted"), ("public", "candidates"))
"""Options of which one is given: the one that wins leaves the others out."""
_TYPED_ALONE: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("ledger", "grant"): ("ledger", "budget", "caller", "group", "name", "continues", "require-caller"),
    ("verify", "certificate"): ("ledger",),
    ("report",): ("ledger",),
}
"""What is typed each time: an owner's decisions, and what a check is made against. What says which records these are,
such as their unit, may be set, since it has to be the same for a grant as for the runs that spend it."""
_OF_THE_RECORDS: Final = (("ledger", "show"), ("ledger", "verify"), ("ledger", "export"))
"""Commands that look at one ledger: the one that is named, or the one of the records that are."""
_BESIDE_FITTED: Final = ("fitted", "model", "device", "dtype", "json")


def are_there() -> bool:
    """Whether a variable or the file could set an option of a command; ``--config`` may still be typed."""
    return any(name.startswith(PREFIX) for name in os.environ) or Path(FILE).is_file()


def apply(context: Any, words: list[str]) -> None:
    """Sets the defaults of a command from the environment and the file.

    Raises:
        InputError: The file cannot be read, or a name or a value in it or in the environment is not usable.
    """
    path = context.command_path.split()[1:]
    if not path or context.resilient_parsing:
        return
    root = context.find_root()
    tree = _options_by_command(root.command, root)
    _require_known_variables(tree)
    file, top, own = _read(root.params.get("config"), tree, path)
    typed = {key for key in _keys(context.command, context) if any(_is_typed(key, word) for word in words)}
    found: dict[str, tuple[Any, str]] = {}
    shared = {_key(parameter) for parameter in context.command.params if parameter.param_type_name == "option"}
    for key, parameter in _keys(context.command, context).items():
        if key in _TYPED_ALONE.get(tuple(path), ()):
            continue
        names = [f"{PREFIX}{'_'.join([*path, key]).upper().replace('-', '_')}"]
        names += [f"{PREFIX}{key.upper().replace('-', '_')}"] if key in shared else []
        variable = next((name for name in names if name in os.environ), None)
        if variable is not None:
            text = os.environ[variable]
            found[key] = (
                (_words(text, variable) if parameter.multiple else text),
                f"the environment variable {variable}",
            )
            continue
        for table, where in ((own, f"[{'-'.join(path)}] {key}"), (top if key in shared else {}, key)):
            if key in table:
                place = f"{file}, key {where}"
                found[key] = _value(table[key], parameter, place), place
                break
    _leave_one(found, typed)
    if tuple(path) in _OF_THE_RECORDS and "private" in typed and "ledger" not in typed:
        found.pop("ledger", None)
    names_of = {key: parameter.name for key, parameter in _keys(context.command, context).items()}
    used = {key: value for key, value in found.items() if key not in typed}
    context.default_map = _Defaults(context, {names_of[key]: value for key, (value, _) in used.items()})
    context.meta[ORIGINS] = {names_of[key]: (f"--{key}", value, where) for key, (value, where) in used.items()}


@final
class _Defaults(dict[str, Any]):
    """Values by parameter. Help shows them by a console of its own: it is given what may be printed.

    Args:
        context: Of the command; it parses resiliently while help asks for defaults.
        values: The values.
    """

    def __init__(self, context: Any, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._context = context

    def get(self, name: str, default: Any = None) -> Any:
        """The value; where help shows it escaped, and an address of a server without its password."""
        value = super().get(name, default)
        if not self._context.resilient_parsing:
            return value
        return [*map(_shown, value)] if isinstance(value, list) else _shown(value)


def _shown(value: Any) -> Any:
    from sottovoce.privacy.ledger.location import Secret

    given = Secret.of(value)
    return printable(given.shown if isinstance(given, Secret) else given) if isinstance(value, str) else value


def origin(context: Any, name: str | None, message: str, file: str | None = None) -> str:
    """Where a value that an error is about was set, in a sentence; empty where it was typed.

    Args:
        context: Of the command.
        name: The parameter or option that the error names, if any.
        message: The error.
        file: The name of the file that it is about, if any.
    """
    origins: Mapping[str, tuple[str, Any, str]] = context.meta.get(ORIGINS, {})
    for parameter, (flag, _, where) in origins.items():
        if name in (parameter, flag) or f"{flag} " in message:
            return f" It is set in {where}." if "variable" not in where else f" It is set by {where}."
    for flag, value, where in origins.values():
        if isinstance(value, str) and (repr(value) in message or file == Path(value).name):
            return f" {flag} is set {'by' if 'variable' in where else 'in'} {where}."
    return ""


def told(context: Any) -> str:
    """Which options were set where, in one line; empty where none was."""
    places: dict[str, list[str]] = {}
    for flag, _, where in context.meta.get(ORIGINS, {}).values():
        places.setdefault(where.partition(", key ")[0], []).append(flag)
    return "; ".join(f"{', '.join(flags)} from {place}" for place, flags in places.items())


def _key(parameter: Any) -> str:
    return flag_of(parameter).lstrip("-")


def _keys(command: Any, context: Any) -> dict[str, Any]:
    """The options of a command that can be set, by their names."""
    options = (one for one in command.get_params(context) if one.param_type_name == "option")
    return {_key(one): one for one in options if _key(one) not in _NOT_SET}


def _options_by_command(command: Any, context: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], set[str]]:
    """The options of every command that a function names; those made from registries come with its own table."""
    shared = {_key(one) for one in command.params if one.param_type_name == "option"} - {*_NOT_SET}
    found = {path: shared - {*_TYPED_ALONE.get(path, ())} if path else set()}
    for name, inner in getattr(command, "commands", {}).items():
        found |= _options_by_command(inner, context, (*path, name))
    return found


def _words(text: str, variable: str) -> list[str]:
    """The words of a repeated option, as a shell divides them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(
            f"The environment variable {variable} cannot be divided into words ({error}). Close its quotation marks."
        ) from None


def _is_typed(key: str, word: str) -> bool:
    return word in (f"--{key}", f"--no-{key}") or word.startswith(f"--{key}=")


def _leave_one(found: dict[str, tuple[Any, str]], typed: Iterable[str]) -> None:
    """Leaves out what a stronger setting excludes: what is typed, then what the environment says."""
    given = set(typed)
    for group in _ONE_OF:
        strong = [key for key in group if key in given]
        strong = strong or [key for key in group if key in found and "variable" in found[key][1]]
        for key in group:
            if strong and key not in strong:
                found.pop(key, None)
    if "fitted" in given or "fitted" in found:
        for key in [key for key in found if key not in _BESIDE_FITTED]:
            del found[key]


def _require_known_variables(tree: Mapping[tuple[str, ...], set[str]]) -> None:
    def variable(*parts: str) -> str:
        return PREFIX + "_".join(parts).upper().replace("-", "_")

    known = {variable("config"), *(variable(key) for keys in tree.values() for key in keys)}
    known |= {variable(*path, key) for path, keys in tree.items() for key in keys} | OF_SERVERS
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known and not name.startswith(variable("account", "")):
            raise InputError(
                f"There is no option for the environment variable {name}{nearest(name, sorted(known)) or '.'} Unset it."
            )


def _read(
    named: str | None, tree: Mapping[tuple[str, ...], set[str]], path: list[str]
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The file's name, its keys for all commands and those for one."""
    file = Path(named or FILE)
    if named is None and not file.is_file():
        return FILE, {}, {}
    values = _parse(file)
    commands = {"-".join(parts): parts for parts in tree if parts}
    known = {key for keys in tree.values() for key in keys}
    top: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and key in commands:
            table = _table(file, key, value, commands[key], tree)
            own |= table if commands[key] == tuple(path) else {}
        elif key.replace("_", "-") in known and not isinstance(value, dict):
            top[key.replace("_", "-")] = value
        else:
            raise _unknown(file, key, [*known, *commands], "no command has such an option, and none has that name")
    return str(file), top, own


def _table(
    file: Path,
    name: str,
    values: Mapping[str, Any],
    path: tuple[str, ...],
    tree: Mapping[tuple[str, ...], set[str]],
) -> dict[str, Any]:
    """The keys of one command."""
    for key in values:
        if path != ("account",) and key.replace("_", "-") not in tree[path]:
            raise _unknown(file, f"[{name}] {key}", [*tree[path]], "the command has no such option")
    return {key.replace("_", "-"): value for key, value in values.items()}


def _parse(file: Path) -> dict[str, Any]:
    from sottovoce.records import limits

    try:
        return limits.parse_toml(limits.read_text(file, "settings file", limits.TOML_BYTES))
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}). Check --config.") from None
    except ValueError as error:
        raise InputError(f"{file} is not valid TOML ({error}).") from None


def _unknown(file: Path, key: str, known: list[str], why: str) -> InputError:
    meant = nearest(key.rpartition(" ")[2].replace("_", "-"), sorted(known)) or "."
    return InputError(f"{file}, key {key}: {why}{meant} 'sotto COMMAND --help' lists the options.")


def _value(value: Any, parameter: Any, place: str) -> Any:
    """A value of the file as the command's parser takes it."""
    if any(isinstance(one, str) and "\0" in one for one in (value if isinstance(value, list) else [value])):
        raise InputError(f"{place}: the value holds a NUL character, which no option can hold. Remove it.")
    if parameter.is_flag:
        if isinstance(value, bool):
            return value
        raise InputError(f"{place}: the value is {value!r}; it must be true or false.")
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        if parameter.multiple:
            return value
        if parameter.name == "labels":
            if any("," in one for one in value):
                raise InputError(
                    f"{place}: a label holds a comma, which divides labels. Name the labels in a file for --task."
                )
            return ",".join(value)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return [str(value)] if parameter.multiple else str(value)
    kinds = "a text, a number or a list of texts" if parameter.multiple else "a text or a number"
    shown = f"a {type(value).__name__}" if parameter.name == "ledger" else repr(value)  # it may hold a password
    raise InputError(f"{place}: the value is {shown}; it must be {kinds}.")
