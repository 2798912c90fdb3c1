"""Batches: every unit in one batch of its own label, alone in its slot, whatever the others hold."""

from __future__ import annotations

import pytest

from sottovoce.errors import RecordError
from sottovoce.experts.batches import Batches
from sottovoce.generation import GenerationTemplate
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

TASK = Task(labels=["billing", "fraud", "shipping"])
WRITING = GenerationTemplate.of(TASK)


def rows(count: int, labels=TASK.labels) -> list[Row]:
    return [Row(i + 1, {"text": f"note {i}", "label": labels[i % len(labels)]}) for i in range(count)]


def dealt(held, *, per_label=2, adjacency=Adjacency.REPLACE_ONE, seed=7, **options) -> Batches:
    records = PrivateRecords(held, source="notes", unit=options.pop("unit", None))
    return Batches(
        records, WRITING, per_label=per_label, adjacency=adjacency, randomness=SeededRandomness(seed), **options
    )


def shown(batches: Batches) -> list[list[str]]:
    return [[expert.private_text for expert in group.experts if expert] for group in batches.groups()]


def test_every_unit_is_in_one_batch_of_its_label():
    batches = dealt(rows(30))
    assert batches.labels == [0, 0, 1, 1, 2, 2]
    found = [(text, label) for label, batch in zip(batches.labels, shown(batches), strict=True) for text in batch]
    assert sorted(found) == sorted((f"Text: note {i}\n", i % 3) for i in range(30))


def test_a_prompt_is_public_around_its_own_records():
    (group, *_) = dealt(rows(3), per_label=1).groups()
    assert (
        group.public.prefix + group.public.private_text + group.public.suffix
        == "Here are texts of type billing.\nText:"
    )
    (expert,) = group.experts
    assert (expert.prefix, expert.suffix) == (group.public.prefix, group.public.suffix)
    assert expert.private_text == "Text: note 0\n"
    assert "note" not in repr(expert) + str(group) + repr(dealt(rows(3)))


def test_another_record_moves_nobody_else():
    # One exchanged record leaves its batch and joins one; all others stay where they were, in the same order.
    before = shown(dealt(rows(30)))
    changed = rows(30)
    changed[11] = Row(12, {"text": "something else", "label": "billing"})
    after = shown(dealt(changed))
    moved = [(b, a) for b, a in zip(before, after, strict=True) if b != a]
    assert len(moved) <= 2
    for b, a in moved:
        others = {"Text: note 11\n", "Text: something else\n"}
        assert [text for text in b if text not in others] == [text for text in a if text not in others]


class Coins:
    """Coins that were thrown beforehand."""

    def __init__(self, coins):
        self._coins = iter(coins)

    def below(self, limit: int) -> int:
        return next(self._coins) % limit


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out"])
def test_a_record_that_is_absent_moves_nobody_else(adjacency):
    # Everybody keeps his coin. A batch by the place in the file, or by how full batches are, would move all behind it.
    source = SeededRandomness(3)
    held, coins = rows(30), [source.below(2) for _ in range(30)]
    for gone in (0, 11, 29):
        if adjacency == "add-remove":
            fewer, thrown = held[:gone] + held[gone + 1 :], coins[:gone] + coins[gone + 1 :]
        else:
            fewer, thrown = [*held[:gone], Row(gone + 1, {"text": "", "label": ""}), *held[gone + 1 :]], coins
        before, after = (
            shown(
                Batches(
                    PrivateRecords(some, source="notes"),
                    WRITING,
                    per_label=2,
                    adjacency=Adjacency.parse(adjacency),
                    randomness=Coins(its),
                )
            )
            for some, its in ((held, coins), (fewer, thrown))
        )
        assert all(len(batch) >= 2 for batch in before)
        assert [[text for text in batch if text != f"Text: note {gone}\n"] for batch in before] == after


def test_a_label_without_records_has_an_empty_batch():
    (_, _, last) = shown(dealt(rows(4, TASK.labels[:2]), per_label=1))
    assert last == []


def test_a_unit_of_several_records_is_one_expert_with_the_label_of_its_first():
    held = [
        Row(1, {"text": "one", "label": "fraud", "group": "a"}),
        Row(2, {"text": "two", "label": "billing", "group": "a"}),
        Row(3, {"text": "three", "label": "fraud", "group": "a"}),
        Row(4, {"text": "four", "label": "fraud", "group": "a"}),
    ]
    assert shown(dealt(held, per_label=1)) == [[], ["Text: one\nText: three\nText: four\n"], []]
    assert shown(dealt(held, per_label=1, max_records=2)) == [[], ["Text: one\nText: three\n"], []]


def test_a_blank_unit_is_in_no_batch_under_zero_out_and_an_error_otherwise():
    held = [*rows(3), Row(4, {"text": "", "label": ""})]
    assert sum(map(len, shown(dealt(held, adjacency=Adjacency.ZERO_OUT)))) == 3
    with pytest.raises(RecordError, match="line 4"):
        dealt(held)


@pytest.mark.parametrize("values", [{"label": "billing"}, {"text": 3, "label": "billing"}, {"text": "x", "label": "z"}])
def test_a_row_that_cannot_be_shown_is_named_by_its_line_and_not_quoted(values):
    with pytest.raises(RecordError, match="line 2") as caught:
        dealt([*rows(1), Row(2, {**values, "secret": "7QX"})])
    assert "7QX" not in str(caught.value)


def test_the_coins_are_fair():
    # Two batches, 4,000 units of one label: a count outside of 2,000 +- 158 (five deviations) has a chance of 6e-7.
    sizes = [len(batch) for batch in shown(dealt(rows(4_000, ["fraud"])))][2:4]
    assert sum(sizes) == 4_000
    assert abs(sizes[0] - 2_000) < 158


@pytest.mark.parametrize(("adjacency", "widths"), [("add-remove", 1), ("replace-one", 2), ("zero-out", 1)])
def test_one_change_is_a_drop_or_a_swap_in_a_batch(adjacency, widths):
    assert dealt(rows(3), adjacency=Adjacency.parse(adjacency)).change.widths == widths
