"""Reports: three verdicts, a JSON of a stated schema, a page that needs nothing else, JUnit and SARIF."""

from __future__ import annotations

import json
import socket
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from sottovoce.audits.game import detectors
from sottovoce.audits.game.endpoint import EndpointGame, posted
from sottovoce.audits.game.games import FunctionGame, LabelGame
from sottovoce.audits.game.play import Claim
from sottovoce.audits.kinds.canary import Attacks, Audit, spread, unit_of
from sottovoce.audits.page import html_of
from sottovoce.audits.report import Measured, Report, Verdict, could_not_run, junit, reason_of, sarif, schema
from sottovoce.audits.schema import is_valid
from sottovoce.errors import InputError, ModelError, ParameterError
from sottovoce.methods.base import Price, make_method
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import Row
from sottovoce.tasks import Task

TASK = Task(labels=["a", "b", "c"])
ROWS = [Row(i, {"text": f"note {word}", "label": "ab"[i % 2]}) for i, word in enumerate(("first", "other", "third"))]
RO = Adjacency.REPLACE_ONE
VOID = {"meta", "input", "br", "img", "path"}


def audit(game, claim=None, choice=detectors.of_labels, **attacks):
    attacks = Attacks(**{"records": 2, "certifying": 60, **attacks})
    return Audit("canary", game, ROWS, TASK, claim or Claim.of(1.0, 0.0, RO), attacks, SeededRandomness(1), choice)


def leaking(rows, question):
    return "c" if any("reference is" in str(row.values["text"]) for row in rows) else "a"


@pytest.fixture(scope="module")
def found():
    game = LabelGame(make_method("poe"), FakeScorer(), TASK, Price(1.0), randomness=SeededRandomness(1))
    quiet = audit(game, Claim.of(1.0, 0.0, RO, game.event)).run(questions=[({"text": "note"}, 0)])
    loud = audit(FunctionGame("leaky", leaking), kinds=["hex"]).run()
    return {"quiet": quiet, "loud": loud, "broken": could_not_run("canary", "poe", "The model is gone.")}


@pytest.mark.parametrize("name", ["quiet", "loud", "broken"])
@pytest.mark.slow
def test_the_json_is_of_the_schema(found, name):
    jsonschema = pytest.importorskip("jsonschema")
    told = json.loads(json.dumps(found[name].as_dict(), allow_nan=False))
    assert is_valid(told, schema())
    jsonschema.validate(told, schema())
    measured = told["measured"] or {}
    wrong = [
        {"verdict": "safe"}, {"more": 1}, {"date": None}, {"measured": "abc"}, {"measured": {}}, {"notes": [1]},
        {"measured": {**measured, "powers": {"a": "b"}}}, {"measured": {**measured, "confidence": 2}}, {"claim": []},
        {"measured": {**measured, "bound": True}}, {"claim": {"epsilon": 0}}, {"attacks": [{"id": 1}]},
    ]  # fmt: skip
    for change in wrong:
        assert not is_valid({**told, **change}, schema()), change
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**told, **change}, schema())
    assert not is_valid({name: value for name, value in told.items() if name != "kind"}, schema())
    assert not is_valid([told], schema())


def test_there_are_three_verdicts_with_an_exit_code_each(found):
    assert [found[name].verdict.exit_code for name in ("quiet", "loud", "broken")] == [0, 1, 2]
    assert found["quiet"].headline.startswith("no violation found (power ")
    assert found["loud"].headline == "violation found"
    assert found["broken"].headline == "could not run"
    assert [verdict.value for verdict in Verdict] == ["no violation found", "violation found", "could not run"]


def test_a_violation_says_what_it_rests_on():
    measured = Measured(1.2345, 0.95)
    assert "at least 1.23 (95 % confidence), more than the 1 that" in reason_of(Verdict.VIOLATION, measured, 1.0)
    assert "within the 2 that is claimed, but with fewer errors" in reason_of(Verdict.VIOLATION, measured, 2.0)
    assert "cannot prove it" in reason_of(Verdict.NONE_FOUND, measured, 2.0)


class Tags(HTMLParser):
    """Open tags, and every address that a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "href", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("name", ["quiet", "loud", "broken"])
def test_the_page_is_well_formed_fetches_nothing_and_says_the_verdict_first(found, name):
    page = html_of(found[name])
    tags = Tags()
    tags.feed(page)
    assert (tags.open, tags.fetched) == ([], [])
    assert "<script" not in page
    words = " ".join(tags.text)
    assert words.index(found[name].headline[1:]) < words.index("What the words mean")


def test_the_page_has_the_figures(found):
    page = html_of(found["quiet"])
    for part in ("Which question sees which canary", "Found against false alarms", "Power", "Point estimate", "Holm"):
        assert part in page
    assert page.count("<svg") == 1
    assert "right answers" in page.lower()


def test_the_page_says_in_plain_words_what_is_claimed_and_what_the_attack_did():
    rates = {"false_positives": 10, "absent": 100, "false_negatives": 20, "present": 100, "bound": 0.5, "exact": None}
    about = {
        "canary": "hex",
        "insertion": "replace",
        "adjacency": "zero-out",
        "question": "q",
        "detector": "d",
        "id": "a",
    }
    roc = {"false_positive_rates": [0.0, 1.0], "true_positive_rates": [0.0, 1.0]}
    attack = {**about, **rates, "accuracy": 0.85, "adjusted_p_value": 1.0, "roc": roc}
    claim = {"epsilon": 1.0, "delta": 0.0, "adjacency": "zero-out"}
    setting = {"what it does": "sums of votes"}
    page = html_of(
        Report("canary", "x", Verdict.NONE_FOUND, "-", claim, Measured(0.5, 0.95), setting, attacks=[attack])
    )
    # e / (1 + e) = .7311 by hand, rounded up.
    assert "of two data sets in which one record is there or is blank, nobody can tell which one" in page
    assert "more often than 73.2 times in 100" in page
    assert "the best of the attacks was right 85 times in 100" in page
    assert "x: sums of votes." in page


def test_what_comes_from_a_user_is_escaped_on_the_page():
    report = Report("canary", "<b>x</b>", Verdict.NONE_FOUND, "a & b", setting={"<i>": "<script>"}, notes=["<u>"])
    page = html_of(report)
    assert not any(bad in page for bad in ("<b>x", "<i>", "<script", "<u>"))


def test_junit_counts_failures_and_errors(found):
    quiet, loud, broken = (ET.fromstring(junit(found[name])) for name in ("quiet", "loud", "broken"))
    assert [suite.attrib["failures"] for suite in (quiet, loud, broken)] == ["0", "1", "0"]
    assert [suite.attrib["errors"] for suite in (quiet, loud, broken)] == ["0", "0", "1"]
    assert int(quiet.attrib["tests"]) == len(quiet) == 3
    assert len(loud.findall(".//failure")) == 1


def test_sarif_has_a_result_where_there_is_something_to_do(found):
    levels = [
        [result["level"] for result in sarif(found[name], "1")["runs"][0]["results"]]
        for name in ("quiet", "loud", "broken")
    ]
    assert levels == [[], ["error"], ["warning"]]


def test_an_audit_whose_model_fails_says_that_it_could_not_run():
    def gone(rows, question):
        raise ModelError("The model is gone.")

    report = audit(FunctionGame("gone", gone)).run()
    assert (report.verdict, report.reason) == (Verdict.COULD_NOT_RUN, "The model is gone.")


def test_a_claim_out_of_reach_is_said_to_be_so():
    few = audit(FunctionGame("leaky", leaking), Claim.of(9.0, 0.0, RO), kinds=["hex"]).run()
    assert few.verdict is Verdict.NONE_FOUND
    assert "This audit can show an epsilon of at most" in few.notes[-1]
    assert few.measured.powers["everything"] < 1e-3


def test_records_are_spread_and_units_are_named():
    assert [row.line for row in spread(ROWS, 2)] == [0, 1]
    assert (unit_of(ROWS, None), unit_of(ROWS, "text")) == ("record", "text")
    with pytest.raises(ParameterError, match="from 1 to 3"):
        spread(ROWS, 4)


@pytest.mark.parametrize(
    "address",
    ["ftp://host/v1", "host", "http://", "http://user:word@127.0.0.1/v1", "http://:word@127.0.0.1/v1", "http://127.0.0.1/?word"],
)  # fmt: skip
def test_an_address_is_http_and_holds_no_password(address):
    with pytest.raises(InputError, match="without name, password") as raised:
        EndpointGame(address, TASK)
    assert "word@" not in str(raised.value)


def test_records_and_the_key_go_in_clear_to_this_machine_alone():
    for address in ("http://box/v1", "HTTP://box/v1"):
        with pytest.raises(ParameterError, match="begins with https://"):
            EndpointGame(address, TASK)
        assert EndpointGame(address, TASK, unencrypted=True).address == "http://box/v1"
    assert EndpointGame("HTTPS://Box/v1/", TASK).name == "default at box"


def test_an_endpoint_is_asked_without_proxies(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy, socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        taken.close()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(ModelError, match="does not answer"):
            posted(EndpointGame(address, TASK, timeout_s=5.0), {})
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
