"""The k best candidates in order: the joint exponential mechanism over all lists, and one shot of Gumbel noise.

Joint: the utility of a list s_1, ..., s_k is minus the largest count it misses out on at any place: -max_i (c_(i) -
c_{s_i}), c_(1) >= c_(2) >= ... the sorted counts. There are d (d - 1) ... (d - k + 1) lists, but few utilities, and how
many lists have each is a closed form in whole numbers. One shot: choosing the best of those left k times has its law.

Guarantee   Joint: epsilon-bounded-range per list, hence epsilon-DP. One shot: the k-fold adaptive composition of
            (epsilon / k)-bounded-range selections, hence epsilon-DP. The whole of that is *not* epsilon-bounded-range
            (specification 5.5.2), so the event is a composition, never one step.
Assumes     The candidates and k are public; ``scores.sensitivity`` bounds range(S - S'), so the utilities' difference
            has range of at most twice that, also when counts only ever grow together.
Sources     Gillenwater, Joseph, Munoz Medina and Ribero (2022, arXiv:2201.12333) for the joint mechanism and its
            counting; Durfee and Rogers (2019, arXiv:1905.04273) for one shot; specification 5.5, 9.2. Proof:
            docs/proofs/top_k.md.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise, permutations
from typing import Annotated, Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.samplers.integer_weights import WeightTable, rate_per_step, weight_table
from sottovoce.parameters import COUNT, Checked
from sottovoce.privacy.aggregates import IntArray, Scores
from sottovoce.privacy.events import BoundedRange, SelfComposedDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import EPSILON, Epsilon
from sottovoce.randomness import Randomness

Length = Annotated[int, COUNT]
"""Items of a list."""
_AT_ONCE: Final = 4096
"""Levels whose counts are looked up together, to bound memory."""


@final
@register("joint_top_k", epsilon=0.7, k=2)
@dataclass(frozen=True, slots=True)
class JointTopK(Checked, Mechanism):
    """Selects a list of k different candidates with weight exp(epsilon * utility / (2 * sensitivity)), exactly.

    Keyword-space aggregation (``methods.answering.ksa``) needs it (specification 5.5).

    Attributes:
        epsilon: Privacy loss of the whole list, in nats.
        k: Length of the list.

    Raises:
        ParameterError: ``epsilon`` is not in range, or ``k`` is not a whole number above 0.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> counts = Scores([3, 2, 0, 1], sensitivity=1, adjacency=Adjacency.ADD_REMOVE)
        >>> law = JointTopK(epsilon=1.0, k=2).law(counts)
        >>> round(float(law[0, 1]), 8), round(float(law[1, 0]), 8)
        (0.18767431, 0.11383023)
    """

    epsilon: Epsilon
    k: Length

    @property
    def event(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def law(self, scores: Scores) -> dict[tuple[int, ...], Fraction]:
        """Probability of every list, from its own utility; for tests and audits of few candidates only."""
        require_candidates(self.k, scores)
        counts = scores.values.tolist()
        best = sorted(counts, reverse=True)[: self.k]
        lists = list(permutations(range(len(counts)), self.k))
        levels = [max(c - counts[item] for c, item in zip(best, chosen, strict=True)) for chosen in lists]
        weights = self._table(scores).weights(np.array(levels))
        total = sum(weights)
        return {chosen: Fraction(weight, total) for chosen, weight in zip(lists, weights, strict=True)}

    def select(self, scores: Scores, randomness: Randomness) -> tuple[int, ...]:
        """Draws a utility by the number of its lists times their weight, then one of its lists uniformly.

        Raises:
            ParameterError: There are fewer than k candidates.
        """
        require_candidates(self.k, scores)
        table = self._table(scores)
        order = np.argsort(-scores.values, kind="stable")
        falling = scores.values[order]
        bands = list(_bands(falling, self.k, table.floor))
        weights = table.weights(np.array([band.level for band in bands]))
        ends = list(accumulate(band.lists * weight for band, weight in zip(bands, weights, strict=True)))
        band = bands[bisect_right(ends, randomness.below(ends[-1]))]
        return tuple(int(order[place]) for place in _uniform_list(band, falling, self.k, randomness))

    def _table(self, scores: Scores) -> WeightTable:
        return weight_table(rate_per_step(exact(self.epsilon), 2 * scores.sensitivity))


@final
@dataclass(frozen=True, slots=True)
class _Band:
    """All lists that miss out on more than ``above`` and at most ``reach``; they have one weight, that of ``level``.

    Below the floor many utilities share a weight, and are one band.
    """

    level: int
    above: int
    reach: int
    lists: int


def _bands(falling: IntArray, k: int, floor: int) -> Iterator[_Band]:
    """Every band that holds a list, best first."""
    deepest = int(falling[0] - falling[-1])
    levels = _levels(falling, k, min(floor - 1, deepest))
    within = list(_lists_within(falling, k, levels))
    yield _Band(0, -1, 0, within[0])
    for (above, reach), (fewer, more) in zip(pairwise(levels.tolist()), pairwise(within), strict=True):
        if more > fewer:
            yield _Band(reach, above, reach, more - fewer)
    if deepest >= floor:
        everything = math.perm(len(falling), k)
        yield _Band(floor, int(levels[-1]), deepest, everything - within[-1])


def _levels(falling: IntArray, k: int, last: int) -> IntArray:
    """Every level from 0 to ``last`` that a list can have, and perhaps some that none has; rising."""
    best, distinct = np.unique(falling[:k]), np.unique(falling)
    if last < len(best) * len(distinct):
        return np.arange(last + 1)
    levels = np.unique(best[:, None] - distinct[None, :])
    return levels[(levels >= 0) & (levels <= last)]


def _lists_within(falling: IntArray, k: int, levels: IntArray) -> Iterator[int]:
    """How many lists miss out on at most each level: place i has its admissible items less the i - 1 already used."""
    for start in range(0, len(levels), _AT_ONCE):
        part = levels[start : start + _AT_ONCE]
        for admissible in (_admissible(falling, k, part) - np.arange(k)).tolist():
            yield math.prod(admissible)


def _admissible(falling: IntArray, k: int, levels: IntArray) -> IntArray:
    """How many items have a count of at least c_(i) - level, shape (levels, k). They are the first in falling order."""
    rising = -falling
    return np.searchsorted(rising, rising[:k] + levels[:, None], side="right")


def _uniform_list(band: _Band, falling: IntArray, k: int, randomness: Randomness) -> list[int]:
    """Draws one of a band's lists, as places in falling order.

    Each list is counted at the first place that holds an item from behind the inner bound; before it items come from
    within, behind it from anywhere within the outer bound. Bounds grow from place to place, so used items are in them.
    """
    inner, outer = _admissible(falling, k, np.array([band.above, band.reach])).tolist()
    if band.above < 0:
        inner = [0] * k
    ways = list(_ways_by_first_new(inner, outer))
    first = bisect_right(ends := list(accumulate(ways)), randomness.below(ends[-1]))
    used: list[int] = []
    for place in range(k):
        if place == first:
            item = inner[place] + randomness.below(outer[place] - inner[place])
        else:
            bound = inner[place] if place < first else outer[place]
            item = _nth_unused(randomness.below(bound - place), used)
        used.append(item)
    return used


def _ways_by_first_new(inner: Sequence[int], outer: Sequence[int]) -> Iterator[int]:
    """The number of lists whose first item from behind the inner bounds stands at place 0, 1, ..."""
    k = len(inner)
    before = [1, *accumulate((inner[i] - i for i in range(k)), int.__mul__)]
    behind = [1, *accumulate((outer[i] - i for i in reversed(range(k))), int.__mul__)][::-1]
    for i in range(k):
        yield before[i] * (outer[i] - inner[i]) * behind[i + 1]


def _nth_unused(n: int, used: Sequence[int]) -> int:
    for item in sorted(used):
        if n >= item:
            n += 1
    return n


@final
@register("one_shot_top_k", epsilon=0.7, k=2)
@dataclass(frozen=True, slots=True)
class OneShotTopK(Checked, Mechanism):
    """Selects k different candidates in order, each by an exponential mechanism over those not yet chosen.

    Keyword-space aggregation chooses so at a share of its own for every choice (specification 5.5).

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

    epsilon: Epsilon
    k: Length

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        EPSILON.read("epsilon / k", self.one.epsilon)

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
        return law_in_turn(self.one, self.k, scores)

    def select(self, scores: Scores, randomness: Randomness) -> tuple[int, ...]:
        """Draws k different indices, most favoured first.

        Raises:
            ParameterError: There are fewer than k candidates.
        """
        return select_in_turn(self.one, self.k, scores, randomness)


def select_in_turn(one: Exponential, k: int, scores: Scores, randomness: Randomness) -> tuple[int, ...]:
    """Draws k different indices, each by one mechanism over those not yet chosen.

    Raises:
        ParameterError: There are fewer than k candidates.
    """
    require_candidates(k, scores)
    chosen: tuple[int, ...] = ()
    for _ in range(k):
        left = _left(scores, chosen)
        chosen = (*chosen, int(left[one.select(_only(scores, left), randomness)]))
    return chosen


def law_in_turn(one: Exponential, k: int, scores: Scores) -> dict[tuple[int, ...], Fraction]:
    """Probability of every list that ``select_in_turn`` draws; for tests and audits of few candidates only."""
    require_candidates(k, scores)
    return dict(_continued(one, k, (), Fraction(1), scores))


def _continued(
    one: Exponential, k: int, chosen: tuple[int, ...], odds: Fraction, scores: Scores
) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    if len(chosen) == k:
        yield chosen, odds
        return
    left = _left(scores, chosen)
    for index, p in zip(left.tolist(), one.law(_only(scores, left)), strict=True):
        yield from _continued(one, k, (*chosen, index), odds * p, scores)


def require_candidates(k: int, scores: Scores) -> None:
    """Checks that there are enough candidates; their number is public."""
    if k > len(scores.values):
        raise ParameterError("k", k, f"at most {len(scores.values)}, the number of candidates")


def _left(scores: Scores, chosen: tuple[int, ...]) -> IntArray:
    return np.delete(np.arange(len(scores.values)), chosen)


def _only(scores: Scores, indices: IntArray) -> Scores:
    return Scores(scores.values[indices], sensitivity=scores.sensitivity, adjacency=scores.adjacency)
