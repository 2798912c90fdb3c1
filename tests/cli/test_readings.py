"""A run reads its records in one way, with one model: other columns, texts cut elsewhere or weights are another run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from sottovoce.cli import run
from sottovoce.models.fake import FakeScorer, FakeStepper, FakeWriter
from sottovoce.privacy.ledger.account import Account
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.records.sealed import Reading
from sottovoce.session import BATCH

WORDS = {"billing": "a fee was charged twice", "fraud": "somebody used my card"}
LABELS = ",".join(WORDS)
PRICE = ("--model", "fake", "--ledger", "notes.db", "--budget", "90,1e-5,failure=5e-6")
COMMANDS = {
    "classify": (
        "--labels", LABELS, "--queries", "queries.jsonl", "--method", "poe", "--epsilon", "0.1", "--out", "a.jsonl",
    ),
    "fit": ("--labels", LABELS, "--method", "class-means", "--epsilon", "9", "--out", "a.sotto"),
    "synthesize": ("--labels", LABELS, "--per-label", "1", "--tokens", "6", "--epsilon", "9", "--out", "a.jsonl"),
    "answer": (
        "--task", "question", "--queries", "queries.jsonl", "--public", "public.jsonl", "--method", "ksa", "-o", "k=2",
        "--shots", "1", "--limit", "2", "--out", "a.jsonl",
    ),
    "choice": ("--task", "question", "--public", "public.jsonl", "--epsilon", "9", "--out", "a.sotto"),
    "rows": (
        "--labels", LABELS, "--public", "public.jsonl", "--method", "choice", "--per-label", "1", "--epsilon", "9",
        "--out", "a.jsonl",
    ),
}  # fmt: skip
NAMES = {"choice": "fit", "rows": "synthesize"}
SLOW = ("fit", "rows")
EVERY = pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in COMMANDS]
)


class Desk:
    """A folder with records that can be read in several ways, and commands over them."""

    def __init__(self, folder, capfd, monkeypatch):
        self.folder, self._capfd, self._monkeypatch = folder, capfd, monkeypatch
        monkeypatch.chdir(folder)
        rows = [
            {
                "id": f"r{i}", "text": f"{words} {i}", "body": f"{words} in town {i}", "label": label, "spam": "fraud",
                "question": f"{words} {i}?", "answer": f"ask the desk for {label}", "reply": f"call desk {i % 3}",
            }
            for i, (label, words) in enumerate([*WORDS.items()] * 12)
        ]  # fmt: skip
        self.write("notes.jsonl", rows)
        told = ("call the desk", "write a letter", "wait for mail", "ask your bank", "block the card", "pay a fee")
        shown = [{"text": f"fine {i}", "question": f"what of {i}?", "answer": text} for i, text in enumerate(told)]
        self.write("public.jsonl", shown)
        asked = [{"id": f"q{i}", "text": f"my card {i}?", "question": f"what of it {i}?"} for i in range(BATCH + 2)]
        self.write("queries.jsonl", asked)

    def write(self, name, rows):
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def call(self, *words):
        self._capfd.readouterr()
        code = run([str(word) for word in words])
        return code, self._capfd.readouterr().err

    def run(self, command, *more, private="notes.jsonl"):
        return self.call(NAMES.get(command, command), "--private", private, *COMMANDS[command], *PRICE, *more)

    def stop(self, command, *more):
        """Leaves a run that was charged and interrupted."""
        if command == "classify":
            assert self.run(command, *more)[0] == 0
            rows = (self.folder / "a.jsonl").read_bytes().splitlines(keepends=True)
            (self.folder / "a.jsonl").unlink()
            (self.folder / "a.jsonl.partial").write_bytes(b"".join(rows[:BATCH]))
            return
        with self._monkeypatch.context() as stopped:
            stopped.setattr(Account, "begin", _interrupted)
            assert self.run(command, *more)[0] == 130

    def kept(self):
        files = (path for path in self.folder.rglob("a.*") if path.is_file())
        return {path.name: path.read_bytes() for path in files}, self.charges()

    def charges(self):
        return sum(entry["kind"] == "reserve" for entry in Ledger("notes.db").history())

    def verified(self, command):
        """Whether the certificate of a finished run holds, where it has one."""
        proof = {"a.sotto": "a.sotto", "a.jsonl": "a.jsonl.certificate.json"}[COMMANDS[command][-1]]
        if not (self.folder / proof).exists():
            return True
        return self.call("verify", "certificate", proof, "--ledger", "notes.db", "--private", "notes.jsonl")[0] == 0


def _interrupted(*given):
    raise KeyboardInterrupt


def others(command):
    """Other readings of the records, with what tells them."""
    named = "--answer-column" if COMMANDS[command][0] == "--task" else "--label-column"
    column = {"--answer-column": "reply", "--label-column": "spam"}[named]
    return [
        ((named, column), "columns"),
        (("--text-column", "body"), "columns"),
        (("--truncate",), "truncate_at"),
        (("--truncate", "--max-characters", "100"), "truncate_at"),
    ]


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    (tmp_path / "desk").mkdir()
    return Desk(tmp_path / "desk", capfd, monkeypatch)


@pytest.mark.slow
@EVERY
def test_a_finished_run_of_another_reading_is_not_taken_for_ones_own(desk, command):
    assert desk.run(command)[0] == 0
    kept = desk.kept()
    for change, told in others(command):
        code, err = desk.run(command, *change, "--resume")
        word = told.replace("_", " ") if command in ("fit", *NAMES) else told
        assert (code, word in err, "Nothing was charged" in err) == (2, True, True), (change, err)
        assert desk.kept() == kept
    assert "Nothing to do" in desk.run(command, "--resume")[1]


@pytest.mark.cases(2)
@EVERY
def test_an_interrupted_run_is_not_resumed_by_another_reading(desk, command):
    desk.stop(command)
    kept = desk.kept()
    for change, told in others(command):
        code, err = desk.run(command, *change, "--resume")
        assert (code, f"has {told} " in err, ", not " in err) == (2, True, True), (change, err)
        assert desk.kept() == kept
    assert desk.run(command, "--resume")[0] == 0
    assert desk.verified(command)


@pytest.mark.slow
@EVERY
def test_a_reading_is_named_with_both_values(desk, command):
    named, _ = others(command)[0][0]
    desk.stop(command, named, {"--label-column": "spam", "--answer-column": "reply"}[named], "--truncate")
    column = {"--label-column": "'label': 'spam'", "--answer-column": "'answer': 'reply'"}[named]
    assert f"has columns {{{column}}}, not {{}}. Repeat its command" in desk.run(command, "--resume")[1]


def ways(desk, command):
    """The same run, typed in other ways."""
    rows = [json.loads(line) for line in (desk.folder / "notes.jsonl").read_text("utf-8").splitlines()]
    pd.DataFrame(rows).to_csv("notes.csv", index=False)
    pd.DataFrame(rows).to_parquet("notes.parquet")
    desk.write("turned.jsonl", rows[::-1])
    field = "--answer-column" if COMMANDS[command][0] == "--task" else "--label-column"
    named = ("--text-column", "question" if field == "--answer-column" else "text", field, field.split("-")[2])
    yield "again", lambda: desk.run(command, "--resume")
    yield "by their own names", lambda: desk.run(command, *named, "--resume")
    yield "a limit that cuts nothing", lambda: desk.run(command, "--max-characters", "900", "--resume")
    yield "an absolute path", lambda: desk.run(command, "--resume", private=desk.folder / "notes.jsonl")
    for name in ("notes.csv", "notes.parquet"):
        yield name, lambda name=name: desk.run(command, "--resume", private=name)
    if command not in ("synthesize", "answer"):
        yield "another order", lambda: desk.run(command, "--resume", private="turned.jsonl")


@pytest.mark.slow
@EVERY
def test_a_finished_run_is_known_however_its_reading_is_typed(desk, command):
    assert desk.run(command)[0] == 0
    kept = desk.kept()
    for what, way in ways(desk, command):
        code, err = way()
        assert (code, "Nothing to do" in err) == (0, True), (what, err)
        assert desk.kept() == kept


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("what", ["by their own names", "a limit that cuts nothing", "notes.csv", "notes.parquet"])
def test_an_interrupted_run_is_resumed_however_its_reading_is_typed(desk, command, what):
    desk.stop(command)
    charged = desk.charges()
    code, err = dict(ways(desk, command))[what]()
    assert code == 0, err
    assert desk.charges() in (charged, charged + 2, charged + 1)
    assert desk.verified(command)


@pytest.mark.slow
@EVERY
def test_columns_may_be_named_by_flags_or_by_the_settings_file_from_any_folder(desk, command, monkeypatch):
    field = "--answer-column" if COMMANDS[command][0] == "--task" else "--label-column"
    column = {"--answer-column": "reply", "--label-column": "spam"}[field]
    assert desk.run(command, field, column, "--truncate", "--max-characters", "8000")[0] == 0
    kept = desk.kept()
    (desk.folder / "sotto.toml").write_text(f'{field[2:]} = "{column}"\ntruncate = true\n', "utf-8")
    assert "Nothing to do" in desk.run(command, "--resume")[1]
    (desk.folder / "sotto.toml").unlink()
    elsewhere = desk.folder.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    words = [
        os.path.join("..", "desk", word) if word == "notes.db" or Path(word).suffix in (".jsonl", ".sotto") else word
        for word in (*COMMANDS[command], *PRICE)
    ]
    private = ("--private", "../desk/notes.jsonl", field, column, "--truncate", "--resume")
    code, err = desk.call(NAMES.get(command, command), *words, *private)
    assert (code, "Nothing to do" in err) == (0, True), err
    monkeypatch.chdir(desk.folder)
    assert desk.kept() == kept


@pytest.mark.slow
@EVERY
def test_what_an_earlier_build_left_is_resumed_as_it_was_then(desk, command, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(Reading, "words", {})
        desk.stop(command)
        charged = desk.charges()
    code, err = desk.run(command, "--resume")
    assert code == 0, err
    assert desk.charges() - charged == {"classify": 2, "answer": 1}.get(command, 0), "a charge is used"
    assert desk.verified(command)
    assert "Nothing to do" in desk.run(command, "--resume")[1]


@pytest.mark.slow
@EVERY
def test_what_an_earlier_build_finished_is_known(desk, command, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(Reading, "words", {})
        assert desk.run(command)[0] == 0
    kept = desk.kept()
    for change in ((), others(command)[0][0]):
        assert "Nothing to do" in desk.run(command, *change, "--resume")[1]
    assert desk.kept() == kept
    assert desk.verified(command)


WRITING = pytest.mark.parametrize("command", ["classify", "synthesize", "answer", "choice"])
SETTINGS = {"weights": "ab12", "dtype": "torch.float32", "chat": False}


def of_model(monkeypatch, **settings):
    for kind in (FakeScorer, FakeStepper, FakeWriter):
        monkeypatch.setattr(kind, "run_settings", settings, raising=False)


@pytest.mark.cases(2)
@WRITING
@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_goes_on_with_the_model_that_it_was_begun_with_alone(desk, command, name, monkeypatch):
    of_model(monkeypatch, **SETTINGS)
    desk.stop(command)
    of_model(monkeypatch, **{**SETTINGS, name: "another"})
    kept = desk.kept()
    code, err = desk.run(command, "--resume")
    word = f"scorer's {name}" if command == "choice" else name
    assert (code, f"has model's {word} " in err, ", not 'another'" in err) == (2, True, True), err
    assert desk.kept() == kept
    of_model(monkeypatch, **SETTINGS)
    assert desk.run(command, "--resume")[0] == 0
    assert desk.verified(command)
    kept = desk.kept()
    assert "Nothing to do" in desk.run(command, "--resume")[1]
    of_model(monkeypatch, **{**SETTINGS, name: "another"})
    assert desk.run(command, "--resume")[0] == 2
    assert desk.kept() == kept


@pytest.mark.cases(1)
@WRITING
@pytest.mark.parametrize("reading", [True, False])
def test_a_run_of_an_earlier_build_whose_model_had_a_name_alone_is_resumed(desk, command, reading, monkeypatch):
    with monkeypatch.context() as earlier:
        if not reading:
            earlier.setattr(Reading, "words", {})
        desk.stop(command)
        charged = desk.charges()
    of_model(monkeypatch, **SETTINGS)
    code, err = desk.run(command, "--resume")
    assert code == 0, err
    assert desk.charges() - charged == {"classify": 2, "answer": 1}.get(command, 0), "a charge is used"
    assert desk.verified(command)
    assert "Nothing to do" in desk.run(command, "--resume")[1]


@pytest.mark.cases(1)
@pytest.mark.parametrize("command", ["choice", "synthesize"])
def test_a_folder_that_was_written_over_gets_no_other_reading_under_the_charge(desk, command):
    desk.stop(command)
    header = desk.folder / f"{COMMANDS[command][-1]}.partial" / "run.json"
    content = json.loads(header.read_text("utf-8"))
    for name in Reading().words:
        del content["terms"][name]
    header.write_text(json.dumps(content), "utf-8")
    code, err = desk.run(command, *others(command)[0][0], "--resume")
    assert (code, "was charged for another request" in err) == (2, True), err
    assert desk.run(command, "--resume")[0] == 0
    assert desk.verified(command)


def test_a_run_that_reads_no_record_notes_no_reading(desk):
    nothing = ("--labels", LABELS, "--queries", "queries.jsonl", "--method", "zero-shot", "--out", "a.jsonl")
    assert desk.call("classify", *nothing, "--model", "fake")[0] == 0
    assert not Reading().words.keys() & json.loads((desk.folder / "a.jsonl.run").read_text())["public"].keys()
    assert "Nothing to do" in desk.call("classify", *nothing, "--model", "fake", "--resume")[1]


def test_a_reading_opens_no_budget_and_closes_none(desk):
    assert desk.run("choice")[0] == 0
    for number, (change, _) in enumerate(others("choice")):
        code, err = desk.run("choice", *change, "--out", f"{number}.sotto")
        assert (code, "WARNING" in err) == (0, False), err
    (balance,) = Ledger("notes.db").balances()
    assert balance.answers == 5
