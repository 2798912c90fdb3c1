"""Every way to hold the command wrongly: the exit code, one clear message, and nothing charged or half-written."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from sottovoce.cli import run
from sottovoce.files.partial import PartialFile
from sottovoce.models.fake import FakeScorer, one_shot
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.session import BATCH

ROW_KEYS = ["id", "value", "method", "epsilon", "delta", "adjacency", "release_id"]
SUMMARY_KEYS = {"answers", "accuracy", "spent", "remaining", "method", "model", "adjacency", "seconds"}
LABELS = ["billing", "fraud", "shipping"]
TOTAL = 2 * BATCH + 8
"""Questions of a run that is interrupted: two whole batches and a part."""

SUCCESS, INPUT, BUDGET, MODEL, INTERRUPTED, UNREAD = 0, 2, 3, 4, 130, 141


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def rows(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def message(self):
        """The one line that says what is wrong."""
        told = [
            line for line in self.err.splitlines() if re.match(r"(\w*Error|Error|Internal error|Interrupted)", line)
        ]
        assert len(told) == 1, self.err
        return told[0]


class Desk:
    """A folder with records, questions and a ledger, and the command to be run in it."""

    def __init__(self, folder, capfd, monkeypatch):
        self.folder, self._capfd, self._monkeypatch = folder, capfd, monkeypatch
        self.ledger, self.out = folder / "tickets.db", folder / "answers.jsonl"
        self.partial = folder / "answers.jsonl.partial"
        self.private(*({"text": f"note {i}", "label": LABELS[i % 3]} for i in range(6)))
        self.queries(3)

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content))
        return str(path)

    def private(self, *rows):
        return self.write("private.jsonl", rows)

    def queries(self, count, **more):
        return self.write("queries.jsonl", [{"id": f"q{i}", "text": f"question {i}", **more} for i in range(count)])

    def model(self, function):
        """Makes ``--model fake`` score with this function."""
        self._monkeypatch.setattr(FakeScorer.__init__, "__defaults__", (function,))

    def arguments(self, more):
        base = {
            "--private": str(self.folder / "private.jsonl"),
            "--queries": str(self.folder / "queries.jsonl"),
            "--labels": ",".join(LABELS),
            "--model": "fake",
            "--ledger": str(self.ledger),
            "--epsilon": "0.5",
        }
        given = dict(base)
        flags = []
        words = list(more)
        while words:
            word = words.pop(0)
            if words and not words[0].startswith("--") and word.startswith("-"):
                given[word] = words.pop(0)
            else:
                flags.append(word)
        return [*(word for pair in given.items() if pair[1] != "ABSENT" for word in pair), *flags]

    def run(self, *more, command="classify"):
        words = self.arguments(more)
        if command == "ask":
            words = ["A question.", *(w for i, w in enumerate(words) if "--queries" not in (w, words[i - 1]))]
        self._capfd.readouterr()
        code = run([command, *words])
        captured = self._capfd.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return Outcome(code, captured.out, captured.err)

    def entries(self, kind="reserve"):
        if not self.ledger.exists():
            return []
        with contextlib.closing(sqlite3.connect(self.ledger)) as ledger:
            return [
                row[0]
                for row in ledger.execute("SELECT release_id FROM sotto_entry WHERE kind = ? ORDER BY seq", (kind,))
            ]

    def refuses(self, *more, code=INPUT, command="classify"):
        """Runs what must be refused before anything is charged or written, and returns its message."""
        done = self.run(*more, command=command)
        assert done.code == code, done
        assert done.out == ""
        assert self.entries() == self.entries("non-private") == []
        assert list(self.folder.glob("answers*")) == []
        return done.message

    def answers(self, *more):
        """Runs what must work, with answers on stdout."""
        done = self.run(*more)
        assert done.code == SUCCESS, done
        assert all(list(row) == ROW_KEYS for row in done.rows)
        assert all(row["value"] in LABELS for row in done.rows)
        return done.rows


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder, capfd, monkeypatch)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# What works


def test_answers_go_to_stdout_and_everything_else_to_stderr(desk):
    done = desk.run()
    assert [row["id"] for row in done.rows] == ["q0", "q1", "q2"]
    assert all(list(row) == ROW_KEYS for row in done.rows)
    assert done.rows[0]["epsilon"] == 0.5
    assert done.rows[0]["delta"] == 0
    assert (done.rows[0]["method"], done.rows[0]["adjacency"]) == ("prior-poe", "replace-one")
    assert [row["release_id"] for row in done.rows] == desk.entries() == desk.entries("release")
    assert "Replacing any one record" in done.err


def test_with_a_file_nothing_is_on_stdout_and_no_remains_are_beside_it(desk):
    done = desk.run("--out", str(desk.out))
    assert (done.code, done.out) == (SUCCESS, "")
    assert [list(row) for row in rows_of(desk.out)] == [ROW_KEYS] * 3
    assert not desk.partial.exists()


@pytest.mark.parametrize("to_file", [False, True])
def test_the_summary_is_one_json_object_with_the_promised_keys(desk, to_file):
    desk.queries(3, label="fraud")
    done = desk.run("--json", *(["--out", str(desk.out)] if to_file else []))
    summary = json.loads(done.out)
    assert set(summary) >= SUMMARY_KEYS
    assert summary["answers"] == 3
    assert 0 <= summary["accuracy"] <= 1
    assert (summary["method"], summary["model"], summary["adjacency"]) == ("prior-poe", "fake", "replace-one")
    assert summary["spent"]["adjacency"] == summary["remaining"]["adjacency"] == "replace-one"
    assert summary["remaining"]["answers"] == 3
    assert summary["seconds"] >= 0
    assert ("rows" in summary) != to_file
    desk.queries(1)
    assert json.loads(desk.run("--json").out)["accuracy"] is None


def test_one_record_is_enough(desk):
    desk.private({"text": "note", "label": "fraud"})
    assert len(desk.answers()) == 3


def test_rows_of_one_group_are_one_unit(desk):
    desk.private(*({"text": f"note {i}", "label": "fraud", "group": "same"} for i in range(4)))
    done = desk.run()
    assert done.code == SUCCESS
    assert "'group' (all of its records)" in done.err


def test_ids_of_questions_may_start_at_zero_and_may_be_missing(desk):
    desk.write("queries.jsonl", [{"id": i, "text": f"question {i}"} for i in range(3)])
    assert [row["id"] for row in desk.answers()] == ["0", "1", "2"]
    desk.write("queries.jsonl", [{"text": "one"}, {"id": "", "text": "two"}, {"id": None, "text": "three"}])
    assert [row["id"] for row in desk.answers()] == ["1", "2", "3"]


def test_a_long_record_is_cut_or_taken_where_that_is_asked(desk):
    desk.private({"text": "x" * 10_000, "label": "fraud"}, {"text": "note", "label": "fraud"})
    assert "line 1, field 'text': the text is longer than 8,000 characters" in desk.refuses()
    assert desk.answers("--truncate")
    assert desk.answers("--max-characters", "10000")
    # All three were one data set, with one ledger.
    assert len(desk.entries()) == 6


def test_experts_that_say_nothing_are_null_and_the_answer_comes(desk):
    def some(task, context, query):
        return [math.nan if context and context[0].label == 1 else 0.0] * 3

    desk.model(some)
    assert len(desk.answers()) == 3


def test_asking_one_question_prints_one_label(desk):
    done = desk.run(command="ask")
    assert (done.code, done.out.strip() in LABELS) == (SUCCESS, True)
    done = desk.run("--json", command="ask")
    assert set(json.loads(done.out)) == {*ROW_KEYS, "statement", "remaining"}


def test_a_ledger_that_nobody_named_is_kept_for_the_records_and_said(desk, tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "store"))
    done = desk.run("--ledger", "ABSENT")
    assert done.code == SUCCESS
    kept = [path for path in (tmp_path / "store" / "ledgers").glob("*.db") if str(path) in done.err]
    assert len(kept) == 1
    assert len(Ledger(str(kept[0])).history()) == 1 + 2 * 3
    assert "epsilon 8 at delta 1e-06" in done.err


# Records and questions


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "there is no record"),
        ("\n\n", "there is no record"),
        ('{"text": "a", "label": "fraud"}\n\n{"text": \n', "line 3: this is not valid JSON"),
        ('{"text": "a", "label": "fraud"}\n[1]\n', "line 2: a JSON object is needed"),
        ('{"label": "fraud"}\n', "line 1, field 'text': the field is missing or empty"),
        ('{"text": " ", "label": "fraud"}\n', "line 1, field 'text': the field holds only blanks"),
        ('{"text": 3, "label": "fraud"}\n', "line 1, field 'text': the value is a number; it must be a text"),
        ('{"text": "a"}\n', "line 1, field 'label': the label is missing"),
        ('{"text": "a", "label": "Betrug"}\n', "line 1, field 'label': the label is outside the public label set"),
        (
            '{"id": 1, "text": "a", "label": 1}\n{"id": 1, "text": "b", "label": 1}\n',
            "line 2, field 'id': the id is the",
        ),
        ('{"group": 1, "text": "a", "label": 1}\n{"text": "b", "label": 1}\n', "line 2, field 'group'"),
    ],
)
def test_records_that_cannot_be_used_are_named_by_line_and_field(desk, content, problem):
    desk.write("private.jsonl", content)
    message = desk.refuses("--out", str(desk.out))
    assert problem in message
    assert "private.jsonl" in message
    assert "Betrug" not in message
    assert not desk.ledger.exists()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--private", "absent.jsonl"], "absent.jsonl: there is no such file"),
        (["--private", "."], "there is a folder inside a label's folder"),
        (["--private", "ABSENT"], "--private"),
        (["--private", __file__], "file type '.py' is not known"),
        (["--queries", "absent.jsonl"], "absent.jsonl: there is no such file"),
        (["--unit", "patient"], "field 'patient'"),
        (["--max-characters", "0"], "--max-characters is 0"),
    ],
)
def test_files_and_columns_that_are_not_there_are_named(desk, more, problem):
    assert problem in desk.refuses(*more)
    assert not desk.ledger.exists()


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([], "there is no row"),
        ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "line 2, field 'id': the id is that of an earlier row"),
        ([{"text": ""}], "line 1, field 'text'"),
        ([{"text": "x" * 10_000}], "longer than 8,000"),
        ([{"text": "x", "label": "Betrug"}], "outside the public label set"),
    ],
)
def test_questions_that_cannot_be_used_are_named_before_anything_private_is_opened(desk, rows, problem):
    desk.write("queries.jsonl", rows)
    desk.write("private.jsonl", "not even JSON")
    assert problem in desk.refuses()


# Numbers and names


@pytest.mark.parametrize("command", ["classify", "ask"])
@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "-inf", "1e999", "abc", "", "1e-9", "2000", "1,5"])
def test_an_epsilon_that_is_no_price_is_refused(desk, command, epsilon):
    message = desk.refuses("--epsilon", epsilon, command=command)
    assert message.startswith("ParameterError: --epsilon is")
    assert "1e-06 to 1000" in message
    assert not desk.ledger.exists()


@pytest.mark.parametrize("delta", ["-1e-6", "1", "nan", "inf", "abc", "1e-300"])
def test_a_delta_that_is_none_is_refused(desk, delta):
    message = desk.refuses("--delta", delta, "--method", "rnm", "--noise", "gaussian")
    assert message.startswith("ParameterError: --delta is")


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--task", "tickets"], "--labels and --task are both given"),
        (["--labels", "ABSENT"], "No labels are named"),
        (["--labels", "billing,fraud,billing"], "'billing' is named twice"),
        (["--labels", "billing"], "at least two"),
        (["--labels", "billing,,fraud"], "A label is empty"),
        (["--labels", "ABSENT", "--task", "no-such-task"], "Built in: agnews"),
        (["--method", "oracle"], "method is 'oracle'; it must be one of"),
        (["--model", "oracle"], "model is 'oracle'; it must be one of"),
        (["--model", "hf:"], "model is 'hf:'"),
        (["--model", "fake", "--dtype", "float32"], "model option is 'dtype'"),
        (["--method", "rnm", "--noise", "laplace"], "noise is 'laplace'; it must be one of"),
        (["--method", "poe", "--noise", "gaussian"], "no such option"),
        (["--method", "rnm", "--clip", "1"], "no such option"),
        (["--adjacency", "neighbours"], "adjacency is 'neighbours'; it must be one of replace-one, add-remove"),
        (["--clip", "0"], "clip is 0.0; it must be from 0.001"),
        (["--clip", "-1"], "clip is -1.0"),
        (["--clip", "nan"], "clip is nan"),
        (["--clip", "1e999"], "clip is inf"),
        (["-g", "0"], "--per-expert is 0"),
        (["-g", "-3"], "--per-expert is -3"),
        (["--capacity", "0", "--adjacency", "add-remove"], "capacity is 0"),
        (["-g", "3", "--adjacency", "add-remove"], "--capacity"),
        (["--capacity", "3", "--adjacency", "add-remove"], "stable id"),
        (["--capacity", "3"], "capacity is 3; it must be absent"),
        (["--budget", "0"], "budget epsilon is '0'"),
        (["--budget", "1,2,3"], "budget is '1,2,3'"),
        (["--resume"], "used with --out"),
    ],
)
def test_names_and_numbers_out_of_range_are_refused_with_what_would_do(desk, more, problem):
    assert problem in desk.refuses(*more)


@pytest.mark.parametrize(
    "more", [["-g", "x"], ["--clip", "x"], ["--limit", "0"], ["--no-such-option"], ["--queries", "ABSENT"]]
)
def test_usage_errors_are_usage_errors(desk, more):
    message = desk.refuses(*more)
    assert message.startswith("Error: ")
    assert not desk.ledger.exists()


def test_gaussian_noise_on_a_pure_budget_is_refused(desk):
    message = desk.refuses("--method", "rnm", "--noise", "gaussian", "--budget", "8")
    assert "delta" in message


# Methods without a guarantee


@pytest.mark.parametrize("method", ["soft", "hard", "full-context"])
def test_a_method_without_a_guarantee_is_refused_unless_allowed_and_then_noted(desk, method):
    assert "--allow-non-private" in desk.refuses("--method", method)
    rows = desk.answers("--method", method, "--allow-non-private")
    assert {(row["epsilon"], row["delta"]) for row in rows} == {(None, None)}
    assert desk.entries("non-private") == [row["release_id"] for row in rows]
    assert desk.entries() == []


def test_zero_shot_needs_no_records_and_no_ledger(desk):
    rows = desk.answers("--method", "zero-shot", "--private", "ABSENT", "--ledger", "ABSENT")
    assert {row["epsilon"] for row in rows} == {0}
    assert not desk.ledger.exists()


# Budgets and ledgers


def test_a_refusal_names_what_was_asked_what_is_left_and_the_limit_and_asks_no_model(desk):
    def never(task, context, query):
        raise AssertionError("the model was asked")

    desk.answers("--budget", "2")
    desk.model(never)
    before = Ledger(str(desk.ledger)).history()
    for command, asked in (("classify", "epsilon 1.5 asked"), ("ask", "epsilon 0.6 asked")):
        more = ["--epsilon", "0.6"] if command == "ask" else ["--out", str(desk.out)]
        done = desk.run(*more, command=command)
        assert (done.code, done.out) == (BUDGET, "")
        assert done.message.startswith("BudgetExhaustedError: ")
        for words in (asked, "0.5 left of 2 in tickets.db", "replace-one", "Nothing was charged", "grant"):
            assert words in done.message
    assert Ledger(str(desk.ledger)).history() == before
    assert list(desk.folder.glob("answers*")) == []


def test_all_answers_are_priced_before_the_first_is_paid(desk):
    desk.queries(40)
    message = desk.refuses("--budget", "19.9", code=BUDGET)
    assert "40 answers ask" in message
    assert "39 more would fit" in message


@pytest.mark.parametrize("name", ["folder", "text.txt", "other.db", "/proc/no/ledger.db", "private.jsonl"])
def test_what_cannot_be_a_ledger_is_refused_and_left_as_it_was(desk, name):
    (desk.folder / "folder").mkdir()
    desk.write("text.txt", "my notes " * 999)
    with contextlib.closing(sqlite3.connect(desk.folder / "other.db")) as other:
        other.execute("CREATE TABLE theirs (x)")
    path = desk.folder / name
    before = path.read_bytes() if path.is_file() else None
    message = desk.refuses("--ledger", str(path), code=BUDGET)
    assert message.startswith("LedgerUnavailableError: ")
    assert path.name in message
    assert (path.read_bytes() if path.is_file() else None) == before


@contextlib.contextmanager
def every_connection(statement):
    """Runs a statement on every database connection that is made meanwhile."""

    def on_connect(connection, _record):
        connection.execute(statement)

    sa.event.listen(sa.engine.Engine, "connect", on_connect)
    try:
        yield
    finally:
        sa.event.remove(sa.engine.Engine, "connect", on_connect)


def test_a_read_only_ledger_means_no_answer(desk):
    desk.answers()
    before = Ledger(str(desk.ledger)).history()
    with every_connection("PRAGMA query_only = ON"):
        done = desk.run("--out", str(desk.out))
    assert (done.code, done.out) == (BUDGET, "")
    assert "could not be read or written" in done.message
    assert Ledger(str(desk.ledger)).history() == before
    assert list(desk.folder.glob("answers*")) == []


def test_a_full_disk_under_the_ledger_means_no_answer(desk):
    seen = []
    desk.answers()
    desk.queries(32)
    desk.model(lambda task, context, query: seen.append(bool(context)) or [0.0] * 3)
    ledger = Ledger(str(desk.ledger))
    before = ledger.history()
    with ledger._database.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    with every_connection(f"PRAGMA max_page_count = {pages}"):
        done = desk.run("--epsilon", "0.01", "--out", str(desk.out))
    assert (done.code, done.out) == (BUDGET, "")
    assert "full" in done.message
    assert ledger.history() == before
    assert ledger.verify() == []
    assert not any(seen), "no private record was read"
    assert list(desk.folder.glob("answers*")) == []


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--adjacency", "add-remove"], "keeps these records under replace-one"),
        (["--budget", "9,1e-6"], "has the budget"),
        (["--max-characters", "9000"], None),
    ],
)
def test_a_ledger_kept_for_something_else_is_refused(desk, more, problem):
    desk.answers()
    spent = desk.entries()
    done = desk.run(*more)
    if problem is None:
        assert done.code == SUCCESS
        return
    assert (done.code, done.out) == (BUDGET, "")
    assert done.message.startswith("LedgerMismatchError: ")
    assert problem in done.message
    assert desk.entries() == spent


def test_other_records_do_not_share_a_ledger_by_accident(desk):
    desk.answers()
    desk.private({"text": "another note", "label": "fraud"})
    done = desk.run()
    assert done.code == BUDGET
    assert "kept for other records" in done.message


# Models


def test_a_name_that_is_no_model_is_a_model_error(desk):
    pytest.importorskip("transformers")
    (desk.folder / "no-model").mkdir()
    for name in (desk.folder / "no-model", desk.folder / "absent"):
        message = desk.refuses("--model", f"hf:{name}", code=MODEL)
        assert message.startswith("ModelError: ")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_none_without_any_example_are_a_model_error_and_free(desk, value):
    desk.model(lambda task, context, query: [value] * 3)
    message = desk.refuses(code=MODEL)
    assert "Nothing was charged" in message


def test_a_model_that_raises_without_any_example_is_free(desk):
    def broken(task, context, query):
        raise RuntimeError("out of memory")

    desk.model(broken)
    assert "Nothing was charged" in desk.refuses(code=MODEL)


def stops_at(question, error):
    """A model that fails when it reads private examples for this question."""

    def score(task, context, query):
        if context and query["text"] == f"question {question}":
            raise error
        return one_shot(task, context, query)

    return score


@pytest.mark.cases(3)
@pytest.mark.parametrize("question", [0, BATCH - 1, BATCH, BATCH + 4, TOTAL - 1])
def test_a_model_that_raises_in_the_middle_leaves_the_batch_charged_and_the_paid_answers_whole(desk, question):
    desk.queries(TOTAL)
    desk.model(stops_at(question, MemoryError("whatever")))
    done = desk.run("--epsilon", "0.1", "--out", str(desk.out))
    assert (done.code, done.out) == (MODEL, "")
    assert done.message.startswith("ModelError: The model fake failed")
    released = question // BATCH * BATCH
    assert len(desk.entries("release")) == released
    assert len(desk.entries()) == min(released + BATCH, TOTAL)
    assert not desk.out.exists()
    kept = rows_of(desk.partial) if released else []
    assert [row["release_id"] for row in kept] == desk.entries("release")
    assert desk.partial.exists() == bool(released)
    assert Ledger(str(desk.ledger)).verify() == []


def test_without_a_file_the_answers_before_a_failure_are_on_stdout(desk):
    desk.queries(TOTAL)
    desk.model(stops_at(BATCH + 4, MemoryError("whatever")))
    done = desk.run("--epsilon", "0.1")
    assert (done.code, len(done.rows)) == (MODEL, BATCH)
    assert [row["release_id"] for row in done.rows] == desk.entries("release")


# Interruptions


def test_after_ctrl_c_the_paid_answers_are_kept_and_resuming_pays_only_for_the_rest(desk):
    desk.queries(TOTAL)
    desk.model(stops_at(BATCH + 4, KeyboardInterrupt()))
    done = desk.run("--epsilon", "0.1", "--out", str(desk.out))
    assert (done.code, done.out, done.message) == (INTERRUPTED, "", "Interrupted.")
    assert "Paid answers are in" in done.err
    assert not desk.out.exists()
    paid = rows_of(desk.partial)
    assert [row["id"] for row in paid] == [f"q{i}" for i in range(BATCH)]
    assert [row["release_id"] for row in paid] == desk.entries("release")
    assert len(desk.entries()) == 2 * BATCH

    refused = desk.run("--epsilon", "0.1", "--out", str(desk.out))
    assert (refused.code, "--resume" in refused.message) == (INPUT, True)
    assert rows_of(desk.partial) == paid
    assert len(desk.entries()) == 2 * BATCH

    desk.model(one_shot)
    done = desk.run("--epsilon", "0.1", "--out", str(desk.out), "--resume", "--json")
    assert done.code == SUCCESS
    assert json.loads(done.out)["answers"] == TOTAL
    rows = rows_of(desk.out)
    assert rows[:BATCH] == paid
    assert [row["id"] for row in rows] == [f"q{i}" for i in range(TOTAL)]
    assert not desk.partial.exists()
    assert len(desk.entries()) == TOTAL + BATCH
    assert len(desk.entries("release")) == TOTAL


@pytest.mark.cases(2)
@pytest.mark.parametrize("torn", ['{"id": "q2", "val', '{"id"', "{"])
def test_a_last_row_that_was_not_written_to_its_end_is_answered_anew(desk, torn):
    desk.run("--out", str(desk.out))
    rows = rows_of(desk.out)
    whole = "".join(json.dumps(row) + "\n" for row in rows[:2])
    desk.out.unlink()
    desk.partial.write_bytes((whole + torn).encode("latin-1"))
    done = desk.run("--out", str(desk.out), "--resume")
    assert done.code == SUCCESS
    assert rows_of(desk.out)[:2] == rows[:2]
    assert [row["id"] for row in rows_of(desk.out)] == ["q0", "q1", "q2"]
    assert len(desk.entries()) == 4


@pytest.mark.cases(2)
@pytest.mark.parametrize("last", ['{"id": "q2"}', "\x00\x00\x00", "17\n", "\xff"])
def test_a_last_row_that_is_not_the_beginning_of_the_next_answer_is_refused(desk, last):
    desk.run("--out", str(desk.out))
    desk.out.rename(desk.partial)
    damaged = b"".join(desk.partial.read_bytes().splitlines(keepends=True)[:2]) + last.encode("latin-1")
    desk.partial.write_bytes(damaged)
    done = desk.run("--out", str(desk.out), "--resume")
    assert (done.code, len(desk.entries())) == (INPUT, 3)
    assert "line 3" in done.message
    assert desk.partial.read_bytes() == damaged


def test_a_refusal_while_resuming_keeps_the_paid_answers(desk):
    desk.run("--out", str(desk.out), "--budget", "2")
    paid = desk.out.read_text().splitlines(keepends=True)[0]
    desk.out.unlink()
    desk.partial.write_text(paid)
    done = desk.run("--out", str(desk.out), "--resume")
    assert done.code == BUDGET
    assert desk.partial.read_text() == paid


def test_resuming_what_is_finished_pays_nothing(desk):
    desk.run("--out", str(desk.out))
    desk.out.rename(desk.partial)
    done = desk.run("--out", str(desk.out), "--resume")
    assert done.code == SUCCESS
    assert len(rows_of(desk.out)) == len(desk.entries()) == 3


HELD = f"""
import os, signal, sys
from sottovoce.cli import main
from sottovoce.models.fake import FakeScorer, one_shot

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
reached, go_on, *arguments = sys.argv[1:]

def held(task, context, query):
    if context and query["text"] == "question {BATCH}":
        os.write(int(reached), b"here")
        os.read(int(go_on), 1)
    return one_shot(task, context, query)

FakeScorer.__init__.__defaults__ = (held,)
main(arguments)
"""
"""The command with a model that stops at the first question of the second batch, once that batch is charged."""


class HeldProcess:
    """A run in a process of its own that waits in the middle of its second batch until it is told to go on.

    Both sides wait at a pipe: neither looks at a clock, and a process that ends closes its end.
    """

    def __init__(self, desk, *more):
        self._reached, here = os.pipe()
        there, self._go_on = os.pipe()
        words = [str(here), str(there), "classify", *desk.arguments(["--epsilon", "0.1", *more])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", HELD, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=(here, there),
        )  # fmt: skip
        for end in (here, there):
            os.close(end)

    def __enter__(self):
        return self

    def wait_until_reached(self):
        assert os.read(self._reached, 4) == b"here", self.process.communicate()

    def go_on(self):
        os.close(self._go_on)
        self._go_on = None

    def __exit__(self, *failure):
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait()
        for end in filter(None, (self._reached, self._go_on)):
            os.close(end)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_real_signal_in_the_middle_loses_no_answer_and_half_writes_none(desk, sent):
    desk.queries(TOTAL)
    with HeldProcess(desk, "--out", str(desk.out)) as held:
        held.wait_until_reached()
        held.process.send_signal(sent)
        out, err = held.process.communicate()
    assert out == ""
    assert "Traceback" not in err
    assert held.process.returncode == (INTERRUPTED if sent == signal.SIGINT else -sent)
    assert ("Interrupted." in err) == (sent == signal.SIGINT)
    assert not desk.out.exists()
    paid = rows_of(desk.partial)
    assert [row["release_id"] for row in paid] == desk.entries("release")
    assert (len(paid), len(desk.entries())) == (BATCH, 2 * BATCH)

    done = desk.run("--epsilon", "0.1", "--out", str(desk.out), "--resume")
    assert done.code == SUCCESS
    assert rows_of(desk.out)[:BATCH] == paid
    assert len(desk.entries()) == TOTAL + BATCH, "the batch that was charged and not released is charged again"


# Where answers go


@pytest.mark.parametrize(
    "name", ["folder", "absent/answers.jsonl", "/proc/answers.jsonl", "private.jsonl/answers.jsonl", "pipe"]
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_charged(desk, name):
    (desk.folder / "folder").mkdir()
    os.mkfifo(desk.folder / "pipe")
    message = desk.refuses("--out", str(desk.folder / name))
    assert "--out" in message or "cannot be written" in message
    assert sorted(path.name for path in desk.folder.glob("*.partial")) == []


def test_what_is_no_regular_file_is_never_replaced_by_one(desk):
    # A pipe stands in for /dev/null: onto that the superuser's finished file would be moved as well.
    pipe = desk.folder / "pipe"
    os.mkfifo(pipe)
    assert "a folder or a device" in desk.refuses("--out", str(pipe))
    assert pipe.is_fifo()


def test_a_link_is_followed_and_stays_a_link(desk):
    target = desk.folder / "elsewhere.jsonl"
    desk.out.symlink_to(target)
    assert desk.run("--out", str(desk.out)).code == SUCCESS
    assert desk.out.is_symlink()
    assert len(rows_of(target)) == 3


def test_a_full_disk_under_the_answers_gives_the_paid_ones_to_stdout(desk, monkeypatch):
    def full(file, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(PartialFile, "append", full)
    done = desk.run("--out", str(desk.out))
    assert done.code == INPUT
    assert "No space left on device" in done.message
    assert [list(row) for row in done.rows] == [ROW_KEYS] * 3
    assert [row["release_id"] for row in done.rows] == desk.entries("release")
    assert not desk.out.exists()


# As a process


def sotto(*more):
    script = pathlib.Path(sys.executable).with_name("sotto")
    return subprocess.run([str(script), *more], capture_output=True, text=True)


@pytest.mark.slow
def test_a_real_process_returns_the_same_codes(desk):
    poor = sotto("classify", *desk.arguments(["--epsilon", "500"]))
    assert (poor.returncode, poor.stdout) == (BUDGET, "")


@pytest.mark.slow
def test_a_real_process_that_answers_or_refuses_an_option_returns_the_same_codes(desk):
    good = sotto("classify", *desk.arguments(["--json"]))
    assert good.returncode == SUCCESS
    assert set(json.loads(good.stdout)) >= SUMMARY_KEYS
    bad = sotto("classify", *desk.arguments(["--epsilon", "nan"]))
    assert (bad.returncode, bad.stdout) == (INPUT, "")
    assert bad.stderr.startswith("ParameterError: --epsilon is 'nan'")


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(desk):
    desk.queries(BATCH + 8)
    with HeldProcess(desk) as held:
        held.wait_until_reached()
        assert held.process.stdout.readline()
        held.process.stdout.close()
        held.go_on()
        err = held.process.stderr.read()
        assert held.process.wait() == UNREAD
        held.process.stderr.close()
    assert "Traceback" not in err


def test_no_arguments_show_the_help(capfd):
    assert run(["-h"]) == SUCCESS
    assert "classify" in capfd.readouterr().out
    assert run([]) in (SUCCESS, INPUT)
    out = capfd.readouterr()
    assert "classify" in out.out + out.err
    assert "Traceback" not in out.out + out.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["plan", "--records", "many", "--questions", "3"],
            "Invalid value for '--records': it must be a whole number\n",
        ),
        (["classify", "--queries", "q.jsonl", "--limit", "0"], "Invalid value for '--limit': it must be 1 or more\n"),
        (["ledger", "show", "notes.txt"], "notes.txt is not a ledger: it is no SQLite database"),
        (["plan", "--records", "9", "--questions", "3", "--task", "trec", "--labels", "2"], "are both given. A task"),
    ],
)
def test_a_message_says_what_is_expected_in_plain_words(tmp_path, monkeypatch, capfd, words, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("not a ledger, and longer than the header of one " * 9)
    assert run(words) in (INPUT, BUDGET)
    assert told in capfd.readouterr().err
