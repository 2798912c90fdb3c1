"""What sampling makes of a profile: formulas for one sample, in both directions.

Guarantee   From a base profile that covers the change a sampled record causes, an upper bound on the profile of the
            release from a sample that holds the record with the given rate.
Sources     specification T10 and T11; Balle, Barthe and Gaboardi (2018).
"""

from __future__ import annotations

import math

import numpy as np

from sottovoce.privacy.accounting.loss_distribution import Profile
from sottovoce.privacy.accounting.renyi import FloatArray


def symmetric(positive: Profile) -> Profile:
    """Extends a profile from epsilons of 0 or more to all: the reverse direction has the same one."""

    def both(epsilons: FloatArray) -> FloatArray:
        size = np.abs(epsilons)
        at_size = positive(size)
        return np.where(epsilons >= 0, at_size, -np.expm1(-size) + np.exp(-size) * at_size)

    return both


def amplified_profile(base: Profile, rate: float) -> Profile:
    """T10 and T11: the profile, at epsilons of 0 or more, of a release on a sample that holds a record at ``rate``."""
    return lambda epsilons: rate * base(base_epsilon(epsilons, rate))


def base_epsilon(epsilons: FloatArray, rate: float) -> FloatArray:
    """ln(1 + (e^epsilon - 1) / rate), without overflow, at epsilons of 0 or more."""
    with np.errstate(over="ignore", divide="ignore"):  # a rate of 1e-300: the base's epsilon is infinite
        small = np.log1p(np.expm1(np.minimum(epsilons, 1.0)) / rate)
        large = epsilons + np.log1p(-(1 - rate) * np.exp(-epsilons)) - math.log(rate) if rate < 1 else epsilons
    return np.where(epsilons < 1, small, large)


def epsilon_of_sampled(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^epsilon - 1)): what sampling makes of an epsilon (specification T10); delta becomes rate delta.

    Example:
        >>> round(epsilon_of_sampled(8.0, 400 / 2600), 4)
        6.13
    """
    if rate == 0 or math.isinf(epsilon):
        return 0.0 if rate == 0 else math.inf
    if epsilon < 30:
        return math.log1p(rate * math.expm1(epsilon))
    logarithm = epsilon + math.log(rate)  # of rate e^epsilon; at most e^-30 of it is left out by the other term
    return logarithm + math.log1p(math.exp(-logarithm)) if logarithm > 0 else math.log1p(math.exp(logarithm))


def removed(base: Profile, rate: float) -> Profile:
    """The mixture that may hold the record, against the law without it."""

    def profile(epsilons: FloatArray) -> FloatArray:
        floor = -np.expm1(np.minimum(epsilons, 0.0))
        inner = 1 + np.expm1(np.minimum(epsilons, 0.0)) / rate
        negative = np.log(np.where(inner > 0, inner, 1.0))
        at = np.where(epsilons >= 0, base_epsilon(np.maximum(epsilons, 0.0), rate), negative)
        return np.maximum(floor, np.where(inner > 0, rate * base(at), floor))

    return profile


def added(base: Profile, rate: float) -> Profile:
    """The law without the record, against the mixture that may hold it."""

    def profile(epsilons: FloatArray) -> FloatArray:
        room = rate - (1 - rate) * np.expm1(np.minimum(epsilons, -math.log1p(-rate) + 1.0))
        inside = room > 0
        at = epsilons + math.log(rate) - np.log(np.where(inside, room, 1.0))
        floor = -np.expm1(np.minimum(epsilons, 0.0))
        return np.maximum(floor, np.where(inside, room * base(np.where(inside, at, 0.0)), floor))

    return profile
