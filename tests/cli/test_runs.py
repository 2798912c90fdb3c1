"""A run of ``classify`` knows itself: what is resumed is what was begun, and what was paid for is not paid twice."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from sottovoce.cli import run
from sottovoce.cli.answers import AnswerSink, Run, begun_with
from sottovoce.errors import InputError
from sottovoce.files import partial as partial_file
from sottovoce.models.base import Isolation, weakest
from sottovoce.models.fake import FakeScorer, one_shot
from sottovoce.release import RELEASE_ID_BYTES, Release, longest_rows
from sottovoce.session import BATCH, PrivateICL
from sottovoce.terminal import json_text

LABELS = "billing,fraud"
TASK = 'labels = ["billing", "fraud"]\nquery = "{0}: {{text}}"\n'


class Desk:
    """A folder with records and questions, and ``classify`` with options that can be changed."""

    def __init__(self, folder, capfd, monkeypatch):
        self.folder, self._capfd, self._monkeypatch = folder, capfd, monkeypatch
        self.out, self.partial = folder / "answers.jsonl", folder / "answers.jsonl.partial"
        self.header = folder / "answers.jsonl.run"
        self.write("private.jsonl", [{"text": f"note {i}", "label": LABELS.split(",")[i % 2]} for i in range(6)])
        self.write("queries.jsonl", [{"id": f"q{i}", "text": f"question {i}"} for i in range(BATCH + 4)])
        self.given = {
            "--private": "private.jsonl", "--queries": "queries.jsonl", "--labels": LABELS, "--model": "fake",
            "--ledger": "tickets.db", "--epsilon": "0.05", "--out": "answers.jsonl",
        }  # fmt: skip
        monkeypatch.chdir(folder)

    def write(self, name, rows):
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def stop_in_the_second_batch(self):
        self.stop_at(BATCH)

    def stop_at(self, number):
        def score(task, context, query):
            if context and query["text"] == f"question {number}":
                raise KeyboardInterrupt
            return one_shot(task, context, query)

        self._monkeypatch.setattr(FakeScorer.__init__, "__defaults__", (score,))

    def go_on(self):
        self._monkeypatch.setattr(FakeScorer.__init__, "__defaults__", (one_shot,))

    def run(self, *flags, **changed):
        words = {**self.given, **{f"--{name.replace('_', '-')}": value for name, value in changed.items()}}
        self._capfd.readouterr()
        code = run(["classify", *(w for pair in words.items() if pair[1] is not None for w in pair), *flags])
        out, err = self._capfd.readouterr()
        return code, out, err

    def charges(self, ledger="tickets.db"):
        with closing(sqlite3.connect(self.folder / ledger)) as book:
            return book.execute("SELECT count(*) FROM sotto_entry WHERE kind = 'reserve'").fetchone()[0]


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder, capfd, monkeypatch)


# A finished run


@pytest.mark.cases(1)
@pytest.mark.parametrize("budget", [None, f"{0.05 * (BATCH + 4)},1e-6"])
def test_a_finished_run_resumes_to_nothing_to_do(desk, budget):
    # With the second budget nothing is left: a resume must not even look for one.
    assert desk.run(budget=budget)[0] == 0
    before, charged = desk.out.read_bytes(), desk.charges()
    desk.stop_in_the_second_batch()  # a model that is asked again would stop
    code, out, err = desk.run("--resume", "--json")
    assert (code, desk.charges(), desk.out.read_bytes()) == (0, charged, before)
    assert "Nothing to do" in err
    assert json.loads(out)["answers"] == BATCH + 4
    assert sorted(path.name for path in desk.folder.glob("answers*")) == ["answers.jsonl", "answers.jsonl.run"]


def test_without_resume_a_finished_file_is_refused_and_left_as_it_is(desk):
    desk.run()
    before, charged = desk.out.read_bytes(), desk.charges()
    code, _, err = desk.run()
    assert (code, desk.charges(), desk.out.read_bytes()) == (2, charged, before)
    assert "move it away" in err
    desk.out.rename(desk.folder / "kept.jsonl")
    assert desk.run()[0] == 0, "what the run before left of itself stands in nobody's way"
    assert desk.charges() == 2 * charged


@pytest.mark.cases(1)
@pytest.mark.parametrize("change", ["cut", "more", "other ids", "no header", "foreign header"])
def test_a_finished_file_that_was_changed_is_not_taken_for_the_run(desk, change):
    desk.run()
    rows = desk.out.read_text().splitlines(keepends=True)
    if change == "cut":
        desk.out.write_text("".join(rows[:-1]))
    elif change == "more":
        desk.out.write_text("".join(rows) + "junk")
    elif change == "other ids":
        desk.out.write_text("".join(reversed(rows)))
    elif change == "no header":
        desk.header.unlink()
    else:
        desk.header.write_text("[]")
    before, charged = desk.out.read_bytes(), desk.charges()
    code, out, _ = desk.run("--resume")
    assert (code, out, desk.charges(), desk.out.read_bytes()) == (2, "", charged, before)


# An interrupted run


def test_resume_begins_where_nothing_was_begun(desk):
    assert desk.run("--resume")[0] == 0
    assert desk.charges() == BATCH + 4


def test_an_interrupted_run_is_resumed_by_its_own_command_alone(desk):
    desk.stop_in_the_second_batch()
    assert desk.run()[0] == 130
    assert len(desk.partial.read_text().splitlines()) == BATCH
    desk.go_on()
    kept = desk.partial.read_bytes(), desk.header.read_bytes(), desk.charges()
    (desk.folder / "one.toml").write_text(TASK.format("Text"))
    desk.write("notes.jsonl", [{"text": f"other {i}", "label": "fraud"} for i in range(6)])
    desk.write("new.jsonl", [{"text": f"new {i}", "label": "fraud"} for i in range(6)])
    desk.write("other.jsonl", [{"id": f"q{i}", "text": f"else {i}"} for i in range(BATCH + 4)])
    assert run(["ledger", "grant", "notes.db", "--private", "notes.jsonl", "--budget", "8,1e-6"]) == 0
    for change, told in [
        ({"method": "rnm"}, "method"),
        ({"clip": "1.0"}, "method"),
        ({"epsilon": "0.06"}, "epsilon 0.05, not 0.06"),
        ({"per_expert": "2"}, "partition"),
        ({"labels": None, "task": "one.toml"}, "other task|task '"),
        ({"queries": "other.jsonl"}, "other question texts"),
        ({"limit": str(BATCH + 1)}, f"questions {BATCH + 4}, not {BATCH + 1}"),
        ({"private": "notes.jsonl", "ledger": "notes.db"}, "other records"),
        ({"private": "new.jsonl", "ledger": "new.db"}, "nothing to resume: these records have no ledger"),
        ({"ledger": "second.db"}, "other ledger"),
    ]:
        if "private" not in change and "ledger" in change:
            grant = ["ledger", "grant", change["ledger"], "--private", "private.jsonl", "--budget", "8,1e-6"]
            assert run(grant) == 0
        code, out, err = desk.run("--resume", **change)
        assert (code, out) == (2, ""), change
        assert any(words in err for words in told.split("|")), (change, err)
        assert (desk.partial.read_bytes(), desk.header.read_bytes(), desk.charges()) == kept, change
    assert desk.charges("second.db") == desk.charges("notes.db") == 0
    assert not (desk.folder / "new.db").exists(), "no budget is settled for records that have no run"
    assert desk.run("--resume")[0] == 0
    assert desk.charges() == kept[2] + 4


@pytest.mark.parametrize("limit", [None, "12"])
def test_questions_that_are_the_private_records_are_refused_before_a_budget_is_opened(desk, limit):
    # Afterwards they would be known as such: what is refused then must not have been answered before.
    rows = [{"text": f"Zebra {i} complained about the very late parcel {i}", "label": "fraud"} for i in range(20)]
    desk.write("private.jsonl", rows)
    desk.write("queries.jsonl", rows if limit is None else rows[:12] + [{"text": f"question {i}"} for i in range(60)])
    code, out, err = desk.run(limit=limit)
    assert (code, out) == (2, "")
    assert "most of these rows are private records" in err
    assert "no budget was opened" in err
    assert not list(desk.folder.glob("tickets.db*"))
    assert not list(desk.folder.glob("answers*"))


def test_another_trusted_store_cannot_tell_the_run_and_says_so(desk, monkeypatch):
    desk.run()
    monkeypatch.setenv("SOTTOVOCE_HOME", str(desk.folder.parent / "another"))
    code, _, err = desk.run("--resume")
    assert code == 2
    assert "SOTTOVOCE_HOME" in err


def test_an_unusable_trusted_store_is_refused_before_anything_is_charged(desk, monkeypatch):
    (desk.folder / "file").write_text("")
    monkeypatch.setenv("SOTTOVOCE_HOME", str(desk.folder / "file" / "home"))
    code, _, err = desk.run()
    assert code == 3
    assert "The trusted store cannot be used" in err
    assert not (desk.folder / "tickets.db").exists()
    assert not list(desk.folder.glob("answers*"))


def test_a_run_that_pays_nothing_is_resumed_as_well(desk):
    nothing = {"private": None, "ledger": None, "method": "zero-shot"}
    assert desk.run(**nothing)[0] == 0
    before = desk.out.read_bytes()
    assert desk.run("--resume", **nothing)[0] == 0
    assert desk.out.read_bytes() == before


def test_what_is_kept_of_a_run_tells_a_guess_nothing(desk, monkeypatch):
    """Who sees the file and knows everything but the store's key cannot check a guess: no plain hash is in it."""
    desk.run()
    first = desk.header.read_text()
    (desk.folder / "tickets.db").rename(desk.folder / "moved.db")
    for name in ("answers.jsonl", "answers.jsonl.run"):
        (desk.folder / name).unlink()
    monkeypatch.setenv("SOTTOVOCE_HOME", str(desk.folder.parent / "another"))
    desk.run(ledger="moved.db")
    second = json.loads(desk.header.read_text())
    told = json.loads(first)
    assert told["public"] == second["public"]
    assert not set(told["keyed"].values()) & set(second["keyed"].values())
    assert "note 1" not in first
    assert "question 1" not in first


# A partial file that was damaged, or is none


def left_by(desk):
    """What an interrupted run left: its rows, and the number of charges."""
    desk.stop_in_the_second_batch()
    assert desk.run()[0] == 130
    desk.go_on()
    return desk.partial.read_bytes().splitlines(keepends=True), desk.charges()


def without(line, name):
    row = json.loads(line)
    del row[name]
    return json.dumps(row).encode() + b"\n"


DAMAGE = {
    "no JSON": lambda line: line.replace(b'"value"', b"value"),
    "no object": lambda line: b"[1]\n",
    "empty": lambda line: b"\n",
    "NUL bytes": lambda line: b"\0" * 9 + b"\n",
    "no UTF-8": lambda line: line.replace(b'"value"', b'"val\xff"'),
    "no value": lambda line: without(line, "value"),
    "no release id": lambda line: without(line, "release_id"),
    "no label": lambda line: line.replace(b"billing", b"weather").replace(b"fraud", b"weather"),
    "other price": lambda line: line.replace(b"0.05", b"0.06"),
    "other id": lambda line: line.replace(b'"q', b'"p'),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", [0, 2, BATCH - 1])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_row_is_refused_and_no_answer_behind_it_is_thrown_away(desk, damage, place):
    rows, charged = left_by(desk)
    rows[place] = damage(rows[place])
    desk.partial.write_bytes(b"".join(rows))
    code, out, err = desk.run("--resume")
    assert (code, out, desk.charges(), desk.partial.read_bytes()) == (2, "", charged, b"".join(rows))
    assert f"line {place + 1}:" in err
    assert "Nothing was charged" in err
    desk.partial.write_bytes(b"".join(rows[:place]))  # as the message says
    assert desk.run("--resume")[0] == 0
    assert len(desk.out.read_text().splitlines()) == BATCH + 4
    assert desk.charges() == charged + BATCH - place + 4


@pytest.mark.cases(1)
@pytest.mark.parametrize("kept", [1, 9, 40, -2, -1])
def test_of_a_torn_last_row_alone_anything_is_cut_off(desk, kept):
    rows, charged = left_by(desk)
    desk.partial.write_bytes(b"".join(rows[:-1]) + rows[-1][:kept])
    assert desk.run("--resume")[0] == 0
    whole = desk.out.read_bytes().splitlines(keepends=True)
    # Of a row that lacks just the end of its line nothing is missing.
    same = BATCH if kept == -1 else BATCH - 1
    assert whole[:same] == rows[:same]
    assert [json.loads(row)["id"] for row in whole] == [f"q{i}" for i in range(BATCH + 4)]
    assert desk.charges() == charged + BATCH - same + 4


def test_a_finished_file_with_a_row_that_lacks_its_value_is_refused(desk):
    desk.run()
    rows, charged = desk.out.read_bytes().splitlines(keepends=True), desk.charges()
    rows[1] = without(rows[1], "value")
    desk.out.write_bytes(b"".join(rows))
    code, out, err = desk.run("--resume")
    assert (code, out, desk.charges(), desk.out.read_bytes()) == (2, "", charged, b"".join(rows))
    assert "answers.jsonl, line 2:" in err
    assert "as answers.jsonl.partial" in err


@pytest.mark.cases(1)
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("text", ["important notes\n", "important notes", '{"id": "mine"}', "{}\n", ""])
def test_what_is_no_file_of_the_run_is_left_as_it_is(desk, linked, text):
    desk.run()
    charged = desk.charges()
    desk.out.unlink()
    notes = desk.folder / "notes.txt"
    (notes if linked else desk.partial).write_text(text)
    if linked:
        desk.partial.symlink_to(notes)
    elif not text:
        return  # an empty file is that of a run that was stopped before its first answer
    code, out, err = desk.run("--resume")
    assert (code, out, desk.charges(), desk.partial.read_text()) == (2, "", charged, text)
    assert desk.partial.is_symlink() == linked
    assert "answers.jsonl.partial" in err


@pytest.mark.cases(1)
@pytest.mark.parametrize("left", ["folder", "pipe"])
def test_what_is_no_file_at_all_is_refused(desk, left):
    desk.run()
    charged = desk.charges()
    desk.out.unlink()
    desk.partial.mkdir() if left == "folder" else os.mkfifo(desk.partial)
    code, out, err = desk.run("--resume")
    assert (code, out, desk.charges()) == (2, "", charged)
    assert "Nothing was charged" in err


def test_the_header_of_another_run_is_not_replaced_through_a_link(desk):
    desk.run()
    other = desk.header.rename(desk.folder / "other.run")
    desk.out.unlink()
    desk.header.symlink_to(other)
    before, charged = other.read_bytes(), desk.charges()
    assert desk.run(epsilon="0.06")[0] == 2
    assert (other.read_bytes(), desk.charges()) == (before, charged)
    assert not desk.partial.exists()


# Crashes and races between the steps


RUN = Run({"method": "poe"}, {"records": "a"})
APART = Isolation.BY_CONSTRUCTION


def sink(path, ids=("a", "b"), run=RUN, resume=False):
    return AnswerSink(path, run, ids, lambda row: row.keys() == {"id"}, resume=resume, hold=False)


def test_a_run_that_stopped_before_its_first_answer_is_begun_again(tmp_path):
    out = tmp_path / "a.jsonl"
    (tmp_path / "a.jsonl.partial").touch()
    with sink(out, resume=True) as first:
        first.add([{"id": "a"}, {"id": "b"}], APART)
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["a", "b"]


def test_a_run_that_stopped_as_it_named_the_whole_file_is_finished(tmp_path):
    out = tmp_path / "a.jsonl"
    with sink(out) as first:
        first.add([{"id": "a"}, {"id": "b"}], APART)
    os.link(out, tmp_path / "a.jsonl.partial")
    assert sink(out, resume=True).finished
    assert not (tmp_path / "a.jsonl.partial").exists()


def test_an_empty_file_is_resumed_by_its_own_command_alone(tmp_path):
    (tmp_path / "a.jsonl.partial").touch()
    sink(tmp_path / "a.jsonl", resume=True)._close()  # stopped in its first batch, which may be charged
    other = dataclasses.replace(RUN, public={**RUN.public, "epsilon": 0.7})
    with pytest.raises(InputError, match=r"has epsilon .* a\.jsonl\.partial holds no answers and may be removed"):
        sink(tmp_path / "a.jsonl", run=other, resume=True)


def test_a_note_whose_answers_are_gone_says_nothing_of_the_next_run(tmp_path):
    out = tmp_path / "a.jsonl"
    with sink(out) as first:
        first.add([{"id": "a"}, {"id": "b"}], APART)
    assert begun_with(out) == RUN.public
    out.rename(tmp_path / "moved.jsonl")
    assert begun_with(out) is None


def test_a_second_name_that_cannot_be_removed_is_told(tmp_path, monkeypatch, capfd):
    out, unlink = tmp_path / "a.csv", Path.unlink

    def held(path, **given):
        if path.suffix == ".partial":
            raise PermissionError(13, "Permission denied")
        unlink(path, **given)

    with monkeypatch.context() as kept:
        kept.setattr(Path, "unlink", held)
        with sink(out) as first:
            first.add([{"id": "a"}, {"id": "b"}], APART)
        assert f"{out}.partial holds the same answers and cannot be removed" in capfd.readouterr().err
        assert sink(out, resume=True).finished
    assert sink(out, resume=True).finished
    assert not (tmp_path / "a.csv.partial").exists()


def test_two_processes_do_not_write_one_run(tmp_path):
    out = tmp_path / "a.jsonl"
    with sink(out) as first:
        first.add([{"id": "a"}], APART)
        with pytest.raises(InputError, match="Another process"):
            sink(out, resume=True)
        first.add([{"id": "b"}], APART)
    assert len(out.read_text().splitlines()) == 2


def before_the_lock(monkeypatch, act):
    """Lets something happen once, between the opening of a partial file and its lock."""
    lock = partial_file.PartialFile._lock

    def late(self, descriptor):
        monkeypatch.setattr(partial_file.PartialFile, "_lock", lock)
        act()
        lock(self, descriptor)

    monkeypatch.setattr(partial_file.PartialFile, "_lock", late)


def test_a_run_whose_file_was_resumed_before_it_was_locked_leaves_it_there(tmp_path, monkeypatch):
    out, resumed = tmp_path / "a.jsonl", []
    before_the_lock(monkeypatch, lambda: resumed.append(sink(out, resume=True)))
    with pytest.raises(InputError, match="Another process"):
        sink(out)
    with resumed[0] as other:
        other.add([{"id": "a"}, {"id": "b"}], APART)
    assert len(out.read_text().splitlines()) == 2


def finish(out):
    with sink(out, resume=True) as other:
        other.add([{"id": "a"}, {"id": "b"}], APART)


def replace(out):
    fresh = out.with_name("fresh")
    fresh.write_text('{"id": "a"}\n')
    fresh.replace(out.with_name("a.jsonl.partial"))


@pytest.mark.parametrize("act", [finish, replace])
@pytest.mark.parametrize("resume", [False, True])
def test_a_file_that_lost_its_name_before_it_was_locked_is_not_written(tmp_path, monkeypatch, act, resume):
    out = tmp_path / "a.jsonl"
    if resume:
        out.with_name("a.jsonl.partial").touch()
    before_the_lock(monkeypatch, lambda: act(out))
    with pytest.raises(InputError, match="Run the command again"):
        sink(out, resume=resume)
    left = {path.name: path.read_text() for path in tmp_path.glob("a.jsonl*") if path.suffix != ".run"}
    rows = [text.splitlines() for text in left.values()]
    assert rows == [['{"id": "a"}', '{"id": "b"}']] if act is finish else [['{"id": "a"}']]


def test_a_run_that_ends_without_answers_removes_its_own_file_alone(tmp_path):
    out, partial = tmp_path / "a.jsonl", tmp_path / "a.jsonl.partial"

    def replaced():
        with sink(out):
            replace(out)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replaced()
    assert partial.read_text() == '{"id": "a"}\n'
    assert (tmp_path / "a.jsonl.run").exists()


def test_a_run_that_ends_without_answers_leaves_the_header_of_one_that_begins_then(tmp_path, monkeypatch):
    def begun():
        return AnswerSink(
            tmp_path / "a.jsonl", Run({}, {"records": "r"}), ["1"], lambda row: True, resume=False, hold=False
        )

    remove, others = partial_file.PartialFile.remove, []

    def removed(file):
        done = remove(file)
        monkeypatch.undo()
        others.append(begun())  # at exactly this moment: the name is free
        others[0].add([{"id": "1"}], APART)
        return done

    refused = begun()
    monkeypatch.setattr(partial_file.PartialFile, "remove", removed)
    refused.__exit__(InputError, InputError("refused"), None)
    others[0].__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    with AnswerSink(
        tmp_path / "a.jsonl", Run({}, {"records": "r"}), ["1"], lambda row: True, resume=True, hold=False
    ) as resumed:
        assert resumed.rows == [{"id": "1"}]


def test_answers_whose_file_lost_its_name_are_on_stdout(tmp_path, capsys):
    out = tmp_path / "a.jsonl"

    def replaced():
        with sink(out) as first:
            first.add([{"id": "a"}, {"id": "b"}], APART)
            replace(out)

    with pytest.raises(InputError, match="on stdout"):
        replaced()
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
    assert not out.exists()


def test_a_file_that_comes_up_meanwhile_is_not_overwritten_and_the_answers_are_kept(tmp_path):
    out = tmp_path / "a.jsonl"

    def write_both():
        with sink(out) as first:
            first.add([{"id": "a"}, {"id": "b"}], APART)
            out.write_text("somebody else's")

    with pytest.raises(InputError, match="came up"):
        write_both()
    assert out.read_text() == "somebody else's"
    assert len((tmp_path / "a.jsonl.partial").read_text().splitlines()) == 2
    with pytest.raises(InputError, match="Move one of them away"):
        sink(out, resume=True)
    out.unlink()
    with sink(out, resume=True) as again:
        assert len(again.rows) == 2
    assert len(out.read_text().splitlines()) == 2


def test_each_batch_is_on_the_disk_before_the_next(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(partial_file, "_sync", lambda stream: synced.append((tmp_path / "a.jsonl.partial").read_text()))
    with sink(tmp_path / "a.jsonl") as first:
        first.add([{"id": "a"}], APART)
        first.add([{"id": "b"}], APART)
    assert [len(text.splitlines()) for text in synced] == [1, 2]


def test_values_are_escaped_and_are_the_same_values(tmp_path):
    row = {"id": "a\x9b2J\u202e", "value": "café"}
    with sink(tmp_path / "a.jsonl", ids=[row["id"]]) as first:
        first.add([row], APART)
    text = (tmp_path / "a.jsonl").read_text("utf-8")
    assert json.loads(text) == row
    assert text.rstrip("\n").isprintable()
    assert "café" in text


def test_answers_held_for_json_are_printed_where_the_run_ends_early(desk):
    desk.stop_in_the_second_batch()
    code, out, err = desk.run("--json", out=None)
    assert code == 130
    assert [json.loads(line)["id"] for line in out.splitlines()] == [f"q{i}" for i in range(BATCH)]
    assert f"{BATCH} answers were paid" in err


def test_an_interruption_behind_the_disk_loses_no_paid_answer(desk, monkeypatch):
    append = partial_file.PartialFile.append

    def interrupted(file, text):
        append(file, text)
        raise KeyboardInterrupt

    monkeypatch.setattr(partial_file.PartialFile, "append", interrupted)
    code, _, err = desk.run()
    assert (code, "may have been charged" in err) == (130, False)
    assert len(desk.partial.read_text().splitlines()) == BATCH


def test_of_a_batch_that_is_partly_on_the_disk_the_rest_is_told(desk, monkeypatch):
    append = partial_file.PartialFile.append

    def interrupted(file, text):
        append(file, text[: len(text) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(partial_file.PartialFile, "append", interrupted)
    code, _, err = desk.run()
    kept = desk.partial.read_text().count("\n")
    assert (code, 0 < kept < BATCH) == (130, True)
    assert f"Up to {BATCH - kept} more answers may have been charged that are in no file" in err


def test_a_side_file_that_cannot_be_removed_takes_nothing_from_what_ended_a_run(tmp_path, monkeypatch):
    def refuses(path, **options):
        raise PermissionError(13, "Permission denied")

    begun = sink(tmp_path / "a.jsonl")
    monkeypatch.setattr(Path, "unlink", refuses)
    with pytest.raises(RuntimeError, match="the reason"), begun:
        raise RuntimeError("the reason")


# Room on the disk


def test_a_batch_that_has_no_room_is_not_paid_for(desk, monkeypatch):
    full, seen = [0], []
    take_up = partial_file.PartialFile.take_up

    def taken_up(file, size):
        seen.append(desk.charges())
        if len(seen) > full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        take_up(file, size)

    monkeypatch.setattr(partial_file.PartialFile, "take_up", taken_up)
    code, out, err = desk.run()
    assert (code, out, seen) == (2, "", [0])
    assert "bytes of answers (No space left on device). Nothing was charged; make room." in err
    assert "may have been charged" not in err
    assert not any(file.exists() for file in (desk.out, desk.partial, desk.header))
    full[0] = 2
    assert desk.run()[0] == 2
    assert (desk.charges(), len(desk.partial.read_text().splitlines())) == (BATCH, BATCH)
    for _ in range(2):
        code, _, err = desk.run("--resume")
        assert code == 2
        assert "Nothing more was charged; make room and pass --resume." in err
    assert desk.charges() == BATCH
    full[0] = 9
    assert desk.run("--resume")[0] == 0
    assert desk.charges() == BATCH + 4


def test_behind_a_charge_whose_rows_are_lost_it_is_not_said_that_nothing_was_charged(desk, monkeypatch):
    if (pid := os.fork()) == 0:
        monkeypatch.setattr(partial_file.PartialFile, "append", lambda *given: os._exit(9))
        desk.run()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert (desk.charges(), desk.partial.read_bytes()) == (BATCH, b"")

    def full(file, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(partial_file.PartialFile, "take_up", full)
    code, _, err = desk.run("--resume")
    assert (code, "Nothing more was charged; make room" in err) == (2, True), err
    assert desk.charges() == BATCH


def test_the_room_of_a_batch_holds_it_whatever_is_drawn(desk, monkeypatch):
    sizes = []
    for name in ("take_up", "append"):
        own = getattr(partial_file.PartialFile, name)

        def noted(file, of, name=name, own=own):
            sizes.append((name, of if name == "take_up" else len(of)))
            own(file, of)

        monkeypatch.setattr(partial_file.PartialFile, name, noted)
    assert desk.run()[0] == 0
    assert [name for name, _ in sizes] == ["take_up", "append"] * 2
    assert all(0 <= room - rows <= BATCH * 10 for (_, room), (_, rows) in zip(sizes[::2], sizes[1::2], strict=True))


@pytest.mark.parametrize("labels", [("a", "bbb", "cc"), ("zz", "é", "\u202e"), ('"', "aa"), ("\x9b", "abcde")])
def test_the_longest_row_is_no_shorter_than_any(labels):
    columns = [
        {"method": "poe", "epsilon": epsilon, "delta": None, "adjacency": "zero-out"} for epsilon in (0.1 + 0.2, None)
    ]
    terms = SimpleNamespace(columns=columns[0], possible_columns=columns)
    (longest,) = longest_rows(["q\u00e4"], terms, labels)
    for label, its in itertools.product(labels, columns):
        of = SimpleNamespace(columns=its)
        row = Release(label, of, secrets.token_hex(RELEASE_ID_BYTES), None).as_row("q\u00e4")
        assert list(row) == list(longest)
        assert len(json_text(row).encode()) <= len(json_text(longest).encode())
    assert longest["value"] in labels


def test_room_has_no_name_and_is_given_back_before_the_rows_are_written(tmp_path):
    file = partial_file.PartialFile(tmp_path / "a.partial", fresh=True)
    written = []

    class Stream:
        def __init__(self, stream):
            self.stream = stream

        def write(self, text):
            written.append(room.closed)
            return self.stream.write(text)

        def __getattr__(self, name):
            return getattr(self.stream, name)

    file._stream = Stream(file._stream)
    size = (1 << 20) + 5
    file.take_up(7)
    file.take_up(size)
    room = file._room
    assert os.fstat(room.fileno()).st_size == size
    assert os.listdir(tmp_path) == ["a.partial"]
    file.append(b"{}\n")
    assert (written, file.read(), file._room) == ([True], b"{}\n", None)
    file.take_up(9)
    room = file._room
    file.close()
    assert room.closed


def test_room_that_is_not_there_is_not_held(tmp_path, monkeypatch):
    def full(stream):
        raise OSError(errno.ENOSPC, "No space left on device")

    file = partial_file.PartialFile(tmp_path / "a.partial", fresh=True)
    monkeypatch.setattr(partial_file, "_sync", full)
    with pytest.raises(OSError, match="No space"):
        file.take_up(5)
    assert file._room is None
    file.close()


def test_rows_beyond_the_longest_file_that_a_process_may_make_have_no_room(tmp_path, monkeypatch):
    file = partial_file.PartialFile(tmp_path / "a.partial", fresh=True)
    monkeypatch.setattr(partial_file, "_longest_file", lambda: 20)
    file.take_up(12)
    file.append(b"a row of 12\n")
    with pytest.raises(OSError, match="too large"):
        file.take_up(12)
    file.close()


@pytest.mark.parametrize(("question", "kept"), [(0, 0), (BATCH, BATCH)])
@pytest.mark.parametrize("out", ["answers.jsonl", None])
def test_an_interruption_says_what_may_be_charged_and_is_in_no_file(desk, question, kept, out):
    desk.stop_at(question)
    code, _, err = desk.run(out=out)
    assert code == 130
    assert desk.charges() == min(kept + BATCH, BATCH + 4)
    where = "are in no file" if out else "were not printed"
    lost = f"Up to {desk.charges() - kept} more answers may have been charged that {where}; asked again, they are"
    assert lost in err


def test_where_nothing_was_begun_nothing_is_said_to_be_charged(desk, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sottovoce.cli.classify._announce", stop)
    code, _, err = desk.run()
    assert code == 130
    assert "may have been charged" not in err


# What is said of the model


def says(monkeypatch, isolation):
    monkeypatch.setitem(FakeScorer.__init__.__kwdefaults__, "isolation", isolation)


def told(desk, *flags):
    code, out, err = desk.run(*flags, "--json")
    assert code == 0, err
    summary = json.loads(out)
    return summary["isolation"], summary["spent"]["epsilon_each"], summary["statement"]


@pytest.mark.cases(4)
def test_a_run_says_of_its_models_what_holds_for_every_answer(desk, monkeypatch):
    ends = Isolation.BY_CONSTRUCTION, Isolation.NOT_VERIFIED
    pairs = [*itertools.permutations(ends), *itertools.permutations((Isolation.ASSERTED, ends[0]))]
    for number, (at, then) in enumerate(pairs):
        desk.given |= {"--out": f"{number}.jsonl", "--ledger": f"{number}.db"}
        desk.write(
            "private.jsonl", [{"text": f"note {number} {i}", "label": LABELS.split(",")[i % 2]} for i in range(6)]
        )
        desk.stop_in_the_second_batch()
        says(monkeypatch, at)
        assert desk.run()[0] == 130
        desk.go_on()
        says(monkeypatch, then)
        both = weakest([at, then])
        given = told(desk, "--resume")
        assert given[:2] == (both.value, 0.05 if both.holds else None)
        assert (both.words if both.holds else "no formal guarantee") in given[2]
        for later in ends:  # what the model says by then is of no answer
            says(monkeypatch, later)
            assert told(desk, "--resume") == given
        epsilons = [json.loads(line)["epsilon"] for line in (desk.folder / f"{number}.jsonl").read_text().splitlines()]
        assert epsilons == [0.05 if at.holds else None] * BATCH + [0.05 if then.holds else None] * 4


@pytest.mark.cases(2)
@pytest.mark.parametrize("isolation", [Isolation.TESTED, Isolation.NOT_VERIFIED])
def test_a_run_of_an_earlier_build_is_resumed_whatever_it_noted_of_its_model(isolation, desk, monkeypatch):
    desk.stop_in_the_second_batch()
    says(monkeypatch, isolation)
    assert desk.run()[0] == 130
    noted = json.loads(desk.header.read_text())
    del noted["isolation"]
    price = {"epsilon": 0.05, "delta": 0.0} if isolation.holds else {"epsilon": None, "delta": None}
    desk.header.write_text(json.dumps({**noted, "public": {**noted["public"], **price, "isolation": isolation.value}}))
    desk.go_on()
    says(monkeypatch, Isolation.BY_CONSTRUCTION)
    assert told(desk, "--resume")[0] == told(desk, "--resume")[0] == isolation.value
    assert desk.charges() == BATCH + 2 * 4, "the second batch was charged before it stopped"


@pytest.mark.cases(4)
@pytest.mark.parametrize("there", ["a folder", "a file", "another run", "a link"])
def test_a_note_that_cannot_be_written_is_found_before_the_charge(there, desk, monkeypatch):
    whole = PrivateICL.batches

    def batches(session, *given, **named):
        for number, batch in enumerate(whole(session, *given, **named)):
            session.model.isolation = Isolation.ASSERTED
            if number == 0:
                desk.header.rename(desk.folder / "kept.run")
                put(there, desk)
            yield batch

    monkeypatch.setattr(PrivateICL, "batches", batches)
    code, out, err = desk.run()
    assert (code, desk.charges(), out) == (2, BATCH, "")
    assert "is another file now, or cannot be written. Nothing more was charged" in err
    assert len(desk.partial.read_text().splitlines()) == BATCH
    assert is_put(there, desk)
    monkeypatch.setattr(PrivateICL, "batches", whole)
    desk.header.rmdir() if there == "a folder" else desk.header.unlink()
    (desk.folder / "kept.run").rename(desk.header)
    assert desk.run("--resume")[0] == 0
    assert desk.charges() == BATCH + 4


def put(there, desk):
    if there == "a folder":
        desk.header.mkdir()
    elif there == "a link":
        desk.header.symlink_to(desk.folder / "kept.run")
    else:
        noted = json.loads((desk.folder / "kept.run").read_text())
        other = json.dumps({**noted, "public": {**noted["public"], "questions": 3}})
        desk.header.write_text("my own notes" if there == "a file" else other)


def is_put(there, desk):
    if there in ("a folder", "a link"):
        return desk.header.is_dir() if there == "a folder" else desk.header.is_symlink()
    return "my own notes" in desk.header.read_text() or json.loads(desk.header.read_text())["public"]["questions"] == 3


@pytest.mark.cases(2)
def test_what_was_seen_behind_the_last_read_is_noted_where_it_can_be_and_the_answers_are_there(desk, monkeypatch):
    whole = AnswerSink.add

    def settling(one, rows, isolation):
        whole(one, rows, Isolation.TESTED if len(rows) < BATCH else isolation)

    monkeypatch.setattr(AnswerSink, "add", settling)
    assert told(desk)[0] == told(desk, "--resume")[0] == Isolation.TESTED.value
    desk.given["--out"] = "other.jsonl"
    monkeypatch.setattr("sottovoce.cli.answers.AnswerSink._note", refusing(AnswerSink._note))
    code, _, err = desk.run()
    assert (code, len((desk.folder / "other.jsonl").read_text().splitlines())) == (0, BATCH + 4)
    assert "does not note what was seen of the model: tested, not proven" in err


def refusing(note):
    def noting(one, isolation):
        if isolation is Isolation.TESTED and len(one.rows) == BATCH + 4:
            raise InputError("no room")
        note(one, isolation)

    return noting


def test_a_run_that_ends_without_answers_removes_no_file_but_its_own_note(tmp_path):
    header = tmp_path / "a.jsonl.run"

    def ends():
        with sink(tmp_path / "a.jsonl"):
            header.write_text("my own notes")
            raise InputError("the budget is spent")

    with pytest.raises(InputError, match="spent"):
        ends()
    assert header.read_text() == "my own notes"


def test_the_note_of_another_run_that_took_the_name_is_not_written_over(tmp_path):
    out, header, noted = tmp_path / "a.jsonl", tmp_path / "a.jsonl.run", []

    def pays():
        with sink(out) as first:
            (tmp_path / "a.jsonl.partial").rename(tmp_path / "moved.partial")
            with sink(out, run=Run({"method": "rnm"}, {"records": "b"})):
                noted.append(header.read_bytes())
                try:
                    first.make_room([{"id": "a"}, {"id": "b"}], APART)
                finally:
                    noted.append(header.read_bytes())

    with pytest.raises(InputError, match="is another file now"):
        pays()
    assert noted[0] == noted[1]
