"""The trade-off curve of a release: the least false negative rate that any attack has at each false positive rate.

Guarantee   ``TradeOff.fnr`` is a lower bound on the false negative rate of every attack on the release, so that the
            caps that follow from it (accuracy, true positive rate, area) are upper bounds. Both directions of a change
            are covered: the curve is the lower one, and it is its own mirror image.
Assumes     The event is valid for the adjacency that the attack tests. Several releases were fixed in advance.
Sources     Dong, Roth and Su (2022) for trade-off functions; specification T17, 10.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Self, final

import numpy as np

from sottovoce.audits.roc import FloatArray
from sottovoce.errors import ParameterError
from sottovoce.parameters import Number
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.composition import SAMPLED, merge, plan_of, rebuilt
from sottovoce.privacy.accounting.loss_distribution import Profile
from sottovoce.privacy.accounting.profiles import (
    MOST_KINDS,
    MOST_STEPS,
    deltas_of_plan,
    gaussians_merged,
    has_profile,
    profile_of,
)
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN
from sottovoce.privacy.events import DpEvent, GaussianDpEvent, describe
from sottovoce.privacy.unit import Adjacency

_RATE: Final = Number(0, 1, words="from 0 to 1")
_MU: Final = Number(0, below_most=True)
_POINTS: Final = 401
_FARTHEST: Final = 512.0
"""Largest epsilon of a curve's points: the false positive rates that a larger one speaks of are below 1e-222."""
_LEAST_DELTA: Final = 1e-12
_FLAT: Final = 1e-3
"""A delta so near to the last one, relatively, comes no lower: what is left is the probability of a failure."""
_DELTAS: Final = tuple(float(delta) for delta in np.geomspace(1e-12, 0.5, 80))
"""Where the curve of a release without a profile is read off its Renyi divergences."""
_CONVERTED: Final = ("pure", "RDP", "zCDP")
_FAR, _CUTS, _HALVINGS = 38.0, 19_001, 14
"""How far out, in deviations, on how fine a grid and by how many halvings a Gaussian threshold is solved for."""
_AREA_STEPS: Final = 4096
_AT_ONCE: Final = 1 << 20


@final
@dataclass(frozen=True, eq=False)
class TradeOff:
    """A trade-off curve: the largest of several lower bounds.

    Attributes:
        epsilons: Of the (epsilon, delta) pairs that the release keeps, shape (points,), 0 or more.
        deltas: Theirs, shape (points,).
        mu: The release is mu-GDP; ``None`` where that is not known.

    Raises:
        ParameterError: There is no bound at all, shapes differ, or a number is out of range.

    Example:
        >>> curve = TradeOff.of_points([(1.0, 0.0)])
        >>> round(float(curve.fnr(0.1)), 5), round(curve.accuracy, 5)
        (0.72817, 0.73106)
    """

    epsilons: FloatArray = field(repr=False)
    deltas: FloatArray = field(repr=False)
    mu: float | None = None

    def __post_init__(self) -> None:
        if np.shape(self.epsilons) != np.shape(self.deltas) or np.ndim(self.epsilons) != 1:
            raise ParameterError("deltas", np.shape(self.deltas), f"of the epsilons' shape {np.shape(self.epsilons)}")
        if self.mu is None and not self.epsilons.size:
            raise ParameterError("points", 0, "1 or more pairs of epsilon and delta, or a mu")
        if self.epsilons.size and not ((self.epsilons >= 0).all() and (np.abs(self.deltas - 0.5) <= 0.5).all()):
            raise ParameterError("points", "a pair out of range", "epsilon 0 or more, delta from 0 to 1")
        if self.mu is not None:
            _MU.read("mu", self.mu)

    @classmethod
    def of_points(cls, points: Sequence[tuple[float, float]]) -> Self:
        """The curve that follows from (epsilon, delta) pairs that hold at once."""
        pairs = np.array(points, dtype=np.float64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    @classmethod
    def of_mu(cls, mu: float) -> Self:
        """The curve of mu-GDP.

        Example:
            >>> round(float(TradeOff.of_mu(1.0).fnr(0.1)), 4)
            0.6109
        """
        return cls(np.empty(0), np.empty(0), _MU.read("mu", mu))

    @staticmethod
    def of_event(event: DpEvent, adjacency: Adjacency) -> TradeOff:
        """The curve of what a ledger is charged for.

        Gaussian releases have their own curve, everything else with a profile that of its profile. The rest, which is
        priced in zCDP alone, has the pairs that follow from its Renyi divergences.

        Raises:
            ParameterError: The event is not known, or there are too many releases for a loss distribution.
            AssignmentError: A sampled event is not valid for the adjacency.

        Example:
            >>> from sottovoce.privacy.events import BoundedRange
            >>> curve = TradeOff.of_event(BoundedRange(1.0), Adjacency.REPLACE_ONE)
            >>> round(float(curve.fnr(0.1)), 4)
            0.768
        """
        return _of_event(rebuilt(event), adjacency)

    def fnr(self, fpr: float | FloatArray) -> FloatArray:
        """The least false negative rate at each false positive rate, of the same shape; rounded down.

        Raises:
            ParameterError: A rate is not from 0 to 1.
        """
        rates = np.asarray(fpr, dtype=np.float64)
        if not ((rates >= 0) & (rates <= 1)).all():
            raise ParameterError("fpr", "a rate out of range", "from 0 to 1")
        least = np.zeros(rates.shape)
        if self.mu is not None:
            from scipy.special import ndtr, ndtri

            with np.errstate(divide="ignore"):
                least = np.maximum(least, ndtr(-ndtri(rates) - self.mu))
        if self.epsilons.size:
            flat = rates.ravel()
            step = max(1, _AT_ONCE // self.epsilons.size)
            parts = [self._by_points(flat[start : start + step]) for start in range(0, flat.size, step)]
            least = np.maximum(least, np.concatenate(parts).reshape(rates.shape))
        return np.asarray(least * (1 - FLOAT_MARGIN))

    def _by_points(self, rates: FloatArray) -> FloatArray:
        """The steeper line of every pair says most of small rates, its mirror image of large ones."""
        shrink, left = np.exp(-self.epsilons), 1 - self.deltas
        with np.errstate(over="ignore", invalid="ignore"):
            steep = left - np.nan_to_num(np.exp(self.epsilons) * rates[:, None], nan=0.0)
        return np.asarray(np.maximum(steep, shrink * (left - rates[:, None])).max(axis=1))

    def tpr(self, fpr: float | FloatArray) -> FloatArray:
        """The largest true positive rate at each false positive rate."""
        return np.asarray(1 - self.fnr(fpr))

    @property
    def accuracy(self) -> float:
        """The best accuracy of any guess between two equally likely worlds."""
        caps = [1.0]
        if self.epsilons.size:
            shrink = np.exp(-self.epsilons)
            caps.append(float(((1 + self.deltas * shrink) / (1 + shrink)).min()))
        if self.mu is not None:
            caps.append(0.5 * math.erfc(-self.mu / 2 / math.sqrt(2)))
        return min(1.0, min(caps) * (1 + FLOAT_MARGIN))

    @property
    def area(self) -> float:
        """The largest area under an attack's curve, rounded up: each step counts with its right end."""
        steps = np.arange(1, _AREA_STEPS + 1) / _AREA_STEPS
        return min(1.0, float(self.tpr(steps).mean()))

    def confident(self, rate: FloatArray) -> FloatArray:
        """How often a guess can be right where the attack guesses on its surest share of the trials, at most.

        An attack that says "present" on a share x of the absent and a share 1 - fnr(x) of the present, and "absent"
        as often the other way round, guesses on a share w = x + 1 - fnr(x) of all; 1 - fnr(x) of them are right.

        Args:
            rate: w, the share of trials that are guessed on, each from 0 to 1.

        Returns:
            The share of these guesses that are right, of the same shape; 1 where nothing is guessed on.

        Example:
            >>> TradeOff.of_mu(0.5).confident(np.array([0.1, 1.0])).round(4).tolist()
            [0.7415, 0.5987]
        """
        w = np.asarray(rate, dtype=np.float64)
        least = np.zeros(w.shape)  # the least share x that no bound rules out: the attack errs no less often
        if self.epsilons.size:
            shrink, left = np.exp(-self.epsilons), 1 - self.deltas
            steep = shrink * (w[..., None] - self.deltas) / (1 + shrink)
            flat = (w[..., None] - 1 + shrink * left) / (1 + shrink)
            least = np.maximum(least, np.maximum(steep, flat).max(axis=-1))
        if self.mu is not None:
            least = np.maximum(least, self._error_under_mu(w))
        with np.errstate(invalid="ignore", divide="ignore"):
            right = np.where(w > 0, (w - least * (1 - FLOAT_MARGIN)) / w, 1.0)
        return np.asarray(np.clip(right, 0.5, 1.0))

    def _error_under_mu(self, rate: FloatArray) -> FloatArray:
        """Phi(-c) where Phi(-c) + Phi(mu - c) = rate, from below: c is on a grid first, then halved, and rounded up."""
        from scipy.special import ndtr

        mu = self.mu or 0.0
        grid = np.linspace(0.0, _FAR, _CUTS) + mu / 2  # at mu / 2 everything is guessed on
        place = np.searchsorted(-(ndtr(-grid) + ndtr(mu - grid)), -rate)
        high = grid[np.minimum(place, _CUTS - 1)]
        low = np.where(place < _CUTS, grid[np.maximum(place - 1, 0)], np.inf)
        high = np.where(place < _CUTS, high, np.inf)
        with np.errstate(invalid="ignore"):
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                above = ndtr(-middle) + ndtr(mu - middle) > rate
                low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.asarray(ndtr(-high))


@lru_cache(maxsize=256)
def _of_event(event: Any, adjacency: Adjacency) -> TradeOff:
    merged = merge([event])
    plan = plan_of(merged)
    releases = gaussians_merged(plan.releases)
    only = next(iter(releases), None)
    if plan.failure == 0 and len(releases) == 1 and isinstance(only, GaussianDpEvent) and only.noise_multiplier > 0:
        return TradeOff.of_mu(1 / only.noise_multiplier * (1 + FLOAT_MARGIN))
    if all(has_profile(release) for release in plan.releases):
        if len(plan.releases) > MOST_KINDS or plan.steps > MOST_STEPS:
            raise ParameterError("event", describe(event), f"at most {MOST_STEPS:,} releases of {MOST_KINDS} kinds")
        return _of_profile(_profile(event, adjacency))
    accountant = RdpAccountant(adjacency).compose(event)
    pairs = [(accountant.report(delta, _CONVERTED).epsilon, delta) for delta in (0.0, *_DELTAS)]
    return TradeOff.of_points([(epsilon, delta) for epsilon, delta in pairs if math.isfinite(epsilon)] or [(0.0, 1.0)])


def _profile(event: Any, adjacency: Adjacency) -> Profile:
    merged = merge([event])
    if sum(merged.values()) > 1 and any(isinstance(part, SAMPLED) for part in merged):
        return lambda epsilons: deltas_of_plan([event], epsilons, adjacency)
    return profile_of(event, adjacency)


def _of_profile(profile: Profile) -> TradeOff:
    """From equally spaced epsilons, up to where delta comes no lower; a profile of few points would lose the middle."""
    tried = np.concatenate(([0.0], np.geomspace(_FARTHEST / 2**20, _FARTHEST, 241)))
    deltas = _rounded_up(profile(tried))
    level = max(_LEAST_DELTA, float(deltas[-1]) * (1 + _FLAT))
    reach = float(tried[int(np.argmax(deltas <= level))]) or float(tried[1])
    epsilons = np.linspace(0.0, reach, _POINTS)
    return TradeOff(epsilons, _rounded_up(profile(epsilons)))


def _rounded_up(deltas: FloatArray) -> FloatArray:
    return np.asarray(np.clip(np.nan_to_num(deltas, nan=1.0) * (1 + FLOAT_MARGIN), 0.0, 1.0))
