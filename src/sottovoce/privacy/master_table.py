"""The master table: what one step of each primitive costs, for each way in which one unit can change the experts.

A method's author picks a row, gives it its natural parameters, and asks for the event of a change type; the factor of
two between a drop and a swap, and every other constant, is the row's business. A change for which a row knows no
bound is refused.

Guarantee   ``row.event(change)`` is valid for every pair of neighbours whose experts' outputs differ by ``change``.
Assumes     Isolation (specification 1.2), fixed public denominators (2.4), clipping by projection.
Sources     specification 4, with the derivations of section 5 named at each row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Annotated, Any, ClassVar, Final, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.checked import Checked, OneOf
from sottovoce.privacy.events import BoundedRange, DpEvent, GaussianDpEvent, PureDP, ZCDpEvent
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import ChangeType

NoiseLaw = Annotated[str, OneOf(("discrete", "continuous"))]
"""``discrete``: the integer sampler, priced by zCDP. ``continuous``: the correctly rounded normal, as Gaussian DP."""


@final
@dataclass(frozen=True)
class Sensitivity:
    """How far one change can move what is released.

    Attributes:
        value: The number.
        words: What it is a number of.
    """

    value: float
    words: str

    def __str__(self) -> str:
        return f"{self.words} <= {rounded_up(self.value, 6)}"


def is_drop(change: ChangeType) -> bool:
    """Whether outputs are exchanged with null, not with other outputs.

    Raises:
        ParameterError: The change is neither; its widths are not those of the specification 1.5.
    """
    if change.rows < 1 or change.widths not in (change.rows, 2 * change.rows):
        raise ParameterError("change", change.name, "a drop (widths = rows) or a swap (widths = 2 rows)")
    return change.widths == change.rows


def several(change: ChangeType, slots: int) -> ChangeType:
    """The change of a unit that may occupy ``slots`` experts, each changed as ``change`` says (specification 2.6).

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> several(SWAP, 2)
        ChangeType(name='2-swap', widths=4, rows=2)
    """
    if slots == 1:
        return change
    rows = change.rows * slots
    return ChangeType(f"{rows}-{'drop' if is_drop(change) else 'swap'}", change.widths * slots, rows)


class Row(Checked, ABC):
    """One row of the table. Subclasses are frozen dataclasses of public parameters."""

    name: ClassVar[str]
    source: ClassVar[str]
    law: ClassVar[str]
    """The mechanism in one line."""
    family: ClassVar[str]
    """What kind of guarantee one step has."""

    @abstractmethod
    def sensitivity(self, change: ChangeType) -> Sensitivity:
        """The bound that the event rests on."""

    @abstractmethod
    def event(self, change: ChangeType) -> DpEvent:
        """What one step costs.

        Raises:
            ParameterError: Nothing is known for this change.
        """

    def other_event(self, change: ChangeType) -> DpEvent:
        """A second event that prices the same step; whichever comes out less is valid. By default the first one."""
        return self.event(change)

    @property
    def steps(self) -> int:
        """Adaptive steps of one release."""
        return 1

    def figures(self, change: ChangeType) -> dict[str, float]:
        """The step's own parameter in its family: eta, mu, rho or pure_epsilon."""
        return figures_of(self.event(change))

    @property
    def parameters(self) -> dict[str, Any]:
        """The row's public parameters."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def figures_of(event: Any) -> dict[str, float]:
    """An event's own parameter, by the name of its family.

    Example:
        >>> figures_of(GaussianDpEvent(2.0))
        {'mu': 0.5}
    """
    match event:
        case BoundedRange():
            return {"eta": event.eta}
        case PureDP():
            return {"pure_epsilon": event.epsilon}
        case GaussianDpEvent():
            return {"mu": 1 / event.noise_multiplier if event.noise_multiplier else math.inf}
        case ZCDpEvent():
            return {"rho": event.rho}
    return figures_of(event.event) if hasattr(event, "event") else {}


class SelectionRow(Row):
    """A bounded-range selection: weights exp(rate * utility) whose log-weights move in range by at most eta."""

    family = "bounded range"

    @property
    @abstractmethod
    def eta_per_width(self) -> float:
        """eta of a drop: the rate times the range by which a vanished output moves the utility."""

    def event(self, change: ChangeType) -> BoundedRange:
        is_drop(change)
        return BoundedRange(self.eta_per_width * change.widths)


class PureRow(Row):
    """A release with pure DP and no bounded range."""

    family = "pure DP, without bounded range"

    @property
    @abstractmethod
    def epsilon_per_width(self) -> float:
        """epsilon of a drop."""

    def event(self, change: ChangeType) -> PureDP:
        is_drop(change)
        return PureDP(self.epsilon_per_width * change.widths)


class GaussianRow(Row):
    """A vector with Gaussian noise; ``sigma`` and ``noise`` are fields of the subclass."""

    family = "Gaussian noise"
    sigma: float
    noise: str

    @abstractmethod
    def norm(self, change: ChangeType) -> float:
        """Largest Euclidean norm of the change, in the unit of ``sigma``."""

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(self.norm(change), "Euclidean norm of the change of the released vector")

    def event(self, change: ChangeType) -> DpEvent:
        mu = self.norm(change) / self.sigma
        return gaussian_event(mu, self.noise)


def gaussian_event(mu: float, noise: str) -> DpEvent:
    """Gaussian noise of the given kind; the integer sampler has the rho of mu but is not exactly Gaussian DP (T8).

    Example:
        >>> gaussian_event(0.5, "discrete")
        ZCDpEvent(rho=0.125, xi=0.0)
    """
    return ZCDpEvent(mu * mu / 2) if noise == "discrete" else GaussianDpEvent(1 / mu)


_ROWS: dict[str, type[Row]] = {}
R = TypeVar("R", bound=type[Row])


def row(name: str, *, law: str, source: str) -> Callable[[R], R]:
    """Enters a row into the table."""

    def enter(cls: R) -> R:
        if name in _ROWS:
            raise ParameterError("row", name, "a name that is not taken")
        cls.name, cls.law, cls.source = name, law, source
        _ROWS[name] = cls
        return cls

    return enter


MODULES: Final = ("selection", "vectors", "decoding")


def master_table() -> dict[str, type[Row]]:
    """Every row by name.

    Example:
        >>> from sottovoce.privacy.unit import SWAP
        >>> master_table()["poe"](clip=3, rate=1 / 3).event(SWAP)
        BoundedRange(eta=2.0)
    """
    for module in MODULES:
        import_module(f"sottovoce.privacy.master_table_{module}")
    return dict(_ROWS)
