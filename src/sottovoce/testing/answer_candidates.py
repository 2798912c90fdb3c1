"""The public answers that a session gives an answerer, held against what the answerer says that it compares.

Guarantee   An answerer with ``least_candidates`` above 0 is given an answer without examples and one after each group
            of public examples, up to the number of public experts. One with 0 gives the same answer whatever further
            public answers there are, so that a session need not ask for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sottovoce.answering.session import PrivateAnswers
from sottovoce.errors import InputError
from sottovoce.methods.answering.answerer import Answerer, PublicSide
from sottovoce.methods.answering.public import ANSWERS, public_side
from sottovoce.methods.base import Price, Reads
from sottovoce.models.base import WritingRequest
from sottovoce.models.fake import FakeScorer, FakeWriter
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import AnswerExample, load_answer_task
from sottovoce.testing import answer_worlds as worlds
from sottovoce.testing.answer_worlds import Relation, Writing
from sottovoce.testing.draw_tape import Tape, numbers_of, running
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.report import ContractError, Report, must_not_raise

QUERY: Final = {"question": "what of the card?"}
SEED: Final = 7
"""Of a session and of the draw that it is compared with: a free method may draw at random."""


def candidates(answerer: Answerer, subject: str, report: Report, price: Price, relations: Sequence[Relation]) -> None:
    """What the answerer says of public answers is true, and the session goes by it.

    Args:
        answerer: To be checked.
        subject: Its name in words.
        report: Where kept contracts are noted.
        price: That it takes.
        relations: Under which it takes it; the first three are tried.

    Raises:
        ContractError: It is not.
    """
    if answerer.least_candidates:
        least = answerer.least_candidates - 1  # beside the answer without examples
        for number in (max(ANSWERS, least), max(2, least)):
            _given(answerer, number, subject, price)
            report.kept("candidates", 1, "sessions that ask for every public answer that is compared")
        return
    for relation in relations[:3]:
        if _unseen(answerer, relation, subject, price):
            report.kept("candidates", 1, "answers that no further public answer changes")


def _given(answerer: Answerer, number: int, subject: str, price: Price) -> None:
    """A session with so many public experts asks for their answers, and answers by all of them."""
    writer, where = FakeWriter(_text), f"{number} public experts"
    rows = [Row(at + 1, {"question": f"whose is {at}?", "answer": f"It is {at}."}) for at in range(worlds.MANY)]
    embedder = FakeScorer() if "Embedder" in answerer.needs else None
    free = answerer.reads is Reads.NOTHING
    with must_not_raise("candidates", subject, "a session", where):
        session = PrivateAnswers(
            records=None if free else PrivateRecords(rows, source="a world", synthetic=True),
            task=load_answer_task("question"),
            public=_examples(number),
            method=answerer,
            writer=writer,
            embedder=embedder,
            ledger=":memory:",
            shots=1,
            public_experts=number,
            randomness=seeded(SEED),
            allow_non_private=True,
        )
        side = session.public_side(QUERY)
    if writer.calls != 1 + number:
        problem = f"it compares public answers, and the writer was asked for {writer.calls} in place of {1 + number}"
        raise ContractError("candidates", subject, problem, where)
    whole = _whole(number, embedder)
    if list(side.candidates) != list(whole.candidates):
        raise ContractError("candidates", subject, "it is given other public answers than were written", where)
    if free:
        with must_not_raise("candidates", subject, "an answer", where):
            plan = session.plan(price.epsilon, price.delta, side)
            outcome = answerer.draw(plan.setting, None, whole, seeded(SEED))
            same = session.ask(QUERY, epsilon=price.epsilon).value == answerer.finish(outcome, whole)
        if not same:
            raise ContractError("candidates", subject, "a session's answer is not the one of all public answers", where)


def _whole(number: int, embedder: FakeScorer | None) -> PublicSide:
    """The public side with an answer after each of so many groups."""
    task = load_answer_task("question")
    pool = [task.shot(example) for example in _examples(number)]
    return public_side(task, QUERY, write=_texts, pool=pool, answers=number, shots=1, embedder=embedder)


def _examples(number: int) -> list[AnswerExample]:
    """Public examples: more than so many experts need, and more than a session asks for that names no number."""
    desks = range(max(ANSWERS, number) + 4)
    return [AnswerExample({"question": f"what of number {desk}?"}, f"Ask desk {desk}.") for desk in desks]


def _text(request: WritingRequest) -> str:
    return f"the card is at {request.shots[0][1]}" if request.shots else "no card"


def _texts(requests: Sequence[WritingRequest]) -> list[str | None]:
    return [_text(request) for request in requests]


def _unseen(answerer: Answerer, relation: Relation, subject: str, price: Price) -> bool:
    """Further public answers change nothing; whether the answerer plans in this relation."""
    for number in worlds.SIZES:
        setting = relation.setting(number, 1, 1)
        try:
            plan = answerer.plan(price, setting)
            break
        except InputError:
            continue
    else:
        return False
    experts = None
    if answerer.reads is not Reads.NOTHING:
        experts = relation.outputs(worlds.neighbourhoods(relation, number)[0][0], setting)
    made = []
    for count in (1, len(worlds.POOL)):
        public, tape = worlds.public_side(count, Writing()), Tape(seeded(SEED))
        with must_not_raise("candidates", subject, "its draw", f"{count} public answers"), running(tape):
            outcome = plan.answerer.draw(setting, experts, public, tape.randomness)
            sums = [numbers_of(draw.aggregate).tolist() for draw in tape.draws]
            made.append((sums, worlds.marks(outcome), plan.answerer.finish(outcome, public)))
    if made[0] != made[1]:
        problem = "it says that it compares no public answers (least_candidates 0), and they change its answer"
        raise ContractError("candidates", subject, problem, str(relation))
    return True
