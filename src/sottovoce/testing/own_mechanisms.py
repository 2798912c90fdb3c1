"""The contract of a mechanism that an entry brings along: what it draws is as private as that mechanism is.

An entry's draws are priced by what its mechanisms state. The package's own have contracts; a class of somebody's own,
such as a subclass with another scale, has one only if it is checked for itself.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from sottovoce.errors import InputError
from sottovoce.testing.draw_tape import own_mechanisms
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
        ContractError: One of them breaks its contract, or cannot be checked at the parameters that it drew with.
    """
    checked = Counter[str]()
    for mechanism in own_mechanisms():
        name = type(mechanism).__name__
        checked[name] += 1
        if checked[name] > MOST_OF_A_CLASS:
            continue
        its = Report("mechanism", name)
        try:
            check_mechanism(mechanism, report=its)
        except ContractError as error:
            if isinstance(error.__cause__, InputError):  # which is no proof that the guarantee does not hold
                problem = f"it draws by a mechanism of its own, {name}, which refuses what every one must take"
                raise ContractError("drive", subject, f"{problem}: {error.found}", error.world) from error
            problem = f"it draws by a mechanism of its own, {name}, which breaks its contract: {error.found}"
            raise ContractError(error.contract, subject, problem, error.world) from error
        for words in its.uncompared:
            report.not_compared(f"{name}: {words}")
    for name, count in checked.items():
        if count > MOST_OF_A_CLASS:
            report.not_compared(f"{name}: {count - MOST_OF_A_CLASS} of {count} ways in which it is made")
