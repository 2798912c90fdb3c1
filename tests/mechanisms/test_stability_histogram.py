"""Stability histograms: exact (epsilon, delta) over small worlds whose items nobody listed in advance."""

from __future__ import annotations

import itertools
import math
import pickle
from collections import Counter
from functools import lru_cache, reduce

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.errors import OpaqueError, ParameterError
from sottovoce.mechanisms.laplace import at_least
from sottovoce.mechanisms.stability_histogram import StabilityHistogram
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import ItemCounts, first_distinct
from sottovoce.privacy.events import PureDP, WithFailure
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from worlds import hockey_stick

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ITEMS = ("a", "b", "c")
SETS = [frozenset(s) for n in range(4) for s in itertools.combinations(ITEMS, n)]
SHOWN = 4
"""Noisy counts told apart above the threshold. Beyond every true count their loss is constant: nothing is lost."""


def items(units, cap=1, change=SWAP) -> ItemCounts:
    return ItemCounts(units, items_per_unit=cap, change=change, adjacency=AR if change is DROP else RO)


def law(mechanism, units, cap, change) -> np.ndarray:
    """Joint law of what becomes of every item; items are independent."""
    held = items(units, cap, change)
    return reduce(np.multiply.outer, (mechanism.item_law(held, item, SHOWN) for item in ITEMS)).ravel()


def neighbours(change, stay: int = 2):
    """Pairs of worlds that differ in the changed units; the others are small, or many that agree."""
    others = [o for n in range(stay + 1) for o in itertools.combinations_with_replacement(SETS, n)]
    others += [(frozenset("a"),) * 6, (frozenset("ab"),) * 5, (frozenset("a"),) * 4 + (frozenset("b"),) * 5]
    units = [*SETS, None] if change is DROP else SETS
    changed = [tuple(u for u in pair if u is not None) for pair in itertools.product(units, repeat=change.rows)]
    for other in others:
        for before, after in itertools.permutations(changed, 2):
            if change is not DROP or len(before) != len(after):
                yield (*other, *before), (*other, *after)


def worst_delta(make_law, epsilon: float, change, stay: int = 2) -> float:
    known = lru_cache(maxsize=None)(lambda units: make_law(sorted(units, key=sorted)))
    return max(float(np.maximum(known(a) - math.exp(epsilon) * known(b), 0).sum()) for a, b in neighbours(change, stay))


@pytest.mark.cases(4)
@pytest.mark.parametrize("cap", [1, 2])
@pytest.mark.parametrize("change", [DROP, SWAP], ids=lambda c: c.name)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.2), (2.0, 0.05), (0.5, 0.2)])
def test_no_small_world_exceeds_delta_and_the_bound_is_used(epsilon, delta, change, cap):
    mechanism = StabilityHistogram(epsilon, delta)
    worst = worst_delta(lambda units: law(mechanism, units, cap, change), epsilon, change)
    assert 0.1 * delta < worst <= delta + 1e-12


def test_two_swapped_units_that_bring_the_same_item_are_covered():
    mechanism = StabilityHistogram(2.0, 0.3)
    worst = worst_delta(lambda units: law(mechanism, units, 1, TWO_SWAP), 2.0, TWO_SWAP, stay=1)
    assert 0.1 * 0.3 < worst <= 0.3 + 1e-12


# Planted mistakes.


class _NoThreshold(StabilityHistogram):
    """Noise alone: the universe is read off the private responses."""

    def threshold(self, items):
        return 0


class _DeltaNotShared(StabilityHistogram):
    """Each of w new items may pass with the whole delta."""

    def threshold(self, items):
        one = ItemCounts([], items_per_unit=1, change=DROP, adjacency=AR)
        one.l1 = items.l1
        return super().threshold(one)


class _NoiseOfOneItem(StabilityHistogram):
    """Scale 1 / epsilon, though a unit holds w items and may swap them for others."""

    def scale(self, items):
        return super().scale(items) / items.l1


class _ContinuousThreshold(StabilityHistogram):
    """1 + b ln(w / (2 delta)) of the continuous law, rounded down, for integer noise that may equal it."""

    def threshold(self, items):
        b = float(self.scale(items))
        return math.floor(1 + b * math.log(items.items_per_unit / (2 * self.failure_delta))) - 1


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("mistaken", "cap", "least"),
    [
        (_NoThreshold(1.0, 0.2), 1, 0.3),
        (_DeltaNotShared(1.0, 0.186), 2, 0.05),
        (_NoiseOfOneItem(1.0, 0.05), 2, 0.2),
        (_ContinuousThreshold(1.0, 0.2), 1, 0.05),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, StabilityHistogram) else "",
)
def test_a_planted_mistake_is_caught(mistaken, cap, least):
    honest = StabilityHistogram(mistaken.epsilon, mistaken.failure_delta)
    found = [worst_delta(lambda units, m=m: law(m, units, cap, SWAP), 1.0, SWAP) for m in (mistaken, honest)]
    assert found[0] > mistaken.failure_delta + least
    assert found[1] <= mistaken.failure_delta + 1e-12


def test_a_forgotten_cap_is_caught():
    def uncapped(units):
        held = items([], cap=1)
        held.counts = Counter(item for unit in units for item in unit)
        laws = (mechanism.item_law(held, item, SHOWN) for item in ITEMS)
        return reduce(np.multiply.outer, laws).ravel()

    mechanism = StabilityHistogram(1.0, 0.05)
    assert worst_delta(uncapped, 1.0, SWAP) > 1.6 * 0.05


def test_a_swap_at_the_price_of_a_drop_is_caught():
    mechanism = StabilityHistogram(1.0, 0.05)
    assert worst_delta(lambda units: law(mechanism, units, 1, DROP), 1.0, SWAP) > 0.1


def test_without_a_threshold_the_loss_has_no_bound():
    # Specification 5.5: an item of one response has probability 0 without that response, and a third with it.
    mechanism = _NoThreshold(1.0, 0.2)
    p, q = (law(mechanism, units, 1, SWAP) for units in ([{"a"}, {"b"}], [{"a"}, {"a"}]))
    assert hockey_stick(p, q, 50.0) > 0.3


def test_a_threshold_for_one_new_unit_is_too_low_for_two():
    # Two units that bring the same item give it a count of 2, which passes e**(1 / 2) times as often.
    worst = worst_delta(lambda u: law(_DeltaNotShared(2.0, 0.14), u, 1, TWO_SWAP), 2.0, TWO_SWAP, stay=0)
    honest = worst_delta(lambda u: law(StabilityHistogram(2.0, 0.14), u, 1, TWO_SWAP), 2.0, TWO_SWAP, stay=0)
    assert honest <= 0.14
    assert worst > 0.2


# The threshold, the law and the sampler.


@pytest.mark.parametrize(("change", "widths", "rows"), [(DROP, 1, 1), (SWAP, 2, 1), (TWO_SWAP, 4, 2)], ids=str)
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_the_threshold_is_the_least_whole_number_that_keeps_its_promise(delta, change, widths, rows):
    for cap in (1, 3):
        mechanism, held = StabilityHistogram(1.0, delta), items([], cap, change)
        assert (held.l1, mechanism.scale(held)) == (cap * widths, cap * widths)
        threshold = mechanism.threshold(held)
        # P(rows + noise > threshold), from the closed tail of the discrete law.
        passes = [float(at_least(threshold + 1 - rows - less, mechanism.scale(held))) for less in (0, 1)]
        assert passes[0] <= delta / (rows * cap) < passes[1]


def test_the_threshold_by_hand():
    # b = 2: exp(-j / 2) / (1 + exp(-1 / 2)) <= 1e-6 from j = 27 on; 1 + 27 must be above the threshold: 27.
    assert StabilityHistogram(1.0, 1e-6).threshold(items([])) == 27


def test_items_law_is_a_distribution_and_an_item_that_nobody_holds_is_never_shown():
    held = items([{"a"}] * 5 + [{"b"}])
    mechanism = StabilityHistogram(1.0, 0.05)
    assert mechanism.item_law(held, "a", 7).sum() == pytest.approx(1, abs=1e-12)
    assert mechanism.item_law(held, "c", 2).tolist() == [1, 0, 0, 0]


@pytest.mark.slow
def test_releases_follow_the_law_and_too_little_noise_is_rejected():
    # 20,000 releases; false alarm 1e-6; a quarter less noise is missed with less than 1e-6.
    held, source = items([{"a"}] * 9, cap=1), SeededRandomness(51)
    stated = StabilityHistogram(1.0, 0.01)
    threshold, expected = stated.threshold(held), stated.item_law(held, "a", 6)

    def seen(sampled):
        places = np.zeros(8, dtype=int)
        for _ in range(20_000):
            released = sampled.release(held, source)
            assert all(count > threshold for _, count in released)
            places[min(released[0][1] - threshold, 7) if released else 0] += 1
        return places

    class _Thin(StabilityHistogram):
        def scale(self, items):
            return super().scale(items) * 3 / 4

        def threshold(self, items):
            return stated.threshold(items)

    assert chisquare(seen(stated), expected * 20_000).pvalue > 1e-6
    assert chisquare(seen(_Thin(1.0, 0.01)), expected * 20_000).pvalue < 1e-6


def test_a_release_is_sorted_by_item_and_leaves_out_what_few_hold():
    units = [["zebra", "apple"]] * 400 + [["secret 0417"]]
    released = StabilityHistogram(1.0, 1e-6).release(items(units, cap=2), SeededRandomness(1))
    assert [item for item, _ in released] == ["apple", "zebra"]
    assert all(abs(count - 400) < 80 for _, count in released)  # 20 scales: false alarm below 1e-8
    again = StabilityHistogram(1.0, 1e-6).release(items(units[::-1], cap=2), SeededRandomness(1))
    assert again == released  # noise follows the item's place in the alphabet, not in the data


# The seam.


def test_a_unit_counts_once_for_an_item_and_for_few_items():
    held = items([["b", "b", "a", "c"], ["c"], []], cap=2)
    assert held.counts == {"b": 1, "a": 1, "c": 1}
    assert first_distinct(["b", "b", "a", "c"], 2) == ["b", "a"]
    assert first_distinct({"c", "b", "a"}, 2) == first_distinct(frozenset("cba"), 2) == ["a", "b"]


def test_what_is_not_text_is_left_out_and_stops_no_release():
    # One unit's None would else be a TypeError in the middle of a release that was paid for.
    units = [["fee"]] * 400
    for odd in ([None, 3], {"fee", 3}, [["fee"], math.nan]):
        released = StabilityHistogram(1.0, 1e-6).release(items([*units, odd], cap=2), SeededRandomness(1))
        assert [item for item, _ in released] == ["fee"]


def test_one_change_moves_the_counts_by_no_more_than_stated():
    for cap, change in itertools.product((1, 2, 3), (DROP, SWAP)):
        moved = [
            sum(abs(items(a, cap).counts[i] - items(b, cap).counts[i]) for i in ITEMS)
            for a, b in neighbours(change, stay=1)
        ]
        # Three items are too few for two triples without a common one: a swap of more than one moves 3, not 2w.
        assert max(moved) == (cap if change is DROP else min(2 * cap, 3))
        assert max(moved) <= items([], cap, change).l1


def test_private_items_neither_print_nor_pickle():
    held = items([["my card ends in 0417"]] * 3)
    assert "0417" not in f"{held!r} {held} {[held]}"
    assert repr(held) == "ItemCounts(at most 1 items a unit, L1 2, replace-one)"
    with pytest.raises(OpaqueError):
        pickle.dumps(held)


def test_the_price_is_a_pure_epsilon_and_a_failure():
    event = StabilityHistogram(1.0, 1e-6).event
    assert event == WithFailure(PureDP(1.0), 1e-6)
    assert (cost_of(event).epsilon, cost_of(event).delta) == (1.0, 1e-6)


def test_parameters_for_which_the_proof_does_not_hold_are_refused():
    # New items of the other world add -ln(1 - delta / w) each; they must fit into epsilon / (2 w).
    for epsilon, delta in ((1.0, 0.34), (0.1, 0.05), (1e-6, 1e-6), (1.0, 0.0), (1.0, -1), (1.0, math.nan), (0, 1e-6)):
        with pytest.raises(ParameterError):
            StabilityHistogram(epsilon, delta)
    StabilityHistogram(1.0, 0.33)
    for epsilon in (0.01, 1.0, 5.0):
        for (rows, widths), cap in itertools.product(((1, 1), (1, 2), (2, 4)), (1, 30)):
            share = epsilon / (2 + epsilon) / (rows * cap)
            assert -math.log1p(-share) <= epsilon / (cap * widths) + 1e-15
    for cap in (0, 1.5, True):
        with pytest.raises(ParameterError, match="items_per_unit"):
            items([], cap=cap)
