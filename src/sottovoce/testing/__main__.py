"""``python -m sottovoce.testing [--quick | --full] [NAME ...]``: puts what is registered through its contract.

Exits with 0 where every contract is kept, with 1 where one is broken, with 2 where a name is not registered.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from sottovoce.terminal import gated
from sottovoce.testing.registries import entries, examine, unknown_registries
from sottovoce.testing.report import Effort


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the suite and prints a report of every entry."""
    parser = argparse.ArgumentParser(
        prog="python -m sottovoce.testing", description="Put methods, decoders and mechanisms through their contracts."
    )
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="a few worlds each (default): half a minute in all")
    effort.add_argument("--full", action="store_true", help="more worlds, prices and draws: half an hour or more")
    parser.add_argument("names", nargs="*", metavar="NAME", help="registered names; all by default")
    with gated():  # names are shown as they were typed, errors may quote data
        return _run(parser, parser.parse_args(arguments))


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    chosen = list(entries(arguments.names))
    if missing := sorted(set(arguments.names) - {name for _, name, _ in chosen}):
        parser.error(f"nothing is registered as {', '.join(missing)}")
    failed = 0
    for registry, name, entry in chosen:
        started = time.perf_counter()
        report = examine(registry, name, entry, Effort.FULL if arguments.full else Effort.QUICK)
        failed += not report.passed
        _say(f"{report}\n  {time.perf_counter() - started:.1f} s")
    for unknown in unknown_registries():
        failed += 1
        _say(f"registry {unknown}: FAILED\n  its entries have no contract; add it to sottovoce.testing.registries")
    _say(f"{failed} of {len(chosen)} broke a contract." if failed else f"All {len(chosen)} kept their contracts.")
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
