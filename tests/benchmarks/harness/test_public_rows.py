"""No benchmark answers from rows that a ledger was opened for: its references have no noise."""

from __future__ import annotations

import ast
import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import sottovoce
from sottovoce.benchmarks.harness.datasets import DATASETS, Dataset, read_world
from sottovoce.benchmarks.harness.experiment import Piece
from sottovoce.benchmarks.harness.public_rows import benchmark_rows, public_records
from sottovoce.benchmarks.prism import demonstrations, membership, writing
from sottovoce.benchmarks.prism.writing import rows_in
from sottovoce.benchmarks.studies import clustering
from sottovoce.benchmarks.studies.in_context import read_world as plain_world
from sottovoce.cli import run
from sottovoce.errors import InputError
from sottovoce.tasks import Example, load_task

LABELS = ("billing", "fraud")
NOTES = [{"text": f"note number {i} about somebody's money", "label": LABELS[i % 2]} for i in range(40)]
QUESTIONS = [{"text": f"public question number {i} of anybody", "label": LABELS[i % 2]} for i in range(40)]
READS_FILES = {"read_public", "read_private", "gzip", "csv"}


@pytest.fixture
def folder(tmp_path):
    """Private records with a ledger, public rows beside them, and the private ones as benchmark rows."""
    for name, rows in (("private", NOTES), ("queries", QUESTIONS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    asked = ["ask", "hello", "--private", str(tmp_path / "private.jsonl"), "--labels", ",".join(LABELS)]
    assert run([*asked, "--model", "fake", "--epsilon", "0.5", "--ledger", str(tmp_path / "t.db")]) == 0
    return tmp_path


@pytest.mark.parametrize(("private", "queries"), [("private", "queries"), ("queries", "private"), ("queries",) * 2])
def test_classification_refuses_private_rows_in_either_part(folder, capsys, private, queries):
    (folder / "words.toml").write_text(f'name = "words"\nlabels = {json.dumps(LABELS)}\n', "utf-8")
    capsys.readouterr()
    files = ["--private", str(folder / f"{private}.jsonl"), "--queries", str(folder / f"{queries}.jsonl")]
    task = ["--task", str(folder / "words.toml"), "--model", "fake"]
    code = run(["bench", "run", "classification", *task, *files, "--records", "4", "--limit", "2", "--epsilon", "1"])
    told = capsys.readouterr()
    if "private" in (private, queries):
        assert (code, told.out) == (2, "")
        assert "private.jsonl: most of these rows are private records" in " ".join(told.err.split())
        assert "note number" not in told.err
    else:
        assert (code, "full-context" in told.out) == (0, True)


def jsonl(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def classification(folder, private, records, *more):
    (folder / "words.toml").write_text(f'name = "words"\nlabels = {json.dumps(LABELS)}\n', "utf-8")
    files = ["--private", str(private), "--queries", str(folder / "queries.jsonl"), "--records", str(records)]
    task = ["--task", str(folder / "words.toml"), "--model", "fake", "--limit", "2", "--epsilon", "1"]
    return run(["bench", "run", "classification", *task, *files, *more])


@pytest.mark.parametrize(("known", "behind", "records"), [(19, 25, 19), (9, 0, 9), (9, 40, 9), (3, 40, 4)])
def test_rows_that_references_answer_from_are_those_that_are_checked(folder, capsys, known, behind, records):
    mixed = jsonl(folder / "mixed.jsonl", [*NOTES[:known], *QUESTIONS[:behind]])
    capsys.readouterr()
    code = classification(folder, mixed, records)
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert "are private records, such as those of the data set" in " ".join(told.err.split())
    assert "note number" not in told.err


def test_the_message_names_a_way_out_and_it_is_one(folder, capsys):
    few = jsonl(folder / "few.jsonl", NOTES[:9])
    capsys.readouterr()
    assert classification(folder, few, 9) == 2
    assert "--allow-non-private" in capsys.readouterr().err
    assert classification(folder, few, 9, "--allow-non-private") == 0
    assert "full-context" in capsys.readouterr().out


@pytest.mark.parametrize("behind", [0, 25])
def test_questions_that_are_asked_are_those_that_are_checked(folder, capsys, behind):
    mixed = jsonl(folder / "mixed.jsonl", [*NOTES[:19], *QUESTIONS[:behind]])
    capsys.readouterr()
    asked = ["classify", "--method", "zero-shot", "--labels", ",".join(LABELS), "--model", "fake"]
    assert run([*asked, "--queries", str(mixed), "--limit", "19"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "most of these rows are private records" in " ".join(told.err.split())


def test_the_first_benchmark_rows_are_checked_where_they_are_used(folder):
    file = folder / "train.jsonl.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in [*NOTES[:19], *QUESTIONS])
    assert len(benchmark_rows(file)) == 59
    for read in (benchmark_rows, public_records):
        with pytest.raises(InputError, match="most of these rows are private records"):
            read(file, 19)


def test_the_reserved_rows_that_play_private_ones_are_checked(folder, monkeypatch):
    for module in (writing, demonstrations, membership):
        monkeypatch.setattr(module, "RESERVED", 19)
    rows = [{**row, "label": row["text"]} for row in [*NOTES[:19], *QUESTIONS]]
    (folder / "notes").mkdir()
    for split, its in (("train", rows), ("test", rows[19:])):
        with gzip.open(folder / "notes" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in its)
    task = replace(load_task("tickets"), labels=list(LABELS))
    examples = [Example({"text": row["text"]}, i % 2) for i, row in enumerate(rows)]
    world = Dataset("notes", task, examples, examples[19:])
    bench = SimpleNamespace(world=lambda name: world, settings=SimpleNamespace(queries=2))
    for use in (
        lambda: writing.draw(folder, "notes", 0, 10, 5),
        lambda: demonstrations.held_of(bench, Piece("notes", "own", 0), 9),
        lambda: list(membership._drawn(world, 0, 1)),
    ):
        with pytest.raises(InputError, match="most of these rows are private records"):
            use()


def test_rows_that_are_drawn_are_checked_by_themselves(folder, monkeypatch):
    # Of 40 reserved rows 19 are private: too few of the part, and all of those that are kept.
    monkeypatch.setattr(writing, "RESERVED", 40)
    rows = [*NOTES[:19], *QUESTIONS]
    (folder / "notes").mkdir()
    for split, its in (("train", rows), ("test", QUESTIONS)):
        with gzip.open(folder / "notes" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in its)
    with pytest.raises(InputError, match="most of these rows are private records"):
        writing.draw(folder, "notes", 0, 19, 5, keep=lambda row: row in NOTES)
    assert len(writing.draw(folder, "notes", 0, 10, 5, keep=lambda row: row in QUESTIONS).records) == 10


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"no gzip", 1),
        (gzip.compress(b'{"a": 1}\n{"a": 2}\n')[:-12], 2),
        (gzip.compress(b'{"a": 1}\n[1]\n'), 2),
        (gzip.compress(b'{"a": 1}\n{"a": \n'), 2),
        (gzip.compress(b"[" * 100_000 + b"]" * 100_000), 1),
        (gzip.compress(b'{"a": 1}\n\xff\n'), 1),
    ],
    ids=["no gzip", "cut", "a list", "no JSON", "deep", "no UTF-8"],
)
def test_benchmark_rows_that_are_none_are_named_by_file_and_line(tmp_path, content, line):
    file = tmp_path / "train.jsonl.gz"
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"train\.jsonl\.gz, line {line}"):
        benchmark_rows(file)


def test_benchmark_rows_that_are_somebodys_are_refused_by_every_reader(folder):
    for name in ("subj", "enron"):
        (folder / name).mkdir()
        for split in ("train", "test"):
            with gzip.open(folder / name / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
                out.writelines(json.dumps(row) + "\n" for row in NOTES)
    assert {"subj", "enron"} <= set(DATASETS)
    for read in (
        lambda: read_world(folder, "subj"),
        lambda: read_world(folder, "enron"),
        lambda: plain_world(folder, "subj"),
        lambda: rows_in(folder, "subj", "train"),
        lambda: clustering.public_records(folder / "subj" / "train.jsonl.gz"),
    ):
        with pytest.raises(InputError, match="most of these rows are private records"):
            read()


def test_the_advice_of_a_plan_refuses_private_rows_as_questions(folder, capsys):
    capsys.readouterr()
    asked = ["plan", "--queries", str(folder / "private.jsonl"), "--labels", "billing,fraud", "--model", "fake"]
    code = run([*asked, "--questions", "5", "--records", "40"])
    assert code == 2
    assert "most of these rows are private records" in " ".join(capsys.readouterr().err.split())


def test_benchmarks_and_audits_read_rows_through_the_one_door_alone():
    package = Path(sottovoce.__file__).parent
    found = {}
    for file in [*(package / "benchmarks").rglob("*.py"), *(package / "audits").rglob("*.py")]:
        tree = ast.parse(file.read_text("utf-8"))
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        if used := names & READS_FILES:
            found[file.name] = used
    assert found == {
        "public_rows.py": {"gzip", "read_public"},
        "classification.py": {"read_public"},  # with the owner's consent
        "clustering.py": {"read_public"},  # rows that ship with the package
    }
