"""``sotto audit``: exit codes, outputs, refusals, and a system behind an address."""

from __future__ import annotations

import io
import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sottovoce import __version__
from sottovoce.cli import run
from sottovoce.errors import InputError
from sottovoce.files import outputs
from sottovoce.models.backends.embedded import Embedded
from sottovoce.models.fake import FakeScorer


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with made-up records; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": ["billing", "fraud"][i % 2]} for i in range(6)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def typed(*words):
        capfd.readouterr()
        code = run(["audit", *map(str, words)])
        out, err = capfd.readouterr()
        return code, out, err

    typed.folder = tmp_path
    return typed


ROWS = ("--private", "rows.jsonl", "--labels", "billing,fraud,other", "--synthetic")
FAKE = (*ROWS, "--model", "fake")
QUICK = ("--runs", "60", "--canary", "hex", "--question", "if-then")


def test_a_sound_method_ends_with_0_and_every_output_is_written(desk):
    files = ("--report", "a.html", "--junit", "a.xml", "--sarif", "a.sarif")
    code, out, err = desk("canary", *FAKE, *QUICK, "--epsilon", "1", "--json", *files)
    assert code == 0, err
    told = json.loads(out)
    assert (told["verdict"], told["format"], told["kind"]) == ("no violation found", "sottovoce-audit-1", "canary")
    assert told["setting"]["records played with"] == 4
    assert all((desk.folder / name).stat().st_size for name in ("a.html", "a.xml", "a.sarif"))
    assert desk("canary", *FAKE, *QUICK, *files)[0] == 0, "its own earlier outputs are replaced"


def test_a_method_without_noise_ends_with_1(desk):
    words = (*FAKE, "--method", "full-context", "--records", "1", "--runs", "200", "--canary", "hex")
    code, out, _ = desk("canary", *words)
    assert (code, "full-context: violation found" in out) == (1, True)


@pytest.mark.slow
def test_a_verdict_is_told_where_one_of_its_files_cannot_be_written(desk, monkeypatch):
    write = outputs.write_new

    def full(file, text, **given):
        if file.suffix == ".html":
            raise InputError(f"{file} cannot be written (No space left on device).")
        write(file, text, **given)

    monkeypatch.setattr(outputs, "write_new", full)
    files = ("--report", "a.html", "--junit", "a.xml")
    for words, wanted in (
        (("--epsilon", "1"), (2, "no violation found")),
        (("--method", "full-context", "--records", "1", "--runs", "200"), (1, "full-context: violation found")),
    ):
        code, out, err = desk("canary", *FAKE, *QUICK, *words, *files)
        assert (code, wanted[1] in out) == (wanted[0], True), err
        assert "a.html cannot be written (No space left on device). The verdict above is whole" in err
        assert ("<failure" in (desk.folder / "a.xml").read_text()) is (code == 1)
        assert not (desk.folder / "a.html").exists()


def test_files_of_an_audit_are_written_where_nobody_reads_its_verdict(desk, monkeypatch):
    def gone(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sottovoce.cli.audit._show", gone)
    words = ("--epsilon", "1", "--report", "a.html", "--junit", "a.xml", "--sarif", "a.sarif")
    assert desk("canary", *FAKE, *QUICK, *words)[0] != 0
    assert all((desk.folder / name).stat().st_size for name in ("a.html", "a.xml", "a.sarif"))


def test_a_violation_keeps_its_exit_code_where_its_reader_goes_away(desk, monkeypatch):
    class Unread(io.StringIO):
        def write(self, text):
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.stdout", Unread())
    code, _, err = desk(
        "canary", *FAKE, *QUICK, "--method", "full-context", "--records", "1", "--runs", "200", "--junit", "a.xml"
    )
    assert code == 1
    assert "The verdict is: full-context: violation found." in err
    assert "Written: a.xml" in err


@pytest.mark.cases(1)
@pytest.mark.parametrize("violates", [False, True])
def test_a_verdict_that_cannot_be_printed_has_its_exit_code_and_its_files(desk, monkeypatch, violates):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())
    method = ("--method", "full-context", "--records", "1", "--runs", "200") if violates else ("--epsilon", "1")
    code, _, err = desk("canary", *FAKE, *QUICK, *method, "--junit", "a.xml")
    assert code == (1 if violates else 2), err
    assert "The output cannot be written (No space left on device)." in err
    assert "The verdict is: full-context: violation found" in err or not violates
    assert "Written: a.xml" in err
    assert ("<failure" in (desk.folder / "a.xml").read_text()) is violates


@pytest.mark.cases(1)
@pytest.mark.parametrize("violates", [False, True])
def test_a_full_stderr_takes_nothing_from_a_verdict(desk, monkeypatch, violates):
    def full(line):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sottovoce.cli.verdict.say", full)
    method = ("--method", "full-context", "--records", "1", "--runs", "200") if violates else ("--epsilon", "1")
    code, out, _ = desk("canary", *FAKE, *QUICK, *method, "--junit", "a.xml", "--sarif", "a.sarif")
    assert code == (1 if violates else 2)
    assert ("violation found" in out, (desk.folder / "a.sarif").exists()) == (True, True)


def test_an_audit_that_cannot_run_ends_with_2_and_says_so_in_its_outputs(desk, monkeypatch):
    monkeypatch.setattr(Embedded, "scorer", lambda self: lambda: FakeScorer(name="embedded"))
    words = ("--endpoint", "http://127.0.0.1:9/v1", "--runs", "4", "--junit", "a.xml")
    code, out, _ = desk("canary", *ROWS, *words)
    assert (code, "could not run" in out) == (2, True)
    assert "<error" in (desk.folder / "a.xml").read_text()


@pytest.mark.parametrize("kind", ["canary", "injection", "membership", "exact"])
@pytest.mark.parametrize("when", ["retries=0,cache=no", "api=chat,score=echo"], ids=["asked", "loaded"])
def test_a_model_that_fails_is_an_audit_that_could_not_run_whatever_its_kind(desk, kind, when):
    size = ("--records", "2") if kind == "exact" else ("--runs", "20")
    words = (*ROWS, "--model", f"openai:x@http://127.0.0.1:9/v1,{when}", *size, "--junit", "a.xml")
    code, out, err = desk(kind, *words)
    assert (code, "could not run" in out) == (2, True), err
    assert "<error" in (desk.folder / "a.xml").read_text()


@pytest.mark.parametrize(
    "sent",
    [
        b"hello there\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["no status", "a cut chunk", "too deep", "cut off"],
)
def test_an_endpoint_that_breaks_the_protocol_is_one_that_could_not_be_audited(desk, monkeypatch, sent):
    monkeypatch.setattr(Embedded, "scorer", lambda self: lambda: FakeScorer(name="embedded"))

    class Broken(socketserver.StreamRequestHandler):
        def handle(self):
            self.rfile.readline()
            self.wfile.write(sent)

    with socketserver.TCPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        found = [
            desk(*words, *ROWS, "--endpoint", address, "--runs", "4")
            for words in (("canary", *QUICK[2:]), ("extract",))
        ]
        server.shutdown()
    for code, out, err in found:
        assert (code, "could not run" in out) == (2, True), err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--private", "rows.jsonl", "--labels", "billing,fraud"), "--private is 'rows.jsonl'"),
        (("--labels", "billing,fraud"), "--private is missing"),
        ((*FAKE, "--insertion", "add"), "one that tests replace-one"),
        ((*FAKE, "--insertion", "ad"), "--insertion is 'ad'"),
        ((*FAKE, "--canary", "hexx"), "--canary is 'hexx'"),
        ((*FAKE, "--question", "if"), "question is 'if'"),
        ((*FAKE, "--question-text", "{x}"), "question is '{x}'"),
        ((*FAKE, "--defence", "L9"), "--defence is 'L9'"),
        ((*FAKE, "--records", "7"), "from 1 to 6"),
        ((*FAKE, "--method", "auto"), "one method by name"),
        ((*ROWS, "--endpoint", "http://127.0.0.1:9/v1", "--method", "rnm"), "left out with --endpoint"),
    ],
)
def test_what_is_not_usable_is_refused_by_name(desk, words, told):
    code, out, err = desk("canary", *words, "--report", "a.html")
    assert (code, out) == (2, "")
    assert told in err
    assert not (desk.folder / "a.html").exists()


def test_records_that_a_ledger_knows_are_no_made_up_ones(desk):
    words = ["ask", "late?", *FAKE[:4], "--model", "fake", "--ledger", "t.db", "--epsilon", "0.5"]
    assert run(words) == 0
    code, _, err = desk("canary", *FAKE)
    assert (code, "most of these rows are private records" in err) == (2, True)


def test_a_few_records_that_a_ledger_knows_are_no_made_up_ones_either(desk):
    rows = [{"text": f"a late parcel number {i}", "label": ["billing", "fraud"][i % 2]} for i in range(40)]
    (desk.folder / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = [
        "ask",
        "late?",
        "--private",
        "many.jsonl",
        *FAKE[2:4],
        "--model",
        "fake",
        "--ledger",
        "t.db",
        "--epsilon",
        "0.5",
    ]
    assert run(known) == 0
    (desk.folder / "few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:5]))
    for kind in ("canary", "membership", "exact"):
        code, _, err = desk(kind, "--private", "few.jsonl", *FAKE[2:])
        assert (code, "most of these rows are private records" in err) == (2, True), kind


def test_a_users_own_canary_and_question_stand_alone(desk):
    code, out, err = desk(
        "canary", *FAKE, "--canary-text", "Locker 7", "--question-text", "Is {secret} there?", "--runs", "40", "--json"
    )
    assert code == 0, err
    told = json.loads(out)
    assert [(cell["canary"], cell["question"]) for cell in told["cells"]] == [("own-1", "own-1")]


@pytest.mark.slow
def test_injection_compares_defences(desk):
    code, out, err = desk("injection", *FAKE, "--canary", "hex", "--runs", "40", "--json")
    assert code in (0, 1), err
    told = json.loads(out)
    assert [row["name"] for row in told["defences"]] == ["poe", "L0", "L1", "L2", "L3"]
    assert {cell["question"] for cell in told["cells"]} == {"injection", "if-then"}


@pytest.mark.slow
def test_membership_exact_and_plan(desk):
    code, out, err = desk("membership", *FAKE, "--runs", "40", "--json")
    assert (code, json.loads(out)["kind"]) == (0, "membership"), err
    code, out, err = desk("membership", *FAKE, "--runs", "20", "--attack", "likelihood-ratio", "--json")
    assert (code, json.loads(out)["setting"]["attack"]) == (0, "likelihood-ratio"), err
    code, out, err = desk("exact", *FAKE, "--epsilon", "2", "--question-text", "late?", "--json")
    assert code == 0, err
    assert 0 < json.loads(out)["measured"]["exact"] <= 2 + 1e-9
    for words in (("choice",), ("ksa", "-o", "k=1"), ("prism", "--tokens", "1")):
        code, out, err = desk("exact", *FAKE, "--epsilon", "2", "--method", *words, "--json")
        told = json.loads(out)
        assert (code, told["verdict"]) == (0, "no violation found"), err
        assert 0 <= told["measured"]["exact"] <= 2 + 1e-9
    code, out, _ = desk("plan", "--epsilon", "2", "--runs", "200")
    assert (code, "4 times the epsilon" in out) == (0, True)
    code, _, err = desk("plan", "--method", "full-context")
    assert (code, "there is no claim to test" in err) == (2, True)
    code, _, err = desk("plan", "--method", "zero-shot")
    assert (code, "of what it releases nothing is private" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("number", [2**63 - 1, 10**21, 10**30])
@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("plan", "--runs"), "1,000,000"),
        (("canary", *FAKE, *QUICK[2:], "--runs"), "10,000,000"),
        pytest.param(("injection", *FAKE, "--runs"), "10,000,000", marks=pytest.mark.slow),
        (("membership", *FAKE, "--runs"), "10,000,000"),
        pytest.param(("membership", *FAKE, "--answers"), "10,000,000", marks=pytest.mark.slow),
        pytest.param(("extract", *ROWS, "--writer", "fake", "--runs"), "100,000", marks=pytest.mark.slow),
    ],
)
def test_a_number_that_nobody_can_wait_for_is_refused_by_name_with_its_limit(desk, words, most, number):
    code, out, err = desk(*words, number)
    assert (code, out) == (2, "")
    assert f"ParameterError: {words[-1]} is {number}; it must be a whole number from " in err
    assert f" to {most}." in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("exact", "--method", "prizm"), "did you mean 'prism'"),
        (("exact", "--method", "sga"), "one with an exact law: private clustering"),
        (("exact", "--method", "choice", "--tokens", "2"), "--tokens"),
        (("exact", "--method", "poe", "--writer", "fake"), "--writer"),
        (("extract",), "--endpoint in its place"),
        (("canary", "--writer", "fake", "--method", "rnm"), "--method"),
        (("canary", "--writer", "fake", "--endpoint", "http://127.0.0.1:9/v1"), "left out with --endpoint"),
    ],
)
def test_what_does_not_suit_a_law_or_a_writer_is_refused_by_name(desk, words, told):
    code, _, err = desk(words[0], *ROWS, *words[1:])
    assert (code, told in err) == (2, True), err


def test_a_model_that_writes_is_audited(desk, monkeypatch):
    monkeypatch.setattr(Embedded, "scorer", lambda self: lambda: FakeScorer(name="embedded"))
    code, out, err = desk("extract", *ROWS, "--writer", "fake", "--json")
    assert (code, json.loads(out)["setting"]["writer"]) == (0, "fake"), err
    code, out, err = desk("injection", *ROWS, "--writer", "fake", "--canary", "hex", "--runs", "20", "--json")
    assert code in (0, 1), err
    told = json.loads(out)
    assert [row["name"] for row in told["defences"]][1:] == ["L0", "L1", "L2", "L3"]
    assert "every record stands in the prompt" in told["notes"][0]


@pytest.mark.slow
def test_a_fitted_file_is_audited_by_its_name(desk):
    fit = ["fit", *FAKE[:4], "--model", "fake", "--method", "class-means", "--epsilon", "8", "--delta", "1e-6"]
    assert run([*fit, "--ledger", ":memory:", "--out", "s.sotto"]) == 0
    assert "--runs is 100001; it must be a whole number from 1 to 100,000" in desk("s.sotto", "--runs", "100001")[2]
    code, out, err = desk("s.sotto", "--runs", "4", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["subject"], told["setting"]["version"]) == ("class-means, as fitted", __version__)
    assert desk("fitted", "rows.jsonl")[0] == 2


class Chat(BaseHTTPRequestHandler):
    """Repeats its instruction, or says nothing."""

    repeats = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["messages"][0]["content"] if self.repeats else "I cannot say."
        reply = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        """Prints nothing."""


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), Chat)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize(("repeats", "code"), [(True, 1), (False, 0)])
def test_a_system_behind_an_address_is_audited(desk, address, monkeypatch, repeats, code):
    monkeypatch.setattr(Chat, "repeats", repeats)
    monkeypatch.setattr(Embedded, "scorer", lambda self: lambda: FakeScorer(name="embedded"))
    found, out, err = desk("canary", *ROWS, "--endpoint", address, *QUICK, "--json")
    assert found == code, err
    told = json.loads(out)
    assert told["setting"]["repetition"] == "the whole system asked again"
    assert told["claim"]["own_curve"] is False
    assert desk("extract", *ROWS, "--endpoint", address, "--runs", "3")[0] == code
