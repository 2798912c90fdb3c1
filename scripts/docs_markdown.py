"""Pages that were written for GitHub, as Python-Markdown reads them."""

from __future__ import annotations

import re

ITEM = re.compile(r"(\d+\. |[-*] )")
STEP = 4
"""Spaces by which Python-Markdown wants the parts of an item to be moved in; GitHub takes the width of its mark."""


def from_the_root(text: str) -> str:
    """A page of the repository's root as a page of ``docs``: links lose the folder's name."""
    return re.sub(r"\]\(docs/", "](", text)


def widened(text: str) -> str:
    """Lists whose items have several parts, as Python-Markdown reads them.

    Further paragraphs, tables and code blocks of an item are moved in far enough to stay in it, and the next item after
    them begins behind an empty line.
    """
    lines, width, blank, parts, fenced = [], 0, False, False, False
    for line in text.split("\n"):
        moved = len(line) - len(line.lstrip(" "))
        if line.strip() and not fenced:
            if item := ITEM.match(line):
                if width and parts and not blank:
                    lines.append("")
                width, parts = len(item[0]), False
            elif moved < width and blank:
                width = 0
            parts = parts or blank
        if re.match(r" *```", line):
            fenced = not fenced
        lines.append(" " * (STEP - width) + line if width and moved >= width and line.strip() else line)
        blank = not line.strip()
    return "\n".join(lines)


def bound(text: str) -> str:
    """A number and its percent sign stay on one line, outside of code."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else re.sub(r"(\d) %", "\\1\u00a0%", part) for number, part in enumerate(parts))
