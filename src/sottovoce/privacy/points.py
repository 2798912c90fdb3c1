"""The seam to private clustering: one vector a unit, clipped and on a whole-number grid.

Guarantee   A row on the grid is a function of its own vector alone, bit for bit, and no longer than the public radius.
Assumes     One protected unit decides one row; ``radius`` and the dimension are public.
Sources     specification 9.1, 9.3 (truncation toward zero, the norm checked in whole numbers), 9.6 (isolation).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import ParameterError
from sottovoce.parameters import ExactNumber
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import Opaque

FloatArray = NDArray[np.float64]

GRID_BITS: Final = 16
"""A grid step is 2**-16 of the vectors' own unit."""

MOST_RADIUS: Final = 16
_REACH: Final = 16
MOST_DIMENSIONS: Final = 1 << 14
"""Single coordinates are cut at 16 radii first: squared norms stay below (16 * 16 * 2**16)**2 * 2**14 = 2**62."""


@final
class PrivatePoints(Opaque):
    """Private vectors, each clipped to a public ball by itself.

    A vector that is not finite is a null output: it is in no cell and adds nothing to a sum. That is what a unit that
    was zeroed out has to be under zero-out.

    Args:
        vectors: Shape (units, dimensions).
        adjacency: What one change is; under all but add/remove the number of units is public.
        radius: Public bound on the Euclidean norm; longer vectors are shortened to it.
        dimension: Length of a vector, for a list that may be empty: a refusal would tell that nobody is there.

    Attributes:
        rows: Whole grid steps, shape (units that are not null, dimensions). Private.
        slots: The number of units where it is public, else ``None``.
        dimension: Length of a vector. Public.

    Raises:
        ParameterError: The vectors have no common length, or the radius is out of range.

    Example:
        >>> PrivatePoints([[0.6, 0.8], [3.0, 4.0]], adjacency=Adjacency.REPLACE_ONE)
        PrivatePoints(2 dimensions, radius 1, replace-one, 2 units)
        >>> PrivatePoints([[0.6, 0.8]], adjacency=Adjacency.ADD_REMOVE)
        PrivatePoints(2 dimensions, radius 1, add-remove)
    """

    __slots__ = ("adjacency", "dimension", "radius", "rows", "slots")

    def __init__(
        self,
        vectors: ArrayLike,
        *,
        adjacency: Adjacency,
        radius: Fraction | int = 1,
        dimension: int | None = None,
    ) -> None:
        array = as_vectors(vectors, "vectors", dimension)
        self.radius = require_radius(radius)
        self.rows: IntArray = grid_rows(array, self.radius)
        self.dimension: int = array.shape[1]
        self.adjacency = adjacency
        self.slots: int | None = len(array) if adjacency.size_is_public else None

    def _public_face(self) -> str:
        units = "" if self.slots is None else f", {self.slots} units"
        return f"{self.dimension} dimensions, radius {self.radius}, {self.adjacency.value}{units}"


def as_vectors(vectors: ArrayLike, name: str, dimension: int | None = None) -> FloatArray:
    """A float array of shape (units, dimensions); messages name its public form only."""
    try:
        array = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, "no array of numbers", "vectors of one length") from None
    if array.shape == (0,) and dimension:
        array = array.reshape(0, dimension)
    if array.ndim != 2 or not 1 <= array.shape[1] <= MOST_DIMENSIONS:
        raise ParameterError(name, f"an array of {array.ndim} dimensions", "of shape (units, dimensions)")
    return array


def require_radius(radius: Fraction | int) -> Fraction:
    """A public radius: an exact number above 0."""
    exact_radius = ExactNumber(0, MOST_RADIUS, above_least=True).read("radius", radius)
    if exact_radius * (1 << GRID_BITS) < 1:
        raise ParameterError("radius", radius, f"at least one grid step, 2**-{GRID_BITS}")
    return exact_radius


def bound_of(radius: Fraction) -> int:
    """The radius in whole grid steps, rounded down."""
    return math.floor(radius * (1 << GRID_BITS))


def grid_rows(vectors: FloatArray, radius: Fraction) -> IntArray:
    """Finite rows in grid steps, truncated toward zero, then clipped to the radius in whole numbers."""
    finite = vectors[np.isfinite(vectors).all(axis=1)]
    most = float(_REACH * radius)
    rows = np.trunc(np.clip(finite, -most, most) * (1 << GRID_BITS)).astype(np.int64)
    return clip_rows(rows, bound_of(radius))


def clip_rows(rows: IntArray, bound: int) -> IntArray:
    """Shortens every row whose squared norm exceeds ``bound`` squared; each by itself, in whole numbers."""
    squares = (rows * rows).sum(axis=1)
    clipped = rows.copy()
    for index in np.flatnonzero(squares > bound * bound):
        norm = math.isqrt(int(squares[index])) + 1
        clipped[index] = [abs(int(x)) * bound // norm * (1 if x > 0 else -1) for x in rows[index]]
    return clipped
