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


def is_asked(draw: Draw) -> bool:
    """Whether a release says yes or no: a threshold test, or a proposed set, which passes or does not."""
    return draw.test is not None or isinstance(draw.mechanism, ProposeTestRelease)


@final
@dataclass(frozen=True)
class Way:
    """What is told of releases that say yes or no; everything else is drawn.

    Attributes:
        first: What the first of them say, one after another, each with its kind: where another kind comes up, behind
            another coin, it is drawn.
        tests: The answer of every threshold test behind those; ``None`` where they are drawn.
        sets_fail: Whether every proposed set behind those fails; else they are drawn.
    """

    first: tuple[tuple[Any, Any], ...] = ()
    tests: bool | None = None
    sets_fail: bool = False

    @property
    def teller(self) -> Teller | None:
        """Tells it, in one run after another; ``None`` where there is nothing to tell."""
        if self == Way():
            return None
        last, asked = -1, 0

        def told(number: int, draw: Draw) -> Any:
            nonlocal last, asked
            if number <= last:
                asked = 0
            last = number
            if not is_asked(draw):
                return NotImplemented
            asked += 1
            if asked <= len(self.first):
                same, outcome = self.first[asked - 1]
                return outcome if same == _asked_kind(draw) else NotImplemented
            if draw.test is not None:
                return NotImplemented if self.tests is None else self.tests
            return None if self.sets_fail else NotImplemented

        return told


MOST_WAYS: Final = 9
"""Ways that are tried at most: all that three questions can be answered, and their coins."""
FEW_ASKED: Final = 3
"""Of so many questions every answer is tried; of more, all yes, all no, and the first two and the last otherwise."""


@final
class Ways:
    """Every way in which tests and sets of an entry can come out, the likely and the unlikely ones.

    Iterating gives the way that is drawn, then those that came up meanwhile: behind every answer that was told there
    may be a question that nobody had asked before.
    """

    def __init__(self) -> None:
        self._ways, self._met = [Way()], set[tuple[Any, ...]]()

    def __iter__(self) -> Iterator[Way]:
        number = 0
        while number < len(self._ways):
            yield self._ways[number]
            number += 1

    def saw(self, way: Way, tapes: Sequence[Tape], *, thrown: bool) -> None:
        """Notes what a way led to.

        Args:
            way: The way.
            tapes: Of all worlds, the first of which is asked.
            thrown: Whether the entry threw coins of its own: behind others, other questions come up.
        """
        asked = [(number, draw) for number, draw in enumerate(tapes[0].draws) if is_asked(draw)]
        said = tuple((_asked_kind(draw), draw.outcome) for _, draw in asked)
        if not thrown:
            self._met |= {said[:length] for length in range(len(said) + 1)}
        behind = range(len(way.first), len(asked))
        if len(behind) > FEW_ASKED:
            self._all_alike(way, [draw for _, draw in asked[len(way.first) :]])
            self._all_pass(way, asked, said, tapes)
            behind_tried: Sequence[int] = sorted({behind[0], behind[1], behind[-1]})
        else:
            behind_tried = behind
        for at in behind_tried:
            number, draw = asked[at]
            for other in _otherwise(number, draw, tapes):
                self._add(replace(way, first=(*said[:at], (said[at][0], other))), thrown=thrown)

    def _all_alike(self, way: Way, draws: Sequence[Draw]) -> None:
        """All yes, and all no."""
        if way.tests is None and any(draw.test for draw in draws):
            for answer in (True, False):
                self._add(replace(way, tests=answer), thrown=True)
        if not way.sets_fail and any(draw.test is None and draw.outcome is not None for draw in draws):
            self._add(replace(way, sets_fail=True), thrown=True)

    def _all_pass(
        self, way: Way, asked: Sequence[tuple[int, Draw]], said: tuple[tuple[Any, Any], ...], tapes: Sequence[Tape]
    ) -> None:
        """Every set passes, with tests as they came out, and where there are any, with all of them saying yes."""
        passing = list(said)
        for at in range(len(way.first), len(asked)):
            number, draw = asked[at]
            if draw.test is None and draw.outcome is None:
                passing[at] = (said[at][0], *_otherwise(number, draw, tapes))
        if passing == list(said):
            return
        self._add(replace(way, first=tuple(passing)), thrown=True)
        tests = [at for at in range(len(way.first), len(asked)) if asked[at][1].test is not None]
        for at in tests:
            passing[at] = (said[at][0], True)
        if tests:
            self._add(replace(way, first=tuple(passing)), thrown=True)

    def _add(self, way: Way, *, thrown: bool) -> None:
        if way not in self._ways and len(self._ways) < MOST_WAYS and (thrown or way.first not in self._met):
            self._ways.append(way)
            if not thrown:
                self._met.add(way.first)


def _otherwise(number: int, draw: Draw, tapes: Sequence[Tape]) -> Iterator[Any]:
    """What a test or a set could have said as well.

    A set that passes holds what leads in all worlds together: candidates whose order differs between them.
    """
    if draw.test is not None:
        yield not draw.outcome
    elif draw.outcome is not None:
        yield None
    else:
        values = [tape.draws[number].aggregate.values for tape in tapes if _is_there(number, draw, tape)]
        leading = np.argsort(-np.sum(values, axis=0), kind="stable")[: draw.mechanism.k]
        yield tuple(sorted(leading.tolist()))


def _is_there(number: int, draw: Draw, tape: Tape) -> bool:
    return number < len(tape.draws) and kind(tape.draws[number]) == kind(draw)


def _asked_kind(draw: Draw) -> tuple[Any, ...]:
    """What must be the same for an answer to be told: a set holds so many of so many candidates."""
    return (*kind(draw), draw.test is not None, getattr(draw.mechanism, "k", None))


def replayed(made: Callable[[int, Teller | None], tuple[list[Tape], list[int]]]) -> Iterator[list[Tape]]:
    """Tapes of the same worlds: as they are drawn, with tests and sets that come out otherwise, and with other coins.

    Args:
        made: Makes the tapes from a seed of the entry's own coins and what is told; says which coins were thrown.
    """
    ways = Ways()
    for way in ways:
        for seed in range(OWN_COINS):
            tapes, thrown = made(seed, way.teller)
            yield tapes
            ways.saw(way, tapes, thrown=bool(thrown))
            if not thrown:
                break


def either(told: Teller | None, usual: Teller | None) -> Teller | None:
    """What the first tells, and where it tells nothing the second."""
    if told is None or usual is None:
        return told or usual

    def both(number: int, draw: Draw) -> Any:
        outcome = told(number, draw)
        return usual(number, draw) if outcome is NotImplemented else outcome

    return both


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
