"""``auto``: the method of a fit, from public numbers alone, so that the choice itself costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import registered_fitters
from sottovoce.parameters import options_of
from sottovoce.planner.frontier import BUNDLED, SAME_KIND, packaged_tables
from sottovoce.planner.guide import MADE_UP, OWN, Asked, best_fitter, usable_fitters
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency

AUTO: Final = "auto"
"""What is given as the name of a method to have it chosen."""
USUAL: Final = "class-means"
"""Where nothing measured says more: it does well under every relation, with many records best of all."""


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


def resolve(
    *,
    price: Price,
    labels: int,
    units: int | None,
    candidates: int,
    bundled: bool = False,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    embeds: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Resolved:
    """The method for a fit. Every argument is public.

    Where the number of units is public and there are public texts, it is the method that did best on public sets with
    about as many records, at the same price (``planner.frontier``). Texts that the caller gives are taken to be like
    the records, and label names to mean something to the model unless the option ``prior_weight`` is 0.

    Args:
        price: Of the whole fit.
        labels: Number of labels.
        units: Number of units where it is public, else ``None``.
        candidates: Number of public texts.
        bundled: Whether they are those that ship with the package.
        adjacency: What one change of the data is.
        embeds: Whether the model that answers embeds texts, too; otherwise only demonstrations are of use to it.
        options: That the method must have.

    Raises:
        ParameterError: No method has these options.

    Example:
        >>> print(resolve(price=Price(4, 1e-6), labels=6, units=440, candidates=0))
        class-means: the usual one without public texts (6 labels, 440 units, 0 public texts, epsilon 4)
    """
    wanted = dict(options or {})
    usable = [name for name in usable_fitters(price.delta, embeds, candidates) if _has(name, wanted)]
    if wanted and not usable:
        limit = f"named: no method that suits this price, model and pool has the options {', '.join(wanted)}"
        raise ParameterError("method", AUTO, limit)
    size = "an unknown number of units" if units is None else f"{units} units"
    seen = f"{labels} labels, {size}, {candidates} public texts, epsilon {rounded_up(price.epsilon)}"
    usual = USUAL if USUAL in usable or not usable else usable[0]
    if units is None:
        return Resolved(usual, f"the usual one where the number of units is private ({seen})")
    if not candidates:
        return Resolved(usual, f"the usual one without public texts ({seen})")
    asked = Asked(
        max(units, 1),
        max(labels, 2),
        1,
        price.epsilon,
        price.delta,
        adjacency,
        MADE_UP if str(wanted.get("prior_weight")) in ("0", "0.0") else OWN,
        BUNDLED if bundled else SAME_KIND,
    )
    best = best_fitter(asked, usable, packaged_tables())
    if best is None:
        return Resolved(usual, f"the usual one where nothing was measured ({seen})")
    return Resolved(best.method, f"best on public sets like this, {best.lead.mean:+.0f} points to zero-shot ({seen})")


def _has(name: str, options: Mapping[str, Any]) -> bool:
    return set(options) <= set(options_of(registered_fitters()[name]))
