"""The k best candidates in order, by choosing the best of those left k times: the same law as one shot of Gumbel noise.

Guarantee   The k-fold adaptive composition of (epsilon / k)-bounded-range selections, hence epsilon-DP. The whole is
            *not* epsilon-bounded-range (specification 5.5.2), so the event is a composition, never one step.
Assumes     The candidates and k are public; ``scores.sensitivity`` bounds range(S - S').
Sources     Durfee and Rogers (2019, arXiv:1905.04273); specification 5.5.2. Proof: docs/proofs/top_k.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.privacy.aggregates import IntArray, Scores
from sottovoce.privacy.events import SelfComposedDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import require_epsilon
from sottovoce.randomness import Randomness


@final
@register("one_shot_top_k", epsilon=0.7, k=2)
@dataclass(frozen=True, slots=True)
class OneShotTopK(Mechanism):
    """Selects k different candidates in order, each by an exponential mechanism over those not yet chosen.

    Attributes:
        epsilon: Pure privacy loss of the whole list, in nats; every choice has an equal share of it.
        k: Length of the list.

    Raises:
        ParameterError: ``epsilon`` or a share of it is out of range, or ``k`` is not a whole number above 0.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> counts = Scores([3, 2, 0, 1], sensitivity=1, adjacency=Adjacency.ADD_REMOVE)
        >>> round(float(OneShotTopK(epsilon=2.0, k=2).law(counts)[0, 1]), 8)
        0.42835814
    """

    epsilon: float
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        require_length(self.k)
        require_epsilon(self.one.epsilon, "epsilon / k")

    @property
    def one(self) -> Exponential:
        """The mechanism of a single choice; k of them cost no more than epsilon, as both are written in decimal.

        The share is rounded down to 15 digits, which a float holds as written, and to the ledger's units.
        """
        share = exact(self.epsilon) / self.k
        units = 10 ** (15 - (len(str(int(share))) if share >= 1 else 0))
        return Exponential(float(Fraction(math.floor(share * units), units)))

    @property
    def event(self) -> SelfComposedDpEvent:
        return SelfComposedDpEvent(self.one.event, self.k)

    def law(self, scores: Scores) -> dict[tuple[int, ...], Fraction]:
        """Probability of every list; for tests and audits of few candidates only."""
        require_candidates(self.k, scores)
        return dict(self._continued((), Fraction(1), scores))

    def select(self, scores: Scores, randomness: Randomness) -> tuple[int, ...]:
        """Draws k different indices, most favoured first.

        Raises:
            ParameterError: There are fewer than k candidates.
        """
        require_candidates(self.k, scores)
        chosen: tuple[int, ...] = ()
        for _ in range(self.k):
            left = _left(scores, chosen)
            chosen = (*chosen, int(left[self.one.select(_only(scores, left), randomness)]))
        return chosen

    def _continued(
        self, chosen: tuple[int, ...], odds: Fraction, scores: Scores
    ) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        if len(chosen) == self.k:
            yield chosen, odds
            return
        left = _left(scores, chosen)
        for index, p in zip(left.tolist(), self.one.law(_only(scores, left)), strict=True):
            yield from self._continued((*chosen, index), odds * p, scores)


def require_length(k: object) -> None:
    """Checks the length of a list."""
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ParameterError("k", k, "a whole number, 1 or more")


def require_candidates(k: int, scores: Scores) -> None:
    """Checks that there are enough candidates; their number is public."""
    if k > len(scores.values):
        raise ParameterError("k", k, f"at most {len(scores.values)}, the number of candidates")


def _left(scores: Scores, chosen: tuple[int, ...]) -> IntArray:
    return np.delete(np.arange(len(scores.values)), chosen)


def _only(scores: Scores, indices: IntArray) -> Scores:
    return Scores(scores.values[indices], sensitivity=scores.sensitivity, adjacency=scores.adjacency)
