"""What private clustering costs: one level's price under each adjacency, and a budget dealt out to levels and sums.

Guarantee   ``split_event`` has at least the privacy profile that one level of selections can have under add/remove and
            zero-out, and at least their Renyi divergence of every order under replace-one.
Sources     specification 5.6.2, T1, T3, T13. Proof: docs/proofs/private_clustering.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Final, final

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.clustering.tree import SplitScore
from sottovoce.mechanisms.samplers.integer_weights import ROUNDING
from sottovoce.parameters import Checked, Number
from sottovoce.privacy.accounting.accountant import FLOAT_MARGIN, rho_of_budget
from sottovoce.privacy.accounting.bounded_range import rho_of_bounded_range
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.events import BoundedRange, DpEvent, ZCDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import EPSILON, NOISE_DELTA
from sottovoce.privacy.unit import Adjacency

_LEVEL: Final = Number(1e-9, 1e3, strict=True)
"""What a part of a level may cost."""


@final
@dataclass(frozen=True)
class Level(Checked):
    """The price of one level of cuts.

    Attributes:
        kappa: Weight of a cut is exp(kappa * n_hat * score).
        count_rho: zCDP parameter of the level's noisy counts.

    Raises:
        ParameterError: One is not above 0.
    """

    kappa: Annotated[float, _LEVEL]
    count_rho: Annotated[float, _LEVEL]


def split_epsilon(kappa: float, width: Fraction) -> float:
    """The bounded range of a selection with weight exp(kappa u), rounded up."""
    return round_up(exact(kappa) * width)


def split_event(kappa: float, score: SplitScore, adjacency: Adjacency, *, one_axis: bool) -> DpEvent:
    """The price of one level's selections, in one node or two.

    Under replace-one the point stays in a node (one selection, wide) or leaves one node and joins another (two
    selections, each as if a point had come or gone). The price is the larger rho of the two. It is no number of
    selections: no two of them whose ranges are narrow enough to cost that rho have the wide one's profile.
    """
    epsilon = exact(split_epsilon(kappa, score.width(adjacency, one_axis=one_axis)))
    if adjacency is not Adjacency.REPLACE_ONE:
        return BoundedRange(float(epsilon))
    narrow, wide = (score.width(a, one_axis=one_axis) for a in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    apart = round_up(epsilon * narrow / wide + ROUNDING)
    rho = max(rho_of_bounded_range(float(epsilon)), 2 * rho_of_bounded_range(apart))
    return ZCDpEvent(rho * (1 + FLOAT_MARGIN))


def count_sensitivity(adjacency: Adjacency) -> int:
    """Squared: a unit adds 1 to one entry; replaced, it can take 1 off one entry and add 1 to another."""
    return 2 if adjacency is Adjacency.REPLACE_ONE else 1


def likely_noise(levels: Sequence[Level], adjacency: Adjacency, pieces: int) -> int:
    """Three standard deviations of a side's noisy count, a sum of ``pieces``, at the level with the most noise."""
    variance = pieces * count_sensitivity(adjacency) / (2 * min(level.count_rho for level in levels))
    return math.ceil(3 * math.sqrt(variance))


def round_up(value: Fraction) -> float:
    """The least float at hand that is, as written, not below ``value``."""
    number = float(value)
    while exact(number) < value:
        number = math.nextafter(number, math.inf)
    return number


def levels_for_budget(
    budget: tuple[float | None, float | None, float | None],
    score: SplitScore,
    adjacency: Adjacency,
    *,
    one_axis: bool,
    depth: int,
    shares: tuple[float, float, float],
    growth: float,
) -> tuple[tuple[Level, ...], float]:
    """Levels and the sums' rho whose charges add up to the budget, from below.

    Args:
        budget: (rho, epsilon, delta): the first, or the other two.
        score: Weights and shape.
        adjacency: The relation.
        one_axis: Whether a node's cuts lie on one axis.
        depth: Number of levels.
        shares: Parts for cuts, counts and sums.
        growth: Factor from one level's part to the next.
    """
    total = _total(*budget) * (1 - 4 * FLOAT_MARGIN)
    if len(shares) != 3 or not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise ParameterError("shares", shares, "three parts above 0 that add up to 1")
    depth = Number(1, 16, whole=True, strict=True).read("depth", depth)
    growth = Number(0.1, 10, strict=True).read("growth", growth)
    parts = [growth**level for level in range(depth)]
    cuts, counts = ([share * total * part / sum(parts) for part in parts] for share in shares[:2])
    if not adjacency.size_is_public:
        counts = [part * sum(counts) / (sum(counts) + counts[0]) for part in counts]
    kappas = [_kappa(rho, score, adjacency, one_axis) for rho in cuts]
    levels = tuple(Level(kappa, rho) for kappa, rho in zip(kappas, counts, strict=True))
    spent = math.fsum(
        cost_of(split_event(level.kappa, score, adjacency, one_axis=one_axis)).rho + level.count_rho for level in levels
    )
    return levels, total - spent - (0.0 if adjacency.size_is_public else levels[0].count_rho)


def _total(rho: float | None, epsilon: float | None, delta: float | None) -> float:
    if rho is not None and epsilon is None and delta is None:
        return float(EPSILON.read("rho", rho))
    if rho is not None or epsilon is None or delta is None:
        raise ParameterError("budget", (rho, epsilon, delta), "either rho, or epsilon and delta")
    return rho_of_budget(EPSILON.read("epsilon", epsilon), NOISE_DELTA.read("delta", delta))


@lru_cache(maxsize=256)
def _kappa(rho: float, score: SplitScore, adjacency: Adjacency, one_axis: bool) -> float:
    """The largest kappa whose level costs at most ``rho``, by bisection from below."""
    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        if middle in (low, high):
            break  # nothing is between them
        fits = cost_of(split_event(middle, score, adjacency, one_axis=one_axis)).rho <= rho
        low, high = (middle, high) if fits else (low, middle)
    return low
