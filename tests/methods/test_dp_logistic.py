"""Private logistic regression: exact bounds on what a unit adds, its price by an independent formula, its noise."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm

from fits import CHANGES, POOL, QUESTIONS, Blocks, records, setting, several, task, without_pool
from sottovoce.errors import ParameterError
from sottovoce.experts.gradient_sums import GradientSums
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, Block
from sottovoce.fitting.fit import fit
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.base import Price
from sottovoce.methods.dp_logistic import (
    CONSTANT,
    COORDINATES,
    COUNT_SHARE,
    MOST_REACH,
    REACH,
    DpLogistic,
    DpLogisticStep,
    _map,
    _trust,
    classifier,
)
from sottovoce.methods.fitting.fitter import make_fitter
from sottovoce.methods.fitting.noisy_sums import number_of_units
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.accounting.accountant import rho_of_budget
from sottovoce.privacy.events import GaussianDpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from sottovoce.randomness import SeededRandomness

NAN = math.nan
PRICE = Price(4.0, 1e-6)
every_adjacency = pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda a: a.value)


def of_unit(rule, vectors, labels) -> list[int]:
    """What one unit adds, in whole numbers of Python's own."""
    return rule.add_up(Block(np.array(vectors, dtype=float), labels, [0] * len(labels))).tolist()


def square(numbers) -> int:
    return sum(x * x for x in numbers)


def minus(a, b) -> list[int]:
    return [x - y for x, y in zip(a, b, strict=True)]


def slope(weights, vectors, labels, constant, width=1e-6) -> np.ndarray:
    """The negative gradient of the mean logistic loss, by differences of the loss itself."""
    x = np.column_stack([vectors, np.full(len(vectors), constant)])

    def loss(w):
        logits = x @ w.T
        return np.mean(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(x)), labels])

    found = np.zeros_like(weights)
    for place in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[place] = width
        found[place] = (loss(weights - step) - loss(weights + step)) / (2 * width)
    return found.ravel()


# What a unit adds


def test_a_unit_adds_the_mean_gradient_of_its_records():
    # The witness knows the loss alone. A grid step is 1.5e-5, and the differences have an error of about 1e-9.
    rng = np.random.default_rng(3)
    for records_of_unit in (1, 2, 5):
        weights, vectors = rng.normal(size=(3, 5)), rng.normal(size=(records_of_unit, 4)) / 4
        labels = rng.integers(0, 3, records_of_unit).tolist()
        rule = GradientSums(weights, clip=8.0, constant=0.3)
        found = np.array(of_unit(rule, vectors, labels)) / LIMIT * 8
        assert np.abs(found - slope(weights, vectors, labels, 0.3)).max() <= 8 / LIMIT + 1e-8


def test_a_gradient_that_is_too_long_keeps_its_direction():
    rule = GradientSums(np.zeros((2, 3)), clip=0.1, constant=0.0)
    assert of_unit(rule, [[0.6, 0.8]], [0]) == pytest.approx(
        [x * LIMIT / math.sqrt(2) for x in (0.6, 0.8, 0, -0.6, -0.8, 0)], abs=2
    )


ODD_ROWS = [
    (1.0, 0.0), (-1.0, 0.0), (0.6, -0.8), (0.0, 0.0), (1e-9, 0.0), (3.9, -3.9), (1e300, -1e300), (1e-320, 0.0),
    (NAN, 1.0), (math.inf, 0.0),
]  # fmt: skip


@pytest.mark.cases(2)
@pytest.mark.parametrize("clip", [0.01, 0.5, 1.0])
def test_no_unit_of_a_small_world_adds_more_than_one_and_no_swap_moves_more_than_two(clip):
    # Exhaustive: every unit of one or two records with these vectors and labels, at several weights, every swap.
    units = [
        list(zip(*unit, strict=True))
        for size in (1, 2)
        for unit in itertools.product(itertools.product(ODD_ROWS, (0, 1)), repeat=size)
    ]
    furthest = 0
    for weights in (np.zeros((2, 3)), np.array([[9.0, -2, 1], [-9, 2, 0]]), np.array([[1e308, 0, 0], [0, -1e308, 1]])):
        rule = GradientSums(weights, clip, constant=0.3)
        added = {tuple(of_unit(rule, vectors, labels)) for vectors, labels in units}
        assert max(map(square, added)) <= rule.squared_l2(DROP) == LIMIT**2
        pairs = itertools.combinations(added, 2)
        furthest = max(furthest, *(square(minus(a, b)) for a, b in pairs))
    assert furthest <= rule.squared_l2(SWAP) == (2 * LIMIT) ** 2
    if clip < 1:  # the bound is met, so that any smaller one is wrong
        assert furthest > 0.99 * rule.squared_l2(SWAP)


def test_random_neighbours_are_never_further_apart_than_the_rule_says():
    rng = np.random.default_rng(5)
    for _ in range(300):
        labels, dimension = int(rng.integers(2, 9)), int(rng.integers(1, 12))
        weights = rng.normal(size=(labels, dimension + 1)) * 10 ** rng.uniform(-2, 3)
        rule = GradientSums(weights, float(10 ** rng.uniform(-3, 1)), float(rng.uniform(0, 2)))
        two = []
        for _ in range(2):
            size = int(rng.integers(1, 6))
            vectors = rng.normal(size=(size, dimension)) * 10 ** rng.uniform(-3, 6)
            vectors[rng.random(size) < 0.1] = rng.choice([NAN, math.inf])
            two.append(of_unit(rule, vectors, rng.integers(0, labels, size).tolist()))
        assert max(map(square, two)) <= rule.squared_l2(DROP)
        assert square(minus(*two)) <= rule.squared_l2(SWAP)


def test_the_bound_grows_with_the_units_that_a_change_exchanges():
    rule = GradientSums(np.zeros((2, 2)), 1.0, 0.0)
    assert rule.squared_l2(several(SWAP, 3)) == 36 * LIMIT**2
    assert rule.squared_l2(several(DROP, 3)) == 9 * LIMIT**2


def test_a_record_that_says_nothing_leaves_the_others_of_its_unit():
    rule = GradientSums(np.ones((2, 3)), 1.0, 0.3)
    assert of_unit(rule, [[NAN, 0.0]], [1]) == [0] * 6
    assert of_unit(rule, [[0.6, 0.8], [math.inf, 0.0]], [1, 0]) == of_unit(rule, [[0.6, 0.8]], [1])


@pytest.mark.parametrize("labels", [2, 5, 19])
def test_what_a_unit_adds_does_not_depend_on_where_it_stands_or_beside_whom(labels):
    rng = np.random.default_rng(7)
    pool = rng.normal(size=(50, 24))
    mapped, _ = PublicMap.concentrating(pool / np.linalg.norm(pool, axis=1, keepdims=True), 0.01)
    # Logits of hundreds of nats: what is taken off before they are raised must be the record's own.
    rule = GradientSums(rng.normal(size=(labels, 25)) * 400, 0.5, 0.3, mapped)
    sizes = rng.choice([1, 1, 1, 2, 4], 61).tolist()
    units = [(rng.normal(size=(size, 24)), rng.integers(0, labels, size).tolist()) for size in sizes]
    alone = [of_unit(rule, *unit) for unit in units]
    for order in (range(61), range(60, -1, -1), rng.permutation(61), range(1, 61)):
        places = list(order)
        block = Block(
            np.concatenate([units[place][0] for place in places]),
            [label for place in places for label in units[place][1]],
            [number for number, place in enumerate(places) for _ in units[place][1]],
        )
        assert rule.add_up(block).tolist() == np.sum([alone[place] for place in places], axis=0).tolist()


# What it costs


def delta_of(mu: float, epsilon: float) -> float:
    """The profile of mu-GDP as it stands in the specification, T8."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.cases(9)
@every_adjacency
@pytest.mark.parametrize("iterations", [1, 8, 31])
@pytest.mark.parametrize("price", [Price(1.0, 1e-6), PRICE, Price(8.0, 1e-5)], ids=lambda p: f"{p.epsilon:g}")
def test_the_price_is_that_of_one_gaussian_release_whatever_the_iterations(adjacency, iterations, price):
    plan = DpLogistic(iterations=iterations).plan(price, setting(adjacency))
    drawn = plan.fitter
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    counted = 1 / drawn.count_sigma if adjacency is Adjacency.ADD_REMOVE else 0.0
    mu = math.hypot(math.sqrt(iterations) * moved / drawn.sigma, counted)
    assert plan.report.bound == "GDP"
    assert delta_of(mu, price.epsilon) <= price.delta < delta_of(mu * (1 + 1e-6), price.epsilon)
    assert delta_of(mu, plan.report.epsilon * (1 + 1e-9)) <= price.delta < delta_of(mu, plan.report.epsilon * 0.999999)
    if counted:
        assert counted**2 / mu**2 == pytest.approx(COUNT_SHARE, rel=1e-9)


@every_adjacency
def test_where_a_ledger_adds_rho_it_is_charged_what_the_noise_costs(adjacency):
    place = setting(adjacency, adds_epsilons=False)
    plan = DpLogistic().plan(PRICE, place)
    assert plan.charge is plan.event
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    rho = 8 * (moved / plan.fitter.sigma) ** 2 / 2
    rho += 1 / plan.fitter.count_sigma**2 / 2 if adjacency is Adjacency.ADD_REMOVE else 0
    allowed = rho_of_budget(PRICE.epsilon, PRICE.delta)
    assert allowed * (1 - 1e-9) < rho <= allowed


@pytest.mark.parametrize("units", [1, 3])
@every_adjacency
def test_an_event_holds_for_changes_of_several_units(adjacency, units):
    change = several(CHANGES[adjacency], units)
    place = setting(adjacency, change=change)
    plan = DpLogistic().plan(PRICE, place)
    assert plan.report.epsilon <= PRICE.epsilon
    assert DpLogisticStep(sigma=6.0).event(change) == GaussianDpEvent(6.0 / change.widths)


def test_settled_noise_that_costs_more_than_the_price_is_refused():
    place = setting(Adjacency.REPLACE_ONE)
    assert DpLogistic(sigma=7.0).plan(PRICE, place).report.epsilon < PRICE.epsilon
    with pytest.raises(ParameterError, match="which cost"):
        DpLogistic(sigma=6.0).plan(PRICE, place)
    with pytest.raises(ParameterError, match="delta"):
        DpLogistic().plan(Price(4.0), place)


def test_noise_that_no_sampler_draws_is_refused_in_the_plan():
    with pytest.raises(ParameterError, match="noise_multiplier"):
        DpLogistic(sigma=1e7).plan(PRICE, setting(Adjacency.ZERO_OUT))
    with pytest.raises(ParameterError, match="noise_multiplier"):
        DpLogistic(count_sigma=1e7).plan(PRICE, setting(Adjacency.ADD_REMOVE))


# Its noise


def residuals(adjacency, iterations, source, scale=1.0, units=40) -> np.ndarray:
    """The noise of every iteration over its stated deviation, shape (iterations, numbers), and of the count.

    Read off the weights: an iteration takes them along the noisy sum, by a length that follows from public numbers.
    """
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(units, 6))
    block = Block(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rng.integers(0, 5, units), range(units))
    place = setting(adjacency, labels=5, dimension=6, units=units)
    plan = DpLogistic(iterations=iterations, prior_weight=0.0).plan(PRICE, place)  # no weight is taken off evidence
    private = Blocks([block])
    drawn = replace(plan.fitter, sigma=plan.fitter.sigma * scale)
    support = drawn.fit(plan, private, without_pool(), source)
    noise = drawn.sigma / math.sqrt(iterations) * 5 / units
    length = min(MOST_REACH, REACH / noise) * 5 / iterations * plan.fitter.clip / units
    path = [rule.weights for rule in private.rules]
    mean = np.column_stack([support.weights, support.offset / CONSTANT])
    path.append(2 * mean - path[-1] if iterations > 1 else mean)
    found = []
    for rule, now, after in zip(private.rules, path, path[1:], strict=False):
        summed = (after - now).ravel() / length
        found.append((summed - rule.add_up(block) / LIMIT) / plan.fitter.sigma)
    return np.array(found)


def rejected(noise: np.ndarray, false_alarm: float) -> bool:
    """Whether independent standard normal numbers would have so small or large a square sum with less chance."""
    return not chi2.ppf(false_alarm / 2, noise.size) <= (noise**2).sum() <= chi2.isf(false_alarm / 2, noise.size)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT], ids=lambda a: a.value)
def test_every_iteration_draws_the_noise_that_it_is_charged_for(adjacency):
    # Four iterations of 35 numbers, 30 fits. False alarm 1e-6 for each iteration, and for whether they differ.
    source = SeededRandomness(2)
    noise = np.stack([residuals(adjacency, 4, source) for _ in range(30)])
    for iteration in range(4):
        assert not rejected(noise[:, iteration], 1e-6)
    together = noise.transpose(1, 0, 2).reshape(4, -1)
    correlated = np.corrcoef(together)[np.triu_indices(4, 1)]
    assert np.abs(correlated).max() < norm.isf(1e-6 / 12) / math.sqrt(together.shape[1])
    # A sixth less deviation is missed with less than 1e-6.
    thin = np.stack([residuals(adjacency, 4, source, scale=5 / 6) for _ in range(30)])
    assert all(rejected(thin[:, iteration], 1e-6) for iteration in range(4))


def test_the_number_of_units_is_noisy_where_it_is_private():
    # 400 draws; false alarm 1e-6. A fifth less deviation is missed with less than 1e-6.
    place = setting(Adjacency.ADD_REMOVE, labels=2, dimension=2)
    plan = DpLogistic(iterations=1).plan(PRICE, place)
    block = Block(np.tile([[1.0, 0.0]], (200, 1)), [0, 1] * 100, range(200))
    source = SeededRandomness(4)
    sigma = plan.fitter.count_sigma
    counts = np.array([number_of_units(sigma, 1.0, place, Blocks([block]), source) for _ in range(400)])
    assert not rejected((counts - 200) / sigma, 1e-6)
    assert rejected((counts - 200) / (sigma * 0.8), 1e-6)


def test_nothing_is_divided_by_a_private_number():
    # The same public size and the same draws of hardly any noise: what twice as many units say weighs twice as much,
    # and units that say nothing change no number.
    place = setting(Adjacency.ZERO_OUT, units=20)
    drawn = DpLogistic(iterations=1, sigma=0.001)
    plan = replace(DpLogistic(iterations=1).plan(PRICE, place), fitter=drawn)

    def weights(speaking: int, silent: int) -> np.ndarray:
        vectors = np.array([[1.0, 0.0]] * speaking + [[NAN, 0.0]] * silent)
        private = Blocks([Block(vectors, [0] * len(vectors), range(len(vectors)))])
        return drawn.fit(plan, private, without_pool(), SeededRandomness(1)).weights

    assert weights(5, 0).tolist() == weights(5, 15).tolist()
    assert weights(10, 10)[:, 0] == pytest.approx(2 * weights(5, 0)[:, 0], rel=0.01)


# From records to answers


@every_adjacency
def test_a_fit_answers_questions(adjacency):
    fitted = fit(
        records("answers", synthetic=True), task(), epsilon=4, delta=1e-6, method="dp-logistic", model=FakeScorer(),
        adjacency=adjacency, ledger=":memory:", pool=(), randomness=SeededRandomness(6),
    )  # fmt: skip
    assert fitted.predict(list(QUESTIONS)) == list(QUESTIONS.values())


@pytest.mark.cases(3)
@every_adjacency
@pytest.mark.parametrize("budget", [None, Budget(4.0, 1e-6)], ids=["epsilons", "rho"])
def test_a_fit_is_charged_within_its_price_and_can_be_checked(adjacency, budget):
    model = FakeScorer()
    fitted = fit(
        records("charged", each=20), task(), epsilon=4, delta=1e-6, method="dp-logistic", model=model,
        adjacency=adjacency, ledger=":memory:", pool=(), budget=budget,
    )  # fmt: skip
    certificate = fitted.certificate
    assert certificate.epsilon <= 4
    assert all(check.holds is not False for check in certificate.checks(fitted.content_sha256))
    again = Fitted.from_bytes(fitted.to_bytes(), "support.sotto")
    again.use(model)
    assert again.log_probabilities(list(QUESTIONS)).tolist() == fitted.log_probabilities(list(QUESTIONS)).tolist()


def test_a_pool_turns_the_embeddings_and_keeps_what_public_texts_vary_in():
    fitted = fit(
        records("pool", synthetic=True), task(), epsilon=4, delta=1e-6, method="dp-logistic", model=FakeScorer(),
        ledger=":memory:", pool=POOL, randomness=SeededRandomness(3),
    )  # fmt: skip
    assert fitted.support.mapped is not None
    assert fitted.predict(list(QUESTIONS)) == list(QUESTIONS.values())
    many = [f"{word} {other}" for word in POOL for other in POOL for _ in range(2)]
    wide = FakeScorer(vectors=lambda text: np.random.default_rng(len(text)).normal(size=200) / 14)
    small = fit(
        records("wide", each=5, synthetic=True), task(), epsilon=4, delta=1e-6, method="dp-logistic", model=wide,
        ledger=":memory:", pool=many, randomness=SeededRandomness(3),
    )  # fmt: skip
    assert small.support.weights.shape == (2, 128)


def test_all_records_of_a_person_count_as_one_and_two_records_are_enough():
    grouped = fit(
        records("owners", each=300, unit="owner", synthetic=True), task(), epsilon=8, delta=1e-6, method="dp-logistic",
        model=FakeScorer(), ledger=":memory:", pool=(), randomness=SeededRandomness(2),
    )  # fmt: skip
    assert grouped.certificate.units == 200
    assert grouped.predict(list(QUESTIONS)) == list(QUESTIONS.values())
    two = fit(
        records("two", each=1), task(), epsilon=1, delta=1e-6, method="dp-logistic", model=FakeScorer(),
        ledger=":memory:", pool=(),
    )  # fmt: skip
    assert np.isfinite(two.log_probabilities(list(QUESTIONS))).all()


def test_with_much_noise_the_label_names_speak():
    # The model prefers label 1 by three nats; four records at epsilon 0.1 say little beside that.
    model = FakeScorer(lambda task, context, query: [0.0, 3.0])
    fitted = fit(
        records("few", each=2, synthetic=True), task(), epsilon=0.1, delta=1e-6, method="dp-logistic", model=model,
        ledger=":memory:", pool=(), randomness=SeededRandomness(9),
    )  # fmt: skip
    assert fitted.predict(list(QUESTIONS)) == ["fraud", "fraud"]


def test_a_classifier_counts_beside_the_names_as_its_noise_allows():
    # By hand: at 0.15 a name counts 1 + 1/2 times; the variance of a weight is (0.5 * 0.15)^2, times 1.6.
    support = classifier(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -2.0]]), reach=0.5, noise=0.15, mapped=None)
    assert support.prior_weight == pytest.approx(1.5)
    assert support.offset.tolist() == pytest.approx([0.6, -0.6])
    assert support.spread.tolist() == pytest.approx([0.009, 0.009])


def test_a_parameter_out_of_range_is_refused():
    for option in ({"iterations": 0}, {"iterations": 1.5}, {"clip": 0}, {"sigma": -1}):
        with pytest.raises(ParameterError, match=next(iter(option))):
            make_fitter("dp-logistic", **option)


def test_a_pool_that_does_not_vary_leaves_no_coordinate_out():
    wide = np.random.default_rng(3).normal(size=(1, COORDINATES + 9))
    for pool in (wide, np.repeat(wide, 5, axis=0)):
        assert _map(pool, 0.1).matrix.shape == (COORDINATES + 9, COORDINATES + 9)
    assert len(_map(np.vstack([wide, -wide, np.roll(wide, 1)]), 0.1).matrix) == COORDINATES


def test_evidence_counts_less_where_there_is_little_of_it():
    # By hand: 120 units count in full, 60 a quarter; noise of 0.2 counts a quarter, with 60 units a sixteenth; noise
    # of 2 is more than 1 / 0.6, and nothing counts.
    assert _trust(0.1, 120) == _trust(0.05, 500) == 1.0
    assert _trust(0.1, 60) == pytest.approx(1 / 4)
    assert _trust(0.2, 120) == pytest.approx(1 / 4)
    assert _trust(0.2, 60) == pytest.approx(1 / 16)
    assert _trust(2.0, 500) == 0.0


def test_how_much_evidence_counts_follows_from_the_noisy_number_of_units():
    # The same draws with and without label names: what is between their weights is the trust alone.
    block = Block(np.tile([[1.0, 0.0], [0.0, 1.0]], (30, 1)), [0, 1] * 30, range(60))
    place, private, found = setting(Adjacency.ADD_REMOVE), Blocks([block]), set()
    for seed in (1, 2):
        weights = {}
        for names in (0.0, 1.0):
            plan = DpLogistic(iterations=1, prior_weight=names).plan(Price(8.0, 1e-6), place)
            weights[names] = plan.fitter.fit(plan, private, without_pool(), SeededRandomness(seed)).weights
        noisy = number_of_units(plan.fitter.count_sigma, 10.0, place, private, SeededRandomness(seed))
        trust = (min(1, noisy / (10 * 2 * plan.fitter.sigma)) * min(1, noisy / 120)) ** 2
        assert np.allclose(weights[1.0], trust * weights[0.0], rtol=1e-9)
        found.add(noisy)
    assert len(found - {60}) == 2


def test_without_a_name_that_means_something_evidence_counts_in_full():
    block = Block(np.tile([[1.0, 0.0], [0.0, 1.0]], (4, 1)), [0, 1] * 4, range(8))
    found = {}
    for weight in (0.0, 1.0):
        plan = DpLogistic(prior_weight=weight).plan(Price(1.0, 1e-6), setting(Adjacency.REPLACE_ONE, units=8))
        found[weight] = plan.fitter.fit(plan, Blocks([block]), without_pool(), SeededRandomness(1))
    assert np.abs(found[0.0].weights).max() > 0
    assert np.abs(found[1.0].weights).max() == np.abs(found[1.0].offset).max() == 0  # zero-shot stands
