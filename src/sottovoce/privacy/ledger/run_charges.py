"""Charges of a run that are made one by one, for its rounds or its questions, their names in the ledger, and the
request that they commit to.

Guarantee   A charge is drawn once. What was lost while it was drawn has a further charge, under a name of its own.
Sources     Decision 0012 (one draw a charge).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

from sottovoce.files.requests import MODELS, is_later
from sottovoce.privacy.checks import asked_hash
from sottovoce.privacy.ledger.account import Standing

T = TypeVar("T")


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


def as_charged(request: Mapping[str, Any], standings: Iterable[Standing]) -> dict[str, Any]:
    """The request that the charges of a run commit to: without the words that an earlier build, which made them, did
    not note. The ledger alone says so: what a folder notes can be edited.

    Args:
        request: With all its words.
        standings: The charges of the run so far.
    """
    committed = {standing.asked for standing in standings}
    how_read = {name: value for name, value in request.items() if not name.startswith(MODELS)}
    older = {name: value for name, value in request.items() if not is_later(name)}
    return next((dict(words) for words in (how_read, older) if asked_hash(words) in committed), dict(request))


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


def newest_whole(
    standings: Mapping[str, Standing], run: str, number: int, whole: Callable[[Charge], T | None]
) -> tuple[Charge, T | None]:
    """The newest charge of a number whose draw is whole, and its draw; the newest of all where none is.

    In a copy of a run's folder a later charge may have been drawn, whose draw is not in this one.

    Args:
        standings: Charges of the run by their ids.
        run: Id of the run.
        number: Of the round or the question.
        whole: The draw of a charge where it is whole here.
    """
    charges = attempts(standings, run, number)
    for charge in reversed(charges):
        if (draw := whole(charge)) is not None:
            return charge, draw
    return charges[-1], None
