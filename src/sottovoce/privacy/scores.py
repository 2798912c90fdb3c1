"""The seam from experts to mechanism: summed, clipped, integer scores with the bound that makes them safe to use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.privacy.unit import Adjacency
from sottovoce.records import Opaque

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
        array = np.asarray(values)
        if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
            raise ParameterError("values", f"{array.dtype} of shape {array.shape}", "a list of whole numbers")
        if int(array.max()) > MOST or int(array.min()) < -MOST:
            raise ParameterError("values", "a number of more than 60 bits", "whole numbers of up to 60 bits")
        if not isinstance(sensitivity, int) or isinstance(sensitivity, bool) or sensitivity < 1:
            raise ParameterError("sensitivity", sensitivity, "a whole number, 1 or more")
        if squared_l2 is not None and (
            not isinstance(squared_l2, int) or isinstance(squared_l2, bool) or squared_l2 < 1
        ):
            raise ParameterError("squared_l2", squared_l2, "a whole number, 1 or more, or None")
        self.values: IntArray = array.astype(np.int64)
        self.sensitivity, self.adjacency, self.squared_l2 = sensitivity, adjacency, squared_l2

    def _public_face(self) -> str:
        return f"{self.values.size} candidates, sensitivity {self.sensitivity}, {self.adjacency.value}"
