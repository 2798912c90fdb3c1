"""``sotto ledger``: what was spent, whether the history is whole, the owner's decisions, and a copy for an auditor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import losing, put, put_text, say, used_in_words
from sottovoce.cli.outputs import NewFile
from sottovoce.cli.verdict import Verdict
from sottovoce.privacy.numbers import rounded_down, rounded_up

if TYPE_CHECKING:
    from sottovoce.privacy.ledger.balance import Balance
    from sottovoce.privacy.ledger.ledger import Ledger

LedgerArgument = Annotated[str | None, typer.Argument(metavar="[LEDGER]", help="The ledger file, or its address.")]
DISAGREES = 3
"""Exit code where a ledger is not what its history says."""
_NAMED = 8
"""So many entries are named in a line; ``--json`` has all."""


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Show, verify, grant, export and recompute budgets.", no_args_is_help=True)
    for command in (show, verify, grant, export, recompute, adopt):
        group.command(command.__name__)(command)
    app.add_typer(group, name="ledger")


def show(
    path: LedgerArgument = None,
    ledger: o.LedgerPath = None,
    private: o.Private = None,
    long: Annotated[
        bool, typer.Option("--long", help="Add the ledger's own currency, in which charges are added up.")
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Show how much of every data set's budget is used, with its adjacency, unit and callers."""
    book = existing_ledger(path or ledger, private)
    balances = book.balances()
    if as_json:
        put({"ledger": book.name, "data_sets": [balance.as_dict() for balance in balances]})
        return
    put_text(f"Ledger {book.name}")
    for b in balances:
        put_text(f"{b.name}: {used_in_words(b)}; {b.answers} answers charged")
        if long:
            spent = f"{rounded_up(b.spent, 6)} of {rounded_up(b.cap, 6)} {b.budget.currency} spent"
            put_text(f"  budget {b.budget}: {spent}, {rounded_down(b.left, 6)} left")
        if b.failure_cap:
            put_text(f"  {rounded_up(b.failure_spent, 6)} of {rounded_up(b.failure_cap, 6)} failure probability spent")
        for cap in b.caps:
            where = f" in {cap.group}" if cap.group else ""
            used = f"epsilon {rounded_up(b.epsilon_used_by(cap))} of {rounded_up(cap.epsilon, 6)} used"
            put_text(f"  {cap.kind} {cap.name}{where}: {used}; {cap.answers} answers")
            if long:
                spent, whole = (rounded_up(amount, 6) for amount in (cap.spent, cap.cap))
                put_text(f"    {spent} of {whole} {b.budget.currency} spent, {rounded_down(cap.left, 6)} left")
        if b.caller_required:
            put_text("  whoever asks must name a caller")
        if not b.is_kept:
            put_text(
                f"  without a guarantee: {b.non_private} allowed by name, {b.unverified} with isolation not verified, "
                f"{b.seeded} with seeded noise"
            )
    if all(b.is_kept for b in balances):
        put_text(
            "Whatever is asked next, everything released through this ledger stays within each budget under "
            "its adjacency."
        )
    else:
        put_text("The budget does NOT cover the releases without a guarantee; it bounds the others alone.")


def verify(
    path: LedgerArgument = None, ledger: o.LedgerPath = None, private: o.Private = None, as_json: o.AsJson = False
) -> int:
    """Check the chained history, every price and every balance against it. Exit code 3 if anything is wrong.

    A cap that an earlier version accepted in another currency than its data set's is noted; it is not an error.
    """
    book = existing_ledger(path or ledger, private)
    problems, notes, entries = book.verify(), book.notes(), book.count()
    agrees = f"{book.name}: {entries} entries, chain and balances agree."
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""

    def show() -> None:
        if as_json:
            put({"ledger": book.name, "entries": entries, "intact": not problems, "problems": problems, "notes": notes})
            return
        for line in problems or [agrees]:
            put_text(f"{book.name}: {line}" if problems else line)
        for note in notes:
            put_text(f"{book.name}: note: {note}")

    verdict = Verdict(f"{book.name}: {problems[0]}{more}." if problems else agrees, DISAGREES if problems else 0)
    verdict.put(show)
    return verdict.end()


def grant(
    private: Annotated[str, typer.Option("--private", help="The records that the budget is for.")],
    path: LedgerArgument = None,
    ledger: o.LedgerPath = None,
    budget: o.BudgetText = None,
    caller: Annotated[str | None, typer.Option("--caller", help="Caps what this caller may spend of it.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Caps this group of callers; with --caller: the group to be in.")
    ] = None,
    adjacency: o.AdjacencyName = "replace-one",
    unit: o.UnitName = None,
    name: Annotated[str | None, typer.Option("--name", help="Names a further data set in this ledger.")] = None,
    continues: Annotated[
        str | None, typer.Option("--continues", help="These records are a new version of that data set.")
    ] = None,
    require_caller: Annotated[
        bool | None,
        typer.Option("--require-caller/--no-require-caller", help="Refuse questions without --caller, or allow them."),
    ] = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    as_json: o.AsJson = False,
) -> None:
    """The data owner opens a budget, raises one, shares it out, or continues it for a new version of the records."""
    from sottovoce.errors import ParameterError
    from sottovoce.privacy.ledger.budget import Budget
    from sottovoce.privacy.ledger.ledger import Identity, Ledger
    from sottovoce.privacy.ledger.opening import is_new
    from sottovoce.privacy.ledger.registry import default_path, refuse_second
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.records.readers import read_private

    relation = Adjacency.parse(adjacency)
    limit = Budget.parse(budget) if budget else None
    shares = caller is not None or group is not None
    if shares and limit is None:
        raise ParameterError("--budget", None, "given: the part of the budget that the caller or group may spend")
    if require_caller is not None and (shares or name or continues or budget):
        raise ParameterError("--require-caller", require_caller, "given by itself: it is a decision of its own")
    if shares and (name or continues):
        raise ParameterError("--name and --continues", name or continues, "absent beside --caller and --group")
    records = read_private(
        private, unit=unit, max_characters=8_000_000 if max_characters is None else max_characters, truncate=truncate
    )
    named = path or ledger
    where = named or default_path(records)
    identity = Identity.of(records, relation)
    if shares or continues or require_caller is not None:
        book = existing_ledger(where, None)
    else:
        if named is None and is_new(where):  # where it has one, a second one is only opened where it is named
            refuse_second(identity, where)
        book = Ledger(where)
    if require_caller is not None:
        balance = book.require_caller(identity, required=require_caller).balance()
        what = "must name a caller" if require_caller else "need not name a caller"
        told = f"{book.name}: whoever asks of data set '{balance.name}' {what}."
        _tell_decided(told, book, balance, {"caller_required": require_caller}, as_json=as_json)
        return
    if shares and limit is not None:
        balance = book.allot(identity, budget=limit, caller=caller, group=group).balance()
        level, holder = balance.levels[0], f"caller '{caller}'" if caller else f"group '{group}'"
        left = f"; {_left(level)} {balance.budget.currency} left" if caller else ""
        told = f"{book.name}: {holder} of data set '{balance.name}' has {limit}, {relation.value} adjacency{left}."
        decided = {"caller": caller, "group": group, "granted": str(limit)}
        _tell_decided(told, book, balance, decided, as_json=as_json)
        return
    account = book.grant(identity, limit, name=name, continues=continues)
    balance = account.balance()
    o.warn_of(book.path, account.conflicting_ledger)
    told = (
        f"{book.name}: data set '{balance.name}' has {balance.budget}, {balance.adjacency.value} adjacency, unit "
        f"'{balance.unit}'; {rounded_down(balance.left, 6)} {balance.budget.currency} left."
    )
    _tell_decided(told, book, balance, {}, as_json=as_json)


def _tell_decided(told: str, book: Ledger, balance: Balance, decided: Mapping[str, Any], *, as_json: bool) -> None:
    """Tells a decision that the ledger holds; where stdout does not take it, that it holds it all the same."""
    if as_json:
        with losing(f"The ledger holds the decision all the same. {told}"):
            put({"ledger": book.name, **decided, "data_set": balance.as_dict()})
        return
    say(told)


def export(
    out: Annotated[Path, typer.Option("--out", parser=NewFile(), help="The file, in JSON Lines.")],
    path: LedgerArgument = None,
    ledger: o.LedgerPath = None,
    private: o.Private = None,
    as_json: o.AsJson = False,
) -> None:
    """Write the history for an auditor: a header, then one entry a line. Nothing of it is private."""
    from sottovoce.privacy.ledger.export import export as write

    book = existing_ledger(path or ledger, private)
    entries = write(book, str(out))
    if as_json:
        put({"ledger": book.name, "entries": entries, "out": str(out)})
        return
    say(f"{book.name}: {entries} entries are in {out}. Check them with 'sotto ledger recompute {out}'.")


def recompute(
    source: Annotated[str, typer.Argument(metavar="FILE_OR_LEDGER", help="An export, a ledger file or an address.")],
    accountant: Annotated[str, typer.Option("--accountant", help="zcdp, rdp, pure or pld.")] = "zcdp",
    as_json: o.AsJson = False,
) -> int:
    """Work out from the events alone what was spent, and compare. Exit code 3 if the ledger differs.

    An export of an older version can be compared, but not held against its chain as a whole: the last line says so, and
    names the entries that rest on the file alone.
    """
    from sottovoce.privacy.ledger.export import open_history
    from sottovoce.privacy.ledger.recompute import recompute as again

    with open_history(source) as history:
        data_sets, problems, entries = again(history, accountant)
    differs = bool(problems) or not all(data_set.agrees for data_set in data_sets)
    unheld = next((data_set.unheld for data_set in data_sets), ())
    rows = [data_set.as_dict() for data_set in data_sets]
    words = _verdict(entries, unheld, differs=differs)

    def show() -> None:
        if as_json:
            agrees = None if unheld and not differs else not differs
            told = {"accountant": accountant, "entries": entries, "agrees": agrees, "unheld": [*unheld]}
            put({**told, "problems": problems, "data_sets": rows})
            return
        for row in rows:
            _show_recomputed(row, accountant, stated="the budget that this file states" if unheld else "the budget")
        for problem in problems:
            put_text(problem)
        put_text(words)

    verdict = Verdict(words, DISAGREES if differs else 0)
    verdict.put(show)
    return verdict.end()


def adopt(
    path: Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger file.")], as_json: o.AsJson = False
) -> None:
    """Use a file that an older version wrote and closed; you confirm that no charge is missing in it."""
    from sottovoce.privacy.ledger.ledger import Ledger

    book = Ledger.adopt(_existing_file(path))
    newest = book.history()[-1:]
    if as_json:
        with losing(f"{book.name} is in use now all the same."):
            put({"ledger": book.name, "entries": book.count(), "newest": newest[0]["at"] if newest else None})
        return
    until = f", the newest of {newest[0]['at']}" if newest else ""
    say(f"{book.name}: {book.count()} entries{until}. It is in use now; charges after that are not in it.")


def _verdict(entries: int, unheld: Sequence[int], *, differs: bool) -> str:
    if differs or not unheld:
        return f"{entries} entries: the ledger {'does NOT agree' if differs else 'agrees'} with its events."
    some = ", ".join(map(str, unheld[:_NAMED])) + (", ..." if len(unheld) > _NAMED else "")
    return (
        f"{entries} entries: no difference was found, and {len(unheld)} of them cannot be checked ({some}): an export "
        "of this older format leaves out what their hashes cover. Names, budgets, adjacencies and units, and that no "
        "charge stood where these entries are, rest on this file alone. Export the ledger again with this version."
    )


def _show_recomputed(row: dict[str, Any], accountant: str, stated: str) -> None:
    recomputed, kept = (rounded_up(row["spent"][which], 10) for which in ("recomputed", "ledger"))
    answers = f"{row['data_set']}: {row['answers']} answers"
    put_text(f"{answers}, {recomputed} {row['currency']} by their events, {kept} in the ledger")
    figure = "no figure" if row["epsilon"] is None else _at_delta(row)
    put_text(
        f"  {accountant}: {figure}, {row['adjacency']} adjacency, unit '{row['unit']}' ({row['epsilon_is']}); "
        f"whatever was asked, at most {stated}: {_at_delta(row['budget'])}"
    )


def _at_delta(bound: dict[str, Any]) -> str:
    return f"epsilon {rounded_up(bound['epsilon'], 6)} at delta {rounded_up(bound['delta'])}"


def _left(level: Any) -> str:
    from sottovoce.privacy.ledger.budget import SCALE

    return rounded_down(Fraction(level.left.loss, SCALE), 6)


def existing_ledger(path: str | None, private: str | None) -> Ledger:
    from sottovoce.errors import ParameterError
    from sottovoce.privacy.ledger.ledger import Ledger
    from sottovoce.privacy.ledger.location import is_address
    from sottovoce.privacy.ledger.registry import default_path
    from sottovoce.records.readers import read_private

    if path is None and private is None:
        raise ParameterError("LEDGER", None, "a ledger file, or --private FILE to find the one kept for those records")
    where = path or default_path(read_private(str(private), truncate=True))
    return Ledger(where if is_address(where) else _existing_file(where))


def _existing_file(where: str) -> str:
    from sottovoce.errors import LedgerUnavailableError

    try:
        is_there = Path(where).is_file()
    except PermissionError:
        raise LedgerUnavailableError(
            f"{where} cannot be looked for: its folder may not be searched by this user. Run as the ledger's owner."
        ) from None
    except OSError:  # a name that no file can have
        is_there = False
    if not is_there:
        raise LedgerUnavailableError(
            f"There is no ledger {where!r}. A first answer makes one, or 'sotto ledger grant --budget EPSILON,DELTA'."
        )
    return where
