"""Demonstrations that anybody may see: they are shown, cost nothing, and can be calibrated."""

from __future__ import annotations

import json

import pytest

from sottovoce.cli import run
from sottovoce.errors import ParameterError, RecordError
from sottovoce.methods.references import Demonstrations
from sottovoce.models.fake import FakeScorer
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Example, Task

TASK = Task(labels=["billing", "fraud"])
SHOWN = [Example({"text": "a fee"}, 0), Example({"text": "a theft"}, 1), Example({"text": "a scam"}, 1)]


def session(**options) -> PrivateICL:
    given = {"records": None, "task": TASK, "method": "demonstrations", "model": FakeScorer(), "demonstrations": SHOWN}
    return PrivateICL(**{**given, **options})


def test_the_model_sees_them_and_nothing_is_charged():
    seen = []

    def function(task, context, query):
        seen.append([example.label for example in context])
        return [0.0, float(len(context))]

    release = session(model=FakeScorer(function)).ask("a letter", epsilon=1)
    assert (release.value, release.terms.epsilon, release.terms.delta, release.remaining) == ("fraud", 0.0, 0.0, None)
    assert seen == [[0, 1, 1]]
    assert release.statement == "No private record was read for this answer (method demonstrations)."


def test_private_records_are_not_touched_even_if_given():
    records = PrivateRecords([Row(1, {"text": "secret", "label": "billing"})], source="notes")
    model = FakeScorer()
    icl = session(records=records, model=model)
    icl.ask("a letter", epsilon=1)
    assert icl.balance is None
    assert model.contexts_read == 1


def test_calibration_takes_off_what_is_said_without_content():
    # The model likes fraud by three nats whatever is asked, and billing by one for the word fee.
    def function(task, context, query):
        return [float("fee" in query["text"]), 3.0]

    plain, calibrated = (
        session(model=FakeScorer(function), method=Demonstrations(calibrate=flag)) for flag in (False, True)
    )
    assert [r.value for r in plain.classify(["a fee", "a theft"], epsilon=1)] == ["fraud", "fraud"]
    # Calibrated, the word alone counts, and without it there is a tie, which goes to the first label.
    assert [r.value for r in calibrated.classify(["a fee", "a theft"], epsilon=1)] == ["billing", "billing"]
    free = session(model=FakeScorer(function), calibrate=True)
    assert [r.value for r in free.classify(["a fee", "a theft"], epsilon=1)] == ["billing", "billing"]


@pytest.mark.parametrize(("method", "shown"), [("demonstrations", ()), ("zero-shot", SHOWN), ("poe", SHOWN)])
def test_they_come_with_their_method_and_with_it_alone(method, shown):
    with pytest.raises(ParameterError, match="demonstrations"):
        session(method=method, demonstrations=shown)


@pytest.fixture
def files(tmp_path):
    def write(name, rows):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return str(tmp_path / name)

    return write


def test_the_command_shows_a_file_of_them(files, tmp_path, capfd):
    demos = files("demos.jsonl", [{"text": "a theft", "label": "fraud"}, {"text": "a scam", "label": "fraud"}])
    queries = files("q.jsonl", [{"text": "a letter"}])
    command = ["classify", "--demonstrations", demos, "--queries", queries, "--labels", "billing,fraud"]
    assert run([*command, "--model", "fake"]) == 0
    (row,) = (json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{"))
    assert (row["value"], row["method"], row["epsilon"]) == ("fraud", "demonstrations", 0.0)


def test_the_command_refuses_them_beside_private_records_or_with_a_strange_label(files, capfd):
    demos = files("demos.jsonl", [{"text": "a theft", "label": "7QX"}])
    queries = files("q.jsonl", [{"text": "a letter"}])
    command = [
        "classify",
        "--demonstrations",
        demos,
        "--queries",
        queries,
        "--labels",
        "billing,fraud",
        "--model",
        "fake",
    ]
    assert run([*command, "--private", demos]) == ParameterError.exit_code
    assert "without --private" in capfd.readouterr().err
    assert run(command) == RecordError.exit_code
    assert "7QX" not in capfd.readouterr().err


def test_shots_shows_the_first_so_many(files, capfd):
    # The fake answers with the label most often shown: fraud by the whole file, billing by its first row.
    demos = files("demos.jsonl", [{"text": w, "label": w2} for w, w2 in (("fee", "billing"), *[("scam", "fraud")] * 2)])
    command = ["classify", "--demonstrations", demos, "--queries", files("q.jsonl", [{"text": "a letter"}])]
    command += ["--labels", "billing,fraud", "--model", "fake"]
    for shots, value in (([], "fraud"), (["--shots", "1"], "billing"), (["--shots", "3"], "fraud")):
        assert run([*command, *shots]) == 0
        (row,) = (json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{"))
        assert row["value"] == value
    assert run([*command, "--shots", "4"]) == ParameterError.exit_code
    assert "from 1 to 3" in capfd.readouterr().err


def test_shots_without_demonstrations_is_refused(files, capfd):
    rows = files("rows.jsonl", [{"text": "a fee", "label": "billing"}])
    command = ["classify", "--private", rows, "--queries", rows, "--labels", "billing,fraud", "--shots", "1"]
    assert run(command) == ParameterError.exit_code
    assert "given with --demonstrations" in capfd.readouterr().err
