"""Several attacks on one claim, or several claims: which refutations stand when all of them were looked at.

Guarantee   Whatever the attacks have to do with each other, the chance that any true claim is among the refuted is at
            most alpha (``holm``), and the chance that the best of several bounds is above the truth is at most alpha if
            each was worked out at ``level_of_each``.
Sources     Holm (1979); specification 10.8.
"""

from __future__ import annotations

from collections.abc import Mapping

from sottovoce.errors import ParameterError
from sottovoce.parameters import PLANNED, Number


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values: a claim is refuted at level alpha where its own is at most alpha.

    Args:
        p_values: By the name of the attack, each valid by itself.

    Raises:
        ParameterError: There is none, or one is not from 0 to 1.

    Example:
        >>> {name: round(p, 3) for name, p in holm({"membership": 0.01, "canary": 0.04, "injection": 0.03}).items()}
        {'membership': 0.03, 'canary': 0.06, 'injection': 0.06}
    """
    if not p_values:
        raise ParameterError("p_values", 0, "1 or more attacks")
    for name, p in p_values.items():
        Number(0, 1, words="from 0 to 1").read(f"p-value of {name}", p)
    adjusted, highest = dict[str, float](), 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def level_of_each(alpha: float, attacks: int) -> float:
    """The level at which each of several attacks is bounded, so that their largest bound holds at ``alpha``.

    Example:
        >>> level_of_each(0.05, 4)
        0.0125
    """
    level: float = Number(0, 1, above_least=True, below_most=True).read("alpha", alpha)
    return float(level / PLANNED.read("attacks", attacks))
