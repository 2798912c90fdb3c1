"""Calibration: the specification's parameters, and that what is printed keeps the target."""

from __future__ import annotations

import math

import pytest

from sottovoce.errors import ParameterError
from sottovoce.privacy.accounting.accountant import RdpAccountant, rho_of_budget
from sottovoce.privacy.accounting.bounded_range import delta_of_bounded_range, epsilon_of_bounded_range
from sottovoce.privacy.accounting.calibration import base_of_sampled, calibrate
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu, mu_of_budget
from sottovoce.privacy.accounting.renyi import epsilon_of_rho
from sottovoce.privacy.events import (
    BoundedRange,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.unit import Adjacency

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("epsilon", "steps", "eta", "basic"), [(4, 32, 0.28606, 0.125), (8, 64, 0.36819, 0.125), (8, 128, 0.25838, 0.0625)]
)
def test_section_5_1_6(epsilon, steps, eta, basic):
    found = calibrate(BoundedRange, epsilon, 1e-6, AR, steps, bounds=["RDP"])
    assert found.parameter == pytest.approx(eta, abs=2e-5)
    assert found.report.bound == "RDP"
    assert found.parameter > 2 * basic
    # The least of all bounds allows a little more.
    best = calibrate(BoundedRange, epsilon, 1e-6, AR, steps, digits=3)
    assert best.report.bound == "optimal"
    assert 1.02 < best.parameter / found.parameter < 1.05


def test_o9_and_the_published_sensitivity():
    assert 1 / mu_of_budget(1.0, 1e-5) == pytest.approx(3.7306, abs=1e-4)
    assert math.sqrt(2) / mu_of_budget(1.0, 1e-5) == pytest.approx(5.2759, abs=1e-4)
    # Noise for sensitivity 1 where votes move, as published, costs this instead of 1.
    assert epsilon_of_mu(math.sqrt(2) / 3.7306, 1e-5) == pytest.approx(1.4652, abs=1e-4)


def test_o13_and_section_5_4():
    # m = 100 embeddings of norm 1: a drop moves their mean by 1/100, a swap by 2/100.
    expected = {1: (0.03731, 0.07461), 3: (0.01391, 0.02781), 8: (0.00600, 0.01200)}
    for epsilon, deviations in expected.items():
        for moved, deviation in zip((0.01, 0.02), deviations, strict=True):
            assert moved / mu_of_budget(epsilon, 1e-5) == pytest.approx(deviation, abs=1e-5)
    for epsilon, mu, continuous, doubled in (
        (1, 0.2472, 0.2681, 2.155),
        (3, 0.6697, 0.7191, 6.706),
        (8, 1.5682, 1.6660, 19.121),
    ):
        assert math.sqrt(2 * rho_of_budget(epsilon, 1e-5)) == pytest.approx(mu, abs=1e-4)
        assert epsilon_of_rho(rho_of_budget(epsilon, 1e-5), 1e-5) <= epsilon
        assert mu_of_budget(epsilon, 1e-5) == pytest.approx(continuous, abs=1e-4)
        assert epsilon_of_mu(2 * mu_of_budget(epsilon, 1e-5), 1e-5) == pytest.approx(doubled, abs=1e-3)
    assert epsilon_of_rho(mu_of_budget(1, 1e-5) ** 2 / 2, 1e-5) == pytest.approx(1.092, abs=1e-3)


def test_o25_the_gain_of_a_delta_for_one_selection():
    assert epsilon_of_bounded_range(1.005042, 1e-5) == pytest.approx(1.0, abs=1e-6)
    assert epsilon_of_bounded_range(1.05168, 1e-3) == pytest.approx(1.0, abs=1e-5)
    for delta in (1e-9, 1e-5, 0.1):
        assert delta_of_bounded_range(1.0, calibrate(BoundedRange, 1.0, delta, RO).parameter) <= delta
    assert calibrate(BoundedRange, 1.0, 1e-5, RO).parameter == 1.00504


def test_section_5_10_temperatures():
    # c = 10, 100 tokens, (1, 1e-5): the paper's temperature, then what is needed under add-remove and a swap.
    eta = calibrate(BoundedRange, 1.0, 1e-5, AR, 100, bounds=["RDP"]).parameter
    for expected, paper, drop, swap in ((255, 1.8818, 0.7891, 1.5782), (380, 1.2628, 0.5295, 1.0590)):
        assert 10 * math.sqrt(2 * 100 * math.log(1e5)) / expected == pytest.approx(paper, abs=1e-4)
        assert 10.0 / (expected * eta) == pytest.approx(drop, abs=1e-4)
        assert 20.0 / (expected * eta) == pytest.approx(swap, abs=2e-4)

    def token(tau):  # calibrating the temperature itself comes to the same
        return BoundedRange(10 / (255 * tau))

    found = calibrate(token, 1.0, 1e-5, AR, 100, increasing=False, bounds=["RDP"])
    assert found.parameter == pytest.approx(10.0 / (255 * eta), rel=1e-5)


def test_p3_calibrating_to_a_total_finds_the_parameter_again():
    for eta, steps in ((0.02, 40), (0.3, 7), (1.3, 2), (0.7, 1)):
        total = RdpAccountant(AR).compose(BoundedRange(eta), steps).report(1e-6, ["RDP"]).epsilon
        found = calibrate(BoundedRange, total, 1e-6, AR, steps, bounds=["RDP"])
        assert found.parameter == pytest.approx(eta, rel=2e-5)
        assert found.report.epsilon <= total
    for epsilon in (0.5, 3.0):
        assert calibrate(PureDP, epsilon, 0.0, RO, 10).parameter == epsilon / 10


@pytest.mark.parametrize("digits", [3, 6, 12])
def test_few_parameters_are_tried(digits):
    # Halving alone would try 24 at 6 digits and 44 at 12, beside those that bracket the answer and check it.
    tried = []
    calibrate(lambda eta: tried.append(eta) or BoundedRange(eta), 3.0, 1e-6, AR, 2, digits=digits)
    assert len(tried) == len(set(tried)) <= 14


def test_a_price_that_leaps_is_searched_by_halves():
    # The parameter itself is the price up to 0.7, and a hundred times it beyond: no line leads to the crossing.
    tried = []
    leap = calibrate(lambda at: tried.append(at) or PureDP(at if at <= 0.7 else 100 * at), 1.0, 0.0, AR, digits=6)
    assert leap.parameter == 0.7
    assert len(tried) <= 32


def test_every_kind_of_parameter_is_rounded_to_the_safe_side_and_checked_again():
    makers = [
        (PureDP, True),
        (ZCDpEvent, True),
        (GaussianDpEvent, False),
        (lambda sigma: PoissonSampledDpEvent(0.2, GaussianDpEvent(sigma)), False),
        (lambda sigma: WithFailure(GaussianDpEvent(sigma), 1e-8, exclusive=True), False),
    ]
    for make, increasing in makers:
        found = calibrate(make, 2.0, 1e-6, AR, 5, increasing=increasing, digits=3)
        assert float(f"{found.parameter:.3g}") == found.parameter
        again = RdpAccountant(AR).compose(make(found.parameter), 5).report(1e-6)
        assert again == found.report
        assert again.epsilon <= 2.0
        beyond = found.parameter * (1.02 if increasing else 0.98)
        assert RdpAccountant(AR).compose(make(beyond), 5).report(1e-6).epsilon > 2.0


def test_propose_test_release_is_calibrated_at_the_whole_delta_for_one_release_and_at_the_rest_for_more():
    def release(sigma):
        return WithFailure(GaussianDpEvent(sigma), 5e-7, exclusive=True)

    alone = calibrate(release, 1.0, 1e-6, RO, increasing=False, bounds=["GDP"]).parameter
    assert alone == pytest.approx(1 / mu_of_budget(1.0, 1e-6), rel=1e-5)
    with pytest.raises(ParameterError, match="target"):
        calibrate(release, 1.0, 1e-6, RO, 2, increasing=False)  # two failures leave nothing


def test_closed_forms_of_the_table():
    shortcut = math.sqrt(8 * rho_of_budget(4.0, 1e-6) / 32) * (1 - 1e-9)
    assert 0.97 * 0.28606 < shortcut < 0.28606
    assert RdpAccountant(AR).compose(BoundedRange(shortcut), 32).report(1e-6, ["zCDP"]).epsilon <= 4.0
    epsilon, delta = base_of_sampled(1.0, 1e-6, 0.1)
    assert (epsilon, delta) == (pytest.approx(math.log1p(math.expm1(1.0) / 0.1)), pytest.approx(1e-5))
    sampled = PoissonSampledDpEvent(0.1, GaussianDpEvent(1 / mu_of_budget(epsilon, delta)))
    assert RdpAccountant(AR).compose(sampled).report(1e-6, ["amplified"]).epsilon == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ParameterError, match="rate"):
        base_of_sampled(1.0, 1e-6, 0.0)


def test_targets_that_cannot_be_met_are_refused():
    for wrong, name in (
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"steps": 0}, "steps"),
        ({"digits": 0}, "digits"),
    ):
        with pytest.raises(ParameterError, match=name):
            calibrate(PureDP, **{"epsilon": 1.0, "delta": 1e-6, "adjacency": AR, **wrong})
    with pytest.raises(ParameterError, match="target"):
        calibrate(ZCDpEvent, 1.0, 0.0, AR)
    with pytest.raises(ParameterError, match="increasing"):
        calibrate(PureDP, 1.0, 1e-6, AR, increasing=False)


def test_a_parameter_that_is_not_monotone_is_noticed_when_it_is_checked_again():
    def jagged(parameter):  # short decimals are dear
        digits = f"{parameter:.12g}".replace(".", "").lstrip("0")
        return PureDP(0.1 if len(digits) > 6 else 2.0)

    with pytest.raises(ParameterError, match="monotone"):
        calibrate(jagged, 1.0, 1e-6, AR)


def test_one_digit_is_enough_to_round_to_the_safe_side():
    # The next parameter below the rounded one would be none: it is not asked for where the rounded one fits.
    found = calibrate(PureDP, 0.13, 0.0, Adjacency.ADD_REMOVE, 7, digits=1)
    assert found.parameter == 0.01
    assert found.report.epsilon <= 0.13
