"""Accuracy along one axis: a figure for each task and kind of names with a line for each method, and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import flat, kinds, series
from sottovoce.benchmarks.harness.experiment import Result
from sottovoce.benchmarks.harness.results import Figure, Table

NOTE = "Percent right, mean and standard error over seeds."


def sweep_figures(
    result: Result,
    axis: str,
    x: Sequence[float],
    x_label: str,
    methods: Sequence[str],
    place: Callable[[float], dict[str, Any]],
    fixed: dict[str, Any],
    *,
    log_x: bool = False,
    references: Callable[[float], dict[str, Any]] | None = None,
) -> list[Figure]:
    """One figure a task and kind of names, under the last adjacency of the settings; the tables have them all.

    Args:
        result: Where the cells are.
        axis: For the figures' names.
        x: Positions.
        x_label: With unit.
        methods: One line each.
        place: The part of a cell's key that follows from the position.
        fixed: The part that does not.
        log_x: Whether the axis is logarithmic.
        references: The key of full context, soft sum and hard votes at a position.
    """
    figures = []
    for task, names in kinds(result):
        about = {"task": task, "names": names}
        for adjacency in result.settings.adjacencies[-1:]:
            lines = [flat(e.ZERO_SHOT, x, result.cell(**about, method=e.ZERO_SHOT))]
            for method in (e.FULL, e.SOFT, e.HARD):
                if references:
                    lines.append(series(method, x, [result.cell(**about, method=method, **references(v)) for v in x]))
            for method in methods:
                cells = [result.cell(**about, method=method, adjacency=adjacency, **fixed, **place(v)) for v in x]
                lines.append(series(method, x, cells))
            short = "own" if names == "own" else "made-up"
            conditions = [f"epsilon {fixed['epsilon']:g}"] if "epsilon" in fixed else []
            conditions += [f"{fixed['records']} records"] if "records" in fixed else []
            figures.append(
                Figure(
                    f"{axis}-{task}-{short}-{adjacency}",
                    ", ".join([f"{task}, {names} names", *conditions, adjacency]),
                    x_label,
                    "right answers, percent",
                    lines,
                    log_x=log_x,
                    note="Two standard errors over seeds. Grey: no guarantee, or nothing read.",
                )
            )
    return figures


def sweep_tables(
    result: Result,
    head: str,
    x: Sequence[float],
    methods: Sequence[str],
    place: Callable[[float], dict[str, Any]],
    fixed: dict[str, Any],
    title: str,
) -> list[Table]:
    """One table an adjacency: a row for each task, kind of names and method, a column for each position."""
    tables = []
    for adjacency in result.settings.adjacencies:
        rows = []
        for task, names in kinds(result):
            for method in methods:
                at = {"task": task, "names": names, "method": method, "adjacency": adjacency, **fixed}
                cells = [result.cell(**at, **place(v)) for v in x]
                if any(cells):
                    rows.append((task, names, method, *(str(cell) if cell else "" for cell in cells)))
        columns = ("task", "label names", "method", *(f"{head} {value:g}" for value in x))
        tables.append(Table(f"{title}, {adjacency}", columns, rows, NOTE))
    return tables
