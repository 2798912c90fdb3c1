"""Private clustering of sentence embeddings and of made-up mixtures: what it finds, in which coordinates.

    sotto bench run clustering --out FILE.json [--data FOLDER] [--runs 5] [--sets tickets agnews-1000 ...]

The first rows of a data set play the private points; another split of it plays the public texts that give axes and box.
For published or invented rows only: labels are compared with clusters without noise. Modes:

* ``raw``: the embeddings' own coordinates in [-1, 1], eight intervals each, cuts kept whatever their window holds;
* ``random``: 16 orthonormal axes from a public seed, the box from the dimension alone;
* ``principal``: 4 principal axes of public texts of the same kind;
* ``foreign``: 4 principal axes of public texts of another kind.

k-means with as many clusters as there are labels is the reference without privacy, in all 384 coordinates and in those
of each mode. Every figure is a mean over runs that differ in their noise, with its standard deviation.

Sources     Hubert and Arabie (1985) for the adjusted Rand index.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness.datasets import default_data
from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.harness.public_rows import public_records
from sottovoce.data.bundled import tickets_file
from sottovoce.files.outputs import unused, write_new
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.privacy.points import PrivatePoints, grid_rows
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.readers import read_public
from sottovoce.records.sealed import PublicRecords

FloatArray = NDArray[np.float64]
Names = NDArray[Any]

DELTA: Final = 1e-6
DIMENSION: Final = 384
MEASURES: Final = ("clusters", "purity", "ari", "nmi", "centre_cosine")


@final
@dataclass(frozen=True)
class Points:
    """One data set: vectors and labels, and the public vectors of its own kind and of another."""

    name: str
    vectors: FloatArray
    labels: Names
    public: FloatArray | None
    foreign: FloatArray | None
    about: str


def made_up(count: int, clusters: int, spread: float, seed: int = 0) -> tuple[FloatArray, Names]:
    """Unit vectors about random middles; ``spread`` is the norm of the noise against the middle's 1."""
    source = np.random.default_rng(seed)
    middles = source.normal(size=(clusters, DIMENSION))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    labels = source.integers(clusters, size=count)
    vectors = middles[labels] + spread / math.sqrt(DIMENSION) * source.normal(size=(count, DIMENSION))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), labels


def mixtures() -> dict[str, Callable[[], Points]]:
    """Made-up mixtures of eight clusters: points are more spread out from name to name, or fewer."""

    def sphere(count: int, spread: float) -> Points:
        vectors, labels = made_up(count + 500, 8, spread)
        about = f"8 clusters on the unit sphere in {DIMENSION} dimensions, noise of norm {spread} about unit middles"
        name = f"sphere-{spread}-{count}"
        return Points(name, vectors[500:], labels[500:], vectors[:500], None, about)

    cases = [(1000, 0.2), (5000, 0.2), (1000, 0.5), (5000, 0.5), (5000, 1.0)]
    return {f"sphere-{spread}-{count}": (lambda c=count, s=spread: sphere(c, s)) for count, spread in cases}  # type: ignore[misc]


def _invented(file: Path, most: int) -> PublicRecords:
    """The first rows of a file that ships with the package, and so nobody's."""
    return read_public(file).first(most)


@final
class Embedded:
    """Embeds rows of files once each."""

    def __init__(self, folder: Path) -> None:
        from sottovoce.models.embedded.sentence_encoder import SentenceEncoder

        self._encoder, self._folder = SentenceEncoder(), folder
        self._known: dict[tuple[Path, int], tuple[FloatArray, Names]] = {}

    def rows(
        self, path: Path, most: int, read: Callable[[Path, int], PublicRecords] = public_records
    ) -> tuple[FloatArray, Names]:
        """Vectors and labels of the first rows of a file."""
        if (path, most) not in self._known:
            rows = read(path, most)
            vectors = self._encoder.encode([str(row.values["text"]) for row in rows]).astype(np.float64)
            self._known[path, most] = vectors, np.array([str(row.values["label"]) for row in rows])
        return self._known[path, most]

    def tickets(self) -> Points:
        """The bundled tickets; its queries are the public texts of the same kind."""
        vectors, labels = self.rows(tickets_file("private.jsonl"), 10_000, _invented)
        public, _ = self.rows(tickets_file("queries.jsonl"), 10_000, _invented)
        foreign = self._split("agnews", "test", 2000)[0] if self.has("agnews") else None
        return Points(f"tickets-{len(vectors)}", vectors, labels, public, foreign, "invented support tickets, 8 labels")

    def benchmark(self, name: str, count: int, other: str, about: str) -> Points:
        """The first training rows of a benchmark set; its test rows are public, and so are another set's."""
        vectors, labels = self._split(name, "train", count)
        public, foreign = self._split(name, "test", 2000)[0], self._split(other, "test", 2000)[0]
        return Points(f"{name}-{count}", vectors, labels, public, foreign, about)

    def has(self, name: str) -> bool:
        """Whether the benchmark set is there."""
        return (self._folder / name / "train.jsonl.gz").is_file()

    def _split(self, name: str, split: str, most: int) -> tuple[FloatArray, Names]:
        return self.rows(self._folder / name / f"{split}.jsonl.gz", most)


def embedded_sets(folder: Path) -> tuple[dict[str, Callable[[], Points]], dict[str, str]]:
    """Real embeddings by name, and why the missing ones are missing."""
    source = Embedded(folder)
    sets: dict[str, Callable[[], Points]] = {"tickets-440": source.tickets}
    skipped = {}
    for name, other, about, counts in (
        ("agnews", "dbpedia", "news, 4 topics", (1000, 5000)),
        ("trec", "agnews", "questions, 6 types", (3800,)),
        ("dbpedia", "agnews", "encyclopedia entries, 14 classes", (5000,)),
    ):
        for count in counts:
            if source.has(name) and source.has(other):
                sets[f"{name}-{count}"] = (
                    lambda n=name, c=count, o=other, a=about: source.benchmark(n, c, o, a)  # type: ignore[misc]
                )
            else:
                skipped[f"{name}-{count}"] = f"{name} or {other} is not in the folder of benchmark data"
    return sets, skipped


def modes(points: Points) -> Iterator[tuple[str, PublicProjection, dict[str, Any]]]:
    """Name, projection and settings of every mode that the data set has public vectors for."""
    yield "raw", PublicProjection.raw(DIMENSION, steps=16), {"half_window": 1, "max_gap": None}
    yield "random", PublicProjection.random(DIMENSION, 16), {"half_window": 3, "max_gap": Fraction(1, 2)}
    if points.public is not None:
        yield "principal", PublicProjection.principal(points.public, 4), {}
    if points.foreign is not None:
        yield "foreign", PublicProjection.principal(points.foreign, 4), {}


def measure(points: Points, epsilons: Sequence[float], runs: int) -> Iterator[dict[str, Any]]:
    """The references, then every mode under both adjacencies at every epsilon."""
    clusters = len(set(points.labels.tolist()))
    yield _row(points, "k-means, all coordinates", [scores(points.labels, k_means(points.vectors, clusters, 0))])
    rows = grid_rows(points.vectors, Fraction(1))
    for mode, projection, settings in modes(points):
        flat = projection.project(rows).astype(np.float64)
        names = k_means(flat / flat.std(axis=0).mean(), clusters, 0)
        yield _row(points, f"k-means, {mode} coordinates", [scores(points.labels, names)])
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE):
            for epsilon in epsilons:
                dpm = DPM.for_budget(
                    adjacency=adjacency, projection=projection, epsilon=epsilon, delta=DELTA, **settings
                )
                started = time.perf_counter()
                measures = [_once(dpm, points, run) for run in range(runs)]
                row = _row(points, mode, measures, adjacency.value, epsilon)
                yield {**row, "min_size": dpm.min_size, "seconds": (time.perf_counter() - started) / runs}


def _once(dpm: DPM, points: Points, run: int) -> dict[str, float]:
    sealed = PrivatePoints(points.vectors, adjacency=dpm.adjacency)
    released = dpm.cluster(sealed, SeededRandomness(run))
    names = released.assign(points.vectors)
    cosines = [
        float(np.dot(cluster.centre, middle) / (np.linalg.norm(cluster.centre) * np.linalg.norm(middle) + 1e-12))
        for index, cluster in enumerate(released.clusters)
        if (names == index).any()
        for middle in [points.vectors[names == index].mean(axis=0)]
    ]
    return {
        **scores(points.labels, names),
        "clusters": len(released.clusters),
        "centre_cosine": float(np.mean(cosines)),
    }


def _row(
    points: Points,
    mode: str,
    measures: list[dict[str, float]],
    adjacency: str | None = None,
    epsilon: float | None = None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"set": points.name, "mode": mode, "adjacency": adjacency, "epsilon": epsilon}
    for name in MEASURES:
        values = [scores[name] for scores in measures if name in scores]
        if values:
            row[name] = round(float(np.mean(values)), 4)
            row[f"{name}_sd"] = round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None
    return row


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the experiment and prints a table."""
    parser = argparse.ArgumentParser(prog="sotto bench run clustering", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=default_data(), help="folder of benchmark data")
    parser.add_argument("--sets", nargs="+", help="names of data sets; all by default")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=unused)
    options = parser.parse_args(argv)
    real, skipped = embedded_sets(options.data)
    every = {**mixtures(), **real}
    chosen = options.sets or list(every)
    for name in [*skipped, *chosen]:
        if name not in every:
            print(f"skipped {name}: {skipped.get(name, 'no such data set')}")
    rows, about = [], {}
    for points in (every[name]() for name in chosen if name in every):
        about[points.name] = {"points": len(points.labels), "about": points.about}
        for row in measure(points, options.epsilon, options.runs):
            rows.append(row)
            print(_line(row), flush=True)
    if options.out:
        settings = {"runs": options.runs, "delta": DELTA, "depth": 6, "sets": about, "skipped": skipped}
        write_new(options.out, json.dumps({**settings, "machine": describe(), "rows": rows}, indent=1) + "\n")


def _line(row: dict[str, Any]) -> str:
    price = f"{row['adjacency']} epsilon {row['epsilon']:g}" if row["epsilon"] else "not private"
    figures = "  ".join(
        f"{name} {row[name]:.2f}" + (f" ({row[name + '_sd']:.2f})" if row[name + "_sd"] is not None else "")
        for name in MEASURES
        if name in row
    )
    return f"{row['set']:<16} {row['mode']:<30} {price:<24} {figures}"


def scores(labels: Names, clusters: Names) -> dict[str, float]:
    """Number of clusters, purity, adjusted Rand index and normalised mutual information.

    Example:
        >>> found = scores(np.array([0, 0, 1, 1]), np.array([7, 7, 7, 5]))
        >>> {name: round(value, 3) for name, value in found.items()}
        {'clusters': 2, 'purity': 0.75, 'ari': 0.0, 'nmi': 0.344}
    """
    table = contingency(labels, clusters)
    return {
        "clusters": int(table.shape[1]),
        "purity": float(table.max(axis=0).sum() / table.sum()),
        "ari": _adjusted_rand(table),
        "nmi": _mutual_information(table),
    }


def contingency(labels: Names, clusters: Names) -> FloatArray:
    """Points by label and cluster, shape (labels, clusters)."""
    row, column = (np.unique(names, return_inverse=True)[1] for names in (labels, clusters))
    table = np.zeros((int(row.max()) + 1, int(column.max()) + 1))
    np.add.at(table, (row, column), 1)
    return table


def _adjusted_rand(table: FloatArray) -> float:
    together, by_label, by_cluster = (_pairs(part) for part in (table, table.sum(axis=1), table.sum(axis=0)))
    expected = by_label * by_cluster / _pairs(table.sum(keepdims=True))
    most = (by_label + by_cluster) / 2
    return float((together - expected) / (most - expected)) if most != expected else 0.0


def _pairs(counts: FloatArray) -> float:
    return float((counts * (counts - 1) / 2).sum())


def _mutual_information(table: FloatArray) -> float:
    joint = table / table.sum()
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    shared = float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())
    mean = (_entropy(joint.sum(axis=1)) + _entropy(joint.sum(axis=0))) / 2
    return shared / mean if mean > 0 else 0.0


def _entropy(shares: FloatArray) -> float:
    kept = shares[shares > 0]
    return float(-(kept * np.log(kept)).sum())


def k_means(points: FloatArray, clusters: int, seed: int) -> Names:
    """Lloyd's algorithm from spread-out starts; the best of five by squared distance. Not private."""
    from scipy.cluster.vq import kmeans2

    best, least = np.zeros(len(points), dtype=np.int64), np.inf
    for attempt in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty cluster is no reason to stop
            centres, names = kmeans2(points, clusters, minit="++", seed=1000 * seed + attempt)
        distance = float(((points - centres[names]) ** 2).sum())
        if distance < least:
            best, least = names, distance
    return np.asarray(best)


if __name__ == "__main__":
    main()
