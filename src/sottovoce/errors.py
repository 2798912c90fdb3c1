"""Every error of the library, in one tree.

::

    SottoError                      exit code
    ├── InputError                  2   the caller can mend it
    │   ├── RecordError                 a row of a file: file, line, field
    │   ├── TaskError                   labels, templates
    │   ├── ParameterError              a number or a name out of range
    │   ├── AssignmentError             no guarantee exists for this assignment and adjacency
    │   ├── NonPrivateError             a method without a guarantee, not allowed here
    │   ├── OpaqueError                 somebody tried to look inside sealed data
    │   ├── OutputError                 what a command prints cannot be written
    │   └── MissingExtraError           an optional package is not installed
    ├── BudgetError                 3   the charge is refused, or the ledger
    │   ├── BudgetExhaustedError        asked, left, limit
    │   ├── LedgerMismatchError         this ledger is kept for other data or another adjacency
    │   └── LedgerUnavailableError      it cannot be read or written; it says so where a charge stands
    └── ModelError                  4   the model could not be loaded or run

Messages name the value, the limit and the next step. They never quote a private record: a row is named by
file, line and field alone.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, final


@final
class _Given:
    """Stands for a value that should not be given at all; which value it is does not matter."""

    def __repr__(self) -> str:
        return "given"


GIVEN: Final = _Given()


class SottoError(Exception):
    """The root of the tree; ``exit_code`` is what the command line returns."""

    exit_code: ClassVar[int] = 2

    def __reduce__(self) -> tuple[Any, ...]:
        """Comes through a process boundary whole, whatever its constructor asks for."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[SottoError], args: tuple[Any, ...], state: dict[str, Any]) -> SottoError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(SottoError):
    """Something the caller gave is not usable."""


class LostDrawError(InputError):
    """What a charge was drawn for is not whole on the disk, and it covers no second draw."""


class RecordError(InputError):
    """A row cannot be used.

    Args:
        problem: What is wrong, without quoting the row.
        file: Name of the file, or of the in-memory source.
        line: 1-based line (for Parquet and pandas the 1-based row), if one line is to blame.
        field: Name of the field, if one field is to blame.
        hint: The next step.
    """

    def __init__(
        self, problem: str, *, file: str, line: int | None = None, field: str | None = None, hint: str = ""
    ) -> None:
        where = file + (f", line {line}" if line is not None else "") + (f", field '{field}'" if field else "")
        super().__init__(f"{where}: {problem}." + (f" {hint}" if hint else ""))
        self.file, self.line, self.field = file, line, field


class TaskError(InputError):
    """A task is not well formed, or its labels do not suit the model."""


class ParameterError(InputError):
    """A parameter is out of range.

    Args:
        name: The parameter, as the caller spells it.
        value: What was given; parameters are public, so it is shown. ``GIVEN`` where any value is too much.
        limit: What would be accepted.
    """

    def __init__(self, name: str, value: object, limit: str) -> None:
        given = "missing" if value is None else _shown(value)
        super().__init__(f"{name} is {given}; it must be {limit}" + ("" if limit.endswith("?") else "."))
        self.name, self.value, self.limit = name, value, limit


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return f"a {type(value).__name__} that is too long to be shown"


class AssignmentError(InputError):
    """No guarantee is known for this assignment of records to experts under this adjacency (spec, table 2.2)."""


class NonPrivateError(InputError):
    """A method without a guarantee was asked of private records."""


class OpaqueError(InputError):
    """Code tried to show, copy or store sealed private data."""


class OutputError(InputError):
    """What a command prints on stdout cannot be written, as on a full disk; whoever knows the command adds what is lost
    with it and what is kept.
    """


class MissingExtraError(InputError):
    """An optional package is not installed; the message holds the exact install line."""

    def __init__(self, package: str, extra: str = "", *, install: str = "") -> None:
        line = install or f"pip install 'sottovoce[{extra}]'"
        super().__init__(f"This needs the package '{package}'. Install it with: {line}")


class BudgetError(SottoError):
    """The ledger does not allow the release. Nothing was charged for it, unless the message says what stands."""

    exit_code: ClassVar[int] = 3


class BudgetExhaustedError(BudgetError):
    """The charge does not fit under the limit.

    Attributes:
        asked: The charge, in the ledger's unit.
        left: What remains, in the same unit.
        limit: The cap, in the same unit.
    """

    def __init__(self, message: str, *, asked: float, left: float, limit: float) -> None:
        super().__init__(message)
        self.asked, self.left, self.limit = asked, left, limit


class LedgerMismatchError(BudgetError):
    """The ledger is kept for other data, another adjacency or another unit."""


class LedgerUnavailableError(BudgetError):
    """The ledger cannot be read or written. Without a durable charge there is no answer."""


class ModelError(SottoError):
    """The model could not be loaded or did not answer.

    Attributes:
        retryable: Whether the same call may succeed later.
        release_id: The name of an answer that was charged and drawn, but not finished. Asking again under this name
            finishes it without a new draw. ``None`` for any other failure.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, *, retryable: bool = False, release_id: str | None = None) -> None:
        super().__init__(message)
        self.retryable, self.release_id = retryable, release_id
