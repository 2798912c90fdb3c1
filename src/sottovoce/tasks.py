"""Tasks: the public part of a prompt, and how a label is read from a row.

A task names the labels, an instruction, and two templates. The label set is a public parameter: it is given, never
collected from private rows. Built-in tasks are the files ``data/tasks/*.toml``; a user's own file has the same keys.
"""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Any, final

from sottovoce.errors import InputError, RecordError, TaskError
from sottovoce.parameters import Kind, OneOf, nearest
from sottovoce.records import limits
from sottovoce.records.columns import there_are
from sottovoce.records.sealed import Opaque, Row, is_missing

Query = Mapping[str, str]
"""The fields of one question: field name to text, an image as base64. Public, and possibly adversarial."""

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
    """What is asked, and which answers exist.

    Attributes:
        labels: The public label set, at least two names.
        name: For reports.
        instruction: Opens every prompt.
        query: Template of a question; its fields are columns of the rows, such as ``{text}``.
        example: Template of a demonstration: the query template followed by text that holds ``{label}`` once.
        label_field: The column that holds the label.
        answer: How the label is read from that column: ``"label"`` by name or index, ``"first_digit"`` the first digit
            of the number after the last ``####``, ``"present"`` the first label, whatever stands there.
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

    def text_of(self, query: Query) -> str:
        """The bare text of a question or an example's fields, for models that read no template."""
        return "\n".join(query[name] for name in self.fields)

    def query_of(self, row: Row, file: str) -> Query:
        """Reads a question from a row.

        Raises:
            RecordError: A field is missing, empty, not a text or not an image; the line is named, the content is not.
        """
        query = {name: self._text(row, name, file) for name in self.fields}
        if self.image and not _is_image(query[self.image]):
            raise RecordError(
                "the field is not a PNG or JPEG image in base64",
                file=file,
                line=row.line,
                field=self.image,
                hint="Give a whole PNG or JPEG file, in rows as base64 without line breaks or 'data:' in front.",
            )
        return query

    def label_of(self, row: Row, file: str) -> int:
        """Reads the index of a row's label.

        Raises:
            RecordError: It is missing or outside the public label set; the line is named, the label is not.
        """
        value = row.values.get(self.label_field)
        if self.label_field not in row.values:
            raise self._absent(row, self.label_field, file)
        if is_missing(value):
            hint = "Fill it in, or remove the row."
            raise RecordError("the label is missing", file=file, line=row.line, field=self.label_field, hint=hint)
        index = _READERS[self.answer](value, self.labels)
        if index is None:
            raise RecordError(
                "the label is outside the public label set",
                file=file,
                line=row.line,
                field=self.label_field,
                hint=f"The task '{self.name}' has {len(self.labels)} labels; correct the row or extend the task.",
            )
        return index

    def _text(self, row: Row, name: str, file: str) -> str:
        value = row.values.get(name)
        if name not in row.values:
            raise self._absent(row, name, file)
        if is_missing(value):
            problem, hint = "the field is missing or empty", "Fill it in, or remove the row."
        elif not isinstance(value, str):
            problem, hint = "the field is not a text", "Write it in quotes, or remove the row."
        elif not value.strip():
            problem, hint = "the field holds only blanks", "Fill it in, or remove the row."
        else:
            return value
        raise RecordError(problem, file=file, line=row.line, field=name, hint=hint)

    def _absent(self, row: Row, name: str, file: str) -> RecordError:
        """A field that no column holds: which columns there are, and how to name the right one."""
        flag = {self.label_field: "--label-column"} | (
            {self.fields[0]: "--text-column"} if len(self.fields) == 1 else {}
        )
        cure = f"Name the column that holds it with {flag[name]} COLUMN" if name in flag else "Rename a column"
        hint = f"{there_are(row.values, file, self.labels)} {cure}, or in Python with columns={{{name!r}: COLUMN}}."
        problem = "the label is missing" if name == self.label_field else "the field is missing or empty"
        return RecordError(problem, file=file, line=row.line, field=name, hint=hint)

    def has_label(self, row: Row) -> bool:
        """Whether a row carries a label, as queries may for measuring accuracy."""
        return not is_missing(row.values.get(self.label_field))

    def example_of(self, row: Row, file: str) -> Example:
        """Reads a demonstration from a row; errors as for ``query_of`` and ``label_of``."""
        return Example(self.query_of(row, file), self.label_of(row, file))


def task_names() -> list[str]:
    """The built-in tasks, in alphabetical order."""
    return sorted(entry.name.removesuffix(".toml") for entry in _built_in().iterdir() if entry.name.endswith(".toml"))


def load_task(name_or_path: str) -> Task:
    """Loads a built-in task by name, or a user's own ``.toml`` file.

    Raises:
        TaskError: There is no such task, or the file is not a task.
        ParameterError: The name is no text.
    """
    Kind(str, "the name of a built-in task, or of a .toml file").read("task", name_or_path)
    if name_or_path in task_names():
        return _parse((_built_in() / f"{name_or_path}.toml").read_text("utf-8"), name_or_path)
    path = Path(name_or_path)
    if path.suffix != ".toml":
        raise TaskError(
            f"There is no task {name_or_path!r}{nearest(name_or_path, task_names()) or '.'} Built in: "
            f"{', '.join(task_names())}; or name a .toml file."
        )
    try:
        text = limits.read_text(path, "task file", limits.TOML_BYTES)
    except (OSError, ValueError):
        raise TaskError(
            f"The task file {name_or_path!r} cannot be read. Check the path and that it is UTF-8."
        ) from None
    return _parse(text, name_or_path)


def _built_in() -> Any:
    return resources.files("sottovoce") / "data" / "tasks"


def _parse(text: str, name: str) -> Task:
    if any(line.count(".") > limits.TOML_DOTS for line in text.split("\n")):
        raise TaskError(
            f"The task file {name!r} has more than {limits.TOML_DOTS} full stops in a line. Break the line."
        )
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise TaskError(f"The task file {name!r} nests lists or tables too deep; a task has none but labels.") from None
    except ValueError as error:
        raise TaskError(f"The task file {name!r} is not valid TOML: {error}.") from None
    known = {"name", "labels", "instruction", "query", "example", "label_field", "answer", "image"}
    if unknown := sorted(set(values) - known):
        raise TaskError(
            f"The task file {name!r} has the unknown key {unknown[0]!r}. Known: {', '.join(sorted(known))}."
        )
    if "labels" not in values:
        raise TaskError(f"The task file {name!r} names no labels. The label set is public and must be given.")
    if wrong := [key for key in values if key != "labels" and not isinstance(values[key], str)]:
        raise TaskError(f"The key {wrong[0]!r} of the task file {name!r} must be a text.")
    values.setdefault("name", Path(name).stem)
    if "query" in values and "example" not in values:
        values["example"] = values["query"] + " {label}"
    try:
        return Task(**values)
    except InputError as error:
        raise TaskError(f"Task file {name!r}: {error}") from None


def _checked_labels(labels: object) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Sequence) or not all(isinstance(name, str) for name in labels):
        raise TaskError("Labels must be a list of names.")
    names = tuple(name.strip() for name in labels)
    if len(names) < 2:
        raise TaskError(f"A task needs at least two labels; {len(names)} given.")
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


def _by_name_or_index(value: object, labels: Sequence[str]) -> int | None:
    text = value.strip() if isinstance(value, str) else str(value)
    if text in labels:
        return labels.index(text)
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,6}(\.0)?", text):
        return None
    index = int(float(text))
    return index if index < len(labels) else None


def _first_digit(value: object, labels: Sequence[str]) -> int | None:
    match = re.search(r"[0-9]", str(value).rpartition("####")[2])
    return labels.index(match.group()) if match and match.group() in labels else None


_READERS: dict[str, Callable[[object, Sequence[str]], int | None]] = {
    "label": _by_name_or_index,
    "first_digit": _first_digit,
    "present": lambda value, labels: 0,
}
