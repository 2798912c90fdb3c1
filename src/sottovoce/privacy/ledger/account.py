"""One data set's side of a ledger: where charges are made, before the first private read.

A charge is looked at twice: first with a read, so that a crowd that is refused does not queue for the write lock, then
under the lock, where it counts. What was spent never falls, so a first look that refuses is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, final

import sqlalchemy as sa

from sottovoce.deprecated import renamed
from sottovoce.errors import LedgerMismatchError, LedgerUnavailableError, ParameterError
from sottovoce.privacy.event_json import event_to_json
from sottovoce.privacy.events import DpEvent, describe
from sottovoce.privacy.ledger.balance import Balance, balance_of
from sottovoce.privacy.ledger.caps import GROUP, budget_of, caps_of, charge, refuse_unnamed
from sottovoce.privacy.ledger.database import Database
from sottovoce.privacy.ledger.filter import FAILURE_SCALE, Cap, Cost, price
from sottovoce.privacy.ledger.history import NOT_VERIFIED_NOTE, Entry, append, carry_out, charged, detail_of
from sottovoce.privacy.ledger.refusal import refuse
from sottovoce.privacy.ledger.schema import DATA_SET, ENTRY, SECRET
from sottovoce.privacy.ledger.secret import RECORDS, data_hash, keyed
from sottovoce.privacy.numbers import float_above

_RELEASE_ID: Final = re.compile(r"[!-~]{1,64}")
_CHUNK: Final = 500


@final
@dataclass(frozen=True)
class Reservation:
    """One charge that is to be made.

    Attributes:
        release_id: Its id.
        event: What is charged.
        note: Public words about it.
        asked: Hash of the whole request that it is a charge of, public; ``None`` where the note says it all.
    """

    release_id: str
    event: DpEvent
    note: str
    asked: str | None = None


@final
@dataclass(frozen=True)
class Standing:
    """What the history says of a charge.

    Attributes:
        begun: Whether it began to be drawn.
        left: Whether it left.
        content: The hash that was noted when it left.
        asked: The hash of the request that it is a charge of; ``None`` where none was noted.
        caller: Who was charged beside the data set; ``None`` for nobody.
    """

    begun: bool
    left: bool
    content: str | None
    asked: str | None
    caller: str | None


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
        database: The ledger's database.
        caller: Whose cap is charged beside the data set's; ``None`` charges the data set alone.
        conflicting_ledger: Path of another ledger in use for the same records on this machine, if there is one: the two
            budgets add up, and neither knows of the other.
        opened_by: The ``Ledger`` that opened it; see ``Ledger.of``.
    """

    def __init__(
        self,
        database: Database,
        row: Any,
        currency: str,
        caller: str | None,
        conflicting_ledger: str | None,
        opened_by: Any,
    ) -> None:
        self.database, self.caller, self.conflicting_ledger = database, caller, conflicting_ledger
        self.opened_by = opened_by
        self._number, self._currency = int(row.id), currency

    ledger = renamed("ledger", "opened_by")

    def reserve(self, reservations: Sequence[Reservation], *, allow_retry: bool = True) -> None:
        """Charges all of them durably, or none, to every cap that they count against.

        An id that is already reserved with the same event, and neither begun nor released, is not charged again.

        Args:
            reservations: What to charge.
            allow_retry: Whether an id may be reserved already. Not where a second try would sample the records again:
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
        with self.database.reading() as connection:
            self._admit(connection, reservations, amounts)
        with self.database.writing() as connection:
            fresh, levels = self._admit(connection, reservations, amounts)
            if not allow_retry and len(fresh) < len(reservations):
                raise _used(
                    next(reservation.release_id for i, reservation in enumerate(reservations) if i not in fresh)
                )
            if not fresh:
                return
            group = next((level.name for level in levels if level.kind == GROUP), None)
            entries = []
            for i in fresh:
                reservation, amount = reservations[i], amounts[i]
                always = {"event": events[i], "note": reservation.note}
                optional = {"caller": self.caller, "group": group, "failure": amount.failure or None}
                optional["asked"] = reservation.asked
                detail = {**always, **{key: value for key, value in optional.items() if value is not None}}
                entries.append(Entry(self._number, "reserve", reservation.release_id, amount.loss, detail))
            append(connection, entries)
            total = sum((amounts[i] for i in fresh), Cost())
            unverified = sum(NOT_VERIFIED_NOTE in reservations[i].note for i in fresh)
            charge(connection, self._number, levels, total, len(fresh), unverified)

    def check(self, reservations: Sequence[Reservation]) -> None:
        """Raises what ``reserve`` would raise, and charges nothing."""
        with self.database.reading() as connection:
            self.check_within(connection, reservations)

    def check_within(self, connection: sa.Connection, reservations: Sequence[Reservation]) -> None:
        """As ``check``, in a transaction of the ledger."""
        self._admit(connection, reservations, self._prices(reservations))

    def check_again(self, event: DpEvent, count: int) -> None:
        """Raises what ``reserve`` would raise for so many new releases of one event, and charges nothing."""
        amount = price(event, self._currency)
        with self.database.reading() as connection:
            row, levels = self._standing_of(connection, [amount] if count else [])
            refuse(row, levels, amount * count, [event], count, self.database.name)

    def record_non_private(self, release_ids: Sequence[str], note: str) -> None:
        """Notes releases that have no guarantee, so that every later statement can say so.

        Raises:
            LedgerMismatchError: An id was used before for something else, or its answer was already released.
        """
        _require_different([require_release_id(release_id) for release_id in release_ids])
        with self.database.writing() as connection:
            self._require_name(connection, self._row(connection))
            past = self._past(connection, release_ids)
            fresh = [release_id for release_id in release_ids if release_id not in past]
            for entries in past.values():
                if len(entries) > 1 or (entries[0].kind, entries[0].data_set) != ("non-private", self._number):
                    raise _used(entries[0].release_id)
            append(
                connection,
                [Entry(self._number, "non-private", release_id, detail={"note": note}) for release_id in fresh],
            )
            raised = {"non_private": DATA_SET.c.non_private + len(fresh)}
            carry_out(connection, sa.update(DATA_SET).where(DATA_SET.c.id == self._number).values(**raised))

    def begin(self, release_ids: Sequence[str]) -> None:
        """Notes durably that these answers are about to be drawn. A charge covers one draw: they can never begin again.

        Raises:
            LedgerMismatchError: One of them was never charged, or has begun or left already; then none may be drawn.
            LedgerUnavailableError: It cannot be noted. What was charged stands.
        """
        _require_different(release_ids)
        with _behind_a_charge(), self.database.writing() as connection:
            past = self._past(connection, release_ids)
            for release_id in release_ids:
                entries = past.get(release_id, [])
                if not any(entry.kind == "reserve" and entry.data_set == self._number for entry in entries):
                    raise LedgerMismatchError(f"The release id {release_id!r} was never charged.")
                if len(entries) > 1:
                    raise LedgerMismatchError(
                        f"The answer {release_id!r} began to be drawn before, perhaps by another process at this "
                        "moment. Its charge covers that draw and no other; use a new id."
                    )
            append(connection, [Entry(self._number, "draw", release_id) for release_id in release_ids])

    def mark_released(
        self, release_ids: Sequence[str], content: Mapping[str, str] | None = None, *, isolated: bool = True
    ) -> None:
        """Notes durably that these answers leave; they can never be drawn again.

        Where ``begin`` was not called it is called before the draw, and stands for both.

        Args:
            release_ids: The answers.
            content: For some of them a hash of what leaves, so that a copy set aside before a crash can be told from a
                draw that never left.
            isolated: Whether the model, once it had read records, was still seen to keep experts apart. What was not is
                counted among those of ``Balance.unverified``, as where it was known before the charge.

        Raises:
            LedgerMismatchError: One of them was never charged, or was released already; then none of them may leave.
            LedgerUnavailableError: It cannot be noted. What was charged stands.
        """
        _require_different(release_ids)
        with _behind_a_charge(), self.database.writing() as connection:
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
            details = {release_id: {"content": text} for release_id, text in (content or {}).items()}
            found = [] if isolated else [each for each in release_ids if _was_isolated(past[each])]
            for release_id in found:
                details.setdefault(release_id, {})["note"] = NOT_VERIFIED_NOTE
            append(
                connection,
                [
                    Entry(self._number, "release", release_id, detail=details.get(release_id, {}))
                    for release_id in release_ids
                ],
            )
            if found:
                raised = {"unverified": DATA_SET.c.unverified + len(found)}
                carry_out(connection, sa.update(DATA_SET).where(DATA_SET.c.id == self._number).values(**raised))

    def standing(self, prefix: str) -> dict[str, Standing]:
        """Every charge to this data set whose id begins like this, and how it stands."""
        query = sa.select(ENTRY.c.release_id, ENTRY.c.kind, ENTRY.c.detail)
        query = query.where(ENTRY.c.release_id.startswith(prefix, autoescape=True), ENTRY.c.data_set == self._number)
        charges: dict[str, dict[str, str]] = {}
        with self.database.reading() as connection:
            for release_id, kind, detail in connection.execute(query.order_by(ENTRY.c.seq)):
                charges.setdefault(release_id, {})[kind] = detail
        return {
            release_id: Standing(
                "draw" in kinds,
                "release" in kinds,
                detail_of(kinds.get("release", "{}")).get("content"),
                detail_of(kinds["reserve"]).get("asked"),
                detail_of(kinds["reserve"]).get("caller"),
            )
            for release_id, kinds in charges.items()
            if "reserve" in kinds and release_id.startswith(prefix)
        }

    @property
    def origin(self) -> str:
        """What tells this ledger from any other, wherever it is moved: the hash of its first entry."""
        with self.database.reading() as connection:
            return str(connection.scalar(sa.select(ENTRY.c.hash).order_by(ENTRY.c.seq).limit(1)))

    def keyed(self, purpose: str, text: str) -> str:
        """A hash under the data set's own key, which tells this ledger and these data from any other.

        Keys are read once: what was drawn must not be lost because the ledger cannot be read at that moment.
        """
        return keyed(self._secrets[RECORDS], purpose, text)

    def data_hash(self, run: str, fingerprint: str) -> str:
        """The hash of the records that the certificate of a run names."""
        return data_hash(self._secrets, run, fingerprint)

    @cached_property
    def _secrets(self) -> dict[str, str]:
        with self.database.reading() as connection:
            return secrets_in(connection, self._number)

    def balance(self) -> Balance:
        """How the data set stands, and what limits this account."""
        with self.database.reading() as connection:
            row = self._row(connection)
            return balance_of(row, caps_of(connection, row, self.caller, self.database.name))

    def _prices(self, reservations: Sequence[Reservation]) -> list[Cost]:
        _require_different([reservation.release_id for reservation in reservations])
        return [price(reservation.event, self._currency) for reservation in reservations]

    def _admit(
        self, connection: sa.Connection, reservations: Sequence[Reservation], amounts: Sequence[Cost]
    ) -> tuple[list[int], list[Cap]]:
        """Which reservations are not charged yet, and the levels that they all fit under."""
        row, levels = self._standing_of(connection, amounts)
        past = self._past(connection, [reservation.release_id for reservation in reservations])
        fresh = [
            i
            for i, reservation in enumerate(reservations)
            if not self._is_open(past.get(reservation.release_id), reservation)
        ]
        if fresh:
            cost = sum((amounts[i] for i in fresh), Cost())
            refuse(row, levels, cost, [reservations[i].event for i in fresh], len(fresh), self.database.name)
        return fresh, levels

    def _standing_of(self, connection: sa.Connection, amounts: Sequence[Cost]) -> tuple[Any, list[Cap]]:
        """The data set's row and its levels, where it takes charges of such amounts at all."""
        row = self._row(connection)
        self._require_name(connection, row)
        if budget_of(row).delta == 0 and any(amount.failure for amount in amounts):
            largest = float_above(Fraction(max(amount.failure for amount in amounts), FAILURE_SCALE))
            raise ParameterError(
                "delta of this charge",
                largest,
                f"0: the budget's delta is 0 in {self.database.name}. Choose a method that needs no delta, or let the "
                "data owner open a ledger with one, such as --budget 8,1e-6",
            )
        return row, caps_of(connection, row, self.caller, self.database.name)

    def _require_name(self, connection: sa.Connection, row: Any) -> None:
        if self.caller is None:
            refuse_unnamed(connection, row, self.database.name)

    def _row(self, connection: sa.Connection) -> Any:
        return connection.execute(sa.select(DATA_SET).where(DATA_SET.c.id == self._number)).one()

    def _past(self, connection: sa.Connection, release_ids: Sequence[str]) -> dict[str, list[Any]]:
        """What the history says of each id, whatever the data set."""
        past: dict[str, list[Any]] = {}
        columns = (ENTRY.c.release_id, ENTRY.c.kind, ENTRY.c.data_set, ENTRY.c.detail)
        for chunk in _chunks(release_ids):
            query = sa.select(*columns).where(ENTRY.c.release_id.in_(chunk)).order_by(ENTRY.c.seq)
            for row in connection.execute(query):
                past.setdefault(row.release_id, []).append(row)
        return past

    def _is_open(self, entries: list[Any] | None, reservation: Reservation) -> bool:
        """Whether exactly this was charged before and has not left."""
        if not entries:
            return False
        first = entries[0]
        if len(entries) > 1 or first.kind != "reserve" or first.data_set != self._number:
            raise _used(reservation.release_id)
        detail = detail_of(first.detail)
        same = detail.get("event") in (event_to_json(reservation.event), describe(reservation.event))
        words = (_without_isolation(reservation.note), self.caller, reservation.asked)
        before = (_without_isolation(str(detail.get("note"))), detail.get("caller"), detail.get("asked"))
        if not same or words != before:
            raise _used(reservation.release_id)
        return True


def secrets_in(connection: sa.Connection, data_set: int) -> dict[str, str]:
    """The secrets of a data set by name.

    Raises:
        LedgerUnavailableError: Its own key is missing.
    """
    query = sa.select(SECRET.c.name, SECRET.c.value).where(SECRET.c.data_set == data_set)
    secrets = {row.name: row.value for row in connection.execute(query)}
    if RECORDS not in secrets:
        raise LedgerUnavailableError("The ledger lacks the key of its records; see 'sotto ledger verify'.")
    return secrets


@contextmanager
def _behind_a_charge() -> Iterator[None]:
    """Says of a ledger that cannot be used any more that what was charged stands."""
    try:
        yield
    except LedgerUnavailableError as error:
        raise LedgerUnavailableError(f"{error} What was charged before stands.") from error


def _used(release_id: str) -> LedgerMismatchError:
    return LedgerMismatchError(f"The release id {release_id!r} was used before. An answer leaves once; use a new id.")


def _without_isolation(note: str) -> str:
    """A charge's note without what was known of its model, which changes as a model runs."""
    return note.replace(f", {NOT_VERIFIED_NOTE}", "")


def _was_isolated(entries: Sequence[Any]) -> bool:
    """Whether an id was charged for a model that was seen to keep experts apart."""
    return any(entry.kind == "reserve" and not charged(entry.detail).unverified for entry in entries)


def _require_different(release_ids: Sequence[str]) -> None:
    if len(set(release_ids)) < len(release_ids):
        twice = next(release_id for i, release_id in enumerate(release_ids) if release_id in release_ids[:i])
        raise LedgerMismatchError(f"The release id {twice!r} is named twice. An answer leaves once; use a new id.")


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _CHUNK):
        yield ids[start : start + _CHUNK]
