"""Group privacy: the specification's figures, and chains of neighbours enumerated."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.groups import epsilon_delta_of_group, scaled_to_group
from sottovoce.privacy.accounting.profiles import profile_of
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import Adjacency
from worlds import hockey_stick

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def test_section_2_6_a_user_with_several_slots():
    for slots, expected in ((1, 1.460), (2, 3.143), (4, 6.944)):
        event = SelfComposedDpEvent(scaled_to_group(BoundedRange(0.1), slots), 50)
        bounds = RdpAccountant(AR).compose(event).report(1e-5).bounds
        assert bounds["RDP"] == pytest.approx(expected, abs=1e-3)
        assert bounds["optimal"] < bounds["RDP"]


def test_every_measure_scales_as_t18_says():
    pairs = [
        (BoundedRange(0.25), BoundedRange(0.75)),
        (PureDP(0.25), PureDP(0.75)),
        (ZCDpEvent(0.5), ZCDpEvent(4.5)),
        (GaussianDpEvent(3.0), GaussianDpEvent(1.0)),
        (NoOpDpEvent(), NoOpDpEvent()),
        (NonPrivateDpEvent(), NonPrivateDpEvent()),
        (SelfComposedDpEvent(PureDP(1.0), 2), SelfComposedDpEvent(PureDP(3.0), 2)),
        (ComposedDpEvent([PureDP(1.0), ZCDpEvent(1.0)]), ComposedDpEvent([PureDP(3.0), ZCDpEvent(9.0)])),
    ]
    for one, three in pairs:
        assert scaled_to_group(one, 3) == three
        assert scaled_to_group(one, 1) == one
    assert scaled_to_group(GaussianDpEvent(4.0), 2) == GaussianDpEvent(2.0)


def test_scaled_figures_are_not_below_their_products_in_the_last_bits():
    # In floating point 3 times 0.7 is 2.0999999999999996, and 0.6 / 3 is below its quotient or above it by chance.
    assert exact(0.7 * 3) < 3 * exact(0.7)
    for units in range(2, 40):
        for value in (0.1, 0.3, 0.7, 1.1, 2.3):
            true = exact(value)
            assert exact(scaled_to_group(PureDP(value), units).epsilon) >= units * true
            assert exact(scaled_to_group(BoundedRange(value), units).eta) >= units * true
            assert exact(scaled_to_group(ZCDpEvent(value), units).rho) >= units**2 * true
            assert exact(scaled_to_group(GaussianDpEvent(value), units).noise_multiplier) <= true / units
            assert exact(epsilon_delta_of_group(value, 1e-9, units)[0]) >= units * true


def test_epsilon_delta_of_a_group_is_the_chain_summed_by_hand():
    epsilon, delta = 0.7, 1e-6
    chained = delta * (1 + math.exp(epsilon) + math.exp(2 * epsilon))
    assert epsilon_delta_of_group(epsilon, delta, 3) == (pytest.approx(2.1), pytest.approx(chained, rel=1e-6))
    assert epsilon_delta_of_group(0.0, 1e-6, 5) == (0.0, pytest.approx(5e-6))
    assert epsilon_delta_of_group(200.0, 1e-6, 4) == (800.0, 1.0)
    assert scaled_to_group(ApproximateDP(200.0, 1e-6), 4) == NonPrivateDpEvent()
    for failing in (ApproximateDP(0.5, 1e-6), WithFailure(PureDP(0.5), 1e-6), WithFailure(BoundedRange(0.5), 1e-6)):
        scaled = scaled_to_group(failing, 2)
        assert scaled == ApproximateDP(1.0, pytest.approx(1e-6 * (1 + math.exp(0.5))))


def test_a_chain_of_laws_meets_the_group_bound_exactly():
    # One bit, whose chance of being set grows as fast as (epsilon, delta) lets it from one neighbour to the next.
    epsilon, delta = 0.4, 0.01
    chances = [0.0]
    for _ in range(3):
        chances.append(math.exp(epsilon) * chances[-1] + delta)
    laws = [(chance, 1 - chance) for chance in chances]
    for p, q in pairwise(laws):
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) == pytest.approx(delta)
    found = hockey_stick(laws[3], laws[0], 3 * epsilon)
    bound = epsilon_delta_of_group(epsilon, delta, 3)[1]
    assert found <= bound
    assert found == pytest.approx(bound, rel=1e-8)


def test_two_shifts_of_a_selection_stay_within_twice_its_range():
    # EM moved twice by eta in range: the pair's profile under BR(2 eta), and above BR(eta) in places.
    rng = np.random.default_rng(3)
    eta, epsilons = 0.5, np.array([0.0, 0.2, 0.6])
    exceeded = 0
    for _ in range(300):
        u, v, w = rng.normal(0, 1, 3), rng.choice([0, eta], 3), rng.choice([0, eta], 3)
        p, q = (np.exp(x) / np.exp(x).sum() for x in (u, u + v + w))
        found = np.array([hockey_stick(p, q, e) for e in epsilons])
        assert (found <= profile_of(scaled_to_group(BoundedRange(eta), 2), RO)(epsilons) + 1e-12).all()
        exceeded += (found > profile_of(BoundedRange(eta), RO)(epsilons)).any()
    assert exceeded > 10


def test_what_does_not_scale_by_a_rule_is_refused_by_name():
    sampled = [PoissonSampledDpEvent(0.1, PureDP(1.0)), SampledWithoutReplacementDpEvent(9, 2, PureDP(1.0))]
    for event in (*sampled, WithFailure(GaussianDpEvent(2.0), 1e-6, exclusive=True), WithFailure(ZCDpEvent(1.0), 1e-6)):
        for wrapped in (event, SelfComposedDpEvent(event, 2), ComposedDpEvent([event])):
            with pytest.raises(ParameterError, match=type(event).__name__):
                scaled_to_group(wrapped, 2)
    for units in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="units"):
            scaled_to_group(PureDP(1.0), units)
    with pytest.raises(ParameterError, match=r"epsilon is -1\.0"):
        epsilon_delta_of_group(-1.0, 0.0, 2)


def test_the_page_says_what_records_of_one_person_cost_together_under_gaussian_noise():
    said = Path(__file__).parents[3].joinpath("docs/guarantees.md").read_text("utf-8")
    (two, five) = map(
        float, re.findall(r"two records of one person have epsilon (\d+\.\d+) .* and five (\d+\.\d+)", said)[0]
    )
    noise = RoundedGaussian.for_budget(4, 1e-6).event
    for units, figure in ((2, two), (5, five)):
        found = RdpAccountant(Adjacency.REPLACE_ONE).compose(scaled_to_group(noise, units)).report(1e-6).epsilon
        assert found <= figure < found + 0.1
