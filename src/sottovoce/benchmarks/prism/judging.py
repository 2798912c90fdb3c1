"""Whether a synthetic text is of the kind that was asked for: like the rows of its data set, and of its label.

The judge is a linear discriminant (equal priors, one covariance shrunk towards its diagonal mean; Friedman, 1989) on
sentence embeddings. It is fitted on test rows, so on none that play private records, whole and cut to the length of a
synthetic text, with a class for every label of every task and the bundled tickets as a further set. Real rows that it
was not fitted on say how often it is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness.datasets import read_world
from sottovoce.benchmarks.harness.experiment import Bench, Key, Piece
from sottovoce.benchmarks.prism.demonstrations import REAL, with_
from sottovoce.models.base import FloatArray
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder
from sottovoce.tasks import Example

IN_DOMAIN, OF_LABEL = "in domain", "of its label"
FOREIGN: Final = "tickets"
"""A set that every judge knows beside the tasks."""
MOST: Final = 900
"""Test rows of a set that are read: two thirds to fit on, one third to say how often the judge is right."""
SHRINKAGE: Final = 0.5


@final
@dataclass(frozen=True)
class Judge:
    """Tells the set and the label of a text.

    Attributes:
        encoder: Makes the embeddings.
        kinds: Set and label of each class.
        weights: Shape (classes, dimension).
        offsets: Shape (classes,).
    """

    encoder: SentenceEncoder
    kinds: Sequence[tuple[str, int]]
    weights: FloatArray
    offsets: FloatArray

    def percentages(self, task: str, made: Sequence[Example]) -> dict[str, float]:
        """How many of some texts are told to be of their set, and, among its labels, of their label; mean over labels.

        Args:
            task: The set that was to be written for.
            made: Texts with the label that was asked for; at least one.
        """
        texts = [" ".join(example.fields.values()) for example in made]
        scores = self.encoder.encode(texts).astype(np.float64) @ self.weights.T + self.offsets
        own = np.array([place for place, (of, _) in enumerate(self.kinds) if of == task])
        best, within = scores.argmax(axis=1), own[scores[:, own].argmax(axis=1)]
        labels = np.array([example.label for example in made])
        judged = np.array([label for _, label in self.kinds])[within]
        right = {OF_LABEL: judged == labels, IN_DOMAIN: np.isin(best, own)}
        if len({of for of, _ in self.kinds}) < 2:
            del right[IN_DOMAIN]
        each = [labels == label for label in np.unique(labels)]
        return {
            name: 100 * float(np.mean([these[matches].mean() for matches in each])) for name, these in right.items()
        }


def cut(text: str, words: int) -> str:
    """The first words of a text."""
    return " ".join(text.split()[:words])


def words_of(tokens: int) -> int:
    """About as many words as fit into some tokens."""
    return max(1, tokens * 3 // 4)


def discriminant(points: FloatArray, classes: NDArray[np.intp], count: int) -> tuple[FloatArray, FloatArray]:
    """Weights and offsets of a linear discriminant with equal priors.

    Args:
        points: Shape (rows, dimension).
        classes: Class of each row; every class has one.
        count: Number of classes.
    """
    means = np.stack([points[classes == label].mean(axis=0) for label in range(count)])
    apart = points - means[classes]
    spread = apart.T @ apart / len(points)
    level = np.trace(spread) / len(spread)
    shrunk = (1 - SHRINKAGE) * spread + SHRINKAGE * level * np.eye(len(spread))
    weights = np.linalg.solve(shrunk, means.T).T
    return weights, -0.5 * (weights * means).sum(axis=1)


@lru_cache(maxsize=2)
def judge_of(data: Path, tasks: tuple[str, ...], words: int) -> tuple[Judge, dict[str, dict[str, float]]]:
    """A judge for some tasks, and for each of them the percentages of real rows that it was not fitted on.

    Args:
        data: Where the rows lie.
        tasks: Names of worlds.
        words: Length of a synthetic text.
    """
    encoder, kinds = SentenceEncoder(), list[tuple[str, int]]()
    texts, classes, kept = list[str](), list[int](), dict[str, list[Example]]()
    for name in dict.fromkeys((*tasks, FOREIGN)):
        world = read_world(data, name)
        rows = list(world.test.taken(np.random.default_rng(70_000).permutation(len(world.test))[:MOST]))
        fitted, kept[name] = rows[: len(rows) * 2 // 3], rows[len(rows) * 2 // 3 :]
        for label in sorted({row.label for row in fitted}):
            own = [" ".join(row.fields.values()) for row in fitted if row.label == label]
            texts += [*own, *(cut(text, words) for text in own)]
            classes += [len(kinds)] * (2 * len(own))
            kinds.append((name, label))
    points = encoder.encode(texts).astype(np.float64)
    judge = Judge(encoder, kinds, *discriminant(points, np.array(classes), len(kinds)))
    real = {}
    for name in tasks:
        short = [Example({"text": cut(" ".join(x.fields.values()), words)}, x.label) for x in kept[name]]
        real[name] = judge.percentages(name, short)
    return judge, real


def judged(bench: Bench, piece: Piece, made: Sequence[Example], key: Key, tokens: int) -> Iterator[tuple[Key, float]]:
    """What the judge says of a file of synthetic texts; nothing where no text could be read."""
    if made:
        judge, _ = judge_of(bench.data, bench.settings.tasks, words_of(tokens))
        for quantity, value in judge.percentages(piece.task, made).items():
            yield with_(key, quantity=quantity), value


def judged_real(bench: Bench, piece: Piece, tokens: int) -> Iterator[tuple[Key, float]]:
    """What the judge says of real rows of that length: the most that can be asked of written ones."""
    _, real = judge_of(bench.data, bench.settings.tasks, words_of(tokens))
    for quantity, value in real[piece.task].items():
        yield Key(piece.task, piece.names, REAL, quantity=quantity), value
