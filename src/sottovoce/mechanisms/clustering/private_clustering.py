"""Private clustering by separation (DPM): cut a public box where few points lie, and average the leaves.

At every level each open node chooses a cut by the exponential mechanism, then both of its sides get noisy counts, and
only these decide whether the cut is kept. A node whose cut is not kept stays open for the next level, without that cut.
At the end all leaf sums are released as one noisy vector.

Guarantee   ``DPM.event``: for each level one bounded-range selection (under replace-one the zCDP of one wide selection,
            or of one in either node that a replaced point can touch, whichever is more) and one discrete Gaussian on
            counts; one discrete Gaussian on sums; under add/remove one more on the number of points. Every level is
            charged whether or not its nodes were cut.
Assumes     One unit decides one point. Box, projection, weights, depth and thresholds are public. One release a charge.
            Nothing is amplified in here: a sample that one call sees is amplified once, outside (specification T12).
Sources     Liebenow et al. (2024) for the method; specification 5.6, T1, T3, T8, T13 for the price, which differs from
            the published one (specification 11, items 10 to 13). Proof: docs/proofs/private_clustering.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.clustering.price import (
    Level,
    count_sensitivity,
    levels_for_budget,
    likely_noise,
    split_epsilon,
    split_event,
)
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.mechanisms.clustering.release import Cluster, Clustering
from sottovoce.mechanisms.clustering.tree import Cut, Node, SplitScore, cuts_within, release_tree, windows_and_ranks
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.parameters import COUNT, ExactNumber, Kind, Number, OneOf, read_fields
from sottovoce.privacy.aggregates import IntArray, Scores, VectorSum
from sottovoce.privacy.events import ComposedDpEvent, DpEvent, ZCDpEvent
from sottovoce.privacy.parameters import RHO
from sottovoce.privacy.points import GRID_BITS, PrivatePoints, bound_of, grid_rows, require_radius
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness

MOST_LEVELS: Final = 16
LEAST_SIZE: Final = 20
PUBLISHED: Final = SplitScore()
"""Weights 5 and 1, shoulder 3/10, margin 1/12, as the method was published."""


@final
@register(
    "private_clustering",
    adjacency=Adjacency.REPLACE_ONE,
    projection=PublicProjection.raw(2),
    levels=(Level(kappa=0.02, count_rho=0.01),) * 3,
    sum_rho=0.05,
)
@dataclass(frozen=True)
class DPM(Mechanism):
    """Clusters private points; nothing leaves but noisy counts, chosen cuts and noisy averages.

    Attributes:
        adjacency: The relation that the noise is scaled for.
        projection: Public coordinates, box and steps.
        levels: The price of each level of cuts; their number is the depth.
        sum_rho: zCDP parameter of all leaf sums together.
        score: Weights and shape of the score.
        half_window: Steps on either side of a cut that count as its window.
        min_size: A cut is kept only if the noisy number of points on either side is at least this.
        max_gap: A cut is kept only if the noisy number of points in its window is at most this times the smaller side;
            ``None`` keeps cuts whatever their window holds, as published, and counts sides alone with less noise.
        axes: ``"any"``, or ``"in turn"``: level after level one axis, which narrows the selection's width.
        centres: The space of the sums: ``"original"``, or the ``"projected"`` box, which needs less noise.
        radius: Public bound on the norm of a point.

    Raises:
        ParameterError: A parameter is out of range.

    Example:
        >>> from sottovoce.randomness import SeededRandomness
        >>> dpm = DPM.for_budget(epsilon=8, delta=1e-6, adjacency=Adjacency.REPLACE_ONE, depth=2,
        ...                      projection=PublicProjection.raw(2), min_size=50)
        >>> points = PrivatePoints([[-0.5, 0.2]] * 300 + [[0.5, 0.2]] * 200, adjacency=Adjacency.REPLACE_ONE)
        >>> found = dpm.cluster(points, SeededRandomness(1))
        >>> len(found.clusters), found.assign([[-0.4, 0.0], [0.4, 0.0]]).tolist()
        (2, [0, 1])
    """

    adjacency: Adjacency
    projection: PublicProjection
    levels: tuple[Level, ...]
    sum_rho: float
    score: SplitScore = PUBLISHED
    half_window: int = 2
    min_size: int = LEAST_SIZE
    max_gap: Fraction | None = Fraction(1, 3)
    axes: Literal["any", "in turn"] = "any"
    centres: Literal["original", "projected"] = "original"
    radius: Fraction | int = 1

    def __post_init__(self) -> None:
        Kind(Adjacency, "an Adjacency").read("adjacency", self.adjacency)
        Number(1, MOST_LEVELS, whole=True, words=f"1 to {MOST_LEVELS} levels").read("levels", len(self.levels))
        read_fields(self, sum_rho=RHO)
        most = self.projection.steps // 2
        words = f"from 1 to {most}, half the steps"
        read_fields(self, half_window=Number(1, most, whole=True, strict=True, words=words), min_size=COUNT)
        if self.max_gap is not None:
            ExactNumber(0).read("max_gap", self.max_gap)
        OneOf(("any", "in turn")).read("axes", self.axes)
        OneOf(("original", "projected")).read("centres", self.centres)
        require_radius(self.radius)
        for level in self.levels:
            Exponential(self._epsilon(level))

    @classmethod
    def for_budget(
        cls,
        *,
        adjacency: Adjacency,
        projection: PublicProjection,
        depth: int = 6,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        shares: tuple[float, float, float] = (0.5, 0.3, 0.2),
        growth: float = 1.0,
        **options: Any,
    ) -> DPM:
        """The clustering whose total price is the budget, met from below.

        Args:
            adjacency: The relation to protect.
            projection: Public coordinates.
            depth: Levels of cuts; all are paid for.
            rho: The whole price as zCDP; or give ``epsilon`` and ``delta``.
            epsilon: The whole price as (epsilon, delta), by its zCDP.
            delta: Above 0.
            shares: Parts of the budget for cuts, counts and sums.
            growth: Each level gets this many times what the level above it got.
            options: Further attributes. Without ``min_size`` it is three standard deviations of a side's noisy count at
                the level with the most noise, and 20 at least, so that a side with nobody in it is rarely kept.

        Raises:
            ParameterError: No such budget, depth or share.
        """
        score = options.get("score", PUBLISHED)
        one_axis = options.get("axes") == "in turn" or projection.coordinates == 1
        levels, sum_rho = levels_for_budget(
            (rho, epsilon, delta), score, adjacency, one_axis=one_axis, depth=depth, shares=shares, growth=growth
        )
        pieces = 1 if options.get("max_gap", 0) is None else 2
        options.setdefault("min_size", max(LEAST_SIZE, likely_noise(levels, adjacency, pieces)))
        return cls(adjacency, projection, levels, sum_rho, **options)

    @property
    def event(self) -> DpEvent:
        parts: list[DpEvent] = [] if self.adjacency.size_is_public else [ZCDpEvent(self.levels[0].count_rho)]
        for level in self.levels:
            parts += [split_event(level.kappa, self.score, self.adjacency, one_axis=self._one_axis)]
            parts += [ZCDpEvent(level.count_rho)]
        return ComposedDpEvent([*parts, ZCDpEvent(self.sum_rho)])

    def cluster(self, points: PrivatePoints, randomness: Randomness, public: ArrayLike | None = None) -> Clustering:
        """Draws one clustering.

        Args:
            points: Clipped to this mechanism's radius, for this mechanism's adjacency.
            randomness: Source of uniform integers.
            public: Vectors of public texts that join the private ones in every count, rank and sum; free, since they
                are the same in both of two neighbouring worlds.

        Raises:
            ParameterError: The points are sealed for another adjacency, radius or length.
        """
        self._require_fit(points)
        known = np.empty((0, points.dimension)) if public is None else self.projection.require_finite(public, "public")
        rows = (points.rows, grid_rows(known, points.radius))
        root = Node.whole(self.projection, rows, self._number(points, randomness))
        open_nodes = [root]
        for number, level in enumerate(self.levels):
            open_nodes = [node for parent in open_nodes for node in self._ask(parent, number, level, randomness)]
        clusters = self._average(open_nodes, rows, points, randomness)
        return release_tree(root, open_nodes, clusters, self.projection, points.radius)

    def split_scores(self, node: Node, cuts: Sequence[Cut]) -> Scores:
        """The private utilities of a node's public cuts, with the width that holds for them."""
        windows, ranks = windows_and_ranks(node.steps, list(cuts), self.half_window, self.projection.steps)
        return Scores(
            self.score.utilities(windows, ranks, node.estimate),
            sensitivity=int(self.score.scale * self._width(self.adjacency)),
            adjacency=self.adjacency,
        )

    def _ask(self, node: Node, number: int, level: Level, randomness: Randomness) -> list[Node]:
        """The open nodes that one open node leaves for the next level."""
        every = range(self.projection.coordinates)
        axes = every if self.axes == "any" else [number % self.projection.coordinates]
        cuts = cuts_within(node.box, self.half_window, axes, node.refused)
        if not cuts:
            return [node]
        cut = cuts[Exponential(self._epsilon(level)).select(self.split_scores(node, cuts), randomness)]
        pieces = self._noisy_pieces(node, cut, level, randomness)
        return node.cut(cut, pieces) if self._keeps(node, cut, pieces) else [node.refuse(cut)]

    def _noisy_pieces(self, node: Node, cut: Cut, level: Level, randomness: Randomness) -> tuple[int, ...]:
        """Noisy private counts left to right: both sides, or with a gap test both sides each in two pieces."""
        axis, edge = cut
        borders = [edge] if self.max_gap is None else [edge - self.half_window, edge, edge + self.half_window]
        counts = self._counts(node.private_counts(axis, borders))
        return GaussianVector(level.count_rho).release(counts, randomness).steps

    def _keeps(self, node: Node, cut: Cut, pieces: tuple[int, ...]) -> bool:
        """Looks at noisy and public counts only."""
        axis, edge = cut
        half = len(pieces) // 2
        public = node.public_counts(axis, [edge])
        smaller = min(sum(pieces[:half]) + public[0], sum(pieces[half:]) + public[1])
        if self.max_gap is None:
            return bool(smaller >= self.min_size)
        window = node.public_counts(axis, [edge - self.half_window, edge + self.half_window])[1]
        return bool(smaller >= self.min_size and sum(pieces[1:3]) + window <= self.max_gap * smaller)

    def _number(self, points: PrivatePoints, randomness: Randomness) -> int:
        """The number of points: public, or a noisy count."""
        if points.slots is not None:
            return points.slots
        count = self._counts(np.array([len(points.rows)]))
        return GaussianVector(self.levels[0].count_rho).release(count, randomness).steps[0]

    def _average(
        self, leaves: list[Node], rows: tuple[IntArray, IntArray], points: PrivatePoints, randomness: Randomness
    ) -> list[Cluster]:
        """Noisy sums over noisy counts, for all leaves at once."""
        original = self.centres == "original"
        private, public = rows if original else (self.projection.boxed_rows(part) for part in rows)
        bound = bound_of(points.radius if original else self.projection.box_radius)
        sums = np.concatenate([private[leaf.members].sum(axis=0) for leaf in leaves])
        released = GaussianVector(self.sum_rho).release(self._sums(sums, bound), randomness)
        noisy = np.array(released.steps, dtype=np.float64)
        clusters = []
        for leaf, total in zip(leaves, noisy.reshape(len(leaves), -1), strict=True):
            mean = (total + public[leaf.public].sum(axis=0)) / leaf.estimate
            norm = np.linalg.norm(mean)
            mean = mean * min(1.0, bound / norm) if norm > 0 else mean
            centre = mean / (1 << GRID_BITS) + (0.0 if original else self.projection.box_centre)
            clusters.append(Cluster(np.asarray(centre), leaf.size, len(leaf.public)))
        return clusters

    def _counts(self, counts: IntArray) -> VectorSum:
        return VectorSum(counts, squared_l2=count_sensitivity(self.adjacency), adjacency=self.adjacency)

    def _sums(self, sums: IntArray, bound: int) -> VectorSum:
        """A unit adds one row of norm at most ``bound`` to one leaf's entries; replaced, the row can turn round."""
        replaced = self.adjacency is Adjacency.REPLACE_ONE
        squared = (4 if replaced else 1) * bound * bound
        return VectorSum(sums, squared_l2=squared, adjacency=self.adjacency, grid_step=Fraction(1, 1 << GRID_BITS))

    @property
    def _one_axis(self) -> bool:
        return self.axes == "in turn" or self.projection.coordinates == 1

    def _epsilon(self, level: Level) -> float:
        """The bounded range of one selection of this adjacency's change in one node."""
        return split_epsilon(level.kappa, self._width(self.adjacency))

    def _width(self, adjacency: Adjacency) -> Fraction:
        return self.score.width(adjacency, one_axis=self._one_axis)

    def _require_fit(self, points: PrivatePoints) -> None:
        for name, value, expected in (
            ("adjacency", points.adjacency.value, self.adjacency.value),
            ("radius", points.radius, self.radius),
            ("length", points.dimension, self.projection.dimension),
        ):
            if value != expected:
                raise ParameterError(f"{name} of the points", value, f"{expected}")
