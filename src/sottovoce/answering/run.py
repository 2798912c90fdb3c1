"""A run: many questions, one charge each, in a folder from which it goes on where it was stopped.

The folder holds what was drawn, whole, before the ledger notes that it leaves; then the answer that was made of it. A
question whose draw began and left nothing whole is drawn anew under a charge of its own, or left out.

Guarantee   As ``synthesis``: one draw a charge, whatever stops the run.
Sources     decision 0012; ``files/checkpoint.py``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, final

from sottovoce.answering.session import Drawn, PrivateAnswers
from sottovoce.errors import BudgetExhaustedError, InputError, ModelError, ParameterError
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.answering.answerer import AnswerPlan
from sottovoce.models.base import Isolation, weakest
from sottovoce.parameters import CALLED
from sottovoce.privacy.checks import asked_hash, canonical
from sottovoce.privacy.ledger.account import Standing
from sottovoce.privacy.ledger.run_charges import Charge, as_charged, newest_whole
from sottovoce.release import Guarantee, Release
from sottovoce.tasks import Query

_SEAL: Final = 64
"""Characters in front of what was drawn."""
_CHANGED: Final = (ValueError, KeyError, TypeError, RecursionError)
"""What is raised by a saved answer that is none."""
_LOST: Final = "make room and pass --resume, which charges this answer again: it was drawn"


@final
@dataclass(frozen=True)
class Answered:
    """The answer to one question of a run.

    Attributes:
        number: Of the question, from 1.
        release: The answer; ``None`` where its draw was lost and is left out.
        again: Whether it was drawn before this process began.
    """

    number: int
    release: Release | None
    again: bool


@final
class AnswerRun:
    """Answers questions in a folder.

    Args:
        answers: Records, method and ledger.
        questions: All of them, in their order.
        epsilon: Price of each answer.
        delta: Of each answer; by default the budget's.
        fitted: The file whose examples free answers follow, and whose certificate they are told under.
        ids: Of the questions, where output rows name them; a resumed run must have the same.

    Attributes:
        left_out: Numbers of the questions whose draw was lost and that were left out.
        last_terms: The guarantee of the last answer that left, where no more is said of the model than holds for every
            answer that left.
    """

    def __init__(
        self,
        answers: PrivateAnswers,
        questions: Sequence[Query],
        *,
        epsilon: float,
        delta: float | None = None,
        fitted: Fitted | None = None,
        ids: Sequence[str] = (),
    ) -> None:
        self.answers, self.questions, self._fitted = answers, list(questions), fitted
        self._epsilon, self._delta, self._ids = epsilon, delta, list(ids)
        self.left_out: list[int] = []
        self.last_terms: Guarantee | None = None

    @property
    def terms(self) -> dict[str, Any]:
        """What a resumed run must have in common with the one that was interrupted."""
        account = self.answers.account
        terms = self._words
        if account is not None:
            terms["caller"] = account.caller
            terms["records and ledger"] = account.keyed("staging", str(self.answers.fingerprint))
        for name, texts in (
            ("public texts", self.answers.public_texts),
            ("question texts", [dict(question) for question in self.questions]),
            ("question ids", self._ids),
        ):
            terms[name] = self._hidden(hashlib.sha256(canonical(texts).encode("utf-8")).hexdigest())
        return terms

    def new_run_state(self) -> dict[str, str]:
        """What a new run remembers: its id, and the version of sottovoce that is charged for it."""
        return {"run": secrets.token_hex(8), "version": version("sottovoce")}

    def was_charged(self, run_state: Mapping[str, str]) -> bool:
        """Whether anything of a run was paid for."""
        return bool(self._standing(run_state["run"]))

    def left(self, checkpoint: Checkpoint | None = None, *, redraw: bool = True) -> list[int]:
        """Indices of the questions that are still to be drawn.

        Args:
            checkpoint: Of a run that is resumed.
            redraw: Whether those whose draw was lost are among them.
        """
        if checkpoint is None:
            return list(range(len(self.questions)))
        if self._is_noted(checkpoint):
            return []
        found = self._found(checkpoint)
        return [
            index
            for index, (_, standing, whole) in enumerate(found)
            if whole is None and (redraw or not _is_drawn(standing))
        ]

    def isolation(self, checkpoint: Checkpoint) -> Isolation | None:
        """What can be said of the model for all answers that are whole in the folder; ``None`` where none is, or where
        answers are free."""
        if not self.answers.charges:
            return None
        drawn = [json.loads(whole) for _, _, whole in self._found(checkpoint) if whole is not None]
        return weakest(Isolation(saved["isolation"]) for saved in drawn) if drawn else None

    def lost_draws(self, checkpoint: Checkpoint) -> list[int]:
        """Indices of the questions whose draw began and left nothing whole."""
        return [
            index
            for index, (_, standing, whole) in enumerate(self._found(checkpoint))
            if whole is None and _is_drawn(standing)
        ]

    def next_plan(self, left: Sequence[int]) -> AnswerPlan | None:
        """What the next answer costs, by which all that are left are priced; ``None`` where none is left."""
        if not left:
            return None
        return self.answers.plan(self._epsilon, self._delta, self.answers.public_side(self.questions[left[0]]))

    def affords(self, plan: AnswerPlan, left: Sequence[int], checkpoint: Checkpoint | None = None) -> None:
        """Raises what would be raised if all that are left were charged now; charges nothing."""
        charged = 0
        if checkpoint is not None:
            standings = [standing for _, standing, _ in self._found(checkpoint)]
            charged = sum(standings[index] is not None and not standings[index].begun for index in left)  # type: ignore[union-attr]
        lost = 0 if checkpoint is None else len(set(self.lost_draws(checkpoint)) & set(left))
        try:
            self.answers.affords(plan, len(left) - charged)
        except BudgetExhaustedError as error:
            if not lost:
                raise
            raise BudgetExhaustedError(
                f"The run was interrupted while it drew: {lost} of its answers began to be drawn and left nothing "
                "whole. A charge covers one draw, so that a new draw is charged anew; --without-lost goes on without "
                f"them. {error}",
                asked=error.asked,
                left=error.left,
                limit=error.limit,
            ) from None

    def _found(self, checkpoint: Checkpoint) -> list[tuple[Charge, Standing | None, bytes | None]]:
        """For every question its newest charge whose draw is whole in the folder, how it stands, and the draw; where
        none is whole, its newest charge.
        """
        run = checkpoint.run_state["run"]
        standings = self._standing(run)
        found = []
        for number in range(1, len(self.questions) + 1):
            charge, whole = newest_whole(
                standings, run, number, lambda one: _Place(self, checkpoint, one).whole(standings.get(one.id))
            )
            found.append((charge, standings.get(charge.id), whole))
        return found

    def _is_noted(self, checkpoint: Checkpoint) -> bool:
        """Whether the run noted what its output holds, so that nothing that costs is drawn again."""
        return self.answers.charges and checkpoint.is_finished

    def results(
        self, checkpoint: Checkpoint, *, redraw: bool = True, on_answer: Callable[[bool], None] | None = None
    ) -> Iterator[Answered]:
        """The answers, in the order of the questions; each is on the disk when it is handed over.

        Args:
            checkpoint: Where they are saved.
            redraw: Whether an answer that was cut off while it was drawn is charged again; else it is left out. Once
                the run noted its output, whether one that is missing since is refused.
            on_answer: Told of each answer when it is there, and whether it was drawn before.

        Raises:
            BudgetExhaustedError: The next one cannot be paid for; what was answered is in the folder.
            ModelError: A model failed; what was charged stands, and the run can be resumed.
            InputError: An answer of the output that was noted is missing since. Nothing was charged.
        """
        CALLED.read("on_answer", on_answer)
        is_noted = self._is_noted(checkpoint)
        before = self._standing(checkpoint.run_state["run"]).values()
        for number, (query, (charge, standing, whole)) in enumerate(
            zip(self.questions, self._found(checkpoint), strict=True), 1
        ):
            place = _Place(self, checkpoint, charge)
            saved = None if whole is None else place.released(whole, standing)
            if saved is None and (is_noted or _is_drawn(standing)):
                if (is_noted and checkpoint.is_left_out(number, "Answer", said=not redraw)) or not redraw:
                    self.left_out.append(number)
                    yield Answered(number, None, again=True)
                    continue
                place = _Place(self, checkpoint, charge.again)
            if saved is None:
                release = self._drawn(query, place, asked=self._asked(checkpoint, before))
            else:
                release = self._finished(query, place, saved)
            if on_answer is not None:
                on_answer(saved is not None)
            yield Answered(number, release, again=saved is not None)

    def _drawn(self, query: Query, place: _Place, asked: str) -> Release:
        """Charges and draws an answer, and makes it."""
        answers = self.answers
        try:
            public = answers.public_side(query)
            plan = answers.plan(self._epsilon, self._delta, public)
        except ModelError as error:
            raise ModelError(f"Question {place.charge.number}: {error}", retryable=error.retryable) from error
        except ParameterError as error:  # its public side has too little to choose from, say
            raise ParameterError(error.name, error.value, f"{error.limit} (question {place.charge.number})") from error
        drawn = answers.draw(query, plan, public, place.release_id, asked=asked, keeper=place)
        if not answers.charges:
            place.save(drawn)
        return self._release(place, drawn, plan)

    def _finished(self, query: Query, place: _Place, saved: Mapping[str, Any]) -> Release:
        """An answer that was drawn before: it is the draw that leaves."""
        try:
            drawn = self.answers.restored(query, saved)
        except _CHANGED:  # of free answers, whose seal has no key
            raise _changed(place.charge.number) from None
        plan = self.answers.plan(self._epsilon, self._delta, drawn.public)
        return self._release(place, drawn, plan)

    def _release(self, place: _Place, drawn: Drawn, plan: AnswerPlan) -> Release:
        value = place.answer()
        if value is None:
            value = self.answers.finish(drawn)
            place.keep_answer(value)
        terms = self.answers.terms(plan, drawn.isolation)
        self.last_terms = terms.under(self.last_terms.isolation) if self.last_terms else terms
        return Release(value, terms, place.release_id, self.answers.left)

    @property
    def _words(self) -> dict[str, Any]:
        words = {
            **self.answers.words,
            "epsilon": self._epsilon,
            "delta": self._delta,
            "questions": len(self.questions),
        }
        if self._fitted is not None:  # two files may hold the same examples, at different prices
            words["fitted charge"] = self._fitted.certificate.ledger
            words["fitted content"] = self._fitted.content_sha256
        return words

    def _asked(self, checkpoint: Checkpoint, standings: Collection[Standing]) -> str:
        """What every charge of a run commits to; those of an earlier build noted the isolation, too."""
        request = {**self._words, **checkpoint.run_state}
        earlier = [{**request, "isolation": isolation.value} for isolation in Isolation]
        hashes = [asked_hash(as_charged(words, standings)) for words in (request, *earlier)]
        charged = {standing.asked for standing in standings}
        return next((each for each in hashes if each in charged), hashes[0])

    def _standing(self, run: str) -> dict[str, Standing]:
        account = self.answers.account
        return account.standing(f"{run}-") if account is not None else {}

    def _hidden(self, digest: str) -> str:
        """A hash that no guess of the texts can be checked with, where a ledger has a key for that."""
        account = self.answers.account
        return digest if account is None else account.keyed("staging", digest)


@final
class _Place:
    """Where the draw of one charge, and the answer that is made of it, are saved."""

    def __init__(self, run: AnswerRun, checkpoint: Checkpoint, charge: Charge) -> None:
        self._run, self._checkpoint, self.charge = run, checkpoint, charge
        self.release_id = charge.id if run.answers.charges else f"{charge.id}-{secrets.token_hex(4)}"

    def make_room(self, size: int) -> None:
        """Whether it can be saved must not follow from what was drawn."""
        self._seal(self.charge.name, b"")
        self._checkpoint.make_room(size)

    def save(self, drawn: Drawn) -> str:
        """Saves what was drawn, and returns its hash."""
        values = {**drawn.to_json(), "release_id": self.release_id}
        content = json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        self._checkpoint.save_bytes(self.charge.name, self._seal(self.charge.name, content) + content, _LOST)
        return hashlib.sha256(content).hexdigest()

    def whole(self, standing: Standing | None) -> bytes | None:
        """What was drawn under this charge, where it is whole on the disk: under its seal, and as the ledger noted it.

        The one place that says so: what is not whole is charged again, and is named and priced before.
        """
        if self._run.answers.charges and (standing is None or not standing.begun):
            return None
        content = self._unsealed(self.charge.name)
        if content is None:
            return None
        if standing is not None and standing.left and standing.content != hashlib.sha256(content).hexdigest():
            return None
        return content

    def released(self, content: bytes, standing: Standing | None) -> dict[str, Any]:
        """What was drawn under this charge and is whole; that it leaves is noted where it was not."""
        account = self._run.answers.account
        try:
            saved = dict(json.loads(content))
            self.release_id, isolation = str(saved["release_id"]), Isolation(saved["isolation"])
        except _CHANGED:
            raise _changed(self.charge.number) from None
        if standing is not None and not standing.left and account is not None:
            digest = hashlib.sha256(content).hexdigest()
            account.mark_released([self.charge.id], {self.charge.id: digest}, isolated=isolation.holds)
        return saved

    def answer(self) -> str | None:
        """The answer that was made before, where it is whole on the disk."""
        saved = self._unsealed(self._answer)
        try:
            return None if saved is None else saved.decode("utf-8")
        except _CHANGED:
            raise _changed(self.charge.number) from None

    def keep_answer(self, value: str) -> None:
        """Saves the answer; made anew, it could be another one."""
        content = value.encode("utf-8", "replace")
        self._checkpoint.save_bytes(
            self._answer, self._seal(self._answer, content) + content, "make room and pass --resume"
        )

    @property
    def _answer(self) -> str:
        return f"{self.charge.name}-answer"

    def _unsealed(self, name: str) -> bytes | None:
        """What is saved under a name, where it is under its seal."""
        saved = self._checkpoint.found_bytes(name) or b""
        seal, content = saved[:_SEAL], saved[_SEAL:]
        return content if hmac.compare_digest(seal, self._seal(name, content)) else None

    def _seal(self, name: str, content: bytes) -> bytes:
        """What tells a file that this run saved under a name from any other, under the data set's own key."""
        drawn = f"{self.charge.run}-{name} {hashlib.sha256(content).hexdigest()}"
        return self._run._hidden(hashlib.sha256(drawn.encode("ascii")).hexdigest()).encode("ascii")


def _changed(number: int) -> InputError:
    return InputError(
        f"Answer {number} in the folder of this run was changed since it was drawn. Move the folder away and begin "
        "anew. Nothing was charged."
    )


def _is_drawn(standing: Standing | None) -> bool:
    """Whether a charge was drawn from, and may not be again."""
    return standing is not None and (standing.begun or standing.left)
