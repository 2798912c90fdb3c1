"""What comes from data is shown, never obeyed: no escape sequence, no markup, no line of its own."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import logging
import os
import re
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from rich.console import Console

import sottovoce
from sottovoce import cli, terminal
from sottovoce.cli import run
from sottovoce.models.base import Isolation
from sottovoce.privacy.unit import Adjacency
from sottovoce.synthesis.certificate import statement_of
from sottovoce.terminal import gated, json_text, printable

CLEAR, TITLE = "\x1b[2J\x1b[9A", "\x1b]0;owned\x07"
FAKE_LINE = "InputError: nothing is wrong"
NASTY = f"x{CLEAR}{TITLE}\x9b2J\u202egnp\u2066\u200b\ufeff\x7f\r[bold]y[/nope] :smile: \n{FAKE_LINE}"
"""Terminal sequences, marks that turn or hide text, markup of rich, and a line that looks like one of ours."""
NAME = NASTY.replace("/", "|")
"""The same as a file's name."""


def safe(text: str) -> bool:
    return all(letter == "\n" or letter.isprintable() or unicodedata.category(letter) == "Zs" for letter in text)


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command; returns exit code, stdout and stderr, which must be safe."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": ["billing", "fraud"][i % 2]} for i in range(24)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"id": NASTY, "text": "late?"}) + "\n")
    (tmp_path / NAME).write_text(NASTY)

    def typed(*words):
        capfd.readouterr()
        code = run(list(words))
        out, err = capfd.readouterr()
        assert safe(out), ascii(out)
        assert safe(err), ascii(err)
        assert not any(line.startswith(FAKE_LINE) for line in (out + err).splitlines()), "data wrote a line of its own"
        assert "Internal error" not in err, err
        return code, out, err

    typed.folder = tmp_path
    return typed


COMMON = ("--private", "private.jsonl", "--model", "fake", "--epsilon", "0.5", "--ledger", "t.db")
LABELS = ("--labels", "billing,fraud")


@pytest.mark.cases(20)
@pytest.mark.parametrize(
    "words",
    [
        (NAME,),
        ("classify", f"--{NAME}"),
        ("classify", "--queries", "queries.jsonl", "--limit", NAME),
        ("classify", "--queries", NAME, *COMMON, *LABELS),
        ("classify", "--queries", NAME + ".jsonl", *COMMON, *LABELS),
        *(
            ("classify", "--queries", "queries.jsonl", *COMMON, *(LABELS if option != "--labels" else ()), option, NAME)
            for option in (
                "--private", "--labels", "--method", "--delta", "--adjacency", "--unit", "--ledger", "--caller",
                "--budget", "--model", "--noise", "--clip", "--out", "--epsilon", "--demonstrations", "--device",
            )
        ),
        ("classify", "--queries", "queries.jsonl", *COMMON, "--task", NAME),
        ("classify", "--queries", "queries.jsonl", *COMMON, "--task", NAME + ".toml"),
        ("ask", NAME, *COMMON, *LABELS, "--release-id", NAME),
        ("synthesize", *COMMON, "--schema", NAME, "--out", "s.jsonl"),
        ("synthesize", *COMMON, *LABELS, "--out", NAME),
        ("synthesize", *COMMON, *LABELS, "--method", NAME, "--out", "s.jsonl"),
        ("verify", "certificate", NAME),
        ("verify", "certificate", NAME, "--ledger", NAME),
        ("ledger", "show", NAME),
        ("ledger", "show", "postgresql://" + NAME),
        ("ledger", "verify", NAME),
        ("ledger", "recompute", NAME),
        ("ledger", "recompute", "private.jsonl", "--accountant", NAME),
        ("ledger", "export", NAME, "--out", NAME),
        ("ledger", "grant", "--private", "private.jsonl", "--name", NAME, "--budget", NAME),
        ("account", NAME),
        ("account", "poe", "--epsilon", NAME),
        ("account", "events", "--file", NAME),
        ("plan", "--records", "10", "--questions", "10", "--adjacency", NAME),
        ("plan", "--records", "10", "--questions", "10", "--queries", "queries.jsonl", "--task", NAME),
        ("models", "check", NAME),
        ("bench", "run", NAME),
        ("bench", "run", "noise", NAME),
        ("bench", "report", "--results", NAME),
    ],
    ids=lambda words: " ".join(word for word in words if word != NAME)[:60],
)  # fmt: skip
def test_whatever_is_typed_or_named_reaches_the_terminal_escaped(desk, words):
    assert desk(*words)[0] in (0, 2, 3)


def test_ids_of_questions_labels_and_files_are_shown_escaped_and_are_the_same_values(desk):
    words = ("classify", "--queries", "queries.jsonl", *COMMON, *LABELS)
    code, out, _ = desk(*words)
    assert (code, json.loads(out)["id"]) == (0, NASTY)
    code, out, _ = desk(*words, "--json")
    assert (code, json.loads(out)["rows"][0]["id"]) == (0, NASTY)
    code, out, _ = desk(*words, "--out", f"answers{NAME}.jsonl")
    assert (code, out) == (0, "")
    (desk.folder / "task.toml").write_text("labels = ['[bold]a[/nope]', ':smile:']\nname = " + json.dumps(NASTY[:5]))
    (desk.folder / "more.jsonl").write_text('{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n')
    code, out, _ = desk("ask", "late?", *COMMON, "--task", "task.toml", "--private", "more.jsonl", "--ledger", "m.db")
    assert code == 0
    assert out.strip() in ("[bold]a[/nope]", ":smile:")


def test_names_that_a_ledger_keeps_are_shown_escaped(desk):
    grant = ("ledger", "grant", "--private", "private.jsonl", "--ledger", "n.db", "--budget", "2,1e-6")
    desk(*grant, "--name", NASTY)
    desk(*grant, "--caller", NASTY)
    desk(*grant, "--caller", "ann", "--group", NASTY)
    for words in (("show",), ("show", "--json"), ("verify",), ("recompute",)):
        desk("ledger", words[0], "n.db", *words[1:])


def certificate(**changed):
    told = {
        "method": "prism", "parameters": {"clip": 10.0, "temperature": 1.0, "top_k": None}, "adjacency": "add-remove",
        "unit": "record", "change": "drop", "epsilon": 4.0, "delta": 1e-6,
        "event": {"event": "SelfComposedDpEvent", "count": 10, "inner": {"event": "BoundedRange", "eta": 0.1}},
        "tokens": 10, "texts": 1, "experts": 100, "labels": ["a"], "rows": 0, "rows_sha256": "", "model": "m",
        "isolation": Isolation.TESTED.value, "seeded": False, "data": "0" * 64, "ledger": [], "version": "0",
        "format": 1, **changed,
    }  # fmt: skip
    told.setdefault(
        "statement",
        statement_of(
            Adjacency.ADD_REMOVE, told["unit"], told["epsilon"], told["delta"], told["method"], Isolation.TESTED,
            seeded=False,
        ),
    )  # fmt: skip
    return json.dumps(told)


@pytest.mark.cases(10)
@pytest.mark.parametrize(
    "changed",
    [
        {"unit": NASTY}, {"statement": NASTY}, {"method": "[/nope]"}, {"method": NASTY}, {"model": NASTY},
        {"labels": [NASTY]}, {"version": NASTY}, {"event": {"event": NASTY}}, {"parameters": {NASTY: NASTY}},
        {"adjacency": NASTY}, {"ledger": [NASTY]}, {"isolation": NASTY}, {"format": NASTY}, {"change": NASTY},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_strangers_certificate_is_shown_and_not_obeyed(desk, changed, flags):
    (desk.folder / "c.json").write_text(certificate(**changed))
    code, out, _ = desk("verify", "certificate", "c.json", *flags)
    assert code in (0, 2)
    assert not flags or not out or json.loads(out)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminal can be simulated")
def test_on_a_terminal_only_the_programs_own_sequences_are_left(tmp_path):
    (tmp_path / "c.json").write_text(certificate(unit=NASTY, method=NASTY))
    ours, theirs = os.openpty()
    words = [sys.executable, "-c", "from sottovoce.cli import main; main()", "verify", "certificate", "c.json"]
    told = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "SOTTOVOCE_HOME": str(tmp_path / "home")}
    process = subprocess.Popen(words, stdout=theirs, stderr=theirs, cwd=tmp_path, env=told)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            piece = b""
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert process.wait() == 2
    text = seen.decode("utf-8").replace("\r\n", "\n")
    assert "\x1b[1m" in text, "the table's own bold"
    assert safe(re.sub(r"\x1b\[[0-9;]*m", "", text))
    assert r"\x1b[2J" in text
    assert r"\u202e" in text


# The gate


@pytest.mark.parametrize("letter", ["\x00", "\x08", "\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066", "\u200b"])
def test_what_a_terminal_could_obey_is_escaped(letter):
    assert safe(printable(f"a{letter}b"))
    assert printable(f"a{letter}b").isascii()
    text = json_text({f"a{letter}": letter})
    assert safe(text)
    assert json.loads(text) == {f"a{letter}": letter}


@pytest.mark.parametrize("text", ["café", "日本語", "a\u00a0b", "👍", "ไทย", "e\u0301"])
def test_letters_of_any_script_are_left_alone(text):
    assert printable(text) == text
    assert text in json_text([text])


@pytest.mark.parametrize("letter", ["\ud800", "\U000e0041", "\U0001f600"])
def test_json_of_letters_beyond_the_first_plane_is_the_same_value(letter):
    text = json_text([letter])
    assert json.loads(text) == [letter]
    text.encode("utf-8")


def test_whoever_writes_while_a_command_runs_passes_the_gate(capfd):
    with gated():
        print(CLEAR)
        sys.stderr.write(f"{CLEAR}\n")
        logging.StreamHandler().emit(logging.makeLogRecord({"msg": TITLE}))
        assert not sys.stdout.isatty()
    out, err = capfd.readouterr()
    assert safe(out)
    assert safe(err)
    assert "owned" in err
    print(CLEAR)
    assert capfd.readouterr().out == f"{CLEAR}\n", "afterwards the streams are what they were"


def test_every_command_runs_behind_the_gate(monkeypatch, capfd):
    def prints(*name):
        def command(**given):
            print(CLEAR)
            raise RuntimeError(TITLE)

        return lambda **given: command()

    monkeypatch.setattr(cli, "_build", prints)
    assert run([]) == 70
    out, err = capfd.readouterr()
    assert safe(out)
    assert "owned" not in err


@pytest.mark.parametrize("order", [SystemExit, GeneratorExit, asyncio.CancelledError])
def test_the_words_of_an_order_to_stop_are_withheld(monkeypatch, capfd, order):
    # The interpreter would print them behind the gate.
    def stops(**given):
        raise order(TITLE)

    monkeypatch.setattr(cli, "_build", lambda *name: stops)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 70
    out, err = capfd.readouterr()
    assert safe(err)
    assert "owned" not in out + err
    assert f"Internal error: {order.__name__} at test_terminal.py" in err


@pytest.mark.parametrize("code", [3, None])
def test_an_order_to_end_with_an_exit_code_is_followed(monkeypatch, code):
    def stops(**given):
        raise SystemExit(code)

    monkeypatch.setattr(cli, "_build", lambda *name: stops)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == code


def test_answers_reach_a_stream_that_knows_ascii_alone(monkeypatch):
    words = "import sottovoce.terminal as t; t.put({'a': 'café'}); t.put_text('caf'); t.say('café')"
    told = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", words], env=told, capture_output=True, text=True)
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[0]) == {"a": "café"}


def test_on_a_terminal_it_is_said_what_is_waited_for(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "_err", lambda: Console(file=shown, force_terminal=True))
    monkeypatch.setattr(terminal, "PATIENCE_S", 0.01)
    with terminal.waiting(NASTY):
        time.sleep(0.2)
    seen = re.sub(r"\x1b\[\??[0-9;]*[A-Za-z]", "", shown.getvalue()).replace("\r", "")
    assert "gnp" in seen
    assert safe(seen)


def test_nothing_is_said_where_nobody_waits_or_watches(monkeypatch, capfd):
    with terminal.waiting("a model"):
        pass
    assert capfd.readouterr() == ("", "")
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "_err", lambda: Console(file=shown, force_terminal=True))
    with terminal.waiting("a model"):
        pass
    assert "a model" not in shown.getvalue()


def test_only_the_gate_knows_how_to_print():
    source = Path(sottovoce.__file__).parent
    wrong = []
    for path in source.rglob("*.py"):
        name, text = path.relative_to(source).as_posix(), path.read_text("utf-8")
        if "rich" not in text and not name.startswith("cli/"):
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
                if name != Path(terminal.__file__).name and any(one.split(".")[0] == "rich" for one in names):
                    wrong.append(f"{name}:{node.lineno} imports rich")
            if name.startswith("cli/") and isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                streams = (".stdout.write", ".stderr.write")
                if called in ("print", "typer.echo", "typer.secho") or called.endswith(streams):
                    wrong.append(f"{name}:{node.lineno} calls {called}")
    assert wrong == []
