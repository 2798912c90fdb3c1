"""Which units experts that write see: what one change does, what is amplified, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.experts.sampling import REFUSED, ExpertSampling
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import (
    ApproximateDP,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
)
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT


class Listed:
    """A source that gives what is listed."""

    secure = False

    def __init__(self, numbers) -> None:
        self.numbers = list(numbers)

    def below(self, bound: int) -> int:
        number = self.numbers.pop(0)
        assert number < bound
        return number


@pytest.mark.parametrize(
    ("adjacency", "shots", "experts", "change"),
    [
        (RO, 1, None, "swap"), (RO, 4, None, "swap"), (RO, 1, 5, "swap"), (RO, 4, 5, "swap"),
        (AR, 1, None, "drop"), (AR, 1, 5, "drop"), (AR, 4, 5, "swap"),
        (ZO, 1, None, "drop"), (ZO, 1, 5, "drop"), (ZO, 4, 5, "swap"),
    ],
)  # fmt: skip
def test_what_one_change_does_is_that_of_table_2_2(adjacency, shots, experts, change):
    assert ExpertSampling(shots, experts).change(adjacency).name == change


def test_a_fresh_sample_is_a_swap_for_whoever_is_in_it():
    assert ExpertSampling(1, 5, "without-replacement").change(RO).name == "swap"
    for adjacency in (AR, RO):
        assert ExpertSampling(1, 5, "categorical", rate=0.2).change(adjacency).name == "swap"


@pytest.mark.parametrize(
    ("sampling", "adjacency", "allowed"),
    [("without-replacement", AR, "replace-one"), ("without-replacement", ZO, "replace-one"),
     ("categorical", ZO, "add-remove, replace-one")],
)  # fmt: skip
def test_a_sampling_is_refused_where_section_7_has_no_row_for_it(sampling, adjacency, allowed):
    rate = 0.2 if sampling == "categorical" else None
    drawn = ExpertSampling(2, 5, sampling, rate=rate)
    with pytest.raises(AssignmentError, match=f"Allowed adjacencies: {allowed}"):
        drawn.change(adjacency)


@pytest.mark.parametrize("name", REFUSED)
def test_a_sampling_without_a_guarantee_is_refused_with_the_reason_and_what_is_allowed(name):
    with pytest.raises(AssignmentError) as refused:
        ExpertSampling(2, 5, name)
    assert REFUSED[name] in str(refused.value)
    assert "Use 'without-replacement' under replace-one, 'categorical'" in str(refused.value)


def test_a_poisson_accountant_on_a_sample_of_fixed_size_is_refused():
    # Specification 11, item 9: 2.150 is printed for one question where 7.226 is right.
    with pytest.raises(AssignmentError, match="no Poisson accountant holds"):
        ExpertSampling(4, 100, "poisson")


def test_a_coreset_by_k_means_is_refused_with_what_is_admissible():
    with pytest.raises(AssignmentError, match=r"(?s)follows from every record.*charged private clustering.*5\.7\.2"):
        ExpertSampling(4, 100, "k-means")


@pytest.mark.parametrize("sampling", ["without-replacement", "categorical"])
def test_answers_that_are_kept_amplify_nothing(sampling):
    rate = 0.2 if sampling == "categorical" else None
    with pytest.raises(AssignmentError, match=r"share one sample.*item 16.*Use 'all'"):
        ExpertSampling(2, 5, sampling, rate=rate, cached=True)
    kept = ExpertSampling(2, 5, cached=True)
    assert kept.rate_of(100) is None
    assert kept.amplified(PureDP(1.0), RO, 100) == PureDP(1.0)


def test_a_rate_is_for_categorical_slots_alone_and_they_need_one():
    with pytest.raises(ParameterError, match="'categorical' alone"):
        ExpertSampling(2, 5, rate=0.2)
    with pytest.raises(ParameterError, match="rate is missing"):
        ExpertSampling(2, 5, "categorical")
    with pytest.raises(ParameterError, match="given for the sampling 'without-replacement'"):
        ExpertSampling(2, sampling="without-replacement")


@pytest.mark.parametrize("sampling", ["all", "without-replacement"])
def test_more_records_than_there_are_is_refused_where_their_number_is_public(sampling):
    drawn = ExpertSampling(4, 100, sampling)
    with pytest.raises(ParameterError, match="experts is 100; it must be at most 99: 399 units, 4 an expert"):
        drawn.count(RO, 399)
    assert drawn.count(RO, 400) == 100


def test_oracle_16_a_sample_is_amplified_once_on_the_whole_event():
    drawn = ExpertSampling(4, 100, "without-replacement")
    event = drawn.amplified(PureDP(8.0), RO, 2600)
    assert event == SampledWithoutReplacementDpEvent(2600, 400, PureDP(8.0))
    assert RdpAccountant(RO).compose(event).report(0.0).epsilon == pytest.approx(6.1300, abs=1e-4)
    several = drawn.amplified(ApproximateDP(3.0, 1e-6), RO, 2600)
    assert RdpAccountant(RO).compose(several).report(1e-6).epsilon == pytest.approx(1.370, abs=1e-3)


def test_categorical_slots_are_priced_as_independent_coins():
    event = ExpertSampling(4, 100, "categorical", rate=0.1).amplified(PureDP(1.0), AR, None)
    assert event == PoissonSampledDpEvent(0.1, PureDP(1.0))


def test_a_sample_without_replacement_holds_every_set_equally_often():
    drawn, source, seen = ExpertSampling(1, 2, "without-replacement"), SeededRandomness(4), Counter()
    for _ in range(6000):
        (first,), (second,) = drawn.drawn(4, source)
        assert first != second
        seen[first, second] += 1
    # Twelve ordered pairs, 500 expected: five standard deviations are 107; a false alarm has a chance of 1e-5.
    assert len(seen) == 12
    assert max(abs(count - 500) for count in seen.values()) < 107


def test_a_unit_is_in_a_categorical_slot_at_its_rate_and_no_unit_moves_another():
    # Every outcome of the coins: order of two units, then for each a coin (rate 1/2) and a slot of two.
    drawn, seen = ExpertSampling(2, 2, "categorical", rate=0.5), Counter()
    for order, coins in itertools.product(range(2), itertools.product((0, 1), (0, 1), (0, 1), (0, 1))):
        first, second, slots = coins[0], coins[2], (coins[1], coins[3])
        numbers = [order, first, *([slots[0]] if first == 0 else []), second, *([slots[1]] if second == 0 else [])]
        members = drawn.drawn(2, Listed(numbers))
        seen[tuple(tuple(sorted(slot)) for slot in members)] += 1
    total = sum(seen.values())
    for unit in range(2):
        for slot in range(2):
            share = sum(count for members, count in seen.items() if unit in members[slot]) / total
            assert share == 0.25
    with_the_other = sum(count for members, count in seen.items() if (0, 1) in members) / total
    assert with_the_other == 0.125


def test_a_slot_that_is_drawn_too_often_keeps_as_many_as_an_expert_sees():
    drawn = ExpertSampling(1, 1, "categorical", rate=0.999_999)
    members = drawn.drawn(5, SeededRandomness(2))
    assert [len(slot) for slot in members] == [1]


def test_a_fixed_partition_takes_a_random_subset_that_looks_at_nothing():
    fixed = ExpertSampling(2, 3)
    members = fixed.fixed([None] * 10, RO, SeededRandomness(3))
    assert [len(slot) for slot in members] == [2, 2, 2]
    assert len({unit for slot in members for unit in slot}) == 6
    assert members != fixed.fixed([None] * 10, RO, SeededRandomness(4))
    whole = ExpertSampling(2).fixed([None] * 5, RO, SeededRandomness(3))
    assert sorted(unit for slot in whole for unit in slot) == [0, 1, 2, 3, 4]


def test_slots_of_public_number_hold_units_by_a_secret_hash_under_add_remove():
    ids = [f"id{n}" for n in range(200)]
    members = ExpertSampling(1, 50).fixed(ids, AR, SeededRandomness(3))
    assert len(members) == 50
    assert all(len(slot) <= 1 for slot in members)
    assert any(not slot for slot in members)
    with pytest.raises(AssignmentError, match="stable id"):
        ExpertSampling(1, 50).fixed([None] * 3, AR, SeededRandomness(3))
