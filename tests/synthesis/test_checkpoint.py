"""Rounds on their way out: nothing half-written, nothing handed over that the ledger does not know, nothing lost."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat

import pytest

from sottovoce.errors import InputError, LostDrawError
from sottovoce.files.checkpoint import Checkpoint, Output, beside_finished
from sottovoce.files.run_folder import RunFolder

ROWS = [{"text": "The fee is wrong.", "label": "billing"}, {"text": "Ça va 漢字", "label": "fraud"}]
TERMS = {"method": "prism", "epsilon": 1.0, "labels": ["billing", "fraud"]}


def begun(tmp_path, **changed):
    return Checkpoint(tmp_path / "demos.jsonl", {**TERMS, **changed}, {"run": "abc"}, resume=False)


def resumed(tmp_path, **changed):
    return Checkpoint(tmp_path / "demos.jsonl", {**TERMS, **changed}, {"run": "another"}, resume=True)


def finish(checkpoint, rows, certificate="", note=None):
    """What was drawn; ``None`` where it was kept before."""
    return checkpoint.carry_out(lambda: (rows, Output.of_rows(rows, checkpoint.out, certificate)), note)


def test_a_round_that_was_saved_is_found_again_by_its_hash(tmp_path):
    content = begun(tmp_path).save(1, ROWS)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    assert content == hashlib.sha256(lines.encode()).hexdigest()
    assert resumed(tmp_path).load(1, content) == ROWS
    assert resumed(tmp_path).load(2, content) is None


@pytest.mark.parametrize("known", [None, "0" * 64])
def test_a_round_that_the_ledger_does_not_know_is_not_handed_over_and_is_left_as_it_is(tmp_path, known):
    checkpoint = begun(tmp_path)
    checkpoint.save(1, ROWS)
    before = contents(checkpoint.folder)
    assert checkpoint.load(1, known) is None
    assert contents(checkpoint.folder) == before, "what is to be restored is compared with it"


def test_a_changed_round_is_not_handed_over(tmp_path):
    checkpoint = begun(tmp_path)
    content = checkpoint.save(1, ROWS)
    checkpoint.close()
    file = checkpoint.folder / "round-1"
    file.write_text(file.read_text("utf-8").replace("fee", "fine"), "utf-8")
    assert resumed(tmp_path).load(1, content) is None


def test_a_run_remembers_its_id_and_refuses_other_terms(tmp_path):
    begun(tmp_path)
    assert resumed(tmp_path).run_state == {"run": "abc"}
    with pytest.raises(InputError, match=r"has epsilon 1\.0, not 2\.0"):
        resumed(tmp_path, epsilon=2.0)
    with pytest.raises(InputError, match="has limit None, not 3"):
        resumed(tmp_path, limit=3)


@pytest.mark.parametrize(
    "kept",
    [{}, {"run": 5, "version": "1.0"}, {"run": "abc"}, {"run": "../x y", "version": "1.0"},
     {"run": "a" * 100, "version": "1.0"}, {"run": "abc", "version": "x"}, {"run": "abc", "version": 1},
     {"run": "abc", "version": "1.0", "more": "a"}, [], None, "abc"],
    ids=repr,
)  # fmt: skip
def test_what_a_run_remembers_is_of_its_form_or_nothing_goes_on_under_it(tmp_path, kept):
    new = {"run": "abc", "version": "1.2.dev3"}
    Checkpoint(tmp_path / "demos.jsonl", TERMS, new, resume=False).close()
    Checkpoint(tmp_path / "demos.jsonl", TERMS, new, resume=True).close()
    header = tmp_path / "demos.jsonl.partial" / "run.json"
    header.write_text(json.dumps({**json.loads(header.read_text("utf-8")), "kept": kept}), "utf-8")
    with pytest.raises(InputError, match="is no interrupted run"):
        Checkpoint(tmp_path / "demos.jsonl", TERMS, new, resume=True)


def test_an_interrupted_run_is_not_overwritten_and_nothing_is_not_resumed(tmp_path):
    with pytest.raises(InputError, match="nothing to resume"):
        resumed(tmp_path)
    begun(tmp_path)
    with pytest.raises(InputError, match=r"holds an interrupted run, .* with --resume to go on"):
        begun(tmp_path)


def test_of_a_resumed_run_that_was_not_charged_its_folder_is_named(tmp_path):
    begun(tmp_path).close()
    again = resumed(tmp_path)
    told = again.stopped(charged=False, lost="A round is charged again.")
    assert told == f"The run is kept in {again.folder}; repeat the command with --resume to go on."
    assert again.folder.exists()
    again.folder.rename(tmp_path / "elsewhere")
    assert again.stopped(charged=False, lost="").startswith(f"The run's folder {again.folder} was moved or removed")


def test_a_folder_without_a_header_is_told_from_a_run(tmp_path):
    (tmp_path / "demos.jsonl.partial").mkdir()
    for begins in (begun, resumed):
        with pytest.raises(InputError, match=r"is no interrupted run: .* Nothing was charged"):
            begins(tmp_path)


def test_the_output_appears_whole_and_the_folder_goes(tmp_path):
    checkpoint = begun(tmp_path)
    checkpoint.save(1, ROWS)
    assert not checkpoint.out.exists()
    finish(checkpoint, ROWS)
    assert [json.loads(line) for line in checkpoint.out.read_text("utf-8").splitlines()] == ROWS
    assert not checkpoint.folder.exists()


def test_line_separators_of_unicode_do_not_cut_a_text(tmp_path):
    rows = [{"text": "one\u2028two\x85three\x1c"}]
    content = begun(tmp_path).save(1, rows)
    assert resumed(tmp_path).load(1, content) == rows


def test_a_file_that_is_no_round_is_none(tmp_path):
    checkpoint = begun(tmp_path)
    assert checkpoint.found(1) is None
    for content in ('{"text":', "[" * 100_000):
        (checkpoint.folder / "round-1").write_text(content, "utf-8")
        assert checkpoint.found(1) is None
    content = checkpoint.save(1, ROWS)
    assert checkpoint.found(1) == (ROWS, content)


@pytest.mark.parametrize("name", ["demos", "demos.tsv", "demos.jsonl.gz", "demos.xlsx"])
def test_an_output_that_would_be_read_as_something_else_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="must end in"):
        Checkpoint(tmp_path / name, TERMS, {}, resume=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["demos.jsonl", "demos.jsonl.certificate.json"])
def test_nothing_is_overwritten(tmp_path, name):
    (tmp_path / name).write_text("paid", "utf-8")
    with pytest.raises(InputError, match="exists already"):
        begun(tmp_path)
    (tmp_path / name).unlink()
    checkpoint = begun(tmp_path)
    (tmp_path / name).write_text("mine", "utf-8")
    with pytest.raises(InputError, match="another file"):
        finish(checkpoint, ROWS, "{}")
    assert (tmp_path / name).read_text("utf-8") == "mine"
    assert checkpoint.folder.exists()


def test_only_the_owner_may_look_into_the_folder(tmp_path):
    assert stat.S_IMODE(begun(tmp_path).folder.stat().st_mode) & 0o077 == 0


def test_a_place_that_cannot_be_written_is_an_error_before_anything_else(tmp_path):
    (tmp_path / "demos.jsonl").mkdir()
    with pytest.raises(InputError, match="a folder or a device"):
        begun(tmp_path)
    with pytest.raises(InputError, match="Nothing was charged"):
        Checkpoint(tmp_path / "absent" / "demos.jsonl", TERMS, {}, resume=False)


def test_its_repr_names_the_file_alone(tmp_path):
    assert repr(begun(tmp_path)) == "Checkpoint('demos.jsonl')"


def of_another_run(tmp_path):
    """Moves the folder of a run away while it is under way, and begins another run under its name."""
    first = begun(tmp_path)
    first.save(1, ROWS)
    first.folder.rename(tmp_path / "moved")
    second = begun(tmp_path)
    second.save(1, ROWS[:1])
    return first, second


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_run_whose_folder_was_moved_goes_on_in_it_and_leaves_the_one_that_took_its_name(tmp_path):
    first, second = of_another_run(tmp_path)
    before = contents(second.folder)
    first.make_room(9)
    saved = first.save(2, ROWS)
    assert first.found(1) is not None
    assert first.load(2, saved) == ROWS
    with pytest.raises(InputError, match="was moved, removed or replaced while this run was under way"):
        finish(first, ROWS)
    told = first.stopped(charged=True, lost="Nothing is lost.")
    assert "was moved or removed while it was under way. If it was moved, what was drawn is in it: move it back" in told
    first.abandon()
    assert contents(second.folder) == before
    assert not first.out.exists()
    finish(second, ROWS[:1])
    assert not second.folder.exists()
    first.out.unlink()
    (tmp_path / "moved").rename(first.folder)  # as the words say
    again = resumed(tmp_path)
    assert again.load(2, saved) == ROWS
    finish(again, ROWS)
    assert [file.name for file in tmp_path.iterdir()] == ["demos.jsonl"]


def test_a_folder_that_is_replaced_as_the_output_is_written_is_not_removed(tmp_path, monkeypatch):
    first, place = begun(tmp_path), RunFolder.place

    def placed(folder, name, file):
        place(folder, name, file)
        first.folder.rename(tmp_path / "moved")
        first.folder.mkdir()
        (first.folder / "round-1").write_text("paid", "utf-8")

    monkeypatch.setattr(RunFolder, "place", placed)
    with pytest.raises(InputError, match=r"demos\.jsonl is written, and its folder .* was moved"):
        finish(first, ROWS)
    assert (first.folder / "round-1").read_text("utf-8") == "paid"


def test_a_run_that_is_under_way_is_not_called_interrupted(tmp_path):
    first = begun(tmp_path)
    with pytest.raises(InputError, match=r"Another process writes into demos\.jsonl\.partial at this moment"):
        begun(tmp_path)
    first.close()
    with pytest.raises(InputError, match=r"holds an interrupted run, .* with --resume to go on"):
        begun(tmp_path)


def test_a_folder_that_is_no_run_is_left_as_it_is(tmp_path):
    folder = tmp_path / "demos.jsonl.partial"
    folder.mkdir()
    with pytest.raises(InputError, match="no interrupted run"):
        resumed(tmp_path)
    assert list(folder.iterdir()) == []


# The end of a run is one step


class StopError(BaseException):
    """An order to stop."""


def stopping(monkeypatch, name, count=1):
    """Stops the run the n-th time that something of its folder is called."""
    real, seen = getattr(RunFolder, name), []

    def stops(folder, *given, **named):
        seen.append(name)
        if len(seen) == count:
            raise StopError
        return real(folder, *given, **named)

    monkeypatch.setattr(RunFolder, name, stops)


def charged(checkpoint):
    return checkpoint.stopped(charged=True, lost="A round is charged again.")


@pytest.mark.parametrize(
    ("name", "count", "is_there"),
    [("write", 3, []), ("place", 1, []), ("place", 2, [".certificate.json"]), ("end", 1, [".certificate.json", ""])],
)
def test_before_the_last_step_a_run_is_resumed_and_finished_by_what_it_noted(
    tmp_path, monkeypatch, name, count, is_there
):
    first = begun(tmp_path)
    first.save(1, ROWS)
    stopping(monkeypatch, name, count)
    with pytest.raises(StopError):
        finish(first, ROWS, "{}")
    monkeypatch.undo()
    assert [end for end in (".certificate.json", "") if (tmp_path / f"demos.jsonl{end}").exists()] == is_there
    assert ("kept in" if "" not in is_there else "removes what is left of its run") in charged(first)
    first.close()
    again = resumed(tmp_path)
    assert again.is_finished is (name != "write")
    assert (finish(again, ROWS, "{}") is None) is (name != "write"), "what was kept whole is not drawn again"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["demos.jsonl", "demos.jsonl.certificate.json"]


@pytest.mark.parametrize("removed", [0, 1, 3])
def test_a_finished_run_that_is_stopped_as_its_folder_is_removed_is_no_interrupted_one(tmp_path, monkeypatch, removed):
    first = begun(tmp_path)
    first.save(1, ROWS)
    unlink, gone = os.unlink, []

    def stops(name, **given):
        if first.folder.exists() or first._run.ended is None:
            return unlink(name, **given)
        if len(gone) == removed:
            raise StopError
        gone.append(name)
        return unlink(name, **given)

    with monkeypatch.context() as stopped:
        stopped.setattr(os, "unlink", stops)
        if removed < 3:
            with pytest.raises(StopError):
                finish(first, ROWS)
        else:
            finish(first, ROWS)
    told = charged(first)
    first.abandon()
    assert "--resume" not in told
    assert "is whole, and the run is over: nothing is left to resume" in told
    assert ("demos.jsonl.ended is left of a run that is over. It is as private" in told) is (removed < 3)
    assert (removed < 3) is ("demos.jsonl.ended is left" in beside_finished(first.out))
    with pytest.raises(InputError, match=r"demos\.jsonl is there, and has no folder beside it. Nothing was charged"):
        resumed(tmp_path)


def test_an_output_that_a_run_noted_is_its_own_where_it_would_be_written_otherwise_now(tmp_path, monkeypatch):
    first = begun(tmp_path)  # another version of what writes a format, say
    stopping(monkeypatch, "end")
    with pytest.raises(StopError):
        finish(first, ROWS, "{}")
    monkeypatch.undo()
    first.close()
    before = first.out.read_bytes()
    finish(resumed(tmp_path), ROWS[:1], "{ }")
    assert first.out.read_bytes() == before
    assert not first.folder.exists()


def stopped_between_its_files(tmp_path, monkeypatch, out=True):
    """A run that noted its output and placed its certificate, or its output alone."""
    first = begun(tmp_path)
    with monkeypatch.context() as stopped:
        stopping(stopped, "end" if out else "place", 1 if out else 2)
        with pytest.raises(StopError):
            finish(first, ROWS, "{}")
    first.close()
    if out:
        first.proof.unlink()
    return resumed(tmp_path)


def test_a_certificate_goes_with_rows_of_its_own_where_others_are_written_now(tmp_path, monkeypatch):
    again = stopped_between_its_files(tmp_path, monkeypatch, out=False)
    assert again.proof.read_text("utf-8") == "{}"
    (again.folder / "whole-out").unlink()
    finish(again, ROWS[:1], "{ }")
    assert again.proof.read_text("utf-8") == "{ }"
    assert len(again.out.read_text("utf-8").splitlines()) == 1
    assert not again.folder.exists()


@pytest.mark.parametrize("name", ["demos.jsonl", "demos.jsonl.certificate.json"])
def test_a_file_that_comes_up_as_the_output_is_placed_is_left_and_the_rows_stay_kept(tmp_path, monkeypatch, name):
    run = begun(tmp_path)
    removed = RunFolder.remove

    def comes_up(folder, file):
        removed(folder, file)
        (tmp_path / name).write_text("somebody else's", "utf-8")

    with monkeypatch.context() as raced:
        raced.setattr(RunFolder, "remove", comes_up)
        with pytest.raises(InputError, match="came up meanwhile and is another file"):
            finish(run, ROWS, "{}")
    assert (tmp_path / name).read_text("utf-8") == "somebody else's"
    (tmp_path / name).unlink()
    run.close()
    finish(resumed(tmp_path), ROWS, "{}")
    assert (run.proof.read_text("utf-8"), run.folder.exists()) == ("{}", False)


def test_no_other_certificate_is_made_beside_rows_that_a_run_wrote(tmp_path, monkeypatch):
    again = stopped_between_its_files(tmp_path, monkeypatch)
    before = contents(again.folder)
    with pytest.raises(InputError, match=r"its certificate is gone, and another one would be made now\. Restore"):
        finish(again, ROWS[:1], "{ }")
    assert not again.proof.exists()
    assert contents(again.folder) == before
    finish(again, ROWS, "{}")
    assert again.proof.read_text("utf-8") == "{}"


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_was_kept_is_placed_only_as_it_was_noted(tmp_path, monkeypatch, is_whole):
    again = stopped_between_its_files(tmp_path, monkeypatch, out=False)
    kept, noted = again.folder / "whole-out", []
    content = kept.read_bytes()
    if not is_whole:
        kept.write_bytes(b"changed")
    assert finish(again, ROWS, "{}", noted.append) == (None if is_whole else ROWS)
    assert noted == [content] == [again.out.read_bytes()]


def test_what_the_noted_output_holds_is_left_out_when_that_is_said_alone(tmp_path, monkeypatch):
    run = begun(tmp_path)
    assert not run.is_left_out(1, "Round", said=False), "nothing is noted yet"
    with monkeypatch.context() as stopped:
        stopping(stopped, "place")
        with pytest.raises(StopError):
            run.carry_out(lambda: (None, Output.of_rows(ROWS, run.out, left_out=[2])))
    run.close()
    again = resumed(tmp_path)
    assert again.is_left_out(2, "Round", said=False)
    assert again.is_left_out(1, "Round", said=True)
    with pytest.raises(
        InputError, match=r"Round 1 is in the output that this run noted, and is missing from .*partial"
    ):
        again.is_left_out(1, "Round", said=False)


def test_what_was_kept_for_another_format_is_written_anew(tmp_path, monkeypatch):
    first = begun(tmp_path)
    with monkeypatch.context() as stopped:
        stopping(stopped, "place")
        with pytest.raises(StopError):
            finish(first, ROWS, "{}")
    first.close()
    first.folder.rename(tmp_path / "demos.csv.partial")
    again = Checkpoint(tmp_path / "demos.csv", TERMS, {"run": "another"}, resume=True)
    assert again.is_finished
    assert finish(again, ROWS, "{}") == ROWS
    assert again.out.read_text("utf-8").splitlines()[0] == "text,label"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["demos.csv", "demos.csv.certificate.json"]


def test_a_note_that_is_nested_too_deep_is_none(tmp_path):
    checkpoint = begun(tmp_path)
    (checkpoint.folder / "finished.json").write_text("[" * 200_000, "utf-8")
    assert not checkpoint.is_finished


def test_a_folder_that_cannot_be_removed_is_named_as_it_is_called_then(tmp_path):
    first = begun(tmp_path)
    (first.folder / "of the user").mkdir()
    with pytest.raises(InputError, match=r"is written, and its folder .*demos\.jsonl\.ended cannot be removed \(Is a"):
        finish(first, ROWS)
    assert (tmp_path / "demos.jsonl").exists()


def test_a_second_folder_that_is_over_gets_another_name(tmp_path):
    (tmp_path / "demos.jsonl.ended").mkdir()
    (tmp_path / "demos.jsonl.ended" / "kept").touch()
    finish(begun(tmp_path), ROWS)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["demos.jsonl", "demos.jsonl.ended"]
    assert [file.name for file in (tmp_path / "demos.jsonl.ended").iterdir()] == ["kept"]


def test_every_folder_that_is_over_is_named(tmp_path):
    for end in ("", "2", "11", "x"):
        (tmp_path / f"demos.jsonl.ended{end}").mkdir()
    with pytest.raises(InputError) as error:
        resumed(tmp_path)
    for told in (str(error.value), beside_finished(tmp_path / "demos.jsonl")):
        for end in ("", "2", "11"):
            assert f"demos.jsonl.ended{end} is left of a run that is over" in told
        assert "endedx" not in told


def renamed_as_another_came(tmp_path, monkeypatch, after=lambda: None):
    """The last step of a run, as another paid run gets the name of its folder."""
    first, second = of_another_run(tmp_path)
    second.close()
    second.folder.rename(tmp_path / "second")
    (tmp_path / "moved").rename(first.folder)
    rename, seen = os.rename, []

    def late(before, after_):
        if not seen:
            seen.append(1)
            rename(first.folder, tmp_path / "moved")
            rename(tmp_path / "second", first.folder)
            rename(before, after_)
            after()
        else:
            rename(before, after_)

    monkeypatch.setattr(os, "rename", late)
    return first


def test_a_folder_that_is_replaced_as_it_is_renamed_is_given_its_name_back(tmp_path, monkeypatch):
    first = renamed_as_another_came(tmp_path, monkeypatch)
    with pytest.raises(InputError, match=r"is written, and its folder .* was moved, removed or replaced meanwhile"):
        finish(first, ROWS)
    assert charged(first) == "", "the error says it"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["demos.jsonl", "demos.jsonl.partial", "moved"]
    first.out.unlink()
    first.close()
    assert resumed(tmp_path).found(1)[0] == ROWS[:1], "the other run goes on"


def test_a_folder_that_cannot_have_its_name_back_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "demos.jsonl.partial"
    first = renamed_as_another_came(tmp_path, monkeypatch, lambda: (folder.mkdir(), (folder / "x").touch()))
    with pytest.raises(InputError, match=r"is called .*demos\.jsonl\.ended now .* rename it back"):
        finish(first, ROWS)
    assert (tmp_path / "demos.jsonl.ended" / "round-1").exists()


def test_the_header_is_closed_before_it_is_removed(tmp_path, monkeypatch):
    # On some network disks a file that is removed while it is open stays under another name.
    first, unlink = begun(tmp_path), os.unlink
    header = first._run._header

    def closed(name, **given):
        if first._run.ended is not None:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(header)
        unlink(name, **given)

    monkeypatch.setattr(os, "unlink", closed)
    finish(first, ROWS)
    assert not first.folder.exists()


def test_of_a_folder_that_cannot_be_renamed_at_the_end_one_thing_is_said(tmp_path, monkeypatch):
    run, rename = begun(tmp_path), os.rename

    def busy(before, after, **given):
        if str(after).endswith(".ended"):
            raise OSError(16, "Device or resource busy")
        rename(before, after, **given)

    with monkeypatch.context() as held:
        held.setattr(os, "rename", busy)
        with pytest.raises(InputError, match=r"demos\.jsonl is written, and its folder .* cannot be removed"):
            finish(run, ROWS)
    assert charged(run) == f"{run.out} is whole, and --resume charges nothing and removes what is left of its run."
    run.close()
    assert beside_finished(run.out) == ""
    assert not run.folder.exists()


def test_of_a_noted_output_that_is_damaged_nothing_is_said_that_is_not_so(tmp_path, monkeypatch):
    run = begun(tmp_path)
    stopping(monkeypatch, "place")
    with pytest.raises(StopError):
        finish(run, ROWS)
    assert charged(run).endswith("All of it was drawn, and nothing is charged again.")
    (run.folder / "whole-out").write_bytes(b"changed")
    assert charged(run).endswith("All of it was drawn, and nothing is charged again."), "nor is it then"


def test_who_may_read_an_output_follows_from_the_mask_of_the_process(tmp_path):
    before = os.umask(0o027)
    try:
        run = begun(tmp_path)
        finish(run, ROWS, "{}")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (run.out, run.proof)] == [0o640, 0o640]


@pytest.mark.parametrize("name", ["demos.jsonl", "demos.jsonl.certificate.json"])
def test_an_output_that_the_run_did_not_note_is_refused_before_anything_is_drawn(tmp_path, name):
    begun(tmp_path).save(1, ROWS)
    (tmp_path / name).write_text("of another run", "utf-8")
    with pytest.raises(InputError, match=r"did not note it as its own\. .* Nothing was charged") as refused:
        resumed(tmp_path)
    assert ("nothing is left to resume" in str(refused.value)) is (name == "demos.jsonl"), "its rows are in the folder"
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("nothing")  # no hash, and none noted
    with pytest.raises(InputError, match="did not note it as its own"):
        resumed(tmp_path)


def test_what_cost_nothing_is_kept_once_all_of_it_is_there(tmp_path, monkeypatch):
    run = begun(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(RunFolder, "place", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(InputError, match=r"kept in .*demos\.jsonl\.partial; make room and pass --resume"):
            finish(run, ROWS)
    assert run.stopped(charged=False, lost="").startswith(f"The run is kept in {run.folder}; repeat the command")
    run.close()
    again = resumed(tmp_path)
    assert finish(again, []) is None
    assert len(run.out.read_text("utf-8").splitlines()) == len(ROWS)


def test_of_a_folder_that_was_moved_once_the_output_was_there_one_thing_is_said(tmp_path, monkeypatch):
    run = begun(tmp_path)
    ended = Checkpoint._end

    def moved(checkpoint):
        checkpoint.folder.rename(tmp_path / "elsewhere")
        ended(checkpoint)

    monkeypatch.setattr(Checkpoint, "_end", moved)
    with pytest.raises(InputError, match="is written, and its folder"):
        finish(run, ROWS)
    assert charged(run) == ""


def test_beside_a_finished_output_only_the_folder_that_wrote_it_is_ended(tmp_path, monkeypatch):
    first = begun(tmp_path)
    stopping(monkeypatch, "end")
    with pytest.raises(StopError):
        finish(first, ROWS)
    monkeypatch.undo()
    assert "was neither read nor changed" in beside_finished(first.out), "another process has it"
    first.close()
    assert beside_finished(first.out) == ""
    assert not first.folder.exists()
    (tmp_path / "demos.jsonl").rename(tmp_path / "kept")
    begun(tmp_path).save(1, ROWS)
    before = contents(first.folder)
    for there in ("kept", "nothing"):
        (tmp_path / "demos.jsonl").symlink_to(there)
        assert "If it holds another paid run, move" in beside_finished(first.out)
        assert contents(first.folder) == before
        (tmp_path / "demos.jsonl").unlink()


# The lock


def test_a_new_run_that_is_not_charged_is_removed_while_it_is_locked(tmp_path, monkeypatch):
    # A resume that came in between would pay for what is removed under it.
    first, refused, unlink = begun(tmp_path), [], os.unlink

    def looks(name, **given):
        with pytest.raises(InputError) as error:
            resumed(tmp_path)
        refused.append(str(error.value))
        unlink(name, **given)

    monkeypatch.setattr(os, "unlink", looks)
    assert first.stopped(charged=False, lost="") == ""
    (told,) = refused
    assert told.startswith("There is nothing to resume: demos.jsonl.partial does not exist. Nothing was charged.")
    assert list(tmp_path.iterdir()) == []


def test_a_run_has_its_name_when_it_is_whole_and_locked(tmp_path, monkeypatch):
    rename, refused = os.rename, []

    def looks(before, after):
        rename(before, after)
        with pytest.raises(InputError) as error:
            resumed(tmp_path)
        refused.append(str(error.value))

    monkeypatch.setattr(os, "rename", looks)
    begun(tmp_path)
    assert ["Another process writes into demos.jsonl.partial at this moment" in one for one in refused] == [True]


def test_a_run_that_another_one_came_before_leaves_it_alone(tmp_path, monkeypatch):
    others, rename = [], os.rename

    def late(before, after):
        if not others:
            others.append(None)
            others.append(begun(tmp_path))
            others[1].save(1, ROWS)
        rename(before, after)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(InputError, match=r"demos\.jsonl\.partial came up meanwhile"):
        begun(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["demos.jsonl.partial"]
    finish(others[1], ROWS)


@pytest.mark.parametrize("at_fault", ["another header", "another folder"])
def test_a_header_that_is_exchanged_before_it_is_locked_is_not_that_of_the_run(tmp_path, monkeypatch, at_fault):
    begun(tmp_path).close()
    lock = RunFolder._lock

    def late(folder):
        there = tmp_path / "demos.jsonl.partial"
        if at_fault == "another header":
            content = (there / "run.json").read_bytes()
            (there / "run.json").unlink()
            (there / "run.json").write_bytes(content)
        else:
            there.rename(tmp_path / "moved")
            there.mkdir()
        lock(folder)

    monkeypatch.setattr(RunFolder, "_lock", late)
    with pytest.raises(InputError, match="was finished, moved or replaced by another process at this moment"):
        resumed(tmp_path)


@pytest.mark.parametrize("what", ["pipe", "folder", "link to a file", "link to nothing"])
def test_what_is_no_header_is_neither_waited_for_nor_followed(tmp_path, what):
    header, elsewhere = tmp_path / "demos.jsonl.partial" / "run.json", tmp_path / "elsewhere"
    begun(tmp_path).close()
    if what == "link to a file":
        header.rename(elsewhere)
    else:
        header.unlink()
    os.mkfifo(header) if what == "pipe" else header.mkdir() if what == "folder" else header.symlink_to(elsewhere)
    for begins in (begun, resumed):
        with pytest.raises(InputError, match="is no interrupted run"):
            begins(tmp_path)
    assert elsewhere.exists() is (what == "link to a file")


@pytest.mark.parametrize("what", ["file", "link to a run", "link to nothing"])
def test_what_is_no_folder_is_not_called_a_run(tmp_path, what):
    folder = tmp_path / "demos.jsonl.partial"
    if what == "link to a run":
        begun(tmp_path)
        folder.rename(tmp_path / "elsewhere")
    folder.touch() if what == "file" else folder.symlink_to("elsewhere")
    for begins in (begun, resumed):
        with pytest.raises(InputError, match=r"is a link or a file; .* Nothing was charged"):
            begins(tmp_path)


@pytest.mark.parametrize("what", ["pipe", "link"])
def test_a_round_that_is_no_file_is_not_read(tmp_path, what):
    checkpoint = begun(tmp_path)
    file = checkpoint.folder / "round-1"
    os.mkfifo(file) if what == "pipe" else file.symlink_to(checkpoint.folder / "run.json")
    with pytest.raises(InputError, match=r"round-1 in .* cannot be read"):
        checkpoint.found(1)


def test_a_system_or_a_disk_without_locks_begins_no_run(tmp_path, monkeypatch):
    from sottovoce.files import run_folder

    def lacks(*given):
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as other:
        other.setattr(run_folder.fcntl, "flock", lacks)
        with pytest.raises(InputError, match=r"a file system without locks \(Operation not supported\).* Nothing was"):
            begun(tmp_path)
    monkeypatch.setattr(run_folder, "fcntl", None)
    with pytest.raises(InputError, match="no run can be kept on it"):
        begun(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_removed_is_told_from_a_full_disk(tmp_path):
    checkpoint = begun(tmp_path)
    for file in checkpoint.folder.iterdir():
        file.unlink()
    checkpoint.folder.rmdir()
    with pytest.raises(InputError, match=r"it was removed while this run was under way.*nothing was drawn"):
        checkpoint.make_room(9)
    with pytest.raises(InputError, match="it was removed while this run was under way"):
        checkpoint.save(1, ROWS)


@pytest.mark.parametrize("after", [True, False])
def test_what_is_whole_in_the_folder_is_not_called_lost_where_the_system_fails_after_it(tmp_path, monkeypatch, after):
    """The name is there, and what failed is to make it durable."""
    checkpoint = begun(tmp_path)
    checkpoint.make_room(9)
    write = RunFolder.write

    def failed(folder, name, content):
        write(folder, name, content if after else content[:-1])
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(RunFolder, "write", failed)
        with pytest.raises(InputError) as told:
            checkpoint.save_bytes("fit", b"drawn", "what was drawn is lost", LostDrawError)
    words = checkpoint.stopped(charged=True, lost="It is charged again.")
    assert isinstance(told.value, LostDrawError) is not after
    assert ("What was drawn is whole in it all the same" in str(told.value)) is after
    assert ("what was drawn is lost" in str(told.value)) is not after
    assert ("It is charged again." in words) is not after
    assert (" What was drawn is whole there, and is not charged again." in words) is after
    assert "Input/output error" in str(told.value)
    assert checkpoint.found_bytes("fit") == (b"drawn" if after else b"draw")


def test_of_what_cannot_be_read_nothing_is_said_to_be_whole(tmp_path, monkeypatch):
    checkpoint = begun(tmp_path)

    def failed(folder, name, content):
        os.mkfifo(checkpoint.folder / name)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(RunFolder, "write", failed)
    with pytest.raises(LostDrawError, match="what was drawn is lost"):
        checkpoint.save_bytes("fit", b"drawn", "what was drawn is lost", LostDrawError)
