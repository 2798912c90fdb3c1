"""The exponential mechanism over whole vocabularies: exact, within its width, and quick."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import accumulate

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from scripted import Script, exact_law
from sottovoce.errors import ParameterError
from sottovoce.mechanisms import exponential
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.samplers import integer_weights as weights
from sottovoce.mechanisms.samplers.integer_weights import (
    BEST,
    DEEPEST,
    ROUNDING,
    WeightTable,
    multiply_high,
    rate_per_step,
    weight_table,
)
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness, SystemRandomness

# From votes at a large epsilon to sums of 255 experts of width 10 at a tiny one: no digit table, then one to five.
RATES = [
    Fraction(3, 2),
    Fraction(1, 3),
    Fraction(1, 3072),
    Fraction(1, 409_600),
    Fraction(1, 10**11),
    Fraction(1, 10**17),
]
WORST = Fraction(10, 2**62) * (1 + Fraction(1, 2**50))


def scores(values, sensitivity=1, adjacency=Adjacency.ADD_REMOVE):
    return Scores(values, sensitivity=sensitivity, adjacency=adjacency)


def log(x: Fraction) -> mpmath.mpf:
    return mpmath.log(mpmath.mpf(x.numerator) / x.denominator)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_weight_is_below_its_ideal_by_less_than_the_proof_says(rate):
    table, random = weight_table(rate), np.random.default_rng(3)
    reach = min(table.floor, 2**61) - 1
    levels = np.unique(
        [0, 1, reach, reach // 2, *random.integers(0, reach + 1, 60), *random.integers(0, 9000, 20) % reach]
    )
    with mpmath.workprec(500):
        for level, weight in zip(levels.tolist(), table.weights(levels), strict=True):
            ideal = -rate * level
            missing = mpmath.mpf(ideal.numerator) / ideal.denominator - log(Fraction(weight, BEST))
            assert 0 <= missing <= mpmath.mpf(WORST.numerator) / WORST.denominator


def test_rounding_twice_over_is_less_than_what_is_taken_off_epsilon():
    assert max(len(weight_table(rate).digits) for rate in RATES) == 5
    assert 2 * WORST < ROUNDING


def test_levels_at_and_behind_the_floor_have_its_weight_and_those_before_it_have_more():
    for rate in RATES[:4]:
        table = weight_table(rate)
        before, at, behind = table.weights(np.array([table.floor - 1, table.floor, table.floor + 10**9]))
        with mpmath.workprec(300):
            assert (
                at
                == behind
                == int(mpmath.floor(2**130 * mpmath.exp(-mpmath.mpf(DEEPEST.numerator) / DEEPEST.denominator))) << 63
            )
        assert at <= before < at * (1 + float(rate) * 1.01 + 2)
        assert at >= 2**125


def test_products_of_halves_are_exact():
    random = np.random.default_rng(1)
    x, y = (np.concatenate([random.integers(0, 2**63, 5000), [2**62, 2**63 - 1]]).astype(np.uint64) for _ in range(2))
    x, y = (np.concatenate([v, np.array([2**63, 0, 2**63], dtype=np.uint64)]) for v in (x, y))
    assert multiply_high(x, y).tolist() == [a * b >> 63 for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def test_tables_are_floors_even_where_a_floor_is_in_doubt(monkeypatch):
    right = weights.floors_of_powers(Fraction(1, 7), 40, 63)
    monkeypatch.setattr(weights, "_WORKING_BITS", 66)  # too few: almost every floor is in doubt, and asked for again
    assert (
        weights.floors_of_powers(Fraction(1, 7), 40, 63)
        == right
        == [weights.floor_exp(Fraction(n, 7), 63) for n in range(40)]
    )


# The sampler's law is the table's: every answer of the source, then every boundary between answers.

TINY = WeightTable(shift=2, floor=7, blocks=(7, 3, 2), digits=(np.array([5, 4, 3, 2], dtype=np.uint64),))


@pytest.mark.parametrize("values", [[0, -1, -1, -5, -20], [-3, 0, -6, -7, -3, -4, 0, -8, -100], [4]], ids=len)
def test_with_small_weights_every_answer_of_the_source_is_counted(values, monkeypatch):
    # Weights small enough to ask for every integer below their sum; lists are cut into parts of three.
    monkeypatch.setattr(exponential, "weight_table", lambda rate: TINY)
    monkeypatch.setattr(exponential, "_PART", 3)
    s = scores(values)
    walked = exact_law(lambda source: Exponential(1.0).select(s, source))
    assert [walked.get(i, 0) for i in range(len(values))] == Exponential(1.0).law(s)
    by_hand = [{0: 35, 1: 28, 2: 21, 3: 14, 4: 15, 5: 12, 6: 9}.get(max(values) - v, 2 * 5) for v in values]
    assert Exponential(1.0).law(s) == [Fraction(w, sum(by_hand)) for w in by_hand]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("rate", "count"), [(0, 40), (1, 40), (2, 9000), (3, 500), (4, 500)])
def test_the_first_and_last_answer_of_every_candidate_choose_it(rate, count):
    # Answers are dealt out block by block, in the candidates' order inside a block: as many to each as its weight.
    epsilon = float(RATES[rate])
    if epsilon < 1e-6:
        s = scores(np.random.default_rng(5).integers(-(2**59), 1, count), sensitivity=round(1e-6 / epsilon))
        epsilon = 1e-6
    else:
        s = scores(np.random.default_rng(5).integers(-int(60 / epsilon), 1, count))
    mechanism, table = Exponential(epsilon), weight_table(rate_per_step(exact(epsilon), s.sensitivity))
    levels = s.values.max() - s.values
    weight, blocks = table.weights(levels), table.split(levels)[0]
    order = sorted(range(count), key=lambda i: (blocks[i], i))
    ends = list(accumulate(weight[i] for i in order))
    assert mechanism.law(s) == [Fraction(w, ends[-1]) for w in weight]
    sampled = range(len(order)) if count < 1000 else np.random.default_rng(6).choice(count, 150, replace=False).tolist()
    for place in sampled:
        for point in (ends[place] - weight[order[place]], ends[place] - 1):
            assert mechanism.select(s, Script([point])) == order[place]


# Privacy, to the last bit: losses as exact fractions, compared with epsilon at 400 bits.


def pairs(count, sensitivity, span, seed):
    """Adversarial and random changes of scores over thousands of levels, some of them behind the floor."""
    random = np.random.default_rng(seed)
    for kind in range(6):
        values = -random.integers(0, span, count)
        values[random.integers(count)] = 0
        change = random.integers(0, 2, count) * sensitivity if kind % 2 else random.integers(0, sensitivity + 1, count)
        if kind == 4:
            change = np.where(values == values.max(), 0, sensitivity)  # all others rise
        if kind == 5:
            change = np.where(values == values.max(), sensitivity, 0)  # the best rises
        yield values, values + change - random.integers(0, sensitivity + 1)


def exact_width(epsilon, sensitivity, values, others, log_prior=None):
    """Largest minus smallest loss; ratios of whole weights, so nothing is rounded but the last logarithm."""
    p, q = (Exponential(epsilon).law(scores(v, sensitivity), log_prior) for v in (values, others))
    ratios = [a / b for a, b in zip(p, q, strict=True) if a]
    assert min(ratios) <= 1 <= max(ratios)  # the interval of losses holds zero, so a width is a pure bound as well
    return log(max(ratios) / min(ratios))


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "span"),
    [
        (0.7, 2, 90),
        (1.0, 6144, 60_000),
        (1.0, 6144, 600_000),
        (0.05, 20_480, 2_611_200),
        (8.0, 1024, 9_000),
        (90.0, 1, 5),
    ],
)
def test_no_change_widens_the_losses_past_epsilon(epsilon, sensitivity, span):
    with mpmath.workprec(400):
        widths = [exact_width(epsilon, sensitivity, a, b) for a, b in pairs(1500, sensitivity, span, seed=9)]
        assert max(widths) <= mpmath.mpf(repr(epsilon))
        if span * epsilon < 40 * sensitivity:  # otherwise a floor holds it down
            assert max(widths) > mpmath.mpf(repr(epsilon)) * (1 - mpmath.mpf(2) ** -50)


def test_without_the_share_for_rounding_epsilon_would_be_passed(monkeypatch):
    monkeypatch.setattr(weights, "ROUNDING", Fraction(0))
    with mpmath.workprec(400):
        widths = [exact_width(1.0, 6144, a, b) for a, b in pairs(1500, 6144, 60_000, seed=9)]
        assert max(widths) > 1


def test_one_step_off_at_the_floor_stays_within_epsilon():
    # Around the floor a level may fall behind it, or come before it, on one side only.
    epsilon, sensitivity = 1.0, 3
    floor = weight_table(rate_per_step(Fraction(1), sensitivity)).floor
    with mpmath.workprec(400):
        for at in range(floor - 4, floor + 5):
            for change in ([0, 3, 3], [3, 0, 0], [0, -3, 0], [2, -1, 0]):
                values = np.array([0, -at, -1])
                assert exact_width(epsilon, sensitivity, values, values + change) <= 1


# The public prior.


def test_a_prior_of_whole_steps_is_a_shift_of_the_scores():
    s, epsilon = scores([0, -3, -900, -20, 5], sensitivity=1024), 1.0
    rate = float(rate_per_step(Fraction(1), 1024))
    steps = np.array([7, -50, 0, 800, -12])
    assert Exponential(epsilon).law(s, steps * rate) == Exponential(epsilon).law(
        scores(s.values + steps, sensitivity=1024)
    )
    assert Exponential(epsilon).law(s, np.zeros(5)) == Exponential(epsilon).law(s)


def test_a_prior_multiplies_the_weights():
    s, prior = scores([0, -300, -1024], sensitivity=1024), np.array([0.2, 0.5, 0.3])
    law = [float(p) for p in Exponential(1.0).law(s, np.log(prior))]
    by_hand = prior * np.exp(s.values / 1024)
    assert law == pytest.approx(by_hand / by_hand.sum(), rel=1e-3)  # rounded to steps of 1/1024 nat


def test_a_candidate_without_prior_is_out_before_the_floor_is_set():
    # The best score is taken out: the others are weighed among themselves, not behind a floor below it.
    s, out = scores([10**6, 0, -2]), [-np.inf, 0.0, 0.0]
    law = Exponential(1.0).law(s, out)
    assert law[0] == 0
    assert law[1:] == Exponential(1.0).law(scores([0, -2]))
    source = SeededRandomness(4)
    assert {Exponential(1.0).select(s, source, out) for _ in range(200)} == {1, 2}


def test_a_prior_costs_nothing():
    random = np.random.default_rng(8)
    with mpmath.workprec(400):
        for a, b in pairs(300, 6144, 60_000, seed=12):
            prior = np.where(random.random(300) < 0.1, -np.inf, -random.exponential(9, 300))
            assert exact_width(1.0, 6144, a, b, prior) <= 1


@pytest.mark.parametrize(
    "prior",
    [[0.0, 0.0], [0.0, np.nan, 0.0], [0.0, np.inf, 0.0], [-np.inf] * 3, [[0.0, 0.0, 0.0]], []],
    ids=["short", "nan", "infinite", "nothing left", "two axes", "empty"],
)
def test_a_prior_that_is_none_is_refused(prior):
    with pytest.raises(ParameterError, match="log_prior"):
        Exponential(1.0).select(scores([1, 2, 3]), SystemRandomness(), prior)


@pytest.mark.parametrize("far", [-1e25, -1e300, -np.finfo(float).max])
def test_a_prior_past_sixty_bits_is_raised_and_not_refused(far):
    # It follows from public scores over the tokens drawn so far: a refusal would tell of them.
    law = Exponential(1.0).law(scores([1, 2, 3]), [0.0, far, 0.0])
    near = Exponential(1.0).law(scores([1, 2, 3]), [0.0, -60.0, 0.0])
    assert law == near, "both are at the floor of all weights"
    assert 0 < law[1] < 1e-18


# At full size.


def vocabulary(count, span, sensitivity, seed=2):
    values = -np.random.default_rng(seed).integers(0, span, count)
    return scores(values, sensitivity=sensitivity, adjacency=Adjacency.REPLACE_ONE)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("count", "span", "sensitivity", "epsilon"),
    [pytest.param(40_000, 2_611_200, 20_480, 0.05, marks=pytest.mark.slow), (151_936, 76_800, 6144, 1.0)],
)
def test_draws_over_a_vocabulary_fall_into_blocks_as_the_law_says(count, span, sensitivity, epsilon):
    # 2,000 draws in ten bins of levels; false alarm 1e-6. A law 20 % off in epsilon is refuted.
    s = vocabulary(count, span, sensitivity)
    source, mechanism, draws = SeededRandomness(5), Exponential(epsilon), 2000
    levels = s.values.max() - s.values

    def chances(assumed):
        weight = np.exp(-np.minimum(assumed * levels / sensitivity, 47.1))
        found = np.bincount(bins, weight, 10)
        return found / found.sum()

    cumulative = np.cumsum(np.sort(np.exp(-np.minimum(epsilon * np.sort(levels) / sensitivity, 47.1)))[::-1])
    edges = np.sort(levels)[np.searchsorted(cumulative, cumulative[-1] * np.arange(1, 10) / 10)]
    bins = np.searchsorted(edges, levels)
    seen = np.bincount([bins[mechanism.select(s, source)] for _ in range(draws)], minlength=10)

    def fit(assumed):
        expected = chances(assumed)
        kept = expected > 0.003
        return chisquare(seen[kept], expected[kept] / expected[kept].sum() * seen[kept].sum()).pvalue

    assert fit(epsilon) > 1e-6
    assert fit(1.2 * epsilon) < 1e-6


@pytest.mark.slow
def test_a_draw_over_a_vocabulary_takes_at_most_five_milliseconds_of_one_core():
    s, source, mechanism = vocabulary(151_936, 76_800, 6144), SystemRandomness(), Exponential(1.0)
    weight_table.cache_clear()
    start = time.process_time()
    mechanism.select(s, source)
    assert time.process_time() - start < 0.5  # with the tables

    def once():
        start = time.process_time()
        mechanism.select(s, source)
        return time.process_time() - start

    assert min(once() for _ in range(15)) <= 0.005


@pytest.mark.slow
@pytest.mark.parametrize(
    ("span", "sensitivity", "epsilon"), [(2_611_200, 20_480, 0.05), (2_611_200, 20_480, 1e-5), (2**59, 2**55, 1e-3)]
)
def test_wide_ranges_and_low_rates_need_no_long_first_draw(span, sensitivity, epsilon):
    s = vocabulary(260_000, span, sensitivity)
    weight_table.cache_clear()
    start = time.process_time()
    assert 0 <= Exponential(epsilon).select(s, SystemRandomness()) < 260_000
    assert time.process_time() - start < 0.5


def test_tables_are_kept_for_few_rates_only():
    weight_table.cache_clear()
    for n in range(1, 100):
        weight_table(Fraction(n, 7))
    assert weight_table.cache_info().currsize <= 64
    assert sum(table.nbytes for table in weight_table(RATES[-1]).digits) <= 5 * 65536
