"""How much of a file is looked at before it is refused: a small file may hold a great deal.

Guarantee   Reading takes memory in proportion to what is kept: a line is read up to a limit, and a compressed file is
            counted out before it is parsed.
Assumes     A file that is not compressed is as large as it looks, and its owner has room for it.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from sottovoce.errors import InputError

LINE_BYTES: Final = 16 << 20
"""Longest line of rows, unless longer texts are asked for."""
FREE_BYTES: Final = 64 << 20
"""What any compressed file may unpack to."""
RATIO: Final = 100
"""Larger ones may unpack to so many times their size; texts are packed to a third or a tenth."""
ROWS: Final = 5_000_000
"""Most rows of a file."""
CHARACTERS: Final = 1_000_000_000
"""Most characters that a field may be said to have."""
DEPTH: Final = 100
"""Deepest nesting of lists and objects."""
PUBLIC_BYTES: Final = 4 << 20
"""Longest file of settings, such as a schema."""
TOML_BYTES: Final = 256 << 10
TOML_DOTS: Final = 200
"""Longest TOML file, and most full stops in a line of it: reading a name of many parts takes their number squared."""


def line_bytes(characters: int) -> int:
    """Longest line where a field may have so many characters."""
    return max(LINE_BYTES, 4 * characters)


def unpacked_bytes(path: Path) -> int:
    """What a compressed file may unpack to."""
    return max(FREE_BYTES, RATIO * os.path.getsize(path))


def nested_problem(value: Any, most: float, depth: int = DEPTH) -> str | None:
    """What is wrong with lists and objects inside each other, in words; no call goes deeper for it.

    Args:
        value: Of JSON or of a table's cell.
        most: Characters and members that it may hold, each text as often as it occurs.
        depth: Lists and objects that may stand inside each other.

    Example:
        >>> nested_problem({"a": [1, {"b": 2}]}, most=100)
        >>> nested_problem([["x" * 99]], most=100)
        'it holds more than 100 characters and members'
    """
    level, left = [value], most
    for _ in range(depth + 1):
        inner: list[Any] = []
        for member in level:
            left -= 1 + (len(member) if isinstance(member, str | bytes) else 0)
            if isinstance(member, dict):
                left -= sum(len(str(name)) for name in member)
            if isinstance(member, dict | list):
                inner += member.values() if isinstance(member, dict) else member
            if left < 0:
                return f"it holds more than {most:,} characters and members"
        if not inner:
            return None
        level = inner
    return f"lists and objects are nested deeper than {depth}"


def read_text(path: Path, what: str, most: int = PUBLIC_BYTES) -> str:
    """The text of a file of settings.

    Args:
        path: The file.
        what: It is called in errors.
        most: Bytes that it may have.

    Raises:
        InputError: It is longer.
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"The {what} {path.name!r} is longer than {most >> 10} KiB, which no {what} needs.")
    return content.decode("utf-8")


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file; every such file is read by this.

    Raises:
        ValueError: It is not valid TOML, or a small text of it would take a great deal of memory; in words.

    Example:
        >>> parse_toml("a = 1")
        {'a': 1}
        >>> parse_toml("a." * 5000 + "b = 1")
        Traceback (most recent call last):
        ...
        ValueError: more than 200 full stops in a line; break the line
    """
    if any(line.count(".") > TOML_DOTS for line in text.split("\n")):
        raise ValueError(f"more than {TOML_DOTS} full stops in a line; break the line")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("lists or tables inside each other, too deep") from None
