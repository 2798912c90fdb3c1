"""``sotto fit``, ``sotto predict`` and ``sotto ask --fitted``, as a new user types them."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest

from fits import promising_nothing
from sottovoce.cli import run
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.fitting.fit import Fitting
from sottovoce.fitting.fitted import Fitted
from sottovoce.privacy.ledger.ledger import Ledger
from survival.crashes import stops_in_the_removal

LABELS = "billing,fraud,shipping"
TEXTS = {
    "billing": "a fee was charged twice on invoice number {}",
    "fraud": "somebody else used my stolen card in town {}",
    "shipping": "the parcel is late and the courier lost box {}",
}
QUERIES = [
    {"id": "a", "text": "a fee was charged twice on my invoice", "label": "billing"},
    {"id": "b", "text": "somebody used my stolen card", "label": "fraud"},
    {"id": "c", "text": "the courier lost the parcel", "label": "shipping"},
]


def call(capsys, *arguments):
    code = run([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    rows = [{"text": text.format(i), "label": label} for i in range(200) for label, text in TEXTS.items()]
    (tmp_path / "tickets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUERIES))
    return tmp_path


def fit(capsys, *more):
    return call(
        capsys, "fit", "--private", "tickets.jsonl", "--labels", LABELS, "--model", "fake", "--epsilon", 8,
        "--out", "support.sotto", *more,
    )  # fmt: skip


def test_a_fit_is_paid_once_and_answers_are_free(place, capsys):
    code, out, err = fit(capsys)
    assert (code, out) == (0, "")
    assert "epsilon 8 of 8 used" in err
    code, _, err = fit(capsys, "--resume")
    assert (code, "Nothing to do: support.sotto holds what this run fitted. Nothing was charged." in err) == (0, True)
    (ledger,) = (place / "home" / "ledgers").glob("*.db")
    charged = Counter(entry["kind"] for entry in Ledger(str(ledger)).history())
    assert charged == {"open": 1, "reserve": 1, "draw": 1, "release": 1}
    before = ledger.read_bytes()
    for _ in range(2):
        code, out, err = call(capsys, "predict", "support.sotto", "--queries", "new.jsonl")
        assert code == 0
        rows = [json.loads(line) for line in out.splitlines()]
        assert [(row["id"], row["value"]) for row in rows] == [("a", "billing"), ("b", "fraud"), ("c", "shipping")]
        assert {"id", "value", "method", "epsilon", "delta", "adjacency", "release_id"} == set(rows[0])
        assert rows[0]["epsilon"] == 8.0
        assert "nothing now" in err
        assert "post-processing of support.sotto" in err
    assert ledger.read_bytes() == before
    (place / "tickets.jsonl").unlink()
    ledger.unlink()
    code, out, _ = call(capsys, "ask", "somebody used my stolen card", "--fitted", "support.sotto")
    assert (code, out.strip()) == (0, "fraud")


@pytest.mark.slow
def test_a_finished_fit_of_another_caller_is_not_ones_own(place, capsys):
    fit(capsys, "--ledger", "tickets.db")
    cap = ("--caller", "ann", "--budget", "8,1e-6,failure=1e-6")
    assert call(capsys, "ledger", "grant", "tickets.db", "--private", "tickets.jsonl", *cap)[0] == 0
    code, _, err = fit(capsys, "--ledger", "tickets.db", "--caller", "ann", "--resume")
    assert (code, "differs from what this command makes in: caller." in err) == (2, True), err


def test_a_resume_where_nothing_is_known_settles_no_budget(place, capsys):
    code, _, err = fit(capsys, "--resume")
    assert (code, "nothing to resume: these records have no ledger there yet" in err) == (2, True)
    assert not list((place / "home").rglob("*.db"))


@pytest.mark.slow
def test_a_resume_where_a_first_run_opened_no_budget_has_nothing_to_resume(place, capsys):
    Ledger("tickets.db").count()  # a run that was stopped between its ledger and the account in it
    for more in ([], ["--budget", "8,1e-6"]):
        code, _, err = fit(capsys, "--ledger", "tickets.db", "--resume", *more)
        assert (code, "There is nothing to resume" in err) == (2, True), err
        assert "--budget" not in err
    assert Ledger("tickets.db").is_empty()
    assert fit(capsys, "--ledger", "tickets.db")[0] == 0


@pytest.mark.slow
def test_the_summary_and_the_scores_are_json(place, capsys):
    fit(capsys)
    code, out, _ = call(capsys, "predict", "support.sotto", "--queries", "new.jsonl", "--json", "--scores")
    summary = json.loads(out)
    assert code == 0
    assert summary["accuracy"] == 1.0
    assert summary["remaining"] is None
    rests = summary["certificate"]
    assert (rests["file"], rests["epsilon"]) == ("support.sotto", 8.0)
    code, out, _ = call(capsys, *rests["check"].split()[1:], "--json")
    assert (code, json.loads(out)["content_sha256"]) == (0, rests["content_sha256"])
    assert all(sum(row["scores"].values()) == pytest.approx(1) for row in summary["rows"])
    assert all(max(row["scores"], key=row["scores"].get) == row["value"] for row in summary["rows"])
    promising_nothing(Fitted.load("support.sotto")).save("unsure.sotto")
    code, out, err = call(capsys, "predict", "unsure.sotto", "--queries", "new.jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {(row["epsilon"], row["delta"], row["adjacency"]) for row in rows} == {(None, None, "replace-one")}
    assert "nothing now; no privacy guarantee by 'sotto fit'" in err
    code, out, _ = call(capsys, "predict", "unsure.sotto", "--queries", "new.jsonl", "--json")
    summary = json.loads(out)
    assert {summary[part]["epsilon"] for part in ("spent", "certificate")} == {None}
    code, out, _ = call(capsys, "predict", "support.sotto", "--queries", "new.jsonl", "--out", "answers.jsonl")
    assert (code, out) == (0, "")
    assert len((place / "answers.jsonl").read_text().splitlines()) == 3
    code, _, err = call(capsys, "predict", "support.sotto", "--queries", "new.jsonl", "--out", "answers.jsonl")
    assert code == 2
    assert "is not overwritten" in err


def test_the_certificate_in_the_file_is_verified(place, capsys):
    fit(capsys, "--ledger", "tickets.db")
    code, out, _ = call(
        capsys,
        "verify",
        "certificate",
        "support.sotto",
        "--ledger",
        "tickets.db",
        "--private",
        "tickets.jsonl",
        "--json",
    )
    assert code == 0
    assert {check["holds"] for check in json.loads(out)["checks"]} == {True}
    content = bytearray((place / "support.sotto").read_bytes())
    content[8 + int.from_bytes(content[:8], "little")] ^= 1  # of a number
    (place / "spoilt.sotto").write_bytes(bytes(content))
    code, _, err = call(capsys, "verify", "certificate", "spoilt.sotto")
    assert code == 2
    assert "certificate is for another support" in err


def test_a_second_fit_is_refused_and_charges_nothing(place, capsys):
    fit(capsys)
    code, _, err = call(
        capsys, "fit", "--private", "tickets.jsonl", "--labels", LABELS, "--model", "fake", "--out", "other.sotto"
    )
    assert code == 3
    assert "Nothing was charged" in err
    assert not (place / "other.sotto").exists()
    assert not (place / "other.sotto.partial").exists()


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--out", "support.txt"), 2, "must end in .sotto"),
        (("--epsilon", "0"), 2, "epsilon"),
        (("--delta", "0", "--method", "class-means"), 2, "above 0 for the method 'class-means'"),
        (("--method", "class-mean"), 2, "did you mean"),
        (("--adjacency", "swap"), 2, "adjacency"),
        (("--resume",), 2, "nothing to resume"),
        (("-o", "sigma=nan"), 2, "sigma"),
        (("--labels", "billing,fraud"), 2, "outside the public label set"),
        (("--engine", "spark"), 2, "one of local, ray"),
        (("--workers", "2"), 2, "left out without --engine ray"),
    ],
)
def test_bad_input_is_refused_in_words_and_nothing_is_left(place, capsys, more, code, words):
    found, out, err = fit(capsys, *more)
    assert (found, out) == (code, "")
    assert words.lower() in err.lower()
    assert sorted(path.name for path in place.iterdir() if path.name != "home") == ["new.jsonl", "tickets.jsonl"]


@pytest.mark.slow
def test_rows_of_a_unit_that_stand_apart_are_held_and_it_is_said(place, capsys, monkeypatch):
    lines = (place / "tickets.jsonl").read_text().splitlines()
    for name, unit, words in (("together", lambda i: i // 3, False), ("apart", lambda i: i % 7, True)):
        rows = [{**json.loads(line), "group": str(unit(i))} for i, line in enumerate(lines)]
        monkeypatch.setenv("SOTTOVOCE_HOME", str(place / f"home of {name}"))
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, _, err = call(
            capsys, "fit", "--private", f"{name}.jsonl", "--labels", LABELS, "--model", "fake", "--epsilon", 8,
            "--out", f"{name}.sotto",
        )  # fmt: skip
        assert code == 0
        assert ("All rows are held in memory: those of one 'group' do not stand together" in err) == words


def test_a_file_that_changes_before_the_charge_charges_nothing(place, capsys, monkeypatch):
    rehearsed = Fitting._rehearsed

    def changed(fitting):
        with (place / "tickets.jsonl").open("a") as file:
            file.write(json.dumps({"text": "one more", "label": "fraud"}) + "\n")
        return rehearsed(fitting)

    monkeypatch.setattr(Fitting, "_rehearsed", changed)
    code, _, err = fit(capsys)
    assert code == 2
    assert "tickets.jsonl: the file was changed while its records were in use" in err
    (ledger,) = (place / "home" / "ledgers").glob("*.db")
    assert Counter(entry["kind"] for entry in Ledger(str(ledger)).history()) == {"open": 1}
    assert not (place / "support.sotto.partial").exists()


@pytest.mark.slow
def test_what_is_said_of_a_fit_that_was_stopped_is_true_of_its_folder(place, capsys, monkeypatch):
    save, folder = Checkpoint.save_bytes, place / "support.sotto.partial"
    lines = (place / "tickets.jsonl").read_text().splitlines(keepends=True)
    (place / "tickets.jsonl").write_text("".join(lines[:30]))

    def stops(checkpoint, *given):
        save(checkpoint, *given)
        folder.rename(place / "aside")
        raise KeyboardInterrupt

    with monkeypatch.context() as moved:
        moved.setattr(Checkpoint, "save_bytes", stops)
        code, _, err = fit(capsys)
    assert (code, "its folder support.sotto.partial was moved or removed while it was under way" in err) == (130, True)
    (place / "aside").rename(folder)
    with monkeypatch.context() as stopped:
        stops_in_the_removal(stopped)
        code, _, err = fit(capsys, "--resume")
    assert (code, "support.sotto is whole, and the run is over" in err, "--resume" in err) == (130, True, False)
    code, _, err = fit(capsys, "--resume")
    assert (code, "Nothing to do" in err, "support.sotto.ended is left of a run that is over" in err) == (0, True, True)
    (ledger,) = (place / "home" / "ledgers").glob("*.db")
    assert Counter(entry["kind"] for entry in Ledger(str(ledger)).history())["reserve"] == 1


@pytest.mark.slow
def test_what_a_fitted_file_settles_is_refused_beside_it(place, capsys):
    fit(capsys)
    code, _, err = call(capsys, "ask", "a fee", "--fitted", "support.sotto", "--epsilon", 2)
    assert code == 2
    assert "left out with --fitted" in err


def test_a_dry_run_says_the_price_and_charges_nothing(place, capsys):
    code, out, _ = fit(capsys, "--dry-run", "--json")
    assert code == 0
    assert json.loads(out)["epsilon"] == 8.0
    assert not (place / "support.sotto").exists()
    assert fit(capsys)[0] == 0


@pytest.mark.slow
def test_a_fitted_file_is_known_by_its_ending_in_capitals_too(place, capsys):
    assert fit(capsys)[0] == 0
    (place / "support.sotto").rename(place / "SUPPORT.SOTTO")
    code, _, err = call(capsys, "verify", "certificate", "SUPPORT.SOTTO")
    assert (code, "NO" in err) == (0, False), err


@pytest.mark.cases(1)
@pytest.mark.parametrize("change", [{"statement": "Nothing is learned of anybody."}, {"epsilon": 0.001}], ids=repr)
def test_no_answer_comes_from_a_file_whose_certificate_states_what_does_not_follow(place, capsys, change):
    assert fit(capsys)[0] == 0
    fitted = Fitted.load("support.sotto")
    replace(fitted, certificate=replace(fitted.certificate, **change)).save("lie.sotto")
    for command in (["predict", "lie.sotto", "--queries", "new.jsonl"], ["ask", "a fee", "--fitted", "lie.sotto"]):
        code, out, err = call(capsys, *command)
        assert (code, out) == (2, "")
        assert "lie.sotto cannot be used: its certificate does not hold" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "counted"), [pytest.param("replace-one", True, marks=pytest.mark.slow), ("add-remove", False)]
)
def test_a_terminal_is_shown_the_number_of_units_where_it_is_public_alone(place, adjacency, counted):
    command = ["fit", "--private", "tickets.jsonl", "--labels", LABELS, "--model", "fake", "--epsilon", "8",
               "--adjacency", adjacency, "--out", "support.sotto"]  # fmt: skip
    code, shown = watched(command)
    assert code == 0
    assert "reading" in shown
    assert ("600" in shown) is counted


def watched(arguments):
    """A command in a terminal of its own; its exit code, and all that it shows on it."""
    pty = pytest.importorskip("pty", reason="no terminals of this kind on this system")
    ours, its = pty.openpty()
    words = [sys.executable, "-c", "from sottovoce.cli import main; main()", *arguments]
    with subprocess.Popen(words, stdin=its, stdout=its, stderr=its, env={**os.environ, "TERM": "xterm"}) as command:
        os.close(its)
        shown = b""
        with suppress(OSError):  # what reading the terminal of a process that has ended gives
            while piece := os.read(ours, 1 << 16):
                shown += piece
    os.close(ours)
    return command.returncode, shown.decode("utf-8", "replace")
