"""What a command writes, told apart from what it reads: checked for every command before it begins.

An option that names a file to write has ``NewFile`` as its parser. Everything else that a command was given and that
names a file is an input, and is never written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import unwrap
from pathlib import Path
from typing import Any, Final, final, get_args, get_type_hints

from sottovoce.cli.flags import running
from sottovoce.cli.settings import told
from sottovoce.errors import OutputError
from sottovoce.files.outputs import refuse_protected, require_folder
from sottovoce.privacy.ledger.location import IN_MEMORY, is_address
from sottovoce.terminal import say

LEDGERS: Final = ("ledger", "path")
"""Parameters that name a ledger, which need not exist yet."""


@final
class NewFile:
    """Reads an option that names a file, or a folder of files, that the command writes.

    Args:
        endings: What is appended to the name for files that are written beside it.
        makes_folder: Whether the command makes the folder, or is given one.
    """

    def __init__(self, *endings: str, makes_folder: bool = False) -> None:
        self.endings, self.makes_folder = endings, makes_folder
        self.__name__ = "FILE"

    def __call__(self, value: str) -> Path:
        return Path(value)

    def written(self, value: Path) -> list[str]:
        """Every name that is written for this one."""
        return [os.fspath(value) + ending for ending in ("", *self.endings)]


def guard(command: Any) -> None:
    """Makes every command below a group look at its outputs before anything else."""
    if hasattr(command, "commands"):
        for inner in command.commands.values():
            guard(inner)
    elif command.callback is not None:
        command.callback = _guarded(command.callback, outputs_of(command))


def outputs_of(command: Any) -> dict[str, NewFile]:
    """The parameters of a command that name what it writes."""
    options = get_type_hints(unwrap(command.callback), include_extras=True).items()
    parsers = [(name, getattr(metadata, "parser", None)) for name, hint in options for metadata in get_args(hint)]
    return {name: parser for name, parser in parsers if isinstance(parser, NewFile)}


def _guarded(callback: Callable[..., Any], outputs: Mapping[str, NewFile]) -> Callable[..., Any]:
    @wraps(callback)
    def checked(**given: Any) -> Any:
        if running and (settings := told(running[-1])):
            say(f"Settings: {settings}.")
        refuse(outputs, given)
        try:
            return callback(**given)
        except OutputError as error:
            files = [str(given[name]) for name in outputs if given.get(name) is not None and given[name].is_file()]
            if files and not given.get("dry_run"):
                again = "; --resume prints this again, for nothing" if given.get("resume") is not None else ""
                error.args = (f"{error} {' and '.join(files)} {'is' if len(files) == 1 else 'are'} whole{again}.",)
            raise

    return checked


def refuse(outputs: Mapping[str, NewFile], given: Mapping[str, Any]) -> None:
    """Refuses a command that would write what it reads, a ledger, one file twice, or into a folder that is not there.

    Args:
        outputs: The parameters that name what is written.
        given: All parameters of the command.

    Raises:
        InputError: It would.
    """
    read = [text for name, value in given.items() if name not in outputs for text in _named(value)]
    ledgers = [text for name in LEDGERS for text in _named(given.get(name)) if name not in outputs]
    before: list[str] = []
    for name, parser in outputs.items():
        if given.get(name) is None:
            continue
        written = parser.written(given[name])
        for file in written:  # of one output two names may be one file: a run was stopped as it gave it the last one
            refuse_protected(file, read, ledgers, before)
        before += written
        if not parser.makes_folder:
            require_folder(given[name])


def _named(value: Any) -> Iterator[str]:
    """The names of files that a parameter may hold: ``hf:NAME_OR_PATH,layer=8`` has one too."""
    if isinstance(value, str | os.PathLike) and (text := os.fspath(value)):
        if text != IN_MEMORY and not is_address(text) and "\0" not in text:
            yield text
        if ":" in text:
            named = text.partition(":")[2]
            yield named
            parts = [part.rpartition("=")[2] for part in named.split(",")]
            yield from (part for part in parts if part and part != named)
