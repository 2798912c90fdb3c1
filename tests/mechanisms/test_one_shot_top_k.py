"""Peeling: its law, its branches, and a price that is a composition and not one step."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product

import numpy as np
import pytest

from scripted import exact_law
from sottovoce.errors import ParameterError
from sottovoce.mechanisms import exponential
from sottovoce.mechanisms.samplers.integer_weights import WeightTable
from sottovoce.mechanisms.top_k import OneShotTopK
from sottovoce.privacy.accounting.accountant import RdpAccountant, rho_of_bounded_range
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import BoundedRange, SelfComposedDpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.filter import price
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness, SystemRandomness
from worlds import hockey_stick

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
TINY = WeightTable(shift=1, floor=3, blocks=(3, 2, 1), digits=(np.array([2, 1], dtype=np.uint64),))


def scores(counts, adjacency=AR):
    return Scores(list(counts), sensitivity=1 if adjacency is AR else 2, adjacency=adjacency)


def test_o11_two_of_four():
    # Specification O11: lambda 1 for each of two choices, so epsilon 2 in all.
    law = OneShotTopK(epsilon=2.0, k=2).law(scores((3, 2, 0, 1)))
    assert float(law[0, 1]) == pytest.approx(0.42835814, abs=1e-8)
    assert sum(law.values()) == 1


def test_peeling_is_adding_gumbel_noise_once_and_sorting():
    # 200,000 sorted noisy vectors (floating point is good enough for a law seen by sampling): five standard deviations.
    random, counts, n = np.random.default_rng(1), np.array([3, 2, 0, 1]), 200_000
    noisy = counts + random.gumbel(size=(n, 4))
    seen = Counter(map(tuple, np.argsort(-noisy, axis=1)[:, :2].tolist()))
    for chosen, p in OneShotTopK(epsilon=2.0, k=2).law(scores(counts)).items():
        slack = 5 * math.sqrt(n * p * (1 - p))
        assert abs(seen[chosen] - n * float(p)) < slack
    wrong = OneShotTopK(epsilon=2.2, k=2).law(scores(counts))
    assert abs(seen[0, 1] - n * float(wrong[0, 1])) > 5 * math.sqrt(n / 4)


@pytest.mark.parametrize(("counts", "k"), [((3, 2, 0, 1), 2), ((0, 0, 9), 3), ((5, 1), 1)], ids=str)
def test_with_small_weights_every_branch_of_the_sampler_adds_up_to_the_law(counts, k, monkeypatch):
    monkeypatch.setattr(exponential, "weight_table", lambda rate: TINY)
    mechanism, s = OneShotTopK(1.0, k), scores(counts)
    weight = {0: 6, 1: 3, 2: 4}
    by_hand = {}
    for chosen in permutations(range(len(counts)), k):
        odds, left = Fraction(1), list(range(len(counts)))
        for item in chosen:
            best = max(counts[i] for i in left)
            among = {i: weight.get(best - counts[i], 2) for i in left}
            odds *= Fraction(among[item], sum(among.values()))
            left.remove(item)
        by_hand[chosen] = odds
    assert mechanism.law(s) == by_hand
    assert exact_law(lambda source: mechanism.select(s, source)) == by_hand


@lru_cache(maxsize=8192)
def law_of(counts, noise_for):
    return np.array([float(p) for p in OneShotTopK(2.0, 2).law(scores(counts, noise_for)).values()])


def every_loss(adjacency, noise_for=None):
    """Laws and losses of every change of every count vector in {0, 2, 5}**4; two of four, lambda W = 1."""
    steps = (0, 1) if adjacency is AR else (-1, 0, 1)
    for counts in product((0, 2, 5), repeat=4):
        p = law_of(counts, noise_for or adjacency)
        for change in product(steps, repeat=4):
            q = law_of(tuple(c + v for c, v in zip(counts, change, strict=True)), noise_for or adjacency)
            yield p, q, np.log(p / q)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", [AR, RO])
def test_no_change_loses_more_than_epsilon_but_the_width_is_larger(adjacency):
    # Specification 5.5.2: a width of 2.98 where k lambda = 2, so one step of bounded range 2 would be wrong.
    found = list(every_loss(adjacency))
    assert 1.9 < max(np.abs(loss).max() for *_, loss in found) <= 2 + 1e-12
    width = max(np.ptp(loss) for *_, loss in found)
    assert width > 2.8
    assert adjacency is RO or width == pytest.approx(2.9844, abs=1e-4)


@pytest.mark.cases(1)
@pytest.mark.parametrize("adjacency", [AR, RO])
def test_the_composition_it_is_charged_as_covers_every_pair(adjacency):
    event = OneShotTopK(2.0, 2).event
    assert event == SelfComposedDpEvent(BoundedRange(1.0), 2)
    bounds = {d: RdpAccountant(adjacency).compose(event).report(d).epsilon for d in (1e-1, 1e-2)}
    worst = 0.0
    for p, q, loss in every_loss(adjacency):
        worst = max(worst, float(p @ loss))
        for delta, epsilon in bounds.items():
            assert hockey_stick(p, q, epsilon) <= delta
    assert 0.1 < worst <= 2 * rho_of_bounded_range(1.0) == cost_of(event).rho


@pytest.mark.slow
def test_noise_for_a_drop_would_fail_under_a_swap():
    assert max(np.abs(loss).max() for *_, loss in every_loss(RO, noise_for=AR)) > 3


@pytest.mark.parametrize(
    ("epsilon", "k"),
    [(1.0, 3), (0.7, 7), (0.1, 3), (5.0, 49), (3.2, 57), (7.973004650728607, 3), (900.0, 7), (1e-4, 99)],
)
def test_shares_never_add_up_to_more_than_epsilon(epsilon, k):
    # Noise and ledgers read decimals: the float next to 3.2 / 57 is written .056140350877192984; 57 of it pass 3.2.
    mechanism = OneShotTopK(epsilon, k)
    assert exact(mechanism.one.epsilon) * k <= exact(epsilon)
    assert price(mechanism.event, "epsilon").fits_in(Budget(epsilon).caps)
    assert mechanism.one.epsilon == pytest.approx(epsilon / k, rel=1e-14, abs=1e-15)


def test_a_long_list_of_many_candidates_holds_each_once():
    counts = np.random.default_rng(3).integers(0, 50, 5_000)
    chosen = OneShotTopK(20.0, 40).select(scores(counts), SystemRandomness())
    assert len(set(chosen)) == 40


def test_at_a_large_epsilon_the_list_is_the_best_one():
    source = SeededRandomness(2)
    assert {OneShotTopK(900.0, 3).select(scores((5, 100, 50, 0)), source) for _ in range(20)} == {(1, 2, 0)}


@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 0), (1.0, 2.0), (1.0, True), (1e-6, 2), (float("nan"), 2), (0, 1)])
def test_parameters_out_of_range_are_refused(epsilon, k):
    with pytest.raises(ParameterError):
        OneShotTopK(epsilon, k)


def test_a_list_longer_than_the_candidates_is_refused():
    with pytest.raises(ParameterError, match="at most 3"):
        OneShotTopK(1.0, 4).select(scores((1, 2, 3)), SystemRandomness())
