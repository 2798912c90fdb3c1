"""Statements from draws: no alarm where nothing is wrong, and an alarm where it is; seeds are fixed."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.randomness import SeededRandomness
from sottovoce.testing.claims import Claim
from sottovoce.testing.draws import ALARM, departs, exceeds, mixture

LAW = {"a": 0.5, "b": 0.4, "c": 0.1}


def drawn(law: dict[str, float], draws: int, seed: int) -> list[str]:
    source, grid = SeededRandomness(seed), 10**9
    edges, names = np.cumsum([round(p * grid) for p in law.values()]), list(law)
    return [names[int(np.searchsorted(edges, source.below(grid), side="right"))] for _ in range(draws)]


@pytest.mark.slow
def test_draws_that_follow_a_law_raise_no_alarm():
    # 200 times 1,000 draws: a false alarm has probability 200 * 1e-9.
    assert ALARM == 1e-9
    assert [departs(LAW, Counter(drawn(LAW, 1_000, seed))) for seed in range(200)] == [""] * 200


def test_draws_of_another_law_are_noticed_every_time():
    # A probability off by 0.2: 12.6 deviations of 1,000 draws, and 11 are needed for a chance of 1e-6 to miss it.
    other = {"a": 0.7, "b": 0.2, "c": 0.1}
    assert all("does not" not in departs(LAW, Counter(drawn(other, 1_000, seed))) for seed in range(20))
    assert all(departs(LAW, Counter(drawn(other, 1_000, seed))) for seed in range(20))


def test_an_outcome_that_the_law_has_not_is_noticed_at_once():
    assert "came 1 times" in departs({"a": 0.5, "b": 0.5}, Counter(["a", "b"] * 5 + ["z"]))


def test_two_samplers_within_a_claim_are_not_told_apart_and_others_are():
    # Randomised response of loss 2: (0.881, 0.119); of loss 4: (0.982, 0.018).
    claim = Claim("a claim", pure=2.0)
    for loss, wrong in ((2.0, False), (4.0, True)):
        p = float(np.exp(loss) / (1 + np.exp(loss)))
        for seed in range(10):
            one, other = (drawn({"a": q, "b": 1 - q}, 2_400, 2 * seed + side) for side, q in enumerate((p, 1 - p)))
            assert bool(exceeds(claim, one, other)) is wrong


def test_log_ratios_that_are_further_apart_than_a_range_are_told_apart():
    # Randomised response of loss 1 has log-ratios of 1 and -1, a range of 2; the loss alone is that of a range of 1.
    p = float(np.exp(1.0) / (1 + np.exp(1.0)))
    for width, wrong in ((2.0, False), (1.0, True)):
        for seed in range(5):
            one, other = (drawn({"a": q, "b": 1 - q}, 4_000, 2 * seed + side) for side, q in enumerate((p, 1 - p)))
            found = exceeds(Claim("a claim", pure=1.0, width=width), one, other)
            assert ("apart: 1.0 is allowed" in found) is wrong


def test_every_branch_of_coins_is_added_up_with_its_probability():
    def tosses(source):
        first = source.below(3)
        return np.array([float(first == 0), float(source.below(2)) if first == 0 else 0.0])

    assert mixture(tosses) == pytest.approx([float(Fraction(1, 3)), float(Fraction(1, 6))])


def test_too_many_branches_are_not_added_up():
    assert mixture(lambda source: np.array([source.below(10**6)]), most=100) is None
