"""Fits and long answers as they are planned: the price, the parameters and the charge are those of the plan itself.

Guarantee   What is explained for the stated adjacency is the event of ``Fitter.plan`` and ``Answerer.plan``, by which a
            run is charged. The other adjacencies show what the same parameters cost in a run under them.
Assumes     The ledger adds what ``currency`` says.
Sources     specification 5.4 to 5.7, 5.13 to 5.17, 6.5, 7.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar, final

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.experts.sampling import ALL, MOST_EXPERTS, SAMPLINGS, WITHOUT_REPLACEMENT, ExpertSampling
from sottovoce.explain.subject import Change, Counted, Setting, Subject, mechanism_of, plain, sorted_out, title_of
from sottovoce.methods.answering.answerer import Answerer, AnswerPlan, AnswerSetting, read_answerer_options
from sottovoce.methods.answering.public import ANSWERS
from sottovoce.methods.base import Price, Reads
from sottovoce.methods.decoding.plan import Part
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter
from sottovoce.parameters import Checked, Number, OneOf, Share, Whole, nearest, options_of
from sottovoce.privacy.accounting.composition import merge
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.step_costs import StepCost, figures_of
from sottovoce.privacy.unit import Adjacency, Assignment, change_type

Currency = Annotated[str, OneOf(("epsilon", "rho"))]
"""What the ledger adds: epsilons and deltas, or rho (zCDP); one of Renyi divergences is charged like the latter."""
DIMENSION: Final = 384
"""Of the built-in embedder."""


@final
@dataclass(frozen=True)
class OfFit(Checked):
    """The public numbers that a fit is planned for.

    Attributes:
        labels: Number of labels.
        units: Number of units, where it is public.
        candidates: Number of public texts, for methods that use some.
        dimension: Length of the embedder's vectors.
        currency: What the ledger adds; a ledger that a fit opens adds epsilons.
    """

    labels: Whole
    units: Whole | None = None
    candidates: Whole | None = None
    dimension: Whole = DIMENSION
    currency: Currency = "epsilon"


@final
@dataclass(frozen=True)
class OfAnswers(Checked):
    """The public numbers that a long answer is planned for.

    Attributes:
        experts: How many experts write; by default as many as it takes to use every unit.
        units: Number of units, where it is public.
        sampling: Which units experts see, as for ``sotto answer``.
        sampling_probability: The chance of a unit to be in a categorical sample.
        candidates: Number of public answers.
        public_keywords: Number of public keywords.
        dimension: Length of the embedder's vectors.
        currency: What the ledger adds; by default a ledger adds rho.
    """

    experts: Annotated[int, Number(1, MOST_EXPERTS, whole=True)] | None = None
    units: Whole | None = None
    sampling: Annotated[str, OneOf(SAMPLINGS)] = ALL
    sampling_probability: Share | None = None
    candidates: Whole = ANSWERS + 1
    public_keywords: Whole = 200
    dimension: Whole = DIMENSION
    currency: Currency = "rho"


def _is_one_of(event: DpEvent, known: Iterable[DpEvent]) -> bool:
    """Whether a step's event is among those that are charged, but for how its noise was rounded."""
    mine = figures_of(event)
    return any(type(event) is type(other) and _near(mine, figures_of(other)) for other in known)


def _near(mine: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return mine.keys() == other.keys() and all(math.isclose(mine[name], other[name], rel_tol=1e-9) for name in mine)


@contextmanager
def _named(typed: Mapping[str, str]) -> Iterator[None]:
    """Names options in errors as they were typed."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(typed.get(error.name, error.name), error.value, error.limit) from None


P = TypeVar("P", FitPlan, AnswerPlan)


class Planned(Subject, Generic[P]):
    """Something whose plan settles its parameters and says what is charged."""

    _plan: P | None = None
    _adjacency: Adjacency | None = None

    @property
    def calibrated(self) -> None:
        return None

    @property
    def open_parameter(self) -> None:
        return None

    def with_noise(self, value: float) -> Self:
        raise ParameterError("epsilon", value, f"absent: {self.name} is planned at a price as a whole")

    def parts(self, change: Change) -> Sequence[Part]:
        return ()

    @abstractmethod
    def settled(self, setting: Setting) -> Self:
        """The plan for the stated adjacency."""

    @abstractmethod
    def event(self, adjacency: Adjacency) -> DpEvent:
        """What is done to the data in a run under this adjacency, with the parameters of the plan.

        Raises:
            AssignmentError: There is no such run.
        """

    @abstractmethod
    def _charge(self, setting: Setting, adjacency: Adjacency) -> DpEvent:
        """What such a run is charged under another adjacency, at what it costs there."""

    @abstractmethod
    def _steps(self, adjacency: Adjacency) -> Sequence[StepCost]:
        """The steps that are released under this adjacency, of each kind one."""

    def _base(self, adjacency: Adjacency) -> DpEvent:
        """The event that the steps make up, before a sample amplifies it."""
        return self.event(adjacency)

    def counted(self, change: Change) -> Counted:
        try:
            return [*merge([self.event(change.adjacency)]).items()]
        except ParameterError as error:
            if change.adjacency is self._adjacency:
                raise
            raise AssignmentError(f"No run under {change.adjacency.value} has these parameters: {error}") from None

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        if self._plan is not None and change.adjacency is self._adjacency:
            return self._plan.charge
        try:
            return self._charge(setting, change.adjacency)
        except ParameterError:  # no price that a run can have
            return None

    def sensitivities(self, change: Change) -> Sequence[str]:
        known = merge([self._base(change.adjacency)])
        kept = [step for step in self._steps(change.adjacency) if _is_one_of(step.event(change.kind), known)]
        return [str(step.sensitivity(change.kind)) for step in kept]

    def mechanisms(self, change: Change) -> Sequence[str]:
        return [*dict.fromkeys(mechanism_of(step) for step in self._steps(change.adjacency))]


@final
class Fit(Planned[FitPlan]):
    """A fitter: one fit, after which answers are free."""

    once: ClassVar[bool] = True

    def __init__(self, fitter: Fitter, of: OfFit, unit: str = "record") -> None:
        self.name, self._fitter, self._of, self._unit = fitter.name, fitter, of, unit

    @classmethod
    def make(cls, kind: type[Fitter], values: Mapping[str, Any]) -> Self:
        """The fitter with these parameters, as numbers or as text.

        Raises:
            ParameterError: It has no such option, or one is missing or out of range.
        """
        read = sorted_out(kind.name, values, {**options_of(OfFit), **options_of(kind)}, {})
        own = {name: read.pop(name) for name in [*read] if name in options_of(kind)}
        for option in options_of(OfFit).values():
            if option.default is MISSING and option.name not in read:
                raise ParameterError(option.name, None, f"given, as {option.limit}")
        of = OfFit(**read)
        if kind.pool == "required" and of.candidates is None:
            raise ParameterError("candidates", None, f"given: {kind.name} chooses among public texts, so many of them")
        if kind.pool == "unused" and of.candidates is not None:
            raise ParameterError("candidates", of.candidates, f"absent: {kind.name} reads no public texts")
        return cls(kind(**own), of)

    @property
    def title(self) -> str:
        return title_of(self._fitter)

    @property
    def placed(self) -> bool:
        return False

    def change_at(self, setting: Setting, adjacency: Adjacency) -> Change:
        kind = change_type(Assignment.OWN_SLOT, adjacency)
        return Change(adjacency, kind, kind)

    @property
    def why(self) -> str:  # type: ignore[override]
        """What one change does."""
        return "every unit adds by itself"

    def settled(self, setting: Setting) -> Self:
        if setting.epsilon is None:
            raise ParameterError("epsilon", None, "given: the price of the whole fit, which is charged once")
        adjacency = Adjacency.parse(setting.adjacency)
        if adjacency.size_is_public and self._of.units is None:
            raise ParameterError("units", None, f"given: under {adjacency.value} their number is public")
        subject = type(self)(self._fitter, self._of, setting.unit)
        plan = self._fitter.plan(Price(setting.epsilon, setting.delta), subject._at(adjacency))
        subject._plan, subject._fitter, subject._adjacency = plan, plan.fitter, adjacency
        return subject

    def event(self, adjacency: Adjacency) -> DpEvent:
        if self._plan is not None and adjacency is self._adjacency:
            return self._plan.event
        return self._fitter.event(self._at(adjacency))

    @property
    def used(self) -> dict[str, Any]:
        values = {**vars(self._of), **self._fitter.options}
        return {name: plain(value) for name, value in values.items() if value is not None}

    def _charge(self, setting: Setting, adjacency: Adjacency) -> DpEvent:
        at = self._at(adjacency)
        cost = at.cost(self._fitter.event(at), setting.delta).epsilon
        return self._fitter.plan(Price(cost, setting.delta), at).charge

    def _steps(self, adjacency: Adjacency) -> Sequence[StepCost]:
        return [self._fitter.released(self._at(adjacency))]

    def _at(self, adjacency: Adjacency) -> FitSetting:
        of = self._of
        if adjacency.size_is_public and of.units is None:
            raise AssignmentError(f"Under {adjacency.value} the number of units is public: name it (units).")
        return FitSetting(
            labels=of.labels,
            dimension=of.dimension,
            units=of.units if adjacency.size_is_public else None,
            adjacency=adjacency,
            change=change_type(Assignment.OWN_SLOT, adjacency),
            candidates=of.candidates or 0,
            adds_epsilons=of.currency == "epsilon",
            unit=self._unit,
        )


@final
class Answers(Planned[AnswerPlan]):
    """An answerer: one answer after another, each of them paid."""

    def __init__(
        self, answerer: Answerer, of: OfAnswers, typed: Mapping[str, str], setting: Setting | None = None
    ) -> None:
        self.name, self._answerer, self._of, self._typed = answerer.name, answerer, of, typed
        self._setting = setting or Setting()

    @staticmethod
    def places(setting: Setting) -> bool:
        """Whether an answerer places its experts so."""
        usual = (None, "own-slot") if setting.units_per_expert == 1 else (None, "stable-id")
        return setting.slots_per_unit == 1 and setting.assignment in usual

    @classmethod
    def make(cls, kind: type[Answerer], values: Mapping[str, Any], typed: Mapping[str, str]) -> Self:
        """The answerer with these parameters, as numbers or as text.

        Args:
            kind: Its class.
            values: Its own options, and those of ``OfAnswers``.
            typed: How options were typed that have another name here, by this name.

        Raises:
            ParameterError: It has no such option, or one is missing or out of range.
        """
        known = {**options_of(OfAnswers), **options_of(kind)}
        for name in values.keys() - known.keys():
            limit = f"absent: {kind.name} has {', '.join(known)}{nearest(name, [*known])}"
            raise ParameterError(typed.get(name, name), values[name], limit)
        own = {name: value for name, value in values.items() if name not in options_of(OfAnswers)}
        given = {name: value for name, value in values.items() if name in options_of(OfAnswers)}
        with _named(typed):
            of = OfAnswers(**sorted_out(kind.name, given, options_of(OfAnswers), {}))
            return cls(kind(**read_answerer_options(kind.name, own)), of, typed)

    @property
    def title(self) -> str:
        return title_of(self._answerer)

    def change_at(self, setting: Setting, adjacency: Adjacency) -> Change:
        kind = self._at(adjacency).change
        return Change(adjacency, kind, kind)

    def placement(self, setting: Setting) -> str:
        return super().placement(setting) if self._of.sampling == ALL else "a fresh sample for every answer"

    def settled(self, setting: Setting) -> Self:
        if not self.places(setting):
            name = "slots_per_unit" if setting.slots_per_unit > 1 else "assignment"
            raise ParameterError(name, getattr(setting, name), f"absent: experts of {self.name} are not placed so")
        adjacency, of = Adjacency.parse(setting.adjacency), self._of
        if of.sampling == WITHOUT_REPLACEMENT and of.units is None:
            raise ParameterError("units", None, "given: how far a sample amplifies follows from their number")
        subject = type(self)(self._answerer, of, self._typed, setting)
        subject._adjacency = adjacency
        with _named(self._typed):
            subject._settle(subject._at(adjacency))
        return subject

    def _settle(self, at: AnswerSetting) -> None:
        """Plans the answer at its price; at that of the noise where this alone was given, if an answer can have it."""
        delta, free = self._delta(at), self._answerer.reads is Reads.NOTHING
        if self._setting.epsilon is not None or free:
            self._plan = self._answerer.plan(Price(self._setting.epsilon or 1.0, delta), at)
            self._answerer = self._plan.answerer
            return
        for name in self._answerer.open_parameters:
            if getattr(self._answerer, name) is None:
                raise ParameterError(name, None, "given, or epsilon, the price of one answer, which sets it")
        if not self._answerer.open_parameters or at.rate is not None:
            raise ParameterError("epsilon", None, "given: the price of one answer")

    def event(self, adjacency: Adjacency) -> DpEvent:
        if self._plan is not None and adjacency is self._adjacency:
            return self._plan.event
        at = self._at(adjacency)
        if at.rate is not None:
            raise AssignmentError(
                f"A sample is amplified for the adjacency that was stated; ask with --adjacency {adjacency.value}."
            )
        return self._answerer.event(at)

    def _base(self, adjacency: Adjacency) -> DpEvent:
        return self._answerer.event(self._at(adjacency))

    def claim(self) -> Claim | None:
        return self._answerer.claim(self._at(self._adjacency or Adjacency.REPLACE_ONE))

    @property
    def used(self) -> dict[str, Any]:
        of = {name: value for name, value in vars(self._of).items() if name in self._needed}
        return {name: plain(value) for name, value in {**of, **self._answerer.options}.items() if value is not None}

    @property
    def _needed(self) -> set[str]:
        """Public numbers that say something to this answerer."""
        needs = {"Embedder": {"dimension"}, "pool": {"candidates"}}
        return {"experts", "units", "sampling", "sampling_probability", "currency"}.union(
            *(needs[need] for need in self._answerer.needs if need in needs)
        )

    def _charge(self, setting: Setting, adjacency: Adjacency) -> DpEvent:
        at = self._at(adjacency)
        free = self._answerer.reads is Reads.NOTHING
        delta = self._delta(at)
        cost = 1.0 if free else at.cost(self._answerer.event(at), delta).epsilon
        return self._answerer.plan(Price(cost, delta), at).charge

    def _delta(self, at: AnswerSetting) -> float:
        """Of one answer: a fresh sample spends its delta, so that a run has none where it is not named or needed."""
        if at.rate is None or self._answerer.needs_delta:
            return self._setting.delta
        return self._setting.answer_delta or 0.0

    def _steps(self, adjacency: Adjacency) -> Sequence[StepCost]:
        return [step for step, _ in self._answerer.cost(self._at(adjacency))]

    def _at(self, adjacency: Adjacency) -> AnswerSetting:
        of, setting = self._of, self._setting
        sampling = ExpertSampling(
            setting.units_per_expert,
            of.experts,
            of.sampling,
            None if of.sampling_probability is None else float(of.sampling_probability),
        )
        return AnswerSetting(
            adjacency,
            sampling,
            of.units if adjacency.size_is_public else None,
            dimension=of.dimension,
            candidates=of.candidates,
            keywords=of.public_keywords,
            adds_epsilons=of.currency == "epsilon",
            unit=setting.unit,
        )
