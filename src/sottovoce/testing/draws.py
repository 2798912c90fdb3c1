"""Statements about laws from draws: does a sampler follow its law, and do two samplers exceed what an event allows.

Guarantee   Every test here is an exact binomial one. It raises a false alarm with probability ``ALARM`` at most; the
            draws are seeded, so a suite that passed passes again.
Assumes     Draws of one source are independent.
Sources     Clopper and Pearson (1934) for the intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, final

import numpy as np
from scipy.stats import beta, binom

from sottovoce.randomness import Randomness
from sottovoce.testing.claims import Claim

ALARM: Final = 1e-9
"""Chance of a false alarm of one test. A full run makes fewer than a thousand."""
_LEVEL: Final = ALARM / 40
"""Of one of the intervals of a comparison, of which there are up to 40."""


def departs(law: Mapping[Any, float], seen: Counter[Hashable]) -> str:
    """What shows that draws do not follow a law; empty where nothing does.

    A probability that is off by x is noticed with n draws in all but a chance of 1e-6 where x is at least 11 / sqrt(n)
    times the deviation of one draw.
    """
    draws, outcomes = seen.total(), list(dict.fromkeys([*law, *seen]))
    counts = np.array([seen[outcome] for outcome in outcomes])
    chances = np.minimum(np.array([law.get(outcome, 0.0) for outcome in outcomes]) * (1 + 1e-6) + 1e-12, 1.0)
    tails = np.minimum(binom.cdf(counts, draws, chances), binom.sf(counts - 1, draws, chances))
    wrong = [outcome for outcome, tail in zip(outcomes, tails, strict=True) if tail * 2 * len(law) < ALARM]
    if not wrong:
        return ""
    first = min(wrong, key=repr)
    stated = law.get(first, 0.0)
    return f"outcome {first!r} has probability {stated:.4g} by its law and came {seen[first]} times in {draws} draws"


def exceeds(claim: Claim, first: Sequence[Hashable], second: Sequence[Hashable]) -> str:
    """What shows that two samplers are further apart than a claim allows; empty where nothing does.

    An event of outcomes is chosen on the first half of the draws, by likelihood, and measured on the second half.
    """
    half = min(len(first), len(second)) // 2
    claims = [*claim.points, *([(claim.pure, 0.0)] if claim.pure < math.inf else [])]
    for p, q, direction in ((first, second, ""), (second, first, " (the other way round)")):
        first_p, first_q, last_p, last_q = Counter(p[:half]), Counter(q[:half]), Counter(p[half:]), Counter(q[half:])
        for epsilon, delta in claims:
            factor = max(1.0, math.exp(min(epsilon, 600)) / 2)
            likely = {outcome for outcome in first_p if first_p[outcome] > factor * first_q[outcome]}
            if not likely:
                continue
            hits_p, hits_q = (sum(counts[outcome] for outcome in likely) for counts in (last_p, last_q))
            least = _lower_limit(hits_p, last_p.total())
            most = _upper_limit(hits_q, last_q.total())
            if least > math.exp(min(epsilon, 600)) * most + delta:
                return (
                    f"an event of probability at least {least:.4g} in one world has at most {most:.4g} in the "
                    f"other{direction}: more than epsilon {epsilon:.6g}, delta {delta:.6g} allows"
                )
    return _too_wide(claim.width, first, second)


def _too_wide(width: float, first: Sequence[Hashable], second: Sequence[Hashable]) -> str:
    """What shows that log-ratios are further apart than a claim allows: of an event, and of all that it leaves out."""
    half = min(len(first), len(second)) // 2
    (likely_p, p), (likely_q, q) = ((Counter(draws[:half]), Counter(draws[half:])) for draws in (first, second))
    likely = {outcome for outcome in likely_p if likely_p[outcome] > likely_q[outcome]}
    hits_p, hits_q = (sum(counts[outcome] for outcome in likely) for counts in (p, q))
    more = _lower_limit(hits_p, p.total()), _upper_limit(hits_q, q.total())
    less = _lower_limit(q.total() - hits_q, q.total()), _upper_limit(p.total() - hits_p, p.total())
    if more[0] * less[0] == 0:
        return ""
    least = math.log(more[0] / more[1]) + math.log(less[0] / less[1])
    if least <= width:
        return ""
    return f"log-ratios of an event and of its opposite are at least {least:.4g} apart: {width} is allowed"


def _lower_limit(hits: int, total: int) -> float:
    return float(beta.ppf(_LEVEL, hits, total - hits + 1)) if hits else 0.0


def _upper_limit(hits: int, total: int) -> float:
    return float(beta.ppf(1 - _LEVEL, hits + 1, total - hits)) if hits < total else 1.0


@final
class _Branch:
    """Answers of one path, then the first answer of every further question."""

    secure = False

    def __init__(self, path: list[int]) -> None:
        self.path, self.bounds = path, list[int]()

    def below(self, bound: int) -> int:
        step = len(self.bounds)
        self.bounds.append(bound)
        if step == len(self.path):
            self.path.append(0)
        return self.path[step]


MOST_BRANCHES: Final = 20_000


def mixture(draw: Callable[[Randomness], np.ndarray], most: int = MOST_BRANCHES) -> np.ndarray | None:
    """The mean of ``draw`` over everything that a source can answer, or ``None`` where those are too many.

    For coins of small denominators, such as those of a sample.
    """
    total: np.ndarray | float = 0.0
    path: list[int] = []
    for _ in range(most):
        branch = _Branch(path)
        value = draw(branch)
        total = total + float(Fraction(1, math.prod(branch.bounds))) * value
        path = path[: len(branch.bounds)]
        while path and path[-1] + 1 == branch.bounds[len(path) - 1]:
            path.pop()
        if not path:
            return np.asarray(total)
        path[-1] += 1
    return None
