"""``sotto predict``: a fitted file and a file of questions in, one label a question out, for free."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import in_percent, progress, put, say, say_table
from sottovoce.cli.outputs import NewFile

if TYPE_CHECKING:
    from sottovoce.fitting.fitted import Fitted


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("predict")(predict)


def predict(
    fitted: Annotated[str, typer.Argument(help="A file that 'sotto fit' wrote.")],
    queries: Annotated[
        str, typer.Option("--queries", help="Questions: .jsonl[.gz], .csv, .parquet, or a folder of pictures.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="Answer with this model. Default: the one that the file names.")
    ] = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Add the probability of every label to the rows; they are public.")
    ] = False,
    text_column: o.TextColumn = None,
    label_column: o.LabelColumn = None,
    max_characters: o.MaxCharacters = None,
    truncate: o.Truncate = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Answer only the first questions.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=NewFile(), help="Answer rows: .jsonl, .csv or .parquet. Default: stdout."),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Answer a file of questions from what 'sotto fit' learned. No ledger, no private record, no charge."""
    from sottovoce.cli.classify import read_questions
    from sottovoce.files.outputs import refuse_existing
    from sottovoce.files.tables import require_ending
    from sottovoce.privacy.ledger.known_records import require_public
    from sottovoce.records.readers import read_public

    if out is not None:
        refuse_existing(out)
        require_ending(out)
    support = load(fitted, model, device, dtype)
    choice = o.RecordsChoice(
        text_column=text_column, label_column=label_column, max_characters=max_characters, truncate=truncate
    )
    questions = read_public(
        queries,
        max_characters=choice.longest(support.task),
        truncate=truncate,
        columns=choice.columns(support.task),
    ).first(limit)
    require_public(questions, f"--queries {queries}")
    truth, fields = read_questions(questions, support.task)
    started = time.perf_counter()
    rows: list[dict[str, Any]] = []
    with progress() as bar:
        doing = bar.add_task("answering", total=len(fields), rate="")
        for part in _answers(support, fields, scores=scores):
            rows += part
            rate = len(rows) / (time.perf_counter() - started)
            bar.update(doing, advance=len(part), rate=f"{rate:.0f}/s")
    seconds = time.perf_counter() - started
    _hand_over(rows, out, hold=as_json)
    summary = {**_summary(support, rows, truth, seconds), "certificate": rests_on(support, fitted)}
    if as_json:
        put(summary if out else {**summary, "rows": rows})
    else:
        _show(summary, support)


def load(file: str, model: str | None, device: str | None, dtype: str | None) -> Fitted:
    """A fitted file with the model that answers.

    Raises:
        InputError: It cannot be read, is for answers that are texts, or its certificate states what does not follow
            from its figures.
        ModelError: The model cannot be loaded, or is another one.
    """
    from sottovoce.answering.pairs import is_of_pairs
    from sottovoce.errors import InputError
    from sottovoce.fitting.fitted import Fitted

    support = Fitted.load(file)
    if is_of_pairs(support):
        raise InputError(
            f"{file} holds examples for answers that are texts. Use 'sotto answer --fitted {file} --task TASK'."
        )
    support.certificate.require_sound(file)
    support.use(model or support.model, **o.given(device=device, dtype=dtype))
    return support


def row_of(support: Fitted, row_id: str, value: str) -> dict[str, Any]:
    """An output row, with the price of everything that is answered from the file."""
    from sottovoce.release import figures_of

    c = support.certificate
    return {"id": row_id, "value": value, "method": c.method, **figures_of(c), "release_id": c.ledger}


def rests_on(support: Fitted, file: str) -> dict[str, Any]:
    """Which certificate a free answer rests on, and how it is checked. Public."""
    from sottovoce.release import figures_of

    c = support.certificate
    return {
        "file": file,
        "content_sha256": support.content_sha256,
        "charge": c.ledger,
        **figures_of(c),
        "price": "free: post-processing of what the file holds",
        "check": f"sotto verify certificate {shlex.quote(file)}",
    }


def rests_on_in_words(rests: Mapping[str, Any]) -> str:
    """The same for a screen."""
    return (
        f"These answers are free: post-processing of {rests['file']} (content {rests['content_sha256'][:16]}, charge "
        f"{rests['charge']}), which is all that they rest on. Check it: {rests['check']}"
    )


def _answers(support: Fitted, fields: Mapping[str, Any], *, scores: bool) -> Iterator[list[dict[str, Any]]]:
    from sottovoce.fitting.fitted import TOGETHER

    ids, labels = list(fields), support.task.labels
    for number, part in enumerate(support.batches(list(fields.values()))):
        rows = []
        for row_id, answer in zip(ids[number * TOGETHER :], part, strict=False):
            row = row_of(support, row_id, labels[int(answer.argmax())])
            if scores:
                row["scores"] = {label: float(p) for label, p in zip(labels, _probabilities(answer), strict=True)}
            rows.append(row)
        yield rows


def _probabilities(log_probabilities: Any) -> Any:
    import numpy as np

    return np.exp(log_probabilities)


def _hand_over(rows: Sequence[Mapping[str, Any]], out: Path | None, *, hold: bool) -> None:
    from sottovoce.files.outputs import new_file
    from sottovoce.files.tables import encoded

    if out is None:
        for row in () if hold else rows:
            put(row)
        return
    with new_file(out) as stream:
        stream.write(encoded(rows, out, shown=True))


def _summary(
    support: Fitted, rows: Sequence[Mapping[str, Any]], truth: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    from sottovoce.intervals import proportion
    from sottovoce.release import figures_of

    right = [row["value"] == truth[row["id"]] for row in rows if row["id"] in truth]
    measured = proportion(sum(right), len(right)) if right else None
    c = support.certificate
    return {
        "answers": len(rows),
        "accuracy": measured.value if measured else None,
        "accuracy_interval_95": [measured.low, measured.high] if measured else None,
        "spent": {**figures_of(c), "by": "sotto fit, once"},
        "remaining": None,
        "method": c.method,
        "model": support.model,
        "adjacency": c.adjacency,
        "seconds": round(seconds, 3),
        "isolation": c.isolation,
        "statement": c.statement,
    }


def _show(summary: Mapping[str, Any], support: Fitted) -> None:
    from sottovoce.release import epsilon_in_words

    rows = [["answers", str(summary["answers"])], ["method", summary["method"]], ["model", summary["model"]]]
    if summary["accuracy"] is not None:
        low, high = summary["accuracy_interval_95"]
        rows.append(["accuracy", in_percent(summary["accuracy"], low, high)])
    rows.append(["charged", f"nothing now; {epsilon_in_words(support.certificate)} by 'sotto fit'"])
    rows.append(["seconds", f"{summary['seconds']:.1f}"])
    say_table("", ["", ""], rows)
    say(rests_on_in_words(summary["certificate"]))
    say(summary["statement"])
