"""Generic steps of bounded range, for a mechanism of one's own.

Guarantee   As far as eta is the range of the change that is to be protected, whatever that change is.
Sources     Durfee and Rogers (2019); specification T1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Positive, Whole
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.step_costs import SelectionStep, Sensitivity, step_cost
from sottovoce.privacy.unit import Adjacency, ChangeType


@final
@step_cost("bounded-range", law="one step whose loss lies in an interval of length eta", source="specification T1")
@dataclass(frozen=True)
class BoundedRangeStep(SelectionStep):
    """One generic step whose eta is already that of the change, whatever the change is.

    Attributes:
        eta: Bounded range of the step.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> BoundedRangeStep(0.1).event(DROP) == BoundedRangeStep(0.1).event(SWAP) == BoundedRange(0.1)
        True
    """

    eta: Positive

    @property
    def eta_per_width(self) -> float:
        return self.eta

    def event(self, change: ChangeType) -> BoundedRange:
        return BoundedRange(self.eta)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(self.eta, "range of the change of the log-weights")


@final
@register_cost_model(
    "exponential", summary="Generic bounded-range steps", source="Durfee and Rogers (2019); specification T1"
)
@dataclass(frozen=True)
class Generic(CostModel):
    """Steps whose eta is already that of the change, under either adjacency."""

    why: ClassVar[str] = "as worked out in eta"
    calibrated_parameter: ClassVar[str] = "eta"
    eta: Positive | None = None
    steps: Whole = 1

    @property
    def placed(self) -> bool:
        return False

    def released(self, adjacency: Adjacency) -> tuple[Part, ...]:
        return (Part(BoundedRangeStep(self.eta or 0), self.steps),)
