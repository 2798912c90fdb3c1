"""The accountant against the specification's tables, and against dp_accounting where both know the event."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.privacy_accountant import NeighboringRelation

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.privacy import accountant as acc
from sottovoce.privacy.events import (
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PureDP,
    SelfComposedDpEvent,
    ZCDpEvent,
    describe,
    is_private,
)
from sottovoce.privacy.unit import CHANGE_TYPES, Adjacency, Assignment, change_type

RO = Adjacency.REPLACE_ONE


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


@pytest.mark.parametrize(
    ("eta", "steps", "zcdp", "renyi"),
    [(0.1, 100, 2.166, 2.152), (0.5, 10, 3.617, 3.336), (0.3, 50, 5.060, 4.976), (0.05, 400, 2.166, 2.162)],
)
def test_the_specifications_composition_table(eta, steps, zcdp, renyi):
    # The table charges eta^2/8 in its zCDP column; rho_BR is a little smaller.
    bounds = acc.RdpAccountant(RO).compose(BoundedRange(eta), steps).report(1e-5).bounds
    assert bounds["RDP"] == pytest.approx(renyi, abs=1e-3)
    assert zcdp - 0.01 <= bounds["zCDP"] <= zcdp + 1e-3
    assert bounds["pure"] == pytest.approx(eta * steps)


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
        acc.charge_of(Unheard())
    with pytest.raises(ParameterError, match="ZCDpEvent"):
        acc.charge_of(ZCDpEvent(0.1, xi=0.5))


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
