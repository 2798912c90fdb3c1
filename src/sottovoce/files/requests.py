"""What a run was asked for, in words that are compared when it is resumed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

LATER: Final = ("columns", "truncate_at")
"""Words that runs of earlier builds did not note: how their records were read."""


def is_compared(name: str, noted: Collection[str]) -> bool:
    """Whether a word of a request is held against what a run noted of itself.

    Args:
        name: Of the word.
        noted: The words that the run noted.

    Example:
        >>> is_compared("columns", ["method", "epsilon"]), is_compared("epsilon", ["method"])
        (False, True)
    """
    return name in noted or name not in LATER
