"""Results go to stdout, progress and remarks to stderr; what is piped is whole."""

from __future__ import annotations

import errno
import io
import json

import pytest

from sottovoce.cli import run
from sottovoce.terminal import table

LABELS = "billing,fraud"


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with records and a ledger; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": LABELS.split(",")[i % 2]} for i in range(12)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def typed(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    assert typed("ask", "late?", *ASK)[0] == 0
    return typed


ASK = ("--private", "private.jsonl", "--labels", LABELS, "--model", "fake", "--epsilon", "0.5", "--ledger", "t.db")
PLAN = ("plan", "--records", "440", "--questions", "1000", "--labels", "6", "--epsilon", "4")
SYNTHESIS = ("--per-label", "1", "--tokens", "4", "--experts", "10", "--out", "s.jsonl")
RESULTS = {
    "methods": (("methods",), "prior-poe"),
    "models": (("models",), "embedded-image"),
    "plan": (PLAN, "sotto fit --private RECORDS.jsonl"),
    "account": (("account", "poe", "--epsilon", "1"), "replace-one"),
    "bench list": (("bench", "list"), "poetry-table1"),
    "ledger show": (("ledger", "show", "t.db"), "replace-one adjacency"),
    "ledger verify": (("ledger", "verify", "t.db"), "chain and balances agree"),
    "ledger recompute": (("ledger", "recompute", "t.db"), "agrees with its events"),
    "fit --dry-run": (("fit", *ASK, "--method", "class-means", "--out", "f.sotto", "--dry-run"), "class-means"),
    "synthesize --dry-run": (("synthesize", *ASK, *SYNTHESIS, "--dry-run"), "add-remove"),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_command_was_asked_for_is_on_stdout_and_nothing_of_it_on_stderr(desk, name):
    words, result = RESULTS[name]
    code, out, err = desk(*words)
    assert code == 0, err
    assert result in out
    assert result not in err
    code, out, err = desk(*words, "--json")
    assert code == 0, err
    assert isinstance(json.loads(out), dict)


class FullDisk(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("words", [("--version",), ("bench", "list"), ("-h",)], ids=["text", "table", "help"])
def test_a_full_disk_is_bad_output_and_no_bug(capsys, monkeypatch, words):
    monkeypatch.setattr("sys.stdout", FullDisk())
    assert run(list(words)) == 2
    told = "The output cannot be written (No space left on device). Make room, or write it elsewhere."
    assert capsys.readouterr().err == f"OutputError: {told}\n"


@pytest.mark.parametrize("words", [("--version",), ("bench", "list")], ids=["text", "table"])
def test_a_process_without_stdout_is_told_and_is_no_bug(capsys, monkeypatch, words):
    monkeypatch.setattr("sys.stdout", None)
    assert run(list(words)) == 2
    assert capsys.readouterr().err.startswith("OutputError: The output cannot be written (stdout is closed).")
    monkeypatch.setattr("sys.stderr", None)
    assert run(list(words)) == 2


@pytest.mark.parametrize("command", ["classify", "fit", "ask"])
def test_where_stdout_is_full_it_is_told_what_is_lost_and_what_is_whole(desk, tmp_path, capfd, monkeypatch, command):
    (tmp_path / "queries.jsonl").write_text('{"text": "late?"}\n')
    monkeypatch.setattr("sys.stdout", FullDisk())
    words = {
        "classify": ("classify", "--queries", "queries.jsonl", *ASK, "--out", "a.jsonl", "--json"),
        "fit": ("fit", *ASK, "--method", "class-means", "--out", "a.sotto", "--json"),
        "ask": ("ask", "late?", *ASK),
    }[command]
    assert run(list(words)) == 2
    err = capfd.readouterr().err
    lost = "answers that were not written are lost"
    if command == "ask":
        assert f"What was charged stands, and {lost}: 'sotto classify --out' keeps them." in err
    else:
        assert f"{words[-2]} is whole; --resume prints this again, for nothing." in err
        assert lost not in err
    if command == "classify":
        words = (*words[:3], *ASK)
        assert run(list(words)) == 2
        assert f"{lost}: name a file with --out, which keeps them." in capfd.readouterr().err


def test_where_nobody_can_be_told_the_code_is_not_that_of_a_violation(monkeypatch):
    monkeypatch.setattr("sys.stderr", FullDisk())
    assert run(["nosuch"]) == 2


def test_a_piped_table_is_as_wide_as_its_longest_row(capsys):
    cell = "a reason " * 40 + "ends here"
    table("A heading that is longer than its two narrow columns", ["name", "why"], [["x", cell]])
    out, err = capsys.readouterr()
    assert (err, f" x      {cell}" in out.splitlines()) == ("", True)
    assert "A heading that is longer than its two narrow columns" in out.splitlines()
    assert not any(line != line.rstrip() for line in out.splitlines())


def test_one_line_of_a_piped_list_holds_a_method_with_its_summary(desk):
    _, out, _ = desk("methods")
    (line,) = [line for line in out.splitlines() if line.startswith("prior-poe ")]
    assert "product of experts" in line


def test_what_an_owner_changes_is_a_remark_or_one_object(desk):
    grant = ("ledger", "grant", "--private", "private.jsonl", "--ledger", "t.db", "--budget")
    code, out, err = desk(*grant, "9,1e-6")
    assert (code, out, "epsilon 9" in err) == (0, "", True)
    code, out, err = desk(*grant, "1,1e-6", "--caller", "ann", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (code, told["caller"], told["data_set"]["budget"]["epsilon"]) == (0, "ann", 9.0)
    code, out, _ = desk("ledger", "export", "t.db", "--out", "h.jsonl", "--json")
    assert (code, json.loads(out)["out"]) == (0, "h.jsonl")
    code, out, _ = desk(*grant[:-1], "--require-caller", "--json")
    assert (code, json.loads(out)["caller_required"]) == (0, True)
