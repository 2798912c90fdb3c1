"""The ledger's history: append-only entries, each holding the hash of the one before.

A changed, missing, moved or inserted entry breaks the chain, and the head, kept apart from the entries, shows when the
newest are gone. Somebody who can write the whole database can forge all of it: only a copy of the head kept elsewhere
shows that.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any, Final, final

import sqlalchemy as sa

from sottovoce.errors import LedgerUnavailableError, ParameterError
from sottovoce.privacy.event_json import event_from_json
from sottovoce.privacy.events import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from sottovoce.privacy.ledger.filter import Cost, price
from sottovoce.privacy.ledger.schema import CAP, DATA_SET, ENTRY, FINGERPRINT, META, SCHEMA_VERSION, SECRET

GENESIS: Final = "0" * 64
COLUMNS: Final = ("seq", "data_set", "kind", "release_id", "amount", "detail", "at", "previous")
"""What the hash of an entry covers."""


@final
@dataclass(frozen=True)
class Entry:
    """An entry that is to be appended: what happened to a data set, and public words about it."""

    data_set: int
    kind: str
    release_id: str | None = None
    amount: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class History:
    """A ledger as plain rows, wherever they were read.

    Attributes:
        entries: Oldest first; each with ``COLUMNS`` and ``hash``.
        data_sets: Balances, as the ledger has them.
        caps: Of callers and groups.
        fingerprints: ``None`` in an export, which leaves them out.
        meta: Schema version and head.
        secrets: Keys; ``None`` in an export, which leaves them out.
        redacted: Whether it is an export of an older format, whose entries may lack what their hashes cover.
    """

    entries: Iterable[Mapping[str, Any]]
    data_sets: list[Mapping[str, Any]]
    caps: list[Mapping[str, Any]]
    fingerprints: list[Mapping[str, Any]] | None
    meta: Mapping[str, Any]
    secrets: list[Mapping[str, Any]] | None = None
    redacted: bool = False


def read_history(connection: sa.Connection, entries: Iterable[Mapping[str, Any]]) -> History:
    """The whole ledger, with its entries."""

    def rows(table: sa.Table) -> list[Mapping[str, Any]]:
        return [dict(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()]

    meta = {row["key"]: row["value"] for row in rows(META)}
    return History(entries, rows(DATA_SET), rows(CAP), rows(FINGERPRINT), meta, rows(SECRET))


def read_entries(connection: sa.Connection) -> Generator[dict[str, Any], None, None]:
    """Every entry, oldest first, a thousand at a time."""
    names = [column.name for column in ENTRY.columns]
    query = sa.select(ENTRY).order_by(ENTRY.c.seq).execution_options(yield_per=1000)
    with connection.execute(query) as rows:
        for row in rows:
            yield dict(zip(names, row, strict=True))


def carry_out(connection: sa.Connection, change: sa.Insert | sa.Update, rows: Sequence[Mapping[str, Any]] = ()) -> Any:
    """Makes a change of one row, or inserts the rows given, and sees that all of them were written.

    Raises:
        LedgerUnavailableError: Something in the database dropped one: what is promised would not stand in it.
    """
    change = change.execution_options(preserve_rowcount=True)
    done = connection.execute(change, rows) if rows else connection.execute(change)
    if done.rowcount != (len(rows) or 1):
        raise _not_taken(str(change.table))
    return done


def _not_taken(table: str) -> LedgerUnavailableError:
    return LedgerUnavailableError(
        f"The ledger did not take what was written to its table {table}: something in it drops or changes rows by "
        "itself. See 'sotto ledger verify'."
    )


def append(connection: sa.Connection, entries: Iterable[Entry]) -> None:
    """Adds entries and moves the head; the caller holds the write lock.

    Raises:
        LedgerUnavailableError: They do not stand in the ledger as they were written.
    """
    before, previous = newest(connection)
    seq = before
    rows: list[dict[str, Any]] = []
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    for entry in entries:
        seq += 1
        values: dict[str, Any] = {
            "seq": seq,
            "data_set": entry.data_set,
            "kind": entry.kind,
            "release_id": entry.release_id,
            "amount": entry.amount,
            "detail": json.dumps(entry.detail, sort_keys=True, allow_nan=False),
            "at": at,
            "previous": previous,
        }
        previous = hash_of(values)
        rows.append({**values, "hash": previous})
    if rows:
        carry_out(connection, sa.insert(ENTRY), rows)
        stand = connection.execute(sa.select(ENTRY).where(ENTRY.c.seq > before).order_by(ENTRY.c.seq))
        if [dict(row) for row in stand.mappings()] != rows:
            raise _not_taken(ENTRY.name)
        carry_out(connection, sa.update(META).where(META.c.key == "head").values(value=f"{seq} {previous}"))


def newest(connection: sa.Connection) -> tuple[int, str]:
    """The newest entry's number and hash, by the head, in a ledger that is still of this version.

    Raises:
        LedgerUnavailableError: It has another format meanwhile, or no head that can be read.
    """
    meta = {row.key: row.value for row in connection.execute(sa.select(META))}
    if meta.get("schema_version") != SCHEMA_VERSION:
        raise LedgerUnavailableError("The ledger was moved to a newer format meanwhile. Start the program again.")
    try:
        return read_head(meta["head"])
    except (KeyError, ValueError):
        raise LedgerUnavailableError("The ledger's head is damaged; see 'sotto ledger verify'.") from None


def read_head(text: str) -> tuple[int, str]:
    """Sequence number and hash of the newest entry.

    Raises:
        ValueError: The text is not ``NUMBER HASH``.
    """
    seq, space, digest = text.partition(" ")
    if not space or not seq.isascii() or not seq.isdigit() or len(digest) != len(GENESIS):
        raise ValueError(text)
    return int(seq), digest


def hash_of(entry: Mapping[str, Any]) -> str:
    """SHA-256 over the entry's columns as a JSON list."""
    values = [entry[name] for name in COLUMNS]
    seq, data_set, kind, release_id, amount, detail, at, previous = values
    if type(seq) is type(data_set) is type(amount) is int and type(kind) is type(detail) is type(at) is str:
        # The same text as json.dumps gives, in a third of the time.
        quoted_id = "null" if release_id is None else encode_basestring_ascii(release_id)
        text = (
            f"[{seq}, {data_set}, {_quoted(kind)}, {quoted_id}, {amount}, "
            f"{_quoted(detail)}, {encode_basestring_ascii(at)}, {encode_basestring_ascii(previous)}]"
        )
    else:
        text = json.dumps(values)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return encode_basestring_ascii(text)


NOT_VERIFIED_NOTE: Final = "isolation not verified"
"""Stands in the note of a charge whose model was not shown to keep experts apart."""
SEEDED_NOTE: Final = "seeded: no guarantee"
"""Stands in the note of a charge whose noise came from a seeded source."""


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
        seeded: Whether the noise came from a seeded source.
    """

    event: DpEvent
    caller: str | None
    group: str | None
    failure: int
    unverified: bool
    seeded: bool

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
    note = str(detail.get("note"))
    return Charged(_event_of(detail["event"]), caller, group, failure, NOT_VERIFIED_NOTE in note, SEEDED_NOTE in note)


@lru_cache(maxsize=65_536)
def price_of(text: str, currency: str) -> Cost:
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
