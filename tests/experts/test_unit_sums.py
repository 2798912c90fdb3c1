"""P4 for sums over units: how far one unit moves a sum, exactly in whole numbers, and that it comes from it alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, Block, ClassSums, Likeness, UnitCount, vectors_in_steps
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, several

LABELS = 3
NAN = (np.nan, 0.0)
VECTORS = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.6, -0.8), (70.0, -1e9), NAN)
RECORDS = tuple(itertools.product(VECTORS, range(LABELS)))
UNITS = [
    *([record] for record in RECORDS),
    *(list(pair) for pair in itertools.combinations_with_replacement(RECORDS, 2)),
    *([first, first, second] for first, second in itertools.product(RECORDS[::2], RECORDS[1::2])),
    [RECORDS[0]] * 7 + [RECORDS[1]] * 24,
]
TURNED = PublicMap(np.array([0.3, -0.1]), np.array([[0.0, 2.0], [-2.0, 0.5]]))
RULES = {
    "one": ClassSums(LABELS, 2),
    "quarters": ClassSums(LABELS, 2, divisor=4),
    "thirds": ClassSums(LABELS, 2, divisor=3),
    "mapped": ClassSums(LABELS, 2, mapped=TURNED),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)

numbers = st.one_of(
    st.floats(-2, 2),
    st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, -1.7e308, 5e-324, np.inf, np.nan, 1 + 2**-52, 2**-17, 2**-16]
    ),
)
records = st.tuples(st.tuples(numbers, numbers), st.integers(0, LABELS - 1))
units = st.lists(records, min_size=1, max_size=9)


def block(*units):
    rows = [(vector, label, number) for number, unit in enumerate(units) for vector, label in unit]
    vectors = np.array([vector for vector, _, _ in rows], dtype=float).reshape(len(rows), 2)
    return Block(vectors, [label for _, label, _ in rows], [number for _, _, number in rows])


def added(rule, *units) -> list[int]:
    with np.errstate(over="ignore", invalid="ignore"):
        return rule.add_up(block(*units)).tolist()


def square(one, other=None) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other or [0] * len(one), strict=True))


@every_rule
def test_a_unit_that_leaves_moves_the_sum_by_no_more_than_is_stated(rule):
    assert max(square(added(rule, unit)) for unit in UNITS) <= rule.squared_l2(DROP)


@every_rule
def test_a_unit_that_becomes_another_moves_the_sum_by_no_more_than_is_stated(rule):
    sums = np.array([added(rule, unit) for unit in UNITS])
    norms = (sums * sums).sum(axis=1)
    squares = norms[:, None] + norms[None, :] - 2 * sums @ sums.T
    assert squares.max() <= rule.squared_l2(SWAP)


def test_the_stated_bounds_are_reached():
    east, west = [(VECTORS[0], 0)], [(VECTORS[1], 0)]
    rule = ClassSums(LABELS, 2)
    assert square(added(rule, east), added(rule, west)) == rule.squared_l2(SWAP) == (2 * LIMIT) ** 2
    assert square(added(rule, east), added(rule, [(VECTORS[0], 1)])) == rule.squared_l2(SWAP)
    quarters = ClassSums(LABELS, 2, divisor=4)
    assert square(added(quarters, east)) == quarters.squared_l2(DROP) == LIMIT**2 + (LIMIT // 4) ** 2


def test_several_units_move_a_sum_by_as_much_more():
    rule = ClassSums(LABELS, 2)
    east, west = [(VECTORS[0], 0)], [(VECTORS[1], 0)]
    assert square(added(rule, east, east), added(rule, west, west)) == rule.squared_l2(TWO_SWAP)
    assert square(added(rule, east, east)) <= rule.squared_l2(several(DROP, 2))


@pytest.mark.cases(1)
@every_rule
@given(one=units, other=units)
def test_no_vector_and_no_number_of_records_gets_past_the_bound(rule, one, other):
    first, second = added(rule, one), added(rule, other)
    assert square(first) <= rule.squared_l2(DROP)
    assert square(first, second) <= rule.squared_l2(SWAP)


@pytest.mark.cases(1)
@every_rule
@given(world=st.lists(units, min_size=1, max_size=6))
def test_what_a_unit_adds_is_its_own_whatever_the_block(rule, world):
    whole = added(rule, *world)
    alone = [added(rule, unit) for unit in world]
    assert whole == [sum(column) for column in zip(*alone, strict=True)]
    assert whole == added(rule, *reversed(world))


def test_a_unit_of_two_labels_shares_its_norm_among_them():
    # Worked by hand: c = 1 / sqrt(2) for each, of the vector and of the count.
    found = added(ClassSums(2, 2), [((1.0, 0.0), 0), ((0.0, 1.0), 1)])
    share = 46340  # floor(65536 / sqrt(2))
    assert found == [share, 0, 0, share, share, share]


def test_a_unit_counts_by_the_records_that_say_something():
    rule = ClassSums(2, 2)
    assert added(rule, [((1.0, 0.0), 0), (NAN, 1)]) == added(rule, [((1.0, 0.0), 0)])
    assert added(rule, [(NAN, 1)]) == [0] * rule.size
    assert added(UnitCount(), [(NAN, 1)], [((1.0, 0.0), 0)] * 3) == [2 * LIMIT]


def test_an_empty_block_adds_nothing():
    assert added(ClassSums(2, 2)) == [0] * 6
    assert added(UnitCount()) == [0]
    assert added(Likeness(2, np.eye(2), 0.0, 1.0)) == [0] * 4


def test_vectors_are_rounded_towards_zero_on_the_grid_and_no_longer_than_one():
    rows = vectors_in_steps(np.array([[0.6, 0.8], [-0.60001, 0.8], [1e300, 1.0], [2**-17, -(2**-16)], [np.inf, 0.0]]))
    assert rows[0].tolist() == [39321, 52428]
    assert all(square(row) <= LIMIT**2 for row in rows.tolist())
    assert rows[1, 0] == -39321 or square(rows[1].tolist()) > (LIMIT - 2) ** 2
    assert rows[2].tolist() == [LIMIT, 0]
    assert rows[3:].tolist() == [[0, -1], [0, 0]]


@pytest.mark.slow
@given(world=st.lists(units, min_size=1, max_size=4), other=units)
def test_likenesses_of_a_unit_range_over_one_in_all(world, other):
    rule = Likeness(LABELS, np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, -0.8]]), floor=-0.1, ceiling=0.5)
    first, second = (np.array(added(rule, unit)).reshape(LABELS, -1) for unit in (world[0], other))
    assert first.min() >= 0
    assert np.ptp(first, axis=1).sum() <= LIMIT
    assert np.ptp(first - second, axis=1).max() <= 2 * LIMIT
    assert np.ptp(first - second, axis=1).sum() <= 2 * LIMIT
    alone = [added(rule, unit) for unit in world]
    assert added(rule, *world) == [sum(column) for column in zip(*alone, strict=True)]


def test_likenesses_of_vectors_whose_products_overflow_lie_in_their_range_too():
    rule = Likeness(1, np.full((2, 16), 0.25) * [[1.0], [-1.0]], floor=0.0, ceiling=0.5)
    for signs in ([1] * 8 + [-1] * 8, [1, -1] * 8, [1, 1, -1, -1] * 4):
        with np.errstate(over="ignore", invalid="ignore"):
            found = rule.add_up(Block(1.7e308 * np.array([signs]), [0], [0]))
        assert 0 <= found.min() <= found.max() <= LIMIT
