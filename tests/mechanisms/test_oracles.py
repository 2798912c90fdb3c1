"""Hand-worked values and the specification's oracles O3 to O8 and O22."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest

from scripted import Script
from sottovoce.errors import ParameterError
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.mechanisms.samplers.discrete_laplace import bernoulli_exp
from sottovoce.mechanisms.samplers.integer_weights import BEST, floor_exp, rate_per_step, weight_table
from sottovoce.methods.poe import PoE
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import hockey_stick, losses, outputs

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def scores(values, sensitivity=1, adjacency=AR, squared_l2=None):
    return Scores(values, sensitivity=sensitivity, adjacency=adjacency, squared_l2=squared_l2)


def test_o3_product_of_experts_under_replacement_loses_twice_the_papers_bound():
    # Four experts, C = 3, lambda = 1/3: the paper's exponent claims epsilon 1; one replaced expert loses 1.891222.
    before = scores([-9 * 1024, -3 * 1024], sensitivity=3 * 1024)
    after = scores([-12 * 1024, 0], sensitivity=3 * 1024)
    p, q = (Exponential(1.0).law(s) for s in (before, after))
    assert [float(x) for x in p] == pytest.approx([0.119203, 0.880797], abs=1e-6)
    assert [float(x) for x in q] == pytest.approx([0.017986, 0.982014], abs=1e-6)
    assert np.abs(losses(p, q)).max() == pytest.approx(1.891222, abs=1e-6)
    assert sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2 == pytest.approx(0.101217, abs=1e-6)
    assert hockey_stick(p, q, 0.5) == pytest.approx(0.089549, abs=1e-6)
    assert hockey_stick(p, q, 1.0) == pytest.approx(0.070311, abs=1e-6)
    kl = sum(float(a) * x for a, x in zip(p, losses(p, q), strict=True))
    assert kl == pytest.approx(0.129628, abs=1e-6)


def test_o3_the_replace_one_calibration_keeps_its_promise_on_the_same_pair():
    # The same four experts through PoE itself: (0, -3) becomes (-3, 0) beside three (-3, 0).
    stay = [[-3.0, 0.0]] * 3
    laws = []
    for first in ([0.0, -3.0], [-3.0, 0.0]):
        summed = PoE(clip=3.0, normalization="max").scores(outputs([first, *stay], RO))
        laws.append(Exponential(1.0).law(summed))
    assert np.abs(losses(*laws)).max() == pytest.approx(0.813666, abs=1e-6)
    # With factor 1 the same pair would have lost 1.89 for the price of 1.
    careless = [Exponential(2.0).law(PoE(clip=3.0, normalization="max").scores(outputs([first, *stay], RO)))
                for first in ([0.0, -3.0], [-3.0, 0.0])]  # fmt: skip
    assert np.abs(losses(*careless)).max() == pytest.approx(1.891222, abs=1e-6)


def test_o4_clipping_clamps_and_never_sets_a_bad_label_to_zero():
    summed = PoE(clip=3.0).scores(outputs([np.log([0.97, 0.02, 0.01])], RO))
    assert summed.values / 1024 == pytest.approx([-0.030459, -3, -3], abs=1 / 1024)
    assert (summed.values[1:] == -3 * 1024).all()


def test_zeroing_instead_of_clamping_would_lose_the_answer():
    # Spec 5.1.2: eight experts at lambda 1/3 choose label 1 with 0.9993 when clamped, 0.3155 when zeroed.
    clamped = scores([round(-0.030459 * 8 * 1024), -24 * 1024, -24 * 1024], sensitivity=3 * 1024)
    zeroed = scores([round(-0.030459 * 8 * 1024), 0, 0], sensitivity=3 * 1024)
    assert float(Exponential(1.0).law(clamped)[0]) == pytest.approx(0.9993, abs=1e-4)
    assert float(Exponential(1.0).law(zeroed)[0]) == pytest.approx(0.3155, abs=1e-3)
    ours = PoE(clip=3.0).scores(outputs([np.log([0.97, 0.02, 0.01])] * 8, AR))
    assert float(Exponential(1.0).law(ours)[0]) > 0.999


def test_o5_exponential_weights():
    law = Exponential(0.7).law(scores([0, 1, 2, 2]))
    assert [float(p) for p in law] == pytest.approx([0.08989449, 0.18102527, 0.36454012, 0.36454012], abs=1e-8)


def test_o6_permute_and_flip():
    law = PermuteAndFlip(0.7).law(scores([0, 1, 2, 2]))
    assert [float(p) for p in law] == pytest.approx([0.07199429, 0.15532373, 0.38634099, 0.38634099], abs=1e-8)


def test_permute_and_flip_wins_more_often_than_the_exponential_mechanism_at_one_price():
    for values, adjacency, em, pf in [([5, 3, 2], RO, 0.6285, 0.7319), ([5, 3, 2], AR, 0.8438, 0.9097)]:
        s = scores(values, sensitivity=1 if adjacency is AR else 2, adjacency=adjacency)
        assert float(Exponential(1.0).law(s)[0]) == pytest.approx(em, abs=1e-4)
        assert float(PermuteAndFlip(1.0).law(s)[0]) == pytest.approx(pf, abs=1e-4)


def test_o8_gaussian_votes_with_sigma_two():
    # Continuous noise gives .63816320; noise on whole numbers with ties shared differs in the fifth digit or later.
    mechanism = GaussianNoisyMax(rho=2 / (2 * 4))
    law = mechanism.law(scores([3, 2], sensitivity=2, adjacency=RO, squared_l2=2))
    assert mechanism.sigma2(scores([3, 2], squared_l2=2)) == 4
    assert law[0] == pytest.approx(0.63816320, abs=2e-3)


def test_o22_integer_exponential_mechanism_on_a_fine_grid():
    # Step 2**-8: one nat is 256 steps, so sensitivity 256 at epsilon 1.
    law = Exponential(1.0).law(scores([0, -100, -300, -1024], sensitivity=256))
    expected = [0.498819037567, 0.337517843927, 0.154526929143, 0.009136189363]
    assert [float(p) for p in law] == pytest.approx(expected, abs=1e-11)


def test_the_exponential_sampler_follows_its_law_exactly():
    # Every answer of the source at the edges of every candidate: as many answers choose it as it has weight.
    s = scores([0, -3, -3, -7], sensitivity=2)
    mechanism = Exponential(1.0)
    weights = weight_table(rate_per_step(Fraction(1), 2)).weights(np.array([0, 3, 3, 7]))
    ends = np.cumsum(weights, dtype=object)
    assert mechanism.law(s) == [Fraction(weight, ends[-1]) for weight in weights]
    for index, weight in enumerate(weights):
        for point in (ends[index] - weight, ends[index] - 1):
            assert mechanism.select(s, Script([point])) == index


def test_the_permute_and_flip_sampler_follows_its_law_exactly():
    # The probability tree by hand: three candidates, order without replacement, one coin each.
    s = scores([2, 1, 0], sensitivity=1)
    mechanism = PermuteAndFlip(0.9)
    weights = weight_table(rate_per_step(Fraction(9, 10), 1)).weights(np.array([0, 1, 2]))
    odds = [Fraction(weight, BEST) for weight in weights]
    law = [Fraction(0)] * 3
    for order in permutations(range(3)):
        alive = Fraction(1, 6)
        for candidate in order:
            law[candidate] += alive * odds[candidate]
            alive *= 1 - odds[candidate]
    assert odds[0] == 1
    assert mechanism.law(s) == law
    # And the code walks that tree: coins at the edge of acceptance decide.
    assert mechanism.select(s, Script([1, weights[1] - 1])) == 1
    assert mechanism.select(s, Script([1, weights[1], 0, 0])) in (0, 2)


def test_the_permute_and_flip_law_is_a_distribution_for_a_hundred_candidates():
    values = [(7 * i) % 23 for i in range(100)]
    law = PermuteAndFlip(0.9).law(scores(values, sensitivity=2))
    assert sum(law) == 1
    assert min(law) > 0


def test_permute_and_flip_chooses_among_a_thousand():
    # The best of 1,000 leads by far more than noise: the visit always ends with it, wherever it stands in line.
    s = scores([0] * 700 + [10**6] + [-5] * 299)
    assert {PermuteAndFlip(1.0).select(s, SeededRandomness(seed)) for seed in range(20)} == {700}


def test_weights_are_products_of_floors_of_the_true_exponential():
    # One nat is 1000 steps: blocks of 512 steps and one table of 512 entries.
    with mpmath.workprec(600):
        for level in (0, 1, 511, 512, 20_000, 47_133):
            block, fine = divmod(level, 512)
            upper = mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(block) * 512 / 1000), 130))
            lower = mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(fine) / 1000), 63))
            assert weight_table(Fraction(1, 1000)).weights(np.array([level])) == [int(upper) * int(lower)]


def test_exponentials_are_floors_of_the_true_ones():
    with mpmath.workprec(600):
        for x in (Fraction(1, 3), Fraction(10), Fraction(47)):
            for bits in (63, 130, 256):
                true = mpmath.ldexp(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator), bits)
                assert floor_exp(x, bits) == int(mpmath.floor(true))


def test_a_hopeless_candidate_keeps_a_chance():
    # Underflow to zero would be an unbounded privacy loss, not a rounding detail.
    law = Exponential(10.0).law(scores([10**9, 0]))
    # Its weight is floored 68 bits below the best.
    assert Fraction(1, 2**69) < law[1] < Fraction(1, 2**67)


def test_a_large_epsilon_prefers_the_best_all_the_more():
    # The floor is a depth in nats, not a number of steps: at epsilon 100 one step is deeper than the floor.
    for mechanism in (Exponential(100.0), PermuteAndFlip(100.0)):
        assert float(mechanism.law(scores([100, 3, 0]))[0]) == pytest.approx(1)


@pytest.mark.slow
def test_weights_are_the_same_in_every_thread_whatever_others_do():
    xs = [Fraction(k, 977) for k in range(1, 2_000)]
    right = {x: floor_exp(x, 130) for x in xs}
    stop, wrong = threading.Event(), []

    def disturb():
        while not stop.is_set():
            with mpmath.workdps(3):
                mpmath.exp(1)

    def compute():
        wrong.extend(x for x in xs if floor_exp(x, 130) != right[x])

    noisy = threading.Thread(target=disturb)
    noisy.start()
    workers = [threading.Thread(target=compute) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    stop.set()
    noisy.join()
    assert wrong == []


def test_shifting_every_score_changes_nothing():
    for mechanism in (Exponential(0.7), PermuteAndFlip(0.7)):
        assert mechanism.law(scores([3, 1, 0])) == mechanism.law(scores([-5, -7, -8]))


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), 1e999, 1e-9, 5000, "one", None, True])
def test_an_epsilon_that_is_no_price_is_refused(bad):
    for mechanism in (Exponential, PermuteAndFlip):
        with pytest.raises(ParameterError, match="epsilon"):
            mechanism(bad)


def test_gaussian_noise_is_refused_without_a_delta_or_a_norm_bound():
    with pytest.raises(ParameterError, match="delta"):
        GaussianNoisyMax.for_budget(1.0, 0.0)
    with pytest.raises(ParameterError, match="L2"):
        GaussianNoisyMax(0.1).law(scores([1, 0]))


def test_gaussian_noise_is_calibrated_for_its_single_release():
    # Spec 5.4: with zCDP accounting (1, 1e-5) admits mu* = .2472, and sigma = S / mu*.
    mechanism = GaussianNoisyMax.for_budget(1.0, 1e-5)
    assert math.sqrt(2 * mechanism.rho) == pytest.approx(0.2472, abs=2e-4)
    assert math.sqrt(mechanism.sigma2(scores([1, 0], squared_l2=2))) == pytest.approx(math.sqrt(2) / 0.2472, rel=1e-3)


@pytest.mark.slow
def test_rational_coins_have_the_exponential_odds():
    # 40,000 coins each; five standard deviations, false alarm below 1e-6 a coin. A coin 5 % off is rejected.
    source = SeededRandomness(3)
    for x in (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)):
        p, n = math.exp(-float(x)), 40_000
        seen = sum(bernoulli_exp(x, source) for _ in range(n))
        slack = 5 * math.sqrt(n * p * (1 - p)) + 1e-9
        assert abs(seen - n * p) <= slack
        assert x == 0 or abs(seen - n * min(1, 1.05 * p)) > slack or p < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("sigma2", [Fraction(9), Fraction(1, 2), Fraction(250, 7)], ids=str)
def test_discrete_gaussian_noise_has_the_right_spread(sigma2):
    # 40,000 draws: the variance estimate has relative s.e. .007; 10 % less noise would be off by .19.
    source = SeededRandomness(5)
    draws = np.array([sample_discrete_gaussian(sigma2, source) for _ in range(40_000)])
    grid = np.arange(-60, 61)
    mass = np.exp(-(grid**2) / (2 * float(sigma2)))
    variance = float((mass * grid**2).sum() / mass.sum())
    assert abs(draws.mean()) < 5 * math.sqrt(variance / 40_000)
    assert draws.var() == pytest.approx(variance, rel=0.04)
    assert abs(draws.var() - 0.81 * variance) > 0.1 * variance


def test_scores_refuse_what_would_make_the_bound_meaningless():
    for values, sensitivity in [([], 1), ([1.5, 2.0], 1), ([1, 2], 0), ([1, 2], 0.5)]:
        with pytest.raises(ParameterError):
            Scores(values, sensitivity=sensitivity, adjacency=RO)
    for squared_l2 in (0, -3, 2.0, True, Fraction(2)):
        with pytest.raises(ParameterError, match="squared_l2"):
            Scores([1, 2], sensitivity=2, adjacency=RO, squared_l2=squared_l2)
