"""Ladders of worlds: how many are of one opinion, from many to none, one less in each world.

A raw threshold on how many agree ("fewer than five: leave it out") shows between two worlds alone, wherever it is set:
worlds of a few sizes jump over it.

Guarantee   A threshold from 1 to ``TOP`` on how many say one thing lies between two neighbouring worlds: beside others
            who say another thing, beside ones who say nothing, and where there are no others.
Assumes     Nothing of what a threshold above ``TOP``, or on something else than how many agree, would show.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from sottovoce.privacy.aggregates import Scores
from sottovoce.testing.public_rows import squared_distance
from sottovoce.testing.report import ContractError, Report

TOP: Final = 24
"""How many are of one opinion at the top."""
BESIDE: Final = 12
"""How many say another thing, and stay, where one change adds or removes one."""
MANY: Final = 4
"""In a report, more of one kind in a row are counted."""

T = TypeVar("T")


def ladders(said: T, other: T, null: T, *, swaps: bool, comes: bool) -> Iterator[list[tuple[T, ...]]]:
    """Every ladder of one opinion, from ``TOP`` down to none.

    Args:
        said: What is said less and less often.
        other: What somebody else says.
        null: What one says who says nothing.
        swaps: Whether a change lets one say another thing; else one only begins or ceases to say something.
        comes: Whether those who say nothing are not there.

    Example:
        >>> [world[-2:] for world in next(ladders("x", "y", "", swaps=True, comes=False))[:3]]
        [('x', 'x'), ('x', 'y'), ('y', 'y')]
    """
    if swaps:
        yield _ladder(said, (other,))
        yield _ladder(said, (null,))
    else:
        yield _ladder(said, () if comes else (null,))
        yield _ladder(said, () if comes else (null,), (other,) * BESIDE)


def _ladder(said: T, instead: tuple[T, ...], rest: tuple[T, ...] = ()) -> list[tuple[T, ...]]:
    return [(*rest, *(said,) * count, *instead * (TOP - count)) for count in range(TOP, -1, -1)]


def pairs_of(rungs: Sequence[object]) -> list[tuple[int, int]]:
    """Neighbouring worlds of a ladder, by their places."""
    return [*itertools.pairwise(range(len(rungs)))]


def is_alone(rungs: Sequence[Sequence[T]], nulls: Collection[T]) -> bool:
    """Whether nobody on a ladder says another thing.

    Example:
        >>> is_alone([("x", "x"), ("x", "")], [""]), is_alone([("x", "x"), ("x", "y")], [""])
        (True, False)
    """
    return len({said for world in (rungs[0], rungs[-1]) for said in world if said not in nulls}) < 2


def counted(said: Iterable[str], between: str = ", ") -> str:
    """What is said, with its number where many in a row say the same.

    Example:
        >>> counted(["y", "y", *"xxxxx"])
        'y, y, 5 times x'
    """
    runs = [(word, len([*alike])) for word, alike in itertools.groupby(said)]
    return between.join(
        f"{times} times {word}" if times > MANY else between.join([word] * times) for word, times in runs
    )


def require_near(rungs: Sequence[Scores], subject: str, world: str, report: Report) -> None:
    """Scores of a ladder's worlds state one bound, and move by no more from each to the next.

    Raises:
        ContractError: They do not.
    """
    for above, below in pairs_of(rungs):
        one, other = rungs[above], rungs[below]
        moved = [int(a) - int(b) for a, b in zip(one.values.tolist(), other.values.tolist(), strict=True)]
        problem = ""
        if _stated(one) != _stated(other):
            problem = f"the stated sensitivity follows the data: {sorted((_stated(one), _stated(other)), key=repr)}"
        elif max(moved) - min(moved) > one.sensitivity or (
            one.squared_l2 is not None and squared_distance(moved) > one.squared_l2
        ):
            problem = "its scores move by more than is stated"
        if problem:
            where = f"{TOP - above} and {TOP - below} experts of one opinion, {world}"
            raise ContractError("isolation", subject, problem, where)
    report.kept("isolation", len(rungs) - 1, "pairs of crowds of one opinion whose scores stay within the stated bound")


def _stated(scores: Scores) -> tuple[Any, ...]:
    return scores.sensitivity, scores.squared_l2, scores.adjacency
