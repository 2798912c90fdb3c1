"""``auto`` for answers that are paid one by one: the method, from public numbers alone, by the measured tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from sottovoce.methods.base import read_method_options, registered_methods
from sottovoce.methods.fitting.fitter import RHO_BOUNDS
from sottovoce.parameters import options_of
from sottovoce.planner.frontier import PER_ANSWER, Setting, packaged_tables
from sottovoce.planner.guide import EMBEDDERS, OWN, Asked, best_fitter, usable_fitters
from sottovoce.planner.measurements import MODEL
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.parameters import MIN_EPSILON
from sottovoce.privacy.unit import Adjacency

AUTO: Final = "auto"
"""What is given as the name of a method to have it chosen."""
COUNTS: Final = (25, 60, 240, 960)
"""Numbers of records that are averaged over where theirs is private."""
PRICES: Final = (0.25, 1.0, 4.0)
"""Prices of an answer that are averaged over where it is not known yet."""
DELTA: Final = 1e-6
"""Of a total, where it is compared with a fit."""
ENOUGH: Final = 8.0
"""Of a fit: nothing was measured at a larger epsilon."""
AHEAD: Final = 1.0
"""Points by which a fit at the same total must be ahead to be spoken of."""


@final
@dataclass(frozen=True)
class Answering:
    """A method for answers that are paid one by one.

    Attributes:
        method: Name of a registered method.
        why: The reason, in one line.
        hint: What is expected to be better at the same total, or for free; empty where nothing is.
    """

    method: str
    why: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.method}: {self.why}"


def resolve_answering(
    *,
    labels: int,
    units: int | None,
    epsilon: float | None = None,
    questions: int = 1,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    options: Mapping[str, Any] | None = None,
    model: str = MODEL,
) -> Answering:
    """The method for answers that are paid one by one, and what would be better. Every argument is public.

    Args:
        labels: Number of labels.
        units: Number of units where it is public, else ``None``.
        epsilon: Of one answer; ``None`` where it is not known yet.
        questions: How many are to be answered at this price.
        adjacency: What one change of the data is.
        options: That the method must have.
        model: That answers.

    Raises:
        ParameterError: No method has these options.
    """
    among = [name for name in PER_ANSWER.values() if _has(name, options or {})]
    if not among:
        for name in PER_ANSWER.values():
            read_method_options(name, options or {})  # says which option no method of these has
    means = {method: _mean(method, labels, units, epsilon, adjacency, model) for method in among}
    best = max(among, key=lambda method: means[method][0] - means[method][1])
    right, floor = means[best]
    seen = [f"{labels} labels"]
    seen += [] if units is None else [f"{units} units"]
    seen += [] if epsilon is None else [f"epsilon {rounded_up(epsilon)} an answer"]
    why = f"best on public sets like this, {right - floor:+.0f} points to zero-shot ({', '.join(seen)})"
    hint = ""
    if units is not None and epsilon is not None:
        hint = _hint(right, floor, labels, units, epsilon, questions, adjacency, model)
    return Answering(best, why, hint)


def _mean(
    method: str, labels: int, units: int | None, epsilon: float | None, adjacency: Adjacency, model: str
) -> tuple[float, float]:
    """Percent right (0 where it was not measured), and zero-shot, over sets and over what is not known."""
    (measured,) = (name for name, typed in PER_ANSWER.items() if typed == method)
    relation = Adjacency.REPLACE_ONE if adjacency is Adjacency.REPLACE_ONE else Adjacency.ADD_REMOVE
    setting = Setting(max(labels, 2), relation.value, OWN, model=model if model in EMBEDDERS else MODEL)
    found, floors = [], []
    for count in COUNTS if units is None else [max(units, 1)]:
        for one in packaged_tables().of(setting, count):
            for price in PRICES if epsilon is None else [epsilon]:
                reading = one.each(measured, relation.value, price)
                found.append(reading.mean if reading else 0.0)
                floors.append(one.floor.mean)
    return math.fsum(found) / len(found), math.fsum(floors) / len(floors)


def _hint(
    right: float,
    floor: float,
    labels: int,
    units: int,
    epsilon: float,
    questions: int,
    adjacency: Adjacency,
    model: str,
) -> str:
    composed = RdpAccountant(adjacency).compose(BoundedRange(epsilon), questions).report(DELTA, RHO_BOUNDS)
    total = min(composed.epsilon, questions * epsilon)
    once = max(MIN_EPSILON, min(total, ENOUGH))  # a fit has a least price, and these answers may cost less together
    asked = Asked(max(units, 1), max(labels, 2), questions, once, DELTA, adjacency, model=model)
    embeds = model.partition(":")[0] in EMBEDDERS  # of itself, as 'sotto fit' without a method has it
    fit = best_fitter(asked, usable_fitters(DELTA, embeds, 1), packaged_tables())
    if fit is not None and total >= once and fit.accuracy.mean >= max(right, floor) + AHEAD:
        return (
            f"This costs epsilon {rounded_up(total, 3)} in all (delta {DELTA:g}). Paying once, 'sotto fit "
            f"--epsilon {rounded_down(asked.epsilon, 3)}', is expected to be right in {fit.accuracy.mean:.0f} % "
            f"instead of {right:.0f}, and answers any number of questions."
        )
    if floor >= right:
        return f"Zero-shot, which is free, is expected to do as well: {floor:.0f} % against {right:.0f}."
    return ""


def _has(name: str, options: Mapping[str, Any]) -> bool:
    return set(options) <= set(options_of(registered_methods()[name]))
