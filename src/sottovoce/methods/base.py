"""What a method is: which context its experts see, how their outputs become scores, which mechanism chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs, FloatArray
from sottovoce.mechanisms.base import SelectionMechanism, log_law
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.parameters import fields_of, nearest, options_of, read_fields
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.parameters import DELTA, EPSILON
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import Adjacency, Assignment, ChangeType, change_type
from sottovoce.randomness import Randomness
from sottovoce.registry import Registry


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
        read_fields(self, epsilon=EPSILON, delta=DELTA)


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
    step: ClassVar[type[StepCost] | None] = None
    """What one answer releases. Its event is what a ledger is charged and what ``sotto account`` explains."""
    also_priced: ClassVar[Mapping[tuple[str, str], type[StepCost]]] = {}
    """Steps that ``sotto account`` prices and nothing here draws, by the option and its value that ask for them."""

    def public_of(self, step: type[StepCost], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Those of the method's fields that the step has too, by name, also one that it works out by itself.

        Args:
            step: A kind of step.
            values: To be taken in place of the fields.
        """
        own = fields_of(self) if values is None else values
        return {field.name: own[field.name] for field in fields(step) if field.name in own}

    @classmethod
    def kinds_of_step(cls) -> Sequence[type[StepCost]]:
        """Every kind of step that the method can release, and those that are only priced."""
        own = (cls.step,) if isinstance(cls.step, type) else ()
        return (*own, *cls.also_priced.values())

    @property
    def options(self) -> dict[str, Any]:
        """Every public parameter of the method."""
        return {name: getattr(self, name) for name in options_of(type(self))}

    def step_at(self, price: Price, change: ChangeType, adjacency: Adjacency) -> StepCost:
        """One answer at this price, its noise set for this change of the experts.

        Raises:
            ParameterError: No noise meets the price.
            AssignmentError: The method has no guarantee under this adjacency.
        """
        if self.step is None:
            raise ParameterError("epsilon", price.epsilon, f"absent: {self.name} has no noise to set by it")
        return self.step.at(price.epsilon, price.delta, change, **self.public_of(self.step))

    def claim(self, cost: Any, steps: int) -> Claim | None:
        """What the paper states.

        Args:
            cost: What one answer releases, of the type ``step``.
            steps: Releases an answer.
        """
        return None

    @abstractmethod
    def event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        """What one answer costs under this adjacency, from parameters alone.

        Raises:
            AssignmentError: The method has no guarantee under it.
        """

    def listed_event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        """The same for a list of methods: nothing is charged by it, so noise need not be calibrated for it."""
        return self.event(price, adjacency)

    def noise_event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        """The noise behind one answer, which costs no more than ``event``: what an audit tests.

        Another event than the one charged where that is a bare pair of epsilon and delta.
        """
        return self.event(price, adjacency)

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
        drawn = self.mechanism(price).event
        if self.step is None:
            return drawn
        # The noise is set for the change that there is, so that the price is the same for every one of them.
        change = change_type(Assignment.OWN_SLOT, adjacency)
        charged = self.step_at(price, change, adjacency).event(change)
        if charged != drawn:
            raise AssertionError(f"{self.name} is charged {charged} and draws from a mechanism that costs {drawn}")
        return charged

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

    @final
    def log_law(self, experts: ExpertOutputs, price: Price) -> FloatArray:
        """Natural logs of ``law``, which do not underflow where the mechanism works them out by itself."""
        if self.log_prior(experts) is None:
            return self.mechanism(price).log_law(self.scores(experts))
        return log_law(self.law(experts, price))


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


_METHODS = Registry[type[Method]]("method", "sottovoce.methods")
M = TypeVar("M")
T = TypeVar("T", bound=type[Method])


def register_method(name: str, *, summary: str, source: str) -> Callable[[T], T]:
    """Enrols a method under its published name, for ``--method`` and ``sotto methods``."""

    def enrol(cls: T) -> T:
        if cls.private and cls.reads is Reads.EVERYTHING:
            raise ParameterError(
                "method", name, "one whose experts hold their own units: one context has no change type"
            )
        if issubclass(cls, Selecting | Subsampling) and cls.step is None:
            raise ParameterError("method", name, "one that names its 'step', so that its price can be explained")
        if isinstance(cls.step, type) and is_dataclass(cls):
            settled = [field.name for field in fields(cls.step) if field.default is MISSING]
            if settled and {*settled} <= {field.name for field in fields(cls)}:
                limit = f"one without a field {settled[0]!r} of its own: the price sets it, in the step {cls.step.name}"
                raise ParameterError("method", name, limit)
        cls.name, cls.summary, cls.source = name, summary, source
        _METHODS.enter(name, cls)
        return cls

    return enrol


def registered_methods() -> dict[str, type[Method]]:
    """Every registered method by name."""
    return _METHODS.all()


def is_method(name: str) -> bool:
    """Whether a method is registered under this name."""
    return _METHODS.find(name) is not None


def read_method_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a method as they were typed, read as values of their types.

    Raises:
        ParameterError: There is no such method, it has no such option, or a text is not of the option's type.

    Example:
        >>> read_method_options("poe", {"clip": "2.5"})
        {'clip': 2.5}
    """
    return read_options(_METHODS, name, options)


def make_method(name: str, /, **options: object) -> Method:
    """Builds a method by name.

    Raises:
        ParameterError: There is no such method, or it has no such option.
    """
    return make_from(_METHODS, name, options)


def make_from(registry: Registry[type[M]], name: str, options: Mapping[str, Any]) -> M:
    """Builds an entry of a registry by name.

    Raises:
        ParameterError: There is no such entry, or it has no such option.
    """
    cls = registry.named(name)
    _require_options(registry, name, options)
    return cls(**options)


def read_options(registry: Registry[type[M]], name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an entry of a registry as they were typed, read as values of their types.

    Raises:
        ParameterError: There is no such entry, it has no such option, or a text is not of the option's type.
    """
    known = options_of(registry.named(name))
    _require_options(registry, name, options)
    return {option: known[option].read(value) for option, value in options.items()}


def _require_options(registry: Registry[type[M]], name: str, options: Mapping[str, Any]) -> None:
    known = [*options_of(registry.named(name))]
    for option, value in options.items():
        if option in known:
            continue
        methods = [other for other, cls in registry.all().items() if option in options_of(cls)]
        elsewhere = f", unlike --method {', '.join(methods)}" if methods else ""
        has = ", ".join(known) or "none"
        limit = f"left out: the method {name!r} has no such option{elsewhere}; it has {has}{nearest(option, known)}"
        raise ParameterError(option, value, limit)
