"""Exact leakage beside an estimate from redrawn noise: the estimate stays below it, and both see the known flaws."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.audits.broken import known_mechanisms
from sottovoce.audits.exact.pair import GaussianPair, exact_epsilon
from sottovoce.benchmarks.contextleak import snapshots
from sottovoce.benchmarks.harness import evaluation as e


def estimate(mu, seed=7):
    noise = np.random.default_rng(seed).standard_normal((2, snapshots.REDRAWS))
    return snapshots.estimated_epsilon(noise[0] >= mu / 2, noise[1] < -mu / 2, e.DELTA)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_exact_leakage_is_no_smaller_than_the_estimate(epsilon):
    mu = snapshots.RELEASES[snapshots.SOUND](epsilon)
    assert exact_epsilon(GaussianPair(mu), e.DELTA) == pytest.approx(epsilon, rel=1e-4), "the price is used up"
    assert 0.9 * epsilon < estimate(mu) <= epsilon


@pytest.mark.parametrize(("epsilon", "flawed"), [(8.0, False), (10.0, True), (20.0, True)])
def test_the_classical_noise_leaks_more_than_it_claims_at_a_large_epsilon(epsilon, flawed):
    mu = snapshots.classical_mu(epsilon, e.DELTA)
    exact = exact_epsilon(GaussianPair(mu), e.DELTA)
    assert estimate(mu) <= exact
    assert ((exact > epsilon), (estimate(mu) > epsilon)) == (flawed, flawed)


def test_one_partition_leaks_what_the_specification_says():
    # Specification 11, item 24: with drop noise 1 becomes 2.155 and 8 becomes 19.1.
    found = [exact_epsilon(GaussianPair(snapshots.RELEASES[snapshots.ONE_PARTITION](x)), e.DELTA) for x in (1.0, 8.0)]
    assert found == pytest.approx([2.155, 19.12], abs=2e-3)


def test_both_flaws_stand_among_the_known_ones():
    assert {"classical-gaussian", "esa-one-partition"} <= set(known_mechanisms())


def test_rates_without_a_signal_give_no_epsilon():
    assert snapshots.estimated_epsilon(np.arange(100) % 2 == 0, np.arange(100) % 2 == 1, e.DELTA) == 0.0
