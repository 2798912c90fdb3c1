"""What certificates share: one thing that was looked at, the hash that binds a charge to a request, and that no event
is priced but that of the parameters.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from sottovoce.errors import InputError
from sottovoce.parameters import Number
from sottovoce.privacy.event_json import event_to_json
from sottovoce.privacy.events import ApproximateDP, DpEvent
from sottovoce.records.limits import DEPTH, nested_problem

ANOTHER_EVENT: Final = "another event than that of its parameters"
_FIGURE: Final = Number(0, below_most=True, strict=True)
MOST_DEPTH: Final = DEPTH + 20
"""Lists and objects inside each other in a file with a certificate; its request can hold a schema of ``DEPTH``."""
_ENCODER: Final = json.JSONEncoder(sort_keys=True, default=list)


@final
@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        what: In words.
        holds: ``None`` where it could not be looked at.
        told: What was found.
    """

    what: str
    holds: bool | None
    told: str


def read_json(text: str | bytes, source: str) -> Any:
    """The JSON of a file that holds a certificate, nested no deeper than whoever checks it can follow.

    Raises:
        ValueError: It is none.
        InputError: It is nested deeper than ``MOST_DEPTH``.
    """
    try:
        value = json.loads(text)
        problem = nested_problem(value, math.inf, MOST_DEPTH)
    except RecursionError:
        problem = f"lists and objects are nested deeper than {MOST_DEPTH}"
    if problem:
        raise InputError(
            f"{source} holds no certificate that can be read: {problem}. Restore it from a copy."
        ) from None
    return value


def asked_hash(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request; public, as its words are."""
    return hashlib.sha256(canonical(request).encode("utf-8")).hexdigest()


def canonical(value: Any) -> str:
    """Values as JSON, where sequences are lists and keys are in order."""
    return _ENCODER.encode(value)


def require_same_event(stated: Any, event: DpEvent) -> DpEvent:
    """The event, where it is what a certificate states in JSON. What is stated is compared and never priced: a file of
    a few hundred bytes can state an event whose price takes hours to work out.

    Raises:
        InputError: The certificate states something else.
    """
    if canonical(stated) != canonical(event_to_json(event)):
        raise InputError(ANOTHER_EVENT)
    return event


def point_of(stated: Any) -> ApproximateDP | None:
    """The point of a profile that a certificate states in JSON; ``None`` where it states something else.

    Example:
        >>> point_of({"event": "ApproximateDP", "epsilon": 1.0, "delta": 1e-6})
        ApproximateDP(epsilon=1.0, delta=1e-06)
        >>> point_of({"event": "ApproximateDP", "epsilon": {"event": "PureDP", "epsilon": 1.0}, "delta": 1e-6})
    """
    if not isinstance(stated, Mapping) or stated.keys() != {"event", "epsilon", "delta"}:
        return None
    point = stated["epsilon"], stated["delta"]
    if stated["event"] != ApproximateDP.__name__ or not all(type(figure) in (int, float) for figure in point):
        return None
    return ApproximateDP(_FIGURE.read("epsilon", point[0]), _FIGURE.read("delta", point[1]))
