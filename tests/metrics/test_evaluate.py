"""One call scores a set of answers; differences are paired."""

import json

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.metrics.base import mean_of
from sottovoce.metrics.evaluate import evaluate


class Lengths:
    """The length of an answer, as a metric."""

    def measure(self, answers, references, questions):
        return {"length": mean_of(np.array([len(answer) for answer in answers], dtype=float))}


def test_scores_come_with_intervals_and_without_texts():
    found = evaluate(["a secret", None, "b"], ["a secret", "x", ["b", "c"]], metrics=["rouge-1", "bleu", Lengths()])
    assert found.scores["rouge-1"].value == pytest.approx(2 / 3)
    assert found.scores["length"].value == pytest.approx(3.0)
    assert found.scores["rouge-1"].low < 2 / 3 < found.scores["rouge-1"].high
    assert (found.answers, found.missing) == (3, 1)
    assert "secret" not in json.dumps(found.as_dict())
    assert "secret" not in repr(found)
    assert found.as_dict()["scores"]["bleu"]["notes"][0].startswith("nrefs")


def test_the_same_seed_gives_the_same_interval():
    texts = ["x" * round(1.3**n) for n in range(30)]
    one, two, three = (evaluate(texts, ["a b c"] * 30, metrics=[Lengths()], seed=seed) for seed in (1, 1, 2))
    assert one.scores == two.scores
    assert one.scores != three.scores


def test_a_difference_is_paired():
    # Each of 40 answers is one letter longer than the other set's, and lengths vary widely: unpaired, nothing shows.
    lengths = np.random.default_rng(3).integers(1, 80, size=40)
    short = evaluate(["x" * n for n in lengths], ["x"] * 40, metrics=[Lengths()])
    longer = evaluate(["x" * (n + 1) for n in lengths], ["x"] * 40, metrics=[Lengths()])
    difference = longer.difference(short, "length")
    assert (difference.value, difference.low, difference.high) == pytest.approx((1.0, 1.0, 1.0))
    assert longer.scores["length"].low < short.scores["length"].value
    assert short.difference(longer, "length").sign == -1
    assert short.difference(short, "length").sign == 0


def test_groups_are_drawn_together():
    answers, questions = ["x" * n for n in (1, 9) for _ in range(20)], [n for n in range(2) for _ in range(20)]
    alone = evaluate(answers, ["x"] * 40, metrics=[Lengths()])
    grouped = evaluate(answers, ["x"] * 40, metrics=[Lengths()], groups=questions)
    assert grouped.scores["length"].high - grouped.scores["length"].low == pytest.approx(8.0)
    assert alone.scores["length"].high - alone.scores["length"].low < 3.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"references": ["a"]}, "references is 1; it must be one for each of 2 answers"),
        ({"references": ["a", []]}, "references is 'none for answer 2'; it must be 1 or more texts each"),
        ({"questions": ["a"]}, "questions is 1; it must be one for each of 2 answers"),
        ({"metrics": ["rogue-1"]}, "metrics is 'rogue-1'; it must be one of bleu, rouge-1"),
        ({"groups": [1]}, "groups is 1; it must be one for each of 2 rows"),
        ({"groups": [1, 1]}, "groups is 1; it must be 2 or more: an interval needs them"),
        ({"answers": ["a"], "references": ["a"]}, "rows is 1; it must be 2 or more"),
        ({"replicates": 20}, "replicates is 20; it must be a whole number, 100 or more"),
        ({"confidence": 1.0}, "confidence is 1.0; it must be a number above 0 and below 1"),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises(ParameterError) as refusal:
        evaluate(**{"answers": ["a", "b"], "references": ["a", "b"], "metrics": [Lengths()], **given})
    assert message in str(refusal.value)


def test_only_like_is_compared_with_like():
    one = evaluate(["a", "b"], ["a", "b"], metrics=[Lengths()])
    with pytest.raises(ParameterError, match="name is 'bleu'; it must be one of length"):
        one.difference(one, "bleu")
    with pytest.raises(ParameterError, match="with the same draws"):
        one.difference(evaluate(["a", "b"], ["a", "b"], metrics=[Lengths()], seed=1), "length")
    with pytest.raises(ParameterError, match="as many answers"):
        one.difference(evaluate(["a"] * 3, ["a"] * 3, metrics=[Lengths()]), "length")
