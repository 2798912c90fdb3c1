"""What a private long answer is: one private step on what experts wrote, and public work before and after it.

An ``Answerer`` holds public parameters; those that set the noise may be left open. ``plan`` settles them from a price,
compares what is drawn with what is charged, and refuses what cannot work at that price. ``draw`` is the one private
step. ``finish`` sees its outcome and public things alone, so that it is free and may be repeated.

Guarantee   See ``plan`` and each method. Candidates, keywords and examples are public and were fixed before a record
            was read; what is computed from an outcome is post-processing.
Assumes     Isolation of the writer and the embedder; the order: public side, charge, read, note, draw, save, finish.
Sources     specification 5.4 to 5.7, 6.3, 7, T10 to T12.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.experts.written import WrittenOutputs
from sottovoce.methods.base import Price, Reads, make_from, read_options
from sottovoce.methods.fitting.fitter import RHO_BOUNDS
from sottovoce.models.base import FloatArray, WritingRequest
from sottovoce.parameters import CheckedFloats, options_of
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.accounting.calibration import base_of_sampled
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import ApproximateDP, DpEvent, NonPrivateDpEvent, NoOpDpEvent, PureDP
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.randomness import Randomness
from sottovoce.registry import Registry

_ROUNDING = 1e-5
"""Parameters are rounded to the safe side, which leaves so much of a price unused at most."""


@final
@dataclass(frozen=True)
class AnswerSetting:
    """Everything that an answer's price depends on and is not the method's own. Public.

    Attributes:
        adjacency: What one change of the data is.
        sampling: Which units experts see.
        units: Number of units where it is public, else ``None``.
        dimension: Length of the embedder's vectors; 0 without one.
        candidates: Number of public answers.
        keywords: Number of public keywords.
        adds_epsilons: Whether the ledger adds epsilons and deltas (basic composition), not rho.
        unit: Who is protected.

    Raises:
        AssignmentError: The sampling has no guarantee under this adjacency.
        ParameterError: There are fewer units than the sampling needs.
    """

    adjacency: Adjacency
    sampling: ExpertSampling = field(default_factory=ExpertSampling)
    units: int | None = None
    dimension: int = 0
    candidates: int = 0
    keywords: int = 0
    adds_epsilons: bool = True
    unit: str = "record"

    def __post_init__(self) -> None:
        _ = self.change, self.experts

    @property
    def change(self) -> ChangeType:
        """How one change of the data can change what experts wrote, for the release before amplification."""
        return self.sampling.change(self.adjacency)

    @property
    def experts(self) -> int | None:
        """The number of experts where it is public."""
        return self.sampling.count(self.adjacency, self.units)

    @property
    def rate(self) -> float | None:
        """The chance of a unit to be in a question's sample; ``None`` where nothing is sampled."""
        return self.sampling.rate_of(self.units)

    def base(self, price: Price) -> Price:
        """What a release may cost before its sample amplifies it once (T10, T11); the price if nothing is sampled."""
        rate = self.rate
        return price if rate is None else Price(*base_of_sampled(price.epsilon, price.delta, rate))

    def bounds(self, delta: float) -> Sequence[str]:
        """Accounting bounds that a calibration may rely on: the ledger's own sum, where it adds rho and nothing is
        sampled; all of them for a single point."""
        return RHO_BOUNDS if delta and not self.adds_epsilons and self.rate is None else ()

    def cost(self, event: DpEvent, delta: float) -> Report:
        """What an event costs by these bounds."""
        return RdpAccountant(self.adjacency, self.unit).compose(event).report(delta, self.bounds(delta))


@final
@dataclass(frozen=True)
class AnswerPlan:
    """What one answer costs, settled before anything is read.

    Attributes:
        answerer: The method, with every parameter settled.
        setting: As given.
        base: The event of the one private step, before amplification.
        event: What is done to the data: ``base``, or the amplified sample of it.
        charge: What a ledger is charged for it: the event, or one point of its profile.
        report: What it costs, at delta 0 where it has a pure guarantee within the price.
        epsilon: What is promised at the report's delta: the price that was asked, where it is all but used up.
    """

    answerer: Answerer
    setting: AnswerSetting
    base: DpEvent
    event: DpEvent
    charge: DpEvent
    report: Report
    epsilon: float

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every parameter of the method. Public."""
        return self.answerer.options


@final
@dataclass(frozen=True)
class Outcome:
    """What the private step released. Public from here on; saved before ``finish`` is called.

    Attributes:
        method: Name of the answerer.
        values: Of the release: texts, whole numbers, floats and lists of them.

    Example:
        >>> Outcome.from_json(Outcome("ksa", {"keywords": ["card"]}).to_json()).values
        {'keywords': ['card']}
    """

    method: str
    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"method": self.method, "values": dict(self.values)}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Outcome:
        """From what ``to_json`` gave."""
        return cls(str(saved["method"]), dict(saved["values"]))


Write = Callable[[Sequence[WritingRequest]], Sequence[str | None]]
"""The writer with its number of tokens, for public requests."""


@final
@dataclass(frozen=True)
class PublicSide:
    """The public side of one question, computed before anything is charged (``answering.public``).

    Attributes:
        request: Makes a request for the question from public examples and a hint behind the instruction.
        zero_shot: What the writer says to the bare question; ``None`` where it said nothing.
        candidates: Public answers, different ones: without examples, and after public ones.
        vectors: Of the candidates, shape (candidates, dimension); no rows without an embedder.
        universe: Public keywords, different ones, in an order that follows from no record.
        shots: Public examples for final prompts.
        write: The writer, for public requests. It may give ``None``.
    """

    request: Callable[[Sequence[tuple[str, str]], str], WritingRequest]
    zero_shot: str | None
    candidates: Sequence[str] = ()
    vectors: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    universe: Sequence[str] = ()
    shots: Sequence[tuple[str, str]] = ()
    write: Write = field(default=lambda requests: [None for _ in requests])

    @property
    def fallback(self) -> str:
        """The answer where nothing private says otherwise and the writer says nothing: without any record."""
        return self.zero_shot or (self.candidates[0] if self.candidates else "")

    def written(self, hint: str = "", shots: Sequence[tuple[str, str]] | None = None) -> str:
        """What the writer answers after public examples and a hint; ``fallback`` where it says nothing."""
        (text,) = self.write([self.request(self.shots if shots is None else shots, hint)])
        return text or self.fallback


class Answerer(CheckedFloats, ABC):
    """A way to write one answer: a frozen dataclass of public parameters, chosen without looking at private data."""

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    private: ClassVar[bool] = True
    """Whether its answers have a guarantee."""
    reads: ClassVar[Reads] = Reads.ONE_EXPERT_EACH
    """Which private records prompts hold."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """Of ``Embedder`` and ``pool`` (public examples or answers) those that it cannot do without."""
    least_candidates: ClassVar[int] = 1
    """Fewest public answers that a session asks the writer for, the one without examples counted; the user's number of
    public experts is the most. 0 where ``PublicSide.fallback`` is all that it takes of them."""
    needs_delta: ClassVar[bool] = False
    """Whether its noise has no pure guarantee."""
    calibrated_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters that may be left open (``None``), and are set by the price."""
    refused: ClassVar[Mapping[tuple[str, str], str]] = {}
    """Options with values that have no guarantee, by name and value: why, and what is allowed."""
    steps: ClassVar[Sequence[type[StepCost]]] = ()
    """Kinds of steps that one answer can release, for ``sotto account``."""

    @abstractmethod
    def calibrated(self, price: Price, setting: AnswerSetting) -> Self:
        """Itself with every open parameter settled, so that ``event`` costs no more than the price.

        Args:
            price: Of the private step alone, before a sample amplifies it.
            setting: The public side.

        Raises:
            ParameterError: No parameter meets the price, or nothing can be found at it.
        """

    @abstractmethod
    def event(self, setting: AnswerSetting) -> DpEvent:
        """What the private step is, before a sample amplifies it. Every parameter must be settled."""

    def cost(self, setting: AnswerSetting) -> Sequence[tuple[StepCost, int]]:
        """What one answer releases, as step costs with how often. Every parameter must be settled."""
        return ()

    def claim(self, setting: AnswerSetting) -> Claim | None:
        """What the paper states."""
        return None

    @abstractmethod
    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        """The one private step. The plan was charged before.

        Nothing in here may fail, or be drawn again, depending on what was drawn.

        Args:
            setting: As planned.
            experts: What they wrote; ``None`` for a method that reads no record.
            public: Fixed before a record was read.
            randomness: Of the draws.
        """

    @abstractmethod
    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        """The answer, from a released outcome and public things alone. It may be repeated."""

    @property
    def uses_delta(self) -> bool:
        """Whether the delta of an answer can change its noise or its charge."""
        return self.needs_delta

    @property
    def open_parameters(self) -> tuple[str, ...]:
        """Those of ``calibrated_parameters`` that a price settles for these options."""
        return self.calibrated_parameters

    @property
    def options(self) -> dict[str, Any]:
        """Every public parameter of the method."""
        return {name: getattr(self, name) for name in options_of(type(self))}

    @final
    def plan(self, price: Price, setting: AnswerSetting) -> AnswerPlan:
        """Settles open parameters from a price and says what is charged.

        Raises:
            ParameterError: No parameter meets the price, the settled ones cost more than it, or something is missing
                that the method needs.
        """
        if self.needs_delta and price.delta == 0:
            raise ParameterError("delta", price.delta, f"above 0 for the method {self.name!r}, such as 1e-6")
        if "Embedder" in self.needs and not setting.dimension:
            raise ParameterError("embedder", None, f"given: the method {self.name!r} compares texts by their vectors")
        if "pool" in self.needs and not setting.candidates:
            limit = f"given: the method {self.name!r} needs public examples or answers, a file of which is read"
            raise ParameterError("--public", None, limit)
        if not self.private or self.reads is Reads.NOTHING:
            return self._reference(price, setting)
        base = setting.base(price)
        answerer = self.calibrated(base, setting)
        event = answerer.event(setting)
        pure = setting.cost(event, 0.0)
        fails = pure.epsilon > base.epsilon
        alone = setting.cost(event, base.delta) if fails else pure
        if alone.epsilon > base.epsilon:
            limit = f"large enough for the settings given, which cost {rounded_up(alone.epsilon, 6)}"
            raise ParameterError("epsilon", base.epsilon, limit)
        delta = price.delta if fails else 0.0
        if setting.rate is None:
            amplified, report = event, alone
        else:
            # Integer noise has no profile that T10 and T11 could take; one point of it has.
            point = ApproximateDP(base.epsilon, base.delta) if fails else PureDP(base.epsilon)
            amplified = setting.sampling.amplified(point, setting.adjacency, setting.units)
            report = setting.cost(amplified, delta)
            if report.epsilon > price.epsilon:
                raise AssertionError(f"{self.name}: its sample costs {report.epsilon} where {price.epsilon} was asked")
        epsilon = price.epsilon if report.epsilon > price.epsilon * (1 - _ROUNDING) else report.epsilon
        point_charged = ApproximateDP(epsilon, delta) if fails else PureDP(epsilon)
        whole = setting.rate is None and not (setting.adds_epsilons and fails)
        charge = amplified if whole else point_charged
        return AnswerPlan(answerer, setting, event, amplified, charge, report, epsilon)

    def _reference(self, price: Price, setting: AnswerSetting) -> AnswerPlan:
        """A method that reads nothing costs nothing; one that reads everything has no price."""
        event: DpEvent = NoOpDpEvent() if self.reads is Reads.NOTHING else NonPrivateDpEvent()
        report = setting.cost(event, price.delta)
        return AnswerPlan(self, setting, event, event, event, report, report.epsilon)


_ANSWERERS = Registry[type[Answerer]]("method", "sottovoce.methods")
T = TypeVar("T", bound=type[Answerer])


def register_answerer(name: str, *, summary: str, source: str) -> Callable[[T], T]:
    """Enrols an answerer under its published name, for ``sotto answer --method``, ``sotto methods`` and contracts."""

    def enrol(cls: T) -> T:
        if cls.private and cls.reads not in (Reads.NOTHING, Reads.ONE_EXPERT_EACH):
            limit = "one whose experts hold their own units: one prompt of all records has no change type"
            raise ParameterError("method", name, limit)
        cls.name, cls.summary, cls.source = name, summary, source
        _ANSWERERS.enter(name, cls)
        return cls

    return enrol


def registered_answerers() -> dict[str, type[Answerer]]:
    """Every answerer by name."""
    return _ANSWERERS.all()


def make_answerer(name: str, /, **options: object) -> Answerer:
    """Builds an answerer by name.

    Raises:
        ParameterError: There is no such answerer, it has no such option, or an option has no guarantee.
    """
    _require_allowed(name, options)
    return make_from(_ANSWERERS, name, options)


def read_answerer_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an answerer as they were typed, read as values of their types.

    Raises:
        ParameterError: There is no such answerer, it has no such option, a text is not of the option's type, or an
            option has no guarantee.
    """
    _require_allowed(name, options)
    return read_options(_ANSWERERS, name, options)


def _require_allowed(name: str, options: Mapping[str, Any]) -> None:
    """Refuses what papers do and no budget covers, with the reason and what is allowed."""
    refused = _ANSWERERS.named(name).refused
    for option, value in options.items():
        if (reason := refused.get((option, str(value)))) is not None:
            raise ParameterError(option, value, reason)
