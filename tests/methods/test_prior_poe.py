"""Prior x PoE, and PoE with a public prior: exact losses in small worlds, values by hand, planted mistakes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.methods.base import Price, make_method
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Task
from worlds import ADJACENCIES, change_of, losses

NAN = math.nan
TWO = [(0.0, 0.0), (0.0, -0.5), (0.0, -50.0), (-50.0, 0.0), (NAN, NAN)]
THREE = [(0.0, -1.0, -9.0), (-9.0, 0.0, -1.0), (-math.inf, -math.inf, 0.0), (0.0, -50.0, -50.0), (NAN, NAN, NAN)]
PUBLICS = {
    2: [(-0.7, -0.7), (-0.01, -5.0), (-40.0, 0.0)],
    3: [(-1.1, -1.1, -1.1), (-0.1, -3.0, -3.5), (0.0, -30.0, -60.0)],
}
METHODS = [PriorPoE(), PriorPoE(clip=0.3, prior_weight=0), PriorPoE(clip=4, prior_weight=30), PoE(2.3, prior_weight=2)]

every_method = pytest.mark.parametrize("method", METHODS, ids=str)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)


def said(rows, adjacency, public) -> ExpertOutputs:
    array = np.asarray(rows, dtype=float).reshape(len(rows), len(public))
    return ExpertOutputs(array, change_of(adjacency), adjacency, np.asarray(public, dtype=float))


def excess(method, adjacency, price) -> float:
    """By how much bounded range is exceeded in the worst pair of neighbours; at most 0 where it holds."""
    worst = -math.inf
    for rows, public, experts in [(r, p, n) for r in (TWO, THREE) for p in PUBLICS[len(r[0])] for n in (2, 3, 9)]:
        crowds = [[row] * (experts - 1) for row in rows]
        others = [*crowds, *(itertools.combinations(rows, experts - 1) if experts < 4 else [])]
        for rest in others:
            together = [method.law(said([row, *rest], adjacency, public), price) for row in rows]
            if adjacency is Adjacency.ADD_REMOVE:
                alone = method.law(said(list(rest), adjacency, public), price)
                pairs = [(law, alone) for law in together]
            else:
                pairs = list(itertools.combinations(together, 2))
            for p, q in pairs:
                found = losses(p, q)
                worst = max(worst, float(np.abs(found).max()), float(np.ptp(found)))
    return worst - price.epsilon


@pytest.mark.cases(1)
@every_method
@every_adjacency
def test_no_world_exceeds_the_stated_price(method, adjacency):
    for epsilon in (0.3, 1.0, 4.0):
        assert method.event(Price(epsilon), adjacency) == BoundedRange(epsilon)
        assert excess(method, adjacency, Price(epsilon)) <= 1e-9


@pytest.mark.cases(1)
@every_adjacency
def test_the_price_is_nearly_used_so_that_the_bound_is_no_accident(adjacency):
    assert excess(PriorPoE(clip=1.5, prior_weight=0), adjacency, Price(1.0)) > -0.02


def test_comparing_with_the_experts_own_mean_breaks_the_price(monkeypatch):
    # The public prediction must be public: a mean over the experts moves every summand when one expert changes.
    monkeypatch.setattr(ExpertOutputs, "log_prior", lambda self: np.nan_to_num(self._rows, neginf=-9).mean(axis=0))
    assert excess(PriorPoE(), Adjacency.REPLACE_ONE, Price(1.0)) > 0.2


def test_an_expert_that_agrees_with_the_public_model_adds_nothing_like_a_null_expert():
    public = (-0.2, -2.0, -4.0)
    agreeing = said([public, public], Adjacency.REPLACE_ONE, public)
    silent = said([(NAN, NAN, NAN)], Adjacency.REPLACE_ONE, public)
    # Of 1,536 grid steps an expert, at most one is lost to rounding.
    assert np.abs(agreeing.clipped_difference_sum(1.5).values).max() <= 2
    assert silent.clipped_difference_sum(1.5).values.tolist() == [0, 0, 0]


def test_odds_are_the_prior_to_its_power_times_the_clamped_differences():
    # By hand: difference (ln 2 - 0, -5 - 0) relative to its best (0, -5 - ln 2) is clamped to (0, -1.5). Under
    # replace-one each expert moves the sum by 2 * 1.5, so three experts at epsilon 2 give 3 * 1.5 * 2 / 3 = 3 nats,
    # and the prior (.8, .2) to the power 5 another 5 ln 4.
    public = np.log([0.8, 0.2])
    rows = [np.add(public, [math.log(2), -5.0])] * 3
    law = PriorPoE(clip=1.5, prior_weight=5).law(said(rows, Adjacency.REPLACE_ONE, public), Price(2.0))
    assert math.log(law[0] / law[1]) == pytest.approx(3 + 5 * math.log(4), abs=2e-3)


def test_poe_with_a_prior_multiplies_the_public_prediction_in():
    public = np.log([0.6, 0.3, 0.1])
    rows = [(0.0, -1.0, -2.0)] * 2
    flat = PoE(2.3).law(said(rows, Adjacency.ADD_REMOVE, public), Price(1.0))
    tilted = PoE(2.3, prior_weight=2).law(said(rows, Adjacency.ADD_REMOVE, public), Price(1.0))
    expected = np.array([float(p) for p in flat]) * np.exp(2 * public)
    assert [float(p) for p in tilted] == pytest.approx(list(expected / expected.sum()), abs=1e-3)


def test_an_extreme_public_prediction_is_no_trouble_after_the_charge():
    outputs = said([(0.0, -1.0)], Adjacency.REPLACE_ONE, (0.0, -1e300))
    for epsilon in (1e-6, 60.0):
        law = PriorPoE(clip=1000, prior_weight=100).law(outputs, Price(epsilon))
        assert float(sum(law)) == pytest.approx(1)


def test_without_a_finite_public_prediction_there_is_no_answer():
    for public in (None, np.array([0.0]), np.array([0.0, -math.inf]), np.array([NAN, 0.0])):
        outputs = ExpertOutputs(np.zeros((2, 2)), change_of(Adjacency.REPLACE_ONE), Adjacency.REPLACE_ONE, public)
        with pytest.raises(ParameterError, match="public"):
            PriorPoE().scores(outputs)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("prior-poe", {"clip": 0}),
        ("prior-poe", {"clip": math.nan}),
        ("prior-poe", {"prior_weight": -1}),
        ("prior-poe", {"prior_weight": 101}),
        ("poe", {"prior_weight": math.inf}),
        ("poe", {"prior_weight": math.nan}),
        ("poe", {"prior_weight": True}),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(name, options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        make_method(name, **options)


def test_a_prior_needs_the_exponential_mechanism(monkeypatch):
    monkeypatch.setattr(RNM, "log_prior", lambda self, experts: np.zeros(2))
    outputs = said([(0.0, -1.0)], Adjacency.REPLACE_ONE, (-0.7, -0.7))
    with pytest.raises(ParameterError, match="exponential mechanism alone"):
        RNM("permute_and_flip").law(outputs, Price(1.0))


def test_the_session_hands_the_models_answer_without_examples_to_the_method():
    # At epsilon 0.01 the records cannot outweigh a prior of 50 nats: the answer is what the model says by itself.
    def model(task, context, query):
        return [0.0, 9.0] if context else ([10.0, 0.0] if query["text"] == "left" else [0.0, 10.0])

    rows = [Row(i, {"text": f"note {i}", "label": "b"}) for i in range(20)]
    icl = PrivateICL(
        records=PrivateRecords(rows, source="notes"),
        task=Task(labels=["a", "b"]),
        method=PriorPoE(prior_weight=5),
        model=FakeScorer(model),
        budget=Budget(8, 1e-6),
        ledger=":memory:",
    )
    asked = ["left", "right"] * 20
    assert [r.value for r in icl.classify(asked, epsilon=0.01)] == ["a", "b"] * 20
