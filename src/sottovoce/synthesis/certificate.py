"""Certificates: what was paid for a file of synthetic rows, in a form that a stranger can check.

A certificate holds public facts alone: the request with all its words, the method with its parameters, the event of one
batch, the figures that follow from it, the ids of the charges, and hashes. Anybody can check that the figures follow
from the event, the event from the parameters and the statement from all of them, and that the rows are the ones it
speaks of. It is not signed: what was really charged, and which rows really left, only the ledger can say. Whoever has
it can hold the certificate against it; with the records, that they are those that were charged.

Every charge of a run commits to the request, with the run's id and the number of its charges. A certificate holds for
all charges of its run or for none: one for a round that was picked after looking would be cheaper than the choice. The
hash of the records is keyed, with a key that never leaves the ledger: a plain one would confirm a guess of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from sottovoce.errors import InputError, SottoError
from sottovoce.models.base import Isolation
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.checks import (
    ANOTHER_EVENT,
    Check,
    asked_hash,
    canonical,
    point_of,
    read_json,
    require_same_event,
)
from sottovoce.privacy.event_json import event_from_json, event_to_json
from sottovoce.privacy.events import SelfComposedDpEvent
from sottovoce.privacy.ledger.balance import NOT_VERIFIED_NOTE, SEEDED_NOTE
from sottovoce.privacy.ledger.secret import RECORDS, data_hash, secrets_of
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.scope import OF_A_FILE, scope_of
from sottovoce.privacy.unit import DROP, Adjacency, Assignment, change_type

if TYPE_CHECKING:
    from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan
    from sottovoce.privacy.events import DpEvent
    from sottovoce.privacy.ledger.ledger import Ledger
    from sottovoce.records.sealed import PrivateRecords

FORMAT: Final = 2
_WITHOUT_REQUEST: Final = 1
"""Format of certificates that do not say what was asked for."""
_ID: Final = re.compile(r"(?P<run>[0-9a-f]+)-[1-9][0-9]*(?:\.[1-9][0-9]*)?")
_OF_METHOD: Final = "method's "
_UNREADABLE: Final = (SottoError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
MIXED: Final = "mixed"
"""Said of texts that a model wrote which is not known to keep prompts apart."""
_NO_ROWS: Final = hashlib.sha256().hexdigest()
_Entries = dict[str, Mapping[str, Any]]


@final
@dataclass(frozen=True)
class _History:
    """What a ledger says of the runs that a certificate names.

    Attributes:
        paid: The charges.
        begun: Those of them that began to be drawn.
        left: Those of them that left.
    """

    paid: _Entries
    begun: set[str]
    left: _Entries


@final
@dataclass(frozen=True)
class LedgerNote:
    """What the note of a charge says of a run; a certificate has to say the same.

    Attributes:
        method: Name of the decoding method.
        model: That writes.
        change: How one change can change a batch.
        tokens: Most tokens of a text.
        seeded: Whether the noise comes from a seeded source.
        isolated: Whether the model was seen to keep experts apart.
    """

    method: str
    model: str
    change: str
    tokens: int
    seeded: bool
    isolated: bool

    @property
    def note(self) -> str:
        """For the ledger."""
        note = f"synthesis, {self.method}, {self.model}, change {self.change}, {self.tokens} tokens"
        note += "" if self.isolated else f", {NOT_VERIFIED_NOTE}"
        return note + (f", {SEEDED_NOTE}" if self.seeded else "")


@final
@dataclass(frozen=True)
class Certificate:
    """What was paid for a file of synthetic rows.

    Attributes:
        statement: What is promised, what it covers and what not, in words that a lawyer can read.
        method: Name of the decoding method.
        parameters: All of them, public.
        adjacency: What one change is.
        unit: Who is protected.
        change: How one change can change a batch.
        epsilon: Of everything together, at ``delta``.
        delta: See ``epsilon``.
        event: What one batch was charged, which is what all of them cost.
        tokens: Most tokens of a text.
        texts: Texts of each batch that were charged, with those that an interruption lost.
        experts: The fixed divisor s.
        labels: The public label set.
        rows: How many there are.
        rows_sha256: Of the rows, in the form that they are written in.
        model: That wrote them.
        isolation: Whether it was seen to keep experts apart.
        seeded: Whether the noise came from a seeded source, so that nothing is promised.
        data: Keyed hash of the private records.
        ledger: Ids of all charges of the run.
        version: Of sottovoce, when the run was charged.
        format: Of this file.
        asked: The request in all its words, which every charge commits to; empty in format 1.
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
    asked: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(
        plan: DecodingPlan,
        *,
        labels: Sequence[str],
        unit: str,
        model: str,
        isolation: Isolation,
        seeded: bool,
        data: str,
        ledger: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
        asked: Mapping[str, Any],
    ) -> Certificate:
        """For a run that is finished, with the plan of all its charges."""
        s = plan.setting
        return Certificate(
            statement=statement_of(
                s.adjacency, s.unit, plan.report.epsilon, plan.report.delta, plan.decoder.name, isolation, seeded=seeded
            ),
            method=plan.decoder.name,
            parameters=dict(plan.parameters),
            adjacency=s.adjacency.value,
            unit=unit,
            change=s.change.name,
            epsilon=plan.report.epsilon,
            delta=plan.report.delta,
            event=event_to_json(plan.event),
            tokens=s.tokens,
            texts=s.texts,
            experts=s.experts,
            labels=list(labels),
            rows=len(rows),
            rows_sha256=rows_hash(rows),
            model=model,
            isolation=isolation.value,
            seeded=seeded,
            data=data,
            ledger=list(ledger),
            version=asked["version"],
            asked=dict(asked),
        )

    @staticmethod
    def read(file: Path) -> Certificate:
        """Reads a certificate.

        Raises:
            InputError: The file is none.
        """
        try:
            content = read_json(file.read_text("utf-8"), f"{file}")
            certificate = Certificate(**content)
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error.strerror}). Check the path.") from None
        except (ValueError, TypeError):
            raise InputError(f"{file} is not a certificate that 'sotto synthesize' wrote.") from None
        if certificate.format not in (_WITHOUT_REQUEST, FORMAT):
            raise InputError(f"{file} has format {str(certificate.format)[:20]}; this version reads 1 and {FORMAT}.")
        if wrong := [
            attribute.name
            for attribute in fields(certificate)
            if not _KINDS[str(attribute.type)](getattr(certificate, attribute.name))
        ]:
            raise InputError(f"{file} is no certificate: its {wrong[0]!r} is of the wrong kind.")
        try:
            Isolation(certificate.isolation)
        except ValueError:
            raise InputError(f"{file} is no certificate: its 'isolation' is not known.") from None
        return certificate

    @property
    def text(self) -> str:
        """As JSON, in the form that it is written in."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def write(self, file: Path) -> None:
        """Writes it as JSON."""
        file.write_text(self.text, "utf-8")

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
        history = None if ledger is None else self._history(ledger)
        held = [self._rows(rows), *self._held_against(ledger, history, rows, records)]
        return [*self._consistent(), *self._promise(history), *held]

    def broken(self, rows: Sequence[Mapping[str, Any]], ledger: Ledger, records: PrivateRecords) -> list[Check]:
        """What does not hold of it, its rows, its charges and its records. What it says itself of its noise and its
        model is not judged here.

        Args:
            rows: The synthetic rows.
            ledger: That was charged.
            records: The private records.
        """
        held = [self._rows(rows), *self._held_against(ledger, self._history(ledger), rows, records)]
        return [check for check in (*self._consistent(), *held) if check.holds is False]

    def _consistent(self) -> list[Check]:
        """What can be looked at in the certificate alone."""
        return [self._figures(), self._parameters(), self._words(), self._request()]

    def _rows(self, rows: Sequence[Mapping[str, Any]] | None) -> Check:
        what = "the rows are those of the certificate"
        if rows is None:
            return Check(what, None, "no rows were given")
        return Check(what, len(rows) == self.rows and rows_hash(rows) == self.rows_sha256, f"{len(rows)} rows")

    def _figures(self) -> Check:
        what = f"epsilon {rounded_up(self.epsilon, 6)} at delta {rounded_up(self.delta)} follows from the event"
        return self._is_covered(what, lambda: [self._event()])

    def _parameters(self) -> Check:
        what = f"the event is that of {self.method} with its parameters"
        try:
            _, told = self._recomputed()
        except _UNREADABLE as error:
            return Check(what, False, str(error) if isinstance(error, SottoError) else "they cannot be read")
        return Check(what, True, told + (f", {self._times} times" if self._times > 1 else ""))

    def _event(self) -> DpEvent:
        """The event of the method with its parameters, as often as it was charged, where it is what stands here.

        Raises:
            InputError: Another one does; it is not priced.
        """
        return self._recomputed()[0]

    def _recomputed(self) -> tuple[DpEvent, str]:
        """As ``_event``; and what its price came to, where that is what was charged, in words."""
        event, times, told = self._event_of_parameters(), self._times, "the same"
        if not self._decoder().refundable:  # what was charged is one point of its profile
            point = point_of(self._stated_point)
            delta = self.delta / times
            if point is None or not math.isclose(point.delta, delta, rel_tol=1e-9):
                raise InputError(ANOTHER_EVENT)
            report = self._cost([event], point.delta, self._decoder().bounds)
            if not math.isclose(point.epsilon, report.epsilon, rel_tol=report.rounding):
                raise InputError(ANOTHER_EVENT)
            event, told = point, report.beside(point.epsilon)
        return require_same_event(self.event, SelfComposedDpEvent(event, times) if times > 1 else event), told

    @property
    def _stated_point(self) -> Any:
        """What is said to be charged each time, where that is one point of a profile; ``None`` where it is not."""
        if self._decoder().refundable:
            return None
        return self.event if self._times == 1 else self.event.get("inner")

    @property
    def _times(self) -> int:
        """How often a batch was charged as a whole."""
        return 1 if self._decoder().refundable else max(1, len(self.ledger))

    def _decoder(self) -> Decoder:
        """The method with its parameters, none of which is open."""
        from sottovoce.methods.decoding.decoder import make_decoder

        decoder = make_decoder(self.method, **self.parameters)
        if open_dials := [
            calibrated_parameter
            for calibrated_parameter in decoder.calibrated_parameters
            if getattr(decoder, calibrated_parameter) is None
        ]:
            raise InputError(f"{open_dials[0]} is left open")
        return decoder

    def _event_of_parameters(self) -> DpEvent:
        """What one batch costs by the method's parameters."""
        from sottovoce.methods.decoding.decoder import Setting

        adjacency = Adjacency.parse(self.adjacency)
        change = change_type(Assignment.OWN_SLOT, adjacency)
        if change.name != self.change:
            raise InputError(f"one change is a {change.name} under {adjacency.value}")
        decoder = self._decoder()
        setting = Setting(
            self.tokens, self.texts, self.experts, adjacency, change, labels_public=False, joins=DROP, unit=self.unit
        )
        return decoder.event(setting)

    def _is_covered(self, what: str, events: Callable[[], Sequence[DpEvent]]) -> Check:
        """Whether the certificate's epsilon is no less than what events cost together."""
        try:
            report = self._cost(events())
        except _UNREADABLE as error:
            return Check(what, False, str(error) if isinstance(error, SottoError) else "they cannot be read")
        holds = report.epsilon <= self.epsilon * (1 + report.rounding)
        return Check(what, holds, report.beside(min(self.epsilon, report.epsilon)))

    def _cost(self, events: Sequence[DpEvent], delta: float | None = None, bounds: Collection[str] = ()) -> Report:
        total = RdpAccountant(Adjacency.parse(self.adjacency), self.unit).compose_all(events)
        return total.report(self.delta if delta is None else delta, bounds)

    def _words(self) -> Check:
        what = "its statement says that"
        try:
            wordings = [
                statement_of(
                    Adjacency.parse(self.adjacency), self.unit, self.epsilon, self.delta, self.method,
                    Isolation(self.isolation), seeded=self.seeded, first=first,
                ) for first in ((False, True) if self.format == _WITHOUT_REQUEST else (False,))
            ]  # fmt: skip
        except SottoError as error:
            return Check(what, False, str(error))
        if self.format == _WITHOUT_REQUEST:  # the first ones said the claim alone, without what it covers
            scope = scope_of(Adjacency.parse(self.adjacency), self.unit, OF_A_FILE)
            wordings += [words.removesuffix(f" {scope}") for words in wordings]
        return Check(what, self.statement in wordings, "word by word")

    def _request(self) -> Check:
        """Whether the certificate says of the run what was asked for, and is for all of its charges."""
        what = "it is for all that was asked for, in the same words"
        if self.format == _WITHOUT_REQUEST:
            if self.asked:
                return Check(
                    what, False, "a certificate of format 1 does not say what was asked for, and this one does"
                )
            return Check(what, None, "a certificate of format 1 does not say what was asked for")
        request = self.asked
        method = {name.removeprefix(_OF_METHOD): request[name] for name in request if name.startswith(_OF_METHOD)}
        own = ("method", "adjacency", "unit", "tokens", "experts", "labels", "model", "isolation", "seeded", "version")
        try:
            refundable = self._decoder().refundable
            charges, texts = request["charges"], request["texts_per_batch"]
            more, lost = len(self.ledger) - charges, ""
            expected: dict[str, Any] = {name: request[name] for name in own} | {"parameters": method}
            expected["texts"] = texts + (more if refundable else 0)
            if charges != (texts if refundable else 1) or more < 0:
                return Check(what, False, f"{charges} charges were asked for, and it names {len(self.ledger)}")
            if more == 0:
                expected |= {"epsilon": request["epsilon"], "delta": request["delta"]}
            else:
                asked, report = self._report_of(texts, 0), self._report_of(texts, more)
                if not math.isclose(asked.epsilon, request["epsilon"], rel_tol=asked.rounding):
                    return Check(what, False, f"what was asked for costs epsilon {rounded_up(asked.epsilon, 6)}")
                if not (
                    math.isclose(self.epsilon, report.epsilon, rel_tol=report.rounding)
                    and report.delta <= self.delta <= report.delta * (1 + 1e-9)
                ):
                    figures = f"epsilon {rounded_up(report.epsilon, 6)} at delta {rounded_up(report.delta, 6)}"
                    return Check(what, False, f"with {more} charges that were lost its charges cost {figures}")
                lost = f", {more} of them lost: {report.beside(self.epsilon)}"
            differs = [name for name, value in expected.items() if canonical(getattr(self, name)) != canonical(value)]
        except _UNREADABLE:
            return Check(what, False, "the request cannot be read")
        return Check(what, not differs, f"{differs[0]} differs" if differs else f"{len(self.ledger)} charges{lost}")

    def _report_of(self, texts: int, more: int) -> Report:
        """What the run costs whose batches have so many texts, with charges of rounds that were lost.

        Raises:
            InputError: Its event is another than that of its parameters; nothing is priced.
        """
        from sottovoce.synthesis.config import plan_of_charges, plan_of_parameters, restated

        self._event()
        plan = plan_of_parameters(
            self._decoder(), tokens=self.tokens, texts=texts, experts=self.experts,
            adjacency=Adjacency.parse(self.adjacency), unit=self.unit, delta=self.asked["delta"],
        )  # fmt: skip
        return plan_of_charges(restated(plan, self.asked["epsilon"]), more).report

    def _promise(self, history: _History | None) -> list[Check]:
        holds = Isolation(self.isolation).holds
        mixed = [] if history is None else [entry for entry in history.left.values() if was_mixed(_content(entry))]
        found = f"the ledger notes of {len(mixed)} charges that it was seen to mix prompts"
        return [
            Check("the noise came from the operating system", not self.seeded, "seeded" if self.seeded else "yes"),
            Check("the model kept experts apart", holds and not mixed, found if holds and mixed else self.isolation),
        ]

    def _held_against(
        self,
        ledger: Ledger | None,
        history: _History | None,
        rows: Sequence[Mapping[str, Any]] | None,
        records: PrivateRecords | None,
    ) -> list[Check]:
        charged, price = "every text was charged before it left", "the charges are those of the certificate"
        left, data = "the rows are those that left", "the records are those that were charged"
        if ledger is None or history is None:
            return [Check(what, None, "no ledger was given") for what in (charged, price, left, data)]
        paid, begun, gone = history.paid, history.begun, history.left
        ids = set(self.ledger)
        whole = bool(ids) and len(ids) == len(self.ledger) and set(paid) == ids == begun | set(gone)
        return [
            Check(charged, whole and ledger.verify() == [], f"{len(paid)} charges, {len(gone)} releases"),
            self._price_of(price, ledger, list(paid.values())),
            self._left(left, rows, [_content(gone[charge]) for charge in self.ledger if charge in gone]),
            self._records(data, ledger, records, list(paid.values())),
        ]

    def _history(self, ledger: Ledger) -> _History:
        """The charges of the runs that this one names, those of them that began, and those that left."""
        runs = {match["run"] for charge in self.ledger if (match := _ID.fullmatch(charge))}
        entries: dict[str, _Entries] = {"reserve": {}, "draw": {}, "release": {}}
        with ledger.rows() as history:
            for entry in history.entries:
                match = _ID.fullmatch(entry["release_id"] or "")
                if match and match["run"] in runs and entry["kind"] in entries:
                    entries[entry["kind"]][entry["release_id"]] = entry
        return _History(entries["reserve"], set(entries["draw"]), entries["release"])

    def _price_of(self, what: str, ledger: Ledger, paid: Sequence[Mapping[str, Any]]) -> Check:
        """Whether the charge has the records, adjacency, method and price of the certificate."""
        with ledger.rows() as kept:
            sets = {data_set["id"]: data_set for data_set in kept.data_sets}
        holders = {entry["data_set"] for entry in paid}
        if len(holders) != 1:
            return Check(what, False, f"they are of {len(holders)} data sets")
        holder = sets[holders.pop()]
        if (holder["adjacency"], holder["unit"]) != (self.adjacency, self.unit):
            return Check(what, False, f"they are kept under {holder['adjacency']} with unit '{holder['unit']}'")
        isolated = Isolation(self.isolation).holds
        expected = LedgerNote(self.method, self.model, self.change, self.tokens, self.seeded, isolated)
        try:
            request = None if self.format == _WITHOUT_REQUEST else asked_hash(self.asked)
            point = self._stated_point
        except _UNREADABLE:
            return Check(what, False, "the request cannot be read")
        for entry in paid:
            detail = _detail(entry)
            if detail.get("note") != expected.note:
                return Check(what, False, "they were noted for another method, model, change, length or promise")
            if detail.get("asked") != request:
                return Check(what, False, "something else was asked for when they were charged")
            if point is not None and canonical(detail.get("event")) != canonical(point):
                return Check(what, False, "another event was charged")
        return self._is_covered(what, lambda: [event_from_json(_detail(entry)["event"]) for entry in paid])

    def _left(self, what: str, rows: Sequence[Mapping[str, Any]] | None, noted: Sequence[Any]) -> Check:
        """Whether rows are, charge by charge, what was noted when they left. What was lost since may be missing."""
        if rows is None:
            return Check(what, None, "no rows were given")
        noted_hashes = [
            "".join(str(content).split(" ")[1:2]) for content in noted
        ]  # what follows says whether prompts mixed
        covered, lost = _charges_of(rows, noted_hashes, self._most_rows())
        words = f"{covered} of {len(rows)} rows" + (f", {lost} charges lost" if lost else "")
        return Check(what, covered == len(rows) and bool(noted), words)

    def _most_rows(self) -> int | None:
        """The rows of one charge at most, a text becoming one at most; ``None`` where the request does not say."""
        try:
            request = self.asked
            rounds = 1 if self._decoder().refundable else int(request["texts_per_batch"])
            return len(request["labels"]) * int(request["per_label"]) // int(request["texts_per_batch"]) * rounds
        except (*_UNREADABLE, ArithmeticError):
            return None

    def _records(
        self, what: str, ledger: Ledger, records: PrivateRecords | None, paid: Sequence[Mapping[str, Any]]
    ) -> Check:
        if records is None:
            return Check(what, None, "no records were given")
        holders = {entry["data_set"] for entry in paid}
        runs = {match["run"] for charge in self.ledger if (match := _ID.fullmatch(charge))}
        with ledger.rows() as history:
            kept = secrets_of(history.secrets or [], holders.pop()) if len(holders) == 1 else {}
        if len(runs) != 1 or RECORDS not in kept:
            return Check(what, False, "the ledger has no key for them")
        run = runs.pop()
        names = tuple(records.fingerprints())  # all but the first are in certificates of earlier versions
        digests = [data_hash(kept, run, name) for name in names]
        same = any(hmac.compare_digest(digest.encode(), _bytes(self.data)) for digest in digests)
        return Check(what, same, "by their keyed hash")


def was_mixed(content: object) -> bool:
    """Of what is noted of a charge that left, whether the model had been seen to mix prompts."""
    return str(content).endswith(f" {MIXED}")


def _content(entry: Mapping[str, Any]) -> Any:
    """What was noted of a charge when it left."""
    return _detail(entry).get("content")


def _charges_of(rows: Sequence[Mapping[str, Any]], hashes: Sequence[str], most: int | None = None) -> tuple[int, int]:
    """Takes rows apart into what charges wrote, in their order; some charges may be missing.

    Args:
        rows: Rows, in order.
        hashes: What ``rows_hash`` gave of the rows of each charge, in order.
        most: Rows that one charge has at most; without it the time that this takes grows with the square of the rows.

    Returns:
        How many of the first rows could be taken apart, and how many charges that had rows are missing where all could.
    """
    longest = len(rows) if most is None else most
    lines = [*map(_line, rows)]
    covered, lost = _each_to_the_next(lines, hashes, longest)
    if covered == len(rows):
        return covered, lost
    positions: dict[str, list[int]] = {}
    for position, noted in enumerate(hashes):
        positions.setdefault(noted, []).append(position)
    reached = {0: (0, 0)}  # by rows that are taken apart: the earliest charge that can follow, and how many were used
    for start in range(len(rows)):
        if start not in reached:
            continue
        (charge, used), digest = reached[start], hashlib.sha256()
        for end in range(start + 1, min(start + longest, len(rows)) + 1):
            digest.update(lines[end - 1])
            at = positions.get(digest.hexdigest(), [])
            if (which := bisect_left(at, charge)) < len(at) and (end not in reached or at[which] + 1 < reached[end][0]):
                reached[end] = (at[which] + 1, used + 1)
    if len(rows) not in reached:
        return max(reached), 0
    return len(rows), sum(noted != _NO_ROWS for noted in hashes) - reached[len(rows)][1]


def _each_to_the_next(lines: Sequence[bytes], hashes: Sequence[str], longest: int) -> tuple[int, int]:
    """The same, from rows as they are written, where each charge has the next rows that are its own, if there are any:
    the usual case, and quick."""
    place = lost = 0
    for noted in hashes:
        digest, end = hashlib.sha256(), place
        while digest.hexdigest() != noted and end < min(place + longest, len(lines)):
            digest.update(lines[end])
            end += 1
        if digest.hexdigest() == noted:
            place = end
        else:
            lost += 1
    return place, lost


def rows_hash(rows: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of rows as they are written, a JSON object a line."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(_line(row))
    return digest.hexdigest()


def statement_of(
    adjacency: Adjacency,
    unit: str,
    epsilon: float,
    delta: float,
    method: str,
    isolation: Isolation,
    *,
    seeded: bool,
    first: bool = False,
) -> str:
    """What is promised, in one sentence, and what it covers. Its figures are rounded up.

    Args:
        adjacency: What one change is.
        unit: Who is protected.
        epsilon: Of the whole file, at ``delta``.
        delta: See ``epsilon``.
        method: Name of the decoding method.
        isolation: Whether the model was seen to keep experts apart.
        seeded: Whether the noise came from a seeded source, so that nothing is promised.
        first: As format 1 worded it, without the units an expert sees and how experts were kept apart.
    """
    if seeded:
        return "These rows have NO privacy guarantee: their noise came from a seeded source, for tests."
    subject = adjacency.sentence(unit)
    change = change_type(Assignment.OWN_SLOT, adjacency)
    claim = (
        f"{subject[0].upper()}{subject[1:]} changes the probability of any set of outcomes of this whole file by at "
        f"most a factor of exp({rounded_up(epsilon)}), up to an additional probability of {rounded_up(delta)} (method "
        f"{method}, {adjacency.value} adjacency, unit '{unit}'{'' if first else ', 1 unit an expert'}, change type "
        f"{change.name}{'' if first or not isolation.holds else f', {isolation.words}'})"
    )
    if not isolation.holds:
        return f"{claim}; but {isolation.value}."
    return f"{claim}. {scope_of(adjacency, unit, OF_A_FILE)}"


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _detail(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    detail = entry["detail"]
    parsed = json.loads(detail) if isinstance(detail, str) else detail
    return parsed if isinstance(parsed, dict) else {}


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)


_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63,
    "float": _is_number,
    "Sequence[str]": _is_list,
    "Mapping[str, Any]": lambda value: isinstance(value, dict),
}
"""What a certificate's field may hold, by its annotation."""
