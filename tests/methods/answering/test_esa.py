"""Embedding-space aggregation: its noise by hand, with a single partition too, and what it chooses."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.errors import ParameterError
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.experts.written import WrittenOutputs
from sottovoce.methods.answering.answerer import AnswerSetting, Outcome
from sottovoce.methods.answering.esa import ESA
from sottovoce.methods.base import Price
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu
from sottovoce.privacy.events import ApproximateDP, ZCDpEvent
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.testing.answer_worlds import Writing, public_side

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT


def setting(adjacency=RO, experts=100, shots=1, **more) -> AnswerSetting:
    given = {"units": experts * shots if adjacency.size_is_public else None, "dimension": 2, "candidates": 2, **more}
    return AnswerSetting(adjacency, ExpertSampling(shots, experts), **given)


def written(vectors, change=SWAP, adjacency=RO) -> WrittenOutputs:
    rows = np.array(vectors, dtype=np.float64)
    return WrittenOutputs(["said"] * len(rows), change, adjacency, slots=len(rows), vectors=rows)


@pytest.mark.parametrize(
    ("adjacency", "shots", "norm_of"), [(RO, 1, 2.0), (RO, 4, 2.0), (AR, 1, 1.0), (AR, 4, 2.0), (ZO, 1, 1.0)]
)
@pytest.mark.parametrize(("epsilon", "mu"), [(1.0, 0.2472), (3.0, 0.6697), (8.0, 1.5682)])
def test_oracle_13_the_noise_of_a_hundred_experts(adjacency, shots, norm_of, epsilon, mu):
    # Specification 5.4: mu = norm / (m sigma) by rho is .2472, .6697 and 1.5682 at delta 1e-5.
    plan = ESA().plan(Price(epsilon, 1e-5), setting(adjacency, shots=shots))
    assert norm_of / 100 / plan.answerer.sigma == pytest.approx(mu, abs=1e-4)
    assert plan.base == plan.event == ZCDpEvent(plan.base.rho)
    assert plan.base.rho == pytest.approx((norm_of / 100 / plan.answerer.sigma) ** 2 / 2)
    assert plan.report.epsilon <= epsilon


def test_oracle_14_the_chance_of_the_first_of_two_candidates():
    # e = (.6, .2) between (1, 0) and (0, 1), sigma .3 on the sum of one expert.
    side = public_side(0, Writing())
    side = type(side)(**{**vars(side), "candidates": ["a", "b"], "vectors": np.eye(2)})
    one = setting(experts=1)
    esa, source, seen = ESA(sigma=0.3), SeededRandomness(14), Counter()
    for _ in range(1500):
        seen[esa.draw(one, written([[0.6, 0.2]]), side, source).values["answers"][0]] += 1
    # Five standard deviations of 1500 draws are .049; a false alarm has a chance of 6e-7.
    assert seen["a"] / 1500 == pytest.approx(0.827111, abs=0.049)
    halved = norm.cdf(0.4 / (0.15 * math.sqrt(2)))
    assert halved - 0.827111 > 2 * 0.049


def test_with_a_single_partition_a_changed_answer_moves_the_mean_by_two():
    # The published noise is that of an embedding that vanishes: B / m = 1. A unit vector that turns round moves by 2.
    one, other = (written([vector]).embedding_sum().values for vector in ([1.0, 0.0], [-1.0, 0.0]))
    moved = math.dist(one, other) / 2**16
    assert moved == 2.0
    plan = ESA().plan(Price(1.0, 1e-5), setting(experts=1))
    assert plan.base.rho == pytest.approx((moved / plan.answerer.sigma) ** 2 / 2)
    # At the noise that the paper's sensitivity asks for, its own claim holds and the answer costs far more.
    published = ESA(sigma=plan.answerer.sigma / 2)
    assert published.claim(plan.setting).epsilon(1e-5, 1) < 1.0
    assert plan.setting.cost(published.event(plan.setting), 1e-5).epsilon > 2.1


@pytest.mark.parametrize(("epsilon", "sigma", "right"), [(1, 0.03731, 2.155), (3, 0.01391, 6.706), (8, 0.006, 19.121)])
def test_drop_noise_where_an_answer_changes_is_worth_what_the_specification_says(epsilon, sigma, right):
    # Specification 5.4 and 11, item 24, for continuous noise, as published.
    assert epsilon_of_mu(1 / (100 * sigma), 1e-5) == pytest.approx(epsilon, rel=2e-3)
    assert epsilon_of_mu(2 / (100 * sigma), 1e-5) == pytest.approx(right, rel=2e-3)
    claim = ESA(sigma=sigma).claim(setting())
    assert claim.epsilon(1e-5, 1) == pytest.approx(epsilon, rel=2e-3)
    assert RdpAccountant(RO).compose(ESA(sigma=sigma).event(setting())).report(1e-5).epsilon > right


def test_a_null_expert_does_not_change_what_the_sum_is_divided_by():
    esa, half = ESA(sigma=0.01), setting(experts=2)
    side = public_side(2, Writing())
    texts = WrittenOutputs(["said", None], SWAP, RO, slots=2, vectors=np.array([[0.8, 0.6, 0.0], [9.0, 9.0, 9.0]]))
    assert esa.draw(half, texts, side, SeededRandomness(1)).values["answers"][0] == side.candidates[0]
    assert texts.embedding_sum(1.0, 2).denominator == 2


def test_where_the_number_of_experts_is_private_nothing_is_divided():
    private = AnswerSetting(AR, ExpertSampling(), dimension=2, candidates=2)
    plan = ESA().plan(Price(1.0, 1e-5), private)
    assert 1 / plan.answerer.sigma == pytest.approx(0.2472, abs=1e-4)
    assert plan.setting.change == DROP


def test_one_public_answer_is_refused_before_anything_is_charged():
    with pytest.raises(ParameterError, match="there is nothing to choose, and it costs nothing to give it"):
        ESA().plan(Price(1.0, 1e-5), setting(candidates=1))


def test_a_sample_buys_less_noise_and_is_charged_at_one_point():
    drawn = AnswerSetting(
        RO, ExpertSampling(4, 100, "without-replacement"), units=2600, dimension=2, candidates=2, adds_epsilons=False
    )
    plan, whole = (ESA().plan(Price(3.0, 1e-6), each) for each in (drawn, setting(shots=4)))
    assert plan.answerer.sigma < whole.answerer.sigma
    assert plan.charge == ApproximateDP(3.0, 1e-6)
    assert plan.report.bound == "amplified"
    # What is amplified is the point at which the clustering of one sample may be 4.829 at delta 6.5e-6.
    assert plan.event.event == ApproximateDP(pytest.approx(4.828762, abs=1e-5), pytest.approx(6.5e-6, rel=1e-6))


@pytest.mark.parametrize("clip", [1e-5, 1e8])
def test_a_clip_that_the_grid_cannot_keep_is_refused_before_anything_is_planned(clip):
    with pytest.raises(ParameterError, match="clip is"):
        ESA(clip=clip)
    for end in (2.0**-16, 2.0**24):
        assert written([[0.6, 0.2]]).embedding_sum(ESA(clip=end).clip).squared_l2 == (2 * end * 2**16) ** 2


def test_an_outcome_says_which_public_answers_are_near_and_finishes_from_itself():
    side = public_side(4, Writing())
    outcome = ESA(sigma=1e-3).draw(
        setting(experts=3, dimension=3), written([[0.8, 0.6, 0.0]] * 3), side, SeededRandomness(2)
    )
    assert outcome.values["answers"][0] == "the card is lost"
    assert sorted(outcome.values["answers"]) == sorted(side.candidates)
    saved = Outcome.from_json(outcome.to_json())
    assert ESA().finish(saved, public_side(0, Writing())) == "the card is lost"
