"""kill -9 in a run: what left is charged, a charge is drawn once, and what did not begin is not charged again.

How often something was drawn is counted outside the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from sottovoce.cli import run
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.files.run_folder import RunFolder
from sottovoce.methods.decoding.decoder import TokenSampler
from sottovoce.privacy.ledger import account as ledger_account
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.privacy.ledger.run_charges import Charge
from sottovoce.synthesis.synthesizer import Synthesizer
from survival.crashes import Fuse, OnTransaction, in_a_child
from synthesis.worlds_of_texts import rows

ROUNDS, LABELS = 3, "billing,fraud"

# The ledger is new: opening the account is its first writing transaction, the charge its second, then two a round.
POINTS = {
    "before anything": lambda: Fuse(Synthesizer, "__init__", after=False),
    "looked at the budget": lambda: Fuse(Account, "check", after=True),
    "the folder is made": lambda: Fuse(Checkpoint, "__init__", after=True),
    "the folder has no name yet": lambda: Fuse(os, "rename", after=False),
    "rehearsed": lambda: Fuse(Synthesizer, "_rehearse", after=True),
    "charge half written": lambda: Fuse(ledger_account, "append", after=True),
    "charge not committed": lambda: OnTransaction("not committed", 2),
    "charged": lambda: Fuse(Account, "reserve", after=True),
    "read, not begun": lambda: Fuse(Account, "begin", after=False),
    "begun, not committed": lambda: OnTransaction("not committed", 3),
    "begun, nothing drawn": lambda: Fuse(Account, "begin", after=True),
    "the first token is drawn": lambda: Fuse(TokenSampler, "next", after=True, count=3),  # two are rehearsed
    "in the second round": lambda: Fuse(TokenSampler, "next", after=True, count=15),
    "a round is drawn, not put aside": lambda: Fuse(Checkpoint, "save", after=False),
    "a round is half put aside": lambda: Fuse(os, "replace", after=False),
    "a round is put aside, not noted": lambda: Fuse(Checkpoint, "save", after=True),
    "its note is not committed": lambda: OnTransaction("not committed", 4),
    "its note is committed": lambda: OnTransaction("committed", 4),
    "the second is noted, not handed over": lambda: Fuse(Account, "mark_released", after=True, count=2),
    "before the certificate": lambda: Fuse(Synthesizer, "certificate", after=False),
    "before the rows are whole": lambda: Fuse(Checkpoint, "_write", after=False),
    "the rows are whole, the folder is there": lambda: Fuse(RunFolder, "end", after=False),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    drawn = Synthesizer._drawn

    def counted(icl, read):
        with (tmp_path / "draws").open("a") as file:
            file.write("draw\n")
        return drawn(icl, read)

    monkeypatch.setattr(Synthesizer, "_drawn", counted)
    lines = "".join(json.dumps(dict(row.values)) + "\n" for row in rows())
    (tmp_path / "notes.jsonl").write_text(lines, "utf-8")
    return tmp_path


def command(place: Path, *more: str) -> list[str]:
    return [
        "synthesize", "--private", str(place / "notes.jsonl"), "--labels", LABELS, "--model", "fake", "--per-label",
        str(ROUNDS), "--tokens", "6", "--experts", "6", "--epsilon", "9", "--ledger", str(place / "notes.db"),
        "--budget", "40,1e-5", "--out", str(place / "demos.jsonl"), *more,
    ]  # fmt: skip


def killed(point: str, place: Path, *more: str) -> int:
    def work():
        POINTS[point]().arm()
        assert run(command(place, *more)) == 0

    return in_a_child(work)


def entries(place: Path, kind: str) -> list[dict]:
    if not (place / "notes.db").exists():
        return []
    return [entry for entry in Ledger(str(place / "notes.db")).history() if entry["kind"] == kind]


def names(place: Path, kind: str) -> set[str]:
    """Charges by their names within the run."""
    found = [entry["release_id"].rpartition("-")[2] for entry in entries(place, kind)]
    assert len(set(found)) == len(found)
    return set(found)


def put_aside(place: Path) -> dict[str, str]:
    folder = place / "demos.jsonl.partial"
    files = [file for file in folder.glob("round-*") if file.suffix != ".part"] if folder.exists() else ()
    return {file.name.removeprefix("round-"): file.read_text("utf-8") for file in files}


def draws(place: Path) -> int:
    return len((place / "draws").read_text().splitlines()) if (place / "draws").exists() else 0


@pytest.mark.cases(2)
@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_goes_on_and_no_charge_is_drawn_twice(point, place):
    assert killed(point, place) == -signal.SIGKILL, "the point was never reached"
    charged, begun, left, aside = (*(names(place, kind) for kind in ("reserve", "draw", "release")), put_aside(place))
    assert len(charged) in (0, ROUNDS), "all rounds are charged together"
    assert not draws(place) or len(charged) == ROUNDS, "nothing is drawn before the charge"
    lost = begun - left - set(aside)
    folder = place / "demos.jsonl.partial"
    again = command(place, *(["--resume"] if folder.exists() else []))
    assert run(again) == 0
    assert draws(place) <= len(entries(place, "reserve")), "something was drawn again under its charge"
    assert names(place, "reserve") == names(place, "draw")
    assert len(names(place, "reserve")) == ROUNDS + len(lost), "what did not begin was charged again"
    assert len(names(place, "release")) == ROUNDS
    assert names(place, "release") & lost == set(), "what was lost left"
    assert Ledger(str(place / "notes.db")).verify() == []
    noted = {entry["release_id"].rpartition("-")[2]: entry["detail"] for entry in entries(place, "release")}
    assert left <= set(aside)
    for name, text in aside.items():
        draw = hashlib.sha256(text.encode("utf-8")).hexdigest()
        assert draw in noted[name], "what left, or was whole on the disk, was drawn again"
    rows_of_it = (place / "demos.jsonl").read_text("utf-8").splitlines()
    assert len(rows_of_it) <= ROUNDS * 2
    assert not folder.exists()
    proof = ["verify", "certificate", str(place / "demos.jsonl.certificate.json")]
    assert run([*proof, "--ledger", str(place / "notes.db"), "--private", str(place / "notes.jsonl")]) == 0


@pytest.mark.slow
def test_every_draw_that_is_cut_off_costs_a_charge_until_the_budget_refuses(place, capfd):
    point, small = "the first token is drawn", ("--budget", "12,1e-5")
    for cut in range(1, 20):
        resume = ["--resume"] * (cut > 1)
        ended = killed(point, place, *small, *resume)
        if ended != -signal.SIGKILL:
            break
        assert len(entries(place, "reserve")) == ROUNDS + cut - 1
        assert draws(place) == cut
    assert 1 < cut < 20
    capfd.readouterr()
    assert run(command(place, *small, "--resume")) == 3
    assert "began to be drawn" in capfd.readouterr().err
    assert draws(place) == cut - 1
    shutil.copytree(place, place / "copy")
    assert run(command(place / "copy", *small, "--resume", "--without-lost")) == 0, "the other rounds are not lost"
    assert len(entries(place / "copy", "release")) == ROUNDS - 1
    proof = ["verify", "certificate", str(place / "copy" / "demos.jsonl.certificate.json")]
    assert run([*proof, "--ledger", str(place / "copy" / "notes.db")]) == 0
    assert run(command(place, *small, "--without-lost")) == 2
    assert (
        run(
            ["ledger", "grant", "--private", str(place / "notes.jsonl"), str(place / "notes.db"), "--budget", "40,1e-5"]
        )
        == 0
    )
    assert run(command(place, "--budget", "40,1e-5", "--resume")) == 0
    certificate = json.loads((place / "demos.jsonl.certificate.json").read_text("utf-8"))
    assert len(certificate["ledger"]) == ROUNDS + cut - 1
    assert certificate["epsilon"] > 9
    proof = ["verify", "certificate", str(place / "demos.jsonl.certificate.json")]
    assert run([*proof, "--ledger", str(place / "notes.db"), "--private", str(place / "notes.jsonl")]) == 0


def test_there_are_points_on_both_sides_of_the_charge_and_of_a_release():
    assert len(POINTS) >= 10


# Planted mistakes


survives = test_a_run_that_is_killed_goes_on_and_no_charge_is_drawn_twice


def test_a_round_that_is_handed_over_without_its_note_is_caught(place, monkeypatch):
    # On a resume every file counts as released, whether the ledger knows it or not.
    monkeypatch.setattr(
        Synthesizer, "_noted", lambda writer, checkpoint, one: (checkpoint.found(one.name) or [None])[0]
    )
    with pytest.raises(AssertionError):
        survives("a round is put aside, not noted", place)


def test_a_second_draw_of_a_round_that_was_whole_on_the_disk_is_caught(place, monkeypatch):
    monkeypatch.setattr(Synthesizer, "_noted", lambda writer, checkpoint, one: None)
    with pytest.raises(AssertionError):
        survives("a round is put aside, not noted", place)


def test_a_second_draw_under_the_same_charge_is_caught(place, monkeypatch):
    # As it was: a draw that is cut off leaves no trace, and is made again.
    monkeypatch.setattr(Account, "begin", lambda account, ids: None)
    with pytest.raises(AssertionError, match="drawn again"):
        survives("the first token is drawn", place)


def test_a_new_id_on_every_resume_is_caught(place, monkeypatch):
    original = Charge.id.fget
    assert killed("charged", place) == -signal.SIGKILL
    monkeypatch.setattr(Charge, "id", property(lambda one: f"{original(one)}-again"))
    assert run(command(place, "--resume")) == 0
    assert len(entries(place, "reserve")) == 2 * ROUNDS, "the mistake charges twice, and the count above shows it"


def test_a_charge_after_the_draw_is_caught(place, monkeypatch):
    reserve, begin, mark = Account.reserve, Account.begin, Account.mark_released
    late = []
    monkeypatch.setattr(Account, "reserve", lambda account, asked, allow_retry=True: late.append((account, asked)))
    monkeypatch.setattr(Account, "begin", lambda account, ids: None)

    def charge_late(account, ids, content=None, **isolated):
        while late:
            reserve(*late.pop())
        begin(account, ids)
        mark(account, ids, content, **isolated)

    monkeypatch.setattr(Account, "mark_released", charge_late)
    with pytest.raises(AssertionError, match="before the charge"):
        survives("a round is put aside, not noted", place)
