"""The curve of an attack: true-positive against false-positive rate, its area, its value at low rates, and intervals.

Guarantee   Curves and areas are exact for the scores given: equal scores become one diagonal segment, worth half in the
            area. A true-positive rate at a false-positive rate is never interpolated beyond it unless asked. No attack
            on an (epsilon, delta)-DP release exceeds ``caps``, and none on a release that keeps several such pairs at
            once exceeds ``caps_of_curve``.
Assumes     A higher score means "member". Rows of one group depend on each other, groups do not.
Sources     Fawcett (2006) for ties and areas; Carlini et al. (2022) for low false-positive rates; Field and Welsh
            (2007) and Owen (2007) for the bootstrap over groups; Clopper and Pearson (1934); Dong, Roth and Su (2022)
            for the trade-off curve behind the caps; specification T17, 10.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.intervals import CONFIDENCE, REPLICATES, Proportion, proportion, upper_limit
from sottovoce.parameters import Number
from sottovoce.privacy.numbers import rounded_up

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

_AREA_STEPS: Final = 20_000
_SLACK: Final = 1 + 1e-12
_PART: Final = Number(0, 1, words="from 0 to 1")
_CONFIDENCE: Final = Number(0, 1, above_least=True, below_most=True)
"""Rates carry rounding. The allowance is relative: taken for 0, a rate of 1e-14 would bring e^epsilon times itself."""


class Draws(Protocol):
    """Uniform numbers in [0, 1), such as a seeded numpy Generator gives; they choose members and resamples alone."""

    def random(self, size: int | tuple[int, ...]) -> FloatArray:
        """Returns an array of this shape."""


@final
@dataclass(frozen=True, eq=False)
class Roc:
    """A receiver operating characteristic: guess "member" where the score is at or above a threshold.

    Attributes:
        false_positive_rates: Shape (points,), from 0 to 1, not decreasing.
        true_positive_rates: Shape (points,), from 0 to 1, not decreasing.
        thresholds: Shape (points,); the first is infinite, each further one is a score that occurs.
    """

    false_positive_rates: FloatArray = field(repr=False)
    true_positive_rates: FloatArray = field(repr=False)
    thresholds: FloatArray = field(repr=False)

    @property
    def area(self) -> float:
        """AUROC: the chance that a member scores above a non-member, plus half the chance of a tie."""
        heights = self.true_positive_rates[1:] + self.true_positive_rates[:-1]
        return float((np.diff(self.false_positive_rates) * heights).sum() / 2)

    def as_dict(self) -> dict[str, list[float]]:
        """Both rates at the corners of the curve; points inside a straight segment are left out."""
        x, y = self.false_positive_rates, self.true_positive_rates
        turn = np.diff(x[:-1]) * np.diff(y[1:]) - np.diff(x[1:]) * np.diff(y[:-1])
        corner = np.concatenate(([True], np.abs(turn) > 1e-12, [True]))
        return {"false_positive_rates": x[corner].tolist(), "true_positive_rates": y[corner].tolist()}


def roc_of(scores: FloatArray, is_member: BoolArray) -> Roc:
    """The curve of an attack's scores.

    Args:
        scores: Any shape; infinities are allowed.
        is_member: The truth, of the same shape.

    Raises:
        ParameterError: A score is NaN, shapes differ, or members or non-members are missing.

    Example:
        >>> curve = roc_of(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
        >>> curve.true_positive_rates.tolist(), curve.area
        ([0.0, 0.5, 1.0, 1.0], 0.875)
    """
    values, member = _checked(scores, is_member)
    return _curve(*_places(values), member.astype(np.float64), (~member).astype(np.float64))


def roc_of_laws(scores: FloatArray, p_in: FloatArray, p_out: FloatArray) -> Roc:
    """The exact curve where outcome i has score ``scores[i]`` and known probabilities under both truths."""
    return _curve(*_places(np.asarray(scores, dtype=np.float64)), p_in, p_out)


def auroc(scores: FloatArray, is_member: BoolArray) -> float:
    """P(member's score > non-member's score) + P(tie) / 2, exactly.

    Example:
        >>> auroc(np.array([1.0, 1.0, 1.0]), np.array([True, False, False]))
        0.5
    """
    return roc_of(scores, is_member).area


def tpr_at(roc: Roc, fpr: float, randomised: bool = False) -> float:
    """The largest true-positive rate of a threshold whose false-positive rate is at most ``fpr``.

    Args:
        roc: The curve.
        fpr: The false-positive rate allowed, from 0 to 1.
        randomised: Whether the attacker may toss a coin between two neighbouring thresholds, which uses the allowance
            up and reads the curve along its straight segments. An exact pair of laws reaches its cap only so.

    Raises:
        ParameterError: ``fpr`` is not from 0 to 1.

    Example:
        >>> curve = roc_of(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
        >>> tpr_at(curve, 0.25), tpr_at(curve, 0.25, randomised=True)
        (0.5, 0.75)
    """
    x, y = roc.false_positive_rates, roc.true_positive_rates
    last = int(np.searchsorted(x, _PART.read("fpr", fpr) * _SLACK, side="right")) - 1
    if not randomised or last + 1 == len(x):
        return float(y[last])
    share = max(0.0, fpr - float(x[last])) / float(x[last + 1] - x[last])
    return float(y[last] + share * (y[last + 1] - y[last]))


def tpr_interval(scores: FloatArray, is_member: BoolArray, fpr: float, confidence: float = CONFIDENCE) -> Proportion:
    """The conservative true-positive rate with its Clopper-Pearson interval, for rows that are independent.

    The audits with independent runs, which are still to come, need it (specification 10.3).

    The members counted are those strictly above a cut that non-members alone decide, so the interval is exact for the
    true-positive rate of that cut. It does not cover how far the cut's own false-positive rate may be from the observed
    one: see ``resolution_note``. Records that share a system are not independent: use ``bootstrap_interval``.
    """
    values, member = _checked(scores, is_member)
    outside = np.sort(values[~member])[::-1]
    allowed = int(_PART.read("fpr", fpr) * len(outside) * _SLACK)
    members = values[member]
    hits = int((members > outside[allowed]).sum()) if allowed < len(outside) else len(members)
    return proportion(hits, len(members), _CONFIDENCE.read("confidence", confidence))


def bootstrap_interval(
    scores: FloatArray,
    is_member: BoolArray,
    groups: NDArray[Any] | tuple[NDArray[Any], ...],
    draws: Draws,
    *,
    statistic: Callable[[Roc], float] | None = None,
    replicates: int = REPLICATES,
    confidence: float = CONFIDENCE,
) -> Proportion:
    """A statistic of the curve with its percentile interval over resampled groups.

    Whole groups are drawn with replacement, and independently for each of several crossed groupings (Owen 2007, which
    is conservative: on attacks over 50 seeds x 40 candidates, 95% intervals covered 98 to 100%). An attack that is
    fitted over seeds needs candidates as the second grouping: an error of a candidate's fit repeats in every seed, and
    resampling seeds alone covered 77% where there was nothing to find.

    A resample without members or without non-members is drawn again. Scores are taken as given: fits behind them are
    not repeated, since a group drawn twice would enter its own fit. Where every resample agrees, as for an attack that
    is always right, the interval is one point and says nothing.

    Args:
        scores: Any shape.
        is_member: The truth, of the same shape.
        groups: Of the same shape: which rows belong together, such as the number of the seed; or several such arrays.
        draws: A seeded generator.
        statistic: Of a curve; the area if left out.
        replicates: Resamples, 100 or more.
        confidence: Of the two-sided interval.

    Raises:
        ParameterError: As for ``roc_of``; or there are fewer than 2 groups or 100 replicates.
    """
    values, member = _checked(scores, is_member)
    groupings = [
        _group(grouping, np.shape(scores)) for grouping in (groups if isinstance(groups, tuple) else (groups,))
    ]
    replicates = Number(100, whole=True).read("replicates", replicates)
    of = statistic or (lambda roc: roc.area)
    place, thresholds = _places(values)
    replicated: list[float] = []
    while len(replicated) < replicates:
        weight = np.ones(len(values))
        for group, count in groupings:
            chosen = (draws.random(count) * count).astype(np.int64)
            weight *= np.bincount(chosen, minlength=count)[group]
        if (weight * member).any() and (weight * ~member).any():
            replicated.append(of(_curve(place, thresholds, weight * member, weight * ~member)))
    tail = (1 - _CONFIDENCE.read("confidence", confidence)) / 2
    low, high = np.quantile(replicated, [tail, 1 - tail])
    measured = of(_curve(place, thresholds, member.astype(np.float64), (~member).astype(np.float64)))
    return Proportion(measured, float(low), float(high))


def resolution_note(non_members: int, fpr: float) -> str | None:
    """What so few non-members leave open about a false-positive rate; None where 10 or more of them may be accepted.

    Example:
        >>> resolution_note(1000, 0.001)[:70]
        '1000 non-members resolve a false-positive rate of 0.1 % only just: 1 m'
        >>> resolution_note(1000, 0.01) is None
        True
    """
    non_members = Number(1, whole=True).read("non_members", non_members)
    allowed = int(_PART.read("fpr", fpr) * non_members * _SLACK)
    if allowed >= 10:
        return None
    highest = upper_limit(allowed, non_members, (1 - CONFIDENCE) / 2)
    verdict, count, then = ("only just", allowed, "then") if allowed else ("not at all", "none", "still")
    return (
        f"{non_members} non-members resolve a false-positive rate of {100 * fpr:.3g} % {verdict}: "
        f"{count} may be accepted, and the true rate may {then} be up to {rounded_up(100 * highest, 2)} % "
        f"({100 * CONFIDENCE:.0f} % two-sided)."
    )


@final
@dataclass(frozen=True)
class Caps:
    """The most that any attack can reach.

    Attributes:
        tpr: True-positive rate at the false-positive rate asked for.
        auroc: Area under the curve.
    """

    tpr: float
    auroc: float


def caps(epsilon: float, delta: float, fpr: float) -> Caps:
    """What (epsilon, delta)-DP leaves any attack on what was released.

    The rates of every attack satisfy TPR <= e^epsilon FPR + delta and, with the roles exchanged,
    1 - FPR <= e^epsilon (1 - TPR) + delta. The two lines meet at FPR = 1 - TPR = (1 - delta) / (1 + e^epsilon), so the
    area above the curve is a triangle and a trapezoid of (1 - delta)^2 / (1 + e^epsilon) together.

    Args:
        epsilon: Of everything released together, 0 or more, under the adjacency that the experiment tests; infinite for
            no guarantee.
        delta: From 0 to 1.
        fpr: False-positive rate.

    Raises:
        ParameterError: One of them is out of range.

    Example:
        >>> bound = caps(1.0, 0.0, 0.01)
        >>> round(bound.tpr, 5), round(bound.auroc, 5)
        (0.02718, 0.73106)
    """
    epsilon, delta = Number(0, words="0 or more").read("epsilon", epsilon), _PART.read("delta", delta)
    fpr = _PART.read("fpr", fpr)
    beyond = math.inf if fpr > 0 or epsilon == math.inf else 0.0  # exp(epsilon) overflows, and the rate is 1 at most
    grown = math.exp(epsilon) * fpr if epsilon <= 700 else beyond
    shrink = math.exp(-epsilon)
    tpr = min(1.0, grown + delta, 1 - shrink * max(0.0, 1 - fpr - delta))
    return Caps(tpr, 1 - (1 - delta) ** 2 * shrink / (1 + shrink))


def caps_of_curve(points: Sequence[tuple[float, float]], fpr: float) -> Caps:
    """What a release leaves any attack that is (epsilon, delta)-DP at every one of these points: its own curve.

    An (epsilon, delta) that is asked for is one point of a mechanism's privacy profile, and often a weak one: a
    Gaussian release at (1, 1e-5) leaves an area of .58, where that pair alone allows .73 (specification 10.1).

    Args:
        points: Pairs of epsilon and delta, one or more. Any part of the profile will do; more points only tighten.
        fpr: False-positive rate.

    Returns:
        The least true-positive rate that some point leaves, and the area under all of them, rounded up by at most 5e-5.

    Example:
        >>> from sottovoce.privacy.accounting.bounded_range import delta_of_bounded_range
        >>> curve = [(e, delta_of_bounded_range(e, 1.0)) for e in np.linspace(0, 1, 101)]
        >>> round(caps_of_curve(curve, 0.1).tpr, 3), round(caps_of_curve(curve, 0.1).auroc, 3)
        (0.232, 0.661)
    """
    if not points:
        raise ParameterError("points", 0, "1 or more pairs of epsilon and delta")
    tpr = min(caps(epsilon, delta, fpr).tpr for epsilon, delta in points)
    steps = np.arange(1, _AREA_STEPS + 1) / _AREA_STEPS
    most = np.ones_like(steps)
    for epsilon, delta in points:
        grown = math.exp(min(epsilon, 700.0)) * steps + delta
        np.minimum(most, np.minimum(grown, 1 - math.exp(-epsilon) * np.maximum(0.0, 1 - steps - delta)), out=most)
    # The bound does not decrease in the rate, so its value at the right end of each step lies above the step.
    return Caps(tpr, min(float(most.mean()), *(caps(epsilon, delta, fpr).auroc for epsilon, delta in points)))


def _places(values: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """The place of each score among the distinct scores from the highest, and those scores after an infinite one."""
    distinct, place = np.unique(-values, return_inverse=True)
    return place, np.concatenate(([np.inf], -distinct))


def _curve(place: NDArray[np.intp], thresholds: FloatArray, weight_in: FloatArray, weight_out: FloatArray) -> Roc:
    rates = []
    for weight in (weight_out, weight_in):
        total = np.cumsum(np.bincount(place, weight, minlength=len(thresholds) - 1))
        rates.append(np.concatenate(([0.0], total / total[-1])))
    return Roc(rates[0], rates[1], thresholds)


def _checked(scores: FloatArray, is_member: BoolArray) -> tuple[FloatArray, BoolArray]:
    if np.shape(scores) != np.shape(is_member):
        raise ParameterError("is_member", np.shape(is_member), f"of the scores' shape {np.shape(scores)}")
    values = np.ravel(np.asarray(scores, dtype=np.float64))
    member = np.ravel(np.asarray(is_member))
    if member.dtype != np.bool_:
        raise ParameterError("is_member", str(member.dtype), "an array of booleans")
    if missing := int(np.isnan(values).sum()):
        raise ParameterError("scores", f"NaN {missing} times", "a number in every place")
    for name, count in (("members", int(member.sum())), ("non-members", int((~member).sum()))):
        if count < 1:
            raise ParameterError(name, count, "1 or more: a curve compares the two")
    return values, member


def _group(labels: NDArray[Any], shape: tuple[int, ...]) -> tuple[NDArray[np.intp], int]:
    """The number of each row's group, and how many there are."""
    if np.shape(labels) != shape:
        raise ParameterError("groups", np.shape(labels), f"of the scores' shape {shape}")
    names, group = np.unique(np.ravel(labels), return_inverse=True)
    if len(names) < 2:
        raise ParameterError("groups", len(names), "2 or more different groups, which are what is resampled")
    return group, len(names)
