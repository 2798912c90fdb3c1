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
from sottovoce.testing.draw_tape import Tape
from sottovoce.testing.fingerprints import fingerprint
from sottovoce.testing.ladders import counted, ladders

Record = tuple[str, int]
Unit = tuple[Record, ...]
World = tuple[Unit, ...]

VECTORS: Final[Mapping[str, tuple[float, ...]]] = {
    "east": (1.0, 0.0, 0.0),
    "west": (-1.0, 0.0, 0.0),
    "north": (0.0, 1.0, 0.0),
    "slant": (0.48, 0.6, 0.64),
    "far": (3000.0, -4000.0, 50.0),
    "short": (0.06, -0.08, 0.0),
    "zero": (0.0, 0.0, 0.0),
    "nothing": (math.nan,) * 3,
}
"""What records may say: unit vectors, one that is far too long, a short one, a zero, and one that says nothing."""
POOL: Final[Mapping[str, tuple[float, ...]]] = {
    "first": (0.8, 0.6, 0.0),
    "second": (-0.6, 0.0, 0.8),
    "third": (0.0, -1.0, 0.0),
}
"""Public texts and their vectors."""
OTHER_POOL: Final[Mapping[str, tuple[float, ...]]] = {
    "fourth": (0.0, 0.28, -0.96),
    "fifth": (0.28, 0.96, 0.0),
    "a sixth, and longer": (-1.0, 0.0, 0.0),
}
"""As many other public texts."""
REWRITTEN: Final[Mapping[str, tuple[float, ...]]] = {
    "first 0": (0.0, 0.8, 0.6),
    "second 0": (-0.8, 0.0, 0.6),
    "second 1": (math.nan,) * 3,
    "third 0": (0.28, -0.96, 0.0),
}
"""Some texts that a writer makes of the pool, and their vectors; one cannot be embedded."""
DIMENSION: Final = 3
LABELS: Final = 2

EAST, WEST, SLANT, FAR = (("east", 0),), (("west", 0),), (("slant", 1),), (("far", 0),)
SHORT, ZERO = (("short", 1),), (("zero", 0),)
NULLS: Final[tuple[Unit, ...]] = ((("nothing", 1),), ())
"""Units that add nothing: one that cannot be embedded, and one that is blank."""
UNITS: Final[tuple[Unit, ...]] = (
    EAST,
    WEST,
    (("east", 1),),
    FAR,
    (("nothing", 0),),
    (("east", 0),) * 40,
    (("west", 0), ("west", 1)),
    (("east", 0), ("slant", 1), ("nothing", 1), ("north", 0)),
    (("far", 1), ("west", 1), ("west", 0)),
    SLANT,
    SHORT,
    ZERO,
)
"""Units of one record, of several and of 40, of one label and of both; opposite, too long, short and silent ones."""
FEW_UNITS: Final = (EAST, WEST, (("east", 1),), FAR, (("west", 0), ("west", 1)))
RESTS: Final[tuple[World, ...]] = ((EAST,), (EAST, SLANT, WEST), (SLANT,) * 14)
"""What stays as it is: one label without a record in two of them, and more units than a floor of some ten."""
CROWDS: Final[tuple[World, ...]] = ((), (SLANT,) * 14, (SLANT,) * 100, (SLANT,) * 1_000)
"""Who stands beside a world, one after another, until a fitter takes so many units."""


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
    Relation(Adjacency.ZERO_OUT, several(DROP, 2)),
)
"""One unit that changes, and two, each under every adjacency."""


@final
@dataclass(frozen=True)
class Case:
    """What else is public of a fit than its relation, its price and the number of its units.

    Attributes:
        candidates: Number of public texts.
        adds_epsilons: Whether the ledger adds epsilons, not rho.
        unit: Who is protected.
        labels: Number of labels; those above two have no record.
        dimension: Length of vectors; numbers above three are zero.
        other_texts: Whether the public texts are as many other ones.
    """

    candidates: int
    adds_epsilons: bool
    unit: str = "record"
    labels: int = LABELS
    dimension: int = DIMENSION
    other_texts: bool = False

    @classmethod
    def of(cls, setting: FitSetting) -> Case:
        """That of a setting."""
        return cls(setting.candidates, setting.adds_epsilons, setting.unit, setting.labels, setting.dimension)

    def __str__(self) -> str:
        ledger = "a ledger that adds epsilons" if self.adds_epsilons else "a ledger that adds rho"
        usual = (self.unit, self.labels, self.dimension) == ("record", LABELS, DIMENSION)
        shape = "" if usual else f", {self.labels} labels, {self.dimension} dimensions, the unit {self.unit!r}"
        return f"{ledger}, {self.candidates} {'other ' if self.other_texts else ''}public texts{shape}"


LEDGERS: Final = (True, False)
"""Whether epsilons are added, or rho."""


def cases(candidates: Sequence[int]) -> tuple[list[Case], list[Case]]:
    """Both ledgers with every number of public texts; and with another unit, one label and one dimension more."""
    usual = [Case(texts, adds) for texts, adds in itertools.product(candidates, LEDGERS)]
    return usual, [Case(candidates[0], adds, "person", LABELS + 1, DIMENSION + 1) for adds in LEDGERS]


def setting_of(relation: Relation, units: int, case: Case) -> FitSetting:
    """The public side of a fit of so many units."""
    return FitSetting(
        labels=case.labels,
        dimension=case.dimension,
        units=units if relation.adjacency.size_is_public else None,
        adjacency=relation.adjacency,
        change=relation.change,
        candidates=case.candidates,
        adds_epsilons=case.adds_epsilons,
        unit=case.unit,
    )


def task_of(labels: int) -> Task:
    """A task with so many labels."""
    return Task(labels=[f"l{number}" for number in range(labels)])


Neighbourhood = tuple[list[World], list[tuple[int, int]]]
"""Worlds with the pairs among them that are neighbours."""


def neighbourhoods(relation: Relation) -> Iterator[Neighbourhood]:
    """Sets of worlds with the pairs among them that are neighbours, small worlds first."""
    one = relation.change.rows == 1
    changed = [(unit,) for unit in UNITS] if one else [*itertools.combinations_with_replacement(FEW_UNITS, 2)]
    for rest in RESTS:
        yield _neighbourhood(relation, rest, changed)


def sharpest(relation: Relation) -> Neighbourhood:
    """The few worlds that are furthest apart: opposite vectors, another label, one label or both."""
    rows = relation.change.rows
    return _neighbourhood(relation, RESTS[0], [(unit,) * rows for unit in FEW_UNITS[:3]])


def beside(others: World, near: Neighbourhood) -> Neighbourhood:
    """The same worlds, with others in each of them."""
    data, pairs = near
    return [(*others, *world) for world in data], pairs


def climbed(relation: Relation) -> Iterator[list[World]]:
    """Worlds in which ever fewer units have one label and one vector, each a change away from the next; never none."""
    swaps = relation.adjacency is Adjacency.REPLACE_ONE
    null = NULLS[0] if swaps else NULLS[1]
    for rungs in ladders(EAST, SLANT, null, swaps=swaps, comes=relation.adjacency is Adjacency.ADD_REMOVE):
        yield [world for world in rungs if world]


def _neighbourhood(relation: Relation, rest: World, changed: Sequence[World]) -> Neighbourhood:
    worlds: list[World] = [(*rest, *units) for units in changed]
    if relation.adjacency is Adjacency.REPLACE_ONE:
        return worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]
    blank: World = ((),) * relation.change.rows
    without = (*rest, *(blank if relation.adjacency is Adjacency.ZERO_OUT else ()))
    return [*worlds, without], [(i, len(worlds)) for i in range(len(worlds))]


def shown(world: World) -> str:
    """A world in words."""
    units = (counted((f"{name}:{label}" for name, label in unit), "+") or "blank" for unit in world)
    return "{" + counted(units) + "}"


def vector_of(text: str, dimension: int = DIMENSION) -> Sequence[float]:
    """What the fake embedder says of a text."""
    said = {**VECTORS, **POOL, **OTHER_POOL, **REWRITTEN}.get(text, (0.6, 0.8, 0.0))
    return (*said, *(0.0,) * (dimension - DIMENSION))


def _says(task: Task, context: Sequence[Any], query: Query) -> Sequence[float]:
    scores = one_shot(task, context, query)
    return [math.nan] * len(scores) if any("nothing" in shown.fields.values() for shown in context) else scores


def public_side(setting: FitSetting, *, other_texts: bool = False) -> PublicInputs:
    """The public side, with so many texts of the pool, or of the other one."""
    model, task = _model(setting.dimension), task_of(setting.labels)
    pool: list[Query] = [{"text": name} for name in list(OTHER_POOL if other_texts else POOL)[: setting.candidates]]
    vectors = model.embed_questions(task, pool)
    return PublicInputs(task, model, model, pool, vectors, lambda asked: bare_scores(model, task, asked), Rewriter())


def _model(dimension: int) -> FakeScorer:
    return FakeScorer(_says, vectors=lambda text: vector_of(text, dimension))


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


EXPERTS_ASKED: Final = "answers of experts"
"""What stands on a tape where experts are asked."""


@final
class WorldSums:
    """The private side of a world, which notes on a tape what it is asked."""

    def __init__(self, world: World, setting: FitSetting, tape: Tape) -> None:
        self._world, self._setting, self._tape = world, setting, tape

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all units' contributions by a rule."""
        self._tape.asked("a sum", rule)
        return rule.add_up(block_of(self._world, self._setting.dimension))

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        """What experts with one unit each say."""
        self._tape.asked(EXPERTS_ASKED, list(queries))
        model, task = _model(self._setting.dimension), task_of(self._setting.labels)
        adjacency = self._setting.adjacency
        rows = [
            Row(number, {"text": name, "label": task.labels[label], "group": f"g{unit}"})
            for number, (unit, name, label) in enumerate(
                (unit, name, label) for unit, records in enumerate(self._world) for name, label in records
            )
        ]
        blanks = [Row(-unit, {"group": f"g{unit}"}) for unit, records in enumerate(self._world) if not records]
        records = PrivateRecords([*rows, *blanks], source="a world", synthetic=True)
        records = records.with_public_size() if adjacency.size_is_public else records
        ensemble = Ensemble(records, task, model, Partition(), adjacency)
        said = ensemble.ask(queries, bare_scores(model, task, queries))
        return [ExpertOutputs(each._rows, self._setting.change, adjacency, each.public) for each in said]


def block_of(world: World, dimension: int) -> Block:
    """The records of a world as an embedder reads them, in one block."""
    records = [(name, label, number) for number, unit in enumerate(world) for name, label in unit]
    said = [vector_of(name, dimension) for name, _, _ in records]
    vectors = np.array(said, dtype=np.float64).reshape(len(records), dimension)
    return Block(vectors, [label for _, label, _ in records], [number for _, _, number in records])


def sum_by_units(world: World, rule: SumRule, dimension: int) -> IntArray:
    """The sum of a world, every unit in a block of its own, the last one first."""
    total = np.zeros(rule.size, dtype=np.int64)
    for unit in reversed(world):
        total += rule.add_up(block_of((unit,), dimension))
    return total


def classified(support: Any, setting: FitSetting) -> FloatArray | None:
    """What a support says of some public questions, or ``None`` where that takes a model."""
    if not hasattr(support, "log_probabilities"):
        return None
    said = [vector_of(name, setting.dimension) for name in (*VECTORS, *POOL)]
    vectors = np.array([vector for vector in said if np.isfinite(vector).all()])
    prior = np.full((len(vectors), setting.labels), -math.log(setting.labels))
    return np.asarray(support.log_probabilities(vectors, prior))


def support_marks(support: Any) -> Any:
    """Everything that a support holds, to be compared."""
    return fingerprint(support)
