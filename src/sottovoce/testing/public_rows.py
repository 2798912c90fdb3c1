"""Scores beside other public rows: whatever the model says without records, a change of the experts moves the sum by no
more than is stated, and the same is stated.
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
        usual: Its scores beside the usual public row.
    """

    CONTRACT = "public rows"

    def __init__(self, subject: str, report: Report, usual: Scores) -> None:
        self._subject, self._report, self._stated = subject, report, {_stated(usual)}

    def compare(self, first: Scores, second: Scores, world: str) -> None:
        """Looks at the scores of two neighbours beside one public row.

        Raises:
            ContractError: They state another sensitivity than elsewhere, or differ by more than they state.
        """
        self._stated |= {_stated(first), _stated(second)}
        if len(self._stated) > 1:
            problem = f"the stated sensitivity follows the public row: {sorted(self._stated, key=repr)}"
            raise ContractError(self.CONTRACT, self._subject, problem, world)
        moved = first.values - second.values
        squared = sum(int(step) ** 2 for step in moved)
        too_long = first.squared_l2 is not None and squared > first.squared_l2
        if too_long or int(moved.max()) - int(moved.min()) > first.sensitivity:
            raise ContractError(self.CONTRACT, self._subject, "its scores move by more than is stated", world)
        self._report.kept(self.CONTRACT, 1, "pairs of neighbours beside other public rows")


def _stated(scores: Scores) -> tuple[Any, ...]:
    return scores.sensitivity, scores.squared_l2, scores.adjacency
