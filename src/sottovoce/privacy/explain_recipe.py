"""What a method is to an explanation: parts that are rows of the master table, a dial for its noise, a paper's claim.

Guarantee   A recipe's parts are all that an answer releases; everything else it does is post-processing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Final, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.checked import Checked, limits_of
from sottovoce.privacy.explain_claims import Claim
from sottovoce.privacy.master_table import Row
from sottovoce.privacy.unit import Adjacency

DIALS: Final = {
    "exponential": "rate",
    "permute_and_flip": "rate",
    "laplace": "scale",
    "gaussian": "sigma",
    "em": "rate",
}
"""Which parameter sets the noise of which kind."""


@final
@dataclass(frozen=True)
class Part:
    """One row of the table, released ``count`` times an answer."""

    row: Row
    count: int = 1


class Recipe(Checked, ABC):
    """A method with its public parameters. The dial is the one that --epsilon may set."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    placed: ClassVar[bool] = True
    """Whether its records sit in expert slots, so that table 2.2 says what one unit changes."""
    most_steps: ClassVar[int] = 10**9
    """Steps that can be priced in all."""

    @property
    def dial(self) -> str | None:
        """The parameter that sets the noise."""
        return None

    @abstractmethod
    def parts(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> tuple[Part, ...]:
        """What one answer releases. The dial must be set."""

    @property
    def steps(self) -> int:
        """Adaptive steps of one answer."""
        return sum(part.count * part.row.steps for part in self.parts())

    def claim(self) -> Claim | None:
        """What the paper states."""
        return None

    @property
    def used(self) -> dict[str, Any]:
        """The parameters that were given or have a default."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def needs(self, *names: str) -> None:
        """Refuses absent parameters that this variant needs, and given ones that it does not have."""
        variants = {n for n, (_, optional) in _limits(type(self)).items() if optional} - set(names)
        for name in variants:
            if getattr(self, name) is not None:
                raise ParameterError(
                    name, getattr(self, name), f"absent: this variant of {self.name} has no such option"
                )
        for name in names:
            if getattr(self, name) is None and name != self.dial:
                raise ParameterError(name, None, f"given, as {_limits(type(self))[name][0].limit}")


def _limits(cls: type) -> dict[str, Any]:

    return limits_of(cls)


MODULES: Final = ("explain_methods", "explain_decoding")
_RECIPES: dict[str, type[Recipe]] = {}
R = TypeVar("R", bound=type[Recipe])


def recipe(name: str, *, title: str, source: str) -> Callable[[R], R]:
    """Enters a method."""

    def enter(cls: R) -> R:
        cls.name, cls.title, cls.source = name, title, source
        _RECIPES[name] = cls
        return cls

    return enter


def recipes() -> dict[str, type[Recipe]]:
    """Every method by name.

    Example:
        >>> sorted(recipes())[:3]
        ['amin', 'dpm', 'esa']
    """
    for module in MODULES:
        import_module(f"sottovoce.privacy.{module}")
    return dict(_RECIPES)


def make_recipe(name: str, **options: object) -> Recipe:
    """Builds a method from options, as text or as numbers.

    Raises:
        ParameterError: There is no such method, it has no such option, or an option is missing or out of range.

    Example:
        >>> make_recipe("prism", batch="255", temperature="1.02", tokens=100).steps
        100
    """
    if name not in recipes():
        raise ParameterError("method", name, f"one of {', '.join([*sorted(_RECIPES), 'events'])}")
    cls = _RECIPES[name]
    known = {field.name: field for field in fields(cls)}
    for option, value in options.items():
        if option not in known:
            raise ParameterError(option, value, f"absent: {name} has {', '.join(known)}")
    for option, (limit, optional) in _limits(cls).items():
        if known[option].default is MISSING and not optional and option not in options:
            raise ParameterError(option, None, f"given, as {limit.limit}")
    return cls(**options)
