"""``sotto plan``: which method and epsilon for how many questions, and what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import progress, put, say, table
from sottovoce.privacy.numbers import rounded_down

if TYPE_CHECKING:
    from sottovoce.planner.advise import Accuracy, Option, Plan


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("plan")(plan)


def plan(
    records: Annotated[int, typer.Option("--records", help="Number of units, roughly.")],
    questions: Annotated[int, typer.Option("--questions", help="Answers to be paid for.")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="The data set's whole epsilon.")] = "8",
    delta: Annotated[str, typer.Option("--delta", help="The data set's whole delta; 0 for pure.")] = "1e-6",
    adjacency: o.AdjacencyName = "replace-one",
    task: o.TaskName = None,
    labels: o.Labels = None,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Labelled public questions: measures the zero-shot floor on them.")
    ] = None,
    model: o.ModelName = "embedded",
    made_up: Annotated[
        bool, typer.Option("--made-up-labels", help="The label names mean nothing to the model.")
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Say what a budget affords, and which method to expect most from. Reads nothing private and charges nothing."""
    from sottovoce.planner.advise import KNOWN, UNKNOWN, make_plan, measured_tasks
    from sottovoce.privacy.ledger.budget import Budget

    floor = _zero_shot(queries, task, labels, model) if queries else None
    advice = make_plan(
        records=records,
        questions=questions,
        budget=Budget(epsilon, delta),  # type: ignore[arg-type]
        adjacency=adjacency,
        labels=UNKNOWN if made_up else KNOWN,
        task=task if task in measured_tasks() else None,
        zero_shot=floor,
    )
    if as_json:
        put(advice.as_dict())
        return
    kind = "the model knows" if advice.labels == KNOWN else "mean nothing to the model"
    table(
        f"{questions} answers from {records} units within {advice.budget}, {advice.adjacency.value} adjacency, labels "
        f"that {kind}",
        ["method", "g", "clip", "epsilon each", "expected accuracy"],
        [_row(option) for option in advice.options] + [["zero-shot", "", "", "free", str(advice.zero_shot)]],
    )
    for line in _sources(advice, task, floor is not None):
        say(line)
    say(advice.advice)


def _row(option: Option) -> list[str]:
    return [
        option.method,
        str(option.units_per_expert) if option.accuracy else "",
        f"{option.clip:g}" if option.clip is not None else "",
        rounded_down(option.epsilon, 6) if option.epsilon else "does not fit",
        str(option.accuracy) if option.accuracy else "not measured",
    ]


def _sources(advice: Plan, task: str | None, own_floor: bool) -> list[str]:
    """What the figures were measured on, and how far they carry."""
    lines = []
    if task is not None and list(advice.tasks) != [task]:
        lines.append(f"The task {task!r} was not measured: what follows is the average over public tasks.")
    ratio = advice.records / advice.measured_at
    spread = "over tasks" if len(advice.tasks) > 1 else "over draws of records and questions"
    at = "" if ratio == 1 else f" at {ratio:.3g} times the price, which is what {advice.records} amount to,"
    questions = "your questions" if own_floor else "the same questions"
    measured = f"{advice.model} model, {advice.measured_at} records{at} of {', '.join(advice.tasks)}"
    lines.append(
        f"Accuracies: {measured}; 95 % intervals {spread}; zero-shot on {questions}. No figure was used to choose the "
        "setting it stands for."
    )
    if advice.options[0].by_task and len(advice.tasks) > 1:
        by_task = ", ".join(f"{name} {value:.0f} %" for name, value in advice.options[0].by_task.items())
        lines.append(
            f"The first row by task, each with what is best on the others: {by_task}. One more task may well lie "
            "outside of the interval."
        )
    return lines


def _zero_shot(queries: str, task: str | None, labels: str | None, model: str) -> Accuracy:
    from sottovoce.errors import ParameterError
    from sottovoce.models.registry import load_scorer
    from sottovoce.planner.advise import Accuracy
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import Task, load_task

    if (task is None) == (labels is None):
        raise ParameterError("--task and --labels", "both or neither", "exactly one of them beside --queries")
    the_task = load_task(task) if task else Task(labels=str(labels).split(","))
    rows = read_public(queries)
    require_public(rows, f"--queries {queries}")
    truth = [the_task.labels[the_task.label_of(row, rows.source)] for row in rows]
    session = PrivateICL(records=None, task=the_task, method="zero-shot", model=load_scorer(model))
    right = 0
    with progress() as bar:
        doing = bar.add_task("zero-shot", total=len(truth), rate="")
        questions = [the_task.query_of(row, rows.source) for row in rows]
        for expected, release in zip(truth, session.classify(questions, epsilon=1), strict=True):
            right += release.value == expected
            bar.update(doing, advance=1)
    share = right / len(truth)
    return Accuracy(100 * share, 100 * (share * (1 - share) / len(truth)) ** 0.5)
