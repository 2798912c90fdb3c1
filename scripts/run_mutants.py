"""Plants one privacy bug after another in a copy of the package and runs the tests that should notice.

A mutant is killed when a test fails in the copy; a copy that cannot be imported does not count. The same tests are
first run on an untouched copy, where they have to pass.

    make mutants                         all of them; rewrites docs/results/mutants.md
    python scripts/run_mutants.py NAME ...   some

The test that caught a bug last, by that page, is run first: the others run where it does not.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from mutants.planted import MUTANTS, Mutant  # noqa: E402

TABLE = ROOT / "docs" / "results" / "mutants.md"
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
"""A test that failed; its parameters may have blanks."""


@dataclass(frozen=True)
class Outcome:
    """How the tests fared on one copy.

    Attributes:
        code: pytest's exit code: 0 passed, 1 a test failed.
        first: The first test that failed.
        seconds: How long it took.
    """

    code: int
    first: str
    seconds: float


def run(tests: tuple[str, ...], mutant: Mutant | None, *options: str) -> Outcome:
    """Runs tests, slow ones too, against a copy of the package with the bug in it (or without, for ``None``)."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        shutil.copytree(ROOT / "src" / "sottovoce", Path(folder) / "sottovoce", ignore=shutil.ignore_patterns("__py*"))
        if mutant is not None:
            target = Path(folder) / "sottovoce" / mutant.file
            target.write_text(mutant.apply(target.read_text("utf-8")), "utf-8")
        started = time.monotonic()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-m",
                "",
                "--tb=no",
                "-rfE",
                "-p",
                "no:cacheprovider",
                *options,
                *tests,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": folder, "OMP_NUM_THREADS": "1", "HYPOTHESIS_STORAGE_DIRECTORY": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        found = FAILED.search(done.stdout)
        return Outcome(done.returncode, found.group(1) if found else "", time.monotonic() - started)


def run_planted(mutant: Mutant, caught: dict[str, str]) -> Outcome:
    """Runs the test that caught a bug last, by itself: pytest runs a file in its own order. Then all of its tests,
    where it does not catch it or is not there any more.
    """
    if mutant.name in caught:
        outcome = run((caught[mutant.name],), mutant)
        if killed(outcome):
            return outcome
    return run(mutant.tests, mutant)


def caught_last() -> dict[str, str]:
    """Bugs and the tests that caught them, by the page of the last run."""
    rows = TABLE.read_text("utf-8").splitlines() if TABLE.is_file() else []
    cells = [row.strip("| ").split(" | ") for row in rows if row.startswith("| ") and row.count(" | ") >= 3]
    return {row[0]: f"tests/{row[-1].strip('`')}" for row in cells if "::" in row[-1]}


def killed(outcome: Outcome) -> bool:
    """A failing test kills; an import that breaks, or a crash of pytest, does not."""
    return outcome.code == 1 and "::" in outcome.first


def main() -> int:
    """Runs the mutants that were named, or all; returns 1 if one survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    names = parser.parse_args().names
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    if unknown := set(names) - {mutant.name for mutant in chosen}:
        print(f"no such mutant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    jobs = parser.parse_args().jobs
    clean = run(tuple(sorted({test for mutant in chosen for test in mutant.tests})), None, "-n", str(jobs))
    if clean.code != 0:
        print(f"the tests fail without a bug: {clean.first}", file=sys.stderr)
        return 2
    caught = caught_last()
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda m: told(m, run_planted(m, caught)), chosen))
    survivors = [mutant.name for mutant, outcome in zip(chosen, outcomes, strict=True) if not killed(outcome)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed" + (f"; alive: {survivors}" if survivors else ""))
    if not names and not survivors:
        TABLE.write_text(table(chosen, outcomes), "utf-8")
    return 1 if survivors else 0


def told(mutant: Mutant, outcome: Outcome) -> Outcome:
    """Prints one line as it happens."""
    verdict = f"killed by {outcome.first}" if killed(outcome) else f"ALIVE (exit {outcome.code} {outcome.first})"
    print(f"{mutant.name}: {verdict} ({outcome.seconds:.0f} s)", flush=True)
    return outcome


def table(mutants: list[Mutant], outcomes: list[Outcome]) -> str:
    """The page of who killed what."""
    rows = [
        f"| {m.name} | {m.bug} | `{m.file}` | `{o.first.removeprefix('tests/')}` |"
        for m, o in zip(mutants, outcomes, strict=True)
    ]
    return "\n".join(
        [
            "# Planted privacy bugs, and who caught them",
            "",
            "Written by `make mutants`: each bug is planted alone in a copy of the package, and the tests named for it",
            "run there; the last column is the first test that failed. The same tests pass on an untouched copy.",
            "",
            "| bug | what it does | planted in | caught by |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
