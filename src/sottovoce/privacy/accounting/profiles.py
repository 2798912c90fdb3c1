"""Privacy profiles of single releases, and the exact price of plans that are fixed in advance.

A profile says the largest delta at every epsilon. Every release has one for each direction of a change; Poisson
sampling under add-remove is the only one here whose two directions differ, and a plan is priced in both.

Guarantee   Deltas and epsilons are upper bounds for adaptive compositions of releases that were fixed in advance. The
            pair behind a profile dominates every release that has the profile.
Assumes     The plan does not depend on earlier answers; where it does, the ledger's filter applies (specification T14).
            The event inside a sampled one is stated for the change that the record's presence (and, under replace-one,
            its replacement) causes among the experts: a swap, unless the record's expert comes and goes with it.
Sources     specification T2, T5 (bounded range), T7, T8, T10 and T11 (sampling), T17; Zhu, Dong and Wang (2022) for
            dominating pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.parameters import Number
from sottovoce.privacy.accounting.adaptive_composition import finest_grid, optimal_profile, reach_of
from sottovoce.privacy.accounting.bounded_range import deltas_of_bounded_range
from sottovoce.privacy.accounting.composition import SAMPLED, merge, plan_of, rate_of_sample, require_adjacency
from sottovoce.privacy.accounting.event_cost import rho_of_noise
from sottovoce.privacy.accounting.gaussian_dp import deltas_of_mu, epsilon_of_mu
from sottovoce.privacy.accounting.loss_distribution import LossDistribution, Profile
from sottovoce.privacy.accounting.renyi import FLOAT_MARGIN, FloatArray
from sottovoce.privacy.accounting.subsampled_profiles import (
    added,
    amplified_profile,
    epsilon_of_sampled,
    removed,
    symmetric,
)
from sottovoce.privacy.events import (
    BoundedRange,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PureDP,
    ZCDpEvent,
    describe,
)
from sottovoce.privacy.parameters import FAILURE
from sottovoce.privacy.unit import Adjacency

_NEGLIGIBLE: Final = 1e-17
"""A release's mass beyond the grid; it counts as an infinite loss."""

_WIDEST: Final = 1e5
"""Releases whose losses reach further have no distribution here: all of their mass counts as infinite."""

MOST_STEPS, MOST_KINDS = 2_000_000, 16
"""Plans of more releases, or of more different ones, are refused: they would take minutes, and beyond two million
releases what the transforms may lose exceeds any useful delta."""

_SOME_REACH: Final = 1.0
"""Of losses that are not nothing, where how far they reach is 0 or unknown: a pair that reaches to 0 is left out."""
_LEAST_INTERVAL: Final = 1e-290
_LEAST_PRECISION: Final = 1e-300
_MOST_POINTS: Final = 1 << 19
_BASE_WORK: Final = 3e7
_RESOLUTION: Final = 150
"""Grid steps in one root mean square loss."""


@final
@dataclass(frozen=True)
class Pair:
    """One release's profiles.

    Attributes:
        remove: With the changed record under the first law.
        add: With it under the second law; the same function where the directions do not differ.
        reach: Losses beyond this have next to no mass.
    """

    remove: Profile
    add: Profile
    reach: float


def epsilon_of_plan(events: Iterable[Any], delta: float, adjacency: Adjacency) -> float:
    """The epsilon of a fixed plan at ``delta``, by composing loss distributions; infinite where there is none.

    Raises:
        ParameterError: An event has no profile, such as a ``ZCDpEvent``; there are too many of them; or ``delta`` is
            not a probability.
        AssignmentError: A sampled event is not valid for the adjacency.

    Example:
        >>> from sottovoce.privacy.events import SelfComposedDpEvent
        >>> round(epsilon_of_plan([SelfComposedDpEvent(BoundedRange(0.1), 100)], 1e-5, Adjacency.REPLACE_ONE), 3)
        2.321
    """
    delta = FAILURE.read("delta", delta)
    plan = plan_of(merge(events))
    share = plan.share(delta)
    if share < 0:
        return math.inf
    worst = 0.0
    for losses in _composed(plan.releases, adjacency, share):
        worst = max(worst, losses.epsilon(share))
        if math.isinf(worst):
            break  # the other direction cannot mend it
    return worst


def delta_of_plan(events: Iterable[Any], epsilon: float, adjacency: Adjacency) -> float:
    """The delta of a fixed plan at an ``epsilon`` of 0 or more."""
    return float(deltas_of_plan(events, np.array([Number(0, strict=True).read("epsilon", epsilon)]), adjacency)[0])


def deltas_of_plan(events: Iterable[Any], epsilons: FloatArray, adjacency: Adjacency) -> FloatArray:
    """The larger delta of the two directions of a fixed plan, at many epsilons of 0 or more, shape (epsilons,).

    Raises:
        ParameterError: An event has no profile, there are too many of them, or an epsilon is below 0.
        AssignmentError: A sampled event is not valid for the adjacency.
    """
    at = np.asarray(epsilons, dtype=np.float64)
    if not (at >= 0).all():
        raise ParameterError("epsilons", "one below 0", "0 or more, each")
    plan = plan_of(merge(events))
    failure, inner = float(plan.failure) * (1 + FLOAT_MARGIN), np.zeros(at.shape)
    for losses in _composed(plan.releases, adjacency):
        inner = np.maximum(inner, losses.delta(at))
    return np.minimum(1.0, np.maximum(inner, failure) if plan.exclusive else inner + failure)


def profile_of(event: DpEvent, adjacency: Adjacency) -> Profile:
    """The larger delta of the two directions of one event, as a function of epsilons of either sign.

    ``false_negative_rate`` starts from it.

    Example:
        >>> profile = profile_of(BoundedRange(1.0), Adjacency.REPLACE_ONE)
        >>> round(float(profile(np.array([0.5]))[0]), 6)
        0.077405
    """
    merged = merge([event])
    if len(merged) == 1 and sum(merged.values()) == 1 and isinstance(only := next(iter(merged)), SAMPLED):
        pair = _sampled_pair(only, adjacency)
        return lambda epsilons: np.maximum(pair.remove(epsilons), pair.add(epsilons))
    return _base_profile(merged, adjacency)[0]


def false_negative_rate(profile: Profile, false_positive_rate: float, reach: float, points: int = 4001) -> float:
    """The least rate of missed members that a test with this false positive rate can have (specification T17).

    One point of the trade-off curve; ``sottovoce.audits.tradeoff`` has the whole of it.

    Args:
        profile: Of the release, the same in both directions.
        false_positive_rate: Of the test.
        reach: Largest epsilon that is tried.
        points: How many are tried; more only raise the bound.

    Example:
        >>> round(false_negative_rate(profile_of(BoundedRange(1.0), Adjacency.REPLACE_ONE), 0.1, 1.0), 4)
        0.768
    """
    e = np.linspace(0.0, reach, points)
    delta = profile(e)
    best = np.maximum(1 - delta - np.exp(e) * false_positive_rate, np.exp(-e) * (1 - delta - false_positive_rate))
    return max(0.0, float(best.max()))


def has_profile(event: Any) -> bool:
    """Whether a release, or what is sampled in it, has a privacy profile at all."""
    if isinstance(event, SAMPLED):
        return all(has_profile(part) for part in plan_of(merge([event.event])).releases)
    return not isinstance(event, ZCDpEvent)


def _composed(releases: Counter[Any], adjacency: Adjacency, delta: float = math.inf) -> Iterable[LossDistribution]:
    """The losses of a plan, in one direction or both, one after another; for this delta, if one is named."""
    if len(releases) > MOST_KINDS or releases.total() > MOST_STEPS:
        limit = f"at most {MOST_STEPS:,} of at most {MOST_KINDS} kinds"
        raise ParameterError("number of releases", f"{releases.total():,} of {len(releases):,} kinds", limit)
    pairs = [(_pair_of(event, adjacency), count) for event, count in gaussians_merged(releases).items()]
    pairs = [(pair, count) for pair, count in pairs if pair.reach > 0]
    if not pairs:
        return []
    if any(pair.reach > _WIDEST for pair, _ in pairs):
        return [LossDistribution.of(np.ones_like, 1.0, 1.0)]
    interval = _interval(pairs)
    directions = ["remove", "add"] if any(pair.add is not pair.remove for pair, _ in pairs) else ["remove"]
    return (_total(pairs, direction, interval, delta) for direction in directions)


def _total(pairs: list[tuple[Pair, int]], direction: str, interval: float, delta: float) -> LossDistribution:
    parts = [
        LossDistribution.of(getattr(pair, direction), pair.reach, interval).times(count, delta) for pair, count in pairs
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


def _interval(pairs: list[tuple[Pair, int]]) -> float:
    """A grid step that is small beside the root mean square loss of a release, yet keeps the grid within memory."""
    steps = sum(count for _, count in pairs)
    square = sum(count * _mean_square(pair) for pair, count in pairs) / steps
    widest = max(pair.reach for pair, _ in pairs)
    return max(min(math.sqrt(square), widest) / _RESOLUTION, 2 * widest / _MOST_POINTS, _LEAST_INTERVAL)


def _mean_square(pair: Pair) -> float:
    """Of a release's loss, from a coarse grid."""
    losses = LossDistribution.of(pair.remove, pair.reach, max(pair.reach / 500, _LEAST_INTERVAL))
    points = (np.arange(losses.pmf.size) + losses.pmf._lower_loss) * losses.pmf._discretization
    return float(np.sum(losses.pmf._probs * points * points))


def gaussians_merged(releases: Counter[Any]) -> Counter[Any]:
    """All Gaussian releases as one, whose mu is the root of the sum of squares (specification T8)."""
    gaussians = {e: n for e, n in releases.items() if isinstance(e, GaussianDpEvent) and e.noise_multiplier > 0}
    rest = Counter({event: count for event, count in releases.items() if event not in gaussians})
    if not gaussians:
        return rest
    precision = math.fsum(2 * count * rho_of_noise(event.noise_multiplier) for event, count in gaussians.items())
    return rest + Counter({GaussianDpEvent(1 / math.sqrt(max(precision, _LEAST_PRECISION))): 1})


@lru_cache(maxsize=256)
def _pair_of(event: Any, adjacency: Adjacency) -> Pair:
    """The profiles of one release that neither fails nor is composed."""
    if isinstance(event, SAMPLED):
        return _sampled_pair(event, adjacency)
    profile, reach = _release_profile(event)
    return Pair(profile, profile, reach)


def _release_profile(event: Any) -> tuple[Profile, float]:
    match event:
        case BoundedRange():
            return lambda epsilons: deltas_of_bounded_range(epsilons, event.eta), event.eta
        case PureDP():
            return symmetric(lambda epsilons: _randomized_response(epsilons, event.epsilon)), event.epsilon
        case GaussianDpEvent() if event.noise_multiplier > 0:
            mu = 1 / event.noise_multiplier
            if mu > math.sqrt(2 * _WIDEST):
                return np.ones_like, math.inf
            reach = max(mu, epsilon_of_mu(mu, _NEGLIGIBLE)) if mu else 0.0
            # What rounding takes is in the slack of a distribution.
            return lambda epsilons: deltas_of_mu(epsilons, mu, rounded_up=False), reach
        case GaussianDpEvent() | NonPrivateDpEvent():
            return np.ones_like, math.inf
    raise ParameterError("event", describe(event), "one with a privacy profile (a ZCDpEvent has none)")


def _sampled_pair(event: Any, adjacency: Adjacency) -> Pair:
    require_adjacency(event, adjacency)
    base, base_reach = _base_profile(merge([event.event]), adjacency)
    rate = rate_of_sample(event)
    if rate == 0 or base_reach == 0:
        nothing = symmetric(np.zeros_like)
        return Pair(nothing, nothing, 0.0)
    reach = epsilon_of_sampled(base_reach, rate) or _SOME_REACH
    if adjacency is Adjacency.ADD_REMOVE and rate < 1:
        return Pair(removed(base, rate), added(base, rate), reach)
    profile = symmetric(amplified_profile(base, rate))
    return Pair(profile, profile, reach)


def _base_profile(merged: Counter[Any], adjacency: Adjacency) -> tuple[Profile, float]:
    """The profile, the same in both directions, of releases that share one sample; and how far it reaches."""
    plan = plan_of(merged)
    if not plan.releases:
        profile, reach = symmetric(np.zeros_like), 0.0
    elif plan.steps == 1:
        profile, reach = _release_profile(next(iter(plan.releases)))
    else:
        profile, reach = _shared_profile(plan.releases, adjacency)
    if plan.failure == 0:
        return profile, reach
    failure, reach = float(plan.failure), reach or _SOME_REACH
    if plan.exclusive:
        return symmetric(lambda epsilons: np.maximum(failure, profile(epsilons))), reach
    return symmetric(lambda epsilons: np.minimum(1.0, failure + profile(epsilons))), reach


def _shared_profile(releases: Counter[Any], adjacency: Adjacency) -> tuple[Profile, float]:
    """Of several releases: exactly where they are all Gaussian, by T6 where they are equal selections, or composed."""
    releases = gaussians_merged(releases)
    if sum(releases.values()) == 1:
        return _release_profile(next(iter(releases)))
    if len(releases) == 1:
        ((event, steps),) = releases.items()
        if isinstance(event, BoundedRange) and (grid := finest_grid(event.eta, steps, _NEGLIGIBLE, _BASE_WORK)):
            return _optimal(event.eta, steps, grid), reach_of(event.eta, steps, _NEGLIGIBLE, grid)
    composed = [*_composed(releases, adjacency)]
    if not composed:
        return symmetric(np.zeros_like), 0.0
    floor = composed[0].floor
    if floor >= 1:
        return np.ones_like, math.inf
    reach = composed[0].epsilon(max(_NEGLIGIBLE, 2 * floor))
    # What rounding may have taken can hide all losses. They are not nothing, and reach 0 would say so.
    widest = math.fsum(count * _pair_of(event, adjacency).reach for event, count in releases.items())
    return symmetric(composed[0].delta), reach or widest


@lru_cache(maxsize=64)
def _optimal(eta: float, steps: int, grid: int) -> Profile:
    """T6's upper bound; between grid points the chord in e^epsilon, below which a convex profile stays."""
    knots, deltas = optimal_profile(eta, steps, reach_of(eta, steps, _NEGLIGIBLE, grid), grid)

    def profile(e: FloatArray) -> FloatArray:
        left = np.clip(np.searchsorted(knots, e, side="right") - 1, 0, len(knots) - 2)
        gap = knots[left + 1] - knots[left]
        beyond = np.clip(e - knots[left], 0.0, gap)
        share = np.where(gap < 1, np.expm1(np.minimum(beyond, 1.0)) / np.expm1(np.minimum(gap, 1.0)), 0.0)
        share = np.where(gap < 1, share, np.exp(beyond - gap) * -np.expm1(-beyond) / -np.expm1(-gap))
        chord = deltas[left] + share * (deltas[left + 1] - deltas[left])
        return np.where(e >= steps * eta, 0.0, chord)

    return symmetric(profile)


def _randomized_response(epsilons: FloatArray, epsilon: float) -> FloatArray:
    return np.where(epsilons < epsilon, -np.expm1(np.minimum(epsilons - epsilon, 0.0)) / (1 + math.exp(-epsilon)), 0.0)
