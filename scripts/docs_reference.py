"""Reference pages from the code itself: every command with its options, every method with its own."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

EXIT_CODES = """
| exit code | meaning |
|---|---|
| 0 | released, or shown |
| 1 | an audit found a violation |
| 2 | bad input or usage; nothing was charged |
| 3 | refused by the budget; nothing was charged |
| 4 | the model failed; what was charged stands |
| 70 | a bug: the message names the place, and quotes nothing; what was charged stands |
| 130 | interrupted; what was charged stands |
| 141 | nobody reads the output any more; what was charged stands |
"""


WIDE = "1e+09"
"""The end of a limit that only keeps out what is no number."""


def command_page() -> str:
    """Markdown of every command and group of ``sotto``."""
    from sottovoce.cli import _build

    root = _build()
    head = "# Commands\n\nWritten from the commands themselves when this site is built.\n" + EXIT_CODES
    return head + "".join(_sections("sotto", root))


def methods_page() -> str:
    """Markdown of every method by what it is for, with the options that ``-o NAME=VALUE`` takes."""
    parts = {
        "fitters": "Paid once: `sotto fit`",
        "methods": "Paid for each answer: `sotto classify`, `sotto ask`",
        "decoders": "Text: `sotto synthesize`",
        "cost_models": "Published releases that `sotto account` prices, drawn here or not",
    }
    told = _methods()
    lines = ["# Methods", "", "Written from the registry when this site is built; `sotto methods` prints the same.", ""]
    for part, title in parts.items():
        lines += [f"## {title}", "", "| method | what | options | source |", "|---|---|---|---|"]
        lines += [_method(row) for row in told[part]] + [""]
    return "\n".join([*lines, "## Mechanisms", "", ", ".join(f"`{name}`" for name in told["mechanisms"]), ""])


def _methods() -> dict[str, Any]:
    command = [sys.executable, "-c", "from sottovoce.cli import main; main()", "methods", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


def _method(row: dict[str, Any]) -> str:
    limits = {name: f": {_cell(limit)}" for name, limit in row["limits"].items() if WIDE not in limit}
    options = "<br>".join(f"`{option}`{limits.get(option.partition('=')[0], '')}" for option in row["options"])
    return f"| `{row['method']}` | {_cell(row['summary'])} | {options} | {_cell(row['source'])} |"


def _sections(name: str, command: Any) -> Iterator[str]:
    """A command, then those under it."""
    if command.hidden:
        return
    yield f"\n## `{name}`\n\n{_prose(command.help)}\n"
    for title, rows in _tables(command):
        yield f"\n{title}\n\n" + "\n".join(rows) + "\n"
    for part in getattr(command, "commands", {}).values():
        yield from _sections(f"{name} {part.name}", part)


def _tables(command: Any) -> Iterator[tuple[str, list[str]]]:
    """Its arguments and options, by the panels of its help."""
    panels: dict[str, list[Any]] = {}
    for param in command.params:
        kind = "Arguments" if param.param_type_name == "argument" else "Options"
        panels.setdefault(getattr(param, "rich_help_panel", None) or kind, []).append(param)
    for title, params in panels.items():
        shown = [_row(param) for param in params if not getattr(param, "hidden", False)]
        if shown:
            yield f"**{title}**", ["| name | value | default | |", "|---|---|---|---|", *shown]


def _row(param: Any) -> str:
    """One line of a table."""
    if param.param_type_name == "argument":
        names = f"`{(param.metavar or param.name).upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
    value = "" if getattr(param, "is_flag", False) else f"`{_value(param)}`"
    default = "required" if param.required else _default(param)
    return f"| {names} | {value} | {default} | {_cell(getattr(param, 'help', '') or '')} |"


def _value(param: Any) -> str:
    """What is given: as the command names it, else its type."""
    return str(param.metavar or param.bare_type().strip("<>"))


def _default(param: Any) -> str:
    told = param.default
    return "" if told in (None, False, (), [], "") or callable(told) else f"`{told}`"


def _cell(text: str) -> str:
    r"""Prose for a table: one line, with ``|``, ``[`` and ``<`` as they are."""
    flat = re.sub(r"\s+", " ", text.replace("\\[", "["))
    return re.sub(r"([|<*_\[\]])", r"\\\1", flat)


def _prose(text: str | None) -> str:
    """Help of a command; paragraphs that are laid out by hand (after a line of ``\\b``) stay so."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text or ""))
    laid_out = [part.startswith("\b") for part in parts]
    return "\n\n".join(
        f"```text\n{part.lstrip(chr(8)).strip()}\n```" if by_hand else _cell(part)
        for part, by_hand in zip(parts, laid_out, strict=True)
    )
