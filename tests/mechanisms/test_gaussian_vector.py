"""The discrete Gaussian on vectors: its noise, its rho, and what its calibration gives in figures."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare, norm

from sottovoce.errors import ParameterError
from sottovoce.experts.embeddings import sum_of_clipped
from sottovoce.mechanisms.gaussian import GaussianVector, NoisyVector
from sottovoce.privacy.accounting.accountant import epsilon_of_rho
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import ZCDpEvent
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import hockey_stick

RO = Adjacency.REPLACE_ONE


def vector(values=(0,), squared_l2=25, **more) -> VectorSum:
    return VectorSum(list(values), squared_l2=squared_l2, adjacency=RO, **more)


def renyi(p: np.ndarray, shift: int, order: float) -> float:
    """Divergence of a coordinate's noise from the same noise moved by ``shift`` steps."""
    q = np.roll(p, shift)
    kept = (p > 1e-280) & (q > 1e-280)
    return float(logsumexp(order * np.log(p[kept]) + (1 - order) * np.log(q[kept])) / (order - 1))


def goodness_of_fit(stated: GaussianVector, sampled: GaussianVector, summed: VectorSum) -> float:
    """Draws one long vector and compares its coordinates' noise with the stated law."""
    noise = np.array(sampled.release(summed, SeededRandomness(20261122)).steps) - summed.values
    reach = 3 * math.isqrt(int(stated.noise_variance(summed)) + 1)
    law = stated.noise_law(summed, reach)
    seen = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=len(law))
    law[0] = law[-1] = law[-1] + (1 - law.sum()) / 2  # the ends stand for all that is further out
    return float(chisquare(seen, law * len(noise)).pvalue)


def test_the_noise_follows_from_the_stated_bound_as_an_exact_fraction():
    assert GaussianVector(0.1).noise_variance(vector(squared_l2=3)) == 15
    assert GaussianVector(0.3).noise_variance(vector(squared_l2=1)) == Fraction(5, 3)


def test_the_event_is_its_rho_and_is_never_gaussian_dp():
    assert GaussianVector(0.3).event == ZCDpEvent(0.3)
    assert cost_of(GaussianVector(0.3).event).rho == 0.3


@pytest.mark.parametrize("squared_l2", [1, 4, 25])
@pytest.mark.parametrize("rho", [0.02, 0.5, 2.0])
def test_its_law_keeps_its_rho_at_every_order(rho, squared_l2):
    # One coordinate moves by the whole norm. Half the variance exceeds the bound.
    law = GaussianVector(rho).noise_law(vector(squared_l2=squared_l2), 400)
    small = GaussianVector(2 * rho).noise_law(vector(squared_l2=squared_l2), 400)
    shift = math.isqrt(squared_l2)
    for order in (1.1, 2, 5, 10):
        assert renyi(law, shift, order) <= order * rho * (1 + 1e-9)
    assert renyi(small, shift, 2) > 2 * rho * 1.5


def test_a_change_spread_over_coordinates_costs_what_its_norm_costs():
    # (3, 4) has norm 5: divergences of independent coordinates add to at most that of one step of 5.
    law = GaussianVector(0.1).noise_law(vector(squared_l2=25), 400)
    for order in (2, 8):
        spread = renyi(law, 3, order) + renyi(law, 4, order)
        assert spread <= 0.1 * order * (1 + 1e-9)
        assert spread > 0.1 * order * 0.99


def test_its_law_keeps_the_converted_epsilon():
    law = GaussianVector(0.5).noise_law(vector(squared_l2=4), 200)
    for delta in (1e-6, 1e-3):
        assert hockey_stick(law, np.roll(law, 2), epsilon_of_rho(0.5, delta)) <= delta
        assert hockey_stick(law, np.roll(law, 4), epsilon_of_rho(0.5, delta)) > delta  # a swap at the price of a drop


def test_its_law_is_the_discrete_gaussian():
    law = GaussianVector(0.5).noise_law(vector(squared_l2=3), 2)
    weights = [math.exp(-(x * x) / 6) for x in range(-60, 61)]
    assert law == pytest.approx([w / sum(weights) for w in weights[58:63]], rel=1e-12)


@pytest.mark.parametrize("squared_l2", [1, 7, 8, 9, 40])
def test_its_law_sums_to_one_whatever_the_variance(squared_l2):
    # From a variance of 4 on, squared_l2 8 here, the sum is a square root.
    weights = [math.exp(-(x * x) / squared_l2) for x in range(-200, 201)]
    law = GaussianVector(1.0).noise_law(vector(squared_l2=squared_l2), 200)
    assert law == pytest.approx([w / math.fsum(weights) for w in weights], rel=1e-14)


def test_a_law_takes_as_much_work_as_it_reaches():
    # Summed up to where the noise ends this one had 2.8e16 values.
    law = GaussianVector(1e-30).noise_law(vector(squared_l2=1), 2)
    assert law == pytest.approx([1 / math.sqrt(math.pi * 1e30)] * 5, rel=1e-12)


@pytest.mark.slow
def test_its_sampler_follows_its_law_and_ten_percent_less_noise_is_rejected():
    # 20,000 coordinates with fresh noise each; false alarm 1e-6; the wrong scale is missed with less than 1e-6.
    summed = vector(np.arange(20_000) % 7 * 1000, squared_l2=18)
    assert goodness_of_fit(GaussianVector(0.5), GaussianVector(0.5), summed) > 1e-6
    assert goodness_of_fit(GaussianVector(0.5), GaussianVector(0.5 / 0.9**2), summed) < 1e-6


def test_o13_esa_with_a_hundred_experts_under_swaps():
    # Specification 5.4: by rho, (epsilon, 1e-5) admits mu* = .2472, .6697, 1.5682; sigma of the mean is 2 / (100 mu*).
    summed = sum_of_clipped(np.zeros((100, 3)), 1.0, SWAP, RO, 100)
    for epsilon, mu in ((1.0, 0.2472), (3.0, 0.6697), (8.0, 1.5682)):
        variance = GaussianVector.for_budget(epsilon, 1e-5).noise_variance(summed)
        deviation = math.sqrt(variance) * float(summed.grid_step) / summed.denominator
        assert deviation == pytest.approx(2 / (100 * mu), rel=2e-4)


def test_o14_the_nearest_candidate_is_decoded_with_the_probability_of_the_continuous_law():
    # e = (.6, .2) is decoded as a = (1, 0), not b = (0, 1), if .4 + sigma (Z1 - Z2) > 0: Phi(.4 / (.3 sqrt 2)).
    assert norm.cdf(0.4 / (0.3 * math.sqrt(2))) == pytest.approx(0.827111, abs=1e-6)
    step = Fraction(1, 1024)
    summed = vector((int(0.6 * 1024), int(0.2 * 1024)), squared_l2=2048**2, grid_step=step)
    mechanism = GaussianVector(rho=0.5 * (2048 / (0.3 * 1024)) ** 2)
    law = mechanism.noise_law(summed, 4000)
    lead = int(summed.values[0] - summed.values[1])
    beaten = np.cumsum(law[::-1])[::-1]  # P(Z1 >= z), z from -4000
    decoded = sum(p * beaten[max(0, z - lead + 1)] for z, p in enumerate(law) if z - lead + 1 < len(law))
    assert decoded == pytest.approx(0.827111, abs=2e-3)


def test_a_release_is_public_and_carries_its_unit():
    summed = vector((512, -256), squared_l2=1, denominator=4, grid_step=Fraction(1, 256))
    released = GaussianVector(1e5).release(summed, SeededRandomness(1))
    assert released == NoisyVector((512, -256), Fraction(1, 256), 4)  # noise of deviation .002 steps
    assert released.values.tolist() == [0.5, -0.25]


def test_gaussian_noise_without_a_delta_or_with_no_rho_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        GaussianVector.for_budget(1.0, 0.0)
    for bad in (0, -1, math.nan, math.inf, "1", None):
        with pytest.raises(ParameterError, match="rho"):
            GaussianVector(bad)
