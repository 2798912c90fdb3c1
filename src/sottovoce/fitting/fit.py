"""Pay once: private records become a support that answers any number of questions, at one price.

For every fit: settle the price, rehearse on public texts, charge the ledger durably, let the model embed the records,
note that the draw begins, draw, save, note that the support leaves, hand it over.

Guarantee   A charge is drawn once. A fit that was stopped before the draw began goes on under its charge; one that was
            stopped after it, and is not saved whole, needs a new one.
Sources     specification 5.13 to 5.17, 6.5; decisions 0012 (one draw a charge) and 0021 (pay once).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import Any, Final, TypeVar, final

import numpy as np

from sottovoce.data.bundled import pool_vectors, public_pool
from sottovoce.errors import InputError, LedgerMismatchError, LostDrawError, ModelError, ParameterError, SottoError
from sottovoce.experts.blocks import BlockReader
from sottovoce.experts.encoded import EncodedRecords, Engine
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.experts.ray_engine import RayEngine
from sottovoce.experts.reading import bare_scores, of_shape, same_bits
from sottovoce.experts.unit_sums import SumRule
from sottovoce.files.checkpoint import Checkpoint, Output, beside_finished, naming_folder, require_place
from sottovoce.files.requests import is_compared
from sottovoce.files.tables import ENDINGS
from sottovoce.fitting.auto import AUTO, resolve
from sottovoce.fitting.certificate import FitCertificate, note_of
from sottovoce.fitting.fitted import Bounds, Fitted, content_hash, question_of
from sottovoce.fitting.progress import KeptSums
from sottovoce.fitting.rows import RowsCertificate, content_of, fitted_rows, most_bytes_of_rows
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import (
    FitPlan,
    FitSetting,
    Fitter,
    PublicInputs,
    make_fitter,
    read_fitter_options,
    registered_fitters,
)
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport
from sottovoce.methods.fitting.writing import LONGEST, MOST_CANDIDATES, ModelWriter, VariationWriter, once
from sottovoce.models.base import (
    Embedder,
    FloatArray,
    Isolation,
    LabelScorer,
    embedding_model,
    knows_labels,
    require_suited,
    settings_of,
    weakest,
)
from sottovoce.models.failures import is_models
from sottovoce.models.registry import load_scorer, load_stepper
from sottovoce.models.stepper import Stepper
from sottovoce.parameters import CALLED, FILE_NAME, FLAG, Able, Kind, Number, OneOf
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.checks import asked_hash, canonical
from sottovoce.privacy.ledger.account import Reservation, Standing
from sottovoce.privacy.ledger.balance import Balance
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.known_records import require_public
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.privacy.ledger.opening import known_budget, open_account, require_known
from sottovoce.privacy.ledger.run_charges import as_charged
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import Randomness, require_secure, source_of
from sottovoce.records.sealed import Opaque, PrivateRecords
from sottovoce.tasks import Query, Task

T = TypeVar("T")
ENDING: Final = ".sotto"
"""What the name of a fitted file ends in."""
ENGINES: Final = ("local", "ray")
WRITTEN: Final = Number(1, MOST_CANDIDATES, whole=True, strict=True)
"""How many texts may be written."""
_DRAWN: Final = "fit"
_LOST: Final = "what was drawn is lost. Move the folder away, make room and fit again, which is charged again"
_SEAL: Final = 64
"""Characters in front of what was drawn, in the checkpoint."""
_REHEARSED: Final = ("Is this still the same?", "A second text that anybody may read.")
"""Texts that a model must embed alike before and behind the records, unless it states others (``rehearsal``)."""


@final
class Fitting:
    """A fit that is about to be made: everything is checked and priced here, and nothing is read or charged.

    Args:
        records: Sealed private records.
        task: Labels and templates.
        epsilon: Of the whole fit.
        delta: Of the whole fit.
        method: A fitter or its name; by default ``auto``, which chooses by public numbers alone (``fitting.auto``).
        options: Of a method that is given by its name; ``auto`` chooses among those that have them.
        model: A model that scores labels, or its name. For a method that leaves a classifier alone, one that embeds if
            it is asked to (``hf:``) does so in its usual way.
        embedder: A model that embeds the records, or its name; by default ``model``, or ``embedded`` where that embeds
            nothing. A classifier is for the model that embeds; chosen demonstrations suit any.
        adjacency: What one change of the data is.
        pool: Public texts without labels, for methods that use some; by default those that ship with the package,
            where the task has one field of text. What stands there twice counts once.
        candidates: In place of a pool: so many texts that the writer writes from the task's public words.
        writer: A model that writes token by token, or its name, for such candidates and for methods that have texts
            varied, such as ``evolve``; by default ``embedded``. It sees public texts and released ones alone. A text
            that it fails to write between draws is missing, and no error.
        rows: Leave texts with their labels alone, for a file of rows, and no classifier beside them.
        budget: The data set's whole budget where the ledger first meets the records; by default this fit's own
            (epsilon, delta), which it then has all of.
        ledger: A ledger, its path or address, or ``":memory:"``.
        caller: Who asks, where the owner allotted each caller a part of the budget.
        randomness: Source of noise; anything but the operating system's is refused unless the records are synthetic.
        engine: Who embeds and sums the records, bit for bit alike: ``"local"`` for this process, ``"ray"`` for workers
            of a Ray cluster (``experts.ray_engine``), or an engine.

    Attributes:
        plan: What the fit costs.
        advice: Which method ``auto`` chose and why, in one line; empty where the method was named.
        require_known: Refuses to resume a run of records that the ledger does not know; no budget is settled.

    Raises:
        InputError: Something given is not usable; nothing was charged.
        BudgetError: The ledger does not fit these records, or cannot be written.
        ModelError: The model could not be loaded.
    """

    _stated: Isolation | None = None
    """What the charge says of the model: as it was behind the rehearsal, before a record was read."""

    def __init__(
        self,
        records: PrivateRecords,
        task: Task,
        *,
        epsilon: float,
        delta: float = 1e-6,
        method: Fitter | str = AUTO,
        options: Mapping[str, Any] | None = None,
        model: LabelScorer | str = "embedded",
        embedder: Embedder | str | None = None,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        pool: Sequence[str | Query] | None = None,
        candidates: int | None = None,
        writer: Stepper | str | None = None,
        rows: bool = False,
        budget: Budget | None = None,
        ledger: Ledger | str | None = None,
        caller: str | None = None,
        randomness: Randomness | None = None,
        engine: Engine | str = "local",
    ) -> None:
        Kind(PrivateRecords, "records from read_private(...)").read("records", records)
        Kind(Task, "a Task, such as from load_task(...)").read("task", task)
        Kind((Fitter, str), "a fitter or its name").read("method", method)
        Able("prepare", "a model that scores labels, or its name").read("model", model)
        Kind((Budget, NoneType), "a Budget, such as Budget(8, 1e-6)").read("budget", budget)
        Kind((Ledger, str, NoneType), "a Ledger, or its path or address as a text").read("ledger", ledger)
        Kind((str, NoneType), "a name").read("caller", caller)
        Kind((Sequence, NoneType), "a list of public texts").read("pool", pool)
        Kind((Stepper, str, NoneType), "a model that writes, or its name").read("writer", writer)
        _require_options(options, rows)
        price = Price(epsilon, delta)
        self._engine = _engine_of(engine)
        self.task, self.adjacency = task, Adjacency.parse(adjacency)
        self._randomness = source_of(randomness)
        require_secure(self._randomness, synthetic=records.synthetic)
        self._records = records.with_public_size() if self.adjacency.size_is_public else records
        chosen = dict(options or {})
        if isinstance(method, Fitter) and chosen:
            raise ParameterError(
                "options", ", ".join(chosen), "set on the method itself, which is not given by its name"
            )
        self.model = load_scorer(model) if isinstance(model, str) else model
        require_suited(task, self.model)
        self.advice = ""
        if isinstance(method, Fitter):
            fitter = method
        elif method != AUTO:
            fitter = _made(method, chosen, self.model)
        else:
            bundled = _bundled(task, self.model) if pool is None and candidates is None else []
            resolved = resolve(
                price=price,
                labels=len(task.labels),
                units=self.units,
                candidates=candidates or len(pool or bundled),
                bundled=pool is None,
                adjacency=self.adjacency,
                embeds=isinstance(self.model, Embedder) and embedder is None and not rows,
                options=chosen if knows_labels(self.model) else {"prior_weight": 0.0, **chosen},
            )
            fitter, self.advice = _made(resolved.method, chosen, self.model), str(resolved)
        if rows and fitter.gives is not DemonstrationSupport:
            raise ParameterError("method", fitter.name, "one that leaves texts, such as choice or evolve")
        _refuse_public(fitter, pool, candidates)
        if fitter.gives is LinearSupport:
            self.model = embedding_model(self.model)
        self._rows, self._writer = rows, _writer_of(writer, fitter, task, candidates)
        self._pool = _pool_of(task, self.model, fitter, pool, candidates, self._writer)
        self.embedder = _embedder_of(embedder, self.model, fitter)
        self._encoded = EncodedRecords(self._records, task, self.embedder, self.adjacency)
        setting = self._setting(adds_epsilons=True)
        fitter.plan(price, setting)  # what no ledger makes right is refused before one is opened
        self._given = pool is not None and candidates is None
        self._require_public_pool()
        first = Budget.once(price.epsilon, price.delta)
        self._open = partial(open_account, self._records, self.adjacency, budget, ledger, caller, first)
        self.require_known = partial(require_known, self._records, self.adjacency, ledger, caller)
        known = known_budget(self._records, self.adjacency, ledger)
        self._is_known, self._currency = known is not None, (known or budget or first).currency
        self.plan: FitPlan = fitter.plan(price, self._setting(adds_epsilons=self._currency == "epsilon"))
        self._bounds.require()

    def __repr__(self) -> str:
        return f"Fitting(method={self.plan.fitter.name!r}, model={self.model.name!r}, {self.adjacency.value})"

    @cached_property
    def _account(self) -> Account:
        """Opened where it is first needed: a price that is only looked at settles no budget.

        Raises:
            BudgetError: The ledger does not fit these records, or another program opened one meanwhile.
        """
        self._require_public_pool(beside=self._records)  # before a budget is settled for them
        account = self._open()
        if (found := account.balance().budget.currency) != self._currency:
            raise LedgerMismatchError(
                f"Another program opened the ledger of these records meanwhile; it adds {found}, and this fit was "
                f"priced by {self._currency}. Nothing was charged. Repeat it."
            )
        return account

    def _require_public_pool(self, beside: PrivateRecords | None = None) -> None:
        """Texts that are given must be nobody's records. What ships, or a model wrote from public words, is public."""
        if self._given:
            require_public(self._pool, "the public texts", beside=beside)

    @property
    def ledger(self) -> Ledger:
        """The ledger that is charged."""
        return Ledger.of(self._account)

    @property
    def account(self) -> Account:
        """What is charged: the data set in its ledger, without its records."""
        return self._account

    @property
    def balance(self) -> Balance:
        """How it stands."""
        return self._account.balance()

    @property
    def conflicting_ledger(self) -> str | None:
        """Path of another ledger that these records have on this machine: its budget adds to this one's."""
        return self._account.conflicting_ledger

    @property
    def endings(self) -> Sequence[str]:
        """What the name of its output may end in."""
        return ENDINGS if self._rows else (ENDING,)

    @property
    def leaves_rows(self) -> bool:
        """Whether texts with their labels are left, and no classifier."""
        return self._rows

    @property
    def units(self) -> int | None:
        """Number of units, where it is public."""
        return len(self._records) if self.adjacency.size_is_public else None

    @property
    def terms(self) -> dict[str, Any]:
        """What a resumed run must have in common with the one that was interrupted."""
        return {
            **{name: value for name, value in self._words.items() if name != "isolation"},  # settled as it runs
            "caller": self._account.caller,
            "records and ledger": self._account.keyed("staging", self._records.fingerprint),
        }

    def new_run_state(self) -> dict[str, str]:
        """What a new run remembers: its id, and the version of sottovoce that is charged for it."""
        return {"run": secrets.token_hex(8), "version": version("sottovoce")}

    @property
    def charge(self) -> Reservation:
        """What a new run is charged."""
        return self._reservation(self.new_run_state())

    def affords(self) -> None:
        """Raises what would be raised if the fit were made now; charges nothing."""
        self._account.check([self.charge])

    def was_charged(self, run_state: Mapping[str, str]) -> bool:
        """Whether a run was paid for."""
        return self._standing(run_state) is not None

    def require_own(self, fitted: Fitted, source: str) -> None:
        """Refuses what another fit left: its words must be those of this one, and its charge and its records those of
        the ledger. Nothing is charged, and no budget is settled.

        Args:
            fitted: What a fit left.
            source: Its name, for the error.

        Raises:
            InputError: It was fitted from other records, or with other settings.
        """
        certificate, own = fitted.certificate, self._words
        if not self._is_known:
            differs = ["the ledger, which does not know these records"]
        else:
            own.pop("isolation")  # a model settles it as it runs
            names = [name for name in own if is_compared(name, certificate.asked, own)]
            differs = [name for name in names if canonical(certificate.asked.get(name)) != canonical(own[name])]
        if not differs:
            checks = certificate.held_against(self.ledger, self._records)
            differs = [f"its charge ({check.what}: {check.told})" for check in checks if not check.holds]
        if not differs:
            charges = self._account.standing(certificate.ledger).values()
            differs = ["caller" for charge in charges if charge.caller != self._account.caller][:1]
        if differs:
            what = ", ".join(name.replace("_", " ") for name in differs)
            other = "or name another --out" if self._rows else f"or answer from it as it is, with --fitted {source}"
            raise InputError(
                f"{source} differs from what this command makes in: {what}. Repeat the command that made it; {other}. "
                "Nothing was charged."
            )

    def run(
        self,
        checkpoint: Checkpoint | None = None,
        *,
        on_units: Callable[[int], None] | None = None,
    ) -> Fitted:
        """Makes the fit: charges, reads, draws.

        Args:
            checkpoint: Where what is drawn is saved before it leaves; without it a crash loses it.
            on_units: Called with the number of newly read units, each time that some were read.

        Raises:
            BudgetExhaustedError: It cannot be paid for; nothing was charged and nothing read.
            ModelError: The model failed. What was charged stands; before the draw began the run can be resumed.
            InputError: The run was charged for another request, or was stopped while it was drawn, and nothing more was
                charged; or the checkpoint has no room for what is drawn, and what was charged stands.
        """
        run_state = dict(checkpoint.run_state) if checkpoint else self.new_run_state()
        standing = self._standing(run_state)
        self._stated = None if standing is None else self._as_charged(run_state, standing)
        if standing is not None and standing.begun:
            return self._saved(checkpoint, run_state, standing)
        public, reader = self._rehearsed(), self._reader()
        rules = self.plan.fitter.rules(self.plan, public)
        questions = self.plan.fitter.questions(self.plan, public)
        if questions and not self.plan.fitter.asks_experts:
            name = self.plan.fitter.name
            raise AssertionError(f"{name} asks experts and does not say so (asks_experts). Nothing was charged.")
        bare = self._bare(questions)
        self._stated = self._stated or self._isolation  # a model may settle it by public texts, as these are
        reservation = self._reservation(run_state, standing)
        try:
            self._start(reader, rules)
            self._records.require_unchanged()
            self._account.reserve([reservation])
            progress = self._progress(run_state, rules) if checkpoint is not None and rules is not None else None
            self._encoded.read(reader, on_units, rules, self._engine, progress)
        finally:
            if self._engine is not None:
                self._engine.close()
        private = _Private(self, questions, bare)
        if checkpoint is not None:  # whether it can be saved must not follow from what was drawn
            self._seal(run_state, b"")
            checkpoint.make_room(_SEAL + self._bounds.size, self._last_room)
        self._account.begin([reservation.release_id])
        if progress is not None:
            progress.forget()
        try:
            support = self.plan.fitter.fit(self.plan, private, public, self._randomness)
        finally:
            self._encoded.close()
        fitted = self._fitted(support, run_state, standing)
        saved = hashlib.sha256(content := fitted.to_bytes()).hexdigest()
        if checkpoint is not None:
            checkpoint.save_bytes(_DRAWN, self._seal(run_state, content) + content, _LOST, LostDrawError)
        self._note_released(reservation.release_id, saved, fitted)
        return fitted

    def _note_released(self, release_id: str, saved: str, fitted: Fitted) -> None:
        """Notes that a fit leaves: the hash of what was saved, what is certified of its model, and the hash of what the
        file holds."""
        certified = Isolation(fitted.certificate.isolation)
        content = f"{saved} {certified.name} {fitted.content_sha256}"
        self._account.mark_released([release_id], {release_id: content}, isolated=certified.holds)

    def _saved(self, checkpoint: Checkpoint | None, run_state: Mapping[str, str], standing: Standing) -> Fitted:
        """What was drawn before the run was stopped, where it is whole on the disk: it is the draw that leaves."""
        saved = (checkpoint.found_bytes(_DRAWN) if checkpoint else None) or b""
        seal, content = saved[:_SEAL], saved[_SEAL:]
        digest = hashlib.sha256(content).hexdigest()
        whole = hmac.compare_digest(seal, self._seal(run_state, content))
        if not whole or (standing.left and (standing.content or "").partition(" ")[0] != digest):
            folder = checkpoint.folder if checkpoint else "its folder"
            raise LostDrawError(
                "The run was stopped while it was drawn, and what was drawn is not whole on the disk. Its charge "
                f"covers that draw and no other. Move {folder} away and begin anew, which is charged again. Nothing "
                "more was charged."
            )
        fitted = Fitted.from_bytes(content, checkpoint.out.name if checkpoint else "")
        if not standing.left:
            self._note_released(_id_of(run_state), digest, fitted)
        return fitted

    def _seal(self, run_state: Mapping[str, str], content: bytes) -> bytes:
        """What tells a draw of this run from any other file, under the data set's own key."""
        drawn = f"{_id_of(run_state)} {hashlib.sha256(content).hexdigest()}"
        return self._account.keyed("fit", drawn).encode("ascii")

    # What is charged

    def _setting(self, *, adds_epsilons: bool) -> FitSetting:
        return FitSetting(
            labels=len(self.task.labels),
            dimension=self.embedder.dimension,
            units=self.units,
            adjacency=self.adjacency,
            change=change_type(Assignment.OWN_SLOT, self.adjacency),
            candidates=len(self._pool),
            adds_epsilons=adds_epsilons,
            unit=self._records.unit,
        )

    @property
    def _words(self) -> dict[str, Any]:
        """What is asked for, in public words."""
        plan = self.plan
        return {
            "method": plan.fitter.name,
            "parameters": dict(plan.parameters),
            "epsilon": plan.epsilon,
            "delta": plan.report.delta,
            "currency": self._currency,
            "adjacency": self.adjacency.value,
            "unit": self._records.unit,
            **self._records.reading.words,
            "units": plan.setting.units,
            "labels": list(self.task.labels),
            "dimension": plan.setting.dimension,
            "task": asked_hash({"task": repr(self.task)}),
            "candidates": plan.setting.candidates,
            "public_texts": hashlib.sha256(canonical([dict(query) for query in self._pool]).encode()).hexdigest(),
            "model": self.model.name,
            "embedding": self.embedder.embedding,
            "embedder": self.embedder.name,
            "writer": self._writer.model.name if self._writer is not None else None,
            **settings_of(self.model, "scorer's "),
            **(settings_of(self._writer.model) if self._writer is not None else {}),
            "rows": self._rows,
            "isolation": (self._stated or self._isolation).value,
            "seeded": not self._randomness.secure,
        }

    def _request(self, run_state: Mapping[str, str], standing: Standing | None = None) -> dict[str, Any]:
        request = {**self._words, "version": run_state["version"], "run": run_state["run"]}
        return request if standing is None else as_charged(request, [standing])

    def _reservation(self, run_state: Mapping[str, str], standing: Standing | None = None) -> Reservation:
        note = note_of(
            self.plan.fitter.name,
            self.model.name,
            self.plan.setting.change.name,
            isolated=(self._stated or self._isolation).holds,
            seeded=not self._randomness.secure,
        )
        return Reservation(_id_of(run_state), self.plan.charge, note, asked_hash(self._request(run_state, standing)))

    def _standing(self, run_state: Mapping[str, str]) -> Standing | None:
        return self._account.standing(f"{run_state['run']}-").get(_id_of(run_state))

    # What is read and drawn

    def _as_charged(self, run_state: Mapping[str, str], standing: Standing) -> Isolation:
        """The isolation that a run was charged with.

        Raises:
            InputError: It was charged for another request.
        """
        for isolation in Isolation:
            self._stated = isolation
            if standing.asked == asked_hash(self._request(run_state, standing)):
                return isolation
        self._stated = None
        raise InputError(
            "The run was charged for another request than this one. Repeat its command on the machine, and with "
            "the versions, that it began with. Nothing more was charged."
        )

    @property
    def _certifiable(self) -> Isolation:
        """What was asked for, or what the models were seen to keep since, where that is less."""
        return weakest([self._stated or self._isolation, self._isolation])

    @property
    def _isolation(self) -> Isolation:
        """Of the models that read private records: the embedder, and for answers of experts the model itself."""
        return weakest([self.embedder.isolation, *([self.model.isolation] if self.plan.fitter.asks_experts else [])])

    @cached_property
    def _public_texts(self) -> Sequence[Query]:
        """Questions that the model must answer alike before and behind the private read."""
        if self._pool:
            return self._pool[:2]
        texts = getattr(self.embedder, "rehearsal", _REHEARSED)
        return [] if self.task.image else [dict.fromkeys(self.task.fields, text) for text in texts]

    def _progress(self, run_state: Mapping[str, str], rules: Sequence[SumRule]) -> KeptSums:
        """Where a run that can be resumed keeps how far it has read."""
        same = (self._records.fingerprint, self.embedder.embedding, repr(self.task), self.adjacency.value)
        return KeptSums(run_state["run"], same, rules)

    def _start(self, reader: BlockReader, rules: Sequence[SumRule] | None) -> None:
        """Makes the engine ready, before the charge.

        Raises:
            ParameterError: The method cannot say beforehand what it will ask for.
        """
        if self._engine is None:
            return
        if rules is None:
            limit = f"local: the method {self.plan.fitter.name!r} asks for sums that depend on others here"
            raise ParameterError("engine", type(self._engine).__name__, limit)
        self._engine.start(reader, rules)

    def _rehearsed(self) -> PublicInputs:
        """The public side, worked out before the charge: what fails for everybody fails here."""
        vectors = self._of_public_texts(lambda: self._embedded(self._pool))
        self._require_finite(vectors)
        self._bare(self._public_texts, finite=False)
        return PublicInputs(
            self.task, self.model, self.embedder, self._pool, vectors,
            lambda queries: bare_scores(self.model, self.task, queries), self._rehearsed_writer(),
        )  # fmt: skip

    def _bare(self, questions: Sequence[Query], *, finite: bool = True) -> FloatArray:
        """What the model says to public questions before it reads a record, shape (questions, labels)."""
        if not questions:
            return np.empty((0, len(self.task.labels)))
        scores = self._of_public_texts(lambda: bare_scores(self.model, self.task, questions))
        if finite:
            self._require_finite(scores)
        return scores

    def _reader(self) -> BlockReader:
        """What will read the records; its embedder answers public texts here, before the charge."""
        _, first, reader = (  # a model may settle with its first answer
            self._of_public_texts(lambda: self._encoded.reader(self._public_texts)) for _ in range(3)
        )
        self._require_finite(reader.rehearsed)
        if not same_bits(first.rehearsed, reader.rehearsed):
            raise ModelError(
                f"The model {self.embedder.name} embedded public texts in other bits where it was asked once more. "
                f"{self._nothing}"
            )
        return reader

    @property
    def _nothing(self) -> str:
        """What is said of charges before this run's own, where an earlier part of it may have been charged."""
        return "Nothing was charged." if self._stated is None else "Nothing more was charged."

    def _of_public_texts(self, work: Callable[[], T]) -> T:
        """Lets a model work on public texts, before the charge.

        Raises:
            ModelError: It failed. Nothing was charged.
        """
        try:
            return work()
        except SottoError:
            raise
        except BaseException as error:
            if not is_models(error):
                raise
            raise ModelError(
                f"The model {self.model.name} failed on public texts ({type(error).__name__}). {self._nothing}"
            ) from error

    def _require_finite(self, numbers: FloatArray) -> None:
        """Refuses what a model said of public texts, before the charge.

        Raises:
            ModelError: Some numbers are not finite. Nothing was charged.
        """
        if not np.isfinite(numbers).all():
            raise ModelError(
                f"The model {self.model.name} gave numbers that are not finite for a public text. {self._nothing} "
                "Leave that text out, or check the model's weights."
            )

    def _embedded(self, texts: Sequence[Query]) -> FloatArray:
        """Vectors of public texts; those of the bundled pool ship for the default encoder."""
        shipped = None
        if texts and not self.task.image:
            shipped = pool_vectors(self.embedder.embedding, [self.task.text_of(text) for text in texts])
        if shipped is not None:
            return shipped
        return of_shape(self.embedder.embed_questions(self.task, texts), (len(texts), self.embedder.dimension))

    def _rehearsed_writer(self) -> VariationWriter | None:
        """The writer, for a method that has texts varied: it is asked once, so that one that cannot write is refused.

        Raises:
            ModelError: It cannot write. Nothing was charged.
        """
        if self._writer is None or not self.plan.fitter.writes:
            return None
        self._writer.rehearse(self._pool[:1])
        return self._writer

    # How large it becomes

    @cached_property
    def _head(self) -> Fitted:
        """What is to be fitted, without a text or a number of it: what a file holds whatever is drawn.

        Raises:
            InputError: It could not be read back.
        """
        head = self._certified(DemonstrationSupport(()), self.new_run_state(), data="0" * 64)
        try:
            Fitted.from_bytes(head.to_bytes(), "what is to be fitted")
        except InputError as error:
            raise InputError(f"{error} Nothing was charged.") from None
        return head

    @cached_property
    def _longest(self) -> int:
        """Bytes of the longest text's fields, as JSON in plain characters."""
        longest = max((len(canonical(dict(query))) for query in self._pool), default=0)
        return max(longest, LONGEST) if self._writer is not None else longest

    @property
    def _texts(self) -> int:
        return self.plan.fitter.most_texts(self.plan.setting)

    @cached_property
    def _bounds(self) -> Bounds:
        """How large what is drawn can become; public. A classifier's map is at most square."""
        labels, dimension = len(self.task.labels), self.embedder.dimension
        numbers = (labels + dimension) * (dimension + 2) + 1
        return Bounds.of(self._head, texts=self._texts, longest=self._longest, numbers=numbers)

    @property
    def _last_room(self) -> int:
        """Bytes of the output at most, which is written beside what was drawn."""
        return most_bytes_of_rows(self._head, self._texts, self._longest) if self._rows else self._bounds.size

    def _fitted(self, support: Any, run_state: Mapping[str, str], standing: Standing | None) -> Fitted:
        if self._rows:
            support = DemonstrationSupport(support.examples)
        data = self._account.data_hash(run_state["run"], self._records.fingerprint)
        fitted = self._certified(support, run_state, data, standing)
        fitted.use(self.model)
        return fitted

    def _certified(
        self, support: Any, run_state: Mapping[str, str], data: str, standing: Standing | None = None
    ) -> Fitted:
        content = content_hash(support, self.task, self.model.name, self.embedder.embedding)
        certificate = FitCertificate.of(
            self.plan,
            labels=self.task.labels,
            content_sha256=content,
            model=self.model.name,
            embedding=self.embedder.embedding,
            isolation=self._certifiable,
            seeded=not self._randomness.secure,
            data=data,
            ledger=_id_of(run_state),
            asked=self._request(run_state, standing),
        )
        return Fitted(support, self.task, self.model.name, self.embedder.embedding, certificate)


@final
class _Private(Opaque):
    """The private side of a fit, as its method sees it."""

    __slots__ = ("_answers", "_fitting", "_questions")

    def __init__(self, fitting: Fitting, questions: Sequence[Query], bare: FloatArray) -> None:
        self._fitting, self._questions = fitting, list(questions)
        self._answers = _asked(fitting, self._questions, bare) if self._questions else []

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all units' contributions by a rule."""
        return self._fitting._encoded.sum_of(rule)

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        """What experts with one unit each say to public questions."""
        if list(queries) != self._questions:
            raise ModelError("The method asks other questions than it named.")
        return self._answers


def _asked(fitting: Fitting, questions: Sequence[Query], bare: FloatArray) -> Sequence[ExpertOutputs]:
    ensemble = Ensemble(fitting._records, fitting.task, fitting.model, Partition(), fitting.adjacency)
    try:
        return ensemble.ask(questions, bare)
    finally:
        ensemble.close()


def fit(
    records: PrivateRecords,
    task: Task,
    *,
    epsilon: float,
    delta: float = 1e-6,
    out: str | Path | None = None,
    resume: bool = False,
    on_units: Callable[[int], None] | None = None,
    **more: Any,
) -> Fitted:
    """Charges once and returns a support that answers any number of questions.

    Args:
        records: Sealed private records.
        task: Labels and templates.
        epsilon: Of the whole fit.
        delta: Of the whole fit.
        out: File to write, ending in ``.sotto``, or in ``.jsonl`` with ``rows``. With it, an interrupted run can be
            resumed.
        resume: Resume an interrupted run. If the run is finished, its fit is returned and nothing is charged.
        on_units: Called with the number of newly read units, each time that some were read.
        more: As for ``Fitting``: ``method``, ``options``, ``model``, ``adjacency``, ``pool``, ``budget``, ``ledger``,
            ``caller``, ``randomness``, ``engine``, ``candidates``, ``writer``, ``rows``.

    Raises:
        InputError: Something given is not usable, and nothing was charged; or ``out`` has no room for what is drawn, or
            the records' file was changed while it was read, and the charge stands.
        BudgetError: The ledger does not fit these records, or the fit cannot be paid for; nothing was charged, unless
            the message says that the charge stands.
        ModelError: The model failed; what was charged stands.
    """
    place = None if out is None else FILE_NAME.read("out", out)
    FLAG.read("resume", resume)
    CALLED.read("on_units", on_units)
    fitting = Fitting(records, task, epsilon=epsilon, delta=delta, **more)
    if place is None:
        if resume:
            raise ParameterError("resume", resume, "given with 'out': it goes on with a run that left its folder there")
        return fitting.run(on_units=on_units)
    if resume:
        require_place(place, resume=True, endings=fitting.endings)
        if (done := finished(fitting, place)) is not None:
            beside_finished(place)
            return done
    with begun(fitting, place, resume=resume) as checkpoint:
        return finish(fitting, checkpoint, on_units=on_units)


def finished(fitting: Fitting, out: Path) -> Fitted | None:
    """What a finished run of the same request left. Nothing is charged.

    Args:
        fitting: The request, with its records and its ledger.
        out: The fitted file; or rows, whose certificate is beside them.

    Returns:
        The fit in the file; ``None`` where there is no file, or for rows no certificate beside it.

    Raises:
        InputError: The file cannot be read, was changed, or was fitted from other records or with other settings.
    """
    if not out.exists():
        return None
    with naming_folder(out):
        fitted = fitted_rows(out, fitting.task) if fitting.leaves_rows else Fitted.load(out)
        if fitted is None:
            return None
        fitted.certificate.require_consistent(fitted.content_sha256)
        fitting.require_own(fitted, str(out))
    return fitted


@contextmanager
def begun(fitting: Fitting, out: Path, *, resume: bool) -> Iterator[Checkpoint]:
    """The folder of a run beside its output, once the place is free and the fit can be paid for.

    However the block ends, another process may go on with the run then. The folder of a new run that was not charged
    goes.

    Raises:
        InputError: The output is there, does not end in ``.sotto`` (for rows in ``.jsonl``), or there is nothing to
            resume. No budget was settled.
        BudgetError: The fit cannot be paid for.
    """
    endings = fitting.endings
    require_place(out, resume=resume, endings=endings)
    if resume:
        fitting.require_known()
    else:
        fitting.affords()
    checkpoint = Checkpoint(out, fitting.terms, fitting.new_run_state(), resume=resume, endings=endings)
    try:
        yield checkpoint
    except BaseException:
        if not fitting.was_charged(checkpoint.run_state):
            checkpoint.abandon()
        raise
    finally:
        checkpoint.close()  # an error keeps it alive, and its lock would keep a resume out


def finish(fitting: Fitting, checkpoint: Checkpoint, *, on_units: Callable[[int], None] | None = None) -> Fitted:
    """Makes the fit and writes its file, or finds the one that was kept whole."""

    def draw() -> tuple[Fitted, Output]:
        fitted = fitting.run(checkpoint, on_units=on_units)
        if not fitting.leaves_rows:
            return fitted, Output(fitted.to_bytes())
        certificate = RowsCertificate(fitted.certificate, fitted.task)
        return fitted, Output(content_of(fitted, checkpoint.out), certificate.text)

    made = checkpoint.carry_out(draw)
    if made is None:
        made = finished(fitting, checkpoint.out)
    if made is None:
        raise InputError(f"{checkpoint.out} was removed as it was written. Nothing more was charged.")
    return made


def _made(name: str, options: Mapping[str, Any], model: LabelScorer) -> Fitter:
    made = make_fitter(name, **read_fitter_options(name, options))
    return made if "prior_weight" in options else suited_to(made, model)


def suited_to(fitter: Fitter, model: LabelScorer) -> Fitter:
    """The method without the model's own answer (``prior_weight`` 0), where label names mean nothing to the model."""
    if knows_labels(model) or "prior_weight" not in fitter.options:
        return fitter
    return replace(fitter, prior_weight=0.0)  # type: ignore[call-arg]


def _refuse_public(fitter: Fitter, pool: Sequence[str | Query] | None, candidates: int | None) -> None:
    """Raises where public texts are given to a method that reads none, or in two ways."""
    for what, given in (("pool", f"{len(pool)} texts" if pool else None), ("candidates", candidates)):
        if fitter.pool == "unused" and given is not None:
            raise ParameterError(what, given, f"left out: the method {fitter.name!r} reads no public texts")
    if candidates is not None:
        WRITTEN.read("candidates", candidates)
        if pool is not None:
            raise ParameterError("candidates", candidates, "left out where public texts are given")


def _pool_of(
    task: Task,
    model: LabelScorer,
    fitter: Fitter,
    pool: Sequence[str | Query] | None,
    candidates: int | None,
    writer: ModelWriter | None,
) -> list[Query]:
    """Public texts: those that were given, that are written, or that ship with the package."""
    if candidates is not None and writer is not None:
        return writer.candidates(candidates)
    if fitter.pool == "unused":
        return []
    return once(_bundled(task, model) if pool is None else [question_of(task, query) for query in pool])


def _bundled(task: Task, model: LabelScorer) -> list[Query]:
    """The texts that ship with the package, as questions of the task; none for a model that reads numbers."""
    if task.image or len(task.fields) != 1 or getattr(model, "reads", None) == "numbers":
        return []
    return [{task.fields[0]: str(row.values["text"])} for row in public_pool()]


def _writer_of(writer: Stepper | str | None, fitter: Fitter, task: Task, candidates: int | None) -> ModelWriter | None:
    """What writes public texts, where some are to be written.

    Raises:
        ParameterError: None are, or the task has images.
    """
    if not fitter.writes and candidates is None:
        if writer is not None:
            name = writer if isinstance(writer, str) else writer.name
            using = ", ".join(kind for kind, cls in registered_fitters().items() if cls.writes)
            why = f"left out: nothing is written for {fitter.name!r}; it is used by {using} and for candidates"
            raise ParameterError("writer", name, why)
        return None
    if task.image:
        what = "candidates" if candidates is not None else "method"
        raise ParameterError(what, candidates or fitter.name, f"left out: the task {task.name!r} has images")
    model = load_stepper(writer or "embedded") if writer is None or isinstance(writer, str) else writer
    return ModelWriter(task, model)


def _require_options(options: Mapping[str, object] | None, rows: bool) -> None:
    Kind(bool, "True or False").read("rows", rows)
    Kind((Mapping, NoneType), "options by name").read("options", options)
    for name in options or ():
        Kind(str, "options by name").read("options", name)


def _embedder_of(embedder: Embedder | str | None, model: LabelScorer, fitter: Fitter) -> Embedder:
    """The model that embeds the records.

    Raises:
        ParameterError: It embeds nothing, or the method makes a classifier for another model than the one that answers.
    """
    if isinstance(embedder, str):
        found: object = load_scorer(embedder)
    else:
        found = embedder if embedder is not None else model if isinstance(model, Embedder) else load_scorer("embedded")
    if not isinstance(found, Embedder):
        raise ParameterError("embedder", getattr(found, "name", found), "a model that embeds, such as embedded")
    same = isinstance(model, Embedder) and model.embedding == found.embedding
    if fitter.gives is LinearSupport and not same:
        limit = f"one that embeds, such as embedded: the method {fitter.name!r} makes a classifier of its vectors"
        raise ParameterError("model", model.name, limit)
    return found


def _engine_of(engine: Engine | str) -> Engine | None:
    """Who reads the records; ``None`` for this process.

    Raises:
        ParameterError: There is no such engine.
        MissingExtraError: It is not installed.
    """
    if not isinstance(engine, str):
        if isinstance(engine, type) or not all(
            callable(getattr(engine, name, None)) for name in Engine.__dict__ if not name.startswith("_")
        ):
            raise ParameterError(
                "engine", type(engine), "local, ray, or an object that reads records as RayEngine does"
            )
        return engine
    return RayEngine() if OneOf(ENGINES).read("engine", engine) == "ray" else None


def _id_of(run_state: Mapping[str, str]) -> str:
    return f"{run_state['run']}-1"
