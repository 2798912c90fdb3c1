"""How a model is asked for one more text like those it is shown, and how what it wrote becomes a row.

Everything here is public: templates, the label, the schema. A private row enters through ``show`` alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from sottovoce.errors import RecordError, TaskError
from sottovoce.records import Row, is_missing
from sottovoce.tasks import Task


@final
@dataclass(frozen=True)
class Writing:
    """Templates for writing, with one field as plain text or several as a JSON object.

    Attributes:
        fields: Columns that a text is made of.
        before: Public opening, with ``{label}``.
        lead: What stands before every shown text, and at the end of the prompt, where the new one begins.

    Raises:
        TaskError: There is no field, or a template is not usable.

    Example:
        >>> plain = Writing(("text",))
        >>> plain.before.format(label="billing") + plain.show({"text": "Charged twice."}) + plain.after
        'Here are texts of type billing.\\nText: Charged twice.\\nText:'
        >>> plain.read(" The fee is wrong.\\nText: another")
        {'text': 'The fee is wrong.'}
    """

    fields: tuple[str, ...]
    before: str = "Here are texts of type {label}.\n"
    lead: str = "Text:"

    def __post_init__(self) -> None:
        if not self.fields:
            raise TaskError("A text to be written needs at least one field.")
        if not self.lead.strip() or self.lead != self.lead.strip():
            raise TaskError(f"The lead {self.lead!r} must be a text without blanks around it, such as 'Text:'.")
        try:
            self.before.format(label="")
        except (KeyError, IndexError, ValueError):
            raise TaskError("The opening of a prompt for writing may hold {label} alone.") from None

    @staticmethod
    def of(task: Task, fields: Sequence[str] | None = None) -> Writing:
        """For a task's own fields, or for those of a schema."""
        return Writing(tuple(fields or task.fields), lead="Record:" if len(fields or task.fields) > 1 else "Text:")

    @property
    def after(self) -> str:
        """The end of every prompt."""
        return self.lead

    @property
    def structured(self) -> bool:
        """Whether a text is a JSON object."""
        return len(self.fields) > 1

    def show(self, values: Mapping[str, object]) -> str:
        """One shown text, as private as its values. Line breaks become blanks: a line is a text."""
        if not self.structured:
            return f"{self.lead} {_one_line(str(values[self.fields[0]]))}\n"
        kept = {name: values[name] for name in self.fields if not is_missing(values.get(name))}
        return f"{self.lead} {json.dumps(kept, ensure_ascii=False, default=str)}\n"

    def check(self, row: Row, file: str) -> None:
        """Refuses a row that cannot be shown.

        Raises:
            RecordError: A field is missing; the line is named, the content is not.
        """
        if self.structured:
            if all(is_missing(row.values.get(name)) for name in self.fields):
                raise RecordError("all fields are missing", file=file, line=row.line, field=self.fields[0])
            return
        value = row.values.get(self.fields[0])
        if not isinstance(value, str) or not value.strip():
            raise RecordError("the field is missing, blank or no text", file=file, line=row.line, field=self.fields[0])

    def ended(self, text: str) -> bool:
        """Whether what was written has come to another text, so that the rest is not needed."""
        return "\n" in text.lstrip()

    def read(self, text: str) -> dict[str, Any] | None:
        """The row that was written; ``None`` where it is blank or, for several fields, no JSON object."""
        line = text.strip().partition("\n")[0].strip()
        if not line:
            return None
        if not self.structured:
            return {self.fields[0]: line}
        try:
            values = json.loads(line)
        except ValueError:
            return None
        return values if isinstance(values, dict) else None


def _one_line(text: str) -> str:
    return " ".join(text.split())
