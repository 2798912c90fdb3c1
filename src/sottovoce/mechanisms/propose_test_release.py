"""Propose-test-release for a top-k set: release the k best candidates, as a set, if no one change could alter it.

Guarantee   For every pair of neighbours either (0, failure_delta)-DP or 1/(2 sigma**2)-zCDP, so that one release has
            the maximum of the two deltas. The order within the set is not released: it is not protected.
Assumes     The candidates are public; ``scores.sensitivity`` bounds range(S - S').
Sources     Zhu and Wang (2022) and Wu et al. (2024) for the mechanism; specification 5.5.3 for max in place of sum,
            the rescaling under swaps and integer noise. Proof beside the code: docs/proofs/sets_and_histograms.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt
from typing import Annotated, Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.mechanisms.samplers.integer_weights import floor_exp
from sottovoce.parameters import COUNT, Checked, Number
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import WithFailure, ZCDpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.randomness import Randomness

LEAST_SIGMA: Final = 0.05
"""Least deviation of the noise, over the sensitivity."""
_BITS: Final = 256
"""Fractional bits of the sums that decide the margin."""
_DEEPEST: Final = Fraction(100)
_WIDEST: Final = 10**4
"""Largest deviation of the noise, in counts, for which the margin is summed."""


@final
@register("propose_test_release", sigma=2.0, failure_delta=1e-6, k=2)
@dataclass(frozen=True, slots=True)
class ProposeTestRelease(Checked, Mechanism):
    """Releases the set of the k largest scores if a noisy gap between the k-th and the next one is large enough.

    Keyword-space aggregation (``methods.answering.ksa``) needs it (specification 5.5.3).

    Attributes:
        sigma: Deviation of the noise on the gap, over the sensitivity.
        failure_delta: Largest probability of releasing a set that one change could alter.
        k: Size of the set. Public.

    Raises:
        ParameterError: ``sigma`` is not from 0.05 to 1000, ``failure_delta`` not from 1e-15 to 0.1, or ``k`` below 1.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> from sottovoce.randomness import SeededRandomness
        >>> counts = Scores([90, 2, 80, 0], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
        >>> ProposeTestRelease(sigma=2.0, failure_delta=1e-6, k=2).release(counts, SeededRandomness(1))
        (0, 2)
        >>> print(ProposeTestRelease(sigma=2.0, failure_delta=1e-6, k=1).release(counts, SeededRandomness(1)))
        None
    """

    sigma: Annotated[float, Number(LEAST_SIGMA, 1_000, strict=True)]
    failure_delta: Annotated[float, Number(1e-15, 0.1)]
    k: Annotated[int, COUNT]

    @property
    def event(self) -> WithFailure:
        return WithFailure(ZCDpEvent(0.5 / self.sigma**2), self.failure_delta, exclusive=True)

    def noise_variance(self, sensitivity: int) -> Fraction:
        """Squared scale of the noise on the gap, from the rho that is charged."""
        variance = sensitivity**2 / (2 * exact(self.event.event.rho))
        if variance > _WIDEST**2:
            raise ParameterError(
                "sensitivity", sensitivity, f"at most {_WIDEST:,} / sigma: give counts, not grid steps"
            )
        return variance

    def threshold(self, sensitivity: int) -> int:
        """The noisy gap must be larger than this for a release."""
        return sensitivity + least_margin(self.noise_variance(sensitivity), exact(self.failure_delta))

    def release(self, scores: Scores, randomness: Randomness) -> tuple[int, ...] | None:
        """Draws the set, in the order of the candidates' indices, or ``None`` for a fail, which costs the same."""
        threshold = self.threshold(scores.sensitivity)
        best, gap = self._best_and_gap(scores)
        noisy_gap = gap + sample_discrete_gaussian(self.noise_variance(scores.sensitivity), randomness)
        return best if noisy_gap > threshold else None

    def law(self, scores: Scores) -> dict[tuple[int, ...] | None, float]:
        """Probability of the set and of a fail, by summation over 40 deviations. For tests and audits only."""
        best, gap = self._best_and_gap(scores)
        variance = float(self.noise_variance(scores.sensitivity))
        grid = np.arange(-int(40 * np.sqrt(variance)) - 2, int(40 * np.sqrt(variance)) + 3)
        mass = np.exp(-(grid.astype(np.float64) ** 2) / (2 * variance))
        passes = grid > self.threshold(scores.sensitivity) - gap
        return {best: float(mass[passes].sum() / mass.sum()), None: float(mass[~passes].sum() / mass.sum())}

    def _best_and_gap(self, scores: Scores) -> tuple[tuple[int, ...], int]:
        """The k best, equal ones by index, and their lead, raised to the sensitivity where it is less."""
        values = scores.values.tolist()
        if self.k >= len(values):
            raise ParameterError("k", self.k, f"below the number of candidates, {len(values)}")
        order = sorted(range(len(values)), key=lambda i: (-values[i], i))
        lead = values[order[self.k - 1]] - values[order[self.k]]
        return tuple(sorted(order[: self.k])), max(scores.sensitivity, lead)


@lru_cache(maxsize=256)
def least_margin(variance: Fraction, failure: Fraction) -> int:
    """The least m >= 0 for which discrete Gaussian noise is certainly above m with probability ``failure`` or less.

    Fixed-point sums of exp(-x**2 / (2 variance)), the tail rounded up and the total rounded down.

    Example:
        >>> least_margin(Fraction(16), Fraction(1, 10**6))
        19
    """
    reach = isqrt(ceil(200 * variance)) + 1
    tail, rest = _weights(variance, reach, up=True)
    total, _ = _weights(variance, reach, up=False)
    allowed = int(failure * (total[0] + 2 * sum(total[1:])))
    for x in range(reach, 0, -1):
        rest += tail[x]
        if rest > allowed:
            return x
    return 0


def _weights(variance: Fraction, reach: int, *, up: bool) -> tuple[list[int], int]:
    """Weights of 0, ..., reach and a bound on the sum of all further ones, each rounded one way.

    The weight of x + 1 is that of x times q**(2x + 1), q = exp(-1 / (2 variance)).
    """
    q = _one_step(1 / (2 * variance), up=up)
    ratio, square = q, _product(q, q, up=up)
    weights = [1 << _BITS]
    for _ in range(reach):
        weights.append(_product(weights[-1], ratio, up=up))
        ratio = _product(ratio, square, up=up)
    further = weights[-1] * ratio // ((1 << _BITS) - ratio) + 1
    return weights, further


def _one_step(x: Fraction, *, up: bool) -> int:
    """exp(-x) in fixed point, rounded one way."""
    if up:
        return floor_exp(min(x, _DEEPEST), _BITS) + 1
    return floor_exp(x, _BITS) if x <= _DEEPEST else 0


def _product(a: int, b: int, *, up: bool) -> int:
    return -(-a * b >> _BITS) if up else a * b >> _BITS
