"""Noisy max with discrete Laplace noise: its law, ties, its loss and its price."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.noisy_max import LaplaceNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.privacy.accounting.accountant import rho_of_pure
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import losses

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def scores(values, sensitivity=1, adjacency=AR):
    return Scores(values, sensitivity=sensitivity, adjacency=adjacency)


def slow_law(values, scale, reach):
    """Every combination of noises on a short grid, ties shared equally."""
    q = math.exp(-1 / scale)
    mass = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-reach, reach + 1)}
    law = np.zeros(len(values))
    for noise in product(mass, repeat=len(values)):
        noisy = [v + x for v, x in zip(values, noise, strict=True)]
        best = [i for i, v in enumerate(noisy) if v == max(noisy)]
        for i in best:
            law[i] += math.prod(mass[x] for x in noise) / len(best)
    return law


@pytest.mark.parametrize("values", [[0, 0], [2, 0], [3, 1, 1], [0, -6, 0]], ids=str)
def test_the_law_is_that_of_every_combination_of_noises(values):
    # Scale one half: noise beyond 18 has probability below 1e-15.
    law = LaplaceNoisyMax(2.0).law(scores(values))
    assert law == pytest.approx(slow_law(values, 0.5, 18 if len(values) == 3 else 25), rel=1e-9)
    assert sum(law) == pytest.approx(1, abs=1e-13)


def test_two_candidates_by_hand():
    # The difference of two noises: P(X - Y >= d) in closed form, from the convolution of the law with itself.
    b, d = 2.0, 3
    q = math.exp(-1 / b)
    c = ((1 - q) / (1 + q)) ** 2

    def convolved(n):
        return c * q**n * (n + (1 + q * q) / (1 - q * q))

    behind = math.fsum(convolved(n) for n in range(d + 1, 400)) + convolved(d) / 2
    assert LaplaceNoisyMax(0.5).law(scores([d, 0]))[1] == pytest.approx(behind, rel=1e-12)


def test_a_fine_grid_gives_the_continuous_value_of_the_specification():
    # Specification 5.2: votes (5, 3, 2) at epsilon 1, Laplace .6392 under replacement and .8337 under add-remove.
    for sensitivity, expected in ((2, 0.6392), (1, 0.8337)):
        fine = [v * 64 for v in (5, 3, 2)]
        law = LaplaceNoisyMax(1.0).law(scores(fine, 64 * sensitivity, RO))
        assert law[0] == pytest.approx(expected, abs=1e-4)


def test_far_candidates_keep_their_relative_accuracy():
    # Two candidates 60 scales apart: (1/2 + d (1 - q) / (4 ...)) e**-60 in closed form as above; not zero, not noise.
    q, d = math.exp(-1), 60
    c = ((1 - q) / (1 + q)) ** 2
    tail = math.fsum(c * q**n * (n + (1 + q * q) / (1 - q * q)) for n in range(d + 1, 200))
    behind = tail + c * q**d * (d + (1 + q * q) / (1 - q * q)) / 2
    assert LaplaceNoisyMax(1.0).law(scores([d, 0]))[1] == pytest.approx(behind, rel=1e-10)


def term_by_term(values, scale, reach):
    """The same sum with every whole number a term, for candidates that are not tied."""
    q, at = math.exp(-1 / scale), np.arange(min(values) - reach, max(values) + reach + 1)
    mass = [(1 - q) / (1 + q) * q ** np.abs(at - v) for v in values]
    below = [np.where(at > v, 1 - q ** (at - v) / (1 + q), q ** (v - at + 1) / (1 + q)) for v in values]
    others = [[(below[j], mass[j]) for j in range(len(values)) if j != i] for i in range(len(values))]
    (a, b), (c, d) = (np.array([other[n] for other in others]).swapaxes(0, 1) for n in range(2))
    return (np.array(mass) * (a * c + (a * d + b * c) / 2 + b * d / 3)).sum(axis=1)


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(8, 0.5), (60, 2.0), (2000, 1.0), (4000, 7.0)])
def test_places_between_two_scores_stand_for_all_whole_numbers(sensitivity, epsilon):
    values = [3 * sensitivity, 0, 17]
    law = LaplaceNoisyMax(epsilon).law(scores(values, sensitivity))
    scale = sensitivity / epsilon
    assert law == pytest.approx(term_by_term(values, scale, math.ceil(45 * scale)), rel=1e-12)


def test_ties_are_broken_by_chance_and_not_by_place():
    # Three equal scores and hardly any noise: with ties broken by place the first would win always. Five deviations.
    source = SeededRandomness(6)
    seen = np.bincount([LaplaceNoisyMax(60.0).select(scores([4, 4, 4]), source) for _ in range(3000)], minlength=3)
    assert np.abs(seen - 1000).max() < 5 * math.sqrt(3000 * 2 / 9)
    assert LaplaceNoisyMax(60.0).law(scores([4, 4, 4])) == pytest.approx([1 / 3] * 3)


def test_the_loss_of_epsilon_is_reached_and_not_passed():
    worst = max(
        np.abs(
            losses(LaplaceNoisyMax(1.0).law(scores([0, gap, gap])), LaplaceNoisyMax(1.0).law(scores([1, gap, gap])))
        ).max()
        for gap in range(12)
    )
    assert 0.99 < worst <= 1 + 1e-12


def test_it_is_not_bounded_range_and_charged_as_pure():
    # Two of three equal counts rise: losses of .64 and -.50.
    p, q = (LaplaceNoisyMax(1.0).law(scores(v)) for v in ((3, 3, 3), (4, 4, 3)))
    assert np.ptp(losses(p, q)) > 1.13
    assert LaplaceNoisyMax(1.0).event == PureDP(1.0)
    assert cost_of(PureDP(1.0)).rho == rho_of_pure(1.0)


def test_permute_and_flip_is_never_behind_at_one_price():
    for values in ([5, 3, 2], [1, 0], [4, 4, 0], [9, 8, 8, 7]):
        s = scores(values, 2, RO)
        assert float(PermuteAndFlip(0.9).law(s)[0]) > LaplaceNoisyMax(0.9).law(s)[0] - 1e-12


@pytest.mark.parametrize("bad", [0, -1, float("nan"), 5000, "one", None, True])
def test_an_epsilon_that_is_no_price_is_refused(bad):
    with pytest.raises(ParameterError, match="epsilon"):
        LaplaceNoisyMax(bad)
