"""The contract of a private clustering: the same releases in worlds of points that differ by one.

Guarantee   What registered mechanisms are given moves by no more than they are told, exactly and in whole numbers;
            after the same releases the same is asked and released; the losses of all draws together are within the
            event, in every pair of worlds that is tried. The order of points changes nothing, and nothing is kept from
            an earlier clustering.
Assumes     Points in two dimensions. Selections are drawn, or told: a best candidate or a worst; counts and sums are
            drawn, or told: none left, or every cut worth keeping. A mechanism that has a ``radius`` takes points of
            that radius alone.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import InputError, SottoError
from sottovoce.mechanisms.gaussian import with_noise
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.points import PrivatePoints
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.testing.asked_alone import NOT_MADE, AskedAlone
from sottovoce.testing.asked_first import NOBODY, PLANS, Beside, follows_the_order, nobody_alike, plans_alike
from sottovoce.testing.claims import FloatArray
from sottovoce.testing.constructions import Construction
from sottovoce.testing.draw_losses import Losses, losses_of, too_far
from sottovoce.testing.draw_tape import Draw, Tape, Teller, WrongDrawError, numbers_of, running
from sottovoce.testing.fingerprints import fingerprint
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.ladders import BESIDE, TOP, counted, pairs_of
from sottovoce.testing.options import subject_of
from sottovoce.testing.releases import release_of
from sottovoce.testing.replays import OTHER_COINS, Coins, either, first_difference, replayed, teller
from sottovoce.testing.report import ContractError, Report, must_not_raise

Point = tuple[float, float]
World = Sequence[Point]
Near = tuple[Sequence[World], Sequence[tuple[int, int]]]
"""Worlds, and pairs of them that one change of the data lies between, by their places."""

NEAR: Final = (-0.6, 0.1)
FAR: Final = (0.6, 0.1)
NULL: Final = (float("nan"), float("nan"))
"""A point that is nobody's: of no node, and nothing to a sum."""
SPOTS: Final = ((-1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (0.02, 0.02), NEAR, FAR)
"""Where one point can be: far to every side, in the middle, with the others."""
CROWDS: Final = ((), ((*(NEAR,) * 4, *(FAR,) * 3)), ((*(NEAR,) * 40, *(FAR,) * 25)))
"""Who is there besides."""
HIGH: Final = (0.0, 0.95)
LONG: Final = (-0.8, 0.5)
SHORT: Final = (0.04, -0.03)
LADDERS: Final[Sequence[tuple[World, Point, Point | None]]] = (
    ((*(FAR,) * BESIDE, *(HIGH,) * BESIDE), NEAR, HIGH),
    ((), NEAR, None),
    ((SHORT,) * BESIDE, LONG, SHORT),
)
"""Who stands beside; where points are, ever fewer; where they go, if not away. First as many are on the other side of a
cut, and another axis comes to vary most; then they are all; then lengths, sides and heights of most points change.
"""
MUCH: Final = 10_000
"""A noisy count this large, or this far below 0, decides about a cut."""
DELTA: Final = 1e-6
PUBLIC: Final = ((-0.4, 0.3), (0.5, -0.2), (0.7, 0.4), NEAR)
"""Public points, where a clustering takes any."""
WIDE: Final = 2
"""A radius that is not 1, where a clustering takes points of any."""
OPPOSITE: Final[Sequence[World]] = (
    (*((-0.9, 0.1),) * 30, *((0.4, -0.2),) * 10),
    (*((0.3, -0.1),) * 30, *((-0.2, 0.4),) * 10),
)
"""Two worlds that are clustered in both orders."""
ASKED: Final[Sequence[Beside[int]]] = ((43, 44, 1.0),)
"""Numbers of points that no other world has, those of nobody counted; a clustering may follow them where they are
public, by less than one point may move what a mechanism is given."""

NEARLY: Final = 1e-5
"""By so much public points differ from those beside one point more."""


@final
@dataclass(frozen=True)
class _Given:
    """How points are handed over.

    Attributes:
        source: Seed of the noise of releases that are drawn.
        place: Where the point that changes stands among the others: 0 first, 1 in the middle, 2 last.
        public: Public points beside them.
        radius: Of the points, where a mechanism has none of its own. Worlds are in units of it.
    """

    source: int
    place: int = 2
    public: World = ()
    radius: int = 1

    def among(self, crowd: World, changed: World) -> World:
        """The point that changes, or none, at its place among the others."""
        at = len(crowd) * self.place // 2
        return (*crowd[:at], *changed, *crowd[at:])

    def __str__(self) -> str:
        public = f", beside public {_shown(self.public)}" if self.public else ""
        return public + (f", in units of a radius of {self.radius}" if self.radius != 1 else "")


USUAL: Final = _Given(0)
AGAIN: Final = _Given(5)
"""Other noise: a private threshold shows where the draws lead to it alone."""
PLACES: Final = (_Given(1, place=0), _Given(2, place=1))
"""The point that changes stands elsewhere among others than last."""


def check_clustering(mechanism: Any, name: str, subject: str, report: Report) -> None:
    """Puts a clustering through its contract, as far as it draws by registered mechanisms.

    Args:
        mechanism: It takes points and a source of noise.
        name: Of the method that draws.
        subject: The mechanism in words.
        report: To be filled.

    Raises:
        ContractError: The contract is broken; or nothing that it draws comes from a registered mechanism.
    """
    for adjacency in Adjacency:
        try:
            one = _under(mechanism, adjacency)
        except Exception as error:  # nothing private is read where it is made
            report.not_compared(f"{subject} under {adjacency.value}, for which no other one could be made: {error}")
            continue
        if refusal := _refusal(one, adjacency, USUAL):
            report.refused.append(f"{adjacency.value}: {refusal}")
        else:
            _Clustering(one, name, subject, report, adjacency).check()


def asked_alone(construction: Construction, others: Sequence[Construction], name: str, report: Report) -> AskedAlone:
    """Clusterings of two opposite worlds under every adjacency, and with other numbers of its own.

    Public points and radii are compared elsewhere, and what it refuses is listed there.

    Args:
        construction: How the clustering is made.
        others: The same with another number.
        name: Of the method that draws.
        report: To be filled.
    """
    subject = repr(construction)

    def answer_to(question: tuple[Construction, Adjacency, int]) -> Sequence[Any]:
        made, adjacency, number = question
        try:
            one = _under(made.make(), adjacency)
        except (Exception, SottoError):
            return [NOT_MADE]
        try:
            driven = _Clustering(one, name, subject, report, adjacency)
            tape, found = driven._run(OPPOSITE[number], None, Coins(0), USUAL)
        except ContractError as error:
            if isinstance(error.__cause__, InputError):
                raise error.__cause__ from None
            raise
        return [one.event, tape.told, found]

    def in_words(question: tuple[Construction, Adjacency, int]) -> str:
        made, adjacency, number = question
        return f"{made!r}, {_shown(OPPOSITE[number])}, {adjacency.value}"

    own = construction.arguments.get("adjacency", Adjacency.REPLACE_ONE)
    usual = [(_made_under(construction, each), each, number) for each in Adjacency for number in (0, 1)]
    questions = [*usual, *((other, own, 0) for other in others)]
    return AskedAlone(questions, answer_to, in_words, subject, report, listed=lambda question: question in usual)


def _made_under(construction: Construction, adjacency: Adjacency) -> Construction:
    """The same clustering made for another adjacency; as it is where it was given, or is made for none."""
    if construction.instance is not None or "adjacency" not in construction.arguments:
        return construction
    return replace(construction, arguments={**construction.arguments, "adjacency": adjacency})


def _under(mechanism: Any, adjacency: Adjacency) -> Any:
    """The same clustering under another adjacency: itself where it is made for none."""
    if getattr(mechanism, "adjacency", adjacency) is adjacency:
        return mechanism
    return replace(mechanism, adjacency=adjacency)


def points_of(mechanism: Any) -> PrivatePoints:
    """Points as this clustering takes them.

    Raises:
        ContractError: It refuses points in a plane, of which all worlds are.
    """
    own = getattr(mechanism, "adjacency", None)
    refusals = list[str]()
    for adjacency in [own] if own else Adjacency:
        points = _points(mechanism, SPOTS, USUAL, adjacency)
        try:
            clustered(mechanism, points, seeded(USUAL.source))
        except InputError as error:
            refusals.append(f"it refuses {points!r}: {error}")
        else:
            return points
    raise ContractError("drive", subject_of(mechanism), refusals[0])


def _refusal(mechanism: Any, adjacency: Adjacency, given: _Given) -> str:
    """Why it takes no points that are handed over like this, few or many; empty where it takes some."""
    refusal = ""
    for world in (SPOTS, (*SPOTS, *CROWDS[-1])):
        try:
            clustered(mechanism, _points(mechanism, world, given, adjacency), seeded(given.source), given.public)
        except InputError as error:
            refusal = str(error)
        except Exception:  # told with its world where worlds are compared
            return ""
        else:
            return ""
    return refusal


def clustered(mechanism: Any, points: PrivatePoints, randomness: Randomness, public: World = ()) -> Any:
    """What it makes of points; beside these public ones, or some where it must have any."""
    cluster = getattr(mechanism, release_of(mechanism.__class__)[0])
    taken = inspect.signature(cluster).parameters.get("public")
    if public or (taken is not None and taken.default is taken.empty):
        return cluster(points, randomness, public=np.array(public or PUBLIC))
    return cluster(points, randomness)


def _radius_of(mechanism: Any) -> Fraction | int | None:
    """The radius of the points that it takes; ``None`` where it takes any."""
    radius = getattr(mechanism, "radius", None)
    return Fraction(radius) if isinstance(radius, float) else radius


def _points(mechanism: Any, world: World, given: _Given, adjacency: Adjacency) -> PrivatePoints:
    own = _radius_of(mechanism)
    radius = given.radius if own is None else own
    places = np.array(world, dtype=np.float64).reshape(-1, 2) * given.radius
    return PrivatePoints(places, adjacency=adjacency, radius=radius, dimension=2)


@final
class _Clustering:
    """One clustering under one adjacency."""

    def __init__(self, mechanism: Any, name: str, subject: str, report: Report, adjacency: Adjacency) -> None:
        self.mechanism, self.subject, self.takes = mechanism, subject, inspect.signature(getattr(mechanism, name))
        self.adjacency, self.report = adjacency, report

    def check(self) -> None:
        """Every contract that applies."""
        losses = Losses(self.adjacency)
        wholly = [USUAL, AGAIN, *self._others()]
        for given in (*wholly, *PLACES):
            for crowd in CROWDS if given in wholly else CROWDS[1:]:
                for told in TOLD:
                    self._pairs(self._around(crowd, given), given, told, losses)
        for given in wholly:
            for near in self._ladders():
                for told in TOLD_ON_LADDERS[: 2 if given is AGAIN else None]:
                    self._pairs(near, given, told, losses)
        for given in wholly:
            if given is not AGAIN:
                self._any_order(given)
                self._alone(given)
        if found := losses.exceed(self.mechanism.event, DELTA):
            raise ContractError("composition", self.subject, found[0], found[1])
        self.report.kept("composition", losses.pairs, "pairs of clusterings whose losses stay within the event")

    def _others(self) -> Iterator[_Given]:
        """Public points and another radius, where it takes them."""
        others = [_Given(3, public=PUBLIC)] if "public" in self.takes.parameters else []
        others += [_Given(4, radius=WIDE)] if _radius_of(self.mechanism) is None else []
        for given in others:
            if refusal := _refusal(self.mechanism, self.adjacency, given):
                self.report.refused.append(f"{self.adjacency.value}{given}: {refusal}")
            else:
                yield given

    def _around(self, crowd: World, given: _Given) -> Near:
        """One point at every place, and nobody there."""
        gone = () if self.adjacency is Adjacency.ADD_REMOVE else (NULL,)
        worlds = [given.among(crowd, changed) for changed in (gone, *((spot,) for spot in SPOTS))]
        if self.adjacency is Adjacency.REPLACE_ONE:
            return worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]
        return worlds, [(0, i) for i in range(1, len(worlds))]

    def _ladders(self) -> Iterator[Near]:
        """One point less of a place in each world: moved, if points can move, else nobody's or gone."""
        for others, place, elsewhere in LADDERS:
            gone = () if self.adjacency is Adjacency.ADD_REMOVE else (NULL,)
            instead = (elsewhere,) if elsewhere and self.adjacency is Adjacency.REPLACE_ONE else gone
            worlds = [(*others, *(place,) * count, *instead * (TOP - count)) for count in range(TOP, -1, -1)]
            yield worlds, pairs_of(worlds)

    def _pairs(self, near: Near, given: _Given, told: Teller | None, losses: Losses) -> None:
        """The same releases in all of these worlds."""
        worlds, pairs = near
        for tapes in replayed(partial(self._with_coins, worlds, given, told)):
            for one, other in pairs:
                where = self._two(worlds[one], worlds[other], given)
                for draw, twin in zip(tapes[one].draws, tapes[other].draws, strict=True):
                    if problem := too_far(draw, twin, self.adjacency):
                        raise ContractError("sensitivity", self.subject, f"{draw.mechanism!r} {problem}", where)
                losses.add(losses_of(tapes[one].draws, tapes[other].draws), where)
            self.report.kept("sensitivity", len(pairs), "pairs that move by no more than mechanisms were told")

    def _with_coins(
        self, worlds: Sequence[World], given: _Given, told: Teller | None, seed: int, answers: Teller | None
    ) -> tuple[list[Tape], list[int]]:
        """Clusterings of all worlds, with the releases of the first; and the coins of its own that were thrown."""
        coins = Coins(seed)
        first, made = self._run(worlds[0], either(answers, told), coins, given)
        if not first.draws:
            raise ContractError("drive", self.subject, "it draws from no mechanism of the package", _shown(worlds[0]))
        tapes = [first]
        for world in worlds[1:]:
            again, where = Coins(seed), self._two(worlds[0], world, given)
            tape, released = self._run(world, teller(first, []), again, given)
            if problem := first_difference(first.trace, tape.trace):
                raise ContractError("asks", self.subject, problem, where)
            if again.bounds != coins.bounds:
                raise ContractError("asks", self.subject, OTHER_COINS, where)
            if fingerprint(released) != fingerprint(made):
                problem = "of the same releases it makes two clusterings: something private reaches them without noise"
                raise ContractError("post-processing", self.subject, problem, where)
            tapes.append(tape)
        self.report.kept("post-processing", len(worlds), "worlds with the same clustering of the same releases")
        return tapes, coins.bounds

    def _any_order(self, given: _Given) -> None:
        """Points in another order give the same sums, and the same clustering of the same releases."""
        for crowd in CROWDS:
            world = (*SPOTS, NULL, *crowd)
            for told in TOLD:
                coins = Coins(0)
                tape, made = self._run(world, told, coins, given)
                if coins.bounds:
                    self.report.not_compared(f"{self.subject}: points in another order, where it throws coins")
                    return
                for other in (world[::-1], (*world[1::2], *world[::2])):
                    twin, again = self._run(other, teller(tape, []), Coins(0), given)
                    if _read(tape, made) != _read(twin, again):
                        problem = "what it adds up, or makes of the same releases, depends on the order of points"
                        problem += "; where their number is public, that is no proof" * self.adjacency.size_is_public
                        raise ContractError("order", self.subject, problem, self._two(world, other, given))
                    self.report.kept("order", 1, "worlds in another order")

    def _alone(self, given: _Given) -> None:
        """What a clustering draws from follows from its own points: nothing is kept from an earlier one."""
        first: list[Tape] = []

        def drawn_from(size: int, number: int) -> FloatArray:
            world = (*OPPOSITE[number], *(NULL,) * (size - len(OPPOSITE[number])))
            moved = size * NEARLY  # public points that no other world has, either
            beside = replace(given, public=tuple((x + moved, y) for x, y in given.public))
            tape, _ = self._run(world, teller(first[0], []) if first else None, Coins(0), beside)
            first.append(tape)
            return np.concatenate([np.zeros(0), *(_in_bounds(draw.aggregate) for draw in tape.draws)])

        where = self._two(OPPOSITE[0], OPPOSITE[1], given)
        if problem := follows_the_order(drawn_from, ASKED):
            raise ContractError("state", self.subject, problem, where)
        nobody = (NULL,) * len(OPPOSITE[0])
        if not nobody_alike(lambda world: _read(*self._run(world, None, Coins(0), given)), OPPOSITE, nobody):
            raise ContractError("state", self.subject, NOBODY, where)
        if not plans_alike(
            lambda world: self._run(world, None, Coins(0), given), OPPOSITE, lambda: self.mechanism.event
        ):
            raise ContractError("state", self.subject, PLANS, where)
        self.report.kept("state", 4 * len(ASKED), "clusterings that do not follow what was clustered before")

    def _run(self, world: World, told: Teller | None, coins: Coins, given: _Given) -> tuple[Tape, Any]:
        tape = Tape(coins, told, noise=seeded(given.source))
        points = _points(self.mechanism, world, given, self.adjacency)
        with running(tape), must_not_raise("neighbours", self.subject, "it", f"{_shown(world)}{given}"):
            try:
                released = clustered(self.mechanism, points, tape.randomness, given.public)
            except WrongDrawError as wrong:
                raise ContractError("sampler", self.subject, str(wrong), _shown(world)) from None
        return tape, released

    def _two(self, one: World, other: World, given: _Given) -> str:
        return f"{_shown(one)} and {_shown(other)}, {self.adjacency.value}{given}"


def _read(tape: Tape, made: Any) -> Any:
    """All that a clustering gave to mechanisms and what it made of their releases, to be compared."""
    return tape.trace, [fingerprint(numbers_of(draw.aggregate)) for draw in tape.draws], fingerprint(made)


def _in_bounds(aggregate: Any) -> FloatArray:
    """What a mechanism is given, in units of what it is told that one change moves it by."""
    if isinstance(aggregate, VectorSum):
        return numbers_of(aggregate) / math.sqrt(aggregate.squared_l2)
    return numbers_of(aggregate) / (aggregate.sensitivity if isinstance(aggregate, Scores) else aggregate.l1)


def _telling(steps: Callable[[int, int], int]) -> Teller:
    """Noisy vectors of these steps, by place and length; selections are drawn."""

    def told(_: int, draw: Draw) -> Any:
        if not isinstance(draw.aggregate, VectorSum):
            return NotImplemented
        values = draw.aggregate.values.ravel().tolist()
        return with_noise(draw.aggregate, [steps(at, len(values)) - value for at, value in enumerate(values)])

    return told


def _selecting(best: bool) -> Teller:
    """The first of the best candidates of every selection, or the last of the worst. All else is drawn."""

    def told(_: int, draw: Draw) -> Any:
        if not isinstance(draw.aggregate, Scores) or np.ndim(draw.outcome) != 0:
            return NotImplemented
        scores = numbers_of(draw.aggregate)
        return int(np.flatnonzero(scores == scores.max())[0] if best else np.flatnonzero(scores == scores.min())[-1])

    return told


_none_left: Final = _telling(lambda at, size: -MUCH)
_all_kept: Final = _telling(lambda at, size: MUCH if at in (0, size - 1) else 0)
_first_best, _last_worst = _selecting(best=True), _selecting(best=False)
TOLD: Final = (None, _none_left, _all_kept)
TOLD_ON_LADDERS: Final = (None, _all_kept, _first_best, _last_worst)
"""Other noise changes what selections draw: the first two."""


@lru_cache(maxsize=128)
def _shown(world: World) -> str:
    return f"points {counted(map(str, world)) or 'of nobody'}"
