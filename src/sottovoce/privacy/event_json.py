"""Events as JSON: what a ledger writes down, so that a third party can price its history again.

The form is ``{"event": CLASS, FIELD: VALUE, ...}`` with events inside events, in the classes' own field names; a field
that is itself called ``event`` is written as ``inner``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

import attr

from sottovoce.errors import ParameterError
from sottovoce.privacy import events
from sottovoce.privacy.events import DpEvent

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
    given = {name: _read(name, value) for name, value in values.items() if name != "event"}
    if "event" in known and INNER in given:
        given["event"] = given.pop(INNER)
    try:
        if unknown := sorted(set(given) - known):
            raise ParameterError(unknown[0], given[unknown[0]], f"absent: {values['event']} has {sorted(known)}")
        return cls(**given)
    except TypeError:
        raise ParameterError("event", values, f"{values['event']} with {', '.join(sorted(known))}") from None


@lru_cache(maxsize=4096)
def event_from_text(text: str) -> DpEvent:
    """Reads an event from JSON text; a long history has few different ones."""
    return event_from_json(json.loads(text))


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
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ParameterError(name, value, "a number")
    return value
