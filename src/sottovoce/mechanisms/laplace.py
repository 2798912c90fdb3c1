"""The Laplace mechanism on integer counts: discrete Laplace noise on every count.

Guarantee   epsilon-DP per release. It is charged as pure DP: the smaller rho of specification T7 is for the continuous
            law alone, and is not claimed here.
Assumes     ``counts.l1`` bounds the sum of absolute changes.
Sources     Ghosh, Roughgarden and Sundararajan (2009) for the discrete form; Canonne, Kamath and Steinke (2020) for the
            sampler; specification T7, 9.3. Proof beside the code: docs/proofs/sets_and_histograms.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.mechanisms.samplers.integer_weights import floor_exp
from sottovoce.parameters import Checked
from sottovoce.privacy.aggregates import Counts
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import Epsilon
from sottovoce.randomness import Randomness

FloatArray = NDArray[np.float64]
_BITS: Final = 256
"""Precision of the rigorous bound."""
_DEEPEST: Final = Fraction(100)
"""The largest exponent it looks at."""


@final
@register("laplace", epsilon=0.7)
@dataclass(frozen=True, slots=True)
class Laplace(Checked, Mechanism):
    """Releases counts with independent noise z of probability proportional to exp(-epsilon * abs(z) / l1).

    Noisy counts by pure DP, which no method releases yet, need it.

    Attributes:
        epsilon: Privacy loss of one release, in nats.

    Raises:
        ParameterError: ``epsilon`` is not a number in range.

    Example:
        >>> from sottovoce.privacy.unit import Adjacency
        >>> from sottovoce.randomness import SeededRandomness
        >>> counts = Counts([120, 7], l1=2, adjacency=Adjacency.REPLACE_ONE)
        >>> Laplace(epsilon=0.5).scale(counts)
        Fraction(4, 1)
        >>> len(Laplace(epsilon=0.5).release(counts, SeededRandomness(1)))
        2
    """

    epsilon: Epsilon

    @property
    def event(self) -> PureDP:
        return PureDP(self.epsilon)

    def scale(self, counts: Counts) -> Fraction:
        """The noise's scale."""
        return counts.l1 / exact(self.epsilon)

    def release(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        """Draws the noisy counts; they may be negative."""
        scale = self.scale(counts)
        return tuple(value + sample_discrete_laplace(scale, randomness) for value in counts.values.tolist())

    def noise_law(self, counts: Counts, reach: int) -> FloatArray:
        """Probability of each noise from -reach to reach on one count. For tests and audits only."""
        rate = float(1 / self.scale(counts))
        return np.asarray(np.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1))))


def at_least(bound: int | NDArray[np.int64], scale: Fraction) -> FloatArray:
    """Probability that discrete Laplace noise is ``bound`` or more, without cancellation. For tests and audits only.

    Example:
        >>> at_least(np.array([0, 1]), Fraction(1)).round(4).tolist()
        [0.7311, 0.2689]
    """
    rate = float(1 / scale)
    upper = np.exp(-rate * np.maximum(bound, 1)) / (1 + np.exp(-rate))
    lower = np.exp(-rate * np.maximum(1 - np.asarray(bound), 1)) / (1 + np.exp(-rate))
    return np.asarray(np.where(np.asarray(bound) >= 1, upper, 1 - lower))


def at_least_bound(bound: int, scale: Fraction) -> Fraction:
    """A fraction that the probability of noise ``bound`` or more, 1 or more, certainly does not exceed.

    Example:
        >>> float(at_least_bound(1, Fraction(1)))
        0.2689414213699951
    """
    top = floor_exp(min(bound / scale, _DEEPEST), _BITS) + 1
    bottom = floor_exp(1 / scale, _BITS) if 1 / scale <= _DEEPEST else 0
    return Fraction(top, (1 << _BITS) + bottom)
