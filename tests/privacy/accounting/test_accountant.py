"""The accountant against the specification's tables, and against dp_accounting where both know the event."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.privacy_accountant import NeighboringRelation

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.privacy.accounting import accountant as acc
from sottovoce.privacy.accounting.adaptive_composition import optimal_epsilon
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
    describe,
    is_private,
)
from sottovoce.privacy.unit import CHANGE_TYPES, Adjacency, Assignment, change_type

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT


def test_o1_profile_of_bounded_range():
    assert acc.delta_of_bounded_range(0.5, 1.0) == pytest.approx(0.077405, abs=1e-6)
    assert acc.delta_of_bounded_range(1.0, 1.0) == 0
    assert acc.delta_of_bounded_range(-2.0, 1.0) == pytest.approx(1 - math.exp(-2))


def test_o2_rho_of_bounded_range():
    expected = {0.5: 0.03114209, 1.0: 0.12330156, 2.0: 0.47447465, 4.0: 1.66984963}
    for eta, rho in expected.items():
        assert acc.rho_of_bounded_range(eta) == pytest.approx(rho, abs=1e-8)


def test_rho_never_exceeds_an_eighth_of_eta_squared_and_meets_it_for_small_eta():
    for eta in np.geomspace(1e-8, 900, 400):
        assert acc.rho_of_bounded_range(float(eta)) <= eta * eta / 8 * (1 + 1e-12)
    assert acc.rho_of_bounded_range(0.010001) == pytest.approx(0.010001**2 / 8, rel=1e-4)


def test_pure_events_cost_more_than_bounded_range_ones():
    # T7: .4621 for pure, .1233 for bounded range at 1.
    assert acc.rho_of_pure(1.0) == pytest.approx(0.4621, abs=1e-4)
    assert (acc.rdp_of_pure(1.0) >= acc.rdp_of_bounded_range(1.0) - 1e-15).all()


# Section 3's comparison at delta 1e-5: basic, advanced, zCDP short, zCDP, RDP, dominating pair, optimal, and its grid.
TABLE = [
    (0.1, 100, (10, 5.850, 2.524, 2.166, 2.152, 2.323, 2.050), 40),
    (0.5, 10, (5, 10.83, 4.106, 3.617, 3.336, 3.519, 3.350), 40),
    (0.3, 50, (15, 15.43, 5.652, 5.060, 4.976, 5.418, 4.808), 40),
    (0.05, 400, (20, 5.824, 2.524, 2.166, 2.162, 2.341, 2.105), 20),
]


def by_buckets(eta, steps, delta, cells=4000):
    """T5's dominating pair the slow way: every loss rounded up to its cell's edge, then one long convolution."""
    edges = np.linspace(-eta, eta, cells + 1)
    mass = np.diff((np.exp((edges - eta) / 2) - np.exp(-eta)) / (1 - np.exp(-eta)))
    size = 1 << math.ceil(math.log2(cells * steps + 1))
    total = np.fft.irfft(np.fft.rfft(mass, size) ** steps, size)[: (cells - 1) * steps + 1]
    losses = steps * edges[1] + (edges[1] - edges[0]) * np.arange(len(total))
    low, high = 0.0, steps * eta
    for _ in range(60):
        middle = (low + high) / 2
        above = losses > middle
        fits = total[above] @ -np.expm1(middle - losses[above]) <= delta
        low, high = (low, middle) if fits else (middle, high)
    return high


@pytest.mark.cases(1)
@pytest.mark.parametrize(("eta", "steps", "printed", "grid"), TABLE)
def test_the_specifications_composition_table(eta, steps, printed, grid):
    basic, advanced, short, zcdp, renyi, pair, optimal = printed
    delta = 1e-5
    root = eta * math.sqrt(2 * steps * math.log(1 / delta))
    rho = steps * eta**2 / 8  # the table's zCDP columns charge this; rho_BR is a little smaller
    names = ["pure", "RDP", "zCDP", "optimal", "PLD"]
    bounds = acc.RdpAccountant(RO).compose(BoundedRange(eta), steps).report(delta, names).bounds
    assert bounds["pure"] == basic
    assert root + steps * eta * math.expm1(eta) == pytest.approx(advanced, abs=6e-3)
    assert rho + 2 * math.sqrt(rho * math.log(1 / delta)) == pytest.approx(short, abs=6e-4)
    assert acc.epsilon_of_rho(rho, delta) == pytest.approx(zcdp, abs=6e-4)
    assert zcdp - 0.01 <= bounds["zCDP"] <= zcdp + 1e-3
    assert bounds["RDP"] == pytest.approx(renyi, abs=6e-4)
    # The printed pair column is the bucket method's, which rounds losses up; connected dots are a little closer.
    assert by_buckets(eta, steps, delta) == pytest.approx(pair, abs=6e-4)
    assert pair - 0.006 <= bounds["PLD"] <= pair
    # And the printed optimum is that of its grid; a report takes a finer one where it can.
    assert optimal_epsilon(eta, steps, delta, grid).upper == pytest.approx(optimal, abs=6e-4)
    assert optimal_epsilon(eta, steps, delta, grid).lower <= bounds["optimal"] <= optimal
    assert max(bounds["RDP"], bounds["PLD"]) < min(basic, advanced, short)


def test_closed_form_divergence_is_attained_by_a_two_point_law_and_never_exceeded():
    # T2's extremal laws: loss t with probability p_t, else t - eta. Brute force over t.
    eta = 0.8
    t = np.linspace(1e-9, eta - 1e-9, 20_001)
    p = (1 - np.exp(t - eta)) / (1 - np.exp(-eta))
    for order in (1.5, 2.0, 8.0, 64.0):
        brute = np.log(p * np.exp((order - 1) * t) + (1 - p) * np.exp((order - 1) * (t - eta))).max() / (order - 1)
        ours = float(acc.rdp_of_bounded_range(eta, np.array([order]))[0])
        assert brute <= ours + 1e-12
        assert ours == pytest.approx(brute, rel=1e-6)


def test_zcdp_totals_agree_with_dp_accounting():
    event = SelfComposedDpEvent(ZCDpEvent(0.01), 40)
    theirs = rdp.RdpAccountant(list(acc.ALPHAS[::10]), NeighboringRelation.REPLACE_ONE)
    theirs.compose(event)
    ours = acc.RdpAccountant(RO).compose(event).report(1e-6).epsilon
    assert ours == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-3)  # their grid here is a tenth of ours
    assert ours <= theirs.get_epsilon(1e-6) + 1e-9


def test_a_budget_and_its_rho_are_inverse_on_the_safe_side():
    for epsilon, delta in [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-6), (50.0, 1e-10)]:
        rho = acc.rho_of_budget(epsilon, delta)
        assert acc.epsilon_of_rho(rho, delta) <= epsilon
        assert acc.epsilon_of_rho(rho * 1.0001, delta) > epsilon


def test_a_report_is_the_least_valid_bound_and_says_its_adjacency():
    one = acc.RdpAccountant(RO, "patient").compose(BoundedRange(1.0)).report(1e-6)
    assert one.epsilon == min(one.bounds.values()) < 1.0  # a delta buys a little even for one release
    assert acc.RdpAccountant(RO).compose(BoundedRange(1.0)).report(0.0).bound == "pure"
    assert "replace-one" in str(one)
    assert "patient" in str(one)
    assert acc.RdpAccountant(RO).compose(BoundedRange(0.1), 1_000).report(1e-6).bound == "RDP"
    assert acc.RdpAccountant(RO).compose(ZCDpEvent(0.1)).report(0.0).epsilon == math.inf


def test_more_steps_or_a_larger_eta_never_cost_less():
    def total(eta, steps):
        return acc.RdpAccountant(RO).compose(BoundedRange(eta), steps).report(1e-6).epsilon

    assert total(0.1, 10) <= total(0.1, 11) <= total(0.11, 11)


def test_composed_events_cost_what_their_parts_cost():
    parts = [BoundedRange(0.2), PureDP(0.1), ZCDpEvent(0.01), NoOpDpEvent()]
    together = acc.RdpAccountant(RO).compose(ComposedDpEvent(parts)).report(1e-6)
    apart = acc.accumulate(parts, RO).report(1e-6)
    assert together.epsilon == pytest.approx(apart.epsilon)


def test_an_event_nobody_taught_is_refused_by_name():
    class Unheard(DpEvent):
        pass

    with pytest.raises(ParameterError, match="Unheard"):
        acc.cost_of(Unheard())
    with pytest.raises(ParameterError, match="ZCDpEvent"):
        acc.cost_of(ZCDpEvent(0.1, xi=0.5))


def test_non_private_events_cost_everything():
    event = ComposedDpEvent([BoundedRange(0.1), NonPrivateDpEvent()])
    assert not is_private(event)
    assert acc.RdpAccountant(RO).compose(event).report(1e-6).epsilon == math.inf
    assert describe(SelfComposedDpEvent(BoundedRange(0.1), 3)) == "3 x BoundedRange(eta=0.1)"


def test_table_2_2_is_the_specifications():
    # Written out again by hand: widths by (assignment, adjacency); absent means refused.
    ar, ro, zo = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
    expected = {
        Assignment.OWN_SLOT: {ar: 1, ro: 2, zo: 1},
        Assignment.STABLE_ID: {ar: 2, ro: 2, zo: 2},
        Assignment.CONTENT: {ar: 2, ro: 4, zo: 2},
        Assignment.CHUNKS: {ro: 2, zo: 2},
        Assignment.RETRIEVED: {ar: 2, ro: 2, zo: 2},
        Assignment.RETRIEVED_GROUPS: {},
    }
    found = {row: {a: c.widths for (r, a), c in CHANGE_TYPES.items() if r is row} for row in Assignment}
    assert found == expected
    with pytest.raises(AssignmentError, match="add-remove"):
        change_type(Assignment.CHUNKS, ar)
    with pytest.raises(AssignmentError):
        change_type(Assignment.RETRIEVED_GROUPS, ro)


def test_closed_forms_lose_less_than_the_stated_margin_to_rounding():
    # T4 and T7 against the same formulas with 60 digits.
    mpmath.mp.dps = 60
    orders = [1.001, 1.1, 2.0, 17.5, 1e3, 1e6]
    for x in [1e-6, 1e-4, 0.01, 0.3, 2.0, 30.0]:
        selection = acc.rdp_of_bounded_range(x, np.array(orders))
        pure = acc.rdp_of_pure(x, np.array(orders))
        for order, found, of_pure in zip(orders, selection, pure, strict=True):
            a, eta = mpmath.mpf(order), mpmath.mpf(x)
            m = mpmath.e ** (-(a - 1) * eta)
            k = (1 - m) / (1 - mpmath.e**-eta)
            s = min(max((a - 1) * (k + m) * mpmath.e**eta / (a * k), 1), mpmath.e**eta)
            exact = mpmath.log(s) + mpmath.log((k + m) - k * mpmath.e**-eta * s) / (a - 1)
            assert found >= exact * (1 - mpmath.mpf("5e-10"))
            p, q = 1 / (1 + mpmath.e**-eta), 1 / (1 + mpmath.e**eta)
            exact = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
            assert of_pure >= exact * (1 - mpmath.mpf("5e-10"))


def test_o12_a_single_failure_that_excludes_the_loss_costs_the_larger_delta_not_the_sum():
    ptr = WithFailure(GaussianDpEvent(2.0), 1e-6, exclusive=True)
    assert acc.RdpAccountant(RO).compose(ptr).report(1e-5).epsilon == pytest.approx(1.9930, abs=1e-3)
    # Not exclusive, or twice: the failures are taken off delta first. 2.0057 is GDP(1/2) at 9e-6.
    plain = WithFailure(GaussianDpEvent(2.0), 1e-6)
    assert acc.RdpAccountant(RO).compose(plain).report(1e-5).bounds["GDP"] == pytest.approx(2.0057, abs=1e-4)
    twice = acc.RdpAccountant(RO).compose(ptr, 2).report(1e-5).bounds["GDP"]
    alone = acc.RdpAccountant(RO).compose(GaussianDpEvent(math.sqrt(2))).report(8e-6).bounds["GDP"]
    assert twice == pytest.approx(alone, rel=1e-9)


def test_failures_that_use_delta_up_leave_only_what_needs_none():
    point = ApproximateDP(0.5, 1e-6)
    once = acc.RdpAccountant(RO).compose(point).report(1e-6)
    assert (once.epsilon, once.bound) == (0.5, "pure")
    assert acc.RdpAccountant(RO).compose(point, 10).report(1e-5).epsilon == 5.0
    assert acc.RdpAccountant(RO).compose(point, 11).report(1e-5).epsilon == math.inf
    assert acc.RdpAccountant(RO).compose(WithFailure(ZCDpEvent(0.1), 1e-5)).report(1e-5).epsilon == math.inf
    assert (
        acc.RdpAccountant(RO).compose(WithFailure(ZCDpEvent(0.1), 1e-5, exclusive=True)).report(9e-6).epsilon
        == math.inf
    )


def test_o19_threshold_and_selection_rhos_of_public_token_decoding():
    # c = 10, s = 255, tau = 2, sigma_t = .2: (c/(s tau))^2/2 and eps^2/2 as published, ours a little below.
    selection, threshold = 2 * 10 / (255 * 2.0), 2 / (255 * 0.2)
    assert selection**2 / 8 == pytest.approx(0.00019223, abs=1e-8)
    assert threshold**2 / 2 == pytest.approx(0.00076894, abs=1e-8)
    assert acc.rho_of_bounded_range(selection) <= selection**2 / 8
    assert acc.rho_of_pure(threshold) <= threshold**2 / 2
    for widths, total in ((1, 1.873), (2, 4.068)):
        plan = [BoundedRange(widths * selection), PureDP(widths * threshold)]
        bounds = acc.RdpAccountant(AR).compose(ComposedDpEvent(plan), 100).report(1e-5).bounds
        assert bounds["zCDP"] == pytest.approx(total, abs=1e-3)


def test_o20_difference_clipping():
    eta = 2 * 1.0 / (8 * 1.0)
    assert 200 * eta**2 / 8 == 1.5625
    assert acc.epsilon_of_rho(1.5625, 1e-5) == pytest.approx(9.234, abs=1e-3)
    renyi = [acc.RdpAccountant(AR).compose(BoundedRange(k * eta), 200).report(1e-5).bounds["RDP"] for k in (1, 2)]
    assert renyi == [pytest.approx(9.185, abs=1e-3), pytest.approx(21.82, abs=6e-3)]


def test_label_partitions_section_5_10():
    totals = [(100, 0.0384, 0.760), (100, 0.0768, 1.618), (200, 0.0384, 1.108)]
    for steps, eta, expected in totals:
        bounds = acc.RdpAccountant(AR).compose(BoundedRange(eta), steps).report(1e-5).bounds
        assert bounds["zCDP"] == pytest.approx(expected, abs=1e-3)


def test_a_report_lists_the_bounds_that_are_valid_and_no_other():
    def names(*events, delta=1e-6):
        return set(acc.accumulate(events, AR).report(delta).bounds)

    assert names(BoundedRange(0.1), BoundedRange(0.1)) == {"pure", "RDP", "zCDP", "optimal"}
    assert names(GaussianDpEvent(3.0), GaussianDpEvent(4.0)) == {"RDP", "zCDP", "GDP", "PLD"}
    assert names(ZCDpEvent(0.1), BoundedRange(0.1)) == {"RDP", "zCDP"}
    assert names(PureDP(0.1), BoundedRange(0.1)) == {"pure", "RDP", "zCDP", "PLD"}
    assert names(PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))) == {"amplified", "PLD"}
    assert names(PoissonSampledDpEvent(0.1, ZCDpEvent(0.1))) == {"amplified"}
    assert names(PoissonSampledDpEvent(0.1, PureDP(1.0)), PureDP(1.0)) == {"pure", "RDP", "zCDP", "PLD"}
    assert names(BoundedRange(0.1), delta=0.0) == {"pure"}
    assert names(ZCDpEvent(0.1), delta=0.0) == {"none"}
    with pytest.raises(ParameterError, match="bounds"):
        acc.RdpAccountant(AR).compose(PureDP(0.1)).report(1e-6, ["Renyi"])
    with pytest.raises(ParameterError, match="delta"):
        acc.RdpAccountant(AR).report(1.0)


def test_the_bounds_agree_where_two_are_exact():
    gaussians = acc.RdpAccountant(AR).compose(GaussianDpEvent(10.0), 100).report(1e-5)
    assert gaussians.bounds["GDP"] == pytest.approx(4.3772, abs=1e-4)  # mu = 1
    assert gaussians.bounds["PLD"] == pytest.approx(gaussians.bounds["GDP"], rel=1e-4)
    assert gaussians.bounds["PLD"] >= gaussians.bounds["GDP"] * (1 - 1e-9)
    # Kairouz, Oh and Viswanath: the best total of two pure releases at delta has a closed form.
    e, delta = 0.5, 1e-3
    p = 1 / (1 + math.exp(-e))
    best = min(x for x in np.linspace(0, 1, 100_001) if p * p - math.exp(x) * (1 - p) ** 2 <= delta)
    pure = acc.RdpAccountant(AR).compose(PureDP(e), 2).report(delta, ["PLD"])
    assert pure.epsilon == pytest.approx(best, abs=1e-4)


def test_sampled_events_are_held_to_the_adjacency_of_their_sampling():
    poisson, without = PoissonSampledDpEvent(0.1, PureDP(1.0)), SampledWithoutReplacementDpEvent(10, 1, PureDP(1.0))
    for event, adjacency in ((without, AR), (without, ZO), (poisson, ZO)):
        for wrapped in (event, SelfComposedDpEvent(event, 3), WithFailure(event, 1e-9)):
            with pytest.raises(AssignmentError, match=type(event).__name__):
                acc.RdpAccountant(adjacency).compose(wrapped)
    for event, adjacency in ((poisson, AR), (poisson, RO), (without, RO)):
        report = acc.RdpAccountant(adjacency).compose(event).report(0.0)
        assert report.epsilon == pytest.approx(math.log1p(0.1 * math.expm1(1.0)), rel=1e-8)
        assert report.epsilon >= math.log1p(0.1 * math.expm1(1.0))
    with pytest.raises(ParameterError, match="point_of"):
        acc.cost_of(poisson)
    with pytest.raises(ParameterError, match="sampled once"):
        acc.RdpAccountant(AR).compose(PoissonSampledDpEvent(0.5, SelfComposedDpEvent(poisson, 2)))


def test_parameters_out_of_range_are_refused_by_name():
    wrong = [
        (BoundedRange(-0.1), "eta"),
        (BoundedRange(math.nan), "eta"),
        (PureDP(math.inf), "epsilon"),
        (ApproximateDP(0.1, 1.5), "delta"),
        (WithFailure(PureDP(0.1), -1e-9), "delta"),
        (ZCDpEvent(-1.0), "rho"),
        (GaussianDpEvent(-1.0), "noise_multiplier"),
        (PoissonSampledDpEvent(1.1, PureDP(1.0)), "sampling_probability"),
        (SampledWithoutReplacementDpEvent(10, 11, PureDP(1.0)), "sample_size"),
        (SelfComposedDpEvent(PureDP(1.0), -1), "count"),
    ]
    for event, name in wrong:
        with pytest.raises(ParameterError, match=name):
            acc.RdpAccountant(RO).compose(event)
    assert acc.RdpAccountant(RO).compose(GaussianDpEvent(0.0)).report(1e-6).epsilon == math.inf


def test_a_nested_history_costs_what_its_events_cost_in_any_order():
    nested = ComposedDpEvent(
        [
            SelfComposedDpEvent(ComposedDpEvent([BoundedRange(0.1), PureDP(0.2)]), 3),
            WithFailure(SelfComposedDpEvent(BoundedRange(0.1), 2), 1e-8),
            NoOpDpEvent(),
        ]
    )
    flat = [PureDP(0.2)] * 3 + [BoundedRange(0.1)] * 5 + [WithFailure(NoOpDpEvent(), 1e-8)]
    assert acc.RdpAccountant(RO).compose(nested).report(1e-6).bounds == pytest.approx(
        acc.accumulate(reversed(flat), RO).report(1e-6).bounds
    )


@pytest.mark.slow
def test_p3_reports_grow_with_steps_and_eta_and_replacement_costs_no_less_than_presence():
    def total(eta, steps):
        return acc.RdpAccountant(RO).compose(BoundedRange(eta), steps).report(1e-6).epsilon

    by_steps = [total(0.1, steps) for steps in (1, 2, 3, 10, 100, 3000)]
    by_eta = [total(eta, 50) for eta in np.geomspace(1e-3, 5, 12)]
    assert by_steps == sorted(by_steps)
    assert by_eta == sorted(by_eta)
    for sigma, rate, count in ((1.0, 0.1, 20), (2.0, 0.3, 5)):
        event = PoissonSampledDpEvent(rate, GaussianDpEvent(sigma))
        by_relation = [
            acc.RdpAccountant(adjacency).compose(event, count).report(1e-6).epsilon for adjacency in (AR, RO)
        ]
        assert by_relation[0] <= by_relation[1]


@pytest.mark.slow
def test_ten_thousand_equal_steps_are_priced_at_once(capsys):
    for event in (BoundedRange(0.01), GaussianDpEvent(100.0), PureDP(0.01)):
        start = time.process_time()
        acc.RdpAccountant(RO).compose(SelfComposedDpEvent(event, 10_000)).report(1e-6)
        seconds = time.process_time() - start
        with capsys.disabled():
            print(f"\n10,000 x {describe(event)}: {seconds:.3f} s", end="")
        assert seconds < 5  # 0.4 s on one idle core


@pytest.mark.slow
def test_a_history_of_two_hundred_thousand_events_is_counted_before_it_is_priced():
    history = [BoundedRange(0.001 * (1 + i % 5)) for i in range(200_000)]
    report = acc.accumulate(history, RO).report(1e-6)
    apart = acc.RdpAccountant(RO)
    for i in range(1, 6):
        apart.compose(BoundedRange(0.001 * i), 40_000)
    assert report == apart.report(1e-6)


def test_the_rounding_of_loss_distributions_grows_with_how_many_are_composed_and_no_other_does():
    # 19,200 sampled releases at delta 1e-7 were apart by 2.0e-5 of their price, with AVX-512 and without it.
    def report(releases, event, delta=1e-7):
        return acc.RdpAccountant(AR).compose(event, releases).report(delta)

    sampled = PoissonSampledDpEvent(0.1, PureDP(0.01))
    assert [report(count, sampled).releases for count in (1, 64)] == [1, 64]
    long = acc.Report(1.0, 1e-7, AR, "record", "PLD", {}, releases=19_200)
    assert long.rounding > 2 * 2.0e-5 > 20 * replace(long, releases=64).rounding
    assert replace(long, delta=1e-12).rounding == 1e-3
    assert replace(long, bound="zCDP").rounding == acc.FLOAT_MARGIN
    for apart, near in ((0.5, True), (2.0, False)):  # another processor takes the other bound
        close = replace(long, bound="pure", bounds={"pure": 1.0, "PLD": 1 + apart * long.rounding})
        assert (close.rounding == long.rounding) is near


@pytest.mark.parametrize("stated", [4 - 2.9e-6, 4 + 2.9e-6])
def test_a_price_beside_another_says_how_far_apart_they_are_where_that_is_taken_for_rounding(stated):
    report = acc.Report(4.0, 1e-8, AR, "record", "PLD", {})
    told = "epsilon 4 by PLD; the stated one differs by 7.3e-07 of it, and processors may round apart by 3e-06 of it"
    assert report.beside(stated) == told
    for other in (4.0, 4 - 3e-5, 4 + 3e-5, math.inf):
        assert report.beside(other) == "epsilon 4 by PLD"
    assert replace(report, epsilon=math.inf).beside(4.0) == "epsilon inf by PLD"
    assert replace(report, epsilon=math.inf).beside(math.inf) == "epsilon inf by PLD"
    assert replace(report, epsilon=0.0, delta=0.0).beside(0.0) == "epsilon 0 by PLD"
    assert "apart by 1e-09 of it" in replace(report, bound="zCDP").beside(4 - 3e-9)
