"""Does the embedded model really use the examples in its context?

    python -m sottovoce.benchmarks.studies.in_context --out FILE.json [--data FOLDER] [--cache FOLDER]

News topics (AG News) and question types (TREC), which nothing in the model was fitted on, under their own names and
under made-up ones that say nothing of the class. For every seed a random sample of records, not balanced, is given to
the model in one context or to experts of one record each. Every released answer counts with its exact probability under
the mechanism's law, so the only spread is that of records and questions; standard errors are over seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness.datasets import default_data
from sottovoce.benchmarks.harness.evaluation import selection_law
from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.harness.public_rows import PublicExamples, benchmark_rows
from sottovoce.files.outputs import unused, write_new
from sottovoce.models.base import FloatArray
from sottovoce.models.embedded.embedding_cache import EmbeddingCache
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.tasks import Example, Query, Task, load_task

COUNTS = (4, 8, 25, 100, 400, 1600)
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CLIP = 2.3
MADE_UP = {
    "agnews": ("dax", "blicket", "perpo", "slation", "shously"),
    "trec": ("dax", "blicket", "perpo", "slation", "shously", "wug", "fep", "toma", "zorp", "gazzer", "modi", "lug"),
}
"""Each seed draws as many words as there are classes, in random order."""

ADJACENCIES = {"add-remove": 1.0, "replace-one": 0.5}
"""How much of epsilon one unit of utility is worth, at the same clip."""


@final
@dataclass(frozen=True)
class Cell:
    """One number of the table.

    Attributes:
        task: Name of the task.
        names: ``own`` or ``made up``.
        records: Number of private records; 0 for zero-shot.
        method: What was released, or the reference without noise.
        adjacency: For released answers.
        epsilon: Privacy loss of one answer, for released answers.
        mean: Percentage of right answers.
        standard_error: Of the mean, over seeds, in percentage points.
    """

    task: str
    names: str
    records: int
    method: str
    adjacency: str | None
    epsilon: float | None
    mean: float
    standard_error: float


Key = tuple[int, str, str | None, float | None]
"""Records, method, adjacency, epsilon."""


@dataclass(frozen=True)
class World:
    """The rows of one task.

    Attributes:
        task: With its own label names.
        train: Records to draw examples from.
        test: Questions with their true labels.
    """

    task: Task
    train: PublicExamples
    test: PublicExamples

    @property
    def counts(self) -> list[int]:
        """The numbers of records that there are rows for."""
        return [count for count in COUNTS if count <= len(self.train)]

    def renamed(self, rng: np.random.Generator) -> Task:
        """The task with made-up names, drawn at random."""
        words = MADE_UP[self.task.name]
        chosen = rng.permutation(len(words))[: len(self.task.labels)]
        return replace(self.task, labels=[words[index] for index in chosen])


def measure_seed(scorer: EmbeddedScorer, world: World, made_up: bool, seed: int, questions: int) -> dict[Key, float]:
    """Fractions of right answers for one draw of records, questions and names."""
    rng = np.random.default_rng(1000 + seed)
    examples = world.test.taken(rng.choice(len(world.test), questions, replace=False))
    records = list(world.train.taken(rng.choice(len(world.train), max(world.counts), replace=False)))
    task = world.renamed(np.random.default_rng(seed)) if made_up else world.task
    truth = np.array([example.label for example in examples])
    queries: list[Query] = [example.fields for example in examples]
    together = scorer.prepare(task, [records[:count] for count in (0, *world.counts)]).score(queries)
    alone = scorer.prepare(task, [[record] for record in records]).score(queries)
    accuracies: dict[Key, float] = {(0, "zero-shot", None, None): _right(together[:, 0], truth)}
    for index, count in enumerate(world.counts):
        votes = np.eye(len(task.labels))[alone[:, :count].argmax(axis=-1)].sum(axis=1)
        summed = np.maximum(alone[:, :count], -CLIP).sum(axis=1)
        accuracies[count, "one context", None, None] = _right(together[:, index + 1], truth)
        accuracies[count, "soft sum", None, None] = _right(alone[:, :count].sum(axis=1), truth)
        accuracies[count, "hard votes", None, None] = _right(votes, truth)
        for adjacency, share in ADJACENCIES.items():
            for epsilon in EPSILONS:
                for method, utilities, rate, mechanism in (
                    ("PoE", summed, epsilon * share / CLIP, "exponential"),
                    ("votes, exponential", votes, epsilon * share, "exponential"),
                    ("votes, permute-and-flip", votes, epsilon * share, "permute-and-flip"),
                ):
                    law = selection_law(utilities, rate, mechanism)
                    accuracies[count, method, adjacency, epsilon] = float(law[np.arange(questions), truth].mean())
    return accuracies


def _right(scores: FloatArray, truth: NDArray[np.intp]) -> float:
    """The share of right answers; equally good labels share the credit."""
    best = scores == scores.max(axis=-1, keepdims=True)
    return float((best[np.arange(len(truth)), truth] / best.sum(axis=-1)).mean())


def measure(scorer: EmbeddedScorer, world: World, made_up: bool, seeds: int, questions: int) -> list[Cell]:
    """Means and standard errors over seeds."""
    runs = [measure_seed(scorer, world, made_up, seed, questions) for seed in range(seeds)]
    names = "made up" if made_up else "own"
    cells = []
    for key in runs[0]:
        values = 100 * np.array([run[key] for run in runs])
        error = float(values.std(ddof=1) / seeds**0.5) if seeds > 1 else float("nan")
        cells.append(Cell(world.task.name, names, *key, round(float(values.mean()), 2), round(error, 2)))
    return cells


def read_world(data: Path, name: str) -> World:
    """Reads a task's rows.

    Raises:
        FileNotFoundError: The data folder lacks it.
    """
    return World(load_task(name), *(_examples(data / name / f"{split}.jsonl.gz") for split in ("train", "test")))


def _examples(file: Path) -> PublicExamples:
    rows = benchmark_rows(file)
    return PublicExamples([Example({"text": row["text"]}, row["label"]) for row in rows], rows, file.parent.name)


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """The lines of a table: one row a task and number of records, percent right."""
    by = {(c.task, c.names, c.records, c.method, c.adjacency, c.epsilon): c for c in cells}
    kinds = list(dict.fromkeys((c.task, c.names) for c in cells))
    references = ("one context", "soft sum", "hard votes")
    for adjacency in ADJACENCIES:
        worst = max(c.standard_error for c in cells if c.adjacency in {None, adjacency})
        yield f"{adjacency}; percent right, standard errors up to {worst:.1f}; releases at epsilon {EPSILONS}"
        yield (
            f"{'task':8}{'names':9}{'records':>8}{'zero-shot':>11}{'one context':>13}{'soft sum':>10}{'hard votes':>12}"
            f"{'PoE, C = 2.3':>20}{'votes, exponential':>21}{'votes, perm.-flip':>20}"
        )
        for task, names in kinds:
            zero = by[task, names, 0, "zero-shot", None, None].mean
            for count in sorted({c.records for c in cells if (c.task, c.names) == (task, names)} - {0}):
                plain = [by[task, names, count, method, None, None].mean for method in references]
                released = "".join(
                    "    " + " ".join(f"{by[task, names, count, m, adjacency, e].mean:3.0f}" for e in EPSILONS) + " "
                    for m in ("PoE", "votes, exponential", "votes, permute-and-flip")
                )
                yield (
                    f"{task:8}{names:9}{count:8}{zero:11.0f}{plain[0]:13.0f}{plain[1]:10.0f}{plain[2]:12.0f}{released}"
                )
        yield ""


def about(scorer: EmbeddedScorer, seeds: int, questions: int) -> dict[str, Any]:
    """What a reader needs to repeat the table."""
    return {
        "benchmark": "in_context",
        "model": scorer.name,
        "head": fitted_numbers(scorer),
        "seeds": seeds,
        "questions_a_seed": questions,
        "clip": CLIP,
        "machine": describe(),
    }


def fitted_numbers(scorer: EmbeddedScorer) -> dict[str, float]:
    """The fitted numbers of the model's head."""
    return {name: value for name, value in vars(scorer.head).items() if isinstance(value, float)}


def _one_cell_a_line(report: dict[str, Any]) -> str:
    """JSON that is short and still shows in a difference which cell changed."""
    cells = ",\n".join(json.dumps(cell, separators=(",", ":")) for cell in report["cells"])
    rest = json.dumps({**report, "cells": []}, indent=1)
    return rest.replace('"cells": []', f'"cells": [\n{cells}\n]') + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the arguments, measures, prints the table and writes the JSON file. Returns 2 where the data is absent."""
    parser = argparse.ArgumentParser(prog="in_context", description="Does the embedded model use its examples?")
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--out", type=unused, help="JSON file to write")
    parser.add_argument("--cache", type=Path, help="folder in which embeddings are kept between runs")
    parser.add_argument("--head", type=Path, help="another head file")
    parser.add_argument("--tasks", nargs="+", choices=sorted(MADE_UP), default=sorted(MADE_UP))
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--questions", type=int, default=100, help="questions a seed")
    arguments = parser.parse_args(argv)
    if missing := [name for name in arguments.tasks if not (arguments.data / name).is_dir()]:
        print(f"There is no folder {missing[0]!r} in {arguments.data}; name the data with --data.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        store = EmbeddingCache(arguments.cache or Path(temporary))
        scorer = EmbeddedScorer(head=arguments.head, store=store)
        cells = [
            cell
            for name in arguments.tasks
            for made_up in (False, True)
            for cell in measure(scorer, read_world(arguments.data, name), made_up, arguments.seeds, arguments.questions)
        ]
    for line in table(cells):
        print(line)
    if arguments.out:
        report = {**about(scorer, arguments.seeds, arguments.questions), "cells": [asdict(cell) for cell in cells]}
        write_new(arguments.out, _one_cell_a_line(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
