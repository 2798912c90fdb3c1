"""Bounds from many canaries: figures of the papers, a linear program beside the recursion, and who keeps the level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from sottovoce.audits.bounds import epsilon_of_one_run
from sottovoce.audits.one_run import (
    curve_p_value,
    curve_refuted,
    epsilon_of_gaussian_run,
    epsilon_of_gaussian_trials,
    independent_p_value,
    largest_refuted,
    mu_of_independent,
    mu_of_one_run,
    points_of_pure,
)
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError


def test_three_bounds_from_the_same_guesses():
    # mu .5, 1,000 canaries, 100 guesses of which 74.1 are right on average; the truth is 1.993.
    assert epsilon_of_one_run(1000, 100, 74, 1e-5) == pytest.approx(0.652, abs=5e-4)
    assert epsilon_of_gaussian_run(1000, 100, 74, 1e-5) == pytest.approx(0.932, abs=5e-4)
    assert epsilon_of_gaussian_trials(1000, 100, 74, 1e-5) == pytest.approx(1.193, abs=1e-3)


def largest_tail(curve: TradeOff, canaries: int, guesses: int, correct: int) -> float:
    """The largest P[V >= v] of any law of V that section 4's inequalities allow, by linear programming.

    Each concave bound is a set of lines: i p_i summed over a tail is below the line of every pair of the curve.
    """
    levels, rows, limits = np.arange(guesses + 1), [], []
    for k in range(1, guesses + 1):
        right = np.where(levels >= k, levels, 0) / canaries
        wrong = np.where(levels >= k - 1, guesses - levels, 0) / canaries
        for epsilon, delta in zip(curve.epsilons, curve.deltas, strict=True):
            rows += [right - math.exp(epsilon) * wrong, -math.exp(-epsilon) * wrong + math.exp(-epsilon) * right]
            limits += [delta, 0.0]
            rows[-1] = right - math.exp(-epsilon) * wrong
            limits[-1] = 1 - math.exp(-epsilon) * (1 - delta)
    found = linprog(
        -(levels >= correct).astype(float), np.array(rows), limits, np.ones((1, guesses + 1)), [1.0], bounds=(0, 1)
    )
    assert found.success
    return float(-found.fun)


@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(12, 12, 10), (30, 8, 8), (30, 8, 7), (9, 9, 5)])
@pytest.mark.parametrize("points", [[(0.7, 0.0)], [(1.5, 0.01), (0.3, 0.2)]])
def test_the_recursion_is_the_linear_program(canaries, guesses, correct, points):
    curve = TradeOff.of_points(points)
    exact = largest_tail(curve, canaries, guesses, correct)
    assert curve_p_value(canaries, guesses, correct, curve) == pytest.approx(min(exact, 1.0), abs=1e-6)


def gaussian_guesses(mu: float, canaries: int, guesses: int, draws: np.random.Generator) -> int:
    present = draws.random(canaries) < 0.5
    apart = mu * (present - 0.5) + draws.standard_normal(canaries)
    surest = np.abs(apart).argsort()[::-1][:guesses]
    return int(((apart > 0) == present)[surest].sum())


def test_neither_test_refutes_gaussian_noise_too_often():
    """False alarm: both are at level .1; more than 135 of 1,000 has chance below 2e-4."""
    curve, runs = TradeOff.of_mu(0.5), 1000
    draws = np.random.default_rng(20)
    drawn = [gaussian_guesses(0.5, 200, 40, draws) for _ in range(runs)]
    by_curve = {v: curve_refuted(200, 40, v, curve, 0.1) for v in set(drawn)}
    by_order = {v: independent_p_value(200, 40, v, curve) <= 0.1 for v in set(drawn)}
    assert sum(by_curve[v] for v in drawn) <= 135
    assert 20 <= sum(by_order[v] for v in drawn) <= 135
    # A wrong version: the null of all guesses for the surest 40 of them refutes a true curve half of the time.
    wrong = {v: binom.sf(v - 1, 40, curve.accuracy) <= 0.1 for v in set(drawn)}
    assert sum(wrong[v] for v in drawn) > 400


def tied(often: float, right: float) -> TradeOff:
    """Of one canary, where a release answers about all of them with a chance, and else says nothing."""
    return TradeOff.of_points([(0.0, often * (2 * right - 1)), (math.log(right / (1 - right)), 0.0)])


@pytest.mark.parametrize(("often", "right"), [(0.2, 0.88), (0.06, 0.78), (0.5, 0.7), (0.04, 0.99)])
def test_only_the_test_of_the_curve_holds_for_canaries_that_are_tied_together(often, right):
    canaries = 200
    counts = np.arange(canaries + 1)
    law = often * binom.pmf(counts, canaries, right) + (1 - often) * binom.pmf(counts, canaries, 0.5)
    curve = tied(often, right)
    alarms = {
        "curve": [v for v in counts if curve_refuted(canaries, canaries, int(v), curve)],
        "independent": [v for v in counts if independent_p_value(canaries, canaries, int(v), curve) <= 0.05],
    }
    assert law[alarms["curve"]].sum() <= 0.05
    if often > 0.05:
        assert law[alarms["independent"]].sum() > 0.9 * often


def test_a_release_that_shows_one_coin_is_not_refuted_by_one_guess():
    # It shows each coin with probability delta = 1/m; the only guess is right nearly always. The divisor m matters.
    canaries = 200
    curve = TradeOff.of_points([(0.0, 1 / canaries)])
    assert curve_p_value(canaries, 1, 1, curve) >= 0.999
    assert epsilon_of_one_run(canaries, 1, 1, 1 / canaries) == 0


def test_independent_trials_of_a_pure_release_are_binomial():
    # All of its guesses are equally sure, so that the surest are any.
    curve, right = points_of_pure(1.0), 1 / (1 + math.exp(-1.0))
    for trials, guesses, correct in ((100, 100, 80), (1000, 100, 85)):
        assert independent_p_value(trials, guesses, correct, curve) == pytest.approx(
            binom.sf(correct - 1, guesses, right), rel=1e-5
        )


@pytest.mark.slow
def test_order_statistics_by_simulation():
    """False alarm: the estimate from 20,000 draws is within 4.5 standard errors with chance 1 - 7e-6."""
    draws, runs = np.random.default_rng(3), 20_000
    hits = sum(gaussian_guesses(1.0, 50, 10, draws) >= 9 for _ in range(runs)) / runs
    stated = independent_p_value(50, 10, 9, TradeOff.of_mu(1.0))
    assert abs(hits - stated) < 4.5 * math.sqrt(stated * (1 - stated) / runs) + 5e-4
    assert abs(hits - binom.sf(8, 10, TradeOff.of_mu(1.0).accuracy)) > 0.05


@pytest.mark.slow
def test_more_right_guesses_and_smaller_curves_are_refuted_more():
    p_values = [curve_p_value(100, 40, v, TradeOff.of_mu(0.4)) for v in range(20, 41, 4)]
    assert p_values == sorted(p_values, reverse=True)
    assert mu_of_one_run(500, 100, 80) > mu_of_one_run(500, 100, 70) > mu_of_one_run(500, 100, 70, alpha=0.01) > 0
    assert mu_of_independent(500, 100, 80) > mu_of_one_run(500, 100, 80)
    assert mu_of_one_run(500, 100, 50) == 0
    assert largest_refuted(lambda mu: mu < 3, 8) == pytest.approx(3, abs=1e-6)


def test_counts_that_cannot_be_are_refused():
    for wrong in ((10, 11, 5), (10, 5, 6), (10, 0, 0), (10, 5, -1)):
        with pytest.raises(ParameterError, match="correct"):
            curve_p_value(*wrong, TradeOff.of_mu(1.0))
        with pytest.raises(ParameterError, match="correct"):
            independent_p_value(*wrong, TradeOff.of_mu(1.0))
    with pytest.raises(ParameterError, match="alpha"):
        curve_refuted(10, 5, 5, TradeOff.of_mu(1.0), 1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        points_of_pure(math.inf)
