"""``sotto demo``: learn from bundled tickets once, answer every question for free, and see why it matters."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli.console import left_in_words, load_scorer, progress, put_text, say, table
from sottovoce.cli.outputs import NewFile
from sottovoce.privacy.numbers import rounded_up

if TYPE_CHECKING:
    from sottovoce.fitting.fitted import Fitted
    from sottovoce.intervals import Proportion
    from sottovoce.models.base import LabelScorer
    from sottovoce.records.sealed import PrivateRecords, Row

SHOWN = 6
BAR = 20
UNITS_PER_EXPERT = 4
EPSILON_EACH = 1.0
"""Price of one answer where every answer is paid."""
CANARY_ASKED = 200
CANARY = "Locker 7QX-441: the spare key of 12 Alder Quay is taped under the green bench, ask for Mirela."
CANARY_LABEL = "returns"


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo")(demo)


def demo(
    epsilon: float = typer.Option(4.0, "--epsilon", min=0.01, max=20, help="Price of everything that is learned."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as one JSON object on stdout."),
    write_tickets: Annotated[
        Path | None,
        typer.Option(
            "--write-tickets",
            parser=NewFile("/tickets.jsonl", "/new.jsonl", makes_folder=True),
            metavar="FOLDER",
            help="Only write the bundled files: tickets.jsonl (records), new.jsonl (questions).",
        ),
    ] = None,
) -> None:
    """Learn privately from 440 bundled support tickets, and answer 160 questions, offline."""
    from sottovoce.cli.console import put
    from sottovoce.store import set_apart

    if write_tickets is not None:
        _write_tickets(write_tickets)
        return
    figures: dict[str, Any] = {"epsilon": epsilon}
    # The tickets are invented: their budget is forgotten, and your own store hears nothing of it.
    with tempfile.TemporaryDirectory() as folder:
        with set_apart(Path(folder) / "model"):
            model = load_scorer("embedded")
        with set_apart(Path(folder) / "fit"):
            fitted = _fit(model, epsilon, str(Path(folder) / "fit.db"), quiet=as_json)
            figures["answers"] = _answers(fitted, quiet=as_json)
            figures["accuracy"] = _accuracies(model, fitted, quiet=as_json)
        with set_apart(Path(folder) / "answers"):
            figures["per_answer"] = _per_answer(model, str(Path(folder) / "answers.db"), quiet=as_json)
            figures["canary"] = _canary(model, EPSILON_EACH, quiet=as_json)
    if as_json:
        put(figures)
    else:
        put_text("Next: sotto fit --help, or README.md for your own records.")


def _write_tickets(folder: Path) -> None:
    """The bundled files under the names that the documentation uses; where one of them is, neither is written."""
    from sottovoce.data.bundled import tickets_file
    from sottovoce.errors import InputError
    from sottovoce.files.outputs import new_file, refuse_existing

    records, questions = folder / "tickets.jsonl", folder / "new.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"{folder} is no folder, and none can be made there. Name another one.") from None
    for file in (records, questions):
        refuse_existing(file)
    for file, bundled in ((records, "private.jsonl"), (questions, "queries.jsonl")):
        with new_file(file) as stream:
            stream.write(tickets_file(bundled).read_bytes())
    say(f"Wrote 440 invented tickets to {records}, and 160 questions with their labels to {questions}.")
    say(f"Next: sotto fit --private {shlex.quote(str(records))} --task tickets --out support.sotto")


def _fit(model: LabelScorer, epsilon: float, ledger: str, *, quiet: bool) -> Fitted:
    """One charge."""
    from sottovoce.data.bundled import private_tickets
    from sottovoce.fitting.fit import Fitting
    from sottovoce.tasks import load_task

    fitting = Fitting(private_tickets(), load_task("tickets"), epsilon=epsilon, model=model, ledger=ledger)
    with progress() as bar:
        doing = bar.add_task("reading", total=fitting.units, rate="")
        fitted = fitting.run(on_units=lambda units: bar.update(doing, advance=units))
    if not quiet:
        used, whole = rounded_up(fitting.balance.epsilon_used), rounded_up(fitting.balance.budget.epsilon)
        put_text(f"Learned from 440 tickets of 238 customers by {fitted.method}: epsilon {used} of {whole} used, once.")
        put_text(fitted.statement)
        put_text("")
    return fitted


def _answers(fitted: Fitted, *, quiet: bool) -> list[dict[str, object]]:
    """A few questions, for free."""
    from sottovoce.cli.predict import row_of
    from sottovoce.data.bundled import ticket_queries

    rows = list(ticket_queries())[:SHOWN]
    values = fitted.predict([fitted.task.query_of(row, "queries") for row in rows])
    if not quiet:
        table(
            "Answers, free from now on",
            ["question", "private answer", "right answer"],
            [[_short(row), value, str(row.values["label"])] for row, value in zip(rows, values, strict=True)],
        )
    return [row_of(fitted, str(row.values["id"]), value) for row, value in zip(rows, values, strict=True)]


def _accuracies(model: LabelScorer, fitted: Fitted, *, quiet: bool) -> dict[str, list[float]]:
    """Zero-shot, private and unprotected, side by side on every bundled question."""
    from sottovoce.data.bundled import private_tickets

    records, price = private_tickets(), rounded_up(fitted.certificate.epsilon, 6)
    measured: dict[str, Proportion] = {}
    with progress() as bar:
        doing = bar.add_task("measuring", total=3, rate="")
        for name in ("zero-shot", "private", "no protection"):
            method = "full-context" if name == "no protection" else name
            measured[name] = _share(_right(fitted)) if name == "private" else _accuracy(model, records, method, 1.0)
            bar.update(doing, advance=1)
    if not quiet:
        meaning = {
            "zero-shot": "none read",
            "private": f"epsilon {price} once",
            "no protection": "one prompt",
        }
        table(
            "Right answers to 160 questions (95 % Clopper-Pearson interval)",
            ["", "", "", ""],
            [[name, _bar(value.value), str(value), meaning[name]] for name, value in measured.items()],
        )
    return {name: [value.value, value.low, value.high] for name, value in measured.items()}


def _bar(share: float) -> str:
    filled = round(share * BAR)
    return "█" * filled + "░" * (BAR - filled)


def _right(fitted: Fitted) -> list[bool]:
    from sottovoce.data.bundled import ticket_queries

    rows = list(ticket_queries())
    values = fitted.predict([fitted.task.query_of(row, "queries") for row in rows])
    return [value == row.values["label"] for value, row in zip(values, rows, strict=True)]


def _share(right: list[bool]) -> Proportion:
    from sottovoce.intervals import proportion

    return proportion(sum(right), len(right))


def _per_answer(model: LabelScorer, ledger: str, *, quiet: bool) -> dict[str, object]:
    """One question that is paid for by itself."""
    from sottovoce.data.bundled import private_tickets, ticket_queries
    from sottovoce.experts.partition import Partition
    from sottovoce.privacy.ledger.budget import Budget
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import load_task

    task, row = load_task("tickets"), next(iter(ticket_queries()))
    icl = PrivateICL(
        records=private_tickets(),
        task=task,
        method="prior-poe",
        model=model,
        budget=Budget(8, 1e-6),
        ledger=ledger,
        partition=Partition(units_per_expert=UNITS_PER_EXPERT),
    )
    release = icl.ask(task.query_of(row, "queries"), epsilon=EPSILON_EACH)
    if not quiet and release.remaining:
        put_text("Few questions, or records that change: pay for each answer instead (sotto ask, sotto classify).")
        put_text(f"  {_short(row)}  ->  {release.value}")
        put_text(f"  Ledger: {left_in_words(release.remaining, release.event)}.")
        put_text("")
    return release.as_row(str(row.values["id"]))


def _accuracy(model: LabelScorer, records: PrivateRecords, method: str, epsilon: float) -> Proportion:
    from sottovoce.data.bundled import ticket_queries
    from sottovoce.intervals import proportion
    from sottovoce.tasks import load_task

    task, rows = load_task("tickets"), list(ticket_queries())
    icl = _measuring(model, records, method, UNITS_PER_EXPERT)
    questions = [task.query_of(row, "queries") for row in rows]
    answers = [release.value for release in icl.classify(questions, epsilon=epsilon)]
    right = sum(a == row.values["label"] for a, row in zip(answers, rows, strict=True))
    return proportion(right, len(rows))


def _measuring(model: LabelScorer, records: PrivateRecords, method: str, units_per_expert: int) -> Any:
    """A session on invented records whose ledger is thrown away."""
    from sottovoce.experts.partition import Partition
    from sottovoce.privacy.ledger.budget import Budget
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import load_task

    return PrivateICL(
        records=records,
        task=load_task("tickets"),
        method=method,
        model=model,
        budget=Budget(1000),
        ledger=":memory:",
        partition=Partition(units_per_expert=units_per_expert),
        allow_non_private=True,
    )


def _canary(model: LabelScorer, epsilon: float, *, quiet: bool) -> dict[str, object]:
    """One customer's line is in the data, or another line in its place: can an asker tell?"""
    from sottovoce.intervals import proportion

    undefended = {}
    share = {}
    count = min(CANARY_ASKED, int(900 / epsilon))
    for present in (True, False):
        records = _with_canary(present=present)
        undefended[present] = _measuring(model, records, "full-context", 1).ask(CANARY, epsilon=epsilon).value
        answers = _measuring(model, records, "poe", 1).classify([CANARY] * count, epsilon=epsilon)
        share[present] = proportion(sum(release.value == CANARY_LABEL for release in answers), count)
    if not quiet:
        table(
            "Why it matters: is a certain line among the private tickets?",
            ["'Locker 7QX-441: the spare ...'", "it is there", "it is not"],
            [
                ["undefended prompt", undefended[True], undefended[False]],
                [f"private, asked {count} times: '{CANARY_LABEL}'", str(share[True]), str(share[False])],
            ],
        )
        outcome = (
            "tells an asker every time whether the line is there"
            if undefended[True] != undefended[False]
            else "did not tell"
        )
        put_text(
            f"The undefended prompt {outcome}. At epsilon {rounded_up(epsilon, 6)}, no attack on one private answer "
            f"can guess membership with more than {rounded_up(100 * _cap(epsilon), 3)} % accuracy (chance is 50 %)."
        )
        put_text("")
    return {
        "undefended": {"present": undefended[True], "absent": undefended[False]},
        "private_share": {"present": share[True].value, "absent": share[False].value, "asked": count},
        "cap_on_guessing": _cap(epsilon),
    }


def _with_canary(*, present: bool) -> PrivateRecords:
    from sottovoce.data.bundled import tickets_file
    from sottovoce.records.readers import read_public
    from sottovoce.records.sealed import PrivateRecords, Row

    tickets = list(read_public(tickets_file("private.jsonl")))
    other = "The blue vase I sent back last week has still not been refunded, parcel was signed for on Tuesday."
    planted = {"id": "T9999", "text": CANARY if present else other, "label": CANARY_LABEL, "group": "C9999"}
    return PrivateRecords([*tickets, Row(len(tickets) + 1, planted)], source="tickets", synthetic=True)


def _cap(epsilon: float) -> float:
    """Best chance of guessing one bit right after one epsilon-DP answer, rounded up (specification 10.1)."""
    import math

    from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN

    return min(1.0, (1 + FLOAT_MARGIN) / (1 + math.exp(-epsilon)))


def _short(row: Row) -> str:
    text = str(row.values["text"])
    return text if len(text) <= 46 else text[:43] + "..."
