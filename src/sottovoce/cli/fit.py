"""``sotto fit``: private records in, one fitted file out, paid for once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import load_scorer, load_stepper, progress, put, say, say_table, table, used_in_words
from sottovoce.cli.outputs import NewFile
from sottovoce.privacy.numbers import rounded_up

if TYPE_CHECKING:
    from sottovoce.experts.encoded import Engine
    from sottovoce.files.checkpoint import Checkpoint
    from sottovoce.fitting.fit import Fitting
    from sottovoce.fitting.fitted import Fitted
    from sottovoce.methods.fitting.fitter import Fitter
    from sottovoce.models.stepper import Stepper
    from sottovoce.tasks import Query, Task


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("fit")(fit)


def fit(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", parser=NewFile(".partial"), help="The fitted file, ending in .sotto.")],
    private: o.Private = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    method: o.MethodName = "auto",
    epsilon: Annotated[str, typer.Option("--epsilon", help="Price of the whole fit.")] = "4",
    delta: Annotated[str, typer.Option("--delta", help="Delta of the whole fit.")] = "1e-6",
    public: o.Public = None,
    candidates: o.Candidates = None,
    writer: o.WriterName = None,
    adjacency: o.AdjacencyName = "replace-one",
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    answer_column: o.AnswerColumn = None,
    unit: o.UnitName = None,
    ledger: o.LedgerPath = None,
    caller: o.CallerName = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="The whole budget, on first use: EPSILON,DELTA[,failure=DELTA][,alpha=ORDER]. Default: this fit's.",
        ),
    ] = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    option: o.Options = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help="Where records are embedded: local, or ray (the cluster of RAY_ADDRESS, else this machine).",
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="With --engine ray: processes, one core each. Default: all cores."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the price; charge nothing.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run; its charge is used.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Learn from private examples once, and answer any number of questions for free.

    OUT holds what was learned, with noise, and what it cost. 'sotto predict OUT' and 'sotto ask --fitted OUT' answer
    from it without a ledger and without a private record. For a task whose answers are texts, such as summarize, OUT
    holds public examples that records chose, for 'sotto answer --fitted OUT'.
    """
    from sottovoce.fitting.auto import AUTO
    from sottovoce.privacy.parameters import DELTA, EPSILON

    price, slack = EPSILON.read("epsilon", epsilon), DELTA.read("delta", delta)
    setup = o.Setup.of(context.params)
    fitter = _chooser(setup) if setup.answer_task() else AUTO if setup.method == AUTO else fitter_of(setup)
    with progress() as bar:
        bar.add_task("looking through the records", total=None, rate="")
        fitting = fitting_of(setup, fitter, price, slack, engine=_engine(engine, workers))
    if dry_run:
        say_price(fitting, as_json=as_json)
        return
    fitted, seconds = run(fitting, setup, out, resume=resume)
    _report(fitting, fitted, out, seconds, as_json=as_json)


def _chooser(setup: o.Setup) -> Fitter:
    """What chooses examples, for a task whose answers are texts."""
    from sottovoce.errors import ParameterError
    from sottovoce.fitting.auto import AUTO
    from sottovoce.planner.long_answers import CHOICE

    if setup.method not in (AUTO, CHOICE):
        raise ParameterError("--method", setup.method, f"{CHOICE}: answers to the task {setup.task!r} are texts")
    return fitter_of(replace(setup, method=CHOICE))


def run(fitting: Fitting, setup: o.Setup, out: Path, *, resume: bool) -> tuple[Fitted, float]:
    """Makes a fit and writes its file; what it left, and the seconds it took."""
    from sottovoce.errors import LostDrawError
    from sottovoce.files.checkpoint import beside_finished
    from sottovoce.fitting.fit import begun, finished

    if resume and (done := finished(fitting, out)) is not None:
        say(f"Nothing to do: {out} holds what this run fitted. Nothing was charged.")
        if told := beside_finished(out):
            say(told)
        return done, 0.0
    with begun(fitting, out, resume=resume) as checkpoint:
        o.warn_of(setup.ledger, fitting.conflicting_ledger)
        is_kept = checkpoint.is_kept
        if not is_kept:
            _announce(fitting, setup)
        started = time.perf_counter()
        try:
            fitted = _finished(fitting, checkpoint)
            if is_kept:
                say(f"{out} was drawn whole before, and is in its place now. Nothing was charged.")
            return fitted, time.perf_counter() - started
        except LostDrawError:
            raise  # it says itself what leads on
        except BaseException:
            lost = "If it was being drawn and is not whole on the disk, that draw is lost, and a new run is charged."
            if told := checkpoint.stopped(charged=fitting.was_charged(checkpoint.run_state), lost=lost):
                say(told)
            raise


def _finished(fitting: Fitting, checkpoint: Checkpoint) -> Fitted:
    """The fit, made while a bar shows how many units were read."""
    from sottovoce.fitting.fit import finish

    with progress() as bar:
        doing = bar.add_task("reading", total=fitting.units, rate="")

        def advance(units: int) -> None:
            bar.advance(doing, units)  # what a resumed run has behind it comes first, and is not in the speed
            bar.update(doing, rate=f"{bar.tasks[0].speed or 0:.0f}/s")

        # A private number of units is not shown: who looks on gets the spinner alone.
        return finish(fitting, checkpoint, on_units=None if fitting.units is None else advance)


def _engine(engine: str, workers: int | None) -> Engine | str:
    """The engine that was named, with so many workers."""
    from sottovoce.errors import ParameterError

    if engine != "ray":
        if workers is not None:
            raise ParameterError("--workers", workers, "left out without --engine ray: this process uses every core")
        return engine
    from sottovoce.experts.ray_engine import RayEngine

    return RayEngine(workers)


def fitting_of(
    setup: o.Setup,
    fitter: Fitter | str,
    price: float,
    delta: float,
    *,
    engine: Engine | str = "local",
    rows: bool = False,
) -> Fitting:
    """Reads the records and prices the fit; nothing is charged."""
    from sottovoce.answering.pairs import fit_task
    from sottovoce.errors import ParameterError
    from sottovoce.fitting.auto import AUTO
    from sottovoce.fitting.fit import Fitting, suited_to
    from sottovoce.methods.fitting.fitter import Fitter
    from sottovoce.privacy.ledger.budget import Budget
    from sottovoce.records.readers import read_private
    from sottovoce.records.sealed import RECORD_UNIT

    answers = setup.answer_task()
    task = fit_task(answers) if answers else setup.load_task()
    if setup.private is None:
        raise ParameterError("--private", None, "given: a fit learns from private records")
    if answers and setup.public is None:
        raise ParameterError("--public", None, "given: examples are chosen among public ones, with their answers")
    columns = setup.columns_of_answers(answers) if answers else setup.columns(task)
    pool = _pool(setup.public, task, setup, columns) if setup.public is not None else None
    records = read_private(
        setup.private,
        unit=setup.unit,
        max_characters=setup.longest(task),
        truncate=setup.truncate,
        stream=True,
        columns=columns,
        labels=task.labels,
    )
    if records.held and records.unit != RECORD_UNIT:
        say(f"All rows are held in memory: those of one {records.unit!r} do not stand together. Sort the file by it.")
    typed = o.MethodOptions(setup.option or (), setup.shorthands)
    answering = load_scorer(setup.model, **o.given(device=setup.device, dtype=setup.dtype))
    if note := getattr(answering, "note", ""):
        say(note)
    if isinstance(fitter, Fitter) and "prior_weight" not in typed.values:
        fitter = suited_to(fitter, answering)
    with typed.as_typed():
        fitting = Fitting(
            records,
            task,
            epsilon=price,
            delta=delta,
            method=fitter,
            options=typed.values if fitter == AUTO else None,
            model=answering,
            adjacency=setup.adjacency,
            pool=pool,
            candidates=setup.candidates,
            writer=_writer(setup),
            rows=rows,
            budget=Budget.parse(setup.budget) if setup.budget is not None else None,
            ledger=setup.ledger,
            caller=setup.caller,
            engine=engine,
        )
    if fitting.advice:
        say(f"Method {fitting.advice}")
    return fitting


def _writer(setup: o.Setup) -> Stepper | None:
    """The model that writes, where one was named; device and dtype are for models that have some."""

    if setup.writer is None:
        return None
    placed = o.given(device=setup.device, dtype=setup.dtype) if ":" in setup.writer else {}
    return load_stepper(setup.writer, **placed)


def fitter_of(setup: o.Setup) -> Fitter:
    """The fitter with the options that were typed."""
    from sottovoce.methods.fitting.fitter import make_fitter, read_fitter_options

    options = o.MethodOptions(setup.option or (), setup.shorthands)
    with options.as_typed():
        return make_fitter(setup.method, **read_fitter_options(setup.method, options.values))


def _pool(public: str, task: Task, setup: o.Setup, columns: Mapping[str, str]) -> list[Query]:
    """Public texts as questions of the task; labels that they may have are not read."""
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public

    rows = read_public(public, max_characters=setup.longest(task), truncate=setup.truncate, columns=columns)
    require_public(rows, f"--public {public}")
    return [task.query_of(row, rows.source) for row in rows]


def _announce(fitting: Fitting, setup: o.Setup) -> None:
    if setup.ledger is None:
        say(f"Ledger: {fitting.ledger.path} (none was named; known by the records' fingerprint)")
    if setup.budget is None and fitting.balance.answers == 0 and fitting.balance.spent == 0:
        say(f"Budget: {fitting.balance.budget} in all for these records (change it on first use with --budget)")


def say_price(fitting: Fitting, *, as_json: bool) -> None:
    """What a fit would cost."""
    from sottovoce.privacy.events import describe

    plan = fitting.plan
    values = {
        "method": plan.fitter.name,
        "parameters": dict(plan.parameters),
        "epsilon": plan.epsilon,
        "delta": plan.report.delta,
        "adjacency": plan.setting.adjacency.value,
        "event": describe(plan.event),
        "charge": describe(plan.charge),
    }
    if as_json:
        put(values)
        return
    shown = {**values, "epsilon": rounded_up(plan.epsilon, 6), "delta": rounded_up(plan.report.delta, 6)}
    shown["parameters"] = ", ".join(f"{name} {value}" for name, value in plan.parameters.items())
    table("", ["", ""], [[name, str(value)] for name, value in shown.items()])
    say("Nothing was charged.")


def _report(fitting: Fitting, fitted: Fitted, out: Path, seconds: float, *, as_json: bool) -> None:
    from sottovoce.release import figures_of

    certificate = fitted.certificate
    summary: dict[str, Any] = {
        "method": fitted.method,
        "model": fitted.model,
        **figures_of(certificate),
        "unit": certificate.unit,
        "labels": len(fitted.task.labels),
        "remaining": fitting.balance.as_dict(),
        "seconds": round(seconds, 3),
        "out": str(out),
        "statement": certificate.statement,
    }
    if as_json:
        put(summary)
        return
    rows = [[name, str(summary[name])] for name in ("method", "model", "labels")]
    rows.append(["ledger", used_in_words(fitting.balance)])
    rows.append(["seconds", f"{seconds:.1f}"])
    say_table("", ["", ""], rows)
    say(certificate.statement)
    say(f"Answers are free from now on: {_free(fitted, out)} --queries FILE")


def _free(fitted: Fitted, out: Path) -> str:
    from sottovoce.answering.pairs import is_of_pairs

    return f"sotto answer --fitted {out} --task TASK" if is_of_pairs(fitted) else f"sotto predict {out}"
