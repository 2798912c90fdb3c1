"""A decoder's scores beside other public rows: whatever the model says without records, a change of the experts moves
the sum by no more than is stated there. The bound may follow the public row, but not an expert.
"""

from __future__ import annotations

from typing import Any, final

from sottovoce.privacy.aggregates import Scores
from sottovoce.testing.report import ContractError, Report


@final
class PublicRows:
    """The contract ``public rows`` of one sum under one change.

    Args:
        subject: What is checked, for an error.
        report: To be filled.
    """

    CONTRACT = "public rows"

    def __init__(self, subject: str, report: Report) -> None:
        self._subject, self._report = subject, report

    def compare(self, first: Scores, second: Scores, world: str) -> None:
        """Looks at the scores of two neighbours beside one public row.

        Raises:
            ContractError: They state two sensitivities, or differ by more than they state.
        """
        bounds = {_stated(first), _stated(second)}
        if len(bounds) > 1:
            problem = f"the stated sensitivity follows the data: {sorted(bounds, key=repr)}"
            raise ContractError(self.CONTRACT, self._subject, problem, world)
        moved = first.values - second.values
        squared = sum(int(step) ** 2 for step in moved)
        too_long = first.squared_l2 is not None and squared > first.squared_l2
        if too_long or int(moved.max()) - int(moved.min()) > first.sensitivity:
            raise ContractError(self.CONTRACT, self._subject, "its scores move by more than is stated", world)
        self._report.kept(self.CONTRACT, 1, "pairs of neighbours beside other public rows")


def _stated(scores: Scores) -> tuple[Any, ...]:
    return scores.sensitivity, scores.squared_l2, scores.adjacency
