"""Readers: JSON Lines (also gzip), CSV, Parquet, pandas data frames and folders of pictures become rows.

A reader checks what can be checked without a task: that a row parses, that it is an object, that no text is over the
limit. Errors name file, line and field and never quote the row.
"""

from __future__ import annotations

import base64
import csv
import gzip
import io
import itertools
import json
import os
import stat
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, datetime
from pathlib import Path
from types import NoneType
from typing import IO, TYPE_CHECKING, Any, cast

from sottovoce.errors import MissingExtraError, ParameterError, RecordError
from sottovoce.files.tables import csv_rows, is_without_rows
from sottovoce.parameters import FILE_NAME, FLAG, Kind, Number
from sottovoce.records import limits
from sottovoce.records.cells import ENCODED_PICTURES, PICTURES
from sottovoce.records.columns import likely_delimiter, renamed
from sottovoce.records.rereading import Rereading, is_rereadable
from sottovoce.records.sealed import PrivateRecords, PublicRecords, Reading, Row

if TYPE_CHECKING:
    import pandas as pd

MAX_CHARACTERS = 8_000
"""Longest text of one field unless the caller says otherwise; a public parameter."""
MAX_PICTURE_CHARACTERS = 8_000_000
"""The same for a folder of pictures: files of up to 6 MB, in base64."""
MAX_WRITTEN_CHARACTERS = 10_000_000
"""The same for rows that a run wrote, which no limit of a reader cut."""

_CHARACTERS = Number(1, limits.CHARACTERS, whole=True, strict=True)
_PIECE = 1 << 20
_BATCH_ROWS = 4096
_TEXTS = ("STRING", "NONE", "JSON", "ENUM")
OTHER_PICTURES = (".avif", ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jpe", ".tif", ".tiff", ".webp")


def read_private(
    source: str | os.PathLike[str] | pd.DataFrame,
    *,
    unit: str | None = None,
    max_characters: int | None = None,
    truncate: bool = False,
    synthetic: bool = False,
    stream: bool = False,
    columns: Mapping[str, str] | None = None,
    labels: Collection[str] | None = None,
) -> PrivateRecords:
    """Reads private records and seals them.

    Args:
        source: A ``.jsonl``, ``.jsonl.gz``, ``.csv``, ``.csv.gz`` or ``.parquet`` file, a pandas data frame, or a
            folder of PNG and JPEG pictures, with one subfolder for each label (``dax/1.png``); questions need no
            subfolders.
        unit: The privacy unit: a column name or ``"record"``; by default the column ``group`` where there is one.
        max_characters: Longest text of one field, at most 1,000,000,000; by default 8,000, and 8,000,000 for a folder
            of pictures.
        truncate: Cut longer texts instead of refusing the file. A picture that is cut is no longer a picture: a
            task with images then refuses its row.
        synthetic: Declares that the rows are made up or published, so that tests may use seeded noise on them.
        stream: Read a file again for each use instead of holding its rows, for files that are too large for memory. The
            rows of a unit must be next to each other; otherwise they are held in memory (``PrivateRecords.held``), as
            are a folder of pictures, a data frame and a pipe. The file must not change meanwhile.
        columns: Which column holds a field, where it has another name: ``{"text": "body"}``. The data set is identified
            by its rows as they are in the file, whatever fields the columns are used for.
        labels: The public label set. Where it is known, an error about a missing column lists the columns that are
            there, unless one of them is a label: then the first line is a record and not a header.

    Raises:
        RecordError: The file cannot be used; the error names file, line and field.
    """
    name, limit = _name(source), _limit(source, max_characters)
    Kind((str, NoneType), "the name of a column, or 'record'").read("unit", unit)
    FLAG.read("truncate", truncate)
    FLAG.read("stream", stream)
    _require_names(columns)
    reading = Reading(dict(columns or {}), limit if truncate else None)
    if stream and isinstance(source, str | os.PathLike) and is_rereadable(source):
        file = Rereading(Path(source), lambda: _both(source, limit, truncate, columns, labels))
        return PrivateRecords.streamed(
            file, source=name, unit=unit, synthetic=synthetic, check=file.require_unchanged, reading=reading
        )
    rows = list(_rows(source, limit, truncate))
    return PrivateRecords(
        _checked(rows, name, limit, truncate, columns, required=True, labels=labels),
        source=name,
        unit=unit,
        synthetic=synthetic,
        whole=rows,
        reading=reading,
    )


def read_public(
    source: str | os.PathLike[str] | pd.DataFrame,
    *,
    max_characters: int | None = None,
    truncate: bool = False,
    columns: Mapping[str, str] | None = None,
) -> PublicRecords:
    """Reads public rows, such as queries. Arguments and errors as for ``read_private``.

    A row without one of ``columns`` keeps the fields that it has.
    """
    name, limit = _name(source), _limit(source, max_characters)
    FLAG.read("truncate", truncate)
    _require_names(columns)
    whole = list(_rows(source, limit, truncate))
    rows = _checked(whole, name, limit, truncate, columns, required=False)
    if not rows:
        raise RecordError("there is no row", file=name, hint="Give at least one row.")
    return PublicRecords(rows, name, whole)


def read_written(file: Path) -> list[dict[str, Any]]:
    """The rows of a file that a run wrote, of which there may be none.

    Raises:
        RecordError: The file cannot be read.
    """
    if file.is_file() and is_without_rows(file):
        return []
    return [dict(row.values) for row in read_public(file, max_characters=MAX_WRITTEN_CHARACTERS)]


def column_names(source: str | os.PathLike[str]) -> list[str]:
    """The columns of a file, as its first row has them. Whether they may be shown: see ``records.columns``.

    Raises:
        RecordError: The file cannot be read, or has no row.
    """
    for row in _rows(source, MAX_PICTURE_CHARACTERS, truncate=True):
        return list(row.values)
    raise RecordError("there is no row", file=_name(source), hint="Give at least one row.")


def _both(
    source: Any, limit: int, truncate: bool, columns: Mapping[str, str] | None, labels: Collection[str] | None
) -> Iterator[tuple[Row, Row]]:
    """Rows as they are used, each beside itself as it was read."""
    name = _name(source)
    for row in _rows(source, limit, truncate):
        read = _within(row, name, limit, truncate, columns)
        yield renamed(read, columns or {}, name, required=True, labels=labels), row


def _name(source: Any) -> str:
    if not isinstance(source, str | os.PathLike):
        return type(source).__name__
    path = FILE_NAME.read("source", source)
    return path.name or path.resolve().name or str(source)


def _limit(source: Any, max_characters: int | None) -> int:
    if max_characters is not None:
        return int(_CHARACTERS.read("max_characters", max_characters))
    folder = isinstance(source, str | os.PathLike) and os.path.isdir(source)
    return MAX_PICTURE_CHARACTERS if folder else MAX_CHARACTERS


def _rows(source: Any, limit: int, truncate: bool) -> Iterator[Row]:
    """The rows of a source, each as it is read: what would not be accepted is not built in memory.

    Args:
        source: What is read.
        limit: Longest text of one field, in characters; for pictures of base64.
        truncate: Whether longer texts are cut, so that they are not refused yet.

    Raises:
        RecordError: There are more rows than ``limits.ROWS``, or a value is nested too deep or holds too much.
    """
    name = _name(source)
    for number, row in enumerate(_raw_rows(source, limit, truncate), 1):
        if number > limits.ROWS:
            raise _too_many(name, row.line)
        for field, value in row.values.items():
            if isinstance(value, dict | list) and (problem := limits.nested_problem(value, limits.line_bytes(limit))):
                raise RecordError(problem, file=name, line=row.line, field=_shown(field, row))
        yield row


def _too_many(name: str, line: int | None) -> RecordError:
    return RecordError(f"there are more than {limits.ROWS:,} rows", file=name, line=line)


def _raw_rows(source: Any, limit: int, truncate: bool) -> Iterable[Row]:
    if not isinstance(source, str | os.PathLike):
        return _from_frame(source)
    path = Path(source)
    if os.path.isdir(path):
        return _from_pictures(path, None if truncate else limit)
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
    return readers[kind](path, limits.line_bytes(limit))


def _lines(path: Path, longest: int) -> Iterator[tuple[int, str]]:
    """Decoded lines of so many bytes at most with their numbers; damage is reported by line."""
    line = 0
    try:
        _refuse_bomb(path)
        with _opened(path) as stream:
            for line, raw in enumerate(iter(lambda: stream.readline(longest + 1), b""), 1):
                if len(raw) > longest:
                    raise _too_long(path, line, longest)
                yield line, raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError:
        raise RecordError(
            "the text is not UTF-8", file=path.name, line=line or 1, hint="Save the file as UTF-8."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the compressed file is damaged"
        raise RecordError(f"it cannot be read ({reason})", file=path.name, line=line + 1) from None


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb"))


def _refuse_bomb(path: Path) -> None:
    """Counts out what a compressed file unpacks to, keeping nothing of it, before any of it is parsed."""
    if path.suffix.lower() != ".gz":
        return
    left = limits.unpacked_bytes(path)
    with suppress(OSError, EOFError, zlib.error), _opened(path) as stream:  # damage is reported where it is read
        while piece := stream.read(_PIECE):
            left -= len(piece)
            if left < 0:
                raise _bomb(path)


def _bomb(path: Path) -> RecordError:
    return RecordError(
        f"it unpacks to more than {limits.unpacked_bytes(path) >> 20} MiB, far more than its size",
        file=path.name,
        hint="If that is meant, unpack it and name the unpacked file, or save it as .jsonl.",
    )


def _too_long(path: Path, line: int, longest: int) -> RecordError:
    return RecordError(
        f"the row is longer than {longest >> 20} MiB",
        file=path.name,
        line=line,
        hint="One line is one row; a quote that is not closed joins lines. Shorten it, or raise --max-characters.",
    )


def _from_json_lines(path: Path, longest: int) -> Iterator[Row]:
    for line, text in _lines(path, longest):
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


def _from_csv(path: Path, longest: int) -> Iterator[Row]:
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for line, text in _lines(path, longest):
            read += len(text)
            if read > longest:
                raise _too_long(path, line, longest)
            yield text

    reader = csv_rows(texts(), longest)
    header: list[str] | None = None
    before = 0
    try:
        for cells in reader:
            line, before, read = before + 1, reader.line_num, 0
            if not cells:
                continue
            if header is None:
                header = _columns(cells, path.name, line)
                continue
            if len(cells) != len(header):
                raise RecordError(
                    f"the header names {len(header)} column{'s' * (len(header) > 1)} and this row has {len(cells)}",
                    file=path.name,
                    line=line,
                    hint=likely_delimiter(header) or "Quote cells that hold commas, quotes or line breaks.",
                )
            yield Row(line, dict(zip(header, cells, strict=True)))
    except csv.Error:
        hint = "Quote cells that hold quotes or commas."
        raise RecordError("this is not valid CSV", file=path.name, line=before + 1, hint=hint) from None


def _columns(names: list[str], file: str, line: int | None = None) -> list[str]:
    if len(set(names)) != len(names) or "" in names:
        raise RecordError(
            "column names must be unique and not empty",
            file=file,
            line=line,
            hint="Name every column once, in the first line of a CSV file.",
        )
    return names


def _from_pictures(folder: Path, limit: int | None) -> Iterator[Row]:
    """A row for each picture: ``id`` its path in the folder, ``image`` the file in base64, ``label`` its own folder.

    A picture is named by its number in the order of paths: file names may be private. What is hidden (its name begins
    with a full stop) is left alone, as are files that are no pictures.
    """
    paths = sorted(_picture_paths(folder))
    if not paths:
        raise RecordError(
            "this is a folder without pictures",
            file=_name(folder),
            hint="Name a file of rows, or a folder of .png and .jpg files, in one folder for each label.",
        )
    for number, path in enumerate(paths, 1):
        place = path.relative_to(folder)
        content = _picture(path, _name(folder), number, limit)
        label = {"label": _spelled(place.parts[-2])} if len(place.parts) > 1 else {}
        yield Row(number, {"id": _spelled(place.as_posix()), "image": base64.b64encode(content).decode(), **label})


def _picture_paths(folder: Path) -> Iterator[Path]:
    for entry, is_folder in _entries(folder, _name(folder)):
        inner = _entries(entry, _name(folder)) if is_folder else [(entry, False)]
        for path, too_deep in inner:
            if too_deep:
                raise RecordError(
                    "there is a folder inside a label's folder",
                    file=_name(folder),
                    hint="Pictures are read from the folder itself and from one folder for each label: move them up.",
                )
            kind = path.suffix.lower()
            if kind in OTHER_PICTURES:
                raise RecordError(
                    f"it holds pictures of the kind {kind}, which are not read",
                    file=_name(folder),
                    hint="Save them as .png or .jpg, or move them out of the folder.",
                )
            if kind in PICTURES:
                yield path


def _entries(folder: Path, name: str) -> list[tuple[Path, bool]]:
    """What is not hidden in a folder, and whether it is a folder itself."""
    try:
        with os.scandir(folder) as entries:
            return [
                (Path(entry.path), os.path.isdir(entry.path)) for entry in entries if not entry.name.startswith(".")
            ]
    except OSError as error:
        raise RecordError(
            f"a folder cannot be read ({error.strerror})", file=name, hint="Make it readable, or move it away."
        ) from None


def _picture(path: Path, name: str, number: int, limit: int | None) -> bytes:
    hint = "Pictures are counted in the order of their paths. Make it a readable file, or move it away."
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RecordError("the picture is not a file", file=name, line=number, hint=hint)
        if limit is not None and (status.st_size + 2) // 3 * 4 > limit:
            raise RecordError(
                f"the picture is larger than {limit // 4 * 3:,} bytes",
                file=name,
                line=number,
                hint=f"Save it smaller, or raise --max-characters above {limit:,}: 3 bytes take 4 characters.",
            )
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"the picture cannot be read ({error.strerror})", file=name, line=number, hint=hint) from None


def _spelled(name: str) -> str:
    """A file name as a text, also where it is not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _from_parquet(path: Path, longest: int) -> Iterator[Row]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "data") from None
    import pyarrow

    line = 0
    try:
        with parquet.ParquetFile(path) as content:
            names = _columns(content.schema_arrow.names, path.name)
            meta = content.metadata
            packed = sum(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
            leaves = [content.schema.column(number) for number in range(len(content.schema))]
        if packed > limits.unpacked_bytes(path):
            raise _bomb(path)
        if meta.num_rows > limits.ROWS:
            raise _too_many(path.name, None)
        # Repeated texts are kept once: a page of a few bytes may stand for a million copies of one long text.
        texts = [
            leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in _TEXTS
        ]
        with parquet.ParquetFile(path, read_dictionary=texts) as content:
            for batch in content.iter_batches(batch_size=_BATCH_ROWS):
                if batch.nbytes > limits.unpacked_bytes(path):
                    raise _bomb(path)
                for cells in zip(*(_cells(column) for column in batch.columns), strict=True):
                    line += 1
                    yield Row(line, dict(zip(names, cells, strict=True)))
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException):
        raise RecordError("this is not a Parquet file, or it is damaged", file=path.name) from None


def _cells(column: Any) -> list[Any]:
    """An Arrow column as Python values; equal texts of a dictionary are one object."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        known = _cells(column.dictionary)
        return [None if place is None else known[place] for place in column.indices.to_pylist()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner, ends = _cells(column.values), column.offsets.to_pylist()
        spans = zip(column.is_valid().to_pylist(), ends, ends[1:], strict=False)
        return [inner[start:end] if valid else None for valid, start, end in spans]
    if pa.types.is_struct(kind):
        fields = [kind.field(number).name for number in range(kind.num_fields)]
        rows = zip(*(_cells(child) for child in column.flatten()), strict=True) if fields else ([()] * len(column))
        valid = column.is_valid().to_pylist()
        return [
            dict(zip(fields, row, strict=True)) if is_row else None for is_row, row in zip(valid, rows, strict=True)
        ]
    try:
        return list(column.to_pylist())
    except (ArithmeticError, ValueError):
        return [_value(cell) for cell in column]


def _value(cell: Any) -> Any:
    """A value of Arrow as Python has it; a date, time or duration beyond Python's own, such as infinity, as a text."""
    import pyarrow as pa

    try:
        return cell.as_py()
    except (ArithmeticError, ValueError):
        pass
    try:
        return str(cell.cast(pa.string()))
    except (ArithmeticError, ValueError, pa.ArrowException):
        if isinstance(cell, pa.MapScalar):
            return [(_value(part["key"]), _value(part["value"])) for part in cell.values]
        if isinstance(cell, pa.ListScalar):
            return [_value(part) for part in cell.values]
        if isinstance(cell, pa.StructScalar):
            return {name: _value(part) for name, part in cell.items()}
        return f"{getattr(cell, 'value', 'a value')} of {cell.type}"


def _from_frame(frame: Any) -> Iterator[Row]:
    if not all(hasattr(frame, name) for name in ("to_dict", "columns", "itertuples")):
        raise ParameterError("source", type(frame).__name__, "a file name or a pandas data frame")
    columns = _columns([str(name) for name in frame.columns], _name(frame))
    for line, values in enumerate(_readable(frame).itertuples(index=False, name=None), 1):
        yield Row(line, dict(zip(columns, map(_within_years, values), strict=True)))


def _readable(frame: Any) -> Any:
    """A frame that can be gone through: a column of times that its zone leads beyond Python's years is in UTC, and one
    of Arrow's with dates, times or durations beyond those of Python as a Parquet file of it is read.
    """
    moved = {}
    for place, kind in enumerate(frame.dtypes):
        column, arrow = frame.iloc[:, place], getattr(kind, "pyarrow_dtype", None)
        in_zone = (getattr(kind, "tz", None) or getattr(arrow, "tz", None)) is not None
        if not (in_zone or (arrow is not None and _has_times(arrow))) or _can_be_listed(column):
            continue
        fits = arrow is None or getattr(arrow, "unit", "") != "ns"  # Arrow turns nanoseconds around where a zone leads
        if in_zone and fits and _can_be_listed(in_utc := column.dt.tz_convert("UTC")):
            moved[place] = in_utc
        elif arrow is not None:
            cells = [cell for part in _stored(column.array.__arrow_array__()) for cell in _cells(part)]
            moved[place] = type(column)(cells, index=frame.index, dtype=object)
    if not moved:
        return frame
    frame = frame.copy(deep=False)
    for place, column in moved.items():
        frame.isetitem(place, column)
    return frame


def _stored(column: Any) -> Iterator[Any]:
    """An Arrow column as Parquet has it, whose times have other units."""
    import pyarrow as pa
    from pyarrow import parquet

    file = io.BytesIO()
    try:
        parquet.write_table(pa.table({"column": column}), file)
    except pa.ArrowException:  # in no unit that Parquet has
        yield from column.chunks
        return
    with parquet.ParquetFile(file) as content:
        for batch in content.iter_batches(batch_size=_BATCH_ROWS):
            yield batch.column(0)


def _can_be_listed(column: Any) -> bool:
    try:
        deque(column, maxlen=0)
    except (ArithmeticError, ValueError, NotImplementedError):  # the last is what pandas says of a named zone
        return False
    return True


def _has_times(kind: Any) -> bool:
    """Whether an Arrow type holds dates, times or durations."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _has_times(kind.value_type)
    return pa.types.is_temporal(kind) or any(_has_times(kind.field(part).type) for part in range(kind.num_fields))


def _within_years(value: Any) -> Any:
    """A value of a frame; a time of which pandas writes no text, since its zone leads beyond Python's years, in UTC."""
    if isinstance(value, datetime) and (value.year < MINYEAR or value.year > MAXYEAR):  # a missing time has no year
        try:
            value.isoformat()
        except NotImplementedError:
            return value.tz_convert("UTC")  # type: ignore[attr-defined]
    return value


def _require_names(columns: Mapping[str, str] | None) -> None:
    names = Kind((Mapping, NoneType), 'a mapping of fields to columns, such as {"text": "body"}').read(
        "columns", columns
    )
    for name in itertools.chain.from_iterable((names or {}).items()):
        Kind(str, 'a mapping of names to names, such as {"text": "body"}').read("columns", name)


def _checked(
    rows: Sequence[Row],
    file: str,
    limit: int,
    truncate: bool,
    columns: Mapping[str, str] | None,
    *,
    required: bool,
    labels: Collection[str] | None = None,
) -> list[Row]:
    within = (_within(row, file, limit, truncate, columns) for row in rows)
    return [renamed(row, columns or {}, file, required=required, labels=labels) for row in within]


def _within(row: Row, file: str, limit: int, truncate: bool, columns: Mapping[str, str] | None) -> Row:
    named = frozenset((columns or {}).values())
    texts = {name: value for name, value in row.values.items() if isinstance(value, str)}
    for name, text in texts.items():
        if not _encodable(text):
            raise RecordError(
                "the text holds half a character (a lone surrogate)",
                file=file,
                line=row.line,
                field=_shown(name, row, named),
                hint="Save the file as UTF-8 again.",
            )
        if len(text) > limit and not truncate:
            raise RecordError(
                f"the text is longer than {limit:,} characters",
                file=file,
                line=row.line,
                field=_shown(name, row, named),
                hint="Shorten it, raise --max-characters, or pass --truncate to cut every text there."
                if not text.startswith(ENCODED_PICTURES)
                else "Save the picture smaller, or raise --max-characters; a picture cannot be cut.",
            )
    cut = {name: _cut(text, limit) for name, text in texts.items() if len(text) > limit}
    return Row(row.line, {**row.values, **cut}) if cut else row


def _cut(text: str, limit: int) -> str:
    """The beginning of a text. That of a picture is no base64, lest half a picture pass for a whole one."""
    return text[: limit - 1 if text.startswith(ENCODED_PICTURES) and limit % 4 == 0 else limit]


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_SHOWN = ("text", "image", "label", "group", "id", "question", "answer", "dialogue", "summary")


def _shown(name: str, row: Row, named: Collection[str] = ()) -> str:
    """A usual column's name or one that the caller named, else its place: without a header, "names" are texts."""
    return name if name in _SHOWN or name in named else f"column {list(row.values).index(name) + 1}"
