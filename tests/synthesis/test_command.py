"""``sotto synthesize`` and ``sotto verify certificate`` as a user types them."""

from __future__ import annotations

import json
import shutil

import pytest

from sottovoce.cli import run
from sottovoce.cli import synthesize as command
from sottovoce.models.fake import FakeStepper
from synthesis.worlds_of_texts import rows


def furnish(folder, patched):
    patched.setenv("SOTTOVOCE_HOME", str(folder / "home"))
    lines = "".join(json.dumps(dict(row.values)) + "\n" for row in rows())
    (folder / "notes.jsonl").write_text(lines, "utf-8")
    patched.chdir(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with rows, their certificate and their ledger, made once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        furnish(folder, patched)
        assert run([*COMMAND]) == 0
    return folder


@pytest.fixture
def finished_desk(desk, made):
    """The desk with these files on it."""
    for name in ("demos.jsonl", PROOF, "notes.db"):
        shutil.copy(made / name, desk.folder / name)
    return desk


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder of its own; returns exit code, stdout and stderr."""
    furnish(tmp_path, monkeypatch)

    def typed(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(list(words))
        out = capfd.readouterr()
        return code, out.out, out.err

    typed.folder = tmp_path
    return typed


COMMAND = (
    "synthesize", "--private", "notes.jsonl", "--labels", "billing,fraud", "--model", "fake", "--per-label", "2",
    "--tokens", "12", "--epsilon", "6", "--ledger", "notes.db", "--budget", "20,1e-5", "--out", "demos.jsonl",
)  # fmt: skip
PROOF = "demos.jsonl.certificate.json"


def test_rows_and_a_certificate_appear_and_demonstrations_are_free(desk):
    code, out, err = desk(*COMMAND)
    assert (code, out) == (0, "")
    assert "Replacing any one record changes the probability" in err
    written = [json.loads(line) for line in (desk.folder / "demos.jsonl").read_text("utf-8").splitlines()]
    assert {row["label"] for row in written} <= {"billing", "fraud"}
    assert desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0
    (desk.folder / "q.jsonl").write_text('{"text": "a fee"}\n', "utf-8")
    asked = ("classify", "--demonstrations", "demos.jsonl", "--queries", "q.jsonl", "--labels", "billing,fraud")
    code, out, _ = desk(*asked, "--model", "fake")
    assert (code, json.loads(out)["epsilon"]) == (0, 0.0)


def kept(desk):
    return {file.name: file.read_bytes() for file in desk.folder.iterdir() if file.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demos.jsonl", "demos.csv"])
def test_a_finished_run_resumes_to_nothing_to_do(desk, name):
    words = (*COMMAND[:-1], name)
    _, out, _ = desk(*words, "--json")
    first, before = json.loads(out), kept(desk)
    code, out, err = desk(*words, "--resume", "--json")
    again = json.loads(out)
    assert (code, f"Nothing to do: {name} holds the rows of this run. Nothing was charged." in err) == (0, True)
    assert kept(desk) == before
    assert (again["unreadable"], again["tokens"], again["seconds"]) == (None, None, 0.0)
    counted = {"unreadable": None, "tokens": None, "seconds": 0.0}
    assert again == {**first, **counted}


@pytest.mark.slow
def test_a_finished_run_is_told_on_a_terminal(finished_desk):
    code, out, err = finished_desk(*COMMAND, "--resume")
    assert (code, out) == (0, "")
    assert "Replacing any one record changes the probability" in err
    assert "tokens" not in err


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("--tokens", "11"), "differs from what this command writes in: "),
        (("--inside-tokens", "90"), "inside_tokens"),
        (("--private", "others.jsonl"), "no new records"),
        (("--labels", "fraud,billing"), "labels"),
        (("--ledger", "others.db"), "These records have the ledger"),
        (("--epsilon", "5"), "epsilon"),
        (("--budget", "30,1e-5"), "budget"),
        (("--caller", "ann"), "ann"),
        (("--out", "others.jsonl"), "nothing to resume"),
    ],
)
def test_a_finished_run_of_another_request_is_not_taken_for_ones_own(finished_desk, change, problem):
    lines = (finished_desk.folder / "notes.jsonl").read_text("utf-8").splitlines(keepends=True)
    (finished_desk.folder / "others.jsonl").write_text("".join(lines[:-1]), "utf-8")
    assert finished_desk(*COMMAND, "--resume")[0] == 0
    before = kept(finished_desk)
    code, out, err = finished_desk(*COMMAND, *change, "--resume")
    assert (code in (2, 3), out, problem in err) == (True, "", True), err
    assert kept(finished_desk) == before, "no budget was settled"


def test_a_resume_where_nothing_is_known_settles_no_budget(desk):
    code, out, err = desk(*COMMAND, "--resume")
    assert (code, out, "nothing to resume: these records have no ledger there yet" in err) == (2, "", True)
    assert list(kept(desk)) == ["notes.jsonl"]


def _forged(desk, **changed):
    file = desk.folder / PROOF
    content = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**content, **changed}), "utf-8")
    return content["asked"]


def _another_row(desk):
    with (desk.folder / "demos.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"text": "made up", "label": "fraud"}\n')


def _another_run(desk):
    words = _forged(desk)
    _forged(desk, asked={**words, "run": "ab"}, ledger=[f"ab-{number}" for number in range(1, words["charges"] + 1)])


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_another_row, "the rows are those of the certificate"),
        (lambda desk: _forged(desk, epsilon=0.1), "follows from the event"),
        (lambda desk: _forged(desk, asked={}), "the request, which its certificate does not say"),
        (_another_run, "every text was charged before it left"),
    ],
    ids=["row", "epsilon", "no request", "run"],
)
def test_files_that_are_not_those_of_a_finished_run_are_refused(finished_desk, spoil, problem):
    spoil(finished_desk)
    before = kept(finished_desk)
    code, out, err = finished_desk(*COMMAND, "--resume")
    assert (code, out, problem in err) == (2, "", True), err
    assert kept(finished_desk) == before


def test_a_finished_run_of_another_caller_is_not_ones_own(finished_desk):
    granted = ("ledger", "grant", "notes.db", "--private", "notes.jsonl", "--caller", "ann", "--budget", "10,1e-5")
    assert finished_desk(*granted)[0] == 0, finished_desk(*granted)[2]
    code, _, err = finished_desk(*COMMAND, "--caller", "ann", "--resume")
    assert (code, "differs from what this command writes in: caller." in err) == (2, True), err


def test_a_folder_beside_finished_rows_is_a_run_of_its_own(finished_desk):
    folder = finished_desk.folder / "demos.jsonl.partial"
    folder.mkdir()
    (folder / "round-1").write_text("paid", "utf-8")
    code, _, err = finished_desk(*COMMAND, "--resume")
    assert (code, "Nothing to do" in err, "It was neither read nor changed" in err) == (0, True, True), err
    assert [file.name for file in folder.iterdir()] == ["round-1"]
    assert (folder / "round-1").read_text("utf-8") == "paid"


@pytest.mark.slow
def test_the_summary_as_json(desk):
    code, out, _ = desk(*COMMAND, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["rows"] + told["unreadable"] == 4
    assert told["epsilon"] <= 6
    assert told["adjacency"] == "replace-one"


def test_a_dry_run_reads_and_charges_nothing(desk):
    words = [word for word in COMMAND if word not in ("--private", "notes.jsonl", "--ledger", "notes.db")]
    code, out, _ = desk(*words, "--dry-run", "--experts", "20", "--json")
    plans = {plan["adjacency"]: plan for plan in json.loads(out)["plans"]}
    assert code == 0
    # A swap moves twice as much: the same price leaves half the clip.
    assert plans["add-remove"]["parameters"]["clip"] == pytest.approx(
        2 * plans["replace-one"]["parameters"]["clip"], rel=1e-5
    )
    assert not list(desk.folder.glob("*.db")) + list(desk.folder.glob("demos*"))
    assert desk(*words, "--dry-run")[0] == 2


def test_a_budget_that_does_not_suffice_leaves_nothing_behind(desk):
    code, _, err = desk(*COMMAND[:-4], "--budget", "1,1e-9", "--out", "demos.jsonl")
    assert code == 3
    assert "BudgetExhaustedError" in err
    assert not list(desk.folder.glob("demos*"))


def test_a_forged_row_makes_verify_fail(desk):
    desk(*COMMAND)
    with (desk.folder / "demos.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"text": "made up", "label": "fraud"}\n')
    code, _, err = desk("verify", "certificate", "demos.jsonl.certificate.json")
    assert code == 2
    assert "the rows are those of the certificate" in err


FORGED = {
    "epsilon": 0.1, "delta": 0.0, "statement": "Nothing can be learnt.", "parameters": {}, "change": "drop",
    "event": {"event": "NoOpDpEvent"}, "adjacency": "add-remove", "unit": "group", "method": "prism", "tokens": 400,
    "texts": 9, "experts": 1, "model": "embedded", "isolation": "perfect", "seeded": True, "ledger": [],
    "rows": 0, "rows_sha256": "", "data": "", "format": 0,
}  # fmt: skip


@pytest.mark.cases(1)
@pytest.mark.parametrize("first", range(4))
def test_whatever_is_forged_verify_ends_with_an_error(desk, first):
    desk(*COMMAND)
    proof = desk.folder / "demos.jsonl.certificate.json"
    words = ("verify", "certificate", proof.name, "--ledger", "notes.db", "--private", "notes.jsonl")
    assert desk(*words)[0] == 0
    honest = json.loads(proof.read_text("utf-8"))
    for name, forged in list(FORGED.items())[first::4]:
        proof.write_text(json.dumps({**honest, name: forged}), "utf-8")
        code, _, err = desk(*words)
        assert code == 2, name
        assert "Internal error" not in err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("--method", "poe"), "method is 'poe'"),
        (("--model", "embedded-image"), "one that writes"),
        (("--per-label", "0"), "--per-label is 0"),
        (("--per-label", "3", "--texts-per-batch", "2"), "a divisor of the 3 texts"),
        (("--adjacency", "add-remove"), "--experts"),
        (("--epsilon", "0"), "epsilon"),
        (("--clip", "3", "--method", "tang"), "no such option"),
        (("--out", "."), "a folder or a device"),
        (("--resume",), "nothing to resume"),
        (("--private", "absent.jsonl"), "no such file"),
    ],
)
def test_bad_input_names_what_is_wrong_and_charges_nothing(desk, change, problem):
    code, out, err = desk(*COMMAND, *change)
    assert (code, out) == (2, "")
    assert problem in err
    assert not (desk.folder / "notes.db").exists() or '"reserve"' not in desk("ledger", "show", "notes.db", "--json")[1]
    assert not list(desk.folder.glob("demos*"))


def test_no_private_text_is_in_anything_but_the_rows(desk):
    (desk.folder / "notes.jsonl").write_text(
        "".join(json.dumps({"text": f"zq{i}xv", "label": "billing"}) + "\n" for i in range(9)), "utf-8"
    )
    _, out, err = desk(*COMMAND)
    ledger = desk("ledger", "show", "notes.db", "--json")[1]
    proof = (desk.folder / "demos.jsonl.certificate.json").read_text("utf-8")
    assert not any(f"zq{i}xv" in text for i in range(9) for text in (out, err, ledger, proof))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "given", "ending"),
    [
        ((), {}, "Text:"),
        (("--no-chat",), {"chat": False}, "Text:"),
        (("--chat",), {"chat": True}, "Write one more text like these, on one line, and nothing else."),
    ],
)
def test_a_prompt_is_continued_unless_a_conversation_is_asked_for(desk, monkeypatch, flags, given, ending):
    seen = []

    class Watched(FakeStepper):
        def read(self, groups, **sizes):
            seen.extend(prompt for group in groups for prompt in (group.public, *group.experts) if prompt)
            return super().read(groups, **sizes)

    monkeypatch.setattr(command, "load_stepper", lambda model, **options: asked.append(options) or Watched())
    asked = []
    code, _, _ = desk(*COMMAND, *flags)
    assert (code, asked) == (0, [given])
    assert {prompt.suffix for prompt in seen} == {ending}
    assert any(prompt.private_text for prompt in seen)
