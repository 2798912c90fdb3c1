"""Does an answer follow what was asked before: each question alone, in a copy of the process, and after all others.

Guarantee   What is kept of other questions shows if it changes what is said to one of these: whatever it is kept by,
            wherever it is kept, and whichever question was the first. Plans, charges, what mechanisms are given and
            told, and what is drawn by one source of noise are compared, so that a kept bound shows, too large a one as
            well.
            Each public part of a question is another one in at least one question that is the same in all others, so
            that it shows if what is kept is kept without this part. A part of which an entry takes no other one is
            listed.
Assumes     Nothing was asked of the entry before. Of an entry that is checked a second time in one process, what was
            kept of the first is in the copies already.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, Protocol, TypeVar, final

import numpy as np

from sottovoce.errors import InputError, SottoError
from sottovoce.methods.base import Price
from sottovoce.testing.another_process import NoAnswerError, of_a_copy
from sottovoce.testing.constructions import Construction
from sottovoce.testing.fingerprints import fingerprint
from sottovoce.testing.options import with_other_numbers
from sottovoce.testing.report import ContractError, Report

CLOSE: Final = 1e-9
"""Probabilities that differ by less are the same: another number of threads adds them up in another order."""
OWN_DRAWS: Final = 150
"""Draws of an entry that draws by no registered mechanism: these are told what is kept, and show it in one draw."""
RAISED: Final = "raised"
"""What is said where an entry ends in an error. In a copy alone that is no answer: what holds a card or a connection
cannot always be used in one."""
REFUSED: Final = "refused"
"""What is said where an entry refuses a question."""
NOT_MADE: Final = "not made"
"""What is said where an entry cannot be made for a question. Where that is, another check lists it."""
NONE: Final = "questions asked alone, of which it takes none"
FOLLOWS: Final = (
    "another answer is given in a process in which nothing else was asked: it keeps state between questions"
)

Q = TypeVar("Q")


@final
class AskedAlone:
    """Answers to questions of which each was the only one.

    Args:
        questions: That the entry takes.
        ask: What is said to a question: numbers, and anything that can be compared.
        shown: A question in words.
        subject: The entry with its options.
        report: To be filled.
        listed: Whether another check lists a question that is refused.
    """

    def __init__(
        self,
        questions: Sequence[Q],
        ask: Callable[[Q], Sequence[Any]],
        shown: Callable[[Q], str],
        subject: str,
        report: Report,
        *,
        listed: Callable[[Q], bool] = lambda _: False,
    ) -> None:
        self._ask, self._shown, self._subject, self._report = ask, shown, subject, report
        self._listed = listed
        self._alone: list[tuple[Q, Any]] = []
        for question in questions:
            try:
                said = _of_a_copy(partial(_said, ask, question), report)
            except NoAnswerError as none:
                report.not_compared(f"{subject}: questions asked alone, since {none}")
                break
            self._alone.append((question, said))

    @property
    def answered(self) -> int:
        """Questions that are neither refused nor end in an error."""
        return sum(alone not in ([RAISED], [REFUSED], [NOT_MADE]) for _, alone in self._alone)

    def compare(self) -> None:
        """Asks the same questions here: in both orders, and each right before and behind the first.

        Raises:
            ContractError: One has another answer than alone.
        """
        around = [each for other in self._alone[1:] for each in (self._alone[0], other)]
        for question, alone in (*self._alone, *reversed(self._alone), *around):
            here = _said(self._ask, question)
            if alone in ([RAISED], [NOT_MADE]) and alone != here:
                raised = f"a question that was asked alone ({self._shown(question)}), which raises in a copy"
                self._report.not_compared(f"{self._subject}: {raised}")
            elif not _alike(here, alone):
                raise ContractError("state", self._subject, FOLLOWS, self._shown(question))
            elif alone == [RAISED] or (alone == [REFUSED] and not self._listed(question)):
                which = "which raises" if alone == [RAISED] else "which it refuses"
                self._report.not_compared(f"{self._subject}: a question ({self._shown(question)}), {which}")
        if self.answered:
            self._report.kept("state", self.answered, "questions answered as they are alone")


def other_prices(price: Price) -> dict[str, list[Price]]:
    """Prices that differ from one in epsilon or in delta, larger and smaller ones to be tried in turn."""
    epsilons = [replace(price, epsilon=times * price.epsilon) for times in (1.5, 1 / 1.5, 10, 0.1)]
    if not price.delta:
        small, smaller = ([replace(price, delta=delta)] for delta in (1e-3, 1e-6))
        return {"epsilon": epsilons, "delta": small, "smaller delta": smaller}
    deltas = [replace(price, delta=times * price.delta) for times in (0.01, 100, 0.5, 2) if times * price.delta < 1]
    return {"epsilon": epsilons, "delta": deltas}


def others_taken(
    others: Mapping[str, Sequence[Q]], takes: Callable[[Q], object], subject: str, report: Report
) -> list[Q]:
    """Of each part of a question the first other one that an entry takes; a part without one is listed."""

    def which() -> list[int]:
        tried = (enumerate(questions) for questions in others.values())
        return [next((at for at, each in questions if _takes(takes, each)), -1) for questions in tried]

    try:
        places: Sequence[int] = _of_a_copy(which, report)
    except NoAnswerError:
        places = [0 if questions else -1 for questions in others.values()]
    first = {
        part: [] if at < 0 else [questions[at]] for (part, questions), at in zip(others.items(), places, strict=True)
    }
    if without := [part for part, questions in first.items() if not questions]:
        report.not_compared(f"{subject}: asked alone with another {', '.join(without)}, of which it takes none")
    return [question for questions in first.values() for question in questions]


class Driver(Protocol[Q]):
    """One setting of an entry, of which questions are asked."""

    def questions_alone(self, *, prices: bool = True) -> Sequence[Q]:
        """Those that it takes.

        Args:
            prices: Whether prices, and other parts, are varied by themselves.
        """

    def answer_to(self, question: Q) -> Sequence[Any]:
        """What is said to one."""

    def in_words(self, question: Q) -> str:
        """One in words."""


def made_alone(
    entry: Any, driven: Callable[[Any], Sequence[Driver[Any]]], subject: str, report: Report
) -> list[AskedAlone]:
    """What is asked of a class that is made in each copy: at its defaults, and with another number in one place.

    To be called before the class is made here, so that what it keeps of the first of its instances shows. Of another
    number the first is asked that answers a question; a place without one is listed. Of an instance nothing is asked.

    Args:
        entry: The class.
        driven: The settings of an instance that questions are asked of.
        subject: The entry, for the report.
        report: To be filled.
    """
    if not isinstance(entry, type):
        return []
    others, lost = with_other_numbers(entry)
    found = _made_alone(Construction(entry, {}), driven, report)
    if not found:
        return []
    if lost:
        report.not_compared(f"{subject}: asked alone with another {', '.join(lost)}, which cannot be given by its name")
    for place, entries in others.items():
        first = next(filter(None, (_made_alone(other, driven, report) for other in entries)), [])
        found += first
        if not first:
            why = f"since {report.no_copies}" if report.no_copies else "of which it takes none"
            report.not_compared(f"{subject}: asked alone with another {place}, {why}")
    return found


def _made_alone(
    entry: Construction, driven: Callable[[Any], Sequence[Driver[Any]]], report: Report
) -> list[AskedAlone]:
    """What is asked of an entry that is made in each copy; nothing where it cannot be made, or answers nothing."""
    settings = cache(lambda: driven(entry.make()))

    def which() -> str:
        try:
            every = [setting.questions_alone(prices=False) for setting in settings()]
        except (Exception, SottoError):
            return ""
        return pickle.dumps(every).hex()

    try:
        questions = _of_a_copy(which, report)
    except NoAnswerError:
        return []
    every = pickle.loads(bytes.fromhex(questions)) if questions else []  # noqa: S301  of this process's own copy
    asked = [
        AskedAlone(of_one, partial(_answer_of, settings, at), partial(_words_of, settings, at), repr(entry), report)
        for at, of_one in enumerate(every)
    ]
    return asked if any(alone.answered for alone in asked) else []


def _answer_of(settings: Callable[[], Sequence[Driver[Any]]], at: int, question: Any) -> Sequence[Any]:
    """Of a setting that is made when it is asked."""
    return settings()[at].answer_to(question)


def _words_of(settings: Callable[[], Sequence[Driver[Any]]], at: int, question: Any) -> str:
    return settings()[at].in_words(question)


def taken(
    questions: Sequence[Q], takes: Callable[[Q], object], subject: str, report: Report, *, listed: bool = True
) -> list[Q]:
    """Those that an entry takes; where ``listed``, that there are none is.

    It is asked in a copy, since to plan is to ask; without one, all.
    """

    def which() -> list[int]:
        return [place for place, question in enumerate(questions) if _takes(takes, question)]

    try:
        found = [questions[place] for place in _of_a_copy(which, report)]
    except NoAnswerError:
        return list(questions)
    if listed and questions and not found:
        report.not_compared(f"{subject}: {NONE}")
    return found


def _of_a_copy(ask: Callable[[], Any], report: Report) -> Any:
    """What a copy answers. Where one did not, none is asked again: each would be waited for as long."""
    if report.no_copies:
        raise NoAnswerError(report.no_copies)
    try:
        return of_a_copy(ask)
    except NoAnswerError as none:
        report.no_copies = str(none)
        raise


def _takes(takes: Callable[[Q], object], question: Q) -> bool:
    """A plan that raises anything raises it again where plans are checked."""
    with suppress(Exception, SottoError):
        return bool(takes(question))
    return False


def _said(ask: Callable[[Q], Sequence[Any]], question: Q) -> list[Any]:
    """What is said: numbers as they are, a hash of everything else."""
    try:
        said = ask(question)
        if len(said) == 1 and isinstance(said[0], str) and said[0] in (REFUSED, NOT_MADE):
            return [*said]
        return [part if isinstance(part, float) else _hash(part) for part in said]
    except InputError:
        return [REFUSED]
    except (Exception, SottoError):
        return [RAISED]


def _hash(part: Any) -> str:
    return hashlib.sha256(repr(fingerprint(part)).encode()).hexdigest()


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    if [part for part in one if isinstance(part, str)] != [part for part in other if isinstance(part, str)]:
        return False
    here, alone = (np.array([part for part in each if isinstance(part, float)]) for each in (one, other))
    return len(here) == len(alone) and np.allclose(here, alone, rtol=0.0, atol=CLOSE, equal_nan=True)
