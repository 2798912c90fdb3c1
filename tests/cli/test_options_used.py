"""Options stand under headings in ``--help``; one that the method does not use is refused by name."""

from __future__ import annotations

import json

import pytest
import typer
from typer.main import get_command

from sottovoce.cli import _build, run
from sottovoce.cli.panels import PANELS, group

COMMON = ("--labels", "billing,fraud", "--model", "fake")


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with records; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": ["billing", "fraud"][i % 2]} for i in range(12)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def typed(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    typed.folder = tmp_path
    return typed


@pytest.mark.slow
def test_help_groups_the_options(desk):
    code, out, _ = desk("classify", "--help")
    assert code == 0
    for heading in ("Input", "Privacy and budget", "Method", "Model", "Output"):
        assert f"─ {heading} ─" in out
    code, out, _ = desk("account", "--help")
    assert (code, "Options of single methods" in out) == (0, True)


def test_every_heading_holds_options_that_exist():
    found = set()

    def walk(command):
        for inner in getattr(command, "commands", {}).values():
            walk(inner)
        found.update(name for one in command.params for name in one.opts)

    walk(_build())
    listed = [f"--{key}" for keys in PANELS.values() for key in keys if key != "help"]
    assert len(listed) == len(set(listed))
    assert set(listed) <= found


def test_an_option_without_a_heading_stands_among_the_others():
    command = typer.Typer(add_completion=False)

    @command.command()
    def made(something_new: str = "") -> None:
        """Has an option that no heading names."""

    built = get_command(command)
    group(built)
    assert [one.rich_help_panel for one in built.params] == ["Options"]


@pytest.mark.parametrize(
    ("method", "words", "flag", "using"),
    [
        ("zero-shot", ("--ledger", "t.db"), "--ledger", "poe"),
        ("zero-shot", ("--budget", "8,1e-6"), "--budget", "prior-poe"),
        ("zero-shot", ("-g", "2"), "--per-expert", "rnm"),
        ("zero-shot", ("--release-id", "t-17"), "--release-id", "poe"),
        ("poe", ("--delta", "1e-9"), "--delta", "pbs, rnm --noise gaussian"),
        ("rnm", ("--delta", "1e-9"), "--delta", "rnm --noise gaussian"),
        ("poe", ("--noise", "gaussian"), "--noise", "--method rnm"),
        ("poe", ("--subsamples", "3"), "--subsamples", "--method pbs"),
    ],
)
def test_an_option_that_the_method_does_not_use_is_refused_by_name(desk, method, words, flag, using):
    code, out, err = desk("ask", "late?", "--private", "private.jsonl", *COMMON, "--method", method, *words)
    assert (code, out) == (2, "")
    assert f"{flag} is" in err
    assert using in err
    assert not (desk.folder / "t.db").exists()


def test_an_option_that_the_method_uses_is_taken_and_a_default_is_no_option(desk, monkeypatch):
    ask = ("ask", "late?", "--private", "private.jsonl", *COMMON, "--epsilon", "0.5")
    assert desk(*ask, "--method", "rnm", "--noise", "gaussian", "--delta", "1e-9")[0] == 0
    assert desk(*ask, "--method", "zero-shot")[0] == 0
    monkeypatch.setenv("SOTTO_LEDGER", "t.db")
    assert desk(*ask, "--method", "zero-shot")[0] == 0, "a setting for other commands is no mistake here"


def test_a_writer_that_a_fit_does_not_use_is_refused_as_it_was_typed(desk):
    fit = ("fit", "--private", "private.jsonl", *COMMON, "--method", "dp-logistic", "--out", "f.sotto")
    code, _, err = desk(*fit, "--writer", "fake")
    assert (code, "--writer is 'fake'" in err, "used by evolve" in err) == (2, True, True), err
