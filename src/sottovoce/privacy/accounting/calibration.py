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
from sottovoce.privacy.accounting.accountant import RdpAccountant, Report
from sottovoce.privacy.accounting.bounded_range import epsilon_of_bounded_range
from sottovoce.privacy.accounting.composition import require_whole
from sottovoce.privacy.accounting.gaussian_dp import mu_of_budget
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN, rho_of_budget
from sottovoce.privacy.accounting.subsampled_profiles import base_epsilon
from sottovoce.privacy.parameters import DELTA, EPSILON
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
    require_whole("steps", steps, 1, "of 1 or more")
    if not 1 <= digits <= 15:
        raise ParameterError("digits", digits, "from 1 to 15")

    def report(parameter: float) -> Report:
        return RdpAccountant(adjacency, unit).compose(make_event(parameter), steps).report(delta, bounds)

    def fits(parameter: float) -> bool:
        return report(parameter).epsilon <= epsilon

    found = _search(fits, increasing, digits)
    rounded = _rounded(found, digits, down=increasing)
    # The decimal on the other side first: where the exact answer is a short decimal, the search ends just beside it.
    for parameter in (_rounded(found, digits, down=not increasing), rounded):
        if (final := report(parameter)).epsilon <= epsilon:
            return Calibrated(parameter, final)
    further = _next(rounded, digits, down=increasing)
    if further > 0 and (final := report(further)).epsilon <= epsilon:
        return Calibrated(further, final)
    raise ParameterError("make_event", rounded, "monotone in its parameter: the rounded parameter costs more")


def eta_of_selection(epsilon: float, delta: float = 0.0) -> float:
    """The largest eta of a single selection within (epsilon, delta): T2 solved for eta. The gain is small.

    Example:
        >>> round(eta_of_selection(1.0, 1e-5), 6), round(eta_of_selection(1.0, 1e-3), 5)
        (1.005042, 1.05168)
    """
    if delta == 0:
        return epsilon
    low, high = epsilon, 2 * epsilon + 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of_bounded_range(middle, delta) <= epsilon else (low, middle)
    return low


def rate_of(eta: float, width: float) -> float:
    """lambda in weights exp(lambda u), for a utility that one change moves by ``width`` in range (1.5, 6.3)."""
    return eta / width


def eta_by_rho(epsilon: float, delta: float, steps: int) -> float:
    """The zCDP shortcut for ``steps`` selections, slightly conservative: sqrt(8 rho / steps)."""
    return math.sqrt(8 * rho_of_budget(epsilon, delta) / steps) * (1 - FLOAT_MARGIN)


def sigma_of(epsilon: float, delta: float, sensitivity: float = 1.0, releases: int = 1) -> float:
    """The least deviation of continuous Gaussian noise for (epsilon, delta) over all ``releases``.

    Example:
        >>> [round(sigma_of(1.0, 1e-5, sensitivity), 4) for sensitivity in (1.0, 2**0.5)]
        [3.7306, 5.2759]
    """
    require_whole("releases", releases, 1, "of 1 or more")
    if not 0 < sensitivity < math.inf:
        raise ParameterError("sensitivity", sensitivity, "above 0 and finite")
    if not 0 < delta < 1:
        raise ParameterError("delta", delta, "above 0 and below 1: Gaussian noise has no pure guarantee")
    return sensitivity * math.sqrt(releases) / mu_of_budget(epsilon, delta) * (1 + FLOAT_MARGIN)


def mu_by_rho(epsilon: float, delta: float) -> float:
    """The mu to calibrate discrete Gaussian noise with: it is priced as zCDP, rho = mu squared over 2 (T8).

    Example:
        >>> [round(mu_by_rho(epsilon, 1e-5), 4) for epsilon in (1, 3, 8)]
        [0.2472, 0.6697, 1.5683]
    """
    return math.sqrt(2 * rho_of_budget(epsilon, delta)) * (1 - FLOAT_MARGIN)


def temperature_of(eta: float, width: float, expected: float) -> float:
    """The temperature at which a mean over ``expected`` experts, moved by ``width``/``expected``, costs eta a token.

    The width of an expert's summand is 2c for clipped logits and 2C for clipped differences, twice that under a swap;
    PRISM's weights exp(u / (2 tau)) halve it (5.9 to 5.11).

    Example:
        >>> round(temperature_of(0.049697, width=10.0, expected=255), 4)
        0.7891
    """
    return width / (expected * eta) * (1 + FLOAT_MARGIN)


def base_of_sampled(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """The (epsilon, delta) that a release may have before a sample of this rate amplifies it once (T10, T11).

    Example:
        >>> base, delta = base_of_sampled(6.13, 1e-6, 400 / 2600)
        >>> round(base, 3), round(delta, 8)
        (8.0, 6.5e-06)
    """
    if not 0 < rate <= 1:
        raise ParameterError("rate", rate, "above 0 and at most 1")
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
