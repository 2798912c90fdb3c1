"""The list of planted bugs is whole and applies; one is planted and caught here, all of them by ``make mutants``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mutants.planted import MUTANTS, PARTITION, Mutant

ROOT = Path(__file__).resolve().parents[2]


@cache
def text_of(file: str) -> str:
    return (ROOT / "src" / "sottovoce" / file).read_text("utf-8")


def problem_of(mutant: Mutant, *, compiled: bool = True) -> str:
    """Why a bug cannot be planted as it is described; empty where it can."""
    text = text_of(mutant.file)
    try:
        planted = mutant.apply(text)
        if compiled:
            compile(planted, mutant.file, "exec")
    except (ValueError, SyntaxError) as error:
        return f"{mutant.name}: {error}"
    return f"{mutant.name}: changes nothing" if planted == text else ""


def test_a_bug_changes_its_module_in_one_place():
    assert not [problem for mutant in MUTANTS if (problem := problem_of(mutant, compiled=False))]


@pytest.mark.slow
def test_a_bug_changes_its_module_in_one_place_and_still_compiles():
    assert not [problem for mutant in MUTANTS if (problem := problem_of(mutant))]


def test_a_bug_that_cannot_be_planted_is_found():
    before = "DROP: Final = ChangeType("
    for name, old, new in (
        ("absent", "no such text", ""),
        ("no python", before, "DROP = = ("),
        ("same", before, before),
    ):
        assert problem_of(Mutant(name, "", "privacy/unit.py", old, new, PARTITION)), name


def test_the_tests_named_for_a_bug_exist():
    absent = []
    for test in {test for mutant in MUTANTS for test in mutant.tests}:
        path, _, name = test.partition("::")
        if not (ROOT / path).is_file() or f"def {name.split('[')[0]}" not in (ROOT / path).read_text("utf-8"):
            absent.append(test)
    assert not absent


def test_at_least_a_hundred_different_bugs_are_planted():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 100


@pytest.mark.slow
def test_every_planted_bug_is_caught():
    words = [sys.executable, "scripts/run_mutants.py", "--jobs", "2", *(mutant.name for mutant in MUTANTS)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_bug_is_a_kill_and_neither_a_harmless_edit_nor_a_broken_import_is_one():
    # The runner's own planted mistakes: if it called everything killed, the last two would be.
    spec = importlib.util.spec_from_file_location("run_mutants", ROOT / "scripts" / "run_mutants.py")
    runner = importlib.util.module_from_spec(spec)
    sys.modules["run_mutants"] = runner
    spec.loader.exec_module(runner)
    (bug,) = (mutant for mutant in MUTANTS if mutant.name == "adjacency-swapped")
    assert runner.killed(runner.run(bug.tests, bug))
    before = "DROP: Final = ChangeType("
    for after in ("DROP: Final =  ChangeType(", "DROP: Final = nonsense("):
        mutant = Mutant("tried", "", "privacy/unit.py", before, after, bug.tests)
        assert not runner.killed(runner.run(mutant.tests, mutant))
