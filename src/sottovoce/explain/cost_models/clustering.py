"""Semantic groups by private clustering (DPM): splits and counts level by level, then one release of the sums.

Guarantee   See each step; without amplification. The root's size is public where replacing keeps it.
Sources     Public-data-assisted ICL; specification 5.6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import LEAST, Number, Positive, Share, Switch, Whole
from sottovoce.privacy.accounting.accountant import rho_of_bounded_range
from sottovoce.privacy.events import BoundedRange, DpEvent, PureDP, ZCDpEvent
from sottovoce.privacy.step_costs import GaussianStep, NoiseLaw, Sensitivity, StepCost, step_cost
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop

Half = Annotated[float, Number(LEAST, 0.5 - LEAST, exact=True)]
"""A number between 0 and one half."""


@final
@step_cost(
    "dpm-split", law="a split with weight exp(kappa * size * (we emptiness + wc centreness))", source="spec. 5.6.2"
)
@dataclass(frozen=True)
class SplitLevel(StepCost):
    """All splits of one level of the private clustering.

    A point added changes one node. A point that moves does so inside one node, or leaves one and joins another: the
    level then costs the larger of a moved point and of two changes of one point each.

    Attributes:
        kappa: Weight of one unit of size times utility.
        emptiness: we, the weight of emptiness.
        centreness: wc, the weight of centreness.
        rise: t, the height of the centreness profile at its knee.
        knee: q, where the knee is.
        one_coordinate: Whether every split's coordinate is fixed in advance from public data.

    Example:
        >>> SplitLevel(kappa=1).width(joins=True), SplitLevel(kappa=1).width(joins=False)
        (12.2, 17.2)
    """

    family = "bounded range in a node"

    kappa: Positive
    emptiness: Positive = 5.0
    centreness: Positive = 1.0
    rise: Annotated[float, Number(LEAST, 1.0, exact=True)] = 0.3
    knee: Half = 1 / 12
    one_coordinate: Switch = False

    @property
    def slope(self) -> float:
        """L, the steepest slope of centreness."""
        return max(self.rise / self.knee, 2 * (1 - self.rise) / (1 - 2 * self.knee))

    def width(self, *, joins: bool) -> float:
        """Range of size times utility when one point joins a node (or leaves it), or moves inside it."""
        centre = self.centreness * self.slope
        empty = self.emptiness * (1 if joins else 2)
        return max(empty + centre, 2 * centre) if self._tight else empty + 2 * centre

    @property
    def _tight(self) -> bool:
        # One fixed coordinate helps only where the profile is concave, which it is when t/q is the steepest slope.
        return self.one_coordinate and self.rise / self.knee >= 2 * (1 - self.rise) / (1 - 2 * self.knee)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        drop = is_drop(change)
        where = "in one node" if drop else "in one node; between two nodes it is one added and one removed point"
        return Sensitivity(self.width(joins=drop) * change.rows, f"range of the change of size times utility {where}")

    def event(self, change: ChangeType) -> DpEvent:
        added = self.kappa * self.width(joins=True)
        if is_drop(change):
            return BoundedRange(added * change.rows)
        moved = self.kappa * self.width(joins=False)
        return ZCDpEvent(max(rho_of_bounded_range(moved), 2 * rho_of_bounded_range(added)) * change.rows**2)

    def other_event(self, change: ChangeType) -> DpEvent:
        if is_drop(change):
            return self.event(change)
        pure = self.kappa * max(self.width(joins=False), 2 * self.width(joins=True))
        return PureDP(pure * change.rows)

    def figures(self, change: ChangeType) -> dict[str, float]:
        eta = self.kappa * self.width(joins=is_drop(change)) * change.rows
        return {"eta": eta} if is_drop(change) else {"eta": eta, **super().figures(change)}


@final
@step_cost("level-counts", law="the sizes of all nodes of one level + discrete Gaussian noise", source="spec. 5.6.3")
@dataclass(frozen=True)
class LevelCounts(GaussianStep):
    """Counts of disjoint nodes: a point that moves changes two of them.

    Attributes:
        sigma: Deviation per count.
        sampler: ``discrete`` or ``continuous``.
    """

    sigma: Positive
    sampler: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        return change.rows * (1.0 if is_drop(change) else math.sqrt(2))


@final
@step_cost("leaf-sums", law="all leaves' vector sums in one Gaussian release", source="specification 5.6.4")
@dataclass(frozen=True)
class LeafSums(GaussianStep):
    """Sums of disjoint clusters: a moved point changes one leaf by 2R, or two leaves by R each, which is less.

    Attributes:
        radius: R, the vectors' largest norm.
        sigma: Deviation per coordinate.
        sampler: ``discrete`` or ``continuous``.
    """

    radius: Positive
    sigma: Positive
    sampler: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        is_drop(change)
        return change.widths * self.radius


@final
@register_cost_model(
    "dpm", summary="Semantic groups by private clustering (DPM)", source="Public-data-assisted ICL; spec. 5.6"
)
@dataclass(frozen=True)
class DPM(CostModel):
    """Splits and counts level by level, then one release of all leaves' sums. Without amplification."""

    kappa: Positive
    count_sigma: Positive
    sigma: Positive
    levels: Whole
    radius: Positive = 1.0
    emptiness: Positive = 5.0
    centreness: Positive = 1.0
    rise: Share = 0.3
    knee: Half = 1 / 12
    one_coordinate: Switch = False
    sampler: NoiseLaw = "discrete"

    def released(self, adjacency: Adjacency) -> tuple[Part, ...]:
        # The root's size is public where replacing keeps it; under add-remove it is released like the others.
        counts = self.levels if adjacency.size_is_public else self.levels + 1
        split = SplitLevel(self.kappa, self.emptiness, self.centreness, self.rise, self.knee, self.one_coordinate)
        return (
            Part(split, self.levels),
            Part(LevelCounts(self.count_sigma, self.sampler), counts),
            Part(LeafSums(self.radius, self.sigma, self.sampler)),
        )
