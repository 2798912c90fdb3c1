"""Texts on their way out: written aside, noted in the ledger, then handed over. A crash loses and repeats nothing.

A run has a folder beside its output, ``OUT.partial``. Each round of texts is written there whole, then the ledger notes
that it leaves, with the hash of that file, and only then is it handed over. On a resume a file whose hash the ledger
knows is handed over; any other was never released: it is thrown away, and its round is drawn again under the charge
that stands.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

from sottovoce.errors import InputError

_HEADER: Final = "run.json"


@final
class Staging:
    """The folder of one run.

    Args:
        out: The file that the run will write.
        terms: What was asked for, in public words. A resume must ask for the same.
        fresh: What a new run remembers besides, such as its id. A resume finds it in ``kept``.
        resume: Go on with a run that was interrupted.

    Attributes:
        kept: What the run remembers.

    Raises:
        InputError: The folder is in the way, absent, of another run, or cannot be written.
    """

    def __init__(self, out: Path, terms: Mapping[str, Any], fresh: Mapping[str, Any], *, resume: bool) -> None:
        if not out.name or (out.exists() and not out.is_file()):
            raise InputError(f"{str(out)!r} is a folder or a device, not a file. Nothing was charged.")
        self.out, self.folder = out, out.with_name(out.name + ".partial")
        try:
            if self.folder.exists() and not resume:
                raise InputError(
                    f"{self.folder.name} holds an interrupted run whose price is paid. Pass --resume to go on with it, "
                    "or move the folder away."
                )
            if not self.folder.exists() and resume:
                raise InputError(f"There is nothing to resume: {self.folder.name} does not exist.")
            self.kept = self._opened(terms) if resume else self._begun(terms, fresh)
        except OSError as error:
            raise InputError(f"{self.folder} cannot be used ({error.strerror}). Nothing was charged.") from None

    def __repr__(self) -> str:
        return f"Staging({self.out.name!r})"

    def put(self, number: int, rows: Sequence[Mapping[str, Any]]) -> str:
        """Writes a round aside, durably, and returns its hash."""
        text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows).encode("utf-8")
        self._write(self._file(number), text)
        return hashlib.sha256(text).hexdigest()

    def get(self, number: int, content: str | None) -> list[dict[str, Any]] | None:
        """A round that was put, if it has this hash; else it is thrown away."""
        file = self._file(number)
        try:
            text = file.read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(text).hexdigest() != content:
            file.unlink()
            return None
        return [json.loads(line) for line in text.decode("utf-8").splitlines()]

    def finish(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes the output whole, and removes the folder."""
        text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        whole = self.folder / "out"
        try:
            self._write(whole, text.encode("utf-8"))
            os.replace(whole, self.out)
            shutil.rmtree(self.folder)
        except OSError as error:
            raise InputError(
                f"{self.out} cannot be written ({error.strerror}). The texts are paid and in {self.folder}; make room "
                "and pass --resume."
            ) from None

    def abandon(self) -> None:
        """Removes the folder of a run that was never charged."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _begun(self, terms: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
        self.folder.mkdir(mode=0o700)
        self._write(self.folder / _HEADER, json.dumps({"terms": terms, "kept": fresh}, indent=1).encode("utf-8"))
        return dict(fresh)

    def _opened(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        try:
            header = json.loads((self.folder / _HEADER).read_text("utf-8"))
            before, kept = header["terms"], header["kept"]
        except (ValueError, KeyError, TypeError, FileNotFoundError):
            raise InputError(
                f"{self.folder.name} is no interrupted run: its {_HEADER} cannot be read. If the run was stopped as it "
                "began, nothing was charged: move the folder away and leave --resume out."
            ) from None
        now = json.loads(json.dumps(terms))
        if changed := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
            name = changed[0]
            raise InputError(
                f"The interrupted run in {self.folder.name} has {name} {before.get(name)!r}, not {now.get(name)!r}. "
                "Repeat its command, or move the folder away."
            )
        return dict(kept)

    def _file(self, number: int) -> Path:
        return self.folder / f"round-{number}"

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
