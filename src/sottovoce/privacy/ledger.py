"""The ledger: what was spent on a data set, written durably before the first private read.

The budget belongs to the data. A data set is known by its fingerprint; opening it again finds what was spent, and two
processes charging the same file cannot overspend together, because a charge holds the database's write lock from the
look at the balance to the commit. A charge is never given back. The history is append-only and every entry holds the
hash of the one before, so that a changed, missing or moved row is found by ``verify``.

Guarantee   The sum of charges never exceeds the cap, whatever was asked in whatever order.
Sources     specification T14 (filters), 6.5 (what a release is charged), 6.7 (durable before the release).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import sqlalchemy as sa

from sottovoce.errors import BudgetExhaustedError, LedgerMismatchError
from sottovoce.privacy.accountant import rho_of_bounded_range
from sottovoce.privacy.budget import SCALE, Budget, amount_of
from sottovoce.privacy.events import DpEvent, describe
from sottovoce.privacy.ledger_balance import Balance, balance_of, budget_of
from sottovoce.privacy.ledger_chain import append, find_problems
from sottovoce.privacy.ledger_registry import remember
from sottovoce.privacy.ledger_schema import DATA_SET, ENTRY, FINGERPRINT, Database
from sottovoce.privacy.unit import Adjacency

IN_MEMORY: Final = ":memory:"
"""Name of a ledger that forgets when the process ends; it must be asked for by this name."""


@final
@dataclass(frozen=True)
class Identity:
    """What a ledger knows of a data set: never its content.

    Attributes:
        fingerprint: Of the records, whatever their order or file format.
        adjacency: The relation that the budget is kept in.
        unit: Who is protected.
    """

    fingerprint: str
    adjacency: Adjacency
    unit: str


@final
@dataclass(frozen=True)
class Reservation:
    """One charge that is to be made: its id, its event and public words about it."""

    release_id: str
    event: DpEvent
    note: str


@final
class Ledger:
    """A ledger file.

    Args:
        path: A file, created on first use, or ``":memory:"``.

    Raises:
        LedgerUnavailableError: The file cannot be used as a ledger.
    """

    def __init__(self, path: str) -> None:
        self._database = Database(path)
        self.path, self.name = path, self._database.name

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def open(self, identity: Identity, budget: Budget | None) -> Account:
        """Finds the account of a data set, or opens it with ``budget`` if the ledger is still empty.

        Raises:
            LedgerMismatchError: The account is kept for another adjacency or unit, the budget differs from the one on
                record, no budget was given on first use, or the ledger is kept for other data.
        """
        with self._database.writing() as connection:
            row = connection.execute(
                sa.select(DATA_SET).join(FINGERPRINT).where(FINGERPRINT.c.fingerprint == identity.fingerprint)
            ).first()
            if row is None:
                if connection.scalar(sa.select(sa.func.count()).select_from(DATA_SET)):
                    raise LedgerMismatchError(
                        f"The ledger {self.name} is kept for other records. If these are a new version of them, the "
                        "owner lets them share the budget with 'sotto ledger grant --continues NAME'; if not, "
                        "name another ledger."
                    )
                row = self._create(connection, identity, _required(budget, self.name), "data")
        self._check(row, identity, budget)
        return self._account(row.id, identity)

    def grant(
        self, identity: Identity, budget: Budget | None, *, name: str | None = None, continues: str | None = None
    ) -> Account:
        """The owner's decisions: a further data set, a larger budget, or a new version that shares a budget.

        Raises:
            LedgerMismatchError: The name is unknown or taken, or the budget would shrink or change its delta.
        """
        with self._database.writing() as connection:
            known = connection.execute(
                sa.select(DATA_SET).join(FINGERPRINT).where(FINGERPRINT.c.fingerprint == identity.fingerprint)
            ).first()
            if known is None and continues:
                known = connection.execute(sa.select(DATA_SET).where(DATA_SET.c.name == continues)).first()
                if known is None:
                    raise LedgerMismatchError(f"The ledger {self.name} keeps no data set named {continues!r}.")
                self._check(known, identity, None)
                connection.execute(sa.insert(FINGERPRINT).values(fingerprint=identity.fingerprint, data_set=known.id))
                append(connection, known.id, "version", None, 0, {"fingerprint": identity.fingerprint})
            if known is None:
                known = self._create(connection, identity, _required(budget, self.name), name or "data")
                budget = None
            self._check(known, identity, None)
            if continues and known.name != continues:
                raise LedgerMismatchError(
                    f"The ledger {self.name} keeps these records as {known.name!r} already, with a budget of "
                    f"their own; they cannot also continue {continues!r}."
                )
            if budget is not None:
                self._raise_cap(connection, known, budget)
        return self._account(known.id, identity)

    def balances(self) -> list[Balance]:
        """How every data set of this ledger stands."""
        with self._database.reading() as connection:
            return [
                balance_of(connection, row) for row in connection.execute(sa.select(DATA_SET).order_by(DATA_SET.c.id))
            ]

    def history(self) -> list[dict[str, Any]]:
        """Every entry, oldest first."""
        with self._database.reading() as connection:
            return [dict(row._mapping) for row in connection.execute(sa.select(ENTRY).order_by(ENTRY.c.seq))]

    def verify(self) -> list[str]:
        """Checks the chain and every balance against it; returns what is wrong, nothing if all is well."""
        with self._database.reading() as connection:
            return find_problems(connection)

    def _account(self, number: int, identity: Identity) -> Account:
        other = None if self.path == IN_MEMORY else remember(identity.fingerprint, self.path)
        return Account(self, number, other)

    def _create(self, connection: sa.Connection, identity: Identity, budget: Budget, name: str) -> Any:
        if connection.scalar(sa.select(sa.func.count()).select_from(DATA_SET).where(DATA_SET.c.name == name)):
            raise LedgerMismatchError(
                f"The ledger {self.name} already keeps a data set named {name!r}; choose another."
            )
        values = {
            "name": name,
            "adjacency": identity.adjacency.value,
            "unit": identity.unit,
            "epsilon": repr(budget.epsilon),
            "delta": repr(budget.delta),
            "cap": budget.cap,
            "spent": 0,
        }
        made = connection.execute(sa.insert(DATA_SET).values(**values))
        number = made.inserted_primary_key[0] if made.inserted_primary_key else 0
        connection.execute(sa.insert(FINGERPRINT).values(fingerprint=identity.fingerprint, data_set=number))
        append(connection, number, "open", None, 0, {**values, "fingerprint": identity.fingerprint})
        return connection.execute(sa.select(DATA_SET).where(DATA_SET.c.id == number)).one()

    def _check(self, row: Any, identity: Identity, budget: Budget | None) -> None:
        if row.adjacency != identity.adjacency.value or row.unit != identity.unit:
            raise LedgerMismatchError(
                f"The ledger {self.name} keeps these records under {row.adjacency} adjacency with unit '{row.unit}'; "
                f"{identity.adjacency.value} with unit '{identity.unit}' was asked. Epsilons of different relations do "
                "not add up: ask under the ledger's, or let the owner open another ledger."
            )
        if budget is not None and (repr(budget.epsilon), repr(budget.delta)) != (row.epsilon, row.delta):
            raise LedgerMismatchError(
                f"The ledger {self.name} has the budget epsilon {row.epsilon}, delta {row.delta} for these records; "
                f"{budget} was given. Leave --budget out, or let the owner raise it with 'sotto ledger grant'."
            )

    def _raise_cap(self, connection: sa.Connection, row: Any, budget: Budget) -> None:
        if float(row.delta) != budget.delta or float(row.epsilon) > budget.epsilon:
            raise LedgerMismatchError(
                f"The ledger {self.name} has the budget epsilon {row.epsilon}, delta {row.delta}. A budget can only "
                "grow, and its delta stays."
            )
        values = {"epsilon": repr(budget.epsilon), "cap": budget.cap}
        connection.execute(sa.update(DATA_SET).where(DATA_SET.c.id == row.id).values(**values))
        append(connection, row.id, "grant", None, 0, values)


@final
class Account:
    """One data set's side of a ledger.

    Attributes:
        ledger: The ledger.
        other_ledger: Path of another ledger in use for the same records on this machine, if there is one: the two
            budgets add up, and neither knows of the other.
    """

    def __init__(self, ledger: Ledger, number: int, other_ledger: str | None = None) -> None:
        self.ledger, self._number, self.other_ledger = ledger, number, other_ledger

    def reserve(self, reservations: Sequence[Reservation]) -> None:
        """Charges all of them durably, or none.

        An id that is already reserved with the same event, and not yet released, is not charged again.

        Raises:
            BudgetExhaustedError: They do not fit; nothing was charged.
            LedgerMismatchError: An id was used before for something else, or its answer was already released.
        """
        with self.ledger._database.writing() as connection:
            row = self._row(connection)
            currency = budget_of(row).currency
            fresh = [r for r in reservations if not self._is_open(connection, r)]
            amounts = [amount_of(r.event, currency) for r in fresh]
            if row.spent + sum(amounts) > row.cap:
                raise self._refusal(row, sum(amounts), fresh)
            for reservation, amount in zip(fresh, amounts, strict=True):
                detail = {"event": describe(reservation.event), "note": reservation.note}
                append(connection, row.id, "reserve", reservation.release_id, amount, detail)
            self._add(connection, row, sum(amounts))

    def check(self, reservations: Sequence[Reservation]) -> None:
        """Raises what ``reserve`` would raise for want of budget, and charges nothing."""
        with self.ledger._database.reading() as connection:
            row = self._row(connection)
            asked = sum(amount_of(r.event, budget_of(row).currency) for r in reservations)
            if row.spent + asked > row.cap:
                raise self._refusal(row, asked, reservations)

    def record_non_private(self, release_ids: Sequence[str], note: str) -> None:
        """Notes releases that have no guarantee, so that every later statement can say so."""
        with self.ledger._database.writing() as connection:
            row = self._row(connection)
            for release_id in release_ids:
                append(connection, row.id, "non-private", release_id, 0, {"note": note})

    def mark_released(self, release_ids: Sequence[str]) -> None:
        """Notes durably that these answers are drawn and about to leave; they can never be drawn again."""
        with self.ledger._database.writing() as connection:
            charged = sa.select(ENTRY.c.release_id).where(
                ENTRY.c.data_set == self._number,
                ENTRY.c.kind.in_(("reserve", "non-private")),
                ENTRY.c.release_id.in_(release_ids),
            )
            known = set(connection.scalars(charged))
            for release_id in release_ids:
                if release_id not in known:
                    raise LedgerMismatchError(f"The release id {release_id!r} was never charged.")
                append(connection, self._number, "release", release_id, 0, {})

    def balance(self) -> Balance:
        """How the data set stands."""
        with self.ledger._database.reading() as connection:
            return balance_of(connection, self._row(connection))

    def _row(self, connection: sa.Connection) -> Any:
        return connection.execute(sa.select(DATA_SET).where(DATA_SET.c.id == self._number)).one()

    def _add(self, connection: sa.Connection, row: Any, amount: int) -> None:
        connection.execute(sa.update(DATA_SET).where(DATA_SET.c.id == row.id).values(spent=DATA_SET.c.spent + amount))

    def _is_open(self, connection: sa.Connection, reservation: Reservation) -> bool:
        rows = connection.execute(sa.select(ENTRY).where(ENTRY.c.release_id == reservation.release_id)).all()
        if not rows:
            return False
        first = next((row for row in rows if row.kind == "reserve"), None)
        detail = json.dumps({"event": describe(reservation.event), "note": reservation.note}, sort_keys=True)
        if len(rows) > 1 or first is None or first.data_set != self._number or first.detail != detail:
            raise LedgerMismatchError(
                f"The release id {reservation.release_id!r} was used before. An answer leaves once; use a new id."
            )
        return True

    def _refusal(self, row: Any, asked: int, reservations: Sequence[Reservation]) -> BudgetExhaustedError:
        budget, left = budget_of(row), row.cap - row.spent
        count = len(reservations)
        one = amount_of(reservations[0].event, budget.currency)
        fit = left // one if one else count
        largest = _largest_epsilon(left / count / SCALE, budget.currency)
        what = f"{count} answers ask" if count > 1 else "asked:"
        return BudgetExhaustedError(
            f"{budget.currency} {asked / SCALE:.6g} asked, {left / SCALE:.6g} left of {row.cap / SCALE:.6g} in "
            f"{self.ledger.name} (budget {budget}, {row.adjacency} adjacency, unit '{row.unit}'; {what} "
            f"{describe(reservations[0].event)}{' each' if count > 1 else ''}). Nothing was charged. "
            + (f"At this price {fit} more would fit. " if count > 1 or fit else "")
            + (f"Ask at epsilon {largest:.4g} or less, or let" if largest >= 1e-4 else "Let")
            + " the data owner grant more with 'sotto ledger grant'.",
            asked=asked / SCALE,
            left=left / SCALE,
            limit=row.cap / SCALE,
        )


def _required(budget: Budget | None, name: str) -> Budget:
    if budget is None:
        raise LedgerMismatchError(
            f"The ledger {name} does not know these records yet. State their whole budget on first use, such as "
            "--budget 8,1e-6."
        )
    return budget


def _largest_epsilon(left: float, currency: str) -> float:
    """The largest epsilon of one selection that fits into ``left``, rounded down to four digits."""
    if currency == "epsilon":
        return left * (1 - 1e-9)
    low, high = 0.0, 1_000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_of_bounded_range(middle) <= left else (low, middle)
    return float(f"{low * 0.9995:.3g}")
