"""Certificates: what was paid for a file of synthetic rows, in a form that a stranger can check.

A certificate holds public facts alone: the method with its parameters, the event of one batch, the figures that follow
from it, the ids of the charges, and hashes. Anybody can check that the figures follow from the event and that the rows
are the ones it speaks of. Whoever has the ledger can check that they were charged; with the records, that they were
charged to those. The hash of the records is keyed, with a key that only the ledger knows: a plain one would tell
whoever guesses the records that the guess is right.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from sottovoce.errors import InputError, SottoError
from sottovoce.models.base import Isolation
from sottovoce.privacy.accountant import RdpAccountant
from sottovoce.privacy.event_json import event_from_json, event_to_json
from sottovoce.privacy.unit import Adjacency

if TYPE_CHECKING:
    from sottovoce.methods.decoding import DecodingPlan
    from sottovoce.privacy.ledger import Ledger
    from sottovoce.records import PrivateRecords
    from sottovoce.synthesis_order import Order

FORMAT: Final = 1
_KEY: Final = re.compile(r"data key ([0-9a-f]{32})")


@final
@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        what: In words.
        holds: ``None`` where it could not be looked at.
        told: What was found.
    """

    what: str
    holds: bool | None
    told: str


@final
@dataclass(frozen=True)
class Certificate:
    """What was paid for a file of synthetic rows.

    Attributes:
        statement: One sentence that a lawyer can read.
        method: Name of the decoding method.
        parameters: All of them, public.
        adjacency: What one change is.
        unit: Who is protected.
        change: How one change can change a batch.
        epsilon: Of everything together, at ``delta``.
        delta: See ``epsilon``.
        event: What one batch was charged, which is what all of them cost.
        tokens: Most tokens of a text.
        texts: Texts of each batch.
        experts: The fixed divisor s.
        labels: The public label set.
        rows: How many there are.
        rows_sha256: Of the rows, in the form that they are written in.
        model: That wrote them.
        isolation: Whether it was seen to keep experts apart.
        seeded: Whether the noise came from a seeded source, so that nothing is promised.
        data: Keyed hash of the private records.
        ledger: Ids of the charges.
        version: Of sottovoce.
        format: Of this file.
    """

    statement: str
    method: str
    parameters: Mapping[str, Any]
    adjacency: str
    unit: str
    change: str
    epsilon: float
    delta: float
    event: Mapping[str, Any]
    tokens: int
    texts: int
    experts: int
    labels: Sequence[str]
    rows: int
    rows_sha256: str
    model: str
    isolation: str
    seeded: bool
    data: str
    ledger: Sequence[str]
    version: str
    format: int = FORMAT

    @staticmethod
    def of(
        plan: DecodingPlan,
        *,
        labels: Sequence[str],
        order: Order,
        unit: str,
        model: str,
        isolation: Isolation,
        seeded: bool,
        data: str,
        ledger: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
    ) -> Certificate:
        """For a run that is finished."""
        s = plan.setting
        return Certificate(
            statement=_statement(plan, isolation, seeded),
            method=plan.decoder.name,
            parameters=dict(plan.parameters),
            adjacency=s.adjacency.value,
            unit=unit,
            change=s.change.name,
            epsilon=plan.report.epsilon,
            delta=plan.report.delta,
            event=event_to_json(plan.event),
            tokens=s.tokens,
            texts=order.rounds,
            experts=s.experts,
            labels=list(labels),
            rows=len(rows),
            rows_sha256=rows_hash(rows),
            model=model,
            isolation=isolation.value,
            seeded=seeded,
            data=data,
            ledger=list(ledger),
            version=version("sottovoce"),
        )

    @staticmethod
    def read(file: Path) -> Certificate:
        """Reads a certificate.

        Raises:
            InputError: The file is none.
        """
        try:
            told = json.loads(file.read_text("utf-8"))
            found = Certificate(**told)
        except (OSError, ValueError, TypeError):
            raise InputError(f"{file} is no certificate, or cannot be read.") from None
        if found.format != FORMAT:
            raise InputError(f"{file} has format {found.format!r}; this version reads {FORMAT}.")
        return found

    def write(self, file: Path) -> None:
        """Writes it as JSON."""
        file.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")

    def checks(
        self,
        rows: Sequence[Mapping[str, Any]] | None = None,
        ledger: Ledger | None = None,
        records: PrivateRecords | None = None,
    ) -> list[Check]:
        """Everything that can be looked at with what is given.

        Args:
            rows: The synthetic rows.
            ledger: That was charged.
            records: The private records.
        """
        found = [self._figures(), *self._promise()]
        found.append(
            Check("the rows are those of the certificate", None, "no rows were given")
            if rows is None
            else Check(
                "the rows are those of the certificate", rows_hash(rows) == self.rows_sha256, f"{len(rows)} rows"
            )
        )
        return [*found, *self._charges(ledger, records)]

    def _figures(self) -> Check:
        what = f"epsilon {self.epsilon:.6g} at delta {self.delta:g} follows from the event"
        try:
            accountant = RdpAccountant(Adjacency.parse(self.adjacency), self.unit)
            report = accountant.compose(event_from_json(self.event)).report(self.delta)
        except SottoError as error:
            return Check(what, False, str(error))
        return Check(
            what, report.epsilon <= self.epsilon * (1 + 1e-9), f"epsilon {report.epsilon:.6g} by {report.bound}"
        )

    def _promise(self) -> list[Check]:
        return [
            Check("the noise came from the operating system", not self.seeded, "seeded" if self.seeded else "yes"),
            Check("the model kept experts apart", Isolation(self.isolation).holds, self.isolation),
        ]

    def _charges(self, ledger: Ledger | None, records: PrivateRecords | None) -> list[Check]:
        charged, data = "every text was charged before it left", "the records are those that were charged"
        if ledger is None:
            return [Check(charged, None, "no ledger was given"), Check(data, None, "no ledger was given")]
        history = [entry for entry in ledger.history() if entry["release_id"] in set(self.ledger)]
        paid = {entry["release_id"]: entry for entry in history if entry["kind"] == "reserve"}
        left = {entry["release_id"] for entry in history if entry["kind"] == "release"}
        whole = set(paid) == left == set(self.ledger)
        found = [Check(charged, whole and ledger.verify() == [], f"{len(paid)} charges, {len(left)} releases")]
        keys = {match[1] for entry in paid.values() if (match := _KEY.search(json.dumps(entry["detail"])))}
        if records is None or len(keys) != 1:
            told = "no records were given" if records is None else "the ledger has no key for them"
            return [*found, Check(data, None if records is None else False, told)]
        digest = hmac.new(bytes.fromhex(keys.pop()), records.fingerprint.encode("ascii"), hashlib.sha256).hexdigest()
        return [*found, Check(data, hmac.compare_digest(digest, self.data), "by their keyed hash")]


def rows_hash(rows: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of rows as they are written, a JSON object a line."""
    text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _statement(plan: DecodingPlan, isolation: Isolation, seeded: bool) -> str:
    if seeded:
        return "These rows have NO privacy guarantee: their noise came from a seeded source, for tests."
    s, report = plan.setting, plan.report
    claim = (
        f"{s.adjacency.sentence(s.unit).capitalize()} changes the probability of any set of outcomes of this whole "
        f"file by at most a factor of exp({report.epsilon:.4g}), up to an additional probability of {report.delta:g} "
        f"(method {plan.decoder.name}, {s.adjacency.value} adjacency, unit '{s.unit}', change type {s.change.name})"
    )
    return f"{claim}." if isolation.holds else f"{claim}; but {isolation.value}."
