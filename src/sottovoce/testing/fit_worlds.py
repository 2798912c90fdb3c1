"""Small worlds for methods that fit once: units, neighbours, and the private and public side that a fitter is given.

A record is the name of its vector and a label, a unit is some records, a world is some units. Vectors are looked up by
name, so that a fitter's sums come from the package's own rules on vectors that are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.experts.reading import bare_scores
from sottovoce.experts.unit_sums import Block, SumRule
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs
from sottovoce.models.base import FloatArray
from sottovoce.models.fake import FakeScorer, one_shot
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency, ChangeType, several
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Example, Query, Task
from sottovoce.testing.draw_tape import Tape, fingerprint

Record = tuple[str, int]
Unit = tuple[Record, ...]
World = tuple[Unit, ...]

VECTORS: Final[Mapping[str, tuple[float, ...]]] = {
    "east": (1.0, 0.0, 0.0),
    "west": (-1.0, 0.0, 0.0),
    "north": (0.0, 1.0, 0.0),
    "slant": (0.48, 0.6, 0.64),
    "far": (3000.0, -4000.0, 50.0),
    "nothing": (math.nan,) * 3,
}
"""What records may say: unit vectors, a vector that is far too long, and one that says nothing."""
POOL: Final[Mapping[str, tuple[float, ...]]] = {
    "first": (0.8, 0.6, 0.0),
    "second": (-0.6, 0.0, 0.8),
    "third": (0.0, -1.0, 0.0),
}
"""Public texts and their vectors."""
REWRITTEN: Final[Mapping[str, tuple[float, ...]]] = {
    "first 0": (0.0, 0.8, 0.6),
    "second 0": (-0.8, 0.0, 0.6),
    "second 1": (math.nan,) * 3,
    "third 0": (0.28, -0.96, 0.0),
}
"""Some texts that a writer makes of the pool, and their vectors; one cannot be embedded."""
DIMENSION: Final = 3
TASK: Final = Task(labels=["l0", "l1"])
LABELS: Final = len(TASK.labels)

EAST, WEST, SLANT, FAR = (("east", 0),), (("west", 0),), (("slant", 1),), (("far", 0),)
UNITS: Final[tuple[Unit, ...]] = (
    EAST,
    WEST,
    (("east", 1),),
    FAR,
    (("nothing", 0),),
    (("east", 0),) * 3,
    (("west", 0), ("west", 1)),
    (("east", 0), ("slant", 1), ("nothing", 1), ("north", 0)),
    (("far", 1), ("west", 1), ("west", 0)),
    SLANT,
)
"""Units of one record and of several, of one label and of both; opposite ones, too long ones and silent ones."""
FEW_UNITS: Final = (EAST, WEST, (("east", 1),), FAR, (("west", 0), ("west", 1)))
RESTS: Final[tuple[World, ...]] = ((EAST,), (EAST, SLANT, WEST), (SLANT,) * 14)
"""What stays as it is: one label without a record in two of them, and more units than a floor of some ten."""


@final
@dataclass(frozen=True)
class Relation:
    """An adjacency with what one change does.

    Attributes:
        adjacency: The relation.
        change: How many units change, and how.
    """

    adjacency: Adjacency
    change: ChangeType

    def __str__(self) -> str:
        return f"{self.adjacency.value}, {self.change.name}"


RELATIONS: Final = (
    Relation(Adjacency.REPLACE_ONE, SWAP),
    Relation(Adjacency.ADD_REMOVE, DROP),
    Relation(Adjacency.ZERO_OUT, DROP),
    Relation(Adjacency.REPLACE_ONE, TWO_SWAP),
    Relation(Adjacency.ADD_REMOVE, several(DROP, 2)),
)
"""One unit that changes, by every relation, and two."""


def setting_of(relation: Relation, units: int, candidates: int, *, adds_epsilons: bool) -> FitSetting:
    """The public side of a fit of so many units."""
    return FitSetting(
        labels=LABELS,
        dimension=DIMENSION,
        units=units if relation.adjacency.size_is_public else None,
        adjacency=relation.adjacency,
        change=relation.change,
        candidates=candidates,
        adds_epsilons=adds_epsilons,
    )


def neighbourhoods(relation: Relation) -> Iterator[tuple[list[World], list[tuple[int, int]]]]:
    """Sets of worlds with the pairs among them that are neighbours, small worlds first."""
    one = relation.change.rows == 1
    for rest in RESTS:
        changed = [(unit,) for unit in UNITS] if one else [*itertools.combinations_with_replacement(FEW_UNITS, 2)]
        worlds: list[World] = [(*rest, *units) for units in changed]
        if relation.adjacency is Adjacency.REPLACE_ONE:
            yield worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]
            continue
        blank: World = ((),) * relation.change.rows
        without = (*rest, *(blank if relation.adjacency is Adjacency.ZERO_OUT else ()))
        yield [*worlds, without], [(i, len(worlds)) for i in range(len(worlds))]


def shown(world: World) -> str:
    """A world in words."""
    return "{" + ", ".join("+".join(f"{name}:{label}" for name, label in unit) or "blank" for unit in world) + "}"


def vector_of(text: str) -> Sequence[float]:
    """What the fake embedder says of a text."""
    return {**VECTORS, **POOL, **REWRITTEN}.get(text, (0.6, 0.8, 0.0))


def _says(task: Task, context: Sequence[Any], query: Query) -> Sequence[float]:
    scores = one_shot(task, context, query)
    return [math.nan] * len(scores) if any("nothing" in shown.fields.values() for shown in context) else scores


def public_side(candidates: int) -> PublicInputs:
    """The public side, with so many texts of the pool."""
    model = FakeScorer(_says, vectors=vector_of)
    pool: list[Query] = [{"text": name} for name in list(POOL)[:candidates]]
    vectors = model.embed_questions(TASK, pool)
    return PublicInputs(TASK, model, model, pool, vectors, lambda asked: bare_scores(model, TASK, asked), Rewriter())


@final
class Rewriter:
    """A writer without a model: a variation is the text with its number behind it."""

    def variations(self, shown: Sequence[Example], each: int, tokens: int, turn: int) -> list[Query]:
        """So many variations of every text."""
        return [
            {name: f"{text} {number}" for name, text in example.fields.items()}
            for example in shown
            for number in range(each)
        ]


@final
class WorldSums:
    """The private side of a world, which notes on a tape what it is asked."""

    def __init__(self, world: World, relation: Relation, tape: Tape) -> None:
        self._world, self._relation, self._tape = world, relation, tape

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all units' contributions by a rule."""
        self._tape.asked("a sum", rule)
        return rule.add_up(block_of(self._world))

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        """What experts with one unit each say."""
        self._tape.asked("answers of experts", list(queries))
        model = FakeScorer(_says, vectors=vector_of)
        rows = [
            Row(number, {"text": name, "label": TASK.labels[label], "group": f"g{unit}"})
            for number, (unit, name, label) in enumerate(
                (unit, name, label) for unit, records in enumerate(self._world) for name, label in records
            )
        ]
        blanks = [Row(-unit, {"group": f"g{unit}"}) for unit, records in enumerate(self._world) if not records]
        records = PrivateRecords([*rows, *blanks], source="a world", synthetic=True)
        records = records.with_public_size() if self._relation.adjacency.size_is_public else records
        ensemble = Ensemble(records, TASK, model, Partition(), self._relation.adjacency)
        return ensemble.ask(queries, bare_scores(model, TASK, queries))


def block_of(world: World) -> Block:
    """The records of a world as an embedder reads them, in one block."""
    records = [(name, label, number) for number, unit in enumerate(world) for name, label in unit]
    vectors = np.array([vector_of(name) for name, _, _ in records], dtype=np.float64).reshape(len(records), DIMENSION)
    return Block(vectors, [label for _, label, _ in records], [number for _, _, number in records])


def sum_by_units(world: World, rule: SumRule) -> IntArray:
    """The sum of a world, every unit in a block of its own, the last one first."""
    total = np.zeros(rule.size, dtype=np.int64)
    for unit in reversed(world):
        total += rule.add_up(block_of((unit,)))
    return total


def classified(support: Any) -> FloatArray | None:
    """What a support says of some public questions, or ``None`` where that takes a model."""
    if not hasattr(support, "log_probabilities"):
        return None
    vectors = np.array([vector for vector in [*VECTORS.values(), *POOL.values()] if np.isfinite(vector).all()])
    return np.asarray(support.log_probabilities(vectors, np.full((len(vectors), LABELS), -math.log(LABELS))))


def support_marks(support: Any) -> Any:
    """Everything that a support holds, to be compared."""
    return fingerprint(support)
