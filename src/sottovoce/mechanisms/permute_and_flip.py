"""Permute-and-flip: visit candidates in random order and take each with a probability that is 1 for the best.

Guarantee   epsilon-DP per selection. It is not bounded range (specification 5.2: width 1.49 at epsilon 1), so it is
            accounted as pure DP; prefer it for single releases and the exponential mechanism for many.
Assumes     As for the exponential mechanism. Meant for up to some thousand candidates: it visits them one by one.
Sources     McKenna and Sheldon (2020); Ding et al. (2021) for its equality with noisy max under exponential noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from sottovoce.mechanisms.base import SelectionMechanism, register
from sottovoce.mechanisms.samplers.integer_weights import BEST, levels_below_best, rate_per_step, weight_table
from sottovoce.parameters import Checked
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import Epsilon
from sottovoce.randomness import Randomness


@final
@register("permute_and_flip", epsilon=0.7)
@dataclass(frozen=True, slots=True)
class PermuteAndFlip(Checked, SelectionMechanism):
    """Accepts candidate i, when its turn comes, with probability exp(epsilon * (u_i - max u) / sensitivity).

    Attributes:
        epsilon: Privacy loss of one selection, in nats.

    Raises:
        ParameterError: ``epsilon`` is not a number in range.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> votes = Scores([5, 3, 2], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
        >>> [round(float(p), 4) for p in PermuteAndFlip(epsilon=1.0).law(votes)]
        [0.7319, 0.1703, 0.0979]
    """

    epsilon: Epsilon

    @property
    def event(self) -> PureDP:
        return PureDP(self.epsilon)

    def law(self, scores: Scores) -> Sequence[Fraction]:
        """P(i) = a_i times the integral over x in [0, 1] of prod over j != i of (1 - x a_j), a the coins' odds."""
        weights = self._weights(scores)
        product = _product(weights)
        by_weight = {weight: _probability(weight, product) for weight in set(weights)}
        return [by_weight[weight] for weight in weights]

    def select(self, scores: Scores, randomness: Randomness) -> int:
        """Ends because the best candidate's coin never fails."""
        weights = self._weights(scores)
        waiting = list(range(len(weights)))
        while True:
            turn = randomness.below(len(waiting))
            waiting[turn], waiting[-1] = waiting[-1], waiting[turn]
            candidate = waiting.pop()
            if randomness.below(BEST) < weights[candidate]:
                return candidate

    def _weights(self, scores: Scores) -> list[int]:
        rate = rate_per_step(exact(self.epsilon), scores.sensitivity)
        return weight_table(rate).weights(levels_below_best(scores))


def _product(weights: Sequence[int]) -> list[int]:
    """The product of (1 - x w / BEST) as a polynomial: entry m, over BEST**m, is the coefficient of x**m."""
    coefficients = [1]
    for weight in weights:
        shifted = [0, *(-weight * c for c in coefficients)]
        coefficients = [c + s for c, s in zip([*coefficients, 0], shifted, strict=True)]
    return coefficients


def _probability(weight: int, product: Sequence[int]) -> Fraction:
    """Takes one factor out of the product again, integrates over [0, 1], and multiplies by the coin's odds."""
    other_count = len(product) - 2
    common = math.lcm(*range(1, other_count + 2))
    quotient = integral = 0
    for power, coefficient in enumerate(product[:-1]):
        quotient = coefficient + weight * quotient
        integral = integral * BEST + quotient * (common // (power + 1))
    return Fraction(weight * integral, common * BEST ** (other_count + 1))
