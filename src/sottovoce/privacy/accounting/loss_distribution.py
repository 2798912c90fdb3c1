"""Distributions of the privacy loss on a grid, and their composition by fast Fourier transforms.

The distributions are ``dp_accounting``'s, made by connecting the dots of a profile. Read-out is vectorised here.

Guarantee   Deltas and epsilons are upper bounds: the dots are connected pessimistically, and what the transforms may
            lose (``slack``) is added to every delta. The read-out has no exponent above 0 and adds positive terms
            only, so that nothing overflows at any epsilon, and is moved up by more than it can be rounded down.
Assumes     The rounding of a transform of N points is at most 10 u log2(N) in the Euclidean norm, u = 2^-53; errors of
            well-made transforms are a tenth of it (Higham 2002, 24.1). A power multiplies it by the number of steps.
Sources     Doroshenko et al. (2022, arXiv:2207.04380) for the dots; specification 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np

from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN, FloatArray

Profile = Callable[[FloatArray], FloatArray]
"""Largest delta at each of several epsilons, of either sign."""

_ROUNDING: Final = 10 * 2.0**-53
_TAIL: Final = 1e-16
_AT_ONCE: Final = 2048
_MASS_OFF: Final = 1e-3
"""How far a distribution's masses may be from adding up to 1."""
_LOWERED: Final = 1 - 2.0**-48
"""Epsilons are lowered by more than the rounding of the losses that they are compared with."""


@final
@dataclass(frozen=True)
class LossDistribution:
    """Losses of one or more releases in one direction.

    Attributes:
        pmf: The masses, ``dp_accounting``'s dense form.
        slack: Bound on what rounding took from any delta.
    """

    pmf: Any
    slack: float = 0.0

    @classmethod
    def of(cls, profile: Profile, reach: float, interval: float) -> LossDistribution:
        """Connects the dots of a profile between -reach and reach; mass beyond goes to infinity.

        All of it does where the profile is so flat that rounding makes up its masses.
        """
        from dp_accounting.pld import pld_pmf

        most = math.ceil(reach / interval)
        epsilons = np.asarray(np.arange(-most, most + 1) * interval, dtype=np.float64)
        deltas = np.minimum.accumulate(np.clip(np.nan_to_num(profile(epsilons), nan=1.0), 0.0, 1.0))
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -most, most, deltas).to_dense_pmf()
        if abs(float(pmf._probs.sum()) + pmf._infinity_mass - 1) < _MASS_OFF:
            return cls(pmf, 1e-15)
        return cls.of(np.ones_like, 1.0, 1.0)

    def times(self, count: int, delta: float = math.inf) -> LossDistribution:
        """The losses of ``count`` releases.

        Args:
            count: 1 or more.
            delta: What will be asked of them. Rounding only adds up: where it passes this delta before they are
                composed, no epsilon meets it, and they are not composed.
        """
        if count == 1 or self.floor >= 1:
            return self
        if count * self.slack > delta:
            return LossDistribution(self.pmf, 1.0)  # every delta is 1, and other losses can still be added
        if count > _AT_ONCE:  # the library's window grows with the count, not with its root
            many, rest = divmod(count, _AT_ONCE)
            bulk = self.times(_AT_ONCE, delta).times(many, delta)
            return bulk.plus(self.times(rest, delta)) if rest and bulk.floor <= delta else bulk
        norm = float(np.linalg.norm(self.pmf._probs))
        with np.errstate(all="ignore"):  # its search for a window tries orders that overflow
            pmf = self.pmf.self_compose(count, _TAIL)
        return LossDistribution(pmf, count * (self.slack + norm * _l1_error(pmf.size)))

    def plus(self, other: LossDistribution) -> LossDistribution:
        """The losses of both."""
        for certain in (self, other):
            if certain.floor >= 1:
                return certain
        pmf = self.pmf.compose(other.pmf, _TAIL)
        return LossDistribution(pmf, self.slack + other.slack + _l1_error(pmf.size))

    @property
    def floor(self) -> float:
        """What no epsilon brings delta below."""
        return float(self.slack + self.pmf._infinity_mass)

    def delta(self, epsilons: FloatArray) -> FloatArray:
        """Deltas at epsilons of 0 or more."""
        losses, at_losses, slopes = self._tails
        inner = np.zeros(np.shape(epsilons))
        if len(losses):
            at = np.minimum(epsilons * _LOWERED, losses[-1])
            cell = np.searchsorted(losses, at)  # the loss at or above each epsilon
            inner = at_losses[cell] - slopes[cell] * np.expm1(at - losses[cell])
        return np.asarray(np.clip(np.nan_to_num(self.floor + inner, nan=1.0), 0.0, 1.0))

    def epsilon(self, delta: float) -> float:
        """The least epsilon of 0 or more whose delta is at most ``delta``; infinite if there is none.

        The answer is in the cell whose upper end is the first loss that meets ``delta``. It is never below the lower
        end, where delta is larger than asked.
        """
        losses, at_losses, slopes = self._tails
        target = delta - self.slack - self.pmf._infinity_mass
        if target < 0 or np.isnan(at_losses).any():
            return math.inf
        if not len(losses):
            return 0.0
        index = int(np.argmax(at_losses <= target))  # the last of them is 0
        lower = losses[index - 1] if index else 0.0
        room = target - at_losses[index]
        solved = losses[index] + math.log1p(-room / slopes[index]) if room < slopes[index] else lower
        return float(max(lower, solved)) * (1 + FLOAT_MARGIN)

    @cached_property
    def _tails(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Positive losses; the delta at each, without the floor; and the slope s at each.

        The slope at a loss L is the sum of mass e^(L - loss) over the losses from L upwards. In the cell below L, delta
        at an epsilon is delta(L) + s (1 - e^(epsilon - L)). One grid step h further down, delta is larger by
        s (1 - e^-h), and the slope is the mass there + e^-h s.
        """
        start, step = max(0, 1 - self.pmf._lower_loss), self.pmf._discretization
        losses = (np.arange(start, self.pmf.size) + self.pmf._lower_loss) * step
        mass = np.maximum(self.pmf._probs[start:], 0.0)
        slopes = _sums_upwards(mass, step)
        grown = _sums_upwards(slopes, 0.0) * -math.expm1(-step)
        return losses, np.append(grown[1:], 0.0), slopes


def _sums_upwards(masses: FloatArray, step: float) -> FloatArray:
    """An upper bound, for every i, on the sum of masses[j] e^(-step (j - i)) over the j from i upwards.

    It is summed in blocks of about the root of the number of points, and over the blocks, so that a term is rounded at
    most so often; the bound is larger by twice what that can take.
    """
    from scipy.signal import lfilter

    block = math.isqrt(masses.size) + 1
    blocks = np.append(masses, np.zeros(-masses.size % block)).reshape(-1, block)
    inner = lfilter([1.0], [1.0, -math.exp(-step)], blocks[:, ::-1])[:, ::-1]
    whole = lfilter([1.0], [1.0, -math.exp(-step * block)], inner[::-1, 0])[::-1]
    beyond = np.exp(-step * (block - np.arange(block))) * np.append(whole[1:], 0.0)[:, None]
    sums = (inner + beyond).ravel()[: masses.size]
    return np.asarray(sums * (1 + 2.0**-52 * (4 * (block + len(blocks)) + 1000)))


def _l1_error(points: int) -> float:
    return _ROUNDING * math.log2(points + 2) * math.sqrt(points)
