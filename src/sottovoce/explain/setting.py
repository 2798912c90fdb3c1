"""What is asked of an explanation beside the method's own parameters.

Sources     specification 2.2 (assignments), 2.6 (several slots a unit), 6.2 and 6.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.parameters import Number, require_delta, require_epsilon
from sottovoce.privacy.step_costs import several
from sottovoce.privacy.unit import CHANGE_TYPES, Adjacency, Assignment, ChangeType, change_type

SIDES: Final = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
"""The adjacencies that every explanation shows."""

ASSIGNMENTS: Final = {kind.name.lower().replace("_", "-"): kind for kind in Assignment}
"""The rows of table 2.2 by their written names."""


@final
@dataclass(frozen=True)
class Setting:
    """What is asked beside the method's own parameters.

    Attributes:
        delta: Failure probability of the whole plan.
        queries: Q, answers; with T tokens an answer there are TQ steps.
        units_per_expert: Above 1 an expert is re-evaluated when a unit goes, so that add-remove is a swap.
        slots_per_unit: Experts that one unit may occupy.
        assignment: How units come into slots, by its written name; by default the first row of table 2.2 that fits.
        adjacency: The relation for which ``epsilon`` is calibrated, and for which events are priced.
        epsilon: Price of one answer: sets the method's noise.
        unit: Who is protected.
    """

    delta: float = 1e-6
    queries: int = 1
    units_per_expert: int = 1
    slots_per_unit: int = 1
    assignment: str | None = None
    adjacency: str = Adjacency.REPLACE_ONE.value
    epsilon: float | None = None
    unit: str = "record"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", require_delta(self.delta))
        for name in ("queries", "units_per_expert", "slots_per_unit"):
            read = Number(1, 10**6, whole=True).read(name, getattr(self, name))
            object.__setattr__(self, name, read)
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        Adjacency.parse(self.adjacency)
        if self.assignment is not None and self.assignment not in ASSIGNMENTS:
            raise ParameterError("assignment", self.assignment, f"one of {', '.join(ASSIGNMENTS)}")
        if self.units_per_expert > 1 and self.assignment in ("own-slot", "retrieved"):
            raise ParameterError("units_per_expert", self.units_per_expert, f"1 with the assignment {self.assignment}")

    @property
    def placement(self) -> Assignment:
        """The row of table 2.2."""
        default = "own-slot" if self.units_per_expert == 1 else "stable-id"
        return ASSIGNMENTS[self.assignment or default]

    def change(self, adjacency: Adjacency, otherwise: Adjacency | None = None) -> ChangeType:
        """How one unit can change the experts.

        Args:
            adjacency: What one change is.
            otherwise: Taken where the table has no entry for the first.

        Raises:
            AssignmentError: Table 2.2 has no entry.
        """
        if otherwise is not None and (self.placement, adjacency) not in CHANGE_TYPES:
            adjacency = otherwise
        return several(change_type(self.placement, adjacency), self.slots_per_unit)
