"""Private clusterings with one mistake each, and right ones of one's own. None is registered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism
from sottovoce.mechanisms.clustering.price import Level
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.events import ComposedDpEvent, PureDP, SelfComposedDpEvent, ZCDpEvent
from sottovoce.privacy.points import PrivatePoints, bound_of, grid_rows
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness, SeededRandomness

MADE_WITH = {
    "adjacency": Adjacency.REPLACE_ONE,
    "projection": PublicProjection.raw(2),
    "levels": (Level(kappa=0.02, count_rho=0.01),) * 2,
    "sum_rho": 0.05,
}


def made(cls, **options):
    """One of them, with two levels of cuts of points in a plane."""
    return cls(**MADE_WITH | options)


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


class KeepsItsBound(DPM):
    """The bound of its sums is kept of the first points, whatever the adjacency of the next ones is."""

    kept: ClassVar[dict[str, int]] = {}

    def _sums(self, sums, bound):
        told = super()._sums(sums, bound)
        least = self.kept.setdefault("bound", told.squared_l2)
        return VectorSum(sums, squared_l2=least, adjacency=told.adjacency, grid_step=told.grid_step)


@dataclass(frozen=True)
class KeepsTheFirstMade(DPM):
    """How far a point moves its sums is settled when the first one is made."""

    times: ClassVar[int] = 0

    def __post_init__(self):
        super().__post_init__()
        if not type(self).times:
            type(self).times = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1

    def _sums(self, sums, bound):
        told = super()._sums(sums, bound)
        norm = (self.times * bound) ** 2
        return VectorSum(sums, squared_l2=norm, adjacency=told.adjacency, grid_step=told.grid_step)


class KeepsItsRadius(DPM):
    """The bound of its sums is kept by the adjacency, whatever the radius is."""

    kept: ClassVar[dict[Adjacency, int]] = {}

    def _sums(self, sums, bound):
        told = super()._sums(sums, bound)
        norm = self.kept.setdefault(self.adjacency, told.squared_l2)
        return VectorSum(sums, squared_l2=norm, adjacency=told.adjacency, grid_step=told.grid_step)


class KeepsItsCountNoise(DPM):
    """The noise of its counts is kept by the adjacency, whatever its levels are made with."""

    kept: ClassVar[dict[Adjacency, float]] = {}

    def _noisy_pieces(self, node, cut, level, randomness):
        rho = self.kept.setdefault(self.adjacency, level.count_rho)
        return super()._noisy_pieces(node, cut, replace(level, count_rho=rho), randomness)


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


@dataclass(frozen=True)
class ForgottenDelta(Mechanism):
    """The sums of both halves with Gaussian noise, which needs a delta, charged as if it needed none."""

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def event(self):
        return PureDP(2.0)

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        bound = bound_of(points.radius) * (2 if self.adjacency is Adjacency.REPLACE_ONE else 1)
        left = points.rows[:, 0] < 0
        sums = np.concatenate([points.rows[left].sum(axis=0), points.rows[~left].sum(axis=0)])
        vector = VectorSum(sums, squared_l2=bound * bound, adjacency=points.adjacency)
        return GaussianVector.for_budget(1.8, 1e-6).release(vector, randomness).steps


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


class ThreeDimensions(DPM):
    """Right, and of points that are not in a plane: it refuses the worlds."""


@dataclass(frozen=True)
class Means(Mechanism):
    """Right: two centres, twice moved to the noisy mean of the points that are nearest, public ones among them."""

    adjacency: Adjacency = Adjacency.REPLACE_ONE
    rho: float = 0.5

    @property
    def event(self):
        return SelfComposedDpEvent(ZCDpEvent(self.rho), 2)

    def cluster(self, points: PrivatePoints, randomness: Randomness, public=None):
        bound = self.bound(points)
        rows, known = self.rows(points), grid_rows(np.empty((0, 2)) if public is None else public, points.radius)
        centres = self.start(rows, bound)
        for _ in range(2):
            sums = self.sums(rows, centres, bound) + self.sums(known, centres, bound) * self.weight(rows, known)
            told = VectorSum(sums.ravel(), squared_l2=self.squared(bound), adjacency=self.adjacency)
            noisy = np.array(GaussianVector(self.rho).release(told, randomness).steps).reshape(2, 3)
            centres = np.clip(noisy[:, :2] / np.maximum(noisy[:, 2:] / bound, 1.0), -bound, bound)
        return centres.tolist()

    def bound(self, points):
        return bound_of(points.radius)

    def rows(self, points):
        return points.rows

    def start(self, rows, bound):
        return np.array([[-bound / 2, 0.0], [bound / 2, 0.0]])

    def weight(self, rows, known):
        """How often a public point counts."""
        return 1

    def squared(self, bound):
        """A point adds to a sum and to a count in units of the bound; replaced, it turns round or goes elsewhere."""
        return (4 if self.adjacency is Adjacency.REPLACE_ONE else 2) * bound * bound

    def sums(self, rows, centres, bound):
        """The sum of the points that are nearest to each centre, and their number in units of the bound."""
        own = ((rows[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
        parts = [rows[own == centre] for centre in (0, 1)]
        return np.array([[*part.sum(axis=0), len(part) * bound] for part in parts], dtype=np.int64)


class OfAUnitBall(Means):
    """Right: takes no other points than those of radius 1."""

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        if points.radius != 1:
            raise ParameterError("radius of the points", points.radius, "1")
        return super().cluster(points, randomness)


@dataclass(frozen=True)
class BesidePublic(Means):
    """Right: must have public points, and takes private ones of its radius, if it has one."""

    radius: float | None = None

    def cluster(self, points: PrivatePoints, randomness: Randomness, public):
        return super().cluster(points, randomness, public)


class StartsAtTheFirst(Means):
    """Its centres start at two points of the data."""

    def start(self, rows, bound):
        return rows[:2].astype(float) if len(rows) > 1 else super().start(rows, bound)


class StartsInTheMiddle(Means):
    """A centre starts at the point that stands in the middle of many."""

    def start(self, rows, bound):
        usual = super().start(rows, bound)
        return np.array([rows[(len(rows) - 1) // 2], usual[1]]) if len(rows) > 60 else usual


class StartsAtTheSixtieth(Means):
    """A centre starts at one point of the data, where there are that many."""

    def start(self, rows, bound):
        usual = super().start(rows, bound)
        return np.array([rows[59], usual[1]]) if len(rows) > 59 else usual


class KeepsPointsOfASize(Means):
    """Clusters the first points of each public number again."""

    kept: ClassVar = {}

    def rows(self, points):
        return self.kept.setdefault((self.adjacency, points.slots), points.rows)


class KeepsPointsOfAQuestion(Means):
    """Clusters the first points beside each set of public points again."""

    kept: ClassVar = {}

    def cluster(self, points: PrivatePoints, randomness: Randomness, public=None):
        if public is not None:
            points = self.kept.setdefault((points.adjacency, np.asarray(public).tobytes()), points)
        return super().cluster(points, randomness, public)


class PublicAsTheSixtieth(Means):
    """Public points weigh twice as much where one point of the data is on the right."""

    def weight(self, rows, known):
        return 1 + (len(rows) > 59 and int(rows[59, 0] > 0))


class KeepsEveryPoint(Means):
    """Clusters the first points of each adjacency again."""

    kept: ClassVar = {}

    def rows(self, points):
        return self.kept.setdefault(self.adjacency, points.rows)


class KeepsAClipOfASize(Means):
    """Cuts coordinates at the largest of the first data set of each public number."""

    kept: ClassVar = {}

    def rows(self, points):
        most = np.abs(points.rows).max(initial=1)
        if points.slots is not None:
            most = self.kept.setdefault((self.adjacency, points.slots), most)
        return np.clip(points.rows, -most, most)


class ChargesByTheLastPoints(Means):
    """Says what it costs by the points that it saw last."""

    last: ClassVar = [2]

    @property
    def event(self):
        return SelfComposedDpEvent(ZCDpEvent(self.rho), self.last[0])

    def rows(self, points):
        self.last[0] = 2 + int((points.rows.sum(axis=0) > 0).all())
        return points.rows


@dataclass(frozen=True)
class WhereTwelveStand(Mechanism):
    """The mean of one of sixty strips, more likely where more points are, if there are twelve."""

    adjacency: Adjacency = Adjacency.REPLACE_ONE
    epsilon: float = 0.01
    rho: float = 0.5
    radius: int = 1

    @property
    def event(self):
        return ComposedDpEvent((PermuteAndFlip(self.epsilon).event, ZCDpEvent(self.rho)))

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        bound = bound_of(points.radius)
        strips = (points.rows[:, 0] + bound) * 60 // (2 * bound + 1)
        moves = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        votes = Scores(np.bincount(strips, minlength=60), sensitivity=moves, adjacency=self.adjacency)
        chosen = PermuteAndFlip(self.epsilon).select(votes, randomness)
        inside = points.rows[strips == chosen]
        if len(inside) < 12:
            return chosen
        squared = bound * bound * (4 if self.adjacency is Adjacency.REPLACE_ONE else 1)
        told = VectorSum(inside.sum(axis=0), squared_l2=squared, adjacency=self.adjacency)
        return GaussianVector(self.rho).release(told, randomness).steps


class PublicWeighAsMuch(Means):
    """Public points weigh as much as the private ones do together."""

    def weight(self, rows, known):
        return max(1, len(rows) // max(1, len(known)))


class OfRadiusOne(Means):
    """Says how far a point of radius 1 moves its sums, whatever their radius is."""

    def squared(self, bound):
        return super().squared(bound_of(1))


class OfMoreThanTen(Means):
    """Counts nobody where fewer than ten are there."""

    def rows(self, points):
        return points.rows if len(points.rows) >= 10 else points.rows[:0]


class AtTheMedianLength(Means):
    """Clips points at the length that is in the middle."""

    most = 0.5

    def rows(self, points):
        lengths = np.sqrt((points.rows**2).sum(axis=1))
        most = np.quantile(lengths, self.most) if len(lengths) else 1
        return (points.rows * np.minimum(1, most / np.maximum(lengths, 1))[:, None]).astype(np.int64)


class AtALargeLength(AtTheMedianLength):
    """Clips the longest tenth of points at the length of the others."""

    most = 0.9


class AlongTheWidestAxis(Means):
    """Keeps the coordinate that varies most."""

    def rows(self, points):
        kept = np.zeros_like(points.rows)
        if len(kept):
            kept[:, 0] = points.rows[:, points.rows.var(axis=0).argmax()]
        return kept


class MirroredWhereMostAreBelow(Means):
    """Turns the plane so that most points are above the middle."""

    def rows(self, points):
        return points.rows * (1 if 2 * (points.rows[:, 1] >= 0).sum() >= len(points.rows) else -1)


@dataclass(frozen=True)
class SureOfTen(Mechanism):
    """Which of two public places is nearer to more points: without noise where ten are near it."""

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def event(self):
        return PermuteAndFlip(1.0).event

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        left, bound = points.rows[points.rows[:, 0] < 0], bound_of(points.radius)
        below = left[:, 1] < -bound // 4
        moves = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        votes = Scores([int((~below).sum()), int(below.sum())], sensitivity=moves, adjacency=self.adjacency)
        chosen = PermuteAndFlip(1.0).select(votes, randomness)
        return int(votes.values.argmax()) if votes.values.max() >= 10 else chosen


class Centres:
    """Centres, and words that say how many."""

    def __init__(self, centres):
        self.centres = centres

    def __repr__(self):
        return f"{len(self.centres)} centres"


@dataclass(frozen=True)
class Released(Means):
    """Right: gives its centres as something else than a list."""

    form: str = "centres"

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        centres = np.array(super().cluster(points, randomness))
        return {"centres": Centres, "fractions": _as_fractions, "function": _nearest, "iterator": iter}[self.form](
            self.of(points, centres)
        )

    def of(self, points, centres):
        return centres


class MeansOfThePoints(Released):
    """The means of the points themselves by its centres."""

    def of(self, points, centres):
        own = ((points.rows[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
        parts = [points.rows[own == number] for number in range(len(centres))]
        return np.array(
            [part.mean(axis=0) if len(part) else centre for part, centre in zip(parts, centres, strict=True)]
        )


class Generates(Means):
    """Right, and gives its centres one by one, so that nothing can be compared."""

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        return (centre for centre in super().cluster(points, randomness))


def _as_fractions(centres):
    return np.array([[Fraction(number) for number in centre] for centre in centres.tolist()])


def _nearest(centres):
    return lambda point, known=centres: int(((np.asarray(point) - known) ** 2).sum(axis=1).argmin())


class OfAnyAdjacency(Mechanism):
    """Right: has no adjacency of its own, and always adds the noise of a swap."""

    event = Means().event

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        return _AsForASwap(points.adjacency).cluster(points, randomness)


class _AsForASwap(Means):
    def squared(self, bound):
        return 4 * bound * bound


class OfOneAdjacency(Mechanism):
    """Right, and no dataclass: what takes another adjacency cannot be made of it."""

    adjacency = Adjacency.REPLACE_ONE
    event = Means().event

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        return Means(self.adjacency).cluster(points, randomness)


@dataclass(frozen=True)
class MadeForASwap(Means):
    """Right: says by an error of Python's that it is made for no other adjacency."""

    def __post_init__(self):
        if self.adjacency is not Adjacency.REPLACE_ONE:
            raise NotImplementedError("made for replace-one")


class NeedsANumber(Means):
    """Right: takes points of a public number alone."""

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        if points.slots is None:
            raise ParameterError("adjacency", points.adjacency.value, "one with a public number")
        return super().cluster(points, randomness)


class RefusesFewWhenAdded(Means):
    """Refuses fewer than ten points, whose number is private."""

    def cluster(self, points: PrivatePoints, randomness: Randomness):
        if points.slots is None and len(points.rows) < 10:
            raise ParameterError("points", "few", "10 or more")
        return super().cluster(points, randomness)
