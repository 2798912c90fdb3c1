"""``--out`` by its ending: JSON Lines, CSV or Parquet; partial files, resuming and verifying keep working."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from pyarrow import parquet

from sottovoce.cli import answers, run
from sottovoce.errors import InputError
from sottovoce.files.tables import decoded, encoded, is_without_rows, require_ending
from sottovoce.privacy.ledger.ledger import Ledger

LABELS = "billing,fraud"
COMMON = (
    "--private",
    "private.jsonl",
    "--labels",
    LABELS,
    "--model",
    "fake",
    "--ledger",
    "t.db",
    "--budget",
    "40,1e-6",
)
CLASSIFY = ("classify", *COMMON, "--queries", "new.jsonl", "--method", "poe", "--epsilon", "0.5", "--out")
ODD = '=1+1,"quoted"\r\nand \x1b[2J more'


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with records and three questions; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": LABELS.split(",")[i % 2]} for i in range(12)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    new = [{"text": "late?", "id": "Q1"}, {"text": "lost?", "id": ODD}, {"text": "broken?"}]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in new))

    def typed(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return typed


def rows_in(name):
    file = Path(name)
    if name.endswith(".parquet"):
        return parquet.read_table(file).to_pylist()
    if name.endswith(".csv"):
        with file.open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))
    return [json.loads(line) for line in file.read_text().splitlines()]


def charged():
    (balance,) = Ledger("t.db").balances()
    return balance.answers


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_answers_are_written_by_the_ending_and_a_finished_run_costs_nothing(desk, name):
    code, out, err = desk(*CLASSIFY, name)
    assert (code, out) == (0, ""), err
    rows = rows_in(name)
    assert (
        [row["id"] for row in rows] == ["Q1", ODD.replace("\r", "\\r").replace("\x1b", "\\x1b"), "3"]
        if (name.endswith(".csv"))
        else ["Q1", ODD, "3"]
    )
    assert [float(row["epsilon"]) for row in rows] == [0.5] * 3
    assert {row["value"] for row in rows} <= set(LABELS.split(","))
    assert not Path(f"{name}.partial").exists()
    code, _, err = desk(*CLASSIFY, name, "--resume")
    assert (code, "Nothing to do" in err, charged()) == (0, True, 3)


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_an_interrupted_run_resumes_from_json_lines(desk, monkeypatch, name):
    class Stopped(KeyboardInterrupt):
        pass

    def stop(*_, **__):
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(answers, "encoded", stop)
        code, _, err = desk(*CLASSIFY, name)
        assert (code, f"Paid answers are in {name}.partial; run again with --resume" in err) == (130, True), err
    assert not Path(name).exists()
    assert len(rows_in(f"{name}.partial")) == 3
    assert desk(*CLASSIFY, name)[0] == 2, "paid answers are not written over"
    assert desk(*CLASSIFY, name, "--resume")[0] == 0
    assert (len(rows_in(name)), charged(), Path(f"{name}.partial").exists()) == (3, 3, False)


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_run_that_was_stopped_before_its_partial_file_was_removed_is_finished(desk, monkeypatch, name):
    with monkeypatch.context() as patched:
        patched.setattr(answers.PartialFile, "remove", lambda self: False)
        assert desk(*CLASSIFY, name)[0] == 0
    assert Path(f"{name}.partial").exists()
    code, _, err = desk(*CLASSIFY, name, "--resume")
    assert (code, "Nothing to do" in err, charged()) == (0, True, 3)
    assert not Path(f"{name}.partial").exists()


def test_answers_that_have_both_names_are_finished(desk, monkeypatch):
    unlink, stopped = os.unlink, []

    def stops(name, **given):
        if str(name).endswith("a.jsonl.partial") and not stopped:
            stopped.append(name)
            raise KeyboardInterrupt
        unlink(name, **given)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", stops)
        assert desk(*CLASSIFY, "a.jsonl")[0] == 130
    assert Path("a.jsonl").samefile("a.jsonl.partial")
    code, _, err = desk(*CLASSIFY, "a.jsonl", "--resume")
    assert (code, "Nothing to do" in err, charged()) == (0, True, 3), err
    assert not Path("a.jsonl.partial").exists()


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_finished_table_that_was_changed_is_refused(desk, name):
    assert desk(*CLASSIFY, name)[0] == 0
    content = Path(name).read_bytes()
    Path(name).write_bytes(content.replace(b"replace-one", b"replace-two"))
    code, _, err = desk(*CLASSIFY, name, "--resume")
    assert (code, "was changed" in err, charged()) == (2, True, 3)
    Path(name).write_bytes(b"\x00no table")
    assert desk(*CLASSIFY, name, "--resume")[0] == 2


@pytest.mark.parametrize("name", ["a", "a.txt", "a.xlsx", "a.jsonl.gz"])
def test_another_ending_is_refused_by_name_before_anything_is_charged(desk, name):
    for words in (CLASSIFY, ("synthesize", *COMMON, "--per-label", "1", "--tokens", "4", "--epsilon", "0.5", "--out")):
        code, _, err = desk(*words, name)
        assert (code, f"{name!r} must end in .jsonl or .csv or .parquet" in err) == (2, True)
    assert not Path("t.db").exists()


@pytest.mark.slow
def test_predictions_are_written_by_the_ending(desk):
    assert desk("fit", *COMMON, "--method", "class-means", "--epsilon", "4", "--out", "f.sotto")[0] == 0
    for name in ("p.csv", "p.parquet"):
        predict = ("predict", "f.sotto", "--queries", "new.jsonl", "--model", "fake", "--scores", "--out", name)
        assert desk(*predict)[0] == 0
        rows = rows_in(name)
        assert len(rows) == 3
        scores = rows[0]["scores"] if name.endswith(".parquet") else json.loads(rows[0]["scores"])
        assert sum(scores.values()) == pytest.approx(1)
        code, _, err = desk(*predict)
        assert (code, "is not overwritten" in err) == (2, True)
    assert desk("predict", "f.sotto", "--queries", "new.jsonl", "--model", "fake", "--out", "p.txt")[0] == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_synthetic_rows_are_written_by_the_ending_verified_and_used(desk, name):
    order = ("synthesize", *COMMON, "--per-label", "2", "--tokens", "4", "--epsilon", "0.5", "--experts", "6")
    code, _, err = desk(*order, "--out", name)
    assert code == 0, err
    assert {tuple(row) for row in rows_in(name)} == {("text", "label")}
    code, out, err = desk("verify", "certificate", f"{name}.certificate.json", "--ledger", "t.db")
    assert (code, "NO" in out) == (0, False), out + err
    shown = ("classify", "--demonstrations", name, *COMMON[2:6], "--queries", "new.jsonl")
    assert desk(*shown)[0] == 0
    Path("schema.json").write_text('{"type": "object", "properties": {"text": {"type": "string"}}}')
    code, _, err = desk(*order, "--schema", "schema.json", "--out", f"x{name}")
    assert (code, "must end in .jsonl:" in err) == (2, True)


def test_whatever_is_released_can_be_written_and_is_read_back(tmp_path):
    rows = [{"id": "1", "value": text, "epsilon": 0.5, "delta": None} for text in ('a,"b"\r\n\n\tc', "\ud800x", "")]
    for name in ("a.csv", "a.parquet"):
        file = tmp_path / name
        file.write_bytes(encoded(rows, file))
        read = decoded(file.read_bytes(), file)
        assert [row["value"] for row in read] == ['a,"b"\r\n\n\tc', "\\ud800x", ""]
        assert {(row["epsilon"], row["delta"]) for row in read} == {(0.5, None)}
        assert not is_without_rows(file)
        file.write_bytes(encoded([], file))
        assert is_without_rows(file)
    with pytest.raises(InputError, match=r"must end in .sotto"):
        require_ending(Path("x.csv"), (".sotto",))
