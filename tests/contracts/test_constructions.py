"""How a mechanism is made, and which other ones are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.mechanisms.laplace import Laplace
from sottovoce.testing.constructions import construction_of

ONE = Laplace(1.0)


@dataclass(frozen=True)
class Several:
    epsilon: float
    k: int = 1
    exact: bool = False
    share: Fraction = Fraction(1, 2)
    noise: Laplace = ONE
    table: object = field(default_factory=lambda: np.zeros(3))
    name: str = "several"


class Odd:
    """Takes two, keeps one, and refuses small numbers by an error of Python's own."""

    def __init__(self, epsilon, /, rate, *more, least=1, **others):
        if rate < 1:
            raise ValueError("too small")
        self.rate = rate


def values_of(construction):
    return {
        name: [other.arguments[name] for other in others if other.is_made()]
        for name, others in construction.others().items()
    }


def test_each_argument_has_other_values():
    construction, lost = construction_of(Several, {"epsilon": 0.7})
    assert lost == []
    assert values_of(construction) == {
        "epsilon": [0.35, 1.4],
        "k": [2],
        "exact": [True],
        "share": [Fraction(1, 4), Fraction(1)],
        "noise": [Laplace(0.5), Laplace(2.0)],
    }
    assert construction.make().table.tolist() == [0, 0, 0]


def test_an_instance_is_made_again_from_what_it_keeps():
    one = Several(0.7, k=6)
    construction, lost = construction_of(one)
    assert construction.make() is one
    assert (values_of(construction)["k"], lost) == ([3, 7], [])


def test_what_an_instance_does_not_keep_is_named():
    construction, lost = construction_of(Odd(0.7, 1.5))
    assert lost == ["least"]
    assert construction.arguments == {"rate": 1.5}


def test_an_error_of_pythons_own_is_a_refusal():
    construction, _ = construction_of(Several, {"epsilon": 0.7})
    assert [other.is_made() for other in construction.others()["epsilon"]] == [True, True]

    class Picky(Odd):
        def __init__(self, rate):
            super().__init__(0.7, rate)

    made, _ = construction_of(Picky(1.5))
    assert [other.is_made() for other in made.others()["rate"]] == [False, True]


@pytest.mark.parametrize("kind", [dict, type("NoSignature", (dict,), {})])
def test_a_class_that_says_nothing_has_no_arguments(kind):
    construction, lost = construction_of(kind())
    assert (construction.arguments, lost, construction.others()) == ({}, [], {})
