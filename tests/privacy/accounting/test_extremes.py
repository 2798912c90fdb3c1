"""Reports at the ends of the range of every parameter, and on input that is not a number, a count or a rate.

Witnesses: mpmath for divergences; for samples of long generations, that a plan of one whole release costs what the
release costs, and a mixture that holds the record with probability q loses at most ln(1/q) less.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.noisy_max import LaplaceNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.top_k import JointTopK, OneShotTopK
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.adaptive_composition import optimal_epsilon
from sottovoce.privacy.accounting.amplification import Sampling, SharedSample
from sottovoce.privacy.accounting.bounded_range import rdp_of_bounded_range, rho_of_bounded_range
from sottovoce.privacy.accounting.calibration import base_of_sampled
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.accounting.groups import epsilon_delta_of_group
from sottovoce.privacy.accounting.profiles import delta_of_plan, epsilon_of_plan, profile_of
from sottovoce.privacy.accounting.renyi import epsilon_of_rho, rdp_of_pure, rho_of_pure
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, several

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def report(event, count=1, delta=1e-6, adjacency=RO):
    return RdpAccountant(adjacency).compose(event, count).report(delta)


@pytest.mark.parametrize(("eta", "steps"), [(400.0, 2), (100.0, 10), (30.0, 50)])
@pytest.mark.parametrize("adjacency", [AR, RO])
def test_a_sample_of_a_dear_generation_costs_nearly_what_the_generation_costs(eta, steps, adjacency):
    # Above epsilon 709 the profile was interpolated between infinities, came out 0, and 50 x 30 was reported at half.
    whole = optimal_epsilon(eta, steps, 1e-5).lower
    event = PoissonSampledDpEvent(0.5, SelfComposedDpEvent(BoundedRange(eta), steps))
    found = epsilon_of_plan([event], 1e-6, adjacency)
    assert found >= whole - math.log(2)
    three = report(event, 3, 1e-6, adjacency)
    assert three.epsilon >= 2 * (whole - math.log(2))


def delta_of_responses(epsilon, first, second, steps):
    """The exact delta of so many independent answers with these probabilities of yes, in both directions."""
    found = []
    for p, q in ((first, second), (second, first)):
        yes, no = mpmath.log(p / q), mpmath.log((1 - p) / (1 - q))
        losses = [(k, k * yes + (steps - k) * no) for k in range(steps + 1)]
        found.append(
            mpmath.fsum(
                mpmath.binomial(steps, k) * p**k * (1 - p) ** (steps - k) * -mpmath.expm1(epsilon - loss)
                for k, loss in losses
                if loss > epsilon
            )
        )
    return max(found)


@pytest.mark.cases(5)
@pytest.mark.parametrize("adjacency", [AR, RO])
@pytest.mark.parametrize(
    ("steps", "epsilon", "rate", "delta"),
    [
        (20, 40.0, 0.5, 2.5e-5),
        (10, 80.0, 0.5, 1.4e-3),
        (40, 20.0, 0.8, 0.01),
        (20, 36.0, 1.0, 1e-6),
        (25, 80.0, 0.7, 0.1),
    ],
)
def test_the_read_out_is_above_the_exact_law_where_exponentials_overflow(steps, epsilon, rate, delta, adjacency):
    # Exponents were cut off at 700: between 690 and 730 the cell was one too late, and 711.5 was reported for 718.8.
    base = PureDP(epsilon)
    event = SelfComposedDpEvent(base if rate == 1 else PoissonSampledDpEvent(rate, base), steps)
    with mpmath.workdps(60):
        absent = mpmath.exp(-epsilon) / (1 + mpmath.exp(-epsilon))
        present = rate * (1 - absent) + (1 - rate) * absent
        found = epsilon_of_plan([event], delta, adjacency)
        assert 650 < found < steps * epsilon
        assert delta_of_responses(found, present, absent, steps) <= delta
        for at in (0.97 * found, found):
            exact = delta_of_responses(at, present, absent, steps)
            assert exact <= delta_of_plan([event], at, adjacency) <= 30 * max(exact, delta)
        assert delta_of_plan([event], found, adjacency) <= delta < delta_of_plan([event], 0.99 * found, adjacency)


def test_the_profile_of_a_dear_generation_does_not_end_where_exponentials_overflow():
    profile = profile_of(SelfComposedDpEvent(BoundedRange(400.0), 2), RO)
    deltas = profile(np.array([700.0, 705.0, 712.0, 740.0, 790.0, 800.0]))
    assert (deltas[:4] > 0.9).all()
    assert deltas[4] > 0.01
    assert deltas[5] == 0


def test_between_the_knots_of_a_generation_the_profile_is_the_chord_in_the_exponential():
    # Against T6 on a grid four times as fine, of which every value is an upper bound: none may be far above.
    profile, eta, steps = profile_of(SelfComposedDpEvent(BoundedRange(0.5), 6), RO), 0.5, 6
    for epsilon in np.linspace(0.01, eta * steps * 0.7, 23):
        delta = float(profile(np.array([epsilon]))[0])
        interval = optimal_epsilon(eta, steps, delta, grid=60)
        assert interval.lower <= epsilon <= interval.upper * 1.02 + 0.02


def renyi_of_bounded_range(alpha, eta):
    a, e = mpmath.mpf(float(alpha)), mpmath.mpf(float(eta))
    m = mpmath.exp(-(a - 1) * e)
    k = (1 - m) / (1 - mpmath.exp(-e))
    s = min(max((a - 1) * (k + m) * mpmath.exp(e) / (a * k), 1), mpmath.exp(e))
    return mpmath.log(s) + mpmath.log((k + m) - k * mpmath.exp(-e) * s) / (a - 1)


def renyi_of_pure(alpha, epsilon):
    a, e = mpmath.mpf(float(alpha)), mpmath.mpf(float(epsilon))
    p, q = 1 / (1 + mpmath.exp(-e)), mpmath.exp(-e) / (1 + mpmath.exp(-e))
    return mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


def test_divergences_are_not_below_the_exact_ones_where_their_logarithms_cancel():
    orders = np.array([1.001, 1.0120226, 1.0275422, 1.1445439, 2.148, 48.86, 1e3, 83177.0])
    with mpmath.workdps(60):
        for eta in (5.237e-6, 1.7668e-4, 1.138e-3, 1.3998e-3, 3.2034e-3, 0.01109, 0.3, 4.0):
            for found, exact in (
                (rdp_of_bounded_range(eta, orders), renyi_of_bounded_range),
                (rdp_of_pure(eta, orders), renyi_of_pure),
            ):
                for order, value in zip(orders, found, strict=True):
                    true = exact(order, eta)
                    assert (true - mpmath.mpf(float(value))) / true < 1e-13, (eta, order, exact.__name__)


def test_rho_of_a_selection_keeps_its_digits_down_to_where_the_quadratic_takes_over():
    with mpmath.workdps(60):
        for eta in (0.0100001, 0.01109, 0.0253, 0.1, 0.999, 1.001):
            x = mpmath.mpf(eta) / mpmath.expm1(eta)
            true = x - 1 - mpmath.log(x)
            assert abs(rho_of_bounded_range(eta) - true) / true < 1e-12


@pytest.mark.cases(3)
@pytest.mark.parametrize("multiplier", [1e-200, 1e-9, 1e-3, 0.002, 1e200, math.inf])
def test_a_report_survives_every_noise_multiplier(multiplier):
    found = report(GaussianDpEvent(multiplier)).epsilon
    if multiplier > 1:
        assert found == 0
    else:
        assert found >= (0.5 / multiplier**2 if multiplier > 1e-100 else math.inf)
    RdpAccountant(RO).compose(GaussianDpEvent(multiplier)).compose(BoundedRange(0.1)).report(1e-6)
    cost_of(GaussianDpEvent(multiplier))


def test_a_report_survives_every_eta_and_epsilon_and_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (5e-324, 1e-300, 1e-12, 705.0, 710.0, 800.0, 1e5, 1e200, 1e300):
            for event in (BoundedRange(size), PureDP(size)):
                for count in (1, 2):
                    assert 0.98 * count * size - 2e-6 <= report(event, count).epsilon <= count * size * (1 + 1e-8)
        for event in (GaussianDpEvent(1e-150), ZCDpEvent(1e300), PoissonSampledDpEvent(0.5, PureDP(1e300))):
            for count in (1, 10**6):
                assert report(event, count, adjacency=AR).epsilon > 1e299


def test_nothing_composed_no_times_is_nothing():
    for event in (GaussianDpEvent(1.0), BoundedRange(1.0), ZCDpEvent(1.0)):
        assert report(event, 0).epsilon == 0
    alone = RdpAccountant(RO).compose(BoundedRange(0.1), 50).report(1e-6)
    assert RdpAccountant(RO).compose(PureDP(1.0), 0).compose(BoundedRange(0.1), 50).report(1e-6) == alone


@pytest.mark.parametrize("count", [-1, 0.5, math.nan, True, "3", None, 10**400])
def test_a_count_is_a_whole_number(count):
    many = SelfComposedDpEvent(BoundedRange(0.5), count)
    sample = SharedSample(Sampling.POISSON, AR, change=SWAP, grouped=True, rate=0.1)
    for attempt in (
        lambda: RdpAccountant(RO).compose(BoundedRange(0.5), count),
        lambda: RdpAccountant(RO).compose(many),
        lambda: cost_of(many),
        lambda: sample.release(BoundedRange(0.5), count),
    ):
        with pytest.raises(ParameterError, match="count"):
            attempt()


@pytest.mark.parametrize(
    "event",
    [
        BoundedRange(-1.0),
        BoundedRange(math.nan),
        BoundedRange("0.5"),
        BoundedRange(True),
        PureDP(Fraction(1, 2)),
        PureDP(math.inf),
        ZCDpEvent(-1.0),
        ZCDpEvent(math.nan),
        GaussianDpEvent(-1.0),
        GaussianDpEvent(math.nan),
        ApproximateDP(1.0, -0.5),
        ApproximateDP(1.0, "0.5"),
        WithFailure(BoundedRange(0.1), -1.0),
        WithFailure(BoundedRange(0.1), 0.1, "no"),
        "BoundedRange",
    ],
)
def test_an_event_out_of_range_is_refused_by_reports_and_by_ledger_prices_alike(event):
    # charge_of used to price ZCDpEvent(-1) at rho -1, and minus three copies of a release at less than nothing.
    with pytest.raises(ParameterError):
        RdpAccountant(RO).compose(event)
    with pytest.raises(ParameterError):
        cost_of(event)


@pytest.mark.parametrize("delta", ["1e-5", math.nan, -1e-9, 1.0, None, True])
def test_delta_is_a_number_below_one(delta):
    with pytest.raises(ParameterError, match="delta"):
        report(BoundedRange(0.5), 1, delta)
    with pytest.raises(ParameterError, match="delta"):
        epsilon_of_plan([BoundedRange(0.5)], delta, RO)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, "1"])
def test_the_delta_of_a_plan_is_not_asked_at_a_negative_epsilon(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        delta_of_plan([BoundedRange(0.5)], epsilon, RO)


def test_a_negative_or_absent_rho_never_converts_to_nothing():
    assert epsilon_of_rho(-1.0, 1e-6) == epsilon_of_rho(math.nan, 1e-6) == math.inf


def test_a_base_stated_for_several_drops_is_refused_as_one_for_a_drop_is():
    # The name differs, the promise does not: exchanging records is no drop, nor is re-evaluating a prompt.
    for adjacency, grouped in ((RO, False), (RO, True), (AR, True)):
        with pytest.raises(AssignmentError, match="swap"):
            SharedSample(Sampling.POISSON, adjacency, change=several(DROP, 2), grouped=grouped, rate=0.1)
    SharedSample(Sampling.POISSON, AR, change=several(DROP, 2), grouped=False, rate=0.1)


def test_rates_and_sizes_are_numbers():
    for rate in ("0.1", math.nan, 0, 1.5, True, None):
        with pytest.raises(ParameterError, match="rate"):
            SharedSample(Sampling.POISSON, RO, change=SWAP, grouped=True, rate=rate)
    for size, population in ((1.5, 10), ("1", 10), (11, 10), (1, "10"), (1, 0), (True, 10)):
        with pytest.raises(ParameterError):
            SharedSample(Sampling.WITHOUT_REPLACEMENT, RO, change=SWAP, grouped=True, size=size, population=population)
    for event in (
        PoissonSampledDpEvent("0.1", BoundedRange(0.1)),
        SampledWithoutReplacementDpEvent(10.0, 0.5, BoundedRange(0.1)),
    ):
        with pytest.raises(ParameterError):
            RdpAccountant(RO).compose(event)


def test_samples_too_many_to_compose_are_refused_unless_another_bound_is_known():
    gaussian = PoissonSampledDpEvent(0.01, GaussianDpEvent(10.0))
    with pytest.raises(ParameterError, match="number of releases"):
        report(gaussian, 10**8)
    accountant = RdpAccountant(AR)
    for kind in range(30):
        accountant.compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(10.0 + kind)))
    with pytest.raises(ParameterError, match="30 kinds"):
        accountant.report(1e-6)
    assert math.isfinite(report(PoissonSampledDpEvent(0.01, BoundedRange(0.1)), 10**8).epsilon)


@pytest.mark.slow
def test_a_negligible_sampled_release_still_counts_at_a_tiny_delta():
    # The noise's delta is below the grid's own tail, but a hundred of them are not nothing at any delta.
    event = PoissonSampledDpEvent(0.5, GaussianDpEvent(1e17))
    assert delta_of_plan([SelfComposedDpEvent(event, 100)], 0.0, AR) >= 0.5 * 1e-17 * math.sqrt(100 / 6.2832)


@pytest.mark.parametrize(
    "make",
    [
        AboveThreshold,
        Exponential,
        Laplace,
        LaplaceNoisyMax,
        PermuteAndFlip,
        lambda e: JointTopK(e, 2),
        lambda e: OneShotTopK(e, 2),
    ],
)
def test_an_epsilon_given_as_text_is_stored_as_the_number_it_is(make):
    for epsilon in ("0.5", Fraction(1, 2), np.float64(0.5)):
        assert make(epsilon) == make(0.5)
        assert type(make(epsilon).epsilon) is float
        assert report(make(epsilon).event).epsilon == report(make(0.5).event).epsilon


def test_calibration_of_extremes_refuses_or_answers():
    assert base_of_sampled(800.0, 1e-6, 0.5)[0] == pytest.approx(800 + math.log(2), abs=1e-5)
    with pytest.raises(ParameterError, match="units"):
        epsilon_delta_of_group(1.0, 1e-6, 1.5)


@pytest.mark.cases(1)
@pytest.mark.parametrize("multiplier", [2e14, 1e12, 1e9, 1e7, 5e15])
@pytest.mark.parametrize("delta", [1e-15, 1e-13, 1e-12, 1e-50])
def test_a_little_gaussian_noise_less_costs_no_less_than_its_profile_in_many_digits(multiplier, delta):
    # Two tails that are nearly the same were subtracted in floating point: 10 % too low at 2e14 and 1e-15.
    with mpmath.workdps(60):
        mu, epsilon = 1 / mpmath.mpf(multiplier), mpmath.mpf(report(GaussianDpEvent(multiplier), delta=delta).epsilon)
        ends = [mpmath.erfc((epsilon / mu + sign * mu / 2) / mpmath.sqrt(2)) / 2 for sign in (-1, 1)]
        assert ends[0] - mpmath.exp(epsilon) * ends[1] <= mpmath.mpf(delta)


@pytest.mark.cases(2)
@pytest.mark.parametrize("event", [BoundedRange(1e-165), PureDP(1e-165), GaussianDpEvent(1e165)])
def test_a_release_whose_square_is_no_number_is_not_free(event):
    found = report(event, delta=1e-180)
    assert min(bound for bound in found.bounds.values() if bound is not None) > 0
    assert min(rho_of_pure(1e-170), rho_of_bounded_range(1e-170)) > rho_of_pure(0.0) == rho_of_bounded_range(0.0) == 0


@pytest.mark.cases(2)
@pytest.mark.parametrize("epsilon", [1e-9, 1e-12, 1e-14])
@pytest.mark.parametrize("rate", [None, 0.1])
def test_many_releases_that_are_too_flat_for_a_grid_have_the_other_bounds(epsilon, rate):
    # Rounding made up their masses, which grew beyond all numbers, and an index was out of range.
    count, event = 2049, PureDP(epsilon) if rate is None else PoissonSampledDpEvent(rate, PureDP(epsilon))
    found = report(event, count, adjacency=AR)
    least = count * math.log1p((rate or 1.0) * math.expm1(epsilon))
    assert 0 <= found.epsilon <= least * (1 + 1e-6)
    assert epsilon_of_plan([SelfComposedDpEvent(event, count)], 0.0, AR) >= least


@pytest.mark.cases(2)
@pytest.mark.parametrize("base", [PureDP, BoundedRange])
@pytest.mark.parametrize(("epsilon", "count"), [(1e-9, 3000), (1e-10, 3000), (1e-12, 10), (1e-12, 3000)])
def test_a_sample_of_several_releases_too_small_for_a_grid_is_not_free(base, epsilon, count):
    # Where the rounding of the base's losses hid all of them it reached to 0, and was left out: epsilon 0.
    event = PoissonSampledDpEvent(0.5, SelfComposedDpEvent(base(epsilon), count))
    assert epsilon_of_plan([event], 0.0, AR) >= count * epsilon / 2
    assert report(event, delta=1e-13, adjacency=AR).epsilon > 0
    swapped = SampledWithoutReplacementDpEvent(10, 5, SelfComposedDpEvent(base(epsilon), count))
    assert report(swapped, delta=1e-13).epsilon > 0


@pytest.mark.cases(2)
@pytest.mark.parametrize("fails", [ApproximateDP(0.0, 0.1), WithFailure(BoundedRange(0.0), 0.1)])
@pytest.mark.parametrize("adjacency", [AR, RO])
def test_a_sample_of_what_can_only_fail_is_not_free(fails, adjacency):
    # Its losses reach to 0, and what reaches to 0 was left out: epsilon 0 at delta 1e-6, where delta is 0.05.
    event = PoissonSampledDpEvent(0.5, fails)
    assert delta_of_plan([event], 0.5, adjacency) >= 0.05
    assert epsilon_of_plan([event], 0.049, adjacency) == math.inf
    assert epsilon_of_plan([event, PureDP(1.0)], 0.04, adjacency) == math.inf
    assert 1 <= epsilon_of_plan([event, PureDP(1.0)], 0.0501, adjacency) < 1.01


@pytest.mark.parametrize(
    ("epsilon", "rate"), [(40.0, 1e-34), (35.0, 1e-30), (30.5, 1e-22), (744.104, 5e-324), (31.0, 0.3), (900.0, 0.5)]
)
def test_a_pure_sample_costs_no_less_than_in_many_digits(epsilon, rate):
    with mpmath.workdps(400):
        exact = mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(mpmath.mpf(epsilon)))
        found = report(PoissonSampledDpEvent(rate, PureDP(epsilon)), delta=0.0, adjacency=AR).epsilon
        assert exact <= found <= exact * (1 + 1e-8)
