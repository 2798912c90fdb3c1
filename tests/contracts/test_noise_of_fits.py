"""The noise of fits and answers held against its law: whole numbers may be 0, and what hangs together is found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce.testing.fit_draws import not_normal


def whole_numbers(deviation: float, shape: tuple[int, int]) -> np.ndarray:
    """Rounded normal numbers, in deviations; with a deviation of 2 a fifth of them are 0."""
    noise = np.round(np.random.default_rng(7).normal(0.0, deviation, shape))
    return noise / math.sqrt(deviation**2 + 1 / 12)


@pytest.mark.parametrize("deviation", [2.0, 50.0])
def test_independent_noise_follows_its_law_also_where_some_of_it_is_zero(deviation):
    # A false alarm has a chance of 1e-9; pairs with a 0 were once counted as opposite signs.
    assert not_normal(list(whole_numbers(deviation, (40, 100)))) == ""


@pytest.mark.parametrize("deviation", [2.0, 50.0])
def test_noise_that_is_drawn_twice_or_for_two_numbers_is_found(deviation):
    noise = whole_numbers(deviation, (40, 100))
    assert "neighbouring numbers" in not_normal([np.repeat(one[:50], 2) for one in noise])
    assert "one draw and the next" in not_normal([noise[at // 2] for at in range(40)])
