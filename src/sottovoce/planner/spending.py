"""Two ways to pay for many answers from one budget: a zCDP ledger or a sum of epsilons, whichever affords more."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sottovoce.planner.advise import affordable_epsilon
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.budget import Budget


def budget_for(epsilon: float, delta: float, questions: int, event: Callable[[float], DpEvent]) -> Budget:
    """The form of a budget of (epsilon, delta) that affords the larger price for each of so many answers."""
    forms = [Budget(epsilon, delta), *([Budget.once(epsilon, delta)] if delta else [])]
    return max(forms, key=lambda budget: affordable_epsilon(budget, questions, event) or 0.0)


@lru_cache(maxsize=1024)
def price_of_one(epsilon: float, delta: float, questions: int, event: Callable[[float], DpEvent]) -> float | None:
    """The largest epsilon of an answer that (epsilon, delta) affords for so many; ``None`` if not even the least."""
    return affordable_epsilon(budget_for(epsilon, delta, questions, event), questions, event)
