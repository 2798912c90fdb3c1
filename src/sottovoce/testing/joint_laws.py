"""The law of all releases together, written out release by release.

Guarantee   Every sequence of releases that is possible is followed to its end once, so the law is exact where each
            draw's own law is.
Assumes     What is drawn next follows from what was released: the check of its own says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.claims import Excess, claim_of, excess
from sottovoce.testing.draw_losses import law_of
from sottovoce.testing.draw_tape import Draw, Teller, ThresholdTest

MOST_SCALE: Final = 10_000
"""Laws of threshold tests with noise on a finer grid are not worked out."""
LEAST: Final = 1e-200
"""Answers of threshold tests with a smaller probability do not come."""

JointLaw = Mapping[tuple[Hashable, ...], float]
"""Natural-log probability of every sequence of releases."""


class NoLawError(Exception):
    """A draw has no law that can be written out."""


def joint_law(
    run: Callable[[Teller], object], chances: Callable[[Draw], Mapping[Hashable, float]], most: int
) -> JointLaw | None:
    """The law of all releases of a run.

    Args:
        run: Draws everything, and is told what each draw releases.
        chances: Natural-log probability of every release of one draw that is possible; may raise ``NoLawError``.
        most: Sequences that are followed at most.

    Returns:
        ``None`` where a draw has no law, or there are more sequences.
    """
    law: dict[tuple[Hashable, ...], float] = {}
    left: list[tuple[Hashable, ...]] = [()]
    while left:
        path, chosen, logs = left.pop(), list[Hashable](), list[float]()

        def told(
            number: int,
            draw: Draw,
            path: tuple[Hashable, ...] = path,
            chosen: list[Hashable] = chosen,
            logs: list[float] = logs,
        ) -> Hashable:
            possible = chances(draw)
            if number >= len(path):
                left.extend((*chosen, other) for other in list(possible)[1:])
            chosen.append(path[number] if number < len(path) else next(iter(possible)))
            logs.append(possible[chosen[-1]])
            return chosen[-1]

        try:
            run(told)
        except NoLawError:
            return None
        law[tuple(chosen)] = math.fsum(logs)
        if len(law) + len(left) > most:
            return None
    return law


def chances_of(draw: Draw) -> Mapping[Hashable, float]:
    """Natural-log probability of every candidate of a selection, or answer of a threshold test, that is possible.

    Raises:
        NoLawError: The draw is neither, the noise of a test is spread too widely, or its run has said yes before.
    """
    if draw.test is not None:
        return _chances_of_test(draw.mechanism, draw.test)
    if not isinstance(draw.mechanism, SelectionMechanism):
        raise NoLawError
    logs = law_of(draw)
    return {index: float(logs[index]) for index in np.flatnonzero(logs > -math.inf).tolist()}


def _chances_of_test(mechanism: AboveThreshold, test: ThresholdTest) -> Mapping[Hashable, float]:
    """Given the answers before it, all of which were no: the noise on the threshold is one for the whole run."""
    if test.yeses or mechanism.scale(test.sensitivity) > MOST_SCALE:
        raise NoLawError
    before = mechanism.law(test.queries[:-1], test.threshold, test.sensitivity)[-1]
    *_, yes, no = mechanism.law(test.queries, test.threshold, test.sensitivity)
    return {answer: math.log(p / before) for answer, p in ((True, yes), (False, no)) if p > LEAST}


def joint_excess(
    event: DpEvent, adjacency: Adjacency, laws: Sequence[JointLaw], pairs: Sequence[tuple[int, int]]
) -> Excess | None:
    """The worst breach of an event by any pair of these laws; ``None`` where it holds or states nothing for a law."""
    claim = claim_of(event, adjacency)
    outcomes = list(dict.fromkeys(outcome for law in laws for outcome in law))
    table = np.array([[law.get(outcome, -math.inf) for outcome in outcomes] for law in laws])
    return None if claim is None else excess(claim, table, pairs)
