"""Report noisy max: add noise to every score and take the largest.

Guarantee   With discrete Gaussian noise rho-zCDP per selection, by the noise on the whole vector; the argmax is
            post-processing. With discrete Laplace noise epsilon-DP per selection. It is not bounded range; it is
            accounted as pure DP. The smaller zCDP price of the *continuous* Laplace law (epsilon + exp(-epsilon) - 1)
            would be wrong here: see the proof.
Assumes     Gaussian: ``scores.squared_l2`` bounds the squared L2 norm of S - S'. For one moved vote that is 2, not 1.
            Laplace: ``scores.sensitivity`` bounds range(S - S'). The candidates are public, and visited one by one.
Sources     Wu et al. (2024) for the use on label votes, with the sensitivity corrected (specification 5.2, 11); Dwork
            and Roth (2014) for the Laplace form: when a vote can move there is no saving by "every count moves by 1";
            Canonne, Kamath and Steinke (2020) for the noise. Proof: docs/proofs/noisy_max.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import SelectionMechanism, register
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.parameters import Checked
from sottovoce.privacy.accounting.renyi import rho_that_fits
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import PureDP, ZCDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import EPSILON, NOISE_DELTA, Epsilon, Rho
from sottovoce.randomness import Randomness

FloatArray = NDArray[np.float64]
_WIDE: Final = 1_000
"""Grid steps of Gaussian noise from which sums over the grid would be long."""
_REACH: Final = 45
"""Scales of Laplace noise that the law sums over; exp(-45) is left out."""
_PLACES: Final = 16
"""At which a long sum over noisy scores is worked out."""


@final
@register("gaussian", rho=0.05)
@dataclass(frozen=True, slots=True)
class GaussianNoisyMax(Checked, SelectionMechanism):
    """Selects the largest score after discrete Gaussian noise; equal ones are chosen among uniformly.

    Attributes:
        rho: zCDP parameter of one selection.

    Raises:
        ParameterError: ``rho`` is not above 0, or the scores carry no L2 bound.
    """

    rho: Rho

    @classmethod
    def for_budget(cls, epsilon: float, delta: float) -> GaussianNoisyMax:
        """The least noise whose single release is (epsilon, delta)-DP by its zCDP bound, and fits in a ledger of both.

        Raises:
            ParameterError: ``delta`` is 0: Gaussian noise has no pure guarantee.
        """
        return cls(rho_that_fits(EPSILON.read("epsilon", epsilon), NOISE_DELTA.read("delta", delta)))

    @property
    def event(self) -> ZCDpEvent:
        return ZCDpEvent(self.rho)

    def sigma2(self, scores: Scores) -> Fraction:
        """The noise's squared scale, in squared grid steps."""
        if scores.squared_l2 is None:
            raise ParameterError("squared_l2", None, "a bound; Gaussian noise needs scores with an L2 sensitivity")
        return scores.squared_l2 / (2 * exact(self.rho))

    def law(self, scores: Scores) -> Sequence[float]:
        return [float(p) for p in np.exp(self.log_law(scores))]

    def log_law(self, scores: Scores) -> FloatArray:
        """By summation over 40 standard deviations, in logs: a count far below the largest has a finite one, too.

        Beyond 1,000 grid steps of noise by quadrature, as if it were continuous: equal noisy scores are then too rare
        to matter, and about 1e-7 is lost.

        Example:
            >>> from sottovoce.privacy.unit import Adjacency
            >>> votes = Scores([60, 0], sensitivity=2, adjacency=Adjacency.REPLACE_ONE, squared_l2=2)
            >>> GaussianNoisyMax(rho=1.0).log_law(votes).round().tolist()
            [0.0, -902.0]
        """
        sigma2 = float(self.sigma2(scores))
        if sigma2 > _WIDE**2:
            return log_argmax_law(scores.values / math.sqrt(sigma2))
        reach = int(40 * np.sqrt(sigma2)) + 2
        values = scores.values - scores.values.max()
        grid = np.arange(int(values.min()) - reach, reach + 1)
        mass = -((grid[None, :] - values[:, None]) ** 2) / (2 * sigma2)
        mass -= _log_sum(mass)[:, None]
        under = np.full(mass.shape, -np.inf)
        under[:, 1:] = np.logaddexp.accumulate(mass, axis=1)[:, :-1]
        top = np.maximum(mass, under)
        # A tie with t others is won with probability 1 / (t + 1) = the integral of z**t: exact by Gauss-Legendre.
        below, at = np.exp(under - top), np.exp(mass - top)
        of_nodes = [
            math.log(weight) + _log_sum(mass + _of_others(top + np.log(below + node * at), np.add))
            for node, weight in _nodes(len(values) // 2 + 1)
        ]
        return _log_sum(np.stack(of_nodes, axis=1))

    def select(self, scores: Scores, randomness: Randomness) -> int:
        sigma2 = self.sigma2(scores)
        noisy = [int(value) + sample_discrete_gaussian(sigma2, randomness) for value in scores.values]
        largest = max(noisy)
        best = [index for index, value in enumerate(noisy) if value == largest]
        return best[randomness.below(len(best))]


def argmax_law(means: FloatArray) -> list[float]:
    """Probability that each of independent normal variables of variance 1 is the largest, by quadrature.

    Example:
        >>> [round(p, 4) for p in argmax_law(np.array([0.0, 1.0]))]
        [0.2398, 0.7602]
    """
    return [float(p) for p in np.exp(log_argmax_law(means))]


def log_argmax_law(means: FloatArray) -> FloatArray:
    """Natural logs of ``argmax_law``, shape (variables,); finite however far below the largest a mean is."""
    from scipy.special import log_ndtr

    at = np.arange(means.min() - 9.0, means.max() + 9.0, 1 / 64)
    apart = at - means[:, None]
    law = _log_sum(_of_others(log_ndtr(apart), np.add) - apart**2 / 2)
    return law - _log_sum(law)


@final
@register("laplace_noisy_max", epsilon=0.7)
@dataclass(frozen=True, slots=True)
class LaplaceNoisyMax(Checked, SelectionMechanism):
    """Selects the largest score after discrete Laplace noise; equal ones are chosen among uniformly.

    Kept as a baseline: at one price permute-and-flip is never worse.

    Attributes:
        epsilon: Privacy loss of one selection, in nats.

    Raises:
        ParameterError: ``epsilon`` is not a number in range.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> votes = Scores([5, 3, 2], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
        >>> [round(p, 3) for p in LaplaceNoisyMax(epsilon=1.0).law(votes)]
        [0.642, 0.228, 0.13]
    """

    epsilon: Epsilon

    @property
    def event(self) -> PureDP:
        return PureDP(self.epsilon)

    def scale(self, scores: Scores) -> Fraction:
        """The noise's scale, in grid steps."""
        return scores.sensitivity / exact(self.epsilon)

    def law(self, scores: Scores) -> Sequence[float]:
        """By summation over the winner's noisy score; each entry is right to about 1e-12 of itself.

        Many terms between two scores are added up by Gauss's rule for sums over whole numbers.
        """
        scale = float(self.scale(scores))
        values = scores.values - scores.values.max()
        places, counts = _noisy_scores(np.unique(values), math.ceil(_REACH * scale), math.ceil(scale))
        distance = places[None, :] - values[:, None]
        tail = np.exp(-np.abs(distance) / scale) / (1 + math.exp(-1 / scale))
        mass = tail * -math.expm1(-1 / scale)
        under = np.where(distance > 0, 1 - tail, tail * math.exp(-1 / scale))
        # A tie with t others is won with probability 1 / (t + 1) = the integral of z**t: exact by Gauss-Legendre.
        law = sum(
            weight * (counts * mass * _of_others(under + node * mass, np.multiply)).sum(axis=1)
            for node, weight in _nodes(len(values) // 2 + 1)
        )
        return [float(p) for p in np.asarray(law)]

    def select(self, scores: Scores, randomness: Randomness) -> int:
        scale = self.scale(scores)
        noisy = [value + sample_discrete_laplace(scale, randomness) for value in scores.values.tolist()]
        largest = max(noisy)
        best = [index for index, value in enumerate(noisy) if value == largest]
        return best[randomness.below(len(best))]


def _noisy_scores(values: NDArray[np.int64], reach: int, scale: int) -> tuple[FloatArray, FloatArray]:
    """Where a sum over noisy scores is worked out, and how many of them each place stands for.

    Between two neighbouring values a term is a polynomial in exponentials that change by a factor e within ``scale``.
    """
    places, counts = [], []
    ends = [int(values[0]) - reach, *values.tolist(), int(values[-1]) + reach + 1]
    for low, high in pairwise(ends):
        for start in range(low, high, max(scale, _PLACES)):
            length = min(max(scale, _PLACES), high - start)
            nodes, weights = _nodes_of_sum(length)
            places.append(start + nodes)
            counts.append(weights)
    return np.concatenate(places), np.concatenate(counts)


@lru_cache(256)
def _nodes_of_sum(length: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of Gauss's rule for sums over 0 to ``length - 1``: exact for polynomials of degree 31.

    By the recurrence of discrete Chebyshev polynomials. Short sums are taken as they are.
    """
    if length <= _PLACES:
        return np.arange(length, dtype=np.float64), np.ones(length)
    order = np.arange(1, _PLACES)
    beside = np.sqrt(order**2 * (1 - (order / length) ** 2) / (4 * (4 * order**2 - 1))) * length
    nodes, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return nodes + (length - 1) / 2, vectors[0] ** 2 * length


@cache
def _nodes(count: int) -> list[tuple[float, float]]:
    """Nodes and weights of Gauss-Legendre on [0, 1]: exact for polynomials below degree ``2 * count``."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return list(zip(((places + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


def _log_sum(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials over the last axis, whose largest entry is finite."""
    most = logs.max(axis=-1, keepdims=True)
    return np.asarray(most[..., 0] + np.log(np.exp(logs - most).sum(axis=-1)))


def _of_others(rows: FloatArray, combine: np.ufunc) -> FloatArray:
    """In each column, all rows but one's own, multiplied or added up; nothing is taken out again: nothing cancels."""
    neutral = np.full(rows.shape[1], combine.identity)
    before = list(accumulate(rows[:-1], combine, initial=neutral))
    behind = list(accumulate(rows[:0:-1], combine, initial=neutral))[::-1]
    return np.asarray(combine(np.stack(before), np.stack(behind)))
