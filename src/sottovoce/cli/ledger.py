"""``sotto ledger show|verify|grant``: what was spent, whether the history is whole, and the owner's decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, say

if TYPE_CHECKING:
    from sottovoce.privacy.ledger import Ledger

LedgerArgument = Annotated[str | None, typer.Argument(metavar="[LEDGER]", help="The ledger file.")]


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Show, verify and grant budgets.", no_args_is_help=True)
    group.command("show")(show)
    group.command("verify")(verify)
    group.command("grant")(grant)
    app.add_typer(group, name="ledger")


def show(
    path: LedgerArgument = None, ledger: o.LedgerPath = None, private: o.Private = None, as_json: o.AsJson = False
) -> None:
    """Show every data set's budget, what was spent and what is left, with its adjacency and unit."""
    book = _existing(path or ledger, private)
    balances = book.balances()
    if as_json:
        put({"ledger": book.name, "data_sets": [balance.as_dict() for balance in balances]})
        return
    say(f"Ledger {book.name}")
    for b in balances:
        say(f"{b.name}: {b.budget}, {b.adjacency.value} adjacency, unit '{b.unit}'")
        say(f"  {b.spent:.6g} of {b.cap:.6g} {b.budget.currency} spent, {b.left:.6g} left; {b.answers} answers charged")
        if not b.is_kept:
            say(f"  without a guarantee: {b.non_private} allowed by name, {b.unverified} with isolation not verified")
    if all(b.is_kept for b in balances):
        say("Whatever is asked next, everything released stays within each budget under its adjacency.")
    else:
        say("The budget does NOT cover the releases without a guarantee; it bounds the others alone.")


def verify(
    path: LedgerArgument = None, ledger: o.LedgerPath = None, private: o.Private = None, as_json: o.AsJson = False
) -> None:
    """Check the chained history and every balance against it. Exit code 3 if anything is wrong."""
    book = _existing(path or ledger, private)
    problems, entries = book.verify(), len(book.history())
    if as_json:
        put({"ledger": book.name, "entries": entries, "intact": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            say(f"{book.name}: {problem}")
    else:
        say(f"{book.name}: {entries} entries, chain and balances agree.")
    if problems:
        raise typer.Exit(3)


def grant(
    private: Annotated[str, typer.Option("--private", help="The records that the grant is for.")],
    path: LedgerArgument = None,
    ledger: o.LedgerPath = None,
    budget: o.BudgetText = None,
    adjacency: o.AdjacencyName = "replace-one",
    unit: o.UnitName = None,
    name: Annotated[str | None, typer.Option("--name", help="Names a further data set in this ledger.")] = None,
    continues: Annotated[
        str | None, typer.Option("--continues", help="These records are a new version of that data set.")
    ] = None,
    max_characters: o.MaxCharacters = 8_000,
    truncate: o.Truncate = False,
) -> None:
    """The data owner opens a budget, raises one, or lets a new version of the records share an old one."""
    from sottovoce.privacy.budget import Budget
    from sottovoce.privacy.ledger import Identity, Ledger
    from sottovoce.privacy.ledger_registry import default_path
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.readers import read_private

    relation = Adjacency.parse(adjacency)
    limit = Budget.parse(budget) if budget else None
    records = read_private(private, unit=unit, max_characters=max_characters, truncate=truncate)
    book = Ledger(path or ledger or default_path(records.fingerprint))
    identity = Identity(records.fingerprint, relation, records.unit)
    balance = book.grant(identity, limit, name=name, continues=continues).balance()
    say(
        f"{book.name}: data set '{balance.name}' has {balance.budget}, {balance.adjacency.value} adjacency, unit "
        f"'{balance.unit}'; {balance.left:.6g} {balance.budget.currency} left."
    )


def _existing(path: str | None, private: str | None) -> Ledger:
    from pathlib import Path

    from sottovoce.errors import LedgerUnavailableError, ParameterError
    from sottovoce.privacy.ledger import Ledger
    from sottovoce.privacy.ledger_registry import default_path
    from sottovoce.readers import read_private

    if path is None and private is None:
        raise ParameterError("LEDGER", None, "a ledger file, or --private FILE to find the one kept for those records")
    where = path or default_path(read_private(str(private), truncate=True).fingerprint)
    if not Path(where).is_file():
        raise LedgerUnavailableError(f"There is no ledger {where!r}. A first answer or 'sotto ledger grant' makes one.")
    return Ledger(where)
