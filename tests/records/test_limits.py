"""A small file may hold a great deal: it is refused in bounded memory, by file and line, before it is built."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pandas as pd
import pytest

from sottovoce.errors import RecordError, SottoError, TaskError
from sottovoce.generation import GenerationTemplate
from sottovoce.records import limits
from sottovoce.records.readers import read_private, read_public
from sottovoce.tasks import load_task

MIB = 1 << 20
MOST_MIB = 300
"""Memory of a process that refuses a bomb; the bombs hold 500 MiB, but for the pages of 80."""

READ = """
import sys
from sottovoce.errors import RecordError
from sottovoce.records.readers import read_public
try:
    read_public(sys.argv[1])
except RecordError as error:
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(int(peak.split()[1]) // 1024, error)
"""


def one_line(folder):
    with gzip.open(folder / "one_line.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(b'{"text": "')
        for _ in range(500):
            file.write(b"a" * MIB)
        file.write(b'"}\n')
    return folder / "one_line.jsonl.gz"


def many_rows(folder):
    with gzip.open(folder / "rows.jsonl.gz", "wb", compresslevel=1) as file:
        for _ in range(500):
            file.write(b'{"text": "a"}\n' * (MIB // 14))
    return folder / "rows.jsonl.gz"


def open_quote(folder):
    with gzip.open(folder / "quote.csv.gz", "wb", compresslevel=1) as file:
        file.write(b'text\n"')
        for _ in range(500):
            file.write(b"a\n" * (MIB // 2))
    return folder / "quote.csv.gz"


def repeated(pa, count):
    """A column of so many MiB in one: the text once, and where it stands."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["a" * MIB]))


def one_text_often(folder):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"text": repeated(pa, 500)}), folder / "often.parquet", store_schema=False)
    return folder / "often.parquet"


def one_text_often_in_lists(folder):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = pa.ListArray.from_arrays([0, 500], repeated(pa, 500))
    table = pa.table({"text": ["a"], "more": column})
    parquet.write_table(table, folder / "lists.parquet", store_schema=False)
    return folder / "lists.parquet"


def long_pages(folder):
    """Not stored as repeated texts, but packed as well."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"text": ["a" * MIB] * 4})
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    with parquet.ParquetWriter(folder / "pages.parquet", table.schema, **options) as writer:
        for _ in range(20):
            writer.write_table(table)
    return folder / "pages.parquet"


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("bomb", [one_line, many_rows, open_quote, one_text_often, one_text_often_in_lists, long_pages])
def test_a_bomb_is_refused_in_bounded_memory(tmp_path, bomb):
    file = bomb(tmp_path)
    assert file.stat().st_size < 5 * MIB
    read = subprocess.run([sys.executable, "-c", READ, str(file)], capture_output=True, text=True)
    peak, _, told = read.stdout.partition(" ")
    assert told.startswith(file.name), read
    assert int(peak) < MOST_MIB


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_a_row_is_read_up_to_a_limit_that_longer_texts_raise(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(limits, "LINE_BYTES", 1000)
    file = tmp_path / f"rows{ending}"
    row = {".jsonl": '{"text": "%s"}\n', ".csv": 'text\n"%s"\n'}[ending]
    file.write_text(row % ("a" * 900))
    assert len(read_public(file, max_characters=10**3)) == 1
    file.write_text(row % ("a" * 5000))
    with pytest.raises(RecordError, match="the row is longer"):
        read_public(file, max_characters=10)
    assert len(read_public(file, max_characters=10**4)) == 1


def test_rows_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ROWS", 3)
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "a"}\n' * 4)
    with pytest.raises(RecordError, match="line 4: there are more than 3 rows"):
        read_private(file)
    file = tmp_path / "rows.parquet"
    pd.DataFrame({"text": ["a"] * 4}).to_parquet(file)
    with pytest.raises(RecordError, match=r"rows\.parquet: there are more than 3 rows"):
        read_private(file)


def test_a_file_that_packs_well_is_read(tmp_path):
    file = tmp_path / "rows.jsonl.gz"
    with gzip.open(file, "wt") as stream:
        stream.write('{"text": "the same text again and again"}\n' * 20_000)
    assert len(read_public(file)) == 20_000


@pytest.mark.parametrize("opened", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_deep_cells_are_refused_by_line_and_field(tmp_path, opened, depth):
    inner = opened * depth + "1" + {"[": "]", '{"a":': "}"}[opened] * depth
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"text": "a"}}\n{{"text": "b", "more": {inner}}}\n')
    with pytest.raises(RecordError, match="line 2") as refused:
        read_private(file)
    assert "nested" in str(refused.value) or "not valid JSON" in str(refused.value)


def test_cells_as_deep_as_the_limit_have_a_fingerprint(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "a", "more": %s}\n' % ("[" * limits.DEPTH + "1" + "]" * limits.DEPTH))
    assert len(read_private(file).fingerprint) == 64


@pytest.mark.parametrize(
    "text",
    [
        "labels = " + "[" * 100_000,
        "labels = " + "[" * 900 + "]" * 900,
        "a" + ".a" * 100_000 + " = 1",
        ("a" + ".a" * 150 + " = 1\n").replace("a", "b", 1) * 2,
        "labels = [" + "9" * 5000 + "]",
        "x" * (limits.TOML_BYTES + 1),
        "\ud800",
    ],
    ids=["open", "deep", "dotted", "twice", "huge", "long", "half a character"],
)
def test_a_task_file_of_any_shape_is_refused_in_words(tmp_path, text):
    file = tmp_path / "t.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SottoError, match=r"task file|Task file"):
        load_task(str(file))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"properties": {"a": ' + '{"not": ' * 900 + "{}" + "}" * 900 + "}}",
        '{"properties": {"a": ' + '{"not": ' * 101 + "{}" + "}" * 101 + "}}",
        '{"properties": {"a": {"const": ' + "9" * 5000 + "}}}",
        " " * (limits.PUBLIC_BYTES + 1),
    ],
    ids=["open", "very deep", "deep", "huge", "long"],
)
def test_a_schema_of_any_shape_is_refused_in_words(tmp_path, text):
    file = tmp_path / "s.json"
    file.write_text(text)
    with pytest.raises(SottoError, match=r"schema 's\.json'"):
        GenerationTemplate.of_schema(file)


def test_a_schema_within_the_limit_is_used(tmp_path):
    pytest.importorskip("jsonschema")
    file = tmp_path / "s.json"
    schema = {"type": "string"}
    for _ in range(45):
        schema = {"allOf": [schema]}
    file.write_text(json.dumps({"properties": {"a": schema}}))
    assert GenerationTemplate.of_schema(file).read('{"a": "x"}') == {"a": "x"}


def test_a_task_without_labels_is_still_named(tmp_path):
    file = tmp_path / "t.toml"
    file.write_text('name = "x"')
    with pytest.raises(TaskError, match="names no labels"):
        load_task(str(file))
