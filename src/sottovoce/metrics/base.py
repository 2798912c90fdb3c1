"""What a text metric gives: a row of numbers for each answer, and how rows add up to one score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

References = Sequence[Sequence[str]]
"""One or more reference texts for each answer."""


@final
@dataclass(frozen=True, eq=False)
class Statistics:
    """What a metric found in each answer, so that a score can be worked out for any weights of the answers.

    Attributes:
        rows: Shape (answers, numbers).
        of_sums: The score, from the weighted sums of the rows, shape (numbers,); NaN where it is not defined.
        notes: What a reader of the score must know.
    """

    rows: FloatArray = field(repr=False)
    of_sums: Callable[[FloatArray], float] = field(repr=False)
    notes: tuple[str, ...] = ()

    def score(self, weights: FloatArray) -> float:
        """The score where each answer counts as often as its weight says, shape (answers,)."""
        return self.of_sums(weights @ self.rows)


class Metric(Protocol):
    """Something that scores answers. It draws nothing and keeps nothing."""

    def measure(
        self, answers: Sequence[str], references: References, questions: Sequence[str] | None
    ) -> Mapping[str, Statistics]:
        """Statistics by the name of each score that it gives.

        Args:
            answers: What was written; empty texts where nothing was.
            references: As many, one or more texts each.
            questions: As many, or ``None`` where they are not known.

        Raises:
            MissingExtraError: The library behind it is not installed.
            ModelError: The model behind it failed.
        """


def mean_of(values: FloatArray, *notes: str) -> Statistics:
    """Statistics of a score that is a mean over answers; NaN marks an answer that does not count.

    Args:
        values: Shape (answers,).
        notes: As of ``Statistics``.
    """
    counts = ~np.isnan(values)
    rows = np.column_stack([np.where(counts, values, 0.0), counts.astype(np.float64)])
    return Statistics(rows, lambda sums: float(sums[0] / sums[1]) if sums[1] else float("nan"), notes)
