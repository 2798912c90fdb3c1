"""The contract of a private clustering: the same releases in worlds of points that differ by one.

Guarantee   What registered mechanisms are given moves by no more than they are told, exactly and in whole numbers;
            after the same releases the same is asked and released; the losses of all draws together are within the
            event, in every pair of worlds that is tried.
Assumes     Points in two dimensions. Selections are drawn, counts and sums are drawn or told: none left, or every cut
            worth keeping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

from sottovoce.errors import InputError
from sottovoce.mechanisms.gaussian import with_noise
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.points import PrivatePoints
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.testing.draw_losses import Losses, losses_of, too_far
from sottovoce.testing.draw_tape import Draw, Tape, Teller, WrongDrawError, fingerprint, running
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.ladders import TOP, counted, ladders, pairs_of
from sottovoce.testing.replays import OTHER_COINS, Coins, first_difference, replayed, teller
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
MUCH: Final = 10_000
"""A noisy count this large, or this far below 0, decides about a cut."""
SOURCES: Final = 2
"""Seeds of the noise of a world whose releases are drawn."""
DELTA: Final = 1e-6


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
        one = mechanism if mechanism.adjacency is adjacency else _under(mechanism, adjacency)
        if one is not None:
            _Clustering(one, name, subject, report).check()


def _under(mechanism: Any, adjacency: Adjacency) -> Any:
    """The same clustering under another adjacency; ``None`` where it is made for one alone."""
    try:
        return replace(mechanism, adjacency=adjacency)
    except (InputError, TypeError):
        return None


def points_of(mechanism: Any, world: World = SPOTS) -> PrivatePoints:
    """Points as this clustering takes them."""
    radius = getattr(mechanism, "radius", 1)
    return PrivatePoints(world, adjacency=mechanism.adjacency, radius=radius, dimension=2)


@final
class _Clustering:
    """One clustering under one adjacency."""

    def __init__(self, mechanism: Any, name: str, subject: str, report: Report) -> None:
        self.mechanism, self.cluster, self.subject = mechanism, getattr(mechanism, name), subject
        self.adjacency: Adjacency = mechanism.adjacency
        self.report = report

    def check(self) -> None:
        losses = Losses(self.adjacency)
        for near in map(self._around, CROWDS):
            for told in (None, _none_left, _all_kept):
                self._pairs(near, told, losses)
        for near in self._ladders():
            for told in (None, _all_kept):
                self._pairs(near, told, losses)
        if found := losses.exceed(self.mechanism.event, DELTA):
            raise ContractError("composition", self.subject, found[0], found[1])
        self.report.kept("composition", losses.pairs, "pairs of clusterings whose losses stay within the event")

    def _around(self, crowd: World) -> Near:
        """One point at every place, and nobody there."""
        one_less = crowd if self.adjacency is Adjacency.ADD_REMOVE else (*crowd, NULL)
        worlds = [one_less, *((*crowd, spot) for spot in SPOTS)]
        if self.adjacency is Adjacency.REPLACE_ONE:
            return worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]
        return worlds, [(0, i) for i in range(1, len(worlds))]

    def _ladders(self) -> Iterator[Near]:
        """One point less in each world on one side of a cut, beside as many on the other as there are at the top."""
        comes = self.adjacency is Adjacency.ADD_REMOVE
        for rungs in ladders(NEAR, FAR, NULL, swaps=self.adjacency is Adjacency.REPLACE_ONE, comes=comes):
            worlds = [(*(FAR,) * TOP, *(p for p in world if not (comes and p is NULL))) for world in rungs]
            yield worlds, pairs_of(worlds)

    def _pairs(self, near: Near, told: Teller | None, losses: Losses) -> None:
        """The same releases in all of these worlds."""
        worlds, pairs = near
        for source in range(SOURCES):
            for tapes in replayed(partial(self._with_coins, worlds, told, source)):
                for one, other in pairs:
                    where = f"{_shown(worlds[one])} and {_shown(worlds[other])}, {self.adjacency.value}"
                    for draw, twin in zip(tapes[one].draws, tapes[other].draws, strict=True):
                        if problem := too_far(draw, twin, self.adjacency):
                            raise ContractError("sensitivity", self.subject, f"{draw.mechanism!r} {problem}", where)
                    losses.add(losses_of(tapes[one].draws, tapes[other].draws), where)
                self.report.kept("sensitivity", len(pairs), "pairs that move by no more than mechanisms were told")

    def _with_coins(
        self, worlds: Sequence[World], told: Teller | None, source: int, seed: int, answers: Teller | None
    ) -> tuple[list[Tape], list[int]]:
        """Clusterings of all worlds, with the releases of the first; and the coins of its own that were thrown."""
        coins = Coins(seed)
        first, made = self._run(worlds[0], answers or told, coins, seeded(source))
        if not first.draws:
            raise ContractError("drive", self.subject, "it draws from no mechanism of the package", _shown(worlds[0]))
        tapes = [first]
        for world in worlds[1:]:
            again, where = Coins(seed), f"{_shown(worlds[0])} and {_shown(world)}, {self.adjacency.value}"
            tape, released = self._run(world, teller(first, []), again, seeded(source))
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

    def _run(self, world: World, told: Teller | None, coins: Coins, noise: Randomness) -> tuple[Tape, Any]:
        tape = Tape(coins, told, noise=noise)
        points = points_of(self.mechanism, world)
        with running(tape), must_not_raise("neighbours", self.subject, "it", _shown(world)):
            try:
                released = self.cluster(points, tape.randomness)
            except WrongDrawError as wrong:
                raise ContractError("sampler", self.subject, str(wrong), _shown(world)) from None
        return tape, released


def _telling(steps: Callable[[int, int], int]) -> Teller:
    """Noisy vectors of these steps, by place and length; selections are drawn."""

    def told(_: int, draw: Draw) -> Any:
        if not isinstance(draw.aggregate, VectorSum):
            return NotImplemented
        values = draw.aggregate.values.ravel().tolist()
        return with_noise(draw.aggregate, [steps(at, len(values)) - value for at, value in enumerate(values)])

    return told


_none_left: Final = _telling(lambda at, size: -MUCH)
_all_kept: Final = _telling(lambda at, size: MUCH if at in (0, size - 1) else 0)


def _shown(world: World) -> str:
    return f"points {counted(map(str, world)) or 'of nobody'}"
