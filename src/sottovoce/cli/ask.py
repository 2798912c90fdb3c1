"""``sotto ask``: one question, one private answer."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import left_in_words, put, put_text, say


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("ask")(ask)


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="The question; its text is not protected.")],
    private: o.Private = None,
    fitted: Annotated[
        str | None, typer.Option("--fitted", help="Answer from a file that 'sotto fit' wrote, for free.")
    ] = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    method: o.MethodName = "auto",
    epsilon: o.Epsilon = "1",
    delta: o.Delta = None,
    adjacency: o.AdjacencyName = "replace-one",
    unit: o.UnitName = None,
    ledger: o.LedgerPath = None,
    caller: o.CallerName = None,
    release_id: Annotated[
        str | None,
        typer.Option(
            "--release-id",
            help="Your name for the answer: asked again after a crash before its draw, it is not paid twice.",
        ),
    ] = None,
    budget: o.BudgetText = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    option: o.Options = None,
    clip: o.Clip = None,
    noise: o.Noise = None,
    prior_weight: o.PriorWeight = None,
    sampling_probability: o.SamplingProbability = None,
    subsamples: o.Subsamples = None,
    per_expert: o.PerExpert = 1,
    capacity: o.Capacity = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    allow_non_private: o.AllowNonPrivate = False,
    as_json: o.AsJson = False,
) -> None:
    """Answer one question. The label goes to stdout, its price and guarantee to stderr."""
    from sottovoce.privacy.parameters import DELTA, EPSILON

    if fitted is not None:
        _from_fitted(question, fitted, context.params, as_json=as_json)
        return
    price, slack = EPSILON.read("epsilon", epsilon), None if delta is None else DELTA.read("delta", delta)
    setup = o.Setup.of(context.params)
    session = setup.session(setup.load_task(), epsilon=price)
    release = session.ask(question, epsilon=price, delta=slack, release_id=release_id)
    balance = release.remaining
    if as_json:
        remaining = balance.as_dict() if balance else None
        put({**release.as_row("1"), "statement": release.statement, "remaining": remaining})
        return
    put_text(release.value)
    say(release.statement)
    if session.ledger and setup.ledger is None:
        say(f"Ledger: {session.ledger.path} (none was named; known by the records' fingerprint)")
    if balance and release.terms.method.private:
        say(f"Ledger: {left_in_words(balance, release.event)}.")


OF_A_FITTED_FILE = ("question", "fitted", "model", "device", "dtype", "as_json")
"""What may be given beside a fitted file; everything else was settled when it was made."""


def _from_fitted(question: str, file: str, given: Mapping[str, Any], *, as_json: bool) -> None:
    from sottovoce.cli.predict import load, row_of
    from sottovoce.errors import ParameterError
    from sottovoce.fitting.fitted import question_of

    usual = {parameter.name: parameter.default for parameter in signature(ask).parameters.values()}
    for name, value in given.items():
        if name not in OF_A_FITTED_FILE and (value or None) != (usual[name] or None):
            limit = "left out with --fitted, whose file says it"
            raise ParameterError(f"--{name.replace('_', '-')}", value, limit)
    support = load(file, None if given["model"] == usual["model"] else given["model"], given["device"], given["dtype"])
    (value,) = support.predict([question_of(support.task, question)])
    if as_json:
        put({**row_of(support, "1", value), "statement": support.statement, "remaining": None})
        return
    put_text(value)
    say(support.statement)
