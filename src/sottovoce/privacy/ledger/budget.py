"""A budget: the caps that a data set's ledger enforces.

With delta 0 the ledger adds pure epsilons. With a delta it is a zCDP filter (specification 6.5, T14): the cap is the
largest rho that (epsilon, delta) admits, and every release is charged its own rho, so that later questions may depend
on earlier answers. With ``alpha`` it is a Renyi filter at that one order, fixed for good. A share of delta can be set
aside for releases that may fail outright; their probabilities are kept within that share, and the rest of delta makes
the cap. Where the share is the whole of delta nothing is left to convert, and the ledger adds epsilons and deltas
(basic composition): the right form for one release that is to have all of the budget, or a few. Caps are rounded down
and charges up, to whole numbers of 1e-15 (of 1e-18 for failures).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, final

import mpmath
import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.parameters import Kind
from sottovoce.privacy.accounting.accountant import rho_of_budget
from sottovoce.privacy.accounting.renyi import epsilon_of_rdp, epsilon_of_rho
from sottovoce.privacy.ledger.filter import FAILURE_SCALE, SCALE, Cost, Currency, price
from sottovoce.privacy.numbers import exact, float_above, rounded_down, rounded_up
from sottovoce.privacy.parameters import DELTA, EPSILON, ORDER

__all__ = ["SCALE", "Budget", "amount_of"]

_FORM: Final = "EPSILON or EPSILON,DELTA, such as 8,1e-6; then failure=DELTA and alpha=ORDER if wanted"
_mp = mpmath.MPContext()
_mp.prec = 200


@final
@dataclass(frozen=True, repr=False)
class Budget:
    """The total that may be spent on a data set.

    Attributes:
        epsilon: Total epsilon.
        delta: Total delta; 0 asks for a pure guarantee.
        failure_delta: The share of delta for releases that can fail outright, or are charged as one point of their
            profile. With 0 they are refused; with all of delta, epsilons and deltas are added.
        alpha: The one Renyi order of the filter; ``None`` for a zCDP filter. It can never change.

    Raises:
        ParameterError: A number is out of range, or nothing is left to spend.

    Example:
        >>> Budget.parse("8,1e-6")
        Budget(epsilon=8.0, delta=1e-06)
        >>> Budget.parse("8,1e-6,alpha=16").currency
        'rdp at alpha 16'
        >>> Budget.parse("4,1e-6,failure=1e-6").currency
        'epsilon'
    """

    epsilon: float
    delta: float = 0.0
    failure_delta: float = 0.0
    alpha: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", EPSILON.read("budget epsilon", self.epsilon))
        object.__setattr__(self, "delta", DELTA.read("budget delta", self.delta))
        object.__setattr__(self, "failure_delta", DELTA.read("budget failure", self.failure_delta))
        if self._delta_of_loss != 0 and self.failure_delta and self._delta_of_loss < Fraction(1, 10**15):
            limit = f"below the budget's delta, {rounded_down(self.delta, 15)}, or equal to it"
            raise ParameterError("budget failure", self.failure_delta, limit)
        if self.alpha is not None:
            object.__setattr__(self, "alpha", ORDER.read("budget alpha", self.alpha))
            if self._delta_of_loss == 0:
                raise ParameterError(
                    "budget alpha", self.alpha, "absent where no delta is left to convert: that is a sum of epsilons"
                )
            if self.cap <= 0:
                raise ParameterError(
                    "budget alpha", self.alpha, f"larger: at this order nothing of {self._loss_in_words} is left"
                )

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Reads ``EPSILON`` or ``EPSILON,DELTA``, then optionally ``failure=DELTA`` and ``alpha=ORDER``."""
        Kind(str, _FORM).read("budget", text)
        plain: list[str] = []
        named: dict[str, str] = {}
        for part in (part.strip() for part in text.split(",")):
            key, equals, value = part.partition("=")
            name = {"failure": "failure_delta", "alpha": "alpha"}.get(key.strip())
            if (equals and (name is None or name in named)) or (not equals and named):
                raise ParameterError("budget", text, _FORM)
            if name and equals:
                named[name] = value.strip()
            else:
                plain.append(part)
        if not 1 <= len(plain) <= 2:
            raise ParameterError("budget", text, _FORM)
        return cls(*plain, **named)  # type: ignore[arg-type]

    @property
    def currency(self) -> str:
        """``epsilon`` for a sum of epsilons, ``rho`` for a zCDP filter, ``rdp at alpha ORDER`` for a Renyi filter."""
        if self.alpha is not None:
            return str(Currency("rdp", self.alpha))
        return "epsilon" if self._delta_of_loss == 0 else "rho"

    @property
    def cap(self) -> int:
        """The cap in units of 1e-15 of the currency."""
        if self._delta_of_loss == 0:
            return math.floor(exact(self.epsilon) * SCALE)
        if self.alpha is not None:
            return _renyi_cap(self.epsilon, self._delta_of_loss, self.alpha)
        return math.floor(Fraction(rho_of_budget(self.epsilon, _at_most(self._delta_of_loss))) * SCALE)

    def epsilon_of(self, spent: int) -> float:
        """The epsilon at the budget's delta of an amount in the currency, rounded up; at most the budget's epsilon.

        It shows how much of the budget is used. The guarantee is the whole budget, however questions were chosen.

        Args:
            spent: In units of 1e-15 of the currency.

        Example:
            >>> Budget(8).epsilon_of(2 * SCALE)
            2.0
            >>> budget = Budget(8, 1e-6)
            >>> budget.epsilon_of(0), budget.epsilon_of(budget.cap) <= 8, budget.epsilon_of(budget.cap // 4) > 2
            (0.0, True, True)
        """
        amount = Fraction(spent, SCALE)
        if spent <= 0:
            return 0.0
        if self._delta_of_loss == 0:
            used = float_above(amount)
        elif self.alpha is not None:
            delta = _at_most(self._delta_of_loss)
            used = epsilon_of_rdp(np.array([float_above(amount)]), delta, np.array([self.alpha]))
        else:
            used = epsilon_of_rho(float_above(amount), _at_most(self._delta_of_loss))
        return min(used, self.epsilon)

    @classmethod
    def once(cls, epsilon: float, delta: float) -> Budget:
        """A budget that a single release of exactly (epsilon, delta) uses up."""
        return cls(epsilon, delta, failure_delta=delta)

    @property
    def failure_cap(self) -> int:
        """The cap on the sum of failure probabilities, in units of 1e-18."""
        return math.floor(exact(self.failure_delta) * FAILURE_SCALE)

    @property
    def caps(self) -> Cost:
        """Both caps."""
        return Cost(self.cap, self.failure_cap)

    def __repr__(self) -> str:
        shown = f"epsilon={self.epsilon}, delta={self.delta}"
        shown += f", failure_delta={self.failure_delta}" if self.failure_delta else ""
        return f"Budget({shown}" + (f", alpha={self.alpha})" if self.alpha is not None else ")")

    def __str__(self) -> str:
        shown = self._loss_in_words
        if self.failure_delta:
            added = self._delta_of_loss == 0
            shown += ", added up" if added else f", {rounded_up(self.failure_delta, 6)} of it for failures"
        return shown + (f", by Renyi order {self.alpha:g}" if self.alpha is not None else "")

    @property
    def _loss_in_words(self) -> str:
        return f"epsilon {rounded_up(self.epsilon, 6)}" + (
            f" at delta {rounded_up(self.delta, 6)}" if self.delta else " (pure)"
        )

    @property
    def _delta_of_loss(self) -> Fraction:
        """What failures leave of delta."""
        return exact(self.delta) - exact(self.failure_delta)


def amount_of(event: Any, currency: str | Currency) -> int:
    """What an event costs but for failures, in units of 1e-15 of the currency, rounded up.

    Raises:
        ParameterError: The event has no price in this currency.

    Example:
        >>> from sottovoce.privacy.events import BoundedRange
        >>> amount_of(BoundedRange(0.1), "epsilon") == SCALE // 10
        True
    """
    return price(event, currency).loss


def _at_most(value: Fraction) -> float:
    """The largest float that is not above a positive fraction."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)


@lru_cache(maxsize=256)
def _renyi_cap(epsilon: float, delta: Fraction, alpha: float) -> int:
    """The largest Renyi divergence at ``alpha`` that (epsilon, delta) admits (specification T9), rounded down."""
    order = _mp.mpf(exact(alpha).numerator) / exact(alpha).denominator
    slack = _mp.mpf(delta.numerator) / delta.denominator
    whole = _mp.mpf(exact(epsilon).numerator) / exact(epsilon).denominator
    cap = whole - _mp.log(1 - 1 / order) + _mp.log(slack * order) / (order - 1)
    return int(_mp.floor(cap * SCALE - _mp.mpf(2) ** -60))
