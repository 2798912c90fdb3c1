"""Crash-safe checkpoints of runs that are drawn: save, record in the ledger, then release. A crash loses and repeats
nothing.

A run has a folder beside its output, ``OUT.partial``, as private as the records until the run is over. Each round of
texts, or the whole of a fit, is written there whole, then the ledger notes that it leaves, with the hash of that file,
and only then is it handed over. On a resume a file that the ledger knows by its hash is handed over, and so is a whole
file that was not noted yet, once it is: it was drawn under the charge, somebody may have seen it, and a second draw
would be one too many. A round that never was whole on the disk is drawn anew under another charge. One process at a
time works in a folder, and a run reads, writes and removes no folder but the one that it opened (``RunFolder``).

``carry_out`` is the one way in which a run ends, for every command: its output and its certificate are kept whole in
the folder and noted there by their hashes, they are moved to their places, and the folder gets a name that nothing
resumes. Once they are noted nothing is drawn again: a resume before the last step moves what was kept, and after it
there is no run to be found. A certificate and an output that are there together are of one set of rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, final

from sottovoce.errors import InputError, LostDrawError
from sottovoce.files.requests import is_compared
from sottovoce.files.run_folder import HEADER, RunFolder, ended_beside, no_run
from sottovoce.files.tables import ENDINGS, encoded, require_ending

CERTIFICATE: Final = ".certificate.json"
"""What is appended to the output's name for its certificate."""

_FINISHED: Final = "finished.json"
"""What the output and its certificate hold, by their hashes; there once the run has drawn everything."""
_UNSPOKEN: Final = "records and ledger"
"""A term whose value follows from the records: that it differs is said, and nothing else."""
_HASHED: Final = ("question texts", "question ids", "public texts")
"""Terms that are kept as hashes, which would tell nobody anything."""
_RUN_STATE: Final = {"run": re.compile(r"[0-9a-f]{1,32}"), "version": re.compile(r"\d[0-9A-Za-z.+!-]{0,63}")}
"""Form of what a run remembers."""
_OUT: Final = "out"
_PROOF: Final = "certificate"
_KEPT: Final = {_PROOF: "whole-certificate", _OUT: "whole-out"}
"""Files of the folder that are moved to their places when both are whole."""
_ENDING: Final = "ending"
"""What the output's name ended in when it was kept, and so the format that it is in."""
_LEFT_OUT: Final = "left out"
"""Numbers of what was lost and is not in the output."""
_SHARED: Final = 0o666
"""Mode of what is moved out of the folder, less what the process masks, as for every other output."""
_ROOM: Final = "room"
_LAST_ROOM: Final = "room-out"
"""Takes up room for the output, which is written while the last round still stands."""

T = TypeVar("T")

Terms = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
"""What is asked for, from the terms that a run began with (none for a new one) and from what it remembers."""


@final
@dataclass(frozen=True)
class Output:
    """What a run writes at its end.

    Attributes:
        content: Of the file.
        certificate: What goes beside it; empty where the file holds its own.
        left_out: Numbers of the rounds or questions whose draw was lost, and that are not in it.
    """

    content: bytes
    certificate: str = ""
    left_out: Collection[int] = ()

    @classmethod
    def of_rows(
        cls, rows: Sequence[Mapping[str, Any]], out: Path, certificate: str = "", left_out: Collection[int] = ()
    ) -> Output:
        """Rows in the format that the output's name asks for."""
        return cls(encoded(rows, out), certificate, left_out)


@final
class Checkpoint:
    """The folder of one run.

    Args:
        out: The file that the run will write. Nothing is overwritten.
        terms: What was asked for, in public words. A resume must ask for the same; where some words follow from the
            machine, a function of the terms that the run began with and of what it remembers.
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
        terms: Mapping[str, Any] | Terms,
        new_run_state: Mapping[str, Any],
        *,
        resume: bool,
        endings: Sequence[str] = ENDINGS,
    ) -> None:
        if not out.name:
            raise InputError(f"{str(out)!r} is a folder or a device, not a file. Nothing was charged.")
        self.out, self.folder = out, folder_of(out)
        self.proof = out.with_name(out.name + CERTIFICATE)
        self._resumed = resume
        self._is_saved = False
        self._held: RunFolder | None = None
        try:
            require_place(out, resume=resume, endings=endings)
            if not resume:
                require_no_run(out)
            elif not os.path.lexists(self.folder):
                is_out = f"; {out} is there, and has no folder beside it" if os.path.lexists(out) else ""
                told = [f"There is nothing to resume: {self.folder.name} does not exist{is_out}. Nothing was charged."]
                raise InputError(" ".join([*told, *map(_as_private, ended_beside(out))]))
            of_run: Terms = terms if callable(terms) else lambda begun, run_state: terms
            if resume:
                self.run_state = self._opened(of_run, new_run_state)
            else:
                self.run_state = self._begun(of_run({}, new_run_state), new_run_state)
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
        if self._held is not None:
            self._held.close()

    @property
    def is_finished(self) -> bool:
        """Whether the run noted what its output holds, so that nothing is drawn again."""
        return _OUT in self._noted.hashes

    def is_left_out(self, number: int, what: str, *, said: bool) -> bool:
        """Whether something that is not whole in the folder is not in the output either.

        Args:
            number: Of the round or the question.
            what: What it is called in the error.
            said: Whether the user said to leave out what was lost.

        Returns:
            ``False`` where the run has not noted its output yet, and it may be drawn.

        Raises:
            LostDrawError: The output that was noted holds it, and the user did not say so. Nothing was charged.
        """
        noted = self._noted
        if _OUT not in noted.hashes:
            return False
        if not said and number not in noted.left_out:
            raise LostDrawError(
                f"{what} {number} is in the output that this run noted, and is missing from {self.folder} or was "
                "changed in it. It is paid and is not drawn again: restore it from a copy of the folder, or pass "
                "--without-lost, which leaves it out. Nothing more was charged."
            )
        return True

    @property
    def is_kept(self) -> bool:
        """Whether all that the run noted is in its place or whole in the folder, in the output's format."""
        noted = self._noted
        return (_OUT in noted.hashes and noted.ending == self._ending) and all(
            (_hash_of_file(file) if os.path.lexists(file) else self._hash_of_kept(name)) == noted.hashes[name]
            for name, file in self._places
            if name in noted.hashes
        )

    def carry_out(self, draw: Callable[[], tuple[T, Output]], note: Callable[[bytes], None] | None = None) -> T | None:
        """Draws what is to be drawn, writes the output whole, its certificate before it, and ends the run.

        Where a run that is resumed kept both whole before, nothing is drawn: they are moved to their places.

        Args:
            draw: Draws, and returns what the caller needs of it and the output.
            note: Writes what else goes beside the output, once the places were looked at and before the output is
                there; it gets the output's content.

        Returns:
            What ``draw`` returned; ``None`` where what was kept before is in its place now.

        Raises:
            InputError: It cannot be written, another file has taken its place, or the folder its name.
        """
        if self.is_kept:
            self._complete(note)
            value = None
        else:
            value, output = draw()
            self._write(output, note)
        self._end()
        return value

    def stopped(self, *, charged: bool, lost: str) -> str:
        """What to tell the user when the run ends before its time. A new run that was not charged is removed.

        Args:
            charged: Whether anything of the run was paid for.
            lost: What becomes of what was being drawn, in a sentence.

        Returns:
            Words that are true of what is on the disk now; empty where nothing is left of the run.
        """
        if self._run.is_over:
            told = [f"{self.out} is whole, and the run is over: nothing is left to resume."]
            return " ".join([*told, *map(_as_private, ended_beside(self.out))])
        if not charged and not self.is_finished and not self._resumed:
            self.abandon()
            return ""
        lost = f" {lost}" if charged else ""
        if not self._run.has_name():
            if _has_noted(self._run, _OUT, self.out):
                return ""  # the output is in its place, and the error says what became of the folder
            paid = "The run is charged, and its" if charged else "The run's"
            return (
                f"{paid} folder {self.folder} was moved or removed while it was under way. If it was moved, what was "
                "drawn is in it: move it back, once that name is free, and repeat the command with --resume to go on."
                f"{lost}"
            )
        if self._is_placed:
            return f"{self.out} is whole, and --resume charges nothing and removes what is left of its run."
        if self.is_finished:
            lost = " All of it was drawn, and nothing is charged again."
        elif self._is_saved:
            lost = " What was drawn is whole there, and is not charged again."
        paid = "charged and " * charged
        return f"The run is {paid}kept in {self.folder}; repeat the command with --resume to go on.{lost}"

    def make_room(self, size: int, last: int = 0) -> None:
        """Takes up so many bytes of the disk, which the next ``save`` gives back for the round that it writes.

        Whether a round can be saved, or the output written beside it, must not follow from what was drawn.

        Args:
            size: Of the round.
            last: Of the output and its certificate, which ``finish`` gives back; 0 where more rounds are to come.

        Raises:
            InputError: There is no room, or the folder is gone. Nothing was drawn.
        """
        try:
            for name, bytes_ in ((_ROOM, size), (_LAST_ROOM, last)):
                if bytes_:
                    self._run.take_up(name, bytes_)
        except OSError as error:
            for name in (_ROOM, _LAST_ROOM):
                with suppress(OSError):
                    self._run.remove(name)
            raise InputError(
                f"{self.folder} has no room for {size + last} bytes ({_reason(error)}). What was charged stands, and "
                "nothing was drawn; make room and pass --resume."
            ) from None

    def save(self, name: str | int, rows: Sequence[Mapping[str, Any]]) -> str:
        """Saves a round under the name of its charge, durably, and returns its hash.

        Raises:
            InputError: It cannot be written.
        """
        return self.save_bytes(
            name, _lines(rows), "make room and pass --resume, which charges this again: it was drawn"
        )

    def save_bytes(
        self, name: str | int, content: bytes, remedy: str, error_type: type[InputError] = InputError
    ) -> str:
        """Saves what was drawn under the name of its charge, durably, and returns its hash.

        Args:
            name: Of the charge.
            content: What was drawn.
            remedy: What is to be done where it cannot be written, for the error.
            error_type: ``LostDrawError`` where a resume does not lead on.

        Raises:
            InputError: It cannot be written; or it was, and the system failed after it. Of ``error_type`` where it is
                not whole in the folder.
        """
        try:
            self._run.remove(_ROOM)
            self._run.write(_file(name), content)
        except OSError as error:
            if self._holds(name, content):
                self._is_saved = True
                raise InputError(
                    f"{self.folder} cannot be written ({_reason(error)}). What was drawn is whole in it all the same: "
                    "mend that and pass --resume, which does not charge it again."
                ) from None
            raise error_type(
                f"{self.folder} cannot be written ({_reason(error)}). What was charged stands; {remedy}."
            ) from None
        return hashlib.sha256(content).hexdigest()

    def _holds(self, name: str | int, content: bytes) -> bool:
        """Whether what was to be saved is there, whatever the system said of it: a resume finds it then."""
        try:
            return self.found_bytes(name) == content
        except InputError:
            return False

    def load(self, name: str | int, content: str | None) -> list[dict[str, Any]] | None:
        """A round that was saved, if it has this hash; another file is left as it is."""
        saved = self.found(name)
        return saved[0] if saved is not None and saved[1] == content else None

    def found(self, name: str | int) -> tuple[list[dict[str, Any]], str] | None:
        """A round that was saved, whatever the ledger knows of it, and its hash."""
        text = self._run.read(_file(name))
        if text is None:
            return None
        try:
            rows = [json.loads(line) for line in text.decode("utf-8").split("\n") if line]
        except (ValueError, RecursionError):
            return None
        return rows, hashlib.sha256(text).hexdigest()

    def found_bytes(self, name: str | int) -> bytes | None:
        """What ``save_bytes`` saved, whatever the ledger knows of it; it is whole, since it is renamed when it is."""
        return self._run.read(_file(name))

    def _complete(self, note: Callable[[bytes], None] | None) -> None:
        """Moves to their places the output and the certificate that the run kept whole."""
        self._require_name()
        noted = self._noted.hashes
        with self._writing():
            if note is not None:
                note(self.out.read_bytes() if self.out.exists() else self._run.read(_KEPT[_OUT]) or b"")
            self._place({name: file for name, file in self._places if name in noted}, noted)

    def _write(self, output: Output, note: Callable[[bytes], None] | None) -> None:
        """Keeps the output and its certificate whole, notes them, and moves them to their places."""
        texts = {_PROOF: output.certificate.encode("utf-8")} if output.certificate else {}
        texts[_OUT] = output.content
        files = {name: file for name, file in self._places if name in texts}
        self._require_name()
        hashes = self._settled(files, {name: _hash(text) for name, text in texts.items()})
        with self._writing():
            self._run.remove(_LAST_ROOM)
            self._remove_old_proof(files, hashes)
            for name, file in files.items():
                if not os.path.lexists(file):
                    self._run.write(_KEPT[name], texts[name], mode=_SHARED)
            finished = {**hashes, _ENDING: self._ending, _LEFT_OUT: sorted(output.left_out)}
            self._run.write(_FINISHED, json.dumps(finished).encode("utf-8"))
            if note is not None:
                note(output.content)
            self._place(files, hashes)

    def _remove_old_proof(self, files: Mapping[str, Path], hashes: Mapping[str, str]) -> None:
        """Removes a certificate that this run noted and wrote, of rows that are not there."""
        if _PROOF in files and os.path.lexists(self.proof):
            seen = _hash_of_file(self.proof)
            if seen not in (hashes[_PROOF], self._noted.hashes.get(_PROOF)):
                raise self._is_another(self.proof)
            if seen != hashes[_PROOF]:
                self.proof.unlink()

    def _settled(self, files: Mapping[str, Path], given: Mapping[str, str]) -> Mapping[str, str]:
        """Hashes of what is to be in its place at the end: what is given, or what was noted where the output is there.

        Raises:
            InputError: What is there is another file, or its certificate is gone and cannot be made again.
        """
        there = {name: _hash_of_file(file) for name, file in files.items() if os.path.lexists(file)}
        if there.items() <= given.items():
            return given
        noted = self._noted.hashes
        for name, hash_ in there.items():
            if hash_ is None or noted.get(name) != hash_:  # None is a folder, or a link to nothing
                raise self._is_another(files[name])
        if _OUT not in there:
            return given
        if any(given[name] != noted.get(name) for name in files if name not in there):
            raise InputError(
                f"{self.out} was written by this run, its certificate is gone, and another one would be made now. "
                f"Restore {self.proof}, or move {self.out} away, and pass --resume. Nothing more was charged."
            )
        return {name: noted[name] for name in files}

    def _require_name(self) -> None:
        if not self._run.has_name():
            raise InputError(
                f"{self.folder} was moved, removed or replaced while this run was under way. What has that name now "
                "was left as it is, and no output was written."
            )

    @property
    def _ending(self) -> str:
        return self.out.suffix.lower()

    @property
    def _places(self) -> tuple[tuple[str, Path], ...]:
        return (_PROOF, self.proof), (_OUT, self.out)

    @property
    def _noted(self) -> _Noted:
        return _noted(self._run)

    @property
    def _is_placed(self) -> bool:
        """Whether all that the run noted is in its place."""
        hashes = self._noted.hashes
        return _OUT in hashes and all(
            _hash_of_file(file) == hashes.get(name) for name, file in self._places if name in hashes
        )

    def _hash_of_kept(self, name: str) -> str | None:
        kept = self._run.read(_KEPT[name])
        return None if kept is None else _hash(kept)

    def _place(self, files: Mapping[str, Path], hashes: Mapping[str, str]) -> None:
        """Moves what is kept to its place, unless it is there; another file is refused, and what is kept stays."""
        for name, file in files.items():
            if not os.path.lexists(file):
                self._run.place(_KEPT[name], file)
            elif _hash_of_file(file) != hashes[name]:
                raise self._is_another(file)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            raise self._is_another(error.filename2 or error.filename) from None
        except OSError as error:
            raise InputError(
                f"{self.out} cannot be written ({error.strerror}). What was drawn is kept in {self.folder}; make "
                "room and pass --resume."
            ) from None

    def _end(self) -> None:
        """Ends the run, whose output is in its place.

        Raises:
            InputError: Its folder was moved, or cannot be removed.
        """
        try:
            self._run.end(self.out)
        except FileNotFoundError:
            raise InputError(
                f"{self.out} is written, and its folder {self.folder} was moved, removed or replaced meanwhile. What "
                "has that name now was left as it is. If the folder was moved, it is as private as the records: "
                "remove it."
            ) from None
        except OSError as error:
            left = self._run.ended if self._run.is_over else self.folder
            raise InputError(
                f"{self.out} is written, and its folder {left} cannot be removed ({error.strerror or error}). It is as "
                "private as the records: remove it."
            ) from None
        self.close()

    def _is_another(self, file: object) -> InputError:
        return InputError(
            f"{file} came up meanwhile and is another file. What was drawn is kept in {self.folder}; move the file "
            f"away, with {self.out.name}.run where that is beside it, and pass --resume."
        )

    def abandon(self) -> None:
        """Removes the folder of a new run that was never charged, while it is locked; no other folder."""
        if not self._resumed and not self._run.is_over:
            with suppress(OSError, InputError):
                self._run.end(self.out)
        self.close()

    @property
    def _run(self) -> RunFolder:
        assert self._held is not None
        return self._held

    def _begun(self, terms: Mapping[str, Any], new_run_state: Mapping[str, Any]) -> dict[str, Any]:
        header = json.dumps({"terms": terms, "kept": new_run_state}, indent=1).encode("utf-8")
        self._held = RunFolder.create(self.folder, header, self.out)
        return dict(new_run_state)

    def _opened(self, terms: Terms, new_run_state: Mapping[str, Any]) -> dict[str, Any]:
        self._held = RunFolder(self.folder)
        before, run_state = self._header(new_run_state)
        now = json.loads(json.dumps(terms(before, run_state)))
        names = [name for name in {**before, **now} if is_compared(name, before, now)]
        if changed := [name for name in names if before.get(name) != now.get(name)]:
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
        for name, file in self._places:
            if os.path.lexists(file) and not _has_noted(self._run, name, file):
                whole = (
                    " If it is the output of this very run, nothing is left to resume: move the folder away. If not, "
                    "move"
                )
                told = whole if os.path.lexists(self.out) else " Move"
                raise InputError(
                    f"{file} is there, and the run in {self.folder.name} did not note it as its own.{told} the file "
                    "away and pass --resume. Nothing was charged."
                )
        return run_state

    def _header(self, new_run_state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The terms of the run in the folder, and what it remembers."""
        try:
            header = json.loads(self._run.read(HEADER) or b"")
            before, run_state = dict(header["terms"]), dict(header["kept"])
            if run_state.keys() != new_run_state.keys():
                raise ValueError
            for name, value in run_state.items():
                if not _RUN_STATE[name].fullmatch(value):
                    raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise no_run(self.folder) from None
        return before, run_state


def beside_finished(out: Path) -> str:
    """Ends the run whose output is there whole, where it was stopped just before; says what else is left beside it.

    Args:
        out: An output that is known to be finished.

    Returns:
        Words for the user; empty where nothing is left.
    """
    folder = folder_of(out)
    told = []
    with suppress(InputError, OSError):
        run = RunFolder(folder)
        try:
            if _has_noted(run, _OUT, out):
                run.end(out)
        finally:
            run.close()
    if os.path.lexists(folder):
        told.append(
            f"{folder} is there beside {out}. It was neither read nor changed. If an earlier run left it, it is as "
            f"private as the records: remove it. If it holds another paid run, move {out} away and pass --resume."
        )
    return " ".join([*told, *map(_as_private, ended_beside(out))])


@contextmanager
def naming_folder(out: Path) -> Iterator[None]:
    """Where an output turns out not to be that of this request, says how to go on with the run beside it."""
    try:
        yield
    except InputError as error:
        if not os.path.lexists(folder_of(out)):
            raise
        raise InputError(
            f"{error} {folder_of(out)} is there beside it and was neither read nor changed: to go on with the run in "
            f"it, move {out} away, with {out.name}.run where there is one, and repeat the command of that run with "
            "--resume."
        ) from None


def folder_of(out: Path) -> Path:
    """The folder of the run that writes an output."""
    return out.with_name(out.name + ".partial")


def require_no_run(out: Path) -> None:
    """Refuses an output beside which a run was interrupted, for one that does not resume.

    Raises:
        InputError: Its folder is there, or something else under its name, or it cannot be looked at.
    """
    folder = folder_of(out)
    if not os.path.lexists(folder):
        return
    try:
        RunFolder(folder).close()
    except OSError as error:
        raise InputError(f"{folder} cannot be used ({error.strerror}). Nothing was charged.") from None
    raise InputError(
        f"{folder.name} holds an interrupted run, which may be paid for. Repeat its command with --resume to go on "
        "with it, or move the folder away."
    )


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


def _file(name: str | int) -> str:
    return f"round-{name}"


@dataclass(frozen=True)
class _Noted:
    """What a run noted of its output before it was in its place.

    Attributes:
        hashes: Of the output and its certificate; empty where nothing was noted.
        ending: Of the output's name then.
        left_out: Numbers of what was lost and is not in it.
    """

    hashes: Mapping[str, str]
    ending: str
    left_out: frozenset[int]


def _noted(run: RunFolder) -> _Noted:
    try:
        values = dict(json.loads(run.read(_FINISHED) or b"{}"))
        hashes = {name: values[name] for name in _KEPT if isinstance(values.get(name), str)}
        left_out = frozenset(number for number in values.get(_LEFT_OUT, ()) if isinstance(number, int))
        return _Noted(hashes, str(values.get(_ENDING)), left_out)
    except (ValueError, TypeError, RecursionError):
        return _Noted({}, "", frozenset())


def _has_noted(run: RunFolder, name: str, file: Path) -> bool:
    """Whether a run noted that this is its output, or the certificate, before it wrote it."""
    noted = _noted(run).hashes.get(name)
    return noted is not None and noted == _hash_of_file(file)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash_of_file(file: Path) -> str | None:
    """The hash of what is in an output; ``None`` where it is no file that can be read."""
    try:
        return _hash(file.read_bytes()) if file.is_file() else None
    except OSError:
        return None


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it was removed while this run was under way"
    return error.strerror or str(error)


def _as_private(left: Path) -> str:
    return f"{left} is left of a run that is over. It is as private as the records: remove it."


def _is_other(file: Path) -> bool:
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return False
