"""A run's own partial file: the one way to open it, for every command that resumes where it stopped.

Guarantee   What is written, cut or removed is a regular file that has this name itself, without a link, and that no
            other process holds. Whether it still has the name is checked after it was locked, and before it is moved
            or removed. Of its rows only a last one without an end may be cut off.
Assumes     Other processes lock it as well; where the system has no such locks, one process at a time is run.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, final

from sottovoce.errors import InputError
from sottovoce.files.outputs import place

try:
    import fcntl
except ModuleNotFoundError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ModuleNotFoundError:  # nor such limits
    resource = None  # type: ignore[assignment]

_FOLLOW_NOTHING: Final = getattr(os, "O_NOFOLLOW", 0)
_IS_LINK: Final = (errno.ELOOP, errno.EMLINK)
_PIECE: Final = 1 << 20


@final
class PartialFile:
    """An open partial file, locked for as long as it is open.

    Args:
        path: Its name.
        fresh: Create it, where nothing has this name yet.

    Raises:
        InputError: It is a link or no regular file, another process has it, it lost its name meanwhile, or it cannot
            be opened. Nothing was written, and nothing of another process is removed.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        try:
            descriptor = os.open(path, os.O_RDWR | _FOLLOW_NOTHING | (os.O_CREAT | os.O_EXCL if fresh else 0), 0o666)
            try:
                self._status = os.fstat(descriptor)
                if not stat.S_ISREG(self._status.st_mode):
                    raise InputError(f"{path} is not a file. Move it away. Nothing was charged.")
                self._lock(descriptor)
                self._require_name(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            if error.errno in _IS_LINK:
                raise InputError(
                    f"{path} is a link; the file of an interrupted run is none, and a link is not followed. Move it "
                    "away. Nothing was charged and nothing written."
                ) from None
            raise InputError(f"{path} cannot be written ({error.strerror}). Nothing was charged.") from None
        self._stream: IO[bytes] = os.fdopen(descriptor, "r+b")
        self._room: IO[bytes] | None = None

    def read(self) -> bytes:
        """All that is in it."""
        self._stream.seek(0)
        return self._stream.read()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return os.fstat(self._stream.fileno()).st_size == 0

    def keep(self, content: bytes) -> None:
        """Cuts the file after the whole rows of ``content``, its beginning; rows are appended after them."""
        self._stream.truncate(len(content))
        self._stream.seek(len(content))
        if content and not content.endswith(b"\n"):
            self.append(b"\n")

    def take_up(self, size: int) -> None:
        """Takes up so many bytes of the disk, which the next ``append`` gives back for the rows that it writes.

        They are in a file without a name: a process that is killed leaves none.

        Raises:
            OSError: There is no room, or the file would be longer than the process may make one.
        """
        self._give_back()
        if os.fstat(self._stream.fileno()).st_size + size > _longest_file():
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        self._room = TemporaryFile(dir=self.path.parent)  # noqa: SIM115  ``append`` and ``close`` close it
        try:
            for start in range(0, size, _PIECE):
                self._room.write(b"\0" * min(_PIECE, size - start))
            self._room.flush()
            _sync(self._room)
        except BaseException:
            self._give_back()
            raise

    def append(self, text: bytes) -> None:
        """Writes whole rows, durably.

        Raises:
            OSError: They cannot be written.
        """
        self._give_back()
        self._stream.write(text)
        self._stream.flush()
        _sync(self._stream)

    def is_at(self, path: Path) -> bool:
        """Whether the file has this name, itself and not through a link."""
        try:
            return os.path.samestat(self._status, path.lstat())
        except FileNotFoundError:
            return False

    def place(self, file: Path) -> None:
        """Moves it to a name that nothing has.

        Raises:
            FileExistsError: Something has it.
            FileNotFoundError: The partial file was moved, removed or replaced meanwhile.
            OSError: It cannot be moved.
        """
        if not self.is_at(self.path):
            raise FileNotFoundError(errno.ENOENT, f"{self.path.name} was moved, removed or replaced meanwhile")
        place(self.path, file)

    def remove(self) -> bool:
        """Removes it while it is locked, and says whether it did: another file of its name stays."""
        if not self.is_at(self.path):
            return False
        try:
            self.path.unlink()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Lets another process have it."""
        self._give_back()
        with suppress(OSError):  # a full disk was reported by the row that met it
            self._stream.close()

    def _give_back(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            with suppress(OSError):  # what did not fit into it is written once more as it is closed
                room.close()

    def _lock(self, descriptor: int) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Another process writes into {self.path.name} at this moment. Let it finish. Nothing was charged."
            ) from None

    def _require_name(self, descriptor: int) -> None:
        """Another process may have finished, moved or removed the file between its opening and its lock."""
        self._status = os.fstat(descriptor)
        if not self.is_at(self.path):
            raise InputError(
                f"{self.path.name} was finished, moved or replaced by another process at this moment. Run the command "
                "again. Nothing was charged."
            )


def rows_of(content: bytes, damaged: Callable[[int], InputError]) -> tuple[list[dict[str, Any]], bytes]:
    """Parses the rows of a partial file, one JSON object a line.

    Args:
        content: All of the file.
        damaged: The error for a line, counted from 1.

    Returns:
        The rows, and the torn line behind them: what a process wrote that was killed in a row. A whole row that lacks
        just the end of its line is a row.

    Raises:
        InputError: A line that was written to its end is no row.
    """
    *lines, last = content.split(b"\n")
    rows = []
    for number, line in enumerate(lines, 1):
        row = _row(line)
        if row is None:
            raise damaged(number)
        rows.append(row)
    row = _row(last)
    return (rows, last) if row is None else ([*rows, row], b"")


def is_torn(line: bytes, start: str) -> bool:
    """Whether a line without an end may be what was written first of a row that begins like this."""
    begin = start.encode("utf-8")
    return line.startswith(begin) or begin.startswith(line)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _sync(stream: IO[bytes]) -> None:
    os.fsync(stream.fileno())


def _longest_file() -> float:
    """Bytes of a file that this process may make."""
    if resource is None:
        return math.inf
    longest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return math.inf if longest == resource.RLIM_INFINITY else longest
