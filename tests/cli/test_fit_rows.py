"""``sotto synthesize`` by methods that leave texts, their certificate, and candidates that a model writes."""

import importlib.util
import json
import shutil

import pytest

from sottovoce.cli import run
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE
from sottovoce.privacy.ledger.ledger import Ledger

LABELS = "billing,fraud"
TEXTS = {"billing": "a fee was charged twice on invoice number {}", "fraud": "somebody used my stolen card in town {}"}
POOL = ["a fee on my invoice", "my card was stolen", "the weather is fine", "a red book"]
COMMAND = (
    "synthesize", "--private", "tickets.jsonl", "--labels", LABELS, "--model", "fake", "--epsilon", "8",
    "--per-label", "2", "--ledger", "tickets.db", "--out", "demos.jsonl",
)  # fmt: skip
CERTIFICATE = "demos.jsonl.certificate.json"


def furnish(folder, patched):
    patched.chdir(folder)
    patched.setenv("SOTTOVOCE_HOME", str(folder / "home"))
    rows = [{"text": text.format(i), "label": label} for i in range(100) for label, text in TEXTS.items()]
    (folder / "tickets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "pool.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in POOL))
    (folder / "new.jsonl").write_text(json.dumps({"text": "a fee was charged"}) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with rows that evolve left, their certificate and their ledger, made once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        furnish(folder, patched)
        assert run([*COMMAND, "--method", "evolve", "--public", "pool.jsonl", "--writer", "fake"]) == 0
    return folder


@pytest.fixture
def rows_desk(desk, made):
    """The desk with these files on it."""
    for name in ("demos.jsonl", CERTIFICATE, "tickets.db"):
        shutil.copy(made / name, desk.folder / name)
    return desk


@pytest.fixture
def desk(tmp_path, capsys, monkeypatch):
    """Types a command in a folder of its own; returns exit code, stdout and stderr."""
    furnish(tmp_path, monkeypatch)

    def typed(*words):
        code = run([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    typed.folder = tmp_path
    return typed


def written(desk):
    return [json.loads(line) for line in (desk.folder / "demos.jsonl").read_text().splitlines()]


@pytest.mark.cases(1)
@pytest.mark.parametrize("method", ["choice", "evolve", "label-public"])
def test_rows_their_certificate_and_demonstrations_from_them(desk, method):
    more = ("--writer", "fake") if method == "evolve" else ()
    code, out, err = desk(*COMMAND, "--method", method, "--public", "pool.jsonl", *more)
    assert (code, out) == (0, "")
    assert "Replacing any one record changes the probability" in err
    rows = written(desk)
    assert len(rows) == 4
    assert all(set(row) == {"text", "label"} and row["label"] in TEXTS for row in rows)
    if method != "label-public":
        assert [row["label"] for row in rows] == ["billing", "billing", "fraud", "fraud"]
    assert sorted(path.name for path in desk.folder.glob("demos*")) == ["demos.jsonl", CERTIFICATE]
    code, out, _ = desk(
        "verify", "certificate", CERTIFICATE, "--ledger", "tickets.db", "--private", "tickets.jsonl", "--json"
    )
    assert code == 0
    assert {check["holds"] for check in json.loads(out)["checks"]} == {True}
    asked = ("classify", "--demonstrations", "demos.jsonl", "--queries", "new.jsonl", "--labels", LABELS)
    code, out, _ = desk(*asked, "--model", "fake")
    assert (code, json.loads(out)["epsilon"]) == (0, 0.0)
    kinds = [entry["kind"] for entry in Ledger(str(desk.folder / "tickets.db")).history()]
    assert (kinds.count("reserve"), kinds.count("draw"), kinds.count("release")) == (1, 1, 1)


def test_the_summary_as_json_and_a_certificate_without_its_rows(desk):
    code, out, _ = desk(*COMMAND, "--method", "choice", "--public", "pool.jsonl", "--json")
    told = json.loads(out)
    assert (code, told["rows"], told["epsilon"], told["method"]) == (0, 4, 8.0, "choice")
    (desk.folder / "demos.jsonl").unlink()
    code, out, _ = desk("verify", "certificate", CERTIFICATE, "--json")
    holds = {check["what"]: check["holds"] for check in json.loads(out)["checks"]}
    assert code == 0
    assert holds["the support is that of the certificate"] is None


EVOLVED = (*COMMAND, "--method", "evolve", "--public", "pool.jsonl", "--writer", "fake", "--resume")


def test_a_finished_run_resumes_to_nothing_to_do(rows_desk):
    before = {file: file.read_bytes() for file in rows_desk.folder.iterdir() if file.is_file()}
    code, out, err = rows_desk(*EVOLVED, "--json")
    assert (code, "Nothing to do: demos.jsonl holds what this run fitted. Nothing was charged." in err) == (0, True)
    assert (json.loads(out)["rows"], json.loads(out)["epsilon"]) == (4, 8.0)
    assert {file: file.read_bytes() for file in rows_desk.folder.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--epsilon", "7"), "parameters, epsilon"),
        (("--per-label", "1"), "parameters"),
        (("--labels", "fraud,billing"), "rows of another task"),
        (("--ledger", "others.db"), "the ledger, which does not know these records"),
        (("--method", "invisible-ink"), "left out"),
    ],
)
def test_a_finished_run_of_another_request_is_refused(rows_desk, more, says):
    before = {file: file.read_bytes() for file in rows_desk.folder.iterdir() if file.is_file()}
    code, _, err = rows_desk(*EVOLVED, *more)
    assert (code, says in err) == (2, True), err
    assert {file: file.read_bytes() for file in rows_desk.folder.iterdir() if file.is_file()} == before


def test_rows_that_were_changed_are_not_what_was_fitted(rows_desk):
    rows = written(rows_desk)
    rows[0]["text"] = "made up"
    (rows_desk.folder / "demos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = rows_desk(*EVOLVED)
    assert (code, "the support is that of the certificate" in err) == (2, True)


def test_rows_without_their_certificate_are_nothing_to_resume(rows_desk):
    (rows_desk.folder / CERTIFICATE).unlink()
    code, _, err = rows_desk(*EVOLVED)
    assert (code, "nothing to resume" in err) == (2, True)


def _label(rows):
    rows[0]["label"] = "fraud"


def _order(rows):
    rows.reverse()


@pytest.mark.parametrize(
    "spoil",
    [
        _label,
        _order,
        lambda rows: rows.pop(),
        lambda rows: rows.append(rows[0]),
        lambda rows: rows[1].update(text="another"),
        lambda rows: rows[1].update(more="a column"),
        lambda rows: rows[1].update(label="neither"),
        lambda rows: rows[1].update(text=3),
    ],
    ids=["label", "order", "shorter", "longer", "text", "column", "no label", "number"],
)
def test_rows_that_are_not_those_of_the_certificate_do_not_pass(rows_desk, spoil):
    rows = written(rows_desk)
    spoil(rows)
    (rows_desk.folder / "demos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = rows_desk("verify", "certificate", CERTIFICATE)
    assert code == 2
    assert "the support is that of the certificate" in err


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        (("epsilon",), 1.0, "follows from the event"),
        (("method",), "label-public", "method"),
        (("parameters", "rate"), 0.01, "the event is that of evolve"),
        (("parameters", "rounds"), 1, "the event is that of evolve"),
        (("event", "count"), 1, "the event is that of evolve"),
        (("statement",), "Everything is private.", "its statement"),
        (("labels",), ["fraud", "billing"], "the task has the labels"),
        (("content_sha256",), "0" * 64, "the support is that of the certificate"),
        (("asked", "writer"), "another", "the charge is that of the certificate"),
    ],
    ids=lambda value: "/".join(value) if isinstance(value, tuple) else None,
)
def test_whatever_is_forged_in_a_certificate_of_rows_fails(rows_desk, part, value, says):
    file = rows_desk.folder / CERTIFICATE
    content = json.loads(file.read_text())
    place = content["certificate"]
    for name in part[:-1]:
        place = place[name]
    assert part[-1] in place
    place[part[-1]] = value
    file.write_text(json.dumps(content))
    code, out, err = rows_desk("verify", "certificate", CERTIFICATE, "--ledger", "tickets.db")
    assert code == 2
    assert says in out + err


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.pop("task"),
        lambda content: content["task"].update(query="no field"),
        lambda content: content["certificate"].pop("event"),
        lambda content: content["certificate"].update(format=99),
        lambda content: content.update(kind="something else"),
    ],
    ids=["no task", "task", "part", "format", "kind"],
)
def test_a_certificate_of_rows_that_cannot_be_read_is_refused(rows_desk, spoil):
    content = json.loads((rows_desk.folder / CERTIFICATE).read_text())
    spoil(content)
    (rows_desk.folder / CERTIFICATE).write_text(json.dumps(content))
    code, _, err = rows_desk("verify", "certificate", CERTIFICATE)
    assert code == 2
    assert "certificate" in err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--method", "class-means"), "one that leaves texts"),
        (("--method", "choice", "--tokens", "9"), "writes no text from records"),
        (("--method", "choice", "--inside-tokens", "9"), "--inside-tokens"),
        (("--method", "choice", "--schema", "s.json"), "writes no text from records"),
        (("--method", "choice", "-o", "k=3"), "--per-label"),
        (("--method", "choice", "--writer", "fake"), "nothing is written"),
        (("--method", "choice", "--per-label", "9"), "at most 4"),
        (("--method", "choice", "--candidates", "9"), "where public texts are given"),
        (("--method", "evolve", "--writer", "nobody"), "one that writes"),
        (("--method", "invisible-ink",), "left out: it is for --method choice"),
        (("--method", "choice", "--out", "demos.sotto"), "must end in .jsonl"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_words_and_nothing_is_left(desk, more, says):
    before = sorted(path.name for path in desk.folder.iterdir() if path.name != "home")
    code, out, err = desk(*COMMAND, "--public", "pool.jsonl", *more)
    assert (code, out) == (2, "")
    assert says in err
    left = [path.name for path in desk.folder.iterdir() if path.name != "home"]
    left = sorted(name for name in left if not name.startswith("tickets.db"))
    assert left == before
    if (desk.folder / "tickets.db").exists():
        assert [entry["kind"] for entry in Ledger(str(desk.folder / "tickets.db")).history()] == ["open"]


def test_a_dry_run_says_the_price_and_charges_nothing(desk):
    code, out, _ = desk(
        *COMMAND, "--method", "evolve", "--writer", "fake", "--public", "pool.jsonl", "--dry-run", "--json"
    )
    told = json.loads(out)
    assert (code, told["epsilon"], told["parameters"]["k"], told["parameters"]["rounds"]) == (0, 8.0, 2, 2)
    assert not (desk.folder / "demos.jsonl").exists()


def test_candidates_are_written_for_a_fit_too(desk):
    code, _, _ = desk(
        "fit", "--private", "tickets.jsonl", "--labels", LABELS, "--model", "fake", "--method", "choice",
        "--candidates", 4, "--writer", "fake", "--out", "support.sotto",
    )  # fmt: skip
    assert code == 0
    assert desk("verify", "certificate", "support.sotto")[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec(DEFAULT_PACKAGE) is None, reason="the encoder is not installed")
def test_the_embedded_models_write_vary_and_choose(desk):
    command = [word if word != "fake" else "embedded" for word in COMMAND]
    code, _, _ = desk(*command, "--method", "evolve", "--candidates", 8, "-o", "variations=1", "-o", "tokens=8")
    assert code == 0
    rows = written(desk)
    assert [row["label"] for row in rows] == ["billing", "billing", "fraud", "fraud"]
    assert all(row["text"].strip() for row in rows)
    assert desk("verify", "certificate", CERTIFICATE, "--ledger", "tickets.db")[0] == 0
