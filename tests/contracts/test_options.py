"""The settings that an entry is driven at are read off its declaration: a new choice is driven because it is there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, make_dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal, NewType

import numpy as np
import pytest

from contracts.wrong import answerers, decoders, fitters
from decoding_worlds import change_of
from sottovoce.errors import ParameterError
from sottovoce.methods.answering.answerer import registered_answerers
from sottovoce.methods.base import Price, registered_methods
from sottovoce.methods.decoding.decoder import registered_decoders
from sottovoce.methods.fitting.fitter import registered_fitters
from sottovoce.methods.rnm import NOISES, RNM
from sottovoce.parameters import Checked, Number, OneOf, Whole, options_of
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import ContractError, Effort
from sottovoce.testing.options import choices_of, settings_of, subject_of, with_other_numbers
from sottovoce.testing.report import Report


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


RIGHT = "side=<Side.RIGHT: 2>"


def test_each_choice_and_each_two_are_driven_once_with_the_number_that_it_needs():
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
        *(
            f"Declared(noise='loud', {other}, loudness=0.25)"
            for other in ("mode='b'", "quick=True", RIGHT, "other='y'")
        ),
        *(f"Declared(mode='b', {other})" for other in ("quick=True", RIGHT, "other='y'")),
        *(f"Declared(quick=True, {other})" for other in (RIGHT, "other='y'")),
        f"Declared({RIGHT}, other='y')",
    ]


@dataclass(frozen=True)
class TwoOf:
    """Two of its choices do not go together, and one of its numbers takes nothing else."""

    first: Literal["a", "b", "c"] = "a"
    second: bool = False
    fixed: float = 0.0

    def __post_init__(self):
        if self.first == "c" and self.second:
            raise ValueError("second is false where first is c")
        if self.fixed:
            raise ParameterError("fixed", self.fixed, "0")


def test_two_choices_that_are_refused_together_and_a_number_that_is_none_are_listed():
    report = Report("method", "two")
    shown = [(one.first, one.second) for one in settings_of(TwoOf, Effort.QUICK, report)]
    assert shown == [("a", False), ("b", False), ("c", False), ("a", True), ("b", True)]
    assert report.refused == ["TwoOf with first='c', second=True"]
    assert report.uncompared == ["TwoOf: another fixed than 0.0: no number was taken"]


Counting = NewType("Counting", str)


@dataclass(frozen=True)
class Inner:
    counts: Literal["votes", "double"] = "votes"
    width: int = 3


@dataclass(frozen=True)
class Unusual:
    joined: bool | Literal["thrice"] = False
    either: Literal["a"] | Literal["b"] = "a"
    unseen: bool = field(default=False, compare=False)
    inner: Inner = Inner()
    given: InitVar[Literal["x", "y"]] = "x"
    switches: tuple[bool, bool] = (True, False)
    pattern: re.Pattern[str] | None = None
    rule: Callable[[float], str] = str
    bonus: Annotated[float, Number(0, 0.5)] = 0.0
    points: Annotated[int, Number(3, 64, whole=True)] | None = None
    share: Fraction = Fraction(0)
    step: float | Literal["auto"] | None = None
    made: ClassVar[list[str]] = []

    def __post_init__(self, given):
        for name, limit in {"bonus": Number(0, 0.5), "points": Number(3, 64)}.items():
            if getattr(self, name) is not None:
                limit.read(name, getattr(self, name))
        self.made.append(given)


def test_choices_and_numbers_are_read_however_they_are_declared():
    Unusual.made.clear()
    driven = [*settings_of(Unusual, Effort.QUICK)]
    assert {one.joined for one in driven} == {False, True, "thrice"}
    assert {one.either for one in driven} == {"a", "b"}
    assert {one.unseen for one in driven} == {False, True}
    assert {one.inner.counts for one in driven} == {"votes", "double"}
    assert {*Unusual.made} == {"x", "y"}
    assert {one.switches for one in driven} == {(True, False)}
    assert {one.bonus for one in driven} == {0.0, 0.25}
    assert {one.points for one in driven} == {None, 33}
    assert {one.share for one in driven} == {0, 1}
    assert {one.step for one in driven} == {None, "auto", 2}
    assert any(one.joined == "thrice" and one.unseen and one.either == "a" for one in driven)


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()


@dataclass(frozen=True)
class Nested:
    outer: Outer = Outer()
    absent: Inner | None = None
    made: Inner = field(default_factory=Inner)
    final: Final[bool] = False


def test_choices_inside_of_what_an_option_holds_are_driven_however_deep():
    driven = [*settings_of(Nested, Effort.QUICK)]
    assert {one.outer.inner.counts for one in driven} == {"votes", "double"}
    assert {one.absent and one.absent.counts for one in driven} == {None, "votes", "double"}
    assert {one.made.counts for one in driven} == {"votes", "double"}
    assert {one.final for one in driven} == {False, True}


class Unreadable:
    def __init__(self, embedder: NobodyImports | None = None, quick: bool = False) -> None:  # noqa: F821
        self.embedder, self.quick = embedder, quick


def test_an_annotation_of_a_constructor_that_is_for_type_checkers_alone_hinders_nothing():
    assert [one.quick for one in settings_of(Unreadable, Effort.QUICK)] == [False, True]


class OfAConstructor:
    def __init__(self, counts: Literal["votes", "double"] = "votes", bonus=0.0, _private: str = "") -> None:
        self.counts, self.bonus = counts, bonus


def test_options_of_a_class_that_is_no_dataclass_are_those_of_its_constructor():
    driven = [(one.counts, one.bonus) for one in settings_of(OfAConstructor, Effort.QUICK)]
    assert driven == [("votes", 0.0), ("double", 0.0), ("votes", 1.0)]


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        ("Counting | None", None),
        ("object", "votes"),
        ("list[str] | None", None),
        ("dict[str, str] | None", None),
        ("str | Literal['a']", "a"),
    ],
    ids=["name", "object", "list", "mapping", "union"],
)
def test_a_text_of_unknown_choice_is_refused_however_it_is_declared(hint, default):
    made = make_dataclass("Open", [("counts", hint, default)], frozen=True)
    made.__module__ = __name__
    with pytest.raises(ContractError, match="text of unknown choice"):
        choices_of(made)


def test_an_annotation_that_cannot_be_read_is_named():
    with pytest.raises(ContractError, match=r"cannot be read .*NobodyImports"):
        choices_of(make_dataclass("Hidden", [("counts", "NobodyImports", 1)]))


def test_a_full_run_tries_other_numbers_too():
    shown = [subject_of(one) for one in settings_of(Declared, Effort.FULL)]
    assert {"Declared(clip=0.5)", "Declared(clip=8.0)"} <= set(shown)


class Size(IntEnum):
    SMALL = 1
    LARGE = 4


@dataclass(frozen=True)
class Numbers(Checked):
    width: int = 8
    rate: Annotated[float, Number(0, 0.5)] = 0.4
    clips: tuple[Fraction, ...] = field(default_factory=lambda: (Fraction(2), Fraction(3)))
    steep: bool = False
    size: Size = Size.SMALL
    side: Literal[1, 3] = 1
    loudness: float | None = None


class Plain:
    def __init__(self, clip=Decimal(2), limit=3, /, *, helper=None):
        self.clip, self._limit, self.helper = clip, limit, helper or [clip]


def arguments(others):
    return {place: [made.arguments for made in each] for place, each in others.items()}


def test_each_number_is_another_one_by_itself():
    others, lost = with_other_numbers(Numbers)
    assert lost == []
    assert arguments(others) == {
        "width": [{"width": 4}, {"width": 9}],
        "rate": [{"rate": 0.2}, {"rate": 0.8}],
        "clips[0]": [{"clips": (first, Fraction(3))} for first in (Fraction(1), Fraction(4))],
        "clips[1]": [{"clips": (Fraction(2), last)} for last in (Fraction(3, 2), Fraction(6))],
        "loudness": [{"loudness": number} for number in (0.25, 1, 4)],
    }
    assert with_other_numbers(Numbers()) == ({}, [])
    assert with_other_numbers(Plain) == ({}, ["clip", "limit"])


def test_nothing_that_an_instance_works_out_is_given_to_another_one():
    class Worked:
        def __init__(self, clip=2.0, bits=4, helper=None):
            self.clip, self.bits, self.helper = clip, 1 << bits, helper or [clip]

    others, _ = with_other_numbers(Worked)
    assert arguments(others) == {"clip": [{"clip": 1.0}, {"clip": 4.0}], "bits": [{"bits": 2}, {"bits": 5}]}


@dataclass(frozen=True)
class Either:
    clip: float | Literal["lead"] = 2.0
    extra: float | Literal["auto"] = 0.0
    width: int | bool = 1
    words: float | Literal["a"] = "a"


def test_a_number_beside_words_or_a_switch_is_a_number():
    others, _ = with_other_numbers(Either)
    assert {place.split("[")[0] for place in others} == {"clip", "extra", "width"}
    shown = [subject_of(one) for one in settings_of(Either, Effort.QUICK)]
    assert {"Either(clip='lead')", "Either(extra='auto')", "Either(extra=1.0)", "Either(width=False)"} <= {*shown}
    assert "Either(clip=8.0)" in [subject_of(one) for one in settings_of(Either, Effort.FULL)]


@dataclass(frozen=True)
class Settled:
    rate: float | None = None
    noise: float | None = None
    more: float | None = None
    made: ClassVar[list[int]] = []

    def __post_init__(self):
        self.made.append(1)

    @property
    def dials(self):
        return ("rate",)

    calibrated_parameters = ("noise",)


def test_what_a_price_settles_is_no_other_number_and_a_class_is_not_made_here():
    assert [*with_other_numbers(Settled)[0]] == ["more"]
    assert Settled.made == []


def test_other_numbers_of_every_registered_entry_are_known():
    registries = (registered_methods, registered_decoders, registered_answerers, registered_fitters)
    found = {cls: with_other_numbers(cls) for registered in registries for cls in registered().values()}
    assert len(found) > 25
    assert [cls for cls, (_, lost) in found.items() if lost] == []
    assert sum(bool(others) for others, _ in found.values()) > 12


@dataclass(frozen=True)
class Empty:
    clip: float | None = None

    def __len__(self):
        return 0


def test_an_entry_of_no_length_is_driven():
    assert [one.clip for one in settings_of(Empty, Effort.QUICK)] == [None, 2]


@pytest.mark.parametrize("effort", Effort)
def test_choices_that_are_numbers_are_not_other_numbers(effort):
    settings = [*settings_of(Numbers, effort)]
    assert {(one.size, one.side) for one in settings} == {*itertools.product(Size, (1, 3))}
    assert all(isinstance(one.size, Size) for one in settings)


@dataclass(frozen=True)
class Asserts:
    share: float = 0.75
    of: int | None = None

    def __post_init__(self):
        assert 0 < self.share < 1
        if self.of is not None:
            raise ValueError("no number will do")


def test_a_number_that_nobody_chose_may_be_refused_by_any_error():
    assert [one.share for one in settings_of(Asserts, Effort.FULL)] == [0.75, 0.75 / 4]


@dataclass(frozen=True)
class Arrays:
    shares: np.ndarray = field(default_factory=lambda: np.array([0.3, 0.4]))
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Weighted:
    weights: Mapping[str, float] = field(default_factory=dict)
    others: dict[str, int] | None = None


@dataclass(frozen=True)
class Worded:
    words: dict[str, str] = field(default_factory=dict)


def test_the_names_of_a_mapping_are_no_text_of_unknown_choice():
    assert choices_of(Weighted) == {}
    with pytest.raises(ContractError, match="text of unknown choice"):
        choices_of(Worded)


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


@pytest.mark.parametrize("holds_a_lock", [answerers.HoldsALock, decoders.HoldsALock, fitters.HoldsALock])
def test_what_an_entry_is_not_made_from_is_no_option(holds_a_lock):
    assert "lock" in vars(holds_a_lock())
    assert "lock" not in options_of(holds_a_lock)
    assert list(options_of(holds_a_lock)) == list(options_of(holds_a_lock.__base__))


def test_the_parameters_of_a_plan_can_be_given():
    ar = Adjacency.ADD_REMOVE
    plan = decoders.HoldsALock().plan(Price(1), tokens=2, texts=1, experts=3, adjacency=ar, change=change_of(ar))
    assert list(plan.parameters) == ["clip", "temperature"]
    assert plan.parameters["temperature"] is not None
