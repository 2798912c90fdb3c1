"""Many processes that reserve from one ledger at the same time, each starting when all are ready."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.errors import BudgetExhaustedError
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.unit import Adjacency

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")
PRICE = 0.1


@dataclass(frozen=True)
class Crowd:
    """What came of a race.

    Attributes:
        admitted: For each process how many of its reservations were admitted.
        errors: What went wrong in any process.
    """

    admitted: list[int]
    errors: list[str]


def account_of(where: str, caller: str | None) -> Any:
    """The account, under a caller where one is named."""
    ledger = Ledger(where)
    return ledger.open(WHO, None, caller=caller) if caller else ledger.open(WHO, None)


def _spend(where: str, worker: int, tries: int, caller: str | None, gate: Any, done: Any) -> None:
    admitted, error = 0, ""
    try:
        account = account_of(where, caller)
        gate.wait(3_600)
        for i in range(tries):
            try:
                account.reserve([Reservation(f"{worker}-{i}", BoundedRange(PRICE), "race")])
                admitted += 1
            except BudgetExhaustedError:
                pass
    except Exception:
        error = traceback.format_exc()
    done.put((worker, admitted, error))


def race(where: str, processes: int, tries: int, callers: Sequence[str] | None = None) -> Crowd:
    """Lets ``processes`` reserve ``tries`` times each; a process takes the caller of its number."""
    context = multiprocessing.get_context("fork")
    gate, done = context.Barrier(processes), context.Queue()
    crowd = [
        context.Process(
            target=_spend, args=(where, w, tries, callers[w % len(callers)] if callers else None, gate, done)
        )
        for w in range(processes)
    ]
    for process in crowd:
        process.start()
    outcomes = sorted(done.get(timeout=300) for _ in crowd)
    for process in crowd:
        process.join()
    return Crowd([admitted for _, admitted, _ in outcomes], [error for *_, error in outcomes if error])
