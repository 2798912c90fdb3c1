"""The command ``sotto``. One file a command; heavy imports happen inside the commands."""

from __future__ import annotations

import re
import sys
import traceback
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
import typer.main

from sottovoce.errors import InputError, ParameterError, SottoError
from sottovoce.terminal import gated, put_text, say

INTERRUPTED = 130
BUG = 70
"""The software itself failed, as in sysexits.h; 1 is what an audit says of a violation."""
UNREAD = 141
"""Nobody reads the output any more: 128 and the number of SIGPIPE, as a shell says it."""

COMMANDS: Final = (
    "demo", "init", "fit", "predict", "classify", "ask", "answer", "synthesize", "verify", "plan", "account", "methods",
    "bench", "report", "audit", "ledger", "models",
)  # fmt: skip
"""Every command and group, in the order of ``sotto --help``; each is a module with a function ``add_to``."""


def _show_version(asked: bool) -> None:
    if asked:
        put_text(f"sottovoce {sys.modules['sottovoce'].__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            envvar="SOTTO_CONFIG",
            help="Settings for every command. Default: sotto.toml in this folder, if there is one.",
        ),
    ] = None,
) -> None:
    """Answer from private examples without giving them away."""


@cache
def _build(name: str | None = None) -> Any:
    """The whole command, or the part of it that runs one command; what its parts write is guarded."""
    from sottovoce.cli import settings
    from sottovoce.cli.flags import watch
    from sottovoce.cli.outputs import guard
    from sottovoce.cli.panels import group

    app = typer.Typer(
        name="sotto",
        help="Answer from private examples without giving them away.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in COMMANDS if name is None else (name,):
        import_module(f"sottovoce.cli.{command}").add_to(app)
    built = typer.main.get_command(app)
    guard(built)
    group(built)
    watch(built, settings.apply)
    return built


def _typed(arguments: list[str] | None) -> str | None:
    """The command that is typed, where no other needs to be known: importing all takes a tenth of a second."""
    from sottovoce.cli import settings

    words = sys.argv[1:] if arguments is None else arguments
    return words[0] if words and words[0] in COMMANDS and not settings.are_there() else None


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and ends the process with its exit code.

    0 released, 2 bad input or usage, 3 budget refused, 4 model failed; 70 a bug, 130 interrupted, 141 nobody reads the
    output. An audit's 1 is a violation. No traceback is shown: its message could quote a private record.
    """
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit code; everything that is printed meanwhile passes the gate."""
    with gated():
        try:
            code = _run(arguments)
        except OSError as error:  # of stderr, where it would be told
            code = None if isinstance(error, BrokenPipeError) else InputError.exit_code
    if code is None:
        if sys.stderr is not None:
            sys.stderr.close()  # nobody reads: not even that the rest could not be written is told
        return UNREAD
    return code


def _run(arguments: list[str] | None) -> int | None:
    """The exit code; ``None`` where the reader of the output went away."""
    from sottovoce.cli.flags import as_typed, running
    from sottovoce.cli.settings import origin

    running.clear()
    try:
        result = _build(_typed(arguments))(args=arguments, prog_name="sotto", standalone_mode=False)
        if result == INTERRUPTED:
            say("Interrupted.")
        return result if isinstance(result, int) else 0
    except SottoError as error:
        told = as_typed(error) if isinstance(error, ParameterError) else error
        name = getattr(told, "name", None)
        file = getattr(told, "file", None)
        where = origin(running[-1], name, str(told), file) if running and isinstance(error, InputError) else ""
        say(f"{type(error).__name__}: {told}{where}")
        return error.exit_code
    except typer.TyperException as error:
        _say_usage(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        say("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        return None
    except BaseException as error:  # an order to stop too: its words, and its trace, could quote a record
        if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
            return None  # typer makes it an exit with code 1
        if isinstance(error, SystemExit) and isinstance(error.code, int | None):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        say(
            f"Internal error: {type(error).__name__} at {where}. Its message is withheld, since it could quote a "
            "private record. Charges made before it stand. Please report the place."
        )
        return BUG


_WORDS: Final = {
    r"Input should be a valid integer\b.*": "it must be a whole number",
    r"Input should be a valid number\b.*": "it must be a number",
    r"Input should be greater than or equal to (\S+)": r"it must be \1 or more",
    r"Input should be less than or equal to (\S+)": r"it must be \1 or less",
}
"""What the parser of options says of a value, and what is said instead."""


def _in_words(message: str) -> str:
    for pattern, words in _WORDS.items():
        message = re.sub(pattern, words, message)
    return message


def _say_usage(error: typer.TyperException) -> None:
    """What is wrong with the words of a command, or its help where there were none."""
    from sottovoce.cli.settings import origin

    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" or context is None:
        error.show()  # type: ignore[attr-defined]
        return
    for line in context.get_usage().splitlines():
        say(line)
    say(f"Try '{context.command_path} -h' for help.")
    near = getattr(error, "possibilities", None)  # the nearest first
    message = f"{error.message}; did you mean {near[0]}?" if near else _in_words(error.format_message())
    where = origin(context, getattr(getattr(error, "param", None), "name", None), message)
    say(f"Error: {message.removesuffix('.')}.{where}" if where else f"Error: {message}")
