"""Coresets by cells: for each cell of a charged clustering the records of that cell nearest to its noisy middle.

Guarantee   A slot holds records of its own cell alone, so that one change of a record touches the slot that it leaves
            and the slot that it joins: one where units come, go or are blanked, two where they are replaced. Nothing is
            amplified: given the cells there are no coins.
Assumes     Cells and middles were released by a mechanism that is charged by itself.
Sources     specification 5.7.2 (b), 2.2 (slots by content), 2.2.5 (order within a slot).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.models.base import FloatArray


class Cells(Protocol):
    """Released cells: who is in which one, and their middles."""

    def assign(self, points: FloatArray) -> NDArray[np.int64]:
        """The cell of every point, shape (points,)."""

    @property
    def centres(self) -> FloatArray:
        """Noisy middles in the points' own space, shape (cells, dimension)."""


def nearest_of_each_cell(vectors: FloatArray, cells: Cells, shots: int) -> list[list[int]]:
    """For every cell the units in it that are nearest to its middle, nearest first. Private.

    Distances are worked out unit by unit, so that no unit moves another one's. Equal ones go by the vector itself, and
    equal vectors by the order of the units, which no other unit changes.

    Args:
        vectors: Of the units, shape (units, dimension); a unit whose row is not finite is in no cell.
        cells: Released.
        shots: Most units a slot.

    Returns:
        One list a cell; an empty one is a null expert.
    """
    centres = cells.centres
    members: list[list[tuple[float, tuple[float, ...], int]]] = [[] for _ in centres]
    for unit, vector in enumerate(vectors):
        if np.isfinite(vector).all():
            cell = int(cells.assign(vector[None, :])[0])
            far = float(((vector - centres[cell]) ** 2).sum())
            members[cell].append((far, tuple(vector.tolist()), unit))
    return [[unit for _, _, unit in sorted(cell)[:shots]] for cell in members]
