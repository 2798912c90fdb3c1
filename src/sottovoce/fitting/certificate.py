"""The certificate of a fit: what was paid for a support, in a form that a stranger can check.

It holds public facts alone: the request with all its words, the method with its parameters, the event, what was charged
for it, the figures that follow, the id of the charge, and hashes. Anybody can check that the figures follow from the
event, the event from the parameters and the statement from all of them, and that the support is the one it speaks of.
It is not signed: what was really charged, and what really left, only the ledger can say. The hash of the records is
keyed, with a key that never leaves the ledger: a plain one would confirm a guess of them.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self, final

from sottovoce.errors import InputError, SottoError
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, make_fitter
from sottovoce.models.base import Isolation, weakest
from sottovoce.privacy.checks import Check, asked_hash, canonical, point_of, require_same_event
from sottovoce.privacy.event_json import event_to_json
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.balance import NOT_VERIFIED_NOTE, SEEDED_NOTE
from sottovoce.privacy.ledger.secret import RECORDS, data_hash, secrets_of
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.scope import OF_A_FIT, scope_of
from sottovoce.privacy.unit import Adjacency, Assignment, change_type

if TYPE_CHECKING:
    from sottovoce.privacy.ledger.ledger import Ledger
    from sottovoce.records.sealed import PrivateRecords

FORMAT: Final = 1
_UNREADABLE: Final = (SottoError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@final
@dataclass(frozen=True)
class FitCertificate:
    """What was paid for a support.

    Attributes:
        statement: What is promised, what it covers and what not, in words that a lawyer can read.
        method: Name of the fitter.
        parameters: All of them, public.
        adjacency: What one change is.
        unit: Who is protected.
        change: How one change can change what units add.
        epsilon: Of the whole support and every answer from it, at ``delta``.
        delta: See ``epsilon``.
        event: What was done to the data.
        charge: What the ledger was charged for it.
        labels: The public label set.
        dimension: Length of the embedder's vectors.
        units: Number of units where it is public.
        candidates: Number of public texts that were given.
        content_sha256: Of the support, its task and its model.
        model: That embedded or wrote.
        embedding: What tells its vectors from any other's.
        isolation: Whether it was seen to keep records apart.
        seeded: Whether the noise came from a seeded source, so that nothing is promised.
        data: Keyed hash of the private records.
        ledger: Id of the charge.
        version: Of sottovoce.
        asked: The request in all its words, which the charge commits to.
        format: Of this certificate.
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
    charge: Mapping[str, Any]
    labels: Sequence[str]
    dimension: int
    units: int | None
    candidates: int
    content_sha256: str
    model: str
    embedding: str
    isolation: str
    seeded: bool
    data: str
    ledger: str
    version: str
    asked: Mapping[str, Any]
    format: int = FORMAT

    @classmethod
    def of(
        cls,
        plan: FitPlan,
        *,
        labels: Sequence[str],
        content_sha256: str,
        model: str,
        embedding: str,
        isolation: Isolation,
        seeded: bool,
        data: str,
        ledger: str,
        asked: Mapping[str, Any],
    ) -> Self:
        """For a support that was drawn by a plan."""
        s = plan.setting
        return cls(
            statement=statement_of(
                s.adjacency, s.unit, plan.epsilon, plan.report.delta, plan.fitter.name, isolation, seeded=seeded
            ),
            method=plan.fitter.name,
            parameters=dict(plan.parameters),
            adjacency=s.adjacency.value,
            unit=s.unit,
            change=s.change.name,
            epsilon=plan.epsilon,
            delta=plan.report.delta,
            event=event_to_json(plan.event),
            charge=event_to_json(plan.charge),
            labels=list(labels),
            dimension=s.dimension,
            units=s.units,
            candidates=s.candidates,
            content_sha256=content_sha256,
            model=model,
            embedding=embedding,
            isolation=isolation.value,
            seeded=seeded,
            data=data,
            ledger=ledger,
            version=asked["version"],
            asked=dict(asked),
        )

    @classmethod
    def from_dict(cls, content: Any, source: str) -> Self:
        """Reads what ``asdict`` wrote.

        Raises:
            InputError: It is no certificate of a fit.
        """
        try:
            certificate = cls(**content)
        except TypeError:
            raise InputError(f"{source} holds no certificate that can be read.") from None
        if certificate.format != FORMAT:
            raise InputError(
                f"{source} has a certificate of format {str(certificate.format)[:20]}; this version reads {FORMAT}. "
                "Update sottovoce."
            )
        for field in fields(cls):
            if not _KINDS[str(field.type)](getattr(certificate, field.name)):
                raise InputError(f"{source} holds no certificate: its {field.name!r} is of the wrong kind.")
        try:
            Isolation(certificate.isolation), Adjacency(certificate.adjacency)
        except ValueError:
            raise InputError(f"{source} holds no certificate: its isolation or adjacency is not known.") from None
        return certificate

    @property
    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def checks(
        self, content_sha256: str | None, ledger: Ledger | None = None, records: PrivateRecords | None = None
    ) -> list[Check]:
        """Everything that can be looked at with what is given.

        Args:
            content_sha256: Of the support that the certificate came with; ``None`` where it came with none.
            ledger: That was charged.
            records: The private records.
        """
        consistent, left = self._consistent(), [self._content(content_sha256), *self.held_against(ledger, records)]
        return [
            *consistent,
            Check("the noise came from the operating system", not self.seeded, "seeded" if self.seeded else "yes"),
            Check("the model kept records apart", Isolation(self.isolation).holds, self.isolation),
            *left,
        ]

    def require_charged(self, content_sha256: str, ledger: Ledger) -> None:
        """Holds it and its support against the ledger: a file that merely names a charge is not the one that was paid.

        What it says itself of its noise and its model is not judged here.

        Args:
            content_sha256: Of the support that the certificate came with.
            ledger: That was charged.

        Raises:
            InputError: Something does not hold; it is named.
        """
        for check in (*self._consistent(), self._content(content_sha256), *self.held_against(ledger, None)):
            if check.holds is False:
                raise InputError(
                    f"The ledger does not confirm this file ({check.what}: {check.told}). It was changed after it was "
                    "fitted, or it is of another ledger. Name the ledger that was charged with --ledger; "
                    "'sotto verify certificate' with the file looks at all of it."
                )

    def require_consistent(self, content_sha256: str) -> None:
        """Holds it against itself and its support, as ``require_charged`` does before it reads the ledger.

        Raises:
            InputError: Something does not hold; it is named.
        """
        for check in (*self._consistent(), self._content(content_sha256)):
            if check.holds is False:
                raise InputError(
                    f"The fitted file cannot be used: its certificate does not hold ({check.what}: {check.told}). It "
                    "was changed after it was fitted. Restore it from a copy, or fit again; 'sotto verify certificate' "
                    "with the file looks at all of it."
                )

    def _consistent(self) -> list[Check]:
        """What can be looked at in the certificate alone."""
        return [
            self._figures(),
            self._parameters(),
            self._charge(),
            Check("its statement says that", self._words(), "word by word"),
            self._request(),
        ]

    def require_sound(self, source: str) -> None:
        """Looks at what is cheap and needs nothing else: that the figures follow from the event, and the words from
        them.

        Raises:
            InputError: They do not.
        """
        for check in (self._figures(), Check("its statement follows from its figures", self._words(), "it does not")):
            if not check.holds:
                raise InputError(
                    f"{source} cannot be used: its certificate does not hold ({check.what}: {check.told}). Restore it "
                    f"from a copy, or fit again; 'sotto verify certificate {source}' looks at all of it."
                )

    @property
    def _adjacency(self) -> Adjacency:
        return Adjacency(self.adjacency)

    def _setting(self) -> FitSetting:
        change = change_type(Assignment.OWN_SLOT, self._adjacency)
        if change.name != self.change:
            raise InputError(f"one change is a {change.name} under {self.adjacency}")
        return FitSetting(
            labels=len(self.labels),
            dimension=self.dimension,
            units=self.units,
            adjacency=self._adjacency,
            change=change,
            candidates=self.candidates,
            adds_epsilons=self.asked["currency"] == "epsilon",
            unit=self.unit,
        )

    def _fitter(self) -> Fitter:
        fitter = make_fitter(self.method, **self.parameters)
        if open_ones := [name for name in fitter.calibrated_parameters if fitter.options[name] is None]:
            raise InputError(f"{open_ones[0]} is left open")
        return fitter

    def _event(self) -> DpEvent:
        """The event of the method with its parameters, where it is the one that stands here.

        Raises:
            InputError: Another one does; it is not priced.
        """
        return require_same_event(self.event, self._fitter().event(self._setting()))

    def _looked(self, what: str, look: Callable[[], tuple[bool, str]]) -> Check:
        try:
            holds, told = look()
        except _UNREADABLE as error:
            return Check(what, False, str(error) if isinstance(error, SottoError) else "it cannot be read")
        return Check(what, holds, told)

    def _figures(self) -> Check:
        def look() -> tuple[bool, str]:
            report = self._setting().cost(self._event(), self.delta)
            holds = report.epsilon <= self.epsilon * (1 + report.rounding)
            return holds, report.beside(min(self.epsilon, report.epsilon))

        what = f"epsilon {rounded_up(self.epsilon, 6)} at delta {rounded_up(self.delta)} follows from the event"
        return self._looked(what, look)

    def _parameters(self) -> Check:
        def look() -> tuple[bool, str]:
            self._event()
            return True, "the same"

        return self._looked(f"the event is that of {self.method} with its parameters", look)

    def _charge(self) -> Check:
        def look() -> tuple[bool, str]:
            event = self._event()
            if canonical(self.charge) == canonical(self.event):
                return True, "the event itself"
            charge = point_of(self.charge)
            if charge is None:
                return False, "another event"
            report = self._setting().cost(event, charge.delta)
            covers = report.epsilon <= charge.epsilon * (1 + report.rounding)
            told = report.beside(min(charge.epsilon, report.epsilon))
            return covers and charge.delta <= self.delta, f"one point of its profile: {told}"

        return self._looked("the charge covers the event", look)

    def _words(self) -> bool:
        return self.statement == statement_of(
            self._adjacency, self.unit, self.epsilon, self.delta, self.method, Isolation(self.isolation),
            seeded=self.seeded,
        )  # fmt: skip

    def _request(self) -> Check:
        def look() -> tuple[bool, str]:
            own = ("method", "parameters", "adjacency", "unit", "labels", "model", "embedding", "seeded", "version",
                   "units", "candidates", "epsilon", "delta", "dimension")  # fmt: skip
            differs = [name for name in own if canonical(getattr(self, name)) != canonical(self.asked[name])]
            own_kind = Isolation(self.isolation)
            if weakest([own_kind, Isolation(self.asked["isolation"])]) is not own_kind:
                differs.append("isolation")  # less may have been seen behind the charge; the ledger notes what
            return not differs, f"{differs[0]} differs" if differs else "the same words"

        return self._looked("it is for what was asked for, in the same words", look)

    def _content(self, content_sha256: str | None) -> Check:
        what = "the support is that of the certificate"
        if content_sha256 is None:
            return Check(what, None, "no rows were given")
        own = self.content_sha256.encode("utf-8", "surrogatepass")
        return Check(what, hmac.compare_digest(content_sha256.encode(), own), "by its hash")

    def held_against(self, ledger: Ledger | None, records: PrivateRecords | None) -> list[Check]:
        """What a ledger and the records say of it: that it was charged, at this price, left, and is of these records.

        Args:
            ledger: That was charged.
            records: The private records.
        """
        charged, price = "it was charged before it left", "the charge is that of the certificate"
        left, data = "the support is the one that left", "the records are those that were charged"
        if ledger is None:
            return [Check(what, None, "no ledger was given") for what in (charged, price, left, data)]
        with ledger.rows() as history:
            entries = [entry for entry in history.entries if entry["release_id"] == self.ledger]
        kinds = [entry["kind"] for entry in entries]
        whole = kinds == ["reserve", "draw", "release"] and ledger.verify() == []
        paid = next((entry for entry in entries if entry["kind"] == "reserve"), None)
        gone = next((entry for entry in entries if entry["kind"] == "release"), None)
        return [
            Check(charged, whole, ", ".join(kinds) or "no such charge"),
            self._looked(price, lambda: self._price_of(ledger, paid)),
            self._left(left, gone),
            Check(data, *self._records(ledger, paid, records)),
        ]

    def _left(self, what: str, gone: Mapping[str, Any] | None) -> Check:
        def look() -> tuple[bool, str]:
            if gone is None:
                return False, "nothing left"
            detail = _detail(gone)
            parts = str(detail.get("content")).split(" ")
            lost = NOT_VERIFIED_NOTE in str(detail.get("note"))
            asked = Isolation.NOT_VERIFIED if lost else Isolation(self.asked["isolation"])
            certified = parts[1:-1] or [asked.name]  # earlier builds noted nothing but a loss
            if certified != [Isolation(self.isolation).name]:
                return False, "something else was certified of its model when it left"
            return parts[-1] == self.content_sha256, "by its hash"

        return self._looked(what, look)

    def _price_of(self, ledger: Ledger, paid: Mapping[str, Any] | None) -> tuple[bool, str]:
        if paid is None:
            return False, "no such charge"
        with ledger.rows() as kept:
            holder = next(row for row in kept.data_sets if row["id"] == paid["data_set"])
        if (holder["adjacency"], holder["unit"]) != (self.adjacency, self.unit):
            return False, f"it is kept under {holder['adjacency']} with unit '{holder['unit']}'"
        detail = _detail(paid)
        if detail.get("note") != self.note or detail.get("asked") != asked_hash(self.asked):
            return False, "something else was asked for when it was charged"
        same = canonical(detail.get("event")) == canonical(self.charge)
        return same, "the same event" if same else "another event"

    @property
    def note(self) -> str:
        """What the ledger notes of the charge."""
        stated = Isolation(self.asked.get("isolation", self.isolation))
        return note_of(self.method, self.model, self.change, isolated=stated.holds, seeded=self.seeded)

    def _records(
        self, ledger: Ledger, paid: Mapping[str, Any] | None, records: PrivateRecords | None
    ) -> tuple[bool | None, str]:
        if records is None:
            return None, "no records were given"
        with ledger.rows() as history:
            kept = secrets_of(history.secrets or [], paid["data_set"]) if paid else {}
        if RECORDS not in kept:
            return False, "the ledger has no key for them"
        said, run = self.data.encode("utf-8", "surrogatepass"), run_of(self.ledger)
        digests = [data_hash(kept, run, name) for name in records.fingerprints()]  # the last are of earlier versions
        return any(hmac.compare_digest(digest.encode(), said) for digest in digests), "by their keyed hash"


def run_of(release_id: str) -> str:
    """The run that a charge is of."""
    return release_id.rpartition("-")[0]


def note_of(method: str, model: str, change: str, *, isolated: bool, seeded: bool) -> str:
    """What the ledger notes of a fit; public."""
    note = f"fit, {method}, {model}, change {change}" + ("" if isolated else f", {NOT_VERIFIED_NOTE}")
    return note + (f", {SEEDED_NOTE}" if seeded else "")


def statement_of(
    adjacency: Adjacency, unit: str, epsilon: float, delta: float, method: str, isolation: Isolation, *, seeded: bool
) -> str:
    """What is promised, in one sentence, and what it covers. Its figures are rounded up.

    Args:
        adjacency: What one change of the data is.
        unit: Who is protected.
        epsilon: Of the whole support, at ``delta``.
        delta: See ``epsilon``.
        method: Name of the fitter.
        isolation: Whether the model was seen to keep records apart.
        seeded: Whether the noise came from a seeded source, so that nothing is promised.
    """
    if seeded:
        return "What was fitted has NO privacy guarantee: its noise came from a seeded source, for tests."
    subject = adjacency.sentence(unit)
    change = change_type(Assignment.OWN_SLOT, adjacency)
    claim = (
        f"{subject[0].upper()}{subject[1:]} changes the probability of any set of outcomes of this whole fit, and of "
        f"all answers from it, by at most a factor of exp({rounded_up(epsilon)}), up to an additional probability of "
        f"{rounded_up(delta)} (method {method}, {adjacency.value} adjacency, unit '{unit}', change type {change.name}"
        f"{f', {isolation.words}' if isolation.holds else ''})"
    )
    if not isolation.holds:
        return f"{claim}; but {isolation.value}."
    return f"{claim}. {scope_of(adjacency, unit, OF_A_FIT)}"


def _detail(entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    detail = entry["detail"] if entry else None
    parsed = json.loads(detail) if isinstance(detail, str) else detail
    return parsed if isinstance(parsed, dict) else {}


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": _whole,
    "int | None": lambda value: value is None or _whole(value),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9,
    "Sequence[str]": lambda value: isinstance(value, list | tuple) and all(isinstance(part, str) for part in value),
    "Mapping[str, Any]": lambda value: isinstance(value, dict),
}
"""What a certificate's field may hold, by its annotation."""
