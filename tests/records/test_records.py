"""Records: sealed, grouped into units, known by a fingerprint."""

from __future__ import annotations

import itertools
import pickle

import pytest

from sottovoce.errors import OpaqueError, RecordError
from sottovoce.records.sealed import PrivateRecords, Row, is_missing, unseal


def rows(*values):
    return [Row(line, dict(value)) for line, value in enumerate(values, 1)]


def sealed(*values, **options):
    return PrivateRecords(rows(*values), source="memory", **options)


def fingerprint_of(found):
    return PrivateRecords(found, source="memory", unit="record").fingerprint


def units(records):
    return [[row.line for row in unit] for unit in unseal(records)]


def test_without_a_group_column_every_row_is_a_unit():
    records = sealed({"text": "a"}, {"text": "a"}, {"text": "b", "group": None})
    assert records.unit == "record"
    assert units(records) == [[1], [2], [3]]


def test_rows_of_one_group_are_one_unit_in_the_order_of_first_appearance():
    records = sealed(*({"text": "t", "group": g} for g in ("b", "a", "b", "c", "a")))
    assert records.unit == "group"
    assert units(records) == [[1, 3], [2, 5], [4]]


def test_a_group_given_as_number_and_as_text_is_one_group():
    assert units(sealed({"group": 7}, {"group": "7"})) == [[1, 2]]


def test_another_column_or_the_single_record_can_be_the_unit():
    values = [{"text": "t", "group": "g", "patient": p} for p in ("x", "y", "x")]
    assert units(sealed(*values, unit="patient")) == [[1, 3], [2]]
    assert units(sealed(*values, unit="record")) == [[1], [2], [3]]


@pytest.mark.parametrize(("unit", "field"), [(None, "group"), ("patient", "patient")])
def test_a_unit_that_is_missing_in_some_rows_is_refused_with_the_first_of_them(unit, field):
    filled = {"text": "t", "group": "g", "patient": "p"}
    with pytest.raises(RecordError, match=r"memory, line 2, field '\w+': the privacy unit is missing") as caught:
        sealed(filled, {**filled, field: ""}, {**filled, field: None}, unit=unit)
    assert (caught.value.line, caught.value.field) == (2, field)
    assert "--unit record" in str(caught.value)


def test_a_named_unit_must_exist_even_where_no_row_has_it():
    with pytest.raises(RecordError, match="field 'patient'"):
        sealed({"text": "t"}, unit="patient")


def test_an_id_used_twice_is_refused_with_both_lines_and_without_the_id():
    with pytest.raises(RecordError, match="line 3, field 'id': the id is the same as in line 1") as caught:
        sealed({"id": "SECRET-1"}, {"id": "other"}, {"id": "SECRET-1"})
    assert "SECRET" not in repr(caught.value)
    with pytest.raises(RecordError, match="line 2"):
        sealed({"id": 1}, {"id": "1"})
    assert units(sealed({"id": ""}, {"id": None}, {"id": float("nan")})) == [[1], [2], [3]]


def test_no_rows_are_refused():
    with pytest.raises(RecordError, match="there is no record"):
        sealed()


def test_the_size_is_told_only_where_it_is_public():
    records = sealed({"text": "a"}, {"text": "b"})
    for count in (len, list, lambda r: [*r], sorted, lambda r: "a" in r, enumerate):
        with pytest.raises(OpaqueError):
            count(records)
    assert records
    assert repr(records) == "PrivateRecords(unit 'record', size not declared)"
    declared = records.with_public_size()
    assert len(declared) == 2
    assert repr(declared) == "PrivateRecords(unit 'record', 2 units)"
    assert (declared.fingerprint, declared.source, declared.unit) == (records.fingerprint, "memory", "record")
    assert units(declared) == units(records)


def test_declaring_the_size_keeps_every_other_property():
    made_up = sealed({"text": "a", "who": 1}, unit="who", synthetic=True).with_public_size()
    assert made_up.synthetic
    assert made_up.unit == "who"


def test_fingerprints_join_names_and_values_without_ambiguity():
    # Every way to cut one string of characters into names and values gives another data set.
    worlds = [{"a": "b", "c": "d"}, {"a": "bc", "d": "x"}, {"ab": "c"}, {"a": "bc"}, {"a": "1:b1:c"}, {"a1:b1": "c"}]
    prints = {fingerprint_of(rows(world)) for world in worlds}
    assert len(prints) == len(worlds)
    split = {fingerprint_of(rows(*world)) for world in ([{"a": "1"}, {"b": "2"}], [{"a": "1", "b": "2"}])}
    assert len(split) == 2
    assert all(len(name) == 64 for name in prints)


def test_a_fingerprint_does_not_depend_on_order():
    values = [{"a": "1", "b": ""}, {"b": "2"}, {"b": "2"}, {"a": None, "c": 3}]
    assert len({fingerprint_of(rows(*order)) for order in itertools.permutations(values)}) == 1


def test_half_a_character_in_memory_has_a_fingerprint_too():
    # Encoding it strictly would raise an error that carries the whole text.
    assert fingerprint_of(rows({"a": "x\ud800"})) != fingerprint_of(rows({"a": "x\ud801"}))


@pytest.mark.parametrize("value", [None, "", float("nan")])
def test_nothing_is_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, False, " ", "nan", 0.0, [], {}])
def test_what_is_there_is_not_missing(value):
    assert not is_missing(value)


def test_missing_values_of_data_frames_are_missing_and_arrays_are_not():
    import numpy as np
    import pandas as pd

    assert is_missing(pd.NA)
    assert is_missing(pd.NaT)
    assert is_missing(np.float64("nan"))
    assert not is_missing(np.array(["", "a"]))


def test_a_row_that_an_earlier_build_stored_is_read():
    rows = []
    for state in ([1, {"id": "a"}], [1, {"id": "a"}, None], [1, {"id": "a"}, None, None]):
        row = Row.__new__(Row)
        row.__setstate__(state)
        rows.append(row)
    assert all(row == Row(1, {"id": "a"}) and row.identity("id") == "a" for row in rows)
    cut = Row(2, {"id": "a"}, {"name": "id"}, {"id": "abc"})
    assert pickle.loads(pickle.dumps(cut)) == cut
