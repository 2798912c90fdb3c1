"""Mechanisms that are known to be wrong, each beside the same release as it should be: what an audit is tried on.

Every one claims an event, and its flaw is one that was published, shipped or planted. Where there is a mechanism of the
package behind it, its own law is drawn from; a flaw is a wrong argument to it.

Guarantee   The sound twin keeps the event under the adjacency; the flawed one does not (tests draw from both).
Sources     specification 5.1 to 5.7, 11.14; Xia et al. (2025, arXiv:2511.13502) for two flaws of published code: one
            partition, and the classical Gaussian at a large epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, final

import numpy as np

from sottovoce.audits.bounds import p_value_of_rates
from sottovoce.audits.roc import BoolArray, Draws, FloatArray
from sottovoce.audits.split import Split, Trials, joined, threshold_against
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.mechanisms.top_k import JointTopK
from sottovoce.privacy.accounting.gaussian_dp import mu_of_budget
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import BoundedRange, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from sottovoce.privacy.unit import DROP, Adjacency

Sampler = Callable[[BoolArray, Draws], FloatArray]
"""Scores of runs, higher for "present": shape of the truths, a generator, and what came out."""

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
RUNS: Final = 4000
MANY: Final = 12_000


@final
@dataclass(frozen=True, eq=False)
class KnownMechanism:
    """A release with a known flaw, and its sound twin.

    Attributes:
        name: Of the flaw.
        flaw: In one sentence.
        event: What both claim.
        adjacency: Under which relation.
        flawed: Draws scores of the flawed release.
        sound: Draws scores of the sound one.
        runs: Of one audit that is all but sure to find the flaw, half of which choose the threshold.
    """

    name: str
    flaw: str
    event: DpEvent
    adjacency: Adjacency
    flawed: Sampler = field(repr=False)
    sound: Sampler = field(repr=False)
    runs: int = RUNS

    @property
    def claim(self) -> TradeOff:
        """The curve of what is claimed."""
        return TradeOff.of_event(self.event, self.adjacency)

    def trials(self, draws: Draws, runs: int | None = None, *, flawed: bool) -> Trials:
        """Independent runs with a fair coin each."""
        runs = self.runs if runs is None else runs
        present = np.asarray(draws.random(runs) < 0.5)
        scores = (self.flawed if flawed else self.sound)(present, draws)
        names = [f"run {run}" for run in range(runs)]
        return joined(dict(zip(names, scores.tolist(), strict=True)), dict(zip(names, present.tolist(), strict=True)))


def p_value(
    mechanism: KnownMechanism, draws: Draws, runs: int | None = None, *, flawed: bool, alpha: float = 0.01
) -> float:
    """One whole audit: runs, a split, a threshold chosen on one half, and the p-value of the claim on the other.

    Args:
        mechanism: What is audited.
        draws: A seeded generator, for coins, noise and the split.
        runs: Of which half certify; as many as the mechanism names by default.
        flawed: Whether the flawed release is run.
        alpha: The level that the threshold is chosen for.

    Example:
        >>> p_value(known_mechanisms()["no-noise"], np.random.default_rng(1), 400, flawed=True) < 1e-6
        True
    """
    claim = mechanism.claim
    split = Split(mechanism.trials(draws, runs, flawed=flawed), draws)
    return p_value_of_rates(split.choose(lambda trials: threshold_against(trials, claim, alpha)).rates(), claim)


@cache
def known_mechanisms() -> Mapping[str, KnownMechanism]:
    """Every one, by name."""
    made = (
        _no_noise(),
        _half_noise(),
        _seed_reuse(),
        _unclipped(),
        _true_counts(),
        _factor_one(),
        _universe(),
        _coreset(),
        _order(),
        _one_partition(),
        _classical_gaussian(),
        _one_charge(),
    )
    return {mechanism.name: mechanism for mechanism in made}


def _no_noise() -> KnownMechanism:
    votes = _votes((6, 6), (6, 7))
    return KnownMechanism(
        "no-noise",
        "The majority label is released as it is.",
        BoundedRange(1.0),
        AR,
        _labels([float(np.argmax(scores.values) == 1) for scores in votes]),
        _labels(_exponential(1.0, votes)),
    )


def _half_noise() -> KnownMechanism:
    votes = _votes((6, 6), (6, 7))
    return KnownMechanism(
        "half-noise",
        "The weight of a vote is twice what the price pays for.",
        BoundedRange(1.0),
        AR,
        _labels(_exponential(2.0, votes)),
        _labels(_exponential(1.0, votes)),
    )


def _seed_reuse() -> KnownMechanism:
    """Two counts with Gaussian noise; the secret is in the first. The difference of both tells it."""

    def flawed(present: BoolArray, draws: Draws) -> FloatArray:
        noise = 2 * _normal(present.shape, draws)
        return np.asarray((present + noise) - noise)

    def sound(present: BoolArray, draws: Draws) -> FloatArray:
        return np.asarray(present + 2 * _normal(present.shape, draws))

    return KnownMechanism(
        "seed-reuse",
        "Two answers share one draw of noise, so that their difference has none.",
        SelfComposedDpEvent(GaussianDpEvent(2.0), 2),
        AR,
        flawed,
        sound,
    )


def _unclipped() -> KnownMechanism:
    """Product of experts at clip 2.3: the secret's expert finds the first label impossible, by 12 nats."""
    others, own = np.array([[0.0, -6.0]]), np.array([[-12.0, 0.0]])
    clipped = [
        ExpertOutputs(rows, DROP, AR).clipped_sum(2.3, "max")
        for rows in (np.repeat(others, 3, axis=0), np.concatenate([np.repeat(others, 3, axis=0), own]))
    ]
    step = clipped[0].sensitivity / 2.3
    lead = [int(-6 * step), int(-6 * step + 12 * step)]
    raw = [Scores([0, ahead], sensitivity=clipped[0].sensitivity, adjacency=AR) for ahead in lead]
    return KnownMechanism(
        "unclipped",
        "Log-probabilities are summed as they are, and the noise is that of clipped ones.",
        BoundedRange(1.0),
        AR,
        _labels(_exponential(1.0, raw)),
        _labels(_exponential(1.0, clipped)),
    )


def _true_counts() -> KnownMechanism:
    return KnownMechanism(
        "true-counts",
        "A noisy sum is released beside the true number of units behind it.",
        GaussianDpEvent(4.0),
        AR,
        lambda present, draws: present.astype(np.float64),
        lambda present, draws: np.asarray(present + 4 * _normal(present.shape, draws)),
    )


def _factor_one() -> KnownMechanism:
    wrong = [Scores(values, sensitivity=1, adjacency=RO) for values in ([7, 6], [6, 7])]
    right = [Scores(values, sensitivity=2, adjacency=RO) for values in ([7, 6], [6, 7])]
    return KnownMechanism(
        "factor-one-under-replace-one",
        "A replaced record moves two counts, and the noise is that of one.",
        BoundedRange(1.0),
        RO,
        _labels(_exponential(1.0, wrong)),
        _labels(_exponential(1.0, right)),
    )


def _universe() -> KnownMechanism:
    """A list of 2 keywords; the secret's response is the only one that holds the last word."""
    counts, mechanism = [5, 4, 3, 3, 2], JointTopK(1.0, 2)

    def listed(values: Sequence[int]) -> float:
        law = mechanism.law(Scores(list(values), sensitivity=1, adjacency=AR))
        return float(sum(p for chosen, p in law.items() if len(counts) in chosen))

    return KnownMechanism(
        "universe-from-private-words",
        "The keywords to choose from are those of the private responses.",
        BoundedRange(1.0),
        AR,
        _labels([0.0, listed([*counts, 1])]),
        _labels([listed([*counts, 0]), listed([*counts, 1])]),
    )


def _coreset() -> KnownMechanism:
    """One of two representatives is drawn with noise that was paid for; which two there are cost nothing (11.14)."""
    points = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
    far = [1000.0 in _representatives([*points, *more]) for more in ([], [1000.0])]
    even = _exponential(1.0, _votes((3, 3), (3, 3)))
    return KnownMechanism(
        "coreset-without-noise",
        "Representatives are k-means centres of private records, rounded to records, without noise.",
        BoundedRange(1.0),
        AR,
        _labels([chance * there for chance, there in zip(even, far, strict=True)]),
        _labels(_exponential(1.0, _votes((3, 3), (3, 4)))),
    )


def _order() -> KnownMechanism:
    """The two best keywords as a set that no change alters; the secret decides which of them has more votes."""
    mechanism = ProposeTestRelease(2.0, 1e-6, 2)
    worlds = [Scores(values, sensitivity=1, adjacency=AR) for values in ([20, 20, 3, 2], [20, 21, 3, 2])]
    released = [1 - mechanism.law(scores)[None] for scores in worlds]
    second_first = [float(scores.values[1] > scores.values[0]) for scores in worlds]
    return KnownMechanism(
        "order-from-ptr",
        "The set that propose-test-release gives is shown in the order of its true counts.",
        mechanism.event,
        AR,
        _labels([share * first for share, first in zip(released, second_first, strict=True)]),
        _labels(released),
    )


def _one_partition() -> KnownMechanism:
    """A mean of one embedding, of norm 1: the replaced record turns it round. The score is its noisy projection."""
    multiplier = RoundedGaussian.for_budget(1.0, 1e-5).noise_multiplier
    return KnownMechanism(
        "esa-one-partition",
        "One partition is read again with another record, and the noise is that of a vanished embedding.",
        GaussianDpEvent(multiplier),
        RO,
        lambda present, draws: np.asarray(2.0 * present - 1 + multiplier * _normal(present.shape, draws)),
        lambda present, draws: np.asarray(2.0 * present - 1 + 2 * multiplier * _normal(present.shape, draws)),
        MANY,
    )


def _classical_gaussian() -> KnownMechanism:
    epsilon, delta = 20.0, 1e-5
    classical, needed = math.sqrt(2 * math.log(1.25 / delta)) / epsilon, 1 / mu_of_budget(epsilon, delta)
    return KnownMechanism(
        "classical-gaussian",
        "Noise of sqrt(2 ln(1.25 / delta)) / epsilon, which is proved for an epsilon below 1 alone, at epsilon 20.",
        GaussianDpEvent(needed),
        AR,
        lambda present, draws: np.asarray(present + classical * _normal(present.shape, draws)),
        lambda present, draws: np.asarray(present + needed * _normal(present.shape, draws)),
        MANY,
    )


def _one_charge() -> KnownMechanism:
    votes, answers = _votes((6, 6), (6, 7)), 4

    def sampler(epsilon: float) -> Sampler:
        odds = _exponential(epsilon, votes)

        def draw(present: BoolArray, draws: Draws) -> FloatArray:
            right = np.where(present, odds[1], odds[0])[:, None]
            return np.asarray((draws.random((len(present), answers)) < right).sum(axis=1), dtype=np.float64)

        return draw

    return KnownMechanism(
        "one-charge-for-four-answers",
        "Four answers are drawn afresh, and one is charged.",
        BoundedRange(1.0),
        AR,
        sampler(1.0),
        sampler(0.25),
        MANY,
    )


def _votes(*worlds: tuple[int, ...]) -> list[Scores]:
    return [Scores(list(votes), sensitivity=1, adjacency=AR) for votes in worlds]


def _exponential(epsilon: float, worlds: Sequence[Scores]) -> list[float]:
    """The chance of the second label in each world."""
    return [float(Exponential(epsilon).law(scores)[1]) for scores in worlds]


def _labels(chances: Sequence[float]) -> Sampler:
    """Draws whether what speaks for the secret came out, by its chance where it is absent and where it is present."""
    absent, present_chance = chances

    def draw(present: BoolArray, draws: Draws) -> FloatArray:
        return np.asarray(draws.random(len(present)) < np.where(present, present_chance, absent), dtype=np.float64)

    return draw


def _normal(shape: Any, draws: Draws) -> FloatArray:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.maximum(draws.random(shape), 2.0**-54)))


def _representatives(points: Sequence[float]) -> list[float]:
    """Two k-means centres on a line, the best split of the sorted points, each as the record nearest to it."""
    rising = sorted(points)

    def spread(cut: int) -> float:
        return sum(float(np.var(part)) * len(part) for part in (rising[:cut], rising[cut:]))

    cut = min(range(1, len(rising)), key=spread)
    parts = (rising[:cut], rising[cut:])
    return [min(part, key=lambda point: abs(point - float(np.mean(part)))) for part in parts]
