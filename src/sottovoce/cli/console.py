"""What a command was asked for goes to stdout: ``put``, ``put_text``, ``table``.

Progress, remarks and closing summaries go to stderr: ``progress``, ``say``, ``say_table``. All of it passes the gate of
``terminal``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sottovoce.privacy.numbers import rounded_up
from sottovoce.terminal import losing, progress, put, put_text, read_line, say, say_table, table, waiting

if TYPE_CHECKING:
    from sottovoce.models.base import LabelScorer, Writer
    from sottovoce.models.stepper import Stepper

LOST: Final = "What was charged stands, and answers that were not written are lost"
"""For ``losing``, where answers are printed that may be paid for."""
LOST_WITHOUT_FILE: Final = f"{LOST}: name a file with --out, which keeps them."

__all__ = [
    "LOST",
    "LOST_WITHOUT_FILE",
    "in_percent",
    "left_in_words",
    "load_scorer",
    "load_stepper",
    "load_writer",
    "losing",
    "progress",
    "put",
    "put_text",
    "read_line",
    "say",
    "say_table",
    "table",
    "used_in_words",
]


def load_scorer(model: str, **options: Any) -> LabelScorer:
    """A model that scores labels; on a terminal it is said that it is loaded."""
    from sottovoce.models import registry

    with waiting(f"loading {model}"):
        return registry.load_scorer(model, **options)


def load_stepper(model: str, **options: Any) -> Stepper:
    """A model that writes token by token, likewise."""
    from sottovoce.models import registry

    with waiting(f"loading {model}"):
        return registry.load_stepper(model, **options)


def load_writer(model: str, **options: Any) -> Writer:
    """A model that writes whole texts, likewise."""
    from sottovoce.models import registry

    with waiting(f"loading {model}"):
        return registry.load_writer(model, **options)


def in_percent(share: float, low: float, high: float) -> str:
    """A share with its 95 % interval.

    Example:
        >>> in_percent(0.8, 0.444, 0.975)
        '80.0 % (95 % interval 44.4 to 97.5)'
    """
    return f"{100 * share:.1f} % (95 % interval {100 * low:.1f} to {100 * high:.1f})"


def left_in_words(balance: Any, event: Any) -> str:
    """The balance in one line, with its adjacency."""
    return f"{used_in_words(balance)}; {balance.answers_left(event):,} more answers fit at this price"


def used_in_words(balance: Any) -> str:
    """What was spent, in the unit that was paid in, with its adjacency."""
    delta = f" at delta {rounded_up(balance.budget.delta, 6)}" if balance.budget.delta else ""
    return (
        f"epsilon {rounded_up(balance.epsilon_used)} of {rounded_up(balance.budget.epsilon, 6)} used{delta} "
        f"({balance.adjacency.value} adjacency, unit '{balance.unit}')"
    )
