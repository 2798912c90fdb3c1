"""What an explanation holds, as plain values and in words. No number stands without its adjacency.

Sources     specification 6.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, final

from sottovoce.explain.subject import ALIASES, Setting, finite
from sottovoce.privacy.accounting.accountant import Report
from sottovoce.privacy.events import DpEvent, describe
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency

CONVERSIONS: Final = {
    "pure": "the steps' pure epsilons, added",
    "RDP": "Renyi divergences on a fixed grid of orders, added and converted (Canonne, Kamath and Steinke 2020)",
    "zCDP": "zero-concentrated DP, added and converted by the same formula",
    "optimal": "the exact worst case over adaptive compositions of bounded-range steps, rounded up",
    "GDP": "Gaussian DP, which composes exactly",
    "PLD": "privacy loss distributions, discretised upwards",
}


@final
@dataclass(frozen=True)
class Side:
    """The cost under one adjacency, or why there is none.

    Attributes:
        adjacency: What one change is.
        refused: Why nothing can be said; empty otherwise.
        change: The change type and why it is that.
        figures: eta, mu, rho, pure_epsilon of a step, whichever its family has.
        sensitivities: One line a part.
        events: One line a part: event and count.
        report: Epsilon and every bound.
        textbook: Larger formulas, for comparison only.
        verdict: What to think of the paper's figure here.
        charge: What a ledger is charged for one answer, or for one fit; ``None`` where nothing here charges it.
        once: Whether that is paid once, and all answers from it are free.
        total: Adaptive steps in all.
        mechanisms: One line a part: law, family and source.
    """

    adjacency: Adjacency
    refused: str = ""
    change: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    sensitivities: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    report: Report | None = None
    textbook: dict[str, float] = field(default_factory=dict)
    verdict: str = ""
    charge: DpEvent | None = None
    once: bool = False
    total: int = 0
    mechanisms: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values; ``None`` for what does not exist or is infinite."""
        bounds = self.report.bounds if self.report else {}
        return {
            "eta": None,
            **{name: finite(value) for name, value in self.figures.items()},
            "epsilon": finite(self.report.epsilon) if self.report else None,
            "bound": self.report.bound if self.report and math.isfinite(self.report.epsilon) else None,
            "bounds": {name: value for name, value in bounds.items() if math.isfinite(value)},
            "textbook": {name: value for name, value in self.textbook.items() if math.isfinite(value)},
            "change": self.change or None,
            "sensitivity": list(self.sensitivities),
            "events": list(self.events),
            "charged": None if self.charge is None else describe(self.charge),
            "refused": self.refused or None,
        }


@final
@dataclass(frozen=True)
class Explanation:
    """A plan's cost under both adjacencies.

    Attributes:
        method: Its name.
        title: Its name in words, with the source.
        setting: Delta, answers, unit and assignment.
        parameters: The method's own.
        mechanisms: One line a part.
        steps: Adaptive steps in all.
        paper_epsilon: What the paper's formula gives; ``None`` where it gives nothing.
        paper: Which formula that is.
        sides: One entry an adjacency.
    """

    method: str
    title: str
    setting: Setting
    parameters: dict[str, Any]
    mechanisms: tuple[str, ...]
    steps: int
    paper_epsilon: float | None
    paper: str
    sides: tuple[Side, ...]

    def side(self, adjacency: Adjacency) -> Side:
        """The cost under one adjacency."""
        return next(side for side in self.sides if side.adjacency is adjacency)

    def as_dict(self) -> dict[str, Any]:
        """What ``sotto account --json`` prints."""
        return {
            "method": self.method,
            "mechanism": list(self.mechanisms),
            "parameters": self.parameters,
            "delta": self.setting.delta,
            "steps": self.steps,
            "unit": self.setting.unit,
            "units_per_expert": self.setting.units_per_expert,
            "paper_epsilon": self.paper_epsilon,
            "paper": self.paper or None,
            **{side.adjacency.value: side.as_dict() for side in self.sides},
            "explanation": self.lines(),
        }

    def lines(self) -> list[str]:
        """The explanation, a sentence or two a line."""
        parameters = ", ".join(
            f"{name} {_short(value)}" for name, value in self.parameters.items() if name not in ALIASES
        )
        lines = [f"{self.title}.{f' Parameters: {parameters}.' if parameters else ''}"]
        lines += [f"Mechanism: {text}." for text in self.mechanisms]
        lines.append(
            f"Composition: {self.steps} step{'' if self.steps == 1 else 's'}, adaptive, fixed in advance; "
            f"delta {rounded_up(self.setting.delta)}; unit '{self.setting.unit}'."
        )
        for side in self.sides:
            lines += _side_lines(side)
        if self.paper_epsilon is not None:
            lines.append(f"The paper's figure: epsilon {rounded_up(self.paper_epsilon, 5)} ({self.paper}).")
        elif self.method != "events":
            lines.append("The paper states no figure for this plan.")
        return lines + [side.verdict for side in self.sides if side.verdict]


def _side_lines(side: Side) -> list[str]:
    if side.refused or side.report is None:
        return [f"{side.adjacency.value}: no price. {side.refused}"]
    lines = [f"{side.adjacency.value}: {side.change}."]
    lines += [f"  sensitivity: {text}" for text in side.sensitivities]
    lines += [f"  steps: {text}" for text in side.events]
    if side.charge is not None:
        what = "once, and all answers from the fit are free" if side.once else "for each answer"
        lines.append(f"  a ledger is charged, {what}: {describe(side.charge)}")
    if not math.isfinite(side.report.epsilon):
        return [*lines, "  no finite epsilon at this delta; Gaussian noise and failures need a delta above theirs"]
    bounds = ", ".join(
        f"{name} {rounded_up(value, 5)}" for name, value in side.report.bounds.items() if math.isfinite(value)
    )
    how = CONVERSIONS.get(side.report.bound, side.report.bound)
    return [
        *lines,
        f"  epsilon {rounded_up(side.report.epsilon, 5)} by {side.report.bound}: {how}",
        f"  bounds: {bounds}",
    ]


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
