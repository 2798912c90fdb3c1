"""Pairs of laws: divergences by hand, what exceeds an event, and what Gaussian pairs give away."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.audits.exact.mechanisms import mechanism_pair
from sottovoce.audits.exact.pair import GaussianPair, Pair, as_dict
from sottovoce.errors import ParameterError
from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax, LaplaceNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.top_k import JointTopK, OneShotTopK
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import BoundedRange, GaussianDpEvent, NonPrivateDpEvent, PureDP, ZCDpEvent
from sottovoce.privacy.unit import Adjacency

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def test_a_pair_by_hand():
    pair = Pair.of([0.5, 0.3, 0.2], [0.25, 0.3, 0.45])
    assert pair.max_loss == pytest.approx(math.log(2.25))
    assert pair.total_variation == pytest.approx(0.25)
    assert pair.kl == pytest.approx(
        max(0.5 * math.log(2) - 0.2 * math.log(2.25), 0.45 * math.log(2.25) - 0.25 * math.log(2))
    )
    # e^.5 times the second law leaves .45 - .2 e^.5 in one direction and .5 - .25 e^.5 in the other.
    left = max(0.45 - 0.2 * math.exp(0.5), 0.5 - 0.25 * math.exp(0.5))
    assert pair.delta(np.array([0.5]))[0] == pytest.approx(left)
    assert pair.delta(np.array([1.0]))[0] == 0
    assert as_dict(pair)["accuracy"] == pytest.approx(0.625)


def test_a_finite_loss_is_covered_by_its_own_epsilon_where_exponentials_overflow():
    for loss in (690.0, 703.0, 745.0, 2000.0):
        pair = Pair(np.log([0.5, 0.5]), np.array([math.log(0.5) - loss, 0.0]))
        assert pair.delta(np.array([loss + 0.01, loss + 500]))[0] == 0
        assert pair.delta(np.array([loss - 1]))[0] == pytest.approx(0.5 * (1 - math.exp(-1)), rel=1e-9)


def test_an_outcome_of_one_world_alone_is_an_infinite_loss():
    pair = Pair.of_tables({"a": Fraction(1)}, {"a": Fraction(9, 10), "b": Fraction(1, 10)})
    assert pair.max_loss == math.inf
    assert pair.delta(np.array([0.0, 50.0, math.inf])) == pytest.approx([0.1, 0.1, 0.1])
    assert as_dict(pair)["max_loss"] is None
    assert "does not hold" in pair.excess_over(PureDP(100.0), AR)


def test_a_float_that_underflowed_is_not_impossible():
    # Of an event without a pure bound nothing is refuted by it, and the loss is finite.
    pair = Pair.of([1.0, 0.0], [1.0, 1e-320])
    assert (pair.max_loss, pair.excess_over(ZCDpEvent(0.1), AR)) == (0.0, None)
    assert Pair.of([1.0, 0.0], [0.5, 0.5]).max_loss == pytest.approx(math.log(0.5) + 200 * math.log(10))


@pytest.mark.parametrize("votes", [54, 1000])
def test_votes_far_ahead_of_others_are_no_violation_of_gaussian_noise(votes):
    # P(the last one wins) is about exp(-votes^2 / (4 sigma^2)), with sigma^2 = 1: far below the least float.
    bound = {"sensitivity": 2, "adjacency": RO, "squared_l2": 2}
    worlds = [Scores([votes, 1, 0], **bound), Scores([votes + 1, 0, 0], **bound)]
    mechanism = GaussianNoisyMax(1.0)
    pair = mechanism_pair(mechanism, *worlds)
    assert pair.excess_over(mechanism.event, RO) is None
    assert pair.max_loss == pytest.approx(votes, rel=0.05)  # ((votes + 1)^2 - (votes - 1)^2) / 4


def test_independent_outputs_add_up():
    pair = Pair.of([0.6, 0.4], [0.4, 0.6])
    both = pair.and_then(pair)
    assert both.max_loss == pytest.approx(2 * pair.max_loss)
    assert both.kl == pytest.approx(2 * pair.kl)
    assert both.total_variation == pytest.approx(0.2)  # .36 - .16
    big = Pair.of(np.full(2**11, 2.0**-11), np.full(2**11, 2.0**-11))
    with pytest.raises(ParameterError, match="outcomes"):
        big.and_then(big)


@pytest.mark.parametrize(("p", "q"), [([0.5, 0.5], [0.5, 0.4]), ([0.5, 0.5], [1.0])])
def test_what_is_no_pair_of_laws_is_refused(p, q):
    with pytest.raises(ParameterError, match="log_q"):
        Pair.of(p, q)


MECHANISMS = (
    Exponential(1.0),
    PermuteAndFlip(1.0),
    LaplaceNoisyMax(1.0),
    GaussianNoisyMax(0.1),
    JointTopK(1.0, 2),
    OneShotTopK(1.0, 2),
    ProposeTestRelease(2.0, 1e-3, 2),
)


@pytest.mark.cases(5)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
@pytest.mark.parametrize("adjacency", [AR, RO])
def test_exact_leakage_never_exceeds_the_event_and_half_of_the_noise_does(mechanism, adjacency):
    moved = [1] if adjacency is AR else [2]
    starts = ([5, 5, 3, 1], [0, 0, 0, 0], [9, 0, 0, 0], [3, 2, 2, 2], [4, 4, 0, 0])
    found = []
    for sensitivity in (*moved, 1):
        worst = 0
        for start in starts:
            for place in range(4):
                changed = list(start)
                changed[place] += 1
                if adjacency is RO:
                    changed[(place + 1) % 4] -= 1
                squared = 1 if adjacency is AR else 2
                bound = {"sensitivity": sensitivity, "adjacency": adjacency, "squared_l2": squared}
                pair = mechanism_pair(mechanism, Scores(start, **bound), Scores(changed, **bound))
                worst += pair.excess_over(mechanism.event, adjacency) is not None
        found.append(worst)
    assert found[0] == 0
    if adjacency is RO and not isinstance(mechanism, (GaussianNoisyMax, OneShotTopK)):
        assert found[1] > 0  # the sensitivity of a drop, under replace-one


def test_a_pair_at_the_width_of_its_event_is_within_it_and_a_little_more_is_not():
    half = 0.5
    pair = Pair.of(
        [1 / (1 + math.exp(-half)), 1 / (1 + math.exp(half))], [1 / (1 + math.exp(half)), 1 / (1 + math.exp(-half))]
    )
    assert pair.excess_over(BoundedRange(1.0), RO) is None
    assert "log-ratios 1 wide" in pair.excess_over(BoundedRange(0.999), RO)
    assert pair.excess_over(ZCDpEvent(0.125), RO) is None
    assert pair.excess_over(ZCDpEvent(0.05), RO) is not None
    assert pair.excess_over(NonPrivateDpEvent(), RO) is None


def test_a_pair_beyond_a_gaussian_curve_is_named():
    # Total variation .5, where mu .5 allows .197.
    pair = Pair.of([0.9, 0.1], [0.4, 0.6])
    assert "does not hold" in pair.excess_over(GaussianDpEvent(2.0), RO)


def test_gaussian_pairs():
    pair = GaussianPair(1.0)
    assert pair.accuracy == pytest.approx(norm.cdf(0.5))
    assert pair.delta(np.array([1.0]))[0] == pytest.approx(0.126937, abs=1e-6)
    assert (pair.max_loss, GaussianPair(0.0).max_loss) == (math.inf, 0.0)
    assert pair.excess_over(GaussianDpEvent(1.0), RO) is None
    assert "mu 1" in pair.excess_over(GaussianDpEvent(1.01), RO)
    assert as_dict(pair)["kl"] == 0.5


def test_a_mechanism_without_a_law_over_outcomes_is_refused():
    with pytest.raises(ParameterError, match="law"):
        mechanism_pair(object(), Scores([1], sensitivity=1, adjacency=AR), Scores([1], sensitivity=1, adjacency=AR))
    assert callable(AboveThreshold.law)  # its law is of runs of queries, which are no scores
