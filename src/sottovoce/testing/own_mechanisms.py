"""The contract of a mechanism that an entry brings along: what it draws is as private as that mechanism is.

An entry's draws are priced by what its mechanisms state. The package's own have contracts; a class of somebody's own,
such as a subclass with another scale, has one only if it is checked for itself.
"""

from __future__ import annotations

from sottovoce.testing.draw_tape import own_mechanisms
from sottovoce.testing.mechanisms import check_mechanism
from sottovoce.testing.report import ContractError, Report


def check_own_mechanisms(subject: str, report: Report) -> None:
    """Puts every mechanism that an entry drew by, and that is not the package's, through its contract.

    Args:
        subject: The entry.
        report: Of the entry, which lists what is not compared of them.

    Raises:
        ContractError: One of them breaks its contract, or cannot be checked at the parameters that it drew with.
    """
    for mechanism in own_mechanisms():
        name = type(mechanism).__name__
        its = Report("mechanism", name)
        try:
            check_mechanism(mechanism, report=its)
        except ContractError as error:
            problem = f"it draws by a mechanism of its own, {name}, which breaks its contract: {error.found}"
            raise ContractError(error.contract, subject, problem, error.world) from error
        for words in its.uncompared:
            report.not_compared(f"{name}: {words}")
