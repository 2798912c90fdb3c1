"""The page of an audit: one HTML file that somebody can read who has not read the papers.

The verdict stands first, in words; then what was claimed and measured, what the words mean, and the figures behind it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sottovoce.audits.report import NOTHING, Report, Verdict, estimate_in_words, percent
from sottovoce.files.pages import html_page
from sottovoce.files.pages import html_text as _text
from sottovoce.privacy.numbers import rounded_down, rounded_up

MARK: Final = "sotto audit report"
_STYLE: Final = """
.verdict { border-left: .5rem solid; padding: .75rem 1.25rem; background: var(--panel); border-radius: .3rem; }
.verdict p { margin: .25rem 0; } .verdict strong { font-size: 1.5rem; }
.found { border-color: #b3261e; } .none { border-color: #1b7f4d; } .broken { border-color: #8a6d00; }
.heat td { text-align: center; color: #111111; min-width: 6rem; }
svg { display: block; max-width: 100%; height: auto; background: #ffffff; border: 1px solid var(--rule); }
"""
_LEFT, _TOP, _WIDE, _HIGH = 128, 32, 840, 640
_DECADES: Final = 3
_NAMES: Final = {0: "1", -1: "0.1", -2: "0.01", -3: "0.001"}
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#882255", "#E69F00", "#332288", "#56B4E9", "#6B4A1E")
_DELTAS: Final = {f"delta at epsilon {epsilon}": f"{float(epsilon)}" for epsilon in (0, 1, 2, 4)}
_WORDS: Final = (
    (
        "Epsilon",
        "How far one record can change the answers. At 0 they tell nothing of it. At 1, guesses whether a record is "
        "there are right at most 73 times in 100; at 4, at most 98 times. Chance is 50.",
    ),
    ("Canary", "A made-up record that the audit puts in, to see whether the answers give it away."),
    (
        "Measured lower bound",
        "Answers like these would be too unlikely if the true epsilon were smaller. The true one can be larger: "
        "another attack may see more.",
    ),
    ("Ceiling", "The largest bound that this many answers can show, even if every guess is right."),
    (
        "Power",
        "How likely this audit finds a violation if there is one of that size and its attack is the best possible one.",
    ),
    (
        "Point estimate",
        "ln(a / (1 - a)) of the accuracy a, which papers report. It has no confidence: it can be above the truth.",
    ),
    ("Adjacency", "What one change of the records is. A bound under one says nothing of another."),
    ("Detector", "How an attack reads an answer: by the canary's label, by its words, or by how likely the answer is."),
    (
        "False alarms, missed",
        "Answers without the canary that the attack took for one with it, and the other way round.",
    ),
    (
        "Adjusted p-value",
        "How often so few errors come by chance although the claim is true, over all attacks together. Below 0.05 the "
        "claim is refuted.",
    ),
)
_CHANGES: Final = {
    "replace-one": "one record is exchanged for another one",
    "add-remove": "one record is there or is not",
    "zero-out": "one record is there or is blank",
}


def html_of(report: Report) -> str:
    """The whole page."""
    title = f"Audit of {report.subject}"
    body = [
        f"<header>\n<h1>{_text(title)}</h1>",
        *_verdict(report),
        "</header>\n<main>",
        *_plainly(report),
        *_figures(report),
        *_heat(report.cells),
        *_attacks(report),
        *_worst_pairs(report),
        *_defences(report),
        *_words(),
        *_setting(report),
        "</main>",
    ]
    return html_page(title, body, mark=MARK, style=_STYLE)


def _verdict(report: Report) -> list[str]:
    look = {Verdict.VIOLATION: "found", Verdict.NONE_FOUND: "none", Verdict.COULD_NOT_RUN: "broken"}[report.verdict]
    said = report.headline[0].upper() + report.headline[1:]
    return [
        f'<div class="verdict {look}"><p><strong>{_text(said)}</strong></p><p>{_text(report.reason)}</p></div>',
        f'<p class="source">{_text(_line(report))}</p>',
    ]


def _line(report: Report) -> str:
    claim = report.claim
    told = f"Audit by {report.kind}" + (f", {report.date}" if report.date else "")
    if claim is None:
        return f"{told}."
    delta = f", delta {rounded_up(claim['delta'], 6)}" if claim["delta"] else ""
    return f"{told}. The claim: epsilon {rounded_up(claim['epsilon'], 6)}{delta}, {claim['adjacency']} adjacency."


def _plainly(report: Report) -> list[str]:
    """What the claim means, what the best attack did, and what the page says nothing about."""
    claim, measured = report.claim, report.measured
    if claim is None or measured is None:
        return []
    does = report.setting.get("what it does")
    lines = [f"{report.subject}: {does}."] if does else []
    most = min(1.0, 1 / (1 + math.exp(-claim["epsilon"])) + claim["delta"])
    lines.append(
        f"What is claimed: of two data sets in which {_CHANGES[claim['adjacency']]}, nobody can tell which one was "
        f"used more often than {rounded_up(100 * most, 3)} times in 100, from what one attack asks. Chance is 50."
    )
    rates = [attack["accuracy"] for attack in report.attacks if "roc" in attack]
    if rates:
        lines.append(
            f"What was found: the best of the attacks was right {rounded_down(100 * max(rates), 3)} times in 100."
        )
    lines.append(
        "What this page does not say: what more answers than one attack asks for give away together, what else was "
        "released of the same records, and who sees them on the way, such as the host of a model."
    )
    return [
        '<section id="plain"><h2>In plain words</h2><ul class="reading">',
        *(f"<li>{_text(line)}</li>" for line in lines),
        "</ul></section>",
    ]


def _figures(report: Report) -> list[str]:
    measured = report.measured
    if measured is None:
        return []
    share = f"{percent(measured.confidence)} confidence"
    claimed = report.claim["epsilon"] if report.claim else None
    rows = [
        ("claimed epsilon", _up(claimed), "what is promised"),
        ("measured lower bound", _down(measured.bound), f"{share}, over all attacks together"),
        ("largest loss of these data sets, exact", _down(measured.exact), "from closed forms, without sampling error"),
        ("ceiling", _up(measured.ceiling), "what this many answers can show at most"),
        (
            "usual bound if all of the claim leaks",
            _up(measured.ceiling_on_curve),
            "what one in two audits of this size gives then",
        ),
        ("papers' point estimate", estimate_in_words(measured.estimate), "no bound: it has no confidence"),
    ]
    lines = _table("measured", ("epsilon", "value", "what it is"), [row for row in rows if row[1] != NOTHING])
    powers = [(leak, f"{rounded_down(100 * power, 3)} %") for leak, power in measured.powers.items()]
    if powers:
        lines += ["<h3>Would it have been found?</h3>"]
        note = "Chance that this audit finds a release which leaks so much, with the best possible attack."
        lines += [f'<p class="note">{note}</p>', *_table("power", ("it leaks", "chance"), powers)]
    if report.utility:
        told = report.utility
        words = (
            f"Right answers: {percent(told['accuracy'])} (95 % interval {percent(told['low'])} to "
            f"{percent(told['high'])}), on {told['questions']} questions with {told['records']} records."
        )
        lines += ["<h3>What the answers are worth</h3>", f"<p>{_text(words)}</p>"]
    return ['<section id="figures"><h2>Claimed and measured</h2>', *lines, "</section>"]


def _down(bound: Any) -> str:
    return NOTHING if bound is None else rounded_down(bound, 3)


def _up(bound: Any) -> str:
    return NOTHING if bound is None else rounded_up(bound, 3)


def _heat(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Canaries down, questions across: the accuracy of the best detector, as a colour too."""
    if not cells:
        return []
    rows = list(dict.fromkeys((cell["canary"], cell["insertion"]) for cell in cells))
    columns = list(dict.fromkeys(cell["question"] for cell in cells))
    found = {(cell["canary"], cell["insertion"], cell["question"]): cell for cell in cells}
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    lines = [
        '<section id="heat"><h2>Which question sees which canary</h2>',
        '<p class="note">Share of right guesses on the answers that chose the attack: 50 % is chance. These are '
        "estimates; what is certified stands below, from other answers.</p>",
        '<div class="scroll"><table class="heat">',
        f'<thead><tr><th scope="col">canary</th>{head}</tr></thead><tbody>',
    ]
    for row in rows:
        shown = "".join(_cell(found.get((*row, column))) for column in columns)
        lines.append(f'<tr><th scope="row">{_text(f"{row[0]}, {row[1]}")}</th>{shown}</tr>')
    return [*lines, "</tbody></table></div></section>"]


def _cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "<td>-</td>"
    part = min(1.0, max(0.0, 2 * cell["accuracy"] - 1))
    colour = f"rgb({round(255 - 42 * part)},{round(255 - 161 * part)},{round(255 - 255 * part)})"
    words = percent(cell["accuracy"])
    return f'<td style="background:{colour}" title="{_text(cell["detector"])}">{words}</td>'


def _attacks(report: Report) -> list[str]:
    certified = [attack for attack in report.attacks if "roc" in attack]
    if not certified:
        return []
    columns = ("attack", "question", "detector", "false alarms", "missed", "lower bound", "exact", "adjusted p-value")
    rows = [
        (
            f"{attack['canary']}, {attack['insertion']} ({attack['adjacency']})",
            attack["question"],
            attack["detector"],
            f"{attack['false_positives']} of {attack['absent']}",
            f"{attack['false_negatives']} of {attack['present']}",
            _down(attack["bound"]),
            _down(attack["exact"]),
            rounded_up(attack["adjusted_p_value"], 2),
        )
        for attack in certified
    ]
    return [
        '<section id="attacks"><h2>The attacks, on answers that they had not seen</h2>',
        *_table("attacks", columns, rows),
        *_roc(report, certified),
        "</section>",
    ]


def _worst_pairs(report: Report) -> list[str]:
    """What was worked out, where nothing was drawn."""
    pairs = [attack for attack in report.attacks if "leak" in attack]
    if not pairs:
        return []
    columns = ("release", "worst change", "changes tried", "epsilon, exact", "right guesses at most", *_DELTAS)
    rows = [
        (
            attack["id"],
            attack["change"],
            str(attack["tried"]),
            _down(attack["exact"]),
            percent(attack["accuracy"]),
            *(rounded_down(attack["leak"]["delta"][epsilon], 2) for epsilon in _DELTAS.values()),
        )
        for attack in pairs
    ]
    note = "From the method's own law in both data sets: nothing is drawn, and no figure has a sampling error."
    return [
        '<section id="exact"><h2>The worst single change of these records</h2>',
        f'<p class="note">{note}</p>',
        *_table("exact", columns, rows),
        "</section>",
    ]


def _roc(report: Report, attacks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Both axes logarithmic, from 0.001; the claim's cap in grey."""
    lines = [
        f'<svg viewBox="0 0 {_LEFT + _WIDE + 32} {_TOP + _HIGH + 88}" role="img" aria-label="{_text(_alt(attacks))}">'
    ]
    for decade in range(-_DECADES, 1):
        x, y, name = _x(10.0**decade), _y(10.0**decade), _NAMES[decade]
        lines.append(f'<path d="M{x} {_TOP}V{_TOP + _HIGH}M{_LEFT} {y}H{_LEFT + _WIDE}" stroke="#dddddd"/>')
        lines.append(f'<text x="{x}" y="{_TOP + _HIGH + 32}" font-size="22" text-anchor="middle">{name}</text>')
        lines.append(f'<text x="{_LEFT - 12}" y="{y + 8}" font-size="22" text-anchor="end">{name}</text>')
    middle, low = _LEFT + _WIDE // 2, _TOP + _HIGH // 2
    lines.append(
        f'<text x="{middle}" y="{_TOP + _HIGH + 72}" font-size="24" text-anchor="middle">false alarms (share)</text>'
    )
    lines.append(
        f'<text x="28" y="{low}" font-size="24" text-anchor="middle" transform="rotate(-90 28 {low})">'
        "canary found (share)</text>"
    )
    if report.claim and "curve" in report.claim:
        cap = report.claim["curve"]
        points = list(zip(cap["false_positive_rates"], cap["true_positive_rates"], strict=True))
        lines.append(
            f'<path d="{_path(points, steps=False)}" fill="none" stroke="#777777" stroke-width="3" '
            'stroke-dasharray="12 6"/>'
        )
    for place, attack in enumerate(attacks):
        curve = attack["roc"]
        points = list(zip(curve["false_positive_rates"], curve["true_positive_rates"], strict=True))
        colour = _COLOURS[place % len(_COLOURS)]
        lines.append(f'<path d="{_path(points, steps=True)}" fill="none" stroke="{colour}" stroke-width="4"/>')
    lines.append("</svg>")
    names = "; ".join(
        f'<span style="color:{_COLOURS[place % len(_COLOURS)]}">&#9632;</span> {_text(str(attack["id"]))}'
        for place, attack in enumerate(attacks)
    )
    note = "Dashed: the most that the claim allows any attack. A curve above it, beyond chance, is a violation."
    return ["<h3>Found against false alarms</h3>", *lines, f'<p class="note">{names}. {note}</p>']


def _alt(attacks: Sequence[Mapping[str, Any]]) -> str:
    return "Operating characteristics in logarithmic scale of " + ", ".join(str(attack["id"]) for attack in attacks)


def _x(rate: float) -> int:
    return round(_LEFT + _WIDE * (1 - _decades(rate) / _DECADES))


def _y(rate: float) -> int:
    return round(_TOP + _HIGH * _decades(rate) / _DECADES)


def _decades(rate: float) -> float:
    """How many decades a rate is below 1, at most those that are drawn."""
    return min(_DECADES, -math.log10(rate)) if rate > 0 else _DECADES


def _path(points: Sequence[tuple[float, float]], *, steps: bool) -> str:
    """Between two thresholds a coin reaches every point of the straight line, which is no line in this scale."""
    drawn: list[str] = []
    last: tuple[float, float] | None = None
    for x, y in points:
        if steps and last is not None:
            parts = 24
            between = [
                (last[0] + (x - last[0]) * i / parts, last[1] + (y - last[1]) * i / parts) for i in range(1, parts)
            ]
            drawn += [f"L{_x(a)} {_y(b)}" for a, b in between]
        drawn.append(f"{'L' if drawn else 'M'}{_x(x)} {_y(y)}")
        last = x, y
    return "".join(drawn)


def _defences(report: Report) -> list[str]:
    if not report.defences:
        return []
    rows = [
        (
            str(defence["name"]),
            str(defence["summary"]) + (f" ({defence['note']})" if defence.get("note") else ""),
            percent(defence["accuracy"]),
            _down(defence["bound"]),
            percent(defence["utility"]),
        )
        for defence in report.defences
    ]
    columns = ("defence", "what it does", "right guesses about the canary", "lower bound on epsilon", "right answers")
    note = "The same canaries and questions against each. Only a method with a stated epsilon has a proof."
    return [
        '<section id="defences"><h2>Defences side by side</h2>',
        f'<p class="note">{note}</p>',
        *_table("defences", columns, rows),
        "</section>",
    ]


def _words() -> list[str]:
    lines = [f"<dt>{_text(word)}</dt><dd>{_text(meaning)}</dd>" for word, meaning in _WORDS]
    return ['<section id="words"><h2>What the words mean</h2><dl>', *lines, "</dl></section>"]


def _setting(report: Report) -> list[str]:
    lines = [f"<li>{_text(note)}</li>" for note in report.notes]
    told = [f"<dt>{_text(str(name))}</dt><dd>{_text(_shown(value))}</dd>" for name, value in report.setting.items()]
    return [
        '<section id="setting"><h2>What was run</h2>',
        *(['<ul class="reading">', *lines, "</ul>"] if lines else []),
        *(["<dl>", *told, "</dl>"] if told else []),
        "</section>",
    ]


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    lines = [f'<div class="scroll" role="region" aria-label="{_text(name)}" tabindex="0"><table>']
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for row in rows:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in row[1:])
        lines.append(f'<tr><th scope="row">{_text(row[0])}</th>{cells}</tr>')
    return [*lines, "</tbody></table></div>"]
