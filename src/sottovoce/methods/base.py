"""What a method is: which context its experts see, how their outputs become scores, which mechanism chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import ClassVar, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.experts.outputs import ExpertOutputs, FloatArray
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.registry import Registry
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.numbers import require_delta, require_epsilon
from sottovoce.privacy.scores import Scores
from sottovoce.privacy.unit import Adjacency
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
    SAMPLES = "fresh Poisson samples of the units"
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
    can_fail: ClassVar[bool] = False
    """Whether every answer spends its delta as a probability of failure, from the budget's share for failures."""

    @abstractmethod
    def event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        """What one answer costs under this adjacency, from parameters alone.

        Raises:
            AssignmentError: The method has no guarantee under it.
        """

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

    def log_prior(self, experts: ExpertOutputs) -> FloatArray | None:
        """A public prior over the labels, as log-weights; ``None`` for a flat one. It is free (specification 5.1.3)."""
        return None

    @final
    def event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        return self.mechanism(price).event

    @final
    def choose(self, experts: ExpertOutputs, price: Price, randomness: Randomness) -> int:
        mechanism, prior = self.mechanism(price), self.log_prior(experts)
        if prior is None:
            return mechanism.select(self.scores(experts), randomness)
        return _with_prior(mechanism).select(self.scores(experts), randomness, prior)

    @final
    def law(self, experts: ExpertOutputs, price: Price) -> Sequence[Fraction] | Sequence[float]:
        """Probability of each label under ``choose``. Never released; for tests, benchmarks and audits only."""
        mechanism, prior = self.mechanism(price), self.log_prior(experts)
        if prior is None:
            return mechanism.law(self.scores(experts))
        return _with_prior(mechanism).law(self.scores(experts), prior)


class Subsampling(Method):
    """A method whose prompts hold fresh Poisson samples of the units.

    Attributes:
        sampling_probability: Chance of each unit to be in a prompt.
        subsamples: Prompts for each question.
    """

    reads: ClassVar[Reads] = Reads.SAMPLES
    sampling_probability: float
    subsamples: int


def _with_prior(mechanism: SelectionMechanism) -> Exponential:
    if not isinstance(mechanism, Exponential):
        raise ParameterError("prior", type(mechanism).__name__, "used with the exponential mechanism alone")
    return mechanism


_METHODS = Registry[Method]("method")
T = TypeVar("T", bound=type[Method])


def register_method(name: str, *, summary: str, source: str) -> Callable[[T], T]:
    """Enrols a method under its published name, for ``--method`` and ``sotto methods``."""

    def enrol(cls: T) -> T:
        if cls.private and cls.reads is Reads.EVERYTHING:
            raise ParameterError(
                "method", name, "one whose experts hold their own units: one context has no change type"
            )
        cls.name, cls.summary, cls.source = name, summary, source
        _METHODS.enter(name, cls)
        return cls

    return enrol


def registered_methods() -> dict[str, type[Method]]:
    """Every method of this folder by name."""
    return _METHODS.all()


def make_method(name: str, **options: object) -> Method:
    """Builds a method by name.

    Raises:
        ParameterError: There is no such method, or it has no such option.
    """
    return _METHODS.make(name, options)
