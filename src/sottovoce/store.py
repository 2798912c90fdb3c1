"""The trusted store: a folder of the user's own for ledgers and caches, readable by nobody else.

``SOTTOVOCE_HOME`` moves it, to an absolute path. It is meant for the machine that may see the private records anyway.
Files in it are named by a keyed hash of a data set's fingerprint: a plain hash of private records would let anybody who
sees a file name check a guess about them. Under another key nothing in it is found again, so a store whose key is gone
is not used.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import platformdirs

from sottovoce.errors import ParameterError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

SECRET_BYTES: Final = 32
KEY: Final = "names.key"
LEDGERS: Final = "ledgers"
PROOF: Final = "names.check"
"""In the folder of ledgers: tells whether the key is the one that they were named under."""
TURN: Final = "turn.lock"
"""Empty; whoever has it locked decides whether records get a first budget."""
TURN_TIMEOUT_S: Final = 120

_PAUSE_S: Final = 0.02
_ELSEWHERE: Final = "where its file system cannot do that, keep the store on another one, named by SOTTOVOCE_HOME"


class UnsafeStoreError(OSError):
    """The store must not be used as it is: others may read it, or its key does not belong to it."""


def home() -> Path:
    """Where the store is; nothing is created.

    Raises:
        ParameterError: The place follows the working folder, so that each would have a store, and budgets, of its own.
    """
    chosen = os.environ.get("SOTTOVOCE_HOME")
    place = os.path.expanduser(chosen or platformdirs.user_data_dir("sottovoce", appauthor=False))
    if not os.path.isabs(place):
        raise ParameterError(
            "SOTTOVOCE_HOME" if chosen else "The folder of user data",
            place,
            "an absolute path: a relative one is another store, with new budgets, in each working folder. Set "
            "SOTTOVOCE_HOME to the whole path of the store, such as /home/ann/sottovoce",
        )
    return Path(place)


@contextmanager
def set_apart(folder: Path) -> Iterator[None]:
    """Puts the store of this process elsewhere for a while: what a demonstration learns is to be forgotten."""
    before = os.environ.get("SOTTOVOCE_HOME")
    os.environ["SOTTOVOCE_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOTTOVOCE_HOME"]
        else:
            os.environ["SOTTOVOCE_HOME"] = before


def private_folder(name: str = "") -> Path:
    """A folder of the store, created where missing and then closed to other users.

    Raises:
        OSError: It cannot be created.
        UnsafeStoreError: It is open to other users, or is another user's.
    """
    folder = home() / name if name else home()
    for path in dict.fromkeys((home(), folder)):
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.chmod(0o700)
        _require_own(path)
    return folder


def private_name(fingerprint: str) -> str:
    """A name for a data set that says nothing of it to who has no access to the store: 24 hexadecimal digits.

    Raises:
        OSError: The store cannot be written.
        UnsafeStoreError: It is open to others, or its key is damaged, gone or another one.
    """
    return hmac.new(_secret(), fingerprint.encode(), hashlib.sha256).hexdigest()[:24]


def mark_key() -> bytes:
    """The key of the marks by which single records are known; errors as for ``private_name``."""
    return _derived(_secret(), "marks of records")


def sums_key() -> bytes:
    """The key of the sums that a fit keeps while it reads; errors as for ``private_name``."""
    return _derived(_secret(), "sums of fits")


def _derived(secret: bytes, use: str) -> bytes:
    return hmac.digest(secret, b"sottovoce store\0" + use.encode(), "sha256")


def _require_own(path: Path) -> None:
    """Refuses what others may read or write. Where there are no users and modes of this kind, all is well."""
    if not hasattr(os, "geteuid"):
        return
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise UnsafeStoreError(
            f"{path} belongs to another user; give it back to yours with: chown {os.geteuid()} {path}"
        )
    if status.st_mode & 0o077:
        mode = "700" if path.is_dir() else "600"
        raise UnsafeStoreError(
            f"{path} is open to other users (mode {status.st_mode & 0o777:o}); close it with: chmod {mode} {path}"
        )


def _secret() -> bytes:
    """The store's key, made once; two processes that make it together agree on one."""
    file, ledgers = private_folder() / KEY, private_folder(LEDGERS)
    if not file.exists():
        if next(ledgers.iterdir(), None) is not None and not file.exists():
            raise UnsafeStoreError(
                f"{file} is gone, without which the ledgers in {ledgers} are not found again; restore it from a "
                f"backup, or move {file.parent} aside if its budgets no longer matter"
            )
        write_once(file, secrets.token_bytes(SECRET_BYTES))
    _require_own(file)
    key = file.read_bytes()
    if len(key) != SECRET_BYTES:
        raise UnsafeStoreError(f"{file} is damaged; restore it from a backup")
    proof, expected = ledgers / PROOF, _derived(key, "check")
    if not proof.exists():
        write_once(proof, expected)
    if not hmac.compare_digest(proof.read_bytes(), expected):
        raise UnsafeStoreError(
            f"{file} is not the key that the ledgers in {ledgers} were named under; restore that one from a backup, or "
            f"move {ledgers} aside if its budgets no longer matter"
        )
    return key


def write_once(file: Path, content: bytes) -> None:
    """Writes a file that appears whole, and only if there is none yet; it is on the disk then, under its name."""
    fresh = _write_fresh(file, content)
    try:
        os.link(fresh, file)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    _synchronise(file.parent)


def write_anew(file: Path, content: bytes) -> None:
    """Writes a file that appears whole, in place of one that is there; it is on the disk then, under its name."""
    fresh = _write_fresh(file, content)
    try:
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _synchronise(file.parent)


@contextmanager
def alone() -> Iterator[None]:
    """Keeps other processes and threads that ask for the same out of the store until the end of the block.

    Raises:
        OSError: The store cannot be written or locked.
        TimeoutError: Another program has had it for ``TURN_TIMEOUT_S``.
    """
    file, owner = private_folder() / TURN, os.getpid()
    with os.fdopen(os.open(file, os.O_CREAT | os.O_RDWR, 0o600), "rb") as turn:
        if fcntl is None:  # the store cannot be locked
            yield
            return
        _lock(turn.fileno(), file)
        try:
            yield
        finally:
            if os.getpid() == owner:  # closing is not enough: a child that was forked meanwhile has the file open too
                fcntl.flock(turn, fcntl.LOCK_UN)


def _lock(descriptor: int, file: Path) -> None:
    """Waits for the turn; it is given back by a crash too."""
    end = time.monotonic() + TURN_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError(
                    f"another program has had {file} locked for {TURN_TIMEOUT_S} s; wait for it or end it"
                ) from None
        except OSError as error:
            raise OSError(f"{file} cannot be locked: {error.strerror or error}; {_ELSEWHERE}") from None
        else:
            return
        time.sleep(_PAUSE_S)


def _write_fresh(file: Path, content: bytes) -> Path:
    """A file beside the one that is to be written, with a name that no other process or thread has."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return fresh


def _synchronise(folder: Path) -> None:
    """Puts the folder's names on the disk, where a folder can be opened for that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(f"{folder} cannot be put on the disk: {error.strerror or error}; {_ELSEWHERE}") from None
    finally:
        os.close(descriptor)
