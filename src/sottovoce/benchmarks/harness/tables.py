"""Tables of results as Markdown: columns aligned in the source, and every mark-up escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sottovoce.benchmarks.harness.results import ReportSection, Table

UNITS = frozenset(["e", "x", "s", "ms", "h", "k", "M", "MB", "GB", "to", "of", "nats", "bits", "points", "nan", "inf"])
"""Words in a cell that is still a number."""
BLANK = frozenset(("", "-", "–", "—", "n/a", "none", "nan", "inf", "-inf"))


def text_tables(section: ReportSection) -> str:
    """The tables as Markdown, each under its title in bold; columns are aligned in the source as well.

    Example:
        >>> table = Table("Accuracy (%)", ("method", "accuracy"), [("PoE", "84.2"), ("a|b", "9.0")])
        >>> print(text_tables(ReportSection("e", "t", "s", [], [table], [], [])), end="")
        **Accuracy (%)**
        <BLANKLINE>
        | method | accuracy |
        | ------ | -------: |
        | PoE    |     84.2 |
        | a\\|b   |      9.0 |
    """
    return "\n".join(text_table(table) for table in section.tables)


def text_table(table: Table) -> str:
    columns, rows, numeric = rectangle(table)
    cells = [[escaped(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(3, *(len(row[place]) for row in cells)) for place in range(len(columns))]
    rule = ["-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric, strict=True)]
    lines = [f"**{escaped(table.title)}**", "", *([escaped(table.note), ""] if table.note else [])]
    for row in (cells[0], rule, *cells[1:]):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append(f"| {' | '.join(padded)} |")
    return "\n".join([*lines, ""])


def rectangle(table: Table) -> tuple[list[str], list[list[str]], list[bool]]:
    """Headings, rows of one length (short ones filled with blanks), and which columns hold numbers."""
    width = max([1, len(table.columns), *map(len, table.rows)])
    columns, *rows = ([*row, *[""] * (width - len(row))] for row in (table.columns, *table.rows))
    return columns, rows, [_holds_numbers([row[place] for row in rows]) for place in range(width)]


def _holds_numbers(cells: Iterable[str]) -> bool:
    filled = [cell for cell in cells if cell.strip().lower() not in BLANK]
    return bool(filled) and all(_is_number(cell) for cell in filled)


def _is_number(cell: str) -> bool:
    begins = re.match(r"\s*[<>≤≥≈~±(\[]*\s*[-+−]?[.]?\d", cell)
    return bool(begins) and set(re.findall(r"[^\W\d_]+", cell)) <= UNITS


def escaped(text: str) -> str:
    """As Markdown on one line: what would mark up, link, open HTML, a formula or a list is escaped."""
    text = " ".join(text.split())
    text = re.sub(r"[\\`*\[\]<>|$~]|&(?=[#\w])|(?<!\w)_|_(?!\w)|!(?=\[)", r"\\\g<0>", text)
    return re.sub(
        r"^(?:([#+=-])|(\d+)([.)]))(?=\s|$|[#=-])", lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", text
    )
