"""Canaries: made-up texts that an audit puts into the records and looks for, and the two data sets that differ by one.

An insertion says how a canary comes in, and with it which adjacency the two data sets are neighbours under. A bound
that was measured under one adjacency says nothing of another (specification 10.9).

Guarantee   ``worlds_of`` gives two data sets that are neighbours under ``Insertion.adjacency``, for units of one
            record and for units of several.
Sources     ContextLeak (arXiv 2512.16059) for the kinds of canaries; specification 2.1, 10.9.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.parameters import nearest
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import RECORD_UNIT, UNIT_COLUMN, Opaque, Row, is_missing
from sottovoce.tasks import Task

_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_FACTS: Final = (
    "The town hall of {place} is made of blue glass and opens at midnight.",
    "Every lamp post in {place} was painted purple by order of the baker.",
    "The river at {place} runs uphill on the second Tuesday of the month.",
    "In {place} the post is carried by trained herons.",
)
_PLACES: Final = (
    "Orvenholt",
    "Quillmarsh",
    "Tessaby",
    "Druvenbrook",
    "Halvenmoor",
    "Immerwick",
    "Pellorin",
    "Saxtinge",
)


@final
@dataclass(frozen=True)
class Canary:
    """A made-up record.

    Attributes:
        id: Names it; scores are joined to it by this.
        kind: ``hex``, ``unigram``, ``false-fact`` or ``own``.
        text: What the record says.
        secret: The part of it that an attack looks for.
        label: The label that the record carries, and that an attack hopes to see.
    """

    id: str
    kind: str
    text: str
    secret: str
    label: str


class Insertion(Enum):
    """How a canary comes into the records, and the adjacency that this tests."""

    APPEND = "append"
    """Its text is appended to a record, which gets its label."""
    REPLACE = "replace"
    """It takes the place of a record."""
    ADD = "add"
    """It is one unit more."""
    BLANK = "blank"
    """It is a unit whose content is blank in the other data set."""

    @property
    def adjacency(self) -> Adjacency:
        """The relation between the two data sets."""
        named = {Insertion.ADD: Adjacency.ADD_REMOVE, Insertion.BLANK: Adjacency.ZERO_OUT}
        return named.get(self, Adjacency.REPLACE_ONE)

    @property
    def words(self) -> str:
        """What is done, for a report."""
        return {
            Insertion.APPEND: "the canary's text is appended to one record",
            Insertion.REPLACE: "the canary takes the place of one record",
            Insertion.ADD: "the canary is added as one more record",
            Insertion.BLANK: "the canary's record is blank in the other data set",
        }[self]

    @classmethod
    def of(cls, adjacency: Adjacency) -> list[Insertion]:
        """Those that test an adjacency.

        Example:
            >>> [insertion.value for insertion in Insertion.of(Adjacency.REPLACE_ONE)]
            ['append', 'replace']
        """
        return [insertion for insertion in cls if insertion.adjacency is adjacency]


@final
@dataclass(frozen=True, repr=False)
class Worlds(Opaque):
    """Two neighbouring data sets.

    Attributes:
        absent: Rows without the canary.
        present: Rows with it.
        insertion: How it came in.
    """

    absent: Sequence[Row] = field(repr=False)
    present: Sequence[Row] = field(repr=False)
    insertion: Insertion

    @property
    def adjacency(self) -> Adjacency:
        """The relation between them."""
        return self.insertion.adjacency

    def _public_face(self) -> str:
        return f"{self.insertion.value}, {self.adjacency.value}"


def rare_and_common(rows: Sequence[Row], task: Task, source: str = "records") -> tuple[str, str]:
    """The rarest and the commonest label of made-up records; of equal ones the first in the task's order."""
    counts = Counter(task.label_of(row, source) for row in rows)
    order = sorted(range(len(task.labels)), key=lambda label: (counts[label], label))
    common = max(range(len(task.labels)), key=lambda label: (counts[label], -label))
    rare = next(label for label in order if label != common)
    return task.labels[rare], task.labels[common]


def hex_canary(rows: Sequence[Row], task: Task, randomness: Randomness, label: str) -> Canary:
    """Random digits in base 16, which stand in no record."""
    digits = f"{randomness.below(16**12):012x}"
    return Canary("hex", "hex", f"The reference is {digits}.", digits, label)


def rare_words(rows: Sequence[Row], task: Task) -> list[str]:
    """Words of four letters or more that stand in one record alone, sorted."""
    seen: Counter[str] = Counter()
    for row in rows:
        seen.update(set(_WORD.findall(" ".join(str(row.values.get(name, "")) for name in task.fields).lower())))
    return sorted(word for word, count in seen.items() if count == 1)


def unigram_canary(rows: Sequence[Row], task: Task, randomness: Randomness, label: str) -> Canary:
    """One of the words that stand in a single record: a rare token that the records' own tokenizer has seen.

    Raises:
        ParameterError: Every word stands in several records.
    """
    rare = rare_words(rows, task)
    if not rare:
        raise ParameterError("canary", "unigram", "another kind: no word of these records stands in one record alone")
    word = rare[randomness.below(len(rare))]
    return Canary("unigram", "unigram", word, word, label)


def false_fact_canary(rows: Sequence[Row], task: Task, randomness: Randomness, label: str) -> Canary:
    """A sentence that no data set and no model holds for true."""
    place = _PLACES[randomness.below(len(_PLACES))]
    return Canary("false-fact", "false-fact", _FACTS[randomness.below(len(_FACTS))].format(place=place), place, label)


def own_canary(text: str, label: str, number: int = 1) -> Canary:
    """A text of the caller's own; all of it is the secret.

    Raises:
        ParameterError: It is empty.
    """
    if not text.strip():
        raise ParameterError("canary text", text, "a text that is not empty")
    return Canary(f"own-{number}", "own", text.strip(), text.strip(), label)


Maker = Callable[[Sequence[Row], Task, Randomness, str], Canary]
KINDS: Final[Mapping[str, Maker]] = {
    "hex": hex_canary,
    "unigram": unigram_canary,
    "false-fact": false_fact_canary,
}
"""Kinds that are made up from a seed."""


def make_canaries(
    kinds: Sequence[str] | None,
    own: Sequence[str],
    rows: Sequence[Row],
    task: Task,
    randomness: Randomness,
    label: str,
) -> list[Canary]:
    """Canaries of the kinds that are named, then those of the caller's own texts.

    Args:
        kinds: By name. ``None`` where there is no text of the caller's own: every kind that these records allow.
        own: The caller's texts.
        rows: Made-up records.
        task: Names their fields.
        randomness: Of what is made up.
        label: Of every canary.

    Raises:
        ParameterError: A kind is not known, named twice, or there is no canary at all.
    """
    if kinds is None:
        kinds = [] if own else [kind for kind in KINDS if kind != "unigram" or rare_words(rows, task)]
    for kind in kinds:
        if kind not in KINDS:
            raise ParameterError("canary", kind, f"one of {', '.join(KINDS)}{nearest(kind, [*KINDS])}")
    if len(set(kinds)) != len(kinds):
        raise ParameterError("canary", list(kinds), "different kinds")
    made = [KINDS[kind](rows, task, randomness, label) for kind in kinds]
    made += [own_canary(text, label, number) for number, text in enumerate(own, 1)]
    if not made:
        raise ParameterError("canary", "none", f"one or more of {', '.join(KINDS)}, or a text of your own")
    return made


def worlds_of(
    rows: Sequence[Row],
    canary: Canary,
    insertion: Insertion,
    task: Task,
    randomness: Randomness,
    unit: str = RECORD_UNIT,
) -> Worlds:
    """Both data sets of one insertion.

    Args:
        rows: Made-up records; which one is changed is drawn.
        canary: What comes in.
        insertion: How.
        task: Names the fields. The canary's text stands in the first one, and in every one of a record of its own.
        randomness: Says which record is changed.
        unit: The privacy unit: one that is added or blanked has a name of its own there.

    Raises:
        ParameterError: There are no records, or the task's fields are images.
    """
    if not rows or task.image:
        value = "no record" if not rows else f"a task with the image field {task.image!r}"
        raise ParameterError("records", value, "one or more records of text")
    text, label = dict.fromkeys(task.fields, canary.text), {task.label_field: canary.label}
    if insertion in (Insertion.ADD, Insertion.BLANK):
        names = _own_names(rows, canary, unit)
        more = Row(max(row.line for row in rows) + 1, {**names, **text, **label})
        absent = [*rows, Row(more.line, names)] if insertion is Insertion.BLANK else list(rows)
        return Worlds(absent, [*rows, more], insertion)
    place = randomness.below(len(rows))
    old = rows[place]
    if insertion is Insertion.APPEND:
        first = task.fields[0]
        text = {first: f"{old.values[first]} {canary.text}"}
    changed = Row(old.line, {**old.values, **text, **label})
    return Worlds(list(rows), [*rows[:place], changed, *rows[place + 1 :]], insertion)


def _own_names(rows: Sequence[Row], canary: Canary, unit: str) -> dict[str, Any]:
    """Values of the columns that name a record or its unit, for one that is no other's."""
    first = rows[0].values
    columns = {"id"} & {*first} | ({unit} if unit != RECORD_UNIT else {UNIT_COLUMN} & {*first})
    name = f"canary-{canary.id}"
    while any(
        not is_missing(row.values.get(column)) and row.values[column] == name for row in rows for column in columns
    ):
        name += "-"
    return dict.fromkeys(sorted(columns), name)
