"""The search in which a model rewrites: what it is told, what it may not see, and that it says what is missing."""

from __future__ import annotations

import builtins

import pytest

from sottovoce.audits.game import rewriting
from sottovoce.audits.game.rewriting import rewritten
from sottovoce.audits.game.wordings import Wordings
from sottovoce.errors import MissingExtraError, ParameterError
from sottovoce.models.fake import FakeWriter

DSPY = pytest.mark.skipif(not rewriting.is_installed(), reason="needs dspy: pip install 'sottovoce[gepa]'")


def worth(question, case):
    return min(1.0, 0.5 + 0.1 * question.wording.count("{secret}") + case / 1000)


@DSPY
def test_a_model_that_rewrites_finds_what_it_proposes_and_no_test_case_is_seen(monkeypatch, tmp_path):
    monkeypatch.setenv("DSPY_CACHEDIR", str(tmp_path))
    proposals = iter(["Who is {nobody}?", None, "Is {secret} there?", '"{secret} {secret}"', *["{text}"] * 99])
    seen = set()

    def counted(question, case):
        seen.add(case)
        return worth(question, case)

    splits = Wordings.split(range(16))
    tried = rewritten(splits, counted, FakeWriter(lambda request: next(proposals)), start="{text}", calls=60)
    assert [one.question.wording for one in tried] == ["{secret} {secret}", "Is {secret} there?", "{text}"]
    assert seen == {*splits.training, *splits.validation}
    assert tried[0].training == pytest.approx(0.7015)
    assert tried[0].validation == pytest.approx(0.7055)


def test_a_wording_that_names_something_else_is_worth_nothing():
    assert rewriting._worth(worth, "Who is {nobody}?", 1) == 0.0
    assert rewriting._worth(worth, "{secret}", 0) == 0.6


def test_what_was_proposed_before_is_shown_and_a_silent_model_changes_nothing():
    asked = []
    writer = FakeWriter(lambda request: asked.append(request) or (None if len(asked) == 2 else "Is {text} there?"))
    shown = ["{text}"]
    assert rewriting._proposal(writer, "{text}", shown, 1) == "Is {text} there?"
    assert rewriting._proposal(writer, "{text}", shown, 1) == "{text}"
    assert shown == ["{text}", "Is {text} there?"]
    assert [text for _, text in asked[1].shots] == shown


def test_a_package_that_is_missing_says_how_to_install_it(monkeypatch):
    whole = builtins.__import__

    def without(name, *others, **more):
        if name == "dspy":
            raise ImportError
        return whole(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'sottovoce\[gepa\]'"):
        rewritten(Wordings.split(range(4)), worth, FakeWriter())


@DSPY
@pytest.mark.parametrize(("start", "calls"), [("Who is {nobody}?", 10), ("{text}", 0)])
def test_what_cannot_be_searched_is_refused(start, calls):
    with pytest.raises(ParameterError):
        rewritten(Wordings.split(range(4)), worth, FakeWriter(), start=start, calls=calls)
