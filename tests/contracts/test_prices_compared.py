"""At which prices entries are compared, and in groups of which size: those that an entry takes."""

from __future__ import annotations

import pytest

from contracts.wrong import answerers, fitters, methods
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import make_fitter
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import ContractError, answer_worlds, check_fitter, fit_sessions, fit_worlds
from sottovoce.testing import methods as contract
from sottovoce.testing.answerers import PRICES, PURE, _Answerer
from sottovoce.testing.fitters import _Fitter
from sottovoce.testing.methods import _Method
from sottovoce.testing.report import Effort, Report

PURE_PRICE = r"delta=0\.0"


def name(value: object) -> str:
    return getattr(value, "__name__", "")


def an_answerer(cls: type, effort: Effort = Effort.QUICK, *, first: bool = True) -> _Answerer:
    return _Answerer(cls(), effort, Report("answerer", ""), first=first)


def priced(checked: _Answerer, relation: answer_worlds.Relation = answer_worlds.RELATIONS[0]) -> set[Price]:
    """The prices at which what is priced in one relation is drawn, too."""
    checked._prices(relation)
    checked._whatever_is_priced()
    return {price for *_, price in checked._priced}


@pytest.mark.parametrize(
    ("wrong", "contract", "reason"),
    [
        (answerers.AtLeastTwo, "composition", r"(?s)costs epsilon 2 at.*Price.epsilon=1\.0"),
        (answerers.CoarseCounts, "sensitivity", "scores move by 8"),
        (answerers.QuietUnderRho, "composition", "costs epsilon 16"),
        (answerers.QuietWithoutADelta, "composition", f"(?s)costs epsilon 4.*{PURE_PRICE}"),
        (answerers.DearInCrowds, "sensitivity", "143 experts"),
    ],
    ids=name,
)
def test_an_answerer_is_compared_at_the_prices_that_it_takes(wrong, contract, reason):
    with pytest.raises(ContractError, match=reason) as failed:
        priced(an_answerer(wrong))
    assert failed.value.contract == contract


def test_an_answerer_is_compared_at_every_price_of_a_full_run():
    assert priced(an_answerer(answerers.OneKeyword, Effort.FULL)) == {*PRICES, *PURE}
    assert priced(an_answerer(answerers.OneKeyword)) == {*PRICES[:3], *PURE}
    assert priced(an_answerer(answerers.OneKeyword, first=False)) == {*PRICES[:2], *PURE}
    assert priced(an_answerer(answerers.Mean)) == {*PRICES[:3]}


def test_an_answerer_that_takes_no_delta_is_compared_without_one():
    checked = an_answerer(answerers.WithoutADelta)
    assert checked.prices == tuple(Price(price.epsilon, 0.0) for price in PRICES[:3])
    with pytest.raises(ContractError, match=f"(?s)costs epsilon 16.*{PURE_PRICE}"):
        an_answerer(answerers.DearWithoutADelta)._neighbours(answer_worlds.RELATIONS[0])


def test_an_answerer_that_takes_no_price_is_not_compared():
    checked = an_answerer(answerers.RefusesEverything)
    assert not checked.prices
    assert not checked.check()


def a_fitter(cls: type) -> _Fitter:
    return _Fitter(cls(), Effort.QUICK, Report("fitter", ""), first=True)


def test_a_fitter_is_compared_at_a_price_without_a_delta():
    checked = a_fitter(fitters.QuietWithoutADelta)
    checked._prices(fit_worlds.RELATIONS[1])
    with pytest.raises(ContractError, match=f"(?s)costs epsilon.*{PURE_PRICE}") as failed:
        checked._whatever_is_priced()
    assert failed.value.contract == "composition"


def test_a_fitter_that_takes_no_delta_is_compared_without_one():
    checked = a_fitter(fitters.LikestWithoutADelta)
    assert {price.delta for price in checked.prices} == {0.0}
    with pytest.raises(ContractError, match="two supports"):
        checked._neighbours(fit_worlds.RELATIONS[0], adds_epsilons=True)


@pytest.mark.parametrize(
    ("wrong", "world"), [(fitters.TwiceFromTwelveUnits, 14), (fitters.TwiceFromFiveHundred, 1_000)], ids=name
)
def test_a_fitter_that_wants_many_units_is_compared_in_worlds_of_as_many(wrong, world):
    checked = a_fitter(wrong)
    checked._prices(fit_worlds.RELATIONS[0])
    with pytest.raises(ContractError, match=f"(?s)costs epsilon 5.*{world} times slant"):
        checked._whatever_is_priced()


@pytest.mark.slow
def test_a_fitter_of_twelve_units_is_put_through_every_check():
    report = Report("fitter", "")
    checked = _Fitter(fitters.FromTwelveUnits(), Effort.QUICK, report, first=False)
    checked.fits = 3
    assert checked.check()
    kept = {check.contract for check in report.checks}
    assert {"price", "refusals", "state", "sensitivity", "composition", "draws", "sampler", "prices"} <= kept


def test_a_fitter_that_is_refused_in_every_world_is_not_compared():
    with pytest.raises(ContractError, match="it refuses every price in every world") as failed:
        check_fitter(fitters.FromAMillion)
    assert failed.value.contract == "drive"


def test_fits_without_a_delta_leave_certificates(monkeypatch):
    monkeypatch.setattr(fit_sessions, "registered_fitters", lambda: {"choice": type(make_fitter("choice"))})
    report = Report("fitter", "")
    fit_sessions.fits(make_fitter("choice"), "choice", report, {Adjacency.REPLACE_ONE: Price(4.0, 0.0)})
    assert report.checks


def a_method(cls: type) -> _Method:
    return _Method(cls(), Effort.QUICK, Report("method", ""), first=True)


def without_a_delta(checked: _Method) -> dict:
    """What it promises at the price without a delta under replace-one."""
    keys = [(Adjacency.REPLACE_ONE, price) for price in contract.PURE]
    return {key: claim for key, claim in checked.claims().items() if key in keys}


def test_a_method_is_compared_at_a_price_without_a_delta():
    checked = a_method(methods.DearWithoutADelta)
    with pytest.raises(ContractError, match=f"(?s)log-ratios 4 wide, and 2 is allowed.*{PURE_PRICE}"):
        checked._smallest_worlds(without_a_delta(checked))


def test_a_method_that_takes_no_delta_is_compared_without_one():
    checked = a_method(methods.HalvedWithoutADelta)
    assert {price.delta for _, price in checked.claims()} == {0.0}
    with pytest.raises(ContractError, match=f"(?s)log-ratios 4 wide.*{PURE_PRICE}"):
        checked._neighbours(without_a_delta(checked))


def test_draws_at_a_price_without_a_delta_are_compared_with_the_law():
    checked = a_method(methods.QuietWithoutADelta)
    checked._sampler(checked._claims(contract.PRICES), 60)
    with pytest.raises(ContractError, match="do not follow its law"):
        checked._sampler(checked._claims(contract.PURE), 60)


def test_what_is_drawn_without_a_law_is_compared_without_a_delta(monkeypatch):
    monkeypatch.setattr(_Method, "_drawn", lambda *given: [0] * 100)
    checked = a_method(methods.TwoDrawsWithoutADelta)
    with pytest.raises(ContractError, match=f"(?s)costs epsilon 4.*{PURE_PRICE}"):
        checked._neighbours_by_draws(without_a_delta(checked))
