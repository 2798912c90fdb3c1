"""The discrete Laplace sampler against its closed form, and what its law costs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from scripted import exact_law
from sottovoce.errors import ParameterError
from sottovoce.mechanisms.samplers.discrete_laplace import bernoulli_exp, sample_discrete_laplace
from sottovoce.privacy.accounting.accountant import rho_of_pure
from sottovoce.randomness import SeededRandomness


def mass(x: int, scale: float) -> float:
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** abs(x)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(2)])
def test_every_branch_of_the_sampler_adds_up_to_the_closed_form(scale):
    # Walked exactly; branches below 2**-16 are cut off and counted. The rest has to fill the law to within them.
    walked = exact_law(lambda source: sample_discrete_laplace(scale, source), least=Fraction(1, 2**16))
    cut = float(walked.pop(None))

    def possible(assumed):
        return all(0 <= mass(x, assumed) - float(walked.get(x, 0)) <= cut for x in range(-3, 4))

    assert cut < 0.14
    assert possible(float(scale))
    assert not possible(float(scale) * 0.7)
    assert not possible(float(scale) * 1.5)


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_every_branch_of_a_coin_adds_up_to_its_odds(x):
    walked = exact_law(lambda source: bernoulli_exp(x, source), least=Fraction(1, 2**18))
    cut = float(walked.pop(None, Fraction(0)))
    assert cut < 1e-3
    assert float(walked[True]) - 1e-15 <= math.exp(-x) <= float(walked[True]) + cut + 1e-15


@pytest.mark.cases(1)
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2), Fraction(20480, 7)])
def test_draws_follow_the_law(scale):
    # Nine bins, 30,000 draws, false alarm 1e-6; the same draws refute a scale 10 % larger.
    source, n = SeededRandomness(11), 30_000
    draws = np.array([sample_discrete_laplace(scale, source) for _ in range(n)])
    edges = np.array([-2.0, -1.0, -0.4, -0.01, 0.01, 0.4, 1.0, 2.0]) * float(scale)
    seen = np.bincount(np.searchsorted(edges, draws), minlength=9)
    far = int(60 * scale) + 60
    grid = np.arange(-far, far + 1)

    def fit(assumed):
        expected = np.zeros(9)
        np.add.at(expected, np.searchsorted(edges, grid), [mass(int(x), assumed) for x in grid])
        kept = expected * n > 5
        return chisquare(seen[kept], expected[kept] / expected[kept].sum() * seen[kept].sum()).pvalue

    assert fit(float(scale)) > 1e-6
    assert fit(float(scale) * 1.1) < 1e-6


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1, 2)])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(ParameterError, match="scale"):
        sample_discrete_laplace(scale, SeededRandomness(1))


def divergence(scale: float, shift: int) -> float:
    """KL between the law and the law moved by ``shift``, summed."""
    grid = range(-int(60 * scale) - shift, int(60 * scale) + 2 * shift)
    return math.fsum(mass(x, scale) * (abs(x - shift) - abs(x)) / scale for x in grid)


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 1), (2.0, 1), (2.0, 2), (5.0, 2), (40.0, 40)])
def test_whole_numbers_cost_more_than_the_continuous_formula_says(scale, shift):
    # T7's epsilon + exp(-epsilon) - 1 belongs to the continuous law. The discrete law loses
    # (d - 2 q (1 - q**d) / (1 - q**2)) / b, which is more; for d = 1 it is all that pure DP allows.
    epsilon, q = shift / scale, math.exp(-1 / scale)
    loses = divergence(scale, shift)
    assert loses == pytest.approx((shift - 2 * q * (1 - q**shift) / (1 - q * q)) / scale, rel=1e-9)
    assert epsilon + math.exp(-epsilon) - 1 < loses <= rho_of_pure(epsilon) * (1 + 1e-12)
    if shift == 1:
        assert loses == pytest.approx(rho_of_pure(epsilon), rel=1e-9)
