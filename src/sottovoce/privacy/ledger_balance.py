"""How a data set stands in its ledger: a public summary of charges, never a number without its adjacency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import sqlalchemy as sa

from sottovoce.privacy.budget import SCALE, Budget, amount_of
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger_schema import ENTRY
from sottovoce.privacy.unit import Adjacency

NOT_VERIFIED_NOTE: Final = "isolation not verified"
"""Stands in the note of a charge whose model was not shown to keep experts apart."""


@final
@dataclass(frozen=True)
class Balance:
    """How a data set stands; amounts are in the currency, ``epsilon`` or ``rho``.

    Attributes:
        name: Of the data set in the ledger.
        budget: What was granted.
        adjacency: The relation that every figure is for.
        unit: Who is protected.
        cap: The limit.
        spent: Charged so far.
        answers: Releases charged so far.
        non_private: Releases without a guarantee that somebody allowed; no figure covers them.
        unverified: Releases charged although the model was not shown to keep experts apart.
    """

    name: str
    budget: Budget
    adjacency: Adjacency
    unit: str
    cap: float
    spent: float
    answers: int
    non_private: int
    unverified: int
    left_units: int

    @property
    def is_kept(self) -> bool:
        """Whether the budget bounds everything that was released."""
        return not self.non_private and not self.unverified

    @property
    def left(self) -> float:
        """What remains, in the currency."""
        return self.left_units / SCALE

    def answers_left(self, event: DpEvent) -> int:
        """How many more releases of this kind fit."""
        return self.left_units // max(1, amount_of(event, self.budget.currency))

    def as_dict(self) -> dict[str, object]:
        """For ``--json``: never a number without its adjacency."""
        return {
            "data_set": self.name,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "currency": self.budget.currency,
            "cap": self.cap,
            "spent": self.spent,
            "left": self.left,
            "answers": self.answers,
            "non_private_releases": self.non_private,
            "isolation_not_verified": self.unverified,
        }


def budget_of(row: Any) -> Budget:
    """The budget on record."""
    return Budget(float(row.epsilon), float(row.delta))


def balance_of(connection: sa.Connection, row: Any) -> Balance:
    """Reads a data set's balance."""

    def count(kind: str, note: str = "") -> int:
        query = sa.select(sa.func.count()).select_from(ENTRY).where(ENTRY.c.data_set == row.id, ENTRY.c.kind == kind)
        return int(connection.scalar(query.where(ENTRY.c.detail.contains(note)) if note else query) or 0)

    return Balance(
        name=row.name,
        budget=budget_of(row),
        adjacency=Adjacency.parse(row.adjacency),
        unit=row.unit,
        cap=row.cap / SCALE,
        spent=row.spent / SCALE,
        answers=count("reserve"),
        non_private=count("non-private"),
        unverified=count("reserve", NOT_VERIFIED_NOTE),
        left_units=row.cap - row.spent,
    )
