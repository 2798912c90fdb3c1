"""No benchmark answers from rows that a ledger was opened for: its references have no noise."""

from __future__ import annotations

import ast
import gzip
import json
from pathlib import Path

import pytest

import sottovoce
from sottovoce.benchmarks.harness.datasets import DATASETS, read_world
from sottovoce.benchmarks.prism.writing import rows_in
from sottovoce.benchmarks.studies import clustering
from sottovoce.benchmarks.studies.in_context import read_world as plain_world
from sottovoce.cli import run
from sottovoce.errors import InputError

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
    assert found == {"public_rows.py": {"gzip", "read_public"}, "clustering.py": {"read_public"}}
