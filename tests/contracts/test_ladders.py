"""A raw threshold on how many agree lies between two neighbouring worlds, wherever it is, and each contract looks."""

from __future__ import annotations

from collections import Counter

import pytest

from contracts.wrong import answerers, decoders, fitters, methods
from sottovoce.testing import (
    ContractError,
    answer_worlds,
    check_answerer,
    check_decoder,
    check_fitter,
    check_method,
    fit_worlds,
    label_worlds,
)
from sottovoce.testing.answerers import _Answerer
from sottovoce.testing.decoders import _Decoder
from sottovoce.testing.fitters import _Fitter
from sottovoce.testing.ladders import TOP, counted, ladders, pairs_of
from sottovoce.testing.methods import _Method
from sottovoce.testing.report import Effort, Report


def name(value: object) -> str:
    return getattr(value, "__name__", "")


@pytest.mark.parametrize(
    ("swaps", "comes", "moves"),
    [
        (True, False, [{"y": 1, "x": -1}, {"-": 1, "x": -1}]),
        (False, False, [{"-": 1, "x": -1}] * 2),
        (False, True, [{"x": -1}] * 2),
    ],
)
def test_each_rung_has_one_less_of_one_opinion(swaps, comes, moves):
    every = list(ladders("x", "y", "-", swaps=swaps, comes=comes))
    assert len(every) == len(moves)
    for rungs, move in zip(every, moves, strict=True):
        counts = [Counter(world) for world in rungs]
        assert [count["x"] for count in counts] == list(range(TOP, -1, -1))
        for one, other in pairs_of(rungs):
            moved = Counter(counts[other])
            moved.subtract(counts[one])
            assert {said: number for said, number in moved.items() if number} == move


def test_worlds_of_every_kind_are_climbed():
    of_fits = [rungs for relation in fit_worlds.RELATIONS[:3] for rungs in fit_worlds.climbed(relation)]
    of_answers = [rungs for relation in answer_worlds.RELATIONS for rungs in answer_worlds.climbed(relation)]
    of_labels = [rungs for change in label_worlds.CHANGES for rungs in label_worlds.climbed(3, change)]
    for every in (of_fits, of_answers, of_labels):
        for rungs in every:
            said = rungs[0][-1]
            numbers = [world.count(said) for world in rungs]
            assert numbers[0] == TOP
            assert numbers in (list(range(TOP, -1, -1)), list(range(TOP, 0, -1)))
    assert all(world for rungs in of_fits for world in rungs), "a fit has a record at least"


def test_a_crowd_is_told_by_its_numbers():
    assert counted([*"yyxxxxx"]) == "y, y, 5 times x"
    assert fit_worlds.shown((fit_worlds.EAST,) * 6 + (fit_worlds.SLANT,)) == "{6 times east:0, slant:1}"
    assert answer_worlds.shown(("a late fee",) * 6 + (None,)) == "{6 times 'a late fee', null}"


@pytest.fixture
def no_other_worlds(monkeypatch):
    """The ladder alone, so that a check takes no time."""
    for cls, names in (
        (_Fitter, ["_neighbours", "_alone"]),
        (_Answerer, ["_neighbours"]),
        (_Method, ["_neighbours", "_state", "_order_of_experts"]),
        (_Decoder, ["_texts", "_isolation", "_state"]),
    ):
        for each in names:
            monkeypatch.setattr(cls, each, lambda *given, **named: None)


@pytest.mark.cases(1)
@pytest.mark.usefixtures("no_other_worlds")
@pytest.mark.parametrize(
    ("check", "wrong", "contract", "world"),
    [
        (
            check_fitter,
            fitters.RareLabelsOut,
            "post-processing",
            "20 times east:0, .* and {19 times east:0, 5 times",
        ),
        (check_fitter, fitters.RareLabelsZeroed, "sensitivity", "10 times slant:1} and {.*9 times|9 times slant"),
        (check_answerer, answerers.RareWordsOut, "sensitivity", "15 times .*, 9 times .* and .*14 times .*, 10 times"),
        (check_answerer, answerers.SilentWhereFew, "post-processing", "{5 times 'the card'.* and {'the card'"),
        (check_method, methods.OnlyWhereAgreed, "neighbours", "8 times .* and .7 times"),
        (check_decoder, decoders.FrequentTokens, "isolation", "21 and 20 experts of one opinion"),
        (check_decoder, decoders.FrequentTokensOfItsOwn, "neighbours", "21 times X, .* and .20 times X"),
    ],
    ids=name,
)
def test_a_raw_threshold_on_how_many_agree_is_found(check, wrong, contract, world):
    with pytest.raises(ContractError, match=world) as failed:
        check(wrong)
    assert failed.value.contract == contract


@pytest.mark.parametrize("least", [1, 2, 7, 17, 23, TOP])
def test_it_is_found_wherever_it_is_set(least, monkeypatch):
    monkeypatch.setattr(fitters.RareLabelsOut, "least", least)
    checked = _Fitter(fitters.RareLabelsOut(), Effort.QUICK, Report("fitter", ""), first=True)
    with pytest.raises(ContractError, match="two supports"):
        checked._however_many(fit_worlds.RELATIONS[0])


def test_a_threshold_above_the_ladder_is_not_found(monkeypatch):
    monkeypatch.setattr(answerers.SilentWhereFew, "least", TOP + 1)
    checked = _Answerer(answerers.SilentWhereFew(), Effort.QUICK, Report("answerer", ""), first=True)
    checked._however_many(answer_worlds.RELATIONS[0])
    assert checked.report.passed
