"""Rounds on their way out: nothing half-written, nothing handed over that the ledger does not know, nothing lost."""

from __future__ import annotations

import hashlib
import json
import stat

import pytest

from sottovoce.errors import InputError
from sottovoce.files.checkpoint import Checkpoint

ROWS = [{"text": "The fee is wrong.", "label": "billing"}, {"text": "Ça va 漢字", "label": "fraud"}]
TERMS = {"method": "prism", "epsilon": 1.0, "labels": ["billing", "fraud"]}


def begun(tmp_path, **changed):
    return Checkpoint(tmp_path / "demos.jsonl", {**TERMS, **changed}, {"run": "abc"}, resume=False)


def resumed(tmp_path, **changed):
    return Checkpoint(tmp_path / "demos.jsonl", {**TERMS, **changed}, {"run": "another"}, resume=True)


def test_a_round_that_was_saved_is_found_again_by_its_hash(tmp_path):
    content = begun(tmp_path).save(1, ROWS)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    assert content == hashlib.sha256(lines.encode()).hexdigest()
    assert resumed(tmp_path).load(1, content) == ROWS
    assert resumed(tmp_path).load(2, content) is None


@pytest.mark.parametrize("known", [None, "0" * 64])
def test_a_round_that_the_ledger_does_not_know_is_thrown_away(tmp_path, known):
    content = begun(tmp_path).save(1, ROWS)
    assert resumed(tmp_path).load(1, known) is None
    assert resumed(tmp_path).load(1, content) is None, "a draw that never left must not come back later"


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
    with pytest.raises(InputError, match="Pass --resume"):
        begun(tmp_path)


def test_a_folder_without_a_header_is_told_from_a_run(tmp_path):
    (tmp_path / "demos.jsonl.partial").mkdir()
    with pytest.raises(InputError, match="nothing was charged"):
        resumed(tmp_path)


def test_the_output_appears_whole_and_the_folder_goes(tmp_path):
    checkpoint = begun(tmp_path)
    checkpoint.save(1, ROWS)
    assert not checkpoint.out.exists()
    checkpoint.finish(ROWS)
    assert [json.loads(line) for line in checkpoint.out.read_text("utf-8").splitlines()] == ROWS
    assert not checkpoint.folder.exists()


def test_line_separators_of_unicode_do_not_cut_a_text(tmp_path):
    rows = [{"text": "one\u2028two\x85three\x1c"}]
    content = begun(tmp_path).save(1, rows)
    assert resumed(tmp_path).load(1, content) == rows


def test_a_file_that_is_no_round_is_none(tmp_path):
    checkpoint = begun(tmp_path)
    assert checkpoint.found(1) is None
    (checkpoint.folder / "round-1").write_text('{"text":', "utf-8")
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
        checkpoint.finish(ROWS, "{}")
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


@pytest.mark.parametrize(
    "goes_on",
    [lambda run: run.finish(ROWS), lambda run: run.save(2, ROWS), lambda run: run.make_room(9),
     lambda run: run.found(1), lambda run: run.load(1, None)],
    ids=["finish", "save", "make_room", "found", "load"],
)  # fmt: skip
def test_a_run_whose_folder_was_moved_leaves_the_one_that_took_its_name(tmp_path, goes_on):
    first, second = of_another_run(tmp_path)
    before = {file.name: file.read_bytes() for file in second.folder.iterdir()}
    with pytest.raises(InputError, match="was moved, removed or replaced while this run wrote into it"):
        goes_on(first)
    first.abandon()
    assert {file.name: file.read_bytes() for file in second.folder.iterdir()} == before
    assert not first.out.exists()
    second.finish(ROWS[:1])
    assert not second.folder.exists()


def test_a_folder_that_is_replaced_as_the_output_is_written_is_not_removed(tmp_path, monkeypatch):
    first = begun(tmp_path)

    def placed(whole, file):
        whole.rename(file)
        first.folder.rename(tmp_path / "moved")
        first.folder.mkdir()
        (first.folder / "round-1").write_text("paid", "utf-8")

    monkeypatch.setattr("sottovoce.files.checkpoint.place", placed)
    with pytest.raises(InputError, match=r"demos\.jsonl is written, and its folder .* was moved"):
        first.finish(ROWS)
    assert (first.folder / "round-1").read_text("utf-8") == "paid"


def test_a_run_that_is_under_way_is_not_called_interrupted(tmp_path):
    first = begun(tmp_path)
    with pytest.raises(InputError, match=r"Another process writes into demos\.jsonl\.partial at this moment"):
        begun(tmp_path)
    first.close()
    with pytest.raises(InputError, match="Pass --resume"):
        begun(tmp_path)


def test_a_folder_that_is_no_run_is_left_as_it_is(tmp_path):
    folder = tmp_path / "demos.jsonl.partial"
    folder.mkdir()
    with pytest.raises(InputError, match="no interrupted run"):
        resumed(tmp_path)
    assert list(folder.iterdir()) == []
