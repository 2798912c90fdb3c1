"""Bootstrap intervals cover about as often as they say, and a difference that is none is seldom seen."""

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.intervals import Estimate, bootstrap, mean_of


def mean(values):
    return lambda weights: float(weights @ values / weights.sum())


@pytest.mark.slow
def test_intervals_cover():
    # 150 intervals of 95 % over 60 normal values. Fewer than 130 cover with probability below 1e-3 if 94 % do; a
    # stretch of half the width covers about 66 %, and so less often than that with probability above 1 - 1e-6.
    values = np.random.default_rng(5).normal(size=(150, 60))
    found = [bootstrap(mean(row), 60, seed=seed, replicates=200) for seed, row in enumerate(values)]
    assert sum(each.low <= 0 <= each.high for each in found) >= 130
    assert sum(each.low / 2 + each.value / 2 <= 0 <= each.high / 2 + each.value / 2 for each in found) < 130


def test_draws_on_which_a_statistic_is_not_defined_are_left_out():
    values = np.array([1.0, 1.0])
    half = bootstrap(lambda weights: float("nan") if not weights[0] else mean(values)(weights), 2)
    assert half == Estimate(1.0, 1.0, 1.0)
    assert np.isnan(bootstrap(lambda _: float("nan"), 2).low)


@pytest.mark.parametrize(("low", "high", "sign"), [(0.1, 0.3, 1), (-0.3, -0.1, -1), (-0.1, 0.1, 0), (0.0, 0.2, 0)])
def test_a_sign_needs_the_whole_interval(low, high, sign):
    assert Estimate((low + high) / 2, low, high).sign == sign


def test_the_interval_of_a_mean_is_students():
    # By hand: mean 2.5, standard error sqrt(5/3)/2 = .6455, and t of 3 degrees of freedom is 3.1824.
    found = mean_of([1.0, 2.0, 3.0, 4.0])
    assert (found.value, found.low, found.high) == pytest.approx((2.5, 0.4457, 4.5543), abs=1e-4)
    with pytest.raises(ParameterError, match="values is 1"):
        mean_of([1.0])
