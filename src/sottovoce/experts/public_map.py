"""A public linear map of embeddings: it turns them to where public texts vary, and takes off what noise would drown.

Isolation   A mapped vector is a function of its own row and of the map: one dot product a coordinate, never a matrix
            product, whose blocks depend on the other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self, final

import numpy as np

from sottovoce.models.base import FloatArray

_ALIKE: Final = 1e-12
"""Share of the largest coordinate by which vectors differ that are alike but for rounding."""


@final
@dataclass(frozen=True, eq=False)
class PublicMap:
    """Takes off a centre, maps, and scales to length one.

    Attributes:
        centre: Shape (dimension,).
        matrix: Shape (mapped dimension, dimension); every row gives one coordinate.
    """

    centre: FloatArray
    matrix: FloatArray

    def __call__(self, vectors: FloatArray) -> FloatArray:
        """Maps rows, shape (rows, mapped dimension). A row that is not finite stays so; one that vanishes is zeros."""
        mapped = np.empty((len(vectors), len(self.matrix)))
        with np.errstate(all="ignore"):
            for index, vector in enumerate(vectors):
                row = np.vecdot(self.matrix, vector - self.centre)
                norm = np.sqrt((row * row).sum())
                mapped[index] = row / (norm if norm != 0 else 1.0)
        return mapped

    @classmethod
    def concentrating(cls, pool: FloatArray, noise: float) -> tuple[Self, FloatArray]:
        """The map that concentrates embeddings where a public pool varies by more than the noise.

        With the pool's second moment Sigma about its mean c, x becomes unit(U' T (x - c)), where T is the square root
        of Sigma / (Sigma + noise I) and U turns to the eigenvectors of what is mapped. Without noise T is the identity.

        Args:
            pool: Vectors of public texts, shape (texts, dimension). Where they are all alike nothing is taken off: they
                do not tell one coordinate from another.
            noise: What one coordinate of a mean will have of noise, as a variance.

        Returns:
            The map, and the variance of each mapped coordinate over the pool, shape (dimension,), which add to 1.
        """
        centre = pool.mean(axis=0)
        apart = pool - centre
        if np.abs(apart).max() <= _ALIKE * np.abs(pool).max():
            dimension = pool.shape[1]
            return cls(np.zeros(dimension), np.eye(dimension)), np.full(dimension, 1 / dimension)
        centred = _unit(apart)
        values, turn = np.linalg.eigh(centred.T @ centred / len(centred))
        values = np.maximum(values, 0.0)
        gain = np.sqrt(values / (values + noise)) if noise > 0 else np.ones_like(values)
        matrix = (turn * gain) @ turn.T
        mapped = _unit(centred @ matrix)
        values, turn = np.linalg.eigh(mapped.T @ mapped / len(mapped))
        return cls(centre, np.ascontiguousarray((matrix @ turn).T)), np.maximum(values, 0.0)


def _unit(rows: FloatArray) -> FloatArray:
    norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(norms == 0, 1.0, norms))
