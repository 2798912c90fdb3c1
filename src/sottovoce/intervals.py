"""Confidence intervals for proportions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Proportion:
    """A measured share with its interval.

    Attributes:
        value: The share.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f})"


def proportion(successes: int, trials: int, confidence: float = 0.95) -> Proportion:
    """A share with its exact two-sided Clopper-Pearson interval.

    Example:
        >>> print(proportion(8, 10))
        80 % (44 to 97)
    """
    tail = (1 - confidence) / 2
    return Proportion(successes / trials, lower_limit(successes, trials, tail), upper_limit(successes, trials, tail))


def lower_limit(successes: int, trials: int, alpha: float) -> float:
    """One-sided Clopper-Pearson: a true share below this shows so many successes with probability at most alpha."""
    from scipy.stats import beta

    return 0.0 if successes == 0 else float(beta.ppf(alpha, successes, trials - successes + 1))


def upper_limit(successes: int, trials: int, alpha: float) -> float:
    """One-sided Clopper-Pearson: a true share above this shows so few successes with probability at most alpha."""
    from scipy.stats import beta

    return 1.0 if successes == trials else float(beta.ppf(1 - alpha, successes + 1, trials - successes))
