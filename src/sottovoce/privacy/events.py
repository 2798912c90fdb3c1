"""What was done to private data, in the vocabulary that accountants price.

Events are ``dp_accounting`` events. Where that library has one that fits, it is used: ``ZCDpEvent`` for the discrete
Gaussian, ``GaussianDpEvent`` for the continuous one (its noise multiplier is 1/mu) and its correctly rounded form,
``PoissonSampledDpEvent``, ``SampledWithoutReplacementDpEvent``, ``NoOpDpEvent``, ``NonPrivateDpEvent``,
``SelfComposedDpEvent``, ``ComposedDpEvent``. It has none for selections, for releases that may fail with a small
probability, nor for a single (epsilon, delta) point; those are here. An accountant that does not know an event refuses
it by name. An event's parameters are worked out for one adjacency, which whoever prices it has to state.

Sources     Durfee and Rogers (2019) for bounded range; specification T1, 5.2, 5.5.3 and 6.1.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attr


def _dp_event() -> Any:
    """The module ``dp_accounting.dp_event`` by itself: its package imports all its accountants, which take a second.

    It is entered under its own name, so that who imports the package later finds the same classes.
    """
    name = "dp_accounting.dp_event"
    if name not in sys.modules:
        package = find_spec("dp_accounting")
        folder = Path(next(iter(package.submodule_search_locations or ()))) if package else Path()
        spec = spec_from_file_location(name, folder / "dp_event.py")
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError("No module named 'dp_accounting'", name="dp_accounting")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


if TYPE_CHECKING:
    from dp_accounting.dp_event import (
        ComposedDpEvent,
        DpEvent,
        GaussianDpEvent,
        NonPrivateDpEvent,
        NoOpDpEvent,
        PoissonSampledDpEvent,
        SampledWithoutReplacementDpEvent,
        SelfComposedDpEvent,
        ZCDpEvent,
    )
else:
    _found = _dp_event()
    ComposedDpEvent = _found.ComposedDpEvent
    DpEvent = _found.DpEvent
    GaussianDpEvent = _found.GaussianDpEvent
    NonPrivateDpEvent = _found.NonPrivateDpEvent
    NoOpDpEvent = _found.NoOpDpEvent
    PoissonSampledDpEvent = _found.PoissonSampledDpEvent
    SampledWithoutReplacementDpEvent = _found.SampledWithoutReplacementDpEvent
    SelfComposedDpEvent = _found.SelfComposedDpEvent
    ZCDpEvent = _found.ZCDpEvent

__all__ = [
    "ApproximateDP",
    "BoundedRange",
    "ComposedDpEvent",
    "DpEvent",
    "GaussianDpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "PoissonSampledDpEvent",
    "PureDP",
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "WithFailure",
    "ZCDpEvent",
    "describe",
    "is_private",
]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRange(DpEvent):  # type: ignore[misc]
    """A selection whose privacy loss lies in some interval of length ``eta`` that holds zero.

    The exponential mechanism is one. It is eta-DP, and composes better than pure DP alone would.

    Attributes:
        eta: Length of the interval, in nats.
    """

    eta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDP(DpEvent):  # type: ignore[misc]
    """A release with pure differential privacy and no better property, such as permute-and-flip.

    Attributes:
        epsilon: Largest absolute privacy loss, in nats.
    """

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ApproximateDP(DpEvent):  # type: ignore[misc]
    """One point of a privacy profile, fixed before the release: what an amplified or planned release is charged as.

    Attributes:
        epsilon: Privacy loss, in nats.
        delta: Probability mass not covered by it.
    """

    epsilon: float
    delta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class WithFailure(DpEvent):  # type: ignore[misc]
    """A release that keeps no promise with probability ``delta`` and is ``event`` otherwise.

    Attributes:
        event: What it is when it does not fail.
        delta: Probability of a failure; goes to the budget's failure share.
        exclusive: Whether no pair of neighbours can both suffer the loss and the failure, so that a single release has
            the maximum of the two deltas, not their sum (propose-test-release). A composition still adds them.
    """

    event: DpEvent
    delta: float
    exclusive: bool = False


def is_private(event: Any) -> bool:
    """Whether the event has a finite price at all."""
    if isinstance(event, WithFailure | PoissonSampledDpEvent | SampledWithoutReplacementDpEvent):
        return is_private(event.event)
    if isinstance(event, ComposedDpEvent):
        return all(is_private(part) for part in event.events)
    if isinstance(event, SelfComposedDpEvent):
        return is_private(event.event)
    return not isinstance(event, NonPrivateDpEvent)


def describe(event: Any) -> str:
    """Names an event and its parameters, for the ledger and for reports.

    Example:
        >>> describe(BoundedRange(0.5))
        'BoundedRange(eta=0.5)'
    """
    if isinstance(event, SelfComposedDpEvent):
        return f"{event.count} x {describe(event.event)}"
    if isinstance(event, ComposedDpEvent):
        return " + ".join(describe(part) for part in event.events)
    values = ", ".join(f"{a.name}={_shown(getattr(event, a.name))}" for a in attr.fields(type(event)))
    return f"{type(event).__name__}({values})"


def _shown(value: Any) -> str:
    return describe(value) if isinstance(value, DpEvent) else repr(value)
