"""Each public part of a question is another one in a question that is the same in all others.

What an entry keeps by a key that lacks a part shows in such a pair. A part of a setting that these lists do not have
fails here, until questions differ in it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from unittest.mock import patch

import pytest

from sottovoce.experts.keywords import universe_of
from sottovoce.methods.answering.answerer import AnswerSetting
from sottovoce.methods.answering.ksa import KSA
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.fitting.fitter import FitSetting
from sottovoce.methods.poe import PoE
from sottovoce.methods.prism import PRISM
from sottovoce.testing import answerers, asked_alone, decoders, fitters, methods
from sottovoce.testing.report import Effort, Report


def answer_parts(question):
    relation, price, case, world, size = question
    numbers = {"candidates": len(case.answers), "keywords": len(universe_of(case.answers))}
    public = {"answers": case.answers, "adds_epsilons": case.adds_epsilons, "unit": case.unit}
    public |= {"dimension": case.dimension, "relation": str(relation), "units": size}
    return {"epsilon": price.epsilon, "delta": price.delta, "world": world} | numbers | public


def fit_parts(question):
    relation, price, case, world = question
    public = {field.name: getattr(case, field.name) for field in fields(case)}
    sizes = {"world": world if world < 2 else 0, "units": len(fitters.ASKED_OF[world])}
    return {"relation": str(relation), "epsilon": price.epsilon, "delta": price.delta} | sizes | public


def method_parts(question):
    change, price, labels, world, public, times = question
    parts = {"change": change, "epsilon": price.epsilon, "delta": price.delta, "labels": labels}
    return parts | {"world": world, "public row": public, "experts": times}


def token_parts(question):
    adjacency, price, (tokens, experts, texts, unit), public, said = question
    parts = {"adjacency": adjacency, "epsilon": price.epsilon, "delta": price.delta, "public row": public}
    return parts | {"tokens": tokens, "experts": experts, "texts": texts, "unit": unit, "said": said}


def without_copies():
    """What is taken is asked here, and no question is."""
    return patch.object(asked_alone, "of_a_copy", lambda ask: ask() if getattr(ask, "__name__", "") == "which" else [])


def questions_of(driven):
    """The questions, none of which is asked."""
    with without_copies():
        return [question for question, _ in driven.asked_alone()._alone]


DRIVEN = {
    "method": (methods._Method, PoE(), method_parts),
    "decoder": (decoders._Decoder, PRISM(), token_parts),
    "answerer": (answerers._Answerer, KSA(k=1), answer_parts),
    "fitter": (fitters._Fitter, ClassMeans(), fit_parts),
}
INCLUDED = {"candidates": {"answers"}, "keywords": {"answers"}}
"""Parts that cannot stay the same where another one is another."""


RELATION = {"method": "change", "decoder": "adjacency", "answerer": "relation", "fitter": "relation"}


def parts_asked(kind, effort, *, first):
    """The parts of all questions."""
    driver, entry, parts_of = DRIVEN[kind]
    driven = driver(entry, effort, Report(kind, "one"), **{"must_run" if kind == "decoder" else "first": first})
    return [parts_of(each) for each in questions_of(driven)]


def unvaried(questions):
    """Parts that are another one in no question that is the same as a further one in all others."""
    differ = [{part for part in one if one[part] != other[part]} for one, other in itertools.combinations(questions, 2)]
    return {
        part
        for part in questions[0]
        if not any(part in parts and parts <= {part} | INCLUDED.get(part, set()) for parts in differ)
    }


def by_relation(kind, questions):
    """Questions under each relation."""
    relations = dict.fromkeys(each[RELATION[kind]] for each in questions)
    return [[each for each in questions if each[RELATION[kind]] == relation] for relation in relations]


@pytest.mark.parametrize("kind", DRIVEN)
def test_each_part_is_another_one_by_itself(kind):
    questions = parts_asked(kind, Effort.QUICK, first=True)
    assert unvaried(questions) == set()
    every = by_relation(kind, questions)
    assert len(every) > 2
    for under in every:
        assert not unvaried(under) & {"epsilon", "delta"}


@pytest.mark.parametrize("kind", DRIVEN)
def test_of_a_further_setting_the_price_is_another_one_by_itself(kind):
    questions = parts_asked(kind, Effort.QUICK, first=False)
    assert not unvaried(questions) & {"epsilon", "delta"}
    assert len(by_relation(kind, questions)) == 1


@pytest.mark.parametrize("kind", DRIVEN)
def test_in_a_full_run_each_part_is_another_one_by_itself_under_every_relation(kind):
    every = by_relation(kind, parts_asked(kind, Effort.FULL, first=True))
    assert len(every) > 2
    for under in every:
        assert unvaried(under) <= {RELATION[kind]}


@dataclass(frozen=True)
class Drawn(PoE):
    """Draws by itself, evenly."""

    def choose(self, experts, price, randomness):
        DRAWN.append(experts)
        return randomness.below(2)


DRAWN = []


def test_what_draws_by_no_mechanism_draws_often():
    driven = methods._Method(Drawn(), Effort.QUICK, Report("method", "one"), first=True)
    DRAWN.clear()
    driven.answer_to(questions_of(driven)[0])
    assert len(DRAWN) == 151


@pytest.mark.parametrize(
    ("kind", "setting", "elsewhere"),
    [
        ("answerer", AnswerSetting, {"adjacency", "sampling"}),
        ("fitter", FitSetting, {"adjacency", "change"}),
    ],
)
def test_no_part_of_a_setting_is_left_out(kind, setting, elsewhere):
    driver, entry, parts_of = DRIVEN[kind]
    question = questions_of(driver(entry, Effort.QUICK, Report(kind, "one"), first=True))[0]
    assert {field.name for field in fields(setting)} - set(parts_of(question)) == elsewhere
