"""PoE decoding: the specification's calibration for many tokens, oracles of one token, and modes of normalization."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decoding_worlds import ADJACENCIES, change_of, law_of, plan_of
from sottovoce.errors import ParameterError
from sottovoce.methods.base import Price
from sottovoce.methods.poe_decoding import PoEDecoding

AR, RO = ADJACENCIES


@pytest.mark.parametrize(("epsilon", "tokens", "eta"), [(4, 32, 0.28606), (8, 64, 0.36819), (8, 128, 0.25838)])
@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)
def test_tokens_get_the_specifications_eta(epsilon, tokens, eta, adjacency):
    # 5.1.6, delta = 1e-6; lambda = eta/C for a drop and eta/(2C) for a swap.
    plan = PoEDecoding(clip=5.0).plan(
        Price(epsilon, 1e-6), tokens=tokens, experts=9, adjacency=adjacency, change=change_of(adjacency), bounds=["RDP"]
    )
    assert plan.eta == pytest.approx(eta, abs=1.5e-5)
    assert plan.decoder.rate == pytest.approx(eta / (5 * change_of(adjacency).widths), rel=1e-4)


@pytest.mark.parametrize(("experts", "loss"), [(4, 1.891222), (8, 1.997860), (20, 2.000000)])
def test_one_replaced_expert_loses_what_the_oracle_says(experts, loss):
    # O3 and 5.1.4: C = 3, lambda = 1/3, (0, -3) replaced by (-3, 0) beside experts that say (-3, 0).
    plan = plan_of(PoEDecoding(clip=3.0, rate=1 / 3, normalization="max"), RO, experts=experts)
    p, q = (law_of(plan, (0.0, 0.0), [row, *[(-3.0, 0.0)] * (experts - 1)]) for row in ((0.0, -3.0), (-3.0, 0.0)))
    if experts == 4:
        assert (p[0], q[0]) == (pytest.approx(0.119203, abs=1e-6), pytest.approx(0.017986, abs=1e-6))
    assert np.abs(np.log(p / q)).max() == pytest.approx(loss, abs=1e-6)
    assert plan.eta == pytest.approx(2.0)


def test_a_public_prior_multiplies_the_weights():
    rows, public = [(0.0, -1.0, -2.0)] * 2, (1.0, 0.0, 3.0)
    flat, tilted = (law_of(plan_of(PoEDecoding(3.0, 0.4, prior_weight=a), AR), public, rows) for a in (0.0, 2.0))
    expected = flat * np.exp(2 * np.array(public))
    assert tilted == pytest.approx(expected / expected.sum(), rel=1e-3)


def test_probability_outside_the_candidates_costs_an_expert_its_vote_in_vocabulary_mode_alone():
    # The expert prefers a token that the public prompt rules out; among the candidates it prefers the second.
    public, rows = (9.0, 8.0, 0.0), [(0.0, 3.0, 40.0)] * 3
    laws = {
        mode: law_of(plan_of(PoEDecoding(4.0, 1.0, top_k=2, normalization=mode), AR), public, rows)
        for mode in ("candidates", "vocabulary", "max")
    }
    assert laws["vocabulary"].tolist() == [0.5, 0.5, 0.0]
    assert laws["candidates"][1] == pytest.approx(1 / (1 + math.exp(-9)), rel=1e-3)
    assert laws["max"] == pytest.approx(laws["candidates"], rel=2e-2)


@pytest.mark.parametrize("options", [{"normalization": "labels"}, {"prior_weight": -1}, {"clip": 0}, {"rate": 0}])
def test_parameters_out_of_range_are_refused(options):
    with pytest.raises(ParameterError):
        PoEDecoding(**options)
