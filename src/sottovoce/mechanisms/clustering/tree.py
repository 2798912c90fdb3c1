"""The tree of a private clustering: its sealed nodes, candidate cuts, and utilities in whole numbers.

A cut lies on an edge between steps. Its window is the ``half_window`` steps on either side. Its utility rewards an
empty window and a middle rank:

    u = -emptiness * (points in the window) + centreness * n_hat f(rank / n_hat)

That is n_hat times the published score, less a constant that the choice does not see, and without the score's clipping.

Guarantee   ``SplitScore.width`` bounds range(u - u') exactly: utilities are whole multiples of 1/scale, so nothing is
            rounded and no grid steps are added to the width.
Assumes     n_hat is a constant given what was released before; windows, cuts and their number are public.
Sources     Liebenow et al. (2024, DPM: clustering sensitive data through separation) for the score; specification
            5.6.2 for the widths, T16(b), oracle O21. Proof: docs/proofs/private_clustering.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.mechanisms.clustering.release import Branch, Cluster, Clustering, Leaf
from sottovoce.parameters import ExactNumber
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import Opaque

MOST_PER_POINT: Final = 1 << 28
"""Whole-number weights of a point in a window, a rank and a unit of size. Utilities of 2**30 points stay in 60 bits."""

Box = tuple[tuple[int, int], ...]
"""First and one past the last step of every axis."""
Cut = tuple[int, int]
"""Axis and edge: points whose step is below the edge go left."""


@final
@dataclass(frozen=True)
class SplitScore:
    """Weights of the score and the shape of centreness.

    Attributes:
        emptiness: Weight of an empty window.
        centreness: Weight of a middle rank.
        shoulder: Height of centreness at rank ``margin * n_hat`` and its mirror image; 1 at the middle, 0 at the ends.
        margin: Share of points on either side that counts as the rim.

    Raises:
        ParameterError: A weight is negative or both are 0, the shape is none, or the fractions have no common
            denominator that is small enough: utilities must be exact whole numbers however many points there are.

    Example:
        >>> score = SplitScore()
        >>> [str(score.width(adjacency)) for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)]
        ['61/5', '86/5']
    """

    emptiness: Fraction = Fraction(5)
    centreness: Fraction = Fraction(1)
    shoulder: Fraction = Fraction(3, 10)
    margin: Fraction = Fraction(1, 12)

    def __post_init__(self) -> None:
        for name in ("emptiness", "centreness", "shoulder", "margin"):
            value = ExactNumber(0, 1000).read(name, getattr(self, name))
            if value.denominator > 1000:
                raise ParameterError(name, value, "a fraction with a denominator of at most 1000")
        if not (0 < self.margin < Fraction(1, 2) and self.shoulder <= 1 and self.emptiness + self.centreness > 0):
            raise ParameterError("score", self, "weights above 0, margin below 1/2, shoulder at most 1")
        if max(map(abs, self._whole)) > MOST_PER_POINT:
            raise ParameterError("score", self, "fractions with a smaller common denominator, such as whole hundredths")

    @property
    def outer_slope(self) -> Fraction:
        """Rise of n f(rank / n) a rank, on the rim."""
        return Fraction(self.shoulder) / self.margin

    @property
    def inner_slope(self) -> Fraction:
        """Rise of n f(rank / n) a rank, between rim and middle."""
        return 2 * (1 - Fraction(self.shoulder)) / (1 - 2 * Fraction(self.margin))

    @property
    def steepest(self) -> Fraction:
        """How far one rank moves n f(rank / n) at most."""
        return max(self.outer_slope, self.inner_slope)

    @property
    def concave(self) -> bool:
        """Whether centreness is steeper on the rim than inside; the one-axis widths rest on it."""
        return self.outer_slope >= self.inner_slope

    def width(self, adjacency: Adjacency, *, one_axis: bool = False) -> Fraction:
        """The largest range of u - u' over the cuts of one node.

        Args:
            adjacency: One point added or gone; or, under replace-one, moved inside the node.
            one_axis: Whether all cuts of the node lie on one axis that was fixed in public.
        """
        window, rank = Fraction(self.emptiness), Fraction(self.centreness) * self.steepest
        moved = adjacency is Adjacency.REPLACE_ONE
        if one_axis and self.concave:
            return max((2 if moved else 1) * window + rank, 2 * rank)
        return (2 if moved else 1) * window + 2 * rank

    @cached_property
    def scale(self) -> int:
        """The least whole number that makes every utility whole."""
        parts = (self.emptiness, *(Fraction(self.centreness) * part for part in (*self._slopes, self._offset)))
        return math.lcm(*(Fraction(part).denominator for part in parts))

    @property
    def _slopes(self) -> tuple[Fraction, Fraction]:
        return self.outer_slope, self.inner_slope

    @cached_property
    def _whole(self) -> tuple[int, ...]:
        """``scale`` times outer slope, inner slope and offset of centreness, and emptiness."""
        central = (Fraction(self.centreness) * part for part in (*self._slopes, self._offset))
        outer, inner, offset, empty = (int(self.scale * part) for part in (*central, Fraction(self.emptiness)))
        return outer, inner, offset, empty

    @property
    def _offset(self) -> Fraction:
        """n f(rank / n) = inner_slope * rank + offset * n between rim and middle."""
        return self.shoulder - self.margin * self.inner_slope

    def utilities(self, windows: IntArray, ranks: IntArray, size: int) -> IntArray:
        """``scale`` times the utility of each cut.

        Args:
            windows: Points in each cut's window.
            ranks: Points below each cut. Outside 0 to ``size`` centreness goes on falling along its outer slope.
            size: n_hat, 1 or more.
        """
        near = np.minimum(ranks, size - ranks)
        outer, inner, offset, empty = self._whole
        rim = near * Fraction(self.margin).denominator <= size * Fraction(self.margin).numerator
        central = np.where(rim, outer * near, inner * near + offset * size)
        return np.asarray(central - empty * windows)


def cuts_within(box: Box, half_window: int, axes: Iterable[int], refused: frozenset[Cut]) -> list[Cut]:
    """The cuts of a node whose window lies inside its box: a function of released cuts alone."""
    return [
        (axis, edge)
        for axis in axes
        for edge in range(box[axis][0] + half_window, box[axis][1] - half_window + 1)
        if (axis, edge) not in refused
    ]


def windows_and_ranks(steps: IntArray, cuts: list[Cut], half_window: int, count: int) -> tuple[IntArray, IntArray]:
    """Points in the window of each cut and below it.

    Args:
        steps: Shape (points of the node, axes).
        cuts: Public.
        half_window: Steps on either side of an edge.
        count: Steps of an axis.
    """
    axes = steps.shape[1]
    places = (steps + count * np.arange(axes)).ravel()
    below = np.zeros((axes, count + 1), dtype=np.int64)
    below[:, 1:] = np.bincount(places, minlength=axes * count).reshape(axes, count).cumsum(axis=1)
    axis, edge = np.array(cuts, dtype=np.int64).T
    return below[axis, edge + half_window] - below[axis, edge - half_window], below[axis, edge]


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
