"""Our prices against other people's accountants, wherever both know the event."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism, pld, rdp
from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.privacy_accountant import NeighboringRelation

from sottovoce.privacy.accounting.accountant import ALPHAS, RdpAccountant, epsilon_of_rho
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu
from sottovoce.privacy.accounting.groups import scaled_to_group
from sottovoce.privacy.accounting.profiles import delta_of_plan, epsilon_of_plan
from sottovoce.privacy.events import (
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from sottovoce.privacy.unit import Adjacency

dp = pytest.importorskip("opendp.prelude", reason="opendp is a development requirement")
dp.enable_features("contrib")
AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
RELATIONS = {AR: NeighboringRelation.ADD_OR_REMOVE_ONE, RO: NeighboringRelation.REPLACE_ONE}


def theirs(events, delta, adjacency, accountant):
    made = accountant(RELATIONS[adjacency])
    for event in events:
        made.compose(event)
    return made.get_epsilon(delta)


def renyi_accountant(relation):
    return rdp.RdpAccountant(list(ALPHAS[::10]), relation)


def small_orders(relation):
    return rdp.RdpAccountant([1 + x / 4 for x in range(1, 20)] + list(range(6, 64)), relation)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_gaussians_agree_with_dp_accountings_closed_form(delta):
    for sigma in (0.5, 1.0, 4.0, 30.0):
        assert epsilon_of_mu(1 / sigma, delta) == pytest.approx(
            gaussian_mechanism.get_epsilon_gaussian(sigma, delta), abs=1e-7
        )


@pytest.mark.cases(1)
@pytest.mark.parametrize(("rate", "sigma", "count"), [(0.1, 1.0, 30), (0.02, 0.8, 100)])
def test_poisson_gaussians_agree_with_dp_accountings_loss_distributions(rate, sigma, count):
    events = [SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)), count)]
    reference = pld.PLDAccountant(RELATIONS[AR], value_discretization_interval=1e-3).compose(events[0])
    renyi = small_orders(RELATIONS[AR]).compose(events[0])
    for delta in (1e-7, 1e-5):
        ours = epsilon_of_plan(events, delta, AR)
        assert ours == pytest.approx(reference.get_epsilon(delta), rel=1e-3)
        assert ours <= renyi.get_epsilon(delta)


def test_under_replacement_our_base_is_the_swap_and_theirs_is_a_sum():
    def both(sigma_of_swap, sigma_of_presence, count, delta):
        sampled = [PoissonSampledDpEvent(0.1, GaussianDpEvent(sigma)) for sigma in (sigma_of_swap, sigma_of_presence)]
        reference = pld.PLDAccountant(RELATIONS[RO], value_discretization_interval=1e-3)
        reference.compose(SelfComposedDpEvent(sampled[1], count))
        return epsilon_of_plan([SelfComposedDpEvent(sampled[0], count)], delta, RO), reference.get_epsilon(delta)

    # A sum that presence moves by 1 and replacement by 2: their dedicated pair is closer, ours valid.
    ours, reference = both(2.0, 4.0, 30, 1e-6)
    assert reference < ours < 1.5 * reference
    # Prediction by subsampling, where replacement moves a probability vector no further than presence: ours is.
    ours, reference = both(math.sqrt(2), math.sqrt(2), 100, 1e-5)
    assert ours == pytest.approx(4.270, abs=2e-3)
    assert reference == pytest.approx(6.618, abs=5e-3)


def test_a_mixed_plan_agrees_with_dp_accountings_loss_distributions():
    interval = 1e-4
    response = distributions.from_privacy_parameters(
        pld.common.DifferentialPrivacyParameters(0.1, 0.0), value_discretization_interval=interval
    )
    gaussian = distributions.from_gaussian_mechanism(2.0, value_discretization_interval=interval)
    reference = response.self_compose(20).compose(gaussian)
    plan = [SelfComposedDpEvent(PureDP(0.1), 20), GaussianDpEvent(2.0)]
    for delta in (1e-8, 1e-5, 1e-2):
        assert epsilon_of_plan(plan, delta, AR) == pytest.approx(reference.get_epsilon_for_delta(delta), rel=2e-3)
    assert delta_of_plan(plan, 2.0, AR) == pytest.approx(reference.get_delta_for_epsilon(2.0), rel=5e-3)


@pytest.mark.slow
def test_samples_without_replacement_stay_below_dp_accountings_renyi_bound():
    event = SampledWithoutReplacementDpEvent(2600, 400, GaussianDpEvent(1.0))
    for count in (1, 10):
        events = [SelfComposedDpEvent(event, count)]
        assert epsilon_of_plan(events, 1e-5, RO) < theirs(events, 1e-5, RO, small_orders)
    assert theirs([event], 1e-5, RO, small_orders) == pytest.approx(2.7229, abs=0.02)


def test_renyi_totals_agree_with_dp_accountings():
    events = [SelfComposedDpEvent(GaussianDpEvent(8.0), 30), SelfComposedDpEvent(ZCDpEvent(0.01), 12)]
    ours = RdpAccountant(AR).compose(ComposedDpEvent(events)).report(1e-6, ["RDP", "zCDP"])
    reference = theirs(events, 1e-6, AR, renyi_accountant)
    assert ours.bounds["RDP"] == pytest.approx(reference, rel=1e-3)
    assert ours.bounds["RDP"] <= reference + 1e-9
    assert ours.bounds["zCDP"] == pytest.approx(ours.bounds["RDP"], rel=1e-12)


def test_zcdp_conversion_agrees_with_opendps():
    for scale in (0.7, 2.0, 9.0):
        gaussian = dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=scale)
        rho = gaussian.map(1.0)
        assert rho == pytest.approx(1 / (2 * scale**2))
        profile = dp.c.make_zCDP_to_approxDP(gaussian).map(1.0)
        for delta in (1e-9, 1e-6, 1e-3):
            reference = profile.epsilon(delta)
            assert reference * (1 - 1e-9) <= epsilon_of_rho(rho, delta) <= reference * (1 + 1e-5)
        # Groups: k units move the sum by k.
        for units in (2, 5):
            assert scaled_to_group(ZCDpEvent(rho), units).rho == pytest.approx(gaussian.map(float(units)))


def test_pure_prices_agree_with_opendps():
    laplace = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=2.0)
    for units in (1, 3):
        assert scaled_to_group(PureDP(0.5), units).epsilon == pytest.approx(laplace.map(units))
    # Their pure-to-zCDP map is the older eps^2/2; ours is below it.
    theirs_rho = dp.c.make_pureDP_to_zCDP(laplace).map(1)
    assert theirs_rho == pytest.approx(0.5**2 / 2)
    assert RdpAccountant(AR).compose(PureDP(0.5)).report(1e-6).bounds["zCDP"] <= epsilon_of_rho(theirs_rho, 1e-6)


def test_selections_agree_with_opendps_map():
    # Noisy max with Gumbel noise, counts that move by one either way: range 2, eta = 2/scale, rho = eta^2/8.
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    gumbel = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=4.0)
    assert gumbel.map(1) == pytest.approx(0.5**2 / 8)
    ours = RdpAccountant(AR).compose(BoundedRange(0.5), 20).report(1e-6)
    assert ours.bounds["zCDP"] <= epsilon_of_rho(20 * gumbel.map(1), 1e-6)
    assert ours.bounds["zCDP"] == pytest.approx(epsilon_of_rho(20 * gumbel.map(1), 1e-6), rel=5e-3)


def test_the_privacy_loss_of_one_randomised_response_is_dp_accountings():
    for epsilon in (0.1, 1.0, 3.0):
        reference = distributions.from_privacy_parameters(pld.common.DifferentialPrivacyParameters(epsilon, 0.0), 1e-4)
        for at in np.linspace(0.0, 0.9 * epsilon, 4):
            closed = (math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon))
            assert reference.get_delta_for_epsilon(float(at)) == pytest.approx(closed, abs=1e-4)
            assert closed * (1 - 1e-12) <= delta_of_plan([PureDP(epsilon)], float(at), RO) <= closed + 1e-4
