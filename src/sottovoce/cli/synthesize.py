"""``sotto synthesize``: private records in, synthetic rows and a certificate out, paid for once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import left_in_words, load_stepper, progress, put, say, say_table, table
from sottovoce.cli.foresight import say_writing
from sottovoce.cli.outputs import NewFile
from sottovoce.files.checkpoint import CERTIFICATE, require_place
from sottovoce.files.tables import ENDINGS, LINES
from sottovoce.privacy.numbers import rounded_up

if TYPE_CHECKING:
    from sottovoce.files.checkpoint import Checkpoint, Output
    from sottovoce.fitting.fit import Fitting
    from sottovoce.fitting.fitted import Fitted
    from sottovoce.generation import GenerationTemplate
    from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan
    from sottovoce.synthesis.certificate import Certificate
    from sottovoce.synthesis.config import SynthesisConfig
    from sottovoce.synthesis.synthesizer import Synthesizer

_OF_TOKENS = (
    "tokens", "texts_per_batch", "experts", "max_private_tokens", "max_records", "schema", "grammar", "without_lost",
    "chat",
)  # fmt: skip
"""Options of methods that write token by token from records."""
_FLAGS = {"max_private_tokens": "--inside-tokens"}


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("synthesize")(synthesize)


def synthesize(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            parser=NewFile(".partial", CERTIFICATE),
            help="The rows: .jsonl, .csv or .parquet (with --schema .jsonl). The certificate goes beside them.",
        ),
    ],
    private: o.Private = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    method: o.NamedMethod = "invisible-ink",
    per_label: Annotated[int, typer.Option("--per-label", help="Texts of each label.")] = 4,
    tokens: Annotated[int, typer.Option("--tokens", help="Longest text, in tokens.")] = 64,
    texts_per_batch: Annotated[
        int | None,
        typer.Option(
            "--texts-per-batch", help="Texts that each batch of records writes. Default: all texts of its label."
        ),
    ] = None,
    experts: Annotated[
        int | None,
        typer.Option("--experts", help="Units a batch is expected to have; needed under add-remove."),
    ] = None,
    max_private_tokens: Annotated[
        int, typer.Option("--inside-tokens", help="Most tokens of a unit's records in a prompt.")
    ] = 96,
    max_records: Annotated[int, typer.Option("--max-records", help="Most records of one unit that are shown.")] = 4,
    epsilon: Annotated[str, typer.Option("--epsilon", help="Price of the whole file.")] = "1",
    delta: Annotated[str, typer.Option("--delta", help="Delta of the whole file.")] = "1e-6",
    adjacency: o.AdjacencyName = "replace-one",
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    unit: o.UnitName = None,
    public: o.Public = None,
    candidates: o.Candidates = None,
    writer: o.WriterName = None,
    ledger: o.LedgerPath = None,
    caller: o.CallerName = None,
    budget: o.BudgetText = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    option: o.Options = None,
    clip: o.Clip = None,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    noise: o.Noise = None,
    sampling_probability: Annotated[
        float | None,
        typer.Option(
            "--sampling-probability",
            help="Short for -o fresh=token -o sampling_rate=: chance of each unit to have a say in a token, drawn "
            "afresh; with --adjacency add-remove and --noise em or exponential.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="Write JSON objects that meet this JSON schema; its properties are the fields."),
    ] = None,
    grammar: Annotated[
        bool,
        typer.Option("--grammar", help="Permit only tokens that fit the schema; free, since the schema is public."),
    ] = False,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the price; read nothing and charge nothing.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume an interrupted run. Only a round that was being drawn is charged again."),
    ] = False,
    without_lost: Annotated[
        bool,
        typer.Option(
            "--without-lost",
            help="With --resume: leave out the round that was being drawn instead of charging it again.",
        ),
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Write rows like the private ones, for any use, at one price for the whole file.

    Each line of OUT is a JSON object with the task's fields and 'label'; OUT.certificate.json says what the rows
    cost and what is guaranteed. With --method choice, evolve or label-public the rows are public texts that records
    chose or labelled, or a model's variations of some. Use them with 'sotto classify --demonstrations OUT'; check them
    with 'sotto verify certificate'.
    """
    from sottovoce.errors import ParameterError
    from sottovoce.generation import GenerationTemplate
    from sottovoce.methods.fitting.fitter import registered_fitters
    from sottovoce.privacy.parameters import DELTA, EPSILON
    from sottovoce.synthesis.config import SynthesisConfig

    price, slack = EPSILON.read("epsilon", epsilon), DELTA.read("delta", delta)
    if without_lost and not resume:
        raise ParameterError("--without-lost", without_lost, "given with --resume: a new run has lost nothing")
    if not dry_run:
        require_place(out, resume=resume, endings=LINES if schema else ENDINGS)
    setup = o.Setup.of(context.params)
    if setup.method in registered_fitters():
        _fit_rows(context, setup, out, price, slack)
        return
    for name in ("public", "candidates", "writer"):
        if (value := getattr(setup, name)) is not None:
            raise ParameterError(f"--{name}", value, "left out: it is for --method choice, evolve and label-public")
    if schema and setup.text_column is not None:
        limit = "left out with --schema, whose properties are the fields"
        raise ParameterError("--text-column", setup.text_column, limit)
    if grammar and not schema:
        raise ParameterError("--grammar", grammar, "given with --schema, which it keeps to")
    the_task = setup.load_task() if setup.task or setup.labels or not schema else None
    writing = (
        GenerationTemplate.of_schema(schema, the_task, grammar=grammar)
        if schema
        else GenerationTemplate.of(setup.load_task())
    )
    if setup.chat:
        writing = writing.asking()
    decoder = _decoder(setup)
    order = SynthesisConfig(per_label, tokens, texts_per_batch, experts, max_private_tokens, max_records)
    if dry_run:
        _dry_run(decoder, order, writing, price, slack, setup, as_json)
        return
    synthesizer = _writer(decoder, order, writing, price, slack, setup, resume=resume)
    _run(synthesizer, out, LINES if schema else ENDINGS, resume=resume, redraw=not without_lost, as_json=as_json)


def _fit_rows(context: typer.Context, setup: o.Setup, out: Path, price: float, delta: float) -> None:
    """Rows of a fit that leaves texts."""
    from sottovoce.cli.fit import fitter_of, fitting_of, run, say_price
    from sottovoce.errors import ParameterError

    typed = context.params
    for name in _OF_TOKENS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            limit = f"left out: --method {setup.method} writes no text from records, token by token"
            raise ParameterError(_FLAGS.get(name, f"--{name.replace('_', '-')}"), typed[name], limit)
    for pair in setup.option or ():
        if pair.partition("=")[0].strip() in ("k", "texts"):
            raise ParameterError("--option", pair, "left out: --per-label says how many texts")
    fitter = fitter_of(setup).with_texts(typed["per_label"], len(setup.load_task().labels))
    fitting = fitting_of(setup, fitter, price, delta, rows=True)
    if typed["dry_run"]:
        say_price(fitting, as_json=typed["as_json"])
        return
    fitted, seconds = run(fitting, setup, out, resume=typed["resume"])
    _report_rows(fitting, fitted, out, seconds, as_json=typed["as_json"])


def _report_rows(fitting: Fitting, fitted: Fitted, out: Path, seconds: float, *, as_json: bool) -> None:
    from sottovoce.fitting.rows import rows_of
    from sottovoce.release import figures_of

    certificate, proof = fitted.certificate, out.with_name(out.name + CERTIFICATE)
    rows = len(rows_of(fitted))
    summary = {
        "rows": rows,
        **figures_of(certificate),
        "method": certificate.method,
        "model": certificate.model,
        "remaining": fitting.balance.as_dict(),
        "seconds": round(seconds, 3),
        "certificate": str(proof),
        "statement": certificate.statement,
    }
    if as_json:
        put(summary)
        return
    shown = [["rows", str(rows)], ["method", certificate.method], ["model", certificate.model]]
    say_table("", ["", ""], [*shown, ["seconds", f"{seconds:.1f}"]])
    say(certificate.statement)
    say(f"Rows: {out}. Certificate: {proof.name}. To use them: sotto classify --demonstrations {out} ...")


def _decoder(setup: o.Setup) -> Decoder:
    from sottovoce.methods.decoding.decoder import make_decoder, read_decoder_options

    rate = setup.shorthands.get("sampling_probability")
    meanings = {"sampling_probability": {"fresh": "token", "sampling_rate": rate}}
    options = o.MethodOptions(setup.option or (), setup.shorthands, meanings)
    with options.as_typed():
        return make_decoder(setup.method, **read_decoder_options(setup.method, options.values))


def _writer(
    decoder: Decoder,
    order: SynthesisConfig,
    writing: GenerationTemplate,
    price: float,
    delta: float,
    setup: o.Setup,
    *,
    resume: bool,
) -> Synthesizer:
    from sottovoce.errors import ParameterError
    from sottovoce.privacy.ledger.opening import require_known
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.records.readers import read_private
    from sottovoce.synthesis.synthesizer import Synthesizer

    if setup.private is None:
        raise ParameterError("--private", None, "given: synthetic rows are written from private records")
    longest = setup.longest(writing.task) if writing.task else setup.max_characters
    records = read_private(
        setup.private,
        unit=setup.unit,
        max_characters=longest,
        truncate=setup.truncate,
        columns=setup.columns(writing.task),
        labels=writing.task.labels if writing.task else None,
    )
    if resume:
        require_known(records, Adjacency.parse(setup.adjacency), setup.ledger, setup.caller)
    writer = Synthesizer(
        records,
        writing,
        order,
        epsilon=price,
        delta=delta,
        method=decoder,
        model=load_stepper(setup.model, **o.given(device=setup.device, dtype=setup.dtype, chat=setup.chat)),
        adjacency=setup.adjacency,
        budget=setup.first_budget(records),
        ledger=setup.ledger,
        caller=setup.caller,
    )
    o.warn_of(setup.ledger, writer.conflicting_ledger)
    return writer


def _run(writer: Synthesizer, out: Path, endings: Sequence[str], *, resume: bool, redraw: bool, as_json: bool) -> None:
    from sottovoce.errors import LostDrawError
    from sottovoce.files.checkpoint import Checkpoint, beside_finished
    from sottovoce.synthesis.synthesizer import finished

    started = time.perf_counter()
    if resume and (done := finished(writer, out)) is not None:
        say(f"Nothing to do: {out} holds the rows of this run. Nothing was charged.")
        if told := beside_finished(out):
            say(told)
        _report(writer, out, done, None, 0.0, as_json=as_json)
        return
    if not resume:
        writer.affords()
    say_writing(writer)
    checkpoint = Checkpoint(out, writer.terms_beside, writer.new_run_state(), resume=resume, endings=endings)
    try:
        made = checkpoint.carry_out(lambda: _drawn(writer, checkpoint, redraw=redraw))
    except LostDrawError:
        raise  # it says itself what leads on
    except BaseException:
        lost = "A round that was being drawn is then charged again."
        if told := checkpoint.stopped(charged=writer.was_charged(checkpoint.run_state), lost=lost):
            say(told)
        raise
    finally:
        checkpoint.close()  # an error keeps it alive, and its lock would keep a resume out
    if made is not None:
        certificate, counted = made
        _report(writer, out, certificate, counted, time.perf_counter() - started, as_json=as_json)
    elif (done := finished(writer, out)) is not None:
        say(f"{out} was drawn whole before, and is in its place now. Nothing was charged.")
        _report(writer, out, done, None, 0.0, as_json=as_json)


def _drawn(
    writer: Synthesizer, checkpoint: Checkpoint, *, redraw: bool
) -> tuple[tuple[Certificate, tuple[int, int]], Output]:
    """The certificate, how many texts were no rows, how many tokens were written, and the output."""
    from sottovoce.files.checkpoint import Output

    started = time.perf_counter()
    rows: list[Any] = []
    unreadable = written = 0
    with progress() as bar:
        total = writer.order.rounds * len(writer.labels) * writer.order.tokens
        doing = bar.add_task("writing", total=total, rate="")

        def advance(tokens: int) -> None:
            done = bar.tasks[0].completed + tokens
            bar.update(doing, completed=done, rate=f"{done / (time.perf_counter() - started):.0f} tokens/s")

        for ended in writer.rounds(checkpoint, on_token=advance, redraw=redraw):
            rows += ended.rows
            unreadable, written = unreadable + ended.unreadable, written + ended.tokens
            if ended.again:
                advance(len(writer.labels) * writer.order.tokens)
    for number in writer.left_out:
        say(f"Round {number} is not whole in {checkpoint.folder}: its rows are left out, and paid.")
    certificate = writer.certificate(checkpoint.run_state, rows)
    output = Output.of_rows(rows, checkpoint.out, certificate.text, writer.left_out)
    return (certificate, (unreadable, written)), output


def _report(
    writer: Synthesizer,
    out: Path,
    certificate: Certificate,
    counted: tuple[int, int] | None,
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """What was written: texts that are no rows and tokens are counted as they come, and of a finished run unknown."""
    from sottovoce.release import figures_of

    proof, (unreadable, written) = out.with_name(out.name + CERTIFICATE), counted or (None, None)
    summary = {
        "rows": certificate.rows,
        "unreadable": unreadable,
        "tokens": written,
        **figures_of(certificate),
        "method": certificate.method,
        "model": certificate.model,
        "remaining": writer.balance.as_dict(),
        "seconds": round(seconds, 3),
        "certificate": str(proof),
        "statement": certificate.statement,
    }
    if as_json:
        put(summary)
        return
    shown = [
        ["rows", str(certificate.rows) + (f", {unreadable} more could not be read as rows" if unreadable else "")],
        ["method", certificate.method],
        ["model", certificate.model],
        ["ledger", left_in_words(writer.balance, writer.plan.event)],
    ]
    if written is not None:
        shown.append(["tokens", f"{written}, {written / seconds:.0f} a second"])
    say_table("", ["", ""], shown)
    say(certificate.statement)
    say(f"Rows: {out}. Certificate: {proof.name}. To use them: sotto classify --demonstrations {out} ...")


def _dry_run(
    decoder: Decoder,
    order: SynthesisConfig,
    writing: GenerationTemplate,
    price: float,
    delta: float,
    setup: o.Setup,
    as_json: bool,
) -> None:
    """The price under every adjacency that it can be said for, from the command line alone."""
    from sottovoce.errors import ParameterError
    from sottovoce.methods.base import Price
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.synthesis.config import plan_of

    if order.experts is None:
        raise ParameterError("--experts", None, "given with --dry-run, which reads no file: units a batch may have")
    sampled = getattr(decoder, "fresh", "never") != "never"  # amplified under add-remove alone
    adjacencies = [Adjacency.ADD_REMOVE] if sampled else [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]
    plans = [
        plan_of(decoder, order, Price(price, delta), adjacency, setup.unit or "record", order.experts)
        for adjacency in adjacencies
    ]
    rows = [_row(plan) for plan in plans]
    if as_json:
        put({"plans": rows, "texts": order.per_label * len(writing.labels)})
        return
    names = [field.name for field in fields(decoder)]
    shown = ("adjacency", "epsilon", "delta", "eta")
    table(
        f"{order.per_label} texts of {len(writing.labels)} labels each, {order.tokens} tokens, {order.experts} experts",
        [*shown, *names],
        [[*(_shown(row[key]) for key in shown), *(str(row["parameters"][name]) for name in names)] for row in rows],
    )
    say("Nothing was read and nothing was charged.")


def _shown(value: object) -> str:
    return rounded_up(value, 6) if isinstance(value, float) else str(value)


def _row(plan: DecodingPlan) -> dict[str, Any]:
    return {
        "adjacency": plan.setting.adjacency.value,
        "epsilon": plan.report.epsilon,
        "delta": plan.report.delta,
        "eta": plan.eta,
        "parameters": dict(plan.parameters),
        "sentence": plan.sentence,
    }
