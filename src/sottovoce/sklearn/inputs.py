"""X, y and groups as scikit-learn hands them over, turned into sealed records. No error quotes a cell.

scikit-learn and numpy quote cells in their own conversion errors, so conversions are made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InputError, RecordError
from sottovoce.models.base import FloatArray
from sottovoce.records.sealed import RECORD_UNIT, UNIT_COLUMN, PrivateRecords, Row, identity_text, is_missing
from sottovoce.tasks import Task

TEXT: Final = "text"
NUMBERS: Final = "numbers"
_LONGEST_LABEL: Final = 1024
"""Bits of a number that is a label."""
_NO_ARRAY: Final = (ValueError, TypeError, OverflowError)
"""What numpy and pandas raise for cells of which no array can be made."""


class UnusableDataError(InputError, ValueError):
    """``X``, ``y`` or the classes cannot be used. A ``ValueError`` too, as scikit-learn's tools expect."""


@final
class UnusableCellError(UnusableDataError, TypeError):
    """A cell is of a kind that is no number. A ``TypeError`` too, as scikit-learn's tools expect."""


def texts(X: Any) -> list[Any] | None:
    """The cells of a column of texts; ``None`` where this is something else."""
    if isinstance(X, list | tuple):
        return list(X) if any(isinstance(cell, str) for cell in X) else None
    if getattr(X, "ndim", None) != 1:
        return None
    cells = np.asarray(X, dtype=object).tolist()
    return cells if any(isinstance(cell, str) for cell in cells) else None


def table(X: Any, name: str = "X") -> FloatArray:
    """Numbers, shape (rows, features). No error quotes a cell, unlike those of the conversions made here."""
    if hasattr(X, "toarray"):
        raise UnusableDataError(f"{name} is sparse; a dense array is needed. Convert it with {name}.toarray().")
    failed: type[UnusableDataError] | None = None
    try:
        array = np.asarray(X)
        if array.dtype.kind != "c" and array.ndim == 2:
            return np.asarray(array, dtype=np.float64)
    except _NO_ARRAY as error:
        failed = UnusableCellError if isinstance(error, TypeError) else UnusableDataError
    if failed is not None:  # out of reach of an error that may quote a cell
        raise failed(
            f"{name} has a cell that is not a number, or rows of different lengths. An argument must be a string of "
            "digits or a number. Texts have shape (rows,): pass one column, such as frame['text']."
        )
    if array.dtype.kind == "c":
        raise UnusableDataError("Complex data not supported.")
    raise UnusableDataError(
        f"Expected 2D array, got {array.ndim}D array instead. Pass {name} as texts of shape (rows,), or numbers of "
        f"shape (rows, features). Reshape your data: {name}.reshape(-1, 1) if it is a single feature, "
        f"{name}.reshape(1, -1) if a single row."
    )


def checked(X: Any, name: str, estimator: Any) -> FloatArray:
    """Finite numbers in at least one row and one column, shape (rows, features)."""
    from sklearn.utils.validation import check_array

    numbers = table(X, name)
    try:
        check_array(numbers, estimator=estimator, input_name=name, ensure_all_finite=False)
    except ValueError as error:  # of shapes alone
        raise UnusableDataError(str(error)) from None
    require_finite(numbers, name)
    return numbers


def require_finite(table: FloatArray, name: str) -> None:
    """Refuses numbers that are not finite, by the number of their row."""
    rows = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(rows):
        what = "NaN" if np.isnan(table[rows[0]]).any() else "infinity"
        raise UnusableDataError(f"Input {name} contains {what}, first in row {rows[0] + 1}. Leave that row out.")


def labels(values: Any, name: str, count: int | None = None) -> NDArray[Any]:
    """Texts or whole numbers, shape (rows,). No error quotes one."""
    from sklearn.utils.validation import column_or_1d

    if values is None:
        raise UnusableDataError("This PrivateICLClassifier requires y to be passed, but the target y is None.")
    labels = _array(values, name)
    if labels.dtype.kind not in "biufUOT":
        raise UnusableDataError(f"Unknown label type: {name} must hold texts or whole numbers.")
    if labels.ndim != 1 and (labels.ndim != 2 or labels.shape[1] != 1):
        raise UnusableDataError(f"{name} should be a 1d array, got an array of shape {labels.shape} instead.")
    labels = column_or_1d(labels, warn=True)
    if count is not None and len(labels) != count:
        raise UnusableDataError(f"X and {name} have inconsistent numbers of samples.")
    cells = labels.tolist()
    for line, cell in enumerate(cells, 1):
        if is_missing(cell):
            raise UnusableDataError(f"Input {name} contains NaN or an empty label, first in row {line}.")
        if isinstance(cell, int) and cell.bit_length() > _LONGEST_LABEL:
            raise UnusableDataError(f"Unknown label type: {name} must hold shorter numbers; row {line} does not.")
        if not isinstance(cell, str | int) and not (isinstance(cell, float) and cell.is_integer()):
            raise UnusableDataError(
                f"Unknown label type: {name} must hold texts or whole numbers; row {line} does not."
            )
    if len({isinstance(cell, str) for cell in cells}) > 1:
        raise UnusableDataError(f"Unknown label type: {name} mixes texts and numbers.")
    return np.asarray(labels)


def _array(values: Any, name: str) -> NDArray[Any]:
    array = None
    with suppress(*_NO_ARRAY):
        array = np.asarray(values)
    if array is None:  # out of reach of an error that may quote a cell
        raise UnusableDataError(f"{name} must hold one value for every row; some hold several.")
    return array


def task(field: str, classes: NDArray[Any]) -> Task:
    """A task for texts or for numbers, with the declared classes as labels."""
    labels = [str(value) for value in classes.tolist()]
    if field == TEXT:
        return Task(labels=labels)
    query = f"Numbers: {{{NUMBERS}}}\nLabel:"
    return Task(
        labels=labels,
        name=NUMBERS,
        instruction="Read the numbers and answer with their label.",
        query=query,
        example=query + " {label}",
    )


def names(labels: NDArray[Any], classes: NDArray[Any], task: Task) -> list[str]:
    """The task's name for each label, shape (rows,)."""
    names = dict(zip(classes.tolist(), task.labels, strict=True))
    task_labels = [names.get(value) for value in labels.tolist()]
    if None in task_labels:
        raise RecordError(
            "the label is outside the declared classes",
            file="y",
            line=task_labels.index(None) + 1,
            hint="Correct the row, or add its label to classes; texts and numbers are different labels.",
        )
    return [str(name) for name in task_labels]


def sealed(
    field: str, cells: Sequence[Any], names: Sequence[str], groups: Any, *, synthetic: bool = False
) -> PrivateRecords:
    """Cells and label names as sealed records; the unit is the group where groups are given."""
    columns: dict[str, Sequence[Any]] = {field: cells, "label": names}
    unit = RECORD_UNIT if groups is None else UNIT_COLUMN
    if groups is not None:
        owners = _array(groups, "groups")
        if owners.shape != (len(cells),):
            raise UnusableDataError("groups must have one entry for every row of X.")
        given = np.asarray(groups, dtype=object)
        if len(set(map(identity_text, owners.tolist()))) < len(set(map(identity_text, given.tolist()))):
            raise UnusableDataError("groups holds ids that an array of one type makes one of. Give them as texts.")
        columns[UNIT_COLUMN] = owners.tolist()
    return PrivateRecords(rows(columns), source="X", unit=unit, synthetic=synthetic)


def rows(columns: dict[str, Sequence[Any]]) -> Iterator[Row]:
    """Rows from equally long columns."""
    for line, values in enumerate(zip(*columns.values(), strict=True), 1):
        yield Row(line, dict(zip(columns, values, strict=True)))
