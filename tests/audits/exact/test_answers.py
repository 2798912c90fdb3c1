"""Exact leakage of answerers: keyword lists and noisy embeddings, under every relation, and what has no law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sottovoce.audits.exact.answers import AnswerWorld, answer_pair, why_no_law, worst_answer_pair
from sottovoce.errors import ParameterError
from sottovoce.methods.answering.answerer import AnswerSetting, registered_answerers
from sottovoce.methods.answering.esa import ESA
from sottovoce.methods.answering.ksa import KSA
from sottovoce.methods.base import Price
from sottovoce.privacy.events import ZCDpEvent
from sottovoce.privacy.unit import Adjacency

UNIVERSE = ("refund", "card", "fee", "parcel")
WORLD = AnswerWorld(
    ("refund card", "refund card", "parcel", "fee parcel"),
    np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]]),
)


def plan_of(answerer, adjacency):
    units = 4 if adjacency.size_is_public else None
    setting = AnswerSetting(adjacency, units=units, dimension=2, candidates=3, keywords=len(UNIVERSE))
    return answerer.plan(Price(2.0, 1e-3), setting)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("selection", ["joint", "one-shot", "ptr"])
def test_no_single_change_exceeds_the_proof_of_a_keyword_list(selection, adjacency):
    worst = worst_answer_pair(plan_of(KSA(selection=selection, k=2), adjacency), WORLD, UNIVERSE)
    assert worst.excess is None
    assert worst.pair.total_variation > 0


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_no_single_change_exceeds_the_proof_of_a_noisy_embedding_and_half_its_noise_does(adjacency):
    plan = plan_of(ESA(), adjacency)
    worst = worst_answer_pair(plan, WORLD)
    assert worst.excess is None
    sharper = replace(plan, base=ZCDpEvent(8 * plan.base.rho))
    pair = worst_answer_pair(sharper, WORLD).pair
    assert pair.mu == pytest.approx(np.sqrt(8) * worst.pair.mu)
    assert pair.excess_over(plan.base, adjacency) is not None


def test_an_embedding_turned_round_moves_by_the_whole_width():
    plan = plan_of(ESA(), Adjacency.REPLACE_ONE)
    turned = AnswerWorld(WORLD.texts, np.array([[-1.0, 0.0], *WORLD.vectors[1:]]))
    assert answer_pair(plan, WORLD, turned).mu == pytest.approx(np.sqrt(2 * plan.base.rho), rel=1e-4)


def test_every_answerer_has_a_law_or_a_reason():
    reasons = {name: why_no_law(cls) for name, cls in registered_answerers().items()}
    assert reasons["esa"] is reasons["ksa"] is None
    assert "clustering" in reasons["sga"]
    assert all(reason is None or "yet" not in reason for reason in reasons.values())
    plan = replace(plan_of(ESA(), Adjacency.REPLACE_ONE), answerer=registered_answerers()["zero-shot"]())
    with pytest.raises(ParameterError, match="exact law"):
        answer_pair(plan, WORLD, WORLD)
