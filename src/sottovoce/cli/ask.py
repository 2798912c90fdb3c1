"""``sotto ask``: a question, or several, and a private answer to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import LOST, left_in_words, losing, put, put_text, read_line, say


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("ask")(ask)


def ask(
    context: typer.Context,
    questions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUESTION]...",
            help="The questions; their text is not protected. Without any, they are read from stdin, one on each line.",
            show_default=False,
        ),
    ] = None,
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
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    unit: o.UnitName = None,
    ledger: o.LedgerPath = None,
    caller: o.CallerName = None,
    release_id: Annotated[
        str | None,
        typer.Option(
            "--release-id",
            help="Your name for the answer: after a crash before its draw, asking again under it is not charged twice.",
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
    calibrate: o.Calibrate = False,
    per_expert: o.PerExpert = 1,
    capacity: o.Capacity = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    allow_non_private: o.AllowNonPrivate = False,
    as_json: o.AsJson = False,
) -> None:
    """Answer questions, each at the price --epsilon. Labels go to stdout, price and guarantee to stderr.

    Without a question it prompts for questions until Ctrl-D. The model and the records are read once.
    """
    from sottovoce.errors import ParameterError
    from sottovoce.privacy.parameters import DELTA, EPSILON

    if release_id is not None and len(questions or ()) != 1:
        raise ParameterError("--release-id", release_id, "given with one question: it names one answer")
    if fitted is not None:
        _from_fitted(questions, fitted, context.params, as_json=as_json)
        return
    price, slack = EPSILON.read("epsilon", epsilon), None if delta is None else DELTA.read("delta", delta)
    setup = o.Setup.of(context.params)
    session = setup.session(setup.load_task(), epsilon=price, questions=len(questions or [""]))
    if questions and len(questions) > 1:
        session.affords(len(questions), epsilon=price, delta=slack)
    told = None
    for number, question in enumerate(_asked(questions), 1):
        release = session.ask(question, epsilon=price, delta=slack, release_id=release_id)
        balance = release.remaining
        with losing(f"{LOST}: 'sotto classify --out' keeps them."):
            if as_json:
                remaining = balance.as_dict() if balance else None
                put({**release.as_row(str(number)), "statement": release.statement, "remaining": remaining})
                continue
            put_text(release.value)
        terms = release.terms.under(told.isolation) if told else release.terms
        if told is None or terms.isolation is not told.isolation:  # the model may say less than before
            say(terms.statement)
        told = terms
        if number == 1 and session.ledger and setup.ledger is None:
            say(f"Ledger: {session.ledger.path} (none was named; known by the records' fingerprint)")
        if balance and release.terms.method.private:
            say(f"Ledger: {left_in_words(balance, release.event)}.")


def _asked(questions: Sequence[str] | None) -> Iterator[str]:
    """The questions that were typed, or those that are typed from now on."""
    if questions:
        yield from questions
        return
    while (line := read_line("Question (Ctrl-D ends): ")) is not None:
        if line.strip():
            yield line.strip()


OF_A_FITTED_FILE = ("questions", "fitted", "model", "device", "dtype", "as_json")
"""What may be given beside a fitted file; everything else was settled when it was made."""


def _from_fitted(questions: Sequence[str] | None, file: str, given: Mapping[str, Any], *, as_json: bool) -> None:
    from sottovoce.cli.predict import load, row_of
    from sottovoce.errors import ParameterError
    from sottovoce.fitting.fitted import question_of

    usual = {parameter.name: parameter.default for parameter in signature(ask).parameters.values()}
    for name, value in given.items():
        if name not in OF_A_FITTED_FILE and (value or None) != (usual[name] or None):
            limit = "left out with --fitted, whose file says it"
            raise ParameterError(f"--{name.replace('_', '-')}", value, limit)
    support = load(file, None if given["model"] == usual["model"] else given["model"], given["device"], given["dtype"])
    for number, question in enumerate(_asked(questions), 1):
        (value,) = support.predict([question_of(support.task, question)])
        if as_json:
            put({**row_of(support, str(number), value), "statement": support.statement, "remaining": None})
            continue
        put_text(value)
        if number == 1:
            say(support.statement)
