"""One file more in a copy of the package, and the suite that ships with it: no line of test is written for the file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import sottovoce
from sottovoce.testing import unknown_registries
from sottovoce.testing.__main__ import main

HALVED = '''"""A product of experts whose noise is for half of what a replaced expert moves."""

from dataclasses import dataclass

from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.base import Method, register_method
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.aggregates import Scores


@register_method("halved", summary="a mistake", source="none")
@dataclass(frozen=True)
class Halved(Method):
    clip: float = 2.0

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon)

    def law(self, experts, price):
        return Exponential(price.epsilon).law(self._scores(experts))

    def choose(self, experts, price, randomness):
        return Exponential(price.epsilon).select(self._scores(experts), randomness)

    def _scores(self, experts):
        right = experts.clipped_sum(self.clip)
        return Scores(right.values, sensitivity=WIDTHS, adjacency=right.adjacency)
'''
REGISTRY = '''"""A registry of something new."""

WRITERS = {}


def register_writer(name):
    def enrol(cls):
        WRITERS[name] = cls
        return cls

    return enrol
'''


def copied(folder: Path, **files: str) -> Path:
    """A copy of the package with more files; ``methods__halved`` is ``methods/halved.py``."""
    weights = shutil.ignore_patterns("embedded_language_model", "__pycache__")
    shutil.copytree(Path(sottovoce.__file__).parent, folder / "sottovoce", ignore=weights)
    for name, text in files.items():
        (folder / "sottovoce" / f"{name.replace('__', '/')}.py").write_text(text, "utf-8")
    return folder


def suite(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "sottovoce.testing", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_one_file_with_halved_sensitivity_fails_and_the_same_with_all_of_it_passes(tmp_path):
    whole = HALVED.replace("WIDTHS", "right.sensitivity").replace("halved", "whole")
    wrong = HALVED.replace("WIDTHS", "right.sensitivity // 2 or 1")
    folder = copied(tmp_path, methods__halved=wrong, methods__whole=whole)
    found = suite(folder, "halved", "whole")
    assert found.returncode == 1, found.stderr
    assert "method halved: FAILED" in found.stdout
    assert "log-ratios 2 wide, and 1 is allowed" in found.stdout
    assert "method whole: kept its contract" in found.stdout
    assert "1 of 2 broke a contract." in found.stdout


def test_a_registry_that_has_no_contract_fails_the_suite(tmp_path, monkeypatch, capsys):
    (tmp_path / "writers.py").write_text(REGISTRY, "utf-8")
    assert unknown_registries(tmp_path) == ["writers.py:register_writer"]
    monkeypatch.setattr("sottovoce.testing.__main__.unknown_registries", lambda: unknown_registries(tmp_path))
    assert main(["soft"]) == 1
    assert "registry writers.py:register_writer: FAILED" in capsys.readouterr().out


@pytest.mark.slow
def test_every_entry_is_driven_unless_names_are_given(capsys):
    assert main(["laplace", "soft"]) == 0
    assert "All 2 kept their contracts." in capsys.readouterr().out


def test_a_name_that_is_not_registered_is_refused(capsys):
    with pytest.raises(SystemExit) as left:
        main(["oracle"])
    assert left.value.code == 2
    assert "nothing is registered as oracle" in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["\x1b[31m", "--\x1b[31m"])
def test_an_argument_is_shown_and_never_obeyed(argument, capsys):
    with pytest.raises(SystemExit) as left:
        main([argument])
    told = capsys.readouterr().err
    assert left.value.code == 2
    assert "\\x1b[31m" in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("unknown", "code", "verdict"),
    [((), 2, "All 1 kept their contracts."), (("writers.py:register_writer",), 1, "1 of 1 broke a contract.")],
)
def test_the_verdict_is_told_where_stdout_takes_nothing(unknown, code, verdict, monkeypatch, capsys):
    monkeypatch.setattr("sottovoce.testing.__main__.unknown_registries", lambda: list(unknown))
    full = Path("/dev/full").open("w")  # noqa: SIM115  # to close it is refused as well
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        assert main(["laplace"]) == code
    with suppress(OSError):
        full.close()
    told = capsys.readouterr().err
    assert told.count("The output cannot be written (No space left on device).") == 1
    assert told.endswith(f"The verdict is: {verdict}\n")


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_suite():
    ended = subprocess.Popen(
        [sys.executable, "-m", "sottovoce.testing", "laplace"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    ended.stdout.close()
    assert (ended.stderr.read(), ended.wait(60)) == (b"", 141)
    ended.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["-h"], pytest.param(["laplace"], marks=pytest.mark.slow)])
def test_where_neither_stream_takes_anything_no_contract_is_broken(arguments):
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "sottovoce.testing", *arguments]
        assert subprocess.run(command, stdout=full, stderr=full, check=False).returncode == 2
