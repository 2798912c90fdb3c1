"""One data set's side of a ledger: where charges are made, before the first private read.

A charge is looked at twice: first with a read, so that a crowd that is refused does not queue for the write lock, then
under the lock, where it counts. What was spent never falls, so a first look that refuses is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import sqlalchemy as sa

from sottovoce.errors import LedgerMismatchError, ParameterError
from sottovoce.privacy.event_json import event_to_json
from sottovoce.privacy.events import DpEvent, describe
from sottovoce.privacy.filter import Amount, Level, price
from sottovoce.privacy.ledger_balance import Balance, balance_of
from sottovoce.privacy.ledger_caps import GROUP, charge, levels_of, refuse_unnamed
from sottovoce.privacy.ledger_chain import Entry, append
from sottovoce.privacy.ledger_events import NOT_VERIFIED_NOTE, detail_of
from sottovoce.privacy.ledger_refusal import refuse
from sottovoce.privacy.ledger_schema import DATA_SET, ENTRY

if TYPE_CHECKING:
    from sottovoce.privacy.ledger import Ledger

_RELEASE_ID: Final = re.compile(r"[!-~]{1,64}")
_CHUNK: Final = 500


@final
@dataclass(frozen=True)
class Reservation:
    """One charge that is to be made: its id, its event and public words about it."""

    release_id: str
    event: DpEvent
    note: str


def require_release_id(value: object) -> str:
    """Checks an id that names one answer.

    Raises:
        ParameterError: It is not 1 to 64 printable ASCII characters without blanks.
    """
    if not isinstance(value, str) or not _RELEASE_ID.fullmatch(value):
        raise ParameterError("release_id", value, "1 to 64 printable ASCII characters without blanks")
    return value


@final
class Account:
    """A data set as its ledger keeps it, or one caller's part of it.

    Attributes:
        ledger: The ledger.
        caller: Whose cap is charged beside the data set's; ``None`` charges the data set alone.
        other_ledger: Path of another ledger in use for the same records on this machine, if there is one: the two
            budgets add up, and neither knows of the other.
    """

    def __init__(self, ledger: Ledger, row: Any, currency: str, caller: str | None, other_ledger: str | None) -> None:
        self.ledger, self.caller, self.other_ledger = ledger, caller, other_ledger
        self._number, self._currency = int(row.id), currency

    def reserve(self, reservations: Sequence[Reservation], *, again: bool = True) -> None:
        """Charges all of them durably, or none, to every cap that they count against.

        An id that is already reserved with the same event, and not yet released, is not charged again.

        Args:
            reservations: What to charge.
            again: Whether an id may be reserved already. Not where a second try would toss new coins over the records:
                how often it fails is then a statistic of theirs that nobody paid for.

        Raises:
            BudgetExhaustedError: They do not fit; nothing was charged.
            LedgerMismatchError: An id was used before for something else, or its answer was already released.
            ParameterError: An event has no price here, or an id is none.
        """
        amounts = self._prices(reservations)
        events = [event_to_json(reservation.event) for reservation in reservations]
        for reservation in reservations:
            require_release_id(reservation.release_id)
        with self.ledger._database.reading() as connection:
            self._admit(connection, reservations, amounts)
        with self.ledger._database.writing() as connection:
            fresh, levels = self._admit(connection, reservations, amounts)
            if not again and len(fresh) < len(reservations):
                raise _used(next(one.release_id for i, one in enumerate(reservations) if i not in fresh))
            if not fresh:
                return
            group = next((level.name for level in levels if level.kind == GROUP), None)
            entries = []
            for i in fresh:
                reservation, amount = reservations[i], amounts[i]
                always = {"event": events[i], "note": reservation.note}
                some = {"caller": self.caller, "group": group, "failure": amount.failure or None}
                detail = {**always, **{key: value for key, value in some.items() if value is not None}}
                entries.append(Entry(self._number, "reserve", reservation.release_id, amount.loss, detail))
            append(connection, entries)
            total = sum((amounts[i] for i in fresh), Amount())
            unverified = sum(NOT_VERIFIED_NOTE in reservations[i].note for i in fresh)
            charge(connection, self._number, levels, total, len(fresh), unverified)

    def check(self, reservations: Sequence[Reservation]) -> None:
        """Raises what ``reserve`` would raise, and charges nothing."""
        amounts = self._prices(reservations)
        with self.ledger._database.reading() as connection:
            self._admit(connection, reservations, amounts)

    def record_non_private(self, release_ids: Sequence[str], note: str) -> None:
        """Notes releases that have no guarantee, so that every later statement can say so.

        Raises:
            LedgerMismatchError: An id was used before for something else, or its answer was already released.
        """
        _require_different([require_release_id(release_id) for release_id in release_ids])
        with self.ledger._database.writing() as connection:
            self._require_name(connection, self._row(connection))
            past = self._past(connection, release_ids)
            fresh = [release_id for release_id in release_ids if release_id not in past]
            for entries in past.values():
                if len(entries) > 1 or (entries[0].kind, entries[0].data_set) != ("non-private", self._number):
                    raise _used(entries[0].release_id)
            append(connection, [Entry(self._number, "non-private", one, detail={"note": note}) for one in fresh])
            raised = {"non_private": DATA_SET.c.non_private + len(fresh)}
            connection.execute(sa.update(DATA_SET).where(DATA_SET.c.id == self._number).values(**raised))

    def mark_released(self, release_ids: Sequence[str], content: Mapping[str, str] | None = None) -> None:
        """Notes durably that these answers are drawn and about to leave; they can never be drawn again.

        Args:
            release_ids: The answers.
            content: For some of them a hash of what leaves, so that a copy set aside before a crash can be told from a
                draw that never left.

        Raises:
            LedgerMismatchError: One of them was never charged, or was released already; then none of them may leave.
        """
        _require_different(release_ids)
        with self.ledger._database.writing() as connection:
            past = self._past(connection, release_ids)
            for release_id in release_ids:
                entries = past.get(release_id, [])
                if any(entry.kind == "release" for entry in entries):
                    raise LedgerMismatchError(
                        f"The answer {release_id!r} was already released, perhaps by another process at this moment. "
                        "This second draw of it must not leave; use a new id."
                    )
                if not any(entry.data_set == self._number for entry in entries):
                    raise LedgerMismatchError(f"The release id {release_id!r} was never charged.")
            told = {one: {"content": (content or {})[one]} for one in release_ids if one in (content or {})}
            append(connection, [Entry(self._number, "release", one, detail=told.get(one, {})) for one in release_ids])

    def charged(self, release_ids: Sequence[str]) -> set[str]:
        """Those of these answers that were charged to this data set."""
        with self.ledger._database.reading() as connection:
            past = self._past(connection, release_ids)
        paid = ((one, entry) for one, entries in past.items() for entry in entries if entry.kind == "reserve")
        return {one for one, entry in paid if entry.data_set == self._number}

    def released(self, release_ids: Sequence[str]) -> dict[str, str | None]:
        """Those of these answers that have left, with the hash that was noted of each."""
        with self.ledger._database.reading() as connection:
            past = self._past(connection, release_ids)
        left = ((one, entry) for one, entries in past.items() for entry in entries if entry.kind == "release")
        return {one: detail_of(entry.detail).get("content") for one, entry in left if entry.data_set == self._number}

    @property
    def origin(self) -> str:
        """What tells this ledger from any other, wherever it is moved: the hash of its first entry."""
        with self.ledger._database.reading() as connection:
            return str(connection.scalar(sa.select(ENTRY.c.hash).order_by(ENTRY.c.seq).limit(1)))

    def balance(self) -> Balance:
        """How the data set stands, and what limits this account."""
        with self.ledger._database.reading() as connection:
            row = self._row(connection)
            return balance_of(row, levels_of(connection, row, self.caller, self.ledger.name))

    def _prices(self, reservations: Sequence[Reservation]) -> list[Amount]:
        _require_different([reservation.release_id for reservation in reservations])
        return [price(reservation.event, self._currency) for reservation in reservations]

    def _admit(
        self, connection: sa.Connection, reservations: Sequence[Reservation], amounts: Sequence[Amount]
    ) -> tuple[list[int], list[Level]]:
        """Which reservations are not charged yet, and the levels that they all fit under."""
        row = self._row(connection)
        self._require_name(connection, row)
        levels = levels_of(connection, row, self.caller, self.ledger.name)
        past = self._past(connection, [reservation.release_id for reservation in reservations])
        fresh = [i for i, one in enumerate(reservations) if not self._is_open(past.get(one.release_id), one)]
        if fresh:
            asked = sum((amounts[i] for i in fresh), Amount())
            refuse(row, levels, asked, [reservations[i].event for i in fresh], self.ledger.name)
        return fresh, levels

    def _require_name(self, connection: sa.Connection, row: Any) -> None:
        if self.caller is None:
            refuse_unnamed(connection, row, self.ledger.name)

    def _row(self, connection: sa.Connection) -> Any:
        return connection.execute(sa.select(DATA_SET).where(DATA_SET.c.id == self._number)).one()

    def _past(self, connection: sa.Connection, release_ids: Sequence[str]) -> dict[str, list[Any]]:
        """What the history says of each id, whatever the data set."""
        past: dict[str, list[Any]] = {}
        columns = (ENTRY.c.release_id, ENTRY.c.kind, ENTRY.c.data_set, ENTRY.c.detail)
        for some in _chunks(release_ids):
            found = sa.select(*columns).where(ENTRY.c.release_id.in_(some)).order_by(ENTRY.c.seq)
            for row in connection.execute(found):
                past.setdefault(row.release_id, []).append(row)
        return past

    def _is_open(self, entries: list[Any] | None, reservation: Reservation) -> bool:
        """Whether exactly this was charged before and has not left."""
        if not entries:
            return False
        first = entries[0]
        if len(entries) > 1 or first.kind != "reserve" or first.data_set != self._number:
            raise _used(reservation.release_id)
        told = detail_of(first.detail)
        same = told.get("event") in (event_to_json(reservation.event), describe(reservation.event))
        if not same or told.get("note") != reservation.note or told.get("caller") != self.caller:
            raise _used(reservation.release_id)
        return True


def _used(release_id: str) -> LedgerMismatchError:
    return LedgerMismatchError(f"The release id {release_id!r} was used before. An answer leaves once; use a new id.")


def _require_different(release_ids: Sequence[str]) -> None:
    if len(set(release_ids)) < len(release_ids):
        twice = next(one for i, one in enumerate(release_ids) if one in release_ids[:i])
        raise LedgerMismatchError(f"The release id {twice!r} is named twice. An answer leaves once; use a new id.")


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _CHUNK):
        yield ids[start : start + _CHUNK]
