"""What the papers' own formulas claim, and what a two-candidate run really reaches.

Guarantee   None: a claim is quoted, never charged. ``reached_delta`` is a proof in the other direction, an exact delta
            of one concrete mechanism of the family, by which a claim is refuted.
Sources     specification 5.10 (PRISM), 5.1.6 (PoEtry), 5.2 to 5.5, 5.8, 5.9, 5.11 and 11; T2 for the two-point laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from sottovoce.privacy.accounting.accountant import RdpAccountant, Report, epsilon_of_rho
from sottovoce.privacy.events import DpEvent, GaussianDpEvent
from sottovoce.privacy.unit import Adjacency

LONGEST: Final = 5_000
"""Steps up to which a claim is put to the test."""
CLOSED: Final = ("pure", "RDP", "zCDP", "GDP")
"""Bounds that overflow nowhere."""


@final
@dataclass(frozen=True)
class Claim:
    """A paper's figure.

    Attributes:
        words: Which formula it is.
        epsilon: The figure for (delta, answers); ``None`` where the formula gives none.
    """

    words: str
    epsilon: Callable[[float, int], float | None]


def advanced(epsilon: float, steps: int, delta: float) -> float:
    """Advanced composition of pure steps, with its second term; infinite where delta is 0.

    Example:
        >>> round(advanced(0.1, 100, 1e-5), 3)
        5.85
    """
    if delta <= 0 or epsilon > 700:
        return math.inf
    return epsilon * math.sqrt(2 * steps * -math.log(delta)) + steps * epsilon * math.expm1(epsilon)


def basic_or_advanced(epsilon: float, steps: int, delta: float) -> float:
    """The smaller of the two textbook totals."""
    return min(steps * epsilon, advanced(epsilon, steps, delta) if steps > 1 else math.inf)


def without_second_term(eta: float, steps: int, delta: float) -> float | None:
    """PRISM's stated bound: advanced composition less the term that makes it true.

    Example:
        >>> round(without_second_term(0.0384468, 100, 1e-5), 4)
        1.8449
    """
    return eta * math.sqrt(2 * steps * -math.log(delta)) if delta > 0 else None


def of_gaussian(mu: float, steps: int, delta: float) -> float | None:
    """Epsilon of ``steps`` continuous Gaussian releases."""
    return of_event(GaussianDpEvent(1 / (mu * math.sqrt(steps))), 1, delta)


def priced(
    plan: Iterable[tuple[DpEvent, int]],
    delta: float,
    adjacency: Adjacency,
    unit: str = "record",
    names: tuple[str, ...] = (),
) -> Report:
    """The accountant's report for a plan; of costs too large for recursions and grids, by closed forms alone."""
    accountant = RdpAccountant(adjacency, unit)
    for event, count in plan:
        accountant.compose(event, count)
    try:
        with np.errstate(over="raise", invalid="raise"):
            return accountant.report(delta, names)
    except ArithmeticError:
        return accountant.report(delta, CLOSED)


def of_event(event: DpEvent, steps: int, delta: float) -> float | None:
    """Epsilon of a plan of equal events under add-remove, as the papers price it."""
    if delta <= 0:
        return None
    return priced([(event, steps)], delta, Adjacency.ADD_REMOVE).epsilon


def of_zcdp(rho: float, delta: float) -> float | None:
    """Epsilon of a zCDP total."""
    return epsilon_of_rho(rho, delta) if delta > 0 else None


def short_form(rho: float, delta: float) -> float:
    """The short zCDP conversion, valid but 5 to 40 percent larger."""
    return rho + 2 * math.sqrt(rho * -math.log(delta))


def reached_delta(epsilon: float, eta: float, steps: int) -> float:
    """The delta at ``epsilon`` of ``steps`` independent two-candidate selections of range ``eta``, the best base odds.

    A lower bound on what the family can lose: such a run exists, with the public odds of the two candidates as its one
    free choice. 0 where there are too many steps to test.

    Example:
        Above the pure total nothing is lost, and PRISM's bound at temperature 0.131 with a batch of 15 is refuted.

        >>> reached_delta(5.0, 0.05, 100)
        0.0
        >>> reached_delta(244.2, 5.089059, 100) >= 0.594
        True
    """
    from scipy.stats import binom

    if steps > LONGEST or not 0 < eta < 500:
        return 0.0
    t = np.linspace(0, eta, max(200, min(5_000, 500_000 // steps)) + 2)[1:-1, None]
    up = np.expm1(t - eta) / math.expm1(-eta)
    ups = np.arange(steps + 1)[None, :]
    beyond = steps * (t - eta) + ups * eta - epsilon
    mass = binom.pmf(ups, steps, up)
    return float((mass * -np.expm1(-np.maximum(beyond, 0))).sum(axis=1).max())
