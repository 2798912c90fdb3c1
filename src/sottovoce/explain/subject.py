"""What can be explained, and at which setting: parts, noise, the ledger's charge, and a paper's claim.

Guarantee   A subject's parts are all that an answer releases; everything else it does is post-processing.
Sources     specification 2.2 (assignments), 2.6 (several slots a unit), 6.2 and 6.4.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Self, final

from sottovoce.errors import ParameterError
from sottovoce.methods.decoding.plan import Part, repeated, together
from sottovoce.parameters import Checked, Number, OneOf, Option, nearest
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import DpEvent, NoOpDpEvent
from sottovoce.privacy.parameters import Delta, Epsilon
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import CHANGE_TYPES, SWAP, Adjacency, Assignment, ChangeType, change_type, several

Counted = list[tuple[DpEvent, int]]
"""Events with how often each happens."""

ALIASES: Final[Mapping[str, str]] = {"batch": "experts"}
"""Other spellings of an option, which papers use."""

SIDES: Final = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
"""The adjacencies that every explanation shows."""

ASSIGNMENTS: Final = {kind.name.lower().replace("_", "-"): kind for kind in Assignment}
"""The rows of table 2.2 by their written names."""

Million = Annotated[int, Number(1, 10**6, whole=True)]
"""A whole number up to a million."""


@final
@dataclass(frozen=True)
class Setting(Checked):
    """What is asked beside the method's own parameters.

    Attributes:
        delta: Failure probability of the whole plan.
        queries: Q, answers; with T tokens an answer there are TQ steps. Answers from a fit are free.
        units_per_expert: Above 1 an expert is re-evaluated when a unit goes, so that add-remove is a swap.
        slots_per_unit: Experts that one unit may occupy.
        assignment: How units come into slots, by its written name; by default the first row of table 2.2 that fits.
        adjacency: The relation for which ``epsilon`` is calibrated, and for which events are priced.
        epsilon: Price of one answer, or of one fit: sets the method's noise.
        unit: Who is protected.
        answer_delta: Delta of one answer from a fresh sample, where the method needs none: by default 0, as in a run.
    """

    delta: Delta = 1e-6
    queries: Million = 1
    units_per_expert: Million = 1
    slots_per_unit: Million = 1
    assignment: Annotated[str, OneOf(tuple(ASSIGNMENTS))] | None = None
    adjacency: str = Adjacency.REPLACE_ONE.value
    epsilon: Epsilon | None = None
    unit: str = "record"
    answer_delta: Delta | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        Adjacency.parse(self.adjacency)
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


@final
@dataclass(frozen=True)
class Change:
    """One change of the data, as an explanation looks at it.

    Attributes:
        adjacency: The relation.
        kind: How the change moves the experts' outputs.
        joins: What a unit's arrival does to them.
    """

    adjacency: Adjacency
    kind: ChangeType
    joins: ChangeType


class Subject(ABC):
    """Something with public parameters whose price can be explained."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in words, with the source."""

    def change_at(self, setting: Setting, adjacency: Adjacency) -> Change:
        """How one unit can change what the method sums.

        Raises:
            AssignmentError: Table 2.2 has no entry.
        """
        if not self.placed:  # a present record re-evaluates the one prompt, or the step is priced as it stands
            return Change(adjacency, SWAP, SWAP)
        return Change(adjacency, setting.change(adjacency), setting.change(Adjacency.ADD_REMOVE, adjacency))

    @property
    def placed(self) -> bool:
        """Whether its records sit in expert slots, so that table 2.2 says what one unit changes."""
        return True

    name: str
    """As registered."""
    once: ClassVar[bool] = False
    """Whether it is paid once, however many answers follow from it."""
    why: ClassVar[str] = "a present record re-evaluates the prompt that holds the sample"
    """What one change does, where there are no slots."""

    def placement(self, setting: Setting) -> str:
        """How units come into expert slots, in words."""
        return setting.placement.value

    @property
    def most_steps(self) -> int:
        """Steps that can be priced in all."""
        return 10**9

    @property
    @abstractmethod
    def open_parameter(self) -> str | None:
        """The parameter that a price would set, where nothing else has set it."""

    @property
    @abstractmethod
    def calibrated(self) -> str | None:
        """The parameter that sets the noise; ``None`` where no single one does."""

    @abstractmethod
    def with_noise(self, value: float) -> Self:
        """The subject with that parameter set."""

    @abstractmethod
    def parts(self, change: Change) -> Sequence[Part]:
        """What one answer releases. The noise must be set."""

    @property
    @abstractmethod
    def used(self) -> dict[str, Any]:
        """The parameters that were given or have a default."""

    def claim(self) -> Claim | None:
        """What the paper states."""
        return None

    def settled(self, setting: Setting) -> Self | None:
        """The subject as the library plans it, for one whose plan reads the price itself; ``None`` for the others.

        Raises:
            ParameterError: There is no plan for these settings.
        """
        return None

    def priced(self, setting: Setting, change: Change) -> Self | None:
        """The subject as the library itself sets its noise for this price; ``None`` where nothing here does so."""
        return None

    def counted(self, change: Change) -> Counted:
        """Every event of one answer with how often it happens."""
        return [(part.row.event(change.kind), part.steps * part.row.steps) for part in self.parts(change)]

    def sensitivities(self, change: Change) -> Sequence[str]:
        """What the events rest on, one line a part."""
        return [str(part.row.sensitivity(change.kind)) for part in self.parts(change)]

    def mechanisms(self, change: Change) -> Sequence[str]:
        """Law, family and source, one line a part."""
        return [mechanism_of(part.row) for part in self.parts(change)]

    def adaptive_steps(self, change: Change) -> int:
        """Adaptive steps of one answer."""
        return sum(count for _, count in self.counted(change))

    def plans(self, change: Change) -> Sequence[Sequence[Counted]]:
        """What one answer costs: of several things that one change can be, each in the ways it can be priced."""
        first = self.counted(change)
        parts = self.parts(change)
        other = [(part.row.other_event(change.kind), part.steps * part.row.steps) for part in parts] or first
        return [[first] if first == other else [first, other]]

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        """What a ledger is charged for one answer; ``None`` where nothing here charges it."""
        return None


def mechanism_of(step: StepCost | type[StepCost]) -> str:
    """A kind of step in one line."""
    return f"{step.law}; {step.family} ({step.source})"


def composed(parts: Sequence[Part], change: ChangeType) -> DpEvent:
    """The event of all parts together."""
    events = [repeated_once(part.row.event(change), part.steps * part.row.steps) for part in parts]
    return together(events) if events else NoOpDpEvent()


def repeated_once(event: DpEvent, count: int) -> DpEvent:
    """As ``repeated``, and the event itself where it happens once."""
    return event if count == 1 else repeated(event, count)


def sorted_out(
    name: str, values: Mapping[str, Any], options: Mapping[str, Option], aliases: Mapping[str, str]
) -> dict[str, Any]:
    """Values under their own names, read as what their options are.

    Raises:
        ParameterError: There is no such option, one is given twice, or a value is not of its type.
    """
    result: dict[str, Any] = {}
    for key, value in values.items():
        option = aliases.get(key, key)
        if option not in options:
            known = ", ".join(options)
            raise ParameterError(key, value, f"absent: {name} has {known or 'no options'}{nearest(key, [*options])}")
        if option in result:
            raise ParameterError(key, value, f"absent: {name} has it as {option} already")
        try:
            result[option] = options[option].read(value)
        except ParameterError as error:
            raise ParameterError(key, error.value, error.limit) from None
    return result


def title_of(entry: Any) -> str:
    """What a registry says of an entry, as a title."""
    return f"{entry.summary[:1].upper()}{entry.summary[1:]} ({entry.source})"


def plain(value: Any) -> Any:
    """A parameter as a number or a word; exact numbers are rounded."""
    return value if value is None or isinstance(value, bool | int | str) else float(value)


def finite(value: float | None) -> float | None:
    """The number, or ``None`` where it is infinite."""
    return value if value is not None and math.isfinite(value) else None
