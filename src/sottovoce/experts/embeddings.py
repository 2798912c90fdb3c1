"""What experts say in vectors: embeddings clipped one by one, and keyword lists, summed as whole numbers.

Guarantee   Each summand is computed from its expert's row alone and has at most the stated norm, checked in whole
            numbers; a null expert adds the zero vector. The bound of the sum follows from public parameters, never
            from the number of experts that answered.
Sources     specification 1.5, 2.4 (denominators), 5.4, 5.5.4 (keyword cap), 9.1, 9.3 (truncation and check).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.parameters import COUNT, Number
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import Adjacency, ChangeType

FloatArray = NDArray[np.float64]
VECTOR_GRID_BITS: Final = 16
"""Vectors are put on a grid of 2**-16 of their own unit."""
_MOST_STEPS: Final = 1 << 40
"""Largest norm of a summand, in grid steps, so that sums over millions of experts do not overflow."""
Clip = Annotated[float, Number(2.0**-VECTOR_GRID_BITS, _MOST_STEPS * 2.0**-VECTOR_GRID_BITS)]
"""A norm bound that the grid of vectors can keep."""


def sum_of_clipped(
    rows: FloatArray,
    bound: float,
    change: ChangeType,
    adjacency: Adjacency,
    denominator: int,
    *,
    grid_bits: int = VECTOR_GRID_BITS,
) -> VectorSum:
    """Sums the experts' vectors, each clipped to Euclidean norm ``bound`` and put on a grid of 2**-grid_bits.

    Embedding-space aggregation (``methods.answering.esa``) needs it (specification 5.4).

    Args:
        rows: Shape (experts, dimensions); a row that is not finite is a null expert.
        bound: Largest norm of one expert's vector.
        change: How one change of the data can change the rows.
        adjacency: The relation that ``change`` is for.
        denominator: The fixed public number to divide the sum by, such as the number of slots.
        grid_bits: Fineness of the grid, 0 to 32.

    Raises:
        ParameterError: A public parameter is out of range.

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> sum_of_clipped(np.array([[3.0, 4.0], [0.0, 0.5]]), 1.0, SWAP, Adjacency.REPLACE_ONE, 2, grid_bits=4)
        VectorSum(2 dimensions, squared L2 1024, replace-one, denominator 2)
    """
    steps = bound_in_steps(bound, grid_bits)
    summands = [clipped_to_grid(row, bound, grid_bits) for row in rows]
    return VectorSum(
        [sum(column) for column in zip(*summands, strict=True)] if summands else [0] * rows.shape[1],
        squared_l2=(steps * change.widths) ** 2,
        adjacency=adjacency,
        denominator=COUNT.read("denominator", denominator),
        grid_step=Fraction(1, 1 << grid_bits),
    )


def bound_in_steps(bound: float, grid_bits: int) -> int:
    """The norm bound in whole grid steps, rounded down."""
    grid_bits = Number(0, 32, whole=True, strict=True).read("grid_bits", grid_bits)
    if not (0 < bound < math.inf and 1 <= (steps := int(exact(bound) * 2**grid_bits)) <= _MOST_STEPS):
        raise ParameterError("bound", bound, f"from 2**-{grid_bits} to 2**{40 - grid_bits}, for this grid")
    return steps


def clipped_to_grid(row: FloatArray, bound: float, grid_bits: int) -> list[int]:
    """One expert's vector in whole grid steps, its norm at most ``bound``; zeros for a row that is not finite.

    Floating point only shapes the vector; that it is short enough is decided in whole numbers. Every operation is on
    one coordinate or correctly rounded, so that nothing depends on how rows lie in memory.
    """
    limit = bound_in_steps(bound, grid_bits)
    values = [float(x) for x in row]
    if not all(map(math.isfinite, values)):
        return [0] * len(values)
    shrink = _float_shrinkage(values, float(bound))
    return _within([math.trunc(math.ldexp(x * shrink, grid_bits)) for x in values], limit)


def keyword_counts(
    rows: Sequence[Sequence[int]] | NDArray[np.int64],
    keywords_per_response: int,
    change: ChangeType,
    adjacency: Adjacency,
) -> VectorSum:
    """Counts for every public keyword the responses that hold it, at most ``keywords_per_response`` of each response.

    Keyword-space aggregation (``methods.answering.ksa``) needs it (specification 5.5).

    A response with more keeps the first ones of the public list; a row with anything but 0 and 1 is a null expert.

    Args:
        rows: Shape (experts, keywords), 0 or 1; with no experts, an array of shape (0, keywords).
        keywords_per_response: The cap on one row's sum, w. Public.
        change: How one change of the data can change the rows.
        adjacency: The relation that ``change`` is for.

    Raises:
        ParameterError: The cap is not a positive whole number, or ``rows`` has not two dimensions.

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> keyword_counts([[1, 1, 1], [0, 1, 0]], 2, SWAP, Adjacency.REPLACE_ONE)
        VectorSum(3 dimensions, squared L2 4, replace-one, denominator 1)
    """
    cap = COUNT.read("keywords_per_response", keywords_per_response)
    array = np.asarray(rows)
    if array.ndim != 2:
        raise ParameterError("rows", f"an array of {array.ndim} dimensions", "one of shape (experts, keywords)")
    valid = ((array == 0) | (array == 1)).all(axis=1, keepdims=True)
    held = np.where(valid, array == 1, False)
    kept = held & (np.cumsum(held, axis=1) <= cap)
    # A drop takes away at most w ones. A swap also brings w others; k swaps can agree, so that norms add.
    squared_l2 = cap if change.widths == 1 else 2 * cap * change.rows**2
    return VectorSum(kept.sum(axis=0, dtype=np.int64), squared_l2=squared_l2, adjacency=adjacency)


def _float_shrinkage(values: list[float], bound: float) -> float:
    """About min(1, bound / norm), from a correctly rounded sum of squares; a power of two keeps it from overflow."""
    exponent = max(0, math.frexp(max(map(abs, values), default=0.0))[1])
    norm = math.sqrt(math.fsum(math.ldexp(x, -exponent) ** 2 for x in values))
    ratio = math.ldexp(bound, -exponent) / norm if norm else 1.0
    return min(1.0, ratio)


def _within(steps: list[int], limit: int) -> list[int]:
    """The vector, shrunk in whole numbers if its norm is above ``limit``."""
    square = sum(x * x for x in steps)
    if square <= limit * limit:
        return steps
    norm_above = isqrt(square - 1) + 1
    shrunk = [abs(x) * limit // norm_above * (1 if x > 0 else -1) for x in steps]
    if sum(x * x for x in shrunk) > limit * limit:
        raise AssertionError("an expert's vector is longer than its bound")
    return shrunk
