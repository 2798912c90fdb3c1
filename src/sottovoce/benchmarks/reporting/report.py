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
from pathlib import Path
from urllib.parse import quote

from sottovoce.benchmarks.harness.results import Figure, ReportSection, Table
from sottovoce.benchmarks.harness.tables import escaped, rectangle, text_table, text_tables
from sottovoce.benchmarks.reporting import plots
from sottovoce.benchmarks.reporting import styles as plot_styles
from sottovoce.files.outputs import begins_as, write_new
from sottovoce.files.pages import html_page
from sottovoce.files.pages import html_text as _text


def write_report(sections: Sequence[ReportSection], file: Path, *, title: str, introduction: Sequence[str]) -> None:
    """Writes one HTML file that needs no other.

    Args:
        sections: In order.
        file: An earlier report is replaced, and nothing else; its folder is made.
        title: Plain text.
        introduction: Paragraphs of plain text: what was run, on what, and what it cannot show.

    Raises:
        MissingExtraError: If there is a figure and matplotlib is not installed.
    """
    styles = plot_styles.assign_styles(plot_styles.series_of(sections))
    anchors = _anchors([section.experiment for section in sections])
    entries = [
        f'<li><a href="#{anchor}">{_text(section.title)}</a> <span class="source">{_text(section.source)}</span></li>'
        for anchor, section in zip(anchors, sections, strict=True)
    ]
    bodies = [_section(*pair, styles) for pair in zip(anchors, sections, strict=True)]
    body = [
        f"<header>\n<h1>{_text(title)}</h1>",
        *(f"<p>{_text(paragraph)}</p>" for paragraph in introduction),
        "</header>",
        '<nav aria-label="Contents">\n<ol>' if entries else "",
        *entries,
        "</ol>\n</nav>" if entries else "",
        "<main>",
        *bodies,
        "</main>",
    ]
    _write(file, html_page(title, body, mark=plots.MARK), "html")


def write_markdown(
    sections: Sequence[ReportSection], file: Path, *, title: str, introduction: Sequence[str], figures: Path
) -> None:
    """Writes a page of Markdown with links to the PNG files of its figures.

    Args:
        sections: In order.
        file: An earlier report is replaced, and nothing else; its folder is made.
        title: Plain text.
        introduction: Paragraphs of plain text.
        figures: The folder that ``plots.draw_all`` drew into; linked relative to the page.
    """
    lines = [
        str(plots.OPENINGS["md"]).rstrip("\n"),
        f"# {escaped(title)}",
        "",
        *(part for paragraph in introduction for part in (escaped(paragraph), "")),
    ]
    folder = Path(os.path.relpath(figures, file.parent)).as_posix()
    for section in sections:
        lines += [
            f"## {escaped(section.title)}",
            "",
            f"{escaped(section.experiment)}, answers to: {escaped(section.source)}",
            "",
        ]
        lines += [*(f"- {escaped(sentence)}" for sentence in section.reading), ""] if section.reading else []
        lines += [text_tables(section)] if section.tables else []
        for figure in section.figures:
            stem = plots.file_stem(figure, section.experiment)
            lines += [f"![{escaped(alternative(figure))}]({quote(f'{folder}/{stem}.png')})", ""]
            lines += [escaped(figure.note), ""] if figure.note else []
        if section.about:
            about = Table("Measured with", ("what", "value"), section.about)
            lines += [text_table(about)]
    _write(file, "\n".join(lines).rstrip("\n") + "\n", "md")


def alternative(figure: Figure) -> str:
    """One sentence for who cannot see the figure: kind, axes, what is drawn."""
    kind = {"lines": "Lines", "steps": "Step curves", "points": "Points", "bars": "Bars"}.get(figure.kind, "Drawing")
    log = [name for name, is_log in (("horizontal", figure.log_x), ("vertical", figure.log_y)) if is_log]
    axes = f", {' and '.join(log)} axis logarithmic" if log else ""
    names = "; ".join(series.name + (" (reference)" if series.reference else "") for series in figure.series)
    return f"{figure.title}. {kind}: {figure.y_label} against {figure.x_label}{axes}, for: {names or 'nothing'}."


def _section(anchor: str, section: ReportSection, styles: plot_styles.Styles) -> str:
    lines = [
        f'<section id="{anchor}" aria-labelledby="{anchor}-title">',
        f'<h2 id="{anchor}-title">{_text(section.title)}</h2>',
        f'<p class="source"><code>{_text(section.experiment)}</code>, answers to: {_text(section.source)}</p>',
    ]
    if section.reading:
        lines += ['<ul class="reading">', *(f"<li>{_text(sentence)}</li>" for sentence in section.reading), "</ul>"]
    lines += [_html_table(f"{anchor}-table-{place}", table) for place, table in enumerate(section.tables, 1)]
    lines += [_html_figure(figure, styles) for figure in section.figures]
    if section.about:
        lines += ["<details>", "<summary>Measured with</summary>", "<dl>"]
        lines += [f"<dt>{_text(what)}</dt><dd>{_text(value)}</dd>" for what, value in section.about]
        lines += ["</dl>", "</details>"]
    return "\n".join([*lines, "</section>"])


def _html_table(anchor: str, table: Table) -> str:
    columns, rows, numeric = rectangle(table)
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


def _anchors(names: Iterable[str]) -> list[str]:
    """Ids of letters, digits and dashes, each different."""
    anchors: list[str] = []
    for place, name in enumerate(names, 1):
        anchor = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "experiment"
        anchors.append(anchor if anchor not in anchors else f"{anchor}-{place}")
    return anchors


def _write(file: Path, text: str, kind: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_new(file, text, replaces=begins_as(plots.OPENINGS[kind]))
