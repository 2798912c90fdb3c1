"""``sotto bench list|run``: experiments and speed measurements, each a module of ``sottovoce.benchmarks``."""

from __future__ import annotations

from typing import Annotated

import typer

from sottovoce.cli.console import table

EXPERIMENTS = {
    "hf-cache": ("hf_cache", "hf: models, prefixes kept against recomputed: answers a second"),
    "in-context": ("in_context", "embedded model, real and made-up labels: does it use the examples?"),
    "noise": ("noise", "samplers at up to 260,000 candidates, beside OpenDP's: milliseconds a draw"),
    "classification": ("classification", "every method on rows of a task, both adjacencies, any model"),
    "clustering": ("clustering", "private clustering of embeddings and mixtures: what it finds, in which coordinates"),
}


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Experiments and speed measurements.", no_args_is_help=True)
    group.command("list")(list_experiments)
    group.command(
        "run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    )(run)
    app.add_typer(group, name="bench")


def list_experiments() -> None:
    """List the experiments."""
    table("Experiments", ["name", "what it measures"], [[name, what] for name, (_, what) in EXPERIMENTS.items()])


def run(context: typer.Context, name: Annotated[str, typer.Argument(help="A name from 'sotto bench list'.")]) -> None:
    """Run one experiment; further arguments are its own (try --help behind the name)."""
    from importlib import import_module

    from sottovoce.errors import ParameterError

    if name not in EXPERIMENTS:
        raise ParameterError("experiment", name, f"one of {', '.join(EXPERIMENTS)}")
    import_module(f"sottovoce.benchmarks.{EXPERIMENTS[name][0]}").main(context.args)
