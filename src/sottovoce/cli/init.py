"""``sotto init``: a commented ``sotto.toml`` from a look at the columns of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, say
from sottovoce.cli.outputs import NewFile
from sottovoce.cli.settings import FILE

TEXTS = ("text", "body", "message", "content", "description", "ticket", "note", "mail", "question")
LABELS = ("label", "team", "category", "class", "topic", "intent", "queue")
UNITS = ("group", "customer", "customer_id", "user", "user_id", "patient", "patient_id", "author")

HEAD = """\
# Settings of sotto. What is typed wins over the environment (SOTTO_LEDGER), that over this file, that over the default.
# A key here is an option of every command that has it. A key of one command stands below its name, such as [classify].
# 'sotto COMMAND --help' lists the options.
"""
REST = """\
# The labels are public. Name them yourself: never collect them from the records.
# labels = ["billing", "fraud", "shipping"]

# Where the budget is kept, and the whole of it: EPSILON,DELTA. The owner of the records decides.
# ledger = "records.db"
# budget = "8,1e-6"
# adjacency = "replace-one"

# model = "embedded"

[classify]
# method = "auto"
# epsilon = 1

[fit]
# epsilon = 4
# delta = 1e-6
"""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("init")(init)


def init(
    private: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Private records. Only the names of their columns are used.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", parser=NewFile(), help="The file to write.", show_default=FILE)] = Path(
        FILE
    ),
    as_json: o.AsJson = False,
) -> None:
    """Write a commented sotto.toml. It holds column names and no row's values."""
    from sottovoce.files.outputs import write_new
    from sottovoce.records.columns import are_words
    from sottovoce.records.readers import column_names

    names = column_names(private) if private is not None else []
    shown = names if are_words(names) else []
    lines = [HEAD]
    if private is not None:
        lines.append(f"private = {_toml(private)}")
        lines.append(f"# Its columns: {', '.join(shown) if shown else 'their names are not single words'}.")
    for flag, usual, words in (
        ("text-column", TEXTS, "The column that holds the text."),
        ("label-column", LABELS, "The column that holds the label."),
        ("unit", UNITS, "Who is protected: one record, or all records of one value of a column."),
    ):
        column = next((name for name in usual if name in shown), None)
        is_usual = column in (None, usual[0])
        lines += [f"# {words}", f"{'# ' if is_usual else ''}{flag} = {_toml(column or usual[0])}"]
    write_new(out, "\n".join([*lines, "", REST]))
    if as_json:
        put({"out": str(out), "columns": shown})
        return
    say(f"Written: {out}. Look at the unit and the columns, and name the labels and the budget.")


def _toml(text: str) -> str:
    """A text as TOML writes it.

    Raises:
        ParameterError: It is a file's name in bytes that are no characters.
    """
    from sottovoce.errors import ParameterError

    if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ParameterError("PRIVATE", text, "a file whose name is valid Unicode: settings hold no other one")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
