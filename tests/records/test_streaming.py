"""Records that are read from their file again for each use: the same as those that are held, and never another file."""

import gc
import gzip
import json
import os
import threading

import numpy as np
import pandas as pd
import pytest

from sottovoce.errors import RecordError
from sottovoce.records.readers import read_private
from sottovoce.records.sealed import Row, unseal, unseal_units

KEY = b"k" * 32
ROWS = [
    {"id": str(i), "text": f"the parcel number {i} was late again in town {i % 7}", "label": "ab"[i % 2]}
    for i in range(40)
]
GROUPED = [{**row, "group": f"person {i // 3}"} for i, row in enumerate(ROWS)]
APART = [{**row, "group": f"person {i % 5}"} for i, row in enumerate(ROWS)]


def written(folder, rows, kind="jsonl"):
    file = folder / f"rows.{kind}"
    frame = pd.DataFrame(rows)
    if kind == "parquet":
        frame.to_parquet(file, row_group_size=7)
    elif kind == "csv":
        frame.to_csv(file, index=False)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        file.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    return file


def rows_of(records):
    return [[(row.line, dict(row.values)) for row in unit] for unit in unseal(records)]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "parquet"])
@pytest.mark.parametrize("rows", [ROWS, GROUPED])
def test_streamed_records_are_known_by_what_held_ones_are(tmp_path, kind, rows):
    file = written(tmp_path, rows, kind)
    held = read_private(file, max_characters=20, truncate=True)
    streamed = read_private(file, max_characters=20, truncate=True, stream=True)
    assert (held.held, streamed.held) == (True, False)
    assert streamed.unit == held.unit
    assert streamed.fingerprint == held.fingerprint
    assert [*streamed.fingerprints()] == [*held.fingerprints()]
    assert np.array_equal(streamed.marks(KEY), held.marks(KEY))
    assert len(streamed.with_public_size()) == len(held.with_public_size())
    assert rows_of(streamed) == rows_of(held) == rows_of(streamed)
    assert all(len(str(row.values["text"])) <= 20 for unit in unseal(streamed) for row in unit)


def test_streamed_records_with_maps_have_the_second_fingerprint_of_held_ones(tmp_path):
    file = written(tmp_path, [{**row, "spans": [[i, i + 3]], "text": row["text"] * 3} for i, row in enumerate(GROUPED)])
    held = read_private(file, max_characters=20, truncate=True)
    streamed = read_private(file, max_characters=20, truncate=True, stream=True)
    assert not streamed.held
    assert len({*held.fingerprints()}) == 3
    assert [*streamed.fingerprints()] == [*held.fingerprints()]


def test_units_whose_rows_stand_apart_are_held(tmp_path):
    file = written(tmp_path, APART)
    streamed, held = read_private(file, stream=True), read_private(file)
    assert streamed.held
    assert streamed.fingerprint == held.fingerprint
    assert rows_of(streamed) == rows_of(held)
    assert not read_private(file, unit="record", stream=True).held


@pytest.mark.parametrize(
    "rows",
    [
        [*ROWS, {**ROWS[3], "text": "another"}],
        [*GROUPED[:5], {**GROUPED[5], "group": ""}, GROUPED[6]],
        [],
        [*ROWS[:4], {**ROWS[4], "text": "x" * 9_000}],
    ],
)
def test_what_held_records_refuse_is_refused_in_the_same_words(tmp_path, rows):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    messages = []
    for stream in (False, True):
        with pytest.raises(RecordError) as caught:
            read_private(file, stream=stream)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.slow
def test_no_row_is_held(tmp_path):
    def alive():
        gc.collect()
        return sum(type(thing) is Row for thing in gc.get_objects())

    file = written(tmp_path, GROUPED)
    before = alive()
    records = read_private(file, stream=True)
    records.first_fingerprint(), records.marks(KEY)
    assert alive() == before
    units = unseal_units(records)
    for _ in range(5):
        unit = next(units)
        assert alive() <= before + 2 * len(unit) + 2


@pytest.mark.parametrize("change", ["append", "same size and time", "remove", "spoil"])
def test_a_file_that_was_changed_is_refused(tmp_path, change):
    file = written(tmp_path, ROWS)
    records, status = read_private(file, stream=True), file.stat()
    content = file.read_bytes()
    if change == "remove":
        file.unlink()
    else:
        file.write_bytes(
            {"append": content + content[:1], "spoil": b"{", "same size and time": content.replace(b"late", b"lost")}[
                change
            ]
        )
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    for use in (records.require_unchanged, records.first_fingerprint, lambda: records.marks(KEY)):
        with pytest.raises(RecordError, match=r"changed while|cannot be read") as caught:
            use()
        assert "parcel" not in str(caught.value)
    file.write_bytes(content)
    assert records.first_fingerprint() == read_private(file).first_fingerprint()


@pytest.mark.parametrize("more", [b"{", b'{"text": "one more", "label": "a"}\n'])
def test_a_file_that_is_changed_during_a_pass_is_refused_behind_it(tmp_path, more):
    file = written(tmp_path, ROWS)
    records = read_private(file, stream=True)
    units = unseal_units(records)
    next(units)
    with file.open("ab") as stream:
        stream.write(more)
    with pytest.raises(RecordError, match="was changed while its records were in use"):
        list(units)


def test_what_cannot_be_read_again_is_held(tmp_path):
    assert read_private(pd.DataFrame(ROWS), stream=True).held
    pipe = tmp_path / "rows.jsonl"
    os.mkfifo(pipe)
    content = "".join(json.dumps(row) + "\n" for row in ROWS)
    writer = threading.Thread(target=pipe.write_text, args=[content])
    writer.start()
    records = read_private(pipe, stream=True)
    writer.join()
    assert records.held
    assert records.fingerprint == read_private(pd.DataFrame(ROWS)).fingerprint
