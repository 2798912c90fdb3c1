"""``sotto fit``, ``sotto predict`` and ``sotto ask --fitted``, as a new user types them."""

import json
from collections import Counter

import pytest

from sottovoce.cli import run
from sottovoce.privacy.ledger.ledger import Ledger

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
    assert "8 of 8 epsilon spent" in err
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
    assert ledger.read_bytes() == before
    (place / "tickets.jsonl").unlink()
    ledger.unlink()
    code, out, _ = call(capsys, "ask", "somebody used my stolen card", "--fitted", "support.sotto")
    assert (code, out.strip()) == (0, "fraud")


def test_the_summary_and_the_scores_are_json(place, capsys):
    fit(capsys)
    code, out, _ = call(capsys, "predict", "support.sotto", "--queries", "new.jsonl", "--json", "--scores")
    summary = json.loads(out)
    assert code == 0
    assert summary["accuracy"] == 1.0
    assert summary["remaining"] is None
    assert all(sum(row["scores"].values()) == pytest.approx(1) for row in summary["rows"])
    assert all(max(row["scores"], key=row["scores"].get) == row["value"] for row in summary["rows"])
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
    content[-1] ^= 1
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
    ],
)
def test_bad_input_is_refused_in_words_and_nothing_is_left(place, capsys, more, code, words):
    found, out, err = fit(capsys, *more)
    assert (found, out) == (code, "")
    assert words.lower() in err.lower()
    assert sorted(path.name for path in place.iterdir() if path.name != "home") == ["new.jsonl", "tickets.jsonl"]


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
