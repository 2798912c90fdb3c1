"""What a method or a list of events costs, and why: change type, sensitivity, event, composition, conversion, claim.

Guarantee   Every epsilon is the least of the accountant's valid bounds for a plan fixed in advance, under the adjacency
            it is printed with. A paper's claim stands beside it and is never used.
Assumes     One unit occupies one expert slot unless said otherwise; slots are assigned as stated.
Sources     specification 2.2 (change types), 4 (step costs), 6.1 to 6.4 (accounting), 11 (the papers' formulas).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.explain.price import least, with_noise
from sottovoce.explain.report import Explanation, Side
from sottovoce.explain.subject import SIDES, Change, Counted, Setting, Subject, finite
from sottovoce.explain.subjects import subject_of
from sottovoce.methods.decoding.plan import Part
from sottovoce.privacy import claims
from sottovoce.privacy.accounting.accountant import Report
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.accounting.renyi import epsilon_of_rho
from sottovoce.privacy.events import BoundedRange, DpEvent, PureDP, describe
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.step_costs import figures_of
from sottovoce.privacy.unit import Adjacency

BELOW, ABOVE = 1e-3, 1e-2
"""Relative differences within which a claim and a bound are called equal."""


def explain(method: str, options: Mapping[str, Any], setting: Setting | None = None) -> Explanation:
    """Prices a method under both adjacencies and says why.

    Args:
        method: A name of ``registered_subjects()``.
        options: The method's parameters, as numbers or as text.
        setting: Everything else.

    Raises:
        ParameterError: An option is unknown to the method, missing or out of range.
        AssignmentError: No adjacency has a guarantee for this assignment.

    Example:
        >>> plan = explain("prism", {"experts": 255, "temperature": 1.02, "tokens": 100}, Setting(delta=1e-5))
        >>> round(plan.paper_epsilon, 4), round(plan.side(Adjacency.REPLACE_ONE).report.bounds["RDP"], 4)
        (1.8449, 1.6107)
    """
    setting = setting or Setting()
    subject = subject_of(method, options, setting)
    _require_place(subject, setting)
    subject = with_noise(subject, setting)
    sides = tuple(dict.fromkeys((*SIDES, Adjacency.parse(setting.adjacency))))
    claim = subject.claim()
    stated = finite(claim.epsilon(setting.delta, setting.queries)) if claim else None
    priced = tuple(_side(subject, setting, adjacency, stated) for adjacency in sides)
    own = next(side for side in priced if side.adjacency is Adjacency.parse(setting.adjacency))
    known = next((side for side in (own, *reversed(priced)) if not side.refused), None)
    if known is None:
        raise AssignmentError(own.refused)
    return Explanation(
        method,
        subject.title,
        setting,
        subject.used,
        known.mechanisms,
        known.total,
        stated,
        claim.words if claim else "",
        priced,
    )


def explain_events(planned: Sequence[tuple[DpEvent, int]], setting: Setting) -> Explanation:
    """Prices events whose parameters were worked out for ``setting.adjacency``; the other side has no price.

    Example:
        >>> plan = explain_events([(BoundedRange(0.1), 100)], Setting(delta=1e-5, adjacency="add-remove"))
        >>> round(plan.side(Adjacency.ADD_REMOVE).report.bounds["RDP"], 3)
        2.152
    """
    stated = Adjacency.parse(setting.adjacency)
    kinds = {str(sorted(figures_of(event).items())): figures_of(event) for event, _ in planned}
    refused = (
        f"The events' parameters are those of {stated.value} adjacency, and do not say what one change under another "
        "would do; work them out again and state --adjacency."
    )
    priced = Side(
        stated,
        change="as worked out in the events",
        figures=next(iter(kinds.values())) if len(kinds) == 1 else {},
        events=tuple(f"{count} x {describe(event)}" for event, count in planned),
        report=claims.priced(planned, setting.delta, stated, setting.unit),
    )
    sides = tuple(priced if side is stated else Side(side, refused=refused) for side in dict.fromkeys((*SIDES, stated)))
    steps = sum(count for _, count in planned)
    return Explanation("events", "A list of events", setting, {}, (), steps, None, "", sides)


def _require_place(subject: Subject, setting: Setting) -> None:
    if subject.placed:
        return
    for name, default in (("units_per_expert", 1), ("slots_per_unit", 1), ("assignment", None)):
        if (value := getattr(setting, name)) != default:
            raise ParameterError(name, value, f"absent: {subject.name} has no expert slots")


def _side(subject: Subject, setting: Setting, adjacency: Adjacency, stated: float | None) -> Side:
    try:
        change = subject.change_at(setting, adjacency)
        counted, charge = subject.counted(change), subject.charge(setting, change)
    except AssignmentError as error:
        return Side(adjacency, refused=str(error))
    queries = 1 if subject.once else setting.queries
    events = [(event, count * queries) for event, count in counted]
    total = subject.adaptive_steps(change) * queries
    if total > subject.most_steps:
        raise ParameterError("steps", total, f"at most {subject.most_steps:,} in all")
    report = least(subject.plans(change), setting.delta, adjacency, setting.unit, queries)
    return Side(
        adjacency,
        change=_why(subject, setting, change),
        figures=_figures(subject.parts(change), change, events),
        sensitivities=tuple(subject.sensitivities(change)),
        events=tuple(f"{count} x {describe(event)}" for event, count in events),
        report=report,
        textbook=_textbook(events, setting),
        verdict=_verdict(stated, report, events, setting),
        charge=charge,
        once=subject.once,
        total=total,
        mechanisms=tuple(subject.mechanisms(change)),
    )


def _figures(parts: Sequence[Part], change: Change, events: Counted) -> dict[str, float]:
    """A single part's own parameter; of several parts those that only one family has; and the plan's totals."""
    own = [part.row.figures(change.kind) for part in parts] or [figures_of(event) for event, _ in events]
    figures: dict[str, float] = {}
    for one in own:
        for name, value in one.items():
            if len(own) == 1 or name != "rho":
                figures.setdefault(name, value)
    rho, failure = _totals(events)
    if math.isfinite(rho):
        figures["rho_total"] = rho
    if failure:
        figures["failure_delta"] = failure
    return figures


def _totals(events: Counted) -> tuple[float, float]:
    try:
        charges = [(cost_of(event), count) for event, count in events]
    except ParameterError:  # amplified: no useful zCDP form (specification 6.5)
        return math.inf, 0.0
    return sum(cost.rho * count for cost, count in charges), sum(cost.delta * count for cost, count in charges)


def _textbook(events: Counted, setting: Setting) -> dict[str, float]:
    if len(events) != 1 or not setting.delta:
        return {}
    event, steps = events[0]
    if not isinstance(event, BoundedRange | PureDP):
        return {}
    loss = event.eta if isinstance(event, BoundedRange) else event.epsilon
    rho = steps * loss**2 / (8 if isinstance(event, BoundedRange) else 2)
    return {
        "basic": steps * loss,
        "advanced": claims.advanced(loss, steps, setting.delta),
        "zCDP short form": claims.short_form(rho, setting.delta),
        "zCDP by squares": epsilon_of_rho(rho, setting.delta),
    }


def _why(subject: Subject, setting: Setting, change: Change) -> str:
    if not subject.placed:
        return subject.why if subject.calibrated == "eta" else f"{change.kind.name}: {subject.why}"
    reason = f"{change.kind.name}: {subject.placement(setting)}"
    if setting.slots_per_unit > 1:
        reason += f"; a unit may occupy {setting.slots_per_unit} of them"
    return reason


def _verdict(stated: float | None, report: Report, events: Counted, setting: Setting) -> str:
    if stated is None or not 0 < report.epsilon < math.inf:
        return ""
    where, least = f"under {report.adjacency.value}", rounded_up(report.epsilon)
    if 1 - BELOW <= stated / report.epsilon <= 1 + ABOVE:
        return f"The paper's figure agrees with the valid bound {where} ({least})."
    if stated > report.epsilon:
        return f"The paper's figure over-reports {where}: {rounded_up(stated)} where {least} is proven."
    verdict = (
        f"The paper's figure {rounded_up(stated)} is NOT a valid bound {where}: the least that is proven is {least}"
    )
    if len(events) == 1 and isinstance(event := events[0][0], BoundedRange):
        steps = events[0][1]
        reached = claims.reached_delta(stated, event.eta, steps)
        if reached > setting.delta:
            return f"{verdict}, and a run over two candidates has delta {rounded_down(reached, 3)} there."
    return verdict + "."
