"""A record of what a fitter draws: every mechanism's release is noted, or answered from a list.

While a tape runs, the registered mechanisms hand their releases through it, and runs of threshold tests each of their
answers. So the contract sees which bounds they are told, can compare what they are given in neighbouring worlds, and
can let the same release come in all of them.

Guarantee   A draw by anything but a registered mechanism is not noted. It shows in a support that differs between
            worlds of which every noted draw is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache, wraps
from operator import itemgetter
from typing import Any, Final, final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sottovoce.mechanisms.above_threshold import ThresholdRun
from sottovoce.mechanisms.base import Mechanism, registered
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.randomness import Randomness
from sottovoce.testing.constructions import construction_of
from sottovoce.testing.fingerprints import fingerprint
from sottovoce.testing.releases import release_of

AGGREGATES: Final = (Scores, VectorSum, Counts, ItemCounts)
_OWN: Final[dict[tuple[Any, ...], Mechanism]] = {}
"""Mechanisms that drew while a tape ran and are not the package's registered ones: for every adjacency that they drew
under one of each kind of parameters."""


@final
@dataclass(frozen=True)
class ThresholdTest:
    """One test of a run: which run, and what was asked of it before.

    Attributes:
        run: Number of the run among those that were started.
        threshold: Of the run. Public.
        sensitivity: That the run was told.
        queries: True counts of the run's tests so far, this one last. Private.
        yeses: How often the run said yes before this test: 0 in a run that ends with its first yes.
    """

    run: int
    threshold: int
    sensitivity: int
    queries: tuple[int, ...]
    yeses: int = 0


@final
@dataclass(frozen=True, eq=False)
class Draw:
    """One release of a mechanism: an outcome, or an answer of a run of threshold tests.

    Attributes:
        mechanism: That drew.
        aggregate: What it drew from. Private.
        public: What it was told besides, such as a prior.
        outcome: What it released.
        test: Of a threshold test; ``None`` for every other draw.
    """

    mechanism: Any
    aggregate: Any
    public: tuple[Any, ...]
    outcome: Any
    test: ThresholdTest | None = None


Teller = Callable[[int, Draw], Any]
"""The release of a draw, by its number; the draw has no outcome yet. ``NotImplemented``: it is drawn."""


@final
class WrongDrawError(Exception):
    """A draw that a contract forbids; the message says which."""


@final
class Tape:
    """What one fit asked for and drew.

    Args:
        randomness: That the fit is given.
        told: Says what every draw releases; ``None`` for real draws.
        noise: Source of what is drawn, so that other uses of ``randomness`` do not shift with it; by default the same.

    Attributes:
        draws: In order, answers of threshold tests among them.
        trace: Everything that may depend on earlier releases and public inputs alone: what was asked for, which
            mechanisms drew, and their bounds.
        rules: Rules of the sums that were asked for.
        others: Mechanisms that drew from something else than an aggregate: those that started a run of threshold tests,
            in order; once more where a run goes on after a yes.
        made: What the entry made of it in the end, where that was noted.
    """

    def __init__(
        self,
        randomness: Randomness,
        told: Teller | None = None,
        *,
        noise: Randomness | None = None,
    ) -> None:
        self.randomness, self._told, self._inside = randomness, told, False
        self._noise = noise or randomness
        self._runs: dict[int, _Run] = {}
        self._known = set[type[Any]]()
        self.draws: list[Draw] = []
        self.trace: list[tuple[str, Any]] = []
        self.rules: list[Any] = []
        self.others: list[Any] = []
        self.made = ""

    @property
    def told(self) -> Any:
        """All that was asked for, that mechanisms were given and told, and that they released, to be compared."""
        draws = [(draw.mechanism, draw.aggregate, draw.public, draw.outcome, draw.test) for draw in self.draws]
        return self.trace, fingerprint(draws)

    def asked(self, what: str, content: Any) -> None:
        """Notes that the private side was asked."""
        if what == "a sum":
            self.rules.append(content)
        self.trace.append((what, fingerprint(content)))

    def draw(self, real: Callable[..., Any], mechanism: Any, aggregate: Any, *given: Any) -> Any:
        """One release, noted."""
        if self._inside:
            return real(mechanism, aggregate, *given)
        self._require_source(mechanism, given)
        public = tuple(part for part in given if not self._is_source(part))

        def drawn() -> Any:
            if type(mechanism) in self._known or not needs_noise(aggregate):
                return real(mechanism, aggregate, *map(self.noise_for, given))
            self._known.add(type(mechanism))
            noise = _Asked(self._noise)
            outcome = real(mechanism, aggregate, *(noise if self._is_source(part) else part for part in given))
            if not noise.asked:
                raise WrongDrawError(f"{mechanism!r} draws without a question to the source of noise that it is given")
            return outcome

        outcome = self._released(Draw(mechanism, aggregate, public, None), drawn)
        self.trace.append(("a draw", (fingerprint(mechanism), fingerprint(public), _bounds(aggregate))))
        return outcome

    def started(self, real: Callable[..., Any], mechanism: Any, *given: Any, **named: Any) -> Any:
        """What draws from something else than an aggregate, such as the start of a run of threshold tests."""
        self.others.append(mechanism)
        if self._inside or not starts_runs(mechanism.__class__):
            return real(mechanism, *map(self.noise_for, given), **_mapped(named, self.noise_for))
        self._require_source(mechanism, (*given, *named.values()))
        run = real(mechanism, *map(self.noise_for, given), **_mapped(named, self.noise_for))
        if getattr(type(run), "above", None) is not ThresholdRun.above:
            answers = "answers tests by a method of its own, which nothing notes"
            raise WrongDrawError(f"{type(run).__name__}, a run of {mechanism!r}, {answers}: let it be a ThresholdRun")
        threshold = int(given[0] if given else named.get("threshold", 0))
        number = len(self._runs)
        self._runs[id(run)] = _Run(run, mechanism, number, threshold)
        told = (fingerprint(mechanism), threshold, run.sensitivity, run.adjacency)
        self.trace.append(("a run", told))
        return run

    def test(self, real: Callable[..., bool], run: ThresholdRun, query: Counts) -> bool:
        """One answer of a threshold test, noted."""
        if self._inside:
            return real(run, query)
        kept = self._runs.get(id(run))
        if kept is None:
            raise WrongDrawError(f"{run!r} was started by no mechanism, or before anything could be drawn")
        if run.over or query.values.size != 1:
            return real(run, query)
        queries = (*kept.queries, int(query.values[0]))
        test = ThresholdTest(kept.number, kept.threshold, run.sensitivity, queries, kept.yeses)
        if kept.said_yes:
            self.others.append(kept.mechanism)
        noted = Draw(kept.mechanism, query, (), None, test)
        run.over = kept.said_yes = self._released(noted, lambda: real(run, query))
        kept.queries, kept.yeses = queries, kept.yeses + run.over
        self.trace.append(("a test", (kept.number, _bounds(query))))
        return run.over

    def _released(self, noted: Draw, drawn: Callable[[], Any]) -> Any:
        """The release of a draw: what is told, or what is drawn; noted."""
        outcome = NotImplemented if self._told is None else self._told(len(self.draws), noted)
        if outcome is NotImplemented:
            self._inside = True
            try:
                outcome = drawn()
            finally:
                self._inside = False
        self.draws.append(replace(noted, outcome=outcome))
        return outcome

    def _require_source(self, mechanism: Any, given: Sequence[Any]) -> None:
        if not any(map(self._is_source, given)):
            raise WrongDrawError(f"{mechanism!r} draws from another source of noise than the one that is given")

    def _is_source(self, given: Any) -> bool:
        """Whether it is the source that the entry was given, or that its mechanism was: one may draw by another."""
        return given is self.randomness or given is self._noise

    def noise_for(self, given: Any) -> Any:
        """What a mechanism is handed in place of the entry's own source."""
        return self._noise if given is self.randomness else given


@final
class _Asked:
    """A source of noise that notes whether it was asked."""

    def __init__(self, source: Randomness) -> None:
        self._source, self.asked, self.secure = source, False, source.secure

    def below(self, bound: int) -> int:
        self.asked = True
        return self._source.below(bound)


def needs_noise(aggregate: Any) -> bool:
    """Whether a release of it is no foregone conclusion: one candidate, or no item, is."""
    return not isinstance(aggregate, ItemCounts) and (not isinstance(aggregate, Scores) or len(aggregate.values) > 1)


@final
@dataclass
class _Run:
    """A run of threshold tests, which is held so that no other has its identity."""

    run: ThresholdRun
    mechanism: Any
    number: int
    threshold: int
    queries: tuple[int, ...] = ()
    yeses: int = 0
    said_yes: bool = False


@contextmanager
def running(tape: Tape) -> Iterator[None]:
    """Hands what the registered mechanisms release through a tape."""
    kept = [(cls, name, getattr(cls, name)) for cls, name in _releases()]
    above = ThresholdRun.above
    try:
        for cls, name, method in kept:
            setattr(cls, name, _through(tape, method))
        ThresholdRun.above = _answering(tape, above)  # type: ignore[method-assign]
        yield
    finally:
        for cls, name, method in kept:
            setattr(cls, name, method)
        ThresholdRun.above = above  # type: ignore[method-assign]


def _releases() -> Sequence[tuple[type[Mechanism], str]]:
    """The registered mechanisms, each with the method that draws."""
    return _drawing(tuple(cls for cls, _ in registered().values()))


@cache
def _drawing(mechanisms: tuple[type[Mechanism], ...]) -> Sequence[tuple[type[Mechanism], str]]:
    return [(cls, name) for cls in mechanisms if (name := release_of(cls)[0])]


@cache
def _shipped() -> frozenset[type[Mechanism]]:
    """The registered mechanisms of the package, which have contracts of their own in its tests."""
    return frozenset(cls for cls, _ in registered().values() if cls.__module__.startswith("sottovoce."))


def own_mechanisms() -> dict[type[Mechanism], list[Mechanism]]:
    """Mechanisms that drew since this was asked last and whose contract nothing else checks, by their class: for every
    adjacency that it drew under, in turn, one of each word, truth, choice and whole number that it was made with."""
    ranks, found = Counter[tuple[Any, ...]](), dict[type[Mechanism], list[tuple[int, Mechanism]]]()
    for (kind, relation, *_), mechanism in _OWN.items():
        found.setdefault(kind, []).append((ranks[kind, relation], mechanism))
        ranks[kind, relation] += 1
    _OWN.clear()
    return {kind: [each for _, each in sorted(ranked, key=itemgetter(0))] for kind, ranked in found.items()}


def is_noted(mechanism: Any) -> bool:
    """Whether a tape notes what a mechanism releases: it is registered, or draws as a registered one does."""
    return any(
        isinstance(mechanism, cls) and getattr(type(mechanism), name) is getattr(cls, name) for cls, name in _releases()
    )


@cache
def starts_runs(mechanism: type[Mechanism]) -> bool:
    """Whether a mechanism starts runs of threshold tests."""
    return release_of(mechanism)[1] is int


def _through(tape: Tape, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def noted(mechanism: Any, *given: Any, **named: Any) -> Any:
        first, *others = (*given, *named.values())
        if type(mechanism) not in _shipped():
            relation = getattr(first, "adjacency", named.get("adjacency"))
            _OWN.setdefault((type(mechanism), relation, *_made_with(mechanism)), mechanism)
        if not isinstance(first, AGGREGATES):
            return tape.started(method, mechanism, *given, **named)
        return tape.draw(method, mechanism, first, *others)

    return noted


def _made_with(mechanism: Mechanism) -> Iterator[tuple[str, Any]]:
    """What a mechanism is made with, without fractional numbers, of which a price is made."""
    known = {**construction_of(mechanism)[0].arguments, **getattr(mechanism, "__dict__", {})}
    for name, value in known.items():
        yield name, _without_fractions(value)


def _without_fractions(value: Any) -> Any:
    if isinstance(value, bool | int | str | Enum | None):
        return value
    if type(value) in (tuple, list):
        return (type(value), *map(_without_fractions, value))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value), *(_without_fractions(getattr(value, each.name, None)) for each in fields(value)))
    return type(value)


def _answering(tape: Tape, above: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(above)
    def noted(run: ThresholdRun, query: Counts) -> bool:
        return tape.test(above, run, query)

    return noted


def _mapped(named: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: change(part) for name, part in named.items()}


def numbers_of(aggregate: Any) -> NDArray[np.float64]:
    """What a mechanism draws from, as numbers that are equal for equal aggregates: items as a digest, then a count."""
    if isinstance(aggregate, ItemCounts):
        items = sorted(aggregate.counts.items())
        return np.array([part for item, n in items for part in (crc32(item.encode()), n)], dtype=np.float64)
    return np.asarray(aggregate.values, dtype=np.float64).ravel()


def _bounds(aggregate: Any) -> Any:
    """What a mechanism is told of its aggregate."""
    names = [name for name in type(aggregate).__slots__ if name not in ("values", "counts")]
    size = len(aggregate.values) if hasattr(aggregate, "values") else None
    return type(aggregate).__name__, size, tuple((name, repr(getattr(aggregate, name))) for name in names)
