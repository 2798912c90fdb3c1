"""Rows of the master table for decoding one token at a time, and for the splits of a private clustering.

Guarantee   See each row; specification 5.6.2 and 5.8 to 5.11.
Assumes     s, B and M are public constants, not actual counts; an absent expert adds zero to the clipped sum, in
            InvisibleInk to the sum of clipped *differences*.
Sources     PRISM; Amin et al. (2024); InvisibleInk (2025); Tang et al. (2024); specification 4 for the factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from sottovoce.privacy.accountant import rho_of_bounded_range
from sottovoce.privacy.checked import LEAST, Number, Positive, Switch, Whole
from sottovoce.privacy.events import BoundedRange, DpEvent, PureDP, ZCDpEvent
from sottovoce.privacy.master_table import PureRow, Row, SelectionRow, Sensitivity, is_drop, row
from sottovoce.privacy.unit import ChangeType


class _Clipped(SelectionRow):
    """A softmax over a clipped mean; ``clip``, ``batch`` and ``temperature`` are fields of the subclass."""

    clip: float
    batch: int
    temperature: float

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(
            2 * self.clip * change.widths / self.batch, "range of the change of the mean of clipped logits"
        )


@final
@row("prism", law="softmax((mean of clipped private logits + clipped public logits) / (2 temperature))", source="5.10")
@dataclass(frozen=True)
class Prism(_Clipped):
    """A token of PRISM. The public half is a free prior; what it buys is the doubled temperature.

    Attributes:
        clip: c; an expert's width is 2c.
        batch: s, the fixed public denominator.
        temperature: tau.

    Example:
        >>> from sottovoce.privacy.unit import DROP
        >>> round(Prism(clip=10, batch=255, temperature=1.02).event(DROP).eta, 6)
        0.038447
    """

    clip: Positive
    batch: Whole
    temperature: Positive

    @property
    def eta_per_width(self) -> float:
        return self.clip / (self.batch * self.temperature)


@final
@row("clipped-logits", law="softmax(mean of clipped private logits / temperature)", source="Amin et al.; spec. 5.9")
@dataclass(frozen=True)
class ClippedLogits(_Clipped):
    """A private token of Amin et al.

    Attributes:
        clip: c; an expert's width is 2c.
        batch: s, the fixed public denominator.
        temperature: tau.
    """

    clip: Positive
    batch: Whole
    temperature: Positive

    @property
    def eta_per_width(self) -> float:
        return 2 * self.clip / (self.batch * self.temperature)


@final
@row("invisible-ink", law="softmax((public logits + mean of clipped differences) / temperature)", source="spec. 5.11")
@dataclass(frozen=True)
class InvisibleInk(_Clipped):
    """A token of InvisibleInk (DClip).

    Attributes:
        clip: C; an expert's difference to the public logits is clipped to [-C, C].
        batch: B, the fixed public denominator.
        temperature: tau.
    """

    clip: Positive
    batch: Whole
    temperature: Positive

    @property
    def eta_per_width(self) -> float:
        return 2 * self.clip / (self.batch * self.temperature)


@final
@row("sparse-vector", law="above-threshold test of an L1 distance, Laplace noise, until it is crossed", source="5.9")
@dataclass(frozen=True)
class SparseVector(PureRow):
    """One run of the test that decides whether a token needs private data; charged when its threshold is drawn.

    Attributes:
        batch: s, the fixed public denominator.
        threshold_scale: Laplace scale of the threshold; a test's own noise has twice that.
    """

    batch: Whole
    threshold_scale: Positive

    @property
    def epsilon_per_width(self) -> float:
        return 2 / (self.batch * self.threshold_scale)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths / self.batch, "change of the L1 distance")


@final
@row("tang-exponential", law="exponential noise on the mean of max-normalised vectors, argmax", source="spec. 5.8 (b)")
@dataclass(frozen=True)
class TangExponential(PureRow):
    """Exponential noise is permute-and-flip: pure DP, not of bounded range.

    Attributes:
        experts: M, the fixed public denominator.
        scale: b of the exponential noise, on the mean.
    """

    experts: Whole
    scale: Positive

    @property
    def epsilon_per_width(self) -> float:
        return 1 / (self.experts * self.scale)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths / self.experts, "range of the change of the mean")


@final
@row("tang-em", law="weights exp(rate * mean of the experts' probability vectors)", source="specification 5.8 (c)")
@dataclass(frozen=True)
class TangSelection(SelectionRow):
    """The exponential mechanism on the same mean, which composes as bounded range.

    Attributes:
        experts: M, the fixed public denominator.
        rate: lambda, the weight of one unit of probability.
    """

    experts: Whole
    rate: Positive

    @property
    def eta_per_width(self) -> float:
        return self.rate / self.experts

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths / self.experts, "range of the change of the mean")


Half = Annotated[float, Number(LEAST, 0.5 - LEAST)]


@final
@row("dpm-split", law="a split with weight exp(kappa * size * (we emptiness + wc centreness))", source="spec. 5.6.2")
@dataclass(frozen=True)
class SplitLevel(Row):
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
    rise: Annotated[float, Number(LEAST, 1.0)] = 0.3
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
