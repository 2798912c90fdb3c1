"""Step costs: what one release of a primitive costs, for each way in which one unit can change the experts.

A method's author subclasses one of these families beside the method, names its public parameters, and asks for the
event of a change; the factor of two between a drop and a swap, and every other constant, is the step's business. A
change for which a step knows no bound is refused.

Guarantee   ``step.event(change)`` is valid for every pair of neighbours whose experts' outputs differ by ``change``.
Assumes     Isolation (specification 1.2), fixed public denominators (2.4), clipping by projection.
Sources     specification 4, with the derivations of section 5 named at each step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.parameters import Checked, OneOf, Positive, Root, WorkedOut
from sottovoce.privacy.accounting.renyi import rho_that_fits
from sottovoce.privacy.events import BoundedRange, DpEvent, GaussianDpEvent, PureDP, ZCDpEvent
from sottovoce.privacy.numbers import exact, rounded_up
from sottovoce.privacy.unit import ChangeType, is_drop

NoiseLaw = Annotated[str, OneOf(("discrete", "continuous"))]
"""``discrete``: the integer sampler, priced by zCDP. ``continuous``: the correctly rounded normal, as Gaussian DP."""


@final
@dataclass(frozen=True)
class Sensitivity:
    """How far one change can move what is released.

    Attributes:
        value: The number.
        words: What it is a number of.
    """

    value: float
    words: str

    def __str__(self) -> str:
        return f"{self.words} <= {rounded_up(self.value, 6)}"


class StepCost(Checked, ABC):
    """The cost of one step. Subclasses are frozen dataclasses of public parameters, entered by ``step_cost``."""

    name: ClassVar[str]
    source: ClassVar[str]
    law: ClassVar[str]
    """The mechanism in one line."""
    family: ClassVar[str]
    """What kind of guarantee one step has."""

    @abstractmethod
    def sensitivity(self, change: ChangeType) -> Sensitivity:
        """The bound that the event rests on."""

    @abstractmethod
    def event(self, change: ChangeType) -> DpEvent:
        """What one step costs.

        Raises:
            ParameterError: Nothing is known for this change.
        """

    def other_event(self, change: ChangeType) -> DpEvent:
        """A second event that prices the same step; whichever comes out less is valid. By default the first one."""
        return self.event(change)

    @classmethod
    def at(cls, epsilon: float, delta: float, change: ChangeType, **public: Any) -> Self:
        """The step whose noise makes this change cost exactly (epsilon, delta).

        Raises:
            ParameterError: A single step of this kind has no noise of its own to set, or no noise meets the price.
        """
        raise ParameterError("epsilon", epsilon, f"absent: {cls.name} has no single noise to set by it")

    @property
    def steps(self) -> int:
        """Adaptive steps of one release."""
        return 1

    def figures(self, change: ChangeType) -> dict[str, float]:
        """The step's own parameter in its family: eta, mu, rho or pure_epsilon."""
        return figures_of(self.event(change))

    @property
    def parameters(self) -> dict[str, Any]:
        """The step's public parameters."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def figures_of(event: Any) -> dict[str, float]:
    """An event's own parameter, by the name of its family.

    Example:
        >>> figures_of(GaussianDpEvent(2.0))
        {'mu': 0.5}
    """
    match event:
        case BoundedRange():
            return {"eta": event.eta}
        case PureDP():
            return {"pure_epsilon": event.epsilon}
        case GaussianDpEvent():
            return {"mu": 1 / event.noise_multiplier if event.noise_multiplier else math.inf}
        case ZCDpEvent():
            return {"rho": event.rho}
    return figures_of(event.event) if hasattr(event, "event") else {}


class SelectionStep(StepCost):
    """A bounded-range selection: weights exp(rate * utility) whose log-weights move in range by at most eta."""

    family = "bounded range"

    @property
    @abstractmethod
    def eta_per_width(self) -> float | Fraction:
        """eta of a drop: the rate times the range by which a vanished output moves the utility."""

    def event(self, change: ChangeType) -> BoundedRange:
        is_drop(change)
        return BoundedRange(float(self.eta_per_width * change.widths))


class PureStep(StepCost):
    """A release with pure DP and no bounded range."""

    family = "pure DP, without bounded range"

    @property
    @abstractmethod
    def epsilon_per_width(self) -> float | Fraction:
        """epsilon of a drop."""

    def event(self, change: ChangeType) -> PureDP:
        is_drop(change)
        return PureDP(float(self.epsilon_per_width * change.widths))


@dataclass(frozen=True)
class RatedStep(StepCost):
    """Mixed into a step whose noise is a weight ``rate`` of the summed utility: its price is rate times width.

    Attributes:
        rate: lambda, the weight of one unit of the utility. A rate that a price set is an exact fraction, so that the
            price comes out of it as it went in.
    """

    rate: Positive

    @property
    def width(self) -> float:
        """Range of one expert's part of the utility."""
        return 1.0

    @property
    def _rated(self) -> float | Fraction:
        return self.rate * exact(self.width) if isinstance(self.rate, Fraction) else self.rate * self.width

    @property
    def eta_per_width(self) -> float | Fraction:
        """The price of a drop, for a ``SelectionStep``."""
        return self._rated

    @property
    def epsilon_per_width(self) -> float | Fraction:
        """The price of a drop, for a ``PureStep``."""
        return self._rated

    @classmethod
    def at(cls, epsilon: float, delta: float, change: ChangeType, **public: Any) -> Self:
        is_drop(change)
        width = cls(rate=1.0, **public).width
        return cls(rate=WorkedOut(exact(epsilon) / (exact(width) * change.widths)), **public)  # type: ignore[arg-type]


class ClippedMeanStep(SelectionStep):
    """A softmax over a clipped mean; ``clip``, ``experts`` and ``temperature`` are fields of the subclass."""

    clip: float
    experts: int
    temperature: float

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(
            2 * self.clip * change.widths / self.experts, "range of the change of the mean of clipped logits"
        )


class GaussianStep(StepCost):
    """A vector with Gaussian noise; ``sigma`` and ``sampler`` are fields of the subclass."""

    family = "Gaussian noise"
    sigma: float
    sampler: str

    @abstractmethod
    def norm(self, change: ChangeType) -> float:
        """Largest Euclidean norm of the change, in the unit of ``sigma``."""

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(self.norm(change), "Euclidean norm of the change of the released vector")

    def event(self, change: ChangeType) -> DpEvent:
        if isinstance(self.sigma, Root) and self.sampler == "discrete":
            return ZCDpEvent(float(exact(self.norm(change)) ** 2 / (2 * self.sigma.square)))
        return gaussian_event(self.norm(change) / float(self.sigma), self.sampler)

    @classmethod
    def at(cls, epsilon: float, delta: float, change: ChangeType, **public: Any) -> Self:
        """The least integer noise whose single release is (epsilon, delta)-DP by its zCDP bound."""
        if public.get("sampler", "discrete") != "discrete":
            return super().at(epsilon, delta, change, **public)
        if delta == 0:
            raise ParameterError("delta", delta, "above 0 for Gaussian noise, such as 1e-6")
        made: Any = cls  # its fields are the subclass's
        norm = exact(made(sigma=1.0, **public).norm(change))
        cost: Self = made(sigma=Root(norm**2 / (2 * exact(rho_that_fits(epsilon, delta)))), **public)
        return cost


def gaussian_event(mu: float, sampler: str) -> DpEvent:
    """Gaussian noise of the given kind; the integer sampler has the rho of mu but is not exactly Gaussian DP (T8).

    Example:
        >>> gaussian_event(0.5, "discrete")
        ZCDpEvent(rho=0.125, xi=0.0)
    """
    return ZCDpEvent(mu * mu / 2) if sampler == "discrete" else GaussianDpEvent(1 / mu)


def shifted_norm(candidates: int | None, sampler: str, grid: int) -> float:
    """Norm of one vanished distribution under a noisy argmax, which ignores a constant added to every candidate.

    With integer noise the constant must be a multiple of the noise's grid (specification 5.2).

    Example:
        >>> round(shifted_norm(2, "continuous", 1), 4), shifted_norm(2, "discrete", 1)
        (0.7071, 1.0)
    """
    if candidates is None:
        return 1.0
    if sampler == "continuous":
        return math.sqrt(1 - 1 / candidates)
    best = grid // candidates
    return math.sqrt(min((1 - c) ** 2 + (candidates - 1) * c * c for c in (best / grid, (best + 1) / grid)))


_STEPS: dict[str, type[StepCost]] = {}
S = TypeVar("S", bound=type[StepCost])


def step_cost(name: str, *, law: str, source: str) -> Callable[[S], S]:
    """Enters a step cost under its name."""

    def enter(cls: S) -> S:
        if name in _STEPS:
            raise ParameterError("step cost", name, "a name that is not taken")
        cls.name, cls.law, cls.source = name, law, source
        _STEPS[name] = cls
        return cls

    return enter


def step_costs() -> dict[str, type[StepCost]]:
    """Every step cost that was entered so far, by name: those of the methods and cost models that are imported."""
    return dict(_STEPS)
