"""Same records, same fingerprint, whatever the file; other units, another one; single records found again by marks."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
import time
import unicodedata
from collections import Counter, UserString
from decimal import Decimal
from importlib import resources
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import RecordError
from sottovoce.records.cells import DEEPEST, NO_VALUE, canonical_text, composed, is_missing
from sottovoce.records.earlier_cells import EARLIER, may_differ
from sottovoce.records.fingerprints import NAME, NUMBERED, PHRASE, SENTENCE, TEXTS, marks_of, same_text
from sottovoce.records.readers import read_private
from sottovoce.records.sealed import PrivateRecords, Row

KEY = b"k" * 32
NOON = "2024-03-01 12:00:00"
SECOND_CELLS = EARLIER[-1]
LAST_MOMENT = "9999-12-31 23:59:59-05:00"


def fingerprints(frame, folder):
    """Of a frame, and of every kind of file that it can be written to."""
    folder.mkdir(exist_ok=True)
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_csv(folder / "x.csv.gz", index=False)
    frame.to_parquet(folder / "x.parquet")
    rows = [{name: _for_json(value) for name, value in row.items()} for row in frame.to_dict("records")]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "x.jsonl").write_bytes(text)
    (folder / "x.jsonl.gz").write_bytes(gzip.compress(text))
    (folder / "windows.csv").write_bytes((folder / "x.csv").read_bytes().replace(b"\n", b"\r\n"))
    files = ("x.csv", "x.csv.gz", "windows.csv", "x.parquet", "x.jsonl", "x.jsonl.gz")
    read_back = pd.read_parquet(folder / "x.parquet")
    return {name: read_private(folder / name).fingerprint for name in files} | {
        "frame": read_private(frame).fingerprint,
        "frame read back": read_private(read_back).fingerprint,
    }


def _for_json(value):
    if is_missing(value):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value


MOMENTS = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
MIDNIGHTS = st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)).map(pd.Timestamp)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30)
"""Without a carriage return of their own: ``windows.csv`` adds them."""
COLUMNS = {
    "times": st.one_of(MOMENTS, MIDNIGHTS).map(lambda when: pd.Timestamp(when).as_unit("us")),
    "times with an offset": MOMENTS.map(lambda when: pd.Timestamp(when, tz="Europe/Vienna").as_unit("us")),
    "dates": st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    "times of day": st.times(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    # From 2**24 on pandas writes whole 32-bit floats with too few digits to tell them from other whole numbers.
    "float32": st.floats(-(2.0**24), 2.0**24, width=32),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "text": WORDS,
    "text that reads like values": st.sampled_from(
        ["007", "7.0", " 7", "1e3", "true", "TRUE", NOON, "10:00", "[", "-"]
    ),
    "gaps": st.one_of(st.none(), WORDS),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_format_of_generated_records_has_one_fingerprint(kind, data, tmp_path_factory):
    cells = data.draw(st.lists(COLUMNS[kind], min_size=1, max_size=4))
    column = np.array(cells, "float32") if kind == "float32" else cells
    texts = [f"text {i}" for i in range(len(cells))]
    frame = pd.DataFrame({"text": texts, "label": "a", "x": pd.Series(column)})
    found = fingerprints(frame, tmp_path_factory.getbasetemp() / "formats")
    assert len(set(found.values())) == 1, found


def test_durations_are_the_same_in_every_format_that_pandas_writes(tmp_path):
    spans = [pd.Timedelta(days=1, milliseconds=1500), pd.Timedelta(milliseconds=-1500), pd.Timedelta(hours=3), pd.NaT]
    frame = pd.DataFrame({"text": [f"text {i}" for i in range(4)], "label": "a", "x": pd.Series(spans)})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True, date_format="iso")
    sources = (frame, *(tmp_path / f"x.{kind}" for kind in ("csv", "parquet", "jsonl")))
    assert len({read_private(source).fingerprint for source in sources}) == 1


@pytest.mark.filterwarnings("ignore:The DataFrame has column names of mixed type:UserWarning")
@pytest.mark.parametrize("before", ["1962-05-04 03:02:01.987654", NOON])
def test_what_json_of_pandas_does_not_keep_makes_no_other_records(tmp_path, before):
    """It writes times to the millisecond, infinity as null, and columns that are dates as it writes times."""
    when = pd.to_datetime(before) + pd.to_timedelta([987_654_321 * i for i in range(6)], unit="us")
    frame = pd.DataFrame(np.arange(12).reshape(6, 2) / 8, columns=pd.to_datetime(["2024-01-01", "2024-02-01"]))
    frame = frame.assign(
        when=when, there=when.tz_localize("Europe/Vienna"), ratio=[np.inf, 0.5, -np.inf, 1.5, np.nan, 2.0]
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True, date_format="iso")
    assert ".987Z" in (tmp_path / "x.jsonl").read_text() or before == NOON
    sources = (frame, *(tmp_path / f"x.{kind}" for kind in ("csv", "parquet", "jsonl")))
    assert len({read_private(source).fingerprint for source in sources}) == 1


def test_words_that_pandas_reads_as_no_value_are_none(tmp_path):
    words = sorted(NO_VALUE - {"NaT"})  # which it writes, and reads where a column holds times
    text = "n,pool\n" + "".join(f"{i},{words[i % len(words)]}\n{i}.5,Good\n" for i in range(2 * len(words)))
    (tmp_path / "x.csv").write_text(text)
    frame = pd.read_csv(tmp_path / "x.csv")
    assert frame["pool"].count() == 2 * len(words)
    assert read_private(tmp_path / "x.csv").fingerprint == read_private(frame).fingerprint


@pytest.mark.filterwarnings("ignore:Could not infer format:UserWarning")
@pytest.mark.parametrize("zone", ["+01:00", "-05:00", "Europe/Vienna", "America/New_York"])
@pytest.mark.parametrize("moment", ["9999-12-31 23:59:59", "0001-01-01 00:00:00"])
def test_the_ends_of_the_calendar_are_read_in_every_zone(tmp_path, zone, moment):
    when = pd.Series(pd.to_datetime([moment, moment], utc=True)).dt.tz_convert(zone)
    frame = pd.DataFrame({"n": [1, 2], "when": when, "again": [*when[:0], "a", "b"]})
    expected = records(*({"n": n, "when": f"{moment}Z", "again": a} for n, a in ((1, "a"), (2, "b")))).fingerprint
    for source in (frame, frame.convert_dtypes(dtype_backend="pyarrow")):
        assert read_private(source).fingerprint == expected
    none = pd.Series([pd.NaT, pd.NaT], dtype="datetime64[us]").dt.tz_localize(zone)
    frame = frame.assign(never=none)
    for source in (frame, frame.convert_dtypes(dtype_backend="pyarrow")):
        assert read_private(source).fingerprint == expected


@pytest.mark.parametrize("year", ["-0500", "-0044", "-0001", "0000", "-4713"])
def test_times_before_our_era_are_the_same_in_every_format(tmp_path, year):
    frame = pd.DataFrame({"n": [1, 2], "at": np.array([f"{year}-01-02T10:00:00", "2000-01-01T00:00:01"], "M8[ms]")})
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True, date_format="iso")
    frame.to_csv(tmp_path / "x.csv", index=False)
    sources = (frame, tmp_path / "x.jsonl", tmp_path / "x.csv")
    assert len({read_private(source).fingerprint for source in sources}) == 1


def test_lists_arrays_and_objects_are_the_same_in_every_format_that_has_them(tmp_path):
    rows = [
        {"text": "x", "tags": ["p", "q"], "more": {"a": 1, "b": None}, "points": [0.1, 2.0]},
        {"text": "y", "tags": ["r"], "more": {"a": 2, "b": "c"}, "points": []},
    ]
    frame = pd.DataFrame(rows)
    frame.to_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    as_text = pd.DataFrame([{k: v if k == "text" else json.dumps(v) for k, v in row.items()} for row in rows])
    as_text.to_csv(tmp_path / "x.csv", index=False)
    arrays = pd.read_parquet(tmp_path / "x.parquet")
    assert isinstance(arrays["tags"][0], np.ndarray)
    sources = (frame, arrays, *(tmp_path / f"x.{kind}" for kind in ("parquet", "jsonl", "csv")))
    assert len({read_private(source).fingerprint for source in sources}) == 1


def test_pairs_and_maps_are_the_same_in_every_format_that_pandas_writes(tmp_path):
    spans = [[(3, 9), (12, 20)], [(0, 4)], [(1, 2), (1, 3)], []]
    maps = [{"a": 1, "R (\u2126)": 2}, {}, {"u\u0308": 3, "u": None}, {"a": 4, "2.0": 5}]
    frame = pd.DataFrame({"text": ["w", "x", "y", "z"], "spans": spans, "more": maps})
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"text": frame["text"], "spans": spans})
    kind = pa.map_(pa.string(), pa.int64())
    parquet.write_table(
        table.append_column("more", pa.array([[*each.items()] for each in maps], kind)), tmp_path / "map.parquet"
    )
    frame.to_parquet(tmp_path / "struct.parquet")
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    for name, escaped in (("x.csv", False), ("escaped.csv", True)):
        as_text = frame.assign(
            **{name: [json.dumps(cell, ensure_ascii=escaped) for cell in frame[name]] for name in ("spans", "more")}
        )
        as_text.to_csv(tmp_path / name, index=False)
    files = [tmp_path / name for name in ("map.parquet", "struct.parquet", "x.jsonl", "x.csv", "escaped.csv")]
    sources = (frame, pd.read_parquet(files[0]), pd.read_parquet(files[1]), *files)
    assert isinstance(sources[1]["more"][0][0], tuple)
    assert len({read_private(source).fingerprint for source in sources}) == 1


@pytest.mark.parametrize(
    "same",
    [
        (3, 3.0, "3", "3.0", " 3 ", "03", Decimal(3), np.int64(3), np.float32(3), "3e0"),
        (0.1, "0.1", np.float32(0.1), float(np.float32(0.1)), Decimal("0.1"), ".1"),
        (0.0, -0.0, "0", "-0.0"),
        (10**22, 1e22, "1e22", str(10**22)),
        (1e300, "1e300", "1E+300"),
        (True, "True", "TRUE", "true", np.bool_(True)),
        ("a\nb", "a\r\nb", "a\rb", b"a\nb"),
        ("\u00e9", "e\u0301"),
        (dt.datetime(2024, 3, 1, 12), NOON, "2024-03-01T12:00", "2024-03-01T12:00:00.000Z", pd.Timestamp(NOON),
         np.datetime64("2024-03-01T12:00:00"), "2024-03-01 13:00:00+01:00", "2024-03-01T07:00-0500"),
        (dt.date(2024, 3, 1), "2024-03-01", "2024-03-01 00:00:00", pd.Timestamp("2024-03-01"), dt.datetime(2024, 3, 1)),
        (dt.time(10), "10:00", "10:00:00", "10:00:00.000"),
        (dt.timedelta(days=1, seconds=1.5), pd.Timedelta(days=1, seconds=1.5), "1 days 00:00:01.500000",
         np.timedelta64(86_401_500, "ms"), "1 day, 0:00:01.500000", "P1DT0H0M1.500S"),
        (pd.Timedelta(seconds=-1.5), "-1 days +23:59:58.500000", "P-1DT23H59M58.500S", "-1 day, 23:59:58.500000"),
        (pd.Timedelta.min, "-106752 days +00:12:43.145224"),
        ([1, None, "a"], (1.0, None, "a"), np.array([1, None, "a"], object), '[1, null, "a"]'),
        ({"b": 1, "a": None}, {"b": "1"}, '{"b": 1.0}', [("b", 1)], [["b", 1], ["a", None]], '[["b", 1]]'),
        ([(3, 9), (12, 20)], ((12, 20), (3, 9)), "[[3, 9], [12, 20]]", np.array([[3, 9], [12, 20]])),
        ({"e\u0301": 1, "1.0": 2, True: 3}, {"\u00e9": 1, "1": 2, "true": 3}, '{"e\u0301": 1, "1": 2, "true": 3}'),
        ([(np.int64(3), np.int64(9))], [np.array([3, 9])], {3: 9}, {np.int64(3): 9}, '{"3": 9}', [(b"3", 9)]),
        ({"7": 3, "007": 4}, {"007": 4, "7": 3}, [("7", 3), ("007", 4)], '{"007": 4, "7": 3}', "[[7, 4], [7, 3]]"),
        ({UUID(int=7): 1}, [(UUID(int=7), 1)], {str(UUID(int=7)): 1}), ({float("nan"): 1}, [(float("nan"), 1)]),
        ({np.longdouble(3): 1}, [(np.longdouble(3), 1)], {3: 1}), (np.longdouble(0.5), 0.5),
        ({pd.NaT: 1}, [(pd.NaT, 1)]),
        ({"[1]": 2}, [("[1]", 2)], '{"[1]": 2}', '[["[1]", 2]]'), ([[["a"], 1]], '[[["a"], 1]]'),
        ({}, [], "{}", "[]", {"a": " "}), ({"a": "\n\u0301"}, '{"a": "\\n\u0301"}', '{"a": "\\n\\u0301"}'),
        (float("inf"), "1e400", "1.8e308", "-1e400", ""), (0, "1e-400", "-1e-330"),
        (b"\x89PNG\xff", "iVBOR/8="),
        (float("inf"), "inf", "Infinity", "+Infinity", Decimal("Infinity"), float("-inf"), "-Infinity", "-inf", ""),
        ([float("inf"), 1], "[Infinity, 1]", "[null, 1]", [None, 1]), ({"a": float("inf"), "b": 1}, {"b": 1}),
        (NOON, "2024-03-01 12:00:00.000999999", dt.datetime(2024, 3, 1, 12, 0, 0, 1), np.datetime64(NOON + ".0000001")),
        ("1969-12-31 23:59:59.123999", "1969-12-31T23:59:59.123Z"), ("10:00:00.0005", dt.time(10, 0, 0, 500)),
        (*sorted(NO_VALUE), " None "), ([float("nan"), 1], ["nan", 1], "[NaN, 1]", [None, 1]),
        (Decimal.from_float(0.1), str(Decimal.from_float(0.1)), 0.1),
        (Decimal.from_float(5e-324), str(Decimal.from_float(5e-324)), 5e-324),
        (10**50, str(10**50), Decimal(10**50), "1e50"), (-(10**400), str(-(10**400)), "-Infinity"),
        (np.array(["2024-03-01T12:00", "NaT"], "M8[ns]"), [NOON, None], np.array(["2024-03-01T12:00", "NaT"], "M8[s]")),
        (np.array(["2024-03-01T12"], "M8[h]"), [NOON]), (np.array(["2024-03"], "M8[M]"), [dt.date(2024, 3, 1)]),
        (pd.array(pd.to_datetime(["2024-03-01T13:00+01:00"]).tz_convert("Asia/Tokyo")), [NOON]),
        (torch.tensor([1, 2]), [1, 2]), ([torch.tensor([1, 2])], {1: 2}), ([memoryview(b"ab")], ["ab"]),
        (10**2500, str(10**2500)),
        (np.array([5 * 10**9], "m8[ns]"), [dt.timedelta(seconds=5)], np.array([5], "m8[s]")),
        (np.array([["2024-03-01T12:00", "2024-03-02"]], "M8[ns]"), [(NOON, dt.date(2024, 3, 2))]),
        (dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.timezone(dt.timedelta(hours=-5))), LAST_MOMENT,
         "9999-12-31T23:59:59-05:00", "10000-01-01 04:59:59.000000Z"),
        (dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "0001-01-01T00:00:00+01:00",
         "0000-12-31 23:00:00.000000Z"), ("-0001-12-31 23:00:00Z", "0000-01-01 00:30:00+01:30"),
        ([Decimal("1e1000000")], "[1e1000000]", "[10e999999]"), ("[1e-1000001]", "[0.1e-1000000]"),
        ("[4e8888888888888888888]",), (f"[{'9' * 70}e999999999999999900]",),
    ],
)  # fmt: skip
def test_one_value_has_one_text(same):
    assert len({canonical_text(value) for value in same}) == 1, [canonical_text(value) for value in same]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.1, 0.1001), (10**18, 10**18 + 1), ("a b", "ab"), ("a\nb", "a b"), (NOON, "2024-03-01 12:00:01"),
        (NOON, "2024-03-01 12:00:00.001"), (NOON, "2024-03-01 12:00:00+01:00"), ("2024-02-30", "2024-03-01"),
        ([1, 2], [2, 1]), ([[1, 2], [1, 3]], [[1, 2], [1, 4]]), ({"a": 1, "b": 2}, ["a", "b"]), (["a,b"], ["a", "b"]),
        ("1.7e308", "inf"), ("Nan", "nan"), ("no", ""),
        ({"a": 1}, {"b": 1}), ({"a": 1}, {"a": 2}), (True, 1), ("1-2", "1"), ("10:00", "10:01"),
        (b"\xff\x00", b"\xff\x01"), (1e-35, 2e-35), (5e-324, 0), (5e-324, 1e-323), ("[1", "[1]"), ("1 days", "2 days"),
        ("2024-02-29", "2028-02-29"), ("0001-01-01", "0401-01-01"), ("9999-12-31", "10000-12-31"),
        (10**50, 10**50 + 10**6), ("P1DT0H0M1S", "P1DT0H1M0S"), ("P1D", "1 days"), ("PT1S", "P0DT0H0M1S"),
    ],
)  # fmt: skip
def test_other_values_have_other_texts(one, other):
    assert canonical_text(one) != canonical_text(other)


def test_names_that_are_json_and_pairs_within_pairs_take_no_more_than_they_hold():
    nested: object = ["a"] * 100
    for _ in range(20):
        nested = [[nested, "b"]]
    assert len(canonical_text(nested)) < 4 * len(json.dumps(nested))
    name = "x"
    for _ in range(8):
        deep: object = {name: 1}
        for _ in range(30):
            deep = [deep]
        name = json.dumps(deep)
    assert canonical_text({name: 1})
    inner: object = {"a": 1}
    outer: object = [("a", 1)]
    for level in range(DEEPEST):
        inner, outer = {f"k{level}": inner}, [(f"k{level}", outer)]
    assert canonical_text(inner) == canonical_text(outer)


def test_letters_with_thousands_of_marks_take_no_longer_than_others():
    """Composing n marks in falling order takes about n * n steps; 100,000 of them took two seconds and more."""
    for marks in ("\u0301\u0316" * 500_000, "\u0f73" * 500_000):
        for text in ("a" + marks, ["a" + marks]):
            started = time.process_time()
            assert canonical_text(text)
            assert time.process_time() - started < 2
    marks = [*"\u0301\u0316\u0344\u0f73\u05b0\u3099", "\u0345"]
    for seed in range(40):
        drawn = random.Random(seed)
        text = "".join(
            start + "".join(drawn.choices(marks, k=drawn.randrange(300))) for start in "e\u00e9\u1e69\uac00x"
        )
        assert composed(text) == unicodedata.normalize("NFC", text)
        assert canonical_text(text) == SECOND_CELLS.of(text)


def test_deep_and_damaged_cells_have_a_text_too():
    deep: object = "end"
    for _ in range(5 * DEEPEST):
        deep = [deep]
    assert canonical_text(deep) == canonical_text([deep])  # what lies deeper does not count
    assert canonical_text("[" * 2000 + "]" * 2000)
    assert canonical_text("9" * 5000) == canonical_text(10**9000) == ""  # as infinity
    assert canonical_text("9" * 5001)
    assert canonical_text("\ud800") != canonical_text("\ud801")


# Units


def records(*values, unit=None):
    return PrivateRecords([Row(line, row) for line, row in enumerate(values, 1)], source="memory", unit=unit)


def owned(*owners, unit=None):
    return records(*({"text": f"t{i}", "group": owner} for i, owner in enumerate(owners)), unit=unit)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("bob", "bob ", "eve"), ("bob", "bob", "eve")),
        (("007", "7", "8"), (7, 7, 8)),
        (("3.0", "3", "8"), (3.0, 3, 8)),
        (("e\u0301", "\u00e9", "x"), ("\u00e9", "\u00e9", "x")),
    ],
)
def test_the_same_cells_in_other_units_are_another_data_set(one, other):
    first, second = owned(*one), owned(*other)
    assert (len(first.with_public_size()), len(second.with_public_size())) == (3, 2)
    assert first.fingerprint != second.fingerprint
    assert first.first_fingerprint() == second.first_fingerprint()  # the first format did not tell them apart
    assert (first.marks(KEY) == second.marks(KEY)).all()


def test_units_told_by_long_arrays_or_many_digits_stay_apart():
    """NumPy writes eight digits, and leaves out the middle of more than a thousand values."""
    places = [np.array([48.123456781, 16.3]), np.array([48.123456782, 16.3])]
    long = [np.arange(2000), np.where(np.arange(2000) == 1000, 7, np.arange(2000))]
    inside = [{"at": place} for place in places]
    for pair in (places, long, inside, [[place] for place in places], [[("at", place)] for place in places]):
        assert len(owned(*pair, pair[0]).with_public_size()) == 2
    assert owned(*places).fingerprint == owned(*(place.tolist() for place in places)).fingerprint
    assert len(owned(places[0], places[0].tolist()).with_public_size()) == 1


@pytest.mark.parametrize(
    "same",
    [
        ({"site": 1, "id": 7}, {"id": 7.0, "site": np.int64(1)}), (Decimal(7), Decimal("7.00"), 7, np.float32(7), "7"),
        (["site", 7], ["site", 7.0], ["site", Decimal("7.0")]), (0.5, np.float32(0.5), Decimal("0.50"), "0.5"),
        (Decimal("1e3"), 1000), (Decimal("12.3400"), 12.34), ([0.5], [Decimal("0.50")]), (1e-8, Decimal("0.00000001")),
        ({1: "a", "b": [2.0]}, {"b": [Decimal(2)], np.float32(1): "a"}), (0.0, Decimal("0E+5"), -0.0),
    ],
)  # fmt: skip
def test_one_person_is_one_however_the_numbers_are_written(same):
    assert len(owned(*same, "another").with_public_size()) == 2


def test_persons_told_by_tensors_are_told_apart_as_before():
    assert len(owned(torch.tensor(7), torch.tensor(8), torch.tensor(7)).with_public_size()) == 2


def test_numbers_that_differ_are_other_persons():
    numbers = [7, 7.5, Decimal("7.25"), Decimal("1e999999999"), Decimal("-1e-999999999"), 10**30, 10**30 + 1]
    numbers += [Decimal(f"{digit}E-1000000000000000005") for digit in (1, 2)]
    numbers += [0.1, Decimal("0.1000000000000000055511151231257827"), Decimal("0.10000000000000001")]
    assert len(owned(*numbers, [7, 8], [8, 7], Decimal("inf")).with_public_size()) == len(numbers) + 3


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("nobody", ["NA", "None", " "])
def test_a_column_that_names_nobody_is_no_missing_column(tmp_path, nobody, stream):
    """Where the column is empty everywhere each record is a unit, unless the unit is named."""
    for rows, refused in (([nobody] * 3, True), ([nobody, "", nobody], True), (["", "", ""], False)):
        (tmp_path / "x.csv").write_text("group,n\n" + "".join(f"{owner},{n}\n" for n, owner in enumerate(rows)))
        if refused:
            with pytest.raises(RecordError, match=r"line 2, field 'group': the privacy unit is missing"):
                read_private(tmp_path / "x.csv", stream=stream)
        else:
            assert read_private(tmp_path / "x.csv", stream=stream).unit == "record"


@pytest.mark.parametrize("nobody", [*sorted(NO_VALUE - {""}), " nan ", b"", b"NA", np.float32("nan"), Decimal("nan")])
def test_a_word_for_no_value_names_no_person(nobody):
    with pytest.raises(RecordError, match=r"line 2, field 'group': the privacy unit is missing.*spell out"):
        owned("a", nobody, "b")


def test_a_missing_person_is_missing_however_a_tool_writes_that(tmp_path):
    """pyarrow writes a number that is none as ``nan`` into CSV, and an empty text of bytes is one."""
    pa, csv, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"))
    numbers = pa.table({"n": range(4), "group": np.array([1.0, np.nan, 2.0, np.nan])})
    texts = pa.table({"n": range(4), "group": pa.array(["a", "", "b", ""]).cast(pa.binary())})
    csv.write_csv(numbers, tmp_path / "numbers.csv")
    parquet.write_table(texts, tmp_path / "bytes.parquet")
    for file in ("numbers.csv", "bytes.parquet"):
        with pytest.raises(RecordError, match="the privacy unit is missing"):
            read_private(tmp_path / file)


def test_another_column_of_units_is_another_data_set_and_the_order_is_not():
    assert owned("a", "a", "b").fingerprint != owned("a", "a", "b", unit="record").fingerprint
    rows = [{"text": f"t{i}", "group": owner} for i, owner in enumerate("aabbc")]
    assert records(*rows).fingerprint == records(*rows[::-1]).fingerprint


# Marks


def test_a_mark_says_nothing_without_its_key_and_finds_a_record_by_its_texts():
    row = {"text": "my card was charged twice by them", "label": "billing"}
    other = {"text": "another text that is long enough", "label": "billing"}
    gained = {**row, "label": "fraud", "url": "https://host.example/" + "x" * 40}
    marks = marks_of([row, gained, other, {"text": other["text"] + "\r\n"}, {"n": 1}], KEY)
    assert len(set(marks[:, 0].tolist())) == 5
    texts = [set(mark[1:].tolist()) - {0} for mark in marks]
    assert len(texts[0] & texts[1]) == 1
    assert texts[2] == texts[3]
    assert texts[4] == set()
    assert not np.isin(marks_of([row], b"another key" * 2), marks).any()


@pytest.mark.slow
def test_a_pictures_file_name_tells_nothing_beside_the_picture_and_what_it_does_without():
    pictures = ["iVBORw0KGgo" + f"{number:04}AbCdEfGh" * 20 for number in range(6)]
    rows = [{"id": f"dax/photo {n % 3}.png", "image": picture, "label": "dax"} for n, picture in enumerate(pictures)]
    here, there = marks_of(rows[:3], KEY), marks_of(rows[3:], KEY)
    assert here.shape[1] == 2
    assert not set(same_text(here[:, 1:]).ravel().tolist()) & set(same_text(there[:, 1:]).ravel().tolist())
    moved = marks_of([{**row, "id": f"{row['id']} 2"} for row in rows[:3]], KEY)
    assert (same_text(moved[:, 1]) == same_text(here[:, 1])).all()
    named = [{"file": f"scans/patient {number}.png", "label": "dax"} for number in range(3)]
    assert marks_of(named, KEY).shape[1] == 2
    noted = [
        {**row, "note": f"Admitted with a fever on ward {n}, for all else see scan.png"} for n, row in enumerate(rows)
    ]
    alone = [{"note": row["note"]} for row in noted]
    assert np.isin(same_text(marks_of(alone, KEY)[:, 1]), same_text(marks_of(noted, KEY)[:, 1:])).all()


def test_texts_that_many_rows_share_have_no_mark_and_rows_that_are_there_thrice_have_theirs():
    rows = [{"text": f"a text of row number {i}", "prompt": "You are a careful assistant."} for i in range(100)]
    assert (marks_of(rows, KEY)[:, 1:] != 0).sum() == 100  # every row's own text, the prompt of none
    assert (marks_of(rows * 3, KEY) == np.tile(marks_of(rows, KEY), (3, 1))).all()  # equal rows count once
    short = marks_of([{"text": f"row no {i:06d}", "n": 10**9 + i} for i in range(9)], KEY)[:, 1:]
    assert short.shape == (9, 1)
    assert (short % 4 == PHRASE).all()


TELLING = {
    "card lost 7": PHRASE,
    "Anna-Maria.Schmidt": PHRASE,
    "a text of several words, and long": SENTENCE,
    "https://host.example/notes/17": NAME,
    "6f1ed002ab5595859014ebf0951522d9": NAME,
    "我的卡昨天被收了两次费用请帮我处理一下谢谢你": SENTENCE,
    "customer.number7@example.org": NAME,
    "anna@example.org": NAME,
    "@AmericanAirlines": PHRASE,
    "4cOdK2wGLETKBW3PvgPWqT": NAME,
    "scans/ward-b/anna-miller.png": NAME,
    "12 patients seen in November 2014": SENTENCE,
    "Wednesday Addams": PHRASE,
    "221 West 45th St": PHRASE,
    "Europe/Anna-Miller/scan.jpg": NAME,
    "asia/millerson/katharina": NAME,
    "/etc/nginx/sites-available/millerson.conf": NAME,
    "14:30 Europe/Anna-Miller/at-home/scan.jpg": PHRASE,
    "9:10 Europe/Anna_Miller": PHRASE,
    "at Europe/Vienna": PHRASE,
    "note: Europe/Vienna": PHRASE,
    "2024-01-05 10:30 Singapore": PHRASE,
    "2024-01-05 10:30 [Millerson]": PHRASE,
    "scan 9:10 asia/anna_miller/portrait": PHRASE,
    "(Anna Miller went home for the first time)": SENTENCE,
    "14:30 (Anna Miller and her bed time)": SENTENCE,
    "GMT+0100 (Anna Miller went home for the first time)": SENTENCE,
    "Card 12345": None,
    "12 November 2014": None,
    "Wed, 12 Nov 2014 14:30:00 GMT": None,
    "Monday 14:30": None,
    "Fri Jan 05 2024 00:00:00 GMT+0100 (Central European Standard Time)": None,
    "Fri Jan 05 12:00:00 AM CEST 2024": None,
    "Friday, the 5th of January 2024": None,
    "2024-01-05T00:00:00+01:00[Europe/Berlin]": None,
    "2024-01-05T00:00:00.123456Z[America/Argentina/ComodRivadavia]": None,
    "5 January 2024, 10:30 PM Etc/GMT+5": None,
    "2024-01-05 10:30 US/Eastern": None,
    "2024-01-05T10:30:00+09:00[Japan]": None,
    "2024-01-05T10:30:00Z[singapore]": None,
    "2024-01-05T10:30:00-03:00[america/argentina/buenos_aires]": None,
    "3:14 AM EST": None,
    "2024-September-12": None,
    "label": None,
    "0.009999999776482582": None,
    "1.0000000116860974e-07": None,
    "3 days 04:05:06.123456": None,
    "2024-01-01T10:00:00.123456+01:00": None,
    "1,250.00 EUR": None,
    "+49 30 1234567890 ext 12": None,
}


@pytest.mark.parametrize("text", TELLING)
def test_a_text_tells_by_its_words_and_letters_and_numbers_never_do(text):
    rows = [{"n": i, "x": text if i == 0 else ""} for i in range(3)]
    kinds = marks_of(rows, KEY)[0, 1:] % 4
    assert kinds.tolist() == ([] if TELLING[text] is None else [TELLING[text]])


@pytest.mark.cases(2)
@pytest.mark.parametrize("written", ["{} {}", "{}Z {}", "{}Z[{}]", "{}+01:00 [{}]", "{} PM {}", "{}pm {}"])
def test_every_zones_name_behind_a_clock_time_says_nothing(written):
    zones = (resources.files("sottovoce") / "data" / "time_zones.txt").read_text("utf-8").split()
    named = [zone for zone in zones if "/" in zone or "[" in written]  # a bare one without a slash may be a place
    assert len(named) > (580 if "[" in written else 500)
    for zone in named:
        rows = [{"n": i, "x": written.format("2024-01-05 10:30", zone) if i == 0 else ""} for i in range(3)]
        assert marks_of(rows, KEY).shape == (3, 1), zone


def test_what_a_text_is_does_not_hang_on_other_columns():
    # A text in three rows keeps its mark beside a column whose texts are rarer, longer or both.
    rows = [{"text": f"a text of ticket number {i}"} for i in range(60) for _ in range(3)]
    plain = marks_of([{**row, "n": n} for n, row in enumerate(rows)], KEY)[:, 1:]
    for new in ("{:032x}", "a reason that annotator number {} has given", "{}"):
        beside = marks_of([{**row, "new": new.format(n)} for n, row in enumerate(rows)], KEY)[:, 1:]
        assert np.isin(plain, beside).all()
        assert plain.all()


def test_columns_of_labels_have_no_marks():
    occupations = [f"{kind}-of-{place}-worker" for kind in ("head", "hand") for place in "abcdefg"]
    jobs = [{"age": i, "occupation": occupations[i % 14]} for i in range(100)]
    assert marks_of(jobs, KEY).shape == (100, 1)
    intents = [{"n": i, "label": f"a request about the intent {i % 30:03}"} for i in range(900)]
    assert marks_of(intents, KEY).shape == (900, 1)
    beside = [{**row, "text": f"a text of row number {i}"} for i, row in enumerate(intents)]
    assert marks_of(beside, KEY).shape == (900, 2), "also beside a column of texts that differ"
    prompts = [{"n": i, "prompt": f"Prompt number {i % 3} for the model"} for i in range(60)]
    assert marks_of(prompts, KEY).shape == (60, 1), "few rows to a text on average, and each in a third of them"


def test_texts_that_differ_in_digits_alone_are_numbered():
    forms = {
        "vendredi {} janvier 2024": NUMBERED,
        "conversation-2024-{:06}": NUMBERED,
        "patient.{}@example.org": NAME,
        "https://example.org/pictures/{}.png": NAME,
        "{:024} and other numbers of letters": SENTENCE,  # too many digits for a date
    }
    for form, kind in forms.items():
        rows = [{"n": i, "x": form.format(i)} for i in range(9)]
        assert set((marks_of(rows, KEY)[:, 1] % 4).tolist()) == {kind}, form
    alone = marks_of([{"x": "vendredi 5 janvier 2024"}, {"x": "my card was lost on a train"}], KEY)[:, 1]
    assert (alone % 4 == SENTENCE).all()


def test_a_row_of_many_texts_has_a_bounded_number_of_marks():
    wide = [{f"c{j}": f"cell {j} of row {i}, long enough" for j in range(20)} for i in range(5)]
    marks = marks_of(wide, KEY)
    assert marks.shape == (5, 1 + TEXTS)
    assert marks.all()


# Earlier formats


SECOND = {
    "record": "5ace1e2245d145ee07c63dfef60927be4345a6fb2b75b80d99a4ea55e8fa53ab",
    "owner": "3d3c7b8a33d7dd8f57263f80a5d8d0c0661ae90fa985ff65f177035db6615476",
}
"""Written down from the code before lists of pairs were maps; they name accounts in ledgers that exist."""


@pytest.mark.parametrize("unit", SECOND)
def test_the_second_fingerprint_is_what_it_was(unit):
    rows = [
        {"id": "a1", "text": "one", "spans": [(3, 9), (12, 20)], "more": {"R (\u2126)": 1, " k ": " "}, "none": {}},
        {"id": "a2", "text": "two", "more": '{"e\u0301": 1, "1.0": [[1, 2]]}', "size": "1e400", "none": []},
        {"id": "a3", "text": "three", "pairs": [["a", 1]], "note": "a\u0301 [x]"},
    ]
    if unit == "owner":
        rows = [{**row, "owner": owner} for row, owner in zip(rows, "aba", strict=True)]
    found = records(*rows, unit=unit)
    assert found.earlier_fingerprints()[-1] == SECOND[unit] != found.fingerprint
    assert [*found.fingerprints()] == [found.fingerprint, *found.earlier_fingerprints(), found.first_fingerprint()]


def test_the_third_and_the_fourth_fingerprint_are_what_they_were():
    """Written down from the code of those formats."""
    pair = np.array(["2024-03-01T12:00", "2024-03-02"], "M8[ns]")
    rows = [
        {"id": "c1", "text": "one", "spans": "[[3, 9], [12, 20]]", "score": "nan", "when": NOON + ".123456",
         "2024-01-01 00:00:00": 1},
        {"id": "c2", "text": "two", "rate": float("inf"), "pool": "NA", "until": LAST_MOMENT, "box": [pair, pair]},
        {"id": "c3", "text": "three", "more": {"a": Decimal("-Infinity"), "b": "None"}, "price": "0." + "1" * 60,
         "at": dt.datetime(2024, 3, 1, 12, 0, 0, 999), "low": "-Infinity"},
    ]  # fmt: skip
    assert records(*rows).earlier_fingerprints() == (
        "5beeadab047914d0d84661f3f5b7d90aade95cd5c258556ac8b20accec270255",
        "5eeb1008fc88e4bd9bec94025f91f21b1c3ac066ccfd6de8818b49b40056712d",
        "513f77dab336416c6f0960c228bf8e828c2b7862767161af62af639c363c6356",
    )


def test_the_second_fingerprint_of_unusual_numbers_and_times_is_what_it_was():
    since = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    until = np.array(["2024-03-01T12:00"], "M8[ns]")
    rows = [
        {
            "id": "b1",
            "text": "one",
            "price": str(Decimal.from_float(0.1)),
            "size": 10**60,
            "until": LAST_MOMENT,
            "since": since,
        },
        {"id": "b2", "text": "two", "price": "nan", "size": "-Infinity", "until": until, "since": "<NA>"},
        {"id": "b3", "text": "three", "price": "9" * 41, "until": "10000-01-01", "since": "0000-01-01"},
    ]
    found = records(*rows).earlier_fingerprints()[-1]
    assert found == "1886eb523ea1d3674c60a154d763e7019c629539f6bd4dff1789771f5c73cdab"


def test_names_of_columns_had_no_other_text_in_earlier_formats():
    dated = records({"2024-01-01 00:00:00": 1}, {"2024-01-01 00:00:00": 2})
    assert dated.fingerprint == records({"2024-01-01": 1}, {"2024-01-01": 2}).fingerprint
    (earlier,) = dated.earlier_fingerprints()
    assert earlier == "89dc886aeee4e3397268119451d7d2426ae2c9daf7731feb8921122158cd651a"


def test_records_without_lists_or_objects_have_no_second_fingerprint():
    plain = records({"text": "My card was charged", "n": "3e2", "when": NOON, "x": 1e-3}, {"text": "e\u0301"})
    assert [*plain.fingerprints()] == [plain.fingerprint, plain.first_fingerprint()]


def test_unusual_cells_may_have_had_another_text():
    pa = pytest.importorskip("pyarrow")
    for value in (pa.array([[[3, 9]]])[0], UserString("[[3, 9]]"), Counter(a=1), np.array([[3, 9]]), b"[[3, 9]]"):
        assert may_differ(value)
    assert canonical_text(pa.array([[[3, 9]]])[0]) != SECOND_CELLS.of(pa.array([[[3, 9]]])[0])
    beyond = (10**40, "1" * 41, "nan", " <NA> ", LAST_MOMENT, "10000-01-01", "-Infinity")
    finer = (NOON + ".000001", dt.datetime(2024, 3, 1, 12, 0, 0, 1), dt.time(10, 0, 0, 1), "10:00:00,0001")
    for value in (*beyond, *finer, *NO_VALUE - {""}, dt.datetime(9999, 3, 1), dt.datetime(1, 3, 1), float("-inf")):
        assert may_differ(value)
    for value in (3, 0.5, True, dt.date(2024, 3, 1), dt.time(10), dt.timedelta(1), NOON, "007", None, "nobody"):
        assert not may_differ(value)


def as_pairs(value):
    """Objects as Parquet's maps are read."""
    if isinstance(value, dict):
        return [(name, as_pairs(part)) for name, part in value.items()]
    return [as_pairs(part) for part in value] if isinstance(value, list) else value


UNUSUAL = [
    "inf",
    "NA",
    "None",
    NOON + ".123456",
    "-1.#IND",
    "1e400",
    " 7",
    NOON,
    "nan",
    10**60,
    "9" * 50,
    "9999-12-31T23:00-02:00",
    "0000-01-01",
    "-Infinity",
]


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.sampled_from(UNUSUAL)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3), st.tuples(inner, inner)
        ),
        max_leaves=8,
    )
)
def test_cells_that_cannot_differ_have_the_text_of_every_earlier_format(value):
    if not is_missing(value) and not may_differ(value):
        assert {texts.of(value) for texts in EARLIER} == {canonical_text(value)}
    if isinstance(value, list | dict):
        assert canonical_text(value) == canonical_text(as_pairs(value))
        assert canonical_text(json.dumps(value, ensure_ascii=False)) == canonical_text(json.dumps(value))
