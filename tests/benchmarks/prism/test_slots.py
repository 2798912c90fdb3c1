"""Slot filling: what is right, what may be shown, which span is the likeliest, and that every arm is measured."""

from __future__ import annotations

import json
import math
import zlib

import numpy as np
import pytest

from benchmarks.tiny_rows import write_rows
from benchmarks.tiny_writer import LETTERS, measured, writer
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.experiment import Bench, Piece, Settings
from sottovoce.benchmarks.prism import slots as p
from sottovoce.benchmarks.prism.demonstrations import METHODS, PUBLIC, REAL
from sottovoce.benchmarks.prism.spans import Asked, answers, spans_of
from sottovoce.errors import InputError, ParameterError
from sottovoce.models.fake import FakeStepper

SETTINGS = Settings(
    model="fake", seeds=2, queries=3, tasks=("mit_g",), names=("own",), records=(4,), epsilons=(2.0,), shots=(1, 3),
)  # fmt: skip
SLOTS = ("comedy", "war drama", "horror")


@pytest.fixture
def data(tmp_path):
    for split in ("train", "test"):
        rows = [{"text": f"{split} {n} of a {slot} film", "slot": slot} for n in range(3) for slot in SLOTS]
        write_rows(tmp_path, "mit_g", split, rows)
    return tmp_path


@pytest.mark.parametrize(
    ("answer", "slot", "right"),
    [
        ("comedy", "comedy", True),
        (" Comedy ", "comedy", True),
        ("comedy", "romantic comedy", False),
        ("romantic comedy", "comedy", False),
        ("comedy.", "comedy", False),
        ("", "comedy", False),
    ],
)
def test_an_answer_is_right_only_if_it_is_the_whole_slot(answer, slot, right):
    assert p.exact(answer, slot) is right


@pytest.mark.parametrize(
    ("text", "slot", "fits"),
    [
        ("what war drama is it", "war drama", True),
        ("A Comedy, by whom?", "comedy", True),
        ("what warrior is it", "war", False),
        ("what drama of war is it", "war drama", False),
        ("what is it", "", False),
        ("what is it", " ?", False),
        ("what is it", 3, False),
    ],
)
def test_a_row_can_be_shown_only_if_its_slot_stands_in_its_question(text, slot, fits):
    assert p.usable({"text": text, "slot": slot}) is fits


def scrambled(prompt, text):
    """Logits that follow from prompt and text in no simple way."""
    seed = zlib.crc32(repr((prompt.prefix, prompt.private_text, prompt.suffix, text)).encode())
    return (3 * np.random.default_rng(seed).standard_normal(5)).tolist()


def test_the_likeliest_span_is_that_of_all_spans():
    model = FakeStepper(scrambled, pieces=(" a", " b", "\n"))
    questions = ["a b b a b", "b", "a b a a a b b a", "b a a b a b", "a a a a b b", "b b a a b a a"]
    asked = [Asked("Say.\n", question, "\nGenre:") for question in questions]
    said = answers(model, asked, questions)
    first_token_wins = 0
    for one, answer in zip(asked, said, strict=True):
        shares = {span: log_share(model, one, span) for span in spans_of(one.question)}
        assert answer.span == max(shares, key=shares.get)
        first = max(("a", "b"), key=lambda word: scrambled(prompt_of(one), ())["ab".index(word)])
        first_token_wins += answer.span == first
    assert first_token_wins < len(questions)  # a rule that stops at the first token is told from this one
    assert model.open == 0


def prompt_of(one):
    from sottovoce.models.stepper import Prompt

    return Prompt(one.before, one.question, one.lead)


def log_share(model, one, span):
    """By hand: tokens one after another, and an end or a line break behind them; the last token may not be written."""
    tokens, total = [" ab".index(word) - 1 for word in span.split()], 0.0
    for at in range(len(tokens) + 1):
        weights = [math.exp(logit) for logit in scrambled(prompt_of(one), tuple(tokens[:at]))[:4]]
        share = weights[tokens[at]] if at < len(tokens) else weights[2] + weights[3]
        total += math.log(share / sum(weights))
    return total


def test_a_written_answer_is_the_likeliest_text_up_to_the_end_of_its_line():
    model = writer(lambda prompt: " " + prompt.private_text[-3:] + "\nmore")
    questions = ["is it war", "is it fun"]
    said = answers(model, [Asked("Say.\n", question, "\nGenre:") for question in questions], questions)
    assert [answer.likeliest for answer in said] == ["war", "fun"]
    assert [answer.span for answer in said] == ["war", "fun"]


def test_demonstrations_are_whole_lines_and_no_more_than_there_is_room_for():
    model = FakeStepper(pieces=LETTERS)
    rows = [{"text": "what\nfunny  film", "slot": "funny"}] * 12
    one = "Question: what funny film\nGenre: funny\n"
    assert p.demonstrations(model, rows[:2], "Genre") == 2 * one
    assert p.demonstrations(model, rows, "Genre") == (p.ROOM // len(one)) * one


def answering(prompt):
    """Writes one good row, and answers as its first demonstration does; without one it says ``film``."""
    if prompt.prefix.startswith("Here are records"):
        return " " + json.dumps({"text": "what horror is it", "slot": "horror"})
    return " " + (prompt.prefix.partition("Genre: ")[2].partition("\n")[0] or "film") + "\n"


@pytest.mark.slow
def test_every_arm_is_measured_and_what_is_shown_decides_the_answers(data, monkeypatch):
    model = writer(answering)
    monkeypatch.setattr(p, "stepper_of", lambda name: model)
    monkeypatch.setattr(p, "TEXTS", 2)
    monkeypatch.setattr(p, "TOKENS", 60)
    result = measured(p.EXPERIMENT, Settings(**{**vars(SETTINGS), "seeds": 1}), data)
    at = {"task": "mit_g", "names": "own"}
    assert result.cell(**at, method=e.ZERO_SHOT, quantity="reachable").values == (100,)
    assert result.cell(**at, method=e.ZERO_SHOT).values == (0,)
    asked = p.w.draw(data, "mit_g", 0, 4, 3).questions
    horror = (100 * sum(row["slot"] == "horror" for row in asked) / 3,)
    assert horror > (0,)
    for quantity in p.COLUMNS:
        assert result.cell(**at, method=PUBLIC, option="k 1", quantity=quantity).values == pytest.approx(horror)
    for k in SETTINGS.shots:
        assert len(result.cell(**at, method=REAL, records=4, option=f"k {k}").values) == 1
        for name in METHODS:
            for adjacency in SETTINGS.adjacencies:
                price = {"records": 4, "adjacency": adjacency, "epsilon": 2.0}
                assert len(result.cell(**at, method=name, **price, option=f"k {k}").values) == 1
                assert len(result.cell(**at, method=name, **price, quantity="usable").values) == 1
    shown = p.section(result)
    assert len(shown.tables) == 2 * 2 * 2 + 1
    assert len(shown.figures) == 2
    assert all(len(row) == len(table.columns) and "-" not in row[2:] for table in shown.tables for row in table.rows)
    assert len(shown.reading) == 2 * (1 + 2) + 1


@pytest.mark.slow
def test_a_file_without_a_usable_row_answers_as_nothing_shown_does(data, monkeypatch):
    bad = " " + json.dumps({"text": "what is it", "slot": "horror"})

    def said(prompt):
        if prompt.prefix.startswith("Here are records"):
            return bad
        return " horror\n" if "what is it" in prompt.prefix else " comedy\n"

    model = writer(said)
    monkeypatch.setattr(p, "stepper_of", lambda name: model)
    monkeypatch.setattr(p, "METHODS", {})
    monkeypatch.setattr(p, "TOKENS", 60)
    result = measured(p.EXPERIMENT, SETTINGS, data)
    at = {"task": "mit_g", "names": "own"}
    assert result.cell(**at, method=PUBLIC, quantity="readable").values == (100, 100)
    assert result.cell(**at, method=PUBLIC, quantity="usable").values == (0, 0)
    zero = result.cell(**at, method=e.ZERO_SHOT).values
    asked = [p.w.draw(data, "mit_g", seed, 4, 3).questions for seed in range(2)]
    horror = tuple(100 * sum(row["slot"] == "horror" for row in some) / 3 for some in asked)
    assert result.cell(**at, method=PUBLIC, option="k 3").values == zero != horror
    # The model answers alike whatever real row it is shown, and the reading says that nothing can be seen.
    assert "cannot be seen here" in p.section(result).reading[0]


@pytest.mark.slow
def test_by_phrase_only_records_with_a_public_slot_write_and_the_phrase_is_the_slot(data, monkeypatch):
    seen = set()

    def said(prompt):
        seen.add(prompt.private_text)
        kind = prompt.prefix.partition("of type ")[2].partition(".")[0]
        return f" is it a {kind} film" if kind == "horror" else " is it a film"

    model = writer(said)
    monkeypatch.setattr(p, "stepper_of", lambda name: model)
    settings = Settings(**{**vars(SETTINGS), "seeds": 1, "tasks": ("mit_g by phrase",)})
    result = measured(p.EXPERIMENT, settings, data)
    # Six of nine rows have a slot of the list; what stands in the prompts of experts is their questions alone.
    assert not any("train" in text and "war drama" in text for text in seen)
    at = {"task": "mit_g by phrase", "names": "own"}
    assert result.cell(**at, method=PUBLIC, quantity="readable").values == (100,)
    assert result.cell(**at, method=PUBLIC, quantity="usable").values == pytest.approx((100 / p.TEXTS,))
    assert any("train" in text and "horror" in text for text in seen)
    assert all(" " not in figure.name for figure in p.section(result).figures)
    with pytest.raises(ParameterError, match="up to 6"):
        measured(p.EXPERIMENT, Settings(**{**vars(settings), "records": (7,)}), data)


def test_missing_rows_are_named(tmp_path):
    with pytest.raises(InputError, match="mit_g/test"):
        list(p.measure(Bench(SETTINGS, scorer=None, data=tmp_path), Piece("mit_g", "own", 0)))
