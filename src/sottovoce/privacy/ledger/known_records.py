"""Single records that a ledger was opened for: keyed marks in the trusted store.

They answer two questions that a fingerprint of a whole file cannot. Are these new records, or mostly those of a data
set whose budget was already opened? Are these rows public, or somebody's private ones?

A file holds a header, then the marks of at most ``MOST`` records; of a larger data set those with the smallest marks,
which is a sample that any other file's records can be compared with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InputError, LedgerUnavailableError
from sottovoce.privacy.ledger.identity import Identity
from sottovoce.records.fingerprints import (
    NAME,
    NUMBERED,
    PHRASE,
    SENTENCE,
    TEXTS,
    MarkArray,
    earlier_marks_of,
    marks_of,
    same_text,
    sight,
)
from sottovoce.records.sealed import PrivateRecords, PublicRecords
from sottovoce.store import LEDGERS, UnsafeStoreError, home, mark_key, private_folder, private_name, write_anew

MOST: Final = 500_000
"""Records of a data set that are remembered, 8 bytes each and 8 for each of its texts."""
SHARE: Final = 0.5
"""From this share of known records on, a file is no new data set."""
FEW: Final = 10
"""Fewer rows than this that happen to be known do not make a public file private."""

_MAGIC: Final = b"sotto marks 8\n"
_FORMATS: Final = (_MAGIC, *(b"sotto marks %d\n" % number for number in (7, 6, 5, 4, 3, 2, 1)))
"""All are read. The sixth and the seventh format wrote cells as ``records/earlier_cells.py`` does. The fifth did not
know rows of numbers by their numbers, the fourth not what pictures show. The third marked codes and repeated words
otherwise, and knew no numbered texts; the second had one bit for the kind of a text, long or short; files of the first
hold the whole record and its longest text alone."""
_CELLS: Final = (range(2), range(2, 3))
"""Which of ``EARLIER`` wrote the cells of marks of the seventh format, and of those before it."""
OPENING: Final = ".opening"
"""Beside the marks of a data set whose first budget may not be committed yet."""
_ALL: Final = 2**64 - 1
_HEADER_FIELDS: Final = ("ledger", "data_set", "adjacency", "unit")


@final
@dataclass(frozen=True)
class Known:
    """A data set whose records are remembered.

    Attributes:
        ledger: Where its ledger was when it was last opened.
        data_set: Its name there.
        adjacency: The relation of its budget.
        unit: Who is protected.
        share: How many of the other file's records are its own, from 0 to 1.
        contained: How many of its own records are in the other file, from 0 to 1.
        begun: Whether its budget began to be opened and is not known to stand.
    """

    ledger: str
    data_set: str
    adjacency: str
    unit: str
    share: float = 0.0
    contained: float = 0.0
    begun: bool = False


@final
@dataclass(frozen=True)
class _Kept:
    """What a file of marks holds.

    Attributes:
        known: Whose records they are.
        limit: The largest mark that the sample was drawn by.
        rate: The part of the records that is kept.
        marks: Their marks.
        place: Of its format in ``_FORMATS``.
        sight: What of pictures could be marked, see ``fingerprints.sight``.
    """

    known: Known
    limit: int
    rate: float
    marks: MarkArray
    place: int
    sight: int

    @property
    def current(self) -> bool:
        """Whether it is in the format that is written today."""
        return self.place == 0

    @property
    def is_whole(self) -> bool:
        """Whether the records would have no further marks here."""
        return self.current and self.sight >= sight()


def weigh(identity: Identity) -> None:
    """Works out the marks of the records, which takes time, before anybody waits for it.

    Raises:
        OSError: The store cannot be used.
    """
    if identity.records is not None and not identity.records.synthetic:
        identity.records.marks(mark_key())


def keep(identity: Identity, ledger: str, data_set: str, *, anew: bool = True) -> None:
    """Remembers the records of a data set that has an account. Nothing is kept of synthetic ones.

    Args:
        identity: The data set.
        ledger: Where its ledger is.
        data_set: Its name there.
        anew: Whether another ledger that is remembered with these records gives way to this one.

    Raises:
        OSError: The store cannot be used.
    """
    if identity.records is None or identity.records.synthetic:
        return
    file = _file(identity.fingerprint)
    known = Known(ledger, data_set, identity.adjacency.value, identity.unit)
    kept = _read(file) if file.exists() else None
    if kept is not None and not anew:
        known = replace(kept.known, begun=False)
    if kept is not None and kept.is_whole:
        if replace(kept.known, begun=False) == known:
            return
        sample = kept
    else:
        sample = _sample(*identity.records.marks_and_sight(mark_key()))
        if kept is not None and kept.current and bool(np.isin(sample.marks, kept.marks).all()):
            sample = replace(kept, sight=sample.sight)  # it may hold more, of pictures that cannot be decoded now
    fields: dict[str, object] = {name: getattr(known, name) for name in _HEADER_FIELDS}
    fields |= {"limit": sample.limit, "rate": sample.rate, "width": sample.marks.shape[1], "sight": sample.sight}
    header = json.dumps(fields).encode() + b"\n"
    write_anew(file, _MAGIC + header + np.ascontiguousarray(sample.marks, "<u8").tobytes())


def _sample(marks: MarkArray, seen: int) -> _Kept:
    """What is kept of records' marks, of a data set that has no ledger yet."""
    total, main, limit = len(marks), _main(marks), _ALL
    if total > MOST:
        order = np.argsort(main, kind="stable")[:MOST]
        marks, limit = marks[order], int(main[order[-1]])
    return _Kept(Known("", "", "", ""), limit, len(marks) / total, marks, place=0, sight=seen)


def closest(identity: Identity, apart_from: Iterable[str] = ()) -> Known | None:
    """The remembered data set that these records mostly come from, or that is mostly in them.

    Where a first budget for these very records began to be opened, their own marks say nothing.

    Args:
        identity: The data set.
        apart_from: Fingerprints of data sets that are left out.

    Raises:
        OSError: The store cannot be used.
    """
    if identity.records is None or not any(True for _ in _files()):
        return None
    own, leave_out = _file(identity.fingerprint), {_file(fingerprint) for fingerprint in apart_from}
    if own.with_suffix(OPENING).exists():
        leave_out.add(own)
    records, key = identity.records, mark_key()
    return _closest(records.marks(key), partial(records.earlier_marks, key), leave_out=leave_out)


def require_public(
    rows: PublicRecords | Sequence[Mapping[str, object]],
    source: str,
    *,
    beside: PrivateRecords | None = None,
    fewest: int = FEW,
) -> None:
    """Refuses rows that are to be shown or asked in clear and that a ledger was opened for as private ones.

    Every reader of public rows goes through this one. What it says depends on the private records: it is meant for
    their owner, who has both files.

    Args:
        rows: The rows.
        source: What they are, for the error.
        beside: Private records that no ledger need know yet, and that the rows are compared with as well.
        fewest: Fewer known rows than this are no reason. 1 where rows are said to be of nobody: a chance hit among
            public texts is none there.

    Raises:
        InputError: Most of the rows are a data set's private records, or most of its records are among them.
        LedgerUnavailableError: The trusted store cannot be used.
    """
    try:
        own = beside is not None and not beside.synthetic and not _is_kept(beside)
        if not own and not any(True for _ in _files()):
            return
        values = [row.values for row in (rows.whole or rows.rows)] if isinstance(rows, PublicRecords) else rows
        unknown = _sample(*beside.marks_and_sight(mark_key())) if own and values and beside is not None else None
        key = mark_key()
        known = None
        if values:
            earlier = partial(earlier_marks_of, lambda: values, key)
            known = _closest(marks_of(values, key), earlier, fewest=fewest, beside=unknown)
    except OSError as error:
        raise unusable(error) from None
    if known is not None and not known.ledger:
        raise InputError(
            f"{source}: most of these rows are private records, those that they are given with, or most of those are "
            "among them. Rows that are shown or asked in clear must be public. Nothing was charged, and no budget was "
            "opened."
        )
    if known is not None:
        raise InputError(
            f"{source}: most of these rows are private records, such as those of the data set '{known.data_set}' in "
            f"the ledger {known.ledger}, or most of its records are among them. Rows that are shown or asked in clear "
            "must be public. Answer from private records with --private, or show rows written by 'sotto synthesize'."
        )


def _is_kept(records: PrivateRecords) -> bool:
    """Whether these very records are remembered with all of their marks."""
    file = _file(records.fingerprint)
    return file.exists() and _read(file).is_whole


def unusable(error: OSError) -> LedgerUnavailableError:
    """What is said where the trusted store cannot be used, and with it whether records are known."""
    return LedgerUnavailableError(
        f"The trusted store cannot be used ({error.strerror or error}). Without it nobody can tell whether these "
        "records have a budget already. Nothing was charged. Mend that and run it again."
    )


def _closest(
    marks: MarkArray,
    earlier: Callable[[Iterable[int]], list[MarkArray]],
    fewest: int = 1,
    leave_out: Collection[Path] = (),
    beside: _Kept | None = None,
) -> Known | None:
    """Compares a file's marks with those of every remembered data set, one by one and all together.

    Marks that were kept in earlier formats are compared with those of cells as those formats wrote them, too.
    """
    main, anywhere = _main(marks), np.zeros(len(marks), bool)
    before: dict[Iterable[int], list[MarkArray]] = {}
    best: Known | None = None
    remembered = (_read(file) for file in _files() if file not in leave_out)
    for kept in chain(remembered, [] if beside is None else [beside]):
        hits = _hits(marks, kept.marks)
        formats = range(0) if kept.current else _CELLS[kept.place > 1]
        if formats not in before:
            before[formats] = earlier(formats) if formats else []
        for marks_then in before[formats]:
            hits |= _hits(marks_then, kept.marks)
        if not hits.any():
            continue
        anywhere |= hits
        share = _share(hits, main, kept) if np.count_nonzero(hits) >= fewest else 0.0
        found = _hits(kept.marks, marks)
        for marks_then in before[formats]:
            found |= _hits(kept.marks, marks_then)
        contained = float(found.mean())
        if best is None or max(share, contained) > max(best.share, best.contained):
            best = replace(kept.known, share=share, contained=contained)
    if best is None:
        return None
    together = float(anywhere.mean()) if np.count_nonzero(anywhere) >= fewest else 0.0
    return best if max(best.share, best.contained, together) >= SHARE else None


def _share(hits: NDArray[np.bool_], main: NDArray[np.uint64], kept: _Kept) -> float:
    """How many of a file's records are a data set's own, of which a sample may have been kept alone.

    Records that would be in the sample tell it best. Where their marks are others than they were, because of a column
    more or less, the whole file's hits do, in proportion to the sample. Of a file so small that one record of it is in
    the sample at most, that one decides: a refusal that its owner lifts is the smaller mistake.
    """
    compared = main <= kept.limit
    among = float(hits[compared].mean()) if compared.any() else 0.0
    return max(among, min(1.0, float(hits.mean()) / kept.rate))


def _main(marks: MarkArray) -> NDArray[np.uint64]:
    """The mark that a sample is drawn by: the smallest of a record's texts where there are any."""
    texts = np.where(marks[:, 1:] != 0, marks[:, 1:], np.uint64(_ALL)).min(axis=1, initial=_ALL)
    return np.where((marks[:, 1:] != 0).any(axis=1), texts, marks[:, 0])


def _hits(marks: MarkArray, others: MarkArray) -> NDArray[np.bool_]:
    """Which records are among the others, as a whole or by a text.

    A phrase, such as a person's name, or a text that stands in several rows of both files, such as a label, tells only
    where one of both records has no sentence of its own, with numbers or without. One with numbers, or a date, tells
    where one of both has none but for those. Sentences and long words of either file always do.
    """
    mine, theirs = marks[:, 1:], others[:, 1:]
    known, numbered, their_numbered = _among(mine, theirs), _is_numbered(mine), _is_numbered(theirs)
    bare, their_bare = ~(mine % 4 == SENTENCE).any(axis=1), ~(theirs % 4 == SENTENCE).any(axis=1)
    plain, their_plain = bare & ~numbered.any(axis=1), their_bare & ~their_numbered.any(axis=1)
    always = _among(mine, theirs[theirs % 4 >= NAME]) | (known & (mine % 4 >= NAME))
    among_plain = _among(mine, theirs[their_plain]) | (known & plain[:, None])
    among_bare = numbered & (_among(mine, theirs[their_bare]) | (known & bare[:, None]))
    their_numbered_bare = their_numbered & their_bare[:, None]
    among_bare |= _among(mine, theirs[their_numbered_bare]) | (_among(mine, theirs[their_numbered]) & bare[:, None])
    hits: NDArray[np.bool_] = np.isin(marks[:, 0], others[:, 0]) | (always | among_plain | among_bare).any(axis=1)
    return hits


def _is_numbered(texts: MarkArray) -> NDArray[np.bool_]:
    return np.asarray((texts != 0) & (texts % 4 == NUMBERED))


def _among(mine: MarkArray, theirs: MarkArray) -> NDArray[np.bool_]:
    """Which texts are among the others, whatever kind they are of."""
    return np.isin(same_text(mine), same_text(theirs[theirs != 0]))


def _files() -> Iterator[Path]:
    folder = home() / LEDGERS
    if folder.is_dir():
        yield from sorted(private_folder(LEDGERS).glob("*.marks"))


def _file(fingerprint: str) -> Path:
    return private_folder(LEDGERS) / f"{private_name(fingerprint)}.marks"


def _read(file: Path) -> _Kept:
    """What a file remembers, in whatever format."""
    content = file.read_bytes()
    try:
        magic = next((magic for magic in _FORMATS if content.startswith(magic)), b"")
        if not magic:
            raise ValueError("another format")
        end = content.index(b"\n", len(magic))
        header = json.loads(content[len(magic) : end])
        known, limit = Known(*(header[name] for name in _HEADER_FIELDS)), int(header["limit"])
        seen = int(header.get("sight", 0))
        first = magic == _FORMATS[-1]
        rate, width = ((limit + 1) / 2**64, 2) if first else (float(header["rate"]), int(header["width"]))
        if not 0 < rate <= 1 or not 1 <= width <= 1 + TEXTS:
            raise ValueError("no sample of records")
        marks = np.frombuffer(content, "<u8", offset=end + 1).astype(np.uint64).reshape(-1, width)
    except (ValueError, TypeError, KeyError):
        raise UnsafeStoreError(f"{file} is damaged or of another version; restore it from a backup") from None
    if magic in _FORMATS[-2:]:
        texts = marks[:, 1:]
        long = first | (texts % 2 == 1)
        marks[:, 1:] = np.where(
            texts != 0, (texts & ~np.uint64(3)) | np.where(long, SENTENCE, PHRASE).astype(np.uint64), 0
        )
    known, place = replace(known, begun=file.with_suffix(OPENING).exists()), _FORMATS.index(magic)
    return _Kept(known, limit, rate, marks, place, seen)
