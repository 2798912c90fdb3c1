"""What a contract check says: the checks that passed, or the one that failed and the smallest world that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import final

from sottovoce.errors import SottoError


class Effort(Enum):
    """How many worlds are tried."""

    QUICK = "quick"
    """A fraction of a second to a few seconds an entry."""
    FULL = "full"
    """More worlds, prices, options and draws; half an hour or more in all."""


@final
class ContractError(AssertionError):
    """A method, decoder or mechanism breaks its contract.

    Attributes:
        contract: The check that failed, such as ``neighbours`` or ``state``.
        subject: What was checked, with its options.
        found: What was found, in words.
        world: The smallest world that shows it; empty where no world is needed.
    """

    def __init__(self, contract: str, subject: str, found: str, world: str = "") -> None:
        self.contract, self.subject, self.found, self.world = contract, subject, found, world
        where = f"\n  in this world: {world}" if world else ""
        super().__init__(f"{subject} breaks the contract '{contract}': {found}{where}")


@final
@dataclass(frozen=True)
class Check:
    """One contract that was kept.

    Attributes:
        contract: Its name.
        cases: Worlds, pairs or draws that were tried.
        note: What the figure says.
    """

    contract: str
    cases: int
    note: str = ""


@final
@dataclass
class Report:
    """What was checked of one entry.

    Attributes:
        kind: ``method``, ``decoder`` or ``mechanism``.
        name: Its registered name, or that of its class.
        checks: Contracts that were kept.
        failure: The contract that was broken; ``None`` where all were kept.
        refused: Settings that the entry refuses, which need no check.
        uncompared: What was not compared, and why.
        no_copies: Why no copy of the process is asked any more; empty while copies answer.
    """

    kind: str
    name: str
    checks: list[Check] = field(default_factory=list)
    failure: ContractError | None = None
    refused: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    no_copies: str = ""

    @property
    def passed(self) -> bool:
        """Whether every contract was kept."""
        return self.failure is None

    def kept(self, contract: str, cases: int, note: str = "") -> None:
        """Notes that a contract was kept; cases of the same contract are added up."""
        for number, check in enumerate(self.checks):
            if check.contract == contract:
                self.checks[number] = Check(contract, check.cases + cases, note or check.note)
                return
        self.checks.append(Check(contract, cases, note))

    def not_compared(self, what: str) -> None:
        """Notes something that could not be compared, once."""
        if what not in self.uncompared:
            self.uncompared.append(what)

    def with_refusal(self, problem: str) -> str:
        """A problem, and what the entry said where it first refused."""
        return f"{problem}; first it said: {self.refused[0]}" if self.refused else problem

    def require(self, *contracts: str) -> None:
        """Notes which of these contracts no case was tried for."""
        tried = {check.contract for check in self.checks if check.cases}
        for contract in contracts:
            if contract not in tried:
                self.not_compared(f"{contract}, for want of any case that the entry takes")

    def __str__(self) -> str:
        if self.failure is not None:
            return f"{self.kind} {self.name}: FAILED\n  {self.failure}"
        lines = [f"  {c.contract}: {c.cases} cases{', ' + c.note if c.note else ''}" for c in self.checks]
        lines += [f"  refused: {text}" for text in self.refused]
        lines += [f"  not compared: {text}" for text in self.uncompared]
        return "\n".join([f"{self.kind} {self.name}: kept its contract", *lines])


World = str | Callable[[], str]
"""A world in words; or what gives them, where there are too many worlds to word each."""


def in_words(world: World) -> str:
    """A world in words, for a report."""
    return world if isinstance(world, str) else world()


@contextmanager
def must_not_raise(contract: str, subject: str, what: str, world: World = "") -> Iterator[None]:
    """Turns an exception of the code under test into a broken contract: what raises on data gives data away."""
    try:
        yield
    except ContractError:
        raise
    except (Exception, SottoError) as error:
        raise ContractError(
            contract, subject, f"{what} raised {type(error).__name__}: {error}", in_words(world)
        ) from error
