"""What a run was asked for, in words that are compared when it is resumed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

MODELS: Final = "model's "
"""How words begin that tell a model from others of its name."""
_LATER: Final = ("columns", "truncate_at")
_EARLIER: Final = ("isolation",)
"""Words that runs of some kinds do not note any more, since a model settles them as it runs."""


def is_later(name: str) -> bool:
    """Whether runs of earlier builds did not note this word: how their records were read, which weights a model had."""
    return name in _LATER or name.startswith(MODELS)


def is_compared(name: str, noted: Collection[str], asked: Collection[str]) -> bool:
    """Whether a word of a request is held against what a run noted of itself.

    Args:
        name: Of the word.
        noted: The words that the run noted.
        asked: The words of the request.

    Example:
        >>> is_compared("columns", ["method"], ["columns"]), is_compared("epsilon", ["method"], ["epsilon"])
        (False, True)
        >>> is_compared("isolation", ["isolation"], ["method"])
        False
    """
    if name in _EARLIER and name not in asked:
        return False
    return name in noted or not is_later(name)
