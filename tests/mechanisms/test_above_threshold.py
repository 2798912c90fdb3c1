"""Above-threshold runs: exact laws of short query sequences, and the variants that are known not to be private."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.errors import OpaqueError, ParameterError
from sottovoce.mechanisms.above_threshold import AboveThreshold, ThresholdRun
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Counts
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import losses

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def query(value: int, l1: int = 1, adjacency: Adjacency = AR) -> Counts:
    return Counts([value], l1=l1, adjacency=adjacency)


def start(epsilon=1.0, threshold=10, sensitivity=1, seed=1) -> ThresholdRun:
    mechanism = AboveThreshold(epsilon)
    return mechanism.start(threshold, sensitivity=sensitivity, adjacency=AR, randomness=SeededRandomness(seed))


def neighbours(values, queries: int, sensitivity: int = 1):
    """Pairs of query sequences that one change can produce, both directions.

    Every short sequence, and long ones of two blocks, each moved as a whole, near and far from 0: there losses peak.
    """
    signs = (-sensitivity, 0, sensitivity)
    for sequence in itertools.product(values, repeat=2):
        for move in itertools.product(signs, repeat=2):
            yield sequence, tuple(q + d for q, d in zip(sequence, move, strict=True))
            for first in range(queries + 1):
                at, by = (np.repeat(pair, (first, queries - first)) for pair in (sequence, move))
                yield tuple(at.tolist()), tuple((at + by).tolist())


def largest_loss(law, values=(-12, 0, 1, 12), queries: int = 6, sensitivity: int = 1) -> float:
    known: dict[tuple[int, ...], np.ndarray] = {}

    def once(sequence):
        if sequence not in known:
            known[sequence] = law(sequence)
        return known[sequence]

    return max(float(np.abs(losses(once(a), once(b))).max()) for a, b in neighbours(values, queries, sensitivity))


@pytest.mark.cases(1)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_the_loss_of_a_run_is_at_most_epsilon_and_all_but_reaches_it(epsilon):
    # With six queries .2960 of .3, .9999 of 1 and 2.499999988 of 2.5: no less noise would do.
    worst = largest_loss(lambda q: AboveThreshold(epsilon).law(q, 0, 1))
    assert 0.98 * epsilon < worst <= epsilon + 1e-9


def test_the_loss_of_every_three_query_sequence_is_at_most_epsilon():
    laws = {q: AboveThreshold(1.0).law(q, 0, 1) for q in itertools.product(range(-3, 4), repeat=3)}
    near = [q for q in laws if max(map(abs, q)) <= 2]
    moved = ((q, tuple(a + d for a, d in zip(q, m, strict=True))) for q in near for m in np.ndindex(3, 3, 3))
    pairs = [(q, tuple(x - 1 for x in r)) for q, r in moved]
    assert len(pairs) == 125 * 27
    assert max(float(np.abs(losses(laws[a], laws[b])).max()) for a, b in pairs) <= 1 + 1e-9


def test_the_loss_is_epsilon_for_larger_sensitivities_too():
    worst = largest_loss(lambda q: AboveThreshold(1.0).law(q, 1, 4), (-40, 0, 40), sensitivity=4)
    assert 0.99 < worst <= 1 + 1e-9


def test_a_change_larger_than_the_stated_sensitivity_is_caught():
    # A swap moves a count by 2 where a drop moves it by 1: the price doubles.
    assert largest_loss(lambda q: AboveThreshold(1.0).law(q, 0, 1), sensitivity=2) == pytest.approx(2, abs=1e-3)


# The slow obvious version, with the mistakes of the literature (Lyu, Su and Li 2017) as switches.


def transcript_law(queries, *, scale, query_scale, answers=1, redraw=False) -> np.ndarray:
    """Probability of every sequence of yes and no, threshold 0; a run goes on until ``answers`` times yes."""
    noise = np.arange(-int(45 * scale), int(45 * scale) + 1)
    prior = np.exp(-np.abs(noise) / scale)
    prior /= prior.sum()
    wide = np.arange(-int(60 * max(scale, query_scale)) - 40, int(60 * max(scale, query_scale)) + 41)
    mass = np.exp(-np.abs(wide) / query_scale) if query_scale else (wide == 0).astype(float)
    above_from = np.cumsum((mass / mass.sum())[::-1])[::-1]
    found = {}

    def walk(transcript, weights):
        if len(transcript) == len(queries) or sum(transcript) == answers:
            found[transcript] = weights.sum()
            return
        at = np.clip(noise - queries[len(transcript)] - wide[0], 0, len(wide) - 1)
        yes = above_from[at]
        walked = weights * yes
        walk((*transcript, 1), walked.sum() * prior if redraw else walked)
        walk((*transcript, 0), weights * (1 - yes))

    walk((), prior)
    return np.array([found[key] for key in sorted(found, key=lambda t: (*t, 2), reverse=True)]) + 1e-300


def test_the_law_is_that_of_the_slow_obvious_version():
    # 45 scales are summed: what is left out is below 1e-19.
    for sequence in ((0, 0, 0), (-3, 2, 1), (5, 0, -5)):
        slow = transcript_law(sequence, scale=2.0, query_scale=4.0)
        fast = AboveThreshold(1.0).law(sequence, 0, 1)
        assert sorted(fast) == pytest.approx(sorted(slow), rel=1e-9)
        assert sum(fast) == pytest.approx(1, abs=1e-12)


def test_the_slow_version_as_it_should_be_keeps_epsilon():
    assert largest_loss(lambda q: transcript_law(q, scale=2.0, query_scale=4.0), (-1, 0, 1)) <= 1 + 1e-9


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("noise on the threshold only", {"scale": 2.0, "query_scale": 0.0}),
        ("query noise as small as the threshold's", {"scale": 2.0, "query_scale": 2.0}),
        ("going on after a yes with the same threshold", {"scale": 2.0, "query_scale": 4.0, "answers": 6}),
        ("a new threshold after a yes, not charged", {"scale": 2.0, "query_scale": 4.0, "answers": 6, "redraw": True}),
        ("half the noise everywhere", {"scale": 1.0, "query_scale": 2.0}),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_planted_mistake_exceeds_epsilon(name, mistake):
    assert largest_loss(lambda q: transcript_law(q, **mistake), (-12, 12)) > 1.4, name


def test_noise_on_the_threshold_only_has_no_bound_at_all():
    assert largest_loss(lambda q: transcript_law(q, scale=2.0, query_scale=0.0), (0, 1), queries=2) > 100


@pytest.mark.slow
def test_its_runs_follow_its_law_and_too_little_noise_is_rejected():
    # 20,000 runs of four queries; false alarm 1e-6; a quarter less noise is missed with less than 1e-6.
    sequence = (-6, 3, -9, 4)

    def ends(epsilon, runs):
        seen, source = np.zeros(5, dtype=int), SeededRandomness(31)
        for _ in range(runs):
            run = AboveThreshold(epsilon).start(0, sensitivity=1, adjacency=AR, randomness=source)
            seen[next((i for i, q in enumerate(sequence) if run.above(query(q))), 4)] += 1
        return seen

    law = np.array(AboveThreshold(1.0).law(sequence, 0, 1))
    assert chisquare(ends(1.0, 20_000), law / law.sum() * 20_000).pvalue > 1e-6
    assert chisquare(ends(1.3, 20_000), law / law.sum() * 20_000).pvalue < 1e-6


def test_a_run_ends_with_its_first_yes_and_answers_no_more():
    run = start()
    assert [run.above(query(q)) for q in (-500, -500, 900)] == [False, False, True]
    with pytest.raises(ParameterError, match="a new one, charged when it starts"):
        run.above(query(-500))


def test_o19_the_price_of_a_run_in_the_decoding_of_amin_et_al():
    # c = 10, s = 255, tau = 2, sigma_t = .2, add/remove: eps = 2 / (s sigma_t), rho_SVT = eps^2 / 2 = .00076894.
    epsilon = 2 / (255 * 0.2)
    assert epsilon**2 / 2 == pytest.approx(0.00076894, abs=1e-8)
    mechanism = AboveThreshold(epsilon)
    steps = 1024  # the distance on a grid of 1 / (255 * 1024): one record moves it by 1024 steps
    assert float(mechanism.scale(steps)) / (255 * steps) == pytest.approx(0.2, rel=1e-12)
    assert cost_of(mechanism.event).rho == pytest.approx(0.00076894, rel=1e-3)
    assert cost_of(mechanism.event).rho <= epsilon**2 / 2
    assert mechanism.event == PureDP(epsilon)


def test_the_noise_follows_from_the_runs_sensitivity():
    assert AboveThreshold(0.5).scale(3) == Fraction(12)


def test_a_query_that_the_run_was_not_started_for_is_refused():
    run = start(sensitivity=2)
    for bad, match in (
        (query(1, l1=3), "sensitivity"),
        (query(1, adjacency=RO), "adjacency"),
        (Counts([1, 2], l1=1, adjacency=AR), "one count"),
    ):
        with pytest.raises(ParameterError, match=match):
            run.above(bad)
    assert run.above(query(900, l1=2)) is True


def test_a_run_neither_shows_nor_stores_nor_repeats_its_threshold():
    run = start(threshold=55_555_555)
    shown = f"{run!r} {run} {run:>40} {vars(AboveThreshold).keys()}"
    assert "ThresholdRun(running, sensitivity 1, add-remove)" in shown
    assert "5555" not in shown
    with pytest.raises(OpaqueError):
        pickle.dumps(run)
    assert copy.copy(run) is run is copy.deepcopy(run)  # a copy could be asked again after a yes
    assert not hasattr(run, "__dict__")


def test_each_run_draws_its_own_threshold():
    source, mechanism = SeededRandomness(3), AboveThreshold(0.1)
    runs = [mechanism.start(0, sensitivity=1, adjacency=AR, randomness=source) for _ in range(20)]
    assert len({run._noisy_threshold for run in runs}) > 10


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "one", None])
def test_an_epsilon_that_is_no_price_is_refused(bad):
    with pytest.raises(ParameterError, match="epsilon"):
        AboveThreshold(bad)


def test_thresholds_and_sensitivities_that_are_not_whole_are_refused():
    for threshold, sensitivity in ((1.5, 1), (True, 1), (3, 0), (3, 0.5)):
        with pytest.raises(ParameterError):
            start(threshold=threshold, sensitivity=sensitivity)
