"""What certificates share: one thing that was looked at, and the hash that binds a charge to a request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

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


def asked_hash(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request; public, as its words are."""
    return hashlib.sha256(canonical(request).encode("utf-8")).hexdigest()


def canonical(value: Any) -> str:
    """Values as JSON, where sequences are lists and keys are in order."""
    return _ENCODER.encode(value)
