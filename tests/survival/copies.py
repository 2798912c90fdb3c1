"""States of a ledger's file as a crash, or a copy in the middle of a write, leaves them; and what is made of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from sottovoce.errors import LedgerUnavailableError
from sottovoce.privacy.ledger import account as ledger_account
from sottovoce.privacy.ledger.ledger import Account, Ledger
from survival.races import WHO

PAGE = 4096


@dataclass(frozen=True)
class Write:
    """A ledger's file before and after one transaction."""

    before: bytes
    after: bytes

    @property
    def pages(self) -> list[int]:
        """Numbers of the pages that were written."""
        count = len(self.after) // PAGE
        return [i for i in range(count) if _page(self.before, i) != _page(self.after, i)]

    def mixtures(self, most: int, seed: int) -> Iterator[bytes]:
        """The file with some of the pages written: all choices, or as many as asked for, with every beginning."""
        pages = self.pages
        if 2 ** len(pages) <= most:
            choices = list(product([False, True], repeat=len(pages)))
        else:
            chance = random.Random(seed)
            choices = [tuple(i < cut for i in range(len(pages))) for cut in range(len(pages) + 1)]
            choices += [tuple(chance.random() < 0.5 for _ in pages) for _ in range(most - len(choices))]
        for choice in choices:
            yield self.with_pages(page for page, written in zip(pages, choice, strict=True) if written)

    def with_pages(self, written: Iterator[int]) -> bytes:
        mixed = bytearray(self.before)
        for page in written:
            mixed.extend(bytes(max(0, (page + 1) * PAGE - len(mixed))))
            mixed[page * PAGE : (page + 1) * PAGE] = _page(self.after, page)
        return bytes(mixed)


def _page(data: bytes, number: int) -> bytes:
    return data[number * PAGE : (number + 1) * PAGE]


def write_of(path: Path, act: Callable[[], object]) -> Write:
    """What a transaction does to the file. No other one may be under way in this process."""
    before = path.read_bytes()
    act()
    return Write(before, path.read_bytes())


Story = tuple[list[tuple[int, str]], list[tuple[int, float]], set[str]]
"""Numbers and hashes of the entries; answers and spent of each data set; ids that are found when they are looked up."""


def told(path: Path) -> Story | None:
    """What a program that goes on from a file believes; ``None`` where it refuses the file."""
    try:
        ledger = Ledger(str(path))
        balances = [(balance.answers, balance.spent) for balance in ledger.balances()]
        rows = ledger.history()
        history = [(row["seq"], row["hash"]) for row in rows]
        charged, account = [row["release_id"] for row in rows if row["kind"] == "reserve"], ledger.open(WHO, None)
        with ledger._database.reading() as connection:
            ids = set(account._past(connection, charged))  # by the index, as a charge looks them up
        ledger.close()
    except LedgerUnavailableError:
        return None
    return history, balances, ids


def put(folder: Path, data: bytes) -> Path:
    """A file with this content, and nothing beside it."""
    for old in folder.glob("copy.db*"):
        old.unlink()
    (folder / "copy.db").write_bytes(data)
    return folder / "copy.db"


class Stopped(Exception):
    """The transaction was stopped when half of it was in the file."""


def stopped_half_way(account: Account, path: Path, act: Callable[[], object], monkeypatch) -> tuple[bytes, bytes]:
    """The file and its journal at a moment when SQLite had to write pages before the end of the transaction."""
    found: list[bytes] = []
    append = ledger_account.append

    def watched(connection, entries):
        connection.exec_driver_sql("PRAGMA cache_size = 5")
        append(connection, entries)
        found.extend((path.read_bytes(), path.with_name(path.name + "-journal").read_bytes()))
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(ledger_account, "append", watched)
        with suppress(Stopped):
            act()
    account.database.close()
    return found[0], found[1]
