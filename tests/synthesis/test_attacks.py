"""Attacks on synthesis that once worked: what tells before its charge or beside it, and ways to a second draw."""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sottovoce.cli import run
from sottovoce.errors import InputError, ModelError, ParameterError
from sottovoce.files import run_folder
from sottovoce.files.checkpoint import Checkpoint, Output
from sottovoce.files.run_folder import RunFolder
from sottovoce.methods.decoding.decoder import make_decoder
from sottovoce.models.fake import FakeDecoding, FakeStepper
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.synthesis.synthesizer import Synthesizer
from survival.crashes import stops_in_the_removal
from synthesis.worlds_of_texts import ORDER, PIECES, likes_its_own, writer

TERMS_OF_COMMAND = (
    "synthesize", "--private", "notes.jsonl", "--labels", "billing,fraud", "--model", "fake", "--per-label", "3",
    "--tokens", "6", "--experts", "6", "--epsilon", "9", "--ledger", "notes.db", "--budget", "40,1e-5", "--out",
    "demos.jsonl",
)  # fmt: skip


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder of its own; returns exit code and stderr."""
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": ("fee ", "theft ")[i % 2], "label": ("billing", "fraud")[i % 2]}) for i in range(24)]
    (tmp_path / "notes.jsonl").write_text("\n".join(lines), "utf-8")

    def typed(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        code = run(list(words))
        return code, capfd.readouterr().err

    typed.folder = tmp_path
    return typed


def of_kind(where, kind: str) -> list[dict]:
    ledger = where if isinstance(where, Ledger) else Ledger(str(where))
    return [entry for entry in ledger.history() if entry["kind"] == kind]


def staged(tmp_path, icl, *, resume=False, out="demos.jsonl") -> Checkpoint:
    return Checkpoint(tmp_path / out, icl.terms, icl.new_run_state(), resume=resume)


class Stop(Exception):
    """Where a run is cut off."""


def stop(*arguments, **options):
    raise Stop


# What tells beside the texts


def ends_after(lengths):
    """A model whose text of a label ends after so many tokens, by the private part alone."""

    def function(prompt, text):
        own = lengths["theft" in prompt.private_text] if prompt.private_text else 3
        return [3.0, 3.0, 3.0, -60.0, 90.0 if len(text) >= own - 1 else -90.0, 0.0]

    return FakeStepper(function, pieces=PIECES)


def test_progress_tells_nothing_before_its_round_has_left():
    # Who sees that a text still goes on, interrupts and resumes, would have seen two draws for one charge.
    for lengths in ((1, 1), (2, 3), (3, 3)):
        told = []
        order, budget = replace(ORDER, per_label=1, experts=1), Budget(1000, 1e-5)
        icl = writer(model=ends_after(lengths), order=order, epsilon=900.0, budget=budget)
        mark = icl._account.mark_released
        icl._account.mark_released = lambda *a, told=told, mark=mark, **k: (told.append("left"), mark(*a, **k))
        list(icl.rounds(on_token=told.append))
        assert told == ["left", 2 * ORDER.tokens]


def test_a_sampled_run_is_one_charge_and_tells_nothing_before_it_has_left():
    told = []
    decoder = make_decoder("tang", noise="em", fresh="token", sampling_rate=0.5)
    order = replace(ORDER, per_label=3, experts=4)
    icl = writer(method=decoder, order=order, adjacency="add-remove", budget=Budget(1000, 1e-5, failure_delta=5e-6))
    list(icl.rounds(on_token=told.append))
    assert told == [3 * 2 * ORDER.tokens]


def test_whether_a_round_can_be_put_aside_does_not_follow_from_it(tmp_path, monkeypatch):
    # Room for the longest texts is taken before each draw and given back for the round; without it nothing is drawn.
    icl = writer(tmp_path / "a.db")
    checkpoint, events = staged(tmp_path, icl), []
    make, put, choose = Checkpoint.make_room, Checkpoint.save, Synthesizer._texts
    monkeypatch.setattr(Checkpoint, "make_room", lambda self, size: (events.append(size), make(self, size))[1])
    monkeypatch.setattr(
        Checkpoint,
        "save",
        lambda self, *a: (events.append((checkpoint.folder / "room").stat().st_size), put(self, *a))[1],
    )
    monkeypatch.setattr(Synthesizer, "_texts", lambda self, read: (events.append("draw"), choose(self, read))[1])
    found = list(icl.rounds(checkpoint))
    size = events[0]
    assert events == [size, "draw", size] * len(found)
    longest = max(len((checkpoint.folder / f"round-{n}").read_bytes()) for n in (1, 2, 3))
    assert longest < size

    def full(self, size):
        raise InputError("no room")

    monkeypatch.setattr(Checkpoint, "make_room", full)
    events.clear()
    other = writer(tmp_path / "b.db")
    with pytest.raises(InputError, match="no room"):
        list(other.rounds(Checkpoint(tmp_path / "other.jsonl", other.terms, other.new_run_state(), resume=False)))
    assert not events


def test_a_failure_after_the_charge_does_not_quote_the_model_not_even_its_own_errors():
    # A stepper that runs out of room says how many bytes it needs: a private number of experts.
    class Small(FakeStepper):
        def read(self, groups, **options):
            if units := sum(len(group.experts) for group in groups):
                raise ModelError(f"Keys and values would need {units * 1000} bytes.")
            return super().read(groups, **options)

    icl = writer(model=Small(likes_its_own, pieces=PIECES))
    with pytest.raises(ModelError, match="withheld") as caught:
        list(icl.rounds())
    assert "24" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_what_fails_for_public_reasons_fails_before_a_ledger_is_made(tmp_path):
    # An eta too small for the sampler.
    with pytest.raises(ParameterError, match=r"below 1e-06|from 1e-06"):
        writer(tmp_path / "a.db", method="prism", order=replace(ORDER, tokens=4096, per_label=200), epsilon=1e-3)
    assert not (tmp_path / "a.db").exists()


def test_a_public_prompt_whose_every_token_is_barred_fails_before_the_charge():
    only_control = FakeStepper(lambda prompt, text: [-float("inf")] * 5 + [1.0], pieces=PIECES)
    icl = writer(model=only_control)
    with pytest.raises(ModelError, match="no token"):
        list(icl.rounds())
    assert not of_kind(icl.ledger, "reserve")


# Ways to a second draw or a second charge


def test_a_round_that_is_whole_on_the_disk_is_the_one_that_leaves(tmp_path, monkeypatch):
    # Somebody may have seen it there. It was drawn under the charge: it leaves, and no other draw of it is made.
    icl = writer(tmp_path / "a.db")
    checkpoint = staged(tmp_path, icl)
    monkeypatch.setattr(type(icl._account), "mark_released", stop)
    with pytest.raises(Stop):
        list(icl.rounds(checkpoint))
    monkeypatch.undo()
    drawn = (checkpoint.folder / "round-1").read_text("utf-8")
    checkpoint.close()
    again = writer(tmp_path / "a.db")
    first, *_ = again.rounds(staged(tmp_path, again, resume=True))
    written = [json.loads(line)["written"].strip() for line in drawn.splitlines()]
    assert [row["text"] for row in first.rows] == [text for text in written if text]
    assert first.again
    assert len(of_kind(again.ledger, "release")) == len(of_kind(again.ledger, "reserve")) == 3


def test_a_planted_round_of_a_run_that_was_never_charged_does_not_leave(tmp_path):
    icl = writer(tmp_path / "a.db")
    checkpoint = staged(tmp_path, icl)
    checkpoint.save(1, [{"label": "billing", "written": " planted", "tokens": 1}])
    found = [row["text"] for one in icl.rounds(checkpoint) for row in one.rows]
    assert len(of_kind(icl.ledger, "release")) == 3
    assert "planted" not in found


def test_a_resume_under_another_ledger_is_refused_and_destroys_nothing(desk, monkeypatch):
    monkeypatch.setattr(Checkpoint, "_write", stop)
    assert desk(*TERMS_OF_COMMAND)[0] == 70
    monkeypatch.undo()
    monkeypatch.setenv("SOTTOVOCE_HOME", str(desk.folder / "home"))
    monkeypatch.chdir(desk.folder)
    folder = desk.folder / "demos.jsonl.partial"
    before = {file.name: file.read_bytes() for file in folder.glob("r*")}
    assert len(before) == 4
    for budget in ("40,1e-5", "1,1e-9"):
        grant = ("ledger", "grant", f"other{budget[0]}.db", "--private", "notes.jsonl", "--budget", budget)
        assert desk(*grant)[0] == 0  # the owner's decision: a second ledger is not opened otherwise
        code, err = desk(*TERMS_OF_COMMAND, "--ledger", f"other{budget[0]}.db", "--budget", budget, "--resume")
        assert code == 2
        assert "ledger" in err
        assert not of_kind(desk.folder / f"other{budget[0]}.db", "reserve")
    assert {file.name: file.read_bytes() for file in folder.glob("r*")} == before
    assert desk(*TERMS_OF_COMMAND, "--resume")[0] == 0


def test_a_resume_that_cannot_be_paid_keeps_its_folder(desk, monkeypatch):
    # Stopped before the charge; the budget went elsewhere meanwhile.
    from sottovoce.privacy.ledger.ledger import Account

    small = (*TERMS_OF_COMMAND, "--budget", "10,1e-5")
    monkeypatch.setattr(Account, "reserve", stop)
    monkeypatch.setattr(Checkpoint, "abandon", lambda checkpoint: checkpoint.close())
    assert desk(*small)[0] == 70
    monkeypatch.undo()
    monkeypatch.setenv("SOTTOVOCE_HOME", str(desk.folder / "home"))
    monkeypatch.chdir(desk.folder)
    assert desk(*small, "--out", "other.jsonl")[0] == 0
    assert desk(*small, "--resume")[0] == 3
    assert (desk.folder / "demos.jsonl.partial" / "run.json").exists()


def test_two_processes_do_not_write_into_one_folder(tmp_path):
    icl = writer(tmp_path / "a.db")
    checkpoint = staged(tmp_path, icl)
    with pytest.raises(InputError, match="at this moment"):
        staged(tmp_path, icl, resume=True)
    checkpoint.close()
    staged(tmp_path, icl, resume=True)


@pytest.mark.slow
def test_a_round_that_is_whole_leaves_also_where_a_copy_of_the_folder_was_charged_for_more(tmp_path, monkeypatch):
    icl = writer(tmp_path / "a.db")
    mine, save = staged(tmp_path, icl), Checkpoint.save
    with monkeypatch.context() as lost:
        lost.setattr(Checkpoint, "save", lambda one, name, rows: save(one, name, rows) if name == "1" else stop())
        with pytest.raises(Stop):
            list(icl.rounds(mine))
    mine.close()
    shutil.copytree(mine.folder, tmp_path / "copy.jsonl.partial")
    again = writer(tmp_path / "a.db")
    mine = staged(tmp_path, again, resume=True)
    with monkeypatch.context() as stopped:
        stopped.setattr(Synthesizer, "_note", stop)  # drawn and whole, and the ledger does not know it yet
        with pytest.raises(Stop):
            list(again.rounds(mine))
    mine.close()
    third = writer(tmp_path / "a.db")
    assert len(list(third.rounds(staged(tmp_path, third, resume=True, out="copy.jsonl")))) == 3
    last = writer(tmp_path / "a.db")
    mine = staged(tmp_path, last, resume=True)
    rows = [row for one in last.rounds(mine, redraw=False) for row in one.rows]
    assert last.left_out == [3], "the copy drew it"
    assert [charge["release_id"].partition("-")[2] for charge in of_kind(last.ledger, "release")] == [
        "1",
        "2.3",
        "3",
        "2.2",
    ]
    assert last.certificate(mine.run_state, rows).broken(rows, last.ledger, last._records) == []


def test_a_folder_that_is_copied_back_after_the_run_gives_the_same_texts_and_no_others(tmp_path):
    icl = writer(tmp_path / "a.db")
    checkpoint = staged(tmp_path, icl)
    first = next(icl.rounds(checkpoint))
    checkpoint.close()
    shutil.copytree(checkpoint.folder, tmp_path / "copy.jsonl.partial")
    again = writer(tmp_path / "a.db")
    mine = staged(tmp_path, again, resume=True)
    found = [dict(row) for one in again.rounds(mine) for row in one.rows]
    mine.carry_out(lambda: (None, Output.of_rows(found, mine.out)))
    third = writer(tmp_path / "a.db")
    copy = staged(tmp_path, third, resume=True, out="copy.jsonl")
    with pytest.raises(InputError, match=r"Round 2 was released, and is missing from .*copy\.jsonl\.partial"):
        list(third.rounds(copy))
    copied = list(third.rounds(copy, redraw=False))
    assert third.left_out == [2, 3]
    assert [one.rows for one in copied] == [first.rows]
    assert len(of_kind(third.ledger, "release")) == 3


# Paid texts are not lost


def test_rows_that_were_paid_for_are_not_overwritten(desk):
    assert desk(*TERMS_OF_COMMAND)[0] == 0
    before = (desk.folder / "demos.jsonl").read_bytes()
    charged = len(of_kind(desk.folder / "notes.db", "reserve"))
    code, err = desk(*TERMS_OF_COMMAND)
    assert code == 2
    assert "exists" in err
    assert (desk.folder / "demos.jsonl").read_bytes() == before
    assert len(of_kind(desk.folder / "notes.db", "reserve")) == charged


def charges_of(desk):
    return len(of_kind(desk.folder / "notes.db", "reserve"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["invisible-ink", "choice"])
def test_rows_that_are_finished_are_not_paid_again_where_their_folder_was_half_removed(desk, monkeypatch, method):
    words = TERMS_OF_COMMAND
    if method == "choice":
        desk.folder.joinpath("public.jsonl").write_text('{"text": "a fee"}\n{"text": "a theft"}\n' * 3, "utf-8")
        given = [word for word in words if word not in ("--tokens", "6", "--experts")]
        words = (*given, "--method", "choice", "--public", "public.jsonl", "--per-label", "1")
    with monkeypatch.context() as stopped:
        stops_in_the_removal(stopped)
        code, err = desk(*words)
    assert (code, "the run is over" in err, "--resume" in err) == (130, True, False), err
    before, charged = (desk.folder / "demos.jsonl").read_bytes(), charges_of(desk)
    code, err = desk(*words, "--resume")
    assert (code, "Nothing to do" in err, "demos.jsonl.ended is left" in err) == (0, True, True), err
    assert ((desk.folder / "demos.jsonl").read_bytes(), charges_of(desk)) == (before, charged)


@pytest.mark.cases(1)
@pytest.mark.parametrize("is_written", [False, True])
def test_a_round_that_was_released_and_is_missing_is_left_out_when_that_is_said_alone(desk, monkeypatch, is_written):
    proof = desk.folder / "demos.jsonl.certificate.json"
    with monkeypatch.context() as stopped:
        stopped.setattr(*((RunFolder, "end") if is_written else (Checkpoint, "_write")), stop)
        assert desk(*TERMS_OF_COMMAND)[0] == 70
    proof.unlink(missing_ok=True)
    (desk.folder / "demos.jsonl.partial" / "round-2").unlink()
    code, err = desk(*TERMS_OF_COMMAND, "--resume")
    why = "is in the output that this run noted, and" if is_written else "was released, and"
    assert (code, f"Round 2 {why} is missing from demos.jsonl.partial" in err) == (2, True), err
    assert ((desk.folder / "demos.jsonl").exists(), proof.exists()) == (is_written, False)
    if is_written:
        code, err = desk(*TERMS_OF_COMMAND, "--resume", "--without-lost")
        assert (code, "another one would be made now" in err, charges_of(desk)) == (2, True, 3), err
        return
    code, err = desk(*TERMS_OF_COMMAND, "--resume", "--without-lost")
    assert (
        code,
        "Round 2 is not whole in demos.jsonl.partial: its rows are left out, and paid" in err,
        charges_of(desk),
    ) == (0, True, 3), err


@pytest.mark.cases(1)
@pytest.mark.parametrize("kept", [False, True])
def test_what_was_left_out_is_not_charged_once_the_run_noted_its_output(desk, monkeypatch, kept):
    rows, proof = desk.folder / "demos.jsonl", desk.folder / "demos.jsonl.certificate.json"
    with monkeypatch.context() as stopped:
        stopped.setattr(Checkpoint, "save", stop)
        assert desk(*TERMS_OF_COMMAND)[0] == 70
    place = RunFolder.place

    def full(folder, name, file):
        if file.name == rows.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        place(folder, name, file)

    with monkeypatch.context() as stopped:
        stopped.setattr(RunFolder, "place", full)
        code, err = desk(*TERMS_OF_COMMAND, "--resume", "--without-lost")
    assert (code, "All of it was drawn, and nothing is charged again" in err) == (2, True), err
    assert (proof.exists(), rows.exists()) == (True, False)
    if not kept:
        (desk.folder / "demos.jsonl.partial" / "whole-out").unlink()
    assert desk(*TERMS_OF_COMMAND, "--resume")[0] == 0
    written = rows.read_text("utf-8").splitlines()
    assert (charges_of(desk), json.loads(proof.read_text("utf-8"))["rows"]) == (3, len(written))
    assert len(json.loads(proof.read_text("utf-8"))["ledger"]) == 3
    assert not (desk.folder / "demos.jsonl.partial").exists()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["demos.jsonl", "demos.jsonl.certificate.json"])
def test_a_file_that_came_up_meanwhile_is_left_alone(desk, monkeypatch, file):
    write = Checkpoint._write

    def late(checkpoint, *arguments):
        (desk.folder / file).write_text("mine", "utf-8")
        return write(checkpoint, *arguments)

    monkeypatch.setattr(Checkpoint, "_write", late)
    code, err = desk(*TERMS_OF_COMMAND)
    assert code == 2
    assert "--resume" in err
    assert (desk.folder / file).read_text("utf-8") == "mine"
    monkeypatch.setattr(Checkpoint, "_write", write)
    (desk.folder / file).unlink()
    assert desk(*TERMS_OF_COMMAND, "--resume")[0] == 0
    assert desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("broken", range(1, 11))
def test_a_full_disk_at_any_write_is_an_error_in_words_and_loses_nothing_that_left(desk, monkeypatch, broken):
    # Writes: header, three times room and a round, what the run ends with, certificate, rows.
    written, sync = 0, os.fsync

    def full(descriptor):
        nonlocal written
        if not run_folder.stat.S_ISDIR(run_folder.os.fstat(descriptor).st_mode):
            written += 1
            if written == broken:
                raise OSError(errno.ENOSPC, "No space left on device")
        return sync(descriptor)

    monkeypatch.setattr(run_folder, "os", SimpleNamespace(**{**vars(os), "fsync": full}))  # for this module alone
    code, err = desk(*TERMS_OF_COMMAND)
    assert code == 2
    assert "No space left" in err
    monkeypatch.setattr(run_folder, "os", os)
    left = len(of_kind(desk.folder / "notes.db", "release"))
    assert left == min(max(broken - 2, 0) // 2, 3)
    if broken == 1:
        assert not list(desk.folder.glob("demos*"))
        assert "Nothing was charged" in err
        return
    assert desk(*TERMS_OF_COMMAND, "--resume")[0] == 0
    drawn = broken in (3, 5, 7)  # a round that could not be put aside was drawn, and a charge covers one draw
    assert len(of_kind(desk.folder / "notes.db", "reserve")) == 3 + drawn
    assert desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0


@pytest.fixture
def no_collector():
    """What an error's traceback keeps alive stays so."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.cases(1)
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("where", ["read", "step", "read in a group"])
def test_an_interrupt_while_the_model_works_keeps_what_is_paid(desk, monkeypatch, where):
    def interrupted(*arguments, **options):
        if where == "read in a group":  # beside a failure that quotes a record
            raise BaseExceptionGroup("quotes a record", [ValueError("quotes a record"), KeyboardInterrupt()])
        raise KeyboardInterrupt

    if where == "step":
        monkeypatch.setattr(FakeDecoding, "step", interrupted)  # the rehearsal steps too
        assert desk(*TERMS_OF_COMMAND)[0] == 130
        assert not of_kind(desk.folder / "notes.db", "reserve")
        assert not list(desk.folder.glob("demos*"))
        return
    read = FakeStepper.read
    monkeypatch.setattr(
        FakeStepper, "read", lambda m, groups, **o: interrupted() if groups[0].experts else read(m, groups, **o)
    )
    gc.disable()  # the interrupted run must let go of its folder whether or not anything collects it
    try:
        code, err = desk(*TERMS_OF_COMMAND)
        assert code == 130
        assert "--resume" in err
        assert "quotes" not in err
        monkeypatch.setattr(FakeStepper, "read", read)
        assert desk(*TERMS_OF_COMMAND, "--resume")[0] == 0
    finally:
        gc.enable()
    assert len(of_kind(desk.folder / "notes.db", "reserve")) == 3


@pytest.mark.cases(1)
@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' + "[" * 9999])
def test_no_text_that_a_model_writes_stops_a_run_that_is_paid(desk, monkeypatch, text):
    (desk.folder / "a.schema.json").write_text(json.dumps({"type": "object", "properties": {"a": {}}}), "utf-8")
    monkeypatch.setattr(FakeStepper, "decode", lambda model, tokens: text)
    (desk.folder / "notes.jsonl").write_text('{"a": "x"}\n' * 24, "utf-8")
    words = [word for word in TERMS_OF_COMMAND if word not in ("--labels", "billing,fraud")]
    code, err = desk(*words, "--schema", "a.schema.json", "--json")
    assert code == 0, err
    assert (desk.folder / "demos.jsonl").read_text("utf-8") == ""
    assert desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0


def test_texts_with_other_line_separators_are_found_again_after_a_crash(tmp_path):
    icl = writer(tmp_path / "a.db", model=FakeStepper(likes_its_own, pieces=("fee\u2028", "theft\x85", "late ", "\n")))
    checkpoint = staged(tmp_path, icl)
    first = next(icl.rounds(checkpoint))
    checkpoint.close()
    again = writer(tmp_path / "a.db", model=icl.model)
    assert next(again.rounds(staged(tmp_path, again, resume=True))).rows == first.rows


# Absurd options


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "nan"), ("--epsilon", "-1"), ("--epsilon", "1e9"), ("--epsilon", "x"), ("--delta", "1"),
        ("--delta", "-1"), ("--delta", "nan"), ("--tokens", "0"), ("--tokens", "99999999"), ("--per-label", "-3"),
        ("--per-label", "99999999"), ("--texts-per-batch", "0"), ("--texts-per-batch", "2"), ("--experts", "0"),
        ("--experts", "999999999"), ("--inside-tokens", "0"), ("--max-records", "0"), ("--clip", "0"),
        ("--clip", "nan"), ("--clip", "inf"), ("--clip", "1e9"), ("--temperature", "0"), ("--temperature", "nan"),
        ("--temperature", "1e-300"), ("--top-k", "0"), ("--top-k", "-1"), ("--adjacency", "none"), ("--unit", "no"),
        ("--method", ""), ("--method", "amin", "--delta", "0"), ("--method", "tang", "--delta", "0"),
        ("--model", ""), ("--labels", "billing"), ("--labels", ""), ("--out", ""), ("--out", "x" * 250 + ".jsonl"),
        ("--out", "demos.xlsx"), ("--out", "demos"), ("--out", "demos.jsonl.gz"), ("--out", "absent/demos.jsonl"),
        ("--schema", "absent.json"), ("--caller", "nobody"), ("--budget", "x"), ("--max-characters", "0"),
        ("--private", "absent.jsonl"), ("--out", "/dev/null"), ("--device", "cpu:"), ("--task", "agnews"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_absurd_option_is_an_error_in_words_with_nothing_charged_or_left(desk, words):
    before = set(desk.folder.glob("*"))
    code, err = desk(*TERMS_OF_COMMAND, *words)
    assert code in (2, 3, 4), err
    assert "Internal error" not in err
    assert not (desk.folder / "notes.db").exists() or not of_kind(desk.folder / "notes.db", "reserve")
    left = {
        path
        for path in set(desk.folder.glob("*")) - before
        if path.name not in ("home", "notes.db", "notes.db-journal")
    }
    assert not left
