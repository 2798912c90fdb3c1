"""``sotto demo``: private answers from bundled tickets, what they cost, and why it matters."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sottovoce.cli.console import left_in_words, progress, say, table
from sottovoce.privacy.numbers import rounded_up

if TYPE_CHECKING:
    from sottovoce.intervals import Proportion
    from sottovoce.models.base import LabelScorer
    from sottovoce.records.sealed import PrivateRecords, Row

ASKED = 6
UNITS_PER_EXPERT = 4
CANARY_ASKED = 200
CANARY = "Locker 7QX-441: the spare key of 12 Alder Quay is taped under the green bench, ask for Mirela."
CANARY_LABEL = "returns"


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo")(demo)


def demo(
    epsilon: float = typer.Option(1.0, "--epsilon", min=0.01, max=20, help="Price of one answer."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as one JSON object on stdout."),
) -> None:
    """Answer questions privately from 440 bundled support tickets, offline."""
    from sottovoce.cli.console import put
    from sottovoce.models.registry import load_scorer

    model = load_scorer("embedded")
    figures: dict[str, Any] = {"epsilon": epsilon}
    with tempfile.TemporaryDirectory() as folder:
        figures["answers"] = _answers(model, epsilon, str(Path(folder) / "tickets.db"), quiet=as_json)
    figures["accuracy"] = _accuracies(model, epsilon, quiet=as_json)
    figures["canary"] = _canary(model, epsilon, quiet=as_json)
    if as_json:
        put(figures)
    else:
        say("Next: sotto classify --help, or README.md for your own records.")


def _answers(model: LabelScorer, epsilon: float, ledger: str, *, quiet: bool) -> list[dict[str, object]]:
    """A few questions, each paid for from a ledger."""
    from sottovoce.data.bundled import private_tickets, ticket_queries
    from sottovoce.experts.partition import Partition
    from sottovoce.privacy.ledger.budget import Budget
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import load_task

    task = load_task("tickets")
    icl = PrivateICL(
        records=private_tickets(),
        task=task,
        method="poe",
        model=model,
        budget=Budget(8, 1e-6),
        ledger=ledger,
        partition=Partition(units_per_expert=UNITS_PER_EXPERT),
    )
    rows = list(ticket_queries())[:ASKED]
    releases = list(icl.classify([task.query_of(row, "queries") for row in rows], epsilon=epsilon))
    if not quiet:
        table(
            f"Private answers from 440 tickets of 238 customers, epsilon {rounded_up(epsilon, 6)} each",
            ["question", "private answer", "right answer"],
            [[_short(row), r.value, str(row.values["label"])] for row, r in zip(rows, releases, strict=True)],
        )
        say(releases[-1].statement)
        balance = releases[-1].remaining
        say(f"Ledger: {left_in_words(balance, releases[-1].event)}.")
        say("")
    return [r.as_row(str(row.values["id"])) for row, r in zip(rows, releases, strict=True)]


def _accuracies(model: LabelScorer, epsilon: float, *, quiet: bool) -> dict[str, list[float]]:
    """Zero-shot, private and undefended, side by side on every bundled question."""
    from sottovoce.data.bundled import private_tickets

    measured: dict[str, Proportion] = {}
    with progress() as bar:
        doing = bar.add_task("measuring", total=3, rate="")
        for name, method in (("zero-shot", "zero-shot"), ("private", "poe"), ("undefended", "full-context")):
            measured[name] = _accuracy(model, private_tickets(), method, epsilon)
            bar.update(doing, advance=1)
    if not quiet:
        meaning = {
            "zero-shot": "the model alone, no ticket read",
            "private": f"epsilon {rounded_up(epsilon, 6)} each, replace-one, unit customer",
            "undefended": "all tickets in one prompt: no guarantee",
        }
        table(
            "Accuracy on 160 questions (95 % Clopper-Pearson interval)",
            ["", "accuracy", ""],
            [[name, str(value), meaning[name]] for name, value in measured.items()],
        )
        say("The tickets are invented; on real records each of these 160 answers would be paid for like those above.")
        say("")
    return {name: [value.value, value.low, value.high] for name, value in measured.items()}


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
        say(
            f"The undefended prompt {outcome}. One private answer at epsilon {rounded_up(epsilon, 6)} lets nobody "
            f"guess right more often than {rounded_up(100 * _cap(epsilon), 3)} % (a coin: 50 %), whatever they ask."
        )
        say("")
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
