"""What a decoding method is: how a text's next token is chosen from the scores of many prompts, and what texts cost.

A ``Decoder`` holds public parameters, of which one may be left open. ``plan`` settles it from a price and says what one
batch of experts is charged; ``start`` gives a chooser for one text, which turns each ``Step`` into a token.

Guarantee   See ``plan`` and each method.
Assumes     Isolation of the rows; a fixed public divisor; batches that are disjoint by a rule that looks at no data.
Sources     specification 1.5, 5.8 to 5.11, 6.2 to 6.5, T6, T13.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism
from sottovoce.methods.base import Price, make_from, read_options
from sottovoce.methods.decoding.plan import PLAN_BOUNDS, BatchPlan, Part, Setting, repeated, together
from sottovoce.methods.decoding.sampler import TokenSampler
from sottovoce.parameters import CheckedFloats
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.accounting.calibration import calibrate
from sottovoce.privacy.accounting.event_cost import cost_of, covers
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.events import ApproximateDP, DpEvent
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.randomness import Randomness
from sottovoce.registry import Registry

__all__ = [
    "PLAN_BOUNDS",
    "Decoder",
    "DecodingPlan",
    "Part",
    "Setting",
    "TokenSampler",
    "make_decoder",
    "register_decoder",
    "registered_decoders",
]


class Decoder(CheckedFloats, ABC):
    """A decoding method: a frozen dataclass of public parameters, chosen without looking at private data."""

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    private: ClassVar[bool] = True
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {}
    """Parameters that may be left open (``None``), one at a time, and whether a larger value costs more."""
    priced_too: ClassVar[tuple[str, ...]] = ()
    """Further parameters that a price sets where they are left open."""
    further: ClassVar[tuple[type[StepCost], ...]] = ()
    """Kinds of its steps that have parameters of their own, with which ``sotto account`` can be asked."""
    divides: ClassVar[bool] = True
    """Whether sums are divided by the number of experts, so that the price depends on it."""

    @abstractmethod
    def parts(self, setting: Setting) -> Sequence[Part]:
        """What one text consists of, the private token first."""

    @abstractmethod
    def mechanisms(self, plan: DecodingPlan) -> Sequence[Mechanism]:
        """What draws, one for each part. A chooser draws from these alone; ``plan`` compares them with the charge."""

    @abstractmethod
    def start(
        self,
        plan: DecodingPlan,
        randomness: Randomness,
        *,
        eos_tokens: Sequence[int],
        forbidden_tokens: Sequence[int] = (),
    ) -> TokenSampler:
        """A chooser for one text. The plan is charged before; its decoder is this one, calibrated.

        Args:
            plan: From ``plan``.
            randomness: Source of noise.
            ends: Tokens that end a text; candidates like others.
            unwritable: Tokens that no text may hold; never candidates.
        """

    def adaptive_steps(self, setting: Setting) -> int:
        """Steps of one batch, each chosen in the knowledge of those before it."""
        return sum(part.steps * part.row.steps for part in self.parts(setting)) * setting.texts

    def claim(self, setting: Setting) -> Claim | None:
        """What the paper states for one batch."""
        return None

    @property
    def refundable(self) -> bool:
        """Whether steps never executed may be given back: not where one point of a profile was charged (6.5)."""
        return True

    @property
    def bounds(self) -> Collection[str]:
        """Accounting bounds for the plan, unless others are asked for."""
        return PLAN_BOUNDS

    def event(self, setting: Setting) -> DpEvent:
        """What one batch is charged: of its alternatives one that no other costs more than in any currency of a ledger.

        Where there is none, it is all of them. Every parameter must be calibrated.
        """
        first, *rest = self.alternatives(setting)
        if not rest:
            return first
        costs = [cost_of(event) for event in (first, *rest)]
        for event, cost in zip((first, *rest), costs, strict=True):
            if all(covers(cost, other) for other in costs):
                return event
        return together([first, *rest])

    @final
    def charge(self, setting: Setting, report: Report) -> DpEvent:
        """What a ledger is charged for one batch: its event, or where steps are sampled one point of its profile."""
        return self.event(setting) if self.refundable else ApproximateDP(report.epsilon, report.delta)

    def alternatives(self, setting: Setting) -> Sequence[DpEvent]:
        """What one change can be: one inside a batch; where batches follow private labels, one in each of two (T13)."""
        within = self._composed(setting, setting.change)
        if not setting.two_batches:
            return [within]
        return [within, repeated(self._composed(setting, setting.joins or setting.change), 2)]

    def _composed(self, setting: Setting, change: ChangeType) -> DpEvent:
        return together([repeated(part.row.event(change), part.steps * setting.texts) for part in self.parts(setting)])

    def calibrated(self, price: Price | None, setting: Setting, bounds: Collection[str]) -> Self:
        """Itself with its open parameter calibrated.

        Raises:
            ParameterError: More than one is open, or one is and no price was given.
        """
        open_dials = [name for name in self.calibrated_parameters if getattr(self, name) is None]
        if not open_dials:
            return self
        if len(open_dials) > 1:
            raise ParameterError(" and ".join(open_dials), None, "given, all but one: the price settles one of them")
        calibrated_parameter = open_dials[0]
        if price is None:
            raise ParameterError(calibrated_parameter, None, "given where no price is, since the price would settle it")
        calibration = calibrate(
            lambda value: replace(self, **{calibrated_parameter: value}).event(setting),
            price.epsilon,
            price.delta,
            setting.adjacency,
            increasing=self.calibrated_parameters[calibrated_parameter],
            bounds=bounds,
            unit=setting.unit,
        )
        return replace(self, **{calibrated_parameter: calibration.parameter})

    @final
    def plan(
        self,
        price: Price | None,
        *,
        tokens: int,
        texts: int = 1,
        experts: int,
        adjacency: Adjacency,
        change: ChangeType,
        labels_public: bool = True,
        joins: ChangeType | None = None,
        unit: str = "record",
        delta: float = 1e-6,
        bounds: Collection[str] = (),
    ) -> DecodingPlan:
        """Settles the parameters and prices one batch. Nothing is read.

        Args:
            price: What one batch may cost. ``None`` prices the parameters as they are, at ``delta``.
            tokens: As in ``Setting``, like those that follow.
            texts: See there.
            experts: See there.
            adjacency: See there.
            change: See there.
            labels_public: See there.
            joins: See there.
            unit: See there.
            delta: Of the report, without a price.
            bounds: Names of accounting bounds to rely on; by default ``PLAN_BOUNDS``, or those that suit samples.

        Raises:
            ParameterError: The parameters given cost more than the price, or no parameter meets it.
            AssertionError: What draws costs something else than what is charged, or several texts cost more than each
                by itself, as a run is charged: the decoder is wrong.
        """
        setting = Setting(tokens, texts, experts, adjacency, change, labels_public, joins, unit)
        bounds = bounds or self.bounds
        decoder = self.calibrated(price, setting, bounds)
        alternatives, whole = decoder.alternatives(setting), decoder.event(setting)
        reports = [
            RdpAccountant(adjacency, unit).compose(event).report(price.delta if price else delta, bounds)
            for event in [*alternatives, *([] if whole in alternatives else [whole])]
        ]
        report = max(reports, key=lambda candidate: candidate.epsilon)
        if price is not None and report.epsilon > price.epsilon:
            raise ParameterError(
                "epsilon", price.epsilon, f"at least {rounded_up(report.epsilon, 6)}, the cost of {decoder}"
            )
        plan = DecodingPlan(decoder, setting, decoder.charge(setting, report), report)
        charged = [part.row.event(change) for part in decoder.parts(setting)]
        drawn = [mechanism.event for mechanism in decoder.mechanisms(plan)]
        if charged != drawn:
            raise AssertionError(f"{decoder.name} is charged {charged} and draws from mechanisms that cost {drawn}")
        alone = decoder.event(replace(setting, texts=1))
        if decoder.refundable and not covers(cost_of(repeated(alone, texts)), cost_of(whole)):
            raise AssertionError(f"{texts} texts of {decoder.name} cost {whole}, and each by itself {alone}")
        return plan


@final
@dataclass(frozen=True)
class DecodingPlan(BatchPlan):
    """What a batch costs, with the decoder that writes it."""

    decoder: Decoder


_DECODERS = Registry[type[Decoder]]("decoder", "sottovoce.methods", parameter="method")
T = TypeVar("T", bound=type[Decoder])


def register_decoder(name: str, *, summary: str, source: str) -> Callable[[T], T]:
    """Enrols a decoding method under its published name, for ``sotto synthesize --method``."""

    def enrol(cls: T) -> T:
        cls.name, cls.summary, cls.source = name, summary, source
        _DECODERS.enter(name, cls)
        return cls

    return enrol


def registered_decoders() -> dict[str, type[Decoder]]:
    """Every decoding method of this folder by name."""
    return _DECODERS.all()


def read_decoder_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a decoding method as they were typed, read as values of their types.

    Raises:
        ParameterError: There is no such method, it has no such option, or a text is not of the option's type.
    """
    return read_options(_DECODERS, name, options)


def make_decoder(name: str, /, **options: object) -> Decoder:
    """Builds a decoding method by name.

    Raises:
        ParameterError: There is no such method, or it has no such option.
    """
    return make_from(_DECODERS, name, options)
