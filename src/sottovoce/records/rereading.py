"""A file of private rows that is read as often as it is needed and never held: each time it must be the same file.

Guarantee   Every pass begins and ends with the content that the first one had: its size and SHA-256 are compared before
            the first row is handed over, and how the file stands (size, time of change, inode) behind the last one.
Assumes     Whoever changes the file between those two looks does not put size, time and inode back.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import final

from sottovoce.errors import RecordError
from sottovoce.records.sealed import Row

Rows = tuple[Row, Row]
"""A row, and the same as it was before its texts were cut."""


@final
class Rereading:
    """Passes over one file.

    Args:
        path: The file.
        read: Reads its rows, one by one.

    Raises:
        RecordError: It cannot be read.
    """

    def __init__(self, path: Path, read: Callable[[], Iterable[Rows]]) -> None:
        self._path, self._read = path, read
        self._content = self._digest()
        self._passed = False

    def __call__(self) -> Iterator[Rows]:
        """One pass over the rows.

        Raises:
            RecordError: A row cannot be used, or the file is not the one any more that was read first.
        """
        before = self._standing()
        self.require_unchanged()
        try:
            yield from self._read()
        except RecordError:
            if self._passed:  # it was read through before
                raise self._changed() from None
            raise
        if self._standing() != before:
            raise self._changed()
        self._passed = True

    def require_unchanged(self) -> None:
        """Compares the file's content with what it was.

        Raises:
            RecordError: It is another.
        """
        if self._digest() != self._content:
            raise self._changed()

    def _digest(self) -> tuple[int, str]:
        try:
            with self._path.open("rb") as content:
                return os.fstat(content.fileno()).st_size, hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as error:
            raise RecordError(f"it cannot be read ({error.strerror})", file=self._path.name) from None

    def _standing(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns, status.st_ino

    def _changed(self) -> RecordError:
        return RecordError(
            "the file was changed while its records were in use",
            file=self._path.name,
            hint="What was charged before stands. Put the file back as it was, or begin anew with the changed one.",
        )


def is_rereadable(source: object) -> bool:
    """Whether a source is a file that gives the same rows again: not a folder, a pipe or a data frame."""
    if not isinstance(source, str | os.PathLike):
        return False
    try:
        return stat.S_ISREG(os.stat(source).st_mode)
    except OSError:
        return False
