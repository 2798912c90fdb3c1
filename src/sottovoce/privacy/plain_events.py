"""An event rebuilt from its numbers as they were read: what every accountant and every ledger prices.

Guarantee   What comes back holds Python's own numbers alone, each within its range. A NumPy number has a width and a
            precision of its own: an 8-bit count overflows and a 16-bit parameter squares to zero, and the price would
            be too low. So no price is worked out from an event as it was handed over. A composition comes back with
            a tuple of its parts: an iterator has them once, and a list can be emptied after it was looked at.
Sources     specification 6.1.
"""

from __future__ import annotations

from typing import Any, Final

import attr

from sottovoce.errors import ParameterError
from sottovoce.parameters import COUNT, SIZE, Number, YesNo
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.parameters import FINITE, RELEASES, SHARE

_LIMITS: Final[dict[type, dict[str, Number | YesNo]]] = {
    BoundedRange: {"eta": FINITE},
    PureDP: {"epsilon": FINITE},
    ApproximateDP: {"epsilon": FINITE, "delta": SHARE},
    ZCDpEvent: {"rho": FINITE, "xi": FINITE},
    GaussianDpEvent: {"noise_multiplier": Number(0, strict=True)},
    WithFailure: {"delta": SHARE, "exclusive": YesNo()},
    PoissonSampledDpEvent: {"sampling_probability": SHARE},
    SampledWithoutReplacementDpEvent: {"source_dataset_size": COUNT, "sample_size": SIZE},
    SelfComposedDpEvent: {"count": RELEASES},
}
"""The numbers of every event that has some, each with its limit."""


def plain(event: Any) -> Any:
    """The event from its numbers as read, a composition from its parts. Events inside it stay as they are.

    Raises:
        ParameterError: A number is none, or not in its range; the parts of a composition are no list and no tuple.

    Example:
        >>> import numpy as np
        >>> plain(SelfComposedDpEvent(BoundedRange(0.1), np.int8(100)))
        SelfComposedDpEvent(event=BoundedRange(eta=0.1), count=100)
    """
    if isinstance(event, ComposedDpEvent):
        parts = event.events
        if not isinstance(parts, list | tuple):
            raise ParameterError("ComposedDpEvent.events", type(parts).__name__, "a list or a tuple of events")
        return ComposedDpEvent(tuple(parts))
    for kind, limits in _LIMITS.items():
        if isinstance(event, kind):
            fields: Any = attr.fields(kind)
            values = {field.name: getattr(event, field.name) for field in fields}
            for name, limit in limits.items():
                values[name] = limit.read(f"{kind.__name__}.{name}", values[name])
            if kind is SampledWithoutReplacementDpEvent and values["sample_size"] > values["source_dataset_size"]:
                limit_in_words = f"a whole number from 0 to source_dataset_size, {values['source_dataset_size']}"
                raise ParameterError("sample_size", values["sample_size"], limit_in_words)
            return kind(**values)
    return event
