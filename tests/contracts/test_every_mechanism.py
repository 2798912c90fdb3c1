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
from sottovoce.mechanisms.laplace_noisy_max import LaplaceNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.privacy.accountant import epsilon_of_rho
from sottovoce.privacy.events import PureDP
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


def random_worlds(count: int):
    """Small worlds beside the grid: two to five candidates, any change within the bound, some leads past the floor."""
    random = np.random.default_rng(20261121)
    for _ in range(count):
        labels = int(random.integers(2, 6))
        values = random.integers(0, 9, labels)
        if random.random() < 0.2:
            values[random.integers(labels)] += random.choice([20, 70])
        sensitivity = int(random.integers(1, 4))
        change = random.integers(0, sensitivity + 1, labels)
        if random.random() < 0.5:
            change = sensitivity * (change > sensitivity / 2)  # extreme
        other = values + change - random.integers(0, sensitivity + 1)
        squared_l2 = max(1, int(((other - values) ** 2).sum()))
        adjacency = ADJACENCIES[random.integers(2)]
        yield tuple(
            Scores(v, sensitivity=sensitivity, adjacency=adjacency, squared_l2=squared_l2) for v in (values, other)
        )


def excess(mechanism, p, q) -> float:
    """By how much one pair of laws exceeds the mechanism's guarantee, either way round; at most 0 if it holds."""
    pure = getattr(mechanism, "epsilon", None)
    if pure is not None:
        return float(np.abs(losses(p, q)).max()) - pure
    rho = mechanism.event.rho
    over = losses(p, q)
    a, b = np.array(p, dtype=float), np.array(q, dtype=float)
    # zCDP at orders 1, 2 and 8, and a point of the profile.
    renyi = [float(x @ y) - rho for x, y in ((a, over), (b, -over))]
    for order in (2, 8):
        renyi += [math.log(x @ np.exp((order - 1) * y)) / (order - 1) - order * rho for x, y in ((a, over), (b, -over))]
    return max(renyi)


WORLDS = 10_000
EXACT = {
    name: mechanism for name, mechanism in MECHANISMS.items() if isinstance(mechanism, Exponential | PermuteAndFlip)
}
BY_SUMMATION = {name: mechanism for name, mechanism in MECHANISMS.items() if name not in EXACT}


def keeps_its_guarantee(mechanism, worlds: int) -> None:
    found = [excess(mechanism, *(mechanism.law(scores) for scores in pair)) for pair in random_worlds(worlds)]
    assert len(found) == worlds
    assert max(found) <= 1e-11
    assert max(found) > -0.02  # the guarantee is nearly used up somewhere: the worlds are no easy ones


@pytest.mark.parametrize("name", EXACT)
def test_its_stated_law_keeps_its_guarantee_in_ten_thousand_random_worlds(name):
    keeps_its_guarantee(EXACT[name], WORLDS)


@pytest.mark.parametrize("name", BY_SUMMATION)
@pytest.mark.parametrize("worlds", [1_000, pytest.param(WORLDS, marks=pytest.mark.slow)])
def test_a_law_by_summation_keeps_its_guarantee_in_random_worlds(name, worlds):
    keeps_its_guarantee(BY_SUMMATION[name], worlds)


def test_the_exponential_mechanism_keeps_its_width_in_ten_thousand_random_worlds():
    mechanism = Exponential(1.3)
    widths = [np.ptp(losses(mechanism.law(a), mechanism.law(b))) for a, b in random_worlds(WORLDS)]
    assert 1.29 < max(widths) <= 1.3 + 1e-12


@pytest.mark.parametrize("name", ["permute_and_flip", "laplace_noisy_max"])
def test_pure_mechanisms_pass_the_width_so_they_may_not_be_charged_as_bounded_range(name):
    mechanism = MECHANISMS[name]
    widths = [np.ptp(losses(mechanism.law(a), mechanism.law(b))) for a, b in random_worlds(1000)]
    assert max(widths) > 1.05 * mechanism.epsilon
    assert mechanism.event == PureDP(mechanism.epsilon)


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
    # 20,000 draws; false alarm 1e-6 for each mechanism. The next test shows that less noise is noticed.
    assert goodness_of_fit(mechanism, mechanism) > 1e-6


WITH_LESS_NOISE = {
    "exponential": lambda share: (Exponential(epsilon=1.0), Exponential(epsilon=1 / share)),
    "permute_and_flip": lambda share: (PermuteAndFlip(epsilon=1.0), PermuteAndFlip(epsilon=1 / share)),
    "gaussian": lambda share: (GaussianNoisyMax(rho=0.05), GaussianNoisyMax(rho=0.05 / share**2)),
    "laplace_noisy_max": lambda share: (LaplaceNoisyMax(epsilon=1.0), LaplaceNoisyMax(epsilon=1 / share)),
}


@pytest.mark.parametrize("name", WITH_LESS_NOISE)
@pytest.mark.parametrize(
    ("share", "draws"), [(0.8, 10_000), pytest.param(0.9, 60_000, marks=pytest.mark.slow)], ids=["20 %", "10 %"]
)
def test_a_sampler_with_less_noise_is_rejected(name, share, draws):
    # Power: the chance of missing this is below 1e-6 (non-centrality above 150 on 3 degrees).
    assert goodness_of_fit(*WITH_LESS_NOISE[name](share), draws=draws) < 1e-6


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


class _HalvedLaplace(LaplaceNoisyMax):
    """Noise for one count that moves by 1, where a vote moves two."""

    def scale(self, scores):
        return super().scale(scores) / 2


class _FirstOfEqualBest(PermuteAndFlip):
    """Takes the best score without noise when it is alone: a shortcut that is one change away from a tie."""

    def law(self, scores):
        best = scores.values == scores.values.max()
        return (
            [Fraction(10**12, 10**12 + 1) if b else Fraction(1, 10**13) for b in best]
            if best.sum() == 1
            else super().law(scores)
        )


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


def test_laplace_noise_for_one_count_when_two_move_is_caught():
    assert worst_violation(_HalvedLaplace(0.7), Adjacency.REPLACE_ONE) > 0.3


def test_a_shortcut_for_a_clear_winner_is_caught():
    assert worst_violation(_FirstOfEqualBest(0.7), Adjacency.ADD_REMOVE) > 1


@pytest.mark.parametrize(
    "mistaken", [_HalvedSensitivity(0.7), _HalvedLaplace(0.7), _TooLittleNoise(0.7)], ids=lambda m: type(m).__name__
)
def test_planted_mistakes_are_caught_in_random_worlds_too(mistaken):
    assert max(excess(mistaken, *(mistaken.law(scores) for scores in pair)) for pair in random_worlds(1500)) > 0.05


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
