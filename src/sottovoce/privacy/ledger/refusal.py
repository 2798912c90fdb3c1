"""A refusal in words: which cap is short, what was asked, what is left, and what would fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from sottovoce.errors import BudgetExhaustedError
from sottovoce.privacy.events import BoundedRange, DpEvent, PureDP, describe
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.caps import WHOLE, budget_of
from sottovoce.privacy.ledger.filter import FAILURE_SCALE, SCALE, Cap, Cost, first_exceeded_cap, price
from sottovoce.privacy.numbers import rounded_down, rounded_up

LEAST_NAMED: Final = 1e-4
"""No smaller epsilon is proposed."""


def refuse(row: Any, levels: list[Cap], cost: Cost, events: Sequence[DpEvent], count: int, ledger: str) -> None:
    """Raises the refusal of a charge that does not fit; does nothing where it fits.

    Args:
        row: Of the data set.
        levels: All caps that it counts against.
        cost: Of all releases together.
        events: Of the releases; one of them where they are alike.
        count: How many releases.
        ledger: Its name.

    Raises:
        BudgetExhaustedError: It names the cap that is short, what was asked, what is left, and the next step.
    """
    short = first_exceeded_cap(levels, cost)
    if short is None:
        return
    budget = budget_of(row)
    failing = cost.loss <= short.left.loss
    currency, scale, part = ("failure probability", FAILURE_SCALE, 1) if failing else (budget.currency, SCALE, 0)
    charge, left, limit = (list(amount)[part] for amount in (cost, short.left, short.cap))
    amounts = (
        f"{rounded_up(Fraction(charge, scale), 6)} asked, {rounded_down(Fraction(left, scale), 6)} left of "
        f"{rounded_up(Fraction(limit, scale), 6)}"
    )
    holder = "" if short.kind == WHOLE else f" for the {short.kind} {short.name!r}"
    what = f"{count} answers ask" if count > 1 else "asked:"
    raise BudgetExhaustedError(
        f"{currency} {amounts}{holder} in {ledger} (budget {budget}, "
        f"{row.adjacency} adjacency, unit '{row.unit}'; {what} {describe(events[0])}{' each' if count > 1 else ''}). "
        f"Nothing was charged. {_next_step(budget, levels, cost, events, count, failing)}",
        asked=_plain(charge, scale),
        left=_plain(left, scale),
        limit=_plain(limit, scale),
    )


def _next_step(
    budget: Budget, levels: Sequence[Cap], cost: Cost, events: Sequence[DpEvent], count: int, failing: bool
) -> str:
    left = Cost(min(level.left.loss for level in levels), min(level.left.failure for level in levels))
    if failing or cost.failure > left.failure:
        widest_first = reversed(levels)  # where several are short alike, one for all comes first
        return _of_failures(budget, min(widest_first, key=lambda level: level.left.failure), left)
    fit = price(events[0], budget.currency).times_in(left) or 0
    more = f"At this price {fit or 'no'} more would fit. " if count > 1 or fit else ""
    return (
        f"{more}{_smaller(events, count, left, budget.currency)} the data owner grant more with 'sotto ledger grant'."
    )


def _of_failures(budget: Budget, short: Cap, left: Cost) -> str:
    """What helps where the share of delta for failures is short, whatever else is."""
    if short.kind != WHOLE:
        stays = (
            f"The data owner can allot the {short.kind} {short.name!r} another share, with failure=DELTA in its budget."
        )
    else:
        stays = "The share of delta for failures stays as it was when the ledger was opened."
    if short.cap.failure == 0 and short.kind == WHOLE:
        parts = [rounded_down(value, 15) for value in (budget.epsilon, budget.delta)]
        share = f"{','.join(parts)},failure={rounded_down(budget.delta / 2)}"
        return (
            "This release can fail outright, and no share of delta is set aside for that: let the data owner open a "
            f"ledger with one, such as --budget {share}."
        )
    if left.failure == 0:
        return f"This release can fail outright, and no share of delta is left for that. {stays}"
    return f"Ask with a smaller delta. {stays}"


def _smaller(events: Sequence[DpEvent], count: int, left: Cost, currency: str) -> str:
    """What would fit, where the events are of a kind that a price sets alone."""
    share = Cost(left.loss // count, left.failure // count)
    if not price(PureDP(LEAST_NAMED), currency).times_in(share):
        return "Let"
    largest = largest_epsilon(events[0], share, currency) if all(event == events[0] for event in events) else None
    if largest is None:
        return "Ask at a smaller epsilon, which 'sotto account' prices, or let"
    return f"Ask at epsilon {rounded_down(largest)} or less, or let" if largest >= LEAST_NAMED else "Let"


def largest_epsilon(event: DpEvent, left: Cost, currency: str) -> float | None:
    """The largest epsilon of one release of an event's kind that ``left`` pays for, rounded down to four digits.

    ``None`` for an event of another kind: how its cost follows from the epsilon that was asked is its method's.

    Example:
        >>> largest_epsilon(BoundedRange(3.0), Cost(SCALE // 3), "epsilon")
        0.3333
    """
    if not isinstance(event, BoundedRange | PureDP):
        return None
    low, high = 0.0, event.eta if isinstance(event, BoundedRange) else event.epsilon
    for _ in range(60):
        middle = (low + high) / 2
        fits = (price(type(event)(middle), currency).times_in(left) or 0) > 0
        low, high = (middle, high) if fits else (low, middle)
    return float(rounded_down(low))


def _plain(units: int, scale: int) -> float:
    """Units as a number for people; a charge beyond every budget may be beyond every float too."""
    return units / scale if units < 10**300 else math.inf
