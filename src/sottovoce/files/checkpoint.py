"""Crash-safe checkpoints of runs that are drawn: save, record in the ledger, then release. A crash loses and repeats
nothing.

A run has a folder beside its output, ``OUT.partial``, as private as the records until the run is over. Each round of
texts, or the whole of a fit, is written there whole, then the ledger notes that it leaves, with the hash of that file,
and only then is it handed over. On a resume a file that the ledger knows by its hash is handed over, and so is a whole
file that was not noted yet, once it is: it was drawn under the charge, somebody may have seen it, and a second draw
would be one too many. A round that never was whole on the disk is drawn anew under another charge. One process at a
time works in a folder, and a run reads, writes and removes no folder but the one whose lock it holds: another one may
have come to its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from sottovoce.errors import InputError
from sottovoce.files.outputs import place
from sottovoce.files.tables import ENDINGS, encoded, require_ending

try:
    import fcntl
except ModuleNotFoundError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

CERTIFICATE: Final = ".certificate.json"
"""What is appended to the output's name for its certificate."""

_HEADER: Final = "run.json"
_LOCK: Final = "lock"
_UNSPOKEN: Final = "records and ledger"
"""A term whose value follows from the records: that it differs is said, and nothing else."""
_HASHED: Final = ("question texts", "public texts")
"""Terms that are kept as hashes, which would tell nobody anything."""
_RUN_STATE: Final = {"run": re.compile(r"[0-9a-f]{1,32}"), "version": re.compile(r"\d[0-9A-Za-z.+!-]{0,63}")}
"""Form of what a run remembers."""
_ROOM: Final = "room"
_LAST_ROOM: Final = "room-out"
"""Takes up room for the output, which is written while the last round still stands."""
_PIECE: Final = 1 << 20


@final
class Checkpoint:
    """The folder of one run.

    Args:
        out: The file that the run will write. Nothing is overwritten.
        terms: What was asked for, in public words. A resume must ask for the same.
        new_run_state: What a new run remembers besides, such as its id. A resume finds it in ``run_state``.
        resume: Go on with a run that was interrupted.
        endings: What the name of ``out`` may end in, which says the format that it is written in.

    Attributes:
        run_state: What the run remembers.
        proof: Where the certificate goes.

    Raises:
        InputError: The folder is in the way, absent, in use, of another run, or cannot be written; or the output is
            there already.
    """

    def __init__(
        self,
        out: Path,
        terms: Mapping[str, Any],
        new_run_state: Mapping[str, Any],
        *,
        resume: bool,
        endings: Sequence[str] = ENDINGS,
    ) -> None:
        if not out.name:
            raise InputError(f"{str(out)!r} is a folder or a device, not a file. Nothing was charged.")
        self.out, self.folder = out, folder_of(out)
        self.proof = out.with_name(out.name + CERTIFICATE)
        self._endings = endings
        self._let_go: weakref.finalize[Any, Any] | None = None
        self._own_lock: os.stat_result | None = None
        try:
            require_place(out, resume=resume, endings=self._endings)
            if self.folder.exists() and not resume:
                self._require_unused()
                raise InputError(
                    f"{self.folder.name} holds an interrupted run whose price is paid. Pass --resume to go on with it, "
                    "or move the folder away."
                )
            if not self.folder.exists() and resume:
                raise InputError(f"There is nothing to resume: {self.folder.name} does not exist.")
            self.run_state = self._opened(terms, new_run_state) if resume else self._begun(terms, new_run_state)
        except OSError as error:
            self.close()
            raise InputError(f"{self.folder} cannot be used ({error.strerror}). Nothing was charged.") from None
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Checkpoint({self.out.name!r})"

    def close(self) -> None:
        """Lets another process go on with the run."""
        if self._let_go is not None:
            self._let_go()

    def is_own(self) -> bool:
        """Whether the folder of this name is the one that this run holds."""
        try:
            there = (self.folder / _LOCK).lstat()
        except OSError:
            return False
        return self._own_lock is not None and os.path.samestat(self._own_lock, there)

    def make_room(self, size: int, last: int = 0) -> None:
        """Takes up so many bytes of the disk, which the next ``save`` gives back for the round that it writes.

        Whether a round can be saved, or the output written beside it, must not follow from what was drawn.

        Args:
            size: Of the round.
            last: Of the output and its certificate, which ``finish`` gives back; 0 where more rounds are to come.

        Raises:
            InputError: There is no room, or the folder is another one by now. Nothing was drawn.
        """
        self._require_own()
        try:
            for name, bytes_ in ((_ROOM, size), (_LAST_ROOM, last)):
                if bytes_:
                    self._take(name, bytes_)
        except OSError as error:
            self._give_back(_ROOM, _LAST_ROOM)
            raise InputError(
                f"{self.folder} has no room for {size + last} bytes ({error.strerror}). What was charged stands, and "
                "nothing was drawn; make room and pass --resume."
            ) from None

    def _take(self, name: str, size: int) -> None:
        with (self.folder / name).open("wb") as stream:
            for start in range(0, size, _PIECE):
                stream.write(b"\0" * min(_PIECE, size - start))
            stream.flush()
            os.fsync(stream.fileno())

    def _give_back(self, *names: str) -> None:
        self._require_own()
        for name in names:
            with suppress(OSError):
                (self.folder / name).unlink()

    def save(self, name: str | int, rows: Sequence[Mapping[str, Any]]) -> str:
        """Saves a round under the name of its charge, durably, and returns its hash.

        Raises:
            InputError: It cannot be written, or the folder is another one by now.
        """
        return self.save_bytes(
            name, _lines(rows), "make room and pass --resume, which charges this again: it was drawn"
        )

    def save_bytes(self, name: str | int, content: bytes, remedy: str) -> str:
        """Saves what was drawn under the name of its charge, durably, and returns its hash.

        Args:
            name: Of the charge.
            content: What was drawn.
            remedy: What is to be done where it cannot be written, for the error.

        Raises:
            InputError: It cannot be written, or the folder is another one by now.
        """
        file = self._file(name)
        try:
            (self.folder / _ROOM).unlink(missing_ok=True)
            self._write(file, content)
        except OSError as error:
            raise InputError(
                f"{self.folder} cannot be written ({error.strerror}). What was charged stands; {remedy}."
            ) from None
        return hashlib.sha256(content).hexdigest()

    def load(self, name: str | int, content: str | None) -> list[dict[str, Any]] | None:
        """A round that was saved, if it has this hash; else it is thrown away."""
        saved = self.found(name)
        if saved is None:
            return None
        rows, digest = saved
        if digest != content:
            self._file(name).unlink()
            return None
        return rows

    def found(self, name: str | int) -> tuple[list[dict[str, Any]], str] | None:
        """A round that was saved, whatever the ledger knows of it, and its hash."""
        try:
            text = self._file(name).read_bytes()
            rows = [json.loads(line) for line in text.decode("utf-8").split("\n") if line]
        except (FileNotFoundError, ValueError):
            return None
        return rows, hashlib.sha256(text).hexdigest()

    def found_bytes(self, name: str | int) -> bytes | None:
        """What ``save_bytes`` saved, whatever the ledger knows of it; it is whole, since it is renamed when it is."""
        try:
            return self._file(name).read_bytes()
        except FileNotFoundError:
            return None

    def finish(self, rows: Sequence[Mapping[str, Any]], certificate: str = "") -> None:
        """Writes the output whole, its certificate before it, and removes the folder.

        Raises:
            InputError: They cannot be written, or another file has taken their place.
        """
        files = {self.proof: certificate.encode("utf-8"), self.out: encoded(rows, self.out)}
        self._finish({file: text for file, text in files.items() if text or file == self.out})

    def finish_bytes(self, content: bytes, certificate: str = "") -> None:
        """Writes the output whole, its certificate before it where it has one beside it, and removes the folder.

        Raises:
            InputError: It cannot be written, or another file has taken its place.
        """
        proof = {self.proof: certificate.encode("utf-8")} if certificate else {}
        self._finish({**proof, self.out: content})

    def _finish(self, files: Mapping[Path, bytes]) -> None:
        whole = self.folder / "out"
        self._give_back(_LAST_ROOM)
        try:
            for file, text in files.items():
                if not (file.exists() and file.read_bytes() == text):
                    self._require_own()
                    self._write(whole, text)
                    place(whole, file)
        except FileExistsError as error:
            raise InputError(
                f"{error.filename2 or error.filename} came up meanwhile and is another file. What was drawn is paid "
                f"and in {self.folder}; move the file away and pass --resume."
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.out} cannot be written ({error.strerror}). What was drawn is paid and in {self.folder}; make "
                "room and pass --resume."
            ) from None
        if not self.is_own():
            raise InputError(
                f"{self.out} is written, and its folder {self.folder} was moved, removed or replaced meanwhile. What "
                "has that name now was left as it is. If the folder was moved, it is as private as the records: "
                "remove it."
            )
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise InputError(
                f"{self.out} is written, and its folder {self.folder} cannot be removed ({error.strerror or error}). "
                "It is as private as the records: remove it."
            ) from None
        self.close()

    def abandon(self) -> None:
        """Removes the folder of a run that was never charged; another folder of its name stays."""
        is_own = self.is_own()
        self.close()
        if is_own:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _begun(self, terms: Mapping[str, Any], new_run_state: Mapping[str, Any]) -> dict[str, Any]:
        self.folder.mkdir(mode=0o700)
        try:
            self._hold()
            text = json.dumps({"terms": terms, "kept": new_run_state}, indent=1)
            self._write(self.folder / _HEADER, text.encode("utf-8"))
        except BaseException:
            self.abandon()
            with suppress(OSError):  # empty, where no lock could be made in it
                self.folder.rmdir()
            raise
        return dict(new_run_state)

    def _opened(self, terms: Mapping[str, Any], new_run_state: Mapping[str, Any]) -> dict[str, Any]:
        self._require_unused()
        self._header(new_run_state)  # before a lock is put into what may be anybody's folder
        self._hold()
        before, run_state = self._header(new_run_state)
        now = json.loads(json.dumps(terms))
        if changed := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
            if _UNSPOKEN in changed:
                raise InputError(
                    f"The interrupted run in {self.folder.name} has other records, or another ledger, or was begun by "
                    "another version. Repeat its command as it was, or move the folder away."
                )
            name = changed[0]
            differs = f"other {name}" if name in _HASHED else f"{name} {before.get(name)!r}, not {now.get(name)!r}"
            raise InputError(
                f"The interrupted run in {self.folder.name} has {differs}. Repeat its command, or move the folder away."
            )
        return run_state

    def _header(self, new_run_state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The terms of the run in the folder, and what it remembers."""
        try:
            header = json.loads((self.folder / _HEADER).read_text("utf-8"))
            before, run_state = dict(header["terms"]), dict(header["kept"])
            if run_state.keys() != new_run_state.keys():
                raise ValueError
            for name, value in run_state.items():
                if not _RUN_STATE[name].fullmatch(value):
                    raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError, FileNotFoundError):
            raise InputError(
                f"{self.folder.name} is no interrupted run: its {_HEADER} cannot be read. If the run was stopped as it "
                "began, nothing was charged: move the folder away and leave --resume out."
            ) from None
        return before, run_state

    def _hold(self) -> None:
        """Keeps other processes out for as long as this one lives."""
        descriptor = os.open(self.folder / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        self._let_go = weakref.finalize(self, os.close, descriptor)
        self._own_lock = os.fstat(descriptor)  # no other file has its number for as long as it is open
        self._lock(descriptor)
        if not self.is_own():
            raise InputError(
                f"{self.folder.name} was finished, moved or replaced by another process at this moment. Run the "
                "command again."
            )

    def _require_unused(self) -> None:
        """Refuses a folder that another process writes into, and puts nothing into it."""
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_WRONLY)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            self._lock(descriptor)
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"Another process writes into {self.folder.name} at this moment. Let it finish.") from None

    def _require_own(self) -> None:
        """Refuses to go on in a folder that another one took the name of."""
        if not self.is_own():
            raise InputError(
                f"{self.folder} was moved, removed or replaced while this run wrote into it. What has that name now "
                "was left as it is. What was charged stands: move this run's folder back, once that name is free, and "
                "pass --resume."
            )

    def _file(self, name: str | int) -> Path:
        self._require_own()
        return self.folder / f"round-{name}"

    @staticmethod
    def _write(file: Path, text: bytes) -> None:
        """Writes a file whole, and makes sure that it is on the disk."""
        part = file.with_name(file.name + ".part")
        with part.open("wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, file)
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def folder_of(out: Path) -> Path:
    """The folder of the run that writes an output."""
    return out.with_name(out.name + ".partial")


def require_place(
    out: Path,
    *,
    resume: bool,
    endings: Sequence[str] = ENDINGS,
) -> None:
    """Refuses a place where no output of a run can be; ``Checkpoint`` does so too, once a run has terms.

    Raises:
        InputError: Something is there and nothing is resumed, the name ends otherwise, or no file can have it.
    """
    try:
        if not out.name or _is_other(out):
            raise InputError(f"{str(out)!r} is a folder or a device, not a file. Nothing was charged.")
        require_ending(out, endings)
        for file in (out, out.with_name(out.name + CERTIFICATE)):
            if os.path.lexists(file) and not resume:
                raise InputError(
                    f"{file} exists already, and rows that were paid for are not overwritten. Choose another --out, or "
                    "move it away. Nothing was charged."
                )
            with suppress(FileNotFoundError):
                file.lstat()  # a name that is too long is found out now
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}). Nothing was charged.") from None


def _lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows).encode("utf-8")


def _is_other(file: Path) -> bool:
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return False
