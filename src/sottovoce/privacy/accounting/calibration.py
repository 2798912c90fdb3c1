"""From a target epsilon and delta to the parameter of a mechanism, rounded to the safe side and checked again.

Guarantee   The calibrated parameter, as it is printed, satisfies the target: the report was recomputed for it.
Assumes     A larger parameter costs more (``increasing``), or a larger one costs less.
Sources     specification 6.3, with its closed forms; 5.4 and 5.10 for temperatures and deviations. The search is the
            ITP method of Oliveira and Takahashi (2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.parameters import COUNT, Number
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN
from sottovoce.privacy.accounting.subsampled_profiles import base_epsilon, epsilon_of_sampled
from sottovoce.privacy.parameters import DELTA, EPSILON, RATE
from sottovoce.privacy.unit import Adjacency

LEAST, MOST = 1e-9, 1e9
"""Parameters outside are not searched."""


@final
@dataclass(frozen=True)
class Calibrated:
    """A parameter that keeps the target.

    Attributes:
        parameter: Of few decimal digits, so that what is printed is what was used.
        report: What it costs.
    """

    parameter: float
    report: Report


def calibrate(
    make_event: Callable[[float], Any],
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    steps: int = 1,
    *,
    increasing: bool = True,
    digits: int = 6,
    bounds: Collection[str] = (),
    unit: str = "record",
) -> Calibrated:
    """The parameter of least noise whose ``steps`` releases together stay within (epsilon, delta).

    Args:
        make_event: The event of one release, by its parameter.
        epsilon: Of the whole plan.
        delta: Of the whole plan.
        adjacency: The relation that ``make_event`` works its parameters out for.
        steps: Releases in the plan, fixed in advance.
        increasing: Whether a larger parameter costs more (eta, mu), or less (a deviation, a temperature).
        digits: Significant digits of the answer.
        bounds: Names of bounds to rely on, as for a report; by default the least of all quick ones.
        unit: For the report.

    Raises:
        ParameterError: A target is out of range, or no parameter from 1e-9 to 1e9 meets it.

    Example:
        >>> from sottovoce.privacy.events import BoundedRange
        >>> found = calibrate(BoundedRange, 4.0, 1e-6, Adjacency.ADD_REMOVE, steps=32, bounds=["RDP"])
        >>> found.parameter
        0.286065
    """
    epsilon, delta = EPSILON.read("epsilon", epsilon), DELTA.read("delta", delta)
    steps, digits = COUNT.read("steps", steps), Number(1, 15, whole=True, strict=True).read("digits", digits)

    def report(parameter: float) -> Report:
        return RdpAccountant(adjacency, unit).compose(make_event(parameter), steps).report(delta, bounds)

    def excess(parameter: float) -> float:
        return _log_ratio(report(parameter).epsilon, epsilon)

    crossing = _search(excess, increasing, digits)
    rounded = _rounded(crossing, digits, down=increasing)
    # The decimal on the other side first: where the exact answer is a short decimal, the search ends just beside it.
    for parameter in (_rounded(crossing, digits, down=not increasing), rounded):
        if (final := report(parameter)).epsilon <= epsilon:
            return Calibrated(parameter, final)
    further = _next(rounded, digits, down=increasing)
    if further > 0 and (final := report(further)).epsilon <= epsilon:
        return Calibrated(further, final)
    raise ParameterError("make_event", rounded, "monotone in its parameter: the rounded parameter costs more")


def base_of_sampled(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """The (epsilon, delta) that a release may have before a sample of this rate amplifies it once (T10, T11).

    Amplified again, as an accountant does it, the result costs no more than the target. With a rate of 1 nothing is
    sampled, and the target itself may be spent.

    Every answer from a fresh sample needs it (``methods.answering``; specification 5.6.6).

    Example:
        >>> base, delta = base_of_sampled(6.13, 1e-6, 400 / 2600)
        >>> round(base, 3), round(delta, 8)
        (8.0, 6.5e-06)
    """
    rate = RATE.read("rate", rate)
    if rate == 1:
        return epsilon, delta
    base = float(base_epsilon(np.array([epsilon]), rate)[0]) * (1 - FLOAT_MARGIN)
    while math.isfinite(base) and epsilon_of_sampled(base, rate) * (1 + FLOAT_MARGIN) > epsilon:
        base *= 1 - FLOAT_MARGIN
    return base, min(1.0, delta / rate * (1 - FLOAT_MARGIN))


def _search(excess: Callable[[float], float], increasing: bool, digits: int) -> float:
    """A parameter that fits, within the rounding of one that does not.

    Args:
        excess: At most 0 where a parameter fits; the nearer to linear in it, the fewer are tried.
        increasing: Whether a larger parameter costs more.
        digits: Significant digits that the answer is rounded to.
    """
    towards = 2.0 if increasing else 0.5
    good, below = 1.0, excess(1.0)
    bad, above = good, below
    while below > 0:
        bad, above = good, below
        good /= towards
        if not LEAST <= good <= MOST:
            raise ParameterError("epsilon", "the target", "one that some parameter from 1e-9 to 1e9 meets")
        below = excess(good)
    while above <= 0:
        good, below = bad, above
        bad *= towards
        if not LEAST <= bad <= MOST:
            raise ParameterError("increasing", increasing, "right: every parameter up to the end of the range is cheap")
        above = excess(bad)
    first = abs(bad - good)
    near = 0.1 * 10.0**-digits * min(good, bad)
    tries = math.ceil(math.log2(first / near)) + 1
    for left in range(tries, -1, -1):
        width, middle = abs(bad - good), (good + bad) / 2
        if width <= near:
            break
        guess = good + (bad - good) * below / (below - above) if math.isfinite(below - above) else middle
        # A little nearer to the middle, so that what crosses lies between the guess and the end beside it.
        guess = _moved(guess, middle, 0.2 * width * width / first)
        # No further from it than lets halving finish in the tries that are left.
        guess = _moved(middle, guess, max(0.0, near / 2 * 2.0**left - width / 2))
        if (found := excess(guess)) <= 0:
            good, below = guess, found
        else:
            bad, above = guess, found
    return good


def _moved(start: float, end: float, by: float) -> float:
    """``start`` moved towards ``end`` by so much, and no further than there."""
    return end if by >= abs(end - start) else start + math.copysign(by, end - start)


def _log_ratio(cost: float, target: float) -> float:
    """ln(cost / target), whose sign is exact: above 0 where the cost is above the target and nowhere else."""
    if cost <= target:
        return min(math.log(cost / target), 0.0) if cost > 0 else -math.inf
    return max(math.log(cost / target), math.ulp(0.0))


def _rounded(value: float, digits: int, *, down: bool) -> float:
    exponent = math.floor(math.log10(value)) - digits + 1
    return float(Decimal(value).quantize(Decimal((0, (1,), exponent)), ROUND_FLOOR if down else ROUND_CEILING))


def _next(value: float, digits: int, *, down: bool) -> float:
    """The next parameter of so many digits on the safe side."""
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    beyond = value - 1.5 * step if down else value + 1.5 * step
    return _rounded(beyond, digits, down=not down) if beyond > 0 else 0.0
