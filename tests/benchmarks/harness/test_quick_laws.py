"""Whole arrays of laws equal the methods' own laws, question by question."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.methods.base import Price, Selecting
from sottovoce.methods.pbs import PbS
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.privacy.unit import SWAP, Adjacency

METHODS = {**e.SELECTING, "PoE with a prior": PoE(1.0, prior_weight=3)}


def outputs(labels: int, experts: int, questions: int = 4):
    rng = np.random.default_rng(labels * 100 + experts)
    said = np.log(rng.dirichlet([0.3] * labels, (questions, experts)))
    said[0, 0] = np.nan
    public = np.log(rng.dirichlet([1.0] * labels, questions))
    return e.Answers(said, public, SWAP, Adjacency.REPLACE_ONE).outputs()


@pytest.mark.cases(12)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("labels", "experts"), [(2, 1), (4, 9), (14, 40)])
def test_arrays_equal_the_methods_own_laws(name, labels, experts):
    asked = outputs(labels, experts)
    quick = e.QuickLaws(METHODS[name], asked)
    for epsilon in (0.01, 1.0, 8.0):
        price = Price(epsilon, e.DELTA)
        assert np.abs(quick.at(price) - e.laws(METHODS[name], asked, price)).max() < 1e-9


def test_another_rate_would_be_noticed():
    asked = outputs(4, 9)
    right = e.laws(PoE(), asked, Price(1.0))
    assert np.abs(e.QuickLaws(PoE(), asked).at(Price(2.0)) - right).max() > 0.01
    assert isinstance(PoE(), Selecting)


EXTREME = {
    **METHODS,
    "PoE, one step": PoE(0.001),
    "PoE, widest": PoE(1000.0),
    "prior x PoE, one step": PriorPoE(0.001, 100.0),
    "prior x PoE, no prior": PriorPoE(2.0, 0.0),
    "PoE, largest prior": PoE(0.5, prior_weight=100.0),
}
ASSIGNMENTS = [(g, a) for g in (1, 3) for a in Adjacency if a in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)]


def extreme(rng, labels, group, adjacency):
    """Slots as the experiments fill them; rows that are null, impossible, certain, infinite or half read."""
    slots = e.grouped(13, group, adjacency, int(rng.integers(100)))
    said = np.log(rng.dirichlet([0.2] * labels, (9, len(slots))) + 1e-300)
    said[:, [not slot for slot in slots]] = np.nan
    kinds = rng.integers(12, size=said.shape[:2])
    said[kinds == 0] = np.nan
    said[kinds == 1] = -np.inf
    said[..., 0][kinds == 2] = np.inf
    said[..., -1][kinds == 3] = np.nan
    said[kinds == 4] = -1e300
    said[0] = np.nan
    public = np.log(rng.dirichlet([1.0] * labels, 9))
    public[1, 0] -= 5_000
    public[2] = 0.0
    return e.Answers(said, public, e.change_of(group, adjacency), adjacency).outputs()


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", EXTREME)
@pytest.mark.parametrize(("group", "adjacency"), ASSIGNMENTS)
def test_extremes_nulls_groups_and_adjacencies_change_nothing_about_that(name, group, adjacency):
    rng, method = np.random.default_rng(41), EXTREME[name]
    for labels in (2, 5):
        asked = extreme(rng, labels, group, adjacency)
        quick = e.QuickLaws(method, asked)
        for epsilon in (1e-3, 0.7, 300.0):
            price = Price(epsilon, e.DELTA)
            law = quick.at(price)
            assert np.abs(law - e.laws(method, asked, price)).max() < 1e-9
            assert law.sum(axis=1) == pytest.approx(np.ones(9), abs=1e-9)


def test_a_prior_is_rounded_as_the_mechanism_rounds_it():
    # At clip .001 a grid step is half of epsilon: a prior of .6 against .4, .405 nats, is less than half a step of 1.
    answers = e.Answers(np.zeros((1, 2, 2)), np.log([[0.6, 0.4]]), SWAP, Adjacency.REPLACE_ONE).outputs()
    method = PoE(0.001, prior_weight=1.0)
    assert e.QuickLaws(method, answers).at(Price(2.0)).tolist() == [[0.5, 0.5]]
    assert [float(p) for p in method.law(answers[0], Price(2.0))] == [0.5, 0.5]


@pytest.mark.slow
def test_forty_labels_by_subsampling_agree_with_a_finer_quadrature(monkeypatch):
    rng = np.random.default_rng(43)
    said = np.log(rng.dirichlet([0.1] * 40, (5, 4)) + 1e-12)
    found = [e.pbs_laws(PbS(0.1, 4), said, Price(epsilon, e.DELTA), Adjacency.REPLACE_ONE) for epsilon in (0.5, 30.0)]
    fine = np.polynomial.hermite_e.hermegauss(180)
    kept = fine[1] > 1e-200
    monkeypatch.setattr(np.polynomial.hermite_e, "hermegauss", lambda nodes: (fine[0][kept], fine[1][kept]))
    for epsilon, law in zip((0.5, 30.0), found, strict=True):
        again = e.pbs_laws(PbS(0.1, 4), said, Price(epsilon, e.DELTA), Adjacency.REPLACE_ONE)
        # Measured 2.5e-7 at 40 labels; the tasks have 14 at most.
        assert np.abs(law - again).max() < 1e-6
