"""A judge's verdicts are read strictly, and its agreement with itself is Krippendorff's alpha."""

import numpy as np
import pytest

from sottovoce.metrics.evaluate import evaluate
from sottovoce.metrics.judge import CRITERIA, RUBRIC, WrittenJudge, agreement, read_verdict
from sottovoce.models.fake import FakeWriter


def verdict(faithfulness, coverage, fluency):
    return f"faithfulness: {faithfulness}\ncoverage: {coverage}\nfluency: {fluency}"


class Scripted:
    """A writer whose texts a function of question and place gives, line ends and all."""

    name, longest = "scripted", None

    def __init__(self, function):
        self.function, self.requests = function, []

    def write(self, requests, *, tokens):
        self.requests += requests
        return [self.function(request.question) for request in requests]


def test_a_verdict_in_the_form_is_read():
    assert read_verdict(verdict(1, 3, 5)) == (1.0, 3.0, 5.0)
    assert read_verdict("  FAITHFULNESS: 2 \n\nCoverage: 2\nfluency:4 \n") == (2.0, 2.0, 4.0)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        verdict(0, 3, 5),
        verdict(1, 3, 6),
        verdict(1, 3, 4.5),
        verdict(1, 3, 55),
        "coverage: 1\nfaithfulness: 1\nfluency: 1",
        "faithfulness: 1\ncoverage: 1",
        verdict(1, 1, 1) + "\nThe answer is good.",
        "I would say:\n" + verdict(1, 1, 1),
        verdict(1, 1, 1) + "\n" + verdict(2, 2, 2),
        "faithfulness: 1 coverage: 1 fluency: 1",
        "faithfulness: 1 of 5\ncoverage: 1\nfluency: 1",
    ],
)
def test_any_other_text_is_unreadable(text):
    assert np.isnan(read_verdict(text)).all()


def test_the_judge_is_asked_twice_in_swapped_order():
    writer = Scripted(
        lambda question: verdict(5, 4, 3 if question.index("Answer:") < question.index("Reference:") else 1)
    )
    found = evaluate(["an answer", "another"], ["a text", "b text"], [WrittenJudge(writer)], questions=["why?", "who?"])
    assert [request.question for request in writer.requests] == [
        "Question: why?\n\nReference: a text\n\nAnswer: an answer",
        "Question: who?\n\nReference: b text\n\nAnswer: another",
        "Question: why?\n\nAnswer: an answer\n\nReference: a text",
        "Question: who?\n\nAnswer: another\n\nReference: b text",
    ]
    assert {request.instruction for request in writer.requests} == {RUBRIC}
    assert all(request.shots == () for request in writer.requests)
    assert [found.scores[f"judge, {name}"].value for name in CRITERIA] == [5, 4, 2]
    assert found.notes["judge, fluency"] == ("0 of 4 verdicts of scripted were unreadable",)
    # All verdicts on faithfulness are the same, so nothing could disagree; those on fluency always do.
    assert np.isnan(found.scores["judge, faithfulness, agreement with itself"].value)
    assert found.scores["judge, fluency, agreement with itself"].value < 0


def test_unreadable_verdicts_are_counted_and_do_not_count():
    def gives(question):
        return None if "bad" in question else "??" if question.startswith("Answer: odd") else verdict(2, 2, 2)

    found = evaluate(["bad", "odd", "good"], ["x"] * 3, [WrittenJudge(Scripted(gives))])
    assert found.scores["judge, coverage"].value == 2.0
    assert found.notes["judge, coverage"] == ("3 of 6 verdicts of scripted were unreadable",)
    assert found.notes["judge, coverage, agreement with itself"] == ("of 1 answers with two readable verdicts",)


def test_a_judge_that_gives_no_verdict_has_no_score():
    found = evaluate(["a", "b"], ["a", "b"], [WrittenJudge(FakeWriter(lambda request: "well done"))])
    assert np.isnan(found.scores["judge, fluency"].value)
    assert "well done" not in str(found.as_dict())


def test_agreement_is_what_krippendorff_prints():
    # Krippendorff (2011), example A: two observers, ten units, two values; alpha is .095.
    first = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 0.0])
    second = np.array([1, 1, 1, 0, 0, 1, 0, 0, 0, 0.0])
    assert agreement(first, second).score(np.ones(10)) == pytest.approx(0.095, abs=5e-4)


def test_agreement_is_the_mean_difference_beside_that_of_all_pairs():
    # The definition, pair by pair: alpha = 1 - (difference within answers) / (difference between any two verdicts).
    draws = np.random.default_rng(4)
    first, second = draws.integers(1, 6, size=(2, 12)).astype(float)
    second[3] = first[7] = np.nan
    kept = [(one, two) for one, two in zip(first, second, strict=True) if not np.isnan(one + two)]
    every = [number for pair in kept for number in pair]
    within = np.mean([(one - two) ** 2 for one, two in kept])
    between = np.mean([(a - b) ** 2 for i, a in enumerate(every) for j, b in enumerate(every) if i != j])
    assert agreement(first, second).score(np.ones(12)) == pytest.approx(1 - within / between)
    assert agreement(first, first).score(np.ones(12)) == 1.0


def test_a_verdict_is_three_lines_whatever_blanks_stand_between_them():
    assert read_verdict(" faithfulness: 5 \r\n\n\tcoverage:2\n \nFluency:\t4\n\n") == (5.0, 2.0, 4.0)
    for text in ("faithfulness: 5\ncoverage: 2", "faithfulness: 5\ncoverage: 2\nfluency: 4\nSo it is.", "\n" * 100_000):
        assert np.isnan(read_verdict(text)).all()
