"""kill -9 in a run of ``sotto answer``: what left is charged, a charge is drawn once, and it goes on where it was.

How often something was drawn is counted outside the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from answering.worlds_of_answers import is_rehearsal, rows
from sottovoce.answering.run import _Place
from sottovoce.answering.session import PrivateAnswers
from sottovoce.cli import run
from sottovoce.cli.answers import FinishedRun, Run
from sottovoce.experts.written import WrittenEnsemble
from sottovoce.files import run_folder
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.files.run_folder import RunFolder
from sottovoce.methods.answering.ksa import KSA
from sottovoce.models.base import Isolation, weakest
from sottovoce.models.fake import FakeWriter, nearest_output
from sottovoce.privacy.ledger import account as ledger_account
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.privacy.ledger.run_charges import Charge
from survival.crashes import Fuse, OnTransaction, die, in_a_child, stops_in_the_removal

QUESTIONS = 3


class HalfWritten:
    """Kills when a file of the folder is written and has not its name yet."""

    def __init__(self, name):
        self.name = name

    def arm(self):
        original = run_folder.os.replace

        def replace(part, file, **given):
            if Path(file).name == self.name:
                die()
            original(part, file, **given)

        run_folder.os.replace = replace


# The ledger is new: opening the account is its first writing transaction; then charge, draw and note for each answer.
POINTS = {
    "before anything": lambda: Fuse(PrivateAnswers, "__init__", after=False),
    "looked at the budget": lambda: Fuse(Account, "check_again", after=True),
    "the folder is made": lambda: Fuse(Checkpoint, "__init__", after=True),
    "the folder has no name yet": lambda: Fuse(run_folder.os, "rename", after=False),
    "the public side is worked out": lambda: Fuse(PrivateAnswers, "public_side", after=True, count=2),
    "charge half written": lambda: Fuse(ledger_account, "append", after=True),
    "charge not committed": lambda: OnTransaction("not committed", 2),
    "charged": lambda: Fuse(Account, "reserve", after=True),
    "read": lambda: Fuse(WrittenEnsemble, "ask", after=True),
    "room is made": lambda: Fuse(Checkpoint, "make_room", after=True),
    "begun, not committed": lambda: OnTransaction("not committed", 3),
    "begun, nothing drawn": lambda: Fuse(Account, "begin", after=True),
    "drawn, not saved": lambda: Fuse(_Place, "save", after=False),
    "half saved": lambda: HalfWritten("round-1"),
    "saved, not noted": lambda: Fuse(_Place, "save", after=True),
    "its note is not committed": lambda: OnTransaction("not committed", 4),
    "its note is committed": lambda: OnTransaction("committed", 4),
    "noted, not finished": lambda: Fuse(PrivateAnswers, "finish", after=False),
    "finished, not kept": lambda: Fuse(PrivateAnswers, "finish", after=True),
    "the answer is kept": lambda: Fuse(_Place, "keep_answer", after=True),
    "the second is charged": lambda: Fuse(Account, "reserve", after=True, count=2),
    "the second is drawn, not saved": lambda: Fuse(_Place, "save", after=False, count=2),
    "the third is saved, not noted": lambda: Fuse(_Place, "save", after=True, count=3),
    "before the rows are whole": lambda: Fuse(Checkpoint, "_write", after=False),
    "the rows are whole, the folder is there": lambda: Fuse(RunFolder, "end", after=False),
}
LOSING = {"begun, nothing drawn", "drawn, not saved", "half saved", "the second is drawn, not saved"}
"""Points at which a draw began and left nothing whole."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    draw, reserve = KSA.draw, Account.reserve

    def note(word):
        with (tmp_path / "happened").open("a") as file:
            file.write(word + "\n")

    def drawn(*arguments):
        if not is_rehearsal(arguments):
            note("draw")
        return draw(*arguments)

    def charged(*arguments, **options):
        reserve(*arguments, **options)
        note("charge")

    monkeypatch.setattr(KSA, "draw", drawn)
    monkeypatch.setattr(Account, "reserve", charged)
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for kind, count in (("private", 16), ("public", 6)):
        write(tmp_path / f"{kind}.jsonl", [dict(row.values) for row in rows(count, kind)])
    asked = [{"id": f"q{number}", "question": f"what of the card {number}?"} for number in range(QUESTIONS)]
    write(tmp_path / "queries.jsonl", asked)
    return tmp_path


def write(path, values):
    path.write_text("".join(json.dumps(row) + "\n" for row in values), "utf-8")


def command(*more, shots="1"):
    return [
        "answer", "--private", "private.jsonl", "--public", "public.jsonl", "--queries", "queries.jsonl", "--task",
        "question", "--method", "ksa", "-o", "k=2", "--model", "fake", "--shots", shots, "--epsilon", "1", "--ledger",
        "notes.db", "--budget", "40,1e-5", "--out", "answers.jsonl", *more,
    ]  # fmt: skip


def killed(point, *more, **options):
    def work():
        POINTS[point]().arm()
        assert run(command(*more, **options)) == 0

    return in_a_child(work)


def names(kind):
    """Charges by their names within the run."""
    entries = Ledger("notes.db").history() if Path("notes.db").exists() else []
    found = [entry["release_id"].partition("-")[2] for entry in entries if entry["kind"] == kind]
    assert len(set(found)) == len(found)
    return set(found)


def happened(place, word):
    return (place / "happened").read_text().split().count(word) if (place / "happened").exists() else 0


def saved(place):
    folder = place / "answers.jsonl.partial"
    return {file.name.removeprefix("round-"): file.read_bytes() for file in folder.glob("round-[1-9]")}


def answers(place):
    return [json.loads(line) for line in (place / "answers.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.cases(2)
@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_goes_on_and_no_charge_is_drawn_twice(point, place):
    assert killed(point) == -signal.SIGKILL, "the point was never reached"
    begun, left, aside = names("draw"), names("release"), saved(place)
    assert happened(place, "draw") <= len(begun), "something was drawn before it was noted"
    lost = begun - left - set(aside)
    assert bool(lost) == (point in LOSING)
    folder = place / "answers.jsonl.partial"
    assert run(command(*(["--resume"] if folder.exists() else []))) == 0
    assert names("reserve") == names("draw")
    assert happened(place, "draw") <= len(names("draw")), "something was drawn again under its charge"
    assert len(names("reserve")) == QUESTIONS + len(lost), "what did not begin was charged again"
    assert len(names("release")) == QUESTIONS
    assert not names("release") & lost, "what was lost left"
    assert Ledger("notes.db").verify() == []
    given = answers(place)
    assert [row["id"] for row in given] == [f"q{number}" for number in range(QUESTIONS)]
    assert {row["release_id"].partition("-")[2] for row in given} == names("release")
    assert not folder.exists()


@pytest.mark.cases(1)
@pytest.mark.parametrize("point", ["saved, not noted", "finished, not kept"])
def test_what_was_whole_on_the_disk_is_what_leaves(point, place, monkeypatch):
    assert killed(point) == -signal.SIGKILL
    before = saved(place)["1"]
    finished = []
    finish = PrivateAnswers.finish

    def noted(session, drawn):
        finished.append(drawn.outcome)
        return finish(session, drawn)

    monkeypatch.setattr(PrivateAnswers, "finish", noted)
    assert run(command("--resume")) == 0
    values = json.loads(before[64:])
    assert finished[0].to_json() == values["outcome"]
    assert happened(place, "draw") == QUESTIONS


@pytest.mark.cases(1)
@pytest.mark.parametrize("changed", [False, True])
def test_an_answer_that_was_kept_is_not_made_again_unless_it_was_changed(place, monkeypatch, changed):
    assert killed("the answer is kept") == -signal.SIGKILL
    file, made, finish = place / "answers.jsonl.partial" / "round-1-answer", [], PrivateAnswers.finish
    kept = file.read_bytes()
    if changed:
        file.write_bytes(kept + b"\xff")
    monkeypatch.setattr(PrivateAnswers, "finish", lambda *given: made.append(1) or finish(*given))
    assert run(command("--resume")) == 0
    assert answers(place)[0]["value"] == kept[64:].decode()
    assert len(made) == QUESTIONS - (not changed)
    assert names("reserve") == {"1", "2", "3"}


def test_the_public_side_that_a_draw_refers_to_is_the_one_of_the_draw(place, monkeypatch):
    # A writer that says other things after the restart: what was drawn is shown by the texts of then.
    assert killed("saved, not noted") == -signal.SIGKILL
    texts = json.loads(saved(place)["1"][64:])["public"]["candidates"]
    seen = []
    restored = PrivateAnswers.restored

    def noted(session, query, values):
        seen.append(restored(session, query, values))
        return seen[-1]

    monkeypatch.setattr(PrivateAnswers, "restored", noted)
    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (lambda request: "something else entirely now",))
    run(command("--resume"))
    assert list(seen[0].public.candidates) == texts
    assert "something else entirely now" not in texts


def test_where_coins_deal_records_out_a_charge_that_began_is_not_read_again(place):
    assert killed("read", shots="2") == -signal.SIGKILL
    assert names("draw") == {"1"}, "it began before the read"
    assert run(command("--resume", shots="2")) == 0
    assert names("reserve") == {"1", "1.2", "2", "3"}


def test_every_draw_that_is_cut_off_costs_a_charge_until_the_budget_refuses(place, capfd):
    small = [word if word != "40,1e-5" else "2.6" for word in command()]

    def work(*more):
        POINTS["drawn, not saved"]().arm()
        return run([*small, *more])

    # Three answers ask for 3 of 2.6: the whole run is refused first, so that fewer questions are asked.
    small += ["--limit", "1"]
    assert in_a_child(work) == -signal.SIGKILL
    assert in_a_child(lambda: work("--resume")) == -signal.SIGKILL
    assert names("reserve") == {"1", "1.2"}
    capfd.readouterr()
    assert run([*small, "--resume"]) == 3
    told = capfd.readouterr().err
    assert "left of 2.6" in told
    assert "1 of its answers began to be drawn" in told
    assert run([*small, "--resume", "--without-lost"]) == 0
    assert answers(place) == []
    assert names("release") == set()


@pytest.mark.slow
def test_what_was_left_out_of_answers_that_are_kept_is_not_charged_later(place, monkeypatch):
    assert killed("drawn, not saved") == -signal.SIGKILL
    with monkeypatch.context() as stopped:
        stopped.setattr(Checkpoint, "_place", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        assert run(command("--resume", "--without-lost")) == 130
    before = names("reserve")
    (place / "answers.jsonl.partial" / "whole-out").unlink()  # the answers are made again, of the draws
    assert run(command("--resume")) == 0
    assert names("reserve") == before
    assert len(answers(place)) == QUESTIONS - 1


def test_all_is_priced_before_one_is_charged(place, capfd):
    words = [word if word != "40,1e-5" else "2.6" for word in command()]
    assert run(words) == 3
    assert names("reserve") == set()
    assert not (place / "answers.jsonl.partial").exists()


def test_a_file_that_this_run_did_not_seal_is_no_draw(place):
    assert killed("saved, not noted") == -signal.SIGKILL
    file = place / "answers.jsonl.partial" / "round-1"
    values = json.loads(file.read_bytes()[64:])
    values["outcome"]["values"]["keywords"] = ["planted"]
    file.write_bytes(file.read_bytes()[:64] + json.dumps(values).encode())
    assert run(command("--resume")) == 0
    assert names("reserve") == {"1", "1.2", "2", "3"}


def test_a_run_is_resumed_by_its_own_command_alone(place, capfd):
    assert killed("the second is charged") == -signal.SIGKILL
    write(place / "other.jsonl", [{"question": f"what else {number}?"} for number in range(QUESTIONS)])
    write(place / "shown.jsonl", [dict(row.values) for row in rows(5, "public")])
    for change, words in [
        (["--epsilon", "0.9"], "epsilon 1.0, not 0.9"),
        (["--tokens", "9"], "tokens 64, not 9"),
        (["-o", "selection=one-shot"], "method's selection"),
        (["--queries", "other.jsonl"], "other question texts"),
        (["--public", "shown.jsonl"], "other public texts"),
        (["--answer-column", "question"], "columns {}, not {'answer': 'question'}"),
        (["--limit", "2"], "questions 3, not 2"),
    ]:
        capfd.readouterr()
        assert run([*command("--resume"), *change]) == 2
        assert words in capfd.readouterr().err, change
    assert names("reserve") == {"1", "2"}
    assert run(command("--resume")) == 0


@pytest.mark.slow
def test_methods_that_are_not_charged_go_on_too(place):
    both = ["answer", "--queries", "queries.jsonl", "--task", "question", "--model", "fake", "--out", "answers.jsonl"]
    free = [*both, "--method", "zero-shot"]

    def work(words):
        Fuse(_Place, "keep_answer", after=True, count=2).arm()
        assert run(words) == 0

    shown = [
        *both,
        "--method",
        "full-context",
        "--allow-non-private",
        "--private",
        "private.jsonl",
        "--ledger",
        "notes.db",
    ]
    for words in (free, shown):
        assert in_a_child(lambda words=words: work(words)) == -signal.SIGKILL
        kept = [json.loads(file[64:])["release_id"] for _, file in sorted(saved(place).items())]
        assert run([*words, "--resume"]) == 0
        assert [row["release_id"] for row in answers(place)][:2] == kept
        (place / "answers.jsonl").unlink()


@pytest.mark.slow
def test_a_question_that_cannot_be_answered_is_named_and_earlier_answers_are_kept(place, monkeypatch, capfd):
    def write(request):
        if "card 1?" in request.question:
            return None
        return nearest_output(request)

    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (write,))
    assert run(command()) == 4
    assert "Question 2: The model fake wrote nothing" in capfd.readouterr().err
    assert names("release") == {"1"}
    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (nearest_output,))
    assert run(command("--resume")) == 0
    assert names("reserve") == {"1", "2", "3"}


# The end of a run


@pytest.mark.slow
def test_a_finished_run_that_is_stopped_as_its_folder_is_removed_is_not_paid_again(place, monkeypatch, capfd):
    with monkeypatch.context() as stopped:
        stops_in_the_removal(stopped)
        assert run(command()) == 130
    told = capfd.readouterr().err
    assert "answers.jsonl is whole, and the run is over: nothing is left to resume" in told
    assert "--resume" not in told
    before = {file.name: file.read_bytes() for file in place.glob("answers.jsonl*") if file.is_file()}
    assert sorted(before) == ["answers.jsonl", "answers.jsonl.run"]
    for _ in range(2):
        assert run(command("--resume")) == 0
        told = capfd.readouterr().err
        assert "Nothing to do" in told
        assert "answers.jsonl.ended is left of a run that is over. It is as private as the records: remove it." in told
    assert names("reserve") == {"1", "2", "3"}
    assert {file.name: file.read_bytes() for file in place.glob("answers.jsonl*") if file.is_file()} == before


def stopped_as_it_answers(monkeypatch, act=lambda: None, count=1):
    """Stops before an answer is made of what was drawn."""
    finish, seen = PrivateAnswers.finish, []

    def stops(*given):
        seen.append(1)
        if len(seen) == count:
            act()
            raise KeyboardInterrupt
        return finish(*given)

    monkeypatch.setattr(PrivateAnswers, "finish", stops)


def test_a_run_that_another_one_finished_before_is_refused_and_leaves_what_says_of_which_run_it_is(
    place, monkeypatch, capfd
):
    other = command("--epsilon", "2")
    with monkeypatch.context() as stopped:
        stopped_as_it_answers(stopped)
        assert run(command()) == 130
    folder, note = place / "answers.jsonl.partial", place / "answers.jsonl.run"
    folder.rename(place / "aside")
    assert run(other) == 0
    before, charges = note.read_bytes(), len(Ledger("notes.db").history())
    (place / "aside").rename(folder)
    capfd.readouterr()
    assert run(command("--resume")) == 2
    told = capfd.readouterr().err
    assert "has epsilon 2.0, not 1.0" in told
    assert "to go on with the run in it, move answers.jsonl away, with answers.jsonl.run" in told
    assert run([*other, "--resume"]) == 0
    assert "If it holds another paid run, move answers.jsonl away and pass --resume" in capfd.readouterr().err
    (place / "answers.jsonl").rename(place / "other.jsonl")  # half of what was said
    assert run(command("--resume")) == 2
    assert "answers.jsonl.run belongs to the answers of another run" in capfd.readouterr().err
    assert (note.read_bytes(), len(Ledger("notes.db").history())) == (before, charges)
    note.rename(place / "other.jsonl.run")
    assert run(command("--resume")) == 0
    kinds = [entry["kind"] for entry in Ledger("notes.db").history()]
    assert kinds.count("reserve") == 2 * QUESTIONS, "what was drawn before left under its charge"
    assert run([*other, "--resume", "--out", "other.jsonl"]) == 0


@pytest.mark.slow
def test_what_says_of_which_run_answers_are_is_not_written_for_a_run_whose_folder_was_moved(place, monkeypatch, capfd):
    folder = place / "answers.jsonl.partial"

    def moved():
        folder.rename(place / "aside")
        folder.mkdir()

    finish = PrivateAnswers.finish

    def late(*given):
        if len(names("release")) == QUESTIONS:
            moved()
        return finish(*given)

    with monkeypatch.context() as swapped:
        swapped.setattr(PrivateAnswers, "finish", late)
        assert run(command()) == 2
    told = capfd.readouterr().err
    assert "was moved or removed while it was under way" in told
    assert "no output was written" in told
    assert [file.name for file in place.glob("answers*")] == ["answers.jsonl.partial"]
    folder.rmdir()
    (place / "aside").rename(folder)
    assert run(command("--resume")) == 0
    assert names("reserve") == {"1", "2", "3"}
    assert happened(place, "draw") == QUESTIONS, "nothing that was drawn was lost"


@pytest.mark.slow
def test_a_file_that_takes_the_place_of_the_note_meanwhile_is_left_alone(place, monkeypatch, capfd):
    note = place / "answers.jsonl.run"
    with monkeypatch.context() as late:
        original = Checkpoint._write
        late.setattr(Checkpoint, "_write", lambda *a, **o: (note.write_text("mine"), original(*a, **o)))
        assert run(command()) == 2
    assert "What was drawn is paid and kept: move that file away" in capfd.readouterr().err
    assert note.read_text() == "mine"
    assert not (place / "answers.jsonl").exists()
    note.unlink()
    assert run(command("--resume")) == 0
    assert names("reserve") == {"1", "2", "3"}


def stopped_by_hand(*given):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_what_is_mistyped_beside_a_note_is_told_from_the_note_of_another_run(place, monkeypatch, capfd):
    with monkeypatch.context() as stopped:
        stopped.setattr(RunFolder, "place", stopped_by_hand)
        assert run(command()) == 130
    assert (place / "answers.jsonl.run").exists()
    capfd.readouterr()
    assert run(command("--resume", "--epsilon", "2")) == 2
    assert "has epsilon 1.0, not 2.0. Repeat its command" in capfd.readouterr().err
    asked = (place / "queries.jsonl").read_text()
    (place / "queries.jsonl").write_text(asked.replace('"q1"', '"other"'))
    assert run(command("--resume")) == 2
    assert "has other question ids. Repeat its command" in capfd.readouterr().err
    (place / "queries.jsonl").write_text(asked)
    assert run(command("--resume")) == 0
    assert names("reserve") == {"1", "2", "3"}


def kept_whole(place, monkeypatch, owner=RunFolder, name="place"):
    """A run that noted its answers and was stopped before they were in their place."""
    with monkeypatch.context() as stopped:
        stopped.setattr(owner, name, stopped_by_hand)
        assert run(command()) == 130
    return place / "answers.jsonl.partial"


@pytest.mark.slow
def test_answers_that_are_kept_whole_are_placed_whatever_became_of_a_draw_and_of_the_note_beside(place, monkeypatch):
    folder = kept_whole(place, monkeypatch, FinishedRun, "note")
    assert not (place / "answers.jsonl.run").exists()
    kept = (folder / "whole-out").read_bytes()
    draw = folder / "round-2"
    draw.write_bytes(draw.read_bytes()[:-1])
    assert run(command("--resume")) == 0
    assert (place / "answers.jsonl").read_bytes() == kept
    assert len(kept.splitlines()) == QUESTIONS
    assert run(command("--resume")) == 0
    assert names("reserve") == {"1", "2", "3"}


def test_an_answer_that_the_noted_output_holds_is_left_out_when_that_is_said_alone(place, monkeypatch, capfd):
    folder = kept_whole(place, monkeypatch)
    for name in ("whole-out", "round-2"):
        (folder / name).write_bytes(b"changed")
    capfd.readouterr()
    assert run(command("--resume")) == 2
    told = capfd.readouterr().err
    assert "Answer 2 is in the output that this run noted, and is missing from answers.jsonl.partial" in told
    assert "--resume to go on" not in told, "repeated as it is it ends in the same way"
    assert not (place / "answers.jsonl").exists()
    assert run(command("--resume", "--without-lost")) == 0
    assert "2, 1 lost" in capfd.readouterr().err
    assert len((place / "answers.jsonl").read_text().splitlines()) == QUESTIONS - 1
    assert names("reserve") == {"1", "2", "3"}


@pytest.mark.slow
def test_what_a_folder_holds_whole_leaves_also_where_a_copy_of_it_was_charged_for_more(place, monkeypatch, capfd):
    assert killed("the second is drawn, not saved") == -signal.SIGKILL
    shutil.copytree(place / "answers.jsonl.partial", place / "copy.jsonl.partial")
    with monkeypatch.context() as stopped:
        stopped_as_it_answers(stopped)
        assert run(command("--resume")) == 130
    assert (names("reserve"), names("release")) == ({"1", "2", "2.2"}, {"1", "2.2"})
    assert run(command("--resume", "--out", "copy.jsonl")) == 0
    assert names("reserve") == {"1", "2", "2.2", "2.3", "3"}
    before = happened(place, "draw")
    capfd.readouterr()
    assert run(command("--resume")) == 0
    assert "1 of these answers began to be drawn before" in capfd.readouterr().err, "the third, which the copy drew"
    assert names("reserve") == {"1", "2", "2.2", "2.3", "3", "3.2"}
    assert happened(place, "draw") == before + 1
    assert [len((place / name).read_text().splitlines()) for name in ("answers.jsonl", "copy.jsonl")] == [3, 3]


@pytest.mark.cases(1)
@pytest.mark.parametrize("how", ["gone", "changed", "not as it was noted"])
def test_answers_that_left_and_are_not_whole_in_the_folder_are_not_charged_again_without_a_word(
    place, monkeypatch, capfd, how
):
    with monkeypatch.context() as stopped:
        stopped_as_it_answers(stopped, count=2)
        assert run(command()) == 130
    file = place / "answers.jsonl.partial" / "round-1"
    if how == "gone":
        file.unlink()
    elif how == "changed":
        file.write_bytes(file.read_bytes()[:-5])
    else:  # sealed, and not what the ledger noted
        seal, first = _Place._seal, file.read_bytes()[:64]
        monkeypatch.setattr(_Place, "_seal", lambda one, name, what: first if name == "1" else seal(one, name, what))
        file.write_bytes(file.read_bytes() + b" ")
    capfd.readouterr()
    assert run(command("--resume")) == 0
    assert "1 of these answers began to be drawn before, and answers.jsonl.partial does not" in capfd.readouterr().err
    assert names("reserve") == {"1", "1.2", "2", "3"}


def test_a_draw_that_was_changed_is_priced_before_anything_is_charged(place, monkeypatch, capfd):
    words = [word if word != "40,1e-5" else "3.5" for word in command()]
    with monkeypatch.context() as stopped:
        stopped_as_it_answers(stopped, count=2)
        assert run(words) == 130
    file = place / "answers.jsonl.partial" / "round-1"
    content = file.read_bytes()
    file.write_bytes(content[:-5])
    capfd.readouterr()
    assert run([*words, "--resume"]) == 3
    assert "1 of its answers began to be drawn and left nothing whole" in capfd.readouterr().err
    assert names("reserve") == {"1", "2"}, "what fits is not charged where not all of it does"
    file.write_bytes(content)
    assert run([*words, "--resume"]) == 0
    assert names("reserve") == {"1", "2", "3"}


def test_answers_that_were_drawn_whole_are_placed_as_they_are(place, monkeypatch, capfd):
    def full(folder, name, file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as stopped:
        stopped.setattr(RunFolder, "place", full)
        assert run(command()) == 2
    assert "All of it was drawn, and nothing is charged again" in capfd.readouterr().err
    asked = (place / "queries.jsonl").read_text("utf-8")
    (place / "queries.jsonl").write_text(asked.replace("q1", "other"), "utf-8")
    assert run(command("--resume")) == 2, "under other ids it is another file"
    (place / "queries.jsonl").write_text(asked, "utf-8")
    (place / "answers.jsonl.partial" / "round-1").unlink()
    assert run(command("--resume")) == 0
    assert names("reserve") == {"1", "2", "3"}
    assert len(answers(place)) == QUESTIONS
    assert run(command("--resume")) == 0
    assert "Nothing to do" in capfd.readouterr().err


def test_a_name_that_is_too_long_for_what_goes_beside_it_is_refused_before_the_charge(place, monkeypatch, capfd):
    monkeypatch.setattr(os, "getpid", lambda: 4_194_303)
    words = [word if word != "answers.jsonl" else f"{'a' * 232}.jsonl" for word in command()]
    assert run(words) == 2
    assert "cannot be written (File name too long). Nothing was charged" in capfd.readouterr().err
    assert names("reserve") == set()


def test_a_resume_of_records_without_a_ledger_settles_no_budget(place, capfd):
    assert run(command("--resume")) == 2
    assert "There is nothing to resume: these records have no ledger there yet" in capfd.readouterr().err
    assert not (place / "notes.db").exists()
    other = [word if word != "40,1e-5" else "50,1e-5" for word in command("--limit", "1")]
    assert run(other) == 0, "the first run settles its own budget"


@pytest.mark.slow
@pytest.mark.parametrize("word", ["SIGINT", "SIGKILL"])
def test_a_signal_as_the_folder_is_removed_costs_nothing(place, word):
    many = [{"id": f"q{number}", "question": f"what of the card {number}?"} for number in range(40)]
    write(place / "queries.jsonl", many)
    words = [sys.executable, "-m", "sottovoce", *command("--epsilon", "0.05")]
    folder, out = place / "answers.jsonl.partial", place / "answers.jsonl"
    work = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    while work.poll() is None and not (out.exists() and not folder.exists()):
        pass
    work.send_signal(getattr(signal, word))
    told = work.communicate()[1]
    assert "--resume to go on" not in told
    again = subprocess.run([*words, "--resume"], check=False, stderr=subprocess.PIPE, text=True)
    assert (again.returncode, "Nothing to do" in again.stderr) == (0, True), again.stderr
    assert names("reserve") == {str(number) for number in range(1, 41)}
    assert len(answers(place)) == 40


# Planted mistakes


survives = test_a_run_that_is_killed_goes_on_and_no_charge_is_drawn_twice


def test_a_second_draw_under_the_same_charge_is_caught(place, monkeypatch):
    monkeypatch.setattr(Account, "begin", lambda account, ids: None)
    with pytest.raises(AssertionError):
        survives("drawn, not saved", place)


def test_a_second_draw_of_what_was_whole_on_the_disk_is_caught(place, monkeypatch):
    monkeypatch.setattr(_Place, "whole", lambda self, standing: None)
    with pytest.raises(AssertionError):
        survives("saved, not noted", place)


def test_a_new_id_on_every_resume_is_caught(place, monkeypatch):
    original = Charge.id.fget
    assert killed("charged") == -signal.SIGKILL
    monkeypatch.setattr(Charge, "id", property(lambda one: f"{original(one)}-again"))
    assert run(command("--resume")) == 0
    assert len(names("reserve")) == QUESTIONS + 1, "the mistake charges twice, and the count above shows it"


def test_isolation_that_is_lost_on_the_way_loses_no_paid_answer_and_stands_in_every_summary(place, monkeypatch, capsys):
    whole, broken = FakeWriter.write, [True]

    def mixing(writer, requests, *, tokens):
        if any("private" in shot for request in requests for shot, _ in request.shots):
            writer.isolation = Isolation.NOT_VERIFIED
            if broken and any("card 1" in request.question for request in requests):
                raise MemoryError
        return whole(writer, requests, tokens=tokens)

    monkeypatch.setattr(FakeWriter, "write", mixing)
    assert run(command()) == 4
    assert names("reserve") == {"1", "2"}
    broken.clear()
    assert run(command("--resume")) == 0
    assert names("reserve") == names("release") == {"1", "2", "3"}
    assert [row["epsilon"] for row in answers(place)] == [None] * QUESTIONS
    assert "no formal guarantee" in capsys.readouterr().err
    assert run(command("--resume", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["spent"]["epsilon_each"], "not verified" in told["isolation"]) == (None, True)
    ledger = Ledger("notes.db")
    assert ([one.unverified for one in ledger.balances()], ledger.verify()) == ([QUESTIONS], [])


@pytest.mark.parametrize("again", [Isolation.BY_CONSTRUCTION, Isolation.NOT_VERIFIED])
def test_a_run_says_of_its_writer_what_holds_for_every_answer(again, place, monkeypatch, capsys):
    said = [Isolation.ASSERTED]
    made = FakeWriter.__init__
    monkeypatch.setattr(FakeWriter, "__init__", lambda self, *a, **k: made(self, *a, **{**k, "isolation": said[0]}))
    original = PrivateAnswers.finish

    def stops(answers, drawn):
        if len(names("release")) == 2:
            raise MemoryError
        return original(answers, drawn)

    with monkeypatch.context() as stopped:
        stopped.setattr(PrivateAnswers, "finish", stops)
        assert run(command()) == 70
    said[0] = again
    both = weakest([Isolation.ASSERTED, again])
    capsys.readouterr()
    for later in (again, *Isolation):
        said[0] = later
        assert run(command("--resume", "--json")) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["isolation"] == both.value
        assert (told["spent"]["epsilon_each"] is None) == (not both.holds)
        if told["statement"]:
            assert (both.words if both.holds else "no formal guarantee") in told["statement"]


def test_a_run_of_an_earlier_build_that_noted_its_isolation_is_resumed(place, monkeypatch):
    words = PrivateAnswers.words.fget
    noting = property(lambda answers: {**words(answers), "isolation": answers.isolation.value})
    with monkeypatch.context() as earlier:
        earlier.setattr(PrivateAnswers, "words", noting)
        earlier.setattr(FakeWriter, "write", failing_at("card 1"))
        assert run(command()) == 4
    charged = [entry["detail"] for entry in Ledger("notes.db").history() if entry["kind"] == "reserve"]
    assert run(command("--resume")) == 0
    assert names("reserve") == names("release") == {"1", "2", "3"}
    asked = {
        json.loads(entry["detail"])["asked"] for entry in Ledger("notes.db").history() if entry["kind"] == "reserve"
    }
    assert asked == {json.loads(detail)["asked"] for detail in charged}, "one run is one request"
    assert run(command("--resume")) == 0


def failing_at(question):
    whole = FakeWriter.write

    def write(writer, requests, *, tokens):
        if any(is_of_an_expert(one) and question in one.question for one in requests):
            raise MemoryError
        return whole(writer, requests, tokens=tokens)

    return write


def is_of_an_expert(request):
    return any("private" in shot for shot, _ in request.shots)


def test_answers_on_stdout_say_of_their_writer_what_holds_for_all(place, monkeypatch, capsys):
    original = PrivateAnswers.finish

    def proving(answers, drawn):
        answers.writer.isolation = Isolation.BY_CONSTRUCTION
        return original(answers, drawn)

    made = FakeWriter.__init__
    asserted = {"isolation": Isolation.ASSERTED}
    monkeypatch.setattr(FakeWriter, "__init__", lambda self, *a, **k: made(self, *a, **{**k, **asserted}))
    monkeypatch.setattr(PrivateAnswers, "finish", proving)
    words = command("--json")
    del words[words.index("--out") : words.index("--out") + 2]
    assert run(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["isolation"] == Isolation.ASSERTED.value
    assert Isolation.ASSERTED.words in told["statement"]


def test_what_a_finished_run_noted_of_its_model_is_not_forgotten(place):
    noted = FinishedRun(Path("answers.jsonl"), Run({"method": "ksa"}, {"records": "a"}))
    noted.note(b"rows", Isolation.TESTED)
    noted.note(b"rows", None)
    assert noted.isolation is Isolation.TESTED
    noted.note(b"rows", Isolation.BY_CONSTRUCTION)
    assert noted.isolation is Isolation.TESTED


@pytest.mark.parametrize("content", [b"[" * 10_000, b"[1]", b"{}", b'{"isolation": "nonsense", "release_id": "a"}'])
def test_a_changed_folder_of_free_answers_is_told(content, place, capsys):
    free = [word for word in command() if word not in ("--private", "private.jsonl")]
    free[free.index("--method") + 1] = "public-shots"
    free = [word for place_, word in enumerate(free) if not is_of_records(free, place_)]

    def work():
        Fuse(PrivateAnswers, "finish", after=False).arm()
        run(free)

    assert in_a_child(work) == -signal.SIGKILL
    folder = Path("answers.jsonl.partial")
    run_id = json.loads((folder / "run.json").read_text())["kept"]["run"]
    seal = hashlib.sha256(f"{run_id}-1 {hashlib.sha256(content).hexdigest()}".encode()).hexdigest()
    (folder / "round-1").write_bytes(seal.encode() + content)
    capsys.readouterr()
    assert run([*free, "--resume"]) == 2
    assert "Answer 1 in the folder of this run was changed" in capsys.readouterr().err


def is_of_records(words, place):
    """Whether an option, or what is given for it, says how records are read or charged."""
    of_records = (
        "-o",
        "--ledger",
        "--budget",
        "--epsilon",
        "--delta",
        "--experts",
        "--shots",
        "--adjacency",
        "--caller",
    )
    return words[place] in of_records or (place > 0 and words[place - 1] in of_records)
