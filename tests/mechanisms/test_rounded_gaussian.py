"""The rounded normal: exactly the law it claims, whatever the number of bits that were drawn."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare, norm

import sottovoce.mechanisms.rounded_gaussian as module
from sottovoce.errors import ParameterError
from sottovoce.experts.embeddings import sum_of_clipped
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian, sample_rounded_normal
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import GaussianDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import hockey_stick

RO = Adjacency.REPLACE_ONE
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """The profile of mu-GDP as it stands in the specification, T8."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def vector(values=(0,), squared_l2=1, **more) -> VectorSum:
    return VectorSum(list(values), squared_l2=squared_l2, adjacency=RO, **more)


def exact_law(variance: Fraction, reach: int) -> np.ndarray:
    """P(round(sigma Z) = r), |r| <= reach, all that is further out at the ends."""
    edges = norm.cdf((np.arange(-reach, reach) + 0.5) / math.sqrt(variance))
    return np.diff(np.concatenate([[0.0], edges, [1.0]]))


def goodness_of_fit(variance: Fraction, draws: list[int]) -> float:
    reach = max(1, round(2.5 * math.sqrt(variance)))
    seen = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    return float(chisquare(seen, exact_law(variance, reach) * len(draws)).pvalue)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "variance", [Fraction(1, 3), Fraction(2), pytest.param(Fraction(250, 7), marks=pytest.mark.slow)], ids=str
)
def test_draws_follow_the_rounded_normal_and_a_wrong_scale_is_rejected(variance):
    # 30,000 draws; false alarm 1e-6. Ten percent less deviation is missed with less than 1e-6.
    source = SeededRandomness(11)
    draws = [sample_rounded_normal(variance, source) for _ in range(30_000)]
    assert goodness_of_fit(variance, draws) > 1e-6
    thin = [sample_rounded_normal(variance * Fraction(81, 100), source) for _ in range(30_000)]
    assert goodness_of_fit(variance, thin) < 1e-6


@pytest.mark.slow
def test_a_discrete_gaussian_is_not_a_rounded_normal():
    # At a deviation of 1/2 the two differ: P(0) is .683 for the rounded normal, .787 for the discrete Gaussian.
    source = SeededRandomness(12)
    draws = [sample_discrete_gaussian(Fraction(1, 4), source) for _ in range(20_000)]
    assert goodness_of_fit(Fraction(1, 4), draws) < 1e-6


@pytest.mark.slow
def test_the_law_does_not_depend_on_how_many_bits_are_drawn_at_a_time(monkeypatch):
    # One bit at a time leaves almost every comparison and rounding undecided at first. False alarm 1e-6.
    monkeypatch.setattr(module, "_CHUNK", 1)
    source = SeededRandomness(13)
    for variance in (Fraction(2), Fraction(40)):
        assert goodness_of_fit(variance, [sample_rounded_normal(variance, source) for _ in range(20_000)]) > 1e-6


@pytest.mark.slow
def test_large_deviations_keep_their_tails():
    # P(|Z| > 3) = .0027; 20,000 draws at a deviation of a million steps, five standard errors.
    source = SeededRandomness(14)
    draws = np.abs([sample_rounded_normal(Fraction(10**12), source) for _ in range(20_000)])
    for cut in (1, 2, 3):
        p = 2 * norm.sf(cut)
        assert abs((draws > cut * 10**6).sum() - 20_000 * p) < 5 * math.sqrt(20_000 * p)


@pytest.mark.parametrize(("k", "bits"), [(0, 1 << 63), (1, 3 << 62), (3, 1 << 62)])
def test_a_lazy_coin_has_its_exponential_odds(k, bits):
    # Odds exp(-x (2k + x) / (2k + 2)) for x just above a dyadic number. 20,000 coins, five standard errors.
    source, heads, x = SeededRandomness(15), 0, bits / 2**64
    for _ in range(20_000):
        uniform = module._Uniform(source)
        uniform.bits = bits
        heads += module._coin(k, uniform, source)
    p = math.exp(-x * (2 * k + x) / (2 * k + 2))
    assert abs(heads - 20_000 * p) < 5 * math.sqrt(20_000 * p * (1 - p))


def test_rounding_is_that_of_an_exact_product():
    numbers = SeededRandomness(16)
    for _ in range(500):
        variance = Fraction(1 + numbers.below(10**6), 1 + numbers.below(1000))
        numerator = numbers.below(1 << 70)
        with localcontext() as context:
            context.prec = 80
            product = (Decimal(variance.numerator) / variance.denominator).sqrt() * numerator / 2**64
            expected = int(product + Decimal("0.5"))
        assert module._nearest(variance, numerator, 64) == expected


@pytest.mark.parametrize(("next_bits", "expected"), [(0, 0), ((1 << 64) - 1, 1)])
def test_a_rounding_that_the_bits_leave_open_is_not_guessed(monkeypatch, next_bits, expected):
    # 3 x rounds up from x = 1/6 on, which lies inside the first 64 bits' interval: the next bits decide.
    class Bits:
        secure = False

        def __init__(self, *bits):
            self.bits = list(bits)

        def below(self, bound):
            return self.bits.pop(0)

    source = Bits(2**64 // 6, next_bits)
    part = module._Uniform(source)
    monkeypatch.setattr(module, "_half_normal", lambda randomness: (0, part))
    assert sample_rounded_normal(Fraction(9), Bits(0)) == expected
    assert source.bits == []


def test_o13_esa_with_a_hundred_experts_under_swaps():
    # Specification 5.4: sigma of the mean, delta 1e-5, by Gaussian DP.
    for change, figures in ((SWAP, (0.07461, 0.02781, 0.01200)), (DROP, (0.03731, 0.01391, 0.00600))):
        summed = sum_of_clipped(np.zeros((100, 3)), 1.0, change, RO, 100)
        for epsilon, expected in zip((1.0, 3.0, 8.0), figures, strict=True):
            variance = RoundedGaussian.for_budget(epsilon, 1e-5).noise_variance(summed)
            assert math.sqrt(variance) * float(summed.grid_step) / 100 == pytest.approx(expected, abs=6e-6)


def test_noise_for_a_drop_loses_twice_as_much_where_experts_are_swapped():
    # Specification 5.4: what is printed as 1, 3 and 8 is truly 2.155, 6.706 and 19.121.
    for printed, true in ((1.0, 2.155), (3.0, 6.706), (8.0, 19.121)):
        mechanism = RoundedGaussian.for_budget(printed, 1e-5)
        drop, swap = (sum_of_clipped(np.zeros((9, 3)), 1.0, change, RO, 9) for change in (DROP, SWAP))
        mu = math.sqrt(swap.squared_l2 / mechanism.noise_variance(drop))
        assert delta_of_gaussian(true + 1e-3, mu) < 1e-5 < delta_of_gaussian(true - 1e-3, mu)
        assert mechanism.noise_variance(swap) == 4 * mechanism.noise_variance(drop)


@pytest.mark.slow
def test_o14_released_vectors_are_decoded_with_the_continuous_probability():
    # 4,000 releases of (.6, .2) with deviation .3; five standard errors of .827111 are .03.
    summed = vector((600, 200), squared_l2=10**6, grid_step=Fraction(1, 1000))
    mechanism, source = RoundedGaussian(0.3), SeededRandomness(17)
    released = [mechanism.release(summed, source).values for _ in range(4_000)]
    won = sum(x[0] > x[1] for x in released) + sum(x[0] == x[1] for x in released) / 2
    assert won / 4_000 == pytest.approx(0.827111, abs=0.03)


@pytest.mark.parametrize("noise_multiplier", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_its_law_keeps_the_gaussian_profile_exactly(noise_multiplier, steps):
    law = RoundedGaussian(noise_multiplier).noise_law(vector(squared_l2=steps**2), 40 * steps)
    for epsilon in EPSILONS:
        allowed = delta_of_gaussian(epsilon, 1 / noise_multiplier)
        assert hockey_stick(law, np.roll(law, steps), epsilon) <= allowed + 1e-12
        assert hockey_stick(np.roll(law, steps), law, epsilon) <= allowed + 1e-12


def test_the_discrete_gaussian_of_the_same_scale_exceeds_the_gaussian_profile():
    # Why integer noise is not charged as Gaussian DP (specification T8), and why this file exists.
    law = GaussianVector(rho=0.5).noise_law(vector(squared_l2=1), 60)
    excess = [hockey_stick(law, np.roll(law, 1), e) - delta_of_gaussian(e, 1.0) for e in np.linspace(0, 2, 41)]
    assert max(excess) > 1e-3


def test_noise_of_half_the_deviation_is_caught():
    law = RoundedGaussian(1.0).noise_law(vector(squared_l2=1), 60)
    assert max(hockey_stick(law, np.roll(law, 2), e) - delta_of_gaussian(e, 1.0) for e in EPSILONS) > 0.1


def test_its_law_sums_to_one_and_is_symmetric():
    law = RoundedGaussian(2.0).noise_law(vector(squared_l2=3), 60)
    assert law.sum() == pytest.approx(1, abs=1e-14)
    assert (law == law[::-1]).all()


def test_the_event_is_the_noise_over_the_norm():
    assert RoundedGaussian(2.5).event == GaussianDpEvent(2.5)
    assert RoundedGaussian(2.5).noise_variance(vector(squared_l2=8)) == 50
    assert 1 / RoundedGaussian.for_mu(0.3).event.noise_multiplier == pytest.approx(0.3, rel=1e-15)
    assert Fraction(1) / Fraction(RoundedGaussian.for_mu(0.3).noise_multiplier) <= Fraction(0.3)


def test_its_calibration_is_the_least_noise():
    for epsilon, delta in ((0.1, 1e-9), (1.0, 1e-5), (20.0, 1e-6)):
        multiplier = RoundedGaussian.for_budget(epsilon, delta).noise_multiplier
        assert delta_of_gaussian(epsilon, 1 / multiplier) <= delta < delta_of_gaussian(epsilon, 1.0001 / multiplier)


def test_the_noise_for_a_mu_is_no_less_than_its_decimal_asks_for():
    # The float after 1 / .007880451307206052 is still too small by 1.6e-17 of itself, as both are written.
    for mu in (0.007880451307206052, 283.3625584139991, 1e-6, 0.1, 1.0, 3.0, 1e3):
        multiplier = exact(RoundedGaussian.for_mu(mu).noise_multiplier)
        assert 1 <= multiplier * exact(mu) < 1 + Fraction(1, 10**15)


def test_the_accountant_reports_no_more_than_was_asked_for():
    for epsilon, delta in ((1e-3, 1e-6), (1.0, 1e-6), (8.0, 1e-5), (1000.0, 1e-6), (1.0, 0.9)):
        event = RoundedGaussian.for_budget(epsilon, delta).event
        assert 0.999 * epsilon < RdpAccountant(RO).compose(event).report(delta).epsilon <= epsilon


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        RoundedGaussian.for_budget(1.0, 0.0)
    with pytest.raises(ParameterError, match="mu"):
        RoundedGaussian.for_budget(1e-6, 1e-15)
    for bad in (0, -1, math.nan, math.inf, "1", None):
        with pytest.raises(ParameterError, match="noise_multiplier"):
            RoundedGaussian(bad)
    with pytest.raises(ParameterError, match="mu"):
        RoundedGaussian.for_mu(0)
