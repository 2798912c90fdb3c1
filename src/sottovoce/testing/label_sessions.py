"""What ``PrivateICL`` does with a method: what it refuses, what a free one is shown; its answers follow the law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from sottovoce.errors import LedgerMismatchError, NonPrivateError, SottoError
from sottovoce.experts.label_scores import FloatArray
from sottovoce.experts.partition import Partition
from sottovoce.methods.base import Method, Price
from sottovoce.methods.references import Demonstrations
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.events import NonPrivateDpEvent, NoOpDpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.session import PrivateICL
from sottovoce.tasks import Example
from sottovoce.testing import label_worlds as worlds
from sottovoce.testing.draws import departs
from sottovoce.testing.label_worlds import TASK, DataSet, Road
from sottovoce.testing.report import ContractError, Report, must_not_raise

BUDGET: Final = Budget(1000.0, 0.5, failure_delta=0.45)
PRICE: Final = Price(4.0, 1e-3)
DATA: Final[DataSet] = (("yes",), ("yes",), ("no",))
OTHER: Final[DataSet] = (("no",), ("no",), ("maybe",))
ANSWERS: Final = 96


def refused_without_consent(method: Method, subject: str, report: Report) -> None:
    """What has no guarantee says so, and answers only where the owner allows it by name."""
    for adjacency in Adjacency:
        if not isinstance(event := method.event(PRICE, adjacency), NonPrivateDpEvent):
            problem = f"it says that it is not private and charges {event}"
            raise ContractError("consent", subject, problem)
        model = FakeScorer(worlds.says)
        try:
            _session(method, DATA, adjacency, model)
        except NonPrivateError:
            report.kept("consent", 1, "sessions refused, for want of the owner's consent")
        else:
            raise ContractError("consent", subject, "it has no guarantee and a session takes it without consent")
        if model.calls:
            raise ContractError("consent", subject, "the model was asked before it was refused")


def reads_nothing(method: Method, subject: str, report: Report) -> None:
    """What is free shows no record to the model, and answers alike whatever the records are."""
    shown = [Example({"text": "public words yes"}, 0)] if isinstance(method, Demonstrations) else []
    for adjacency in Adjacency:
        if not isinstance(event := method.event(PRICE, adjacency), NoOpDpEvent):
            raise ContractError("free", subject, f"it reads no record and charges {event}")
        answers = []
        for data in (DATA, OTHER, None):
            seen: list[str] = []

            def watched(task: Any, context: Any, query: Any, seen: list[str] = seen) -> Any:
                seen.extend(example.fields["text"] for example in context)
                return worlds.says(task, context, query)

            icl = _session(method, data, adjacency, FakeScorer(watched), demonstrations=shown)
            answers.append([icl.ask(worlds.QUESTION, epsilon=1.0).value for _ in range(3)])
            icl.close()
            if any(worlds.SECRET in text for text in seen):
                raise ContractError("free", subject, "it says that it reads no record, and the model was shown one")
        if answers[0] != answers[1] or answers[0] != answers[2]:
            raise ContractError("free", subject, "it says that it reads no record, and its answers follow them")
        report.kept("free", 3, "sessions in which no record was shown")


def answers(
    method: Method,
    subject: str,
    report: Report,
    law: Callable[[DataSet, Road, Price], FloatArray] | None,
    prices: Mapping[Adjacency, Price],
) -> None:
    """Answers of a session follow the law, whatever another session asks of the same method; a name answers once.

    Args:
        method: A method that reads records.
        subject: The method with its options, for an error.
        report: To be filled.
        law: Of an answer, where one is stated.
        prices: Of an answer, by the adjacency of a session.
    """
    for adjacency, price in prices.items():
        with must_not_raise("session", subject, "a session", f"{worlds.shown(DATA)} ({adjacency.value})"):
            mine = _session(method, DATA, adjacency, FakeScorer(worlds.says), seed=21)
            other = _session(method, OTHER, adjacency, FakeScorer(worlds.says), seed=22)
            drawn: list[Hashable] = []
            for _ in range(ANSWERS // 32):
                questions = [worlds.QUESTION] * 32
                drawn += [TASK.labels.index(release.value) for release in _classified(mine, questions, price)]
                list(_classified(other, questions[:4], price))
        if law is not None:
            exact = law(DATA, Road(adjacency, Partition()), price)
            if problem := departs(dict(enumerate(exact.tolist())), Counter(drawn)):
                problem = f"answers of a session do not follow its law: {problem}"
                raise ContractError("session", subject, problem, f"{worlds.shown(DATA)} ({adjacency.value})")
        report.kept("session", len(drawn), "answers of a session that follow the law")
        _answers_once(mine, subject, price)
        report.kept("retries", 4, "names under which no second answer leaves")
        mine.close()
        other.close()


def _answers_once(icl: PrivateICL, subject: str, price: Price) -> None:
    for name in ("one", "two", "three", "four"):
        first = icl.ask(worlds.QUESTION, epsilon=price.epsilon, delta=price.delta, release_id=name).value
        try:
            again = icl.ask(worlds.QUESTION, epsilon=price.epsilon, delta=price.delta, release_id=name).value
        except LedgerMismatchError:
            continue
        except SottoError as error:
            raise ContractError(
                "retries", subject, f"asking again under a name raised {type(error).__name__}"
            ) from error
        if again != first:
            raise ContractError("retries", subject, "two answers left under one name")


def _classified(icl: PrivateICL, questions: Sequence[Any], price: Price) -> Any:
    return icl.classify(questions, epsilon=price.epsilon, delta=price.delta)


def _session(
    method: Method,
    data: DataSet | None,
    adjacency: Adjacency,
    model: FakeScorer,
    *,
    seed: int = 1,
    demonstrations: Sequence[Example] = (),
) -> PrivateICL:
    return PrivateICL(
        records=None if data is None else worlds.records_of(data),
        task=TASK,
        method=method,
        model=model,
        adjacency=adjacency,
        budget=BUDGET,
        ledger=":memory:",
        demonstrations=demonstrations,
        randomness=worlds.seeded(seed),
    )
