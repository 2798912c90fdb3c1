"""The example that ships: support tickets of an invented shop, all people and numbers in them invented."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from sottovoce.records.readers import read_private, read_public
from sottovoce.records.sealed import PrivateRecords, PublicRecords


def tickets_file(name: str) -> Path:
    """The path of ``private.jsonl`` or ``queries.jsonl``."""
    return Path(str(resources.files("sottovoce") / "data" / "tickets" / name))


def private_tickets(unit: str | None = None) -> PrivateRecords:
    """440 tickets, sealed; the unit is the customer unless said otherwise. They are declared synthetic."""
    return read_private(tickets_file("private.jsonl"), unit=unit, synthetic=True)


def ticket_queries() -> PublicRecords:
    """160 labelled questions."""
    return read_public(tickets_file("queries.jsonl"))
