"""Results go to stdout, progress and remarks to stderr; what is piped is whole."""

from __future__ import annotations

import errno
import io
import json
import sqlite3
from contextlib import closing

import pytest

from sottovoce.cli import run
from sottovoce.cli.verdict import Verdict
from sottovoce.errors import OutputError
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


@pytest.mark.cases(3)
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


@pytest.mark.cases(2)
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


class Unread(io.StringIO):
    """A pipe whose reader went away."""

    def write(self, text):
        if text:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        return 0


@pytest.fixture
def wrong(desk, tmp_path):
    """A ledger with a changed balance, its export with a changed charge, and a fitted file with a changed price."""
    assert desk("ledger", "export", "t.db", "--out", "h.jsonl")[0] == 0
    entries = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    changed = [{**entry, "amount": 1} if entry.get("kind") == "reserve" else entry for entry in entries]
    (tmp_path / "h.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in changed))
    assert desk("fit", *ASK, "--method", "class-means", "--out", "f.sotto")[0] == 0
    content = (tmp_path / "f.sotto").read_bytes()
    (tmp_path / "f.sotto").write_bytes(content.replace(b'"epsilon": 0.5', b'"epsilon": 0.4'))
    with closing(sqlite3.connect("t.db")) as raw, raw:
        raw.execute("UPDATE sotto_data_set SET spent = spent - 1")
    return desk


VERDICTS = {
    "verify": (("ledger", "verify", "t.db"), 3, "does not agree with the history"),
    "recompute": (("ledger", "recompute", "h.jsonl"), 3, "does NOT agree"),
    "certificate": (("verify", "certificate", "f.sotto"), 2, "does not hold"),
}


@pytest.mark.slow
def test_a_verdict_keeps_its_exit_code_and_is_told_where_stdout_does_not_take_it(wrong, capfd, monkeypatch):
    for words, wanted, told in VERDICTS.values():
        code, out, err = wrong(*words)
        assert (code, told in out + err) == (wanted, True), err
    for stream in (FullDisk(), Unread(), None):
        monkeypatch.setattr("sys.stdout", stream)
        for words, wanted, told in VERDICTS.values():
            for more in ((), ("--json",)):
                assert run([*words, *more]) == wanted, (words, more, stream)
                err = capfd.readouterr().err
                assert "The verdict is: " in err
                assert told in err


def test_a_verdict_without_a_code_of_its_own_has_that_of_what_went_wrong(monkeypatch):
    def broken():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    def lost():
        raise OutputError("The output cannot be written.")

    told = []
    monkeypatch.setattr("sottovoce.cli.verdict.say", told.append)
    good = Verdict("fine", 0)
    good.put(lambda: None)
    assert (good.end(), good.is_printed, told) == (0, True, [])
    good.put(broken)
    with pytest.raises(BrokenPipeError):
        good.end()
    assert told == []
    full = Verdict("fine.", 0)
    full.put(lost)
    assert (full.end(), full.is_printed) == (2, False)
    assert told == ["The output cannot be written. The verdict is: fine."]
    assert (Verdict("bad", 1).end(), Verdict("bad", 3).end()) == (1, 3)


@pytest.mark.parametrize("gone", [BrokenPipeError, SystemExit, OSError], ids=["pipe", "rich", "full"])
def test_no_stderr_takes_the_code_of_a_verdict(monkeypatch, gone):
    def say(line):
        if gone is SystemExit:
            try:
                raise BrokenPipeError(errno.EPIPE, "Broken pipe")
            except BrokenPipeError:
                raise SystemExit(1)  # noqa: B904  as rich does
        raise gone(errno.ENOSPC if gone is OSError else errno.EPIPE, "not written")

    monkeypatch.setattr("sottovoce.cli.verdict.say", say)
    violation = Verdict("bad", 1)
    violation.say("Written: a.xml")
    assert violation.end() == 1
    fine = Verdict("fine", 0)
    fine.say("Written: a.xml")
    if gone is OSError:
        assert fine.end() == 2
    else:
        with pytest.raises(BrokenPipeError):
            fine.end()


def test_what_an_owner_decided_is_told_where_stdout_is_full(desk, capfd, monkeypatch):
    monkeypatch.setattr("sys.stdout", FullDisk())
    grant = ("ledger", "grant", "--private", "private.jsonl", "--ledger", "t.db")
    for more, told in (
        (("--budget", "9,1e-6"), "has epsilon 9"),
        (("--budget", "1,1e-6", "--caller", "ann"), "caller 'ann' of data set 'data' has epsilon 1"),
        (("--require-caller",), "must name a caller"),
    ):
        assert run([*grant, *more, "--json"]) == 2
        err = capfd.readouterr().err
        assert "The ledger holds the decision all the same. t.db: " in err
        assert told in err


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
    figures = [line for line in out.splitlines() if "one answer at epsilon" in line and "NO GUARANTEE" not in line]
    assert figures
    assert all("replace-one" in line for line in figures)


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
