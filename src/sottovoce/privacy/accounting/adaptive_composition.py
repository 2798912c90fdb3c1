"""The exact cost of a homogeneous generation: the worst adaptive sequence of bounded-range releases, from both sides.

H_0 is the profile of no release. H_{j+1}(e) is the largest p_t H_j(e - t) + (1 - p_t) H_j(e - t + eta) over t, since
the worst release has two outcomes, with losses t and t - eta. On a grid of step D = eta / grid, an eta longer by one
step and t on the grid bound every t from above; eta itself and t on the grid can be attained, which bounds from below.

Guarantee   ``upper`` is an upper bound for every adaptive sequence; some sequence costs more than ``lower``.
            The arithmetic has positive terms only, so that its relative error is below ``_ROUNDING`` a step; both
            bounds are moved outwards by that. Beyond the window H is replaced by its value at the edge (upper) or 0
            (lower); at negative epsilons by the symmetric formula, which is exact.
Sources     specification T6; the idea is that of Dong, Durfee and Rogers (2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sottovoce.parameters import SIZE, Number
from sottovoce.privacy.accounting.bounded_range import rdp_of_bounded_range
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN, FloatArray, epsilon_of_rdp
from sottovoce.privacy.parameters import PROPER_DELTA

MOST_WORK: Final = 3e9
"""Products of steps, outcomes and grid points above this are refused; it takes about ten seconds."""

LEAST_ETA: Final = 1e-290
"""Below, the steps of the grid would underflow."""

_ROUNDING: Final = 1e-14
_TAIL: Final = 1e-3
_TOGETHER: Final = 16_384
"""Numbers that are worked out in one go, which fit in a processor's cache."""


@final
@dataclass(frozen=True)
class Interval:
    """Where the exact epsilon lies."""

    lower: float
    upper: float


def optimal_epsilon(
    eta: float, steps: int, delta: float, grid: int = 40, most_work: float = MOST_WORK
) -> Interval | None:
    """The epsilon at ``delta`` of the worst adaptive sequence of ``steps`` eta-bounded-range releases.

    Args:
        eta: Range of one release.
        steps: Number of releases.
        delta: Above 0.
        grid: Steps of the grid in one eta; the interval is about 2/grid wide, relatively.
        most_work: Give up above this many elementary operations.

    Returns:
        The interval, or ``None`` where it would take more than ``most_work``.

    Example:
        >>> found = optimal_epsilon(0.1, 100, 1e-5)
        >>> round(found.upper, 3), round(found.lower, 3)
        (2.05, 1.992)
    """
    eta, steps, delta, grid = _read(eta, steps, delta, grid)
    upper = optimal_bound(eta, steps, delta, grid, most_work)
    if upper is None:
        return None
    if upper == 0:
        return Interval(0.0, 0.0)
    _, below = optimal_profile(eta, steps, reach_of(eta, steps, delta, grid), grid, upper=False)
    first_below = _first_at_most(below, delta)
    lower = len(below) if first_below is None else first_below
    return Interval(max(0.0, (lower - 1) * eta / grid * (1 - FLOAT_MARGIN)), upper)


def optimal_bound(eta: float, steps: int, delta: float, grid: int = 40, most_work: float = MOST_WORK) -> float | None:
    """The upper end of the interval of ``optimal_epsilon`` alone, in half its time.

    Example:
        >>> round(optimal_bound(0.1, 100, 1e-5), 3)
        2.05
    """
    eta, steps, delta, grid = _read(eta, steps, delta, grid)
    if eta == 0 or steps == 0:
        return 0.0
    if work_of(eta, steps, delta, grid) > most_work:
        return None
    reach = reach_of(eta, steps, delta, grid)
    _, above = optimal_profile(eta, steps, reach, grid)
    first, pure = _first_at_most(above, delta), steps * eta
    return pure if first is None else min(pure, first * eta / grid * (1 + FLOAT_MARGIN))


def optimal_profile(
    eta: float, steps: int, reach: float, grid: int = 40, *, upper: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Bounds on the worst delta at the grid's epsilons from 0 to ``reach``.

    Returns:
        Epsilons and deltas, both of shape (points,).
    """
    step, outcomes = eta / grid, grid + 1 if upper else grid
    points = min(math.ceil(reach / step), steps * outcomes) + 1
    reflected = np.arange(1, outcomes + 1) * step
    t = np.arange(outcomes + 1) * step
    whole = outcomes * step
    p_positive = np.expm1(-t[::-1]) / math.expm1(-whole)
    p_negative = np.exp(-t[::-1]) * np.expm1(-t) / math.expm1(-whole)
    padded = np.zeros(points + 2 * outcomes)
    windows = sliding_window_view(padded, points)  # row k is the profile k - outcomes points further down
    rows = max(1, _TOGETHER // points)
    best, value, term = np.zeros(points), np.empty((rows, points)), np.empty((rows, points))
    for _ in range(steps):
        padded[outcomes : outcomes + points] = best
        padded[outcomes + points :] = best[-1] if upper else 0.0
        mirror = padded[outcomes + 1 : 2 * outcomes + 1]
        padded[:outcomes] = (-np.expm1(-reflected) + np.exp(-reflected) * mirror)[::-1]
        best = np.zeros(points)
        for first in range(0, outcomes + 1, rows):
            some = slice(first, min(first + rows, outcomes + 1))
            values, terms = value[: some.stop - first], term[: some.stop - first]
            np.multiply(windows[: outcomes + 1][some], p_positive[::-1][some, None], out=values)
            np.multiply(windows[outcomes:][some], p_negative[::-1][some, None], out=terms)
            np.add(values, terms, out=values)
            np.maximum(best, values.max(axis=0), out=best)
    margin = (steps + 10) * _ROUNDING
    epsilons = np.asarray(np.arange(points) * step, dtype=np.float64)
    return epsilons, np.minimum(1.0, best * (1 + margin if upper else 1 - margin))


def finest_grid(eta: float, steps: int, delta: float, most_work: float, finest: int = 160) -> int | None:
    """The finest grid whose recursion stays within ``most_work``; ``None`` if even a grid of 30 does not."""
    if not LEAST_ETA <= eta < math.inf or steps < 1 or delta <= 0:
        return None
    grid = int(min(finest, 30 * math.sqrt(most_work / work_of(eta, steps, delta, 30))))
    return grid if grid >= 30 else None


def work_of(eta: float, steps: int, delta: float, grid: int) -> float:
    """Elementary operations that the recursion takes, about."""
    points = min(reach_of(eta, steps, delta, grid) * grid / eta, steps * (grid + 1.0))
    return steps * (grid + 1.0) * (points + 500)  # each pass over the grid costs as much as 500 points


def reach_of(eta: float, steps: int, delta: float, grid: int) -> float:
    """An epsilon whose delta is far below the one asked for; what lies beyond hardly matters."""
    longer = eta * (grid + 1) / grid
    return min(steps * longer, epsilon_of_rdp(steps * rdp_of_bounded_range(longer), delta * _TAIL) + 2 * longer)


def _first_at_most(deltas: FloatArray, delta: float) -> int | None:
    indices = np.flatnonzero(deltas <= delta)
    return int(indices[0]) if indices.size else None


def _read(eta: float, steps: int, delta: float, grid: int) -> tuple[float, int, float, int]:
    return (
        Number(LEAST_ETA, below_most=True, or_zero=True, strict=True).read("eta", eta),
        SIZE.read("steps", steps),
        PROPER_DELTA.read("delta", delta),
        Number(2, 10_000, whole=True, strict=True).read("grid", grid),
    )
