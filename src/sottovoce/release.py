"""What leaves the door: a value, what it cost, and a statement about it. Nothing else crosses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final, Protocol, final

from sottovoce.methods.answering.answerer import Answerer
from sottovoce.methods.base import Method, Price, Reads
from sottovoce.models.base import Isolation, weakest
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.balance import Balance
from sottovoce.privacy.numbers import factor_up, rounded_up
from sottovoce.privacy.scope import OF_AN_ANSWER, scope_of
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.terminal import json_text

RELEASE_ID_BYTES: Final = 16
"""Random bytes of the name of a charge, which is twice as many letters."""


class Certified(Protocol):
    """What every certificate says of its guarantee."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def adjacency(self) -> str: ...
    @property
    def isolation(self) -> str: ...
    @property
    def seeded(self) -> bool: ...


def figures_of(certificate: Certified) -> dict[str, Any]:
    """The figures that a certificate promises, for rows and summaries: ``None`` where it promises nothing.

    A certificate states what was charged also where the model was not seen to keep records apart, or where the noise
    was seeded; no epsilon holds then (specification 6.2).
    """
    holds = Isolation(certificate.isolation).holds and not certificate.seeded
    return {
        "epsilon": certificate.epsilon if holds else None,
        "delta": certificate.delta if holds else None,
        "adjacency": certificate.adjacency,
    }


def epsilon_in_words(certificate: Certified) -> str:
    """Its epsilon, rounded up."""
    epsilon = figures_of(certificate)["epsilon"]
    return "no privacy guarantee" if epsilon is None else f"epsilon {rounded_up(epsilon, 6)}"


@final
@dataclass(frozen=True)
class Guarantee:
    """The guarantee of an answer, fixed before anything private is read (specification 6.2).

    Attributes:
        method: Name of the method.
        event: What one answer costs.
        price: Epsilon and delta asked for one answer.
        adjacency: What one change is.
        unit: Who is protected.
        units_per_expert: g; ``None`` where prompts hold random samples.
        change: The change type; ``None`` where no private record is read.
        isolation: Whether the model was seen to keep experts apart.
        seeded: Whether the noise came from a seeded source, so that nothing is promised.
        prompts: What the experts' prompts hold, in words; ``None`` where ``units_per_expert`` says it.
        public: Inputs that are not protected.
        host: Who runs the model that read private records, where it is not this machine.
    """

    method: type[Method] | type[Answerer]
    event: DpEvent
    price: Price
    adjacency: Adjacency
    unit: str
    units_per_expert: int | None
    change: ChangeType | None
    isolation: Isolation
    seeded: bool
    prompts: str | None = None
    public: tuple[str, ...] = OF_AN_ANSWER
    host: str = ""

    @property
    def epsilon(self) -> float | None:
        """Epsilon of one answer; 0 where nothing private is read, ``None`` where there is no guarantee."""
        if self.method.reads is Reads.NOTHING:
            return 0.0
        return self.price.epsilon if self.is_private else None

    @property
    def delta(self) -> float | None:
        """Delta of one answer: 0 for a pure guarantee."""
        return None if self.epsilon is None else self._slack

    @property
    def _slack(self) -> float:
        charge = cost_of(self.event)
        return 0.0 if math.isfinite(charge.epsilon) and charge.delta == 0 else self.price.delta

    @property
    def is_private(self) -> bool:
        """Whether a guarantee can be stated."""
        if self.method.reads is Reads.NOTHING:
            return True
        return self.method.private and self.isolation.holds and not self.seeded

    @property
    def columns(self) -> dict[str, object]:
        """What the output rows of all answers under these terms have in common."""
        return {
            "method": self.method.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
        }

    def of_rows(self, rows: Iterable[Mapping[str, Any]]) -> Guarantee:
        """These terms for output rows together: without a guarantee where one of them has none.

        That is an answer whose model was seen to mix records once it had read them, perhaps by another process.
        """
        lost = self.epsilon is not None and any(row["epsilon"] is None for row in rows)
        return self.under(Isolation.NOT_VERIFIED) if lost else self

    def under(self, isolation: Isolation) -> Guarantee:
        """These terms, where no more than this can be said of the model."""
        return replace(self, isolation=weakest([self.isolation, isolation]))

    @property
    def possible_columns(self) -> Sequence[dict[str, object]]:
        """Those of answers whose model keeps records apart, and of others: what is seen of it changes as it reads, and
        another process may have drawn earlier rows."""
        kinds = (Isolation.BY_CONSTRUCTION, Isolation.NOT_VERIFIED)
        return [replace(self, isolation=isolation).columns for isolation in kinds]

    @property
    def statement(self) -> str:
        """The guarantee in words that a lawyer can read: one sentence of claim, then what it covers and what not."""
        return " ".join(part for part in (self.claim, self.scope) if part)

    @property
    def scope(self) -> str:
        """What the claim covers and what it leaves open; empty where nothing is promised or nothing private is read."""
        if self.method.reads is Reads.NOTHING or not self.is_private:
            return ""
        scope = scope_of(self.adjacency, self.unit, self.public)
        if not self.host:
            return scope
        return (
            f"{scope} The prompts, with private records in them, were sent to {self.host}; whoever runs it reads them, "
            "and no epsilon covers that."
        )

    @property
    def claim(self) -> str:
        """The guarantee in one sentence. Its figures are rounded up."""
        if self.method.reads is Reads.NOTHING:
            return f"No private record was read for this answer (method {self.method.name})."
        if not self.method.private:
            return f"This answer has NO privacy guarantee: the method {self.method.name} adds no noise."
        if self.seeded:
            return "This answer has NO privacy guarantee: its noise came from a seeded source, for tests."
        bound = f"at most a factor of {factor_up(self.price.epsilon)}"
        slack = rounded_up(self._slack, 6)
        if self._slack:
            bound += f", up to an additional probability of {slack}"
        subject = self.adjacency.sentence(self.unit)
        claim = (
            f"{subject[0].upper()}{subject[1:]} changes the probability of this answer by {bound} "
            f"(epsilon {rounded_up(self.price.epsilon, 6)}, delta {slack}, {self.adjacency.value} adjacency, "
            f"unit '{self.unit}', {self._prompts}, "
            f"change type {self.change.name if self.change else 'none'}, method {self.method.name}"
            f"{f', {self.isolation.words}' if self.isolation.holds else ''})"
        )
        return f"{claim}." if self.isolation.holds else f"{claim}; but {self.isolation.value}."

    @property
    def _prompts(self) -> str:
        if self.prompts is not None:
            return self.prompts
        g = self.units_per_expert
        return "random samples of units in each prompt" if g is None else f"{g} unit{'s' * (g > 1)} an expert"


@final
@dataclass(frozen=True, repr=False)
class Release:
    """One answer that was paid for.

    Attributes:
        value: The label, or the text.
        terms: Its guarantee.
        release_id: The name of the charge in the ledger.
        remaining: The balance of the ledger after it; ``None`` without a ledger, or where it could not be read then.
    """

    value: str
    terms: Guarantee
    release_id: str
    remaining: Balance | None

    def __repr__(self) -> str:
        return f"Release({self.value!r}, {', '.join(self._price)})"

    def _repr_html_(self) -> str:
        """The value, its price and its statement, for a notebook."""
        from sottovoce.terminal import printable

        value, price, statement = (
            escape(printable(text)) for text in (self.value, ", ".join(self._price), self.statement)
        )
        return f"<div><b>{value}</b> <small>({price})</small><br><small>{statement}</small></div>"

    @property
    def _price(self) -> tuple[str, ...]:
        """Method, price and adjacency, in words."""
        method, adjacency = f"method {self.terms.method.name}", f"{self.terms.adjacency.value} adjacency"
        if not self.terms.is_private or self.terms.epsilon is None:
            return (method, "no privacy guarantee")
        if self.terms.method.reads is Reads.NOTHING:
            return (method, "no private record read")
        delta = f"delta {rounded_up(self.terms.delta, 6)}" if self.terms.delta else ""
        return tuple(
            part for part in (method, f"epsilon {rounded_up(self.terms.epsilon, 6)}", delta, adjacency) if part
        )

    @property
    def event(self) -> DpEvent:
        """What the ledger was charged."""
        return self.terms.event

    @property
    def statement(self) -> str:
        """The guarantee in words, with what it covers and what it does not."""
        return self.terms.statement

    def as_row(self, row_id: str) -> dict[str, object]:
        """An output row of the command line."""
        return {"id": row_id, "value": self.value, **self.terms.columns, "release_id": self.release_id}


def longest_rows(row_ids: Sequence[str], terms: Guarantee, labels: Sequence[str]) -> list[dict[str, object]]:
    """Rows that are at least as long as those that ``Release.as_row`` writes under these terms, whatever is drawn.

    Args:
        row_ids: Of the questions.
        terms: Of their answers.
        labels: Of the task.
    """
    longest = max(labels, key=lambda label: len(json_text(label).encode("utf-8")))
    release_id = "0" * (2 * RELEASE_ID_BYTES)
    columns = max(terms.possible_columns, key=lambda each: len(json_text(each)))
    return [{"id": row_id, "value": longest, **columns, "release_id": release_id} for row_id in row_ids]


def is_row(row: Mapping[str, object], terms: Guarantee, labels: Sequence[str]) -> bool:
    """Whether an output row is whole: one that ``Release.as_row`` writes under these terms, for a task's labels."""
    return (
        row.keys() == {"id", "value", *terms.columns, "release_id"}
        and any(all(row[name] == value for name, value in columns.items()) for columns in terms.possible_columns)
        and row["value"] in labels
        and isinstance(row["release_id"], str)
    )
