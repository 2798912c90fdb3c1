"""A price on its own: public parameters, parts, and a paper's claim.

A cost model is one file of ``explain.cost_models``. It prices steps in general, or variants of a private long answer
that nothing here draws; what an answerer of its name draws is explained by that answerer's plan (``drawn``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

from sottovoce.errors import ParameterError
from sottovoce.explain.subject import ALIASES, Change, Subject, plain, sorted_out
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Checked, limits_of, options_of
from sottovoce.privacy.unit import Adjacency
from sottovoce.registry import Registry


@dataclass(frozen=True)
class CostModel(Checked, Subject):
    """A frozen dataclass of public parameters. ``calibrated_parameter`` names the one that a price may set."""

    name: ClassVar[str]  # type: ignore[misc]
    summary: ClassVar[str]
    source: ClassVar[str]
    calibrated_parameter: ClassVar[str | None] = None
    names: ClassVar[Mapping[str, str]] = {}
    """What the answerer of this name calls options that have another name here."""

    @classmethod
    def drawn(cls, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """The options as the answerer of this name has them; ``None`` for a variant that nothing here draws."""
        return dict(values)

    @abstractmethod
    def released(self, adjacency: Adjacency) -> Sequence[Part]:
        """What one answer releases. The noise must be set."""

    def parts(self, change: Change) -> Sequence[Part]:
        return self.released(change.adjacency)

    @property
    def title(self) -> str:
        return f"{self.summary} ({self.source})"

    @property
    def calibrated(self) -> str | None:
        return self.calibrated_parameter

    @property
    def open_parameter(self) -> str | None:
        return (
            self.calibrated_parameter
            if self.calibrated_parameter and getattr(self, self.calibrated_parameter) is None
            else None
        )

    def with_noise(self, value: float) -> Self:
        return replace(self, **{str(self.calibrated_parameter): value})

    @property
    def used(self) -> dict[str, Any]:
        return {f.name: plain(value) for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def needs(self, *names: str) -> None:
        """Refuses absent parameters that this variant needs, and given ones that it does not have."""
        limits = limits_of(type(self))
        for name in {n for n, (_, optional) in limits.items() if optional} - set(names):
            if getattr(self, name) is not None:
                raise ParameterError(
                    name, getattr(self, name), f"absent: this variant of {self.name} has no such option"
                )
        for name in names:
            if getattr(self, name) is None and name != self.calibrated_parameter:
                raise ParameterError(name, None, f"given, as {limits[name][0].limit}")

    @classmethod
    def make(cls, values: dict[str, Any]) -> Self:
        """The model with these parameters, as numbers or as text.

        Raises:
            ParameterError: It has no such option, or one is missing or out of range.
        """
        options = options_of(cls)
        aliases = {alias: name for alias, name in ALIASES.items() if name in options}
        settings = sorted_out(cls.name, values, options, aliases)
        for option in options.values():
            if option.default is MISSING and option.name not in settings:
                raise ParameterError(option.name, None, f"given, as {option.limit}")
        return cls(**settings)


_COST_MODELS = Registry[type[CostModel]]("cost model", "sottovoce.explain.cost_models")
M = TypeVar("M", bound=type[CostModel])


def register_cost_model(name: str, *, summary: str, source: str) -> Callable[[M], M]:
    """Enrols a cost model under its published name, for ``sotto account``."""

    def enrol(cls: M) -> M:
        cls.name, cls.summary, cls.source = name, summary, source
        _COST_MODELS.enter(name, cls)
        return cls

    return enrol


def registered_cost_models() -> dict[str, type[CostModel]]:
    """Every cost model by name.

    Example:
        >>> list(registered_cost_models())
        ['augment', 'dpm', 'esa', 'exponential', 'ksa', 'sga']
    """
    return _COST_MODELS.all()
