"""The same releases once more, in another world.

Guarantee   Two answers of the same releases, tests and own coins differ by what is private and reaches them through no
            registered mechanism.
Assumes     Coins of an entry's own are the same in two worlds where as many are thrown, of the same kinds.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, final

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


class Asked(NamedTuple):
    """A release that says yes or no, with its number among all."""

    number: int
    draw: Draw


@final
@dataclass(frozen=True)
class Way:
    """What is told of releases that say yes or no; everything else is drawn.

    Attributes:
        first: What the first of them say, one after another, each with its kind: where another kind comes up, behind
            another draw, it says yes or no as well.
        alike: What all of a kind say behind those: yes, so that a set passes, or no.
        finer: Whether kinds of sets differ by the number of candidates, too.
    """

    first: tuple[tuple[Any, Any], ...] = ()
    alike: tuple[tuple[tuple[int, ...], bool], ...] = ()
    finer: bool = False

    @property
    def teller(self) -> Teller | None:
        """Tells it, in one run after another; ``None`` where there is nothing to tell."""
        if not self.first and not self.alike:
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
                return outcome if same == _asked_kind(draw) else answered(draw, outcome not in (None, False))
            answer = alike.get(_alike_kind(draw, finer=self.finer))
            if answer is None or asked > FORCED:
                return NotImplemented
            return answered(draw, answer)

        return told


def answered(draw: Draw, answer: bool) -> Any:
    """What a test says that is answered so, or a set: what leads passes, or nothing."""
    if draw.test is not None:
        return answer
    return _leading(draw.aggregate.values, draw.mechanism.k) if answer else None


def _leading(values: Any, count: int) -> tuple[int, ...]:
    return tuple(sorted(np.argsort(-values, kind="stable")[:count].tolist()))


FORCED: Final = 200
"""Questions of one run from which on none is answered alike: an entry may ask until it has another answer."""
FEW_ASKED: Final = 4
"""Of so many questions every answer is tried; of more, first and last ones otherwise, and all of a kind alike."""
ROOM: Final = 32
"""Ways of one round that are tried at most: all answers to four questions and the last one otherwise behind each, or
all that are told of four kinds, one after another."""
ROOM_BUT_ONE: Final = 48
"""Ways in which all but one are alike: three behind each that is told of four kinds."""
LESS_ROOM: Final = 16
"""Ways of a round that tells kinds behind first answers."""


@final
class Ways:
    """The ways in which tests and sets of an entry can come out, the likely and the unlikely ones.

    The first is the way that is drawn. Then there are rounds, none of which takes room from another:

    1. the first questions one by one, and the last one otherwise where there are more;
    2. kinds, all of which say yes or no: tests, and sets by how many they hold;
    3. the same with the first, the second or the last question otherwise, where there are more than a few;
    4. kinds behind each of the first answers;
    5. as 2 and 4 with finer kinds, where sets of one size are among different numbers of candidates.

    Behind every answer that is told there may be a question that nobody asked before. So answers are told one after
    another, in the order in which questions, or kinds, come up: each round is a tree, and whole where its room is
    enough.
    """

    def __init__(self) -> None:
        self._questions, self._last, self._but_one = deque[Way](), deque[Way](), deque[Way]()
        self._of_kinds = {key: deque[Way]() for key in itertools.product((False, True), repeat=2)}
        self._known, self._answered = set[Way](), list[tuple[Way, list[Asked]]]()
        self._candidates, self._is_finer, self._longest = dict[int, int](), False, 0

    def __iter__(self) -> Iterator[Way]:
        yield Way()
        for room, *waiting in self._rounds():
            for _ in range(room):
                if not any(waiting):
                    break
                yield next(filter(None, waiting)).popleft()

    def _rounds(self) -> Iterator[tuple[int, *tuple[deque[Way], ...]]]:
        yield ROOM, self._questions, self._last
        yield ROOM, self._of_kinds[False, False]
        if self._longest > FEW_ASKED:
            yield ROOM_BUT_ONE, self._but_one
        yield LESS_ROOM, self._of_kinds[False, True]
        yield ROOM, self._of_kinds[True, False]
        yield LESS_ROOM, self._of_kinds[True, True]

    def saw(self, way: Way, tapes: Sequence[Tape]) -> None:
        """Notes what a way led to.

        Args:
            way: The way.
            tapes: Of all worlds, the first of which is asked.
        """
        asked = [Asked(number, draw) for number, draw in enumerate(tapes[0].draws) if is_asked(draw)]
        self._longest = max(self._longest, len(asked))
        for _, draw in asked:
            if draw.test is None:
                size, candidates = _alike_kind(draw, finer=True)
                self._is_finer |= self._candidates.setdefault(size, candidates) != candidates
        self._by_kinds(way, asked, tapes)
        if not way.alike:
            self._one_by_one(way, asked, tapes)
            self._answered.append((way, asked))
        if self._is_finer:
            for one, its in self._answered:
                self._by_kinds(replace(one, finer=True), its, ())

    def _one_by_one(self, way: Way, asked: Sequence[Asked], tapes: Sequence[Tape]) -> None:
        for at in range(len(way.first), min(len(asked), FEW_ASKED)):
            self._but_at(way, asked, at, tapes, self._questions)
        if len(asked) > max(FEW_ASKED, len(way.first)):
            self._but_at(way, asked, len(asked) - 1, tapes, self._last)

    def _by_kinds(self, way: Way, asked: Sequence[Asked], tapes: Sequence[Tape]) -> None:
        """The next kind that comes up says yes, or no; where all of it does by itself, the one after it does."""
        told, yes, behind = dict(way.alike), dict[tuple[int, ...], set[bool]](), asked[len(way.first) :]
        if way.first and len(behind) < 2:
            return
        for _, draw in behind:
            yes.setdefault(_alike_kind(draw, finer=way.finer), set()).add(draw.outcome not in (None, False))
        kind_of_all = next((each for each in yes if each not in told), None)
        if kind_of_all is not None:
            for answer in (True, False):
                more = replace(way, alike=(*way.alike, (kind_of_all, answer)))
                if yes[kind_of_all] == {answer}:
                    self._by_kinds(more, asked, tapes)
                else:
                    self._add(more, self._of_kinds[way.finer, bool(way.first)])
        elif not way.finer and not way.first:
            for at in sorted({0, 1, len(asked) - 1} & {*range(len(asked))}):
                self._but_at(way, asked, at, tapes, self._but_one)

    def _but_at(self, way: Way, asked: Sequence[Asked], at: int, tapes: Sequence[Tape], waiting: deque[Way]) -> None:
        """The same answers up to a question, and there another one."""
        said = tuple((_asked_kind(draw), draw.outcome) for _, draw in asked[:at])
        number, draw = asked[at]
        for other in _otherwise(number, draw, tapes):
            self._add(replace(way, first=(*said, (_asked_kind(draw), other))), waiting)

    def _add(self, way: Way, waiting: deque[Way]) -> None:
        if way not in self._known:
            self._known.add(way)
            waiting.append(way)


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


def ways_of(seeds: int) -> Iterator[tuple[int, Ways, Way]]:
    """All ways at one seed after another: what comes up behind an answer may follow from the seed."""
    for seed in range(seeds):
        for way in (ways := Ways()):
            yield seed, ways, way


def replayed(made: Callable[[int, Teller | None], tuple[list[Tape], list[int]]]) -> Iterator[list[Tape]]:
    """Tapes of the same worlds: as they are drawn, with tests and sets that come out otherwise, and with other coins.

    Args:
        made: Makes the tapes from a seed of the entry's own coins and what is told; says which coins were thrown.
    """
    threw = False
    for seed, ways, way in ways_of(OWN_COINS):
        if seed and not threw:
            return
        tapes, thrown = made(seed, way.teller)
        yield tapes
        ways.saw(way, tapes)
        threw |= bool(thrown)


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
