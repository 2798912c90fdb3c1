"""Readers: one data set in five formats is one data set, and every damage is named by file, line and field."""

from __future__ import annotations

import csv
import gzip
import json
import random
import sys

import numpy as np
import pandas as pd
import pytest

from sottovoce.errors import ParameterError, RecordError, SottoError
from sottovoce.experts.ensemble import stable_id
from sottovoce.files.tables import decoded, encoded
from sottovoce.records.readers import MAX_CHARACTERS, read_private, read_public
from sottovoce.records.sealed import Reading, unseal

ROWS = [
    {"id": "a1", "text": "My card was charged twice.", "label": "billing", "group": "g1"},
    {"id": "a2", "text": 'Two lines,\n"quoted",\nand a comma', "label": "fraud", "group": "g2"},
    {
        "id": "a3",
        "text": "Umlauts: äöü €, \U0001f4e6, and a line separator \u2028 inside",
        "label": "fraud",
        "group": "g1",
    },
    {"id": "a4", "text": " blanks at both ends ", "label": "2", "group": "g3"},
]
SECRET = "Zanzibar"


def write(path, rows, **options):
    """Writes rows in the format that the file's name says."""
    name = path.name
    if name.endswith((".jsonl", ".jsonl.gz")):
        text = "".join(json.dumps(row, **options) + "\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    elif name.endswith(".csv"):
        with path.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]), **options)
            writer.writeheader()
            writer.writerows(rows)
    else:
        pd.DataFrame(rows).to_parquet(path)
    return path


def values(records):
    return sorted(tuple(sorted(row.values.items())) for unit in unseal(records) for row in unit)


def refusal(path, content: bytes | str, **options) -> RecordError:
    """The error for a file of this content, which must not quote it."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(RecordError) as caught:
        read_private(path, **options)
    assert str(caught.value).startswith(path.name)
    assert SECRET not in repr(caught.value) + str(caught.value.args)
    return caught.value


FORMATS = ("rows.jsonl", "rows.jsonl.gz", "rows.csv", "rows.parquet")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows_and_the_same_fingerprint(tmp_path, name):
    frame = read_private(pd.DataFrame(ROWS))
    records = read_private(write(tmp_path / name, ROWS))
    assert values(records) == values(frame) == sorted(tuple(sorted(row.items())) for row in ROWS)
    assert records.fingerprint == frame.fingerprint
    assert records.unit == frame.unit == "group"
    assert [len(unit) for unit in unseal(records)] == [2, 1, 1]


@pytest.mark.parametrize("name", FORMATS)
def test_public_rows_are_the_private_rows_without_a_seal(tmp_path, name):
    rows = read_public(write(tmp_path / name, ROWS))
    assert [dict(row.values) for row in rows] == ROWS
    assert len(rows) == len(ROWS)


def test_row_order_column_order_and_empty_columns_do_not_change_the_fingerprint(tmp_path):
    known = read_private(write(tmp_path / "rows.jsonl", ROWS)).fingerprint
    shuffled = random.Random(1).sample(ROWS, len(ROWS))
    assert read_private(write(tmp_path / "rows.csv", shuffled)).fingerprint == known
    turned = [dict(reversed(row.items())) for row in ROWS]
    assert read_private(write(tmp_path / "turned.csv", turned)).fingerprint == known
    with_gap = [{**row, "remark": None} for row in ROWS]
    assert read_private(write(tmp_path / "gap.parquet", with_gap)).fingerprint == known
    assert read_private(write(tmp_path / "gap.csv", [{**row, "remark": ""} for row in ROWS])).fingerprint == known


@pytest.mark.parametrize("field", ["id", "text", "label", "group"])
def test_one_changed_character_gives_another_fingerprint(tmp_path, field):
    known = read_private(write(tmp_path / "rows.jsonl", ROWS)).fingerprint
    changed = [dict(row) for row in ROWS]
    changed[2][field] += "."
    assert read_private(write(tmp_path / "changed.jsonl", changed)).fingerprint != known
    assert read_private(write(tmp_path / "fewer.jsonl", ROWS[:-1])).fingerprint != known
    moved = [{**row, "text": row["text"] + row["label"], "label": ""} for row in ROWS]
    assert read_private(write(tmp_path / "moved.csv", moved)).fingerprint != known


def test_a_repeated_row_counts_as_often_as_it_occurs(tmp_path):
    plain = [{"text": "same"}, {"text": "other"}]
    once = read_private(write(tmp_path / "once.jsonl", plain)).fingerprint
    twice = read_private(write(tmp_path / "twice.jsonl", [plain[0], *plain])).fingerprint
    assert once != twice


def test_cutting_texts_does_not_change_whose_budget_it_is(tmp_path):
    # The budget belongs to the data: --truncate and --max-characters are ways to read it, not other data.
    long = write(tmp_path / "long.jsonl", [{"text": "x" * 900}, {"text": "short"}])
    whole = read_private(long)
    cut = read_private(long, max_characters=10, truncate=True)
    assert max(len(str(row.values["text"])) for unit in unseal(cut) for row in unit) == 10
    assert cut.fingerprint == whole.fingerprint == cut.with_public_size().fingerprint


def test_dates_beyond_those_of_python_are_texts(tmp_path):
    # Databases write open ends as "infinity", the largest number of their type.
    pa = pytest.importorskip("pyarrow")
    days = pa.array([2**31 - 1, 2932897, -719529, 0, None], pa.int32()).cast(pa.date32())
    kinds = {
        "days": days,
        "us": pa.array([2**63 - 1, 1, 2, 3, None], pa.timestamp("us")),
        "ms": pa.array([2**63 - 1, 253402300800000, 2, 3, None], pa.timestamp("ms", "UTC")),
        "span": pa.array([2**63 - 1, 1, 2, 3, None], pa.duration("ms")),
        "many": pa.array([[2**63 - 1], [1, None], [], [3], None], pa.list_(pa.timestamp("us"))),
        "map": pa.array([[("k", 2**31 - 1)], [("k", 2)], [], [], None], pa.map_(pa.string(), pa.date32())),
    }
    texts = [f"row {i}" for i in range(5)]
    for name, column in kinds.items():
        file = tmp_path / f"{name}.parquet"
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table({"text": texts, "more": column}), file)
        first, *others = [row.values["more"] for unit in unseal(read_private(file)) for row in unit]
        assert all(isinstance(value, str) for value in flat(first)), name
        assert others[-1] is None
        assert read_private(file).fingerprint != read_private(pd.DataFrame({"text": texts})).fingerprint
        frame = pd.read_parquet(file, dtype_backend="pyarrow")
        assert read_private(frame.loc[:]).fingerprint == read_private(file).fingerprint, name
        assert read_private(frame.iloc[1:]).fingerprint == read_private(rows_of(file, 1)).fingerprint, name


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_times_of_a_zone_beyond_those_of_python_are_read_as_from_parquet(tmp_path, zone):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ends = (253402300799000000, 253402300800000000, -62135578800000000, 700000000000000000)
    for last in (2**63 - 1, -(2**63), *ends):
        when = pa.array([last, 1, None], pa.timestamp("us", zone))
        parquet.write_table(pa.table({"text": ["a", "b", "c"], "when": when}), tmp_path / "x.parquet")
        frame = pd.read_parquet(tmp_path / "x.parquet", dtype_backend="pyarrow")
        assert read_private(frame).fingerprint == read_private(tmp_path / "x.parquet").fingerprint, last
        if abs(last) < 2**62:
            frame = pd.read_parquet(tmp_path / "x.parquet")
            assert read_private(frame).fingerprint == read_private(tmp_path / "x.parquet").fingerprint, last


def test_units_and_types_that_parquet_stores_otherwise_are_read_as_from_it(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    largest, numbers = 2**63 - 1, pa.array([0, 10**12], pa.int64())
    days = pa.array([0, 86_400_000 * (2**31 - 1)], pa.int64())
    columns = {
        "seconds": numbers.cast(pa.timestamp("s")),
        "days": days.cast(pa.date64()),
        "east": pa.array([0, largest], pa.timestamp("ns", "Europe/Berlin")),
        "west": pa.array([0, -largest], pa.timestamp("ns", "America/New_York")),
        "often": pa.DictionaryArray.from_arrays([0, 1], pa.array([0, largest], pa.timestamp("us"))),
        "lists": pa.array([[0], [largest]], pa.list_(pa.timestamp("us", "Asia/Tokyo"))),
    }
    for name, column in columns.items():
        table = pa.table({"text": ["a", "b"], "when": column})
        parquet.write_table(table, tmp_path / "x.parquet")
        frame = table.to_pandas(types_mapper=pd.ArrowDtype)
        assert read_private(frame).fingerprint == read_private(tmp_path / "x.parquet").fingerprint, name


def rows_of(file, first):
    """The file without its first rows."""
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(parquet.read_table(file).slice(first), file.with_suffix(".rest.parquet"))
    return file.with_suffix(".rest.parquet")


def flat(value):
    """The values inside lists and dicts, but for a map's keys."""
    if isinstance(value, dict):
        return flat([*value.values()])
    if isinstance(value, tuple):
        return flat(value[1])
    return [part for each in value for part in flat(each)] if isinstance(value, list) else [value]


def test_persons_told_by_dates_inside_a_value_are_not_made_one(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    far, near = 2**31 - 1, 2**31 - 2
    for kind, values in {
        pa.map_(pa.string(), pa.date32()): [[("a", far)], [("b", far)], [("a", near)]],
        pa.list_(pa.date32()): [[far], [near], [far, near]],
        pa.struct([("x", pa.date32())]): [{"x": far}, {"x": near}, {"x": near - 1}],
    }.items():
        file = tmp_path / "a.parquet"
        table = pa.table({"text": [f"row {i}" for i in range(6)], "who": pa.array(values * 2, kind)})
        parquet.write_table(table, file)
        assert len(read_private(file, unit="who").with_public_size()) == 3, kind


@pytest.mark.parametrize("columns", [None, {"group": "customer"}])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_cutting_texts_makes_no_two_persons_one(tmp_path, stream, apart, columns):
    # Names that begin alike for longer than a text may be: one of them leaving must be one unit leaving.
    unit = "customer" if columns else "group"
    rows = [
        {"text": f"word {i}", "id": f"the-same-begin-{i}", unit: f"region-eu/customer-{i % 3 if apart else i // 2}"}
        for i in range(6)
    ]
    long = write(tmp_path / "long.jsonl", rows)
    whole = read_private(long, stream=stream, columns=columns)
    cut = read_private(long, max_characters=6, truncate=True, stream=stream, columns=columns)
    assert [[row.line for row in own] for own in unseal(cut)] == [[row.line for row in own] for own in unseal(whole)]
    assert len(cut.with_public_size()) == 3
    assert cut.fingerprint == whole.fingerprint
    for records in (cut, whole):
        names = [stable_id(own, records.unit) for own in unseal(records)]
        assert names == [f"region-eu/customer-{n}" for n in range(3)]
    single = read_private(long, unit="record", max_characters=6, truncate=True, stream=stream, columns=columns)
    assert [stable_id(own, "record") for own in unseal(single)] == [f"the-same-begin-{i}" for i in range(6)]
    assert {row.values["text"] for own in unseal(cut) for row in own} == {f"word {i}" for i in range(6)}


@pytest.mark.parametrize("stream", [False, True])
def test_records_say_how_they_were_read_by_public_parameters_alone(tmp_path, stream):
    apart = [{"text": "x" * 50, "body": "b", "group": group} for group in ("a", "b", "a")]
    for path, unit in ((write(tmp_path / "a.jsonl", [{"text": "x" * 50, "body": "b"}]), None),
                       (write(tmp_path / "b.jsonl", apart), "group")):  # fmt: skip
        for options, columns, truncate_at in [
            ({"max_characters": 99}, {}, None),
            ({"max_characters": 10, "truncate": True}, {}, 10),
            ({"truncate": True}, {}, MAX_CHARACTERS),
            ({"columns": {"text": "text", "label": "body"}}, {"label": "body"}, None),
        ]:
            records = read_private(path, unit=unit, stream=stream, **options)
            told = {"columns": columns, "truncate_at": truncate_at}
            assert records.reading.words == records.with_public_size().reading.words == told


def test_a_column_of_half_a_character_is_named_in_words_that_a_file_can_hold():
    assert Reading({"label": "a\udc80"}).words["columns"] == {"label": "a\\udc80"}


def test_numbers_are_the_text_they_would_be_in_a_csv_file(tmp_path):
    rows = [{"text": "one", "label": 0, "year": 1999}, {"text": "two", "label": 1, "year": 2001}]
    known = read_private(write(tmp_path / "rows.jsonl", rows)).fingerprint
    for other in (write(tmp_path / "rows.csv", rows), write(tmp_path / "rows.parquet", rows), pd.DataFrame(rows)):
        assert read_private(other).fingerprint == known


def test_a_value_that_a_frame_calls_missing_is_no_value():
    frame = pd.DataFrame({"text": ["a", "b"], "n": [float("nan"), float("nan")], "when": [pd.NaT, pd.NaT]})
    assert read_private(frame).fingerprint == read_private(pd.DataFrame({"text": ["a", "b"]})).fingerprint


# Where an error is


def test_blank_lines_of_json_lines_are_skipped_and_counted(tmp_path):
    error = refusal(tmp_path / "rows.jsonl", f'\n{{"text": "one"}}\n\n   \n{{"text": "{SECRET}"\n')
    assert (error.line, error.field) == (5, None)
    assert "line 5: this is not valid JSON" in str(error)


def test_a_csv_row_is_named_by_its_first_line_whatever_its_cells_hold(tmp_path):
    head = 'text,label\n"one\ntwo\nthree",a\n\n"four\nfive",b\n'
    for bad, problem in ((f'"{SECRET}\n",c,surplus\n', "2 columns and this row has 3"), (f'"{SECRET}"x,y\n', "CSV")):
        error = refusal(tmp_path / "rows.csv", head + bad)
        assert error.line == 8
        assert problem in str(error)
    rows = list(read_public(write(tmp_path / "good.csv", [{"text": "a\nb"}, {"text": "c"}])))
    assert [row.line for row in rows] == [2, 4]


def test_an_unclosed_quote_is_blamed_on_the_row_that_opens_it(tmp_path):
    assert refusal(tmp_path / "rows.csv", f'text,label\na,b\n"{SECRET},c\nd,e\nf,g\n').line == 3


@pytest.mark.parametrize("header", ["text,text\n", "text,\n"])
def test_csv_columns_need_names_that_differ(tmp_path, header):
    assert refusal(tmp_path / "rows.csv", header + "a,b\n").line == 1


def test_times_of_a_frame_beyond_those_of_python_are_those_of_its_files(tmp_path):
    last = pd.Series(np.array(["9999-12-31T23:59:59", "10020-03-01"], "M8[us]"))
    for zone in (None, "UTC", "Asia/Tokyo"):
        until = last if zone is None else last.dt.tz_localize("UTC").dt.tz_convert(zone)
        frame = pd.DataFrame({"text": ["a", "b"], "label": "x", "until": until})
        frame.to_parquet(tmp_path / "x.parquet")
        moments = ("9999-12-31T23:59:59Z", "10020-03-01")
        rows = "".join(f"{text},x,{when}\n" for text, when in zip("ab", moments, strict=True))
        (tmp_path / "x.csv").write_text(f"text,label,until\n{rows}")
        sources = (frame, tmp_path / "x.parquet", tmp_path / "x.csv")
        assert len({read_private(source).fingerprint for source in sources}) == 1
        assert len(read_private(frame, unit="until").with_public_size()) == 2


def test_columns_of_a_frame_need_names_that_differ():
    with pytest.raises(RecordError, match="unique"):
        read_private(pd.DataFrame([["a", "b"]], columns=["text", "text"]))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_bytes_that_are_not_utf_8_are_named_by_line(tmp_path, name):
    good = '{"text": "ok"}\n' if name == "rows.jsonl" else 'text\n"o\nk"\n'
    lines = good.count("\n")
    error = refusal(tmp_path / name, good.encode() + SECRET.encode() + b" \xff\xfe\n")
    assert error.line == lines + 1
    assert "not UTF-8" in str(error)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, name):
    plain = write(tmp_path / name, ROWS)
    known = read_private(plain).fingerprint
    plain.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    assert read_private(plain).fingerprint == known


def test_line_ends_of_windows_are_line_ends(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "a"}\r\n{"text": "b"}\r\n')
    table = tmp_path / "rows.csv"
    table.write_bytes(b"text\r\na\r\nb\r\n")
    assert read_private(path).fingerprint == read_private(table).fingerprint


def test_a_compressed_file_that_ends_early_or_is_damaged_is_refused(tmp_path):
    noise = random.Random(2)
    rows = [{"text": "".join(noise.choices("abcdefghij", k=200))} for _ in range(200)]
    whole = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    spoiled = bytearray(whole)
    spoiled[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    for content in (whole[: len(whole) // 2], whole[:-6], bytes(spoiled), b"no gzip at all", whole[:5]):
        error = refusal(tmp_path / "rows.jsonl.gz", content)
        assert "cannot be read" in str(error) or "JSON" in str(error) or "UTF-8" in str(error)


@pytest.mark.parametrize("content", [b"PAR1 Zanzibar", b"", b"Zanzibar" * 100])
def test_a_damaged_parquet_file_is_refused(tmp_path, content):
    assert "Parquet" in str(refusal(tmp_path / "rows.parquet", content))


@pytest.mark.parametrize(
    "line",
    ["Zanzibar", '{"text": "Zanzibar",}', "{'text': 'Zanzibar'}", '{"text": Zanzibar}', '{"text": "Zanzibar'],
)
def test_what_is_not_json_is_named_by_line(tmp_path, line):
    error = refusal(tmp_path / "rows.jsonl", '{"text": "ok"}\n' + line + "\n")
    assert error.line == 2
    assert "not valid JSON" in str(error)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"text": "a", "n": ' + "9" * 5_000 + "}"])
def test_json_that_python_will_not_read_is_not_valid_either(tmp_path, line):
    assert refusal(tmp_path / "rows.jsonl", line + "\n").line == 1


@pytest.mark.parametrize("line", ['["Zanzibar"]', '"Zanzibar"', "3", "null", "true"])
def test_json_that_is_no_object_is_refused(tmp_path, line):
    error = refusal(tmp_path / "rows.jsonl", '{"text": "ok"}\n' + line + "\n")
    assert error.line == 2
    assert "JSON object" in str(error)


def test_half_a_character_is_refused_with_its_field_and_never_shown(tmp_path):
    # A lone surrogate is JSON but no text: encoding it would raise an error that carries the whole text.
    error = refusal(tmp_path / "rows.jsonl", f'{{"text": "ok"}}\n{{"text": "{SECRET} \\ud800"}}\n')
    assert (error.line, error.field) == (2, "text")
    with pytest.raises(RecordError, match="line 1"):
        read_private(pd.DataFrame({"text": [f"{SECRET} \udc00"]}, dtype=object))


# How much


@pytest.mark.parametrize("name", FORMATS)
def test_a_record_of_ten_thousand_characters_is_refused_with_the_limit(tmp_path, name):
    rows = [{"text": "short"}, {"text": SECRET * 1250}]
    with pytest.raises(RecordError, match="longer than 8,000 characters") as caught:
        read_private(write(tmp_path / name, rows))
    assert caught.value.field == "text"
    assert caught.value.line == (3 if name == "rows.csv" else 2)
    assert "--max-characters" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_truncating_cuts_and_a_higher_limit_takes_the_whole(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"text": "x" * 10_000}])
    assert values(read_private(path, truncate=True)) == [(("text", "x" * MAX_CHARACTERS),)]
    assert values(read_private(path, max_characters=10_000)) == [(("text", "x" * 10_000),)]
    with pytest.raises(RecordError, match="9,999"):
        read_private(path, max_characters=9_999)


def test_a_csv_cell_may_be_longer_than_the_csv_module_allows_by_itself(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "x" * 140_000 + ",a\n")
    assert values(read_private(path, max_characters=140_000)) == [(("label", "a"), ("text", "x" * 140_000))]
    assert values(read_private(path, truncate=True)) == [(("label", "a"), ("text", "x" * MAX_CHARACTERS))]
    rows = [{"text": "x" * 140_000, "epsilon": "0.5"}]
    assert decoded(encoded(rows, path), path) == [{"text": "x" * 140_000, "epsilon": 0.5}]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("limit", [0, -5, 10**9 + 1, sys.maxsize, 10**21, 1.5])
def test_a_limit_that_no_text_can_have_is_refused(tmp_path, limit, name):
    path = write(tmp_path / name, ROWS)
    for read in (read_private, read_public):
        with pytest.raises(ParameterError, match=r"max_characters is .* a whole number from 1 to 1,000,000,000"):
            read(path, max_characters=limit)
        assert read(path, max_characters=10**9)


def test_a_file_without_a_header_does_not_give_its_first_row_away_as_column_names(tmp_path):
    error = refusal(tmp_path / "rows.csv", f"I live in {SECRET},billing\n" + "x" * 9_000 + ",fraud\n")
    assert error.line == 2
    assert "column 1" in str(error)


# Which file


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("rows.txt", "file type '.txt' is not known"),
        ("rows", r"file type '\(none\)' is not known"),
        ("rows.gz", "file type"),
        ("rows.xlsx.gz", "file type '.xlsx' is not known"),
    ],
)
def test_an_unknown_file_type_is_refused_with_the_known_ones(tmp_path, name, problem):
    (tmp_path / name).write_text("{}")
    with pytest.raises(RecordError, match=problem) as caught:
        read_private(tmp_path / name)
    assert ".jsonl.gz" in str(caught.value)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path):
    with pytest.raises(RecordError, match="folder"):
        read_private(tmp_path)
    with pytest.raises(RecordError, match="no such file"):
        read_private(tmp_path / "absent.jsonl")
    with pytest.raises(RecordError):
        read_private(tmp_path / ("long" * 100 + ".jsonl"))


@pytest.mark.parametrize(
    ("name", "content"),
    [("rows.jsonl", ""), ("rows.jsonl", "\n \n"), ("rows.csv", ""), ("rows.csv", "text,label\n"), ("rows.csv", "\n\n")],
)
def test_a_file_without_rows_is_refused(tmp_path, name, content):
    assert "there is no record" in str(refusal(tmp_path / name, content))
    with pytest.raises(RecordError, match="there is no row"):
        read_public(tmp_path / name)


def test_frames_and_empty_compressed_files_without_rows_are_refused(tmp_path):
    with pytest.raises(RecordError, match="there is no record"):
        read_private(pd.DataFrame({"text": []}))
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(RecordError, match="there is no record"):
        read_private(path)


def test_a_missing_time_of_a_frame_is_no_person_and_no_id():
    born = pd.to_datetime(pd.Series(["1990-01-02", None, None]))
    with pytest.raises(RecordError, match="the privacy unit is missing"):
        read_private(pd.DataFrame({"text": [*"abc"], "born": born}), unit="born")
    assert len(read_private(pd.DataFrame({"text": [*"abc"], "id": born})).with_public_size()) == 3
    frame = pd.DataFrame({"text": [*"abc"], "group": pd.Series([pd.NaT] * 3)})
    assert read_private(frame).unit == "record"
    assert unseal(read_private(pd.DataFrame({"text": ["a"], "x": [pd.NaT]})))[0][0].values["x"] is pd.NaT


COLUMNS = type("Frame", (), {"columns": ["text"], "to_dict": dict})()
"""A data frame of another kind."""


@pytest.mark.parametrize("source", [[{"text": "a"}], {"text": "a"}, 3, None, COLUMNS])
def test_what_is_neither_a_file_nor_a_frame_is_refused(source):
    with pytest.raises(SottoError, match="file name or a pandas data frame"):
        read_private(source)
