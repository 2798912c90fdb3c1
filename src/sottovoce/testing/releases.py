"""Which method of a mechanism draws, and from what: by its annotations. And what it may be given besides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
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
"""The usual name of a prior, which says of two parameters of a law that it is the one."""
_PRIOR: Final = "prior"
"""Stands in every name of one."""
_SOURCE: Final = "randomness"
_SOURCE_TYPE: Final = Randomness.__name__
_TAKES: Final[dict[Any, tuple[int, Collection[str]]]] = {
    int: (1, ("sensitivity", "adjacency", "randomness")),
    PrivatePoints: (2, ("public",)),
}
"""How much is given by place to a method that draws, and what is given by name; to others two things by place."""
_ANY: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@final
@dataclass(frozen=True)
class PriorOf:
    """The parameter by which a law takes a public prior, and that of the method that draws."""

    law: Parameter
    draw: Parameter


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


def _ways_to_draw(mechanism: type[Mechanism]) -> Iterator[str]:
    """Every public method, of an instance or of the class, that may be given a source of noise, by name or type."""
    for name, method in inspect.getmembers(mechanism, inspect.isroutine):
        if not name.startswith("_") or name == "__call__":
            try:
                parameters = inspect.signature(method).parameters.values()
            except ValueError:  # of a function of C, which is given no source
                continue
            if any(each.name == _SOURCE or _SOURCE_TYPE in str(each.annotation) for each in parameters):
                yield name


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
    """Where a mechanism takes a public prior, which is log-weights: the method that draws does, and its law.

    It is the parameter whose name has ``prior`` in it.

    Args:
        mechanism: One that takes scores and states a law of them.
        name: The method that draws.

    Returns:
        ``None`` where the method that draws takes nothing besides.

    Raises:
        ContractError: It takes something else besides, or a prior that its law does not take.
    """
    draw = _further(mechanism, name, 2)
    if not draw:
        return None
    priors = [each for each in _further(mechanism, "law", 1) if _is_prior(each)]
    if usual := [each for each in priors if each.name == LOG_PRIOR]:
        priors = usual
    if len(draw) > 1 or not _is_prior(draw[0]) or len(priors) != 1:
        raise _untold(mechanism, name, draw, f"A public prior, {LOG_PRIOR}, is known where its law takes it too.")
    return PriorOf(priors[0], draw[0])


def require_comparable(mechanism: type[Mechanism]) -> None:
    """Refuses a mechanism that may draw in another way than is compared: by a second method, or beside what no contract
    gives it.

    Raises:
        ContractError: It may.
    """
    name, takes = release_of(mechanism)
    if others := [each for each in _ways_to_draw(mechanism) if each != name]:
        several = " and ".join((name, *others))
        problem = f"{several} both draw, and one of them is compared: let one be a mechanism of its own"
        raise ContractError("drive", mechanism.__name__, problem)
    if takes is Scores:
        prior_of(mechanism, name)
        return
    taken, known = _TAKES.get(takes, (2, ()))
    if more := [each for each in _further(mechanism, name, taken) if each.name not in known]:
        raise _untold(mechanism, name, more)


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


def _is_prior(parameter: Parameter) -> bool:
    """Whether it is a prior, by its name."""
    return parameter.kind not in _ANY and _PRIOR in parameter.name


def _untold(mechanism: type[Mechanism], name: str, besides: list[Parameter], more: str = "") -> ContractError:
    listed = ", ".join(str(each.replace(annotation=Parameter.empty, default=Parameter.empty)) for each in besides)
    problem = f"its {name} may be given {listed} besides, and is compared without: make it a field of the mechanism"
    return ContractError("drive", mechanism.__name__, f"{problem}. {more}".rstrip(". "))
