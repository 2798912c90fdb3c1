"""kill -9 in the middle of a run: what left is charged, nothing is charged twice, nothing that left is drawn again."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from sottovoce import staging as staging_module
from sottovoce.cli import run
from sottovoce.methods.decoding import Chooser
from sottovoce.privacy import ledger_account
from sottovoce.privacy.ledger import Account, Ledger
from sottovoce.staging import Staging
from sottovoce.synthesis import Synthesizer
from survival.crashes import Fuse, OnTransaction, in_a_child
from synthesis.worlds_of_texts import rows

ROUNDS, LABELS = 3, "billing,fraud"

# The ledger is new: opening the account is its first writing transaction, the charge its second, then one a round.
POINTS = {
    "before anything": lambda: Fuse(Synthesizer, "__init__", after=False),
    "looked at the budget": lambda: Fuse(Account, "check", after=True),
    "the folder is made": lambda: Fuse(Staging, "__init__", after=True),
    "its header is half there": lambda: Fuse(staging_module.os, "replace", after=False),
    "rehearsed": lambda: Fuse(Synthesizer, "_rehearse", after=True),
    "charge half written": lambda: Fuse(ledger_account, "append", after=True),
    "charge not committed": lambda: OnTransaction("not committed", 2),
    "charged": lambda: Fuse(Account, "reserve", after=True),
    "the first token is drawn": lambda: Fuse(Chooser, "next", after=True),
    "in the second round": lambda: Fuse(Chooser, "next", after=True, count=15),
    "a round is drawn, not put aside": lambda: Fuse(Staging, "put", after=False),
    "a round is half put aside": lambda: Fuse(staging_module.os, "replace", after=False, count=2),
    "a round is put aside, not noted": lambda: Fuse(Staging, "put", after=True),
    "its note is not committed": lambda: OnTransaction("not committed", 3),
    "its note is committed": lambda: OnTransaction("committed", 3),
    "the second is noted, not handed over": lambda: Fuse(Account, "mark_released", after=True, count=2),
    "before the certificate": lambda: Fuse(Synthesizer, "certificate", after=False),
    "before the rows are whole": lambda: Fuse(Staging, "finish", after=False),
    "the rows are whole, the folder is there": lambda: Fuse(shutil, "rmtree", after=False),
}


@pytest.fixture
def place(tmp_path):
    lines = "".join(json.dumps(dict(row.values)) + "\n" for row in rows())
    (tmp_path / "notes.jsonl").write_text(lines, "utf-8")
    return tmp_path


def command(place: Path, *more: str) -> list[str]:
    return [
        "synthesize", "--private", str(place / "notes.jsonl"), "--labels", LABELS, "--model", "fake", "--per-label",
        str(ROUNDS), "--tokens", "6", "--experts", "6", "--epsilon", "9", "--ledger", str(place / "notes.db"),
        "--budget", "40,1e-5", "--out", str(place / "demos.jsonl"), *more,
    ]  # fmt: skip


def killed(point: str, place: Path) -> int:
    def work():
        POINTS[point]().arm()
        assert run(command(place)) == 0

    return in_a_child(work)


def entries(place: Path, kind: str) -> list[dict]:
    if not (place / "notes.db").exists():
        return []
    return [entry for entry in Ledger(str(place / "notes.db")).history() if entry["kind"] == kind]


def put_aside(place: Path) -> dict[str, str]:
    folder = place / "demos.jsonl.partial"
    files = folder.glob("round-?") if folder.exists() else ()
    return {file.name: file.read_text("utf-8") for file in files}


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_goes_on_without_a_second_charge_or_a_second_draw(point, place):
    assert killed(point, place) == -signal.SIGKILL, "the point was never reached"
    charged, left, aside = len(entries(place, "reserve")), len(entries(place, "release")), put_aside(place)
    assert charged in (0, ROUNDS), "all rounds are charged together"
    assert not aside or charged == ROUNDS, "nothing is drawn before the charge"
    folder = place / "demos.jsonl.partial"
    if charged == 0 and folder.exists() and not (folder / "run.json").exists():
        assert run(command(place, "--resume")) == 2
        shutil.rmtree(folder)
    again = command(place, *(["--resume"] if folder.exists() else []))
    assert run(again) == 0
    assert Counter(entry["release_id"] for entry in entries(place, "reserve")).most_common(1)[0][1] == 1
    assert len(entries(place, "reserve")) == len(entries(place, "release")) == ROUNDS
    assert Ledger(str(place / "notes.db")).verify() == []
    noted = {entry["release_id"].rpartition("-")[2]: entry["detail"] for entry in entries(place, "release")}
    assert left <= len(aside)
    for name, text in aside.items():
        draw = hashlib.sha256(text.encode("utf-8")).hexdigest()
        assert draw in noted[name.removeprefix("round-")], "what left, or was whole on the disk, was drawn again"
    rows_of_it = (place / "demos.jsonl").read_text("utf-8").splitlines()
    assert len(rows_of_it) <= ROUNDS * 2
    assert not folder.exists()
    proof = ["verify", "certificate", str(place / "demos.jsonl.certificate.json")]
    assert run([*proof, "--ledger", str(place / "notes.db"), "--private", str(place / "notes.jsonl")]) == 0


def test_there_are_points_on_both_sides_of_the_charge_and_of_a_release():
    assert len(POINTS) >= 10


# Planted mistakes


def survives(point: str, place: Path) -> None:
    test_a_run_that_is_killed_goes_on_without_a_second_charge_or_a_second_draw(point, place)


def test_a_round_that_is_handed_over_without_its_note_is_caught(place, monkeypatch):
    # On a resume every file counts as released, whether the ledger knows it or not.
    monkeypatch.setattr(
        Synthesizer, "_noted", lambda writer, staging, number, one: (staging.found(number) or [None])[0]
    )
    with pytest.raises(AssertionError):
        survives("a round is put aside, not noted", place)


def test_a_second_draw_of_a_round_that_was_whole_on_the_disk_is_caught(place, monkeypatch):
    monkeypatch.setattr(Synthesizer, "_noted", lambda writer, staging, number, one: None)
    with pytest.raises(AssertionError, match="drawn again"):
        survives("a round is put aside, not noted", place)


def test_a_new_id_on_every_resume_is_caught(place, monkeypatch):
    original = Synthesizer._id
    assert killed("charged", place) == -signal.SIGKILL
    monkeypatch.setattr(Synthesizer, "_id", staticmethod(lambda kept, number: f"{original(kept, number)}-again"))
    assert run(command(place, "--resume")) == 0
    assert len(entries(place, "reserve")) == 2 * ROUNDS, "the mistake charges twice, and the count above shows it"


def test_a_charge_after_the_read_is_caught(place, monkeypatch):
    reserve, mark = Account.reserve, Account.mark_released
    late = []
    monkeypatch.setattr(Account, "reserve", lambda account, asked, again=True: late.append((account, asked)))

    def charge_late(account, ids, content=None):
        while late:
            reserve(*late.pop())
        mark(account, ids, content)

    monkeypatch.setattr(Account, "mark_released", charge_late)
    with pytest.raises(AssertionError, match="before the charge"):
        survives("a round is put aside, not noted", place)
