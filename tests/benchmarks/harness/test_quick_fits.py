"""Shortcuts of benchmarks: the same laws and the same sums as the product's own way, and no trace of them behind."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp

from sottovoce.benchmarks.harness.quick_fits import PublicSums, quick_release, shortcuts
from sottovoce.experts.gradient_sums import GradientSums
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, Block, ClassSums, Likeness, SumRule, UnitCount
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs, make_fitter
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Task

ALARM = 1e-4
"""Chance that a statistical test below fails though nothing is wrong; seeds are fixed."""


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def rows() -> np.ndarray:
    return unit(np.random.default_rng(1).normal(size=(40, 6)))


def sums_over(rows: np.ndarray, labels: np.ndarray) -> PublicSums:
    return PublicSums(rows, labels, SWAP, Adjacency.REPLACE_ONE, lambda queries: pytest.fail("nobody was to be asked"))


@pytest.mark.parametrize("factor", [1.0, 1.15])
def test_quick_noise_has_the_law_of_the_exact_sampler(factor):
    # A deviation that is 15 % off is rejected, and by far.
    mechanism, size, reach = RoundedGaussian(noise_multiplier=1.5), 20_000, 8
    vector = VectorSum(np.zeros(size, dtype=np.int64), squared_l2=4, adjacency=Adjacency.REPLACE_ONE)
    drawn = np.rint(np.array(quick_release(mechanism, vector, SeededRandomness(3)).steps) * factor)
    expected = mechanism.noise_law(vector, reach)
    found = np.array([(drawn == value).sum() for value in range(-reach, reach + 1)])
    chance = chisquare(np.append(found, size - found.sum()), np.append(expected, 1 - expected.sum()) * size).pvalue
    assert (chance > ALARM) == (factor == 1.0)


@pytest.mark.parametrize("with_map", [False, True])
def test_sums_are_those_of_the_rules(rows, with_map):
    labels = np.arange(40) % 3
    mapped = PublicMap.concentrating(unit(np.random.default_rng(2).normal(size=(60, 6))), 0.05)[0] if with_map else None
    rules: list[tuple[SumRule, int]] = [
        (UnitCount(), 0),
        (ClassSums(3, 6, 4, mapped), 14 if with_map else 0),
        (Likeness(3, unit(np.random.default_rng(4).normal(size=(9, 6))), 0.0, 0.5, mapped), 40),
        (GradientSums(np.random.default_rng(9).normal(size=(3, 7)), 0.5, 0.3, mapped), 40),
    ]
    with shortcuts():
        found = [sums_over(rows, labels).sum_of(rule) for rule, _ in rules]
    for (rule, steps), quick in zip(rules, found, strict=True):
        exact = rule.add_up(Block(rows, labels.tolist(), range(40)))
        assert quick.dtype == np.int64
        assert np.abs(quick - exact).max() <= steps  # a record's rounding to a grid step can fall the other way
        assert np.abs(exact).max() > LIMIT


def test_the_map_of_a_pool_is_the_same():
    pool, rows = (unit(np.random.default_rng(seed).normal(size=(50, 5)) * [3, 2, 1, 1, 0.3]) for seed in (5, 6))
    exact, variances = PublicMap.concentrating(pool, 0.2)
    with shortcuts():
        quick, found = PublicMap.concentrating(pool, 0.2)
        mapped = quick(rows)
    assert found == pytest.approx(variances)
    assert np.abs(mapped) == pytest.approx(np.abs(exact(rows)))  # an axis has no sign


def fits(count: int) -> np.ndarray:
    """One weight and one offset of as many fits of a small cell."""
    rows, pool = (unit(np.random.default_rng(seed).normal(size=(30, 3))) for seed in (7, 8))
    setting = FitSetting(labels=2, dimension=3, units=30, adjacency=Adjacency.REPLACE_ONE, change=SWAP, candidates=30)
    plan = make_fitter("class-means").plan(Price(4.0, 1e-6), setting)
    inputs = PublicInputs(
        Task(labels=["a", "b"]),
        FakeScorer(),
        FakeScorer(),
        [{"text": "a"}] * 30,
        pool,
        lambda queries: pytest.fail("asked"),
    )
    private = sums_over(rows, np.arange(30) % 2)
    supports = [plan.fitter.fit(plan, private, inputs, SeededRandomness(seed)) for seed in range(count)]
    return np.array([(support.weights[0, 0], support.offset[1]) for support in supports])


@pytest.mark.slow
def test_a_fit_has_the_same_law_either_way():
    exact = fits(400)
    with shortcuts():
        quick = fits(400)
    for place in range(2):
        assert ks_2samp(np.abs(exact[:, place]), np.abs(quick[:, place])).pvalue > ALARM
        assert ks_2samp(np.abs(exact[:, place]), 1.4 * np.abs(quick[:, place])).pvalue < ALARM


def test_nothing_of_it_stays_behind():
    before = [vars(RoundedGaussian)["release"], vars(PublicMap)["__call__"], vars(PublicMap)["concentrating"]]
    with shortcuts():
        assert vars(RoundedGaussian)["release"] is not before[0]
    assert [vars(RoundedGaussian)["release"], vars(PublicMap)["__call__"], vars(PublicMap)["concentrating"]] == before
    vector = VectorSum([0] * 4, squared_l2=LIMIT, adjacency=Adjacency.REPLACE_ONE, grid_step=Fraction(1, LIMIT))
    noise = RoundedGaussian(1.0)
    assert noise.release(vector, SeededRandomness(1)) != quick_release(noise, vector, SeededRandomness(1))
    assert math.isfinite(noise.release(vector, SeededRandomness(1)).values.sum())
