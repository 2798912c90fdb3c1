"""``python -m sottovoce.testing [--quick | --full] [NAME ...]``: puts what is registered through its contract.

Exits with 0 where every contract is kept, with 1 where one is broken, with 2 where a name is not registered or stdout
cannot be written, with 141 where its reader goes away.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

from sottovoce.errors import OutputError
from sottovoce.terminal import gated, say
from sottovoce.testing.registries import entries, examine, unknown_registries
from sottovoce.testing.report import Effort

UNREAD: Final = 141
"""The exit code of a run whose output nobody reads any more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the suite and prints a report of every entry."""
    parser = argparse.ArgumentParser(
        prog="python -m sottovoce.testing", description="Put methods, decoders and mechanisms through their contracts."
    )
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="a few worlds each (default): one to two minutes in all")
    effort.add_argument("--full", action="store_true", help="more worlds, prices and draws: half an hour or more")
    parser.add_argument("names", nargs="*", metavar="NAME", help="registered names; all by default")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # worlds are small: threads of torch would wait for one another
    with gated():  # names are shown as they were typed, errors may quote data
        try:
            return _run(parser, parser.parse_args(arguments))
        except OutputError as error:  # of the help
            _say(str(error))
            return error.exit_code


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    chosen = list(entries(arguments.names))
    if missing := sorted(set(arguments.names) - {name for _, name, _ in chosen}):
        parser.error(f"nothing is registered as {', '.join(missing)}")
    failed, printed = 0, _Printed()
    try:
        for registry, name, entry in chosen:
            started = time.perf_counter()
            report = examine(registry, name, entry, Effort.FULL if arguments.full else Effort.QUICK)
            failed += not report.passed
            printed.line(f"{report}\n  {time.perf_counter() - started:.1f} s")
        for unknown in unknown_registries():
            failed += 1
            printed.line(
                f"registry {unknown}: FAILED\n  its entries have no contract; add it to sottovoce.testing.registries"
            )
        kept = f"All {len(chosen)} kept their contracts."
        printed.verdict(f"{failed} of {len(chosen)} broke a contract." if failed else kept)
    except BrokenPipeError:  # nobody reads any more: not even the rest is examined
        return 1 if failed else UNREAD
    return 1 if failed else printed.code


@final
class _Printed:
    """Stdout, as long as it takes what is written: where it does not, all is still examined."""

    code = 0
    """Its own exit code."""

    def line(self, text: str) -> None:
        if self.code:
            return
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except OutputError as error:
            self.code = error.exit_code
            _say(str(error))

    def verdict(self, text: str) -> None:
        """The last line, on stderr where stdout does not take it."""
        self.line(text)
        if self.code:
            _say(f"The verdict is: {text}")


def _say(text: str) -> None:
    """A line on stderr, if that takes one."""
    with suppress(OSError):
        say(text)


if __name__ == "__main__":
    sys.exit(main())
