"""A decoder's scores beside another public row: whatever the model says without records, a change of the experts moves
the sum by no more than is stated there, and an expert adds the same whoever else speaks. The bound may follow the
public row, but not an expert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NoReturn, final

from sottovoce.privacy.aggregates import IntArray, Scores
from sottovoce.testing.report import ContractError, Report

NOT_ADDITIVE: Final = (
    "what an expert adds to the scores depends on the other experts. A Selecting method or decoder must add its "
    "experts up; this alone does not prove that the guarantee fails. Scores that are no sum belong in a Method or "
    "Decoder with a law of its own"
)
"""The finding, and what it is: a requirement of this package's own kind of method, more than the guarantee asks."""


@final
class PublicRow:
    """The contract ``public rows`` beside one public row, under one plan.

    Args:
        subject: What is checked, for an error.
        report: To be filled.
        row: The public row and the setting, in words.
    """

    CONTRACT = "public rows"

    def __init__(self, subject: str, report: Report, row: str) -> None:
        self._subject, self._report, self._row = subject, report, row
        self._bounds: set[tuple[Any, ...]] = set()
        self._added: dict[str, set[tuple[int, ...]]] = {}

    def look(
        self, world: str, said: Mapping[str, Scores], pairs: Sequence[tuple[str, str]], null: str, *, adds: bool = True
    ) -> None:
        """Looks at the scores of experts of which one says this or that, and the others stay.

        Args:
            world: What the others say, in words.
            said: Scores by what the one expert says.
            pairs: Which of them are neighbours.
            null: What an expert says that says nothing.
            adds: Whether an expert must add what it adds elsewhere.

        Raises:
            ContractError: Another bound is stated than elsewhere beside this row, scores move by more, or an expert
                adds something else than beside other experts.
        """
        for one, other in pairs:
            self._compare(said[one], said[other], f"{one} and {other} with {world}")
        for name, scores in said.items() if adds else ():
            added = self._added.setdefault(name, set())
            added.add(moved(scores.values, said[null].values))
            if len(added) > 1:
                self._fail(f"{NOT_ADDITIVE}: {sorted(added)}", f"{name} with {world}")

    def _compare(self, first: Scores, second: Scores, world: str) -> None:
        self._bounds |= {_stated(first), _stated(second)}
        if len(self._bounds) > 1:
            self._fail(f"the stated sensitivity follows the data: {sorted(self._bounds, key=repr)}", world)
        moved = [one - other for one, other in zip(first.values.tolist(), second.values.tolist(), strict=True)]
        too_long = first.squared_l2 is not None and squared_distance(moved) > first.squared_l2
        if too_long or max(moved) - min(moved) > first.sensitivity:
            self._fail("its scores move by more than is stated", world)
        self._report.kept(self.CONTRACT, 1, "pairs of neighbours beside other public rows")

    def _fail(self, problem: str, world: str) -> NoReturn:
        raise ContractError(self.CONTRACT, self._subject, problem, f"{world} beside {self._row}")


def moved(values: IntArray, without: IntArray) -> tuple[int, ...]:
    """What an expert adds to scores, without what it adds to all of them, which no selection sees.

    Example:
        >>> import numpy as np
        >>> moved(np.array([-3, 0, -3]), np.array([0, 0, 0]))
        (0, 3, 0)
    """
    added = values - without
    return tuple((added - added.min()).tolist())


def squared_distance(moved: Sequence[int]) -> Fraction:
    """The squared norm of a movement of scores without what they move in common, which no selection sees.

    Example:
        >>> squared_distance([3, 0, 0])
        Fraction(6, 1)
    """
    return sum(step**2 for step in moved) - Fraction(sum(moved) ** 2, len(moved))


def _stated(scores: Scores) -> tuple[Any, ...]:
    return scores.sensitivity, scores.squared_l2, scores.adjacency
