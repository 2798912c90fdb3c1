"""Which method of a mechanism draws, and from what: by its annotations."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, get_type_hints

from sottovoce.mechanisms.base import Mechanism
from sottovoce.randomness import Randomness


@cache
def release_of(mechanism: type[Mechanism]) -> tuple[str, Any]:
    """The public method that draws, and the type of what it takes first.

    Where a subclass has it anew without annotations, those of the class above hold.
    """
    for name, _ in inspect.getmembers(mechanism, inspect.isfunction):
        for kind in () if name.startswith("_") else mechanism.__mro__:
            try:
                hints = get_type_hints(vars(kind)[name])
            except (KeyError, NameError, TypeError):
                continue
            hints.pop("return", None)
            if Randomness in hints.values():
                return name, next(iter(hints.values()))
    return "", None


def takes_prior(mechanism: type[Mechanism] | Mechanism, name: str) -> bool:
    """Whether a mechanism takes a public prior: its law and the method that draws both do."""
    methods = [getattr(mechanism, "law", None), getattr(mechanism, name, None)]
    return all(callable(each) and "log_prior" in inspect.signature(each).parameters for each in methods)
