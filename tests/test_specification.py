"""The specification's oracles, one after another: what each instance must give, asked of the library itself.

The same numbers are also tested beside the parts they belong to, with their planted mistakes. Where an oracle has no
distribution to ask (O18's binomials, O24's assignments) it is summed exactly here.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sottovoce.audits.bounds import Rates, epsilon_of_one_run, epsilon_of_rates, mu_of_rates
from sottovoce.errors import AssignmentError
from sottovoce.experts.unit_sums import Block, Likeness
from sottovoce.explain import Setting, explain
from sottovoce.mechanisms.clustering.tree import SplitScore
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.top_k import JointTopK, OneShotTopK
from sottovoce.methods.base import Price
from sottovoce.methods.choice import Choice
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.fitting.fitter import FitSetting
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.amplification import Sampling, SharedSample
from sottovoce.privacy.accounting.bounded_range import (
    delta_of_bounded_range,
    epsilon_of_bounded_range,
    rho_of_bounded_range,
)
from sottovoce.privacy.accounting.gaussian_dp import mu_of_budget
from sottovoce.privacy.accounting.profiles import false_negative_rate, profile_of
from sottovoce.privacy.accounting.subsampled_profiles import epsilon_of_sampled
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import BoundedRange, GaussianDpEvent, WithFailure
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from worlds import hockey_stick, losses, outputs

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
NATS = 1024
"""Grid steps of one nat."""


def scores(values, sensitivity: int = 1, squared_l2: int | None = None) -> Scores:
    return Scores(list(values), sensitivity=sensitivity, adjacency=AR, squared_l2=squared_l2)


def floats(law) -> list[float]:
    return [float(p) for p in law]


def test_o1_profile_of_one_selection():
    assert delta_of_bounded_range(0.5, 1.0) == pytest.approx(0.077405, abs=1e-6)


def test_o2_rho_of_one_selection():
    assert rho_of_bounded_range(1.0) == pytest.approx(0.12330156, abs=1e-8)
    assert rho_of_bounded_range(2.0) == pytest.approx(0.47447465, abs=1e-8)


def test_o3_product_of_experts_on_a_pair_of_neighbours():
    # lambda = 1/3 and C = 3: epsilon 1 over a width of 3 nats; sums (-9, -3) against (-12, 0).
    p, q = (floats(Exponential(1.0).law(scores([a * NATS, b * NATS], 3 * NATS))) for a, b in ((-9, -3), (-12, 0)))
    assert p == pytest.approx([0.119203, 0.880797], abs=1e-6)
    assert q == pytest.approx([0.017986, 0.982014], abs=1e-6)
    assert max(abs(losses(p, q))) == pytest.approx(1.891222, abs=1e-6)
    assert sum(abs(np.subtract(p, q))) / 2 == pytest.approx(0.101217, abs=1e-6)
    assert hockey_stick(p, q, 0.5) == pytest.approx(0.089549, abs=1e-6)
    assert hockey_stick(p, q, 1.0) == pytest.approx(0.070311, abs=1e-6)
    assert sum(np.multiply(p, losses(p, q))) == pytest.approx(0.129628, abs=1e-6)


def test_o4_a_clamp_is_a_clamp():
    said = outputs([np.log([0.97, 0.02, 0.01])], AR).clipped_sum(3.0).values / NATS
    assert said.tolist() == pytest.approx([-0.030459, -3, -3], abs=1 / NATS)


def test_o5_o6_exponential_and_permute_and_flip():
    one = scores([0, 1, 2, 2])
    assert floats(Exponential(0.7).law(one)) == pytest.approx(
        [0.08989449, 0.18102527, 0.36454012, 0.36454012], abs=1e-8
    )
    assert floats(PermuteAndFlip(0.7).law(one)) == pytest.approx(
        [0.07199429, 0.15532373, 0.38634099, 0.38634099], abs=1e-8
    )


def test_o7_permute_and_flip_is_wider_than_its_epsilon():
    found = losses(*(floats(PermuteAndFlip(1.0).law(scores(c))) for c in ((0, 0), (0, 1))))
    assert (found.max(), found.min()) == (pytest.approx(1, abs=1e-9), pytest.approx(-0.489880, abs=1e-6))


def test_o8_gaussian_noisy_max():
    # Deviation 2 a vote on a grid of 1/64: the integer law is the continuous one to 1e-5.
    votes = scores([3 * 64, 2 * 64], squared_l2=2 * 64**2)
    assert GaussianNoisyMax(rho=0.25).law(votes)[0] == pytest.approx(0.63816320, abs=1e-5)


def test_o9_deviations_for_one_and_1e_minus_5():
    assert math.sqrt(2) / mu_of_budget(1.0, 1e-5) == pytest.approx(5.2759, abs=1e-3)
    assert 1 / mu_of_budget(1.0, 1e-5) == pytest.approx(3.7306, abs=1e-3)


def test_o10_o11_lists_of_two():
    counts = scores([3, 2, 0, 1])
    joint = JointTopK(1.0, k=2).law(counts)  # epsilon 1 over twice a sensitivity of 1: lambda = 1/2
    assert float(joint[0, 1]) == pytest.approx(0.18767431, abs=1e-8)
    assert float(joint[1, 0]) == pytest.approx(0.11383023, abs=1e-8)
    assert float(OneShotTopK(2.0, k=2).law(counts)[0, 1]) == pytest.approx(0.42835814, abs=1e-8)


def test_o12_propose_test_release():
    event = WithFailure(GaussianDpEvent(2.0), 1e-6, exclusive=True)
    assert RdpAccountant(RO).compose(event).report(1e-5).epsilon == pytest.approx(1.9930, abs=1e-3)


def test_o13_embedding_aggregation():
    assert 2 / 100 / mu_of_budget(3.0, 1e-5) == pytest.approx(0.02781, abs=1e-4)


def test_o14_decoding_between_two_candidates():
    e, a, b = np.array([0.6, 0.2]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    lead = (np.sum((e - b) ** 2) - np.sum((e - a) ** 2)) / (2 * 0.3 * np.linalg.norm(a - b))
    assert norm.cdf(lead) == pytest.approx(0.827111, abs=1e-6)  # by draws: tests/mechanisms/test_rounded_gaussian.py


def test_o15_privacy_by_subsampling():
    sample = SharedSample(Sampling.POISSON, AR, change=SWAP, grouped=True, rate=0.1)
    sample.release(GaussianDpEvent(2 / math.sqrt(2)))
    assert RdpAccountant(AR).compose(sample.amplified(), 100).report(1e-5).epsilon == pytest.approx(3.874, abs=5e-3)


def test_o16_amplified_pure_epsilon():
    assert epsilon_of_sampled(8.0, 400 / 2600) == pytest.approx(6.1300, abs=1e-4)


def test_o17_prism_at_its_main_setting():
    told = prism(255, 1.02)
    ar, ro = told["add-remove"], told["replace-one"]
    assert ar["eta"] == pytest.approx(0.0384468, abs=1e-6)
    assert ar["bounds"]["RDP"] == pytest.approx(0.7569, abs=1e-3)
    assert ro["bounds"]["RDP"] == pytest.approx(1.6107, abs=1e-3)
    assert 0.6949 <= ar["bounds"]["optimal"] <= 0.7050


def test_o18_prisms_stated_formula_is_refuted():
    told = prism(15, 0.131)
    k = np.arange(101)
    lp, lq = (binom.logpmf(k, 100, p) for p in (0.824491, 0.028141))
    exact = float(np.sum(np.exp(lp) * np.maximum(0, -np.expm1(np.minimum(0, told["paper_epsilon"] + lq - lp)))))
    assert told["paper_epsilon"] == pytest.approx(244.2, abs=0.1)
    assert exact == pytest.approx(0.594, abs=2e-3)
    assert exact > 1e-5, "far above the delta that the formula claims"
    assert told["add-remove"]["epsilon"] > told["paper_epsilon"], "and our bound is above the formula"


def test_o19_clipped_logits_with_public_tokens():
    eta, pure = 2 * 10 / (255 * 2), 2 / (255 * 0.2)
    assert eta**2 / 8 == pytest.approx(0.00019223, abs=1e-8)
    assert pure**2 / 2 == pytest.approx(0.00076894, abs=1e-8)
    told = explain(
        "amin",
        {"clip": "10", "batch": "255", "temperature": "2", "tokens": "100", "threshold_scale": "0.2"},
        Setting(delta=1e-5),
    ).as_dict()
    assert told["add-remove"]["bounds"]["zCDP"] <= 1.873 + 1e-3
    assert told["replace-one"]["bounds"]["zCDP"] <= 4.068 + 1e-3
    # The exact prices are a little below the squares: rho of one token lies just under the sum of the two.
    assert 0.99 * (0.00019223 + 0.00076894) < told["add-remove"]["rho_total"] / 100 <= 0.00019223 + 0.00076894


def test_o20_difference_clipping():
    told = explain(
        "invisible-ink", {"clip": "1", "batch": "8", "temperature": "1", "tokens": "200"}, Setting(delta=1e-5)
    ).as_dict()["add-remove"]
    assert told["eta"] == pytest.approx(0.25)
    assert 200 * 0.25**2 / 8 == 1.5625
    assert told["textbook"]["zCDP by squares"] == pytest.approx(9.234, abs=1e-3)
    assert told["bounds"]["RDP"] == pytest.approx(9.185, abs=1e-3)


def test_o21_widths_of_a_split():
    score = SplitScore()
    assert [float(score.width(a)) for a in (AR, RO)] == pytest.approx([12.2, 17.2])
    assert [float(score.width(a, one_axis=True)) for a in (AR, RO)] == pytest.approx([8.6, 13.6])


def test_o22_integer_weights():
    law = floats(Exponential(1.0).law(scores([0, -100, -300, -1024], sensitivity=256)))
    expected = [0.498819037567, 0.337517843927, 0.154526929143, 0.009136189363]
    assert law == pytest.approx(expected, abs=1e-11)


def test_o23_audit_bounds():
    assert epsilon_of_rates(Rates(0, 500, 0, 500)) == pytest.approx(4.905594, abs=1e-6)
    assert epsilon_of_rates(Rates(5, 500, 250, 500)) == pytest.approx(2.977575, abs=1e-6)
    assert mu_of_rates(Rates(5, 500, 250, 500)) == pytest.approx(1.879757, abs=1e-6)
    assert epsilon_of_one_run(100, 100, 90) == pytest.approx(1.630823, abs=1e-6)
    assert epsilon_of_one_run(1000, 1000, 700, 1e-5) == pytest.approx(0.731740, abs=1e-6)


@pytest.mark.slow
def test_o24_grouped_experts_under_categorical_assignment():
    def law(records: str, q: float = 0.4) -> np.ndarray:
        total = np.zeros(2)
        for slots in itertools.product((None, 0, 1), repeat=len(records)):
            votes = [0, 0]
            for slot in (0, 1):
                held = [r for r, s in zip(records, slots, strict=True) if s == slot]
                if held:
                    votes["x" in held] += 1
            chance = math.prod(1 - q if s is None else q / 2 for s in slots)
            total += chance * np.array(floats(Exponential(1.0).law(scores(votes))))
        return total

    exact = float(np.abs(losses(law("aaaaaaax"), law("aaaaaaa"))).max())
    assert exact == pytest.approx(0.582471, abs=1e-6)
    assert epsilon_of_sampled(1.0, 0.4) == pytest.approx(0.523137, abs=1e-6)
    assert exact > epsilon_of_sampled(1.0, 0.4), "a drop's price is exceeded"
    assert exact < epsilon_of_sampled(2.0, 0.4) == pytest.approx(1.268530, abs=1e-6)
    with pytest.raises(AssignmentError):
        SharedSample(Sampling.CATEGORICAL, AR, change=DROP, grouped=True, rate=0.4)


def test_o25_trade_off_and_one_calibrated_selection():
    profile = profile_of(BoundedRange(1.0), RO)
    assert false_negative_rate(profile, 0.1, 1.0) == pytest.approx(0.76803, abs=1e-5)
    assert epsilon_of_bounded_range(1.005042, 1e-5) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "sigma"), [(1.0, 4.224679), (4.0, 1.193519), (8.0, 0.652935)])
def test_o26_class_means(epsilon, sigma):
    def settled(adjacency, change, units):
        setting = FitSetting(labels=3, dimension=2, units=units, adjacency=adjacency, change=change)
        return ClassMeans().plan(Price(epsilon, 1e-6), setting).fitter.sigma

    assert 1 / mu_of_budget(epsilon, 1e-6) == pytest.approx(sigma, abs=1e-6)
    assert settled(RO, SWAP, 100) == pytest.approx(2 * sigma, rel=1e-6)
    assert settled(Adjacency.ZERO_OUT, DROP, 100) == pytest.approx(sigma * math.sqrt(17 / 16), rel=1e-6)
    assert settled(AR, DROP, None) == pytest.approx(sigma * math.sqrt(17 / 16 / 0.96), rel=1e-6)


def test_o27_o28_a_private_choice_and_its_losses():
    def logs(labels, adjacency: Adjacency, change) -> np.ndarray:
        vectors, names = zip(*labels, strict=True)
        rule = Likeness(labels=2, candidates=np.eye(3), floor=0.0, ceiling=1.0)
        sums = rule.add_up(Block(np.array(vectors), names, range(len(names))))
        setting = FitSetting(2, 3, None, adjacency, change, candidates=3)
        law = Choice(k=1, rate=0.5, noise=0).law(sums, rule, setting)
        return np.log(np.reshape(floats(law.values()), (3, 3)))

    first, third = ((1, 0.25, 0), 0), ((0, 0, 1), 1)
    whole = logs([first, ((0.5, 0.5, 0), 0), third], AR, DROP)
    assert np.exp(whole)[[0, 0, 2], [0, 2, 2]] == pytest.approx([0.12690384, 0.20922906, 0.09883281], abs=1e-8)
    dropped = whole - logs([first, third], AR, DROP)
    assert (abs(dropped).max(), np.ptp(dropped)) == pytest.approx((0.18973035, 0.25), abs=1e-8)
    for swapped in (((0, 0, 1), 0), ((0, 1, 0), 1)):
        assert np.ptp(whole - logs([first, swapped, third], RO, SWAP)) == pytest.approx(0.75, abs=1e-8)


def prism(batch: int, temperature: float) -> dict:
    options = {"clip": "10", "batch": str(batch), "tokens": "100", "temperature": str(temperature)}
    return explain("prism", options, Setting(delta=1e-5)).as_dict()
