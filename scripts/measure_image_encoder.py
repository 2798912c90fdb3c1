"""Does the image model learn made-up names of pictures from private examples?

    python scripts/measure_image_encoder.py [--part unseen] [--out FILE.json] [--data FOLDER]

Every seed draws five characters of the part and gives them names in random order. Records are drawn at random, not
balanced, from drawers 1 to 14; questions are all 30 pictures of the five characters by drawers 15 to 20. Released
answers count with their exact probability under the mechanism's law (add-remove), so the only spread is that of
characters and records; standard errors are over seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from _drawings import groups_of, rows, split_of

from sottovoce.benchmarks.harness.evaluation import selection_law
from sottovoce.models.base import FloatArray
from sottovoce.models.embedded.image_scorer import EmbeddedImageScorer, VectorArray
from sottovoce.tasks import Example, load_task

COUNTS, SIZES, EPSILONS = (4, 8, 20), (1, 2, 4), (0.5, 1.0, 2.0, 4.0)
CLIPS = (1.5, 2.3, 3.0, 4.0, 6.0)
REFERENCES = ("one context", "soft sum", "hard votes")
RELEASED = ("PoE 2.3", "PoE 4.0", "PoE max 2.3", "RNM", "RNM p.-f.")
"""``PoE C`` normalises over the labels, ``PoE max C`` relative to the best one. Of each, the clip that was best on
training characters is shown."""
Key = tuple[str, int, int, float]
"""What was answered, records, records an expert, epsilon (0 without noise)."""


class Remembered:
    """Keeps embeddings of the benchmark's rows in memory."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, str], VectorArray] = {}

    def find(self, encoder: str, texts: Sequence[str]) -> list[VectorArray | None]:
        return [self._vectors.get((encoder, text)) for text in texts]

    def keep(self, encoder: str, texts: Sequence[str], vectors: Sequence[VectorArray]) -> None:
        self._vectors |= {(encoder, text): vector for text, vector in zip(texts, vectors, strict=True)}


def measure_seed(scorer: EmbeddedImageScorer, images: dict[str, list[list[str]]], seed: int) -> dict[Key, float]:
    """Shares of right answers for one draw of characters, names and records.

    Args:
        scorer: The model.
        images: Character to its images as records and as questions.
        seed: Of the draw.
    """
    rng, task = np.random.default_rng(seed), load_task("pseudonames")
    classes = [sorted(images)[index] for index in rng.permutation(len(images))[: len(task.labels)]]
    records = [Example({task.image: image}, label) for label, name in enumerate(classes) for image in images[name][0]]
    records = [records[index] for index in rng.permutation(len(records))[: max(COUNTS)]]
    asked = [({task.image: image}, label) for label, name in enumerate(classes) for image in images[name][1]]
    queries, truth = [query for query, _ in asked], np.array([label for _, label in asked])
    found: dict[Key, float] = {}
    for count in COUNTS:
        together = scorer.prepare(task, [records[:count]]).score(queries)[:, 0]
        found["one context", count, count, 0] = _right(together, truth)
        for size in SIZES:
            contexts = [records[first : first + size] for first in range(0, count, size)]
            scores = scorer.prepare(task, contexts).score(queries)
            votes = np.eye(len(task.labels))[scores.argmax(axis=-1)].sum(axis=1)
            found["soft sum", count, size, 0] = _right(scores.sum(axis=1), truth)
            found["hard votes", count, size, 0] = _right(votes, truth)
            best = scores - scores.max(axis=-1, keepdims=True)
            summed = {f"PoE {clip}": (np.maximum(scores, -clip).sum(axis=1), clip) for clip in CLIPS}
            summed |= {f"PoE max {clip}": (np.maximum(best, -clip).sum(axis=1), clip) for clip in CLIPS}
            for epsilon in EPSILONS:
                laws = {
                    name: selection_law(total, epsilon / clip, "exponential") for name, (total, clip) in summed.items()
                }
                laws["RNM"] = selection_law(votes, epsilon, "exponential")
                laws["RNM p.-f."] = selection_law(votes, epsilon, "permute-and-flip")
                for method, law in laws.items():
                    found[method, count, size, epsilon] = float(law[np.arange(len(truth)), truth].mean())
    return found


def _right(scores: FloatArray, truth: np.ndarray) -> float:
    """The share of right answers; equally good labels share the credit."""
    best = scores == scores.max(axis=-1, keepdims=True)
    return float((best[np.arange(len(truth)), truth] / best.sum(axis=-1)).mean())


def read(data: Path, part: str) -> dict[str, list[list[str]]]:
    """Character to its images as records and as questions, of one part of the split."""
    images: dict[str, list[list[str]]] = {name: [[], []] for name in split_of(groups_of(data))[part]}
    for use, split in enumerate(("train", "test")):
        for row in rows(data, split):
            if row["class"] in images:
                images[row["class"]][use].append(row["image_b64"])
    return images


def table(mean: dict[Key, float], error: dict[Key, float]) -> Iterator[str]:
    """The lines of a Markdown table, percent right."""
    listed = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    yield f"Percent right, standard errors up to {max(error.values()):.1f} points. Releases at epsilon {listed}."
    yield ""
    yield "| records | an expert | " + " | ".join([*REFERENCES, *RELEASED]) + " |"
    yield "|" + "---|" * (2 + len(REFERENCES) + len(RELEASED))
    for count in COUNTS:
        for size in SIZES:
            plain = [mean[name, count, count if name == "one context" else size, 0] for name in REFERENCES]
            laws = [" / ".join(f"{mean[name, count, size, epsilon]:.0f}" for epsilon in EPSILONS) for name in RELEASED]
            yield f"| {count} | {size} | " + " | ".join([*(f"{value:.0f}" for value in plain), *laws]) + " |"


def main() -> int:
    """Reads the arguments, measures, prints, writes. Returns 2 where the data is absent."""
    parser = argparse.ArgumentParser(description="Measures the image model on pictures with made-up names.")
    default = Path(__file__).resolve().parents[2] / "shared" / "data" / "omniglot"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--part", choices=("training", "validation", "unseen"), default="unseen")
    parser.add_argument("--weights", type=Path, help="another file of weights")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--out", type=Path, help="JSON file to write, with every clip")
    arguments = parser.parse_args()
    if not (arguments.data / "train.jsonl.gz").is_file():
        print(f"There are no drawings in {str(arguments.data)!r}. Name their folder with --data.", file=sys.stderr)
        return 2
    start = time.perf_counter()
    scorer = EmbeddedImageScorer(arguments.weights, store=Remembered())
    images = read(arguments.data, arguments.part)
    runs = [measure_seed(scorer, images, seed) for seed in range(arguments.seeds)]
    values = {key: 100 * np.array([run[key] for run in runs]) for key in runs[0]}
    mean = {key: float(some.mean()) for key, some in values.items()}
    error = {key: float(some.std(ddof=1) / len(some) ** 0.5) for key, some in values.items()}
    for line in table(mean, error):
        print(line)
    print(f"\n{arguments.part} characters, {arguments.seeds} seeds, {time.perf_counter() - start:.0f} s")
    if arguments.out:
        names = ("method", "records", "an_expert", "epsilon")
        cells = [
            {**dict(zip(names, key, strict=True)), "mean": round(mean[key], 2), "standard_error": round(error[key], 2)}
            for key in mean
        ]
        arguments.out.write_text("[\n" + ",\n".join(map(json.dumps, cells)) + "\n]\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
