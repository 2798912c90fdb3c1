"""What a fit is: one charge, noisy sums over the private units, and a support that answers any number of questions.

A ``Fitter`` holds public parameters; those that set the noise may be left open. ``plan`` settles them from a price and
says what is charged; ``fit`` asks for sums by public rules, lets mechanisms draw from them, and works out the support.

Guarantee   See ``plan`` and each method. Whatever is computed from a support is post-processing.
Assumes     Isolation of the embedder; the order charge, read, draw of ``sottovoce.fitting``.
Sources     specification 5.13 to 5.17, 6.3, 6.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.unit_sums import SumRule
from sottovoce.methods.base import Price, make_from, read_options
from sottovoce.methods.fitting.support import LinearSupport, Support
from sottovoce.methods.fitting.writing import VariationWriter
from sottovoce.models.base import Embedder, FloatArray, LabelScorer
from sottovoce.parameters import CheckedFloats, fields_of, options_of
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.events import ApproximateDP, DpEvent
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.randomness import Randomness
from sottovoce.registry import Registry
from sottovoce.tasks import Query, Task

_ROUNDING = 1e-5
"""Parameters are rounded to the safe side, which leaves so much of a price unused at most."""
RHO_BOUNDS = ("zCDP",)
"""Bounds that a zCDP ledger keeps."""


@final
@dataclass(frozen=True)
class FitSetting:
    """Everything about a fit that is public and is not the method's own.

    Attributes:
        labels: Number of labels, K.
        dimension: Length of the embedder's vectors, d; 0 where none is used.
        units: Number of units where it is public, else ``None``.
        adjacency: What one change of the data is.
        change: How one change can change what units add.
        candidates: Number of public texts that were given.
        adds_epsilons: Whether the ledger adds epsilons and deltas (basic composition), not rho.
        unit: Who is protected.
    """

    labels: int
    dimension: int
    units: int | None
    adjacency: Adjacency
    change: ChangeType
    candidates: int = 0
    adds_epsilons: bool = True
    unit: str = "record"

    @property
    def bounds(self) -> Sequence[str]:
        """Accounting bounds that the ledger's own sum keeps: all of them for a single point, else rho."""
        return () if self.adds_epsilons else RHO_BOUNDS

    def cost(self, event: DpEvent, delta: float) -> Report:
        """What an event costs by these bounds."""
        return RdpAccountant(self.adjacency, self.unit).compose(event).report(delta, self.bounds if delta else ())


@final
@dataclass(frozen=True)
class FitPlan:
    """What a fit costs, settled before anything is read.

    Attributes:
        fitter: The method, with every parameter settled.
        setting: As given.
        event: What is done to the data.
        charge: What a ledger is charged for it: the event, or one point of its profile.
        report: What it costs.
        epsilon: What is promised at the report's delta: the price that was asked, where it is all but used up.
    """

    fitter: Fitter
    setting: FitSetting
    event: DpEvent
    charge: DpEvent
    report: Report
    epsilon: float

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every parameter of the method. Public."""
        return self.fitter.options


class PrivateSums(Protocol):
    """The private side of a fit: sums over units, and experts' answers. What it hands over is private."""

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all units' contributions by a rule, shape (rule.size,), int64."""

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        """What experts with one unit each say to public questions."""


@final
@dataclass(frozen=True)
class PublicInputs:
    """The public side of a fit.

    Attributes:
        task: Labels and templates.
        scorer: The model that scores labels.
        embedder: The model that embeds; the same one as a rule.
        pool: Public texts without labels.
        vectors: Their vectors, shape (texts, dimension).
        log_prior: Gives the model's answers without any example, shape (questions, labels).
        writer: What writes variations of public texts, for a method that ``writes``.
    """

    task: Task
    scorer: LabelScorer
    embedder: Embedder
    pool: Sequence[Query]
    vectors: FloatArray
    log_prior: Callable[[Sequence[Query]], FloatArray]
    writer: VariationWriter | None = None


class Fitter(CheckedFloats, ABC):
    """A way to pay once: a frozen dataclass of public parameters, chosen without looking at private data."""

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    needs_delta: ClassVar[bool] = False
    """Whether its noise has no pure guarantee."""
    calibrated_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters that may be left open (``None``), and are set by the price."""
    pool: ClassVar[str] = "unused"
    """Whether public texts are ``unused``, ``optional`` or ``required``."""
    gives: ClassVar[type[Support]] = LinearSupport
    """What kind of support it draws."""
    asks_experts: ClassVar[bool] = False
    """Whether the model that scores labels reads private records, too."""
    writes: ClassVar[bool] = False
    """Whether a model writes public texts for it between draws."""
    step: ClassVar[type[StepCost]]
    """What one release of it costs, for ``sotto account`` and the contracts."""

    @abstractmethod
    def calibrated(self, price: Price, setting: FitSetting) -> Self:
        """Itself with every open parameter settled, so that ``event`` costs no more than the price.

        Raises:
            ParameterError: No parameter meets the price.
        """

    @abstractmethod
    def event(self, setting: FitSetting) -> DpEvent:
        """What is done to the data. Every parameter must be settled."""

    def released(self, setting: FitSetting) -> StepCost:
        """What one release of it is, for ``sotto account``. Every parameter must be settled."""
        own = fields_of(self)
        given = {each.name: own.get(each.name) for each in fields(self.step)}
        return self.step(**{name: value for name, value in given.items() if value is not None})

    def rules(self, plan: FitPlan, public: PublicInputs) -> Sequence[SumRule] | None:
        """Every sum that ``fit`` will ask for, where that is known beforehand: then no vector is kept.

        ``None`` where a sum depends on what was drawn before; ``fit`` asks as it likes then.
        """
        return None

    def questions(self, plan: FitPlan, public: PublicInputs) -> Sequence[Query]:
        """Public questions that experts answer before the draw begins; ``fit`` asks for exactly these."""
        return ()

    @abstractmethod
    def fit(self, plan: FitPlan, private: PrivateSums, public: PublicInputs, randomness: Randomness) -> Support:
        """Draws the support. The plan was charged before.

        Nothing in here may fail, or be drawn again, depending on what was drawn.
        """

    def most_texts(self, setting: FitSetting) -> int:
        """How many texts it leaves at most, whatever is drawn; every parameter must be settled. Public.

        Raises:
            ParameterError: It leaves texts and does not say how many, so that no room is known for them.
        """
        if self.gives is LinearSupport:
            return 0
        raise ParameterError("method", self.name, "one that says how many texts it leaves: it lacks 'most_texts'")

    def with_texts(self, per_label: int, labels: int) -> Self:
        """Itself, so that it leaves so many texts of each label, or as many in all.

        Raises:
            ParameterError: It leaves no texts.
        """
        raise ParameterError("method", self.name, "one that leaves texts, such as choice or evolve")

    @property
    def options(self) -> dict[str, Any]:
        """Every public parameter of the method."""
        return {name: getattr(self, name) for name in options_of(type(self))}

    @final
    def plan(self, price: Price, setting: FitSetting) -> FitPlan:
        """Settles open parameters from a price and says what is charged.

        Raises:
            ParameterError: No parameter meets the price, or the settled ones cost more than it.
        """
        if self.needs_delta and price.delta == 0:
            raise ParameterError("delta", price.delta, f"above 0 for the method {self.name!r}, such as 1e-6")
        if self.pool == "required" and not setting.candidates:
            raise ParameterError(
                "--public", None, f"given: the method {self.name!r} chooses among public texts, a file of which is read"
            )
        fitter = self.calibrated(price, setting)
        event = fitter.event(setting)
        report = setting.cost(event, price.delta)
        if report.epsilon > price.epsilon:
            limit = f"large enough for the settings given, which cost {rounded_up(report.epsilon, 6)}"
            raise ParameterError("epsilon", price.epsilon, limit)
        epsilon = price.epsilon if report.epsilon > price.epsilon * (1 - _ROUNDING) else report.epsilon
        return FitPlan(fitter, setting, event, _charge(event, epsilon, price, setting), report, epsilon)


def _charge(event: DpEvent, epsilon: float, price: Price, setting: FitSetting) -> DpEvent:
    """The event itself where the ledger's sum prices it within the price, else one point of its profile."""
    if not setting.adds_epsilons or setting.cost(event, 0.0).epsilon <= price.epsilon:
        return event
    return ApproximateDP(epsilon, price.delta)


_FITTERS = Registry[type[Fitter]]("method", "sottovoce.methods")
T = TypeVar("T", bound=type[Fitter])


def register_fitter(name: str, *, summary: str, source: str) -> Callable[[T], T]:
    """Enrols a fitter under its published name, for ``sotto fit --method``, ``sotto methods`` and the contracts."""

    def enrol(cls: T) -> T:
        cls.name, cls.summary, cls.source = name, summary, source
        _FITTERS.enter(name, cls)
        return cls

    return enrol


def registered_fitters() -> dict[str, type[Fitter]]:
    """Every fitter by name."""
    return _FITTERS.all()


def find_fitter(name: str) -> type[Fitter] | None:
    """The fitter of this name, if there is one; the files of other methods are not read for it."""
    return _FITTERS.find(name)


def make_fitter(name: str, /, **options: object) -> Fitter:
    """Builds a fitter by name.

    Raises:
        ParameterError: There is no such fitter, or it has no such option.
    """
    return make_from(_FITTERS, name, options)


def read_fitter_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a fitter as they were typed, read as values of their types.

    Raises:
        ParameterError: There is no such fitter, it has no such option, or a text is not of the option's type.
    """
    return read_options(_FITTERS, name, options)
