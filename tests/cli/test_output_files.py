"""Nothing that is there is overwritten: no input, ledger or side file, nothing in the trusted store, nothing else."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import sottovoce
from sottovoce.audits.page import html_of
from sottovoce.audits.report import JUNIT_OPENING, could_not_run, junit, sarif_opening, sarif_text
from sottovoce.benchmarks.reporting.plots import OPENINGS
from sottovoce.cli import _build, run
from sottovoce.cli.outputs import NewFile, outputs_of
from sottovoce.data.bundled import tickets_file
from sottovoce.errors import InputError
from sottovoce.files.outputs import SIDE_FILES, begins_as, new_file, place, refuse_protected, target, write_new
from sottovoce.files.pages import html_page, page_opening
from sottovoce.privacy.ledger.ledger import Ledger

LABELS = "billing,fraud"


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """A folder with records, questions and a ledger from which an answer was paid."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": LABELS.split(",")[i % 2]} for i in range(12)]
    for name, lines in {"private.jsonl": rows, "queries.jsonl": [{"text": "one"}, {"text": "two"}]}.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in lines))
    assert run(["ask", "late?", *common()]) == 0
    capfd.readouterr()
    return tmp_path


def common():
    return [
        *("--private", "private.jsonl", "--labels", LABELS, "--model", "fake", "--epsilon", "0.5"),
        *("--ledger", "t.db"),
    ]


def commands(out):
    return {
        "classify": ["classify", *common(), "--queries", "queries.jsonl", "--out", out],
        "classify --resume": ["classify", *common(), "--queries", "queries.jsonl", "--out", out, "--resume"],
        "export": ["ledger", "export", "t.db", "--out", out],
        "synthesize": ["synthesize", *common(), "--per-label", "1", "--tokens", "4", "--out", out],
    }


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def state(folder):
    with closing(sqlite3.connect(folder / "t.db")) as book:  # whatever other names it has
        return everything(folder), book.execute("SELECT spent FROM sotto_data_set").fetchone()


VICTIMS = [
    "t.db",
    "private.jsonl",
    "queries.jsonl",
    "./sub/../t.db",
    "hard.db",
    "link.db",
    "notes.jsonl",  # a hard link to the records
    "other.jsonl",
    "home/names.key",
    "home/ledgers/new.jsonl",
    *(f"t.db{end}" for end in SIDE_FILES),
    "other.db-wal",  # of another database
]


def refuses(desk, capfd, words):
    """Runs a command that must be refused, and holds everything that was there against what is there."""
    before = state(desk)
    code = run(words)
    out, err = capfd.readouterr()
    assert (code, out) == (2, ""), (words, err)
    assert "Internal error" not in err
    # Only SQLite's own side files may come and go, and what the trusted store notes of the records.
    after = state(desk)
    assert after[1] == before[1], "nothing was charged"
    kept = {path: text for path, text in before[0].items() if not path.name.startswith(("t.db-", "hard.db-"))}
    assert {path: after[0].get(path) for path in kept} == kept, words
    fresh = {path for path in after[0] if path.parts[0] != "home"} - set(before[0])
    assert fresh <= {Path(f"t.db{end}") for end in SIDE_FILES}, words


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", commands("x"))
def test_no_command_overwrites_what_is_there(desk, monkeypatch, capfd, name):
    (desk / "sub").mkdir()
    (desk / "home" / "ledgers").mkdir(parents=True)
    (desk / "home" / "names.key").write_bytes(b"k" * 32)
    for path in (desk / "home", desk / "home" / "ledgers", desk / "home" / "names.key"):
        path.chmod(0o700)
    monkeypatch.setenv("SOTTOVOCE_HOME", str(desk / "home"))
    os.symlink(desk / "t.db", desk / "link.db")
    os.link(desk / "private.jsonl", desk / "notes.jsonl")
    (desk / "other.jsonl").write_text("somebody's\n")
    (desk / "other.db").write_bytes(b"SQLite format 3\0")
    for victim in VICTIMS:
        if victim == "hard.db":
            os.link(desk / "t.db", desk / victim)
        refuses(desk, capfd, commands(victim)[name])
        (desk / "hard.db").unlink(missing_ok=True)
    assert Ledger("t.db").verify() == []


@pytest.mark.parametrize(
    ("name", "out", "beside"),
    [
        ("classify", "a", "a.partial"), ("classify", "a", "a.run"),
        ("synthesize", "a.jsonl", "a.jsonl.certificate.json"), ("synthesize", "a.jsonl", "a.jsonl.partial"),
    ],
)  # fmt: skip
def test_what_is_written_beside_an_output_overwrites_nothing_either(desk, capfd, name, out, beside):
    os.link(desk / "private.jsonl", desk / beside)
    refuses(desk, capfd, commands(out)[name])


def test_a_ledger_that_does_not_exist_yet_is_no_output(desk, capfd):
    words = commands("new.db")["classify"]
    words[words.index("t.db")] = "new.db"
    assert run(words) == 2
    assert "ledger" in capfd.readouterr().err
    assert not (desk / "new.db").exists()


def test_what_is_written_twice_is_refused(desk, capfd):
    (desk / "results").mkdir()
    assert run(["bench", "report", "--results", "results", "--out", "p.html", "--markdown", "./p.html"]) == 2
    assert "twice" in capfd.readouterr().err


def test_a_name_in_other_letters_is_taken_for_the_same(tmp_path):
    with pytest.raises(InputError, match="ledger itself"):
        refuse_protected(tmp_path / "T.DB-WAL", ledgers=[str(tmp_path / "t.db")])


def test_a_name_that_leads_over_a_link_that_may_not_be_read_is_refused_in_words(tmp_path, monkeypatch):
    there = os.path.realpath

    def realpath(file, **how):
        if "closed" in str(file):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return there(file, **how)

    monkeypatch.setattr(os.path, "realpath", realpath)
    refuse_protected(tmp_path / "open" / "x.jsonl")
    with pytest.raises(InputError, match=r"closed.x\.jsonl cannot be written \(Permission denied\)"):
        refuse_protected(tmp_path / "closed" / "x.jsonl")


# The guard itself


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def failing():
        with new_file(tmp_path / "a") as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert list(tmp_path.iterdir()) == []
    write_new(tmp_path / "a", "whole")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "whole")]


def test_a_file_that_comes_up_meanwhile_is_not_overwritten(tmp_path):
    def racing():
        with new_file(tmp_path / "a") as stream:
            (tmp_path / "a").write_text("theirs")
            stream.write(b"ours")

    with pytest.raises(InputError, match="came up meanwhile"):
        racing()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "theirs")]


def test_only_what_is_recognised_is_replaced(tmp_path):
    own = begins_as("made by us")
    write_new(tmp_path / "a", "made by us, 1", replaces=own)
    write_new(tmp_path / "a", "made by us, 2", replaces=own)
    assert (tmp_path / "a").read_text() == "made by us, 2"
    (tmp_path / "a").write_text("made by them")
    with pytest.raises(InputError, match="exists already"):
        write_new(tmp_path / "a", "made by us, 3", replaces=own)
    assert (tmp_path / "a").read_text() == "made by them"


def test_what_tells_of_an_output_is_none(tmp_path):
    report = could_not_run("canary", "a method", "it broke off")
    file = tmp_path / "notes"
    openings = {
        junit(report): begins_as(JUNIT_OPENING),
        sarif_text(report, "1"): begins_as(sarif_opening()),
        html_of(report): begins_as(page_opening("sotto audit report")),
        html_page("a", [], mark="sotto bench report"): begins_as(OPENINGS["html"]),
        '<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "-">\n<svg width="1">\n<title>a</title><metadata><dc:creator>'
        "<cc:Agent><dc:title>sotto bench report</dc:title>": begins_as(OPENINGS["svg"]),
    }
    for text, own in openings.items():
        file.write_text(text)
        assert own(file)
        quotes = (f"Notes on sotto audit report and sotto bench report.\n{text}", f"<!-- mine -->\n{text}")
        for theirs in (*quotes, text.replace("sotto ", "other ", 1)):
            file.write_text(theirs)
            assert not own(file)
    assert not begins_as(OPENINGS["html"])(tmp_path / "nothing there")


def test_an_audit_spares_notes_about_audits(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    notes = "My notes on sotto audit report, sotto report and sotto bench report."
    Path("notes.md").write_text(notes)
    for option in ("--junit", "--sarif", "--report"):
        assert run(["audit", "exact", "--model", "fake", "--records", "2", option, "notes.md"]) == 2
        assert "is not overwritten" in capfd.readouterr().err
        assert Path("notes.md").read_text() == notes


def test_a_file_system_without_links_overwrites_nothing_either(tmp_path, monkeypatch):
    def refused(*names, **given):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    write_new(tmp_path / "a", "first")
    assert (tmp_path / "a").read_text() == "first"
    (tmp_path / "whole").write_text("second")
    with pytest.raises(FileExistsError):
        place(tmp_path / "whole", tmp_path / "a")
    assert (tmp_path / "a").read_text() == "first"


def test_links_that_lead_nowhere_or_in_circles_are_refused_or_followed(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(InputError):
        target(tmp_path / "circle")
    (tmp_path / "nowhere").symlink_to(tmp_path / "there")
    assert target(tmp_path / "nowhere") == tmp_path / "there"


# Every command, those to come as well


def leaves(command, path=()):
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from leaves(inner, (*path, name))
    else:
        yield " ".join(path), command


WRITES = re.compile(r"\b(out|output|report|figures|markdown|html|save|dest|write|export)\b")
READS = {("verify certificate", "file"), ("verify certificate", "rows"), ("bench report", "results")}
"""Parameters of the kind ``Path`` that are read."""


@pytest.mark.parametrize(
    ("name", "command"), list(leaves(_build())), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_option_that_names_an_output_goes_through_the_guard(name, command):
    guarded = outputs_of(command)
    callback = command.callback
    while hasattr(callback, "__wrapped__"):
        callback = callback.__wrapped__
    for parameter, hint in get_type_hints(callback, include_extras=True).items():
        options = [option for one in get_args(hint) for option in getattr(one, "param_decls", None) or ()]
        words = " ".join([parameter, *options]).replace("-", " ").replace("_", " ")
        is_path = "Path" in str(get_args(hint)[:1]) and (name, parameter) not in READS
        if WRITES.search(words) or is_path:
            assert parameter in guarded, f"sotto {name}: {parameter} names an output and is not parsed by NewFile"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param(command, name, id=f"{words} {name}")
        for words, command in leaves(_build())
        for name, parser in outputs_of(command).items()
        if not parser.makes_folder
    ],
)
def test_a_folder_that_is_not_there_is_found_out_before_a_command_begins(command, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"absent/x cannot be written: there is no folder 'absent'\. Create it first"):
        command.callback(**{name: Path("absent/x")})
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/x cannot be written"):
        command.callback(**{name: Path("file/x")})


@pytest.mark.parametrize("flag", ["--report", "--junit", "--sarif"])
def test_a_report_of_an_audit_over_another_file_is_refused_before_the_audit(desk, monkeypatch, capfd, flag):
    def loads(*_):
        raise AssertionError("the audit began")

    monkeypatch.setattr("sottovoce.cli.console.load_scorer", loads)
    (desk / "mine").write_text("mine")
    assert run(["audit", "canary", "--model", "fake", flag, "mine"]) == 2
    assert "mine exists already and is not overwritten" in capfd.readouterr().err
    assert (desk / "mine").read_text() == "mine"


def test_the_commands_that_write_are_known():
    found = {name: sorted(outputs_of(command)) for name, command in leaves(_build()) if outputs_of(command)}
    assert found == {
        "demo": ["write_tickets"],
        "classify": ["out"],
        "init": ["out"],
        "synthesize": ["out"],
        "ledger export": ["out"],
        "fit": ["out"],
        "predict": ["out"],
        "answer": ["out", "out_fitted"],
        "models fit-head": ["out"],
        "bench report": ["figures", "markdown", "out"],
        "report": ["out", "registry"],
        **{
            f"audit {kind}": ["junit", "report", "sarif"]
            for kind in ("canary", "injection", "membership", "extract", "exact", "fitted")
        },
    }
    assert all(isinstance(one, NewFile) for _, command in leaves(_build()) for one in outputs_of(command).values())


MAY_WRITE = {
    "files/outputs.py": "the guard",
    "files/partial.py": "a run's own partial file",
    "files/run_folder.py": "a run's own folder",
    "store.py": "the trusted store",
    "privacy/ledger/registry.py": "the trusted store",
    "privacy/ledger/known_records.py": "the trusted store",
    "privacy/ledger/file.py": "ledgers, which are created and never replaced",
    "models/encrypted_cache.py": "the trusted store",
    "models/embedded/head.py": "training of the packaged weights",
    "models/embedded/image_encoder.py": "training of the packaged weights",
    "synthesis/certificate.py": "a certificate of the library's caller",
}


OPENS = {"open", "fdopen", "replace", "rename", "link", "write_text", "write_bytes"}


def of_shutil(node):
    """Whether ``a.b.c`` starts with ``shutil``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "shutil"


def writing(tree):
    """Calls that create or replace a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", "")) not in OPENS and not of_shutil(node.func):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        modes = [one.value for one in [*node.args, *(k.value for k in node.keywords)] if isinstance(one, ast.Constant)]
        opens = last in ("open", "fdopen") and any(re.fullmatch(r"[rb]*[wax+][bt+]*|r\+b?", str(m)) for m in modes)
        moves = name in ("os.replace", "os.rename", "os.link", "os.open") or name.startswith("shutil.")
        renames = last in ("replace", "rename") and len(node.args) == 1
        if opens or moves or last in ("write_text", "write_bytes") or (renames and "." in name):
            yield f"{node.lineno} {name}"


def test_nothing_but_the_guard_creates_files():
    source = Path(sottovoce.__file__).parent
    found = {}
    for path in source.rglob("*.py"):
        text = path.read_text("utf-8")
        calls = list(writing(ast.parse(text))) if re.search(r"open\b|replace|rename|link|write_|shutil", text) else []
        if calls and path.relative_to(source).as_posix() not in MAY_WRITE:
            found[path.relative_to(source).as_posix()] = calls
    assert found == {}


@pytest.mark.parametrize(
    "text", ["open(x, 'w')", "x.open('ab')", "x.write_text(t)", "os.replace(a, b)", "a.replace(b)", "shutil.move(a, b)"]
)
def test_a_file_that_is_created_elsewhere_is_noticed(text):
    assert list(writing(ast.parse(text)))


def test_the_bundled_tickets_are_written_whole_and_never_over_a_file(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert run(["demo", "--write-tickets", str(folder)]) == 0
    for name, bundled in (("tickets.jsonl", "private.jsonl"), ("new.jsonl", "queries.jsonl")):
        assert (folder / name).read_bytes() == tickets_file(bundled).read_bytes()
    (folder / "tickets.jsonl").unlink()
    (folder / "new.jsonl").write_text("mine", "utf-8")
    assert run(["demo", "--write-tickets", str(folder)]) == 2
    assert [file.name for file in folder.iterdir()] == ["new.jsonl"]
    assert (folder / "new.jsonl").read_text("utf-8") == "mine"
    assert run(["demo", "--write-tickets", str(folder / "new.jsonl")]) == 2
    assert "new.jsonl is no folder" in capsys.readouterr().err
