"""What every answerer shares: plans, references, outcomes and the public side."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from sottovoce.errors import ModelError, ParameterError
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.experts.written import WrittenOutputs
from sottovoce.explain import Setting, explain
from sottovoce.methods.answering.answerer import (
    Answerer,
    AnswerSetting,
    Outcome,
    make_answerer,
    register_answerer,
    registered_answerers,
)
from sottovoce.methods.answering.public import fixed_vocabulary, public_side
from sottovoce.methods.answering.references import (
    Coreset,
    FullContextAnswer,
    NearestToMean,
    PublicConsensus,
    ZeroShotAnswer,
    k_means,
)
from sottovoce.methods.base import Price, Reads
from sottovoce.models.base import WritingRequest
from sottovoce.models.fake import FakeScorer, FakeWriter
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.events import ApproximateDP, BoundedRange, NonPrivateDpEvent, NoOpDpEvent, PureDP
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.testing import answer_worlds as worlds
from sottovoce.testing.answer_road import TASK

RO, AR = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
QUERY = {"text": "a lost card"}


def setting(**more) -> AnswerSetting:
    given = {"units": 100, "dimension": 3, "candidates": 4, "keywords": 20, **more}
    return AnswerSetting(RO, given.pop("sampling", ExpertSampling(1, 100)), **given)


@pytest.mark.parametrize("name", ["esa", "ksa"])
@pytest.mark.parametrize("adds", [True, False])
def test_a_charge_is_one_point_where_a_ledger_adds_epsilons_and_the_event_where_it_adds_rho(name, adds):
    plan = make_answerer(name).plan(Price(2.0, 1e-6), setting(adds_epsilons=adds))
    if adds and name == "esa":
        assert plan.charge == ApproximateDP(2.0, 1e-6)
    else:  # one selection has a pure epsilon, which spends no delta
        assert plan.charge == plan.event == plan.base
    assert plan.epsilon == pytest.approx(2.0, rel=1e-3)


@pytest.mark.cases(8)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01])
@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize(("selection", "k"), [("joint", 4), ("one-shot", 2), ("one-shot", 12), ("ptr", 4)])
def test_what_is_stated_holds_at_the_delta_that_it_is_stated_with(selection, k, adds, delta):
    # A pure guarantee was once stated with the smaller epsilon that its event has at the price's delta.
    if selection == "ptr" and delta == 0:
        return
    plan = make_answerer("ksa", selection=selection, k=k).plan(Price(1.0, delta), setting(adds_epsilons=adds))
    assert RdpAccountant(RO).compose(plan.base).report(plan.report.delta).epsilon <= plan.epsilon <= 1.0
    assert plan.report.delta <= delta


@pytest.mark.parametrize("adjacency", [RO, AR])
def test_one_list_has_the_noise_of_its_pure_epsilon_under_either_ledger(adjacency):
    at = [replace(setting(adds_epsilons=adds), adjacency=adjacency) for adds in (True, False)]
    plans = [make_answerer("ksa", k=4).plan(Price(1.0, 1e-6), each) for each in at]
    assert plans[0].parameters == plans[1].parameters
    assert {plan.charge for plan in plans} == {BoundedRange(1.0)}
    # T3: x = 1 / (e - 1), rho = x - 1 - ln x.
    assert cost_of(plans[1].charge).rho == pytest.approx(0.1233016, abs=1e-6)
    # The exact law of lists of 2 of 3 keywords: a change of each count by up to its bound moves no loss past 1.
    widths, rate = at[1].change.widths, plans[1].answerer.rate
    lists = list(permutations(range(3), 2))

    def law(counts):
        ranked = sorted(counts, reverse=True)
        utility = [-max(ranked[i] - counts[word] for i, word in enumerate(words)) for words in lists]
        weights = np.exp(rate * np.array(utility, dtype=float))
        return np.log(weights / weights.sum())

    moves = product((-1, 0, 1), repeat=3) if widths == 2 else product((0, 1), repeat=3)
    losses = [np.abs(law((6, 4, 3)) - law(tuple(np.add((6, 4, 3), move)))).max() for move in moves]
    assert 0.4 < max(losses) <= 1.0


@pytest.mark.parametrize("units", [100, 101, 10**9])
def test_every_rate_of_a_sample_has_a_plan_that_spends_its_price(units):
    sampled = setting(units=units, sampling=ExpertSampling(1, 100, "without-replacement"))
    for epsilon in (1e-6, 0.05, 0.95, 1.7, 6.13, 30.0):
        plan = make_answerer("ksa", k=2).plan(Price(epsilon, 0.0), sampled)
        assert epsilon * (1 - 1e-5) <= plan.epsilon <= epsilon


def test_a_charge_never_promises_more_than_was_asked_and_never_less_than_it_costs():
    for name, adds in ((name, adds) for name in ("esa", "ksa") for adds in (True, False)):
        for epsilon in (0.1, 1.0, 7.3):
            plan = make_answerer(name).plan(Price(epsilon, 1e-6), setting(adds_epsilons=adds))
            cost = RdpAccountant(RO).compose(plan.charge).report(plan.report.delta).epsilon
            assert cost <= epsilon * (1 + 1e-9)
            if adds:  # else what is charged is the event itself
                assert plan.report.epsilon <= cost * (1 + 1e-9)


def test_a_sample_is_charged_at_a_point_of_its_amplified_profile_under_either_ledger():
    drawn = ExpertSampling(1, 100, "without-replacement")
    for adds in (True, False):
        plan = make_answerer("esa").plan(Price(2.0, 1e-6), setting(sampling=drawn, units=1000, adds_epsilons=adds))
        assert plan.charge == ApproximateDP(2.0, 1e-6)
        base = plan.setting.base(Price(2.0, 1e-6))
        # T11: ln(1 + q (e^epsilon - 1)) at q delta, q = 1/10.
        assert np.log1p(0.1 * np.expm1(base.epsilon)) == pytest.approx(2.0, abs=1e-6)
        assert base.delta == pytest.approx(1e-5)
    pure = make_answerer("ksa").plan(Price(2.0), setting(sampling=drawn, units=1000))
    assert pure.event.event == PureDP(pytest.approx(4.1727, abs=1e-4))
    assert pure.charge == PureDP(2.0)
    # A pure selection spends no delta, though one is allowed.
    allowed = make_answerer("ksa").plan(Price(2.0, 1e-6), setting(sampling=drawn, units=1000))
    assert (allowed.charge, allowed.report.delta) == (PureDP(2.0), 0.0)


def test_a_plan_that_costs_more_than_its_price_is_refused():
    with pytest.raises(ParameterError, match="large enough for the settings given, which cost"):
        make_answerer("esa", sigma=0.01).plan(Price(1.0, 1e-6), setting())
    with pytest.raises(ParameterError, match="delta is 0"):
        make_answerer("esa").plan(Price(1.0), setting())
    with pytest.raises(ParameterError, match="embedder is missing"):
        make_answerer("esa").plan(Price(1.0, 1e-6), setting(dimension=0))
    with pytest.raises(ParameterError, match="--public is missing"):
        make_answerer("sga").plan(Price(1.0, 1e-6), setting(candidates=0))


def test_a_name_or_an_option_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ParameterError, match="esa, full-context"):
        make_answerer("essa")
    with pytest.raises(ParameterError, match="the method 'esa' has no such option, unlike --method ksa"):
        make_answerer("esa", selection="joint")


def test_references_say_what_they_are():
    free = {name for name, cls in registered_answerers().items() if cls.reads is Reads.NOTHING}
    open_ones = {name for name, cls in registered_answerers().items() if not cls.private}
    assert free == {"zero-shot", "public-shots", "public-consensus"}
    assert open_ones == {"full-context", "nearest-to-mean", "coreset"}
    for name in free | open_ones:
        plan = make_answerer(name).plan(Price(1.0, 1e-6), setting())
        assert plan.charge == (NoOpDpEvent() if name in free else NonPrivateDpEvent())


def test_a_method_whose_one_prompt_holds_all_records_cannot_say_that_it_is_private():
    class Everything(FullContextAnswer.__base__):
        private = True
        reads = Reads.EVERYTHING

    with pytest.raises(ParameterError, match="one prompt of all records has no change type"):
        register_answerer("everything", summary="a mistake", source="none")(Everything)
    assert "everything" not in registered_answerers()
    assert issubclass(Everything, Answerer)


def test_an_outcome_of_a_reference_is_what_it_says():
    side = worlds.public_side(4, worlds.Writing())
    texts = ["a lost card", None, "a lost card", "a late fee"]
    vectors = np.array([worlds.vector_of(text) for text in texts])
    said = WrittenOutputs(texts, SWAP, RO, slots=4, vectors=vectors)
    source = SeededRandomness(1)
    consensus = PublicConsensus().draw(setting(), None, side, source)
    # Likenesses to the four: 0, 1.28, 1.28, 0. Of the two that are equally near it is the last.
    assert PublicConsensus().finish(consensus, side) == side.candidates[2] == "block the card"
    mean = NearestToMean().draw(setting(), said, side, source)
    assert NearestToMean().finish(mean, side) == "the card is lost"
    largest = Coreset(k=2).draw(setting(), said, side, source)
    assert Coreset().finish(largest, side) == "a lost card"
    whole = WrittenOutputs(["all of it"], SWAP, RO, slots=1)
    assert FullContextAnswer().finish(FullContextAnswer().draw(setting(), whole, side, source), side) == "all of it"
    assert ZeroShotAnswer().finish(ZeroShotAnswer().draw(setting(), None, side, source), side) == side.zero_shot


def test_one_record_can_change_every_representative_of_a_coreset_by_k_means():
    # Specification 5.7.2: {0, 1, 2, 10, 11, 12} gives {1, 11}; with 1000 more it gives {2, 1000}.
    def representatives(numbers):
        rows = np.array(numbers, dtype=np.float64)[:, None]
        near, means = k_means(rows, 2, 20)
        return {numbers[int(np.argmin(np.where(near == c, np.abs(rows[:, 0] - means[c, 0]), np.inf)))] for c in (0, 1)}

    before, after = representatives([0, 1, 2, 10, 11, 12]), representatives([0, 1, 2, 10, 11, 12, 1000])
    assert before == {1, 11}
    assert 1000 in after
    assert not before & after


def test_an_outcome_comes_back_from_its_json_as_it_was():
    outcome = Outcome("ksa", {"keywords": ["card", "fee"], "sizes": [3, -1]})
    assert Outcome.from_json(outcome.to_json()) == outcome


# The public side


def echo(request: WritingRequest) -> str:
    return f"{request.question}: " + ", ".join(answer for _, answer in request.shots)


def test_the_public_side_asks_the_bare_question_and_groups_of_public_examples():
    writer = FakeWriter(echo)
    pool = [(f"input {n}", f"answer {n}") for n in range(5)]
    side = public_side(
        TASK, QUERY, write=lambda asked: writer.write(asked, tokens=20), pool=pool, shots=2, embedder=FakeScorer()
    )
    assert side.zero_shot == "a lost card:"
    assert list(side.candidates) == [
        "a lost card:",
        "a lost card: answer 0, answer 1",
        "a lost card: answer 2, answer 3",
    ]
    assert side.vectors.shape == (3, FakeScorer().dimension)
    assert "card" in side.universe
    assert side.shots == tuple(pool[:2])
    assert writer.calls == 3


def test_a_vocabulary_replaces_the_words_of_public_answers():
    side = public_side(TASK, QUERY, write=lambda asked: [None] * len(asked), vocabulary=["fee", "card", "fee"])
    assert side.universe == ("fee", "card")
    assert side.candidates == ()
    assert side.fallback == ""


def test_keywords_can_be_chosen_without_any_public_data():
    side = public_side(TASK, QUERY, write=lambda asked: ["said"] * len(asked), vocabulary=fixed_vocabulary())
    assert len(side.universe) == len(set(side.universe)) > 5_000
    said = WrittenOutputs(["my card is lost"] * 60, SWAP, RO, slots=60)
    at = setting(keywords=len(side.universe), candidates=1, dimension=0)
    plan = make_answerer("ksa", k=2).plan(Price(8.0), at)
    outcome = plan.answerer.draw(at, said, side, SeededRandomness(1))
    assert sorted(outcome.values["keywords"]) == ["card", "lost"]


def test_a_public_answer_that_cannot_be_embedded_is_no_candidate():
    def vector(text: str):
        return (float("nan"),) * 16 if "answer 1" in text else (1.0, *[0.0] * 15)

    pool = [(f"input {n}", f"answer {n}") for n in range(3)]
    side = public_side(
        TASK,
        QUERY,
        write=lambda asked: FakeWriter(echo).write(asked, tokens=20),
        pool=pool,
        shots=1,
        embedder=FakeScorer(vectors=vector),
    )
    assert [text for text in side.candidates if "answer 1" in text] == []
    assert len(side.vectors) == len(side.candidates) == 3


def test_a_writer_that_answers_half_is_no_public_side():
    with pytest.raises(ModelError, match="one text for every request"):
        public_side(TASK, QUERY, write=lambda asked: [], pool=[("a", "b")], shots=1)


# One price: what is explained is what is charged


@pytest.mark.cases(8)
@pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda adjacency: adjacency.value)
@pytest.mark.parametrize("shots", [1, 4])
@pytest.mark.parametrize(
    ("name", "options", "asked"),
    [
        ("esa", {}, {}),
        ("ksa", {"selection": "joint"}, {"release": "joint"}),
        ("ksa", {"selection": "one-shot", "k": 5}, {"release": "top-k", "keywords": 5}),
        ("ksa", {"selection": "ptr", "failure_delta": 1e-7}, {"release": "ptr", "failure_delta": 1e-7}),
    ],
    ids=["esa", "joint", "one-shot", "ptr"],
)
def test_an_answer_is_explained_as_it_is_charged(name, options, asked, adjacency, shots):
    placed = {"units_per_expert": shots, "assignment": "stable-id"} if shots > 1 else {}
    setting = Setting(epsilon=2.0, delta=1e-6, adjacency=adjacency.value, **placed)
    units = 100 * shots if adjacency.size_is_public else None
    for currency in ("epsilon", "rho"):
        at = AnswerSetting(
            adjacency,
            ExpertSampling(shots, 100),
            units=units,
            dimension=3,
            candidates=4,
            keywords=20,
            adds_epsilons=currency == "epsilon",
        )
        plan = make_answerer(name, **options).plan(Price(2.0, 1e-6), at)
        for words in (asked, options):
            side = explain(name, {**words, "experts": 100, "currency": currency}, setting).side(adjacency)
            assert side.charge == plan.charge


@pytest.mark.parametrize("adjacency", [RO, AR], ids=lambda adjacency: adjacency.value)
def test_a_clustering_is_explained_at_what_it_costs(adjacency):
    explained = explain(
        "sga", {"depth": 2, "experts": 100}, Setting(epsilon=8.0, delta=1e-6, adjacency=adjacency.value)
    )
    units = 100 if adjacency.size_is_public else None
    at = AnswerSetting(adjacency, ExpertSampling(1, 100), units=units, dimension=3, candidates=40)
    plan = make_answerer("sga").plan(Price(8.0, 1e-6), replace(at, adds_epsilons=False))
    assert explained.side(adjacency).charge == plan.charge
    assert explained.side(adjacency).report.bounds["zCDP"] == pytest.approx(plan.report.epsilon, rel=1e-6)
    assert explained.parameters["rho"] == plan.answerer.rho
