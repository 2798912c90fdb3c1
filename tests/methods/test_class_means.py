"""Class means: what their noise costs (O26), how it comes, and what the classifier makes of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm

from sottovoce.errors import ParameterError
from sottovoce.experts.unit_sums import LIMIT, Block, ClassSums, UnitCount
from sottovoce.mechanisms.gaussian import with_noise
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.base import Price
from sottovoce.methods.class_means import (
    COUNT_SHARE,
    DIVISOR,
    LEAST_UNITS,
    ClassMeans,
    ClassMeansStep,
    _near,
    _trust,
    classifier,
)
from sottovoce.methods.dp_logistic import DpLogistic
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import ApproximateDP, ComposedDpEvent, GaussianDpEvent
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency, several
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Task

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT
DELTA = 1e-6
O26 = {1.0: 4.224679, 4.0: 1.193519, 8.0: 0.652935}
"""Epsilon to the deviation of noise on vectors of length one that come or go, at delta 1e-6."""
D, K = 3, 2
every_price = pytest.mark.parametrize("epsilon", O26)
every_ledger = pytest.mark.parametrize("adds", [True, False], ids=["epsilons", "rho"])


def setting(adjacency=RO, change=None, units=100, **more):
    change = change or (SWAP if adjacency is RO else DROP)
    units = None if adjacency is AR else units
    return FitSetting(labels=K, dimension=D, units=units, adjacency=adjacency, change=change, **more)


def profile(epsilon, mu):
    """Delta of a mu-GDP release, by the two normal tails."""
    return norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * norm.sf(epsilon / mu + mu / 2)


def mu_of(event) -> float:
    events = event.events if isinstance(event, ComposedDpEvent) else [event]
    return math.sqrt(sum(part.noise_multiplier**-2 for part in events))


# What it costs


@pytest.mark.parametrize(
    ("fitter", "price", "adjacency"),
    [
        (ClassMeans(), Price(3e-6, 1e-9), AR),
        (ClassMeans(sigma=3e6), Price(4.0, DELTA), RO),
        (ClassMeans(count_sigma=5e6), Price(4.0, DELTA), AR),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_before_it_is_charged(fitter, price, adjacency):
    with pytest.raises(ParameterError, match="noise_multiplier"):
        fitter.plan(price, setting(adjacency))


@pytest.mark.parametrize("fitter", [ClassMeans(), DpLogistic()], ids=lambda fitter: fitter.name)
def test_a_price_that_admits_no_rho_is_refused_by_its_name(fitter):
    with pytest.raises(ParameterError, match="epsilon is 3e-06; it must be larger"):
        fitter.plan(Price(3e-6, 1e-9), setting(adds_epsilons=False))


@every_price
def test_oracle_26_the_least_noise_of_one_vector_that_comes_or_goes(epsilon):
    sigma = RoundedGaussian.for_budget(epsilon, DELTA).noise_multiplier
    assert sigma == pytest.approx(O26[epsilon], abs=1e-6)
    assert profile(epsilon, 1 / sigma) <= DELTA
    assert profile(epsilon, 1 / (sigma * 0.999)) > DELTA


@every_price
def test_oracle_26_holds_for_the_step_where_no_count_comes_with_it(epsilon):
    bare = ClassMeansStep(sigma=O26[epsilon], divisor=10**9)
    assert bare.event(DROP).noise_multiplier == pytest.approx(O26[epsilon], rel=1e-12)
    swapped = ClassMeansStep(sigma=2 * O26[epsilon], divisor=10**9)
    assert swapped.event(SWAP).noise_multiplier == pytest.approx(O26[epsilon], rel=1e-12)


@every_price
def test_oracle_26_under_replace_one_counts_are_free(epsilon):
    made = ClassMeans().plan(Price(epsilon, DELTA), setting()).fitter
    assert made.sigma == pytest.approx(2 * O26[epsilon], rel=1e-6)


@every_price
def test_counts_in_quarters_and_a_noisy_number_of_units_cost_a_twentieth_where_a_unit_leaves(epsilon):
    # Worked by hand: sqrt(1 + 1/16) for the counts; sqrt(1 / 0.96) for the number of units.
    zeroed = ClassMeans().plan(Price(epsilon, DELTA), setting(ZO)).fitter
    assert zeroed.sigma == pytest.approx(O26[epsilon] * math.sqrt(17 / 16), rel=1e-6)
    added = ClassMeans().plan(Price(epsilon, DELTA), setting(AR)).fitter
    assert added.sigma == pytest.approx(O26[epsilon] * math.sqrt(17 / 16 / 0.96), rel=1e-6)
    assert added.count_sigma == pytest.approx(O26[epsilon] / math.sqrt(COUNT_SHARE), rel=1e-6)


@every_price
def test_the_whole_event_has_the_profile_of_one_gaussian_whose_mu_adds_up(epsilon):
    plan = ClassMeans().plan(Price(epsilon, DELTA), setting(AR))
    count, sums = plan.event.events
    total = mu_of(plan.event)
    assert total == pytest.approx(math.hypot(1 / count.noise_multiplier, 1 / sums.noise_multiplier))
    assert count.noise_multiplier**-2 == pytest.approx(COUNT_SHARE * total**2, rel=1e-9)
    assert total == pytest.approx(1 / O26[epsilon], rel=1e-6)
    for delta in (1e-9, 1e-6, 1e-3, 0.1):
        found = plan.setting.cost(plan.event, delta).epsilon
        assert profile(found, total) <= delta * (1 + 1e-9)
        assert profile(found - 1e-4, total) > delta * (1 - 1e-9) or found < 1e-3


@every_ledger
@pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda a: a.value)
@every_price
def test_a_plan_costs_its_price_and_hardly_less(epsilon, adjacency, adds):
    plan = ClassMeans().plan(Price(epsilon, DELTA), setting(adjacency, adds_epsilons=adds))
    assert epsilon * 0.999 < plan.report.epsilon <= epsilon
    if adds:
        assert (plan.charge, plan.epsilon) == (ApproximateDP(epsilon, DELTA), epsilon)
    else:
        assert plan.charge == plan.event
        rho = mu_of(plan.event) ** 2 / 2
        assert rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) >= plan.report.epsilon


@pytest.mark.parametrize(
    ("one", "many", "factor"), [((RO, SWAP), (RO, TWO_SWAP), 2), ((AR, DROP), (AR, several(DROP, 3)), 3)]
)
def test_noise_grows_with_the_units_that_change(one, many, factor):
    small, large = (ClassMeans().plan(Price(4.0, DELTA), setting(*each)).fitter for each in (one, many))
    assert large.sigma == pytest.approx(factor * small.sigma)
    assert large.count_sigma == pytest.approx(factor * small.count_sigma)


def test_noise_that_was_chosen_is_kept_where_the_price_covers_it():
    plan = ClassMeans(sigma=50.0).plan(Price(4.0, DELTA), setting())
    assert plan.fitter.sigma == 50.0
    assert plan.event == GaussianDpEvent(25.0)
    assert plan.report.epsilon < 0.25
    with pytest.raises(ParameterError, match="large enough for the settings given, which cost"):
        ClassMeans(sigma=1.0).plan(Price(4.0, DELTA), setting())


def test_without_a_delta_it_is_refused():
    with pytest.raises(ParameterError, match="above 0 for the method 'class-means'"):
        ClassMeans().plan(Price(4.0), setting())


# How the noise comes

DICE = np.random.default_rng(3)
VECTORS = DICE.normal(size=(60, D))
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)
BLOCK = Block(VECTORS, [0, 1, 1] * 20, list(range(60)))


class Known:
    """A world whose sums are known."""

    def __init__(self, block=BLOCK):
        self.block, self.asked = block, []

    def sum_of(self, rule):
        self.asked.append(rule)
        return rule.add_up(self.block)


def public(vectors=()):
    model = FakeScorer()
    return PublicInputs(
        Task(labels=["a", "b"]), model, model, [{"text": "x"}] * len(vectors), np.array(vectors).reshape(-1, D), None
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda a: a.value)
def test_every_number_has_the_noise_that_is_charged(adjacency, monkeypatch):
    # 200 fits of 8 numbers: a mean square that is off by a quarter has a chance below 1e-6 either way.
    seen = []
    real = RoundedGaussian.release

    def noted(mechanism, vector, randomness):
        seen.append((mechanism, vector, real(mechanism, vector, randomness)))
        return seen[-1][2]

    monkeypatch.setattr(RoundedGaussian, "release", noted)
    plan = ClassMeans().plan(Price(4.0, DELTA), setting(adjacency, units=60))
    source = SeededRandomness(11)
    for _ in range(200):
        plan.fitter.fit(plan, Known(), public(), source)
    sums = [(vector, released) for _, vector, released in seen if len(vector.values) > 1]
    counts = [(vector, released) for _, vector, released in seen if len(vector.values) == 1]
    assert len(sums) == 200
    assert len(counts) == (200 if adjacency is AR else 0)
    for drawn, sigma in ((sums, plan.fitter.sigma), (counts, plan.fitter.count_sigma)):
        if drawn:
            noise = np.array([released.values - vector.values / LIMIT for vector, released in drawn]) / sigma
            square = float((noise**2).sum())
            assert 1e-7 < chi2.sf(square, noise.size) < 1 - 1e-7
    wrong = sum(float(((r.values - v.values / LIMIT) ** 2).sum()) for v, r in sums) / (plan.fitter.sigma / 1.25) ** 2
    assert chi2.sf(wrong, 200 * 8) < 1e-7, "noise of a fifth less would not be noticed"


@pytest.mark.parametrize(("adjacency", "divisor"), [(RO, 1), (AR, DIVISOR), (ZO, DIVISOR)])
def test_it_asks_for_one_sum_and_for_the_number_of_units_where_that_is_private(adjacency, divisor):
    plan, world = ClassMeans().plan(Price(4.0, DELTA), setting(adjacency, units=60)), Known()
    plan.fitter.fit(plan, world, public(), SeededRandomness(1))
    kinds = [type(rule) for rule in world.asked]
    assert kinds == ([UnitCount, ClassSums] if adjacency is AR else [ClassSums])
    assert world.asked[-1].divisor == divisor


def test_a_noisy_number_of_units_sets_the_map_and_no_true_one_does():
    plan = ClassMeans().plan(Price(4.0, DELTA), setting(AR, candidates=60))
    maps = []
    for block in (BLOCK, Block(VECTORS[:59], [0] * 59, list(range(59)))):
        world = Known(block)
        told = {1: 40 * LIMIT}

        def release(mechanism, vector, randomness, told=told):
            steps = told.get(len(vector.values), 0) - vector.values
            return with_steps(vector, steps)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RoundedGaussian, "release", release)
            plan.fitter.fit(plan, world, public(VECTORS), SeededRandomness(1))
        maps.append(world.asked[-1].mapped)
    assert maps[0].matrix.tobytes() == maps[1].matrix.tobytes()


def with_steps(vector: VectorSum, noise):
    return with_noise(vector, noise.tolist())


def test_what_means_are_drawn_towards_follows_from_the_release_and_from_public_texts():
    # Two worlds that share no record, told the same release: all that is made of it is the same, bit for bit.
    plan = ClassMeans().plan(Price(4.0, DELTA), setting(RO, candidates=60))
    told = np.random.default_rng(8).integers(-30 * LIMIT, 30 * LIMIT, K * (D + 1))
    made_of = []
    for block in (BLOCK, Block(-VECTORS, [1] * 60, list(range(60)))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RoundedGaussian, "release", lambda self, vector, _: with_steps(vector, told - vector.values))
            support = plan.fitter.fit(plan, Known(block), public(VECTORS), SeededRandomness(1))
        made_of.append([support.weights.tobytes(), support.offset.tobytes(), support.spread.tobytes()])
    assert made_of[0] == made_of[1]


# What is made of it


def made(sums, counts=(50.0, 50.0), units=100.0, sigma=0.01, prior_weight=1.0, texts=None):
    given = np.array(sums, dtype=float), np.array(counts), units, sigma, sigma, np.full(D, 1 / D)
    return classifier(*given, None, prior_weight, texts)


FLAT = np.full((1, K), -math.log(K))


def test_a_mean_is_drawn_to_the_texts_that_it_may_be_a_noisy_sight_of():
    # By hand: the two texts are behind in log-likelihood by (x - t)^2 / (2 * 0.1): 0 and 1 / 0.2 = 5 nats.
    (near,) = _near(np.array([[0.5, 0.0]]), np.array([[0.1, 0.1]]), np.array([[0.5, 0.0], [-0.5, 0.0]]))
    assert near == pytest.approx([0.5 * math.tanh(2.5), 0.0])
    (even,) = _near(np.array([[0.5, 0.0]]), np.array([[1e9, 1e9]]), np.array([[0.5, 0.0], [-0.5, 0.2]]))
    assert even == pytest.approx([0.0, 0.1], abs=1e-6)


def test_texts_move_a_mean_that_is_not_known_and_leave_one_that_is():
    texts, moved = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [0.9, 0.0, 0.1]]), []
    for units, sigma in ((1e4, 1e-3), (100.0, 5.0)):
        sums = np.array([[0.4, 0.0, 0.2], [0.0, 0.4, -0.2]]) * units
        without, drawn = (made(sums, (units / 2,) * 2, units, sigma, 0.0, some) for some in (None, texts))
        moved.append(np.abs(drawn.weights / without.weights - 1)[:, 2].max())
    assert moved[0] < 1e-3
    assert moved[1] > 0.01


def test_a_question_goes_to_the_label_whose_mean_is_near():
    support = made([[40.0, 0.0, 0.0], [0.0, 40.0, 0.0]])
    answers = support.log_probabilities(np.eye(D)[:2], np.repeat(FLAT, 2, axis=0))
    assert answers.argmax(axis=1).tolist() == [0, 1]
    assert np.exp(answers).sum(axis=1) == pytest.approx(1)


def test_evidence_falls_with_the_noise_until_the_prior_alone_speaks():
    prior = np.log([[0.2, 0.8]])
    likely = []
    for sigma in (0.1, 10.0, 1e4):
        support = made([[40.0, 0.0, 0.0], [0.0, 40.0, 0.0]], sigma=sigma)
        likely.append(float(np.exp(support.log_probabilities(np.eye(D)[:1], prior))[0, 0]))
    assert likely == sorted(likely, reverse=True)
    assert likely[0] > 0.7
    assert likely[2] == pytest.approx(0.2, abs=1e-3)


def test_counts_that_noise_explains_are_taken_for_even():
    even = made([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]], counts=(60.0, 40.0), sigma=30.0, prior_weight=0.0)
    assert even.bias == pytest.approx([0.5 * math.log(0.5)] * 2)
    uneven = made([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]], counts=(9000.0, 1000.0), units=10_000.0, prior_weight=0.0)
    assert uneven.bias == pytest.approx(0.5 * np.log([0.9, 0.1]), abs=1e-2)


def test_evidence_counts_less_where_there_is_little_of_it():
    # By hand, four labels: 100 units and 12 deviations a label count half, 24 deviations 4/5; half the units half that.
    assert _trust(100.0, 4, 25 / 12) == pytest.approx(1 / 2)
    assert _trust(100.0, 4, 25 / 24) == pytest.approx(4 / 5)
    assert _trust(50.0, 4, 12.5 / 24) == pytest.approx(2 / 5)
    assert _trust(1e6, 4, 1.0) == pytest.approx(1.0)
    assert _trust(100.0, 4, 25 / 0.59) == 0.0


def test_with_little_to_learn_from_the_models_own_answer_stands():
    prior = np.log([[0.6, 0.4]])
    for units, sigma, told in ((10.0, 10.0, False), (1000.0, 0.01, True)):
        sums = [[0.0, 0.45 * units, 0.0], [0.45 * units, 0.0, 0.0]]
        support = made(sums, counts=(units / 2, units / 2), units=units, sigma=sigma)
        answer = support.log_probabilities(np.eye(D)[:1], prior)
        assert bool(answer.argmax() == 1) is told
        if not told:
            assert answer == pytest.approx(prior)
    nameless = made([[0.0, 4.5, 0.0], [4.5, 0.0, 0.0]], counts=(5.0, 5.0), units=10.0, sigma=10.0, prior_weight=0.0)
    assert nameless.log_probabilities(np.eye(D)[:1], prior).argmax() == 1


@pytest.mark.parametrize(
    "sums", [np.zeros((K, D)), np.ones((K, D)), np.full((K, D), 1e12), [[1e-9, 0, 0], [0, 0, 0]]], ids=range(4)
)
@pytest.mark.parametrize("counts", [(0.0, 0.0), (-1e9, 1e9), (50.0, 50.0)], ids=range(3))
@pytest.mark.parametrize("units", [LEAST_UNITS, 1e6], ids=["few", "many"])
def test_whatever_is_drawn_the_classifier_answers_in_finite_numbers(sums, counts, units):
    for sigma, texts in ((1e-3, VECTORS[:9]), (1.0, None), (1e6, VECTORS[:9])):
        support = made(sums, counts, units, sigma, texts=texts)
        assert np.isfinite(support.log_probabilities(VECTORS[:5], np.repeat(FLAT, 5, axis=0))).all()


def test_a_sure_prior_never_makes_an_answer_that_is_no_number():
    support = made([[40.0, 0.0, 0.0], [0.0, 40.0, 0.0]])
    answers = support.log_probabilities(np.eye(D)[:1], np.array([[0.0, -1e4]]))
    assert np.isfinite(answers).all()
    scaled = replace(support, prior_weight=0.0).log_probabilities(np.eye(D)[:1], FLAT)
    assert scaled.argmax() == 0
