"""What private clustering releases: a tree of cuts with noisy sizes, and a noisy centre for each leaf

Guarantee   Everything here, and everything computed from it and public points, is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.points import FloatArray


@final
@dataclass(frozen=True)
class Leaf:
    """A cluster.

    Attributes:
        index: Its place in ``Clustering.clusters``.
        size: Noisy number of private points; may be below 0.
    """

    index: int
    size: int


@final
@dataclass(frozen=True)
class Branch:
    """A cut that was kept.

    Attributes:
        axis: The coordinate.
        edge: Points whose step is below this edge are on the side ``below``.
        position: Where the edge lies, in the unit of the projected coordinates.
        size: Noisy number of private points.
        below: What lies below the edge.
        above: The rest.
    """

    axis: int
    edge: int
    position: float
    size: int
    below: Branch | Leaf
    above: Branch | Leaf


@final
@dataclass(frozen=True, eq=False)
class Cluster:
    """One leaf's release.

    Attributes:
        centre: Noisy sum over noisy size, in the original or the projected space as the mechanism was told.
        size: Noisy number of private points; may be below 0.
        public_size: Exact number of public points that were given along.
    """

    centre: FloatArray
    size: int
    public_size: int = 0


@final
@dataclass(frozen=True, eq=False)
class Clustering:
    """The release of one private clustering.

    Attributes:
        clusters: From the largest noisy size to the smallest.
        tree: The cuts; leaves point to ``clusters``.
        projection: The public projection that the cuts refer to.
        radius: Points are clipped to it before they are looked up.
    """

    clusters: tuple[Cluster, ...]
    tree: Branch | Leaf
    projection: PublicProjection
    radius: Fraction = Fraction(1)

    def assign(self, points: ArrayLike) -> IntArray:
        """The cluster of each public point, by the released cuts.

        Args:
            points: Public vectors, shape (points, dimensions). For private ones the answer is private, too.

        Returns:
            Indices into ``clusters``, shape (points,).

        Raises:
            ParameterError: The vectors have another length, or one is not finite.
        """
        array = self.projection.require_finite(points, "points")
        steps = self.projection.steps_of_public(array, self.radius)
        assigned = np.empty(len(steps), dtype=np.int64)
        self._descend(self.tree, steps, np.arange(len(steps)), assigned)
        return assigned

    def _descend(self, node: Branch | Leaf, steps: IntArray, members: IntArray, assigned: IntArray) -> None:
        if isinstance(node, Leaf):
            assigned[members] = node.index
            return
        below = steps[members, node.axis] < node.edge
        self._descend(node.below, steps, members[below], assigned)
        self._descend(node.above, steps, members[~below], assigned)

    def to_json(self) -> dict[str, Any]:
        """The release as plain values."""
        return {
            "projection": self.projection.name,
            "clusters": [
                {"size": c.size, "public_size": c.public_size, "centre": c.centre.tolist()} for c in self.clusters
            ],
            "tree": _tree_json(self.tree),
        }


def _tree_json(node: Branch | Leaf) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"cluster": node.index, "size": node.size}
    return {
        "axis": node.axis,
        "edge": node.edge,
        "position": node.position,
        "size": node.size,
        "below": _tree_json(node.below),
        "above": _tree_json(node.above),
    }
