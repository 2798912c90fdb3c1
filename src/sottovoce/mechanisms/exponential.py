"""The exponential mechanism: choose one candidate, favouring high scores.

Guarantee   epsilon-bounded-range per selection, hence epsilon-DP; composes as bounded range.
Assumes     The candidate list and the prior are public; only the scores are private; ``scores.sensitivity`` bounds
            range(S - S').
Sources     McSherry and Talwar (2007) for the mechanism; Durfee and Rogers (2019, arXiv:1905.04273) for bounded range;
            specification T1, 9.1, 9.2 for the integer form. Proof beside the code: docs/proofs/exponential.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import SelectionMechanism, register
from sottovoce.mechanisms.samplers.integer_weights import WeightTable, rate_per_step, weight_table
from sottovoce.parameters import Checked
from sottovoce.privacy.aggregates import MOST, IntArray, Scores
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.parameters import Epsilon
from sottovoce.randomness import Randomness

_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_PART: Final = 1 << 13
"""Candidates summed at once: their halves of 32 bits stay below 2**53, where sums of floats are exact, and in cache."""


@final
@register("exponential", epsilon=0.7)
@dataclass(frozen=True, slots=True)
class Exponential(Checked, SelectionMechanism):
    """Selects candidate i with weight b_i * exp(epsilon * u_i / sensitivity), exactly, on integers.

    The public prior b is 1 unless a log-prior is given. It is free: it multiplies a candidate's weight alike in every
    data set. It is rounded to whole grid steps, epsilon / sensitivity nats each, so scores on a fine grid suit it.

    Attributes:
        epsilon: Privacy loss of one selection, in nats.

    Raises:
        ParameterError: ``epsilon`` is not a number in range.

    Example:
        Ten experts voted; replacing one record moves one vote, which changes two counts.

        >>> from sottovoce.privacy.unit import Adjacency
        >>> votes = Scores([7, 2, 1], sensitivity=2, adjacency=Adjacency.REPLACE_ONE)
        >>> [round(float(p), 3) for p in Exponential(epsilon=1.0).law(votes)]
        [0.883, 0.073, 0.044]
    """

    epsilon: Epsilon

    @property
    def event(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def law(self, scores: Scores, log_prior: ArrayLike | None = None) -> Sequence[Fraction]:
        """Probability of each candidate, exactly that of ``select``. For tests and audits only."""
        rate = rate_per_step(exact(self.epsilon), scores.sensitivity)
        values, kept = _in_play(scores, rate, log_prior)
        weights = weight_table(rate).weights(values.max() - values)
        total, law = sum(weights), [Fraction(0)] * len(scores.values)
        for index, weight in zip(kept, weights, strict=True):
            law[index] = Fraction(weight, total)
        return law

    def select(self, scores: Scores, randomness: Randomness, log_prior: ArrayLike | None = None) -> int:
        """Draws the index of one candidate.

        Args:
            scores: Private utilities.
            randomness: Asked once, for an integer below the sum of all weights.
            log_prior: Public natural log-weights, shape (candidates,), or ``None`` for a flat prior. ``-inf`` takes a
                candidate out.

        Raises:
            ParameterError: The prior has another length, holds NaN or infinity, or takes out every candidate.
        """
        rate = rate_per_step(exact(self.epsilon), scores.sensitivity)
        values, kept = _in_play(scores, rate, log_prior)
        return int(kept[_draw(weight_table(rate), values, randomness)])


def _in_play(scores: Scores, rate: Fraction, log_prior: ArrayLike | None) -> tuple[IntArray, Sequence[int] | IntArray]:
    """Utilities with the prior in them, and the candidates they belong to."""
    if log_prior is None:
        return scores.values, range(len(scores.values))
    steps, kept = _prior_steps(log_prior, len(scores.values), rate)
    return scores.values[kept] + steps, kept


def _prior_steps(log_prior: ArrayLike, candidates: int, rate: Fraction) -> tuple[IntArray, IntArray]:
    """The prior in whole grid steps below its best, where it is above zero.

    It is public: floats may round it, and what is too far below the best is raised to where a step still has a number.
    A refusal would tell of the tokens that a prior followed from.
    """
    prior = np.asarray(log_prior, dtype=np.float64)
    if prior.shape != (candidates,):
        raise ParameterError("log_prior", f"an array of shape {prior.shape}", f"one number for each of {candidates}")
    if np.isnan(prior).any() or (prior == np.inf).any():
        raise ParameterError("log_prior", "an array with NaN or infinity", "finite numbers, or -inf to take one out")
    kept = np.flatnonzero(prior > -np.inf)
    if not len(kept):
        raise ParameterError("log_prior", "-inf for every candidate", "above -inf for at least one")
    with np.errstate(over="ignore"):
        steps = np.rint((prior[kept] - prior[kept].max()) / float(rate))
    return np.maximum(steps, -MOST).astype(np.int64), kept


def _draw(table: WeightTable, values: IntArray, randomness: Randomness) -> int:
    """Draws a position with its weight: a block by its total, a part of the list by its share in it, then a member."""
    best = int(values.max())
    high, low = _sums(table, values, best)
    totals = _join(high.sum(axis=0), low.sum(axis=0))
    ends = list(accumulate(weight * total for weight, total in zip(table.blocks, totals, strict=False)))
    point = randomness.below(ends[-1])
    block, rest = _find(ends, point)
    # The rest is uniform below weight * total, so its quotient is uniform below total.
    part, rest = _find(list(accumulate(_join(high[:, block], low[:, block]))), rest // table.blocks[block])
    blocks, fine = table.split(best - values[part * _PART : (part + 1) * _PART])
    members = np.flatnonzero(blocks == block)
    member, _ = _find(list(accumulate(fine[members].tolist())), rest)
    return part * _PART + int(members[member])


def _sums(table: WeightTable, values: IntArray, best: int) -> tuple[IntArray, IntArray]:
    """Exact sums of the fine parts' upper and lower halves, each of shape (parts of the list, blocks in use)."""
    starts, blocks = range(0, len(values), _PART), table.block_of(best - int(values.min())) + 1
    high, low = (np.empty((len(starts), blocks), dtype=np.int64) for _ in range(2))
    for part, start in enumerate(starts):
        block, fine = table.split(best - values[start : start + _PART])
        high[part] = np.bincount(block, fine >> _HALF, blocks)
        low[part] = np.bincount(block, fine & _LOW_HALF, blocks)
    return high, low


def _find(ends: Sequence[int], point: int) -> tuple[int, int]:
    """The interval that ``point`` falls in, and how far behind its start."""
    chosen = bisect_right(ends, point)
    return chosen, point - (ends[chosen - 1] if chosen else 0)


def _join(high: IntArray, low: IntArray) -> list[int]:
    return [(upper << 32) + lower for upper, lower in zip(high.tolist(), low.tolist(), strict=True)]
