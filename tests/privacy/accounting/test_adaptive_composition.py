"""The recursion for the worst adaptive sequence, against slow versions, whole trees and the specification's figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.privacy.accounting.adaptive_composition import finest_grid, optimal_epsilon, optimal_profile, work_of
from sottovoce.privacy.accounting.bounded_range import (
    delta_of_bounded_range,
    deltas_of_bounded_range,
    epsilon_of_bounded_range,
    rdp_of_bounded_range,
)
from sottovoce.privacy.accounting.gaussian_dp import delta_of_mu
from sottovoce.privacy.accounting.renyi import epsilon_of_rdp
from worlds import hockey_stick


def by_definition(eta, steps, grid, epsilon_steps, upper=True):
    """T6 as it stands: a function of the real line, evaluated recursively at one grid point."""
    m, step = (grid + 1 if upper else grid), eta / grid

    def p(t):
        return (1 - math.exp(t * step - m * step)) / (1 - math.exp(-m * step))

    def h(j, i):
        if j == 0:
            return max(0.0, 1 - math.exp(i * step))
        return max(p(t) * h(j - 1, i - t) + (1 - p(t)) * h(j - 1, i - t + m) for t in range(m + 1))

    return h(steps, epsilon_steps)


def test_the_recursion_is_t6_as_it_stands():
    for upper in (True, False):
        epsilons, deltas = optimal_profile(0.7, 3, reach=5.0, grid=5, upper=upper)
        for i in (0, 1, 4, 9):
            assert epsilons[i] == pytest.approx(i * 0.14)
            assert deltas[i] == pytest.approx(by_definition(0.7, 3, 5, i, upper), rel=1e-12)


def test_one_step_lies_around_the_closed_form():
    for eta in (0.1, 1.0, 4.0):
        epsilons, above = optimal_profile(eta, 1, reach=2 * eta, grid=400)
        exact = deltas_of_bounded_range(epsilons, eta)
        assert (above >= exact).all()
        assert above[:200] == pytest.approx(exact[:200], abs=3e-3)
        epsilons, below = optimal_profile(eta, 1, reach=2 * eta, grid=400, upper=False)
        exact = deltas_of_bounded_range(epsilons, eta)
        assert (below <= exact + 1e-15).all()
        assert below[::2] == pytest.approx(exact[: len(below) : 2], abs=1e-9)  # the worst t is half way, on the grid


def test_a_window_only_ever_makes_the_bounds_wider():
    for upper in (True, False):
        _, whole = optimal_profile(0.2, 30, reach=100.0, grid=20, upper=upper)
        _, window = optimal_profile(0.2, 30, reach=1.5, grid=20, upper=upper)
        gap = window - whole[: len(window)]
        assert (gap >= -1e-15).all() if upper else (gap <= 1e-15).all()
        assert np.abs(gap).max() > 1e-9  # the window is felt at its edge ...
        assert np.abs(gap[:60]).max() < 1e-2 * whole[60]  # ... and not far from it


def test_o17_and_the_other_certified_intervals():
    eta = 10 / (255 * 1.02)
    assert eta == pytest.approx(0.0384468, abs=1e-7)
    drop, swap = optimal_epsilon(eta, 100, 1e-5, 80), optimal_epsilon(2 * eta, 100, 1e-5, 80)
    assert (drop.lower, drop.upper) == (pytest.approx(0.6949, abs=6e-5), pytest.approx(0.7050, abs=6e-5))
    assert swap.upper == pytest.approx(1.5100, abs=6e-5)
    assert epsilon_of_rdp(100 * rdp_of_bounded_range(eta), 1e-5) == pytest.approx(0.7569, abs=1e-3)
    assert epsilon_of_rdp(100 * rdp_of_bounded_range(2 * eta), 1e-5) == pytest.approx(1.6107, abs=1e-3)
    larger = optimal_epsilon(10 / (380 * 1.02), 100, 1e-5, 80)
    assert (larger.lower, larger.upper) == (pytest.approx(0.4498, abs=1e-4), pytest.approx(0.4563, abs=6e-5))
    assert optimal_epsilon(20 / (255 * 0.131), 100, 1e-5, 24).lower == pytest.approx(16.49, abs=6e-3)


def test_a_finer_grid_narrows_the_interval_from_both_sides():
    found = [optimal_epsilon(0.3, 20, 1e-6, grid) for grid in (20, 40, 80, 160)]
    assert [one.upper for one in found] == sorted((one.upper for one in found), reverse=True)
    assert [one.lower for one in found] == sorted(one.lower for one in found)
    assert found[-1].upper - found[-1].lower < 0.025
    assert found[-1].upper < epsilon_of_rdp(20 * rdp_of_bounded_range(0.3), 1e-6)


def em_pair(rng, eta, outcomes=3):
    """The exponential mechanism's law and that of a neighbour whose utilities moved by eta in range."""
    u = rng.normal(0, 2, outcomes)
    v = rng.choice([0, eta], outcomes) if rng.random() < 0.6 else rng.uniform(0, eta, outcomes)
    p, q = np.exp(u), np.exp(u + v)
    return p / p.sum(), q / q.sum()


def test_p2_no_single_selection_exceeds_the_profile_of_its_range():
    rng = np.random.default_rng(5)
    worst = 0.0
    for _ in range(1500):
        eta = rng.choice([0.3, 1.0, 2.5])
        p, q = em_pair(rng, eta, int(rng.integers(2, 7)))
        for epsilon in (0.0, 0.3, 0.8, 1.5):
            found, most = hockey_stick(p, q, epsilon), delta_of_bounded_range(epsilon, eta)
            assert found <= most + 1e-12
            worst = max(worst, found / most) if most > 0 else worst
    assert worst > 0.9  # and the bound is nearly met


def test_p2_no_noisy_pair_exceeds_the_gaussian_profile():
    # Two counts with Gaussian noise, one vote moved: the argmax and its neighbour, against mu = sqrt(2)/sigma.
    for sigma in (1.0, 2.0):
        for lead in np.linspace(-4, 4, 17):
            win = [0.5 * math.erfc(-x / (2 * sigma)) for x in (lead, lead + 2)]
            p, q = [[w, 1 - w] for w in win]
            for epsilon in (0.0, 0.3, 0.8, 1.5):
                most = delta_of_mu(epsilon, math.sqrt(2) / sigma)
                assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= most + 1e-12


def generation(rng, eta, steps):
    """Both laws over whole answers, where every token's law depends on the tokens before it."""
    p, q = em_pair(rng, eta)
    if steps == 1:
        return p, q
    tails = [generation(rng, eta, steps - 1) for _ in p]
    return tuple(np.concatenate([law[a] * tail[i] for a, tail in enumerate(tails)]) for i, law in enumerate((p, q)))


@pytest.mark.parametrize("steps", [2, 3])
def test_p2_no_adaptive_generation_exceeds_the_recursion(steps):
    rng = np.random.default_rng(11)
    epsilons, above = optimal_profile(0.8, steps, reach=3.0, grid=60)
    _, fewer = optimal_profile(0.8, steps - 1, reach=3.0, grid=60)  # as if one token were free: must be exceeded
    exceeded = 0
    for _ in range(400):
        p, q = generation(rng, 0.8, steps)
        for epsilon in (0.0, 0.3, 0.8, 1.5):
            index = int(np.searchsorted(epsilons, epsilon, side="right")) - 1
            found = hockey_stick(p, q, epsilon)
            assert found <= above[index]
            exceeded += found > (fewer[index] if index < len(fewer) else 0.0)
    assert exceeded > 0


def test_an_interval_holds_the_exact_epsilon_of_one_release():
    for eta, delta in ((1.0, 1e-5), (0.3, 1e-3), (3.0, 0.05)):
        found = optimal_epsilon(eta, 1, delta, 200)
        assert found.lower <= epsilon_of_bounded_range(eta, delta) <= found.upper


def test_what_is_too_large_is_left_out_and_what_is_wrong_refused():
    assert optimal_epsilon(0.01, 10_000, 1e-6) is None
    assert work_of(0.01, 10_000, 1e-6, 40) > 3e9
    assert finest_grid(0.01, 10_000, 1e-6, 3e7) is None
    assert finest_grid(0.1, 50, 1e-6, 3e7) >= 100
    assert optimal_epsilon(0.0, 10, 1e-6).upper == 0
    assert optimal_epsilon(0.5, 2, 1e-300).upper == 1.0  # never above the pure total
    for eta, steps, delta, grid, name in (
        (-1.0, 1, 1e-6, 40, "eta"),
        (math.nan, 1, 1e-6, 40, "eta"),
        (0.1, -1, 1e-6, 40, "steps"),
        (0.1, 1, 0.0, 40, "delta"),
        (0.1, 1, 1e-6, 1, "grid"),
    ):
        with pytest.raises(ParameterError, match=name):
            optimal_epsilon(eta, steps, delta, grid)
