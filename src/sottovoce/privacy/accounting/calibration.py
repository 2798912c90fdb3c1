"""From a target epsilon and delta to the parameter of a mechanism, rounded to the safe side and checked again.

Guarantee   The calibrated parameter, as it is printed, satisfies the target: the report was recomputed for it.
Assumes     A larger parameter costs more (``increasing``), or a larger one costs less.
Sources     specification 6.3, with its closed forms; 5.4 and 5.10 for temperatures and deviations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.parameters import COUNT, Number
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN
from sottovoce.privacy.accounting.subsampled_profiles import base_epsilon
from sottovoce.privacy.parameters import DELTA, EPSILON, RATE
from sottovoce.privacy.unit import Adjacency

LEAST, MOST = 1e-9, 1e9
"""Parameters outside are not searched."""

_TRIES: Final = 60


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

    def fits(parameter: float) -> bool:
        return report(parameter).epsilon <= epsilon

    crossing = _search(fits, increasing, digits)
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

    Semantic-group aggregation (SGA), which is still to come, needs it (specification 5.6.6).

    Example:
        >>> base, delta = base_of_sampled(6.13, 1e-6, 400 / 2600)
        >>> round(base, 3), round(delta, 8)
        (8.0, 6.5e-06)
    """
    rate = RATE.read("rate", rate)
    return float(base_epsilon(np.array([epsilon]), rate)[0]) * (1 - FLOAT_MARGIN), min(
        1.0, delta / rate * (1 - FLOAT_MARGIN)
    )


def _search(fits: Callable[[float], bool], increasing: bool, digits: int) -> float:
    """A parameter that fits, within the rounding of one that does not."""
    towards = 2.0 if increasing else 0.5
    good = 1.0
    while not fits(good):
        good /= towards
        if not LEAST <= good <= MOST:
            raise ParameterError("epsilon", "the target", "one that some parameter from 1e-9 to 1e9 meets")
    bad = good * towards
    while fits(bad):
        good, bad = bad, bad * towards
        if not LEAST <= bad <= MOST:
            raise ParameterError("increasing", increasing, "right: every parameter up to the end of the range is cheap")
    for _ in range(_TRIES):
        if abs(bad - good) <= 0.1 * 10.0**-digits * good:
            break
        middle = (good + bad) / 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def _rounded(value: float, digits: int, *, down: bool) -> float:
    exponent = math.floor(math.log10(value)) - digits + 1
    return float(Decimal(value).quantize(Decimal((0, (1,), exponent)), ROUND_FLOOR if down else ROUND_CEILING))


def _next(value: float, digits: int, *, down: bool) -> float:
    """The next parameter of so many digits on the safe side."""
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    beyond = value - 1.5 * step if down else value + 1.5 * step
    return _rounded(beyond, digits, down=not down) if beyond > 0 else 0.0
