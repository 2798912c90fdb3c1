"""Caps within a data set's budget: of a caller, and of the group that the caller is in.

A charge under a caller counts against the caller, the group and the data set, all or none. Each cap is a filter of its
own in the data set's currency: whatever a caller alone has seen is within that caller's (epsilon, delta), and whatever
all of them have seen together is within the data set's.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from sottovoce.errors import LedgerMismatchError, ParameterError
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.filter import Cap, Cost
from sottovoce.privacy.ledger.history import Entry, append, carry_out
from sottovoce.privacy.ledger.schema import CAP, DATA_SET

CALLER: Final = "caller"
GROUP: Final = "group"
WHOLE: Final = "data set"
UNNAMED: Final = "unnamed"
"""Kind of the cap on charges that name no caller. It admits nothing where the owner requires a caller."""


def budget_of(row: Any) -> Budget:
    """A data set's budget on record."""
    alpha = None if row.alpha is None else float(row.alpha)
    return Budget(float(row.epsilon), float(row.delta), float(row.failure_delta), alpha)


def cap_of(row: Any) -> Cap:
    """A row of either table of caps as a level of the filter."""
    kind = getattr(row, "kind", WHOLE)
    return Cap(kind, row.name, Cost(row.cap, row.failure_cap), Cost(row.spent, row.failure_spent))


def caps_of(connection: sa.Connection, data_set: Any, caller: str | None, ledger: str) -> list[Cap]:
    """Every cap that a caller's charge counts against, the narrowest first.

    Raises:
        LedgerMismatchError: Nobody allotted anything to the caller, or a cap is kept in another currency.
    """
    levels = [cap_of(data_set)]
    if caller is None:
        return levels
    row = _cap_row(connection, data_set.id, CALLER, caller) if _is_name(caller) else None
    if row is None:
        raise LedgerMismatchError(
            f"The ledger {ledger} knows no caller {caller!r} for the data set {data_set.name!r}. The data owner adds "
            "one with 'sotto ledger grant --caller NAME --budget EPSILON,DELTA'."
        )
    if row.member_of is not None:
        levels.insert(0, _same_currency(data_set, _cap_row(connection, data_set.id, GROUP, row.member_of)))
    return [_same_currency(data_set, row), *levels]


def charge(
    connection: sa.Connection, data_set: int, levels: list[Cap], cost: Cost, answers: int, unverified: int
) -> None:
    """Adds a charge that was admitted to every level; the caller holds the write lock."""
    for level in levels:
        table = DATA_SET if level.kind == WHOLE else CAP
        columns = table.c
        condition = columns.id == data_set if level.kind == WHOLE else _key(data_set, level.kind, level.name)
        values = {
            "spent": columns.spent + cost.loss,
            "failure_spent": columns.failure_spent + cost.failure,
            "answers": columns.answers + answers,
        }
        if level.kind == WHOLE:
            values["unverified"] = columns.unverified + unverified
        carry_out(connection, sa.update(table).where(condition).values(**values))


def allot(connection: sa.Connection, data_set: Any, budget: Budget, caller: str | None, group: str | None) -> None:
    """Gives a caller or a group a cap, or changes it; the caller of this function holds the write lock.

    Where the data set adds epsilons and deltas, a plain (epsilon, delta) is such a sum too.

    Raises:
        ParameterError: Neither a caller nor a group is named, or a name is none.
        LedgerMismatchError: The budget has another delta, order or currency than the data set's, is below what was
            spent, or the group does not fit.
    """
    if _adds_deltas(budget_of(data_set)) and not budget.failure_delta and budget.alpha is None:
        budget = Budget.once(budget.epsilon, budget.delta)
    kind, name = (GROUP, group) if caller is None else (CALLER, caller)
    name = require_name(name, kind)
    member_of = require_name(group, GROUP) if kind == CALLER and group is not None else None
    known = _cap_row(connection, data_set.id, kind, name)
    if known is not None and kind == CALLER and group is None:
        member_of = known.member_of
    _check(connection, data_set, budget, known, f"{kind} {name!r}", member_of)
    values = {
        "member_of": member_of,
        "epsilon": repr(budget.epsilon),
        "failure_delta": repr(budget.failure_delta),
        "cap": budget.cap,
        "failure_cap": budget.failure_cap,
    }
    if known is None:
        spent = {"spent": 0, "failure_spent": 0, "answers": 0}
        carry_out(connection, sa.insert(CAP).values(data_set=data_set.id, kind=kind, name=name, **values, **spent))
    else:
        carry_out(connection, sa.update(CAP).where(_key(data_set.id, kind, name)).values(**values))
    append(connection, [Entry(data_set.id, "allot", detail={"kind": kind, "name": name, **values})])


def require_caller(connection: sa.Connection, data_set: Any, *, required: bool) -> None:
    """Notes that charges must name a caller, or need not; the caller of this function holds the write lock.

    It is a cap of nothing on charges without a name, so that the history tells of it as of every other cap.
    """
    known = _cap_row(connection, data_set.id, UNNAMED, UNNAMED)
    values = {
        "member_of": None,
        "epsilon": data_set.epsilon,
        "failure_delta": data_set.failure_delta,
        "cap": 0 if required else data_set.cap,
        "failure_cap": 0 if required else data_set.failure_cap,
    }
    if known is None:
        spent = {"spent": 0, "failure_spent": 0, "answers": 0}
        carry_out(
            connection, sa.insert(CAP).values(data_set=data_set.id, kind=UNNAMED, name=UNNAMED, **values, **spent)
        )
    else:
        carry_out(connection, sa.update(CAP).where(_key(data_set.id, UNNAMED, UNNAMED)).values(**values))
    append(connection, [Entry(data_set.id, "allot", detail={"kind": UNNAMED, "name": UNNAMED, **values})])


def refuse_unnamed(connection: sa.Connection, data_set: Any, ledger: str) -> None:
    """Refuses whoever names no caller, where the owner requires one.

    Raises:
        LedgerMismatchError: The owner does.
    """
    row = _cap_row(connection, data_set.id, UNNAMED, UNNAMED)
    if row is not None and row.cap == 0:
        raise LedgerMismatchError(
            f"The owner of the data set {data_set.name!r} in the ledger {ledger} requires a caller. Say who asks with "
            "--caller NAME. The owner adds callers with 'sotto ledger grant --caller NAME --budget EPSILON,DELTA', or "
            "lifts this with 'sotto ledger grant --no-require-caller'."
        )


def _check(
    connection: sa.Connection, data_set: Any, budget: Budget, known: Any, holder: str, member_of: str | None
) -> None:
    whole = budget_of(data_set)
    if (budget.delta, budget.alpha) != (whole.delta, whole.alpha):
        raise LedgerMismatchError(
            f"The data set {data_set.name!r} has the budget {whole}; {budget} was given for the {holder}. A cap within "
            "it needs the same delta and the same order, since it counts the same charges."
        )
    if budget.currency != whole.currency:
        raise LedgerMismatchError(
            f"The data set {data_set.name!r} counts {whole.currency}, and {budget} for the {holder} would count "
            f"{budget.currency}. A cap within it counts the same charges: give --budget EPSILON,DELTA with a smaller "
            "failure=DELTA, or without one."
        )
    if known is not None and not cap_of(known).spent.fits_in(budget.caps):
        raise LedgerMismatchError(f"The {holder} spent more than {budget} already; a cap cannot go below that.")
    if known is not None and known.member_of != member_of:
        raise LedgerMismatchError(
            f"The {holder} is in {'no group' if known.member_of is None else f'the group {known.member_of!r}'}, and "
            "what was spent was counted there; that cannot change. Use another name."
        )
    if member_of is not None:
        group = _cap_row(connection, data_set.id, GROUP, member_of)
        if group is None:
            raise LedgerMismatchError(
                f"There is no group {member_of!r} yet. Give it a cap first, with 'sotto ledger grant --group "
                f"{member_of} --budget EPSILON,DELTA'."
            )
        _same_currency(data_set, group)


def _adds_deltas(budget: Budget) -> bool:
    return budget.failure_delta > 0 and budget.currency == "epsilon"


def _same_currency(data_set: Any, row: Any) -> Cap:
    """A cap, which earlier versions let an owner give in another currency than the charges that it counts.

    Raises:
        LedgerMismatchError: It is in another one.
    """
    whole = budget_of(data_set)
    own = Budget(float(row.epsilon), whole.delta, float(row.failure_delta), whole.alpha)
    if own.currency != whole.currency:
        raise LedgerMismatchError(
            f"The cap of the {row.kind} {row.name!r} counts {own.currency}, and the data set {data_set.name!r} counts "
            f"{whole.currency}, so that the cap does not hold. Nothing was charged. The owner gives it anew with "
            f"'sotto ledger grant --{row.kind} {row.name} --budget EPSILON,DELTA', or under another name."
        )
    return cap_of(row)


def require_name(value: object, what: str) -> str:
    """Checks the name of a data set, a caller or a group.

    Raises:
        ParameterError: It is not 1 to 128 characters that can be printed.
    """
    if not _is_name(value):
        raise ParameterError(what, value, "a name of 1 to 128 printable characters, without blanks around it")
    return str(value)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 128 and value.isprintable() and value == value.strip()


def caps_within(connection: sa.Connection, data_set: int) -> list[Any]:
    """The rows of every cap within a data set's budget, groups behind callers."""
    query = sa.select(CAP).where(CAP.c.data_set == data_set).order_by(CAP.c.kind, CAP.c.name)
    return list(connection.execute(query))


def _cap_row(connection: sa.Connection, data_set: int, kind: str, name: str) -> Any:
    return connection.execute(sa.select(CAP).where(_key(data_set, kind, name))).first()


def _key(data_set: int, kind: str, name: str) -> Any:
    return sa.and_(CAP.c.data_set == data_set, CAP.c.kind == kind, CAP.c.name == name)
