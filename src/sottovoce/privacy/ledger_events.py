"""What entries of a history say: events and their prices, read back from the text that the chain protects."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.event_json import event_from_json
from sottovoce.privacy.events import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from sottovoce.privacy.filter import Amount, price

NOT_VERIFIED_NOTE: Final = "isolation not verified"
"""Stands in the note of a charge whose model was not shown to keep experts apart."""


@final
@dataclass(frozen=True)
class Charged:
    """What a ``reserve`` entry says of itself.

    Attributes:
        event: What was reserved.
        caller: Who asked, if it was a caller with a cap.
        group: The caller's group, if there is one.
        failure: The failure charged, in units of 1e-18.
        unverified: Whether the model was not shown to keep experts apart.
    """

    event: DpEvent
    caller: str | None
    group: str | None
    failure: int
    unverified: bool

    @property
    def caps(self) -> list[tuple[str, str]]:
        """Kind and name of the caps below the data set's that were charged as well."""
        return [(kind, name) for kind, name in (("caller", self.caller), ("group", self.group)) if name is not None]


@lru_cache(maxsize=65_536)
def detail_of(text: str) -> dict[str, Any]:
    """An entry's detail. The result is shared: it is not to be changed.

    Raises:
        ValueError: The text is not a JSON object.
    """
    detail = json.loads(text)
    if not isinstance(detail, dict):
        raise ValueError("not an object")
    return detail


@lru_cache(maxsize=65_536)
def charged(text: str) -> Charged:
    """Reads a ``reserve`` entry's detail.

    Raises:
        ValueError: It is not one.
        ParameterError: Its event is not known.
    """
    detail = detail_of(text)
    caller, group, failure = detail.get("caller"), detail.get("group"), detail.get("failure", 0)
    if type(failure) is not int or failure < 0 or not all(isinstance(n, str | None) for n in (caller, group)):
        raise ValueError("not a charge")
    return Charged(_event_of(detail["event"]), caller, group, failure, NOT_VERIFIED_NOTE in str(detail.get("note")))


@lru_cache(maxsize=65_536)
def price_of(text: str, currency: str) -> Amount:
    """What the event of a ``reserve`` entry costs."""
    return price(charged(text).event, currency)


def _event_of(values: Any) -> DpEvent:
    """An event as JSON, or in the words of format 1, such as ``2 x BoundedRange(eta=0.5)``."""
    if not isinstance(values, str):
        return event_from_json(values)
    parts = [_described(part) for part in values.split(" + ")]
    return parts[0] if len(parts) == 1 else ComposedDpEvent(parts)


def _described(text: str) -> DpEvent:
    count, times, rest = text.partition(" x ")
    if times and count.isdigit():
        return SelfComposedDpEvent(_described(rest), int(count))
    try:
        call: Any = ast.parse(text, mode="eval").body
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return event_from_json({"event": call.func.id, **values})
    except (AttributeError, SyntaxError, ValueError, MemoryError, RecursionError):
        raise ParameterError("event", text, "one that format 1 wrote") from None
