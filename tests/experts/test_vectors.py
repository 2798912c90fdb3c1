"""Vectors of experts: each clipped by itself, in whole numbers, under a bound that looks at no data (P4)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ParameterError
from sottovoce.experts.embeddings import bound_in_steps, clipped_to_grid, keyword_counts, sum_of_clipped
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ROWS = np.random.default_rng(20261121).normal(size=(7, 5))
any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
anything = st.lists(any_float, min_size=1, max_size=6)
grid_bits = st.integers(0, 20)


def total(rows, bound=1.0, change=SWAP, bits=10, clip=clipped_to_grid) -> VectorSum:
    """The sum as the library makes it, or with another way to clip."""
    array = np.asarray(rows, dtype=float)
    if clip is clipped_to_grid:
        return sum_of_clipped(array, bound, change, RO, 10, grid_bits=bits)
    summed = np.sum([clip(row, bound, bits) for row in array], axis=0)
    return VectorSum(summed, squared_l2=(bound_in_steps(bound, bits) * change.widths) ** 2, adjacency=RO)


def test_two_vectors_by_hand():
    # (3, 4) is clipped to (0.6, 0.8): 9.6 and 12.8 steps of 1/16, cut to 9 and 12; (0, 0.5) is 8 steps.
    summed = sum_of_clipped(np.array([[3.0, 4.0], [0.0, -0.5]]), 1.0, SWAP, RO, 2, grid_bits=4)
    assert summed.values.tolist() == [9, 4]
    assert (summed.squared_l2, summed.denominator, summed.grid_step) == ((2 * 16) ** 2, 2, 1 / 16)


@pytest.mark.parametrize(("change", "norms"), [(DROP, 1), (SWAP, 2), (TWO_SWAP, 4)], ids=str)
def test_the_bound_is_one_norm_for_a_drop_and_two_for_each_swapped_expert(change, norms):
    assert total(ROWS, 0.3, change, bits=4).squared_l2 == (4 * norms) ** 2  # 0.3 is 4.8 steps, cut to 4


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[:0], np.full((3, 5), np.nan)], ids=["7", "1", "0", "null"])
def test_the_bound_and_the_denominator_do_not_follow_the_number_of_experts(rows):
    summed = sum_of_clipped(rows, 1.0, DROP, AR, 12)
    assert (summed.squared_l2, summed.denominator, summed.values.size) == (2**32, 12, 5)


def test_no_expert_is_the_zero_vector():
    assert sum_of_clipped(np.zeros((0, 3)), 1.0, DROP, AR, 12).values.tolist() == [0, 0, 0]


def test_the_order_of_the_experts_does_not_matter():
    sums = {tuple(total(ROWS[list(order)]).values) for order in itertools.permutations(range(5))}
    assert len(sums) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_adds_nothing(bad):
    spoiled = ROWS.copy()
    spoiled[3, 2] = bad
    assert total(spoiled).values.tolist() == total(np.delete(ROWS, 3, axis=0)).values.tolist()


@settings(max_examples=100, deadline=None)
@given(row=anything, others=st.lists(anything, max_size=5), bits=grid_bits)
def test_an_expert_adds_the_same_whatever_the_others_say(row, others, bits):
    beside = [[*other, *([0.0] * 6)][: len(row)] for other in others]
    added = total([*beside, row], bits=bits).values - (total(beside, bits=bits).values if beside else 0)
    assert added.tolist() == clipped_to_grid(np.array(row), 1.0, bits)


def test_an_experts_vector_does_not_depend_on_how_it_lies_in_memory():
    rows = np.random.default_rng(5).normal(size=(64, 384))
    expected = [clipped_to_grid(row.copy(), 1.0, 16) for row in rows]
    layouts = (rows, np.asfortranarray(rows), rows[::-1][::-1], np.repeat(rows, 2, axis=1)[:, ::2])
    for layout in layouts:
        assert [clipped_to_grid(row, 1.0, 16) for row in layout] == expected


@settings(max_examples=300, deadline=None)
@given(row=anything, bound=st.floats(2**-3, 1e6), bits=st.integers(3, 20))
def test_no_vector_is_longer_than_its_bound(row, bound, bits):
    steps = clipped_to_grid(np.array(row), bound, bits)
    assert sum(x * x for x in steps) <= bound_in_steps(bound, bits) ** 2


@pytest.mark.parametrize("size", [1e-308, 5e-324, 1e-200, 1.0, 1e200, 1.7e308])
def test_extreme_sizes_neither_overflow_nor_vanish(size):
    steps = clipped_to_grid(np.array([size, -size, size, 0.0]), 1.0, 10)
    expected = math.trunc(1024 / math.sqrt(3)) if size >= 1 else 0
    assert [abs(x - y) <= 1 for x, y in zip(steps, [expected, -expected, expected, 0], strict=True)] == [True] * 4


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(row=st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_a_clipped_vector_keeps_its_direction_to_within_the_grid(row):
    vector = np.array(row)
    ideal = vector / max(1.0, np.linalg.norm(vector)) * 2**16
    # Truncation loses less than a step a coordinate; shrinking by whole numbers loses one more.
    assert np.abs(clipped_to_grid(vector, 1.0, 16) - ideal).max() <= 2
    assert (np.abs(clipped_to_grid(vector, 1.0, 16)) <= np.abs(ideal) + 1e-6).all()


# Planted mistakes. The largest change over small worlds is compared with the bound that was stated.


def largest_squared_change(make, candidates, experts=3, change=SWAP) -> float:
    """The largest squared norm of S - S' over every world of few experts, as a share of the stated bound."""
    worst = 0.0
    for others in itertools.product(candidates, repeat=experts - 1):
        sums = [make([*others, row]) for row in candidates]
        sums += [make(list(others))] if change is DROP else []
        pairs = [(s, sums[-1]) for s in sums] if change is DROP else itertools.combinations(sums, 2)
        worst = max(worst, *(np.sum((a.values - b.values) ** 2.0) / a.squared_l2 for a, b in pairs))
    return worst


LONG = [[50.0, 0.0], [-50.0, 0.0], [0.7071, 0.7071], [-0.7071, -0.7071], [0.0, 0.0]]


@pytest.mark.parametrize("change", [DROP, SWAP], ids=lambda c: c.name)
@pytest.mark.parametrize("bits", [0, 1, 4])
def test_one_change_stays_within_the_bound_and_reaches_it(change, bits):
    worst = largest_squared_change(lambda rows: total(rows, change=change, bits=bits), LONG, change=change)
    assert worst == 1.0


def test_clipping_the_sum_in_place_of_the_summands_is_caught():
    def clip_after(rows):
        clipped = clipped_to_grid(np.sum(rows, axis=0), float(len(rows)), 4)
        return VectorSum(clipped, squared_l2=32**2, adjacency=RO)

    assert largest_squared_change(clip_after, LONG) > 1


def test_rounding_to_the_nearest_step_is_caught():
    def to_nearest(row, bound, bits):
        row = np.array(row)
        return np.round(row / max(1.0, np.linalg.norm(row) / bound) * 2**bits).astype(int)

    assert np.sum(to_nearest([0.7071, 0.7071], 1.0, 0) ** 2) == 2  # where the bound is 1
    assert largest_squared_change(lambda rows: total(rows, bits=0, clip=to_nearest), LONG) > 1


def test_clipping_coordinates_in_place_of_norms_is_caught():
    def entrywise(row, bound, bits):
        return np.trunc(np.clip(row, -bound, bound) * 2**bits).astype(int)

    assert largest_squared_change(lambda rows: total(rows, clip=entrywise), [[1.0, 1.0], [-1.0, -1.0]]) == 2


def test_dividing_by_the_number_of_experts_that_answered_moves_a_mean_twice_as_far():
    # Specification 2.4: 2C / (n + 1) is attained, where a fixed denominator s = n + 1 gives C / s.
    n, corners = 4, [[1.0], [-1.0], [0.0]]
    moved_fixed = moved_actual = 0.0
    for rows in itertools.product(corners, repeat=n + 1):
        whole, without = (sum_of_clipped(np.array(r), 1.0, DROP, AR, n + 1) for r in (rows, rows[:-1]))
        sums = [float(s.values[0] * s.grid_step) for s in (whole, without)]
        moved_fixed = max(moved_fixed, abs(sums[0] - sums[1]) / whole.denominator)
        moved_actual = max(moved_actual, abs(sums[0] / (n + 1) - sums[1] / n))
    assert moved_fixed == 1 / (n + 1)
    assert moved_actual == pytest.approx(2 / (n + 1))


# Keyword counts.


@pytest.mark.parametrize(("change", "expected"), [(DROP, 2), (SWAP, 4)], ids=["drop", "swap"])
def test_keyword_counts_move_by_exactly_the_stated_norm(change, expected):
    # Every pair of responses over four keywords, at most two each, beside one that stays.
    rows = list(itertools.product((0, 1), repeat=4))
    worst = largest_squared_change(lambda r: keyword_counts(r, 2, change, RO), rows, experts=2, change=change)
    assert worst == 1.0
    assert keyword_counts(rows, 2, change, RO).squared_l2 == expected


def test_two_swapped_responses_can_agree_so_that_norms_add():
    before, after = (keyword_counts([row] * 2, 2, TWO_SWAP, RO) for row in ([1, 1, 0, 0], [0, 0, 1, 1]))
    assert np.sum((before.values - after.values) ** 2) == before.squared_l2 == 16


def test_thirty_keywords_a_response_have_the_norms_of_the_specification():
    rows = [[1] * 60]
    assert math.sqrt(keyword_counts(rows, 30, DROP, AR).squared_l2) == pytest.approx(5.48, abs=5e-3)
    assert math.sqrt(keyword_counts(rows, 30, SWAP, RO).squared_l2) == pytest.approx(7.75, abs=5e-3)


def test_a_response_with_too_many_keywords_keeps_the_first_of_the_public_list():
    assert keyword_counts([[0, 1, 1, 1], [1, 0, 0, 1]], 2, SWAP, RO).values.tolist() == [1, 1, 1, 1]


def test_a_forgotten_cap_is_caught():
    def uncapped(rows):
        return VectorSum(np.sum(rows, axis=0), squared_l2=4, adjacency=RO)

    assert largest_squared_change(uncapped, [[0] * 5, [1] * 5], experts=1) > 1


@pytest.mark.parametrize("bad", [2, -1, math.nan, math.inf, 0.5])
def test_a_row_with_anything_but_zero_and_one_is_a_null_response(bad):
    assert keyword_counts(np.array([[1, bad, 0], [0, 1, 1]]), 2, SWAP, RO).values.tolist() == [0, 1, 1]


def test_no_response_is_the_zero_vector():
    assert keyword_counts(np.zeros((0, 3), dtype=int), 2, DROP, AR).values.tolist() == [0, 0, 0]


def test_keyword_rows_without_experts_as_an_axis_are_refused():
    # One number for each of three experts, capped as if they were one expert: a drop would move two counts, not one.
    for rows in ([1, 0, 1], [], np.ones((2, 2, 2))):
        with pytest.raises(ParameterError, match="rows"):
            keyword_counts(rows, 1, DROP, AR)


@pytest.mark.parametrize("values", [[2**63], [2**60 + 1], [0, -(2**60) - 1]])
def test_a_sum_that_would_wrap_around_is_refused(values):
    # As a signed number 2**63 is -2**63: a step of one would become one of 2**64.
    with pytest.raises(ParameterError, match="values"):
        VectorSum(np.array(values), squared_l2=1, adjacency=RO)


@pytest.mark.parametrize("bound", [0, -1, math.nan, math.inf, 1e-9, 1e12])
def test_a_bound_that_the_grid_cannot_hold_is_refused(bound):
    with pytest.raises(ParameterError, match="bound"):
        total(ROWS, bound)


def test_public_parameters_out_of_range_are_refused():
    for bits in (-1, 33, 1.5, True):
        with pytest.raises(ParameterError, match="grid_bits"):
            total(ROWS, bits=bits)
    for denominator in (0, -3, 2.5, True):
        with pytest.raises(ParameterError, match="denominator"):
            sum_of_clipped(ROWS, 1.0, SWAP, RO, denominator)
    for cap in (0, 1.5):
        with pytest.raises(ParameterError, match="keywords_per_response"):
            keyword_counts([[1, 0]], cap, SWAP, RO)
