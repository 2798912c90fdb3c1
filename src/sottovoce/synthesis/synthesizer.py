"""Synthesis: private records become rows that anybody may see, paid for once under a total epsilon and delta.

For every run: rehearse on public prompts, charge every round durably, let the model read the private prompts, and write
round after round. A round is one text from every batch. That its draw begins is noted in the ledger first; then it is
drawn, saved whole, noted as leaving, and handed over.

Guarantee   A charge is drawn once. Nothing that a draw runs into fails after the charge (``decoding_text``), and where
            a run is cut off all the same, a round that began and is not saved whole is drawn under a new charge.
Sources     Decisions 0008 (rounds) and 0012 (one draw a charge).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from sottovoce.deprecated import old_arguments, renamed
from sottovoce.errors import (
    BudgetExhaustedError,
    InputError,
    LostDrawError,
    ModelError,
    ParameterError,
    SottoError,
)
from sottovoce.experts.batches import Batches
from sottovoce.files.checkpoint import CERTIFICATE, Checkpoint, naming_folder
from sottovoce.files.requests import is_compared
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Decoder, make_decoder
from sottovoce.models.base import Isolation, settings_of
from sottovoce.models.failures import bare_order, free, is_models
from sottovoce.models.registry import load_stepper
from sottovoce.models.stepper import Group, Prompt, Stepper
from sottovoce.parameters import CALLED, Able, Kind
from sottovoce.privacy.checks import asked_hash, canonical
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.account import Standing
from sottovoce.privacy.ledger.balance import Balance
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Account, Ledger, Reservation
from sottovoce.privacy.ledger.opening import open_account
from sottovoce.privacy.ledger.run_charges import Charge, as_charged, attempts, newest_whole
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness, SystemRandomness, require_secure, source_of
from sottovoce.records.readers import read_written
from sottovoce.records.sealed import PrivateRecords
from sottovoce.synthesis.certificate import MIXED, Certificate, LedgerNote, rows_hash, was_mixed
from sottovoce.synthesis.config import SynthesisConfig, plan_of, plan_of_charges, restated, room_of, terms_of
from sottovoce.synthesis.text import Text
from sottovoce.tasks import Task

if TYPE_CHECKING:
    from sottovoce.models.grammar import Grammar
    from sottovoce.models.stepper import ReadPrompts

T = TypeVar("T")
_OF_ONE_RUN: Final = ("version", "run", "charges")
"""Words of a request that no other run of the same command has."""
_ABSENT: Final = {"absent": True}
"""Stands for a word that one of two requests lacks."""


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
        writing: Labels and fields, and how a text is shown and asked for; or a task.
        order: How many texts, and of what kind.
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
        left_out: Numbers of rounds whose draw was lost, or is not whole in the folder any more, and that were left out.

    Raises:
        InputError: Something given is not usable; nothing was charged.
        BudgetError: The ledger does not fit these records, or cannot be written.
        ModelError: The model could not be loaded.

    Example:
        >>> from sottovoce.models.fake import FakeStepper
        >>> from sottovoce.records.sealed import Row
        >>> rows = [Row(i, {"text": "a fee", "label": "billing"}) for i in range(40)]
        >>> writer = Synthesizer(
        ...     PrivateRecords(rows, source="notes"), Task(labels=["billing", "fraud"]),
        ...     SynthesisConfig(per_label=1, tokens=8),
        ...     epsilon=4, delta=1e-6, model=FakeStepper(), budget=Budget(8, 1e-6), ledger=":memory:",
        ... )
        >>> [only] = writer.rounds()
        >>> len(only.rows) + only.unreadable
        2
    """

    def __init__(
        self,
        records: PrivateRecords,
        writing: GenerationTemplate | Task,
        order: SynthesisConfig,
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
        Kind(PrivateRecords, "records from read_private(...)").read("records", records)
        Kind((GenerationTemplate, Task), "a Task or a GenerationTemplate").read("task", writing)
        Kind(SynthesisConfig, "a SynthesisConfig").read("order", order)
        Kind((Decoder, str), "a decoding method or its name").read("method", method)
        Able("read", "a model that writes, or its name").read("model", model)
        Kind((Budget, NoneType), "a Budget, such as Budget(8, 1e-6)").read("budget", budget)
        Kind((Ledger, str, NoneType), "a Ledger, or its path or address as a text").read("ledger", ledger)
        self.adjacency = Adjacency.parse(adjacency)
        self.order, self.writing = (
            order,
            writing if isinstance(writing, GenerationTemplate) else GenerationTemplate.of(writing),
        )
        self.left_out: list[int] = []
        self._randomness = source_of(randomness)
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
        return Ledger.of(self._account)

    @property
    def balance(self) -> Balance:
        """How it stands."""
        return self._account.balance()

    @property
    def conflicting_ledger(self) -> str | None:
        """Path of another ledger that these records have on this machine: its budget adds to this one's."""
        return self._account.conflicting_ledger

    @property
    def terms(self) -> dict[str, Any]:
        """What a resumed run must have in common with the one that was interrupted."""
        return {
            **self._words,
            "caller": self._account.caller,
            "records and ledger": self._account.keyed("staging", self._records.fingerprint),
        }

    def terms_beside(self, begun: Mapping[str, Any], run_state: Mapping[str, str]) -> dict[str, Any]:
        """The terms of a run that goes on, whose price is stated as it was charged.

        Another processor may have rounded it in another way. The ledger alone says so: what a folder notes can be
        edited, and a run that was not charged yet is charged what it costs here.

        Args:
            begun: Terms that the run noted; empty for a new one.
            run_state: What it remembers.
        """
        here, self.plan = self.plan, restated(self.plan, begun.get("epsilon"))
        standings = self._standing(run_state).values()
        request = self._request(run_state)
        settled = [{**request, "isolation": isolation.value} for isolation in Isolation]  # as it was settled
        hashes = {asked_hash(as_charged(words, standings)) for words in settled}
        if not standings or any(standing.asked not in hashes for standing in standings):
            self.plan = here
        return self.terms

    def new_run_state(self) -> dict[str, str]:
        """What a new run remembers: its id, and the version of sottovoce that is charged for it."""
        return {"run": secrets.token_hex(8), "version": version("sottovoce")}

    other_ledger = renamed("other_ledger", "conflicting_ledger")
    fresh = renamed("fresh", "new_run_state")

    def was_charged(self, run_state: Mapping[str, str]) -> bool:
        """Whether anything of a run was paid for."""
        return bool(self._standing(run_state))

    def affords(self) -> None:
        """Raises what would be raised if the run began now; charges nothing."""
        run_state = self.new_run_state()
        self._account.check(
            self._reservations(self._request(run_state), [Charge(run_state["run"], number) for number in self._numbers])
        )

    @old_arguments(staging="checkpoint", kept="run_state")
    def rounds(
        self,
        checkpoint: Checkpoint | None = None,
        *,
        run_state: Mapping[str, str] | None = None,
        on_token: Callable[[int], None] | None = None,
        redraw: bool = True,
    ) -> Iterator[Round]:
        """Writes the texts.

        Args:
            checkpoint: Where rounds are saved; without it a crash loses what was not released yet.
            run_state: From ``new_run_state``, where there is no checkpoint.
            on_token: Called with the progress since the last call, in tokens of texts at their longest, each time that
                the texts of a charge were released, and not before.
            redraw: Whether rounds that were cut off while they were drawn are charged again and drawn anew; else they
                are left out, and so are those that were released and are missing from the folder. Once the run noted
                what its output holds, what was left out stays so.

        Raises:
            BudgetExhaustedError: The run cannot be paid for, or what an interruption lost cannot be charged again;
                nothing was charged and the model read nothing private.
            ModelError: The model failed. What was charged stands, and a run with a checkpoint can be resumed.
            InputError: The run was charged for another request, for example because the model's isolation differs here;
                or a round that was released is missing from the folder, and ``redraw`` is set. Nothing more was
                charged.
        """
        CALLED.read("on_token", on_token)
        run_state = dict(checkpoint.run_state) if checkpoint else dict(run_state or self.new_run_state())
        standings = self._standing(run_state)
        waiting: list[Charge] = []
        for number in self._numbers:
            last, texts = newest_whole(
                standings, run_state["run"], number, lambda one: self._found(checkpoint, one, standings.get(one.id))
            )
            standing = standings.get(last.id)
            if texts is not None:
                yield from self._unfolded(number, texts, again=True)
            elif checkpoint is not None and checkpoint.is_left_out(number, "Round", said=not redraw):
                self.left_out.append(number)
            elif standing is not None and standing.left:
                if checkpoint is not None:
                    self._leave_out(checkpoint, number, redraw=redraw)
            elif standing is None or not standing.begun:
                waiting.append(last)
            elif redraw:
                waiting.append(last.again)
            else:
                self.left_out.append(number)
        self._rehearse(
            "Nothing more was charged." if standings else "Nothing was charged."
        )  # also where nothing is left to draw: what the model keeps apart here is settled by it
        self._require_charged_for(run_state, standings)
        if not waiting:
            return
        self._charge(self._request(run_state, standings), waiting)
        for charge, texts in self._written(checkpoint, waiting):
            saved = checkpoint.save(charge.name, texts) if checkpoint else _hash_of(texts)
            self._note(charge, texts, saved)
            if on_token is not None:
                on_token(self._tokens_of_a_charge)
            yield from self._unfolded(charge.number, texts, again=False)

    def certificate(self, run_state: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Certificate:
        """The certificate of the rows that were released, for those who use them. It covers every charge of the run.

        Raises:
            InputError: The charges are for another request than this one, the model was seen to mix prompts when
                texts left, or nothing was charged at all.
        """
        standings, run = self._standing(run_state), run_state["run"]
        if not standings:
            raise InputError(f"Nothing was charged for the run {run!r}, so that nothing can be certified of it.")
        self._require_charged_for(run_state, standings)
        charges = [charge for number in self._numbers for charge in attempts(standings, run, number)]
        return Certificate.of(
            plan_of_charges(self.plan, len(charges) - self._charges),
            labels=self.writing.labels,
            unit=self.unit,
            model=self.model.name,
            isolation=self.model.isolation,
            seeded=not self._randomness.secure,
            data=self._account.data_hash(run, self._records.fingerprint),
            ledger=[charge.id for charge in charges],
            rows=rows,
            asked=self._request(run_state, standings),
        )

    def require_own(self, certificate: Certificate, rows: Sequence[Mapping[str, Any]], source: str) -> None:
        """Refuses what another run left: its request must be this one, and its rows, its charges and its records those
        of the ledger. Nothing is charged.

        Args:
            certificate: What a run left beside its rows.
            rows: Its rows.
            source: Their name, for the error.

        Raises:
            InputError: It was written from other records, with other settings, under another ledger or caller, or it
                was changed since.
            ModelError: What the model keeps apart here had to be settled, and it failed.
        """
        differs = self._differing(certificate)
        if differs == ["isolation"]:  # a model's own tests may have settled it, behind the first words of that run
            self._rehearse("Nothing was charged.")
            differs = self._differing(certificate)
        if not differs:
            broken = certificate.broken(rows, self.ledger, self._records)
            differs = [f"what was written ({check.what}: {check.told})" for check in broken]
        if not differs and any(
            standing.caller != self._account.caller for standing in self._standing(certificate.asked).values()
        ):
            differs = ["caller"]
        if differs:
            raise InputError(
                f"{source} differs from what this command writes in: {', '.join(differs)}. Repeat the command that "
                "wrote it, or name another --out. Nothing was charged."
            )

    def _differing(self, certificate: Certificate) -> list[str]:
        """The words of a request that are others than here."""
        if not certificate.asked:
            return ["the request, which its certificate does not say"]
        plan = restated(self.plan, certificate.asked.get("epsilon"))  # the ledger says whether that was charged
        own = {**self._words, **terms_of(plan, self.order, self.writing)}
        names = [*own, *(name for name in certificate.asked if name not in {*own, *_OF_ONE_RUN})]
        return [
            name
            for name in names
            if is_compared(name, certificate.asked, own)
            and canonical(certificate.asked.get(name, _ABSENT)) != canonical(own.get(name, _ABSENT))
        ]

    # What is charged

    @property
    def _words(self) -> dict[str, Any]:
        """What is asked for, in public words."""
        return {
            **terms_of(self.plan, self.order, self.writing),
            "unit": self.unit,
            **self._records.reading.words,
            "model": self.model.name,
            **settings_of(self.model),
            "isolation": self.model.isolation.value,
            "seeded": not self._randomness.secure,
        }

    def _request(self, run_state: Mapping[str, str], standings: Mapping[str, Standing] | None = None) -> dict[str, Any]:
        """The whole request, which every charge commits to: a certificate is for all of it or for nothing."""
        request = {**self._words, "version": run_state["version"], "run": run_state["run"], "charges": self._charges}
        return as_charged(request, (standings or {}).values())

    def _require_charged_for(self, run_state: Mapping[str, str], standings: Mapping[str, Standing]) -> None:
        """Refuses to go on with charges of another request, whose certificate would be for none of them."""
        request_hash = asked_hash(self._request(run_state, standings))
        if any(standing.asked != request_hash for standing in standings.values()):
            raise InputError(
                f"The run was charged for another request than this one, of which the model {self.model.name!r} says "
                f"here: {self.model.isolation.value}. Repeat its command on the machine, and with the versions, that "
                "it began with. Nothing more was charged."
            )
        if self.model.isolation.holds and any(was_mixed(standing.content) for standing in standings.values()):
            raise InputError(
                f"When texts of the run left, the model {self.model.name!r} had been seen to mix prompts over the "
                "private ones, and there is no guarantee for them. Nothing more was charged. Begin a new run, with a "
                "model that keeps prompts apart."
            )

    def _standing(self, run_state: Mapping[str, str]) -> dict[str, Standing]:
        """Every charge of a run by its id."""
        return self._account.standing(f"{run_state['run']}-")

    @property
    def _numbers(self) -> range:
        return range(1, self._charges + 1)

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

    def _reservations(self, request: Mapping[str, Any], charges: Sequence[Charge]) -> list[Reservation]:
        s, holds = self.plan.setting, self.model.isolation.holds
        note = LedgerNote(
            self.plan.decoder.name, self.model.name, s.change.name, s.tokens, not self._randomness.secure, holds
        )
        request_hash = asked_hash(request)
        return [Reservation(charge.id, self._event, note.note, request_hash) for charge in charges]

    def _charge(self, request: Mapping[str, Any], waiting: Sequence[Charge]) -> None:
        """Charges what is to be drawn, all of it or nothing; what is charged and did not begin is not charged again."""
        lost = sum(charge.attempt > 1 for charge in waiting)
        try:
            self._account.reserve(self._reservations(request, waiting))
        except BudgetExhaustedError as error:
            if not lost:
                raise
            raise BudgetExhaustedError(
                f"The run was interrupted while it drew: of its {self._charges} charges {lost} began to be drawn and "
                "left nothing whole. A charge covers one draw, so that a new draw is charged anew; --without-lost goes "
                f"on without it. {error}",
                asked=error.asked,
                left=error.left,
                limit=error.limit,
            ) from None

    def _expected(self, order: SynthesisConfig) -> int:
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

    def _rehearse(self, charged: str) -> None:
        """Draws the first token of every label from public prompts alone: what fails for everybody fails here.

        Args:
            charged: What an error says of the charge.
        """
        public = [
            Group(Prompt(self.writing.opening(label), "", self.writing.ending), ()) for label in self.writing.labels
        ]
        try:
            read = self.model.read(public, max_private_tokens=self.order.max_private_tokens, tokens=self.order.tokens)
            try:
                for step in read.write(range(len(public)), 1).step(dict.fromkeys(range(len(public)))):
                    text = self._text(SystemRandomness())
                    text.next(step)
                    if not text.tokens:
                        raise ModelError(
                            f"The model {self.model.name} leaves no token to begin a text with: its public prompt has "
                            "no finite score that is allowed."
                        )
            finally:
                free(read)
        except ModelError as error:
            raise ModelError(f"{error} {charged}", retryable=error.retryable) from error
        except SottoError:
            raise
        except BaseException as error:
            if not is_models(error):
                raise
            raise ModelError(
                f"The model {self.model.name} failed on public prompts ({type(error).__name__}). {charged}"
            ) from error

    def _leave_out(self, checkpoint: Checkpoint, number: int, *, redraw: bool) -> None:
        """Refuses to go on without a round that was released and is not in the folder, unless it was said to."""
        if redraw:
            raise LostDrawError(
                f"Round {number} was released, and is missing from {checkpoint.folder} or was changed in it. It is "
                "paid and is not drawn again: restore it from a copy of the folder, or pass --without-lost, which "
                "leaves it out. Nothing more was charged."
            )
        self.left_out.append(number)

    def _found(
        self, checkpoint: Checkpoint | None, charge: Charge, standing: Standing | None
    ) -> Sequence[Mapping[str, Any]] | None:
        """The texts of a charge, where they are whole in the folder and as the ledger noted them."""
        if checkpoint is None or standing is None:
            return None
        if standing.left:
            return checkpoint.load(charge.name, _saved_hash_of(standing.content))
        return self._noted(checkpoint, charge) if standing.begun else None

    def _noted(self, checkpoint: Checkpoint, charge: Charge) -> Sequence[Mapping[str, Any]] | None:
        """A charge that is whole on the disk and was not noted: it was drawn, so it is the draw that leaves."""
        loaded = checkpoint.found(charge.name)
        rounds = 1 if self.plan.decoder.refundable else self.order.rounds
        labels = [self.writing.labels[label] for label in self.labels] * rounds
        if loaded is None or not _are_texts(loaded[0], labels):
            return None
        texts, saved = loaded
        self._note(charge, texts, saved)
        return texts

    def _note(self, charge: Charge, texts: Sequence[Mapping[str, Any]], saved: str) -> None:
        """Notes that a charge leaves: the hash of what was saved, and of the rows that it becomes.

        And that the model had been seen to mix prompts when it was drawn, which a run that goes on elsewhere must know.
        """
        rows = [row for part in self._unfolded(1, texts, again=False) for row in part.rows]
        mixed = any(text.get(MIXED) for text in texts)
        content = f"{saved} {rows_hash(rows)}" + (f" {MIXED}" if mixed else "")
        self._account.mark_released([charge.id], {charge.id: content}, isolated=not mixed)

    @cached_property
    def _grammar(self) -> Grammar | None:
        """Compiled and tried out where it is first needed, which is the rehearsal."""
        if self.writing.schema is None or not self.writing.grammar:
            return None
        from sottovoce.models.grammar import Grammar

        return Grammar(self.writing.schema, self.model)

    def _text(self, randomness: Randomness) -> Text:
        eos_tokens, forbidden_tokens = self.model.eos_tokens, self.model.forbidden_tokens
        chooser = self.plan.decoder.start(
            self.plan, randomness, eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens
        )
        matcher = self._grammar.start() if self._grammar else None
        return Text(chooser, lambda tokens: self.writing.ended(self._text_of(tokens)), matcher)

    def _written(
        self, checkpoint: Checkpoint | None, waiting: Sequence[Charge]
    ) -> Iterator[tuple[Charge, list[dict[str, Any]]]]:
        """The texts of every charge, as soon as it is whole. This is the private read.

        What can fail for public reasons comes before the note that a draw begins: then the charge can still be drawn.
        """
        begun: set[Charge] = set()

        def begin(charge: Charge) -> None:
            if charge not in begun:
                if checkpoint:  # whether a round can be saved must not follow from it
                    checkpoint.make_room(room_of(self.order, self.writing, self._texts_of_a_charge))
                self._account.begin([charge.id])
                begun.add(charge)

        if self.order.batches_per_label > 1:  # read again, the records would be dealt out by other coins
            begin(waiting[0])
        read = self._withheld(self._read)
        try:
            for charge in waiting:
                begin(charge)
                yield charge, self._withheld(lambda: self._drawn(read))
        finally:
            free(read)

    def _read(self) -> ReadPrompts:
        return self.model.read(
            self._batches.groups(), max_private_tokens=self.order.max_private_tokens, tokens=self.order.tokens
        )

    def _drawn(self, read: ReadPrompts) -> list[dict[str, Any]]:
        """The texts of one charge."""
        rounds = 1 if self.plan.decoder.refundable else self.order.rounds
        texts = [text for _ in range(rounds) for text in self._texts(read)]
        # Asked behind the private read, which can be the first to show that prompts mix.
        return texts if self.model.isolation.holds else [{**text, MIXED: True} for text in texts]

    def _texts(self, read: ReadPrompts) -> list[dict[str, Any]]:
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
            free(decoding)
        return [
            {"label": self.writing.labels[label], "written": self._whole(its.tokens), "tokens": len(its.tokens)}
            for label, its in zip(self.labels, texts, strict=True)
        ]

    def _text_of(self, tokens: Sequence[int]) -> str:
        return self.model.decode([token for token in tokens if token not in self.model.eos_tokens])

    def _whole(self, tokens: Sequence[int]) -> str:
        """What a finished text says, blank where the tokenizer cannot say it: a failure would tell of a draw."""
        try:
            return self._text_of(tokens).encode("utf-8", "replace").decode("utf-8")
        except BaseException as error:
            if not is_models(error):
                raise
            return ""

    def _withheld(self, work: Callable[[], T]) -> T:
        """Lets the model work on private prompts. What it says of a failure stays here, for it could quote a record or
        its own room, which follows from how many records there are.
        """
        try:
            return work()
        except BaseException as raised:
            error = raised
        # Out of the block, so that the model's error is not attached to what is raised.
        failure, order = type(error).__name__, bare_order(error)
        del error
        if order is not None:
            raise order
        raise ModelError(
            f"The model {self.model.name} failed while it read private examples ({failure}). Its message is "
            "withheld, since it could tell of them. What was charged stands; repeat the run with --resume, "
            "where memory may be short on a larger machine. A round that was being drawn is then charged again."
        )

    def _unfolded(self, number: int, texts: Sequence[Mapping[str, Any]], *, again: bool) -> Iterator[Round]:
        """The rounds of one charge."""
        for start in range(0, len(texts), len(self.labels)):
            its = texts[start : start + len(self.labels)]
            read = [self.writing.row_of(text["written"], text["label"]) for text in its]
            rows = [row for row in read if row is not None]
            yield Round(
                number + start // len(self.labels), rows, len(its) - len(rows), sum(t["tokens"] for t in its), again
            )


def finished(writer: Synthesizer, out: Path) -> Certificate | None:
    """What a finished run of the same request left. Nothing is charged.

    Args:
        writer: The request, with its records and its ledger.
        out: The rows.

    Returns:
        The certificate of the rows; ``None`` where they or their certificate are not there.

    Raises:
        InputError: A file cannot be read, was changed, or is of another run.
    """
    proof = out.with_name(out.name + CERTIFICATE)
    if not (out.exists() and proof.exists()):
        return None
    with naming_folder(out):
        certificate = Certificate.read(proof)
        writer.require_own(certificate, read_written(out), str(out))
    return certificate


def _hash_of(texts: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.sha256(repr(texts).encode()).hexdigest()


def _saved_hash_of(content: str | None) -> str | None:
    """Of what is noted of a charge, the hash of what was saved."""
    return content.partition(" ")[0] if content else None


def _are_texts(texts: Sequence[Any], labels: Sequence[str]) -> bool:
    """Whether a file holds what a charge is: a text for every batch, with its label."""
    return len(texts) == len(labels) and all(
        isinstance(text, dict)
        and text.get("label") == label
        and isinstance(text.get("written"), str)
        and isinstance(text.get("tokens"), int)
        for text, label in zip(texts, labels, strict=True)
    )
