"""A record of what a fitter draws: every mechanism's release is noted, or answered from a list.

While a tape runs, the registered mechanisms hand their releases through it. So the contract sees which bounds they are
told, can compare what they are given in neighbouring worlds, and can let the same release come in all of them.

Guarantee   A draw by anything but a registered mechanism is not noted. It shows in a support that differs between
            worlds of which every noted draw is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from inspect import isfunction
from typing import Any, Final, final

import numpy as np

from sottovoce.mechanisms.above_threshold import AboveThreshold, ThresholdRun
from sottovoce.mechanisms.base import Mechanism, registered
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import Opaque
from sottovoce.testing.mechanisms import release_of

AGGREGATES: Final = (Scores, VectorSum, Counts, ItemCounts)


@final
@dataclass(frozen=True)
class Draw:
    """One release of a mechanism.

    Attributes:
        mechanism: That drew.
        aggregate: What it drew from. Private.
        public: What it was told besides, such as a prior.
        outcome: What it released.
    """

    mechanism: Any
    aggregate: Any
    public: tuple[Any, ...]
    outcome: Any


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
        answered: What the first threshold tests answer; further ones are drawn.
        noise: Source of what is drawn, so that other uses of ``randomness`` do not shift with it; by default the same.

    Attributes:
        draws: In order.
        trace: Everything that may depend on earlier releases and public inputs alone: what was asked for, which
            mechanisms drew, and their bounds.
        rules: Rules of the sums that were asked for.
        others: Mechanisms that drew from something else than an aggregate, such as a run of threshold tests.
        answers: Of threshold tests, in order.
        tests: Threshold tests, in order: the run that drew, and the query.
    """

    def __init__(
        self,
        randomness: Randomness,
        told: Teller | None = None,
        *,
        answered: Sequence[bool] = (),
        noise: Randomness | None = None,
    ) -> None:
        self.randomness, self._told, self._inside = randomness, told, False
        self._answered, self._noise = answered, noise or randomness
        self.draws: list[Draw] = []
        self.trace: list[tuple[str, Any]] = []
        self.rules: list[Any] = []
        self.others: list[Any] = []
        self.answers: list[bool] = []
        self.tests: list[Draw] = []

    def asked(self, what: str, content: Any) -> None:
        """Notes that the private side was asked."""
        if what == "a sum":
            self.rules.append(content)
        self.trace.append((what, fingerprint(content)))

    def draw(self, real: Callable[..., Any], mechanism: Any, aggregate: Any, *given: Any) -> Any:
        """One release, noted."""
        if self._inside:
            return real(mechanism, aggregate, *given)
        if not any(part is self.randomness for part in given):
            raise WrongDrawError(f"{mechanism!r} draws from another source of noise than the one that is given")
        public = tuple(part for part in given if part is not self.randomness)
        noted = Draw(mechanism, aggregate, public, None)
        outcome = NotImplemented if self._told is None else self._told(len(self.draws), noted)
        if outcome is NotImplemented:
            self._inside = True
            try:
                outcome = real(mechanism, aggregate, *map(self.noise_for, given))
            finally:
                self._inside = False
        self.draws.append(Draw(mechanism, aggregate, public, outcome))
        self.trace.append(("a draw", (fingerprint(mechanism), fingerprint(public), _bounds(aggregate))))
        return outcome

    def noise_for(self, given: Any) -> Any:
        """What a mechanism is handed in place of the entry's own source."""
        return self._noise if given is self.randomness else given

    def test(self, real: Callable[..., bool], run: ThresholdRun, query: Counts) -> bool:
        """One answer of a threshold test, noted."""
        if len(self.answers) < len(self._answered):
            run.over = answer = self._answered[len(self.answers)]
        else:
            answer = real(run, query)
        self.answers.append(answer)
        self.tests.append(Draw(run, query, (), answer))
        return answer


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


@cache
def _releases() -> Sequence[tuple[type[Mechanism], str]]:
    """The registered mechanisms, each with the method that draws."""
    return [(cls, name) for cls, _ in registered().values() if (name := release_of(cls)[0])]


def is_noted(mechanism: Any) -> bool:
    """Whether a tape notes what a mechanism releases: it is registered, or draws as a registered one does."""
    return any(
        isinstance(mechanism, cls) and getattr(type(mechanism), name) is getattr(cls, name) for cls, name in _releases()
    )


def _through(tape: Tape, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def noted(mechanism: Any, aggregate: Any, *given: Any, **named: Any) -> Any:
        if not isinstance(aggregate, AGGREGATES):
            tape.others.append(mechanism)
            if isinstance(mechanism, AboveThreshold):
                public = [part for part in (*given, *named.values()) if part is not tape.randomness]
                tape.trace.append(("a run of tests", fingerprint((mechanism, aggregate, public))))
            named = {name: tape.noise_for(part) for name, part in named.items()}
            return method(mechanism, aggregate, *map(tape.noise_for, given), **named)
        return tape.draw(method, mechanism, aggregate, *given, *named.values())

    return noted


def _answering(tape: Tape, above: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(above)
    def noted(run: ThresholdRun, query: Counts) -> bool:
        return tape.test(above, run, query)

    return noted


def _bounds(aggregate: Any) -> Any:
    """What a mechanism is told of its aggregate."""
    names = [name for name in type(aggregate).__slots__ if name not in ("values", "counts")]
    size = len(aggregate.values) if hasattr(aggregate, "values") else None
    return type(aggregate).__name__, size, tuple((name, repr(getattr(aggregate, name))) for name in names)


def fingerprint(value: Any) -> Any:
    """Something that is equal for equal values, arrays and rules among them."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple((f.name, fingerprint(getattr(value, f.name))) for f in fields(value))
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), fingerprint(part)) for key, part in value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(fingerprint(part) for part in value)
    if isfunction(value):
        return value.__qualname__, fingerprint([cell.cell_contents for cell in value.__closure__ or ()])
    if (held := _held(value)) is not None:
        return type(value).__name__, fingerprint(held)
    return repr(value)


def _held(value: Any) -> Mapping[str, Any] | None:
    """The attributes of an object whose words do not say what it holds; ``None`` for one whose words do."""
    if not isinstance(value, Opaque) and getattr(type(value), "__repr__", None) != object.__repr__:
        return None
    names = [
        *getattr(value, "__dict__", ()),
        *(n for cls in type(value).__mro__ for n in getattr(cls, "__slots__", ())),
    ]
    return {name: getattr(value, name, None) for name in names}
