"""The same releases once more, in another world.

Guarantee   Two answers of the same releases, tests and own coins differ by what is private and reaches them through no
            registered mechanism.
Assumes     Coins of an entry's own are the same in two worlds where as many are thrown, of the same kinds.
"""

from __future__ import annotations

from collections import Counter, deque
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
        alike: What all tests say behind those, or all sets of one size, or of one size among so many candidates: yes,
            so that a set passes, or no. Of others it is drawn.
    """

    first: tuple[tuple[Any, Any], ...] = ()
    alike: tuple[tuple[tuple[int, ...], bool], ...] = ()

    @property
    def teller(self) -> Teller | None:
        """Tells it, in one run after another; ``None`` where there is nothing to tell."""
        if self == Way():
            return None
        last, asked, alike = -1, 0, dict(self.alike)

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
            answer = alike.get(_alike_kind(draw, finer=True), alike.get(_alike_kind(draw)))
            if answer is None or asked > FORCED:
                return NotImplemented
            return answered(draw, answer)

        return told

    @property
    def finer(self) -> bool:
        """Whether sets are told apart by their candidates."""
        return any(len(kind_of_all) > 1 for kind_of_all, _ in self.alike)


def answered(draw: Draw, answer: bool) -> Any:
    """What a test says that is answered so, or a set: what leads passes, or nothing."""
    if draw.test is not None:
        return answer
    return _leading(draw.aggregate.values, draw.mechanism.k) if answer else None


def _leading(values: Any, count: int) -> tuple[int, ...]:
    return tuple(sorted(np.argsort(-values, kind="stable")[:count].tolist()))


FORCED: Final = 200
"""Questions of one run from which on none is answered alike: an entry may ask until it has another answer."""
MOST_WAYS: Final = 12
"""Ways of one round that differ and are tried at most: all that three questions can be answered, and their coins."""
MOST_FINER: Final = 3
"""Numbers of candidates that sets of one size are told apart by as well."""
FEW_ASKED: Final = 3
"""Of so many questions every answer is tried; of more, the first two and the last otherwise, and all of a kind
alike."""


@final
class Ways:
    """Every way in which tests and sets of an entry can come out, the likely and the unlikely ones.

    Behind every answer that was told there may be a question that nobody had asked before, so that ways come up as
    others are tried. Each of three rounds has room of its own, and none takes it from another: the way that is drawn,
    those in which all of a kind are answered alike, and some that tell the first questions otherwise; of these last
    the ones that tell nothing else; and those that tell sets apart by their candidates.
    """

    def __init__(self) -> None:
        self._alike, self._others, self._finer = deque([Way()]), deque[Way](), deque[Way]()
        self._known, self._met = {Way()}, set[tuple[Any, ...]]()
        self._heard, self._thrown = set[tuple[Any, ...]](), set[Way]()

    def __iter__(self) -> Iterator[Way]:
        for waiting in (self._alike_first, self._first_alone, self._told_apart):
            before = len(self._heard) + len(self._thrown)
            for _ in range(2 * MOST_WAYS):  # one that leads to nothing new makes room for another
                if len(self._heard) + len(self._thrown) >= before + MOST_WAYS or not (ways := waiting()):
                    break
                yield ways.popleft()

    def _alike_first(self) -> deque[Way]:
        return self._alike or self._others

    def _first_alone(self) -> deque[Way]:
        """Of the others those that tell the first questions and nothing else."""
        self._others = deque(way for way in self._others if not way.alike)
        return self._others

    def _told_apart(self) -> deque[Way]:
        return self._finer

    def saw(self, way: Way, tapes: Sequence[Tape], *, thrown: bool) -> None:
        """Notes what a way led to.

        Args:
            way: The way.
            tapes: Of all worlds, the first of which is asked.
            thrown: Whether the entry threw coins of its own: behind others, other questions come up.
        """
        asked = [(number, draw) for number, draw in enumerate(tapes[0].draws) if is_asked(draw)]
        said = tuple((_asked_kind(draw), draw.outcome) for _, draw in asked)
        if thrown:
            self._thrown.add(way)
        elif said in self._heard:
            return
        else:
            self._heard.add(said)
            if not way.alike:
                self._met |= {said[:length] for length in range(len(said) + 1)}
        behind: Sequence[int] = range(len(way.first), len(asked))
        if len(behind) > 1:
            self._all_alike(way, [draw for _, draw in asked[len(way.first) :]], thrown=thrown)
        if len(behind) > FEW_ASKED:
            behind = sorted({behind[0], behind[1], behind[-1]})
        for at in behind:
            number, draw = asked[at]
            for other in _otherwise(number, draw, tapes):
                self._add(replace(way, first=(*said[:at], (said[at][0], other))), thrown=thrown)

    def _all_alike(self, way: Way, draws: Sequence[Draw], *, thrown: bool) -> None:
        """All of a kind say yes, and all no, where they do not by themselves."""
        kinds = dict.fromkeys(map(_alike_kind, draws))
        if not way.first and way.finer == bool(way.alike):
            kinds = dict.fromkeys(_finer_kinds(draws)) | kinds
        for kind_of_all in kinds:
            if kind_of_all in dict(way.alike):
                continue
            finer = len(kind_of_all) > 1
            yes = [draw.outcome not in (None, False) for draw in draws if _alike_kind(draw, finer=finer) == kind_of_all]
            for answer in (True, False):
                if thrown or yes.count(answer) < len(yes):
                    self._add(replace(way, alike=(*way.alike, (kind_of_all, answer))), thrown=True)

    def _add(self, way: Way, *, thrown: bool) -> None:
        if way in self._known or (not thrown and not way.alike and way.first in self._met):
            return
        self._known.add(way)
        (self._finer if way.finer else self._others if way.first else self._alike).append(way)


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
        yield _leading(np.sum(values, axis=0), draw.mechanism.k)


def _is_there(number: int, draw: Draw, tape: Tape) -> bool:
    return number < len(tape.draws) and kind(tape.draws[number]) == kind(draw)


def _asked_kind(draw: Draw) -> tuple[Any, ...]:
    """What must be the same for an answer to be told: a set holds so many of so many candidates."""
    return (*kind(draw), draw.test is not None, getattr(draw.mechanism, "k", None))


def _alike_kind(draw: Draw, *, finer: bool = False) -> tuple[int, ...]:
    """What is answered alike: all tests (nothing), and sets by how many they hold, or finer of how many candidates."""
    if draw.test is not None:
        return ()
    return (int(draw.mechanism.k), len(draw.aggregate.values))[: 1 + finer]


def _finer_kinds(draws: Sequence[Draw]) -> Iterator[tuple[int, ...]]:
    """Sets by how many they hold and of how many candidates, where these are a few different numbers."""
    found = dict.fromkeys(_alike_kind(draw, finer=True) for draw in draws if draw.test is None)
    sizes = Counter(size for size, _ in found)
    return (kind_of_all for kind_of_all in found if 1 < sizes[kind_of_all[0]] <= MOST_FINER)


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
