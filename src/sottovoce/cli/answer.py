"""``sotto answer``: private examples and a file of questions in, one text a question out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sottovoce.cli import options as o
from sottovoce.cli.answers import (
    RUN,
    FinishedRun,
    Run,
    by_id,
    hash_of_questions,
    require_asked,
    require_note_place,
)
from sottovoce.cli.console import (
    LOST_WITHOUT_FILE,
    left_in_words,
    load_writer,
    losing,
    progress,
    put,
    say,
    say_table,
    table,
    used_in_words,
)
from sottovoce.cli.flags import flag_of_name, is_typed, running
from sottovoce.cli.foresight import say_answering
from sottovoce.cli.outputs import NewFile
from sottovoce.errors import GIVEN, InputError, LostDrawError, ParameterError, SottoError
from sottovoce.files.checkpoint import (
    Checkpoint,
    Output,
    beside_finished,
    folder_of,
    naming_folder,
    require_no_run,
    require_place,
)
from sottovoce.files.tables import encoded
from sottovoce.privacy.numbers import rounded_up

if TYPE_CHECKING:
    from sottovoce.answering.run import AnswerRun
    from sottovoce.answering.session import PrivateAnswers
    from sottovoce.fitting.fitted import Fitted
    from sottovoce.methods.answering.answerer import Answerer, AnswerPlan
    from sottovoce.models.base import Isolation, Writer
    from sottovoce.records.sealed import PrivateRecords, PublicRecords
    from sottovoce.release import Release
    from sottovoce.tasks import AnswerExample, AnswerTask, Query

_OF_EXPERTS = ("experts", "sampling", "sampling_probability")
"""Parameters that say nothing to a method that reads no private record, beside ``options.OF_RECORDS``."""

_HIDDEN = ("records and ledger", "public texts", "question texts")
"""Terms of a run that are hashes."""

_NOTHING: Final = "Nothing was charged."
_PAID: Final = (
    "What was chosen is paid for, and whole in {}: once that is mended, --resume goes on with it, and charges nothing "
    "more."
)
"""In its place, where a choice was charged before."""

BESIDE_FITTED = (
    "fitted", "queries", "task", "text_column", "model", "device", "dtype", "chat", "tokens", "max_characters",
    "truncate", "out", "limit", "resume", "as_json",
)  # fmt: skip
"""Parameters that may be typed beside a fitted file; everything else was settled when it was made."""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("answer")(answer)


def answer(
    context: typer.Context,
    queries: Annotated[str, typer.Option("--queries", help="Questions: .jsonl[.gz], .csv or .parquet.")],
    task: Annotated[
        str, typer.Option("--task", help="summarize, question, document-question, or your own .toml file.")
    ],
    private: o.Private = None,
    public: Annotated[
        str | None, typer.Option("--public", help="Public examples with their answers: .jsonl[.gz], .csv or .parquet.")
    ] = None,
    fitted: Annotated[
        str | None,
        typer.Option("--fitted", help="Answer with the examples that 'sotto fit --task TASK' chose, for free."),
    ] = None,
    method: o.MethodName = "auto",
    epsilon: o.Epsilon = "1",
    delta: o.Delta = None,
    adjacency: o.AdjacencyName = "replace-one",
    text_column: o.TextColumn = None,
    answer_column: o.AnswerColumn = None,
    unit: o.UnitName = None,
    ledger: o.LedgerPath = None,
    caller: o.CallerName = None,
    budget: o.BudgetText = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", help="Writes: embedded-lm, hf:NAME_OR_PATH, openai:MODEL@BASE_URL. See 'sotto models'."
        ),
    ] = "embedded-lm",
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    embedder: Annotated[
        str | None,
        typer.Option("--embedder", help="Embeds what was written, for methods that compare texts. Default: embedded."),
    ] = None,
    option: o.Options = None,
    experts: Annotated[
        int | None, typer.Option("--experts", min=1, help="Experts that write. Default: as many as use every unit.")
    ] = None,
    shots: Annotated[
        int | None,
        typer.Option(
            "--shots",
            min=1,
            help="Units that an expert sees. Default: 4; under add-remove without --experts 1.",
            show_default=False,
        ),
    ] = None,
    sampling: Annotated[
        str,
        typer.Option(
            "--sampling", help="all, or a fresh sample for every question: without-replacement or categorical."
        ),
    ] = "all",
    sampling_probability: Annotated[
        float | None,
        typer.Option(
            "--sampling-probability", help="With --sampling categorical: the chance that a unit is in a sample."
        ),
    ] = None,
    public_experts: Annotated[
        int, typer.Option("--public-experts", min=1, help="At most this many experts write from --public.")
    ] = 8,
    tokens: Annotated[int, typer.Option("--tokens", help="Longest text, in tokens.")] = 64,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    allow_non_private: o.AllowNonPrivate = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=NewFile(".partial", RUN), help="Answer rows: .jsonl, .csv or .parquet. Default: stdout."
        ),
    ] = None,
    out_fitted: Annotated[
        Path | None,
        typer.Option(
            "--out-fitted",
            parser=NewFile(".partial"),
            help="With --method choice: what was chosen, ending in .sotto. Default: OUT.sotto.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Answer only the first questions.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the price; charge nothing.")] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Resume an interrupted run. Only an answer that was being drawn is charged again; a finished run "
            "costs nothing.",
        ),
    ] = False,
    without_lost: Annotated[
        bool,
        typer.Option(
            "--without-lost",
            help="With --resume: leave out the answer that was being drawn instead of charging it again.",
        ),
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Answer a file of questions with texts, such as summaries, from private examples.

    Each expert writes an answer from private records; one answer is released for each question, at the price
    --epsilon. With --method choice the price is paid once, for public examples that records chose, and any number of
    answers written with them is free. Output rows hold id, value, method, epsilon, delta, adjacency and release_id.
    """
    from sottovoce.privacy.parameters import DELTA, EPSILON

    if resume and out is None and out_fitted is None:
        used = "used with --out, or with --out-fitted: it reads what an earlier run left there"
        raise ParameterError("--resume", GIVEN, used)
    if without_lost and not resume:
        raise ParameterError("--without-lost", GIVEN, "used with --resume: a new run has lost nothing")
    if out is not None and not dry_run:
        require_place(out, resume=resume)
        require_note_place(out)
        if not resume:
            require_no_run(out)
    price, slack = EPSILON.read("epsilon", epsilon), None if delta is None else DELTA.read("delta", delta)
    command = _Command(context.params)
    if fitted is not None:
        _require_beside_fitted()
        command.fitted, command.fitted_file = command.load_fitted(fitted), fitted
    ids, questions = command.questions()
    if fitted is None:
        command.fitted = command.chosen(questions, price, 1e-6 if slack is None else slack)
        if command.chooses and command.fitted is None:
            return  # the price was said
    with command.speaking_of_the_choice():
        _answer(command, ids, questions, price, slack)


def _answer(
    command: _Command, ids: Sequence[str], questions: Sequence[Query], price: float, delta: float | None
) -> None:
    """Answers, once it is settled which examples they follow."""
    given = command.given
    out, resume, as_json = given["out"], given["resume"], given["as_json"]
    answers = command.answers()
    if given["dry_run"]:
        _say_price(answers, questions, price, delta, as_json=as_json)
        return
    if resume:
        answers.require_known()
    run = _run_of(answers, questions, ids, price, delta, command.fitted)
    o.warn_of(command.setup.ledger if answers.charges else None, answers.conflicting_ledger)
    started, noted = time.perf_counter(), None
    if out is None:
        rows = _to_stdout(run, ids, price, delta, command, hold=as_json)
    else:
        finished = _finished_run(out, run, ids)
        if resume and out.exists():
            with naming_folder(out):
                rows = finished.rows()
            say(f"Nothing to do: {out} holds all answers of this run. Nothing was charged.")
            _say_what_is_left(out)
        else:
            again = resume and (not command.chooses or os.path.lexists(folder_of(out)))
            rows = _to_file(run, ids, out, command, finished, resume=again, redraw=not given["without_lost"])
        noted = finished.isolation
    _report(run, rows, command, time.perf_counter() - started, noted, as_json=as_json, shown=out is None)


class _Command:
    """What was typed, and what it names."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        from sottovoce.tasks import load_answer_task

        self.given = given
        shared = {name: value for name, value in given.items() if name not in ("sampling_probability", "shots")}
        self.setup = o.Setup.of(shared)
        self.task: AnswerTask = load_answer_task(given["task"])
        self.chooses = self.is_chosen_now = False
        self.fitted: Fitted | None = None
        self.fitted_file = ""
        self._name = ""

    @property
    def columns(self) -> dict[str, str]:
        """Which columns hold the fields of the task, where they have other names."""
        return self.setup.columns_of_answers(self.task)

    @property
    def longest(self) -> int:
        """Characters of the longest field that is read."""
        return 8_000 if self.setup.max_characters is None else self.setup.max_characters

    def questions(self) -> tuple[list[str], list[Query]]:
        """The ids of the questions, and their fields."""
        rows, selected = self._asked
        require_asked((rows, selected), self.given["queries"], beside=None)  # soonest, and where no record is read
        found = by_id(selected)
        return list(found), [self.task.query_of(row, rows.source) for row in found.values()]

    @cached_property
    def _asked(self) -> tuple[PublicRecords, PublicRecords]:
        """All rows of --queries, and those that are asked."""
        rows = self._public_rows(self.given["queries"])
        return rows, rows.first(self.given["limit"])

    def load_fitted(self, file: str) -> Fitted:
        """What an earlier choice left."""
        from sottovoce.answering.pairs import examples_of
        from sottovoce.fitting.fitted import Fitted

        fitted = Fitted.load(file)
        examples_of(fitted, self.task, file)
        fitted.certificate.require_sound(file)
        return fitted

    def chosen(self, questions: Sequence[Query], price: float, delta: float) -> Fitted | None:
        """What is chosen now, where a choice is paid for once; ``None`` where each answer is paid for."""
        from sottovoce.planner.long_answers import AUTO, CHOICE, resolve_long_answer

        given = self.given
        self._name = self.setup.method
        if self._name == AUTO:
            public = self._shown
            has_records = self.setup.private is not None
            found = resolve_long_answer(questions=len(questions), public=len(public), has_records=has_records)
            self._name = found.method
            say(f"Method {found}")
        if self._name != CHOICE:
            if given["out_fitted"] is not None:
                limit = f"left out: --method {self._name} pays for each answer; it is used by {CHOICE}"
                raise ParameterError("--out-fitted", str(given["out_fitted"]), limit)
            return None
        self.chooses = True
        return self._choose(questions, price, delta)

    def _choose(self, questions: Sequence[Query], price: float, delta: float) -> Fitted | None:
        """Chooses examples, or takes what an interrupted run chose; ``None`` where only the price was asked for."""
        from sottovoce.answering.pairs import fit_task, pool_of
        from sottovoce.cli.fit import fitter_of, run, say_price
        from sottovoce.fitting.fit import ENDING, Fitting

        for name in filter(is_typed, ("experts", "shots", "sampling", "sampling_probability", "public_experts")):
            raise ParameterError(flag_of_name(name), GIVEN, "left out: --method choice asks no expert")
        if self.setup.public is None:
            raise ParameterError("--public", None, "given: --method choice chooses among public examples")
        if self.setup.private is None:
            raise ParameterError("--private", None, "given: the method 'choice' chooses by private records")
        out, place = self.given["out"], self.given["out_fitted"]
        if place is None and out is None and not self.given["dry_run"]:
            raise ParameterError("--out-fitted", None, "given, or --out: what was chosen is paid for and kept")
        place = place or (out.with_name(out.name + ENDING) if out is not None else None)
        resume, self.fitted_file = self.given["resume"], str(place or "")
        records = self._records()
        options = o.MethodOptions(self.setup.option or ())
        with options.as_typed():
            fitting = Fitting(
                records,
                fit_task(self.task),
                epsilon=price,
                delta=delta,
                method=fitter_of(replace(self.setup, method=self._name)),
                embedder=self.given["embedder"],
                adjacency=self.setup.adjacency,
                pool=pool_of(self.task, self._shown),
                budget=self.setup.first_budget(records),
                ledger=self.setup.ledger,
                caller=self.setup.caller,
            )
        if resume and place is not None and place.exists():
            with naming_folder(place):
                fitted = self.load_fitted(str(place))
                fitting.require_own(fitted, str(place))
            if not self.given["dry_run"]:
                _say_what_is_left(place)
            return fitted
        if self.given["dry_run"]:
            say_price(fitting, as_json=self.given["as_json"])
            return None
        assert place is not None
        for left in filter(os.path.lexists, (out, folder_of(out)) if out is not None else ()):
            raise _in_the_way(left, place)
        setting = fitting.plan.setting
        self._require_answers(questions, fitting.plan.fitter.most_texts(setting) // setting.labels)
        fitted, _ = run(fitting, self.setup, place, resume=resume)
        self.is_chosen_now = True
        say(f"Chosen: {place}. Answers after it are free: sotto answer --fitted {place}")
        return fitted

    @contextmanager
    def speaking_of_the_choice(self) -> Iterator[None]:
        """Answers after a choice are free, and what ends them says that nothing was charged: it is told that the choice
        was, and what leads on.
        """
        try:
            yield
        except SottoError as error:
            if self.is_chosen_now and _NOTHING in str(error):
                error.args = (str(error).replace(_NOTHING, _PAID.format(self.fitted_file)), *error.args[1:])
            raise

    def _require_answers(self, questions: Sequence[Query], shots: int) -> None:
        """Refuses a writer that cannot answer the first question or the longest after as many examples as will be
        chosen, the longest of the public ones: before anything is paid for, and by public facts alone.
        """
        from sottovoce.answering.pairs import longest_of
        from sottovoce.errors import ModelError

        answers = self._after(longest_of(self.task, self._shown, shots), shots)
        longest = max(range(len(questions)), key=lambda index: sum(map(len, questions[index].values())), default=0)
        for index in sorted({0, longest}) if questions else ():
            try:
                answers.require_room_for_shots(questions[index])
            except ModelError as error:
                raise ModelError(f"Question {index + 1}: {error}", retryable=error.retryable) from error

    def answers(self) -> PrivateAnswers:
        """Reads the records and loads the models; nothing is charged."""
        from sottovoce.answering.pairs import examples_of
        from sottovoce.answering.session import PrivateAnswers
        from sottovoce.methods.answering.answerer import make_answerer, read_answerer_options, registered_answerers
        from sottovoce.methods.base import Reads
        from sottovoce.parameters import nearest
        from sottovoce.planner.long_answers import AUTO, CHOICE

        setup, chosen = self.setup, self.fitted
        if chosen is not None:
            examples = examples_of(chosen, self.task)
            return self._after(examples, len(examples))
        writer = self._writer
        if self._name not in registered_answerers():
            known = sorted({AUTO, CHOICE, *registered_answerers()})
            raise ParameterError("--method", self._name, f"one of {', '.join(known)}{nearest(self._name, known)}")
        options = o.MethodOptions(setup.option or ())
        with options.as_typed():
            method = make_answerer(self._name, **read_answerer_options(self._name, options.values))
        _require_used(method)
        reads = method.reads is not Reads.NOTHING
        if reads and setup.private is None:
            raise ParameterError("--private", None, f"given: the method {method.name!r} answers from private records")
        records = self._records() if reads else None
        if reads and (note := getattr(writer, "note", "")):
            say(note)
        with options.as_typed():
            return PrivateAnswers(
                records=records,
                task=self.task,
                public=self._shown,
                method=method,
                writer=writer,
                embedder=self.given["embedder"],
                adjacency=setup.adjacency,
                budget=setup.first_budget(records) if records is not None else None,
                ledger=setup.ledger,
                caller=setup.caller,
                experts=self.given["experts"],
                shots=self.given["shots"],
                sampling=self.given["sampling"],
                rate=self.given["sampling_probability"],
                public_experts=self.given["public_experts"],
                tokens=self.given["tokens"],
                allow_non_private=setup.allow_non_private,
            )

    @cached_property
    def _writer(self) -> Writer:
        """What writes answers, loaded."""
        setup = self.setup
        return load_writer(setup.model, **o.given(device=setup.device, dtype=setup.dtype, chat=setup.chat))

    def _after(self, public: PublicRecords | Sequence[AnswerExample], shots: int) -> PrivateAnswers:
        """Free answers after public examples, at most so many."""
        from sottovoce.answering.session import PrivateAnswers

        return PrivateAnswers(
            records=None,
            task=self.task,
            public=public,
            method="public-shots",
            writer=self._writer,
            shots=shots,
            tokens=self.given["tokens"],
        )

    @cached_property
    def _shown(self) -> PublicRecords | tuple[()]:
        """The public examples."""
        from sottovoce.privacy.ledger.known_records import require_public

        if self.setup.public is None:
            return ()
        shown = self._public_rows(self.setup.public)
        require_public(shown, f"--public {self.setup.public}")
        return shown

    def _records(self) -> PrivateRecords:
        """The private records, none of which is asked in clear."""
        from sottovoce.records.readers import read_private

        records = read_private(
            str(self.setup.private),
            unit=self.setup.unit,
            max_characters=self.longest,
            truncate=self.setup.truncate,
            columns=self.columns,
        )
        require_asked(self._asked, self.given["queries"], beside=records)
        return records

    def _public_rows(self, source: str) -> PublicRecords:
        from sottovoce.records.readers import read_public

        return read_public(source, max_characters=self.longest, truncate=self.setup.truncate, columns=self.columns)


def _in_the_way(left: Path, place: Path) -> InputError:
    """What is said where answers, or a run of some, stand where those of a choice would, and its file does not."""
    run = folder_of(place)
    if not os.path.lexists(run):
        return InputError(
            f"{left} is there, and {place} is not. If it holds answers after those examples, restore {place.name} "
            "and pass --resume; if not, name another --out. Nothing more was charged."
        )
    return InputError(
        f"{left} is there, and {run} holds an interrupted choice, which may be paid for. Neither was changed. To go on "
        f"with that choice, which is not charged twice, move {left.name} away (with a .run file that is of it) and "
        f"pass --resume; or name another --out, --out-fitted {place} and --resume. Nothing more was charged."
    )


def _say_what_is_left(place: Path) -> None:
    if told := beside_finished(place):
        say(told)


def _require_beside_fitted() -> None:
    """Refuses what was settled when a fitted file was made."""
    for parameter in running[-1].command.params:
        if is_typed(parameter.name) and parameter.name not in BESIDE_FITTED:
            raise ParameterError(flag_of_name(parameter.name), GIVEN, "left out with --fitted, whose file says it")


def _require_used(method: Answerer) -> None:
    """Refuses an option that was typed and that the method does not use."""
    from sottovoce.methods.answering.answerer import registered_answerers
    from sottovoce.methods.base import Reads

    kinds = registered_answerers()
    unused: tuple[str, ...] = ()
    why = ""
    if method.reads is Reads.NOTHING:
        unused, why = (*o.OF_RECORDS, *_OF_EXPERTS), "reads no private record"
    elif method.reads is Reads.EVERYTHING:
        unused, why = _OF_EXPERTS, "puts every record into one prompt"
    for name in filter(is_typed, unused):
        using = ", ".join(kind for kind, cls in kinds.items() if cls.reads is Reads.ONE_EXPERT_EACH)
        raise ParameterError(
            flag_of_name(name), GIVEN, f"left out: --method {method.name} {why}; it is used by {using}"
        )
    if is_typed("public_experts") and not method.least_candidates:
        using = ", ".join(kind for kind, cls in kinds.items() if cls.least_candidates)
        limit = f"left out: --method {method.name} compares no public answers; it is used by {using}"
        raise ParameterError("--public-experts", GIVEN, limit)
    if is_typed("delta") and method.private and not method.uses_delta:
        using = ", ".join(kind for kind, cls in kinds.items() if cls.needs_delta is True)
        limit = f"left out: --method {method.name} with these options has no delta of its own; it is used by {using}"
        raise ParameterError("--delta", GIVEN, limit)
    if is_typed("shots") and method.reads is not Reads.ONE_EXPERT_EACH and "pool" not in method.needs:
        raise ParameterError("--shots", GIVEN, f"left out: --method {method.name} shows no groups of examples")


def _run_of(
    answers: PrivateAnswers,
    questions: Sequence[Query],
    ids: Sequence[str],
    price: float,
    delta: float | None,
    fitted: Fitted | None,
) -> AnswerRun:
    from sottovoce.answering.run import AnswerRun

    return AnswerRun(answers, questions, epsilon=price, delta=delta, fitted=fitted, ids=ids)


def _finished_run(out: Path, run: AnswerRun, ids: Sequence[str]) -> FinishedRun:
    terms = run.terms
    del terms["question ids"]  # with the texts, below
    hidden = {name: str(terms.pop(name)) for name in _HIDDEN if name in terms}
    hidden["question texts"] = hash_of_questions(dict(zip(ids, run.questions, strict=True)))
    return FinishedRun(out, Run(terms, hidden))


def _announce(run: AnswerRun, left: Sequence[int], command: _Command, checkpoint: Checkpoint | None = None) -> None:
    """What the answers that are left cost, and how long they take; refuses what cannot be paid for."""
    answers, setup = run.answers, command.setup
    account = answers.account  # before a model works for it
    with progress() as bar:
        bar.add_task("working out the public side", total=None, rate="")
        plan = run.next_plan(left)
    if plan is None:
        return
    run.affords(plan, left, checkpoint)
    if checkpoint is not None and (again := len(set(run.lost_draws(checkpoint)) & set(left))):
        say(
            f"{again} of these answers began to be drawn before, and {checkpoint.folder} does not hold them whole: "
            "they are charged again. --without-lost leaves them out instead."
        )
    if answers.charges and account is not None:
        if setup.ledger is None and answers.ledger is not None:
            say(f"Ledger: {answers.ledger.path} (none was named; known by the records' fingerprint)")
        balance = account.balance()
        if setup.budget is None and balance.answers == 0 and balance.spent == 0:
            say(f"Budget: {balance.budget} in all for these records (change it on first use with --budget)")
        several = f"{len(left)} answer{'s' * (len(left) > 1)} at"
        say(f"Price: {several} {_price_in_words(answers, plan)}; {left_in_words(balance, plan.charge)}.")
    say_answering(answers, len(left))


def _price_in_words(answers: PrivateAnswers, plan: AnswerPlan) -> str:
    price = answers.price_of(plan)
    delta = f", delta {rounded_up(price.delta, 6)}" if price.delta else ""
    return f"epsilon {rounded_up(price.epsilon, 6)}{delta} each ({plan.setting.adjacency.value} adjacency)"


def _to_stdout(
    run: AnswerRun, ids: Sequence[str], price: float, delta: float | None, command: _Command, *, hold: bool
) -> list[dict[str, Any]]:
    """Answers as they come; what was paid for is printed whatever ends the run."""
    rows: list[dict[str, Any]] = []
    _announce(run, run.left(), command)
    with losing(LOST_WITHOUT_FILE):
        _print_answers(run, rows, ids, price, delta, command, hold=hold)
    return rows


def _print_answers(
    run: AnswerRun,
    rows: list[dict[str, Any]],
    ids: Sequence[str],
    price: float,
    delta: float | None,
    command: _Command,
    *,
    hold: bool,
) -> None:
    try:
        with progress() as bar:
            doing = bar.add_task("answering", total=len(ids), rate="")
            for row_id, release in zip(
                ids, run.answers.answers(run.questions, epsilon=price, delta=delta), strict=True
            ):
                rows.append(_row_of(release, row_id, command))
                run.last_terms = release.terms.under(run.last_terms.isolation) if run.last_terms else release.terms
                if not hold:
                    put(rows[-1])
                bar.update(doing, advance=1)
    except BaseException:
        if run.answers.unfinished:
            say(
                "An answer was charged and drawn, and could not be finished. It is lost with this command: what is "
                "drawn is kept with --out alone, and --resume goes on from there."
            )
        if hold and rows:
            say(f"{len(rows)} answers were paid before the run ended; they are on stdout, a row a line.")
            for row in rows:
                put(row)
        raise


def _to_file(
    run: AnswerRun,
    ids: Sequence[str],
    out: Path,
    command: _Command,
    finished: FinishedRun,
    *,
    resume: bool,
    redraw: bool,
) -> list[dict[str, Any]]:
    """Answers in a folder beside the file, which is written when all are there."""
    if not resume:
        _announce(run, run.left(), command)
    checkpoint = Checkpoint(out, run.terms, run.new_run_state(), resume=resume)
    try:
        if resume:
            finished.require_own()
        else:
            finished.begin()
        rows = checkpoint.carry_out(
            lambda: _drawn(run, ids, command, checkpoint, resume=resume, redraw=redraw),
            lambda content: finished.note(content, run.isolation(checkpoint)),
        )
    except LostDrawError:
        raise  # it says itself what leads on
    except BaseException:
        charged = run.answers.charges and run.was_charged(checkpoint.run_state)
        if told := checkpoint.stopped(charged=charged, lost="An answer that was being drawn is then charged again."):
            say(told)
        raise
    finally:
        checkpoint.close()  # an error keeps it alive, and its lock would keep a resume out
    if rows is None:
        say(f"{out} was drawn whole before, and is in its place now. Nothing was charged.")
        rows = finished.rows()
    return rows


def _drawn(
    run: AnswerRun, ids: Sequence[str], command: _Command, checkpoint: Checkpoint, *, resume: bool, redraw: bool
) -> tuple[list[dict[str, Any]], Output]:
    """The rows of all answers, drawn where they were not before."""
    if resume:
        _announce(run, run.left(checkpoint, redraw=redraw), command, checkpoint)
    rows = []
    with progress() as bar:
        doing = bar.add_task("answering", total=len(ids), rate="")
        for answered in run.results(checkpoint, redraw=redraw, on_answer=lambda _: bar.advance(doing)):
            if answered.release is not None:
                rows.append(_row_of(answered.release, ids[answered.number - 1], command))
    return rows, Output(encoded(rows, checkpoint.out, shown=True), left_out=run.left_out)


def _row_of(release: Release, row_id: str, command: _Command) -> dict[str, Any]:
    """An output row; of free answers, with the price of the examples that they follow."""
    if command.fitted is None:
        return release.as_row(row_id)
    from sottovoce.cli.predict import row_of

    return row_of(command.fitted, row_id, release.value)


def _report(
    run: AnswerRun,
    rows: Sequence[Mapping[str, Any]],
    command: _Command,
    seconds: float,
    noted: Isolation | None,
    *,
    as_json: bool,
    shown: bool,
) -> None:
    """Says what the answers are, and cost.

    Args:
        run: That gave them.
        rows: All of them, also of other processes.
        command: What was typed.
        seconds: That it took.
        noted: What can be said of the model for all of them, where that is noted beside their file.
        as_json: Whether for a program.
        shown: Whether the rows are shown with it.
    """
    from sottovoce.cli.predict import rests_on
    from sottovoce.models.base import Isolation

    answers, lost = run.answers, len(run.questions) - len(rows)
    terms, balance = run.last_terms, answers.balance
    terms = terms.of_rows(rows) if terms else None
    isolation = terms.isolation if terms else noted or answers.isolation
    if answers.charges and any(row["epsilon"] is None for row in rows):  # of an earlier build, in another process
        isolation = Isolation.NOT_VERIFIED
    lost_isolation = answers.charges and not isolation.holds
    if command.fitted is not None:
        rests = rests_on(command.fitted, command.fitted_file)
        _report_free(run, rows, command.fitted, rests, seconds, as_json=as_json, shown=shown)
        return
    summary = {
        "answers": len(rows),
        "lost": lost,
        "spent": {f"{name}_each": None if lost_isolation else rows[0][name] for name in ("epsilon", "delta")}
        if rows
        else None,
        "remaining": balance.as_dict() if balance else None,
        "method": answers.method.name,
        "model": answers.writer.name,
        "adjacency": answers.adjacency.value,
        "experts": answers.experts,
        "seconds": round(seconds, 3),
        "isolation": isolation.value,
        "statement": terms.statement if terms else "",
    }
    if as_json:
        _put_summary(summary, rows, shown=shown)
        return
    table_rows = [["answers", str(len(rows)) + (f", {lost} lost" if lost else "")]]
    table_rows += [["method", answers.method.name], ["model", answers.writer.name]]
    if balance is not None:
        table_rows.append(["ledger", used_in_words(balance) if answers.charges else "no guarantee; noted"])
    table_rows.append(["seconds", f"{seconds:.1f}"])
    say_table("", ["", ""], table_rows)
    if terms:
        say(terms.statement)


def _report_free(
    run: AnswerRun,
    rows: Sequence[Mapping[str, Any]],
    chosen: Fitted,
    rests: Mapping[str, Any],
    seconds: float,
    *,
    as_json: bool,
    shown: bool,
) -> None:
    """Of answers after examples that were paid for once."""
    from sottovoce.cli.predict import rests_on_in_words
    from sottovoce.release import epsilon_in_words, figures_of

    c, answers = chosen.certificate, run.answers
    summary = {
        "answers": len(rows),
        "lost": 0,
        "spent": {**figures_of(c), "by": "the choice, once"},
        "remaining": None,
        "method": c.method,
        "model": answers.writer.name,
        "adjacency": c.adjacency,
        "experts": None,
        "seconds": round(seconds, 3),
        "isolation": c.isolation,
        "certificate": rests,
        "statement": c.statement,
    }
    if as_json:
        _put_summary(summary, rows, shown=shown)
        return
    charged = f"nothing now; {epsilon_in_words(c)} by the choice"
    listed = [["answers", str(len(rows))], ["method", c.method], ["model", answers.writer.name], ["charged", charged]]
    say_table("", ["", ""], [*listed, ["seconds", f"{seconds:.1f}"]])
    say(rests_on_in_words(rests))
    say(c.statement)


def _put_summary(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, shown: bool) -> None:
    """The summary, with the answers where no file holds them."""
    if not shown:
        put(summary)
        return
    with losing(LOST_WITHOUT_FILE):
        put({**summary, "rows": list(rows)})


def _say_price(
    answers: PrivateAnswers, questions: Sequence[Query], price: float, delta: float | None, *, as_json: bool
) -> None:
    """What the answers would cost."""
    from sottovoce.privacy.events import describe

    plan = answers.plan(price, delta, answers.public_side(questions[0]))
    each = answers.price_of(plan) if answers.charges else None
    values = {
        "method": plan.answerer.name,
        "parameters": dict(plan.parameters),
        "answers": len(questions),
        "epsilon_each": each.epsilon if each else None,
        "delta_each": each.delta if each else None,
        "adjacency": plan.setting.adjacency.value,
        "experts": plan.setting.experts,
        "event": describe(plan.event),
        "charge": describe(plan.charge),
    }
    if as_json:
        put(values)
        return
    shown = {**values}
    if each:
        shown |= {"epsilon_each": rounded_up(each.epsilon, 6), "delta_each": rounded_up(each.delta, 6)}
    shown["parameters"] = ", ".join(f"{name} {value}" for name, value in plan.parameters.items())
    table("", ["", ""], [[name, str(value)] for name, value in shown.items()])
    say_answering(answers, len(questions))
    say("Nothing was charged.")
