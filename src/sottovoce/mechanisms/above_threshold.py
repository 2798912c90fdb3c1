"""Above-threshold (the sparse vector technique): say for one query after another whether it is large, until one is.

Guarantee   epsilon-DP for a whole run: any number of "below" and at most one "above". Not bounded range.
Assumes     Every query is one whole number that one change of the data moves by at most the run's sensitivity; queries
            may be chosen by looking at earlier answers. The threshold is public.
Sources     Dwork et al. (2009); Lyu, Su and Li (2017) for the variants that are not private; Amin et al. (2024) for its
            use in decoding; specification 5.9, T7. Proof beside the code: docs/proofs/above_threshold.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import Final, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, register
from sottovoce.mechanisms.laplace import at_least
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.parameters import COUNT, Checked, Number
from sottovoce.privacy.aggregates import Counts
from sottovoce.privacy.events import PureDP
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import Epsilon
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import Opaque

_THRESHOLD: Final = Number(-math.inf, whole=True, strict=True, words="a whole number, in the queries' unit")


@final
@register("above_threshold", epsilon=0.7)
@dataclass(frozen=True, slots=True)
class AboveThreshold(Checked, Mechanism):
    """Starts runs that end with the first query above a noisy threshold.

    The event pays for one run and is charged before ``start``, which draws the run's threshold; a run that never sees a
    large query costs the same, and the next run is charged again.

    Attributes:
        epsilon: Privacy loss of one run, in nats.

    Raises:
        ParameterError: ``epsilon`` is not a number in range.

    Example:
        >>> from sottovoce.randomness import SeededRandomness
        >>> yes_or_no = AboveThreshold(epsilon=1.0)
        >>> run = yes_or_no.start(50, sensitivity=1, adjacency=Adjacency.ADD_REMOVE, randomness=SeededRandomness(1))
        >>> [run.above(Counts([n], l1=1, adjacency=Adjacency.ADD_REMOVE)) for n in (3, 100)]
        [False, True]
        >>> run
        ThresholdRun(over, sensitivity 1, add-remove)
    """

    epsilon: Epsilon

    @property
    def event(self) -> PureDP:
        return PureDP(self.epsilon)

    def scale(self, sensitivity: int) -> Fraction:
        """Scale of the threshold's noise, in the queries' unit; each query's noise has twice this scale."""
        return 2 * int(COUNT.read("sensitivity", sensitivity)) / exact(self.epsilon)

    def start(self, threshold: int, *, sensitivity: int, adjacency: Adjacency, randomness: Randomness) -> ThresholdRun:
        """Draws a threshold and opens a run; to be charged before."""
        return ThresholdRun(threshold, self.scale(sensitivity), sensitivity, adjacency, randomness)

    def law(self, queries: Sequence[int], threshold: int, sensitivity: int) -> list[float]:
        """Probability that the run ends at each query, and last that it does not end. For tests and audits only.

        Summed over threshold noise within 50 scales; what is left out has probability below exp(-50).
        """
        scale = self.scale(sensitivity)
        reach = int(50 * scale) + 1
        noise = np.arange(-reach, reach + 1)
        running = np.exp(-np.abs(noise) / float(scale)) * np.tanh(float(1 / scale) / 2)
        ends = []
        for query in queries:
            gap = threshold + noise - query
            ends.append(float((running * at_least(gap, 2 * scale)).sum()))
            running = running * at_least(1 - gap, 2 * scale)
        return [*ends, float(running.sum())]


@final
class ThresholdRun(Opaque):
    """One run of above-threshold. It holds a private noisy threshold; it cannot be printed, pickled or copied."""

    __slots__ = ("_lock", "_noisy_threshold", "_randomness", "_scale", "adjacency", "over", "sensitivity")

    def __init__(
        self, threshold: int, scale: Fraction, sensitivity: int, adjacency: Adjacency, randomness: Randomness
    ) -> None:
        self._noisy_threshold = _THRESHOLD.read("threshold", threshold) + sample_discrete_laplace(scale, randomness)
        self._scale, self._randomness, self._lock = 2 * scale, randomness, Lock()
        self.sensitivity, self.adjacency, self.over = sensitivity, adjacency, False

    def above(self, query: Counts) -> bool:
        """Whether the noisy query reaches the noisy threshold; the first yes ends the run.

        Args:
            query: One private count, with the bound on its change.

        Raises:
            ParameterError: The run is over, or the query's bound or adjacency is not the run's.
        """
        if query.values.size != 1:
            raise ParameterError("query", f"{query.values.size} counts", "one count")
        if query.l1 > self.sensitivity:
            raise ParameterError("query's sensitivity", query.l1, f"at most the run's, {self.sensitivity}")
        if query.adjacency is not self.adjacency:
            raise ParameterError("query's adjacency", query.adjacency.value, f"the run's, {self.adjacency.value}")
        with self._lock:
            if self.over:
                raise ParameterError("run", "over", "a new one, charged when it starts: this one has said yes")
            noise = sample_discrete_laplace(self._scale, self._randomness)
            self.over = int(query.values[0]) + noise >= self._noisy_threshold
            return self.over

    def _public_face(self) -> str:
        return f"{'over' if self.over else 'running'}, sensitivity {self.sensitivity}, {self.adjacency.value}"
