"""The seam from experts to vector releases: a sum of clipped integer vectors with the bound that makes it safe."""

from __future__ import annotations

from fractions import Fraction
from typing import final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.privacy.scores import MOST, IntArray
from sottovoce.privacy.unit import Adjacency
from sottovoce.records import Opaque


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
        array = np.asarray(values)
        if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
            raise ParameterError("values", f"{array.dtype} of shape {array.shape}", "a list of whole numbers")
        if int(array.max()) > MOST or int(array.min()) < -MOST:  # an unsigned one would wrap around
            raise ParameterError("values", "a number of more than 60 bits", "whole numbers of up to 60 bits")
        for name, bound in (("squared_l2", squared_l2), ("denominator", denominator)):
            if not isinstance(bound, int) or isinstance(bound, bool) or bound < 1:
                raise ParameterError(name, bound, "a whole number, 1 or more")
        if not isinstance(grid_step, Fraction) or grid_step <= 0:
            raise ParameterError("grid_step", grid_step, "a fraction above 0")
        self.values: IntArray = array.astype(np.int64)
        self.squared_l2, self.adjacency = squared_l2, adjacency
        self.denominator, self.grid_step = denominator, grid_step

    def _public_face(self) -> str:
        return (
            f"{self.values.size} dimensions, squared L2 {self.squared_l2}, {self.adjacency.value}, "
            f"denominator {self.denominator}"
        )
