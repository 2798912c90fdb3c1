"""The stability histogram: noisy counts of items that nobody listed in advance, if enough units hold them.

Guarantee   (epsilon, failure_delta)-DP per release.
Assumes     Each unit's items are capped by a rule of that unit alone, which ``ItemCounts`` does.
Sources     Korolova et al. (2009); Durfee and Rogers (2019); specification 5.5. The discrete tail and
            the new items' share in the pure part are worked out in docs/proofs/sets_and_histograms.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.laplace import at_least, at_least_bound
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.parameters import Checked
from sottovoce.privacy.aggregates import ItemCounts
from sottovoce.privacy.events import PureDP, WithFailure
from sottovoce.privacy.numbers import exact, rounded_down
from sottovoce.privacy.parameters import Delta, Epsilon
from sottovoce.randomness import Randomness

FloatArray = NDArray[np.float64]


@final
@register("stability_histogram", epsilon=1.0, failure_delta=1e-6)
@dataclass(frozen=True, slots=True)
class StabilityHistogram(Checked, Mechanism):
    """Adds discrete Laplace noise to the counts of the items that occur and releases those above a threshold.

    For an open universe of items (specification 5.5); the keywords of ``methods.answering.ksa`` are of a public one.

    Attributes:
        epsilon: Privacy loss when no item gives itself away, in nats.
        failure_delta: Largest probability that an item passes which only the changed unit holds.

    Raises:
        ParameterError: A number is out of range, or ``failure_delta`` is above epsilon / (2 + epsilon).

    Example:
        >>> from sottovoce.privacy.unit import SWAP, Adjacency
        >>> from sottovoce.randomness import SeededRandomness
        >>> units = [["refund"]] * 300 + [["my card ends in 0417"]]
        >>> items = ItemCounts(units, items_per_unit=1, change=SWAP, adjacency=Adjacency.REPLACE_ONE)
        >>> histogram = StabilityHistogram(epsilon=1.0, failure_delta=1e-6)
        >>> histogram.threshold(items)
        27
        >>> [item for item, _ in histogram.release(items, SeededRandomness(1))]
        ['refund']
    """

    epsilon: Epsilon
    failure_delta: Delta

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        epsilon, delta = exact(self.epsilon), exact(self.failure_delta)
        if not 0 < delta <= epsilon / (2 + epsilon):
            limit = f"from 1e-15 to {rounded_down(epsilon / (2 + epsilon))}, which is epsilon / (2 + epsilon)"
            raise ParameterError("failure_delta", self.failure_delta, limit)

    @property
    def event(self) -> WithFailure:
        return WithFailure(PureDP(self.epsilon), self.failure_delta)

    def scale(self, items: ItemCounts) -> Fraction:
        """The noise's scale."""
        return items.l1 / exact(self.epsilon)

    def threshold(self, items: ItemCounts) -> int:
        """The least whole number that an item of changed units alone exceeds with probability delta / (k w) or less.

        There are k changed units with w items each, so there are at most k w such items, of count k or less.
        """
        most = items.change.rows
        allowed = exact(self.failure_delta) / (most * items.items_per_unit)
        return most + least_lead(self.scale(items), allowed)

    def release(self, items: ItemCounts, randomness: Randomness) -> tuple[tuple[str, int], ...]:
        """Draws noisy counts of the items that pass, in the order of the items' own letters."""
        scale, threshold = self.scale(items), self.threshold(items)
        noisy = (
            (item, items.counts[item] + sample_discrete_laplace(scale, randomness)) for item in sorted(items.counts)
        )
        return tuple((item, count) for item, count in noisy if count > threshold)

    def item_law(self, items: ItemCounts, item: str, values: int) -> FloatArray:
        """What becomes of one item: probability to be hidden, to show threshold + 1, ..., + values, and to show more.

        Items are independent. For tests and audits only.
        """
        scale, threshold, count = self.scale(items), self.threshold(items), items.counts[item]
        if count == 0:
            return np.array([1.0] + [0.0] * (values + 1))
        noise, rate = np.arange(threshold + 1, threshold + values + 1) - count, float(1 / scale)
        shown = np.tanh(rate / 2) * np.exp(-rate * np.abs(noise))  # differences of tails would cancel
        hidden, more = at_least(np.array([count - threshold, threshold + values + 1 - count]), scale)
        return np.array([hidden, *shown, more], dtype=np.float64)


@lru_cache(maxsize=256)
def least_lead(scale: Fraction, allowed: Fraction) -> int:
    """The least m >= 0 for which discrete Laplace noise is certainly above m with probability ``allowed`` or less.

    Example:
        >>> least_lead(Fraction(2), Fraction(1, 10**6))
        26
    """
    low, high = 0, int(100 * scale) + 1
    if at_least_bound(high, scale) > allowed:
        raise ParameterError("failure_delta", float(allowed), "larger for a cap this large")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at_least_bound(middle, scale) <= allowed else (middle, high)
    return high - 1
