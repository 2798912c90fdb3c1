"""Texts from a server over real sockets: what is sent, what is read, and whose failure a failure is."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import time
from pathlib import Path

import pytest

pytest.importorskip("httpx2")

from tests.models.http.faulty import (
    CUT,
    MODEL,
    FaultyServer,
    changed,
    dripping,
    edited,
    half,
    only,
    packed,
    raw,
    status,
    twice,
    well,
)

from sottovoce.errors import InputError, ModelError, ParameterError
from sottovoce.models.base import Isolation, Writer, WritingRequest, settings_of
from sottovoce.models.http import asking, exchange
from sottovoce.models.http.address import ApiKey, Server
from sottovoce.models.http.label_scorer import ServerScorer
from sottovoce.models.http.replies import MOST_CHARACTERS
from sottovoce.models.http.writer import ServerWriter
from sottovoce.models.registry import load_writer


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    for name in ("SOTTO_API_KEY", "OPENAI_API_KEY", "SOTTO_API", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(asking, "FIRST_WAIT_S", 0.001)


@pytest.fixture
def server():
    with FaultyServer() as running:
        yield running


def request(question: str, shots: int = 1) -> WritingRequest:
    return WritingRequest("Summarize.", [(f"input {n}", f"output {n}") for n in range(shots)], question)


def writer(server: FaultyServer, **options) -> ServerWriter:
    return ServerWriter(server.name, **{"cache": False, "timeout_s": 5, "retries": 2, **options})


@pytest.mark.parametrize(("api", "turns"), [(None, 4), ("chat", 4), ("completions", 0), ("responses", 0)])
def test_each_api_gives_each_request_its_text(server, api, turns):
    texts = writer(server, api=api).write([request("a cat"), request("a dog"), request("a cat")], tokens=7)
    assert texts == [f"A CAT after {turns}", f"A DOG after {turns}", f"A CAT after {turns}"]
    assert [seen.is_probe for seen in server.seen] == [True, False, False, True]  # each request once


def test_a_model_is_told_by_how_it_is_asked(server):
    told = [settings_of(writer(server, api=api)) for api in (None, "chat", "completions", "responses")]
    assert told[0] == told[1]
    assert len({str(each) for each in told}) == 3
    scored = [
        settings_of(ServerScorer(server.name, **options))
        for options in ({}, {"api": "chat"}, {"api": "completions"}, {"score": "echo"}, {"score": "top"})
    ]
    assert len({str(each) for each in scored}) == 5


def test_what_is_sent_is_the_request_and_nothing_else(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one")
    monkeypatch.setenv("SOTTO_API_KEY", " sk-two\n")
    writer(server).write([request("a cat")], tokens=7)
    sent = server.seen[-2]
    assert (sent.path, sent.headers["authorization"]) == ("/v1/chat/completions", "Bearer sk-two")
    assert (sent.headers["connection"], sent.headers["accept-encoding"]) == ("close", "identity")
    assert sent.fields == {
        "model": MODEL, "max_tokens": 7, "temperature": 0, "n": 1, "stream": False,
        "messages": [
            {"role": "system", "content": "Summarize."}, {"role": "user", "content": "input 0"},
            {"role": "assistant", "content": "output 0"}, {"role": "user", "content": "a cat"},
        ],
    }  # fmt: skip
    writer(server, api="responses").write([request("a cat", 0)], tokens=7)
    assert server.seen[-2].fields["store"] is False
    assert server.seen[-2].fields["max_output_tokens"] == 7
    writer(server, api="completions").write([request("a cat", 0)], tokens=7)
    assert server.seen[-2].fields["prompt"] == "Summarize.\n\nInput: a cat\nOutput:"


def test_half_characters_are_sent_as_question_marks(server):
    assert writer(server).write([request("a \ud800 cat", 0)], tokens=7) == ["A ? CAT after 2"]


def test_a_server_that_knows_no_system_turn_gets_the_instruction_with_the_first_question(server):
    def answer(seen):
        return status("400 Bad Request")(seen) if seen.fields["messages"][0]["role"] == "system" else well(seen)

    server.answer = answer
    assert writer(server).write([request("a cat")], tokens=7) == ["A CAT after 3"]
    assert server.seen[-2].fields["messages"][0] == {"role": "user", "content": "Summarize.\n\ninput 0"}


def test_a_server_that_counts_tokens_under_another_name_is_asked_by_it(server):
    server.answer = lambda seen: (status("400 Bad Request") if "max_tokens" in seen.fields else well)(seen)
    assert writer(server).write([request("a cat")], tokens=7) == ["A CAT after 4"]
    assert server.seen[-2].fields["max_completion_tokens"] == 7


def test_isolation_is_what_the_operator_says_and_the_note_says_who_sees_prompts(server):
    plain, asserted = writer(server), load_writer(f"openai:{server.name},isolation=asserted")
    assert isinstance(plain, Writer)
    assert plain.isolation is Isolation.NOT_VERIFIED
    assert asserted.isolation is Isolation.ASSERTED
    assert asserted.isolation.holds
    assert "asserted by the operator, not tested; whoever hosts the model sees the prompts" in asserted.isolation.words
    assert plain.note.endswith("whoever hosts the model sees them.")
    assert server.url.removeprefix("http://").removesuffix("/v1") in plain.note
    assert asserted.name == f"openai:{server.name}"


# One request's own failure

OWN = {
    "refused": status("400 Bad Request"),
    "blocked": status("403 Forbidden"),
    "not found": status("404 Not Found"),
    "too large": status("413 Content Too Large"),
    "failed": status("500 Internal Server Error"),
    "redirected": status("307 Temporary Redirect", more="Location: http://127.0.0.1:1/v1\r\n"),
    "filtered": changed(end="content_filter"),
    "unended": changed(end=None),
    "tool": changed(end="tool_calls"),
    "another model": changed(model="other"),
    "no model": edited(lambda body: body.pop("model") and None),
    "two choices": edited(lambda body: body["choices"].append(body["choices"][0])),
    "no choice": edited(lambda body: body["choices"].clear()),
    "no message": edited(lambda body: body["choices"][0].pop("message") and None),
    "refusal": edited(lambda body: body["choices"][0]["message"].update(refusal="no")),
    "null text": edited(lambda body: body["choices"][0]["message"].update(content=None)),
    "too long": edited(lambda body: body["usage"].update(completion_tokens=1_000)),
    "too many characters": changed(text="x" * (MOST_CHARACTERS + 1)),
    "a list": edited(lambda body: [body]),
    "half": half,
    "empty": raw(packed(b"")),
    "no answer": raw(),
    "reset": raw(CUT),
    "no HTTP": raw(b"a private word\r\n\r\n"),
    "half JSON": raw(packed(b'{"model": "small", "choices": [')),
    "two objects": raw(packed(b"{}{}")),
    "deep JSON": raw(packed(b"[" * 100_000)),
    "a key twice": raw(packed(b'{"model": "small", "model": "small"}')),
    "not UTF-8": raw(packed(b'{"model": "\xff"}')),
    "not a number": raw(packed(b'{"model": NaN}')),
    "HTML": edited(lambda body: body) and raw(packed(b"<html></html>", kind="text/html")),
    "compressed": raw(packed(b"\x1f\x8b", more="Content-Encoding: gzip\r\n")),
    "two lengths": raw(packed(b"{}", more="Content-Length: 7\r\n")),
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("fault", OWN)
def test_what_stays_by_itself_is_the_requests_own_and_no_other_is_touched(server, fault):
    server.answer = only(OWN[fault], "a private")
    texts = writer(server, retries=1).write([request("a cat"), request("a private one"), request("a dog")], tokens=7)
    assert texts == ["A CAT after 4", None, "A DOG after 4"]
    assert sum(seen.is_probe for seen in server.seen) == 3  # before all, behind the failure, behind the last


@pytest.mark.cases(5)
@pytest.mark.parametrize("fault", OWN)
def test_what_the_server_cannot_do_for_a_public_prompt_either_is_everybodys(server, fault):
    asked = writer(server, retries=0)
    asked.rehearse()
    server.answer = OWN[fault]
    with pytest.raises(ModelError, match=r"stopped answering \(") as raised:
        asked.write([request("a private one")], tokens=7)
    assert raised.value.retryable
    assert "a private" not in str(raised.value)


def test_a_failure_that_passes_is_nobodys(server):
    server.answer = only(status("500 Internal Server Error"), "a private", times=2)
    assert writer(server).write([request("a private one")], tokens=7) == ["A PRIVATE ONE after 4"]
    server.answer = only(half, "a secret", times=3)  # all attempts beside others: it is asked again by itself
    assert writer(server).write([request("a secret one")], tokens=7) == ["A SECRET ONE after 4"]


@pytest.mark.parametrize("line", ["429 Too Many Requests", "503 Service Unavailable", "529 Overloaded"])
def test_a_busy_server_is_everybodys_even_if_one_prompt_alone_meets_it(server, line):
    server.answer = only(status(line, said="a private word"), "a private")
    with pytest.raises(ModelError, match=f"status {line[:3]}") as raised:
        writer(server).write([request("a cat"), request("a private one")], tokens=7)
    assert raised.value.retryable
    assert "private" not in str(raised.value)
    assert server.asked("a private") == 3  # retries are bounded


def test_a_server_says_how_long_to_wait(server, monkeypatch):
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 9))
    for more in ("Retry-After: 7\r\n", f"Retry-After: {date}\r\n", "Retry-After: soon\r\n", ""):
        server.answer = only(status("429 Too Many Requests", more=more), "cat", times=1)
        server.seen.clear()
        assert writer(server).write([request("a cat")], tokens=7) == ["A CAT after 4"]
    assert paused[0] == 7
    assert 7 < paused[1] <= 9
    assert paused[2:] == [0.001, 0.001]
    server.answer = only(status("429 Too Many Requests", more="Retry-After: 3600\r\n"), "cat", times=1)
    server.seen.clear()
    with pytest.raises(ModelError, match="429"):
        writer(server).write([request("a cat")], tokens=7)
    assert len(paused) == 4


def test_a_slow_drip_ends_with_its_time(server):
    server.answer = only(dripping(0.05), "a private")
    started = time.monotonic()
    asked = writer(server, timeout_s=0.3)
    assert asked.write([request("a private one"), request("a cat")], tokens=7) == [None, "A CAT after 4"]
    assert time.monotonic() - started < 4
    server.answer = only(raw(30.0), "a private")
    assert writer(server, timeout_s=0.2).write([request("a private one")], tokens=7) == [None]


def test_what_is_sent_behind_an_answer_is_nobodys_answer(server):
    server.answer = twice
    texts = writer(server, concurrency=1).write([request(f"cat {n}") for n in range(6)], tokens=7)
    assert texts == [f"CAT {n} after 4" for n in range(6)]


def test_a_huge_answer_is_not_read_to_its_end(server, monkeypatch):
    monkeypatch.setattr(exchange, "MOST_BYTES", 1 << 16)
    server.answer = only(lambda seen: [packed(b'"' + b"x" * (1 << 17) + b'"')], "a private")
    assert writer(server).write([request("a private one"), request("a cat")], tokens=7) == [None, "A CAT after 4"]


def test_a_prompt_that_is_too_long_is_not_sent(server, monkeypatch):
    monkeypatch.setattr(asking, "MOST_SENT", 1_000)
    texts = writer(server).write([request("a private one " * 90), request("a cat")], tokens=7)
    assert texts == [None, "A CAT after 4"]
    assert server.asked("a private") == 0


def test_cookies_of_one_answer_are_not_sent_with_another_request(server):
    server.answer = lambda seen: [
        packed(json.loads(well(seen)[0].partition(b"\r\n\r\n")[2]), more="Set-Cookie: a=b\r\n")
    ]
    writer(server, concurrency=1).write([request("a cat"), request("a dog")], tokens=7)
    assert not any("cookie" in seen.headers for seen in server.seen)


def test_requests_under_way_at_once_are_bounded(server):
    at_once, most = [0], [0]

    def answer(seen):
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        yield 0.03
        at_once[0] -= 1
        yield from well(seen)

    server.answer = answer
    writer(server, concurrency=3).write([request(f"cat {n}") for n in range(9)], tokens=7)
    assert most[0] == 3


def test_it_writes_from_within_a_running_loop_too(server):
    async def inside():
        return writer(server).write([request("a cat")], tokens=7)

    assert asyncio.run(inside()) == ["A CAT after 4"]


# Before anything private is sent


def quoted(text):
    """As JSON that escapes slashes and plus signs."""
    return json.dumps(text)[1:-1].replace("/", "\\/").replace("+", "\\u002B")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            status("401 Unauthorized", said="the key sk-secret is wrong"),
            r"status 401. It says: .*the key \[key\] is wrong",
        ),
        (status("404 Not Found", said="no such\nmodel\x1b[31m"), "status 404. It says: .*no such"),
        (status("302 Found", more="Location: http://elsewhere/\r\n"), "a redirect, which is not followed"),
        (changed(model="other"), "another model answered. It says: It answers as 'other': name that model."),
        (changed(model="smaller"), "another model answered"),
        (raw(packed(b"<html></html>", kind="text/html")), "an answer that is not JSON"),
        (changed(end=None), "did not come to its end"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_in_the_rehearsal(server, monkeypatch, fault, words):
    monkeypatch.setenv("SOTTO_API_KEY", "sk-secret")
    server.answer = fault
    with pytest.raises(ModelError, match=words) as raised:
        writer(server, retries=0).write([request("a private one")], tokens=7)
    assert "sk-secret" not in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert server.asked("a private") == 0


@pytest.mark.cases(6)
@pytest.mark.parametrize("place", [0, 260, 270, 1190])
@pytest.mark.parametrize(
    "write",
    [
        str,
        quoted,
        lambda key: quoted(quoted(key)),
        lambda key: key.replace("+", "%2B"),
        lambda key: key.replace("+", "%25252b"),
    ],
)
def test_a_key_is_taken_out_before_a_servers_words_are_cut(server, monkeypatch, place, write):
    key = 'sk-ABCD/EFGH+IJKL"MNOP'
    monkeypatch.setenv("SOTTO_API_KEY", key)
    said = f"{'x ' * (place // 2)}{write(key)} end"
    for fault in (status("401 Unauthorized", said=said), changed(model="x" * min(place, 90) + key)):
        server.answer = fault
        with pytest.raises(ModelError) as raised:
            writer(server, retries=0).rehearse()
        assert "sk-" not in str(raised.value)
        assert "ABCD" not in str(raised.value)


def test_no_server_is_a_failure_of_the_model():
    with FaultyServer() as gone:
        name = gone.name
    with pytest.raises(ModelError, match="no connection") as raised:
        ServerWriter(name, retries=0).write([request("a private one")], tokens=7)
    assert raised.value.retryable


def test_a_version_of_the_model_is_accepted_and_must_stay_the_same(server):
    server.answer = changed(model="small-2026-01-31")
    asked = writer(server)
    assert asked.write([request("a cat")], tokens=7) == ["A CAT after 4"]
    server.answer = only(changed(model="small-2026-02-01"), "a cat")
    server.answer = lambda seen: (changed(model="small-2026-01-31") if seen.is_probe else well)(seen)
    assert asked.write([request("a cat")], tokens=7) == [None]


# What is kept


def test_the_same_request_does_not_go_out_again(server, tmp_path):
    kept = {"cache": True}
    assert writer(server, **kept).write([request("a private one")], tokens=7) == ["A PRIVATE ONE after 4"]
    server.answer = changed(text="otherwise")
    again = [request("a private one"), request("a cat")]
    assert writer(server, **kept).write(again, tokens=7) == ["A PRIVATE ONE after 4", "otherwise"]
    assert server.asked("a private") == 1
    # Another length, another API or none kept: asked anew.
    assert writer(server, **kept).write(again[:1], tokens=8) == ["otherwise"]
    assert writer(server, api="completions", **kept).write(again[:1], tokens=7) == ["otherwise"]
    assert writer(server).write(again[:1], tokens=7) == ["otherwise"]


@pytest.mark.skipif(os.name == "nt", reason="file modes are a Unix matter")
def test_what_another_version_wrote_is_not_mixed_in(server):
    def versions(number):
        return changed(model=f"small-{number}", text=f"by {number}")

    asked = [request("a private one"), request("a cat")]
    server.answer = versions(1)
    assert writer(server, cache=True).write(asked[:1], tokens=7) == ["by 1"]
    server.answer = versions(2)
    assert writer(server, cache=True).write(asked, tokens=7) == ["by 2", "by 2"]
    server.answer = versions(1)
    assert writer(server, cache=True).write(asked[:1], tokens=7) == ["by 1"]
    assert server.asked("a private") == 2


def test_what_is_kept_is_closed_to_others_and_shows_nothing(server, tmp_path):
    writer(server, cache=True).write([request("a private one")], tokens=7)
    files = sorted(path for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert [file.name for file in files] == ["replies.db", "replies.key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    content = b"".join(file.read_bytes() for file in files)
    assert not any(word in content for word in (b"rivate", b"RIVATE", b"ummarize", MODEL.encode()))


def test_failures_are_not_kept(server):
    server.answer = only(status("400 Bad Request"), "a private")
    assert writer(server, cache=True).write([request("a private one")], tokens=7) == [None]
    server.answer = well
    assert writer(server, cache=True).write([request("a private one")], tokens=7) == ["A PRIVATE ONE after 4"]


# The name, the address, the key


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("small", "followed by the address of a server"),
        ("small@http://10.0.0.7:8000/v1", "begins with https://"),
        ("small@http://127.0.0.1.example.org/v1", "begins with https://"),
        ("small@HTTP://10.0.0.7:8000/v1", "begins with https://"),
        ("small@https://host/v1,api=graph", "one of chat, completions, responses"),
        ("small@https://host/v1,isolation=tested", "isolation is 'tested'; it must be one of asserted"),
        ("small@https://host/v1,timeout_s=0", "timeout_s is '0'"),
        ("small@https://host/v1,cache=perhaps", "yes or no"),
        ("small@https://host/v1,retry=1", "did you mean 'retries'"),
        ("small@https://host/v1,retries=1,retries=2", "given retries= once"),
    ],
)
def test_a_name_that_is_not_usable_is_refused(name, words):
    with pytest.raises(ParameterError, match=words):
        ServerWriter(name)


@pytest.mark.parametrize(
    "url",
    [
        "https://ana:secret@host/v1,api=graph",
        "https://ana:secret@host/v1,retries=1,retries=1",
        "https://ana:secret@host/v1,so=what=",
        "https://ana:secret@host/v1,,",
        "https://ana:secret@host/v1",
        "https://host/v1?key=secret",
        "https://host/v1#secret",
        "https://host:x/",
        "ftp://ana:secret@host",
        "https://",
    ],
)
def test_an_address_holds_no_password_and_is_not_shown_where_it_does(url):
    with pytest.raises(InputError, match=r"without name, password|is named openai:MODEL") as raised:
        ServerWriter(f"small@{url}")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("address", ["HTTP://box:1/v1", "Http://127.0.0.1.example.org", "http://box:1/v1"])
def test_prompts_go_in_clear_to_no_other_machine_however_the_address_is_written(monkeypatch, address):
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ParameterError, match="begins with https://"):
        Server.named("small")
    assert Server.named("small,unencrypted=yes").url.startswith("http://")


@pytest.mark.parametrize(
    "address",
    [
        " http://box", "http://box\n", "ht\ntp://box", "http://bo\tx", "http://-:1", "http://a..b", "http://:::1", "http://box:0",
        "http://[::1", "https://[::1]x/v1", "http://[127.0.0.1]", "http://999.1.1.1", f"http://{'a' * 64}.org", "http://box?",
        "http://@box", "http://box#",
    ],
)  # fmt: skip
def test_an_address_that_no_request_can_go_to_is_refused(monkeypatch, address):
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(InputError, match="must be of the form"):
        Server.named("small,unencrypted=yes")


def test_what_is_judged_of_an_address_is_what_is_asked():
    for written, asked in (
        ("HTTPS://Models.Example.org:443/V1/", "https://models.example.org:443/V1"),
        ("HTTP://LOCALHOST:1", "http://localhost:1"),
        ("http://[::1]:8/v1", "http://[::1]:8/v1"),
    ):
        assert Server.named(f"small@{written}").url == asked


def test_an_address_and_an_api_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.org/v1/")
    monkeypatch.setenv("SOTTO_API", "responses")
    server = Server.named("ana/small:7b")
    assert (server.model, server.url, server.api) == ("ana/small:7b", "https://models.example.org/v1", "responses")
    assert Server.named("small,api=chat").api == "chat"
    assert Server.named("small@http://localhost:1/v1,unencrypted=no").host == "localhost:1"
    assert Server.named("small@http://box:1/v1,unencrypted=yes").unencrypted
    monkeypatch.setenv("SOTTO_API", "graph")
    with pytest.raises(ParameterError, match="SOTTO_API is 'graph'"):
        Server.named("small")


def test_a_key_is_shown_nowhere(monkeypatch):
    monkeypatch.setenv("SOTTO_API_KEY", "sk-secret")
    assert "secret" not in f"{ApiKey.found()!r} {ApiKey.found()}"
    monkeypatch.setenv("SOTTO_API_KEY", "sk-sec\nret")
    with pytest.raises(InputError, match="The key in SOTTO_API_KEY has blanks") as raised:
        ApiKey.found()
    assert "ret" not in str(raised.value).replace("secret", "")


def test_nothing_private_and_no_key_is_logged(server, caplog, capfd, monkeypatch):
    monkeypatch.setenv("SOTTO_API_KEY", "sk-secret")
    caplog.set_level(logging.DEBUG)
    echo = packed(b"{}", status="400 a private word", more="X-Why: a private word\r\n")
    server.answer = only(raw(echo), "a private")
    assert writer(server).write([request("a private one")], tokens=7) == [None]
    server.answer = only(raw(b"a private word\r\n\r\n"), "a private")
    assert writer(server).write([request("a private one")], tokens=7) == [None]
    shown = caplog.text + "".join(capfd.readouterr())
    assert not any(word in shown for word in ("private", "sk-secret", "Summarize", "http://"))


def test_an_error_has_nothing_attached_that_quotes_a_prompt(server):
    asked = writer(server, retries=0)
    asked.rehearse()
    server.answer = raw(b"a private word\r\n\r\n")
    with pytest.raises(ModelError) as raised:
        asked.write([request("a private one")], tokens=7)
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


MIXED = [fault for name, fault in OWN.items() if name != "reset"]


def injected(server: FaultyServer, runs: range, folder: Path) -> None:
    """Runs in which every request meets one of the faults, or none, for some attempts or for all."""
    asked = writer(server, retries=2, concurrency=8, timeout_s=3)
    asked.rehearse()
    for run in runs:
        server.seen.clear()
        faults = {f"run {run} number {n} ": (run * 7 + n * 3) % (2 * len(MIXED)) for n in range(6)}
        lasting = {word: (run + place) % 3 == 0 for place, word in enumerate(faults)}

        def answer(seen, faults=faults, lasting=lasting):
            for word, place in faults.items():
                if word in seen.question and place < len(MIXED) and (lasting[word] or seen.times < 1):
                    return MIXED[place](seen)
            return well(seen)

        server.answer = answer
        texts = asked.write([request(word) for word in faults], tokens=7)
        expected = [
            None if lasting[word] and place < len(MIXED) else f"{word.upper().rstrip()}  after 4"
            for word, place in faults.items()
        ]
        assert texts == expected


def test_injected_faults_touch_the_requests_that_meet_them_alone(server, tmp_path):
    injected(server, range(4), tmp_path)


@pytest.mark.slow
def test_a_thousand_injected_runs(server, tmp_path):
    injected(server, range(1_000), tmp_path)
