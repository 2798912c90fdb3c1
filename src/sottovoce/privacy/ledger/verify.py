"""Whether a history leads to the balances beside it: a pure function over rows, wherever they come from.

Guarantee   Where nothing is found, every entry is whole and in its place up to the head, every charge is at least its
            event's price, no charge went past a cap as it then stood, no answer left twice or unpaid, and every balance
            and cap is what the entries add up to.
Assumes     The head is genuine. An export leaves fingerprints and keys out; that the commitments in the chain are to
            them can be seen in the ledger alone. Exports of the older format left out fingerprints that the hashes of
            openings and versions cover. Nothing holds these entries: what they say, and that no charge stood in their
            place, rests on the file alone. ``is_unheld`` tells which they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sottovoce.errors import SottoError
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.filter import Cost
from sottovoce.privacy.ledger.history import (
    GENESIS,
    NOT_VERIFIED_NOTE,
    History,
    charged,
    detail_of,
    hash_of,
    price_of,
    read_head,
)
from sottovoce.privacy.ledger.schema import CAP, DATA_SET, SCHEMA_VERSION
from sottovoce.privacy.ledger.secret import RECORDS, keyed, moved_hash

_REDACTED_FORMAT: Final = "2"
_OPENED_FIRST: Final = frozenset({"adjacency", "cap", "delta", "epsilon", "name", "spent", "unit"})
_LEFT: Final = {
    "open": (_OPENED_FIRST, _OPENED_FIRST | {"alpha", "failure_cap", "failure_delta"}),
    "version": (frozenset[str](),),
}
"""Kinds of entries whose fingerprint an export of the older format left out, and what it left of their details."""
_LATER_KINDS: Final = ("draw", "migrate")
"""Kinds of entries that no ledger of the older format has."""
_SLACK: Final = 10**9
"""A cap may be off by one part in this, as another machine's floating-point formulas are."""
_DATA_SET: Final = [column.name for column in DATA_SET.columns if not column.primary_key]
_CAP: Final = [column.name for column in CAP.columns if not column.primary_key]
_UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, SottoError)


def find_problems(history: History) -> list[str]:
    """What is wrong with a ledger; nothing if all is well."""
    replay = Replay()
    try:
        problem = _first_broken(history, replay)
        return [problem] if problem else list(_differences(history, replay))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return ["a row cannot be read"]


def find_notes(history: History) -> list[str]:
    """What is to be known of a ledger and is no fault of it: caps that admit nothing until they are given anew.

    Earlier versions took a cap in another currency than the charges that it counts. Such an entry is as it was written,
    the data set's own budget holds, and the chain keeps it for good; the cap that is in force now is what matters.
    """
    data_sets = {row["id"]: row for row in history.data_sets}
    notes = []
    for row in history.caps:
        try:
            data_set = data_sets[row["data_set"]]
            own, whole = _budget(row, data_set).currency, _budget(data_set, data_set).currency
            if own != whole:
                notes.append(
                    f"the cap of {row['kind']} {row['name']!r} counts {own}, and its data set counts {whole}: it "
                    "admits nothing until the owner gives it anew with 'sotto ledger grant'"
                )
        except _UNREADABLE:
            continue  # a fault, which the other function names
    return notes


def _first_broken(history: History, replay: Replay) -> str | None:
    """Follows the chain; behind the first entry that is not as it was written nothing is known."""
    position, previous = 0, GENESIS
    for position, entry in enumerate(history.entries, 1):
        if type(entry["seq"]) is not int or entry["seq"] != position:
            return f"entry {position} is missing or out of place"
        if history.fingerprints is None and (wrong := _of_another_format(entry, redacted=history.redacted)):
            return f"entry {position} {wrong}"
        hidden = is_unheld(history, entry)
        if entry["previous"] != previous or not (hidden or entry["hash"] == hash_of(entry)):
            return f"entry {position} was changed, or one before it is missing"
        previous = entry["hash"]
        try:
            replay.take(entry, hidden=hidden)
        except _UNREADABLE:
            replay.problems.append(f"entry {position} cannot be read")
    try:
        seq, digest = read_head(history.meta["head"])
    except (KeyError, ValueError, AttributeError):
        return "the head is damaged"
    if (seq, digest) != (position, previous):
        return f"the head is entry {seq}, and the newest is entry {position}: entries are missing or were changed"
    return None


def is_unheld(history: History, entry: Mapping[str, Any]) -> bool:
    """Whether nothing holds an entry: the export left out a part that its hash covers, which cannot be checked."""
    return history.redacted and entry["kind"] in _LEFT


def _of_another_format(entry: Mapping[str, Any], *, redacted: bool) -> str | None:
    """What shows that an entry of an export is not of the format that the export names."""
    kind = entry["kind"]
    if redacted and kind in _LATER_KINDS:
        return f"is of kind {kind!r}, which ledgers of the format that the export names do not have"
    if redacted and kind in _LEFT:
        plain = (entry["release_id"], entry["amount"]) == (None, 0) and entry.get("redacted") is True
        if not plain or frozenset(detail_of(entry["detail"])) not in _LEFT[kind]:
            return "is not what exports of the format that this one names leave of such an entry"
    elif "redacted" in entry:
        return "is marked as redacted, and exports of the format that this one names do not redact it"
    return None


class Replay:
    """Tells the story again, entry by entry, and notes what cannot have happened."""

    def __init__(self) -> None:
        self.data_sets: dict[int, dict[str, Any]] = {}
        self.caps: dict[tuple[int, str, str], dict[str, Any]] = {}
        self.records: dict[str, int] = {}
        self.moved: list[tuple[int, str]] = []
        self.problems: list[str] = []
        self._paid: dict[str, int] = {}
        self._begun: set[str] = set()
        self._currency: dict[int, str] = {}
        self._hidden = False

    def take(self, entry: Mapping[str, Any], *, hidden: bool = False) -> None:
        """Replays one entry.

        Args:
            entry: The entry.
            hidden: Whether its commitment to the records is left out.
        """
        kind, self._hidden = entry["kind"], hidden
        if kind == "reserve":
            self._reserve(entry)
        elif kind == "draw":
            self._draw(entry)
        elif kind == "release":
            self._release(entry)
        elif kind == "migrate":
            self.moved.append((entry["data_set"], detail_of(entry["detail"])["kept"]))
        elif kind == "non-private":
            self._pay(entry)
            self.data_sets[entry["data_set"]]["non_private"] += 1
        elif kind in ("open", "grant", "allot", "version"):
            getattr(self, f"_{kind}")(entry, detail_of(entry["detail"]))
        else:
            self._wrong(entry, f"is of an unknown kind {kind!r}")
        if kind != "reserve" and entry["amount"] != 0:
            self._wrong(entry, "charges something and is no charge")

    def _wrong(self, entry: Mapping[str, Any], what: str) -> None:
        self.problems.append(f"entry {entry['seq']} {what}")

    def _open(self, entry: Mapping[str, Any], detail: dict[str, Any]) -> None:
        number = entry["data_set"]
        if number in self.data_sets:
            self._wrong(entry, "opens a data set again")
        counters = {"spent": 0, "failure_spent": 0, "answers": 0, "non_private": 0, "unverified": 0}
        first_format = {"failure_delta": "0.0", "alpha": None, "failure_cap": 0}
        story = {**first_format, **detail, **counters}
        self.data_sets[number] = story
        self._currency[number] = _budget(story, story).currency
        self._add_records(entry, detail)
        self._check_cap(entry, story, story)

    def _version(self, entry: Mapping[str, Any], detail: dict[str, Any]) -> None:
        if entry["data_set"] not in self.data_sets:
            self._wrong(entry, "belongs to no data set")
        self._add_records(entry, detail)

    def _add_records(self, entry: Mapping[str, Any], detail: dict[str, Any]) -> None:
        if self._hidden:
            return
        if detail["records"] in self.records:
            self._wrong(entry, "knows records that are known already")
        self.records[detail["records"]] = entry["data_set"]

    def _grant(self, entry: Mapping[str, Any], detail: dict[str, Any]) -> None:
        story = self.data_sets[entry["data_set"]]
        if float(detail["epsilon"]) < float(story["epsilon"]) or set(detail) != {"epsilon", "cap"}:
            self._wrong(entry, "does not raise a budget")
        story.update(epsilon=detail["epsilon"], cap=detail["cap"])
        self._check_cap(entry, story, story)

    def _allot(self, entry: Mapping[str, Any], detail: dict[str, Any]) -> None:
        number = entry["data_set"]
        key = (number, detail["kind"], detail["name"])
        known = self.caps.get(key)
        group = detail["member_of"]
        if group is not None and (number, "group", group) not in self.caps:
            self._wrong(entry, f"names the unknown group {group!r}")
        if known and known["member_of"] != group:
            self._wrong(entry, "moves a caller to another group")
        story = {name: detail[name] for name in ("member_of", "epsilon", "failure_delta", "cap", "failure_cap")}
        spent = {"spent": 0, "failure_spent": 0, "answers": 0}
        self.caps[key] = {**story, **{name: known[name] if known else 0 for name in spent}}
        self._check_cap(entry, self.caps[key], self.data_sets[number])

    def _reserve(self, entry: Mapping[str, Any]) -> None:
        number, text, amount = entry["data_set"], entry["detail"], entry["amount"]
        charge, story = charged(text), self.data_sets[number]
        if type(amount) is not int or not price_of(text, self._currency[number]).fits_in(Cost(amount, charge.failure)):
            self._wrong(entry, "charges less than its event's price")
        self._pay(entry)
        stories = [story]
        for kind, name in charge.caps:
            stories.append(self.caps[number, kind, name])
        if charge.caller is None and charge.group is not None:
            self._wrong(entry, "charges a group without a caller")
        if charge.caller is not None and stories[1]["member_of"] != charge.group:
            self._wrong(entry, "charges a caller without the caller's group")
        for payer in stories:
            payer["spent"] += amount
            payer["failure_spent"] += charge.failure
            payer["answers"] += 1
            if payer["spent"] > payer["cap"] or payer["failure_spent"] > payer["failure_cap"]:
                self._wrong(entry, "charges more than was left")
        story["unverified"] += charge.unverified

    def _pay(self, entry: Mapping[str, Any]) -> None:
        if entry["release_id"] is None or entry["release_id"] in self._paid:
            self._wrong(entry, "is paid for under an id that is not its own")
        self._paid[entry["release_id"]] = entry["data_set"]

    def _draw(self, entry: Mapping[str, Any]) -> None:
        release_id = entry["release_id"]
        if self._paid.get(release_id) != entry["data_set"] or release_id in self._begun:
            self._wrong(entry, "draws an answer that was not paid for, or was drawn or released before")
        self._begun.add(release_id)

    def _release(self, entry: Mapping[str, Any]) -> None:
        if self._paid.get(entry["release_id"]) != entry["data_set"]:
            self._wrong(entry, "releases an answer that was not paid for, or released before")
        self._paid[entry["release_id"]] = -1
        text = entry["detail"]
        if NOT_VERIFIED_NOTE in text and NOT_VERIFIED_NOTE in str(detail_of(text).get("note")):
            self.data_sets[entry["data_set"]]["unverified"] += 1

    def _check_cap(self, entry: Mapping[str, Any], story: dict[str, Any], data_set: dict[str, Any]) -> None:
        caps = _budget(story, data_set).caps
        if story["cap"] > caps.loss + caps.loss // _SLACK + 1 or story["failure_cap"] > caps.failure:
            self._wrong(entry, "grants more than its budget admits")


def _budget(story: Mapping[str, Any], data_set: Mapping[str, Any]) -> Budget:
    return _budget_of(story["epsilon"], data_set["delta"], story["failure_delta"], data_set["alpha"])


@lru_cache(maxsize=1024)
def _budget_of(epsilon: str, delta: str, failure_delta: str, alpha: str | None) -> Budget:
    return Budget(float(epsilon), float(delta), float(failure_delta), None if alpha is None else float(alpha))


def _differences(history: History, replay: Replay) -> Iterator[str]:
    """Where the story and the rows beside it differ."""
    yield from replay.problems
    format_ = _REDACTED_FORMAT if history.redacted else SCHEMA_VERSION
    if history.meta.get("schema_version") != format_ or set(history.meta) != {"schema_version", "head"}:
        yield "the format or the head is not as it was written"
    replayed = dict(replay.data_sets)
    for row in history.data_sets:
        story = replayed.pop(row["id"], None) if type(row["id"]) is int else None
        if story is None:
            yield f"data set {row['name']!r} has no history"
            continue
        for column in _DATA_SET:
            if not _same(story[column], row[column]):
                yield f"data set {row['name']!r}: {column} does not agree with the history"
    yield from (f"data set number {number} is missing" for number in replayed)
    if history.fingerprints is not None:
        yield from _not_as_committed(history.fingerprints, history.secrets or [], replay)
    caps = dict(replay.caps)
    for row in history.caps:
        key = (row["data_set"], row["kind"], row["name"])
        story = caps.pop(key, None) if type(row["data_set"]) is int else None
        if story is None:
            yield f"the cap of {row['kind']} {row['name']!r} has no history"
            continue
        for column in _CAP:
            if not _same(story[column], row[column]):
                yield f"the cap of {row['kind']} {row['name']!r}: {column} does not agree with the history"
    yield from (f"the cap of {kind} {name!r} is missing" for _, kind, name in caps)


def _not_as_committed(
    fingerprints: Sequence[Mapping[str, Any]], secrets: Sequence[Mapping[str, Any]], replay: Replay
) -> Iterator[str]:
    """Where fingerprints and keys are not those that the chain holds commitments to."""
    keys = {row["data_set"]: row["value"] for row in secrets if row["name"] == RECORDS}
    if {type(number) for number in keys} - {int} or keys.keys() != replay.data_sets.keys():
        yield "the keys are not those of the data sets"
        return
    if len({(row["data_set"], row["name"]) for row in secrets}) != len(secrets):
        yield "a secret is kept twice"
    known: dict[str, int] = {}
    for row in fingerprints:
        if type(row["data_set"]) is not int or row["data_set"] not in keys:
            yield "records are known to nobody"
            return
        known[keyed(keys[row["data_set"]], RECORDS, row["fingerprint"])] = row["data_set"]
    if len(known) != len(fingerprints):
        yield "records are known twice"
    for number in sorted({*known.values(), *replay.records.values()}):
        if _owned(known, number) != _owned(replay.records, number):
            yield f"data set number {number}: its versions do not agree with the history"
    moved = [moved_hash(keys[number], secrets) for number, _ in replay.moved]
    if moved != [committed for _, committed in replay.moved] or (not moved and len(keys) != len(secrets)):
        yield "what was moved here from an older format is not what the history committed to"


def _owned(known: Mapping[str, int], number: int) -> set[str]:
    return {commitment for commitment, owner in known.items() if owner == number}


def _same(replayed: Any, row: Any) -> bool:
    return type(replayed) is type(row) and bool(replayed == row)
