"""Whether texts are of the kind that was asked for: the judge is right of rows that it was not fitted on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tiny_rows import write_rows
from sottovoce.benchmarks.harness.datasets import read_world
from sottovoce.benchmarks.prism import judging as j
from sottovoce.tasks import Example

OPENINGS = {
    "agnews": ("The president met", "The striker scored against", "Shares rose at", "The probe photographed"),
    "trec": (
        "How many people live in",
        "Where is",
        "Who founded",
        "Why do they celebrate",
        "What animal guards",
        "What stands for",
    ),
}
PLACES = ("Paris", "Oslo", "the Alps", "Cairo", "a village", "the harbour", "Tokyo", "the old town", "Lima")


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    for folder, openings in OPENINGS.items():
        rows = [{"text": f"{words} {place}", "label": n} for n, words in enumerate(openings) for place in PLACES]
        for split in ("train", "test"):
            write_rows(data, folder, split, rows)
    yield j.judge_of(data, tuple(OPENINGS), 18)
    j.judge_of.cache_clear()
    read_world.cache_clear()


@pytest.mark.slow
def test_real_rows_are_told_by_set_and_label(judge):
    _, real = judge
    for task in OPENINGS:
        assert real[task][j.IN_DOMAIN] > 90
        assert real[task][j.OF_LABEL] > 90


@pytest.mark.slow
def test_texts_of_another_set_are_out_of_the_domain_and_another_label_is_not_the_asked_one(judge):
    made, _ = judge
    questions = [Example({"text": f"{words} Berlin"}, n) for n, words in enumerate(OPENINGS["trec"])]
    assert made.percentages("trec", questions) == {j.OF_LABEL: 100.0, j.IN_DOMAIN: 100.0}
    moved = [Example(x.fields, (x.label + 1) % 6) for x in questions]
    assert made.percentages("trec", moved) == {j.OF_LABEL: 0.0, j.IN_DOMAIN: 100.0}
    news = [Example({"text": f"{words} Berlin"}, n) for n, words in enumerate(OPENINGS["agnews"])]
    assert made.percentages("trec", news)[j.IN_DOMAIN] == 0.0
    tickets = [Example({"text": "My parcel has not arrived, please send me my money back"}, n) for n in range(4)]
    assert made.percentages("agnews", tickets)[j.IN_DOMAIN] == 0.0


@pytest.mark.slow
def test_a_label_with_many_texts_weighs_no_more_than_one_with_few(judge):
    made, _ = judge
    right, wrong = ({"text": f"{words} Rome"} for words in OPENINGS["agnews"][1:3])
    assert made.percentages("agnews", [Example(right, 1)] * 9 + [Example(wrong, 3)])[j.OF_LABEL] == 50.0


def test_the_discriminant_divides_two_clouds_where_it_should():
    # Equal spread: the border lies half way whatever the shares; a rule by counts would move it.
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 1, (4000, 2)), rng.normal([4, 0], 1, (400, 2))])
    weights, offsets = j.discriminant(points, np.repeat([0, 1], [4000, 400]), 2)
    border = -(offsets[1] - offsets[0]) / (weights[1] - weights[0])[0]
    assert border == pytest.approx(2, abs=0.1)


def test_words_are_cut_as_tokens_are():
    assert j.words_of(24) == 18
    assert j.words_of(1) == 1
    assert j.cut("one  two three", 2) == "one two"
