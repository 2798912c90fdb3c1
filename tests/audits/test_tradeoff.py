"""Trade-off curves: the specification's numbers (O25), both directions, and every cap an upper bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.audits.roc import caps, caps_of_curve
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.privacy.accounting.profiles import delta_of_plan, deltas_of_plan
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.unit import Adjacency

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
EVENTS = (
    BoundedRange(1.0),
    PureDP(2.0),
    GaussianDpEvent(2.0),
    ZCDpEvent(0.125),
    ApproximateDP(1.0, 1e-3),
    WithFailure(ZCDpEvent(0.1), 1e-3, exclusive=True),
    SelfComposedDpEvent(BoundedRange(0.1), 100),
    ComposedDpEvent([BoundedRange(0.3), PureDP(0.2)]),
)


def test_o25_a_bounded_range_release():
    curve = TradeOff.of_event(BoundedRange(1.0), RO)
    assert curve.fnr(np.array([0.05, 0.1, 0.3])) == pytest.approx([0.87484, 0.76803, 0.46190], abs=5e-6)


def test_gaussian_releases_have_their_own_curve_and_compose_in_it():
    curve = TradeOff.of_event(ComposedDpEvent([GaussianDpEvent(5.0), GaussianDpEvent(2.0)]), AR)
    mu = math.hypot(0.2, 0.5)
    rates = np.array([1e-9, 0.01, 0.1, 0.5, 0.9])
    assert curve.fnr(rates) == pytest.approx(norm.cdf(norm.isf(rates) - mu), rel=1e-6)
    assert curve.accuracy == pytest.approx(norm.cdf(mu / 2), rel=1e-6)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_curve_is_a_trade_off_function_and_its_own_mirror_image(event):
    curve, rates = TradeOff.of_event(event, AR), np.linspace(0, 1, 501)
    fnr = curve.fnr(rates)
    assert ((fnr >= 0) & (fnr <= 1 - rates)).all()
    assert (np.diff(fnr) <= 1e-12).all()
    assert (np.diff(fnr, 2) >= -1e-9).all()
    inside = fnr > 0.01
    assert curve.fnr(fnr[inside]) == pytest.approx(rates[inside], abs=2e-3)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_no_cap_is_below_that_of_any_of_its_points(event):
    # Every pair of the profile caps attacks; the curve's caps may be lower, never above the least of them.
    curve = TradeOff.of_event(event, AR)
    if curve.epsilons.size:
        points = [*zip(curve.epsilons.tolist(), curve.deltas.tolist(), strict=True)][
            :: max(1, curve.epsilons.size // 40)
        ]
        for epsilon, delta in points:
            assert float(curve.tpr(0.1)) <= caps(epsilon, delta, 0.1).tpr + 1e-8
        assert curve.area <= caps_of_curve(points, 0.1).auroc + 3e-4


def test_the_best_attack_on_randomised_response_meets_its_curve():
    right = 1 / (1 + math.exp(-1.0))
    curve = TradeOff.of_event(PureDP(1.0), RO)
    assert float(curve.fnr(1 - right)) == pytest.approx(1 - right, abs=1e-7)
    assert curve.accuracy == pytest.approx(right, abs=1e-7)
    # Were the curve 1 % higher, this attack would be said to be impossible.
    assert 1 - right < 1.01 * float(curve.fnr(1 - right))


def test_sampled_releases_take_the_worse_of_both_directions():
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.3, GaussianDpEvent(1.0)), 3)
    curve, epsilons = TradeOff.of_event(event, AR), np.array([0.0, 0.5, 1.0])
    deltas = deltas_of_plan([event], epsilons, AR)
    assert deltas == pytest.approx([delta_of_plan([event], float(epsilon), AR) for epsilon in epsilons])
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        assert (curve.fnr(np.array([0.05, 0.4])) >= 1 - delta - math.exp(epsilon) * np.array([0.05, 0.4]) - 1e-4).all()
    with pytest.raises(AssignmentError):
        TradeOff.of_event(event, Adjacency.ZERO_OUT)


def test_nothing_released_and_everything_released():
    rates = np.array([0.0, 0.2, 1.0])
    assert TradeOff.of_event(NoOpDpEvent(), AR).fnr(rates) == pytest.approx(1 - rates, abs=1e-8)
    assert TradeOff.of_event(NonPrivateDpEvent(), AR).fnr(rates).tolist() == [0, 0, 0]


@pytest.mark.parametrize("curve", [TradeOff.of_mu(0.5), TradeOff.of_points([(2.0, 0.0), (0.5, 0.1)])])
def test_confidence_solves_the_curve(curve):
    shares = np.array([1e-6, 0.01, 0.2, 0.9, 1.0])
    right = curve.confident(shares)
    wrong = shares * (1 - right)
    assert wrong + 1 - curve.fnr(wrong) == pytest.approx(np.maximum(shares, 0), abs=1e-6)
    assert (np.diff(right) <= 1e-9).all()
    assert right[-1] == pytest.approx(curve.accuracy, abs=1e-6)


def test_what_is_no_curve_is_refused():
    with pytest.raises(ParameterError, match="points"):
        TradeOff.of_points([])
    with pytest.raises(ParameterError, match="points"):
        TradeOff.of_points([(1.0, 1.5)])
    with pytest.raises(ParameterError, match="deltas"):
        TradeOff(np.zeros(2), np.zeros(3))
    with pytest.raises(ParameterError, match="fpr"):
        TradeOff.of_mu(1.0).fnr(1.5)
    with pytest.raises(ParameterError, match="epsilons"):
        deltas_of_plan([PureDP(1.0)], np.array([-1.0]), AR)
