"""How a model is asked for one more text like those it is shown, and how what it wrote becomes a row.

Everything here is public: templates, labels, schema. A private row enters through ``show`` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from sottovoce.errors import InputError, MissingExtraError, ParameterError, RecordError, TaskError
from sottovoce.records import limits
from sottovoce.records.sealed import Row, is_missing
from sottovoce.tasks import Task, text_in

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

NO_LABEL: Final = ""
"""The one kind of texts where rows have no label."""
ASK_FOR_TEXT: Final = "Write one more text like these, on one line, and nothing else."
ASK_FOR_OBJECT: Final = "Write one more record like these, as a JSON object on one line, and nothing else."


@final
@dataclass(frozen=True)
class GenerationTemplate:
    """Templates for writing: one field as plain text, or several as a JSON object.

    Attributes:
        fields: Columns that a text is made of.
        task: Whose public labels are written about, and how a row's label is read; ``None`` for rows without labels.
        before: Public opening, with ``{label}`` where there are labels.
        lead: What stands before every shown text, and at the end of the prompt, where the new one begins.
        schema: JSON schema that a written object must meet; public. ``None`` for any object.
        grammar: Whether tokens are chosen among those that keep to the schema.
        request: What ends a prompt that is a user's turn in a conversation, asking for one text; see ``asking``. Empty
            where a prompt is a text to be continued, which ends with the lead.

    Raises:
        TaskError: There is no field, or a template is not usable.
        ParameterError: There is a grammar and no schema.

    Example:
        >>> plain = GenerationTemplate(("text",), Task(labels=["billing", "fraud"]))
        >>> plain.opening("billing") + plain.show({"text": "Charged twice."}) + plain.lead
        'Here are texts of type billing.\\nText: Charged twice.\\nText:'
        >>> plain.read(" The fee is wrong.\\nText: another")
        {'text': 'The fee is wrong.'}
    """

    fields: tuple[str, ...]
    task: Task | None = None
    before: str = ""
    lead: str = "Text:"
    schema: Mapping[str, Any] | None = None
    grammar: bool = False
    request: str = ""

    def __post_init__(self) -> None:
        if self.grammar and self.schema is None:
            raise ParameterError("grammar", self.grammar, "left out where there is no schema (--schema) to keep to")
        if not self.fields:
            raise TaskError("A text to be written needs at least one field.")
        if not self.lead.strip() or self.lead != self.lead.strip():
            raise TaskError(f"The lead {self.lead!r} must be a text without blanks around it, such as 'Text:'.")
        if not self.before:
            object.__setattr__(
                self, "before", "Here are texts of type {label}.\n" if self.task else "Here are texts.\n"
            )
        try:
            self.opening(NO_LABEL)
        except (KeyError, IndexError, ValueError, AttributeError):
            raise TaskError("The opening of a prompt for writing may hold {label} alone.") from None

    @staticmethod
    def of(task: Task) -> GenerationTemplate:
        """For a task's own fields and labels."""
        if task.image:
            raise TaskError(f"The task {task.name!r} has images; texts alone can be written.")
        return GenerationTemplate(task.fields, task, lead="Record:" if len(task.fields) > 1 else "Text:")

    @staticmethod
    def of_schema(file: str | Path, task: Task | None = None, *, grammar: bool = False) -> GenerationTemplate:
        """For JSON objects that meet a schema, whose ``properties`` are the fields, in their order.

        Raises:
            InputError: The file cannot be read, or is no schema of an object.
            MissingExtraError: jsonschema is not installed.
        """
        path = Path(file)
        try:
            schema = json.loads(limits.read_text(path, "schema"))
        except (OSError, ValueError, RecursionError):
            raise InputError(f"The schema {path.name!r} cannot be read as JSON. Check the path.") from None
        if problem := limits.nested_problem(schema, limits.PUBLIC_BYTES):
            raise InputError(f"The schema {path.name!r} cannot be used: {problem}.")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(properties, dict) or not properties:
            raise InputError(f"The schema {path.name!r} names no properties. Give a JSON schema of an object.")
        if outside := [name for name in _references(schema) if not name.startswith("#")]:
            raise InputError(f"The schema {path.name!r} refers to {outside[0]!r}; it must stand by itself.")
        kind = str(schema.get("title", "record")).replace("{", "{{").replace("}", "}}")
        before = f"Here are records of type {kind}" + (" and {label}.\n" if task else ".\n")
        writing = GenerationTemplate(tuple(properties), task, before, "Record:", schema, grammar)
        _ = writing._validator
        return writing

    def asking(self) -> GenerationTemplate:
        """The same with prompts that ask for one text, for models that answer in a conversation."""
        return replace(self, request=ASK_FOR_OBJECT if self.structured else ASK_FOR_TEXT)

    @property
    def ending(self) -> str:
        """The public end of every prompt."""
        return self.request or self.lead

    @property
    def labels(self) -> Sequence[str]:
        """The public label set, or one nameless label."""
        return self.task.labels if self.task else (NO_LABEL,)

    @property
    def structured(self) -> bool:
        """Whether a text is a JSON object."""
        return len(self.fields) > 1 or self.schema is not None

    def opening(self, label: str) -> str:
        """The public begin of every prompt about a label."""
        return self.before.format(label=label)

    def show(self, values: Mapping[str, object]) -> str:
        """One shown text, as private as its values. Line breaks become blanks: a line is a text."""
        if not self.structured:
            return f"{self.lead} {_one_line(str(values[self.fields[0]]))}\n"
        kept = {name: values[name] for name in self.fields if not is_missing(values.get(name))}
        return f"{self.lead} {json.dumps(kept, ensure_ascii=False, default=str)}\n"

    def label_of(self, row: Row, file: str) -> int:
        """Checks a row that is to be shown, and reads the index of its label.

        Raises:
            RecordError: A field or the label is not usable; the line is named, the content is not.
        """
        if self.structured:
            if all(is_missing(row.values.get(name)) for name in self.fields):
                raise RecordError(
                    "all fields are missing",
                    file=file,
                    line=row.line,
                    field=row.column(self.fields[0]),
                    hint=f"Its texts are read from {', '.join(map(row.column, self.fields))}: fill one in, or remove "
                    "the row.",
                )
        else:
            text_in(row, self.fields[0], file)
        return self.task.label_of(row, file) if self.task else 0

    def is_blank(self, row: Row) -> bool:
        """Whether nothing is left of a row: the blank of zero-out adjacency."""
        names = (*self.fields, *([self.task.label_field] if self.task else []))
        return all(is_missing(row.values.get(name)) for name in names)

    def ended(self, text: str) -> bool:
        """Whether what was written has come to another text, so that the rest is not needed."""
        return "\n" in text.lstrip()

    def read(self, text: str) -> dict[str, Any] | None:
        """The row that was written; ``None`` where it is blank or, for objects, not what was asked for.

        Whatever a model wrote, a row can be written as a line of JSON and read again.
        """
        line = text.strip().partition("\n")[0].strip()
        if not line or not _encodable(line):
            return None
        if not self.structured:
            return {self.fields[0]: line}
        values = _object_of(line)
        if values is None:
            return None
        if self._validator is not None:
            return values if self._is_valid(values) else None
        if self.task is None:
            return values
        # A task's templates want each of its fields as a text; anything else would spoil the file for them.
        kept = {name: values.get(name) for name in self.fields}
        return kept if all(isinstance(value, str) and value.strip() for value in kept.values()) else None

    def row_of(self, text: str, label: str) -> dict[str, Any] | None:
        """As ``read``, with the label it was written about."""
        values = self.read(text)
        return values if values is None or self.task is None else {**values, self.task.label_field: label}

    def _is_valid(self, values: Mapping[str, Any]) -> bool:
        """Whether an object meets the schema; one that it cannot be held against does not."""
        try:
            return self._validator is not None and bool(self._validator.is_valid(values))
        except Exception:  # a reference that leads nowhere, a pattern that is none: found only now, when all is paid
            return False

    @cached_property
    def _validator(self) -> Validator | None:
        if self.schema is None:
            return None
        try:
            from jsonschema.exceptions import SchemaError
            from jsonschema.validators import validator_for
        except ModuleNotFoundError:
            raise MissingExtraError("jsonschema", "schema") from None
        kind = validator_for(self.schema)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            raise ParameterError("schema", "the file given", f"a JSON schema: {error.message}") from None
        except RecursionError:
            raise ParameterError("schema", "the file given", "a JSON schema that is nested less deep") from None
        return kind(self.schema)


def _references(schema: Any) -> Iterator[str]:
    """Everything that a schema refers to."""
    if isinstance(schema, dict):
        yield from (str(value) for name, value in schema.items() if name in {"$ref", "$dynamicRef"} and value)
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        yield from _references(part)


def _object_of(line: str) -> dict[str, Any] | None:
    """The JSON object of a line, if it can be written as UTF-8 again and read by strict JSON readers."""
    try:
        values = json.loads(line)
        again = json.dumps(values, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and _encodable(again) else None


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _one_line(text: str) -> str:
    return " ".join(text.split())
