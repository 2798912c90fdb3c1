"""Rows that a fit leaves, and their certificate: a fit's own, with the task that the rows are of.

A fit that leaves texts can be written as a file of rows, the task's fields and the label on each, for whatever reads
rows. The certificate is in a file beside it. It is that of the fit, for these rows in this order: its hash is that of
the texts, their labels, the task and the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, final

from sottovoce.errors import InputError, ParameterError, TaskError
from sottovoce.files.checkpoint import CERTIFICATE
from sottovoce.files.tables import encoded, is_table
from sottovoce.fitting.certificate import FitCertificate
from sottovoce.fitting.fitted import Fitted, content_hash, task_of, words_of
from sottovoce.methods.fitting.support import DemonstrationSupport
from sottovoce.privacy.checks import Check, read_json
from sottovoce.records.readers import read_written
from sottovoce.tasks import Example, Task

if TYPE_CHECKING:
    from sottovoce.privacy.ledger.ledger import Ledger
    from sottovoce.records.sealed import PrivateRecords

KIND: Final = "rows of a fit"
_SLACK: Final = 1 << 16
"""Bytes that a certificate may be longer than that of a fit that is about to be made (its version's and its run's), and
that a Parquet file of hardly any rows has."""
_PARTS: Final = {"kind", "task", "certificate"}


@final
@dataclass(frozen=True)
class RowsCertificate:
    """What was paid for a file of rows that a fit left.

    Attributes:
        certificate: Of the fit.
        task: That the rows are of.
    """

    certificate: FitCertificate
    task: Task

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Reads a certificate; ``None`` where the file is none of this kind.

        Raises:
            InputError: It is of this kind, and cannot be read.
        """
        try:
            content = read_json(file.read_text("utf-8"), file.name)
        except (OSError, ValueError):
            return None
        if not isinstance(content, dict) or content.get("kind") != KIND:
            return None
        if set(content) != _PARTS:
            raise InputError(f"{file.name} holds no certificate that can be read.")
        try:
            task = task_of(content["task"])
        except (TypeError, TaskError, ParameterError):
            raise InputError(f"{file.name} holds no certificate: its task cannot be read.") from None
        return cls(FitCertificate.from_dict(content["certificate"], file.name), task)

    @property
    def text(self) -> str:
        """As JSON, in the form that it is written in."""
        content = {"kind": KIND, "task": words_of(self.task), "certificate": self.certificate.as_dict}
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    def checks(
        self,
        rows: Sequence[Mapping[str, Any]] | None = None,
        ledger: Ledger | None = None,
        records: PrivateRecords | None = None,
    ) -> list[Check]:
        """Everything that can be looked at with what is given.

        Args:
            rows: The rows.
            ledger: That was charged.
            records: The private records.
        """
        same = list(self.task.labels) == list(self.certificate.labels)
        return [
            Check("the task has the labels of the certificate", same, "word by word"),
            *self.certificate.checks(None if rows is None else self._hash_of(rows), ledger, records),
        ]

    def support_of(self, rows: Sequence[Mapping[str, Any]]) -> DemonstrationSupport | None:
        """Rows as what a fit left; ``None`` where they are no rows of the task."""
        names, examples = {*self.task.fields, self.task.label_field}, []
        for row in rows:
            fields = {name: row.get(name) for name in self.task.fields}
            label = row.get(self.task.label_field)
            if set(row) != names or label not in self.task.labels:
                return None
            if not all(isinstance(value, str) for value in fields.values()):
                return None
            examples.append(Example({name: str(value) for name, value in fields.items()}, self._place_of(label)))
        return DemonstrationSupport(examples)

    def _hash_of(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """Hash of rows as a fit's content; empty where they are no rows of the task."""
        support = self.support_of(rows)
        if support is None:
            return ""
        return content_hash(support, self.task, self.certificate.model, self.certificate.embedding)

    def _place_of(self, label: Any) -> int:
        return list(self.task.labels).index(label)


def fitted_rows(out: Path, task: Task) -> Fitted | None:
    """The fit that left a file of rows, from the rows and the certificate beside them.

    Args:
        out: The rows.
        task: That they are of.

    Returns:
        What was fitted, which nothing was compared of yet but the task; ``None`` where there is no certificate.

    Raises:
        InputError: A file cannot be read, or the rows are no rows of the task.
    """
    proof = out.with_name(out.name + CERTIFICATE)
    if not proof.exists():
        return None
    beside = RowsCertificate.read(proof)
    if beside is None:
        raise InputError(f"{proof} is no certificate of rows that a fit left. Name another --out. Nothing was charged.")
    support = beside.support_of(read_written(out)) if words_of(beside.task) == words_of(task) else None
    if support is None:
        raise InputError(f"{out} or its certificate has rows of another task. Name another --out. Nothing was charged.")
    return Fitted(support, task, beside.certificate.model, beside.certificate.embedding, beside.certificate)


def rows_of(fitted: Fitted) -> list[dict[str, str]]:
    """The rows that a fit leaves: the task's fields and the label, in the order of the labels as a rule.

    Raises:
        ParameterError: It left no texts alone.
    """
    support, task = fitted.support, fitted.task
    if not isinstance(support, DemonstrationSupport) or support.classifier is not None:
        raise ParameterError("fitted", fitted.method, "fitted with rows=True, which leaves texts alone")
    return [{**example.fields, task.label_field: task.labels[example.label]} for example in support.examples]


def most_bytes_of_rows(head: Fitted, texts: int, longest: int) -> int:
    """Bytes of a file of rows and its certificate at most, whatever is drawn and in whatever format.

    CSV has the names of columns once. Parquet may hold a text twice: in its dictionary and plain.

    Args:
        head: What is fitted, without a text.
        texts: Rows.
        longest: Bytes of the longest text's fields, as JSON in plain characters.
    """
    label = max(len(json.dumps({head.task.label_field: label})) for label in head.task.labels)
    return 2 * texts * (longest + label + 1) + len(RowsCertificate(head.certificate, head.task).text) + _SLACK


def content_of(fitted: Fitted, out: Path) -> bytes:
    """The rows in the format of a file's ending, in which no public text fails after the draw."""
    rows = rows_of(fitted)
    if is_table(out):
        return encoded(rows, out)
    return "".join(json.dumps(row) + "\n" for row in rows).encode("ascii")
