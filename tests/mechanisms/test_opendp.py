"""Cross-checks with OpenDP: its privacy maps, and its samplers' frequencies against our laws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax, LaplaceNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.mechanisms.samplers.integer_weights import rate_per_step, weight_table
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

dp = pytest.importorskip("opendp.prelude", reason="opendp is a development requirement")
dp.enable_features("contrib")
COUNTS = [6, 4, 3, 0]
DRAWS = 10_000


def noisy_max(measure, scale):
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    return dp.m.make_noisy_max(*space, measure, scale=scale)


def frequencies(measurement):
    counts = np.array(COUNTS, dtype=np.int32)
    return np.bincount([measurement(counts) for _ in range(DRAWS)], minlength=len(COUNTS))


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["exponential", "permute_and_flip"])
@pytest.mark.slow
def test_noisy_max_has_our_law_at_the_same_price(name):
    # Every count may move by one (linf distance 1): range 2, so epsilon 1 means scale 2. False alarm 1e-6.
    measure = dp.max_divergence() if name == "permute_and_flip" else dp.zero_concentrated_divergence()
    theirs = noisy_max(measure, scale=2.0)
    ours = PermuteAndFlip(1.0) if name == "permute_and_flip" else Exponential(1.0)
    scores = Scores(COUNTS, sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
    law = np.array([float(p) for p in ours.law(scores)])
    seen = frequencies(theirs)
    assert chisquare(seen, law * DRAWS).pvalue > 1e-6
    other = np.array([float(p) for p in type(ours)(1.3).law(scores)])
    assert chisquare(seen, other * DRAWS).pvalue < 1e-6


def test_their_maps_agree_with_our_prices():
    assert noisy_max(dp.max_divergence(), 2.0).map(1) == pytest.approx(1.0)
    assert noisy_max(dp.zero_concentrated_divergence(), 2.0).map(1) == pytest.approx(1 / 8)
    gaussian = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=2.0)
    sigma2 = float(
        GaussianNoisyMax(gaussian.map(1.0)).sigma2(
            Scores([1], sensitivity=1, adjacency=Adjacency.ADD_REMOVE, squared_l2=1)
        )
    )
    assert sigma2 == pytest.approx(4.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_single_integers_have_the_same_law_as_theirs(name):
    # Scale 2, eleven bins, 8,000 draws of each; false alarm 1e-6. Ours at scale 2.5 is told from theirs.
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int if name == "laplace" else float)
    theirs = (dp.m.make_laplace if name == "laplace" else dp.m.make_gaussian)(*space, scale=2.0)
    source, n = SeededRandomness(12), 8_000

    def ours(scale):
        if name == "laplace":
            return sample_discrete_laplace(scale, source)
        return sample_discrete_gaussian(scale * scale, source)

    def bins(draws):
        return np.bincount(np.clip(np.array(draws) + 5, 0, 10), minlength=11)

    seen = bins([theirs(0) for _ in range(n)])
    assert chi2_contingency([seen, bins([ours(Fraction(2)) for _ in range(n)])]).pvalue > 1e-6
    assert chi2_contingency([seen, bins([ours(Fraction(5, 2)) for _ in range(n)])]).pvalue < 1e-6


def test_their_price_of_laplace_noise_is_ours():
    laplace = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=2.0)
    scores = Scores([3, 1], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
    assert LaplaceNoisyMax(laplace.map(2)).scale(scores) == 2


@pytest.mark.slow
def test_noisy_max_over_a_vocabulary_has_our_law_at_the_same_price():
    # 50,000 candidates on a fine grid, 800 draws in ten bins of levels; false alarm 1e-6, 40 % off is refuted.
    values = -np.random.default_rng(7).integers(0, 60_000, 50_000)
    scores = Scores(values, sensitivity=6144, adjacency=Adjacency.REPLACE_ONE)
    theirs = noisy_max(dp.zero_concentrated_divergence(), scale=6144.0)
    order = np.argsort(-values, kind="stable")
    place = np.empty(len(values), dtype=int)
    place[order] = np.arange(len(values))

    def chances(epsilon):
        weights = np.array(
            weight_table(rate_per_step(exact(epsilon), 6144)).weights(-values[order] + values.max()), float
        )
        return np.add.reduceat(weights, edges) / weights.sum()

    cumulative = np.cumsum(np.exp(values[order] / 6144))
    edges = np.concatenate([[0], np.searchsorted(cumulative, cumulative[-1] * np.arange(1, 10) / 10)])
    source = SeededRandomness(13)
    for draw in (lambda: theirs(values.astype(np.int32)), lambda: Exponential(1.0).select(scores, source)):
        seen = np.bincount(
            [np.searchsorted(edges, place[draw()], side="right") - 1 for _ in range(800)], minlength=len(edges)
        )
        assert chisquare(seen, chances(1.0) * 800).pvalue > 1e-6
        assert chisquare(seen, chances(1.4) * 800).pvalue < 1e-6
