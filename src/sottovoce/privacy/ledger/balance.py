"""How a data set stands in its ledger: a public summary of charges, never a number without its adjacency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.budget import SCALE, Budget
from sottovoce.privacy.ledger.caps import UNNAMED, WHOLE, budget_of, cap_of
from sottovoce.privacy.ledger.filter import FAILURE_SCALE, Cap, price
from sottovoce.privacy.ledger.history import NOT_VERIFIED_NOTE, SEEDED_NOTE
from sottovoce.privacy.numbers import float_above, float_below
from sottovoce.privacy.unit import Adjacency

__all__ = ["NOT_VERIFIED_NOTE", "SEEDED_NOTE", "Balance", "CapBalance", "balance_of"]


@final
@dataclass(frozen=True)
class CapBalance:
    """How a caller or a group stands, in the currency of the data set.

    Attributes:
        kind: ``caller`` or ``group``.
        name: Its name.
        group: The group that a caller is in.
        epsilon: What its cap was worked out from, at the data set's delta.
        answers: Releases charged to it so far.
        level: Its cap and what was spent.
    """

    kind: str
    name: str
    group: str | None
    epsilon: float
    answers: int
    level: Cap

    @property
    def cap(self) -> float:
        """Its limit, in the currency."""
        return _at_most_charged(self.level.cap.loss)

    @property
    def spent(self) -> float:
        """Charged to it so far."""
        return _at_most_charged(self.level.spent.loss)

    @property
    def left(self) -> float:
        """What remains, in the currency."""
        return _at_least_left(self.level.left.loss)

    def as_dict(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            self.kind: self.name,
            **({"group": self.group} if self.kind == "caller" else {}),
            "epsilon": self.epsilon,
            "cap": self.cap,
            "spent": self.spent,
            "left": self.left,
            "failure_cap": _at_most_charged(self.level.cap.failure, FAILURE_SCALE),
            "failure_spent": _at_most_charged(self.level.spent.failure, FAILURE_SCALE),
            "answers": self.answers,
        }


@final
@dataclass(frozen=True)
class Balance:
    """How a data set stands; amounts are in the currency, such as ``epsilon`` or ``rho``.

    Attributes:
        name: Of the data set in the ledger.
        budget: What was granted.
        adjacency: The relation that every figure is for.
        unit: Who is protected.
        answers: Releases charged so far.
        non_private: Releases without a guarantee that somebody allowed; no figure covers them.
        unverified: Releases charged although the model was not shown to keep experts apart.
        levels: Every cap that limits whoever asked for this balance, the data set's own last.
        caps: Callers and groups within the budget, where they were asked for.
        caller_required: Whether the owner lets nobody ask who names no caller, where that was asked for.
        seeded: Releases charged whose noise came from a seeded source; ``None`` where they were not counted, for which
            every charge is looked at (``Ledger.balances`` does).
    """

    name: str
    budget: Budget
    adjacency: Adjacency
    unit: str
    answers: int
    non_private: int
    unverified: int
    levels: tuple[Cap, ...]
    caps: tuple[CapBalance, ...] = ()
    caller_required: bool = False
    seeded: int | None = None

    @property
    def is_kept(self) -> bool | None:
        """Whether the budget bounds everything that was released; ``None`` where nothing is known against it and
        releases with seeded noise were not counted."""
        if self.non_private or self.unverified or self.seeded:
            return False
        return None if self.seeded is None else True

    @property
    def cap(self) -> float:
        """The data set's limit."""
        return _at_most_charged(self.levels[-1].cap.loss)

    @property
    def spent(self) -> float:
        """Charged to the data set so far."""
        return _at_most_charged(self.levels[-1].spent.loss)

    @property
    def left(self) -> float:
        """What remains of the data set's budget, in the currency."""
        return _at_least_left(self.left_units)

    @property
    def left_units(self) -> int:
        """What remains, in units of 1e-15 of the currency."""
        return self.levels[-1].left.loss

    @property
    def failure_cap(self) -> float:
        """The limit on the sum of failure probabilities."""
        return _at_most_charged(self.levels[-1].cap.failure, FAILURE_SCALE)

    @property
    def failure_spent(self) -> float:
        """Failure probabilities charged so far."""
        return _at_most_charged(self.levels[-1].spent.failure, FAILURE_SCALE)

    @property
    def callers(self) -> tuple[CapBalance, ...]:
        """The callers alone."""
        return tuple(cap for cap in self.caps if cap.kind == "caller")

    @property
    def epsilon_used(self) -> float:
        """What was spent, as epsilon at the budget's delta (``Budget.epsilon_of``)."""
        return self.budget.epsilon_of(self.levels[-1].spent.loss)

    def epsilon_used_by(self, cap: CapBalance) -> float:
        """The same for a caller or a group of this data set; at most what its cap was worked out from."""
        return min(cap.epsilon, self.budget.epsilon_of(cap.level.spent.loss))

    def answers_left(self, event: DpEvent) -> int:
        """How many more releases of this kind fit under every cap of whoever asks."""
        cost = price(event, self.budget.currency)
        return min(level.left.loss if (n := cost.times_in(level.left)) is None else n for level in self.levels)

    def as_dict(self) -> dict[str, object]:
        """For ``--json``: never a number without its adjacency."""
        callers = [cap.as_dict() for cap in self.caps if cap.kind == "caller"]
        groups = [cap.as_dict() for cap in self.caps if cap.kind == "group"]
        return {
            "data_set": self.name,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "budget": {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "failure_delta": self.budget.failure_delta,
                "alpha": self.budget.alpha,
            },
            "epsilon_used": self.epsilon_used,
            "currency": self.budget.currency,
            "cap": self.cap,
            "spent": self.spent,
            "left": self.left,
            "failure_cap": self.failure_cap,
            "failure_spent": self.failure_spent,
            "answers": self.answers,
            "non_private_releases": self.non_private,
            "isolation_not_verified": self.unverified,
            **({} if self.seeded is None else {"seeded_noise": self.seeded}),
            "callers": callers,
            "groups": groups,
            "caller_required": self.caller_required,
            "limits": [{"kind": level.kind, "name": level.name} for level in self.levels if level.kind != WHOLE],
        }


def balance_of(row: Any, levels: Iterable[Cap] = (), caps: Iterable[Any] = (), seeded: int | None = None) -> Balance:
    """The balance of a data set's row; nothing is counted, since the row holds the counters."""
    caps = list(caps)
    return Balance(
        name=row.name,
        budget=budget_of(row),
        adjacency=Adjacency.parse(row.adjacency),
        unit=row.unit,
        answers=row.answers,
        non_private=row.non_private,
        unverified=row.unverified,
        levels=tuple(levels) or (cap_of(row),),
        caps=tuple(
            CapBalance(cap.kind, cap.name, cap.member_of, float(cap.epsilon), cap.answers, cap_of(cap))
            for cap in caps
            if cap.kind != UNNAMED
        ),
        caller_required=any(cap.kind == UNNAMED and cap.cap == 0 for cap in caps),
        seeded=seeded,
    )


def _at_most_charged(units: int, scale: int = SCALE) -> float:
    return float_above(Fraction(units, scale))


def _at_least_left(units: int) -> float:
    return float_below(Fraction(units, SCALE))
