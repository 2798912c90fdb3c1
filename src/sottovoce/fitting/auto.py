"""``auto``: the method of a fit, from public numbers alone, so that the choice itself costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from sottovoce.methods.base import Price
from sottovoce.privacy.numbers import rounded_up

AUTO: Final = "auto"
"""What is given as the name of a method to have it chosen."""


@final
@dataclass(frozen=True)
class Resolved:
    """A method and why it was chosen.

    Attributes:
        method: Name of a registered fitter.
        why: The reason, in one line.
    """

    method: str
    why: str

    def __str__(self) -> str:
        return f"{self.method}: {self.why}"


def resolve(*, price: Price, labels: int, units: int | None, candidates: int) -> Resolved:
    """The method for a fit. Every argument is public.

    Today it is class means whatever the numbers are, the one method that needs neither public texts nor an answer of
    the model; the reason names the numbers that were looked at.

    Args:
        price: Of the whole fit.
        labels: Number of labels.
        units: Number of units where it is public, else ``None``.
        candidates: Number of public texts that were given.

    Example:
        >>> print(resolve(price=Price(4, 1e-6), labels=6, units=440, candidates=0))
        class-means: it needs no public texts (6 labels, 440 units, 0 public texts, epsilon 4)
    """
    size = "an unknown number of units" if units is None else f"{units} units"
    seen = f"{labels} labels, {size}, {candidates} public texts, epsilon {rounded_up(price.epsilon)}"
    return Resolved("class-means", f"it needs no public texts ({seen})")
