"""How the series of a report look: the same colour, marker and dash for a name in every figure.

Well-known names have a place of their own, others take the free ones in order of appearance. References are grey.

Sources     Okabe and Ito (2008) for six of the ten colours; Tol (2021) for indigo and wine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from sottovoce.benchmarks.harness.results import ReportSection, Series

PALETTE = (
    "#0072B2",  # blue
    "#D55E00",  # vermillion
    "#009E73",  # green
    "#882255",  # wine
    "#E69F00",  # orange
    "#332288",  # indigo
    "#56B4E9",  # sky
    "#6B4A1E",  # brown
    "#CC79A7",  # pink
    "#111111",  # near black
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LAPS = (("-", ""), ((0, (7, 1, 1, 1)), "///"), ((0, (3, 1)), "..."), ((0, (1, 1)), "xx"))
"""Dash and hatch of the first ten names, the next ten, and so on."""
GREYS = ("#4D4D4D", "#767676", "#8F8F8F", "#A8A8A8")
GREY_DASHES = ((0, (6, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)), (0, (1, 1)))
KNOWN = {
    "poe": 0,
    "votes, exponential": 1,
    "votes, permute-and-flip": 2,
    "votes, gaussian (as published)": 3,
    "prior x poe": 4,
    "pbs": 5,
    "poe groups": 6,
}
KNOWN_REFERENCES = {"full context": 0, "zero-shot": 1, "soft sum": 2, "hard votes": 3}


@final
@dataclass(frozen=True, slots=True)
class Style:
    """How one series looks.

    Attributes:
        color: As ``#RRGGBB``.
        marker: A marker of matplotlib.
        dash: A line style of matplotlib.
        hatch: The pattern of its bars, or empty.
    """

    color: str
    marker: str
    dash: Any
    hatch: str


Styles = Mapping[tuple[str, bool], Style]
"""By name and by whether it is a reference."""


def assign_styles(series: Iterable[Series]) -> dict[tuple[str, bool], Style]:
    """Gives every name its style: known names their own, others the free ones by first appearance.

    Args:
        series: All series of a report, in order; the result suits all of its figures.

    Example:
        >>> styles = assign_styles([Series("mine", [1], [2]), Series("PoE", [1], [3])])
        >>> styles["PoE", False].color, styles["mine", False].color
        ('#0072B2', '#D55E00')
    """
    names = dict.fromkeys((entry.name, entry.reference) for entry in series)
    styles: dict[tuple[str, bool], Style] = {}
    for reference, known, make in ((False, KNOWN, _private_style), (True, KNOWN_REFERENCES, _reference_style)):
        chosen = [name for name, is_reference in names if is_reference is reference]
        places = {name: known[_plain(name)] for name in chosen if _plain(name) in known}
        free = (place for place in range(len(names) + len(known)) if place not in set(places.values()))
        for name in chosen:
            styles[name, reference] = make(places[name] if name in places else next(free))
    return styles


def series_of(sections: Iterable[ReportSection]) -> Iterator[Series]:
    """Every series of every figure, in order."""
    return (series for section in sections for figure in section.figures for series in figure.series)


def _private_style(place: int) -> Style:
    lap, place = divmod(place, len(PALETTE))
    dash, hatch = LAPS[lap % len(LAPS)]
    return Style(PALETTE[place], MARKERS[(place + 3 * lap) % len(MARKERS)], dash, hatch)


def _reference_style(place: int) -> Style:
    lap, place = divmod(place, len(GREYS))
    dash = GREY_DASHES[(place + lap) % len(GREY_DASHES)]
    return Style(GREYS[place], MARKERS[(place + lap) % len(MARKERS)], dash, ("", "////", "....", "xxx")[place])


def _plain(name: str) -> str:
    return " ".join(name.replace("×", "x").lower().split())
