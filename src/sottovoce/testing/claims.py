"""What an event promises of two neighbouring laws, and by how much two laws exceed it.

Guarantee   ``Claim`` states necessary conditions of the event: pairs of laws that exceed one of them do not have the
            guarantee that is charged. For pure and bounded-range events they are sufficient too; for others they are
            points of the profile and Renyi orders, on both sides.
Sources     specification 1.5 (bounded range), T7 to T9 (conversions), 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sottovoce.mechanisms.base import log_law
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.events import ApproximateDP, BoundedRange, NoOpDpEvent, PureDP, SelfComposedDpEvent, ZCDpEvent
from sottovoce.privacy.unit import Adjacency

FloatArray = NDArray[np.float64]

DELTAS: Final = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3)
"""Points of the profile that are compared."""
ORDERS: Final = (2, 8, 32)
"""Renyi orders that are compared for zCDP, besides order 1."""
MOST_RATIOS: Final = 256
"""Log-ratios of a product of laws that are kept apart."""
BOUNDS: Final = ("pure", "RDP", "zCDP")
LOG_SLACK: Final = 1e-9
"""Rounding allowed in a log-ratio."""
DELTA_SLACK: Final = 1e-9
"""Rounding allowed in a delta: some laws are worked out by quadrature."""


@final
@dataclass(frozen=True)
class Claim:
    """What an event promises.

    Attributes:
        words: The event, in words.
        pure: Largest log-ratio of any outcome's probabilities; infinite where none is promised.
        width: Largest range of the log-ratios over outcomes.
        rho: zCDP parameter; infinite where none is promised.
        points: (epsilon, delta) pairs.
    """

    words: str
    pure: float = math.inf
    width: float = math.inf
    rho: float = math.inf
    points: tuple[tuple[float, float], ...] = ()


@final
@dataclass(frozen=True)
class Excess:
    """By how much a pair of laws exceeds a claim.

    Attributes:
        amount: Above 0 where the claim is broken, in nats or in probability.
        first: Number of the first law.
        second: Number of the second.
        words: What is exceeded.
    """

    amount: float
    first: int
    second: int
    words: str


def claim_of(event: Any, adjacency: Adjacency) -> Claim | None:
    """The claim of an event; ``None`` for an event that promises nothing."""
    while isinstance(event, SelfComposedDpEvent) and event.count == 1:
        event = event.event
    words = f"{event}"
    match event:
        case NoOpDpEvent():
            return Claim(words, pure=0.0, width=0.0)
        case BoundedRange():
            return Claim(words, pure=event.eta, width=event.eta)
        case PureDP():
            return Claim(words, pure=event.epsilon)
        case ApproximateDP():
            return Claim(words, points=((event.epsilon, event.delta),))
    if is_empty(event):
        return None
    accountant = RdpAccountant(adjacency).compose(event)
    if isinstance(event, ZCDpEvent):
        return Claim(words, rho=event.rho, points=_points(accountant))
    return Claim(words, pure=_pure_of(event), points=_points(accountant, cost_of(event).delta))


def is_empty(event: Any) -> bool:
    """Whether an event promises nothing at all."""
    try:
        charge = cost_of(event)
    except Exception:
        return False
    return math.isinf(charge.rho) and math.isinf(charge.epsilon) and charge.delta == 0


def within_price(event: Any, adjacency: Adjacency, epsilon: float, delta: float) -> float:
    """The epsilon of an event at a price's delta: what the answer costs by the accountant."""
    return float(RdpAccountant(adjacency).compose(event).report(delta).epsilon)


def excess(
    claim: Claim, laws: FloatArray, pairs: Sequence[tuple[int, int]] | None = None, *, slack: float = DELTA_SLACK
) -> Excess | None:
    """The worst breach of a claim by any pair of these laws, or ``None`` where it holds.

    Args:
        claim: What is promised.
        laws: Natural logs, shape (laws, outcomes).
        pairs: Pairs of neighbours; by default every two of them. Both directions are compared.
        slack: Rounding allowed in a delta.
    """
    if pairs is None:
        pairs = [(i, j) for i in range(len(laws)) for j in range(i)]
    if not pairs:
        return None
    both = np.array([*pairs, *((j, i) for i, j in pairs)])
    p, q = laws[both[:, 0]], laws[both[:, 1]]
    breaches: list[tuple[float, int, str]] = []
    with np.errstate(invalid="ignore"):
        loss = np.where(np.isneginf(p) & np.isneginf(q), 0.0, p - q)
    possible = ~(np.isneginf(p) & np.isneginf(q))
    if claim.pure < math.inf:
        most = loss.max(axis=1)
        breaches.append(
            _worst(most - claim.pure, LOG_SLACK, f"a log-ratio of {{:.6g}}, and {claim.pure:.6g} is allowed", most)
        )
    if claim.width < math.inf:
        width = np.where(possible, loss, -np.inf).max(axis=1) - np.where(possible, loss, np.inf).min(axis=1)
        breaches.append(
            _worst(width - claim.width, LOG_SLACK, f"log-ratios {{:.6g}} wide, and {claim.width:.6g} is allowed", width)
        )
    if claim.rho < math.inf:
        breaches += [_renyi(p, q, loss, order, claim.rho) for order in (1, *ORDERS)]
    for epsilon, delta in claim.points:
        divergence = np.maximum(np.exp(p) - np.exp(np.minimum(epsilon + q, 700)), 0).sum(axis=1)
        words = f"a delta of {{:.6g}} at epsilon {epsilon:.6g}, and {delta:.6g} is allowed"
        breaches.append(_worst(divergence - delta, slack, words, divergence))
    if not breaches:
        return None
    amount, at, words = max(breaches)
    return Excess(amount, int(both[at, 0]), int(both[at, 1]), words) if amount > 0 else None


def joined(laws: Iterable[Sequence[FloatArray]]) -> FloatArray:
    """Two products of laws, of outcomes that are independent.

    Outcomes that have one log-ratio are put together; where there are more than ``MOST_RATIOS`` of them, those of
    nearly one. That brings two laws closer to each other, never further apart.

    Args:
        laws: Of each outcome its law in either world, as probabilities.

    Returns:
        Natural logs, shape (2, log-ratios).

    Example:
        >>> joined([(np.array([0.2, 0.8]), np.array([0.4, 0.6]))] * 2).shape
        (2, 3)
    """
    both = np.ones((2, 1))
    for one, other in laws:
        each = _by_ratio(np.array([one, other]))
        both = _by_ratio(np.array([np.multiply.outer(both[side], each[side]).ravel() for side in (0, 1)]))
    return np.array([log_law(law) for law in both])


def _by_ratio(laws: FloatArray) -> FloatArray:
    ratio = np.rint((log_law(laws[0]) - log_law(laws[1])) / LOG_SLACK)
    if len(ratio) > MOST_RATIOS and len(np.unique(ratio)) > MOST_RATIOS:
        order = np.argsort(ratio)
        below = np.cumsum(laws.sum(axis=0)[order])
        low, high = ratio[order][np.searchsorted(below, [1e-13, below[-1] - 1e-13]).clip(max=len(order) - 1)]
        ratio = np.rint((ratio.clip(low, high) - low) / max(high - low, 1) * MOST_RATIOS)
    cells = np.unique(ratio, return_inverse=True)[1]
    return np.array([np.bincount(cells, weights=law) for law in laws])


def _worst(over: FloatArray, slack: float, words: str, value: FloatArray) -> tuple[float, int, str]:
    at = int(np.argmax(over))
    return (float(over[at]) if over[at] > slack else 0.0), at, words.format(value[at])


def _renyi(p: FloatArray, q: FloatArray, loss: FloatArray, order: int, rho: float) -> tuple[float, int, str]:
    if order == 1:
        value = (np.exp(p) * np.where(np.isneginf(p), 0.0, loss)).sum(axis=1)
    else:
        with np.errstate(invalid="ignore"):
            value = logsumexp(np.where(np.isneginf(p), -np.inf, p + (order - 1) * loss), axis=1) / (order - 1)
    words = f"a Renyi divergence of {{:.6g}} at order {order}, and {rho * order:.6g} is allowed"
    return _worst(value - rho * order, LOG_SLACK, words, value)


def _points(accountant: RdpAccountant, own: float = 0.0) -> tuple[tuple[float, float], ...]:
    """Points of a profile, that at the event's own delta among them."""
    deltas = sorted({*DELTAS, own} - {0.0})
    reports = [(accountant.report(delta).epsilon, delta) for delta in deltas]
    return tuple((epsilon, delta) for epsilon, delta in reports if epsilon < math.inf)


def _pure_of(event: Any) -> float:
    charge = cost_of(event)
    return charge.epsilon if charge.delta == 0 else math.inf
