"""Puts what experiments show into one HTML file, or into Markdown beside drawn figures.

The HTML needs nothing but itself: its style sheet is inside, figures are SVG images in data URIs (where the ids of one
drawing cannot meet those of another), there is no script, and a content policy has the browser refuse anything from
elsewhere. Every text is plain and is escaped for where it stands: names of series, tasks and models come from files.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from sottovoce.benchmarks import plot_styles, plots
from sottovoce.benchmarks.exhibits import Exhibit, Figure, Table
from sottovoce.output_files import marked, write_new

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
UNITS = frozenset(["e", "x", "s", "ms", "h", "k", "M", "MB", "GB", "to", "of", "nats", "bits", "points", "nan", "inf"])
"""Words in a cell that is still a number."""
BLANK = frozenset(("", "-", "–", "—", "n/a", "none", "nan", "inf", "-inf"))


def write_report(exhibits: Sequence[Exhibit], file: Path, *, title: str, introduction: Sequence[str]) -> None:
    """Writes one HTML file that needs no other.

    Args:
        exhibits: In order.
        file: An earlier report is replaced, and nothing else; its folder is made.
        title: Plain text.
        introduction: Paragraphs of plain text: what was run, on what, and what it cannot show.

    Raises:
        MissingExtraError: If there is a figure and matplotlib is not installed.
    """
    styles = plot_styles.assign_styles(plot_styles.series_of(exhibits))
    anchors = _anchors([exhibit.experiment for exhibit in exhibits])
    entries = [
        f'<li><a href="#{anchor}">{_text(exhibit.title)}</a> <span class="source">{_text(exhibit.source)}</span></li>'
        for anchor, exhibit in zip(anchors, exhibits, strict=True)
    ]
    sections = [_section(*one, styles) for one in zip(anchors, exhibits, strict=True)]
    style = (resources.files("sottovoce.benchmarks") / "report.css").read_text("utf-8")
    page = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta name="generator" content="{plots.MARK}">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title>",
        f"<style>\n{style}</style>",
        "</head>",
        "<body>",
        f"<header>\n<h1>{_text(title)}</h1>",
        *(f"<p>{_text(paragraph)}</p>" for paragraph in introduction),
        "</header>",
        '<nav aria-label="Contents">\n<ol>' if entries else "",
        *entries,
        "</ol>\n</nav>" if entries else "",
        "<main>",
        *sections,
        "</main>",
        "</body>",
        "</html>",
    ]
    _write(file, (line for line in page if line))


def write_markdown(
    exhibits: Sequence[Exhibit], file: Path, *, title: str, introduction: Sequence[str], figures: Path
) -> None:
    """Writes a page of Markdown with links to the PNG files of its figures.

    Args:
        exhibits: In order.
        file: An earlier report is replaced, and nothing else; its folder is made.
        title: Plain text.
        introduction: Paragraphs of plain text.
        figures: The folder that :func:`sottovoce.benchmarks.plots.draw_all` drew into; linked relative to the page.
    """
    lines = [
        f"<!-- {plots.MARK} -->",
        f"# {_mark(title)}",
        "",
        *(part for paragraph in introduction for part in (_mark(paragraph), "")),
    ]
    folder = Path(os.path.relpath(figures, file.parent)).as_posix()
    for exhibit in exhibits:
        lines += [
            f"## {_mark(exhibit.title)}",
            "",
            f"{_mark(exhibit.experiment)}, answers to: {_mark(exhibit.source)}",
            "",
        ]
        lines += [*(f"- {_mark(sentence)}" for sentence in exhibit.reading), ""] if exhibit.reading else []
        lines += [text_tables(exhibit)] if exhibit.tables else []
        for figure in exhibit.figures:
            stem = plots.file_stem(figure, exhibit.experiment)
            lines += [f"![{_mark(alternative(figure))}]({quote(f'{folder}/{stem}.png')})", ""]
            lines += [_mark(figure.note), ""] if figure.note else []
        if exhibit.about:
            about = Table("Measured with", ("what", "value"), exhibit.about)
            lines += [_text_table(about)]
    _write(file, ["\n".join(lines).rstrip("\n")])


def text_tables(exhibit: Exhibit) -> str:
    """The tables as Markdown, each under its title in bold; columns are aligned in the source as well.

    Example:
        >>> table = Table("Accuracy (%)", ("method", "accuracy"), [("PoE", "84.2"), ("a|b", "9.0")])
        >>> print(text_tables(Exhibit("e", "t", "s", [], [table], [], [])), end="")
        **Accuracy (%)**
        <BLANKLINE>
        | method | accuracy |
        | ------ | -------: |
        | PoE    |     84.2 |
        | a\\|b   |      9.0 |
    """
    return "\n".join(_text_table(table) for table in exhibit.tables)


def alternative(figure: Figure) -> str:
    """One sentence for who cannot see the figure: kind, axes, what is drawn."""
    kind = {"lines": "Lines", "steps": "Step curves", "points": "Points", "bars": "Bars"}.get(figure.kind, "Drawing")
    log = [name for name, is_log in (("horizontal", figure.log_x), ("vertical", figure.log_y)) if is_log]
    axes = f", {' and '.join(log)} axis logarithmic" if log else ""
    names = "; ".join(one.name + (" (reference)" if one.reference else "") for one in figure.series)
    return f"{figure.title}. {kind}: {figure.y_label} against {figure.x_label}{axes}, for: {names or 'nothing'}."


def _section(anchor: str, exhibit: Exhibit, styles: plot_styles.Styles) -> str:
    lines = [
        f'<section id="{anchor}" aria-labelledby="{anchor}-title">',
        f'<h2 id="{anchor}-title">{_text(exhibit.title)}</h2>',
        f'<p class="source"><code>{_text(exhibit.experiment)}</code>, answers to: {_text(exhibit.source)}</p>',
    ]
    if exhibit.reading:
        lines += ['<ul class="reading">', *(f"<li>{_text(sentence)}</li>" for sentence in exhibit.reading), "</ul>"]
    lines += [_html_table(f"{anchor}-table-{place}", table) for place, table in enumerate(exhibit.tables, 1)]
    lines += [_html_figure(figure, styles) for figure in exhibit.figures]
    if exhibit.about:
        lines += ["<details>", "<summary>Measured with</summary>", "<dl>"]
        lines += [f"<dt>{_text(what)}</dt><dd>{_text(value)}</dd>" for what, value in exhibit.about]
        lines += ["</dl>", "</details>"]
    return "\n".join([*lines, "</section>"])


def _html_table(anchor: str, table: Table) -> str:
    columns, rows, numeric = _rectangle(table)
    sides = [' class="number"' if is_number else "" for is_number in numeric]
    heads = [f'<th scope="col"{side}>{_text(name)}</th>' for name, side in zip(columns, sides, strict=True)]
    lines = [f'<h3 id="{anchor}">{_text(table.title)}</h3>']
    lines += [f'<p class="note">{_text(table.note)}</p>'] if table.note else []
    lines += [f'<div class="scroll" role="region" aria-labelledby="{anchor}" tabindex="0">']
    lines += [f'<table aria-labelledby="{anchor}">', f"<thead><tr>{''.join(heads)}</tr></thead>", "<tbody>"]
    for row in rows:
        cells = [f"<td{side}>{_text(cell)}</td>" for cell, side in zip(row[1:], sides[1:], strict=True)]
        lines.append(f'<tr><th scope="row"{sides[0]}>{_text(row[0])}</th>{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def _html_figure(figure: Figure, styles: plot_styles.Styles) -> str:
    drawing = b64encode(plots.render(figure, ("svg",), styles=styles)["svg"]).decode("ascii")
    image = f'<img alt="{_text(alternative(figure))}" src="data:image/svg+xml;base64,{drawing}">'
    caption = f"\n<figcaption>{_text(figure.note)}</figcaption>" if figure.note else ""
    return f"<figure>\n{image}{caption}\n</figure>"


def _text_table(table: Table) -> str:
    columns, rows, numeric = _rectangle(table)
    cells = [[_mark(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(3, *(len(row[place]) for row in cells)) for place in range(len(columns))]
    rule = ["-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric, strict=True)]
    lines = [f"**{_mark(table.title)}**", "", *([_mark(table.note), ""] if table.note else [])]
    for row in (cells[0], rule, *cells[1:]):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append(f"| {' | '.join(padded)} |")
    return "\n".join([*lines, ""])


def _rectangle(table: Table) -> tuple[list[str], list[list[str]], list[bool]]:
    """Headings, rows of one length (short ones filled with blanks), and which columns hold numbers."""
    width = max([1, len(table.columns), *map(len, table.rows)])
    columns, *rows = ([*row, *[""] * (width - len(row))] for row in (table.columns, *table.rows))
    return columns, rows, [_holds_numbers([row[place] for row in rows]) for place in range(width)]


def _holds_numbers(cells: Iterable[str]) -> bool:
    said = [cell for cell in cells if cell.strip().lower() not in BLANK]
    return bool(said) and all(_is_number(cell) for cell in said)


def _is_number(cell: str) -> bool:
    begins = re.match(r"\s*[<>≤≥≈~±(\[]*\s*[-+−]?[.]?\d", cell)
    return bool(begins) and set(re.findall(r"[^\W\d_]+", cell)) <= UNITS


def _anchors(names: Iterable[str]) -> list[str]:
    """Ids of letters, digits and dashes, each different."""
    found: list[str] = []
    for place, name in enumerate(names, 1):
        anchor = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "experiment"
        found.append(anchor if anchor not in found else f"{anchor}-{place}")
    return found


def _text(text: str) -> str:
    """As HTML, in an element or a quoted attribute; without control characters."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text), quote=True)


def _mark(text: str) -> str:
    """As Markdown on one line: what would mark up, link, open HTML, a formula or a list is escaped."""
    text = " ".join(text.split())
    text = re.sub(r"[\\`*\[\]<>|$~]|&(?=[#\w])|(?<!\w)_|_(?!\w)|!(?=\[)", r"\\\g<0>", text)
    return re.sub(
        r"^(?:([#+=-])|(\d+)([.)]))(?=\s|$|[#=-])", lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", text
    )


def _write(file: Path, lines: Iterable[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_new(file, "\n".join(lines) + "\n", replaces=marked(plots.MARK))
