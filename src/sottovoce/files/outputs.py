"""The one guard for every file that a command writes: nothing that was there is ever overwritten by accident.

Guarantee   A file appears whole or not at all, and only where nothing is; or in the place of a file that the caller
            recognises as its own earlier output. Inputs, ledgers with their side files, and the trusted store are
            refused by identity: under any spelling, through links of either kind.
Assumes     The folder is not rearranged by somebody else between the check and the creation; a file that comes up
            meanwhile is not overwritten.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from sottovoce.errors import InputError
from sottovoce.store import home

SIDE_FILES: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database; a ledger's last charges may be there alone."""

_SQLITE: Final = b"SQLite format 3\0"
_START_BYTES: Final = 4096
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)


def target(file: str | os.PathLike[str]) -> Path:
    """Where a file's name leads: a link is followed, so that it stays one.

    Raises:
        InputError: To a folder or a device, or to nothing that could be a file.
    """
    path = Path(file)
    try:
        path = path.resolve() if path.is_symlink() else path
        kind = path.stat().st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, a name too long or with a NUL
        raise InputError(f"{file} cannot be written ({_reason(error)}). Nothing was charged.") from None
    if not path.name or not stat.S_ISREG(kind):
        raise InputError(f"{file} cannot be written: it is a folder or a device, not a file. Nothing was charged.")
    return path


def refuse_protected(
    file: str | os.PathLike[str], inputs: Iterable[str] = (), ledgers: Iterable[str] = (), outputs: Iterable[str] = ()
) -> None:
    """Refuses to write what must stay as it is, whether it is there already or not.

    Args:
        file: What is to be written.
        inputs: What the command reads, files and folders.
        ledgers: Files of ledgers.
        outputs: What else the command writes.

    Raises:
        InputError: It is one of them, a side file of a ledger, or in the trusted store.
    """
    for ledger in ledgers:
        if any(_same(file, ledger + end) for end in ("", *SIDE_FILES)):
            raise _refusal(file, "is a file of the ledger itself, which would forget what was spent")
    for read in inputs:
        if os.path.exists(read) and _same(file, read):
            raise _refusal(file, "is read by this command, and would be lost")
    for other in outputs:
        if _same(file, other):
            raise _refusal(file, "is written twice by this command")
    name = os.fspath(file)
    for end in SIDE_FILES:
        if name.endswith(end) and _start_of(name.removesuffix(end)).startswith(_SQLITE):
            raise _refusal(file, "is a side file of a database, which would be damaged")
    store = os.path.realpath(home())
    try:
        leads = os.path.realpath(file)
    except OSError as error:  # over a link that may not be read
        raise InputError(f"{file} cannot be written ({_reason(error)}). Nothing was charged.") from None
    if leads.startswith(store + os.sep):
        raise _refusal(file, "is in the trusted store, which holds ledgers and keys")


def refuse_existing(file: Path, replaces: Callable[[Path], bool] | None = None) -> None:
    """Refuses to write where something is, but for what the caller knows as its own.

    Raises:
        InputError: There is something else, or the place cannot be looked at.
    """
    try:
        target(file).lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}). Nothing was charged.") from None
    if replaces is None or not replaces(file):
        raise InputError(
            f"{file} exists already and is not overwritten. Name another file, or move it away. Nothing was charged."
        )


def unused(file: str) -> Path:
    """Reads an argument that names a file to be written, where nothing is yet.

    Raises:
        InputError: Something is there, or it must stay as it is; it names a folder, or a file in one that is not there
            or cannot be written.
    """
    refuse_protected(file)
    if file.endswith(os.sep):
        raise InputError(f"{file} cannot be written: it is a folder, not a file. Name a file in it.")
    refuse_existing(Path(file))
    require_folder(file)
    return Path(file)


def require_folder(file: str | os.PathLike[str]) -> None:
    """Refuses a file whose folder is not there or cannot be written to.

    Raises:
        InputError: It is so, or the file's name leads to a folder or a device.
    """
    folder = target(file).parent
    if not folder.is_dir():
        raise InputError(f"{file} cannot be written: there is no folder {str(folder)!r}. Create it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            f"{file} cannot be written: nothing can be written to the folder {str(folder)!r}. Name another one."
        )


def require_name(file: Path) -> None:
    """Refuses a name that ``new_file`` could not write, since it is too long with what is appended until it is whole.

    Raises:
        InputError: It is so.
    """
    try:
        with suppress(FileNotFoundError):
            _part(target(file), 0).lstat()
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}). Nothing was charged.") from None


@contextmanager
def new_file(file: Path, *, replaces: Callable[[Path], bool] | None = None) -> Iterator[IO[bytes]]:
    """Opens a file that appears under its name when it is whole, and not at all if the block fails.

    Args:
        file: Where to.
        replaces: Whether a file that is there is an earlier output of the same run, and may be replaced.

    Raises:
        InputError: Something else is there or comes up meanwhile, or the file cannot be written.
    """
    refuse_existing(file, replaces)
    path, part = target(file), None
    try:
        part, descriptor = _fresh(path)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if replaces is not None and path.exists() and replaces(path):
            os.replace(part, path)
        else:
            place(part, path)
    except FileExistsError:
        raise InputError(f"{file} came up meanwhile and is not overwritten. Name another file.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be written ({_reason(error)}).") from None
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink()


def write_new(file: Path, text: str, *, replaces: Callable[[Path], bool] | None = None) -> None:
    """Writes a text as ``new_file`` does."""
    with new_file(file, replaces=replaces) as stream:
        stream.write(text.encode("utf-8"))


def begins_as(opening: str | re.Pattern[bytes]) -> Callable[[Path], bool]:
    """Recognises earlier outputs by how they begin: a text that merely quotes one, or tells of it, is none.

    Args:
        opening: The first bytes, or a pattern that the first ones match, which no text written by hand begins with.
    """
    if isinstance(opening, str):
        return lambda file: _start_of(file).startswith(opening.encode("utf-8"))
    return lambda file: opening.match(_start_of(file)) is not None


def place(whole: Path, file: Path, *, folder: int | None = None) -> None:
    """Moves a whole file to a name that nothing has.

    Args:
        whole: The file. Where it cannot be removed under its old name, it has both.
        file: Its new name.
        folder: Descriptor of the folder that ``whole`` is in, if it is named within it.

    Raises:
        FileExistsError: Something has it.
        OSError: It cannot be moved.
    """
    try:
        os.link(whole, file, src_dir_fd=folder)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without links: the name is taken first, so that nothing else is replaced.
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.replace(whole, file, src_dir_fd=folder)
    else:
        with suppress(OSError):
            os.unlink(whole, dir_fd=folder)


def _fresh(path: Path) -> tuple[Path, int]:
    """A new file beside another, under a name that nothing has."""
    number = 0
    while True:
        part = _part(path, number)
        try:
            return part, os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            number += 1


def _part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}-{number}.part")


def _same(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Whether two names are one file, or would be: by identity where both exist, else by folder and name."""
    with suppress(OSError, ValueError):
        return os.path.samefile(first, second)
    with suppress(OSError, ValueError):
        return _place(first) == _place(second)
    return False


def _place(file: str | os.PathLike[str]) -> tuple[str, str]:
    """The real folder and the name of a file that need not exist; names that some file systems confuse are one."""
    folder, name = os.path.split(os.path.realpath(file))
    return folder, unicodedata.normalize("NFC", name).casefold()


def _start_of(file: str | os.PathLike[str]) -> bytes:
    """The first bytes; none where they cannot be read."""
    try:
        with open(file, "rb") as stream:
            return stream.read(_START_BYTES)
    except (OSError, ValueError):
        return b""


def _refusal(file: str | os.PathLike[str], why: str) -> InputError:
    return InputError(f"{os.fspath(file)} {why}. Name another file. Nothing was charged and nothing written.")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "no such name is possible"
