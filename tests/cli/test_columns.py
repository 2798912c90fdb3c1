"""Columns of other names: --text-column and --label-column, and what an error says of a file that lacks one."""

from __future__ import annotations

import json

import pytest

from sottovoce.cli import run
from sottovoce.errors import RecordError
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.records.readers import read_private, read_public
from sottovoce.tasks import Task

LABELS = "billing,fraud"
COMMON = ("--labels", LABELS, "--model", "fake", "--ledger", "t.db")
COLUMNS = ("--text-column", "body", "--label-column", "team")
TASK = Task(labels=LABELS.split(","))


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with records of other columns; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"body": f"note {i}", "team": LABELS.split(",")[i % 2]} for i in range(12)]
    (tmp_path / "mails.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "mails.csv").write_text("body,team\n" + "".join(f"{r['body']},{r['team']}\n" for r in rows))
    (tmp_path / "new.jsonl").write_text('{"body": "late?", "team": "fraud"}\n{"text": "lost?", "label": "billing"}\n')

    def typed(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    typed.folder = tmp_path
    return typed


@pytest.mark.cases(1)
@pytest.mark.parametrize("file", ["mails.jsonl", "mails.csv"])
def test_every_command_that_reads_records_takes_columns_of_other_names(desk, file):
    private = ("--private", file, *COMMON, *COLUMNS)
    assert desk("ask", "late?", *private, "--method", "poe", "--epsilon", "0.5")[0] == 0
    code, out, err = desk(
        "classify", *private, "--queries", "new.jsonl", "--method", "poe", "--epsilon", "0.5", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["accuracy"] is not None
    fit = ("--method", "class-means", "--ledger", "f.db", "--out", "f.sotto", "--dry-run")
    assert desk("fit", *private, *fit)[0] == 0
    order = ("--per-label", "1", "--tokens", "4", "--out", "s.jsonl", "--epsilon", "0.5")
    assert desk("synthesize", *private, *order)[0] == 0
    assert (
        desk("classify", "--demonstrations", file, *COMMON[:4], *COLUMNS, "--queries", "new.jsonl")[0] == 2
    )  # private
    plan = ("plan", "--records", 20, "--questions", 5, "--labels", LABELS, "--model", "fake", "--queries", "new.jsonl")
    code, out, err = desk(*plan, *COLUMNS)
    assert (code, "your questions" in out) == (0, True), err


@pytest.mark.slow
def test_a_fitted_file_answers_questions_of_other_columns(desk):
    fit = ("--private", "mails.jsonl", *COMMON, *COLUMNS, "--method", "class-means", "--out", "f.sotto")
    assert desk("fit", *fit)[0] == 0
    code, out, _ = desk("predict", "f.sotto", "--queries", "new.jsonl", "--model", "fake", *COLUMNS, "--json")
    assert (code, json.loads(out)["answers"]) == (0, 2)


def test_a_data_set_is_the_same_whatever_its_columns_are_read_as(tmp_path):
    file = tmp_path / "both.jsonl"
    rows = [{"text": f"t {i}", "body": f"b {i}", "label": "fraud"} for i in range(5)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain, other = read_private(file), read_private(file, columns={"text": "body"})
    streamed = read_private(file, columns={"text": "body"}, stream=True)
    assert plain.fingerprint == other.fingerprint == streamed.fingerprint


def test_both_ways_of_reading_draw_on_one_budget(desk):
    rows = [{"text": f"t {i}", "body": f"b {i}", "label": LABELS.split(",")[i % 2]} for i in range(8)]
    (desk.folder / "both.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ask = ("ask", "late?", "--private", "both.jsonl", *COMMON, "--method", "poe", "--epsilon", "0.5")
    assert desk(*ask)[0] == desk(*ask, "--text-column", "body")[0] == 0
    (balance,) = Ledger("t.db").balances()
    assert balance.answers == 2


def problem(file, text, task=TASK, **more):
    file.write_text(text)
    with pytest.raises(RecordError) as raised:
        [task.example_of(row, file.name) for row in read_public(file, **more)]
    return str(raised.value)


def test_a_missing_field_names_the_columns_that_are_there_and_the_cure(tmp_path):
    told = problem(tmp_path / "a.jsonl", '{"body": "a secret", "team": "fraud"}\n')
    assert "line 1, field 'text'" in told
    assert "Its columns are body, team." in told
    assert "--text-column COLUMN" in told
    assert "secret" not in told
    assert "--label-column COLUMN" in problem(tmp_path / "b.jsonl", '{"text": "a", "team": "fraud"}\n')
    several = Task(labels=["a", "b"], query="{question} {context}", example="{question} {context} {label}")
    assert "Rename a column" in problem(tmp_path / "c.jsonl", '{"question": "a"}\n', several)


@pytest.mark.parametrize(("delimiter", "words"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")])
def test_a_likely_delimiter_is_named(tmp_path, delimiter, words):
    text = f"text{delimiter}label\na secret{delimiter}fraud\n"
    told = problem(tmp_path / "a.csv", text)
    assert f"separated by {words}" in told
    assert "secret" not in told
    told = problem(tmp_path / "b.csv", text + f"a secret, and more{delimiter}fraud\n")
    assert f"separated by {words}" in told


@pytest.mark.parametrize("line", ["My card was charged twice,fraud", "secret,fraud", "12345,x", "fraud,secret"])
def test_the_first_line_of_a_file_without_a_header_is_not_shown(tmp_path, line):
    told = problem(tmp_path / "a.csv", f"{line}\nmore,billing\n")
    assert "It has 2 columns" in told
    assert not any(cell in told for cell in line.split(",") if cell != "x")


def test_every_row_that_cannot_be_used_names_the_next_step(tmp_path):
    for value, step in (
        ("5", "Write it in quotes"),
        ('""', "Fill it in"),
        ('"  "', "Fill it in"),
        ("null", "Fill it in"),
    ):
        told = problem(tmp_path / "a.jsonl", f'{{"text": {value}, "label": "fraud"}}\n')
        assert step in told
    assert "Fill it in" in problem(tmp_path / "b.jsonl", '{"text": "a", "label": null}\n')


@pytest.mark.parametrize("stream", [False, True])
def test_a_unit_that_may_be_two_columns_is_refused(tmp_path, stream):
    file = tmp_path / "mails.jsonl"
    rows = [{"text": f"note {i}", "kind": "ab"[i % 2], "label": f"person {i // 2}"} for i in range(6)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        RecordError, match=r"line 1, field 'label': the privacy unit may be the column 'label', or 'kind'"
    ):
        read_private(file, unit="label", columns={"label": "kind"}, stream=stream)
    assert len(read_private(file, unit="kind", columns={"label": "kind"}, stream=stream).with_public_size()) == 2
    assert len(read_private(file, unit="label", columns={"label": "label"}, stream=stream).with_public_size()) == 3
    assert len(read_private(file, unit="label", stream=stream).with_public_size()) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_unit_that_may_be_each_record_or_a_column_of_that_name_is_refused(tmp_path, stream):
    file = tmp_path / "notes.jsonl"
    file.write_text("".join(f'{{"text": "note {i}", "label": "a", "record": "patient {i // 2}"}}\n' for i in range(6)))
    with pytest.raises(RecordError, match=r"line 1, field 'record': the privacy unit may be each row, or what has"):
        read_private(file, unit="record", stream=stream)
    assert len(read_private(file, stream=stream).with_public_size()) == 6
    file.write_text(file.read_text().replace('"record"', '"patient"'))
    assert len(read_private(file, unit="record", stream=stream).with_public_size()) == 6
    assert len(read_private(file, unit="patient", stream=stream).with_public_size()) == 3


def test_a_column_that_is_not_there_and_one_without_a_place_are_refused(desk):
    code, _, err = desk("ask", "x", "--private", "mails.jsonl", *COMMON, "--text-column", "mail")
    assert (code, "there is no column 'mail'. Its columns are body, team." in err) == (2, True)
    (desk.folder / "h.csv").write_text("hepatitis,fraud\nflu,billing\n")
    for column in ("--text-column", "--label-column"):
        code, out, err = desk("ask", "x", "--private", "h.csv", *COMMON, column, "body")
        assert (code, "hepatitis" in out + err, "It has 2 columns" in err) == (2, False, True)
    (desk.folder / "t.toml").write_text('labels = ["billing", "fraud"]\nquery = "{a} {b}"\n')
    code, _, err = desk("ask", "x", "--private", "mails.jsonl", "--task", "t.toml", "--model", "fake", *COLUMNS)
    assert (code, "--text-column is 'body'" in err, "a, b" in err) == (2, True, True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((kind, value) for kind in ("jsonl", "parquet") for value in ("", " ", 17, ["Quagga"])),
        ("csv", ""),
        ("csv", " "),
    ],
)
def test_a_bad_row_is_named_by_the_column_that_the_file_has(tmp_path, kind, value):
    rows = [{"body": "fine", "team": "fraud"}, {"body": value, "team": "Quagga"}]
    file = tmp_path / f"mails.{kind}"
    if kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "csv":
        file.write_text("body,team\n" + "".join(f'"{row["body"]}",{row["team"]}\n' for row in rows))
    else:
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.table({"body": [value], "team": ["Quagga"]}), file)
    row = list(read_public(file, columns={"text": "body", "label": "team"}))[-1]
    with pytest.raises(RecordError) as text:
        TASK.query_of(row, file.name)
    with pytest.raises(RecordError) as label:
        TASK.label_of(row, file.name)
    line = {"csv": 3, "jsonl": 2, "parquet": 1}[kind]
    assert str(text.value).startswith(f"mails.{kind}, line {line}, field 'body': ")
    assert str(label.value).startswith(f"mails.{kind}, line {line}, field 'team': the label is outside")
    kinds = {17: "the value is a number", str(["Quagga"]): "the value is a list"}
    assert kinds.get(value if isinstance(value, int) else str(value), "") in str(text.value)
    assert "Quagga" not in str(text.value) + str(label.value)


def test_a_text_that_is_too_long_is_named_by_the_column_that_was_typed(tmp_path):
    file = tmp_path / "mails.jsonl"
    file.write_text(json.dumps({"body": "Quagga" * 9, "team": "fraud"}) + "\n")
    with pytest.raises(RecordError, match="line 1, field 'body': the text is longer than 20 characters"):
        read_private(file, max_characters=20, columns={"text": "body"})
    with pytest.raises(RecordError, match="line 1, field 'column 1': the text is longer"):
        read_private(file, max_characters=20)


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "late?", "--private", "bad.jsonl", "--method", "poe", "--epsilon", "0.5"),
        ("classify", "--private", "bad.jsonl", "--queries", "new.jsonl", "--method", "poe", "--epsilon", "0.5"),
        ("classify", "--private", "mails.jsonl", "--queries", "bad.jsonl", "--method", "poe", "--epsilon", "0.5"),
        ("fit", "--private", "bad.jsonl", "--method", "class-means", "--epsilon", "1", "--out", "f.sotto"),
        ("synthesize", "--private", "bad.jsonl", "--per-label", "1", "--epsilon", "0.5", "--out", "s.jsonl"),
    ],
)
def test_a_command_names_the_column_that_the_file_has_and_charges_nothing(desk, words):
    (desk.folder / "bad.jsonl").write_text('{"body": 17, "team": "fraud"}\n' * 12)
    code, out, err = desk(*words, *COMMON, *COLUMNS)
    assert (code, out) == (2, "")
    assert "bad.jsonl, line 1, field 'body': the value is a number; it must be a text." in err
    assert not (desk.folder / "t.db").exists()
