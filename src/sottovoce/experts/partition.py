"""Who sees which record: units come into expert slots by a rule that looks at nothing private of others.

Guarantee   One change of the data touches at most the slots that table 2.2 says (``Slots.change``); a combination that
            the table does not list is refused.
Sources     specification 1.1, 2.2, 2.2.1 (capacity under add/remove), 2.2.2 (stable ids), 2.2.5 (order within a slot).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Final, final

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.parameters import Kind, Number
from sottovoce.privacy.unit import Adjacency, Assignment, ChangeType, change_type
from sottovoce.randomness import Randomness, SystemRandomness
from sottovoce.records.limits import ROWS
from sottovoce.records.sealed import Opaque

_CAPACITY: Final = Number(1, ROWS, whole=True, strict=True)
_SOME: Final = Number(1, 10**9, whole=True, strict=True)
"""Slots, each of which takes room though it may be empty: no more than a file can fill."""


@final
class Slots(Opaque):
    """The units of every expert, by index. An empty slot is a null expert.

    Attributes:
        members: For each slot the indices of its units. Private under add/remove.
        assignment: The rule that was used.
        change: How one change of the data can change the experts.
        adjacency: The relation that ``change`` is for.
    """

    __slots__ = ("adjacency", "assignment", "change", "members")

    def __init__(
        self, members: Sequence[Sequence[int]], assignment: Assignment, change: ChangeType, adjacency: Adjacency
    ) -> None:
        self.members, self.assignment, self.change, self.adjacency = members, assignment, change, adjacency

    def _public_face(self) -> str:
        return f"{self.assignment.value}, {self.adjacency.value}, {self.change.name}"


@final
@dataclass(frozen=True)
class Partition:
    """How units are assigned to experts. Every attribute is a public parameter.

    Attributes:
        units_per_expert: g; 1 by default. Under add/remove it is the most that a slot keeps.
        capacity: Number of slots m under add/remove. Without it every unit has its own slot, and the number of model
            calls reveals the private number of units. If g is 1, a slot with two units is null.
        max_records: Most records of one unit that its expert sees; the first ones of that unit.

    Raises:
        ParameterError: A number is below 1, or the capacity above 5,000,000.
    """

    units_per_expert: int = 1
    capacity: int | None = None
    max_records: int = 16
    _key: bytes = field(default_factory=lambda: SystemRandomness().below(2**256).to_bytes(32, "big"), repr=False)

    def __post_init__(self) -> None:
        for name, limit in (("units_per_expert", _SOME), ("capacity", _CAPACITY), ("max_records", _SOME)):
            if (value := getattr(self, name)) is not None or name != "capacity":
                object.__setattr__(self, name, limit.read(name, value))

    def rule(self, adjacency: Adjacency) -> tuple[Assignment, ChangeType]:
        """The assignment and its change type, from parameters alone.

        Raises:
            AssignmentError: The combination has no guarantee.
            ParameterError: A capacity was given where the number of units is public.
        """
        adjacency = Adjacency.parse(adjacency)
        if adjacency.size_is_public:
            if self.capacity is not None:
                raise ParameterError("capacity", self.capacity, f"absent: {adjacency.value} adjacency makes n public")
            assignment = Assignment.OWN_SLOT if self.units_per_expert == 1 else Assignment.STABLE_ID
        elif self.units_per_expert == 1:
            assignment = Assignment.OWN_SLOT
        elif self.capacity is None:
            raise AssignmentError(
                f"{self.units_per_expert} units an expert under add-remove adjacency need a public number of slots: "
                "chunks of a list would let one added record change every expert. Give --capacity (the number of "
                "experts) and rows with a stable 'id', or use replace-one."
            )
        else:
            assignment = Assignment.STABLE_ID
        return assignment, change_type(assignment, adjacency)

    @property
    def is_random(self) -> bool:
        """Whether units are assigned at random, by secret randomness that differs in every process."""
        return self.capacity is not None or self.units_per_expert > 1

    def assign(
        self, unit_ids: Sequence[str | None], adjacency: Adjacency, order: Callable[[int], Sequence[int]] | None = None
    ) -> Slots:
        """Shares units out.

        Args:
            unit_ids: The stable id of each unit, or ``None`` where it has none.
            adjacency: What one change of the data is.
            order: Gives the order in which so many units are dealt out, for audits of made-up records; else it is
                secret.

        Raises:
            AssignmentError: The combination has no guarantee, or ids are needed and missing.

        Where the number of units is public, several units an expert are dealt out in a secret uniform order. The order
        in which units stand in a file is part of what they say (a first row that comes later moves everybody behind
        it), and must not decide who meets whom. A uniform order gives a replacement the place of what it replaced, so
        that the two laws are mixtures of laws one swap apart (specification 2.2.2).
        """
        Kind(Sequence, "the ids of the units").read("unit_ids", unit_ids)
        for each in unit_ids:
            Kind((str, NoneType), "texts, or None where there is none").read("unit_ids", each)
        Kind((Callable, NoneType), "a function").read("order", order)  # type: ignore[arg-type]
        adjacency = Adjacency.parse(adjacency)
        assignment, change = self.rule(adjacency)
        if self.capacity is not None:
            members = self._hashed(unit_ids, self.capacity)
        else:
            g = self.units_per_expert
            dealt = (order or _secret)(len(unit_ids)) if g > 1 else range(len(unit_ids))
            members = [list(dealt[start : start + g]) for start in range(0, len(dealt), g)]
        return Slots(members, assignment, change, adjacency)

    def _hashed(self, unit_ids: Sequence[str | None], slots: int) -> list[list[int]]:
        members: list[list[int]] = [[] for _ in range(slots)]
        for unit, unit_id in enumerate(unit_ids):
            if unit_id is None:
                raise AssignmentError(
                    "A public capacity places every unit by a stable id, and some row has none. Add an 'id' column, "
                    "or protect a column with --unit."
                )
            digest = hmac.new(self._key, unit_id.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
            members[int.from_bytes(digest, "big") % slots].append(unit)
        if self.units_per_expert == 1:
            return [slot if len(slot) == 1 else [] for slot in members]
        by_id = {unit: str(unit_id) for unit, unit_id in enumerate(unit_ids)}
        return [sorted(slot, key=by_id.__getitem__)[: self.units_per_expert] for slot in members]


def _secret(count: int) -> list[int]:
    return shuffled(count, SystemRandomness())


def shuffled(count: int, randomness: Randomness) -> list[int]:
    """A uniform order of 0, ..., count - 1 (Fisher and Yates)."""
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = randomness.below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
