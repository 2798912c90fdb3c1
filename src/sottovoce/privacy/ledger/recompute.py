"""What a history costs, worked out again from its events alone, as a third party would.

Guarantee   Where a ledger agrees, its balances are the sum of its events' prices, and its history is whole. An export
            of the older format never agrees: at best no difference is found in it, and ``unheld`` says what is not
            known.
Assumes     Epsilons other than the budget's are sums over what happened to be asked: they hold for a plan that was
            fixed in advance. Where later questions followed from earlier answers, the budget holds (specification T14).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, final

from sottovoce.errors import InputError, ParameterError, SottoError
from sottovoce.parameters import nearest
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.event_json import event_to_json
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.caps import budget_of
from sottovoce.privacy.ledger.filter import FAILURE_SCALE, SCALE, Cost
from sottovoce.privacy.ledger.history import History, charged, price_of
from sottovoce.privacy.ledger.schema import MAX_UNITS
from sottovoce.privacy.ledger.verify import find_problems, is_unheld
from sottovoce.privacy.numbers import float_above, rounded_up
from sottovoce.privacy.unit import Adjacency

ACCOUNTANTS: Final = {"zcdp": "zCDP", "rdp": "RDP", "pure": "pure", "pld": "PLD"}
"""Accountants by name, and the bound that each stands for."""
FIXED_PLAN: Final = "valid only for a plan fixed in advance"

_LOOSE: Final = 500_000_000
"""Format 1 rounded charges up by one part in 1e9; a ledger may say more than was spent by twice that."""

_MOST: Final = Cost(MAX_UNITS, MAX_UNITS)

Events = dict[int, Counter[str]]


@final
@dataclass(frozen=True)
class Recomputed:
    """One data set, recomputed.

    Attributes:
        row: As the ledger has it.
        spent: The sum of its events' prices.
        answers: How many events there were.
        unreadable: How many of them could not be read or have no price.
        epsilon: Of all events by the accountant that was asked for, at the budget's delta; ``None`` if it has no bound.
        reason: Why it has none.
        unheld: Numbers of the entries, of all data sets, that an export of the older format cannot hold against their
            hashes. What they say rests on the file, and a charge may have stood in their place.
    """

    row: Mapping[str, Any]
    spent: Cost
    answers: int
    unreadable: int
    epsilon: float | None
    reason: str | None
    unheld: tuple[int, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether the balance is that of the events in the history: never less, no more than rounding explains."""
        recorded, true = Cost(self.row["spent"], self.row["failure_spent"]), self.spent
        slack = true.loss // _LOOSE + self.answers
        return not self.unreadable and 0 <= recorded.loss - true.loss <= slack and recorded.failure == true.failure

    def as_dict(self) -> dict[str, object]:
        """For ``--json``: never a number without its adjacency."""
        budget = budget_of(_Row(self.row))
        return {
            "data_set": self.row["name"],
            "adjacency": self.row["adjacency"],
            "unit": self.row["unit"],
            "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
            "currency": budget.currency,
            "answers": self.answers,
            "spent": {"ledger": _float(self.row["spent"]), "recomputed": _float(self.spent.loss)},
            "failure_spent": {
                "ledger": _float(self.row["failure_spent"], FAILURE_SCALE),
                "recomputed": _float(self.spent.failure, FAILURE_SCALE),
            },
            "agrees": None if self.agrees and self.unheld else self.agrees,
            "epsilon": self.epsilon,
            "delta": budget.delta,
            "epsilon_is": self.reason or FIXED_PLAN,
        }


def recompute(history: History, accountant: str) -> tuple[list[Recomputed], list[str], int]:
    """Every data set again, what is wrong with the history, and the number of entries.

    Raises:
        ParameterError: No accountant has that name.
    """
    if accountant not in ACCOUNTANTS:
        raise ParameterError(
            "accountant", accountant, f"one of {', '.join(ACCOUNTANTS)}{nearest(accountant, [*ACCOUNTANTS])}"
        )
    events: Events = {}
    count = [0]
    unheld: list[int] = []
    entries = _counted(history, events, count, unheld)
    problems = find_problems(replace(history, entries=entries))
    for _ in entries:  # behind a broken entry too
        pass
    data_sets = [_recomputed(row, events.get(row["id"], Counter()), accountant) for row in history.data_sets]
    return [replace(one, unheld=tuple(unheld)) for one in data_sets], problems, count[0]


def _counted(history: History, events: Events, count: list[int], unheld: list[int]) -> Iterator[Mapping[str, Any]]:
    for entry in history.entries:
        count[0] += 1
        if is_unheld(history, entry):
            unheld.append(count[0])
        if entry["kind"] == "reserve":
            events.setdefault(entry["data_set"], Counter())[entry["detail"]] += 1
        yield entry


def _recomputed(row: Mapping[str, Any], texts: Counter[str], accountant: str) -> Recomputed:
    """Equal events are priced once, however often they were charged."""
    budget = _budget_in(row)
    spent, unreadable = Cost(), 0
    counts: Counter[str] = Counter()
    events: dict[str, DpEvent] = {}
    for text, count in texts.items():
        try:
            cost = price_of(text, budget.currency)
            if not cost.fits_in(_MOST):
                raise ValueError("more than any ledger can have charged")
            spent += cost * count
            event = charged(text).event
            key = json.dumps(event_to_json(event), sort_keys=True)
        except (KeyError, TypeError, ValueError, RecursionError, SottoError):
            unreadable += count
            continue
        events[key] = event
        counts[key] += count
    plan = [(events[key], count) for key, count in counts.items()]
    epsilon, reason = (None, "some events cannot be read") if unreadable else _epsilon(row, plan, budget, accountant)
    return Recomputed(row, spent, texts.total(), unreadable, epsilon, reason)


def _budget_in(row: Mapping[str, Any]) -> Budget:
    """The budget that a row states.

    Raises:
        InputError: It states none, or sums that are no numbers; the data set and the column are named.
    """
    for column in ("epsilon", "delta", "failure_delta", "alpha"):
        if column == "alpha" and row[column] is None:
            continue
        try:
            float(row[column])
        except (TypeError, ValueError):
            raise _no_number(row, column) from None
    for column in ("spent", "failure_spent"):
        if type(row[column]) is not int:
            raise _no_number(row, column)
    return budget_of(_Row(row))


def _no_number(row: Mapping[str, Any], column: str) -> InputError:
    return InputError(
        f"data set {row['name']!r}: {column} is {row[column]!r}, which is no number. See 'sotto ledger verify', and "
        "export the ledger again from one that is whole."
    )


def _epsilon(
    row: Mapping[str, Any], plan: list[tuple[DpEvent, int]], budget: Budget, accountant: str
) -> tuple[float | None, str | None]:
    """Of all events together, or why there is no such figure."""
    if not plan:
        return 0.0, None
    total = RdpAccountant(Adjacency.parse(row["adjacency"]), row["unit"])
    try:
        for event, count in plan:
            total.compose(event, count)
        epsilon = total.report(budget.delta, [ACCOUNTANTS[accountant]]).epsilon
    except (OverflowError, SottoError) as error:
        return None, str(error)
    if not math.isfinite(epsilon):
        return None, f"not bounded by {accountant} for these events at delta {rounded_up(budget.delta)}"
    return epsilon, None


def _float(units: int, scale: int = SCALE) -> float:
    return float_above(Fraction(units, scale))


class _Row:
    """A mapping's items as attributes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)
