"""Where records, questions and public texts come from: a world's rows, split once, and what one seed draws of them.

Some training rows stand for a public pool of the same kind, and records are drawn from the rest. Other pools are rows
of two other worlds, and the texts that ship with the package. An episode of pictures has a few classes; pictures of the
others are its pool.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.frontier.kept import ANOTHER_KIND, BUNDLED, SAME_KIND
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN, Dataset, Episode
from sottovoce.benchmarks.harness.experiment import Bench
from sottovoce.benchmarks.harness.runner import open_model
from sottovoce.data.bundled import public_pool
from sottovoce.models.base import FloatArray
from sottovoce.tasks import Example, Query, Task

IMAGE_MODEL: Final = "embedded-image"
POOL_ROWS: Final = 1000
"""Rows of a world that stand for a pool of the same kind, or a fifth of them where there are fewer."""
FOREIGN_ROWS: Final = 500
"""Rows of each of two other worlds in a pool of another kind."""
FOREIGN: Final[Mapping[str, tuple[str, ...]]] = {
    "agnews": ("dbpedia", "trec"),
    "dbpedia": ("agnews", "trec"),
    "trec": ("agnews", "dbpedia"),
    "subj": ("sarcasm", "tickets"),
    "sarcasm": ("subj", "tickets"),
    "tickets": ("subj", "sarcasm"),
    "pseudonames": ("photographs",),
    "photographs": ("pseudonames",),
}
"""Whose rows are a pool of another kind."""


@final
@dataclass(frozen=True, eq=False)
class Pool:
    """Public texts and their vectors."""

    texts: Sequence[Query]
    vectors: FloatArray


@final
@dataclass(frozen=True, eq=False)
class World:
    """A world with its rows split, and the model that reads it."""

    dataset: Dataset
    model: Any
    spare: Sequence[Example]

    @property
    def task(self) -> Task:
        return self.dataset.task


@final
@dataclass(eq=False)
class Drawn:
    """One seed's records and questions, with what does not depend on the names of the labels.

    Attributes:
        world: Where from.
        seed: Of the draw.
        questions: How many are asked.
        most: Records drawn; fewer are the first of more.
        pools: Public texts by their kind.
        known: What was worked out before, for the same draw under other names.
    """

    world: World
    seed: int
    questions: int
    most: int
    pools: Mapping[str, Pool]
    known: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def episodes(self) -> Mapping[str, Episode]:
        """By the kind of label names."""
        dataset = self.world.dataset
        return {names: dataset.episode(self.seed, self.questions, names, self.most) for names in (OWN, UNKNOWN)}

    @cached_property
    def vectors(self) -> FloatArray:
        rows = self.episodes[OWN].records
        return np.asarray(self.world.model.embed_records(self.world.task, [example.fields for example in rows]))

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        return np.array([example.label for example in self.episodes[OWN].records], dtype=np.intp)

    @cached_property
    def asked(self) -> FloatArray:
        return np.asarray(self.world.model.embed_questions(self.world.task, self.episodes[OWN].questions))


@lru_cache(maxsize=16)
def world_of(bench: Bench, task: str) -> World:
    """Reads a world and splits its rows."""
    dataset = bench.world(task)
    if dataset.task.image:
        return World(dataset, _image_model(bench), ())
    order = np.random.default_rng(0).permutation(len(dataset.train)).tolist()
    kept = len(order) - min(POOL_ROWS, len(order) // 5)
    drawn = min(kept, max(bench.settings.records))  # no more rows are embedded than the largest number of records
    records, spare = (dataset.train.taken(part) for part in (order[:drawn], order[kept:]))
    return World(replace(dataset, train=records), bench.scorer.scorer, spare)


@lru_cache(maxsize=2)
def _image_model(bench: Bench) -> Any:
    return open_model(IMAGE_MODEL, bench.scorer.store)


@lru_cache(maxsize=1)
def drawn_from(bench: Bench, task: str, seed: int) -> Drawn:
    """One seed's records and questions; the latest draw is kept for its other kind of names."""
    world = world_of(bench, task)
    return Drawn(world, seed, bench.settings.queries, max(bench.settings.records), dict(_pools(bench, world, seed)))


def _pools(bench: Bench, world: World, seed: int) -> Iterator[tuple[str, Pool]]:
    name, image = world.dataset.name, world.task.image
    if image:
        yield SAME_KIND, _embedded(world, _other_classes(world.dataset, seed))
    else:
        yield SAME_KIND, _kept_pool(bench, name, SAME_KIND)
    if name in FOREIGN:
        yield ANOTHER_KIND, _kept_pool(bench, name, ANOTHER_KIND)
    if not image:
        yield BUNDLED, _kept_pool(bench, name, BUNDLED)


@lru_cache(maxsize=32)
def _kept_pool(bench: Bench, name: str, kind: str) -> Pool:
    """Pools that no seed changes."""
    world = world_of(bench, name)
    field_of = world.task.image or world.task.fields[0]
    if kind == BUNDLED:
        return _embedded(world, [{field_of: str(row.values["text"])} for row in public_pool()])
    if kind == SAME_KIND:
        return _embedded(world, [example.fields for example in world.spare])
    texts = []
    for other in (world_of(bench, foreign) for foreign in FOREIGN[name]):
        rows = other.spare or other.dataset.train.taken(range(0, len(other.dataset.train), 2))
        own = other.task.image or other.task.fields[0]
        texts += [{field_of: example.fields[own]} for example in rows[:FOREIGN_ROWS]]
    return _embedded(world, texts)


def _other_classes(dataset: Dataset, seed: int) -> list[Query]:
    """Pictures of classes that an episode has not: those that ``Dataset.episode`` leaves out."""
    chosen = np.random.default_rng(1000 + seed).permutation(1 + max(example.label for example in dataset.train))
    shown = set(chosen[: dataset.classes].tolist())
    return [example.fields for example in dataset.train if example.label not in shown]


def _embedded(world: World, texts: Sequence[Query]) -> Pool:
    once = list({json.dumps(dict(text), sort_keys=True): text for text in texts}.values())
    return Pool(once, np.asarray(world.model.embed_questions(world.task, once)))
