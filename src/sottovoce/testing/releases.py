"""Which method of a mechanism draws, and from what: by its annotations. And where a public prior goes in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from types import SimpleNamespace
from typing import Any, Final, final, get_type_hints

from sottovoce.mechanisms.base import Mechanism
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.privacy.points import PrivatePoints
from sottovoce.randomness import Randomness
from sottovoce.testing.report import ContractError

KNOWN: Final = {kind.__name__: kind for kind in (Counts, ItemCounts, Scores, VectorSum, PrivatePoints, Randomness)}
"""Types that an annotation may name without their being imported when it runs."""
LOG_PRIOR: Final = "log_prior"
"""The name that says of a parameter among several that it is the prior."""
_ANY: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@final
@dataclass(frozen=True)
class PriorOf:
    """The parameter by which a law takes a public prior, and that of the method that draws."""

    law: Parameter
    draw: Parameter


@cache
def release_of(mechanism: type[Mechanism]) -> tuple[str, Any]:
    """The public method that draws, and the type of what it takes first.

    Where a subclass has it anew without annotations, those of the class above hold.
    """
    for name, _ in inspect.getmembers(mechanism, inspect.isfunction):
        for kind in () if name.startswith("_") else mechanism.__mro__:
            try:
                hints = _hints(vars(kind)[name])
            except (AttributeError, KeyError, NameError, TypeError):
                continue
            if Randomness in hints.values():
                return name, next(iter(hints.values()))
    return "", None


def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    """What the parameters of a method are annotated with; one of a name that nobody knows says nothing.

    Raises:
        NameError: The first of them is such a name.
    """
    plain = inspect.unwrap(method)
    names = KNOWN | plain.__globals__
    hints = dict[str, Any]()
    for parameter, stated in plain.__annotations__.items():
        if parameter == "return":
            continue
        try:
            hints |= get_type_hints(SimpleNamespace(__annotations__={parameter: stated}), names)
        except NameError:
            if not hints:
                raise
    return hints


@cache
def prior_of(mechanism: type[Mechanism], name: str) -> PriorOf | None:
    """Where a mechanism takes a public prior: its law does, and the method that draws.

    Args:
        mechanism: One that takes scores and states a law of them.
        name: The method that draws.

    Returns:
        ``None`` where one of both takes none.

    Raises:
        ContractError: Both may take one, and it cannot be told by which parameter.
    """
    of_law, of_draw = _further(mechanism, "law", 1), _further(mechanism, name, 2)
    if not of_law or not of_draw:
        return None
    return PriorOf(_prior_among(mechanism, "law", of_law), _prior_among(mechanism, name, of_draw))


def beside_no_law(mechanism: type[Mechanism], name: str) -> str:
    """What the method that draws may take besides, where the law takes nothing besides; empty where there is none."""
    return "" if _further(mechanism, "law", 1) else _listed(_further(mechanism, name, 2))


def given_prior(method: Callable[..., Any], given: tuple[Any, ...], place: Parameter | None, prior: Any) -> Any:
    """What a method returns of what it is given, beside a prior where it has a place for one."""
    if place is None:
        return method(*given)
    if place.kind is Parameter.POSITIONAL_ONLY:
        return method(*given, prior)
    return method(*given, **{place.name: prior})


def _further(mechanism: type[Mechanism], name: str, taken: int) -> list[Parameter]:
    """The parameters of a method behind the first ones, which it is always given."""
    method = getattr(mechanism, name, None)
    if not callable(method):
        return []
    bound = isinstance(inspect.getattr_static(mechanism, name), staticmethod | classmethod)
    given, further = taken + (not bound), list[Parameter]()
    for each in inspect.signature(method).parameters.values():
        if each.kind in _ANY or given == 0 or each.kind is Parameter.KEYWORD_ONLY:
            further.append(each)
        else:
            given -= 1
    return further


def _prior_among(mechanism: type[Mechanism], name: str, further: list[Parameter]) -> Parameter:
    named: Mapping[str, Parameter] = {each.name: each for each in further if each.kind not in _ANY}
    if LOG_PRIOR in named:
        return named[LOG_PRIOR]
    if len(further) > len(named) or len(named) > 1:
        told = f"it cannot be told whether its {name} takes a public prior, among {_listed(further)}"
        raise ContractError("drive", mechanism.__name__, f"{told}; name the prior {LOG_PRIOR}")
    return further[0]


def _listed(parameters: list[Parameter]) -> str:
    return ", ".join(str(each.replace(annotation=Parameter.empty, default=Parameter.empty)) for each in parameters)
