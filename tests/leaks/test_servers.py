"""Prompts and keys of models behind servers, hunted through errors, logs, streams and files.

The worst server quotes the prompt in everything that it can: status line, headers, body, and bytes that are no HTTP.
"""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("httpx2")

from tests.models.http.faulty import FaultyServer, body_of, packed
from tests.models.http.test_server_scorer import scored

from hunting import hunt, hunt_error, hunt_files, marker, search
from sottovoce.errors import ModelError
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.partition import Partition
from sottovoce.models.base import WritingRequest
from sottovoce.models.http import asking
from sottovoce.models.http.label_scorer import ServerScorer
from sottovoce.models.http.writer import ServerWriter
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Example, Task

TASK = Task(labels=["billing", "fraud"])


def quoting(kind: str):
    """A server that quotes what it got."""

    def answer(seen):
        quoted = str(seen.fields.get("messages") or seen.fields["prompt"]).replace("\n", " ")
        if kind == "body":
            return [packed({"error": {"message": quoted}}, status="500 Internal Server Error")]
        if kind == "refusal":
            return [packed({"error": {"message": quoted}}, status="400 Bad Request")]
        if kind == "status line":
            return [packed(b"{}", status=f"400 {quoted.encode('ascii', 'replace').decode()}")]
        if kind == "headers":
            return [packed(b"{}", status="302 Found", more=f"Location: http://{quoted}/\r\nX-Why: {quoted}\r\n")]
        if kind == "busy":
            return [packed(quoted.encode(), status="429 Too Many Requests", more=f"Retry-After: {quoted}\r\n")]
        if kind == "no HTTP":
            return [f"{quoted}\r\n\r\n".encode()]
        if kind == "no JSON":
            return [packed(quoted.encode())]
        if kind == "kind":
            return [packed(b"{}", kind=quoted)]
        if kind == "another model":
            return [packed(body_of(seen, model=quoted))]
        return [packed(body_of(seen, end=quoted))]

    return answer


KINDS = ["body", "refusal", "status line", "headers", "busy", "no HTTP", "no JSON", "kind", "another model", "end"]


@pytest.fixture
def secrets_of(tmp_path, monkeypatch):
    """Marks of a text and a key, and quick retries."""
    marks = [marker("TEXT"), marker("KEY")]
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SOTTO_API_KEY", marks[1])
    monkeypatch.setattr(asking, "FIRST_WAIT_S", 0.001)
    return marks


@pytest.mark.cases(5)
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_quotes_prompts_makes_nothing_show_them(secrets_of, kind, tmp_path, caplog, capfd):
    text, _ = secrets_of
    caplog.set_level(logging.DEBUG)
    request = WritingRequest("Summarize.", [(f"{text} in", f"{text} out")], "Why?")
    contexts = [(Example({"text": text}, 0),)]
    with FaultyServer(scored) as server:
        writer = ServerWriter(server.name, retries=1, timeout_s=5)
        scorer = ServerScorer(server.name, retries=1, timeout_s=5)
        for whole in (True, False):  # everybody's failure, then one prompt's own
            writer.rehearse()
            prepared = scorer.prepare(TASK, contexts)

            def answer(seen, whole=whole):
                return quoting(kind)(seen) if whole or text in str(seen.fields) else scored(seen)

            server.answer = answer
            for call in (
                lambda: writer.write([request], tokens=4),
                lambda prepared=prepared: prepared.score([{"text": "a"}]),
            ):
                if whole or kind == "busy":
                    error = hunt_error(call, secrets_of)
                    assert isinstance(error, ModelError)
                    assert error.__context__ is None
                else:
                    call()
            server.answer = scored
        for thing in (request, writer, scorer, prepared):
            hunt(thing, secrets_of)
    search(caplog.text, secrets_of, "the log")
    search("".join(capfd.readouterr()), secrets_of, "what is printed")
    hunt_files(tmp_path, secrets_of)


def test_the_rehearsal_quotes_the_server_and_not_the_key(secrets_of):
    def answer(seen):
        return [packed({"error": {"message": f"wrong key {seen.headers['authorization']}"}}, status="401 Unauthorized")]

    with FaultyServer(answer) as server:
        error = hunt_error(lambda: ServerWriter(server.name, retries=0).rehearse(), secrets_of)
    assert "wrong key Bearer [key]" in str(error)


def test_what_is_kept_of_a_prompt_and_its_answer_is_unreadable(secrets_of, tmp_path):
    text, _ = secrets_of
    request = WritingRequest("Summarize.", [(f"{text} in", "out")], f"{text} why")
    with FaultyServer() as server:
        assert ServerWriter(server.name).write([request], tokens=4) == [f"{text.upper()} WHY after 4"]
    assert hunt_files(tmp_path, [*secrets_of, text.upper()]) == ["replies.db", "replies.key"]


def test_an_ensemble_that_a_server_fails_shows_nothing(secrets_of):
    text, _ = secrets_of
    records = PrivateRecords([Row(n, {"text": f"{text} {n}", "label": "fraud"}) for n in range(4)], source="marked")
    with FaultyServer(scored) as server:
        scorer = ServerScorer(server.name, retries=0, cache=False)
        ensemble = Ensemble(records, TASK, scorer, Partition(2), Adjacency.REPLACE_ONE)
        server.answer = quoting("body")
        error = hunt_error(lambda: ensemble.ask({"text": "a"}), secrets_of)
    assert isinstance(error, ModelError)
