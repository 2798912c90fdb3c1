"""The exponential mechanism: choose one candidate, favouring high scores.

Guarantee   epsilon-bounded-range per selection, hence epsilon-DP; composes as bounded range.
Assumes     The candidate list is public; only the scores are private; ``scores.sensitivity`` bounds range(S - S').
Sources     McSherry and Talwar (2007) for the mechanism; Durfee and Rogers (2019, arXiv:1905.04273) for bounded range;
            specification T1, 9.1, 9.2 for the integer form. Proof beside the code: docs/proofs/exponential.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import final

import numpy as np

from sottovoce.mechanisms.base import SelectionMechanism, register
from sottovoce.mechanisms.weights import level_weight, levels_below_best, rate_per_step
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.numbers import exact, require_epsilon
from sottovoce.privacy.scores import Scores
from sottovoce.randomness import Randomness


@final
@register("exponential", epsilon=0.7)
@dataclass(frozen=True, slots=True)
class Exponential(SelectionMechanism):
    """Selects candidate i with weight exp(epsilon * u_i / sensitivity), exactly, on integers.

    Attributes:
        epsilon: Privacy loss of one selection, in nats.

    Raises:
        ParameterError: ``epsilon`` is not a number in range.

    Example:
        Ten experts voted; replacing one record moves one vote, which changes two counts.

        >>> from sottovoce.privacy.unit import Adjacency
        >>> votes = Scores([7, 2, 1], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
        >>> [round(float(p), 3) for p in Exponential(epsilon=1.0).law(votes)]
        [0.883, 0.073, 0.044]
    """

    epsilon: float

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)

    @property
    def event(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def law(self, scores: Scores) -> Sequence[Fraction]:
        rate = rate_per_step(exact(self.epsilon), scores)
        weights = [level_weight(rate, int(level)) for level in levels_below_best(scores)]
        total = sum(weights)
        return [Fraction(weight, total) for weight in weights]

    def select(self, scores: Scores, randomness: Randomness) -> int:
        """Draws a level by its total integer weight, then a member of the level uniformly."""
        rate = rate_per_step(exact(self.epsilon), scores)
        below_best = levels_below_best(scores)
        levels, counts = np.unique(below_best, return_counts=True)
        weights = (int(n) * level_weight(rate, int(level)) for level, n in zip(levels, counts, strict=True))
        cumulative = list(accumulate(weights))
        chosen = bisect_right(cumulative, randomness.below(cumulative[-1]))
        members = np.flatnonzero(below_best == levels[chosen])
        return int(members[randomness.below(len(members))])
