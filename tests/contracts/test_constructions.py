"""How a mechanism is made, and which other ones are made of it."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sottovoce.mechanisms.base import Mechanism
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.testing.constructions import construction_of, hidden


class Choice(Enum):
    FIRST = 1
    SECOND = 2


@dataclass(frozen=True)
class Width:
    """Inside an argument: refuses odd numbers by an error of Python's own, and may hold another one."""

    width: int = 8
    share: float = 0.0
    next: Any = None

    def __post_init__(self):
        if self.width % 2:
            raise ValueError("odd")


class Plain(Mechanism):
    """No dataclass."""

    def __init__(self, epsilon, rounds=1):
        self.epsilon, self.rounds = epsilon, rounds

    def __eq__(self, other):
        return (self.epsilon, self.rounds) == (other.epsilon, other.rounds)

    __hash__ = None
    event = None


ONE = Laplace(1.0)


@dataclass(frozen=True)
class Several:
    epsilon: float
    k: int = 1
    exact: bool = False
    share: Fraction = Fraction(1, 2)
    aside: float = 0.0
    noise: Laplace = ONE
    plain: object = None
    choice: Choice = Choice.FIRST
    levels: tuple = ()
    table: object = field(default_factory=lambda: np.zeros(3))
    name: str = "several"

    event = None


class Odd:
    """Takes two, keeps one, and refuses small numbers by an error of Python's own."""

    def __init__(self, epsilon, /, rate, *more, least=1, **others):
        if rate < 1:
            raise ValueError("too small")
        self.rate = rate

    event = None


def values_of(construction):
    made = {place: [other for other in others if other.is_made()] for place, others in construction.others().items()}
    return {
        place: [other.arguments[place.split(".")[0].split("[")[0]] for other in others]
        for place, others in made.items()
    }


def test_each_argument_has_other_values():
    construction, lost = construction_of(Several, {"epsilon": 0.7})
    assert lost == []
    values = values_of(construction)
    tables = [[each.tolist() for each in values.pop(f"table[{at}]")] for at in range(3)]
    assert tables[1] == [[0, 0.125, 0], [0, 1, 0]]
    assert values == {
        "epsilon": [0.35, 1.4],
        "k": [2],
        "exact": [True],
        "share": [Fraction(1, 4), Fraction(1)],
        "aside": [0.125, 1.0],
        "noise.epsilon": [Laplace(0.5), Laplace(2.0)],
        "choice": [Choice.SECOND],
    }
    assert construction.make().table.tolist() == [0, 0, 0]


def test_what_is_inside_has_other_values_each_at_its_place():
    inside = {"plain": Plain(0.7, 2), "levels": ((0.5, Width()),), "noise": None}
    values = values_of(construction_of(Several, {"epsilon": 0.7, **inside})[0])
    assert values["plain.epsilon"] == [Plain(0.35, 2), Plain(1.4, 2)]
    assert values["plain.rounds"] == [Plain(0.7, 1), Plain(0.7, 3)]
    assert values["levels[0][0]"] == [((0.25, Width()),), ((1.0, Width()),)]
    assert values["levels[0][1].width"] == [((0.5, Width(4)),)]
    assert values["levels[0][1].share"] == [((0.5, Width(8, 0.125)),), ((0.5, Width(8, 1.0)),)]


def test_of_a_mapping_and_an_array_few_numbers_are_others():
    inside = {"plain": {"first": 4, "name": "several"}, "levels": np.arange(12).reshape(3, 4), "table": np.array(["a"])}
    others = construction_of(Several, {"epsilon": 0.7, **inside})[0].others()
    assert [made.arguments["plain"] for made in others["plain['first']"]] == [
        {"first": 2, "name": "several"},
        {"first": 5, "name": "several"},
    ]
    levels = {place for place in others if place.startswith("levels")}
    assert levels == {"levels[0]", "levels[1]", "levels[2]", "levels[11]"}
    assert [made.arguments["levels"].flat[11] for made in others["levels[11]"]] == [5, 12]
    assert not {place for place in others if place.startswith("table")}
    assert inside["levels"].flat[11] == 11


def test_what_a_factory_makes_has_other_numbers_and_is_not_shared():
    others = construction_of(Several, {"epsilon": 0.7})[0].others()
    one, other = (made.make() for made in others["epsilon"])
    assert one.table is not other.table
    assert [made.arguments["table"].tolist() for made in others["table[0]"]] == [[0.125, 0, 0], [1, 0, 0]]


def test_what_holds_itself_is_taken_apart_to_some_depth():
    ring = Width()
    object.__setattr__(ring, "next", ring)
    assert "levels.next.width" in construction_of(Several, {"epsilon": 0.7, "levels": ring})[0].others()


def test_an_instance_is_made_again_from_what_it_keeps():
    one = Several(0.7, k=6)
    construction, lost = construction_of(one)
    assert construction.make() is one
    assert (values_of(construction)["k"], lost) == ([3, 7], [])


def test_what_an_instance_does_not_keep_is_named():
    construction, lost = construction_of(Odd(0.7, 1.5))
    assert lost == ["epsilon", "*more", "least", "**others"]
    assert construction.arguments == {"rate": 1.5}


@dataclass
class Init:
    seed: InitVar[int] = 2
    epsilon: float = 0.7


@dataclass(frozen=True)
class New:
    epsilon: float

    def __new__(cls, *args, **options):
        return super().__new__(cls)


class Raises:
    def __init__(self, rate):
        pass

    @property
    def rate(self):
        raise RuntimeError("none yet")


@pytest.mark.parametrize(
    ("one", "arguments", "missing"),
    [
        (Init(3), {"epsilon": 0.7}, ["seed"]),
        (New(0.7), {"epsilon": 0.7}, []),
        (Raises(1), {}, ["rate"]),
        ({}, {}, []),
    ],
)
def test_a_default_of_the_class_is_nothing_that_was_kept(one, arguments, missing):
    construction, lost = construction_of(one)
    assert (construction.arguments, lost) == (arguments, missing)


def test_an_error_of_pythons_own_is_a_refusal():
    class Picky(Odd):
        def __init__(self, rate):
            super().__init__(0.7, rate)

    made, _ = construction_of(Picky(1.5))
    assert [other.is_made() for other in made.others()["rate"]] == [False, True]


def test_what_is_made_and_has_no_event_is_refused():
    class Lazy(Odd):
        def __init__(self, rate):
            self.rate = rate

        @property
        def event(self):
            if self.rate < 1:
                raise ValueError("too small")

    made, _ = construction_of(Lazy(1.5))
    assert [other.is_made() for other in made.others()["rate"]] == [False, True]


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (float("inf"), [0.125, 1.0]),
        (1.7e308, [8.5e307]),
        (np.int64(4), [2, 5]),
        (np.float32(0.5), [np.float32(0.25), np.float32(1.0)]),
        (Decimal("0.5"), [Decimal("0.25"), Decimal(1)]),
        (np.bool_(True), [False]),
    ],
)
def test_every_kind_of_number_has_other_ones(value, others):
    assert values_of(construction_of(Several, {"epsilon": value, "noise": None})[0])["epsilon"] == others


def test_of_many_numbers_some_are_other_ones():
    construction, _ = construction_of(Several, {"epsilon": 0.7, "levels": [1.0] * 1_000, "noise": None})
    places = [place for place in construction.others() if place.startswith("levels")]
    assert places == ["levels[0]", "levels[1]", "levels[2]", "levels[999]"]
    assert construction.others()["levels[999]"][0].arguments["levels"][997:] == [1.0, 1.0, 0.5]


def test_one_is_made_once_of_arguments_of_its_own():
    class Pops(Odd):
        def __init__(self, options):
            super().__init__(0.7, options.pop("rate"))

    construction, _ = construction_of(Pops, {"options": {"rate": 2.0}})
    assert construction.make() is construction.make()
    assert construction.arguments == {"options": {"rate": 2.0}}


def test_what_a_mechanism_inside_hides_is_named():
    class Hides(Plain):
        def __init__(self, rate):
            super().__init__(rate)

    assert [*hidden(((Hides(0.7),), Plain(0.7), Laplace(1.0)), "levels")] == ["levels[0][0].rate"]


def test_an_argument_without_words_has_a_place():
    class Speechless:
        def __repr__(self):
            raise RuntimeError("none yet")

    assert repr(construction_of(Several, {"epsilon": Speechless(), "k": 2})[0]).startswith("Several(k=2, ")


@dataclass(frozen=True)
class Halves:
    first: float = 0.5
    second: float = 0.5

    def __post_init__(self):
        if self.first + self.second != 1:
            raise ValueError("they must add up to 1")


def test_a_place_that_takes_no_other_value_has_none():
    others = construction_of(Several, {"epsilon": 0.7, "plain": Halves()})[0].others()
    assert (others["plain.first"], others["plain.second"]) == ([], [])
