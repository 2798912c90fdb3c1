"""The list of planted bugs is whole and applies; a few are planted and caught here, all of them by ``make mutants``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.planted import MUTANTS, PARTITION, Mutant

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("vectors-clipped-after-sum", "adjacency-swapped", "k-for-k-squared", "asked-before-it-is-added")
"""Quick ones of four rooms: experts, assignment, accountant, ledger."""
every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)


@every_mutant
def test_a_bug_changes_its_module_in_one_place_and_still_compiles(mutant):
    text = (ROOT / "src" / "sottovoce" / mutant.file).read_text("utf-8")
    planted = mutant.apply(text)
    assert planted != text
    compile(planted, mutant.file, "exec")


@every_mutant
def test_the_tests_named_for_a_bug_exist(mutant):
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file()
        assert not name or f"def {name.split('[')[0]}(" in (ROOT / path).read_text("utf-8")


def test_at_least_a_hundred_different_bugs_are_planted():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 100


def run(*names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/run_mutants.py", "--jobs", "2", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_few_planted_bugs_are_caught():
    done = run(*QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(QUICK)} of {len(QUICK)} killed" in done.stdout


@pytest.mark.slow
def test_every_planted_bug_is_caught():
    done = run(*(mutant.name for mutant in MUTANTS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_neither_a_harmless_edit_nor_a_broken_import_is_a_kill():
    # The runner's own planted mistakes: if it called everything killed, these would be.
    spec = importlib.util.spec_from_file_location("run_mutants", ROOT / "scripts" / "run_mutants.py")
    runner = importlib.util.module_from_spec(spec)
    sys.modules["run_mutants"] = runner
    spec.loader.exec_module(runner)
    for after in ("DROP: Final = ChangeType(", "DROP: Final = nonsense("):
        mutant = Mutant("tried", "", "privacy/unit.py", "DROP: Final = ChangeType(", after, PARTITION)
        assert not runner.killed(runner.run(mutant.tests, mutant))
