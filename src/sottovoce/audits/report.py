"""What an audit says: one record for every kind of audit, as JSON of a stated version, JUnit and SARIF.

There are three verdicts. An audit that finds nothing says what it would have found.

Sources     specification 10.1, 10.2, 10.8, 10.9; the schema stands beside this file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from html import escape
from importlib import resources
from typing import Any, Final, final

from sottovoce.audits.game.play import Played
from sottovoce.audits.power import WHOLE
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.terminal import printable

FORMAT: Final = "sottovoce-audit-1"
"""Changes where a reader of the JSON would have to."""
INFINITE: Final = "infinite"
NOTHING: Final = "-"
_POINTS: Final = tuple(10.0 ** (exponent / 8) for exponent in range(-24, 1))
"""False positive rates at which the claim's curve is drawn: 0.001 to 1."""
_SARIF_HEAD: Final = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0"}
_TOOL: Final = "sotto audit"
JUNIT_OPENING: Final = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="{_TOOL} '
"""How every JUnit file of an audit begins."""


class Verdict(Enum):
    """What an audit concludes, and the exit code that says so."""

    NONE_FOUND = "no violation found"
    VIOLATION = "violation found"
    COULD_NOT_RUN = "could not run"

    @property
    def exit_code(self) -> int:
        """0, 1 or 2."""
        return (Verdict.NONE_FOUND, Verdict.VIOLATION, Verdict.COULD_NOT_RUN).index(self)


@final
@dataclass(frozen=True)
class Measured:
    """Figures of an audit, with what it could have measured.

    Attributes:
        bound: Every smaller epsilon is refuted.
        confidence: With this probability, over all attacks together.
        estimate: The papers' point estimate, ln(a / (1 - a)): no bound. ``None`` where there is no accuracy.
        exact: Largest loss of the pair of data sets, from closed forms; ``None`` where there are none.
        ceiling: The bound that an attack without error would give at this size.
        ceiling_on_curve: What a release on its proof's curve gives in every other audit of this size.
        powers: Chance of finding a violation with an ideal attack, by how much the release leaks.
    """

    bound: float
    confidence: float
    estimate: float | None = None
    exact: float | None = None
    ceiling: float | None = None
    ceiling_on_curve: float | None = None
    powers: Mapping[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Report:
    """What an audit found.

    Attributes:
        kind: Such as ``canary``.
        subject: What was audited.
        verdict: One of three.
        reason: One sentence that says what the verdict rests on.
        claim: ``epsilon``, ``delta``, ``adjacency`` and whether the ``own_curve`` was tested; ``None`` without one.
        measured: Figures; ``None`` where it could not run.
        setting: Names to values: everything that a repetition needs.
        attacks: One row an attack.
        cells: One row a canary and question, of the releases that chose.
        defences: One row a defence.
        utility: Share of right answers with its interval, and on what.
        notes: What a reader must know.
        date: When, as ISO 8601 in UTC.
    """

    kind: str
    subject: str
    verdict: Verdict
    reason: str
    claim: Mapping[str, Any] | None = None
    measured: Measured | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)
    attacks: Sequence[Mapping[str, Any]] = ()
    cells: Sequence[Mapping[str, Any]] = ()
    defences: Sequence[Mapping[str, Any]] = ()
    utility: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()
    date: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: no value is infinite or NaN."""
        told = {**asdict(self), "verdict": self.verdict.value, "format": FORMAT}
        cleaned: dict[str, Any] = _plain(told)
        return cleaned

    @property
    def headline(self) -> str:
        """The verdict in one line; where nothing was found, with the power to find twice the epsilon if it is known."""
        if self.verdict is not Verdict.NONE_FOUND or self.measured is None or not self.measured.powers:
            return self.verdict.value
        leak, power = next(iter(self.measured.powers.items()))
        if leak == WHOLE:
            return f"{self.verdict.value} (its power against a smaller leak than {WHOLE} is not known)"
        return f"{self.verdict.value} (power {rounded_down(100 * power, 3)} % against {leak})"


def schema() -> Any:
    """The JSON schema of ``Report.as_dict``."""
    return json.loads((resources.files(__package__) / "report.schema.json").read_text("utf-8"))


def could_not_run(kind: str, subject: str, reason: str, **others: Any) -> Report:
    """The report of an audit that broke off."""
    return Report(kind, subject, Verdict.COULD_NOT_RUN, reason, **others)


def of_play(kind: str, subject: str, played: Played, **others: Any) -> Report:
    """The report of a game.

    Args:
        kind: Of the audit.
        subject: What was audited.
        played: What it showed.
        others: Further attributes of ``Report``.
    """
    best, claim = played.best, played.claim
    verdict = Verdict.VIOLATION if played.violated else Verdict.NONE_FOUND
    ceiling = played.ceiling
    exact = [attack.exact for attack in played.certified if attack.exact is not None]
    if ceiling.perfect <= claim.epsilon:
        most = f"{rounded_up(ceiling.perfect, 3)}, and {rounded_up(claim.epsilon, 6)} is claimed. Ask for more answers."
        others["notes"] = [*others.get("notes", ()), f"This audit can show an epsilon of at most {most}"]
    measured = Measured(
        best.bound,
        1 - played.alpha,
        best.estimate,
        max(exact) if exact else None,
        ceiling.perfect,
        ceiling.on_curve,
        played.powers(),
    )
    return Report(
        kind,
        subject,
        verdict,
        reason_of(verdict, measured, claim.epsilon),
        {
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "adjacency": claim.adjacency.value,
            "own_curve": claim.own_curve,
            "curve": curve_points(claim.curve),
        },
        measured,
        attacks=[_attack(attack, played) for attack in played.certified],
        cells=[
            {
                "canary": cell.canary,
                "insertion": cell.insertion.value,
                "question": cell.question,
                "detector": cell.detector,
                "accuracy": cell.accuracy,
                "estimate": cell.estimate,
            }
            for cell in played.cells
        ],
        **others,
    )


def reason_of(verdict: Verdict, measured: Measured, epsilon: float) -> str:
    """What a verdict rests on, in a sentence. Lower bounds are rounded down, claims up."""
    share, claimed = percent(measured.confidence), rounded_up(epsilon, 6)
    shown = f"The answers show an epsilon of at least {rounded_down(measured.bound, 3)}"
    if verdict is Verdict.VIOLATION and measured.bound > epsilon:
        return f"{shown} ({share} confidence), more than the {claimed} that is claimed."
    if verdict is Verdict.VIOLATION:
        return (
            f"{shown}, within the {claimed} that is claimed, but with fewer errors than the claim's own noise "
            f"allows ({share} confidence)."
        )
    return (
        f"{shown} ({share} confidence), and {claimed} is claimed. An audit can refute a claim and cannot prove it: "
        "another attack may see more."
    )


def _attack(attack: Any, played: Played) -> dict[str, Any]:
    return {
        "id": f"{attack.cell.canary}/{attack.cell.insertion.value}",
        "canary": attack.cell.canary,
        "insertion": attack.cell.insertion.value,
        "adjacency": attack.cell.insertion.adjacency.value,
        "question": attack.cell.question,
        "detector": attack.cell.detector,
        "threshold": attack.cell.threshold,
        **asdict(attack.rates),
        "accuracy": attack.accuracy,
        "estimate": attack.estimate,
        "bound": attack.bound,
        "p_value": attack.p_value,
        "adjusted_p_value": attack.adjusted,
        "exact": attack.exact,
        "violation": bool(attack.adjusted <= played.alpha),
        "roc": attack.curve.as_dict(),
    }


def curve_points(curve: TradeOff) -> dict[str, list[float]]:
    """What a claim allows any attack, at false positive rates from 0.001 to 1, for a figure."""
    return {"false_positive_rates": list(_POINTS), "true_positive_rates": [float(curve.tpr(x)) for x in _POINTS]}


def _plain(value: Any) -> Any:
    """Infinities as a word, NaN as nothing; numbers as Python's own."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else INFINITE if value > 0 else f"-{INFINITE}"
    return value


# For continuous integration


def junit(report: Report) -> str:
    """One test suite with a test an attack, as XML."""
    broken = report.verdict is Verdict.COULD_NOT_RUN
    found = [attack for attack in report.attacks if attack["violation"]]
    tests = report.attacks or [{"id": report.kind, "violation": report.verdict is Verdict.VIOLATION}]
    counts = f'tests="{len(tests)}" failures="{len(found) if report.attacks else int(tests[0]["violation"])}"'
    lines = [f'{JUNIT_OPENING}{_xml(report.kind)}" {counts} errors="{int(broken)}">']
    for test in tests:
        head = f'<testcase classname="{_xml(report.subject)}" name="{_xml(str(test["id"]))}"'
        if broken:
            lines.append(f'{head}><error message="{_xml(report.reason)}"/></testcase>')
        elif test["violation"]:
            lines.append(f'{head}><failure message="{_xml(report.reason)}"/></testcase>')
        else:
            lines.append(f"{head}/>")
    return "\n".join([*lines, "</testsuite>", ""])


def sarif(report: Report, version: str) -> dict[str, Any]:
    """The verdict as a SARIF log: one rule, one result where there is something to act on."""
    rule = {
        "id": "privacy-claim",
        "shortDescription": {"text": "Answers leak more than the stated epsilon allows"},
        "helpUri": "https://arxiv.org/abs/2512.16059",
    }
    results = []
    if report.verdict is not Verdict.NONE_FOUND:
        level = "error" if report.verdict is Verdict.VIOLATION else "warning"
        text = printable(f"{report.subject}: {report.headline}. {report.reason}")
        results.append({"ruleId": rule["id"], "level": level, "message": {"text": text}})
    driver = {"name": _TOOL, "version": version, "rules": [rule]}
    done = report.verdict is not Verdict.COULD_NOT_RUN
    invocation = {"executionSuccessful": done, "exitCode": report.verdict.exit_code}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    return {**_SARIF_HEAD, "runs": [run]}


def sarif_text(report: Report, version: str) -> str:
    """The SARIF log as it is written."""
    return json.dumps(sarif(report, version), indent=1) + "\n"


def sarif_opening() -> str:
    """How every SARIF log of an audit begins, as far as the name of the tool."""
    text = json.dumps({**_SARIF_HEAD, "runs": [{"tool": {"driver": {"name": _TOOL}}}]}, indent=1)
    return text.partition(f'"{_TOOL}"')[0] + f'"{_TOOL}"'


def _xml(text: str) -> str:
    return escape(printable(text), quote=True)


def percent(share: float | None) -> str:
    """A measured share, to a tenth of a percent.

    Example:
        >>> percent(0.6857), percent(1.0), percent(None)
        ('68.6 %', '100 %', '-')
    """
    return NOTHING if share is None else f"{round(1000 * share) / 10:g} %"


def estimate_in_words(estimate: float | None) -> str:
    """The papers' point estimate, which is no bound.

    Example:
        >>> estimate_in_words(1.0986), estimate_in_words(math.inf), estimate_in_words(None)
        ('1.10', 'infinite', '-')
    """
    if estimate is None:
        return NOTHING
    return f"{estimate:.2f}" if math.isfinite(estimate) else INFINITE if estimate > 0 else f"-{INFINITE}"
