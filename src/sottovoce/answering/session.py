"""PrivateAnswers: records, task, writer, method and budget, joined so that the order of things cannot be got wrong.

For every answer: work out the public side, rehearse the draw with experts that say nothing, charge the ledger durably,
let experts write from private records, note that the draw begins, draw, save and note what leaves, and make the answer
of it.

Guarantee   A charge is drawn once. What was drawn is public from then on: the answer is made of it and of public things
            alone (``Answerer.finish``), as often as it takes and for nothing.
Assumes     Isolation of the writer and of the embedder; see ``methods/answering/answerer.py``.
Sources     specification 5.4 to 5.7, 6.5, 7; decision 0012 (one draw a charge).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import NoneType
from typing import Any, ClassVar, Final, NoReturn, Protocol, final

import numpy as np

from sottovoce.answering.pairs import size_of
from sottovoce.errors import LedgerUnavailableError, ModelError, NonPrivateError, ParameterError, SottoError
from sottovoce.experts.sampling import ALL, CELLS, SAMPLINGS, ExpertSampling
from sottovoce.experts.written import TEXTS, WrittenEnsemble, WrittenOutputs, request_of
from sottovoce.methods.answering.answerer import (
    Answerer,
    AnswerPlan,
    AnswerSetting,
    Outcome,
    PublicSide,
    make_answerer,
)
from sottovoce.methods.answering.public import ANSWERS, SHOTS, public_side
from sottovoce.methods.base import Price, Reads
from sottovoce.models.base import Embedder, FloatArray, Isolation, Writer, WritingRequest, settings_of, weakest
from sottovoce.models.failures import is_models
from sottovoce.models.registry import load_writer
from sottovoce.models.text_embedding import load_embedder
from sottovoce.parameters import AT_ONCE, Able, Kind, Number, is_several
from sottovoce.planner.long_answers import AUTO, resolve_long_answer
from sottovoce.privacy.ledger.account import require_release_id
from sottovoce.privacy.ledger.balance import SEEDED_NOTE, Balance
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.known_records import require_public
from sottovoce.privacy.ledger.ledger import Account, Ledger, Reservation
from sottovoce.privacy.ledger.opening import known_budget, open_account, require_known
from sottovoce.privacy.numbers import rounded_down
from sottovoce.privacy.scope import OF_A_TEXT, OF_A_TEXT_OF_HIDDEN_EXPERTS
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness, SystemRandomness, require_secure, source_of
from sottovoce.records.sealed import PrivateRecords, PublicRecords, Row
from sottovoce.release import Guarantee, Release
from sottovoce.tasks import AnswerExample, AnswerTask, Query

WRITER: Final = "embedded-lm"
"""The writer that is used where none is named."""
TOKENS: Final = Number(1, 4096, whole=True, strict=True)
MOST_PUBLIC: Final = Number(1, 10_000, whole=True, strict=True)
ROOM: Final = 1 << 20
"""Bytes of an outcome beside the public side that it refers to, at most."""


@final
@dataclass(frozen=True)
class Drawn:
    """What left under one charge, and the public side that it refers to. All of it is public.

    Attributes:
        outcome: What the private step released.
        public: Fixed before a record was read.
        isolation: Whether the models had been seen to keep experts apart, asked behind the private read.
    """

    outcome: Outcome
    public: PublicSide
    isolation: Isolation

    def to_json(self) -> dict[str, Any]:
        """As plain values; what the public side computes anew from them is left out."""
        return {
            "outcome": self.outcome.to_json(),
            "public": _public_values(self.public),
            "isolation": self.isolation.value,
        }


class Keeper(Protocol):
    """Where what was drawn is saved before it leaves."""

    def make_room(self, size: int) -> None:
        """Takes up so many bytes, before the draw.

        Raises:
            InputError: There is no room; nothing was drawn.
        """

    def save(self, drawn: Drawn) -> str | None:
        """Saves it whole, and returns its hash where it is on the disk."""


@final
class _InMemory:
    """Hands on what was drawn, before the ledger is asked whether it may leave."""

    def __init__(self, keep: Callable[[Drawn], None]) -> None:
        self._keep = keep

    def make_room(self, size: int) -> None:
        pass

    def save(self, drawn: Drawn) -> None:
        self._keep(drawn)


@final
@dataclass
class _Unfinished:
    """An answer that was charged and drawn here.

    Attributes:
        query: Its question.
        drawn: What was drawn.
        terms: Its guarantee.
        noted: Whether the ledger noted that it leaves.
    """

    query: Query
    drawn: Drawn
    terms: Guarantee
    noted: bool = False


@final
class PrivateAnswers:
    """Answers questions with free texts, such as summaries, from private examples and within a budget.

    Args:
        records: Sealed private records; ``None`` only for methods that read nothing private.
        task: What is asked, such as ``load_answer_task("summarize")``.
        public: Public examples, from which public experts write, and from which candidates and keywords come.
        method: An answerer or its name; by default ``auto``, which chooses by public numbers alone.
        writer: A model that writes, or its name, such as ``embedded-lm``, ``hf:NAME`` or ``openai:MODEL@BASE_URL``.
        embedder: A model that embeds, or its name, for methods that compare texts; by default ``embedded``.
        adjacency: What one change of the data is.
        budget: The data set's whole budget; needed when the ledger first meets the records.
        ledger: A ledger, its path or address, or ``":memory:"``. By default the ledger in which these records have
            their budget.
        caller: Who asks, where the owner allotted each caller a part of the budget.
        experts: How many experts write; by default as many as it takes to use every unit.
        shots: Units that an expert sees, and public examples that a public one sees; by default 4, or 1 under
            add-remove where ``experts`` is not given.
        sampling: ``all`` for one partition of the whole run, ``without-replacement`` or ``categorical`` for a fresh
            sample for every question, which amplifies; or an ``ExpertSampling``.
        rate: The chance that a unit is in a categorical sample.
        public_experts: The most experts that write from public examples.
        tokens: Most tokens of a text.
        randomness: Source of noise; anything but the operating system's is refused unless the records are synthetic.
        allow_non_private: Let methods without a guarantee answer; the ledger notes every such answer.

    Attributes:
        advice: Which method ``auto`` chose and why, in one line; empty where it was named.
        seconds_a_text: Seconds that the writer took per text of the last public side; ``None`` before the first one.

    Raises:
        InputError: Something given is not usable; nothing was charged.
        BudgetError: The ledger does not fit these records, or cannot be written.
        ModelError: A model could not be loaded.

    Example:
        >>> from sottovoce.models.fake import FakeWriter
        >>> from sottovoce.tasks import load_answer_task
        >>> rows = [Row(i, {"question": f"what of {i}?", "answer": "Ask the desk."}) for i in range(1, 41)]
        >>> answers = PrivateAnswers(
        ...     records=PrivateRecords(rows, source="notes"), task=load_answer_task("question"), method="zero-shot",
        ...     writer=FakeWriter(),
        ... )
        >>> answers.ask("what of the desk?", epsilon=1).value
        'what of the desk?'
    """

    _SHARE: ClassVar[str] = (
        "Set a share aside when the ledger is opened, such as --budget 8,1e-6,failure=5e-7, and name one answer's "
        "part, such as --delta 1e-8"
    )

    def __init__(
        self,
        *,
        records: PrivateRecords | None,
        task: AnswerTask,
        public: PublicRecords | Sequence[AnswerExample] = (),
        method: Answerer | str = AUTO,
        writer: Writer | str = WRITER,
        embedder: Embedder | str | None = None,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        budget: Budget | None = None,
        ledger: Ledger | str | None = None,
        caller: str | None = None,
        experts: int | None = None,
        shots: int | None = None,
        sampling: ExpertSampling | str = ALL,
        rate: float | None = None,
        public_experts: int = ANSWERS,
        tokens: int = 64,
        randomness: Randomness | None = None,
        allow_non_private: bool = False,
    ) -> None:
        Kind((PrivateRecords, NoneType), "records from read_private(...), or None").read("records", records)
        Kind(AnswerTask, "an AnswerTask, such as from load_answer_task(...)").read("task", task)
        Kind((Answerer, str), "a method or its name").read("method", method)
        Able("write", "a model that writes, or its name").read("model", writer)
        Kind((Budget, NoneType), "a Budget, such as Budget(8, 1e-6)").read("budget", budget)
        Kind((Ledger, str, NoneType), "a Ledger, or its path or address as a text").read("ledger", ledger)
        Kind((str, NoneType), "a name").read("caller", caller)
        source = source_of(randomness)
        self.task, self.adjacency = task, Adjacency.parse(adjacency)
        self.tokens = int(TOKENS.read("tokens", tokens))
        self.public_experts = int(MOST_PUBLIC.read("public_experts", public_experts))
        self._randomness = source
        self.sampling = _sampling_of(sampling, experts, shots, rate, self.adjacency)
        self._public = _examples_of(public, task)
        self.advice = ""
        if method == AUTO:
            chosen = resolve_long_answer(questions=1, public=len(self._public), has_records=records is not None)
            method, self.advice = chosen.method, str(chosen)
        self.method = make_answerer(method) if isinstance(method, str) else method
        self._records = self._usable(records, allow_non_private)
        self._unfinished: dict[str, _Unfinished] = {}
        AnswerSetting(self.adjacency, self.sampling, self._units)  # refuses what has no guarantee, before a model loads
        self.writer = load_writer(writer) if isinstance(writer, str) else writer
        self.embedder = self._embedder(embedder)
        self._ensemble: WrittenEnsemble | None = None
        self._requires_public()
        if self._records is not None:
            self._ensemble = WrittenEnsemble(
                self._records,
                task,
                self.writer,
                self.sampling,
                self.adjacency,
                tokens=self.tokens,
                randomness=self._randomness,
                embedder=self.embedder,
                together=self.method.reads is Reads.EVERYTHING,
            )
        self._opening = (budget, ledger, caller)
        known = known_budget(self._records, self.adjacency, ledger) if self._records is not None else None
        self._budget = known or budget
        self._worked_out: tuple[Query, PublicSide] | None = None
        self.seconds_a_text: float | None = None

    def __repr__(self) -> str:
        return f"PrivateAnswers(method={self.method.name!r}, model={self.writer.name!r}, {self.adjacency.value})"

    @cached_property
    def account(self) -> Account | None:
        """What is charged: the data set in its ledger, without its records; ``None`` where none is read.

        Opened where it is first needed: a price that is only looked at settles no budget.

        Raises:
            BudgetError: The ledger does not fit these records, or cannot be used.
        """
        if self._records is None:
            return None
        return open_account(self._records, self.adjacency, *self._opening)

    def require_known(self) -> None:
        """Refuses to resume a run of records that the ledger does not know: no budget is settled for them then.

        Raises:
            InputError: There is no such ledger.
            BudgetError: It does not fit these records, or cannot be used.
        """
        if self._records is not None:
            _, ledger, caller = self._opening
            require_known(self._records, self.adjacency, ledger, caller)

    @property
    def balance(self) -> Balance | None:
        """How the ledger stands; ``None`` where no private record is used."""
        return self.account.balance() if self.account else None

    @property
    def left(self) -> Balance | None:
        """How the ledger stands behind an answer that left; ``None`` also where it cannot be read."""
        try:
            return self.balance
        except LedgerUnavailableError:
            return None

    @property
    def conflicting_ledger(self) -> str | None:
        """Path of another ledger that these records have on this machine: its budget adds to this one's."""
        return self.account.conflicting_ledger if self.account else None

    @property
    def ledger(self) -> Ledger | None:
        """The ledger that is charged."""
        return Ledger.of(self.account) if self.account else None

    @property
    def fingerprint(self) -> str | None:
        """Of the records; a guess of them can be checked with it, so it may leave the trusted machine under a key."""
        return self._records.fingerprint if self._records else None

    @property
    def charges(self) -> bool:
        """Whether answers are charged to a ledger: they read private records, and have a guarantee."""
        return self._records is not None and self.method.private

    @property
    def budget(self) -> Budget:
        """The data set's whole budget; where nothing private is read, a budget that is never charged."""
        if self._records is None:
            return Budget(1, 1e-6)
        if self._budget is not None:
            return self._budget
        return self.account.balance().budget  # type: ignore[union-attr]

    @property
    def experts(self) -> int | None:
        """How many experts write; ``None`` where their number is private, and without records."""
        if self._records is None:
            return None
        return 1 if self.method.reads is Reads.EVERYTHING else self.sampling.count(self.adjacency, self._units)

    @property
    def texts_an_answer(self) -> int | None:
        """About how many texts are written for one answer; ``None`` where the number of experts is private."""
        if self._records is None:
            return self._public_texts_an_answer + 1
        return None if self.experts is None else self._public_texts_an_answer + self.experts + 2

    @property
    def _public_texts_an_answer(self) -> int:
        return 1 + self._public_groups

    @property
    def _public_groups(self) -> int:
        """Groups of public examples that an answer is written after: one each, or one in all where the method compares
        none of them."""
        if not self._public or not self.method.least_candidates:
            return min(1, len(self._public))
        return min(self.public_experts, max(1, len(self._public) // self.sampling.shots))

    @property
    def reads_by_coins(self) -> bool:
        """Whether random choices among the records decide what experts read: then a failure to read depends on them."""
        return self.sampling.is_fresh or self.sampling.experts is not None or self.sampling.shots > 1

    def question(self, question: str | Query) -> Query:
        """The fields of a question, as the task has them.

        Raises:
            InputError: A field is missing or empty, or a text was given for several fields.
        """
        Kind((str, Mapping), "a text, or a mapping of the task's fields").read("question", question)
        if isinstance(question, Mapping):
            return self.task.query_of(Row(1, question), "the question")
        if len(self.task.fields) != 1:
            raise ParameterError("question", "a text", f"a mapping with the fields {', '.join(self.task.fields)}")
        if not question.strip():
            raise ParameterError("question", question, "a text that is not empty")
        return self.task.query_of(Row(1, {self.task.fields[0]: question}), "the question")

    def ask(
        self, question: str | Query, *, epsilon: float, delta: float | None = None, release_id: str | None = None
    ) -> Release:
        """Answers one question.

        Args:
            question: A text, or the fields that the task's template names.
            epsilon: Price of the answer.
            delta: Of the answer, for methods that need one; by default the budget's.
            release_id: A name for the answer that is the caller's own. Asking again under the same name, after a
                failure before the draw, is not charged again; where coins decide what experts read
                (``reads_by_coins``) the draw begins before the read. If an answer was drawn but not finished, it is
                finished now, and not drawn again.

        Raises:
            BudgetExhaustedError: It cannot be paid for; nothing was charged and nothing private read.
            LedgerMismatchError: The release id was used before.
            LedgerUnavailableError: The ledger cannot be used any more. Where an answer was drawn, the message has its
                release id.
            ModelError: A model failed; the message says whether something was charged. Where an answer was drawn and
                could not be finished, the error has its ``release_id``.
        """
        query, account = self.question(question), self.account
        name = secrets.token_hex(16) if release_id is None else require_release_id(release_id)
        again = f"Ask the same question of this object again with release_id={name!r}"
        kept = self._unfinished.get(name)
        try:
            if kept is None or kept.query != query:
                kept = self._drawn_for(query, name, epsilon, delta)
            elif not kept.noted and account is not None:
                self._note_left(account, name, kept)
        except LedgerUnavailableError as error:
            kept = self._unfinished.get(name)
            if kept is None or kept.query != query:
                raise
            raise LedgerUnavailableError(f"{error} The answer was drawn and is kept. {again}.") from error
        try:
            value = self.finish(kept.drawn)
        except ModelError as error:
            raise ModelError(f"{error} {again}.", retryable=error.retryable, release_id=name) from error
        release = Release(value, kept.terms, name, self.left)
        del self._unfinished[name]
        return release

    def _note_left(self, account: Account, name: str, kept: _Unfinished) -> None:
        """Notes that an answer leaves where that failed behind its draw. It may have been noted then: its draw began
        here, so that nobody else drew under its charge.
        """
        standing = account.standing(name).get(name)
        if standing is None or not standing.left:
            account.mark_released([name], isolated=kept.drawn.isolation.holds)
        kept.noted = True

    def _drawn_for(self, query: Query, name: str, epsilon: float, delta: float | None) -> _Unfinished:
        """Charges and draws an answer. It is kept until it is finished, also where the ledger fails behind the draw."""
        public = self.public_side(query)
        plan = self.plan(epsilon, delta, public)

        def keep(drawn: Drawn) -> None:
            self._unfinished[name] = _Unfinished(query, drawn, self.terms(plan, drawn.isolation))

        keeper = _InMemory(keep) if self.reads_by_coins else None  # else the ledger is asked before the draw alone
        drawn = self.draw(query, plan, public, name, keeper=keeper)
        if name not in self._unfinished or self._unfinished[name].drawn is not drawn:
            keep(drawn)
        self._unfinished[name].noted = True
        return self._unfinished[name]

    def answers(
        self, questions: Iterable[str | Query], *, epsilon: float, delta: float | None = None
    ) -> Iterator[Release]:
        """Answers questions one after another, each charged by itself and at the same price.

        Raises:
            BudgetExhaustedError: The next one cannot be paid for; earlier answers stand.
        """
        if not is_several(questions):
            raise ParameterError("questions", type(questions), "several questions, such as a list of texts")
        for question in questions:
            yield self.ask(question, epsilon=epsilon, delta=delta)

    @property
    def unfinished(self) -> dict[str, Query]:
        """Answers that were charged and drawn but not finished here: their release ids, with their questions."""
        return {name: kept.query for name, kept in self._unfinished.items()}

    # Before the charge

    def public_side(self, query: Query) -> PublicSide:
        """The public side of a question: the texts written without any record, their vectors and keywords.

        Raises:
            ModelError: A model fails on public input, or writes nothing for the question. Nothing was charged.
        """
        if self._worked_out is None or self._worked_out[0] != query:
            started = time.perf_counter()
            side = self._before_the_charge(self._public_side(query))
            self.seconds_a_text = (time.perf_counter() - started) / self._public_texts_an_answer
            self._worked_out = query, side
        return self._worked_out[1]

    def require_room_for_shots(self, query: Query) -> None:
        """Refuses a question that the writer does not answer after all of the public examples, or not at all.

        Raises:
            ModelError: It does not. Nothing was charged.
        """
        shots = [self.task.shot(example) for example in self._public]
        requests = [request_of(self.task, query, shown) for shown in ((), shots)]
        texts = self._before_the_charge(lambda: self._write(requests))
        if not any(texts):
            self._before_the_charge(self._refuse_silence)
        if texts[-1] is None:
            longest = self.writer.longest
            room = (
                "" if longest is None else f", and the model reads {longest} tokens, with the {self.tokens} it writes"
            )
            raise ModelError(
                f"The model {self.writer.name} wrote nothing for the question after {len(shots)} public examples, the "
                f"longest ones that could be chosen ({size_of(shots)} bytes together{room}). Leave the longest public "
                "examples out, choose fewer (-o k=1), write fewer --tokens, shorten the question, or use another "
                "model. Nothing was charged for it."
            )

    def _refuse_silence(self) -> NoReturn:
        where = "alone or after public examples" if self._public else "without any example"
        raise ModelError(
            f"The model {self.writer.name} wrote nothing for a question, {where}. Shorten the question, or use "
            "another model."
        )

    def _public_side(self, query: Query) -> Callable[[], PublicSide]:
        def work() -> PublicSide:
            side = public_side(
                self.task,
                query,
                write=self._write,
                pool=[self.task.shot(example) for example in self._public],
                answers=max(1, self._public_groups),
                shots=self.sampling.shots,
                embedder=self.embedder,
            )
            if self._ensemble is None and not side.candidates:
                if side.zero_shot and self.embedder is not None:
                    raise ModelError(
                        f"The model {self.embedder.name} embedded no public answer to a question. Use another embedder."
                    )
                self._refuse_silence()
            if side.zero_shot is None and self._ensemble is not None:
                raise ModelError(
                    f"The model {self.writer.name} wrote nothing for a question without any private example. Whether "
                    "it still does is looked at behind the private read. Shorten the question, or use another model.",
                )
            return side

        return work

    def plan(self, epsilon: float, delta: float | None, public: PublicSide) -> AnswerPlan:
        """What one answer costs with this public side, from public numbers alone.

        Raises:
            ParameterError: No parameter meets the price, or something is missing that the method needs.
        """
        setting = AnswerSetting(
            self.adjacency,
            self.sampling,
            self._units,
            dimension=self.embedder.dimension if self.embedder is not None else 0,
            candidates=len(public.candidates),
            keywords=len(public.universe),
            adds_epsilons=self.budget.currency == "epsilon",
            unit=self._records.unit if self._records else "record",
        )
        return self.method.plan(Price(epsilon, self._delta if delta is None else delta), setting)

    def price_of(self, plan: AnswerPlan) -> Price:
        """The stated price of one answer: delta is 0 where the guarantee is pure."""
        return Price(plan.epsilon, plan.report.delta)

    def affords(self, plan: AnswerPlan, count: int) -> None:
        """Raises what would be raised if so many answers were asked now; charges nothing."""
        AT_ONCE.read("count", count)
        if self.account is not None and self.charges and count:
            self.account.check_again(plan.charge, count)

    # The charge, and behind it

    def draw(
        self,
        query: Query,
        plan: AnswerPlan,
        public: PublicSide,
        release_id: str,
        *,
        asked: str | None = None,
        keeper: Keeper | None = None,
    ) -> Drawn:
        """Charges, reads and draws: the private part of one answer, once for every charge.

        Args:
            query: The question.
            plan: From ``plan``.
            public: From ``public_side``.
            release_id: Names the charge.
            asked: The hash of the request that it is a charge of.
            keeper: Where it is saved before it leaves.

        Raises:
            BudgetExhaustedError: It cannot be paid for; nothing was charged and nothing read.
            InputError: Its draw refuses a public setting; nothing was charged.
            ModelError: The writer failed for a reason that no single expert caused; the charge stands.
        """
        account, ensemble = self.account, self._ensemble
        if account is None or ensemble is None:
            return Drawn(self.method.draw(plan.setting, None, public, self._randomness), public, self.isolation)
        room = 2 * len(json.dumps(_public_values(public))) + ROOM
        if not self.method.private:
            account.record_non_private([release_id], self._note(plan))
            outputs = ensemble.ask(query, public.zero_shot)
            account.mark_released([release_id])
            return self._drawn(plan, outputs, public)
        self._rehearse(plan, ensemble, public)
        reservation = Reservation(release_id, plan.charge, self._note(plan), asked)
        account.reserve([reservation])
        begin = partial(self._begin, account, release_id, keeper, room)
        if self.reads_by_coins:  # read again, the records would be dealt out by other coins
            begin()
        outputs = ensemble.ask(query, public.zero_shot)
        at_once = keeper is None and not self.reads_by_coins
        if at_once:  # one entry for both: nothing is saved in between
            account.mark_released([release_id], isolated=self.isolation.holds)
        elif not self.reads_by_coins:
            begin()
        drawn = self._drawn(plan, outputs, public)
        if not at_once:
            hash_ = None if keeper is None else keeper.save(drawn)
            saved = None if hash_ is None else {release_id: hash_}
            account.mark_released([release_id], saved, isolated=drawn.isolation.holds)
        return drawn

    def finish(self, drawn: Drawn) -> str:
        """Makes the answer from the drawn outcome and public inputs alone. It may be called again.

        Raises:
            ModelError: The writer failed on public input. What was drawn stands.
        """
        try:
            return self.method.finish(drawn.outcome, drawn.public)
        except BaseException as error:
            if not is_models(error):
                raise
            failure = str(error) if isinstance(error, ModelError) else type(error).__name__
            raise ModelError(
                f"The model {self.writer.name} failed on public input, behind the draw: {failure}. The charge stands; "
                "what was drawn is kept, and an answer that is made of it later costs nothing more.",
                retryable=True,
            ) from error

    def restored(self, query: Query, saved: Mapping[str, Any]) -> Drawn:
        """What ``Drawn.to_json`` gave, with the public side computed anew from its texts.

        Raises:
            ValueError: It is not what that gave.
        """
        public = saved["public"]
        texts = {name: [str(text) for text in public[name]] for name in ("candidates", "universe")}
        shots = tuple((str(shown), str(answer)) for shown, answer in public["shots"])
        zero_shot = public["zero_shot"]
        if not isinstance(zero_shot, str | None):
            raise ValueError
        side = PublicSide(
            request=partial(request_of, self.task, query),
            zero_shot=zero_shot,
            candidates=tuple(texts["candidates"]),
            vectors=self._vectors(texts["candidates"]),
            universe=tuple(texts["universe"]),
            shots=shots,
            write=self._write,
        )
        return Drawn(Outcome.from_json(saved["outcome"]), side, Isolation(saved["isolation"]))

    def terms(self, plan: AnswerPlan, isolation: Isolation | None = None) -> Guarantee:
        """The guarantee of an answer.

        Args:
            plan: Of the answer.
            isolation: As it was when the answer was drawn; by default as it is now.
        """
        reads = self._records is not None
        return Guarantee(
            method=type(self.method),
            event=plan.charge,
            price=self.price_of(plan) if self.charges else Price(1.0),
            adjacency=self.adjacency,
            unit=self._records.unit if self._records else "record",
            units_per_expert=self.sampling.shots,
            change=plan.setting.change if reads else None,
            isolation=isolation or self.isolation,
            seeded=not self._randomness.secure,
            prompts=self._prompts(plan.setting),
            public=OF_A_TEXT if plan.setting.experts is not None else OF_A_TEXT_OF_HIDDEN_EXPERTS,
            host=str(getattr(getattr(self.writer, "server", None), "host", "")),
        )

    @property
    def words(self) -> dict[str, Any]:
        """The public settings that identify a run's request, without the price."""
        return {
            "method": self.method.name,
            **{f"method's {name}": value for name, value in self.method.options.items()},
            "adjacency": self.adjacency.value,
            "unit": self._records.unit if self._records else None,
            **(self._records.reading.words if self._records else {}),
            "sampling": self.sampling.sampling,
            "experts": self.sampling.experts,
            "shots": self.sampling.shots,
            "rate": self.sampling.rate,
            "public_experts": self.public_experts,
            "tokens": self.tokens,
            "model": self.writer.name,
            **settings_of(self.writer),
            "embedder": self.embedder.embedding if self.embedder is not None else None,
            "seeded": not self._randomness.secure,
            "task": repr(self.task),
        }

    @property
    def public_texts(self) -> list[list[str]]:
        """The public examples, as (input, answer)."""
        return [list(self.task.shot(example)) for example in self._public]

    def _begin(self, account: Account, release_id: str, keeper: Keeper | None, room: int) -> None:
        """Notes that the draw begins. What can fail for public reasons comes before it."""
        if keeper is not None:
            keeper.make_room(room)
        account.begin([release_id])

    def _rehearse(self, plan: AnswerPlan, ensemble: WrittenEnsemble, public: PublicSide) -> None:
        """Draws without a record, of experts that say nothing, and forgets it: what a draw refuses for public reasons
        is refused before the charge. Its coins are not those of the draw."""
        self._before_the_charge(lambda: ensemble.rehearse(public.candidates[:2]))
        plan.answerer.draw(plan.setting, ensemble.silent(), public, SystemRandomness())

    def _drawn(self, plan: AnswerPlan, outputs: WrittenOutputs, public: PublicSide) -> Drawn:
        outcome = plan.answerer.draw(plan.setting, outputs, public, self._randomness)
        return Drawn(outcome, public, self.isolation)

    @property
    def _units(self) -> int | None:
        """Number of units, where it is public."""
        if self._records is None or not self.adjacency.size_is_public:
            return None
        return len(self._records)

    @property
    def isolation(self) -> Isolation:
        """Of the models that see private text: the writer, and the embedder of what experts wrote."""
        return weakest(model.isolation for model in (self.writer, self.embedder) if model is not None)

    @property
    def _delta(self) -> float:
        """Delta of one answer where none was named: the budget's, which a fresh sample does not spend.

        A method that needs none then has a pure price.
        """
        budget = self.budget
        if self._records is None or self.sampling.rate_of(self._units) is None:
            return budget.delta
        if not self.method.needs_delta:
            return 0.0
        raise ParameterError(
            "delta",
            None,
            "given: with a fresh sample for every question each answer spends its delta from the budget's share for "
            f"failures, here {rounded_down(budget.failure_delta)}. {self._SHARE}",
        )

    def _note(self, plan: AnswerPlan) -> str:
        note = f"{self.method.name}, {self.writer.name}, change {plan.setting.change.name}"
        if not self.method.private:
            return note
        return note if self._randomness.secure else f"{note}, {SEEDED_NOTE}"

    def _prompts(self, setting: AnswerSetting) -> str:
        """What experts' prompts hold, in words."""
        if self.method.reads is not Reads.ONE_EXPERT_EACH or self._records is None:
            return "all records in one prompt" if self.method.reads is Reads.EVERYTHING else "no record in a prompt"
        k, sampled = setting.sampling.shots, setting.sampling.is_fresh
        at_most = "at most " if sampled and setting.sampling.rate is not None else ""
        words = f"{at_most}{k} unit{'s' * (k > 1)} an expert"
        if setting.experts is not None:
            words += f", {setting.experts} experts"
        return f"{words}, a fresh sample for every answer" if sampled else words

    def _usable(self, records: PrivateRecords | None, allow_non_private: bool) -> PrivateRecords | None:
        if self.method.reads is Reads.NOTHING:
            return None
        if records is None:
            limit = f"given: the method {self.method.name!r} answers from private records"
            raise ParameterError("records", None, limit)
        if not self.method.private and not allow_non_private:
            raise NonPrivateError(
                f"The method {self.method.name!r} has no privacy guarantee and is refused on a ledger. If these "
                "records may be given away, pass --allow-non-private; the ledger records every such answer permanently."
            )
        require_secure(self._randomness, synthetic=records.synthetic)
        return records.with_public_size() if self.adjacency.size_is_public else records

    def _requires_public(self) -> None:
        """Refuses what is missing or not used, and private records that are given as public examples."""
        alone = self.method.reads in (Reads.NOTHING, Reads.EVERYTHING) and "pool" not in self.method.needs
        if alone and self._public:
            limit = f"left out: the method {self.method.name!r} shows no public example"
            raise ParameterError("public", f"{len(self._public)} examples", limit)
        if "pool" in self.method.needs and not self._public:
            limit = f"given: the method {self.method.name!r} needs public examples"
            raise ParameterError("public", None, limit)
        rows = [{**example.fields, self.task.output_field: example.answer} for example in self._public]
        require_public(rows, "the public examples", beside=self._records)
        least, shots = self.method.least_candidates, self.sampling.shots
        if self._public_texts_an_answer >= least or not self._public:
            return
        compared = f"the method {self.method.name!r} compares {least} answers or more, one of them without examples"
        if self.public_experts < least - 1:
            raise ParameterError("public_experts", self.public_experts, f"at least {least - 1}: {compared}")
        limit = f"at least {(least - 1) * shots} examples, or fewer shots: {compared}, the others after {shots} each"
        raise ParameterError("public", len(self._public), limit)

    def _embedder(self, embedder: Embedder | str | None) -> Embedder | None:
        if "Embedder" not in self.method.needs:
            if embedder is not None:
                name = embedder if isinstance(embedder, str) else getattr(embedder, "name", type(embedder))
                limit = f"left out: the method {self.method.name!r} compares no vectors"
                raise ParameterError("embedder", name, limit)
            return None
        found: object = load_embedder(embedder or "embedded") if isinstance(embedder, str | None) else embedder
        if not isinstance(found, Embedder):
            raise ParameterError("embedder", getattr(found, "name", found), "a model that embeds, such as embedded")
        return found

    def _write(self, requests: Sequence[WritingRequest]) -> list[str | None]:
        return list(self.writer.write(requests, tokens=self.tokens))

    def _vectors(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of public texts, shape (texts, dimension)."""
        if self.embedder is None or not texts:
            return np.empty((len(texts), 0 if self.embedder is None else self.embedder.dimension))
        return np.array(self.embedder.embed_questions(TEXTS, [{"text": text} for text in texts]))

    def _before_the_charge(self, work: Callable[[], Any]) -> Any:
        """Lets a model work on public input; what fails here fails before a charge."""
        try:
            return work()
        except ModelError as error:
            raise ModelError(f"{error} Nothing was charged for it.", retryable=error.retryable) from error
        except SottoError:
            raise
        except BaseException as error:
            if not is_models(error):
                raise
            raise ModelError(
                f"The model {self.writer.name} failed on public input ({type(error).__name__}). Nothing was charged "
                "for it."
            ) from error


def _public_values(public: PublicSide) -> dict[str, Any]:
    return {
        "zero_shot": public.zero_shot,
        "candidates": list(public.candidates),
        "universe": list(public.universe),
        "shots": [list(shot) for shot in public.shots],
    }


def _sampling_of(
    sampling: ExpertSampling | str,
    experts: int | None,
    shots: int | None,
    rate: float | None,
    adjacency: Adjacency,
) -> ExpertSampling:
    if not isinstance(sampling, ExpertSampling):
        Kind(str, "the name of a sampling").read("sampling", sampling)
        if shots is None:
            shots = SHOTS if adjacency.size_is_public or experts is not None else 1
        sampling = ExpertSampling(shots=shots, experts=experts, sampling=sampling, rate=rate)
    if sampling.sampling == CELLS:
        limit = f"one of {', '.join(SAMPLINGS)}: no clustering is charged here whose cells experts could be given"
        raise ParameterError("sampling", CELLS, f"{limit} ('WrittenEnsemble.place' is for those who charge one)")
    return sampling


def _examples_of(public: PublicRecords | Sequence[AnswerExample], task: AnswerTask) -> list[AnswerExample]:
    if isinstance(public, PublicRecords):
        return [task.example_of(row, public.source) for row in public]
    Kind(Sequence, "public records, or a list of examples from AnswerTask.example_of").read("public", public)
    for example in public:
        Kind(AnswerExample, "a list of examples from AnswerTask.example_of").read("public", example)
    return list(public)
