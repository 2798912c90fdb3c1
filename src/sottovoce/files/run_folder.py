"""A run's own folder: the one way to open, fill and remove it, for every command that keeps what it drew.

Guarantee   A folder appears under its name with its header in it, locked, or not at all. What is read, written or
            removed is in the folder that was opened, through its descriptor: a folder that is moved loses nothing,
            and one that comes to its name is left alone. A run ends in one step, when its folder gets a name that
            nothing resumes. No link is followed and no pipe is waited for.
Assumes     Other processes lock the header as well. The system has locks and opens files relative to a folder; where
            it does not, no run is begun.
Sources     decision 0035.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, final

from sottovoce.errors import InputError
from sottovoce.files.outputs import place

try:
    import fcntl
except ModuleNotFoundError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

HEADER: Final = "run.json"
"""What makes a folder that of a run, and what is locked."""

_ENDED: Final = ".ended"
_FOLLOW_NOTHING: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_IS_TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_PIECE: Final = 1 << 20
_PRIVATE: Final = 0o600


@final
class RunFolder:
    """An open folder of a run, locked for as long as it is open.

    Args:
        path: Its name.
        fresh: Make its header, which it has not yet.

    Attributes:
        path: The name that it was opened under.
        ended: The name that it got when its run ended.

    Raises:
        InputError: It is a link or no folder, has no header of its own, another process has it, or it lost its name
            meanwhile. Nothing was written.
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path
        self.ended: Path | None = None
        self._held: list[int] = []
        self._let_go = weakref.finalize(self, _close, self._held)
        _require_system()
        try:
            self._folder = self._kept(_folder_at(path))
            self._header = self._kept(self._header_of(os.O_RDWR | (os.O_CREAT | os.O_EXCL if fresh else 0)))
            self._lock()
            if not (self.has_name() and self._has_header()):
                raise InputError(
                    f"{path.name} was finished, moved or replaced by another process at this moment. Run the command "
                    "again."
                )
        except BaseException:
            if fresh and self._held:
                self._empty()
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, header: bytes, beside: Path) -> RunFolder:
        """Makes a folder where nothing is; it has its name when its header is whole and locked.

        Args:
            path: Its name.
            header: What is in its header.
            beside: The output, after which it is called until then.

        Raises:
            InputError: Something came to have the name, or the system cannot keep a run.
            OSError: It cannot be made.
        """
        _require_system()
        before = _new_folder(beside)
        try:
            folder = cls(before, fresh=True)
            try:
                folder._fill(header)
                os.rename(before, path)
                folder.path = path
                _sync(path.parent)
            except BaseException:
                if folder._is_at(before):
                    folder._empty()
                folder.close()
                raise
        except BaseException as error:
            with suppress(OSError):
                before.rmdir()
            if isinstance(error, OSError) and error.errno in _IS_TAKEN:
                raise InputError(f"{path} came up meanwhile and was left as it is. Nothing was charged.") from None
            raise
        return folder

    def close(self) -> None:
        """Lets another process go on with the run."""
        self._let_go()

    def has_name(self) -> bool:
        """Whether the name that the folder was opened under is still its own."""
        return self._is_at(self.path)

    @property
    def is_over(self) -> bool:
        """Whether the run ended, and no command resumes it."""
        return self.ended is not None and not self.has_name()

    def read(self, name: str) -> bytes | None:
        """A whole file; ``None`` where there is none.

        Raises:
            InputError: It is a link, a pipe or a folder, or cannot be read.
        """
        try:
            with os.fdopen(self._file(name, os.O_RDONLY), "rb") as stream:
                return stream.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(
                f"{name} in {self.path} cannot be read ({error.strerror}). Restore it and pass --resume."
            ) from None

    def write(self, name: str, content: bytes, *, mode: int = _PRIVATE) -> None:
        """Writes a file whole, and makes sure that it is on the disk.

        Args:
            name: Of the file.
            content: What is in it.
            mode: Who may open it, less what the process masks; as long as it is here, the folder keeps others out.

        Raises:
            OSError: It cannot be written.
        """
        part = name + ".part"
        with self._new(part, mode) as stream:
            stream.write(content)
        os.replace(part, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def take_up(self, name: str, size: int) -> None:
        """Writes a file of so many bytes.

        Raises:
            OSError: There is no room.
        """
        with self._new(name) as stream:
            for start in range(0, size, _PIECE):
                stream.write(b"\0" * min(_PIECE, size - start))

    def remove(self, name: str) -> None:
        """Removes a file, where it is there.

        Raises:
            OSError: It cannot be removed.
        """
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def place(self, name: str, file: Path) -> None:
        """Moves a whole file out of the folder, to a name that nothing has.

        Raises:
            FileExistsError: Something has it.
            OSError: It cannot be moved.
        """
        place(Path(name), file, folder=self._folder)

    def end(self, beside: Path) -> None:
        """Ends the run: the folder gets a name that nothing resumes, and is removed under it.

        Args:
            beside: The output, after which it is called then.

        Raises:
            FileNotFoundError: It was moved, removed or replaced. Nothing was changed.
            InputError: It was replaced as it was renamed, and what had taken its name cannot have it again.
            OSError: It cannot be renamed, or not be removed whole.
        """
        if not self.has_name():
            raise FileNotFoundError(errno.ENOENT, "it was moved, removed or replaced")
        for name in ended_names(beside):
            self.ended = name  # known before it is so: an interruption may come in between
            try:
                os.rename(self.path, name)
                break
            except OSError as error:
                if error.errno not in _IS_TAKEN:
                    raise
        if not self._is_at(name):  # a rename goes by names, and another folder had taken this one's
            self._give_back(name)
            raise FileNotFoundError(errno.ENOENT, "it was moved, removed or replaced")
        _sync(beside.parent)
        self._held.remove(self._header)
        os.close(self._header)  # a file that is removed while it is open keeps its folder on some network disks
        self._empty()
        with suppress(FileNotFoundError):
            os.rmdir(name)

    def _give_back(self, name: Path) -> None:
        """Gives another run's folder, which was renamed in the place of this one, its name again."""
        self.ended = None
        try:
            os.rename(name, self.path)
        except OSError as error:
            raise InputError(
                f"Another folder had taken the name {self.path} and is called {name} now ({error.strerror}). It may "
                "hold a paid run: rename it back once that name is free, and pass --resume."
            ) from None

    def _kept(self, descriptor: int) -> int:
        self._held.append(descriptor)
        return descriptor

    def _header_of(self, flags: int) -> int:
        try:
            return self._file(HEADER, flags)
        except OSError as error:
            if error.errno == errno.EACCES:
                raise
            raise no_run(self.path) from None

    def _fill(self, header: bytes) -> None:
        with os.fdopen(os.dup(self._header), "wb") as stream:
            stream.write(header)
        os.fsync(self._header)
        os.fsync(self._folder)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._header, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Another process writes into {self.path.name} at this moment. Let it finish. Nothing was charged."
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.path} is on a file system without locks ({error.strerror}), on which no run can be kept. Name "
                "an output on another one. Nothing was charged."
            ) from None

    def _has_header(self) -> bool:
        """Whether the header that was locked is the one in the folder."""
        try:
            there = os.stat(HEADER, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(self._header), there)

    def _is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._folder), path.lstat())
        except OSError:
            return False

    def _file(self, name: str, flags: int, mode: int = _PRIVATE) -> int:
        """A regular file of the folder, opened."""
        descriptor = os.open(name, flags | _FOLLOW_NOTHING, mode, dir_fd=self._folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no regular file")
        return descriptor

    @contextmanager
    def _new(self, name: str, mode: int = _PRIVATE) -> Iterator[IO[bytes]]:
        """A new file in the place of one of this name, synced when it is whole."""
        self.remove(name)
        with os.fdopen(self._file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())

    def _empty(self) -> None:
        for name in os.listdir(self._folder):
            self.remove(name)


def ended_names(beside: Path) -> Iterator[Path]:
    """The names that the folder of a run has once it is over, the first that is free; no command resumes them."""
    yield beside.with_name(beside.name + _ENDED)
    for number in itertools.count(2):
        yield beside.with_name(f"{beside.name}{_ENDED}{number}")


def ended_beside(out: Path) -> list[Path]:
    """What is there under one of these names, beside an output."""
    name = re.compile(re.escape(out.name + _ENDED) + r"([2-9]|[1-9]\d+)?")
    try:
        return sorted(out.with_name(one) for one in os.listdir(out.parent) if name.fullmatch(one))
    except OSError:
        return []


def no_run(path: Path) -> InputError:
    """The error for a folder that is not that of a run."""
    return InputError(
        f"{path.name} is no interrupted run: its {HEADER} cannot be read. Move it away. Nothing was charged."
    )


def _require_system() -> None:
    if fcntl is None or os.open not in os.supports_dir_fd:
        raise InputError(
            "This system has no locks, or opens no file relative to a folder, so that no run can be kept on it. "
            "Nothing was charged."
        )


def _new_folder(beside: Path) -> Path:
    """An empty folder beside an output, under a name that nothing had."""
    for number in itertools.count():
        path = beside.with_name(f"{beside.name}.new{os.getpid()}-{number}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        break
    return path


def _folder_at(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | _FOLLOW_NOTHING)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
            raise
        raise InputError(
            f"{path} is a link or a file; the folder of a run is neither, and a link is not followed. Move it away. "
            "Nothing was charged and nothing written."
        ) from None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
