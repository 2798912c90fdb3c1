"""What a batch of texts is charged: its public facts, its steps, and the plan that both make.

Guarantee   ``BatchPlan.event`` covers every text of a batch, each token chosen in the knowledge of those before it.
Assumes     A fixed public divisor; batches that are disjoint by a rule that looks at no data.
Sources     specification 1.5, 6.2 to 6.5, T13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, final

from sottovoce.errors import ParameterError
from sottovoce.parameters import Number, options_of, read_fields
from sottovoce.privacy.accounting.accountant import Report
from sottovoce.privacy.events import BoundedRange, ComposedDpEvent, DpEvent, NoOpDpEvent, SelfComposedDpEvent
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.step_costs import StepCost
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop

PLAN_BOUNDS: Final = ("pure", "RDP", "zCDP")
"""The bounds by which a plan is calibrated by default. A zCDP ledger wants ``("zCDP",)``."""

MOST_TOKENS: Final = 10**6


@final
@dataclass(frozen=True)
class Setting:
    """The public facts of one batch: a group of experts and the texts that are written from it.

    Attributes:
        tokens: Most tokens of a text, its end counted.
        texts: Texts written from the same experts.
        experts: s, the fixed divisor: the number of experts a batch is made for, whatever it turns out to hold.
        adjacency: The relation to be protected under.
        change: How one change of the data inside one batch can change its experts.
        labels_public: Whether a unit stays in its batch when it is replaced. Where batches follow private labels, a
            replaced unit may leave one batch and join another.
        joins: What a unit's arrival in a batch does to its experts, where labels are private; by default ``change``.
        unit: For reports.

    Raises:
        ParameterError: A size is below 1, or a drop is stated under replace-one.
    """

    tokens: int
    texts: int
    experts: int
    adjacency: Adjacency
    change: ChangeType
    labels_public: bool = True
    joins: ChangeType | None = None
    unit: str = "record"

    def __post_init__(self) -> None:
        sizes = Number(1, MOST_TOKENS, whole=True, strict=True)
        read_fields(self, tokens=sizes, texts=sizes, experts=sizes)
        if is_drop(self.change) and self.adjacency is Adjacency.REPLACE_ONE:
            raise ParameterError("change", self.change.name, "a swap: under replace-one an expert says something else")

    @property
    def two_batches(self) -> bool:
        """Whether one change can touch two batches."""
        return self.adjacency is Adjacency.REPLACE_ONE and not self.labels_public


@final
@dataclass(frozen=True)
class Part:
    """Steps of one kind.

    Attributes:
        row: What one of them costs.
        steps: How often in one text or answer, at most.
    """

    row: StepCost
    steps: int = 1


class PricedDecoder(Protocol):
    """What a plan knows of the method that it is for: a frozen dataclass of public parameters."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def refundable(self) -> bool:
        """Whether a text that ends early costs its own steps alone."""

    def parts(self, setting: Setting) -> Sequence[Part]:
        """What one text consists of, the private token first."""


@dataclass(frozen=True)
class BatchPlan:
    """What a batch of texts costs, fixed before anything private is read.

    Attributes:
        decoder: With every parameter calibrated.
        setting: The batch it is for.
        event: What one batch is charged, all its texts at their longest. Disjoint batches under the same plan cost no
            more than one (specification T13); with private labels under replace-one it covers both batches touched.
        report: Its cost, for reports.
    """

    decoder: PricedDecoder
    setting: Setting
    event: DpEvent
    report: Report

    @property
    def token_event(self) -> DpEvent:
        """What one private token costs inside its batch."""
        return self.decoder.parts(self.setting)[0].row.event(self.setting.change)

    @property
    def eta(self) -> float | None:
        """Bounded range of one private token; ``None`` where it has another kind of guarantee."""
        event = self.token_event
        return event.eta if isinstance(event, BoundedRange) else None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every public parameter of the method."""
        return {name: getattr(self.decoder, name) for name in options_of(type(self.decoder))}

    @property
    def sentence(self) -> str:
        """The plan in words, for reports and certificates (specification 6.2)."""
        s = self.setting
        eta = "" if self.eta is None else f"eta {rounded_up(self.eta, 6)} a token, "
        batches = (
            "batches that a replaced unit may move between"
            if s.two_batches
            else "any number of disjoint batches cost what one costs"
        )
        return (
            f"{self.decoder.name}: {s.texts} x {s.tokens} tokens from {s.experts} experts, {eta}{s.change.name}; "
            f"{self.report}; {batches}."
        )

    def of_tokens(self, counts: Sequence[int]) -> DpEvent:
        """What so many steps of each part cost: of what was executed, where it is public how much that was."""
        parts = self.decoder.parts(self.setting)
        return together([repeated(p.row.event(self.setting.change), n) for p, n in zip(parts, counts, strict=True)])


def repeated(event: DpEvent, count: int) -> DpEvent:
    """That many releases of one kind."""
    return SelfComposedDpEvent(event, count) if count else NoOpDpEvent()


def together(events: Sequence[DpEvent]) -> DpEvent:
    """Releases of several kinds."""
    return events[0] if len(events) == 1 else ComposedDpEvent(list(events))
