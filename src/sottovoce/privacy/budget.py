"""A budget: the cap that a data set's ledger enforces, and how charges count against it.

With delta 0 the ledger adds pure epsilons. With a delta it is a zCDP filter (specification 6.5, T14): the budget is
the largest rho that (epsilon, delta) admits, and every release is charged its own rho, so that later questions may
depend on earlier answers. Amounts are whole numbers of 1e-15; caps are rounded down and charges up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.accountant import SMALL_ETA, charge_of, rho_of_budget
from sottovoce.privacy.events import BoundedRange, NoOpDpEvent, PureDP, ZCDpEvent, describe
from sottovoce.privacy.numbers import exact, require_delta, require_epsilon

SCALE: Final = 10**15
_FLOAT_MARGIN: Final = Fraction(1, 10**9)
"""Added to charges that come from floating-point formulas; more than those can be off."""


@final
@dataclass(frozen=True)
class Budget:
    """What may be spent on a data set in all.

    Attributes:
        epsilon: Total epsilon.
        delta: Total delta; 0 asks for a pure guarantee.

    Raises:
        ParameterError: A number is out of range.

    Example:
        >>> Budget.parse("8,1e-6")
        Budget(epsilon=8.0, delta=1e-06)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon, "budget epsilon"))
        object.__setattr__(self, "delta", require_delta(self.delta, "budget delta"))

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Reads ``EPSILON`` or ``EPSILON,DELTA``."""
        parts = text.split(",")
        if len(parts) > 2:
            raise ParameterError("budget", text, "EPSILON or EPSILON,DELTA, such as 8,1e-6")
        return cls(*(part.strip() for part in parts))  # type: ignore[arg-type]

    @property
    def currency(self) -> str:
        """``epsilon`` for a pure ledger, ``rho`` for a zCDP filter."""
        return "epsilon" if self.delta == 0 else "rho"

    @property
    def cap(self) -> int:
        """The cap in units of 1e-15 of the currency."""
        if self.delta == 0:
            return math.floor(exact(self.epsilon) * SCALE)
        return math.floor(Fraction(rho_of_budget(self.epsilon, self.delta)) * SCALE)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g}" + (f" at delta {self.delta:g}" if self.delta else " (pure)")


def amount_of(event: Any, currency: str) -> int:
    """What an event costs, in units of 1e-15 of the currency, rounded up.

    Raises:
        ParameterError: The event has no price in this currency.

    Example:
        >>> amount_of(BoundedRange(0.1), "epsilon") == SCALE // 10
        True
    """
    if isinstance(event, NoOpDpEvent):
        return 0
    if not 0 <= charge_of(event).rho < math.inf:
        raise ParameterError("event", describe(event), "one with a price, 0 or more and finite")
    if currency == "epsilon":
        if isinstance(event, BoundedRange):
            return math.ceil(exact(event.eta) * SCALE)
        if isinstance(event, PureDP):
            return math.ceil(exact(event.epsilon) * SCALE)
        if math.isinf(charge_of(event).epsilon):
            raise ParameterError(
                "method", type(event).__name__, "one with a pure guarantee: this ledger's delta is 0 (or use a delta)"
            )
    if currency == "rho":
        if isinstance(event, BoundedRange) and event.eta < SMALL_ETA:
            return math.ceil(exact(event.eta) ** 2 / 8 * SCALE)
        if isinstance(event, ZCDpEvent) and event.xi == 0:
            return math.ceil(exact(event.rho) * SCALE)
    charge = charge_of(event)
    price = charge.epsilon if currency == "epsilon" else charge.rho
    return math.ceil(Fraction(price) * (1 + _FLOAT_MARGIN) * SCALE)
