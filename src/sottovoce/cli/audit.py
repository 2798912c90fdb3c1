"""``sotto audit``: how much a method, a prompt or a system gives away, with bounds that hold and a stated power."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from sottovoce.cli import options as o
from sottovoce.cli.console import progress, put, put_text, table
from sottovoce.cli.outputs import NewFile
from sottovoce.errors import GIVEN, ParameterError
from sottovoce.privacy.numbers import rounded_down, rounded_up

if TYPE_CHECKING:
    from sottovoce.audits.game.games import LabelGame
    from sottovoce.audits.report import Report
    from sottovoce.methods.base import Method
    from sottovoce.models.base import LabelScorer, Writer
    from sottovoce.records.sealed import PublicRecords, Row
    from sottovoce.tasks import Query, Task

FITTED: Final = "fitted"
INJECTIONS: Final = ("injection", "if-then")
DEFENCES: Final = ("L0", "L1", "L2", "L3")
DELTA: Final = 1e-6
"""Of one answer, where the noise needs one and none was named."""
_UTILITY: Final = 60
"""Labelled questions that utility is measured on, of those that are given."""
_UNPROTECTED: Final = "every record stands in the prompt, and nothing stands between the records and the text"
_SEED: Final = 1
_CLEAR: Final = ",unencrypted=yes"
"""Behind the address of an endpoint, as behind that of a model."""

Synthetic = Annotated[
    bool,
    typer.Option("--synthetic", help="The records are made up or public, so that nobody's privacy depends on them."),
]
Records = Annotated[
    int | None,
    typer.Option(
        "--records", min=1, help="Play with this many of the records. Default: 4; the fewer, the more each weighs."
    ),
]
Runs = Annotated[int | None, typer.Option("--runs", min=2, help="Answers of each data set that certify.")]
Seed = Annotated[int, typer.Option("--seed", help="Of canaries, changed records and noise.")]
ReportFile = Annotated[
    Path | None, typer.Option("--report", parser=NewFile(), help="A self-contained HTML page that explains itself.")
]
Junit = Annotated[Path | None, typer.Option("--junit", parser=NewFile(), help="The verdict as JUnit XML.")]
Sarif = Annotated[Path | None, typer.Option("--sarif", parser=NewFile(), help="The verdict as SARIF.")]
Canaries = Annotated[
    list[str] | None,
    typer.Option(
        "--canary", help="hex, unigram or false-fact; may be repeated. Default: all three.", show_default=False
    ),
]
CanaryTexts = Annotated[
    list[str] | None,
    typer.Option("--canary-text", help="A canary of your own; may be repeated.", show_default=False),
]
Questions = Annotated[
    list[str] | None,
    typer.Option(
        "--question",
        help="input-output, if-then, if-then-not-explicit or injection; may be repeated. Default: all four.",
        show_default=False,
    ),
]
Wordings = Annotated[
    list[str] | None,
    typer.Option(
        "--question-text",
        help="A question of your own, with {secret}, {text}, {label} and {other} or none; may be repeated.",
        show_default=False,
    ),
]
Insertions = Annotated[
    list[str] | None,
    typer.Option(
        "--insertion",
        help="append or replace (test replace-one), add (add-remove), blank (zero-out); may be repeated.",
        show_default=False,
    ),
]
Defences = Annotated[
    list[str] | None,
    typer.Option(
        "--defence",
        help="Compare with L0 (none), L1, L2 (prompts), L3 (judged) or scrubber; may be repeated.",
        show_default=False,
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint", help="Audit a system: the address of an OpenAI-compatible server, up to /v1."),
]
WriterOption = Annotated[
    str | None,
    typer.Option(
        "--writer", help="Audit a model that writes, with every record in its prompt: embedded-lm, hf:NAME_OR_PATH."
    ),
]
EndpointModel = Annotated[str, typer.Option("--endpoint-model", help="With --endpoint: the model's name there.")]


class AuditGroup(TyperGroup):
    """A file that ``sotto fit`` wrote stands in the place of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Takes a file for an argument of ``fitted``."""
        if args and args[0] not in self.commands and (args[0].endswith(".sotto") or os.path.isfile(args[0])):
            args = [FITTED, *args]
        return super().resolve_command(ctx, args)


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(cls=AuditGroup, no_args_is_help=True, help="How much a method or a system gives away.")
    group.command("canary")(put_canaries)
    group.command("injection")(inject)
    group.command("membership")(membership)
    group.command("extract")(extract)
    group.command("exact")(exact)
    group.command("plan")(plan)
    group.command(FITTED)(fitted)
    app.add_typer(group, name="audit")


def put_canaries(
    context: typer.Context,
    private: o.Private = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    method: o.NamedMethod = "poe",
    epsilon: o.Epsilon = "1",
    delta: o.Delta = None,
    adjacency: o.AdjacencyName = "replace-one",
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    unit: o.UnitName = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    option: o.Options = None,
    clip: o.Clip = None,
    noise: o.Noise = None,
    prior_weight: o.PriorWeight = None,
    sampling_probability: o.SamplingProbability = None,
    subsamples: o.Subsamples = None,
    per_expert: o.PerExpert = 1,
    capacity: o.Capacity = None,
    calibrate: o.Calibrate = False,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    synthetic: Synthetic = False,
    records: Records = None,
    canary: Canaries = None,
    canary_text: CanaryTexts = None,
    question: Questions = None,
    question_text: Wordings = None,
    insertion: Insertions = None,
    defence: Defences = None,
    writer: WriterOption = None,
    endpoint: Endpoint = None,
    endpoint_model: EndpointModel = "default",
    queries: Annotated[
        str | None, typer.Option("--queries", help="Labelled questions: measures how many answers are right.")
    ] = None,
    runs: Runs = None,
    seed: Seed = _SEED,
    report: ReportFile = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: o.AsJson = False,
) -> int:
    """Insert made-up records and ask about them: do the answers reveal whether they are there?

    Without --private the bundled tickets are used, so that a first audit is one command. Exit code 0 if no violation
    was found, 1 if one was, 2 if the audit could not run or the verdict or a file of it cannot be written; a violation
    that was found is 1 then, too.
    """
    return _canary("canary", context.params)


def inject(
    context: typer.Context,
    private: o.Private = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    method: o.NamedMethod = "poe",
    epsilon: o.Epsilon = "1",
    delta: o.Delta = None,
    adjacency: o.AdjacencyName = "replace-one",
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    unit: o.UnitName = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    option: o.Options = None,
    calibrate: o.Calibrate = False,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    synthetic: Synthetic = False,
    records: Records = None,
    canary: Canaries = None,
    canary_text: CanaryTexts = None,
    question_text: Wordings = None,
    insertion: Insertions = None,
    defence: Defences = None,
    writer: WriterOption = None,
    endpoint: Endpoint = None,
    endpoint_model: EndpointModel = "default",
    runs: Runs = None,
    seed: Seed = _SEED,
    report: ReportFile = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: o.AsJson = False,
) -> int:
    """Give orders in the question, against the method and the defences L0 to L3."""
    compared = None if endpoint else (defence or list(DEFENCES))
    return _canary("injection", {**context.params, "question": list(INJECTIONS), "defence": compared})


def membership(
    context: typer.Context,
    private: o.Private = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    method: o.NamedMethod = "poe",
    epsilon: o.Epsilon = "1",
    delta: o.Delta = None,
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    option: o.Options = None,
    calibrate: o.Calibrate = False,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    synthetic: Synthetic = False,
    records: Records = None,
    answers: Annotated[int, typer.Option("--answers", min=1, help="How often each system is asked.")] = 1,
    runs: Annotated[int, typer.Option("--runs", min=20, help="Systems that are made.")] = 400,
    attack: Annotated[
        str,
        typer.Option(
            "--attack", help="label-count, or likelihood-ratio: the attacker knows both data sets and the method's law."
        ),
    ] = "label-count",
    seed: Seed = _SEED,
    report: ReportFile = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: o.AsJson = False,
) -> int:
    """Ask a record's own text, once or several times: was it among the records, or another one in its place?

    Where the records have a column 'group', whole groups are drawn and exchanged, and --records counts groups.
    """
    from sottovoce.audits.kinds.canary import RECORDS
    from sottovoce.audits.kinds.membership import MembershipAudit, claim_of_answers, seeded

    rows, the_task = _rows_and_task(context.params)
    setting = {**_setting(context.params, the_task), "systems": runs, "answers of each": answers, "attack": attack}

    def play() -> Report:
        game = _label_game(context.params, the_task)
        size = RECORDS if records is None else records
        audit = MembershipAudit(game, list(rows), size, runs, answers, seeded(seed), attack)
        claim = claim_of_answers(game, answers)
        with progress() as bar:
            doing = bar.add_task("making systems", total=runs, rate="")
            return audit.run(claim, shown=lambda done: bar.update(doing, completed=done))

    return _audit("membership", method, play, context.params, setting)


def extract(
    context: typer.Context,
    endpoint: Endpoint = None,
    endpoint_model: EndpointModel = "default",
    writer: WriterOption = None,
    private: o.Private = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    synthetic: Synthetic = False,
    records: Records = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="How many sets of addresses are planted.")] = 10,
    seed: Seed = _SEED,
    report: ReportFile = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: o.AsJson = False,
) -> int:
    """Plant made-up e-mail addresses in the records and ask a model or a system that writes to repeat them.

    Name one of --writer, which is run here, and --endpoint. Three questions are asked of every set of addresses.

    Texts that methods of this package write are attacked by 'sotto bench run prism-extraction'.
    """
    from sottovoce.audits.kinds.canary import RECORDS, spread
    from sottovoce.audits.kinds.extract import audit_extraction
    from sottovoce.randomness import SeededRandomness

    if (endpoint is None) == (writer is None):
        raise ParameterError("--writer", writer, "given, or --endpoint in its place: one of them, not both")
    rows, the_task = _rows_and_task(context.params)
    few = spread(list(rows), min(RECORDS, len(list(rows))) if records is None else records)
    system = endpoint is not None and _endpoint_game(context.params, the_task)
    told = {"endpoint": system.name} if system else {"writer": writer}

    def attacked() -> Report:
        game = system or _writer_game(context.params, the_task)
        return audit_extraction(game, few, the_task, SeededRandomness(seed), runs)

    setting = {**told, "records played with": len(few)}
    return _audit("extract", system.name if system else str(writer), attacked, context.params, setting)


def exact(
    context: typer.Context,
    private: o.Private = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    method: o.NamedMethod = "poe",
    epsilon: o.Epsilon = "1",
    delta: o.Delta = None,
    adjacency: o.AdjacencyName = "replace-one",
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    model: o.ModelName = "embedded",
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    option: o.Options = None,
    clip: o.Clip = None,
    noise: o.Noise = None,
    prior_weight: o.PriorWeight = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    synthetic: Synthetic = False,
    records: Records = None,
    question_text: Annotated[
        list[str] | None,
        typer.Option("--question-text", help="Ask this; may be repeated. Default: every record's own text."),
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="Methods that write token by token: tokens of the text.")
    ] = 1,
    writer: Annotated[
        str | None,
        typer.Option(
            "--writer", help="Methods of long answers: what experts write with. Default: each says its own record."
        ),
    ] = None,
    report: ReportFile = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: o.AsJson = False,
) -> int:
    """Compute the largest loss of any single change of the records in closed form, without sampling error.

    Any method that states the law of what it releases: labels, the tokens of a text, what a fit or a long answer
    releases. EPSILON is the price of that release.
    """
    from sottovoce.audits.kinds.canary import RECORDS
    from sottovoce.audits.kinds.exactly import report_of
    from sottovoce.cli.exact import worst_of_method
    from sottovoce.privacy.unit import Adjacency

    rows, the_task = _rows_and_task(context.params)
    count = min(RECORDS, len(list(rows))) if records is None else records
    price, relation = _price(context.params), Adjacency.parse(adjacency)

    def looked() -> Report:
        found, paid = worst_of_method(o.Setup.of(context.params), context.params, list(rows), count, the_task, price)
        return report_of(method, found, paid, relation)

    return _audit("exact", method, looked, context.params, {**_setting(context.params, the_task), "records": count})


def plan(
    context: typer.Context,
    method: o.NamedMethod = "poe",
    epsilon: o.Epsilon = "1",
    delta: o.Delta = None,
    adjacency: o.AdjacencyName = "replace-one",
    option: o.Options = None,
    noise: o.Noise = None,
    runs: Annotated[int, typer.Option("--runs", min=2, help="Answers of each data set.")] = 5000,
    attacks: Annotated[int, typer.Option("--attacks", min=1, help="Attacks that are corrected for.")] = 3,
    as_json: o.AsJson = False,
) -> None:
    """Compute before an audit what it can find: its ceiling, its power, and how many answers it needs."""
    from sottovoce.audits.bounds import ALPHA
    from sottovoce.audits.power import MOST_RUNS, POWERS, attained, ceiling_of_rates, forecast
    from sottovoce.audits.report import percent
    from sottovoce.audits.several import level_of_each
    from sottovoce.parameters import Number
    from sottovoce.privacy.unit import Adjacency

    Number(2, MOST_RUNS, whole=True, strict=True).read("--runs", runs)
    made, price = _method_and_price(context.params)
    relation = Adjacency.parse(adjacency)
    if not made.private:
        raise ParameterError("--method", method, "one with a guarantee: there is no claim to test")
    event, level = made.noise_event(price, relation), level_of_each(ALPHA, attacks)
    ceiling = ceiling_of_rates(runs, runs, attained(event, relation), price.delta, level)
    rows = forecast(event, relation, runs, runs, price.delta, level)
    if as_json:
        told = {"method": method, "epsilon": price.epsilon, "delta": price.delta, "adjacency": relation.value}
        put({**told, "runs": runs, "ceiling": ceiling.as_dict(), "forecast": [row.as_dict() for row in rows]})
        return
    put_text(
        f"{method} at epsilon {rounded_up(price.epsilon, 6)}, {relation.value} adjacency; {runs:,} answers of each "
        f"data set, {attacks} attacks at {percent(1 - ALPHA)} confidence together"
    )
    put_text(
        f"Largest bound: {rounded_up(ceiling.perfect, 3)} if no guess is wrong. If the proof is tight, every other "
        f"audit gives {rounded_down(ceiling.on_curve, 3)} or more."
    )
    heads = ["if it leaks", "found with", *(f"answers for {percent(power)}" for power in POWERS)]
    shown = [
        [row.leak, f"{rounded_down(100 * row.power, 3)} %", *(_runs_in_words(n) for n in row.runs.values())]
        for row in rows
    ]
    table("Power, with the best possible attack", heads, shown)
    if len(rows) == 1:
        put_text(
            f"Of a smaller leak than {rows[0].leak} no power is known: {method} is charged an epsilon and a delta, "
            "which do not say how its answers would look with less noise."
        )


def fitted(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A file that 'sotto fit' wrote.")],
    runs: Annotated[int, typer.Option("--runs", min=1, help="Fits on made-up records.")] = 60,
    seed: Seed = _SEED,
    report: ReportFile = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: o.AsJson = False,
) -> int:
    """Audit what 'sotto fit' released: the same method, parameters and price, on made-up records.

    'sotto audit support.sotto' is short for it. The file's own records are not read.
    """
    from sottovoce.audits.kinds.fitted import as_fitted, audit_support
    from sottovoce.fitting.fitted import Fitted

    released = Fitted.load(file)
    subject = as_fitted(released.certificate.method)
    return _audit(FITTED, subject, lambda: audit_support(released, runs, seed), context.params, {})


# From options to an audit


def _audit(kind: str, subject: str, found: Callable[[], Report], given: dict[str, Any], setting: dict[str, Any]) -> int:
    """Runs an audit and hands its report over: where a model fails, on loading or later, the report says so.

    Args:
        kind: Of the report.
        subject: Of the report of an audit that breaks off.
        found: Loads, plays and reports.
        given: Options.
        setting: Added to the report's own.

    Returns:
        The exit code.
    """
    from sottovoce.audits.report import could_not_run
    from sottovoce.errors import ModelError
    from sottovoce.files.outputs import refuse_existing

    for file, replaces, _ in _files(given):
        refuse_existing(file, replaces)
    try:
        report = found()
    except ModelError as error:
        report = could_not_run(kind, subject, str(error))
    return _hand_over(_with(report, setting), given)


def _canary(kind: str, given: dict[str, Any]) -> int:
    subject = given["writer"] or given["method"]
    subject = f"{given['endpoint_model']} at an endpoint" if given["endpoint"] else subject
    return _audit(kind, subject, lambda: _played(kind, given), given, {})


def _played(kind: str, given: dict[str, Any]) -> Report:
    from sottovoce.audits.game import detectors
    from sottovoce.audits.game.canaries import Insertion
    from sottovoce.audits.game.defences import defences_of
    from sottovoce.audits.game.play import Claim
    from sottovoce.audits.game.questions import KINDS as QUESTIONS
    from sottovoce.audits.kinds.canary import RECORDS, Attacks, Audit
    from sottovoce.parameters import OneOf
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.randomness import SeededRandomness

    compared = defences_of(given["defence"] or [])
    insertions = [
        Insertion(OneOf(tuple(one.value for one in Insertion)).read("insertion", name))
        for name in given["insertion"] or []
    ]
    rows, task = _rows_and_task(given)
    own, wordings = given["canary_text"] or (), given["question_text"] or ()
    count = given["records"] or min(RECORDS, len(list(rows)))
    attacks = Attacks(
        given["canary"] or None,
        own,
        insertions,
        given["question"] or (() if wordings else tuple(QUESTIONS)),
        wordings,
        count,
        given["runs"],
    )
    adjacency = Adjacency.parse(given["adjacency"])
    notes: tuple[str, ...] = ()
    questions: list[tuple[Query, int]] = []
    game: Any
    model: LabelScorer | Writer | None = None
    if given["endpoint"] or given["writer"]:
        _refuse_of_methods(given)
        game = _endpoint_game(given, task) if given["endpoint"] else _writer_game(given, task)
        model = getattr(game, "writer", None)
        price = _price(given)
        claim = Claim.of(price.epsilon, price.delta, adjacency)
        known = "nothing is known of how this system protects its records" if given["endpoint"] else _UNPROTECTED
        notes += (f"The claim is yours: {known}.",)
        embed = _embedder()
        choice: Callable[[Any], Sequence[Any]] = lambda canary: detectors.of_texts(canary, embed)  # noqa: E731
    else:
        game = _label_game(given, task)
        model, choice = game.model, detectors.of_labels
        claim = Claim.of(game.price.epsilon, game.price.delta, adjacency, game.noise_event)
        if game.event is None:
            notes += (f"The method {game.name} claims nothing: the epsilon that is tested is yours.",)
        questions = _labelled(given, task)
    setting = {**_setting(given, task), **({"endpoint": game.name} if given["endpoint"] else {})}
    audit = Audit(
        kind, game, list(rows), task, claim, attacks, SeededRandomness(given["seed"]), choice, given["unit"],
        setting=setting, notes=notes,
    )  # fmt: skip
    with _telling() as shown:
        return audit.run(model=model, defences=compared, questions=questions, shown=shown)


@contextmanager
def _telling() -> Iterator[Callable[[str], None]]:
    """What is done, on a line that is drawn where somebody watches."""
    with progress() as bar:
        doing = bar.add_task("auditing", total=None, rate="")
        yield lambda what: bar.update(doing, description=what)


def _rows_and_task(given: dict[str, Any]) -> tuple[PublicRecords | list[Row], Task]:
    """Records that may be shown to anybody, and what is asked of them.

    Raises:
        ParameterError: Records of the caller's own that are not said to be made up.
    """
    from sottovoce.data.bundled import tickets_file
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public
    from sottovoce.tasks import load_task

    setup = o.Setup.of(given)
    if given["private"] is None:
        if given["labels"] is not None or given["task"] not in (None, "tickets"):
            raise ParameterError("--private", None, "given with --labels or --task; without it the tickets are used")
        return read_public(tickets_file("private.jsonl")), load_task("tickets")
    task = setup.load_task()
    if not given["synthetic"]:
        raise ParameterError(
            "--private",
            given["private"],
            "records of nobody, said by --synthetic: an audit asks thousands of uncharged questions. Real records cost "
            "what every answer costs; make some up with 'sotto synthesize', or audit the bundled tickets",
        )
    rows = read_public(
        given["private"],
        max_characters=setup.longest(task),
        truncate=setup.truncate,
        columns=setup.columns(task),
    )
    require_public(rows, f"--private {given['private']}", fewest=1)
    for row in rows:
        task.example_of(row, rows.source)
    return rows, task


def _method_and_price(given: dict[str, Any]) -> tuple[Method, Any]:
    from sottovoce.methods.base import Reads

    setup = o.Setup.of(given)
    if setup.method == "auto":
        raise ParameterError("--method", "auto", "one method by name; see 'sotto methods'")
    method, price = setup.load_method(setup.method), _price(given)
    if method.reads is Reads.NOTHING:
        limit = "one that reads private records: of what it releases nothing is private, and no claim can be tested"
        raise ParameterError("--method", setup.method, limit)
    if given["delta"] is None and (method.can_fail or getattr(method, "noise", "") == "gaussian"):
        price = replace(price, delta=DELTA)
    return method, price


def _price(given: dict[str, Any]) -> Any:
    from sottovoce.methods.base import Price
    from sottovoce.privacy import parameters

    delta = 0.0 if given["delta"] is None else parameters.DELTA.read("delta", given["delta"])
    return Price(parameters.EPSILON.read("epsilon", given["epsilon"]), delta)


def _label_game(given: dict[str, Any], task: Task) -> LabelGame:
    from sottovoce.audits.game.games import LabelGame
    from sottovoce.cli.console import load_scorer
    from sottovoce.experts.partition import Partition
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.randomness import SeededRandomness

    method, price = _method_and_price(given)
    options = o.given(device=given["device"], dtype=given["dtype"], chat=given["chat"])
    return LabelGame(
        method,
        load_scorer(given["model"], **options),
        task,
        price,
        Adjacency.parse(given.get("adjacency", "replace-one")),
        Partition(units_per_expert=given.get("per_expert", 1), capacity=given.get("capacity")),
        given.get("unit"),
        SeededRandomness(given.get("seed", _SEED)),
        given.get("calibrate", False),
    )


def _endpoint_game(given: dict[str, Any], task: Task) -> Any:
    from sottovoce.audits.game.endpoint import EndpointGame
    from sottovoce.models.http.address import ApiKey

    address, clear = given["endpoint"].removesuffix(_CLEAR), given["endpoint"].endswith(_CLEAR)
    return EndpointGame(address, task, given["endpoint_model"], key=ApiKey.found().text, unencrypted=clear)


def _embedder() -> Callable[[Sequence[str]], Any] | None:
    """The embedded model's vectors of texts, for the reference vector; ``None`` where it is not installed."""
    from sottovoce.cli.console import load_scorer
    from sottovoce.errors import MissingExtraError, ModelError
    from sottovoce.models.base import Embedder
    from sottovoce.tasks import Task

    try:
        model = load_scorer("embedded")
    except (MissingExtraError, ModelError):
        return None
    task = Task(labels=["a", "b"])
    return (lambda texts: _vectors(model, task, texts)) if isinstance(model, Embedder) else None


def _vectors(model: Any, task: Task, texts: Sequence[str]) -> Any:
    """Vectors, each different text embedded once."""
    different = list(dict.fromkeys(texts))
    vectors = model.embed_questions(task, [{"text": text.strip() or "-"} for text in different])
    place = {text: number for number, text in enumerate(different)}
    return vectors[[place[text] for text in texts]]


def _refuse_of_methods(given: dict[str, Any]) -> None:
    """Options of methods say nothing of a model that writes from its prompt, nor those of models of a far system."""
    from sottovoce.cli.flags import flag_of_name, is_typed

    if given["endpoint"] and given["writer"]:
        raise ParameterError("--writer", given["writer"], "left out with --endpoint, which is another system")
    names = ["method", "model", "option", "calibrate", "queries", "per_expert"]
    names += ["defence", "device", "dtype", "chat"] if given["endpoint"] else []
    instead = "--endpoint" if given["endpoint"] else "--writer"
    for name in names:
        if name in given and is_typed(name):
            raise ParameterError(flag_of_name(name), GIVEN, f"left out with {instead}, which is another system")


def _writer_game(given: dict[str, Any], task: Task) -> Any:
    from sottovoce.audits.game.written import WriterGame
    from sottovoce.cli.console import load_writer

    options = o.given(device=given["device"], dtype=given["dtype"], chat=given["chat"])
    return WriterGame(load_writer(given["writer"], **options), task)


def _labelled(given: dict[str, Any], task: Task) -> list[tuple[Query, int]]:
    """Labelled questions: those that are named, or the bundled ones beside the bundled records."""
    from sottovoce.data.bundled import ticket_queries
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public

    if given.get("queries"):
        setup = o.Setup.of(given)
        found = read_public(
            given["queries"], max_characters=setup.longest(task), truncate=setup.truncate, columns=setup.columns(task)
        )
        require_public(found, f"--queries {given['queries']}")
    elif given["private"] is None:
        found = ticket_queries()
    else:
        return []
    rows = list(found)[:_UTILITY]
    return [(task.query_of(row, found.source), task.label_of(row, found.source)) for row in rows]


def _setting(given: dict[str, Any], task: Task) -> dict[str, Any]:
    """What a repetition needs, beside what the audit says of itself."""
    shown = {
        "task": task.name,
        "labels": list(task.labels),
        "records": "the bundled tickets" if given["private"] is None else Path(given["private"]).name,
    }
    if given.get("writer"):
        shown |= {"writer": given["writer"]}
    elif not given.get("endpoint"):
        shown |= {"model": given["model"], "method": given["method"], "options": given.get("option") or "defaults"}
        if summary := _summary(given["method"]):
            shown["what it does"] = summary
        shown |= {"calibrated": "yes"} if given.get("calibrate") else {}
    return {**shown, "seed": given.get("seed", _SEED)}


def _summary(method: str) -> str:
    """One line about a method, where it is one of labels."""
    from sottovoce.methods.base import registered_methods

    kind = registered_methods().get(method)
    return kind.summary if kind else ""


def _version() -> str:
    return str(sys.modules["sottovoce"].__version__)


def _with(report: Report, setting: dict[str, Any]) -> Report:
    date = report.date or datetime.now(UTC).isoformat(timespec="seconds")
    return replace(report, setting={"version": _version(), **setting, **report.setting}, date=date)


def _runs_in_words(runs: int | None) -> str:
    return "more than a million" if runs is None else f"{runs:,}"


# What comes out


def _files(given: dict[str, Any]) -> list[tuple[Path, Callable[[Path], bool], Callable[[Report], str]]]:
    """The files that were asked for: where, which earlier ones are replaced, and what is written."""
    from sottovoce.audits.page import MARK, html_of
    from sottovoce.audits.report import JUNIT_OPENING, junit, sarif_opening, sarif_text
    from sottovoce.files.outputs import begins_as
    from sottovoce.files.pages import page_opening

    known: list[tuple[Path | None, Callable[[Path], bool], Callable[[Report], str]]] = [
        (given["report"], begins_as(page_opening(MARK)), html_of),
        (given["junit"], begins_as(JUNIT_OPENING), junit),
        (given["sarif"], begins_as(sarif_opening()), lambda report: sarif_text(report, _version())),
    ]
    return [(file, replaces, text) for file, replaces, text in known if file is not None]


def _hand_over(report: Report, given: dict[str, Any]) -> int:
    """Prints the verdict, writes what was asked for, and returns the exit code: 2 where a file or stdout cannot be
    written and the verdict has none of its own.
    """
    from sottovoce.cli.verdict import Verdict
    from sottovoce.errors import InputError
    from sottovoce.files.outputs import write_new

    verdict = Verdict(f"{report.subject}: {report.headline}.", report.verdict.exit_code)
    try:
        verdict.put(lambda: put(report.as_dict()) if given["as_json"] else _show(report))
    finally:  # a verdict of hours is not lost with a file, nor with a reader that went away
        whole = "The verdict above is whole, and is not in that file."
        for file, replaces, text in _files(given):
            try:
                write_new(file, text(report), replaces=replaces)
            except InputError as error:
                where = whole if verdict.is_printed else "The verdict is not in that file."
                verdict.fail(f"{error} {where}", error.exit_code)
            else:
                verdict.say(f"Written: {file}")
    return verdict.end()


def _show(report: Report) -> None:
    from sottovoce.audits.report import NOTHING, estimate_in_words, percent

    put_text(f"{report.subject}: {report.headline}")
    put_text(report.reason)
    measured = report.measured
    if measured is not None:
        rows = [["measured lower bound", rounded_down(measured.bound), f"{percent(measured.confidence)} confidence"]]
        if report.claim:
            rows.insert(
                0, ["claimed epsilon", rounded_up(report.claim["epsilon"], 6), f"{report.claim['adjacency']} adjacency"]
            )
        figures = (
            ("largest loss of these data sets", measured.exact and rounded_down(measured.exact), "exact"),
            ("ceiling of this audit", measured.ceiling and rounded_up(measured.ceiling), "if no guess were wrong"),
            ("papers' point estimate", measured.estimate and estimate_in_words(measured.estimate), "no bound"),
        )
        rows += [[name, str(value), what] for name, value, what in figures if value is not None]
        table("", ["epsilon", "", ""], rows)
    if report.defences:
        shown = [
            [
                str(row["name"]),
                percent(row["accuracy"]),
                NOTHING if row["bound"] is None else rounded_down(row["bound"], 3),
                percent(row["utility"]),
            ]
            for row in report.defences
        ]
        table("Defences", ["", "right guesses", "lower bound", "right answers"], shown)
    for note in report.notes:
        put_text(note)
