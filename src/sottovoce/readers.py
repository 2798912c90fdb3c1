"""Readers: JSON Lines (also gzip), CSV, Parquet, pandas data frames and folders of pictures become rows.

A reader checks what can be checked without a task: that a row parses, that it is an object, that no text is over the
limit. Errors name file, line and field and never quote the row.
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from sottovoce.errors import MissingExtraError, ParameterError, RecordError
from sottovoce.records import PrivateRecords, PublicRecords, Row, fingerprint_of

if TYPE_CHECKING:
    import pandas as pd

MAX_CHARACTERS = 8_000
"""Longest text of one field unless the caller says otherwise; a public parameter."""

PICTURES = (".png", ".jpg", ".jpeg")


def read_private(
    source: str | os.PathLike[str] | pd.DataFrame,
    *,
    unit: str | None = None,
    max_characters: int = MAX_CHARACTERS,
    truncate: bool = False,
    synthetic: bool = False,
) -> PrivateRecords:
    """Reads private records and seals them.

    Args:
        source: A ``.jsonl``, ``.jsonl.gz``, ``.csv``, ``.csv.gz`` or ``.parquet`` file, a pandas data frame, or a
            folder of PNG and JPEG pictures, in one folder for each label (``dax/1.png``) or, for questions, without.
        unit: The privacy unit: a column name or ``"record"``; by default the column ``group`` where there is one.
        max_characters: Longest text of one field.
        truncate: Cut longer texts instead of refusing the file.
        synthetic: Declares that the rows are made up or published, so that tests may use seeded noise on them.

    Raises:
        RecordError: The file cannot be used; it names file, line and field.
    """
    rows = list(_rows(source))
    return PrivateRecords(
        _checked(rows, _name(source), max_characters, truncate),
        source=_name(source),
        unit=unit,
        synthetic=synthetic,
        fingerprint=fingerprint_of(rows),
    )


def read_public(
    source: str | os.PathLike[str] | pd.DataFrame,
    *,
    max_characters: int = MAX_CHARACTERS,
    truncate: bool = False,
) -> PublicRecords:
    """Reads public rows, such as queries. Arguments and errors as for ``read_private``."""
    rows = _checked(list(_rows(source)), _name(source), max_characters, truncate)
    if not rows:
        raise RecordError("there is no row", file=_name(source), hint="Give at least one row.")
    return PublicRecords(rows, _name(source))


def _name(source: Any) -> str:
    return Path(source).name if isinstance(source, str | os.PathLike) else type(source).__name__


def _rows(source: Any) -> Iterable[Row]:
    if not isinstance(source, str | os.PathLike):
        return _from_frame(source)
    path = Path(source)
    if os.path.isdir(path):
        return _from_pictures(path)
    if not os.path.exists(path):
        raise RecordError("there is no such file", file=str(source), hint="Check the path.")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    readers = {
        ".jsonl": _from_json_lines,
        ".ndjson": _from_json_lines,
        ".json": _from_json_lines,
        ".csv": _from_csv,
        ".parquet": _from_parquet,
        ".pq": _from_parquet,
    }
    if kind not in readers:
        raise RecordError(
            f"the file type {kind or '(none)'!r} is not known",
            file=path.name,
            hint="Use .jsonl, .jsonl.gz, .csv, .csv.gz or .parquet.",
        )
    return readers[kind](path)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Decoded lines with their numbers; damage is reported by line."""
    line = 0
    try:
        with cast(IO[bytes], gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")) as stream:
            for line, raw in enumerate(stream, 1):
                yield line, raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError:
        raise RecordError("the text is not UTF-8", file=path.name, line=line + 1 if line == 0 else line) from None
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the compressed file is damaged"
        raise RecordError(f"it cannot be read ({reason})", file=path.name, line=line + 1) from None


def _from_json_lines(path: Path) -> Iterator[Row]:
    for line, text in _lines(path):
        if not text.strip():
            continue
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise RecordError(
                f"this is not valid JSON{column}",
                file=path.name,
                line=line,
                hint='Each line holds one object, such as {"text": "...", "label": "..."}.',
            ) from None
        if not isinstance(values, dict):
            raise RecordError(
                "a JSON object is needed here",
                file=path.name,
                line=line,
                hint='Each line holds one object, such as {"text": "...", "label": "..."}.',
            )
        yield Row(line, values)


def _from_csv(path: Path) -> Iterator[Row]:
    reader = csv.reader((text for _, text in _lines(path)), strict=True)
    header: list[str] | None = None
    before = 0
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            if not cells:
                continue
            if header is None:
                header = _columns(cells, path.name, line)
                continue
            if len(cells) != len(header):
                raise RecordError(
                    f"the header names {len(header)} columns and this row has {len(cells)}", file=path.name, line=line
                )
            yield Row(line, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        if "field limit" in str(error):
            problem, hint = f"a cell is longer than {csv.field_size_limit():,} characters", "Shorten it, or use .jsonl."
        else:
            problem, hint = "this is not valid CSV", "Quote cells that hold quotes or commas."
        raise RecordError(problem, file=path.name, line=before + 1, hint=hint) from None


def _columns(names: list[str], file: str, line: int | None = None) -> list[str]:
    if len(set(names)) != len(names) or "" in names:
        raise RecordError("column names must be unique and not empty", file=file, line=line)
    return names


def _from_pictures(folder: Path) -> Iterator[Row]:
    """A row for each picture: ``id`` its path in the folder, ``image`` the file in base64, ``label`` its own folder.

    A picture is named by its number in the order of paths: file names may be private.
    """
    found = [*folder.glob("*"), *folder.glob("*/*")]
    paths = sorted(path for path in found if path.suffix.lower() in PICTURES and path.is_file())
    if not paths:
        raise RecordError(
            "this is a folder without pictures",
            file=folder.name,
            hint="Name a file of rows, or a folder of .png and .jpg files, in one folder for each label.",
        )
    for number, path in enumerate(paths, 1):
        place = path.relative_to(folder)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RecordError(f"the picture cannot be read ({error.strerror})", file=folder.name, line=number) from None
        label = {"label": place.parts[-2]} if len(place.parts) > 1 else {}
        yield Row(number, {"id": place.as_posix(), "image": base64.b64encode(content).decode(), **label})


def _from_parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "data") from None
    import pyarrow

    line = 0
    try:
        content = parquet.ParquetFile(path)
        _columns(content.schema_arrow.names, path.name)
        for batch in content.iter_batches():
            for values in batch.to_pylist():
                line += 1
                yield Row(line, values)
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException):
        raise RecordError("this is not a Parquet file, or it is damaged", file=path.name) from None


def _from_frame(frame: Any) -> Iterator[Row]:
    if not (hasattr(frame, "to_dict") and hasattr(frame, "columns")):
        raise ParameterError("source", type(frame).__name__, "a file name or a pandas data frame")
    columns = _columns([str(name) for name in frame.columns], _name(frame))
    for line, values in enumerate(frame.itertuples(index=False, name=None), 1):
        yield Row(line, dict(zip(columns, values, strict=True)))


def _checked(rows: Sequence[Row], file: str, limit: int, truncate: bool) -> list[Row]:
    if limit < 1:
        raise ParameterError("max_characters", limit, "1 or more")
    return [_within(row, file, limit, truncate) for row in rows]


def _within(row: Row, file: str, limit: int, truncate: bool) -> Row:
    texts = {name: value for name, value in row.values.items() if isinstance(value, str)}
    for name, text in texts.items():
        if not _encodable(text):
            raise RecordError(
                "the text holds half a character (a lone surrogate)",
                file=file,
                line=row.line,
                field=_shown(name, row),
                hint="Save the file as UTF-8 again.",
            )
        if len(text) > limit and not truncate:
            raise RecordError(
                f"the text is longer than {limit:,} characters",
                file=file,
                line=row.line,
                field=_shown(name, row),
                hint="Shorten it, raise --max-characters, or pass --truncate to cut every text there.",
            )
    cut = {name: text[:limit] for name, text in texts.items() if len(text) > limit}
    return Row(row.line, {**row.values, **cut}) if cut else row


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_SHOWN = ("text", "label", "group", "id", "question", "answer", "dialogue", "summary")


def _shown(name: str, row: Row) -> str:
    """A usual column's name, else its place: where a file has no header, "names" are the first row's texts."""
    return name if name in _SHOWN else f"column {list(row.values).index(name) + 1}"
