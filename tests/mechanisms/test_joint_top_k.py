"""The joint exponential mechanism: utilities, counts of lists, and every list drawn as often as it should be."""

from __future__ import annotations

import math
import time
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chisquare

from scripted import exact_law
from sottovoce.errors import ParameterError
from sottovoce.mechanisms import top_k as joint_top_k
from sottovoce.mechanisms.samplers.integer_weights import WeightTable
from sottovoce.mechanisms.top_k import JointTopK
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness, SystemRandomness

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
TINY = WeightTable(shift=1, floor=3, blocks=(3, 2, 1), digits=(np.array([2, 1], dtype=np.uint64),))
WORLDS = [
    ((3, 2, 0, 1), 2),
    ((0, 0, 0), 3),
    ((5, 5, 4, 0), 3),
    ((9, 1, 1, 0, 1), 2),
    ((-4, 2, 2, 7), 1),
    ((1000, 1, 0, 3), 4),
    ((0, 8, 30, 31, 100), 2),
]
worlds = pytest.mark.parametrize(("counts", "k"), WORLDS, ids=str)


def scores(counts, adjacency=AR):
    return Scores(list(counts), sensitivity=1 if adjacency is AR else 2, adjacency=adjacency)


def utilities(counts, k):
    """The definition, spelled out: minus the largest count that the list misses out on at any place."""
    best = sorted(counts, reverse=True)
    lists = permutations(range(len(counts)), k)
    return {s: -max(best[i] - counts[s[i]] for i in range(k)) for s in lists}


def test_o10_two_of_four():
    # Specification O10: lambda .5, so epsilon 2 lambda = 1 when counts rise or fall together.
    law = JointTopK(epsilon=1.0, k=2).law(scores((3, 2, 0, 1)))
    assert float(law[0, 1]) == pytest.approx(0.18767431, abs=1e-8)
    assert float(law[1, 0]) == pytest.approx(0.11383023, abs=1e-8)
    assert sum(law.values()) == 1


@worlds
def test_the_law_is_the_softmax_of_the_utilities(counts, k):
    law, utility = JointTopK(0.8, k).law(scores(counts, RO)), utilities(counts, k)
    weight = {s: math.exp(max(0.8 * u / 4, -47.1)) for s, u in utility.items()}
    total = sum(weight.values())
    assert law.keys() == utility.keys()
    for s in law:
        assert float(law[s]) == pytest.approx(weight[s] / total, rel=2e-2 if utility[s] < -200 else 1e-12)


@pytest.mark.cases(1)
@worlds
def test_with_small_weights_every_branch_of_the_sampler_adds_up_to_the_law(counts, k, monkeypatch):
    # All answers of the source are walked: level, place of the first new item, items. Fractions, no sampling.
    monkeypatch.setattr(joint_top_k, "weight_table", lambda rate: TINY)
    mechanism, s = JointTopK(1.0, k), scores(counts)
    by_hand = {0: 6, 1: 3, 2: 4}
    weight = {chosen: by_hand.get(-u, 2) for chosen, u in utilities(counts, k).items()}
    law = {chosen: Fraction(w, sum(weight.values())) for chosen, w in weight.items()}
    assert mechanism.law(s) == law
    assert exact_law(lambda source: mechanism.select(s, source)) == law


@worlds
def test_lists_of_every_level_are_counted_without_listing_them(counts, k):
    falling = np.array(sorted(counts, reverse=True))
    levels = Counter(-u for u in utilities(counts, k).values())
    for floor in (1, 2, 5, 10**6):
        bands = list(joint_top_k._bands(falling, k, floor))
        merged = Counter()
        for level, count in levels.items():
            merged[min(level, floor)] += count
        assert {band.level: band.lists for band in bands} == merged
        assert [band.level for band in bands] == sorted(merged)


def test_levels_are_found_by_their_values_where_the_range_is_long(monkeypatch):
    # 40 items over 10**9 steps: too many levels to try one by one.
    random = np.random.default_rng(4)
    falling = np.sort(random.integers(0, 10**9, 7))[::-1]
    levels = Counter(-u for u in utilities(falling.tolist(), 3).values())
    assert {b.level: b.lists for b in joint_top_k._bands(falling, 3, 2 * 10**9)} == levels
    monkeypatch.setattr(joint_top_k, "_AT_ONCE", 2)
    assert {b.level: b.lists for b in joint_top_k._bands(falling, 3, 2 * 10**9)} == levels


@pytest.mark.parametrize(("adjacency", "most", "range_"), [(AR, 1, 2), (RO, 2, 4)])
def test_p6_one_change_moves_utilities_by_the_sensitivity_and_their_range_by_twice_that(adjacency, most, range_):
    # Specification P6: every count vector in {0..3}**4, every change: all 0/+1 together, or any -1/0/+1 for a swap.
    steps = (0, 1) if adjacency is AR else (-1, 0, 1)
    lists = list(permutations(range(4), 2))
    known = {}

    def utility(counts):
        if counts not in known:
            found = utilities(counts, 2)
            known[counts] = np.array([found[s] for s in lists])
        return known[counts]

    differences = [
        utility(tuple(c + v for c, v in zip(counts, change, strict=True))) - utility(counts)
        for counts in product(range(4), repeat=4)
        for change in product(steps, repeat=4)
    ]
    assert max(np.abs(d).max() for d in differences) == most
    assert max(np.ptp(d) for d in differences) == range_


def log_laws(mechanism, adjacency, most=4, labels=3):
    """Log-laws by counts, for every world that a change of one of {0..most-1}**labels can lead to."""
    reach = range(-1, most + 1)
    found = {}
    for counts in product(reach, repeat=labels):
        law = mechanism.law(scores(counts, adjacency))
        found[counts] = np.array([math.log(p.numerator) - math.log(p.denominator) for p in law.values()])
    return found


def worst_width(mechanism, adjacency, noise_for):
    steps = (0, 1) if adjacency is AR else (-1, 0, 1)
    laws = log_laws(mechanism, noise_for)
    widths = [0.0]
    for counts in product(range(4), repeat=3):
        for change in product(steps, repeat=3):
            loss = laws[counts] - laws[tuple(c + v for c, v in zip(counts, change, strict=True))]
            assert loss.min() <= 1e-12
            assert loss.max() >= -1e-12
            widths.append(np.ptp(loss))
    return max(widths)


@pytest.mark.parametrize("adjacency", [AR, RO])
def test_no_change_widens_the_losses_past_epsilon(adjacency):
    mechanism = JointTopK(1.3, 2)
    assert 1.2 < worst_width(mechanism, adjacency, noise_for=adjacency) <= 1.3 + 1e-12


def test_noise_for_a_drop_would_fail_under_a_swap():
    assert worst_width(JointTopK(1.3, 2), RO, noise_for=AR) > 2.5


@pytest.mark.slow
def test_draws_follow_the_law_with_the_real_weights():
    # 20,000 draws over 20 lists; false alarm 1e-6; 15 % less noise is refuted.
    s, source = scores((6, 4, 3, 0, 9), RO), SeededRandomness(21)
    law = JointTopK(1.5, 2).law(s)
    seen = Counter(JointTopK(1.5, 2).select(s, source) for _ in range(20_000))
    observed = [seen[chosen] for chosen in law]
    assert chisquare(observed, [float(p) * 20_000 for p in law.values()]).pvalue > 1e-6
    wrong = JointTopK(1.5 * 1.15, 2).law(s)
    assert chisquare(observed, [float(p) * 20_000 for p in wrong.values()]).pvalue < 1e-6


@pytest.mark.slow
def test_fifty_of_thirty_thousand_take_milliseconds():
    random = np.random.default_rng(0)
    counts = (1000 * random.random(30_000) ** 8).astype(np.int64)
    s = Scores(counts, sensitivity=2, adjacency=RO)
    start = time.process_time()
    chosen = JointTopK(1.0, 50).select(s, SystemRandomness())
    assert time.process_time() - start < 0.25  # tables included
    assert len(set(chosen)) == 50

    def once():
        start = time.process_time()
        JointTopK(1.0, 50).select(s, SystemRandomness())
        return time.process_time() - start

    assert min(once() for _ in range(7)) < 0.05


def test_at_a_large_epsilon_the_list_is_the_best_one():
    source = SeededRandomness(2)
    assert {JointTopK(400.0, 3).select(scores((5, 100, 50, 0)), source) for _ in range(50)} == {(1, 2, 0)}


def test_it_is_charged_as_one_step_of_bounded_range():
    assert JointTopK(0.7, 5).event == BoundedRange(0.7)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_a_length_that_is_none_is_refused(k):
    with pytest.raises(ParameterError, match="k is"):
        JointTopK(1.0, k)


def test_a_list_longer_than_the_candidates_is_refused():
    with pytest.raises(ParameterError, match="at most 3"):
        JointTopK(1.0, 4).select(scores((1, 2, 3)), SystemRandomness())
