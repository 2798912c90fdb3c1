"""PrivateICL: records, task, model, method and budget, joined so that the order of things cannot be got wrong.

For every answer: charge the ledger durably, read the private records, note the release durably, draw, hand it out. A
crash in between leaves the charge standing, and nothing is drawn twice under one charge.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import NoneType
from typing import Any, ClassVar, Self, final

import numpy as np

from sottovoce.deprecated import renamed
from sottovoce.errors import LedgerUnavailableError, ModelError, NonPrivateError, ParameterError, SottoError
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import ExpertOutputs, calibrated
from sottovoce.experts.partition import Partition
from sottovoce.experts.reading import bare_scores, of_shape, same_bits
from sottovoce.experts.subsample import SampledEnsemble
from sottovoce.methods.base import Method, Price, Reads, Subsampling, make_method
from sottovoce.methods.references import Demonstrations
from sottovoce.models.base import FloatArray, LabelScorer, PreparedContexts, require_suited
from sottovoce.models.failures import free, is_models
from sottovoce.models.registry import load_scorer
from sottovoce.parameters import AT_ONCE, Able, Kind, is_several
from sottovoce.planner.answering import AUTO, resolve_answering
from sottovoce.privacy.accounting.amplification import Sampling, SharedSample
from sottovoce.privacy.ledger.balance import SEEDED_NOTE, Balance
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.known_records import require_public
from sottovoce.privacy.ledger.ledger import Account, Ledger, Reservation, require_release_id
from sottovoce.privacy.ledger.opening import open_account
from sottovoce.privacy.numbers import rounded_down
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, ChangeType
from sottovoce.randomness import Randomness, require_secure, source_of
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.release import RELEASE_ID_BYTES, Guarantee, Release
from sottovoce.tasks import Example, Query, Task

BATCH = 32
"""Questions charged and read together: what an interruption can cost at most."""


@final
class PrivateICL:
    """Answers questions from private examples, within a budget. As a context manager it is closed at the end.

    Args:
        records: Sealed private records; ``None`` only for methods that read nothing private.
        task: Labels and templates.
        method: A method or its name; by default ``auto``, which chooses by public numbers alone.
        model: A model or its name, such as ``embedded`` or ``hf:Qwen/Qwen3-4B``.
        adjacency: What one change of the data is; replace-one unless said otherwise.
        budget: The data set's whole budget; needed when the ledger first meets the records.
        ledger: A ledger, its path or address, or ``":memory:"``. By default one is kept in the user's data folder by
            fingerprint.
        caller: Who asks, where the owner allotted each caller a part of the budget; charged beside the data set.
        partition: How units are assigned to experts.
        demonstrations: Examples that anybody may see, for the method ``demonstrations``.
        calibrate: Contextual calibration: subtract each prompt's own mean scores of content-free questions from its
            scores. Costs no epsilon. It helps language models, which often repeat the label of an example.
        randomness: Source of noise; anything but the operating system's is refused unless the records are synthetic.
        allow_non_private: Let methods without a guarantee answer; the ledger notes every such answer.

    Raises:
        InputError: Something given is not usable; nothing was charged.
        BudgetError: The ledger does not fit these records, or cannot be written.
        ModelError: The model could not be loaded.

    Example:
        >>> from sottovoce.models.fake import FakeScorer
        >>> from sottovoce.records.sealed import PrivateRecords, Row
        >>> rows = [Row(i, {"text": f"note {i}", "label": "billing"}) for i in range(20)]
        >>> icl = PrivateICL(
        ...     records=PrivateRecords(rows, source="notes"),
        ...     task=Task(labels=["billing", "fraud"]),
        ...     method="poe",
        ...     model=FakeScorer(),
        ...     budget=Budget(epsilon=8, delta=1e-6),
        ...     ledger=":memory:",
        ... )
        >>> release = icl.ask("My card was charged twice.", epsilon=1)
        >>> release.remaining.answers
        1
    """

    _SHARE: ClassVar[str] = (
        "Set a share aside when the ledger is opened, such as --budget 8,1e-6,failure=5e-7, and name one answer's "
        "part, such as --delta 1e-9"
    )

    def __init__(
        self,
        *,
        records: PrivateRecords | None,
        task: Task,
        method: Method | str = AUTO,
        model: LabelScorer | str = "embedded",
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        budget: Budget | None = None,
        ledger: Ledger | str | None = None,
        caller: str | None = None,
        partition: Partition | None = None,
        demonstrations: Sequence[Example] = (),
        calibrate: bool = False,
        randomness: Randomness | None = None,
        allow_non_private: bool = False,
    ) -> None:
        Kind((PrivateRecords, NoneType), "records from read_private(...), or None").read("records", records)
        Kind(Task, "a Task, such as from load_task(...)").read("task", task)
        Kind((Method, str), "a method or its name").read("method", method)
        Able("prepare", "a model that scores labels, or its name").read("model", model)
        Kind((Budget, NoneType), "a Budget, such as Budget(8, 1e-6)").read("budget", budget)
        Kind((Ledger, str, NoneType), "a Ledger, or its path or address as a text").read("ledger", ledger)
        Kind((str, NoneType), "a name").read("caller", caller)
        Kind((Partition, NoneType), "a Partition").read("partition", partition)
        Kind(bool, "True or False").read("calibrate", calibrate)
        source = source_of(randomness)
        Kind(Sequence, "a list of examples from Task.example_of").read("demonstrations", demonstrations)
        for example in demonstrations:
            Kind(Example, "a list of examples from Task.example_of").read("demonstrations", example)
        self.task = task
        self.adjacency = Adjacency.parse(adjacency)
        if method == AUTO:
            sized = records is not None and self.adjacency.size_is_public
            method = resolve_answering(
                labels=len(task.labels),
                units=len(records.with_public_size()) if records is not None and sized else None,
                adjacency=self.adjacency,
                model=model if isinstance(model, str) else model.name,
            ).method
        self.method = make_method(method) if isinstance(method, str) else method
        if bool(demonstrations) != isinstance(self.method, Demonstrations):
            value = f"{len(demonstrations)} with the method {self.method.name!r}"
            raise ParameterError("demonstrations", value, "given with the method 'demonstrations', and with it alone")
        self._shown = tuple(demonstrations)
        require_public([{**shown.fields, "label": task.labels[shown.label]} for shown in self._shown], "demonstrations")
        self.calibrate = calibrate or (isinstance(self.method, Demonstrations) and self.method.calibrate)
        self._empty = task.content_free_queries() if self.calibrate else []
        self.partition = partition or Partition()
        self._randomness = source
        self._public: PreparedContexts | None = None
        self._records = self._usable(records, allow_non_private)
        change = self._rule()
        self.model = load_scorer(model) if isinstance(model, str) else model
        require_suited(task, self.model)
        if self.calibrate and getattr(self.model, "reads", None) == "numbers":
            limit = f"left out: the model {self.model.name} reads numbers, of which none are free of content"
            raise ParameterError("calibrate", True, limit)
        self._change = change if self._records else None
        self._ensemble: Ensemble | SampledEnsemble | None = None
        self._account: Account | None = None
        if self._records is not None:
            self._ensemble = self._experts(self._records)
            if budget and self.method.can_fail and not budget.failure_delta:
                raise ParameterError("budget", budget, f"one with a share for failures. {self._SHARE}")
            self._account = open_account(self._records, self.adjacency, budget, ledger, caller)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PrivateICL(method={self.method.name!r}, model={self.model.name!r}, {self.adjacency.value})"

    @property
    def public_experts(self) -> int | None:
        """How many experts there are; ``None`` without records, and where their number is private."""
        if self._records is None or not self.adjacency.size_is_public:
            return None
        return -(-len(self._records.with_public_size()) // self.partition.units_per_expert)

    @property
    def balance(self) -> Balance | None:
        """How the ledger stands; ``None`` where no private record is used."""
        return self._account.balance() if self._account else None

    @property
    def _left(self) -> Balance | None:
        """How the ledger stands behind answers that left; ``None`` also where it cannot be read."""
        try:
            return self.balance
        except LedgerUnavailableError:
            return None

    @property
    def conflicting_ledger(self) -> str | None:
        """Path of another ledger that these records have on this machine: its budget adds to this one's."""
        return self._account.conflicting_ledger if self._account else None

    other_ledger = renamed("other_ledger", "conflicting_ledger")

    @property
    def ledger(self) -> Ledger | None:
        """The ledger that is charged."""
        return Ledger.of(self._account) if self._account else None

    @property
    def demonstrations(self) -> Sequence[Example]:
        """The examples that anybody may see."""
        return self._shown

    @property
    def origin(self) -> Mapping[str, str]:
        """Identifies these records and their ledger; empty where nothing private is read.

        A guess of the records can be checked with it: it must not leave the trusted machine unless it is keyed.
        """
        if self._records is None or self._account is None:
            return {}
        return {"records": self._records.fingerprint, "ledger": self._account.origin}

    @property
    def reading(self) -> Mapping[str, Any]:
        """How the records were read, in public words; empty where nothing private is read."""
        return {} if self._records is None else self._records.reading.words

    def terms(self, epsilon: float, delta: float | None = None) -> Guarantee:
        """The guarantee of one answer at this price, from parameters alone.

        Args:
            epsilon: Of one answer.
            delta: Of one answer, for methods that need one; by default the budget's.
        """
        budget = self._account.balance().budget if self._account else Budget(1, 1e-6)
        price = Price(epsilon, self._delta(budget) if delta is None else delta)
        return Guarantee(
            method=type(self.method),
            event=self.method.event(price, self.adjacency),
            price=price,
            adjacency=self.adjacency,
            unit=self._records.unit if self._records else "record",
            units_per_expert=None if isinstance(self.method, Subsampling) else self.partition.units_per_expert,
            change=self._change,
            isolation=self.model.isolation,
            seeded=not self._randomness.secure,
        )

    def ask(
        self, question: str | Query, *, epsilon: float, delta: float | None = None, release_id: str | None = None
    ) -> Release:
        """Answers one question.

        Args:
            question: A text, or the fields that the task's template names.
            epsilon: Price of the answer.
            delta: Of the answer, for methods that need one; by default the budget's.
            release_id: A name for the answer that is the caller's own. Asking again under the same name, after a crash
                before the draw, is not charged again. Once the draw has begun the name is used up, whatever happened to
                the answer. Where random choices among the records decide what the model reads (samples, a capacity,
                several units per expert), it is used up as soon as it is charged.

        Raises:
            BudgetExhaustedError: It cannot be paid for; nothing was charged and no model was asked.
            LedgerMismatchError: The release id was used before, or another process released its answer first.
        """
        ids = None if release_id is None else [require_release_id(release_id)]
        return next(self._batches([question], epsilon, delta, ids))[0]

    def classify(
        self, questions: Iterable[str | Query], *, epsilon: float, delta: float | None = None
    ) -> Iterator[Release]:
        """Answers questions one after another, each at the same price, charged in small batches as they come.

        Raises:
            BudgetExhaustedError: The next batch cannot be paid for; earlier answers stand.
        """
        for batch in self.batches(questions, epsilon=epsilon, delta=delta):
            yield from batch

    def batches(
        self, questions: Iterable[str | Query], *, epsilon: float, delta: float | None = None
    ) -> Iterator[list[Release]]:
        """As ``classify``, but yields answers that were charged together as one list: no paid answer is lost."""
        return self._batches(questions, epsilon, delta, None)

    def affords(self, count: int, *, epsilon: float, delta: float | None = None) -> None:
        """Raises what would be raised if ``count`` answers were asked now; charges nothing."""
        AT_ONCE.read("count", count)
        terms = self.terms(epsilon, delta)
        if self._account and self.method.private:
            self._account.check_again(terms.event, count)

    def _delta(self, budget: Budget) -> float:
        """Delta of one answer where none was named."""
        if not self.method.can_fail:
            return budget.delta
        raise ParameterError(
            "delta",
            None,
            f"given: with {self.method.name!r} each answer spends its delta from the budget's share for failures, "
            f"here {rounded_down(budget.failure_delta)}. {self._SHARE}",
        )

    def close(self) -> None:
        """Frees the model's caches of private prompts."""
        public, self._public = self._public, None
        free(*(kept for kept in (self._ensemble, public) if kept))

    def _rule(self) -> ChangeType:
        """How one change of the data can change the prompts, from parameters alone."""
        if not isinstance(self.method, Subsampling):
            return self.partition.rule(self.adjacency)[1]
        for name, usual in (("units_per_expert", 1), ("capacity", None)):
            if (value := getattr(self.partition, name)) != usual:
                raise ParameterError(name, value, f"left out: the prompts of {self.method.name!r} hold random samples")
        SharedSample(
            Sampling.POISSON, self.adjacency, change=SWAP, grouped=True, rate=self.method.sampling_probability
        )  # refuses an adjacency for which there is no amplification
        return SWAP

    def _experts(self, records: PrivateRecords) -> Ensemble | SampledEnsemble:
        if isinstance(self.method, Subsampling):
            return SampledEnsemble(
                records,
                self.task,
                self.model,
                self.adjacency,
                sampling_probability=self.method.sampling_probability,
                subsamples=self.method.subsamples,
                randomness=self._randomness,
                max_records=self.partition.max_records,
                content_free=self._empty,
            )
        together = self.method.reads is Reads.EVERYTHING
        return Ensemble(
            records, self.task, self.model, self.partition, self.adjacency, together=together, content_free=self._empty
        )

    def _usable(self, records: PrivateRecords | None, allow_non_private: bool) -> PrivateRecords | None:
        if self.method.reads is Reads.NOTHING:
            return None
        if records is None:
            raise ParameterError(
                "records", None, f"given: the method {self.method.name!r} answers from private records"
            )
        if not self.method.private and not allow_non_private:
            raise NonPrivateError(
                f"The method {self.method.name!r} has no privacy guarantee and is refused on a ledger. If these "
                "records may be given away, pass --allow-non-private; the ledger records every such answer permanently."
            )
        require_secure(self._randomness, synthetic=records.synthetic)
        return records.with_public_size() if self.adjacency.size_is_public else records

    def _batches(
        self, questions: Iterable[str | Query], epsilon: float, delta: float | None, release_ids: list[str] | None
    ) -> Iterator[list[Release]]:
        self.terms(epsilon, delta)
        if not is_several(questions):
            raise ParameterError("questions", type(questions), "several questions, such as a list of texts")
        waiting = iter(questions)
        while batch := [self._fields(question) for question in islice(waiting, BATCH)]:
            terms = self.terms(epsilon, delta)
            ids = release_ids or [secrets.token_hex(RELEASE_ID_BYTES) for _ in batch]
            if self._account and self.method.private and self.method.reads is not Reads.NOTHING:
                self._account.check(self._reservations(ids, terms))
            yield self._answer(batch, ids, terms, self._rehearse(batch))

    def _fields(self, question: str | Query) -> Query:
        Kind((str, Mapping), "a text, or a mapping of the task's fields").read("question", question)
        if isinstance(question, Mapping):
            return self.task.query_of(Row(1, question), "the question")
        if len(self.task.fields) != 1:
            raise ParameterError("question", "a text", f"a mapping with the fields {', '.join(self.task.fields)}")
        if not question.strip():
            raise ParameterError("question", question, "a text that is not empty")
        return self.task.query_of(Row(1, {self.task.fields[0]: question}), "the question")

    def _answer(
        self, batch: Sequence[Query], ids: Sequence[str], terms: Guarantee, public: FloatArray
    ) -> list[Release]:
        if self._account is None or self._ensemble is None:
            outputs = [ExpertOutputs(rows, DROP, self.adjacency) for rows in calibrated(public, len(self._empty))]
        else:
            self._charge(self._account, ids, terms)
            outputs = self._ensemble.ask(batch, public[:, 0])
            terms = replace(terms, isolation=self.model.isolation)  # what was seen while records were read counts
        if self._account:  # before the draw: whatever comes then, no second one is made under this charge
            self._account.mark_released(ids, isolated=terms.isolation.holds)
        values = [self.method.choose(output, terms.price, self._randomness) for output in outputs]
        balance = self._left
        return [
            Release(self.task.labels[value], terms, release_id, balance)
            for release_id, value in zip(ids, values, strict=True)
        ]

    def _charge(self, account: Account, ids: Sequence[str], terms: Guarantee) -> None:
        if self.method.private:
            account.reserve(self._reservations(ids, terms), allow_retry=not self._draws_to_read)
        else:
            account.record_non_private(ids, self._note(terms))

    @property
    def _draws_to_read(self) -> bool:
        """Whether coins over the records decide what the model reads: then a failure to read follows from them."""
        return isinstance(self.method, Subsampling) or self.partition.is_random

    def _reservations(self, ids: Sequence[str], terms: Guarantee) -> list[Reservation]:
        note = self._note(terms)
        note += f", {SEEDED_NOTE}" if terms.seeded else ""
        return [Reservation(release_id, terms.event, note) for release_id in ids]

    def _note(self, terms: Guarantee) -> str:
        return f"{self.method.name}, {self.model.name}, change {terms.change.name if terms.change else 'none'}"

    def _rehearse(self, batch: Sequence[Query]) -> FloatArray:
        """The model's answers from public input alone to the questions and then to the content-free ones, shape
        (questions, 1, labels): what fails for everybody fails before a charge, and some methods compare with it."""
        asked = [*batch, *self._empty]
        scores = self._without_examples(lambda: self._score_without_examples(asked))
        if not np.isfinite(scores).all():
            raise ModelError(
                f"The model {self.model.name} gave numbers that are not finite for a question without any private "
                "example, or the question (with its demonstrations) is too long for it or its picture cannot be read. "
                "Nothing was charged for it. Shorten the question, show fewer demonstrations, check the model's "
                "weights, or try --dtype float32."
            )
        if self._ensemble is not None:
            again = self._without_examples(lambda: bare_scores(self.model, self.task, asked))
            if not same_bits(again, scores[:, 0]):
                raise ModelError(
                    f"The model {self.model.name} gave other numbers where it was asked a question without any private "
                    "example once more. Whether it still gives the same is looked at after every private read, bit by "
                    "bit, so that it cannot be used. Nothing was charged. Run it where it repeats itself, such as with "
                    "--device cpu."
                )
        return scores

    def _score_without_examples(self, batch: Sequence[Query]) -> FloatArray:
        if self._public is None:
            self._public = self.model.prepare(self.task, [self._shown])
        return of_shape(self._public.score(batch), (len(batch), 1, len(self.task.labels)))

    def _without_examples(self, work: Callable[[], FloatArray]) -> FloatArray:
        """Lets the model work on public input; what fails here fails before a charge."""
        try:
            return work()
        except SottoError:
            raise
        except BaseException as error:
            if not is_models(error):
                raise
            raise ModelError(
                f"The model {self.model.name} failed on a question without any example ({type(error).__name__}). "
                "Nothing was charged for it."
            ) from error
