"""``sotto models``: which models can be used, and ``sotto models check`` for one of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, put_text, table


def add_to(app: typer.Typer) -> None:
    """Adds the group; without a subcommand it lists."""
    group = typer.Typer(help="List models; check that one keeps experts apart.", invoke_without_command=True)
    group.callback()(models)
    group.command("check")(check)
    app.add_typer(group, name="models")


def models(context: typer.Context, as_json: o.AsJson = False) -> None:
    """List the models and what each can do."""
    from dataclasses import asdict

    from sottovoce.models.registry import model_catalog

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
    from sottovoce.models.registry import load_scorer

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
    named, isolation = scorer.name, scorer.isolation.value
    del scorer, test  # a second copy of its weights may not fit beside them
    writing = _writing(model, options)
    if as_json:
        put(
            {"model": named, "passed": report.passed, "isolation": isolation, "checks": checks, "writing": writing},
        )
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
        table(f"Self-test of {named}", ["check", "result", "largest difference", "meaning"], rows)
        put_text(f"Isolation, scoring labels: {isolation}")
        if writing:
            put_text(f"Isolation, writing: {writing['isolation']}")
            for shape in writing["shapes"]:
                put_text(f"  tried at {shape}")
    if not report.passed:
        raise ModelError("The self-test failed; releases of this model would be labelled accordingly.")


def _writing(model: str, options: dict[str, str]) -> dict[str, Any] | None:
    """How a model writes on this machine, and where its rows were compared; ``None`` for one that does not write."""
    from sottovoce.errors import ModelError
    from sottovoce.models.registry import load_stepper, model_catalog

    writes = {entry.spec.partition(":")[0] for entry in model_catalog() if "Stepper" in entry.capabilities}
    if model.partition(":")[0] not in writes:
        return None
    try:
        stepper = load_stepper(model, **options)
        return {
            "isolation": stepper.isolation.value,
            "shapes": [str(shape) for shape in getattr(stepper, "shapes", ())],
        }
    except ModelError as error:
        return {"isolation": f"cannot write: {error}", "shapes": []}


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
