"""``sotto models``: which models can be used, and ``sotto models check`` for one of them."""

from __future__ import annotations

from typing import Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, say, table


def add_to(app: typer.Typer) -> None:
    """Adds the group; without a subcommand it lists."""
    group = typer.Typer(help="List models; check that one keeps experts apart.", invoke_without_command=True)
    group.callback()(models)
    group.command("check")(check)
    app.add_typer(group, name="models")


def models(context: typer.Context, as_json: o.AsJson = False) -> None:
    """List the models and what each can do."""
    from dataclasses import asdict

    from sottovoce.models.catalog import model_catalog

    if context.invoked_subcommand:
        return
    entries = [asdict(entry) for entry in model_catalog()]
    if as_json:
        put({"models": entries})
        return
    columns = list(entries[0])
    table("Models", columns, [[_cell(entry[column]) for column in columns] for entry in entries])


def check(
    model: Annotated[str, typer.Argument(help="Such as hf:NAME_OR_PATH or embedded.")],
    device: o.Device = None,
    dtype: o.Dtype = None,
    as_json: o.AsJson = False,
) -> None:
    """Run a model's self-test on public text: cached against plain scores, and isolation of experts, bit for bit."""
    from sottovoce.errors import ModelError, ParameterError
    from sottovoce.models.catalog import load_scorer

    options = {name: value for name, value in {"device": device, "dtype": dtype}.items() if value is not None}
    scorer = load_scorer(model, **options)
    test = getattr(scorer, "self_test", None)
    if test is None:
        raise ParameterError("model", model, "one with a self-test")
    report = test()
    checks = [
        {"check": c.name, "passed": c.passed, "largest_difference": c.largest_difference, "bit_equal": c.bit_equal,
         "meaning": c.wording}
        for c in report.checks
    ]  # fmt: skip
    if as_json:
        put({"model": scorer.name, "passed": report.passed, "isolation": scorer.isolation.value, "checks": checks})
    else:
        rows = [
            [
                str(c["check"]),
                "passed" if c["passed"] else "FAILED",
                f"{c['largest_difference']:.2e}",
                str(c["meaning"]),
            ]
            for c in checks
        ]
        table(f"Self-test of {scorer.name}", ["check", "result", "largest difference", "meaning"], rows)
        say(f"Isolation: {scorer.isolation.value}")
    if not report.passed:
        raise ModelError("The self-test failed; releases of this model would be labelled accordingly.")


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
