"""Canaries and the two data sets that differ by one: neighbours under the adjacency that the insertion names."""

from __future__ import annotations

import pytest

from sottovoce.audits.game.canaries import (
    Insertion,
    make_canaries,
    own_canary,
    rare_and_common,
    unigram_canary,
    worlds_of,
)
from sottovoce.audits.game.questions import Question, make_questions
from sottovoce.errors import ParameterError
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

TASK = Task(labels=["a", "b", "c"])
ROWS = [Row(i, {"id": f"r{i}", "text": f"note {word} common", "label": "aab"[i], "group": f"g{i // 2}"})
        for i, word in enumerate(("first", "second", "third"))]  # fmt: skip
CANARY = own_canary("Locker seven is mine.", "c")


def worlds(insertion, unit="group"):
    return worlds_of(ROWS, CANARY, insertion, TASK, SeededRandomness(1), unit)


def changed(pair):
    """Rows that one world has and the other has not, by values."""
    absent, present = ([dict(row.values) for row in rows] for rows in (pair.absent, pair.present))
    return [row for row in absent if row not in present], [row for row in present if row not in absent]


@pytest.mark.parametrize("insertion", [Insertion.APPEND, Insertion.REPLACE])
def test_one_record_is_exchanged_and_its_names_stay(insertion):
    pair = worlds(insertion)
    (old,), (new,) = changed(pair)
    assert pair.adjacency is Adjacency.REPLACE_ONE
    assert (old["id"], old["group"]) == (new["id"], new["group"])
    assert new["label"] == "c"
    assert new["text"] == (f"{old['text']} {CANARY.text}" if insertion is Insertion.APPEND else CANARY.text)


def test_one_unit_more_has_a_name_that_no_other_has():
    pair = worlds(Insertion.ADD)
    assert pair.adjacency is Adjacency.ADD_REMOVE
    old, (new,) = changed(pair)
    assert old == []
    assert new["group"] not in {row.values["group"] for row in ROWS}
    units = [len(PrivateRecords(rows, source="x").with_public_size()) for rows in (pair.absent, pair.present)]
    assert units == [2, 3]


def test_a_blank_unit_has_names_and_nothing_else():
    pair = worlds(Insertion.BLANK)
    assert pair.adjacency is Adjacency.ZERO_OUT
    (old,), (new,) = changed(pair)
    assert set(old) == {"id", "group"}
    assert {name: new[name] for name in old} == old


def test_every_adjacency_is_tested_by_an_insertion():
    assert {insertion.adjacency for insertion in Insertion} == set(Adjacency)
    assert all(insertion in Insertion.of(insertion.adjacency) for insertion in Insertion)


def test_the_worlds_do_not_print():
    assert "note" not in repr(worlds(Insertion.REPLACE))


def test_a_rare_word_stands_in_one_record_alone():
    found = {unigram_canary(ROWS, TASK, SeededRandomness(seed), "c").text for seed in range(30)}
    assert found == {"first", "second", "third"}
    with pytest.raises(ParameterError, match="stands in one record alone"):
        unigram_canary([ROWS[0], ROWS[0]], TASK, SeededRandomness(1), "c")


def test_canaries_have_ids_of_their_own_and_labels_are_rare():
    rare, common = rare_and_common(ROWS, TASK)
    assert (rare, common) == ("c", "a")
    made = make_canaries(["hex", "false-fact"], ["one", "two"], ROWS, TASK, SeededRandomness(1), rare)
    assert [canary.id for canary in made] == ["hex", "false-fact", "own-1", "own-2"]
    assert all(canary.secret in canary.text and canary.label == "c" for canary in made)


def test_the_rare_label_is_not_the_common_one_where_there_are_as_many():
    rows = [Row(i, {"text": "x", "label": "ab"[i]}) for i in range(2)]
    rare, common = rare_and_common(rows, Task(labels=["a", "b"]))
    assert rare != common


@pytest.mark.parametrize("kinds", [["hexx"], ["hex", "hex"], []])
def test_kinds_that_are_unknown_twice_or_none_are_refused(kinds):
    with pytest.raises(ParameterError, match="canary is"):
        make_canaries(kinds, [], ROWS, TASK, SeededRandomness(1), "c")


@pytest.mark.parametrize("wording", ["", "{answer}", "{", "{0}", "{}"])
def test_a_wording_names_known_places_alone(wording):
    with pytest.raises(ParameterError, match="question is"):
        Question("own", wording)


def test_own_wordings_come_behind_the_kinds():
    made = make_questions(["input-output", "input-output"], ["Is {secret} there?"])
    assert [question.about(CANARY, "a") for question in made] == [CANARY.text, f"Is {CANARY.secret} there?"]
