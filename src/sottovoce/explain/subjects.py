"""Every name that ``sotto account`` knows: the methods, the decoding methods, and the cost models.

Nothing is priced here. Parts, noise, charges and claims are the registered classes' own, so that an explanation and the
ledger's charge cannot be two things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final, Self, final

from sottovoce.errors import NonPrivateError, ParameterError
from sottovoce.explain.cost_model import CostModel, registered_cost_models
from sottovoce.explain.price import least
from sottovoce.explain.subject import ALIASES, Change, Counted, Setting, Subject, composed, plain, sorted_out
from sottovoce.methods.base import Method, Price, Subsampling, registered_methods
from sottovoce.methods.decoding.decoder import Decoder, registered_decoders
from sottovoce.methods.decoding.decoder import Setting as Batch
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Checked, Option, Switch, Whole, limits_of, nearest, options_of
from sottovoce.privacy.accounting.composition import merge
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import ApproximateDP, DpEvent, NoOpDpEvent
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import Adjacency

Kind = type[Method] | type[Decoder] | type[CostModel]
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
    general = options_of(Texts if issubclass(kind, Decoder) else Answer)
    steps = kind.further if issubclass(kind, Decoder) else kind.kinds_of_step()
    further = {name: option for step in steps for name, option in options_of(step).items()}
    if issubclass(kind, Decoder):
        further = {name: option for name, option in further.items() if option.default is not MISSING}
    return {**further, **(general if steps or issubclass(kind, Decoder) else {}), **own}


def registered_subjects() -> dict[str, Kind]:
    """Every entry of the three registries by name."""
    subjects: dict[str, Kind] = {**registered_methods(), **registered_decoders(), **registered_cost_models()}
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
    kinds = registered_subjects()
    if name not in kinds:
        names = [*kinds, "events"]
        raise ParameterError("method", name, f"one of {', '.join(names)}{nearest(name, names)}")
    kind = kinds[name]
    if issubclass(kind, CostModel):
        return kind.make(values)
    if not kind.private:
        raise NonPrivateError(
            f"The method {name!r} has no privacy guarantee, so that it has no price: {kind.summary}. A ledger refuses "
            "it, unless the owner allows it by name, and then notes every answer."
        )
    return Decoding.make(kind, values) if issubclass(kind, Decoder) else Answering.make(kind, values)


def _title(registered: Method | Decoder) -> str:
    return f"{registered.summary[:1].upper()}{registered.summary[1:]} ({registered.source})"


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
        known = {f.name for f in fields(step)} - set(method.options) if step else set()
        for name, value in rest.items():
            if name not in known:
                raise ParameterError(name, value, f"absent: this variant of {kind.name} has no such option")
        subject = cls(method, step, rest, answer)
        subject._own = {**method.options, **own}
        if step and subject.open_parameter is None:
            subject._single_step  # noqa: B018  # its parameters are in range
        return subject

    _own: Mapping[str, Any] = {}

    @property
    def title(self) -> str:
        return _title(self._method)

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
        return next(f.name for f in fields(self._kind) if f.default is MISSING and f.name not in self._method.options)

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
        return self._kind(**self._method.public_of(self._kind, self._method.options), **self._noise)

    def parts(self, change: Change) -> Sequence[Part]:
        return [Part(self._single_step, self._answer.tokens)] if self._kind else []

    def priced(self, setting: Setting, change: Change) -> Self | None:
        """As the method sets its noise for an answer; not for variants and multiples that only exist as a price."""
        if self._kind is not self._method.step or self._noise or self._answer.tokens > 1 or setting.epsilon is None:
            return None
        step = self._method.step_at(Price(setting.epsilon, setting.delta), change.kind, change.adjacency)
        return self._with({str(self.calibrated): getattr(step, str(self.calibrated))})

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

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        if self._kind is None:
            return NoOpDpEvent()
        if self._kind is not self._method.step or self._answer.tokens > 1:
            return None
        event = composed(self.parts(change), change.kind)
        if not self._method.can_fail:
            return event
        if setting.epsilon is not None and change.adjacency.value == setting.adjacency:
            return ApproximateDP(setting.epsilon, setting.delta)
        return ApproximateDP(least([[[(event, 1)]]], setting.delta, change.adjacency).epsilon, setting.delta)


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
        return _title(self._decoder)

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
        return [[[*merge([event]).items()]] for event in self._decoder.alternatives(self._batch(change))]

    def adaptive_steps(self, change: Change) -> int:
        return self._decoder.adaptive_steps(self._batch(change))

    def claim(self) -> Claim | None:
        change = Setting().change
        return self._decoder.claim(self._batch(Change(SOME, change(SOME), change(SOME))))

    @property
    def used(self) -> dict[str, Any]:
        own = {field.name: getattr(self._decoder, field.name) for field in fields(self._decoder)}
        texts = {**vars(self._texts), **{alias: vars(self._texts)[name] for alias, name in ALIASES.items()}}
        return {n: plain(value) for n, value in {**texts, **own, **self._further}.items() if value is not None}

    def charge(self, setting: Setting, change: Change) -> DpEvent | None:
        if self._further:
            return None
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
