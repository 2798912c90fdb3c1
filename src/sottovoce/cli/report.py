"""``sotto report``: the privacy facts of a release on one page, for who has to decide about it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, put_text, say, table
from sottovoce.cli.outputs import NewFile

if TYPE_CHECKING:
    from sottovoce.fitting.fitted import Fitted
    from sottovoce.intervals import Proportion


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("report")(report)


def report(
    fitted: Annotated[str, typer.Argument(help="A file that 'sotto fit' wrote.")],
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", help="The ledger that was charged: confirms the file, and lists other releases."),
    ] = None,
    audit: Annotated[
        str | None, typer.Option("--audit", help="What 'sotto audit --json' printed, for its verdict and power.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Labelled public questions: measures right answers by label.")
    ] = None,
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    about: Annotated[
        list[str] | None,
        typer.Option(
            "--about",
            metavar="NAME=VALUE",
            help="What only you know, such as model-host=us or tuned-on='public news'; may be repeated.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", parser=NewFile(), help="The page, as HTML.")] = None,
    registry: Annotated[
        Path | None,
        typer.Option("--registry", parser=NewFile(), help="A draft entry for the registry of deployments, as YAML."),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Write one page on what a release promises and what it does not. No private record is read.

    The order is fixed: guarantee, delta, odds, who is protected, what is not, trust, other releases, tuning, utility,
    audit, model, and the hazards of NIST SP 800-226.
    """
    from sottovoce.cli.ledger import existing_ledger
    from sottovoce.explain.facts.facts import facts_of, read_about, read_audit
    from sottovoce.explain.facts.page import MARK, html_of, registry_entry
    from sottovoce.files.outputs import begins_as, refuse_existing, write_new
    from sottovoce.files.pages import page_opening
    from sottovoce.fitting.fitted import Fitted

    said = read_about(about or [])
    own = begins_as(page_opening(MARK))
    if out is not None:
        refuse_existing(out, own)
    if registry is not None:
        refuse_existing(registry)
    released = Fitted.load(fitted)
    found = facts_of(
        released,
        ledger=None if ledger is None else existing_ledger(ledger, None),
        audit=None if audit is None else read_audit(Path(audit)),
        utility=_by_label(released, queries, text_column, label_column) if queries else None,
        about=said,
    )
    entry = None if registry is None else registry_entry(found)
    if out is not None:
        write_new(out, html_of(found), replaces=own)
        say(f"Written: {out}")
    if registry is not None:
        write_new(registry, json.dumps(entry, indent=2, ensure_ascii=False) + "\n")
        say(f"Written: {registry}")
    if as_json:
        put(found.as_dict())
    elif out is None:
        for section in found.sections:
            table(section.title, ["", ""], [list(row) for row in section.rows])
            if section.words:
                put_text(section.words)


def _by_label(fitted: Fitted, queries: str, text_column: str | None, label_column: str | None) -> dict[str, Proportion]:
    """Share of right answers to labelled public questions, for each label that occurs and for all."""
    from sottovoce.cli.classify import read_questions
    from sottovoce.intervals import proportion
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public

    choice = o.RecordsChoice(text_column=text_column, label_column=label_column)
    task = fitted.task
    rows = read_public(queries, max_characters=choice.longest(task), columns=choice.columns(task))
    require_public(rows, f"--queries {queries}")
    truth, fields = read_questions(rows, task)
    answers = dict(zip(fields, fitted.predict(list(fields.values())), strict=True))
    right: dict[str, list[bool]] = defaultdict(list)
    for row_id, label in truth.items():
        right[label].append(answers[row_id] == label)
    counts = {"all labels": [one for each in right.values() for one in each], **right} if right else {}
    return {label: proportion(sum(each), len(each)) for label, each in counts.items()}
