"""Events as JSON: what a ledger writes down, so that a third party can price its history again.

The form is ``{"event": CLASS, FIELD: VALUE, ...}`` with events inside events, in the classes' own field names; a field
that is itself called ``event`` is written as ``inner``. A plan is a JSON list of events, each with an optional count.
Its parameters are those of the adjacency under which it is priced.
"""

from __future__ import annotations

import math
from typing import Any, Final

import attr

from sottovoce.errors import ParameterError
from sottovoce.parameters import Number, YesNo
from sottovoce.privacy import events
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.parameters import SHARE
from sottovoce.privacy.plain_events import plain

INNER: Final = "inner"
"""What a field called ``event`` is written as, since ``event`` names the class."""

_CLASSES: Final = {
    name: getattr(events, name)
    for name in events.__all__
    if isinstance(getattr(events, name), type) and name != "DpEvent"
}


def event_to_json(event: DpEvent) -> dict[str, Any]:
    """An event as plain values.

    Raises:
        ParameterError: The event is of a class that no accountant here knows.

    Example:
        >>> event_to_json(events.BoundedRange(0.5))
        {'event': 'BoundedRange', 'eta': 0.5}
        >>> event_to_json(events.WithFailure(events.BoundedRange(0.5), 1e-6))["inner"]
        {'event': 'BoundedRange', 'eta': 0.5}
    """
    name = type(event).__name__
    if _CLASSES.get(name) is not type(event):
        raise ParameterError("event", name, f"one of {', '.join(sorted(_CLASSES))}")
    event = plain(event)
    values = {field.name: _plain(getattr(event, field.name)) for field in attr.fields(type(event))}
    return {"event": name, **{INNER if field == "event" else field: value for field, value in values.items()}}


def event_from_json(values: Any) -> DpEvent:
    """Reads what ``event_to_json`` wrote.

    Raises:
        ParameterError: It names no known event, or its fields are not that event's.

    Example:
        >>> event_from_json({"event": "BoundedRange", "eta": 0.5})
        BoundedRange(eta=0.5)
    """
    if not isinstance(values, dict) or str(values.get("event")) not in _CLASSES:
        raise ParameterError("event", values, f"an object whose 'event' is one of {', '.join(sorted(_CLASSES))}")
    cls = _CLASSES[values["event"]]
    known = {field.name for field in attr.fields(cls)}
    fields = {name: _read(name, value) for name, value in values.items() if name != "event"}
    if "event" in known and INNER in fields:
        fields["event"] = fields.pop(INNER)
    try:
        if unknown := sorted(set(fields) - known):
            raise ParameterError(unknown[0], fields[unknown[0]], f"absent: {values['event']} has {sorted(known)}")
        return cls(**fields)
    except TypeError:
        raise ParameterError("event", values, f"{values['event']} with {', '.join(sorted(known))}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, DpEvent):
        return event_to_json(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _read(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return event_from_json(value)
    if isinstance(value, list):
        return [_read(name, part) for part in value]
    if isinstance(value, bool) and name == "exclusive":
        return value
    return _NUMBER.read(name, value)


MOST_EVENTS: Final = 100_000
MOST_COUNT: Final = 10**9
_NUMBER: Final = Number(-math.inf, strict=True, words="a number")
_FINITE: Final = Number(0, below_most=True, strict=True, words="a finite number, 0 or more")
_LIMITS: Final = {
    **dict.fromkeys(("delta", "sampling_probability"), SHARE),
    **dict.fromkeys(("count", "source_dataset_size", "sample_size"), Number(1, MOST_COUNT, whole=True, strict=True)),
    "noise_multiplier": Number(0, above_least=True, below_most=True, strict=True, words="a finite number above 0"),
}
"""Limits on numbers by their name; all others are finite."""


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
    return [_planned(entry, f"{source}, event {place}") for place, entry in enumerate(plan, start=1)]


def _planned(entry: Any, where: str) -> tuple[DpEvent, int]:
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
            YesNo().read(part.name, value)
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
    _LIMITS.get(name, _FINITE).read(name, value)
