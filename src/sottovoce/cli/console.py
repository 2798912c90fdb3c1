"""Writing for people goes to stderr, releases go to stdout, and all of it through the gate of ``terminal``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.privacy.numbers import rounded_up
from sottovoce.terminal import progress, put, put_text, say, table, waiting

if TYPE_CHECKING:
    from sottovoce.models.base import LabelScorer
    from sottovoce.models.stepper import Stepper

__all__ = ["left_in_words", "load_scorer", "load_stepper", "progress", "put", "put_text", "say", "table"]


def load_scorer(model: str, **options: Any) -> LabelScorer:
    """A model that scores labels; on a terminal it is said that it is loaded."""
    from sottovoce.models import registry

    with waiting(f"loading {model}"):
        return registry.load_scorer(model, **options)


def load_stepper(model: str, **options: Any) -> Stepper:
    """A model that writes, likewise."""
    from sottovoce.models import registry

    with waiting(f"loading {model}"):
        return registry.load_stepper(model, **options)


def left_in_words(balance: Any, event: Any) -> str:
    """The balance in one line, with its adjacency."""
    spent = f"{rounded_up(balance.spent)} of {rounded_up(balance.cap)} {balance.budget.currency} spent"
    return (
        f"{spent} (budget {balance.budget}, "
        f"{balance.adjacency.value} adjacency, unit '{balance.unit}'); {balance.answers_left(event)} more answers "
        "fit at this price"
    )
