"""What ships: support tickets of an invented shop as an example, and a pool of invented public texts of many kinds."""

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


def pool_file() -> Path:
    """The path of the bundled pool."""
    return Path(str(resources.files("sottovoce") / "data" / "pool" / "texts.jsonl.gz"))


def public_pool() -> PublicRecords:
    """Some thousand short invented texts, fields ``text`` and ``kind`` (news, question, review); they have no label."""
    return read_public(pool_file())
