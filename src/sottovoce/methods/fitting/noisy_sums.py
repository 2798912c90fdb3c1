"""Sums over private units with Gaussian noise, and their number where it is private.

Guarantee   One release of each: the discrete Gaussian's, for the squared norm that one change moves the sum by.
Sources     specification 5.13, T8.
"""

from __future__ import annotations

from fractions import Fraction

from sottovoce.experts.unit_sums import LIMIT, SumRule, UnitCount
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.methods.fitting.fitter import FitSetting, PrivateSums
from sottovoce.models.base import FloatArray
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.unit import ChangeType
from sottovoce.randomness import Randomness


def noisy_sum(
    rule: SumRule,
    squared_l2: int,
    noise: RoundedGaussian,
    setting: FitSetting,
    private: PrivateSums,
    randomness: Randomness,
) -> FloatArray:
    """The sum of all units by a rule, with noise, shape (rule.size,), in units of what one unit adds at most.

    Args:
        rule: What a unit adds.
        squared_l2: What one change moves the sum by, squared, in whole steps.
        noise: Its multiplier.
        setting: The public side.
        private: The private side.
        randomness: Of the noise.
    """
    summed = VectorSum(
        private.sum_of(rule), squared_l2=squared_l2, adjacency=setting.adjacency, grid_step=Fraction(1, LIMIT)
    )
    return noise.release(summed, randomness).values


def count_noise(sigma: float | None, change: ChangeType) -> RoundedGaussian:
    """The noise of a number of units, of this deviation."""
    return RoundedGaussian(float(sigma or 0) / change.rows)


def number_of_units(
    sigma: float | None, least: float, setting: FitSetting, private: PrivateSums, randomness: Randomness
) -> float:
    """The number of units, or a noisy one where it is private, and at least ``least``."""
    if setting.units is not None:
        return max(float(setting.units), least)
    squared_l2 = (LIMIT * setting.change.rows) ** 2
    noise = count_noise(sigma, setting.change)
    (noisy,) = noisy_sum(UnitCount(), squared_l2, noise, setting, private, randomness)
    return max(float(noisy), least)
