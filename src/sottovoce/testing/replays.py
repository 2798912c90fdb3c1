"""The same releases once more, in another world.

Guarantee   Two answers of the same releases, tests and own coins differ by what is private and reaches them through no
            registered mechanism.
Assumes     Coins of an entry's own are the same in two worlds where as many are thrown, of the same kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np

from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.draw_losses import too_far
from sottovoce.testing.draw_tape import Draw, Tape, Teller
from sottovoce.testing.fingerprints import fingerprint
from sottovoce.testing.label_worlds import seeded

OTHERWISE: Final = "after the same releases it draws otherwise, or tells a mechanism something else, in another world"
OTHER_COINS: Final = "after the same releases it throws other coins of its own in a neighbouring world"
OWN_COINS: Final = 32
"""Seeds of an entry's own coins, where it throws any: what private data do behind one of them may not be in a few."""


@final
class Coins:
    """A seeded source that notes what it was asked for.

    Attributes:
        bounds: Of every answer.
    """

    secure = False

    def __init__(self, seed: int) -> None:
        self._source, self.bounds = seeded(seed), list[int]()

    def below(self, bound: int) -> int:
        """A uniform integer, noted."""
        self.bounds.append(bound)
        return self._source.below(bound)


def teller(first: Tape, lost: list[int]) -> Teller:
    """The releases of another text, up to the first draw that it has not; from there on, which is noted, real ones."""

    def told(number: int, draw: Draw) -> Any:
        if lost or number >= len(first.draws) or kind(draw) != kind(first.draws[number]):
            lost.append(number)
            return NotImplemented
        return first.draws[number].outcome

    return told


@final
@dataclass(frozen=True)
class Forced:
    """What is told of releases that say yes or no; everything else is drawn.

    Attributes:
        test: The answer of every threshold test; ``None`` where they are drawn.
        passes: Whether every proposed set passes; ``None`` where they are drawn.
        tapes: Of all worlds, by which a set that passes holds what leads in them together: candidates whose order
            differs between them.
    """

    test: bool | None = None
    passes: bool | None = None
    tapes: Sequence[Tape] = ()

    @property
    def teller(self) -> Teller | None:
        """Tells it; ``None`` where there is nothing to tell."""
        return None if self.test is None and self.passes is None else self._told

    def _told(self, number: int, draw: Draw) -> Any:
        if draw.test is not None:
            return NotImplemented if self.test is None else self.test
        if self.passes is None or not isinstance(draw.mechanism, ProposeTestRelease):
            return NotImplemented
        if not self.passes:
            return None
        alike = [tape.draws[number] for tape in self.tapes if number < len(tape.draws)]
        values = [twin.aggregate.values for twin in alike if kind(twin) == kind(draw)]
        if not values:
            return NotImplemented
        leading = np.argsort(-np.sum(values, axis=0), kind="stable")[: draw.mechanism.k]
        return tuple(sorted(leading.tolist()))

    def further(self, tapes: Sequence[Tape]) -> Iterator[Forced]:
        """What else is told where these draws come up: both answers of what was drawn."""
        draws = tapes[0].draws
        if self.test is None and any(draw.test for draw in draws):
            yield from (replace(self, test=answer) for answer in (True, False))
        if self.passes is None and any(isinstance(draw.mechanism, ProposeTestRelease) for draw in draws):
            yield from (replace(self, passes=passes, tapes=tapes) for passes in (True, False))


def replayed(made: Callable[[int, Teller | None], tuple[list[Tape], list[int]]]) -> Iterator[list[Tape]]:
    """Tapes of the same worlds: as they are drawn, with all that is asked answered yes, and no, and with other coins.

    Tests and sets are told by themselves and together, whichever of both comes up first: nine ways at most.

    Args:
        made: Makes the tapes from a seed of the entry's own coins and what is told; says which coins were thrown.
    """
    every: dict[tuple[bool | None, bool | None], Forced] = {(None, None): Forced()}
    for way in _ways(every):
        for seed in range(OWN_COINS):
            tapes, thrown = made(seed, way.teller)
            yield tapes
            for more in way.further(tapes):
                every.setdefault((more.test, more.passes), more)
            if not thrown:
                break


def _ways(every: dict[tuple[bool | None, bool | None], Forced]) -> Iterator[Forced]:
    """Each of them once, those that come up meanwhile as well."""
    number = 0
    while number < len(every):
        yield list(every.values())[number]
        number += 1


def kind(draw: Draw) -> tuple[str, str, int | None]:
    """What a release must have in common with another one to be given in its place."""
    size = len(draw.aggregate.values) if hasattr(draw.aggregate, "values") else None
    return type(draw.mechanism).__name__, type(draw.aggregate).__name__, size


def seen(draw: Draw) -> Any:
    """What a mechanism draws from, without what all scores have in common: no selection sees that."""
    if not isinstance(draw.aggregate, Scores):
        return fingerprint((draw.mechanism, draw.public, draw.aggregate))
    bounds = (draw.aggregate.sensitivity, draw.aggregate.squared_l2)
    return fingerprint((draw.mechanism, draw.public, bounds, draw.aggregate.values - draw.aggregate.values.min()))


def same_draws(one: Tape, other: Tape) -> bool:
    """Whether as much was drawn, of the same mechanisms with the same bounds."""
    return one.trace == other.trace


def first_difference(one: Sequence[tuple[str, Any]], other: Sequence[tuple[str, Any]]) -> str:
    """What shows that what is asked for follows private data; empty where nothing does."""
    for (what, content), (twin, same) in zip(one, other, strict=False):
        if what != twin or content != same:
            how = "asks for another sum" if twin == "a sum" else "tells a mechanism something else"
            return f"after the same releases it {how} in a neighbouring world"
    return "" if len(one) == len(other) else "after the same releases it asks or draws more in a neighbouring world"


def far_apart(one: Tape, other: Tape, adjacency: Adjacency) -> str:
    """What shows that a mechanism is given something that moves by more than it was told; empty where nothing does."""
    for draw, twin in zip(one.draws, other.draws, strict=True):
        if problem := too_far(draw, twin, adjacency):
            return f"{draw.mechanism!r} {problem}"
    return ""
