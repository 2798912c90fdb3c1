"""The price of a method's parts, and the noise that makes one answer cost a given epsilon.

Guarantee   A calibrated parameter is rounded to the safe side: what it is then priced at does not exceed the target.
Sources     specification 6.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from scipy.optimize import brentq

from sottovoce.errors import ParameterError
from sottovoce.privacy import explain_claims as claims
from sottovoce.privacy.accountant import Report
from sottovoce.privacy.checked import LEAST, MOST
from sottovoce.privacy.explain_recipe import Part, Recipe
from sottovoce.privacy.explain_setting import Setting
from sottovoce.privacy.master_table import figures_of
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import SWAP, Adjacency, ChangeType

DEARER: Final = ("rate", "eta")
"""Dials of which more costs more; of the others, which are noise, less does."""


def change_of(the_recipe: Recipe, setting: Setting, adjacency: Adjacency) -> ChangeType:
    """How one unit can change what the method sums.

    Raises:
        AssignmentError: Table 2.2 has no entry.
    """
    # Without slots a present record re-evaluates the one prompt, or the step is priced as it stands.
    return setting.change(adjacency) if the_recipe.placed else SWAP


def price(
    parts: Sequence[Part],
    change: ChangeType,
    adjacency: Adjacency,
    setting: Setting,
    queries: int,
    names: tuple[str, ...] = (),
) -> Report:
    """The least valid bounds over both ways to price each step."""
    counts = [part.count * part.row.steps * queries for part in parts]
    first = list(zip((part.row.event(change) for part in parts), counts, strict=True))
    other = list(zip((part.row.other_event(change) for part in parts), counts, strict=True))
    plans = [first] if first == other else [first, other]
    reports = [claims.priced(plan, setting.delta, adjacency, setting.unit, names) for plan in plans]
    bounds = {
        name: min(report.bounds.get(name, math.inf) for report in reports)
        for name in dict.fromkeys(name for report in reports for name in report.bounds)
    }
    best = min(bounds, key=lambda name: bounds[name])
    return replace(reports[0], epsilon=bounds[best], bound=best, bounds=bounds)


def with_dial(the_recipe: Recipe, setting: Setting) -> Recipe:
    """The method with its noise set, by its own parameter or by the price of one answer.

    Raises:
        ParameterError: Neither is given, or both, or no noise reaches the price.
    """
    dial = the_recipe.dial
    given = getattr(the_recipe, dial) if dial else None
    if setting.epsilon is None:
        if dial and given is None:
            raise ParameterError(dial, None, "given, or epsilon, the price of one answer, which sets it")
        return the_recipe
    if dial is None:
        raise ParameterError("epsilon", setting.epsilon, f"absent: {the_recipe.name} has no single noise to set by it")
    if given is not None:
        raise ParameterError("epsilon", setting.epsilon, f"absent beside {dial}, which it would set")
    return replace(the_recipe, **{dial: _calibrated(the_recipe, dial, setting)})


def _calibrated(the_recipe: Recipe, dial: str, setting: Setting) -> float:
    """The dial at which one answer costs ``setting.epsilon`` under the stated adjacency, rounded to the safe side."""
    adjacency, target = Adjacency.parse(setting.adjacency), float(setting.epsilon or 0)
    change = change_of(the_recipe, setting, adjacency)

    def cost(value: float, names: tuple[str, ...] = ()) -> float:
        parts = replace(the_recipe, **{dial: value}).parts(adjacency)
        if len(parts) == 1 and parts[0].count * parts[0].row.steps == 1 and (pure := _pure(parts[0], change)):
            return pure
        return price(parts, change, adjacency, setting, 1, names).epsilon

    rising = dial in DEARER
    value = 1.0
    if math.isfinite(cost(value, claims.CLOSED)):  # closer bounds take longer: start them where the quick ones end
        value = _solved(lambda v: cost(v, claims.CLOSED), target, value, 4.0 if rising else 0.25)
    value = _solved(cost, target, value, 1.3 if rising else 1 / 1.3)
    while value and cost(value) > target:
        value *= 1 - 1e-8 if rising else 1 + 1e-8
    if not value:
        raise ParameterError("epsilon", target, f"within reach of {dial} at delta {rounded_up(setting.delta)}")
    return value


def _solved(cost: Callable[[float], float], target: float, start: float, step: float) -> float:
    """Where ``cost`` meets ``target``, from ``start`` by factors of ``step``, which makes it dearer; 0 if nowhere."""
    dear = start
    while cost(dear) < target:
        dear *= step
        if not LEAST <= dear <= MOST:
            return 0.0
    cheap = dear / step
    while cost(cheap) > target:
        cheap, dear = cheap / step, cheap
        if not LEAST <= cheap <= MOST:
            return 0.0

    def off(log_value: float) -> float:
        return math.log(min(max(cost(math.exp(log_value)) / target, 1e-6), 1e6))

    return math.exp(brentq(off, math.log(cheap), math.log(dear), xtol=1e-8))


def _pure(part: Part, change: ChangeType) -> float:
    """A single selection is calibrated by its pure epsilon; what a delta adds is negligible (specification 6.3)."""
    figures = figures_of(part.row.event(change))
    return figures.get("eta", figures.get("pure_epsilon", 0.0))
