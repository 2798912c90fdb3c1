"""What is kept of other questions shows in one that was asked alone; what follows from public inputs does not."""

from __future__ import annotations

import itertools
import os
from typing import ClassVar

import numpy as np
import pytest

from sottovoce.errors import AssignmentError
from sottovoce.methods.base import Price
from sottovoce.testing import asked_alone
from sottovoce.testing.asked_alone import (
    NOT_MADE,
    REFUSED,
    AskedAlone,
    made_alone,
    other_prices,
    others_taken,
    taken,
)
from sottovoce.testing.report import ContractError, Report


class Entry:
    """Keeps what ``key`` makes of a question."""

    def __init__(self, key=None, said=lambda question: [float(question)]):
        self.key, self.said, self.kept = key, said, {}

    def __call__(self, question):
        if self.key is None:
            return self.said(question)
        return self.kept.setdefault(self.key(question), self.said(question))


def compared(entry, questions=(1, 2, 3), *, before=()):
    report = Report("method", "an entry")
    alone = AskedAlone(questions, entry, str, "an entry", report)
    for question in before:
        entry(question)
    alone.compare()
    return report


@pytest.mark.parametrize("entry", [Entry(), Entry(lambda question: question)])
def test_an_entry_that_keeps_nothing_or_by_the_whole_question_passes(entry):
    assert [(check.contract, check.cases) for check in compared(entry).checks] == [("state", 3)]


@pytest.mark.parametrize("key", [lambda question: "first", lambda question: question % 2])
@pytest.mark.parametrize("said", [lambda q: [float(q)], lambda q: [q], lambda q: [np.array([q, 0])], lambda q: [{q}]])
def test_what_is_kept_by_less_than_the_question_is_found(key, said):
    with pytest.raises(ContractError, match="in a process in which nothing else was asked") as broken:
        compared(Entry(key, said))
    assert broken.value.contract == "state"


def test_what_the_last_question_leaves_is_found():
    last = [0]

    def entry(question):
        before, last[0] = last[0], question
        return [before]

    with pytest.raises(ContractError):
        compared(entry)


def test_both_orders_are_asked():
    asked = []

    def entry(question):
        asked.append(question)
        return [0.5]

    compared(entry, (1, 2, 3, 4))
    assert asked[:8] == [1, 2, 3, 4, 4, 3, 2, 1]


def test_what_was_kept_before_the_copies_is_not_found():
    entry = Entry(lambda question: "first")
    entry(2)
    assert compared(entry).passed


def test_one_question_is_compared_with_what_was_asked_since():
    with pytest.raises(ContractError):
        compared(Entry(lambda question: "first"), [1], before=[2])
    assert compared(Entry(lambda question: question), [1], before=[2]).passed


def test_rounding_is_no_other_answer():
    shift = iter((0.0, 1e-12, -1e-12))
    assert compared(lambda question: [0.5 + next(shift), float("nan"), float("inf")], [1]).passed


def test_another_number_of_numbers_is_another_answer():
    kept = []

    def entry(question):
        kept.append(0.5)
        return kept

    with pytest.raises(ContractError):
        compared(entry, [1], before=[1])


@pytest.mark.parametrize("error", [ValueError, AssignmentError])
def test_an_error_is_an_answer(error):
    def entry(question):
        kept.append(question)
        if len(kept) > 1:
            raise error("it was asked before")
        return [0.5]

    kept = []
    with pytest.raises(ContractError):
        compared(entry, [1], before=[1])

    def always(question):
        raise error("always")

    told = compared(always)
    assert told.checks == []
    which = "which it refuses" if error is AssignmentError else "which raises"
    assert told.uncompared == [f"an entry: a question ({number}), {which}" for number in (1, 2, 3)]


def test_what_raises_in_a_copy_alone_is_listed_and_a_refusal_is_found():
    here = os.getpid()

    def entry(question):
        if os.getpid() != here:
            raise RuntimeError("a card cannot be used in a copy")
        return [0.5]

    (told,) = compared(entry, [1]).uncompared
    assert told == "an entry: a question that was asked alone (1), which raises in a copy"

    def refuses(question):
        if os.getpid() != here:
            raise AssignmentError("refused")
        return [0.5]

    with pytest.raises(ContractError):
        compared(refuses, [1])


def test_each_question_is_asked_right_behind_the_first_and_the_first_behind_each():
    asked = []

    def entry(question):
        asked.append(question)
        return [0.5]

    compared(entry, (1, 2, 3, 4))
    pairs = {*itertools.pairwise(asked)}
    assert {(1, other) for other in (2, 3, 4)} | {(other, 1) for other in (2, 3)} <= pairs


def test_without_copies_nothing_is_compared_and_that_is_listed(monkeypatch):
    monkeypatch.delattr(os, "fork")
    report = compared(Entry(lambda question: "first"))
    assert report.checks == []
    assert report.uncompared == ["an entry: questions asked alone, since this system copies no process"]


def test_what_is_taken_is_asked_in_a_copy():
    asked = []
    report = Report("method", "an entry")
    assert taken([1, 2, 3], lambda question: asked.append(question) or question > 1, "an entry", report) == [2, 3]
    assert (asked, report.uncompared) == ([], [])


def test_of_an_entry_whose_plans_raise_nothing_is_taken():
    def raises(question):
        raise ContractError("price", "an entry", "it raises")

    report = Report("method", "an entry")
    assert taken([1, 2], raises, "an entry", report) == []
    assert report.uncompared == ["an entry: questions asked alone, of which it takes none"]
    assert taken([], raises, "an entry", again := Report("method", "an entry")) == again.uncompared == []


def test_of_each_part_the_first_that_is_taken_is_another_one():
    report = Report("method", "an entry")
    others = {"epsilon": [1, 2], "delta": [3], "unit": [5, 4, 6], "texts": []}

    def takes(question):
        if question == 5:
            raise ValueError("odd")
        return question % 2 == 0

    assert others_taken(others, takes, "an entry", report) == [2, 4]
    assert report.uncompared == ["an entry: asked alone with another delta, texts, of which it takes none"]
    assert others_taken({"epsilon": [2]}, takes, "an entry", again := Report("method", "an entry")) == [2]
    assert again.uncompared == []


@pytest.mark.parametrize("price", [Price(1.0, 1e-6), Price(2.0, 0.0), Price(0.1, 0.1)])
def test_other_prices_differ_in_one_thing(price):
    others = other_prices(price)
    assert all((one.epsilon != price.epsilon, one.delta) == (True, price.delta) for one in others.pop("epsilon"))
    assert {"delta"} <= others.keys() <= {"delta", "smaller delta"}
    for one in (one for prices in others.values() for one in prices):
        assert one.epsilon == price.epsilon
        assert one.delta != price.delta
        assert 0 < one.delta < 1


def test_without_copies_all_is_taken(monkeypatch):
    monkeypatch.delattr(os, "fork")
    assert taken([1, 2], lambda question: False, "an entry", Report("method", "an entry")) == [1, 2]


def test_a_copy_without_an_answer_ends_the_asking(monkeypatch):
    asked = []

    def none(ask):
        asked.append(1)
        raise asked_alone.NoAnswerError("the copy of the process did not answer")

    monkeypatch.setattr(asked_alone, "of_a_copy", none)
    report = compared(Entry())
    listed = ["an entry: questions asked alone, since the copy of the process did not answer"]
    assert report.uncompared == listed
    assert len(asked) == 1
    assert taken([1, 2], lambda question: True, "an entry", report) == [1, 2]
    assert others_taken({"epsilon": [3, 4]}, lambda question: True, "an entry", report) == [3]
    AskedAlone([1], Entry(), str, "an entry", report).compare()
    assert (len(asked), report.uncompared) == (1, listed)


class Numbered:
    """Takes four options by their places alone."""

    kept: ClassVar[list[int]] = []
    made: ClassVar[list[int]] = []

    def __init__(self, clip=2, k=2, rate=3, weight=8, /, *, limit=4):
        pass


class NumberedByName(Numbered):
    """Cannot be made with a k of 1, answers nothing with a clip of 1 or another rate, and keeps its first weight."""

    def __init__(self, clip=2, k=2, rate=3, weight=8):
        if k == 1:
            raise MemoryError("it would be a large table")
        self.kept.append(weight)
        self.made.append(os.getpid())
        self.clip, self.k, self.rate = clip, k, rate


class Driven:
    """A setting, of which two questions are asked."""

    def __init__(self, entry):
        self.entry = entry

    def questions_alone(self, *, prices=True):
        assert not prices
        return [1, 2]

    def answer_to(self, question):
        if self.entry.clip == 1:
            raise AssignmentError("refused with the records")
        if self.entry.rate != 3:
            raise ValueError("no other rate")
        return [float(question), self.entry.kept[0]]

    def in_words(self, question):
        return f"{question} of {self.entry.clip}"


@pytest.fixture
def unmade():
    NumberedByName.kept.clear()
    NumberedByName.made.clear()


def driven(entry):
    return [Driven(entry)]


def test_a_class_is_made_in_its_copy_with_each_number_that_answers_a_question(unmade):
    report = Report("method", "an entry")
    found = made_alone(NumberedByName, driven, "an entry", report)
    assert NumberedByName.made == []
    assert [(each._subject, each.answered) for each in found] == [
        (f"NumberedByName({said})", 2) for said in ("", "clip=3", "k=3", "weight=4")
    ]
    assert report.uncompared == ["an entry: asked alone with another rate, of which it takes none"]
    for each in found[:-1]:
        each.compare()
    with pytest.raises(ContractError, match=r"(?s)NumberedByName\(weight=4\).*in a process.*1 of 2"):
        found[-1].compare()


def test_nothing_is_asked_of_an_instance_or_of_what_answers_nothing(unmade):
    report = Report("method", "an entry")
    assert made_alone(NumberedByName(), driven, "an entry", report) == []
    assert made_alone(NumberedByName, lambda entry: [], "an entry", report) == []
    assert made_alone(NumberedByName, lambda entry: entry.missing, "an entry", report) == []
    assert (report.uncompared, report.no_copies) == ([], "")


def test_what_has_no_name_is_listed(unmade):
    report = Report("method", "an entry")

    def once(entry):
        entry.clip, entry.rate, entry.kept = 2, 3, [0]
        return [Driven(entry)]

    assert len(made_alone(Numbered, once, "an entry", report)) == 2
    assert report.uncompared == [
        "an entry: asked alone with another clip, k, rate, weight, which cannot be given by its name"
    ]


def test_what_a_class_asks_in_a_copy_may_be_asked_in_a_copy(unmade):
    report = Report("method", "an entry")

    class Nested(Driven):
        def questions_alone(self, *, prices=True):
            return taken([1, 2, 3], lambda question: question > 1, "an entry", report)

    (usual, *_) = made_alone(NumberedByName, lambda entry: [Nested(entry)], "an entry", report)
    assert [question for question, _ in usual._alone] == [2, 3]


def test_without_copies_a_class_is_not_made(unmade, monkeypatch):
    report = Report("method", "an entry")
    monkeypatch.delattr(os, "fork")
    assert made_alone(NumberedByName, driven, "an entry", report) == []
    assert NumberedByName.made == []
    assert report.no_copies == "this system copies no process"


def test_what_is_refused_or_not_made_is_listed_once():
    report = Report("method", "an entry")
    said = {1: [REFUSED], 2: [NOT_MADE], 3: [0.5], 4: [REFUSED]}
    alone = AskedAlone([*said], said.get, str, "an entry", report, listed=lambda question: question == 1)
    alone.compare()
    assert (alone.answered, report.uncompared) == (1, ["an entry: a question (4), which it refuses"])
    here = os.getpid()

    def made_here(question):
        return [0.5] if os.getpid() == here else [NOT_MADE]

    assert compared(made_here, [1]).uncompared == [
        "an entry: a question that was asked alone (1), which raises in a copy"
    ]


def test_of_a_number_that_is_tried_nothing_is_listed():
    report = Report("method", "an entry")
    assert taken([1], lambda question: False, "an entry", report, listed=False) == []
    assert report.uncompared == []
