"""Answer rows on their way out: to stdout, or to a file that appears whole or not at all.

While a run lasts, rows are appended to FILE.partial; each was paid for, so an interrupted run leaves them there, and
``--resume`` goes on behind them without paying again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from sottovoce.cli.console import put, say
from sottovoce.errors import InputError


class AnswerSink:
    """Writes answer rows.

    Args:
        out: The file, or ``None`` for stdout.
        resume: Go on behind the rows of an interrupted run.
        hold: Keep the rows in memory instead of printing them, for ``--json`` without a file.

    Raises:
        InputError: The file cannot be written, or the remains of an interrupted run are in the way.
    """

    def __init__(self, out: str | None, *, resume: bool, hold: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self._hold = hold
        self._path = _target(out) if out else None
        self._partial = self._path.with_name(self._path.name + ".partial") if self._path else None
        self._stream: Any = None
        if self._partial is None:
            if resume:
                raise InputError("--resume needs --out: it reads the answers that an interrupted run left beside it.")
            return
        if self._partial.exists() and not resume:
            raise InputError(
                f"{self._partial.name} holds paid answers of an interrupted run. Pass --resume to go on behind them, "
                "or move the file away."
            )
        try:
            if self._partial.exists():
                self.rows = _keep_whole_rows(self._partial)
            self._stream = self._partial.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{out} cannot be written ({error.strerror}). Nothing was charged.") from None

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Takes released answers that were paid for together; what cannot be written goes to stdout."""
        if self._stream is not None:
            try:
                self._stream.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
                self._stream.flush()
            except OSError as error:
                for row in rows:
                    put(row)
                raise InputError(
                    f"{self._partial} cannot be written ({error.strerror}); the last {len(rows)} answers were paid "
                    "and are on stdout."
                ) from None
        elif not self._hold:
            for row in rows:
                put(row)
        self.rows.extend(rows)

    def __enter__(self) -> AnswerSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is None or self._partial is None or self._path is None:
            return
        with suppress(OSError):  # a full disk was reported by the row that met it
            self._stream.close()
        if kind is None:
            try:
                os.replace(self._partial, self._path)
            except OSError as problem:
                raise InputError(
                    f"{self._path} cannot be written ({problem.strerror}). The answers are whole, in {self._partial}."
                ) from None
        elif self.rows:
            say(f"{len(self.rows)} paid answers are in {self._partial}; run again with --resume to go on behind them.")
        else:
            self._partial.unlink(missing_ok=True)


def _target(out: str) -> Path:
    path = Path(out)
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{out} is a folder or a device, not a file. Without --out the answers go to stdout.")
    return path.resolve() if path.is_symlink() else path


def _keep_whole_rows(path: Path) -> list[dict[str, Any]]:
    """Reads the rows of an interrupted run, and cuts off a last one that was not written to its end."""
    rows, length = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(row, dict):
            break
        rows.append(row)
        length += len(line)
    os.truncate(path, length)
    return rows
