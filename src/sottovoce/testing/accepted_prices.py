"""Prices at which an entry is compared: those that it takes, and the same without a delta where it refuses one.

Guarantee   An entry that refuses every delta is compared at the same epsilons as every other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sottovoce.methods.base import Price


def accepted(prices: Iterable[Price], takes: Callable[[Price], bool]) -> tuple[Price, ...]:
    """Those of these prices that an entry takes; one that is refused gives way to the same without a delta.

    Args:
        prices: To be tried.
        takes: Whether the entry takes a price.

    Example:
        >>> accepted([Price(8.0, 1e-6), Price(1.0, 1e-6)], lambda price: price.epsilon > 1)
        (Price(epsilon=8.0, delta=1e-06),)
        >>> accepted([Price(8.0, 1e-6), Price(1.0, 1e-6)], lambda price: not price.delta)
        (Price(epsilon=8.0, delta=0.0), Price(epsilon=1.0, delta=0.0))
    """
    tried = ([price, replace(price, delta=0.0)] for price in prices)
    firsts = (next(filter(takes, each), None) for each in tried)
    return tuple(dict.fromkeys(price for price in firsts if price is not None))
