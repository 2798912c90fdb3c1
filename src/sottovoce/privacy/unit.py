"""Who is protected against what: adjacency, change types, and the table that joins them.

Sources     privacy specification 1.5 (change types), 2.1 (relations), 2.2 (mapping). The mapping is stored as data, and
            a combination that is not in it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, final

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.parameters import nearest


class Adjacency(Enum):
    """Which two data sets count as neighbours. The unit is a record, or all records with one group id."""

    REPLACE_ONE = "replace-one"
    """One unit's content is exchanged; the number of units is public."""
    ADD_REMOVE = "add-remove"
    """One unit is present or absent; the number of units is private."""
    ZERO_OUT = "zero-out"
    """One unit becomes a blank whose expert is null; the number of units is public."""

    @classmethod
    def parse(cls, value: str | Adjacency) -> Adjacency:
        """Reads an adjacency by its written name.

        Example:
            >>> Adjacency.parse("add-remove").name
            'ADD_REMOVE'
        """
        try:
            return cls(value)
        except ValueError:
            names = [member.value for member in cls]
            raise ParameterError("adjacency", value, f"one of {', '.join(names)}{nearest(value, names)}") from None

    @property
    def size_is_public(self) -> bool:
        """Whether the number of units may be printed."""
        return self is not Adjacency.ADD_REMOVE

    def sentence(self, unit: str) -> str:
        """What one change is, in words, such as "replacing any one record"."""
        noun = "record" if unit == "record" else f"'{unit}' (all of its records)"
        verb = {"replace-one": "replacing", "add-remove": "adding or removing", "zero-out": "blanking out"}[self.value]
        return f"{verb} any one {noun}"


@final
@dataclass(frozen=True)
class ChangeType:
    """How one protected unit can change the experts' outputs.

    Attributes:
        name: ``drop``, ``swap`` or ``k-swap``.
        widths: How many expert widths the summed utility can move in range: 1 for a drop, 2k for a k-swap.
        rows: How many experts' outputs can change.
    """

    name: str
    widths: int
    rows: int


DROP: Final = ChangeType("drop", widths=1, rows=1)
"""One output is exchanged with the null vector."""
SWAP: Final = ChangeType("swap", widths=2, rows=1)
"""One output becomes an arbitrary other one."""
TWO_SWAP: Final = ChangeType("2-swap", widths=4, rows=2)
"""Two outputs become arbitrary."""


class Assignment(Enum):
    """How units come into expert slots; the rows of the specification's table 2.2."""

    OWN_SLOT = "one unit an expert, its slot its own"
    STABLE_ID = "several units an expert, slot from an independent draw or keyed hash of a stable id"
    CONTENT = "several units an expert, slot from the unit's content"
    CHUNKS = "several units an expert, consecutive chunks of a list"
    RETRIEVED = "top-k retrieval, one unit an expert, as a set"
    RETRIEVED_GROUPS = "top-k retrieval, several units an expert by rank"


_AR, _RO, _ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT

CHANGE_TYPES: Final[Mapping[tuple[Assignment, Adjacency], ChangeType]] = MappingProxyType(
    {
        (Assignment.OWN_SLOT, _AR): DROP,
        (Assignment.OWN_SLOT, _RO): SWAP,
        (Assignment.OWN_SLOT, _ZO): DROP,
        (Assignment.STABLE_ID, _AR): SWAP,
        (Assignment.STABLE_ID, _RO): SWAP,
        (Assignment.STABLE_ID, _ZO): SWAP,
        (Assignment.CONTENT, _AR): SWAP,
        (Assignment.CONTENT, _RO): TWO_SWAP,
        (Assignment.CONTENT, _ZO): SWAP,
        (Assignment.CHUNKS, _RO): SWAP,
        (Assignment.CHUNKS, _ZO): SWAP,
        (Assignment.RETRIEVED, _AR): SWAP,
        (Assignment.RETRIEVED, _RO): SWAP,
        (Assignment.RETRIEVED, _ZO): SWAP,
    }
)
"""Table 2.2. What is absent has no guarantee."""


def change_type(assignment: Assignment, adjacency: Adjacency) -> ChangeType:
    """Looks up how one unit can change the experts.

    Raises:
        AssignmentError: The table has no entry: nothing can be promised for this combination.

    Example:
        >>> change_type(Assignment.OWN_SLOT, Adjacency.REPLACE_ONE).widths
        2
    """
    try:
        return CHANGE_TYPES[assignment, adjacency]
    except KeyError:
        allowed = [a.value for (row, a) in CHANGE_TYPES if row is assignment]
        raise AssignmentError(
            f"No guarantee is known for '{assignment.value}' under {adjacency.value} adjacency: "
            f"one unit may change every expert. Allowed adjacencies: {', '.join(allowed) or 'none'}."
        ) from None


def is_drop(change: ChangeType) -> bool:
    """Whether outputs are exchanged with null, not with other outputs.

    Raises:
        ParameterError: The change is neither; its widths are not those of the specification 1.5.
    """
    if change.rows < 1 or change.widths not in (change.rows, 2 * change.rows):
        raise ParameterError("change", change.name, "a drop (widths = rows) or a swap (widths = 2 rows)")
    return change.widths == change.rows


def several(change: ChangeType, slots: int) -> ChangeType:
    """The change of a unit that may occupy ``slots`` experts, each changed as ``change`` says (specification 2.6).

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> several(SWAP, 2)
        ChangeType(name='2-swap', widths=4, rows=2)
    """
    if slots == 1:
        return change
    rows = change.rows * slots
    return ChangeType(f"{rows}-{'drop' if is_drop(change) else 'swap'}", change.widths * slots, rows)
