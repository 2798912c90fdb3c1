"""Few draws in each of many worlds: no alarm where nothing is wrong, and one where a part of the worlds is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sottovoce.randomness import SeededRandomness
from sottovoce.testing.draws import ALARM
from sottovoce.testing.pools import Pool, hits_law

WORLDS = 400


def pooled(seed: int, quiet=lambda labels, lead: False) -> Pool:
    """Worlds of two to five outcomes; the sampler takes the likeliest where ``quiet`` says so."""
    source, pool = SeededRandomness(seed), Pool()
    for number in range(WORLDS):
        labels, lead = 2 + source.below(4), source.below(3)
        weights = np.array([np.exp(lead), *([1.0] * (labels - 1))])
        law = dict(enumerate((weights / weights.sum()).tolist()))
        edges = np.cumsum(list(law.values()))
        drawn = [
            0 if quiet(labels, lead) else int(np.searchsorted(edges[:-1], source.below(2**40) / 2**40, side="right"))
            for _ in range(2)
        ]
        pool.add({"labels": labels, "lead": lead}, law, drawn, f"world {number}")
    return pool


@pytest.mark.slow
def test_draws_that_follow_their_laws_raise_no_alarm():
    # 30 pools: a false alarm has probability 30 * 1e-9.
    assert ALARM == 1e-9
    assert {pooled(seed).departs() for seed in range(30)} == {("", "")}


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("quiet", "told"),
    [
        (lambda labels, lead: labels == 4, "with labels 4"),
        (lambda labels, lead: lead == 1, "with lead 1"),
        (lambda labels, lead: labels == 3 and lead == 0, "with labels 3, lead 0"),
    ],
)
def test_a_sampler_that_is_quiet_in_some_worlds_is_noticed_by_what_they_have_in_common(quiet, told):
    # 33 worlds at least have both features; 66 hits of a chance of one third, or of 0.6, are below the level.
    for seed in range(10):
        found, world = pooled(seed, quiet).departs()
        assert "the likeliest outcome came" in found
        assert told in found
        assert world.startswith("world")


def test_what_the_law_makes_impossible_is_noticed_at_once():
    pool = Pool()
    pool.add({}, {"a": 0.5, "b": 0.5}, ["z"], "a world")
    assert pool.departs() == ("outcome 'z' is impossible by its law and came (a world)", "")


def test_hits_of_equal_chances_are_binomial_and_those_of_others_are_added_up():
    assert hits_law(np.full(60, 0.3)) == pytest.approx(binom.pmf(np.arange(61), 60, 0.3), rel=1e-9)
    assert hits_law(np.array([1.0, 0.5, 0.0])) == pytest.approx([0, 0.5, 0.5, 0])
