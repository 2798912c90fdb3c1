"""What a method is: which context its experts see, how their outputs become scores, which mechanism chooses."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.experts.outputs import ExpertOutputs
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.numbers import require_delta, require_epsilon
from sottovoce.privacy.scores import Scores
from sottovoce.randomness import Randomness


@final
@dataclass(frozen=True)
class Price:
    """What one answer may cost.

    Attributes:
        epsilon: Of one answer.
        delta: Of one answer; only methods with Gaussian noise use it.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        object.__setattr__(self, "delta", require_delta(self.delta))


class Reads(Enum):
    """Which private records a method's contexts hold."""

    NOTHING = "no private record"
    ONE_EXPERT_EACH = "each expert its own units"
    EVERYTHING = "all records in one context"


class Method(ABC):
    """A way to answer from private examples."""

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    private: ClassVar[bool] = True
    """Whether its answers have a guarantee."""
    reads: ClassVar[Reads] = Reads.ONE_EXPERT_EACH
    needs: ClassVar[str] = "LabelScorer"

    @abstractmethod
    def event(self, price: Price) -> DpEvent:
        """What one answer costs, from parameters alone."""

    @abstractmethod
    def choose(self, experts: ExpertOutputs, price: Price, randomness: Randomness) -> int:
        """Draws the index of the released label."""


class Selecting(Method):
    """A method that lets one selection mechanism choose from scores: everything private about it is these two."""

    @abstractmethod
    def mechanism(self, price: Price) -> SelectionMechanism:
        """The mechanism at this price."""

    @abstractmethod
    def scores(self, experts: ExpertOutputs) -> Scores:
        """The experts' outputs as scores with their sensitivity."""

    @final
    def event(self, price: Price) -> DpEvent:
        return self.mechanism(price).event

    @final
    def choose(self, experts: ExpertOutputs, price: Price, randomness: Randomness) -> int:
        return self.mechanism(price).select(self.scores(experts), randomness)


_REGISTRY: dict[str, type[Method]] = {}
T = TypeVar("T", bound=type[Method])


def register_method(name: str, *, summary: str, source: str) -> Callable[[T], T]:
    """Enrols a method under its published name, for ``--method`` and ``sotto methods``."""

    def enrol(cls: T) -> T:
        if name in _REGISTRY:
            raise ParameterError("method", name, "a name that is not taken")
        if cls.private and cls.reads is Reads.EVERYTHING:
            raise ParameterError(
                "method", name, "one whose experts hold their own units: one context has no change type"
            )
        cls.name, cls.summary, cls.source = name, summary, source
        _REGISTRY[name] = cls
        return cls

    return enrol


def registered_methods() -> dict[str, type[Method]]:
    """Every method of this folder by name. The folder is scanned; no list is edited."""
    package = importlib.import_module("sottovoce.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_REGISTRY.items()))


def make_method(name: str, **options: object) -> Method:
    """Builds a method by name.

    Raises:
        ParameterError: There is no such method, or it has no such option.
    """
    methods = registered_methods()
    if name not in methods:
        raise ParameterError("method", name, f"one of {', '.join(methods)}")
    known = getattr(methods[name], "__dataclass_fields__", {})
    if unknown := [option for option in options if option not in known]:
        raise ParameterError(unknown[0], options[unknown[0]], f"absent: the method {name!r} has no such option")
    return methods[name](**options)
