"""Paired comparisons: values by hand, the correction, and what a choice of the best may look at."""

import math

import numpy as np
import pytest

from sottovoce.benchmarks.harness.experiment import Cell, Key
from sottovoce.benchmarks.public_data.comparisons import (
    Comparison,
    best_by_halves,
    compared,
    corrected,
    values_of,
)


def comparison(*differences):
    return Comparison("Is it?", 1.0, "rouge-l", differences)


def test_a_p_value_agrees_with_the_interval():
    # Mean 2.5, deviation 1.291, 4 values: t = 3.873 with 3 degrees of freedom.
    found = comparison(1.0, 2.0, 3.0, 4.0)
    assert found.p_value == pytest.approx(0.0305, abs=1e-4)
    assert found.found.low > 0
    near = comparison(-1.0, 2.0, 3.0, 1.0)
    assert near.p_value > 0.05
    assert near.found.low < 0
    assert comparison(0.0, 0.0, 0.0).p_value == 1.0


def test_the_questions_that_a_difference_needs():
    # (1.960 + 0.842)^2 = 7.849; a deviation of 4 at 2 points: 7.849 * 4 = 31.4.
    spread = comparison(*(4 / math.sqrt(2) * sign for sign in (1, -1)))
    assert spread.needed(2.0) == 32
    assert spread.needed(4.0) == 8


def test_differences_are_of_questions_that_both_answered():
    found = compared("Is it?", None, "rouge-l", [3.0, math.nan, 5.0], [1.0, 2.0, 2.0])
    assert found is not None
    assert found.differences == (2.0, 3.0)
    assert compared("Is it?", None, "rouge-l", [3.0, math.nan], [1.0, 2.0]) is None
    assert compared("Is it?", None, "rouge-l", [3.0], [1.0, 2.0]) is None
    assert values_of(Cell(Key("w", "own", "m"), (1.0, 2.0)), 2) == (1.0, 2.0)
    assert compared("Is it?", None, "rouge-l", values_of(None, 2), [1.0, 2.0]) is None


def test_the_best_is_not_chosen_by_the_values_it_is_compared_by():
    # Of equal methods the best of all values lies above their mean, the best by the other half does not.
    draws = np.random.default_rng(3).normal(size=(400, 4, 20))
    own = [best_by_halves(dict(enumerate(rows.tolist()))) for rows in draws]
    assert abs(np.mean(own)) < 0.04
    assert draws.mean(axis=2).max(axis=1).mean() > 0.2
    assert best_by_halves({"one": [math.nan] * 4, "two": [1.0, 2.0, 3.0, 4.0]}) == [1.0, 2.0, 3.0, 4.0]


def test_the_correction_is_over_all_of_them():
    made = [comparison(1.0, 2.0, 3.0, 4.0), comparison(-1.0, 2.0, 3.0, 1.0)]
    assert corrected(made) == pytest.approx([2 * made[0].p_value, max(2 * made[0].p_value, made[1].p_value)])
