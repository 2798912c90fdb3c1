"""What each protected unit adds to a released sum: whole numbers, of bounded size, from its own records alone.

A rule turns a block of encoded records into the sum of its units' contributions. Sums are integers, so that blocks,
processes and machines add up to the same numbers in any order (specification 5.17).

Guarantee   A contribution is a function of its unit's records and of public numbers, within the bound that the rule
            states, checked in whole numbers. A record whose vector is not finite adds nothing.
Sources     specification 5.13 (class means), 5.14 (likeness to public candidates), 9.1, 9.3 (rounding, then the check).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.models.base import FloatArray
from sottovoce.privacy.aggregates import IntArray
from sottovoce.records.sealed import Opaque

GRID_BITS: Final = 16
"""Vectors are put on a grid of 2**-16."""
LIMIT: Final = 1 << GRID_BITS
"""Largest norm of a unit's vector, in grid steps."""
_LONGEST: Final = 4.0
"""Vectors are brought below this length in floating point, so that squares of grid steps do not overflow."""


@final
class Block(Opaque):
    """Encoded records of whole units. Sealed.

    Attributes:
        vectors: Shape (records, dimension), float64; a row that is not finite says nothing.
        labels: Of each record, shape (records,).
        units: The unit of each record, shape (records,): 0, 0, 1, 2, 2, ... in rising order.
    """

    __slots__ = ("labels", "units", "vectors")

    def __init__(self, vectors: FloatArray, labels: Sequence[int], units: Sequence[int]) -> None:
        self.vectors = np.asarray(vectors, dtype=np.float64)
        self.labels = np.asarray(labels, dtype=np.intp)
        self.units = np.asarray(units, dtype=np.intp)

    def __len__(self) -> int:
        return len(self.labels)


class SumRule(ABC):
    """How units are added up. Every attribute of a rule is public."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Numbers of the sum."""

    @abstractmethod
    def add_up(self, block: Block) -> IntArray:
        """The sum of the contributions of a block's units, shape (size,), int64. Private."""


@final
@dataclass(frozen=True)
class ClassSums(SumRule):
    """For each label the sum of the vectors of its records: one block of numbers a label.

    A unit's records are summed block by block, and the whole is shrunk to norm 1 where it is longer.

    Attributes:
        labels: K.
        dimension: d.
        counted: What each unit adds to one further coordinate, in grid steps; 0 for no such coordinate.

    Example:
        Two units, one of which has two records.

        >>> rule = ClassSums(labels=2, dimension=2, counted=LIMIT)
        >>> block = Block(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), [0, 1, 1], [0, 1, 1])
        >>> (rule.add_up(block) / LIMIT).tolist()
        [1.0, 0.0, 0.0, 1.0, 2.0]
    """

    labels: int
    dimension: int
    counted: int = 0

    @property
    def size(self) -> int:
        return self.labels * self.dimension + (self.counted > 0)

    @property
    def squared_bound(self) -> int:
        """Largest squared norm of a contribution, in squared grid steps."""
        return LIMIT**2 + self.counted**2

    def add_up(self, block: Block) -> IntArray:
        total = np.zeros((self.labels, self.dimension), dtype=np.int64)
        if len(block):
            sums, owners, labels = _by_cell(vectors_in_steps(block.vectors), block.units, block.labels)
            np.add.at(total, labels, _shrunk(sums, owners))
        units = len(np.unique(block.units))
        tail = [units * self.counted] if self.counted else []
        return np.concatenate([total.ravel(), np.array(tail, dtype=np.int64)])


@final
@dataclass(frozen=True, eq=False)
class Likeness(SumRule):
    """For each label and each public candidate the likeness of the label's records to it.

    A unit's likenesses lie from 0 to 1 in grid steps, and their ranges over candidates add to at most 1 over labels:
    where it has several records, each counts in equal part.

    Attributes:
        labels: K.
        candidates: Unit vectors of the public candidates, shape (candidates, dimension).
        floor: Cosine at which likeness begins.
        ceiling: Cosine from which on it is 1.

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

    @property
    def size(self) -> int:
        return self.labels * len(self.candidates)

    def add_up(self, block: Block) -> IntArray:
        total = np.zeros((self.labels, len(self.candidates)), dtype=np.int64)
        shares = _shares(block.units)
        for vector, label, share in zip(block.vectors, block.labels.tolist(), shares.tolist(), strict=True):
            total[label] += self.steps_of(vector) // share
        return total.ravel()

    def steps_of(self, vector: FloatArray) -> IntArray:
        """One record's likeness to every candidate, in grid steps from 0 to ``LIMIT``; zeros where it says nothing."""
        if not np.isfinite(vector).all():
            return np.zeros(len(self.candidates), dtype=np.int64)
        near = (np.vecdot(self.candidates, vector) - self.floor) / (self.ceiling - self.floor)
        steps: IntArray = np.floor(np.clip(near, 0.0, 1.0) * LIMIT).astype(np.int64)
        return steps


def vectors_in_steps(vectors: FloatArray) -> NDArray[np.int64]:
    """Vectors in whole grid steps, each of norm at most ``LIMIT``; zeros for a row that is not finite.

    Every step works on one coordinate or one row, so that nothing depends on the other rows.
    """
    finite = np.isfinite(vectors).all(axis=1)
    rows = np.where(finite[:, None], vectors, 0.0)
    most = np.abs(rows).max(axis=1, initial=0.0)
    rows = np.where((most > _LONGEST)[:, None], rows / np.maximum(most, 1.0)[:, None], rows)
    return _within(np.trunc(rows * LIMIT).astype(np.int64))


def _within(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows, each shrunk in whole numbers where its norm is above ``LIMIT``."""
    squares = np.einsum("ij,ij->i", rows, rows)
    for index in np.flatnonzero(squares > LIMIT**2):
        rows[index] = _shrink(rows[index], _norm_above(int(squares[index])))
    return rows


def _by_cell(
    rows: NDArray[np.int64], units: NDArray[np.intp], labels: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """Sums of rows that share a unit and a label, with the unit and the label of each sum."""
    span = int(labels.max()) + 1
    cells, place = np.unique(units * span + labels, return_inverse=True)
    if len(cells) == len(rows):
        return rows, units, labels
    sums = np.zeros((len(cells), rows.shape[1]), dtype=np.int64)
    np.add.at(sums, place, rows)
    return sums, cells // span, cells % span


def _shrunk(sums: NDArray[np.int64], owners: NDArray[np.intp]) -> NDArray[np.int64]:
    """Sums, each shrunk by the length of everything that its unit says where that is above ``LIMIT``."""
    squares = np.zeros(int(owners.max()) + 1, dtype=object)
    np.add.at(squares, owners, np.einsum("ij,ij->i", sums, sums).astype(object))
    long = {owner: _norm_above(int(square)) for owner, square in enumerate(squares) if square > LIMIT**2}
    if long:
        sums = sums.copy()
        for index in np.flatnonzero(np.isin(owners, list(long))):
            sums[index] = _shrink(sums[index], long[int(owners[index])])
    return sums


def _norm_above(square: int) -> int:
    return isqrt(square - 1) + 1


def _shrink(row: NDArray[np.int64], norm: int) -> NDArray[np.int64]:
    """A row times ``LIMIT / norm``, rounded towards zero: no longer than ``LIMIT`` if ``norm`` bounds it."""
    size: NDArray[np.int64] = (np.abs(row).astype(object) * LIMIT // norm).astype(np.int64)
    return np.asarray(np.sign(row) * size, dtype=np.int64)


def _shares(units: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of records of each record's unit."""
    return np.bincount(units, minlength=1)[units] if len(units) else units
