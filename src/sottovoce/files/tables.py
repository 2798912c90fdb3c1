"""Rows as a file: JSON Lines, CSV or Parquet, by the ending of its name.

Guarantee   Whatever rows were released can be written: half a character becomes its escape. What is read back is what
            was written.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sottovoce.errors import InputError, MissingExtraError
from sottovoce.terminal import json_text, printable

LINES: Final = (".jsonl", ".ndjson", ".json")
"""Endings of files in JSON Lines."""
TABLES: Final = (".csv", ".parquet")
"""Endings of files that are converted when they are whole."""
ENDINGS: Final = (*LINES, *TABLES)
NUMBERS: Final = ("epsilon", "delta")
"""Columns of answer rows that hold numbers, or nothing."""


def require_ending(out: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Refuses a name whose ending says no format, or one that cannot be written here.

    Raises:
        InputError: It ends otherwise.
        MissingExtraError: It ends in ``.parquet``, and the package for that is not installed.
    """
    ending = out.suffix.lower()
    if ending not in endings:
        shown = [one for one in endings if one not in LINES[1:]]
        raise InputError(
            f"{out.name!r} must end in {' or '.join(shown)}: the ending says the format. Nothing was charged."
        )
    if ending == ".parquet":
        try:
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError("pyarrow", "data") from None
        del pyarrow


def is_table(out: Path) -> bool:
    """Whether a file is converted at the end; else its rows are appended as they come."""
    return out.suffix.lower() in TABLES


def encoded(rows: Sequence[Mapping[str, Any]], out: Path, *, shown: bool = False) -> bytes:
    """Rows in the format of a file's ending.

    Args:
        rows: What one lacks is empty in a table.
        out: The file.
        shown: Escape what a terminal could obey, in CSV and JSON Lines.
    """
    ending = out.suffix.lower()
    if ending == ".parquet":
        return _parquet(rows)
    if ending == ".csv":
        return _csv(rows, shown=shown)
    lines = (json_text(row) if shown else json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    return "".join(line + "\n" for line in lines).encode("utf-8")


def decoded(content: bytes, out: Path) -> list[dict[str, Any]] | None:
    """Answer rows of a table that ``encoded`` wrote; ``None`` where it did not.

    Args:
        content: The file's.
        out: Its name.
    """
    try:
        if out.suffix.lower() == ".parquet":
            from pyarrow import parquet

            return list(parquet.read_table(io.BytesIO(content)).to_pylist())
        header, *lines = csv_rows(io.StringIO(content.decode("utf-8"), newline=""), len(content))
        rows = [dict(zip(header, cells, strict=True)) for cells in lines]
        return [{name: _number(cell) if name in NUMBERS else cell for name, cell in row.items()} for row in rows]
    except (ValueError, ArithmeticError, OSError, csv.Error):
        return None


def csv_rows(lines: Iterable[str], longest: int) -> Any:
    """A ``csv.reader`` of cells as long as this, where the process allows 131,072 characters unless it says more.

    The limit is the process's: it is raised, and never lowered again.
    """
    csv.field_size_limit(max(csv.field_size_limit(), min(longest, 2**31 - 1)))
    return csv.reader(lines, strict=True)


def is_without_rows(file: Path) -> bool:
    """Whether a file of rows holds none."""
    if not file.stat().st_size:
        return True
    if file.suffix.lower() != ".parquet":
        return False
    from pyarrow import ArrowException, parquet

    try:
        return bool(parquet.read_metadata(file).num_rows == 0)
    except (OSError, ArrowException):
        return False


def cell_of(value: Any, *, shown: bool) -> str:
    """A value as the text of a CSV cell."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return json_text(value)
    return printable(value, keep="\n\t") if shown else _whole(value)


def _csv(rows: Sequence[Mapping[str, Any]], *, shown: bool) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    if names := _names(rows):
        writer.writerow(names)
    writer.writerows([cell_of(row.get(name), shown=shown) for name in names] for row in rows)
    return stream.getvalue().encode("utf-8")


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    def column(name: str) -> Any:
        values = [row.get(name) for row in rows]
        if name in NUMBERS and all(isinstance(value, float | int | None) for value in values):
            return pa.array(values, pa.float64())
        if all(isinstance(value, str | None) for value in values):
            return pa.array([value if value is None else _whole(value) for value in values], pa.string())
        try:
            return pa.array(values)
        except (pa.ArrowException, UnicodeError, OverflowError):  # of several kinds, or with half a character inside
            return pa.array([value if value is None else cell_of(value, shown=False) for value in values], pa.string())

    stream = io.BytesIO()
    parquet.write_table(pa.table({name: column(name) for name in _names(rows)}), stream)
    return stream.getvalue()


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of all columns, in the order in which they come."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _whole(text: str) -> str:
    """The text with half characters escaped, so that it can be written."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
