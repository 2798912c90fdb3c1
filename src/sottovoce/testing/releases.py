"""Which method of a mechanism draws, and from what: by its annotations. And where a public prior goes in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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
"""The usual name of a prior, which says of a parameter among several that it is the one."""
_PRIOR: Final = "prior"
"""Stands in every name of one."""
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
    """Where a mechanism takes a public prior, which is log-weights: its law does, and the method that draws.

    It is the parameter whose name has ``prior`` in it, or the only one that both take besides, by one name.

    Args:
        mechanism: One that takes scores and states a law of them.
        name: The method that draws.

    Returns:
        ``None`` where one of both takes nothing that may be a prior.

    Raises:
        ContractError: One takes a prior, and it cannot be told whether something that the other takes is one.
    """
    law, draw = _further(mechanism, "law", 1), _further(mechanism, name, 2)
    of_law, of_draw = _prior_among(mechanism, "law", law), _prior_among(mechanism, name, draw)
    if of_law and of_draw:
        return PriorOf(of_law, of_draw)
    if of_law or of_draw:
        method, others = (name, draw) if of_law else ("law", law)
        if others:
            raise _untold(mechanism, method, others)
        return None
    if len(law) == len(draw) == 1 and law[0].name == draw[0].name and law[0].kind not in _ANY:
        return PriorOf(law[0], draw[0])
    return None


def beside_no_law(mechanism: type[Mechanism], name: str) -> str:
    """What the method that draws may take besides, where its law takes no such thing; empty where there is none."""
    known = {each.name for each in _further(mechanism, "law", 1)}
    prior = prior_of(mechanism, name)
    return _listed(
        [each for each in _further(mechanism, name, 2) if each.name not in known and not (prior and each is prior.draw)]
    )


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


def _prior_among(mechanism: type[Mechanism], name: str, further: list[Parameter]) -> Parameter | None:
    """The parameter of a method that is a prior by its name."""
    named = [each for each in further if each.kind not in _ANY and _PRIOR in each.name]
    usual = [each for each in named if each.name == LOG_PRIOR]
    if len(named) > 1 and not usual:
        raise _untold(mechanism, name, named)
    return next(iter(usual or named), None)


def _untold(mechanism: type[Mechanism], name: str, among: list[Parameter]) -> ContractError:
    told = f"it cannot be told whether its {name} takes a public prior, among {_listed(among)}"
    return ContractError("drive", mechanism.__name__, f"{told}; name the prior {LOG_PRIOR}")


def _listed(parameters: list[Parameter]) -> str:
    return ", ".join(str(each.replace(annotation=Parameter.empty, default=Parameter.empty)) for each in parameters)
