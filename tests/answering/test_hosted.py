"""``sotto answer`` against a server on loopback: who sees the prompts is said, and a failure costs what it must."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("httpx2")

from answering.worlds_of_answers import rows
from models.http.faulty import FaultyServer, changed, only, status, well
from sottovoce.cli import run
from sottovoce.models.http import asking
from sottovoce.privacy.ledger.ledger import Ledger


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    for name in ("SOTTO_API_KEY", "OPENAI_API_KEY", "SOTTO_API", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(asking, "FIRST_WAIT_S", 0.001)
    monkeypatch.chdir(tmp_path)
    for kind, count in (("private", 8), ("public", 4)):
        write(tmp_path / f"{kind}.jsonl", [dict(row.values) for row in rows(count, kind)])
    write(tmp_path / "queries.jsonl", [{"question": "what of the card?"}])
    return tmp_path


@pytest.fixture
def server():
    with FaultyServer() as running:
        yield running


def write(path, values):
    path.write_text("".join(json.dumps(row) + "\n" for row in values), "utf-8")


def command(server, *more, isolation=",isolation=asserted"):
    return run(
        ["answer", "--private", "private.jsonl", "--public", "public.jsonl", "--queries", "queries.jsonl", "--task",
         "question", "--method", "ksa", "-o", "k=2", "--shots", "1", "--ledger", "notes.db", "--model",
         f"openai:{server.name},retries=0{isolation}", "--out", "answers.jsonl", *more]
    )  # fmt: skip


def charged():
    return [entry["kind"] for entry in Ledger("notes.db").history()][1:]


def test_a_hosted_model_answers_and_it_is_said_who_sees_the_prompts(desk, server, capfd):
    assert command(server, "--json") == 0
    out, err = capfd.readouterr()
    summary = json.loads(out)
    assert (
        f"were sent to 127.0.0.1:{server.url.split(':')[2].split('/')[0]}; whoever runs it reads them"
        in summary["statement"]
    )
    assert "asserted by the operator" in summary["isolation"]
    assert "whoever hosts the model sees them" in err
    assert sum("private" in json.dumps(seen.fields) for seen in server.seen) == 8
    assert charged() == ["reserve", "draw", "release"]


def test_a_server_whose_isolation_nobody_asserts_gives_answers_without_a_guarantee(desk, server):
    assert command(server, isolation="") == 0
    (row,) = [json.loads(line) for line in (desk / "answers.jsonl").read_text().splitlines()]
    assert (row["epsilon"], row["delta"]) == (None, None)


def test_a_server_that_is_busy_costs_nothing_before_the_charge_and_the_charge_behind_it(desk, server, capfd):
    server.answer = status("503 Service Unavailable")
    assert command(server) == 4
    assert "Nothing was charged" in capfd.readouterr().err
    assert not (desk / "answers.jsonl.partial").exists()
    server.answer = only(status("503 Service Unavailable", said="private parcel"), "private")
    assert command(server) == 4
    told = capfd.readouterr().err
    assert "repeat the command with --resume" in told
    assert "parcel" not in told
    assert charged() == ["reserve"]
    server.answer = well
    assert command(server, "--resume") == 0
    assert charged() == ["reserve", "draw", "release"]


def test_a_prompt_that_the_server_refuses_makes_that_expert_null_alone(desk, server):
    server.answer = only(status("400 Bad Request"), "private card 0?")
    assert command(server) == 0
    assert charged() == ["reserve", "draw", "release"]


@pytest.mark.slow
def test_a_draw_refers_to_the_texts_of_then_where_the_server_says_other_things_later(desk, server, monkeypatch):
    from sottovoce.answering.session import PrivateAnswers

    with monkeypatch.context() as stopped:
        stopped.setattr(PrivateAnswers, "finish", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        assert command(server) == 130
    saved = json.loads((desk / "answers.jsonl.partial" / "round-1").read_bytes()[64:])
    server.answer = changed(text="something else entirely")
    assert command(server, "--resume") == 0
    assert charged() == ["reserve", "draw", "release"]
    assert saved["outcome"]["values"]["keywords"]
