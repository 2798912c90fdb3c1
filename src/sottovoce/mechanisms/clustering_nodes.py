"""Nodes of a private clustering while it runs: which points lie where. Sealed; only noisy numbers leave."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from sottovoce.mechanisms.clustering_projection import PublicProjection
from sottovoce.mechanisms.clustering_release import Branch, Cluster, Clustering, Leaf
from sottovoce.mechanisms.clustering_split import Box, Cut
from sottovoce.privacy.aggregates import IntArray
from sottovoce.records import Opaque


@final
class Node(Opaque):
    """One box of the tree with the points inside.

    Attributes:
        box: Steps it spans along every axis; follows from released cuts.
        size: Noisy number of its private points. Released.
        refused: Cuts that were chosen here and not kept. Follow from what was drawn.
        members: Rows of the private points inside. Private.
        public: Rows of the public points inside.
        kept: The cut and the two nodes it made, once there is one.
    """

    def __init__(
        self, box: Box, size: int, places: tuple[IntArray, IntArray], members: IntArray, public: IntArray
    ) -> None:
        self.box, self.size, self._places = box, size, places
        self.members, self.public = members, public
        self.refused: frozenset[Cut] = frozenset()
        self.kept: tuple[Cut, Node, Node] | None = None

    @classmethod
    def whole(cls, projection: PublicProjection, rows: tuple[IntArray, IntArray], size: int) -> Node:
        """The root: the whole box with all points in it."""
        private, public = (projection.steps_of(part) for part in rows)
        box = ((0, projection.steps),) * projection.coordinates
        return cls(box, size, (private, public), np.arange(len(private)), np.arange(len(public)))

    def _public_face(self) -> str:
        return f"noisy size {self.size}"

    @property
    def estimate(self) -> int:
        """n_hat: noisy private size and exact public size, 1 or more. A constant given what was released."""
        return max(1, self.size + len(self.public))

    @cached_property
    def steps(self) -> IntArray:
        """Steps of every point inside, private and public. Private."""
        return np.concatenate([self._places[0][self.members], self._places[1][self.public]])

    def private_counts(self, axis: int, borders: Sequence[int]) -> IntArray:
        """Private points in the pieces between borders, left to right. Private."""
        return _counts(self._places[0][self.members, axis], borders)

    def public_counts(self, axis: int, borders: Sequence[int]) -> IntArray:
        """Public points in the pieces between borders, left to right."""
        return _counts(self._places[1][self.public, axis], borders)

    def cut(self, cut: Cut, pieces: Sequence[int]) -> list[Node]:
        """The nodes on both sides of a cut, with the noisy counts of their pieces added up."""
        axis, edge = cut
        half = len(pieces) // 2
        private, public = (
            place[rows, axis] < edge for place, rows in zip(self._places, (self.members, self.public), strict=True)
        )
        low, high = self.box[axis]
        sides = (
            self._side(axis, (low, edge), sum(pieces[:half]), private, public),
            self._side(axis, (edge, high), sum(pieces[half:]), ~private, ~public),
        )
        self.kept = (cut, *sides)
        return list(sides)

    def _side(self, axis: int, span: tuple[int, int], size: int, private: IntArray, public: IntArray) -> Node:
        box = tuple(span if number == axis else own for number, own in enumerate(self.box))
        return Node(box, size, self._places, self.members[private], self.public[public])

    def refuse(self, cut: Cut) -> Node:
        """Stays open, without this cut."""
        self.refused |= {cut}
        return self


def _counts(places: IntArray, borders: Sequence[int]) -> IntArray:
    return np.bincount(np.searchsorted(np.array(borders), places, side="right"), minlength=len(borders) + 1)


def release_tree(
    root: Node, leaves: Sequence[Node], clusters: Sequence[Cluster], projection: PublicProjection, radius: Fraction
) -> Clustering:
    """The release: clusters by noisy size, largest first, and the tree that points to them."""
    order = sorted(range(len(leaves)), key=lambda index: -clusters[index].size)
    place = {id(leaves[index]): rank for rank, index in enumerate(order)}

    def released(node: Node) -> Branch | Leaf:
        if node.kept is None:
            return Leaf(place[id(node)], node.size)
        (axis, edge), below, above = node.kept
        return Branch(axis, edge, projection.position(axis, edge), node.size, released(below), released(above))

    return Clustering(tuple(clusters[index] for index in order), released(root), projection, radius)
