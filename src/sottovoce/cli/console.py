"""Writing for people: everything goes to stderr; only releases go to stdout."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from sottovoce.privacy.numbers import rounded_up

err = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line for the person, on stderr."""
    err.print(text, markup=False, soft_wrap=True)


def put(values: Any) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(json.dumps(values, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def progress() -> Progress:
    """A bar on stderr, drawn only where somebody watches."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A small table on stderr."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(column)
    for row in rows:
        drawn.add_row(*row)
    err.print(drawn)


def left_in_words(balance: Any, event: Any) -> str:
    """The balance in one line, with its adjacency."""
    spent = f"{rounded_up(balance.spent)} of {rounded_up(balance.cap)} {balance.budget.currency} spent"
    return (
        f"{spent} (budget {balance.budget}, "
        f"{balance.adjacency.value} adjacency, unit '{balance.unit}'); {balance.answers_left(event)} more answers "
        "fit at this price"
    )
