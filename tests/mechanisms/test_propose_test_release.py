"""Propose-test-release for sets: the exact profile over every small histogram and every move (P6, O12)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease, least_margin
from sottovoce.privacy.accounting.accountant import epsilon_of_rho
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.events import WithFailure, ZCDpEvent
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import hockey_stick

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
MOVES = {AR: (0, 1), RO: (-1, 0, 1)}
WIDTH = {AR: 1, RO: 2}
every_adjacency = pytest.mark.parametrize("adjacency", [AR, RO], ids=lambda a: a.value)


def scores(counts, adjacency=RO, sensitivity=None) -> Scores:
    return Scores(list(counts), sensitivity=sensitivity or WIDTH[adjacency], adjacency=adjacency)


def delta_between(p: dict, q: dict, epsilon: float) -> float:
    outcomes = list(p | q)
    return hockey_stick([p.get(o, 0.0) for o in outcomes], [q.get(o, 0.0) for o in outcomes], epsilon)


def profile(mechanism, adjacency, epsilons, most: int = 5) -> np.ndarray:
    """The exact delta at each epsilon: the worst of all histograms {0..most}^4 and all moves, both directions."""
    edge = range(-1, most + 2)
    shape = (most + 3,) * 4
    laws = [mechanism.law(scores(c, adjacency)) for c in itertools.product(edge, repeat=4)]
    names = {name: i for i, name in enumerate({o for law in laws for o in law if o is not None})}
    chosen = np.array([next(names[o] for o in law if o is not None) for law in laws]).reshape(shape)
    passes = np.array([next(p for o, p in law.items() if o is not None) for law in laws]).reshape(shape)
    fails = np.array([law[None] for law in laws]).reshape(shape)
    core = (slice(1, -1),) * 4
    worst = np.zeros(len(epsilons))
    for move in itertools.product(MOVES[adjacency], repeat=4):
        there = tuple(slice(1 + m, shape[0] - 1 + m) for m in move)
        for a, b in ((core, there), (there, core)):
            same = chosen[a] == chosen[b]
            for i, factor in enumerate(np.exp(epsilons)):
                shown = passes[a] - factor * np.where(same, passes[b], 0)
                worst[i] = max(worst[i], (np.maximum(shown, 0) + np.maximum(fails[a] - factor * fails[b], 0)).max())
    return worst


DELTAS = (0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4)


def excess(mechanism, adjacency, **more) -> float:
    """By how much max(failure_delta, profile of the charged rho) is exceeded; at most 0 if the guarantee holds."""
    rho = mechanism.event.event.rho
    found = profile(mechanism, adjacency, [epsilon_of_rho(rho, delta) for delta in DELTAS], **more)
    return max(d - max(mechanism.failure_delta, delta) for d, delta in zip(found, DELTAS, strict=True))


def exact_gaussian_delta(sigma: float, width: int, epsilon: float) -> float:
    """The profile of discrete Gaussian noise of deviation width * sigma under a move by at most the width."""
    vector = VectorSum([0], squared_l2=width**2, adjacency=RO)
    law = GaussianVector(0.5 / sigma**2).noise_law(vector, int(30 * sigma * width) + 10)
    return max(hockey_stick(law, np.roll(law, move), epsilon) for move in range(-width, width + 1))


@pytest.mark.cases(2)
@every_adjacency
@pytest.mark.parametrize(("sigma", "failure_delta"), [(1.0, 0.01), (0.5, 0.05), (0.3, 1e-4)])
def test_p6_no_small_world_exceeds_the_larger_of_the_two_deltas(adjacency, sigma, failure_delta):
    assert excess(ProposeTestRelease(sigma, failure_delta, 2), adjacency) <= 1e-12


@pytest.mark.cases(1)
@every_adjacency
def test_p6_the_larger_of_the_two_is_exact_for_the_noise_in_use(adjacency):
    mechanism, epsilons = ProposeTestRelease(1.0, 0.01, 2), [0.0, 0.5, 1.0, 2.0]
    allowed = [max(0.01, exact_gaussian_delta(1.0, WIDTH[adjacency], e)) for e in epsilons]
    found = profile(mechanism, adjacency, epsilons)
    assert (found <= np.array(allowed) + 1e-12).all()
    assert found[-1] > 0.1 * allowed[-1]  # not for want of noise


@pytest.mark.slow
def test_other_set_sizes_keep_the_guarantee_too():
    for k in (1, 3):
        assert excess(ProposeTestRelease(0.5, 0.05, k), RO, most=4) <= 1e-12


# Planted mistakes.


class _Ordered(ProposeTestRelease):
    """Presents the set by frequency."""

    def law(self, scores):
        counts = scores.values.tolist()
        return {
            None if found is None else tuple(sorted(found, key=lambda i: -counts[i])): p
            for found, p in super().law(scores).items()
        }


class _NotRescaled(ProposeTestRelease):
    """Clamp, noise and threshold of a drop where counts are swapped."""

    def law(self, scores):
        return super().law(Scores(scores.values, sensitivity=1, adjacency=scores.adjacency))


class _ThresholdNotRescaled(ProposeTestRelease):
    """The noise of a swap, but the threshold of a drop."""

    def threshold(self, sensitivity):
        return super().threshold(sensitivity) - (sensitivity - 1)


class _ContinuousMargin(ProposeTestRelease):
    """The quantile of the continuous normal, for integer noise."""

    def threshold(self, sensitivity):
        deviation = math.sqrt(self.noise_variance(sensitivity))
        return sensitivity + math.floor(deviation * norm.isf(self.failure_delta))


class _NoClamp(ProposeTestRelease):
    """A gap below the sensitivity lowers the chance to pass, which tells ties from near ties."""

    def _best_and_gap(self, scores):
        best, _ = super()._best_and_gap(scores)
        inside = min(scores.values[list(best)])
        return best, int(inside - max(np.delete(scores.values, list(best)))) + scores.sensitivity


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistaken", "least"),
    [
        (_Ordered(0.4, 0.05, 2), 0.2),
        (_NotRescaled(1.0, 0.01, 2), 0.01),
        (_ThresholdNotRescaled(1.0, 0.01, 2), 0.001),
        (_ContinuousMargin(1.0, 0.0067, 2), 0.004),
        (_NoClamp(1.0, 0.01, 2), 0.005),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, ProposeTestRelease) else "",
)
def test_a_planted_mistake_is_caught(mistaken, least):
    honest = ProposeTestRelease(mistaken.sigma, mistaken.failure_delta, 2)
    assert excess(mistaken, RO) > least
    assert excess(honest, RO) <= 1e-12


def test_the_order_of_a_stable_set_would_be_given_away_with_certainty():
    # Specification 5.5.3: (9, 8, 1, 0) and (8, 9, 1, 0) have the same stable set.
    p, q = (_Ordered(0.3, 0.05, 2).law(scores(c)) for c in ((9, 8, 1, 0), (8, 9, 1, 0)))
    assert delta_between(p, q, 5.0) > 0.9
    p, q = (ProposeTestRelease(0.3, 0.05, 2).law(scores(c)) for c in ((9, 8, 1, 0), (8, 9, 1, 0)))
    assert delta_between(p, q, 0.0) == pytest.approx(0, abs=1e-15)


# The margin.


@pytest.mark.parametrize("failure", [0.1, 1e-3, 1e-6, 1e-12, 1e-15])
@pytest.mark.parametrize(
    "variance", [Fraction(1, 100), Fraction(1, 3), Fraction(4), Fraction(1000, 7), Fraction(90_000)]
)
def test_the_margin_is_the_least_one_that_keeps_the_failure_probability(variance, failure):
    margin = least_margin(variance, Fraction(failure))
    grid = np.arange(0, int(50 * math.sqrt(variance)) + 10)
    weights = np.exp(-(grid.astype(float) ** 2) / (2 * float(variance)))
    tail = np.cumsum(weights[::-1])[::-1] / (weights[0] + 2 * weights[1:].sum())  # P(noise >= x)
    assert tail[margin + 1] <= failure * (1 + 1e-9)
    assert margin == 0 or tail[margin] > failure * (1 - 1e-9)


def test_equal_counts_pass_with_the_failure_probability_at_most():
    for sigma, failure_delta in ((2.0, 1e-6), (1.0, 0.01), (0.3, 1e-4)):
        law = ProposeTestRelease(sigma, failure_delta, 2).law(scores((3, 3, 3, 3)))
        assert 0 < law[0, 1] <= failure_delta
        # With every gap up to the sensitivity the chance is the same to the last bit: only the set may differ.
        assert law[0, 1] == ProposeTestRelease(sigma, failure_delta, 2).law(scores((5, 5, 3, 3)))[0, 1]


def test_o12_the_exact_epsilon_of_its_noise():
    # Continuous noise, sigma 2: epsilon(1e-5) = 1.9930. The integer noise of deviation 4 is within 1 % of it.
    low, high = 0.0, 5.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_gaussian_delta(2.0, 2, middle) > 1e-5 else (low, middle)
    assert high == pytest.approx(1.9930, rel=0.01)
    assert high <= epsilon_of_rho(1 / 8, 1e-5)  # what is charged, 2.17


def test_a_gap_of_twenty_one_is_released_half_of_the_time():
    # Specification 5.5.3: sigma 2, delta 1e-6, swaps.
    law = {gap: ProposeTestRelease(2.0, 1e-6, 1).law(scores((gap, 0)))[0,] for gap in (20, 23)}
    assert law[20] < 0.5 < law[23]


@pytest.mark.slow
def test_its_releases_follow_its_law_and_too_little_noise_is_noticed():
    # 20,000 releases; five standard errors, false alarm below 1e-6.
    mechanism, source = ProposeTestRelease(1.0, 0.01, 2), SeededRandomness(41)
    counts = scores((9, 0, 8, 1))
    p = mechanism.law(counts)[0, 2]
    released = [mechanism.release(counts, source) for _ in range(20_000)]
    assert set(released) == {(0, 2), None}
    slack = 5 * math.sqrt(20_000 * p * (1 - p))
    assert abs(released.count((0, 2)) - 20_000 * p) < slack
    assert abs(ProposeTestRelease(0.9, 0.01, 2).law(counts)[0, 2] - p) * 20_000 > 2 * slack


def test_the_set_comes_in_the_order_of_the_candidates_and_a_fail_is_an_output():
    mechanism = ProposeTestRelease(0.5, 1e-6, 2)
    assert mechanism.release(scores((0, 70, 5, 90)), SeededRandomness(1)) == (1, 3)
    assert mechanism.release(scores((0, 90, 5, 70)), SeededRandomness(1)) == (1, 3)
    assert mechanism.release(scores((9, 9, 9, 9)), SeededRandomness(1)) is None


def test_the_price_is_a_rho_and_a_failure_that_exclude_each_other():
    mechanism = ProposeTestRelease(2.0, 1e-6, 2)
    assert mechanism.event == WithFailure(ZCDpEvent(0.125), 1e-6, exclusive=True)
    assert (cost_of(mechanism.event).rho, cost_of(mechanism.event).delta) == (0.125, 1e-6)


def test_clamp_noise_and_threshold_follow_the_sensitivity():
    mechanism = ProposeTestRelease(2.0, 1e-6, 2)
    for width in (1, 2, 4):  # drop, swap, 2-swap
        assert mechanism.noise_variance(width) == (2 * width) ** 2
        assert mechanism.threshold(width) == width + least_margin(Fraction(4 * width**2), Fraction(1, 10**6))
    assert mechanism.law(scores((4, 0, 0), sensitivity=4))[0, 1] <= 1e-6


def test_what_has_no_gap_or_no_margin_is_refused():
    with pytest.raises(ParameterError, match="below the number of candidates"):
        ProposeTestRelease(1.0, 1e-3, 4).law(scores((1, 2, 3, 4)))
    with pytest.raises(ParameterError, match="not grid steps"):
        ProposeTestRelease(1.0, 1e-3, 1).law(scores((1, 2), sensitivity=1 << 20))
    for sigma in (0, -1, 0.01, 1e4, math.nan, "1"):
        with pytest.raises(ParameterError, match="sigma"):
            ProposeTestRelease(sigma, 1e-6, 1)
    for failure_delta in (0, 0.2, -1, math.nan, 1e-20, None):
        with pytest.raises(ParameterError, match="failure_delta"):
            ProposeTestRelease(1.0, failure_delta, 1)
    for k in (0, 1.5, True):
        with pytest.raises(ParameterError, match="k"):
            ProposeTestRelease(1.0, 1e-6, k)
