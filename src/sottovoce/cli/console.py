"""What a command was asked for goes to stdout: ``put``, ``put_text``, ``table``.

Progress, remarks and closing summaries go to stderr: ``progress``, ``say``, ``say_table``. All of it passes the gate of
``terminal``.
"""

from __future__ import annotations

from typing import Any

from sottovoce.privacy.numbers import rounded_up
from sottovoce.terminal import progress, put, put_text, read_line, say, say_table, table

__all__ = ["left_in_words", "progress", "put", "put_text", "read_line", "say", "say_table", "table"]


def left_in_words(balance: Any, event: Any) -> str:
    """The balance in one line, with its adjacency."""
    spent = f"{rounded_up(balance.spent)} of {rounded_up(balance.cap)} {balance.budget.currency} spent"
    return (
        f"{spent} (budget {balance.budget}, "
        f"{balance.adjacency.value} adjacency, unit '{balance.unit}'); {balance.answers_left(event)} more answers "
        "fit at this price"
    )
