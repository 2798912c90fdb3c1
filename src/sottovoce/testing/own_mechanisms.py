"""The contract of a mechanism that an entry brings along: what it draws is as private as that mechanism is.

An entry's draws are priced by what its mechanisms state. The package's own have contracts; a class of somebody's own,
such as a subclass with another scale, has one only if it is checked for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sottovoce.mechanisms.base import Mechanism
from sottovoce.testing.draw_tape import own_mechanisms
from sottovoce.testing.fingerprints import fingerprint
from sottovoce.testing.mechanisms import check_mechanism
from sottovoce.testing.report import ContractError, Report

MOST_OF_A_CLASS: Final = 12
"""Instances of one class that are checked."""


def check_own_mechanisms(subject: str, report: Report) -> None:
    """Puts every mechanism that an entry drew by, and that is not the package's, through its contract.

    Args:
        subject: The entry.
        report: Of the entry, which lists what is not compared of them.

    Raises:
        ContractError: One of them breaks its contract, or no instance of a class can be checked.
    """
    for kind, every in own_mechanisms().items():
        name, alike = kind.__name__, dict[str, Mechanism]()
        for mechanism in every:
            alike.setdefault(repr(fingerprint(mechanism)), mechanism)
        known = [*alike.values()]
        _check(subject, name, known[:MOST_OF_A_CLASS], report)
        if (more := len(known) - MOST_OF_A_CLASS) > 0:
            report.not_compared(f"{name}: {more} of {len(known)} ways in which it is made")


def _check(subject: str, name: str, every: Sequence[Mechanism], report: Report) -> None:
    """Checks instances of one class. What the suite cannot compare, such as noise that is too wide at a price that it
    chose, is listed where another instance can be compared."""
    driven, failed = 0, list[ContractError]()
    for mechanism in every:
        its = Report("mechanism", name)
        try:
            check_mechanism(mechanism, report=its)
        except ContractError as error:
            if _is_refusal(error):
                raise _undriven(subject, name, error) from error
            if error.contract != "drive":
                problem = f"it draws by a mechanism of its own, {name}, which breaks its contract: {error.found}"
                raise ContractError(error.contract, subject, problem, error.world) from error
            failed.append(error)
            continue
        driven += 1
        for words in its.uncompared:
            report.not_compared(f"{name}: {words}")
    if failed and not driven:
        raise _undriven(subject, name, failed[0]) from failed[0]
    for each in failed:
        report.not_compared(f"{name}: {each.found}")


def _undriven(subject: str, name: str, error: ContractError) -> ContractError:
    problem = f"it draws by a mechanism of its own, {name}, which cannot be checked: {error.found}"
    return ContractError("drive", subject, problem, error.world)


def _is_refusal(error: ContractError) -> bool:
    """Whether it is an error of the mechanism's own, which proves nothing of its guarantee."""
    return error.__cause__ is not None and not isinstance(error.__cause__, ContractError)
