"""Charges of a run that are made one by one, for its rounds or its questions, and their names in the ledger.

Guarantee   A charge is drawn once. What was lost while it was drawn has a further charge, under a name of its own.
Sources     Decision 0012 (one draw a charge).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

from sottovoce.privacy.ledger.account import Standing


@final
@dataclass(frozen=True)
class Charge:
    """One charge of a run, which is drawn once.

    Attributes:
        run: Id of the run.
        number: Of the round or the question, from 1.
        attempt: From 1; the next one is for what was lost.

    Example:
        >>> Charge("ab", 3).id, Charge("ab", 3).again.id
        ('ab-3', 'ab-3.2')
    """

    run: str
    number: int
    attempt: int = 1

    @property
    def name(self) -> str:
        """Within its run."""
        return f"{self.number}" if self.attempt == 1 else f"{self.number}.{self.attempt}"

    @property
    def id(self) -> str:
        """In the ledger."""
        return f"{self.run}-{self.name}"

    @property
    def again(self) -> Charge:
        """The next one for the same number."""
        return replace(self, attempt=self.attempt + 1)


def attempts(standings: Mapping[str, Standing], run: str, number: int) -> list[Charge]:
    """The charges of a number, oldest first; where there is none yet, the one to come.

    Args:
        standings: Charges of the run by their ids, from ``Account.standing``.
        run: Id of the run.
        number: Of the round or the question.
    """
    charges = [Charge(run, number)]
    while charges[-1].again.id in standings:
        charges.append(charges[-1].again)
    return charges


def newest(standings: Mapping[str, Standing], run: str, number: int) -> Charge:
    """The last of them; see ``attempts``."""
    return attempts(standings, run, number)[-1]
