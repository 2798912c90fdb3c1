"""``sotto ledger`` as an owner and an auditor type it, and the options that go with it elsewhere."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from sottovoce.cli import run
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.privacy.ledger import caps
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.synthesis.config import SynthesisConfig
from sottovoce.synthesis.synthesizer import Synthesizer
from sottovoce.tasks import Task

LABELS = "billing,fraud,shipping"


class Desk:
    """A folder with records and a ledger, and the command to be run in it."""

    def __init__(self, folder, capsys):
        self.folder, self._capsys = folder, capsys
        self.ledger = str(folder / "tickets.db")
        self.private = str(folder / "private.jsonl")
        rows = [{"text": f"note {i}", "label": LABELS.split(",")[i % 3]} for i in range(6)]
        (folder / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "new.jsonl").write_text("".join(f'{{"text": "question {i}"}}\n' for i in range(3)))

    def run(self, *words):
        self._capsys.readouterr()
        code = run([str(word) for word in words])
        told = self._capsys.readouterr()
        assert "Traceback" not in told.out + told.err
        assert "Internal error" not in told.err
        return code, told.out, told.err

    def ask(self, *more):
        base = ["ask", "A question.", "--private", self.private, "--labels", LABELS, "--model", "fake"]
        return self.run(
            *base, "--ledger", self.ledger, *(["--epsilon", "0.5"] if "--epsilon" not in more else []), *more
        )

    def grant(self, *more):
        return self.run("ledger", "grant", self.ledger, "--private", self.private, *more)

    def show(self):
        code, out, _ = self.run("ledger", "show", self.ledger, "--json")
        assert code == 0
        return json.loads(out)["data_sets"][0]


@pytest.fixture
def desk(tmp_path, capsys):
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder, capsys)


def test_an_owner_shares_a_budget_out_and_callers_spend_it(desk):
    assert desk.grant("--budget", "4")[0] == 0
    code, _, err = desk.grant("--caller", "alice", "--group", "support", "--budget", "1")
    assert (code, "--group support" in err) == (3, True)
    assert desk.grant("--group", "support", "--budget", "2")[0] == 0
    code, _, err = desk.grant("--caller", "alice", "--group", "support", "--budget", "1")
    assert code == 0
    assert "caller 'alice'" in err
    assert "replace-one" in err
    assert desk.ask("--caller", "alice")[0] == desk.ask("--caller", "alice")[0] == 0
    code, out, err = desk.ask("--caller", "alice")
    assert (code, out) == (3, "")
    assert "0 left of 1 for the caller 'alice'" in err
    code, out, err = desk.ask("--caller", "mallory")
    assert (code, out) == (3, "")
    assert "no caller 'mallory'" in err
    assert desk.ask()[0] == 0
    told = desk.show()
    assert (told["spent"], told["answers"]) == (1.5, 3)
    assert told["callers"][0]["caller"] == "alice"
    assert (told["callers"][0]["left"], told["groups"][0]["left"]) == (0.0, 1.0)
    code, out, _ = desk.run("ledger", "show", desk.ledger)
    assert "caller alice in support: epsilon 1 of 1 used; 2 answers" in out
    assert "group support" in out
    assert "spent" not in out
    _, out, _ = desk.run("ledger", "show", desk.ledger, "--long")
    assert "1 of 1 epsilon spent, 0 left" in out


@pytest.mark.slow
def test_a_cap_of_an_earlier_version_is_noted_and_its_remedy_can_be_reached(desk, monkeypatch):
    assert desk.grant("--budget", "8,1e-6")[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(caps, "_check", lambda *_: None)  # as versions wrote it that took a cap in any currency
        assert desk.grant("--caller", "ann", "--budget", "2,1e-6,failure=1e-6")[0] == 3  # written, and not opened
    assert desk.ask()[0] == 0
    code, _, err = desk.ask("--caller", "ann")
    assert (code, "ledger grant --caller ann --budget" in err) == (3, True)
    code, out, _ = desk.run("ledger", "verify", desk.ledger, "--json")
    told = json.loads(out)
    assert (code, told["intact"], told["problems"], len(told["notes"])) == (0, True, [], 1)
    code, out, _ = desk.run("ledger", "verify", desk.ledger)
    assert (code, "note: the cap of caller 'ann' counts epsilon" in out) == (0, True)
    assert desk.grant("--caller", "ann", "--budget", "2,1e-6")[0] == 0
    assert desk.ask("--caller", "ann")[0] == 0
    code, out, _ = desk.run("ledger", "verify", desk.ledger, "--json")
    assert (code, json.loads(out)["notes"]) == (0, [])


def test_a_run_over_a_file_is_charged_to_its_caller(desk):
    desk.grant("--budget", "4")
    desk.grant("--caller", "alice", "--budget", "1.4")
    words = ["classify", "--private", desk.private, "--queries", desk.folder / "new.jsonl", "--labels", LABELS]
    words += ["--model", "fake", "--ledger", desk.ledger, "--caller", "alice", "--epsilon", "0.5"]
    code, out, err = desk.run(*words)
    assert (code, out) == (3, "")
    assert "for the caller 'alice'" in err
    assert desk.run(*words, "--limit", "2")[0] == 0
    assert desk.show()["callers"][0]["answers"] == 2


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("more", "code", "problem"),
    [
        (["--caller", "alice"], 2, "--budget"),
        (["--caller", "", "--budget", "1"], 2, "caller is ''"),
        (["--group", "a\tb", "--budget", "1"], 2, "group is"),
        (["--caller", "alice", "--name", "x", "--budget", "1"], 2, "--name and --continues"),
        (["--caller", "alice", "--budget", "1,1e-6"], 3, "same delta"),
        (["--name", "second", "--budget", "9"], 3, "keeps these records as 'data', not as 'second'"),
        (["--budget", "8,1e-6,failure=1"], 2, "budget failure"),
        (["--budget", "8,1e-6,alpha=0.5"], 2, "budget alpha"),
    ],
)
def test_grants_that_make_no_sense_are_refused(desk, more, code, problem):
    desk.grant("--budget", "4")
    found, _, err = desk.grant(*more)
    assert (found, problem in err) == (code, True), err
    assert (desk.show()["callers"], desk.show()["budget"]["epsilon"]) == ([], 4.0)


def test_a_name_that_no_file_can_have_is_no_ledger(desk):
    name, proof = "n" * 300, str(desk.folder / "private.jsonl")
    for words in (
        ("ledger", "show", name),
        ("ledger", "show", "--ledger", name),
        ("ledger", "verify", name),
        ("ledger", "adopt", name),
        ("ledger", "export", name, "--out", "copy.jsonl"),
        ("verify", "certificate", proof, "--ledger", name),
    ):
        code, out, err = desk.run(*words)
        assert (code, out, f"There is no ledger '{name}'" in err) == (3, "", True), (words, err)


def test_a_ledger_that_may_not_be_looked_for_is_not_said_to_be_absent(desk, monkeypatch):
    is_file = Path.is_file

    def refused(path):
        if path.parent.name == "shut":
            raise PermissionError(13, "Permission denied")
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    code, _, err = desk.run("ledger", "show", "shut/tickets.db")
    assert (code, "may not be searched" in err, "There is no ledger" in err) == (3, True, False)


def test_a_cap_for_records_that_no_budget_was_opened_for_is_refused(desk):
    decisions = (["--caller", "alice", "--budget", "1"], ["--require-caller"], ["--continues", "data"])
    for decision in decisions:
        code, _, err = desk.grant(*decision)
        assert (code, "There is no ledger" in err, "--budget EPSILON,DELTA" in err) == (3, True, True)
        assert not (desk.folder / "tickets.db").exists()
    desk.grant("--budget", "1")
    (desk.folder / "private.jsonl").write_text('{"text": "another note of the desk", "label": "fraud"}\n')
    for decision in decisions[:2]:
        code, _, err = desk.grant(*decision)
        assert (code, "Open their budget first" in err) == (3, True)


def test_a_grant_that_names_no_ledger_opens_none_beside_the_one_of_the_records(desk, tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    asked = ("a parcel that was lost", "fees for a late card", "an address that moved", "a refund of May")
    rows = [{"text": f"Somebody asked about {topic}", "label": "fraud", "who": f"c{i // 2}"}
            for i, topic in enumerate(asked)]  # fmt: skip
    (desk.folder / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    grant = ["ledger", "grant", "--private", desk.private, "--budget", "3"]
    assert desk.grant("--budget", "2")[0] == 0
    kept = sorted((tmp_path / "home").rglob("*"))
    code, _, err = desk.run(*grant, "--unit", "who")  # another account: a budget of its own on top
    assert (code, "These are no new records" in err, "sotto ledger grant" in err) == (3, True, True), err
    assert [file for file in sorted((tmp_path / "home").rglob("*.db")) if file not in kept] == []
    assert desk.run(*grant)[0] == 0
    assert desk.show()["budget"]["epsilon"] == 3
    named = [*grant[:2], str(desk.folder / "second.db"), *grant[2:], "--unit", "who"]
    assert desk.run(*named)[0] == 0, "a second one is opened where the owner names it"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("budget", "currency"), [("8,1e-6,alpha=16", "rdp at alpha 16"), ("8,1e-6,failure=5e-7", "rho")]
)
def test_budgets_of_every_kind_work_from_end_to_end(desk, budget, currency):
    assert desk.ask("--budget", budget)[0] == 0
    assert desk.ask("--epsilon", "0.25")[0] == 0
    told = desk.show()
    assert (told["currency"], told["answers"]) == (currency, 2)
    assert (told["budget"]["alpha"], told["budget"]["failure_delta"]) in ((16.0, 0.0), (None, 5e-7))
    assert desk.run("ledger", "verify", desk.ledger)[0] == desk.run("ledger", "recompute", desk.ledger)[0] == 0


# Ids of answers


def test_an_answer_that_left_does_not_leave_again_under_its_name(desk):
    code, out, _ = desk.ask("--release-id", "ticket-17", "--json")
    assert (code, json.loads(out)["release_id"]) == (0, "ticket-17")
    code, out, err = desk.ask("--release-id", "ticket-17")
    assert (code, out) == (3, "")
    assert "used before" in err
    assert desk.show()["answers"] == 1
    code, _, err = desk.ask("--release-id", "a b")
    assert (code, "--release-id" in err) == (2, True)


# Exports and recomputations


def test_an_auditor_agrees_with_a_ledger_and_its_export(desk):
    for _ in range(3):
        assert desk.ask()[0] == 0
    out = desk.folder / "history.jsonl"
    code, stdout, err = desk.run("ledger", "export", desk.ledger, "--out", out)
    assert (code, stdout, "7 entries" in err) == (0, "", True)
    assert "note 1" not in out.read_text()
    for source in (out, desk.ledger):
        for accountant in ("zcdp", "rdp", "pure", "pld"):
            code, stdout, _ = desk.run("ledger", "recompute", source, "--accountant", accountant, "--json")
            told = json.loads(stdout)
            assert (code, told["agrees"], told["entries"], told["problems"]) == (0, True, 7, [])
            (one,) = told["data_sets"]
            assert one["spent"]["ledger"] == one["spent"]["recomputed"] == pytest.approx(3 * 0.03114209, abs=1e-7)
            assert (one["adjacency"], one["unit"], one["answers"]) == ("replace-one", "record", 3)
            assert one["epsilon_is"] == "valid only for a plan fixed in advance"
            assert 0.5 < one["epsilon"] <= 1.5 if accountant == "pure" else 0 < one["epsilon"] < 3
    code, told, _ = desk.run("ledger", "recompute", out, "--accountant", "rdp")
    assert code == 0
    assert "valid only for a plan fixed in advance" in told
    assert "whatever was asked, at most the budget: epsilon 8 at delta 1e-06" in told


def test_an_export_of_an_older_version_is_compared_and_not_said_to_agree(desk):
    out = Path(__file__).parents[1] / "privacy" / "ledger" / "format_2" / "export.jsonl"
    code, told, _ = desk.run("ledger", "recompute", out)
    assert code == 0
    assert "agrees" not in told
    assert "10 entries: no difference was found, and 3 of them cannot be checked (1, 8, 9)" in told
    assert "no charge stood where these entries are, rest on this file alone" in told
    assert "at most the budget that this file states: epsilon 100 at delta 1e-05" in told
    code, told, _ = desk.run("ledger", "recompute", out, "--json")
    told = json.loads(told)
    assert (code, told["agrees"], told["unheld"], told["problems"]) == (0, None, [1, 8, 9], [])


def test_a_disagreement_is_exit_code_three(desk):
    desk.ask()
    with sqlite3.connect(desk.ledger) as raw:
        raw.execute("UPDATE sotto_data_set SET spent = spent - 1")
    code, out, _ = desk.run("ledger", "recompute", desk.ledger, "--json")
    assert (code, json.loads(out)["agrees"]) == (3, False)
    code, out, _ = desk.run("ledger", "recompute", desk.ledger)
    assert (code, "does NOT agree" in out) == (3, True)
    assert desk.run("ledger", "verify", desk.ledger)[0] == 3


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["recompute", "absent.jsonl"], "absent.jsonl cannot be read"),
        (["recompute", "private.jsonl"], "no ledger's export"),
        (["recompute", "tickets.db", "--accountant", "moments"], "zcdp, rdp, pure, pld"),
        (["recompute"], "Missing argument"),
        (["export", "tickets.db"], "--out"),
        (["export", "tickets.db", "--out", "no/such/folder.jsonl"], "cannot be written"),
        (["recompute", "mysql://a:secret@b/c"], "postgresql://USER@HOST/DATABASE"),
        (["show"], "a ledger file"),
    ],
)
def test_what_cannot_be_done_is_exit_code_two(desk, monkeypatch, words, problem):
    desk.ask()
    monkeypatch.chdir(desk.folder)
    code, out, err = desk.run("ledger", *words)
    assert (code, out) == (2, "")
    assert problem in err
    assert "secret" not in err


@pytest.mark.parametrize("value", ["x", ""])
@pytest.mark.parametrize("column", ["alpha", "failure_delta", "delta", "epsilon"])
def test_a_cell_that_is_no_number_is_named_by_recompute(desk, column, value):
    assert desk.grant("--budget", "4")[0] == 0
    with sqlite3.connect(desk.ledger) as connection:
        connection.execute(f"UPDATE sotto_data_set SET {column} = ?", (value,))
    connection.close()
    code, out, err = desk.run("ledger", "recompute", desk.ledger)
    assert (code, out) == (2, "")
    assert f"data set 'data': {column} is {value!r}, which is no number" in " ".join(err.split())


@pytest.mark.parametrize("column", ["spent", "failure_spent"])
def test_a_sum_that_is_no_number_is_named_by_recompute(desk, column):
    assert desk.grant("--budget", "4")[0] == 0
    with sqlite3.connect(desk.ledger) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE sotto_data_set SET {column} = 'x'")
    connection.close()
    code, _, err = desk.run("ledger", "recompute", desk.ledger)
    assert (code, f"{column} is 'x'" in " ".join(err.split())) == (2, True)


def _answers(**given):
    session = PrivateICL(task=Task(labels=LABELS.split(",")), model=FakeScorer(), **given)
    list(session.classify(["one", "two"], epsilon=0.5))


def _texts(**given):
    writer = Synthesizer(
        writing=Task(labels=LABELS.split(",")[:2]), order=SynthesisConfig(1, 4, experts=2), epsilon=1, delta=1e-7,
        model=FakeStepper(), **given,
    )  # fmt: skip
    assert sum(1 for _ in writer.rounds()) == 1


@pytest.mark.parametrize(("releases", "count"), [(_answers, 2), (_texts, 1)])
@pytest.mark.parametrize("seeded", [False, True])
def test_releases_with_noise_from_a_seed_are_counted_and_nothing_is_promised_of_them(desk, releases, count, seeded):
    made_up = [Row(i, {"text": f"note {i}", "label": LABELS.split(",")[i % 2]}) for i in range(6)]
    releases(
        records=PrivateRecords(made_up, source="made up", synthetic=True),
        budget=Budget(8, 1e-6),
        ledger=desk.ledger,
        randomness=SeededRandomness(1) if seeded else None,
    )
    assert (desk.show()["seeded_noise"], desk.show()["answers"]) == (count * seeded, count)
    code, out, _ = desk.run("ledger", "show", desk.ledger)
    said = f"without a guarantee: 0 allowed by name, 0 with isolation not verified, {count} with seeded noise"
    assert (code, said in out, "The budget does NOT cover" in out) == (0, seeded, seeded)
    assert ("everything released through this ledger stays within each budget" in out) is not seeded
