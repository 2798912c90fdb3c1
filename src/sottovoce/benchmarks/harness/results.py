"""What an experiment shows: tables and figures as plain data, to be printed, drawn and put into a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Table:
    """Rows to be printed.

    Attributes:
        title: What the numbers are, units included.
        columns: Headings; the first columns name the row.
        rows: One sequence of finished texts a row.
        note: Read before the numbers: protocol, interval, caveats. May be empty.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@final
@dataclass(frozen=True)
class Series:
    """One line, set of points or group of bars.

    Attributes:
        name: For the legend.
        x: Positions; for bars, the names of the groups.
        y: Values.
        low: Lower ends of intervals, or empty.
        high: Upper ends of intervals, or empty.
        reference: Whether it is a reference without a guarantee or at no cost, drawn in grey and dashed.
    """

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    reference: bool = False


@final
@dataclass(frozen=True)
class Figure:
    """Something to draw.

    Attributes:
        name: File name without ending; unique in its experiment.
        title: One line.
        x_label: With unit.
        y_label: With unit.
        series: What is drawn.
        kind: ``lines``, ``steps`` (empirical curves such as a ROC), ``points`` or ``bars``.
        log_x: Whether the horizontal axis is logarithmic.
        log_y: Whether the vertical axis is logarithmic.
        diagonal: Whether to draw y = x, the line of guessing in a ROC.
        note: A caption.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: str = "lines"
    log_x: bool = False
    log_y: bool = False
    diagonal: bool = False
    note: str = ""


@final
@dataclass(frozen=True)
class ReportSection:
    """All that one experiment shows.

    Attributes:
        experiment: Its name, such as ``poetry-table1``.
        title: What is asked.
        source: The table or figure of the paper it answers to.
        reading: What was found, in plain sentences made from the figures; one a line.
        tables: In order.
        figures: In order.
        about: What it was measured with: model, protocol, machine, versions, commit, seconds.
    """

    experiment: str
    title: str
    source: str
    reading: Sequence[str]
    tables: Sequence[Table]
    figures: Sequence[Figure]
    about: Sequence[tuple[str, str]]
