"""``sotto verify``: whether a certificate says what is so."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, put_text, table
from sottovoce.cli.verdict import Verdict


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Check what sottovoce wrote.", no_args_is_help=True)
    group.callback()(_group)
    group.command("certificate")(certificate)
    app.add_typer(group, name="verify")


def _group() -> None:
    """Check what sottovoce wrote."""


def certificate(
    file: Annotated[
        Path, typer.Argument(help="A certificate, such as demos.jsonl.certificate.json, or a file of 'sotto fit'.")
    ],
    rows: Annotated[
        Path | None, typer.Option("--rows", help="The synthetic rows; by default the file beside it, where it is.")
    ] = None,
    ledger: o.LedgerPath = None,
    private: o.Private = None,
    unit: o.UnitName = None,
    as_json: o.AsJson = False,
) -> int:
    """Check a certificate of 'sotto synthesize' or 'sotto fit': its figures, its content and, with the ledger, its
    charges.

    Exit code 2 where something does not hold; what could not be looked at is said. A certificate is not signed: without
    the ledger only its figures and hashes are checked, and whoever made it up could have made those up as well.
    """
    from sottovoce.cli.ledger import existing_ledger
    from sottovoce.errors import InputError, ParameterError
    from sottovoce.fitting.fit import ENDING
    from sottovoce.fitting.fitted import Fitted
    from sottovoce.fitting.rows import RowsCertificate
    from sottovoce.records.readers import read_private, read_written
    from sottovoce.synthesis.certificate import Certificate

    kept = existing_ledger(ledger, None) if ledger else None
    records = read_private(private, unit=unit) if private else None
    fitted: Fitted | None = None
    if file.suffix.lower() == ENDING:
        if rows is not None:
            raise ParameterError("--rows", str(rows), "left out: a fitted file holds what its certificate is for")
        fitted = Fitted.load(file)
        statement, checks = fitted.statement, fitted.certificate.checks(fitted.content_sha256, kept, records)
    else:
        certificate = RowsCertificate.read(file) or Certificate.read(file)
        beside = file.with_name(file.name.removesuffix(".certificate.json"))
        rows = rows or (beside if beside != file and beside.exists() else None)
        checks = certificate.checks(read_written(rows) if rows else None, kept, records)
        whole = certificate.certificate if isinstance(certificate, RowsCertificate) else certificate
        statement = whole.statement
    content = {} if fitted is None else {"content_sha256": fitted.content_sha256}
    wrong = [check.what for check in checks if check.holds is False]
    words = f"The certificate does not hold: {wrong[0]}." if wrong else "Nothing was found that does not hold."

    def show() -> None:
        if as_json:
            put({"checks": [vars(check) for check in checks], **content, "statement": statement})
            return
        marks = {True: "yes", False: "NO", None: "not looked at"}
        table("", ["", "holds", ""], [[check.what, marks[check.holds], check.told] for check in checks])
        if fitted is not None:
            put_text(f"Content: {fitted.content_sha256}")
        put_text(statement)

    verdict = Verdict(words, InputError.exit_code if wrong else 0)
    verdict.put(show)
    if wrong and verdict.is_printed:
        raise InputError(words)
    return verdict.end()
