"""What a fit may draw: releases that hardly ever come, and how the noise of real ones is held against its law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np
from scipy.stats import binom, chi2

from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.mechanisms.gaussian import with_noise
from sottovoce.mechanisms.top_k import JointTopK, OneShotTopK
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.testing.claims import FloatArray
from sottovoce.testing.draw_losses import law_of, variance_of
from sottovoce.testing.draw_tape import Draw, Teller
from sottovoce.testing.draws import ALARM
from sottovoce.testing.ladders import is_alone
from sottovoce.testing.report import ContractError


def _told(deviations: Callable[[int], float]) -> Teller:
    """Noise of so many deviations on numbers; of selections the first or the last candidate, of tests yes or no."""

    def told(_: int, draw: Draw) -> Any:
        if isinstance(draw.aggregate, VectorSum):
            scale = deviation_of(draw)
            return with_noise(
                draw.aggregate, (round(scale * deviations(at)) for at in range(draw.aggregate.values.size))
            )
        if isinstance(draw.mechanism, SelectionMechanism):
            possible = np.flatnonzero(law_of(draw) > -math.inf)
            return int(possible[0 if deviations(0) > 0 else -1])
        return NotImplemented if draw.test is None else deviations(0) > 0

    return told


def _zeros(_: int, draw: Draw) -> Any:
    """Noise that takes off all that there is."""
    if isinstance(draw.aggregate, VectorSum):
        return with_noise(draw.aggregate, (-draw.aggregate.values).tolist())
    return NotImplemented


def least_likely(_: int, draw: Draw) -> Any:
    """Of selections the worst candidate, of equals the last; of top lists the worst ones. All else is drawn.

    What is best is then never told: an entry that gives it without noise gives something else.
    """
    if isinstance(draw.mechanism, SelectionMechanism):
        law = law_of(draw)
        return int(np.flatnonzero(law == law[law > -math.inf].min())[-1])
    if isinstance(draw.mechanism, JointTopK | OneShotTopK):
        return tuple(np.argsort(draw.aggregate.values, kind="stable")[: draw.mechanism.k].tolist())
    return NotImplemented


EXTREMES: Final = (
    _told(lambda _: 40.0),
    _told(lambda _: -40.0),
    _told(lambda _: 4.0),
    _told(lambda _: -4.0),
    _told(lambda at: 40.0 * (-1) ** at),
    _told(lambda at: -40.0 * (at % 3 == 0)),
    _zeros,
)
"""Noise beyond any that comes, to one side, to the other, to both; and none of the data left."""


def usual_on(rungs: Sequence[Sequence[Any]], nulls: Collection[Any]) -> Teller | None:
    """What is told on a ladder: nothing beside others, and the least likely candidates where there is nobody else.

    An entry may do wrong behind the best candidate or behind another one: on each ladder one of both comes.
    """
    return least_likely if is_alone(rungs, nulls) else None


def deviation_of(draw: Draw) -> float:
    """The deviation of the noise on each number of a vector, in grid steps.

    Raises:
        ContractError: Its mechanism does not state the variance.
    """
    variance = variance_of(draw)
    if variance is None:
        problem = "a fitter or an answerer draws a vector by it, and it does not say how wide its noise is; state its "
        problem += "variance on each number, in squared grid steps, as noise_variance(vector)"
        raise ContractError("drive", repr(draw.mechanism), problem)
    return math.sqrt(variance)


def noise_of(draw: Draw) -> FloatArray:
    """What was added to a vector, in deviations."""
    added = [step - value for step, value in zip(draw.outcome.steps, draw.aggregate.values.tolist(), strict=True)]
    return np.array(added, dtype=np.float64) / deviation_of(draw)


def not_normal(noise: Sequence[FloatArray]) -> str:
    """What shows that numbers are not independent and normal with deviation 1; a false alarm has a chance of 1e-9.

    The sum of squares has a chi-square law, and the signs of two numbers agree as a fair coin falls.
    """
    flat = np.concatenate(noise) if noise else np.zeros(0)
    if len(flat) < 2:
        return ""
    square, level = float((flat * flat).sum()), ALARM / 4
    if min(chi2.cdf(square, len(flat)), chi2.sf(square, len(flat))) < level:
        return f"{len(flat)} numbers of noise have a mean square of {square / len(flat):.4g} times the stated variance"
    for what, one, other in (("neighbouring numbers", flat[1:], flat[:-1]), *_repeats(noise)):
        agree, signed = int((one * other > 0).sum()), int((one * other != 0).sum())  # whole numbers of noise can be 0
        if 2 * min(binom.cdf(agree, signed, 0.5), binom.sf(agree - 1, signed, 0.5)) < level:
            return f"the noise of {what} has the same sign {agree} times of {signed}"
    return ""


def _repeats(noise: Sequence[FloatArray]) -> list[tuple[str, FloatArray, FloatArray]]:
    """Each vector's noise beside that of the next one as long."""
    twins = [(one, other) for one, other in itertools.pairwise(noise) if len(one) == len(other)]
    if not twins:
        return []
    ones, others = (np.concatenate([twin[side] for twin in twins]) for side in (0, 1))
    return [("one draw and the next", ones, others)]
