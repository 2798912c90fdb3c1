"""How a session comes by its account: one way for every door."""

from __future__ import annotations

import os
from contextlib import suppress

from sottovoce.errors import InputError
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.identity import Identity
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.privacy.ledger.location import IN_MEMORY, is_address
from sottovoce.privacy.ledger.registry import default_path, refuse_second
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords


def open_account(
    records: PrivateRecords,
    adjacency: Adjacency,
    budget: Budget | None,
    ledger: Ledger | str | None,
    caller: str | None,
    first_budget: Budget | None = None,
) -> Account:
    """Opens the account of private records; nothing is charged.

    Args:
        records: The sealed records.
        adjacency: What one change of the data is.
        budget: Their whole budget; needed when the ledger first meets them.
        ledger: A ledger, its path or address, or ``":memory:"``; ``None`` for the one that the records have.
        caller: Who asks, where the owner allotted each caller a part of the budget.
        first_budget: Their budget on first use, where none was given.

    Raises:
        BudgetError: The ledger does not fit these records, they have a budget elsewhere, or it cannot be used.
    """
    identity = Identity.of(records, adjacency)
    if not isinstance(ledger, Ledger):
        path = ledger or default_path(records)
        if is_new(path):
            refuse_second(identity, path)  # before a file is made that would look like a ledger
        ledger = Ledger(path)
    return ledger.open(identity, budget, caller=caller, first_budget=first_budget)


def known_budget(records: PrivateRecords, adjacency: Adjacency, ledger: Ledger | str | None) -> Budget | None:
    """The budget that private records have in a ledger, if they have one there. Nothing is opened or made.

    Args:
        records: The sealed records.
        adjacency: What one change of the data is.
        ledger: As for ``open_account``.
    """
    if not isinstance(ledger, Ledger):
        path = ledger or default_path(records)
        if is_new(path):
            return None
        ledger = Ledger(path)
    return ledger.budget_of(Identity.of(records, adjacency))


def require_known(
    records: PrivateRecords, adjacency: Adjacency, ledger: Ledger | str | None, caller: str | None
) -> None:
    """Refuses to resume a run of records that a ledger does not know: nothing was charged for them there, and no budget
    is settled for them now.

    Args:
        records: The sealed records.
        adjacency: What one change of the data is.
        ledger: As for ``open_account``.
        caller: As for ``open_account``.

    Raises:
        InputError: There is no such ledger, or nothing is in it yet, and the records have no other.
        BudgetError: The ledger does not fit these records, cannot be used, or is not the one that they have.
    """
    path = ledger.path if isinstance(ledger, Ledger) else ledger or default_path(records)
    if not isinstance(ledger, Ledger):
        ledger = None if is_new(path) else Ledger(path)
    if ledger is None or ledger.is_empty():
        refuse_second(Identity.of(records, adjacency), path)  # where their ledger is elsewhere, lost or emptied
        raise InputError(
            "There is nothing to resume: these records have no ledger there yet. Repeat the command as it was, with "
            "the --private and the --ledger that the run began with; if it was stopped before it opened a budget, "
            "without --resume. Nothing was charged."
        )
    ledger.open(Identity.of(records, adjacency), None, caller=caller)


def is_new(path: str) -> bool:
    """Whether there is no ledger yet; a server is not asked."""
    if is_address(path):
        return False
    if path == IN_MEMORY:
        return True
    with suppress(OSError):
        path = os.path.abspath(path)  # as the ledger reads it: t.db/ is t.db
    return not os.path.exists(path) or os.path.getsize(path) == 0
