"""Which method of a mechanism draws, and from what: by its annotations."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, get_type_hints

from sottovoce.mechanisms.base import Mechanism
from sottovoce.randomness import Randomness


@cache
def release_of(mechanism: type[Mechanism]) -> tuple[str, Any]:
    """The public method that draws, and the type of what it takes first."""
    for name, method in inspect.getmembers(mechanism, inspect.isfunction):
        if name.startswith("_"):
            continue
        try:
            hints = get_type_hints(method)
        except NameError:
            continue
        hints.pop("return", None)
        if Randomness in hints.values():
            return name, next(iter(hints.values()))
    return "", None
