"""Which ledger a data set has: a note in the trusted store, so that a budget is found again and not opened twice.

The note holds a path, an address without its password, or ``:memory:``, under a keyed name. It helps one user on one
machine; the ledger itself is the record. Before a budget is committed three files are written: ``.opening``, which
stays until the account stands, the marks of the records, and the note. A crash at any moment neither forgets a budget
nor keeps its owner from opening it.

A first budget is opened only where the store can say that the records have none yet: what it says otherwise is a
refusal, and another budget is the owner's decision, made with ``sotto ledger grant``. The question and the three files
are one step: ``first_budgets`` lets one program at a time take it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import Final

from sottovoce.errors import LedgerMismatchError, LedgerUnavailableError
from sottovoce.privacy.ledger.file import may_hold
from sottovoce.privacy.ledger.identity import Identity
from sottovoce.privacy.ledger.known_records import OPENING, Known, closest, keep, unusable, weigh
from sottovoce.privacy.ledger.location import IN_MEMORY, Address, is_address
from sottovoce.records.sealed import PrivateRecords
from sottovoce.store import (
    LEDGERS,
    UnsafeStoreError,
    alone,
    home,
    private_folder,
    private_name,
    write_anew,
    write_once,
)

DATABASE: Final = ".database"
"""Beside the note of an address: the address again, and which database it leads to."""
_FROM_MEMORY: Final = (
    "The owner opens one that is kept: sotto ledger grant LEDGER --private FILE --budget EPSILON,DELTA. In Python, "
    "Ledger(':memory:') is made once and given to every session that is to share its budget."
)


def default_path(known: PrivateRecords | str) -> str:
    """The ledger that these records have, or where one is to be kept when none is named.

    Args:
        known: The records, or their fingerprint alone.

    Raises:
        LedgerUnavailableError: The trusted store cannot be used, or the ledger noted for these records is gone.
    """
    fingerprint = known if isinstance(known, str) else known.fingerprint
    try:
        noted = _noted(_names(known))
        fresh = str(private_folder(LEDGERS) / f"{private_name(fingerprint)}.db")
    except OSError as error:
        raise unusable(error) from None
    if noted is not None and not _exists(noted) and not _opening(fingerprint, noted):
        raise _missing_ledger(noted)
    return noted or fresh


@contextmanager
def first_budgets(identity: Identity) -> Iterator[None]:
    """From ``refuse_second`` to the end of ``note_first``: no other program opens a first budget meanwhile.

    Raises:
        LedgerUnavailableError: The trusted store cannot be used.
    """
    if _is_synthetic(identity):
        yield
        return
    with ExitStack() as turn:
        try:
            turn.enter_context(alone())
        except OSError as error:
            raise unusable(error) from None
        yield


def prepare(identity: Identity) -> None:
    """Does beforehand what takes long of a first opening, so that nobody waits for it.

    Raises:
        LedgerUnavailableError: The trusted store cannot be used.
    """
    try:
        weigh(identity)
    except OSError as error:
        raise unusable(error) from None


def refuse_second(identity: Identity, path: str, within: Iterable[str] = ()) -> None:
    """Refuses to open a first budget for records that had one opened before, wherever that is.

    Synthetic records may have any number of budgets.

    Args:
        identity: The data set, which the ledger does not know.
        path: The ledger's.
        within: Fingerprints of data sets whose budget these records are to draw on, in place of one of their own: they
            may be among them.

    Raises:
        LedgerMismatchError: The records, or most of them, have a ledger that still exists, or began to get one.
        LedgerUnavailableError: Their ledger is gone, was emptied or was in memory, or the trusted store cannot be used.
    """
    if _is_synthetic(identity):
        return
    place = _place(path)
    try:
        noted = _noted(identity.names())
        if noted is None:
            _require_writable(identity.fingerprint)  # a budget is opened only where it can be remembered
        begun = noted is not None and _opening(identity.fingerprint, noted)
        known = closest(identity, within) if noted is None or begun else None
    except OSError as error:
        raise unusable(error) from None
    if begun and noted is not None and noted != place and not _same(noted, place):
        raise _unfinished_opening(noted, place)
    if known is not None:
        raise _already_known(known, identity)
    if noted is None or begun:
        return
    if not _exists(noted):
        raise _missing_ledger(noted)
    if _same(noted, place):
        # Of a server's account nobody could ask whether it stood when another ledger was opened.
        or_stopped = ", or the program that opened their budget there was stopped first" if is_address(noted) else ""
        raise LedgerUnavailableError(
            f"{noted} is the ledger of these records, and it holds nothing of them: it was emptied or replaced"
            f"{or_stopped}. Put it back from a backup; a new one would start their budget again. Where that is what "
            "the owner wants: "
            f"sotto ledger grant {quote(noted)} --private FILE --budget EPSILON,DELTA"
        )
    what = "A ledger in memory forgets" if place == IN_MEMORY else f"{place} knows nothing of it"
    raise LedgerMismatchError(
        f"These records have the ledger {noted} already. {what}, so its budget would come on top. Leave --ledger out "
        f"to go on with theirs. A second budget is the owner's decision: sotto ledger grant "
        f"{'LEDGER' if place == IN_MEMORY else quote(place)} --private FILE --budget EPSILON,DELTA"
    )


def note_first(identity: Identity, path: str, data_set: str, *, granted: bool = False) -> None:
    """Notes the ledger that these records are about to get, durably; to be called before their account is committed.

    Until ``remember`` is called, opening the same ledger goes on from here.

    Args:
        identity: The data set.
        path: The ledger's.
        data_set: Its name there.
        granted: Whether the owner opens it, beside another ledger if there is one.

    Raises:
        LedgerMismatchError: Another program opens a first budget for them in another ledger at this moment.
        LedgerUnavailableError: The trusted store cannot be written: nobody would know of the budget.
    """
    if _is_synthetic(identity):
        return
    place = _place(path)
    try:
        noted = _noted(identity.names())
        other = noted is not None and noted != place and not _same(noted, place)
        if other and not granted:
            raise _unfinished_opening(str(noted), place)
        note = _note(identity.fingerprint)
        if noted is None and place != IN_MEMORY:  # whose account is gone when it was not committed
            _write(note.with_suffix(OPENING), place)
        keep(identity, place, data_set, anew=not other or not _exists(str(noted)))
        if noted is None:
            write_once(note, os.fsencode(place))
            written = os.fsdecode(note.read_bytes())
            if written != place:  # where the store cannot be locked
                raise _unfinished_opening(written, place)
    except OSError as error:
        raise unusable(error) from None


def remember(identity: Identity, path: str, data_set: str, database: str | None = None) -> str | None:
    """Notes a ledger that has an account of these records, unless another that still exists is noted; returns that one.

    Where the other's account began to be opened, it counts if the account stands there: its program was stopped behind
    the commit. A server is not asked, and counts.

    The note is a convenience once there is an account: where the store cannot be written there is none. Of synthetic
    records in memory nothing is noted, since nothing of them can be found again or is to be refused.

    Args:
        identity: The data set.
        path: The ledger's.
        data_set: Its name there.
        database: What tells the database of a server from any other: another role or address may lead to the same one.

    Raises:
        LedgerUnavailableError: The store is open to others, or is kept under another key; or it does not take that the
            account, which was about to be opened, stands.
    """
    place, begun = _place(path), False
    if place == IN_MEMORY and _is_synthetic(identity):
        return None
    try:
        other = _noted(identity.names())
        begun = other is not None and _opening(identity.fingerprint, other)
        elsewhere = other is not None and _exists(other) and not _same(other, place)
        if other is not None and database is not None and _database(identity.fingerprint, other) == database:
            elsewhere = False
        if other is not None and elsewhere and (not begun or _may_hold(other, identity)):
            if begun:
                _note(identity.fingerprint).with_suffix(OPENING).unlink(missing_ok=True)
            return other
        _write(_note(identity.fingerprint), place)
        if database is not None:
            _write(_note(identity.fingerprint).with_suffix(DATABASE), f"{place}\n{database}")
        else:
            _note(identity.fingerprint).with_suffix(DATABASE).unlink(missing_ok=True)
        keep(identity, place, data_set)
        _note(identity.fingerprint).with_suffix(OPENING).unlink(missing_ok=True)
    except UnsafeStoreError as error:
        raise unusable(error) from None
    except OSError as error:
        if begun:
            raise unusable(error) from None
    return None


def _unfinished_opening(noted: str, place: str) -> LedgerMismatchError:
    return LedgerMismatchError(
        f"A first budget for these records began to be opened in {noted}, by a program that still runs or was "
        "stopped. Leave --ledger out to go on there. If they are to have it in another ledger, the owner opens it: "
        f"sotto ledger grant {'LEDGER' if place == IN_MEMORY else quote(place)} --private FILE --budget EPSILON,DELTA"
    )


def _already_known(known: Known, identity: Identity) -> LedgerMismatchError:
    """Why records that mostly are known get no fresh budget; not how many, which may tell how many there are."""
    file = quote(identity.records.source) if identity.records is not None else "FILE"
    if known.ledger == IN_MEMORY:
        return LedgerMismatchError(
            f"These are no new records: most of them are those of a data set (unit '{known.unit}', {known.adjacency}) "
            "that had its budget in a ledger in memory, or of others, or most of its are among them. Another budget "
            f"would come on top. {_FROM_MEMORY}"
        )
    if known.begun:
        return LedgerMismatchError(
            f"These are no new records: most of them are those of a data set (unit '{known.unit}', {known.adjacency}) "
            f"whose budget began to be opened in {known.ledger}, by a program that still runs or was stopped, or of "
            "others, or most of its are among them. Finish that opening first, with the file that it was begun for. If "
            "these are to have a budget of their own, the owner opens it: sotto ledger grant LEDGER --private "
            f"{file} --budget EPSILON,DELTA"
        )
    return LedgerMismatchError(
        f"These are no new records: most of them are those of the data set {known.data_set!r} in the ledger "
        f"{known.ledger} (unit '{known.unit}', {known.adjacency}) or of others, or most of its are among them. A "
        "fresh budget would start theirs again. To go on with the budget that they have, the owner says: sotto ledger "
        f"grant {quote(known.ledger)} --private {file} --unit {quote(known.unit)} --adjacency {known.adjacency} "
        f"--continues {quote(known.data_set)}. If they are to have a budget of their own, the owner opens it: sotto "
        f"ledger grant LEDGER --private {file} --budget EPSILON,DELTA"
    )


def _missing_ledger(noted: str) -> LedgerUnavailableError:
    if noted == IN_MEMORY:
        return LedgerUnavailableError(
            "These records had a budget in a ledger in memory, which is forgotten when its program ends; another "
            f"budget would come on top. {_FROM_MEMORY}"
        )
    return LedgerUnavailableError(
        f"The ledger of these records was {noted}, and it is gone or empty. Name where it is now with --ledger, or put "
        "it back from a backup; a new one would start their budget again. Where that is what the owner wants: sotto "
        "ledger grant LEDGER --private FILE --budget EPSILON,DELTA"
    )


def _is_synthetic(identity: Identity) -> bool:
    return identity.records is not None and identity.records.synthetic


def _names(known: PrivateRecords | str) -> Iterator[str]:
    if isinstance(known, str):
        yield known
    else:
        yield from known.fingerprints()


def _place(path: str) -> str:
    """Where a ledger is, as it may be noted and shown: a password of its address is left out."""
    if is_address(path):
        return Address.parse(path).shown
    return path if path == IN_MEMORY else os.path.abspath(path)


def _exists(noted: str) -> bool:
    """Whether it may still be there; a server is not asked. An empty file holds nothing any more, nor does memory."""
    return is_address(noted) or (noted != IN_MEMORY and os.path.isfile(noted) and os.path.getsize(noted) > 0)


def _same(noted: str, place: str) -> bool:
    if is_address(noted) or is_address(place) or place == IN_MEMORY:
        return noted == place
    return os.path.exists(place) and os.path.exists(noted) and os.path.samefile(noted, place)


def _may_hold(noted: str, identity: Identity) -> bool:
    return is_address(noted) or may_hold(noted, list(identity.names()))


def _noted(fingerprints: Iterable[str]) -> str | None:
    """The ledger noted under the first of the names that has one."""
    if not (home() / LEDGERS).is_dir() or not any((home() / LEDGERS).glob("*.path")):
        return None
    for fingerprint in fingerprints:
        try:
            return os.fsdecode(_note(fingerprint).read_bytes())
        except FileNotFoundError:
            continue
    return None


def _database(fingerprint: str, noted: str) -> str | None:
    """The database that the noted address led to when it was last opened; ``None`` where that is not known."""
    try:
        text = os.fsdecode(_note(fingerprint).with_suffix(DATABASE).read_bytes())
    except FileNotFoundError:
        return None
    address, _, database = text.partition("\n")
    return database if address == noted else None


def _opening(fingerprint: str, noted: str) -> bool:
    """Whether that ledger was noted for an account that is not known to stand."""
    try:
        return os.fsdecode(_note(fingerprint).with_suffix(OPENING).read_bytes()) == noted
    except FileNotFoundError:
        return False


def _require_writable(fingerprint: str) -> None:
    """Tried before a ledger's file is made; what is written later may fail all the same, and is refused then."""
    private_name(fingerprint)
    folder = private_folder(LEDGERS)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} cannot be written")


def _write(file: Path, place: str) -> None:
    write_anew(file, os.fsencode(place))


def _note(fingerprint: str) -> Path:
    return private_folder(LEDGERS) / f"{private_name(fingerprint)}.path"
