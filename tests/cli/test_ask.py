"""``sotto ask``: several questions with one start-up, each charged and printed as it comes."""

from __future__ import annotations

import io
import json

import pytest

from sottovoce.cli import run
from sottovoce.models.base import Isolation
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.session import PrivateICL

LABELS = "billing,fraud"
ASK = ("--private", "private.jsonl", "--labels", LABELS, "--model", "fake", "--method", "poe", "--epsilon", "0.5",
       "--ledger", "t.db")  # fmt: skip


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with records; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": LABELS.split(",")[i % 2]} for i in range(12)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def typed(*words, stdin=None):
        capfd.readouterr()
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return typed


def charged():
    (balance,) = Ledger("t.db").balances()
    return balance.answers


def test_several_questions_are_answered_in_their_order_and_each_is_charged(desk):
    code, out, err = desk("ask", "late?", "lost?", "broken?", *ASK)
    assert (code, charged()) == (0, 3)
    assert len(out.split()) == 3
    assert set(out.split()) <= set(LABELS.split(","))
    assert err.count("changes the probability of this answer") == 1
    code, out, _ = desk("ask", "late?", "lost?", *ASK, "--json")
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["1", "2"]
    assert charged() == 5


def test_where_a_model_says_less_at_a_later_question_that_is_stated(desk, monkeypatch):
    asked = PrivateICL.ask

    def settling(session, question, **given):
        release = asked(session, question, **given)
        if question == "late?":
            session.model.isolation = Isolation.NOT_VERIFIED
        return release

    monkeypatch.setattr(PrivateICL, "ask", settling)
    code, _, err = desk("ask", "early?", "late?", "lost?", "broken?", *ASK)
    assert code == 0
    assert err.count("experts computed apart: by construction") == 1
    assert err.count("no formal guarantee") == 1, "of all that follow, once"


def test_calibrated_experts_cost_what_others_cost(desk):
    rows = [json.loads(desk("ask", "late?", *ASK, *words, "--json")[1]) for words in ((), ("--calibrate",))]
    assert rows[0]["statement"] == rows[1]["statement"]
    assert (rows[0]["epsilon"], charged()) == (rows[1]["epsilon"], 2)


def test_questions_are_read_from_stdin_until_it_ends(desk):
    code, out, _ = desk("ask", *ASK, stdin=b"late?\n\n  lost?  \nbroken?")
    assert (code, len(out.split()), charged()) == (0, 3, 3)
    assert desk("ask", *ASK, stdin=b"")[:2] == (0, "")
    code, out, err = desk("ask", *ASK, stdin=b"late?\n\xff\n")
    assert (code, "not UTF-8" in err) == (2, True)


def test_a_person_is_asked_on_stderr(desk, monkeypatch):
    typed = io.StringIO("late?\n")
    typed.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", typed)
    code, out, err = desk("ask", *ASK)
    assert (code, len(out.split())) == (0, 1)
    assert "Question (Ctrl-D ends): " in err


def test_questions_that_do_not_fit_together_are_refused_before_the_first(desk):
    assert desk("ask", "late?", *ASK, "--budget", "1,0")[0] == 0
    code, out, _ = desk("ask", "late?", "lost?", *ASK)
    assert (code, out, charged()) == (3, "", 1)
    # From a prompt nobody knows how many will come: the first is paid and printed.
    code, out, _ = desk("ask", *ASK, stdin=b"late?\nlost?\n")
    assert (code, len(out.split()), charged()) == (3, 1, 2)


def test_a_release_id_names_one_answer(desk):
    for words in (("late?", "lost?"), ()):
        code, _, err = desk("ask", *words, *ASK, "--release-id", "t-17", stdin=b"late?\n")
        assert (code, "given with one question" in err) == (2, True)


def test_a_fitted_file_answers_several(desk):
    fit = ("--private", "private.jsonl", "--labels", LABELS, "--model", "fake", "--epsilon", "4", "--ledger", "f.db")
    assert desk("fit", *fit, "--method", "class-means", "--out", "f.sotto")[0] == 0
    code, out, _ = desk("ask", "late?", "lost?", "--fitted", "f.sotto", "--model", "fake")
    assert (code, len(out.split())) == (0, 2)
