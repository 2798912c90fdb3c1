"""The seams to count releases: integers with an L1 bound, and counts of items nobody listed in advance.

Guarantee   The L1 bound of ``ItemCounts`` holds because each unit's items are capped by a rule of that unit alone; that
            of ``Counts`` is what its maker states.
Sources     specification 1.5 (change types), 5.5 (open universes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from typing import final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.privacy.scores import MOST, IntArray
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.records import Opaque


@final
class Counts(Opaque):
    """Private whole numbers, one for each public name; a single query is a list of one.

    Attributes:
        values: Shape (names,), int64. Private.
        l1: Largest sum of absolute changes that one change of the stated adjacency can cause. Public.
        adjacency: The relation the bound holds for.

    Raises:
        ParameterError: The values are not whole numbers of up to 60 bits, or the bound is not a positive whole number.

    Example:
        >>> Counts([120, 7], l1=2, adjacency=Adjacency.REPLACE_ONE)
        Counts(2 counts, L1 2, replace-one)
    """

    __slots__ = ("adjacency", "l1", "values")

    def __init__(self, values: Sequence[int] | IntArray, *, l1: int, adjacency: Adjacency) -> None:
        array = np.asarray(values)
        if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
            raise ParameterError("values", f"{array.dtype} of shape {array.shape}", "a list of whole numbers")
        if int(array.max()) > MOST or int(array.min()) < -MOST:
            raise ParameterError("values", "a number of more than 60 bits", "whole numbers of up to 60 bits")
        self.values: IntArray = array.astype(np.int64)
        self.l1, self.adjacency = whole("l1", l1), adjacency

    def _public_face(self) -> str:
        return f"{self.values.size} counts, L1 {self.l1}, {self.adjacency.value}"


@final
class ItemCounts(Opaque):
    """How many units hold each item, where the items themselves are private too.

    A unit counts once for an item and for at most ``items_per_unit`` items: the first ones in the order in which the
    unit gives them, or in the order of the alphabet where it gives a set.

    Args:
        units: The items of every unit.
        items_per_unit: The cap. Public.
        change: How one change of the data can change the units.
        adjacency: The relation that ``change`` is for.

    Attributes:
        counts: Item to number of units, 1 or more. Private, and so are its keys and its length.
        items_per_unit: The cap.
        change: As given.
        l1: Largest sum of absolute changes of the counts: the cap for a drop, 2k times the cap for a k-swap.
        adjacency: As given.

    Raises:
        ParameterError: The cap is not a positive whole number.

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> ItemCounts([["refund", "card"], ["card"]], items_per_unit=3, change=SWAP, adjacency=Adjacency.REPLACE_ONE)
        ItemCounts(at most 3 items a unit, L1 6, replace-one)
    """

    __slots__ = ("adjacency", "change", "counts", "items_per_unit", "l1")

    def __init__(
        self, units: Iterable[Collection[str]], *, items_per_unit: int, change: ChangeType, adjacency: Adjacency
    ) -> None:
        self.items_per_unit = whole("items_per_unit", items_per_unit)
        self.counts = Counter(item for items in units for item in first_distinct(items, items_per_unit))
        self.change, self.adjacency = change, adjacency
        self.l1 = items_per_unit * change.widths

    def _public_face(self) -> str:
        return f"at most {self.items_per_unit} items a unit, L1 {self.l1}, {self.adjacency.value}"


def first_distinct(items: Collection[str], most: int) -> list[str]:
    """At most ``most`` different items of one unit, chosen by looking at that unit alone.

    What is not text is left out: refusing it, or failing to sort it, would show that somebody holds it.

    Example:
        >>> first_distinct(["card", "card", "fee", "atm"], 2), first_distinct({"fee", "card", "atm"}, 2)
        (['card', 'fee'], ['atm', 'card'])
    """
    texts = [item for item in items if isinstance(item, str)]
    return list(dict.fromkeys(sorted(texts) if isinstance(items, Set) else texts))[:most]


def whole(name: str, value: object) -> int:
    """Checks a bound: a whole number, 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ParameterError(name, value, "a whole number, 1 or more")
    return value
