"""A release that is killed at a named point: a forked child ends itself with SIGKILL there, in the middle of it.

The child writes two notes outside the ledger, each synced: ``read`` when a model is given private examples, ``out``
when an answer is handed over. They are the truth that the ledger has to cover.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.models.fake import FakeScorer, one_shot
from sottovoce.privacy.ledger import account as ledger_account
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.database import Database
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Task

EPSILON = 0.25
BUDGET = Budget(1_000.0)
LABELS = ["billing", "fraud"]


def die() -> None:
    """What a power cut looks like to the process."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Fuse:
    """Kills the process the moment that ``owner.name`` has been (or is about to be) called for the n-th time."""

    owner: object
    name: str
    after: bool
    count: int = 1

    def arm(self) -> None:
        original, seen = getattr(self.owner, self.name), 0

        def burning(*arguments, **options):
            nonlocal seen
            seen += 1
            if seen == self.count and not self.after:
                die()
            result = original(*arguments, **options)
            if seen == self.count and self.after:
                die()
            return result

        setattr(self.owner, self.name, burning)


def stops_in_the_removal(monkeypatch, of: str = "round-") -> None:
    """Stops a run, as Ctrl-C does, when the first such file of its folder was removed: its output is there."""
    unlink = os.unlink

    def stopping(name, **given):
        unlink(name, **given)
        if given.get("dir_fd") is not None and str(name).startswith(of):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "unlink", stopping)


class OnTransaction:
    """Kills in the n-th writing transaction: the lock just taken, or everything written and nothing committed."""

    def __init__(self, moment: str, count: int) -> None:
        self.moment, self.count = moment, count

    def arm(self) -> None:
        original, seen, moment, count = Database.writing, 0, self.moment, self.count

        class Watched:
            def __init__(self, database):
                self.inner = original(database)

            def __enter__(self):
                nonlocal seen
                connection = self.inner.__enter__()
                seen += 1
                self.mine = seen == count
                if self.mine and moment == "lock taken":
                    die()
                return connection

            def __exit__(self, *failure):
                if self.mine and moment == "not committed":
                    die()
                result = self.inner.__exit__(*failure)
                if self.mine and moment == "committed":
                    die()
                return result

        def writing(database):
            return Watched(database)

        Database.writing = writing


class AtNote:
    """Kills right after a note outside the ledger was written."""

    def __init__(self, note: str) -> None:
        self.note = note

    def arm(self) -> None:
        Notes.fatal = self.note


# The ledger is known already: the charge is the session's first writing transaction, the release note its second.
POINTS: dict[str, Callable[[], object]] = {
    "before the ledger is opened": lambda: Fuse(Ledger, "__init__", after=False),
    "ledger opened, account not": lambda: Fuse(Ledger, "__init__", after=True),
    "account open": lambda: Fuse(Ledger, "open", after=True),
    "budget looked at": lambda: Fuse(Account, "check", after=True),
    "question rehearsed": lambda: Fuse(PrivateICL, "_rehearse", after=True),
    "lock taken for the charge": lambda: OnTransaction("lock taken", 1),
    "charge half written": lambda: Fuse(ledger_account, "append", after=True),
    "charge written, not committed": lambda: OnTransaction("not committed", 1),
    "charge committed": lambda: OnTransaction("committed", 1),
    "charged, nothing read": lambda: Fuse(Account, "reserve", after=True),
    "first private example read": lambda: AtNote("read"),
    "drawn, not noted": lambda: Fuse(Account, "mark_released", after=False),
    "release note half written": lambda: Fuse(ledger_account, "append", after=True, count=2),
    "release note not committed": lambda: OnTransaction("not committed", 2),
    "release noted, not handed out": lambda: Fuse(Account, "mark_released", after=True),
    "handed out": lambda: AtNote("out"),
}


class Notes:
    """Notes outside the ledger, on disk before the process goes on."""

    fatal = ""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, release_id: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{kind} {release_id}\n")
            file.flush()
            os.fsync(file.fileno())
        if Notes.fatal == kind:
            die()

    def read(self) -> set[tuple[str, str]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return {tuple(line.split(" ", 1)) for line in lines}


def make_session(where: str, notes: Notes, release_id: str) -> PrivateICL:
    """A real session over a model that says when it is given private examples."""

    def scores(task, context, query):
        if context:
            notes.write("read", release_id)
        return one_shot(task, context, query)

    rows = [Row(i, {"id": f"r{i}", "text": f"note {i}", "label": "billing"}) for i in range(1, 4)]
    return PrivateICL(
        records=PrivateRecords(rows, source="notes"),
        task=Task(labels=LABELS),
        method="poe",
        model=FakeScorer(scores),
        budget=BUDGET,
        ledger=where,
    )


def release(where: str, notes: Notes, release_id: str) -> None:
    """One answer under a chosen id, handed out at the end."""
    answer = make_session(where, notes, release_id).ask("Is it late?", epsilon=EPSILON, release_id=release_id)
    assert answer.value in LABELS
    notes.write("out", release_id)


def in_a_child(work: Callable[[], None]) -> int:
    """Runs ``work`` in a forked process; returns 0, 1 for an error, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def crash(point: str, where: str, notes: Notes, release_id: str) -> int:
    """A release that is killed at ``point``."""

    def work() -> None:
        POINTS[point]().arm()
        release(where, notes, release_id)

    return in_a_child(work)
