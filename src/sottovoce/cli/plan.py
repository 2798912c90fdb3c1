"""``sotto plan``: which method and epsilon for how many questions, and what is free."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import load_scorer, progress, put, put_text, table
from sottovoce.cli.flags import flag_of_name, is_typed
from sottovoce.errors import GIVEN, InputError, ParameterError
from sottovoce.privacy.numbers import rounded_down

if TYPE_CHECKING:
    from sottovoce.planner.advise import Accuracy, Option, Plan
    from sottovoce.planner.guide import Expectation, Guide
    from sottovoce.privacy.ledger.budget import Budget


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("plan")(plan)


def plan(
    records: Annotated[int, typer.Option("--records", help="Approximate number of units.")],
    questions: Annotated[int, typer.Option("--questions", help="Answers to be paid for.")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="The whole epsilon of the data set.")] = "8",
    delta: Annotated[
        str, typer.Option("--delta", help="The whole delta of the data set; 0 for a pure budget.")
    ] = "1e-6",
    adjacency: o.AdjacencyName = "replace-one",
    task: o.TaskName = None,
    labels: Annotated[
        str | None, typer.Option("--labels", help="The number of labels, or the public label set, such as a,b,c.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Labelled public questions: measures the zero-shot floor on them.")
    ] = None,
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    model: o.ModelName = "embedded",
    made_up: Annotated[
        bool, typer.Option("--made-up-labels", help="The label names mean nothing to the model.")
    ] = False,
    pool: Annotated[
        str,
        typer.Option("--pool", help="Public texts at hand: bundled, 'same kind' as the records, or 'another kind'."),
    ] = "bundled",
    as_json: o.AsJson = False,
) -> None:
    """Compare what a budget buys, and print the commands to type. Reads nothing private and charges nothing.

    With --labels or --task, everything that the budget buys is compared: paying once, paying for each answer, and
    zero-shot for free. Without them, the cost of single answers is printed.
    """
    from sottovoce.planner.advise import KNOWN, UNKNOWN, make_plan, measured_tasks
    from sottovoce.planner.guide import MADE_UP, OWN, Asked, make_guide
    from sottovoce.privacy.ledger.budget import Budget
    from sottovoce.tasks import is_answer_task

    if task is not None and is_answer_task(task):
        _plan_answers(task, records, questions, Budget(epsilon, delta), adjacency, as_json=as_json)  # type: ignore[arg-type]
        return
    count = _label_count(labels, task)
    floor = _zero_shot(queries, task, labels, model, text_column, label_column) if queries else None
    advice = make_plan(
        records=records,
        questions=questions,
        budget=Budget(epsilon, delta),  # type: ignore[arg-type]
        adjacency=adjacency,
        labels=UNKNOWN if made_up else KNOWN,
        task=task if task in measured_tasks() else None,
        zero_shot=floor,
    )
    guide = None
    if count is not None:
        asked = Asked(
            records,
            count,
            questions,
            advice.budget.epsilon,
            advice.budget.delta,
            advice.adjacency,
            MADE_UP if made_up else OWN,
            pool,
            model,
            task,
        )
        guide = make_guide(asked, zero_shot=floor, who=_who(labels, task))
    if as_json:
        put({**advice.as_dict(), "guide": guide.as_dict() if guide else None})
        return
    kind = "the model knows" if advice.labels == KNOWN else "mean nothing to the model"
    if guide is not None:
        _show(guide)
        put_text("")
        put_text("Each answer paid for by itself, by method. Other sets were measured here: compare within a table.")
    table(
        f"{questions} answers from {records} units within {advice.budget}, {advice.adjacency.value} adjacency, labels "
        f"that {kind}",
        ["method", "g", "clip", "epsilon each", "expected accuracy"],
        [_row(option) for option in advice.options] + [["zero-shot", "", "", "free", str(advice.zero_shot)]],
    )
    for line in _sources(advice, task, floor is not None):
        put_text(line)
    if guide is None:
        put_text(advice.advice)
        put_text("With --labels NUMBER this is compared with paying once for any number of answers: 'sotto fit'.")
        return
    put_text(f"Paid one by one: {advice.advice}")


def _plan_answers(task: str, records: int, questions: int, budget: Budget, adjacency: str, *, as_json: bool) -> None:
    """What a budget buys where answers are texts."""
    from sottovoce.planner.long_answers import bought, packaged_rule, resolve_long_answer
    from sottovoce.privacy.unit import Adjacency

    for name in ("labels", "queries", "text_column", "label_column", "model", "made_up", "pool"):
        if is_typed(name):
            limit = f"left out: answers to the task {task!r} are texts, and no accuracy is worked out for them"
            raise ParameterError(flag_of_name(name), GIVEN, limit)
    relation = Adjacency.parse(adjacency)
    rows = bought(records, questions, budget, relation)
    chosen, rule = resolve_long_answer(questions=questions, public=1), packaged_rule()
    commands = [
        f"sotto answer --private FILE --public FILE --queries FILE --task {quote(task)} --method {row.method} "
        f"--epsilon {rounded_down(row.epsilon, 4)} --out answers.jsonl"
        for row in rows
        if row.method == chosen.method and row.epsilon is not None
    ]
    free = f"sotto answer --public FILE --queries FILE --task {quote(task)} --method {rule.free} --out free.jsonl"
    if as_json:
        options = [{"method": row.method, "paid": row.paid, "epsilon": row.epsilon} for row in rows]
        advised = {"method": chosen.method, "why": chosen.why, "commands": commands, "free": free}
        put({"task": task, "options": options, "measured_on": list(rule.measured_on), "advised": advised})
        return
    table(
        f"What a total buys: epsilon {rounded_down(budget.epsilon, 6)} and delta {rounded_down(budget.delta, 6)}, for "
        f"{questions:,} answers from {records:,} units, {relation.value} adjacency",
        ["method", "paid", "epsilon"],
        [[row.method, row.paid, rounded_down(row.epsilon, 4) if row.epsilon else "does not fit"] for row in rows],
    )
    if not rule.measured_on:
        put_text("How good answers are was not measured for these settings, so that methods are not compared by it.")
    put_text(f"{chosen}.")
    for command in commands:
        put_text(f"    {command}")
    if rule.measured_on:
        put_text(
            f"Compare it with {rule.free!r} first, which is free: on {' and '.join(rule.measured_on)}, with a small "
            "model, no private method was shown to answer better."
        )
        put_text(f"    {free}")


def _label_count(labels: str | None, task: str | None) -> int | None:
    """How many labels there are, where it is said: by their number, by their names, or by a task."""
    from sottovoce.planner.guide import LABELS
    from sottovoce.tasks import load_task

    if labels is not None and task is not None:
        raise InputError("--labels and --task are both given. A task names its labels: leave one of the two out.")
    if labels is None:
        return len(load_task(task).labels) if task is not None else None
    count = int(labels) if labels.strip().isdecimal() else len(labels.split(","))
    return int(LABELS.read("--labels", count))


def _who(labels: str | None, task: str | None) -> str:
    """The flags that name the labels, for a command."""
    if task is not None:
        return f"--task {quote(task)}"
    named = labels is not None and not labels.strip().isdecimal()
    return f"--labels {quote(labels) if named and labels else 'LABEL,LABEL,...'}"


def _show(guide: Guide) -> None:
    """Everything that the total buys, what it was measured on, the advice, and what to type."""
    asked = guide.asked
    rows = [[row.method, _paid(row), str(row.accuracy), f"{row.lead.mean:+.1f}"] for row in guide.rows]
    if guide.no_privacy:
        lead = guide.no_privacy.mean - guide.zero_shot.mean
        rows.append(["no privacy", "", str(guide.no_privacy), f"{lead:+.1f}"])
    table(
        f"What a total buys: epsilon {rounded_down(asked.epsilon, 6)} and delta {rounded_down(asked.delta, 6)}, for "
        f"{asked.questions:,} questions; {asked.labels} labels, pool: {asked.pool}",
        ["method", "paid", "expected accuracy", "to zero-shot"],
        rows,
    )
    by_set = ", ".join(f"{name} {value:.0f} %" for name, value in guide.advised.by_set.items())
    put_text(
        f"Measured with the model {guide.model} on public sets; 95 % intervals of their "
        f"mean. {guide.advised.method} by set: {by_set}. One more set may well lie outside of the interval."
    )
    put_text(guide.reason)
    for command in guide.commands:
        put_text(f"    {command}")


def _paid(row: Expectation) -> str:
    if row.epsilon is None:
        return "nothing"
    return f"{'once' if row.paid == 'once' else 'each answer'}, epsilon {rounded_down(row.epsilon, 6)}"


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


def _zero_shot(
    queries: str, task: str | None, labels: str | None, model: str, text_column: str | None, label_column: str | None
) -> Accuracy:
    from sottovoce.planner.advise import Accuracy
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import Task, load_task

    if (task is None) == (labels is None):
        raise InputError("--queries needs the names of the labels: give --labels or --task, one of the two.")
    if labels is not None and labels.strip().isdecimal():
        raise ParameterError("--labels", labels, "the names of the labels beside --queries, not their number")
    the_task = load_task(task) if task else Task(labels=str(labels).split(","))
    choice = o.RecordsChoice(text_column=text_column, label_column=label_column)
    rows = read_public(queries, columns=choice.columns(the_task))
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
