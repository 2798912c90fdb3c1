"""What each protected unit adds to a released sum: whole numbers, of bounded size, from its own records alone.

A rule turns a block of encoded records into the sum of its units' contributions. Sums are integers, so that blocks,
processes and machines add up to the same numbers in any order (specification 5.17).

Guarantee   A contribution is a function of its unit's records and of public numbers, within the bound that the rule
            states, checked in whole numbers. A record whose vector is not finite adds nothing.
Sources     specification 5.13 (class means), 5.14 (likeness to public candidates), 9.1, 9.3 (rounding, then the check).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.rule_digests import digest_of
from sottovoce.models.base import FloatArray
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import ChangeType, is_drop
from sottovoce.records.sealed import Opaque

GRID_BITS: Final = 16
"""Vectors are put on a grid of 2**-16."""
LIMIT: Final = 1 << GRID_BITS
"""Largest norm of a unit's vector, in grid steps."""
_LONGEST: Final = 4.0
"""Vectors are brought below this length in floating point, so that squares of grid steps do not overflow."""


@final
class Block(Opaque):
    """Encoded records of whole units. Sealed; no rule can write into them, since another one reads them next.

    Attributes:
        vectors: Shape (records, dimension), float64; a row that is not finite says nothing.
        labels: Of each record, shape (records,).
        units: The unit of each record, shape (records,): 0, 0, 1, 2, 2, ... in rising order.
    """

    __slots__ = ("labels", "units", "vectors")

    def __init__(self, vectors: FloatArray, labels: Sequence[int], units: Sequence[int]) -> None:
        self.vectors = _kept(np.asarray(vectors, dtype=np.float64))
        self.labels = _kept(np.asarray(labels, dtype=np.intp))
        self.units = _kept(np.asarray(units, dtype=np.intp))

    def __len__(self) -> int:
        return len(self.labels)


class SumRule(ABC):
    """How units are added up. Every attribute of a rule is public."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Numbers of the sum."""

    @property
    def most(self) -> int:
        """Largest absolute value of one number of one unit's contribution."""
        return LIMIT

    @property
    def digest(self) -> str:
        """SHA-256 of everything that tells this rule from others: all that it and its class hold."""
        return digest_of(self)

    @abstractmethod
    def add_up(self, block: Block) -> IntArray:
        """The sum of the contributions of a block's units, shape (size,), int64. Private."""


@final
@dataclass(frozen=True, eq=False)
class ClassSums(SumRule):
    """For each label the sum of the vectors of its records, and how many units stand behind it.

    A unit with r_y records of label y adds c_y = r_y / |r| to the count of label y and c_y times the mean of those
    records' vectors to its sum: one record adds its vector and 1. So |a_y| <= c_y in every block, and |c| <= 1.

    Attributes:
        labels: K.
        dimension: d, of the mapped vectors.
        divisor: The counts are added in units of 1 / divisor.
        mapped: A public map that vectors go through first; ``None`` for none.

    Example:
        Two units, one of which has two records.

        >>> rule = ClassSums(labels=2, dimension=2)
        >>> block = Block(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), [0, 1, 1], [0, 1, 1])
        >>> (rule.add_up(block) / LIMIT).tolist()
        [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    """

    labels: int
    dimension: int
    divisor: int = 1
    mapped: PublicMap | None = None

    @property
    def size(self) -> int:
        return self.labels * (self.dimension + 1)

    def squared_l2(self, change: ChangeType) -> int:
        """Largest squared norm, in squared grid steps, by which the sum can change (specification 5.13).

        A swap of one unit moves it by at most 2: with a, c of one unit and a', c' of the other, |a - a'|^2 is at most
        2 + 2 c.c', since |a_y| <= c_y, and |c - c'|^2 / divisor^2 at most 2 - 2 c.c'.
        """
        if is_drop(change):
            return change.rows**2 * (LIMIT**2 + LIMIT**2 // self.divisor**2)
        return (LIMIT * change.widths) ** 2

    def add_up(self, block: Block) -> IntArray:
        sums = np.zeros((self.labels, self.dimension), dtype=np.int64)
        counts = np.zeros(self.labels, dtype=np.int64)
        vectors = block.vectors if self.mapped is None else self.mapped(block.vectors)
        said = np.isfinite(vectors).all(axis=1)
        rows, units, labels = vectors_in_steps(vectors[said]), block.units[said], block.labels[said]
        several = np.bincount(units)[units] > 1 if len(units) else np.zeros(0, dtype=bool)
        np.add.at(sums, labels[~several], rows[~several])
        np.add.at(counts, labels[~several], LIMIT // self.divisor)
        for unit in np.unique(units[several]).tolist():
            own = units == unit
            for label, vector, weight in _of_unit(rows[own], labels[own]):
                sums[label] += vector
                counts[label] += weight // self.divisor
        return np.concatenate([sums.ravel(), counts])


@final
@dataclass(frozen=True)
class UnitCount(SumRule):
    """The number of units, in grid steps. A unit whose records all say nothing counts too.

    Example:
        >>> (UnitCount().add_up(Block(np.zeros((3, 2)), [0, 1, 1], [0, 1, 1])) / LIMIT).tolist()
        [2.0]
    """

    @property
    def size(self) -> int:
        return 1

    def add_up(self, block: Block) -> IntArray:
        return np.array([len(np.unique(block.units)) * LIMIT], dtype=np.int64)


@final
@dataclass(frozen=True, eq=False)
class Likeness(SumRule):
    """For each label and each public candidate the likeness of the label's records to it.

    A unit's likenesses lie from 0 to 1 in grid steps, and their ranges over candidates add to at most 1 over labels:
    where it has several records, each counts in equal part.

    Attributes:
        labels: K.
        candidates: Unit vectors of the public candidates, mapped where records are, shape (candidates, dimension).
        floor: Cosine at which likeness begins.
        ceiling: Cosine from which on it is 1.
        mapped: A public map that records' vectors go through first; ``None`` for none.

    Example:
        >>> rule = Likeness(labels=2, candidates=np.eye(2), floor=0.0, ceiling=0.5)
        >>> block = Block(np.array([[1.0, 0.0], [0.9, 0.25]]), [0, 1], [0, 1])
        >>> (rule.add_up(block) / LIMIT).tolist()
        [1.0, 0.0, 1.0, 0.5]
    """

    labels: int
    candidates: FloatArray
    floor: float
    ceiling: float
    mapped: PublicMap | None = None

    @property
    def size(self) -> int:
        return self.labels * len(self.candidates)

    def sensitivity(self, change: ChangeType) -> int:
        """Largest sum over labels of the range by which one change can move the likenesses, in grid steps.

        A unit's ranges add to at most ``LIMIT``, and a swap exchanges one unit's likenesses for another's.
        """
        is_drop(change)
        return LIMIT * change.widths

    def add_up(self, block: Block) -> IntArray:
        total = np.zeros((self.labels, len(self.candidates)), dtype=np.int64)
        vectors = block.vectors if self.mapped is None else self.mapped(block.vectors)
        shares = _shares(block.units)
        for vector, label, share in zip(vectors, block.labels.tolist(), shares.tolist(), strict=True):
            total[label] += self.steps_of(vector) // share
        return total.ravel()

    def steps_of(self, vector: FloatArray) -> IntArray:
        """One record's likeness to every candidate, in grid steps from 0 to ``LIMIT``; zeros where it says nothing."""
        if not np.isfinite(vector).all():
            return np.zeros(len(self.candidates), dtype=np.int64)
        with np.errstate(all="ignore"):
            near = (np.vecdot(self.candidates, vector) - self.floor) / (self.ceiling - self.floor)
        said = np.where(np.isnan(near), 0.0, np.clip(near, 0.0, 1.0))
        steps: IntArray = np.floor(said * LIMIT).astype(np.int64)
        return steps


def vectors_in_steps(vectors: FloatArray) -> NDArray[np.int64]:
    """Vectors in whole grid steps, each of norm at most ``LIMIT``; zeros for a row that is not finite.

    Every step works on one coordinate or one row, so that nothing depends on the other rows.
    """
    finite = np.asarray(np.isfinite(vectors).all(axis=1))
    rows = np.where(finite[:, None], vectors, 0.0)
    most: FloatArray = np.abs(rows).max(axis=1, initial=0.0)
    rows = rows / np.where(most > _LONGEST, most, 1.0)[:, None]
    return _within(np.trunc(rows * LIMIT).astype(np.int64))


def _kept(numbers: Any) -> Any:
    """An array that cannot be written to."""
    view = numbers.view()
    view.flags.writeable = False
    return view


def _within(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows, each shrunk in whole numbers where its norm is above ``LIMIT``."""
    squares = np.einsum("ij,ij->i", rows, rows)
    for index in np.flatnonzero(squares > LIMIT**2):
        rows[index] = _shrink(rows[index], LIMIT, _norm_above(int(squares[index])))
    return rows


def _of_unit(rows: NDArray[np.int64], labels: NDArray[np.intp]) -> Iterator[tuple[int, IntArray, int]]:
    """What a unit of several records adds: for each of its labels the vector and the weight, in grid steps."""
    found, counts = np.unique(labels, return_counts=True)
    square = int((counts * counts).sum())
    for label, count in zip(found.tolist(), counts.tolist(), strict=True):
        weight = isqrt(LIMIT**2 * count**2 // square)
        mean = np.trunc(rows[labels == label].sum(axis=0) * weight / (count * LIMIT)).astype(np.int64)
        length = int((mean * mean).sum())
        yield label, mean if length <= weight**2 else _shrink(mean, weight, _norm_above(length)), weight


def _norm_above(square: int) -> int:
    return isqrt(square - 1) + 1


def _shrink(row: NDArray[np.int64], limit: int, norm: int) -> NDArray[np.int64]:
    """A row times ``limit / norm``, rounded towards zero: no longer than ``limit`` if ``norm`` bounds it."""
    size: NDArray[np.int64] = (np.abs(row).astype(object) * limit // norm).astype(np.int64)
    return np.asarray(np.sign(row) * size, dtype=np.int64)


def _shares(units: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of records of each record's unit."""
    return np.bincount(units, minlength=1)[units] if len(units) else units
