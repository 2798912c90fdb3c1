"""Private clusterings with one mistake each. None is registered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sottovoce.mechanisms.clustering.price import Level
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.events import ComposedDpEvent
from sottovoce.privacy.points import PrivatePoints
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness, SeededRandomness


def made(cls, **options):
    """One of them, with two levels of cuts of points in a plane."""
    parameters = {
        "adjacency": Adjacency.REPLACE_ONE,
        "projection": PublicProjection.raw(2),
        "levels": (Level(kappa=0.02, count_rho=0.01),) * 2,
        "sum_rho": 0.05,
    }
    return cls(**parameters | options)


class SumsOfADrop(DPM):
    """A point that is replaced turns round; its sums are told that it goes."""

    def _sums(self, sums, bound):
        told = super()._sums(sums, bound)
        return VectorSum(sums, squared_l2=bound * bound, adjacency=told.adjacency, grid_step=told.grid_step)


class SumsOfASwapWhenAdded(DPM):
    """The same mistake the other way round: too little noise under add-remove and zero-out alone."""

    def _sums(self, sums, bound):
        told = super()._sums(sums, bound)
        least = told.squared_l2 if self.adjacency is Adjacency.REPLACE_ONE else told.squared_l2 // 4
        return VectorSum(sums, squared_l2=least, adjacency=told.adjacency, grid_step=told.grid_step)


class CountsOfADrop(DPM):
    """A point that crosses a cut changes two counts; they are told of one."""

    def _counts(self, counts):
        return VectorSum(counts, squared_l2=1, adjacency=self.adjacency)


class HalvedCuts(DPM):
    """Its selections are told half of what a point moves the scores of cuts."""

    def split_scores(self, node, cuts):
        told = super().split_scores(node, cuts)
        return Scores(told.values, sensitivity=told.sensitivity // 2, adjacency=told.adjacency)


class KeepsByTrueCounts(DPM):
    """Whether a cut is kept is decided by how many there are."""

    def _keeps(self, node, cut, pieces):
        axis, edge = cut
        return min(node.private_counts(axis, [edge])) >= self.min_size


class EmptyLeafAtZero(DPM):
    """Where nobody is the centre is 0."""

    def _average(self, leaves, rows, points, randomness):
        clusters = super()._average(leaves, rows, points, randomness)
        return [
            one if len(leaf.members) else replace(one, centre=np.zeros_like(one.centre))
            for one, leaf in zip(clusters, leaves, strict=True)
        ]


class CountsWithoutNoise(DPM):
    """Counts of both sides of a cut as they are."""

    def _noisy_pieces(self, node, cut, level, randomness):
        axis, edge = cut
        return tuple(
            int(n) for n in node.private_counts(axis, [edge - self.half_window, edge, edge + self.half_window])
        )


class SumsForFree(DPM):
    """Charges cuts and counts, and draws sums too."""

    @property
    def event(self):
        return ComposedDpEvent(list(super().event.events)[:-1])


class OneLevelForAll(DPM):
    """Charges as many levels as there are once."""

    @property
    def event(self):
        return replace(self, levels=self.levels[:1]).plain_event

    @property
    def plain_event(self):
        return super().event


class OwnSource(DPM):
    """Draws from a generator of its own."""

    def cluster(self, points: PrivatePoints, randomness: Randomness, public=None):
        return super().cluster(points, SeededRandomness(3), public)


@dataclass(frozen=True)
class Remembers(DPM):
    """Counts who was there in an earlier clustering along."""

    before: ClassVar[list[int]] = [0]

    def _counts(self, counts):
        self.before[0] += int(counts.sum())
        return super()._counts(counts + self.before[0])


class NoMechanism(DPM):
    """No noise at all: the middle of everybody."""

    def cluster(self, points: PrivatePoints, randomness: Randomness, public=None):
        return [Fraction(int(n)) for n in points.rows.sum(axis=0)]
