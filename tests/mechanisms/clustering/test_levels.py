"""Two levels of private clustering on a line, summed over everything released, by a second implementation.

It was written from specification 5.6 alone and shares no code with the mechanism, which it is compared with first.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest

from sottovoce.mechanisms.clustering.price import Level
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.mechanisms.clustering.tree import Node, cuts_within
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.privacy.accounting.accountant import rdp_of_bounded_range
from sottovoce.privacy.accounting.composition import merge
from sottovoce.privacy.events import ZCDpEvent
from sottovoce.privacy.unit import Adjacency

RO, AR = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
STEPS, KAPPA, COUNTS, SUMS = 6, 0.05, 0.5, 0.02
RELEASED = np.arange(-9, 13)
"""Noisy counts that are summed over; what lies outside is left out, which lowers a divergence only."""


def centreness(share: float) -> float:
    near = min(share, 1 - share)
    return near * 3.6 if near <= 1 / 12 else 0.3 + (near - 1 / 12) * 0.7 / (1 / 2 - 1 / 12)


@cache
def choice(points: tuple[int, ...], cuts: tuple[int, ...], size: int) -> np.ndarray:
    windows = [sum(cut - 1 <= p < cut + 1 for p in points) for cut in cuts]
    ranks = [sum(p < cut for p in points) for cut in cuts]
    weights = [
        math.exp(KAPPA * (-5 * window + size * centreness(rank / size)))
        for window, rank in zip(windows, ranks, strict=True)
    ]
    return np.array(weights) / sum(weights)


@cache
def noisy(count: int, squared_change: int) -> np.ndarray:
    reach = np.arange(-60, 61)
    mass = np.exp(-(reach**2) * COUNTS / squared_change)
    return mass[RELEASED - count + 60] / mass.sum()


class TwoWorlds:
    """The sum of p^alpha q^(1 - alpha) over all that is released, node by node."""

    def __init__(self, adjacency: Adjacency, alpha: float, depth: int) -> None:
        self.squared_change = 1 if adjacency is AR else 2
        self.adjacency, self.alpha, self.depth = adjacency, alpha, depth
        self.known: dict[tuple, float] = {}

    def divergence(self, first: tuple[int, ...], second: tuple[int, ...]) -> float:
        if self.adjacency is RO:
            total = self.node(first, second, (0, STEPS), (), len(first), 0)
        else:
            moments = self.counts(len(first), len(second))
            after = [self.node(first, second, (0, STEPS), (), size, 0) for size in RELEASED.tolist()]
            total = float(moments @ after)
        return math.log(total) / (self.alpha - 1)

    def counts(self, first: int, second: int) -> np.ndarray:
        p, q = (noisy(count, self.squared_change) for count in (first, second))
        return p**self.alpha * q ** (1 - self.alpha)

    def node(self, first, second, box, refused, size, level) -> float:
        first, second = (tuple(sorted(p for p in world if box[0] <= p < box[1])) for world in (first, second))
        if first == second:
            return 1.0
        key = (first, second, box, refused, size, level)
        if key not in self.known:
            self.known[key] = self._node(*key)
        return self.known[key]

    def _node(self, first, second, box, refused, size, level) -> float:
        if level == self.depth:
            # Gaussian sums: one vector for all leaves, noise for 1 unit of radius added, or 2 replaced.
            moved = sum((2 * p + 1) / STEPS - 1 for p in first) - sum((2 * p + 1) / STEPS - 1 for p in second)
            scale = (1 if self.adjacency is AR else 4) / (2 * SUMS)
            return math.exp(self.alpha * (self.alpha - 1) / 2 * moved**2 / scale)
        cuts = tuple(cut for cut in range(box[0] + 1, box[1]) if cut not in refused)
        if not cuts:
            return self.node(first, second, box, refused, size, level + 1)
        p, q = (choice(world, cuts, max(1, size)) for world in (first, second))
        chosen = p**self.alpha * q ** (1 - self.alpha)
        return sum(
            float(chance) * self._after(first, second, box, (*refused, cut), size, level, cut)
            for chance, cut in zip(chosen, cuts, strict=True)
        )

    def _after(self, first, second, box, refused, size, level, cut) -> float:
        kept, all_kept, everything = 1.0, 1.0, 1.0
        for side in ((box[0], cut), (cut, box[1])):
            moments = self.counts(*(sum(side[0] <= p < side[1] for p in world) for world in (first, second)))
            enough = RELEASED >= 1
            after = [self.node(first, second, side, (), n, level + 1) for n in RELEASED[enough].tolist()]
            kept *= float(moments[enough] @ after)
            all_kept *= float(moments[enough].sum())
            everything *= float(moments.sum())
        return kept + (everything - all_kept) * self.node(first, second, box, refused, size, level + 1)


def clustering(adjacency: Adjacency, depth: int) -> DPM:
    line = PublicProjection.raw(1, steps=STEPS)
    levels = (Level(KAPPA, COUNTS),) * depth
    return DPM(adjacency, line, levels, SUMS, half_window=1, min_size=1, max_gap=None)


def price(dpm: DPM, alpha: float) -> float:
    return sum(
        count
        * (alpha * e.rho if isinstance(e, ZCDpEvent) else float(rdp_of_bounded_range(e.eta, np.array([alpha]))[0]))
        for e, count in merge([dpm.event]).items()
    )


def neighbours(adjacency: Adjacency, most: int):
    for count in range(most + 1):
        for base in itertools.combinations_with_replacement(range(STEPS), count):
            if adjacency is AR:
                pairs = [(base, (*base, p)) for p in range(STEPS)]
            else:
                # A replaced point may also have been nobody.
                pairs = [((*base, a), (*base, b)) for a, b in itertools.combinations(range(STEPS), 2)]
                pairs += [(base, (*base, p)) for p in range(STEPS)]
            yield from itertools.chain(pairs, ((b, a) for a, b in pairs))


def test_the_second_implementation_chooses_cuts_as_the_mechanism_does():
    dpm = clustering(AR, 1)
    source = np.random.default_rng(1)
    cuts = tuple(range(1, STEPS))
    for size in (1, 2, 7, 12):
        places = tuple(source.integers(STEPS, size=5).tolist())
        rows = (((2 * np.array(places) + 1) / STEPS - 1) * 65536).astype(np.int64)[:, None]
        node = Node.whole(dpm.projection, (rows, rows[:0]), size)
        assert [(0, cut) for cut in cuts] == cuts_within(node.box, 1, [0], frozenset())
        law = Exponential(dpm._epsilon(dpm.levels[0])).law(dpm.split_scores(node, [(0, cut) for cut in cuts]))
        assert [float(p) for p in law] == pytest.approx(choice(places, cuts, size), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "depth", "most", "alpha"),
    [(AR, 1, 1, 4.0), (RO, 1, 1, 4.0)]
    + [pytest.param(a, 2, 1, alpha, marks=pytest.mark.slow) for a in (AR, RO) for alpha in (1.5, 4.0)]
    + [pytest.param(a, 1, 2, 1.5, marks=pytest.mark.slow) for a in (AR, RO)],
    ids=str,
)
def test_everything_that_up_to_two_levels_release_keeps_the_price_and_needs_every_count(adjacency, depth, most, alpha):
    dpm = clustering(adjacency, depth)
    worlds = TwoWorlds(adjacency, alpha, depth)
    found = max(worlds.divergence(*pair) for pair in neighbours(adjacency, most))
    assert found <= price(dpm, alpha)
    # One release of counts less, be it the number of points, would not have been enough.
    assert found > price(dpm, alpha) - alpha * COUNTS
