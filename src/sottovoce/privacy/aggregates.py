"""The seam from experts to mechanism: sums in whole grid steps, each with the bound that makes it safe to use.

Guarantee   A bound is of the aggregate, not of what it was made from: a mechanism that trusts it needs nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.parameters import COUNT, ExactNumber
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.records.sealed import Opaque

IntArray = NDArray[np.int64]
MOST: Final = 1 << 60
"""Largest size of a score, in grid steps, so that differences never overflow."""


@final
class Scores(Opaque):
    """Private utilities of public candidates, in whole grid steps.

    Attributes:
        values: Shape (candidates,), int64: the sum over experts. Private.
        sensitivity: Largest range(S - S'), in grid steps, that one change of the stated adjacency can cause
            (specification 1.4, 1.5): the expert's width times 1 for a drop, 2k for a k-swap. Public.
        adjacency: The relation the bound holds for.
        squared_l2: Largest squared Euclidean norm of S - S' in grid steps, or ``None`` where it was not bounded.

    Raises:
        ParameterError: There is no candidate, or a bound is not a positive whole number.

    Example:
        >>> Scores([7, 2, 1], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
        Scores(3 candidates, sensitivity 2, replace-one)
    """

    __slots__ = ("adjacency", "sensitivity", "squared_l2", "values")

    def __init__(
        self,
        values: Sequence[int] | IntArray,
        *,
        sensitivity: int,
        adjacency: Adjacency,
        squared_l2: int | None = None,
    ) -> None:
        if squared_l2 is not None:
            squared_l2 = COUNT.read("squared_l2", squared_l2)
        self.values: IntArray = _steps(values)
        self.sensitivity: int = COUNT.read("sensitivity", sensitivity)
        self.adjacency, self.squared_l2 = adjacency, squared_l2

    def _public_face(self) -> str:
        return f"{self.values.size} candidates, sensitivity {self.sensitivity}, {self.adjacency.value}"


@final
class VectorSum(Opaque):
    """A private sum over experts, in whole grid steps.

    Attributes:
        values: Shape (dimensions,), int64. Private.
        squared_l2: Largest squared Euclidean norm of S - S', in squared grid steps, that one change of the stated
            adjacency can cause: the squared per-expert bound times 1 for a drop, 4 k squared for a k-swap. Public.
        adjacency: The relation the bound holds for.
        denominator: The fixed public number that the sum is divided by; 1 for a sum. Never an actual count.
        grid_step: Size of one grid step in the vectors' own unit.

    Raises:
        ParameterError: The values are not whole numbers of up to 60 bits, or a bound is not a positive whole number.

    Example:
        >>> VectorSum([3, -4], squared_l2=100, adjacency=Adjacency.REPLACE_ONE, denominator=10)
        VectorSum(2 dimensions, squared L2 100, replace-one, denominator 10)
    """

    __slots__ = ("adjacency", "denominator", "grid_step", "squared_l2", "values")

    def __init__(
        self,
        values: IntArray | list[int],
        *,
        squared_l2: int,
        adjacency: Adjacency,
        denominator: int = 1,
        grid_step: Fraction = Fraction(1),
    ) -> None:
        self.values: IntArray = _steps(values)
        self.squared_l2: int = COUNT.read("squared_l2", squared_l2)
        self.denominator: int = COUNT.read("denominator", denominator)
        self.adjacency = adjacency
        self.grid_step = ExactNumber(0, above_least=True).read("grid_step", grid_step)

    def _public_face(self) -> str:
        return (
            f"{self.values.size} dimensions, squared L2 {self.squared_l2}, {self.adjacency.value}, "
            f"denominator {self.denominator}"
        )


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
        self.values: IntArray = _steps(values)
        self.l1: int = COUNT.read("l1", l1)
        self.adjacency = adjacency

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
        self.items_per_unit: int = COUNT.read("items_per_unit", items_per_unit)
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


def _steps(values: Sequence[int] | IntArray) -> IntArray:
    """Whole grid steps of up to 60 bits; an unsigned number beyond them would wrap around."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ParameterError("values", f"{array.dtype} of shape {array.shape}", "a list of whole numbers")
    if int(array.max()) > MOST or int(array.min()) < -MOST:
        raise ParameterError("values", "a number of more than 60 bits", "whole numbers of up to 60 bits")
    return array.astype(np.int64)
