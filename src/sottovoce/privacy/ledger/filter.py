"""The filter: what a release is charged, and whether it still fits. Whole numbers and no database.

Guarantee   Where every release is admitted here before it is made, the whole interaction keeps the budget that the cap
            was worked out from, however later releases were chosen from earlier answers.
Assumes     Parameters of events hold for the one adjacency of the account; prices follow from parameters alone.
Sources     specification T3, T4, T7, T8 (charges), T14 (filters, failures kept within their own sum), 6.5. An (epsilon,
            delta) point is, but for probability delta, a release with pure epsilon (Kairouz, Oh and Viswanath 2015), so
            it is charged as one.

Prices are worked out with 200 bits and rounded up, so that two machines never differ about them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, final

import mpmath

from sottovoce.errors import ParameterError
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.plain_events import plain

SCALE: Final = 10**15
"""Units of one epsilon, one rho or one nat of Renyi divergence."""
FAILURE_SCALE: Final = 10**18
"""Units of a probability of failure."""

_DEEPEST: Final = 20
_SMALL_ETA: Final = Fraction(1, 100)
"""Below it a selection is charged eta squared over eight, an upper bound (specification T3)."""
_SMALL: Final = Fraction(1, 10**6)
"""Below it a quadratic upper bound is charged, where the closed form would cancel."""
_LARGE: Final = 2000
"""Above it the loss itself is charged, an upper bound too; no budget is as large."""

_mp = mpmath.MPContext()
_mp.prec = 200
_MARGIN: Final = 1 + Fraction(1, 2**160)


@final
@dataclass(frozen=True)
class Currency:
    """What a filter adds up.

    Attributes:
        name: ``epsilon`` (basic composition), ``rho`` (zCDP) or ``rdp`` (Renyi divergence at one order).
        alpha: That order, for ``rdp``.

    Example:
        >>> print(Currency("rho"), "/", Currency("rdp", 16.0))
        rho / rdp at alpha 16
    """

    name: str
    alpha: float | None = None

    @classmethod
    def parse(cls, text: str | Currency) -> Currency:
        """Reads what ``str`` writes."""
        if isinstance(text, Currency):
            return text
        name, _, alpha = text.partition(" at alpha ")
        if name not in ("epsilon", "rho", "rdp") or (name == "rdp") != bool(alpha):
            raise ParameterError("currency", text, "epsilon, rho, or rdp at alpha NUMBER")
        return cls(name, float(alpha) if alpha else None)

    def __str__(self) -> str:
        return self.name if self.alpha is None else f"{self.name} at alpha {float(self.alpha)!r}".removesuffix(".0")


@final
@dataclass(frozen=True, slots=True)
class Cost:
    """A charge, a cap or a sum of charges.

    Attributes:
        loss: In units of 1e-15 of the currency.
        failure: Probability of releases that keep no promise, in units of 1e-18.
    """

    loss: int = 0
    failure: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.loss + other.loss, self.failure + other.failure)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.loss - other.loss, self.failure - other.failure)

    def __mul__(self, count: int) -> Cost:
        return Cost(self.loss * count, self.failure * count)

    def fits_in(self, cap: Cost) -> bool:
        """Whether neither part exceeds the cap's."""
        return self.loss <= cap.loss and self.failure <= cap.failure

    def times_in(self, cap: Cost) -> int | None:
        """How often this fits into ``cap``; ``None`` for a charge of nothing, which always does."""
        fits = [whole // part for whole, part in zip(cap, self, strict=True) if part]
        return min(fits) if fits else None

    def __iter__(self) -> Any:
        return iter((self.loss, self.failure))


@final
@dataclass(frozen=True, slots=True)
class Cap:
    """One cap on the way: a caller's, the caller's group's, or the data set's own.

    Attributes:
        kind: ``caller``, ``group`` or ``data set``.
        name: Whose cap it is.
        cap: What was granted.
        spent: What was charged; it never falls.
    """

    kind: str
    name: str
    cap: Cost
    spent: Cost

    @property
    def left(self) -> Cost:
        """What may still be charged."""
        return self.cap - self.spent

    def admits(self, cost: Cost) -> bool:
        """Whether a charge stays within the cap."""
        return (self.spent + cost).fits_in(self.cap)


def first_exceeded_cap(levels: Iterable[Cap], cost: Cost) -> Cap | None:
    """The first cap that a charge does not fit under; ``None`` where it fits under all of them.

    Example:
        >>> tight = Cap("caller", "alice", cap=Cost(10), spent=Cost(7))
        >>> wide = Cap("data set", "data", cap=Cost(100), spent=Cost(7))
        >>> first_exceeded_cap([tight, wide], Cost(3)) is None, first_exceeded_cap([tight, wide], Cost(4)).name
        (True, 'alice')
    """
    return next((level for level in levels if not level.admits(cost)), None)


def price(event: DpEvent, currency: str | Currency) -> Cost:
    """What an event costs, rounded up.

    Raises:
        ParameterError: The event has no price in this currency, or a parameter of it is not usable.

    Example:
        >>> price(BoundedRange(0.1), "epsilon")
        Cost(loss=100000000000000, failure=0)
        >>> price(ApproximateDP(0.1, 1e-9), "rho").failure
        1000000000
    """
    currency = Currency.parse(currency)
    return _price(event, currency, _DEEPEST)


def _price(event: Any, currency: Currency, depth: int) -> Cost:
    if depth == 0:
        raise ParameterError("event", type(event).__name__, f"one nested at most {_DEEPEST} deep")
    event = plain(event)
    match event:
        case NoOpDpEvent():
            return Cost()
        case BoundedRange():
            return Cost(_units(_selection, float(event.eta), currency))
        case PureDP():
            return Cost(_units(_pure, float(event.epsilon), currency))
        case ZCDpEvent() if event.xi == 0:
            return Cost(_units(_concentrated, float(event.rho), _with_delta(event, currency)))
        case GaussianDpEvent() if 0 < event.noise_multiplier <= sys.float_info.max:
            return Cost(_units(_gaussian, float(event.noise_multiplier), _with_delta(event, currency)))
        case ApproximateDP():
            return Cost(_units(_pure, float(event.epsilon), currency), _failure(event))
        case WithFailure():
            return _price(event.event, currency, depth - 1) + Cost(0, _failure(event))
        case SelfComposedDpEvent():
            return _price(event.event, currency, depth - 1) * int(event.count)
        case ComposedDpEvent():
            return sum((_price(part, currency, depth - 1) for part in event.events), Cost())
        case PoissonSampledDpEvent() | SampledWithoutReplacementDpEvent():
            raise ParameterError(
                "event",
                type(event).__name__,
                "one with a price of its own: fix one point of the profile of the sampled release before it is made, "
                "and reserve that as ApproximateDP(epsilon, delta)",
            )
    raise ParameterError("event", type(event).__name__, "one with a price, 0 or more and finite")


def _failure(event: Any) -> int:
    return math.ceil(exact(event.delta) * FAILURE_SCALE)


def _with_delta(event: Any, currency: Currency) -> Currency:
    if currency.name == "epsilon":
        raise _needs_delta(event)
    return currency


def _needs_delta(event: Any) -> ParameterError:
    return ParameterError(
        "method",
        type(event).__name__,
        "one with a pure guarantee, where a ledger's delta is 0 or all of it is for failures; or one point of its "
        "profile, as ApproximateDP(epsilon, delta)",
    )


@lru_cache(maxsize=4096)
def _units(family: Callable[[Fraction, Currency], Any], value: float, currency: Currency) -> int:
    """A charge in whole units. Rational charges are exact; others carry a margin far below one unit."""
    charge = family(exact(value), currency)
    if isinstance(charge, Fraction):
        return math.ceil(charge * SCALE)
    mantissa, exponent = int(charge.man), int(charge.exp)
    return math.ceil(Fraction(mantissa) * Fraction(2) ** exponent * _MARGIN * SCALE)


def _concentrated(rho: Fraction, currency: Currency) -> Fraction:
    return rho * (exact(currency.alpha) if currency.alpha else 1)


def _gaussian(noise_multiplier: Fraction, currency: Currency) -> Fraction:
    return _concentrated(1 / (2 * noise_multiplier**2), currency)


def _selection(eta: Fraction, currency: Currency) -> Any:
    """eta, rho of T3, or the Renyi divergence of T4."""
    if currency.name == "epsilon" or eta > _LARGE:
        return eta
    quadratic = _concentrated(eta**2 / 8, currency)
    if currency.alpha is None:
        if eta < _SMALL_ETA:
            return quadratic
        x = _number(eta) / (_mp.exp(_number(eta)) - 1)
        return x - 1 - _mp.log(x)
    if eta * exact(currency.alpha) < _SMALL:
        return min(quadratic, eta)
    return _least(_renyi_of_selection(_number(eta), _number(exact(currency.alpha))), quadratic, eta)


def _renyi_of_selection(eta: Any, alpha: Any) -> Any:
    order = alpha - 1
    m = _mp.exp(-order * eta)
    k = (1 - m) / (1 - _mp.exp(-eta))
    s = min(max(order / alpha * (k + m) / k * _mp.exp(eta), _mp.mpf(1)), _mp.exp(eta))
    return _mp.log(s) + _mp.log((k + m) - k * _mp.exp(-eta) * s) / order


def _pure(epsilon: Fraction, currency: Currency) -> Any:
    """epsilon, epsilon tanh(epsilon / 2) of T7, or the Renyi divergence of randomised response, the worst of them."""
    if currency.name == "epsilon" or epsilon > _LARGE:
        return epsilon
    quadratic = _concentrated(epsilon**2 / 2, currency)
    if epsilon * (exact(currency.alpha) if currency.alpha else 1) < _SMALL:
        return min(quadratic, epsilon)
    e = _number(epsilon)
    if currency.alpha is None:
        return e * (1 - _mp.exp(-e)) / (1 + _mp.exp(-e))
    alpha = _number(exact(currency.alpha))
    both = _mp.exp((alpha - 1) * e) + _mp.exp(-alpha * e)
    return _least(_mp.log(both / (1 + _mp.exp(-e))) / (alpha - 1), quadratic, epsilon)


def _number(value: Fraction) -> Any:
    return _mp.mpf(value.numerator) / value.denominator


def _least(closed_form: Any, *bounds: Fraction) -> Any:
    bound = min(bounds)
    return closed_form if closed_form < _number(bound) else bound
