"""The version, the module, completion, and what was probably meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from rich.text import Text

import sottovoce
from sottovoce.cli import _build, run


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with records; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": ["billing", "fraud"][i % 2]} for i in range(6)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def typed(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return typed


RECORDS = ("--private", "private.jsonl", "--ledger", "t.db")
LABELS = ("--labels", "billing,fraud")
FAKE = ("--model", "fake")


def test_the_version_is_told(desk):
    assert desk("--version") == (0, f"sottovoce {sottovoce.__version__}\n", "")


@pytest.mark.slow
def test_the_package_runs_as_a_module_and_completes_commands(tmp_path):
    told = {**os.environ, "_SOTTO_COMPLETE": "complete_bash", "COMP_WORDS": "sotto cla", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "sottovoce"], env=told, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["classify"], "")


def test_the_completion_can_be_installed(desk):
    code, out, _ = desk("--help")
    assert (code, "--install-completion" in out, "--show-completion" in out) == (0, True, True)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("ask", "x", *RECORDS, *LABELS, *FAKE, "--method", "peo"), "--method is 'peo'; it must be one of auto, "),
        (("ask", "x", *RECORDS, *LABELS, *FAKE, "--method", "peo"), "did you mean 'poe'?\n"),
        (
            ("fit", *RECORDS, *LABELS, *FAKE, "--method", "class-mean", "--out", "f.sotto"),
            "did you mean 'class-means'?",
        ),
        (("synthesize", *RECORDS, *LABELS, *FAKE, "--method", "prizm", "--out", "s.jsonl"), "did you mean 'prism'?"),
        (("account", "prizm"), "did you mean 'prism'?"),
        (("ask", "x", *RECORDS, *FAKE, "--task", "agnew"), "did you mean 'agnews'?"),
        (("ask", "x", *RECORDS, *LABELS, "--model", "embeded"), "--model is 'embeded'"),
        (("ask", "x", *RECORDS, *LABELS, "--model", "embeded"), "did you mean 'embedded'?"),
        (("ask", "x", *RECORDS, *LABELS, "--model", "Qwen/Qwen3-4B"), "did you mean 'hf:Qwen/Qwen3-4B'?"),
        (("models", "check", "./weights/mine"), "did you mean 'hf:./weights/mine'?"),
        (("models", "check", "hf:x", "--tokens", 10**21), "--tokens is 10"),
        (("models", "check", "hf:x", "--inside-tokens", 2**63 - 1), "a whole number from 1 to 32,768"),
        (("bench", "run", "poetry-tabel1"), "did you mean 'poetry-table1'?"),
        (("clasify",), "Did you mean 'classify'?"),
        (("ledger", "shw"), "Did you mean 'show'?"),
        (("ask", "x", "--ledgr", "t.db"), "No such option: --ledgr; did you mean --ledger?"),
        (("ask", "x", *RECORDS, *LABELS, *FAKE, "--adjacency", "replace"), "did you mean 'replace-one'?"),
        (("ask", "x", *RECORDS, *LABELS, *FAKE, "--method", "poe", "-o", "clop=2"), "did you mean 'clip'?"),
        (("ask", "x", *RECORDS, *LABELS, *FAKE, "--method", "rnm", "--noise", "gausian"), "did you mean 'gaussian'?"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(desk, words, meant):
    code, out, err = desk(*words)
    assert (code, out) == (2, "")
    assert meant in err
    assert "?." not in err


def test_a_name_that_is_near_nothing_gets_no_guess(desk):
    _, _, err = desk("ask", "x", *RECORDS, *LABELS, *FAKE, "--method", "zzzz")
    assert "it must be one of" in err
    assert "did you mean" not in err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_bench_run_has_help_of_its_own(desk, flag):
    code, out, err = desk("bench", "run", flag)
    assert (code, err) == (0, "")
    assert "Run one experiment" in out


def test_errors_name_options_as_they_are_typed(desk):
    for words, told in (
        (("--epsilon", "-1"), "--epsilon is '-1'"),
        (("-g", "0"), "--per-expert is 0"),
        (("--budget", "x"), "--budget epsilon is 'x'"),
    ):
        code, _, err = desk("ask", "x", *RECORDS, *LABELS, *FAKE, *words)
        assert (code, told in err) == (2, True), err


def helps(command, path="sotto"):
    """Every text that --help prints: its place, and the text."""
    yield path, command.help or ""
    for option in command.params:
        yield f"{path} {option.opts[0]}", getattr(option, "help", None) or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from helps(inner, f"{path} {name}")


def test_no_word_of_a_help_text_is_taken_for_markup():
    texts = dict(helps(_build()))
    assert len(texts) > 150
    assert {place: text for place, text in texts.items() if Text.from_markup(text).plain != text} == {}
