"""``sotto classify``: private examples and a file of questions in, one label a question out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.answers import (
    PARTIAL,
    RUN,
    AnswerSink,
    Run,
    begun_with,
    by_id,
    hash_of,
    hash_of_questions,
    is_begun,
    refuse_taken,
    require_asked,
)
from sottovoce.cli.console import (
    LOST_WITHOUT_FILE,
    in_percent,
    left_in_words,
    losing,
    progress,
    put,
    say,
    say_table,
)
from sottovoce.cli.foresight import say_scoring
from sottovoce.cli.outputs import NewFile
from sottovoce.files.tables import require_ending

if TYPE_CHECKING:
    from sottovoce.records.sealed import PublicRecords
    from sottovoce.release import Guarantee
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import Task


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("classify")(classify)


def classify(
    context: typer.Context,
    queries: Annotated[
        str, typer.Option("--queries", help="Questions: .jsonl[.gz], .csv, .parquet, or a folder of pictures.")
    ],
    private: o.Private = None,
    demonstrations: o.ShownRows = None,
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
    budget: o.BudgetText = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    option: o.Options = None,
    clip: o.Clip = None,
    noise: o.Noise = None,
    prior_weight: o.PriorWeight = None,
    sampling_probability: o.SamplingProbability = None,
    subsamples: o.Subsamples = None,
    shots: o.Shots = None,
    calibrate: o.Calibrate = False,
    per_expert: o.PerExpert = 1,
    capacity: o.Capacity = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    allow_non_private: o.AllowNonPrivate = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=NewFile(PARTIAL, RUN), help="Answer rows: .jsonl, .csv or .parquet. Default: stdout."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Answer only the first questions.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run; a finished one costs nothing.")
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Answer a file of questions, each at the price --epsilon, from private examples.

    Output rows hold id, value, method, epsilon, delta, adjacency and release_id. All answers are priced before the
    first is paid for; if they do not all fit into the budget then, nothing is charged (exit code 3).
    """
    from sottovoce.errors import GIVEN, ParameterError
    from sottovoce.privacy.parameters import DELTA, EPSILON
    from sottovoce.records.readers import read_public
    from sottovoce.release import is_row, longest_rows
    from sottovoce.session import BATCH

    if resume and out is None:
        raise ParameterError("--resume", GIVEN, "used with --out: it reads the answers that an earlier run left there")
    if out is not None and not resume:
        refuse_taken(out)
    if out is not None:
        require_ending(out)
    price, slack = EPSILON.read("epsilon", epsilon), None if delta is None else DELTA.read("delta", delta)
    setup = o.Setup.of(context.params)
    the_task = setup.load_task()
    questions = read_public(
        queries, max_characters=setup.longest(the_task), truncate=truncate, columns=setup.columns(the_task)
    )
    selected = questions.first(limit)
    truth, fields = read_questions(selected, the_task)
    resumes = resume and out is not None and is_begun(out)
    begun = begun_with(out) if resumes and out is not None else None
    session = setup.session(
        the_task,
        epsilon=price,
        questions=max(1, len(fields)),
        resumes=resumes,
        begun=begun,
        before_opening=lambda records: require_asked((questions, selected), queries, beside=records),
    )
    started = time.perf_counter()
    terms = session.terms(price, slack)
    run = _run(session, setup, terms, fields, begun or {})
    fits = partial(is_row, terms=terms, labels=the_task.labels)
    with AnswerSink(out, run, list(fields), fits, resume=resume, hold=as_json) as sink:
        waiting = list(fields)[len(sink.rows) :]
        if sink.finished:
            say(f"Nothing to do: {out} holds all {len(sink.rows)} answers of this run. Nothing was charged.")
        else:
            session.affords(len(waiting), epsilon=price, delta=slack)
            _announce(session, setup)
            say_scoring(session, [fields[row_id] for row_id in waiting])
        with progress() as bar:
            doing = bar.add_task("answering", total=len(waiting), rate="")
            batches = session.batches([fields[row_id] for row_id in waiting], epsilon=price, delta=slack)
            for first in range(0, len(waiting), BATCH):
                ids = waiting[first : first + BATCH]
                now = session.terms(price, slack)
                sink.make_room(longest_rows(ids, now, the_task.labels), now.isolation)
                releases = next(batches)  # charges them
                rows = [release.as_row(row_id) for row_id, release in zip(ids, releases, strict=True)]
                sink.add(rows, releases[0].terms.isolation)
                rate = len(sink.rows) / (time.perf_counter() - started)
                bar.update(doing, advance=len(releases), rate=f"{rate:.1f}/s")
    told = _told(session.terms(price, slack), sink)
    _report(session, sink.rows, truth, told, time.perf_counter() - started, as_json=as_json, in_file=out is not None)


def read_questions(questions: PublicRecords, task: Task) -> tuple[dict[str, str], dict[str, Any]]:
    """Ids to labels where given, and ids to fields."""
    truth: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for row_id, row in by_id(questions).items():
        fields[row_id] = task.query_of(row, questions.source)
        if task.has_label(row):
            truth[row_id] = task.labels[task.label_of(row, questions.source)]
    return truth, fields


def _run(
    session: PrivateICL, setup: o.Setup, terms: Guarantee, questions: Mapping[str, Any], begun: Mapping[str, Any]
) -> Run:
    """What a resumed run has to have in common with the one that was begun.

    Args:
        session: That answers.
        setup: Of the command.
        terms: Of each answer.
        questions: By their ids.
        begun: Public words of the run that is resumed. An earlier build noted no epsilon where isolation was not
            verified.
    """
    from sottovoce.models.base import settings_of

    task, possible = session.task, terms.possible_columns
    usual = next((each for each in possible if begun and each["epsilon"] == begun.get("epsilon")), possible[0])
    public = {
        "method": repr(session.method),
        "epsilon": usual["epsilon"],
        "delta": usual["delta"],
        "price": [terms.price.epsilon, terms.price.delta],
        "adjacency": session.adjacency.value,
        "unit": terms.unit,
        "partition": repr(session.partition),
        "model": session.model.name,
        **settings_of(session.model),
        "caller": setup.caller,
        "task": hash_of([repr(task)]),
        "questions": len(questions),
        **session.reading,
        **({"calibrate": True} if session.calibrate else {}),
    }
    shown = [[*example.fields.items(), example.label] for example in session.demonstrations]
    hidden = {**session.origin, "question texts": hash_of_questions(questions), "demonstrations": hash_of(shown)}
    return Run(public, hidden)


def _told(terms: Guarantee, sink: AnswerSink) -> Guarantee:
    """The terms of all answers together: what was seen of the model then counts, and not what it says now."""
    if sink.isolation:
        terms = replace(terms, isolation=sink.isolation)
    return terms.of_rows(sink.rows)


def _announce(session: PrivateICL, setup: o.Setup) -> None:
    if session.ledger and setup.ledger is None:
        say(f"Ledger: {session.ledger.path} (none was named; known by the records' fingerprint)")
    if setup.budget is None and session.balance and session.balance.answers == 0 and session.balance.spent == 0:
        say(f"Budget: {session.balance.budget} in all for these records (change it on first use with --budget)")


def _report(
    session: PrivateICL,
    rows: list[dict[str, Any]],
    truth: dict[str, str],
    terms: Guarantee,
    seconds: float,
    *,
    as_json: bool,
    in_file: bool,
) -> None:
    summary = _summary(session, rows, truth, terms, seconds)
    if as_json and in_file:
        put(summary)
    elif as_json:
        with losing(LOST_WITHOUT_FILE):
            put({**summary, "rows": rows})
    else:
        _show(summary, session, terms)


def _summary(
    session: PrivateICL,
    rows: list[dict[str, Any]],
    truth: dict[str, str],
    terms: Guarantee,
    seconds: float,
) -> dict[str, Any]:
    from sottovoce.intervals import proportion

    right = [row["value"] == truth[row["id"]] for row in rows if row["id"] in truth]
    measured = proportion(sum(right), len(right)) if right else None
    balance = session.balance
    return {
        "answers": len(rows),
        "accuracy": measured.value if measured else None,
        "accuracy_interval_95": [measured.low, measured.high] if measured else None,
        "spent": {"epsilon_each": terms.epsilon, "delta_each": terms.delta, **(_total(balance) if balance else {})},
        "remaining": {**balance.as_dict(), "answers_left_at_this_price": balance.answers_left(terms.event)}
        if balance and session.method.private
        else (balance.as_dict() if balance else None),
        "method": session.method.name,
        "model": session.model.name,
        "adjacency": session.adjacency.value,
        "seconds": round(seconds, 3),
        "isolation": terms.isolation.value,
        "statement": terms.statement,
    }


def _total(balance: Any) -> dict[str, Any]:
    return {"currency": balance.budget.currency, "total": balance.spent, "adjacency": balance.adjacency.value}


def _show(summary: dict[str, Any], session: PrivateICL, terms: Guarantee) -> None:
    lines = [["answers", str(summary["answers"])], ["method", summary["method"]], ["model", summary["model"]]]
    if summary["accuracy"] is not None:
        low, high = summary["accuracy_interval_95"]
        lines.append(["accuracy", in_percent(summary["accuracy"], low, high)])
    if session.balance:
        fits = terms.method.private
        lines.append(["ledger", left_in_words(session.balance, terms.event) if fits else "no guarantee; noted"])
    lines.append(["seconds", f"{summary['seconds']:.1f}"])
    say_table("", ["", ""], lines)
    say(terms.statement)
