"""What every registered mechanism must do, asked exactly: is its stated law private, does its sampler follow it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.mechanisms.base import registered_selections
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.privacy.accountant import epsilon_of_rho
from sottovoce.privacy.scores import Scores
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import ADJACENCIES, change_of, hockey_stick, losses

MECHANISMS = {name: cls(**example) for name, (cls, example) in registered_selections().items()}
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)


def votes(counts, adjacency: Adjacency) -> Scores:
    change = change_of(adjacency)
    squared_l2 = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    return Scores(list(counts), sensitivity=change.widths, adjacency=adjacency, squared_l2=squared_l2)


def neighbouring_counts(adjacency: Adjacency, labels: int = 3, most: int = 4):
    """Every pair of vote counts that one change can produce: a small grid, and lopsided worlds, where losses peak."""
    lopsided = [tuple(60 * (i == big) + (i == one) for i in range(labels)) for big, one in ((0, 1), (1, 0), (1, 2))]
    for counts in [*itertools.product(range(most), repeat=labels), *(c[:labels] for c in lopsided)]:
        for out in range(labels):
            if counts[out] == 0:
                continue
            without = tuple(c - (i == out) for i, c in enumerate(counts))
            if adjacency is Adjacency.ADD_REMOVE:
                yield counts, without
                yield without, counts
            else:
                for into in range(labels):
                    yield counts, tuple(c + (i == into) for i, c in enumerate(without))


def worst_violation(mechanism, adjacency: Adjacency) -> float:
    """By how much the stated guarantee is exceeded over every small world; at most 0 if it holds."""
    worst = -math.inf
    pure = getattr(mechanism, "epsilon", None)
    for a, b in neighbouring_counts(adjacency):
        p, q = mechanism.law(votes(a, adjacency)), mechanism.law(votes(b, adjacency))
        if pure is not None:
            worst = max(worst, float(np.abs(losses(p, q)).max()) - pure)
        else:
            for delta in (1e-6, 1e-3):
                epsilon = epsilon_of_rho(mechanism.event.rho, delta)
                worst = max(worst, hockey_stick(p, q, epsilon) - delta)
    return worst


@every_mechanism
@every_adjacency
def test_its_stated_law_keeps_its_guarantee_in_every_small_world(mechanism, adjacency):
    assert worst_violation(mechanism, adjacency) <= 1e-12


@every_mechanism
def test_its_law_is_a_distribution_and_prefers_the_best(mechanism):
    law = [float(p) for p in mechanism.law(votes([5, 3, 2], Adjacency.REPLACE_ONE))]
    assert sum(law) == pytest.approx(1, abs=1e-12)
    assert law == sorted(law, reverse=True)
    assert min(law) > 0


@every_mechanism
def test_its_price_looks_at_no_data(mechanism):
    # The event is a property of parameters: it exists before there are scores.
    assert mechanism.event == type(mechanism)(**registered_selections()[_name(mechanism)][1]).event


@every_mechanism
def test_its_sampler_follows_its_law(mechanism):
    # 20,000 draws; false alarm 1e-6 for each mechanism. The next test shows that 10 % less noise is noticed.
    assert goodness_of_fit(mechanism, mechanism) > 1e-6


@pytest.mark.parametrize(
    ("stated", "sampled"),
    [
        (Exponential(epsilon=1.0), Exponential(epsilon=1.1)),
        (PermuteAndFlip(epsilon=1.0), PermuteAndFlip(epsilon=1.1)),
        (GaussianNoisyMax(rho=0.05), GaussianNoisyMax(rho=0.05 / 0.9**2)),
    ],
    ids=["exponential", "permute_and_flip", "gaussian"],
)
def test_a_sampler_with_ten_percent_less_noise_is_rejected(stated, sampled):
    # Power: with 60,000 draws the chance of missing this is below 1e-6 (non-centrality above 60 on 3 degrees).
    assert goodness_of_fit(stated, sampled, draws=60_000) < 1e-6


def goodness_of_fit(stated, sampled, draws: int = 20_000) -> float:
    scores = votes([6, 4, 3, 0], Adjacency.REPLACE_ONE)
    law = np.array([float(p) for p in stated.law(scores)])
    source = SeededRandomness(20261120)
    seen = np.bincount([sampled.select(scores, source) for _ in range(draws)], minlength=len(law))
    return float(chisquare(seen, law / law.sum() * draws).pvalue)


# Planted mistakes: each would pass as working code; each is caught by the enumeration above.


class _HalvedSensitivity(Exponential):
    """Uses factor 1 where a vote can move, as the paper's replace-one theorem does."""

    def law(self, scores):
        return super().law(Scores(scores.values, sensitivity=1, adjacency=scores.adjacency))


class _TooLittleNoise(Exponential):
    def law(self, scores):
        return Exponential(self.epsilon * 1.1).law(scores)


class _FloatSampler(Exponential):
    """Softmax in float32, rounded to the grid of a 24-bit uniform: far candidates become impossible."""

    def law(self, scores):
        logits = np.float32(self.epsilon) * (scores.values - scores.values.max()) / np.float32(scores.sensitivity)
        p = np.exp(logits.astype(np.float32))
        edges = np.round(np.cumsum(p / p.sum(dtype=np.float32), dtype=np.float32) * 2**24)
        return [Fraction(int(w), 2**24) for w in np.diff(np.concatenate([[0], edges]))]


def test_factor_one_under_replace_one_is_caught():
    assert worst_violation(_HalvedSensitivity(0.7), Adjacency.REPLACE_ONE) > 0.3
    assert worst_violation(_HalvedSensitivity(0.7), Adjacency.ADD_REMOVE) <= 1e-12


@every_adjacency
def test_ten_percent_too_little_noise_is_caught(adjacency):
    assert worst_violation(_TooLittleNoise(0.7), adjacency) > 0.01


def test_a_float_sampler_is_caught():
    near = Scores([0, -24], sensitivity=1, adjacency=Adjacency.ADD_REMOVE)
    far = Scores([0, -25], sensitivity=1, adjacency=Adjacency.ADD_REMOVE)
    assert min(_FloatSampler(1.0).law(far)) == 0  # impossible: an unbounded loss
    law = Exponential(1.0).law(far)
    assert min(law) > 0
    assert np.abs(losses(Exponential(1.0).law(near), law)).max() <= 1.0


def test_gaussian_noise_for_one_vote_when_two_counts_move_is_caught():
    class Halved(GaussianNoisyMax):
        def sigma2(self, scores):
            return super().sigma2(scores) / 2

    honest, mistaken = GaussianNoisyMax(0.05), Halved(0.05)
    worst = dict.fromkeys((honest, mistaken), 0.0)
    for a, b in neighbouring_counts(Adjacency.REPLACE_ONE, labels=2, most=3):
        for m in worst:
            p, q = (m.law(votes(x, Adjacency.REPLACE_ONE)) for x in (a, b))
            # Renyi divergence of order 2 of a rho-zCDP release is at most 2 rho.
            worst[m] = max(worst[m], math.log(sum(x * x / y for x, y in zip(p, q, strict=True))))
    assert worst[honest] <= 2 * 0.05 < worst[mistaken]


def test_permute_and_flip_charged_as_bounded_range_would_be_wrong():
    # O7: losses 1 and -0.48988 in one pair: a width above 1.
    p, q = (PermuteAndFlip(1.0).law(votes(x, Adjacency.ADD_REMOVE)) for x in ((0, 0), (0, 1)))
    found = losses(p, q)
    assert found.max() == pytest.approx(1, abs=1e-9)
    assert found.min() == pytest.approx(-0.489880, abs=1e-6)
    assert "PureDP" in type(PermuteAndFlip(1.0).event).__name__


@every_adjacency
def test_the_exponential_mechanism_keeps_its_width(adjacency):
    mechanism = Exponential(1.3)
    widths = [
        np.ptp(losses(mechanism.law(votes(a, adjacency)), mechanism.law(votes(b, adjacency))))
        for a, b in neighbouring_counts(adjacency)
    ]
    assert max(widths) <= 1.3 + 1e-12


def _name(mechanism) -> str:
    return next(name for name, (cls, _) in registered_selections().items() if type(mechanism) is cls)


def test_replacing_a_parameter_changes_the_price():
    assert replace(Exponential(1.0), epsilon=2.0).event.eta == 2.0
