"""What is asked of a synthesis run, and what that costs: public numbers alone, settled before anything is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan
from sottovoce.parameters import Number, read_fields
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import SelfComposedDpEvent
from sottovoce.privacy.numbers import exact, float_above
from sottovoce.privacy.unit import DROP, Adjacency, Assignment, change_type

MOST_TEXTS: Final = 100_000


@final
@dataclass(frozen=True)
class SynthesisConfig:
    """What a synthesis run should write. Every attribute is public.

    Attributes:
        per_label: Texts of each label.
        tokens: Most tokens of a text.
        texts_per_batch: Texts that each batch of units writes, one after another; ``None`` for all texts of a label.
            More batches are smaller and faster; fewer batches are larger, and one record has less weight in them.
        experts: s, the number of units that a batch is expected to have, by which sums are divided. ``None`` divides
            the number of units evenly, which requires that number to be public.
        max_private_tokens: Room for a unit's own records in its prompt; longer ones are cut.
        max_records: Most records of one unit that are shown.

    Raises:
        ParameterError: A number is out of range, or ``per_label`` is no multiple of ``texts_per_batch``.
    """

    per_label: int = 4
    tokens: int = 64
    texts_per_batch: int | None = None
    experts: int | None = None
    max_private_tokens: int = 96
    max_records: int = 4

    def __post_init__(self) -> None:
        for name, most in (
            ("per_label", MOST_TEXTS),
            ("tokens", 4096),
            ("max_private_tokens", 32_768),
            ("max_records", 64),
        ):
            read_fields(self, **{name: Number(1, most, whole=True, strict=True)})
        for name, most in (("texts_per_batch", self.per_label), ("experts", 10**9)):
            if getattr(self, name) is not None:
                read_fields(self, **{name: Number(1, most, whole=True, strict=True)})
        if self.per_label % self.rounds:
            raise ParameterError("texts_per_batch", self.rounds, f"a divisor of the {self.per_label} texts of a label")

    @property
    def rounds(self) -> int:
        """Texts that each batch writes."""
        return self.texts_per_batch or self.per_label

    @property
    def batches_per_label(self) -> int:
        """Disjoint batches that write for one label."""
        return self.per_label // self.rounds


def plan_of(
    decoder: Decoder, order: SynthesisConfig, price: Price, adjacency: Adjacency, unit: str, experts: int
) -> DecodingPlan:
    """What a run costs, from public numbers alone.

    Labels count as private: a replaced unit may leave its batch and join another one, a drop in each. Parameters are
    settled by the sum that a ledger keeps, rho where there is a delta, so that a budget of this price admits the run.

    A method that draws a fresh sample for every token is priced by its amplified profile, as one point.

    Raises:
        ParameterError: No parameter meets the price, or the method draws samples that no coin for each expert gives.
    """
    fresh = getattr(decoder, "fresh", "never")
    if fresh == "batch":
        raise ParameterError("fresh", fresh, "'never' or 'token': the prompts of a batch are fixed here")
    if fresh == "token" and (adjacency is not Adjacency.ADD_REMOVE or getattr(decoder, "sampling_rate", None) is None):
        limit = "with a sampling rate and --adjacency add-remove: a coin for each expert is amplified there alone"
        raise ParameterError("fresh", fresh, limit)
    # A sum of epsilons is rounded upwards: a hair below the price keeps it within a budget of that price.
    target = price if price.delta else Price(price.epsilon * (1 - 1e-12))
    return decoder.plan(
        target,
        tokens=order.tokens,
        texts=order.rounds,
        experts=experts,
        adjacency=adjacency,
        change=change_type(Assignment.OWN_SLOT, adjacency),
        labels_public=False,
        joins=DROP,
        unit=unit,
        bounds=_bounds(decoder, price.delta),
    )


def plan_of_parameters(
    decoder: Decoder, *, tokens: int, texts: int, experts: int, adjacency: Adjacency, unit: str, delta: float
) -> DecodingPlan:
    """The plan that ``plan_of`` made, from the parameters that it settled.

    Args:
        decoder: With every parameter.
        tokens: Most tokens of a text.
        texts: Of each batch.
        experts: The fixed divisor s.
        adjacency: What one change is.
        unit: Who is protected.
        delta: Of its report.

    Raises:
        ParameterError: A number is out of its range.
    """
    return decoder.plan(
        None,
        tokens=tokens,
        texts=texts,
        experts=experts,
        adjacency=adjacency,
        change=change_type(Assignment.OWN_SLOT, adjacency),
        labels_public=False,
        joins=DROP,
        unit=unit,
        delta=delta,
        bounds=_bounds(decoder, delta),
    )


def _bounds(decoder: Decoder, delta: float) -> tuple[str, ...]:
    """Accounting bounds of a run: the sum that a ledger keeps, or those that suit samples."""
    if not decoder.refundable:
        return ()
    return ("zCDP",) if delta else ("pure",)


def plan_of_charges(plan: DecodingPlan, more: int) -> DecodingPlan:
    """What a run costs in which so many charges were drawn beside those that its plan has.

    Args:
        plan: From ``plan_of``.
        more: Charges of rounds that were lost while they were drawn. Where a plan is charged as a whole, each of them
            is another whole plan, and has its delta again.
    """
    if more <= 0:
        return plan
    s, bounds = plan.setting, list(plan.report.bounds)
    if plan.decoder.refundable:
        return plan.decoder.plan(
            None,
            tokens=s.tokens,
            texts=s.texts + more,
            experts=s.experts,
            adjacency=s.adjacency,
            change=s.change,
            labels_public=s.labels_public,
            joins=s.joins,
            unit=s.unit,
            delta=plan.report.delta,
            bounds=bounds,
        )
    event = SelfComposedDpEvent(plan.event, 1 + more)
    total = RdpAccountant(s.adjacency, s.unit).compose(event)
    delta = float_above(exact(plan.report.delta) * (1 + more))  # not below what the points fail with together
    return replace(plan, event=event, report=total.report(delta))


def restated(plan: DecodingPlan, epsilon: object) -> DecodingPlan:
    """The plan as a run that goes on stated it, where another processor had rounded its epsilon in another way.

    Args:
        plan: From ``plan_of``, worked out here.
        epsilon: What the run noted.

    Returns:
        The plan with that epsilon, where the two are the same but for rounding; otherwise ``plan``.
    """
    report = plan.report
    if not isinstance(epsilon, float) or not math.isclose(report.epsilon, epsilon, rel_tol=report.rounding):
        return plan
    report = replace(report, epsilon=epsilon)
    return replace(plan, report=report, event=plan.decoder.charge(plan.setting, report))


def terms_of(plan: DecodingPlan, order: SynthesisConfig, writing: GenerationTemplate) -> dict[str, Any]:
    """A run in public words."""
    return {
        "method": plan.decoder.name,
        **{f"method's {name}": value for name, value in plan.parameters.items()},
        "epsilon": plan.report.epsilon,
        "delta": plan.report.delta,
        "adjacency": plan.setting.adjacency.value,
        "labels": list(writing.labels),
        "fields": list(writing.fields),
        "label_field": writing.task.label_field if writing.task else None,
        "opening": writing.before,
        "lead": writing.lead,
        "schema": writing.schema,
        "grammar": writing.grammar,
        **({"request": writing.request} if writing.request else {}),
        "per_label": order.per_label,
        "texts_per_batch": order.rounds,
        "tokens": order.tokens,
        "experts": plan.setting.experts,
        "inside_tokens": order.max_private_tokens,
        "max_records": order.max_records,
    }


LONGEST_TOKEN: Final = 128
"""Bytes of a token in a staged round, quoted as JSON; tokens of known models are shorter."""


def room_of(order: SynthesisConfig, writing: GenerationTemplate, texts: int) -> int:
    """Bytes that so many texts take up aside at their longest; public."""
    labels = max(len(label.encode("utf-8")) for label in writing.labels)
    return texts * (order.tokens * LONGEST_TOKEN + 6 * labels + 256)
