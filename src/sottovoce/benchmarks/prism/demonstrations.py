"""Synthetic demonstrations for the experiments on PRISM and its rivals: how they are written, shown and scored.

Private records are benchmark rows that the model which writes was not trained on: of DBpedia and the film data it
learnt from all but the first 2,000 training rows, of the other sets from none (``docs/language-model.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, final
from zlib import crc32

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import MOST_RECORDS, Episode
from sottovoce.benchmarks.harness.experiment import Bench, Cell, Key, Piece
from sottovoce.errors import ParameterError
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.decoding.decoder import Decoder, make_decoder
from sottovoce.models.base import FloatArray
from sottovoce.models.registry import load_stepper
from sottovoce.models.stepper import Stepper
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.synthesis.config import SynthesisConfig
from sottovoce.synthesis.synthesizer import Synthesizer
from sottovoce.tasks import Example

REAL, PUBLIC = "real demonstrations", "public texts"
METHODS: Final[Mapping[str, Decoder]] = {
    name: make_decoder(name) for name in ("invisible-ink", "prism", "amin", "tang", "poe-decoding")
}
DELTA: Final = 1e-5
RESERVED: Final = 2_000
"""First rows of a training file, which the embedded language model never met."""
NOTHING: Final = 1e-3
"""An epsilon at which a text follows its public prompt: what "public texts" are written with. They read no record."""


@final
@dataclass(frozen=True)
class Size:
    """How much is written and shown.

    Attributes:
        per_label: Texts of each label.
        tokens: Most tokens of a text.
        inside: Room for a record in an expert's prompt, in tokens.
        draws: Contexts of k demonstrations for every file.
    """

    per_label: int = 4
    tokens: int = 24
    inside: int = 48
    draws: int = 6


def held_of(bench: Bench, piece: Piece, records: int) -> tuple[Episode, list[Example]]:
    """One draw of questions and names, and of private records that the writer was not trained on.

    Raises:
        ParameterError: There are not so many records.
        InputError: Most of them, or of the reserved rows, are somebody's private records.
    """
    world = bench.world(piece.task)
    reserved = replace(world, train=world.train[:RESERVED])
    episode = reserved.episode(piece.seed, bench.settings.queries, piece.names, max(records, MOST_RECORDS))
    if not 0 < records <= len(episode.records):
        raise ParameterError("records", records, f"one number up to {len(episode.records)}")
    return episode, list(episode.records[:records])


def rows_of(episode: Episode, held: Sequence[Example]) -> list[Row]:
    """The records as a file has them, the label by its name."""
    return [Row(n, {**x.fields, "label": episode.task.labels[x.label]}) for n, x in enumerate(held, 1)]


@lru_cache(maxsize=2)
def stepper_of(model: str) -> Stepper:
    """A model that writes, or reads demonstrations; loaded once."""
    return load_stepper(model)


def written(
    stepper: Stepper,
    episode: Episode,
    rows: Sequence[Row],
    decoder: Decoder,
    epsilon: float,
    adjacency: Adjacency,
    piece: Piece,
    size: Size,
) -> list[Example]:
    """The examples of one file."""
    experts = max(1, len(rows) // len(episode.task.labels))
    order = SynthesisConfig(
        per_label=size.per_label, tokens=size.tokens, experts=experts, max_private_tokens=size.inside
    )
    seed = f"{piece.name} {epsilon:g} {adjacency.value} {decoder} {size} {len(rows)}"
    writer = writer_of(stepper, GenerationTemplate.of(episode.task), rows, order, decoder, epsilon, adjacency, seed)
    return [
        Example({name: row[name] for name in episode.task.fields}, episode.task.labels.index(row["label"]))
        for part in writer.rounds()
        for row in part.rows
        if all(isinstance(row.get(name), str) and row[name].strip() for name in episode.task.fields)
    ]


def writer_of(
    stepper: Stepper,
    writing: GenerationTemplate,
    rows: Sequence[Row],
    order: SynthesisConfig,
    decoder: Decoder,
    epsilon: float,
    adjacency: Adjacency,
    seed: str,
) -> Synthesizer:
    """A run on published benchmark rows, whose noise may therefore be seeded."""
    return Synthesizer(
        PrivateRecords(rows, source="benchmark rows", unit="record", synthetic=True),
        writing,
        order,
        epsilon=epsilon,
        delta=DELTA,
        method=decoder,
        model=stepper,
        adjacency=adjacency,
        budget=Budget(1_000, 1e-4, failure_delta=5e-5),
        ledger=":memory:",
        randomness=SeededRandomness(crc32(seed.encode())),
    )


def public_texts(stepper: Stepper, episode: Episode, piece: Piece, size: Size) -> list[Example]:
    """Texts that the same model writes from the public prompt alone: what synthesis has to beat."""
    blank = Row(1, dict.fromkeys(episode.task.fields, "-") | {"label": episode.task.labels[0]})
    decoder = METHODS["invisible-ink"]
    return written(stepper, episode, [blank], decoder, NOTHING, Adjacency.ADD_REMOVE, piece, size)


def measurements(
    bench: Bench, piece: Piece, episode: Episode, made: Sequence[Example], key: Key, size: Size
) -> Iterator[tuple[Key, float]]:
    """How many of the texts that were paid for can be read and differ, and accuracies with them."""
    yield with_(key, quantity="readable"), 100 * len(made) / (size.per_label * len(episode.task.labels))
    different = len({text for example in made for text in example.fields.values()})
    yield with_(key, quantity="different"), 100 * different / max(1, len(made))
    yield from in_context(bench, piece, episode, made, key, size)


def in_context(
    bench: Bench, piece: Piece, episode: Episode, shown: Sequence[Example], key: Key, size: Size
) -> Iterator[tuple[Key, float]]:
    """Percent right with k of the examples, over draws; plain, and calibrated on questions without content."""
    rng = np.random.default_rng(40_000 + piece.seed)
    empty = episode.task.content_free_queries()
    for k in bench.settings.shots:
        if k > len(shown):
            continue
        contexts = [[shown[i] for i in rng.permutation(len(shown))[:k]] for _ in range(size.draws)]
        prepared = bench.scorer.prepare(episode.task, contexts)
        scores, bare = prepared.score(episode.questions), prepared.score(empty)
        prepared.close()
        yield with_(key, option=f"k {k}"), _right(scores, episode)
        yield with_(key, option=f"k {k}, calibrated"), _right(scores - bare.mean(axis=0, keepdims=True), episode)


def _right(scores: FloatArray, episode: Episode) -> float:
    """Percent right, mean over draws; ``scores`` has shape (questions, draws, labels)."""
    draws = range(scores.shape[1])
    return float(np.mean([e.right(e.best_laws(scores[:, draw]), episode.truth) for draw in draws]))


def with_(key: Key, **changed: Any) -> Key:
    """The key with some fields changed."""
    return replace(key, **changed)


def shown(cell: Cell | None) -> str:
    """A cell of a table; a dash where nothing was measured."""
    return str(cell) if cell else "-"
