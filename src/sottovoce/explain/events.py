"""Reading a plan: a JSON list of events in the ledger's form, each with an optional count.

Assumes     The events' parameters were worked out for the adjacency under which they are priced.
Sources     ``event_json`` for the form; specification 6.1.
"""

from __future__ import annotations

import math
from typing import Any, Final

import attr

from sottovoce.errors import ParameterError
from sottovoce.privacy.event_json import event_from_json
from sottovoce.privacy.events import DpEvent

MOST_EVENTS: Final = 100_000
MOST_COUNT: Final = 10**9
SHARES: Final = ("delta", "sampling_probability")
WHOLE: Final = ("count", "source_dataset_size", "sample_size")


def read_events(plan: Any, source: str) -> list[tuple[DpEvent, int]]:
    """Reads a plan.

    Raises:
        ParameterError: It is not a list of known events with sensible parameters; the error says which event.

    Example:
        >>> read_events([{"event": "BoundedRange", "eta": 0.1, "count": 3}], "plan.json")
        [(BoundedRange(eta=0.1), 3)]
    """
    if not isinstance(plan, list) or not 1 <= len(plan) <= MOST_EVENTS:
        shown = f"a list of {len(plan)}" if isinstance(plan, list) else type(plan).__name__
        raise ParameterError("file", shown, f"a JSON list of 1 to {MOST_EVENTS} events")
    return [_read(entry, f"{source}, event {place}") for place, entry in enumerate(plan, start=1)]


def _read(entry: Any, where: str) -> tuple[DpEvent, int]:
    values, count = (dict(entry), 1) if isinstance(entry, dict) else (entry, 1)
    if isinstance(values, dict) and values.get("event") != "SelfComposedDpEvent":
        count = values.pop("count", 1)
    try:
        _require("count", count)
        event = event_from_json(values)
        require_sane(event)
    except ParameterError as error:
        raise ParameterError(f"{where}: {error.name}", error.value, error.limit) from None
    return event, int(count)


def require_sane(event: Any) -> None:
    """Refuses an event whose parameters no mechanism can have.

    Raises:
        ParameterError: A number is negative, not finite, or out of its range.

    Example:
        >>> from sottovoce.privacy.events import BoundedRange
        >>> require_sane(BoundedRange(-1))
        Traceback (most recent call last):
        sottovoce.errors.ParameterError: eta is -1; it must be a finite number, 0 or more.
    """
    for part in attr.fields(type(event)):
        value = getattr(event, part.name)
        if isinstance(value, DpEvent):
            require_sane(value)
        elif isinstance(value, list | tuple):
            for inner in value:
                if not isinstance(inner, DpEvent):
                    raise ParameterError(part.name, inner, "an event")
                require_sane(inner)
        elif part.name == "exclusive":
            if not isinstance(value, bool):
                raise ParameterError(part.name, value, "true or false")
        else:
            _require(part.name, value)
    _require_fields(event)


def _require_fields(event: Any) -> None:
    for name, kinds in (("event", DpEvent), ("events", (list, tuple))):
        if hasattr(event, name) and not isinstance(getattr(event, name), kinds):
            raise ParameterError(name, getattr(event, name), "an event" if name == "event" else "a list of events")
    size = getattr(event, "source_dataset_size", None)
    if size is not None and event.sample_size > size:
        raise ParameterError("sample_size", event.sample_size, f"at most source_dataset_size, {size}")


def _require(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ParameterError(name, value, "a number")
    if name in WHOLE and not (isinstance(value, int) and 1 <= value <= MOST_COUNT):
        raise ParameterError(name, value, f"a whole number from 1 to {MOST_COUNT}")
    if name in SHARES and not 0 <= value <= 1:
        raise ParameterError(name, value, "from 0 to 1")
    if name == "noise_multiplier" and not 0 < value < math.inf:
        raise ParameterError(name, value, "a finite number above 0")
    if not 0 <= value < math.inf:
        raise ParameterError(name, value, "a finite number, 0 or more")
