"""A public way from vectors to a few coordinates, and a public box in which each coordinate is cut into steps.

Axes, box and number of steps are functions of public things alone: the dimension, a published seed, or embeddings of
public texts. A box read off the private points would give them away (specification 5.6.2), so there is no such option.

Guarantee   A point's steps depend on that point alone, bit for bit: rows and axes are whole numbers and so is the
            product, whatever order it is summed in (specification 9.6).
Sources     Coordinates of random unit vectors have standard deviation 1/sqrt(d): docs/decisions/0005.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ParameterError
from sottovoce.parameters import Number, read_fields
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.points import (
    GRID_BITS,
    FloatArray,
    as_vectors,
    bound_of,
    clip_rows,
    grid_rows,
    require_radius,
)
from sottovoce.randomness import SeededRandomness

AXIS_BITS: Final = 16
COORDINATE_BITS: Final = GRID_BITS + AXIS_BITS
PUBLIC_SEED: Final = 20261120
"""The published seed of the default random axes. It protects nothing; anybody may know it."""

MOST_STEPS: Final = 4096
_EDGE: Final = Number(-1024, 1024)


@final
@dataclass(frozen=True, eq=False, repr=False)
class PublicProjection:
    """Axes, box and steps. Make one with ``raw``, ``random`` or ``principal``.

    Attributes:
        name: How it was made.
        axes: Whole numbers of 2**-16, shape (axes, dimensions); ``None`` for the vectors' own coordinates.
        lows: Lower end of the box, one an axis, in whole numbers of 2**-32.
        highs: Upper end.
        steps: How many equal steps each axis has between them. What lies outside counts to the outermost step.
        dimension: Length of the vectors that go in.

    Example:
        >>> flat = PublicProjection.raw(2, steps=4)
        >>> flat.steps_of_public([[-0.9, 0.1], [0.0, 7.0]]).tolist()
        [[0, 2], [2, 3]]
    """

    name: str
    axes: IntArray | None
    lows: IntArray
    highs: IntArray
    steps: int
    dimension: int

    def __post_init__(self) -> None:
        read_fields(self, steps=Number(2, MOST_STEPS, whole=True, strict=True))
        if not (self.lows + self.steps <= self.highs).all():
            raise ParameterError("box", self.name, "wider than nothing along every axis")
        parts = (self.lows, self.highs) if self.axes is None else (self.lows, self.highs, self.axes)
        if any(part.dtype != np.int64 for part in parts):
            # A product of floats is summed in another order in another batch: one point would move other points.
            raise ParameterError("axes, lows, highs", "an array of other numbers", "64-bit whole numbers")

    @classmethod
    def raw(cls, dimension: int, *, low: float = -1.0, high: float = 1.0, steps: int = 16) -> PublicProjection:
        """The vectors' own coordinates in one box for all, as published."""
        lows, highs = (np.full(dimension, _whole(edge)) for edge in (low, high))
        return cls(f"raw coordinates in [{low:g}, {high:g}]", None, lows, highs, steps, dimension)

    @classmethod
    def random(
        cls, dimension: int, axes: int = 8, *, reach: float = 3.0, steps: int = 48, seed: int = PUBLIC_SEED
    ) -> PublicProjection:
        """Orthonormal axes from a public seed; the box is ``reach`` standard deviations of a random unit vector.

        Args:
            dimension: Length of the vectors.
            axes: How many coordinates to keep.
            reach: Half the box, in units of 1/sqrt(dimension).
            steps: Steps of each axis.
            seed: Public.
        """
        axes = _axes(axes, dimension)
        directions = _orthonormal(_normals(axes * dimension, seed).reshape(axes, dimension))
        edge = np.full(axes, reach / math.sqrt(dimension))
        return cls._of(f"{axes} random axes, seed {seed}", directions, -edge, edge, steps)

    @classmethod
    def principal(cls, public: ArrayLike, axes: int = 8, *, reach: float = 2.5, steps: int = 48) -> PublicProjection:
        """Principal axes of public embeddings; the box is ``reach`` of their standard deviations about their mean.

        Args:
            public: Embeddings of public texts, shape (texts, dimensions). Nothing private may be among them.
            axes: How many coordinates to keep.
            reach: Half the box, in standard deviations of the public coordinates.
            steps: Steps of each axis.

        Raises:
            ParameterError: There are fewer public texts or dimensions than axes.
        """
        known = as_vectors(public, "public")
        known = known[np.isfinite(known).all(axis=1)]
        axes = _axes(axes, min(known.shape[1], len(known) - 1))
        middle = known.mean(axis=0)
        directions = np.linalg.svd(known - middle, full_matrices=False)[2][:axes]
        directions *= np.where(directions[np.arange(axes), np.abs(directions).argmax(axis=1)] < 0, -1, 1)[:, None]
        spread = reach * ((known - middle) @ directions.T).std(axis=0)
        centre = directions @ middle
        return cls._of(f"{axes} principal axes of public texts", directions, centre - spread, centre + spread, steps)

    @classmethod
    def _of(cls, name: str, axes: FloatArray, low: FloatArray, high: FloatArray, steps: int) -> PublicProjection:
        whole = np.rint(axes * (1 << AXIS_BITS)).astype(np.int64)
        lows, highs = (np.array([_whole(float(x)) for x in edge]) for edge in (low, high))
        return cls(name, whole, lows, highs, steps, axes.shape[1])

    def __repr__(self) -> str:
        return f"PublicProjection({self.name}, {self.steps} steps)"

    @property
    def coordinates(self) -> int:
        """How many coordinates come out."""
        return len(self.lows)

    def project(self, rows: IntArray) -> IntArray:
        """Coordinates of grid rows in whole numbers of 2**-32, shape (rows, coordinates)."""
        if self.axes is None:
            return np.asarray(rows << AXIS_BITS)
        return np.asarray(rows @ self.axes.T)

    def steps_of(self, rows: IntArray) -> IntArray:
        """The step of every coordinate of every grid row, 0 to ``steps`` - 1, shape (rows, coordinates)."""
        places = self.project(rows)
        steps = np.empty_like(places)
        for axis in range(self.coordinates):
            inner = [self._edge(axis, edge) for edge in range(1, self.steps)]
            steps[:, axis] = np.searchsorted(np.array(inner), places[:, axis], side="right")
        return steps

    def steps_of_public(self, points: ArrayLike, radius: Fraction | int = 1) -> IntArray:
        """The same for public vectors, clipped to the same radius."""
        return self.steps_of(grid_rows(self.require_finite(points, "points"), require_radius(radius)))

    def require_finite(self, points: ArrayLike, name: str) -> FloatArray:
        """Public vectors of the right length without gaps."""
        array = self.require_vectors(points, name)
        if not np.isfinite(array).all():
            raise ParameterError(name, "vectors that are not finite", "numbers throughout")
        return array

    def require_vectors(self, points: ArrayLike, name: str) -> FloatArray:
        """Vectors of the right length, or an error that says which length is."""
        array = as_vectors(points, name)
        if array.shape[1] != self.dimension:
            raise ParameterError(name, f"vectors of length {array.shape[1]}", f"of length {self.dimension}")
        return array

    def position(self, axis: int, edge: int) -> float:
        """Where an edge lies, in the unit of the projected coordinates."""
        return self._edge(axis, edge) / (1 << COORDINATE_BITS)

    def _edge(self, axis: int, edge: int) -> int:
        low, high = int(self.lows[axis]), int(self.highs[axis])
        return low + edge * (high - low) // self.steps

    @property
    def box_centre(self) -> FloatArray:
        """The middle of the box, in the unit of the projected coordinates."""
        return np.asarray(self._middle / (1 << GRID_BITS))

    @property
    def box_radius(self) -> Fraction:
        """Half the box's diagonal, rounded up to a grid step: no clipped point is further from the middle."""
        half = [int(x) for x in self._half]
        return Fraction(math.isqrt(sum(x * x for x in half)) + 1, 1 << GRID_BITS)

    def boxed_rows(self, rows: IntArray) -> IntArray:
        """Projected coordinates about the middle of the box in grid steps, clipped into the box."""
        about = (self.project(rows) >> AXIS_BITS) - self._middle
        return clip_rows(np.clip(about, -self._half, self._half), bound_of(self.box_radius))

    @property
    def _middle(self) -> IntArray:
        return np.asarray((self.lows + self.highs) >> (AXIS_BITS + 1))

    @property
    def _half(self) -> IntArray:
        return np.asarray(((self.highs - self.lows) >> (AXIS_BITS + 1)) + 1)


def _whole(edge: float) -> int:
    return math.floor(float(_EDGE.read("box", edge)) * (1 << COORDINATE_BITS))


def _axes(axes: int, most: int) -> int:
    words = f"a whole number from 1 to {most}, which the vectors allow"
    return int(Number(1, most, whole=True, strict=True, words=words).read("axes", axes))


def _normals(count: int, seed: int) -> FloatArray:
    """Standard normal numbers from a public seed, by Box and Muller; they decide nothing private."""
    source = SeededRandomness(seed)
    uniform = np.array([(source.below(1 << 52) + 0.5) / (1 << 52) for _ in range(2 * count)]).reshape(2, count)
    return np.asarray(np.sqrt(-2 * np.log(uniform[0])) * np.cos(2 * math.pi * uniform[1]))


def _orthonormal(directions: FloatArray) -> FloatArray:
    """Gram and Schmidt, one direction after the other."""
    done: list[FloatArray] = []
    for direction in directions:
        rest = direction - sum(((direction @ axis) * axis for axis in done), np.zeros_like(direction))
        done.append(rest / np.linalg.norm(rest))
    return np.stack(done)
