"""Cross-checks with OpenDP: its privacy maps, and its samplers' frequencies against our laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.privacy.scores import Scores
from sottovoce.privacy.unit import Adjacency

dp = pytest.importorskip("opendp.prelude", reason="opendp is a development requirement")
dp.enable_features("contrib")
COUNTS = [6, 4, 3, 0]
DRAWS = 20_000


def noisy_max(measure, scale):
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    return dp.m.make_noisy_max(*space, measure, scale=scale)


def frequencies(measurement):
    counts = np.array(COUNTS, dtype=np.int32)
    return np.bincount([measurement(counts) for _ in range(DRAWS)], minlength=len(COUNTS))


@pytest.mark.parametrize("name", ["exponential", "permute_and_flip"])
def test_noisy_max_has_our_law_at_the_same_price(name):
    # Every count may move by one (linf distance 1): range 2, so epsilon 1 means scale 2. False alarm 1e-6.
    measure = dp.max_divergence() if name == "permute_and_flip" else dp.zero_concentrated_divergence()
    theirs = noisy_max(measure, scale=2.0)
    ours = PermuteAndFlip(1.0) if name == "permute_and_flip" else Exponential(1.0)
    scores = Scores(COUNTS, sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
    law = np.array([float(p) for p in ours.law(scores)])
    assert chisquare(frequencies(theirs), law * DRAWS).pvalue > 1e-6
    other = np.array([float(p) for p in type(ours)(1.2).law(scores)])
    assert chisquare(frequencies(theirs), other * DRAWS).pvalue < 1e-6


def test_their_maps_agree_with_our_prices():
    assert noisy_max(dp.max_divergence(), 2.0).map(1) == pytest.approx(1.0)
    assert noisy_max(dp.zero_concentrated_divergence(), 2.0).map(1) == pytest.approx(1 / 8)
    gaussian = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=2.0)
    sigma2 = float(
        GaussianNoisyMax(gaussian.map(1.0)).sigma2(
            Scores([1], sensitivity=1, adjacency=Adjacency.ADD_REMOVE, squared_l2=1)
        )
    )
    assert sigma2 == pytest.approx(4.0)
