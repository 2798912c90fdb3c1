"""The command ``sotto``. One file a command; heavy imports happen inside the commands."""

from __future__ import annotations

import sys
import traceback
from functools import cache

import typer

from sottovoce.errors import SottoError

INTERRUPTED = 130
BROKEN = 1

app = typer.Typer(
    name="sotto",
    help="Answer from private examples without giving them away.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@cache
def _build() -> typer.Typer:
    from sottovoce.cli import account, ask, bench, classify, demo, ledger, methods, models, plan, synthesize, verify

    for module in (demo, classify, ask, synthesize, verify, plan, account, methods, bench):
        module.add_to(app)
    for module_with_group in (ledger, models):
        module_with_group.add_to(app)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and ends the process with its exit code.

    0 released, 2 bad input or usage, 3 budget refused, 4 model failed; 130 interrupted, 1 a bug. No traceback is
    shown: its message could quote a private record.
    """
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    try:
        result = _build()(args=arguments, standalone_mode=False)
        if result == INTERRUPTED:
            _say("Interrupted.")
        return result if isinstance(result, int) else 0
    except SottoError as error:
        _say(f"{type(error).__name__}: {error}")
        return error.exit_code
    except typer.TyperException as error:
        error.show()  # type: ignore[attr-defined]
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _say("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return BROKEN
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        _say(
            f"Internal error: {type(error).__name__} at {where}. Its message is withheld, since it could quote a "
            "private record. Charges made before it stand. Please report the place."
        )
        return BROKEN


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
