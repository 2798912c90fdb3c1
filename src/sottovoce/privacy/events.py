"""What was done to private data, in the vocabulary that accountants price.

Events are ``dp_accounting`` events. Where that library has one that fits, it is used: ``ZCDpEvent`` for the discrete
Gaussian, ``NoOpDpEvent``, ``NonPrivateDpEvent``, ``SelfComposedDpEvent``, ``ComposedDpEvent``. It has none for
selections; those two are here. An accountant that does not know an event refuses it by name.

Sources     Durfee and Rogers (2019) for bounded range; specification T1 and 5.2.
"""

from __future__ import annotations

from typing import Any

import attr
from dp_accounting.dp_event import (
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)

__all__ = [
    "BoundedRange",
    "ComposedDpEvent",
    "DpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "PureDP",
    "SelfComposedDpEvent",
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


def is_private(event: Any) -> bool:
    """Whether the event has a finite price at all."""
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
    values = ", ".join(f"{a.name}={getattr(event, a.name)!r}" for a in attr.fields(type(event)))
    return f"{type(event).__name__}({values})"
