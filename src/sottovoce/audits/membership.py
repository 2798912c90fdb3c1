"""Membership inference by likelihood ratios: was this record among the private ones?

For every seed a system answers from a random part of a fixed pool of candidate records. The attacker asks each
candidate's own text and decides from what the system shows. Two attacks, which must not be mixed up:

- on the **confidence** in the candidate's label, as published. No method of this library releases a confidence, and no
  epsilon covers one, so results on it are marked ``released=False``;
- on the **released labels** alone, one or several answers. This is what a guarantee is about; ``roc.caps`` bounds it.

Guarantee   A seed's own observation never enters the fit that scores it. ``optimal_label_attack`` is the best attack on
            labels whose laws are known (Neyman and Pearson), without sampling error.
Assumes     Seeds are independent. The attacker knows the other seeds' members, observations and, if given, label laws.
            With a fixed number of members in a seed, one candidate's presence replaces another record: the caps to
            compare with are those of replace-one. (The rest of the data is random; the caps hold for the mixture over
            it too, since replacing one record turns either mixture into the other and the bounds are convex.)
Sources     Carlini et al. (2022) for the attack; Private PoEtry, section 4.4, for the setting of 50 seeds x 20 records;
            specification 10.1 and 11.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, Final, final

import numpy as np

from sottovoce.audits.roc import (
    BoolArray,
    Draws,
    FloatArray,
    IntArray,
    Roc,
    bootstrap_interval,
    resolution_note,
    roc_of,
    roc_of_laws,
    tpr_at,
)
from sottovoce.errors import ParameterError
from sottovoce.intervals import REPLICATES, Proportion
from sottovoce.parameters import Number

NOT_RELEASED: Final = "attack on scores that are not released"
LOW_RATES: Final = (0.01, 0.001)
"""False-positive rates at which a result states its true-positive rate."""

MOST_OUTCOMES: Final = 200_000
_DECIMALS: Final = 9
"""Scores that differ by rounding alone must tie: which way sums round depends on how many seeds a fit holds."""

_LARGEST_LOGIT: Final = 40.0
_LEAST_VARIANCE: Final = 2.0**-20
"""The square of one grid step of the experts' log-probabilities: no fit is narrower."""


@final
@dataclass(frozen=True, eq=False)
class Observations:
    """What the attacker saw, by seed and candidate.

    Attributes:
        is_member: Whether the candidate was private, booleans of shape (seeds, candidates), 3 seeds or more.
        statistic: Logit of the confidence in the candidate's own label, same shape; None where it was not observed.
        labels: Released labels, integers of shape (seeds, candidates, answers); None where none was asked.
        classes: Number of labels; 0 where ``labels`` is None.

    Raises:
        ParameterError: Shapes disagree, a statistic is not finite, or a label is not below ``classes``.
    """

    is_member: BoolArray = field(repr=False)
    statistic: FloatArray | None = field(default=None, repr=False)
    labels: IntArray | None = field(default=None, repr=False)
    classes: int = 0

    def __post_init__(self) -> None:
        shape = np.shape(self.is_member)
        if len(shape) != 2 or shape[0] < 3 or shape[1] < 1 or self.is_member.dtype != np.bool_:
            raise ParameterError("is_member", shape, "booleans of shape (seeds, candidates), 3 seeds or more")
        if self.statistic is not None:
            if np.shape(self.statistic) != shape:
                raise ParameterError("statistic", np.shape(self.statistic), f"of shape {shape}, as is_member")
            if bad := int((~np.isfinite(self.statistic)).sum()):
                raise ParameterError("statistic", f"not finite {bad} times", "a finite number in every place")
        if self.labels is not None:
            if np.ndim(self.labels) != 3 or self.labels.shape[:2] != shape or not self.labels.size:
                raise ParameterError("labels", np.shape(self.labels), f"of shape {(*shape, 'answers')}")
            least, most = int(self.labels.min()), int(self.labels.max())
            if least < 0 or most >= self.classes:
                raise ParameterError("labels", (least, most), f"from 0 to classes - 1 ({self.classes - 1})")


def membership_design(draws: Draws, seeds: int, candidates: int, members: int | None = None) -> BoolArray:
    """Who is private in which seed: in every seed a uniformly random set of the same size.

    Args:
        draws: A seeded generator.
        seeds: Number of systems.
        candidates: Size of the pool.
        members: Private records a seed; half of the pool if left out.

    Returns:
        Booleans of shape (seeds, candidates). Each candidate is a member with chance ``members / candidates``.

    Raises:
        ParameterError: ``members`` is not from 1 to ``candidates - 1``, or there are fewer than 3 seeds.
    """
    size = candidates // 2 if members is None else members
    seeds = Number(3, whole=True, words="3 or more").read("seeds", seeds)
    if not 1 <= size < candidates:
        raise ParameterError("members", size, f"from 1 to candidates - 1 ({candidates - 1})")
    return np.asarray(draws.random((seeds, candidates)).argsort(axis=1, kind="stable").argsort(axis=1) < size)


def logit_confidence(log_probabilities: FloatArray, labels: IntArray) -> FloatArray:
    """log p - log(1 - p) for the candidate's label under the aggregated distribution, kept within 40 nats.

    Args:
        log_probabilities: Shape (..., classes), up to a constant in each row.
        labels: The candidates' labels, shape (...).

    Example:
        >>> logit_confidence(np.log([[0.8, 0.1, 0.1]]), np.array([0])).round(4).tolist()
        [1.3863]
    """
    own = np.arange(log_probabilities.shape[-1]) == np.asarray(labels)[..., None]
    rest = np.where(own, -np.inf, log_probabilities)
    mine = np.where(own, log_probabilities, -np.inf).max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logit = mine - np.logaddexp.reduce(rest, axis=-1)
    return np.asarray(np.clip(logit, -_LARGEST_LOGIT, _LARGEST_LOGIT), dtype=np.float64)


def global_threshold_scores(observations: Observations) -> FloatArray:
    """The confidence itself: one threshold for all candidates, no fits.

    The audits that are still to come compare the fitted attacks with it.
    """
    return _statistic(observations)


def likelihood_ratio_scores(
    observations: Observations, shared_variance: bool = True, offline: bool = False
) -> FloatArray:
    """Scores of the likelihood-ratio attack: Gaussian fits of each candidate's statistic over the other seeds.

    Args:
        observations: With a statistic.
        shared_variance: Whether all candidates share one variance inside and one outside, each about the candidate's
            own mean. Carlini et al. share below 64 fitted systems; a variance from few observations is worth little.
        offline: Whether to fit non-members alone. The score is then the statistic's distance from their mean in
            standard deviations, which orders as the published P(Z <= statistic) does and does not saturate.

    Returns:
        Shape (seeds, candidates): log N(x; in) - log N(x; out), or the distance. No fit has a standard deviation below
        2**-10, so statistics that never change score 0 everywhere. With nothing to find, scores of one candidate oppose
        each other a little, since each is in the other's fit: AUROC is then .498 on average over 50 seeds x 40
        candidates, but .468 over 50 x 2. Pool many candidates.

    Raises:
        ParameterError: No statistic, or a fit would have too few other seeds.
    """
    values = _statistic(observations)
    least = 1 if shared_variance else 2
    scores: FloatArray = np.empty(values.shape)
    for seed, own in enumerate(values):
        other_seeds = _other_seeds(seed, len(values))
        member = observations.is_member[other_seeds]
        mean, variance = _fit(values[other_seeds], ~member, least, "non-member")
        outside = (own - mean) ** 2 / variance + np.log(variance)
        if offline:
            scores[seed] = (own - mean) / np.sqrt(variance)
            continue
        mean, variance = _fit(values[other_seeds], member, least, "member")
        scores[seed] = (outside - (own - mean) ** 2 / variance - np.log(variance)) / 2
    return np.round(scores, _DECIMALS)


def released_label_scores(observations: Observations, laws: FloatArray | None = None) -> FloatArray:
    """Log likelihood ratios of the released labels, estimated over the other seeds.

    Shares of labels are mixed with the uniform law, worth half a count for each label where a candidate is a member in
    half of the seeds. The weight is the same for every candidate: weighed against the candidate's own counts, which
    lack the scored seed, a score would tell on which side that seed is missing.

    Args:
        observations: With labels.
        laws: Exact probabilities of the labels, shape (seeds, candidates, classes), if the attacker computed them for
            the other seeds. Then the answers of one seed are independent draws from that seed's law, and their
            likelihood is averaged over seeds. Without laws, all answers are counted as if independent given membership.

    Returns:
        Shape (seeds, candidates).

    Raises:
        ParameterError: No labels, laws of another shape, or a candidate without other seeds on one side.
    """
    from scipy.special import xlogy

    labels, member, classes = _labels(observations), observations.is_member, observations.classes
    seeds, _, answers = labels.shape
    shown = np.eye(classes)[labels].sum(axis=2)
    uniform = classes / (seeds * (answers if laws is None else 1) + classes)
    if laws is not None:
        if np.shape(laws) != shown.shape:
            raise ParameterError("laws", np.shape(laws), f"of shape {shown.shape} (seeds, candidates, classes)")
        laws = _law("laws", laws)
    scores: FloatArray = np.empty(member.shape)
    for seed in range(seeds):
        other_seeds = _other_seeds(seed, seeds)
        log_likelihoods = []
        for side, name in ((member[other_seeds], "member"), (~member[other_seeds], "non-member")):
            count = _counted(side, 1, name)
            if laws is None:
                share = np.where(side[..., None], shown[other_seeds], 0).sum(axis=0) / (answers * count[:, None])
                log_likelihoods.append((shown[seed] * np.log((1 - uniform) * share + uniform / classes)).sum(axis=-1))
            else:
                likelihood = np.where(side, xlogy(shown[seed], laws[other_seeds]).sum(axis=-1), -np.inf)
                mean = np.logaddexp.reduce(likelihood, axis=0) - np.log(count)
                log_likelihoods.append(
                    np.logaddexp(mean + np.log1p(-uniform), np.log(uniform) - answers * np.log(classes))
                )
        scores[seed] = log_likelihoods[0] - log_likelihoods[1]
    return np.round(scores, _DECIMALS)


def optimal_label_attack(p_in: Sequence[float], p_out: Sequence[float], answers: int = 1) -> Roc:
    """The exact curve of the best attack on independent answers from one of two known laws.

    The audits that are still to come compare with it (specification 10.1).

    Args:
        p_in: Probability of each label where the record is private.
        p_out: The same where it is not.
        answers: How many answers the attacker gets. The epsilon to compare with is that of all of them together.

    Raises:
        ParameterError: A law is not one, lengths differ, or there are more than 200,000 different sets of answers.

    Example:
        Randomised response with odds of 3 to 1, that is epsilon ln 3.

        >>> attack = optimal_label_attack([0.75, 0.25], [0.25, 0.75])
        >>> attack.area, tpr_at(attack, 0.25)
        (0.75, 0.75)
    """
    from scipy.special import gammaln, xlogy

    inside, outside = _law("p_in", p_in), _law("p_out", p_out)
    classes = len(inside)
    if len(outside) != classes:
        raise ParameterError("p_out", len(outside), f"as long as p_in ({classes})")
    if answers < 1 or math.comb(answers + classes - 1, classes - 1) > MOST_OUTCOMES:
        raise ParameterError("answers", answers, f"1 or more, with at most {MOST_OUTCOMES:,} different sets of answers")
    bars = np.array(list(combinations(range(answers + classes - 1), classes - 1)), dtype=np.int64)
    ends = np.full((len(bars), 1), -1), np.full((len(bars), 1), answers + classes - 1)
    counts = np.diff(np.hstack([ends[0], bars.reshape(len(bars), classes - 1), ends[1]]), axis=1) - 1
    ways = gammaln(answers + 1) - gammaln(counts + 1).sum(axis=1)
    log_in, log_out = (xlogy(counts, law).sum(axis=1) for law in (inside, outside))
    possible = np.isfinite(log_in) | np.isfinite(log_out)
    log_in, log_out, ways = log_in[possible], log_out[possible], ways[possible]
    return roc_of_laws(log_in - log_out, np.exp(ways + log_in), np.exp(ways + log_out))


@final
@dataclass(frozen=True)
class AttackResult:
    """What one attack achieved.

    Attributes:
        name: Of the attack.
        released: Whether it used nothing but what the system releases.
        auroc: Area under the curve with its interval.
        tprs: True-positive rate with its interval, by false-positive rate; conservative, never interpolated.
        members: Rows that were members.
        non_members: Rows that were not.
        notes: What a reader of the numbers must know.
        roc: The curve.
    """

    name: str
    released: bool
    auroc: Proportion
    tprs: dict[float, Proportion]
    members: int
    non_members: int
    notes: tuple[str, ...]
    roc: Roc

    @property
    def beyond_chance(self) -> bool:
        """Whether the whole interval of the area is above guessing."""
        return self.auroc.low > 0.5

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "name": self.name,
            "released": self.released,
            "auroc": _interval(self.auroc),
            "tpr_at_fpr": {f"{rate:g}": _interval(tpr) for rate, tpr in self.tprs.items()},
            "members": self.members,
            "non_members": self.non_members,
            "notes": list(self.notes),
            "roc": self.roc.as_dict(),
        }


def attack_result(
    name: str, scores: FloatArray, is_member: BoolArray, draws: Draws, *, released: bool, replicates: int = REPLICATES
) -> AttackResult:
    """Measures an attack's scores, with conservative 95% intervals from resampled seeds and resampled candidates.

    Args:
        name: Of the attack.
        scores: Shape (seeds, candidates).
        is_member: The truth, of the same shape.
        draws: A seeded generator for the resamples.
        released: Whether the scores come from released answers alone. If not, the result says so.
        replicates: Resamples.

    Raises:
        ParameterError: As for ``bootstrap_interval``: among others, there is only one candidate.
    """
    groups = np.meshgrid(*(np.arange(size) for size in np.shape(scores)), indexing="ij")
    return measured_attack(
        name, scores, is_member, (groups[0], groups[1]), draws, released=released, replicates=replicates
    )


def measured_attack(
    name: str,
    scores: FloatArray,
    is_member: BoolArray,
    groups: tuple[IntArray, ...],
    draws: Draws,
    *,
    released: bool,
    replicates: int = REPLICATES,
) -> AttackResult:
    """Measures the scores of an attack that did not score every candidate in every run.

    Args:
        name: Of the attack.
        scores: Any shape.
        is_member: The truth, of the same shape.
        groups: Crossed groupings of the scores, of the same shape each, such as the run and the candidate.
        draws: A seeded generator for the resamples.
        released: As for ``attack_result``.
        replicates: Resamples.

    Raises:
        ParameterError: As for ``bootstrap_interval``.
    """
    members = int(np.sum(is_member))
    non_members = int(np.size(is_member)) - members
    low = {
        rate: bootstrap_interval(
            scores, is_member, groups, draws, statistic=partial(tpr_at, fpr=rate), replicates=replicates
        )
        for rate in LOW_RATES
    }
    notes = [] if released else [NOT_RELEASED]
    notes += [note for rate in LOW_RATES if (note := resolution_note(non_members, rate))]
    area = bootstrap_interval(scores, is_member, groups, draws, replicates=replicates)
    return AttackResult(name, released, area, low, members, non_members, tuple(notes), roc_of(scores, is_member))


def _other_seeds(seed: int, seeds: int) -> BoolArray:
    """Which seeds a fit for this one may use."""
    return np.asarray(np.arange(seeds) != seed)


def _fit(values: FloatArray, side: BoolArray, least: int, name: str) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each candidate on one side; one shared variance where ``least`` is 1."""
    count = _counted(side, least, name)
    mean = np.where(side, values, 0).sum(axis=0) / count
    squares = np.where(side, (values - mean) ** 2, 0).sum(axis=0)
    if least == 1:
        squares, freedom = np.full_like(mean, squares.sum()), np.full_like(mean, max(1, (count - 1).sum()))
    else:
        freedom = count - 1.0
    return mean, np.maximum(squares / freedom, _LEAST_VARIANCE)


def _counted(side: BoolArray, least: int, name: str) -> IntArray:
    count = np.asarray(side.sum(axis=0))
    if count.min() < least:
        raise ParameterError(
            "is_member", f"{name} {count.min()} times", f"{least} times or more without the scored seed"
        )
    return count


def _law(name: str, law: Any) -> FloatArray:
    p = np.asarray(law, dtype=np.float64)
    if not p.size or np.isnan(p).any() or p.min() < 0:
        raise ParameterError(name, p.shape, "probabilities: one or more, none negative, none NaN")
    if (off := float(np.abs(p.sum(axis=-1) - 1).max())) > 1e-9:
        raise ParameterError(name, f"{off:.2g} away from a sum of 1", "within 1e-9 of it")
    return p


def _statistic(observations: Observations) -> FloatArray:
    if observations.statistic is None:
        raise ParameterError("statistic", None, "observed: this attack reads the confidence")
    return np.asarray(observations.statistic, dtype=np.float64)


def _labels(observations: Observations) -> IntArray:
    if observations.labels is None:
        raise ParameterError("labels", None, "observed: this attack reads the released labels")
    return observations.labels


def _interval(share: Proportion) -> dict[str, float]:
    return {"value": share.value, "low": share.low, "high": share.high}
