"""What every mechanism is: private scores in, one release out, and a price that looks at no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import DpEvent
from sottovoce.randomness import Randomness
from sottovoce.registry import Registry


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
