"""Paired comparisons of long answers: what each shows, corrected for how many were made, and what it could show.

A value is one question's, the mean of its draws. Differences are taken question by question, so that what makes a
question hard cancels. Where the best of several methods is compared, it is chosen for each half of the questions by
their other half: no value takes part in the choice of what it is compared for.

Assumes     Questions are drawn independently; private pairs, public pairs and writer are the same for all, so that
            nothing is said of others.
Sources     Student (1908) for intervals and p-values; Holm (1979) for several of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from sottovoce.audits.several import holm
from sottovoce.benchmarks.harness.experiment import Cell
from sottovoce.intervals import Estimate, mean_of

LEVEL: Final = 0.05
POWER: Final = 0.8
STATED: Final = 2.0
"""The difference, in points, that the number of questions is worked out for."""


@final
@dataclass(frozen=True)
class Comparison:
    """One question about two methods, at one price and by one score.

    Attributes:
        asked: In words.
        epsilon: Of the answers; ``None`` for hardly any noise.
        score: What is compared.
        differences: First less second, one a question of the world.
    """

    asked: str
    epsilon: float | None
    score: str
    differences: tuple[float, ...]

    @property
    def found(self) -> Estimate:
        """The mean difference with Student's interval."""
        return mean_of(self.differences)

    @property
    def p_value(self) -> float:
        """Two-sided, of Student's test; 1 where no difference differs from 0.

        Example:
            >>> round(Comparison("Is it?", 1.0, "rouge-l", (1.0, 2.0, 3.0, 4.0)).p_value, 4)
            0.0305
        """
        from scipy.stats import t

        spread, count = float(np.std(self.differences, ddof=1)), len(self.differences)
        mean = float(np.mean(self.differences))
        if spread == 0:
            return 1.0 if mean == 0 else 0.0
        return float(2 * t.sf(abs(mean) / spread * math.sqrt(count), count - 1))

    def needed(self, difference: float = STATED) -> int:
        """Questions with which a true difference of this size is shown with probability ``POWER`` at ``LEVEL``, one
        comparison by itself, by the spread seen here.

        Example:
            >>> Comparison("Is it?", 1.0, "rouge-l", (-8.0, 8.0, -8.0, 8.0)).needed()
            168
        """
        from scipy.stats import norm

        spread = float(np.std(self.differences, ddof=1))
        return max(2, math.ceil((float(norm.ppf(1 - LEVEL / 2) + norm.ppf(POWER)) * spread / difference) ** 2))


def compared(
    asked: str, epsilon: float | None, score: str, first: Sequence[float], second: Sequence[float]
) -> Comparison | None:
    """First less second, where both were measured; ``None`` where that is fewer than two questions.

    Values that are not a number stand for answers that were refused.
    """
    if len(first) != len(second):
        return None
    differences = tuple(a - b for a, b in zip(first, second, strict=True) if math.isfinite(a - b))
    return Comparison(asked, epsilon, score, differences) if len(differences) > 1 else None


def best_by_halves(values: Mapping[str, Sequence[float]]) -> list[float]:
    """For every question the value of the method that is best on the other half of the questions.

    Args:
        values: By method, in the order of questions; halves are those at even and at odd places.

    Example:
        >>> best_by_halves({"one": [9.0, 1.0, 9.0, 1.0], "two": [2.0, 3.0, 2.0, 3.0]})
        [2.0, 1.0, 2.0, 1.0]
    """
    rows = np.array([list(own) for own in values.values()], dtype=np.float64)
    best = np.full(rows.shape[1], np.nan)
    for half in (0, 1):
        others = rows[:, 1 - half :: 2]
        known = np.isfinite(others)
        if known.any():
            sums, counts = np.where(known, others, 0.0).sum(axis=1), known.sum(axis=1)
            means = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
            best[half::2] = rows[int(np.argmax(means)), half::2]
    return [float(value) for value in best]


def corrected(comparisons: Sequence[Comparison]) -> list[float]:
    """Holm's p-values over all of them, in their order."""
    adjusted = holm({str(place): comparison.p_value for place, comparison in enumerate(comparisons)})
    return [adjusted[str(place)] for place in range(len(comparisons))]


def values_of(cell: Cell | None, count: int) -> Sequence[float]:
    """A cell's values by question; not a number where nothing was measured."""
    return [math.nan] * count if cell is None else cell.values
