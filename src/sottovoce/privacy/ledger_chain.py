"""The ledger's history: append-only entries, each holding the hash of the one before.

A changed, missing, moved or inserted entry breaks the chain, and a balance that the history does not lead to is named.
Cutting off the newest entries together with their balances leaves a valid shorter chain: only a copy of the newest hash
kept elsewhere shows that.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from sottovoce.privacy.ledger_schema import DATA_SET, ENTRY, FINGERPRINT

GENESIS: Final = "0" * 64


def find_problems(connection: sa.Connection) -> list[str]:
    """Checks the chain and every balance against it; returns what is wrong, nothing if all is well."""
    problems: list[str] = []
    entries = connection.execute(sa.select(ENTRY).order_by(ENTRY.c.seq)).all()
    data_sets = connection.execute(sa.select(DATA_SET)).all()
    fingerprints = connection.execute(sa.select(FINGERPRINT)).all()
    previous = GENESIS
    told: dict[int, dict[str, Any]] = {}
    for position, row in enumerate(entries, 1):
        if row.seq != position:
            problems.append(f"entry {position} is missing or out of place")
            break
        if row.previous != previous or row.hash != _hash(row._mapping):
            problems.append(f"entry {position} was changed, or one before it is missing")
            break
        previous = row.hash
        _replay(told, row)
    if problems:
        return problems
    for row in data_sets:
        story = told.pop(row.id, None)
        if story is None:
            problems.append(f"data set {row.name!r} has no history")
            continue
        for column in ("name", "adjacency", "unit", "epsilon", "delta", "cap", "spent"):
            if story[column] != getattr(row, column):
                problems.append(f"data set {row.name!r}: {column} does not agree with the history")
        known = {f.fingerprint for f in fingerprints if f.data_set == row.id}
        if known != story["fingerprints"]:
            problems.append(f"data set {row.name!r}: its versions do not agree with the history")
        if row.spent > row.cap:
            problems.append(f"data set {row.name!r}: more was spent than granted")
    return problems + [f"data set number {number} is missing" for number in told]


def append(
    connection: sa.Connection, data_set: int, kind: str, release_id: str | None, amount: int, detail: dict[str, Any]
) -> None:
    """Adds an entry; the caller holds the write lock."""
    last = connection.execute(sa.select(ENTRY.c.seq, ENTRY.c.hash).order_by(ENTRY.c.seq.desc()).limit(1)).first()
    values = {
        "seq": (last.seq if last else 0) + 1,
        "data_set": data_set,
        "kind": kind,
        "release_id": release_id,
        "amount": amount,
        "detail": json.dumps(detail, sort_keys=True),
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "previous": last.hash if last else GENESIS,
    }
    connection.execute(sa.insert(ENTRY).values(**values, hash=_hash(values)))


def _hash(values: Any) -> str:
    columns = ("seq", "data_set", "kind", "release_id", "amount", "detail", "at", "previous")
    return hashlib.sha256(json.dumps([values[name] for name in columns]).encode()).hexdigest()


def _replay(told: dict[int, dict[str, Any]], row: Any) -> None:
    detail = json.loads(row.detail)
    if row.kind == "open":
        told[row.data_set] = {**detail, "fingerprints": {detail["fingerprint"]}}
        return
    story = told.setdefault(row.data_set, {"fingerprints": set(), "spent": 0})
    story["spent"] = story.get("spent", 0) + row.amount
    if row.kind == "version":
        story["fingerprints"].add(detail["fingerprint"])
    if row.kind == "grant":
        story.update(detail)
