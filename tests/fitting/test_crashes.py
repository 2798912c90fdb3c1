"""kill -9 in a fit, at every step: no second charge, no second draw, and what was saved is what leaves.

How often noise was drawn is counted outside the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal

import pytest

from fitting.worlds_of_fits import ROOMY, WORDS, fit, fitting, kinds, records
from hunting import hunt_error
from sottovoce.errors import InputError, LedgerUnavailableError, SottoError
from sottovoce.experts import encoded
from sottovoce.experts.encoded import EncodedRecords
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.files.run_folder import RunFolder
from sottovoce.fitting.fit import ENDING, Fitting, begun, finish
from sottovoce.fitting.fitted import Fitted
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.class_means import ClassMeans
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.ledger import account as ledger_account
from sottovoce.privacy.ledger.ledger import Account, Ledger
from survival.crashes import Fuse, OnTransaction, in_a_child, stops_in_the_removal

# The ledger is new: opening the account is its first writing transaction; charge, begin and release follow.
POINTS = {
    "before anything": lambda: Fuse(Fitting, "__init__", after=False),
    "planned": lambda: Fuse(Fitting, "affords", after=True),
    "the folder is made": lambda: Fuse(Checkpoint, "__init__", after=True),
    "the folder has no name yet": lambda: Fuse(os, "rename", after=False),
    "rehearsed": lambda: Fuse(Fitting, "_rehearsed", after=True),
    "charge half written": lambda: Fuse(ledger_account, "append", after=True),
    "charge not committed": lambda: OnTransaction("not committed", 2),
    "charged": lambda: Fuse(Account, "reserve", after=True),
    "half embedded": lambda: Fuse(FakeScorer, "embed_records", after=True, count=2),
    "embedded": lambda: Fuse(EncodedRecords, "read", after=True),
    "room is made": lambda: Fuse(Checkpoint, "make_room", after=True),
    "begun, not committed": lambda: OnTransaction("not committed", 3),
    "begun, nothing drawn": lambda: Fuse(Account, "begin", after=True),
    "noise is drawn": lambda: Fuse(RoundedGaussian, "release", after=True),
    "drawn": lambda: Fuse(ClassMeans, "fit", after=True),
    "not saved": lambda: Fuse(Checkpoint, "save_bytes", after=False),
    "half saved": lambda: Fuse(os, "replace", after=False),
    "saved": lambda: Fuse(Checkpoint, "save_bytes", after=True),
    "its note is not committed": lambda: OnTransaction("not committed", 4),
    "noted": lambda: Fuse(Account, "mark_released", after=True),
    "before the file is whole": lambda: Fuse(Checkpoint, "_write", after=False),
    "before the rename": lambda: Fuse(os, "replace", after=False, count=3),
    "the file is whole, the folder is there": lambda: Fuse(RunFolder, "end", after=False),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    drawn = ClassMeans.fit

    def counted(fitter, *given):
        with (tmp_path / "draws").open("a") as file:
            file.write("draw\n")
        return drawn(fitter, *given)

    monkeypatch.setattr(ClassMeans, "fit", counted)
    monkeypatch.setattr(encoded, "UNITS_TOGETHER", 16)
    return tmp_path


def fit_at(place, *, resume=False, count=40, **how) -> Fitted:
    out, ledger = place / "support.sotto", str(place / "notes.db")
    return fit(records(count), out=out, resume=resume, ledger=ledger, budget=ROOMY, **how)


def draws(place) -> int:
    return len((place / "draws").read_text().splitlines()) if (place / "draws").exists() else 0


def noted(place) -> list[str]:
    return kinds(Ledger(str(place / "notes.db"))) if (place / "notes.db").exists() else []


def saved(place) -> bytes | None:
    file = place / "support.sotto.partial" / "round-fit"
    return file.read_bytes() if file.exists() else None


def killed(point, place) -> int:
    def work():
        POINTS[point]().arm()
        fit_at(place)

    return in_a_child(work)


@pytest.mark.cases(1)
@pytest.mark.parametrize("point", POINTS)
def test_a_fit_that_is_killed_goes_on_under_its_charge_and_nothing_is_drawn_twice(point, place):
    assert killed(point, place) == -signal.SIGKILL, "the point was never reached"
    before, whole, folder = noted(place), saved(place), place / "support.sotto.partial"
    assert before in ([], ["reserve"], ["reserve", "draw"], ["reserve", "draw", "release"])
    assert draws(place) <= before.count("draw"), "noise was drawn before that was noted"
    if "draw" in before and whole is None:
        refused = hunt_error(lambda: fit_at(place, resume=True), list(WORDS.values()))
        assert "was stopped while it was drawn" in str(refused)
        assert noted(place) == before
        assert draws(place) <= 1
        assert not (place / "support.sotto").exists()
        return
    fitted = fit_at(place, resume=folder.exists())
    content = (place / "support.sotto").read_bytes()
    assert noted(place) == ["reserve", "draw", "release"]
    assert draws(place) == 1
    assert whole is None or whole[64:] == content, "what was saved is not what left"
    assert not folder.exists()
    ledger = Ledger(str(place / "notes.db"))
    (left,) = (entry for entry in ledger.history() if entry["kind"] == "release")
    assert hashlib.sha256(content).hexdigest() in left["detail"]
    read = Fitted.load(place / "support.sotto", model=FakeScorer())
    checks = read.certificate.checks(fitted.content_sha256, ledger, records())
    assert all(check.holds for check in checks), checks
    assert ledger.verify() == []


class _StopError(BaseException):
    """An order to stop."""


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("owner", "name", "charged", "again"),
    [
        (Account, "reserve", False, True),
        (EncodedRecords, "read", True, True),
        (Checkpoint, "make_room", True, True),
        (Account, "begin", True, True),
        (ClassMeans, "fit", True, False),
        (Checkpoint, "save_bytes", True, False),
        (Account, "mark_released", True, True),
        (Checkpoint, "_write", True, True),
    ],
    ids=lambda value: getattr(value, "__name__", value) if not isinstance(value, bool) else "",
)
def test_a_fit_that_is_stopped_leaves_its_folder_where_it_was_charged(owner, name, charged, again, place):
    def stop(*_, **__):
        raise _StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(_StopError):
            fit_at(place)
    assert noted(place).count("reserve") == charged
    assert (place / "support.sotto.partial").exists() is charged
    if not charged:
        assert fit_at(place).method == "class-means"
    elif again:
        assert fit_at(place, resume=True).method == "class-means"
    else:
        with pytest.raises(InputError, match="was stopped while it was drawn"):
            fit_at(place, resume=True)
    assert noted(place).count("reserve") == 1
    assert draws(place) <= 1


def stopped(place, owner=Account, name="mark_released"):
    def stop(*_, **__):
        raise _StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(_StopError):
            fit_at(place)


@pytest.mark.parametrize("harm", ["gone", "cut off"])
def test_a_fit_that_was_kept_whole_is_placed_whatever_became_of_its_draw(place, harm):
    stopped(place, RunFolder, "place")
    file = place / "support.sotto.partial" / "round-fit"
    kept = (place / "support.sotto.partial" / "whole-out").read_bytes()
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:100])
    assert fit_at(place, resume=True).method == "class-means"
    assert (place / "support.sotto").read_bytes() == kept
    assert not (place / "support.sotto.partial").exists()
    assert (noted(place), draws(place)) == (["reserve", "draw", "release"], 1)


def test_what_was_saved_and_is_damaged_is_neither_taken_nor_drawn_again(place):
    stopped(place, Checkpoint, "_write")
    file = place / "support.sotto.partial" / "round-fit"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="not whole on the disk"):
        fit_at(place, resume=True)
    assert noted(place) == ["reserve", "draw", "release"]
    assert draws(place) == 1


def test_what_was_saved_and_is_cut_off_before_it_was_noted_is_refused(place):
    stopped(place)
    file = place / "support.sotto.partial" / "round-fit"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match="not whole on the disk"):
        fit_at(place, resume=True)
    assert noted(place) == ["reserve", "draw"]
    assert draws(place) == 1


def test_another_file_in_the_place_of_what_was_saved_is_refused(place):
    stopped(place)
    file = place / "support.sotto.partial" / "round-fit"
    other = fit(records(end=" others"), ledger=":memory:").to_bytes()
    for forged in (other, file.read_bytes()[:64] + other, b"0" * 64 + other):
        file.write_bytes(forged)
        with pytest.raises(InputError, match="not whole on the disk"):
            fit_at(place, resume=True)
    assert noted(place) == ["reserve", "draw"]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"epsilon": 3.0}, "has parameters"),
        ({"delta": 1e-7}, "has parameters"),
        ({"pool": ["a text", "another"], "embedder": FakeScorer()}, "has parameters|has candidates"),
        ({"model": FakeScorer(name="another")}, "has model 'fake', not 'another'"),
        ({"adjacency": "add-remove"}, "keeps these records under replace-one"),
        ({"count": 41}, "no new records"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_request_is_not_made_under_the_charge(how, reason, place):
    stopped(place, Account, "begin")
    with pytest.raises(SottoError, match=reason):
        fit_at(place, resume=True, **how)
    assert noted(place) == ["reserve"]
    assert draws(place) == 0
    assert fit_at(place, resume=True).method == "class-means"


def test_a_folder_that_was_written_over_gets_no_other_request_under_the_charge(place):
    stopped(place, Account, "begin")
    header = place / "support.sotto.partial" / "run.json"
    other = fitting(ledger=str(place / "notes.db"), budget=ROOMY, epsilon=3.0)
    header.write_text(json.dumps({**json.loads(header.read_text("utf-8")), "terms": other.terms}), "utf-8")
    with pytest.raises(InputError, match="was charged for another request"):
        fit_at(place, resume=True, epsilon=3.0)
    assert noted(place) == ["reserve"]
    assert draws(place) == 0


def test_two_processes_do_not_work_in_one_folder(place):
    stopped(place, Account, "begin")
    out = place / "support.sotto"
    made = fitting(ledger=str(place / "notes.db"), budget=ROOMY)
    held = Checkpoint(out, made.terms, made.new_run_state(), resume=True, endings=(ENDING,))
    with pytest.raises(InputError, match="Another process writes into"):
        fit_at(place, resume=True)
    held.close()
    assert fit_at(place, resume=True).method == "class-means"


def test_a_folder_of_an_interrupted_run_is_not_begun_anew_and_a_file_is_not_overwritten(place):
    stopped(place, Account, "begin")
    with pytest.raises(InputError, match="holds an interrupted run"):
        fit_at(place)
    fit_at(place, resume=True)
    with pytest.raises(InputError, match="exists already"):
        fit_at(place)
    assert noted(place) == ["reserve", "draw", "release"]


def test_a_finished_fit_that_is_stopped_as_its_folder_is_removed_is_no_interrupted_one(place, monkeypatch):
    with monkeypatch.context() as stopped:
        stops_in_the_removal(stopped)
        with pytest.raises(KeyboardInterrupt):
            fit_at(place)
    assert fit_at(place, resume=True).method == "class-means"
    assert noted(place) == ["reserve", "draw", "release"]


def test_a_fit_whose_folder_is_moved_as_it_is_drawn_is_kept_in_it(place, monkeypatch):
    draw, folder = ClassMeans.fit, place / "support.sotto.partial"

    def moved(*given):
        folder.rename(place / "aside")
        folder.mkdir()
        (folder / "run.json").write_text("of another run")
        return draw(*given)

    with monkeypatch.context() as late:
        late.setattr(ClassMeans, "fit", moved)
        with pytest.raises(InputError, match="was moved, removed or replaced while this run was under way"):
            fit_at(place)
    assert [file.name for file in folder.iterdir()] == ["run.json"]
    shutil.rmtree(folder)
    (place / "aside").rename(folder)
    fit_at(place, resume=True)
    assert noted(place) == ["reserve", "draw", "release"]
    assert draws(place) == 1


@pytest.mark.parametrize("comes_up", [lambda file: file.mkdir(), lambda file: file.symlink_to("nothing")])
def test_a_folder_or_a_link_that_comes_up_in_place_of_the_output_is_no_output(place, monkeypatch, comes_up):
    draw, out = ClassMeans.fit, place / "support.sotto"

    def beside(*given):
        comes_up(out)
        return draw(*given)

    with monkeypatch.context() as late:
        late.setattr(ClassMeans, "fit", beside)
        with pytest.raises(InputError, match="is another file"):
            fit_at(place)
    out.rmdir() if out.is_dir() else out.unlink()
    fit_at(place, resume=True)
    assert (noted(place), draws(place)) == (["reserve", "draw", "release"], 1)


def test_a_fit_is_saved_where_the_key_of_its_ledger_cannot_be_read_behind_the_draw(place, monkeypatch):
    draw, secrets_in, drawn = ClassMeans.fit, ledger_account.secrets_in, []

    def noting(*given):
        drawn.append(1)
        return draw(*given)

    def away(*given):
        if drawn:
            raise LedgerUnavailableError("The ledger is away.")
        return secrets_in(*given)

    monkeypatch.setattr(ClassMeans, "fit", noting)
    monkeypatch.setattr(ledger_account, "secrets_in", away)
    fit_at(place)
    assert (noted(place), drawn) == (["reserve", "draw", "release"], [1])


def test_a_fit_beside_the_file_of_another_one_says_how_to_go_on_with_it(place):
    stopped(place)
    other = fit(records(end=" others"), ledger=":memory:", budget=ROOMY)
    (place / "support.sotto").write_bytes(other.to_bytes())
    with pytest.raises(InputError, match=r"to go on with the run in it, move .*support\.sotto away"):
        fit_at(place, resume=True)
    (place / "support.sotto").unlink()
    fit_at(place, resume=True)
    assert noted(place) == ["reserve", "draw", "release"]


def test_resuming_what_never_began_is_refused(place):
    with pytest.raises(InputError, match="There is nothing to resume"):
        fit_at(place, resume=True)
    assert noted(place) == []


def test_resuming_a_finished_fit_returns_it_and_a_file_of_another_request_is_refused(place):
    left = fit_at(place).content_sha256
    file = place / "support.sotto"
    assert fit_at(place, resume=True).content_sha256 == left
    for other in ({"count": 41}, {"epsilon": 2}):
        with pytest.raises(InputError, match=r"differs from what this command makes in: "):
            fit_at(place, resume=True, **other)
    content = bytearray(file.read_bytes())
    content[8 + int.from_bytes(content[:8], "little")] ^= 1  # of a number
    file.write_bytes(bytes(content))
    with pytest.raises(InputError, match="its certificate is for another support"):
        fit_at(place, resume=True)
    assert noted(place) == ["reserve", "draw", "release"]
    assert draws(place) == 1


def test_whatever_ends_a_run_lets_another_process_go_on_and_leaves_no_uncharged_folder(place):
    def stop(units):
        raise KeyboardInterrupt

    out, how = place / "support.sotto", {"ledger": str(place / "notes.db"), "budget": ROOMY}
    with pytest.raises(BrokenPipeError) as early, begun(fitting(records(40), **how), out, resume=False):
        raise BrokenPipeError
    assert not out.with_name("support.sotto.partial").exists()
    one = fitting(records(40), **how)
    with pytest.raises(KeyboardInterrupt) as late, begun(one, out, resume=False) as checkpoint:
        finish(one, checkpoint, on_units=stop)
    fit_at(place, resume=True)  # while the errors, and the folders that they hold, are alive
    assert isinstance(early.value, BrokenPipeError)
    assert isinstance(late.value, KeyboardInterrupt)
    assert noted(place) == ["reserve", "draw", "release"]
