"""Every name that ``sotto account`` knows: methods, decoding methods, fitters, answerers, and cost models.

Nothing is priced here. Parts, noise, charges and claims are the registered classes' own, so that an explanation and the
ledger's charge cannot be two things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final, Self, final

from sottovoce.errors import AssignmentError, NonPrivateError, ParameterError
from sottovoce.explain.cost_model import CostModel, registered_cost_models
from sottovoce.explain.planned import Answers, Fit, OfAnswers, OfFit
from sottovoce.explain.price import least
from sottovoce.explain.subject import ALIASES, Change, Counted, Setting, Subject, composed, plain, sorted_out, title_of
from sottovoce.methods.answering.answerer import Answerer, registered_answerers
from sottovoce.methods.base import Method, Price, Reads, Selecting, Subsampling, registered_methods
from sottovoce.methods.decoding.decoder import Decoder, registered_decoders
from sottovoce.methods.decoding.decoder import Setting as Batch
from sottovoce.methods.decoding.plan import Part
from sottovoce.methods.fitting.fitter import Fitter, registered_fitters
from sottovoce.parameters import Checked, Option, Switch, Whole, fields_of, limits_of, nearest, options_of
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.composition import merge
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import ApproximateDP, DpEvent, NoOpDpEvent
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import Adjacency

Kind = type[Method] | type[Decoder] | type[CostModel] | type[Fitter] | type[Answerer]
MOST_SUBSAMPLED: Final = 10**6
"""Releases of fresh samples that can be priced in all."""
SOME: Final = Adjacency.REPLACE_ONE
"""For what is the same under every adjacency."""


@final
@dataclass(frozen=True)
class Answer(Checked):
    """What an answering method is asked for.

    Attributes:
        tokens: Releases an answer, such as tokens.
    """

    tokens: Whole = 1


@final
@dataclass(frozen=True)
class Texts(Checked):
    """What a decoding method is asked for.

    Attributes:
        experts: The fixed public number by which sums over experts are divided.
        tokens: Most tokens of a text.
        texts: Texts written from the same experts.
        labels_public: Whether a replaced unit stays in its batch; where not, it may leave one and join another.
    """

    experts: Whole
    tokens: Whole = 1
    texts: Whole = 1
    labels_public: Switch = True


def options_of_kind(kind: Kind) -> dict[str, Option]:
    """Everything that ``sotto account`` can be told of one entry, by name."""
    own = options_of(kind)
    if issubclass(kind, CostModel):
        return own
    if issubclass(kind, Fitter):
        return {**options_of(OfFit), **own}
    if issubclass(kind, Answerer):
        published = registered_cost_models().get(kind.name)
        return {**options_of(published or object), **options_of(OfAnswers), **own}
    general = options_of(Texts if issubclass(kind, Decoder) else Answer)
    steps = kind.further if issubclass(kind, Decoder) else kind.kinds_of_step()
    further = {name: option for step in steps for name, option in options_of(step).items()}
    if issubclass(kind, Decoder):
        further = {name: option for name, option in further.items() if option.default is not MISSING}
    return {**further, **(general if steps or issubclass(kind, Decoder) else {}), **own}


def registered_subjects() -> dict[str, Kind]:
    """Every entry of the five registries by name; of an answerer and a cost model of one name, the answerer."""
    subjects: dict[str, Kind] = {
        **registered_cost_models(),
        **registered_answerers(),
        **registered_fitters(),
        **registered_decoders(),
        **registered_methods(),
    }
    return dict(sorted(subjects.items()))


def make_subject(name: str, /, **values: object) -> Subject:
    """What is to be explained, from options as text or as numbers.

    Raises:
        ParameterError: There is no such name, it has no such option, or an option is missing or out of range.
        NonPrivateError: The method has no guarantee, so that it has no price.

    Example:
        >>> make_subject("prism", experts="255", temperature="1.02", tokens=100).used["tokens"]
        100
    """
    return subject_of(name, values, Setting())


def subject_of(name: str, values: Mapping[str, Any], setting: Setting) -> Subject:
    """As ``make_subject``, for what is asked beside the options: where experts are placed as no answerer places them,
    a published release of its name is priced alone.
    """
    kinds = registered_subjects()
    if name not in kinds:
        names = [*kinds, "events"]
        raise ParameterError("method", name, f"one of {', '.join(names)}{nearest(name, names)}")
    kind, own = kinds[name], dict(values)
    if issubclass(kind, CostModel):
        return kind.make(own)
    if issubclass(kind, Fitter):
        return Fit.make(kind, own)
    if not kind.private:
        raise NonPrivateError(
            f"The method {name!r} has no privacy guarantee, so that it has no price: {kind.summary}. A ledger refuses "
            "it, unless the owner allows it by name, and then notes every answer."
        )
    if issubclass(kind, Answerer):
        return _answers(kind, own, setting)
    if issubclass(kind, Decoder):
        return Decoding.make(kind, own)
    answering = Answering.make(kind, own)
    return answering if answering.is_charged else Charged(answering)


def _answers(kind: type[Answerer], own: dict[str, Any], setting: Setting) -> Subject:
    """The answerer; or, as the paper of its name states it, a release that it does not draw."""
    published = registered_cost_models().get(kind.name)
    if published is None:
        return Answers.make(kind, own, {})
    for typed, mine in published.names.items():
        if typed in own and mine in own:
            raise ParameterError(mine, own[mine], f"absent where {typed} is given: it is another name of it")
    words = published.drawn(own)
    if words is None or not Answers.places(setting):
        for name in options_of_kind(kind).keys() & own.keys() - options_of(published).keys():
            limit = f"absent: a release of {kind.name} that no answer draws has {', '.join(options_of(published))}"
            raise ParameterError(name, own[name], limit)
        return published.make(own)
    return Answers.make(kind, words, {mine: typed for typed, mine in published.names.items() if typed in own})


@final
class Answering(Subject):
    """A method that answers from one release, or a few, at a price."""

    def __init__(self, method: Method, kind: type[StepCost] | None, noise: Mapping[str, Any], answer: Answer) -> None:
        self.name = method.name
        self._method, self._kind, self._noise, self._answer = method, kind, dict(noise), answer

    @classmethod
    def make(cls, kind: type[Method], values: dict[str, Any]) -> Self:
        """The method with these parameters, as numbers or as text."""
        rest = sorted_out(kind.name, values, options_of_kind(kind), {})
        own = {name: rest.pop(name) for name in [*rest] if name in options_of(kind)}
        step = next((kind.also_priced[pair] for pair in own.items() if pair in kind.also_priced), None)
        method = kind(**{name: value for name, value in own.items() if (name, value) not in kind.also_priced})
        step = step or method.step
        answer = Answer(**{name: rest.pop(name) for name in [*rest] if name in options_of(Answer)})
        known = {f.name for f in fields(step)} - set(fields_of(method)) if step else set()
        for name, value in rest.items():
            if name not in known:
                raise ParameterError(name, value, f"absent: this variant of {kind.name} has no such option")
        subject = cls(method, step, rest, answer)
        subject._own = {**method.options, **own}
        if step and subject.open_parameter is None and subject.is_charged:
            subject._single_step  # noqa: B018  # its parameters are in range
        return subject

    _own: Mapping[str, Any] = {}
    _as_drawn = False
    """Whether the method itself set the noise, for a price."""

    @property
    def title(self) -> str:
        return title_of(self._method)

    @property
    def placed(self) -> bool:
        return not isinstance(self._method, Subsampling)

    @property
    def most_steps(self) -> int:
        return super().most_steps if self.placed else MOST_SUBSAMPLED

    @property
    def calibrated(self) -> str | None:
        if self._kind is None:
            return None
        return next(
            f.name for f in fields(self._kind) if f.default is MISSING and f.name not in fields_of(self._method)
        )

    @property
    def open_parameter(self) -> str | None:
        return self.calibrated if self.calibrated not in self._noise else None

    def with_noise(self, value: float) -> Self:
        return self._with({**self._noise, str(self.calibrated): value})

    def _with(self, noise: Mapping[str, Any]) -> Self:
        subject = type(self)(self._method, self._kind, noise, self._answer)
        subject._own = self._own
        return subject

    @property
    def _single_step(self) -> StepCost:
        if self._kind is None:
            raise ParameterError("method", self.name, "one that releases something at a price")
        return self._kind(**self._method.public_of(self._kind), **self._noise)

    def parts(self, change: Change) -> Sequence[Part]:
        return [Part(self._single_step, self._answer.tokens)] if self._kind else []

    def priced(self, setting: Setting, change: Change) -> Self | None:
        """As the method sets its noise for an answer; not for variants and multiples that only exist as a price."""
        if self._kind is not self._method.step or self._noise or self._answer.tokens > 1 or setting.epsilon is None:
            return None
        step = self._method.step_at(Price(setting.epsilon, setting.delta), change.kind, change.adjacency)
        subject = self._with({str(self.calibrated): getattr(step, str(self.calibrated))})
        subject._as_drawn = True
        return subject

    def claim(self) -> Claim | None:
        if self._kind is None or self._kind is not self._method.step:
            return None
        return self._method.claim(self._single_step, self._answer.tokens)

    @property
    def used(self) -> dict[str, Any]:
        parameters = dict(self._own)
        if self._kind:
            parameters |= {**self._single_step.parameters, **vars(self._answer)}
        return {name: plain(value) for name, value in parameters.items() if value is not None}

    @property
    def reads(self) -> str:
        """Which private records its contexts hold, in words."""
        return self._method.reads.value

    @property
    def used_plain(self) -> dict[str, Any]:
        """Its own parameters."""
        return {name: plain(value) for name, value in self._own.items() if value is not None}

    def require_plain(self) -> None:
        """Refuses noise and several releases an answer, for a method that is priced by its own event.

        Raises:
            ParameterError: One was given.
        """
        tokens = {"tokens": self._answer.tokens} if self._answer.tokens > 1 else {}
        for name, value in {**self._noise, **tokens}.items():
            raise ParameterError(name, value, f"absent: {self.name} is charged by its own event, at a price (epsilon)")

    def charged_at(self, price: Price, adjacency: Adjacency) -> DpEvent:
        """What a ledger is charged for an answer."""
        return self._method.event(price, adjacency)

    @property
    def is_charged(self) -> bool:
        """Whether the step is what a ledger is charged: nothing is read, or the method's class sees to it.

        ``Selecting`` and ``Subsampling`` compare the two whenever they are charged. Of any other method the step may be
        the charge at some prices and not at others, so that its own event explains it.
        """
        if self._kind is None:
            return self._method.reads is Reads.NOTHING
        return isinstance(self._method, Selecting | Subsampling) or self._kind is not self._method.step

    def _agree(self, price: Price, event: DpEvent, adjacency: Adjacency) -> DpEvent | None:
        """What a ledger is charged for an answer, if that is the event of the step, or a bare pair for its noise."""
        charged = self._method.event(price, adjacency)
        priced = self._method.noise_event(price, adjacency) if isinstance(charged, ApproximateDP) else charged
        return charged if merge([event]) == merge([priced]) else None

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        if self._kind is None:
            return NoOpDpEvent()
        if self._kind is not self._method.step or self._answer.tokens > 1:
            return None
        event = composed(self.parts(change), change.kind)
        if setting.epsilon is not None and change.adjacency is Adjacency.parse(setting.adjacency):
            charged = self._agree(Price(setting.epsilon, setting.delta), event, change.adjacency)
            if charged is None and self._as_drawn:
                limit = "one whose step is what a ledger is charged: this one's step and event differ at the price"
                raise ParameterError("method", self.name, limit)
            return charged
        if not self._method.can_fail:
            return event
        return ApproximateDP(least([[[(event, 1)]]], setting.delta, change.adjacency).epsilon, setting.delta)


@final
class Charged(Subject):
    """A method that names no step, or another one than it is charged: its own event is all that is known of its price.

    Its noise is set for one adjacency, so that the others have no price.
    """

    def __init__(self, answering: Answering, price: Price | None = None, adjacency: Adjacency = SOME) -> None:
        self.name = answering.name
        self._answering, self._price, self._adjacency = answering, price, adjacency

    @property
    def title(self) -> str:
        return self._answering.title

    @property
    def calibrated(self) -> None:
        return None

    @property
    def open_parameter(self) -> None:
        return None

    def with_noise(self, value: float) -> Self:
        raise ParameterError("epsilon", value, f"absent: {self.name} has no single noise to set by it")

    def settled(self, setting: Setting) -> Self:
        self._answering.require_plain()
        if setting.epsilon is None:
            limit = f"given, as the price of one answer: {self.name} names no noise that has a price by itself"
            raise ParameterError("epsilon", None, limit)
        price = Price(setting.epsilon, setting.delta)
        return type(self)(self._answering, price, Adjacency.parse(setting.adjacency))

    def parts(self, change: Change) -> Sequence[Part]:
        return ()

    def counted(self, change: Change) -> Counted:
        event = self._answering.charged_at(self._charged_price, self._stated(change))
        counted = [*merge([event]).items()]
        if not counted or RdpAccountant(change.adjacency).compose(event).report(0).epsilon == 0:
            limit = f"one whose answers have a price: {self.name} reads {self._answering.reads}, and charges nothing"
            raise ParameterError("method", self.name, limit)
        return counted

    @property
    def used(self) -> dict[str, Any]:
        return self._answering.used_plain

    def charge(self, setting: Setting, change: Change) -> DpEvent:
        return self._answering.charged_at(self._charged_price, self._stated(change))

    @property
    def _charged_price(self) -> Price:
        assert self._price is not None, "a price settles it first"
        return self._price

    def _stated(self, change: Change) -> Adjacency:
        if change.adjacency is not self._adjacency:
            raise AssignmentError(
                f"{self.name} says what an answer costs where its noise is set for {self._adjacency.value} adjacency, "
                f"and not what that noise costs here; ask with --adjacency {change.adjacency.value}."
            )
        return change.adjacency


@final
class Decoding(Subject):
    """A method that writes texts token by token, from one batch of experts."""

    def __init__(self, decoder: Decoder, texts: Texts, further: Mapping[str, Any]) -> None:
        self.name = decoder.name
        self._decoder, self._texts, self._further = decoder, texts, dict(further)

    @classmethod
    def make(cls, kind: type[Decoder], values: dict[str, Any]) -> Self:
        """The decoding method with these parameters, as numbers or as text."""
        typed = {name: alias for alias, name in ALIASES.items() if alias in values and name not in values}
        try:
            return cls._make(kind, values)
        except ParameterError as error:
            raise ParameterError(typed.get(error.name, error.name), error.value, error.limit) from None

    @classmethod
    def _make(cls, kind: type[Decoder], values: dict[str, Any]) -> Self:
        rest = sorted_out(kind.name, values, options_of_kind(kind), ALIASES)
        if "experts" not in rest:
            if kind.divides:
                raise ParameterError("experts", None, f"given, as {limits_of(Texts)['experts'][0].limit}")
            rest["experts"] = 1
        texts = Texts(**{name: rest.pop(name) for name in [*rest] if name in options_of(Texts)})
        own = {name: rest.pop(name) for name in [*rest] if name in options_of(kind)}
        decoder = kind(**own)
        open_ones = [name for name in decoder.calibrated_parameters if name not in own]
        if len(open_ones) == 1 and getattr(decoder, open_ones[0]) is not None:
            decoder = replace(decoder, **{open_ones[0]: None})  # a price may set it: only what is given is fixed
        subject = cls(decoder, texts, rest)
        for name, value in rest.items():
            if not any(name in options_of(step) for step in subject._kinds):
                raise ParameterError(name, value, f"absent: this variant of {kind.name} has no such option")
        return subject

    @property
    def title(self) -> str:
        return title_of(self._decoder)

    @property
    def _kinds(self) -> Sequence[type[StepCost]]:
        """The kinds of the decoder's steps, at any noise."""
        decoder = self._decoder
        calibrated = {
            name: 1.0
            for name in (*decoder.calibrated_parameters, *decoder.priced_too)
            if getattr(decoder, name) is None
        }
        change = Setting().change
        at = Change(adjacency := SOME, change(adjacency), change(adjacency))
        return [type(part.row) for part in replace(decoder, **calibrated).parts(self._batch(at))]

    def _batch(self, change: Change) -> Batch:
        t = self._texts
        return Batch(t.tokens, t.texts, t.experts, change.adjacency, change.kind, t.labels_public, change.joins)

    @property
    def calibrated(self) -> str | None:
        names = [name for name in self._decoder.calibrated_parameters if getattr(self._decoder, name) is None]
        return names[0] if names else next(reversed([*self._decoder.calibrated_parameters]), None)

    @property
    def open_parameter(self) -> str | None:
        names = (*self._decoder.calibrated_parameters, *self._decoder.priced_too)
        return next((name for name in names if getattr(self._decoder, name) is None), None)

    def with_noise(self, value: float) -> Self:
        return type(self)(replace(self._decoder, **{str(self.calibrated): value}), self._texts, self._further)

    def parts(self, change: Change) -> Sequence[Part]:
        return [
            Part(self._with_further(part.row), part.steps * self._texts.texts)
            for part in self._decoder.parts(self._batch(change))
        ]

    def _with_further(self, row: StepCost) -> StepCost:
        mine = {name: value for name, value in self._further.items() if name in row.parameters}
        return replace(row, **mine) if mine else row

    def priced(self, setting: Setting, change: Change) -> Self | None:
        """As the decoder sets parameters that no single search can, at the price of the batch."""
        decoder = self._decoder
        if setting.epsilon is None or all(getattr(decoder, name) is not None for name in decoder.priced_too):
            return None
        calibrated = decoder.calibrated(Price(setting.epsilon, setting.delta), self._batch(change), decoder.bounds)
        return type(self)(calibrated, self._texts, self._further)

    def plans(self, change: Change) -> Sequence[Sequence[Counted]]:
        if self._further:
            return super().plans(change)
        batch = self._batch(change)
        events = [*self._decoder.alternatives(batch)]
        if (charged := self._decoder.event(batch)) not in events:
            events.append(charged)  # a decoder with an event of its own
        return [[[*merge([event]).items()]] for event in events]

    def adaptive_steps(self, change: Change) -> int:
        return self._decoder.adaptive_steps(self._batch(change))

    def claim(self) -> Claim | None:
        change = Setting().change
        return self._decoder.claim(self._batch(Change(SOME, change(SOME), change(SOME))))

    @property
    def used(self) -> dict[str, Any]:
        own = {name: getattr(self._decoder, name) for name in options_of(type(self._decoder))}
        texts = {**vars(self._texts), **{alias: vars(self._texts)[name] for alias, name in ALIASES.items()}}
        return {n: plain(value) for n, value in {**texts, **own, **self._further}.items() if value is not None}

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        if self._further or setting.epsilon is not None:
            return None  # a price takes the least of all bounds here, and in a run the sum that its ledger keeps
        batch = self._batch(change)
        if self._decoder.refundable:
            return self._decoder.event(batch)
        plan = self._decoder.plan(
            None,
            tokens=batch.tokens,
            texts=batch.texts,
            experts=batch.experts,
            adjacency=batch.adjacency,
            change=batch.change,
            labels_public=batch.labels_public,
            joins=batch.joins,
            delta=setting.delta,
        )
        return plan.event
