"""Whole arrays of laws equal the methods' own laws, question by question."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.benchmarks import evaluation as e
from sottovoce.methods.base import Price, Selecting
from sottovoce.methods.poe import PoE
from sottovoce.privacy.unit import SWAP, Adjacency

METHODS = {**e.SELECTING, "PoE with a prior": PoE(1.0, prior_weight=3)}


def outputs(labels: int, experts: int, questions: int = 4):
    rng = np.random.default_rng(labels * 100 + experts)
    said = np.log(rng.dirichlet([0.3] * labels, (questions, experts)))
    said[0, 0] = np.nan
    public = np.log(rng.dirichlet([1.0] * labels, questions))
    return e.Answers(said, public, SWAP, Adjacency.REPLACE_ONE).outputs()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("labels", "experts"), [(2, 1), (4, 9), (14, 40)])
def test_arrays_equal_the_methods_own_laws(name, labels, experts):
    asked = outputs(labels, experts)
    quick = e.QuickLaws(METHODS[name], asked)
    for epsilon in (0.01, 1.0, 8.0):
        price = Price(epsilon, e.DELTA)
        # A prior is rounded to whole grid steps of epsilon / sensitivity nats in the method itself.
        rounding = 1e-3 * epsilon if METHODS[name].log_prior(asked[0]) is not None else 1e-9
        assert np.abs(quick.at(price) - e.laws(METHODS[name], asked, price)).max() < rounding


def test_another_rate_would_be_noticed():
    asked = outputs(4, 9)
    right = e.laws(PoE(), asked, Price(1.0))
    assert np.abs(e.QuickLaws(PoE(), asked).at(Price(2.0)) - right).max() > 0.01
    assert isinstance(PoE(), Selecting)
