"""Discrete Laplace noise on counts: exact losses over every change that the L1 bound allows."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.errors import OpaqueError, ParameterError
from sottovoce.mechanisms.laplace import Laplace, at_least, at_least_bound
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Counts
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

RO = Adjacency.REPLACE_ONE


def counts(values=(0,), l1=1) -> Counts:
    return Counts(list(values), l1=l1, adjacency=RO)


def largest_loss(mechanism: Laplace, l1_stated: int, l1_true: int) -> float:
    """Over every move of two counts with the true L1 norm, and every pair of noisy counts near enough to matter."""
    law = np.log(mechanism.noise_law(counts(l1=l1_stated), 60))
    worst = -math.inf
    for a, b in itertools.product(range(-l1_true, l1_true + 1), repeat=2):
        if abs(a) + abs(b) <= l1_true:
            first, second = ((law - np.roll(law, move))[20:-20] for move in (a, b))
            worst = max(worst, np.abs(first[:, None] + second[None, :]).max())
    return float(worst)


@pytest.mark.parametrize("l1", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 3.0])
def test_the_loss_is_exactly_epsilon_over_every_change(epsilon, l1):
    assert largest_loss(Laplace(epsilon), l1, l1) == pytest.approx(epsilon, abs=1e-9)


def test_noise_for_a_drop_where_a_record_moves_is_caught():
    assert largest_loss(Laplace(0.7), l1_stated=1, l1_true=2) == pytest.approx(1.4, abs=1e-9)


def test_the_rho_of_continuous_noise_would_be_exceeded():
    # Specification T7: e + exp(-e) - 1 = .3679 at e = 1 is for the continuous law. The integer law's KL is .4621.
    law = Laplace(1.0).noise_law(counts(), 60)
    moved = np.roll(law, 1)[10:-10]
    divergence = float(np.sum(law[10:-10] * np.log(law[10:-10] / moved)))
    assert divergence == pytest.approx(0.462117, abs=1e-6)
    assert divergence > 1 + math.exp(-1) - 1
    assert Laplace(1.0).event == PureDP(1.0)
    assert divergence <= cost_of(Laplace(1.0).event).rho + 1e-12


def test_its_sampler_follows_its_law_and_ten_percent_less_noise_is_rejected():
    # 30,000 counts; false alarm 1e-6; the wrong scale is missed with less than 1e-6.
    summed = counts(np.arange(30_000) % 11 * 100, l1=2)

    def goodness_of_fit(stated, sampled):
        noise = np.array(sampled.release(summed, SeededRandomness(21))) - summed.values
        law = stated.noise_law(summed, 12)
        law[0] = law[-1] = float(at_least(12, stated.scale(summed)))
        seen = np.bincount(np.clip(noise, -12, 12) + 12, minlength=25)
        return chisquare(seen, law * len(noise)).pvalue

    assert goodness_of_fit(Laplace(0.7), Laplace(0.7)) > 1e-6
    assert goodness_of_fit(Laplace(0.7), Laplace(0.7 / 0.9)) < 1e-6


def test_tails_are_the_sums_of_the_law():
    law = Laplace(0.7).noise_law(counts(l1=2), 200)
    for bound in (-9, -1, 0, 1, 2, 30):
        assert at_least(bound, Fraction(20, 7)) == pytest.approx(law[200 + bound :].sum(), rel=1e-10)


@pytest.mark.parametrize("scale", [Fraction(1, 200), Fraction(1, 3), Fraction(2), Fraction(1000, 7)], ids=str)
def test_the_rigorous_tail_is_above_the_true_one_and_hardly_so(scale):
    for bound in (1, 2, 17):
        with mpmath.workdps(150):
            rate = mpmath.mpf(scale.denominator) / scale.numerator
            true = mpmath.exp(-rate * bound) / (1 + mpmath.exp(-rate))
            claimed = at_least_bound(bound, scale)
            claimed = mpmath.mpf(claimed.numerator) / claimed.denominator
            assert true <= claimed <= true * (1 + mpmath.mpf(10) ** -20) + mpmath.mpf(10) ** -43


def test_private_counts_neither_print_nor_pickle():
    assert "977" not in f"{counts((977, 978))!r} {counts((977, 978))} {[counts((977, 978))]}"
    with pytest.raises(OpaqueError):
        pickle.dumps(counts())


def test_what_would_make_the_bound_meaningless_is_refused():
    for values, l1 in (([], 1), ([0.5], 1), ([1], 0), ([1], 1.5), ([1], True), ([1 << 61], 1)):
        with pytest.raises(ParameterError):
            Counts(values, l1=l1, adjacency=RO)
    with pytest.raises(ParameterError, match="epsilon"):
        Laplace(0)
