"""P10: one change of the data touches at most the slots of table 2.2, by brute force over small data sets.

A unit is a pair (id, content). What an expert says is a function of its slot, so two data sets are compared by the
multiset of their slots' contents: an empty slot says nothing.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.experts import partition as partitions
from sottovoce.experts.partition import Partition
from sottovoce.privacy.unit import CHANGE_TYPES, DROP, SWAP, Adjacency, Assignment

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
KEY = b"k" * 32
SHUFFLED = partitions.shuffled
IDS = ("u1", "u2", "u3", "u4", "u5")

Unit = tuple[str, str]


def slots(partition: Partition, adjacency: Adjacency, units: list[Unit], ids: bool = True) -> list[tuple[Unit, ...]]:
    made = partition.assign([name if ids else None for name, _ in units], adjacency)
    return [tuple(units[i] for i in slot) for slot in made.members]


def neighbours(adjacency: Adjacency, most: int = 4) -> Iterator[tuple[list[Unit], list[Unit]]]:
    """Every pair of small data sets with contents "x" or "y" that differ in one unit, in every place of the list."""
    for size in range(1, most + 1):
        for names in itertools.permutations(IDS[:most], size):
            units = [(name, "x") for name in names]
            for place in range(size):
                if adjacency is AR:
                    yield units, units[:place] + units[place + 1 :]
                else:
                    yield units, [*units[:place], (names[place], "y"), *units[place + 1 :]]


def touched(before: list[tuple[Unit, ...]], after: list[tuple[Unit, ...]]) -> tuple[int, int]:
    """How many non-empty slots the first world has that the second has not, and the other way round."""
    here, there = (Counter(slot for slot in world if slot) for world in (before, after))
    return sum((here - there).values()), sum((there - here).values())


def worst(partition: Partition, adjacency: Adjacency, assign=slots) -> tuple[int, bool]:
    """Most slots that one change touches, and whether a slot's content was ever exchanged for other content."""
    most, exchanged = 0, False
    for before, after in neighbours(adjacency):
        gone, come = touched(assign(partition, adjacency, before), assign(partition, adjacency, after))
        most, exchanged = max(most, gone, come), exchanged or (gone > 0 and come > 0)
    return most, exchanged


def keyed(**options) -> list[Partition]:
    """The same partition under several keys, so that many collisions are met."""
    return [Partition(**options, _key=bytes([seed]) * 32) for seed in range(6)]


SUPPORTED = [
    *((partition, AR, DROP) for partition in [Partition(), *keyed(capacity=2), *keyed(capacity=7)]),
    *((partition, AR, SWAP) for g in (2, 3) for partition in keyed(units_per_expert=g, capacity=2)),
    (Partition(), RO, SWAP),
    (Partition(), ZO, DROP),
    *((Partition(units_per_expert=g), relation, SWAP) for g in (2, 3, 9) for relation in (RO, ZO)),
]


@pytest.fixture(params=range(3))
def order(request, monkeypatch):
    """One secret order, the same for both worlds of a pair: the laws are mixtures over all of them."""
    monkeypatch.setattr(
        partitions, "shuffled", lambda count, _: random.Random(request.param).sample(range(count), count)
    )


@pytest.mark.cases(20)
@pytest.mark.usefixtures("order")
@pytest.mark.parametrize(("partition", "adjacency", "change"), SUPPORTED)
def test_one_change_touches_at_most_the_slots_of_the_table(partition, adjacency, change):
    stated = partition.assign([*IDS], adjacency).change
    assert stated == change == partition.rule(adjacency)[1]
    most, exchanged = worst(partition, adjacency)
    assert most <= change.rows
    if change is DROP and adjacency is AR:
        assert not exchanged, "a drop only adds or takes away"


@pytest.mark.parametrize("capacity", [0, 5_000_001, 2**63 - 1, 10**30])
def test_a_capacity_that_no_file_can_fill_is_refused_before_a_slot_is_made(capacity):
    with pytest.raises(ParameterError, match=r"capacity is .* a whole number from 1 to 5,000,000"):
        Partition(capacity=capacity)


def test_a_capacity_drops_and_never_exchanges_even_where_units_collide():
    # Row 1 of table 2.2 (2.2.1 b): every pair of worlds under keys with collisions; some slot is nulled on the way.
    for partition in keyed(capacity=2):
        for before, after in neighbours(AR):
            gone, come = touched(slots(partition, AR, before), slots(partition, AR, after))
            assert gone + come <= 1
    assert any(not any(slots(partition, AR, [("u1", "x"), ("u2", "x")])) for partition in keyed(capacity=2))


def test_units_that_meet_in_a_slot_make_it_null_and_keep_their_number_of_slots():
    partition = Partition(capacity=3, _key=KEY)
    for size in range(6):
        made = slots(partition, AR, [(name, "x") for name in IDS[:size]])
        assert len(made) == 3
        assert all(len(slot) <= 1 for slot in made)
    assert slots(Partition(capacity=1, _key=KEY), AR, [("u1", "x"), ("u2", "x")]) == [()]


def test_where_a_unit_goes_depends_on_its_id_and_the_key_alone():
    partition = Partition(units_per_expert=5, capacity=4, _key=KEY)
    alone = {name: slots(partition, AR, [(name, "x")]).index(((name, "x"),)) for name in IDS}
    for order in itertools.permutations(IDS):
        together = slots(partition, AR, [(name, "x") for name in order])
        assert all((name, "x") in together[place] for name, place in alone.items())
        assert together == slots(partition, AR, [(name, "x") for name in IDS])
    others = [slots(Partition(units_per_expert=5, capacity=4), AR, [(n, "x") for n in IDS]) for _ in range(20)]
    assert len({tuple(map(tuple, world)) for world in others}) > 1, "every partition draws a key of its own"


def test_a_full_slot_keeps_the_first_units_by_id_whatever_the_order_of_the_file():
    partition = Partition(units_per_expert=2, capacity=1, _key=KEY)
    for order in itertools.permutations(IDS):
        assert slots(partition, AR, [(name, "x") for name in order]) == [(("u1", "x"), ("u2", "x"))]


class _Script:
    """A source whose answers are written down."""

    secure = True

    def __init__(self, answers):
        self.answers = list(answers)

    def below(self, bound):
        answer = self.answers.pop(0)
        assert 0 <= answer < bound
        return answer


def every_order(count):
    """What the shuffle gives for every sequence of answers of a uniform source: each is equally likely."""
    return [tuple(SHUFFLED(count, _Script(a))) for a in itertools.product(*map(range, range(count, 1, -1)))]


@pytest.mark.parametrize("count", range(6))
def test_every_order_of_the_units_is_equally_likely(count):
    assert sorted(every_order(count)) == sorted(itertools.permutations(range(count)))


def test_several_units_an_expert_are_all_kept_and_dealt_out_evenly():
    made = slots(Partition(units_per_expert=2), RO, [(name, "x") for name in IDS], ids=False)
    assert [len(slot) for slot in made] == [2, 2, 1]
    assert sorted(name for slot in made for name, _ in slot) == list(IDS)


def companions(monkeypatch, units):
    """How often each set of slots comes out, over every secret order."""
    seen = Counter()
    for order in every_order(len(units)):
        monkeypatch.setattr(partitions, "shuffled", lambda count, _, order=order: list(order))
        seen[frozenset(frozenset(slot) for slot in slots(Partition(units_per_expert=2), RO, units))] += 1
    return seen


def test_where_a_unit_stands_in_the_file_does_not_change_who_meets_whom(monkeypatch):
    units = [(name, "x") for name in IDS[:4]]
    known = companions(monkeypatch, units)
    assert len(known) == 3, "four units in pairs"
    for moved in itertools.permutations(units):
        assert companions(monkeypatch, list(moved)) == known


def test_an_empty_data_set_has_no_occupied_slot():
    assert slots(Partition(), AR, []) == []
    assert slots(Partition(capacity=3), AR, []) == [(), (), ()]


# What has no guarantee


def test_several_units_an_expert_under_add_remove_need_a_capacity():
    with pytest.raises(AssignmentError, match="--capacity"):
        Partition(units_per_expert=2).rule(AR)


@pytest.mark.parametrize("adjacency", [RO, ZO])
def test_a_capacity_is_refused_where_the_number_of_units_is_public(adjacency):
    with pytest.raises(ParameterError, match="capacity is 3"):
        Partition(capacity=3).assign(IDS, adjacency)


@pytest.mark.parametrize("g", [1, 2])
def test_a_capacity_needs_a_stable_id_of_every_unit(g):
    with pytest.raises(AssignmentError, match="stable id"):
        Partition(units_per_expert=g, capacity=3).assign(["u1", None], AR)


@pytest.mark.parametrize("bad", [{name: v} for name in ("units_per_expert", "capacity", "max_records")
                                 for v in (0, -1, 1.5, "2")])  # fmt: skip
def test_numbers_below_one_are_refused(bad):
    with pytest.raises(ParameterError, match=r"1 or more|from 1 to"):
        Partition(**bad)


def test_the_partition_uses_only_rows_of_the_table():
    for g, capacity, adjacency in itertools.product((1, 2), (None, 3), Adjacency):
        try:
            assignment, change = Partition(units_per_expert=g, capacity=capacity).rule(adjacency)
        except (AssignmentError, ParameterError):
            continue
        assert CHANGE_TYPES[assignment, adjacency] == change
        assert assignment in (Assignment.OWN_SLOT, Assignment.STABLE_ID)


# Planted mistakes: each looks like working code; each is caught by the enumeration above


def chunks_of_a_list(partition, adjacency, units):
    """Chunks under add/remove: one record in front moves every other one."""
    return [tuple(units[i : i + 2]) for i in range(0, len(units), 2)]


def keeps_one_of_the_colliding(partition, adjacency, units):
    """Keeps the first unit of a full slot, where a capacity has to null it."""
    wide = Partition(units_per_expert=9, capacity=partition.capacity, _key=partition._key)
    return [slot[:1] for slot in slots(wide, adjacency, units)]


def as_many_slots_as_needed(partition, adjacency, units):
    """Takes the number of slots from the data: one more unit, and every unit is hashed anew."""
    count = -(-len(units) // 2)
    return [tuple(unit for unit in units if int(unit[0][1:]) % count == i) for i in range(count)]


def sorted_then_cut(partition, adjacency, units):
    """Sorts all units by id and deals them out: a new id shifts everybody behind it."""
    return [tuple(sorted(units)[i::2]) for i in range(2)]


@pytest.mark.parametrize("mistake", [chunks_of_a_list, sorted_then_cut, as_many_slots_as_needed])
def test_an_assignment_that_couples_slots_is_caught(mistake):
    assert worst(Partition(units_per_expert=2, capacity=2, _key=KEY), AR, mistake)[0] > SWAP.rows


def test_chunks_in_the_order_of_the_file_are_caught_where_a_replaced_unit_moves():
    # A unit's first row says where it stands: replaced by one that comes first, it moves everybody behind it.
    before = [(name, "x") for name in IDS]
    after = [("u5", "y"), *before[:-1]]
    gone, _ = touched(chunks_of_a_list(None, RO, before), chunks_of_a_list(None, RO, after))
    assert gone == 3 > SWAP.rows


def test_keeping_one_of_the_colliding_units_is_caught():
    found = [worst(partition, AR, keeps_one_of_the_colliding) for partition in keyed(capacity=2)]
    assert any(exchanged for _, exchanged in found)


def test_two_persons_whose_ids_are_equal_numbers_stay_two():
    # One expert for both would be re-evaluated when one leaves: a swap where add/remove promises a drop.
    from sottovoce.experts.ensemble import Ensemble
    from sottovoce.models.fake import FakeScorer
    from sottovoce.records.sealed import PrivateRecords, Row
    from sottovoce.tasks import Task

    def experts(*groups):
        rows = [Row(i, {"text": f"t{i}", "label": "a", "group": g}) for i, g in enumerate(groups, 1)]
        records = PrivateRecords(rows, source="rows", synthetic=True)
        model = FakeScorer()
        Ensemble(records, Task(labels=["a", "b"]), model, Partition(), Adjacency.ADD_REMOVE).ask([{"text": "q"}])
        return model.contexts_read

    assert experts("007", "7", "1e3", "1000", "C1", "C1 ") == 6
    assert experts(7, 7.0, 8) == 2
