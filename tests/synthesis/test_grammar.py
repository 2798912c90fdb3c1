"""Synthesis under a grammar: every finished text is a row, at the same price, and by released tokens alone."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

pytest.importorskip("llguidance")
pytest.importorskip("jsonschema")

from jsonschema import validate

from sottovoce.cli import run
from sottovoce.errors import ModelError, ParameterError, SottoError
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.decoding.decoder import TokenSampler, registered_decoders
from sottovoce.models.fake import CHARACTERS, FakeStepper
from sottovoce.models.grammar import Grammar
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.synthesis.config import SynthesisConfig
from synthesis.worlds_of_texts import writer

NOTE = {
    "title": "note",
    "type": "object",
    "properties": {"kind": {"enum": ["fee", "theft"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["kind", "days"],
    "additionalProperties": False,
}
PIECES = list(dict.fromkeys([*CHARACTERS, *'{}[]\\_"', '{"', '": ', ', "', "fee", "theft"]))
ORDER = SynthesisConfig(per_label=4, tokens=40, experts=6)
GRAMMAR = GenerationTemplate(("kind", "days"), None, "Here are notes.\n", "Record:", NOTE, grammar=True)
FREE = replace(GRAMMAR, grammar=False)


def records(kinds=("fee", "theft"), count: int = 24) -> PrivateRecords:
    rows = [Row(i + 1, {"kind": kinds[i % len(kinds)], "days": i % 10}) for i in range(count)]
    return PrivateRecords(rows, source="notes", synthetic=True)


def scribe(function=None, pieces=PIECES) -> FakeStepper:
    return FakeStepper(function, pieces=pieces)


def written(place=":memory:", **options):
    given = {"records": records(), "task": GRAMMAR, "order": ORDER, "model": scribe()}
    return writer(place, **{**given, **options})


def reservations(place) -> int:
    return sum(entry["kind"] == "reserve" for entry in Ledger(str(place)).history())


# Rows


@pytest.mark.cases(3)
@pytest.mark.parametrize("method", sorted(registered_decoders()))
@pytest.mark.slow
def test_every_row_keeps_to_the_schema_and_none_is_lost(method):
    found = list(written(method=method).rounds())
    rows = [row for one in found for row in one.rows]
    assert (len(rows), sum(one.unreadable for one in found)) == (4, 0)
    for row in rows:
        validate(dict(row), NOTE)


@pytest.mark.slow
def test_without_the_grammar_the_same_model_writes_no_row():
    assert sum(one.unreadable for one in written(task=FREE).rounds()) == 4


@pytest.mark.slow
def test_a_text_is_one_line_and_over_with_its_last_brace(tmp_path):
    icl = written(tmp_path / "a.db")
    checkpoint = Checkpoint(tmp_path / "notes.jsonl", icl.terms, icl.new_run_state(), resume=False)
    list(icl.rounds(checkpoint))
    for number in range(1, 5):
        for text in checkpoint.found(number)[0]:
            assert text["written"].count("\n") == 0
            assert text["written"].endswith("}")
            assert text["tokens"] < ORDER.tokens
    checkpoint.close()


@pytest.mark.slow
def test_what_is_private_is_still_what_is_written():
    # Experts vote among the words that the schema allows: the grammar does not choose for them.
    def says(prompt, text):
        logits = [0.0] * (len(PIECES) + 2)
        for word in ("fee", "theft"):
            logits[PIECES.index(word)] = 60.0 * (word in prompt.private_text)
        return logits

    for word in ("fee", "theft"):
        # A word of the other kind can be drawn; by these coins none is.
        randomness = SeededRandomness(2)
        icl = written(records=records((word,)), model=scribe(says), epsilon=90.0, randomness=randomness)
        assert {row["kind"] for one in icl.rounds() for row in one.rows} == {word}


# The price, and what candidates follow from


@pytest.mark.slow
def test_a_grammar_costs_nothing():
    free, run_state = written(task=FREE), written()
    assert run_state.plan.report == free.plan.report
    assert run_state.plan.event == free.plan.event
    for icl in (free, run_state):
        list(icl.rounds())
    assert run_state.balance.spent == free.balance.spent


@pytest.mark.slow
def test_what_may_come_next_follows_from_the_tokens_so_far_whatever_the_records_are(monkeypatch):
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    so_far: dict[int, list[int]] = {}
    original = TokenSampler.next

    def watched(chooser, step, allowed=None):
        tokens = so_far.setdefault(id(chooser), [])
        run_state.append(chooser)
        seen.setdefault(tuple(tokens), set()).add(tuple(allowed.tolist()))
        tokens.append(original(chooser, step, allowed))
        return tokens[-1]

    run_state: list[TokenSampler] = []  # so that no two of them share an id
    monkeypatch.setattr(TokenSampler, "next", watched)
    for kinds in (("fee",), ("theft",), ("fee", "theft")):
        list(written(records=records(kinds), order=replace(ORDER, per_label=4)).rounds())
    assert len(seen) > 20
    assert max(len(allowed) for allowed in seen.values()) == 1
    assert len({allowed for one in seen.values() for allowed in one}) > 3, "they are not all the same"


@pytest.mark.parametrize("method", sorted({*registered_decoders()} - {"tang"}))  # whose grid is too fine to sum up
def test_every_method_draws_among_what_is_allowed_by_its_own_law(method):
    icl = written(method=method)
    read = icl.model.read(icl._batches.groups(), max_private_tokens=20, tokens=1)
    [step] = read.write([0], 1).step({0: None})
    chooser = icl.plan.decoder.start(
        icl.plan, icl._randomness, eos_tokens=icl.model.eos_tokens, forbidden_tokens=icl.model.forbidden_tokens
    )
    allowed = Grammar(NOTE, icl.model).start().allowed()
    law = chooser.law(step, allowed)
    assert law.sum() == pytest.approx(1)
    assert set(law.nonzero()[0]) <= set(allowed.tolist())
    assert len(allowed) == 3, "a blank, a brace, and a brace with a quotation mark"


# What is refused, and when


@pytest.mark.slow
def test_what_the_model_cannot_write_is_refused_before_anything_is_read_or_charged(tmp_path):
    lower = scribe(pieces=[piece for piece in PIECES if not piece.isupper()])
    named = {**NOTE, "properties": {"Kind": {"type": "string"}}, "required": ["Kind"]}
    icl = written(tmp_path / "a.db", model=lower, task=replace(GRAMMAR, schema=named))
    with pytest.raises(ModelError, match='no tokens for "Kind"'):
        list(icl.rounds())
    assert (reservations(tmp_path / "a.db"), lower.prompts_read) == (0, 0)
    assert len(list(written(model=lower).rounds())) == 4


def test_a_schema_that_no_grammar_can_be_made_of_is_refused_before_a_charge(tmp_path):
    icl = written(tmp_path / "a.db", task=replace(GRAMMAR, schema={**NOTE, "not": {"required": ["x"]}}))
    with pytest.raises(ParameterError, match="not"):
        list(icl.rounds())
    assert reservations(tmp_path / "a.db") == 0


@pytest.mark.slow
def test_a_run_is_not_resumed_under_another_setting(tmp_path):
    icl = written(tmp_path / "a.db")
    checkpoint = Checkpoint(tmp_path / "notes.jsonl", icl.terms, icl.new_run_state(), resume=False)
    next(icl.rounds(checkpoint))
    checkpoint.close()
    with pytest.raises(SottoError, match="grammar"):
        Checkpoint(
            tmp_path / "notes.jsonl", written(tmp_path / "a.db", task=FREE).terms, icl.new_run_state(), resume=True
        )
    again = written(tmp_path / "a.db")
    resumed = Checkpoint(tmp_path / "notes.jsonl", again.terms, again.new_run_state(), resume=True)
    assert [one.again for one in again.rounds(resumed)] == [True, False, False, False]


def test_a_grammar_without_a_schema_is_refused():
    with pytest.raises(ParameterError, match="--schema"):
        GenerationTemplate(("text",), grammar=True)


# Dead ends after the charge


@pytest.mark.slow
def test_a_text_that_comes_to_a_dead_end_is_unreadable_and_the_run_goes_on(monkeypatch):
    monkeypatch.setattr(Grammar, "_try_out", lambda grammar: None)
    without = scribe(pieces=[piece for piece in PIECES if piece != "}"])
    found = list(written(model=without).rounds())
    assert [one.unreadable for one in found] == [1] * 4
    assert all(2 < one.tokens < ORDER.tokens for one in found)


@pytest.mark.slow
def test_tokens_that_the_public_prompt_cannot_score_are_a_dead_end_and_no_error():
    def never_closes(prompt, text):
        logits = [0.0] * (len(PIECES) + 2)
        logits[PIECES.index("}")] = math.nan if len(text) % 2 else -math.inf
        return logits

    found = list(written(model=scribe(never_closes)).rounds())
    assert [one.unreadable for one in found] == [1] * 4


# As a user types it


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    lines = "".join(json.dumps({"kind": "fee", "days": i % 10}) + "\n" for i in range(8))
    (tmp_path / "notes.jsonl").write_text(lines, "utf-8")
    (tmp_path / "note.schema.json").write_text(json.dumps(NOTE), "utf-8")

    def typed(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(list(words))
        out = capfd.readouterr()
        return code, out.out, out.err

    return typed


COMMAND = (
    "synthesize", "--private", "notes.jsonl", "--per-label", "2", "--tokens", "24", "--experts", "4",
    "--inside-tokens", "24", "--epsilon", "6", "--ledger", "notes.db", "--budget", "20,1e-5", "--out", "made.jsonl",
    "--grammar",
)  # fmt: skip


@pytest.mark.slow
def test_the_embedded_model_writes_rows_whatever_its_weights_are_and_their_certificate_holds(desk, tmp_path):
    code, out, err = desk(*COMMAND, "--schema", "note.schema.json", "--json")
    assert code == 0, err
    assert (json.loads(out)["rows"], json.loads(out)["unreadable"]) == (2, 0)
    for line in (tmp_path / "made.jsonl").read_text("utf-8").splitlines():
        validate(json.loads(line), NOTE)
    assert desk("verify", "certificate", "made.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--labels", "billing,fraud"), "--schema"),
        (("--schema", "note.schema.json", "--model", "fake"), "none of its tokens may follow"),
    ],
)
def test_a_command_that_cannot_be_kept_leaves_nothing_behind(desk, tmp_path, words, told):
    code, _, err = desk(*COMMAND, *words)
    assert code in (2, 4)
    assert told in err
    assert not list(tmp_path.glob("made*"))
    assert not (tmp_path / "notes.db").exists() or reservations(tmp_path / "notes.db") == 0
