"""``sotto models``: which models can be used; ``check`` tests one, ``fit-head`` fits a head for an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import load_scorer, load_stepper, progress, put, put_text, say, table
from sottovoce.cli.outputs import NewFile
from sottovoce.cli.verdict import Verdict

if TYPE_CHECKING:
    from sottovoce.models.stepper import Group

LONGEST: Final = 8000
"""Characters of a public example that are read."""


def add_to(app: typer.Typer) -> None:
    """Adds the group; without a subcommand it lists."""
    group = typer.Typer(help="List models; check one; fit a head for an encoder.", invoke_without_command=True)
    group.callback()(models)
    group.command("check")(check)
    group.command("fit-head")(fit_head)
    app.add_typer(group, name="models")


def models(context: typer.Context, as_json: o.AsJson = False) -> None:
    """List the models and what each can do."""
    from dataclasses import asdict

    from sottovoce.models.registry import model_catalog

    if context.invoked_subcommand:
        return
    entries = [asdict(entry) for entry in model_catalog()]
    if as_json:
        put({"models": entries})
        return
    columns = list(entries[0])
    table("Models", columns, [[_cell(entry[column]) for column in columns] for entry in entries])


def check(
    model: Annotated[str, typer.Argument(help="hf:NAME_OR_PATH or vision:NAME_OR_PATH.")],
    device: o.Device = None,
    dtype: o.Dtype = None,
    chat: o.Chat = None,
    labels: o.Labels = None,
    task: o.TaskName = None,
    tokens: Annotated[int, typer.Option("--tokens", help="Longest text, in tokens.")] = 64,
    max_private_tokens: Annotated[
        int, typer.Option("--inside-tokens", help="Most tokens of a unit's records in a prompt.")
    ] = 96,
    full: Annotated[
        bool, typer.Option("--full", help="Also try layouts that are not in use, and more experts side by side.")
    ] = False,
    as_json: o.AsJson = False,
) -> int:
    """Run a model's self-test on public text: cached against plain scores, and isolation of experts, bit for bit.

    With --labels or --task, writing is tried at the shapes that 'sotto synthesize' has with the same options. What is
    found is kept for runs with the same files, versions and processor.
    """
    from sottovoce.errors import ModelError, ParameterError
    from sottovoce.synthesis.config import SynthesisConfig

    SynthesisConfig(tokens=tokens, max_private_tokens=max_private_tokens)  # refuses what 'sotto synthesize' does
    options = o.given(device=device, dtype=dtype, chat=chat)
    scorer = load_scorer(model, **options)
    test = getattr(scorer, "self_test", None)
    if test is None:
        raise ParameterError("model", model, "one with a self-test: hf:NAME_OR_PATH or vision:NAME_OR_PATH")
    report = test(quick=not full, told=_tell)
    checks = [
        {"check": c.name, "passed": c.passed, "largest_difference": c.largest_difference, "bit_equal": c.bit_equal,
         "meaning": c.wording}
        for c in report.checks
    ]  # fmt: skip
    named, isolation = scorer.name, scorer.isolation.value
    if hasattr(scorer, "keep_verdict"):
        _keep(scorer.keep_verdict, report)
    del scorer, test  # a second copy of its weights may not fit beside them
    groups = _groups(labels, task, chat=bool(chat)) if labels or task else []
    writing = _writing(model, options, groups, tokens, max_private_tokens)

    def show() -> None:
        if as_json:
            told = {"model": named, "passed": report.passed, "isolation": isolation, "checks": checks}
            put({**told, "writing": writing})
            return
        rows = [
            [
                str(c["check"]),
                "passed" if c["passed"] else "FAILED",
                f"{c['largest_difference']:.2e}",
                str(c["meaning"]),
            ]
            for c in checks
        ]
        table(f"Self-test of {named}", ["check", "result", "largest difference", "meaning"], rows)
        put_text(f"Isolation, scoring labels: {isolation}")
        if writing:
            put_text(f"Isolation, writing: {writing['isolation']}")
            for shape in writing["shapes"]:
                put_text(f"  tried at {shape}")

    failed = "The self-test failed; releases of this model would be labelled accordingly."
    words = f"The self-test passed. Isolation: {isolation}." if report.passed else failed
    verdict = Verdict(words, 0 if report.passed else ModelError.exit_code)
    verdict.put(show)
    if not report.passed and verdict.is_printed:
        raise ModelError(failed)
    return verdict.end()


def fit_head(
    encoder: Annotated[str, typer.Option("--encoder", help="The encoder: a folder, or a name on the hub.")],
    public: Annotated[
        list[str],
        typer.Option("--public", help="Labelled public examples: .jsonl[.gz], .csv, .parquet. May be repeated."),
    ],
    out: Annotated[Path, typer.Option("--out", parser=NewFile(), help="The head, ending in .safetensors.")],
    text_field: Annotated[str, typer.Option("--text-field", help="The column of the texts.")] = "text",
    label_field: Annotated[str, typer.Option("--label-field", help="The column of the labels' names.")] = "label",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Batches of made-up tasks.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tasks.")] = 0,
    as_json: o.AsJson = False,
) -> None:
    """Fit the six numbers by which an encoder's likenesses become probabilities, on labelled public examples.

    No private record is used, and nothing is charged. Use it as encoder:NAME_OR_PATH,head=OUT. With texts of
    several kinds, one file each, the head suits more tasks.
    """
    from sottovoce.errors import ParameterError
    from sottovoce.files.outputs import new_file, refuse_existing
    from sottovoce.models.embedded.head import head_files
    from sottovoce.models.embedded.head_fit import fitted_head
    from sottovoce.models.embedded.label_scorer import open_encoder

    if out.suffix != ".safetensors":
        raise ParameterError("--out", str(out), "a name that ends in .safetensors; its story goes beside it as .json")
    for file in (out, out.with_suffix(".json")):
        refuse_existing(file)
    names = [Path(file).name for file in public]
    sources = names if len({*names}) == len(names) else public
    rows = {name: _labelled(file, text_field, label_field) for name, file in zip(sources, public, strict=True)}
    with progress() as bar:
        doing = bar.add_task("embedding", total=None, rate="")
        made = fitted_head(
            open_encoder(encoder.removeprefix("encoder:")),
            rows,
            steps=steps,
            seed=seed,
            on_text=lambda what: bar.update(doing, description=f"embedding {what}"),
            on_step=lambda done: bar.update(doing, description="fitting", total=steps, completed=done),
        )
    for file, content in head_files(made.head, out, made.story).items():
        with new_file(file) as stream:
            stream.write(content)
    if as_json:
        put({**made.story, "out": str(out)})
        return
    shown = [[name, kind, f"{before:.3f}", f"{after:.3f}"] for name, kind, before, after in made.losses]
    if shown:
        table("Held-out loss, in nats", ["examples", "task", "unfitted", "fitted"], shown)
    else:
        say("Too few rows are held out to say what the head does on them: give more examples of each label.")
    say(f"Use it: --model encoder:{encoder.removeprefix('encoder:')},head={out}")


def _labelled(file: str, text_field: str, label_field: str) -> list[tuple[str, str]]:
    """Texts with the names of their labels.

    Raises:
        RecordError: A row lacks one of them.
        InputError: The file cannot be read, or its rows are records that a ledger was opened for.
    """
    from sottovoce.errors import RecordError
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public

    rows = read_public(file, max_characters=LONGEST, truncate=True)
    require_public(rows, f"--public {file}")
    found = []
    for row in rows:
        text, label = (row.values.get(field) for field in (text_field, label_field))
        for field, value in ((text_field, text), (label_field, label)):
            if not isinstance(value, str | int) or not str(value).strip():
                raise RecordError(
                    "it is missing or empty",
                    file=rows.source,
                    line=row.line,
                    field=field,
                    hint="Name the columns with --text-field and --label-field.",
                )
        found.append((str(text), str(label)))
    return found


def _tell(line: str) -> None:
    say(f"  {line} ...")


def _keep(keep: Callable[..., None], *found: object) -> None:
    from sottovoce.errors import ModelError

    try:
        keep(*found)
    except (OSError, ModelError) as error:
        say(f"What was found is not kept for later runs: {error}")


def _groups(labels: str | None, task: str | None, *, chat: bool) -> list[Group]:
    """The public prompts of a run that writes about these labels."""
    from sottovoce.generation import GenerationTemplate
    from sottovoce.models.stepper import Group, Prompt

    writing = GenerationTemplate.of(o.TaskChoice(labels=labels, task=task).load_task())
    writing = writing.asking() if chat else writing
    return [Group(Prompt(writing.opening(label), "", writing.ending), ()) for label in writing.labels]


def _writing(
    model: str, options: dict[str, Any], groups: Sequence[Group], tokens: int, room: int
) -> dict[str, Any] | None:
    """How a model writes on this machine, and where its rows were compared; ``None`` for one that does not write."""
    from sottovoce.errors import ModelError
    from sottovoce.models.registry import model_catalog

    writes = {entry.spec.partition(":")[0] for entry in model_catalog() if "Stepper" in entry.capabilities}
    if model.partition(":")[0] not in writes:
        return None
    try:
        stepper: Any = load_stepper(model, **options)
        if hasattr(stepper, "check"):
            stepper.check(_tell)
        if groups:
            read = stepper.read(groups, max_private_tokens=room, tokens=tokens)
            try:
                for most in (1, tokens):  # a run rehearses the first token
                    read.write(range(len(groups)), most).close()
            finally:
                read.close()
        found = {
            "isolation": stepper.isolation.value,
            "shapes": [str(shape) for shape in getattr(stepper, "shapes", ())],
        }
        if hasattr(stepper, "keep_verdict"):
            _keep(stepper.keep_verdict)
        return found
    except ModelError as error:
        return {"isolation": f"cannot write: {error}", "shapes": []}


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
