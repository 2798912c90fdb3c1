"""Format 3: keys in a table of their own, and a chain that commits to the records under them.

Entries that held a fingerprint hold a keyed commitment instead, notes lose the keys of certificates, and every hash is
made anew. An entry that was not whole before is not whole afterwards: its hash is left as it was. The old head, which
covered the fingerprints, is kept beside the keys: a copy of it kept elsewhere can be held against it there. An entry
``migrate`` commits to it and to the keys of certificates.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from sottovoce.randomness import SystemRandomness

revision = "3"
down_revision = "2"

_COLUMNS = ("seq", "data_set", "kind", "release_id", "amount", "detail", "at", "previous")
_KEY = re.compile(r", data key ([0-9a-f]{32})")
_AT_ONCE = 1000

_META = sa.table("sotto_meta", sa.column("key"), sa.column("value"))
_DATA_SET = sa.table("sotto_data_set", sa.column("id"))
_SECRET = sa.table("sotto_secret", sa.column("data_set"), sa.column("name"), sa.column("value"))
_ENTRY = sa.table("sotto_entry", *(sa.column(name) for name in (*_COLUMNS, "hash")))


def upgrade() -> None:
    """Makes the table, moves the secrets into it, and writes the chain anew."""
    op.create_table(
        "sotto_secret",
        sa.Column("data_set", sa.Integer, sa.ForeignKey("sotto_data_set.id"), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.String(128), nullable=False),
    )
    connection = op.get_bind()
    chance = SystemRandomness()
    numbers = connection.scalars(sa.select(_DATA_SET.c.id).order_by(_DATA_SET.c.id)).all()
    keys = {number: f"{chance.below(2**256):064x}" for number in numbers}
    if not keys:
        return
    moved: dict[tuple[int, str], str] = {}
    last = _rewrite(connection, keys, moved)
    first = min(keys)
    _append(connection, first, keys, moved, last)
    rows = [(number, "records", key) for number, key in keys.items()]
    rows += [(number, name, value) for (number, name), value in moved.items()]
    names = ("data_set", "name", "value")
    connection.execute(sa.insert(_SECRET), [dict(zip(names, row, strict=True)) for row in rows])


def _rewrite(connection: sa.Connection, keys: dict[int, str], moved: dict[tuple[int, str], str]) -> tuple[str, str]:
    """Writes every entry anew and gives the newest one's hash before and after."""
    old = new = "0" * 64
    names = ("detail", "previous", "hash")
    change = sa.update(_ENTRY).where(_ENTRY.c.seq == sa.bindparam("number"))
    change = change.values({name: sa.bindparam(f"new_{name}") for name in names})
    for batch in _entries(connection):
        rows = []
        for entry in batch:
            was, whole = entry["hash"], entry["hash"] == _hash_of(entry)
            detail = _detail_of(entry, keys, moved)
            entry["detail"] = entry["detail"] if detail is None else detail
            entry["previous"] = new if entry["previous"] == old else entry["previous"]
            entry["hash"] = _hash_of(entry) if whole else was
            old, new = was, entry["hash"]
            rows.append({"number": entry["seq"], **{f"new_{name}": entry[name] for name in names}})
        connection.execute(change, rows)
    return old, new


def _entries(connection: sa.Connection) -> Iterator[list[dict[str, Any]]]:
    """Every entry, oldest first, some at a time, so that they can be written meanwhile."""
    query = sa.select(_ENTRY).order_by(_ENTRY.c.seq).limit(_AT_ONCE)
    rows = connection.execute(query).mappings().all()
    while rows:
        yield [dict(row) for row in rows]
        rows = connection.execute(query.where(_ENTRY.c.seq > rows[-1]["seq"])).mappings().all()


def _detail_of(entry: dict[str, Any], keys: dict[int, str], moved: dict[tuple[int, str], str]) -> str | None:
    """The entry's detail without secrets; ``None`` where it holds none."""
    try:
        detail = json.loads(entry["detail"])
        if entry["kind"] in ("open", "version") and "fingerprint" in detail:
            detail["records"] = _keyed(keys[entry["data_set"]], "records", detail.pop("fingerprint"))
        elif entry["kind"] == "reserve" and (match := _KEY.search(detail["note"])):
            moved[entry["data_set"], entry["release_id"].rpartition("-")[0]] = match[1]
            detail["note"] = _KEY.sub("", detail["note"])
        else:
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # it was no entry of ours, and is found by whoever verifies the chain
    return json.dumps(detail, sort_keys=True)


def _append(
    connection: sa.Connection,
    first: int,
    keys: dict[int, str],
    moved: dict[tuple[int, str], str],
    last: tuple[str, str],
) -> None:
    """The ``migrate`` entry behind the head as it stood. Where that is no head, or not the newest, there is none."""
    head = str(connection.scalar(sa.select(_META.c.value).where(_META.c.key == "head")))
    seq, _, digest = head.partition(" ")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 18) or len(digest) != 64:
        return
    if connection.scalar(sa.select(sa.func.count()).select_from(_ENTRY).where(_ENTRY.c.seq > int(seq))):
        return
    moved[first, "head"] = head
    kept = json.dumps(sorted([number, name, value] for (number, name), value in moved.items()))
    entry = {
        "seq": int(seq) + 1,
        "data_set": first,
        "kind": "migrate",
        "release_id": None,
        "amount": 0,
        "detail": json.dumps({"from": down_revision, "kept": _keyed(keys[first], "moved", kept)}, sort_keys=True),
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "previous": last[1] if last[0] == digest else digest,
    }
    entry["hash"] = _hash_of(entry)
    connection.execute(sa.insert(_ENTRY), [entry])
    connection.execute(sa.update(_META).where(_META.c.key == "head").values(value=f"{entry['seq']} {entry['hash']}"))


def _keyed(key: str, purpose: str, text: str) -> str:
    return hmac.new(key.encode(), f"sottovoce {purpose}\n{text}".encode(), hashlib.sha256).hexdigest()


def _hash_of(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([entry[name] for name in _COLUMNS]).encode()).hexdigest()
