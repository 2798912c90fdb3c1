"""Leads at which a mechanism leaves something to chance, as its own law states.

A mechanism that tests a lead, such as propose-test-release, has one certain outcome at most leads: little shows of how
it draws, and of what a change does to its law, unless the lead of the candidates that it chooses is near its threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from sottovoce.testing.pools import OPEN

LONGEST: Final = 1 << 14
"""Leads are looked for up to so many bounds."""
NEAR: Final = 0.02
"""A share that is this close to the one that is looked for is found."""

Law = Mapping[Any, float]


def lead_among(values: Sequence[int], chosen: int) -> int:
    """By how much the last of the chosen candidates leads the next one."""
    ordered = sorted(values, reverse=True)
    return ordered[chosen - 1] - ordered[chosen]


def leading_by(values: Sequence[int], chosen: int, lead: int) -> tuple[int, ...]:
    """The same, but that the last of the chosen candidates leads the next one by this much.

    Example:
        >>> leading_by([6, 4, 3, 0], 2, 10)
        (15, 13, 3, 0)
    """
    best = sorted(range(len(values)), key=lambda place: -values[place])[:chosen]
    more = lead - lead_among(values, chosen)
    return tuple(value + more * (place in best) for place, value in enumerate(values))


def open_lead(law_at: Callable[[int], Law], bound: int, share: float) -> int | None:
    """A lead that leaves something to chance: what is certain at long leads comes about as often as is asked for.

    Args:
        law_at: The law at a lead.
        bound: Of the scores.
        share: From 0, as often as without a lead or in a tenth of all draws, to 1, in ``OPEN`` of them.

    Returns:
        ``None`` where no lead makes an outcome certain that is not certain without one.
    """
    law_at = cache(law_at)
    without = law_at(0)
    certain = max(without, key=lambda outcome: without[outcome]) if is_certain(without) else None
    longest = bound
    while not is_certain(law := law_at(longest)) or (sure := max(law, key=lambda outcome: law[outcome])) == certain:
        longest *= 2
        if longest > LONGEST * bound:
            return None
    least = max(1 - OPEN, without.get(sure, 0.0))
    wanted = least + share * (OPEN - least)
    short = 0
    while longest - short > 1:
        middle = (short + longest) // 2
        reached = law_at(middle).get(sure, 0.0)
        if abs(reached - wanted) < NEAR:
            return middle
        short, longest = (middle, longest) if reached < wanted else (short, middle)
    return min((short, longest), key=lambda lead: abs(law_at(lead).get(sure, 0.0) - wanted))


def is_certain(law: Law) -> bool:
    """Whether a law leaves next to nothing to chance."""
    return max(law.values()) >= OPEN
