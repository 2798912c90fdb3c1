"""Answer rows on their way out: to stdout, or to a file that appears whole or not at all.

While a run lasts, rows are appended to FILE.partial in JSON Lines, and each is on the disk before the next batch is
charged. Room for the longest rows of a batch is taken up before it is charged. A file of another format is made of it
at the end. FILE.run says of which run they are: what was asked, of which records, under which ledger. ``--resume`` goes
on with that run alone, and finds nothing to do where it is finished. Answers that were paid are not thrown away: of the
partial file only a torn last line is cut off, and any other damage is refused before anything is charged. A batch that
was charged, and whose answers never came to be in the file, is charged again under new ids.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, final

from sottovoce.cli.console import LOST, LOST_WITHOUT_FILE, losing, put, say
from sottovoce.errors import InputError, RecordError, SottoError
from sottovoce.files.outputs import new_file, refuse_existing, require_name, target, write_new
from sottovoce.files.partial import PartialFile, is_torn, rows_of
from sottovoce.files.requests import is_compared
from sottovoce.files.tables import cell_of, decoded, encoded, is_table
from sottovoce.store import private_name
from sottovoce.terminal import json_text

if TYPE_CHECKING:
    from sottovoce.models.base import Isolation
    from sottovoce.records.sealed import PrivateRecords, PublicRecords, Row

PARTIAL: Final = ".partial"
RUN: Final = ".run"
FORMAT: Final = 1
_HEADER: Final = "sottovoce_run"
_ANSWERS: Final = "answers"
_ISOLATION: Final = "isolation"


def by_id(questions: PublicRecords) -> dict[str, Row]:
    """Questions by their ids, or by their lines where they have none.

    Raises:
        RecordError: Two have one id.
    """
    from sottovoce.records.sealed import is_missing

    found: dict[str, Row] = {}
    for row in questions:
        value = row.values.get("id")
        row_id = str(row.line if is_missing(value) else value)
        if row_id in found:
            raise RecordError(
                "the id is that of an earlier row",
                file=questions.source,
                line=row.line,
                field="id",
                hint="Every question needs an id of its own; without the column 'id' they are numbered.",
            )
        found[row_id] = row
    return found


def require_asked(parts: Iterable[PublicRecords], queries: str, *, beside: PrivateRecords | None) -> None:
    """Refuses questions that are private records, among them those that they are asked of: before a ledger is opened
    for these, from when on they would be known.

    Args:
        parts: All questions, and those that are asked: a part can be somebody's where the whole is not.
        queries: The file that they are from, as it was typed.
        beside: The records that answer them; ``None`` where none are read.

    Raises:
        InputError: Most of them are.
        LedgerUnavailableError: The trusted store cannot be used.
    """
    from sottovoce.privacy.ledger.known_records import require_public

    for rows in parts:
        require_public(rows, f"--queries {queries}", beside=beside)


@final
@dataclass(frozen=True)
class Run:
    """What tells one run from any other.

    Attributes:
        public: Method, price and the like, in words; shown where a resume asks for something else.
        hidden: Records, ledger and questions. Who reads the file must not be able to check a guess of them, so only
            hashes under the trusted store's key are kept.
    """

    public: Mapping[str, Any]
    hidden: Mapping[str, str]

    def text(self, isolation: Isolation | None = None) -> str:
        """As it is kept beside the answers.

        Args:
            isolation: What can be said of the model for all of them, which is no part of what tells runs apart.

        Raises:
            InputError: The trusted store cannot be used.
        """
        try:
            keyed = {name: private_name(f"run {name} {value}") for name, value in self.hidden.items()}
        except (OSError, ValueError) as error:
            raise InputError(
                f"The trusted store cannot be used ({getattr(error, 'strerror', None) or error}). Its key tells runs "
                "apart. Mend that and run it again. Nothing was charged."
            ) from None
        kept = {} if isolation is None else {_ISOLATION: isolation.value}
        return json.dumps({_HEADER: FORMAT, "public": self.public, "keyed": keyed, **kept}, indent=1) + "\n"


def refuse_taken(out: str | os.PathLike[str]) -> None:
    """Refuses a place where answers are, or anything else, for a run that does not resume.

    Raises:
        InputError: Something is there, or no file can be.
    """
    path = target(out)
    if os.path.lexists(path.with_name(path.name + PARTIAL)):
        raise InputError(
            f"{path.name}{PARTIAL} is of an interrupted run, and may hold paid answers. Pass --resume to go on with "
            f"it, or move the file away, together with {path.name}{RUN}, without which it cannot be resumed."
        )
    if os.path.lexists(path):
        raise InputError(
            f"{path.name} exists already and is not overwritten. Name another file, or move it away together with "
            f"{path.name}{RUN}, by which its run is known; or pass --resume, which charges nothing if it holds all "
            "answers of this very run. Nothing was charged."
        )


def begun_with(out: str | os.PathLike[str]) -> Mapping[str, Any] | None:
    """The public words of the run that left answers there; ``None`` where none can be read."""
    path = target(out)
    run = _read_run(path.with_name(path.name + RUN)) if is_begun(out) else None  # or a note whose answers are gone
    return run["public"] if run else None


def is_begun(out: str | os.PathLike[str]) -> bool:
    """Whether a run left answers there, whole or not, or began to."""
    path = target(out)
    return any(os.path.lexists(file) for file in (path, path.with_name(path.name + PARTIAL)))


def hash_of(values: Iterable[Any]) -> str:
    """A hash of values in their order, for ``Run.hidden``."""
    digest = hashlib.sha256()
    for value in values:
        text = json.dumps(value, sort_keys=True, default=repr).encode("utf-8")
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


def hash_of_questions(questions: Mapping[str, Any]) -> str:
    """A hash of questions by their ids, in their order: an answer in a file belongs to both."""
    return hash_of(questions.items())


class AnswerSink:
    """Writes answer rows.

    Args:
        out: The file, or ``None`` for stdout.
        run: What is asked now.
        ids: Of all questions, in their order.
        fits: Whether a row that is found is a whole answer under the terms of this run.
        resume: Resume an interrupted run.
        hold: Keep the rows in memory instead of printing them, for ``--json`` without a file.

    Attributes:
        rows: The answers so far, of an interrupted run too.
        finished: Whether the file was there already and holds all answers of this run.
        isolation: What can be said of the model for all answers so far; ``None`` where nothing was noted of them.

    Raises:
        InputError: The file cannot be written, something else is in its place, or what is there is of another run or
            is damaged.
    """

    def __init__(
        self,
        out: str | os.PathLike[str] | None,
        run: Run,
        ids: Sequence[str],
        fits: Callable[[Mapping[str, Any]], bool],
        *,
        resume: bool,
        hold: bool,
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.finished = False
        self.isolation: Isolation | None = None
        self._noted: Isolation | None = None
        self._run, self._hold, self._ids, self._fits = run, hold, ids, fits
        self._waiting = 0
        self._found = False
        self._file: PartialFile | None = None
        if out is None:
            return
        self._path = target(out)
        self._partial, self._header = (self._path.with_name(self._path.name + end) for end in (PARTIAL, RUN))
        try:
            self._open(run.text(), resume=resume)
            self.isolation = self._noted = isolation_noted(self._header)
        except OSError as error:
            self._close()
            raise InputError(f"{out} cannot be written ({error.strerror}). Nothing was charged.") from None
        except BaseException:
            self._close()
            raise

    def make_room(self, longest: Sequence[Mapping[str, Any]], isolation: Isolation) -> None:
        """Takes up room for answers that are paid for next, which ``add`` gives back for them.

        Whether paid answers can be written must not follow from what was drawn, and what has no room is not paid for.
        What the model says is noted now, too: once the answers are paid for, nothing else is written than they.

        Args:
            longest: Rows as long as any that these answers can have.
            isolation: What the model says before it reads records for them.

        Raises:
            InputError: There is no room, or what is noted of the run cannot be written.
        """
        if self._file is not None:
            more = "more " if self._found or self.rows else ""  # a run can be killed behind its first charge
            try:
                self._note(self._together(isolation))
            except (OSError, InputError):
                raise InputError(
                    f"{self._header} is another file now, or cannot be written. Nothing {more}was charged; move that "
                    f"file away, or make room{' and pass --resume' if self.rows else ''}."
                ) from None
            size = len(_lines(longest))
            try:
                self._file.take_up(size)
            except OSError as error:
                raise InputError(
                    f"{self._partial.parent} has no room for {size} bytes of answers ({error.strerror}). Nothing {more}"
                    f"was charged; make room{' and pass --resume' if self.rows else ''}."
                ) from None
        self._waiting = len(longest)

    def add(self, rows: list[dict[str, Any]], isolation: Isolation) -> None:
        """Takes released answers that were paid for together; what cannot be written goes to stdout.

        Args:
            rows: The answers.
            isolation: What was seen of the model once it had read records for them.
        """
        self.isolation = self._together(isolation)
        if self._file is not None:
            try:
                self._file.append(_lines(rows))
            except OSError as error:
                self._put(rows)
                raise InputError(
                    f"{self._partial} cannot be written ({error.strerror}); the last {len(rows)} answers were paid "
                    "and are on stdout. Those of them that are not in a file are charged again where they are asked "
                    "again."
                ) from None
        elif not self._hold:
            self._put(rows)
        self._waiting = 0
        self.rows.extend(rows)

    def _together(self, isolation: Isolation) -> Isolation:
        """What can be said for all answers, where this is said for the last ones."""
        from sottovoce.models.base import weakest

        return weakest([isolation, self.isolation or isolation])

    def _note(self, isolation: Isolation) -> None:
        """Notes what can be said of the model for all answers, where that is less than was noted."""
        if isolation is not self._noted:
            write_new(self._header, self._run.text(isolation), replaces=partial(_is_of, self._run))
            self._noted = isolation

    def _note_or_say(self) -> None:
        """Notes what was seen of the model as it read the last records; the answers are in their place without it."""
        if self.isolation is not None and self.isolation is not self._noted:
            try:
                self._note(self.isolation)
            except (OSError, InputError):
                say(
                    f"{self._header} is another file now, or cannot be written. It does not note what was seen of the "
                    f"model: {self.isolation.value}."
                )

    def __enter__(self) -> AnswerSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told = kind is None or issubclass(kind, SottoError | BrokenPipeError)  # an error says itself what was charged
        lost = 0 if told else self._lost()
        self._leave(kind)
        if lost:
            missing = "were not printed" if self._file is None else "are in no file"
            say(f"Up to {lost} more answers may have been charged that {missing}; asked again, they are charged again.")

    def _lost(self) -> int:
        """How many answers may have been paid for and did not come to where they go."""
        if self._file is None or not self._waiting:
            return self._waiting
        kept = len(self.rows)
        with suppress(OSError):
            kept = self._file.read().count(b"\n")  # an interruption may come between the disk and the list
        return max(0, len(self.rows) + self._waiting - kept)

    def _leave(self, kind: type[BaseException] | None) -> None:
        if self._file is None:
            if self._hold and kind is not None and self.rows:
                say(f"{len(self.rows)} answers were paid before the run ended; they are on stdout, a row a line.")
                self._put(self.rows)
            return
        try:
            if kind is None:
                self._note_or_say()
                self._finish_or_say(self._file)
            elif not self._file.is_empty:  # whatever is in the list: an interruption may come before it is there
                self._say_kept()
            elif self._file.is_at(self._partial):
                # First what says of which run it is: once the partial file is gone, another run may have the name.
                with suppress(OSError):  # a later run finds both; what ended this one is what is told
                    if _is_of(self._run, self._header):  # it can be another file by now
                        self._header.unlink(missing_ok=True)
                    self._file.remove()
        finally:
            self._close()

    def _open(self, now: str, *, resume: bool) -> None:
        if not resume:
            refuse_taken(self._path)
        if os.path.lexists(self._partial):
            self._file, self._found = PartialFile(self._partial, fresh=False), True
            if os.path.lexists(self._path):
                self._drop_second_name(self._file)
                self._find_finished(now)
            else:
                self._resume(self._file, now)
        elif os.path.lexists(self._path):
            self._find_finished(now)
        else:
            self._begin(now)

    def _begin(self, now: str) -> None:
        refuse_existing(self._header, _is_run)
        self._file = PartialFile(self._partial, fresh=True)
        try:
            write_new(self._header, now, replaces=_is_run)
        except BaseException:
            self._file.remove()
            raise

    def _drop_second_name(self, file: PartialFile) -> None:
        """Ends a run that was stopped as it gave the whole file its name."""
        if not file.is_at(self._path) and not self._is_converted(file):
            raise InputError(
                f"{self._path.name} is there beside {self._partial.name}, which holds paid answers. Move one of "
                "them away. Nothing was charged."
            )
        if not file.remove() and file.is_at(self._partial):
            self._say_twice()
        file.close()
        self._file = None

    def _is_converted(self, file: PartialFile) -> bool:
        """Whether the file that is there was made of the partial one."""
        if not is_table(self._path):
            return False
        try:
            rows, torn = self._whole_rows(file.read(), self._partial)
        except InputError:
            return False
        return not torn and decoded(self._path.read_bytes(), self._path) == self._as_written(rows)

    def _as_written(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """Rows as they are read back from a table."""
        return decoded(encoded(rows, self._path, shown=True), self._path)

    def _resume(self, file: PartialFile, now: str) -> None:
        content = file.read()
        if not content and not self._header.exists():  # stopped before anything was charged
            write_new(self._header, now)
        try:
            _require_same(self._header, now, self._partial)
        except InputError as error:
            if content:
                raise
            raise InputError(f"{error} {self._partial.name} holds no answers and may be removed.") from None
        rows, torn = self._whole_rows(content, self._partial)
        following = self._ids[len(rows) : len(rows) + 1]
        if torn and not any(is_torn(torn, json_text({"id": row_id})[:-1]) for row_id in following):
            raise _damaged(self._partial, len(rows) + 1)
        file.keep(content[: len(content) - len(torn)])
        self.rows = rows

    def _find_finished(self, now: str) -> None:
        _require_same(self._header, now, self._path)
        content = self._path.read_bytes()
        rows, torn = self._rows_of_table(content) if is_table(self._path) else self._whole_rows(content, self._path)
        if torn or len(rows) != len(self._ids):
            raise _changed(self._path)
        self.rows, self.finished = rows, True

    def _rows_of_table(self, content: bytes) -> tuple[list[dict[str, Any]], bytes]:
        """The answers in a finished table of this run; none where it is another, or was changed."""
        rows = decoded(content, self._path) or []
        for row, row_id in zip(rows, self._ids, strict=False):
            escapes = self._path.suffix.lower() == ".csv"
            if row.get("id") != (cell_of(row_id, shown=True) if escapes else row_id):
                return [], b""
            row["id"] = row_id
        return (rows if all(map(self._fits, rows)) else []), b""

    def _whole_rows(self, content: bytes, file: Path) -> tuple[list[dict[str, Any]], bytes]:
        """The answers in a file of this run, and a torn line behind them.

        Raises:
            InputError: A row is damaged, lacks something, or is not the answer that belongs there.
        """
        rows, torn = rows_of(content, lambda number: _damaged(file, number))
        for number, row in enumerate(rows, 1):
            if number > len(self._ids) or row.get("id") != self._ids[number - 1] or not self._fits(row):
                raise _damaged(file, number)
        return rows, torn

    def _put(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Prints answers that are in no file."""
        with losing(LOST_WITHOUT_FILE if self._file is None else f"{LOST}."):
            for row in rows:
                put(row)

    def _say_kept(self) -> None:
        say(f"Paid answers are in {self._partial}; run again with --resume to continue.")

    def _say_twice(self) -> None:
        say(f"{self._partial} holds the same answers and cannot be removed. Remove it.")

    def _finish_or_say(self, file: PartialFile) -> None:
        try:
            self._finish(file)
        except InputError:
            raise
        except BaseException:
            if file.is_at(self._partial):
                self._say_kept()
            raise
        if file.is_at(self._partial):
            self._say_twice()

    def _finish(self, file: PartialFile) -> None:
        try:
            if is_table(self._path) and file.is_at(self._partial):
                self._convert(file)
            else:
                file.place(self._path)
        except OSError as problem:
            if not file.is_at(self._partial):
                self._put(self.rows)
                raise InputError(
                    f"{self._partial} was moved, removed or replaced meanwhile; all {len(self.rows)} paid answers are "
                    "on stdout."
                ) from None
            reason = "another file came up there" if isinstance(problem, FileExistsError) else problem.strerror
            raise InputError(
                f"{self._path} cannot be written ({reason}). The answers are whole, in {self._partial}; make room and "
                "pass --resume."
            ) from None

    def _convert(self, file: PartialFile) -> None:
        try:
            with new_file(self._path) as stream:
                stream.write(encoded(self.rows, self._path, shown=True))
        except InputError as problem:
            raise InputError(
                f"{problem} The answers are whole, in {self._partial}; mend that and pass --resume."
            ) from None
        file.remove()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


def require_note_place(out: Path) -> None:
    """Refuses an output beside which what says that its run is finished cannot be.

    Raises:
        InputError: Another file is there, or no file can have its name. Nothing was charged.
    """
    path = target(out)
    header = path.with_name(path.name + RUN)
    require_name(header)
    refuse_existing(header, _is_run)


@final
class FinishedRun:
    """What says beside a file of answers that a run is finished, where the run itself is kept in a folder.

    Args:
        out: The file.
        run: What is asked now.

    Raises:
        InputError: The trusted store cannot be used, or the file beside is another one. Nothing was charged.
    """

    def __init__(self, out: Path, run: Run) -> None:
        self._path, self._run = target(out), run
        self._header = self._path.with_name(self._path.name + RUN)
        run.text()
        require_note_place(out)

    def require_own(self) -> None:
        """Refuses to go on beside what another request noted, whose answers are gone; called once a run is resumed.

        Raises:
            InputError: It is so.
        """
        if os.path.lexists(self._header) and not self._path.exists() and not _is_of(self._run, self._header):
            raise InputError(
                f"{self._header.name} belongs to the answers of another run, which came up meanwhile and are gone from "
                "here. Move it to them and pass --resume. Nothing was charged."
            )

    def begin(self) -> None:
        """Forgets what an earlier run noted here, whose answers are gone; called once a new run has its folder."""
        if _is_run(self._header) and not os.path.lexists(self._path):
            try:
                self._header.unlink()
            except OSError as error:
                raise InputError(f"{self._header} cannot be removed ({error.strerror}). Nothing was charged.") from None

    @property
    def isolation(self) -> Isolation | None:
        """What can be said of the model for all answers; ``None`` where that was not noted."""
        return isolation_noted(self._header)

    def note(self, content: bytes, isolation: Isolation | None) -> None:
        """Notes that this is the whole of the answers, in the place of what an earlier run of the same request noted.

        Args:
            content: Of the output.
            isolation: What can be said of the model for all of it.

        Raises:
            InputError: The file beside is another one, or of another run, or cannot be written.
        """
        from sottovoce.models.base import weakest

        known = [each for each in (isolation, self.isolation) if each is not None]
        try:
            text = self._text(content, weakest(known) if known else None)
            write_new(self._header, text, replaces=partial(_is_of, self._run))
        except InputError:
            raise InputError(
                f"{self._header} came up meanwhile and is another file, or cannot be written. What was drawn is paid "
                "and kept: move that file away, or make room, and pass --resume."
            ) from None

    def rows(self) -> list[dict[str, Any]]:
        """The answers of the finished run.

        Raises:
            InputError: They are of another run, or were changed.
        """
        content = self._path.read_bytes()
        text = self._text(content)
        _require_same(self._header, text, self._path, but=(_ANSWERS,))
        run = _read_run(self._header)
        if run is None or run["keyed"].get(_ANSWERS) != json.loads(text)["keyed"][_ANSWERS]:
            raise _changed(self._path)
        if is_table(self._path):
            return decoded(content, self._path) or []
        return rows_of(content, lambda number: _damaged(self._path, number))[0]

    def _text(self, content: bytes, isolation: Isolation | None = None) -> str:
        whole = hashlib.sha256(content).hexdigest()
        return replace(self._run, hidden={**self._run.hidden, _ANSWERS: whole}).text(isolation)


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json_text(row) + "\n" for row in rows).encode("utf-8")


def _require_same(header: Path, now: str, file: Path, *, but: Collection[str] = ()) -> None:
    """Compares the run that left a file with the one that is asked for now."""
    before = _read_run(header)
    if before is None:
        raise InputError(
            f"{file.name} cannot be resumed: {header.name}, which says of which run it is, is missing or cannot be "
            "read. Move the file away. Nothing was charged."
        )
    after = json.loads(now)
    for part in ("public", "keyed"):
        earlier, later = before[part], after[part]
        for name in {**earlier, **later}:
            if name in but or not is_compared(name, earlier, later) or earlier.get(name) == later.get(name):
                continue
            differs = f"{name} {earlier.get(name)!r}, not {later.get(name)!r}" if part == "public" else f"other {name}"
            hint = "" if part == "public" else " (or was begun with another trusted store, see SOTTOVOCE_HOME)"
            raise InputError(
                f"The run in {file.name} has {differs}{hint}. Repeat its command, or name another --out. Nothing "
                "was charged."
            )


def _changed(file: Path) -> InputError:
    return InputError(f"{file.name} was changed since it was written. Move it away. Nothing was charged.")


def _damaged(file: Path, number: int) -> InputError:
    return InputError(
        f"{file.name}, line {number}: not the whole answer that this run wrote there. The answers of this file are "
        f"paid. Restore the line from a copy; or delete it with all lines behind it, keep the rest as {_name(file)}, "
        "and pass --resume, which charges the deleted ones again. Nothing was charged, and the file is as it was."
    )


def _name(file: Path) -> str:
    return file.name if file.name.endswith(PARTIAL) else file.name + PARTIAL


def _read_run(file: Path) -> dict[str, dict[str, Any]] | None:
    """What a run's file says; ``None`` where it is none."""
    try:
        run = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(run, dict) or run.get(_HEADER) != FORMAT:
        return None
    return run if all(isinstance(run.get(part), dict) for part in ("public", "keyed")) else None


def _is_of(run: Run, file: Path) -> bool:
    """Whether a file is what such a run noted, of all its answers or before."""
    try:
        _require_same(file, run.text(), file, but=(_ANSWERS,))
    except InputError:
        return False
    return _is_run(file)


def isolation_noted(header: Path) -> Isolation | None:
    """What a run noted of its model for all its answers; ``None`` where it noted nothing that is known."""
    from sottovoce.models.base import Isolation

    run = _read_run(header) or {}
    with suppress(ValueError):
        return Isolation(run.get(_ISOLATION) or run.get("public", {}).get(_ISOLATION))  # of earlier builds
    return None


def _is_run(file: Path) -> bool:
    return not file.is_symlink() and _read_run(file) is not None
