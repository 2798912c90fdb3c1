"""The settings that an entry is driven at are read off its declaration: a new choice is driven because it is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Literal

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.methods.base import registered_methods
from sottovoce.methods.decoding.decoder import registered_decoders
from sottovoce.methods.rnm import NOISES, RNM
from sottovoce.parameters import Checked, Number, OneOf, Whole
from sottovoce.testing import ContractError, Effort
from sottovoce.testing.options import choices_of, settings_of, subject_of, with_other_numbers


class Side(Enum):
    LEFT = 1
    RIGHT = 2


@dataclass(frozen=True)
class Declared:
    noise: Annotated[str, OneOf(("soft", "loud"))] = "soft"
    mode: Literal["a", "b"] | None = "a"
    quick: bool = False
    side: Side = Side.LEFT
    other: str = field(default="x", metadata={"choices": ("x", "y")})
    weight: float = 0.0
    clip: float = 2.0
    loudness: float | None = None
    window: Whole | None = None

    def __post_init__(self):
        if (self.noise == "loud") != (self.loudness is not None):
            raise ParameterError("loudness", self.loudness, "given for loud noise, and for it alone")


def test_every_way_of_declaring_a_choice_is_read():
    assert choices_of(Declared) == {
        "noise": ("soft", "loud"),
        "mode": ("a", "b"),
        "quick": (False, True),
        "side": tuple(Side),
        "other": ("x", "y"),
    }


def test_each_choice_is_driven_once_with_the_number_that_it_needs():
    shown = [subject_of(one) for one in settings_of(Declared, Effort.QUICK)]
    assert shown == [
        "Declared()",
        "Declared(noise='loud', loudness=0.25)",
        "Declared(mode='b')",
        "Declared(quick=True)",
        "Declared(side=<Side.RIGHT: 2>)",
        "Declared(other='y')",
        "Declared(weight=1.0)",
        "Declared(window=2)",
    ]


def test_a_full_run_tries_other_numbers_too():
    shown = [subject_of(one) for one in settings_of(Declared, Effort.FULL)]
    assert {"Declared(clip=0.5)", "Declared(clip=8.0)"} <= set(shown)


@dataclass(frozen=True)
class Numbers(Checked):
    k: Whole = 1
    width: int = 8
    rate: Annotated[float, Number(0, 0.5)] = 0.4
    fixed: Annotated[int, Number(3, 3, whole=True)] = 3
    weight: float = 0.0
    steep: bool = False


def test_each_number_is_another_one_by_itself():
    found = {option: [subject_of(one) for one in made] for option, made in with_other_numbers(Numbers).items()}
    assert found == {
        "k": ["Numbers(k=2)", "Numbers(k=2)"],
        "width": ["Numbers(width=16)", "Numbers(width=4)", "Numbers(width=9)"],
        "rate": ["Numbers(rate=0.2)"],
        "fixed": [],
    }
    assert with_other_numbers(Numbers()) == {}


@dataclass(frozen=True)
class Arrays:
    shares: np.ndarray = field(default_factory=lambda: np.array([0.3, 0.4]))
    kind: Literal["a", "b"] = "a"


def test_arrays_are_options():
    shown = [subject_of(one) for one in settings_of(Arrays, Effort.QUICK)]
    assert shown == ["Arrays(shares=array([0.3, 0.4]))", "Arrays(shares=array([0.3, 0.4]), kind='b')"]


def test_every_noise_of_a_registered_method_is_driven():
    assert [one.noise for one in settings_of(RNM, Effort.QUICK)] == list(NOISES)


@pytest.mark.parametrize("cls", [*registered_methods().values(), *registered_decoders().values()], ids=lambda c: c.name)
def test_no_registered_option_is_of_unknown_choice(cls):
    assert len(list(settings_of(cls, Effort.QUICK))) >= 1


def test_a_choice_that_is_always_refused_is_no_choice():
    @dataclass(frozen=True)
    class Refusing:
        noise: Literal["soft", "loud"] = "soft"

        def __post_init__(self):
            if self.noise == "loud":
                raise ParameterError("noise", self.noise, "soft")

    with pytest.raises(ContractError, match="always refused"):
        list(settings_of(Refusing, Effort.QUICK))
