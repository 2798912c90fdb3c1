"""HTML pages that need nothing but themselves: their style is inside; a content policy refuses anything else.

Every text is plain and is escaped for where it stands. There is no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Final

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_text(text: str) -> str:
    """As HTML, in an element or a quoted attribute; without control characters.

    Example:
        >>> html_text("a < b\\x07")
        'a &lt; b '
    """
    return escape("".join(letter if letter.isprintable() else " " for letter in text), quote=True)


def html_page(title: str, body: Sequence[str], *, mark: str, style: str = "") -> str:
    """A whole page.

    Args:
        title: Plain text.
        body: What stands inside the body, as HTML; empty lines are left out.
        mark: Plain text by which the writer knows its own pages again.
        style: CSS beside the common one.
    """
    common = (resources.files(__package__) / "page.css").read_text("utf-8")
    lines = [
        *_first_lines(mark),
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html_text(title)}</title>",
        f"<style>\n{common}{style}</style>",
        "</head>",
        "<body>",
        *body,
        "</body>",
        "</html>",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def page_opening(mark: str) -> str:
    """How every page of a mark begins, by which ``files.outputs.begins_as`` knows it again."""
    return "\n".join([*_first_lines(mark), ""])


def _first_lines(mark: str) -> list[str]:
    return [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta name="generator" content="{html_text(mark)}">',
    ]
