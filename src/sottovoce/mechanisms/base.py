"""What every mechanism is: private scores in, one release out, and a price that looks at no data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import DpEvent
from sottovoce.randomness import Randomness
from sottovoce.registry import Registry

FloatArray = NDArray[np.float64]
LEAST: Final = 1e-200
"""A smaller probability in floating point is one that is not known: laws underflow where nothing is impossible."""


def log_law(law: Sequence[Fraction] | Sequence[float] | FloatArray) -> FloatArray:
    """Natural logs of probabilities, without underflow where they are fractions. For tests and audits only.

    One in floating point below ``LEAST`` is taken for ``LEAST``, in either world. That makes two laws closer than they
    are, never further apart, so that what underflows is no proof; an outcome that is impossible in one world alone is
    still hundreds of nats off. A fraction of 0 is impossible.

    Example:
        >>> log_law([0.5, 1e-320]).round(1).tolist(), log_law([Fraction(1), Fraction(0)]).tolist()
        ([-0.7, -460.5], [0.0, -inf])
    """
    if isinstance(law, np.ndarray):
        return np.asarray(np.log(np.maximum(law, LEAST)))
    return np.array([_log(p) for p in law])


def _log(p: Fraction | float) -> float:
    if not isinstance(p, Fraction):
        return math.log(max(float(p), LEAST))
    return math.log(p.numerator) - math.log(p.denominator) if p > 0 else -math.inf


class Mechanism(ABC):
    """Adds noise to something private. The price is fixed by parameters; the noise follows from the stated bound."""

    @property
    @abstractmethod
    def event(self) -> DpEvent:
        """What the ledger is charged for one release; a function of parameters alone."""


class SelectionMechanism(Mechanism):
    """Chooses one candidate from private scores.

    The law is stated beside the sampler, so that the contract tests can ask both questions: is the stated law private,
    and does the sampler follow it.
    """

    @abstractmethod
    def law(self, scores: Scores) -> Sequence[Fraction] | Sequence[float]:
        """Probability of each candidate; exact fractions where the law has them. For tests and audits only."""

    def log_law(self, scores: Scores) -> FloatArray:
        """Natural logs of ``law``, shape (candidates,). One whose floats underflow early works them out by itself."""
        return log_law(self.law(scores))

    @abstractmethod
    def select(self, scores: Scores, randomness: Randomness) -> int:
        """Draws the index of one candidate."""


_MECHANISMS = Registry[tuple[type[Mechanism], Mapping[str, Any]]]("mechanism", "sottovoce.mechanisms")
M = TypeVar("M", bound=type[Mechanism])


def register(name: str, **example: Any) -> Callable[[M], M]:
    """Enrols a mechanism in the contract tests and in ``sotto methods``, with example arguments."""

    def enrol(cls: M) -> M:
        _MECHANISMS.enter(name, (cls, example))
        return cls

    return enrol


def registered() -> dict[str, tuple[type[Mechanism], Mapping[str, Any]]]:
    """Every mechanism of this folder by name, with its example arguments."""
    return _MECHANISMS.all()
