"""Results are compared by what they hold, whatever their words say."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
import pytest
import torch

from contracts.wrong.clusterings import Centres
from sottovoce.testing.fingerprints import are_equal, copied, fingerprint
from sottovoce.testing.report import ContractError


class Slotted:
    """Words, and a slot of its own."""

    __slots__ = ("__content",)

    def __init__(self, content):
        self.__content = content

    def __repr__(self):
        return "Slotted"


class Itself:
    """Holds itself."""

    def __init__(self, content):
        self.content, self.whole = content, self

    def found(self):
        return self.content


class Listed(list):
    """A list with an attribute."""


@dataclass
class Kept:
    """Keeps what it worked out."""

    content: int

    @cached_property
    def twice(self):
        return 2 * self.content


def listed(content):
    made = Listed()
    made.content = content
    return made


def annotated(content):
    made = Kept(1)
    made.inertia = content
    return made


HOLDERS = {
    "words": lambda content: Centres([content]),
    "slots": Slotted,
    "itself": Itself,
    "list": listed,
    "dataclass": annotated,
    "method": lambda content: Itself(content).found,
    "function": lambda content: lambda: content,
    "default": lambda content: lambda held=content: held,
    "partial": lambda content: partial(int, content),
    "objects": lambda content: np.array([Fraction(content, 3), np.array([content])], dtype=object),
    "masked": lambda content: np.ma.array([content, 2], mask=[True, False]),
    "iterator": lambda content: iter([content]),
    "error": lambda content: ValueError(Centres([content])),
    "values": lambda content: {1: Centres([content])}.values(),
    "keys": lambda content: {Slotted(content): 1},
    "set": lambda content: {content, "x"},
    "pattern": lambda content: re.compile(str(content)),
    "generator of numbers": np.random.default_rng,
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_values_that_hold_the_same_are_equal(holder):
    assert fingerprint(holder(1)) == fingerprint(holder(1))


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_values_that_hold_something_else_are_told_apart(holder):
    assert fingerprint(holder(1)) != fingerprint(holder(2))


def test_what_an_object_worked_out_when_it_was_asked_is_no_part_of_it():
    asked = Kept(1)
    assert asked.twice == 2
    assert fingerprint(asked) == fingerprint(Kept(1))


def test_a_table_is_compared_to_its_last_row():
    frames = pytest.importorskip("pandas")
    tables = [frames.DataFrame(np.arange(3000.0) + (np.arange(3000) == 1500) * more) for more in (0, 0, 1)]
    assert fingerprint(tables[0]) == fingerprint(tables[1]) != fingerprint(tables[2])


def test_a_model_of_torch_is_compared_by_its_weights():
    def layer(bias):
        made = torch.nn.Linear(2, 1)
        for weights in made.parameters():
            torch.nn.init.constant_(weights, bias)
        return made

    assert fingerprint(layer(1)) == fingerprint(layer(1)) != fingerprint(layer(2))


def test_what_cannot_be_seen_is_equal_to_itself_alone():
    lock = threading.Lock()
    assert fingerprint([lock, 1]) == fingerprint([lock, 1]) != fingerprint([lock, 2])
    with pytest.raises(ContractError, match="'drive': nothing that it holds can be compared"):
        assert fingerprint(lock) == fingerprint(threading.Lock())


def test_what_cannot_say_whether_it_is_equal_is_compared_by_what_it_holds():
    assert are_equal(Kept(1), Kept(1))
    assert not are_equal(Kept(1), Kept(2))
    assert are_equal(Kept(np.array([1, 2])), Kept(np.array([1, 2])))
    assert not are_equal(Kept(np.array([1, 2])), Kept(np.array([1, 3])))
    assert not are_equal(np.array([1, 2]), None)
    assert are_equal(Itself(1), Itself(1))
    assert not are_equal(Itself(1), Itself(2))
    assert not are_equal(1, 1.5)
    lock = threading.Lock()
    assert are_equal(lock, lock)
    assert not are_equal(Kept(lock), Kept(threading.Lock()))


def test_what_holds_a_lock_is_copied_as_far_as_it_can_be():
    one = Kept([1, threading.Lock()])
    assert copied(one) is not one
    assert copied(one).content is one.content
    other = Kept([1])
    assert copied(other).content is not other.content
