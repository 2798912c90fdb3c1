"""Synthesis: private records become rows that anybody may see, paid for once under a total epsilon and delta.

For every run: rehearse on public prompts, charge every round durably, let the model read the private prompts, and write
round after round. A round is one text from every batch. It is put aside whole, noted in the ledger, then handed over,
so that an interrupted run goes on without a second charge and without a second draw of anything that left, or that
could be seen before it left.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from sottovoce.certificate import Certificate, Said, rows_hash
from sottovoce.errors import ModelError, ParameterError, SottoError
from sottovoce.experts.batches import Batches
from sottovoce.methods.base import Price
from sottovoce.methods.decoding import Decoder, make_decoder
from sottovoce.methods.decoding_text import Text
from sottovoce.models.catalog import load_stepper
from sottovoce.models.stepping import Group, Prompt, Stepper
from sottovoce.privacy.budget import Budget
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger import Account, Ledger, Reservation
from sottovoce.privacy.ledger_balance import Balance
from sottovoce.privacy.ledger_opening import open_account
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness, SystemRandomness, require_secure
from sottovoce.records import PrivateRecords
from sottovoce.staging import Staging
from sottovoce.synthesis_order import Order, plan_of, room_of, terms_of
from sottovoce.tasks import Task
from sottovoce.writing import Writing

if TYPE_CHECKING:
    from sottovoce.models.grammar import Grammar


@final
@dataclass(frozen=True)
class Round:
    """Texts that left together, one from every batch.

    Attributes:
        number: From 1.
        rows: Those that can be read as rows: the fields and ``label``.
        unreadable: Texts that were blank or, for several fields, no JSON object. They are paid for like others.
        tokens: Tokens written.
        again: Whether they left before, in the part of the run that was interrupted.
    """

    number: int
    rows: Sequence[Mapping[str, Any]]
    unreadable: int
    tokens: int
    again: bool


@final
class Synthesizer:
    """Writes synthetic rows from private ones, within a budget.

    Args:
        records: Sealed private records.
        writing: Labels and fields, and how a text is shown and asked for; a task stands for ``Writing.of(task)``.
        order: How many texts of what kind.
        epsilon: Of the whole run.
        delta: Of the whole run.
        method: A decoding method or its name, such as ``invisible-ink`` or ``prism``.
        model: A model that gives next-token scores, or its name.
        adjacency: What one change of the data is.
        budget: The data set's whole budget; needed when the ledger first meets the records.
        ledger: A ledger, its path or address, or ``":memory:"``.
        caller: Who asks, where the owner allotted each caller a part of the budget.
        randomness: Source of noise; anything but the operating system's is refused unless the records are synthetic.

    Attributes:
        plan: What the run costs, by batch; settled here, before anything is read.
        labels: For each text of a round the index of its label.

    Raises:
        InputError: Something given is not usable; nothing was charged.
        BudgetError: The ledger does not fit these records, or cannot be written.
        ModelError: The model could not be loaded.

    Example:
        >>> from sottovoce.models.fake_stepper import FakeStepper
        >>> from sottovoce.records import Row
        >>> rows = [Row(i, {"text": "a fee", "label": "billing"}) for i in range(40)]
        >>> writer = Synthesizer(
        ...     PrivateRecords(rows, source="notes"), Task(labels=["billing", "fraud"]), Order(per_label=1, tokens=8),
        ...     epsilon=4, delta=1e-6, model=FakeStepper(), budget=Budget(8, 1e-6), ledger=":memory:",
        ... )
        >>> [only] = writer.rounds()
        >>> len(only.rows) + only.unreadable
        2
    """

    def __init__(
        self,
        records: PrivateRecords,
        writing: Writing | Task,
        order: Order,
        *,
        epsilon: float,
        delta: float,
        method: Decoder | str = "invisible-ink",
        model: Stepper | str = "embedded",
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        budget: Budget | None = None,
        ledger: Ledger | str | None = None,
        caller: str | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.adjacency = Adjacency.parse(adjacency)
        self.order, self.writing = order, writing if isinstance(writing, Writing) else Writing.of(writing)
        self._randomness = randomness or SystemRandomness()
        require_secure(self._randomness, synthetic=records.synthetic)
        self._records = records.with_public_size() if self.adjacency.size_is_public else records
        self.unit = self._records.unit
        decoder = make_decoder(method) if isinstance(method, str) else method
        self.plan = plan_of(decoder, order, Price(epsilon, delta), self.adjacency, self.unit, self._expected(order))
        self._batches = Batches(
            self._records,
            self.writing,
            per_label=order.batches_per_label,
            adjacency=self.adjacency,
            max_records=order.max_records,
            randomness=self._randomness,
        )
        self.labels = self._batches.labels
        self.model = load_stepper(model) if isinstance(model, str) else model
        self._account: Account = open_account(self._records, self.adjacency, budget, ledger, caller)

    def __repr__(self) -> str:
        return f"Synthesizer(method={self.plan.decoder.name!r}, model={self.model.name!r}, {self.adjacency.value})"

    @property
    def ledger(self) -> Ledger:
        """The ledger that is charged."""
        return self._account.ledger

    @property
    def balance(self) -> Balance:
        """How it stands."""
        return self._account.balance()

    @property
    def other_ledger(self) -> str | None:
        """Path of another ledger that these records have on this machine: its budget adds to this one's."""
        return self._account.other_ledger

    @property
    def terms(self) -> dict[str, Any]:
        """What a resumed run must have in common with the one that was interrupted."""
        return {
            **terms_of(self.plan, self.order, self.writing),
            "unit": self.unit,
            "model": self.model.name,
            "isolation": self.model.isolation.value,
            "seeded": not self._randomness.secure,
            "caller": self._account.caller,
            "data": hashlib.sha256(b"sottovoce staging" + self._records.fingerprint.encode("ascii")).hexdigest(),
            "ledger": self._account.origin,
        }

    def fresh(self) -> dict[str, str]:
        """What a new run remembers: its id, and a key that ties its certificate to the data for the ledger's owner."""
        return {"run": secrets.token_hex(8), "key": secrets.token_hex(16)}

    def was_charged(self, kept: Mapping[str, str]) -> bool:
        """Whether anything of a run was paid for."""
        return bool(self._account.charged([self._id(kept, number) for number in range(1, self._charges + 1)]))

    def affords(self) -> None:
        """Raises what would be raised if the run began now; charges nothing."""
        self._account.check(self._reservations(self.fresh(), range(1, self._charges + 1)))

    def rounds(
        self,
        staging: Staging | None = None,
        *,
        kept: Mapping[str, str] | None = None,
        on_token: Callable[[int], None] | None = None,
    ) -> Iterator[Round]:
        """Writes the texts.

        Args:
            staging: Where rounds are put aside; without it a crash loses what was not handed over yet.
            kept: From ``fresh``, where there is no staging.
            on_token: Told how much further the run is, in tokens of texts at their longest, each time that a charge has
                left and not before. Whoever saw that a text still goes on, and then interrupted the run, would have
                seen a draw that is made again.

        Raises:
            BudgetExhaustedError: The run cannot be paid for; nothing was charged and the model read nothing private.
            ModelError: The model failed. What was charged stands, and a staged run can be resumed.
        """
        kept = dict(staging.kept) if staging else dict(kept or self.fresh())
        numbers = range(1, self._charges + 1)
        waiting: list[int] = []
        ids = [self._id(kept, number) for number in numbers]
        left, charged = self._account.released(ids), self._account.charged(ids)
        for number, one in zip(numbers, ids, strict=True):
            texts: Sequence[Mapping[str, Any]] | None
            if one in left:
                texts = staging.get(number, _aside_of(left[one])) if staging else None
            else:
                texts = self._noted(staging, number, one) if staging and one in charged else None
                if texts is None:
                    waiting.append(number)
            if texts is not None:
                yield from self._unfolded(number, texts, again=True)
        if not waiting:
            return
        self._rehearse()
        self._account.reserve(self._reservations(kept, waiting))
        drawn = self._withheld(self._written(waiting))
        for _ in waiting:
            if staging:  # before each draw: whether it can be put aside must not follow from it
                staging.make_room(room_of(self.order, self.writing, self._texts_of_a_charge))
            number, texts = next(drawn)
            aside = staging.put(number, texts) if staging else _hash_of(texts)
            self._note(self._id(kept, number), texts, aside)
            if on_token is not None:
                on_token(self._tokens_of_a_charge)
            yield from self._unfolded(number, texts, again=False)

    def certificate(self, kept: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Certificate:
        """What can be said of the rows that left, for whoever uses them."""
        data = hmac.new(bytes.fromhex(kept["key"]), self._records.fingerprint.encode("ascii"), hashlib.sha256)
        return Certificate.of(
            self.plan,
            labels=self.writing.labels,
            order=self.order,
            unit=self.unit,
            model=self.model.name,
            isolation=self.model.isolation,
            seeded=not self._randomness.secure,
            data=data.hexdigest(),
            ledger=[self._id(kept, number) for number in range(1, self._charges + 1)],
            rows=rows,
        )

    # What is charged

    @property
    def _charges(self) -> int:
        """Rounds that are charged one by one; a plan that is charged as a whole is one."""
        return self.order.rounds if self.plan.decoder.refundable else 1

    @property
    def _event(self) -> DpEvent:
        if not self.plan.decoder.refundable:
            return self.plan.event
        return self.plan.decoder.event(replace(self.plan.setting, texts=1))

    @property
    def _texts_of_a_charge(self) -> int:
        return (1 if self.plan.decoder.refundable else self.order.rounds) * len(self.labels)

    @property
    def _tokens_of_a_charge(self) -> int:
        """Tokens of all its texts at their longest."""
        return self._texts_of_a_charge * self.order.tokens

    def _reservations(self, kept: Mapping[str, str], numbers: Sequence[int] | range) -> list[Reservation]:
        s, holds = self.plan.setting, self.model.isolation.holds
        said = Said(
            self.plan.decoder.name, self.model.name, s.change.name, s.tokens, not self._randomness.secure, holds
        )
        note = said.note(kept["key"])
        return [Reservation(self._id(kept, number), self._event, note) for number in numbers]

    @staticmethod
    def _id(kept: Mapping[str, str], number: int) -> str:
        return f"{kept['run']}-{number}"

    def _expected(self, order: Order) -> int:
        """s: given, or the public number of units shared out over all batches."""
        if order.experts is not None:
            return order.experts
        if not self.adjacency.size_is_public:
            raise ParameterError(
                "experts",
                None,
                "given under add-remove (--experts): the number of units is private there, so name the number that a "
                "batch may be expected to have, such as last year's",
            )
        return max(1, len(self._records) // (len(self.writing.labels) * order.batches_per_label))

    # What is written

    def _rehearse(self) -> None:
        """Draws the first token of every label from public prompts alone: what fails for everybody fails here."""
        public = [
            Group(Prompt(self.writing.opening(label), "", self.writing.lead), ()) for label in self.writing.labels
        ]
        try:
            read = self.model.read(public, inside_tokens=self.order.inside_tokens, tokens=self.order.tokens)
            try:
                for step in read.write(range(len(public)), 1).step(dict.fromkeys(range(len(public)))):
                    self._text(SystemRandomness()).next(step)
            finally:
                read.close()
        except SottoError:
            raise
        except Exception as error:
            raise ModelError(
                f"The model {self.model.name} failed on public prompts ({type(error).__name__}). Nothing was charged."
            ) from error

    def _noted(self, staging: Staging, number: int, one: str) -> Sequence[Mapping[str, Any]] | None:
        """A charge that is whole on the disk and was not noted: it was drawn, so it is the draw that leaves."""
        found = staging.found(number)
        rounds = 1 if self.plan.decoder.refundable else self.order.rounds
        wanted = [self.writing.labels[label] for label in self.labels] * rounds
        if found is None or not _are_texts(found[0], wanted):
            return None
        texts, aside = found
        self._note(one, texts, aside)
        return texts

    def _note(self, one: str, texts: Sequence[Mapping[str, Any]], aside: str) -> None:
        """Notes that a charge leaves: the hash of what was put aside, and of the rows that it becomes."""
        rows = [row for found in self._unfolded(1, texts, again=False) for row in found.rows]
        self._account.mark_released([one], {one: f"{aside} {rows_hash(rows)}"})

    @cached_property
    def _grammar(self) -> Grammar | None:
        """Compiled and tried out where it is first needed, which is the rehearsal."""
        if self.writing.schema is None or not self.writing.grammar:
            return None
        from sottovoce.models.grammar import Grammar

        return Grammar(self.writing.schema, self.model)

    def _text(self, randomness: Randomness) -> Text:
        ends, unwritable = self.model.ends, self.model.unwritable
        chooser = self.plan.decoder.start(self.plan, randomness, ends=ends, unwritable=unwritable)
        matcher = self._grammar.start() if self._grammar else None
        return Text(chooser, lambda tokens: self.writing.ended(self._text_of(tokens)), matcher)

    def _written(self, numbers: Sequence[int]) -> Iterator[tuple[int, list[Any]]]:
        """Number and texts of every charge, as soon as it is whole. This is the private read."""
        read = self.model.read(self._batches.groups(), inside_tokens=self.order.inside_tokens, tokens=self.order.tokens)
        try:
            for number in numbers:
                rounds = 1 if self.plan.decoder.refundable else self.order.rounds
                texts = [text for _ in range(rounds) for text in self._texts(read)]
                yield number, texts
        finally:
            read.close()

    def _texts(self, read: Any) -> list[dict[str, Any]]:
        """One text from every batch, side by side."""
        texts = [self._text(self._randomness) for _ in self.labels]
        decoding = read.write(range(len(self.labels)), self.order.tokens)
        try:
            waiting: dict[int, int | None] = dict.fromkeys(range(len(self.labels)))
            while waiting:
                following: dict[int, int | None] = {}
                for step in decoding.step(waiting):
                    token = texts[step.text].next(step)
                    if token is not None:
                        following[step.text] = token
                waiting = following
        finally:
            decoding.close()
        return [
            {"label": self.writing.labels[label], "written": self._text_of(its.tokens), "tokens": len(its.tokens)}
            for label, its in zip(self.labels, texts, strict=True)
        ]

    def _text_of(self, tokens: Sequence[int]) -> str:
        return self.model.decode([token for token in tokens if token not in self.model.ends])

    def _withheld(self, written: Iterator[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
        """Passes rounds on; what the model says of a failure stays here, for it could quote a record or its own room,
        which follows from how many records there are.
        """
        while True:
            failure = ""
            try:
                found = next(written, None)
            except Exception as error:
                failure = type(error).__name__
            if failure:
                raise ModelError(
                    f"The model {self.model.name} failed while it read private examples ({failure}). Its message is "
                    "withheld, since it could tell of them. What was charged stands; repeat the run with --resume, "
                    "where memory may be short on a larger machine."
                )
            if found is None:
                return
            yield found

    def _unfolded(self, number: int, texts: Sequence[Mapping[str, Any]], *, again: bool) -> Iterator[Round]:
        """The rounds of one charge."""
        for start in range(0, len(texts), len(self.labels)):
            its = texts[start : start + len(self.labels)]
            read = [self.writing.row_of(text["written"], text["label"]) for text in its]
            rows = [row for row in read if row is not None]
            yield Round(
                number + start // len(self.labels), rows, len(its) - len(rows), sum(t["tokens"] for t in its), again
            )


def _hash_of(texts: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.sha256(repr(texts).encode()).hexdigest()


def _aside_of(content: str | None) -> str | None:
    """Of what is noted of a charge, the hash of what was put aside."""
    return content.partition(" ")[0] if content else None


def _are_texts(found: Sequence[Any], labels: Sequence[str]) -> bool:
    """Whether a file holds what a charge is: a text for every batch, with its label."""
    return len(found) == len(labels) and all(
        isinstance(text, dict)
        and text.get("label") == label
        and isinstance(text.get("written"), str)
        and isinstance(text.get("tokens"), int)
        for text, label in zip(found, labels, strict=True)
    )
