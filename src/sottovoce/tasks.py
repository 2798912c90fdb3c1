"""Tasks: the public part of a prompt, and how a label or an answer is read from a row.

A ``Task`` names the labels, an instruction, and two templates. The label set is a public parameter: it is given, never
collected from private rows. An ``AnswerTask`` has no labels: its answers are texts. Built-in tasks are the files
``data/tasks/*.toml`` and ``data/answer_tasks/*.toml``; a user's own file has the same keys.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Any, Final, TypeVar, final

from sottovoce.errors import InputError, RecordError, TaskError
from sottovoce.parameters import Kind, OneOf, nearest
from sottovoce.records import limits
from sottovoce.records.cells import kind_of
from sottovoce.records.columns import is_csv, likely_delimiter, there_are
from sottovoce.records.sealed import Opaque, Row, is_missing

Query = Mapping[str, str]
"""The fields of one question: field name to text, an image as base64. Public, and possibly adversarial."""
CONTENT_FREE: Final = ("N/A", "[MASK]", "none")
"""Texts of the content-free questions of contextual calibration (Zhao et al., 2021)."""

T = TypeVar("T")
_LABELS: Final = "tasks"
_ANSWERS: Final = "answer_tasks"
_KINDS: Final = {
    _LABELS: "has labels, and is for 'sotto classify', 'fit' and 'ask'",
    _ANSWERS: "has texts for answers, and is for 'sotto answer'",
}
"""Folders of built-in tasks, and what is said of a task where the other kind was asked for."""
_SHOWN: Final = 12
"""Labels that an error lists at most."""
_IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


@final
class Example(Opaque):
    """One labelled demonstration. It may be private, so it does not print, and it is no data class to be unfolded.

    Attributes:
        fields: Text fields that the templates name.
        label: Index into the task's labels.
    """

    __slots__ = ("fields", "label")

    def __init__(self, fields: Mapping[str, str], label: int) -> None:
        self.fields, self.label = fields, label


@final
@dataclass(frozen=True)
class Task:
    """A task: how a question is asked, and the labels that can be its answer.

    Attributes:
        labels: The public label set, at least two names.
        name: For reports.
        instruction: Opens every prompt.
        query: Template of a question; its fields are columns of the rows, such as ``{text}``.
        example: Template of a demonstration: the query template followed by text that holds ``{label}`` once.
        label_field: The column that holds the label.
        answer: How the label is read from that column: ``"label"`` by name or index, ``"first_digit"`` the first digit
            of the number after the last ``####``, ``"present"`` the first label, whatever the column holds.
        image: The field that holds an image, a PNG or JPEG file in base64; empty for tasks of text alone.

    Raises:
        TaskError: The labels or templates are not usable.

    Example:
        >>> task = Task(labels=["billing", "fraud"])
        >>> task.example_of(Row(1, {"text": "Card charged twice", "label": "billing"}), "memory").label
        0
    """

    labels: Sequence[str]
    name: str = "custom"
    instruction: str = "Read the text and answer with its label."
    query: str = "Text: {text}\nLabel:"
    example: str = "Text: {text}\nLabel: {label}"
    label_field: str = "label"
    answer: str = "label"
    image: str = ""
    fields: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _checked_labels(self.labels))
        for name in ("name", "instruction", "query", "example", "label_field", "answer", "image"):
            Kind(str, "a text").read(name, getattr(self, name))
        OneOf(tuple(_READERS)).read("answer", self.answer)
        fields = _template_fields(self.query, "query")
        if not fields or "label" in fields:
            raise TaskError(
                f"The query template names the fields {fields or 'of no column'}; it needs some, not 'label'."
            )
        if not self.example.startswith(self.query) or _template_fields(self.example, "example").count("label") != 1:
            raise TaskError(
                "The example template must be the query template followed by text that holds {label} once, "
                f"such as {self.query + ' {label}'!r}."
            )
        object.__setattr__(self, "fields", tuple(dict.fromkeys(fields)))
        if self.image and fields.count(self.image) != 1:
            raise TaskError(f"The query template must name the image field {self.image!r} once.")

    @property
    def answer_prefix(self) -> str:
        """The text between a question and its label, usually one blank."""
        return self.example[len(self.query) :].partition("{label}")[0]

    @property
    def answer_suffix(self) -> str:
        """The text after the label, before the next demonstration."""
        return self.example[len(self.query) :].partition("{label}")[2] + "\n\n"

    def render_query(self, query: Query) -> str:
        """Fills the query template."""
        return self.query.format_map(query)

    def render_example(self, example: Example) -> str:
        """Fills the example template. The result is as private as the example."""
        return self.example.format_map({**example.fields, "label": self.labels[example.label]})

    def content_free_queries(self) -> list[Query]:
        """The content-free questions, for contextual calibration.

        Raises:
            TaskError: The task asks about pictures, and no picture is content-free.
        """
        if self.image:
            raise TaskError(
                f"The task {self.name!r} asks about pictures, of which none is free of content. Leave calibration out."
            )
        return [dict.fromkeys(self.fields, text) for text in CONTENT_FREE]

    def text_of(self, query: Query) -> str:
        """The bare text of a question or an example's fields, for models that read no template."""
        return "\n".join(query[name] for name in self.fields)

    def query_of(self, row: Row, file: str) -> Query:
        """Reads a question from a row.

        Raises:
            RecordError: A field is missing, empty, not a text or not an image; the error names the line, not the
                content.
        """
        query = {name: self._text(row, name, file) for name in self.fields}
        if self.image and not _is_image(query[self.image]):
            raise RecordError(
                "the field is not a PNG or JPEG image in base64",
                file=file,
                line=row.line,
                field=row.column(self.image),
                hint="Give a whole PNG or JPEG file, in rows as base64 without line breaks or 'data:' in front.",
            )
        return query

    def label_of(self, row: Row, file: str) -> int:
        """Reads the index of a row's label.

        Raises:
            RecordError: It is missing or outside the public label set; the error names the line, not the label.
        """
        value = row.values.get(self.label_field)
        if self.label_field not in row.values:
            raise self._absent(row, self.label_field, file)
        if is_missing(value):
            hint = "Fill it in, or remove the row."
            raise RecordError(
                "the label is missing", file=file, line=row.line, field=row.column(self.label_field), hint=hint
            )
        index = _READERS[self.answer](value, self.labels)
        if index is None:
            raise RecordError(
                "the label is outside the public label set",
                file=file,
                line=row.line,
                field=row.column(self.label_field),
                hint=f"{self._known_labels} Correct the row, or add its label to the label set.",
            )
        return index

    @property
    def _known_labels(self) -> str:
        more = f" and {len(self.labels) - _SHOWN} more" if len(self.labels) > _SHOWN else ""
        return f"The labels are {', '.join(self.labels[:_SHOWN])}{more}."

    def _text(self, row: Row, name: str, file: str) -> str:
        if name not in row.values:
            raise self._absent(row, name, file)
        return text_in(row, name, file)

    def _absent(self, row: Row, name: str, file: str) -> RecordError:
        """A field that no column holds: which columns there are, and how to name the right one."""
        flag = {self.label_field: "--label-column"} | (
            {self.fields[0]: "--text-column"} if len(self.fields) == 1 else {}
        )
        problem = "the label is missing" if name == self.label_field else "the field is missing or empty"
        hint = _how_to_name(row, name, file, flag.get(name), self.labels)
        return RecordError(problem, file=file, line=row.line, field=row.column(name), hint=hint)

    def has_label(self, row: Row) -> bool:
        """Whether a row has a label. Queries may have one, to measure accuracy."""
        return not is_missing(row.values.get(self.label_field))

    def example_of(self, row: Row, file: str) -> Example:
        """Reads a demonstration from a row; errors as for ``query_of`` and ``label_of``."""
        return Example(self.query_of(row, file), self.label_of(row, file))


@final
class AnswerExample(Opaque):
    """One input with its answer. It may be private, so it does not print, and it is no data class to be unfolded.

    Attributes:
        fields: Input fields that the template names.
        answer: The text that answers them.
    """

    __slots__ = ("answer", "fields")

    def __init__(self, fields: Mapping[str, str], answer: str) -> None:
        self.fields, self.answer = fields, answer


@final
@dataclass(frozen=True)
class AnswerTask:
    """A task whose answers are free texts, such as summaries.

    Attributes:
        query: Template of an input; its fields are columns of the rows, such as ``{dialogue}``.
        output_field: The column that holds the answer of an example.
        name: For reports.
        instruction: Opens every prompt.
        names: What an input and an answer are called in a prompt.
        fields: The input fields that the template names.

    Raises:
        TaskError: The template or the names are not usable.

    Example:
        >>> task = AnswerTask(query="{mail}", output_field="reply", instruction="Answer the mail.")
        >>> task.render_query(task.query_of(Row(1, {"mail": "Is it late?"}), "memory"))
        'Is it late?'
    """

    query: str = "{text}"
    output_field: str = "answer"
    name: str = "custom"
    instruction: str = "Read the text and answer it."
    names: tuple[str, str] = ("Input", "Output")
    fields: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("name", "instruction", "query", "output_field"):
            Kind(str, "a text").read(name, getattr(self, name))
        fields = _template_fields(self.query, "query")
        if not fields or self.output_field in fields:
            raise TaskError(
                f"The query template names the fields {fields or 'of no column'}; it needs some, not "
                f"{self.output_field!r}, which holds the answer."
            )
        if not self.output_field.isidentifier():
            raise TaskError(f"The output field {self.output_field!r} must be a single word, such as 'answer'.")
        object.__setattr__(self, "names", _checked_names(self.names))
        object.__setattr__(self, "fields", tuple(dict.fromkeys(fields)))

    def render_query(self, query: Query) -> str:
        """Fills the query template."""
        return self.query.format_map(query)

    def shot(self, example: AnswerExample) -> tuple[str, str]:
        """The input as the template shows it, and the answer. As private as the example."""
        return self.render_query(example.fields), example.answer

    def query_of(self, row: Row, file: str) -> Query:
        """Reads an input from a row.

        Raises:
            RecordError: A field is missing, empty or not a text; the error names the line, not the content.
        """
        return {name: self._text(row, name, file) for name in self.fields}

    def answer_of(self, row: Row, file: str) -> str:
        """Reads the answer of an example from a row; errors as for ``query_of``."""
        return self._text(row, self.output_field, file)

    def example_of(self, row: Row, file: str) -> AnswerExample:
        """Reads an example from a row; errors as for ``query_of``."""
        return AnswerExample(self.query_of(row, file), self.answer_of(row, file))

    def has_answer(self, row: Row) -> bool:
        """Whether a row has an answer. Questions may have one, to measure quality."""
        return not is_missing(row.values.get(self.output_field))

    def _text(self, row: Row, name: str, file: str) -> str:
        if name in row.values:
            return text_in(row, name, file)
        flag = {self.output_field: "--answer-column"} | (
            {self.fields[0]: "--text-column"} if len(self.fields) == 1 else {}
        )
        hint = _how_to_name(row, name, file, flag.get(name), None)
        raise RecordError("the field is missing or empty", file=file, line=row.line, field=row.column(name), hint=hint)


def _how_to_name(row: Row, name: str, file: str, flag: str | None, labels: Collection[str] | None) -> str:
    """What is to be done where no column holds a field: in a file of other delimiters there is one column alone.

    No column is named whose name may be a cell, as any may where there are no labels to tell by.
    """
    there = there_are(row.values, file, labels)
    if is_csv(file) and likely_delimiter(row.values):
        return there
    cure = f"Name the column that holds it with {flag} COLUMN" if flag else "Rename a column"
    return f"{there} {cure}, or in Python with columns={{{name!r}: COLUMN}}."


def text_in(row: Row, name: str, file: str) -> str:
    """The text of a field of a row.

    Raises:
        RecordError: It is missing, blank or not a text; the line is named, the content is not.
    """
    value = row.values.get(name)
    if is_missing(value):
        problem, hint = "the field is missing or empty", "Fill it in, or remove the row."
    elif not isinstance(value, str):
        problem = f"the value is {kind_of(value)}; it must be a text"
        hint = "Write it in quotes, or remove the row."
    elif not value.strip():
        problem, hint = "the field holds only blanks", "Fill it in, or remove the row."
    else:
        return value
    raise RecordError(problem, file=file, line=row.line, field=row.column(name), hint=hint)


def task_names() -> list[str]:
    """The built-in tasks with labels, in alphabetical order."""
    return _names_in(_LABELS)


def answer_task_names() -> list[str]:
    """The built-in tasks whose answers are texts, in alphabetical order."""
    return _names_in(_ANSWERS)


def load_task(name_or_path: str) -> Task:
    """Loads a built-in task by name, or a user's own ``.toml`` file.

    Raises:
        TaskError: There is no such task, or the file is not a task.
        ParameterError: The name is no text.
    """
    return _loaded(name_or_path, _LABELS, _parse)


def load_answer_task(name_or_path: str) -> AnswerTask:
    """Loads a built-in task whose answers are texts by name, or a user's own ``.toml`` file.

    Raises:
        TaskError: There is no such task, or the file is not a task of this kind.
        ParameterError: The name is no text.
    """
    return _loaded(name_or_path, _ANSWERS, _parse_answer_task)


def is_answer_task(name_or_path: str) -> bool:
    """Whether the answers to a task are texts: a built-in one, or a file of one's own that names no labels.

    Example:
        >>> is_answer_task("summarize"), is_answer_task("trec")
        (True, False)
    """
    if name_or_path in answer_task_names():
        return True
    try:
        return name_or_path.endswith(".toml") and bool(load_answer_task(name_or_path))
    except TaskError:
        return False


def _loaded(name_or_path: str, folder: str, parse: Callable[[str, str], T]) -> T:
    Kind(str, "the name of a built-in task, or of a .toml file").read("task", name_or_path)
    known = _names_in(folder)
    if name_or_path in known:
        return parse((_built_in(folder) / f"{name_or_path}.toml").read_text("utf-8"), name_or_path)
    path = Path(name_or_path)
    if path.suffix != ".toml":
        other = _ANSWERS if folder == _LABELS else _LABELS
        if name_or_path in _names_in(other):
            raise TaskError(f"The task {name_or_path!r} {_KINDS[other]}; built in are here: {', '.join(known)}.")
        raise TaskError(
            f"There is no task {name_or_path!r}{nearest(name_or_path, known) or '.'} Built in: "
            f"{', '.join(known)}; or name a .toml file."
        )
    try:
        text = limits.read_text(path, "task file", limits.TOML_BYTES)
    except (OSError, ValueError):
        raise TaskError(
            f"The task file {name_or_path!r} cannot be read. Check the path and that it is UTF-8."
        ) from None
    return parse(text, name_or_path)


def _names_in(folder: str) -> list[str]:
    names = (entry.name for entry in _built_in(folder).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def _built_in(folder: str) -> Any:
    return resources.files("sottovoce") / "data" / folder


def _parse(text: str, name: str) -> Task:
    known = ("name", "labels", "instruction", "query", "example", "label_field", "answer", "image")
    values = _table(text, name, known, lists=("labels",))
    if "labels" not in values:
        raise TaskError(f"The task file {name!r} names no labels. The label set is public and must be given.")
    if "query" in values and "example" not in values:
        values["example"] = values["query"] + " {label}"
    return _made(Task, values, name)


def _parse_answer_task(text: str, name: str) -> AnswerTask:
    known = ("name", "instruction", "query", "output_field", "names")
    return _made(AnswerTask, _table(text, name, known, lists=("names",)), name)


def _made(kind: Callable[..., T], values: Mapping[str, Any], name: str) -> T:
    try:
        return kind(**{"name": Path(name).stem, **values})
    except InputError as error:
        raise TaskError(f"Task file {name!r}: {error}") from None


def _table(text: str, name: str, known: Sequence[str], *, lists: Sequence[str]) -> dict[str, Any]:
    """The keys of a task file, each a text but for the lists."""
    try:
        values = limits.parse_toml(text)
    except ValueError as error:
        raise TaskError(f"The task file {name!r} is not valid TOML: {error}.") from None
    if unknown := sorted(set(values) - set(known)):
        raise TaskError(
            f"The task file {name!r} has the unknown key {unknown[0]!r}. Known: {', '.join(sorted(known))}."
        )
    if wrong := [key for key in values if key not in lists and not isinstance(values[key], str)]:
        raise TaskError(f"The key {wrong[0]!r} of the task file {name!r} must be a text.")
    return values


def _checked_names(names: object) -> tuple[str, str]:
    """What inputs and answers are called."""
    words = tuple(names) if isinstance(names, list | tuple) else ()
    if len(words) != 2 or not all(isinstance(word, str) and word.strip() and word.isprintable() for word in words):
        raise TaskError("The names must be two words, of an input and of an answer, such as Question and Answer.")
    first, second = (word.strip() for word in words)
    if first == second:
        raise TaskError(f"An input and an answer have the same name {first!r}.")
    return first, second


def _checked_labels(labels: object) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Sequence) or not all(isinstance(name, str) for name in labels):
        raise TaskError("Labels must be a list of names.")
    names = tuple(name.strip() for name in labels)
    if len(names) < 2:
        raise TaskError(
            f"A task needs at least two labels; {len(names)} given. Name all of them, such as billing,fraud,shipping."
        )
    if len(set(names)) != len(names):
        raise TaskError(f"The label {next(name for name in names if names.count(name) > 1)!r} is named twice.")
    if any(not name or not name.isprintable() for name in names):
        raise TaskError("A label is empty or holds a line break or control character.")
    return names


def _template_fields(template: str, what: str) -> list[str]:
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise TaskError(f"The {what} template is not usable: {error}.") from None
    names = [name for _, name, _, _ in parts if name is not None]
    if any(spec or conversion for _, _, spec, conversion in parts) or not all(name.isidentifier() for name in names):
        raise TaskError(f"The {what} template may only hold plain fields such as {{text}}; write {{{{ for a brace.")
    return names


def _is_image(value: str) -> bool:
    """Whether it is base64 throughout and begins as a PNG or JPEG file does."""
    try:
        content = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return content.startswith(_IMAGE_STARTS)


def _written(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # a number of more than 4,300 digits, which is no label
        return ""


def _by_name_or_index(value: object, labels: Sequence[str]) -> int | None:
    text = value.strip() if isinstance(value, str) else _written(value)
    if text in labels:
        return labels.index(text)
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,6}(\.0)?", text):
        return None
    index = int(float(text))
    return index if index < len(labels) else None


def _first_digit(value: object, labels: Sequence[str]) -> int | None:
    match = re.search(r"[0-9]", _written(value).rpartition("####")[2])
    return labels.index(match.group()) if match and match.group() in labels else None


_READERS: dict[str, Callable[[object, Sequence[str]], int | None]] = {
    "label": _by_name_or_index,
    "first_digit": _first_digit,
    "present": lambda value, labels: 0,
}
