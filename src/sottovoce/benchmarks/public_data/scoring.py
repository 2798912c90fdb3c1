"""Scores of answers as numbers of a result, 0 to 100, and what is read off them: means and paired differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sottovoce.benchmarks.harness.experiment import Cell, Key, Result, about
from sottovoce.benchmarks.public_data.worlds import Pair
from sottovoce.intervals import Estimate, mean_of
from sottovoce.metrics.embedding import EmbeddingCosine
from sottovoce.metrics.evaluate import METRICS
from sottovoce.models.base import Embedder

COSINE: Final = "cosine"
SCORES: Final = ("rouge-1", "rouge-2", "rouge-l", "bleu", "meteor-exact-stem", COSINE)
MAIN: Final = "rouge-l"
"""The score that questions are decided by."""


def scored(
    key: Key, answers: Sequence[str] | None, asked: Sequence[Pair], embedder: Embedder
) -> Iterator[tuple[Key, float]]:
    """Every score of some answers to the questions of a seed; of several draws, one after another, the mean over draws.

    Where there are none, since the method was refused, every score is not a number, so that values stay in the order of
    the questions.
    """
    if answers is None:
        yield from ((replace(key, quantity=name), math.nan) for name in SCORES)
        return
    draws = [answers[start : start + len(asked)] for start in range(0, len(answers), len(asked))]
    references, ones = [(given,) for _, given in asked], np.ones(len(asked))
    for name in SCORES:
        metric, values = EmbeddingCosine(embedder) if name == COSINE else METRICS[name](), []
        for drawn in draws:
            ((_, statistics),) = metric.measure(drawn, references, None).items()
            values.append(statistics.score(ones) * (1 if name == "bleu" else 100))
        yield replace(key, quantity=name), float(np.mean(values))


def estimate(cell: Cell | None) -> Estimate | None:
    """The mean over seeds with its interval; ``None`` where nothing was measured or there is one seed."""
    values = measured_values(cell)
    return None if len(values) < 2 else mean_of(values)


def measured_values(cell: Cell | None) -> list[float]:
    """The values of the seeds where the method was not refused."""
    return [] if cell is None else [value for value in cell.values if math.isfinite(value)]


def difference(first: Cell | None, second: Cell | None) -> Estimate | None:
    """First less second, seed by seed, with its interval; ``None`` where one was not measured in the same seeds."""
    if first is None or second is None or not 2 <= len(first.values) == len(second.values):
        return None
    return mean_of([one - two for one, two in zip(first.values, second.values, strict=True)])


def shown(cell: Cell | None) -> str:
    """A mean with its interval, for a table."""
    values = measured_values(cell)
    if not values:
        return "-"
    found = estimate(cell)
    return f"{values[0]:.1f}" if found is None else f"{found.value:.1f} ({found.low:.1f} to {found.high:.1f})"


def verdict(question: str, found: Estimate | None, unit: str = "points of ROUGE-L") -> str:
    """A question with its answer: the difference, its interval, and whether that shows anything."""
    if found is None:
        return f"{question} Not measured."
    word = {1: "Yes", -1: "No, the other way round", 0: "Not shown"}[found.sign]
    return f"{question} {word}: {found.value:+.1f} {unit} ({found.low:+.1f} to {found.high:+.1f})."


def measured_with(result: Result) -> list[tuple[str, str]]:
    """What a reader needs to repeat it: no scores of a model are kept here, and intervals are Student's."""
    s = result.settings
    protocol = f"{s.seeds} seeds x {s.queries} questions; Student's 95 % intervals over seeds"
    known = dict(about(result)) | {"Protocol": protocol}
    known["Command"] += " --experts " + " ".join(map(str, s.experts)) if s.experts else ""
    known["Command"] += f" --draws {s.draws[0]}" if s.draws else ""
    return [(name, value) for name, value in known.items() if name != "Model asked"]


def cell_of(result: Result, task: str, method: str, quantity: str = MAIN, **about: object) -> Cell | None:
    """The cell of a method, whatever the seed's further settings were."""
    wanted = {"task": task, "method": method, "quantity": quantity, **about}
    found = [cell for cell in result.cells if all(getattr(cell.key, name) == value for name, value in wanted.items())]
    return found[0] if len(found) == 1 else None
