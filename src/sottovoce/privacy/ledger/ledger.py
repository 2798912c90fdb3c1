"""The ledger: what was spent on a data set, written durably before the first private read.

The budget belongs to the data. A data set is known by its fingerprint; opening it again finds what was spent, and two
processes charging the same ledger cannot overspend together, because a charge holds the database's write lock from the
look at the balance to the commit. A charge is never given back. The history is append-only and every entry holds the
hash of the one before, so that a changed, missing or moved row is found by ``verify``.

Guarantee   The sum of charges never exceeds a cap, whatever was asked in whatever order, by whomever.
Sources     specification T14 (filters), 6.5 (what a release is charged), 6.7 (durable before the release).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from types import NoneType
from typing import Any, Final, final

import sqlalchemy as sa

from sottovoce.errors import BudgetError, LedgerMismatchError, ParameterError
from sottovoce.parameters import Kind
from sottovoce.privacy.ledger.account import Account, Reservation, require_release_id, secrets_in
from sottovoce.privacy.ledger.balance import Balance, balance_of
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.caps import (
    allot,
    budget_of,
    caps_of,
    caps_within,
    refuse_unnamed,
    require_caller,
    require_name,
)
from sottovoce.privacy.ledger.database import Database
from sottovoce.privacy.ledger.file import LedgerFile
from sottovoce.privacy.ledger.history import (
    SEEDED_NOTE,
    Entry,
    History,
    append,
    carry_out,
    charged,
    read_entries,
    read_history,
)
from sottovoce.privacy.ledger.identity import Identity
from sottovoce.privacy.ledger.location import IN_MEMORY, PICKLED, Address
from sottovoce.privacy.ledger.registry import first_budgets, note_first, prepare, refuse_second, remember
from sottovoce.privacy.ledger.schema import DATA_SET, ENTRY, FINGERPRINT, SECRET
from sottovoce.privacy.ledger.secret import RECORDS, keyed, new_key
from sottovoce.privacy.ledger.verify import find_notes, find_problems

__all__ = ["IN_MEMORY", "Account", "Identity", "Ledger", "Reservation", "require_release_id"]

_BUDGET: Final = "a Budget, such as Budget(8, 1e-6)"


@final
class Ledger:
    """A ledger: a file, memory, or a PostgreSQL database.

    Copies of it are the same ledger. Pickled, it is its path, or its address without a password, as a text; one in
    memory stays in its process, and what is unpickled is refused wherever a ledger is given.

    Args:
        path: A file, created on first use; ``":memory:"``; or ``"postgresql://USER@HOST/DATABASE"``. A password in it
            is used, and never shown or stored.

    Raises:
        LedgerUnavailableError: It cannot be used as a ledger.
        MissingExtraError: PostgreSQL needs a driver that is not installed.

    Example:
        >>> from sottovoce.privacy.events import BoundedRange
        >>> from sottovoce.privacy.unit import Adjacency
        >>> who = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")
        >>> account = Ledger(":memory:").open(who, Budget(1.0))
        >>> account.reserve([Reservation("answer-1", BoundedRange(0.25), "an example")])
        >>> account.balance().left
        0.75
    """

    def __init__(self, path: str) -> None:
        address = Address.parse(path)
        self._database = Database(address)
        self.path, self.name = address.shown, address.name

    @classmethod
    def of(cls, account: Account) -> Ledger:
        """The ledger that opened an account."""
        ledger: Ledger = account.opened_by
        return ledger

    @classmethod
    def adopt(cls, path: str) -> Ledger:
        """Opens a file that an older version wrote and closed; its owner confirms that no charge is missing in it.

        Such a version kept the newest charges in a log beside the file, and the file does not show whether it had one.

        Raises:
            ParameterError: The path names no file.
            LedgerUnavailableError: It cannot be used as a ledger, is not whole, or is open in another program.
        """
        address = Address.parse(path)
        if address.file is None:
            raise ParameterError("ledger", address.shown, "a file: no other ledger has a log")
        LedgerFile(address.file, address.name).adopt()
        ledger = cls(path)
        ledger.balances()
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # Another process would have an empty one in memory, with a budget of its own.
        return str, (PICKLED if self.path == IN_MEMORY else self.path,)

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self

    def open(
        self,
        identity: Identity,
        budget: Budget | None,
        *,
        caller: str | None = None,
        first_budget: Budget | None = None,
    ) -> Account:
        """Finds the account of a data set, or opens it with ``budget`` if the ledger is still empty.

        Args:
            identity: The data set.
            budget: Its whole budget, needed on first use; later it must be the one on record.
            caller: Who asks, if the owner allotted a cap to each caller.
            first_budget: Its budget on first use where none was given.

        Raises:
            LedgerMismatchError: The account is kept for another adjacency or unit, the budget differs from the one on
                record, no budget was given on first use, the ledger is kept for other data, the records have a budget
                in another ledger, or the caller is unknown or left out where one is required.
        """
        _require_kinds(identity, budget, first_budget)
        Kind((str, NoneType), "a name, or left out").read("caller", caller)
        with self._database.reading() as connection:
            row = _known(connection, identity)
        if row is None:
            prepare(identity)
            with self._database.writing() as connection:
                row = (
                    _known(connection, identity)
                    or self._known_before(connection, identity)
                    or self._first(connection, identity, budget or first_budget)
                )
        self._check(row, identity, budget)
        if caller is None:
            with self._database.reading() as connection:
                refuse_unnamed(connection, row, self.name)
        return self._account(row, identity, caller)

    def budget_of(self, identity: Identity) -> Budget | None:
        """The budget that a data set has here; ``None`` where the ledger does not know it. Nothing is opened."""
        _require_kinds(identity)
        with self._database.reading() as connection:
            row = _known(connection, identity)
        return None if row is None else budget_of(row)

    def is_empty(self, *, verified: bool = True) -> bool:
        """Whether no data set has a budget here, as where a first run was stopped before it opened one.

        Args:
            verified: Whether the ledger must be whole; not where it is opened right afterwards, which looks at that.
        """
        with self._database.reading(verified=verified) as connection:
            return not connection.scalar(sa.select(sa.func.count()).select_from(DATA_SET))

    def grant(
        self, identity: Identity, budget: Budget | None, *, name: str | None = None, continues: str | None = None
    ) -> Account:
        """The owner's decisions: a further data set, a larger budget, or a new version that shares a budget.

        Raises:
            LedgerMismatchError: The name is unknown, taken, or not that of these records; or the budget would shrink
                or change its delta.
        """
        _require_kinds(identity, budget)
        for word, text in (("name", name), ("continues", continues)):
            Kind((str, NoneType), "a name, or left out").read(word, text)
        with self._database.reading() as connection:
            unknown = _known(connection, identity) is None
        if unknown:
            prepare(identity)
        with self._database.writing() as connection:
            known = _known(connection, identity) or self._known_before(connection, identity)
            new = known is None
            if known is None and continues:
                known = self._continue(connection, identity, continues)
            if known is None:
                known = self._create(connection, identity, _required(budget, self.name), name or "data")
                budget = None
            self._check(known, identity, None)
            if continues and known.name != continues:
                raise LedgerMismatchError(
                    f"The ledger {self.name} keeps these records as {known.name!r} already, with a budget of "
                    f"their own; they cannot also continue {continues!r}."
                )
            if name and known.name != name:
                raise LedgerMismatchError(
                    f"The ledger {self.name} keeps these records as {known.name!r}, not as {name!r}. Leave the name "
                    f"out to decide about the budget of {known.name!r}. Nothing was changed."
                )
            if budget is not None:
                self._raise_cap(connection, known, budget)
            if new:
                self._note(identity, known)
        return self._account(known, identity, None)

    def join(
        self,
        identity: Identity,
        budget: Budget | None,
        *,
        caller: str | None = None,
        charges: Sequence[Reservation] = (),
    ) -> None:
        """Lets records that have no budget draw on the only one of this ledger, such as folds of what it keeps.

        Args:
            identity: The data set.
            budget: That budget; ``None`` for whichever it is.
            caller: Who asks, if the owner allotted a cap to each caller.
            charges: What they are charged next: where it does not fit they are not let in.

        Raises:
            LedgerMismatchError: The ledger keeps several budgets, or none, or another one, or for another adjacency or
                unit; or the records, or most of them, have a budget in another ledger; or the caller is unknown.
            LedgerUnavailableError: Their ledger is gone or was emptied.
            BudgetExhaustedError: They could not be charged.
        """
        _require_kinds(identity, budget)
        prepare(identity)
        with self._database.writing() as connection:
            known = _known(connection, identity) or self._known_before(connection, identity)
            if known is not None:
                self._check(known, identity, budget)
                return
            with first_budgets(identity):
                row = self._shared(connection, identity, budget)
                account = Account(self._database, row, budget_of(row).currency, caller, None, self)
                account.check_within(connection, charges)
                self._add_version(connection, row, identity)
                note_first(identity, self.path, row.name)

    def admits(self, identity: Identity, budget: Budget | None) -> bool:
        """Whether ``join`` would let further records in, as far as caller and charges go. Nothing is written."""
        _require_kinds(identity, budget)
        prepare(identity)
        try:
            with self._database.reading() as connection:
                if _known(connection, identity) is None:
                    self._shared(connection, identity, budget)
                    return True
        except BudgetError:
            pass
        return False

    def allot(
        self, identity: Identity, *, budget: Budget, caller: str | None = None, group: str | None = None
    ) -> Account:
        """The owner caps what a caller may spend of a data set's budget, or what a group of callers may.

        Args:
            identity: The data set, which the ledger knows already.
            budget: The cap, with the data set's own delta and order. It may be changed, never below what is spent.
            caller: Who is capped; without one the group is.
            group: The group that the caller is in, which has a cap already.

        Returns:
            The caller's account; the data set's where a group was capped.

        Raises:
            ParameterError: Neither a caller nor a group is named.
            LedgerMismatchError: The data set or the group is unknown, or the budget does not fit.
        """
        _require_kinds(identity)
        Kind(Budget, _BUDGET).read("budget", budget)
        if caller is None and group is None:
            raise ParameterError("caller and group", None, "named, at least one of them")
        with self._database.writing() as connection:
            row = self._require_known(connection, identity)
            allot(connection, row, budget, caller, group)
        return self._account(row, identity, caller)

    def require_caller(self, identity: Identity, *, required: bool = True) -> Account:
        """The owner requires a caller's name for every charge to a data set's budget, or no longer requires it.

        Raises:
            LedgerMismatchError: The data set is unknown.
        """
        _require_kinds(identity)
        with self._database.writing() as connection:
            row = self._require_known(connection, identity)
            require_caller(connection, row, required=required)
        return self._account(row, identity, None)

    def balances(self) -> list[Balance]:
        """The balance of every data set of this ledger, with its callers and groups."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(DATA_SET).order_by(DATA_SET.c.id)).all()
            seeded = _seeded(connection)
            return [balance_of(row, caps=caps_within(connection, row.id), seeded=seeded[row.id]) for row in rows]

    def history(self) -> list[dict[str, Any]]:
        """Every entry, oldest first."""
        with self._database.reading(verified=False) as connection:
            return list(read_entries(connection))

    def count(self) -> int:
        """How many entries the history has."""
        with self._database.reading(verified=False) as connection:
            return int(connection.scalar(sa.select(sa.func.count()).select_from(ENTRY)) or 0)

    @contextmanager
    def rows(self) -> Iterator[History]:
        """A snapshot of the whole ledger as plain rows, for checks; entries are read as they are used."""
        with self._database.reading(verified=False) as connection, closing(read_entries(connection)) as entries:
            yield read_history(connection, entries)

    def verify(self) -> list[str]:
        """Checks the file, the chain, every price and every balance; returns a list of the problems found."""
        with self._database.reading(verified=False) as connection, closing(read_entries(connection)) as entries:
            return [*self._database.faults(connection), *find_problems(read_history(connection, entries))]

    def notes(self) -> list[str]:
        """Notes that are not errors, such as a cap of an earlier version that admits nothing."""
        with self.rows() as kept:
            return find_notes(kept)

    def close(self) -> None:
        """Closes its connections; the next use opens new ones."""
        self._database.close()

    def _account(self, row: Any, identity: Identity, caller: str | None) -> Account:
        if caller is not None:
            with self._database.reading() as connection:
                caps_of(connection, row, caller, self.name)
        other = remember(identity, self.path, row.name, self._database.place)
        return Account(self._database, row, budget_of(row).currency, caller, other, self)

    def _require_known(self, connection: sa.Connection, identity: Identity) -> Any:
        """The data set of an owner's decision."""
        row = _known(connection, identity) or self._known_before(connection, identity)
        if row is None:
            raise LedgerMismatchError(
                f"The ledger {self.name} does not know these records yet. Open their budget first, with 'sotto "
                "ledger grant --budget EPSILON,DELTA'."
            )
        self._check(row, identity, None)
        return row

    def _known_before(self, connection: sa.Connection, identity: Identity) -> Any:
        """The data set that an earlier version of this package knew as these records; it goes on under their new name.

        Fingerprints of the first format did not tell data sets apart whose units alone differ: such share an account.
        """
        if connection.scalar(sa.select(sa.func.count()).select_from(FINGERPRINT)) == 0:
            return None
        for earlier in islice(identity.names(), 1, None):
            row = _with_fingerprint(connection, earlier)
            if row is not None:
                self._check(row, identity, None)
                self._add_version(connection, row, identity)
                self._note(identity, row)
                return row
        return None

    def _note(self, identity: Identity, row: Any) -> None:
        """Lets the store know, before the commit, of records that the owner gives an account of this ledger."""
        with first_budgets(identity):
            note_first(identity, self.path, row.name, granted=True)

    def _first(self, connection: sa.Connection, identity: Identity, budget: Budget | None) -> Any:
        with first_budgets(identity):
            refuse_second(identity, self.path)
            if connection.scalar(sa.select(sa.func.count()).select_from(DATA_SET)):
                raise self._of_others()
            row = self._create(connection, identity, _required(budget, self.name), "data")
            note_first(identity, self.path, row.name)
        return row

    def _shared(self, connection: sa.Connection, identity: Identity, budget: Budget | None) -> Any:
        """The only data set, where it may share its budget with records that it does not know."""
        refuse_second(identity, self.path, connection.scalars(sa.select(FINGERPRINT.c.fingerprint)).all())
        rows = connection.execute(sa.select(DATA_SET)).all()
        if not rows:
            _required(budget, self.name)
        if len(rows) != 1:
            raise self._of_others()
        self._check(rows[0], identity, budget)
        return rows[0]

    def _of_others(self) -> LedgerMismatchError:
        return LedgerMismatchError(
            f"The ledger {self.name} is kept for other records, or for these in other units. If these are a new "
            "version of them, the owner lets them share the budget with 'sotto ledger grant --continues NAME'; if not, "
            "name another ledger."
        )

    def _create(self, connection: sa.Connection, identity: Identity, budget: Budget, name: str) -> Any:
        require_name(name, "name")
        if len(identity.unit) > 128:
            raise ParameterError("unit", identity.unit, "a name of at most 128 characters")
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
            "failure_delta": repr(budget.failure_delta),
            "alpha": None if budget.alpha is None else repr(budget.alpha),
            "failure_cap": budget.failure_cap,
        }
        counters = {"failure_spent": 0, "answers": 0, "non_private": 0, "unverified": 0}
        made = carry_out(connection, sa.insert(DATA_SET).values(**values, **counters))
        number = made.inserted_primary_key[0] if made.inserted_primary_key else 0
        key = new_key()
        carry_out(connection, sa.insert(FINGERPRINT).values(fingerprint=identity.fingerprint, data_set=number))
        carry_out(connection, sa.insert(SECRET).values(data_set=number, name=RECORDS, value=key))
        detail = {**values, "records": keyed(key, RECORDS, identity.fingerprint)}
        append(connection, [Entry(number, "open", detail=detail)])
        return connection.execute(sa.select(DATA_SET).where(DATA_SET.c.id == number)).one()

    def _continue(self, connection: sa.Connection, identity: Identity, name: str) -> Any:
        row = connection.execute(sa.select(DATA_SET).where(DATA_SET.c.name == name)).first()
        if row is None:
            raise LedgerMismatchError(f"The ledger {self.name} keeps no data set named {name!r}.")
        self._check(row, identity, None)
        self._add_version(connection, row, identity)
        return row

    @staticmethod
    def _add_version(connection: sa.Connection, row: Any, identity: Identity) -> None:
        carry_out(connection, sa.insert(FINGERPRINT).values(fingerprint=identity.fingerprint, data_set=row.id))
        detail = {"records": keyed(secrets_in(connection, row.id)[RECORDS], RECORDS, identity.fingerprint)}
        append(connection, [Entry(row.id, "version", detail=detail)])

    def _check(self, row: Any, identity: Identity, budget: Budget | None) -> None:
        if row.adjacency != identity.adjacency.value or row.unit != identity.unit:
            raise LedgerMismatchError(
                f"The ledger {self.name} keeps these records under {row.adjacency} adjacency with unit '{row.unit}'; "
                f"{identity.adjacency.value} with unit '{identity.unit}' was asked. Epsilons of different relations do "
                "not add up: ask under the ledger's, or let the owner open another ledger."
            )
        if budget is not None and budget != budget_of(row):
            raise LedgerMismatchError(
                f"The ledger {self.name} has the budget {budget_of(row)} for these records; "
                f"{budget} was given. Leave --budget out, or let the owner raise it with 'sotto ledger grant'."
            )

    def _raise_cap(self, connection: sa.Connection, row: Any, budget: Budget) -> None:
        kept = budget_of(row)
        same = (kept.delta, kept.failure_delta, kept.alpha) == (budget.delta, budget.failure_delta, budget.alpha)
        if not same or kept.epsilon > budget.epsilon:
            raise LedgerMismatchError(
                f"The ledger {self.name} has the budget {kept}. A budget can only grow, and its delta stays, with the "
                "share of it for failures and the order."
            )
        values = {"epsilon": repr(budget.epsilon), "cap": budget.cap}
        carry_out(connection, sa.update(DATA_SET).where(DATA_SET.c.id == row.id).values(**values))
        append(connection, [Entry(row.id, "grant", detail=values)])


def _require_kinds(identity: Identity, *budgets: Budget | None) -> None:
    Kind(Identity, "an Identity, such as Identity.of(records, adjacency)").read("identity", identity)
    for budget in budgets:
        Kind((Budget, NoneType), _BUDGET).read("budget", budget)


def _known(connection: sa.Connection, identity: Identity) -> Any:
    """The data set that has these records, if there is one."""
    return _with_fingerprint(connection, identity.fingerprint)


def _with_fingerprint(connection: sa.Connection, fingerprint: str) -> Any:
    query = sa.select(DATA_SET).join(FINGERPRINT).where(FINGERPRINT.c.fingerprint == fingerprint)
    return connection.execute(query).first()


def _required(budget: Budget | None, name: str) -> Budget:
    if budget is None:
        raise LedgerMismatchError(
            f"The ledger {name} does not know these records yet. State their whole budget on first use, such as "
            "--budget 8,1e-6."
        )
    return budget


def _seeded(connection: sa.Connection) -> Counter[int]:
    """How many charges of each data set were for seeded noise."""
    query = sa.select(ENTRY.c.data_set, ENTRY.c.detail).where(
        ENTRY.c.kind == "reserve", ENTRY.c.detail.contains(SEEDED_NOTE, autoescape=True)
    )
    return Counter(data_set for data_set, detail in connection.execute(query) if charged(detail).seeded)
