"""At which prices entries are compared, and in groups of which size: those that an entry takes."""

from __future__ import annotations

import pytest

from contracts.wrong import answerers
from sottovoce.methods.base import Price
from sottovoce.testing import ContractError, answer_worlds
from sottovoce.testing.answerers import PRICES, PURE, _Answerer
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
        (answerers.AtLeastTwo, "composition", r"(?s)costs epsilon 1.99814.*Price.epsilon=1\.0"),
        (answerers.CoarseCounts, "sensitivity", "scores move by 8"),
        (answerers.QuietUnderRho, "composition", "costs epsilon 15"),
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
