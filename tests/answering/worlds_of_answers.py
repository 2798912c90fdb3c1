"""A small private world for long answers, over a writer made of a function that notes what it is given."""

from __future__ import annotations

from collections.abc import Callable

from sottovoce.answering.session import PrivateAnswers
from sottovoce.methods.answering.answerer import make_answerer
from sottovoce.models.fake import FakeScorer, FakeWriter, nearest_output
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Account
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import AnswerTask, load_answer_task

TASK: AnswerTask = load_answer_task("question")
THINGS = ("card", "parcel", "fee", "desk")
BUDGET = Budget(40, 1e-5)


def rows(count: int, kind: str) -> list[Row]:
    """Questions about four things; every text names its kind, so that prompts can be told apart."""
    return [
        Row(
            number + 1,
            {
                "question": f"what of the {kind} {THINGS[number % 4]} {number}?",
                "answer": f"Call the {THINGS[number % 4]} team, a {kind} one.",
            },
        )
        for number in range(count)
    ]


def is_private(request) -> bool:
    return any("private" in text for shot in request.shots for text in shot)


def is_rehearsal(arguments) -> bool:
    """Whether a call of ``draw`` is given experts that all say nothing."""
    return not any(arguments[2].texts_without_noise())


class Journal:
    """What happened, in order: private and public requests, charges, marks, draws and answers."""

    def __init__(self, monkeypatch) -> None:
        self.events: list[str] = []
        for name, word in (("reserve", "charge"), ("begin", "begin"), ("mark_released", "leaves")):
            self._watch(monkeypatch, Account, name, word)

    def _watch(self, monkeypatch, owner, name, word):
        original = getattr(owner, name)

        def watched(*arguments, **options):
            self.note(word)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)

    def note(self, word: str) -> None:
        if not self.events or self.events[-1] != word:
            self.events.append(word)

    def watch(self, monkeypatch, answers: PrivateAnswers) -> None:
        kind = type(answers.method)
        draw = kind.draw

        def drawn(*arguments):
            self.note("rehearsal" if is_rehearsal(arguments) else "draw")
            return draw(*arguments)

        monkeypatch.setattr(kind, "draw", drawn)
        self._watch(monkeypatch, kind, "finish", "finish")

    def writer(self, function=nearest_output) -> FakeWriter:
        def write(request):
            self.note("private read" if is_private(request) else "public")
            return function(request)

        return FakeWriter(write)


def answers_of(writer: Callable | FakeWriter = nearest_output, **options) -> PrivateAnswers:
    """Over made-up rows, which may have any number of ledgers."""
    given = {
        "records": PrivateRecords(options.pop("rows", None) or rows(24, "private"), source="notes", synthetic=True),
        "task": TASK,
        "public": [TASK.example_of(row, "public") for row in rows(8, "public")],
        "method": make_answerer("ksa", k=2),
        "writer": FakeWriter(writer) if callable(writer) else writer,
        "budget": BUDGET,
        "ledger": ":memory:",
        "shots": 2,
    }
    if (options.get("method") or given["method"]) in ("esa", "sga"):
        given["embedder"] = FakeScorer()
    return PrivateAnswers(**{**given, **options})


def kinds(answers: PrivateAnswers) -> list[str]:
    """The entries of the ledger behind its opening."""
    return [entry["kind"] for entry in answers.ledger.history()][1:]
