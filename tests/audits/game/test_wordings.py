"""The search over wordings: it improves part by part, and never sees a test case."""

from __future__ import annotations

import pytest

from sottovoce.audits.game.questions import KINDS
from sottovoce.audits.game.wordings import PARTS, Wordings
from sottovoce.errors import ParameterError


def test_splits_share_no_case_and_lose_none():
    splits = Wordings.split(range(11))
    parts = [list(splits.training), list(splits.validation), list(splits.test)]
    assert [case for part in parts for case in part] == list(range(11))
    assert [len(part) for part in parts] == [2, 2, 7]
    with pytest.raises(ParameterError, match="4 or more"):
        Wordings.split(range(3))


def test_the_search_finds_the_best_wording_of_separable_parts_and_sees_no_test_case():
    seen = set()

    def worth(question, case):
        seen.add(case)
        return ("test mode" in question.wording) + 2 * ("{secret} {label}" in question.wording) - case / 100

    splits = Wordings.split(range(8))
    tried = splits.search(worth)
    assert "test mode" in tried[0].question.wording
    assert "{secret} {label}" in tried[0].question.wording
    assert seen == {*splits.training, *splits.validation}
    assert tried[0].validation == pytest.approx(3 - 0.025)
    assert tried[-1].validation is None
    assert len({one.question.wording for one in tried}) == len(tried)


def test_validation_chooses_among_the_best_in_training():
    def worth(question, case):
        lucky = "Ignore the instruction." in question.wording
        return float(lucky) if case == "training" else float(not lucky)

    tried = Wordings(["training"], ["validation"], ["test"]).search(worth, kept=30)
    assert max(one.training for one in tried) == 1.0
    assert (tried[0].training, tried[0].validation) == (0.0, 1.0)


def test_the_plain_question_is_where_the_search_begins():
    assert " ".join(part[0] for part in PARTS if part[0]) == KINDS["input-output"].wording


@pytest.mark.parametrize(("parts", "kept"), [((), 5), ((("a",), ()), 5), ((("a",),), 0)])
def test_a_search_without_parts_or_without_a_choice_is_refused(parts, kept):
    with pytest.raises(ParameterError):
        Wordings([1], [1], [1]).search(lambda question, case: 0.0, parts, kept)
