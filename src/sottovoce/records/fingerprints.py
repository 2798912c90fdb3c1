"""Fingerprints: what a data set, and each of its records, is known by, whatever the order of rows and the file format.

A fingerprint covers the rows and how they are shared out among the protected units: the same rows in other units are
another account, since its figures would speak of other persons. Marks tell one record from another under a key, so that
a file that grew by a few rows, lost a column or was edited here and there is recognised for what it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from importlib.util import find_spec
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.records.cells import ENCODED_PICTURES, PICTURES, CellTexts, column_text, composed, context, is_missing
from sottovoce.records.cells import TEXTS as CELLS
from sottovoce.records.earlier_cells import EARLIER, may_differ

Values = Mapping[str, object]
MarkArray = NDArray[np.uint64]
"""Shape (records, 1 + texts): the mark of the whole record, then of its own texts, 0 where there are fewer. The last
two bits of a text's mark are its kind: ``SENTENCE``, ``NAME``, ``NUMBERED`` or ``PHRASE``; ``same_text`` leaves them
out."""

SENTENCE: Final = 3
"""A text of ``LONG_TEXT`` characters and ``WORDS`` words, and more, in a column whose texts differ."""
NAME: Final = 2
"""In such a column a single word of ``LONG_TEXT`` characters and more, such as an id or a hash, or an address."""
NUMBERED: Final = 0
"""In such a column either of both, and no address, that differs from another text of the column in digits alone: a
running number or a date, in whatever language, which other people's records may share."""
PHRASE: Final = 1
"""Whatever else tells, such as a person's name, or a sentence that stands in several rows."""
KIND_BITS: Final = np.uint64(2)

LONG_TEXT: Final = 20
WORDS: Final = 4
SHORT_TEXT: Final = 8
"""Characters from which on a text tells anything, if ``LETTERS`` of them are letters: no number, amount or time."""
LETTERS: Final = 5
TEXTS: Final = 8
"""Texts of a record that are marked at most."""
SIGHT: Final = 1
"""What ``sight`` says where pictures can be decoded; larger once more of them is marked."""
CODE_LENGTH: Final = 64
CODE_DIGITS: Final = 6
CODE_TURNS: Final = 0.25
"""A single word of so many characters is a code: hardly ever a label; or of ``LONG_TEXT`` characters with so many
digits, or that turns between small letters, capitals and digits in so large a share of its places."""
COUNTER_DIGITS: Final = 18
"""Dates with times and offsets have up to so many digits. More, and a text tells by them."""
DIFFERENT: Final = 1.1
"""A column's texts differ where each stands in no more rows than this on average."""
WORD_REPEATS: Final = 1.15
PHRASE_REPEATS: Final = 6
SENTENCE_REPEATS: Final = 20
"""In so many different rows single words, other texts of several words, and sentences and codes stand on average at
most. Beyond that a column holds labels, which most often are single words. Of evenly drawn labels that stand in 1.15
rows on average two tables share a quarter, of those that stand in 1.4 rows half."""
COMMONEST: Final = 0.1
"""A text in more than this share of the different rows, and in more than ``FEW_ROWS``, is boilerplate."""
FEW_ROWS: Final = 3
EVEN: Final = 1.25
"""Sentences and codes are none where no text of the column stands in more rows than this times their mean, nor in more
than the column has texts: a few records, each there several times."""

_PLACES: Final = np.array([2, 3, 1, 0])
"""By kind, which texts of a record come first."""
_SHORT_WORD: Final = 0
_CODE: Final = 4
_ADDRESS: Final = 5
_ROW: Final = 6
"""Texts by themselves; in its column the first is a phrase, the others are names or phrases, or they are nothing. The
last is a row of numbers: a phrase where rows hardly repeat, equal ones among them."""
FRACTIONS: Final = 2
"""Of a row of numbers so many must be fractions for it to tell by itself, without the record's other columns."""
EXACT: Final = 2.0**24
"""Numbers from here on are compared as they are: 32 bits make one of neighbouring times."""
_NUMBERS: Final = re.compile(r"[-+.0-9eE \t\n]+")
_LETTER: Final = re.compile(r"[^\W\d_]")
_LETTERED: Final = re.compile(rf"(?:[^\W\d_][\W\d_]*){{{LETTERS}}}")
_LONG_WORD: Final = re.compile(rf"[^\W\d_]{{{LETTERS},}}")
_DIGITS: Final = re.compile(r"\d+")
_MAIL: Final = re.compile(r"[^@]@[^@]+\.[^@]")
_PATH: Final = re.compile(r"^[^/\\]+\.[A-Za-z]{2,}/|[/\\][^/\\]*\.[A-Za-z][A-Za-z0-9]{0,4}$")
"""A host's name before the first slash, or a file's ending after the last one."""
_TURN: Final = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[0-9]|(?<=[0-9])[A-Za-z]")
_CALENDAR: Final = re.compile(
    r"(?<![^\W\d_])(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?|jan(?:uary)?|feb(?:ruary)?"
    r"|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
    r"|(?:the )?\d+(?:st|nd|rd|th)(?: of)?|[ap]m|utc|gmt|we?t|ce[st]t|ce?st|ee[st]t|eet|bst|msk|ist|[epmc][sd]t"
    r"|ak[sd]t|a[ecw][sd]t|nz[sd]t|hst|jst|kst|hkt|sgt)(?![^\W\d_])",
    re.IGNORECASE,
)
"""Days, months, halves of the day, ordinals and short names of time zones, in English. ``WEST`` is a word of street
names too, and too short to tell by itself."""
_ZONE: Final = re.compile(
    r"(?<=\d:\d\d)(?:[.,]\d{1,9})?(?: ?[ap]m(?![a-z]))?(?: ?(?:z|utc|gmt)(?![a-z]))?"
    r"(?:(?: ?[+-]\d\d:?\d\d)? ?(?:\[?(?P<name>[a-z]+(?:/[a-z0-9_+-]+){1,2})\]?|\[(?P<short>[a-z][a-z0-9+-]{1,15})\])"
    r"| ?[+-]\d\d:?\d\d \((?:[\w.-]{1,24} ){1,3}time\))$",
    re.IGNORECASE,
)
"""A zone's full name, at a text's end and right after a clock time: one of ``time_zones.txt`` (``[Europe/Berlin]``),
in brackets also one without a slash (``[Japan]``), and behind an offset ``(Central European Standard Time)``. Elsewhere
the same characters are a path, a place or a sentence."""
_WORD: Final = re.compile(
    r"[\u0e00-\u109f\u1780-\u17ff\u2e80-\U0010ffff]|[^\s\u0e00-\u109f\u1780-\u17ff\u2e80-\U0010ffff]+"
)
"""What blanks divide; of scripts that are written without blanks, every character."""


def fingerprint_of(units: Iterable[Iterable[Values]]) -> str:
    """Names a data set by its content and its units: 64 hexadecimal digits.

    Empty values, the order of columns, rows and units do not count; equal rows count as often as they occur.
    """
    return fingerprint_of_digests([row_digest(row) for row in unit] for unit in units)


def row_digest(row: Values) -> bytes:
    """SHA-256 of what a row holds, whatever the order of its columns."""
    return hashlib.sha256(_joined(_cells(row))).digest()


def fingerprint_of_digests(units: Iterable[Iterable[bytes]]) -> str:
    """The same from the digests of rows."""
    return _of_units(map(_unit_digest, units))


def _unit_digest(rows: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(sorted(rows))).digest()


def _of_units(digests: Iterable[bytes]) -> str:
    return hashlib.sha256(b"sottovoce data set 2\0" + b"".join(sorted(digests))).hexdigest()


def earlier_fingerprints(units: Iterable[Iterable[Values]]) -> list[str]:
    """The fingerprints of the same records where cells were written as in earlier formats, the newest first; most often
    no other ones."""
    digests, writers = [bytearray() for _ in EARLIER], [*map(_kept_meanwhile, EARLIER)]
    for unit in units:
        rows = [[hashlib.sha256(content).digest() for content in _earlier_contents(row, writers)] for row in unit]
        for of_format, of_unit in zip(digests, zip(*rows, strict=True), strict=True):
            of_format.extend(_unit_digest(of_unit))
    size = hashlib.sha256().digest_size
    return [
        _of_units(bytes(of_format[at : at + size]) for at in range(0, len(of_format), size)) for of_format in digests
    ]


def earlier_marks_of(passes: Callable[[], Iterable[Values]], key: bytes, formats: Iterable[int]) -> list[MarkArray]:
    """Marks of the records where cells were written as in earlier formats, without what pictures show.

    Args:
        passes: Gives all rows, each time that it is called.
        key: Of the marks.
        formats: Places in ``EARLIER``.

    Returns:
        The marks of each format as ``marks_of`` has them; none where no row may have had others.
    """
    if not any(map(any_may_differ, passes())):
        return []
    return [marks_and_sight(passes(), key, EARLIER[place], shown=False, often=True)[0] for place in formats]


def _earlier_contents(row: Values, writers: Iterable[Callable[[object], str]]) -> list[bytes]:
    """What a row held in each of the earlier formats."""
    if not any_may_differ(row):
        return [_joined(_cells(row))] * len(EARLIER)
    same = {name: CELLS.of(value) for name, value in row.items() if not may_differ(value) and not is_missing(value)}
    others = {name: value for name, value in row.items() if name not in same and not is_missing(value)}
    contents = []
    for texts, text_of in zip(EARLIER, writers, strict=True):
        written = {name: text_of(value) for name, value in others.items()} | same
        contents.append(_joined(sorted((texts.column(name), text) for name, text in written.items() if text)))
    return contents


def any_may_differ(row: Values) -> bool:
    """Whether a row may have had another digest in an earlier format."""
    return any(map(may_differ, row.values())) or any(column_text(name) != name for name in row)


def marks_of(rows: Iterable[Values], key: bytes) -> MarkArray:
    """``marks_and_sight`` without the sight."""
    return marks_and_sight(rows, key)[0]


def sight() -> int:
    """What of pictures can be marked here: 0 their files alone, ``SIGHT`` what they show as well."""
    return SIGHT if find_spec("PIL") else 0


def marks_and_sight(
    rows: Iterable[Values], key: bytes, cell_texts: CellTexts = CELLS, *, shown: bool = True, often: bool = False
) -> tuple[MarkArray, int]:
    """A keyed mark for every record and for its own texts, which say nothing to who has not the key.

    Those of texts find a record again whose other columns were added, dropped, renamed or filled in otherwise. Which
    texts are a record's own is decided column by column, so that no other column has a part in it, and over different
    rows, so that equal ones count once. What a picture shows is a text of its own, of a JPEG two, beside its file,
    which is another one when it is saved again. The path that a folder of pictures gives as ``id`` is none: folders of
    other pictures have the same names.

    Args:
        rows: The records.
        key: Of the marks.
        cell_texts: How cells are written.
        shown: Whether to mark what pictures show.
        often: Whether to keep short texts of cells meanwhile: words for no value and empty lists stand in many rows.

    Returns:
        The marks, shape (records, 1 + texts); and the ``sight`` that they were made with, 0 where memory was missing
        for some picture.
    """
    text_of, unread = _kept_meanwhile(cell_texts) if often else cell_texts.of, 0
    whole_marks, places, columns, text_marks, forms = array("Q"), array("q"), array("Q"), array("Q"), array("Q")
    kinds, row_places, row_marks = array("B"), array("q"), array("Q")
    names: dict[str, int] = {}
    for place, row in enumerate(rows):
        cells = _cells(row, cell_texts, text_of)
        whole_marks.append(_mark(key, b"record\0" + _joined(cells)))
        pictures = [(name, text) for name, text in cells if _is_picture(text)]
        numbers = {name: found for name, text in cells if (found := _numbers(text))}
        if numbers:  # the whole record once more, in whatever precision
            rounded = [(name, found[0].hex() if (found := numbers.get(name)) else text) for name, text in cells]
            row_places.append(place)
            row_marks.append(_mark(key, b"record of numbers\0" + _joined(rounded)) & ~3 | NAME)
        for name, text in cells:
            if (found := numbers.get(name)) is not None:
                if found[1] >= FRACTIONS:
                    places.append(place)
                    columns.append(_mark(key, b"numbers in\0" + _encoded(name)))
                    text_marks.append(_mark(key, b"numbers\0" + found[0]) & ~3)
                    kinds.append(_ROW)
                    forms.append(text_marks[-1])
                continue
            if not _is_distinctive(text) or (pictures and name == "id" and text.lower().endswith(PICTURES)):
                continue
            if name not in names:
                names[name] = _mark(key, b"column\0" + _encoded(name))
            places.append(place)
            columns.append(names[name])
            text_marks.append(_mark(key, b"text\0" + _encoded(text)) & ~3)
            kinds.append(_kind(text))
            form = _form(text, kinds[-1])
            forms.append(text_marks[-1] if form == text else _mark(key, b"form\0" + _encoded(form)))
        for name, text in pictures:
            digests = _shown(text) if shown else []
            unread += digests is None
            for number, digest in enumerate(digests or ()):
                places.append(place)
                columns.append(_mark(key, b"%sshown in\0" % (b"blocks " * number) + _encoded(name)))
                text_marks.append(_mark(key, b"shown\0" + digest) & ~3)
                kinds.append(_ADDRESS)
                forms.append(text_marks[-1])
    whole = np.frombuffer(whole_marks, np.uint64)
    where, marks = np.frombuffer(places, np.int64), np.frombuffer(text_marks, np.uint64)
    alike = np.frombuffer(kinds, np.uint8)
    own, kind_bits = _own_texts(
        where, np.frombuffer(columns, np.uint64), marks, np.frombuffer(forms, np.uint64), alike, whole
    )
    where = np.concatenate((where[own], np.frombuffer(row_places, np.int64)))
    marks = np.concatenate((marks[own] | kind_bits, np.frombuffer(row_marks, np.uint64)))
    return np.concatenate((whole[:, None], _by_row(where, marks, len(whole))), axis=1), 0 if unread else sight()


def same_text(marks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Marks without their kinds, shape as given: equal where the texts are."""
    return np.asarray(marks >> KIND_BITS)


def _is_picture(text: str) -> bool:
    return text.startswith(ENCODED_PICTURES) and len(text) >= CODE_LENGTH


def _shown(picture: str) -> list[bytes] | None:
    """What a picture shows, as digests; none where nothing here decodes it, ``None`` where memory is missing."""
    if not sight():  # without the extra "images" no model reads pictures either
        return []
    from sottovoce.records.pictures import digests_of_shown

    return digests_of_shown(picture)


def _numbers(text: str) -> tuple[bytes, int] | None:
    """Several numbers with blanks between them, as 32-bit floats, however many digits they are written with; and how
    many are fractions then. ``None`` of any other text, and where none is one: those have one text in any precision, or
    are too large for what 32 bits keep.
    """
    if text[0] not in "+-.0123456789" or " " not in text or not _NUMBERS.fullmatch(text):
        return None
    try:
        values = np.array(text.split(), np.float64)
    except ValueError:
        return None
    with np.errstate(all="ignore"):
        single = values.astype("<f4") + np.float32(0)  # and no zero has a sign
        fractions = int(np.count_nonzero(single % 1 > 0))
        kept = np.where(np.abs(values) < EXACT, single, values)
    return (kept.astype("<f8").tobytes(), fractions) if fractions else None


def _is_distinctive(text: str) -> bool:
    """Whether a text may tell one record from another: numbers, amounts and times do not, nor a date in words."""
    if len(text) < SHORT_TEXT or not _LETTERED.search(text):
        return False
    if len(text) >= 2 * CODE_LENGTH:
        return True
    # Most texts have a long word that is no day or month, in which case it is left; a zone's name follows a time.
    if ":" not in text and (word := _LONG_WORD.search(text)) and not _CALENDAR.fullmatch(word[0]):
        return True
    return len(_LETTER.findall(_CALENDAR.sub("", _without_zone(text)))) >= LETTERS


def _without_zone(text: str) -> str:
    """A text without the name of a time zone at its end."""
    zone = _ZONE.search(text)
    if zone is None:
        return text
    name = zone["name"] or zone["short"]
    if name is not None and name.lower() not in _zones():
        return text
    return text[: zone.start()]


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    """Names of the time zone database, in small letters: the package's own, so that marks are the same everywhere."""
    return frozenset(resources.files("sottovoce.data").joinpath("time_zones.txt").read_text("utf-8").lower().split())


def _kind(text: str) -> int:
    """What a text is by itself: a sentence, a code, a long word, a short word, or a phrase of several words."""
    words = sum(1 for _ in islice(_WORD.finditer(text), WORDS))
    if words == 1:
        if _is_address(text):
            return _ADDRESS
        if _is_code(text):
            return _CODE
        return NAME if len(text) >= LONG_TEXT else _SHORT_WORD
    return SENTENCE if words >= WORDS and len(text) >= LONG_TEXT else PHRASE


def _is_address(word: str) -> bool:
    """Whether a word says where something or somebody is, or holds it: an address, a page, a file, a picture."""
    if len(word) >= CODE_LENGTH or _MAIL.search(word):
        return True
    return len(word) >= LONG_TEXT and ("://" in word or _PATH.search(word) is not None)


def _is_code(word: str) -> bool:
    """Whether a word is hardly ever a label: a hash, an id."""
    if len(word) < LONG_TEXT:
        return False
    return sum(map(str.isdigit, word)) >= CODE_DIGITS or len(_TURN.findall(word)) >= CODE_TURNS * len(word)


def _form(text: str, kind: int) -> str:
    """What is left of a text without its numbers, where they may be a running number or a date; else the text."""
    if kind not in (SENTENCE, NAME, _CODE) or not _DIGITS.search(text):
        return text
    if sum(map(len, _DIGITS.findall(text))) > COUNTER_DIGITS:
        return text
    return _DIGITS.sub("", text)


def _own_texts(
    places: NDArray[np.int64],
    columns: NDArray[np.uint64],
    marks: NDArray[np.uint64],
    forms: NDArray[np.uint64],
    alike: NDArray[np.uint8],
    whole: NDArray[np.uint64],
) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Which of the texts are their record's own, shape (texts,), and of what kind those are in their column.

    Args:
        places: The row of each text.
        columns: The column of each text, as a mark.
        marks: The marks of the texts.
        forms: The same without their numbers, where those may be running numbers or dates.
        alike: What each text is by itself.
        whole: The marks of the rows, shape (rows,).
    """
    different = np.zeros(len(whole), bool)
    different[np.unique(whole, return_index=True)[1]] = True
    counted = different[places]
    _, text = np.unique(marks ^ columns, return_inverse=True)
    _, column = np.unique(columns, return_inverse=True)
    rows = np.bincount(text, counted)
    shared = rows[text]
    texts = np.rint(np.bincount(column, counted / np.maximum(shared, 1)))  # each text of the column once
    means = np.bincount(column, counted) / np.maximum(texts, 1)
    mean = means[column]
    commonest = np.zeros(len(texts))
    np.maximum.at(commonest, column, shared)
    few = (commonest <= np.minimum(texts, EVEN * means))[column]
    few &= (alike >= SENTENCE) & (alike != _ROW)
    kinds = np.array([PHRASE, PHRASE, NAME, SENTENCE, NAME, NAME, PHRASE], np.uint64)[alike]
    _, form = np.unique(forms ^ columns, return_inverse=True)
    kinds[(np.bincount(form, counted / np.maximum(shared, 1))[form] > 1.5) & (forms != marks)] = NUMBERED
    most = np.array([WORD_REPEATS, PHRASE_REPEATS, WORD_REPEATS, *[SENTENCE_REPEATS] * 3, WORD_REPEATS])[alike]
    repeated = (np.bincount(column) / np.maximum(texts, 1))[column]
    crowded = (alike == _ROW) & (repeated > WORD_REPEATS)
    boilerplate = (shared > max(FEW_ROWS, COMMONEST * np.count_nonzero(different))) & ~few
    own: NDArray[np.bool_] = (mean <= most) & ~boilerplate & ~crowded
    return own, np.where(mean <= DIFFERENT, kinds, np.uint64(PHRASE))[own]


def _by_row(places: NDArray[np.int64], marks: NDArray[np.uint64], rows: int) -> MarkArray:
    """The marks of texts by row, shape (rows, texts): sentences first. A text counts once in a row."""
    # Which ones are left where there are too many follows from the texts alone, not from what other columns hold.
    order = np.lexsort((marks, _PLACES[marks % 4], places))
    places, marks = places[order], marks[order]
    once = np.ones(len(places), bool)
    once[1:] = (places[1:] != places[:-1]) | (marks[1:] != marks[:-1])
    places, marks = places[once], marks[once]
    rank = np.arange(len(places)) - np.searchsorted(places, places)
    few = rank < TEXTS
    texts = np.zeros((rows, int(rank[few].max(initial=-1)) + 1), np.uint64)
    texts[places[few], rank[few]] = marks[few]
    return texts


def _mark(key: bytes, content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, key=key, digest_size=8, person=b"sotto marks").digest()) or 1


def _cells(row: Values, texts: CellTexts = CELLS, text_of: Callable[[object], str] = CELLS.of) -> list[tuple[str, str]]:
    """Names and texts of what a row holds, by name."""
    written = ((name, text_of(value)) for name, value in row.items() if not is_missing(value))
    return sorted((texts.column(name), text) for name, text in written if text)


def _kept_meanwhile(texts: CellTexts) -> Callable[[object], str]:
    """The text of a cell; short ones are kept as long as this function is."""
    short = lru_cache(1 << 14)(texts.of)

    def text_of(value: object) -> str:
        return short(value) if type(value) is str and len(value) <= CODE_LENGTH else texts.of(value)

    return text_of


def _joined(cells: Iterable[tuple[str, str]]) -> bytes:
    return _encoded("".join(f"{len(name)}:{name}{len(text)}:{text}" for name, text in cells))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# The first format: what ledgers of earlier versions know a data set by. It is not to be changed.


def first_fingerprint(rows: Iterable[Values]) -> str:
    """The fingerprint that versions before this one took, in which times, line ends, 32-bit floats and arrays of the
    same records differed between file formats, and units did not count.
    """
    digests = sorted(hashlib.sha256(_first_joined(row)).digest() for row in rows)
    return hashlib.sha256(b"sottovoce data set 1\0" + b"".join(digests)).hexdigest()


def _first_joined(row: Values) -> bytes:
    parts = []
    for name in sorted(row):
        value = row[name]
        if not is_missing(value):
            text = _first_text(value)
            parts.append(f"{len(name)}:{name}{len(text)}:{text}")
    return _encoded("".join(parts))


def _first_text(value: object) -> str:
    if isinstance(value, dict | list):
        try:
            return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):  # what this format had no text for has no ledger by it
            return ""
    written: Callable[[], object] | None = getattr(value, "isoformat", None)
    text = composed(str(written() if written else value)).strip()
    if text in {"True", "TRUE", "False", "FALSE"}:
        return text.lower()
    text = _FIRST_MIDNIGHT.sub("", text)
    if _FIRST_NUMBER.fullmatch(text) and len(text) < 40:
        number = Decimal(text).normalize(context(60))
        return f"{number:f}" if -40 < number.adjusted() < 40 else str(number)
    return text


_FIRST_MIDNIGHT: Final = re.compile(r"(?<=^....-..-..)[T ]00:00:00(\.0+)?$")
_FIRST_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?")
